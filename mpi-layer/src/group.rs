//! Groups: ordered sets of ranks of the world.
//!
//! A group is either an arithmetic progression of world ranks, which is what the world, its halves
//! and the ranks of one node under block or cyclic placement are, and costs a few bytes whatever
//! its size, or a list. Every constructor finds the progression when there is one. A group knows
//! nothing of communication.

use std::sync::Arc;

use bowline_ucp::Members;

use crate::consts::UNDEFINED;
use crate::error::MpiError;

/// An ordered set of processes. (MPI: Groups, Contexts, Communicators, "Group Management".)
///
/// Cheap to clone. Ranks of the group are positions in it; *world* ranks name the processes.
#[derive(Clone, Debug)]
pub struct Group(Arc<Repr>);

#[derive(Debug)]
enum Repr {
    /// World rank of position `i` is `first + i * stride`; every value is a valid rank.
    Strided { first: i64, stride: i64, size: u32 },
    Listed {
        /// World rank of each position.
        ranks: Box<[u32]>,
        /// (world rank, position), sorted, for the way back.
        sorted: Box<[(u32, u32)]>,
    },
}

/// How two groups or communicators relate. (MPI: Groups, Contexts, Communicators, "Group
/// Accessors" and "Communicator Accessors".)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the standard closes this set")]
pub enum Comparison {
    /// The same object.
    Identical,
    /// Communicators of the same processes in the same order, with different contexts.
    Congruent,
    /// The same processes in another order.
    Similar,
    /// Different processes.
    Unequal,
}

impl Group {
    /// The group of nobody.
    pub fn empty() -> Self {
        Self::strided(0, 1, 0)
    }

    pub(crate) fn strided(first: i64, stride: i64, size: u32) -> Self {
        Self(Arc::new(Repr::Strided { first, stride, size }))
    }

    /// The group of these world ranks in this order; no rank may be named twice.
    pub(crate) fn from_world_ranks(ranks: Vec<u32>) -> Self {
        let at = |i: usize| ranks.get(i).map_or(0, |&rank| i64::from(rank));
        let size = u32::try_from(ranks.len()).expect("ranks of a world are below 2^31");
        let (first, stride) = (at(0), if size < 2 { 1 } else { at(1) - at(0) });
        let progression =
            ranks.iter().zip(0i64..).all(|(&rank, i)| i64::from(rank) == first + i * stride);
        if progression {
            return Self::strided(first, stride, size);
        }
        let mut sorted: Box<[_]> = ranks.iter().copied().zip(0u32..).collect();
        sorted.sort_unstable();
        Self(Arc::new(Repr::Listed { ranks: ranks.into(), sorted }))
    }

    /// Processes in the group.
    #[inline]
    pub fn size(&self) -> u32 {
        match &*self.0 {
            Repr::Strided { size, .. } => *size,
            Repr::Listed { ranks, .. } => ranks.len() as u32,
        }
    }

    /// The world rank of a position, or `None` beyond the last.
    #[inline]
    pub fn world_rank(&self, rank: u32) -> Option<u32> {
        match &*self.0 {
            Repr::Strided { first, stride, size } => {
                (rank < *size).then(|| (first + i64::from(rank) * stride) as u32)
            }
            Repr::Listed { ranks, .. } => ranks.get(rank as usize).copied(),
        }
    }

    /// The position of a world rank, or `None` when it is not a member.
    pub fn position(&self, world_rank: u32) -> Option<u32> {
        self.0.rank_of(world_rank)
    }

    /// The group as the protocol layer asks for it, with no memory of its own.
    pub(crate) fn members(&self) -> Arc<dyn Members> {
        Arc::<Repr>::clone(&self.0)
    }

    /// All world ranks in the order of the group.
    pub fn world_ranks(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size()).filter_map(|rank| self.world_rank(rank))
    }

    /// Bytes of memory behind the group.
    pub fn bytes(&self) -> usize {
        let lists = match &*self.0 {
            Repr::Strided { .. } => 0,
            Repr::Listed { ranks, sorted } => size_of_val(&**ranks) + size_of_val(&**sorted),
        };
        size_of::<Repr>() + lists
    }

    /// For each rank of this group, the same process's rank in `other`, or
    /// [`UNDEFINED`] where it is no member. (`MPI_Group_translate_ranks`)
    ///
    /// # Errors
    /// [`MpiError::InvalidGroup`] for a rank outside this group.
    pub fn translate(&self, ranks: &[i32], other: &Self) -> Result<Vec<i32>, MpiError> {
        let position = |world| other.position(world).map_or(UNDEFINED, |rank| rank as i32);
        ranks.iter().map(|&rank| self.checked(rank).map(position)).collect()
    }

    /// Whether the two have the same processes, and in the same order. (`MPI_Group_compare`)
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if Arc::ptr_eq(&self.0, &other.0) || self.world_ranks().eq(other.world_ranks()) {
            return Comparison::Identical;
        }
        // Of equal size, one contained in the other means the same set.
        if self.world_ranks().all(|rank| other.position(rank).is_some()) {
            return Comparison::Similar;
        }
        Comparison::Unequal
    }

    /// Members of this group, then those of `other` that are not among them.
    /// (`MPI_Group_union`)
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let added = other.world_ranks().filter(|&rank| self.position(rank).is_none());
        Self::from_world_ranks(self.world_ranks().chain(added).collect())
    }

    /// Members of this group that are in `other` too, in the order of this one.
    /// (`MPI_Group_intersection`)
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = self.world_ranks().filter(|&rank| other.position(rank).is_some());
        Self::from_world_ranks(both.collect())
    }

    /// Members of this group that are not in `other`. (`MPI_Group_difference`)
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let alone = self.world_ranks().filter(|&rank| other.position(rank).is_none());
        Self::from_world_ranks(alone.collect())
    }

    /// The members at these ranks, in this order. (`MPI_Group_incl`)
    ///
    /// # Errors
    /// [`MpiError::InvalidGroup`] for a rank outside the group or one that is named twice.
    pub fn include(&self, ranks: &[i32]) -> Result<Self, MpiError> {
        self.distinct(ranks)?;
        let world = ranks.iter().map(|&rank| self.checked(rank)).collect::<Result<_, _>>()?;
        Ok(Self::from_world_ranks(world))
    }

    /// The members that are not at these ranks, in the order of the group. (`MPI_Group_excl`)
    ///
    /// # Errors
    /// As for [`include`](Self::include).
    pub fn exclude(&self, ranks: &[i32]) -> Result<Self, MpiError> {
        let left_out = self.distinct(ranks)?;
        let kept = (0..self.size() as i32).zip(self.world_ranks());
        let kept = kept.filter(|(rank, _)| left_out.binary_search(rank).is_err());
        Ok(Self::from_world_ranks(kept.map(|(_, world)| world).collect()))
    }

    /// The members in these ranges of (first, last, stride), ends included.
    /// (`MPI_Group_range_incl`)
    ///
    /// # Errors
    /// [`MpiError::InvalidGroup`] for a rank outside the group or named twice, and for a stride
    /// of 0.
    pub fn include_ranges(&self, ranges: &[(i32, i32, i32)]) -> Result<Self, MpiError> {
        self.include(&self.expand(ranges)?)
    }

    /// The members outside these ranges of (first, last, stride). (`MPI_Group_range_excl`)
    ///
    /// # Errors
    /// As for [`include_ranges`](Self::include_ranges).
    pub fn exclude_ranges(&self, ranges: &[(i32, i32, i32)]) -> Result<Self, MpiError> {
        self.exclude(&self.expand(ranges)?)
    }

    fn expand(&self, ranges: &[(i32, i32, i32)]) -> Result<Vec<i32>, MpiError> {
        let mut ranks = Vec::new();
        for &(first, last, stride) in ranges {
            if stride == 0 {
                return Err(self.invalid(first));
            }
            let (start, step) = (i64::from(first), i64::from(stride));
            let steps = ((i64::from(last) - start) * step.signum()).div_euclid(step.abs());
            if steps < 0 {
                continue;
            }
            // The two ranks at the ends are checked before the range is walked, so that its length is
            // bounded. The last one that is named need not be the last one that is met.
            self.checked(first)?;
            let end = i32::try_from(start + steps * step).map_err(|_| self.invalid(last))?;
            self.checked(end)?;
            ranks.extend((0..=steps).map(|at| (start + at * step) as i32));
        }
        Ok(ranks)
    }

    /// The ranks, sorted, when none is named twice or outside the group.
    fn distinct(&self, ranks: &[i32]) -> Result<Vec<i32>, MpiError> {
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        for (at, &rank) in sorted.iter().enumerate() {
            self.checked(rank)?;
            if at > 0 && sorted[at - 1] == rank {
                return Err(self.invalid(rank));
            }
        }
        Ok(sorted)
    }

    fn checked(&self, rank: i32) -> Result<u32, MpiError> {
        let position = u32::try_from(rank).ok();
        position.and_then(|rank| self.world_rank(rank)).ok_or_else(|| self.invalid(rank))
    }

    fn invalid(&self, rank: i32) -> MpiError {
        MpiError::InvalidGroup { rank, size: self.size() }
    }
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other) == Comparison::Identical
    }
}

impl Eq for Group {}

impl Members for Repr {
    fn rank_of(&self, world_rank: u32) -> Option<u32> {
        match self {
            Repr::Strided { first, stride, size } => {
                let distance = i64::from(world_rank) - first;
                // A stride of 0 cannot be, since no rank is named twice; groups of less than two
                // have stride 1.
                if distance % stride != 0 {
                    return None;
                }
                let position = distance / stride;
                (0..i64::from(*size)).contains(&position).then_some(position as u32)
            }
            Repr::Listed { sorted, .. } => {
                let at = sorted.binary_search_by_key(&world_rank, |&(rank, _)| rank).ok()?;
                Some(sorted[at].1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(size: u32) -> Group {
        Group::strided(0, 1, size)
    }

    fn ranks(group: &Group) -> Vec<u32> {
        group.world_ranks().collect()
    }

    #[test]
    fn positions_and_ranks_are_inverse_for_every_shape() {
        let lists: [&[u32]; 7] =
            [&[], &[4], &[0, 1, 2], &[6, 4, 2, 0], &[1, 5, 9], &[3, 1, 2], &[0, 1, 3]];
        for list in lists {
            let group = Group::from_world_ranks(list.to_vec());
            assert_eq!(ranks(&group), list);
            assert_eq!(group.world_rank(list.len() as u32), None);
            for world_rank in 0..12 {
                let position = list.iter().position(|&rank| rank == world_rank);
                assert_eq!(group.position(world_rank), position.map(|at| at as u32));
            }
        }
    }

    #[test]
    fn a_million_ranks_in_a_progression_cost_nothing() {
        let evens = Group::from_world_ranks((0..1_000_000).map(|i| i * 2).collect());
        assert!(evens.bytes() < 100);
        assert_eq!(evens.position(1_999_998), Some(999_999));
        assert_eq!(evens.position(1_999_999), None);
        assert_eq!(evens.position(2_000_000), None);
    }

    #[test]
    fn set_operations_keep_the_order_of_the_standard() {
        let a = Group::from_world_ranks(vec![3, 1, 4]);
        let b = Group::from_world_ranks(vec![5, 4, 9, 3]);
        assert_eq!(ranks(&a.union(&b)), [3, 1, 4, 5, 9]);
        assert_eq!(ranks(&a.intersection(&b)), [3, 4]);
        assert_eq!(ranks(&a.difference(&b)), [1]);
        assert_eq!(ranks(&b.include(&[3, 0]).unwrap()), [3, 5]);
        assert_eq!(ranks(&b.exclude(&[1, 2]).unwrap()), [5, 3]);
        assert_eq!(a.translate(&[0, 1, 2], &b).unwrap(), [3, UNDEFINED, 1]);
    }

    #[test]
    fn ranges_expand_both_ways_and_refuse_nonsense() {
        let group = world(10);
        assert_eq!(ranks(&group.include_ranges(&[(8, 2, -3), (1, 1, 5)]).unwrap()), [8, 5, 2, 1]);
        assert_eq!(ranks(&group.exclude_ranges(&[(0, 9, 2)]).unwrap()), [1, 3, 5, 7, 9]);
        assert_eq!(ranks(&group.include_ranges(&[(5, 3, 1)]).unwrap()), [0; 0]);
        // What a range does not meet need not be in the group.
        assert_eq!(ranks(&group.include_ranges(&[(4, 12, 5)]).unwrap()), [4, 9]);
        assert_eq!(ranks(&group.include_ranges(&[(2, -1, -2)]).unwrap()), [2, 0]);
        assert_eq!(ranks(&group.include_ranges(&[(4, 3, -1)]).unwrap()), [4, 3]);
        let wide = [(i32::MAX, i32::MIN, -1), (i32::MIN, i32::MAX, 1), (0, i32::MAX, 1)];
        assert!(wide.iter().all(|&range| group.include_ranges(&[range]).is_err()));
        for bad in [(0, 10, 1), (-1, 3, 1), (0, 3, 0)] {
            assert!(group.include_ranges(&[bad]).is_err(), "{bad:?}");
        }
        assert!(group.include_ranges(&[(0, 4, 2), (2, 3, 1)]).is_err());
        assert!(group.exclude(&[1, 1]).is_err());
        assert!(group.include(&[10]).is_err());
    }

    #[test]
    fn comparison_distinguishes_order_from_membership() {
        let a = Group::from_world_ranks(vec![3, 1, 4]);
        let same = Group::from_world_ranks(vec![3, 1, 4]);
        let turned = Group::from_world_ranks(vec![4, 1, 3]);
        let other = Group::from_world_ranks(vec![4, 1, 2]);
        assert_eq!(a.compare(&same), Comparison::Identical);
        assert_eq!(a.compare(&turned), Comparison::Similar);
        assert_eq!(a.compare(&other), Comparison::Unequal);
        assert_eq!(a.compare(&world(2)), Comparison::Unequal);
    }
}
