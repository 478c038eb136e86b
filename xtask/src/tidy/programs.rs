//! Every file of tests belongs to a program. The packages list their test programs themselves, so a
//! file that no module declares would be compiled by nothing, and its tests never run.

use std::collections::BTreeSet;

use cargo_metadata::Metadata;

use super::Finding;
use super::source::{Source, words_at};

/// Checks all files below the directories of tests.
pub(super) fn check(
    metadata: &Metadata,
    root: &std::path::Path,
    sources: &[Source],
    findings: &mut Vec<Finding>,
) {
    let packages = metadata.workspace_packages();
    let targets = packages.iter().flat_map(|package| &package.targets);
    let roots: BTreeSet<String> = targets
        .filter_map(|target| target.src_path.as_std_path().strip_prefix(root).ok())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    for path in lost(&roots, sources) {
        findings.push(Finding::error(path, 0, "no test program has this file as a module"));
    }
}

/// Files of tests that are no root and that no file declares.
fn lost<'a>(roots: &BTreeSet<String>, sources: &'a [Source]) -> Vec<&'a str> {
    let declared: BTreeSet<String> =
        sources.iter().flat_map(|source| modules(roots, source)).collect();
    let is_lost = |source: &&Source| {
        let path = source.path.as_str();
        // The programs that must not compile are compiled one by one.
        is_integration(path)
            && !path.contains("/compile_fail/")
            && !roots.contains(path)
            && !declared.contains(path)
    };
    sources.iter().filter(is_lost).map(|source| source.path.as_str()).collect()
}

fn is_integration(path: &str) -> bool {
    (path.starts_with("tests/") || path.contains("/tests/"))
        && !path.contains("/src/")
        && !path.starts_with("fuzz/")
}

/// The files that a file's modules may lie in.
fn modules(roots: &BTreeSet<String>, source: &Source) -> Vec<String> {
    let (own, _) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    // The modules of a root lie beside it, whatever its name is.
    let directory = match roots.contains(&source.path) {
        true => format!("{own}/"),
        false => source.module_directory(),
    };
    let names = source.lines.iter().filter_map(|line| {
        let at = words_at(&line.code, "mod").next()?;
        line.code[at + "mod".len()..].trim().strip_suffix(';')
    });
    let files = names
        .flat_map(|name| [format!("{directory}{name}.rs"), format!("{directory}{name}/mod.rs")]);
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nothing_declares_is_lost() {
        let source = |path: &str, text: &str| Source::new(path, &format!("//! W.\n{text}"));
        let sources = [
            source("a/tests/main.rs", "mod x;\nmod y;\n"),
            source("a/tests/x.rs", "mod deep;\n"),
            source("a/tests/x/deep.rs", ""),
            source("a/tests/y/mod.rs", ""),
            source("a/tests/z.rs", ""),
            source("a/tests/x/forgotten.rs", ""),
            source("a/tests/compile_fail/case.rs", ""),
            source("a/src/tests/unit.rs", ""),
        ];
        let roots = BTreeSet::from(["a/tests/main.rs".to_owned()]);
        assert_eq!(lost(&roots, &sources), ["a/tests/z.rs", "a/tests/x/forgotten.rs"]);
    }

    #[test]
    fn modules_of_a_root_lie_beside_it() {
        let sources = [
            Source::new("a/tests/suite.rs", "//! W.\nmod hub;\n"),
            Source::new("a/tests/hub.rs", "//! W.\n"),
        ];
        let roots = BTreeSet::from(["a/tests/suite.rs".to_owned()]);
        assert!(lost(&roots, &sources).is_empty());
        assert_eq!(lost(&BTreeSet::new(), &sources).len(), 2);
    }
}
