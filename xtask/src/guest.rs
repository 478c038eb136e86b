//! `cargo xtask guest`: runs test programs in a virtual machine that has RDMA devices.
//!
//! Few machines have such devices, and fewer kernels the driver that imitates them. The guest is
//! Debian's kernel with soft-RoCE under QEMU, which needs neither root nor hardware support:
//!
//! ```text
//!   cargo test --no-run ─► programs ─┐
//!   apt-get download ──► kernel ─────┼─► initial RAM files ─► QEMU ─► what they print, status
//!   ldd ───────────────► libraries ──┘        rxe0 ══ veth ══ rxe1
//! ```
//!
//! A guest whose devices do not come up fails the run, and tests that skip without a device know
//! by `BOWLINE_TEST_GUEST` that they must not. It is no place for figures: emulated time means
//! nothing.

mod archive;
mod boot;
mod image;
mod kernel;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::needs;
use crate::workspace::Workspace;
use boot::Machine;
use kernel::Kernel;

/// What to run in the guest.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Run the tests of this package instead of the usual list
    #[arg(long, short)]
    package: Option<String>,
    /// Of the package, only this test program (`lib` for its unit tests)
    #[arg(long)]
    test: Option<String>,
    /// A shell command to run before the programs, for instance one that loses packets
    #[arg(long)]
    before: Option<String>,
    /// Run this shell command only; `--package` brings programs along for it
    #[arg(long)]
    command: Option<String>,
    /// Seconds after which the guest is ended
    #[arg(long, default_value_t = 1500)]
    limit: u64,
    /// Processors of the guest
    #[arg(long, default_value_t = 2)]
    processors: u32,
    /// Show the kernel's messages
    #[arg(long, short)]
    verbose: bool,
    /// Passed to each test program
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// A package whose tests belong into the guest.
#[derive(Debug)]
struct Entry {
    package: &'static str,
    /// What cargo is told of features.
    features: &'static [&'static str],
    /// Its test programs; none stands for all of them.
    tests: &'static [&'static str],
    /// Arguments and environment of the programs.
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// What runs when nothing else is asked for. Programs of other layers over verbs are added here.
const USUAL: &[Entry] = &[Entry {
    package: "bowline-verbs",
    features: &[],
    tests: &[],
    arguments: &["--test-threads=2"],
    environment: &[],
}];

/// What runs only when its package is asked for, since it takes many minutes: protocols and MPI
/// programs, each with several ranks, over verbs.
const ON_REQUEST: &[Entry] = &[Entry {
    package: "bowline-mpi",
    features: &["--features", "bowline/verbs"],
    tests: &["mpi"],
    arguments: &["--test-threads=1"],
    environment: &[("BOWLINE_TRANSPORTS", "self,verbs")],
}];

/// A test program, built.
#[derive(Debug)]
struct Program {
    /// Its name in the guest.
    name: String,
    /// As cargo calls it: `lib`, or the name of the file below `tests`.
    test: String,
    path: PathBuf,
}

/// Builds the programs, boots, and fails when one of them does.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let missing = needs::missing(needs::OF_GUEST);
    if !missing.is_empty() {
        bail!("{}", needs::explain(&missing));
    }
    let (mut payload, mut script) = (Vec::new(), String::from("failed=0\n"));
    if let Some(before) = &options.before {
        script.push_str(&format!("{{ {before}\n}} || exit 99\n"));
    }
    if let Some(package) = &options.package {
        let usual = USUAL.iter().chain(ON_REQUEST).find(|entry| entry.package == package);
        let (features, environment) =
            usual.map_or((&[][..], &[][..]), |entry| (entry.features, entry.environment));
        let programs = build(workspace, package, features)?;
        let chosen = |program: &&Program| options.test.as_ref().is_none_or(|t| *t == program.test);
        let arguments: Vec<&str> = options.arguments.iter().map(String::as_str).collect();
        for program in programs.iter().filter(chosen) {
            if options.command.is_none() {
                script.push_str(&line(program, &arguments, environment));
            }
            payload.push((program.name.clone(), program.path.clone()));
        }
        ensure!(!payload.is_empty(), "{package} has no such test program");
    } else if options.command.is_none() {
        for entry in USUAL {
            let programs = build(workspace, entry.package, entry.features)?;
            let chosen = |p: &&Program| entry.tests.is_empty() || entry.tests.contains(&&*p.test);
            let before = payload.len();
            for program in programs.iter().filter(chosen) {
                script.push_str(&line(program, entry.arguments, entry.environment));
                payload.push((program.name.clone(), program.path.clone()));
            }
            ensure!(payload.len() > before, "{} has none of {:?}", entry.package, entry.tests);
        }
    }
    match &options.command {
        Some(command) => script = format!("{command}\n"),
        None => script.push_str("exit $failed\n"),
    }
    let directory = workspace.metadata.target_directory.as_std_path().join("guest");
    let kernel = Kernel::fetch(&directory)?;
    let files = image::build(&kernel, &payload, &script)?;
    let boot_directory = directory.join(format!("boot-{}", std::process::id()));
    std::fs::create_dir_all(&boot_directory).context("cannot make the boot's directory")?;
    let (release, mebibytes) = (kernel.release(), files.len() >> 20);
    println!("guest: Linux {release}, {mebibytes} MiB of files, {} programs", payload.len());
    let machine =
        Machine { limit: options.limit, processors: options.processors, verbose: options.verbose };
    let ended = boot::boot(&kernel, &files, &machine, &boot_directory);
    std::fs::remove_dir_all(&boot_directory).context("cannot remove the boot's files")?;
    let ended = ended?;
    ensure!(ended.status == 0, "the guest's command ended with status {}", ended.status);
    if options.command.is_none() {
        let results = ended.lines.iter().filter(|line| line.starts_with("test result: "));
        let tests = results.filter(|line| !line.contains(" 0 passed")).count();
        ensure!(tests > 0, "no test ran in the guest");
    }
    Ok(())
}

/// One line of the guest's script. The others run, too, when a program fails.
fn line(program: &Program, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let name = &program.name;
    let mut line = format!("echo '    Running {name}'\n");
    for (variable, value) in environment {
        line.push_str(&format!("{variable}={} ", quoted(value)));
    }
    line.push_str(&format!("./{name}"));
    for argument in arguments {
        line.push_str(&format!(" {}", quoted(argument)));
    }
    line.push_str(&format!(" || {{ echo \"{name} failed with status $?\"; failed=1; }}\n"));
    line
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Builds a package's test programs and says where they are.
fn build(workspace: &Workspace, package: &str, features: &[&str]) -> Result<Vec<Program>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--no-run", "--package", package])
        .args(features)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "the tests of {package} do not build");
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).context("cargo prints something else than JSON")?;
        let Some(path) = message["executable"].as_str() else { continue };
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            continue;
        }
        let target = &message["target"];
        let name = target["name"].as_str().unwrap_or("unnamed").to_owned();
        let kinds = target["kind"].as_array().cloned().unwrap_or_default();
        let test = if kinds.iter().any(|kind| kind == "test") { name } else { "lib".to_owned() };
        let name = format!("{package}.{test}");
        programs.push(Program { name, test, path: PathBuf::from(path) });
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_script_survives_a_shell() {
        let program =
            Program { name: "echo".into(), test: "lib".into(), path: PathBuf::from("echo") };
        let line = line(&program, &["it's $HOME"], &[("WORD", "a b")]);
        let script = line.replace("./echo", "printf '%s|%s\\n' \"$WORD\"");
        let output = Command::new("sh").arg("-c").arg(&script).output().expect("a shell");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains("|it's $HOME\n"), "{printed}");
    }
}
