//! Receiving what was offered: the choice of the protocol by which a message comes, and the end of every one.
//!
//! The receiver chooses, who alone knows both the message and the buffer: first the protocols that the setting asks for,
//! then all others, in the order of the registry. One that cannot start is passed over. One that is refused while it is
//! under way makes known why, in the message or in what is known of the peer, and the choice is made anew: fragments are
//! never refused.

use bowline_base::buffer::{RecvBuf, Shape};
use bowline_base::slab::Key;
use bowline_uct::{Caps, PeerFailure, RkeyId, WHOLE_PROCESS};

use super::{Life, Protocol};
use crate::error::OpError;
use crate::lanes::Lane;
use crate::pack;
use crate::peer::{Peer, PeerIndex, PeerState};
use crate::request::{Body, Fetch, Receive, Request, Requests, Send, SendPhase, Status};
use crate::settings::RndvScheme;
use crate::wire::{self, Rts};
use crate::worker::Inner;

/// Bytes moved in one go, so that other traffic is looked at in between: some 400 us. With 1 MiB
/// a message of 4 MiB took a fifth longer.
pub(crate) const SEGMENT: u64 = 4 << 20;

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
        self.buffer.shape() == Shape::Whole
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
        let packed = &fetch.rts.rkey[..usize::from(fetch.rts.rkey_len)];
        if !fetch.rts.is_readable() {
            return None;
        }
        if !packed.is_empty() {
            if fetch.rkey.is_none() {
                fetch.rkey = iface.rkey_unpack(peer.ep, packed).ok();
            }
            return fetch.rkey;
        }
        if peer.reach_refused {
            return None;
        }
        if peer.reach.is_none() {
            peer.reach = iface.rkey_unpack(peer.ep, &WHOLE_PROCESS).ok();
        }
        peer.reach
    }
}

/// A receive of a message that was offered.
pub(crate) fn receive_of(requests: &mut Requests, key: Key) -> Option<(&mut RecvBuf, &mut Fetch)> {
    match &mut requests.get_mut(key)?.body {
        Body::Receive(receive) => {
            let fetch = receive.fetch.as_deref_mut()?;
            Some((&mut receive.buffer, fetch))
        }
        _ => None,
    }
}

/// A send that is not complete.
pub(crate) fn send_of(requests: &mut Requests, key: Key) -> Option<&mut Send> {
    match &mut requests.get_mut(key).filter(|request| !request.done)?.body {
        Body::Send(send) => Some(send),
        _ => None,
    }
}

impl Request {
    /// The protocol that moves its message, if one does.
    pub(crate) fn protocol(&self) -> Option<&'static Protocol> {
        match &self.body {
            Body::Receive(Receive { fetch: Some(fetch), .. }) => {
                Some(fetch.receiver.as_ref()?.protocol())
            }
            Body::Send(send) => match &send.phase {
                SendPhase::Moving(sender) => Some(sender.protocol()),
                _ => None,
            },
            Body::Announced(announced) => Some(announced.protocol()),
            _ => None,
        }
    }

    /// How a send ends whose receiver's answer came while this side had still something to do.
    pub(crate) fn early_answer(&mut self) -> Option<Status> {
        let Body::Send(send) = &mut self.body else { return None };
        let SendPhase::Moving(sender) = &mut send.phase else { return None };
        let (length, outcome) = (send.buffer.len() as u64, (*sender.answer()?)?);
        Some(Status { length, outcome, ..Status::NONE })
    }
}

impl Inner {
    /// Goes on with a request by the protocol that moves its message.
    pub(crate) fn run(&mut self, key: Key) {
        let Some(request) = self.engine.requests.get(key).filter(|request| !request.done) else {
            return;
        };
        match (&request.body, request.protocol()) {
            (Body::Send(_), Some(protocol)) => return protocol.life.send(self, key),
            (Body::Announced(_), Some(protocol)) => return protocol.life.receive(self, key),
            _ => {}
        }
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        let (index, chosen) = (fetch.peer, fetch.receiver.as_ref().map(|r| r.protocol()));
        if self.engine.peers[index as usize].end.as_ref().is_some_and(|end| end.is_forced()) {
            return self.abandon_fetch(key);
        }
        if fetch.done >= fetch.wanted {
            return self.fetched(key);
        }
        if let Err(error) = self.ready(index) {
            let _ = self.end_fetch(key);
            return self.engine.fail(key, error);
        }
        match chosen {
            Some(protocol) => protocol.life.receive(self, key),
            None => self.choose(key),
        }
    }

    /// Has the best of the protocols receive a message that can.
    fn choose(&mut self, key: Key) {
        let scheme = self.engine.options.rndv_scheme;
        for asked in [true, false] {
            for at in 0..self.engine.protocols.all.len() {
                let life = self.engine.protocols.all[at].life;
                if life.is_asked_for(scheme) == asked
                    && self.can(key, life)
                    && life.start(self, key)
                {
                    return;
                }
            }
        }
    }

    fn can(&mut self, key: Key, life: &dyn Life) -> bool {
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else {
            return false;
        };
        let peer = &mut self.engine.peers[fetch.peer as usize];
        let lane = &mut self.lanes[peer.lane as usize];
        life.can(&mut Offer { lane, peer, buffer, fetch })
    }

    /// The same as [`run`](Self::run), of a receive whose message is read, by signal-safe progress.
    pub(crate) fn run_signal_safe(&mut self, key: Key, copied: &mut bool) -> bool {
        let Some(request) = self.engine.requests.get(key) else { return true };
        if !matches!(request.body, Body::Receive(_)) {
            return false;
        }
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return true };
        // A key that has to be opened, or a peer that was never read from, is for an ordinary call.
        let by_reach = fetch.rkey.is_none() && fetch.rts.rkey_len == 0;
        if buffer.shape() != Shape::Whole || !fetch.rts.is_readable() || !by_reach {
            return false;
        }
        let scheme = self.engine.options.rndv_scheme;
        if !matches!(scheme, RndvScheme::Auto | RndvScheme::Get) {
            return false;
        }
        let chosen = fetch.receiver.as_ref().map(|receiver| receiver.protocol());
        let complete = fetch.done >= fetch.wanted;
        let peer = &self.engine.peers[fetch.peer as usize];
        let known = peer.reach.is_some() && peer.reach_proven && peer.state == PeerState::Ready;
        if complete {
            return self.end_signal_safe(key);
        }
        if !known || !self.lanes[peer.lane as usize].is_signal_safe() {
            return false;
        }
        if let Some(protocol) = chosen {
            return protocol.life.receive_signal_safe(self, key, copied);
        }
        for asked in [true, false] {
            for at in 0..self.engine.protocols.all.len() {
                let life = self.engine.protocols.all[at].life;
                if life.is_asked_for(scheme) == asked && life.start_signal_safe(self, key) {
                    return life.receive_signal_safe(self, key, copied);
                }
            }
        }
        false
    }

    /// A message is here whole: the sender has its buffer back.
    pub(crate) fn fetched(&mut self, key: Key) {
        if let Some((peer, request)) = self.end_fetch(key) {
            self.engine.counters.fetched += 1;
            self.control(peer, wire::ACK, [request, 0], &[]);
            self.engine.complete_receive(key);
        }
    }

    /// The message cannot be read from where its sender says that it is: it fails on both sides.
    #[cold]
    pub(crate) fn refuse(&mut self, key: Key, error: OpError) {
        if let Some((peer, request)) = self.end_fetch(key) {
            self.control(peer, wire::ACK, [request, wire::refusal(None)], &[]);
            self.engine.fail(key, error);
        }
    }

    /// The message is not wanted any more, and its sender will hear of that by a farewell. What the
    /// transport, or the sender, is writing to is waited for.
    #[cold]
    pub(crate) fn abandon_fetch(&mut self, key: Key) {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        if fetch.receiver.as_mut().is_none_or(|receiver| receiver.abort(OpError::Cancelled)) {
            let _ = self.end_fetch(key);
            self.engine.fail(key, OpError::Cancelled);
        }
    }

    /// Gives back what a receive has opened and lent. Returns its sender, and the request there.
    pub(crate) fn end_fetch(&mut self, key: Key) -> Option<(PeerIndex, u64)> {
        let request = self.engine.requests.get_mut(key)?;
        let Body::Receive(receive) = &mut request.body else {
            return None;
        };
        let fetch = receive.fetch.take()?;
        let lane = self.engine.peers[fetch.peer as usize].lane as usize;
        if let Some(rkey) = fetch.rkey {
            self.lanes[lane].iface.rkey_release(rkey);
        }
        if let Some((lane, memory)) = fetch.receiver.as_ref().and_then(|state| state.lent()) {
            // Lent memory is nobody's but the receive's: there is nothing to give back.
            drop(self.lanes[lane as usize].iface.mem_release(memory));
        }
        let (peer, sender) = (fetch.peer, fetch.rts.request);
        self.engine.async_state.keep(fetch);
        Some((peer, sender))
    }

    /// The worker ends. A buffer into which a peer may be writing outlives it: it is leaked, unless it is somebody else's,
    /// who has waited then. Lent ones are shut by their lanes.
    pub(crate) fn leak_written_buffers(&mut self) {
        let Self { engine, lanes, .. } = self;
        let keys: Vec<Key> = engine.requests.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(request) = engine.requests.get_mut(key) else { continue };
            let (buffer, written) = match &mut request.body {
                Body::Receive(Receive { buffer, fetch: Some(fetch), .. }) => {
                    let peer = &engine.peers[fetch.peer as usize];
                    let (lane, how) = (&lanes[peer.lane as usize], peer.failure());
                    let state = fetch.receiver.as_ref();
                    (buffer, state.is_some_and(|state| state.is_written_after_end(lane, how)))
                }
                Body::Announced(announced) => {
                    let how = engine.peers[announced.peer as usize].failure();
                    let written = announced.is_written_after_end(how);
                    (&mut announced.receive.buffer, written)
                }
                _ => continue,
            };
            if written {
                std::mem::forget(std::mem::replace(buffer, RecvBuf::empty()));
            }
        }
    }
}

impl Fetch {
    /// Whether the receive ends since this peer has failed in this way.
    pub(crate) fn ends_with(&self, peer: PeerIndex, how: PeerFailure) -> bool {
        self.peer == peer && self.receiver.as_ref().is_none_or(|receiver| receiver.ends_with(how))
    }

    /// The message cannot be read after all: another protocol is to bring it.
    pub(crate) fn refuse_reads(&mut self) {
        self.rts.address = Rts::IN_PIECES;
        self.receiver = None;
        self.done = 0;
    }
}

impl RndvScheme {
    /// Whether no message is read under it, where senders can write or not (`put`).
    pub(crate) const fn reads_nothing(self, put: bool) -> bool {
        match self {
            Self::Copy => true,
            Self::Put | Self::Rtr => put,
            Self::Auto | Self::Get => false,
        }
    }
}

/// Whether a transport's puts and gets reach all memory of a peer, by a processor's copy in the
/// call, with the key that names no memory in particular.
pub(crate) fn reaches_all(caps: Caps) -> bool {
    let needed = Caps::GET_ZCOPY | Caps::PUT_ZCOPY | Caps::RMA_REGISTERED | Caps::RKEY_PTR;
    caps.contains(needed) && !caps.intersects(Caps::EXPOSE | Caps::LEND | Caps::LOOPBACK)
}

/// Whether a peer that has failed in this way is known to write nothing any more.
pub(crate) const fn writes_no_more(how: PeerFailure) -> bool {
    matches!(how, PeerFailure::Died | PeerFailure::Closed)
}
