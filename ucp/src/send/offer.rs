//! The envelope of a message that lies with its sender until its receiver asks for it.

use bowline_base::buffer::Shape;
use bowline_base::slab::Key;
use bowline_uct::{Caps, Iface, PostError};

use super::post;
use crate::loan;
use crate::pack;
use crate::peer::Peer;
use crate::proto::put::can_land;
use crate::request::{Send, SendKind, SendPhase};
use crate::settings::RndvScheme;
use crate::unexpected::INLINE;
use crate::wire::{self, AmEnvelope, MAX_RKEY, Rts};

/// Posts the envelope of a message that the receiver fetches.
pub(super) fn offer(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    send: &mut Send,
    key: Key,
    scheme: RndvScheme,
) -> Result<bool, PostError> {
    let (mut address, length) = (pack::address(&send.buffer), send.buffer.len());
    let (request, mut rkey) = (key.to_wire(), [0; MAX_RKEY]);
    let whole = send.buffer.shape() == Shape::Whole;
    let rkey_len = match lane.rkey_of(address, length, &mut rkey) {
        _ if !whole => 0,
        Some(len) => len as u8,
        // A receiver whose buffer cannot be written to reads after all; it may do so only what is lent.
        None if scheme.reads_nothing(
            can_land(lane.attr().caps, peer) && !lane.attr().caps.contains(Caps::LENT_ONLY),
        ) =>
        {
            0
        }
        None => expose(lane, send, &mut rkey).unwrap_or_else(|| {
            address = Rts::PACKED;
            0
        }),
    };
    let rts = Rts { request, length: length as u64, address, rkey, rkey_len };
    let mut payload = [0; Rts::FIXED + MAX_RKEY];
    let n = rts.pack(&mut payload);
    match send.kind {
        SendKind::Tagged(envelope) => {
            let [first, second, _] = wire::tagged(&envelope, 0);
            post::parts(lane, peer, wire::RTS, [first, second], &[&payload[..n]])?;
        }
        SendKind::Stream => post::parts(lane, peer, wire::STREAM_RTS, [0, 0], &[&payload[..n]])?,
        SendKind::Am { id } => {
            let envelope = AmEnvelope { id, rts: n as u16, header: send.front.len() as u32 };
            post::parts(lane, peer, wire::AM_RTS, envelope.words(), &[&payload[..n], &send.front])?;
        }
    }
    if send.unasked() > INLINE {
        peer.credit -= send.unasked() as i64;
    }
    send.phase = SendPhase::Offered;
    Ok(false)
}

/// Lends the buffer to the peer's reads, where the lane does that. Returns the length of the key in
/// `out`; without one, the receiver asks for fragments if it cannot read on its own. `None` if it
/// must not try, since the lane reads only what is lent and the buffer is not.
fn expose(lane: &mut dyn Iface, send: &mut Send, out: &mut [u8; MAX_RKEY]) -> Option<u8> {
    let caps = lane.attr().caps;
    if !caps.intersects(Caps::EXPOSE | Caps::LENT_ONLY) {
        return Some(0);
    }
    if send.exposed.is_none() {
        let all = loan::of_send(&send.buffer, 0, send.buffer.len());
        send.exposed = all.and_then(|all| lane.mem_expose(all).ok());
    }
    if send.exposed.is_none() && caps.contains(Caps::LENT_ONLY) {
        return None;
    }
    if !caps.contains(Caps::EXPOSE) {
        // It is found by its address.
        return Some(0);
    }
    let key = send.exposed.and_then(|memory| lane.rkey_pack(memory).ok()).unwrap_or_default();
    let Some(place) = out.get_mut(..key.len()) else { return Some(0) };
    place.copy_from_slice(&key);
    Some(key.len() as u8)
}
