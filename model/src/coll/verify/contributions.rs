//! What a value was combined of: ranks in order, and how they were put in brackets.
//!
//! Values have the same number if and only if they were combined in the same way, so that they have the same bits. The
//! ranks of a value are stored in runs of consecutive ones, up or down: whatever their number, the ranks of a block
//! are one run, and those of a rotation are two.

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

/// All values of a proof.
#[derive(Debug, Default)]
pub struct Contributions {
    /// The ranks of each value, in order.
    lists: Vec<Rc<[Run]>>,
    singles: HashMap<u32, Combined>,
    joined: HashMap<(Combined, Combined), Combined>,
}

impl Contributions {
    /// What one rank contributes.
    pub fn of(&mut self, rank: u32) -> Combined {
        let next = Combined(self.lists.len() as u32);
        let single = *self.singles.entry(rank).or_insert(next);
        if single == next {
            self.lists.push(Rc::new([Run { first: rank, last: rank }]));
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
        let mut runs = self.lists[left.0 as usize].to_vec();
        let mut others = self.lists[right.0 as usize].iter().copied();
        if let (Some(last), Some(next)) = (runs.last_mut(), others.next()) {
            match last.and(next) {
                Some(both) => *last = both,
                None => runs.push(next),
            }
        }
        runs.extend(others);
        let made = Combined(self.lists.len() as u32);
        self.lists.push(runs.into());
        self.joined.insert((left, right), made);
        Some(made)
    }

    /// Whether it is each rank of the range once, in ascending order.
    pub fn in_order(&self, combined: Combined, ranks: &Range<u32>) -> bool {
        matches!(self.runs(combined), [run] if run.first <= run.last && run.range() == *ranks)
    }

    /// Whether it is each rank of the range once, in any order.
    pub fn once(&self, combined: Combined, ranks: &Range<u32>) -> bool {
        let mut ranges: Vec<_> = self.runs(combined).iter().map(|run| run.range()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let end = ranges
            .iter()
            .try_fold(ranks.start, |end, range| (range.start == end).then_some(range.end));
        end == Some(ranks.end)
    }

    fn runs(&self, combined: Combined) -> &[Run] {
        self.lists.get(combined.0 as usize).map_or(&[], |runs| runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combine(all: &mut Contributions, ranks: &[u32]) -> Combined {
        let singles: Vec<_> = ranks.iter().map(|&rank| all.of(rank)).collect();
        singles.into_iter().reduce(|left, right| all.join(left, right).unwrap()).unwrap()
    }

    #[test]
    fn a_value_has_one_number_and_other_brackets_make_another_one() {
        let mut all = Contributions::default();
        let one = combine(&mut all, &[0, 1, 2, 3]);
        assert_eq!(combine(&mut all, &[0, 1, 2, 3]), one);
        let (left, right) = (combine(&mut all, &[0, 1]), combine(&mut all, &[2, 3]));
        let other = all.join(left, right).unwrap();
        assert_ne!(other, one);
        assert!(all.in_order(one, &(0..4)) && all.in_order(other, &(0..4)));
        assert_eq!(all.of(3), all.of(3));
    }

    #[test]
    fn order_and_number_are_told_apart() {
        let mut all = Contributions::default();
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
    fn data_is_no_contribution() {
        let mut all = Contributions::default();
        let one = all.of(0);
        assert_eq!(all.join(one, Combined::DATA), None);
        assert!(!all.once(Combined::DATA, &(0..1)) && !all.in_order(Combined::DATA, &(0..1)));
    }
}
