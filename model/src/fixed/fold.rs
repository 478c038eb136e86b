//! Ranks folded to a power of two of them, and recursive halving over those.
//!
//! The first ranks form pairs, of which one rank takes part for both. Which one, and whether the other gives all that
//! it has or shares the work, is what the libraries differ in.

use crate::coll::plan::{Place, Plan, Span};

/// How a pair becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    /// The even one gives its vector to the odd one.
    ToOdd,
    /// The odd one gives its vector to the even one.
    ToEven,
    /// Each reduces a half; then the even one gets the other half.
    Shared,
}

/// Ranks that were folded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pair: Pair,
    /// Ranks that take part, a power of two.
    pub(super) parts: u32,
    /// Ranks that do not.
    pub(super) rest: u32,
}

/// The vector that a rank works on, a second one for what comes, and how both are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// What the rank has.
    pub(super) value: Span,
    /// Where messages arrive.
    pub(super) coming: Span,
    /// Bytes of an element.
    pub(super) width: usize,
}

impl Work {
    fn count(self) -> usize {
        self.value.len / self.width
    }

    fn bytes(self, (at, count): (usize, usize)) -> (usize, usize) {
        (at * self.width, count * self.width)
    }

    /// Adds what has come.
    pub(super) fn merge<P: Plan>(self, plan: &mut P, (at, len): (usize, usize)) {
        plan.reduce(self.coming.part(at, len), self.value.part(at, len));
    }

    /// Gives a window to a partner, and adds another one of its.
    pub(super) fn exchange<P: Plan>(
        self,
        plan: &mut P,
        peer: u32,
        give: (usize, usize),
        keep: (usize, usize),
    ) -> Result<(), P::Error> {
        swap(plan, peer, self.value.part(give.0, give.1), self.coming.part(keep.0, keep.1))?;
        self.merge(plan, keep);
        Ok(())
    }
}

/// Sends to a rank and receives from it. Nothing is sent of no bytes.
pub(super) fn swap<P: Plan>(
    plan: &mut P,
    peer: u32,
    out: Span,
    into: Span,
) -> Result<(), P::Error> {
    if into.len > 0 {
        plan.recv(peer, into)?;
    }
    if out.len > 0 {
        plan.send(peer, out)?;
    }
    plan.wait()
}

const fn half((at, count): (usize, usize), upper: bool) -> (usize, usize) {
    let lower = count / 2;
    if upper { (at + lower, count - lower) } else { (at, lower) }
}

impl Fold {
    pub(super) const fn new(size: u32, pair: Pair) -> Self {
        let parts = 1 << size.ilog2();
        Self { pair, parts, rest: size - parts }
    }

    /// The participant that a rank is, if it is one.
    pub(super) const fn part(self, rank: u32) -> Option<u32> {
        let stays = if matches!(self.pair, Pair::ToOdd) { 1 } else { 0 };
        if rank >= 2 * self.rest {
            Some(rank - self.rest)
        } else if rank % 2 == stays {
            Some(rank / 2)
        } else {
            None
        }
    }

    /// The rank of a participant.
    pub(super) const fn rank(self, part: u32) -> u32 {
        let stays = if matches!(self.pair, Pair::ToOdd) { 1 } else { 0 };
        if part < self.rest { 2 * part + stays } else { part + self.rest }
    }

    /// Makes pairs one. Which participant this rank is then.
    pub(super) fn fold<P: Plan>(
        self,
        plan: &mut P,
        place: Place,
        work: Work,
    ) -> Result<Option<u32>, P::Error> {
        let part = self.part(place.rank);
        if place.rank >= 2 * self.rest {
            return Ok(part);
        }
        let peer = place.rank ^ 1;
        let all = (0, work.value.len);
        if self.pair == Pair::Shared {
            let odd = place.rank % 2 == 1;
            let window = |upper| work.bytes(half((0, work.count()), upper));
            work.exchange(plan, peer, window(!odd), window(odd))?;
            let (at, len) = window(true);
            let upper = work.value.part(at, len);
            let none = Span::EMPTY;
            let (out, into) = if odd { (upper, none) } else { (none, upper) };
            swap(plan, peer, out, into)?;
        } else if part.is_some() {
            work.exchange(plan, peer, (0, 0), all)?;
        } else {
            swap(plan, peer, work.value, Span::EMPTY)?;
        }
        Ok(part)
    }

    /// Passes the result to those that took no part.
    pub(super) fn unfold<P: Plan>(
        self,
        plan: &mut P,
        place: Place,
        result: Span,
    ) -> Result<(), P::Error> {
        if place.rank >= 2 * self.rest {
            return Ok(());
        }
        match self.part(place.rank) {
            Some(_) => swap(plan, place.rank ^ 1, result, Span::EMPTY),
            None => swap(plan, place.rank ^ 1, Span::EMPTY, result),
        }
    }

    /// Rounds of recursive halving.
    const fn rounds(self) -> u32 {
        self.parts.trailing_zeros()
    }

    /// The bytes that a participant keeps after some rounds in which partners differ in the lowest bits first.
    pub(super) fn window(self, part: u32, rounds: u32, work: Work) -> (usize, usize) {
        let mut window = (0, work.count());
        for round in 0..rounds {
            window = half(window, part >> round & 1 == 1);
        }
        work.bytes(window)
    }

    /// In round k, participants that differ in bit k split what both have.
    pub(super) fn halve<P: Plan>(
        self,
        plan: &mut P,
        part: u32,
        work: Work,
    ) -> Result<(), P::Error> {
        for round in 0..self.rounds() {
            let peer = part ^ 1 << round;
            let (give, keep) =
                (self.window(peer, round + 1, work), self.window(part, round + 1, work));
            work.exchange(plan, self.rank(peer), give, keep)?;
        }
        Ok(())
    }

    /// The way back: all participants get all windows.
    pub(super) fn collect<P: Plan>(
        self,
        plan: &mut P,
        part: u32,
        work: Work,
    ) -> Result<(), P::Error> {
        for round in (0..self.rounds()).rev() {
            let peer = part ^ 1 << round;
            let span = |of: u32| {
                let (at, len) = self.window(of, round + 1, work);
                work.value.part(at, len)
            };
            swap(plan, self.rank(peer), span(part), span(peer))?;
        }
        Ok(())
    }

    /// The same to one rank only: of two partners, the one on the side of the root gets the window of the other. A root
    /// that is no participant stands in for the first one.
    pub(super) fn gather<P: Plan>(
        self,
        plan: &mut P,
        place: Place,
        root: u32,
        work: Work,
    ) -> Result<(), P::Error> {
        let (target, absent) = match self.part(root) {
            Some(part) => (part, false),
            None => (0, true),
        };
        let rank = |part: u32| if absent && part == 0 { root } else { self.rank(part) };
        let first = self.window(0, self.rounds(), work);
        let first = work.value.part(first.0, first.1);
        if absent && place.rank == self.rank(0) {
            return swap(plan, root, first, Span::EMPTY);
        }
        let part = if place.rank == root {
            if absent {
                swap(plan, self.rank(0), Span::EMPTY, first)?;
            }
            target
        } else {
            match self.part(place.rank) {
                Some(part) => part,
                None => return Ok(()),
            }
        };
        for round in (0..self.rounds()).rev() {
            let peer = part ^ 1 << round;
            let span = |of: u32| {
                let (at, len) = self.window(of, round + 1, work);
                work.value.part(at, len)
            };
            if (part ^ target) >> round & 1 == 1 {
                return swap(plan, rank(peer), span(part), Span::EMPTY);
            }
            swap(plan, rank(peer), Span::EMPTY, span(peer))?;
        }
        Ok(())
    }
}
