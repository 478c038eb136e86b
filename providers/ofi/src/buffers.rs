//! Buffers that libfabric sends from or receives into: equal pieces of one registered mapping,
//! by number.

use std::ffi::c_void;

use bowline_base::region::Region;
use bowline_base::view::View;
use bowline_uct::OpenError;
use libfabric_sys as sys;

use crate::info::failure;
use crate::net::{Mr, Net, Piece};

/// A pool. A buffer is free or has one owner, who holds its number.
#[derive(Debug)]
pub(crate) struct Buffers {
    region: Region,
    /// Where registration is wanted.
    mr: Option<Mr>,
    desc: *mut c_void,
    size: usize,
    distance: usize,
    free: Vec<u32>,
}

// SAFETY: `desc` is a word that libfabric made for the domain, handed back to it by whichever
// thread has the interface; everything else is `Send`.
unsafe impl Send for Buffers {}

/// Keeps each buffer on lines of its own.
const LINE: usize = 64;

/// Distance of buffers of `size` bytes: an odd number of lines, so that the first lines of buffers,
/// which are used most, do not all meet in one set of a cache.
const fn distance(size: usize) -> usize {
    (size.div_ceil(LINE) | 1) * LINE
}

impl Buffers {
    /// A pool of `count` buffers of `size` bytes.
    pub(crate) fn new(net: &mut Net, count: u32, size: usize) -> Result<Self, OpenError> {
        let distance = distance(size);
        let region = Region::create_private(count as usize * distance).map_err(|error| {
            OpenError::System {
                act: "reserve the buffers of the libfabric transport",
                source: std::io::Error::other(error),
            }
        })?;
        let (mut mr, mut desc) = (None, std::ptr::null_mut());
        if net.traits.register_local {
            let access = sys::FI_SEND | sys::FI_RECV | sys::FI_READ | sys::FI_WRITE;
            let view = region.view();
            // SAFETY: the region stays mapped for the life of this value, whose `mr` is dropped
            // with it or before.
            let registered =
                unsafe { net.register(view.as_ptr(), view.len(), access) }.map_err(|error| {
                    failure("register the buffers of the libfabric transport", error)
                })?;
            desc = registered.desc();
            mr = Some(registered);
        }
        // Taken from the end, so that the first ones are used again and stay in the caches.
        Ok(Self { region, mr, desc, size, distance, free: (0..count).rev().collect() })
    }

    /// Ends the registration; the memory stays.
    pub(crate) fn deregister(&mut self) {
        self.mr = None;
    }

    /// Bytes of all buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.region.len()
    }

    /// Bytes of a buffer.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Free buffers.
    pub(crate) const fn left(&self) -> usize {
        self.free.len()
    }

    /// A buffer, if one is free.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    #[inline]
    pub(crate) fn give(&mut self, buffer: u32) {
        debug_assert!(!self.free.contains(&buffer), "given back twice");
        self.free.push(buffer);
    }

    /// The bytes of a buffer.
    #[inline]
    pub(crate) fn view(&self, buffer: u32) -> View<'_> {
        self.region
            .view()
            .slice(buffer as usize * self.distance, self.size)
            .expect("numbers come from this pool")
    }

    /// `len` bytes of a buffer from `offset`, as libfabric takes them.
    #[inline]
    pub(crate) fn piece(&self, buffer: u32, offset: usize, len: usize) -> Piece {
        let part = self.view(buffer).slice(offset, len).expect("inside a buffer");
        Piece { start: part.as_ptr(), len, desc: self.desc }
    }
}
