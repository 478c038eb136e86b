//! Receives that are started ahead of the messages, each into a room of its own: which room comes
//! next, and which receive is the oldest. The receives themselves are the tests'.

use std::collections::VecDeque;

use super::plan::Plan;

/// Receives in the order of their messages. `T` names one.
///
/// Rooms are used in turn, and less receives are open than there are rooms when one is started; so the
/// receive before into its room has ended, and was taken out by [`oldest`](Self::oldest).
pub(crate) struct Ahead<T> {
    rooms: usize,
    /// Messages whose receive has not been started.
    left: u64,
    /// The room of the next one that is started, and of the next one that is taken out.
    front: usize,
    back: usize,
    open: VecDeque<T>,
}

impl<T> Ahead<T> {
    pub(crate) fn new(plan: &Plan) -> Self {
        let rooms = plan.rooms();
        let open = VecDeque::with_capacity(rooms);
        Self { rooms, left: plan.messages(), front: 0, back: 0, open }
    }

    /// The room of a receive that may be started now, which [`started`](Self::started) must follow.
    #[inline]
    pub(crate) fn free(&self) -> Option<usize> {
        (self.open.len() < self.rooms && self.left > 0).then_some(self.front)
    }

    /// Notes the receive into the room that [`free`](Self::free) told.
    #[inline]
    pub(crate) fn started(&mut self, receive: T) {
        self.open.push_back(receive);
        self.left -= 1;
        self.front = self.behind(self.front);
    }

    /// Takes out the oldest receive and its room.
    ///
    /// # Panics
    /// When none is open: a plan counts its messages.
    #[inline]
    pub(crate) fn oldest(&mut self) -> (T, usize) {
        let room = self.back;
        self.back = self.behind(room);
        (self.open.pop_front().expect("the plan counts the messages"), room)
    }

    #[inline]
    const fn behind(&self, room: usize) -> usize {
        if room + 1 == self.rooms { 0 } else { room + 1 }
    }
}
