//! mpi4py, built from its source for the MPI ABI, and its own tests on several numbers of ranks.
//!
//! Each module of tests is a job of its own, so that one that ends badly takes no other with it. A module
//! that does not end is ended, and the test that was open then has failed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use super::list::{JOB_ENDED, List, UNSUPPORTED};
use super::{Options, Outcome, Places, succeed};

const VERSION: &str = "4.1.2";

/// Far beyond what any module takes: it tells a hang from a slow machine.
const WATCHDOG: Duration = Duration::from_secs(300);

/// How a test ended, the worst of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    Passed,
    Skipped,
    /// With the reason.
    Failed(String),
}

/// How the tests ended, by the number of ranks and the test's name.
pub(super) type Results = BTreeMap<(u32, String), Ended>;

/// A line that `record.py` writes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Begin { begin: String },
    End { end: String, how: How, why: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    Passed,
    Skipped,
    Failed,
}

/// Builds mpi4py where that has not been done, runs its tests and holds the list against them.
pub(super) fn run(places: &Places, options: &Options) -> Result<Outcome> {
    if let Err(why) = prepare(places)? {
        return Ok(Outcome::Skipped(format!("mpi4py {VERSION} cannot be had: {why:#}")));
    }
    let tests = places.made.join("source").join(format!("mpi4py-{VERSION}/test"));
    let results = places.made.join("results");
    let _ = std::fs::remove_dir_all(&results);
    std::fs::create_dir_all(&results).with_context(|| format!("cannot make {results:?}"))?;
    let modules = modules(&tests)?;
    let chosen: Vec<&String> = modules.iter().filter(|name| name.contains(&options.only)).collect();
    ensure!(!chosen.is_empty(), "no module of mpi4py's tests has {:?} in its name", options.only);
    let mut all = Results::new();
    for (number, module) in chosen.iter().enumerate() {
        for &ranks in &options.ranks {
            let begin = Instant::now();
            let these = run_module(places, &tests, &results, module, ranks)?;
            let failed = these.values().filter(|ended| matches!(ended, Ended::Failed(_))).count();
            println!(
                "published: {:>2}/{} {module} on {ranks}: {} tests, {failed} failed, {:.1} s",
                number + 1,
                chosen.len(),
                these.len(),
                begin.elapsed().as_secs_f64()
            );
            all.extend(these);
        }
    }
    let tried = all.len();
    let passed = all.values().filter(|ended| **ended == Ended::Passed).count();
    let skipped = all.values().filter(|ended| **ended == Ended::Skipped).count();
    let numbers =
        format!("mpi4py {VERSION}: {tried} tests run, {passed} passed, {skipped} skipped");
    if options.update {
        let list = List::of(&all)?;
        list.write(&places.list())?;
        return Ok(Outcome::Passed(format!("{numbers}; the list has {} lines", list.len())));
    }
    let list = List::read(&places.list())?;
    let chosen = |test: &str| test.contains(&options.only);
    list.compare(&all, chosen, options.only.is_empty() && options.ranks == super::RANKS)?;
    Ok(Outcome::Passed(format!("{numbers}, {}", list.by_reason(&all))))
}

/// The environment and the source. The inner error: they cannot be had here.
fn prepare(places: &Places) -> Result<Result<()>> {
    let source = places.made.join("source");
    let built = places.made.join("built");
    // What it was built from: another header or wrapper wants another build.
    let mut key = VERSION.as_bytes().to_vec();
    for part in ["include/mpi.h", "bin/mpicc"] {
        let path = places.prefix().join(part);
        key.extend(std::fs::read(&path).with_context(|| format!("cannot read {path:?}"))?);
    }
    if std::fs::read(&built).is_ok_and(|before| before == key) {
        return Ok(Ok(()));
    }
    let environment = places.made.join("python");
    if !places.python().exists()
        && let Err(why) = succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))
    {
        return Ok(Err(why));
    }
    let pip = || {
        let mut command = Command::new(places.python());
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
        command
    };
    let package = format!("mpi4py=={VERSION}");
    let fetched = pip()
        .args(["download", "--no-deps", "--no-binary", "mpi4py", &package, "--dest"])
        .arg(&source)
        .env("MPI4PY_BUILD_MPIABI", "1")
        .env("MPICC", places.prefix().join("bin/mpicc"))
        .status();
    let fetched = fetched.context("cannot start pip")?;
    if !fetched.success() {
        return Ok(Err(anyhow::anyhow!("pip does not get it from its registry")));
    }
    if let Err(why) = succeed(pip().args(["install", "numpy"])) {
        return Ok(Err(why));
    }
    let archive = source.join(format!("mpi4py-{VERSION}.tar.gz"));
    succeed(Command::new("tar").arg("-C").arg(&source).arg("-xzf").arg(archive))?;
    // From here on a failure is ours. What is tested is the library, so nothing is optimised.
    let built_now = succeed(
        pip()
            .args(["install", "--no-deps", "--force-reinstall"])
            .arg(source.join(format!("mpi4py-{VERSION}")))
            .env("MPI4PY_BUILD_MPIABI", "1")
            .env("MPICC", places.prefix().join("bin/mpicc"))
            .env("CFLAGS", "-O0"),
    );
    built_now.context("cannot build mpi4py with our mpicc")?;
    std::fs::write(&built, key).with_context(|| format!("cannot write {built:?}"))?;
    Ok(Ok(()))
}

fn modules(tests: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(tests).with_context(|| format!("cannot read {tests:?}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(module) = name.strip_suffix(".py").filter(|name| name.starts_with("test_")) {
            found.insert(module.to_owned());
        }
    }
    Ok(found)
}

fn run_module(
    places: &Places,
    tests: &Path,
    results: &Path,
    module: &str,
    ranks: u32,
) -> Result<Results> {
    let output = results.join(format!("{module}.{ranks}"));
    let log = results.join(format!("{module}.{ranks}.log"));
    let said = File::create(&log).with_context(|| format!("cannot write {log:?}"))?;
    let mut job = Command::new(places.prefix().join("bin/mpiexec"))
        .args(["-n", &ranks.to_string()])
        .arg(places.python())
        .arg(places.root.join("tests/published/record.py"))
        .args([tests, Path::new(module), &output])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(said.try_clone().context("cannot share the log")?)
        .stderr(said)
        .spawn()
        .context("cannot start mpiexec")?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = job.try_wait().context("cannot wait for mpiexec")? {
            break Some(status);
        }
        if begin.elapsed() > WATCHDOG {
            // Its guardian ends the ranks.
            job.kill().and_then(|()| job.wait()).context("cannot end mpiexec")?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut all = Results::new();
    let mut open = BTreeSet::new();
    for rank in 0..ranks {
        open.extend(read(&output, rank, ranks, &mut all)?);
    }
    for test in open {
        let why = "it was under way when the job ended".to_owned();
        all.insert((ranks, test), Ended::Failed(why));
    }
    match status {
        Some(status) if status.success() => {}
        Some(status) => {
            let why = format!("the job ended with {status}; see {}", log.display());
            all.insert((ranks, format!("{module}{JOB_ENDED}")), Ended::Failed(why));
        }
        None => {
            let why = format!("the job did not end within {WATCHDOG:?}");
            all.insert((ranks, format!("{module}{JOB_ENDED}")), Ended::Failed(why));
        }
    }
    Ok(all)
}

/// Adds what one rank has written; returns the tests that it has begun and not ended.
fn read(output: &Path, rank: u32, ranks: u32, all: &mut Results) -> Result<BTreeSet<String>> {
    let path = PathBuf::from(format!("{}.{rank}", output.display()));
    let mut open = BTreeSet::new();
    // A rank that ended before its first test has no file; the job has failed then.
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Begin { begin }) => {
                open.insert(begin);
            }
            Ok(Line::End { end, how, why }) => {
                open.remove(&end);
                let ended = match how {
                    How::Passed => Ended::Passed,
                    How::Skipped => Ended::Skipped,
                    How::Failed => Ended::Failed(why),
                };
                let worst = all.entry((ranks, end)).or_insert_with(|| ended.clone());
                // One rank's complaint that a function is not there says more than another's of what
                // followed from it.
                let says_more = matches!(&ended, Ended::Failed(why) if why.contains(UNSUPPORTED));
                if *worst < ended && !matches!(worst, Ended::Failed(_)) || says_more {
                    *worst = ended;
                }
            }
            // The last line of a rank that was killed.
            Err(_) if !text.ends_with('\n') => {}
            Err(error) => bail!("{}: {error}: {line}", path.display()),
        }
    }
    Ok(open)
}

/// Writes a text beside the place and moves it there.
pub(super) fn replace(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
