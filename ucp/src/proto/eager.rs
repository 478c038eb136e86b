//! Messages that go without being asked for: whole, from where they lie, or in pieces.
//!
//! ```text
//!   sender (`send`)                       receiver
//!   one piece      ── EAGER, EAGER_SYNC ──► `whole`: into its receive, or kept
//!   several        ── EAGER_FIRST, AM_FIRST ─► an `Assembly` of `pieces`, for a receive, a kept message or a handler
//!                  ── PIECE ... ───────────► in order; the last one completes what they are for
//! ```
//! A send that the lane takes in its call has no state: one that waits for space with some of its pieces posted has, and one
//! that the transport reads from where it lies.
//!
//! What they cost is in [`crate::protocol::eager`], since lanes ask for that. A tagged message in one piece is received by
//! the engine's sink without a table, and a short one sent by [`crate::post`].

mod assembly;
mod pieces;
mod send;
mod whole;

use std::any::Any;

use bowline_base::slab::Key;
use bowline_uct::{Arrival, PeerFailure, Verdict};

use crate::engine::Engine;
use crate::engine::life::{Keeps, Kept, Life};
use crate::error::OpError;
use crate::peer::PeerIndex;
use crate::protocol::Protocol;
use crate::protocol::eager::MULTI;
use crate::request::{Sender, send_of};
use crate::status::OpStatus;
use crate::wire::{self, MessageId};

use assembly::Assembly;
use send::PartlyPosted;

pub(crate) use send::EagerSend;

/// What a worker keeps for messages in pieces.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// By peer: those that are arriving.
    arriving: Vec<Vec<Assembly>>,
    /// States of sends that are over, for the next ones.
    #[expect(clippy::vec_box, reason = "a request holds the box as it is")]
    spare: Vec<Box<PartlyPosted>>,
}

/// States that are kept at most.
const SPARE: usize = 64;

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

    /// The transport has read the message.
    fn on_completion(&self, engine: &mut Engine, key: Key, result: Result<u64, PeerFailure>) {
        let Some(send) = send_of(&mut engine.requests, key).filter(|send| send.in_flight()) else {
            return;
        };
        let (length, outcome) = (send.buffer.len() as u64, result.map(drop));
        let outcome = outcome.map_err(OpError::from);
        engine.finish(key, OpStatus { length, outcome, ..OpStatus::NONE });
    }

    fn retire(&self, kept: &mut Kept, sender: Sender) {
        let (sender, spare): (Box<dyn Any>, _) = (sender, &mut kept.of_mut::<Transfers>().spare);
        if let Ok(state) = sender.downcast()
            && spare.len() < SPARE
        {
            spare.push(state);
        }
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

    fn arriving(&self, engine: &Engine, receive: Key) -> Option<(PeerIndex, u64)> {
        engine.protocols.kept.of::<Transfers>().arriving_in(receive)
    }

    fn on_dropped(&self, engine: &mut Engine, peer: PeerIndex, message: Key) {
        engine.discard(peer, message);
    }
}
