//! Small rules for one Rust file: it says what it is, leaves nothing undone, does not fall over
//! where an error belongs, and the engine stays free of clocks, threads and sockets.

use super::source::{Source, words_at};
use super::{Except, Finding, excepted};

/// Where `unwrap` may stand outside tests.
const MAY_UNWRAP: &[Except] = &[
    Except { path: "fuzz/", why: "a fuzz target's failed assertion is its result" },
    Except { path: "xtask/src/tidy/source/", why: "tests" },
];

/// Names by which the operating system would come into the protocol engine.
const SYSTEM: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
    "rustix",
    "libc",
];

/// Checks one file.
pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let mut report = |index: usize, message: String| {
        findings.push(Finding::error(&source.path, index, message));
    };
    if let Some(index) = first_line(source).filter(|&i| !opens(source, i)) {
        report(index, "starts without `//!`: say what the file is and what it is not".into());
    }
    for (index, line) in source.lines.iter().enumerate() {
        if let Some(mark) = undone(&line.comment) {
            report(index, format!("`{mark}`: do it, or write FIXME(why it is not done)"));
        }
        for name in ["todo", "unimplemented", "dbg"] {
            if calls_macro(&line.code, name) {
                report(index, format!("`{name}!` does not belong in the tree"));
            }
        }
        if line.test {
            if asserts_a_time(source, index) {
                report(
                    index,
                    "a test asserts that something was quick: slow machines are not wrong".into(),
                );
            }
            continue;
        }
        if line.code.contains(".unwrap()") && !excepted(MAY_UNWRAP, &source.path) {
            report(index, "`unwrap` outside tests: `expect` states why it cannot fail".into());
        }
        if source.path.starts_with("ucp/src/") {
            for name in SYSTEM.iter().filter(|name| line.code.contains(**name)) {
                report(index, format!("`{name}` in ucp, which has no clock, thread or socket"));
            }
        }
    }
}

fn first_line(source: &Source) -> Option<usize> {
    let written = |line: &super::source::Line| {
        !line.code.trim().is_empty()
            || !line.comment.is_empty() && !line.comment.contains("SPDX-License-Identifier")
    };
    source.lines.iter().position(written).or(Some(0))
}

fn opens(source: &Source, index: usize) -> bool {
    source.lines.get(index).is_some_and(|line| line.comment.starts_with("//!"))
}

/// A mark for something that is still to be done, unless it is a `FIXME(why it waits)`.
fn undone(comment: &str) -> Option<&'static str> {
    for mark in ["TODO", "XXX"] {
        if words_at(comment, mark).next().is_some() {
            return Some(mark);
        }
    }
    let bare = |at: usize| {
        let behind = comment[at + "FIXME".len()..].strip_prefix('(');
        // A reason has more than one word.
        !behind.and_then(|rest| rest.split_once(')')).is_some_and(|(why, _)| why.contains(' '))
    };
    words_at(comment, "FIXME").any(bare).then_some("FIXME")
}

/// Whether an assertion begins in this line that compares what a clock says with a bound above:
/// `assert!(start.elapsed() < LIMIT)`, also over several lines. A watchdog does not assert, it ends the
/// process or fails the test with a reason.
fn asserts_a_time(source: &Source, index: usize) -> bool {
    let Some(at) = source.lines[index].code.find("assert!(") else { return false };
    let mut text = String::new();
    for line in source.lines[index..].iter().take(4) {
        let code = if text.is_empty() { &line.code[at..] } else { line.code.as_str() };
        text.extend(code.chars().filter(|c| !c.is_whitespace()));
        if code.contains(';') {
            break;
        }
    }
    // What follows the first comma is the message.
    let condition = text.split(',').next().unwrap_or_default();
    condition.contains(".elapsed()<") || condition.contains(">start.elapsed()")
}

fn calls_macro(code: &str, name: &str) -> bool {
    words_at(code, name).any(|at| code[at + name.len()..].starts_with('!'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn messages(path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&Source::new(path, text), &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_file_says_what_it_is() {
        assert_eq!(messages("a/src/b.rs", "use x;\n"), [1]);
        assert_eq!(messages("a/src/b.rs", ""), [1]);
        assert_eq!(messages("a/src/b.rs", "// hello\n//! x\n"), [1]);
        assert_eq!(messages("a/src/b.rs", "\n//! What.\nuse x;\n"), NONE);
        assert_eq!(messages("a/src/b.rs", "// SPDX-License-Identifier: MIT\n//! What.\n"), NONE);
    }

    #[test]
    fn marks_of_unfinished_work() {
        assert_eq!(messages("b.rs", "//! W.\n// TODO later\n"), [2]);
        assert_eq!(messages("b.rs", "//! W.\nf(); // XXX: wrong\n"), [2]);
        assert_eq!(messages("b.rs", "//! W.\n// FIXME\n// FIXME(x)\n// FIXME: x y\n"), [2, 3, 4]);
        assert_eq!(messages("b.rs", "//! W.\n// FIXME(needs Linux 6.9): x\n"), NONE);
        assert_eq!(messages("b.rs", "//! W.\nlet a = \"TODO\"; // a TODOLIST\n"), NONE);
        assert_eq!(messages("b.rs", "//! W.\nfn a() { todo!() }\nunimplemented!();\n"), [2, 3]);
        assert_eq!(messages("b.rs", "//! W.\nmy_todo!(); let todo = 1;\n"), NONE);
    }

    #[test]
    fn unwrap_is_for_tests() {
        let text = "//! W.\nx.unwrap();\n#[cfg(test)]\nmod tests { fn a() { x.unwrap(); } }\n";
        assert_eq!(messages("b/src/c.rs", text), [2]);
        assert_eq!(messages("b/tests/c.rs", text), NONE);
        assert_eq!(messages("fuzz/src/c.rs", text), NONE);
        assert_eq!(messages("b/src/c.rs", "//! W.\nx.unwrap_or(1); // a.unwrap()\n"), NONE);
    }

    #[test]
    fn a_maximum_of_time_is_not_asserted() {
        let test =
            |body: &str| messages("b/tests/c.rs", &format!("//! W.\nfn a() {{\n{body}\n}}\n"));
        assert_eq!(test("assert!(start.elapsed() < LIMIT);"), [3]);
        assert_eq!(test("assert!(\n    start.elapsed()\n        <= LIMIT,\n    \"late\");"), [3]);
        assert_eq!(test("assert!(start.elapsed() >= LONG_ENOUGH);"), NONE);
        assert_eq!(test("assert!(ended, \"after {:?}\", start.elapsed());"), NONE);
        assert_eq!(test("if start.elapsed() > WATCHDOG {\n    panic!(\"hangs\");\n}"), NONE);
    }

    #[test]
    fn the_engine_has_no_clock() {
        let text = "//! W.\nuse std::time::Instant;\n#[cfg(test)]\nuse std::thread;\n";
        assert_eq!(messages("ucp/src/worker.rs", text), [2]);
        assert_eq!(messages("bowline/src/wait.rs", text), NONE);
        assert_eq!(
            messages("ucp/src/worker.rs", "//! W. No std::thread.\nstd::time::Duration\n"),
            NONE
        );
    }
}
