//! Arrivals of active messages whose data lies with its sender. Those that come with their data are
//! in [`super::pieces`].

use bowline_base::view::View;
use bowline_uct::AmHeader;

use super::Engine;
use crate::peer::PeerIndex;
use crate::state::inbox::{AmArrival, Delivery};
use crate::unexpected::INLINE;
use crate::wire::{AmEnvelope, MAX_RKEY, Rts};

impl Engine {
    /// The envelope of an active message.
    pub(super) fn am_rts(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let envelope = AmEnvelope::parse([header[0], header[1]])?;
        let (front, lead) = (usize::from(envelope.rts), envelope.header as usize);
        if front > Rts::FIXED + MAX_RKEY || payload.len() != front.checked_add(lead)? {
            return None;
        }
        let mut bytes = [0; Rts::FIXED + MAX_RKEY];
        payload.slice(0, front)?.copy_out(&mut bytes);
        let rts = Rts::parse(&bytes[..front])?;
        if !self.am_waiting.insert((peer, rts.request)) {
            // A sender's request offers one message.
            return None;
        }
        if lead > INLINE {
            self.hold(peer, lead);
        }
        self.inbox.push_back(Delivery::Am(AmArrival {
            from: self.ep(peer),
            id: envelope.id,
            header: envelope.header,
            payload: self.am_buffers.copy_in(payload.slice(front, lead)?),
            remote: Some(Box::new(rts)),
        }));
        self.note_entry();
        Some(())
    }
}
