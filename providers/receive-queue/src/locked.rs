//! The locked form: one queue with two halves behind one word, which producers lock.
//!
//! It is what SCMP is compared with, and as in M. Rüfenacht's thesis the word holds all that a
//! producer must know, so that the operation that takes the lock also says where to put:
//!
//! ```text
//!   R   63 half | 62 .. 32 generation | 31 closed | 30 .. 16 holder: seat + 1, 0 is free | 15 .. 0 offset
//!
//!   free{tag, o} ──producer, compare-and-swap──► held{tag, o, seat}
//!        ▲  │                                        │        │
//!        │  │      ┌── its slots are put, ordered ◄──┘        │ the holder is dead
//!        │  │      ▼                                          ▼
//!        │  │   free{tag, o + slots}                  free{next tag, 0}, and o slots are there
//!        │  └──consumer: the other half is drained, o > 0 ──► free{next tag, 0}
//! ```
//!
//! 1. A producer swaps what it believes the word to be, free, for the same with its seat. If it was
//!    wrong, the answer says what the word is, and it tries again at its next progress: it spins
//!    over the network. Every message costs three operations, as in SCMP, but nobody else's may
//!    overlap with them.
//! 2. It locks only where its slots fit, so that a held lock always ends with a greater offset.
//!    Where they do not fit it reads the word until the generation is another one.
//! 3. It releases by another compare-and-swap, not by a put or an addition: after the consumer has
//!    closed the queue, the release must not open it again.
//! 4. Who has just released knows the word, and would win against all that have to learn it first.
//!    After some turns in a row it waits for the answer to its release, and then tries with a word
//!    that is old: so it learns the new one no sooner than whoever spins. And whoever finds the lock
//!    free where it was not expected, believes it or draws another lot and asks once more: else
//!    senders in step with each other would come in the same order for ever. Who has had
//!    all its turns draws none a few times.
//! 5. All slots below the offset are whole messages. Nothing is to be settled: counters S and F stay
//!    zero, and status words are not read.
//! 6. *The dead*: the seat in the word says who holds it. When the transport below has told that
//!    nothing of that peer is under way any more, the consumer flips over the lock. What the dead one
//!    has put lies beyond the offset, where no one reads before another producer has put over it. So
//!    nothing is lost that was released, unlike in SCMP.
//!
//! The thesis locks by fetch-or, which takes the lock in one operation without a guess, and knows no
//! holder: a producer that dies with that lock stops the queue for good.

use bowline_base::scmp::published::{self, R_BYTE};
use bowline_base::scmp::seq::POISON;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{AtomicOp, PeerFailure};

use super::address::checksum;
use super::damage::closed_by;
use super::fifo::{Stamp, mark};
use super::lane::QueueLane;
use super::link::{Seat, Step};
use super::post::Next;
use super::remote::Outcome;
use super::token::What;

/// Most seats: a holder has 15 bits, and one number says that there is none.
pub(super) const MAX_PEERS: u32 = 0x7fff;

/// Turns in a row after which others are let in front.
const TURNS: u32 = 8;

/// How often who has had all its turns leaves a lock that it finds free to others.
const SIT_OUT: u32 = 8;

/// The word of a new queue.
pub(super) const NEW: u64 = 1 << 32;

const HOLDER_AT: u32 = 16;
const HOLDER: u64 = 0x7fff << HOLDER_AT;

/// `free` held by `seat`, which is less than [`MAX_PEERS`].
const fn held(free: u64, seat: u16) -> u64 {
    free | (seat as u64 + 1) << HOLDER_AT
}

/// The seat that holds the lock.
const fn holder(word: u64) -> Option<usize> {
    (((word & HOLDER) >> HOLDER_AT) as usize).checked_sub(1)
}

/// The word as it is when nobody holds it.
pub(super) const fn free(word: u64) -> u64 {
    word & !HOLDER
}

const fn is_closed(word: u64) -> bool {
    word as u32 & POISON != 0
}

/// Slots that are there; more than there can be, when the queue is closed.
pub(super) const fn end(word: u64) -> u32 {
    if is_closed(word) { u32::MAX } else { word as u32 & 0xffff }
}

/// Whether the half has messages and nobody holds its lock.
pub(super) const fn may_flip(word: u64) -> bool {
    end(word) != 0 && holder(word).is_none()
}

impl QueueLane {
    /// Tries to take the peer's lock, which was `known` when it was last seen free.
    pub(super) fn take_lock(&mut self, index: u32, known: u64, slots: u32) -> Next {
        let link = &mut self.links[index as usize];
        if u64::from(end(known)) + u64::from(slots) > u64::from(link.shape.slots) {
            self.stats.refused += 1;
            link.polite = true;
            link.step = Step::Look { tag: (known >> 32) as u32 };
            return Next::Go;
        }
        if link.settling && link.turns >= TURNS {
            // The answer to the release goes on with this.
            return Next::Wait;
        }
        let op = AtomicOp::Cswap { compare: known, new: held(known, link.seat) };
        match self.fetch(index, R_BYTE, op, What::Step) {
            Outcome::Done(Some(old)) => self.lock_answered(index, slots, old),
            Outcome::Done(None) => {
                self.links[index as usize].step = Step::Reserving { slots };
                Next::Wait
            }
            Outcome::Next(next) => next,
        }
    }

    /// The word was `old` when the link tried to take the lock for `slots` slots.
    pub(super) fn lock_answered(&mut self, index: u32, slots: u32, old: u64) -> Next {
        let link = &mut self.links[index as usize];
        self.stats.reservations += 1;
        if let Some(how) = closed_by(old) {
            return Next::Break(how);
        }
        let ticket = published::ticket(old, slots, link.shape.slots);
        let Some(ticket) = ticket.ok().filter(|_| link.known == Some(old)) else {
            self.stats.contended += 1;
            link.turns = 0;
            if holder(old).is_some() {
                link.known = Some(free(old));
            } else if link.sits_out > 0 {
                link.sits_out -= 1;
            } else {
                // Who learns of a free lock at the same time as others draws lots, else the nearest
                // one would win every time. Their seats differ, and a run can be repeated.
                let draw = u64::from(link.seat) << 48 ^ self.stats.reservations;
                if checksum(&draw.to_le_bytes()) & 1 == 0 {
                    link.known = Some(free(old));
                }
            }
            link.step = Step::Ready;
            return Next::Later;
        };
        link.begun = link.begun.wrapping_add(1);
        let mark = mark(link.cookie, link.begun as u16);
        link.fifo.stamp(slots, Stamp { seat: link.seat, mark });
        link.step = Step::Put { ticket, done: 0 };
        Next::Go
    }

    /// Releases the lock behind `slots` more slots.
    pub(super) fn release(&mut self, index: u32, known: u64, slots: u32) -> Next {
        let link = &self.links[index as usize];
        let (held, new) = (held(known, link.seat), known + u64::from(slots));
        let op = AtomicOp::Cswap { compare: held, new };
        match self.fetch(index, R_BYTE, op, What::Settle) {
            Outcome::Done(answer) => {
                self.stats.settled += 1;
                let link = &mut self.links[index as usize];
                link.step = Step::Ready;
                link.settling = true;
                link.turns += 1;
                if link.turns == TURNS {
                    link.sits_out = SIT_OUT;
                }
                if link.turns < TURNS {
                    link.known = Some(new);
                }
                link.held = held;
                match answer {
                    Some(old) => self.released(index, old),
                    None => Next::Go,
                }
            }
            Outcome::Next(next) => next,
        }
    }

    /// The word was `old` when the link released it.
    pub(super) fn released(&mut self, index: u32, old: u64) -> Next {
        if old != self.links[index as usize].held {
            // Its consumer has closed the queue, or somebody has written what cannot be.
            return Next::Break(closed_by(old).unwrap_or(PeerFailure::Damaged));
        }
        self.end_reservation(index);
        Next::Go
    }

    /// Takes the half from the producers, if it has messages and nobody alive holds the lock.
    pub(super) fn flip_locked(&mut self) {
        let Some(consumer) = self.consumer.as_ref().filter(|consumer| consumer.is_drained()) else {
            return;
        };
        if self.flip_is_under_way() || self.closed.is_some() {
            return;
        }
        let new = consumer.flip_word();
        let view = self.inner.mem_view(self.memory);
        let Some(word) = view.and_then(|view| view.word(R_BYTE)) else { return };
        // Acquire: pairs with the exchanges of the holder and of those before it, who had introduced
        // themselves; the exchange below finds the same word.
        let old = word.load(Ordering::Acquire);
        self.flip_expected = old;
        self.read_introductions();
        let view = self.inner.mem_view(self.memory);
        let Some(word) = view.and_then(|view| view.word(R_BYTE)) else { return };
        if let Some(seat) = holder(old) {
            match self.seats.get(seat) {
                Some(seat) if seat.link != Seat::NOBODY && self.links[seat.link as usize].gone => {
                    self.stats.settlements += 1;
                }
                // Alive; or not believed any more, and it may release the lock all the same.
                Some(_) => return,
                None => {
                    // Nobody sits there, so nobody will release it: the queue is damaged.
                    self.flip_expected = old | u64::from(POISON);
                    self.flip_answer = Some(self.flip_expected);
                    return;
                }
            }
        } else if end(old) == 0 {
            return;
        }
        if self.own_link.is_none() {
            // AcqRel. Acquire: pairs with the release of the last producer's exchange, and all its
            // slots are there. Release: pairs with the next producers' exchanges; the headers of
            // the other half were zeroed before they put.
            if word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.flip_answer = Some(old);
            }
            return;
        }
        match self.swap_own(AtomicOp::Cswap { compare: old, new }) {
            Ok(answer) => {
                self.flipping = answer.is_none();
                self.flip_answer = answer;
            }
            Err(error) => self.flip_refused(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_keeps_half_generation_offset_and_holder_apart() {
        for offset in [0, 1, 0x8000] {
            for seat in [0, 1, MAX_PEERS as u16 - 1] {
                let word = 0xffff_ffff << 32 | offset;
                let taken = held(word, seat);
                assert_eq!(holder(taken), Some(usize::from(seat)));
                assert_eq!((holder(word), free(taken)), (None, word));
                assert_eq!((end(taken), end(word)), (offset as u32, offset as u32));
                assert!(!is_closed(taken));
                assert_eq!(end(taken | u64::from(POISON)), u32::MAX);
            }
        }
    }
}
