//! The collectives through staging memory: which bytes each rank puts into the slots, and which it takes.
//!
//! Bytes are copied twice, into a slot and out of it, which two ranks do at the same time where they have two
//! processors. Each rank copies as much as the others where the collective allows it, since ranks that share processors get
//! equal parts of them. Operations combine copies, never what lies in memory that others write. Long blocks of all-to-alls
//! need no slot where they can be [read](reads).

use super::Broken;
use super::cells;
use super::staged::{
    ALLGATHER, ALLREDUCE, ALLTOALL, BCAST, GATHER, Passage, REDUCE, REDUCE_SCATTER, Sources, Terms,
    Transfer,
};
use super::staged::{chain, halves, reads};
use crate::coll::arena::Buffers;
use crate::coll::spans::Reduction;
use crate::comm::CommInner;
use crate::error::MpiError;
use crate::op::operands::Operands;
use crate::shared_memory::Staging;
use bowline_base::copy::copy_slice;
use bowline_model::coll::blocks::Blocks;
use bowline_model::coll::plan::Span;
use bowline_model::coll::price::{Combining, SLOT_BYTES, Staged, bcast_piece, slot_share, stride};

/// Results of a rank from this length on do not stay in its cache: it writes them past the caches.
const PAST_MIN: usize = 4 << 20;

/// Steps for `len` bytes of which each takes `piece`; at least one, in which ranks say what they call.
fn steps(len: usize, piece: usize) -> usize {
    len.div_ceil(piece).max(1)
}

/// From where to where piece number `index` of `len` bytes goes.
fn piece(len: usize, index: usize, piece: usize) -> (usize, usize) {
    let from = (index * piece).min(len);
    (from, piece.min(len - from))
}

struct Bcast<'a, 'b> {
    buffers: &'a mut Buffers<'b>,
    data: Span,
    root: u32,
    is_root: bool,
    piece: usize,
}

impl Transfer for Bcast<'_, '_> {
    fn steps(&self) -> usize {
        steps(self.data.len, self.piece)
    }

    fn extent(&self) -> usize {
        self.piece
    }

    fn writes(&self) -> bool {
        self.is_root
    }

    fn sources(&self) -> Sources {
        if self.is_root { Sources::Nobody } else { Sources::One(self.root) }
    }

    fn write(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken> {
        let (from, len) = piece(self.data.len, step, self.piece);
        at.put(step, 0, self.buffers.bytes(self.data.part(from, len)))
    }

    fn read(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken> {
        let (from, len) = piece(self.data.len, step, self.piece);
        at.take(step, self.root, 0, self.buffers.bytes_mut(self.data.part(from, len)))
    }
}

/// Blocks of all ranks to all, or to one.
struct Gather<'a, 'b, B> {
    buffers: &'a mut Buffers<'b>,
    /// This rank's block, where it does not lie in other memory.
    own: Span,
    elsewhere: Option<&'a [u8]>,
    /// Where the blocks go.
    blocks: &'a B,
    /// Bytes of the longest block.
    longest: usize,
    to: Option<u32>,
    rank: u32,
    ranks: u32,
}

impl<B: Blocks> Transfer for Gather<'_, '_, B> {
    fn steps(&self) -> usize {
        steps(self.longest, slot_share(self.ranks))
    }

    fn extent(&self) -> usize {
        self.ranks as usize * stride(self.longest.min(slot_share(self.ranks)))
    }

    fn writes(&self) -> bool {
        self.to != Some(self.rank)
    }

    fn sources(&self) -> Sources {
        match self.to {
            None => Sources::AllAlike,
            Some(root) if root == self.rank => Sources::All,
            Some(_) => Sources::Nobody,
        }
    }

    fn write(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken> {
        let stride = stride(piece(self.longest, step, slot_share(self.ranks)).1);
        let own = self.elsewhere.map_or(self.own.len, <[u8]>::len);
        let (from, len) = piece(own, step, slot_share(self.ranks));
        let bytes = match self.elsewhere {
            Some(bytes) => &bytes[from..from + len],
            None => self.buffers.bytes(self.own.part(from, len)),
        };
        at.put(step, self.rank as usize * stride, bytes)
    }

    fn read(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken> {
        let stride = stride(piece(self.longest, step, slot_share(self.ranks)).1);
        let (mut distance, past) = (1, self.longest * self.ranks as usize >= PAST_MIN);
        at.drain(step, |slot| {
            while distance < self.ranks {
                let from = (self.rank + distance) % self.ranks;
                let block = self.blocks.span(from);
                let (first, len) = piece(block.len, step, slot_share(self.ranks));
                let out = self.buffers.bytes_mut(block.part(first, len));
                if !slot.take(from, from as usize * stride, out, past)? {
                    return Ok(Some(from));
                }
                distance += 1;
            }
            Ok(None)
        })
    }
}

/// What becomes of the blocks that a rank receives in an exchange.
enum Sink<'s, B> {
    /// They go to their places.
    Places(&'s B),
    /// They are combined with this rank's own, which lies where the result goes.
    Combined(Accumulate<'s>),
}

/// Combines contributions in the order in which an exchange brings them: those of lower ranks downwards, then
/// those of higher ranks downwards.
struct Accumulate<'s> {
    op: Reduction<'s>,
    into: Into<'s>,
    /// A contribution, and behind it what the higher ranks have together.
    scratch: &'s mut [u8],
}

/// Where a result goes.
enum Into<'s> {
    Buffers(Span),
    Memory(&'s mut [u8]),
}

/// A block from each rank to each other one.
struct Exchange<'a, 'b, 's, F, B> {
    buffers: &'a mut Buffers<'b>,
    from: &'a F,
    sink: Sink<'s, B>,
    sources: Sources,
    cut: Cut,
    rank: u32,
}

/// How the blocks of an exchange are cut and grouped.
#[derive(Clone, Copy)]
struct Cut {
    ranks: u32,
    /// Bytes of the longest block.
    longest: usize,
    /// Bytes of a piece.
    piece: usize,
    /// Ranks whose pieces go in one step, if blocks are short.
    group: u32,
}

impl Cut {
    /// `None` when an element does not fit.
    fn new(ranks: u32, longest: usize, width: usize) -> Option<Self> {
        let piece = slot_share(ranks) / width.max(1) * width.max(1);
        if piece == 0 {
            return None;
        }
        let stride = stride(longest.min(piece)).max(1);
        let group =
            if longest > piece { 1 } else { (slot_share(ranks) / stride).clamp(1, ranks as usize) };
        Some(Self { ranks, longest, piece, group: group as u32 })
    }

    /// Steps for each piece.
    const fn groups(self) -> usize {
        let others = self.ranks - 1;
        if others == 0 { 1 } else { others.div_ceil(self.group) as usize }
    }

    fn steps(self) -> usize {
        steps(self.longest, self.piece) * self.groups()
    }

    /// Bytes that all ranks put into the slot of a step.
    const fn extent(self) -> usize {
        let piece = if self.longest < self.piece { self.longest } else { self.piece };
        self.ranks as usize * self.group as usize * stride(piece)
    }

    /// The pieces of a step: their number, and for each distance where it lies among those of its writer.
    fn of(self, step: usize) -> (usize, usize, impl Iterator<Item = (u32, usize)>) {
        let (index, group) = (step / self.groups(), (step % self.groups()) as u32);
        let stride = stride(piece(self.longest, index, self.piece).1);
        let first = 1 + group * self.group;
        let distances = first..(first + self.group).min(self.ranks);
        let places =
            distances.map(move |distance| (distance, (distance - first) as usize * stride));
        // Each writer's pieces lie together.
        (index, self.group as usize * stride, places)
    }
}

impl<F: Blocks, B: Blocks> Transfer for Exchange<'_, '_, '_, F, B> {
    fn steps(&self) -> usize {
        self.cut.steps()
    }

    fn extent(&self) -> usize {
        self.cut.extent()
    }

    fn sources(&self) -> Sources {
        self.sources
    }

    fn write(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken> {
        let (index, row, places) = self.cut.of(step);
        at.fill(step, |slot| {
            for (distance, place) in places {
                let block = self.from.span((self.rank + distance) % self.cut.ranks);
                let (from, len) = piece(block.len, index, self.cut.piece);
                let bytes = self.buffers.bytes(block.part(from, len));
                slot.put(self.rank as usize * row + place, bytes);
            }
        })
    }

    fn read(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken> {
        let (index, row, places) = self.cut.of(step);
        let (rank, ranks) = (self.rank, self.cut.ranks);
        let mut places = places.map(|(distance, place)| {
            let source = (rank + ranks - distance) % ranks;
            (source, source as usize * row + place)
        });
        let accumulate = match &mut self.sink {
            Sink::Places(blocks) => {
                let past = self.cut.longest * ranks as usize >= PAST_MIN;
                let mut places = places.peekable();
                return at.drain(step, |slot| {
                    while let Some(&(source, place)) = places.peek() {
                        let block = blocks.span(source);
                        let (from, len) = piece(block.len, index, self.cut.piece);
                        let out = self.buffers.bytes_mut(block.part(from, len));
                        if !slot.take(source, place, out, past)? {
                            return Ok(Some(source));
                        }
                        places.next();
                    }
                    Ok(None)
                });
            }
            Sink::Combined(accumulate) => accumulate,
        };
        places.try_for_each(|(source, place)| {
            let (from, len) = piece(accumulate.len(), index, self.cut.piece);
            let (left, rest) = accumulate.scratch.split_at_mut(self.cut.piece.next_multiple_of(64));
            let left = &mut left[..len];
            at.take(step, source, place, left)?;
            if len == 0 {
                return Ok(());
            }
            let higher = &mut rest[..len];
            let right = match &mut accumulate.into {
                Into::Buffers(span) => self.buffers.bytes_mut(span.part(from, len)),
                Into::Memory(memory) => &mut memory[from..from + len],
            };
            let combine = accumulate.op.combine;
            if accumulate.op.commutative || source < rank {
                combine(Operands::of(left, right));
            } else {
                // From the highest rank downwards, and then all behind what this rank has.
                match source == ranks - 1 {
                    true => copy_slice(left, higher),
                    false => combine(Operands::of(left, higher)),
                }
                if source == rank + 1 {
                    combine(Operands::of(right, higher));
                    copy_slice(higher, right);
                }
            }
            Ok(())
        })
    }
}

impl Accumulate<'_> {
    fn len(&self) -> usize {
        match &self.into {
            Into::Buffers(span) => span.len,
            Into::Memory(memory) => memory.len(),
        }
    }
}

/// A vector cut into a slice for each rank, between elements.
#[derive(Clone, Copy)]
pub(super) struct Slices {
    pub(super) vector: Span,
    pub(super) width: usize,
    pub(super) ranks: u32,
}

impl Slices {
    fn longest(self) -> usize {
        (self.vector.len / self.width).div_ceil(self.ranks as usize) * self.width
    }
}

impl Blocks for Slices {
    fn span(&self, rank: u32) -> Span {
        let elements = self.vector.len / self.width;
        let start = |rank: u32| elements * rank as usize / self.ranks as usize * self.width;
        self.vector.part(start(rank), start(rank + 1) - start(rank))
    }
}

/// Bytes that an exchange of slices wants of scratch.
fn scratch(cut: Cut) -> usize {
    2 * cut.piece.next_multiple_of(64)
}

/// Whether elements of this width can be combined in slots.
pub(crate) fn fits(ranks: u32, width: usize) -> bool {
    width > 0 && width <= slot_share(ranks)
}

impl Staging {
    /// Brings `data` of the root to all ranks.
    pub(crate) fn bcast(
        &self,
        comm: &CommInner,
        buffers: &mut Buffers<'_>,
        data: Span,
        root: u32,
    ) -> Result<(), MpiError> {
        let terms = Terms { kind: BCAST, root, len: data.len };
        let piece = |len| if self.is_apart() { bcast_piece(len) } else { SLOT_BYTES };
        self.collective(comm, terms, &|len| steps(len, piece(len)), |passage| {
            match self.in_cells(BCAST, data.len) {
                true => cells::bcast(passage, buffers, data, root),
                false => {
                    let is_root = comm.rank == root;
                    let piece = piece(data.len);
                    passage.go(&mut Bcast { buffers, data, root, is_root, piece })
                }
            }
        })
    }

    /// Brings the blocks of all ranks, which have one length, to all, or to a root.
    pub(crate) fn gather(
        &self,
        comm: &CommInner,
        buffers: &mut Buffers<'_>,
        own: Span,
        blocks: &impl Blocks,
        to: Option<u32>,
    ) -> Result<(), MpiError> {
        let (rank, ranks) = (comm.rank, comm.size);
        let kind = if to.is_none() { ALLGATHER } else { GATHER };
        let terms = Terms { kind, root: to.unwrap_or(0), len: own.len };
        if to.is_none_or(|root| root == rank) {
            buffers.copy(own, blocks.span(rank));
        }
        let (longest, elsewhere) = (own.len, None);
        self.collective(comm, terms, &|len| steps(len, slot_share(ranks)), |passage| {
            if self.in_cells(kind, own.len) {
                return cells::gather(passage, buffers, own, blocks, to);
            }
            passage.go(&mut Gather { buffers, own, elsewhere, blocks, longest, to, rank, ranks })
        })
    }

    /// Exchanges blocks of `len` bytes between all ranks.
    pub(crate) fn alltoall(
        &self,
        comm: &CommInner,
        buffers: &mut Buffers<'_>,
        len: usize,
        from: &impl Blocks,
        into: &impl Blocks,
    ) -> Result<(), MpiError> {
        let (rank, ranks) = (comm.rank, comm.size);
        let terms = Terms { kind: ALLTOALL, root: 0, len };
        buffers.copy(from.span(rank), into.span(rank));
        let cut = |len| Cut::new(ranks, len, 1).expect("a byte fits");
        let reads = |len| self.reads().filter(|_| Staged::Alltoall.reads(ranks, len));
        let steps_of = |len| if reads(len).is_some() { 1 } else { cut(len).steps() };
        self.collective(comm, terms, &steps_of, |passage| {
            if self.in_cells(ALLTOALL, len) {
                return cells::alltoall(passage, buffers, len, from, into);
            }
            if let Some(reads) = reads(len) {
                return reads::alltoall(passage, buffers, reads, from, into);
            }
            let (sink, sources, cut) = (Sink::Places(into), Sources::AllAlike, cut(len));
            passage.go(&mut Exchange { buffers, from, sink, sources, cut, rank })
        })
    }

    /// Combines the vectors of all ranks; the result goes to the start of the output, of all or of a root.
    pub(crate) fn reduce(
        &self,
        comm: &CommInner,
        buffers: &mut Buffers<'_>,
        own: Span,
        op: Reduction<'_>,
        to: Option<u32>,
    ) -> Result<(), MpiError> {
        let ranks = comm.size;
        let kind = if to.is_none() { ALLREDUCE } else { REDUCE };
        let terms = Terms { kind, root: to.unwrap_or(0), len: own.len };
        let width = op.width;
        let cut = |len: usize| {
            let slices = Slices { vector: Span::scratch(0, len), width, ranks };
            Cut::new(ranks, slices.longest(), width).expect("the caller has asked whether it fits")
        };
        let combining = |len| Combining::of(kind == REDUCE, ranks, (len, width), self.is_apart());
        let steps_of = |len: usize| match combining(len) {
            Combining::Cells => 0,
            Combining::Alone if kind == REDUCE => steps(len, alone_piece(ranks, width)),
            // Lines are not in this memory; what is in them would fit into one slot here.
            Combining::Alone | Combining::Lines => 1,
            Combining::Chain(cut) => cut.pieces(),
            Combining::Halves(cut) => halves::steps(cut),
            Combining::Slices => cut(len).steps() + steps(cut(len).longest, slot_share(ranks)),
        };
        if combining(own.len) == Combining::Cells {
            debug_assert!(self.in_cells(kind, own.len), "prices know how long cells are");
            return self.with_scratch(ranks as usize * cells::row(own.len), |rows| {
                let mine = buffers.bytes(own);
                self.collective(comm, terms, &steps_of, |passage| {
                    cells::collect(passage, mine, to, rows)
                })?;
                if to.is_none_or(|root| root == comm.rank) {
                    buffers.write(Span::output(own.len), cells::combine(rows, ranks, own.len, op));
                }
                Ok(())
            });
        }
        self.collective(comm, terms, &steps_of, |passage| match (combining(own.len), to) {
            (Combining::Cells, _) => unreachable!("it was asked before"),
            (Combining::Alone | Combining::Lines, None) => {
                allreduce_alone(passage, buffers, own, op)
            }
            (Combining::Alone | Combining::Lines, Some(root)) => {
                reduce_alone(passage, buffers, own, op, root)
            }
            (Combining::Chain(cut), _) => chain::reduce(passage, buffers, own, op, to, cut),
            (Combining::Halves(cut), _) => {
                halves::reduce(passage, buffers, Slices { vector: own, width, ranks }, op, to, cut)
            }
            (Combining::Slices, _) => in_slices(passage, buffers, own, op, to, cut(own.len)),
        })
    }

    /// Combines the blocks of all ranks; each gets its own, at the start of its output.
    pub(crate) fn reduce_scatter(
        &self,
        comm: &CommInner,
        buffers: &mut Buffers<'_>,
        blocks: &impl Blocks,
        total: usize,
        op: Reduction<'_>,
    ) -> Result<(), MpiError> {
        let (rank, ranks) = (comm.rank, comm.size);
        // The blocks decide how vectors are cut, so all ranks must have the same. There is no root to be stated.
        let mix = |sum: u64, rank| {
            (sum ^ blocks.len(rank) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        let lengths = (0..ranks).fold(1, mix);
        let terms = Terms { kind: REDUCE_SCATTER, root: (lengths >> 48) as u32, len: total };
        let longest = (0..ranks).map(|rank| blocks.len(rank)).max().unwrap_or(0);
        let cut = Cut::new(ranks, longest, op.width).expect("the caller has asked whether it fits");
        let into = Span::output(blocks.len(rank));
        buffers.copy(blocks.span(rank), into);
        self.with_scratch(scratch(cut), |scratch| {
            let sink = Sink::Combined(Accumulate { op, into: Into::Buffers(into), scratch });
            let sources = Sources::All;
            let mut exchange =
                Exchange::<_, Slices> { buffers, from: blocks, sink, sources, cut, rank };
            // Of other lengths nobody knows how they are cut.
            let steps_of = |len| if len == total { cut.steps() } else { 0 };
            self.collective(comm, terms, &steps_of, |passage| passage.go(&mut exchange))
        })
    }
}

/// All write their vectors, and the last one combines them.
fn allreduce_alone(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    own: Span,
    op: Reduction<'_>,
) -> Result<(), Broken> {
    let (len, stride) = (own.len, stride(own.len));
    let staging = passage.staging();
    let ranks = passage.comm.size;
    let aligned = len.next_multiple_of(64);
    staging.with_scratch(2 * aligned, |scratch| {
        let (left, result) = scratch.split_at_mut(aligned);
        let (left, result) = (&mut left[..len], &mut result[..len]);
        // What is sent may be what the result replaces.
        let input = buffers.bytes(own);
        passage.combine(input, stride, result, |passage, result| {
            passage.take(0, ranks - 1, (ranks as usize - 1) * stride, result)?;
            for from in (0..ranks - 1).rev() {
                passage.take(0, from, from as usize * stride, left)?;
                if len > 0 {
                    (op.combine)(Operands::of(left, result));
                }
            }
            Ok(())
        })?;
        buffers.write(Span::output(len), result);
        Ok(())
    })
}

/// Vectors of all ranks, which the root combines.
struct ToRoot<'a, 'b> {
    buffers: &'a mut Buffers<'b>,
    own: Span,
    op: Reduction<'a>,
    root: u32,
    rank: u32,
    ranks: u32,
    /// Bytes of a step, of each rank.
    piece: usize,
    scratch: &'a mut [u8],
}

impl Transfer for ToRoot<'_, '_> {
    fn steps(&self) -> usize {
        steps(self.own.len, self.piece)
    }

    fn extent(&self) -> usize {
        self.ranks as usize * stride(self.own.len.min(self.piece))
    }

    fn writes(&self) -> bool {
        self.rank != self.root
    }

    fn sources(&self) -> Sources {
        if self.writes() { Sources::Nobody } else { Sources::All }
    }

    fn write(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken> {
        let (from, len) = piece(self.own.len, step, self.piece);
        let bytes = self.buffers.bytes(self.own.part(from, len));
        at.put(step, self.rank as usize * stride(len), bytes)
    }

    fn read(&mut self, at: &Passage<'_>, step: usize) -> Result<(), Broken> {
        let (begin, len) = piece(self.own.len, step, self.piece);
        let (left, result) = self.scratch.split_at_mut(len.next_multiple_of(64));
        let (left, result) = (&mut left[..len], &mut result[..len]);
        for from in (0..self.ranks).rev() {
            let is_first = from == self.ranks - 1;
            let to: &mut [u8] = if is_first { &mut *result } else { &mut *left };
            if from == self.rank {
                self.buffers.read(self.own.part(begin, len), to);
            } else {
                at.take(step, from, from as usize * stride(len), to)?;
            }
            if !is_first && len > 0 {
                (self.op.combine)(Operands::of(left, result));
            }
        }
        self.buffers.write(Span::output(self.own.len).part(begin, len), result);
        Ok(())
    }
}

/// Bytes of a step in which one rank takes those of all.
fn alone_piece(ranks: u32, width: usize) -> usize {
    slot_share(ranks) / width * width
}

fn reduce_alone(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    own: Span,
    op: Reduction<'_>,
    root: u32,
) -> Result<(), Broken> {
    let (rank, ranks) = (passage.comm.rank, passage.comm.size);
    let staging = passage.staging();
    let piece = alone_piece(ranks, op.width);
    staging.with_scratch(2 * piece.min(own.len).next_multiple_of(64), |scratch| {
        let mut to_root = ToRoot { buffers, own, op, root, rank, ranks, piece, scratch };
        passage.go(&mut to_root)
    })
}

/// Each rank combines a slice of all vectors, and brings it to all, or to a root.
fn in_slices(
    passage: &mut Passage<'_>,
    buffers: &mut Buffers<'_>,
    own: Span,
    op: Reduction<'_>,
    to: Option<u32>,
    cut: Cut,
) -> Result<(), Broken> {
    let (rank, ranks) = (passage.comm.rank, passage.comm.size);
    let staging = passage.staging();
    let from = Slices { vector: own, width: op.width, ranks };
    let results = Slices { vector: Span::output(own.len), width: op.width, ranks };
    let has_result = to.is_none_or(|root| root == rank);
    let mine = from.span(rank);
    // Where no result goes, the slice is combined in memory of its own.
    let apart = if has_result { 0 } else { mine.len.next_multiple_of(64) };
    staging.with_scratch(scratch(cut) + apart, |all| {
        let (slice, scratch) = all.split_at_mut(apart);
        let slice = &mut slice[..if has_result { 0 } else { mine.len }];
        let into = if has_result {
            buffers.copy(mine, results.span(rank));
            Into::Buffers(results.span(rank))
        } else {
            buffers.read(mine, slice);
            Into::Memory(slice)
        };
        // Of a reduction to a root not all read what others say, if their vectors are short.
        let sources = if to.is_none() { Sources::AllAlike } else { Sources::All };
        let sink = Sink::<Slices>::Combined(Accumulate { op, into, scratch });
        let mut exchange = Exchange { buffers, from: &from, sink, sources, cut, rank };
        passage.go(&mut exchange)?;
        let elsewhere = match exchange.sink {
            Sink::Combined(Accumulate { into: Into::Memory(slice), .. }) => Some(&*slice),
            _ => None,
        };
        let own = results.span(rank);
        let longest = cut.longest;
        let blocks = &results;
        let mut gather = Gather { buffers, own, elsewhere, blocks, longest, to, rank, ranks };
        passage.go(&mut gather)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_an_exchange_bring_all_and_keep_apart() {
        for (ranks, width) in
            (2..=5).flat_map(|ranks| [1, 3, 8, 12, 16].map(|width| (ranks, width)))
        {
            for elements in [1, 700, 20_000] {
                let longest = elements * width;
                let cut = Cut::new(ranks, longest, width).unwrap();
                let mut brought = vec![0; ranks as usize];
                for step in 0..cut.steps() {
                    let (index, row, places) = cut.of(step);
                    let len = piece(longest, index, cut.piece).1;
                    assert!(len.is_multiple_of(width), "pieces end between elements");
                    let mut free = 0;
                    for (distance, place) in places {
                        assert!(
                            place >= free,
                            "{ranks} ranks, {width} x {elements}: pieces overlap"
                        );
                        free = place + len;
                        brought[distance as usize] += len;
                    }
                    assert!(free <= row, "{ranks} ranks, {width} x {elements}: rows overlap");
                    assert!(row * ranks as usize <= cut.extent());
                    assert!(cut.extent() <= SLOT_BYTES);
                }
                assert!(brought[1..].iter().all(|&sum| sum == longest));
            }
        }
    }
}
