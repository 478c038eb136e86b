//! A receive that a sender knows of before a message has met it: what the protocols share that announce receives
//! ([`super::rtr`]) or lend them ([`super::any`]). What they say to the sender, and what its answers mean, is theirs.

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_uct::PeerFailure;

use crate::matching::ItemId;
use crate::peer::PeerIndex;
use crate::protocol::{Expecting, Protocol};
use crate::request::{Body, OpenBuffer, Receive, Request, Requests};
use crate::status::OpStatus;

/// Where an announced receive stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnnouncedStage {
    /// Posted.
    Posted,
    /// Posted, and its user wants it back.
    Withdrawing,
    /// It has ended for its user's sake and waits for its peer: rule 4 of [`super::rtr`].
    Ended(OpStatus),
    /// Another message has met it, this one, and it waits for its peer: rule 3 of [`super::any`].
    Met(Key),
}

/// What a receive holds that was announced and not met yet.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) receive: Receive,
    pub(super) peer: PeerIndex,
    pub(super) protocol: &'static Protocol,
    pub(super) open_buffer: OpenBuffer,
    pub(super) stage: AnnouncedStage,
}

impl Announced {
    /// Whether it is known to this peer, by this protocol.
    pub(super) fn is_with(&self, peer: PeerIndex, protocol: &Protocol) -> bool {
        self.peer == peer && self.protocol == protocol
    }
}

impl Expecting for Announced {
    fn protocol(&self) -> &'static Protocol {
        self.protocol
    }

    fn peer(&self) -> PeerIndex {
        self.peer
    }

    fn buffer(&self) -> &RecvBuf {
        &self.receive.buffer
    }

    fn buffer_mut(&mut self) -> &mut RecvBuf {
        &mut self.receive.buffer
    }

    fn describe(&self, rank: u32) -> String {
        format!("whether rank {rank} of the job writes to an announced receive")
    }

    fn is_written_after_end(&self, how: Option<PeerFailure>) -> bool {
        self.open_buffer.is_open_after(how)
    }
}

/// The state of a receive that is announced.
pub(super) fn announced(request: &Request) -> Option<&Announced> {
    match &request.body {
        Body::Expecting(expecting) => expecting.state(),
        _ => None,
    }
}

/// The same, by its key.
pub(super) fn announced_mut(requests: &mut Requests, key: Key) -> Option<&mut Announced> {
    match &mut requests.get_mut(key)?.body {
        Body::Expecting(expecting) => expecting.state_mut(),
        _ => None,
    }
}

/// The receives that a peer knows by a protocol and writes no more to, since it has failed in this way.
pub(super) fn announced_shut_by(
    requests: &Requests,
    (peer, how): (PeerIndex, PeerFailure),
    protocol: &Protocol,
) -> Vec<Key> {
    let shut = |one: &Announced| one.is_with(peer, protocol) && one.open_buffer.is_shut_by(how);
    let found = requests.iter().filter(|(_, request)| announced(request).is_some_and(shut));
    found.map(|(key, _)| key).collect()
}

/// Makes an announced receive an ordinary one. The receive, and its memory as the sender knows it.
pub(super) fn end_announced(
    requests: &mut Requests,
    key: Key,
) -> Option<(&mut Receive, OpenBuffer)> {
    let announced = announced_mut(requests, key)?;
    let receive = std::mem::replace(&mut announced.receive, Receive::empty());
    let open_buffer = announced.open_buffer;
    let body = &mut requests.get_mut(key)?.body;
    *body = Body::Receive(receive);
    match body {
        Body::Receive(receive) => Some((receive, open_buffer)),
        _ => None,
    }
}

/// Whether a receive is in its matching engine, announced or not.
pub(super) fn is_posted(request: Option<&Request>) -> bool {
    request.is_some_and(|request| match &request.body {
        Body::Receive(receive) => !request.done && receive.item != ItemId::NONE,
        _ => announced(request).is_some_and(|announced| {
            matches!(announced.stage, AnnouncedStage::Posted | AnnouncedStage::Withdrawing)
        }),
    })
}
