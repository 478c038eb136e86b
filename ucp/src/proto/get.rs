//! The rendezvous in which the receiver reads the message from where it lies with its sender, alone: by the transport,
//! or, where both map its memory, by a copy. [`crate::proto::coop`] reads with the sender's help.

use bowline_base::slab::Key;
use bowline_uct::{Caps, LocalSlice, PeerFailure, PostError, Posted, RemoteSlice};

use super::rendezvous::SEGMENT;
use crate::action::Action;
use crate::engine::life::{Life, Offer};
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::loan;
use crate::pack::RUNS;
use crate::protocol::{Protocol, Receiving};
use crate::request::{receive_of, token};
use crate::settings::RndvScheme;

/// The receiver reads the message from the sender's memory.
pub(crate) static GET: Protocol = Protocol::rendezvous("rndv/get", |op, context| {
    let line = context.envelope(op).plus(context.get());
    context.reads(op).then(|| (line, context.rndv_start(op), u64::MAX))
});

/// Bytes of a piece that signal-safe progress copies by the processor: some 2 to 30 us. Whether another is copied is said
/// by the caller, who has a clock.
const PIECE: u64 = 128 << 10;

/// A message that is read.
#[derive(Debug)]
pub(crate) struct Read;

impl Receiving for Read {
    fn protocol(&self) -> &'static Protocol {
        &GET
    }
}

pub(super) struct Get;

impl Life for Get {
    fn protocol(&self) -> &'static Protocol {
        &GET
    }

    fn is_asked_for(&self, scheme: RndvScheme) -> bool {
        scheme == RndvScheme::Get
    }

    fn can(&self, offer: &mut Offer<'_>) -> bool {
        offer.can_read()
    }

    fn start(&self, inner: &mut Inner, key: Key) -> bool {
        let begun = self.start_signal_safe(inner, key);
        self.receive(inner, key);
        begun
    }

    fn start_signal_safe(&self, inner: &mut Inner, key: Key) -> bool {
        if let Some((_, fetch)) = receive_of(&mut inner.engine.requests, key) {
            // It has no state, and so takes no memory.
            fetch.receiver = Some(Box::new(Read));
            fetch.in_flight = 0;
        }
        true
    }

    fn receive(&self, inner: &mut Inner, key: Key) {
        if !inner.copy_mapped(key) {
            inner.read(key);
        }
    }

    fn receive_signal_safe(&self, inner: &mut Inner, key: Key, copied: &mut bool) -> bool {
        inner.read_signal_safe(key, copied)
    }

    fn on_completion(&self, engine: &mut Engine, key: Key, result: Result<u64, PeerFailure>) {
        let Some((_, fetch)) = receive_of(&mut engine.requests, key) else { return };
        let arrived = std::mem::take(&mut fetch.in_flight);
        match result {
            Ok(_) => {
                fetch.done += arrived;
                // Read without a key of the message's own: the peer's memory is open.
                let proven = fetch.rkey.is_none() && fetch.rts.rkey.is_none();
                engine.peers[fetch.peer as usize].direct_read_verified |= proven;
            }
            Err(_) => fetch.refuse_reads(),
        }
        engine.actions.push(Action::Run(key));
    }
}

impl Inner {
    /// Copies the next segment of a message from memory that both sides map. `false`: it is not mapped.
    fn copy_mapped(&mut self, key: Key) -> bool {
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return true };
        let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize].iface;
        let Some(rkey) = fetch.rkey else { return false };
        let length = (fetch.wanted - fetch.done).min(SEGMENT);
        let view = fetch
            .rts
            .address
            .checked_add(fetch.done)
            .and_then(|address| lane.rkey_ptr(rkey, address, usize::try_from(length).ok()?));
        let Some(view) = view else { return false };
        buffer.copy_at(fetch.done as usize, view);
        fetch.done += length;
        if fetch.done >= fetch.wanted {
            self.engine.counters.mapped += 1;
            self.fetched(key);
        } else {
            self.engine.actions.push(Action::Run(key));
        }
        true
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
        let rkey = if fetch.rts.rkey.is_none() { peer.whole_rkey } else { own };
        let mut runs = [LocalSlice::EMPTY; RUNS];
        let to = &mut runs[..lane.attr().limits.get.max_iov.clamp(1, RUNS)];
        let (count, length) = loan::runs_of_recv(buffer, fetch.done as usize, length as usize, to);
        let address = fetch.rts.address.checked_add(fetch.done).filter(|_| length > 0);
        let (Some(address), Some(rkey)) = (address, rkey) else {
            return self.refuse(key, OpError::BadRemote);
        };
        let (from, length) = (RemoteSlice { address, rkey }, length as u64);
        let prepared = self.engine.async_state.prepared_for(key, peer.lane);
        let mut posted = Err(PostError::NoResource);
        if let (Some(memory), [all]) = (prepared, &to[..count]) {
            posted = lane.get_prepared(peer.ep, memory, *all, from, token(key));
        }
        if posted == Err(PostError::NoResource) {
            // Without a connection only this asks for one.
            posted = lane.get_zcopy(peer.ep, &to[..count], from, token(key));
        }
        match posted {
            Ok(Posted::Done) => {
                fetch.done += length;
                let complete = fetch.done >= fetch.wanted;
                if own.is_none() {
                    peer.direct_read_verified = true;
                }
                if complete {
                    self.fetched(key);
                } else {
                    self.engine.actions.push(Action::Run(key));
                }
            }
            Ok(Posted::InFlight) => {
                fetch.in_flight = length;
                self.lanes[peer.lane as usize].has_read = true;
            }
            Err(PostError::NoResource) => self.engine.actions.push(Action::Run(key)),
            Err(PostError::BadRemote) => self.refuse(key, OpError::BadRemote),
            Err(PostError::PeerFailed) => self.engine.fail_peer(index, PeerFailure::Died),
            // The kernel refuses, or the transport cannot: the message comes by another protocol.
            Err(_) => {
                peer.direct_read_denied = true;
                fetch.refuse_reads();
                self.engine.actions.push(Action::Run(key));
            }
        }
    }

    /// Reads the next part of a message by its key, into memory that is ready for that, or by the key of its sender's whole
    /// memory.
    fn read_signal_safe(&mut self, key: Key, copied: &mut bool) -> bool {
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return true };
        let peer = &self.engine.peers[fetch.peer as usize];
        let lane = &mut self.lanes[peer.lane as usize].iface;
        let carries = lane.attr().caps.contains(Caps::CARRIES);
        if !carries && std::mem::replace(copied, true) {
            return false;
        }
        let limit = if carries { lane.attr().limits.get.max_zcopy as u64 } else { PIECE };
        let length = (fetch.wanted - fetch.done).min(limit);
        let to = loan::of_recv(buffer, fetch.done as usize, length as usize);
        let address = fetch.rts.address.checked_add(fetch.done);
        let rkey = if fetch.rts.rkey.is_none() { peer.whole_rkey } else { fetch.rkey };
        let (Some(address), Some(rkey), Some(to)) = (address, rkey, to) else { return false };
        let from = RemoteSlice { address, rkey };
        let posted = match self.engine.async_state.prepared_for(key, peer.lane) {
            Some(memory) => lane.get_prepared(peer.ep, memory, to, from, token(key)),
            None if lane.attr().caps.contains(Caps::GET_PREPARED) => return false,
            None => lane.get_zcopy(peer.ep, &[to], from, token(key)),
        };
        match posted {
            Ok(Posted::Done) => {
                fetch.done += length;
                fetch.done >= fetch.wanted && self.end_signal_safe(key)
            }
            Ok(Posted::InFlight) => {
                fetch.in_flight = length;
                true
            }
            // Asked again by the next call, which knows what to do about it.
            Err(_) => false,
        }
    }
}
