//! The memory of one interface that peers may reach. The bytes are held here; the network has
//! their place, which it forgets before they go.

use std::collections::BTreeMap;
use std::io;

use bowline_base::buffer::RecvBuf;
use bowline_base::region::Region;
use bowline_base::slab::{Key, Slab};
use bowline_base::view::View;
use bowline_uct::{LocalSlice, MemError, MemHandle};

/// Where the bytes are.
#[derive(Debug)]
enum Home {
    Allocated {
        _region: Region,
    },
    Registered(RecvBuf),
    /// Somebody else's, lent until it is released.
    Lent,
}

#[derive(Debug)]
struct Piece {
    home: Home,
    start: *mut u8,
    len: usize,
}

// SAFETY: `start` points into `home`, which is `Send`, or into the buffer of an operation, which is
// so too; it is only used through views, whose
// operations work from any thread.
unsafe impl Send for Piece {}

/// Memory by handle.
#[derive(Debug, Default)]
pub(crate) struct Domain {
    pieces: Slab<Piece>,
    /// Allocations by start address, for `rkey_of`.
    allocated: BTreeMap<u64, MemHandle>,
}

impl Domain {
    pub(crate) fn alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        let region = Region::create_private(len).map_err(|error| MemError::System {
            act: "allocate memory of the simulated network",
            source: io::Error::other(error),
        })?;
        let start = region.view().as_ptr();
        let piece = Piece { home: Home::Allocated { _region: region }, start, len };
        let handle = MemHandle(self.pieces.insert(piece));
        self.allocated.insert(start as u64, handle);
        Ok(handle)
    }

    pub(crate) fn register(&mut self, mut buffer: RecvBuf) -> MemHandle {
        let (start, len) = (buffer.view().as_ptr(), buffer.len());
        MemHandle(self.pieces.insert(Piece { home: Home::Registered(buffer), start, len }))
    }

    pub(crate) fn lend(&mut self, slice: LocalSlice) -> MemHandle {
        let (start, len) = (slice.as_ptr(), slice.len());
        MemHandle(self.pieces.insert(Piece { home: Home::Lent, start, len }))
    }

    pub(crate) fn view(&self, handle: MemHandle) -> Option<View<'_>> {
        let piece = self.pieces.get(handle.0)?;
        // SAFETY: the bytes are `home`'s, which lives as long as the entry; releasing it needs
        // the table exclusively. Registered memory is promised by its handle to stay valid and to
        // be nobody else's, lent memory by whoever lends it. No reference to the bytes is made.
        Some(unsafe { View::from_raw(piece.start, piece.len) })
    }

    /// Gives the memory up. The network must have forgotten it before.
    pub(crate) fn release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        let piece = self.pieces.remove(handle.0).ok_or(MemError::NoSuch)?;
        match piece.home {
            Home::Allocated { .. } => {
                self.allocated.remove(&(piece.start as u64));
                Ok(None)
            }
            Home::Registered(buffer) => Ok(Some(buffer)),
            Home::Lent => Ok(None),
        }
    }

    /// The allocation around `start .. start + len`.
    pub(crate) fn allocation_of(&self, start: u64, len: usize) -> Option<MemHandle> {
        let (first, handle) = self.allocated.range(..=start).next_back()?;
        let offset = usize::try_from(start - first).ok()?;
        self.view(*handle)?.slice(offset, len)?;
        Some(*handle)
    }
}

/// A key that was opened: whose memory, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opened {
    /// A handle of a node, with where it starts and its length.
    Memory {
        /// The node.
        node: u32,
        /// The handle.
        handle: Key,
        /// Its first address.
        start: u64,
        /// Its bytes.
        len: u64,
    },
    /// All memory of a node, for reads.
    Whole {
        /// The node.
        node: u32,
    },
}
