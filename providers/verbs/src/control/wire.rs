//! Datagrams by which two interfaces agree on a connection.
//!
//! ```text
//!   version u8 | kind u8 | to u64 | sender's address (u16 length, bytes) | body | check u32
//!     request, reply: serial u32 | pair u32 | psn u32 | your pair u32
//!     close:          pair u32 | how u8
//!     refuse, ping, pong: nothing
//! ```
//!
//! Behind that stands a proof by the job's secret over all of it, which covers both ends' names. What
//! has none is dropped before anything of it is read. A proof does not say when a datagram was sent:
//! a host that can record packets can repeat them. A repeated Request is known by its serial; other
//! repetitions at worst end an attempt to connect, or make a peer seem alive.
//!
//! A peer's bytes are believed only as far as they name what we know. Lost ones are sent again by
//! the side that waits for the answer.

use bowline_uct::{AddrReader, AddrWriter, MAC_BYTES, Secret, fnv_32};

use crate::addr::{Address, BadBytes};

const VERSION: u8 = 1;

/// Bytes of the longest datagram, without its proof.
pub const LONGEST: usize = 160;

const LABEL: &[u8] = b"bowline verbs 1 datagram";

/// The datagram `bytes` with its proof.
pub fn seal(secret: &Secret, mut bytes: Vec<u8>) -> Vec<u8> {
    let mac = secret.sign(LABEL, &[&bytes]);
    bytes.extend_from_slice(&mac);
    bytes
}

/// The datagram in front of a proof, if that is right.
pub fn unseal<'a>(secret: &Secret, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (datagram, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
    secret.verify(LABEL, &[datagram], mac).then_some(datagram)
}

/// One end of a connection: its queue pair and the number of its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairEnd {
    /// Number of the pair, 24 bits.
    pub pair: u32,
    /// Number of the first packet, 24 bits.
    pub psn: u32,
}

/// What a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Here is my end; send me yours.
    Request {
        /// Goes up with each request of an interface that is not a repetition.
        serial: u32,
        /// The sender's end.
        end: PairEnd,
    },
    /// Here is mine.
    Reply {
        /// The sender's end.
        end: PairEnd,
        /// The pair of the request that is answered.
        yours: u32,
    },
    /// I cannot connect.
    Refuse,
    /// The connection of this end is over; 0: I am leaving.
    Close {
        /// The sender's pair.
        pair: u32,
        /// Whether it was closed in order.
        in_order: bool,
    },
    /// Are you there?
    Ping,
    /// I am.
    Pong,
}

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The interface it is for; another one may have come to its number.
    pub to: u64,
    /// Who sent it.
    pub from: Address,
    /// What it says.
    pub body: Body,
}

impl Datagram {
    /// The datagram's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = AddrWriter::new();
        let kind = match self.body {
            Body::Request { .. } => 1,
            Body::Reply { .. } => 2,
            Body::Refuse => 3,
            Body::Close { .. } => 4,
            Body::Ping => 5,
            Body::Pong => 6,
        };
        out.u8(VERSION).u8(kind).u64(self.to).bytes(&self.from.encode());
        match self.body {
            Body::Request { serial, end } => {
                out.u32(serial).u32(end.pair).u32(end.psn).u32(0);
            }
            Body::Reply { end, yours } => {
                out.u32(0).u32(end.pair).u32(end.psn).u32(yours);
            }
            Body::Close { pair, in_order } => {
                out.u32(pair).u8(u8::from(in_order));
            }
            Body::Refuse | Body::Ping | Body::Pong => {}
        }
        let bytes = out.finish_checked();
        debug_assert!(bytes.len() <= LONGEST, "the longest datagram is {LONGEST} bytes");
        bytes
    }

    /// The datagram that the bytes are, all of them.
    ///
    /// # Errors
    /// When they are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let mut reader = AddrReader::new(bytes);
        if reader.u8()? != VERSION {
            return Err(BadBytes::Foreign);
        }
        let kind = reader.u8()?;
        let to = reader.u64()?;
        let from = Address::decode(reader.bytes()?)?;
        let body = match kind {
            1 | 2 => {
                let serial = reader.u32()?;
                let end = PairEnd { pair: reader.u32()?, psn: reader.u32()? };
                let yours = reader.u32()?;
                if [end.pair, end.psn, yours].iter().any(|&number| number >= 1 << 24) {
                    return Err(BadBytes::Damaged);
                }
                if kind == 1 { Body::Request { serial, end } } else { Body::Reply { end, yours } }
            }
            3 => Body::Refuse,
            4 => Body::Close { pair: reader.u32()?, in_order: reader.u8()? != 0 },
            5 => Body::Ping,
            6 => Body::Pong,
            _ => return Err(BadBytes::Foreign),
        };
        let expected = fnv_32(&bytes[..bytes.len() - reader.rest().len()]);
        if reader.u32()? != expected || !reader.rest().is_empty() {
            return Err(BadBytes::Damaged);
        }
        Ok(Self { to, from, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::VerbsMode;

    #[test]
    fn datagrams_come_back_and_damage_is_noticed() {
        let from = Address {
            mode: VerbsMode::Rc,
            uid: 3,
            gid: [1; 16],
            lid: 0,
            ethernet: true,
            mtu: 3,
            pair: 9,
            data: 0,
            qkey: 1,
            longest: 100,
        };
        let end = PairEnd { pair: 77, psn: 88 };
        for body in [
            Body::Request { serial: 4, end },
            Body::Reply { end, yours: 5 },
            Body::Refuse,
            Body::Close { pair: 6, in_order: true },
            Body::Ping,
            Body::Pong,
        ] {
            let datagram = Datagram { to: 8, from, body };
            let bytes = datagram.encode();
            assert!(bytes.len() <= LONGEST);
            let secret = Secret::new([3; 32]);
            let sealed = seal(&secret, bytes.clone());
            assert_eq!(unseal(&secret, &sealed), Some(&bytes[..]));
            assert_eq!(unseal(&Secret::new([4; 32]), &sealed), None, "another secret");
            assert_eq!(unseal(&secret, &bytes), None, "no proof");
            for byte in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[byte] ^= 1;
                assert_eq!(unseal(&secret, &changed), None, "{body:?} byte {byte}");
            }
            assert_eq!(Datagram::decode(&bytes), Ok(datagram));
            for cut in 0..bytes.len() {
                assert!(Datagram::decode(&bytes[..cut]).is_err(), "{body:?} cut at {cut}");
            }
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(Datagram::decode(&changed).is_err(), "{body:?} bit {bit}");
            }
        }
    }
}
