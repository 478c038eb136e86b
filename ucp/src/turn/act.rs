//! What a turn does after it has looked at the lanes: reads, copies, acknowledges. Where an ordinary
//! call would meet an error, or needs memory, the turn leaves the action to it.

use bowline_base::slab::Key;

use super::sink::TurnLane;
use super::{ROOM, Turn};
use crate::action::Action;
use crate::peer::PeerState;
use crate::proto::rendezvous::receive_of;
use crate::request::Body;
use crate::worker::Inner;

/// Messages of one lane in a turn.
const BUDGET: u32 = 16;

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
            events += u32::from(self.settle_signal_safe(key));
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
            let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize];
            let left = fetch.receiver.as_ref()?.moved_by_others(lane)?;
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
                Action::Run(key) => self.run_signal_safe(key, &mut copied),
                Action::Poll(protocol) => protocol.life.poll_signal_safe(self, &mut copied),
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

    /// A message that others have moved without a word is complete. Whether it is.
    fn settle_signal_safe(&mut self, key: Key) -> bool {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize];
        let settled = fetch.receiver.as_ref().is_some_and(|receiver| receiver.is_settled(lane));
        settled && self.end_signal_safe(key)
    }

    /// Acknowledges a message that is here, if that can be done now. Whether it was.
    pub(crate) fn end_signal_safe(&mut self, key: Key) -> bool {
        let can = self.can_end_signal_safe(key);
        if can {
            self.fetched(key);
        }
        can
    }

    /// Whether the end of a message needs no memory and frees none.
    pub(crate) fn can_end_signal_safe(&mut self, key: Key) -> bool {
        let attendance = &self.engine.attendance;
        let room = attendance.fetches.len() < attendance.fetches.capacity();
        let Some(request) = self.engine.requests.get(key) else { return false };
        let detached = request.detached;
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let lent = fetch.receiver.as_ref().and_then(|receiver| receiver.lent());
        let own_key = fetch.rkey.is_some() || lent.is_some();
        let peer = &self.engine.peers[fetch.peer as usize];
        // An acknowledgement that the lane refuses waits in the list, where it needs a place.
        let ready = peer.state == PeerState::Ready
            && peer.pending.is_empty()
            && peer.pending.capacity() > 0
            && self.lanes[peer.lane as usize].turns();
        room && !detached && !own_key && ready && self.engine.actions.has_room(ROOM / 4)
    }
}
