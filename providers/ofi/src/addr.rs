//! The packed address of an interface.
//!
//! ```text
//! magic u32 | version u8 | host u64 | pid_ns u64 | net_ns u64 | pid u32 | start_time u64
//! | instance u64 | window u32 | format u32 | scope u8 | provider: bytes | name: bytes | check u64
//! ```
//!
//! `name` is what libfabric calls the endpoint, `format` its form and `scope` how far it leads: 0
//! anywhere, 1 within the host. `window` is how many messages a peer may have under way to the
//! interface. `host` (a hash of the kernel's boot id), `pid_ns`, `pid` and `start_time` name the
//! process, so that peers on the same host can watch it; `net_ns` says which peers have a network
//! in between, be it that of containers of one host; `instance` distinguishes interfaces.
//! The check is over everything in front of it: libfabric is never given a name that was damaged
//! on its way.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;

use bowline_uct::{AddrReader, AddrWriter, Truncated, fnv_64};
use libfabric_sys as sys;

const MAGIC: u32 = 0x4946_4f42;
const VERSION: u8 = 3;
/// Bytes of the check.
const CHECK: usize = 8;

/// A process as the kernel distinguishes it from every other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) host: u64,
    pub(crate) pid_ns: u64,
    pub(crate) net_ns: u64,
    pub(crate) pid: u32,
    pub(crate) start_time: u64,
}

impl Home {
    pub(crate) fn current() -> io::Result<Self> {
        let pid = std::process::id();
        Ok(Self {
            host: fnv_64(&fs::read("/proc/sys/kernel/random/boot_id")?),
            pid_ns: fs::metadata("/proc/self/ns/pid")?.ino(),
            net_ns: fs::metadata("/proc/self/ns/net")?.ino(),
            pid,
            start_time: bowline_base::job::start_time_of(pid)?,
        })
    }

    /// Whether the two see each other's processes.
    pub(crate) fn near(&self, other: &Self) -> bool {
        self.host == other.host && self.pid_ns == other.pid_ns
    }

    /// Whether messages between the two stay inside of one network namespace, which has no cable
    /// that can be pulled.
    pub(crate) fn inside(&self, other: &Self) -> bool {
        self.host == other.host && self.net_ns == other.net_ns
    }
}

/// An address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) home: Home,
    pub(crate) instance: u64,
    pub(crate) window: u32,
    pub(crate) format: u32,
    pub(crate) within_host: bool,
    pub(crate) provider: String,
    pub(crate) name: Vec<u8>,
}

/// Why bytes are no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAddress {
    #[error(transparent)]
    Truncated(#[from] Truncated),
    #[error("the bytes are no address of the libfabric transport, or damaged")]
    Damaged,
    #[error("the address has version {0}, this transport has {VERSION}: rebuild both sides alike")]
    Version(u8),
}

/// A number that no other interface has: the standard hasher is keyed at random for each process
/// and moves on with each use.
pub(crate) fn new_instance(home: &Home) -> u64 {
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u64(home.host);
    hasher.write_u32(home.pid);
    hasher.finish() | 1
}

/// Whether a name of libfabric leads no further than this host.
pub(crate) fn stays_here(provider: &str, format: u32, name: &[u8]) -> bool {
    if provider.split(';').any(|layer| crate::info::MEMORY.contains(&layer)) {
        return true;
    }
    match format {
        sys::FI_SOCKADDR_IN => name.get(4) == Some(&127),
        sys::FI_SOCKADDR_IN6 => {
            name.get(8..24).is_some_and(|ip| ip[..15] == [0; 15] && ip[15] == 1)
        }
        _ => false,
    }
}

/// The socket address in a name of libfabric, if that is one.
pub(crate) fn socket_of(format: u32, name: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(name.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match format {
        sys::FI_SOCKADDR_IN => <[u8; 4]>::try_from(name.get(4..8)?).ok()?.into(),
        sys::FI_SOCKADDR_IN6 => <[u8; 16]>::try_from(name.get(8..24)?).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

impl Address {
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut w = AddrWriter::new();
        w.u32(MAGIC).u8(VERSION).u64(self.home.host).u64(self.home.pid_ns);
        w.u64(self.home.net_ns).u32(self.home.pid).u64(self.home.start_time);
        w.u64(self.instance).u32(self.window).u32(self.format);
        w.u8(u8::from(self.within_host)).bytes(self.provider.as_bytes()).bytes(&self.name);
        let mut bytes = w.finish();
        let check = fnv_64(&bytes);
        bytes.extend_from_slice(&check.to_le_bytes());
        bytes
    }

    pub(crate) fn unpack(bytes: &[u8]) -> Result<Self, BadAddress> {
        let mut r = AddrReader::new(bytes);
        if r.u32()? != MAGIC {
            return Err(BadAddress::Damaged);
        }
        let version = r.u8()?;
        if version != VERSION {
            return Err(BadAddress::Version(version));
        }
        let (host, pid_ns, net_ns) = (r.u64()?, r.u64()?, r.u64()?);
        let home = Home { host, pid_ns, net_ns, pid: r.u32()?, start_time: r.u64()? };
        let (instance, window, format) = (r.u64()?, r.u32()?, r.u32()?);
        let within_host = match r.u8()? {
            0 => false,
            1 => true,
            _ => return Err(BadAddress::Damaged),
        };
        let (provider, name) = (r.bytes()?, r.bytes()?);
        let body = bytes.len() - r.rest().len();
        let check = r.u64()?;
        // Fuzzing reads what is behind the check.
        let right = cfg!(fuzzing) || fnv_64(&bytes[..body]) == check;
        let whole = right && bytes.len() == body + CHECK;
        let provider = std::str::from_utf8(provider).map_err(|_| BadAddress::Damaged)?;
        if !whole || window == 0 || instance == 0 {
            return Err(BadAddress::Damaged);
        }
        Ok(Self {
            home,
            instance,
            window,
            format,
            within_host,
            provider: provider.to_owned(),
            name: name.to_vec(),
        })
    }
}

/// Reads an address, for the fuzz target; what was read is written again.
///
/// # Panics
/// When that does not give the same bytes.
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub fn fuzz_address(bytes: &[u8]) {
    if let Ok(address) = Address::unpack(bytes) {
        let body = bytes.len() - CHECK;
        assert_eq!(address.pack()[..body], bytes[..body]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_and_a_damaged_one_does_not() {
        let home = Home::current().expect("a process of Linux");
        let address = Address {
            home,
            instance: new_instance(&home),
            window: 64,
            format: 2,
            within_host: true,
            provider: "tcp;ofi_rxm".into(),
            name: vec![2, 0, 1, 2, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        let bytes = address.pack();
        assert_eq!(Address::unpack(&bytes), Ok(address));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Address::unpack(&bad).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(Address::unpack(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert_ne!(new_instance(&home), new_instance(&home));
    }

    #[test]
    fn socket_names_have_an_address() {
        let four = [2, 0, 1, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let expected = SocketAddr::from(([10, 0, 0, 1], 0x102));
        assert_eq!(socket_of(sys::FI_SOCKADDR_IN, &four), Some(expected));
        let mut six = [0; 28];
        (six[3], six[8], six[9]) = (7, 0xfd, 1);
        let expected = SocketAddr::from(([0xfd01, 0, 0, 0, 0, 0, 0, 0], 7));
        assert_eq!(socket_of(sys::FI_SOCKADDR_IN6, &six), Some(expected));
        assert_eq!(socket_of(sys::FI_SOCKADDR_IN6, &four), None);
        assert_eq!(socket_of(sys::FI_ADDR_STR, b"fi_shm://1\0"), None);
    }

    #[test]
    fn loopback_stays_here() {
        let socket = [2, 0, 0, 0, 127, 0, 0, 1];
        assert!(stays_here("tcp;ofi_rxm", sys::FI_SOCKADDR_IN, &socket));
        assert!(!stays_here("tcp;ofi_rxm", sys::FI_SOCKADDR_IN, &[2, 0, 0, 0, 10, 0, 0, 1]));
        assert!(stays_here("shm", sys::FI_ADDR_STR, b"fi_shm://1\0"));
        assert!(!stays_here("verbs;ofi_rxm", sys::FI_SOCKADDR_IB, &[0; 48]));
    }
}
