//! The four messages of the handshake as bytes; what they prove is in [`crate::auth`].
//!
//! ```text
//!   prefix     "BWTH" | version u8 | kind u8 | length u16                              8 bytes
//!   HELLO      prefix | nonce 32 | uid u64 | wanted u64 | attempt u64 | purpose u8 | 7 zero    72
//!   CHALLENGE  prefix | nonce 32 | uid u64 | mac 32                                           80
//!   AUTH       prefix | mac 32 | private data                                          40 and more
//!   ANSWER     prefix | verdict u8 | 7 zero | void u64 | mac 32 | private data         56 and more
//! ```
//!
//! *wanted* is the uid that the client expects, 0 if it only knows a socket address. *attempt*
//! numbers the client's attempts; *void* says up to which number the server regards its own
//! attempts as given up, so that a late one is not taken for a new connection.
//!
//! A length is known after the prefix and bounded by [`MAX_PRIVATE`]: a handshake costs that much
//! memory at most.

use crate::auth::MAC_BYTES;

pub(crate) const PREFIX_BYTES: usize = 8;
/// Longest private data of a request, an acceptance or a rejection, in bytes.
pub const MAX_PRIVATE: usize = 2048;

const MAGIC: [u8; 4] = *b"BWTH";
/// Version of handshake and frames.
pub(crate) const VERSION: u8 = 1;

pub(crate) const HELLO_BYTES: usize = 72;
pub(crate) const CHALLENGE_BYTES: usize = 80;
const AUTH_BYTES: usize = 40;
const ANSWER_BYTES: usize = 56;

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Challenge = 2,
    Auth = 3,
    Answer = 4,
}

/// Why bytes are no message of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHello {
    /// Not of this protocol at all, or impossible fields.
    Malformed(&'static str),
    /// Another version.
    Version(u8),
}

impl std::fmt::Display for BadHello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(how) => f.write_str(how),
            Self::Version(theirs) => {
                write!(f, "it speaks version {theirs}, this library version {VERSION}")
            }
        }
    }
}

fn prefix(kind: Kind, len: usize) -> [u8; PREFIX_BYTES] {
    let len = (len as u16).to_le_bytes();
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], VERSION, kind as u8, len[0], len[1]]
}

/// The length of the whole message, which must be of `kind`.
pub(crate) fn length(kind: Kind, bytes: &[u8; PREFIX_BYTES]) -> Result<usize, BadHello> {
    if bytes[..4] != MAGIC {
        return Err(BadHello::Malformed("its first bytes are none of this protocol"));
    }
    if bytes[4] != VERSION {
        return Err(BadHello::Version(bytes[4]));
    }
    if bytes[5] != kind as u8 {
        return Err(BadHello::Malformed("another message of the handshake was due"));
    }
    let len = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    let sound = match kind {
        Kind::Hello => len == HELLO_BYTES,
        Kind::Challenge => len == CHALLENGE_BYTES,
        Kind::Auth => (AUTH_BYTES..=AUTH_BYTES + MAX_PRIVATE).contains(&len),
        Kind::Answer => (ANSWER_BYTES..=ANSWER_BYTES + MAX_PRIVATE).contains(&len),
    };
    if sound { Ok(len) } else { Err(BadHello::Malformed("its length is impossible")) }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// A whole message, its prefix checked; its length is what the prefix says.
fn whole(kind: Kind, bytes: &[u8]) -> Result<(), BadHello> {
    let prefix = bytes.first_chunk().ok_or(BadHello::Malformed("it ends early"))?;
    if length(kind, prefix)? != bytes.len() {
        return Err(BadHello::Malformed("it ends early or late"));
    }
    Ok(())
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The one connection between two interfaces that know each other's addresses.
    Peer,
    /// A request to a listener, which its user accepts or rejects.
    Request,
}

/// The first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) nonce: [u8; 32],
    pub(crate) uid: u64,
    pub(crate) wanted: u64,
    pub(crate) attempt: u64,
    pub(crate) purpose: Purpose,
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut out = [0; HELLO_BYTES];
        out[..8].copy_from_slice(&prefix(Kind::Hello, HELLO_BYTES));
        out[8..40].copy_from_slice(&self.nonce);
        out[40..48].copy_from_slice(&self.uid.to_le_bytes());
        out[48..56].copy_from_slice(&self.wanted.to_le_bytes());
        out[56..64].copy_from_slice(&self.attempt.to_le_bytes());
        out[64] = u8::from(self.purpose == Purpose::Request);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadHello> {
        whole(Kind::Hello, bytes)?;
        let purpose = match bytes[64..72] {
            [0, 0, 0, 0, 0, 0, 0, 0] => Purpose::Peer,
            [1, 0, 0, 0, 0, 0, 0, 0] => Purpose::Request,
            _ => return Err(BadHello::Malformed("its purpose is unknown")),
        };
        let mut nonce = [0; 32];
        nonce.copy_from_slice(&bytes[8..40]);
        let (uid, wanted, attempt) = (word(bytes, 40), word(bytes, 48), word(bytes, 56));
        if uid == 0 || (wanted == 0) != (purpose == Purpose::Request) {
            return Err(BadHello::Malformed("its uids do not fit its purpose"));
        }
        Ok(Self { nonce, uid, wanted, attempt, purpose })
    }
}

/// The second message, without its MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) nonce: [u8; 32],
    pub(crate) uid: u64,
}

pub(crate) const CHALLENGE_SIGNED: usize = CHALLENGE_BYTES - MAC_BYTES;

impl Challenge {
    /// The part that the MAC covers.
    pub(crate) fn encode(&self) -> [u8; CHALLENGE_SIGNED] {
        let mut out = [0; CHALLENGE_SIGNED];
        out[..8].copy_from_slice(&prefix(Kind::Challenge, CHALLENGE_BYTES));
        out[8..40].copy_from_slice(&self.nonce);
        out[40..48].copy_from_slice(&self.uid.to_le_bytes());
        out
    }

    /// The message and its MAC.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), BadHello> {
        whole(Kind::Challenge, bytes)?;
        let mut nonce = [0; 32];
        nonce.copy_from_slice(&bytes[8..40]);
        let uid = word(bytes, 40);
        if uid == 0 {
            return Err(BadHello::Malformed("its uid is nobody's"));
        }
        Ok((Self { nonce, uid }, &bytes[CHALLENGE_SIGNED..]))
    }
}

/// The third message in two parts: what is in front of the MAC, and what is behind it.
pub(crate) fn encode_auth(private: &[u8]) -> [u8; PREFIX_BYTES] {
    prefix(Kind::Auth, AUTH_BYTES + private.len())
}

/// What is in front of a MAC, the MAC, and the private data behind it.
pub(crate) type Parts<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The parts of a third message.
pub(crate) fn decode_auth(bytes: &[u8]) -> Result<Parts<'_>, BadHello> {
    whole(Kind::Auth, bytes)?;
    Ok((&bytes[..PREFIX_BYTES], &bytes[PREFIX_BYTES..AUTH_BYTES], &bytes[AUTH_BYTES..]))
}

/// What the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The connection stands; frames follow.
    Welcome,
    /// The server's own connection to the client stands or is on its way.
    Duplicate,
    /// The listener's user said no, or nobody listens for requests there.
    Rejected,
    /// The server has another uid than the one that was wanted.
    WrongPeer,
}

/// The fourth message, without MAC and private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    pub(crate) void: u64,
}

const ANSWER_FRONT: usize = ANSWER_BYTES - MAC_BYTES;

impl Answer {
    /// What is in front of the MAC.
    pub(crate) fn encode(&self, private: &[u8]) -> [u8; ANSWER_FRONT] {
        let mut out = [0; ANSWER_FRONT];
        out[..8].copy_from_slice(&prefix(Kind::Answer, ANSWER_BYTES + private.len()));
        out[8] = match self.verdict {
            Verdict::Welcome => 1,
            Verdict::Duplicate => 2,
            Verdict::Rejected => 3,
            Verdict::WrongPeer => 4,
        };
        out[16..].copy_from_slice(&self.void.to_le_bytes());
        out
    }

    /// The answer, and the message's parts.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Parts<'_>), BadHello> {
        whole(Kind::Answer, bytes)?;
        let verdict = match bytes[8..16] {
            [1, 0, 0, 0, 0, 0, 0, 0] => Verdict::Welcome,
            [2, 0, 0, 0, 0, 0, 0, 0] => Verdict::Duplicate,
            [3, 0, 0, 0, 0, 0, 0, 0] => Verdict::Rejected,
            [4, 0, 0, 0, 0, 0, 0, 0] => Verdict::WrongPeer,
            _ => return Err(BadHello::Malformed("its verdict is unknown")),
        };
        let answer = Self { verdict, void: word(bytes, 16) };
        let (front, rest) = bytes.split_at(ANSWER_FRONT);
        let (mac, private) = rest.split_at(MAC_BYTES);
        Ok((answer, (front, mac, private)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_a_hello() {
        let hello =
            Hello { nonce: [0xaa; 32], uid: 0x0102, wanted: 3, attempt: 4, purpose: Purpose::Peer };
        let mut golden = b"BWTH\x01\x01\x48\0".to_vec();
        golden.extend([0xaa; 32]);
        golden.extend([2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend([0; 8]);
        assert_eq!(hello.encode()[..], golden);
        assert_eq!(Hello::decode(&golden), Ok(hello));
        for cut in 0..golden.len() {
            assert!(Hello::decode(&golden[..cut]).is_err());
        }
        golden[4] = 9;
        assert_eq!(Hello::decode(&golden), Err(BadHello::Version(9)));
    }

    #[test]
    fn the_other_messages_come_back() {
        let challenge = Challenge { nonce: [1; 32], uid: 2 };
        let mut bytes = challenge.encode().to_vec();
        bytes.extend([9; 32]);
        assert_eq!(Challenge::decode(&bytes), Ok((challenge, &[9; 32][..])));
        let mut bytes = encode_auth(b"private").to_vec();
        bytes.extend([8; 32]);
        bytes.extend(b"private");
        assert_eq!(decode_auth(&bytes).map(|auth| auth.2), Ok(&b"private"[..]));
        assert!(decode_auth(&bytes[..bytes.len() - 1]).is_err());
        let answer = Answer { verdict: Verdict::Rejected, void: 7 };
        let mut bytes = answer.encode(b"no").to_vec();
        bytes.extend([5; 32]);
        bytes.extend(b"no");
        let (read, (_, mac, private)) = Answer::decode(&bytes).unwrap();
        assert_eq!((read, mac, private), (answer, &[5; 32][..], &b"no"[..]));
        let long = encode_auth(&[0; MAX_PRIVATE + 1]);
        assert!(length(Kind::Auth, &long).is_err(), "no handshake makes us hold more");
    }
}
