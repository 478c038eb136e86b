//! How a lane of queues is made, over which transports it can be, and what it says of itself.

use std::collections::VecDeque;

use bowline_base::buffer::RecvBuf;
use bowline_base::scmp::{max_message_bytes, slots_for};
use bowline_base::sync::LINE;
use bowline_base::words::ViewWords;
use bowline_uct::runtime::{EventQueue, NumberTable, WritableList};
use bowline_uct::{AtomicOps, Caps, Iface, IfaceAttr, OpLimits, OpenError};

use super::address::{self, Address, ExtentEntry, Introduction};
use super::checksummed::ChecksummedInbox;
use super::counted::CountedInbox;
use super::fifo::Fifo;
use super::inbox::Inbox;
use super::lane::QueueLane;
use super::lane_core::{LaneCore, Notes, Settlement};
use super::layout::{MAX_PEERS, Shape};
use super::link::{Link, SenderEntry};
use super::options::{QueueForm, QueueOptions, QueueStats};
use super::promoting::PromotingInbox;
use super::rings::RingInbox;
use super::shown::Shown;
use super::token::Odd;

/// Longest short message, in bytes: three slots.
const MAX_SHORT: usize = 24 + 2 * 56;

/// Longest packed message, in bytes.
const MAX_BCOPY: usize = 8192;

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
        if !attr.atomics.contains(AtomicOps::ADD) {
            return Err("a fetching addition");
        }
        let flip = match form {
            QueueForm::Scmp | QueueForm::ScmpRings | QueueForm::ScmpSeq => AtomicOps::SWAP,
            QueueForm::Ring => AtomicOps::empty(),
        };
        let by_device = attr.caps.contains(Caps::ATOMIC_DEVICE) && attr.atomics.contains(flip);
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
        let shape = shape(options)?;
        let shown = Shown::new(&mut *inner, shape.bytes()).map_err(|error| queue_memory(&error))?;
        let Shown { memory, base, key } = shown;
        let view = inner.mem_view(memory).ok_or_else(|| OpenError::Limit("no memory".into()))?;
        let words = ViewWords::new(view)
            .ok_or_else(|| OpenError::Limit("a receive queue has to start on a line".into()))?;
        let inbox = inbox(words, shape)?;
        // Nobody flips rings.
        let by_device = form != QueueForm::Ring && !below.caps.contains(Caps::ATOMIC_CPU);
        let nonce = address::checksum(&[&uid.to_le_bytes()[..], &base.to_le_bytes()].concat());
        let own = Address { shape, base, nonce, key, inner: inner.address() };
        let own_address = own.pack();
        // Extents have keys as long as this one.
        let key = own.key.len();
        if own_address.len() + key > Introduction::MAX_BYTES || key > ExtentEntry::MAX_KEY {
            let why = format!("the address of {} is too long for introductions", below.provider);
            return Err(OpenError::Limit(why));
        }
        let attr = attr(&below, shape);
        let (put_short, put_max) = puts(&below)?;
        let longest = slots_for(attr.limits.am.max_bcopy);
        let space = attr.limits.am.max_bcopy;
        let mut core = LaneCore {
            inner,
            stats: QueueStats::default(),
            shape,
            memory,
            base,
            words: Vec::new(),
            records: Vec::new(),
            no_records: false,
            own_address,
            nonce,
            fifo_slots: (longest + 32).next_power_of_two(),
            put_max,
            put_short,
            links: Vec::new(),
            retired: Vec::new(),
            by_inner: NumberTable::default(),
            generations: 0,
            work: VecDeque::new(),
            waiters: WritableList::default(),
            next_route: 0,
            own_link: None,
            flipping: false,
            flip_answer: None,
            senders: Vec::new(),
            unread: Vec::new(),
            staging: RecvBuf::owned(vec![0; space]),
            packing: vec![0; space],
            settlement: Settlement::default(),
            closed: None,
            notes: Notes::default(),
            events: EventQueue::default(),
            odd: Odd::default(),
            flush_alls: VecDeque::new(),
            flushing: 0,
            flush_refused: false,
            attr,
        };
        if by_device {
            let address = core.own_address.clone();
            core.own_link = Some(core.link_to(&address, &own, false)?);
        }
        Ok(Self { core, inbox })
    }
}

impl QueueOptions {
    /// Bytes of memory in which a lane receives, by its peers' operations, when `peers` of them have sent to it.
    /// `None`: there is no such lane, or it has no numbers for so many.
    pub fn receive_bytes(&self, peers: u32) -> Option<usize> {
        let shape = shape(self).ok().filter(|shape| peers <= shape.peers)?;
        Some(shape.bytes_with(peers))
    }

    /// Bytes that a lane has for a peer beside that memory, when no more than a few short messages have waited to be
    /// sent to it.
    pub const fn bytes_of_a_peer() -> usize {
        size_of::<Link>() + size_of::<SenderEntry>() + Fifo::FIRST_BYTES
    }
}

/// Form and sizes as `options` say, where such a lane can be.
fn shape(options: &QueueOptions) -> Result<Shape, OpenError> {
    let QueueOptions { form, slots, peers, rings } = *options;
    let rings = if form == QueueForm::ScmpRings { rings } else { 0 };
    let shape = Shape { form, slots, peers: peers.min(MAX_PEERS), rings };
    if shape.is_possible() {
        return Ok(shape);
    }
    let why = "BOWLINE_RECV_QUEUE_SLOTS must be a power of two, and there must be a peer, and a ring \
               where they are used";
    Err(OpenError::Limit(why.to_owned()))
}

/// The receiving side of a new queue in zeroed memory.
fn inbox(words: ViewWords<'_>, shape: Shape) -> Result<Box<dyn Inbox>, OpenError> {
    Ok(match shape.form {
        QueueForm::Scmp => Box::new(CountedInbox::new(words, shape.slots)?),
        QueueForm::ScmpRings => Box::new(PromotingInbox::new(words, shape)?),
        QueueForm::ScmpSeq => Box::new(ChecksummedInbox::new(words, shape.slots)?),
        QueueForm::Ring => Box::new(RingInbox::new(shape.peers)),
    })
}

/// The longest put over `below` that is short, and that is copied in the call.
fn puts(below: &IfaceAttr) -> Result<(usize, usize), OpenError> {
    let limit = |cap, bytes| if below.caps.contains(cap) { bytes } else { 0 };
    let short = limit(Caps::PUT_SHORT, below.limits.put.max_short);
    let bcopy = limit(Caps::PUT_BCOPY, below.limits.put.max_bcopy);
    match short.max(bcopy) / LINE * LINE {
        0 => Err(OpenError::Limit("receive queues need puts of 64 bytes".to_owned())),
        max => Ok((short, max)),
    }
}

fn queue_memory(error: &bowline_uct::MemError) -> OpenError {
    OpenError::Limit(format!("no memory for a receive queue: {error}"))
}

/// What a lane over `below` says of itself.
fn attr(below: &IfaceAttr, shape: Shape) -> IfaceAttr {
    let mut attr = below.clone();
    attr.device = format!("{} by receive queue", below.device);
    // Signal-safe progress of the transport below would bring nothing: messages are polled for by progress alone, and
    // posting them allocates.
    attr.caps.remove(Caps::AM_ZCOPY | Caps::PUT_NOTIFY);
    // Messages are puts themselves, and who polls may find them before what was put elsewhere.
    attr.caps.remove(Caps::PUT_BEFORE_AM);
    attr.caps.remove(Caps::SIGNAL_SAFE | Caps::GET_PREPARED);
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

#[cfg(test)]
mod tests {
    use bowline_sim::{Network, NetworkOptions};
    use bowline_uct::Iface as _;

    use super::*;

    /// What the lane does not do itself it must not claim because the transport below does.
    #[test]
    fn a_lane_of_queues_claims_nothing_that_it_does_not_do() {
        let network = Network::new(NetworkOptions::default());
        let mut below = network.open().attr().clone();
        let lacks = Caps::SIGNAL_SAFE
            | Caps::GET_PREPARED
            | Caps::AM_ZCOPY
            | Caps::PUT_NOTIFY
            | Caps::PUT_BEFORE_AM;
        below.caps |= lacks;
        let shape = Shape { form: QueueForm::Scmp, slots: 16, peers: 1, rings: 0 };
        let attr = attr(&below, shape);
        assert!(!attr.caps.intersects(lacks), "{:?}", attr.caps);
    }
}
