//! The sender's side of a queue whose messages are checksummed. The rules are in `checksummed`.

use bowline_base::scmp::checksummed::{self, key};
use bowline_base::scmp::counted::{self, R_BYTE, Ticket};
use bowline_uct::{Caps, Posted};

use super::closed::closed_by;
use super::lane_core::LaneCore;
use super::remote::{Next, Outcome, refused};
use super::sending::{ChecksumState as State, Checksums, Put, Sending};
use super::token::{What, own};

impl LaneCore {
    /// The next step of sending checksummed messages, or the answer to the last one.
    pub(super) fn send_checksummed(
        &mut self,
        index: u32,
        checksums: &mut Checksums,
        answer: Option<u64>,
    ) -> Next {
        let link = &mut self.links[index as usize];
        let (state, next) = match (std::mem::take(&mut checksums.state), answer) {
            (State::Reserving { slots }, Some(old)) => {
                self.checksummed_reserved(index, checksums, slots, old)
            }
            (State::Polling { tag }, Some(_)) => {
                let value = self.word_read(index);
                self.polled(tag, value, State::Ready, State::Poll { tag })
            }
            (state, Some(_)) => (state, Next::Wait),
            (State::Ready, None) if link.fifo.is_empty() => {
                link.backs_off = false;
                match self.confirm(index, checksums) {
                    Next::Go => (State::Ready, Next::Wait),
                    next => (State::Ready, next),
                }
            }
            (State::Ready, None) => {
                if link.is_unsure() && !self.attr.caps.contains(Caps::PUT_BEFORE_ATOMIC) {
                    // If there is no space for it now: after the next put.
                    self.confirm(index, checksums);
                }
                match self.reserve(index, u32::MAX) {
                    (slots, Outcome::Done(Some(old))) => {
                        self.checksummed_reserved(index, checksums, slots, old)
                    }
                    (slots, Outcome::Done(None)) => (State::Reserving { slots }, Next::Wait),
                    (_, Outcome::Next(next)) => (State::Ready, next),
                }
            }
            (State::Put(mut put), None) => match self.put(index, 0, &mut put) {
                None if self.links[index as usize].backs_off => (State::Ready, Next::Later),
                None => (State::Ready, Next::Go),
                Some(next) => (State::Put(put), next),
            },
            (State::Void { ticket, words }, None) => self.put_void(index, ticket, words),
            (State::Poll { tag }, None) => match self.confirm(index, checksums) {
                Next::Later => (State::Poll { tag }, Next::Later),
                _ => match self.read_word(index, R_BYTE) {
                    Outcome::Done(Some(value)) => {
                        self.polled(tag, value, State::Ready, State::Poll { tag })
                    }
                    Outcome::Done(None) => (State::Polling { tag }, Next::Wait),
                    Outcome::Next(next) => (State::Poll { tag }, next),
                },
            },
            (waiting, None) => (waiting, Next::Wait),
        };
        checksums.state = state;
        next
    }

    /// R of a peer whose queue has checksums was `old` before the link reserved `slots`.
    fn checksummed_reserved(
        &mut self,
        index: u32,
        checksums: &mut Checksums,
        slots: u32,
        old: u64,
    ) -> (State, Next) {
        self.stats.reservations += 1;
        if let Some(how) = closed_by(old) {
            return (State::Ready, Next::Break(how));
        }
        let ordered = self.attr.caps.contains(Caps::PUT_BEFORE_ATOMIC);
        let link = &mut self.links[index as usize];
        if ordered {
            // What was put before this atomic is visible: all earlier reservations have ended.
            link.ended = link.begun.wrapping_sub(1);
        }
        let (tag, half) = ((old >> 32) as u32, link.shape.slots);
        if let Ok(ticket) = counted::ticket(old, slots, half) {
            checksums.next =
                link.fifo.checksum(slots, link.sender, tag, link.cookie, checksums.next);
            return (State::Put(Put::new(ticket)), Next::Go);
        }
        self.stats.refused += 1;
        link.backs_off = true;
        let state = match counted::ticket(old, 1, half) {
            Ok(ticket) => {
                let words = checksummed::void(key(link.cookie, checksums.next), tag, link.sender);
                checksums.next = checksums.next.wrapping_add(1);
                State::Void { ticket, words }
            }
            Err(_) => State::Poll { tag },
        };
        (state, Next::Go)
    }

    /// Says that the rest of the half is nobody's.
    fn put_void(&mut self, index: u32, ticket: Ticket, words: [u64; 8]) -> (State, Next) {
        let (bytes, tag) = (words.map(u64::to_ne_bytes), ticket.tag());
        let at = counted::slot_byte(&ticket, self.links[index as usize].shape.slots);
        match self.put_bytes(index, at, bytes.as_flattened()) {
            Outcome::Done(()) => {
                self.stats.puts += 1;
                (State::Poll { tag }, Next::Go)
            }
            Outcome::Next(next) => (State::Void { ticket, words }, next),
        }
    }

    /// Learns beside whether what was put has landed (rule 1). In states in which all that was
    /// reserved has been posted. [`Next::Go`]: there is no more to do for it now.
    fn confirm(&mut self, index: u32, checksums: &mut Checksums) -> Next {
        let link = &mut self.links[index as usize];
        if !link.is_unsure() || link.settling {
            return Next::Go;
        }
        let Some(ep) = link.inner else { return Next::Wait };
        match self.inner.flush(ep, own(What::Settle, index, link.generation)) {
            Ok(posted) => {
                link.settling = true;
                checksums.confirming = link.begun;
                match posted {
                    Posted::Done => self.confirmed(index, checksums.confirming),
                    Posted::InFlight => self.stats.orders += 1,
                }
                Next::Go
            }
            Err(error) => refused(error),
        }
    }

    /// The same for a link that sends no more.
    pub(super) fn confirm_last(&mut self, index: u32) -> Next {
        let Sending::Checksummed(checksums) = &mut self.links[index as usize].sending else {
            return Next::Go;
        };
        let mut checksums = std::mem::take(checksums);
        let next = self.confirm(index, &mut checksums);
        self.links[index as usize].sending = Sending::Checksummed(checksums);
        next
    }

    /// The flush behind what was put was answered; `confirming` had been begun before it.
    pub(super) fn confirmed(&mut self, index: u32, confirming: u32) {
        let link = &mut self.links[index as usize];
        link.settling = false;
        // An atomic may have said more meanwhile. Counters that wrap: not behind, by less than half
        // of all numbers.
        if confirming.wrapping_sub(link.ended) as i32 > 0 {
            link.ended = confirming;
        }
        self.show_status(index);
    }
}
