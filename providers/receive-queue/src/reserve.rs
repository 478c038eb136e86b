//! Sending into the counting form: a reservation is made, its slots are put and counted, and what did not fit
//! waits for another half. The form with promotion sends in this manner, too, while its route is the queue; the
//! checksummed one reserves and puts alike.

use bowline_base::scmp::counted::{self, R_BYTE};
use bowline_base::sync::LINE;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::RemoteSlice;

use super::closed::closed_by;
use super::extents::LinkWord;
use super::fifo::{Stamp, mark};
use super::lane_core::LaneCore;
use super::remote::{Next, Outcome, put_from, refused};
use super::sending::{Counted, Put};
use super::token::What;

impl LaneCore {
    /// The next step, or the answer to the last one; reserves at most `most` slots.
    pub(super) fn send_counted(
        &mut self,
        index: u32,
        state: &mut Counted,
        most: u32,
        answer: Option<u64>,
    ) -> Next {
        let link = &mut self.links[index as usize];
        let (then, next) = match (std::mem::take(state), answer) {
            (Counted::Reserving { slots }, Some(old)) => self.counted_reserved(index, slots, old),
            (Counted::Ordering(ticket), Some(_)) => (Counted::Finalise(ticket), Next::Go),
            (Counted::Polling { tag }, Some(_)) => {
                let value = self.word_read(index);
                self.polled(tag, value, Counted::Ready, Counted::Poll { tag })
            }
            (state, Some(_)) => (state, Next::Wait),
            (Counted::Ready, None) if link.fifo.is_empty() => {
                link.backs_off = false;
                (Counted::Ready, Next::Wait)
            }
            (Counted::Ready, None) => match self.reserve(index, most) {
                (slots, Outcome::Done(Some(old))) => self.counted_reserved(index, slots, old),
                (slots, Outcome::Done(None)) => (Counted::Reserving { slots }, Next::Wait),
                (_, Outcome::Next(next)) => (Counted::Ready, next),
            },
            (Counted::Put(mut put), None) => match self.put(index, 0, &mut put) {
                None => (Counted::Order(put.ticket), Next::Go),
                Some(next) => (Counted::Put(put), next),
            },
            (Counted::Order(ticket), None) => match self.order(index) {
                Outcome::Done(true) => (Counted::Finalise(ticket), Next::Go),
                Outcome::Done(false) => (Counted::Ordering(ticket), Next::Wait),
                Outcome::Next(next) => (Counted::Order(ticket), next),
            },
            (state @ (Counted::Finalise(_) | Counted::GiveBack { .. }), None) if link.settling => {
                (state, Next::Wait)
            }
            (Counted::Finalise(ticket), None) => {
                let backs_off = link.backs_off;
                match self.count(index, counted::settled_byte(ticket.half()), ticket.slots()) {
                    Next::Go if backs_off => (Counted::Ready, Next::Later),
                    Next::Go => (Counted::Ready, Next::Go),
                    next => (Counted::Finalise(ticket), next),
                }
            }
            (Counted::GiveBack { failed, tag }, None) => {
                match self.count(index, counted::failed_byte(failed.half()), failed.slots()) {
                    Next::Go => (Counted::Poll { tag }, Next::Go),
                    next => (Counted::GiveBack { failed, tag }, next),
                }
            }
            (Counted::Poll { tag }, None) => match self.read_word(index, R_BYTE) {
                Outcome::Done(Some(value)) => {
                    self.polled(tag, value, Counted::Ready, Counted::Poll { tag })
                }
                Outcome::Done(None) => (Counted::Polling { tag }, Next::Wait),
                Outcome::Next(next) => (Counted::Poll { tag }, next),
            },
            (waiting, None) => (waiting, Next::Wait),
        };
        *state = then;
        next
    }

    /// R was `old` before the link reserved `slots`.
    fn counted_reserved(&mut self, index: u32, slots: u32, old: u64) -> (Counted, Next) {
        let link = &mut self.links[index as usize];
        self.stats.reservations += 1;
        if let Some(how) = closed_by(old) {
            return (Counted::Ready, Next::Break(how));
        }
        let state = match counted::ticket(old, slots, link.shape.slots) {
            Ok(ticket) => {
                let mark = mark(link.cookie, link.begun as u16);
                link.fifo.stamp(slots, Stamp { sender: link.sender, mark });
                Counted::Put(Put::new(ticket))
            }
            Err(failed) => {
                self.stats.refused += 1;
                link.backs_off = true;
                Counted::GiveBack { failed, tag: (old >> 32) as u32 }
            }
        };
        (state, Next::Go)
    }

    /// R is `value`. The state is `ready` again where the half that was full under `tag` is another one's now, or
    /// the queue is closed; else it is to `poll` again.
    pub(super) fn polled<S>(&mut self, tag: u32, value: u64, ready: S, poll: S) -> (S, Next) {
        self.stats.rereads += 1;
        match closed_by(value) {
            Some(how) => (ready, Next::Break(how)),
            None if (value >> 32) as u32 != tag => (ready, Next::Go),
            None => (poll, Next::Later),
        }
    }

    /// Reserves slots of the peer's queue for what waits, at most `most` if that is a message. Returns how many,
    /// and R as it was.
    pub(super) fn reserve(&mut self, index: u32, most: u32) -> (u32, Outcome<Option<u64>>) {
        let link = &mut self.links[index as usize];
        // No more than half of a half, so that one link leaves space for others; a small part of it
        // where the queue was full before, and then the others go first.
        let part = if link.backs_off { 8 } else { 2 };
        let slots = link.fifo.batch(most.min(link.shape.slots / part));
        link.begun = link.begun.wrapping_add(1);
        self.show_status(index);
        let outcome = self.fetch_add(index, R_BYTE, u64::from(slots), What::Step);
        if let Outcome::Next(_) = outcome {
            // Nothing has happened.
            let link = &mut self.links[index as usize];
            link.begun = link.begun.wrapping_sub(1);
            self.show_status(index);
        }
        (slots, outcome)
    }

    /// Puts slots of a reservation, whose queue begins at `from` in the peer's memory. `None`: all are put, and
    /// their messages have left.
    pub(super) fn put(&mut self, index: u32, from: usize, put: &mut Put) -> Option<Next> {
        let link = &mut self.links[index as usize];
        let slots = put.ticket.slots();
        while put.done < slots {
            let at = counted::slot_byte(&put.ticket, link.shape.slots) + put.done as usize * LINE;
            let most = (slots - put.done).min((self.put_max / LINE) as u32);
            let (Some(ep), Some(rkey)) = (link.inner, link.rkey) else { return Some(Next::Wait) };
            let run = link.fifo.run(put.done, most);
            let to = RemoteSlice { address: link.base + (from + at) as u64, rkey };
            if let Err(error) = put_from(&mut *self.inner, self.put_short, ep, run, to) {
                return Some(refused(error));
            }
            self.stats.puts += 1;
            put.done += (run.len() / LINE) as u32;
        }
        self.stats.messages += u64::from(link.fifo.pop(slots));
        None
    }

    /// Adds `slots` to the counter at `at`, which ends the reservation.
    pub(super) fn count(&mut self, index: u32, at: usize, slots: u32) -> Next {
        match self.fetch_add(index, at, u64::from(slots), What::Settle) {
            Outcome::Done(answer) => {
                self.stats.settled += 1;
                self.links[index as usize].settling = true;
                if answer.is_some() {
                    self.end_reservation(index);
                }
                Next::Go
            }
            Outcome::Next(next) => next,
        }
    }

    /// What a get has left in the link's word.
    pub(super) fn word_read(&mut self, index: u32) -> u64 {
        let mut bytes = [0; 8];
        let word = self.links[index as usize].word.as_mut();
        word.map(|word| word.view().copy_out(&mut bytes));
        u64::from_ne_bytes(bytes)
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
        if let Some(word) = self.own_word(index, LinkWord::Status) {
            // Release: pairs with the peer's get, which acquires as far as its transport does: who
            // reads that a reservation has ended, has its slots counted. The begin is stored before
            // the reservation is posted, and posting does not overtake stores.
            word.store(self.links[index as usize].status(), Ordering::Release);
        }
    }
}
