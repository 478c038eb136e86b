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
//! failed, and no table of the worker names it any more, its slot may become another's, which has the
//! next generation: `reuse.rs` says when that is, and what an older [`Ep`] is then.
//! `close.rs` has the rules of the two states in the middle, `reject.rs` those of the failures that
//! this worker declares itself.
//! Rules: (1) everything that takes part in matching goes in order over one lane; while anything
//! waits in `pending`, everything new queues behind it. (2) `short_limit` is the one word that
//! the short path reads. [`Peer::recompute_short_limit`] alone writes it, and names the conditions;
//! whatever changes one of them calls it.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use bowline_base::slab::Key;
use bowline_uct::{Caps, EpId, PeerFailure, RkeyId};

use crate::address::{PUTS, WorkerAddress};
use crate::matching::Envelope;
use crate::select::Selection;
use crate::watch::Watches;
use crate::wire::{self, MessageId};

/// Index in the worker's table of peers.
pub(crate) type PeerIndex = u32;

/// A peer that does not exist, for arrivals whose sender has not said hello.
pub(crate) const NO_PEER: PeerIndex = u32::MAX;

/// Marks a source whose peer was rejected: no peer has an index with this bit, so that what arrives
/// from there reaches nobody.
pub(crate) const REJECTED: PeerIndex = 1 << 31;

/// An endpoint: a peer as the user names it. Valid as long as its worker. Once it is over its slot may
/// become another peer's, whom it never names: it is then as one that was closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ep(NonZeroU64);

impl Ep {
    /// The endpoint of the peer that is the `generation`-th in its slot; see [`crate::reuse`].
    pub(crate) const fn new(index: PeerIndex, generation: u32) -> Self {
        match NonZeroU64::new((generation as u64) << 32 | index as u64) {
            Some(name) => Self(name),
            None => panic!("generations begin with 1"),
        }
    }

    /// The slot.
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

/// Whose the slot of a peer in the table is; see [`crate::reuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// The peer's, also when it has failed.
    Held,
    /// Still the peer's, whose endpoint is closed on both sides, or was never used and is closed.
    Ended,
    /// Nobody's.
    Free,
}

/// Something that waits for space in the lane.
#[derive(Debug)]
pub(crate) enum Pending {
    /// The rest of a send request.
    Send(Key),
    /// A control message.
    Control {
        /// Which.
        id: MessageId,
        /// Its first two words; the sequence number is put in when it is posted.
        words: [u64; 2],
        payload: Vec<u8>,
    },
}

/// What becomes of what is under way when an endpoint is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// It is waited for.
    Flush,
    /// It is cancelled. What the peer may still read or write stays until that is impossible.
    Force,
}

/// The close of an endpoint, until the peer has answered.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) mode: CloseMode,
    /// The transport's part: not begun, under way, done.
    pub(crate) flush: Flush,
    /// Who waits for it.
    pub(crate) requests: Vec<Key>,
}

impl End {
    /// Whether what is under way is not to go on.
    pub(crate) fn is_forced(&self) -> bool {
        self.mode == CloseMode::Force
    }
}

/// Whether what was put to a peer whose endpoint is closed is visible there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    Wanted,
    Posted(Key),
    Done,
}

/// A use of a peer's memory through an endpoint of a transport.
#[derive(Debug)]
pub(crate) struct KeyUse {
    /// Keys that are open.
    pub(crate) open: u32,
    /// Whose memory; [`NO_PEER`] once its endpoint was closed.
    pub(crate) peer: PeerIndex,
}

/// A peer. In the order of the fields, and with lines of memory of its own: what the short path reads is
/// in the first of them.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Peer {
    /// By which its user names it. The short path compares it with what it is given.
    pub(crate) name: Ep,
    /// Longest payload that may go by the short path right now; -1 for none. Rule 2.
    short_limit: i32,
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
    pub(crate) slot: SlotState,
    /// This worker's user has closed it: what was not received of its stream is nobody's.
    pub(crate) closed_here: bool,
    /// The share beyond the first was granted.
    pub(crate) share_grown: bool,
    /// Its stream may take the short path: it knows streams, and no send waits for credit.
    pub(crate) streams: bool,
    /// Active messages wait for credit: its stream has them in `parked_ams`.
    pub(crate) ams_parked: bool,
    pub(crate) direct_read_denied: bool,
    /// The peer could not write a message here.
    pub(crate) put_refused: bool,
    /// Something was read by `whole_rkey`.
    pub(crate) direct_read_verified: bool,
    /// Opens the peer's whole memory to reads, where the lane can.
    pub(crate) whole_rkey: Option<RkeyId>,
    /// Longest payload that may ever go by the short path: what its lane takes in one call, and counts as
    /// part of the envelope.
    pub(crate) longest_short: i32,
    pub(crate) pending: VecDeque<Pending>,
    /// What protocols check or note of what is sent to it.
    pub(crate) watches: Watches,
    /// What long messages have taken.
    pub(crate) selection: Option<Box<Selection>>,
    /// Its endpoint is being closed here.
    pub(crate) end: Option<Box<End>>,
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
            slot: SlotState::Held,
            closed_here: false,
            share_grown: false,
            streams: false,
            ams_parked: false,
            longest_short: -1,
            pending: VecDeque::new(),
            next_message: 1,
            whole_rkey: None,
            direct_read_denied: false,
            put_refused: false,
            watches: Watches::NONE,
            selection: None,
            direct_read_verified: false,
            end: None,
            address,
            name: Ep::new(NO_PEER, 1),
        }
    }

    /// The number of the next message to this peer.
    #[inline]
    pub(crate) fn number(&mut self) -> u32 {
        let number = self.tx_sequence;
        self.tx_sequence = number.wrapping_add(1);
        number
    }

    /// Longest payload that may go by the short path right now; -1 for none, so that a length and the
    /// conditions of the path are one comparison.
    #[inline(always)]
    pub(crate) fn short_limit(&self) -> i32 {
        self.short_limit
    }

    /// Opens or closes the short path (rule 2). It is open when the endpoint exists and is in use, no
    /// earlier message waits, no protocol checks or notes what is sent, and no active message waits for credit, which a
    /// later one would overtake.
    pub(crate) fn recompute_short_limit(&mut self) {
        let in_use = self.state == PeerState::Ready && self.end.is_none();
        let watched = self.watches.check() || self.watches.note();
        let free = self.pending.is_empty() && !watched && !self.ams_parked;
        self.short_limit = if in_use && free { self.longest_short } else { -1 };
    }

    /// Queues what has to wait behind everything else.
    pub(crate) fn queue(&mut self, waits: Pending) {
        self.pending.push_back(waits);
        self.recompute_short_limit();
    }

    /// Queues what has to wait in front of everything else.
    pub(crate) fn queue_first(&mut self, waits: Pending) {
        self.pending.push_front(waits);
        self.recompute_short_limit();
    }

    /// Whether a control message can be sent without allocating: one that its lane refuses is queued.
    pub(crate) fn can_queue_control(&self) -> bool {
        self.pending.is_empty() && self.pending.capacity() > 0
    }

    /// Queues a control message.
    pub(crate) fn push_control(
        &mut self,
        id: impl Into<MessageId>,
        words: [u64; 2],
        payload: Vec<u8>,
    ) {
        self.queue(Pending::Control { id: id.into(), words, payload });
    }

    /// A control message was posted, with this number.
    pub(crate) fn note_control(&mut self, number: u32, id: MessageId, payload: &[u8]) {
        self.note_posted(number, None);
        if id.am() == wire::REMOTE_DONE {
            self.remotes = self.remotes.saturating_sub(1);
        }
        if self.watches.show(|one| one.on_control(id, payload)) {
            self.recompute_short_limit();
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

/// Whether a peer that has failed in this way is known to write nothing any more.
pub(crate) const fn writes_no_more(how: PeerFailure) -> bool {
    matches!(how, PeerFailure::Died | PeerFailure::Closed)
}

/// Whether a transport's puts and gets reach all memory of a peer, by a processor's copy in the
/// call, with the key that names no memory in particular.
pub(crate) fn reaches_all(caps: Caps) -> bool {
    let needed = Caps::GET_ZCOPY | Caps::PUT_ZCOPY | Caps::RMA_REGISTERED | Caps::RKEY_PTR;
    caps.contains(needed) && !caps.intersects(Caps::EXPOSE | Caps::LEND | Caps::LOOPBACK)
}

/// Whether `peer` can write a message into memory of this worker's by a lane with these abilities.
pub(crate) fn can_land(caps: Caps, peer: &Peer) -> bool {
    caps.contains(Caps::PUT_ZCOPY)
        && (caps.contains(Caps::LEND) || reaches_all(caps))
        && peer.address.features & PUTS != 0
        && !peer.put_refused
}

impl Peer {
    /// Messages from number `first` on were posted, the first of them tagged, if `envelope` is there. Where that was the
    /// last thing that a protocol has waited for, the short path opens again.
    #[inline]
    pub(crate) fn note_posted(&mut self, first: u32, envelope: Option<&Envelope>) {
        let next = self.tx_sequence;
        if first != next && self.watches.show(|one| one.on_posted(first, next, envelope)) {
            self.recompute_short_limit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_short_path_reads_lies_together() {
        use std::mem::offset_of;

        let at = [
            offset_of!(Peer, name),
            offset_of!(Peer, short_limit),
            offset_of!(Peer, lane),
            offset_of!(Peer, ep),
            offset_of!(Peer, tx_sequence),
        ];
        assert!(at.iter().all(|&at| at < 64) && align_of::<Peer>() == 64, "{at:?}");
    }

    /// Each condition closes the short path by itself, and the last one that goes opens it.
    #[test]
    fn the_short_path_is_open_only_when_nothing_is_in_its_way() {
        let mut peer = Peer::new(WorkerAddress::NONE, 0);
        peer.longest_short = 32;
        peer.recompute_short_limit();
        assert_eq!(peer.short_limit(), -1, "it is not connected");
        peer.state = PeerState::Ready;
        peer.recompute_short_limit();
        assert_eq!(peer.short_limit(), 32);
        peer.push_control(wire::PROBE, [0, 0], Vec::new());
        assert_eq!(peer.short_limit(), -1, "a message waits");
        peer.ams_parked = true;
        peer.pending.clear();
        peer.recompute_short_limit();
        assert_eq!(peer.short_limit(), -1, "an active message has no credit");
        peer.ams_parked = false;
        peer.recompute_short_limit();
        assert_eq!(peer.short_limit(), 32);
        peer.state = PeerState::Failed(PeerFailure::Died);
        peer.recompute_short_limit();
        assert_eq!(peer.short_limit(), -1, "it has failed");
    }
}
