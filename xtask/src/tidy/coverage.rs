//! `docs/coverage.md` against the code: every capability of the list has a row, none has two, and
//! what a row names as its place exists. A row that says `yes` names a test that exists as well; whether
//! that test shows what the row says is for reviewers.
//!
//! A place is a path in backquotes whose first part is a crate of ours: `bowline_ucp::Worker::close`.
//! Its last part must be defined in that crate's sources, and where the part before it is a type or a
//! trait, in a file that defines or implements that. A path in backquotes that has a `/` is a file, and
//! with `::name` behind it a function of the tests in that file.

use super::Finding;
use super::source::{Source, words_at};
use crate::workspace::TextFile;

const PATH: &str = "docs/coverage.md";

/// The essential and common capabilities of the transport layer.
const UCT: &[u32] = &[
    1, 2, 3, 5, 7, 8, 10, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 32,
    33, 34, 35, 36, 37, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 51, 53, 54, 55, 59, 62, 63, 64,
];

/// Those of the protocol layer.
const UCP: &[u32] = &[
    1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 46, 47, 48, 50, 51, 52, 53, 54, 55, 59, 60, 61,
    62, 63, 64, 65, 66, 67, 70,
];

/// What a row may say of its capability.
const VERDICTS: &[&str] = &["yes", "part", "no"];

/// Crates by the first part of a path, and where their sources are.
const CRATES: &[(&str, &str)] = &[
    ("bowline_base", "base/src/"),
    ("bowline_uct", "uct/src/"),
    ("bowline_model", "model/src/"),
    ("bowline_ucp", "ucp/src/"),
    ("bowline_self", "providers/self/src/"),
    ("bowline_shm", "providers/shm/src/"),
    ("bowline_tcp", "providers/tcp/src/"),
    ("bowline_ofi", "providers/ofi/src/"),
    ("bowline_verbs", "providers/verbs/src/"),
    ("bowline_sim", "providers/sim/src/"),
    ("bowline_multirail", "providers/multirail/src/"),
    ("bowline_receive_queue", "providers/receive-queue/src/"),
    ("bowline_mpi", "mpi-layer/src/"),
    ("bowline_launch", "mpi-layer/launch/src/"),
    ("bowline", "bowline/src/"),
];

/// Checks the document, where there is one.
pub(super) fn check(files: &[TextFile], sources: &[Source], findings: &mut Vec<Finding>) {
    let Some(document) = files.iter().find(|file| file.path == PATH) else {
        return findings.push(Finding::error(PATH, 0, "the table of capabilities is missing"));
    };
    let mut missing: Vec<String> = UCT.iter().map(|id| format!("U{id:02}")).collect();
    missing.extend(UCP.iter().map(|id| format!("P{id:02}")));
    let known = missing.clone();
    for (index, line) in document.text.lines().enumerate() {
        let Some((id, rest)) = row(line) else { continue };
        let mut report = |message: String| findings.push(Finding::error(PATH, index, message));
        match missing.iter().position(|other| other == id) {
            Some(at) => drop(missing.swap_remove(at)),
            None if known.iter().any(|other| other == id) => report(format!("{id} stands twice")),
            None => report(format!("{id} is no capability of the list")),
        }
        let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
        let [_, verdict, place, test, ..] = cells[..] else {
            report(format!("{id}: a row has what, verdict, where or why not, a test"));
            continue;
        };
        if !VERDICTS.contains(&verdict) {
            report(format!("{id}: the verdict is one of {}", VERDICTS.join(", ")));
        }
        if place.is_empty() {
            report(format!("{id} says neither where it is nor why it is not"));
        }
        let named: Vec<&str> = place.split('`').skip(1).step_by(2).collect();
        if verdict != "no" && named.is_empty() {
            report(format!("{id} names no place in the code"));
        }
        for name in named {
            let there = match name.split_once("::") {
                Some((first, _)) => match CRATES.iter().find(|(known, _)| *known == first) {
                    Some((_, directory)) => defined(name, directory, sources),
                    None => false,
                },
                None if name.contains('/') => files.iter().any(|file| file.path == name),
                // A setting, a command, a word.
                None => true,
            };
            if !there {
                report(format!("{id}: there is no `{name}`"));
            }
        }
        let tests: Vec<&str> = test.split('`').skip(1).step_by(2).collect();
        if verdict == "yes" && tests.is_empty() {
            report(format!("{id} is said to be there, and no test shows it"));
        }
        for name in tests.into_iter().filter(|name| !is_test(name, sources)) {
            report(format!("{id}: there is no test `{name}`"));
        }
    }
    missing.sort();
    for id in missing {
        findings.push(Finding::error(PATH, 0, format!("{id} has no row")));
    }
}

/// The id of a row and what follows it, if the line is one.
fn row(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.strip_prefix('|')?.split_once('|')?;
    let id = id.trim();
    let number = id.strip_prefix(['U', 'P'])?;
    (number.len() == 2 && number.bytes().all(|c| c.is_ascii_digit())).then_some((id, rest))
}

/// Whether `name` is a file and a function of the tests in it: `path/to/file.rs::function`.
fn is_test(name: &str, sources: &[Source]) -> bool {
    let Some((path, function)) = name.split_once("::") else { return false };
    let lines = sources.iter().filter(|source| source.path == path).flat_map(|file| &file.lines);
    lines.filter(|line| line.test).any(|line| {
        words_at(&line.code, function).any(|at| line.code[..at].trim_end().ends_with("fn"))
    })
}

/// Whether the last part of `path` is defined below `directory`.
fn defined(path: &str, directory: &str, sources: &[Source]) -> bool {
    let parts: Vec<&str> = path.split("::").collect();
    let [.., owner, name] = parts[..] else { return false };
    let of_type = owner.chars().next().is_some_and(char::is_uppercase);
    sources.iter().filter(|source| source.path.starts_with(directory)).any(|source| {
        let defines = |name: &str, keywords: &[&str]| {
            source.lines.iter().any(|line| {
                words_at(&line.code, name).any(|at| {
                    let before = line.code[..at].trim_end();
                    keywords.iter().any(|keyword| before.ends_with(keyword))
                })
            })
        };
        const ITEMS: &[&str] =
            &["struct", "enum", "trait", "const", "type", "static", "mod", "macro_rules!"];
        // Of a type: a method, or a variant or a field at the start of its line.
        let member = || {
            defines(name, &["fn", "const", "pub"])
                || source.lines.iter().any(|line| line.code.trim_start().starts_with(name))
        };
        if !of_type {
            // Settings are declared by a macro: `pub NAME: Type`.
            let setting = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            // A function of no type begins at the margin.
            let function = source.lines.iter().any(|line| {
                !line.code.starts_with(' ') && line.code.contains(&format!("fn {name}"))
            });
            return function || defines(name, ITEMS) || setting && defines(name, &["pub"]);
        }
        let implements = |line: &super::source::Line| {
            line.code.trim_start().starts_with("impl")
                && words_at(&line.code, owner).next().is_some()
        };
        let of_owner =
            defines(owner, &["struct", "enum", "trait"]) || source.lines.iter().any(implements);
        of_owner && member()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Vec<Source> {
        vec![
            Source::new(
                "ucp/src/close.rs",
                "//! W.\nimpl Worker {\n    pub fn close(&self) {}\n}\n",
            ),
            Source::new(
                "ucp/src/end.rs",
                "//! W.\npub enum How {\n    Flush,\n}\npub fn end() {}\n",
            ),
            Source::new("ucp/src/settings.rs", "//! W.\nsettings! {\n    pub SIZE: u8 = 1;\n}\n"),
            Source::new("ucp/tests/end.rs", "//! W.\n#[test]\nfn it_ends() {}\n"),
        ]
    }

    #[test]
    fn places_are_looked_up() {
        let there = |path: &str| defined(path, "ucp/src/", &sources());
        assert!(there("bowline_ucp::Worker::close"));
        assert!(there("bowline_ucp::How"));
        assert!(there("bowline_ucp::How::Flush"));
        assert!(there("bowline_ucp::end"));
        assert!(there("bowline_ucp::SIZE"));
        assert!(!there("bowline_ucp::Worker::open"));
        assert!(!there("bowline_ucp::How::close"));
        assert!(!there("bowline_ucp::close"), "a method is not a function");
        assert!(!defined("bowline_uct::How", "uct/src/", &sources()));
    }

    fn messages(text: &str) -> Vec<String> {
        let file = TextFile { path: PATH.into(), text: text.into() };
        let mut findings = Vec::new();
        check(&[file], &sources(), &mut findings);
        let all = findings.into_iter().map(|finding| finding.message);
        all.filter(|message| !message.ends_with("has no row")).collect()
    }

    #[test]
    fn rows_are_checked() {
        let good =
            "| P08 | E a | yes | `bowline_ucp::Worker::close` | `ucp/tests/end.rs::it_ends` |\n";
        assert!(messages(good).is_empty());
        assert!(messages("| P08 | E close | no | nobody needs it ||\n").is_empty());
        // The column of the test is empty where a row has none.
        let one = |text: &str| messages(&text.replace(" |\n", " ||\n")).join("; ");
        assert!(
            one("| P08 | E a | yes | `bowline_ucp::Worker::close` |\n").contains("no test shows")
        );
        for wrong in ["ucp/tests/end.rs::it_begins", "ucp/src/end.rs::end", "ucp/tests/end.rs"] {
            assert!(
                messages(&good.replace("ucp/tests/end.rs::it_ends", wrong)).len() == 1,
                "{wrong}"
            );
        }
        assert!(
            one("| P08 | E close | yes | `bowline_ucp::Worker::no` |\n").contains("there is no")
        );
        assert!(one("| P08 | E close | yes | somewhere |\n").contains("names no place"));
        assert!(one("| P08 | E close | maybe | `x` |\n").contains("verdict"));
        assert!(one("| P08 | E close | no |  |\n").contains("neither"));
        assert!(one("| P99 | E close | no | x |\n").contains("no capability"));
        assert!(one("| P08 | E a | no | x |\n| P08 | E a | no | x |\n").contains("twice"));
        assert!(messages("| P08 |\n").join("").contains("a row has"));
    }

    #[test]
    fn every_capability_needs_a_row() {
        let file = TextFile { path: PATH.into(), text: String::new() };
        let mut findings = Vec::new();
        check(&[file], &[], &mut findings);
        assert_eq!(findings.len(), UCT.len() + UCP.len());
        check(&[], &[], &mut findings);
        assert!(findings.last().is_some_and(|last| last.message.contains("missing")));
    }
}
