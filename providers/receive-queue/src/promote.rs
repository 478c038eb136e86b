//! Who gets one of a lane's rings: the receiver's table in the form with promotion, whose rounds are in
//! `promoting`. What a sender does about it is in `route`.
//!
//! Everybody starts in the queue. The receiver counts what comes by it, and offers a ring to a sender
//! that has sent [`PROMOTE_AFTER`] messages, while one is free; an offer reaches its sender while that one is at
//! most a few reservations further, which are short before the first offer, so that a sender whose
//! receiver polls is promoted within its first 64 messages. When none is free and somebody in the
//! queue sends much more than the owner of a ring, the owner that sends least has to leave it.
//!
//! ```text
//!           busy: reset, offer          SWITCH came by the queue       somebody sends more: notice
//!   Free ─────────────────────► Offered ───────────────────────► Active ─────────────────► Evicting
//!    ▲                             │                               │                          │
//!    │◄── the sender is gone ──────┴──── and its messages are handed out ─────────────────────┤
//!    └◄────────────────────────────────────── ENDED, and drained ─────────────────────────────┘
//!   any ── damage of its sender ──► Lost ── the sender is gone ──► Free
//! ```
//!
//! 1. A ring is not read before its SWITCH (rule 3 of [`bowline_base::ring::promote`]).
//! 2. A message in the queue whose sender's ring is Active or Evicting came after ENDED (rule 2 of
//!    `route`): it stays where it is until the ring is read to that end. A ring that runs out before is
//!    damage of its sender.
//! 3. An evicted sender leaves when it next makes progress; until then the ring stays its own, since
//!    nothing but its word ends its puts. One is evicted at a time.
//! 4. One notice to a sender is under way at a time: it is asked to leave after its SWITCH has come,
//!    and is offered another ring after ENDED has. So notices do not overtake each other.
//! 5. *The dead*: after the end of a sender its half of the queue is settled, which may bring its
//!    SWITCH; then its ring is read to the tail, and is free. A sender whose ring was used has no
//!    reservation in the queue that was not finalised (rule 2 of `route`), so that none of its messages
//!    there are dropped.

use std::collections::VecDeque;

use bowline_base::ring::promote::{SWITCH_ID, read_switch};
use bowline_base::scmp::QueuedMessage;
use bowline_base::scmp::counted::remote_ring;
use bowline_base::sync::atomic::{Ordering, fence};
use bowline_base::words::ViewWords;
use bowline_uct::Sink;

use super::counted::Choice;
use super::extents::LinkWord;
use super::fifo::parts;
use super::lane_core::LaneCore;
use super::link::SenderEntry;
use super::remote::{Next, Outcome};
use super::route::{Notice, PROMOTE_AFTER};

/// Messages of all by the queue, for each ring, between two comparisons of those in it with the
/// owners of rings.
const PERIOD: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Offered,
    Active,
    Evicting,
    Lost,
}

/// A ring.
#[derive(Clone, Copy, Debug)]
struct Place {
    state: State,
    sender: u16,
    consumer: remote_ring::Consumer,
    /// Messages in this period.
    taken: u32,
}

/// What is known of a sender.
#[derive(Clone, Copy, Debug)]
struct SenderLoad {
    /// Messages by the queue, halved in each period.
    count: u32,
    offer: u16,
    ring: Option<u16>,
}

/// The rings of a lane, and who wants one.
#[derive(Debug, Default)]
pub(super) struct Promotion {
    rings: Vec<Place>,
    loads: Vec<SenderLoad>,
    wanting: Vec<u16>,
    /// What has to be put into senders' route words.
    notices: VecDeque<(u16, Notice)>,
    /// Messages by the queue in this period.
    seen: u32,
    /// The ring that is read first in the next round.
    next: usize,
    /// The ring that has to be read before the queue goes on.
    drain: Option<usize>,
}

impl Promotion {
    pub(super) fn new(rings: u32) -> Self {
        let free = Place {
            state: State::Free,
            sender: 0,
            consumer: remote_ring::Consumer::default(),
            taken: 0,
        };
        Self { rings: vec![free; rings as usize], ..Self::default() }
    }

    /// Takes note of a message of the queue.
    pub(super) fn by_queue(
        &mut self,
        senders: &[SenderEntry],
        arrival: &QueuedMessage<'_, ViewWords<'_>>,
    ) -> Choice {
        let source = arrival.source;
        let Some(sender) = senders.get(usize::from(source)) else { return Choice::Take };
        if sender.link == SenderEntry::NO_LINK || parts(arrival.mark).0 != sender.cookie {
            return Choice::Take;
        }
        if self.loads.len() < senders.len() {
            self.loads.resize(senders.len(), SenderLoad { count: 0, offer: 0, ring: None });
        }
        let load = &mut self.loads[usize::from(source)];
        let owned = load.ring.map(|ring| (usize::from(ring), self.rings[usize::from(ring)].state));
        if arrival.id == SWITCH_ID {
            let named = read_switch(&arrival.header, self.rings.len() as u32);
            return match (owned, named) {
                (Some((ring, State::Offered)), Some(number)) if ring == number as usize => {
                    self.rings[ring].state = State::Active;
                    load.count = 0;
                    Choice::Skip
                }
                _ => Choice::Damaged,
            };
        }
        if let Some((ring, State::Active | State::Evicting)) = owned {
            self.drain = Some(ring);
            return Choice::Later;
        }
        self.seen += 1;
        load.count += 1;
        if load.count == PROMOTE_AFTER && owned.is_none() {
            self.wanting.push(source);
        }
        Choice::Take
    }

    /// The ring of a sender.
    fn of(&self, sender: usize) -> Option<usize> {
        self.loads.get(sender)?.ring.map(usize::from)
    }

    /// A ring is nobody's any more.
    fn release(&mut self, ring: usize) {
        let place = &mut self.rings[ring];
        place.state = State::Free;
        if let Some(load) = self.loads.get_mut(usize::from(place.sender)) {
            load.ring = None;
            load.count = 0;
        }
    }

    /// Nothing that a sender wrote is believed any more; it may go on writing.
    #[cold]
    pub(super) fn blame(&mut self, lane: &mut LaneCore, sender: u16) {
        if let Some(ring) = self.of(sender.into()) {
            self.rings[ring].state = State::Lost;
        }
        lane.distrust(sender);
    }

    /// The owner of a ring that sends least, if one of those in the queue sends much more.
    fn to_evict(&self) -> Option<usize> {
        let busy = |place: &Place| matches!(place.state, State::Free | State::Evicting);
        if self.rings.iter().any(busy) {
            return None;
        }
        let wanted =
            self.wanting.iter().map(|&sender| self.loads[usize::from(sender)].count).max()?;
        let active =
            self.rings.iter().enumerate().filter(|(_, place)| place.state == State::Active);
        let (ring, least) = active.min_by_key(|(_, place)| place.taken)?;
        (u64::from(wanted) > 2 * u64::from(least.taken)).then_some(ring)
    }

    fn begin_period(&mut self) {
        self.seen = 0;
        for load in &mut self.loads {
            load.count /= 2;
        }
        let loads = &self.loads;
        self.wanting.retain(|&sender| loads[usize::from(sender)].count >= PROMOTE_AFTER);
        for place in &mut self.rings {
            place.taken = 0;
        }
    }

    /// Reads the ring that has to be read before the queue goes on.
    pub(super) fn drain_first(
        &mut self,
        lane: &mut LaneCore,
        sink: &mut dyn Sink,
        budget: u32,
    ) -> u32 {
        let Some(ring) = self.drain.take() else { return 0 };
        let taken = self.receive_ring(lane, sink, ring, budget);
        if taken < budget && self.rings[ring].state != State::Free {
            // Rule 2.
            self.blame(lane, self.rings[ring].sender);
        }
        taken
    }

    /// Hands out at most `budget` messages of all rings.
    pub(super) fn receive(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        let rings = self.rings.len();
        let mut handed = 0;
        for step in 0..rings {
            if handed >= budget {
                break;
            }
            let ring = (self.next + step) % rings;
            if matches!(self.rings[ring].state, State::Active | State::Evicting) {
                // A share of the budget for each, so that one that never runs out leaves some.
                let share = (budget - handed).min((budget / 4).max(1));
                handed += self.receive_ring(lane, sink, ring, share);
            }
        }
        self.next = (self.next + 1) % rings.max(1);
        handed
    }

    /// Hands out messages of one ring, and frees it after its end.
    fn receive_ring(
        &mut self,
        lane: &mut LaneCore,
        sink: &mut dyn Sink,
        ring: usize,
        budget: u32,
    ) -> u32 {
        let Place { mut consumer, sender, .. } = self.rings[ring];
        let (handed, sound) = lane.poll_ring(sink, ring, sender, &mut consumer, budget);
        let ended = consumer.is_ended(&lane.ring_words(ring));
        lane.stats.promoted += u64::from(handed);
        let place = &mut self.rings[ring];
        place.consumer = consumer;
        place.taken = place.taken.saturating_add(handed);
        if !sound {
            self.blame(lane, sender);
        } else if ended {
            self.release(ring);
        }
        handed
    }

    /// Offers rings that are free, asks for one back where another sender has sent more, and notifies senders.
    pub(super) fn promote(&mut self, lane: &mut LaneCore) {
        while let Some(ring) = self.rings.iter().position(|place| place.state == State::Free) {
            let loads = &self.loads;
            let busiest = self.wanting.iter().enumerate();
            let busiest = busiest.max_by_key(|(_, sender)| loads[usize::from(**sender)].count);
            let Some((at, &sender)) = busiest else { break };
            self.wanting.swap_remove(at);
            self.offer(lane, ring, sender);
        }
        if self.seen >= PERIOD * lane.shape.rings {
            if let Some(ring) = self.to_evict() {
                let place = &mut self.rings[ring];
                place.state = State::Evicting;
                let sender = place.sender;
                let offer = self.loads[usize::from(sender)].offer;
                self.notices.push_back((sender, Notice::Leave { offer }));
                lane.stats.evictions += 1;
            }
            self.begin_period();
        }
        self.post_notices(lane);
    }

    fn offer(&mut self, lane: &mut LaneCore, ring: usize, sender: u16) {
        let Some(who) =
            lane.senders.get(usize::from(sender)).filter(|who| who.link != SenderEntry::NO_LINK)
        else {
            return;
        };
        let link = &lane.links[who.link as usize];
        // One that is not to be written to, or that has no route words.
        if link.failed.is_some() || !link.shape.promotes() {
            return;
        }
        remote_ring::reset(&lane.ring_words(ring), lane.shape.slots);
        let load = &mut self.loads[usize::from(sender)];
        load.offer = load.offer.wrapping_add(1).max(1);
        load.ring = Some(ring as u16);
        let notice = Notice::Offer { offer: load.offer, ring: ring as u16 };
        let consumer = remote_ring::Consumer::default();
        self.rings[ring] = Place { state: State::Offered, sender, consumer, taken: 0 };
        self.notices.push_back((sender, notice));
        lane.stats.offers += 1;
    }

    fn post_notices(&mut self, lane: &mut LaneCore) {
        while let Some(&(sender, notice)) = self.notices.front() {
            let SenderEntry { link, cookie, status, .. } = lane.senders[usize::from(sender)];
            if link != SenderEntry::NO_LINK && lane.links[link as usize].failed.is_none() {
                // Release: pairs with the sender's Acquire load of its route word: the ring is empty.
                fence(Ordering::Release);
                let to = lane.peers_word(link, status, LinkWord::Route);
                let word = notice.word(cookie);
                if let Outcome::Next(Next::Later) = lane.put_to(to, &word.to_ne_bytes()) {
                    return;
                }
            }
            self.notices.pop_front();
        }
    }

    /// Whether a progress has something to do for a ring.
    pub(super) fn has_work(&self, lane: &LaneCore) -> bool {
        !self.notices.is_empty()
            || self.rings.iter().enumerate().any(|(number, place)| {
                let read = matches!(place.state, State::Active | State::Evicting);
                let words = lane.ring_words(number);
                read && (!place.consumer.is_drained(&words) || place.consumer.is_ended(&words))
            })
    }

    fn rings_of(&self, lane: &LaneCore, link: u32) -> impl Iterator<Item = usize> {
        let senders =
            lane.senders.iter().enumerate().filter(move |(_, sender)| sender.link == link);
        senders.filter_map(|(sender, _)| self.of(sender))
    }

    /// Whether all that a link has sent by its ring has been handed out.
    pub(super) fn is_over(&self, lane: &LaneCore, link: u32) -> bool {
        self.rings_of(lane, link).all(|ring| {
            let place = &self.rings[ring];
            let read = matches!(place.state, State::Active | State::Evicting);
            !read || place.consumer.is_drained(&lane.ring_words(ring))
        })
    }

    /// The sender behind a link is gone: its rings are free.
    pub(super) fn free(&mut self, lane: &LaneCore, link: u32) {
        let rings: Vec<usize> = self.rings_of(lane, link).collect();
        for ring in rings {
            self.release(ring);
        }
    }

    /// Whether a sender has used its ring, so that all of it in the queue is finalised.
    pub(super) fn has_used_ring(&self, lane: &LaneCore, sender: usize) -> bool {
        let ring = self.of(sender);
        ring.is_some_and(|ring| self.rings[ring].consumer.was_used(&lane.ring_words(ring)))
    }

    /// The sender behind `link` whose words have the number `status` has another number now: the rings of its
    /// earlier ones are not used any more, and what was under way to them may still come. On a loopback interface
    /// several senders are behind one link, and the words distinguish them.
    pub(super) fn lose_rings_of(&mut self, lane: &LaneCore, link: u32, status: u32) {
        for (number, sender) in lane.senders.iter().enumerate() {
            if sender.link == link
                && sender.status == status
                && let Some(ring) = self.of(number)
            {
                self.rings[ring].state = State::Lost;
            }
        }
    }
}
