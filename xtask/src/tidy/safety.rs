//! Every `unsafe` has its proof beside it, and stands where it may.
//!
//! clippy asks for it too, but only in the code that one configuration compiles. This rule reads
//! what is behind `cfg(bowline_loom)`, in fuzz targets and in macros as well.

use super::Finding;
use super::source::{Source, words_at};

/// Lines of code that a statement may have before its `unsafe`.
const STATEMENT: usize = 12;

/// Sources that have none, but for one file each.
const FREE: &[(&str, &str)] = &[("ucp/src/", "ucp/src/loan.rs")];

/// Checks every `unsafe` of a file.
pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let path = source.path.as_str();
    let free = FREE.iter().find(|(below, but)| path.starts_with(below) && path != *but);
    for (index, line) in source.lines.iter().enumerate() {
        for at in words_at(&line.code, "unsafe") {
            let behind = following(source, index, at + "unsafe".len());
            if let Some((below, but)) = free {
                let message = format!("`unsafe` in {below}, where only {but} has any");
                findings.push(Finding::error(path, index, message));
            }
            let kind = Kind::of(&behind);
            let missing = match kind {
                Kind::Type => None,
                Kind::Function if line.trait_impl => None,
                Kind::Function => {
                    (!stated(source, index)).then_some("`unsafe fn` without a `# Safety` section")
                }
                Kind::Trait => {
                    (!stated(source, index)).then_some("`unsafe trait` without `# Safety`")
                }
                Kind::Block => {
                    (!stated(source, index)).then_some("`unsafe` without a SAFETY comment")
                }
            };
            if let Some(message) = missing {
                findings.push(Finding::error(&source.path, index, message));
            }
        }
    }
}

/// What an `unsafe` introduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A function's type: nothing is done or promised.
    Type,
    /// A function, whose callers promise something.
    Function,
    /// A trait, whose implementers promise something.
    Trait,
    /// A block, an implementation, foreign items or an attribute: something is claimed here.
    Block,
}

impl Kind {
    fn of(following: &str) -> Self {
        let mut rest = following.trim_start();
        if let Some(behind) = rest.strip_prefix("extern") {
            rest = behind.trim_start().trim_start_matches('"').trim_start();
        }
        let Some(behind) = rest.strip_prefix("fn") else {
            return if rest.starts_with("trait") { Self::Trait } else { Self::Block };
        };
        if behind.trim_start().starts_with('(') { Self::Type } else { Self::Function }
    }
}

/// The code behind a place, with a line more, since `unsafe` may stand at a line's end.
fn following(source: &Source, index: usize, at: usize) -> String {
    let next = source.lines.get(index + 1).map_or("", |line| &line.code);
    format!("{} {next}", &source.lines[index].code[at..])
}

/// Whether the statement or item at `index` says something of its safety.
fn stated(source: &Source, index: usize) -> bool {
    let says = |comment: &str| comment.contains("SAFETY") || comment.contains("# Safety");
    let next = source.lines.get(index + 1);
    if says(&source.lines[index].comment) || next.is_some_and(|line| says(&line.comment)) {
        return true;
    }
    let mut code = 0;
    for line in source.lines[..index].iter().rev() {
        let text = line.code.trim_end();
        if !text.trim().is_empty() {
            // Another statement ends here, so what stands above is not about this one.
            if text.ends_with([';', '{', '}']) || code == STATEMENT {
                return false;
            }
            code += 1;
        }
        if says(&line.comment) {
            return true;
        }
        if text.is_empty() && line.comment.is_empty() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&Source::new("a/src/b.rs", text), &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn blocks_and_implementations_want_a_proof() {
        assert_eq!(lines("a;\nlet x = unsafe { f() };\n"), [2]);
        assert_eq!(lines("a;\n// SAFETY: f asks nothing.\nlet x = unsafe { f() };\n"), NONE);
        assert_eq!(
            lines("// SAFETY: two\n// lines.\nlet x: u8 =\n    g(1,\n unsafe { f() });\n"),
            NONE
        );
        assert_eq!(lines("unsafe {\n    // SAFETY: f asks nothing.\n    f() }\n"), NONE);
        assert_eq!(
            lines("// SAFETY: a\nunsafe impl Send for A {}\nunsafe impl Sync for A {}\n"),
            [3]
        );
        assert_eq!(lines("// SAFETY: of another\nf();\nunsafe { g() }\n"), [3]);
        assert_eq!(lines("// SAFETY: of nothing\n\nunsafe { g() }\n"), [3]);
        assert_eq!(lines("#[unsafe(no_mangle)]\nfn f() {}\n"), [1]);
    }

    #[test]
    fn functions_say_what_callers_promise() {
        assert_eq!(lines("/// Does.\npub unsafe fn f() {}\n"), [2]);
        assert_eq!(lines("/// # Safety\n/// - x\n#[inline]\npub unsafe fn f() {}\n"), NONE);
        assert_eq!(lines("impl A for B {\n    unsafe fn f() {}\n}\n"), NONE);
        assert_eq!(lines("impl B {\n    unsafe fn f() {}\n}\n"), [2]);
        assert_eq!(lines("/// # Safety\n/// x\nunsafe trait T {}\nunsafe extern \"C\" {}\n"), [4]);
    }

    #[test]
    fn the_engine_has_one_file_with_unsafe() {
        let found = |path| {
            let mut findings = Vec::new();
            check(
                &Source::new(path, "// SAFETY: f asks nothing.\nunsafe { f() }\n"),
                &mut findings,
            );
            findings.len()
        };
        assert_eq!(found("ucp/src/proto/put.rs"), 1);
        assert_eq!(found("ucp/src/loan.rs"), 0);
        assert_eq!(found("ucp/tests/multirail.rs"), 0);
        assert_eq!(found("uct/src/iface.rs"), 0);
    }

    #[test]
    fn types_and_other_words_are_nobodys_promise() {
        assert_eq!(lines("type F = unsafe extern \"C\" fn(i32);\nlet f: unsafe fn() = g;\n"), NONE);
        assert_eq!(lines("#![forbid(unsafe_code)]\n// unsafe\nlet s = \"unsafe {\";\n"), NONE);
    }
}
