//! Frames: what two interfaces say to each other once each has proved that it knows the secret.
//!
//! A frame is a fixed header of 32 bytes and `len` bytes behind it, all numbers little endian:
//!
//! ```text
//!   0 kind u8 | 1 id u8 | 2 flags u16 | 4 len u32 | 8 word 0 u64 | 16 word 1 u64 | 24 word 2 u64
//! ```
//!
//! | kind | id | flags | words 0, 1, 2 | behind it |
//! |---|---|---|---|---|
//! | 1 AM | message id | | the message's header | payload |
//! | 2 PUT | | | key, address | data |
//! | 3 PUT_NOTIFY | message id | | key, address | the message's header, data |
//! | 4 GET | | | key, address, request + length << 32 | |
//! | 5 DATA | status | 1: complete | request | data |
//! | 6 END | status | | request | |
//! | 7 ATOMIC | operation | 1: 8 bytes wide, 2: fetch | key, address, first operand | second operand u64, request u64 |
//! | 8 OLD | status | | request, old value | |
//! | 9 FLUSH | | | request | |
//! | 10 FLUSHED | | | request | |
//! | 11 BYE | | | | |
//!
//! Fields that a kind does not use are zero. Requests are numbered per connection and direction,
//! and are answered in their order, since a connection is a stream. DATA without the flag is
//! followed by END: the target may find only at the end that it could not read everything. After
//! BYE its sender says nothing more and will close.
//!
//! Nothing that a peer says is believed: [`Frame::decode`] refuses what no correct peer writes,
//! which fails that peer.

use bowline_uct::{AmHeader, AmId, AtomicOp, AtomicWidth};

/// Bytes of a frame's header.
pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const ATOMIC_BYTES: usize = 16;
/// Longest put or get, in bytes; longer ones are for the protocols above to cut.
pub(crate) const MAX_RMA: usize = 1 << 30;
/// Requests without an answer that a side may have on a connection. More of them are damage, so
/// what a target owes in answers is bounded.
pub(crate) const MAX_REQUESTS: usize = 64;

/// Flag of DATA: no END follows.
pub(crate) const COMPLETE: u16 = 1;
/// Flag of ATOMIC: the operand has 8 bytes.
const WIDE: u16 = 1;
/// Flag of ATOMIC: the old value is wanted.
const FETCH: u16 = 2;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Am = 1,
    Put = 2,
    PutNotify = 3,
    Get = 4,
    Data = 5,
    End = 6,
    Atomic = 7,
    Old = 8,
    Flush = 9,
    Flushed = 10,
    Bye = 11,
}

/// Why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame(pub(crate) &'static str);

/// Outcome of a request at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    /// The key opens nothing (any more), or not these bytes.
    Refused,
}

impl Status {
    pub(crate) const fn to_wire(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
        }
    }

    pub(crate) const fn from_wire(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::Done),
            1 => Some(Self::Refused),
            _ => None,
        }
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) id: u8,
    pub(crate) flags: u16,
    pub(crate) len: u32,
    pub(crate) words: [u64; 3],
}

impl Frame {
    #[inline]
    pub(crate) const fn am(id: AmId, header: &AmHeader, len: usize) -> Self {
        Self { kind: Kind::Am, id: id.get(), flags: 0, len: len as u32, words: *header }
    }

    pub(crate) const fn put(key: u64, address: u64, len: usize) -> Self {
        Self { kind: Kind::Put, id: 0, flags: 0, len: len as u32, words: [key, address, 0] }
    }

    pub(crate) const fn put_notify(id: AmId, key: u64, address: u64, len: usize) -> Self {
        let len = (24 + len) as u32;
        Self { kind: Kind::PutNotify, id: id.get(), flags: 0, len, words: [key, address, 0] }
    }

    pub(crate) const fn get(key: u64, address: u64, request: u32, len: usize) -> Self {
        let last = request as u64 | (len as u64) << 32;
        Self { kind: Kind::Get, id: 0, flags: 0, len: 0, words: [key, address, last] }
    }

    pub(crate) const fn data(request: u32, status: Status, complete: bool, len: usize) -> Self {
        let flags = if complete { COMPLETE } else { 0 };
        let words = [request as u64, 0, 0];
        Self { kind: Kind::Data, id: status.to_wire(), flags, len: len as u32, words }
    }

    pub(crate) const fn end(request: u32, status: Status) -> Self {
        let words = [request as u64, 0, 0];
        Self { kind: Kind::End, id: status.to_wire(), flags: 0, len: 0, words }
    }

    pub(crate) const fn old(request: u32, status: Status, old: u64) -> Self {
        let words = [request as u64, old, 0];
        Self { kind: Kind::Old, id: status.to_wire(), flags: 0, len: 0, words }
    }

    pub(crate) const fn flush(request: u32) -> Self {
        Self { kind: Kind::Flush, id: 0, flags: 0, len: 0, words: [request as u64, 0, 0] }
    }

    pub(crate) const fn flushed(request: u32) -> Self {
        Self { kind: Kind::Flushed, id: 0, flags: 0, len: 0, words: [request as u64, 0, 0] }
    }

    pub(crate) const fn bye() -> Self {
        Self { kind: Kind::Bye, id: 0, flags: 0, len: 0, words: [0; 3] }
    }

    #[inline]
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0] = self.kind as u8;
        out[1] = self.id;
        out[2..4].copy_from_slice(&self.flags.to_le_bytes());
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        for (place, word) in out[8..].chunks_exact_mut(8).zip(self.words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads and checks a header; `max_am` is the longest payload of a message.
    #[inline]
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], max_am: usize) -> Result<Self, BadFrame> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let frame = Self {
            // Replaced below; an AM, the usual case, is left as it is.
            kind: Kind::Am,
            id: bytes[1],
            flags: u16::from_le_bytes([bytes[2], bytes[3]]),
            len: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            words: [word(8), word(16), word(24)],
        };
        if bytes[0] == Kind::Am as u8 {
            if AmId::from_wire(frame.id).is_none() || frame.flags != 0 {
                return Err(BadFrame("a message with an impossible id or flags"));
            }
            if frame.len as usize > max_am {
                return Err(BadFrame("a message that is longer than the limit"));
            }
            return Ok(frame);
        }
        frame.decode_rare(bytes[0], max_am)
    }

    fn decode_rare(mut self, kind: u8, max_am: usize) -> Result<Self, BadFrame> {
        let len = self.len as usize;
        let [_, second, third] = self.words;
        let request_only = second == 0 && third == 0 && self.words[0] <= u64::from(u32::MAX);
        let status = Status::from_wire(self.id).is_some();
        let plain = self.id == 0 && self.flags == 0;
        let (kind, sound) = match kind {
            2 => (Kind::Put, plain && len <= MAX_RMA && third == 0),
            3 => {
                let sound = AmId::from_wire(self.id).is_some() && self.flags == 0 && third == 0;
                (Kind::PutNotify, sound && (24..=24 + max_am).contains(&len))
            }
            4 => (Kind::Get, plain && len == 0 && (third >> 32) as usize <= MAX_RMA),
            5 => {
                let refused = self.id != 0;
                let sound = status && self.flags <= COMPLETE && request_only && len <= MAX_RMA;
                (Kind::Data, sound && !(refused && (len > 0 || self.flags != COMPLETE)))
            }
            6 => (Kind::End, status && self.flags == 0 && len == 0 && request_only),
            7 => {
                let sound = self.id < 6 && self.flags <= WIDE | FETCH;
                (Kind::Atomic, sound && len == ATOMIC_BYTES)
            }
            8 => {
                let sound = status && self.flags == 0 && len == 0 && third == 0;
                (Kind::Old, sound && self.words[0] <= u64::from(u32::MAX))
            }
            9 => (Kind::Flush, plain && len == 0 && request_only),
            10 => (Kind::Flushed, plain && len == 0 && request_only),
            11 => (Kind::Bye, plain && len == 0 && self.words == [0; 3]),
            _ => return Err(BadFrame("a frame of unknown kind")),
        };
        if !sound {
            return Err(BadFrame("a frame whose fields no correct peer writes"));
        }
        self.kind = kind;
        Ok(self)
    }
}

/// An atomic operation as it travels: its header and what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Atomic {
    pub(crate) key: u64,
    pub(crate) address: u64,
    pub(crate) op: AtomicOp,
    pub(crate) width: AtomicWidth,
    /// The request to answer, where the old value is wanted.
    pub(crate) request: Option<u32>,
}

impl Atomic {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES + ATOMIC_BYTES] {
        let (id, [first, second]) = self.op.to_wire();
        let wide = if self.width == AtomicWidth::W64 { WIDE } else { 0 };
        let fetch = if self.request.is_some() { FETCH } else { 0 };
        let header = Frame {
            kind: Kind::Atomic,
            id,
            flags: wide | fetch,
            len: ATOMIC_BYTES as u32,
            words: [self.key, self.address, first],
        };
        let mut out = [0; HEADER_BYTES + ATOMIC_BYTES];
        out[..32].copy_from_slice(&header.encode());
        out[32..40].copy_from_slice(&second.to_le_bytes());
        out[40..].copy_from_slice(&u64::from(self.request.unwrap_or(0)).to_le_bytes());
        out
    }

    pub(crate) fn decode(frame: &Frame, behind: &[u8; ATOMIC_BYTES]) -> Result<Self, BadFrame> {
        let [key, address, first] = frame.words;
        let (mut second, mut request) = ([0; 8], [0; 8]);
        second.copy_from_slice(&behind[..8]);
        request.copy_from_slice(&behind[8..]);
        let (second, request) = (u64::from_le_bytes(second), u64::from_le_bytes(request));
        let bad = BadFrame("an atomic operation that no correct peer writes");
        if second != 0 && frame.id != 5 {
            return Err(bad);
        }
        let op = AtomicOp::from_wire(frame.id, [first, second]).ok_or(bad)?;
        let width = if frame.flags & WIDE != 0 { AtomicWidth::W64 } else { AtomicWidth::W32 };
        let request = u32::try_from(request).map_err(|_| bad)?;
        let request = if frame.flags & FETCH != 0 {
            Some(request)
        } else if request == 0 {
            None
        } else {
            return Err(bad);
        };
        Ok(Self { key, address, op, width, request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_a_message() {
        let frame = Frame::am(AmId::new(7), &[0x0102, u64::MAX, 3], 0x0a0b);
        let golden = [
            1, 7, 0, 0, 0x0b, 0x0a, 0, 0, // kind, id, flags, length
            2, 1, 0, 0, 0, 0, 0, 0, // word 0
            255, 255, 255, 255, 255, 255, 255, 255, // word 1
            3, 0, 0, 0, 0, 0, 0, 0, // word 2
        ];
        assert_eq!(frame.encode(), golden);
        assert_eq!(Frame::decode(&golden, 0x0a0b), Ok(frame));
        assert!(Frame::decode(&golden, 0x0a0a).is_err(), "longer than the limit");
    }

    #[test]
    fn golden_bytes_of_an_atomic() {
        let atomic = Atomic {
            key: 0x11,
            address: 0x2200,
            op: AtomicOp::Cswap { compare: 5, new: 6 },
            width: AtomicWidth::W64,
            request: Some(9),
        };
        let golden = [
            7, 5, 3, 0, 16, 0, 0, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x22, 0, 0, 0, 0, 0, 0, 5, 0, 0,
            0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(atomic.encode(), golden);
        let header = Frame::decode(golden.first_chunk().unwrap(), 0).unwrap();
        assert_eq!(Atomic::decode(&header, golden.last_chunk().unwrap()), Ok(atomic));
    }

    #[test]
    fn every_kind_comes_back_and_every_changed_field_is_noticed_or_means_something_else() {
        let done = Status::Done;
        for frame in [
            Frame::am(AmId::new(31), &[1, 2, 3], 100),
            Frame::put(1, 2, MAX_RMA),
            Frame::put_notify(AmId::new(3), 1, 2, 50),
            Frame::get(1, 2, 3, 4),
            Frame::data(1, done, false, 70),
            Frame::data(1, Status::Refused, true, 0),
            Frame::end(1, Status::Refused),
            Frame::old(1, done, 2),
            Frame::flush(1),
            Frame::flushed(2),
            Frame::bye(),
        ] {
            let bytes = frame.encode();
            assert_eq!(Frame::decode(&bytes, 100), Ok(frame));
            for bit in 0..8 * HEADER_BYTES {
                let mut changed = bytes;
                changed[bit / 8] ^= 1 << (bit % 8);
                if let Ok(other) = Frame::decode(&changed, 100) {
                    assert_eq!(other.encode(), changed, "what is read is all there is");
                }
            }
        }
    }

    #[test]
    fn impossible_frames_are_refused() {
        let bad = |change: fn(&mut Frame), frame: Frame| {
            let mut frame = frame;
            change(&mut frame);
            assert!(Frame::decode(&frame.encode(), 100).is_err(), "{frame:?}");
        };
        bad(|f| f.id = 32, Frame::am(AmId::new(0), &[0; 3], 0));
        bad(|f| f.flags = 1, Frame::am(AmId::new(0), &[0; 3], 0));
        bad(|f| f.len = 101, Frame::am(AmId::new(0), &[0; 3], 0));
        bad(|f| f.len = MAX_RMA as u32 + 1, Frame::put(0, 0, 0));
        bad(|f| f.len = 23, Frame::put_notify(AmId::new(0), 0, 0, 0));
        bad(|f| f.words[2] = u64::MAX, Frame::get(0, 0, 0, 0));
        bad(|f| f.len = 1, Frame::data(0, Status::Refused, true, 0));
        bad(|f| f.id = 2, Frame::end(0, Status::Done));
        bad(|f| f.words[0] = 1 << 32, Frame::flush(0));
        bad(|f| f.words[1] = 1, Frame::bye());
        let mut unknown = Frame::bye().encode();
        for kind in [0, 12, 255] {
            unknown[0] = kind;
            assert!(Frame::decode(&unknown, 100).is_err());
        }
    }
}
