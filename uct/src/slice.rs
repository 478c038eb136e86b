//! Pieces of local memory that are lent to operations of a transport.
//!
//! Not here: how long an operation lasts, which [`Iface`](crate::Iface) says for each.

use bowline_base::buffer::{RecvBuf, SendBuf};

/// A piece of local memory in a zcopy operation. It points into a buffer handle that the caller
/// keeps until the operation's completion has been reported.
///
/// It has no lifetime, since an operation outlives its call, and it is checked where it is made: the
/// constructors are `unsafe`, and their callers promise for every copy and part of the slice. All
/// that takes a slice is safe to call in return.
///
/// ```compile_fail,E0133
/// use bowline_base::buffer::RecvBuf;
/// let slice = bowline_uct::LocalSlice::of_recv(&mut RecvBuf::owned(vec![0; 8]), 0, 8);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LocalSlice {
    start: *mut u8,
    len: usize,
}

// SAFETY: it is a place and a length. Code that reads or writes there does so under the promise to its
// constructor, about a handle that is `Send`; to move the place to another thread touches nothing.
unsafe impl Send for LocalSlice {}

impl LocalSlice {
    /// No memory.
    pub const EMPTY: Self = Self { start: std::ptr::NonNull::<u8>::dangling().as_ptr(), len: 0 };

    /// The `len` bytes at `start`.
    ///
    /// # Safety
    /// As for [`of_recv`](Self::of_recv), or as for [`of_send`](Self::of_send) if it is given to nothing
    /// that writes.
    #[inline]
    pub const unsafe fn from_raw(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    /// The bytes `offset .. offset + len` of a send buffer, or `None` outside of it, and where they do
    /// not lie in one piece.
    ///
    /// # Safety
    /// Until every operation and every loan of memory that the slice, a copy or a part of it is given to
    /// has ended:
    /// - the memory must stay readable, and nobody may write it: a handle that owns it is neither dropped
    ///   nor emptied (it may move);
    /// - the slice must be given only to what reads: to `am_zcopy`, `put_zcopy` and `mem_expose`.
    ///
    /// A post has ended when it did not answer [`Posted::InFlight`](crate::Posted::InFlight), and else when its completion was
    /// reported to the sink; a loan when `mem_release` has returned; both when the interface was dropped.
    #[inline]
    pub unsafe fn of_send(buffer: &SendBuf, offset: usize, len: usize) -> Option<Self> {
        if len == 0 {
            return (offset <= buffer.len()).then_some(Self::EMPTY);
        }
        let (start, run) = buffer.run(offset, len)?;
        (run == len).then_some(Self { start: start.cast_mut(), len })
    }

    /// The bytes `offset .. offset + len` of a receive buffer, or `None` outside of it, and where they do
    /// not lie in one piece.
    ///
    /// # Safety
    /// Until every operation and every loan of memory that the slice, a copy or a part of it is given to
    /// has ended, as for [`of_send`](Self::of_send):
    /// - the memory must stay writable: a handle that owns it is neither dropped nor emptied (it may
    ///   move);
    /// - nothing else may read or write these bytes, also not through the handle, while an operation may
    ///   write them; nor write them while one may read them.
    #[inline]
    pub unsafe fn of_recv(buffer: &mut RecvBuf, offset: usize, len: usize) -> Option<Self> {
        if len == 0 {
            return (offset <= buffer.len()).then_some(Self::EMPTY);
        }
        let (start, run) = buffer.run(offset, len)?;
        (run == len).then_some(Self { start, len })
    }

    /// The memory of a send buffer from `offset` on, at most `max` bytes, as far as `out` has places for
    /// its pieces. Returns how many it took, and the bytes in them; no bytes behind the end, and where only
    /// callbacks know.
    ///
    /// # Safety
    /// As for [`of_send`](Self::of_send), for each of them.
    pub unsafe fn runs_of_send(
        buffer: &SendBuf,
        offset: usize,
        max: usize,
        out: &mut [Self],
    ) -> (usize, usize) {
        let next = |offset, max| buffer.run(offset, max).map(|(start, n)| (start.cast_mut(), n));
        Self::runs(next, offset, max, out)
    }

    /// The same of a receive buffer.
    ///
    /// # Safety
    /// As for [`of_recv`](Self::of_recv), for each of them.
    pub unsafe fn runs_of_recv(
        buffer: &mut RecvBuf,
        offset: usize,
        max: usize,
        out: &mut [Self],
    ) -> (usize, usize) {
        Self::runs(|offset, max| buffer.run(offset, max), offset, max, out)
    }

    fn runs(
        mut next: impl FnMut(usize, usize) -> Option<(*mut u8, usize)>,
        offset: usize,
        max: usize,
        out: &mut [Self],
    ) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        while bytes < max
            && let Some(place) = out.get_mut(count)
            && let Some((start, len)) = next(offset + bytes, max - bytes)
        {
            *place = Self { start, len };
            (count, bytes) = (count + 1, bytes + len);
        }
        (count, bytes)
    }

    /// Its bytes `offset .. offset + len`, or `None` outside of it.
    #[inline]
    pub fn slice(&self, offset: usize, len: usize) -> Option<Self> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        Some(Self { start: self.start.wrapping_add(offset), len })
    }

    /// Where it starts.
    #[inline]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}
