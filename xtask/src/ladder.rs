//! The ladder of tests: one step after the other, cheap ones first, one line for each.
//!
//! A step is a name and a function. It runs a command whose output is kept in
//! `target/xtask/STEP.log` and shown when it fails; of `cargo test` the closing lines are shown
//! as they come. A step that cannot run says why it was left out; only the ones that a machine
//! may lack a program for can do that.

mod command;
mod smoke;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::needs;
use crate::netns;
use crate::tidy;
use crate::workspace::Workspace;
use command::{Run, Show};

/// How to climb.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Leave out what takes minutes: loom models and documentation
    #[arg(long)]
    quick: bool,
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

/// A step of a ladder.
struct Step {
    name: &'static str,
    /// Not part of `--quick`.
    slow: bool,
    run: fn(&Workspace) -> Result<Outcome>,
}

const TEST: &[Step] = &[
    Step { name: "needs", slow: false, run: check_needs },
    Step { name: "format", slow: false, run: format },
    Step { name: "tidy", slow: false, run: tidy },
    Step { name: "clippy", slow: false, run: clippy },
    Step { name: "tests", slow: false, run: tests },
    Step { name: "mpi-over-tcp", slow: false, run: mpi_over_tcp },
    Step { name: "mpi-over-ofi", slow: true, run: mpi_over_ofi },
    Step { name: "fuzz-corpora", slow: false, run: fuzz_corpora },
    Step { name: "netns", slow: true, run: netns },
    Step { name: "guest", slow: true, run: guest },
    Step { name: "loom", slow: true, run: loom },
    Step { name: "docs", slow: true, run: docs },
];

/// Runs every test.
pub(crate) fn test(workspace: &Workspace, options: &Options) -> Result<()> {
    climb(workspace, options, TEST)
}

/// Starts what a user starts first.
pub(crate) fn smoke(workspace: &Workspace, options: &Options) -> Result<()> {
    climb(workspace, options, smoke::STEPS)
}

fn climb(workspace: &Workspace, options: &Options, steps: &[Step]) -> Result<()> {
    let start = Instant::now();
    let mut failed = Vec::new();
    let mut skipped = 0;
    for Step { name, slow, run } in steps {
        if options.quick && *slow {
            skipped += 1;
            report(name, "skipped", Duration::ZERO, "left out by --quick");
            continue;
        }
        println!("{name:<14} ...");
        let begin = Instant::now();
        match run(workspace) {
            Ok(Outcome::Passed(note)) => report(name, "ok", begin.elapsed(), &note),
            Ok(Outcome::Skipped(why)) => {
                skipped += 1;
                report(name, "skipped", begin.elapsed(), &why);
            }
            Err(error) => {
                report(name, "FAILED", begin.elapsed(), &format!("{error:#}"));
                failed.push(*name);
                if !options.keep_going {
                    break;
                }
            }
        }
    }
    let seconds = start.elapsed().as_secs();
    if failed.is_empty() {
        println!("all steps passed, {skipped} skipped, in {seconds} s");
        Ok(())
    } else {
        bail!("failed after {seconds} s: {}", failed.join(", "))
    }
}

fn report(name: &str, word: &str, took: Duration, note: &str) {
    println!("{name:<14} {word:<7} {:>6.1} s  {note}", took.as_secs_f64());
}

fn check_needs(_: &Workspace) -> Result<Outcome> {
    let missing = needs::missing(needs::OF_TESTS);
    if !missing.is_empty() {
        bail!("{}", needs::explain(&missing));
    }
    Ok(Outcome::Passed(format!("{} programs found", needs::OF_TESTS.len())))
}

fn format(workspace: &Workspace) -> Result<Outcome> {
    let hint = "`cargo fmt --all` does it";
    Run::cargo(workspace, "format", &["fmt", "--all", "--check"]).hint(hint).run()?;
    Run::cargo(workspace, "format-fuzz", &["fmt", "--check"]).inside("fuzz").hint(hint).run()?;
    Ok(Outcome::Passed(String::new()))
}

fn tidy(workspace: &Workspace) -> Result<Outcome> {
    tidy::run(workspace)?;
    Ok(Outcome::Passed(String::new()))
}

fn clippy(workspace: &Workspace) -> Result<Outcome> {
    let features = ["--features", "bowline/ofi,bowline/verbs"];
    let targets = ["clippy", "--workspace", "--all-targets"];
    let arguments = [&targets[..], &features, &["--", "-D", "warnings"]].concat();
    Run::cargo(workspace, "clippy", &arguments).run()?;
    Ok(Outcome::Passed(String::new()))
}

fn tests(workspace: &Workspace) -> Result<Outcome> {
    let arguments = ["test", "--workspace", "--no-fail-fast"];
    // A library that libfabric loads writes a file for each killed process otherwise.
    let run = Run::cargo(workspace, "tests", &arguments).env("HFI_NO_BACKTRACE", "1");
    let output = run.env("IPATH_NO_BACKTRACE", "1").show(Show::Closing).run()?;
    Ok(Outcome::Passed(output.counted()?))
}

/// The tests of the MPI layer once more, with TCP in place of shared memory.
fn mpi_over_tcp(workspace: &Workspace) -> Result<Outcome> {
    let arguments = ["test", "-p", "bowline-mpi", "--test", "mpi"];
    let run = Run::cargo(workspace, "mpi-over-tcp", &arguments);
    let output = run.env("BOWLINE_TRANSPORTS", "self,tcp").show(Show::Closing).run()?;
    Ok(Outcome::Passed(output.counted()?))
}

/// The same with libfabric: over its sockets, and over its shared memory, where nobody can sleep.
fn mpi_over_ofi(workspace: &Workspace) -> Result<Outcome> {
    let features = ["--features", "bowline/ofi"];
    let arguments = [&["test", "-p", "bowline-mpi"][..], &features, &["--test", "mpi"]].concat();
    let mut counted = Vec::new();
    for provider in ["tcp", "shm"] {
        let run = Run::cargo(workspace, &format!("mpi-over-ofi-{provider}"), &arguments)
            .env("BOWLINE_TRANSPORTS", "self,ofi")
            .env("BOWLINE_OFI_PROVIDER", provider)
            // The tests open hundreds of interfaces; with these, `ofi_rxm` of libfabric clears a
            // tenth of the memory for each.
            .env("FI_OFI_RXM_MSG_TX_SIZE", "128")
            .env("FI_OFI_RXM_MSG_RX_SIZE", "128")
            .env("FI_OFI_RXM_BUFFER_SIZE", "8192")
            .env("HFI_NO_BACKTRACE", "1")
            .env("IPATH_NO_BACKTRACE", "1");
        counted.push(format!("{provider}: {}", run.show(Show::Closing).run()?.counted()?));
    }
    Ok(Outcome::Passed(counted.join("; ")))
}

/// Jobs on several hosts.
fn netns(workspace: &Workspace) -> Result<Outcome> {
    Ok(match netns::step(workspace)? {
        netns::Outcome::Passed(cases) => Outcome::Passed(format!("{cases} cases")),
        netns::Outcome::Skipped(why) => Outcome::Skipped(why),
    })
}

/// Every input that a fuzz target was started from or that once broke something. The fuzz crate
/// is a workspace of its own, since its targets need nightly; this part of it does not.
fn fuzz_corpora(workspace: &Workspace) -> Result<Outcome> {
    let target = workspace.metadata.target_directory.as_std_path().join("fuzz");
    let output = Run::cargo(workspace, "fuzz-corpora", &["test"])
        .inside("fuzz")
        // As in `fuzz/.cargo/config.toml`, which a user's own flags would override.
        .env("RUSTFLAGS", "--cfg fuzzing")
        .env("CARGO_TARGET_DIR", target)
        .show(Show::Closing)
        .run()?;
    Ok(Outcome::Passed(output.counted()?))
}

/// What wants RDMA devices, in a virtual machine that has them.
fn guest(workspace: &Workspace) -> Result<Outcome> {
    let missing = needs::missing(needs::OF_GUEST);
    if !missing.is_empty() {
        return Ok(Outcome::Skipped(needs::explain(&missing)));
    }
    let itself = std::env::current_exe()?;
    let output = Run::program(workspace, "guest", itself, &["guest"]).show(Show::Closing).run()?;
    Ok(Outcome::Passed(output.counted()?))
}

/// The models of the lock-free algorithms. They want optimised code and another configuration of
/// every crate, hence a directory of their own; the long link step of `release` brings nothing.
fn loom(workspace: &Workspace) -> Result<Outcome> {
    let target = workspace.metadata.target_directory.as_std_path().join("loom");
    let arguments = ["test", "--package", "bowline-base", "--release", "--lib", "loom_"];
    let output = Run::cargo(workspace, "loom", &arguments)
        .env("RUSTFLAGS", "--cfg bowline_loom")
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .show(Show::Closing)
        .run()?;
    Ok(Outcome::Passed(output.counted()?))
}

fn docs(workspace: &Workspace) -> Result<Outcome> {
    Run::cargo(workspace, "docs", &["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    Ok(Outcome::Passed(String::new()))
}
