//! Which algorithm a collective uses: the one table of the layer.
//!
//! Every function here is pure, and its arguments are the same at all ranks of a call: the number
//! of ranks, whether processors are shared, lengths that the standard requires to agree. So all
//! ranks choose alike without asking each other, and a program gives the same results in every
//! run. Measurements of a rank of its own must not enter here.
//!
//! When ranks share processors, time is the number of times that ranks must be scheduled one after
//! the other, and not the number of rounds: forms with the fewest messages win.
//!
//! The limits are assumed, not measured: they follow from the forms' costs with half a
//! microsecond for a message and 10 GB/s for a copy, and are set where two forms break even for
//! about 16 ranks.

use super::forms::{
    Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, ReduceScatter, Scan, Tree,
};

/// What choices depend on beside lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoiceInput {
    /// Ranks in the communicator.
    pub ranks: u32,
    /// Whether ranks share processors; agreed when the communicator was made.
    pub oversubscribed: bool,
}

impl ChoiceInput {
    /// Whether collectives go through shared memory where no costs are known, if the ranks
    /// share a node: with messages each has to get a processor more often. Two ranks exchange one message.
    #[inline]
    pub const fn shares_memory(self) -> bool {
        self.oversubscribed && self.ranks > 2
    }

    /// Whether another collective goes through staging memory where no costs are known, if the ranks share a node: of
    /// ranks that share processors, each then has to get one few times, at any length. Two ranks with a processor each
    /// have less to do than for messages. Of more ranks each would have too little of a slot.
    #[inline]
    pub const fn stages(self) -> bool {
        match self.ranks {
            2 => !self.oversubscribed,
            3..=FLAT_RANKS_MAX => self.oversubscribed,
            _ => false,
        }
    }
}

const KB: usize = 1 << 10;

/// Vectors up to this length are reduced by one rank alone when processors are shared.
const FLAT_REDUCTION_MAX: usize = 16 * KB;
/// Up to as many ranks, a root deals with all others itself.
const FLAT_RANKS_MAX: u32 = 64;
/// From this length on vectors are cut, so that all ranks work at once.
const CUT_MIN: usize = 32 * KB;

impl ChoiceInput {
    /// For a barrier.
    #[inline]
    pub const fn barrier(self) -> Barrier {
        if self.oversubscribed && self.ranks > 2 { Barrier::Flat } else { Barrier::Dissemination }
    }

    /// For a broadcast of `bytes` bytes.
    #[inline]
    pub const fn bcast(self, bytes: usize) -> Bcast {
        if self.ranks <= 4 || self.oversubscribed && self.ranks <= FLAT_RANKS_MAX {
            Bcast::Flat
        } else if self.oversubscribed || bytes <= 2 * CUT_MIN {
            Bcast::Binomial
        } else if self.ranks <= 16 && bytes >= 512 * KB {
            Bcast::Chain
        } else {
            Bcast::ScatterAllgather
        }
    }

    /// For vectors of `bytes` bytes in elements of `width`.
    #[inline]
    pub const fn reduce(self, bytes: usize, width: usize, commutative: bool) -> Reduce {
        let cuttable = width > 0 && bytes / width >= self.ranks as usize;
        if self.oversubscribed && self.ranks <= FLAT_RANKS_MAX && bytes <= FLAT_REDUCTION_MAX {
            Reduce::Flat
        } else if !self.oversubscribed && self.ranks >= 4 && bytes >= 4 * CUT_MIN && cuttable {
            Reduce::Halving
        } else if commutative {
            Reduce::Binomial
        } else {
            Reduce::Ordered
        }
    }

    /// For vectors of `bytes` bytes in elements of `width`.
    #[inline]
    pub const fn allreduce(self, bytes: usize, width: usize) -> Allreduce {
        let cuttable = width > 0 && bytes / width >= self.ranks as usize;
        if self.oversubscribed && self.ranks > 2 && self.ranks <= FLAT_RANKS_MAX {
            if bytes <= FLAT_REDUCTION_MAX { Allreduce::Flat } else { Allreduce::ReduceBcast }
        } else if bytes >= CUT_MIN && cuttable {
            Allreduce::Halving
        } else {
            Allreduce::Doubling
        }
    }

    /// For gathers and scatters of blocks of `block` bytes.
    #[inline]
    pub const fn tree(self, block: usize) -> Tree {
        if self.oversubscribed || self.ranks <= 8 || block > 2 * KB {
            Tree::Linear
        } else {
            Tree::Binomial
        }
    }

    /// For blocks of one length.
    #[inline]
    pub const fn allgather(self, block: usize) -> Allgather {
        let total = block.saturating_mul(self.ranks as usize);
        match self.allgatherv(total) {
            Allgather::Direct if total <= CUT_MIN => Allgather::GatherBcast,
            Allgather::Bruck if self.ranks.is_power_of_two() => Allgather::Doubling,
            chosen => chosen,
        }
    }

    /// For blocks of `total` bytes together.
    #[inline]
    pub const fn allgatherv(self, total: usize) -> Allgather {
        if self.ranks <= 2 {
            // One exchange, in place.
            Allgather::Ring
        } else if self.oversubscribed && self.ranks <= FLAT_RANKS_MAX {
            Allgather::Direct
        } else if total <= 2 * CUT_MIN {
            Allgather::Bruck
        } else {
            Allgather::Ring
        }
    }

    /// For blocks of one length.
    #[inline]
    pub const fn alltoall(self, block: usize) -> Alltoall {
        if self.oversubscribed && self.ranks <= FLAT_RANKS_MAX {
            Alltoall::Staged(FLAT_RANKS_MAX)
        } else if self.ranks >= 8 && block <= 256 {
            Alltoall::Bruck
        } else if self.oversubscribed || block <= CUT_MIN && self.ranks <= FLAT_RANKS_MAX {
            Alltoall::Staged(FLAT_RANKS_MAX)
        } else {
            Alltoall::Staged(1)
        }
    }

    /// For blocks of which a rank knows its own only: partners at a time.
    #[inline]
    pub const fn alltoallv(self) -> u32 {
        if self.oversubscribed || self.ranks <= FLAT_RANKS_MAX { FLAT_RANKS_MAX } else { 1 }
    }

    /// For vectors of `total` bytes.
    #[inline]
    pub const fn reduce_scatter(self, total: usize, commutative: bool) -> ReduceScatter {
        if self.ranks <= 2 {
            ReduceScatter::Direct
        } else if self.oversubscribed {
            if total <= FLAT_REDUCTION_MAX { ReduceScatter::ViaRoot } else { ReduceScatter::Direct }
        } else if !commutative {
            if total <= CUT_MIN { ReduceScatter::ViaRoot } else { ReduceScatter::Direct }
        } else if self.ranks.is_power_of_two() && total <= 16 * CUT_MIN {
            ReduceScatter::Halving
        } else if total <= CUT_MIN / 8 {
            ReduceScatter::ViaRoot
        } else {
            ReduceScatter::Pairwise
        }
    }

    /// For a prefix reduction.
    #[inline]
    pub const fn scan(self) -> Scan {
        if self.oversubscribed || self.ranks <= 2 { Scan::Chain } else { Scan::Doubling }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> impl Iterator<Item = ChoiceInput> {
        (1..200).flat_map(|ranks| {
            [false, true].map(|oversubscribed| ChoiceInput { ranks, oversubscribed })
        })
    }

    fn lengths() -> impl Iterator<Item = usize> {
        (0..28).map(|bits| 1 << bits).chain([0, 3, 1000, 100_000])
    }

    #[test]
    fn two_ranks_need_one_exchange_for_small_reductions_and_barriers() {
        for oversubscribed in [false, true] {
            let shape = ChoiceInput { ranks: 2, oversubscribed };
            assert_eq!(shape.barrier(), Barrier::Dissemination);
            assert_eq!(shape.allreduce(8, 8), Allreduce::Doubling);
        }
    }

    #[test]
    fn ordered_operations_never_get_an_algorithm_that_needs_commutative_ones() {
        for shape in shapes() {
            for bytes in lengths() {
                assert_ne!(shape.reduce(bytes, 8, false), Reduce::Binomial);
                let chosen = shape.reduce_scatter(bytes, false);
                assert!(!matches!(chosen, ReduceScatter::Halving | ReduceScatter::Pairwise));
            }
        }
    }

    #[test]
    fn algorithms_for_powers_of_two_are_chosen_for_them_only() {
        for shape in shapes().filter(|shape| !shape.ranks.is_power_of_two()) {
            for bytes in lengths() {
                assert_ne!(shape.allgather(bytes), Allgather::Doubling);
                assert_ne!(shape.reduce_scatter(bytes, true), ReduceScatter::Halving);
            }
        }
    }

    #[test]
    fn blocks_of_different_lengths_get_algorithms_that_can() {
        for shape in shapes() {
            for bytes in lengths() {
                let chosen = shape.allgatherv(bytes);
                assert!(!matches!(chosen, Allgather::Doubling | Allgather::GatherBcast));
            }
        }
    }

    #[test]
    fn shared_processors_get_the_forms_with_the_fewest_messages() {
        let shape = ChoiceInput { ranks: 16, oversubscribed: true };
        assert_eq!(shape.barrier(), Barrier::Flat);
        assert_eq!(shape.bcast(8), Bcast::Flat);
        assert_eq!(shape.allreduce(8, 8), Allreduce::Flat);
        assert_eq!(shape.allgather(8), Allgather::GatherBcast);
    }
}
