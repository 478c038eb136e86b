//! Words that mean nothing to a reader of the repository: paths of one machine, numbers of a
//! tracker that moves, and papers that are not here.

use super::{Except, Finding, excepted};
use crate::workspace::TextFile;

/// Absolute paths that exist on somebody's machine only.
const PATHS: &[&str] = &["/work", "/root"];

/// Beginnings of such paths.
const PATH_STARTS: &[&str] = &["/tmp/target", "/tmp/brief"];

/// Phrases, in lower case, that point to something a reader cannot look up. `#` stands for a
/// digit.
const PHRASES: &[&str] = &["issue ##", "issues ##", "pull request ##", "contract.md"];

const EXCEPT: &[Except] =
    &[Except { path: "xtask/src/tidy/words.rs", why: "names what it looks for" }];

/// Looks for such words in any text file.
pub(super) fn check(file: &TextFile, findings: &mut Vec<Finding>) {
    if excepted(EXCEPT, &file.path) {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        if let Some(found) = unwanted(line) {
            let message = format!("`{found}` means nothing outside of one machine or tracker");
            findings.push(Finding::error(&file.path, index, message));
        }
    }
}

fn unwanted(line: &str) -> Option<&'static str> {
    let path = PATHS.iter().find(|path| has_path(line, path));
    let start = PATH_STARTS.iter().find(|start| line.contains(**start));
    if let Some(found) = path.or(start) {
        return Some(found);
    }
    let line = line.to_lowercase();
    if is_numbered_point(&line) {
        return Some("point N of the contract");
    }
    PHRASES.iter().copied().find(|phrase| has_phrase(&line, phrase))
}

/// Whether `path` stands in `line` as an absolute path: nothing of a name before or behind it.
fn has_path(line: &str, path: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || "_-.~}>)".contains(c);
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let behind = line[at + path.len()..].chars().next();
        !before.is_some_and(part) && !behind.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Whether `phrase` stands in `line`; the last `#` of `##` is any digit.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let Some(fixed) = phrase.strip_suffix('#') else {
        return line.contains(phrase);
    };
    line.match_indices(fixed)
        .any(|(at, _)| line[at + fixed.len()..].chars().next().is_some_and(|c| c.is_ascii_digit()))
}

/// "point 7 of the contract": a number in a paper that readers do not have.
fn is_numbered_point(line: &str) -> bool {
    line.match_indices("of the contract").any(|(at, _)| {
        let mut before = line[..at].split_whitespace().rev();
        let number = before.next().is_some_and(|word| word.parse::<u32>().is_ok());
        number && before.next().is_some_and(|word| word.trim_start_matches('(') == "point")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_one_machine_is_found() {
        for line in [
            concat!("cd /wo", "rk/main"),
            concat!("see /wo", "rk"),
            concat!("let p = \"/ro", "ot/.cargo\";"),
            "export X=/tmp/target-a",
            concat!("as in iss", "ue #12"),
            concat!("Iss", "ue #3"),
            "// (point 16 of the contract)",
        ] {
            assert!(unwanted(line).is_some(), "{line}");
        }
    }

    #[test]
    fn words_that_only_look_like_it_pass() {
        for line in [
            "the engine/worker pair",
            "/workspace/x",
            concat!("a/wo", "rk/b"),
            "$HOME/root",
            "<repo>/root",
            "the issue is #[cfg]",
            "rule 3 of the contract between two sides",
            "the point of the contract",
        ] {
            assert_eq!(unwanted(line), None, "{line}");
        }
    }
}
