//! How much a program builds that depends on the facade: a count of packages, which only grows when
//! somebody decides that.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Finding;

/// Packages that `bowline` with default features stands for, those of this workspace included.
const MOST: usize = 29;

/// Counts them.
pub(super) fn check(root: &Path, findings: &mut Vec<Finding>) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--package", "bowline", "--edges", "no-dev", "--prefix", "none"])
        .current_dir(root)
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    judge(&packages(&String::from_utf8_lossy(&output.stdout)), findings);
    Ok(())
}

fn judge(packages: &BTreeSet<&str>, findings: &mut Vec<Finding>) {
    if packages.len() > MOST {
        let names: Vec<&str> = packages.iter().copied().collect();
        let message = format!(
            "a program that depends on it builds {} packages, and {MOST} is the limit: {}",
            packages.len(),
            names.join(", ")
        );
        findings.push(Finding::error("bowline/Cargo.toml", 0, message));
    }
}

/// Name and version of each package of a tree; a package may stand there more than once.
fn packages(tree: &str) -> BTreeSet<&str> {
    let package = |line: &'_ str| line.match_indices(' ').nth(1).map_or(line.len(), |(at, _)| at);
    tree.lines().map(|line| &line[..package(line)]).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_counted_once() {
        let tree = "a v1.0.0 (/x/a)\nb v2.0.0\nc v1.0.0 (proc-macro)\nb v2.0.0 (*)\n\nb v3.0.0\n";
        let found = packages(tree);
        assert_eq!(found, BTreeSet::from(["a v1.0.0", "b v2.0.0", "b v3.0.0", "c v1.0.0"]));
    }

    #[test]
    fn too_many_are_an_error() {
        let text: String = (0..=MOST).map(|n| format!("p{n} v1.0.0\n")).collect();
        let mut findings = Vec::new();
        let mut few = packages(&text);
        few.pop_first();
        judge(&few, &mut findings);
        assert_eq!(findings, []);
        judge(&packages(&text), &mut findings);
        let count = format!("{} packages", MOST + 1);
        assert!(findings[0].message.contains(&count), "{findings:?}");
    }
}
