//! Atomics come from one place, and every access that orders something says what.

use super::source::{Source, words_at};
use super::{Except, Finding, excepted};

/// Orderings that promise something to another thread.
const ORDERINGS: &[&str] = &["Acquire", "Release", "AcqRel", "SeqCst"];

/// What a comment says that names the other side. Long rules stand once, in front of a state word
/// or at one of several like accesses, and are cited.
const NAMED: &[&str] = &[
    "pairs with",
    "pair with",
    "paired with",
    "publish",
    "visible",
    "rule ",
    "as in `",
    "as for `",
    "see `",
];

/// Lines of code between such a comment and its access, the access included.
const NEAR: usize = 7;

/// Who may name the atomics of `std` or of loom.
const MAY_NAME: &[Except] = &[
    Except { path: "base/src/sync.rs", why: "it is the seam" },
    Except { path: "base/src/words/loom_home.rs", why: "made for loom only" },
    Except { path: "bench/", why: "yardsticks measure the bare instructions, not our types" },
    Except { path: "xtask/", why: "tasks are no part of what loom checks" },
    Except { path: "fuzz/", why: "fuzzing never runs under loom" },
];

/// Checks one file.
pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let mut last = None;
    for (index, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test) {
        let names = names_atomics(source, index);
        if names && !excepted(MAY_NAME, &source.path) {
            let message = "atomics come from `bowline_base::sync::atomic`, so that loom sees them";
            findings.push(Finding::error(&source.path, index, message));
        }
        let Some(ordering) = ordering_in(&line.code) else {
            continue;
        };
        // The two orderings of one compare-and-exchange are one access.
        let again = last.is_some_and(|before| index - before <= 2);
        if !again && !source.comment_near(index, NEAR, NAMED) {
            let message = format!("{ordering} without saying what it pairs with or publishes");
            findings.push(Finding::error(&source.path, index, message));
        }
        last = Some(index);
    }
}

fn ordering_in(code: &str) -> Option<&'static str> {
    let code = code.trim_start();
    if code.starts_with("use ") || code.starts_with("pub use ") {
        return None;
    }
    ORDERINGS.iter().copied().find(|ordering| words_at(code, ordering).next().is_some())
}

/// Whether the line names `std::sync::atomic` or a sibling, alone or in a `use` with braces.
fn names_atomics(source: &Source, index: usize) -> bool {
    let code: String = source.lines[index].code.split_whitespace().collect();
    let whole = |module: &str| code.contains(&format!("{module}::sync::atomic"));
    if ["std", "core", "loom"].iter().any(|module| whole(module)) {
        return true;
    }
    // `use std::sync::{` and what follows, to the end of the statement.
    let Some(at) = code.find("usestd::sync::{") else {
        return false;
    };
    let mut list = code[at..].to_owned();
    for line in &source.lines[index + 1..] {
        if list.contains(';') {
            break;
        }
        list.push_str(&line.code);
    }
    words_at(&list, "atomic").next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&Source::new(path, text), &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_ordering_names_its_other_side() {
        let path = "base/src/x.rs";
        assert_eq!(lines(path, "a.load(Ordering::Acquire);\n"), [1]);
        assert_eq!(lines(path, "// Pairs with the store in f.\na.load(Acquire);\n"), NONE);
        assert_eq!(lines(path, "a.store(1, Ordering::Release); // publishes the slot\n"), NONE);
        assert_eq!(lines(path, "a.load(Ordering::Relaxed); cmp::Ordering::Less;\n"), NONE);
        assert_eq!(lines(path, "use Ordering::{Acquire, Release};\n"), NONE);
        assert_eq!(lines(path, "#[cfg(test)]\nmod tests { fn f() { a.load(SeqCst); } }\n"), NONE);
        let far = format!("// pairs with b\n{}a.load(Acquire);\n", "x;\n".repeat(7));
        assert_eq!(lines(path, &far), [9]);
        let exchange = "a.compare_exchange(\n0,\n1,\nOrdering::AcqRel,\nOrdering::Acquire,\n);\n";
        assert_eq!(lines(path, exchange), [4]);
    }

    #[test]
    fn atomics_come_from_the_seam() {
        let line = "use std::sync::atomic::AtomicU32;\n";
        assert_eq!(lines("ucp/src/x.rs", line), [1]);
        assert_eq!(lines("base/src/sync.rs", line), NONE);
        assert_eq!(lines("ucp/tests/x.rs", line), NONE);
        assert_eq!(lines("ucp/src/x.rs", "use std::sync::{Arc,\n  atomic::AtomicU8};\n"), [1]);
        assert_eq!(lines("ucp/src/x.rs", "use std::sync::{Arc, Mutex};\n"), NONE);
        assert_eq!(lines("ucp/src/x.rs", "use bowline_base::sync::atomic::AtomicU8;\n"), NONE);
    }
}
