//! Memory of the program that messages are read from and written to.

use std::sync::Arc;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::layout::Layout;

use crate::types::Type;

/// Where a message lies: an address, and how its bytes lie from there on. It promises nothing about the
/// memory; who makes a handle of it does.
#[derive(Clone, Debug)]
pub struct Memory {
    base: *mut u8,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// So many bytes side by side.
    Plain(usize),
    /// Elements that lie as a layout says.
    Laid(Arc<Layout>, usize),
}

/// Messages are shorter than this.
const BYTES_MAX: usize = 1 << 62;

impl Memory {
    /// Bytes side by side; `None` for more than a message can have.
    #[inline]
    pub fn plain(base: *mut u8, count: usize, size: usize) -> Option<Self> {
        let len = count.checked_mul(size).filter(|&len| len < BYTES_MAX)?;
        Some(Self { base, shape: Shape::Plain(len) })
    }

    /// Elements of a type; `None` where their bytes or places cannot be counted.
    pub fn typed(base: *mut u8, count: usize, datatype: &Type) -> Option<Self> {
        // Says whether the message can be counted, which `one_block` takes for granted.
        let (len, ..) = datatype.layout().message(count).ok()?;
        if len >= BYTES_MAX {
            return None;
        }
        if len == 0 {
            return Some(Self { base, shape: Shape::Plain(0) });
        }
        Some(match datatype.one_block(count) {
            Some((place, len)) => {
                let base = base.wrapping_offset(place as isize);
                Self { base, shape: Shape::Plain(len) }
            }
            None => Self { base, shape: Shape::Laid(Arc::clone(datatype.layout()), count) },
        })
    }

    /// Bytes of the message.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.shape {
            Shape::Plain(len) => *len,
            // Counted when it was made.
            Shape::Laid(layout, count) => layout.size() * count,
        }
    }

    /// Whether the message has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lowest address that a message of some bytes touches.
    pub fn lowest(&self) -> usize {
        match &self.shape {
            Shape::Plain(_) => self.base.addr(),
            Shape::Laid(layout, count) => {
                let low = layout.message(*count).map_or(0, |(_, low, _)| low);
                self.base.addr().wrapping_add_signed(low as isize)
            }
        }
    }

    /// What a send reads.
    ///
    /// # Safety
    /// As for [`SendBuf::borrowed`], for every byte of the message.
    #[inline]
    pub unsafe fn outgoing(&self) -> SendBuf {
        match &self.shape {
            Shape::Plain(0) => SendBuf::empty(),
            // SAFETY: promised by the caller.
            Shape::Plain(len) => unsafe { SendBuf::borrowed(self.base, *len) },
            Shape::Laid(layout, count) => {
                // SAFETY: promised by the caller.
                let made = unsafe { SendBuf::laid_out(self.base, Arc::clone(layout), *count) };
                made.expect("it was counted when it was made")
            }
        }
    }

    /// What a receive writes.
    ///
    /// # Safety
    /// As for [`RecvBuf::borrowed`], for every byte of the message.
    #[inline]
    pub unsafe fn incoming(&self) -> RecvBuf {
        match &self.shape {
            Shape::Plain(0) => RecvBuf::empty(),
            // SAFETY: promised by the caller.
            Shape::Plain(len) => unsafe { RecvBuf::borrowed(self.base, *len) },
            Shape::Laid(layout, count) => {
                // SAFETY: promised by the caller.
                let made = unsafe { RecvBuf::laid_out(self.base, Arc::clone(layout), *count) };
                made.expect("it was counted when it was made")
            }
        }
    }

    /// The message as it travels.
    ///
    /// # Safety
    /// Every byte of the message is readable, and nobody writes it meanwhile.
    pub unsafe fn packed(&self) -> Vec<u8> {
        // SAFETY: promised by the caller; the handle ends with this function.
        let mut buffer = unsafe { self.outgoing() };
        let mut bytes = vec![0; self.len()];
        let packed = buffer.pack_into(0, &mut bytes);
        debug_assert_eq!(packed, bytes.len(), "a message has its bytes");
        bytes
    }
}
