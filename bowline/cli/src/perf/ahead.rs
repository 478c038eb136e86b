//! Receives that are started ahead of the messages, each into a slot of its own: which slot comes
//! next, and which receive is the oldest. The receives themselves are the tests'.

use std::collections::VecDeque;

use super::plan::Plan;

/// Receives in the order of their messages. `T` names one.
///
/// Slots are used in order, and fewer receives are open than there are slots when one is started; so the
/// receive before into its slot has ended, and was taken out by [`oldest`](Self::oldest).
pub(crate) struct Ahead<T> {
    slots: usize,
    /// Messages whose receive has not been started.
    left: u64,
    /// The slot of the next one that is started, and of the next one that is taken out.
    front: usize,
    back: usize,
    open: VecDeque<T>,
}

impl<T> Ahead<T> {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::of(plan.slots(), plan.messages())
    }

    /// Into so many slots, of so many messages.
    pub(crate) fn of(slots: usize, messages: u64) -> Self {
        let open = VecDeque::with_capacity(slots);
        Self { slots, left: messages, front: 0, back: 0, open }
    }

    /// The slot of a receive that may be started now, which [`started`](Self::started) must follow.
    #[inline]
    pub(crate) fn free(&self) -> Option<usize> {
        (self.open.len() < self.slots && self.left > 0).then_some(self.front)
    }

    /// Notes the receive into the slot that [`free`](Self::free) gave.
    #[inline]
    pub(crate) fn started(&mut self, receive: T) {
        self.open.push_back(receive);
        self.left -= 1;
        self.front = self.behind(self.front);
    }

    /// Takes out the oldest receive and its slot.
    ///
    /// # Panics
    /// When none is open: a plan counts its messages.
    #[inline]
    pub(crate) fn oldest(&mut self) -> (T, usize) {
        let slot = self.back;
        self.back = self.behind(slot);
        (self.open.pop_front().expect("the plan counts the messages"), slot)
    }

    #[inline]
    const fn behind(&self, slot: usize) -> usize {
        if slot + 1 == self.slots { 0 } else { slot + 1 }
    }
}
