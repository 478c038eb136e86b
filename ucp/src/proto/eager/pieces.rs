//! Messages that come in pieces: tagged ones, and active messages.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{AmHeader, PeerFailure, Verdict};

use super::Transfers;
use super::assembly::{Assembly, Target};
use crate::action::Action;
use crate::engine::Engine;
use crate::error::OpError;
use crate::peer::PeerIndex;
use crate::protocol::eager::MULTI;
use crate::request::Body;
use crate::select::{EAGER, Measure, MessageKind, PieceTimes};
use crate::state::inbox::{AmArrival, Delivery};
use crate::unexpected::{INLINE, Payload, Unexpected};
use crate::wire::{self, FirstPiece};

/// Longest message that may come in eager pieces: no correct sender goes beyond its credit.
const MAX_PIECES: u64 = 1 << 31;

/// Most messages that one sender may have in pieces at once.
const MAX_ASSEMBLIES: usize = 64;

impl Engine {
    /// Reads the front of a first piece and checks its claims.
    fn first_piece<'a>(
        &mut self,
        peer: PeerIndex,
        payload: View<'a>,
    ) -> Option<(FirstPiece, View<'a>)> {
        let mut front = [0; FirstPiece::BYTES];
        let data = payload.slice(front.len(), payload.len().checked_sub(front.len())?)?;
        payload.copy_out(&mut front);
        let first = FirstPiece::parse(&front)?;
        let under_way = self.transfers().of(peer);
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
                    let payload = Payload::Partial { bytes: Vec::new(), protocol: &MULTI };
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
        let assemblies = self.transfers().of(peer);
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
        let assemblies = self.transfers().of(peer);
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
        let assembly = &mut self.protocols.kept.of_mut::<Transfers>().of(peer)[at];
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
                if let Some(Payload::Partial { bytes, .. }) = waiting.map(|u| &mut u.payload) {
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
            let assembly = self.transfers().of(peer).swap_remove(at);
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
                    && let Payload::Partial { bytes, .. } = payload
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

    /// Has the pieces of a message that has begun to come go straight into a receive, behind the `bytes` that are here.
    pub(super) fn continue_in(
        &mut self,
        peer: PeerIndex,
        message: Key,
        receive: Key,
        bytes: &[u8],
    ) {
        let failure = self.peers.get(peer as usize).and_then(|peer| peer.failure());
        let arriving = self.protocols.kept.of_mut::<Transfers>();
        let assembly = match arriving.kept_as(peer, message).filter(|_| failure.is_none()) {
            Some(assembly) => assembly,
            // Its sender has failed: it never becomes whole.
            None => {
                return self.fail(receive, failure.map_or(OpError::Cancelled, OpError::from));
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

    /// Nobody will receive a message that is arriving: its other pieces are dropped.
    pub(super) fn discard(&mut self, peer: PeerIndex, message: Key) {
        if let Some(assembly) = self.transfers().kept_as(peer, message) {
            assembly.target = Target::Discard;
        }
    }

    /// Gives up messages of a peer of which pieces are missing.
    pub(super) fn lose_pieces(&mut self, peer: PeerIndex, how: PeerFailure) {
        let arriving = self.transfers().arriving.get_mut(peer as usize);
        for assembly in arriving.map(std::mem::take).unwrap_or_default() {
            match assembly.target {
                Target::Receive(key) => self.fail(key, how.into()),
                Target::Am(_, _, bytes) => self.let_go(peer, bytes.len()),
                // A receive that finds such a message fails.
                Target::Unexpected(_) | Target::Discard => {}
            }
        }
    }

    fn transfers(&mut self) -> &mut Transfers {
        self.protocols.kept.of_mut()
    }
}
