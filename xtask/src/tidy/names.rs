//! The name of a public type means one thing in all libraries: who has met it once knows it everywhere.
//!
//! Public types of the libraries are compared. A name that several files define stands in a list of exceptions, which
//! may only become shorter. Types that only their own crate sees are not compared: their module says what they are of.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::Source;

/// Where the libraries are.
const LIBRARIES: [&str; 7] =
    ["base/src/", "uct/src/", "providers/", "ucp/src/", "model/src/", "mpi-layer/", "bowline/src/"];

/// What begins a definition.
const DEFINITIONS: [&str; 6] =
    ["pub struct ", "pub enum ", "pub trait ", "pub unsafe trait ", "pub union ", "pub type "];

/// Names that several types share because they are one thing: the parts of each queue.
const SEVERAL: &[&str] = &["Consumer", "Failed", "Producer", "Ticket"];

/// Finds names with several meanings, and exceptions that are none any more.
pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    compare(&defined(sources), SEVERAL, findings);
}

/// The public types of the libraries, with the files and lines that define them.
fn defined(sources: &[Source]) -> BTreeMap<String, BTreeSet<(String, usize)>> {
    let mut names: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
    for source in sources {
        if !LIBRARIES.iter().any(|library| source.path.starts_with(library)) {
            continue;
        }
        for (number, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test) {
            // A type within an implementation is a name of its trait's.
            let code = if line.trait_impl { "" } else { line.code.trim_start() };
            let rest = DEFINITIONS.iter().find_map(|begin| code.strip_prefix(begin));
            let end = |rest: &str| rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            if let Some(name) = rest.map(|rest| &rest[..end(rest)]).filter(|name| !name.is_empty())
            {
                names.entry(name.to_owned()).or_default().insert((source.path.clone(), number));
            }
        }
    }
    names
}

fn compare(
    names: &BTreeMap<String, BTreeSet<(String, usize)>>,
    several: &[&str],
    findings: &mut Vec<Finding>,
) {
    for (name, places) in names {
        let files: BTreeSet<_> = places.iter().map(|(path, _)| path).collect();
        if files.len() < 2 || several.contains(&name.as_str()) {
            continue;
        }
        for (path, line) in places {
            let others: Vec<_> = files.iter().filter(|&&other| other != path).copied().collect();
            let others = others.iter().map(|other| other.as_str()).collect::<Vec<_>>().join(", ");
            let message =
                format!("`{name}` is a type of {others}, too: name this one or that one otherwise");
            findings.push(Finding::error(path, *line, message));
        }
    }
    for name in several {
        let files = |places: &BTreeSet<(String, usize)>| {
            places.iter().map(|(path, _)| path).collect::<BTreeSet<_>>().len()
        };
        if names.get(*name).map_or(0, files) < 2 {
            let message = format!("`{name}` means one thing now: take it from the list");
            findings.push(Finding::error("xtask/src/tidy/names.rs", 0, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_files_are_found_and_exceptions_that_are_none() {
        let source = |path: &str, text: &str| Source::new(path, text);
        let sources = [
            source("ucp/src/a.rs", "pub struct Alpha<T>(T);\npub enum Beta {}\nstruct Gamma;\n"),
            source("uct/src/b.rs", "pub trait Alpha {}\npub(crate) struct Beta;\nstruct Gamma;\n"),
            source("bench/src/c.rs", "pub struct Beta;\n"),
            source("base/src/d.rs", "#[cfg(test)]\nmod tests {\n    pub struct Beta;\n}\n"),
            source(
                "model/src/e.rs",
                "// pub struct Beta;\nimpl A for B {\n    pub type Beta = u8;\n}\n",
            ),
        ];
        let run = |several: &[&str]| {
            let mut findings = Vec::new();
            compare(&defined(&sources), several, &mut findings);
            findings.len()
        };
        assert_eq!(run(&[]), 2, "both definitions of Alpha");
        assert_eq!(run(&["Alpha"]), 0);
        assert_eq!(run(&["Alpha", "Beta"]), 1, "Beta is public once");
    }
}
