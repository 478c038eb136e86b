//! What travels between two engines: the ids of active messages and the meaning of their header
//! words. `docs/wire-protocol.md` is the same in prose.
//!
//! Every header's third word carries the sender's 32-bit sequence number to this peer in its low
//! half. The receiver checks it. The high half names messages that share an id.

use bowline_uct::{AmHeader, AmId, Arrival, AtomicOp, AtomicWidth};

use crate::error::OpError;
use crate::matching::Envelope;
use crate::select::Marks;

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
/// The receiver of an offered message asks for fragments. Words: sender's request, receiver's request. Payload: bytes wanted.
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

/// The receiver reads a message and asks its sender to help. Words: sender's request, receiver's
/// request. Payload: [`CoopRequest`].
pub(crate) const COOP_REQ: AmId = AmId::new(12);
/// The sender has left a message that it was asked to help with. Words: receiver's request, pieces
/// written from the back.
pub(crate) const COOP_FIN: AmId = AmId::new(13);
/// Envelope of a user's active message whose data the receiver fetches. Words: [`AmEnvelope`].
/// Payload: [`Rts`], header.
pub(crate) const AM_RTS: AmId = AmId::new(14);
/// Bytes of a stream. Words: 0. Payload: data.
pub(crate) const STREAM: AmId = AmId::new(15);
/// Bytes of a stream that lie with their sender. Words: 0. Payload: [`Rts`].
pub(crate) const STREAM_RTS: AmId = AmId::new(17);
/// A sender wants a message back that waits for its receive. Words: the message's envelope.
/// Payload: request u64. The ACK of the message is the answer: [`CANCELLED`], or that of the match
/// that came first.
pub(crate) const SEND_CANCEL: AmId = AmId::new(16);

/// The first or the last piece of a long send of a stream, to a receiver that measures. Words: the marked length of the send
/// and 0, or 0 and 1. Payload: data.
pub(crate) const STREAM_END: AmId = AmId::new(28);

/// A receiver says how messages are to come to it. Words: a choice, and 0 for an offer or 1 for pieces; see
/// [`crate::measured`].
pub(crate) const SELECT: AmId = AmId::new(30);

/// The receiver of an offered message asks its sender to write it. Words: sender's request,
/// receiver's request. Payload: [`TargetBuffer`].
pub(crate) const PUT: AmId = AmId::new(23);
/// The sender writes no more. Words: receiver's request; 0 when all is written, 1 when it was
/// refused.
pub(crate) const PUT_DONE: AmId = AmId::new(24);

/// About a receive that is announced to its sender; see [`crate::proto::rtr`]. Words: those of a tagged
/// message, or 0. Payload: [`crate::proto::rtr::RtrMessage`].
pub(crate) const RTR: AmId = AmId::new(25);
/// About a receive from any source; see [`crate::proto::any`]. Words: those of a tagged message, or 0. Payload:
/// [`crate::proto::any::FlagMessage`].
pub(crate) const ANY: AmId = AmId::new(29);
/// The last message of a sender on this connection, which touches no memory of its peer any more.
/// Words: 0 for a close that waited for what was under way, 1 for one that did not.
pub(crate) const DISCONNECT: AmId = AmId::new(26);
/// Nothing; it makes the transport find out whether its peer is there.
pub(crate) const PROBE: AmId = AmId::new(27);

/// An operation on the receiver's memory, which the receiver carries out; see [`crate::emulate`].
/// Words: the memory, as its key names it, and the address. Payload: [`Remote`], data of a put.
pub(crate) const REMOTE: AmId = AmId::new(22);
/// It was carried out. Words: 0, or 1 where the memory is not there or the address not in it; the old
/// value of a word. Payload: what was read.
pub(crate) const REMOTE_DONE: AmId = AmId::new(31);

/// Messages of protocols that have no id of their own: which one it is the high half of the third word says.
pub(crate) const NUMBERED: AmId = AmId::new(18);

/// Which message it is: its id, and the number among those that share [`NUMBERED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageId {
    am: AmId,
    number: u32,
}

impl MessageId {
    /// A message that has an id of its own.
    pub(crate) const fn own(am: AmId) -> Self {
        Self { am, number: 0 }
    }

    /// One of those that share an id.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "all protocols had ids before there were numbers")
    )]
    pub(crate) const fn numbered(number: u32) -> Self {
        Self { am: NUMBERED, number }
    }

    /// Of a message that has arrived.
    pub(crate) fn of(am: &Arrival<'_>) -> Self {
        let number = if am.id == NUMBERED { (am.header[2] >> 32) as u32 } else { 0 };
        Self { am: am.id, number }
    }

    /// The id of the transport's message.
    #[inline(always)]
    pub(crate) const fn am(self) -> AmId {
        self.am
    }

    /// Its number among those that share an id; `None` where it has its own.
    pub(crate) fn number(self) -> Option<u32> {
        (self.am == NUMBERED).then_some(self.number)
    }

    /// The header of the message with these words and this sequence number.
    #[inline(always)]
    pub(crate) const fn header(self, words: [u64; 2], sequence: u32) -> AmHeader {
        [words[0], words[1], sequence as u64 | (self.number as u64) << 32]
    }
}

impl From<AmId> for MessageId {
    #[inline(always)]
    fn from(am: AmId) -> Self {
        Self::own(am)
    }
}

/// The last message of a sender on this connection, which it has ended because of what it received.
/// Words: the reason, [`DAMAGED`] or [`OVERRUN`]; 0.
pub(crate) const NOTICE: AmId = AmId::new(20);

/// Reason of a NOTICE: a message that no correct sender sends.
pub(crate) const DAMAGED: u64 = 1;

/// Reason of a NOTICE: more messages that nobody asked for than the receiver's limits admit.
pub(crate) const OVERRUN: u64 = 2;

/// Kept for what a later version brings; a peer that sends one today counts as damaged.
/// 19 revoke, 21 reconnect with an incarnation.
pub(crate) const RESERVED: [u8; 2] = [19, 21];

#[inline]
pub(crate) const fn tagged(envelope: &Envelope, sequence: u32) -> AmHeader {
    [envelope.space as u64 | (envelope.source as u64) << 32, envelope.tag, sequence as u64]
}

#[inline]
pub(crate) const fn envelope(header: &AmHeader) -> Envelope {
    Envelope { space: header[0] as u32, source: (header[0] >> 32) as u32, tag: header[1] }
}

#[inline]
pub(crate) const fn sequence(header: &AmHeader) -> u32 {
    header[2] as u32
}

/// The word of 64 bits with this index in a payload.
pub(crate) fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let at = bytes.get(index * 8..index * 8 + 8)?;
    Some(u64::from_le_bytes(at.try_into().ok()?))
}

/// Writes `words` to `out`. Returns the bytes.
pub(crate) fn pack_words(words: &[u64], out: &mut [u8]) -> usize {
    let end = 8 * words.len();
    for (place, word) in out[..end].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    end
}

/// In front of the data of a first piece: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstPiece {
    /// Names the message among those under way from this sender.
    pub(crate) message: u64,
    /// Bytes of the whole message.
    pub(crate) total: u64,
    /// In the word of the length.
    pub(crate) marks: Marks,
    /// The sender's request that wants an ACK when the message is matched; 0 for none.
    pub(crate) request: u64,
}

impl FirstPiece {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn pack(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.message.to_le_bytes());
        out[8..16].copy_from_slice(&self.marks.mark(self.total).to_le_bytes());
        out[16..].copy_from_slice(&self.request.to_le_bytes());
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (total, marks) = Marks::of(word(bytes, 1)?);
        Some(Self { message: word(bytes, 0)?, total, marks, request: word(bytes, 2)? })
    }
}

/// The two words of an AM_RTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AmEnvelope {
    /// The handler.
    pub(crate) id: u16,
    /// Bytes of the request to send.
    pub(crate) rts: u16,
    /// Bytes of the header behind it.
    pub(crate) header: u32,
}

impl AmEnvelope {
    pub(crate) const fn words(self) -> [u64; 2] {
        [self.id as u64 | (self.rts as u64) << 16, self.header as u64]
    }

    pub(crate) fn parse(words: [u64; 2]) -> Option<Self> {
        let rts = u16::try_from(words[0] >> 16).ok()?;
        Some(Self { id: words[0] as u16, rts, header: u32::try_from(words[1]).ok()? })
    }
}

/// Longest packed key of memory in an [`Rts`]: that of four transports together.
pub(crate) const MAX_RKEY: usize = 192;

/// A packed key of memory behind the words of a payload; empty for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireKey {
    bytes: [u8; MAX_RKEY],
    len: u8,
}

impl WireKey {
    pub(crate) const NONE: Self = Self { bytes: [0; MAX_RKEY], len: 0 };

    /// `None` when it is longer than any.
    pub(crate) fn of(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_RKEY];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(Self { bytes, len: key.len() as u8 })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.len == 0
    }

    /// Writes `words` and the key to `out`. Returns the bytes.
    fn pack_behind(&self, words: &[u64], out: &mut [u8]) -> usize {
        let at = pack_words(words, out);
        let end = at + self.bytes().len();
        out[at..end].copy_from_slice(self.bytes());
        end
    }
}

/// Payload of a request to send: where the message lies. 24 bytes and the key of the memory, none
/// for memory that was not allocated from Bowline. Two addresses that no memory has say that it does not
/// lie in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rts {
    /// The sender's request; comes back in CTS and ACK.
    pub(crate) request: u64,
    /// Bytes of the message.
    pub(crate) length: u64,
    /// In the word of the length.
    pub(crate) marks: Marks,
    /// Its address in the sender.
    pub(crate) address: u64,
    pub(crate) rkey: WireKey,
}

impl Rts {
    pub(crate) const FIXED: usize = 24;

    /// The address of a message that comes in fragments only.
    pub(crate) const PACKED: u64 = 0;

    /// The address of a message that its sender can write, or send in fragments.
    pub(crate) const IN_PIECES: u64 = 1;

    /// Whether it can be read from where it lies.
    pub(crate) const fn is_readable(&self) -> bool {
        self.address > Self::IN_PIECES
    }

    /// No message.
    pub(crate) const NONE: Self =
        Self { request: 0, length: 0, marks: Marks::NONE, address: 0, rkey: WireKey::NONE };

    /// Writes the payload to `out` and returns its length.
    pub(crate) fn pack(&self, out: &mut [u8; Self::FIXED + MAX_RKEY]) -> usize {
        let length = self.marks.mark(self.length);
        self.rkey.pack_behind(&[self.request, length, self.address], out)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let rkey = WireKey::of(bytes.get(Self::FIXED..)?)?;
        let (length, marks) = Marks::of(word(bytes, 1)?);
        Some(Self { request: word(bytes, 0)?, length, marks, address: word(bytes, 2)?, rkey })
    }
}

/// Payload of COOP_REQ: where the message goes, and how it is shared. 32 bytes and the key of the
/// cursor's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoopRequest {
    /// Where the receiver's buffer is.
    pub(crate) address: u64,
    /// Bytes that it takes of the message.
    pub(crate) wanted: u64,
    /// Bytes of a piece; the last may be shorter.
    pub(crate) piece: u64,
    /// Address of the cursor.
    pub(crate) cursor: u64,
    /// Of the cursor's memory.
    pub(crate) rkey: WireKey,
}

impl CoopRequest {
    /// One of nothing.
    pub(crate) const NONE: Self =
        Self { address: 0, wanted: 0, piece: 0, cursor: 0, rkey: WireKey::NONE };

    pub(crate) const FIXED: usize = 32;

    pub(crate) const fn pieces(&self) -> u32 {
        self.wanted.div_ceil(self.piece) as u32
    }

    /// Writes the payload to `out` and returns its length.
    pub(crate) fn pack(&self, out: &mut [u8; Self::FIXED + MAX_RKEY]) -> usize {
        self.rkey.pack_behind(&[self.address, self.wanted, self.piece, self.cursor], out)
    }

    /// `None` for one that cannot be: without pieces, or with more than can be counted.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let rkey = WireKey::of(bytes.get(Self::FIXED..)?)?;
        let (wanted, piece) = (word(bytes, 1)?, word(bytes, 2)?);
        if wanted == 0 || piece == 0 || wanted.div_ceil(piece) > u64::from(u32::MAX / 2) {
            return None;
        }
        Some(Self { address: word(bytes, 0)?, wanted, piece, cursor: word(bytes, 3)?, rkey })
    }
}

/// In front of the payload of REMOTE: what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    /// An answer, behind everything asked for before.
    Flush,
    /// To write the data behind it.
    Put,
    /// To read so many bytes.
    Get(u64),
    /// To change a word.
    Atomic(AtomicOp, AtomicWidth),
}

impl Remote {
    /// Bytes in front of the data of a put.
    pub(crate) const FRONT: usize = 8;

    /// Appends it to `out`.
    pub(crate) fn pack(self, out: &mut Vec<u8>) {
        let (front, operands): ([u8; 3], Vec<u64>) = match self {
            Self::Flush => ([0, 0, 0], vec![]),
            Self::Put => ([1, 0, 0], vec![]),
            Self::Get(length) => ([2, 0, 0], vec![length]),
            Self::Atomic(op, width) => {
                let (op, operands) = op.to_wire();
                ([3, op, width.bytes() as u8], operands.to_vec())
            }
        };
        out.extend_from_slice(&front);
        out.extend_from_slice(&[0; Self::FRONT - 3]);
        operands.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    /// The question, and the data behind it.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (front, rest) = bytes.split_at_checked(Self::FRONT)?;
        let [kind, op, width, ref zeros @ ..] = *front else { return None };
        if zeros.iter().any(|&byte| byte != 0) || kind != 3 && (op, width) != (0, 0) {
            return None;
        }
        match (kind, rest.len()) {
            (0, 0) => Some((Self::Flush, rest)),
            (1, _) => Some((Self::Put, rest)),
            (2, 8) => Some((Self::Get(word(rest, 0)?), &[])),
            (3, 16) => {
                let op = AtomicOp::from_wire(op, [word(rest, 0)?, word(rest, 1)?])?;
                Some((Self::Atomic(op, AtomicWidth::from_bytes(width)?), &[]))
            }
            _ => None,
        }
    }
}

/// Payload of PUT: where a message is to be written. 16 bytes and the key of the memory, none where
/// the transport's puts reach all memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetBuffer {
    /// Where the receiver's buffer is.
    pub(crate) address: u64,
    /// Bytes that it takes of the message.
    pub(crate) wanted: u64,
    pub(crate) rkey: WireKey,
}

impl TargetBuffer {
    pub(crate) const FIXED: usize = 16;

    pub(crate) const EMPTY: Self = Self { address: 0, wanted: 0, rkey: WireKey::NONE };

    /// Writes the payload to `out` and returns its length.
    pub(crate) fn pack(&self, out: &mut [u8; Self::FIXED + MAX_RKEY]) -> usize {
        self.pack_behind(&[], out)
    }

    /// The same behind `words` of another payload, which has space for both.
    pub(crate) fn pack_behind(&self, words: &[u64], out: &mut [u8]) -> usize {
        let at = pack_words(words, out);
        at + self.rkey.pack_behind(&[self.address, self.wanted], &mut out[at..])
    }

    /// `None` for one that cannot be: without bytes, or beyond the end of memory.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let rkey = WireKey::of(bytes.get(Self::FIXED..)?)?;
        let (address, wanted) = (word(bytes, 0)?, word(bytes, 1)?);
        if wanted == 0 || address.checked_add(wanted).is_none() {
            return None;
        }
        Some(Self { address, wanted, rkey })
    }
}

/// The outcome of an ACK for a message that nobody will receive: because of the failure of a
/// member of its space, whose rank it then says, or for another reason.
pub(crate) const fn refusal(dead: Option<u32>) -> u64 {
    match dead {
        Some(rank) => rank as u64 + 2,
        None => 1,
    }
}

/// The outcome of an ACK for a message that its sender has taken back.
pub(crate) const CANCELLED: u64 = u64::MAX;

/// The outcome of an ACK for an active message that its receiver has no handler for.
pub(crate) const NO_HANDLER: u64 = u64::MAX - 1;

/// What the outcome of an ACK means; `None` when it means nothing.
pub(crate) fn outcome(word: u64) -> Option<Result<(), OpError>> {
    Some(match word {
        0 => Ok(()),
        CANCELLED => Err(OpError::Cancelled),
        NO_HANDLER => Err(OpError::NoHandler),
        1 => Err(OpError::BadRemote),
        _ => Err(OpError::MemberFailed { rank: u32::try_from(word - 2).ok()? }),
    })
}

/// Longest header where one message of the transport holds `max_bcopy` bytes: it goes in front of
/// the data or beside a request to send, whichever is longer.
pub(crate) const fn max_am_header(max_bcopy: usize) -> usize {
    max_bcopy.saturating_sub(Rts::FIXED + MAX_RKEY)
}

#[cfg(test)]
mod tests;
