//! The name of a type means one thing wherever it can be named: who has met it once knows it everywhere.
//!
//! Public types of the libraries are compared with each other, and types that only their crate sees (`pub(crate)`,
//! `pub(super)`) with all that this crate has. A name that several files define stands in a list of exceptions, which
//! may only become shorter. Types that only their own module sees are not compared: the module says what they are of.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::Source;

/// Where the libraries are.
const LIBRARIES: [&str; 7] =
    ["base/src/", "uct/src/", "providers/", "ucp/src/", "model/src/", "mpi-layer/", "bowline/src/"];

/// What begins a definition, behind its visibility.
const DEFINITIONS: [&str; 6] = ["struct ", "enum ", "trait ", "unsafe trait ", "union ", "type "];

/// Names that several types share because they are one thing: the parts of each queue.
const SEVERAL: &[&str] = &["Consumer", "Failed", "Producer", "Ticket"];

/// Names that several types of a crate share, of which some are its own: by the directory of the crate.
const SEVERAL_WITHIN: &[&str] = &[
    "model::Fold",
    "model::Place",
    "model::Stage",
    "mpi-layer/abi::Function",
    "mpi-layer/abi::Kind",
    "mpi-layer/abi::Object",
    "mpi-layer/launch::Fields",
    "mpi-layer::Call",
    "mpi-layer::Core",
    "mpi-layer::Predefined",
    "mpi-layer::Shared",
    "providers/shm::Held",
    "providers/tcp::Kind",
    "providers/verbs::Ah",
    "providers/verbs::Bytes",
    "providers/verbs::Context",
    "providers/verbs::Cq",
    "providers/verbs::Link",
    "providers/verbs::Mr",
    "providers/verbs::Pd",
    "providers/verbs::Qp",
    "providers/verbs::Srq",
    "providers/verbs::Waiting",
    "ucp::Engine",
];

/// Where a name is defined: files and lines.
type Names = BTreeMap<String, BTreeSet<(String, usize)>>;

/// Finds names with several meanings, and exceptions that are none any more.
pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    compare(&public(sources), SEVERAL, findings);
    compare(&within_crates(sources), SEVERAL_WITHIN, findings);
}

/// The public types of the libraries.
fn public(sources: &[Source]) -> Names {
    let mut names = Names::new();
    for source in libraries(sources) {
        for (number, name, _) in types(source).filter(|(_, _, restricted)| !restricted) {
            names.entry(name.to_owned()).or_default().insert((source.path.clone(), number));
        }
    }
    names
}

/// The types of each crate that share their names with one that only the crate sees; a name has its crate in front.
fn within_crates(sources: &[Source]) -> Names {
    let mut names = Names::new();
    let mut own = BTreeSet::new();
    for source in libraries(sources) {
        let Some((directory, _)) = source.path.split_once("/src/") else { continue };
        for (number, name, restricted) in types(source) {
            let name = format!("{directory}::{name}");
            if restricted {
                own.insert(name.clone());
            }
            names.entry(name).or_default().insert((source.path.clone(), number));
        }
    }
    names.retain(|name, _| own.contains(name));
    names
}

fn libraries(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| LIBRARIES.iter().any(|library| source.path.starts_with(library)))
}

/// The types of a file that others may name: line, name, and whether only its crate may.
fn types(source: &Source) -> impl Iterator<Item = (usize, &str, bool)> {
    source.lines.iter().enumerate().filter(|(_, line)| !line.test).filter_map(|(number, line)| {
        // A type within an implementation is a name of its trait's.
        let code = if line.trait_impl { "" } else { line.code.trim_start() };
        let rest = code.strip_prefix("pub")?;
        let (rest, restricted) = match rest.strip_prefix('(') {
            Some(rest) => (rest.split_once(')')?.1, true),
            None => (rest, false),
        };
        let rest = rest.strip_prefix(' ')?;
        let rest = DEFINITIONS.iter().find_map(|begin| rest.strip_prefix(begin))?;
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        (end > 0).then_some((number, &rest[..end], restricted))
    })
}

fn compare(names: &Names, several: &[&str], findings: &mut Vec<Finding>) {
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
            compare(&public(&sources), several, &mut findings);
            findings.len()
        };
        assert_eq!(run(&[]), 2, "both definitions of Alpha");
        assert_eq!(run(&["Alpha"]), 0);
        assert_eq!(run(&["Alpha", "Beta"]), 1, "Beta is public once");
    }

    #[test]
    fn names_of_one_crate_are_found_if_only_the_crate_sees_one() {
        let source = |path: &str, text: &str| Source::new(path, text);
        let sources = [
            source(
                "ucp/src/a.rs",
                "pub(crate) struct Alpha<T>(T);\npub struct Beta;\nstruct Gamma;\n",
            ),
            source("ucp/src/b.rs", "pub(super) enum Alpha {}\npub struct Beta;\n"),
            source(
                "ucp/src/c.rs",
                "pub(in crate::x) unsafe trait Gamma {}\npub type Delta = u8;\n",
            ),
            source("uct/src/d.rs", "pub(crate) struct Gamma;\npub(crate) struct Delta;\n"),
        ];
        let run = |several: &[&str]| {
            let mut findings = Vec::new();
            compare(&within_crates(&sources), several, &mut findings);
            findings.len()
        };
        assert_eq!(run(&[]), 2, "both definitions of Alpha");
        assert_eq!(run(&["ucp::Alpha"]), 0);
        assert_eq!(run(&["ucp::Alpha", "uct::Gamma"]), 1, "Gamma of uct is one type");
    }
}
