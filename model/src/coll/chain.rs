//! Reductions along a chain of ranks, in segments by two tracks: one segment is combined and sent while the next comes.
//!
//! ```text
//!   track 1   recv 0 ─ wait ─ reduce ─ send ─────── wait ─ recv 2 ─ wait ─ reduce ─ send ...
//!   track 2            recv 1 ─────── wait ─ reduce ─ send ─────── wait ─ recv 3 ...
//! ```
//! Each rank receives a segment from its neighbour behind, which has those of all ranks behind it, combines its own
//! with it and passes it on; the chain ends at the root. A track has a buffer of one segment.

use super::plan::{Place, Plan, Span, Vectors};

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
    let segments = len.div_ceil(segment) as u32;
    let part = |number: u32| {
        let at = number as usize * segment;
        (at, segment.min(len - at))
    };
    // The root's input may be its output, which then has to stay until it is combined.
    let at_place = ahead.is_none() && input != output;
    let buffer = |number: u32| {
        let (at, len) = part(number);
        if at_place {
            return output.part(at, len);
        }
        let room = segment.min(vectors.len());
        Span::scratch(vectors.scratch + (number % 2) as usize * room, len)
    };
    let go_on = |plan: &mut P, number: u32| {
        plan.track(1 + (number % 2) as u8)?;
        plan.phase((number % 2) as u8);
        Ok(())
    };
    let begin = |plan: &mut P, number: u32| match behind {
        Some(rank) if number < segments => {
            go_on(plan, number)?;
            // What was sent from the same buffer.
            plan.wait()?;
            plan.recv(rank, buffer(number))
        }
        _ => Ok(()),
    };
    begin(plan, 0)?;
    for number in 0..segments {
        begin(plan, number + 1)?;
        go_on(plan, number)?;
        plan.wait()?;
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
    }
    plan.join()
}
