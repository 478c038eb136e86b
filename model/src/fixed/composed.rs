//! What both libraries compose where several ranks share a node: an algorithm inside of nodes, one across their first
//! ranks, and one inside again. Ranks of a node follow each other, as many on each, and the root is rank 0.
//!
//! MPICH works on memory that a node's ranks share: here a piece that a rank puts there is a message to each that reads
//! it. HAN has segments under way in several layers at once; here a rank does one after the other, in the order in which
//! HAN begins them. So what is found of vectors of several segments is more than HAN takes.

use super::mpich::{self, BCAST_PIECE, BCAST_WIDTH, Composition, REDUCE_PIECE};
use super::open_mpi::{self, SEGMENT};
use super::{Call, allreduce, barrier, bcast, forms, reduce, tree};
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
const fn vectors(call: Call) -> Vectors {
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
    (what, call): (Composed, Call),
) -> Result<(), P::Error> {
    match what {
        Composed::Barrier => mpich_barrier(plan, place, on),
        Composed::Bcast => mpich_bcast(plan, place, on, call, Span::output(call.bytes)),
        Composed::Reduce => mpich_reduce(plan, place, on, call, vectors(call)),
        Composed::Allreduce => mpich_allreduce(plan, place, on, call, vectors(call)),
    }
}

/// What HAN does.
pub fn han<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    (what, call): (Composed, Call),
) -> Result<(), P::Error> {
    match what {
        Composed::Barrier => han_barrier(plan, place, on),
        Composed::Bcast => han_bcast(plan, place, on, call, Span::output(call.bytes)),
        Composed::Reduce => han_reduce(plan, place, on, call, vectors(call)),
        Composed::Allreduce => han_allreduce(plan, place, on, call, vectors(call)),
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

    /// A rank among those of its node.
    const fn inner(self, place: Place) -> Place {
        Place { rank: place.rank % self.each, size: self.each }
    }

    /// The ranks of a node as a plan of theirs, from a phase on or in the one that the plan is in.
    fn inside<P: Plan>(
        self,
        plan: &mut P,
        place: Place,
        phase: Option<u8>,
    ) -> Among<'_, P, impl Fn(u32) -> u32> {
        let first = place.rank - place.rank % self.each;
        let rank = move |index| first + index;
        match phase {
            Some(phase) => Among::new(plan, phase, rank),
            None => Among::in_its_phase(plan, rank),
        }
    }

    /// A node among all.
    const fn outer(self, place: Place) -> Place {
        Place { rank: place.rank / self.each, size: self.nodes(place.size) }
    }

    /// The first ranks of nodes as a plan of theirs, if this rank is one.
    fn across<P: Plan>(
        self,
        plan: &mut P,
        place: Place,
        phase: Option<u8>,
    ) -> Option<Among<'_, P, impl Fn(u32) -> u32>> {
        let rank = move |node| node * self.each;
        let first = place.rank.is_multiple_of(self.each);
        first.then(|| match phase {
            Some(phase) => Among::new(plan, phase, rank),
            None => Among::in_its_phase(plan, rank),
        })
    }
}

/// MPICH's reduction to the first rank of a node.
fn gather_pieces<P: Plan>(plan: &mut P, inner: Place, vectors: Vectors) -> Result<(), P::Error> {
    let piece = vectors.len().min(REDUCE_PIECE);
    let shape = forms::Tree::Heap(mpich::reduce_width(piece));
    tree::reduce(plan, inner, shape, 0, vectors, REDUCE_PIECE)
}

/// MPICH's broadcast from the first rank of a node.
fn release_pieces<P: Plan>(plan: &mut P, inner: Place, data: Span) -> Result<(), P::Error> {
    tree::bcast(plan, inner, forms::Tree::Heap(BCAST_WIDTH), 0, data, BCAST_PIECE)
}

/// MPICH's allreduce.
fn mpich_allreduce<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    call: Call,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let nodes = on.nodes(call.ranks);
    if mpich::composed_allreduce(call, nodes) == Composition::Flat {
        return allreduce::run(plan, place, mpich::allreduce(call), vectors);
    }
    gather_pieces(&mut on.inside(plan, place, Some(0)), on.inner(place), vectors)?;
    if let Some(mut plan) = on.across(plan, place, Some(PHASES)) {
        let how = mpich::allreduce(call.on(nodes));
        let of_nodes = Vectors { input: vectors.output, ..vectors };
        allreduce::run(&mut plan, on.outer(place), how, of_nodes)?;
    }
    release_pieces(&mut on.inside(plan, place, Some(2 * PHASES)), on.inner(place), vectors.output)
}

/// MPICH's broadcast.
fn mpich_bcast<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    call: Call,
    data: Span,
) -> Result<(), P::Error> {
    let nodes = on.nodes(call.ranks);
    if mpich::composed_bcast(call, nodes) == Composition::Flat {
        return bcast::run(plan, place, mpich::bcast(call), 0, data);
    }
    if let Some(mut plan) = on.across(plan, place, Some(0)) {
        bcast::run(&mut plan, on.outer(place), mpich::bcast(call.on(nodes)), 0, data)?;
    }
    release_pieces(&mut on.inside(plan, place, Some(PHASES)), on.inner(place), data)
}

/// MPICH's reduction.
fn mpich_reduce<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    call: Call,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let nodes = on.nodes(call.ranks);
    let composition = mpich::composed_reduce(call, nodes);
    if composition == Composition::Flat {
        return reduce::run(plan, place, mpich::reduce(call), 0, vectors);
    }
    let inner = on.inner(place);
    // The node of the root may be the last one to reduce, with what has come from the others.
    let late = composition == Composition::AroundRoot && place.rank < on.each;
    let of_node = vectors.place(2);
    let apart = |input: Span, output: Span| Vectors {
        input,
        output,
        scratch: vectors.scratch + 3 * vectors.len(),
        ..vectors
    };
    if !late {
        let own = apart(vectors.input, of_node);
        gather_pieces(&mut on.inside(plan, place, Some(0)), inner, own)?;
    }
    if let Some(mut plan) = on.across(plan, place, Some(PHASES)) {
        let input = if late { vectors.input } else { of_node };
        let output = if late { vectors.place(0) } else { vectors.output };
        reduce::run(
            &mut plan,
            on.outer(place),
            mpich::reduce(call.on(nodes)),
            0,
            apart(input, output),
        )?;
    }
    if late {
        let input = if place.rank == 0 { vectors.place(0) } else { vectors.input };
        let last = apart(input, vectors.output);
        gather_pieces(&mut on.inside(plan, place, Some(2 * PHASES)), inner, last)?;
    }
    Ok(())
}

/// MPICH's barrier.
fn mpich_barrier<P: Plan>(plan: &mut P, place: Place, on: OnNodes) -> Result<(), P::Error> {
    let (inner, none) = (on.inner(place), Span::EMPTY);
    let empty = Vectors { input: none, output: none, width: 1, scratch: 0 };
    let shape = forms::Tree::Heap(BCAST_WIDTH);
    tree::reduce(&mut on.inside(plan, place, Some(0)), inner, shape, 0, empty, 1)?;
    if let Some(mut plan) = on.across(plan, place, Some(PHASES)) {
        barrier::run(&mut plan, on.outer(place), mpich::barrier())?;
    }
    release_pieces(&mut on.inside(plan, place, Some(2 * PHASES)), inner, none)
}

/// The segments that HAN cuts a vector into.
fn segments(len: usize) -> impl Fn(usize) -> Option<(usize, usize)> {
    let count = len.div_ceil(SEGMENT).max(1);
    move |number| {
        let at = number * SEGMENT;
        (number < count).then(|| (at, SEGMENT.min(len - at)))
    }
}

/// Part of the vectors of a reduction, with scratch as far behind.
fn part(vectors: Vectors, (at, len): (usize, usize)) -> Vectors {
    let Vectors { input, output, .. } = vectors;
    Vectors { input: input.part(at, len), output: output.part(at, len), ..vectors }
}

/// HAN's allreduce: four layers, through which segments follow each other.
fn han_allreduce<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    call: Call,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let (segment, inner, nodes) = (segments(call.bytes), on.inner(place), on.nodes(call.ranks));
    let count = call.bytes.div_ceil(SEGMENT).max(1);
    // Step i brings segment i to the ranks of nodes; three steps before, it was reduced inside of them.
    for step in 0..count + 3 {
        let of = |behind: usize| step.checked_sub(behind).and_then(&segment);
        if let Some((at, len)) = of(2)
            && let Some(mut plan) = on.across(plan, place, None)
        {
            let data = vectors.output.part(at, len);
            bcast::run(&mut plan, on.outer(place), open_mpi::han_bcast(nodes), 0, data)?;
        }
        if let Some(window) = of(1)
            && let Some(mut plan) = on.across(plan, place, None)
        {
            let how = open_mpi::han_reduce(call.on(nodes).of(window.1));
            let own = part(vectors, window);
            reduce::run(&mut plan, on.outer(place), how, 0, Vectors { input: own.output, ..own })?;
        }
        if let Some(window) = of(0) {
            let how = open_mpi::reduce(call.on(on.each).of(window.1));
            let own = part(vectors, window);
            reduce::run(&mut on.inside(plan, place, None), inner, how, 0, own)?;
        }
        if let Some((at, len)) = of(3) {
            let how = open_mpi::bcast(call.on(on.each).of(len));
            let data = vectors.output.part(at, len);
            bcast::run(&mut on.inside(plan, place, None), inner, how, 0, data)?;
        }
    }
    Ok(())
}

/// HAN's broadcast.
fn han_bcast<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    call: Call,
    data: Span,
) -> Result<(), P::Error> {
    let (segment, inner, nodes) = (segments(call.bytes), on.inner(place), on.nodes(call.ranks));
    for step in 0..=call.bytes.div_ceil(SEGMENT).max(1) {
        if let Some((at, len)) = segment(step)
            && let Some(mut plan) = on.across(plan, place, None)
        {
            let tuned = open_mpi::bcast(call.on(nodes).of(len));
            let how = if step == 0 { tuned } else { open_mpi::han_bcast(nodes) };
            bcast::run(&mut plan, on.outer(place), how, 0, data.part(at, len))?;
        }
        if let Some((at, len)) = step.checked_sub(1).and_then(&segment) {
            let how = open_mpi::bcast(call.on(on.each).of(len));
            bcast::run(&mut on.inside(plan, place, None), inner, how, 0, data.part(at, len))?;
        }
    }
    Ok(())
}

/// HAN's reduction. `vectors` has room for one more in scratch behind what both layers need.
fn han_reduce<P: Plan>(
    plan: &mut P,
    place: Place,
    on: OnNodes,
    call: Call,
    vectors: Vectors,
) -> Result<(), P::Error> {
    let (segment, inner, nodes) = (segments(call.bytes), on.inner(place), on.nodes(call.ranks));
    let of_node = vectors.place(0);
    let behind = Vectors { scratch: vectors.scratch + vectors.len(), ..vectors };
    for step in 0..=call.bytes.div_ceil(SEGMENT).max(1) {
        if let Some(window) = step.checked_sub(1).and_then(&segment)
            && let Some(mut plan) = on.across(plan, place, None)
        {
            let how = open_mpi::han_reduce(call.on(nodes).of(window.1));
            let own = part(Vectors { input: of_node, ..behind }, window);
            reduce::run(&mut plan, on.outer(place), how, 0, own)?;
        }
        if let Some(window) = segment(step) {
            let how = open_mpi::reduce(call.on(on.each).of(window.1));
            let own = part(Vectors { output: of_node, ..behind }, window);
            reduce::run(&mut on.inside(plan, place, None), inner, how, 0, own)?;
        }
    }
    Ok(())
}

/// HAN's barrier: inside of nodes, across them, and inside again.
fn han_barrier<P: Plan>(plan: &mut P, place: Place, on: OnNodes) -> Result<(), P::Error> {
    let (inner, inside) = (on.inner(place), open_mpi::barrier(on.each));
    barrier::run(&mut on.inside(plan, place, Some(0)), inner, inside)?;
    if let Some(mut plan) = on.across(plan, place, Some(PHASES)) {
        barrier::run(&mut plan, on.outer(place), open_mpi::barrier(on.nodes(place.size)))?;
    }
    barrier::run(&mut on.inside(plan, place, Some(2 * PHASES)), inner, inside)
}
