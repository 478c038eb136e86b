//! The page that says which functions of MPI the library has.

use std::fmt::Write as _;

use super::chapters::Chapters;
use super::facts::Facts;

/// The page.
pub(super) fn text(facts: &Facts, chapters: &Chapters) -> String {
    let (done, all) = (chapters.functions.len(), facts.functions.len());
    let mut text = format!(
        "# Functions of the C library\n\n\
         `cargo xtask abi` writes this page from the library's source. {done} of {all} functions of the \
         standard ABI are implemented; every other one is there too, so that programs load, and raises \
         `MPI_ERR_UNSUPPORTED_OPERATION`, or, of the tools interface, returns an error of that. The chapter is a file below `mpi-layer/abi/src`.\n\n\
         | function | chapter |\n|---|---|\n"
    );
    for function in &facts.functions {
        let chapter = chapters.functions.get(&function.name);
        let chapter = chapter.map_or("none yet", |own| &own.chapter);
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{}` | {chapter} |", function.name);
    }
    text
}
