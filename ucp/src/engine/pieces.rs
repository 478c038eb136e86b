//! Messages that come in pieces: eager ones, and user's active messages.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, Verdict};

use super::Engine;
use crate::action::Action;
use crate::error::OpError;
use crate::peer::{Assembly, PeerIndex, Target};
use crate::request::Body;
use crate::select::{EAGER, Marks, Measure, MessageKind, PieceTimes};
use crate::state::inbox::{AmArrival, Delivery};
use crate::status::OpStatus;
use crate::unexpected::{INLINE, Payload, Unexpected};
use crate::wire::{self, FirstPiece};

/// Longest message that may come in eager pieces: no correct sender goes beyond its credit.
const MAX_PIECES: u64 = 1 << 31;

/// Active messages in the inbox from which on they are counted: most are delivered at once.
const MANY: usize = 1 << 10;

/// Most messages that one sender may have in pieces at once.
const MAX_ASSEMBLIES: usize = 64;

impl Engine {
    /// Reads the front of a first piece and checks its claims.
    fn first_piece<'a>(
        &self,
        peer: PeerIndex,
        payload: View<'a>,
    ) -> Option<(FirstPiece, View<'a>)> {
        let mut front = [0; FirstPiece::BYTES];
        let data = payload.slice(front.len(), payload.len().checked_sub(front.len())?)?;
        payload.copy_out(&mut front);
        let first = FirstPiece::parse(&front)?;
        let under_way = &self.peers[peer as usize].assemblies;
        let twice = under_way.iter().any(|a| a.message == first.message);
        let fine = !twice
            && under_way.len() < MAX_ASSEMBLIES
            && first.total <= MAX_PIECES
            && data.len() as u64 <= first.total;
        fine.then_some((first, data))
    }

    pub(super) fn eager_first(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let (first, data) = self.first_piece(peer, payload)?;
        let envelope = wire::envelope(header);
        let target = match self.posted(&envelope) {
            Ok(key) => {
                if first.request != 0 {
                    self.actions.push(Action::Acknowledge { peer, request: first.request });
                }
                self.counters.matched += 1;
                let request = self.requests.get_mut(key)?;
                request.status.source = envelope.source;
                request.status.tag = envelope.tag;
                request.status.length = first.total;
                Target::Receive(key)
            }
            Err(holder) => match self.failed_collective_member(&envelope, holder) {
                Some(dead) => {
                    if first.request != 0 {
                        let (request, outcome) = (first.request, wire::refusal(Some(dead)));
                        self.actions.push(Action::Refuse { peer, request, outcome });
                    }
                    Target::Discard
                }
                None => {
                    let payload = Payload::Partial(Vec::new());
                    let what = (first.total, first.request);
                    Target::Unexpected(
                        self.enqueue_unexpected(peer, &envelope, what, payload, holder),
                    )
                }
            },
        };
        let kind = match target {
            Target::Receive(_) => Some(MessageKind::Tagged),
            Target::Unexpected(_) => Some(MessageKind::Unexpected),
            _ => None,
        };
        let measure = kind
            .map_or(Measure::NONE, |kind| self.begin_measure(peer, kind, first.marks, first.total));
        self.begin_assembly(peer, &first, target, data, measure);
        Some(())
    }

    pub(super) fn am_first(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let (first, data) = self.first_piece(peer, payload)?;
        let id = u16::try_from(header[0]).ok()?;
        let header_len = u32::try_from(header[1]).ok()?;
        if u64::from(header_len) > first.total {
            return None;
        }
        let target = Target::Am(id, header_len, Vec::new());
        let data_bytes = first.total - u64::from(header_len);
        let measure = self.begin_measure(peer, MessageKind::Active, first.marks, data_bytes);
        self.begin_assembly(peer, &first, target, data, measure);
        Some(())
    }

    fn begin_assembly(
        &mut self,
        peer: PeerIndex,
        first: &FirstPiece,
        target: Target,
        data: View<'_>,
        measure: Measure,
    ) {
        let assemblies = &mut self.peers[peer as usize].assemblies;
        assemblies.push(Assembly {
            message: first.message,
            target,
            received: 0,
            total: first.total,
            first: data.len() as u64,
            measure,
            times: PieceTimes::begun(measure.begun),
        });
        let at = assemblies.len() - 1;
        // It is hardly ever the whole message.
        let _ = self.add_piece(peer, at, 0, data);
    }

    pub(super) fn piece(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<Verdict> {
        let assemblies = &self.peers[peer as usize].assemblies;
        let at = assemblies.iter().position(|a| a.message == header[0])?;
        let end = header[1].checked_add(payload.len() as u64)?;
        // One ordered lane: pieces come one after the other, so that none can leave a hole.
        if header[1] != assemblies[at].received || end > assemblies[at].total {
            return None;
        }
        Some(self.add_piece(peer, at, header[1] as usize, payload))
    }

    /// Puts a piece where its message goes, and completes the message with its last one.
    fn add_piece(&mut self, peer: PeerIndex, at: usize, offset: usize, data: View<'_>) -> Verdict {
        let assembly = &mut self.peers[peer as usize].assemblies[at];
        assembly.received += data.len() as u64;
        // Memory grows with what has really come, not with what a sender claims.
        let mut held = 0;
        match &mut assembly.target {
            Target::Receive(key) => {
                let request = self.requests.get_mut(*key);
                if let Some(Body::Receive(receive)) = request.map(|r| &mut r.body) {
                    receive.buffer.copy_at(offset, data);
                }
            }
            Target::Unexpected(key) => {
                let waiting = self.unexpected.get_mut(*key);
                if let Some(Payload::Partial(bytes)) = waiting.map(|u| &mut u.payload) {
                    data.append_to(bytes);
                    held = data.len();
                }
            }
            Target::Am(_, _, bytes) => {
                data.append_to(bytes);
                held = data.len();
            }
            Target::Discard => {}
        }
        let whole = assembly.received >= assembly.total;
        if offset > 0
            && assembly.is_timed()
            && let Some(now) = self.meter.now()
        {
            assembly.times.piece(now);
        }
        self.hold(peer, held);
        if whole {
            let assembly = self.peers[peer as usize].assemblies.swap_remove(at);
            return self.assembled(peer, assembly);
        }
        Verdict::Consumed
    }

    fn assembled(&mut self, peer: PeerIndex, assembly: Assembly) -> Verdict {
        let Assembly { measure, total, first, .. } = assembly;
        let (marks, spent) = (measure.traffic.marks, assembly.spent());
        match assembly.target {
            Target::Receive(key) => {
                self.taken(peer, total as usize);
                if measure.traffic.kind == MessageKind::Unexpected {
                    let end = Some(assembly.times.last());
                    self.end_unexpected(peer, marks, total, (spent, end));
                } else {
                    self.end_measure(peer, measure, EAGER, total, first);
                }
                let request = self.requests.get_mut(key);
                let space = match request.map(|request| &request.body) {
                    Some(Body::Receive(receive)) => Some(receive.space),
                    _ => None,
                };
                self.complete_receive(key);
                if let Some(space) = space {
                    return self.verdict(space, total as usize);
                }
            }
            Target::Unexpected(key) => {
                let waiting = self.unexpected.get_mut(key);
                if let Some(Unexpected { payload, .. }) = waiting
                    && let Payload::Partial(bytes) = payload
                {
                    *payload = Payload::Assembled { bytes: std::mem::take(bytes), marks, spent };
                }
            }
            Target::Am(id, header, bytes) => {
                // By the length of its data alone, as where that is offered.
                let data = total - u64::from(header);
                self.end_measure(peer, measure, EAGER, data, first.min(data));
                if bytes.len() <= INLINE {
                    // As of one that came in one piece, it counts as part of its entry.
                    self.let_go(peer, bytes.len());
                }
                let from = self.ep(peer);
                let arrival = AmArrival { from, id, header, payload: bytes, remote: None };
                self.inbox.push_back(Delivery::Am(arrival));
                self.note_entry();
            }
            Target::Discard => self.taken(peer, total as usize),
        }
        Verdict::Consumed
    }

    /// Completes a receive whose status names the message, truncated or not.
    pub(crate) fn complete_receive(&mut self, key: Key) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        let Body::Receive(receive) = &request.body else {
            return;
        };
        let (message, capacity) = (request.status.length, receive.buffer.len() as u64);
        let outcome = match message > capacity {
            _ if receive.buffer.failed() => Err(OpError::NotUnpacked),
            true => Err(OpError::Truncated { message, capacity }),
            false => Ok(()),
        };
        let status = OpStatus { outcome, ..request.status };
        self.finish(key, status);
    }

    /// Gives a waiting message to a receive that was posted after it came.
    pub(crate) fn hand_over(&mut self, receive: Key, message: Key) {
        if let Some(waiting) = self.unexpected.get_mut(message)
            && let Some(request) = self.requests.get_mut(receive)
        {
            request.status = OpStatus {
                source: waiting.source,
                tag: waiting.tag,
                length: waiting.length,
                outcome: Ok(()),
            };
        }
        self.acknowledge_match(message);
        let Some(waiting) = self.remove_unexpected(message) else {
            return;
        };
        let length = waiting.length as usize;
        let bytes: &[u8] = match &waiting.payload {
            Payload::Inline(inline) => &inline[..length],
            Payload::Whole(bytes) => bytes,
            Payload::Assembled { bytes, marks, spent } => {
                return self.hand_over_assembled(receive, waiting.peer, bytes, (*marks, *spent));
            }
            Payload::Partial(bytes) => {
                return self.continue_in(receive, message, waiting.peer, bytes);
            }
            Payload::Remote(rts) => {
                let envelope = crate::matching::Envelope {
                    space: waiting.space,
                    source: waiting.source,
                    tag: waiting.tag,
                };
                self.begin_fetch(
                    receive,
                    waiting.peer,
                    &envelope,
                    **rts,
                    Some(MessageKind::Unexpected),
                );
                return;
            }
        };
        if let Some(Body::Receive(to)) = self.requests.get_mut(receive).map(|r| &mut r.body) {
            to.buffer.write_at(0, bytes);
        }
        self.taken(waiting.peer, length);
        self.complete_receive(receive);
    }

    /// The same of a message that has come in pieces, and is measured.
    fn hand_over_assembled(
        &mut self,
        receive: Key,
        peer: PeerIndex,
        bytes: &[u8],
        (marks, spent): (Marks, u64),
    ) {
        let timed = spent != 0 && spent != Measure::UNTIMED;
        let begun = if timed { self.meter.now() } else { None };
        if let Some(Body::Receive(to)) = self.requests.get_mut(receive).map(|r| &mut r.body) {
            to.buffer.write_at(0, bytes);
        }
        let now = if timed { self.meter.now() } else { None };
        let copied = now.zip(begun).map_or(0, |(now, begun)| now.saturating_sub(begun));
        self.end_unexpected(peer, marks, bytes.len() as u64, (spent.saturating_add(copied), now));
        self.taken(peer, bytes.len());
        self.complete_receive(receive);
    }

    /// Has the pieces of a message that has begun to come go straight into a receive, behind the `bytes` that are here.
    fn continue_in(&mut self, receive: Key, message: Key, peer: PeerIndex, bytes: &[u8]) {
        let is_it =
            |a: &&mut Assembly| matches!(a.target, Target::Unexpected(key) if key == message);
        let known = self.peers.get_mut(peer as usize);
        let assembly =
            match known.map(|peer| (peer.failure(), peer.assemblies.iter_mut().find(is_it))) {
                Some((None, Some(assembly))) => assembly,
                // Its sender has failed: it never becomes whole.
                lost => {
                    let how = lost.and_then(|(failure, _)| failure);
                    return self.fail(receive, how.map_or(OpError::Cancelled, OpError::from));
                }
            };
        assembly.target = Target::Receive(receive);
        let begun = if assembly.is_timed() { self.meter.now() } else { None };
        if let Some(Body::Receive(to)) = self.requests.get_mut(receive).map(|r| &mut r.body) {
            to.buffer.write_at(0, bytes);
        }
        if let Some(begun) = begun
            && let Some(end) = self.meter.now()
        {
            assembly.times.copied(begun, end);
        }
    }

    /// Reports to the sender of a synchronous message that it was matched. A message that lies with
    /// its sender is acknowledged when it was fetched.
    fn acknowledge_match(&mut self, message: Key) {
        let Some(waiting) = self.unexpected.get_mut(message) else {
            return;
        };
        if waiting.request != 0 && !matches!(waiting.payload, Payload::Remote(_)) {
            let request = std::mem::take(&mut waiting.request);
            self.actions.push(Action::Acknowledge { peer: waiting.peer, request });
        }
    }

    /// Forgets a message that nobody will receive. `outcome` is reported to its sender, where it waits.
    pub(crate) fn drop_message(&mut self, message: Key, outcome: u64) {
        let Some(waiting) = self.remove_unexpected(message) else {
            return;
        };
        let peer = waiting.peer;
        match waiting.payload {
            Payload::Remote(rts) => {
                self.actions.push(Action::Refuse { peer, request: rts.request, outcome });
            }
            Payload::Partial(_) => {
                let assemblies = self.peers.get_mut(peer as usize).map(|p| &mut p.assemblies);
                for assembly in assemblies.into_iter().flatten() {
                    if matches!(assembly.target, Target::Unexpected(key) if key == message) {
                        assembly.target = Target::Discard;
                    }
                }
            }
            Payload::Inline(_) | Payload::Whole(_) | Payload::Assembled { .. } => {
                self.taken(peer, waiting.length as usize);
            }
        }
        if waiting.request != 0 {
            self.actions.push(Action::Refuse { peer, request: waiting.request, outcome });
        }
    }

    pub(super) fn am(
        &mut self,
        peer: PeerIndex,
        header: &AmHeader,
        payload: View<'_>,
    ) -> Option<()> {
        let id = u16::try_from(header[0]).ok()?;
        let header_len = u32::try_from(header[1]).ok()?;
        if header_len as usize > payload.len() {
            return None;
        }
        if payload.len() > INLINE {
            self.hold(peer, payload.len());
        }
        let payload = self.am_buffers.copy_in(payload);
        let arrival =
            AmArrival { from: self.ep(peer), id, header: header_len, payload, remote: None };
        self.inbox.push_back(Delivery::Am(arrival));
        if self.inbox.len() >= MANY {
            self.note_entry();
        }
        Some(())
    }
}
