//! What is known of a message that was received or probed.

use bowline_ucp::MessageInfo;

use crate::consts::{ANY_SOURCE, ANY_TAG, PROC_NULL};
use crate::tags;

/// Source, tag and length of a message. (MPI: Point-to-Point Communication, "Return Status".)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    bytes: u64,
    source: i32,
    tag: i32,
}

impl Status {
    /// The status of an operation whose partner is nobody.
    pub(crate) const NULL: Self = Self { bytes: 0, source: PROC_NULL, tag: ANY_TAG };

    /// The status of a completed send. (MPI: the *empty* status.)
    pub const EMPTY: Self = Self { bytes: 0, source: ANY_SOURCE, tag: ANY_TAG };

    #[inline]
    pub(crate) fn new(source: u32, tag: u64, bytes: u64) -> Self {
        // Ranks are below 2^31, since a communicator's size is checked where it is made.
        Self { bytes, source: source as i32, tag: tags::user(tag) }
    }

    #[inline]
    pub(crate) fn of_message(info: &MessageInfo) -> Self {
        Self::new(info.source, info.tag, info.length)
    }

    /// The sender's rank in the communicator, or [`PROC_NULL`].
    #[inline]
    pub const fn source(&self) -> i32 {
        self.source
    }

    /// The message's tag; [`ANY_TAG`] when the source is [`PROC_NULL`].
    #[inline]
    pub const fn tag(&self) -> i32 {
        self.tag
    }

    /// Bytes of the message as it was sent.
    #[inline]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many elements of type `T` the message is; `None` when it is not a whole number of
    /// them (the standard's `MPI_UNDEFINED`).
    #[inline]
    pub const fn count<T: crate::Datatype>(&self) -> Option<usize> {
        let size = size_of::<T>() as u64;
        if size == 0 {
            return if self.bytes == 0 { Some(0) } else { None };
        }
        if self.bytes.is_multiple_of(size) { Some((self.bytes / size) as usize) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_or_nothing() {
        let status = Status::new(3, 5, 12);
        assert_eq!(status.count::<u32>(), Some(3));
        assert_eq!(status.count::<u64>(), None);
        assert_eq!(status.count::<[u8; 0]>(), None);
        assert_eq!(Status::NULL.count::<f64>(), Some(0));
    }
}
