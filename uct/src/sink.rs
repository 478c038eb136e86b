//! Where a transport reports what happened.
//!
//! **Rules for a sink.** Its methods are called from inside `progress` and must not post, block or fail: they note
//! what is to be done in a queue that is drained right after the call. `progress` has a budget, so that a queue with space
//! for as many notes hardly ever grows. What allocates, such as keeping a message that nobody waits for, is not on the short
//! path. The receiving layer may copy an arrival into a buffer that is already waiting for it.

use bowline_base::view::View;

use crate::AmHeader;
use crate::error::PeerFailure;
use crate::ids::{EpId, Source, Token};

/// Which handler an active message is for; 32 of them.
///
/// The ids of an interface belong to its user. An interface that stands on another one is the user of that
/// one: it has all ids of it for messages of its own, and carries the ids of its own user as content. So a
/// layer in between takes no id away from those above it, and such layers may stand on each other. Every
/// provider carries all of them (`am::every_id` of the suite).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AmId(u8);

impl AmId {
    /// Number of ids.
    pub const COUNT: u8 = 32;

    /// The id `id`.
    ///
    /// # Panics
    /// When `id` is not below [`AmId::COUNT`]; in a constant that is a compile error.
    pub const fn new(id: u8) -> Self {
        assert!(id < Self::COUNT, "active message ids are below 32");
        Self(id)
    }

    /// An id that came from a peer.
    #[inline]
    pub const fn from_wire(id: u8) -> Option<Self> {
        if id < Self::COUNT { Some(Self(id)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// An active message as it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Who sent it.
    pub source: Source,
    /// Which handler.
    pub id: AmId,
    /// The fixed header, already copied out of shared memory.
    pub header: AmHeader,
    /// The payload; it may change under us and is valid during the call only. Who wants it later copies it.
    pub payload: View<'a>,
}

/// What the receiver says of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Dealt with; the transport has its buffer back.
    Consumed,
    /// `Consumed`, and what came from the same source behind it had better wait for the next call of
    /// `progress`: it may be for a buffer that the receiver is about to post, and would be copied twice. A
    /// transport in whose memory it lies hands out no more of it in this call. It takes this as `Consumed` of a short
    /// message, and where it would have to copy what it leaves.
    Enough,
}

/// The layer above, as a transport sees it.
pub trait Sink {
    /// An active message arrived.
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict;

    /// The operation posted with `token` is complete: the local buffer may be used again, and
    /// for a get or a fetching atomic the result is there (`result` of an atomic, else 0).
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>);

    /// `ep`, for which `want_writable` was asked, may take operations again.
    fn writable(&mut self, ep: EpId);

    /// The peer behind `source`/`ep` has failed; sent once per peer. Operations in flight to it
    /// have been reported by `completed` before, and what a peer that has closed had brought out
    /// ([`Iface::all_sent`](crate::Iface::all_sent)) by `am`, however late it is polled for and by whichever sign
    /// its end was noticed first. What arrives from `source` later is another
    /// peer's, which has got the number, or of a new connection.
    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure);
}

/// A sink that wants nothing, for an interface that closes.
#[derive(Debug)]
pub struct Discard;

impl Sink for Discard {
    fn am(&mut self, _: Arrival<'_>) -> Verdict {
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {}
}
