//! The rendezvous in which the sender writes (RPUT): for transports that cannot read a peer's
//! memory, or where they are refused.
//!
//! ```text
//!   receiver                                           sender
//!   RTS matched: buffer opened ── PUT (target buffer) ─────► Putting: pieces, then a flush
//!                                                      everything is visible
//!   complete        ◄───────── PUT_DONE, outcome 0 ──  complete
//!   next best kind  ◄───────── PUT_DONE, outcome 1 ──  Offered again: it was refused
//! ```
//! Rules.
//!
//! 1. *The target buffer* is the receive's buffer, lent to the writes of peers, or named by its address
//!    alone where the transport's puts reach all memory. It is closed by the sender's PUT_DONE. A
//!    sender says that only when nothing of it is under way, whether or not it was refused.
//! 2. A receive whose buffer is open ends before that only if nobody can write any more: the peer is
//!    dead or has closed; or it failed otherwise and the lent memory was taken back, which a
//!    transport guarantees to shut it. Memory that is open by its address alone waits for the
//!    peer's end.
//! 3. A send whose pieces the transport has in flight ends with the transport's report of the last
//!    one, since the transport reads its buffer until then.
//!
//! The sender's buffer is free as soon as everything is visible: there is no acknowledgement.

use bowline_base::buffer::RecvBuf;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, Caps, LocalSlice, MemHandle, PeerFailure, PostError, Posted, RemoteSlice, RkeyId,
    WHOLE_PROCESS,
};

use super::{Life, Protocol};
use crate::action::Action;
use crate::engine::Engine;
use crate::loan;
use crate::pack::RUNS;
use crate::peer::PeerIndex;
use crate::proto::coop::{receive_of, writes_no_more};
use crate::proto::get::SEGMENT;
use crate::proto::rendezvous::{RndvKind, reaches_all};
use crate::request::{Body, Receive, Request, Send, SendPhase, Status, token};
use crate::wire::{self, MAX_RKEY};
use crate::worker::Inner;

/// The sender writes the message.
pub(crate) static PUT: Protocol = Protocol { name: "rndv/put", rendezvous: true, life: &Writes };

struct Writes;

impl Life for Writes {}

/// A receive's buffer, open to its sender's writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenBuffer {
    /// The lane over which it is open.
    pub(crate) lane: u32,
    /// Its handle there; none where puts reach all memory, lent or not.
    pub(crate) memory: Option<MemHandle>,
}

impl OpenBuffer {
    /// Rule 2: whether it is shut once its peer has failed in this way and the memory is taken back.
    pub(crate) const fn is_shut_by(&self, how: PeerFailure) -> bool {
        self.memory.is_some() || writes_no_more(how)
    }
}

/// What the sender was asked to write, and how far it came.
#[derive(Debug)]
pub(crate) struct Put {
    /// The receive.
    pub(crate) remote: u64,
    pub(crate) target: wire::TargetBuffer,
    /// Key of the target buffer, once it was opened.
    pub(crate) rkey: Option<RkeyId>,
    /// Bytes handed to the transport.
    pub(crate) posted: u64,
    /// Operations that the transport has in flight.
    pub(crate) in_flight: u32,
    /// Everything posted is visible.
    pub(crate) flushed: bool,
    /// The transport, or the receiver's memory, refuses.
    pub(crate) refused: bool,
}

impl Put {
    pub(crate) const fn new(remote: u64, target: wire::TargetBuffer) -> Self {
        Self { remote, target, rkey: None, posted: 0, in_flight: 0, flushed: false, refused: false }
    }
}

/// What is to be done next.
enum Step {
    /// The transport has all that it is to have for now.
    Wait,
    /// There was no room, or other traffic comes first.
    Again,
    /// Nothing is under way, and nothing more will be.
    End,
    Failed(PeerFailure),
}

impl Inner {
    /// Opens the buffer of a receive to the writes of `index`. None: it cannot be.
    pub(crate) fn open_buffer(
        &mut self,
        index: PeerIndex,
        buffer: &mut RecvBuf,
        wanted: u64,
    ) -> Option<(OpenBuffer, wire::TargetBuffer)> {
        let lane = self.engine.peers[index as usize].lane;
        let iface = &mut *self.lanes[lane as usize].iface;
        let mut target =
            wire::TargetBuffer { address: buffer.address(), wanted, ..wire::TargetBuffer::EMPTY };
        let caps = iface.attr().caps;
        if reaches_all(caps) && !caps.contains(Caps::LENT_ONLY) {
            return Some((OpenBuffer { lane, memory: None }, target));
        }
        let all = loan::of_recv(buffer, 0, wanted as usize)?;
        let memory = match iface.mem_lend(all) {
            Ok(memory) => memory,
            Err(error) => {
                tracing::debug!(%error, "a receive's buffer cannot be lent to its sender");
                return None;
            }
        };
        if reaches_all(caps) {
            // It is found by its address.
            return Some((OpenBuffer { lane, memory: Some(memory) }, target));
        }
        match iface.rkey_pack(memory) {
            Ok(key) if key.len() <= MAX_RKEY => {
                target.rkey[..key.len()].copy_from_slice(&key);
                target.rkey_len = key.len() as u8;
                Some((OpenBuffer { lane, memory: Some(memory) }, target))
            }
            _ => {
                drop(iface.mem_release(memory));
                None
            }
        }
    }

    /// Asks the sender of a matched message to write it. `false` when the buffer cannot be opened.
    pub(crate) fn ask_for_put(&mut self, key: Key) -> bool {
        let Some(request) = self.engine.requests.get_mut(key) else { return true };
        let Body::Receive(Receive { buffer, fetch: Some(fetch), .. }) = &mut request.body else {
            return true;
        };
        let (index, wanted, sender) = (fetch.peer, fetch.wanted, fetch.rts.request);
        let mut buffer = std::mem::replace(buffer, RecvBuf::empty());
        let opened = self.open_buffer(index, &mut buffer, wanted);
        let Some(request) = self.engine.requests.get_mut(key) else { return true };
        let Body::Receive(receive) = &mut request.body else { return true };
        receive.buffer = buffer;
        let (Some(fetch), Some((open, on_wire))) = (receive.fetch.as_mut(), opened) else {
            return false;
        };
        fetch.open_buffer = Some(open);
        let mut payload = [0; wire::TargetBuffer::FIXED + MAX_RKEY];
        let n = on_wire.pack(&mut payload);
        self.control(index, wire::PUT, [sender, key.to_wire()], &payload[..n]);
        if let Some(how) = self.engine.peers[index as usize].failure() {
            self.engine.fail(key, how.into());
        }
        true
    }

    /// The sender's turn: posts what the transport takes, and says when everything is visible.
    pub(crate) fn put_pieces(&mut self, key: Key) {
        match self.put_step(key) {
            Step::Wait => {}
            Step::Again => self.engine.actions.push(Action::Put(key)),
            Step::End => self.end_put(key),
            // The lane tells of the failure itself, after what the peer has sent before it.
            Step::Failed(how) => self.engine.fail(key, how.into()),
        }
    }

    fn put_step(&mut self, key: Key) -> Step {
        let Some(send) = putting(self.engine.requests.get_mut(key)) else { return Step::Wait };
        let Send { peer: index, buffer, put: Some(put), .. } = send else { return Step::Wait };
        let peer = &mut self.engine.peers[*index as usize];
        if let Some(how) = peer.failure() {
            // Rule 3.
            return if put.in_flight > 0 { Step::Wait } else { Step::Failed(how) };
        }
        let lane = &mut *self.lanes[peer.lane as usize].iface;
        let rkey = if put.target.rkey_len == 0 {
            if peer.reach.is_none() {
                peer.reach = lane.rkey_unpack(peer.ep, &WHOLE_PROCESS).ok();
            }
            peer.reach
        } else {
            if put.rkey.is_none() && !put.refused {
                put.rkey = lane.rkey_unpack(peer.ep, put.target.key()).ok();
            }
            put.rkey
        };
        let Some(rkey) = rkey.filter(|_| lane.attr().caps.contains(Caps::PUT_ZCOPY)) else {
            put.refused = true;
            return Step::End;
        };
        let attr = lane.attr();
        let limit = if reaches_all(attr.caps) { SEGMENT } else { attr.limits.put.max_zcopy as u64 };
        let most = attr.limits.put.max_iov.clamp(1, RUNS);
        while put.posted < put.target.wanted && !put.refused {
            let length = (put.target.wanted - put.posted).min(limit.max(1));
            let mut runs = [LocalSlice::EMPTY; RUNS];
            let from = &mut runs[..most];
            let (count, length) =
                loan::runs_of_send(buffer, put.posted as usize, length as usize, from);
            let address = put.target.address.checked_add(put.posted);
            let (Some(address), true) = (address, length > 0) else {
                put.refused = true;
                break;
            };
            let (from, length) = (&from[..count], length as u64);
            match lane.put_zcopy(peer.ep, from, RemoteSlice { address, rkey }, token(key)) {
                Ok(Posted::Done) => {
                    put.posted += length;
                    if put.posted < put.target.wanted {
                        return Step::Again;
                    }
                }
                Ok(Posted::InFlight) => {
                    put.posted += length;
                    put.in_flight += 1;
                }
                Err(PostError::NoResource) if put.in_flight > 0 => return Step::Wait,
                Err(PostError::NoResource) => return Step::Again,
                Err(PostError::PeerFailed) if put.in_flight == 0 => {
                    return Step::Failed(PeerFailure::Died);
                }
                Err(PostError::PeerFailed) => return Step::Wait,
                Err(_) => put.refused = true,
            }
        }
        if put.in_flight > 0 {
            return Step::Wait;
        }
        if put.flushed || put.posted == 0 {
            return Step::End;
        }
        match lane.flush(peer.ep, token(key)) {
            Ok(Posted::Done) => Step::End,
            Ok(Posted::InFlight) => {
                put.in_flight = 1;
                put.flushed = true;
                Step::Wait
            }
            Err(PostError::NoResource) => Step::Again,
            Err(PostError::PeerFailed) => Step::Failed(PeerFailure::Died),
            // Without a flush nothing says when the bytes are there.
            Err(_) => {
                put.refused = true;
                Step::End
            }
        }
    }

    /// Tells the receiver how it went.
    fn end_put(&mut self, key: Key) {
        let Some(send) = putting(self.engine.requests.get_mut(key)) else { return };
        let Some(put) = send.put.take() else { return };
        let (index, length) = (send.peer, send.buffer.len() as u64);
        if put.refused {
            send.phase = SendPhase::Offered;
        }
        if let Some(rkey) = put.rkey {
            let lane = self.engine.peers[index as usize].lane;
            self.lanes[lane as usize].iface.rkey_release(rkey);
        }
        self.control(index, wire::PUT_DONE, [put.remote, u64::from(put.refused)], &[]);
        if !put.refused {
            self.engine.finish(key, Status { length, ..Status::NONE });
        }
    }

    /// Rule 2, when the worker itself ends: buffers that are open by their address alone are leaked,
    /// unless they are somebody else's, who has waited then. Lent ones are shut by their lanes.
    pub(crate) fn leak_open_buffers(&mut self) {
        let peers = &self.engine.peers;
        let open = |buffer: &Option<OpenBuffer>, peer: PeerIndex| {
            let how = peers.get(peer as usize).and_then(|peer| peer.failure());
            buffer.is_some_and(|open| open.memory.is_none()) && !how.is_some_and(writes_no_more)
        };
        let keys: Vec<Key> = self.engine.requests.iter().map(|(key, _)| key).collect();
        for key in keys {
            let request = self.engine.requests.get_mut(key);
            if let Some(Body::Announced(announced)) = request.map(|request| &mut request.body)
                && open(&Some(announced.open_buffer), announced.peer)
            {
                let buffer = &mut announced.receive.buffer;
                std::mem::forget(std::mem::replace(buffer, RecvBuf::empty()));
            }
            if let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key)
                && open(&fetch.open_buffer, fetch.peer)
            {
                std::mem::forget(std::mem::replace(buffer, RecvBuf::empty()));
            }
        }
    }
}

/// A send that its receiver has asked to be written.
fn putting(request: Option<&mut Request>) -> Option<&mut Send> {
    match &mut request.filter(|request| !request.done)?.body {
        Body::Send(send) if send.phase == SendPhase::Putting => Some(send),
        _ => None,
    }
}

impl Engine {
    /// A receiver asks for a message to be written.
    pub(crate) fn put_wanted(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let mut bytes = [0; wire::TargetBuffer::FIXED + MAX_RKEY];
        if payload.len() > bytes.len() {
            return None;
        }
        let n = payload.copy_out(&mut bytes);
        let target = wire::TargetBuffer::parse(&bytes[..n])?;
        let key = Key::from_wire(header[0]);
        let request = self.requests.get_mut(key).filter(|request| !request.done)?;
        let Body::Send(send) = &mut request.body else { return None };
        let offered = send.phase == SendPhase::Offered && send.rendezvous && send.help.is_none();
        if send.peer != peer || !offered || target.wanted > send.buffer.len() as u64 {
            return None;
        }
        send.phase = SendPhase::Putting;
        send.put = Some(Box::new(Put::new(header[1], target)));
        self.actions.push(Action::Put(key));
        Some(())
    }

    /// The sender has written a message, or could not.
    pub(crate) fn put_done(&mut self, peer: PeerIndex, header: &AmHeader) -> Option<()> {
        let key = Key::from_wire(header[0]);
        let refused = match header[1] {
            0 => false,
            1 => true,
            _ => return None,
        };
        // A receive that failed meanwhile is gone; that it is written means nothing.
        let Some((_, fetch)) = receive_of(&mut self.requests, key) else { return Some(()) };
        if fetch.peer != peer {
            return None;
        }
        let open = fetch.open_buffer.take()?;
        let ended = fetch.ended;
        // A message that was not offered cannot be read.
        let readable = fetch.rts.is_readable();
        fetch.kind = if readable { None } else { Some(RndvKind::Copy) };
        let sender = fetch.rts.request;
        if let Some(memory) = open.memory {
            self.actions.push(Action::Withdraw { lane: open.lane, memory });
        }
        if let Some(error) = ended {
            if refused {
                let (request, outcome) = (sender, wire::refusal(None));
                self.actions.push(Action::Refuse { peer, request, outcome });
            }
            self.fail(key, error);
            return Some(());
        }
        if refused {
            self.peers[peer as usize].put_refused = true;
            self.actions.push(Action::Fetch(key));
            return Some(());
        }
        self.counters.landed += 1;
        self.complete_receive(key);
        Some(())
    }

    /// The transport has done with a piece, or with the flush behind all.
    pub(crate) fn put_completed(&mut self, key: Key, result: Result<u64, PeerFailure>) {
        let Some(send) = putting(self.requests.get_mut(key)) else { return };
        let Some(put) = &mut send.put else { return };
        put.in_flight = put.in_flight.saturating_sub(1);
        put.refused |= result.is_err();
        self.actions.push(Action::Put(key));
    }
}
