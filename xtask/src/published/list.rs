//! A list of tests that do not pass, each with its reason, and how it is held against what happened.
//!
//! ```text
//!   # a comment
//!   run 2 = 1234                     so many tests are run on two ranks
//!   test_win.*                       one-sided
//!   test_comm.TestCommWorld.testX    intercommunicators
//!   leave test_comm_inter            intercommunicators
//! ```
//! A module that is left is not run: where a function is not there, some of its ranks would wait for others
//! that have given up. A line with `*` stands for all tests of a class or a module. Both directions count: a test that fails on
//! any number of ranks must be listed, and one that is listed must fail on some number of ranks, so that a line
//! goes as soon as it is not needed any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::replace;

/// How a test ended, the worst of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    Passed,
    Skipped,
    /// With the reason.
    Failed(String),
}

/// How tests ended, by the number of ranks and the test's name.
pub(super) type Results = BTreeMap<(u32, String), Ended>;

/// What the library says where it does not have a function.
pub(super) const UNSUPPORTED: &str = "MPI_ERR_UNSUPPORTED_OPERATION";

const NONBLOCKING: &str = "nonblocking collectives";
const PERSISTENT: &str = "persistent collectives";
const NEIGHBOURS: &str = "neighbourhood collectives";
const TOPOLOGIES: &str = "topologies";
const INTER: &str = "intercommunicators";
const THREADS: &str = "threads";
const ONE_SIDED: &str = "one-sided";
const FILES: &str = "I/O";
const SESSIONS: &str = "sessions";
const SPAWN: &str = "spawn and connect";
const PARTITIONED: &str = "partitioned";
const TOOLS: &str = "tools";

/// The reasons that there may be.
const REASONS: &[&str] = &[
    NONBLOCKING,
    PERSISTENT,
    NEIGHBOURS,
    TOPOLOGIES,
    INTER,
    THREADS,
    ONE_SIDED,
    FILES,
    SESSIONS,
    SPAWN,
    PARTITIONED,
    TOOLS,
];

/// The list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    /// Tests run, by the number of ranks.
    run: BTreeMap<u32, usize>,
    /// Names or patterns, and the reason of each.
    lines: BTreeMap<String, String>,
    /// Modules that are not run, and the reason of each.
    left: BTreeMap<String, String>,
}

/// What is no test: the work for a whole class or module, and the end of a module's job.
const NO_TESTS: &[&str] =
    &[".setUpClass", ".tearDownClass", ".setUpModule", ".tearDownModule", JOB_ENDED];

/// Stands for the end of a module's job, which no list excuses.
pub(super) const JOB_ENDED: &str = ".ended";

fn is_test(name: &str) -> bool {
    !NO_TESTS.iter().any(|end| name.ends_with(end))
}

fn covers(line: &str, test: &str) -> bool {
    match line.strip_suffix('*') {
        Some(start) => test.starts_with(start) && !test.ends_with(JOB_ENDED),
        None => line == test,
    }
}

fn count(all: &Results) -> BTreeMap<u32, usize> {
    let mut run = BTreeMap::new();
    for (ranks, _) in all.keys().filter(|(_, test)| is_test(test)) {
        *run.entry(*ranks).or_default() += 1;
    }
    run
}

impl List {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        Self::parse(&text.with_context(|| format!("cannot read {}", path.display()))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut list = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with('#') {
                continue;
            }
            let wrong = || format!("not a line of the list: {line:?}");
            if let Some(numbers) = line.strip_prefix("run ") {
                let (ranks, tests) = numbers.split_once('=').with_context(wrong)?;
                let tests = tests.trim().parse().with_context(wrong)?;
                list.run.insert(ranks.trim().parse().with_context(wrong)?, tests);
                continue;
            }
            let (lines, line) = match line.strip_prefix("leave ") {
                Some(rest) => (&mut list.left, rest.trim_start()),
                None => (&mut list.lines, line),
            };
            let (name, reason) = line.split_once(char::is_whitespace).with_context(wrong)?;
            let reason = reason.trim();
            ensure!(REASONS.contains(&reason), "{reason:?} is no reason that counts: {line:?}");
            lines.insert(name.to_owned(), reason.to_owned());
        }
        Ok(list)
    }

    /// The list of what has failed because functions are not there.
    ///
    /// # Errors
    /// For what has failed in another way.
    pub(super) fn of(all: &Results) -> Result<Self> {
        let mut failed = BTreeMap::new();
        let mut others = Vec::new();
        for ((ranks, test), ended) in all {
            let Ended::Failed(why) = ended else { continue };
            match reason_of(why) {
                Some(reason) => drop(failed.insert(test.as_str(), reason)),
                None => others.push(format!("{test} on {ranks}: {why}")),
            }
        }
        others.retain(|line| !failed.contains_key(line.split(' ').next().unwrap_or_default()));
        ensure!(
            others.is_empty(),
            "{} tests fail for no reason that counts:\n{}",
            others.len(),
            others.join("\n")
        );
        let passing: BTreeSet<&str> = passing(all).collect();
        let mut lines = BTreeMap::new();
        for (test, reason) in &failed {
            // The widest pattern under which nothing passes and all has this reason.
            let class = test.rsplit_once('.').map_or(*test, |(class, _)| class);
            let module = test.split('.').next().unwrap_or(test);
            let patterns = [format!("{module}.*"), format!("{class}.*")];
            let fits = |pattern: &&String| {
                !passing.iter().any(|test| covers(pattern, test))
                    && failed.iter().all(|(test, other)| other == reason || !covers(pattern, test))
            };
            let line = patterns.iter().find(fits).cloned().unwrap_or_else(|| (*test).to_owned());
            lines.insert(line, (*reason).to_owned());
        }
        Ok(Self { run: count(all), lines, left: BTreeMap::new() })
    }

    /// Whether a module is not run.
    pub(super) fn leaves(&self, module: &str) -> bool {
        self.left.contains_key(module)
    }

    /// With the modules that another list leaves.
    pub(super) fn leaving(self, before: Self) -> Self {
        Self { left: before.left, ..self }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn write(&self, path: &Path, title: &str) -> Result<()> {
        let mut text = format!(
            "# Tests of {title} that do not pass, and why. `cargo xtask published` holds this list against what\n\
             # happens, in both directions; `cargo xtask published --update` writes it.\n",
        );
        for (ranks, tests) in &self.run {
            text += &format!("run {ranks} = {tests}\n");
        }
        for (module, reason) in &self.left {
            text += &format!("leave {module}  {reason}\n");
        }
        let width = self.lines.keys().map(String::len).max().unwrap_or(0);
        for (name, reason) in &self.lines {
            text += &format!("{name:<width$}  {reason}\n");
        }
        replace(path, &text)
    }

    fn reason(&self, test: &str) -> Option<&str> {
        self.lines.iter().find(|(line, _)| covers(line, test)).map(|(_, reason)| reason.as_str())
    }

    /// Holds the list against what happened to some tests; `complete` if these are all.
    ///
    /// # Errors
    /// With a line for each difference.
    pub(super) fn compare(&self, all: &Results, complete: bool) -> Result<()> {
        let mut said = Vec::new();
        for ((ranks, test), ended) in all {
            if let Ended::Failed(why) = ended
                && self.reason(test).is_none()
            {
                said.push(format!("{test} fails on {ranks} ranks and is not listed: {why}"));
            }
        }
        if complete {
            for test in passing(all).filter(|test| self.reason(test).is_some()) {
                said.push(format!("{test} is listed and does not fail"));
            }
            for line in self.lines.keys() {
                if !all.keys().any(|(_, test)| covers(line, test)) {
                    said.push(format!("{line} is listed and there is no such test"));
                }
            }
            let run = count(all);
            if run != self.run {
                said.push(format!("{run:?} tests are run where {:?} are listed", self.run));
            }
        }
        match said[..] {
            [] => Ok(()),
            _ => bail!("tests and list differ:\n{}", said.join("\n")),
        }
    }

    /// How many tests are listed for which reason.
    pub(super) fn by_reason(&self, all: &Results) -> String {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for ((_, test), ended) in all {
            if let (Ended::Failed(_), Some(reason)) = (ended, self.reason(test)) {
                *numbers.entry(reason).or_default() += 1;
            }
        }
        let listed: usize = numbers.values().sum();
        let left: Vec<String> =
            self.left.iter().map(|(module, reason)| format!("; {module} left: {reason}")).collect();
        let parts: Vec<String> =
            numbers.iter().map(|(reason, number)| format!("{reason} {number}")).collect();
        format!("{listed} listed ({}){}", parts.join(", "), left.concat())
    }
}

/// Tests that fail on no number of ranks, and pass on some.
fn passing(all: &Results) -> impl Iterator<Item = &str> {
    let mut failing = BTreeMap::new();
    for ((_, test), ended) in all {
        let failed = matches!(ended, Ended::Failed(_));
        let (any_failed, any_passed) = failing.entry(test.as_str()).or_insert((false, false));
        *any_failed |= failed;
        *any_passed |= *ended == Ended::Passed;
    }
    failing.into_iter().filter(|(_, (failed, passed))| !failed && *passed).map(|(test, _)| test)
}

/// The reason behind an error that says that a function is not there.
fn reason_of(why: &str) -> Option<&'static str> {
    if !why.contains(UNSUPPORTED) {
        return None;
    }
    let name = why.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    name.filter_map(|word| word.strip_prefix("MPI_")).find_map(chapter_of)
}

/// The reason that a function belongs to, without `MPI_`.
fn chapter_of(function: &str) -> Option<&'static str> {
    let function = function.strip_suffix("_c").unwrap_or(function);
    let begins = |starts: &[&str]| starts.iter().any(|start| function.starts_with(start));
    Some(match function {
        _ if begins(&["T_"]) => TOOLS,
        _ if begins(&["File_", "Register_datarep"]) => FILES,
        _ if begins(&[
            "Win_",
            "Put",
            "Get_accumulate",
            "Rput",
            "Rget",
            "Raccumulate",
            "Accumulate",
        ]) =>
        {
            ONE_SIDED
        }
        "Get" | "Fetch_and_op" | "Compare_and_swap" => ONE_SIDED,
        _ if begins(&[
            "Comm_spawn",
            "Comm_connect",
            "Comm_accept",
            "Comm_join",
            "Open_port",
            "Close_port",
        ]) =>
        {
            SPAWN
        }
        "Publish_name" | "Unpublish_name" | "Lookup_name" => SPAWN,
        _ if begins(&["Neighbor_", "Ineighbor_"]) => NEIGHBOURS,
        _ if begins(&["Cart", "Graph", "Dist_graph", "Dims_create", "Topo_"]) => TOPOLOGIES,
        _ if begins(&["Intercomm_", "Comm_remote_"]) => INTER,
        _ if begins(&["Session_", "Comm_create_from_group", "Group_from_session"]) => SESSIONS,
        _ if begins(&["Psend_init", "Precv_init", "Pready", "Parrived"]) => PARTITIONED,
        _ if begins(&[
            "Iall", "Ibarrier", "Ibcast", "Igather", "Iscatter", "Ireduce", "Iscan", "Iexscan",
        ]) =>
        {
            NONBLOCKING
        }
        "Comm_idup" | "Comm_idup_with_info" => NONBLOCKING,
        _ if function.ends_with("_init")
            && !begins(&["Send_", "Bsend_", "Ssend_", "Rsend_", "Recv_"]) =>
        {
            PERSISTENT
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(why: &str) -> Ended {
        Ended::Failed(why.to_owned())
    }

    fn unsupported(function: &str) -> Ended {
        failed(&format!("Exception: {UNSUPPORTED}: not there; the last one: {function}: no"))
    }

    fn results(of: &[(u32, &str, Ended)]) -> Results {
        of.iter()
            .map(|(ranks, test, ended)| ((*ranks, (*test).to_owned()), ended.clone()))
            .collect()
    }

    #[test]
    fn what_fails_and_what_is_listed_must_agree() {
        let all = results(&[
            (1, "m.A.x", Ended::Passed),
            (1, "m.A.y", unsupported("MPI_Win_create")),
            (2, "m.A.x", unsupported("MPI_Ibarrier")),
            (2, "m.A.y", Ended::Skipped),
            (1, "m.B.x", Ended::Passed),
            (1, "n.C.x", unsupported("MPI_File_open_c")),
            (1, "n.C.y", Ended::Skipped),
        ]);
        let list = List::of(&all).unwrap();
        let lines: Vec<_> = list.lines.iter().map(|(line, reason)| (&**line, &**reason)).collect();
        assert_eq!(lines, [("m.A.x", NONBLOCKING), ("m.A.y", ONE_SIDED), ("n.*", FILES)]);
        list.compare(&all, true).unwrap();

        let mut more = all.clone();
        more.insert((4, "m.B.x".to_owned()), failed("AssertionError: 1 != 2"));
        let said = list.compare(&more, true).unwrap_err().to_string();
        assert!(said.contains("m.B.x fails on 4 ranks and is not listed: Assert"), "{said}");
        assert!(List::of(&more).unwrap_err().to_string().contains("m.B.x on 4"));

        let mut less = all.clone();
        less.insert((1, "n.C.x".to_owned()), Ended::Passed);
        let said = list.compare(&less, true).unwrap_err().to_string();
        assert!(said.contains("n.C.x is listed and does not fail"), "{said}");

        less.retain(|(_, test), _| !test.starts_with("n."));
        let said = list.compare(&less, true).unwrap_err().to_string();
        assert!(said.contains("n.* is listed and there is no such test"), "{said}");
        assert!(said.contains("tests are run where"), "{said}");
        list.compare(&less, false).unwrap();
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let all =
            results(&[(1, "m.A.y", unsupported("MPI_Win_create")), (2, "m.A.x", Ended::Passed)]);
        let list = List::of(&all).unwrap();
        let directory = std::env::temp_dir().join(format!("bowline-list-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("list.txt");
        list.write(&file, "a program").unwrap();
        assert_eq!(List::read(&file).unwrap(), list);
        std::fs::remove_dir_all(&directory).unwrap();
        for wrong in ["m.A.y", "m.A.y  because", "run 1", "run x = 3"] {
            assert!(List::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn functions_belong_to_reasons() {
        for (function, reason) in [
            ("Iallreduce_c", Some(NONBLOCKING)),
            ("Allreduce_init_c", Some(PERSISTENT)),
            ("Send_init", None),
            ("Psend_init", Some(PARTITIONED)),
            ("Neighbor_alltoall_init", Some(NEIGHBOURS)),
            ("Get", Some(ONE_SIDED)),
            ("Get_count", None),
            ("Group_translate_ranks", None),
            ("Graph_create", Some(TOPOLOGIES)),
        ] {
            assert_eq!(chapter_of(function), reason, "{function}");
        }
    }
}
