//! The receiving side of the form with checksums: each message has a check that shows whether all of it is there. The queue is
//! [`bowline_base::scmp::checksummed`]; what its senders do is in `checksum`.
//!
//! Two operations a message: a fetch-and-add that reserves, and a put. Nothing is finalised, no
//! order between the two is asked of the transport, and the receiver reads slots, not a
//! counter.
//!
//! ```text
//!   Ready ─► Reserving ──ticket──► Put ─► Ready           nothing waits: a flush, beside
//!    ▲           │ does not fit
//!    │           ├──at the end of the half──► Void ─┐
//!    │           └──behind it───────────────────────┴─► Poll ◄─the same─ Polling
//!    └───────────────────────another generation──────────────────────────┘
//! ```
//!
//! 1. *What has landed*: nobody answers a put. A sender with nothing more to send flushes beside, and
//!    where puts are not visible before later atomics, after each put as well, one flush at a time. What was
//!    reserved before the flush has ended when that is answered; only then says the status word so
//!    (see `settle`). No message waits for it; the end of a link, and the drop of a lane, do.
//! 2. *Stalled* is a queue in which something is reserved at the receiver's place, and is not there
//!    whole. Mostly it comes. When a peer has ended, or after [`PATIENCE`] rounds, the receiver flips
//!    and settles: it asks every living sender for its status word, and when all of what they had
//!    begun has landed, what still does not fit was left by the dead, or was damaged.
//! 3. *Blame*: a slot that was skipped and names a living sender is that one's damage, as in the
//!    other forms. Its number is lost: nothing of it fits any more. It is asked at settlements until
//!    it has ended, since it may write until then.
//! 4. *Emptiness*: the receiver may sleep, if the transport wakes, when the next slot has another tag.
//!    While something is on its way it stays awake for [`PATIENCE`] rounds and as many for a settlement,
//!    then it sleeps: the put that is missing wakes it.
//! 5. A sender whose record was not read yet, and one whose introduction was refused, are alike
//!    in a slot: the records are read when an unknown number is met. Of the refused, the
//!    cookie is kept, so that their messages are found whole, and dropped.

use bowline_base::scmp::Fault;
use bowline_base::scmp::checksummed::{self, Checksummed, Sources, key};
use bowline_base::words::ViewWords;
use bowline_uct::{AmId, Arrival, OpenError, PeerFailure, Sink, Source};

use super::inbox::{Inbox, words_at};
use super::lane_core::LaneCore;
use super::link::{SenderEntry, Trust};

/// Rounds in a row that find the queue stalled, after which it is settled although nobody has ended.
const PATIENCE: u32 = 4096;

/// Rounds that find nothing, after each of which the receiver asks whether something is reserved: that
/// is a load of the word that every sender adds to, which a poll of an empty queue does without.
const ASK_EVERY: u32 = 256;

/// SCMP with the sequence in the slot.
pub(super) struct ChecksummedInbox {
    /// Always there between two calls.
    consumer: Option<checksummed::Consumer<()>>,
    /// Rounds in a row that have found nothing while something was on its way.
    missing: u32,
}

/// The senders, as the consumer asks for them, and what it hands out.
struct Senders<'a> {
    senders: &'a mut [SenderEntry],
    sink: &'a mut dyn Sink,
    /// Whether the sender behind a link is gone, and not to be blamed for a hole.
    gone: &'a dyn Fn(u32) -> bool,
    handed: u32,
    unknown_senders: u64,
    /// A number was met whose record was not read.
    unread: bool,
    damaged: Option<u16>,
}

impl Sources for Senders<'_> {
    fn key(&mut self, source: u16) -> Option<u64> {
        match self.senders.get(usize::from(source)) {
            Some(sender) if sender.trust == Trust::Known => Some(key(sender.cookie, sender.next)),
            Some(sender) if sender.trust == Trust::Lost => None,
            _ => {
                self.unread = true;
                None
            }
        }
    }

    fn take(&mut self, message: Checksummed<'_>) {
        let Some(sender) = self.senders.get_mut(usize::from(message.source)) else { return };
        sender.next = sender.next.wrapping_add(1);
        if sender.link == SenderEntry::NO_LINK {
            self.unknown_senders += 1;
            return;
        }
        let Some(id) = AmId::from_wire(message.id) else {
            self.damaged = Some(message.source);
            return;
        };
        let Checksummed { header, payload, .. } = message;
        let _ = self.sink.am(Arrival { source: Source(sender.link), id, header, payload });
        self.handed += 1;
    }

    fn void(&mut self, source: u16) {
        if let Some(sender) = self.senders.get_mut(usize::from(source)) {
            sender.next = sender.next.wrapping_add(1);
        }
    }

    fn hole(&mut self, source: Option<u16>) -> bool {
        let sender = source.and_then(|source| self.senders.get(usize::from(source)));
        match sender {
            None => return false,
            Some(sender) if sender.trust == Trust::Unread => return false,
            Some(sender) if sender.link == SenderEntry::NO_LINK => self.unknown_senders += 1,
            Some(sender) if sender.trust == Trust::Known && !(self.gone)(sender.link) => {
                self.damaged = source;
            }
            Some(_) => {}
        }
        true
    }
}

impl ChecksummedInbox {
    /// A new queue in zeroed memory.
    pub(super) fn new(words: ViewWords<'_>, slots: u32) -> Result<Self, OpenError> {
        let made =
            checksummed::init(words, slots).map_err(|error| OpenError::Limit(error.to_string()))?;
        Ok(Self { consumer: Some(made.rehome(())), missing: 0 })
    }

    /// Does something with the consumer over the queue's memory; `None` while it is polled.
    fn with<T>(
        &mut self,
        lane: &LaneCore,
        act: impl FnOnce(&mut checksummed::Consumer<ViewWords<'_>>) -> T,
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
            senders: &mut lane.senders,
            sink,
            gone: &gone,
            handed: 0,
            unknown_senders: 0,
            unread: false,
            damaged: None,
        };
        let polled = consumer.poll(budget, &mut senders, &mut lane.staging);
        let Senders { handed, unknown_senders, unread, mut damaged, .. } = senders;
        self.consumer = Some(consumer.rehome(()));
        lane.stats.received += u64::from(handed);
        lane.count_unknown_senders(unknown_senders);
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
        let refused = |sender: &SenderEntry| {
            sender.link == SenderEntry::NO_LINK && sender.trust == Trust::Known
        };
        let unknown = lane.senders.iter().any(|sender| refused(sender) || lane.is_gone(sender));
        let accounted = if unknown { u64::from(lane.shape.slots) } else { 0 };
        self.with(lane, |consumer| consumer.resolve(accounted));
        self.missing = 0;
        lane.settlement.running = None;
        lane.stats.settlements += 1;
    }
}

/// Nothing of a sender is believed any more; it may go on writing (rule 3).
#[cold]
fn blame(lane: &mut LaneCore, source: u16) {
    let sender = lane.senders.get_mut(usize::from(source));
    let Some(sender) = sender.filter(|sender| sender.trust == Trust::Known) else { return };
    sender.trust = Trust::Lost;
    let link = sender.link;
    if link != SenderEntry::NO_LINK {
        lane.break_link(link, PeerFailure::Damaged);
    }
}

impl Inbox for ChecksummedInbox {
    fn receive(&mut self, lane: &mut LaneCore, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut handed = 0;
        lane.make_records();
        // What follows a flip by the processor is polled in the same round.
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
        let check = |consumer: &mut checksummed::Consumer<ViewWords<'_>>| {
            let due = consumer.wants_flip() && !lane.flipping;
            due || patient && (consumer.ready() || consumer.stalled())
        };
        self.with(lane, check).unwrap_or(false)
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
        let state = self.with(lane, |consumer| {
            let stalled = consumer.stalled();
            if stalled && (some_end || !patient) {
                // Only what was reserved before the flip can be asked for.
                consumer.demand_flip();
            }
            (stalled, consumer.is_active(), consumer.is_drained(), consumer.producers_tag())
        });
        let Some((stalled, active, drained, generation)) = state else { return };
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
            lane.report_ends(generation, |_, _, flipped| active && (flipped || drained));
        }
    }

    fn generation(&self) -> u32 {
        self.consumer.as_ref().map_or(0, checksummed::Consumer::producers_tag)
    }
}
