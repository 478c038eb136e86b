//! Reductions whose result all ranks get.

use super::accumulate::{Accumulator, OperandSide};
use super::forms::{Allreduce, Bcast, Reduce};
use super::plan::{Place, Plan, Span, Vectors};
use super::{bcast, reduce};

/// Bytes of scratch that `run` needs for vectors of `len` bytes.
#[inline]
pub fn scratch(how: Allreduce, size: u32, len: usize) -> usize {
    match how {
        Allreduce::Doubling | Allreduce::Halving => len,
        Allreduce::Flat => reduce::scratch(Reduce::Flat, size, (len, 1)),
        Allreduce::ReduceBcast => reduce::scratch(Reduce::Ordered, size, (len, 1)),
    }
}

/// Brings the reduction of all inputs to everybody's output.
pub fn run<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Allreduce,
    vectors: Vectors,
) -> Result<(), P::Error> {
    match how {
        Allreduce::Doubling => doubling(plan, place, vectors),
        Allreduce::Halving => halving(plan, place, vectors),
        Allreduce::Flat => via_root(plan, place, Reduce::Flat, vectors),
        Allreduce::ReduceBcast => via_root(plan, place, Reduce::Ordered, vectors),
    }
}

/// Ranks folded to a power of two. The first `2 rest` ranks form pairs, in each of which the even
/// one gives its contribution to the odd one, so that blocks of ranks stay in order.
#[derive(Clone, Copy, Debug)]
struct Fold {
    /// Participants, a power of two.
    parts: u32,
    /// Ranks that do not take part.
    rest: u32,
}

impl Fold {
    const fn new(size: u32) -> Self {
        let parts = 1 << size.ilog2();
        Self { parts, rest: size - parts }
    }

    /// The participant that a rank is, if it is one.
    const fn part(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.rest {
            Some(rank - self.rest)
        } else if rank % 2 == 1 {
            Some(rank / 2)
        } else {
            None
        }
    }

    /// The rank of a participant.
    const fn rank(self, part: u32) -> u32 {
        if part < self.rest { 2 * part + 1 } else { part + self.rest }
    }

    /// Even ones of the pairs give, odd ones take. Returns the participant this rank is.
    fn fold<P: Plan>(
        self,
        plan: &mut P,
        place: Place,
        sum: &mut Accumulator,
    ) -> Result<Option<u32>, P::Error> {
        let part = self.part(place.rank);
        if part.is_none() {
            plan.send(place.rank + 1, sum.value())?;
            plan.wait()?;
        } else if place.rank < 2 * self.rest {
            sum.absorb(plan, place.rank - 1, OperandSide::Left)?;
        }
        Ok(part)
    }

    /// Odd ones of the pairs pass the result back.
    fn unfold<P: Plan>(self, plan: &mut P, place: Place, output: Span) -> Result<(), P::Error> {
        if place.rank >= 2 * self.rest {
            return Ok(());
        }
        plan.phase(3);
        if place.rank.is_multiple_of(2) {
            plan.recv(place.rank + 1, output)?;
        } else {
            plan.send(place.rank - 1, output)?;
        }
        plan.wait()
    }
}

/// The side on which a partner's block of ranks stands.
const fn side(own: u32, peer: u32) -> OperandSide {
    if peer < own { OperandSide::Left } else { OperandSide::Right }
}

/// In round k, ranks that differ in bit k swap everything they have: the fewest rounds.
fn doubling<P: Plan>(plan: &mut P, place: Place, vectors: Vectors) -> Result<(), P::Error> {
    let fold = Fold::new(place.size);
    let mut sum = Accumulator::new(vectors.input, vectors.output, vectors.place(0));
    if let Some(part) = fold.fold(plan, place, &mut sum)? {
        plan.phase(1);
        let all = (0, vectors.len());
        let mut bit = 1;
        while bit < fold.parts {
            let peer = part ^ bit;
            sum.exchange(plan, fold.rank(peer), side(part, peer), all, all)?;
            bit *= 2;
        }
        sum.settle(plan, vectors.output, 0, vectors.len());
    }
    fold.unfold(plan, place, vectors.output)
}

/// Recursive halving of a vector over folded ranks: in round k, ranks that differ in bit k split
/// the window that both have and keep a half each.
#[derive(Clone, Copy, Debug)]
pub struct Halving {
    fold: Fold,
    place: Place,
    width: usize,
    count: usize,
}

impl Halving {
    /// For vectors of `len` bytes that are cut between elements of `width` bytes.
    #[inline]
    pub const fn new(place: Place, len: usize, width: usize) -> Self {
        let count = match len.checked_div(width) {
            Some(count) => count,
            None => 0,
        };
        Self { fold: Fold::new(place.size), place, width, count }
    }

    /// How many windows there are in the end.
    #[inline]
    pub const fn parts(self) -> u32 {
        self.fold.parts
    }

    /// The rank that has a window in the end.
    #[inline]
    pub const fn owner(self, part: u32) -> u32 {
        self.fold.rank(part)
    }

    /// Offset and length in bytes of the window that a participant has in the end.
    pub fn window(self, part: u32) -> (usize, usize) {
        self.bytes(self.after(part, self.fold.parts.trailing_zeros()))
    }

    /// The window, in elements, of a participant after some rounds.
    fn after(self, part: u32, rounds: u32) -> (usize, usize) {
        let mut window = (0, self.count);
        for round in 0..rounds {
            window = Self::half(window, part >> round & 1 == 1);
        }
        window
    }

    const fn half((at, count): (usize, usize), upper: bool) -> (usize, usize) {
        let lower = count / 2;
        if upper { (at + lower, count - lower) } else { (at, lower) }
    }

    const fn bytes(self, (at, count): (usize, usize)) -> (usize, usize) {
        (at * self.width, count * self.width)
    }

    /// Reduces; the window of the result that this rank has then, `None` when it takes no part.
    pub fn reduce<P: Plan>(
        self,
        plan: &mut P,
        sum: &mut Accumulator,
    ) -> Result<Option<(usize, usize)>, P::Error> {
        let Some(part) = self.fold.fold(plan, self.place, sum)? else { return Ok(None) };
        plan.phase(1);
        let mut window = (0, self.count);
        for round in 0..self.fold.parts.trailing_zeros() {
            let peer = part ^ 1 << round;
            let upper = peer < part;
            let (keep, give) = (Self::half(window, upper), Self::half(window, !upper));
            let (give, kept) = (self.bytes(give), self.bytes(keep));
            sum.exchange(plan, self.fold.rank(peer), side(part, peer), give, kept)?;
            window = keep;
        }
        Ok(Some(self.bytes(window)))
    }

    /// The way back: everybody's windows become the whole, in `output`.
    fn gather<P: Plan>(self, plan: &mut P, output: Span) -> Result<(), P::Error> {
        let Some(part) = self.fold.part(self.place.rank) else { return Ok(()) };
        for round in (0..self.fold.parts.trailing_zeros()).rev() {
            let peer = part ^ 1 << round;
            let own = self.bytes(self.after(part, round + 1));
            let other = self.bytes(self.after(peer, round + 1));
            if other.1 > 0 {
                plan.recv(self.fold.rank(peer), output.part(other.0, other.1))?;
            }
            if own.1 > 0 {
                plan.send(self.fold.rank(peer), output.part(own.0, own.1))?;
            }
            plan.wait()?;
        }
        Ok(())
    }
}

/// Recursive halving, then the same way back: every rank sends and reduces the vector about
/// twice, whatever the number of ranks. (Rabenseifner 2004; see [`reduce`].)
fn halving<P: Plan>(plan: &mut P, place: Place, vectors: Vectors) -> Result<(), P::Error> {
    let halving = Halving::new(place, vectors.len(), vectors.width);
    let mut sum = Accumulator::new(vectors.input, vectors.output, vectors.place(0));
    if let Some((at, len)) = halving.reduce(plan, &mut sum)? {
        sum.settle(plan, vectors.output, at, len);
    }
    plan.phase(2);
    halving.gather(plan, vectors.output)?;
    halving.fold.unfold(plan, place, vectors.output)
}

/// A reduction to rank 0 and a broadcast: the fewest messages.
fn via_root<P: Plan>(
    plan: &mut P,
    place: Place,
    how: Reduce,
    vectors: Vectors,
) -> Result<(), P::Error> {
    reduce::run(plan, place, how, 0, vectors)?;
    plan.phase(2);
    bcast::run(plan, place, Bcast::Flat, 0, vectors.output)
}
