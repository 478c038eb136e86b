//! Taking operations back that nothing has matched yet.
//!
//! ```text
//!   receive   posted ── withdrawn from the engine ──► Cancelled          matched: goes on
//!   send      nothing posted ──► Cancelled
//!             offered ── SEND_CANCEL ─► receiver ── it waits there: ACK "cancelled" ──► Cancelled
//!                                              ── it is matched: the match's own ACK ──► done
//!             pieces under way: asked for once the last one is posted
//!   active message, offered: as a send, and "it waits" means that its handler has neither begun to
//!             receive its data nor dropped it; where it is kept, receiving it fails from then on
//! ```
//! Either the operation is complete as if it had never been cancelled, or it had no effect at all
//! (MPI: Point-to-Point Communication, "Probe and Cancel"). A send whose data has left the sender's
//! hands completes by that alone, and cannot be taken back.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::AmHeader;

use crate::action::Action;
use crate::address::SEND_CANCEL;
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::matching::MatchEngine as _;
use crate::peer::PeerIndex;
use crate::request::{Body, Receive, RequestId, Send, SendKind, SendPhase};
use crate::unexpected::{Payload, Unexpected};
use crate::wire;
use crate::worker::Worker;

impl Worker {
    /// Cancels a receive or a tagged send that nothing has matched, or the send of an active message
    /// whose receiver has not begun to receive its data: it completes with [`OpError::Cancelled`].
    /// Everything else completes as it would have.
    pub fn cancel(&self, id: RequestId) {
        self.inner.borrow_mut().cancel(id);
    }
}

impl Inner {
    pub(crate) fn cancel(&mut self, id: RequestId) {
        let inner = self;
        let Some(request) = inner.engine.requests.get_mut(id.0).filter(|request| !request.done)
        else {
            return;
        };
        match &mut request.body {
            Body::Receive(Receive { space, item, .. }) => {
                let (space, item) = (*space, *item);
                if inner.engine.spaces.withdraw(space, item, id.0.to_wire()) {
                    inner.engine.fail(id.0, OpError::Cancelled);
                }
            }
            Body::Send(send) => {
                if std::mem::replace(&mut send.cancel_wanted, true) {
                    return;
                }
                match send.phase {
                    SendPhase::Queued { offset: 0 } => {
                        // The peer's pending queue passes over a request that is complete.
                        inner.engine.fail(id.0, OpError::Cancelled);
                        inner.act();
                    }
                    SendPhase::Offered => inner.post_send_cancel(id.0),
                    SendPhase::Queued { .. } | SendPhase::Moving(_) => {}
                }
            }
            Body::Stream(_) => inner.engine.cancel_stream_receive(id.0),
            Body::Expecting(expecting) => {
                let life = inner.engine.protocols.life(expecting.protocol());
                life.cancel(&mut inner.engine, id.0);
                inner.act();
            }
            Body::OneSided(_) | Body::Free => {}
        }
    }

    /// Asks the receiver of a message that has left wholly to give it back, if nothing has matched it.
    pub(crate) fn post_send_cancel(&mut self, key: Key) {
        let Some(Body::Send(send)) = self.engine.requests.get(key).map(|request| &request.body)
        else {
            return;
        };
        let Send { peer, kind, .. } = **send;
        let [first, second, _] = match kind {
            SendKind::Tagged(envelope) => wire::tagged(&envelope, 0),
            // Its request says which. A peer that knows the question of tagged messages only finds
            // none, and the send goes on.
            SendKind::Am { .. } => [0; 3],
            SendKind::Stream => return,
        };
        // A peer of an older version does not know the question: the send goes on.
        if self.engine.peers[peer as usize].address.features & SEND_CANCEL != 0 {
            self.control(peer, wire::SEND_CANCEL, [first, second], &key.to_wire().to_le_bytes());
        }
    }
}

impl Unexpected {
    /// The request of its sender that waits for a match, 0 for none.
    fn waits_for_match(&self) -> u64 {
        match &self.payload {
            Payload::Remote(rts) => rts.request,
            _ => self.request,
        }
    }
}

impl Engine {
    /// A sender cancels a message that has come.
    pub(crate) fn on_send_cancel(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let mut request = [0; 8];
        if payload.len() != 8 || payload.copy_out(&mut request) != 8 {
            return None;
        }
        let request = u64::from_le_bytes(request);
        if self.am_waiting.remove(&(peer, request)) {
            let outcome = wire::CANCELLED;
            self.actions.push(Action::Refuse { peer, request, outcome });
            return Some(());
        }
        let envelope = wire::envelope(header);
        let unexpected = &self.unexpected;
        let mut is_it = |value: u64| {
            let message = unexpected.get(Key::from_wire(value));
            message
                .is_some_and(|m| m.peer == peer && request != 0 && m.waits_for_match() == request)
        };
        // What is not there was matched or refused meanwhile, and the sender is notified of that.
        let space = self.spaces.get_mut(envelope.space);
        let found = space.and_then(|space| {
            space.engine.remove_unexpected(envelope.source, envelope.tag, &mut is_it)
        });
        if let Some(value) = found {
            self.drop_message(Key::from_wire(value), wire::CANCELLED);
        }
        Some(())
    }
}
