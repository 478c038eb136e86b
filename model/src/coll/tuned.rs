//! Tables of algorithms that were found to be the quickest before a job begins: by collective, number of ranks and of
//! nodes, and length. The text of one is
//!
//! ```text
//! bowline table of collectives, version 1
//! allreduce 8 1 5-8 a4,a2 # measured over tcp
//! bcast 8 1 65-1024 chain
//! ```
//!
//! a title, and a line for each cell: the collective, ranks, nodes, the least and the greatest length, and the
//! algorithm as settings name it. What follows a `#` is for people, and so is an empty line.
//!
//! A table speaks of exactly the numbers of ranks and nodes that it has; elsewhere costs choose. Rank 0 reads it and
//! publishes it, so all ranks have the same. Whether a call allows an algorithm is not known here: where it does not,
//! costs choose too. Text is parsed as a whole or refused with the line that is wrong.
//!
//! Lengths begin after a power of two and end with one, so that [`SizeLimits`](super::price::SizeLimits), which asks for
//! powers of two, finds each range.

use std::fmt;
use std::str::FromStr;

use super::price::Algorithm;
use super::wanted::{Asked, Wanted, WantedAllreduce};
use crate::schedule::Schedule;

/// The first line.
const TITLE: &str = "bowline table of collectives, version 1";

/// Longest text of a table, in bytes.
pub const LONGEST: usize = 1 << 20;

/// Longest name of an algorithm, in bytes.
const LONGEST_NAME: usize = 1 << 10;

/// Why text is no table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedError(String);

impl fmt::Display for TunedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for TunedError {}

fn wrong<T>(why: impl Into<String>) -> Result<T, TunedError> {
    Err(TunedError(why.into()))
}

/// What a table says of one range of lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its place among [`Wanted::COLLECTIVES`].
    collective: usize,
    ranks: u32,
    nodes: u32,
    from: usize,
    upto: usize,
    /// Nothing but the algorithm.
    wanted: Wanted,
    note: String,
}

impl Cell {
    /// A cell for so many ranks on so many nodes and for lengths, both ends included: bytes of a vector, of a block
    /// where each rank has one, or of all blocks of `reduce_scatter`. The note is for people.
    ///
    /// # Errors
    /// When there is no such collective or algorithm, it is none of so many ranks, or lengths do not begin after a
    /// power of two and end with one (or with 0).
    pub fn new(
        collective: &str,
        (ranks, nodes): (u32, u32),
        (from, upto): (usize, usize),
        algorithm: &str,
        note: &str,
    ) -> Result<Self, TunedError> {
        let mut known = Wanted::COLLECTIVES.into_iter();
        let Some(number) = known.position(|known| known == collective) else {
            let known = Wanted::COLLECTIVES.join(", ");
            return wrong(format!("{collective:?} is no collective: there are {known}"));
        };
        if ranks == 0 || nodes == 0 || nodes > ranks {
            return wrong(format!("{ranks} ranks cannot be on {nodes} nodes"));
        }
        let begins = from <= 1 || (from - 1).is_power_of_two();
        if from > upto || !begins || !(upto == 0 || upto.is_power_of_two()) {
            return wrong(format!(
                "{from}-{upto} are no lengths: they begin with 0 or after a power of two, and end with one"
            ));
        }
        if algorithm.len() > LONGEST_NAME {
            return wrong(format!("no algorithm has a name of {} bytes", algorithm.len()));
        }
        let mut wanted = Wanted::default();
        wanted.set(collective, algorithm).or_else(|error| wrong(error.to_string()))?;
        if let WantedAllreduce::Schedule(tokens) = &wanted.allreduce
            && let Err(error) = Schedule::new(ranks, tokens.clone())
        {
            return wrong(format!("{algorithm} is no schedule of {ranks} ranks: {error}"));
        }
        let note = note.replace(char::is_control, " ").trim().to_owned();
        Ok(Self { collective: number, ranks, nodes, from, upto, wanted, note })
    }

    fn of_line(line: &str) -> Result<Self, TunedError> {
        let (cell, note) = line.split_once('#').unwrap_or((line, ""));
        let words: Vec<_> = cell.split_whitespace().collect();
        let &[collective, ranks, nodes, lengths, algorithm] = &words[..] else {
            return wrong("a cell has a collective, ranks, nodes, lengths and an algorithm");
        };
        fn number<N: FromStr>(text: &str) -> Result<N, TunedError> {
            text.parse().or_else(|_| wrong(format!("{text:?} is no number of this kind")))
        }
        let Some((from, upto)) = lengths.split_once('-') else {
            return wrong(format!("{lengths:?} are no lengths such as 5-8"));
        };
        let crew = (number(ranks)?, number(nodes)?);
        Self::new(collective, crew, (number(from)?, number(upto)?), algorithm, note)
    }

    /// The collective.
    pub fn collective(&self) -> &'static str {
        Wanted::COLLECTIVES[self.collective]
    }

    /// The name of the algorithm; `auto` where none that has a name is quicker than the choice by costs.
    pub fn algorithm(&self) -> String {
        let words = self.wanted.words();
        words[self.collective].1.clone()
    }

    fn key(&self) -> (usize, u32, u32, usize) {
        (self.collective, self.ranks, self.nodes, self.from)
    }

    /// Whether both speak of a length of the same communicators.
    fn meets(&self, other: &Self) -> bool {
        let ranks = |cell: &Self| (cell.collective, cell.ranks, cell.nodes);
        ranks(self) == ranks(other) && self.from <= other.upto && other.from <= self.upto
    }
}

/// As a line has it.
impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, nodes, from, upto, note, .. } = self;
        let (collective, algorithm) = (self.collective(), self.algorithm());
        write!(out, "{collective} {ranks} {nodes} {from}-{upto} {algorithm}")?;
        if note.is_empty() { Ok(()) } else { write!(out, " # {note}") }
    }
}

/// A table; none of its cells speaks of what another one does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuned {
    /// In the order of their keys.
    cells: Vec<Cell>,
}

impl Tuned {
    /// Parses the text of a table.
    ///
    /// # Errors
    /// It is something else, too long, or a line says what cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, TunedError> {
        if bytes.len() > LONGEST {
            return wrong(format!("it has more than {LONGEST} bytes"));
        }
        let Ok(text) = str::from_utf8(bytes) else {
            return wrong(format!(
                "its first line is not `{TITLE}`, or it has bytes that are no text"
            ));
        };
        let mut lines = text.lines().zip(1..);
        if lines.next().is_none_or(|(title, _)| title != TITLE) {
            return wrong(format!("its first line is not `{TITLE}`"));
        }
        let mut cells: Vec<(Cell, usize)> = Vec::new();
        for (line, number) in lines {
            if line.split('#').next().is_some_and(|cell| !cell.trim().is_empty()) {
                let cell = Cell::of_line(line);
                let cell = cell.or_else(|error| wrong(format!("line {number}: {error}")))?;
                cells.push((cell, number));
            }
        }
        cells.sort_by_key(|(cell, _)| cell.key());
        for pair in cells.windows(2) {
            if let [(one, first), (other, second)] = pair
                && one.meets(other)
            {
                return wrong(format!("lines {first} and {second} speak of the same lengths"));
            }
        }
        Ok(Self { cells: cells.into_iter().map(|(cell, _)| cell).collect() })
    }

    /// Takes cells in, in place of those that speak of the same lengths.
    pub fn learn(&mut self, cells: impl IntoIterator<Item = Cell>) {
        for cell in cells {
            self.cells.retain(|known| !known.meets(&cell));
            self.cells.push(cell);
        }
        self.cells.sort_by_key(Cell::key);
    }

    /// Whether it says nothing.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// What it says of jobs of so many ranks, and of fewer: without notes.
    #[must_use]
    pub fn of_job(self, ranks: u32) -> Self {
        let cells = self.cells.into_iter().filter(|cell| cell.ranks <= ranks);
        Self { cells: cells.map(|cell| Cell { note: String::new(), ..cell }).collect() }
    }

    /// What it says of communicators of so many ranks on so many nodes.
    #[must_use]
    pub fn of(&self, ranks: u32, nodes: u32) -> Self {
        let named = |cell: &&Cell| {
            (cell.ranks, cell.nodes) == (ranks, nodes) && cell.wanted != Wanted::default()
        };
        Self { cells: self.cells.iter().filter(named).cloned().collect() }
    }

    /// The cell for so many bytes of a collective, in a table [of](Self::of) one communicator.
    pub fn cell(&self, collective: &str, bytes: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            (cell.from..=cell.upto).contains(&bytes) && cell.collective() == collective
        })
    }

    /// What that cell asks for.
    pub fn find(&self, collective: &str, bytes: usize) -> Option<&Wanted> {
        self.cell(collective, bytes).map(|cell| &cell.wanted)
    }

    /// The cell for all-to-alls of blocks of different lengths, and how many partners at a time it names, in a table
    /// [of](Self::of) one communicator. No rank knows all lengths, so it is that of the least lengths among those of
    /// all-to-alls that name partners.
    pub fn uneven_alltoall(&self) -> Option<(&Cell, u32)> {
        let mut cells = self.cells.iter().filter(|cell| cell.collective() == "alltoall");
        cells.find_map(|cell| {
            let Asked::Form(Algorithm::Form(form)) = cell.wanted.alltoall else { return None };
            Some((cell, form.partners()?))
        })
    }
}

/// As [`Tuned::parse`] reads it.
impl fmt::Display for Tuned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{TITLE}")?;
        self.cells.iter().try_for_each(|cell| writeln!(out, "{cell}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &str) -> Result<Tuned, TunedError> {
        Tuned::parse(format!("{TITLE}\n{lines}").as_bytes())
    }

    #[test]
    fn cells_speak_of_their_ranks_nodes_and_lengths_only() {
        let text = "bcast 8 1 0-1 chain\n\n  # by hand\nallreduce 8 1 5-8 a4,a2 # 61 us\n\
                    allreduce 8 1 9-64 auto\nallreduce 8 1 65-1024 halving\nbcast 12 1 0-64 staged";
        let all = table(text).unwrap();
        let of_eight = all.of(8, 1);
        let found = |collective: &str, bytes| of_eight.find(collective, bytes).is_some();
        assert!(found("allreduce", 5) && found("allreduce", 8) && found("bcast", 0));
        assert!(!found("allreduce", 4) && !found("allreduce", 9) && !found("bcast", 2));
        assert!(found("allreduce", 1000) && !found("allreduce", 1025));
        assert_eq!(of_eight.cell("allreduce", 8).unwrap().algorithm(), "a4,a2");
        assert!(all.of(8, 2).is_empty() && all.of(9, 1).is_empty());
        // As many ranks on other nodes are other cells, in layers too.
        let nodes =
            table("bcast 8 1 0-64 chain\nbcast 8 2 0-64 nodes:linear:chain\nbcast 8 8 0-64 flat");
        let nodes = nodes.unwrap();
        let on = |nodes_of_job| {
            let cells = nodes.of(8, nodes_of_job);
            cells.cell("bcast", 64).map(Cell::algorithm)
        };
        assert_eq!(on(1).as_deref(), Some("chain"));
        assert_eq!(on(2).as_deref(), Some("nodes:linear:chain"));
        assert_eq!((on(4), on(8).as_deref()), (None, Some("flat")));
        assert_eq!(Tuned::parse(nodes.to_string().as_bytes()), Ok(nodes));
        let job = all.clone().of_job(11);
        assert!(job.cells.len() == 4 && !job.to_string().contains("61 us"));
        assert_eq!(Tuned::parse(all.to_string().as_bytes()), Ok(all));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let refused = |line: &str, why: &str| {
            let error = table(&format!("\n{line}")).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("line 3: "), "{line}: {error}");
        };
        refused("sort 8 1 0-8 auto", "allgather");
        refused("scan 8 1 0-8 ring", "no algorithm of scan");
        refused("bcast 0 1 0-8 auto", "0 ranks");
        refused("bcast 2 3 0-8 auto", "3 nodes");
        refused("bcast 8 1 0-9 auto", "power of two");
        refused("bcast 8 1 4-8 auto", "power of two");
        refused("bcast 8 1 17-8 auto", "power of two");
        refused("bcast 8 1 0-8 gossip", "binomial");
        refused("allreduce 9 1 0-8 a4,a2", "schedule");
        refused(&format!("allreduce 8 1 0-8 {}", "a2,".repeat(400)), "name");
        refused("bcast 8 1 0-8", "a cell has");
        refused("bcast 8 1 0-8 flat chain", "a cell has");
        refused("bcast 8 1 8 flat", "5-8");
        refused("bcast 99999999999 1 0-8 flat", "number");
        let twice = table("bcast 8 1 0-8 flat\nbcast 4 1 0-8 flat\nbcast 8 1 5-16 chain");
        assert!(twice.unwrap_err().to_string().contains("lines 2 and 4"));
        for other in ["", "Chapter 1", "bowline table of collectives, version 2\n"] {
            let error = Tuned::parse(other.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(TITLE), "{error}");
        }
        assert!(Tuned::parse(b"\xff").is_err() && Tuned::parse(&vec![b'#'; LONGEST + 1]).is_err());
    }

    #[test]
    fn new_cells_take_the_place_of_those_of_the_same_lengths() {
        let mut all =
            table("bcast 4 1 0-8 flat\nbcast 4 1 9-64 flat\nbcast 4 1 65-128 chain").unwrap();
        all.learn([Cell::new("bcast", (4, 1), (5, 32), "binomial", "new\nline").unwrap()]);
        assert_eq!(
            all.to_string(),
            format!("{TITLE}\nbcast 4 1 5-32 binomial # new line\nbcast 4 1 65-128 chain\n")
        );
    }
}
