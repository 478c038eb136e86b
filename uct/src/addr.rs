//! Reading and writing of packed addresses: little endian, length-checked, no allocation when
//! reading. It knows no address format; each provider documents its own.

/// The bytes ended, or a length in them pointed outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packed bytes end early: the address is damaged or from another version")]
pub struct Truncated;

/// The hash of Fowler, Noll and Vo, form 1a, 32 bits: any single changed bit changes it. It finds what was
/// damaged on its way, not what was forged.
pub fn fnv_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The same with 64 bits.
pub fn fnv_64(bytes: &[u8]) -> u64 {
    let with = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, with)
}

/// Appends fields to a byte vector.
#[derive(Debug, Default)]
pub struct AddrWriter(Vec<u8>);

impl AddrWriter {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends a byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }
    /// Appends 2 bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends 4 bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends 8 bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Appends a 16-bit length and the bytes.
    ///
    /// # Panics
    /// When there are more than 65535 bytes: an address never is.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        let len =
            u16::try_from(value.len()).expect("a field of an address has at most 65535 bytes");
        self.u16(len).raw(value)
    }
    /// Appends the bytes alone.
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }
    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
    /// What was written, and its [`fnv_32`].
    pub fn finish_checked(mut self) -> Vec<u8> {
        let check = fnv_32(&self.0);
        self.u32(check);
        self.0
    }
}

/// Takes fields off the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct AddrReader<'a>(&'a [u8]);

impl<'a> AddrReader<'a> {
    /// Reads from `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
    /// The next `N` bytes.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Truncated)?;
        self.0 = rest;
        Ok(*head)
    }
    /// A byte.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.take::<1>()?[0])
    }
    /// 2 bytes.
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.take().map(u16::from_le_bytes)
    }
    /// 4 bytes.
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.take().map(u32::from_le_bytes)
    }
    /// 8 bytes.
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.take().map(u64::from_le_bytes)
    }
    /// A 16-bit length and as many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let len = usize::from(self.u16()?);
        if len > self.0.len() {
            return Err(Truncated);
        }
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(head)
    }
    /// What has not been read.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_and_truncation_is_noticed() {
        let mut writer = AddrWriter::new();
        writer.u8(1).u16(2).u32(3).u64(4).bytes(b"shm");
        let bytes = writer.finish();
        for cut in 0..bytes.len() {
            let mut r = AddrReader::new(&bytes[..cut]);
            let all = (|| {
                r.u8()?;
                r.u16()?;
                r.u32()?;
                r.u64()?;
                r.bytes()
            })();
            assert_eq!(all, Err(Truncated), "cut at {cut}");
        }
        let mut r = AddrReader::new(&bytes);
        assert_eq!((r.u8(), r.u16(), r.u32(), r.u64()), (Ok(1), Ok(2), Ok(3), Ok(4)));
        assert_eq!(r.bytes(), Ok(&b"shm"[..]));
        assert!(r.rest().is_empty());
    }
}
