//! What a protocol does: the life that each of them has. `table` is that by which a worker finds it.
//!
//! ```text
//!               receiver                                          sender
//!   a choice by cost: price (`protocol`)             ──── offers the message (RTS) ────
//!   can, start (`proto::rendezvous`) ─► its state      its message: on_message ─► its state
//!   Action::Run: receive                             Action::Run: send
//!   its message: on_message                          space in the lane: Sending::post
//!   transport: on_completion                         transport: on_completion
//!   abort, peer fails: Receiving::{abort, ends_with}   closing: stop; peer fails: Sending::in_flight
//!   kept while it still arrives: on_late_receive, on_dropped; a peer fails: on_peer_failure
//!   a query: arriving                                a query: Sending::describe; its state is over: retire
//!                        Action::Poll: what belongs to no single request
//!
//!   before there is a message, where a protocol watches
//!   posted: on_receive ─► its state (`Expecting`)    about to be sent: before_send
//!   met: on_met ─► the message goes on, or on_kept   about to be posted: before_post
//!   probed: on_probe                                 posted: `Watching`; space in the lane: on_writable
//! ```
//! Rules. (1) A message is received by one protocol at a time; before one has started, and after one was refused, by
//! none. (2) A state says itself whether its request may end: not while the transport or the peer may read or write its
//! buffer. (3) What the state has opened or lent is named by it, and given back by whatever ends the request. (4) A
//! method whose name ends in `signal_safe` runs in a signal handler: it allocates and frees nothing, and what it does not
//! do is done by the next ordinary call.

mod table;

use bowline_base::buffer::{MemoryLayout, RecvBuf};
use bowline_base::slab::Key;
use bowline_uct::{Arrival, Caps, PeerFailure, PostError, RkeyId, Verdict, WHOLE_PROCESS};

use super::{Engine, Inner};
use crate::lanes::Lane;
use crate::matching::{MatchSpec, Want};
use crate::pack;
use crate::peer::{Peer, PeerIndex};
use crate::post::Post;
use crate::protocol::Protocol;
use crate::request::{Fetch, SendKind, Sender};
use crate::settings::{Options, RndvScheme};
use crate::status::OpStatus;
use crate::wire::MessageId;

pub(crate) use table::{Keeps, Kept, Protocols};

/// The life of a protocol. What a protocol has no part in does nothing.
pub(crate) trait Life: Sync {
    /// The protocol whose life it is.
    fn protocol(&self) -> &'static Protocol;

    /// The active messages that are its own.
    fn ids(&self) -> &'static [MessageId] {
        &[]
    }

    /// One of them has come. `None`: no correct peer sends it.
    fn on_message(&self, _: &mut Engine, _: PeerIndex, _: &Arrival<'_>) -> Option<Verdict> {
        None
    }

    /// The same. Whether it was taken; else it comes again.
    fn on_message_signal_safe(&self, _: &mut Engine, _: PeerIndex, _: &Arrival<'_>) -> bool {
        false
    }

    /// The transport has done with an operation of the request.
    fn on_completion(&self, _: &mut Engine, _: Key, _: Result<u64, PeerFailure>) {}

    /// Whether a setting asks for it before all others.
    fn is_asked_for(&self, _: RndvScheme) -> bool {
        false
    }

    /// Whether it can bring a message.
    fn can(&self, _: &mut Offer<'_>) -> bool {
        false
    }

    /// Begins to receive a message, after [`can`](Self::can). `false`: it cannot after all, and nothing has begun.
    fn start(&self, _: &mut Inner, _: Key) -> bool {
        false
    }

    /// The same, of a message of a ready peer that was read from before, in one piece, by the key of its whole memory.
    fn start_signal_safe(&self, _: &mut Inner, _: Key) -> bool {
        false
    }

    /// Goes on with a receive.
    fn receive(&self, _: &mut Inner, _: Key) {}

    /// The same. `copied`: whether this round of progress has copied a piece, of which there is one at most. Whether it
    /// is done with that.
    fn receive_signal_safe(&self, _: &mut Inner, _: Key, _copied: &mut bool) -> bool {
        false
    }

    /// Goes on with a send.
    fn send(&self, _: &mut Inner, _: Key) {}

    /// The state of a send is over: its memory may serve another one.
    fn retire(&self, _: &mut Kept, _: Sender) {}

    /// The endpoint of a send is closed by force: nothing more is done to memory of the peer.
    fn stop(&self, _: &mut Inner, _: Key) {}

    /// The user wants a receive back that the sender knows of.
    fn cancel(&self, _: &mut Engine, _: Key) {}

    /// Such a receive is to end.
    fn finish(&self, _: &mut Engine, _: Key, _: OpStatus) {}

    /// A peer has failed, again perhaps: its endpoint may fail before its last messages have come.
    fn on_peer_failure(&self, _: &mut Engine, _: PeerIndex, _: PeerFailure) {}

    /// Goes on with what belongs to no single request.
    fn poll(&self, _: &mut Inner) {}

    /// The same. Whether nothing of it is left.
    fn poll_signal_safe(&self, _: &mut Inner, _copied: &mut bool) -> bool {
        false
    }

    /// A message of so many bytes is about to be sent to a peer at which a protocol notes what is posted. It may poll.
    fn before_send(&self, _: &mut Inner, _: PeerIndex, _: &SendKind, _length: usize) {}

    /// A send is about to be posted to a peer at which a protocol checks that: how far it came, if this protocol takes it,
    /// or if it cannot be posted yet.
    fn before_post(&self, _: &mut Inner, _: Key) -> Option<Post> {
        None
    }

    /// A message of its own that has waited is about to be posted to such a peer.
    ///
    /// # Errors
    /// When it cannot be yet.
    fn before_control(&self, _: &mut Inner, _: PeerIndex) -> Result<(), PostError> {
        Ok(())
    }

    /// The lane to such a peer has space: what the protocol holds back goes first. Whether the lane took all.
    fn on_writable(&self, _: &mut Inner, _: PeerIndex) -> bool {
        true
    }

    /// Whether it watches the receives of a space, a collective one or not. It is notified of those that are posted there, of
    /// probes that find nothing there, and of what meets a receive, as [`on_met`](Self::on_met) says.
    fn watches_receives(&self, _: &Options, _collective: bool) -> bool {
        false
    }

    /// A receive was posted in a space that is watched, by this protocol or another.
    fn on_receive(&self, _: &mut Inner, _: Key, _space: u32, _: &Want) {}

    /// A message has met a receive, of this protocol or not and in any space, which has left its matching engine. `true`: the
    /// message goes to the receive, which this protocol leaves an ordinary one ([`Body::Receive`](crate::request::Body::Receive)): else
    /// the message would be lost. `false`: it may not go there yet, and is kept for the receive. Of what is delivered by the short path, a message in one
    /// piece that meets an ordinary receive, no protocol hears.
    fn on_met(&self, _: &mut Engine, _: Key) -> bool {
        true
    }

    /// That message, by its key, is kept.
    fn on_kept(&self, _: &mut Engine, _receive: Key, _message: Key) {}

    /// A receive was posted for a message that is still arriving: the rest goes there, behind the `bytes` that are here.
    fn on_late_receive(
        &self,
        _: &mut Engine,
        _: PeerIndex,
        _message: Key,
        _receive: Key,
        _bytes: &[u8],
    ) {
    }

    /// Nobody will receive such a message.
    fn on_dropped(&self, _: &mut Engine, _: PeerIndex, _message: Key) {}

    /// Whose message is arriving in a receive that has no state for it, and how many bytes have come.
    fn arriving(&self, _: &Engine, _receive: Key) -> Option<(PeerIndex, u64)> {
        None
    }

    /// A probe of a space that it watches has found no message.
    fn on_probe(&self, _: &mut Inner, _: &MatchSpec) {}

    /// A space was closed.
    fn on_space_closed(&self, _: &mut Inner, _space: u32) {}

    /// The endpoint of a peer is being closed: what waits for that peer's word goes without.
    fn on_close(&self, _: &mut Inner, _: PeerIndex) {}

    /// Makes ready what signal-safe progress may use.
    fn provide(&self, _: &mut Inner) {}
}

/// A message that was offered, for a protocol to say whether it can bring it.
pub(crate) struct Offer<'a> {
    pub(crate) lane: &'a mut Lane,
    pub(crate) peer: &'a mut Peer,
    pub(crate) buffer: &'a RecvBuf,
    pub(crate) fetch: &'a mut Fetch,
}

impl Offer<'_> {
    /// What the lane is able to.
    pub(crate) fn caps(&self) -> Caps {
        self.lane.iface.attr().caps
    }

    /// Whether the buffer is one piece of memory.
    pub(crate) fn is_whole(&self) -> bool {
        self.buffer.shape() == MemoryLayout::Whole
    }

    /// Whether this side can read the message from where it lies. Opens it.
    pub(crate) fn can_read(&mut self) -> bool {
        let Some(rkey) = self.open() else { return false };
        let (address, wanted) = (self.fetch.rts.address, self.fetch.wanted as usize);
        let mapped = || self.lane.iface.rkey_ptr(rkey, address, wanted).is_some();
        let own = self.fetch.rkey.is_some();
        self.caps().contains(Caps::GET_ZCOPY)
            && (pack::is_read_into(self.buffer) || own && mapped())
    }

    fn open(&mut self) -> Option<RkeyId> {
        let Self { lane: Lane { iface, .. }, peer, fetch, .. } = self;
        let packed = fetch.rts.rkey.bytes();
        if !fetch.rts.is_readable() {
            return None;
        }
        if !packed.is_empty() {
            if fetch.rkey.is_none() {
                fetch.rkey = iface.rkey_unpack(peer.ep, packed).ok();
            }
            return fetch.rkey;
        }
        if peer.direct_read_denied {
            return None;
        }
        if peer.whole_rkey.is_none() {
            peer.whole_rkey = iface.rkey_unpack(peer.ep, &WHOLE_PROCESS).ok();
        }
        peer.whole_rkey
    }
}

/// A receive that a message has met which the receive's protocol wants to be kept. The code that keeps the message hands it to
/// that protocol.
#[derive(Clone, Copy)]
pub(crate) struct Holder {
    pub(crate) receive: Key,
    pub(crate) life: &'static dyn Life,
}
