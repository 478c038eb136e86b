//! The programs of a job. Most jobs have one; where there are several, each has its own number of
//! ranks, arguments, environment and directory, and ranks are counted on from program to program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{LaunchError, RunOptions};

/// A further program of a job, for [`RunOptions::more`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobPart {
    /// Its ranks.
    pub ranks: u32,
    /// The program: a path, or a name that is searched for in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables to add for its ranks.
    pub env: Vec<(OsString, OsString)>,
    /// The directory to start in. Default: the launcher's.
    pub directory: Option<PathBuf>,
}

impl JobPart {
    /// `ranks` times `program`, without arguments.
    pub fn new(ranks: u32, program: impl Into<OsString>) -> Self {
        let (args, env) = (Vec::new(), Vec::new());
        Self { ranks, program: program.into(), args, env, directory: None }
    }

    fn view(&self) -> View<'_> {
        let Self { ranks, program, args, env, directory } = self;
        View { ranks: *ranks, program, args, env, directory: directory.as_deref() }
    }
}

/// One program of a job, the first or another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) ranks: u32,
    pub(crate) program: &'a OsStr,
    pub(crate) args: &'a [OsString],
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) directory: Option<&'a Path>,
}

impl RunOptions {
    /// Ranks of the whole job.
    ///
    /// # Errors
    /// When a program has none, or all together are beyond what a job can have.
    pub(crate) fn size(&self) -> Result<u32, LaunchError> {
        self.parts().try_fold(0u32, |sum, part| match part.ranks {
            0 => Err(LaunchError::NoRanks),
            ranks => sum.checked_add(ranks).ok_or(LaunchError::TooManyRanks),
        })
    }

    /// A job of these programs; everything else as documented.
    pub fn of_parts(parts: Vec<JobPart>) -> Self {
        let mut options = Self::new(0, "");
        options.take_parts(parts);
        options
    }

    /// Makes these its programs.
    pub(crate) fn take_parts(&mut self, parts: Vec<JobPart>) {
        let mut parts = parts.into_iter();
        if let Some(JobPart { ranks, program, args, env, directory }) = parts.next() {
            (self.ranks, self.program, self.args) = (ranks, program, args);
            (self.env, self.directory) = (env, directory);
        }
        self.more = parts.collect();
    }

    /// The programs, in the order of their ranks.
    pub(crate) fn parts(&self) -> impl Iterator<Item = View<'_>> {
        let first = View {
            ranks: self.ranks,
            program: &self.program,
            args: &self.args,
            env: &self.env,
            directory: self.directory.as_deref(),
        };
        std::iter::once(first).chain(self.more.iter().map(JobPart::view))
    }

    /// The number of the program that a rank runs, and the program.
    pub(crate) fn part_of(&self, rank: u32) -> Option<(u32, View<'_>)> {
        let mut before = 0u32;
        (0..).zip(self.parts()).find(|(_, part)| {
            before = before.saturating_add(part.ranks);
            rank < before
        })
    }

    /// The number of the program of each of these ranks.
    pub(crate) fn numbers(&self, ranks: std::ops::Range<u32>) -> Vec<u32> {
        let all = (0..)
            .zip(self.parts())
            .flat_map(|(number, part)| std::iter::repeat_n(number, part.ranks as usize));
        all.skip(ranks.start as usize).take(ranks.len()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted_on_from_program_to_program() {
        let mut options = RunOptions::new(2, "a");
        options.more = vec![JobPart::new(1, "b"), JobPart::new(3, "c")];
        assert_eq!(options.size().unwrap(), 6);
        let names: Vec<_> = (0..7).map(|rank| options.part_of(rank)).collect();
        let names = names.into_iter().map(|part| part.map(|(n, p)| (n, p.program.to_str())));
        let (a, b, c) = ((0, Some("a")), (1, Some("b")), (2, Some("c")));
        let expected = [Some(a), Some(a), Some(b), Some(c), Some(c), Some(c), None];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert_eq!(options.numbers(1..5), [0, 1, 2, 2]);
    }

    #[test]
    fn jobs_that_cannot_be_are_refused() {
        let mut options = RunOptions::new(2, "a");
        options.more = vec![JobPart::new(0, "b")];
        assert!(matches!(options.size(), Err(LaunchError::NoRanks)));
        options.more = vec![JobPart::new(u32::MAX, "b")];
        assert!(matches!(options.size(), Err(LaunchError::TooManyRanks)));
    }
}
