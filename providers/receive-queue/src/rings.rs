//! The form with rings: each sender has a ring of its own in the receiver's memory, by its seat.
//!
//! Two operations a message, a put and an addition, and nobody shares anything: see
//! [`solo`]. What it costs is memory for every sender, so that there are
//! no more seats than the budget has rings (`BOWLINE_RECV_QUEUE_RINGS`); who comes later is refused.
//!
//! The sender knows the tail. It reads the head when its copy leaves no room, one read at a time;
//! the receiver writes it into its own memory only, and needs no operation of the transport.

use bowline_base::ring::Damaged;
use bowline_base::scmp::published::{self, Ticket, solo};
use bowline_base::words::ViewWords;
use bowline_uct::{PeerFailure, Sink};

use super::fifo::{Stamp, mark};
use super::inbox::{Inbox, Taken, hand_out, words_at};
use super::lane::LaneCore;
use super::link::{Seat, Step};
use super::post::Next;

/// A sender's side of its ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    /// The receiver's number of the ring; where all have one, that of the seat.
    pub(super) number: u32,
    /// Slots published.
    pub(super) tail: u64,
    /// Slots consumed, when the head was last read.
    pub(super) head: u64,
}

impl Tail {
    /// Where the tail is after the slots of `ticket`, of a ring of `slots`.
    pub(super) fn after(self, ticket: &Ticket, slots: u32) -> u64 {
        let at = self.tail & u64::from(slots - 1);
        let passed = if u64::from(ticket.offset()) == at { 0 } else { u64::from(slots) - at };
        self.tail + passed + u64::from(ticket.slots())
    }

    /// Takes the word of a head that was read; whether it tells another one.
    ///
    /// # Errors
    /// When it cannot be.
    fn refresh(&mut self, word: u64) -> Result<bool, PeerFailure> {
        match solo::read_head(word, self.head, self.tail) {
            Ok(solo::Head::At(head)) => Ok(std::mem::replace(&mut self.head, head) != head),
            Ok(solo::Head::Torn) => Ok(false),
            Ok(solo::Head::Closed) => Err(PeerFailure::Unreachable),
            Err(Damaged) => Err(PeerFailure::Damaged),
        }
    }
}

impl LaneCore {
    /// Takes the next slots of the link's ring for what waits, if they are free.
    pub(super) fn take_slots(&mut self, index: u32, ring: Tail) -> Next {
        let link = &mut self.links[index as usize];
        let slots = link.shape.slots;
        let at = ring.tail & u64::from(slots - 1);
        let left = slots - at as u32;
        let count = link.fifo.batch(left.min(slots / 2));
        // A message that would cross the end starts at the beginning.
        let offset = if count > left { 0 } else { at };
        let Ok(ticket) = published::ticket(offset, count, slots) else {
            return Next::Break(PeerFailure::Refused);
        };
        if ring.after(&ticket, slots) - ring.head > u64::from(slots) {
            self.stats.refused += 1;
            link.step = Step::Look { tag: 0 };
            return Next::Go;
        }
        link.begun = link.begun.wrapping_add(1);
        let mark = mark(link.cookie, link.begun as u16);
        link.fifo.stamp(count, Stamp { seat: link.seat, mark });
        link.step = Step::Put { ticket, done: 0 };
        Next::Go
    }

    /// Adds to the tail of the link's ring what lies in front of `tail`.
    pub(super) fn publish(&mut self, index: u32, ring: Tail, tail: u64) -> Next {
        let at = self.links[index as usize].shape.ring_at(ring.number) + solo::TAIL_BYTE;
        let next = self.count(index, at, (tail - ring.tail) as u32, Step::Ready);
        if let (Next::Go, Some(ring)) = (&next, self.links[index as usize].sending.ring_mut()) {
            ring.tail = tail;
        }
        next
    }

    /// The head of the link's ring was read.
    pub(super) fn head_read(&mut self, index: u32, word: u64) -> Next {
        self.stats.looks += 1;
        let link = &mut self.links[index as usize];
        let Some(ring) = link.sending.ring_mut() else { return Next::Wait };
        match ring.refresh(word) {
            Ok(true) => {
                link.step = Step::Ready;
                Next::Go
            }
            Ok(false) => {
                link.step = Step::Look { tag: 0 };
                Next::Later
            }
            Err(how) => Next::Break(how),
        }
    }

    /// The memory of a ring.
    pub(super) fn ring_words(&self, number: usize) -> ViewWords<'_> {
        let (at, len) = (self.shape.ring_at(number as u32), solo::bytes_for(self.shape.slots));
        words_at(&*self.inner, self.memory, at, len)
    }

    /// Hands out at most `budget` messages of a ring whose sender has `seat`. How many, and whether
    /// nothing was damaged.
    pub(super) fn poll_ring(
        &mut self,
        sink: &mut dyn Sink,
        number: usize,
        seat: u16,
        consumer: &mut solo::Consumer,
        budget: u32,
    ) -> (u32, bool) {
        let mut handed = 0;
        let mut sound = true;
        let slots = self.shape.slots;
        let (at, len) = (self.shape.ring_at(number as u32), solo::bytes_for(slots));
        let words = words_at(&*self.inner, self.memory, at, len);
        let (seats, staging) = (&self.seats, &mut self.staging);
        let polled = consumer.poll(&words, slots, budget, |arrival| {
            let own = arrival.source == seat;
            match own.then(|| hand_out(sink, seats, staging, &arrival)) {
                Some(Taken::Handed) => handed += 1,
                _ => sound = false,
            }
        });
        self.stats.received += u64::from(handed);
        (handed, sound && polled.is_ok())
    }
}

/// A ring for each sender, by its seat.
pub(super) struct RingInbox {
    rings: Vec<solo::Consumer>,
    /// The ring that is read first in the next round.
    next: usize,
}

impl RingInbox {
    /// Rings are empty when they are zero, as fresh memory is.
    pub(super) fn new(rings: u32) -> Self {
        Self { rings: vec![solo::Consumer::default(); rings as usize], next: 0 }
    }

    /// Whether a ring of somebody known who `counts` has messages.
    fn any_has_messages(&self, lane: &LaneCore, counts: impl Fn(&Seat) -> bool) -> bool {
        lane.seats.iter().zip(&self.rings).enumerate().any(|(number, (seat, ring))| {
            counts(seat) && !ring.is_drained(&lane.ring_words(number))
        })
    }
}

impl Inbox for RingInbox {
    /// Of each ring in its turn.
    fn receive(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        lane.read_introductions(self);
        let seats = lane.seats.len();
        let mut handed = 0;
        for step in 0..seats {
            if handed >= budget {
                break;
            }
            let number = (self.next + step) % seats;
            if lane.seats[number].link == Seat::NOBODY {
                continue;
            }
            // A share of the budget for each, so that one that never runs out leaves some.
            let share = (budget - handed).min((budget / 4).max(1));
            let seat = number as u16;
            let ring = &mut self.rings[number];
            let (taken, sound) = lane.poll_ring(sink, number, seat, ring, share);
            handed += taken;
            if !sound {
                lane.distrust(seat);
            }
        }
        self.next = (self.next + 1) % seats.max(1);
        handed
    }

    fn has_messages(&mut self, lane: &LaneCore) -> bool {
        self.any_has_messages(lane, |seat| seat.link != Seat::NOBODY)
    }

    /// Nothing has to be settled: the end of a peer is reported when its ring is empty.
    fn settle(&mut self, lane: &mut LaneCore) {
        lane.tell_ends(0, |lane, link, _| !self.any_has_messages(lane, |seat| seat.link == link));
    }
}
