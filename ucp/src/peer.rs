//! What a worker knows of another worker.
//!
//! ```text
//!  connect(address) ─► Known ─(first operation: endpoint made, HELLO posted)─► Ready
//!  HELLO from it    ─► Known ─(Action::Connect, or the first operation)──────► Ready
//!  Ready ─(our DISCONNECT queued)──► Closing ─(its DISCONNECT)─────► Failed(Closed)
//!  Ready ─(its DISCONNECT)─────────► Leaving ─(our DISCONNECT posted)─► Failed(Closed)
//!  any state ─(death, damage, a limit)─► Failed  (final)
//! ```
//! A peer is an index in the worker's table inside of the worker, and an [`Ep`] with its user. When it has
//! failed, and no table of the worker names it any more, its place may become another's, which has the
//! next generation: `reuse.rs` says when that is, and what an older [`Ep`] is then.
//! `close.rs` has the rules of the two states in the middle, `reject.rs` those of the failures that
//! this worker declares itself.
//! Rules: (1) everything that takes part in matching goes in order over one lane; while anything
//! waits in `pending`, everything new queues behind it. (2) `short_limit` is the one word that
//! the short path looks at: it is -1 unless the peer is ready and nothing is pending.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use bowline_base::slab::Key;
use bowline_uct::{AmHeader, AmId, EpId, PeerFailure, RkeyId};

use crate::address::WorkerAddress;
use crate::proto::rtr::Offers;
use crate::wire;

/// Index in the worker's table of peers.
pub(crate) type PeerIndex = u32;

/// A peer that does not exist, for arrivals whose sender has not said hello.
pub(crate) const NOBODY: PeerIndex = u32::MAX;

/// Marks a source whose peer was rejected: no peer has an index with this bit, so that what arrives
/// from there reaches nobody.
pub(crate) const BARRED: PeerIndex = 1 << 31;

/// An endpoint: a peer as the user names it. Valid as long as its worker. Once it is over its place may
/// become another peer's, whom it never names: it is then as one that was closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ep(NonZeroU64);

impl Ep {
    /// The endpoint of the peer that is the `generation`-th at its place; see [`crate::reuse`].
    pub(crate) const fn new(index: PeerIndex, generation: u32) -> Self {
        match NonZeroU64::new((generation as u64) << 32 | index as u64) {
            Some(name) => Self(name),
            None => panic!("generations begin with 1"),
        }
    }

    /// The place.
    #[inline(always)]
    pub(crate) const fn index(self) -> PeerIndex {
        self.0.get() as u32
    }

    pub(crate) const fn generation(self) -> u32 {
        (self.0.get() >> 32) as u32
    }
}

/// Where the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    Known,
    Ready,
    /// Closed from here: nothing is sent any more, what still comes is taken in.
    Closing,
    /// Closed by the peer: nothing comes any more, our own farewell is owed.
    Leaving,
    Failed(PeerFailure),
}

/// Whose the place of a peer in the table is; see [`crate::reuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenure {
    /// The peer's, also when it has failed.
    Held,
    /// Still the peer's, whose endpoint is closed on both sides, or was never used and is closed.
    Ended,
    /// Nobody's.
    Free,
}

/// Something that waits for room in the lane.
#[derive(Debug)]
pub(crate) enum Pending {
    /// The rest of a send request.
    Send(Key),
    /// A control message.
    Control {
        /// Which.
        id: AmId,
        /// Its first two words; the sequence number is put in when it is posted.
        words: [u64; 2],
        /// Its payload.
        payload: Vec<u8>,
    },
}

/// A message whose pieces are arriving.
#[derive(Debug)]
pub(crate) struct Assembly {
    pub(crate) message: u64,
    pub(crate) target: Target,
    pub(crate) received: u64,
    pub(crate) total: u64,
}

/// Where pieces go.
#[derive(Debug)]
pub(crate) enum Target {
    /// A receive that was posted before.
    Receive(Key),
    /// A waiting message.
    Unexpected(Key),
    /// A user's active message: handler id, bytes of header, all bytes.
    Am(u16, u32, Vec<u8>),
    /// Nobody wants it any more.
    Discard,
}

/// A peer. In the order of the fields, and with lines of memory of its own: what the short path looks at is
/// in the first of them.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Peer {
    /// By which its user names it. The short path compares it with what it is given.
    pub(crate) name: Ep,
    /// Longest payload that may go by the short path right now; -1 for none.
    pub(crate) short_limit: i32,
    pub(crate) lane: u32,
    pub(crate) ep: EpId,
    pub(crate) tx_sequence: u32,
    pub(crate) rx_sequence: u32,
    /// Operations on memory of this worker that it has asked for and that are not answered yet.
    pub(crate) remotes: u8,
    /// A NOTICE waits in `pending`: the one thing that is sent to a peer that has failed.
    pub(crate) notice: bool,
    pub(crate) state: PeerState,
    /// Bytes of eager payload that the peer will still take.
    pub(crate) credit: i64,
    /// Bytes of its eager payload that were taken since credit was last given back.
    pub(crate) taken: u64,
    /// Bytes of its eager payload that are kept here; see [`crate::unasked`].
    pub(crate) held: u64,
    pub(crate) next_message: u64,
    pub(crate) tenure: Tenure,
    /// This worker's user has closed it: what was not received of its stream is nobody's.
    pub(crate) closed_here: bool,
    /// The share beyond the first was granted.
    pub(crate) share_grown: bool,
    /// Its stream may take the short path: it knows streams, and no send waits for credit.
    pub(crate) streams: bool,
    pub(crate) reach_refused: bool,
    /// The peer could not write a message here.
    pub(crate) put_refused: bool,
    /// Something was read by `reach`.
    pub(crate) reach_proven: bool,
    /// Opens the peer's whole memory to reads, where the lane can.
    pub(crate) reach: Option<RkeyId>,
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) assemblies: Vec<Assembly>,
    /// Receives that it has announced, and what was sent to it since the first one.
    pub(crate) offers: Option<Box<Offers>>,
    /// Its endpoint is being closed here.
    pub(crate) end: Option<Box<crate::close::End>>,
    pub(crate) address: WorkerAddress,
}

impl Peer {
    pub(crate) fn new(address: WorkerAddress, credit: i64) -> Self {
        Self {
            short_limit: -1,
            lane: 0,
            ep: EpId(u32::MAX),
            tx_sequence: 0,
            rx_sequence: 0,
            credit,
            taken: 0,
            held: 0,
            remotes: 0,
            notice: false,
            state: PeerState::Known,
            tenure: Tenure::Held,
            closed_here: false,
            share_grown: false,
            streams: false,
            pending: VecDeque::new(),
            assemblies: Vec::new(),
            next_message: 1,
            reach: None,
            reach_refused: false,
            put_refused: false,
            offers: None,
            reach_proven: false,
            end: None,
            address,
            name: Ep::new(NOBODY, 1),
        }
    }

    /// The number of the next message to this peer.
    #[inline]
    pub(crate) fn number(&mut self) -> u32 {
        let number = self.tx_sequence;
        self.tx_sequence = number.wrapping_add(1);
        number
    }

    /// Queues a control message.
    pub(crate) fn push_control(&mut self, id: AmId, words: [u64; 2], payload: Vec<u8>) {
        self.pending.push_back(Pending::Control { id, words, payload });
    }

    /// A control message was posted.
    pub(crate) fn note_control(&mut self, id: AmId) {
        if id == wire::REMOTE_DONE {
            self.remotes = self.remotes.saturating_sub(1);
        }
    }

    pub(crate) fn failure(&self) -> Option<PeerFailure> {
        match self.state {
            PeerState::Failed(how) => Some(how),
            PeerState::Leaving => Some(PeerFailure::Closed),
            PeerState::Known | PeerState::Ready | PeerState::Closing => None,
        }
    }
}

/// A header whose sequence number a failed post did not use.
pub(crate) const fn header(words: [u64; 2], sequence: u32) -> AmHeader {
    [words[0], words[1], sequence as u64]
}
