//! What a sender leaves that dies between its reservation and its finalise.
//!
//! The queue's memory holds no intents: each would cost a put or two per message, for a case that
//! hardly ever comes. Instead the consumer asks, when a half does not settle and an introduced
//! peer has ended.
//!
//! 1. The transport below tells of an end when nothing of that peer is under way any more. So
//!    what it left is all there.
//! 2. Every link has a *status word* in the memory of the sender: reservations begun, and those of
//!    them not known to have ended (by the answer to the add to S or F). It is stored before a
//!    reservation is posted, and after its add was answered. One add is unanswered at a time, so
//!    that those that have ended are a prefix of those begun.
//! 3. The half was flipped before, so that the reservations in question were begun before. The
//!    consumer reads the status word of every living sender with a get, in which the sender takes
//!    no part. If as many have ended as were begun, nothing of it is missing. Else it reads again
//!    until what was begun at the first reading has ended, or the sender has, too.
//! 4. What is missing then was left by the dead. A dead one had one reservation at most that was
//!    not ended: its last, whose number stands in the mark of its messages. The messages of the
//!    highest number of each dead sender are dropped; its last words may be lost although they
//!    were finalised, but never come in pieces.
//! 5. The end of a peer is told when the half that was active at the notice has been drained:
//!    its messages come before. While a flip by the device is under way nobody is told, since R and
//!    what the consumer knows of it do not belong together; and which half was active at a notice
//!    that came meanwhile is known only after it, when it is taken to be the later one.
//! 6. Where messages are sealed, reservations end with the answer to a flush, or to a later atomic; a
//!    dead sender may have left several; and rule 4 is replaced by the seal, which tells what is
//!    whole. See `sealed`.

use bowline_base::scmp::Fault;
use bowline_base::scmp::published::{Consumer, R_BYTE};
use bowline_base::sync::atomic::Ordering;
use bowline_base::words::ViewWords;

use super::fifo::parts;
use super::lane::QueueLane;
use super::link::{Seat, Status};
use super::options::QueueForm;

/// One settlement, and who waits for one.
#[derive(Debug, Default)]
pub(super) struct Settlement {
    /// Links whose peers have ended, with the generation under which senders reserved then; `None`
    /// while that is not known.
    pub(super) ending: Vec<(u32, Option<u32>)>,
    /// The generation of the settlement under way.
    pub(super) running: Option<u32>,
    /// The next seat to be asked for.
    seat: usize,
    /// What that seat's sender told first: what it had begun then has to end.
    first: Option<Status>,
    /// The link whose answer is waited for, and in which settlement it was asked: an answer to an
    /// earlier one was read before the flip of this one, and proves nothing.
    asking: Option<(u32, u32)>,
}

impl QueueLane {
    /// The end of `link` is to be told when its last messages have been handed out.
    pub(super) fn wait_for_the_last(&mut self, link: u32) {
        let sealed = self.inbox.as_ref().map_or(0, super::sealed::Inbox::generation);
        let generation = self.consumer.as_ref().map_or(sealed, |consumer| self.with(consumer).0);
        let known = (!self.flip_is_under_way()).then_some(generation);
        self.settlement.ending.push((link, known));
    }

    /// Whether R was or is being swapped, and the consumer does not know of it yet.
    pub(super) const fn flip_is_under_way(&self) -> bool {
        self.flipping || self.flip_answer.is_some()
    }

    /// The consumer's generation, whether its last half is drained, and whether something was
    /// reserved in the active one.
    fn with(&self, consumer: &Consumer<()>) -> (u32, bool, bool) {
        let view = self.inner.mem_view(self.memory);
        let reserved = view.and_then(|view| view.word(R_BYTE));
        // Relaxed: whoever ended reserved before; the notice of its end ordered that.
        let reserved = reserved.is_some_and(|word| word.load(Ordering::Relaxed) as u32 != 0);
        (consumer.producers_tag(), consumer.is_drained(), reserved)
    }

    /// Lets the queue go on past what the dead left, and tells of ends whose time has come.
    pub(super) fn settle_the_dead(&mut self) {
        if self.closed.is_some() {
            self.settlement.running = None;
            for (link, _) in std::mem::take(&mut self.settlement.ending) {
                self.free_rings_of(link);
                self.tell_failure(link);
            }
            return;
        }
        if self.has_seals() {
            return self.settle_sealed();
        }
        if self.settlement.ending.is_empty() {
            return;
        }
        if self.shape.form == QueueForm::Ring {
            return self.tell_ends_of_rings();
        }
        let Some(consumer) = self.consumer.take() else { return };
        let (generation, drained, reserved) = self.with(&consumer);
        let view = self.inner.mem_view(self.memory);
        let words = view.and_then(|view| ViewWords::new(view.slice(0, self.shape.queue_bytes())?));
        let words = words.expect("the lane's memory is kept until it is dropped");
        let consumer = consumer.rehome(words);
        let stalled = consumer.stalled();
        self.consumer = Some(consumer.rehome(()));
        if stalled {
            return self.settle(generation);
        }
        self.settlement.running = None;
        if !drained || self.flip_is_under_way() {
            return;
        }
        let mut at = 0;
        while let Some((link, noticed)) = self.settlement.ending.get_mut(at) {
            let (link, noticed) = (*link, *noticed.get_or_insert(generation));
            let drained = noticed != generation || !reserved;
            if drained && self.ring_is_over(link) {
                self.free_rings_of(link);
                self.settlement.ending.swap_remove(at);
                self.tell_failure(link);
            } else {
                at += 1;
            }
        }
    }

    /// Asks the living, one after the other, and then lets the half go on.
    pub(super) fn settle(&mut self, generation: u32) {
        if self.settlement.running != Some(generation) {
            self.read_introductions();
            self.settlement.running = Some(generation);
            self.settlement.seat = 0;
            self.settlement.first = None;
        }
        while self.settlement.asking.is_none() {
            let Some(seat) = self.seats.get(self.settlement.seat).copied() else {
                return self.resolve();
            };
            let nobody = seat.link == Seat::NOBODY;
            if nobody || self.links[seat.link as usize].gone {
                self.next_seat();
                continue;
            }
            match self.ask_status(seat.link, seat.status) {
                Ok(Some(word)) => {
                    if !self.heard(word) {
                        return;
                    }
                }
                Ok(None) => self.settlement.asking = Some((seat.link, generation)),
                // No room, or it has ended and will be told of.
                Err(()) => return,
            }
        }
    }

    fn next_seat(&mut self) {
        self.settlement.seat += 1;
        self.settlement.first = None;
    }

    /// A status word of the seat in question. Whether that seat is done with.
    fn heard(&mut self, word: u64) -> bool {
        let Some(status) = Status::read(word) else { return false };
        let done = status.ended_since(*self.settlement.first.get_or_insert(status));
        if done {
            self.next_seat();
        }
        done
    }

    /// The get of a status word was answered.
    pub(super) fn status_answered(&mut self, link: u32, good: bool) {
        let Some((asked, generation)) = self.settlement.asking.filter(|asked| asked.0 == link)
        else {
            return;
        };
        self.settlement.asking = None;
        if self.settlement.running != Some(generation) {
            return;
        }
        let word = self.links.get_mut(asked as usize).and_then(|link| link.status_word.as_mut());
        if let Some(word) = word.filter(|_| good) {
            let mut bytes = [0; 8];
            word.view().copy_out(&mut bytes);
            self.heard(u64::from_ne_bytes(bytes));
        }
    }

    /// All reservations of the living in the half have ended.
    fn resolve(&mut self) {
        if self.has_seals() {
            return self.resolve_sealed();
        }
        let Some(consumer) = self.consumer.take() else { return };
        let view = self.inner.mem_view(self.memory);
        let words = view.and_then(|view| ViewWords::new(view.slice(0, self.shape.queue_bytes())?));
        let words = words.expect("the lane's memory is kept until it is dropped");
        let mut consumer = consumer.rehome(words);
        let dead = |seat: &Seat| seat.link != Seat::NOBODY && self.links[seat.link as usize].gone;
        let count = self.seats.iter().filter(|seat| dead(seat)).count() as u64;
        // A reservation is at most half of a half, or one message, which is no longer.
        let accounted = count * u64::from(self.shape.slots);
        let mut last: Vec<(u16, u16)> = Vec::new();
        // Rule 5 of `promote`.
        let finished: Vec<bool> = (0..self.seats.len()).map(|at| self.has_used_ring(at)).collect();
        let result = consumer.resolve(accounted, |source, mark| {
            let Some(seat) = self.seats.get(usize::from(source)).filter(|seat| dead(seat)) else {
                return false;
            };
            if finished.get(usize::from(source)) == Some(&true) {
                return false;
            }
            let (cookie, reservation) = parts(mark);
            if cookie != seat.cookie {
                // Its second word has not come: it is of the last reservation.
                return true;
            }
            match last.iter().find(|(known, _)| *known == source) {
                Some((_, highest)) => *highest == reservation,
                None => {
                    last.push((source, reservation));
                    true
                }
            }
        });
        self.consumer = Some(consumer.rehome(()));
        self.settlement.running = None;
        self.stats.settlements += 1;
        if let Err(Fault::Poisoned(damage)) = result {
            self.poison(damage);
        }
    }
}
