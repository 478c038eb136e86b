//! Completion queues with their channels, and shared receive queues.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::Arc;

use super::device::{Context, Pd, check};
use super::ffi;
use super::load::loaded;
use super::object::LibraryObject;

/// A completion queue and the descriptor that becomes readable when it was asked to.
#[derive(Debug)]
pub(crate) struct Cq {
    /// Before its channel.
    raw: LibraryObject<ffi::Cq>,
    channel: LibraryObject<ffi::Channel>,
    _context: Arc<Context>,
}

impl Cq {
    /// A queue that holds `entries` completions.
    pub(crate) fn new(context: &Arc<Context>, entries: u32) -> Result<Arc<Self>, io::Error> {
        // SAFETY: the device is open; its queue goes before the channel.
        let channel = unsafe {
            let channel = (loaded().create_channel)(context.raw());
            LibraryObject::new(channel, loaded().destroy_channel)?
        };
        // SAFETY: the device is open and the channel is alive; there is always a vector 0. Queue pairs hold an
        // `Arc` of their queue; all events are acknowledged when they are taken.
        let raw = unsafe {
            let (entries, channel) = (entries as i32, channel.raw());
            let raw = (loaded().create_cq)(context.raw(), entries, ptr::null_mut(), channel, 0);
            LibraryObject::new(raw, loaded().destroy_cq)?
        };
        let queue = Self { raw, channel, _context: Arc::clone(context) };
        rustix::io::ioctl_fionbio(queue.fd(), true)?;
        Ok(Arc::new(queue))
    }

    pub(super) const fn raw(&self) -> *mut ffi::Cq {
        self.raw.raw()
    }

    /// Takes completions out; returns how many.
    #[inline]
    pub(crate) fn poll(&self, out: &mut [ffi::Wc]) -> usize {
        // SAFETY: the queue is alive; `out` has space for as many as are asked for.
        let count = unsafe {
            let poll = (*(*self.raw()).context).ops.poll_cq;
            poll(self.raw(), out.len() as i32, out.as_mut_ptr())
        };
        // A negative count is a device that has failed; its queue pairs report that, too.
        usize::try_from(count).unwrap_or(0)
    }

    /// Asks that the next completion makes the descriptor readable.
    pub(crate) fn request_event(&self) {
        // SAFETY: the queue is alive.
        unsafe {
            let request = (*(*self.raw()).context).ops.req_notify_cq;
            request(self.raw(), 0);
        }
    }

    /// Takes the events that have come; the descriptor is not readable after it.
    pub(crate) fn take_events(&self) {
        let (mut queue, mut data) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive and does not block; the event is of this queue, the only
        // one of the channel, and acknowledged once.
        unsafe {
            while (loaded().get_cq_event)(self.channel.raw(), &raw mut queue, &raw mut data) == 0 {
                (loaded().ack_cq_events)(self.raw(), 1);
            }
        }
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive and owns its descriptor.
        unsafe {
            let fd: RawFd = (*self.channel.raw()).fd;
            BorrowedFd::borrow_raw(fd)
        }
    }
}

/// A receive queue that many queue pairs share.
#[derive(Debug)]
pub(crate) struct Srq {
    raw: LibraryObject<ffi::Srq>,
    _pd: Arc<Pd>,
}

impl Srq {
    /// A queue of at most `entries` posted buffers of one piece.
    pub(crate) fn new(pd: &Arc<Pd>, entries: u32) -> Result<Arc<Self>, io::Error> {
        let mut attributes = ffi::SrqInitAttr {
            srq_context: ptr::null_mut(),
            max_wr: entries,
            max_sge: 1,
            srq_limit: 0,
        };
        // SAFETY: the domain is alive; the library copies the attributes. Queue pairs hold an `Arc` of the queue.
        let raw = unsafe {
            let raw = (loaded().create_srq)(pd.raw(), &raw mut attributes);
            LibraryObject::new(raw, loaded().destroy_srq)?
        };
        Ok(Arc::new(Self { raw, _pd: Arc::clone(pd) }))
    }

    pub(super) const fn raw(&self) -> *mut ffi::Srq {
        self.raw.raw()
    }

    /// Posts buffers, in one call. At most 16 of them.
    pub(crate) fn post(&self, buffers: &[(u64, ffi::Sge)]) -> Result<(), io::Error> {
        let mut chain = Chain::new(buffers);
        let mut bad = ptr::null_mut();
        // SAFETY: the queue is alive; the chain's requests and pieces live until the call returns,
        // when the library has copied them; the memory is protected by the pieces' keys.
        check(unsafe {
            let post = (*(*self.raw()).context).ops.post_srq_recv;
            post(self.raw(), chain.first(), &raw mut bad)
        })
    }
}

/// Most receive buffers that are posted in one call.
pub(crate) const RECEIVE_BATCH: usize = 16;

/// Receive requests, linked.
pub(super) struct Chain {
    pieces: [ffi::Sge; RECEIVE_BATCH],
    requests: [ffi::RecvWr; RECEIVE_BATCH],
    count: usize,
}

impl Chain {
    pub(super) fn new(buffers: &[(u64, ffi::Sge)]) -> Self {
        let none =
            ffi::RecvWr { wr_id: 0, next: ptr::null_mut(), sg_list: ptr::null_mut(), num_sge: 1 };
        let count = buffers.len();
        assert!((1..=RECEIVE_BATCH).contains(&count), "between one buffer and a batch");
        let mut chain = Self { pieces: Default::default(), requests: [none; RECEIVE_BATCH], count };
        for (place, (id, piece)) in buffers.iter().enumerate() {
            chain.pieces[place] = *piece;
            chain.requests[place].wr_id = *id;
        }
        chain
    }

    /// Links the requests where they lie now; the chain must not move while it is used.
    pub(super) fn first(&mut self) -> *mut ffi::RecvWr {
        let (requests, pieces) = (self.requests.as_mut_ptr(), self.pieces.as_mut_ptr());
        for place in 0..self.count {
            let last = place + 1 == self.count;
            self.requests[place].sg_list = pieces.wrapping_add(place);
            self.requests[place].next =
                if last { ptr::null_mut() } else { requests.wrapping_add(place + 1) };
        }
        requests
    }
}
