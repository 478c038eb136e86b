//! What a value was combined of: ranks in order, and how they were put in brackets.
//!
//! Values have the same number if and only if they were combined in the same way, so that they have the same bits. The
//! ranks of a value are stored in runs of consecutive ones, up or down: whatever their number, the ranks of a block
//! are one run, and those of a rotation are two.
//!
//! Where a job has more than [`LISTED_RANKS`], values of many runs are not listed: they have the sum of what their ranks have
//! for a print of 128 bits each, and their number. Two of the same number that are not combined of the same ranks have the
//! same sum by a chance that is less than that of a fault of the memory.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// The number of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Combined(u32);

impl Combined {
    /// Bytes that are moved and never combined.
    pub const DATA: Self = Self(u32::MAX);
}

/// Consecutive ranks; downwards where the first is greater than the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    first: u32,
    last: u32,
}

impl Run {
    /// Both as one, if the second goes on where the first ends.
    fn and(self, next: Self) -> Option<Self> {
        let up = self.first <= self.last && next.first <= next.last && next.first == self.last + 1;
        let down =
            self.first >= self.last && next.first >= next.last && self.last == next.first + 1;
        (up || down).then_some(Self { first: self.first, last: next.last })
    }

    /// From the least rank to behind the greatest.
    fn range(self) -> Range<u32> {
        self.first.min(self.last)..self.first.max(self.last) + 1
    }
}

/// Most ranks of a job in which the ranks of each value are listed.
const LISTED_RANKS: usize = 512;
/// Most runs of a value that are listed if there are more.
const LISTED_RUNS: usize = 16;

/// The ranks of a value.
#[derive(Clone, Debug)]
enum Ranks {
    /// In order.
    Listed(Rc<[Run]>),
    /// So many, in any order.
    Summed(Print),
}

/// How many ranks there are, and the sum of their prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Print {
    count: u64,
    sum: u128,
}

impl Print {
    fn of(ranks: Range<u32>) -> Self {
        ranks.fold(Self::default(), |all, rank| all.and(Self { count: 1, sum: print(rank) }))
    }

    const fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// Bits that are unlike those of any other rank: two rounds of SplitMix64. (Steele and others, 2014.)
fn print(rank: u32) -> u128 {
    let word = |number: u64| {
        let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let first = u64::from(rank) * 2 + 1;
    u128::from(word(first)) << 64 | u128::from(word(first + 1))
}

/// All values of a proof.
#[derive(Debug, Default)]
pub struct ContributionTable {
    /// The ranks of each value.
    lists: Vec<Ranks>,
    singles: HashMap<u32, Combined>,
    joined: HashMap<(Combined, Combined), Combined>,
}

impl ContributionTable {
    /// What one rank contributes.
    pub fn of(&mut self, rank: u32) -> Combined {
        let next = Combined(self.lists.len() as u32);
        let single = *self.singles.entry(rank).or_insert(next);
        if single == next {
            self.lists.push(Ranks::Listed(Rc::new([Run { first: rank, last: rank }])));
        }
        single
    }

    /// `left OP right`. `None` where one of them is no contribution.
    pub(super) fn join(&mut self, left: Combined, right: Combined) -> Option<Combined> {
        if left == Combined::DATA || right == Combined::DATA {
            return None;
        }
        if let Some(&known) = self.joined.get(&(left, right)) {
            return Some(known);
        }
        let made = Combined(self.lists.len() as u32);
        let (left_ranks, right_ranks) =
            (&self.lists[left.0 as usize], &self.lists[right.0 as usize]);
        self.lists.push(self.both(left_ranks, right_ranks));
        self.joined.insert((left, right), made);
        Some(made)
    }

    /// The ranks of one value and then of another one.
    fn both(&self, left: &Ranks, right: &Ranks) -> Ranks {
        let (Ranks::Listed(left), Ranks::Listed(right)) = (left, right) else {
            return Ranks::Summed(left.print().and(right.print()));
        };
        let (mut runs, mut others) = (left.to_vec(), right.iter().copied());
        if let (Some(last), Some(next)) = (runs.last_mut(), others.next()) {
            match last.and(next) {
                Some(both) => *last = both,
                None => runs.push(next),
            }
        }
        runs.extend(others);
        let made = Ranks::Listed(runs.into());
        let listed = self.singles.len() <= LISTED_RANKS || made.runs().len() <= LISTED_RUNS;
        if listed { made } else { Ranks::Summed(made.print()) }
    }

    /// The rank of which alone a value is.
    pub(super) fn single(&self, combined: Combined) -> Option<u32> {
        match self.runs(combined) {
            [run] if run.first == run.last => Some(run.first),
            _ => None,
        }
    }

    /// Whether two values are of the same ranks, as far as these are listed in the same order; brackets do not count.
    pub(super) fn same_ranks(&self, one: Combined, other: Combined) -> bool {
        let ranks = |combined: Combined| self.lists.get(combined.0 as usize);
        match (ranks(one), ranks(other)) {
            (Some(Ranks::Listed(one)), Some(Ranks::Listed(other))) => one == other,
            (Some(one), Some(other)) => one.print() == other.print(),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Ranks of the range in ascending order.
    pub fn run(&mut self, ranks: Range<u32>) -> Option<Combined> {
        let mut ranks = ranks;
        let first = self.of(ranks.next()?);
        ranks.try_fold(first, |left, rank| {
            let right = self.of(rank);
            self.join(left, right)
        })
    }

    /// Whether it is each rank of the range once, in ascending order.
    pub fn in_order(&self, combined: Combined, ranks: &Range<u32>) -> bool {
        matches!(self.runs(combined), [run] if run.first <= run.last && run.range() == *ranks)
    }

    /// Whether it is each rank of the range once, in any order.
    pub fn once(&self, combined: Combined, ranks: &Range<u32>) -> bool {
        if let Some(Ranks::Summed(print)) = self.lists.get(combined.0 as usize) {
            return *print == Print::of(ranks.clone());
        }
        let mut ranges: Vec<_> = self.runs(combined).iter().map(|run| run.range()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let end = ranges
            .iter()
            .try_fold(ranks.start, |end, range| (range.start == end).then_some(range.end));
        end == Some(ranks.end)
    }

    fn runs(&self, combined: Combined) -> &[Run] {
        self.lists.get(combined.0 as usize).map_or(&[], Ranks::runs)
    }
}

impl Ranks {
    /// None where they are not listed.
    fn runs(&self) -> &[Run] {
        match self {
            Self::Listed(runs) => runs,
            Self::Summed(_) => &[],
        }
    }

    fn print(&self) -> Print {
        match self {
            Self::Listed(runs) => {
                runs.iter().fold(Print::default(), |all, run| all.and(Print::of(run.range())))
            }
            Self::Summed(print) => *print,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combine(all: &mut ContributionTable, ranks: &[u32]) -> Combined {
        let singles: Vec<_> = ranks.iter().map(|&rank| all.of(rank)).collect();
        singles.into_iter().reduce(|left, right| all.join(left, right).unwrap()).unwrap()
    }

    #[test]
    fn a_value_has_one_number_and_other_brackets_make_another_one() {
        let mut all = ContributionTable::default();
        let one = combine(&mut all, &[0, 1, 2, 3]);
        assert_eq!(combine(&mut all, &[0, 1, 2, 3]), one);
        let (left, right) = (combine(&mut all, &[0, 1]), combine(&mut all, &[2, 3]));
        let other = all.join(left, right).unwrap();
        assert_ne!(other, one);
        assert!(all.in_order(one, &(0..4)) && all.in_order(other, &(0..4)));
        assert_eq!(all.of(3), all.of(3));
    }

    #[test]
    fn order_and_number_are_distinguished() {
        let mut all = ContributionTable::default();
        for (ranks, ordered, once) in [
            (&[0, 1, 2, 3][..], true, true),
            (&[3, 2, 1, 0], false, true),
            (&[2, 3, 0, 1], false, true),
            (&[1, 3, 0, 2], false, true),
            (&[0, 1, 1, 2, 3], false, false),
            (&[0, 1, 3], false, false),
            (&[1, 2, 3], false, false),
            (&[0, 1, 2, 3, 4], false, false),
            (&[0], false, false),
        ] {
            let combined = combine(&mut all, ranks);
            assert_eq!(all.in_order(combined, &(0..4)), ordered, "{ranks:?}");
            assert_eq!(all.once(combined, &(0..4)), once, "{ranks:?}");
        }
    }

    #[test]
    fn ranks_that_are_too_many_to_be_listed_are_known_by_their_sum() {
        let mut all = ContributionTable::default();
        let size = LISTED_RANKS as u32 + 88;
        for rank in 0..size {
            all.of(rank);
        }
        let (even, odd): (Vec<u32>, Vec<u32>) = (0..size).partition(|rank| rank % 2 == 0);
        let (even, odd) = (combine(&mut all, &even), combine(&mut all, &odd));
        let whole = all.join(even, odd).unwrap();
        assert!(all.runs(whole).is_empty(), "it is not listed");
        assert!(all.once(whole, &(0..size)) && !all.in_order(whole, &(0..size)));
        assert!(!all.once(whole, &(0..size + 1)) && !all.once(even, &(0..size)));
        let twice = all.join(even, even).unwrap();
        assert!(!all.once(twice, &(0..size)), "as many, but not the same ones");
        let in_order = combine(&mut all, &(0..size).collect::<Vec<_>>());
        assert!(all.in_order(in_order, &(0..size)), "one run is always listed");
    }

    #[test]
    fn data_is_no_contribution() {
        let mut all = ContributionTable::default();
        let one = all.of(0);
        assert_eq!(all.join(one, Combined::DATA), None);
        assert!(!all.once(Combined::DATA, &(0..1)) && !all.in_order(Combined::DATA, &(0..1)));
    }
}
