//! Messages in one piece. The tagged ones are the short path: the engine's sink calls [`Engine::eager`] itself, and asks no
//! table.

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, Arrival, Verdict};

use crate::action::Action;
use crate::engine::Engine;
use crate::error::OpError;
use crate::matching::Envelope;
use crate::peer::{NO_PEER, PeerIndex};
use crate::request::{Body, Request};
use crate::unexpected::INLINE;
use crate::wire;

impl Engine {
    /// A tagged message in one piece: a part of the sink, with all that a short one for the oldest receive needs
    /// in it, and no call that it would have to keep anything across.
    #[inline(always)]
    pub(crate) fn eager(&mut self, peer: PeerIndex, arrival: &Arrival<'_>) -> Verdict {
        let Envelope { space, source, tag } = wire::envelope(&arrival.header);
        match self.spaces.arrive_first(space, source, tag) {
            // Of so few bytes no credit is counted (`taken`).
            Some(value) if arrival.payload.len() <= INLINE => {
                self.deliver_here(Key::from_wire(value), &arrival.header, arrival.payload);
                Verdict::Consumed
            }
            found => self.eager_further(peer, arrival, found),
        }
    }

    /// The same of a longer message, or where the receive was not `found` yet.
    #[inline(never)]
    pub(super) fn eager_further(
        &mut self,
        peer: PeerIndex,
        arrival: &Arrival<'_>,
        found: Option<u64>,
    ) -> Verdict {
        let envelope = wire::envelope(&arrival.header);
        let Envelope { space, source, tag } = envelope;
        match found.or_else(|| self.spaces.arrive(space, source, tag)) {
            Some(value) => {
                self.taken(peer, arrival.payload.len());
                self.deliver_here(Key::from_wire(value), &arrival.header, arrival.payload);
                self.verdict(space, arrival.payload.len())
            }
            None => {
                self.keep(peer, &envelope, arrival.payload, 0, None);
                Verdict::Consumed
            }
        }
    }

    /// Copies a whole message into a matched receive and completes it.
    #[inline(never)]
    pub(crate) fn deliver(&mut self, key: Key, header: &AmHeader, payload: View<'_>) {
        self.deliver_here(key, header, payload);
    }

    /// The same without a call.
    #[inline(always)]
    fn deliver_here(&mut self, key: Key, header: &AmHeader, payload: View<'_>) {
        self.counters.matched += 1;
        let Some(request) = self.requests.get_own(key) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else {
            return self.deliver_expected(key, header, payload);
        };
        // It is a success from its begin.
        if !receive.buffer.copy_whole(payload) {
            return self.deliver_part(key, header, payload);
        }
        if request.delivered(header, payload.len()) {
            self.end_detached(key);
        }
    }

    /// The same for a receive that takes a part of the message, or takes it in several pieces.
    #[inline(never)]
    fn deliver_part(&mut self, key: Key, header: &AmHeader, payload: View<'_>) {
        let Some(request) = self.requests.get_own(key) else { return };
        let Body::Receive(receive) = &mut request.body else { return };
        request.status.outcome = copy_part(&mut receive.buffer, payload);
        if request.delivered(header, payload.len()) {
            self.end_detached(key);
        }
    }

    /// The same for a receive that a peer knows of, which did not bring the message by its protocol.
    #[cold]
    fn deliver_expected(&mut self, key: Key, header: &AmHeader, payload: View<'_>) {
        let body = self.requests.get(key).map(|request| &request.body);
        if !matches!(body, Some(Body::Expecting(_))) {
            return;
        }
        self.counters.matched -= 1;
        if let Err(holder) = self.note_match(key) {
            // The credit of its payload was given back when it was met.
            self.keep(NO_PEER, &wire::envelope(header), payload, 0, Some(holder));
        } else if matches!(self.requests.get(key), Some(Request { body: Body::Receive(_), .. })) {
            self.deliver(key, header, payload);
        }
    }

    pub(super) fn eager_sync(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let mut request = [0; 8];
        let data = payload.slice(8, payload.len().checked_sub(8)?)?;
        payload.copy_out(&mut request);
        let request = u64::from_le_bytes(request);
        let envelope = wire::envelope(header);
        match self.posted(&envelope) {
            Ok(key) => {
                self.taken(peer, data.len());
                self.deliver(key, header, data);
                self.actions.push(Action::Acknowledge { peer, request });
            }
            Err(holder) => match self.failed_collective_member(&envelope, holder) {
                Some(dead) => {
                    self.taken(peer, data.len());
                    let outcome = wire::refusal(Some(dead));
                    self.actions.push(Action::Refuse { peer, request, outcome });
                }
                None => self.keep(peer, &envelope, data, request, holder),
            },
        }
        Some(())
    }
}

impl Engine {
    /// A tagged message in one piece, in a signal handler.
    pub(super) fn eager_signal_safe(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> bool {
        let envelope = wire::envelope(header);
        // A callback of the user's has no place in a signal handler.
        if self.async_state.callbacks {
            return false;
        }
        let Some(key) = self.posted_signal_safe(&envelope) else { return false };
        self.taken(peer, payload.len());
        // What nobody will ask for is freed by the next call.
        let request = self.requests.get_mut(key);
        let detached = request.is_some_and(|r| std::mem::take(&mut r.detached));
        self.deliver(key, header, payload);
        if detached {
            self.actions.push(Action::End(key));
        }
        true
    }
}

impl Request {
    /// Completes a receive whose buffer has what it takes of a message of `length` bytes. Whether it was
    /// detached.
    #[inline(always)]
    fn delivered(&mut self, header: &AmHeader, length: usize) -> bool {
        let (Envelope { source, tag, .. }, status) = (wire::envelope(header), &mut self.status);
        (status.source, status.tag, status.length) = (source, tag, length as u64);
        self.done = true;
        self.detached
    }
}

/// Copies what a buffer takes of a message that is longer, or that is received in several pieces.
#[inline(never)]
fn copy_part(buffer: &mut RecvBuf, payload: View<'_>) -> Result<(), OpError> {
    let (message, capacity) = (payload.len() as u64, buffer.copy_at(0, payload) as u64);
    match (capacity == message, buffer.failed()) {
        (true, _) => Ok(()),
        (false, true) => Err(OpError::NotUnpacked),
        (false, false) => Err(OpError::Truncated { message, capacity }),
    }
}
