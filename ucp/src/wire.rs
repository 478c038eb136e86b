//! What travels between two engines: the ids of active messages and the meaning of their header
//! words. `docs/wire-protocol.md` is the same in prose.
//!
//! Every header's third word carries the sender's 32-bit sequence number to this peer in its low
//! half. On the ordered lane the receiver checks it; with several lanes it will find duplicates
//! and gaps.

use bowline_uct::{AmHeader, AmId};

use crate::error::OpError;
use crate::matching::Envelope;

/// First message to a peer: payload is the sender's address.
pub(crate) const HELLO: AmId = AmId::new(0);
/// Tagged message in one piece. Payload: data.
pub(crate) const EAGER: AmId = AmId::new(1);
/// Tagged message in one piece that wants to know when it is matched. Payload: request u64, data.
pub(crate) const EAGER_SYNC: AmId = AmId::new(2);
/// First piece of a tagged message. Payload: [`FirstPiece`], data.
pub(crate) const EAGER_FIRST: AmId = AmId::new(3);
/// Further piece. Words: message number, offset.
pub(crate) const PIECE: AmId = AmId::new(4);
/// Envelope of a message that the receiver fetches. Payload: [`Rts`].
pub(crate) const RTS: AmId = AmId::new(5);
/// The receiver cannot fetch. Words: sender's request, receiver's request. Payload: bytes wanted.
pub(crate) const CTS: AmId = AmId::new(6);
/// Data after a CTS. Words: receiver's request, offset.
pub(crate) const FRAGMENT: AmId = AmId::new(7);
/// A synchronous message was matched, or a rendezvous buffer was read. Words: sender's request,
/// outcome (0 is success).
pub(crate) const ACK: AmId = AmId::new(8);
/// Eager credit back. Words: bytes.
pub(crate) const CREDIT: AmId = AmId::new(9);
/// User's active message in one piece. Words: id and header length. Payload: header, data.
pub(crate) const AM: AmId = AmId::new(10);
/// First piece of a user's active message. Words as `AM`. Payload: [`FirstPiece`], header, data.
pub(crate) const AM_FIRST: AmId = AmId::new(11);

/// Kept for what a later version brings; a peer that sends one today is told to be damaged.
/// 16 send-cancel, 17 its reply, 18 probe-claim, 19 revoke, 20 failure notice, 21 reconnect with
/// an incarnation.
pub(crate) const RESERVED: std::ops::RangeInclusive<u8> = 16..=21;

/// Header of a tagged message.
#[inline]
pub(crate) const fn tagged(envelope: &Envelope, sequence: u32) -> AmHeader {
    [envelope.space as u64 | (envelope.source as u64) << 32, envelope.tag, sequence as u64]
}

/// Header of anything else.
#[inline]
pub(crate) const fn control(first: u64, second: u64, sequence: u32) -> AmHeader {
    [first, second, sequence as u64]
}

/// The envelope in a tagged header.
#[inline]
pub(crate) const fn envelope(header: &AmHeader) -> Envelope {
    Envelope { space: header[0] as u32, source: (header[0] >> 32) as u32, tag: header[1] }
}

/// The sequence number in any header.
#[inline]
pub(crate) const fn sequence(header: &AmHeader) -> u32 {
    header[2] as u32
}

fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let at = bytes.get(index * 8..index * 8 + 8)?;
    Some(u64::from_le_bytes(at.try_into().ok()?))
}

/// In front of the data of a first piece: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstPiece {
    /// Names the message among those under way from this sender.
    pub(crate) message: u64,
    /// Bytes of the whole message.
    pub(crate) total: u64,
    /// The sender's request that wants an ACK when the message is matched; 0 for none.
    pub(crate) request: u64,
}

impl FirstPiece {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn pack(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.message.to_le_bytes());
        out[8..16].copy_from_slice(&self.total.to_le_bytes());
        out[16..].copy_from_slice(&self.request.to_le_bytes());
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self { message: word(bytes, 0)?, total: word(bytes, 1)?, request: word(bytes, 2)? })
    }
}

/// Longest packed key of memory in an [`Rts`].
pub(crate) const MAX_RKEY: usize = 64;

/// Payload of a request to send: where the message lies. 24 bytes and the key of the memory, none
/// for memory that was not allocated from Bowline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rts {
    /// The sender's request; comes back in CTS and ACK.
    pub(crate) request: u64,
    /// Bytes of the message.
    pub(crate) length: u64,
    /// Its address in the sender.
    pub(crate) address: u64,
    /// Packed key of the memory.
    pub(crate) rkey: [u8; MAX_RKEY],
    /// Bytes of the key; 0 for none.
    pub(crate) rkey_len: u8,
}

impl Rts {
    pub(crate) const FIXED: usize = 24;

    /// Writes the payload to `out` and returns its length.
    pub(crate) fn pack(&self, out: &mut [u8; Self::FIXED + MAX_RKEY]) -> usize {
        out[..8].copy_from_slice(&self.request.to_le_bytes());
        out[8..16].copy_from_slice(&self.length.to_le_bytes());
        out[16..24].copy_from_slice(&self.address.to_le_bytes());
        let n = usize::from(self.rkey_len);
        out[24..24 + n].copy_from_slice(&self.rkey[..n]);
        Self::FIXED + n
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let key = bytes.get(Self::FIXED..)?;
        let mut rkey = [0; MAX_RKEY];
        rkey.get_mut(..key.len())?.copy_from_slice(key);
        Some(Self {
            request: word(bytes, 0)?,
            length: word(bytes, 1)?,
            address: word(bytes, 2)?,
            rkey,
            rkey_len: key.len() as u8,
        })
    }
}

/// The outcome of an ACK for a message that nobody will receive: because of the failure of a
/// member of its space, whose rank it then tells, or for another reason.
pub(crate) const fn refusal(dead: Option<u32>) -> u64 {
    match dead {
        Some(rank) => rank as u64 + 2,
        None => 1,
    }
}

/// What the outcome of an ACK means; `None` when it means nothing.
pub(crate) fn outcome(word: u64) -> Option<Result<(), OpError>> {
    Some(match word {
        0 => Ok(()),
        1 => Err(OpError::BadRemote),
        _ => Err(OpError::MemberFailed { rank: u32::try_from(word - 2).ok()? }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes_of_an_rts() {
        let mut rkey = [0; MAX_RKEY];
        rkey[..2].copy_from_slice(&[0xaa, 0xbb]);
        let rts = Rts { request: 1, length: 0x0203, address: 4, rkey, rkey_len: 2 };
        let mut out = [0; Rts::FIXED + MAX_RKEY];
        let n = rts.pack(&mut out);
        assert_eq!(
            &out[..n],
            [1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0xaa, 0xbb]
        );
        assert_eq!(Rts::parse(&out[..n]), Some(rts));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Rts::parse(&bytes);
            let _ = FirstPiece::parse(&bytes);
        }

        #[test]
        fn envelopes_survive(space: u32, source: u32, tag: u64, number: u32) {
            let header = tagged(&Envelope { space, source, tag }, number);
            prop_assert_eq!(envelope(&header), Envelope { space, source, tag });
            prop_assert_eq!(sequence(&header), number);
        }
    }
}
