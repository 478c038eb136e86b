//! The form with rings: each sender has a ring of its own in the receiver's memory, by its number.
//!
//! Two operations a message, a put and an addition, and nobody shares anything: see
//! [`remote_ring`]. What it costs is memory for every sender, so that there are
//! no more numbers than the budget has rings (`BOWLINE_RECV_QUEUE_RINGS`); a sender that comes later is refused.
//!
//! The sender knows the tail. It reads the head when by its copy the ring is full, one read at a time;
//! the receiver writes it into its own memory only, and needs no operation of the transport.

use bowline_base::scmp::counted::{self, remote_ring};
use bowline_base::words::ViewWords;
use bowline_uct::{PeerFailure, Sink};

use super::fifo::{Stamp, mark};
use super::inbox::{Inbox, Taken, hand_out, words_at};
use super::lane_core::LaneCore;
use super::link::SenderEntry;
use super::remote::{Next, Outcome};
use super::sending::{Put, Ring, RingState as State};

impl LaneCore {
    /// The next step of sending by a ring, or the answer to the last one.
    pub(super) fn send_by_ring(
        &mut self,
        index: u32,
        ring: &mut Ring,
        answer: Option<u64>,
    ) -> Next {
        let link = &mut self.links[index as usize];
        let (slots, at) = (link.shape.slots, link.shape.ring_at(ring.number));
        let (state, next) = match (std::mem::take(&mut ring.state), answer) {
            (State::Ordering(ticket), Some(_)) => (State::Publish(ticket), Next::Go),
            (State::Polling, Some(_)) => {
                let word = self.word_read(index);
                self.head_read(ring, word)
            }
            (state, Some(_)) => (state, Next::Wait),
            (State::Ready, None) if link.fifo.is_empty() => {
                link.backs_off = false;
                (State::Ready, Next::Wait)
            }
            (State::Ready, None) => self.take_slots(index, ring),
            (State::Put(mut put), None) => match self.put(index, at, &mut put) {
                None => (State::Order(put.ticket), Next::Go),
                Some(next) => (State::Put(put), next),
            },
            (State::Order(ticket), None) => match self.order(index) {
                Outcome::Done(true) => (State::Publish(ticket), Next::Go),
                Outcome::Done(false) => (State::Ordering(ticket), Next::Wait),
                Outcome::Next(next) => (State::Order(ticket), next),
            },
            (State::Publish(ticket), None) if link.settling => (State::Publish(ticket), Next::Wait),
            (State::Publish(ticket), None) => {
                let (backs_off, tail) = (link.backs_off, ring.after(&ticket, slots));
                match self.count(index, at + remote_ring::TAIL_BYTE, (tail - ring.tail) as u32) {
                    Next::Go => {
                        ring.tail = tail;
                        (State::Ready, if backs_off { Next::Later } else { Next::Go })
                    }
                    next => (State::Publish(ticket), next),
                }
            }
            (State::Poll, None) => match self.read_word(index, at + remote_ring::HEAD_BYTE) {
                Outcome::Done(Some(word)) => self.head_read(ring, word),
                Outcome::Done(None) => (State::Polling, Next::Wait),
                Outcome::Next(next) => (State::Poll, next),
            },
            (waiting, None) => (waiting, Next::Wait),
        };
        ring.state = state;
        next
    }

    /// Takes the next slots of the ring for what waits, if they are free.
    fn take_slots(&mut self, index: u32, ring: &Ring) -> (State, Next) {
        let link = &mut self.links[index as usize];
        let slots = link.shape.slots;
        let at = ring.tail & u64::from(slots - 1);
        let left = slots - at as u32;
        let count = link.fifo.batch(left.min(slots / 2));
        // A message that would cross the end starts at the beginning.
        let offset = if count > left { 0 } else { at };
        let Ok(ticket) = counted::ticket(offset, count, slots) else {
            return (State::Ready, Next::Break(PeerFailure::Refused));
        };
        if ring.after(&ticket, slots) - ring.head > u64::from(slots) {
            self.stats.refused += 1;
            return (State::Poll, Next::Go);
        }
        link.begun = link.begun.wrapping_add(1);
        let mark = mark(link.cookie, link.begun as u16);
        link.fifo.stamp(count, Stamp { sender: link.sender, mark });
        (State::Put(Put::new(ticket)), Next::Go)
    }

    fn head_read(&mut self, ring: &mut Ring, word: u64) -> (State, Next) {
        self.stats.rereads += 1;
        match ring.refresh(word) {
            Ok(true) => (State::Ready, Next::Go),
            Ok(false) => (State::Poll, Next::Later),
            Err(how) => (State::Ready, Next::Break(how)),
        }
    }

    /// The memory of a ring.
    pub(super) fn ring_words(&self, number: usize) -> ViewWords<'_> {
        let (at, len) =
            (self.shape.ring_at(number as u32), remote_ring::bytes_for(self.shape.slots));
        words_at(&*self.inner, self.memory, at, len)
    }

    /// Hands out at most `budget` messages of the ring of `sender`. How many, and whether
    /// nothing was damaged.
    pub(super) fn poll_ring(
        &mut self,
        sink: &mut dyn Sink,
        number: usize,
        sender: u16,
        consumer: &mut remote_ring::Consumer,
        budget: u32,
    ) -> (u32, bool) {
        let mut handed = 0;
        let mut sound = true;
        let slots = self.shape.slots;
        let (at, len) = (self.shape.ring_at(number as u32), remote_ring::bytes_for(slots));
        let words = words_at(&*self.inner, self.memory, at, len);
        let (senders, staging) = (&self.senders, &mut self.staging);
        let polled = consumer.poll(&words, slots, budget, |arrival| {
            let own = arrival.source == sender;
            match own.then(|| hand_out(sink, senders, staging, &arrival)) {
                Some(Taken::Handed) => handed += 1,
                _ => sound = false,
            }
        });
        self.stats.received += u64::from(handed);
        (handed, sound && polled.is_ok())
    }
}

/// A ring for each sender, by its number.
pub(super) struct RingInbox {
    rings: Vec<remote_ring::Consumer>,
    /// The ring that is read first in the next round.
    next: usize,
}

impl RingInbox {
    /// Rings are empty when they are zero, as fresh memory is.
    pub(super) fn new(rings: u32) -> Self {
        Self { rings: vec![remote_ring::Consumer::default(); rings as usize], next: 0 }
    }

    /// Whether a ring of somebody known who `counts` has messages.
    fn any_has_messages(&self, lane: &LaneCore, counts: impl Fn(&SenderEntry) -> bool) -> bool {
        lane.senders.iter().zip(&self.rings).enumerate().any(|(number, (sender, ring))| {
            counts(sender) && !ring.is_drained(&lane.ring_words(number))
        })
    }
}

impl Inbox for RingInbox {
    /// Of each ring, one after the other.
    fn receive(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        lane.read_introductions(self);
        let senders = lane.senders.len();
        let mut handed = 0;
        for step in 0..senders {
            if handed >= budget {
                break;
            }
            let number = (self.next + step) % senders;
            if lane.senders[number].link == SenderEntry::NO_LINK {
                continue;
            }
            // A share of the budget for each, so that one that never runs out leaves some.
            let share = (budget - handed).min((budget / 4).max(1));
            let sender = number as u16;
            let ring = &mut self.rings[number];
            let (taken, sound) = lane.poll_ring(sink, number, sender, ring, share);
            handed += taken;
            if !sound {
                lane.distrust(sender);
            }
        }
        self.next = (self.next + 1) % senders.max(1);
        handed
    }

    fn has_messages(&mut self, lane: &LaneCore) -> bool {
        self.any_has_messages(lane, |sender| sender.link != SenderEntry::NO_LINK)
    }

    /// Nothing has to be settled: the end of a peer is reported when its ring is empty.
    fn settle(&mut self, lane: &mut LaneCore) {
        lane.report_ends(0, |lane, link, _| {
            !self.any_has_messages(lane, |sender| sender.link == link)
        });
    }
}
