//! What travels outside of messages: an interface's address and the keys of its memory.
//!
//! ```text
//!   address: magic u32 | version u8 | mode u8 | uid u64 | gid 16 | lid u16 | ethernet u8 | mtu u8
//!            | pair u32 | data u32 | qkey u32 | longest u32 | check u32
//!   key:     tag u8 | uid u64 | start u64 | length u64 | rkey u32 | check u32
//! ```
//!
//! All little endian. The check is FNV-1a over what stands before it: it notices damage, and is no
//! protection against forgery, which the device's own keys are.

use bowline_uct::{AddrReader, AddrWriter, Truncated, Unreachable, fnv_32};

use crate::options::VerbsMode;

const MAGIC: u32 = u32::from_le_bytes(*b"BWVB");
const VERSION: u8 = 1;
const KEY_TAG: u8 = 0xb7;

pub(crate) const KEY_BYTES: usize = 33;

/// Why bytes are no address or key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBytes {
    /// They end early.
    #[error("{0}")]
    Truncated(#[from] Truncated),
    /// They are something else.
    #[error("the bytes are not of the verbs transport, or of another version of it")]
    Foreign,
    /// The check at the end is wrong, or there are more bytes behind it.
    #[error("the bytes are damaged")]
    Damaged,
}

/// What a peer must know to reach an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// What the interface is made of.
    pub mode: VerbsMode,
    /// Names the interface; random.
    pub uid: u64,
    /// Global address of its port.
    pub gid: [u8; 16],
    /// Local address of its port, 0 on Ethernet.
    pub lid: u16,
    /// Whether the port's link is Ethernet.
    pub ethernet: bool,
    /// Largest packet, as the verbs number it (1: 256 bytes .. 5: 4096 bytes).
    pub mtu: u8,
    /// Number of the datagram queue pair that answers.
    pub pair: u32,
    /// In ud, the number of the one that takes messages; else 0.
    pub data: u32,
    /// The key that datagrams to them must carry.
    pub qkey: u32,
    /// Longest message that its receive buffers hold, header included.
    pub longest: u32,
}

impl Address {
    /// The address as it travels.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = AddrWriter::new();
        out.u32(MAGIC).u8(VERSION).u8(self.mode as u8).u64(self.uid).raw(&self.gid);
        out.u16(self.lid).u8(u8::from(self.ethernet)).u8(self.mtu);
        out.u32(self.pair).u32(self.data).u32(self.qkey).u32(self.longest);
        out.finish_checked()
    }

    /// The address that the bytes are, all of them.
    ///
    /// # Errors
    /// When they are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let mut reader = AddrReader::new(bytes);
        let address = Self::read(&mut reader)?;
        let checked = bytes.len() - reader.rest().len();
        let expected = fnv_32(&bytes[..checked]);
        if reader.u32()? != expected || !reader.rest().is_empty() {
            return Err(BadBytes::Damaged);
        }
        Ok(address)
    }

    fn read(reader: &mut AddrReader<'_>) -> Result<Self, BadBytes> {
        if reader.u32()? != MAGIC || reader.u8()? != VERSION {
            return Err(BadBytes::Foreign);
        }
        let mode = match reader.u8()? {
            mode if mode == VerbsMode::Rc as u8 => VerbsMode::Rc,
            mode if mode == VerbsMode::Ud as u8 => VerbsMode::Ud,
            _ => return Err(BadBytes::Damaged),
        };
        let (uid, gid, lid) = (reader.u64()?, reader.take()?, reader.u16()?);
        let (ethernet, mtu) = (reader.u8()?, reader.u8()?);
        if ethernet > 1 || !(1..=5).contains(&mtu) {
            return Err(BadBytes::Damaged);
        }
        let (pair, data) = (reader.u32()?, reader.u32()?);
        let (qkey, longest) = (reader.u32()?, reader.u32()?);
        if pair >= 1 << 24 || data >= 1 << 24 {
            return Err(BadBytes::Damaged);
        }
        let ethernet = ethernet == 1;
        Ok(Self { mode, uid, gid, lid, ethernet, mtu, pair, data, qkey, longest })
    }

    /// Whether the interface with this address reaches the one with `other`.
    ///
    /// # Errors
    /// With the reason why not.
    pub fn reaches(&self, other: &Self) -> Result<(), Unreachable> {
        let because = |reason: &str| Err(Unreachable::because(reason));
        if other.uid == self.uid {
            return because(
                "the address is this interface's own; messages to oneself go by the \
                            self transport",
            );
        }
        if other.mode != self.mode {
            return because(
                "the peer uses the other mode of verbs (rc, ud); set \
                            BOWLINE_VERBS_MODE alike at all ranks",
            );
        }
        if other.ethernet != self.ethernet {
            return because("one port is InfiniBand and the other Ethernet");
        }
        if !self.ethernet && other.gid[..8] != self.gid[..8] {
            return because("the ports are in different InfiniBand subnets");
        }
        if self.ethernet && is_ipv4(&self.gid) != is_ipv4(&other.gid) {
            return because("one port's global address is of IPv4 and the other's of IPv6");
        }
        if other.longest != self.longest {
            return because(
                "the peer's receive buffers have another size; set \
                            BOWLINE_VERBS_MAX_BCOPY and the ports' MTU alike at all ranks",
            );
        }
        Ok(())
    }
}

/// Whether a global address is an IPv4 one in IPv6's clothes.
pub(crate) fn is_ipv4(gid: &[u8; 16]) -> bool {
    gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff]
}

/// A key of memory, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedKey {
    /// The interface that owns the memory.
    pub uid: u64,
    /// Where it starts, in the owner's address space.
    pub start: u64,
    /// Its bytes.
    pub len: u64,
    /// The device's key.
    pub rkey: u32,
}

impl PackedKey {
    /// The key's bytes.
    pub fn encode(&self) -> [u8; KEY_BYTES] {
        let mut out = [0; KEY_BYTES];
        out[0] = KEY_TAG;
        out[1..9].copy_from_slice(&self.uid.to_le_bytes());
        out[9..17].copy_from_slice(&self.start.to_le_bytes());
        out[17..25].copy_from_slice(&self.len.to_le_bytes());
        out[25..29].copy_from_slice(&self.rkey.to_le_bytes());
        let check = fnv_32(&out[..29]);
        out[29..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// The key that the bytes are, all of them.
    ///
    /// # Errors
    /// When they are none, or name memory beyond the end of the address space.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        let mut reader = AddrReader::new(bytes);
        if reader.u8()? != KEY_TAG {
            return Err(BadBytes::Foreign);
        }
        let key = Self {
            uid: reader.u64()?,
            start: reader.u64()?,
            len: reader.u64()?,
            rkey: reader.u32()?,
        };
        let expected = fnv_32(&bytes[..bytes.len() - reader.rest().len()]);
        if reader.u32()? != expected || !reader.rest().is_empty() {
            return Err(BadBytes::Damaged);
        }
        if key.start.checked_add(key.len).is_none() {
            return Err(BadBytes::Damaged);
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Address {
        Address {
            mode: VerbsMode::Rc,
            uid: 0x1234_5678_9abc_def0,
            gid: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1],
            lid: 7,
            ethernet: true,
            mtu: 5,
            pair: 17,
            data: 18,
            qkey: 0x1111_2222,
            longest: 8224,
        }
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_noticed() {
        let bytes = sample().encode();
        assert_eq!(Address::decode(&bytes), Ok(sample()));
        let key = PackedKey { uid: 5, start: 0x1000, len: 4096, rkey: 99 };
        assert_eq!(PackedKey::decode(&key.encode()), Ok(key));
        for (bytes, is_key) in [(bytes, false), (key.encode().to_vec(), true)] {
            let refused = |bytes: &[u8]| match is_key {
                true => PackedKey::decode(bytes).is_err(),
                false => Address::decode(bytes).is_err(),
            };
            for cut in 0..bytes.len() {
                assert!(refused(&bytes[..cut]), "cut at {cut}");
            }
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(refused(&changed), "bit {bit}");
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(refused(&longer), "a byte more");
        }
    }

    #[test]
    fn what_is_not_reached_is_said_why() {
        let own = sample();
        let other = Address { uid: 1, ..own };
        assert!(own.reaches(&other).is_ok());
        for bad in [
            own,
            Address { mode: VerbsMode::Ud, ..other },
            Address { ethernet: false, ..other },
            Address { gid: [0xfe; 16], ..other },
            Address { longest: 4096, ..other },
        ] {
            assert!(own.reaches(&bad).is_err_and(|reason| reason.reason.len() > 20), "{bad:?}");
        }
        let infiniband = Address { ethernet: false, ..own };
        let elsewhere = Address { uid: 1, gid: [9; 16], ..infiniband };
        assert!(infiniband.reaches(&elsewhere).is_err());
    }
}
