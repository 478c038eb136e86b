//! What a turn does after it has looked at the lanes: reads, copies, acknowledges. Where an ordinary
//! call would meet an error, or needs memory, the turn leaves the action to it.

use bowline_base::buffer::Shape;
use bowline_base::slab::Key;
use bowline_uct::{Caps, Posted, RemoteSlice};

use super::sink::TurnLane;
use super::{ROOM, Turn};
use crate::action::Action;
use crate::loan;
use crate::peer::PeerState;
use crate::proto::coop::receive_of;
use crate::proto::rendezvous::RndvKind;
use crate::request::{Body, token};
use crate::settings::RndvScheme;
use crate::worker::Inner;

/// Messages of one lane in a turn.
const BUDGET: u32 = 16;

/// Bytes of a piece where the processor copies: some 2 to 30 us. Whether a turn copies another is said
/// by whoever gives it, who has a clock.
const PIECE: u64 = 128 << 10;

impl Inner {
    /// See [`SideDoor::turn`](super::SideDoor::turn).
    pub(super) fn turn(&mut self, mut spare: impl FnMut() -> bool) -> Turn {
        if self.engine.attendance.asleep {
            return Turn::Closed;
        }
        let mut events = 0;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.polled && lane.turns() {
                let mut sink = TurnLane { engine: &mut self.engine, lane: index };
                events += lane.iface.progress_signal_safe(&mut sink, BUDGET);
            }
        }
        let (mut copied, mut stopped) = (false, false);
        while !stopped {
            let (done, copies) = self.act_in_turn();
            events += done;
            copied |= copies;
            // What was begun just now may be copied at once.
            stopped = !copies && done == 0 || !spare();
        }
        for at in 0..self.engine.attendance.watched.len() {
            let key = self.engine.attendance.watched[at];
            events += u32::from(self.settle_in_turn(key));
        }
        self.engine.forget_ended();
        self.engine.attendance.turned |= copied || events > 0;
        if self.engine.attendance.watched.is_empty() {
            Turn::Idle
        } else if let Some(bytes) = self.moving() {
            Turn::Moving { bytes }
        } else if copied {
            Turn::Copying
        } else {
            Turn::Waiting
        }
    }

    /// Whether others move all that is watched, and after how many bytes the first is complete.
    fn moving(&self) -> Option<u64> {
        let mut least = None;
        for key in &self.engine.attendance.watched {
            let request = self.engine.requests.get(*key)?;
            let Body::Receive(receive) = &request.body else { return None };
            let fetch = receive.fetch.as_ref()?;
            let left = match &fetch.share {
                Some(share) => self.left_to_sender(fetch.peer, share)?,
                None => Some(fetch.in_flight).filter(|&bytes| bytes > 0)?,
            };
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
        least
    }

    /// Goes through the actions once. How many are done, and whether a piece was copied, of which there is
    /// one at most.
    fn act_in_turn(&mut self) -> (u32, bool) {
        let (mut events, mut copied) = (0, false);
        for _ in 0..self.engine.actions.len() {
            let Some(action) = self.engine.actions.pop() else { break };
            let done = match action {
                Action::Fetch(key) => self.fetch_in_turn(key, &mut copied),
                Action::Copy => self.copy_in_turn(&mut copied),
                _ => false,
            };
            if done {
                events += 1;
            } else {
                // There is room: one was just taken out.
                self.engine.actions.push(action);
            }
        }
        (events, copied)
    }

    /// Reads the next part of a message. Whether the action is done.
    fn fetch_in_turn(&mut self, key: Key, copied: &mut bool) -> bool {
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return true };
        if buffer.shape() != Shape::Whole || !fetch.rts.is_readable() {
            return false;
        }
        if fetch.copying || !matches!(fetch.kind, None | Some(RndvKind::Get)) {
            return false;
        }
        if !matches!(self.engine.options.rndv_scheme, RndvScheme::Auto | RndvScheme::Get) {
            return false;
        }
        if fetch.done >= fetch.wanted {
            return self.end_in_turn(key);
        }
        let (index, by_own_key) = (fetch.peer, fetch.rkey.is_some() || fetch.rts.rkey_len > 0);
        let (done, wanted, address) = (fetch.done, fetch.wanted, fetch.rts.address);
        let peer = &self.engine.peers[index as usize];
        let (Some(rkey), Some(address)) = (peer.reach, address.checked_add(done)) else {
            return false;
        };
        // A key that has to be opened, or a peer that was never read from, is for an ordinary call.
        if by_own_key || peer.state != PeerState::Ready || !peer.reach_proven {
            return false;
        }
        let lane = &self.lanes[peer.lane as usize];
        if !lane.turns() {
            return false;
        }
        let (ep, lane) = (peer.ep, peer.lane as usize);
        if wanted >= self.lanes[lane].choices.shared_from && self.may_share(lane) && self.share(key)
        {
            return true;
        }
        let lane = &mut self.lanes[lane].iface;
        let carries = lane.attr().caps.contains(Caps::CARRIES);
        if !carries && std::mem::replace(copied, true) {
            return false;
        }
        let limit = if carries { lane.attr().limits.get.max_zcopy as u64 } else { PIECE };
        let length = (wanted - done).min(limit);
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return true };
        let to = loan::of_recv(buffer, done as usize, length as usize);
        match lane.get_zcopy(ep, to.as_slice(), RemoteSlice { address, rkey }, token(key)) {
            Ok(Posted::Done) => {
                fetch.done += length;
                fetch.done >= fetch.wanted && self.end_in_turn(key)
            }
            Ok(Posted::InFlight) => {
                fetch.in_flight = length;
                true
            }
            // Asked again by the next call, which knows what to do about it.
            Err(_) => false,
        }
    }

    /// Whether there is room for what sharing a message takes.
    fn may_share(&self, lane: usize) -> bool {
        let engine = &self.engine;
        // To lend the buffer takes memory.
        let lends = self.lanes[lane].iface.attr().caps.contains(Caps::LENT_ONLY);
        !lends
            && self.lanes[lane].cursors.is_some()
            && engine.attendance.payloads.len() > 1
            && engine.shares.capacity() > engine.shares.len()
            && engine.actions.has_room(ROOM / 4)
    }

    /// Acknowledges a message that is here, if that can be done now. Whether it was.
    fn end_in_turn(&mut self, key: Key) -> bool {
        let can = self.can_end_in_turn(key);
        if can {
            self.fetched(key);
        }
        can
    }

    /// Whether the end of a message needs no memory and frees none.
    pub(crate) fn can_end_in_turn(&mut self, key: Key) -> bool {
        let attendance = &self.engine.attendance;
        let room = attendance.fetches.len() < attendance.fetches.capacity();
        let Some(request) = self.engine.requests.get(key) else { return false };
        let detached = request.detached;
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let own_key = fetch.rkey.is_some() || fetch.lent.is_some();
        let peer = &self.engine.peers[fetch.peer as usize];
        // An acknowledgement that the lane refuses waits in the list, where it needs a place.
        let ready = peer.state == PeerState::Ready
            && peer.pending.is_empty()
            && peer.pending.capacity() > 0
            && self.lanes[peer.lane as usize].turns();
        room && !detached && !own_key && ready && self.engine.actions.has_room(ROOM / 4)
    }
}
