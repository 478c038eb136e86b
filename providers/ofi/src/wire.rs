//! What travels in front of every message of ours, and the bodies of those that are not the
//! user's. Little endian; a decoder never trusts a length or a number.
//!
//! ```text
//!   0  magic     u8    0xb1
//!   1  kind      u8    see `Kind`
//!   2  id        u8    of an active message, else 0
//!   3  zero      u8
//!   4  source    u32   the number that the receiver gave the sender; UNNUMBERED in a greeting
//!   8  stamp     u32   follows from the job's secret and the instances of both sides, in this order: who
//!                      does not know the secret has to guess it, and a number that was given to another
//!                      interface is noticed. In a greeting and in a refusal the low half of the
//!                      sender's instance
//!  12  taken     u32   messages under credit that the sender has taken from the receiver so far,
//!                      modulo 2^32
//! ```
//!
//! | kind | behind the header | under credit |
//! |---|---|---|
//! | Greeting | number u32 that the receiver shall use as its source, instance u64 of the receiver, proof of 32 bytes, address of the sender | no |
//! | Active | three words of the user's header, payload | yes |
//! | Taken | nothing | no |
//! | Close | nothing | no |
//! | Atomic | request u32, code u8, width u8, zero u16, key u64, address u64, operand u64, compare u64 | yes |
//! | Result | request u32, refused u32, old u64 | no: there is one for each request |
//! | Refusal | instance u64 of the sender, instance u64 of the receiver | no |
//!
//! **Proof.** A greeting proves by the job's secret that its sender belongs to the job ([`Secret`]). The
//! proof covers the instance of the receiver, the number and the whole address of the sender, so that a
//! greeting is worth nothing to another interface, and its repetition says only what is known already.
//! One whose proof is wrong is dropped. If it names this interface's instance, which only those know
//! who have its address, its sender gets a refusal instead of waiting for ever (`refusal` bounds what
//! that costs), and fails its peer as refused, unless that has greeted. A refusal names both instances,
//! so that nobody can refuse in another's name who does not have both addresses.
//!
//! After the greetings nothing is signed but by the stamp, and nothing is encrypted: who can read or change
//! packets on their way is not kept out.
//!
//! **Liveness of a pair.** Each side greets the other once, in answer to the other's greeting at the
//! latest; until a side has been greeted it does not know its number and its messages wait with
//! it. A Close is the last message of a side.

use bowline_uct::{AM_HEADER_BYTES, AmHeader, AtomicOp, AtomicWidth, MAC_BYTES, Secret};

/// Bytes of the header.
pub(crate) const HEADER: usize = 16;
/// Bytes in front of the payload of an active message.
pub(crate) const ACTIVE: usize = HEADER + AM_HEADER_BYTES;
/// Bytes of an atomic request, header included.
pub(crate) const ATOMIC: usize = HEADER + 40;
/// Bytes of its result, header included.
pub(crate) const RESULT: usize = HEADER + 16;
/// Bytes of a refusal, header included.
pub(crate) const REFUSAL: usize = HEADER + 16;
/// Bytes in front of the address in a greeting.
pub(crate) const GREETING: usize = HEADER + 12 + MAC_BYTES;

const MAGIC: u8 = 0xb1;
/// The source of a greeting.
pub(crate) const UNNUMBERED: u32 = u32::MAX;

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Greeting = 1,
    Active = 2,
    Taken = 3,
    Close = 4,
    Atomic = 5,
    Result = 6,
    Refusal = 7,
}

impl Kind {
    fn from_wire(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::Greeting,
            2 => Self::Active,
            3 => Self::Taken,
            4 => Self::Close,
            5 => Self::Atomic,
            6 => Self::Result,
            7 => Self::Refusal,
            _ => return None,
        })
    }

    /// Whether a message of this kind is counted by windows.
    pub(crate) const fn under_credit(self) -> bool {
        matches!(self, Self::Active | Self::Atomic)
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) id: u8,
    pub(crate) source: u32,
    pub(crate) stamp: u32,
    pub(crate) taken: u32,
}

impl Header {
    #[inline]
    pub(crate) fn pack(self) -> [u8; HEADER] {
        let first = u32::from_le_bytes([MAGIC, self.kind as u8, self.id, 0]);
        let low = u64::from(first) | u64::from(self.source) << 32;
        let high = u64::from(self.stamp) | u64::from(self.taken) << 32;
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    #[inline]
    pub(crate) fn unpack(bytes: [u8; HEADER]) -> Option<Self> {
        let all = u128::from_le_bytes(bytes);
        let [magic, kind, id, zero] = (all as u32).to_le_bytes();
        if magic != MAGIC || zero != 0 {
            return None;
        }
        let kind = Kind::from_wire(kind)?;
        if id != 0 && kind != Kind::Active {
            return None;
        }
        let word = |shift: u32| (all >> shift) as u32;
        Some(Self { kind, id, source: word(32), stamp: word(64), taken: word(96) })
    }
}

/// The words of a user's header.
#[inline]
pub(crate) fn pack_words(words: &AmHeader) -> [u8; AM_HEADER_BYTES] {
    let mut out = [0; AM_HEADER_BYTES];
    for (space, word) in out.chunks_exact_mut(8).zip(words) {
        space.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// The words of a user's header.
#[inline]
pub(crate) fn unpack_words(bytes: &[u8; AM_HEADER_BYTES]) -> AmHeader {
    let (words, _) = bytes.as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]), u64::from_le_bytes(words[2])]
}

/// An atomic operation that the target's progress performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) request: u32,
    pub(crate) op: AtomicOp,
    pub(crate) width: AtomicWidth,
    pub(crate) key: u64,
    pub(crate) address: u64,
}

impl Request {
    pub(crate) fn pack(&self) -> [u8; ATOMIC - HEADER] {
        let (number, [first, second]) = self.op.to_wire();
        // The value to store comes first.
        let swap = matches!(self.op, AtomicOp::Cswap { .. });
        let (operand, compare) = if swap { (second, first) } else { (first, second) };
        let mut out = [0; ATOMIC - HEADER];
        out[..4].copy_from_slice(&self.request.to_le_bytes());
        out[4] = number + 1;
        out[5] = self.width.bytes() as u8;
        for (space, word) in
            out[8..].chunks_exact_mut(8).zip([self.key, self.address, operand, compare])
        {
            space.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(crate) fn unpack(bytes: &[u8; ATOMIC - HEADER]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        let (operand, compare) = (word(3), word(4));
        let [a, b, c, d, code, width, 0, 0] = words[0] else { return None };
        let operands = if code == 6 { [compare, operand] } else { [operand, 0] };
        let op = AtomicOp::from_wire(code.checked_sub(1)?, operands)?;
        if code != 6 && compare != 0 {
            return None;
        }
        let width = AtomicWidth::from_bytes(width)?;
        let request = u32::from_le_bytes([a, b, c, d]);
        Some(Self { request, op, width, key: word(1), address: word(2) })
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) request: u32,
    /// The old value; `None` when the target refused to touch the memory.
    pub(crate) old: Option<u64>,
}

impl Outcome {
    pub(crate) fn pack(&self) -> [u8; RESULT - HEADER] {
        let mut out = [0; RESULT - HEADER];
        out[..4].copy_from_slice(&self.request.to_le_bytes());
        out[4..8].copy_from_slice(&u32::from(self.old.is_none()).to_le_bytes());
        out[8..].copy_from_slice(&self.old.unwrap_or(0).to_le_bytes());
        out
    }

    pub(crate) fn unpack(bytes: &[u8; RESULT - HEADER]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [a, b, c, d, refused, 0, 0, 0] = words[0] else { return None };
        let old = match refused {
            0 => Some(u64::from_le_bytes(words[1])),
            1 => None,
            _ => return None,
        };
        Some(Self { request: u32::from_le_bytes([a, b, c, d]), old })
    }
}

/// The stamp of messages from interface `from` to interface `to`.
pub(crate) fn stamp(secret: &Secret, from: u64, to: u64) -> u32 {
    let parts: [&[u8]; 2] = [&from.to_le_bytes(), &to.to_le_bytes()];
    let mac = secret.sign(b"bowline ofi 1 stamp", &parts);
    u32::from_le_bytes([mac[0], mac[1], mac[2], mac[3]])
}

const GREETING_LABEL: &[u8] = b"bowline ofi 1 greeting";

/// The greeting of the interface at `address`, an address as it travels, to the one with instance `to`,
/// whose messages are to carry `number`.
pub(crate) fn greeting(
    secret: &Secret,
    (instance, address): (u64, &[u8]),
    to: u64,
    number: u32,
) -> Vec<u8> {
    let stamp = instance as u32;
    let header = Header { kind: Kind::Greeting, id: 0, source: UNNUMBERED, stamp, taken: 0 };
    let parts: [&[u8]; 3] = [&to.to_le_bytes(), &number.to_le_bytes(), address];
    let mac = secret.sign(GREETING_LABEL, &parts);
    [&header.pack()[..], parts[1], parts[0], &mac, address].concat()
}

/// A greeting, taken apart: nothing of it has been proved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting<'a> {
    pub(crate) number: u32,
    /// Instance of the interface that it is for.
    pub(crate) to: u64,
    mac: &'a [u8; MAC_BYTES],
    pub(crate) address: &'a [u8],
}

impl<'a> Greeting<'a> {
    /// What follows the header.
    pub(crate) fn unpack(body: &'a [u8]) -> Option<Self> {
        let (number, rest) = body.split_first_chunk::<4>()?;
        let (to, rest) = rest.split_first_chunk::<8>()?;
        let (mac, address) = rest.split_first_chunk::<MAC_BYTES>()?;
        let (number, to) = (u32::from_le_bytes(*number), u64::from_le_bytes(*to));
        Some(Self { number, to, mac, address })
    }

    /// Whether its sender knows the secret and meant the interface with instance `own`.
    pub(crate) fn is_proved(&self, secret: &Secret, own: u64) -> bool {
        let parts: [&[u8]; 3] = [&own.to_le_bytes(), &self.number.to_le_bytes(), self.address];
        self.to == own && secret.verify(GREETING_LABEL, &parts, self.mac)
    }
}

/// A refusal from interface `from` to interface `to`.
pub(crate) fn refusal(from: u64, to: u64) -> [u8; REFUSAL] {
    let header =
        Header { kind: Kind::Refusal, id: 0, source: UNNUMBERED, stamp: from as u32, taken: 0 };
    let mut out = [0; REFUSAL];
    out[..HEADER].copy_from_slice(&header.pack());
    out[HEADER..HEADER + 8].copy_from_slice(&from.to_le_bytes());
    out[HEADER + 8..].copy_from_slice(&to.to_le_bytes());
    out
}

/// Who refuses whom.
pub(crate) fn refused(body: &[u8; REFUSAL - HEADER]) -> (u64, u64) {
    let (words, _) = body.as_chunks::<8>();
    (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]))
}

/// Runs every decoder on `bytes`, for the fuzz target; what was read is written again.
///
/// # Panics
/// When that does not give the same bytes.
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub fn fuzz_message(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first_chunk::<HEADER>() else { return };
    let Some(header) = Header::unpack(*first) else { return };
    assert_eq!(header.pack(), *first);
    match header.kind {
        Kind::Greeting => {
            let secret = Secret::new([0; 32]);
            if let Some(read) = Greeting::unpack(body) {
                crate::addr::fuzz_address(read.address);
                let proved = greeting(&secret, (header.stamp.into(), read.address), 7, read.number);
                let again = Greeting::unpack(&proved[HEADER..]).expect("just written");
                assert!(again.is_proved(&secret, 7) && !again.is_proved(&secret, 8));
                assert_eq!(read.is_proved(&secret, 7), proved[HEADER..] == *body);
            }
        }
        Kind::Active => {
            if let Some((words, _)) = body.split_first_chunk() {
                assert_eq!(pack_words(&unpack_words(words)), *words);
            }
        }
        Kind::Atomic => {
            if let Some((request, _)) = body.split_first_chunk()
                && let Some(read) = Request::unpack(request)
            {
                assert_eq!(read.pack(), *request);
            }
        }
        Kind::Result => {
            if let Some((outcome, _)) = body.split_first_chunk()
                && let Some(read) = Outcome::unpack(outcome)
                && read.old.is_some()
            {
                assert_eq!(read.pack(), *outcome);
            }
        }
        Kind::Refusal => {
            if let Some((names, _)) = body.split_first_chunk() {
                let (from, to) = refused(names);
                assert_eq!(refusal(from, to)[HEADER..], *names);
            }
        }
        Kind::Taken | Kind::Close => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        for kind in 0..=255 {
            let Some(kind) = Kind::from_wire(kind) else { continue };
            let id = if kind == Kind::Active { 31 } else { 0 };
            let header = Header { kind, id, source: 7, stamp: 0xdead_beef, taken: u32::MAX };
            assert_eq!(Header::unpack(header.pack()), Some(header));
            fuzz_message(&header.pack());
        }
        assert_eq!(Header::unpack([0; HEADER]), None);
        assert_eq!(Header::unpack([0xb1; HEADER]), None);
    }

    #[test]
    fn a_greeting_is_proved_to_one_receiver_by_one_secret() {
        let secret = Secret::new([1; 32]);
        let bytes = greeting(&secret, (0x1_0000_0002, b"address"), 9, 5);
        let header = Header::unpack(*bytes.first_chunk().unwrap()).unwrap();
        assert_eq!((header.kind, header.source, header.stamp), (Kind::Greeting, UNNUMBERED, 2));
        let read = Greeting::unpack(&bytes[HEADER..]).unwrap();
        assert_eq!((read.number, read.address), (5, &b"address"[..]));
        assert!(read.is_proved(&secret, 9));
        assert!(!read.is_proved(&secret, 8), "played to somebody else");
        assert!(!read.is_proved(&Secret::new([2; 32]), 9), "another secret");
        for byte in HEADER..bytes.len() {
            let mut changed = bytes.clone();
            changed[byte] ^= 1;
            let changed = Greeting::unpack(&changed[HEADER..]).unwrap();
            assert!(!changed.is_proved(&secret, 9), "byte {byte}");
        }
        for cut in HEADER..GREETING {
            assert!(Greeting::unpack(&bytes[HEADER..cut]).is_none());
        }
        assert_ne!(stamp(&secret, 1, 2), stamp(&secret, 2, 1));
        assert_ne!(stamp(&secret, 1, 2), stamp(&Secret::new([2; 32]), 1, 2));
    }

    #[test]
    fn requests_and_outcomes_come_back() {
        let ops = [
            AtomicOp::Add(1),
            AtomicOp::And(u64::MAX),
            AtomicOp::Or(0),
            AtomicOp::Xor(1 << 63),
            AtomicOp::Swap(9),
            AtomicOp::Cswap { compare: 5, new: 6 },
        ];
        for op in ops {
            for width in [AtomicWidth::W32, AtomicWidth::W64] {
                let request = Request { request: 3, op, width, key: u64::MAX, address: 0x1000 };
                let bytes = request.pack();
                assert_eq!(Request::unpack(&bytes), Some(request));
                for byte in 4..8 {
                    let mut bad = bytes;
                    bad[byte] = 0xff;
                    assert_eq!(Request::unpack(&bad), None, "byte {byte}");
                }
            }
        }
        for old in [None, Some(0), Some(u64::MAX)] {
            let outcome = Outcome { request: 8, old };
            assert_eq!(Outcome::unpack(&outcome.pack()), Some(outcome));
        }
        assert_eq!(Outcome::unpack(&[0xff; RESULT - HEADER]), None);
        assert_eq!(unpack_words(&pack_words(&[1, u64::MAX, 3])), [1, u64::MAX, 3]);
    }
}
