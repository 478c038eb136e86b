//! The documents name files that exist: relative links, and paths of the tree in backticks.

use std::collections::HashSet;

use super::Finding;
use crate::workspace::TextFile;

/// Kinds of files whose names in backticks are taken for paths of the tree.
const KINDS: &[&str] = &[".rs", ".md", ".toml", ".json", ".c", ".h", ".sh", ".txt"];

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
}
