//! What a reservation goes through: it is made, its slots are put and counted, and what did not fit waits
//! for another half. The steps between are in `post`.

use bowline_base::scmp::published::{self, R_BYTE};
use bowline_base::sync::LINE;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{Caps, RemoteSlice};

use super::damage::closed_by;
use super::fifo::{Stamp, mark};
use super::lane::LaneCore;
use super::link::{Sending, Step};
use super::post::Next;
use super::promote::HOT;
use super::remote::{Outcome, put_from, refused};
use super::token::What;

/// Slots that a sender who was never offered a ring reserves in small parts.
const FIRST_SLOTS: u64 = 64;

impl LaneCore {
    /// Goes on with what waits, if something does.
    pub(super) fn reserve(&mut self, index: u32) -> Next {
        if let Some(instead) = self.follow_route(index) {
            return instead;
        }
        let link = &mut self.links[index as usize];
        if link.fifo.is_empty() {
            link.polite = false;
            return match self.confirm(index) {
                Next::Go => Next::Wait,
                next => next,
            };
        }
        if link.is_unsure() && !self.attr.caps.contains(Caps::PUT_BEFORE_ATOMIC) {
            // If there is no room for it now: after the next put.
            self.confirm(index);
        }
        let link = &self.links[index as usize];
        match link.sending.ring() {
            Some(ring) => self.take_slots(index, ring),
            None => self.reserve_slots(index),
        }
    }

    /// Reserves slots of the peer's queue for what waits.
    fn reserve_slots(&mut self, index: u32) -> Next {
        let link = &mut self.links[index as usize];
        // No more than half of a half, so that one link leaves room for others; a small part of it
        // where the queue was full before, and then the others' turn.
        let part = if link.polite { 8 } else { 2 };
        let mut most = link.shape.slots / part;
        let new = matches!(&link.sending, Sending::Promoting(route) if route.offer == 0);
        if new && link.fifo.counts().1 < FIRST_SLOTS {
            // So that the receiver sees what it is before much has gone by the queue.
            most = most.min(HOT);
        }
        let slots = link.fifo.batch(most);
        link.begun = link.begun.wrapping_add(1);
        self.show_status(index);
        match self.fetch_add(index, R_BYTE, u64::from(slots), What::Step) {
            Outcome::Done(Some(old)) => self.reserved(index, slots, old),
            Outcome::Done(None) => self.wait_in(index, Step::Reserving { slots }),
            Outcome::Next(next) => {
                // Nothing has happened.
                let link = &mut self.links[index as usize];
                link.begun = link.begun.wrapping_sub(1);
                self.show_status(index);
                next
            }
        }
    }

    pub(super) fn reserved(&mut self, index: u32, slots: u32, old: u64) -> Next {
        let link = &mut self.links[index as usize];
        self.stats.reservations += 1;
        if let Some(how) = closed_by(old) {
            return Next::Break(how);
        }
        if let Sending::Sealed(_) = link.sending {
            return self.sealed_reserved(index, slots, old);
        }
        link.step = match published::ticket(old, slots, link.shape.slots) {
            Ok(ticket) => {
                let mark = mark(link.cookie, link.begun as u16);
                link.fifo.stamp(slots, Stamp { seat: link.seat, mark });
                Step::Put { ticket, done: 0 }
            }
            Err(failed) => {
                self.stats.refused += 1;
                link.polite = true;
                Step::GiveBack { failed, tag: (old >> 32) as u32 }
            }
        };
        Next::Go
    }

    pub(super) fn put(&mut self, index: u32) -> Next {
        loop {
            let link = &mut self.links[index as usize];
            let Step::Put { ticket, done } = &link.step else { return Next::Wait };
            let (done, slots) = (*done, ticket.slots());
            if done == slots {
                let messages = link.fifo.pop(slots);
                self.stats.messages += u64::from(messages);
                let step = std::mem::replace(&mut link.step, Step::Ready);
                if let Sending::Sealed(_) = link.sending {
                    return if link.polite { Next::Later } else { Next::Go };
                }
                if let Step::Put { ticket, .. } = step {
                    link.step = Step::Order { ticket };
                }
                return Next::Go;
            }
            let ring = link.sending.ring();
            let ring = ring.map_or(0, |ring| link.shape.ring_at(ring.number));
            let at = ring + published::slot_byte(ticket, link.shape.slots) + done as usize * LINE;
            let most = (slots - done).min((self.put_max / LINE) as u32);
            let (Some(ep), Some(rkey)) = (link.inner, link.rkey) else { return Next::Wait };
            let run = link.fifo.run(done, most);
            let to = RemoteSlice { address: link.base + at as u64, rkey };
            let posted = put_from(&mut *self.inner, self.put_short, ep, run, to);
            let slots_put = (run.len() / LINE) as u32;
            match posted {
                Ok(()) => {
                    self.stats.puts += 1;
                    if let Step::Put { done, .. } = &mut link.step {
                        *done += slots_put;
                    }
                }
                Err(error) => match refused::<()>(error) {
                    Outcome::Next(next) => return next,
                    Outcome::Done(()) => return Next::Later,
                },
            }
        }
    }

    /// Adds `slots` to the counter at `at`, which ends the reservation, and goes to `then`.
    pub(super) fn count(&mut self, index: u32, at: usize, slots: u32, then: Step) -> Next {
        match self.fetch_add(index, at, u64::from(slots), What::Settle) {
            Outcome::Done(answer) => {
                self.stats.settled += 1;
                let link = &mut self.links[index as usize];
                link.step = then;
                link.settling = true;
                if answer.is_some() {
                    self.end_reservation(index);
                }
                Next::Go
            }
            Outcome::Next(next) => next,
        }
    }

    /// The slots of a reservation are known to be counted.
    pub(super) fn end_reservation(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        link.settling = false;
        link.ended = link.ended.wrapping_add(1);
        self.show_status(index);
    }

    /// Writes the status word of a link, for the peer's settlement.
    pub(super) fn show_status(&mut self, index: u32) {
        let at = self.shape.status_at(index);
        let word = self.inner.mem_view(self.memory).and_then(|view| view.word(at));
        if let Some(word) = word {
            // Release: pairs with the peer's get, which acquires as far as its transport does: who
            // reads that a reservation has ended, has its slots counted. The begin is stored before
            // the reservation is posted, and posting does not overtake stores.
            word.store(self.links[index as usize].status(), Ordering::Release);
        }
    }

    /// R was read, whose half was full under `tag`.
    pub(super) fn looked(&mut self, index: u32, tag: u32, value: u64) -> Next {
        if self.links[index as usize].sending.ring().is_some() {
            return self.head_read(index, value);
        }
        self.stats.looks += 1;
        let link = &mut self.links[index as usize];
        if let Some(how) = closed_by(value) {
            return Next::Break(how);
        }
        if (value >> 32) as u32 != tag {
            link.step = Step::Ready;
            return Next::Go;
        }
        link.step = Step::Look { tag };
        Next::Later
    }
}
