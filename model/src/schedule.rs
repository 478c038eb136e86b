//! Schedules of an allreduce by recursive multiplying, as a list of stages. (Thesis, section 5.3.)
//!
//! ```text
//!   aF             groups of F ranks exchange everything they have
//!   cTmB .. eTmB   the first T ranks collapse: of each B, the last one gets the values of the others; behind what
//!                  stands between, they expand again: the last one of each B passes the result on
//!   mRgGaF .. nRgGaF   the first R ranks are merged into the G groups of F of this stage; R ranks get the result
//!                  from the groups of another one
//!   oRgGaF .. nRgGaF   the same in the order of ranks: each group has its merged ranks in front of it
//!   sF .. gF       groups of F ranks cut the vector: each one reduces one part of it, and what stands between is done
//!                  on that part; then each gets the parts of the others
//!   sFr .. gFr     parts go from neighbour to neighbour in F - 1 rounds; sF and gF send all at once
//! ```
//! Written `a4,a2` or `c6m2,a2,a2,e6m2` or `m1g2a3,n1g3a2`. What opens (c, m, o, s) and what closes it (e, n, g) is an
//! allreduce of as many ranks as its numbers give: F times what stands between for a cut, that and `T / B * (B - 1)`
//! more for a collapse, `R` and the product of both factors and what stands between for a merge. Such a part stands
//! wherever an `aF` can, inside others too, and counts as one factor. Numbers of ranks in the middle of a schedule
//! count ranks that have equal values as one: `a2,m1g2a3,n1g3a2` is for 14 ranks, as is `m1g2a3,n1g3a2,a2`.
//!
//! The published algorithms are schedules:
//!
//! | algorithm | schedule |
//! |---|---|
//! | recursive doubling, MPICH's | `a2,a2,a2`; `c6m2,a2,a2,e6m2` for 7 ranks |
//! | Rabenseifner's: recursive halving, and a gather by recursive doubling | `s2,s2,s2,g2,g2,g2` |
//! | the same for 7 ranks | `c6m2,s2,s2,g2,g2,e6m2` |
//! | ring | `s8r,g8r` |
//! | every rank reduces its part of all, and sends it to all | `s8,g8` |
//! | a binomial tree to the last rank, and back | `c8m2,c4m2,c2m2,e2m2,e4m2,e8m2` |
//! | flat reduction and broadcast | `c8m8,e8m8` |
//! | two levels: within nodes of 4, across them on a quarter of the vector | `s4,a2,g4` |

mod token;

use std::fmt;

pub use token::{Cut, JointStage, Merged};

/// What all ranks do, stage by stage, for some number of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    ranks: u32,
    tokens: Vec<JointStage>,
    /// Of each stage, the ranks of the allreduce that it opens or closes; those of its group for others.
    lengths: Vec<u32>,
}

/// Why a list of stages is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A word that is no stage.
    Word(String),
    /// A stage with a number that it cannot have.
    Number(JointStage),
    /// A stage that closes what is not open.
    Place(JointStage),
    /// A stage that opens what is not closed.
    Unpaired(JointStage),
    /// The stages are for another number of ranks.
    Ranks {
        /// The ranks that they are for.
        product: u64,
        /// The ranks that there are.
        ranks: u32,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(
                out,
                "{word:?} is no stage: aF, cTmB, eTmB, mRgGaF, oRgGaF, nRgGaF, sF, sFr, gF and gFr are"
            ),
            Self::Number(token) => write!(out, "the numbers of {token} do not fit together"),
            Self::Place(token) => {
                write!(out, "{token} does not close the stage that was opened last before it")
            }
            Self::Unpaired(token) => write!(out, "{token} has no counterpart behind it"),
            Self::Ranks { product, ranks } => {
                write!(out, "the stages are for {product} ranks, not for {ranks}")
            }
        }
    }
}

impl std::error::Error for ScheduleError {}

impl Schedule {
    /// The schedule with these stages.
    ///
    /// # Errors
    /// [`ScheduleError`], when they are no allreduce of so many ranks.
    pub fn new(ranks: u32, tokens: Vec<JointStage>) -> Result<Self, ScheduleError> {
        let (product, lengths) = lengths(&tokens)?;
        if product != u64::from(ranks) {
            return Err(ScheduleError::Ranks { product, ranks });
        }
        // None is greater than the product of all.
        Ok(Self {
            ranks,
            tokens,
            lengths: lengths.into_iter().map(|length| length as u32).collect(),
        })
    }

    /// The schedule with these stages, for as many ranks as they are for.
    ///
    /// # Errors
    /// [`ScheduleError`], when they are an allreduce of no number of ranks.
    pub fn of_stages(tokens: Vec<JointStage>) -> Result<Self, ScheduleError> {
        let (product, _) = lengths(&tokens)?;
        Self::new(u32::try_from(product).unwrap_or(u32::MAX), tokens)
    }

    /// The schedule that is written so.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn parse(ranks: u32, text: &str) -> Result<Self, ScheduleError> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Self::new(ranks, words.map(str::parse).collect::<Result<_, _>>()?)
    }

    /// Exchanges with these factors, whose product is the number of ranks.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of_factors(factors: &[u32]) -> Result<Self, ScheduleError> {
        let (product, ranks) = core(factors, 0)?;
        debug_assert_eq!(product, ranks);
        Self::new(ranks, factors.iter().map(|&factor| JointStage::Exchange { factor }).collect())
    }

    /// Exchanges with these factors, of which the first and the last one serve `remainder` ranks more.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn merged(factors: &[u32], remainder: u32) -> Result<Self, ScheduleError> {
        Self::with_merge(factors, remainder, JointStage::Merge)
    }

    /// The same, in the order of ranks.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn merged_in_order(factors: &[u32], remainder: u32) -> Result<Self, ScheduleError> {
        Self::with_merge(factors, remainder, JointStage::OrderedMerge)
    }

    fn with_merge(
        factors: &[u32],
        remainder: u32,
        merge: fn(Merged) -> JointStage,
    ) -> Result<Self, ScheduleError> {
        let (core, ranks) = core(factors, remainder)?;
        let last = factors.len().saturating_sub(1);
        let merged = |factor: u32| Merged { remainder, groups: core / factor.max(1), factor };
        let token = |(index, &factor): (usize, &u32)| match index {
            0 => merge(merged(factor)),
            index if index == last => JointStage::InverseMerge(merged(factor)),
            _ => JointStage::Exchange { factor },
        };
        Self::new(ranks, factors.iter().enumerate().map(token).collect())
    }

    /// Cuts with these factors, undone in reverse order: Rabenseifner's algorithm with factors of 2.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn split(factors: &[u32], ring: bool) -> Result<Self, ScheduleError> {
        let (_, ranks) = core(factors, 0)?;
        let cut = |&factor: &u32| Cut { factor, ring };
        let splits = factors.iter().map(cut).map(JointStage::Split);
        let gathers = factors.iter().rev().map(cut).map(JointStage::Gather);
        Self::new(ranks, splits.chain(gathers).collect())
    }

    /// Cuts with these factors among as many ranks as their product, and as many ranks more as `rest` says, which are
    /// collapsed in pairs.
    ///
    /// # Errors
    /// As for [`new`](Self::new); also where there are too many for pairs.
    pub fn split_in_pairs(factors: &[u32], rest: u32) -> Result<Self, ScheduleError> {
        let (_, ranks) = core(factors, rest)?;
        let Self { tokens, .. } = Self::split(factors, false)?;
        Self::in_pairs(ranks, rest, tokens)
    }

    /// Recursive doubling, with what is beyond a power of two collapsed in pairs.
    pub fn doubling(ranks: u32) -> Self {
        let core = ranks.max(1).ilog2();
        let tokens = vec![JointStage::Exchange { factor: 2 }; core as usize];
        Self::in_pairs(ranks, ranks - (1 << core), tokens).expect("pairs and a power of two")
    }

    /// Rabenseifner's algorithm, with what is beyond a power of two collapsed in pairs.
    pub fn halving(ranks: u32) -> Self {
        let core = ranks.max(1).ilog2();
        let factors = vec![2; core as usize];
        Self::split_in_pairs(&factors, ranks - (1 << core)).expect("pairs and a power of two")
    }

    /// These stages; so many ranks more than they are for are collapsed in pairs.
    fn in_pairs(ranks: u32, rest: u32, mut tokens: Vec<JointStage>) -> Result<Self, ScheduleError> {
        if rest > 0 {
            let threshold = 2 * rest;
            tokens.insert(0, JointStage::Collapse { threshold, base: 2 });
            tokens.push(JointStage::Expand { threshold, base: 2 });
        }
        Self::new(ranks, tokens)
    }

    /// Ranks that it is for.
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Its stages.
    pub fn tokens(&self) -> &[JointStage] {
        &self.tokens
    }

    /// Its stages, each with the ranks of the allreduce that it opens or closes, or of its group.
    pub(crate) fn with_lengths(&self) -> impl Iterator<Item = (JointStage, u32)> {
        self.tokens.iter().copied().zip(self.lengths.iter().copied())
    }

    /// Whether contributions are combined in the order of ranks, so that an operation need not be commutative.
    pub fn keeps_order(&self) -> bool {
        self.tokens.iter().all(|token| match token {
            JointStage::Merge(merged) => merged.remainder <= 1,
            // A part is reduced from where it sets out, around the end.
            JointStage::Split(cut) => !cut.ring,
            _ => true,
        })
    }

    /// Whether the vector is cut.
    pub fn splits(&self) -> bool {
        self.tokens.iter().any(|token| matches!(token, JointStage::Split(_)))
    }
}

/// The product of factors, without and with a remainder.
fn core(factors: &[u32], remainder: u32) -> Result<(u32, u32), ScheduleError> {
    let product = factors.iter().fold(1_u64, |product, &f| product.saturating_mul(f.into()));
    let core = u32::try_from(product).ok();
    let both = core.and_then(|core| Some((core, core.checked_add(remainder)?)));
    both.ok_or(ScheduleError::Ranks { product, ranks: u32::MAX })
}

/// The ranks that stages are for, and of each one the ranks of the allreduce that it opens or closes.
fn lengths(tokens: &[JointStage]) -> Result<(u64, Vec<u64>), ScheduleError> {
    let mut lengths = vec![0; tokens.len()];
    // What is open: its place, and the ranks of what stands before it.
    let mut open: Vec<(usize, u64)> = Vec::new();
    let mut ranks = 1_u64;
    for (index, &token) in tokens.iter().enumerate() {
        if !token.has_numbers() {
            return Err(ScheduleError::Number(token));
        }
        if token.opens() {
            open.push((index, ranks));
            ranks = 1;
            continue;
        }
        if let JointStage::Exchange { factor } = token {
            lengths[index] = u64::from(factor);
            ranks = ranks.saturating_mul(factor.into());
            continue;
        }
        let (opened, before) = open.pop().ok_or(ScheduleError::Place(token))?;
        let length = closed(tokens[opened], token, ranks)?;
        lengths[opened] = length;
        lengths[index] = length;
        ranks = before.saturating_mul(length);
    }
    match open.pop() {
        Some((index, _)) => Err(ScheduleError::Unpaired(tokens[index])),
        None => Ok((ranks, lengths)),
    }
}

/// The ranks of an allreduce between two stages, of which `inner` are those of what stands between.
fn closed(opens: JointStage, closes: JointStage, inner: u64) -> Result<u64, ScheduleError> {
    match (opens, closes) {
        (JointStage::Split(one), JointStage::Gather(other)) if one.factor == other.factor => {
            Ok(inner.saturating_mul(one.factor.into()))
        }
        (
            JointStage::Collapse { threshold, base },
            JointStage::Expand { threshold: to, base: by },
        ) if (threshold, base) == (to, by) => {
            let blocks = u64::from(threshold / base);
            if inner < blocks {
                return Err(ScheduleError::Number(opens));
            }
            Ok(inner.saturating_add(blocks * u64::from(base - 1)))
        }
        (
            JointStage::Merge(merge) | JointStage::OrderedMerge(merge),
            JointStage::InverseMerge(inverse),
        ) if merge.remainder == inverse.remainder => {
            let groups = (
                inner.saturating_mul(inverse.factor.into()),
                inner.saturating_mul(merge.factor.into()),
            );
            if u64::from(merge.groups) != groups.0 {
                return Err(ScheduleError::Number(opens));
            }
            if u64::from(inverse.groups) != groups.1 {
                return Err(ScheduleError::Number(closes));
            }
            Ok(groups.0.saturating_mul(merge.factor.into()).saturating_add(merge.remainder.into()))
        }
        _ => Err(ScheduleError::Place(closes)),
    }
}

impl JointStage {
    /// Whether the numbers are what they can be, apart from the other stages.
    const fn has_numbers(self) -> bool {
        match self {
            Self::Exchange { factor } => factor >= 2,
            Self::Split(cut) | Self::Gather(cut) => cut.factor >= 2,
            Self::Collapse { threshold, base } | Self::Expand { threshold, base } => {
                base >= 2 && threshold >= base && threshold.is_multiple_of(base)
            }
            Self::Merge(merged) | Self::OrderedMerge(merged) | Self::InverseMerge(merged) => {
                merged.remainder > 0 && merged.factor >= 2
            }
        }
    }

    /// Whether a later stage has to undo it.
    const fn opens(self) -> bool {
        matches!(
            self,
            Self::Split(_) | Self::Collapse { .. } | Self::Merge(_) | Self::OrderedMerge(_)
        )
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, token) in self.tokens.iter().enumerate() {
            write!(out, "{}{token}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let written = [
            (8, "a2,a2,a2"),
            (7, "c6m2,a2,a2,e6m2"),
            (7, "m1g2a3,n1g3a2"),
            (7, "m3g2a2,n3g2a2"),
            (7, "o3g2a2,n3g2a2"),
            (14, "a2,m1g2a3,n1g3a2"),
            (14, "m1g2a3,n1g3a2,a2"),
            (28, "s2,c6m2,s4r,g4r,e6m2,g2,a2"),
            (8, "c8m2,c4m2,c2m2,e2m2,e4m2,e8m2"),
            (12, "a3,a4"),
            (8, "s8r,g8"),
            (1, ""),
        ];
        for (ranks, text) in written {
            let schedule = Schedule::parse(ranks, text).unwrap();
            assert_eq!((schedule.to_string(), schedule.ranks()), (text.into(), ranks));
        }
        assert_eq!(Schedule::doubling(7).to_string(), "c6m2,a2,a2,e6m2");
        assert_eq!(Schedule::doubling(8).to_string(), "a2,a2,a2");
        assert_eq!(Schedule::doubling(1).to_string(), "");
        assert_eq!(Schedule::halving(5).to_string(), "c2m2,s2,s2,g2,g2,e2m2");
        assert_eq!(Schedule::merged(&[3, 2], 1).unwrap().to_string(), "m1g2a3,n1g3a2");
        assert_eq!(Schedule::merged_in_order(&[2, 3], 4).unwrap().to_string(), "o4g3a2,n4g2a3");
        assert_eq!(Schedule::split(&[4, 2], false).unwrap().to_string(), "s4,s2,g2,g4");
        assert_eq!(Schedule::split(&[8], true).unwrap().to_string(), "s8r,g8r");
    }

    #[test]
    fn what_is_no_schedule_says_why() {
        let error = |ranks, text| Schedule::parse(ranks, text).unwrap_err();
        for word in ["b2", "a", "a-1", "c4", "m1g2", "m1a2g3", "4", "ä2", "a2r", "sr", "s2rr"] {
            assert_eq!(error(4, word), ScheduleError::Word(word.into()), "{word}");
        }
        for (ranks, text) in [
            (1, "a1"),
            (7, "c5m2,a2,a2,e5m2"),
            (7, "m2g2a3,n2g2a3"),
            (4, "a0"),
            (4, "s1,g1"),
            (6, "c6m2,a2,e6m2"),
        ] {
            assert!(matches!(error(ranks, text), ScheduleError::Number(_)), "{text}");
        }
        for text in ["c2m2,s2,e2m2,g2", "s2,g4", "e2m2", "a2,g2", "m1g2a2,n2g2a2", "c4m2,e2m2"] {
            assert!(matches!(error(4, text), ScheduleError::Place(_)), "{text}");
        }
        for text in ["c6m2,a2,a2", "m1g2a3,a2", "m1g1a4", "s2,s2,g2"] {
            assert!(matches!(error(7, text), ScheduleError::Unpaired(_)), "{text}");
        }
        assert_eq!(error(9, "a2,a4"), ScheduleError::Ranks { product: 8, ranks: 9 });
        assert_eq!(error(7, "a2,c6m2,a3,e6m2"), ScheduleError::Ranks { product: 12, ranks: 7 });
        let huge = Schedule::of_factors(&[1 << 20, 1 << 20]).unwrap_err();
        assert!(matches!(huge, ScheduleError::Ranks { product: 0x100_0000_0000, .. }));
    }

    #[test]
    fn order_is_kept_without_merges_and_rings() {
        for (ranks, text, kept) in [
            (7, "m1g2a3,n1g3a2", true),
            (7, "m3g2a2,n3g2a2", false),
            (7, "o3g2a2,n3g2a2", true),
            (4, "s2,s2,g2,g2", true),
            (4, "s4r,g4", false),
            (4, "s4,g4r", true),
        ] {
            assert_eq!(Schedule::parse(ranks, text).unwrap().keeps_order(), kept, "{text}");
        }
    }
}
