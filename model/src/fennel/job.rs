//! Records of jobs: what the ranks of a real job communicated, read from the files that they wrote, as a program.
//!
//! A file is that of one rank: lines of JSON. `BOWLINE_RECORD` has them written.
//!
//! ```json
//! {"format":"bowline record","version":3,"rank":0,"size":2}
//! {"comm":0,"generation":0,"members":[0,1]}
//! {"at":1200,"till":1300,"send":1,"comm":0,"tag":7,"bytes":8}
//! {"at":5000,"till":9000,"recv":1,"comm":0,"tag":7,"bytes":8}
//! {"at":9100,"till":9900,"coll":"allreduce","how":"doubling","comm":0,"bytes":8,"root":0,"later":false}
//! {"at":9920,"till":9940,"coll":"bcast","how":"binomial","comm":0,"bytes":8,"root":0,"run":0,"later":true,"persistent":0}
//! {"at":9950,"till":9960,"wait":true}
//! {"at":9960,"till":9960,"done":0}
//! {"end":10000}
//! ```
//! A communicator has a number in its file, and a generation, which with its members distinguishes it from all others. `send` is
//! a rank of the world, `recv` one of the communicator. `at` and `till` are nanoseconds: when the rank came for it, and
//! when it went on. What lies between a `till` and the next `at` is computing. A receive stands where the program has
//! learned of its end. A collective is a call; `later` says that it only started one, and `persistent` which of the
//! persistent collectives of its communicator. Blocking and nonblocking collectives, and the starts of each
//! persistent one, are numbered apart, as ranks may call them in different orders. What was started has a number in its
//! file, `run`, with which `done` says that the program learned of its end: what lies between runs beside what the rank
//! does then, while it waits and between what it computes. Records of version 1 have neither: what was started is taken
//! to end in its call.
//!
//! Where blocks differ, `bytes` is what a rank gives to all others. Further fields have the lengths that it knows:
//! `own`, those of its own block of a `reduce_scatter`, or `to`, those of the blocks for each rank of an `alltoallv`, of which
//! one entry stands for all where they are the same. `how` is the name of the algorithm as settings take it. Records of version
//! 2 have neither `own` nor `to`, so that these two are taken to have blocks of the mean length, and their names of algorithms
//! are not read.
//!
//! A rank that was killed leaves a record without an end, maybe within a line. What others did with it after that is not
//! in it, so a job with such records goes as far as each message and each collective has its partners ([`Job::cut`]).
//!
//! What is read is not trusted: it is refused with the reason, and nothing is made of a number before it was checked.

mod cut;
mod error;
mod graph;

use std::collections::HashSet;

use serde::Deserialize;

pub use error::JobRecordError;
pub use graph::StepProvider;

/// What is written first, by which such files are known.
pub const FORMAT: &str = "bowline record";

/// The version that is written. It and those before are read.
pub const VERSION: u32 = 3;
/// The first one that names algorithms as settings do.
const NAMED: u32 = 3;

/// The most ranks of a job whose records are read.
pub const RANKS: u32 = 1 << 20;

/// The longest message, a terabyte.
const BYTES: u64 = 1 << 40;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: String,
    version: u32,
    rank: u32,
    size: u32,
}

/// A line behind the first.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Comm {
        comm: u32,
        generation: u32,
        members: Vec<u32>,
    },
    Send {
        at: u64,
        till: u64,
        send: u32,
        comm: u32,
        tag: u32,
        bytes: u64,
    },
    Recv {
        at: u64,
        till: u64,
        recv: u32,
        comm: u32,
        tag: u32,
        bytes: u64,
    },
    Coll {
        at: u64,
        till: u64,
        coll: String,
        how: String,
        comm: u32,
        bytes: u64,
        root: u32,
        later: bool,
        #[serde(default)]
        persistent: Option<u32>,
        #[serde(default)]
        run: Option<u32>,
        #[serde(default)]
        own: Option<u64>,
        #[serde(default)]
        to: Option<Vec<u64>>,
    },
    Done {
        at: u64,
        till: u64,
        done: u32,
    },
    Wait {
        at: u64,
        till: u64,
        wait: bool,
    },
    End {
        end: u64,
    },
}

/// What a rank did, and when.
#[derive(Debug)]
struct Event {
    at: u64,
    till: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Send {
        to: u32,
        comm: u32,
        tag: u32,
        bytes: u64,
    },
    Recv {
        from: u32,
        comm: u32,
        tag: u32,
    },
    /// `run` is the number of its end, where that stands elsewhere.
    Collective {
        comm: u32,
        call: Collective,
        run: Option<u32>,
        blocks: Own,
    },
    /// The end of a collective that was started, by its number.
    Done(u32),
    Wait,
}

/// What a rank knows of blocks of different lengths.
#[derive(Debug)]
enum Own {
    Nothing,
    /// Bytes of its own one.
    Block(usize),
    /// Bytes of those for each rank, or of all of them.
    Sent(Vec<usize>),
}

/// Bytes of the blocks of a collective, by the ranks of its communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lengths {
    /// All have one length, or it is not known how they differ.
    Even,
    /// The block of each rank.
    Members(Vec<usize>),
    /// The blocks of each rank for each.
    Pairs(Vec<BlockRow>),
}

/// The blocks of one rank for each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "lengths differ or they do not")]
pub enum BlockRow {
    /// All have this length: nothing is kept for each, since jobs may have many ranks.
    Same(usize),
    /// The length of each.
    Each(Vec<usize>),
}

impl BlockRow {
    /// The length of the block for a rank.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn to(&self, rank: usize) -> usize {
        match self {
            Self::Same(len) => *len,
            Self::Each(all) => all[rank],
        }
    }
}

/// A call of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collective {
    /// Its name: `bcast`, `allreduce`, ...
    pub name: String,
    /// The algorithm that carried it out, by its name in settings; `None` in records of a version that does not have that.
    pub how: Option<String>,
    /// Members of its communicator.
    pub ranks: u32,
    /// Bytes of a vector, or of a block where each rank has one; what a rank gave, where blocks differ, is the mean of
    /// all members.
    pub bytes: usize,
    /// Those of blocks, where they may differ.
    pub lengths: Lengths,
    /// Its root, where it has one.
    pub root: u32,
    /// It was only started, to end later.
    pub later: bool,
    /// Which of the persistent collectives of its communicator it is, if it is one.
    pub persistent: Option<u32>,
}

/// The record of a rank.
#[derive(Debug)]
pub struct RankRecord {
    version: u32,
    rank: u32,
    size: u32,
    /// Generation and members of its communicators.
    comms: Vec<(u32, Vec<u32>)>,
    events: Vec<Event>,
    /// Collectives that were started, and have not ended.
    open: HashSet<u32>,
    /// When it left, or when it was last heard of, ns.
    end: u64,
    /// It has said when it left.
    ended: bool,
}

/// A job.
#[derive(Debug)]
pub struct Job {
    /// In the order of ranks.
    ranks: Vec<RankRecord>,
}

/// What a job's records come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// Messages of the program's.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Calls of collectives, of all ranks.
    pub collectives: u64,
    /// Those of them that were only started.
    pub later: u64,
    /// Those of these whose records do not say when they ended, which are taken to end in their calls.
    pub ended_in_call: u64,
    /// Nanoseconds between calls, of all ranks.
    pub computing: f64,
}

impl RankRecord {
    /// Reads the record of a rank. That of one that was killed has no end; where it breaks off within a line, that line
    /// is left out.
    ///
    /// # Errors
    /// [`JobRecordError`].
    pub fn parse(text: &str) -> Result<Self, JobRecordError> {
        if text.trim().is_empty() {
            return Err(JobRecordError::Empty);
        }
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let head = lines.next().and_then(|(_, line)| serde_json::from_str::<Head>(line).ok());
        let Head { format, version, rank, size } = head.ok_or(JobRecordError::Foreign)?;
        if format != FORMAT {
            return Err(JobRecordError::Foreign);
        }
        if !(1..=VERSION).contains(&version) {
            return Err(JobRecordError::Version { found: version });
        }
        if size > RANKS || rank >= size {
            let why = format!("rank {rank} of {size}, where up to {RANKS} ranks are possible");
            return Err(JobRecordError::Line { line: 1, why });
        }
        let (comms, events, open) = (Vec::new(), Vec::new(), HashSet::new());
        let mut record = Self { version, rank, size, comms, events, open, end: 0, ended: false };
        let last = text.lines().count();
        let broken_off = !text.ends_with('\n');
        for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
            let wrong = |why: String| JobRecordError::Line { line, why };
            match serde_json::from_str(text) {
                Ok(parsed) => record.take(parsed).map_err(wrong)?,
                Err(_) if line == last && broken_off => {}
                Err(_) => {
                    return Err(wrong(format!("{:.60} is nothing that a rank does", text.trim())));
                }
            }
        }
        Ok(record)
    }

    /// Whether its rank has said that it leaves: one that was killed has not.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    fn take(&mut self, line: Line) -> Result<(), String> {
        let (at, till, what) = match line {
            Line::Comm { comm, generation, members } => {
                return self.comm(comm, generation, members);
            }
            Line::End { end } => {
                let last = self.end;
                self.end = end.max(last);
                self.ended = true;
                return if end < last {
                    Err(format!("it ends at {end}, before {last}"))
                } else {
                    Ok(())
                };
            }
            Line::Send { at, till, send: to, comm, tag, bytes } => {
                if self.members(comm)?.iter().all(|member| *member != to) {
                    return Err(format!("rank {to} is not in communicator {comm}"));
                }
                length(bytes)?;
                (at, till, What::Send { to, comm, tag, bytes })
            }
            Line::Recv { at, till, recv, comm, tag, bytes } => {
                let from = self.members(comm)?.get(recv as usize).copied();
                let from = from.ok_or_else(|| format!("communicator {comm} has no rank {recv}"))?;
                length(bytes)?;
                (at, till, What::Recv { from, comm, tag })
            }
            Line::Coll {
                at,
                till,
                coll: name,
                how,
                comm,
                bytes,
                root,
                later,
                persistent,
                run,
                own,
                to,
            } => {
                let ranks = self.members(comm)?.len() as u32;
                if root >= ranks {
                    return Err(format!("communicator {comm} has no root {root}"));
                }
                let bytes = length(bytes)?;
                let blocks = blocks((&name, ranks), bytes, own, to)?;
                if let Some(run) = run
                    && (!later || !self.open.insert(run))
                {
                    return Err(format!("run {run} is not one that starts here"));
                }
                let (how, lengths) = (Some(how).filter(|_| self.version >= NAMED), Lengths::Even);
                let call = Collective { name, how, ranks, bytes, lengths, root, later, persistent };
                (at, till, What::Collective { comm, call, run, blocks })
            }
            Line::Done { at, till, done } => {
                if !self.open.remove(&done) {
                    return Err(format!("run {done} is not under way"));
                }
                (at, till, What::Done(done))
            }
            Line::Wait { wait: false, .. } => return Err("a wait that is none".to_owned()),
            Line::Wait { at, till, .. } => (at, till, What::Wait),
        };
        if at > till || at < self.end {
            return Err(format!("from {at} till {till}, after what lasted till {}", self.end));
        }
        self.end = till;
        self.events.push(Event { at, till, what });
        Ok(())
    }

    fn comm(&mut self, comm: u32, generation: u32, members: Vec<u32>) -> Result<(), String> {
        if comm as usize != self.comms.len() {
            return Err(format!("communicator {comm} comes after {} others", self.comms.len()));
        }
        let mut sorted = members.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != members.len() || sorted.last().is_some_and(|last| *last >= self.size) {
            return Err("members are different ranks of the job".to_owned());
        }
        if sorted.binary_search(&self.rank).is_err() {
            return Err(format!("rank {} is not among the members", self.rank));
        }
        self.comms.push((generation, members));
        Ok(())
    }

    fn members(&self, comm: u32) -> Result<&[u32], String> {
        let found = self.comms.get(comm as usize).map(|(_, members)| &members[..]);
        found.ok_or_else(|| format!("there is no communicator {comm}"))
    }
}

/// What a rank says of blocks of different lengths in a call of a collective of so many ranks.
fn blocks(
    (name, ranks): (&str, u32),
    bytes: usize,
    own: Option<u64>,
    to: Option<Vec<u64>>,
) -> Result<Own, String> {
    match (name, own, to) {
        // What a rank gives, or gets, is its block.
        ("allgatherv" | "gatherv" | "scatterv", None, None) => Ok(Own::Block(bytes)),
        ("reduce_scatter", Some(own), None) => Ok(Own::Block(length(own)?)),
        ("alltoallv", None, Some(to)) if to.len() == 1 || to.len() == ranks as usize => {
            Ok(Own::Sent(to.into_iter().map(length).collect::<Result<_, _>>()?))
        }
        ("alltoallv", None, Some(to)) => Err(format!("{} blocks for {ranks} ranks", to.len())),
        (_, None, None) => Ok(Own::Nothing),
        _ => Err(format!("{name} has no such blocks")),
    }
}

fn length(bytes: u64) -> Result<usize, String> {
    let fits = usize::try_from(bytes).ok().filter(|_| bytes <= BYTES);
    fits.ok_or_else(|| format!("{bytes} bytes are more than a terabyte"))
}

impl Job {
    /// The job of these records, in any order: one of each rank.
    ///
    /// # Errors
    /// [`JobRecordError::Ranks`].
    pub fn new(mut ranks: Vec<RankRecord>) -> Result<Self, JobRecordError> {
        let wrong = |why: String| JobRecordError::Ranks { why };
        ranks.sort_by_key(|record| record.rank);
        let size = ranks.first().map_or(0, |first| first.size);
        if let Some(other) = ranks.iter().find(|record| record.size != size) {
            return Err(wrong(format!("one has {size} ranks, another one {}", other.size)));
        }
        let misplaced = ranks.iter().zip(0..).find(|(record, rank)| record.rank != *rank);
        let missing = misplaced.map(|(record, rank)| match record.rank < rank {
            true => format!("rank {} is there twice", record.rank),
            false => format!("the one of rank {rank} is missing"),
        });
        if let Some(why) = missing {
            return Err(wrong(why));
        }
        if ranks.is_empty() || ranks.len() != size as usize {
            return Err(wrong(format!("there are {} of {size} ranks", ranks.len())));
        }
        Ok(Self { ranks })
    }

    /// Ranks.
    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// How long it took, in nanoseconds: the longest time of a rank until its last call was over.
    pub fn time(&self) -> f64 {
        let last = |record: &RankRecord| record.events.last().map_or(0, |event| event.till);
        self.ranks.iter().map(last).max().unwrap_or(0) as f64
    }

    /// Ranks that have not said that they leave, so that their records break off.
    pub fn unended(&self) -> Vec<u32> {
        let unended = self.ranks.iter().filter(|record| !record.ended);
        unended.map(|record| record.rank).collect()
    }

    /// Leaves out what waits for something that no record has: a receive without its message, a message without its
    /// receive, a collective that some member did not come to, and what ranks that wait did after that. For records of
    /// which some break off. Gives the number of messages, receives, collectives and waits that are left out.
    pub fn cut(&mut self) -> usize {
        let reached = cut::reached(&self.ranks);
        let mut left_out = 0;
        for (record, (count, vain)) in self.ranks.iter_mut().zip(reached) {
            left_out += record.events.len() - count + vain.len();
            record.events.truncate(count);
            for place in vain {
                // It takes no time in the simulation, as a wait that brought nothing.
                record.events[place].what = What::Wait;
            }
        }
        left_out
    }

    /// What it consisted of.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for record in &self.ranks {
            let mut before = 0;
            for event in &record.events {
                counts.computing += (event.at - before) as f64;
                before = event.till;
                match &event.what {
                    What::Send { bytes, .. } => {
                        counts.messages += 1;
                        counts.bytes = counts.bytes.saturating_add(*bytes);
                    }
                    What::Collective { call, run, .. } => {
                        counts.collectives += 1;
                        counts.later += u64::from(call.later);
                        counts.ended_in_call += u64::from(call.later && run.is_none());
                    }
                    What::Recv { .. } | What::Done(_) | What::Wait => {}
                }
            }
        }
        counts
    }
}
