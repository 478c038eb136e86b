//! The tests under AddressSanitizer, as far as they run in one process.
//!
//! It wants a nightly compiler, and sees what that has compiled for it: neither the inside of the standard
//! library nor copies in assembly, which take another form by `--cfg bowline_sanitize`.
//!
//! Not here: jobs of several programs, which share memory that a sanitizer of one process knows nothing
//! of; and ThreadSanitizer, which takes for races what the standard library orders, unless that is
//! compiled for it too (`docs/testing.md` says what was tried).

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::Outcome;
use super::command::{Run, Show};
use crate::workspace::Workspace;

/// Unless the machine is named, build scripts and macros are compiled for the sanitizer too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

const TOOLCHAIN: &str = "nightly";

const RUSTFLAGS: &str = "-Zsanitizer=address --cfg bowline_sanitize";

/// What it must find: where that is not reported, nothing else would be.
const MISTAKE: &str = "fn main() {
    let gone = std::hint::black_box(&raw mut *Box::new(7u8));
    println!(\"{}\", unsafe { gone.read_volatile() });
}
";

/// Tests that are built and run together, as `cargo test` takes them.
struct Group {
    name: &'static str,
    /// Only with `--full`.
    full: bool,
    tests: &'static [&'static str],
}

const GROUPS: &[Group] = &[
    Group {
        name: "asan",
        full: false,
        tests: &["-p", "bowline-base", "-p", "bowline-self", "-p", "bowline-shm", "--lib"],
    },
    Group { name: "asan-uct", full: true, tests: &["-p", "bowline-uct", "--lib", "--tests"] },
    Group { name: "asan-sim", full: true, tests: &["-p", "bowline-sim", "--lib", "--tests"] },
    Group { name: "asan-shm", full: true, tests: &["-p", "bowline-shm", "--tests"] },
    Group {
        name: "asan-tcp",
        full: true,
        tests: &["-p", "bowline-tcp", "-p", "bowline-multirail", "--lib", "--tests"],
    },
    Group {
        name: "asan-receive-queue",
        full: true,
        tests: &["-p", "bowline-receive-queue", "--lib", "--tests"],
    },
    Group { name: "asan-ucp", full: true, tests: &["-p", "bowline-ucp", "--lib", "--tests"] },
    Group { name: "asan-mpi", full: true, tests: &["-p", "bowline-mpi", "--lib", "--tests"] },
];

/// The step.
pub(super) fn run(workspace: &Workspace, full: bool) -> Result<Outcome> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(Outcome::Skipped(format!("it is made for {TARGET}")));
    }
    if !has_toolchain() {
        let hint = format!("`rustup toolchain install {TOOLCHAIN} --profile minimal` brings it");
        return Ok(Outcome::Skipped(format!("the {TOOLCHAIN} compiler is not installed; {hint}")));
    }
    finds_a_mistake(workspace)?;
    let mut said = Vec::new();
    for group in GROUPS.iter().filter(|group| full || !group.full) {
        said.push(test(workspace, group)?);
    }
    Ok(Outcome::Passed(said.join("; ")))
}

fn has_toolchain() -> bool {
    Command::new("rustup")
        .args(["run", TOOLCHAIN, "rustc", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Compiles the mistake and runs it.
///
/// # Errors
/// When it is not reported.
fn finds_a_mistake(workspace: &Workspace) -> Result<()> {
    let directory = workspace.metadata.target_directory.as_std_path().join("asan");
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {directory:?}"))?;
    let (source, program) = (directory.join("mistake.rs"), directory.join("mistake"));
    std::fs::write(&source, MISTAKE).with_context(|| format!("cannot write {source:?}"))?;
    let compiled = Command::new("rustup")
        .args(["run", TOOLCHAIN, "rustc", "--edition=2024", "-O", "--target", TARGET])
        .args(RUSTFLAGS.split_whitespace())
        .arg("-o")
        .args([&program, &source])
        .output()
        .context("cannot start rustup")?;
    let said = String::from_utf8_lossy(&compiled.stderr);
    ensure!(compiled.status.success(), "{source:?} cannot be compiled: {said}");
    let run = Command::new(&program).output();
    let run = run.with_context(|| format!("cannot run {program:?}"))?;
    let said = String::from_utf8_lossy(&run.stderr);
    ensure!(
        !run.status.success() && said.contains("heap-use-after-free"),
        "the sanitizer does not find the mistake in {source:?}: {said}"
    );
    Ok(())
}

fn test(workspace: &Workspace, group: &Group) -> Result<String> {
    let target = workspace.metadata.target_directory.as_std_path().join("asan");
    let cargo = ["run", TOOLCHAIN, "cargo", "test", "--target", TARGET];
    let output = Run::program(workspace, group.name, "rustup", &[&cargo[..], group.tests].concat())
        .env("RUSTFLAGS", RUSTFLAGS)
        .env("CARGO_TARGET_DIR", target)
        // Buffers that a peer may yet write into are leaked on purpose, so leaks are no findings.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .show(Show::Closing)
        .run()?;
    output.counted()
}
