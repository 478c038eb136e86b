//! The functions that libfabric defines in its headers: each goes through a table of the object
//! it is given.
//!
//! They check nothing. A table without the entry answers `-FI_ENOSYS`, as libfabric's own macros
//! do where they check.
//!
//! # Safety
//!
//! The same holds for all of them. Objects were opened by libfabric and are not closed yet, and
//! are used as their threading model permits. Attributes, messages and buffers are valid for the
//! call; buffers of an operation that is under way (everything but the injecting calls) stay valid
//! and, where they are received into or read into, untouched, until its completion has been read
//! or its endpoint is closed.

use std::ffi::{c_char, c_int, c_void};

use crate::bindings::*;

/// Calls an entry of a table, or answers that there is none.
macro_rules! call {
    ($table:expr, $entry:ident($($argument:expr),*)) => {{
        // SAFETY: the caller's objects are open, so their tables are valid; the arguments are the
        // caller's promise.
        unsafe {
            match (*$table).$entry {
                Some(entry) => entry($($argument),*),
                None => -(FI_ENOSYS as i32) as _,
            }
        }
    }};
}

/// Declares functions with one line of documentation each; the safety section is the module's.
macro_rules! calls {
    ($(
        $(#[doc = $doc:literal])+
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $body:expr;
    )*) => {
        $(
            $(#[doc = $doc])+
            ///
            /// # Safety
            /// See the module.
            #[inline]
            #[allow(clippy::too_many_arguments, reason = "as many as in C")]
            pub unsafe fn $name($($argument: $type),*) -> $result {
                $body
            }
        )*
    };
}

calls! {
    /// An empty `fi_info` with all of its attributes.
    fn fi_allocinfo() -> *mut fi_info = {
        // SAFETY: null asks for a new one.
        unsafe { fi_dupinfo(std::ptr::null()) }
    };
    /// Closes any object.
    fn fi_close(object: *mut fid) -> c_int = call!((*object).ops, close(object));
    /// A command to any object.
    fn fi_control(object: *mut fid, command: c_int, argument: *mut c_void) -> c_int =
        call!((*object).ops, control(object, command, argument));
    /// Brings an object of the caller's into one of libfabric's.
    fn fi_import_fid(object: *mut fid, imported: *mut fid, flags: u64) -> c_int =
        call!((*object).ops, bind(object, imported, flags));

    /// Opens a domain.
    fn fi_domain(fabric: *mut fid_fabric, info: *mut fi_info, domain: *mut *mut fid_domain,
        context: *mut c_void) -> c_int =
        call!((*fabric).ops, domain(fabric, info, domain, context));
    /// Whether one may sleep on the wait objects of `objects`.
    fn fi_trywait(fabric: *mut fid_fabric, objects: *mut *mut fid, count: c_int) -> c_int =
        call!((*fabric).ops, trywait(fabric, objects, count));
    /// Opens a completion queue.
    fn fi_cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq,
        context: *mut c_void) -> c_int =
        call!((*domain).ops, cq_open(domain, attr, cq, context));
    /// Opens an address vector.
    fn fi_av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av,
        context: *mut c_void) -> c_int =
        call!((*domain).ops, av_open(domain, attr, av, context));
    /// Opens an endpoint.
    fn fi_endpoint(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep,
        context: *mut c_void) -> c_int =
        call!((*domain).ops, endpoint(domain, info, ep, context));
    /// Binds an endpoint to another object.
    fn fi_ep_bind(ep: *mut fid_ep, object: *mut fid, flags: u64) -> c_int =
        call!((*ep).fid.ops, bind(&raw mut (*ep).fid, object, flags));
    /// Enables an endpoint.
    fn fi_enable(ep: *mut fid_ep) -> c_int =
        call!((*ep).fid.ops, control(&raw mut (*ep).fid, FI_ENABLE as c_int, std::ptr::null_mut()));
    /// Asks for the end of an operation by its context.
    fn fi_cancel(ep: *mut fid_ep, context: *mut c_void) -> isize =
        call!((*ep).ops, cancel(&raw mut (*ep).fid, context));
    /// The address of an endpoint.
    fn fi_getname(object: *mut fid, address: *mut c_void, len: *mut usize) -> c_int =
        call!((*object.cast::<fid_ep>()).cm, getname(object, address, len));

    /// Inserts addresses.
    fn fi_av_insert(av: *mut fid_av, addresses: *const c_void, count: usize, out: *mut fi_addr_t,
        flags: u64, context: *mut c_void) -> c_int =
        call!((*av).ops, insert(av, addresses, count, out, flags, context));
    /// Removes addresses.
    fn fi_av_remove(av: *mut fid_av, addresses: *mut fi_addr_t, count: usize, flags: u64) -> c_int =
        call!((*av).ops, remove(av, addresses, count, flags));

    /// Registers memory.
    fn fi_mr_regattr(domain: *mut fid_domain, attr: *const fi_mr_attr, flags: u64,
        mr: *mut *mut fid_mr) -> c_int =
        call!((*domain).mr, regattr(&raw mut (*domain).fid, attr, flags, mr));
    /// Binds memory to an endpoint.
    fn fi_mr_bind(mr: *mut fid_mr, object: *mut fid, flags: u64) -> c_int =
        call!((*mr).fid.ops, bind(&raw mut (*mr).fid, object, flags));
    /// Enables memory.
    fn fi_mr_enable(mr: *mut fid_mr) -> c_int =
        call!((*mr).fid.ops, control(&raw mut (*mr).fid, FI_ENABLE as c_int, std::ptr::null_mut()));

    /// Reads completions.
    fn fi_cq_read(cq: *mut fid_cq, entries: *mut c_void, count: usize) -> isize =
        call!((*cq).ops, read(cq, entries, count));
    /// Reads the error at the head of a completion queue.
    fn fi_cq_readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry, flags: u64) -> isize =
        call!((*cq).ops, readerr(cq, entry, flags));

    /// Posts a receive.
    fn fi_recv(ep: *mut fid_ep, buffer: *mut c_void, len: usize, desc: *mut c_void,
        from: fi_addr_t, context: *mut c_void) -> isize =
        call!((*ep).msg, recv(ep, buffer, len, desc, from, context));
    /// Posts a send.
    fn fi_send(ep: *mut fid_ep, buffer: *const c_void, len: usize, desc: *mut c_void,
        to: fi_addr_t, context: *mut c_void) -> isize =
        call!((*ep).msg, send(ep, buffer, len, desc, to, context));
    /// Posts a send in pieces, with flags.
    fn fi_sendmsg(ep: *mut fid_ep, message: *const fi_msg, flags: u64) -> isize =
        call!((*ep).msg, sendmsg(ep, message, flags));
    /// Sends what is copied in the call, with no completion.
    fn fi_inject(ep: *mut fid_ep, buffer: *const c_void, len: usize, to: fi_addr_t) -> isize =
        call!((*ep).msg, inject(ep, buffer, len, to));

    /// Posts a write to a peer's memory.
    fn fi_writemsg(ep: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> isize =
        call!((*ep).rma, writemsg(ep, message, flags));
    /// Posts a read of a peer's memory.
    fn fi_readmsg(ep: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> isize =
        call!((*ep).rma, readmsg(ep, message, flags));

    /// Posts an atomic operation without a result.
    fn fi_atomicmsg(ep: *mut fid_ep, message: *const fi_msg_atomic, flags: u64) -> isize =
        call!((*ep).atomic, writemsg(ep, message, flags));
    /// Posts an atomic operation that returns the old value.
    fn fi_fetch_atomicmsg(ep: *mut fid_ep, message: *const fi_msg_atomic, results: *mut fi_ioc,
        descs: *mut *mut c_void, count: usize, flags: u64) -> isize =
        call!((*ep).atomic, readwritemsg(ep, message, results, descs, count, flags));
    /// Posts an atomic operation that compares and returns the old value.
    fn fi_compare_atomicmsg(ep: *mut fid_ep, message: *const fi_msg_atomic,
        compares: *const fi_ioc, compare_descs: *mut *mut c_void, compare_count: usize,
        results: *mut fi_ioc, descs: *mut *mut c_void, count: usize, flags: u64) -> isize =
        call!((*ep).atomic, compwritemsg(ep, message, compares, compare_descs, compare_count,
            results, descs, count, flags));
    /// Whether an atomic operation without a result exists, and for how many words at once.
    fn fi_atomicvalid(ep: *mut fid_ep, kind: fi_datatype, op: fi_op, count: *mut usize) -> c_int =
        call!((*ep).atomic, writevalid(ep, kind, op, count));
    /// Whether an atomic operation with a result exists.
    fn fi_fetch_atomicvalid(ep: *mut fid_ep, kind: fi_datatype, op: fi_op, count: *mut usize)
        -> c_int = call!((*ep).atomic, readwritevalid(ep, kind, op, count));
    /// Whether an atomic operation that compares exists.
    fn fi_compare_atomicvalid(ep: *mut fid_ep, kind: fi_datatype, op: fi_op, count: *mut usize)
        -> c_int = call!((*ep).atomic, compwritevalid(ep, kind, op, count));
}

/// The text of an error number of libfabric.
pub fn error_text(error: c_int) -> String {
    // SAFETY: takes a number; gives a string that is never freed.
    let text: *const c_char = unsafe { fi_strerror(error.wrapping_abs()) };
    if text.is_null() {
        return format!("error {error}");
    }
    // SAFETY: not null, so a string that ends with a zero and lives for ever.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
