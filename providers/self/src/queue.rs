//! The queue of messages under way and the pool of buffers for those that do not fit an entry.
//!
//! An entry's payload is in one of three places, and goes through these states:
//!
//! ```text
//!   Inline ──────────────► (gone)
//!   Held   ──────────────► (gone; the buffer is back in the pool)
//!   Lent   ──► Delivered ► (gone; the sender's token was reported)
//!     └──────► Dropped ──► (gone; the endpoint failed, the token was reported as failed)
//! ```
//!
//! `Delivered` exists because a lent message makes two events, an arrival and a completion, and
//! the budget of `progress` may end between them.

use std::collections::VecDeque;

use bowline_base::region::{Region, RegionError};
use bowline_base::view::View;
use bowline_uct::{AmHeader, AmId, EpId, Token};

/// Payload that an entry holds itself; with header and state it makes two cache lines.
pub(crate) const INLINE_BYTES: usize = 64;

pub(crate) const ENTRY_BYTES: usize = size_of::<Entry>();

/// Where a payload is, and what is left to be done.
#[derive(Debug)]
pub(crate) enum Body {
    /// In the entry.
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    /// In a buffer of the pool.
    Held { buffer: u32, len: u32 },
    /// Where the sender left it.
    Lent { payload: Lent, token: Token, ep: EpId, incarnation: u32 },
    /// A lent payload has arrived; its token is still to be reported.
    Delivered { token: Token },
    /// The endpoint failed meanwhile.
    Dropped,
}

/// A message under way.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) header: AmHeader,
    pub(crate) id: AmId,
    pub(crate) body: Body,
}

/// The payload of a zcopy message.
#[derive(Debug)]
pub(crate) struct Lent {
    start: *mut u8,
    len: usize,
}

// SAFETY: the bytes belong to a buffer handle, itself `Send`, that the sender keeps until the
// completion of the operation has been reported, on whatever thread the interface then is.
unsafe impl Send for Lent {}

impl Lent {
    pub(crate) const fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    /// The bytes, for as long as the entry that lends them is not completed.
    pub(crate) const fn view(&self) -> View<'_> {
        // SAFETY: the contract of zcopy: the caller keeps the buffer valid, and does not write
        // it, until the completion is reported, which drops this value. The receiver only copies
        // out of the view during the arrival.
        unsafe { View::from_raw(self.start, self.len) }
    }
}

/// Messages under way, in order, at most `slots` of them.
#[derive(Debug)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    slots: usize,
}

impl Queue {
    pub(crate) fn new(slots: u32) -> Self {
        let slots = slots as usize;
        Self { entries: VecDeque::with_capacity(slots), slots }
    }

    pub(crate) const fn slots(&self) -> usize {
        self.slots
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.slots
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends; the caller has seen that there is space, so this does not allocate.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        debug_assert!(!self.is_full(), "space was checked before anything was packed");
        self.entries.push_back(entry);
    }

    #[inline]
    pub(crate) fn front(&mut self) -> Option<&mut Entry> {
        self.entries.front_mut()
    }

    #[inline]
    pub(crate) fn pop(&mut self) {
        self.entries.pop_front();
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }
}

/// Buffers of one size. A buffer is free, or belongs to a message in the queue.
#[derive(Debug)]
pub(crate) struct Pool {
    memory: Region,
    buffer_bytes: usize,
    /// Last given back, first taken: its lines are still in the cache.
    free: Vec<u32>,
}

impl Pool {
    pub(crate) fn new(buffers: u32, buffer_bytes: usize) -> Result<Self, RegionError> {
        let memory = Region::create_private(buffers as usize * buffer_bytes)?;
        Ok(Self { memory, buffer_bytes, free: (0..buffers).rev().collect() })
    }

    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.is_empty()
    }

    /// The first `len` bytes of a buffer.
    #[inline]
    pub(crate) fn view(&self, buffer: u32, len: usize) -> View<'_> {
        let start = buffer as usize * self.buffer_bytes;
        self.memory.view().slice(start, len).expect("the pool has memory for each of its buffers")
    }

    /// Lets `pack` fill the next free buffer with at most `max_len` bytes and takes it. `None`
    /// when there is none; then `pack` is not called. A panic of `pack` leaves the buffer free.
    pub(crate) fn fill(
        &mut self,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Option<(u32, usize)> {
        let buffer = *self.free.last()?;
        let len = pack(self.view(buffer, max_len));
        assert!(len <= max_len, "pack returns how much of the space it was given it has filled");
        self.free.pop();
        Some((buffer, len))
    }

    /// Gives a buffer back.
    #[inline]
    pub(crate) fn give_back(&mut self, buffer: u32) {
        debug_assert!(!self.free.contains(&buffer), "given back twice");
        self.free.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_two_cache_lines() {
        const { assert!(ENTRY_BYTES <= 128) };
    }

    #[test]
    fn a_panic_while_packing_leaves_the_buffer_free() {
        let mut pool = Pool::new(1, 256).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.fill(10, &mut |_| panic!("cannot pack"))
        }));
        assert!(panicked.is_err());
        let (buffer, len) = pool.fill(10, &mut |space| space.copy_in(b"packed")).unwrap();
        assert_eq!(len, 6);
        assert!(pool.is_exhausted());
        assert_eq!(pool.view(buffer, len).to_vec(), b"packed");
        pool.give_back(buffer);
        assert!(!pool.is_exhausted());
    }
}
