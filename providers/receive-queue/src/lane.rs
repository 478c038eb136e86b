//! A lane of receive queues over a transport without active messages: its parts, and its round of
//! progress. How it is made is in `open`.
//!
//! What all forms have in common is the [`LaneCore`]: transport, memory, links and seats. The receiving side, which
//! differs, is an [`Inbox`]; what the sending side of a link does depends on its peer's form.

use std::collections::VecDeque;

use bowline_base::buffer::RecvBuf;
use bowline_base::drain::Drain;
use bowline_uct::runtime::{EventQueue, NumberTable, WritableList};
use bowline_uct::{
    Arrival, EpId, Iface, IfaceAttr, MemHandle, PeerFailure, Sink, Source, Token, Verdict,
};

use super::damage::Closed;
use super::inbox::Inbox;
use super::layout::Shape;
use super::link::{Link, Seat};
use super::options::QueueStats;
use super::settle::Settlement;
use super::token::{Odd, Owner, What};

/// Events of the transport below in one round.
const NOTES: u32 = 64;

/// What the transport below said while it made progress.
#[derive(Debug)]
pub(super) enum Note {
    Completed(Token, Result<u64, PeerFailure>),
    Writable(EpId),
    Failed(Option<Source>, Option<EpId>, PeerFailure),
}

/// Takes notes.
#[derive(Debug, Default)]
pub(super) struct Notes {
    list: VecDeque<Note>,
    /// Active messages, which nobody may send here.
    strays: u64,
}

impl Sink for Notes {
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        self.strays += 1;
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.list.push_back(Note::Completed(token, result));
    }
    fn writable(&mut self, ep: EpId) {
        self.list.push_back(Note::Writable(ep));
    }
    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.list.push_back(Note::Failed(source, ep, how));
    }
}

/// An interface that carries active messages by receive queues, over one that has puts, gets and
/// fetching atomics. What the transport below has beside that is passed through.
pub struct QueueLane {
    pub(super) core: LaneCore,
    pub(super) inbox: Box<dyn Inbox>,
}

/// All of a lane but the receiving side of its form.
pub(super) struct LaneCore {
    /// Stands first: it is dropped before the words that it may still read to.
    pub(super) inner: Box<dyn Iface>,
    pub(super) attr: IfaceAttr,
    pub(super) stats: QueueStats,
    pub(super) shape: Shape,
    pub(super) memory: MemHandle,
    /// Where it starts.
    pub(super) base: u64,
    pub(super) own_address: Vec<u8>,
    pub(super) nonce: u64,
    /// Slots of a link's waiting messages.
    pub(super) fifo_slots: usize,
    /// Longest put that is copied in the call, and longest short one.
    pub(super) put_max: usize,
    pub(super) put_short: usize,

    /// Links by the number of their endpoint.
    pub(super) links: Vec<Link>,
    /// The words of links that have made room for others: a read into them may be under way yet.
    pub(super) retired: Vec<RecvBuf>,
    /// Links by the endpoint below.
    pub(super) by_inner: NumberTable,
    pub(super) generations: u32,
    /// Links that have something to post.
    pub(super) work: VecDeque<u32>,
    /// Links whose user waits for room.
    pub(super) waiters: WritableList,

    /// The link whose route is looked at next.
    pub(super) next_route: usize,
    /// The link to this lane itself, through which R is swapped where the transport's atomics are
    /// not coherent with the processor's.
    pub(super) own_link: Option<u32>,
    /// Whether that swap is under way, and what it has returned.
    pub(super) flipping: bool,
    pub(super) flip_answer: Option<u64>,
    pub(super) seats: Vec<Seat>,
    /// Seats that are taken and whose records are not whole yet.
    pub(super) unread: Vec<u32>,
    pub(super) staging: RecvBuf,
    pub(super) packing: Vec<u8>,
    pub(super) settlement: Settlement,
    /// Whether nothing is handed out any more.
    pub(super) closed: Option<Closed>,

    pub(super) notes: Notes,
    pub(super) events: EventQueue,
    pub(super) odd: Odd,
    pub(super) flush_alls: VecDeque<Token>,
    /// Flushes that wait for messages to leave.
    pub(super) flushing: usize,
    /// Whether one of them found no room below.
    pub(super) flush_refused: bool,
}

impl std::fmt::Debug for QueueLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueLane").field("attr", &self.core.attr).finish_non_exhaustive()
    }
}

impl QueueLane {
    /// What was posted so far.
    pub const fn stats(&self) -> &QueueStats {
        &self.core.stats
    }

    /// The transport below.
    pub fn below(&self) -> &dyn Iface {
        &*self.core.inner
    }

    /// A round: see the contract.
    pub(super) fn advance(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let Self { core, inbox } = self;
        let mut reported = core.events.report(sink, budget);
        if core.events.len() < NOTES as usize {
            core.look_below(&mut **inbox);
            if budget > reported && core.closed.is_none() {
                reported += inbox.receive(core, sink, budget - reported);
            } else if core.closed.is_some() {
                // A peer that connects from now on has to learn of it.
                core.mark_closed();
                core.read_introductions(&mut **inbox);
            }
            match core.closed {
                None => inbox.settle(core),
                Some(_) => core.tell_all_ends(),
            }
        }
        reported += core.events.report(sink, budget - reported);
        reported += core.tell_writable(sink, budget - reported);
        reported
    }

    /// Whether the next progress has something to do before anything comes from below.
    pub(super) fn has_work(&mut self) -> bool {
        let closed = self.core.closed.is_some();
        self.core.has_work() || !closed && self.inbox.has_messages(&self.core)
    }
}

impl LaneCore {
    /// One look at the transport below, and what follows from it.
    fn look_below(&mut self, inbox: &mut dyn Inbox) {
        self.inner.progress(&mut self.notes, NOTES);
        while let Some(note) = self.notes.list.pop_front() {
            match note {
                Note::Completed(token, result) => self.below_completed(token, result),
                Note::Writable(inner) => {
                    let index = self.by_inner.get(inner.0);
                    if let Some(link) = index.and_then(|i| self.links.get_mut(i as usize)) {
                        link.below_full = false;
                        link.asked_below = false;
                    }
                }
                Note::Failed(source, ep, how) => self.below_failed(inbox, source, ep, how),
            }
        }
        self.follow_next_route();
        self.drive_all();
        self.post_flushes();
    }

    fn has_work(&self) -> bool {
        let ready = |link: &Link| link.may_be_told(self.fifo_slots);
        !self.events.is_empty()
            || !self.work.is_empty()
            || self.flush_refused
            || self.flip_answer.is_some()
            || !self.settlement.ending.is_empty()
            || self.waiters.iter().any(|ep| ready(&self.links[ep.0 as usize]))
    }

    fn below_completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        match self.odd.owner(token) {
            Owner::User(token) => self.events.complete(token, result),
            Owner::Own { what, link, generation } => {
                let known = self.links.get(link as usize).is_some_and(|known| {
                    known.generation & (super::token::GENERATIONS - 1) == generation
                        && (known.failed.is_none() || known.finishing)
                });
                let same = self.links.get(link as usize).is_some_and(|known| {
                    known.generation & (super::token::GENERATIONS - 1) == generation
                });
                match what {
                    What::Status => self.status_answered(link, same && result.is_ok()),
                    What::Step if known => self.step_answered(link, result),
                    What::Settle if known => self.settle_answered(link, result),
                    What::Flip => {
                        self.flipping = false;
                        match result {
                            Ok(old) => self.flip_answer = Some(old),
                            Err(how) => self.lose_flips(how),
                        }
                    }
                    What::Step | What::Settle => {}
                }
            }
            Owner::Nobody => {}
        }
    }

    /// Tells those that have room, in the order of asking.
    fn tell_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let Self { waiters, links, fifo_slots, .. } = self;
        waiters.report(sink, budget, |ep| {
            let link = &mut links[ep.0 as usize];
            let ready = link.may_be_told(*fifo_slots);
            if ready {
                link.refused = 0;
            }
            ready
        })
    }
}

impl LaneCore {
    /// Whether all that was accepted for the living is in their queues.
    pub(super) fn is_quiet(&self) -> bool {
        self.links.iter().all(Link::is_quiet)
    }

    /// Changes when a message has left.
    fn gone(&self) -> (u64, usize) {
        let left = self.links.iter().map(|link| link.fifo.counts().1).sum();
        (left, self.links.iter().filter(|link| link.is_quiet()).count())
    }
}

impl Drop for QueueLane {
    fn drop(&mut self) {
        // Messages that were accepted arrive, if their receivers let them.
        let Self { core, inbox } = self;
        let mut drain = Drain::default();
        let mut gone = core.gone();
        while !core.is_quiet() {
            core.look_below(&mut **inbox);
            core.events.clear();
            let now = core.gone();
            if !drain.goes_on(now != gone) {
                return;
            }
            gone = now;
        }
    }
}
