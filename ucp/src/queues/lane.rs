//! A lane of receive queues over a transport without active messages: its parts, how it is made,
//! and its round of progress.

use std::collections::VecDeque;
use std::time::Duration;

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::{Doorbell, Sleep};
use bowline_base::scmp::max_message_bytes;
use bowline_base::scmp::published::{self, Consumer, solo};
use bowline_base::scmp::sealed;
use bowline_base::words::ViewWords;
use bowline_uct::{
    Arrival, AtomicOps, Caps, EpId, Iface, IfaceAttr, MemHandle, OpLimits, OpenError, PeerFailure,
    Sink, Source, Token, Verdict,
};

use super::address::{self, Address, Introduction};
use super::layout::{MAX_PEERS, Shape};
use super::link::{Link, Seat};
use super::locked;
use super::options::{QueueForm, QueueOptions, QueueStats};
use super::promote::Promotion;
use super::sealed::Inbox;
use super::settle::Settlement;
use super::token::{Odd, Owner, What};

/// Events of the transport below in one round.
const NOTES: u32 = 64;

/// Longest short message, in bytes: three slots.
const MAX_SHORT: usize = 24 + 2 * 56;

/// Longest packed message, in bytes.
const MAX_BCOPY: usize = 8192;

/// Rounds without any event after which a lane that is dropped gives up what it still has to send,
/// and those after which it lets others have the processor.
const LAST_ROUNDS: u32 = 20_000;
const LAST_SPINS: u32 = 200;

/// The same where peers have to take part, who may be waiting for a processor: naps after the last
/// round, and how long one is.
const LAST_NAPS: u32 = 2000;
const NAP: Duration = Duration::from_millis(1);

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

/// What the user is to be told.
#[derive(Debug)]
pub(super) enum Event {
    Completed(Token, Result<u64, PeerFailure>),
    Failed(Option<Source>, Option<EpId>, PeerFailure),
}

/// An interface that carries active messages by receive queues, over one that has puts, gets and
/// fetching atomics. What the transport below has beside that is passed through.
pub struct QueueLane {
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
    /// Links by the endpoint below.
    pub(super) by_inner: Vec<Option<u32>>,
    pub(super) generations: u32,
    /// Links that have something to post.
    pub(super) work: VecDeque<u32>,
    /// Links whose user waits for room, in the order of asking.
    pub(super) asked: VecDeque<u32>,

    pub(super) consumer: Option<Consumer<()>>,
    /// In place of it, where messages are sealed.
    pub(super) inbox: Option<Inbox>,
    /// Rings by seat, in place of the queue, and the one whose turn is first.
    pub(super) rings: Vec<solo::Consumer>,
    pub(super) next_ring: usize,
    /// Rings for those who send most, and the link whose way is looked at next.
    pub(super) promotion: Promotion,
    pub(super) next_way: usize,
    /// The link to this lane itself, through which R is swapped where the transport's atomics are
    /// not coherent with the processor's.
    pub(super) own_link: Option<u32>,
    /// Whether that swap is under way, and what it has returned.
    pub(super) flipping: bool,
    pub(super) flip_answer: Option<u64>,
    /// What R was to be when the locked queue was to be flipped.
    pub(super) flip_expected: u64,
    pub(super) seats: Vec<Seat>,
    /// Seats that are taken and whose records are not whole yet.
    pub(super) unread: Vec<u32>,
    pub(super) staging: RecvBuf,
    pub(super) packing: Vec<u8>,
    pub(super) settlement: Settlement,
    pub(super) poisoned: bool,

    notes: Notes,
    pub(super) pending: VecDeque<Event>,
    pub(super) odd: Odd,
    pub(super) flush_alls: VecDeque<Token>,
    /// Flushes that wait for messages to leave.
    pub(super) flushing: usize,
    /// Whether one of them found no room below.
    pub(super) flush_refused: bool,
}

impl std::fmt::Debug for QueueLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueLane").field("attr", &self.attr).finish_non_exhaustive()
    }
}

impl QueueLane {
    /// Whether queues of this form can stand on a transport like this, or what it lacks.
    ///
    /// # Errors
    /// What it lacks, in words.
    pub fn fits(attr: &IfaceAttr, form: QueueForm) -> Result<(), &'static str> {
        if !attr.caps.intersects(Caps::PUT_SHORT | Caps::PUT_BCOPY) {
            return Err("puts that are copied in the call");
        }
        if !attr.caps.intersects(Caps::GET_BCOPY | Caps::GET_ZCOPY) {
            return Err("gets");
        }
        if !attr.atomic_fetch.contains(AtomicOps::ADD) {
            return Err("a fetching addition");
        }
        let flip = match form {
            QueueForm::Scmp | QueueForm::ScmpRings | QueueForm::ScmpSeq => AtomicOps::SWAP,
            QueueForm::Locked => AtomicOps::CSWAP,
            QueueForm::Ring => AtomicOps::empty(),
        };
        if form == QueueForm::Locked && !attr.atomic_fetch.contains(flip) {
            return Err("a compare-and-swap for its lock");
        }
        let by_device = attr.caps.contains(Caps::ATOMIC_DEVICE) && attr.atomic_fetch.contains(flip);
        if !attr.caps.contains(Caps::ATOMIC_CPU) && !by_device {
            return Err("atomics coherent with the processor's, or a swap among its own");
        }
        Ok(())
    }

    /// Puts receive queues over `inner`. `uid` is different for every lane of a job.
    ///
    /// # Errors
    /// When `inner` lacks an operation that queues need, or memory for the queue.
    pub fn open(
        mut inner: Box<dyn Iface>,
        options: &QueueOptions,
        uid: u64,
    ) -> Result<Self, OpenError> {
        let below = inner.attr().clone();
        let form = options.form;
        if let Err(what) = Self::fits(&below, form) {
            let why = format!("receive queues over {} need {what}", below.provider);
            return Err(OpenError::Limit(why));
        }
        let most = if form == QueueForm::Locked { locked::MAX_PEERS } else { MAX_PEERS };
        let rings = if form == QueueForm::ScmpRings { options.rings } else { 0 };
        let peers = options.peers.min(most);
        let shape = Shape { form, slots: options.slots, peers, rings };
        if !shape.is_possible() {
            let why = "BOWLINE_RECV_QUEUE_SLOTS must be a power of two, and there must be a peer, \
                       and a ring where they are used";
            return Err(OpenError::Limit(why.to_owned()));
        }
        let memory = if inner.md_attr().can_alloc {
            inner.mem_alloc(shape.bytes())
        } else {
            inner.mem_register(RecvBuf::owned(vec![0; shape.bytes()]))
        };
        let memory = memory.map_err(|error| queue_memory(&error))?;
        let key = inner.rkey_pack(memory).map_err(|error| queue_memory(&error))?;
        let view = inner.mem_view(memory).ok_or_else(|| OpenError::Limit("no memory".into()))?;
        let base = view.as_ptr().addr() as u64;
        let words = ViewWords::new(view)
            .ok_or_else(|| OpenError::Limit("a receive queue has to start on a line".into()))?;
        // Rings are empty when they are zero, as fresh memory is, and nobody flips them.
        let is_ring = form == QueueForm::Ring;
        let by_device = !is_ring && !below.caps.contains(Caps::ATOMIC_CPU);
        let (mut consumer, mut inbox) = (None, None);
        if form == QueueForm::ScmpSeq {
            let made = sealed::init(words, shape.slots)
                .map_err(|error| OpenError::Limit(error.to_string()))?;
            inbox = Some(Inbox::new(made.rehome(())));
        } else if !is_ring {
            let mut made = published::init(words, shape.slots, 0)
                .map_err(|error| OpenError::Limit(error.to_string()))?
                .rehome(());
            made.flip_by_hand();
            consumer = Some(made);
        }
        let rings = vec![solo::Consumer::default(); if is_ring { shape.peers as usize } else { 0 }];
        let nonce = address::checksum(&[&uid.to_le_bytes()[..], &base.to_le_bytes()].concat());
        let own = Address { shape, base, nonce, key, inner: inner.address() };
        let own_address = own.pack();
        if own_address.len() > Introduction::MAX_ADDRESS {
            let why = format!("the address of {} is too long for introductions", below.provider);
            return Err(OpenError::Limit(why));
        }
        let attr = attr(&below, shape);
        let put_short =
            if below.caps.contains(Caps::PUT_SHORT) { below.limits.put.max_short } else { 0 };
        let put_bcopy =
            if below.caps.contains(Caps::PUT_BCOPY) { below.limits.put.max_bcopy } else { 0 };
        let put_max = put_short.max(put_bcopy) / 64 * 64;
        if put_max == 0 {
            return Err(OpenError::Limit("receive queues need puts of 64 bytes".to_owned()));
        }
        let longest = bowline_base::scmp::slots_for(attr.limits.am.max_bcopy);
        let room = attr.limits.am.max_bcopy;
        let mut lane = Self {
            inner,
            stats: QueueStats::default(),
            shape,
            memory,
            base,
            own_address,
            nonce,
            fifo_slots: (longest + 32).next_power_of_two(),
            put_max,
            put_short,
            links: Vec::new(),
            by_inner: Vec::new(),
            generations: 0,
            work: VecDeque::new(),
            asked: VecDeque::new(),
            consumer,
            inbox,
            rings,
            next_ring: 0,
            promotion: Promotion::new(shape.rings),
            next_way: 0,
            own_link: None,
            flipping: false,
            flip_answer: None,
            flip_expected: 0,
            seats: Vec::new(),
            unread: Vec::new(),
            staging: RecvBuf::owned(vec![0; room]),
            packing: vec![0; room],
            settlement: Settlement::default(),
            poisoned: false,
            notes: Notes::default(),
            pending: VecDeque::new(),
            odd: Odd::default(),
            flush_alls: VecDeque::new(),
            flushing: 0,
            flush_refused: false,
            attr,
        };
        if by_device {
            let address = lane.own_address.clone();
            lane.own_link = Some(lane.link_to(&address, &own, false)?);
        }
        Ok(lane)
    }

    /// What was posted so far.
    pub const fn stats(&self) -> &QueueStats {
        &self.stats
    }

    /// The transport below.
    pub fn below(&self) -> &dyn Iface {
        &*self.inner
    }

    /// One look at the transport below, and what follows from it. Whether anything was found.
    pub(super) fn look_below(&mut self) -> bool {
        let mut found = self.inner.progress(&mut self.notes, NOTES) > 0;
        while let Some(note) = self.notes.list.pop_front() {
            match note {
                Note::Completed(token, result) => self.below_completed(token, result),
                Note::Writable(inner) => {
                    let index = self.by_inner.get(inner.0 as usize).copied().flatten();
                    if let Some(link) = index.and_then(|i| self.links.get_mut(i as usize)) {
                        link.below_full = false;
                        link.asked_below = false;
                    }
                }
                Note::Failed(source, ep, how) => self.below_failed(source, ep, how),
            }
        }
        self.look_at_next_way();
        if !self.work.is_empty() {
            found = true;
            self.drive_all();
        }
        self.post_flushes();
        found
    }

    fn below_completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        match self.odd.owner(token) {
            Owner::User(token) => self.pending.push_back(Event::Completed(token, result)),
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
                        self.flip_answer = result.ok();
                    }
                    What::Step | What::Settle => {}
                }
            }
            Owner::Nobody => {}
        }
    }

    /// A round: see the contract.
    pub(super) fn advance(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut told = self.tell(sink, budget);
        if self.pending.len() < NOTES as usize {
            self.look_below();
            if budget > told {
                told += self.receive(sink, budget - told);
            }
            self.settle_the_dead();
        }
        told += self.tell(sink, budget - told);
        told += self.tell_writable(sink, budget - told);
        told
    }

    fn tell(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut told = 0;
        while told < budget
            && let Some(event) = self.pending.pop_front()
        {
            match event {
                Event::Completed(token, result) => sink.completed(token, result),
                Event::Failed(source, ep, how) => sink.failed(source, ep, how),
            }
            told += 1;
        }
        told
    }

    /// Tells those that have room, in the order of asking.
    fn tell_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut told = 0;
        for _ in 0..self.asked.len() {
            let Some(index) = self.asked.pop_front() else { break };
            let link = &mut self.links[index as usize];
            let ready = link.may_be_told(self.fifo_slots);
            if told < budget && ready {
                link.asked = false;
                link.refused = 0;
                sink.writable(EpId(index));
                told += 1;
            } else {
                self.asked.push_back(index);
            }
        }
        told
    }
}

impl Drop for QueueLane {
    fn drop(&mut self) {
        // Messages that were accepted arrive, if their receivers let them.
        let caps = self.inner.attr().caps;
        let by_peers = caps.contains(Caps::RMA_WAKES) || !caps.contains(Caps::WAKEUP);
        let most = LAST_ROUNDS + if by_peers { LAST_NAPS } else { 0 };
        let mut bed = None;
        let mut idle = 0;
        while idle < most && !self.links.iter().all(Link::is_quiet) {
            idle = if self.look_below() && self.work.is_empty() { 0 } else { idle + 1 };
            self.pending.clear();
            if idle > LAST_ROUNDS {
                let bed = bed.get_or_insert_with(Doorbell::private);
                bed.arm(Sleep::Futex);
                let _ = bed.wait(Some(NAP));
                bed.disarm();
            } else if idle > LAST_SPINS {
                bowline_base::sync::yield_now();
            }
        }
    }
}

fn queue_memory(error: &bowline_uct::MemError) -> OpenError {
    OpenError::Limit(format!("no memory for a receive queue: {error}"))
}

/// What a lane over `below` says of itself.
fn attr(below: &IfaceAttr, shape: Shape) -> IfaceAttr {
    let mut attr = below.clone();
    attr.device = format!("{} by receive queue", below.device);
    attr.caps.remove(Caps::AM_ZCOPY | Caps::PUT_NOTIFY | Caps::TAG_OFFLOAD);
    if !below.caps.contains(Caps::RMA_WAKES) {
        attr.caps.remove(Caps::WAKEUP | Caps::EVENT_FD);
    }
    attr.caps |= Caps::AM_SHORT | Caps::AM_BCOPY | Caps::AM_ORDERED;
    let longest = max_message_bytes(shape.slots).min(MAX_BCOPY);
    attr.limits.am = OpLimits {
        max_short: MAX_SHORT.min(longest),
        max_bcopy: longest,
        opt_align: 1,
        ..OpLimits::default()
    };
    attr.max_endpoints = below.max_endpoints.min(shape.peers);
    attr.receive_bytes = below.receive_bytes + shape.bytes();
    attr
}
