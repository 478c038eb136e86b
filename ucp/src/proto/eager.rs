//! Messages that go without being asked for: whole, from where they lie, or in pieces.
//!
//! ```text
//!   sender                                receiver
//!   one piece      ── EAGER, EAGER_SYNC ──► `whole`: into its receive, or kept
//!   several        ── EAGER_FIRST, AM_FIRST ─► an `Assembly` of `pieces`, for a receive, a kept message or a handler
//!                  ── PIECE ... ───────────► in order; the last one completes what they are for
//! ```
//! What they cost is in [`crate::protocol::eager`], since lanes ask for that. A tagged message in one piece is received by
//! the engine's sink without a table, and a short one sent by [`crate::post`].

mod pieces;
mod whole;

use bowline_base::slab::Key;
use bowline_uct::{Arrival, PeerFailure, Verdict};

use crate::engine::Engine;
use crate::engine::life::{Keeps, Life};
use crate::peer::PeerIndex;
use crate::protocol::Protocol;
use crate::protocol::eager::MULTI;
use crate::wire::{self, MessageId};

use pieces::Assembly;

/// What a worker keeps for messages in pieces.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// By peer: those that are arriving.
    arriving: Vec<Vec<Assembly>>,
}

impl Keeps for Transfers {
    /// None: what is arriving ends with its peer.
    fn peers(&self, _: &dyn Fn(PeerIndex) -> bool) -> Vec<PeerIndex> {
        Vec::new()
    }

    fn forget(&mut self, peer: PeerIndex) {
        if let Some(arriving) = self.arriving.get_mut(peer as usize) {
            *arriving = Vec::new();
        }
    }
}

pub(super) struct Eager;

impl Life for Eager {
    fn protocol(&self) -> &'static Protocol {
        &MULTI
    }

    fn ids(&self) -> &'static [MessageId] {
        const {
            &[
                MessageId::own(wire::EAGER),
                MessageId::own(wire::EAGER_SYNC),
                MessageId::own(wire::EAGER_FIRST),
                MessageId::own(wire::AM_FIRST),
                MessageId::own(wire::PIECE),
            ]
        }
    }

    fn on_message(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> Option<Verdict> {
        let taken = match am.id {
            wire::PIECE => return engine.piece(peer, &am.header, am.payload),
            wire::EAGER => return Some(engine.eager_further(peer, am, None)),
            wire::EAGER_SYNC => engine.eager_sync(peer, &am.header, am.payload),
            wire::EAGER_FIRST => engine.eager_first(peer, &am.header, am.payload),
            _ => engine.am_first(peer, &am.header, am.payload),
        };
        taken.map(|()| Verdict::Consumed)
    }

    fn on_message_signal_safe(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> bool {
        am.id == wire::EAGER && engine.eager_signal_safe(peer, &am.header, am.payload)
    }

    fn on_peer_failure(&self, engine: &mut Engine, peer: PeerIndex, how: PeerFailure) {
        engine.lose_pieces(peer, how);
    }

    fn on_late_receive(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        message: Key,
        receive: Key,
        bytes: &[u8],
    ) {
        engine.continue_in(peer, message, receive, bytes);
    }

    fn on_dropped(&self, engine: &mut Engine, peer: PeerIndex, message: Key) {
        engine.discard(peer, message);
    }
}
