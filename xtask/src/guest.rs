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
mod list;
pub(crate) mod measure;
pub(crate) mod mpin;
pub(crate) mod progress;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::needs;
use crate::programs::{self, Kind};
use crate::workspace::Workspace;
use boot::Machine;
use kernel::Kernel;
use list::{Entry, What};

/// What to run in the guest.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Options {
    /// Run the tests of this package instead of the usual list
    #[arg(long, short)]
    package: Option<String>,
    /// Of the package, only this test program (`lib` for its unit tests)
    #[arg(long)]
    test: Option<String>,
    /// Of the usual list, only what belongs to this package
    #[arg(long, conflicts_with = "package")]
    usual: Option<String>,
    /// A shell command to run before the programs, for instance one that loses packets
    #[arg(long)]
    before: Option<String>,
    /// Run this shell command only; `--package` or `--usual` brings programs along for it
    #[arg(long)]
    command: Option<String>,
    /// Seconds after which the guest is ended
    #[arg(long, default_value_t = 3300)]
    limit: u64,
    /// Processors of the guest
    #[arg(long, default_value_t = 2)]
    processors: u32,
    /// Take the programs that this file lists instead of building them
    #[arg(long, hide = true)]
    built: Option<PathBuf>,
    /// Show the kernel's messages
    #[arg(long, short)]
    verbose: bool,
    /// Passed to each test program
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// A program for the guest.
#[derive(Debug)]
struct Program {
    /// Its name in the guest.
    name: String,
    path: PathBuf,
}

/// What a guest is to do: files that it gets below `/payload`, and the command.
#[derive(Debug, Default)]
struct Work {
    payload: Vec<(String, PathBuf)>,
    /// Files of this machine that keep their places.
    files: Vec<PathBuf>,
    script: String,
}

impl Work {
    /// Has a program brought along, once.
    fn bring(&mut self, program: &Program) {
        if !self.payload.iter().any(|(name, _)| *name == program.name) {
            self.payload.push((program.name.clone(), program.path.clone()));
        }
    }

    /// Has a command run. The others run, too, when it fails.
    fn run(&mut self, command: &str, environment: &[(&str, &str)]) {
        let exports: String = environment
            .iter()
            .map(|(variable, value)| format!("export {variable}={}; ", quoted(value)))
            .collect();
        let name = command.rsplit("; ").next().unwrap_or(command);
        let said = quoted(&format!("    Running {name}"));
        let failed = quoted(&format!("failed: {name}"));
        self.script.push_str(&format!(
            "echo {said}\n( {exports}{command} ) || {{ echo \"status $?\" {failed}; failed=1; }}\n"
        ));
    }
}

/// Builds the programs, boots, and fails when one of them does.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let missing = needs::missing(needs::OF_GUEST);
    if !missing.is_empty() {
        bail!("{}", needs::explain(&missing));
    }
    let mut work = Work { script: String::from("failed=0\n"), ..Work::default() };
    if let Some(before) = &options.before {
        work.script.push_str(&format!("{{ {before}\n}} || exit 99\n"));
    }
    if let Some(package) = &options.package {
        add_package(workspace, package, options, &mut work)?;
    } else if options.command.is_none() || options.usual.is_some() {
        let built = match &options.built {
            Some(file) => programs::read(file)?,
            None => Vec::new(),
        };
        let wanted =
            |entry: &&Entry| options.usual.as_ref().is_none_or(|usual| usual == entry.package);
        for entry in list::USUAL.iter().filter(wanted) {
            add_entry(workspace, &built, entry, &mut work)?;
        }
        ensure!(!work.payload.is_empty(), "nothing of that package is in the usual list");
    }
    match &options.command {
        Some(command) => work.script = format!("{command}\n"),
        None => work.script.push_str("exit $failed\n"),
    }
    let ended = boot(workspace, &work, options)?;
    ensure!(ended.status == 0, "the guest's command ended with status {}", ended.status);
    if options.command.is_none() {
        let results = ended.lines.iter().filter(|line| line.starts_with("test result: "));
        let tests = results.filter(|line| !line.contains(" 0 passed")).count();
        ensure!(tests > 0, "no test ran in the guest");
    }
    Ok(())
}

/// Boots a guest for `work` and waits for its end.
fn boot(workspace: &Workspace, work: &Work, options: &Options) -> Result<boot::Ended> {
    let Work { payload, files, script } = work;
    let directory = workspace.metadata.target_directory.as_std_path().join("guest");
    let kernel = Kernel::fetch(&directory)?;
    let files = image::build(&kernel, payload, files, script)?;
    let boot_directory = directory.join(format!("boot-{}", std::process::id()));
    std::fs::create_dir_all(&boot_directory).context("cannot make the boot's directory")?;
    let (release, mebibytes) = (kernel.release(), files.len() >> 20);
    println!("guest: Linux {release}, {mebibytes} MiB of files, {} programs", payload.len());
    let machine =
        Machine { limit: options.limit, processors: options.processors, verbose: options.verbose };
    let ended = boot::boot(&kernel, &files, &machine, &boot_directory);
    std::fs::remove_dir_all(&boot_directory).context("cannot remove the boot's files")?;
    ended
}

/// The tests of a package as the command line asks for them.
fn add_package(
    workspace: &Workspace,
    package: &str,
    options: &Options,
    work: &mut Work,
) -> Result<()> {
    let usual = list::of_package(package);
    let (features, environment) =
        usual.map_or((&[][..], &[][..]), |entry| (entry.features, entry.environment));
    let names: Vec<&str> = options.test.as_deref().into_iter().collect();
    for program in tests_of(workspace, &[], package, features, &names)? {
        work.bring(&program);
        if options.command.is_none() {
            let words: Vec<String> = options.arguments.iter().map(|word| quoted(word)).collect();
            work.run(&format!("./{} {}", program.name, words.join(" ")), environment);
        }
    }
    Ok(())
}

/// What the list says.
fn add_entry(
    workspace: &Workspace,
    built: &[programs::Program],
    entry: &Entry,
    work: &mut Work,
) -> Result<()> {
    let Entry { package, features, environment, what } = entry;
    match what {
        What::Tests { names, arguments } => {
            for program in tests_of(workspace, built, package, features, names)? {
                work.bring(&program);
                work.run(&format!("./{} {}", program.name, arguments.join(" ")), environment);
            }
        }
        What::Commands { build, lines } => {
            for program in programs_of(workspace, built, package, features, build)? {
                work.bring(&program);
            }
            for line in *lines {
                // What is passed to the tests is no setting, which Bowline would remark each time.
                let line = format!("unset BOWLINE_TEST_GUEST BOWLINE_TEST_SECONDS; {line}");
                work.run(&line, environment);
            }
        }
    }
    Ok(())
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Test programs of a package: those with these names (`lib` for its unit tests), or all if none is
/// named. They are built, unless all was built before.
fn tests_of(
    workspace: &Workspace,
    built: &[programs::Program],
    package: &str,
    features: &[&str],
    names: &[&str],
) -> Result<Vec<Program>> {
    let mut arguments = vec!["test", "--no-run", "--package", package];
    for name in names {
        match *name {
            "lib" => arguments.push("--lib"),
            name => arguments.extend(["--test", name]),
        }
    }
    arguments.extend(features);
    let found = match built {
        [] => programs::build(workspace, &arguments, None)?,
        built => built.to_vec(),
    };
    let name_of = |program: &programs::Program| match program.kind {
        Kind::UnitTests => "lib".to_owned(),
        _ => program.target.clone(),
    };
    let wanted = |program: &programs::Program| {
        let name = name_of(program);
        program.package == package
            && matches!(program.kind, Kind::UnitTests | Kind::Tests)
            && (names.is_empty() || names.contains(&name.as_str()))
    };
    let programs: Vec<Program> = found
        .into_iter()
        .filter(wanted)
        .map(|program| {
            let name = format!("{package}.{}", name_of(&program));
            Program { name, path: program.path }
        })
        .collect();
    ensure!(!programs.is_empty(), "{package} has no tests {names:?}");
    Ok(programs)
}

/// Other programs, which `what` names as for cargo: `--bin` and `--example` with a name each.
fn programs_of(
    workspace: &Workspace,
    built: &[programs::Program],
    package: &str,
    features: &[&str],
    what: &[&str],
) -> Result<Vec<Program>> {
    let arguments = [&["build", "--package", package], what, features].concat();
    let found = match built {
        [] => programs::build(workspace, &arguments, None)?,
        built => built.to_vec(),
    };
    let asked = what.windows(2).filter(|pair| ["--bin", "--example"].contains(&pair[0]));
    let mut all = Vec::new();
    for name in asked.map(|pair| pair[1]) {
        let mut programs = found.iter().filter(|program| program.kind == Kind::Program);
        let program = programs.find(|program| program.target == name);
        let program = program.with_context(|| format!("there is no program {name}"))?;
        all.push(Program { name: name.to_owned(), path: program.path.clone() });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_command_of_the_script_has_its_environment_and_survives_a_shell() {
        let mut work = Work { script: "failed=0\n".to_owned(), ..Work::default() };
        work.run("printf '%s|' \"$WORD\"", &[("WORD", "it's $HOME")]);
        work.run("sh -c 'exit 3'", &[]);
        work.run("echo \"word: $WORD\"", &[]);
        work.script.push_str("exit $failed\n");
        let output = Command::new("sh").arg("-c").arg(&work.script).output().expect("a shell");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains("it's $HOME|"), "{printed}");
        assert!(printed.contains("\nstatus 3 failed: sh -c 'exit 3'\n"), "{printed}");
        assert!(printed.ends_with("\nword: \n"), "the environment is one command's: {printed}");
        assert_eq!(output.status.code(), Some(1));
    }
}
