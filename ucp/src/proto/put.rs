//! The rendezvous in which the sender writes (RPUT): for transports that cannot read a peer's
//! memory, or where they are refused.
//!
//! ```text
//!   receiver                                           sender
//!   RTS matched: buffer opened ── PUT (target buffer) ─────► Moving: pieces, then a flush (rule 4)
//!                                                      everything is visible, or before what comes
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
//! 4. There is no flush where the lane's messages come behind its puts (`Caps::PUT_BEFORE_AM`): the receiver that reads PUT_DONE
//!    has the bytes. A message more in each direction, and the time for both, are saved.
//!
//! The sender's buffer is free as soon as everything is visible, or the transport needs it no more: there is no
//! acknowledgement.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, Arrival, Caps, Iface, LocalSlice, MemHandle, PeerFailure, PostError, Posted,
    RemoteSlice, RkeyId, Verdict, WHOLE_PROCESS,
};

use super::rendezvous::SEGMENT;
use crate::action::Action;
use crate::engine::life::{Life, Offer};
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::loan;
use crate::pack::RUNS;
use crate::peer::{Peer, PeerIndex, can_land, reaches_all};
use crate::proto::peer_offers::Offers;
use crate::protocol::{Protocol, Receiving, Sending};
use crate::request::{OpenBuffer, Requests, Send, SendPhase, receive_of, send_of, token};
use crate::settings::RndvScheme;
use crate::status::{OpStatus, WaitsFor};
use crate::wire::{self, MAX_RKEY, MessageId, Rts, WireKey};

/// The sender writes the message.
pub(crate) static PUT: Protocol = Protocol::rendezvous("rndv/put", |_, _| None);

pub(super) struct Writes;

impl Life for Writes {
    fn protocol(&self) -> &'static Protocol {
        &PUT
    }

    fn ids(&self) -> &'static [MessageId] {
        const { &[MessageId::own(wire::PUT), MessageId::own(wire::PUT_DONE)] }
    }

    fn on_message(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> Option<Verdict> {
        let taken = match am.id {
            wire::PUT => engine.put_wanted(peer, &am.header, am.payload),
            _ => engine.put_done(peer, &am.header),
        };
        taken.map(|()| Verdict::Consumed)
    }

    /// A piece is done, or the flush behind all.
    fn on_completion(&self, engine: &mut Engine, key: Key, result: Result<u64, PeerFailure>) {
        let Some((.., put)) = putting(&mut engine.requests, key) else { return };
        put.in_flight = put.in_flight.saturating_sub(1);
        put.refused |= result.is_err();
        engine.actions.push(Action::Run(key));
    }

    fn is_asked_for(&self, scheme: RndvScheme) -> bool {
        matches!(scheme, RndvScheme::Put | RndvScheme::Rtr)
    }

    fn can(&self, offer: &mut Offer<'_>) -> bool {
        offer.is_whole()
            && offer.fetch.rts.address != Rts::PACKED
            && can_land(offer.caps(), offer.peer)
    }

    fn start(&self, inner: &mut Inner, key: Key) -> bool {
        inner.ask_for_put(key)
    }

    /// The sender posts what the transport takes, and says when everything is visible.
    fn send(&self, inner: &mut Inner, key: Key) {
        let step = inner.put_step(key);
        inner.after_put_step(key, step);
    }
}

/// A receive whose buffer is open to the sender's writes.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) open: OpenBuffer,
    /// The receive has failed otherwise, and ends when nobody writes to its buffer any more.
    pub(crate) ended: Option<OpError>,
}

impl Receiving for Written {
    fn protocol(&self) -> &'static Protocol {
        &PUT
    }

    /// Rule 2.
    fn ends_with(&self, how: PeerFailure) -> bool {
        self.open.is_shut_by(how)
    }

    /// Rule 2: when it is shut.
    fn abort(&mut self, error: OpError) -> bool {
        self.ended.get_or_insert(error);
        false
    }

    fn lent(&self) -> Option<(u32, MemHandle)> {
        self.open.lent()
    }

    fn is_written_after_end(&self, _: &dyn Iface, how: Option<PeerFailure>) -> bool {
        self.open.is_open_after(how)
    }
}

/// What the sender was asked to write, and how far it came.
#[derive(Debug)]
pub(crate) struct Put {
    /// The receive.
    remote: u64,
    target: wire::TargetBuffer,
    /// Key of the target buffer, once it was opened.
    rkey: Option<RkeyId>,
    /// Bytes handed to the transport.
    posted: u64,
    /// Operations that the transport has in flight.
    in_flight: u32,
    /// Everything posted is visible.
    flushed: bool,
    /// The transport, or the receiver's memory, refuses.
    refused: bool,
}

impl Sending for Put {
    fn protocol(&self) -> &'static Protocol {
        &PUT
    }

    /// Rule 3.
    fn in_flight(&self) -> bool {
        self.in_flight > 0
    }

    fn key(&self) -> Option<RkeyId> {
        self.rkey
    }

    fn describe(&self) -> (u64, WaitsFor) {
        (self.posted, WaitsFor::Transport)
    }
}

impl Put {
    pub(crate) const fn new(remote: u64, target: wire::TargetBuffer) -> Self {
        Self { remote, target, rkey: None, posted: 0, in_flight: 0, flushed: false, refused: false }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The transport has all that it is to have for now.
    Wait,
    /// There was no space, or other traffic comes first.
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
        let mut packed = [0; MAX_RKEY];
        if reaches_all(caps)
            && let Some(len) = iface.rkey_of(target.address, wanted as usize, &mut packed)
            && let Some(rkey) = WireKey::of(&packed[..len])
        {
            // Allocated by this worker: its peers map it, and write it without the kernel's help.
            target.rkey = rkey;
            return Some((OpenBuffer { lane, memory: None }, target));
        }
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
        match iface.rkey_pack(memory).ok().and_then(|key| WireKey::of(&key)) {
            Some(rkey) => {
                target.rkey = rkey;
                Some((OpenBuffer { lane, memory: Some(memory) }, target))
            }
            None => {
                drop(iface.mem_release(memory));
                None
            }
        }
    }

    /// Asks the sender of a matched message to write it. `false` when the buffer cannot be opened.
    fn ask_for_put(&mut self, key: Key) -> bool {
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return true };
        let (index, wanted, sender) = (fetch.peer, fetch.wanted, fetch.rts.request);
        let mut buffer = std::mem::replace(buffer, RecvBuf::empty());
        let opened = self.open_buffer(index, &mut buffer, wanted);
        let Some((place, fetch)) = receive_of(&mut self.engine.requests, key) else { return true };
        *place = buffer;
        let Some((open, on_wire)) = opened else {
            self.engine.peers[index as usize].put_refused = true;
            return false;
        };
        fetch.receiver = Some(Box::new(Written { open, ended: None }));
        let mut payload = [0; wire::TargetBuffer::FIXED + MAX_RKEY];
        let n = on_wire.pack(&mut payload);
        self.control(index, wire::PUT, [sender, key.to_wire()], &payload[..n]);
        if let Some(how) = self.engine.peers[index as usize].failure() {
            self.engine.fail(key, how.into());
        }
        true
    }

    fn put_step(&mut self, key: Key) -> Step {
        let Some((index, buffer, put)) = putting(&mut self.engine.requests, key) else {
            return Step::Wait;
        };
        let peer = &mut self.engine.peers[index as usize];
        put.step(&mut *self.lanes[peer.lane as usize].iface, peer, buffer, key)
    }

    /// Does what a step of a send asks for that is written.
    pub(crate) fn after_put_step(&mut self, key: Key, step: Step) {
        match step {
            Step::Wait => {}
            Step::Again => self.engine.actions.push(Action::Run(key)),
            Step::End => self.end_put(key),
            // The lane reports the failure itself, after what the peer has sent before it.
            Step::Failed(how) => self.engine.fail(key, how.into()),
        }
    }

    /// Reports to the receiver how it went.
    pub(crate) fn end_put(&mut self, key: Key) {
        let Some((index, buffer, put)) = putting(&mut self.engine.requests, key) else { return };
        let Put { remote, rkey, refused, .. } = *put;
        let length = buffer.len() as u64;
        let offers = self.engine.peers[index as usize].watches.of_mut::<Offers>();
        if offers.is_some_and(|offers| offers.note_written(key, refused)) {
            return self.report_written(index, key);
        }
        if let Some(send) = send_of(&mut self.engine.requests, key) {
            send.phase = SendPhase::Offered;
        }
        if let Some(rkey) = rkey {
            let lane = self.engine.peers[index as usize].lane;
            self.lanes[lane as usize].iface.rkey_release(rkey);
        }
        self.control(index, wire::PUT_DONE, [remote, u64::from(refused)], &[]);
        if !refused {
            self.engine.finish(key, OpStatus { length, ..OpStatus::NONE });
        }
    }
}

impl Put {
    /// Posts what the transport takes of the message `buffer`, whose request is `key`.
    pub(crate) fn step(
        &mut self,
        lane: &mut dyn Iface,
        peer: &mut Peer,
        buffer: &SendBuf,
        key: Key,
    ) -> Step {
        if let Some(how) = peer.failure() {
            // Rule 3.
            return if self.in_flight > 0 { Step::Wait } else { Step::Failed(how) };
        }
        let rkey = if self.target.rkey.is_none() {
            if peer.whole_rkey.is_none() {
                peer.whole_rkey = lane.rkey_unpack(peer.ep, &WHOLE_PROCESS).ok();
            }
            peer.whole_rkey
        } else {
            if self.rkey.is_none() && !self.refused {
                self.rkey = lane.rkey_unpack(peer.ep, self.target.rkey.bytes()).ok();
            }
            self.rkey
        };
        let Some(rkey) = rkey.filter(|_| lane.attr().caps.contains(Caps::PUT_ZCOPY)) else {
            self.refused = true;
            return Step::End;
        };
        let attr = lane.attr();
        let limit = if reaches_all(attr.caps) { SEGMENT } else { attr.limits.put.max_zcopy as u64 };
        let most = attr.limits.put.max_iov.clamp(1, RUNS);
        let ordered = attr.caps.contains(Caps::PUT_BEFORE_AM);
        while self.posted < self.target.wanted && !self.refused {
            let length = (self.target.wanted - self.posted).min(limit.max(1));
            let mut runs = [LocalSlice::EMPTY; RUNS];
            let from = &mut runs[..most];
            let (count, length) =
                loan::runs_of_send(buffer, self.posted as usize, length as usize, from);
            let address = self.target.address.checked_add(self.posted);
            let (Some(address), true) = (address, length > 0) else {
                self.refused = true;
                break;
            };
            let (from, length) = (&from[..count], length as u64);
            match lane.put_zcopy(peer.ep, from, RemoteSlice { address, rkey }, token(key)) {
                Ok(Posted::Done) => {
                    self.posted += length;
                    if self.posted < self.target.wanted {
                        return Step::Again;
                    }
                }
                Ok(Posted::InFlight) => {
                    self.posted += length;
                    self.in_flight += 1;
                }
                Err(PostError::NoResource) if self.in_flight > 0 => return Step::Wait,
                Err(PostError::NoResource) => return Step::Again,
                Err(PostError::PeerFailed) if self.in_flight == 0 => {
                    return Step::Failed(PeerFailure::Died);
                }
                Err(PostError::PeerFailed) => return Step::Wait,
                Err(_) => self.refused = true,
            }
        }
        if self.in_flight > 0 {
            return Step::Wait;
        }
        // Rule 4.
        if self.flushed || self.posted == 0 || ordered {
            return Step::End;
        }
        match lane.flush(peer.ep, token(key)) {
            Ok(Posted::Done) => Step::End,
            Ok(Posted::InFlight) => {
                self.in_flight = 1;
                self.flushed = true;
                Step::Wait
            }
            Err(PostError::NoResource) => Step::Again,
            Err(PostError::PeerFailed) => Step::Failed(PeerFailure::Died),
            // Without a flush nothing says when the bytes are there.
            Err(_) => {
                self.refused = true;
                Step::End
            }
        }
    }

    /// Whether every byte is visible, as it is if the step that ended it was the first.
    pub(crate) const fn is_whole(&self) -> bool {
        !self.refused
    }

    /// The key that it has opened, which is its holder's from now on.
    pub(crate) fn take_key(&mut self) -> Option<RkeyId> {
        self.rkey.take()
    }
}

/// A send that is being written to its receiver: the peer, the buffer, and how far it came.
pub(crate) fn putting(
    requests: &mut Requests,
    key: Key,
) -> Option<(PeerIndex, &mut SendBuf, &mut Put)> {
    match send_of(requests, key)? {
        Send { peer, buffer, phase: SendPhase::Moving(sender), .. } => {
            Some((*peer, buffer, sender.state()?))
        }
        _ => None,
    }
}

impl Engine {
    /// A receiver asks for a message to be written.
    fn put_wanted(&mut self, peer: PeerIndex, header: &AmHeader, payload: View<'_>) -> Option<()> {
        let mut bytes = [0; wire::TargetBuffer::FIXED + MAX_RKEY];
        if payload.len() > bytes.len() {
            return None;
        }
        let n = payload.copy_out(&mut bytes);
        let target = wire::TargetBuffer::parse(&bytes[..n])?;
        let Some(send) = self.asked_for(peer, header[0])? else { return Some(()) };
        if target.wanted > send.buffer.len() as u64 {
            return None;
        }
        send.phase = SendPhase::Moving(Box::new(Put::new(header[1], target)));
        self.actions.push(Action::Run(Key::from_wire(header[0])));
        Some(())
    }

    /// The sender has written a message, or could not.
    fn put_done(&mut self, peer: PeerIndex, header: &AmHeader) -> Option<()> {
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
        let Written { open, ended } = *fetch.state()?;
        let sender = fetch.rts.request;
        fetch.receiver = None;
        if let Some((lane, memory)) = open.lent() {
            self.actions.push(Action::Withdraw { lane, memory });
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
            self.actions.push(Action::Run(key));
            return Some(());
        }
        self.counters.landed += 1;
        self.complete_receive(key);
        Some(())
    }
}
