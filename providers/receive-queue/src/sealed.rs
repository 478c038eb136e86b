//! The form with seals: a message tells by itself that it has landed. The queue is
//! [`bowline_base::scmp::sealed`]; here are its receiver's rounds, and in `seal` its sender's steps.
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
use bowline_base::scmp::published;
use bowline_base::scmp::sealed::{self, Sealed, Sources, key};
use bowline_base::sync::atomic::Ordering;
use bowline_base::words::ViewWords;
use bowline_uct::{AmId, Arrival, AtomicOp, Sink, Source};

use super::lane::QueueLane;
use super::link::{Seat, Trust};
use super::options::QueueForm;

/// Rounds in a row that find the queue stalled, after which it is settled although nobody has ended.
const PATIENCE: u32 = 4096;

/// Rounds that find nothing, after each of which the receiver asks whether something is reserved: that
/// is a load of the word that every sender adds to, which a look at an empty queue does without.
const ASK_EVERY: u32 = 256;

/// The consumer, and for how many rounds it has found nothing.
#[derive(Debug)]
pub(super) struct Inbox {
    consumer: sealed::Consumer<()>,
    missing: u32,
}

impl Inbox {
    pub(super) fn new(consumer: sealed::Consumer<()>) -> Self {
        Self { consumer, missing: 0 }
    }

    /// The generation under which senders reserve.
    pub(super) const fn generation(&self) -> u32 {
        self.consumer.producers_tag()
    }
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

impl QueueLane {
    /// Does something with the consumer over the queue's memory.
    fn with_inbox<T>(
        &mut self,
        act: impl FnOnce(&mut sealed::Consumer<ViewWords<'_>>, &mut u32) -> T,
    ) -> Option<T> {
        let Inbox { consumer, mut missing } = self.inbox.take()?;
        let view = self.inner.mem_view(self.memory);
        let words = view.and_then(|view| ViewWords::new(view.slice(0, self.shape.queue_bytes())?));
        let words = words.expect("the lane's memory is kept until it is dropped");
        let mut consumer = consumer.rehome(words);
        let result = act(&mut consumer, &mut missing);
        self.inbox = Some(Inbox { consumer: consumer.rehome(()), missing });
        Some(result)
    }

    /// Hands out at most `budget` messages.
    pub(super) fn receive_sealed(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut handed = 0;
        // What follows a flip by the processor is looked at in the same round.
        for _ in 0..2 {
            handed += self.poll_sealed(sink, budget - handed);
            if !self.flip_sealed() || handed == budget {
                break;
            }
        }
        handed
    }

    fn poll_sealed(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let Some(Inbox { consumer, missing }) = self.inbox.take() else { return 0 };
        let view = self.inner.mem_view(self.memory);
        let words = view.and_then(|view| ViewWords::new(view.slice(0, self.shape.queue_bytes())?));
        let words = words.expect("the lane's memory is kept until it is dropped");
        let mut consumer = consumer.rehome(words);
        let flipped = self.flip_answer.take().map_or(Ok(()), |old| consumer.flipped(old));
        let links = &self.links;
        let gone = |link: u32| links[link as usize].gone;
        let mut senders = Senders {
            seats: &mut self.seats,
            sink,
            gone: &gone,
            handed: 0,
            strangers: 0,
            unread: false,
            damaged: None,
        };
        let polled = consumer.poll(budget, &mut senders, &mut self.staging);
        let Senders { handed, strangers, unread, mut damaged, .. } = senders;
        self.inbox = Some(Inbox { consumer: consumer.rehome(()), missing });
        self.stats.received += u64::from(handed);
        if strangers > 0 {
            self.stats.strangers += strangers;
            tracing::warn!(strangers, "messages of nobody known in the receive queue; dropped");
        }
        match flipped.and(polled.map(|_| ())) {
            Ok(()) => {}
            Err(Fault::Source { source_id }) => damaged = Some(source_id),
            Err(Fault::Poisoned(damage)) => self.poison(damage),
        }
        if let Some(source) = damaged {
            self.blame(source);
        }
        if unread {
            self.read_introductions();
        }
        handed
    }

    /// Swaps R, if it is time: by the processor, or through the own device. Whether the answer is
    /// there.
    fn flip_sealed(&mut self) -> bool {
        let Some(inbox) = self.inbox.as_ref().filter(|inbox| inbox.consumer.wants_flip()) else {
            return false;
        };
        if self.flip_is_under_way() || self.closed.is_some() {
            return false;
        }
        let flip = inbox.consumer.flip_word();
        if self.own_link.is_none() {
            let view = self.inner.mem_view(self.memory);
            let Some(word) = view.and_then(|view| view.word(published::R_BYTE)) else {
                return false;
            };
            // AcqRel. Acquire: pairs with the producers' additions. Release: the half that is exposed
            // here was cleared before.
            self.flip_answer = Some(word.swap(flip, Ordering::AcqRel));
            return true;
        }
        match self.swap_own(AtomicOp::Swap(flip)) {
            Ok(answer) => {
                self.flipping = answer.is_none();
                self.flip_answer = answer;
            }
            Err(error) => self.flip_refused(error),
        }
        self.flip_answer.is_some()
    }

    /// Whether a progress has something to do (rule 4).
    pub(super) fn sealed_has_messages(&mut self) -> bool {
        let flipping = self.flipping;
        let look = |consumer: &mut sealed::Consumer<ViewWords<'_>>, missing: &mut u32| {
            let patient = *missing < 2 * PATIENCE;
            let due = consumer.wants_flip() && !flipping;
            due || patient && (consumer.ready() || consumer.stalled())
        };
        self.with_inbox(look).unwrap_or(false)
    }

    /// Lets the queue go on past what does not come, and tells of ends whose time has come.
    pub(super) fn settle_sealed(&mut self) {
        let some_end = !self.settlement.ending.is_empty();
        let Some(Inbox { consumer, missing }) = &mut self.inbox else { return };
        *missing = if consumer.is_missing() { missing.saturating_add(1) } else { 0 };
        let patient = *missing < PATIENCE;
        if *missing == 0 {
            self.settlement.running = None;
        }
        if !some_end && patient && (*missing == 0 || !missing.is_multiple_of(ASK_EVERY)) {
            return;
        }
        let looked = self.with_inbox(|consumer, missing| {
            let now = consumer.stalled();
            if !now {
                *missing = 0;
            }
            let settles = now && (some_end || !patient);
            if settles {
                // Only what was reserved before the flip can be asked for.
                consumer.demand_flip();
            }
            (settles, consumer.is_active(), consumer.is_drained(), consumer.producers_tag())
        });
        let Some((settles, active, drained, generation)) = looked else { return };
        if settles {
            if !active {
                self.settle(generation);
            }
            return;
        }
        self.settlement.running = None;
        if self.flip_is_under_way() {
            return;
        }
        let mut at = 0;
        while let Some((link, noticed)) = self.settlement.ending.get_mut(at) {
            let (link, noticed) = (*link, *noticed.get_or_insert(generation));
            if active && (noticed != generation || drained) {
                self.settlement.ending.swap_remove(at);
                self.tell_failure(link);
            } else {
                at += 1;
            }
        }
    }

    /// All that living senders had reserved before the flip has landed.
    pub(super) fn resolve_sealed(&mut self) {
        // A reservation of a dead one that did not end: there may be several, since nothing waits for
        // a put. They are no more than a half. Nobody knows of the refused whether they live.
        let unknown = |seat: &&Seat| {
            let nobody = seat.link == Seat::NOBODY;
            nobody && seat.trust == Trust::Known || !nobody && self.links[seat.link as usize].gone
        };
        let accounted = if self.seats.iter().any(|seat| unknown(&seat)) {
            u64::from(self.shape.slots)
        } else {
            0
        };
        self.with_inbox(|consumer, missing| {
            consumer.resolve(accounted);
            *missing = 0;
        });
        self.settlement.running = None;
        self.stats.settlements += 1;
    }

    /// Nothing of a seat is believed any more; it may go on writing (rule 3).
    pub(super) fn lose_sealed(&mut self, source: u16) -> Option<u32> {
        let seat = self.seats.get_mut(usize::from(source))?;
        if seat.trust != Trust::Known {
            return None;
        }
        seat.trust = Trust::Lost;
        Some(seat.link).filter(|&link| link != Seat::NOBODY)
    }

    /// Whether this lane's own queue has seals.
    pub(super) const fn has_seals(&self) -> bool {
        matches!(self.shape.form, QueueForm::ScmpSeq)
    }
}
