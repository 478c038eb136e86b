//! Posting of operations; what is posted comes back through `Net::read`.

use std::ffi::c_void;
use std::ptr;

use libfabric_sys as sys;

use super::{MAX_PIECES, Net, Piece, Place, Refused, Remote};
use crate::shortage::is_shortage;

#[inline]
fn posted(result: isize) -> Result<(), Refused> {
    if result == 0 {
        return Ok(());
    }
    let error = -(result as i32);
    Err(if error == sys::FI_EAGAIN { Refused::Again } else { refusal(error) })
}

/// A first message to a peer makes a connection; that there is no descriptor for it says nothing of the
/// peer.
#[cold]
fn refusal(error: i32) -> Refused {
    if !is_shortage(&std::io::Error::from_raw_os_error(error)) {
        return Refused::Failed(error);
    }
    tracing::debug!("libfabric cannot send yet: {}", sys::error_text(error));
    Refused::Again
}

fn split(pieces: &[Piece]) -> ([libc::iovec; MAX_PIECES], [*mut c_void; MAX_PIECES]) {
    let mut iov = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_PIECES];
    let mut descs = [ptr::null_mut(); MAX_PIECES];
    assert!(pieces.len() <= MAX_PIECES, "callers check the number of pieces");
    for (index, piece) in pieces.iter().enumerate() {
        iov[index] = libc::iovec { iov_base: piece.start.cast(), iov_len: piece.len };
        descs[index] = piece.desc;
    }
    (iov, descs)
}

impl Net {
    /// Refuses what is posted after [`close_endpoint`](Self::close_endpoint).
    #[inline]
    fn check_open(&self) -> Result<(), Refused> {
        if self.is_closed() { Err(Refused::Failed(libc::ESHUTDOWN)) } else { Ok(()) }
    }

    /// Posts a receive buffer.
    ///
    /// # Safety
    /// `piece` stays writable, and nobody else touches it, until its completion has been read or
    /// the endpoint is closed.
    #[inline]
    pub(crate) unsafe fn receive(&mut self, piece: Piece, context: usize) -> Result<(), Refused> {
        self.check_open()?;
        // SAFETY: the endpoint is open; the buffer is the caller's promise.
        posted(unsafe {
            sys::fi_recv(
                self.ep,
                piece.start.cast(),
                piece.len,
                piece.desc,
                sys::FI_ADDR_UNSPEC,
                context as *mut c_void,
            )
        })
    }

    /// Sends bytes that are copied in the call; at most `traits.inject`.
    ///
    /// # Safety
    /// `bytes .. bytes + len` is initialised, and nobody writes it during the call.
    #[inline]
    pub(crate) unsafe fn inject(
        &mut self,
        to: Place,
        bytes: *const u8,
        len: usize,
    ) -> Result<(), Refused> {
        debug_assert!(len <= self.traits.inject);
        self.check_open()?;
        // SAFETY: the endpoint is open; the bytes are the caller's promise.
        posted(unsafe { sys::fi_inject(self.ep, bytes.cast(), len, to) })
    }

    /// Sends a buffer.
    ///
    /// # Safety
    /// `piece` stays readable and unwritten until its completion has been read or the endpoint is
    /// closed.
    #[inline]
    pub(crate) unsafe fn send(
        &mut self,
        to: Place,
        piece: Piece,
        context: usize,
    ) -> Result<(), Refused> {
        self.check_open()?;
        // SAFETY: the endpoint is open; the buffer is the caller's promise.
        posted(unsafe {
            sys::fi_send(
                self.ep,
                piece.start.cast(),
                piece.len,
                piece.desc,
                to,
                context as *mut c_void,
            )
        })
    }

    /// Sends several pieces as one message.
    ///
    /// # Safety
    /// As for [`send`](Self::send), for every piece.
    pub(crate) unsafe fn send_pieces(
        &mut self,
        to: Place,
        pieces: &[Piece],
        context: usize,
    ) -> Result<(), Refused> {
        self.check_open()?;
        let (mut iov, mut descs) = split(pieces);
        // SAFETY: all zeros is a value of the plain struct.
        let mut message: sys::fi_msg = unsafe { std::mem::zeroed() };
        message.msg_iov = iov.as_mut_ptr();
        message.desc = descs.as_mut_ptr();
        message.iov_count = pieces.len();
        message.addr = to;
        message.context = context as *mut c_void;
        // SAFETY: the endpoint is open; pieces are the caller's promise; the lists live through
        // the call.
        posted(unsafe { sys::fi_sendmsg(self.ep, &raw const message, sys::FI_COMPLETION) })
    }

    /// Writes pieces to a peer's memory, or reads them from there.
    ///
    /// # Safety
    /// Pieces stay valid, unwritten for a write and untouched for a read, until the completion has
    /// been read or the endpoint is closed.
    pub(crate) unsafe fn access(
        &mut self,
        write: bool,
        remote: Remote,
        pieces: &[Piece],
        context: usize,
    ) -> Result<(), Refused> {
        self.check_open()?;
        let (mut iov, mut descs) = split(pieces);
        let len = pieces.iter().map(|piece| piece.len).sum();
        let there = sys::fi_rma_iov { addr: remote.address, len, key: remote.key };
        // SAFETY: all zeros is a value of the plain struct.
        let mut message: sys::fi_msg_rma = unsafe { std::mem::zeroed() };
        message.msg_iov = iov.as_mut_ptr();
        message.desc = descs.as_mut_ptr();
        message.iov_count = pieces.len();
        message.addr = remote.place;
        message.rma_iov = &raw const there;
        message.rma_iov_count = 1;
        message.context = context as *mut c_void;
        // SAFETY: as in `send_pieces`.
        posted(unsafe {
            if write {
                let flags = sys::FI_COMPLETION | sys::FI_DELIVERY_COMPLETE;
                sys::fi_writemsg(self.ep, &raw const message, flags)
            } else {
                sys::fi_readmsg(self.ep, &raw const message, sys::FI_COMPLETION)
            }
        })
    }

    /// An atomic operation: `operand`, and for some `compare` and `result`, are one word each.
    ///
    /// # Safety
    /// The words stay valid and untouched until the completion has been read or the endpoint is
    /// closed.
    pub(crate) unsafe fn atomic(
        &mut self,
        remote: Remote,
        (kind, op): (sys::fi_datatype, sys::fi_op),
        [operand, compare, result]: [Option<Piece>; 3],
        context: usize,
    ) -> Result<(), Refused> {
        self.check_open()?;
        let word = |piece: Option<Piece>| {
            let (start, desc) =
                piece.map_or((ptr::null_mut(), ptr::null_mut()), |piece| (piece.start, piece.desc));
            (sys::fi_ioc { addr: start.cast(), count: 1 }, [desc])
        };
        let there = sys::fi_rma_ioc { addr: remote.address, count: 1, key: remote.key };
        let (operand_ioc, mut operand_desc) = word(operand);
        let (compare_ioc, mut compare_desc) = word(compare);
        let (mut result_ioc, mut result_desc) = word(result);
        // SAFETY: all zeros is a value of the plain struct.
        let mut message: sys::fi_msg_atomic = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw const operand_ioc;
        message.desc = operand_desc.as_mut_ptr();
        message.iov_count = 1;
        message.addr = remote.place;
        message.rma_iov = &raw const there;
        message.rma_iov_count = 1;
        message.datatype = kind;
        message.op = op;
        message.context = context as *mut c_void;
        let results = &raw mut result_ioc;
        let descs = result_desc.as_mut_ptr();
        // SAFETY: as in `send_pieces`; every list has one entry and lives through the call.
        posted(unsafe {
            if compare.is_some() {
                sys::fi_compare_atomicmsg(
                    self.ep,
                    &raw const message,
                    &raw const compare_ioc,
                    compare_desc.as_mut_ptr(),
                    1,
                    results,
                    descs,
                    1,
                    sys::FI_COMPLETION,
                )
            } else if result.is_some() {
                let flags = sys::FI_COMPLETION;
                sys::fi_fetch_atomicmsg(self.ep, &raw const message, results, descs, 1, flags)
            } else {
                let flags = sys::FI_COMPLETION | sys::FI_DELIVERY_COMPLETE;
                sys::fi_atomicmsg(self.ep, &raw const message, flags)
            }
        })
    }
}
