//! The sender's side of a queue whose messages are sealed. The rules are in `sealed`.

use bowline_base::scmp::published;
use bowline_base::scmp::sealed::{self, key};
use bowline_uct::{Caps, Posted};

use super::damage::closed_by;
use super::lane::LaneCore;
use super::link::Step;
use super::post::Next;
use super::remote::{Outcome, refused};
use super::token::{What, own};

impl LaneCore {
    /// R of a peer whose queue has seals was `old` before the link reserved `slots`.
    pub(super) fn sealed_reserved(&mut self, index: u32, slots: u32, old: u64) -> Next {
        self.stats.reservations += 1;
        if let Some(how) = closed_by(old) {
            return Next::Break(how);
        }
        let ordered = self.attr.caps.contains(Caps::PUT_BEFORE_ATOMIC);
        let link = &mut self.links[index as usize];
        if ordered {
            // What was put before this atomic is visible: all earlier reservations have ended.
            link.ended = link.begun.wrapping_sub(1);
        }
        let (tag, half) = ((old >> 32) as u32, link.shape.slots);
        if let Ok(ticket) = published::ticket(old, slots, half) {
            link.sealed = link.fifo.seal(slots, link.seat, tag, link.cookie, link.sealed);
            link.step = Step::Put { ticket, done: 0 };
            return Next::Go;
        }
        self.stats.refused += 1;
        link.polite = true;
        link.step = match published::ticket(old, 1, half) {
            Ok(ticket) => {
                let words = sealed::void(key(link.cookie, link.sealed), tag, link.seat);
                link.sealed = link.sealed.wrapping_add(1);
                Step::Void { ticket, words }
            }
            Err(_) => Step::Look { tag },
        };
        Next::Go
    }

    /// Says that the rest of the half is nobody's.
    pub(super) fn put_void(&mut self, index: u32, at: usize, words: [u64; 8], tag: u32) -> Next {
        let bytes = words.map(u64::to_ne_bytes);
        match self.put_bytes(index, at, bytes.as_flattened()) {
            Outcome::Done(()) => {
                self.stats.puts += 1;
                self.links[index as usize].step = Step::Look { tag };
                Next::Go
            }
            Outcome::Next(next) => next,
        }
    }

    /// Learns beside whether what was put has landed (rule 1). In states in which all that was
    /// reserved has been posted. [`Next::Go`]: there is no more to do for it now.
    pub(super) fn confirm(&mut self, index: u32) -> Next {
        let link = &mut self.links[index as usize];
        if !link.is_unsure() || link.settling {
            return Next::Go;
        }
        let Some(ep) = link.inner else { return Next::Wait };
        match self.inner.flush(ep, own(What::Settle, index, link.generation)) {
            Ok(posted) => {
                link.settling = true;
                link.confirming = link.begun;
                match posted {
                    Posted::Done => self.confirmed(index),
                    Posted::InFlight => self.stats.orders += 1,
                }
                Next::Go
            }
            Err(error) => match refused::<()>(error) {
                Outcome::Next(next) => next,
                Outcome::Done(()) => Next::Go,
            },
        }
    }

    /// The flush behind what was put was answered.
    pub(super) fn confirmed(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        link.settling = false;
        // An atomic may have said more meanwhile. Counters that wrap: not behind, by less than half
        // of all numbers.
        if link.confirming.wrapping_sub(link.ended) as i32 > 0 {
            link.ended = link.confirming;
        }
        self.show_status(index);
    }
}
