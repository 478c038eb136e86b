//! How long functions are: one that does not fit on two screens does several things.
//!
//! Those that are longer than [`LONG`] lines are counted, and the count may only fall.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::Finding;
use super::source::Source;
use crate::workspace::TextFile;

/// Lines of a function, its head and both braces included, above which it is counted.
const LONG: usize = 80;

/// So many are longer today. The number is lowered when one is split.
const COUNT: usize = 14;

/// Counts the long functions of all files but tests.
pub(super) fn check(files: &[TextFile], sources: &[Source], findings: &mut Vec<Finding>) {
    let mut long = Vec::new();
    for source in sources {
        let Some(file) = files.iter().find(|file| file.path == source.path) else { continue };
        let of_tests = |line: usize| source.lines.get(line).is_some_and(|line| line.test);
        for (line, lines, name) in functions(&file.text) {
            if lines > LONG && !of_tests(line) {
                long.push((source.path.clone(), line, lines, name));
            }
        }
    }
    let count = long.len();
    if count < COUNT {
        let message = format!("{count} functions have more than {LONG} lines: lower the count");
        findings.push(Finding::error("xtask/src/tidy/lengths.rs", 0, message));
    }
    if count > COUNT {
        for (path, line, lines, name) in long {
            let message = format!(
                "`{name}` has {lines} lines; {count} functions have more than {LONG}, {COUNT} were allowed: split it"
            );
            findings.push(Finding::error(&path, line, message));
        }
    }
}

/// First line from 0, number of lines and name of each function of a file.
fn functions(text: &str) -> Vec<(usize, usize, String)> {
    let mut found = Functions(Vec::new());
    // What does not parse is the compiler's to refuse.
    if let Ok(file) = syn::parse_file(text) {
        found.visit_file(&file);
    }
    found.0
}

struct Functions(Vec<(usize, usize, String)>);

impl Functions {
    fn add(&mut self, sig: &syn::Signature, block: &syn::Block) {
        let first = sig.span().start().line;
        let last = block.span().end().line;
        self.0.push((first.saturating_sub(1), last + 1 - first, sig.ident.to_string()));
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_head_to_brace() {
        let text = "\nfn a(\n    x: u8,\n) {\n}\nimpl A {\n    fn b() {}\n}\ntrait T {\n    fn c();\n    fn d() {\n    }\n}\n";
        let names: Vec<_> = functions(text);
        let expected = [(1, 4, "a"), (6, 1, "b"), (10, 2, "d")];
        assert_eq!(names, expected.map(|(line, lines, name)| (line, lines, name.to_owned())));
        assert_eq!(functions("fn a( {"), Vec::new());
    }

    #[test]
    fn long_functions_beyond_the_count_are_named() {
        let body = "    x();\n".repeat(LONG);
        let file =
            |path: &str| TextFile { path: path.into(), text: format!("fn f() {{\n{body}}}\n") };
        let files: Vec<_> = (0..=COUNT).map(|k| file(&format!("a{k}.rs"))).collect();
        let sources: Vec<_> =
            files.iter().map(|file| Source::new(&file.path, &file.text)).collect();
        let mut findings = Vec::new();
        check(&files, &sources, &mut findings);
        assert_eq!(findings.len(), COUNT + 1);
        check(&files[1..], &sources[1..], &mut findings);
        assert_eq!(findings.len(), COUNT + 1, "as many as are allowed");
    }
}
