//! Keys of peers' memory, as they were opened, and what every one-sided operation checks before it is posted.
//!
//! **Order of the checks.** The endpoint is the transport's own to check, and first. Then (1) the pieces are
//! few enough, (2) their bytes are not too many, (3) the key is one of the endpoint's peer, (4) it opens all
//! bytes, (5) the word of an atomic operation is aligned. What fails first is what the operation answers.

use bowline_base::slab::Slab;

use crate::atomic::AtomicWidth;
use crate::caps::OpLimits;
use crate::error::PostError;
use crate::ids::{RemoteSlice, RkeyId};
use crate::slice::LocalSlice;

/// A key that was opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenKey<O, K> {
    /// Whose memory it opens.
    owner: O,
    start: u64,
    len: u64,
    /// What the transport needs of it.
    pub key: K,
}

impl<O, K> OpenKey<O, K> {
    /// How far behind the start of the memory the `len` bytes at `address` are.
    ///
    /// # Errors
    /// [`PostError::BadRemote`] when they are not all inside.
    #[inline]
    pub fn offset(&self, address: u64, len: usize) -> Result<u64, PostError> {
        let offset = address.checked_sub(self.start).ok_or(PostError::BadRemote)?;
        if offset > self.len || len as u64 > self.len - offset {
            return Err(PostError::BadRemote);
        }
        Ok(offset)
    }
}

/// Keys of peers' memory. `O` names the connection that a key was opened for, and no later one.
#[derive(Debug)]
pub struct KeyTable<O, K>(Slab<OpenKey<O, K>>);

impl<O, K> Default for KeyTable<O, K> {
    fn default() -> Self {
        Self(Slab::default())
    }
}

impl<O: PartialEq, K> KeyTable<O, K> {
    /// A key of `owner`, which opens `len` bytes from `start` on.
    pub fn insert(&mut self, owner: O, start: u64, len: u64, key: K) -> RkeyId {
        RkeyId(self.0.insert(OpenKey { owner, start, len, key }))
    }

    /// Makes space, so that `keys` more need no allocation.
    pub fn reserve(&mut self, keys: usize) {
        self.0.reserve(keys);
    }

    /// How many more keys need no allocation.
    pub fn spare(&self) -> usize {
        self.0.spare()
    }

    /// Closes a key.
    pub fn remove(&mut self, rkey: RkeyId) -> Option<K> {
        self.0.remove(rkey.0).map(|open| open.key)
    }

    /// Any owner's key.
    #[inline]
    pub fn get(&self, rkey: RkeyId) -> Option<&K> {
        self.0.get(rkey.0).map(|open| &open.key)
    }

    /// Check 3.
    ///
    /// # Errors
    /// [`PostError::BadArgument`].
    #[inline]
    pub fn of(&self, owner: O, rkey: RkeyId) -> Result<&OpenKey<O, K>, PostError> {
        self.0.get(rkey.0).filter(|open| open.owner == owner).ok_or(PostError::BadArgument)
    }

    /// Checks 3 and 4, for the `len` bytes at `at`.
    ///
    /// # Errors
    /// [`PostError::BadArgument`] or [`PostError::BadRemote`].
    #[inline]
    pub fn open(&self, owner: O, at: RemoteSlice, len: usize) -> Result<&OpenKey<O, K>, PostError> {
        let open = self.of(owner, at.rkey)?;
        open.offset(at.address, len)?;
        Ok(open)
    }

    /// Checks 3 to 5, for the word at `at`.
    ///
    /// # Errors
    /// [`PostError::BadArgument`] or [`PostError::BadRemote`].
    #[inline]
    pub fn open_word(
        &self,
        owner: O,
        at: RemoteSlice,
        width: AtomicWidth,
    ) -> Result<&OpenKey<O, K>, PostError> {
        let open = self.open(owner, at, width.bytes())?;
        if at.address.is_multiple_of(width.bytes() as u64) {
            Ok(open)
        } else {
            Err(PostError::BadArgument)
        }
    }
}

/// Check 2, for an operation that copies at most `most` bytes.
///
/// # Errors
/// [`PostError::TooLong`].
#[inline]
pub const fn check_len(len: usize, most: usize) -> Result<(), PostError> {
    if len > most { Err(PostError::TooLong) } else { Ok(()) }
}

/// Checks 1 and 2: the bytes of all `pieces` of an operation that takes them from, or to, where they lie.
///
/// # Errors
/// [`PostError::BadArgument`] or [`PostError::TooLong`].
#[inline]
pub fn bytes_of(pieces: &[LocalSlice], limits: &OpLimits) -> Result<usize, PostError> {
    if pieces.len() > limits.max_iov {
        return Err(PostError::BadArgument);
    }
    let mut lens = pieces.iter().map(LocalSlice::len);
    let len = lens.try_fold(0_usize, usize::checked_add);
    len.filter(|len| *len <= limits.max_zcopy).ok_or(PostError::TooLong)
}

#[cfg(test)]
mod tests {
    use bowline_base::slab::Key;

    use super::*;

    #[test]
    fn a_key_opens_its_memory_to_its_owner() {
        let mut keys = KeyTable::default();
        let rkey = keys.insert(7, 0x1000, 16, 'k');
        let open = |keys: &KeyTable<i32, char>, owner, address, len| {
            keys.open(owner, RemoteSlice { address, rkey }, len).map(|open| open.key)
        };
        for (address, len, inside) in [
            (0x1000, 16, true),
            (0x100f, 1, true),
            (0x1010, 0, true),
            (0xfff, 1, false),
            (0x1001, 16, false),
            (0x1011, 0, false),
            (u64::MAX, usize::MAX, false),
        ] {
            let expected = if inside { Ok('k') } else { Err(PostError::BadRemote) };
            assert_eq!(open(&keys, 7, address, len), expected, "{address:#x} {len}");
        }
        assert_eq!(open(&keys, 8, 0x1000, 1), Err(PostError::BadArgument), "another owner");
        assert!(keys.of(7, rkey).is_ok_and(|open| open.offset(0x1003, 2) == Ok(3)));
        let at = |address| RemoteSlice { address, rkey };
        let word = |address| keys.open_word(7, at(address), AtomicWidth::W64).map(|open| open.key);
        assert_eq!(word(0x1008), Ok('k'));
        assert_eq!(word(0x1004), Err(PostError::BadArgument), "not aligned");
        assert_eq!(word(0x100c), Err(PostError::BadRemote), "not inside, which comes first");
        assert_eq!(keys.get(rkey), Some(&'k'));
        assert_eq!((keys.remove(rkey), keys.remove(rkey)), (Some('k'), None));
        assert_eq!(open(&keys, 7, 0x1000, 1), Err(PostError::BadArgument), "it is closed");
        assert!(keys.of(7, RkeyId(Key::NONE)).is_err());
    }

    #[test]
    fn pieces_are_counted_before_their_bytes() {
        // SAFETY: nothing reads or writes the slice.
        let huge = unsafe { LocalSlice::from_raw(std::ptr::dangling_mut(), usize::MAX) };
        // SAFETY: as before.
        let small = unsafe { LocalSlice::from_raw(std::ptr::dangling_mut(), 5) };
        let limits = OpLimits { max_iov: 2, max_zcopy: 10, ..OpLimits::default() };
        assert_eq!(bytes_of(&[], &limits), Ok(0));
        assert_eq!(bytes_of(&[small; 2], &limits), Ok(10));
        assert_eq!(bytes_of(&[small; 3], &limits), Err(PostError::BadArgument));
        assert_eq!(bytes_of(&[huge, small], &limits), Err(PostError::TooLong));
        assert_eq!(bytes_of(&[small, huge, small], &limits), Err(PostError::BadArgument));
    }
}
