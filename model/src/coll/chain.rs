//! Reductions along a chain of ranks, in segments by two tracks: one segment is combined and sent while the next comes.
//!
//! ```text
//!   track 1   recv 0 ─ wait ─ reduce ─ send ─────── wait ─ recv 2 ─ wait ─ reduce ─ send ...
//!   track 2            recv 1 ─────── wait ─ reduce ─ send ─────── wait ─ recv 3 ...
//! ```
//! Each rank receives a segment from its neighbour behind, which has those of all ranks behind it, combines its own
//! with it and passes it on; the chain ends at the root. A track has a buffer of one segment.

use super::plan::{Place, Plan, Span, Vectors};

/// Takes pieces through a rank by two tracks: the next one is received while one is passed on. `receive` starts the
/// receives of a piece, where a rank has any; `pass_on` does the rest when they have ended.
pub(super) fn by_two_tracks<P: Plan>(
    plan: &mut P,
    pieces: usize,
    receive: Option<impl Fn(&mut P, usize) -> Result<(), P::Error>>,
    pass_on: impl Fn(&mut P, usize) -> Result<(), P::Error>,
) -> Result<(), P::Error> {
    let go_on = |plan: &mut P, piece: usize| {
        let odd = (piece % 2) as u8;
        plan.track(1 + odd)?;
        plan.phase(odd);
        // The piece before it on this track, which may be in the same memory, or the receives of this one.
        plan.wait()
    };
    let begin = |plan: &mut P, piece: usize| match &receive {
        Some(receive) if piece < pieces => {
            go_on(plan, piece)?;
            receive(plan, piece)
        }
        _ => Ok(()),
    };
    begin(plan, 0)?;
    for piece in 0..pieces {
        begin(plan, piece + 1)?;
        go_on(plan, piece)?;
        pass_on(plan, piece)?;
    }
    plan.join()
}

/// Brings the reduction of all inputs to the output at `root`, which elsewhere is not touched. Contributions stand in
/// the order of ranks counted from the root, so the operation must be commutative unless that is rank 0. `segment` is
/// a number of bytes, of which whole elements are taken, one at least. Needs two segments of scratch.
///
/// # Errors
/// Those of the plan.
pub fn reduce<P: Plan>(
    plan: &mut P,
    place: Place,
    root: u32,
    vectors: Vectors,
    segment: usize,
) -> Result<(), P::Error> {
    let Vectors { input, output, width, .. } = vectors;
    let len = vectors.len();
    let segment = (segment / width).max(1) * width;
    let relative = place.relative(root);
    let ahead = (relative > 0).then(|| place.absolute(relative - 1, root));
    let behind = (relative + 1 < place.size).then(|| place.absolute(relative + 1, root));
    let part = |number: usize| {
        let at = number * segment;
        (at, segment.min(len - at))
    };
    // The root's input may be its output, which then has to stay until it is combined.
    let at_place = ahead.is_none() && input != output;
    let buffer = |number: usize| {
        let (at, len) = part(number);
        if at_place {
            return output.part(at, len);
        }
        let slot_len = segment.min(vectors.len());
        Span::scratch(vectors.scratch + number % 2 * slot_len, len)
    };
    let receive =
        behind.map(|rank| move |plan: &mut P, number: usize| plan.recv(rank, buffer(number)));
    by_two_tracks(plan, len.div_ceil(segment), receive, |plan, number| {
        let (at, len) = part(number);
        let own = input.part(at, len);
        let sum = if behind.is_some() { buffer(number) } else { own };
        if behind.is_some() {
            plan.reduce(own, sum);
        }
        match ahead {
            Some(rank) => plan.send(rank, sum)?,
            None => plan.copy(sum, output.part(at, len)),
        }
        Ok(())
    })
}
