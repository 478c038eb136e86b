//! What both libraries compose where several ranks share a node: an algorithm inside of nodes, one across their first
//! ranks, and one inside again. Ranks of a node follow each other, as many on each, and the root is rank 0.
//!
//! MPICH works on memory that a node's ranks share: here a piece that a rank puts there is a message to each that reads
//! it. HAN has segments under way in several layers at once; here a rank does one after the other, in the order in which
//! HAN begins them. So what is found of vectors of several segments is more than HAN takes.

use super::mpich::{self, BCAST_PIECE, BCAST_WIDTH, Composition, REDUCE_PIECE};
use super::open_mpi::{self, SEGMENT};
use super::{FixedCall, allreduce, barrier, bcast, forms, reduce, tree};
use crate::coll::nodes::Among;
use crate::coll::plan::{Place, Plan, Span, Vectors};

/// A layer's algorithm has fewer phases than this.
const PHASES: u8 = 8;

/// The collectives that are composed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Composed {
    /// A barrier.
    Barrier,
    /// A broadcast.
    Bcast,
    /// A reduction.
    Reduce,
    /// An allreduce.
    Allreduce,
}

/// The buffers of a call on rank 0 and on the others.
const fn vectors(call: FixedCall) -> Vectors {
    let (input, output) = (Span::input(call.bytes), Span::output(call.bytes));
    Vectors { input, output, width: call.width, scratch: 0 }
}

/// What MPICH does.
///
/// # Errors
/// Those of the plan, as of all that follow.
pub fn mpich<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    (what, call): (Composed, FixedCall),
) -> Result<(), P::Error> {
    let me = Member { place, on, call };
    match what {
        Composed::Barrier => mpich_barrier(plan, me),
        Composed::Bcast => mpich_bcast(plan, me, Span::output(call.bytes)),
        Composed::Reduce => mpich_reduce(plan, me, vectors(call)),
        Composed::Allreduce => mpich_allreduce(plan, me, vectors(call)),
    }
}

/// What HAN does.
pub fn han<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    (what, call): (Composed, FixedCall),
) -> Result<(), P::Error> {
    let me = Member { place, on, call };
    match what {
        Composed::Barrier => han_barrier(plan, me),
        Composed::Bcast => han_bcast(plan, me, Span::output(call.bytes)),
        Composed::Reduce => han_reduce(plan, me, vectors(call)),
        Composed::Allreduce => han_allreduce(plan, me, vectors(call)),
    }
}

/// Ranks on nodes, so many in a row on each.
#[derive(Clone, Copy, Debug)]
pub struct OnNodes {
    /// Ranks on a node, at least 1; the number of all is a multiple of it.
    pub each: u32,
}

impl OnNodes {
    /// How many nodes so many ranks are on.
    pub const fn nodes(self, ranks: u32) -> u32 {
        ranks / self.each
    }
}

/// A rank in a call.
#[derive(Clone, Copy)]
struct Member {
    place: Place,
    on: OnNodes,
    call: FixedCall,
}

impl Member {
    /// How many nodes there are.
    const fn nodes(self) -> u32 {
        self.on.nodes(self.call.ranks)
    }

    /// The rank among those of its node.
    const fn inner(self) -> Place {
        Place { rank: self.place.rank % self.on.each, size: self.on.each }
    }

    /// Its node among all.
    const fn outer(self) -> Place {
        Place { rank: self.place.rank / self.on.each, size: self.on.nodes(self.place.size) }
    }

    /// The same call among the ranks of a node.
    const fn call_inside(self) -> FixedCall {
        self.call.on(self.on.each)
    }

    /// The same call among nodes.
    const fn call_across(self) -> FixedCall {
        self.call.on(self.nodes())
    }

    /// The ranks of its node as a plan of theirs, from a phase on or in the one that the plan is in.
    fn inside<P: Plan>(self, plan: &mut P, phase: Option<u8>) -> Among<'_, P, impl Fn(u32) -> u32> {
        let first = self.place.rank - self.inner().rank;
        among(plan, phase, move |index| first + index)
    }

    /// The first ranks of nodes as a plan of theirs, if this rank is one.
    fn across<P: Plan>(
        self,
        plan: &mut P,
        phase: Option<u8>,
    ) -> Option<Among<'_, P, impl Fn(u32) -> u32>> {
        let is_first = self.inner().rank == 0;
        is_first.then(|| among(plan, phase, move |node| node * self.on.each))
    }
}

fn among<P: Plan, R: Fn(u32) -> u32>(plan: &mut P, phase: Option<u8>, rank: R) -> Among<'_, P, R> {
    match phase {
        Some(phase) => Among::new(plan, phase, rank),
        None => Among::in_its_phase(plan, rank),
    }
}

/// MPICH's reduction to the first rank of a node.
fn gather_pieces<P: Plan>(plan: &mut P, inner: Place, vectors: Vectors) -> Result<(), P::Error> {
    let piece = vectors.len().min(REDUCE_PIECE);
    let shape = forms::FixedTree::Heap(mpich::reduce_width(piece));
    tree::reduce(plan, inner, shape, 0, vectors, REDUCE_PIECE)
}

/// MPICH's broadcast from the first rank of a node.
fn release_pieces<P: Plan>(plan: &mut P, inner: Place, data: Span) -> Result<(), P::Error> {
    tree::bcast(plan, inner, forms::FixedTree::Heap(BCAST_WIDTH), 0, data, BCAST_PIECE)
}

/// MPICH's allreduce.
fn mpich_allreduce<P: Plan>(plan: &mut P, me: Member, vectors: Vectors) -> Result<(), P::Error> {
    if mpich::composed_allreduce(me.call, me.nodes()) == Composition::Flat {
        return allreduce::run(plan, me.place, mpich::allreduce(me.call), vectors);
    }
    gather_pieces(&mut me.inside(plan, Some(0)), me.inner(), vectors)?;
    if let Some(mut plan) = me.across(plan, Some(PHASES)) {
        let how = mpich::allreduce(me.call_across());
        let of_nodes = Vectors { input: vectors.output, ..vectors };
        allreduce::run(&mut plan, me.outer(), how, of_nodes)?;
    }
    release_pieces(&mut me.inside(plan, Some(2 * PHASES)), me.inner(), vectors.output)
}

/// MPICH's broadcast.
fn mpich_bcast<P: Plan>(plan: &mut P, me: Member, data: Span) -> Result<(), P::Error> {
    if mpich::composed_bcast(me.call, me.nodes()) == Composition::Flat {
        return bcast::run(plan, me.place, mpich::bcast(me.call), 0, data);
    }
    if let Some(mut plan) = me.across(plan, Some(0)) {
        bcast::run(&mut plan, me.outer(), mpich::bcast(me.call_across()), 0, data)?;
    }
    release_pieces(&mut me.inside(plan, Some(PHASES)), me.inner(), data)
}

/// MPICH's reduction.
fn mpich_reduce<P: Plan>(plan: &mut P, me: Member, vectors: Vectors) -> Result<(), P::Error> {
    let composition = mpich::composed_reduce(me.call, me.nodes());
    if composition == Composition::Flat {
        return reduce::run(plan, me.place, mpich::reduce(me.call), 0, vectors);
    }
    // The node of the root may be the last one to reduce, with what has come from the others.
    let late = composition == Composition::AroundRoot && me.outer().rank == 0;
    let of_node = vectors.place(2);
    let apart = |input: Span, output: Span| Vectors {
        input,
        output,
        scratch: vectors.scratch + 3 * vectors.len(),
        ..vectors
    };
    if !late {
        let own = apart(vectors.input, of_node);
        gather_pieces(&mut me.inside(plan, Some(0)), me.inner(), own)?;
    }
    if let Some(mut plan) = me.across(plan, Some(PHASES)) {
        let input = if late { vectors.input } else { of_node };
        let output = if late { vectors.place(0) } else { vectors.output };
        let how = mpich::reduce(me.call_across());
        reduce::run(&mut plan, me.outer(), how, 0, apart(input, output))?;
    }
    if late {
        let input = if me.place.rank == 0 { vectors.place(0) } else { vectors.input };
        let last = apart(input, vectors.output);
        gather_pieces(&mut me.inside(plan, Some(2 * PHASES)), me.inner(), last)?;
    }
    Ok(())
}

/// MPICH's barrier.
fn mpich_barrier<P: Plan>(plan: &mut P, me: Member) -> Result<(), P::Error> {
    let (inner, none) = (me.inner(), Span::EMPTY);
    let empty = Vectors { input: none, output: none, width: 1, scratch: 0 };
    let shape = forms::FixedTree::Heap(BCAST_WIDTH);
    tree::reduce(&mut me.inside(plan, Some(0)), inner, shape, 0, empty, 1)?;
    if let Some(mut plan) = me.across(plan, Some(PHASES)) {
        barrier::run(&mut plan, me.outer(), mpich::barrier())?;
    }
    release_pieces(&mut me.inside(plan, Some(2 * PHASES)), inner, none)
}

/// How many segments HAN cuts a vector into.
fn segments(len: usize) -> usize {
    len.div_ceil(SEGMENT).max(1)
}

/// The segment that a layer is at in a step if it begins so many steps after the first layer: where it is, and its length.
fn segment(len: usize, step: usize, behind: usize) -> Option<(usize, usize)> {
    let number = step.checked_sub(behind).filter(|&number| number < segments(len))?;
    let at = number * SEGMENT;
    Some((at, SEGMENT.min(len - at)))
}

/// Part of the vectors of a reduction, with scratch as far behind.
fn part(vectors: Vectors, (at, len): (usize, usize)) -> Vectors {
    let Vectors { input, output, .. } = vectors;
    Vectors { input: input.part(at, len), output: output.part(at, len), ..vectors }
}

/// HAN's reduction of a segment inside of a node.
fn reduce_inside<P: Plan>(plan: &mut P, me: Member, vectors: Vectors) -> Result<(), P::Error> {
    let how = open_mpi::reduce(me.call_inside().of(vectors.len()));
    reduce::run(&mut me.inside(plan, None), me.inner(), how, 0, vectors)
}

/// HAN's reduction of a segment across nodes.
fn reduce_across<P: Plan>(plan: &mut P, me: Member, vectors: Vectors) -> Result<(), P::Error> {
    let Some(mut plan) = me.across(plan, None) else { return Ok(()) };
    let how = open_mpi::han_reduce(me.call_across().of(vectors.len()));
    reduce::run(&mut plan, me.outer(), how, 0, vectors)
}

/// HAN's broadcast of a segment inside of a node.
fn bcast_inside<P: Plan>(plan: &mut P, me: Member, data: Span) -> Result<(), P::Error> {
    let how = open_mpi::bcast(me.call_inside().of(data.len));
    bcast::run(&mut me.inside(plan, None), me.inner(), how, 0, data)
}

/// HAN's broadcast of a segment across nodes.
fn bcast_across<P: Plan>(
    plan: &mut P,
    me: Member,
    how: forms::FixedBcast,
    data: Span,
) -> Result<(), P::Error> {
    let Some(mut plan) = me.across(plan, None) else { return Ok(()) };
    bcast::run(&mut plan, me.outer(), how, 0, data)
}

/// HAN's allreduce: four layers, through which segments follow each other.
fn han_allreduce<P: Plan>(plan: &mut P, me: Member, vectors: Vectors) -> Result<(), P::Error> {
    let bytes = me.call.bytes;
    // Step i brings segment i to the ranks of nodes; three steps before, it was reduced inside of them.
    for step in 0..segments(bytes) + 3 {
        if let Some((at, len)) = segment(bytes, step, 2) {
            let data = vectors.output.part(at, len);
            bcast_across(plan, me, open_mpi::han_bcast(me.nodes()), data)?;
        }
        if let Some(window) = segment(bytes, step, 1) {
            let own = part(vectors, window);
            reduce_across(plan, me, Vectors { input: own.output, ..own })?;
        }
        if let Some(window) = segment(bytes, step, 0) {
            reduce_inside(plan, me, part(vectors, window))?;
        }
        if let Some((at, len)) = segment(bytes, step, 3) {
            bcast_inside(plan, me, vectors.output.part(at, len))?;
        }
    }
    Ok(())
}

/// HAN's broadcast.
fn han_bcast<P: Plan>(plan: &mut P, me: Member, data: Span) -> Result<(), P::Error> {
    for step in 0..=segments(data.len) {
        if let Some((at, len)) = segment(data.len, step, 0) {
            let how = match step {
                0 => open_mpi::bcast(me.call_across().of(len)),
                _ => open_mpi::han_bcast(me.nodes()),
            };
            bcast_across(plan, me, how, data.part(at, len))?;
        }
        if let Some((at, len)) = segment(data.len, step, 1) {
            bcast_inside(plan, me, data.part(at, len))?;
        }
    }
    Ok(())
}

/// HAN's reduction. `vectors` has space for one more in scratch behind what both layers need.
fn han_reduce<P: Plan>(plan: &mut P, me: Member, vectors: Vectors) -> Result<(), P::Error> {
    let (bytes, of_node) = (me.call.bytes, vectors.place(0));
    let behind = Vectors { scratch: vectors.scratch + vectors.len(), ..vectors };
    for step in 0..=segments(bytes) {
        if let Some(window) = segment(bytes, step, 1) {
            reduce_across(plan, me, part(Vectors { input: of_node, ..behind }, window))?;
        }
        if let Some(window) = segment(bytes, step, 0) {
            reduce_inside(plan, me, part(Vectors { output: of_node, ..behind }, window))?;
        }
    }
    Ok(())
}

/// HAN's barrier: inside of nodes, across them, and inside again.
fn han_barrier<P: Plan>(plan: &mut P, me: Member) -> Result<(), P::Error> {
    let (inner, inside) = (me.inner(), open_mpi::barrier(me.on.each));
    barrier::run(&mut me.inside(plan, Some(0)), inner, inside)?;
    if let Some(mut plan) = me.across(plan, Some(PHASES)) {
        barrier::run(&mut plan, me.outer(), open_mpi::barrier(me.outer().size))?;
    }
    barrier::run(&mut me.inside(plan, Some(2 * PHASES)), inner, inside)
}
