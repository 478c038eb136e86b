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

impl ShmIface {
    #[inline]
    pub(crate) fn poll(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        if self.rare_is_due() {
            given = self.before_polling(sink, budget);
        }
        self.turn = self.turn.wrapping_add(1);
        if self.queue_first {
            // The rings used up the whole budget last time: now it is the queue's turn.
            self.queue_first = false;
            given += self.poll_queue(sink, budget - given);
        }
        let (from_rings, finding) = self.receiver.poll_rings(sink, budget - given);
        given += from_rings;
        if let Some(finding) = finding {
            self.found(finding);
        }
        if given == budget {
            self.queue_first = from_rings > 0;
        } else if from_rings == 0 || self.turn.is_multiple_of(QUEUE_EVERY) {
            given += self.poll_queue(sink, budget - given);
        }
        if self.todo {
            given += self.after_polling(sink, budget - given);
        }
        // Between the heads that were published above and the look at who waits for them.
        light_fence();
        // Relaxed: ordered by the fence, which pairs with the heavy one of the sleeper, in
        // `prepare_sleep`.
        if self.control().space_wanted.load(Ordering::Relaxed) != 0 {
            self.tell_waiters();
        }
        given
    }

    #[inline]
    fn rare_is_due(&self) -> bool {
        // Acquire pairs with the Release in `Area::bump_attention`.
        self.todo
            || self.area.attention().word.load(Ordering::Acquire) != self.seen_attention
            || self.area.job().death_generation() != self.seen_deaths
    }

    #[inline]
    fn poll_queue(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.receiver.poisoned {
            return 0;
        }
        let (given, finding) = self.receiver.poll_queue(sink, budget);
        if let Some(finding) = finding {
            self.found(finding);
        }
        if given == 0 {
            return self.idle();
        }
        if self.receiver.hot.due() {
            self.compare_heat();
        }
        given
    }

    /// The queue was empty.
    #[inline]
    fn idle(&mut self) -> u32 {
        if self.turn.is_multiple_of(Self::WATCH_EVERY) {
            self.watch_foreign();
        }
        0
    }

    #[cold]
    fn found(&mut self, finding: Finding) {
        match finding {
            Finding::Damaged(source) => self.source_damaged(source),
            Finding::Poisoned => self.queue_poisoned(),
        }
    }
}
