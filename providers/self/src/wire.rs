//! Addresses and remote keys as bytes.
//!
//! ```text
//!   address  "BLSA" version:u16 pid:u32 instance:u64                      18 bytes
//!   rkey     "BLSK" instance:u64 handle:u64 address:u64 length:u64        36 bytes
//! ```
//!
//! Both are little endian. They only ever come back to the interface that made them, so every
//! field is compared with what that interface knows: no changed bit passes.

use bowline_uct::{AddrReader, AddrWriter, Unreachable};

const ADDRESS_MAGIC: u32 = u32::from_le_bytes(*b"BLSA");
const RKEY_MAGIC: u32 = u32::from_le_bytes(*b"BLSK");
const VERSION: u16 = 1;

pub(crate) const RKEY_BYTES: usize = 36;

/// Who an interface is: the process, and a random number for the interface in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) instance: u64,
}

impl Identity {
    pub(crate) fn pack(self) -> Vec<u8> {
        let mut writer = AddrWriter::new();
        writer.u32(ADDRESS_MAGIC).u16(VERSION).u32(self.pid).u64(self.instance);
        writer.finish()
    }

    /// Whether `address` is this interface's own, or why it is not.
    pub(crate) fn check(self, address: &[u8]) -> Result<(), Mismatch> {
        let mut reader = AddrReader::new(address);
        let damaged = |_| Mismatch::Damaged("it ends early");
        if reader.u32().map_err(damaged)? != ADDRESS_MAGIC {
            return Err(Mismatch::Damaged("it is no address of the self transport"));
        }
        let version = reader.u16().map_err(damaged)?;
        if version != VERSION {
            return Err(Mismatch::Other(format!(
                "the address has version {version}, this library speaks version {VERSION}"
            )));
        }
        let pid = reader.u32().map_err(damaged)?;
        let instance = reader.u64().map_err(damaged)?;
        if !reader.rest().is_empty() {
            return Err(Mismatch::Damaged("bytes follow its end"));
        }
        if pid != self.pid {
            return Err(Mismatch::Other(format!(
                "the address belongs to process {pid}, and the self transport only reaches the \
                 worker that opened it, here in process {}",
                self.pid
            )));
        }
        if instance != self.instance {
            return Err(Mismatch::Other(
                "the address belongs to another worker of this process, and the self transport \
                 only reaches the worker that opened it"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// Why an address is not one's own.
#[derive(Debug)]
pub(crate) enum Mismatch {
    /// Not an address of this provider, or not all of it.
    Damaged(&'static str),
    /// Somebody else's.
    Other(String),
}

impl From<Mismatch> for Unreachable {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Damaged(how) => Self::because(format!("the address is damaged: {how}")),
            Mismatch::Other(reason) => Self::because(reason),
        }
    }
}

/// What an rkey says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedRkey {
    pub(crate) instance: u64,
    pub(crate) handle: u64,
    pub(crate) address: u64,
    pub(crate) len: u64,
}

impl PackedRkey {
    pub(crate) fn pack(self) -> [u8; RKEY_BYTES] {
        let mut out = [0; RKEY_BYTES];
        out[..4].copy_from_slice(&RKEY_MAGIC.to_le_bytes());
        let words = [self.instance, self.handle, self.address, self.len];
        for (place, word) in out[4..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    pub(crate) fn unpack(packed: &[u8]) -> Option<Self> {
        let mut reader = AddrReader::new(packed);
        let magic = reader.u32().ok()?;
        let rkey = Self {
            instance: reader.u64().ok()?,
            handle: reader.u64().ok()?,
            address: reader.u64().ok()?,
            len: reader.u64().ok()?,
        };
        (magic == RKEY_MAGIC && reader.rest().is_empty()).then_some(rkey)
    }
}
