//! Bytes on their way: owned by the network, or still in the buffer of who sends or receives.
//!
//! A lent buffer is named by a pointer. Rules: (1) the caller of a zcopy operation keeps the buffer
//! until the operation's completion was reported, so a pointer is used before that only; (2) an
//! operation that still has one is removed when its interface is dropped, its endpoint
//! invalidated, or its node killed, before the caller can learn of that.

use bowline_base::buffer::RecvBuf;
use bowline_base::view::View;
use bowline_uct::LocalSlice;

/// Owned bytes that do not move.
#[derive(Debug)]
pub(crate) struct Bytes {
    /// Holds the memory; only reached through `start`.
    _buffer: RecvBuf,
    start: *mut u8,
    len: usize,
}

// SAFETY: `start` points into the handle's own memory, which is `Send`, and is only used through
// views, whose operations work from any thread.
unsafe impl Send for Bytes {}

impl Bytes {
    /// Takes the bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        let mut buffer = RecvBuf::owned(bytes);
        let start = buffer.view().as_ptr();
        Self { _buffer: buffer, start, len }
    }

    /// Space of `max` bytes as `pack` fills it.
    pub(crate) fn packed(max: usize, pack: &mut dyn FnMut(View<'_>) -> usize) -> Self {
        let mut bytes = Self::new(vec![0; max]);
        let len = pack(bytes.view());
        assert!(len <= max, "pack returns how much of the space it was given it has filled");
        bytes.len = len;
        bytes
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The bytes.
    pub(crate) const fn view(&self) -> View<'_> {
        // SAFETY: the memory is owned by the value, which outlives the borrow, has at least `len`
        // bytes, and nobody makes a reference to it.
        unsafe { View::from_raw(self.start, self.len) }
    }
}

/// Pieces of a caller's buffer.
#[derive(Debug)]
pub(crate) struct Lent(Vec<LocalSlice>);

// SAFETY: the pieces belong to buffer handles, themselves `Send`, that their owner keeps until the
// completion is reported (rule 1), on whatever thread the network then runs.
unsafe impl Send for Lent {}

impl Lent {
    pub(crate) fn new(pieces: &[LocalSlice]) -> Self {
        Self(pieces.to_vec())
    }

    fn views(&self) -> impl Iterator<Item = View<'_>> {
        // SAFETY: the contract of zcopy: the pieces stay valid, and nobody else writes them, until
        // the completion is reported, before which this value is gone (rules 1 and 2).
        self.0.iter().map(|piece| unsafe { View::from_raw(piece.as_ptr(), piece.len()) })
    }

    /// A copy of the bytes as they are now.
    pub(crate) fn gather(&self) -> Bytes {
        Bytes::new(self.views().flat_map(View::to_vec).collect())
    }

    /// Copies `bytes`, as long as the pieces together, into them.
    pub(crate) fn scatter(&self, bytes: View<'_>) {
        let mut at = 0;
        for piece in self.views() {
            let part = bytes.slice(at, piece.len()).expect("the pieces are as long as the bytes");
            piece.copy_in(&part.to_vec());
            at += piece.len();
        }
    }
}

/// What an operation carries.
#[derive(Debug)]
pub(crate) enum Payload {
    /// The network's own copy.
    Owned(Bytes),
    /// Still with the sender.
    Lent(Lent),
}

impl Payload {
    /// Takes the sender's bytes, if that was not done.
    pub(crate) fn depart(&mut self) {
        if let Self::Lent(lent) = self {
            *self = Self::Owned(lent.gather());
        }
    }

    /// A copy of the bytes, for a message that comes twice.
    pub(crate) fn copy(&self) -> Bytes {
        match self {
            Self::Owned(bytes) => Bytes::new(bytes.view().to_vec()),
            Self::Lent(lent) => lent.gather(),
        }
    }

    /// The network's copy, taken now if it was not before.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Lent(lent) => lent.gather(),
        }
    }
}
