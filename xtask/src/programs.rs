//! Programs that cargo has built, found by what cargo says of them.
//!
//! All that is tested is built by one command with one set of features ([`build_all`]), so that each
//! crate is compiled once for all steps of the ladder. Tasks that people run by themselves build only
//! what they need ([`build`]).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// Every feature that brings something to test.
pub(crate) const ALL_FEATURES: &str =
    "bowline-cli/ofi,bowline-cli/verbs,bowline-tests/ofi,bowline-tests/verbs";

/// What a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// The unit tests of a library.
    UnitTests,
    /// The unit tests of a program.
    ProgramTests,
    /// A file below `tests`.
    Tests,
    /// The program itself, or an example.
    Program,
}

/// A program, built.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// What cargo calls it.
    pub(crate) target: String,
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
    /// The directory of its package, in which cargo runs tests.
    pub(crate) directory: PathBuf,
}

impl Program {
    /// What people call it: the package, and the target if it is not the package's only one.
    pub(crate) fn name(&self) -> String {
        match self.kind {
            Kind::UnitTests => format!("{} lib", self.package),
            _ => format!("{} {}", self.package, self.target),
        }
    }

    /// The words by which `cargo test` runs this program and no other.
    pub(crate) fn selection(&self) -> String {
        let Self { package, target, kind, .. } = self;
        let features = match package.as_str() {
            "bowline-cli" | "bowline-tests" | "bowline-mpi-abi" => " --features ofi,verbs",
            "bowline-mpi" => " --features bowline/ofi,bowline/verbs",
            _ => "",
        };
        let which = match kind {
            Kind::UnitTests => "--lib".to_owned(),
            Kind::ProgramTests => format!("--bin {target}"),
            Kind::Tests => format!("--test {target}"),
            Kind::Program => String::new(),
        };
        format!("-p {package}{features} {which}").trim_end().to_owned()
    }
}

/// Builds all tests of the workspace, and the programs and examples that come with them. What cargo
/// prints goes to the file `log`.
pub(crate) fn build_all(workspace: &Workspace, log: Option<&Path>) -> Result<Vec<Program>> {
    build(workspace, &["test", "--no-run", "--workspace", "--features", ALL_FEATURES], log)
}

/// Runs a command of cargo that builds, and takes the programs from what it says. What it prints
/// otherwise goes to the file `log`, or to the terminal.
pub(crate) fn build(
    workspace: &Workspace,
    arguments: &[&str],
    log: Option<&Path>,
) -> Result<Vec<Program>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let said = match log {
        Some(log) => {
            let directory = log.parent().expect("a log lies in a directory");
            std::fs::create_dir_all(directory).with_context(|| format!("no {directory:?}"))?;
            Stdio::from(
                std::fs::File::create(log).with_context(|| format!("cannot write {log:?}"))?,
            )
        }
        None => Stdio::inherit(),
    };
    let output = Command::new(cargo)
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        .stderr(said)
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "`cargo {}` failed", arguments.join(" "));
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).context("cargo prints something else than JSON")?;
        programs.extend(program(workspace, &message)?);
    }
    Ok(programs)
}

/// Writes down what was built, for tasks that are started by this one.
pub(crate) fn write(file: &Path, programs: &[Program]) -> Result<()> {
    let text = serde_json::to_string(programs).context("paths are text")?;
    std::fs::write(file, text).with_context(|| format!("cannot write {file:?}"))
}

/// Reads what [`write()`] has written.
pub(crate) fn read(file: &Path) -> Result<Vec<Program>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file:?}"))?;
    serde_json::from_str(&text).with_context(|| format!("{file:?} lists no programs"))
}

/// The program that a message of cargo speaks of, if it does.
fn program(workspace: &Workspace, message: &serde_json::Value) -> Result<Option<Program>> {
    let Some(path) = message["executable"].as_str() else { return Ok(None) };
    if message["reason"] != "compiler-artifact" {
        return Ok(None);
    }
    let id = message["package_id"].as_str().context("an artifact without a package")?;
    let mut packages = workspace.metadata.packages.iter();
    let package = packages.find(|package| package.id.repr == id);
    let package = package.with_context(|| format!("{id} is no package of the workspace"))?;
    let target = &message["target"];
    let kinds = target["kind"].as_array().cloned().unwrap_or_default();
    let is = |kind: &str| kinds.iter().any(|other| other == kind);
    let kind = match message["profile"]["test"] == true {
        false => Kind::Program,
        true if is("test") => Kind::Tests,
        true if is("bin") || is("example") => Kind::ProgramTests,
        true => Kind::UnitTests,
    };
    let directory = package.manifest_path.parent().context("a manifest is in a directory")?;
    Ok(Some(Program {
        package: package.name.to_string(),
        target: target["name"].as_str().context("a target without a name")?.to_owned(),
        kind,
        path: PathBuf::from(path),
        directory: directory.as_std_path().to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_read_as_cargo_writes_them() {
        let workspace = Workspace::find().expect("tests run inside the workspace");
        let xtask = workspace.metadata.packages.iter().find(|package| package.name == "xtask");
        let id = &xtask.expect("this is it").id.repr;
        let message = |kind: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id, "executable": "/t/x-1",
                "target": { "name": "x", "kind": [kind] }, "profile": { "test": test },
            })
        };
        let read = |kind, test| {
            let program = program(&workspace, &message(kind, test)).expect("a good message");
            program.expect("it has an executable")
        };
        assert_eq!(read("lib", true).kind, Kind::UnitTests);
        assert_eq!(read("bin", true).selection(), "-p xtask --bin x");
        assert_eq!(read("test", true).name(), "xtask x");
        assert_eq!(read("bin", false).kind, Kind::Program);
        assert!(read("test", true).directory.ends_with("xtask"));
        let library = serde_json::json!({ "reason": "compiler-artifact", "executable": null });
        assert!(program(&workspace, &library).expect("a good message").is_none());
    }
}
