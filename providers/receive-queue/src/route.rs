//! The route of a sender's messages, where those who send most get rings: the sender's side. The
//! receiver's, which decides, is in `promote`.
//!
//! The receiver writes a *route word* into the sender's memory, beside its status word: an offer of a
//! ring, or the wish that it leaves the ring it has. The sender reads it, which is a load, when it
//! has something to send, and now and then when it has not.
//!
//! ```text
//!   63 .. 48 check | 47 .. 32 offer, counted | 31 .. 16 ring | 15 .. 0 kind: 1 offer, 2 leave
//!
//!            offer: SWITCH is next in the fifo       SWITCH is finalised, answered
//!   queue ───────────────────────────────► switching ───────────────────────────────► ring
//!     ▲                                                                                │ leave
//!     └────────────────── answered ─── leaving ◄── ENDED is added to the tail ─────────┘
//! ```
//!
//! 1. As in [`bowline_base::ring::promote`], each change of route is the last thing on the old one: the
//!    SWITCH marker is the last message by the queue, and no reservation reaches beyond it. It goes in
//!    front of all that waits.
//! 2. A change waits until the last operation on the old route is answered, and so has happened. So the
//!    receiver never finds a message in the ring before SWITCH is in the queue, nor one in the queue
//!    before ENDED is in the tail. It costs one answer for each change.
//! 3. Every offer that a sender takes, it takes once: the count distinguishes a new offer of the same ring.
//! 4. The check has the link's cookie in it: what an earlier link left in the word, and a word that is
//!    half written, are nothing.

use bowline_base::ring::promote::{SWITCH_ID, switch_header};
use bowline_base::scmp::Message;
use bowline_base::scmp::counted::remote_ring;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::PeerFailure;

use super::address::checksum;
use super::extents::LinkWord;
use super::lane_core::LaneCore;
use super::remote::{Next, Outcome};
use super::sending::{By, Promoting, Ring, Sending, Stage};
use super::token::What;

/// Messages by the queue after which a sender wants a ring.
pub(super) const PROMOTE_AFTER: u32 = 16;

/// Slots that a sender who was never offered a ring reserves in small parts.
const FIRST_SLOTS: u64 = 64;

/// What a receiver wants of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Use this ring.
    Offer { offer: u16, ring: u16 },
    /// Leave the ring of this offer.
    Leave { offer: u16 },
}

fn check(low: u64, cookie: u32) -> u64 {
    let bytes = [low.to_le_bytes(), u64::from(cookie).to_le_bytes()];
    checksum(bytes.as_flattened()) & 0xffff
}

impl Notice {
    pub(super) fn word(self, cookie: u32) -> u64 {
        let (offer, ring, kind) = match self {
            Self::Offer { offer, ring } => (offer, ring, 1),
            Self::Leave { offer } => (offer, 0, 2),
        };
        let low = u64::from(offer) << 32 | u64::from(ring) << 16 | kind;
        low | check(low, cookie) << 48
    }

    /// What a word says to the link with this cookie.
    fn read(word: u64, cookie: u32) -> Option<Self> {
        let low = word & 0xffff_ffff_ffff;
        if word >> 48 != check(low, cookie) {
            return None;
        }
        let (offer, ring) = ((low >> 32) as u16, (low >> 16) as u16);
        match low as u16 {
            1 => Some(Self::Offer { offer, ring }),
            2 if ring == 0 => Some(Self::Leave { offer }),
            _ => None,
        }
    }
}

impl LaneCore {
    /// A notice for a link that it has not followed yet, and its word.
    fn notice(&self, index: u32, promoting: &Promoting) -> Option<(Notice, u64)> {
        if !self.shape.promotes() {
            return None;
        }
        // Acquire: pairs with the fence before the receiver's put: the ring that it offers is empty.
        let word = self.own_word(index, LinkWord::Route)?.load(Ordering::Acquire);
        if word == promoting.seen {
            return None;
        }
        Some((Notice::read(word, self.links[index as usize].cookie)?, word))
    }

    /// The next step of sending to a peer that promotes, or the answer to the last one.
    pub(super) fn send_promoting(
        &mut self,
        index: u32,
        promoting: &mut Promoting,
        answer: Option<u64>,
    ) -> Next {
        if answer.is_none()
            && promoting.stage() == Stage::Ready
            && let Some(instead) = self.follow_route(index, promoting)
        {
            return instead;
        }
        let (by, next) = match std::mem::take(&mut promoting.by) {
            By::Queue(mut counted) => {
                // So that the receiver sees what it is before much has gone by the queue.
                let new = self.links[index as usize].fifo.counts().1 < FIRST_SLOTS;
                let most = if new && promoting.offer == 0 { PROMOTE_AFTER } else { u32::MAX };
                let next = self.send_counted(index, &mut counted, most, answer);
                (By::Queue(counted), next)
            }
            By::Ring(mut ring) => {
                let next = self.send_by_ring(index, &mut ring, answer);
                (By::Ring(ring), next)
            }
            By::Leave(ring) => self.leave_ring(index, ring),
            // ENDED is in the tail: the queue is the route again.
            By::Leaving if answer.is_some() => (By::default(), Next::Go),
            By::Leaving => (By::Leaving, Next::Wait),
        };
        promoting.by = by;
        next
    }

    /// Follows a notice, and ends a change of route that can end, where nothing is under way. What is to be
    /// done instead of sending.
    fn follow_route(&mut self, index: u32, promoting: &mut Promoting) -> Option<Next> {
        let notice = self.notice(index, promoting);
        let space = self.fifo_slots;
        let link = &mut self.links[index as usize];
        match notice {
            Some((Notice::Offer { offer, ring }, word)) if offer != promoting.offer => {
                if u32::from(ring) >= link.shape.rings
                    || matches!(promoting.by, By::Ring(_))
                    || promoting.switching.is_some()
                {
                    return Some(Next::Break(PeerFailure::Damaged));
                }
                if link.fifo.space(space) > 0 && link.fifo.has_left() {
                    let header = switch_header(ring.into());
                    let marker = Message { id: SWITCH_ID, flags: 0, header: &header, payload: &[] };
                    link.fifo.push_first(&marker);
                    promoting.offer = offer;
                    promoting.switching = Some(ring.into());
                    promoting.seen = word;
                }
            }
            Some((Notice::Leave { offer }, word)) if offer == promoting.offer => {
                match std::mem::take(&mut promoting.by) {
                    By::Ring(ring) => {
                        promoting.seen = word;
                        promoting.by = By::Leave(ring);
                        return Some(Next::Go);
                    }
                    // While it switches, it comes to this with the ring.
                    by => promoting.by = by,
                }
            }
            Some((_, word)) => promoting.seen = word,
            None => {}
        }
        if promoting.switching.is_some() && link.fifo.is_past_bar() {
            if link.settling {
                // Its answer goes on with this.
                return Some(Next::Wait);
            }
            if let Some(number) = promoting.switching.take() {
                promoting.by = By::Ring(Ring::new(number));
            }
        }
        None
    }

    /// Adds ENDED to the tail of the ring.
    fn leave_ring(&mut self, index: u32, ring: Ring) -> (By, Next) {
        let link = &self.links[index as usize];
        if link.settling {
            return (By::Leave(ring), Next::Wait);
        }
        let at = link.shape.ring_at(ring.number) + remote_ring::TAIL_BYTE;
        match self.fetch_add(index, at, remote_ring::ENDED, What::Step) {
            Outcome::Done(Some(_)) => (By::default(), Next::Go),
            Outcome::Done(None) => (By::Leaving, Next::Wait),
            Outcome::Next(next) => (By::Leave(ring), next),
        }
    }

    /// Lets one link that has nothing to send follow its notices; another one in each round.
    pub(super) fn follow_next_route(&mut self) {
        if !self.shape.promotes() || self.links.is_empty() {
            return;
        }
        self.next_route = (self.next_route + 1) % self.links.len();
        let link = &self.links[self.next_route];
        let Sending::Promoting(promoting) = &link.sending else { return };
        let idle = link.is_ready() && link.failed.is_none();
        if idle && self.notice(self.next_route as u32, promoting).is_some() {
            self.drive(self.next_route as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_say_what_was_meant_to_nobody_else(offer: u16, ring: u16, cookie: u32, bit in 0..64) {
            for notice in [Notice::Offer { offer, ring }, Notice::Leave { offer }] {
                let word = notice.word(cookie);
                prop_assert_eq!(Notice::read(word, cookie), Some(notice));
                prop_assert_ne!(Notice::read(word ^ 1_u64 << bit, cookie), Some(notice));
            }
            prop_assert_eq!(Notice::read(0, cookie), None);
        }

        #[test]
        fn any_word_is_read_or_refused(word: u64, cookie: u32) {
            let low = word & 0xffff_ffff_ffff;
            let checksummed = low | check(low, cookie) << 48;
            if let Some(notice) = Notice::read(checksummed, cookie) {
                prop_assert_eq!(notice.word(cookie), checksummed);
            }
            let _ = Notice::read(word, cookie);
        }
    }
}
