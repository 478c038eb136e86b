//! Sends of a stream: in pieces while there is credit, and parked while there is none (rule 4).

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{Iface, PostError};

use crate::pack;
use crate::peer::{Peer, PeerIndex, Pending, header};
use crate::request::{Body, Send, SendKind, SendPhase};
use crate::wire;
use crate::worker::Inner;

impl Inner {
    /// Rule 4: credit has come back to sends that were without.
    pub(crate) fn unpark(&mut self, index: PeerIndex) {
        let Some(stream) = self.engine.streams.get_mut(index) else { return };
        let (parked, ams) =
            (std::mem::take(&mut stream.parked), std::mem::take(&mut stream.parked_ams));
        let (requests, peer) = (&self.engine.requests, &mut self.engine.peers[index as usize]);
        (peer.streams, peer.ams_parked) = (true, false);
        // Sends of a kind that wait for room are newer than any that was parked.
        for (keys, stream) in [(parked, true), (ams, false)] {
            let is_one = |key: &Key| match requests.get(*key).map(|request| &request.body) {
                Some(Body::Send(send)) => match send.kind {
                    SendKind::Stream => stream,
                    SendKind::Am { .. } => !stream,
                    SendKind::Tagged(_) => false,
                },
                _ => false,
            };
            let newer = |waits: &Pending| matches!(waits, Pending::Send(key) if is_one(key));
            let at = peer.pending.iter().position(newer).unwrap_or(peer.pending.len());
            let newer = peer.pending.split_off(at);
            peer.pending.extend(keys.into_iter().map(Pending::Send).chain(newer));
        }
        self.resume(index);
    }
}

/// How far a send of a stream came that goes in pieces.
pub(crate) enum Pieces {
    All,
    /// Credit is used up.
    Starved,
}

/// Posts what is left of a send while credit lasts.
pub(crate) fn post_pieces(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    send: &mut Send,
) -> Result<Pieces, PostError> {
    let max = lane.attr().limits.am.max_bcopy;
    let total = send.buffer.len();
    while let SendPhase::Queued { offset, .. } = send.phase
        && (offset as usize) < total
    {
        if peer.credit <= 0 {
            return Ok(Pieces::Starved);
        }
        let left = (total - offset as usize).min(max);
        let header = header([0, 0], peer.tx_sequence);
        let buffer = &mut send.buffer;
        let mut pack = |out: View<'_>| pack::message(&[], buffer, offset as usize, left, out);
        let n = lane.am_bcopy(peer.ep, wire::STREAM, &header, left, &mut pack)?;
        peer.number();
        peer.credit -= n as i64;
        send.phase = SendPhase::Queued { offset: offset + n as u64, message: 1 };
    }
    Ok(Pieces::All)
}
