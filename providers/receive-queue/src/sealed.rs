//! The receiving side of the form with seals: each message has a check that shows whether all of it is there. The queue is
//! [`bowline_base::scmp::sealed`]; what its senders do is in `seal`.
//!
//! Two operations a message: a fetch-and-add that reserves, and a put. Nothing is finalised, no
//! order between the two is asked of the transport, and the receiver looks at slots, not at a
//! counter.
//!
//! ```text
//!   Ready ─► Reserving ──ticket──► Put ─► Ready           nothing waits: a flush, beside
//!    ▲           │ does not fit
//!    │           ├──at the end of the half──► Void ─┐
//!    │           └──behind it───────────────────────┴─► Look ◄─the same─ Looking
//!    └───────────────────────another generation──────────────────────────┘
//! ```
//!
//! 1. *What has landed*: nobody answers a put. A sender with nothing more to send flushes beside, and
//!    where puts are not visible before later atomics, after each put as well, one flush at a time. What was
//!    reserved before the flush has ended when that is answered; only then says the status word so
//!    (see `settle`). No message waits for it; the end of a link, and the drop of a lane, do.
//! 2. *Stalled* is a queue in which something is reserved where the receiver looks, and is not there
//!    whole. Mostly it comes. When a peer has ended, or after [`PATIENCE`] rounds, the receiver flips
//!    and settles: it asks every living sender for its status word, and when all of what they had
//!    begun has landed, what still does not fit was left by the dead, or was damaged.
//! 3. *Blame*: a slot that was skipped and names a living sender is that one's damage, as in the
//!    other forms. Its seat is lost: nothing of it fits any more. It is asked at settlements until
//!    it has ended, since it may write until then.
//! 4. *Emptiness*: the receiver may sleep, if the transport wakes, when the next slot has another tag.
//!    While something is on its way it stays awake for [`PATIENCE`] rounds and as many for a settlement,
//!    then it sleeps: the put that is missing wakes it.
//! 5. A sender that has no seat's record read yet, and one whose introduction was refused, cannot be
//!    told apart by a slot: the records are read when an unknown seat is met. Of the refused, the
//!    cookie is kept, so that their messages are found whole, and dropped.

use bowline_base::scmp::Fault;
use bowline_base::scmp::sealed::{self, Sealed, Sources, key};
use bowline_base::words::ViewWords;
use bowline_uct::{AmId, Arrival, OpenError, PeerFailure, Sink, Source};

use super::inbox::{Inbox, words_at};
use super::lane::LaneCore;
use super::link::{Seat, Trust};

/// Rounds in a row that find the queue stalled, after which it is settled although nobody has ended.
const PATIENCE: u32 = 4096;

/// Rounds that find nothing, after each of which the receiver asks whether something is reserved: that
/// is a load of the word that every sender adds to, which a look at an empty queue does without.
const ASK_EVERY: u32 = 256;

/// SCMP with the sequence in the slot.
pub(super) struct SealedInbox {
    /// Always there between two calls.
    consumer: Option<sealed::Consumer<()>>,
    /// Rounds in a row that have found nothing while something was on its way.
    missing: u32,
}

/// The seats, as the consumer asks for them, and what it hands out.
struct Senders<'a> {
    seats: &'a mut [Seat],
    sink: &'a mut dyn Sink,
    /// Whether the sender behind a link is gone, and not to be blamed for a hole.
    gone: &'a dyn Fn(u32) -> bool,
    handed: u32,
    strangers: u64,
    /// A seat was met whose record was not read.
    unread: bool,
    damaged: Option<u16>,
}

impl Sources for Senders<'_> {
    fn key(&mut self, source: u16) -> Option<u64> {
        match self.seats.get(usize::from(source)) {
            Some(seat) if seat.trust == Trust::Known => Some(key(seat.cookie, seat.next)),
            Some(seat) if seat.trust == Trust::Lost => None,
            _ => {
                self.unread = true;
                None
            }
        }
    }

    fn take(&mut self, message: Sealed<'_>) {
        let Some(seat) = self.seats.get_mut(usize::from(message.source)) else { return };
        seat.next = seat.next.wrapping_add(1);
        if seat.link == Seat::NOBODY {
            self.strangers += 1;
            return;
        }
        let Some(id) = AmId::from_wire(message.id) else {
            self.damaged = Some(message.source);
            return;
        };
        let Sealed { header, payload, .. } = message;
        let _ =
            self.sink.am(Arrival { source: Source(seat.link), id, header, payload, desc: None });
        self.handed += 1;
    }

    fn void(&mut self, source: u16) {
        if let Some(seat) = self.seats.get_mut(usize::from(source)) {
            seat.next = seat.next.wrapping_add(1);
        }
    }

    fn hole(&mut self, source: Option<u16>) -> bool {
        let seat = source.and_then(|source| self.seats.get(usize::from(source)));
        match seat {
            None => return false,
            Some(seat) if seat.trust == Trust::Unread => return false,
            Some(seat) if seat.link == Seat::NOBODY => self.strangers += 1,
            Some(seat) if seat.trust == Trust::Known && !(self.gone)(seat.link) => {
                self.damaged = source;
            }
            Some(_) => {}
        }
        true
    }
}

impl SealedInbox {
    /// A new queue in zeroed memory.
    pub(super) fn new(words: ViewWords<'_>, slots: u32) -> Result<Self, OpenError> {
        let made =
            sealed::init(words, slots).map_err(|error| OpenError::Limit(error.to_string()))?;
        Ok(Self { consumer: Some(made.rehome(())), missing: 0 })
    }

    /// Does something with the consumer over the queue's memory; `None` while it is polled.
    fn with<T>(
        &mut self,
        lane: &LaneCore,
        act: impl FnOnce(&mut sealed::Consumer<ViewWords<'_>>) -> T,
    ) -> Option<T> {
        let words = words_at(&*lane.inner, lane.memory, 0, lane.shape.queue_bytes());
        let mut consumer = self.consumer.take()?.rehome(words);
        let result = act(&mut consumer);
        self.consumer = Some(consumer.rehome(()));
        Some(result)
    }

    fn poll(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        let Some(consumer) = self.consumer.take() else { return 0 };
        let words = words_at(&*lane.inner, lane.memory, 0, lane.shape.queue_bytes());
        let mut consumer = consumer.rehome(words);
        let flipped = lane.flip_answer.take().map_or(Ok(()), |old| consumer.flipped(old));
        let links = &lane.links;
        let gone = |link: u32| links[link as usize].gone;
        let mut senders = Senders {
            seats: &mut lane.seats,
            sink,
            gone: &gone,
            handed: 0,
            strangers: 0,
            unread: false,
            damaged: None,
        };
        let polled = consumer.poll(budget, &mut senders, &mut lane.staging);
        let Senders { handed, strangers, unread, mut damaged, .. } = senders;
        self.consumer = Some(consumer.rehome(()));
        lane.stats.received += u64::from(handed);
        lane.count_strangers(strangers);
        match flipped.and(polled.map(|_| ())) {
            Ok(()) => {}
            Err(Fault::Source { source_id }) => damaged = Some(source_id),
            Err(Fault::Poisoned(damage)) => lane.poison(damage),
        }
        if let Some(source) = damaged {
            blame(lane, source);
        }
        if unread {
            lane.read_introductions(self);
        }
        handed
    }

    /// Flips, if it is time. Whether the answer is there.
    fn flip(&self, lane: &mut LaneCore) -> bool {
        let Some(consumer) = self.consumer.as_ref().filter(|consumer| consumer.wants_flip()) else {
            return false;
        };
        let under_way = lane.flip_is_under_way();
        lane.flip(consumer.flip_word());
        !under_way && lane.flip_answer.is_some()
    }

    /// All that living senders had reserved before the flip has landed: the queue goes on past what is missing.
    fn resolve(&mut self, lane: &mut LaneCore) {
        // A reservation of a dead one that did not end: there may be several, since nothing waits for
        // a put. They are no more than a half. Nobody knows of the refused whether they live.
        let refused = |seat: &Seat| seat.link == Seat::NOBODY && seat.trust == Trust::Known;
        let unknown = lane.seats.iter().any(|seat| refused(seat) || lane.is_gone(seat));
        let accounted = if unknown { u64::from(lane.shape.slots) } else { 0 };
        self.with(lane, |consumer| consumer.resolve(accounted));
        self.missing = 0;
        lane.settlement.running = None;
        lane.stats.settlements += 1;
    }
}

/// Nothing of a seat is believed any more; it may go on writing (rule 3).
#[cold]
fn blame(lane: &mut LaneCore, source: u16) {
    let seat = lane.seats.get_mut(usize::from(source));
    let Some(seat) = seat.filter(|seat| seat.trust == Trust::Known) else { return };
    seat.trust = Trust::Lost;
    let link = seat.link;
    if link != Seat::NOBODY {
        lane.break_link(link, PeerFailure::Damaged);
    }
}

impl Inbox for SealedInbox {
    fn receive(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut handed = 0;
        // What follows a flip by the processor is looked at in the same round.
        for _ in 0..2 {
            handed += self.poll(lane, sink, budget - handed);
            if !self.flip(lane) || handed == budget {
                break;
            }
        }
        handed
    }

    /// See rule 4.
    fn has_messages(&mut self, lane: &LaneCore) -> bool {
        let patient = self.missing < 2 * PATIENCE;
        let look = |consumer: &mut sealed::Consumer<ViewWords<'_>>| {
            let due = consumer.wants_flip() && !lane.flipping;
            due || patient && (consumer.ready() || consumer.stalled())
        };
        self.with(lane, look).unwrap_or(false)
    }

    fn settle(&mut self, lane: &mut LaneCore) {
        let some_end = !lane.settlement.ending.is_empty();
        let Some(consumer) = &self.consumer else { return };
        self.missing = if consumer.is_missing() { self.missing.saturating_add(1) } else { 0 };
        let patient = self.missing < PATIENCE;
        if self.missing == 0 {
            lane.settlement.running = None;
        }
        if !some_end && patient && (self.missing == 0 || !self.missing.is_multiple_of(ASK_EVERY)) {
            return;
        }
        let looked = self.with(lane, |consumer| {
            let stalled = consumer.stalled();
            if stalled && (some_end || !patient) {
                // Only what was reserved before the flip can be asked for.
                consumer.demand_flip();
            }
            (stalled, consumer.is_active(), consumer.is_drained(), consumer.producers_tag())
        });
        let Some((stalled, active, drained, generation)) = looked else { return };
        if !stalled {
            self.missing = 0;
        }
        if stalled && (some_end || !patient) {
            if !active {
                if lane.settlement.begins(generation) {
                    lane.read_introductions(self);
                }
                if lane.ask_the_living(generation) {
                    self.resolve(lane);
                }
            }
            return;
        }
        lane.settlement.running = None;
        if !lane.flip_is_under_way() {
            lane.tell_ends(generation, |_, _, flipped| active && (flipped || drained));
        }
    }

    fn generation(&self) -> u32 {
        self.consumer.as_ref().map_or(0, sealed::Consumer::producers_tag)
    }
}
