//! A value that grows in rank order while messages come in.
//!
//! An operation writes its result over the right operand. So when what comes is the right operand,
//! the result is where the message arrived, and the old place is free for the next message; the
//! value wanders between two places instead of being copied back. At first it may stand in the
//! user's input, which is never written.

use super::plan::{Plan, Space, Span};

/// Which side of the value the partner's contribution belongs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandSide {
    /// It comes from lower ranks.
    Left,
    /// It comes from higher ranks.
    Right,
}

/// The value and its two places. All three spans have one length; windows of it are named by
/// offset and length.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator {
    value: Span,
    places: [Span; 2],
}

impl Accumulator {
    /// A value that stands at `value`, with two places to go to; `value` may be the first one.
    #[inline]
    pub fn new(value: Span, first: Span, second: Span) -> Self {
        debug_assert!(value.len == first.len && first.len == second.len);
        Self { value, places: [first, second] }
    }

    /// Where the value stands.
    #[inline]
    pub const fn value(&self) -> Span {
        self.value
    }

    /// Where the next contribution can be received.
    #[inline]
    pub fn free(&self, side: OperandSide) -> Span {
        let [first, second] = self.places;
        match self.value {
            value if value == first => second,
            value if value == second => first,
            // In the input: what comes from the right stays where it arrives; what comes from the
            // left is merged into a copy, which goes to the first place.
            _ if side == OperandSide::Right => first,
            _ => second,
        }
    }

    /// Merges the window that has arrived at `free(side)`.
    #[inline]
    pub fn merge<P: Plan>(&mut self, plan: &mut P, side: OperandSide, at: usize, len: usize) {
        let arrived = self.free(side);
        match side {
            OperandSide::Right => {
                plan.reduce(self.value.part(at, len), arrived.part(at, len));
                self.value = arrived;
            }
            OperandSide::Left => {
                if self.value.space == Space::Input {
                    plan.copy(self.value.part(at, len), self.places[0].part(at, len));
                    self.value = self.places[0];
                }
                plan.reduce(arrived.part(at, len), self.value.part(at, len));
            }
        }
    }

    /// Receives a whole contribution from a rank and merges it.
    #[inline]
    pub fn absorb<P: Plan>(
        &mut self,
        plan: &mut P,
        from: u32,
        side: OperandSide,
    ) -> Result<(), P::Error> {
        plan.recv(from, self.free(side))?;
        plan.wait()?;
        self.merge(plan, side, 0, self.value.len);
        Ok(())
    }

    /// Swaps with a partner: gives it one window and merges its contribution to another, which
    /// may be the same.
    #[inline]
    pub fn exchange<P: Plan>(
        &mut self,
        plan: &mut P,
        peer: u32,
        side: OperandSide,
        give: (usize, usize),
        keep: (usize, usize),
    ) -> Result<(), P::Error> {
        if keep.1 > 0 {
            plan.recv(peer, self.free(side).part(keep.0, keep.1))?;
        }
        if give.1 > 0 {
            plan.send(peer, self.value.part(give.0, give.1))?;
        }
        plan.wait()?;
        self.merge(plan, side, keep.0, keep.1);
        Ok(())
    }

    /// Brings a window of the value to `place`, where it may be already.
    #[inline]
    pub fn settle<P: Plan>(&self, plan: &mut P, place: Span, at: usize, len: usize) {
        plan.copy(self.value.part(at, len), place.part(at, len));
    }
}
