//! The documents name files that exist: relative links, and paths of the tree in backticks. And the map of the code names the
//! modules that it has to.

use std::collections::HashSet;

use super::Finding;
use crate::workspace::TextFile;

/// Kinds of files whose names in backticks are taken for paths of the tree.
const KINDS: &[&str] = &[".rs", ".md", ".toml", ".json", ".c", ".h", ".sh", ".txt"];

/// The map of the code.
const MAP: &str = "ARCHITECTURE.md";

/// The directory whose modules have a place in the map each.
const MAPPED: &str = "ucp/src/";

/// Checks every document.
pub(super) fn check(files: &[TextFile], findings: &mut Vec<Finding>) {
    let mut known: HashSet<&str> = HashSet::new();
    for file in files {
        let mut path = file.path.as_str();
        known.insert(path);
        while let Some((directory, _)) = path.rsplit_once('/') {
            known.insert(directory);
            path = directory;
        }
    }
    check_map(files, findings);
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            for target in links(line) {
                if !exists(&known, &file.path, target, false) {
                    let message = format!("the link to `{target}` leads nowhere");
                    findings.push(Finding::error(&file.path, index, message));
                }
            }
            for name in named_paths(line) {
                if !exists(&known, &file.path, name, true) {
                    let message = format!("there is no `{name}` in the tree");
                    findings.push(Finding::error(&file.path, index, message));
                }
            }
        }
    }
}

/// Finds modules that the map does not name.
fn check_map(files: &[TextFile], findings: &mut Vec<Finding>) {
    let Some(map) = files.iter().find(|file| file.path == MAP) else { return };
    for file in files {
        let module = file.path.strip_prefix(MAPPED).and_then(|rest| rest.strip_suffix(".rs"));
        if module.is_none_or(|module| module.contains('/') || module == "lib") {
            continue;
        }
        if !map.text.contains(&format!("`{}`", file.path)) {
            let message = format!("{MAP} does not say what this module has");
            findings.push(Finding::error(&file.path, 0, message));
        }
    }
}

/// Whether `target` is in the tree, seen from the document's directory or from the root; a
/// document may also name a file by the end of its path.
fn exists(known: &HashSet<&str>, document: &str, target: &str, by_end: bool) -> bool {
    let target = target.trim_end_matches('/');
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            _ => parts.push(part),
        }
    }
    known.contains(parts.join("/").as_str())
        || known.contains(target)
        || by_end && known.iter().any(|path| path.ends_with(&format!("/{target}")))
}

/// Targets of `[text](target)` that are neither addresses nor places in the same document.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split_once(')')?.0.split('#').next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// Paths of source files in backticks, such as `ucp/src/wire.rs`.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    line.split('`').skip(1).step_by(2).filter(move |name| {
        name.contains('/')
            && !name.starts_with(['/', '.'])
            // What a build makes, and the placeholder of the style guide.
            && !name.starts_with("target/")
            && !name.starts_with("foo/")
            && name.chars().all(plain)
            && KINDS.iter().any(|kind| name.ends_with(kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(document: &str, text: &str) -> Vec<usize> {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files =
            [file(document, text), file("ucp/src/wire.rs", ""), file("docs/testing.md", "")];
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        assert_eq!(lines("README.md", "[a](docs/testing.md) [b](docs/none.md)"), [1]);
        assert_eq!(lines("docs/x.md", "[a](testing.md#here) [b](../ucp/src/) [c](#top)"), NONE);
        assert_eq!(lines("docs/x.md", "[a](https://example.org/x) [b](../../out.md)"), [1]);
    }

    #[test]
    fn named_files_exist() {
        assert_eq!(lines("A.md", "`ucp/src/wire.rs` `src/wire.rs` `ucp/src/gone.rs`"), [1]);
        assert_eq!(
            lines("A.md", "`sorted.txt` `a b/c.rs` `target/x.txt` `foo/tests.rs` `./program`"),
            NONE
        );
    }

    #[test]
    fn the_map_names_every_module_of_the_mapped_directory() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let found = |map: &str| {
            let modules = ["a.rs", "b.rs", "b/c.rs", "lib.rs"];
            let mut files: Vec<_> =
                modules.iter().map(|name| file(&format!("ucp/src/{name}"), "")).collect();
            files.push(file("uct/src/d.rs", ""));
            files.push(file(MAP, map));
            let mut findings = Vec::new();
            check(&files, &mut findings);
            findings.into_iter().map(|finding| finding.path).collect::<Vec<_>>()
        };
        assert!(found("`ucp/src/a.rs`, `ucp/src/b.rs`").is_empty());
        assert_eq!(found("`ucp/src/a.rs`, `ucp/src/b/c.rs`"), ["ucp/src/b.rs"]);
    }
}
