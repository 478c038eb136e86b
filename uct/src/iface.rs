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
//! **Parts.** Each transport has messages: that is [`Iface`] itself. What it may have beside them is a part of
//! its own:
//!
//! | part | what it is | whether an interface has it |
//! |---|---|---|
//! | [`MemoryDomain`] | memory that peers reach, and its keys | [`MdAttr`](crate::MdAttr) |
//! | [`OneSided`] | puts, gets, atomics | a bit for each flavour |
//! | [`Wakeup`] | sleep until something arrives | `WAKEUP`, `EVENT_FD` |
//! | [`SignalSafe`] | progress in a signal handler, and gets there | `SIGNAL_SAFE`, `GET_PREPARED` |
//!
//! A part that an interface lacks answers so, operations with [`PostError::Unsupported`]. No method has a
//! default: [`lacks!`](crate::lacks!) and [`forward!`](crate::forward!) write those of a part that is
//! missing, or that an interface below has, from a list of their names.

use bowline_base::view::View;

use crate::AmHeader;
use crate::caps::IfaceAttr;
use crate::error::{OpenError, PostError, Unreachable};
use crate::ids::{EpId, Posted, Source, Token};
use crate::md::MemoryDomain;
use crate::one_sided::OneSided;
use crate::signal_sink::SignalSafe;
use crate::sink::{AmId, Sink};
use crate::slice::LocalSlice;
use crate::wakeup::Wakeup;

/// A transport's interface. See the module's text for the rules.
///
/// # Safety
/// A caller that posts gives memory by [`LocalSlice`], and takes it back at the word of the implementation. So (1) a
/// completion, or an answer that says that an operation is done, comes only when nothing here, nor any
/// device or peer that the operation was handed to, will read or write the slices of it any more; (2) the
/// same holds for memory when its lending or exposure has ended; (3) and for all of it once the
/// implementation has been dropped.
pub unsafe trait Iface: MemoryDomain + OneSided + Wakeup + SignalSafe + Send {
    /// Capabilities and limits; constant during the interface's life.
    fn attr(&self) -> &IfaceAttr;

    /// The address under which peers connect, valid until the interface is dropped.
    fn address(&self) -> Vec<u8>;

    /// Whether `address` can be connected to, or the reason why not. May do system calls.
    ///
    /// It is asked when a transport for messages is searched for. So it may say no to the interface's own
    /// address although `connect` takes that, for operations of the device on the own memory.
    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable>;

    /// The routes to `address` that the transport has to choose from, each in a line for people that
    /// says whether it is taken, and why. Empty where there is nothing to choose.
    fn explain(&self, address: &[u8]) -> Vec<String>;

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
    /// this is asked again: no event reports the last of it. If the interface is dropped before, it is
    /// brought out for a short time only, in which a peer that is busy elsewhere may take nothing.
    fn all_sent(&mut self) -> bool;

    /// Sends header and payload, copied in the call.
    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError>;

    /// Sends header and at most `max_len` bytes that `pack` writes into the transport's buffer, of which it is given so many,
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
    ) -> Result<Posted, PostError>;

    /// Completes when everything posted to `ep` before is visible in the target's memory. Active
    /// messages are visible in no memory: a transport may wait until they have left, or not.
    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError>;

    /// Completes when everything posted on the interface before is visible at its targets.
    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError>;

    /// What is posted after the fence becomes visible after what was posted before it, for each
    /// endpoint. Does not wait.
    fn fence(&mut self) -> Result<(), PostError>;

    /// Asks for one `Sink::writable(ep)` when `ep` may take operations again. Endpoints that
    /// asked are reported in the order of asking, round after round, so that none starves.
    fn want_writable(&mut self, ep: EpId);

    /// Makes progress: at most `budget` events go to `sink`. Returns how many did.
    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32;

    /// Whether the peer of `ep` is alive, asked now. If not, what it has sent still arrives, and `Sink::failed`
    /// says behind that how it has ended; the same holds of a post that the peer's failure refuses.
    fn check(&mut self, ep: EpId) -> Result<(), PostError>;

    /// Makes an endpoint fail as if its peer had, to test what lies above.
    fn invalidate(&mut self, ep: EpId);
}
