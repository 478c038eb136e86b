//! The hot loop: rings, then the shared queue.
//!
//! When nothing rare happens, a call costs one flag of our own, a load of this rank's attention
//! word, which hardly ever changes, one load per ring in use, and, when these are empty, the death
//! generation of the node and the queue's next slot. It takes no lock, calls no system and
//! allocates nothing.
//!
//! **Fairness.** A ring that used the budget up goes behind the others, and when all rings
//! together did, the queue comes first in the next call.

use bowline_base::doorbell::space;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::Sink;

use crate::accept::Finding;
use crate::iface::ShmIface;
use crate::ring_table::Taken;

/// While the rings have messages, the queue is polled in one call of so many: hot peers do
/// not pay for silent ones, who wait for some hundred nanoseconds.
const QUEUE_EVERY: u32 = 8;

/// An empty queue is polled in one call of so many nevertheless: it counts its idle polls to
/// know when to flip.
const IDLE_EVERY: u32 = 32;

/// Polls of an empty queue in a row after which it is asked whether something can never come: with
/// [`IDLE_EVERY`], 32768 calls of `progress`, under a millisecond of one that spins. `SECURITY.md`
/// names the number.
const SILENT_POLLS: u32 = 1024;

impl ShmIface {
    /// The short way through a call: nothing is here, or the only message. A rank that waits
    /// spends its time here, and half of one such poll is what it notices a message late.
    ///
    /// Work before the load of the ring overlaps with the cache miss of its line, and work after it delays the
    /// message. So the ring is loaded once, in this function, without a question before.
    ///
    /// Everything else is left to [`ShmIface::poll`]: what is rare, the calls that poll
    /// everything, and several rings of which one has had messages in two calls in a row.
    #[inline]
    pub(crate) fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.polls = self.polls.wrapping_add(1);
        // Acquire pairs with the Release in `Area::bump_attention`.
        let rare = self.todo
            || self.attention.word().load(Ordering::Acquire) != self.seen_attention
            || self.area.job().death_generation() != self.seen_deaths;
        if rare || self.polls.is_multiple_of(IDLE_EVERY) || budget == 0 {
            return self.poll(sink, budget);
        }
        let [ring] = &mut self.receiver.active[..] else {
            return self.progress_rings(sink, budget);
        };
        match ring.take(sink) {
            Taken::Message(_) => {
                ring.taken = ring.taken.wrapping_add(1);
                if std::mem::replace(&mut ring.filled, true) || budget == 1 {
                    return self.take_on(0, sink, budget);
                }
                self.check_waiters();
                1
            }
            Taken::Nothing => {
                ring.filled = false;
                if self.receiver.queue_ready() { self.poll(sink, budget) } else { 0 }
            }
            Taken::Last => {
                ring.note_last();
                self.leave_rings(0, 1, sink, budget)
            }
            end => {
                self.ring_ended(0, matches!(end, Taken::End));
                0
            }
        }
    }

    /// Goes on behind a first message of the ring in place `at`, which had one in the last call too.
    #[inline(never)]
    fn take_on(&mut self, at: usize, sink: &mut dyn Sink, budget: u32) -> u32 {
        let (more, outcome) = self.receiver.active[at].take_more(sink, budget - 1);
        let given = 1 + more;
        match outcome {
            Taken::Message(_) => {}
            Taken::Last => return self.leave_rings(at, given, sink, budget),
            end => self.ring_ended(at, matches!(end, Taken::End)),
        }
        if given == budget || self.polls.is_multiple_of(QUEUE_EVERY) {
            return given + self.poll_rest(sink, budget - given, true);
        }
        self.check_waiters();
        given
    }

    /// Ends a call with the last message that the sink wants of the ring in place `at`. The other rings come before
    /// that one in the next call.
    #[inline(never)]
    fn leave_rings(&mut self, at: usize, given: u32, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.receiver.begin_behind(at);
        if given == budget || self.polls.is_multiple_of(QUEUE_EVERY) {
            return given + self.poll_rest(sink, budget - given, true);
        }
        self.check_waiters();
        given
    }

    /// `progress` where there is not just one ring.
    #[inline(never)]
    fn progress_rings(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        for (at, ring) in self.receiver.active.iter_mut().enumerate() {
            if ring.filled && ring.consumer.waits() {
                return self.poll(sink, budget);
            }
            match ring.take(sink) {
                Taken::Message(_) => {
                    ring.taken = ring.taken.wrapping_add(1);
                    if std::mem::replace(&mut ring.filled, true) || budget == 1 {
                        return self.take_on(at, sink, budget);
                    }
                    self.check_waiters();
                    return 1;
                }
                Taken::Nothing => ring.filled = false,
                Taken::Last => {
                    ring.note_last();
                    return self.leave_rings(at, 1, sink, budget);
                }
                end => {
                    self.ring_ended(at, matches!(end, Taken::End));
                    return 0;
                }
            }
        }
        if self.receiver.queue_ready() { self.poll(sink, budget) } else { 0 }
    }

    /// A ring was read to its end, or holds what cannot be.
    #[cold]
    #[inline(never)]
    fn ring_ended(&mut self, at: usize, orderly: bool) {
        self.receiver.ring_ended(at, orderly);
        self.found();
    }

    #[inline(never)]
    pub(crate) fn poll(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        // Acquire pairs with the Release in `Area::bump_attention`.
        if self.todo || self.attention.word().load(Ordering::Acquire) != self.seen_attention {
            return self.poll_slow(sink, budget);
        }
        let given = self.receiver.poll_rings(sink, budget);
        if given == 0 || self.polls.is_multiple_of(QUEUE_EVERY) || given == budget {
            return given + self.poll_rest(sink, budget - given, given > 0);
        }
        if self.receiver.finding.is_some() {
            self.found();
        }
        self.check_waiters();
        given
    }

    /// The rings were empty, or have had their share: the queue, and the dead.
    #[inline]
    fn poll_rest(&mut self, sink: &mut dyn Sink, budget: u32, busy: bool) -> u32 {
        if self.area.job().death_generation() != self.seen_deaths {
            self.due();
        }
        if busy && budget == 0 {
            // The rings used up the whole budget: next time the queue comes first.
            self.queue_first = true;
            self.due();
        }
        let mut given = 0;
        if self.receiver.queue_ready() || self.polls.is_multiple_of(IDLE_EVERY) {
            given = self.poll_queue(sink, budget);
        }
        if self.receiver.finding.is_some() {
            self.found();
        }
        self.check_waiters();
        given
    }

    /// The same with everything rare around it.
    #[cold]
    #[inline(never)]
    fn poll_slow(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = self.before_polling(sink, budget);
        let from_rings = self.receiver.poll_rings(sink, budget - given);
        given += from_rings;
        if self.receiver.finding.is_some() {
            self.found();
        }
        given += self.poll_rest(sink, budget - given, from_rings > 0);
        given += self.after_polling(sink, budget - given);
        given
    }

    /// Rings those who sleep until there is space here.
    #[inline]
    fn check_waiters(&mut self) {
        if space::is_asked(self.space_wanted.word()) {
            self.ring_waiters();
        }
    }

    #[inline(never)]
    pub(crate) fn poll_queue(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.receiver.poisoned {
            return 0;
        }
        let given = self.receiver.poll_queue(sink, budget);
        if given > 0 {
            self.receiver.silent = 0;
        } else {
            self.receiver.silent += 1;
            if self.receiver.silent >= SILENT_POLLS {
                self.silence();
            }
        }
        if self.receiver.busy_senders.due() {
            self.compare_loads();
        }
        given
    }

    /// Nothing has come by the queue for a while.
    #[cold]
    #[inline(never)]
    fn silence(&mut self) {
        self.receiver.silent = 0;
        self.watch_again();
        self.check_for_damage();
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
