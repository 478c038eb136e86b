//! `cargo xtask published`: programs that others have published, built with our compiler wrappers against our
//! C library and run under our launcher.
//!
//! ```text
//!   target/published/  prefix   launcher, library, header and wrappers, as `install` lays them out
//!                      python   an environment with numpy and mpi4py, built against the prefix
//!                      source   mpi4py's source, which has its tests
//!                      rsmpi    the crate `mpi` with its examples
//!                      mpich    an environment with MPICH's wheel, for exchanging programs ([`programs`])
//!                      results  how each test ended, by module, number of ranks and rank
//! ```
//!
//! What is not expected to pass stands in `tests/published/mpi4py.txt` and `rsmpi.txt` ([`list`]). Where the packages cannot
//! be had, the step is left out with that reason; what fails after they are there is a failure.

mod list;
mod mpi4py;
mod programs;
mod rsmpi;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::install;
use crate::workspace::Workspace;
use list::{Ended, List, Results};

/// What to run.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Options {
    /// Only what has this in its name: modules of mpi4py's tests, `numpy.cg` and others, `exchange`,
    /// `example.X` of rsmpi
    #[arg(long, default_value = "")]
    only: String,
    /// Numbers of ranks for mpi4py
    #[arg(short = 'n', value_name = "LIST", value_delimiter = ',', default_values_t = RANKS)]
    ranks: Vec<u32>,
    /// Write the list anew from what fails because a function is not there
    #[arg(long, conflicts_with = "only")]
    update: bool,
}

const RANKS: [u32; 3] = [1, 2, 4];

/// Far beyond what any job takes: it distinguishes a hang from a slow machine.
const WATCHDOG: Duration = Duration::from_secs(600);

/// How it went.
pub(crate) enum Outcome {
    /// With the numbers.
    Passed(String),
    /// Nothing was run, for this reason.
    Skipped(String),
}

/// The directories.
#[derive(Debug)]
struct Places {
    /// Of the workspace.
    root: PathBuf,
    made: PathBuf,
}

impl Places {
    fn new(workspace: &Workspace) -> Self {
        let made = workspace.metadata.target_directory.as_std_path().join("published");
        Self { root: workspace.root.clone(), made }
    }

    fn prefix(&self) -> PathBuf {
        self.made.join("prefix")
    }

    fn python(&self) -> PathBuf {
        self.made.join("python/bin/python")
    }

    fn results(&self) -> PathBuf {
        self.made.join("results")
    }

    /// Where the file is that names what does not pass of a suite.
    fn list(&self, suite: &str) -> PathBuf {
        self.root.join("tests/published").join(format!("{suite}.txt"))
    }
}

/// Runs the task, with what cargo builds for that.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let places = Places::new(workspace);
    install::install(workspace, &places.prefix())?;
    match programs(&places, options)? {
        Outcome::Passed(numbers) => println!("published: {numbers}"),
        Outcome::Skipped(why) => bail!("{why}"),
    }
    Ok(())
}

/// The step of the ladder, with what that has built.
pub(crate) fn step(workspace: &Workspace) -> Result<Outcome> {
    let places = Places::new(workspace);
    install::install_tested(workspace, &places.prefix())?;
    programs(&places, &Options { ranks: RANKS.to_vec(), ..Options::default() })
}

fn programs(places: &Places, options: &Options) -> Result<Outcome> {
    let results = places.results();
    let _ = std::fs::remove_dir_all(&results);
    std::fs::create_dir_all(&results).with_context(|| format!("cannot make {results:?}"))?;
    let complete = options.only.is_empty();
    let (mut passed, mut skipped, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    let mut ours = Vec::new();
    let mut judge = |suite: &str, title: &str, all: Result<Results>, complete: bool| {
        let said = all.and_then(|all| held(places, suite, title, &all, complete, options.update));
        match said {
            Ok(said) => passed.push(said),
            Err(error) => wrong.push(format!("{title}: {error:#}")),
        }
    };
    match mpi4py::prepare(places)? {
        Ok(()) => {
            let list = List::read(&places.list("mpi4py"))?;
            let all = mpi4py::run(places, &list, &options.only, &options.ranks);
            judge("mpi4py", &mpi4py::title(), all, complete && options.ranks == RANKS);
            ours.push(("numpy programs", programs::numpy(places, &options.only, &options.ranks)));
        }
        Err(why) => skipped.push(format!("{} cannot be had: {why:#}", mpi4py::title())),
    }
    match rsmpi::prepare(places)? {
        Ok(()) => {
            judge("rsmpi", &rsmpi::title(), rsmpi::run(places, &options.only), complete);
        }
        Err(why) => skipped.push(format!("{} cannot be had: {why:#}", rsmpi::title())),
    }
    if "exchange".contains(&*options.only) {
        match programs::prepare(places)? {
            Ok(()) => ours.push(("exchange with mpich", programs::exchange(places))),
            Err(why) => skipped.push(format!("the wheel mpich cannot be had: {why:#}")),
        }
    }
    for (title, jobs) in ours {
        match jobs {
            Ok(jobs) => passed.push(format!("{title}: {jobs} jobs")),
            Err(error) => wrong.push(format!("{title}: {error:#}")),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(match passed.is_empty() {
        true => Outcome::Skipped(skipped.join("; ")),
        false => Outcome::Passed([passed, skipped].concat().join("; ")),
    })
}

/// Holds a suite's list against its results, or writes the list; what to say of it.
fn held(
    places: &Places,
    suite: &str,
    title: &str,
    all: &Results,
    complete: bool,
    update: bool,
) -> Result<String> {
    let number = |wanted: Ended| all.values().filter(|ended| **ended == wanted).count();
    let (passed, skipped) = (number(Ended::Passed), number(Ended::Skipped));
    let numbers = format!("{title}: {} run, {passed} passed, {skipped} skipped", all.len());
    let path = places.list(suite);
    if update {
        let list = List::of(all)?.leaving(List::read(&path)?);
        list.write(&path, title)?;
        return Ok(format!("{numbers}; the list has {} lines", list.len()));
    }
    let list = List::read(&path)?;
    list.compare(all, complete)?;
    Ok(format!("{numbers}, {}", list.by_reason(all)))
}

/// A program under our launcher.
struct Job {
    launcher: Child,
    /// What it prints.
    log: PathBuf,
}

impl Job {
    fn start(
        places: &Places,
        ranks: u32,
        program: &Path,
        words: &[&Path],
        name: &str,
    ) -> Result<Self> {
        let mut command = Command::new(places.prefix().join("bin/mpiexec"));
        command.args(["-n", &ranks.to_string()]).arg(program).args(words);
        Self::launch(places, &mut command, &format!("{name}.{ranks}"))
    }

    /// The same by a launcher with all that it needs.
    fn launch(places: &Places, command: &mut Command, name: &str) -> Result<Self> {
        let log = places.results().join(format!("{name}.log"));
        let said = File::create(&log).with_context(|| format!("cannot write {log:?}"))?;
        let launcher = command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(said.try_clone().context("cannot share the log")?)
            .stderr(said)
            .spawn()
            .context("cannot start mpiexec")?;
        Ok(Self { launcher, log })
    }

    /// Waits for its end: the exit code, none where it was ended because it took too long, and what was
    /// printed.
    fn end(mut self) -> Result<(Option<i32>, String)> {
        let begin = Instant::now();
        let code = loop {
            if let Some(status) = self.launcher.try_wait().context("cannot wait for mpiexec")? {
                break Some(status.code().unwrap_or(-1));
            }
            if begin.elapsed() > WATCHDOG {
                // The launcher's guardian ends the ranks.
                let ended = self.launcher.kill().and_then(|()| self.launcher.wait());
                ended.context("cannot end mpiexec")?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let said =
            std::fs::read(&self.log).with_context(|| format!("cannot read {:?}", self.log))?;
        Ok((code, String::from_utf8_lossy(&said).into_owned()))
    }
}

/// Writes a text beside the place and moves it there.
fn replace(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Runs a command to its end; the error has the last line that it printed.
fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(20)..];
    bail!("{program} ended with {}:\n{}", output.status, last.join("\n"))
}
