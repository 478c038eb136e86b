//! The address of an interface as bytes.
//!
//! ```text
//!   "BLTA" | version u16 | zero u16 | uid u64 | boot id 16 | network namespace u64 | count u8
//!   count times:  family u8 (4, 6) | flags u8 (1: loopback) | port u16 | 4 or 16 bytes
//!   check u32, FNV-1a over what is before it
//! ```
//!
//! Boot id and network namespace say which loopback it is: one is only used between interfaces
//! that share both.

use std::net::{IpAddr, SocketAddr};

use bowline_uct::{AddrReader, AddrWriter, fnv_32};

const MAGIC: u32 = u32::from_le_bytes(*b"BLTA");
const VERSION: u16 = 1;
/// Most listeners in an address.
pub(crate) const MAX_PLACES: usize = 16;

/// Where loopback leads: the kernel that runs, and the network namespace in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) boot: [u8; 16],
    pub(crate) namespace: u64,
}

impl Host {
    /// This process's host.
    pub(crate) fn current() -> std::io::Result<Self> {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let mut digits = text.bytes().filter_map(|byte| char::from(byte).to_digit(16));
        let mut boot = [0; 16];
        for byte in &mut boot {
            let (high, low) = (digits.next().unwrap_or(0), digits.next().unwrap_or(0));
            *byte = (high << 4 | low) as u8;
        }
        let namespace = bowline_base::doorbell::network_namespace()?;
        Ok(Self { boot, namespace })
    }
}

/// A place where an interface listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: SocketAddr,
    pub(crate) loopback: bool,
}

/// An address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) uid: u64,
    pub(crate) host: Host,
    pub(crate) places: Vec<Place>,
}

impl Address {
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut w = AddrWriter::new();
        w.u32(MAGIC).u16(VERSION).u16(0).u64(self.uid).raw(&self.host.boot);
        w.u64(self.host.namespace).u8(self.places.len() as u8);
        for place in &self.places {
            let (family, bytes) = match place.at.ip() {
                IpAddr::V4(ip) => (4, ip.octets().to_vec()),
                IpAddr::V6(ip) => (6, ip.octets().to_vec()),
            };
            w.u8(family).u8(u8::from(place.loopback)).u16(place.at.port()).raw(&bytes);
        }
        w.finish_checked()
    }

    /// Takes an address apart.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let early = |_| "it ends early".to_owned();
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or("it ends early")?;
        let mut r = AddrReader::new(body);
        if r.u32().map_err(early)? != MAGIC {
            return Err("it is no address of the tcp transport".to_owned());
        }
        if u32::from_le_bytes(*sum) != fnv_32(body) {
            return Err("its check does not fit its bytes".to_owned());
        }
        let version = r.u16().map_err(early)?;
        if version != VERSION {
            return Err(format!("it has version {version}, this library speaks {VERSION}"));
        }
        let zero = r.u16().map_err(early)?;
        let uid = r.u64().map_err(early)?;
        let boot = r.take().map_err(early)?;
        let namespace = r.u64().map_err(early)?;
        let count = usize::from(r.u8().map_err(early)?);
        if zero != 0 || uid == 0 || count > MAX_PLACES {
            return Err("its fields are impossible".to_owned());
        }
        let mut places = Vec::with_capacity(count);
        for _ in 0..count {
            let (family, flags) = (r.u8().map_err(early)?, r.u8().map_err(early)?);
            let port = r.u16().map_err(early)?;
            let ip = match family {
                4 => IpAddr::from(r.take::<4>().map_err(early)?),
                6 => IpAddr::from(r.take::<16>().map_err(early)?),
                _ => return Err("a place in it is of an unknown family".to_owned()),
            };
            if flags > 1 || port == 0 {
                return Err("a place in it is impossible".to_owned());
            }
            places.push(Place { at: SocketAddr::new(ip, port), loopback: flags == 1 });
        }
        if !r.rest().is_empty() {
            return Err("bytes follow its end".to_owned());
        }
        Ok(Self { uid, host: Host { boot, namespace }, places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let address = Address {
            uid: 0x0102,
            host: Host { boot: [7; 16], namespace: 9 },
            places: vec![
                Place { at: "127.0.0.1:258".parse().unwrap(), loopback: true },
                Place { at: "[2001:db8::1]:80".parse().unwrap(), loopback: false },
            ],
        };
        let mut golden = b"BLTA\x01\0\0\0\x02\x01\0\0\0\0\0\0".to_vec();
        golden.extend([7; 16]);
        golden.extend([9, 0, 0, 0, 0, 0, 0, 0, 2]);
        golden.extend([4, 1, 2, 1, 127, 0, 0, 1]);
        golden.extend([6, 0, 80, 0, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        golden.extend(fnv_32(&golden).to_le_bytes());
        assert_eq!(address.pack(), golden);
        assert_eq!(Address::parse(&golden), Ok(address));
        for bit in 0..golden.len() * 8 {
            let mut changed = golden.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Address::parse(&changed).is_err(), "bit {bit}");
        }
        assert!(Host::current().unwrap().boot != [0; 16]);
    }
}
