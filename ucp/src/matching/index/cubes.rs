//! The four-dimensional index of J. A. Zounmevo's thesis (Queen's University 2014, section 4.3).
//!
//! ```text
//!   rank = c3 d^3 + c2 d^2 + c1 d + c0        d = the least power of two with d^4 >= ranks, >= 4
//!
//!   cubes, a list ordered by c3
//!     └─ slots, an array by c2
//!          └─ jump points, a list ordered by c1
//!               └─ entries of d ranks, in order of time; c0 is only compared
//! ```
//! At each dimension one place is entered and all others are skipped. Ordered lists end a search as
//! soon as they have passed the coordinate. Cubes and jump points exist while something is in
//! them; those that were freed are used again.
//!
//! A search for the last rank of a full queue follows 1 + d + 1 + d + d pointers (its table 4.2).

use crate::matching::Want;
use crate::matching::count::{Count, QueueKind};
use crate::matching::indexed::{Class, Index, Leaf};
use crate::matching::pool::{END, EntryPool, KEPT};

/// Words of a cube in front of its slots: the next cube, its c3, its slots in use.
const HEAD: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Jump {
    leaf: Leaf,
    next: u32,
    c1: u32,
}

/// See the module's text.
#[derive(Debug)]
pub struct CubeIndex {
    /// log2 of d.
    bits: u32,
    first: u32,
    /// The cubes, each `HEAD + d` words long; a cube's number is where it starts.
    cubes: Vec<u32>,
    free_cube: u32,
    jumps: Vec<Jump>,
    free_jump: u32,
}

/// Where a search went.
#[derive(Clone, Copy, Debug)]
pub struct CubePath {
    cube_before: u32,
    /// The cube, or [`END`] when there is none of this c3.
    cube: u32,
    /// The word in the cube that leads to the jump points.
    slot: u32,
    jump_before: u32,
}

impl Default for CubePath {
    fn default() -> Self {
        Self { cube_before: END, cube: END, slot: 0, jump_before: END }
    }
}

impl CubeIndex {
    /// For a communicator of `ranks` ranks.
    pub const fn new(ranks: u32) -> Self {
        Self {
            bits: Self::bits_for(ranks),
            first: END,
            cubes: Vec::new(),
            free_cube: END,
            jumps: Vec::new(),
            free_jump: END,
        }
    }

    /// log2 of the span of a dimension for a communicator of `ranks` ranks: formula (4.2), at
    /// least 2.
    pub const fn bits_for(ranks: u32) -> u32 {
        let size_bits = if ranks <= 1 { 0 } else { 32 - (ranks - 1).leading_zeros() };
        let bits = size_bits.div_ceil(4);
        if bits < 2 { 2 } else { bits }
    }

    /// Bytes of a cube with slots for `span` values of c2.
    pub const fn cube_bytes(span: usize) -> usize {
        (HEAD + span) * size_of::<u32>()
    }

    /// Bytes of a jump point.
    pub const JUMP_BYTES: usize = size_of::<Jump>();

    #[inline(always)]
    const fn span(&self) -> usize {
        1 << self.bits
    }

    /// c1, c2 and c3.
    #[inline(always)]
    const fn coordinates(&self, rank: u32) -> (u32, u32, u32) {
        let mask = (1 << self.bits) - 1;
        let (b1, b2, b3) = (self.bits, 2 * self.bits, 3 * self.bits);
        ((rank >> b1) & mask, (rank >> b2) & mask, rank >> b3)
    }

    fn make_cube(&mut self, c3: u32) -> u32 {
        let words = HEAD + self.span();
        let cube = self.free_cube;
        let cube = if cube == END {
            let start = u32::try_from(self.cubes.len()).expect("cubes of fewer than 2^32 words");
            self.cubes.resize(start as usize + words, END);
            start
        } else {
            self.free_cube = self.cubes[cube as usize];
            cube
        };
        self.cubes[cube as usize + 1] = c3;
        self.cubes[cube as usize + 2] = 0;
        cube
    }

    fn make_jump(&mut self, c1: u32) -> u32 {
        let fresh = Jump { leaf: Leaf::EMPTY, next: END, c1 };
        let jump = self.free_jump;
        if jump == END {
            self.jumps.push(fresh);
            return u32::try_from(self.jumps.len() - 1).expect("fewer jump points than entries");
        }
        self.free_jump = self.jumps[jump as usize].next;
        self.jumps[jump as usize] = fresh;
        jump
    }
}

impl Index for CubeIndex {
    type Path = CubePath;

    const CHAINS: bool = false;
    const RELEASES: bool = true;
    const BREAK_EVEN: u32 = 32;

    #[inline(always)]
    fn class(want: &Want) -> Class {
        if want.source_mask != 0 { Class::Exact } else { Class::Wild }
    }

    #[inline]
    fn find(&self, rank: u32, _: u64, path: &mut CubePath, count: &mut impl Count) -> Option<u32> {
        let (c1, c2, c3) = self.coordinates(rank);
        let (mut before, mut cube) = (END, self.first);
        while cube != END {
            count.visit(1);
            let at = self.cubes[cube as usize + 1];
            if at >= c3 {
                if at > c3 {
                    cube = END;
                }
                break;
            }
            before = cube;
            cube = self.cubes[cube as usize];
        }
        path.cube_before = before;
        path.cube = cube;
        path.jump_before = END;
        if cube == END {
            return None;
        }
        count.visit(1);
        path.slot = cube + HEAD as u32 + c2;
        let mut jump = self.cubes[path.slot as usize];
        while jump != END {
            count.visit(1);
            let Jump { next, c1: at, .. } = self.jumps[jump as usize];
            if at >= c1 {
                return if at == c1 { Some(jump) } else { None };
            }
            path.jump_before = jump;
            jump = next;
        }
        None
    }

    fn insert(
        &mut self,
        _: &mut EntryPool,
        rank: u32,
        _: u64,
        path: &CubePath,
        count: &mut impl Count,
    ) -> u32 {
        let (c1, c2, c3) = self.coordinates(rank);
        let mut slot = path.slot;
        if path.cube == END {
            let cube = self.make_cube(c3);
            count.allocated(Self::cube_bytes(self.span()));
            let link = match path.cube_before {
                END => &mut self.first,
                before => &mut self.cubes[before as usize],
            };
            let next = std::mem::replace(link, cube);
            self.cubes[cube as usize] = next;
            slot = cube + HEAD as u32 + c2;
        }
        let jump = self.make_jump(c1);
        count.allocated(Self::JUMP_BYTES);
        if path.jump_before == END {
            let next = std::mem::replace(&mut self.cubes[slot as usize], jump);
            self.jumps[jump as usize].next = next;
            if next == END {
                self.cubes[(slot - HEAD as u32 - c2) as usize + 2] += 1;
            }
        } else {
            let before = &mut self.jumps[path.jump_before as usize];
            let next = std::mem::replace(&mut before.next, jump);
            self.jumps[jump as usize].next = next;
        }
        jump
    }

    fn release(&mut self, path: &CubePath, jump: u32, count: &mut impl Count) {
        let next = std::mem::replace(&mut self.jumps[jump as usize].next, self.free_jump);
        self.free_jump = jump;
        count.freed(Self::JUMP_BYTES);
        if path.jump_before != END {
            self.jumps[path.jump_before as usize].next = next;
            return;
        }
        self.cubes[path.slot as usize] = next;
        if next != END {
            return;
        }
        let cube = path.cube as usize;
        self.cubes[cube + 2] -= 1;
        if self.cubes[cube + 2] != 0 {
            return;
        }
        let next = std::mem::replace(&mut self.cubes[cube], self.free_cube);
        self.free_cube = path.cube;
        count.freed(Self::cube_bytes(self.span()));
        match path.cube_before {
            END => self.first = next,
            before => self.cubes[before as usize] = next,
        }
    }

    #[inline(always)]
    fn ring(&self, _: &EntryPool, leaf: u32, queue: QueueKind) -> u32 {
        self.jumps[leaf as usize].leaf.ring(queue)
    }

    #[inline(always)]
    fn set_ring(&mut self, _: &mut EntryPool, leaf: u32, queue: QueueKind, last: u32) {
        self.jumps[leaf as usize].leaf.set_ring(queue, last);
    }

    fn each(&self, _: &EntryPool, queue: QueueKind, visit: &mut dyn FnMut(u32)) {
        let mut cube = self.first;
        while cube != END {
            let start = cube as usize;
            for &first in &self.cubes[start + HEAD..start + HEAD + self.span()] {
                let mut jump = first;
                while jump != END {
                    let Jump { leaf, next, .. } = &self.jumps[jump as usize];
                    visit(leaf.ring(queue));
                    jump = *next;
                }
            }
            cube = self.cubes[start];
        }
    }

    fn emptied(&mut self, _: &mut impl Count) {
        if self.jumps.len() > KEPT || self.cubes.len() > KEPT {
            *self = Self { bits: self.bits, ..Self::new(0) };
        }
    }
}
