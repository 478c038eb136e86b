//! Operations on the memory of a peer, which takes no part in them.

use bowline_base::view::View;

use crate::AmHeader;
use crate::atomic::{AtomicOp, AtomicWidth};
use crate::error::PostError;
use crate::ids::{EpId, Posted, RemoteSlice, Token};
use crate::sink::AmId;
use crate::slice::LocalSlice;

/// Puts, gets and atomics. Each flavour has a bit in [`Caps`](crate::Caps), and limits.
///
/// What is posted is answered and made visible as [`Iface`](crate::Iface) says, whose promises on slices hold
/// here, too.
pub trait OneSided {
    /// Writes `bytes` to the peer's memory, copied in the call. It is complete locally on
    /// return; `flush` says when it is visible.
    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError>;

    /// Writes at most `max_len` bytes that `pack` provides.
    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError>;

    /// Writes from where the bytes lie.
    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError>;

    /// Writes `bytes` and lets the target's sink see an active message `id` with `header` after
    /// they are visible.
    fn put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError>;

    /// Reads `len` bytes from the peer's memory and hands them to `unpack`, in the call or, with
    /// [`Posted::InFlight`], never: a transport that cannot read in the call lacks this flavour.
    fn get_bcopy(
        &mut self,
        ep: EpId,
        from: RemoteSlice,
        len: usize,
        unpack: &mut dyn FnMut(View<'_>),
    ) -> Result<(), PostError>;

    /// Reads to where the bytes belong.
    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError>;

    /// An atomic operation, whose old value is `Ok(Some(old))` when complete in the call, else the result of the
    /// completion of `token`. [`Token::NONE`] asks for no old value: nothing is completed, and what is answered means
    /// nothing.
    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError>;
}
