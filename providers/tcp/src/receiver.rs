//! The buffer that the connections of an interface share.

use std::io;

use bowline_base::region::Region;
use bowline_base::view::View;
use bowline_uct::OpenError;

use crate::frame::HEADER_BYTES;

/// The receive buffer.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) memory: Region,
    pub(crate) capacity: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) owner: Option<u32>,
    pub(crate) waiting: bool,
}

impl Receiver {
    pub(crate) fn new(max_am: usize) -> Result<Self, OpenError> {
        // Space for a frame, and for enough behind it that few calls are made.
        let capacity = (4 * max_am).max(16 << 10) + HEADER_BYTES + 24;
        let memory = Region::create_private(capacity).map_err(|error| OpenError::System {
            act: "allocate the receive buffer of the tcp transport",
            source: io::Error::other(error),
        })?;
        Ok(Self { memory, capacity, start: 0, end: 0, owner: None, waiting: false })
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) const fn owner(&self) -> Option<u32> {
        self.owner
    }

    pub(crate) const fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn clear(&mut self) {
        (self.start, self.end, self.owner, self.waiting) = (0, 0, None, false);
    }

    /// The peer is gone.
    pub(crate) fn forget(&mut self, index: u32) {
        if self.owner == Some(index) {
            self.clear();
        }
    }

    /// `len` bytes from `start + skip`; the caller has seen that they are there.
    ///
    /// The view's lifetime is free of the interface's borrow, so that peers and memory can be
    /// changed while a payload is in hand.
    #[inline]
    pub(crate) fn bytes<'a>(&self, skip: usize, len: usize) -> View<'a> {
        debug_assert!(self.start + skip + len <= self.end);
        let view = self.memory.view().slice(self.start + skip, len);
        let view = view.expect("frames are read within the bytes that were received");
        // SAFETY: the region is mapped as long as the interface, whose methods are the only
        // callers, and drop the view before they return. Its bytes are only reached by views and
        // system calls; those that receive are made when no view is in use.
        unsafe { View::from_raw(view.as_ptr(), view.len()) }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&self, skip: usize) -> [u8; N] {
        let mut out = [0; N];
        self.bytes(skip, N).copy_out(&mut out);
        out
    }

    /// Moves what is there to the front.
    pub(crate) fn compact(&mut self) {
        let (from, len) = (self.start, self.len());
        let base = self.memory.view().as_ptr();
        // SAFETY: both ranges are inside the region, which `from + len <= capacity` guarantees;
        // `copy` allows them to overlap, and no view is in use.
        unsafe { std::ptr::copy(base.wrapping_add(from), base, len) };
        (self.start, self.end) = (0, len);
    }
}
