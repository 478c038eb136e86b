//! Which arrivals a signal handler takes: those that need no memory beyond what is kept ready. Each is either
//! dealt with as the engine always does, or not touched.

use bowline_base::buffer::MemoryLayout;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, Arrival, PeerFailure, SignalSink, Token};

use crate::engine::Engine;
use crate::matching::Envelope;
use crate::peer::{PeerIndex, PeerState};
use crate::request::{Body, SendPhase};
use crate::select::MessageKind;
use crate::wire::{self, MessageId, Rts};

/// Actions that one arrival may ask for.
const ACTIONS: usize = 4;

/// The engine as a lane sees it in a signal handler.
pub(super) struct SignalLane<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) lane: usize,
}

impl SignalSink for SignalLane<'_> {
    fn offer(&mut self, arrival: &Arrival<'_>) -> bool {
        let engine = &mut *self.engine;
        let peer = engine.peer_of(self.lane, arrival.source);
        let Some(known) = engine.peers.get(peer as usize) else { return false };
        let in_sequence = wire::sequence(&arrival.header) == known.rx_sequence;
        // One whose endpoint is being closed, or has failed, is for an ordinary call.
        let open = matches!(known.state, PeerState::Known | PeerState::Ready);
        if !in_sequence || !open || !engine.actions.has_capacity(ACTIONS) {
            return false;
        }
        let taken = engine.take_signal_safe(peer, arrival);
        if taken {
            let known = &mut engine.peers[peer as usize];
            known.rx_sequence = known.rx_sequence.wrapping_add(1);
        }
        taken
    }

    fn offer_completion(&mut self, token: Token, result: Result<u64, PeerFailure>) -> bool {
        let engine = &mut *self.engine;
        let request = engine.requests.get(Key::from_wire(token.0));
        let reads = request.is_some_and(|request| match &request.body {
            Body::Receive(receive) => receive.fetch.is_some(),
            _ => false,
        });
        if !reads || !engine.actions.has_capacity(ACTIONS) {
            return false;
        }
        engine.transport_completed(Key::from_wire(token.0), result);
        true
    }
}

impl Engine {
    /// A receive is posted while signals may come. From the first one with a callback on they leave
    /// messages to ordinary calls: whom a message will meet is known only when it has.
    #[cold]
    pub(crate) fn note_callbacks(&mut self, key: Key) {
        let callbacks = match self.requests.get(key).map(|request| &request.body) {
            Some(Body::Receive(receive)) => receive.buffer.shape() == MemoryLayout::Callbacks,
            _ => false,
        };
        self.async_state.callbacks |= callbacks;
    }

    fn take_signal_safe(&mut self, peer: PeerIndex, arrival: &Arrival<'_>) -> bool {
        let (header, payload) = (&arrival.header, arrival.payload);
        match arrival.id {
            wire::RTS => self.rts_signal_safe(peer, header, payload),
            wire::ACK => self.ack_frees_nothing(header) && self.ack(peer, header).is_some(),
            wire::CREDIT => self.credit(peer, header).is_some(),
            _ => match self.protocols.of(MessageId::of(arrival)) {
                Some(life) => life.on_message_signal_safe(self, peer, arrival),
                None => false,
            },
        }
    }

    /// The posted receive for an envelope, where finding it changes nothing but that.
    pub(crate) fn posted_signal_safe(&mut self, envelope: &Envelope) -> Option<Key> {
        if self.watches_receives {
            // A protocol that is notified of the match may need memory.
            return None;
        }
        let Envelope { space, source, tag } = *envelope;
        self.spaces.arrive_quietly(space, source, tag).map(Key::from_wire)
    }

    fn rts_signal_safe(&mut self, peer: PeerIndex, header: &AmHeader, payload: View<'_>) -> bool {
        let mut bytes = [0; Rts::FIXED + wire::MAX_RKEY];
        if payload.len() > bytes.len() || self.async_state.fetches.is_empty() {
            return false;
        }
        let n = payload.copy_out(&mut bytes);
        let Some(rts) = Rts::parse(&bytes[..n]) else { return false };
        let envelope = wire::envelope(header);
        let Some(key) = self.posted_signal_safe(&envelope) else { return false };
        self.begin_fetch(key, peer, &envelope, rts, Some(MessageKind::Tagged));
        true
    }

    /// Whether the acknowledged send stays until its user has taken it.
    fn ack_frees_nothing(&self, header: &AmHeader) -> bool {
        let Some(request) = self.requests.get(Key::from_wire(header[0])) else { return true };
        match &request.body {
            Body::Send(send) => {
                let waits = matches!(send.phase, SendPhase::Offered | SendPhase::Moving(_));
                waits && !request.detached
            }
            _ => false,
        }
    }
}
