//! The envelope of a message that lies with its sender until its receiver asks for it.

use bowline_base::buffer::{MemoryLayout, SendBuf};
use bowline_base::slab::Key;
use bowline_uct::{Caps, Iface, PostError};

use crate::loan;
use crate::pack;
use crate::peer::{Peer, can_land};
use crate::post;
use crate::protocol::SendStep;
use crate::request::{Send, SendKind};
use crate::settings::RndvScheme;
use crate::unexpected::INLINE;
use crate::wire::{self, AmEnvelope, MAX_RKEY, Rts, WireKey};

/// Whether a message lies in memory with a key of its own, by which its receiver may have it mapped.
#[cold]
pub(super) fn has_key(lane: &dyn Iface, buffer: &SendBuf) -> bool {
    let whole = buffer.shape() == MemoryLayout::Whole;
    whole && lane.rkey_of(buffer.address(), buffer.len(), &mut [0; MAX_RKEY]).is_some()
}

/// Posts the envelope of a message that the receiver fetches.
pub(super) fn offer(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    send: &mut Send,
    key: Key,
    scheme: RndvScheme,
) -> Result<SendStep, PostError> {
    let (mut address, length) = (pack::address(&send.buffer), send.buffer.len());
    let (request, mut packed) = (key.to_wire(), [0; MAX_RKEY]);
    let whole = send.buffer.shape() == MemoryLayout::Whole;
    let rkey = match lane.rkey_of(address, length, &mut packed) {
        _ if !whole => WireKey::NONE,
        Some(len) => WireKey::of(&packed[..len]).unwrap_or(WireKey::NONE),
        // A receiver whose buffer cannot be written to reads after all; it may do so only what is lent.
        None if scheme.reads_nothing(
            can_land(lane.attr().caps, peer) && !lane.attr().caps.contains(Caps::LENT_ONLY),
        ) =>
        {
            WireKey::NONE
        }
        None => expose(lane, send).unwrap_or_else(|| {
            address = Rts::PACKED;
            WireKey::NONE
        }),
    };
    let marks = send.marks.unwrap_or_default();
    let rts = Rts { request, length: length as u64, marks, address, rkey };
    let mut payload = [0; Rts::FIXED + MAX_RKEY];
    let n = rts.pack(&mut payload);
    match send.kind {
        SendKind::Tagged(envelope) => {
            let [first, second, _] = wire::tagged(&envelope, 0);
            post::parts(lane, peer, wire::RTS, [first, second], &[&payload[..n]])?;
        }
        SendKind::Stream => post::parts(lane, peer, wire::STREAM_RTS, [0, 0], &[&payload[..n]])?,
        SendKind::Am { id } => {
            let envelope = AmEnvelope { id, rts: n as u16, header: send.header.len() as u32 };
            post::parts(
                lane,
                peer,
                wire::AM_RTS,
                envelope.words(),
                &[&payload[..n], &send.header],
            )?;
        }
    }
    if send.unasked() > INLINE {
        peer.credit -= send.unasked() as i64;
    }
    Ok(SendStep::Offered)
}

/// Lends the buffer to the peer's reads, where the lane does that, and returns the key; without one, the receiver asks for fragments if it cannot read on its own. `None` if it
/// must not try, since the lane reads only what is lent and the buffer is not.
fn expose(lane: &mut dyn Iface, send: &mut Send) -> Option<WireKey> {
    let caps = lane.attr().caps;
    if !caps.intersects(Caps::EXPOSE | Caps::LENT_ONLY) {
        return Some(WireKey::NONE);
    }
    if send.exposed.is_none() {
        let all = loan::of_send(&send.buffer, 0, send.buffer.len());
        send.exposed = all.and_then(|all| {
            let refused =
                |error: &_| tracing::debug!(%error, "a message cannot be lent to its receiver");
            lane.mem_expose(all).inspect_err(refused).ok()
        });
    }
    if send.exposed.is_none() && caps.contains(Caps::LENT_ONLY) {
        return None;
    }
    if !caps.contains(Caps::EXPOSE) {
        // It is found by its address.
        return Some(WireKey::NONE);
    }
    let key = send.exposed.and_then(|memory| lane.rkey_pack(memory).ok()).unwrap_or_default();
    Some(WireKey::of(&key).unwrap_or(WireKey::NONE))
}
