//! What the lanes of all forms have in common: transport, memory, links and senders. What is done with them is in
//! the files that add methods to [`LaneCore`].

use std::collections::VecDeque;

use bowline_base::buffer::RecvBuf;
use bowline_uct::runtime::{EventQueue, NumberTable, WritableList};
use bowline_uct::{
    Arrival, EpId, Iface, IfaceAttr, MemHandle, PeerFailure, Sink, Source, Token, Verdict,
};

use super::closed::Closed;
use super::layout::Shape;
use super::link::{Link, SenderEntry, Status};
use super::options::QueueStats;
use super::shown::Shown;
use super::token::Odd;

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
    pub(super) list: VecDeque<Note>,
    /// Active messages, which nobody may send here.
    pub(super) strays: u64,
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

/// A settlement of what dead senders have left, see `settle`, and the links that wait for one.
#[derive(Debug, Default)]
pub(super) struct Settlement {
    /// Links whose peers have ended, with the generation under which senders reserved then; `None`
    /// while that is not known.
    pub(super) ending: Vec<(u32, Option<u32>)>,
    /// The generation of the settlement under way.
    pub(super) running: Option<u32>,
    /// The next sender to be asked for.
    pub(super) sender: usize,
    /// What that sender reported first: what it had begun then has to end.
    pub(super) first: Option<Status>,
    /// The link whose answer is waited for, and in which settlement it was asked: an answer to an
    /// earlier one was read before the flip of this one, and proves nothing.
    pub(super) asking: Option<(u32, u32)>,
}

impl Settlement {
    /// Begins the settlement of `generation`, unless it is under way. Whether it begins now: then all senders have
    /// to be known.
    pub(super) fn begins(&mut self, generation: u32) -> bool {
        if self.running == Some(generation) {
            return false;
        }
        self.running = Some(generation);
        self.sender = 0;
        self.first = None;
        true
    }
}

/// All of a lane but the receiving side of its form.
pub(super) struct LaneCore {
    /// The first field: it is dropped before the words that it may still read to.
    pub(super) inner: Box<dyn Iface>,
    pub(super) attr: IfaceAttr,
    pub(super) stats: QueueStats,
    pub(super) shape: Shape,
    pub(super) memory: MemHandle,
    /// Where it starts.
    pub(super) base: u64,
    /// Extents with words of links, and with introductions; whether there is no memory for more of the latter.
    pub(super) words: Vec<Shown>,
    pub(super) records: Vec<Shown>,
    pub(super) no_records: bool,
    pub(super) own_address: Vec<u8>,
    pub(super) nonce: u64,
    /// Slots of a link's waiting messages.
    pub(super) fifo_slots: usize,
    /// Longest put that is copied in the call, and longest short one.
    pub(super) put_max: usize,
    pub(super) put_short: usize,

    /// Links by the number of their endpoint.
    pub(super) links: Vec<Link>,
    /// The words of links that have made space for others: a read into them may be under way yet.
    pub(super) retired: Vec<RecvBuf>,
    /// Links by the endpoint below.
    pub(super) by_inner: NumberTable,
    pub(super) generations: u32,
    /// Links that have something to post.
    pub(super) work: VecDeque<u32>,
    /// Links whose user waits for space.
    pub(super) waiters: WritableList,

    /// The link whose route is read next.
    pub(super) next_route: usize,
    /// The link to this lane itself, through which R is swapped where the transport's atomics are
    /// not coherent with the processor's.
    pub(super) own_link: Option<u32>,
    /// Whether that swap is under way, and what it has returned.
    pub(super) flipping: bool,
    pub(super) flip_answer: Option<u64>,
    pub(super) senders: Vec<SenderEntry>,
    /// Numbers that are taken and whose records are not whole yet.
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
    /// Whether the transport below had no resources for one of them.
    pub(super) flush_refused: bool,
}

impl LaneCore {
    /// Whether all that was accepted for the living is in their queues.
    pub(super) fn is_quiet(&self) -> bool {
        self.links.iter().all(Link::is_quiet)
    }

    /// Changes when a message has left.
    pub(super) fn gone(&self) -> (u64, usize) {
        let left = self.links.iter().map(|link| link.fifo.counts().1).sum();
        (left, self.links.iter().filter(|link| link.is_quiet()).count())
    }

    pub(super) fn has_work(&self) -> bool {
        let ready = |link: &Link| link.is_writable(self.fifo_slots);
        !self.events.is_empty()
            || !self.work.is_empty()
            || self.flush_refused
            || self.flip_answer.is_some()
            || !self.settlement.ending.is_empty()
            || self.waiters.iter().any(|ep| ready(&self.links[ep.0 as usize]))
    }

    /// Reports those that have space, in the order of asking.
    pub(super) fn report_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let Self { waiters, links, fifo_slots, .. } = self;
        waiters.report(sink, budget, |ep| {
            let link = &mut links[ep.0 as usize];
            let ready = link.is_writable(*fifo_slots);
            if ready {
                link.refused = 0;
            }
            ready
        })
    }
}
