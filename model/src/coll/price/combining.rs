//! The forms of reductions through memory that ranks share, and what each rank moves and combines in them.
//!
//! mpi-layer carries out what this says, so that prices are those of what is done. Which form a length takes is stated here by
//! limits that were measured, and not found by price: the forms differ by what caches do with lines that two processors write in
//! turns, of which costs know nothing. (By assumed costs two ranks would reduce 32 KB to one of them by halves, which takes
//! a sixth longer than the chain.)

use super::staged::LINE_BYTES;
use super::{Crew, Load, RANKS_MAX};

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 128 << 10;

/// Most bytes of a rank that need no slot, since they are beside its mark, and of all ranks together.
const CELL_BYTES: usize = 4 << 10;
const ALL_CELL_BYTES: usize = 64 << 10;

/// Bytes of a line of memory, the unit in which slots and cells are cut.
const LINE: usize = 64;

/// Most bytes of a rank that need no slot.
pub const fn cell_bytes(ranks: u32) -> usize {
    let own = ALL_CELL_BYTES / ranks as usize / LINE * LINE;
    if own < CELL_BYTES { own } else { CELL_BYTES }
}

/// Where the bytes of the next rank begin in a slot: short ones lie close together, long ones on lines.
pub const fn stride(len: usize) -> usize {
    if len <= 512 { len.next_multiple_of(8) } else { len.next_multiple_of(LINE) }
}

/// Bytes of a slot for each of some ranks, in whole lines.
pub const fn slot_share(ranks: u32) -> usize {
    SLOT_BYTES / ranks as usize / LINE * LINE
}

/// Vectors that have at most so many bytes together, and lie in one slot, are combined by one rank where ranks share processors.
const ALONE_BYTES: usize = 128 << 10;

/// Vectors up to this length are reduced to a root by the root alone, whatever their number, if ranks share processors:
/// the others write and go on, and need not get a processor once more. Mean of a call with roots that take turns, us,
/// by slices and by the root: 8 ranks 32 KB 48 and 26, 64 KB 44 and 52; 16 ranks 16 KB 104 and 45, 64 KB 149 and 114.
const ROOT_ALONE_BYTES: usize = 64 << 10;

/// Vectors from this length on go through a chain of all ranks, if ranks share processors.
const CHAIN_BYTES: usize = 128 << 10;

/// Vectors from this length on are reduced to a root by halves, if there are two ranks with a processor each. Shorter
/// ones go along the chain in less time (32 KB: 2.9 and 3.4 us).
const HALVES_BYTES: usize = 64 << 10;

/// Most bytes of a step of ranks with a processor each. With 16 KB halves of 1 MB take a tenth longer.
const APART_PIECE: usize = 32 << 10;

/// Least bytes of a step along a chain. Ranks with different processors combine different steps at the same time.
const PIECE_MIN: usize = 16 << 10;

/// Bytes that are combined at once: what a rank takes, its own and the result stay in the first-level cache.
const BLOCK: usize = 2944;

/// How a vector is cut into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombiningCut {
    len: usize,
    block: usize,
    piece: usize,
}

impl CombiningCut {
    /// With at most `most` bytes in a step; `None` when elements of `width` bytes are too long.
    pub const fn new(len: usize, width: usize, most: usize) -> Option<Self> {
        // Every block begins at a word of its slot.
        let unit = if width.is_multiple_of(8) { width } else { width * 8 };
        let least = if PIECE_MIN < most { PIECE_MIN } else { most };
        if unit == 0 || unit > least {
            return None;
        }
        let blocks = if BLOCK < unit { 1 } else { BLOCK / unit };
        let block = blocks * unit;
        let wanted = match len / 4 {
            few if few < least => least,
            many if many > most => most,
            some => some,
        };
        let blocks = if wanted < block { 1 } else { wanted / block };
        Some(Self { len, block, piece: blocks * block })
    }

    /// Steps: one for each piece.
    pub const fn pieces(self) -> usize {
        self.len.div_ceil(self.piece)
    }

    /// Bytes that are combined at once.
    pub const fn block(self) -> usize {
        self.block
    }

    /// Bytes of every piece but the last.
    pub const fn longest_piece(self) -> usize {
        self.piece
    }

    /// Where a piece begins, and its length.
    pub const fn piece(self, index: usize) -> (usize, usize) {
        let (from, rest) = (index * self.piece, self.len - index * self.piece);
        (from, if self.piece < rest { self.piece } else { rest })
    }
}

/// How a reduction goes through memory that the ranks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the forms that there are")]
pub enum Combining {
    /// Each rank has a line of memory; the last that comes combines them all.
    Lines,
    /// Vectors lie beside marks. Each rank that wants the result combines them all.
    Cells,
    /// Vectors lie in slots. One rank combines them all: the root, or the last that comes.
    Alone,
    /// Each rank combines a slice of all vectors, and brings it to those that want it.
    Slices,
    /// One rank after the other combines its vector with what those before it have.
    Chain(CombiningCut),
    /// Each of two ranks combines a half, in pieces.
    Halves(CombiningCut),
}

impl Combining {
    /// How ranks combine vectors of `len` bytes in elements of `width`, for a root or for all. They have a processor each if
    /// they are `apart`.
    pub const fn of(to_root: bool, ranks: u32, (len, width): (usize, usize), apart: bool) -> Self {
        // Of ranks with a processor each, all combine what is in cells: a line of memory goes one way only.
        if !to_root && len <= LINE_BYTES && (!apart || ranks > RANKS_MAX) {
            return Self::Lines;
        }
        if len <= cell_bytes(ranks) && (to_root || apart) {
            return Self::Cells;
        }
        if !apart && to_root && len <= ROOT_ALONE_BYTES {
            return Self::Alone;
        }
        let together = len.saturating_mul(ranks as usize);
        let space = stride(len).saturating_mul(ranks as usize + 1);
        if !apart && space <= SLOT_BYTES && together <= ALONE_BYTES {
            return Self::Alone;
        }
        if apart && ranks == 2 && (!to_root || len >= HALVES_BYTES) {
            let half = (len / width).div_ceil(2) * width;
            if let Some(cut) = CombiningCut::new(half, width, APART_PIECE) {
                return Self::Halves(cut);
            }
        }
        // Ranks with a processor each combine different pieces at the same time.
        let (least, most) = if apart { (0, APART_PIECE) } else { (CHAIN_BYTES, SLOT_BYTES) };
        match CombiningCut::new(len, width, most) {
            Some(cut) if len >= least => Self::Chain(cut),
            _ => Self::Slices,
        }
    }

    /// What it is called in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Cells => "cells",
            Self::Alone => "one rank alone",
            Self::Slices => "slices",
            Self::Chain(_) => "chain",
            Self::Halves(_) => "halves",
        }
    }

    /// What ranks do with vectors of `bytes`. Who combines has just moved the operands, so that a byte of a reduction takes
    /// the part `in_cache` of what it takes from memory.
    pub(super) fn load(self, to_root: bool, crew: Crew, bytes: usize, in_cache: f64) -> Load {
        let (n, len) = (f64::from(crew.ranks), bytes as f64);
        let others = n - 1.0;
        // All state the call and compare what the others state.
        let (stated, all_stated) = (2.0 * n, n * (n + 1.0));
        let steps = |bytes: f64| (bytes / SLOT_BYTES as f64).ceil().max(1.0);
        let load = match self {
            Self::Lines | Self::Alone | Self::Cells if to_root => {
                // The others need not wait.
                let steps = match self {
                    Self::Alone => (bytes.div_ceil(slot_share(crew.ranks))).max(1) as f64,
                    _ => 1.0,
                };
                Load {
                    marks: n * steps,
                    all_marks: 2.0 * n * steps,
                    moved: (n + 1.0) * len,
                    all_moved: 2.0 * n * len,
                    ..Self::reducing(others * len, others * len)
                }
            }
            Self::Lines => Load {
                marks: n,
                all_marks: 3.0 * n,
                moved: (n + 3.0) * len,
                all_moved: (3.0 * n + 1.0) * len,
                ..Self::reducing(others * len, others * len)
            },
            Self::Cells => Load {
                marks: stated,
                all_marks: all_stated,
                moved: (n + 1.0) * len,
                all_moved: n * (n + 1.0) * len,
                ..Self::reducing(others * len, n * others * len)
            },
            Self::Alone => Load {
                marks: stated,
                all_marks: all_stated,
                moved: (n + 3.0) * len,
                all_moved: (3.0 * n + 1.0) * len,
                ..Self::reducing(others * len, others * len)
            },
            Self::Slices => {
                let (moved, of_all) =
                    if to_root { (3.0 * len, 4.0 * n * len) } else { (4.0 * len, 4.0 * n * len) };
                let steps = steps(of_all / n);
                Load {
                    marks: stated * steps,
                    all_marks: all_stated * steps,
                    moved,
                    all_moved: of_all,
                    switches: 2.0,
                    ..Self::reducing(others * len / n, others * len)
                }
            }
            Self::Chain(cut) => Self::chain(cut, to_root, (n, len)),
            Self::Halves(cut) => {
                // Both do the same at the same time, and write and await a mark for each contribution and each result.
                let marks = 4.0 * cut.pieces() as f64;
                let moved = if to_root { 1.5 * len } else { 2.0 * len };
                Load {
                    marks: stated + marks,
                    all_marks: all_stated + n * marks,
                    moved,
                    all_moved: n * moved,
                    ..Self::reducing(len / 2.0, len)
                }
            }
        };
        let (reduced, all_reduced) = (load.reduced * in_cache, load.all_reduced * in_cache);
        let switches = load.switches.max(1.0);
        Load { reduced, all_reduced, switches, ..load }
    }

    fn reducing(reduced: f64, all_reduced: f64) -> Load {
        Load { reduced, all_reduced, ..Load::default() }
    }

    /// The first rank puts its vector, each other one takes, combines and puts; of a reduction to a root the last one does not
    /// put, else the others take its result. The pieces are with different ranks at the same time, so that a rank that does
    /// most waits for the first piece and for the last one.
    fn chain(cut: CombiningCut, to_root: bool, (n, len): (f64, f64)) -> Load {
        let (pieces, piece) = (cut.pieces() as f64, (cut.longest_piece() as f64).min(len));
        let between = (n - 2.0).max(0.0);
        let (own, all_moved, first_and_last) = match (to_root, between > 0.0) {
            (true, false) => (len, 2.0 * len, piece),
            (true, true) => (2.0 * len, 2.0 * (n - 1.0) * len, 2.0 * piece),
            (false, _) => (3.0 * len, (3.0 * n - 1.0) * len, 2.0 * piece),
        };
        let passed = if to_root { (between - 1.0).max(0.0) } else { between };
        let marks = 2.0 * (pieces + between);
        let of_step = if to_root { 2.0 } else { 4.0 };
        Load {
            marks: 2.0 * n + marks,
            all_marks: n * (n + 1.0) + n * of_step * pieces,
            moved: own + first_and_last + passed * 2.0 * piece,
            all_moved,
            switches: 2.0,
            ..Self::reducing(len + between * piece, (n - 1.0) * len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 128 << 10;

    #[test]
    fn vectors_are_cut_between_elements_and_words() {
        for width in [1, 2, 3, 4, 8, 12, 16, 24, 2000, 2048] {
            for elements in [1, 100, 5_000, 200_000] {
                let len = width * elements;
                let cut = CombiningCut::new(len, width, MOST).unwrap();
                assert_eq!((cut.block % width, cut.block % 8, cut.piece % cut.block), (0, 0, 0));
                assert!(cut.piece <= MOST);
                let pieces: Vec<_> = (0..cut.pieces()).map(|index| cut.piece(index)).collect();
                let ends = pieces.iter().map(|(from, len)| from + len);
                let begins = pieces.iter().skip(1).map(|piece| piece.0).chain([len]);
                assert!(ends.eq(begins), "pieces follow each other");
            }
        }
        assert_eq!(CombiningCut::new(1 << 20, 0, MOST), None);
        assert_eq!(CombiningCut::new(1 << 20, MOST, MOST), None, "too long an element");
    }

    /// Those that were measured, by decision 24.
    #[test]
    fn lengths_take_the_forms_that_were_measured() {
        let of = |to_root, ranks, len, apart| Combining::of(to_root, ranks, (len, 8), apart).name();
        for kilobytes in [8, 16, 32, 64, 256, 1024] {
            assert_eq!(of(false, 2, kilobytes << 10, true), "halves");
            let chained = if kilobytes < 64 { "chain" } else { "halves" };
            assert_eq!(of(true, 2, kilobytes << 10, true), chained);
            let alone = if kilobytes <= 64 { "one rank alone" } else { "chain" };
            assert_eq!([8, 16].map(|ranks| of(true, ranks, kilobytes << 10, false)), [alone; 2]);
        }
        let shared = [56, 64, 8 << 10, 64 << 10, 128 << 10].map(|len| of(false, 8, len, false));
        assert_eq!(shared, ["lines", "one rank alone", "one rank alone", "slices", "chain"]);
        let apart = [8, 4 << 10, 5 << 10].map(|len| of(false, 2, len, true));
        assert_eq!(apart, ["cells", "cells", "halves"]);
        assert_eq!(of(true, 4, 1 << 20, true), "chain");
        // No piece has such elements whole.
        let wide = Combining::of(false, 2, (1 << 20, 32 << 10), true);
        assert_eq!(wide, Combining::Slices);
        assert_eq!(of(false, RANKS_MAX + 1, 8, true), "lines");
    }

    /// Bytes that pass through memory, counted by hand.
    #[test]
    fn two_ranks_move_and_combine_less_by_halves() {
        let crew = Crew { ranks: 2, share: 1.0 };
        let load = |to_root, len: usize| {
            let load = Combining::of(to_root, 2, (len, 8), true).load(to_root, crew, len, 1.0);
            [load.moved, load.all_moved, load.reduced, load.all_reduced]
                .map(|bytes| bytes / len as f64)
        };
        assert_eq!(load(false, 1 << 20), [2.0, 4.0, 0.5, 1.0]);
        assert_eq!(load(true, 1 << 20), [1.5, 3.0, 0.5, 1.0]);
        let [moved, all_moved, reduced, all_reduced] = load(true, 32 << 10);
        assert!(moved > 1.4 && moved < 1.6, "the first piece, and all of it again");
        assert_eq!([all_moved, reduced, all_reduced], [2.0, 1.0, 1.0]);
    }
}
