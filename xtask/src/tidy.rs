//! `cargo xtask tidy`: the rules of the repository that no compiler knows.
//!
//! A rule is one file with one function that reads the whole tree or one file and pushes
//! [`Finding`]s. Exceptions stand in a list in the rule's file, each with its reason; there is
//! nothing to write into the source that silences a rule. It changes no file.

mod atomics;
mod circles;
mod coverage;
mod layers;
mod lengths;
mod links;
mod manners;
mod names;
mod programs;
mod safety;
mod size;
mod source;
mod weight;
mod words;

use anyhow::{Result, bail};

use crate::workspace::Workspace;
use source::Source;

/// Whether a finding fails the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
}

/// Something that a rule has found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    level: Level,
    path: String,
    /// Counted from 1.
    line: usize,
    message: String,
}

impl Finding {
    /// An error in line `index`, counted from 0.
    fn error(path: &str, index: usize, message: impl Into<String>) -> Self {
        let (path, message) = (path.to_owned(), message.into());
        Self { level: Level::Error, path, line: index + 1, message }
    }

    fn warning(path: &str, index: usize, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(path, index, message) }
    }
}

/// A place where a rule does not hold, and why. A path that ends in `/` stands for all below.
#[derive(Debug)]
struct Except {
    path: &'static str,
    #[expect(dead_code, reason = "read by people")]
    why: &'static str,
}

fn excepted(list: &[Except], path: &str) -> bool {
    list.iter().any(|except| {
        path == except.path || except.path.ends_with('/') && path.starts_with(except.path)
    })
}

/// Runs every rule on the workspace.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let findings = check(workspace)?;
    let mut errors = 0;
    for Finding { level, path, line, message } in &findings {
        match level {
            Level::Error => {
                errors += 1;
                println!("{path}:{line}: {message}");
            }
            Level::Warning => println!("{path}:{line}: warning: {message}"),
        }
    }
    if errors > 0 {
        bail!("tidy found {errors} errors");
    }
    println!("tidy: no errors, {} warnings", findings.len());
    Ok(())
}

fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let files = workspace.text_files()?;
    let mut findings = Vec::new();
    layers::check(&workspace.metadata, &workspace.root, &mut findings);
    circles::check(&workspace.metadata, &workspace.root, &files, &mut findings);
    links::check(&files, &mut findings);
    weight::check(&workspace.root, &mut findings)?;
    for path in crate::abi::stale_paths(&workspace.root)? {
        findings.push(Finding::error(&path, 0, "not up to date: run `cargo xtask abi`"));
    }
    for file in &files {
        size::check(file, &mut findings);
        words::check(file, &mut findings);
    }
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut sources: Vec<Source> = rust.map(|file| Source::new(&file.path, &file.text)).collect();
    mark_test_modules(&mut sources);
    coverage::check(&files, &sources, &mut findings);
    lengths::check(&files, &sources, &mut findings);
    names::check(&sources, &mut findings);
    programs::check(&workspace.metadata, &workspace.root, &sources, &mut findings);
    for source in &sources {
        manners::check(source, &mut findings);
        safety::check(source, &mut findings);
        atomics::check(source, &mut findings);
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(findings)
}

/// A module that its parent declares for tests only is test code, with all below it.
fn mark_test_modules(sources: &mut [Source]) {
    let roots: Vec<String> = sources
        .iter()
        .flat_map(|source| {
            let directory = source.module_directory();
            source.test_modules.iter().map(move |name| format!("{directory}{name}"))
        })
        .collect();
    for source in sources {
        let of = |root: &String| {
            source
                .path
                .strip_prefix(root.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if roots.iter().any(of) {
            source.mark_test();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_declared_for_tests_is_test_code_wherever_its_file_is() {
        let mut sources = [
            Source::new("base/src/scmp.rs", "#[cfg(test)]\nmod harness;\nmod slot;\n"),
            Source::new("base/src/scmp/harness.rs", "a\n"),
            Source::new("base/src/scmp/harness/deep.rs", "a\n"),
            Source::new("base/src/scmp/slot.rs", "a\n"),
            Source::new("base/src/scmp/harness_of_others.rs", "a\n"),
        ];
        mark_test_modules(&mut sources);
        let test: Vec<bool> = sources.iter().map(|s| s.lines[0].test).collect();
        assert_eq!(test, [true, true, true, false, false]);
    }

    #[test]
    fn exceptions_hold_for_a_file_or_a_directory() {
        let list =
            [Except { path: "base/src/sync.rs", why: "" }, Except { path: "bench/", why: "" }];
        assert!(excepted(&list, "base/src/sync.rs"));
        assert!(excepted(&list, "bench/src/lib.rs"));
        assert!(!excepted(&list, "base/src/sync/x.rs"));
        assert!(!excepted(&list, "benches/x.rs"));
    }
}
