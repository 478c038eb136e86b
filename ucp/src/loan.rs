//! Slices of users' buffers for the operations of transports: the only `unsafe` of this crate.
//!
//! A transport reads or writes a [`LocalSlice`] until it has reported the completion of the operation
//! that it was posted with, so the code that makes one promises to keep the buffer until then
//! ([`LocalSlice::of_send`]). The engine keeps that promise by where its buffers are, which no type
//! says. So this is the place to check when a path of the engine changes; a new call is added
//! here.
//!
//! Every buffer belongs to something that outlives what is posted from it:
//!
//! | buffer of | posted as | stays until |
//! |---|---|---|
//! | a send ([`crate::proto::eager`]) | `am_zcopy` | its state says that it is in flight: only the transport's report ends it, also when it is cancelled or its peer fails |
//! | a send ([`crate::send`]) | `mem_expose` | `finish` releases the memory before the request gives the buffer up |
//! | a send ([`crate::proto::put`]) | `put_zcopy` | `Put::in_flight` is zero: rule 3 there |
//! | a receive ([`crate::proto::get`]) | `get_zcopy` | `Fetch::in_flight` is zero: a failure of the peer leaves it alone before |
//! | a receive ([`crate::proto::get`]) that is watched | `prepare`, `get_prepared` | as for `get_zcopy`; preparing lends nothing |
//! | a receive ([`crate::proto::put`]) | `mem_lend` | the buffer is shut, which releases the memory first |
//! | a receive of a shared message ([`crate::proto::coop`]) | `mem_lend`, by handlers `lend_signal_safe` | `end_fetch` or `finish` releases the memory before the request gives the buffer up |
//! | either side of a shared message ([`crate::proto::coop`]) | `get_zcopy`, `put_zcopy` without a token | the call: they end in it on lanes without [`Caps::CARRIES`](bowline_uct::Caps::CARRIES), which alone share messages |
//! | a put or get ([`crate::one_sided`]) | `put_zcopy`, `get_zcopy` | `in_flight` is zero: rule 3 there |
//!
//! And when a worker is dropped, all its lanes are dropped before any request, since `Inner` declares
//! them first; a lane that stands on another one, and has buffers of its own, declares that one first
//! as well. What a *peer* may still write to then is leaked (`Drop` of `Inner`). Interfaces touch
//! nothing after their end, by the contract. Requests of a worker that is forgotten are forgotten with
//! it.
//!
//! Bytes that a transport may write are not read before: a receive gives its buffer to its user
//! when it is complete, and the engine itself reads none.
#![allow(unsafe_code)]

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_uct::LocalSlice;

#[inline]
pub(crate) fn of_send(buffer: &SendBuf, offset: usize, len: usize) -> Option<LocalSlice> {
    // SAFETY: the module's table says for each caller how long the buffer stays. Sends are only given to
    // operations that read, as its second column shows.
    unsafe { LocalSlice::of_send(buffer, offset, len) }
}

#[inline]
pub(crate) fn of_recv(buffer: &mut RecvBuf, offset: usize, len: usize) -> Option<LocalSlice> {
    // SAFETY: the module's table says for each caller how long the buffer stays, and nobody reads its
    // bytes before.
    unsafe { LocalSlice::of_recv(buffer, offset, len) }
}

#[inline]
pub(crate) fn runs_of_send(
    buffer: &SendBuf,
    offset: usize,
    max: usize,
    out: &mut [LocalSlice],
) -> (usize, usize) {
    // SAFETY: as in `of_send`.
    unsafe { LocalSlice::runs_of_send(buffer, offset, max, out) }
}

#[inline]
pub(crate) fn runs_of_recv(
    buffer: &mut RecvBuf,
    offset: usize,
    max: usize,
    out: &mut [LocalSlice],
) -> (usize, usize) {
    // SAFETY: as in `of_recv`.
    unsafe { LocalSlice::runs_of_recv(buffer, offset, max, out) }
}
