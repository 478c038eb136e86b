//! How long a file may be: somebody has to read it in one go.

use super::{Except, Finding, excepted};
use crate::workspace::TextFile;

/// A file with more lines fails.
const MOST: usize = 800;

/// A file with more lines is asked to be split.
const MANY: usize = 500;

/// Kinds of files that are read as source.
const SOURCES: &[&str] = &[".rs", ".c", ".h", ".sh", ".py"];

const EXCEPT: &[Except] = &[
    Except { path: "mpi-layer/abi/src/generated/", why: "made from tables; read nowhere" },
    Except { path: "mpi-layer/abi/src/stubs.rs", why: "made from tables; read nowhere" },
    Except { path: "mpi-layer/abi/include/mpi.h", why: "made from tables; has every function" },
];

/// Counts the lines of a source file.
pub(super) fn check(file: &TextFile, findings: &mut Vec<Finding>) {
    let source = SOURCES.iter().any(|ending| file.path.ends_with(ending));
    if !source || excepted(EXCEPT, &file.path) {
        return;
    }
    let lines = file.text.lines().count();
    if lines > MOST {
        let message = format!("{lines} lines; split the file, at most {MOST} are allowed");
        findings.push(Finding::error(&file.path, lines - 1, message));
    } else if lines > MANY {
        let message = format!("{lines} lines; split the file before it has {MOST}");
        findings.push(Finding::warning(&file.path, lines - 1, message));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    const NONE: [Level; 0] = [];

    fn findings(path: &str, lines: usize) -> Vec<Level> {
        let file = TextFile { path: path.into(), text: "x\n".repeat(lines) };
        let mut findings = Vec::new();
        check(&file, &mut findings);
        findings.iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn long_files_warn_and_then_fail() {
        assert_eq!(findings("a.rs", 500), NONE);
        assert_eq!(findings("a.rs", 501), [Level::Warning]);
        assert_eq!(findings("a.rs", 800), [Level::Warning]);
        assert_eq!(findings("a.c", 801), [Level::Error]);
        assert_eq!(findings("Cargo.lock", 5000), NONE);
    }
}
