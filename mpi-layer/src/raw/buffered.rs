//! Buffered sends: their messages are copied, and the copies travel when they can.
//!
//! A pool stands for a buffer that a program has attached. The copies are on the heap and not in that
//! buffer, but take as much of its space as they would there: what has left its sender's hands takes none.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use bowline_base::buffer::SendBuf;
use bowline_ucp::{RequestId, SendMode, Sent};

use super::memory::Memory;
use crate::comm::Communicator;
use crate::error::MpiError;

/// What a message takes beside its bytes. (`MPI_BSEND_OVERHEAD`)
const OVERHEAD: usize = 512;

/// Where buffered sends keep their messages.
#[derive(Debug)]
pub struct Pool {
    /// Bytes of the attached buffer; none where there is always space.
    space: Option<usize>,
    used: Cell<usize>,
    /// In the order of their numbers.
    messages: RefCell<VecDeque<Kept>>,
    /// The number of the message that came last.
    last: Cell<u64>,
}

/// A message under way.
#[derive(Debug)]
struct Kept {
    /// Keeps its context open.
    comm: Communicator,
    id: RequestId,
    bytes: usize,
    number: u64,
}

impl Pool {
    /// A pool with this much space; with `None` as much as there is memory.
    pub const fn new(space: Option<usize>) -> Self {
        Self {
            space,
            used: Cell::new(0),
            messages: RefCell::new(VecDeque::new()),
            last: Cell::new(0),
        }
    }

    /// Copies a message and sends the copy.
    ///
    /// # Errors
    /// Those of [`Communicator::send`], and [`MpiError::NoBufferSpace`].
    ///
    /// # Safety
    /// Every byte of the message is readable, and nobody writes it meanwhile.
    pub unsafe fn send(
        &self,
        comm: &Communicator,
        memory: &Memory,
        dest: i32,
        tag: i32,
    ) -> Result<(), MpiError> {
        let Some((ep, envelope)) = comm.destination(dest, tag)? else { return Ok(()) };
        let bytes = memory.len().saturating_add(OVERHEAD);
        self.sweep();
        if let Some(space) = self.space
            && bytes > space.saturating_sub(self.used.get())
        {
            let free = space.saturating_sub(self.used.get());
            return Err(MpiError::NoBufferSpace { needed: bytes as u64, free: free as u64 });
        }
        // SAFETY: promised by the caller.
        let copy = SendBuf::owned(unsafe { memory.packed() });
        match comm.inner.process.send(ep, envelope, copy, SendMode::Standard)? {
            Sent::Done => {}
            Sent::Pending(id) => {
                comm.inner.process.worker.watch_send(id);
                let number = self.last.get() + 1;
                self.last.set(number);
                self.used.set(self.used.get() + bytes);
                let kept = Kept { comm: comm.clone(), id, bytes, number };
                self.messages.borrow_mut().push_back(kept);
            }
        }
        Ok(())
    }

    /// Whether all messages have left. Moves nothing on.
    pub fn is_empty(&self) -> bool {
        self.sweep();
        self.messages.borrow().is_empty()
    }

    /// The number of the message that came last.
    pub(super) const fn last(&self) -> u64 {
        self.last.get()
    }

    /// Whether the messages up to a number have left. Moves nothing on.
    pub(super) fn has_left(&self, until: u64) -> bool {
        self.sweep();
        self.messages.borrow().front().is_none_or(|first| first.number > until)
    }

    /// Forgets what has left.
    fn sweep(&self) {
        let mut gone = Vec::new();
        self.messages.borrow_mut().retain(|message| {
            let Some(status) = message.comm.inner.process.worker.take(message.id) else {
                return true;
            };
            if let Err(error) = status.outcome {
                tracing::warn!("a buffered message was not delivered: {error}");
            }
            self.used.set(self.used.get() - message.bytes);
            gone.push(message.comm.clone());
            false
        });
        // The last use of a communicator closes it, which is not done under the borrow.
        drop(gone);
    }
}
