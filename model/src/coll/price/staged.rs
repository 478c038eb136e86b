//! Collectives through memory that the ranks share, and their loads: what a rank puts into slots and takes out of them,
//! what it reads from where it lies with another one, and the marks by which ranks know of each other.
//!
//! Nothing here is a plan: the steps are those of mpi-layer, which no message carries. The loads have its limits too, as
//! far as they show in times.

use super::combining::{Combining, SLOT_BYTES, cell_bytes};
use super::{Crew, Load, ReductionOperands};

/// What goes through shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the collectives that do")]
pub enum Staged {
    /// A barrier.
    Barrier,
    /// A broadcast of a vector.
    Bcast,
    /// A gather of blocks.
    Gather,
    /// An allgather of blocks.
    Allgather,
    /// An all-to-all of blocks.
    Alltoall,
    /// A reduction of vectors to one rank.
    Reduce,
    /// An allreduce of vectors.
    Allreduce,
    /// A reduction of vectors that is scattered.
    ReduceScatter,
}

/// Allreduces of at most so many bytes have a line of memory for each rank.
pub const LINE_BYTES: usize = 56;

/// Bytes of a step of a broadcast of `len` between ranks with a processor each: while the root copies one into its slot, the
/// others copy the one before out of theirs.
pub fn bcast_piece(len: usize) -> usize {
    (len / 4).next_multiple_of(64).clamp(16 << 10, 64 << 10)
}

/// Least bytes of a block that is read from where it lies, and of all such blocks together: the kernel takes longer to
/// find a page of another process than to copy it, so that slots are quicker while caches hold them.
const READ_BYTES: usize = 32 << 10;
const READ_ALL_BYTES: usize = 9 << 20;

/// What a byte that is read takes of one by a message, which is read too: a rank does so with all blocks, one after the
/// other.
const READ: f64 = 0.8;

/// Bytes that the caches of a node are taken to hold.
pub(super) const CACHE_BYTES: f64 = (16 << 20) as f64;

/// Results of a rank from this length on are written past the caches, which moves a byte to memory once and not twice.
const PAST_BYTES: f64 = (4 << 20) as f64;

/// Most ranks that share slots: of more each has too little of one.
pub const RANKS_MAX: u32 = 64;

impl Staged {
    /// Whether so many ranks can share memory for it; `bytes` is the length of a vector or block.
    pub const fn allows(self, ranks: u32, bytes: usize) -> bool {
        let in_lines = match self {
            Self::Barrier => true,
            Self::Allreduce => bytes <= LINE_BYTES,
            _ => false,
        };
        ranks >= 2 && (in_lines || ranks <= RANKS_MAX)
    }

    /// Whether vectors are combined in it.
    pub(super) const fn combines(self) -> bool {
        matches!(self, Self::Reduce | Self::Allreduce | Self::ReduceScatter)
    }

    /// Whether ranks that can read each other's memory do so with blocks of `bytes`, and use no slots: where long blocks
    /// do not stay in caches, so that copies out of slots take as long as those that reads save.
    pub const fn reads(self, ranks: u32, bytes: usize) -> bool {
        let all = bytes.saturating_mul(ranks as usize).saturating_mul(ranks as usize);
        matches!(self, Self::Alltoall) && ranks > 2 && bytes >= READ_BYTES && all >= READ_ALL_BYTES
    }

    /// How vectors are combined, by ranks with a processor each if they are `apart`. Of collectives that combine, but for
    /// scattered ones, of which each rank combines its block.
    pub const fn combining(
        self,
        ranks: u32,
        vector: (usize, usize),
        apart: bool,
    ) -> Option<Combining> {
        match self {
            Self::Reduce => Some(Combining::of(true, ranks, vector, apart)),
            Self::Allreduce => Some(Combining::of(false, ranks, vector, apart)),
            _ => None,
        }
    }

    /// What it does, with vectors or blocks of `bytes`; a reduction that is scattered has vectors.
    pub fn load(self, crew: Crew, bytes: usize, operands: impl Into<ReductionOperands>) -> Load {
        let operands = operands.into();
        let ranks = crew.ranks;
        let (n, len) = (f64::from(ranks), bytes as f64);
        if self.reads(ranks, bytes) {
            // All wait until each has said where its blocks are, and until all are read.
            let (marks, all_marks, copied) = (4.0 * n, 4.0 * n * n, READ * (n - 1.0) * len);
            return Load { marks, all_marks, copied, switches: 2.0, ..Load::default() };
        }
        // What users' buffers have of it.
        let touched = match self {
            Self::Barrier => 0.0,
            Self::Bcast | Self::Reduce | Self::ReduceScatter => n * len,
            Self::Gather | Self::Allreduce => 2.0 * n * len,
            Self::Allgather => n * (n + 1.0) * len,
            Self::Alltoall => 2.0 * n * n * len,
        };
        let past = matches!(self, Self::Allgather) && n * len >= PAST_BYTES;
        let spilled = (touched - CACHE_BYTES).max(0.0) * if past { 0.5 } else { 1.0 };
        // Who combines has just moved the operands.
        let in_cache = operands.class().in_cache();
        if let Some(combining) = self.combining(ranks, (bytes, operands.width()), crew.share <= 1.0)
        {
            let to_root = matches!(self, Self::Reduce);
            return Load { spilled, ..combining.load(to_root, crew, bytes, in_cache) };
        }
        let piece = if crew.share > 1.0 { SLOT_BYTES } else { bcast_piece(bytes) } as f64;
        // What the critical path and all ranks move in and out, and what they reduce.
        let (moved, all_moved, reduced, all_reduced) = match self {
            // Others take a piece out while the root fills in the next one.
            Self::Bcast => (len + len.min(piece), n * len, 0.0, 0.0),
            Self::Gather => (n * len, 2.0 * n * len, 0.0, 0.0),
            Self::Allgather => ((n + 1.0) * len, n * (n + 1.0) * len, 0.0, 0.0),
            Self::Alltoall => ((2.0 * n - 1.0) * len, n * (2.0 * n - 1.0) * len, 0.0, 0.0),
            Self::ReduceScatter => (2.0 * len, 2.0 * n * len, (n - 1.0) * len / n, (n - 1.0) * len),
            Self::Barrier | Self::Reduce | Self::Allreduce => (0.0, 0.0, 0.0, 0.0),
        };
        let together = bytes.saturating_mul(ranks as usize);
        let cell = match self {
            Self::Alltoall => together <= cell_bytes(ranks),
            _ => bytes <= cell_bytes(ranks),
        };
        // Each rank leaves a mark, and finds those of the ranks that it waits for; long ones do so for each slot.
        let of_step = if matches!(self, Self::Bcast) { piece } else { SLOT_BYTES as f64 };
        let steps = (all_moved / n / of_step).ceil().max(1.0);
        let (marks, all_marks) = match self {
            Self::Bcast => (2.0, 2.0 * n),
            Self::Gather if together <= SLOT_BYTES => (n, 2.0 * n),
            Self::Barrier => (n, 3.0 * n),
            Self::Allgather | Self::Alltoall if cell => (n, n * n),
            _ => (2.0 * n, n * (n + 1.0)),
        };
        Load {
            marks: marks * steps,
            all_marks: all_marks * steps,
            moved,
            all_moved,
            spilled,
            reduced: reduced * in_cache,
            all_reduced: all_reduced * in_cache,
            switches: 1.0,
            ..Load::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coll::price::Costs;

    const ALL: [Staged; 8] = [
        Staged::Barrier,
        Staged::Bcast,
        Staged::Gather,
        Staged::Allgather,
        Staged::Alltoall,
        Staged::Reduce,
        Staged::Allreduce,
        Staged::ReduceScatter,
    ];

    #[test]
    fn more_bytes_and_more_ranks_never_take_less() {
        for what in ALL {
            for share in [1.0, 4.0] {
                let time = |ranks, bytes| {
                    let crew = Crew { ranks, share };
                    what.load(crew, bytes, true).time(crew, &Costs::SHARED_MEMORY)
                };
                for bytes in [0, 8, 64, 1000, 100_000, 10_000_000] {
                    assert!(time(8, bytes) <= time(8, 2 * bytes), "{what:?} {bytes}");
                    assert!(time(8, bytes) <= time(16, bytes), "{what:?} {bytes}");
                }
            }
        }
    }

    #[test]
    fn long_blocks_are_read_by_their_number_and_length() {
        let reads = |ranks, bytes| Staged::Alltoall.reads(ranks, bytes);
        assert!(reads(12, 64 << 10) && reads(8, 256 << 10) && reads(4, 1 << 20));
        assert!(
            !reads(8, 64 << 10)
                && !reads(16, 32 << 10)
                && !reads(64, 16 << 10)
                && !reads(2, 1 << 30)
        );
        assert!(!Staged::Allgather.reads(8, 1 << 20));
    }

    #[test]
    fn lines_have_no_limit_of_ranks_and_slots_do() {
        for what in ALL {
            assert!(what.allows(RANKS_MAX, 1 << 20) && !what.allows(1, 8), "{what:?}");
            let lines = matches!(what, Staged::Barrier | Staged::Allreduce);
            assert_eq!(what.allows(RANKS_MAX + 1, 8), lines, "{what:?}");
        }
        assert!(!Staged::Allreduce.allows(RANKS_MAX + 1, LINE_BYTES + 1));
    }
}
