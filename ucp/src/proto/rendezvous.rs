//! Receiving what was offered: the choice of the protocol by which a message comes, and the end of every one.
//!
//! The receiver chooses, who alone knows both the message and the buffer: the protocol by which others took least, else the
//! one that the setting asks for, else the one that is predicted to be the cheapest, then all others, in the order of the
//! registry. One that cannot start is passed over. One that is refused while it is
//! under way makes known why, in the message or in what is known of the peer, and the choice is made anew: fragments are
//! never refused.

use bowline_base::buffer::{MemoryLayout, RecvBuf};
use bowline_base::slab::Key;

use crate::engine::Inner;
use crate::engine::life::Life;
use crate::engine::life::Offer;
use crate::error::OpError;
use crate::peer::{PeerIndex, PeerState};
use crate::request::{Body, Receive, receive_of};
use crate::settings::RndvScheme;
use crate::wire;

/// Bytes moved in one go, so that other traffic is polled in between: some 400 us. With 1 MiB
/// a message of 4 MiB took a fifth longer.
pub(crate) const SEGMENT: u64 = 4 << 20;

impl Inner {
    /// Goes on with a request by the protocol that moves its message.
    pub(crate) fn run(&mut self, key: Key) {
        let Some(request) = self.engine.requests.get(key).filter(|request| !request.done) else {
            return;
        };
        match (&request.body, request.protocol()) {
            (Body::Send(_), Some(protocol)) => {
                return self.engine.protocols.life(protocol).send(self, key);
            }
            (Body::Expecting(_), Some(protocol)) => {
                return self.engine.protocols.life(protocol).receive(self, key);
            }
            _ => {}
        }
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        let (index, chosen) = (fetch.peer, fetch.receiver.as_ref().map(|r| r.protocol()));
        if fetch.acknowledged {
            return self.fetched(key);
        }
        if self.engine.peers[index as usize].end.as_ref().is_some_and(|end| end.is_forced()) {
            return self.abandon_fetch(key, OpError::Cancelled);
        }
        if fetch.done >= fetch.wanted {
            return self.fetched(key);
        }
        if let Err(error) = self.ready(index) {
            return self.abandon_fetch(key, error);
        }
        match chosen {
            Some(protocol) => self.engine.protocols.life(protocol).receive(self, key),
            None => self.choose(key),
        }
    }

    /// Has the best of the protocols receive a message that can.
    fn choose(&mut self, key: Key) {
        let scheme = self.engine.options.rndv_scheme;
        // One that is to be tried and cannot start yet may need what a later one does: a read proves that shared copies can be.
        let first = match self.preferred(key) {
            Some(life) => Some(life),
            None if scheme == RndvScheme::Auto => self.predicted(key),
            None => None,
        };
        if let Some(life) = first
            && self.can(key, life)
            && life.start(self, key)
        {
            return;
        }
        for asked in [true, false] {
            for at in 0..self.engine.protocols.lives.len() {
                let life = self.engine.protocols.lives[at];
                if life.is_asked_for(scheme) == asked
                    && self.can(key, life)
                    && life.start(self, key)
                {
                    return;
                }
            }
        }
    }

    /// The protocol that is predicted to be the cheapest for a message. Of one with a key of its own, whose memory the
    /// lane may have mapped or a device reads, predictions say nothing.
    fn predicted(&mut self, key: Key) -> Option<&'static dyn Life> {
        let (_, fetch) = receive_of(&mut self.engine.requests, key)?;
        if !fetch.rts.rkey.is_none() || fetch.done > 0 {
            return None;
        }
        let lane = self.engine.peers[fetch.peer as usize].lane as usize;
        let protocol = self.lanes[lane].choices.fetch.pick(fetch.wanted)?;
        let mut lives = self.engine.protocols.lives.iter();
        lives.find(|life| std::ptr::eq(life.protocol(), protocol)).copied()
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
        if buffer.shape() != MemoryLayout::Whole || !fetch.rts.is_readable() || fetch.acknowledged {
            return false;
        }
        let scheme = self.engine.options.rndv_scheme;
        if !matches!(scheme, RndvScheme::Auto | RndvScheme::Get) {
            return false;
        }
        let chosen = fetch.receiver.as_ref().map(|receiver| receiver.protocol());
        let complete = fetch.done >= fetch.wanted;
        let peer = &self.engine.peers[fetch.peer as usize];
        if complete {
            return self.end_signal_safe(key);
        }
        let (index, at) = (fetch.peer, peer.lane);
        if peer.state != PeerState::Ready || !self.lanes[at as usize].is_signal_safe() {
            return false;
        }
        // By the key of the message where the lane has made the buffer ready; else by that of its sender's whole memory,
        // which an ordinary call has read from. What else there is to open is for such a call.
        let by_reach = fetch.rkey.is_none() && fetch.rts.rkey.is_none();
        let can = if by_reach {
            peer.whole_rkey.is_some() && peer.direct_read_verified
        } else {
            self.engine.async_state.prepared_for(key, at).is_some()
                && self.open_signal_safe(key, index)
        };
        if !can {
            return false;
        }
        if let Some(protocol) = chosen {
            return self.engine.protocols.life(protocol).receive_signal_safe(self, key, copied);
        }
        for asked in [true, false] {
            for at in 0..self.engine.protocols.lives.len() {
                let life = self.engine.protocols.lives[at];
                if life.is_asked_for(scheme) == asked && life.start_signal_safe(self, key) {
                    return life.receive_signal_safe(self, key, copied);
                }
            }
        }
        false
    }

    /// Opens the key of a message, by signal-safe progress. Whether it is open.
    fn open_signal_safe(&mut self, key: Key, peer: PeerIndex) -> bool {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let peer = &self.engine.peers[peer as usize];
        if fetch.rkey.is_none() {
            let lane = &mut self.lanes[peer.lane as usize].iface;
            fetch.rkey = lane.rkey_unpack_signal_safe(peer.ep, fetch.rts.rkey.bytes());
        }
        fetch.rkey.is_some()
    }

    /// A message is here whole: the sender has its buffer back.
    pub(crate) fn fetched(&mut self, key: Key) {
        let fetch = receive_of(&mut self.engine.requests, key);
        let acknowledged = fetch.is_some_and(|(_, fetch)| fetch.acknowledged);
        if !acknowledged {
            self.engine.note_fetched(key);
        }
        if let Some((peer, request)) = self.end_fetch(key) {
            self.engine.counters.fetched += 1;
            if !acknowledged {
                self.control(peer, wire::ACK, [request, 0], &[]);
            }
            self.engine.complete_receive(key);
        }
    }

    /// The part of that which its sender waits for, by signal-safe progress.
    pub(crate) fn acknowledge_signal_safe(&mut self, key: Key) {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        fetch.acknowledged = true;
        let (peer, request) = (fetch.peer, fetch.rts.request);
        self.engine.note_fetched(key);
        self.control(peer, wire::ACK, [request, 0], &[]);
    }

    /// The message cannot be read from where its sender says that it is: it fails on both sides.
    #[cold]
    pub(crate) fn refuse(&mut self, key: Key, error: OpError) {
        if let Some((peer, request)) = self.end_fetch(key) {
            self.control(peer, wire::ACK, [request, wire::refusal(None)], &[]);
            self.engine.fail(key, error);
        }
    }

    /// The message is not wanted any more, which its sender hears by DISCONNECT, or cannot come any more.
    /// What the transport, or the sender, is writing to is waited for.
    #[cold]
    pub(crate) fn abandon_fetch(&mut self, key: Key, error: OpError) {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        if fetch.acknowledged {
            // It has come.
            return self.fetched(key);
        }
        let receiver = fetch.receiver.as_mut();
        if fetch.in_flight == 0 && receiver.is_none_or(|receiver| receiver.abort(error)) {
            let _ = self.end_fetch(key);
            self.engine.fail(key, error);
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
                    (
                        buffer,
                        state.is_some_and(|state| state.is_written_after_end(&*lane.iface, how)),
                    )
                }
                Body::Expecting(expecting) => {
                    let how = engine.peers[expecting.peer() as usize].failure();
                    let written = expecting.is_written_after_end(how);
                    (expecting.buffer_mut(), written)
                }
                _ => continue,
            };
            if written {
                std::mem::forget(std::mem::replace(buffer, RecvBuf::empty()));
            }
        }
    }
}
