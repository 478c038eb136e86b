//! The receiver of an offered message: which way it comes, and reading it from where it lies with
//! its sender, alone. [`crate::proto::coop`] reads with the sender's help, [`crate::proto::put`] has the sender
//! write.

use bowline_base::buffer::Shape;
use bowline_base::slab::Key;
use bowline_model::cheapest::Line;
use bowline_uct::{Caps, LocalSlice, PeerFailure, PostError, Posted, RemoteSlice, WHOLE_PROCESS};

use super::table::{Op, SelectionContext};
use super::{Life, Protocol};
use crate::action::Action;
use crate::error::OpError;
use crate::loan;
use crate::pack::{self, RUNS};
use crate::peer::{PeerIndex, PeerState};
use crate::proto::coop::receive_of;
use crate::proto::rendezvous::{RndvFacts, RndvKind, can_land};
use crate::request::{Body, token};
use crate::wire::{self, Rts};
use crate::worker::Inner;

/// Bytes fetched in one go, so that other traffic is looked at in between: some 400 us. With 1 MiB
/// a message of 4 MiB took a fifth longer.
pub(crate) const SEGMENT: u64 = 4 << 20;

/// The receiver reads the message from the sender's memory.
pub(crate) static GET: Protocol = Protocol { name: "rndv/get", rendezvous: true, life: &Get };

struct Get;

impl Life for Get {
    fn probe(&self, op: Op, context: &SelectionContext<'_>) -> Option<(Line, u64, u64)> {
        let line = context.envelope(op).plus(context.get());
        context.reads(op).then(|| (line, context.rndv_start(op), u64::MAX))
    }
}

impl Inner {
    /// Goes on with a message that lies with its sender.
    pub(crate) fn fetch(&mut self, key: Key) {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        let (index, chosen) = (fetch.peer, fetch.kind);
        if self.engine.peers[index as usize].end.as_ref().is_some_and(|end| end.is_forced()) {
            return self.abandon_fetch(key);
        }
        if fetch.copying {
            return;
        }
        if fetch.done >= fetch.wanted {
            return self.fetched(key);
        }
        if let Err(error) = self.ready(index) {
            let _ = self.end_fetch(key);
            return self.engine.fail(key, error);
        }
        let Some(kind) = chosen.or_else(|| self.choose_rndv(key, true)) else { return };
        let kind = match kind {
            RndvKind::Shared if self.share(key) => return self.note_kind(key, kind),
            RndvKind::Shared => self.choose_rndv(key, false).unwrap_or(RndvKind::Copy),
            kind => kind,
        };
        let kind = match kind {
            RndvKind::Put if self.ask_for_put(key) => return self.note_kind(key, kind),
            RndvKind::Put => {
                self.engine.peers[index as usize].put_refused = true;
                self.choose_rndv(key, false).unwrap_or(RndvKind::Copy)
            }
            kind => kind,
        };
        self.note_kind(key, kind);
        match kind {
            RndvKind::Mapped => self.copy_mapped(key),
            RndvKind::Get => self.read(key),
            RndvKind::Copy => self.ask_for_fragments(key),
            RndvKind::Shared | RndvKind::Put => {}
        }
    }

    fn note_kind(&mut self, key: Key, kind: RndvKind) {
        if let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) {
            fetch.kind = Some(kind);
        }
    }

    /// How a message is to come, and the key that reading it needs opened. The sender's help only if
    /// `shared`.
    fn choose_rndv(&mut self, key: Key, shared: bool) -> Option<RndvKind> {
        let options = self.engine.options;
        let (buffer, fetch) = receive_of(&mut self.engine.requests, key)?;
        let (rts, wanted, known) = (fetch.rts, fetch.wanted, fetch.rkey);
        let whole = buffer.shape() == Shape::Whole;
        let (readable, into) = (rts.is_readable(), pack::is_read_into(buffer));
        let peer = &mut self.engine.peers[fetch.peer as usize];
        let shared_from = self.lanes[peer.lane as usize].choices.shared_from;
        let (lane, ep) = (&mut self.lanes[peer.lane as usize].iface, peer.ep);
        let caps = lane.attr().caps;
        let put = can_land(caps, peer) && whole && rts.address != Rts::PACKED;
        let packed = &rts.rkey[..usize::from(rts.rkey_len)];
        let rkey = match known {
            Some(rkey) => Some(rkey),
            None if !readable || options.rndv_scheme.reads_nothing(put) => None,
            None if !packed.is_empty() => lane.rkey_unpack(ep, packed).ok(),
            None if peer.reach_refused => None,
            None => {
                if peer.reach.is_none() {
                    peer.reach = lane.rkey_unpack(ep, &WHOLE_PROCESS).ok();
                }
                peer.reach
            }
        };
        if !packed.is_empty() {
            fetch.rkey = rkey;
        }
        let view = |rkey| lane.rkey_ptr(rkey, rts.address, wanted as usize);
        let mapped = fetch.rkey.and_then(view).is_some();
        let get = rkey.is_some() && caps.contains(Caps::GET_ZCOPY) && (into || mapped);
        let shared = shared && wanted >= shared_from && whole;
        let facts = RndvFacts { mapped, get, shared, put };
        Some(RndvKind::choose(options.rndv_scheme, facts))
    }

    /// Copies the next segment of a message from memory that both sides map.
    fn copy_mapped(&mut self, key: Key) {
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize].iface;
        let length = (fetch.wanted - fetch.done).min(SEGMENT);
        let address = fetch.rts.address.checked_add(fetch.done);
        let view = address.zip(fetch.rkey).and_then(|(address, rkey)| {
            lane.rkey_ptr(rkey, address, usize::try_from(length).ok()?)
        });
        let Some(view) = view else { return self.refuse(key, OpError::BadRemote) };
        buffer.copy_at(fetch.done as usize, view);
        fetch.done += length;
        if fetch.done >= fetch.wanted {
            self.engine.counters.mapped += 1;
            return self.fetched(key);
        }
        self.engine.actions.push(Action::Fetch(key));
    }

    /// Reads the next segment of a message.
    fn read(&mut self, key: Key) {
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        let index = fetch.peer;
        let peer = &mut self.engine.peers[index as usize];
        let lane = &mut self.lanes[peer.lane as usize].iface;
        // A transport that works on its own is asked for everything; one that copies in the call
        // comes back in between.
        let limit = lane.attr().limits.get.max_zcopy as u64;
        let works_alone = lane.attr().caps.intersects(Caps::EXPOSE | Caps::CARRIES);
        let length = (fetch.wanted - fetch.done).min(if works_alone { limit } else { SEGMENT });
        let own = fetch.rkey;
        let rkey = if fetch.rts.rkey_len > 0 { own } else { peer.reach };
        let mut runs = [LocalSlice::EMPTY; RUNS];
        let to = &mut runs[..lane.attr().limits.get.max_iov.clamp(1, RUNS)];
        let (count, length) = loan::runs_of_recv(buffer, fetch.done as usize, length as usize, to);
        let address = fetch.rts.address.checked_add(fetch.done).filter(|_| length > 0);
        let (Some(address), Some(rkey)) = (address, rkey) else {
            return self.refuse(key, OpError::BadRemote);
        };
        let (from, length) = (RemoteSlice { address, rkey }, length as u64);
        match lane.get_zcopy(peer.ep, &to[..count], from, token(key)) {
            Ok(Posted::Done) => {
                fetch.done += length;
                let complete = fetch.done >= fetch.wanted;
                if own.is_none() {
                    peer.reach_proven = true;
                }
                if complete {
                    self.fetched(key);
                } else {
                    self.engine.actions.push(Action::Fetch(key));
                }
            }
            Ok(Posted::InFlight) => fetch.in_flight = length,
            Err(PostError::NoResource) => self.engine.actions.push(Action::Fetch(key)),
            Err(PostError::BadRemote) => self.refuse(key, OpError::BadRemote),
            Err(PostError::PeerFailed) => self.engine.fail_peer(index, PeerFailure::Died),
            // The kernel refuses, or the transport cannot: the message comes in another way.
            Err(_) => {
                peer.reach_refused = true;
                fetch.done = 0;
                let whole = buffer.shape() == Shape::Whole;
                let next = can_land(lane.attr().caps, peer) && own.is_none() && whole;
                fetch.kind = if next { Some(RndvKind::Put) } else { Some(RndvKind::Copy) };
                self.engine.actions.push(Action::Fetch(key));
            }
        }
    }

    /// A message was read whole: the sender has its buffer back.
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
        if let Some(share) = &mut fetch.share {
            share.fail(OpError::Cancelled);
        } else if fetch.open_buffer.is_some() {
            fetch.ended = Some(OpError::Cancelled);
        } else if fetch.in_flight == 0 {
            let _ = self.end_fetch(key);
            self.engine.fail(key, OpError::Cancelled);
        }
    }

    fn end_fetch(&mut self, key: Key) -> Option<(PeerIndex, u64)> {
        let request = self.engine.requests.get_mut(key)?;
        let Body::Receive(receive) = &mut request.body else {
            return None;
        };
        let fetch = receive.fetch.take()?;
        let lane = self.engine.peers[fetch.peer as usize].lane as usize;
        if let Some(rkey) = fetch.rkey {
            self.lanes[lane].iface.rkey_release(rkey);
        }
        if let Some(memory) = fetch.lent {
            // Lent memory is nobody's but the receive's: there is nothing to give back.
            drop(self.lanes[lane].iface.mem_release(memory));
        }
        let (peer, sender) = (fetch.peer, fetch.rts.request);
        self.engine.attendance.keep(fetch);
        Some((peer, sender))
    }

    /// The message cannot be read; its sender is to send it in fragments.
    fn ask_for_fragments(&mut self, key: Key) {
        let Some(request) = self.engine.requests.get_mut(key) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else {
            return;
        };
        let Some(fetch) = receive.fetch.as_mut() else {
            return;
        };
        let (peer, sender, wanted) = (fetch.peer, fetch.rts.request, fetch.wanted);
        fetch.copying = true;
        fetch.done = 0;
        self.control(peer, wire::CTS, [sender, key.to_wire()], &wanted.to_le_bytes());
        let state = self.engine.peers[peer as usize].state;
        if let PeerState::Failed(how) = state {
            self.engine.fail(key, how.into());
        }
    }
}
