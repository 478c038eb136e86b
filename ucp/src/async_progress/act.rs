//! What a signal handler does after it has polled the lanes: reads, copies, acknowledges. Where an ordinary
//! call would meet an error, or needs memory, the handler leaves the action to it.

use bowline_base::slab::Key;

use super::sink::SignalLane;
use super::{AsyncProgress, RESERVE};
use crate::action::Action;
use crate::engine::Inner;
use crate::peer::PeerState;
use crate::request::{Body, Fetch, receive_of};

/// Messages of one lane in a handler.
const BUDGET: u32 = 16;

impl Inner {
    pub(super) fn progress_signal_safe(&mut self, spare: impl FnMut() -> bool) -> AsyncProgress {
        if self.engine.async_state.asleep {
            return AsyncProgress::Closed;
        }
        self.engine.async_state.in_handler = true;
        self.engine.async_state.left = false;
        let progress = self.poll_signal_safe(spare);
        self.engine.async_state.in_handler = false;
        progress
    }

    fn poll_signal_safe(&mut self, mut spare: impl FnMut() -> bool) -> AsyncProgress {
        let mut events = 0;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.polled && lane.is_signal_safe() {
                let mut sink = SignalLane { engine: &mut self.engine, lane: index };
                events += lane.iface.progress_signal_safe(&mut sink, BUDGET);
            }
        }
        let (mut copied, mut stopped) = (false, false);
        while !stopped {
            let (done, copies) = self.act_signal_safe();
            events += done;
            copied |= copies;
            // What was begun just now may be copied at once.
            stopped = !copies && done == 0 || !spare();
        }
        for at in 0..self.engine.async_state.watched.len() {
            let key = self.engine.async_state.watched[at];
            events += u32::from(self.settle_signal_safe(key));
        }
        self.engine.forget_ended();
        self.engine.async_state.progressed |= copied || events > 0;
        if self.engine.async_state.watched.is_empty() {
            AsyncProgress::Idle
        } else if let Some(bytes) = self.moving() {
            AsyncProgress::Moving { bytes }
        } else if copied {
            AsyncProgress::Copying
        } else if self.engine.async_state.left && !self.awaits() {
            AsyncProgress::Left
        } else {
            AsyncProgress::Waiting
        }
    }

    /// Whether others move all that is watched, and after how many bytes the first is complete.
    fn moving(&self) -> Option<u64> {
        let mut least = None;
        for key in &self.engine.async_state.watched {
            let request = self.engine.requests.get(*key)?;
            let Body::Receive(receive) = &request.body else { return None };
            let fetch = receive.fetch.as_ref()?;
            let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize];
            let left = match fetch.in_flight {
                0 => fetch.receiver.as_ref()?.moved_by_others(&*lane.iface)?,
                bytes => bytes,
            };
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
        least
    }

    /// Whether a message is watched for that has not come.
    fn awaits(&self) -> bool {
        self.engine.async_state.watched.iter().any(|key| {
            match self.engine.requests.get(*key).map(|request| &request.body) {
                Some(Body::Receive(receive)) => receive.fetch.is_none(),
                _ => false,
            }
        })
    }

    /// Goes through the actions once. How many are done, and whether a piece was copied, of which there is
    /// one at most.
    fn act_signal_safe(&mut self) -> (u32, bool) {
        let (mut events, mut copied) = (0, false);
        for _ in 0..self.engine.actions.len() {
            let Some(action) = self.engine.actions.pop() else { break };
            let done = match action {
                Action::Run(key) => self.run_signal_safe(key, &mut copied),
                Action::Poll(protocol) => {
                    self.engine.protocols.life(protocol).poll_signal_safe(self, &mut copied)
                }
                _ => false,
            };
            if done {
                events += 1;
            } else {
                // There is space: one was just taken out.
                self.engine.actions.push(action);
            }
        }
        (events, copied)
    }

    /// A message that others have moved without a word is complete. Whether it is.
    fn settle_signal_safe(&mut self, key: Key) -> bool {
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let lane = &self.lanes[self.engine.peers[fetch.peer as usize].lane as usize];
        let settled =
            fetch.receiver.as_ref().is_some_and(|receiver| receiver.is_settled(&*lane.iface));
        settled && !fetch.acknowledged && self.end_unasked_signal_safe(key)
    }

    /// The same as [`end_signal_safe`](Self::end_signal_safe) of a message that no action goes on with: where its receive is not
    /// ended, the next call is asked to.
    pub(crate) fn end_unasked_signal_safe(&mut self, key: Key) -> bool {
        let ended = self.end_signal_safe(key);
        let left = receive_of(&mut self.engine.requests, key);
        if left.is_some_and(|(_, fetch)| fetch.acknowledged) {
            self.engine.actions.push(Action::Run(key));
        }
        ended
    }

    /// Acknowledges a message that is here, if that can be done now, and ends its receive, if that holds neither a key that has
    /// to be closed nor a loan that has to be taken back. Whether it was ended.
    pub(crate) fn end_signal_safe(&mut self, key: Key) -> bool {
        if !self.can_end_signal_safe(key) {
            return false;
        }
        let fetch = receive_of(&mut self.engine.requests, key);
        let lent = |fetch: &Fetch| fetch.receiver.as_ref().is_some_and(|at| at.lent().is_some());
        if fetch.is_some_and(|(_, fetch)| fetch.rkey.is_some() || lent(fetch)) {
            self.acknowledge_signal_safe(key);
            self.engine.async_state.progressed = true;
            return false;
        }
        self.fetched(key);
        true
    }

    /// Whether the end of a message needs no memory and frees none.
    pub(crate) fn can_end_signal_safe(&mut self, key: Key) -> bool {
        let state = &self.engine.async_state;
        let has_space = state.has_space();
        let Some(request) = self.engine.requests.get(key) else { return false };
        let detached = request.detached;
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let peer = &self.engine.peers[fetch.peer as usize];
        let lane = &self.lanes[peer.lane as usize];
        let ready = peer.state == PeerState::Ready
            && peer.can_queue_control()
            && lane.is_signal_safe()
            && lane.iface.can_post_signal_safe(peer.ep);
        has_space && !detached && ready && self.engine.actions.has_capacity(RESERVE / 4)
    }
}
