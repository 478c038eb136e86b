//! What the engine does with each kind of arrival.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, Arrival, PeerFailure, Verdict};

use super::Engine;
use crate::action::Action;
use crate::address::WorkerAddress;
use crate::error::OpError;
use crate::matching::Envelope;
use crate::peer::{Peer, PeerIndex};
use crate::request::{Body, Fetch, Send, SendPhase, send_of};
use crate::select::{Measure, MessageKind};
use crate::status::OpStatus;
use crate::unexpected::Payload;
use crate::wire::{self, MessageId, Rts};

/// Longest control payload: an RTS with the longest key.
const CONTROL: usize = Rts::FIXED + wire::MAX_RKEY;

impl Engine {
    /// Anything but a plain eager message. Bytes of a stream are asked for here, since most sends of one are short.
    #[inline(never)]
    pub(super) fn other(&mut self, peer: PeerIndex, arrival: &Arrival<'_>) -> Verdict {
        match arrival.id {
            wire::AM if self.am_in_place(peer, arrival) => Verdict::Consumed,
            wire::STREAM => match self.stream_data(peer, arrival.payload) {
                Some(verdict) => verdict,
                None => self.reject_message(peer, wire::STREAM.into()),
            },
            _ => self.arrive(peer, arrival),
        }
    }

    /// What is neither of a stream, in one piece, nor taken in place by a handler.
    #[inline(never)]
    pub(super) fn arrive(&mut self, peer: PeerIndex, arrival: &Arrival<'_>) -> Verdict {
        let header = &arrival.header;
        let fine = match arrival.id {
            // A message that lies with a peer whose endpoint is being closed cannot be read any more.
            wire::RTS | wire::AM_RTS if self.is_closing(peer) => Some(()),
            wire::RTS => self.rts(peer, header, arrival.payload),
            wire::ACK => self.ack(peer, header),
            wire::CREDIT => self.credit(peer, header),
            wire::SELECT => self.selected(peer, [header[0], header[1]]),
            wire::SEND_CANCEL => self.on_send_cancel(peer, header, arrival.payload),
            wire::DISCONNECT => self.disconnected(peer, header, arrival.payload),
            wire::PROBE => Some(()),
            wire::NOTICE => self.notice(peer, header, arrival.payload),
            wire::REMOTE => self.remote(peer, header, arrival.payload),
            wire::REMOTE_DONE => self.remote_done(peer, header, arrival.payload),
            wire::AM => self.am(peer, header, arrival.payload),
            wire::STREAM_RTS => self.stream_rts(peer, arrival.payload),
            wire::AM_RTS => self.am_rts(peer, header, arrival.payload),
            _ => {
                let verdict = match arrival.id {
                    wire::STREAM_END => {
                        self.stream_end_piece(peer, [header[0], header[1]], arrival.payload)
                    }
                    // Else a second HELLO, a reserved id or one that never was.
                    _ => match self.protocols.of(MessageId::of(arrival)) {
                        Some(life) => life.on_message(self, peer, arrival),
                        None => None,
                    },
                };
                return match verdict {
                    Some(verdict) => verdict,
                    None => self.reject_message(peer, MessageId::of(arrival)),
                };
            }
        };
        match fine {
            Some(()) => Verdict::Consumed,
            None => self.reject_message(peer, MessageId::of(arrival)),
        }
    }

    /// Gives up a peer whose message no correct peer sends.
    #[cold]
    fn reject_message(&mut self, peer: PeerIndex, id: MessageId) -> Verdict {
        let (number, id) = (id.number(), id.am().get());
        let why = match number {
            Some(number) => format!("a message of id {id} and number {number} that means nothing"),
            None if wire::RESERVED.contains(&id) => {
                format!("a message of id {id}, which is reserved")
            }
            None => format!("a message of id {id} that means nothing"),
        };
        self.reject(peer, PeerFailure::Damaged, &why);
        Verdict::Consumed
    }

    /// The first message of a sender must be its HELLO.
    #[cold]
    pub(super) fn first_contact(&mut self, lane: usize, arrival: &Arrival<'_>) {
        if arrival.id != wire::HELLO || self.is_rejected(lane, arrival.source) {
            self.counters.stray += 1;
            return;
        }
        let address = match WorkerAddress::parse(&arrival.payload.to_vec()) {
            Ok(address) => address,
            Err(error) => {
                self.counters.stray += 1;
                tracing::warn!(lane, %error, "dropped a first contact");
                return;
            }
        };
        let peer = self.meet(address);
        if self.peers[peer as usize].failure().is_some() {
            // A peer that was given up does not come back by another connection.
            self.counters.stray += 1;
            return;
        }
        self.bind(lane, arrival.source, peer);
        self.peers[peer as usize].rx_sequence = wire::sequence(&arrival.header).wrapping_add(1);
        self.actions.push(Action::Connect(peer));
    }

    /// The peer with this address, new or known.
    pub(crate) fn meet(&mut self, address: WorkerAddress) -> PeerIndex {
        if let Some(&known) = self.by_uid.get(&address.uid) {
            return known;
        }
        let uid = address.uid;
        let index = self.allocate_slot(Peer::new(address, self.options.share_first));
        self.by_uid.insert(uid, index);
        index
    }

    #[cold]
    pub(super) fn out_of_sequence(&mut self, peer: PeerIndex) {
        self.reject(peer, PeerFailure::Damaged, "its messages are out of sequence");
    }

    fn rts(&mut self, peer: PeerIndex, header: &AmHeader, payload: View<'_>) -> Option<()> {
        let mut bytes = [0; CONTROL];
        if payload.len() > CONTROL {
            return None;
        }
        let n = payload.copy_out(&mut bytes);
        let rts = Rts::parse(&bytes[..n])?;
        let envelope = wire::envelope(header);
        match self.posted(&envelope) {
            Ok(key) => {
                self.begin_fetch(key, peer, &envelope, rts, Some(MessageKind::Tagged));
            }
            Err(holder) => match self.failed_collective_member(&envelope, holder) {
                Some(dead) => {
                    let (request, outcome) = (rts.request, wire::refusal(Some(dead)));
                    self.actions.push(Action::Refuse { peer, request, outcome });
                }
                None => {
                    let remote = Payload::Remote(Box::new(rts));
                    self.enqueue_unexpected(peer, &envelope, (rts.length, 0), remote, holder);
                }
            },
        }
        Some(())
    }

    /// A receive has found a message that lies with its sender, and that is measured where it has a `kind` and no key.
    pub(crate) fn begin_fetch(
        &mut self,
        key: Key,
        peer: PeerIndex,
        env: &Envelope,
        rts: Rts,
        kind: Option<MessageKind>,
    ) {
        self.counters.matched += 1;
        // What memory with a key of its own takes, which may be mapped here, says nothing of other memory.
        let measure = kind
            .filter(|_| rts.rkey.is_none())
            .map_or(Measure::NONE, |kind| self.begin_measure(peer, kind, rts.marks, rts.length));
        if self.may_grow(peer, rts.length) {
            self.actions.push(Action::Credit(peer));
        }
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else {
            return;
        };
        let wanted = rts.length.min(receive.buffer.len() as u64);
        let outcome = if wanted == rts.length {
            Ok(())
        } else {
            Err(OpError::Truncated { message: rts.length, capacity: wanted })
        };
        request.status = OpStatus { source: env.source, tag: env.tag, length: rts.length, outcome };
        let measure = if wanted == rts.length { measure } else { Measure::NONE };
        let fetch = Fetch { measure, ..Fetch::new(peer, rts, wanted) };
        receive.fetch = Some(self.async_state.boxed(fetch));
        self.actions.push(Action::Run(key));
    }

    /// The send that a receiver asks for, which lies here for it. `None`: no correct peer asks for that. `Some(None)`: the
    /// question crosses our DISCONNECT, behind which nothing is written or sent to the receiver; its own end of the close
    /// ends what it asked for.
    pub(crate) fn asked_for(&mut self, peer: PeerIndex, request: u64) -> Option<Option<&mut Send>> {
        if self.is_closing(peer) {
            return Some(None);
        }
        let send = send_of(&mut self.requests, Key::from_wire(request))?;
        (send.peer == peer && send.is_offered()).then_some(Some(send))
    }

    pub(crate) fn ack(&mut self, peer: PeerIndex, header: &AmHeader) -> Option<()> {
        let key = Key::from_wire(header[0]);
        let outcome = wire::outcome(header[1])?;
        // A request that was failed meanwhile is gone; its acknowledgement means nothing.
        if let Some(send) = send_of(&mut self.requests, key).filter(|send| send.peer == peer) {
            match &mut send.phase {
                SendPhase::Offered => {
                    let length = send.buffer.len() as u64;
                    self.finish(key, OpStatus { length, outcome, ..OpStatus::NONE });
                }
                SendPhase::Moving(sender) => {
                    *sender.answer()? = Some(outcome);
                    self.actions.push(Action::Run(key));
                }
                SendPhase::Queued { .. } => return None,
            }
        }
        Some(())
    }

    pub(crate) fn credit(&mut self, peer: PeerIndex, header: &AmHeader) -> Option<()> {
        let bytes = i64::try_from(header[0]).ok()?;
        let known = &mut self.peers[peer as usize];
        known.credit = known.credit.checked_add(bytes)?;
        if !known.pending.is_empty() {
            self.actions.push(Action::Resume(peer));
        }
        let parked = |stream: &mut crate::state::stream::Stream| {
            !stream.parked.is_empty() || !stream.parked_ams.is_empty()
        };
        if self.streams.get_mut(peer).is_some_and(parked) {
            self.actions.push(Action::Unpark(peer));
        }
        Some(())
    }
}
