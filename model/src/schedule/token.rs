//! The stages of the notation, each with its numbers: how they are written and read.

use std::fmt;
use std::str::FromStr;

use super::ScheduleError;

/// A stage that all ranks go through together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JointStage {
    /// Groups of `factor` ranks exchange what they have.
    Exchange {
        /// Ranks in a group.
        factor: u32,
    },
    /// The first `threshold` ranks are made fewer.
    Collapse {
        /// Ranks that take part.
        threshold: u32,
        /// Ranks that become one.
        base: u32,
    },
    /// What a collapse has left out gets the result.
    Expand {
        /// Ranks that take part.
        threshold: u32,
        /// Ranks that were made one.
        base: u32,
    },
    /// An exchange that takes in the values of ranks which are no more than that.
    Merge(Merged),
    /// The same, in the order of ranks.
    OrderedMerge(Merged),
    /// An exchange that gives them the result.
    InverseMerge(Merged),
    /// Groups cut the vector: each rank of a group reduces one part of it.
    Split(Cut),
    /// Each rank of a group gets the parts of the others.
    Gather(Cut),
}

/// An exchange with ranks beside its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the three numbers of the published notation")]
pub struct Merged {
    /// Ranks beside the groups.
    pub remainder: u32,
    /// Groups.
    pub groups: u32,
    /// Ranks in a group.
    pub factor: u32,
}

/// How a group deals with the parts of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the two things that a group needs to know")]
pub struct Cut {
    /// Ranks in a group, and parts.
    pub factor: u32,
    /// Whether parts go from neighbour to neighbour, in `factor - 1` rounds, and not from each rank to each other one
    /// in one round.
    pub ring: bool,
}

impl Cut {
    /// Rounds of messages.
    pub(crate) const fn rounds(self) -> u32 {
        if self.ring { self.factor - 1 } else { 1 }
    }
}

impl fmt::Display for JointStage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut merged = |letter, Merged { remainder, groups, factor }: Merged| {
            write!(out, "{letter}{remainder}g{groups}a{factor}")
        };
        let ring = |cut: Cut| if cut.ring { "r" } else { "" };
        match *self {
            Self::Merge(numbers) => merged('m', numbers),
            Self::OrderedMerge(numbers) => merged('o', numbers),
            Self::InverseMerge(numbers) => merged('n', numbers),
            Self::Exchange { factor } => write!(out, "a{factor}"),
            Self::Collapse { threshold, base } => write!(out, "c{threshold}m{base}"),
            Self::Expand { threshold, base } => write!(out, "e{threshold}m{base}"),
            Self::Split(cut) => write!(out, "s{}{}", cut.factor, ring(cut)),
            Self::Gather(cut) => write!(out, "g{}{}", cut.factor, ring(cut)),
        }
    }
}

impl FromStr for JointStage {
    type Err = ScheduleError;

    fn from_str(word: &str) -> Result<Self, ScheduleError> {
        let unknown = || ScheduleError::Word(word.into());
        let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
        let first = word.chars().next().ok_or_else(unknown)?;
        let rest = word.get(first.len_utf8()..).unwrap_or("");
        let two = |separator: char| {
            let (one, two) = rest.split_once(separator).ok_or_else(unknown)?;
            Ok((number(one)?, two))
        };
        let merged = || {
            let (remainder, rest) = two('g')?;
            let (groups, factor) = rest.split_once('a').ok_or_else(unknown)?;
            Ok(Merged { remainder, groups: number(groups)?, factor: number(factor)? })
        };
        let cut = || {
            let factor = rest.strip_suffix('r');
            Ok(Cut { factor: number(factor.unwrap_or(rest))?, ring: factor.is_some() })
        };
        Ok(match first {
            'a' => Self::Exchange { factor: number(rest)? },
            'c' | 'e' => {
                let (threshold, base) = two('m')?;
                let base = number(base)?;
                match first {
                    'c' => Self::Collapse { threshold, base },
                    _ => Self::Expand { threshold, base },
                }
            }
            'm' => Self::Merge(merged()?),
            'o' => Self::OrderedMerge(merged()?),
            'n' => Self::InverseMerge(merged()?),
            's' => Self::Split(cut()?),
            'g' => Self::Gather(cut()?),
            _ => return Err(unknown()),
        })
    }
}
