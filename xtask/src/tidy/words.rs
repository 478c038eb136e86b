//! Words that mean nothing to a reader of the repository: paths of one machine, numbers of a
//! tracker that moves, and papers that are not here. And words that have a term of the field in their place.

use super::{Except, Finding, excepted};
use crate::workspace::TextFile;

/// Absolute paths that exist on somebody's machine only.
const PATHS: &[&str] = &["/work", "/root"];

/// Beginnings of such paths.
const PATH_STARTS: &[&str] = &["/tmp/target", "/tmp/brief"];

/// Phrases, in lower case, that point to something a reader cannot find. `#` stands for a
/// digit.
const PHRASES: &[&str] = &["issue ##", "issues ##", "pull request ##", "contract.md"];

/// Words of which a reader does not know what they mean here, and what to say.
const UNCLEAR: &[(&str, &str)] = &[
    ("whoever", "the subject: the sender, a thread that ..."),
    ("told", "reported, notified, said"),
    ("tells", "reports, notifies, says"),
    ("stranger", "unknown sender, unauthenticated client"),
    ("strangers", "unknown senders, unauthenticated clients"),
    ("seat", "number of a sender, entry of a table"),
    ("seats", "numbers of senders, entries of a table"),
    ("for good", "for ever"),
    ("stands behind", "follows"),
    ("room", "space, capacity, credit, resources"),
    ("rooms", "spaces, buffers, slots"),
];

const EXCEPT: &[Except] = &[
    Except { path: "xtask/src/tidy/words.rs", why: "names what it searches for" },
    Except { path: "CHANGELOG.md", why: "says what was said when it was written" },
];

/// Searches for such words in any text file.
pub(super) fn check(file: &TextFile, findings: &mut Vec<Finding>) {
    if excepted(EXCEPT, &file.path) {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        if let Some(found) = unwanted(line) {
            let message = format!("`{found}` means nothing outside of one machine or tracker");
            findings.push(Finding::error(&file.path, index, message));
        }
        if let Some((word, say)) = unclear(line).filter(|_| prose(&file.path)) {
            let message = format!("`{word}` has to be read twice; say {say}");
            findings.push(Finding::error(&file.path, index, message));
        }
    }
}

/// Whether a file has comments or prose of ours.
fn prose(path: &str) -> bool {
    path.ends_with(".rs") || path.ends_with(".md")
}

fn unclear(line: &str) -> Option<&'static (&'static str, &'static str)> {
    let line = line.to_lowercase();
    let part = |c: char| c.is_alphanumeric() || c == '_';
    UNCLEAR.iter().find(|(word, _)| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let behind = line[at + word.len()..].chars().next();
            !before.is_some_and(part) && !behind.is_some_and(part)
        })
    })
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
    fn unclear_words_are_found_whole() {
        for line in ["// Whoever comes", "the peer is told.", "closed for good", "there is room"] {
            assert!(unclear(line).is_some(), "{line}");
        }
        for line in ["what it tolerates", "a_seat", "a good reason", "the foretold", "headroom"] {
            assert_eq!(unclear(line), None, "{line}");
        }
    }

    #[test]
    fn words_that_only_resemble_it_pass() {
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
