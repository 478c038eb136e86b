//! Which functions the chapters of the library implement, found by their macro, and whether what they
//! take is what the table says.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::facts::{Facts, Function, Passed};

/// The functions that the library has.
#[derive(Debug, Default)]
pub(super) struct Chapters {
    /// By the function's name.
    pub(super) functions: BTreeMap<String, Implemented>,
}

/// A function of a chapter.
#[derive(Debug)]
pub(super) struct Implemented {
    /// The chapter's name, which is that of its file.
    pub(super) chapter: String,
    any_time: bool,
    /// Types of the parameters.
    parameters: Vec<String>,
    returns: Option<String>,
}

impl Chapters {
    /// Reads the sources below `directory`, those that were made left out.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let mut chapters = Self::default();
        chapters.read_below(directory, "")?;
        Ok(chapters)
    }

    fn read_below(&mut self, directory: &Path, prefix: &str) -> Result<()> {
        let cannot = || format!("cannot read {}", directory.display());
        let mut entries: Vec<_> =
            std::fs::read_dir(directory).with_context(cannot)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                if name != "generated" {
                    self.read_below(&path, &format!("{prefix}{name}/"))?;
                }
            } else if let Some(chapter) = name.strip_suffix(".rs")
                && chapter != "stubs"
            {
                let text = std::fs::read_to_string(&path).with_context(cannot)?;
                self.read_file(&format!("{prefix}{chapter}"), &text)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, chapter: &str, text: &str) -> Result<()> {
        for (at, _) in text.match_indices("fn MPI_") {
            let line = text[..at].rsplit('\n').next().unwrap_or_default();
            if line.contains("//") {
                continue;
            }
            let rest = &text[at + "fn ".len()..];
            let Some((name, rest)) = rest.split_once('(') else { continue };
            let Some((list, rest)) = closed(rest) else {
                bail!("{chapter}.rs: no end of the parameters of {name}");
            };
            let returns = rest.trim_start().strip_prefix("->").map(|rest| {
                let end = rest.find(['{', '|']).unwrap_or(rest.len());
                rest[..end].trim().to_owned()
            });
            let parameters = split(list)
                .into_iter()
                .filter_map(|part| Some(part.split_once(':')?.1.trim().to_owned()))
                .collect();
            let any_time = line.trim_end().ends_with("any");
            let chapter = chapter.to_owned();
            let found = Implemented { chapter, any_time, parameters, returns };
            if let Some(other) = self.functions.insert(name.to_owned(), found) {
                bail!("{name} is implemented twice, once in {}.rs", other.chapter);
            }
        }
        Ok(())
    }

    /// Fails where a function is none of the table or differs from it.
    pub(super) fn check(&self, facts: &Facts) -> Result<()> {
        for (name, own) in &self.functions {
            let Some(function) = facts.function(name) else {
                bail!("{}.rs: {name} is no function of MPI", own.chapter);
            };
            if let Err(why) = own.agrees(function) {
                bail!("{}.rs: {name} {why}", own.chapter);
            }
        }
        Ok(())
    }
}

impl Implemented {
    fn agrees(&self, function: &Function) -> Result<(), String> {
        if self.any_time != function.any_time {
            let when = if function.any_time { "at any time" } else { "while MPI runs only" };
            return Err(format!("may be called {when}, and the chapter says otherwise"));
        }
        let fixed: Vec<Passed> = function
            .parameters
            .iter()
            .map(|parameter| Passed::of_c(&parameter.kind))
            .filter(|&passed| passed != Passed::Variadic)
            .collect();
        let own: Vec<Passed> = self.parameters.iter().map(|kind| Passed::of_rust(kind)).collect();
        if own.len() != fixed.len() {
            return Err(format!("takes {} arguments, not {}", fixed.len(), own.len()));
        }
        for ((own, fixed), parameter) in own.iter().zip(&fixed).zip(&function.parameters) {
            if own != fixed {
                return Err(format!("takes {fixed:?} as `{}`, not {own:?}", parameter.name));
            }
        }
        let own = self.returns.as_deref().map_or(Passed::Int, Passed::of_rust);
        if own != Passed::of_c(&function.returns) {
            return Err(format!("returns {}", function.returns));
        }
        Ok(())
    }
}

/// The text up to the parenthesis that closes, and what follows it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

/// Parts between the commas that stand in no parentheses.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' | '<' | '[' => depth += 1,
            ')' | '>' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_chapter_are_found() {
        let text = "mpi! {\n    fn MPI_A(x: Out<c_int>, comm: Comm) on comm |mpi| {}\n\
                    any fn MPI_B() -> c_double |mpi| {}\n    // fn MPI_C()\n}\n";
        let mut chapters = Chapters::default();
        chapters.read_file("one", text).unwrap();
        let a = &chapters.functions["MPI_A"];
        assert_eq!((a.parameters.len(), a.any_time), (2, false));
        let b = &chapters.functions["MPI_B"];
        assert_eq!((b.parameters.len(), b.any_time), (0, true));
        assert_eq!(b.returns.as_deref(), Some("c_double"));
        assert_eq!(chapters.functions.len(), 2);
        assert!(chapters.read_file("two", text).is_err(), "twice");
    }
}
