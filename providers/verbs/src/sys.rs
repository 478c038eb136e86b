//! The thin layer over libibverbs: everything here that is `unsafe`, and nothing that decides.
//!
//! Objects own what they were made from, requests are built from slices, and keys of registered
//! memory are checked by the device, so the rest of the crate can only make mistakes that come
//! back as errors. The exception is [`Mr::new`], which is `unsafe`: the memory behind it must
//! outlive it.

mod device;
pub(crate) mod ffi;
mod load;
mod object;
mod pair;
mod queue;

pub(crate) use device::{Access, Context, Memory, Mr, Pd, device_names};
pub(crate) use ffi::{Sge, Wc};
pub(crate) use pair::{Ah, Bytes, Connection, PairSizes, Qp, Request, Route, Work};
pub(crate) use queue::{Cq, RECEIVE_BATCH, Srq};

/// What a completion's status means, in the library's words.
pub(crate) fn status_text(status: u32) -> String {
    // SAFETY: the function takes any number and returns a string that is never freed.
    let text = unsafe { std::ffi::CStr::from_ptr((load::loaded().wc_status_str)(status)) };
    text.to_string_lossy().into_owned()
}
