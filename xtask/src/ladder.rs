//! The ladder of tests: cheap steps first, then one build of all that is tested, then what runs.
//!
//! A step is a name and a function. It runs a command whose output is kept in
//! `target/xtask/STEP.log`; the closing lines of test programs are shown as they come. A step that
//! cannot run says why it was left out; only the ones that a machine may lack a program for can do
//! that.
//!
//! Behind the build there are several tracks, which run beside each other: programs that wait for
//! processes and time-outs leave the processors to those that compile and compute. The last thing that a
//! run prints is what was skipped, and then what failed.

mod command;
mod failure;
mod runner;
mod sanitize;
mod skips;
mod smoke;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::needs;
use crate::netns;
use crate::programs::{self, Program};
use crate::published;
use crate::tidy;
use crate::workspace::Workspace;
use command::{Run, Show, say};
use failure::{Failed, Failure};
use runner::Job;

/// How to climb.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Leave out what takes minutes: the guest, other hosts, loom models, documentation
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run every form of every product, and random programs for longer
    #[arg(long)]
    full: bool,
    /// Go on after a step has failed
    #[arg(long)]
    keep_going: bool,
}

/// How a step ended, if it did not fail.
enum Outcome {
    /// With a word on what was done, if there is one.
    Passed(String),
    /// With the reason.
    Skipped(String),
}

/// What the steps share.
struct Climb<'a> {
    workspace: &'a Workspace,
    options: &'a Options,
    /// What the step `build` has built.
    programs: Mutex<Vec<Program>>,
}

/// A step of a ladder.
struct Step {
    name: &'static str,
    /// Not part of `--quick`.
    slow: bool,
    run: fn(&Climb<'_>) -> Result<Outcome>,
}

const fn step(name: &'static str, run: fn(&Climb<'_>) -> Result<Outcome>) -> Step {
    Step { name, slow: false, run }
}

const fn slow(name: &'static str, run: fn(&Climb<'_>) -> Result<Outcome>) -> Step {
    Step { name, slow: true, run }
}

/// A ladder: steps one after the other, then tracks beside each other.
struct Ladder {
    first: &'static [Step],
    tracks: &'static [&'static [Step]],
}

const TEST: Ladder = Ladder {
    first: &[
        step("needs", check_needs),
        step("format", format),
        step("tidy", tidy),
        step("build", build),
    ],
    tracks: &[
        &[
            step("tests", tests),
            slow("proofs", proofs),
            step("mpi-over-tcp", mpi_over_tcp),
            slow("mpi-over-ofi", mpi_over_ofi),
            slow("netns", netns),
        ],
        // One virtual machine, which computes on one processor for most of its time; then jobs of few ranks, one after the
        // other, which take longest of all behind the compilers.
        &[slow("guest", guest), slow("published", published)],
        // These compile, in directories of their own or after each other.
        &[
            step("clippy", clippy),
            step("doc-tests", doc_tests),
            step("fuzz-corpora", fuzz_corpora),
            slow("loom", loom),
            slow("sanitizers", |climb| sanitize::run(climb.workspace, climb.options.full)),
            slow("docs", docs),
        ],
    ],
};

/// The crate whose ignored tests are the step `proofs`.
const MODEL: &str = "bowline-model";

const SMOKE: Ladder = Ladder { first: smoke::STEPS, tracks: &[] };

/// Runs every test.
pub(crate) fn test(workspace: &Workspace, options: &Options) -> Result<()> {
    climb(workspace, options, &TEST)
}

/// Starts what a user starts first.
pub(crate) fn smoke(workspace: &Workspace, options: &Options) -> Result<()> {
    climb(workspace, options, &SMOKE)
}

fn climb(workspace: &Workspace, options: &Options, ladder: &Ladder) -> Result<()> {
    let start = Instant::now();
    let climb = Climb { workspace, options, programs: Mutex::default() };
    let course = Course::default();
    course.run(&climb, ladder.first);
    std::thread::scope(|scope| {
        for track in ladder.tracks {
            scope.spawn(|| course.run(&climb, track));
        }
    });
    let seconds = start.elapsed().as_secs();
    let (skipped, failed) = course.ended();
    for line in skips::lines().into_iter().chain(skipped) {
        say(&format!("skipped: {line}"));
    }
    if failed.is_empty() {
        say(&format!("all steps passed in {seconds} s"));
        return Ok(());
    }
    // Nothing comes after this but the exit code.
    say(&format!("FAILED after {seconds} s:"));
    failed.iter().for_each(|failure| say(&failure.to_string()));
    std::process::exit(1);
}

/// What has happened so far.
#[derive(Default)]
struct Course {
    failed: Mutex<Vec<Failure>>,
    skipped: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Course {
    /// Runs steps until their end, or until one fails here or in another track.
    fn run(&self, climb: &Climb<'_>, steps: &[Step]) {
        for Step { name, slow, run } in steps {
            // Relaxed: it says nothing of other memory.
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if climb.options.quick && *slow {
                report(name, "skipped", Duration::ZERO, "left out by --quick");
                continue;
            }
            say(&format!("{name:<14} ..."));
            let begin = Instant::now();
            match run(climb) {
                Ok(Outcome::Passed(note)) => report(name, "ok", begin.elapsed(), &note),
                Ok(Outcome::Skipped(why)) => {
                    report(name, "skipped", begin.elapsed(), &why);
                    self.skipped.lock().expect(CALM).push(format!("{name}: {why}"));
                }
                Err(error) => {
                    report(name, "FAILED", begin.elapsed(), &format!("{error:#}"));
                    self.failed.lock().expect(CALM).extend(failures(climb, name, error));
                    // Relaxed: as above.
                    self.stop.fetch_or(!climb.options.keep_going, Ordering::Relaxed);
                }
            }
        }
    }

    /// What was skipped and what failed.
    fn ended(self) -> (Vec<String>, Vec<Failure>) {
        (self.skipped.into_inner().expect(CALM), self.failed.into_inner().expect(CALM))
    }
}

/// Why the locks are not poisoned.
const CALM: &str = "nobody panics with it";

/// An error of a step as a list of what failed.
fn failures(climb: &Climb<'_>, step: &str, error: anyhow::Error) -> Vec<Failure> {
    match error.downcast::<Failed>() {
        Ok(Failed(failures)) => failures,
        Err(error) => {
            let said = format!("{error:#}").lines().map(str::to_owned).collect();
            let command = match step {
                "tidy" | "netns" | "guest" | "published" => format!("cargo xtask {step}"),
                _ => "cargo xtask test".to_owned(),
            };
            vec![Failure { name: step.to_owned(), said, command, log: log(climb, step) }]
        }
    }
}

fn log(climb: &Climb<'_>, step: &str) -> PathBuf {
    let directory = climb.workspace.metadata.target_directory.as_std_path();
    directory.join("xtask").join(format!("{step}.log"))
}

fn report(name: &str, word: &str, took: Duration, note: &str) {
    say(&format!("{name:<14} {word:<7} {:>6.1} s  {note}", took.as_secs_f64()));
}

fn check_needs(_: &Climb<'_>) -> Result<Outcome> {
    let missing = needs::missing(needs::OF_TESTS);
    if !missing.is_empty() {
        bail!("{}", needs::explain(&missing));
    }
    let found = format!("{} programs found", needs::OF_TESTS.len());
    Ok(Outcome::Passed(match &needs::lacking()[..] {
        [] => found,
        lacking => format!("{found}; some tests pass over what lacks: {}", lacking.join("; ")),
    }))
}

fn format(climb: &Climb<'_>) -> Result<Outcome> {
    let (workspace, hint) = (climb.workspace, "`cargo fmt --all` does it");
    Run::cargo(workspace, "format", &["fmt", "--all", "--check"]).hint(hint).run()?;
    Run::cargo(workspace, "format-fuzz", &["fmt", "--check"]).inside("fuzz").hint(hint).run()?;
    Ok(Outcome::Passed(String::new()))
}

fn tidy(climb: &Climb<'_>) -> Result<Outcome> {
    tidy::run(climb.workspace)?;
    Ok(Outcome::Passed(String::new()))
}

/// One build for all steps that run tests.
fn build(climb: &Climb<'_>) -> Result<Outcome> {
    let log = log(climb, "build");
    let built = programs::build_all(climb.workspace, Some(&log));
    let built = built.inspect_err(|_| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        say(&lines[lines.len().saturating_sub(200)..].join("\n"));
    })?;
    let file = built_file(climb.workspace);
    programs::write(&file, &built)?;
    let tests = built.iter().filter(runner::is_test).count();
    *climb.programs.lock().expect(CALM) = built;
    Ok(Outcome::Passed(format!("{tests} test programs")))
}

/// Where tasks that are started by the ladder find what was built.
fn built_file(workspace: &Workspace) -> PathBuf {
    workspace.metadata.target_directory.as_std_path().join("xtask/programs.json")
}

fn clippy(climb: &Climb<'_>) -> Result<Outcome> {
    let features = ["--features", programs::ALL_FEATURES];
    let targets = ["clippy", "--workspace", "--all-targets"];
    let arguments = [&targets[..], &features, &["--", "-D", "warnings"]].concat();
    Run::cargo(climb.workspace, "clippy", &arguments).run()?;
    Ok(Outcome::Passed(String::new()))
}

/// What all tests have in their environment.
const USUAL: &[(&str, &str)] = &[
    // A library that libfabric loads writes a file for each killed process otherwise.
    ("HFI_NO_BACKTRACE", "1"),
    ("IPATH_NO_BACKTRACE", "1"),
    // After which a test hangs: tests run beside compilers and a virtual machine.
    ("BOWLINE_TEST_SECONDS", "600"),
];

/// What `--quick` leaves out of the tests: products of forms, queues over libfabric, programs under valgrind,
/// and the program below.
const QUICK_SKIPS: &[&str] = &["product::", "ofi::", "no_memory_is_lost"];

/// The conformance suite over libfabric.
const OVER_LIBFABRIC: &str = "bowline-ofi main";

/// By this they know how long the random programs of `chaos` run, in seconds.
const CHAOS: &str = "BOWLINE_CHAOS_SECONDS";

impl Climb<'_> {
    /// All products of forms are run with `--full`, otherwise one form of each kind.
    fn arguments(&self) -> Vec<String> {
        let left: &[&str] = match self.options {
            Options { full: true, .. } => &[],
            Options { quick: true, .. } => QUICK_SKIPS,
            _ => &["product::"],
        };
        left.iter().map(|word| format!("--skip={word}")).collect()
    }

    fn environment(&self, more: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        let all = USUAL.iter().chain(more);
        all.map(|&(name, value)| (name, value.to_owned())).collect()
    }
}

fn tests(climb: &Climb<'_>) -> Result<Outcome> {
    let programs = climb.programs.lock().expect(CALM).clone();
    let chaos = match climb.options {
        Options { quick: true, .. } => "10",
        Options { full: true, .. } => "60",
        _ => "30",
    };
    let job = |program| Job {
        program,
        arguments: climb.arguments(),
        environment: match &*Program::name(program) {
            "bowline-tests chaos" => climb.environment(&[(CHAOS, chaos)]),
            _ => climb.environment(&[]),
        },
    };
    let wanted = |program: &&Program| {
        runner::is_test(program) && !(climb.options.quick && program.name() == OVER_LIBFABRIC)
    };
    let jobs = programs.iter().filter(wanted).map(job).collect();
    runner::run(climb.workspace, "tests", jobs)
}

/// The proofs of collectives at every number of ranks, which take minutes: tests of the model that are ignored otherwise.
fn proofs(climb: &Climb<'_>) -> Result<Outcome> {
    if !climb.options.full {
        return Ok(Outcome::Skipped("it takes minutes, and belongs to --full".to_owned()));
    }
    let programs = climb.programs.lock().expect(CALM).clone();
    let of_model = |program: &&Program| runner::is_test(program) && program.package == MODEL;
    let job = |program| Job {
        program,
        arguments: vec!["--ignored".to_owned()],
        environment: climb.environment(&[]),
    };
    runner::run(climb.workspace, "proofs", programs.iter().filter(of_model).map(job).collect())
}

/// The tests of the MPI layer once more, in another environment.
fn mpi(climb: &Climb<'_>, step: &str, environment: &[(&'static str, &str)]) -> Result<Outcome> {
    let programs = climb.programs.lock().expect(CALM).clone();
    let program = programs.iter().find(|program| program.name() == "bowline-mpi main");
    let program = program.context("the tests of bowline-mpi were not built")?;
    let environment = climb.environment(environment);
    let job = Job { program, arguments: vec!["mpi::".to_owned()], environment };
    runner::run(climb.workspace, step, vec![job])
}

/// With TCP in place of shared memory.
fn mpi_over_tcp(climb: &Climb<'_>) -> Result<Outcome> {
    mpi(climb, "mpi-over-tcp", &[("BOWLINE_TRANSPORTS", "self,tcp")])
}

/// With libfabric: over its sockets, and over its shared memory, where nobody can sleep.
fn mpi_over_ofi(climb: &Climb<'_>) -> Result<Outcome> {
    let mut counted = Vec::new();
    for provider in ["tcp", "shm"] {
        let environment = [
            ("BOWLINE_TRANSPORTS", "self,ofi"),
            ("BOWLINE_OFI_PROVIDER", provider),
            // The tests open hundreds of interfaces; with these, `ofi_rxm` of libfabric clears a
            // tenth of the memory for each.
            ("FI_OFI_RXM_MSG_TX_SIZE", "128"),
            ("FI_OFI_RXM_MSG_RX_SIZE", "128"),
            ("FI_OFI_RXM_BUFFER_SIZE", "8192"),
        ];
        match mpi(climb, &format!("mpi-over-ofi-{provider}"), &environment)? {
            Outcome::Passed(tests) => counted.push(format!("{provider}: {tests}")),
            skipped @ Outcome::Skipped(_) => return Ok(skipped),
        }
    }
    Ok(Outcome::Passed(counted.join("; ")))
}

/// The examples of the documentation.
fn doc_tests(climb: &Climb<'_>) -> Result<Outcome> {
    let arguments = ["test", "--doc", "--workspace", "--features", programs::ALL_FEATURES];
    let output = Run::cargo(climb.workspace, "doc-tests", &arguments).show(Show::Closing).run()?;
    Ok(Outcome::Passed(output.counted()?))
}

/// Programs that others have published, over the C library.
fn published(climb: &Climb<'_>) -> Result<Outcome> {
    Ok(match published::step(climb.workspace)? {
        published::Outcome::Passed(numbers) => Outcome::Passed(numbers),
        published::Outcome::Skipped(why) => Outcome::Skipped(why),
    })
}

/// Jobs on several hosts.
fn netns(climb: &Climb<'_>) -> Result<Outcome> {
    Ok(match netns::step(climb.workspace)? {
        netns::Outcome::Passed(cases) => Outcome::Passed(format!("{cases} cases")),
        netns::Outcome::Skipped(why) => Outcome::Skipped(why),
    })
}

/// Every input that a fuzz target was started from or that once broke something. The fuzz crate
/// is a workspace of its own, since its targets need nightly; this part of it does not.
fn fuzz_corpora(climb: &Climb<'_>) -> Result<Outcome> {
    let target = climb.workspace.metadata.target_directory.as_std_path().join("fuzz");
    let output = Run::cargo(climb.workspace, "fuzz-corpora", &["test"])
        .inside("fuzz")
        // As in `fuzz/.cargo/config.toml`, which a user's own flags would override.
        .env("RUSTFLAGS", "--cfg fuzzing")
        .env("CARGO_TARGET_DIR", target)
        .show(Show::Closing)
        .run()?;
    Ok(Outcome::Passed(output.counted()?))
}

/// What wants RDMA devices, in a virtual machine that has them.
fn guest(climb: &Climb<'_>) -> Result<Outcome> {
    let missing = needs::missing(needs::OF_GUEST);
    if !missing.is_empty() {
        return Ok(Outcome::Skipped(needs::explain(&missing)));
    }
    let itself = std::env::current_exe()?;
    let built = built_file(climb.workspace);
    let built = built.to_str().context("a path that is no text")?;
    let run = Run::program(climb.workspace, "guest", itself, &["guest", "--built", built]);
    Ok(Outcome::Passed(run.show(Show::Closing).run()?.counted()?))
}

/// The models of the lock-free algorithms. They want optimised code and another configuration of
/// every crate, hence a directory of their own; the long link step of `release` brings nothing.
fn loom(climb: &Climb<'_>) -> Result<Outcome> {
    let target = climb.workspace.metadata.target_directory.as_std_path().join("loom");
    let arguments = ["test", "--package", "bowline-base", "--release", "--lib", "loom_"];
    let output = Run::cargo(climb.workspace, "loom", &arguments)
        .env("RUSTFLAGS", "--cfg bowline_loom")
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .show(Show::Closing)
        .run()?;
    Ok(Outcome::Passed(output.counted()?))
}

fn docs(climb: &Climb<'_>) -> Result<Outcome> {
    Run::cargo(climb.workspace, "docs", &["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    Ok(Outcome::Passed(String::new()))
}
