//! The interface of a transport: endpoints by number, operations as its methods.
//!
//! ```text
//!   connect ─► EpId ── am/put/get/atomic ─► Posted::Done | Posted::InFlight ─► Sink::completed
//!                                        └► NoResource ─ want_writable ─► Sink::writable
//! ```
//!
//! **Order.** Where [`Caps::AM_ORDERED`](crate::Caps::AM_ORDERED) is set, active messages to one
//! endpoint arrive as posted, whatever their flavour. After `NoResource` on an endpoint a later
//! operation may succeed while an earlier one waits: a caller that wants order queues behind the
//! refused one, which is what ucp does.
//!
//! **Operations that a transport lacks** answer [`PostError::Unsupported`], which is what their
//! methods do unless a transport has its own. An interface that stands on another one forwards each
//! of them, or takes away what the other has.

use std::os::fd::BorrowedFd;

use bowline_base::doorbell::Doorbell;
use bowline_base::view::View;

use crate::AmHeader;
use crate::atomic::{AtomicOp, AtomicWidth};
use crate::caps::{IfaceAttr, OpLimits};
use crate::error::{OpenError, PostError, Unreachable};
use crate::md::{MemoryDomain, RkeyId};
use crate::sink::{AmId, Desc, Sink};
use crate::slice::LocalSlice;
use crate::tag::TagMatch;
use crate::turn::TurnSink;

/// An endpoint of an interface: small, dense, used again after `disconnect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpId(pub u32);

/// A sender as the receiving interface numbers it: small, dense, stable while it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(pub u32);

/// Chosen by the caller of an operation and returned by its completion. [`Token::NONE`] asks for
/// no completion; if local slices are in flight then, their memory is free when the interface is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// No completion wanted.
    pub const NONE: Self = Self(0);
}

/// How far a posted operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Posted {
    /// Complete in the call; there will be no completion event.
    Done,
    /// Under way; `Sink::completed` will report its token.
    InFlight,
}

/// A place in a peer's memory: the address as the peer knows it, and the key that opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSlice {
    /// Address in the peer's address space.
    pub address: u64,
    /// Key unpacked on this interface.
    pub rkey: RkeyId,
}

/// Answer of `arm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Armed {
    /// Anything that arrives from now on rings; one may sleep.
    Ready,
    /// Something is there already: progress first.
    Busy,
}

/// A transport's interface. See the module's text for the rules.
///
/// # Safety
/// Whoever posts gives memory by [`LocalSlice`], and takes it back at the word of the implementation. So (1) a
/// completion, or an answer that says that an operation is done, comes only when nothing here, nor any
/// device or peer that the operation was handed to, will read or write the slices of it any more; (2) the
/// same holds for memory when its lending or exposure has ended; (3) and for all of it once the
/// implementation has been dropped.
pub unsafe trait Iface: MemoryDomain + Send {
    /// Capabilities and limits; constant during the interface's life.
    fn attr(&self) -> &IfaceAttr;

    /// The address under which peers connect, valid until the interface is dropped.
    fn address(&self) -> Vec<u8>;

    /// Whether `address` can be connected to, or the reason why not. May do system calls.
    ///
    /// It is asked when a way for messages is looked for. So it may say no to the interface's own
    /// address although `connect` takes that, for operations of the device on the own memory.
    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable>;

    /// The ways to `address` that the transport has to choose from, each in a line for people that
    /// says whether it is taken, and why. Empty where there is nothing to choose.
    fn explain(&self, address: &[u8]) -> Vec<String> {
        let _ = address;
        Vec::new()
    }

    /// Makes an endpoint. Two calls with one address may return the same endpoint.
    ///
    /// # Errors
    /// When the peer cannot be reached, its address is damaged, or a resource runs out.
    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError>;

    /// The number under which messages of the peer with this address arrive, where the transport
    /// knows it without hearing from the peer.
    fn source_of(&self, address: &[u8]) -> Option<Source>;

    /// Closes an endpoint. Operations that were complete locally still arrive.
    fn disconnect(&mut self, ep: EpId);

    /// Whether everything that was accepted is out of the interface's hands, so that dropping it now
    /// loses nothing; a peer that has failed does not count. Meanwhile `progress` brings it out, and
    /// this is asked again: no event tells of the last of it. Who drops the interface before, has it
    /// brought out for a short time only, in which a peer that is busy elsewhere may take nothing.
    ///
    /// Where whatever is accepted is done in the call, there is nothing to implement.
    fn all_sent(&mut self) -> bool {
        true
    }

    /// Sends header and payload, copied in the call.
    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError>;

    /// Sends header and at most `max_len` bytes that `pack` writes into the transport's buffer,
    /// returning how many. Nothing is packed when the call fails. Returns the packed length.
    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError>;

    /// Sends header and payload from where it lies.
    fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let _ = (ep, id, header, payload, token);
        Err(PostError::Unsupported)
    }

    /// Writes `bytes` to the peer's memory, copied in the call. It is complete locally on
    /// return; `flush` says when it is visible.
    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        let _ = (ep, bytes, to);
        Err(PostError::Unsupported)
    }

    /// Writes at most `max_len` bytes that `pack` provides.
    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        let _ = (ep, max_len, pack, to);
        Err(PostError::Unsupported)
    }

    /// Writes from where the bytes lie.
    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        let _ = (ep, from, to, token);
        Err(PostError::Unsupported)
    }

    /// Writes `bytes` and lets the target's sink see an active message `id` with `header` after
    /// they are visible.
    fn put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError> {
        let _ = (ep, bytes, to, id, header);
        Err(PostError::Unsupported)
    }

    /// Reads `len` bytes from the peer's memory and hands them to `unpack`, in the call or, with
    /// [`Posted::InFlight`], never: a transport that cannot read in the call lacks this flavour.
    fn get_bcopy(
        &mut self,
        ep: EpId,
        from: RemoteSlice,
        len: usize,
        unpack: &mut dyn FnMut(View<'_>),
    ) -> Result<(), PostError> {
        let _ = (ep, from, len, unpack);
        Err(PostError::Unsupported)
    }

    /// Reads to where the bytes belong.
    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        let _ = (ep, to, from, token);
        Err(PostError::Unsupported)
    }

    /// An atomic operation without result.
    fn atomic_post(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
    ) -> Result<(), PostError> {
        let _ = (ep, op, width, at);
        Err(PostError::Unsupported)
    }

    /// An atomic operation whose old value is `Ok(Some(old))` when complete in the call, else
    /// the result of the completion.
    fn atomic_fetch(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        let _ = (ep, op, width, at, token);
        Err(PostError::Unsupported)
    }

    /// Sends a tagged message from where it lies; see [`TagMatch`](crate::TagMatch) and its module
    /// for matching and order.
    fn tag_send(
        &mut self,
        ep: EpId,
        tag: u64,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let _ = (ep, tag, payload, token);
        Err(PostError::Unsupported)
    }

    /// Receives a tagged message of any peer to where it belongs. Its completion has the length
    /// of the message, or [`CUT`](crate::CUT) or [`WITHDRAWN`](crate::WITHDRAWN).
    fn tag_recv(
        &mut self,
        which: TagMatch,
        room: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let _ = (which, room, token);
        Err(PostError::Unsupported)
    }

    /// Withdraws the receive posted with `token`. It completes either way.
    fn tag_cancel(&mut self, token: Token) -> Result<(), PostError> {
        let _ = token;
        Err(PostError::Unsupported)
    }

    /// Sizes of tagged messages; all zero without [`Caps::TAG_OFFLOAD`](crate::Caps::TAG_OFFLOAD).
    fn tag_limits(&self) -> OpLimits {
        OpLimits::default()
    }

    /// Completes when everything posted to `ep` before is visible in the target's memory. Active
    /// messages are visible in no memory: a transport may wait until they have left, or not.
    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError>;

    /// Completes when everything posted on the interface before is visible at its targets.
    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError>;

    /// What is posted after the fence becomes visible after what was posted before it, for each
    /// endpoint. Does not wait.
    fn fence(&mut self) -> Result<(), PostError>;

    /// Asks for one `Sink::writable(ep)` when `ep` may take operations again. Endpoints that
    /// asked are told in the order of asking, round after round, so that none starves.
    fn want_writable(&mut self, ep: EpId);

    /// Makes progress: at most `budget` events go to `sink`. Returns how many did.
    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32;

    /// Progress in a signal handler that has interrupted the interface's thread outside of all its
    /// methods, as far as that goes without allocating or freeing, without a lock, and without a line
    /// in a log: hands out messages that the sink takes and completions, at most `budget`; returns how
    /// many. Everything else is left to `progress`. Between turns, within the same handler,
    /// `am_short`, `get_zcopy`, `mem_view` and `want_writable` keep to the same rule on endpoints
    /// that work. With [`Caps::TURN`](crate::Caps::TURN).
    fn turn(&mut self, sink: &mut dyn TurnSink, budget: u32) -> u32 {
        let _ = (sink, budget);
        0
    }

    /// Gives a kept descriptor back.
    fn release(&mut self, desc: Desc);

    /// The bytes of a kept descriptor (payload as in the arrival).
    fn desc_view(&self, desc: Desc) -> Option<View<'_>>;

    /// Whether the peer of `ep` is alive, asked now.
    fn check(&mut self, ep: EpId) -> Result<(), PostError>;

    /// Where peers ring when this interface's worker sleeps; `None` without wakeup.
    fn doorbell(&self) -> Option<&Doorbell>;

    /// Prepares for sleep on `doorbell`/`event_fd`: whatever arrives after [`Armed::Ready`] wakes.
    /// `descriptor` says whether the sleeper waits on the event descriptor, else on the doorbell.
    fn arm(&mut self, descriptor: bool) -> Armed;

    /// The sleeper is awake again.
    fn disarm(&mut self);

    /// A descriptor that becomes readable when an armed interface is rung.
    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError>;

    /// Makes an endpoint fail as if its peer had, to test what lies above.
    fn invalidate(&mut self, ep: EpId);
}
