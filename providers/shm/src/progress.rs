//! The hot loop: rings, then the shared queue.
//!
//! When nothing rare happens, one call costs two loads of words that hardly ever change (the
//! death generation of the node and this rank's attention word), one flag of our own, one load
//! per ring in use, and one of the queue's next slot. It takes no lock, calls no system and
//! allocates nothing.

use bowline_base::doorbell::light_fence;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::Sink;

use crate::iface::ShmIface;
use crate::receive::Finding;

/// While the rings have messages, the queue is looked at in one call of so many: hot peers do
/// not pay for silent ones, who wait for some hundred nanoseconds.
const QUEUE_EVERY: u32 = 8;

/// An empty queue is polled in one call of so many all the same: it counts its idle polls to
/// know when to flip.
const IDLE_EVERY: u32 = 32;

impl ShmIface {
    #[inline]
    pub(crate) fn poll(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        self.turn = self.turn.wrapping_add(1);
        if self.rare_is_due() {
            given = self.before_polling(sink, budget);
        }
        let from_rings = self.receiver.poll_rings(sink, budget - given);
        given += from_rings;
        if given == budget {
            // The rings used up the whole budget: next time the queue comes first.
            self.queue_first = from_rings > 0;
            self.todo |= self.queue_first;
        } else if (from_rings == 0 || self.turn.is_multiple_of(QUEUE_EVERY))
            && (self.receiver.queue_ready() || self.turn.is_multiple_of(IDLE_EVERY))
        {
            given += self.poll_queue(sink, budget - given);
        }
        if self.receiver.finding.is_some() {
            self.found();
        }
        if self.todo {
            given += self.after_polling(sink, budget - given);
        }
        // Between the heads that were published above and the look at who waits for them.
        light_fence();
        // Relaxed: ordered by the fence, which pairs with the heavy one of the sleeper, in
        // `prepare_sleep`.
        if self.space_wanted.word().load(Ordering::Relaxed) != 0 {
            self.tell_waiters();
        }
        given
    }

    #[inline]
    fn rare_is_due(&self) -> bool {
        // Acquire pairs with the Release in `Area::bump_attention`.
        self.todo
            || self.attention.word().load(Ordering::Acquire) != self.seen_attention
            || self.area.job().death_generation() != self.seen_deaths
    }

    #[inline(never)]
    pub(crate) fn poll_queue(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.receiver.poisoned {
            return 0;
        }
        let given = self.receiver.poll_queue(sink, budget);
        if given == 0 && self.turn.is_multiple_of(Self::WATCH_EVERY) {
            self.watch_foreign();
        }
        if self.receiver.hot.due() {
            self.compare_heat();
        }
        given
    }

    #[cold]
    #[inline(never)]
    fn found(&mut self) {
        match self.receiver.finding.take() {
            Some(Finding::Damaged(source)) => self.source_damaged(source),
            Some(Finding::Poisoned) => self.queue_poisoned(),
            None => {}
        }
    }
}
