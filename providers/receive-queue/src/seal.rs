//! The sender's side of a queue whose messages are sealed. The rules are in `sealed`.

use bowline_base::scmp::published;
use bowline_base::scmp::sealed::{self, key};
use bowline_uct::{Caps, Posted};

use super::lane::LaneCore;
use super::link::{Sending, Step};
use super::post::Next;
use super::remote::{Outcome, refused};
use super::token::{What, own};

/// What a sender knows of its sealed messages.
#[derive(Debug, Default)]
pub(super) struct Seals {
    /// How many there were: the number of the next one.
    next: u32,
    /// Reservations before the flush that is under way.
    confirming: u32,
}

impl LaneCore {
    /// R of a peer whose queue has seals was `old` before the link reserved `slots`.
    pub(super) fn sealed_reserved(&mut self, index: u32, slots: u32, old: u64) -> Next {
        let ordered = self.attr.caps.contains(Caps::PUT_BEFORE_ATOMIC);
        let link = &mut self.links[index as usize];
        if ordered {
            // What was put before this atomic is visible: all earlier reservations have ended.
            link.ended = link.begun.wrapping_sub(1);
        }
        let Sending::Sealed(seals) = &mut link.sending else { return Next::Wait };
        let (tag, half) = ((old >> 32) as u32, link.shape.slots);
        if let Ok(ticket) = published::ticket(old, slots, half) {
            seals.next = link.fifo.seal(slots, link.seat, tag, link.cookie, seals.next);
            link.step = Step::Put { ticket, done: 0 };
            return Next::Go;
        }
        self.stats.refused += 1;
        link.polite = true;
        link.step = match published::ticket(old, 1, half) {
            Ok(ticket) => {
                let words = sealed::void(key(link.cookie, seals.next), tag, link.seat);
                seals.next = seals.next.wrapping_add(1);
                Step::Void { ticket, words }
            }
            Err(_) => Step::Look { tag },
        };
        Next::Go
    }

    /// Says that the rest of the half is nobody's.
    pub(super) fn put_void(&mut self, index: u32) -> Next {
        let link = &self.links[index as usize];
        let Step::Void { ticket, words } = &link.step else { return Next::Wait };
        let (bytes, tag) = (words.map(u64::to_ne_bytes), ticket.tag());
        let at = published::slot_byte(ticket, link.shape.slots);
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
        let unsure = link.is_unsure() && !link.settling;
        let Sending::Sealed(seals) = &mut link.sending else { return Next::Go };
        if !unsure {
            return Next::Go;
        }
        let Some(ep) = link.inner else { return Next::Wait };
        match self.inner.flush(ep, own(What::Settle, index, link.generation)) {
            Ok(posted) => {
                link.settling = true;
                seals.confirming = link.begun;
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
        let Sending::Sealed(seals) = &link.sending else { return };
        // An atomic may have said more meanwhile. Counters that wrap: not behind, by less than half
        // of all numbers.
        if seals.confirming.wrapping_sub(link.ended) as i32 > 0 {
            link.ended = seals.confirming;
        }
        self.show_status(index);
    }
}
