//! Messages that do not lie in one piece of memory: what a handle of [`buffer`](crate::buffer)
//! points to when its message is a list of pieces, or is packed and unpacked by callbacks.
//!
//! ```text
//!   handle ── length word with SCATTERED ──► Outgoing / Incoming (on the heap)
//!                                             ├── Pieces: where each lies, where it ends in the message
//!                                             ├── Laid: an address, a layout and a count
//!                                             └── a callback: Pack / Unpack
//! ```
//! Rules. (1) Bytes of a message are asked of a [`Pack`], and given to an [`Unpack`], in order and each
//! once. (2) Callbacks run in the midst of the library: in the posting of a message, or while arrivals
//! are taken in. They must not call it. (3) A panic of a `Pack` ends the process: its peer may have the
//! message's begin, and would wait for the rest, or take for the message what is none. A panic of an
//! `Unpack` is caught here; its receive fails once the message has come.

use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::copy::copy_bytes;
use crate::copy::{copy_from_shared, copy_to_shared, overwrites_lines};
use crate::layout::{self, Layout, Overflow};
use crate::sync::CacheLine;
use crate::view::View;

/// Bytes that pass between callbacks and a transport's memory, which peers may write and is therefore
/// never a slice.
const SCRATCH: usize = 2048;

/// Packs a message as it travels, from whatever it is in its program.
pub trait Pack: Send + Any {
    /// Bytes of the packed message; asked once.
    fn packed_size(&self) -> usize;

    /// Fills `out` with the packed bytes from `offset` on. Never asked for more than
    /// [`packed_size`](Self::packed_size).
    fn pack(&mut self, offset: usize, out: &mut [u8]);
}

/// Unpacks a message as it arrives. The value is dropped with its handle, or handed back after the
/// operation; that is the place for what is to be done at its end.
pub trait Unpack: Send + Any {
    /// Most bytes that a message may have; what goes beyond is cut off. Asked once.
    fn space(&self) -> usize;

    /// Takes the message's bytes from `offset` on. A message may end early, within an element as well:
    /// it may be shorter than the buffer, or cut.
    ///
    /// # Errors
    /// When they cannot be what was expected: the receive then fails, and nothing more is given.
    fn unpack(&mut self, offset: usize, bytes: &[u8]) -> Result<(), UnpackRefused>;
}

/// What an [`Unpack`] answers to bytes that it cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackRefused;

/// How a message lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLayout {
    /// In one piece.
    Whole,
    /// In so many pieces.
    Pieces(usize),
    /// Only callbacks know.
    Callbacks,
}

/// A list of pieces of memory.
pub(crate) struct Pieces {
    /// Where each begins, and the offset in the message behind its last byte.
    list: Vec<(*mut u8, usize)>,
    owned: bool,
}

impl Pieces {
    /// # Safety
    /// As for the constructors of handles that call it. With `owned`, each is a leaked box of bytes.
    pub(crate) unsafe fn new(pieces: impl Iterator<Item = (*mut u8, usize)>, owned: bool) -> Self {
        let mut end = 0_usize;
        let list = pieces.map(|(start, len)| {
            end = end.checked_add(len).expect("a message of more bytes than can be counted");
            (start, end)
        });
        Self { list: list.collect(), owned }
    }

    /// Pieces that belong to the handle.
    pub(crate) fn owned(pieces: Vec<Vec<u8>>) -> Self {
        let leaked = pieces.into_iter().map(|bytes| {
            let bytes = Box::leak(bytes.into_boxed_slice());
            (bytes.as_mut_ptr(), bytes.len())
        });
        // SAFETY: each is a box leaked here, which nobody else has.
        unsafe { Self::new(leaked, true) }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.last().map_or(0, |&(_, end)| end)
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// The memory from `offset` of the message to the end of its piece, `None` behind the last.
    pub(crate) fn run(&self, offset: usize) -> Option<(*mut u8, usize)> {
        let at = self.list.partition_point(|&(_, end)| end <= offset);
        let &(start, end) = self.list.get(at)?;
        let begin = if at == 0 { 0 } else { self.list[at - 1].1 };
        // `begin <= offset < end`, so the result lies inside of the piece.
        Some((start.wrapping_add(offset - begin), end - offset))
    }

    /// The pieces' own memory, if they have any; empties the list.
    fn take(&mut self) -> Option<Vec<Vec<u8>>> {
        if !self.owned {
            return None;
        }
        let mut begin = 0;
        let list = std::mem::take(&mut self.list).into_iter().map(|(start, end)| {
            let bytes = std::ptr::slice_from_raw_parts_mut(start, end - begin);
            begin = end;
            // SAFETY: `owned` made the list of leaked boxes of these places and lengths, and the
            // list is emptied here, so that each is taken back once.
            unsafe { Box::from_raw(bytes) }.into_vec()
        });
        Some(list.collect())
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Elements of a layout, an extent apart.
pub(crate) struct Laid {
    base: *mut u8,
    layout: Arc<Layout>,
    count: usize,
    len: usize,
}

impl Laid {
    /// # Safety
    /// As for the constructors of handles that call it.
    pub(crate) unsafe fn new(
        base: *mut u8,
        layout: Arc<Layout>,
        count: usize,
    ) -> Result<Self, Overflow> {
        let (len, _, _) = layout.message(count)?;
        Ok(Self { base, layout, count, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn shape(&self) -> MemoryLayout {
        MemoryLayout::Pieces(self.layout.pieces(self.count))
    }

    /// The memory from `offset` of the message to the end of its piece, `None` behind the last.
    pub(crate) fn run(&self, offset: usize) -> Option<(*mut u8, usize)> {
        let (at, len) = self.layout.run(self.count, offset)?;
        Some((self.base.wrapping_offset(at as isize), len))
    }

    /// Copies `len` bytes from `offset` on to `out`.
    ///
    /// # Safety
    /// `out` must be writable for so many bytes, apart from the message; it may change meanwhile.
    unsafe fn pack(&self, offset: usize, out: *mut u8, len: usize) {
        // SAFETY: the message was promised to the handle's constructor; the caller promises the rest.
        unsafe { layout::pack(&self.layout, self.base, self.count, offset, out, len) };
    }

    /// The same to memory of a transport, which another processor reads and has read: stores of small pieces
    /// ask for each of its lines and wait for it, a long copy does not.
    ///
    /// # Safety
    /// As for [`pack`](Self::pack).
    unsafe fn pack_to_shared(&self, offset: usize, out: *mut u8, len: usize) {
        let piece = self.len / self.layout.pieces(self.count).max(1);
        // Long pieces are copied as messages are.
        if piece >= COARSE || !overwrites_lines(len) {
            // SAFETY: promised by the caller.
            return unsafe { self.pack(offset, out, len) };
        }
        let mut fragment = MaybeUninit::<CacheLine<[u8; FRAGMENT]>>::uninit();
        let start = fragment.as_mut_ptr().cast::<u8>();
        for at in (0..len).step_by(FRAGMENT) {
            let n = FRAGMENT.min(len - at);
            // SAFETY: promised by the caller; there is space for `n` bytes in between, which are written
            // before they are read.
            unsafe {
                self.pack(offset + at, start, n);
                copy_to_shared(start, out.wrapping_add(at), n);
            }
        }
    }
}

/// Bytes that are put together before they are copied to a transport's memory.
const FRAGMENT: usize = 8192;

/// Average bytes of a piece that are not worth it.
const COARSE: usize = 1024;

/// Ends the process when it is dropped by a panic: rule 3.
struct NoUnwind;

impl Drop for NoUnwind {
    #[cold]
    fn drop(&mut self) {
        tracing::error!(
            "a panic while a message is packed; its peer cannot be notified, so this process ends"
        );
        std::process::abort();
    }
}

/// A message to send.
pub(crate) enum Outgoing {
    Pieces(Pieces),
    Laid(Laid),
    Packed(Box<dyn Pack>),
}

impl Outgoing {
    pub(crate) fn shape(&self) -> MemoryLayout {
        match self {
            Self::Pieces(pieces) => MemoryLayout::Pieces(pieces.count()),
            Self::Laid(laid) => laid.shape(),
            Self::Packed(_) => MemoryLayout::Callbacks,
        }
    }

    /// Hands `len` bytes from `offset` on to `take`, part by part. They are all inside.
    fn each(&mut self, mut offset: usize, mut len: usize, mut take: impl FnMut(&[u8])) {
        match self {
            Self::Pieces(pieces) => {
                while len > 0
                    && let Some((start, run)) = pieces.run(offset)
                {
                    let n = run.min(len);
                    // SAFETY: `n` bytes of a piece, which the handle's constructor promised to be
                    // readable and unwritten while the handle is there.
                    take(unsafe { std::slice::from_raw_parts(start, n) });
                    (offset, len) = (offset + n, len - n);
                }
            }
            Self::Laid(laid) => {
                while len > 0
                    && let Some((start, run)) = laid.run(offset)
                {
                    let n = run.min(len);
                    // SAFETY: as for a piece.
                    take(unsafe { std::slice::from_raw_parts(start, n) });
                    (offset, len) = (offset + n, len - n);
                }
            }
            Self::Packed(packer) => {
                let mut scratch = [0; SCRATCH];
                while len > 0 {
                    let n = len.min(SCRATCH);
                    let guard = NoUnwind;
                    packer.pack(offset, &mut scratch[..n]);
                    std::mem::forget(guard);
                    take(&scratch[..n]);
                    (offset, len) = (offset + n, len - n);
                }
            }
        }
    }

    /// Copies `len` bytes from `offset` on to memory that may change meanwhile. There is space.
    pub(crate) fn copy_to(&mut self, offset: usize, len: usize, out: View<'_>) {
        if let Self::Laid(laid) = self {
            // SAFETY: the view has space for `len` bytes, and is no memory of the message.
            return unsafe { laid.pack_to_shared(offset, out.as_ptr(), len) };
        }
        let mut at = 0;
        self.each(offset, len, |part| {
            if let Some(space) = out.slice(at, part.len()) {
                space.copy_in(part);
            }
            at += part.len();
        });
    }

    /// The same into a slice of as many bytes.
    pub(crate) fn copy_into(&mut self, offset: usize, out: &mut [u8]) {
        if let Self::Laid(laid) = self {
            // SAFETY: the slice is nobody else's.
            return unsafe { laid.pack(offset, out.as_mut_ptr(), out.len()) };
        }
        let mut at = 0;
        self.each(offset, out.len(), |part| {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        });
    }

    pub(crate) fn into_pieces(self) -> Option<Vec<Vec<u8>>> {
        match self {
            Self::Pieces(mut pieces) => pieces.take(),
            Self::Laid(_) | Self::Packed(_) => None,
        }
    }
}

/// A message to receive.
pub(crate) enum Incoming {
    Pieces(Pieces),
    Laid(Laid),
    Unpacked(Unpacking),
}

/// A message that a callback takes.
pub(crate) struct Unpacking {
    pub(crate) by: Box<dyn Unpack>,
    /// Bytes that it was given.
    next: usize,
    /// It has refused or panicked, or would have got bytes out of order.
    failed: bool,
}

impl Unpacking {
    pub(crate) fn new(by: Box<dyn Unpack>) -> Self {
        Self { by, next: 0, failed: false }
    }

    fn give(&mut self, offset: usize, bytes: &[u8]) {
        if self.failed || offset != self.next {
            self.failed = true;
            return;
        }
        self.next += bytes.len();
        let by = &mut self.by;
        // What a panic leaves is read by nobody but its own `drop`.
        let taken = catch_unwind(AssertUnwindSafe(|| by.unpack(offset, bytes)));
        self.failed = !matches!(taken, Ok(Ok(())));
    }
}

impl Incoming {
    pub(crate) fn shape(&self) -> MemoryLayout {
        match self {
            Self::Pieces(pieces) => MemoryLayout::Pieces(pieces.count()),
            Self::Laid(laid) => laid.shape(),
            Self::Unpacked(_) => MemoryLayout::Callbacks,
        }
    }

    /// Whether a callback could not take what it was given.
    pub(crate) fn failed(&self) -> bool {
        matches!(self, Self::Unpacked(unpacking) if unpacking.failed)
    }

    /// Takes `len` bytes at `from` to `offset`, where there is space for them. Returns how many, 0 when
    /// a callback did not want them.
    ///
    /// # Safety
    /// `from` must be readable for `len` bytes, apart from the pieces; it may change meanwhile.
    pub(crate) unsafe fn take(&mut self, mut offset: usize, from: *const u8, len: usize) -> usize {
        let mut done = 0;
        match self {
            Self::Pieces(pieces) => {
                while done < len
                    && let Some((start, run)) = pieces.run(offset + done)
                {
                    let n = run.min(len - done);
                    // SAFETY: `n` bytes of a piece, which belong to the handle alone by the promise
                    // to its constructor; the caller promises the other side.
                    unsafe { copy_from_shared(from.add(done), start, n) };
                    done += n;
                }
            }
            Self::Laid(Laid { base, layout, count, .. }) => {
                // SAFETY: the message's bytes belong to the handle alone by the promise to its
                // constructor; the caller promises the other side.
                done = unsafe { layout::unpack(layout, *base, *count, offset, from, len) };
            }
            Self::Unpacked(unpacking) => {
                let mut scratch = [0; SCRATCH];
                while done < len {
                    let n = SCRATCH.min(len - done);
                    // SAFETY: `n` bytes of the caller's promise, into as many of our own.
                    unsafe { copy_bytes(from.add(done), scratch.as_mut_ptr(), n) };
                    unpacking.give(offset, &scratch[..n]);
                    (offset, done) = (offset + n, done + n);
                }
                if unpacking.failed {
                    return 0;
                }
            }
        }
        done
    }

    pub(crate) fn into_pieces(self) -> Option<Vec<Vec<u8>>> {
        match self {
            Self::Pieces(mut pieces) => pieces.take(),
            Self::Laid(_) | Self::Unpacked(_) => None,
        }
    }
}
