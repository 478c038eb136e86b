//! Progress in a signal handler that has interrupted the thread of an interface. See [`SignalSafe::progress_signal_safe`](SignalSafe::progress_signal_safe).
//!
//! It may do much less than `progress`: what it interrupted may be the allocator, a lock's owner
//! or the formatting of a log line. So the layer above is *offered* each message, and what it cannot
//! take without one of these stays where it is, for the next call of `progress`.
//!
//! ```text
//!   ordinary call      prepare ──────────────────────────────────────────────► unprepare
//!   signal handler        └─► progress_signal_safe: offer (a message that lies with the peer)
//!                              └─► rkey_unpack_signal_safe ─► get_prepared
//!                                   └─► progress_signal_safe: offer_completion ─► am_short
//! ```

use crate::error::{PeerFailure, PostError};
use crate::ids::{EpId, MemHandle, Posted, PreparedId, RemoteSlice, RkeyId, Token};
use crate::md::MemError;
use crate::sink::Arrival;
use crate::slice::LocalSlice;

/// The layer above, as a transport sees it in a signal handler. What it does not take is offered again, by the
/// next handler, or given to the [`Sink`](crate::Sink) by the next `progress`.
pub trait SignalSink {
    /// Whether the layer above has taken the message. Where it has not, the transport stops reading
    /// from this sender, so that the order of its messages stays.
    fn offer(&mut self, arrival: &Arrival<'_>) -> bool;

    /// The operation posted with `token` is complete; whether the layer above has taken note.
    fn offer_completion(&mut self, token: Token, result: Result<u64, PeerFailure>) -> bool;
}

/// Progress in a signal handler; with [`Caps::SIGNAL_SAFE`](crate::Caps::SIGNAL_SAFE). What is prepared, and gets into
/// that, with [`Caps::GET_PREPARED`](crate::Caps::GET_PREPARED); loans with [`Caps::LENT_ONLY`](crate::Caps::LENT_ONLY).
///
/// A method that keeps to *the rule* does not allocate or free, takes no lock that the interrupted code may hold, and
/// writes nothing to a log.
pub trait SignalSafe {
    /// Progress in a signal handler that has interrupted the interface's thread outside of all its
    /// methods, as far as that goes by the rule: hands out messages that the sink takes and completions, at most
    /// `budget`; returns how many. Everything else is left to `progress`. Between two such calls, within the same
    /// handler, `mem_view`, and on endpoints that [may be posted to](Self::can_post_signal_safe) `am_short` and
    /// `want_writable`, keep to the rule, and so does `get_zcopy` without [`Caps::GET_PREPARED`](crate::Caps::GET_PREPARED).
    fn progress_signal_safe(&mut self, sink: &mut dyn SignalSink, budget: u32) -> u32;

    /// Whether posts to `ep` keep to the rule now. Asking does.
    fn can_post_signal_safe(&self, ep: EpId) -> bool;

    /// Makes ready what gets into `bytes`, or a part of them, take of this side in a signal handler, until
    /// [`unprepare`](Self::unprepare). To be called by ordinary calls. Nothing is lent: the bytes are neither read nor
    /// written, and may be unmapped, as long as nothing is posted by what was prepared.
    ///
    /// # Errors
    /// When the system refuses or the interface has no such gets.
    fn prepare(&mut self, bytes: LocalSlice) -> Result<PreparedId, MemError>;

    /// Ends what [`prepare`](Self::prepare) began. To be called by ordinary calls, and not before the gets by it are
    /// complete.
    fn unprepare(&mut self, prepared: PreparedId);

    /// Opens a key as [`rkey_unpack`](crate::MemoryDomain::rkey_unpack) does, but by the rule. There is space for one key
    /// at least for each piece of memory that is prepared and by which no key was opened; without it, and where the
    /// other would err, `None`.
    fn rkey_unpack_signal_safe(&mut self, ep: EpId, packed: &[u8]) -> Option<RkeyId>;

    /// Reads to where the bytes belong, which were `prepared`, by the rule; see
    /// [`get_zcopy`](crate::OneSided::get_zcopy). [`PostError::NoResource`] also where an ordinary call has to do it.
    ///
    /// # Errors
    /// As those of `get_zcopy`; [`PostError::BadArgument`] where not all of `to` was prepared.
    fn get_prepared(
        &mut self,
        ep: EpId,
        prepared: PreparedId,
        to: LocalSlice,
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError>;

    /// Lends `bytes` as [`mem_lend`](crate::MemoryDomain::mem_lend) does, but by the rule, with
    /// [`Caps::LENT_ONLY`](crate::Caps::LENT_ONLY). To be released by an ordinary call. `None` where other loans of handlers have
    /// taken the space that there is, or somebody is at the lock.
    fn lend_signal_safe(&mut self, bytes: LocalSlice) -> Option<MemHandle>;
}
