//! Requests: operations that did not complete in their call.
//!
//! ```text
//!            ┌─────────── Posted ──(match, eager)──────────────► Done ──take──► gone
//!  receive ──┤               │                                    ▲
//!            │               └─(match, rendezvous)─► Fetching ────┤
//!            └─ cancel of Posted ────────────────────────────────►┘
//!  send ──► Queued ──(all posted, eager)─────────────────────────► Done
//!             ├──(some posted, or lent to the transport)─► Moving ► Done
//!             └──(envelope posted)─► Offered ──(ACK)─────────────► Done
//!                                      └─(asked by a protocol)─► Moving ──► Done
//! ```
//! Rules: (1) a key is valid from making to `take`; (2) a *detached* request is removed by
//! whatever completes it; (3) a request that a peer may still read from stays until the peer's
//! acknowledgement or proven death, also when it was detached; (4) so does one that a peer may
//! still write into: [`crate::proto::put`] and [`crate::proto::coop`] say until when.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::{Key, Recycler};
use bowline_uct::{
    AtomicOp, AtomicWidth, EpId, MemHandle, PeerFailure, RemoteSlice, RkeyId, Token,
};

use crate::error::OpError;
use crate::matching::{Envelope, ItemId};
use crate::peer::{NO_PEER, PeerIndex, writes_no_more};
use crate::protocol::{Expecting, Protocol, Receiving, Sending};
use crate::select::{Marks, Measure, MessageKind};
use crate::status::{MessageInfo, OpStatus};
use crate::wire::Rts;

/// Names a request of a worker. Stale names find nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(pub(crate) Key);

/// How far a send came in its call.
#[derive(Debug)]
#[must_use]
pub enum Sent {
    /// Complete: the buffer is free.
    Done,
    /// Under way.
    Pending(RequestId),
}

/// The protocol by which a message is received, and how far it came.
pub(crate) type Receiver = Box<dyn Receiving>;

/// The protocol by which an offered message is sent, and how far it came.
pub(crate) type Sender = Box<dyn Sending>;

/// A rendezvous as its receiver sees it.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) peer: PeerIndex,
    pub(crate) rts: Rts,
    /// Bytes wanted: of the message, those that fit.
    pub(crate) wanted: u64,
    /// Bytes there, by fetching or in fragments.
    pub(crate) done: u64,
    /// Key of the memory that the message lies in, opened for this fetch alone.
    pub(crate) rkey: Option<RkeyId>,
    /// Bytes that the transport is reading.
    pub(crate) in_flight: u64,
    /// The protocol by which it comes, once one has begun.
    pub(crate) receiver: Option<Receiver>,
    /// A signal handler has acknowledged it; the next ordinary call completes it.
    pub(crate) acknowledged: bool,
    pub(crate) measure: Measure,
}

impl Fetch {
    /// A message of which `wanted` bytes are to come.
    pub(crate) const fn new(peer: PeerIndex, rts: Rts, wanted: u64) -> Self {
        Self { peer, rts, wanted, ..Self::NONE }
    }

    /// No message.
    pub(crate) const NONE: Self = Self {
        peer: NO_PEER,
        rts: Rts::NONE,
        wanted: 0,
        done: 0,
        rkey: None,
        in_flight: 0,
        receiver: None,
        acknowledged: false,
        measure: Measure::NONE,
    };
}

/// What a receive request holds.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) buffer: RecvBuf,
    pub(crate) space: u32,
    /// The entry of the space's matching engine while it is posted.
    pub(crate) item: ItemId,
    pub(crate) fetch: Option<Box<Fetch>>,
}

impl Receive {
    /// One of nothing.
    pub(crate) const fn empty() -> Self {
        Self { buffer: RecvBuf::empty(), space: 0, item: ItemId::NONE, fetch: None }
    }
}

/// Where a send request stands.
#[derive(Debug)]
pub(crate) enum SendPhase {
    /// In the peer's pending queue, with nothing posted.
    Queued {
        /// Of a stream, bytes that are posted after all.
        offset: u64,
    },
    /// The envelope is with the peer, or everything is and a match is awaited.
    Offered,
    /// A protocol moves the message, in which this side has a part.
    Moving(Sender),
}

/// What a send request carries beside data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendKind {
    /// Tagged.
    Tagged(Envelope),
    /// User's active message.
    Am {
        /// The handler.
        id: u16,
    },
    /// Bytes of the stream.
    Stream,
}

impl SendKind {
    /// The kind of message.
    pub(crate) const fn message(&self) -> MessageKind {
        match self {
            Self::Tagged(_) => MessageKind::Tagged,
            Self::Am { .. } => MessageKind::Active,
            Self::Stream => MessageKind::Stream,
        }
    }
}

/// What a send request holds.
#[derive(Debug)]
pub(crate) struct Send {
    pub(crate) buffer: SendBuf,
    pub(crate) peer: PeerIndex,
    pub(crate) kind: SendKind,
    /// The header of a user's active message, which goes in front of the buffer's bytes.
    pub(crate) header: Vec<u8>,
    pub(crate) synchronous: bool,
    /// Whether the message goes as an envelope that the receiver fetches.
    pub(crate) rendezvous: bool,
    /// Whether it goes eagerly from where it lies.
    pub(crate) lent: bool,
    /// What is said of it to its receiver, if that measures it.
    pub(crate) marks: Option<Marks>,
    /// Whether the user has cancelled it: its receiver is asked to give it back once everything is posted.
    pub(crate) cancel_wanted: bool,
    /// The buffer as peers may read it, where the lane wants to know of it.
    pub(crate) exposed: Option<MemHandle>,
    pub(crate) phase: SendPhase,
}

impl Send {
    /// Whether the message lies here for the peer to ask for.
    pub(crate) const fn is_offered(&self) -> bool {
        self.rendezvous && matches!(self.phase, SendPhase::Offered)
    }

    /// Whether the transport reads the buffer, so that only its report ends the send.
    pub(crate) fn in_flight(&self) -> bool {
        matches!(&self.phase, SendPhase::Moving(sender) if sender.in_flight())
    }

    /// What its receiver has answered while this side had still something to do.
    pub(crate) fn answer(&mut self) -> Option<Result<(), OpError>> {
        match &mut self.phase {
            SendPhase::Moving(sender) => *sender.answer()?,
            SendPhase::Queued { .. } | SendPhase::Offered => None,
        }
    }

    /// No protocol moves it any more. What it was in.
    pub(crate) fn end_phase(&mut self) -> SendPhase {
        std::mem::replace(&mut self.phase, SendPhase::Offered)
    }
}

/// What is to be done, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) lane: usize,
    pub(crate) ep: EpId,
    /// Where the first byte of the whole operation goes to or comes from.
    pub(crate) at: RemoteSlice,
    pub(crate) kind: Kind,
    /// The key under which the memory's owner does what the transport lacks.
    pub(crate) served: Option<Key>,
}

/// The kinds of operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Write the request's send buffer.
    Put,
    /// Read into its receive buffer.
    Get,
    /// Change a word, and learn what it was.
    Fetch(AtomicOp, AtomicWidth),
    /// Change a word.
    Change(AtomicOp, AtomicWidth),
}

/// A put, get, atomic or flush that is not complete; see [`crate::one_sided`].
#[derive(Debug)]
pub(crate) struct OneSided {
    pub(crate) send: Option<SendBuf>,
    pub(crate) receive: Option<RecvBuf>,
    /// What is to be posted; none for a flush and for a close.
    pub(crate) task: Option<Task>,
    /// Of a flush, what is to be flushed yet: lanes, or endpoints of theirs.
    pub(crate) flush: Vec<(usize, Option<EpId>)>,
    /// Bytes that are not posted yet; 1 for an atomic operation.
    pub(crate) rest: usize,
    /// Pieces that the transport has in flight.
    pub(crate) in_flight: u32,
    /// Whose memory it is about, where its owner carries it out; see [`crate::emulate`].
    pub(crate) emulated: Option<PeerIndex>,
    /// The old value of a word.
    pub(crate) value: u64,
    pub(crate) outcome: Result<(), OpError>,
}

impl Default for OneSided {
    fn default() -> Self {
        Self {
            send: None,
            receive: None,
            task: None,
            flush: Vec::new(),
            rest: 0,
            in_flight: 0,
            emulated: None,
            value: 0,
            outcome: Ok(()),
        }
    }
}

/// How much a receive of a stream wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamWant {
    /// Bytes of an element: a receive gets whole ones, and its buffer is a multiple of it.
    pub unit: usize,
    /// Whether it waits until its buffer is full.
    pub all: bool,
}

impl StreamWant {
    /// Any number of bytes but none.
    pub const SOME: Self = Self { unit: 1, all: false };
    /// As many bytes as there is space.
    pub const ALL: Self = Self { unit: 1, all: true };

    /// Bytes of the whole units in `n`. A division takes as long as the copy of a short message.
    pub(crate) const fn whole(self, n: usize) -> usize {
        if self.unit == 1 { n } else { n - n % self.unit }
    }
}

/// A receive that waits for its bytes.
#[derive(Debug)]
pub(crate) struct StreamReceive {
    pub(crate) buffer: RecvBuf,
    pub(crate) peer: PeerIndex,
    pub(crate) want: StreamWant,
    pub(crate) filled: usize,
}

impl StreamReceive {
    pub(crate) const fn remaining(&self) -> usize {
        self.buffer.len() - self.filled
    }

    /// How many of `available` bytes it takes now.
    pub(crate) const fn takes(&self, available: usize) -> usize {
        let n = if available < self.remaining() { available } else { self.remaining() };
        if self.want.all { n } else { self.want.whole(n) }
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.remaining() == 0 || self.filled > 0 && !self.want.all
    }
}

/// A receive's buffer, open to its sender's writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenBuffer {
    /// The lane over which it is open.
    pub(crate) lane: u32,
    /// Its handle there; none where puts reach all memory, lent or not.
    pub(crate) memory: Option<MemHandle>,
}

impl OpenBuffer {
    /// Rule 2 of [`crate::proto::put`]: whether it is shut once its peer has failed in this way and the memory is taken back.
    pub(crate) const fn is_shut_by(&self, how: PeerFailure) -> bool {
        self.memory.is_some() || writes_no_more(how)
    }

    /// The same, when the worker itself ends: whether it stays open. Lent memory is shut by its lane.
    pub(crate) fn is_open_after(&self, how: Option<PeerFailure>) -> bool {
        self.memory.is_none() && !how.is_some_and(writes_no_more)
    }

    /// The memory that is to be taken back, and its lane.
    pub(crate) fn lent(&self) -> Option<(u32, MemHandle)> {
        Some((self.lane, self.memory?))
    }
}

/// What a request holds, by kind. Only the receive, which every message needs, lies in the
/// request itself.
#[derive(Debug, Default)]
pub(crate) enum Body {
    /// Nothing: of a request that is not in use, unless that is an empty receive, of a stream or not.
    #[default]
    Free,
    Receive(Receive),
    /// A receive that a sender knows of before it has matched a message.
    Expecting(Box<dyn Expecting>),
    Send(Box<Send>),
    Stream(StreamReceive),
    OneSided(Box<OneSided>),
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) body: Body,
    pub(crate) status: OpStatus,
    pub(crate) done: bool,
    pub(crate) detached: bool,
}

impl Request {
    /// Drops what it holds. A receive, also one of a stream, stays one, without buffer, for the next user.
    #[inline(always)]
    pub(crate) fn empty(&mut self) {
        // Asked by itself, as the one that every message has.
        if let Body::Receive(receive) = &mut self.body {
            receive.buffer = RecvBuf::empty();
            if receive.fetch.is_some() {
                receive.fetch = None;
            }
            return;
        }
        self.empty_other();
    }

    /// Empties a receive that is complete without an error and holds nothing but a buffer of its caller's. What
    /// it has brought; `None`: it is something else and stays as it is.
    #[inline(always)]
    pub(crate) fn take_plain(&mut self) -> Option<MessageInfo> {
        let OpStatus { source, tag, length, outcome } = self.status;
        let Body::Receive(Receive { buffer, fetch: None, .. }) = &mut self.body else {
            return None;
        };
        if !self.done || outcome.is_err() || buffer.is_owned() {
            return None;
        }
        *buffer = RecvBuf::empty();
        Some(MessageInfo { source, tag, length })
    }

    #[inline(never)]
    fn empty_other(&mut self) {
        match &mut self.body {
            Body::Stream(receive) => receive.buffer = RecvBuf::empty(),
            other => *other = Body::Free,
        }
    }
}

impl Default for Request {
    fn default() -> Self {
        Self { body: Body::Free, status: OpStatus::NONE, done: false, detached: false }
    }
}

/// The requests of a worker.
pub(crate) type Requests = Recycler<Request>;

/// Makes a request to receive into `buffer`, and hands out where to note which entry of its
/// matching engine it is. Its fields are written where they stay: a body built
/// elsewhere and moved would be read back before its writes are through.
#[inline(always)]
pub(crate) fn begin_receive(
    requests: &mut Requests,
    buffer: RecvBuf,
    space: u32,
) -> (Key, &mut ItemId) {
    let (key, request) = requests.acquire();
    request.status.clear();
    request.done = false;
    request.detached = false;
    if !matches!(request.body, Body::Receive(_)) {
        let (buffer, item) = (RecvBuf::empty(), ItemId::NONE);
        request.body = Body::Receive(Receive { buffer, space, item, fetch: None });
    }
    let Body::Receive(receive) = &mut request.body else {
        unreachable!("made a receive in the lines above");
    };
    debug_assert!(receive.fetch.is_none(), "a request that is not in use is empty");
    // The buffer before is an empty one, which need not be dropped.
    std::mem::forget(std::mem::replace(&mut receive.buffer, buffer));
    receive.space = space;
    (key, &mut receive.item)
}

#[inline]
pub(crate) fn begin(requests: &mut Requests, body: Body) -> Key {
    let (key, request) = requests.acquire();
    request.body = body;
    request.status = OpStatus::NONE;
    request.done = false;
    request.detached = false;
    key
}

/// Ends a request; what it held is dropped.
#[inline]
pub(crate) fn end(requests: &mut Requests, key: Key) {
    if let Some(request) = requests.get_mut(key) {
        request.empty();
        requests.release(key);
    }
}

/// The token under which a transport reports the operation of a request.
pub(crate) const fn token(key: Key) -> Token {
    Token(key.to_wire())
}

/// A receive of a message that was offered.
pub(crate) fn receive_of(requests: &mut Requests, key: Key) -> Option<(&mut RecvBuf, &mut Fetch)> {
    match &mut requests.get_mut(key)?.body {
        Body::Receive(receive) => {
            let fetch = receive.fetch.as_deref_mut()?;
            Some((&mut receive.buffer, fetch))
        }
        _ => None,
    }
}

/// A send that is not complete.
pub(crate) fn send_of(requests: &mut Requests, key: Key) -> Option<&mut Send> {
    match &mut requests.get_mut(key).filter(|request| !request.done)?.body {
        Body::Send(send) => Some(send),
        _ => None,
    }
}

impl Request {
    /// Of a message that comes from its sender's memory: the peer, the bytes that are wanted, and what is measured.
    pub(crate) fn fetched_from(&self) -> Option<(PeerIndex, u64, Measure)> {
        match &self.body {
            Body::Receive(Receive { fetch: Some(fetch), .. }) => {
                Some((fetch.peer, fetch.wanted, fetch.measure))
            }
            _ => None,
        }
    }

    /// The protocol that moves its message, if one does.
    pub(crate) fn protocol(&self) -> Option<&'static Protocol> {
        match &self.body {
            Body::Receive(Receive { fetch: Some(fetch), .. }) => {
                Some(fetch.receiver.as_ref()?.protocol())
            }
            Body::Send(send) => match &send.phase {
                SendPhase::Moving(sender) => Some(sender.protocol()),
                _ => None,
            },
            Body::Expecting(expecting) => Some(expecting.protocol()),
            _ => None,
        }
    }

    /// How a send ends whose receiver's answer came while this side had still something to do.
    pub(crate) fn early_answer(&mut self) -> Option<OpStatus> {
        let Body::Send(send) = &mut self.body else { return None };
        let outcome = send.answer()?;
        let enough = matches!(&send.phase, SendPhase::Moving(sender) if sender.answer_is_enough());
        let length = send.buffer.len() as u64;
        enough.then_some(OpStatus { length, outcome, ..OpStatus::NONE })
    }
}

impl Fetch {
    /// The state of one protocol, if the message comes by it.
    pub(crate) fn state<T: Receiving>(&mut self) -> Option<&mut T> {
        self.receiver.as_mut()?.state()
    }

    /// Whether the receive ends since this peer has failed in this way.
    pub(crate) fn ends_with(&self, peer: PeerIndex, how: PeerFailure) -> bool {
        let ends = || self.receiver.as_ref().is_none_or(|receiver| receiver.ends_with(how));
        // One that is acknowledged is here whole.
        self.peer == peer && self.in_flight == 0 && !self.acknowledged && ends()
    }

    /// The message cannot be read after all: another protocol is to bring it.
    pub(crate) fn refuse_reads(&mut self) {
        self.rts.address = Rts::IN_PIECES;
        self.receiver = None;
        self.measure = Measure::NONE;
        self.done = 0;
    }
}
