//! Requests: operations that did not complete in their call.
//!
//! ```text
//!            ┌─────────── Posted ──(match, eager)──────────────► Done ──take──► gone
//!  receive ──┤               │                                    ▲
//!            │               └─(match, rendezvous)─► Fetching ────┤
//!            └─ cancel of Posted ────────────────────────────────►┘
//!  send ──► Queued ──(all posted, eager)─────────────────────────► Done
//!             ├──(posted from where it lies)─► Lent ─(transport)─► Done
//!             └──(envelope posted)─► Offered ──(ACK)─────────────► Done
//!                                      └─(asked by a protocol)─► Moving ──► Done
//! ```
//! Rules: (1) a key is valid from making to `take`; (2) a *detached* request is removed by
//! whatever completes it; (3) a request that a peer may still read from stays until the peer's
//! acknowledgement or proven death, also when it was detached; (4) so does one that a peer may
//! still write into: [`crate::proto::put`] and [`crate::proto::coop`] say until when.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::{Key, Recycler};
use bowline_uct::{EpId, MemHandle, RkeyId, Token};

use crate::error::{OpError, ReceiveError};
use crate::matching::{Envelope, ItemId};
use crate::one_sided::Task;
use crate::peer::{NOBODY, PeerIndex};
use crate::proto::rtr::Announced;
use crate::proto::{Receiver, Sender};
use crate::stream::StreamReceive;
use crate::tagged::MessageInfo;
use crate::wire::Rts;

/// Names a request of a worker. Stale names find nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(pub(crate) Key);

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// For a receive: the sender's rank in the space.
    pub source: u32,
    /// For a receive: the message's tag.
    pub tag: u64,
    /// Bytes of the message as it was sent.
    pub length: u64,
    /// Success, or what went wrong.
    pub outcome: Result<(), OpError>,
}

impl Status {
    /// A success without message.
    pub(crate) const NONE: Self = Self { source: 0, tag: 0, length: 0, outcome: Ok(()) };

    /// What a receive has brought.
    ///
    /// # Errors
    /// Its own, with all that is known of the message.
    #[inline]
    pub fn message(&self) -> Result<MessageInfo, ReceiveError> {
        match self.outcome {
            Ok(()) => Ok(MessageInfo { source: self.source, tag: self.tag, length: self.length }),
            Err(_) => Err((*self).into()),
        }
    }

    /// A failure.
    pub(crate) const fn failed(error: OpError) -> Self {
        Self { source: 0, tag: 0, length: 0, outcome: Err(error) }
    }
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// Nothing: it is complete, and its status can be taken.
    Nothing,
    /// A message that fits, or bytes of a stream.
    Arrival,
    /// Room in the transport, or credit of the peer.
    Room,
    /// The peer, which has the message or its envelope, to receive it.
    Receiver,
    /// The rest of a message that is being moved.
    Data,
    /// The transport, which has the operation.
    Transport,
}

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
    /// The protocol by which it comes, once one has begun.
    pub(crate) receiver: Option<Receiver>,
}

impl Fetch {
    /// A message of which `wanted` bytes are to come.
    pub(crate) const fn new(peer: PeerIndex, rts: Rts, wanted: u64) -> Self {
        Self { peer, rts, wanted, ..Self::NONE }
    }

    /// No message.
    pub(crate) const NONE: Self =
        Self { peer: NOBODY, rts: Rts::NONE, wanted: 0, done: 0, rkey: None, receiver: None };
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
#[expect(clippy::large_enum_variant, reason = "it lies in the box of its send")]
pub(crate) enum SendPhase {
    /// In the peer's pending queue: nothing or some pieces posted.
    Queued {
        /// Bytes posted.
        offset: u64,
        /// Number of the message when it goes in pieces; 0 before the first.
        message: u64,
    },
    /// The envelope is with the peer, or everything is and a match is awaited.
    Offered,
    /// The transport has it, and reads it from where it lies.
    Lent,
    /// The peer has asked for the message by a protocol in which this side has a part.
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

/// What a send request holds.
#[derive(Debug)]
pub(crate) struct Send {
    pub(crate) buffer: SendBuf,
    pub(crate) peer: PeerIndex,
    pub(crate) kind: SendKind,
    /// Bytes in front of the buffer's: the header of a user's active message.
    pub(crate) front: Vec<u8>,
    pub(crate) synchronous: bool,
    /// Whether the message goes as an envelope that the receiver fetches.
    pub(crate) rendezvous: bool,
    /// Whether it goes eagerly from where it lies.
    pub(crate) lent: bool,
    /// Whether the user wants it back: the receiver is asked once everything is posted.
    pub(crate) take_back: bool,
    /// What the receiver has answered before the last piece was posted.
    pub(crate) answer: Result<(), OpError>,
    /// The buffer as peers may read it, where the lane wants to be told of it.
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
        match &self.phase {
            SendPhase::Lent => true,
            SendPhase::Moving(sender) => sender.in_flight(),
            SendPhase::Queued { .. } | SendPhase::Offered => false,
        }
    }
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

/// What a request holds, by kind. Only the receive, which every message needs, lies in the
/// request itself.
#[derive(Debug, Default)]
pub(crate) enum Body {
    /// Nothing: of a request that is not in use, unless that is an empty receive, of a stream or not.
    #[default]
    Free,
    Receive(Receive),
    /// A receive that its sender knows of before it sends.
    Announced(Box<Announced>),
    Send(Box<Send>),
    Stream(StreamReceive),
    OneSided(Box<OneSided>),
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) body: Body,
    pub(crate) status: Status,
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
        match &mut self.body {
            Body::Stream(receive) => receive.buffer = RecvBuf::empty(),
            other => *other = Body::Free,
        }
    }
}

impl Default for Request {
    fn default() -> Self {
        Self { body: Body::Free, status: Status::NONE, done: false, detached: false }
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
    request.status = Status::NONE;
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
    receive.buffer = buffer;
    receive.space = space;
    (key, &mut receive.item)
}

/// Makes a request for `body`.
#[inline]
pub(crate) fn begin(requests: &mut Requests, body: Body) -> Key {
    let (key, request) = requests.acquire();
    request.body = body;
    request.status = Status::NONE;
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
