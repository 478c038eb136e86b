//! What came without being asked for, and how much of it a worker keeps: its own account, in bytes of
//! its own memory. What a peer says, or should have kept to, does not enter into it.
//!
//! | kept | counted | limit |
//! |---|---|---|
//! | eager payload: of waiting messages, of active messages before their handler, of streams | for each peer, as it is kept and given out | what the peer was granted, and [`SLACK`] |
//! | entries: of waiting messages, of active messages, of data that lies with its sender; spaces that nobody opened | for the worker | `BOWLINE_UNEXPECTED_ENVELOPES` |
//! | operations on memory here that are not answered | for each peer | [`WINDOW`](crate::state::emulation::WINDOW) |
//! | answers that a peer does not take | for each peer | `BOWLINE_UNEXPECTED_ENVELOPES` |
//!
//! Rules. (1) A correct sender does not exceed the first and the third limit; it may exceed the second,
//! since envelopes are never refused below it. (2) A peer that exceeds a limit is rejected with the
//! reason *overrun* ([`crate::reject`]). Of the second limit, which all peers use, it is the one of which
//! most is kept; its waiting messages are dropped, so that the others have their memory back. (3) A limit
//! is found exceeded while a transport makes progress, and dealt with when that has returned: what one
//! call of it brings may be kept beyond the limit.

use std::collections::HashMap;

use bowline_base::slab::Key;
use bowline_uct::PeerFailure;

use crate::action::Action;
use crate::engine::Engine;
use crate::matching::MatchEngine as _;
use crate::peer::{Ep, NO_PEER, PeerIndex, Pending};
use crate::space::Space;
use crate::state::inbox::Delivery;
use crate::unexpected::{INLINE, Payload, Unexpected};
use crate::wire::Rts;

/// An entry of a waiting message: its place in the slab, that in a matching engine, and what tables
/// that double their size leave unused.
pub(crate) const ENVELOPE: u64 = 160;

/// What names data that lies with its sender, as the allocator counts it.
pub(crate) const REMOTE: u64 = size_of::<Rts>() as u64 + 16;

/// An active message that waits for its handler.
const DELIVERY: u64 = 2 * size_of::<Delivery>() as u64 + 2 * INLINE as u64;

/// An active message whose data lies with its sender, from its envelope until its handler, or the
/// code that it was kept for, receives it.
const WAITING: u64 = DELIVERY + REMOTE + 64;

/// A space that nobody has opened.
const SPACE: u64 = size_of::<Space>() as u64 + 512;

/// Eager payload of a peer beyond what it was granted: of its last message, which may use more credit
/// than is left, and of a first share of its own that is larger than this worker's.
const SLACK: u64 = 1 << 20;

impl Unexpected {
    /// What its entry takes, whatever its eager payload.
    const fn entry(&self) -> u64 {
        match self.payload {
            Payload::Remote(_) => ENVELOPE + REMOTE,
            Payload::Inline(_)
            | Payload::Whole(_)
            | Payload::Partial { .. }
            | Payload::Assembled { .. } => ENVELOPE,
        }
    }

    /// Eager payload beside it.
    fn payload_bytes(&self) -> usize {
        match &self.payload {
            Payload::Whole(bytes)
            | Payload::Partial { bytes, .. }
            | Payload::Assembled { bytes, .. } => bytes.len(),
            Payload::Inline(_) | Payload::Remote(_) => 0,
        }
    }
}

impl Engine {
    /// What all entries take.
    fn entries(&self) -> u64 {
        let deliveries = (self.inbox.len() + self.set_aside) as u64;
        self.envelope_bytes
            + deliveries * DELIVERY
            + self.am_waiting.len() as u64 * WAITING
            + self.spaces.unopened() as u64 * SPACE
    }

    /// An entry was added, of whichever kind.
    #[inline]
    pub(crate) fn note_entry(&mut self) {
        if self.entries() > self.options.envelopes && !self.overrun {
            self.overrun = true;
            self.actions.push(Action::EnforceEnvelopeLimit);
        }
    }

    /// Keeps a message that came before its receive, without a place in a matching engine.
    pub(crate) fn add_entry(&mut self, message: Unexpected) -> Key {
        self.envelope_bytes += message.entry();
        self.hold(message.peer, message.payload_bytes());
        self.unexpected.insert(message)
    }

    /// Takes a waiting message out of the engine's books.
    pub(crate) fn remove_unexpected(&mut self, key: Key) -> Option<Unexpected> {
        let message = self.unexpected.remove(key)?;
        self.envelope_bytes = self.envelope_bytes.saturating_sub(message.entry());
        self.let_go(message.peer, message.payload_bytes());
        Some(message)
    }

    /// Eager payload of a peer is kept.
    #[inline]
    pub(crate) fn hold(&mut self, index: PeerIndex, bytes: usize) {
        let Some(peer) = self.peers.get_mut(index as usize) else { return };
        let options = &self.options;
        let granted = if peer.share_grown { options.share } else { options.share_first };
        let limit = granted as u64 + SLACK;
        let before = peer.held;
        peer.held += bytes as u64;
        if before <= limit && peer.held > limit {
            self.overrun = true;
            self.actions.push(Action::Overrun(index));
        }
    }

    /// It is not any more.
    #[inline]
    pub(crate) fn let_go(&mut self, index: PeerIndex, bytes: usize) {
        if let Some(peer) = self.peers.get_mut(index as usize) {
            peer.held = peer.held.saturating_sub(bytes as u64);
        }
    }

    /// An active message with `bytes` of header and data has left the inbox.
    #[inline]
    pub(crate) fn am_taken(&mut self, from: Ep, bytes: usize) {
        if bytes > INLINE {
            let index = self.slot_of(from);
            self.let_go(index, bytes);
            self.give_back(index, bytes);
        }
    }

    /// A peer has more eager payload here than it was granted.
    #[cold]
    pub(crate) fn reject_holder(&mut self, index: PeerIndex) {
        self.overrun = false;
        let held = self.peers[index as usize].held;
        let why = format!(
            "{held} bytes of its messages wait here, more than it was granted; \
             BOWLINE_EAGER_SHARE_FIRST must be the same in all ranks"
        );
        self.reject(index, PeerFailure::Overrun, &why);
        self.drop_unasked(index);
    }

    /// Rule 2: the entries exceed their limit.
    #[cold]
    pub(crate) fn enforce_envelope_limit(&mut self) {
        self.overrun = false;
        let limit = self.options.envelopes;
        if self.entries() <= limit {
            return;
        }
        let Some((index, bytes)) = self.most_unasked() else { return };
        let why = format!(
            "what waits here for receives and handlers takes {} bytes, {bytes} of them of this peer, \
             and BOWLINE_UNEXPECTED_ENVELOPES is {limit}",
            self.entries()
        );
        self.reject(index, PeerFailure::Overrun, &why);
        self.drop_unasked(index);
        self.note_entry();
    }

    /// The peer that most entries are of, and what they take.
    fn most_unasked(&mut self) -> Option<(PeerIndex, u64)> {
        let mut bytes: HashMap<PeerIndex, u64> = HashMap::new();
        let of_peers = self.unexpected.iter().filter(|(_, message)| message.peer != NO_PEER);
        for (_, message) in of_peers {
            *bytes.entry(message.peer).or_default() += message.entry();
        }
        for delivery in &self.inbox {
            if let Delivery::Am(arrival) = delivery
                && let Ok(peer) = self.index_of(arrival.from)
            {
                *bytes.entry(peer).or_default() += DELIVERY;
            }
        }
        for (peer, _) in &self.am_waiting {
            *bytes.entry(*peer).or_default() += WAITING;
        }
        for (peer, entries) in self.stream_entries() {
            *bytes.entry(peer).or_default() += entries;
        }
        let mut first = Vec::new();
        for (_, space) in self.spaces.early_mut() {
            first.clear();
            space.engine.unexpected_values(&mut first);
            let first = first.first().and_then(|value| self.unexpected.get(Key::from_wire(*value)));
            if let Some(message) = first {
                *bytes.entry(message.peer).or_default() += SPACE;
            }
        }
        bytes.into_iter().max_by_key(|&(peer, bytes)| (bytes, peer))
    }

    /// Drops what waits of a peer that was rejected for its amount.
    fn drop_unasked(&mut self, index: PeerIndex) {
        self.drop_unexpected(index, |_| true);
        self.spaces.drop_unopened();
        let (mut bytes, ep) = (0, self.ep(index));
        self.inbox.retain(|delivery| match delivery {
            Delivery::Am(arrival) if arrival.from == ep => {
                bytes += arrival.payload.len();
                false
            }
            _ => true,
        });
        self.let_go(index, bytes);
        self.drop_stream(index);
    }

    /// Something waits to be posted to a peer that takes nothing. What it may have asked for is bounded
    /// only by what it has sent: so the answers are counted, whenever their number has doubled.
    #[cold]
    pub(crate) fn note_answers(&mut self, index: PeerIndex) {
        let peer = &self.peers[index as usize];
        let answer = |waits: &Pending| match waits {
            Pending::Control { payload, .. } => (size_of::<Pending>() + payload.capacity()) as u64,
            Pending::Send(_) => 0,
        };
        let bytes: u64 = peer.pending.iter().map(answer).sum();
        if bytes > self.options.envelopes {
            let why = format!(
                "{bytes} bytes of answers wait for it, which it does not take, and \
                 BOWLINE_UNEXPECTED_ENVELOPES is {}",
                self.options.envelopes
            );
            self.reject(index, PeerFailure::Overrun, &why);
        }
    }
}
