//! The objects of libfabric that an interface owns: one endpoint, one address vector, one
//! completion queue, in one domain. This module, `info` and `monitor` are the only ones that call libfabric.
//!
//! **Order of closing.** Memory that must be bound to the endpoint is deregistered before it;
//! then the endpoint is closed, after which libfabric touches no buffer of ours any more; then
//! other memory, queue, address vector, domain and fabric. [`Net::close_endpoint`] is the hinge:
//! who owns buffers calls it before they go.
//!
//! **Threads.** The domain is opened for one thread at a time (FI_THREAD_DOMAIN), which the
//! `&mut self` of an interface ensures.
//!
//! Contexts of operations are numbers, never addresses: libfabric hands them back as they were.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr;

use bowline_uct::OpenError;
use libfabric_sys as sys;

use crate::info::{MAX_NAME, Offers, Traits, failure};
use crate::shortage::{is_shortage, shortage};

mod operations;

/// Number of a peer in the address vector.
pub(crate) type Place = sys::fi_addr_t;

/// Why libfabric did not take an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not now.
    Again,
    /// Not for want of resources; the positive error number.
    Failed(i32),
}

/// A completion.
pub(crate) type Entry = sys::fi_cq_msg_entry;

/// A completion with an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    /// Of the operation; 0 where it has none.
    pub(crate) context: usize,
    pub(crate) error: i32,
}

/// The result of a poll of the completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    /// So many entries, none for an empty queue.
    Entries(usize),
    /// An operation that failed.
    Failed(Failure),
    /// The queue itself is broken; the positive error number.
    Broken(i32),
}

/// Registered memory, deregistered on drop. The domain outlives it, see the module.
#[derive(Debug)]
pub(crate) struct Mr(*mut sys::fid_mr);

// SAFETY: the object is used by one thread at a time, as the interface that owns it is.
unsafe impl Send for Mr {}

impl Mr {
    pub(crate) fn desc(&self) -> *mut c_void {
        // SAFETY: open until drop.
        unsafe { (*self.0).mem_desc }
    }

    pub(crate) fn key(&self) -> u64 {
        // SAFETY: open until drop.
        unsafe { (*self.0).key }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: opened by `Net::register`, closed once, before its domain.
        let error = unsafe { sys::fi_close(self.0.cast()) };
        if error != 0 {
            tracing::warn!("libfabric: deregistering memory: {}", sys::error_text(error));
        }
    }
}

/// A piece of local memory with its descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
    pub(crate) desc: *mut c_void,
}

/// Most pieces that one operation of ours has: a header and what a zcopy may bring.
pub(crate) const MAX_PIECES: usize = 8;

/// Most polls of a queue that is emptied; peers may go on to send.
const DRAINS: u32 = 256;

/// Where a one-sided operation goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) place: Place,
    pub(crate) address: u64,
    pub(crate) key: u64,
}

/// Opened objects, closed on drop; null where not opened yet.
#[derive(Debug)]
pub(crate) struct Net {
    fabric: *mut sys::fid_fabric,
    domain: *mut sys::fid_domain,
    cq: *mut sys::fid_cq,
    av: *mut sys::fid_av,
    ep: *mut sys::fid_ep,
    enabled: bool,
    wait_fd: Option<i32>,
    pub(crate) traits: Traits,
}

// SAFETY: the objects belong to this value alone and are used through it by one thread at a time,
// which is what FI_THREAD_DOMAIN asks for; libfabric binds none of them to the thread that opened it.
unsafe impl Send for Net {}

/// A key of so many bits, by the system's random numbers; an error is one of the system's.
fn random_key(bits: u32) -> Result<u64, i32> {
    let mut bytes = [0; 8];
    let error = |error: rustix::io::Errno| error.raw_os_error();
    // Eight bytes come whole (getrandom(2)).
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(error)?;
    Ok(u64::from_ne_bytes(bytes) >> (64 - bits))
}

fn check(act: &'static str, error: i32) -> Result<(), OpenError> {
    if error == 0 { Ok(()) } else { Err(failure(act, error)) }
}

impl Net {
    /// Opens everything and enables the endpoint.
    pub(crate) fn open(offer: &Offers, wakeup: bool) -> Result<Self, OpenError> {
        let mut net = Self {
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
            cq: ptr::null_mut(),
            av: ptr::null_mut(),
            ep: ptr::null_mut(),
            enabled: false,
            wait_fd: None,
            traits: offer.traits(),
        };
        crate::monitor::install();
        let info = offer.as_ptr();
        let null = ptr::null_mut();
        // SAFETY: `info` is whole and lives through the calls, as do the attributes; every object
        // is open before it is used, since each failure returns, and is closed once, by `drop`.
        unsafe {
            check(
                "open the libfabric fabric",
                sys::fi_fabric((*info).fabric_attr, &raw mut net.fabric, null),
            )?;
            check(
                "open the libfabric domain",
                sys::fi_domain(net.fabric, info, &raw mut net.domain, null),
            )?;
            net.open_queue(wakeup)?;
            let mut attr: sys::fi_av_attr = std::mem::zeroed();
            attr.type_ = sys::FI_AV_TABLE;
            check(
                "open the libfabric address vector",
                sys::fi_av_open(net.domain, &raw mut attr, &raw mut net.av, null),
            )?;
            check(
                "open the libfabric endpoint",
                sys::fi_endpoint(net.domain, info, &raw mut net.ep, null),
            )?;
            let binding = "bind the libfabric endpoint";
            check(binding, sys::fi_ep_bind(net.ep, net.av.cast(), 0))?;
            let both = sys::FI_TRANSMIT | sys::FI_RECV;
            check(binding, sys::fi_ep_bind(net.ep, net.cq.cast(), both))?;
            check("enable the libfabric endpoint", sys::fi_enable(net.ep))?;
        }
        net.enabled = true;
        Ok(net)
    }

    /// Opens the completion queue, with a descriptor if that is wanted and exists.
    ///
    /// # Safety
    /// The domain is open and the queue is not.
    unsafe fn open_queue(&mut self, wakeup: bool) -> Result<(), OpenError> {
        let kinds: &[sys::fi_wait_obj] =
            if wakeup { &[sys::FI_WAIT_FD, sys::FI_WAIT_NONE] } else { &[sys::FI_WAIT_NONE] };
        let mut error = 0;
        for &kind in kinds {
            // SAFETY: all zeros is a value of the plain struct, meaning defaults.
            let mut attr: sys::fi_cq_attr = unsafe { std::mem::zeroed() };
            attr.format = sys::FI_CQ_FORMAT_MSG;
            attr.wait_obj = kind;
            // SAFETY: the domain is open by this function's own contract.
            error = unsafe {
                sys::fi_cq_open(self.domain, &raw mut attr, &raw mut self.cq, ptr::null_mut())
            };
            if error != 0 {
                self.cq = ptr::null_mut();
                // Without a descriptor only where the provider has none, not where we have none left.
                if is_shortage(&std::io::Error::from_raw_os_error(error.wrapping_abs())) {
                    break;
                }
                continue;
            }
            if kind == sys::FI_WAIT_FD {
                let mut fd = -1_i32;
                // SAFETY: the queue is open; FI_GETWAIT writes one `int` for this kind.
                let got = unsafe {
                    sys::fi_control(self.cq.cast(), sys::FI_GETWAIT as i32, (&raw mut fd).cast())
                };
                self.wait_fd = (got == 0 && fd >= 0).then_some(fd);
            }
            return Ok(());
        }
        check("open the libfabric completion queue", error)
    }

    /// The descriptor that becomes readable when the queue may have entries.
    pub(crate) fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor belongs to the queue, which lives as long as `self`.
        self.wait_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether one may sleep on the descriptor: nothing is in the queue, and what comes from now
    /// on makes it readable.
    pub(crate) fn may_sleep(&mut self) -> bool {
        let mut objects: [*mut sys::fid; 1] = [self.cq.cast()];
        // SAFETY: fabric and queue are open.
        unsafe { sys::fi_trywait(self.fabric, objects.as_mut_ptr(), 1) == 0 }
    }

    /// The endpoint's own address.
    pub(crate) fn name(&self) -> Result<Vec<u8>, OpenError> {
        let mut name = vec![0_u8; MAX_NAME];
        let mut len = name.len();
        // SAFETY: the endpoint is open, `len` bytes are writable.
        let error =
            unsafe { sys::fi_getname(self.ep.cast(), name.as_mut_ptr().cast(), &raw mut len) };
        check("ask libfabric for the endpoint's address", error)?;
        name.truncate(len);
        Ok(name)
    }

    /// Whether `name` has the form of an address that libfabric may be given: it reads as many
    /// bytes as the format has, or up to a zero.
    pub(crate) fn is_name(&self, name: &[u8], own: &[u8]) -> bool {
        if name.is_empty() || name.len() > MAX_NAME {
            return false;
        }
        if self.traits.address_format == sys::FI_ADDR_STR {
            return name.last() == Some(&0);
        }
        // The family stands in the first two bytes of a socket address.
        let socket =
            [sys::FI_SOCKADDR, sys::FI_SOCKADDR_IN, sys::FI_SOCKADDR_IN6, sys::FI_SOCKADDR_IB]
                .contains(&self.traits.address_format);
        name.len() == own.len() && (!socket || name.get(..2) == own.get(..2))
    }

    /// Puts a peer's address, which [`is_name`](Self::is_name), into the vector.
    pub(crate) fn insert(&mut self, name: &[u8]) -> Result<Place, OpenError> {
        let mut place = sys::FI_ADDR_UNSPEC;
        // SAFETY: the vector is open; `name` holds one address, as the caller has checked.
        let inserted = unsafe {
            sys::fi_av_insert(self.av, name.as_ptr().cast(), 1, &raw mut place, 0, ptr::null_mut())
        };
        if inserted != 1 || place == sys::FI_ADDR_UNSPEC {
            if let Some(source) = shortage() {
                return Err(OpenError::System { act: "give libfabric a peer's address", source });
            }
            return Err(OpenError::BadAddress("libfabric does not accept it".into()));
        }
        Ok(place)
    }

    /// Takes an address out of the vector again.
    pub(crate) fn remove(&mut self, mut place: Place) {
        // SAFETY: the vector is open, and `place` is one of its numbers.
        let error = unsafe { sys::fi_av_remove(self.av, &raw mut place, 1, 0) };
        if error != 0 {
            tracing::debug!("libfabric: removing an address: {}", sys::error_text(error));
        }
    }

    /// Registers memory for `access`.
    ///
    /// # Safety
    /// `start .. start + len` stays mapped until the result is dropped.
    pub(crate) unsafe fn register(
        &mut self,
        start: *mut u8,
        len: usize,
        access: u64,
    ) -> Result<Mr, i32> {
        if self.is_closed() {
            return Err(libc::ESHUTDOWN);
        }
        let iov = libc::iovec { iov_base: start.cast(), iov_len: len };
        // SAFETY: all zeros is a value of the plain struct: system memory, no authorization.
        let mut attr: sys::fi_mr_attr = unsafe { std::mem::zeroed() };
        attr.mr_iov = &raw const iov;
        attr.iov_count = 1;
        attr.access = access;
        let mut mr = ptr::null_mut();
        // SAFETY: the domain is open, the attributes are whole, the memory is the caller's
        // promise; a memory object is bound and enabled before anybody uses it.
        unsafe {
            // Not to be guessed: libfabric's sockets take operations on memory from anybody who reaches
            // them and knows a key. Providers with keys of their own do not read it.
            attr.requested_key = random_key(self.traits.key_bits)?;
            let mut error = sys::fi_mr_regattr(self.domain, &raw const attr, 0, &raw mut mr);
            if error.wrapping_abs() == sys::FI_ENOKEY as i32 {
                // Two keys alike, by chance; where keys are short, that happens.
                attr.requested_key = random_key(self.traits.key_bits)?;
                error = sys::fi_mr_regattr(self.domain, &raw const attr, 0, &raw mut mr);
            }
            if error != 0 {
                return Err(error.wrapping_abs());
            }
            let mr = Mr(mr);
            if self.traits.bind_memory {
                let mut error = sys::fi_mr_bind(mr.0, self.ep.cast(), 0);
                if error == 0 {
                    error = sys::fi_mr_enable(mr.0);
                }
                if error != 0 {
                    return Err(error.wrapping_abs());
                }
            }
            Ok(mr)
        }
    }

    /// Whether libfabric performs every atomic operation of the contract itself.
    pub(crate) fn has_all_atomics(&mut self) -> bool {
        if !self.traits.atomics {
            return false;
        }
        let plain = [sys::FI_SUM, sys::FI_BAND, sys::FI_BOR, sys::FI_BXOR, sys::FI_ATOMIC_WRITE];
        let mut count = 0_usize;
        let out = &raw mut count;
        [sys::FI_UINT32, sys::FI_UINT64].into_iter().all(|kind| {
            // SAFETY: the endpoint is open and `out` is writable.
            unsafe {
                plain.into_iter().all(|op| {
                    sys::fi_atomicvalid(self.ep, kind, op, out) == 0
                        && sys::fi_fetch_atomicvalid(self.ep, kind, op, out) == 0
                }) && sys::fi_compare_atomicvalid(self.ep, kind, sys::FI_CSWAP, out) == 0
            }
        })
    }

    /// Polls the completion queue, which is how libfabric makes progress.
    #[inline]
    pub(crate) fn read<'b>(
        &mut self,
        space: &'b mut [MaybeUninit<Entry>],
    ) -> (Read, &'b [MaybeUninit<Entry>]) {
        // SAFETY: the queue is open and was opened for entries of this form; `space` is writable.
        let read = unsafe { sys::fi_cq_read(self.cq, space.as_mut_ptr().cast(), space.len()) };
        if read > 0 {
            let count = read as usize;
            return (Read::Entries(count), &space[..count.min(space.len())]);
        }
        if read == 0 || read == -(sys::FI_EAGAIN as isize) {
            return (Read::Entries(0), &[]);
        }
        (self.read_error(read as i32), &[])
    }

    #[cold]
    fn read_error(&mut self, read: i32) -> Read {
        if -read != sys::FI_EAVAIL as i32 {
            return Read::Broken(-read);
        }
        // SAFETY: all zeros is a value of the plain struct; no space for error data is offered.
        let mut entry: sys::fi_cq_err_entry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open, the entry is writable.
        let got = unsafe { sys::fi_cq_readerr(self.cq, &raw mut entry, 0) };
        match got {
            1.. => Read::Failed(Failure {
                context: entry.op_context as usize,
                error: entry.err.wrapping_abs(),
            }),
            0 => Read::Entries(0),
            error if error == -(sys::FI_EAGAIN as isize) => Read::Entries(0),
            error => Read::Broken(-(error as i32)),
        }
    }

    /// Whether the endpoint was closed.
    #[inline]
    pub(crate) const fn is_closed(&self) -> bool {
        self.ep.is_null()
    }

    /// Closes the endpoint: operations end without completions and no buffer is touched any more.
    ///
    /// The queue of `ofi_rxm` is emptied first. From 1.17 to 2.4 that closes a connection and then
    /// deals with what has arrived by it, for which it posts a receive on the closed connection and
    /// follows a null pointer. What arrives between the two calls here can still lead there. Other
    /// queues are left alone: what is behind that of `shm` may be gone already.
    ///
    /// Returns whether it is closed: libfabric refuses where something still stands on it.
    pub(crate) fn close_endpoint(&mut self) -> bool {
        if self.ep.is_null() {
            return true;
        }
        // Before the endpoint is enabled, a poll of its queue follows a null pointer, too.
        if self.enabled && self.traits.provider.split(';').any(|layer| layer == "ofi_rxm") {
            for _ in 0..DRAINS {
                let mut space = [const { MaybeUninit::<Entry>::uninit() }; 32];
                if let (Read::Entries(0) | Read::Broken(_), _) = self.read(&mut space) {
                    break;
                }
            }
        }
        let closed = close("endpoint", self.ep.cast());
        if closed {
            self.ep = ptr::null_mut();
        }
        closed
    }
}

/// Returns whether the object is closed.
fn close(what: &str, object: *mut sys::fid) -> bool {
    if object.is_null() {
        return true;
    }
    // SAFETY: an object that `open` opened and that is closed here once, after those that stand
    // on it.
    let error = unsafe { sys::fi_close(object) };
    if error != 0 {
        tracing::warn!("libfabric: closing the {what}: {}", sys::error_text(error));
    }
    error == 0
}

impl Drop for Net {
    fn drop(&mut self) {
        self.close_endpoint();
        close("completion queue", self.cq.cast());
        close("address vector", self.av.cast());
        close("domain", self.domain.cast());
        close("fabric", self.fabric.cast());
    }
}
