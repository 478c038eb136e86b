//! Arrivals of active messages in one piece, and of those whose data lies with its sender.

use bowline_base::view::View;
use bowline_uct::AmHeader;

use super::Engine;
use crate::peer::PeerIndex;
use crate::state::inbox::{AmArrival, Delivery};
use crate::unexpected::INLINE;
use crate::wire::{AmEnvelope, MAX_RKEY, Rts};

/// Active messages in the inbox from which on they are counted: most are delivered at once.
const MANY: usize = 1 << 10;

impl Engine {
    pub(super) fn am(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let id = u16::try_from(header[0]).ok()?;
        let header_len = u32::try_from(header[1]).ok()?;
        if header_len as usize > payload.len() {
            return None;
        }
        if payload.len() > INLINE {
            self.hold(peer, payload.len());
        }
        let payload = self.am_buffers.copy_in(payload);
        let arrival =
            AmArrival { from: self.ep(peer), id, header: header_len, payload, remote: None };
        self.inbox.push_back(Delivery::Am(arrival));
        if self.inbox.len() >= MANY {
            self.note_entry();
        }
        Some(())
    }

    /// The envelope of an active message.
    pub(super) fn am_rts(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let envelope = AmEnvelope::parse([header[0], header[1]])?;
        let (rts_len, header_len) = (usize::from(envelope.rts), envelope.header as usize);
        if rts_len > Rts::FIXED + MAX_RKEY || payload.len() != rts_len.checked_add(header_len)? {
            return None;
        }
        let mut bytes = [0; Rts::FIXED + MAX_RKEY];
        payload.slice(0, rts_len)?.copy_out(&mut bytes);
        let rts = Rts::parse(&bytes[..rts_len])?;
        if !self.am_waiting.insert((peer, rts.request)) {
            // A sender's request offers one message.
            return None;
        }
        if header_len > INLINE {
            self.hold(peer, header_len);
        }
        self.inbox.push_back(Delivery::Am(AmArrival {
            from: self.ep(peer),
            id: envelope.id,
            header: envelope.header,
            payload: self.am_buffers.copy_in(payload.slice(rts_len, header_len)?),
            remote: Some(Box::new(rts)),
        }));
        self.note_entry();
        Some(())
    }
}
