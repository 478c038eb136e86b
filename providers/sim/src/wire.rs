//! Addresses and remote keys as bytes.
//!
//! ```text
//!   address  "BLSM" version:u16 network:u64 node:u32                           18 bytes
//!   rkey     "BLMK" network:u64 node:u32 handle:u64 address:u64 length:u64     40 bytes
//!   rkey     01                                     the whole memory, for reads
//! ```
//!
//! Little endian. The network is one in this process, by a number that no other has had, so every
//! field of a key is compared with what the network knows.

use bowline_uct::{AddrReader, AddrWriter};

const ADDRESS_MAGIC: u32 = u32::from_le_bytes(*b"BLSM");
const RKEY_MAGIC: u32 = u32::from_le_bytes(*b"BLMK");
const VERSION: u16 = 1;

pub(crate) const RKEY_BYTES: usize = 40;

pub(crate) fn pack_address(network: u64, node: u32) -> Vec<u8> {
    let mut writer = AddrWriter::new();
    writer.u32(ADDRESS_MAGIC).u16(VERSION).u64(network).u32(node);
    writer.finish()
}

/// The node of an address in this network, or why there is none.
pub(crate) fn parse_address(network: u64, address: &[u8]) -> Result<u32, String> {
    let mut reader = AddrReader::new(address);
    let early = |_| "the address is damaged: it ends early".to_owned();
    if reader.u32().map_err(early)? != ADDRESS_MAGIC {
        return Err("the address is damaged: it is none of a simulated network".to_owned());
    }
    let version = reader.u16().map_err(early)?;
    if version != VERSION {
        return Err(format!(
            "the address has version {version}, this library speaks version {VERSION}"
        ));
    }
    let theirs = reader.u64().map_err(early)?;
    let node = reader.u32().map_err(early)?;
    if !reader.rest().is_empty() {
        return Err("the address is damaged: bytes follow its end".to_owned());
    }
    if theirs != network {
        return Err("the address belongs to another simulated network".to_owned());
    }
    Ok(node)
}

/// What an rkey says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedRkey {
    pub(crate) network: u64,
    pub(crate) node: u32,
    pub(crate) handle: u64,
    pub(crate) address: u64,
    pub(crate) len: u64,
}

impl PackedRkey {
    pub(crate) fn pack(self) -> Vec<u8> {
        let mut writer = AddrWriter::new();
        writer.u32(RKEY_MAGIC).u64(self.network).u32(self.node);
        writer.u64(self.handle).u64(self.address).u64(self.len);
        writer.finish()
    }

    pub(crate) fn unpack(packed: &[u8]) -> Option<Self> {
        let mut reader = AddrReader::new(packed);
        let magic = reader.u32().ok()?;
        let rkey = Self {
            network: reader.u64().ok()?,
            node: reader.u32().ok()?,
            handle: reader.u64().ok()?,
            address: reader.u64().ok()?,
            len: reader.u64().ok()?,
        };
        (magic == RKEY_MAGIC && reader.rest().is_empty()).then_some(rkey)
    }
}
