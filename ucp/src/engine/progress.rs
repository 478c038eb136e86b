//! What every call of a worker moves on: its lanes, what they asked for, and news of deaths.

#[cfg(test)]
mod tests;

use bowline_base::doorbell::report_refusal;
use bowline_uct::{MemHandle, PeerFailure};

use super::Inner;
use crate::action::Action;
use crate::lanes::Lane;
use crate::peer::{PeerIndex, PeerState};
use crate::wire;

/// Progress calls between two polls of the failure source; a worker that goes to sleep polls
/// as well.
const POLLS: u32 = 64;

/// What carries out actions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Progress, which may poll.
    Progress,
    /// Any other call.
    Other,
}

impl Inner {
    /// One round over the lanes, and what follows from it.
    #[inline]
    pub(crate) fn progress(&mut self) -> u32 {
        let mut events = self.poll();
        self.polls += 1;
        if self.polls >= POLLS {
            // What a failure completes is an event: a thread that waits must check before it sleeps.
            events += self.check_for_failures();
        }
        if !self.engine.actions.is_empty() {
            self.act_in(Call::Progress);
            events += 1;
            self.reclaim_slots();
        }
        events
    }

    pub(crate) fn doorbell(&self) -> Option<bowline_base::doorbell::Doorbell> {
        let alone = self.lanes.iter().all(|lane| lane.loopback);
        let mut lanes = self.lanes.iter().filter(|lane| alone || !lane.loopback);
        lanes.find_map(|lane| lane.iface.doorbell().cloned())
    }

    #[inline]
    pub(crate) fn failures_changed(&self) -> bool {
        match &self.failures {
            Some(source) => source.generation() != self.failure_generation,
            None => false,
        }
    }

    #[cold]
    fn check_for_failures(&mut self) -> u32 {
        self.polls = 0;
        // What a signal handler may have met, which logs nothing.
        report_refusal();
        let changed = self.failures_changed();
        if changed {
            self.note_failures();
        }
        let waiting = self.engine.protocols.kept.iter().find(|(_, kept)| kept.waits());
        if let Some((protocol, _)) = waiting {
            self.engine.protocols.life(protocol).poll(self);
        }
        u32::from(changed) + self.keep_alive() + self.poll_introductions()
    }

    /// Learns of deaths. What the dead sent before is taken in first: those messages count.
    #[cold]
    pub(crate) fn note_failures(&mut self) {
        let Some(source) = &self.failures else { return };
        let mut dead = Vec::new();
        self.failure_generation = source.generation();
        source.dead(&mut dead);
        while !self.take_in() {
            self.act();
        }
        for rank in dead {
            self.engine.fail_rank(rank, PeerFailure::Died);
        }
    }

    /// Polls all lanes until nothing is left. Bounded, since a living peer may go on sending for ever. `false` when more came
    /// than peers may send without being asked: [`act`](Self::act) settles that, which rejects one of them.
    fn take_in(&mut self) -> bool {
        self.lanes.iter_mut().for_each(|lane| lane.rest.wake());
        for _ in 0..1000 {
            if self.poll() == 0 {
                break;
            }
            if self.engine.overrun {
                return false;
            }
        }
        true
    }

    /// One poll in a call that is no progress, and what follows from it. Handlers in place are called by progress alone: what
    /// comes for them waits for that, as what comes behind a message that waits.
    #[cold]
    pub(crate) fn poll_beside(&mut self) -> u32 {
        self.engine.set_aside += 1;
        let events = self.poll();
        self.engine.set_aside -= 1;
        if !self.engine.actions.is_empty() {
            self.act();
        }
        if events > 0 {
            // Requests may be complete that a caller has asked for before this call: it asks again before it sleeps.
            self.engine.async_state.progressed = true;
        }
        events
    }

    /// A lane to a peer has failed, or finds nobody there, and what the peer has sent by this or another one may not be
    /// read yet. Part of progress, as are all polls but
    /// [`poll_beside`](Self::poll_beside): handlers in place are called by no other call.
    #[cold]
    fn lose(&mut self, peer: PeerIndex, how: PeerFailure) {
        if !self.take_in() {
            return self.engine.actions.push(Action::Lost { peer, how });
        }
        let state = self.engine.peers.get(peer as usize).map(|peer| peer.state);
        // Its goodbye was among what it had sent: it has not died.
        if state != Some(PeerState::Failed(PeerFailure::Closed)) {
            self.engine.peer_failed(peer, how);
        }
    }

    /// Carries out what the engine noted. What an action asks for anew waits for the next call,
    /// so that other traffic is polled in between.
    pub(crate) fn act(&mut self) {
        self.act_in(Call::Other);
    }

    fn act_in(&mut self, call: Call) {
        self.carry_out(call);
        self.withdraw_all();
        self.call_progress_thread();
    }

    /// Takes back the memory of what has ended: the buffers of requests are their users' when the call
    /// returns.
    pub(crate) fn withdraw_all(&mut self) {
        if !self.engine.async_state.prepared.is_empty() {
            self.unprepare_ended();
        }
        for _ in 0..self.engine.actions.len() {
            match self.engine.actions.pop() {
                Some(Action::Withdraw { lane, memory }) => self.withdraw(lane, memory),
                Some(other) => self.engine.actions.push(other),
                None => return,
            }
        }
    }

    /// Lent memory is nobody's but its request's: there is nothing to give back.
    fn withdraw(&mut self, lane: u32, memory: MemHandle) {
        drop(self.lanes[lane as usize].iface.mem_release(memory));
    }

    /// One round over some of the lanes, and of what follows from it that which is not `left` to others. Returns how many
    /// events there were.
    pub(crate) fn progress_some(
        &mut self,
        these: impl Fn(&Lane) -> bool,
        left: impl Fn(&Self, &Action) -> bool,
    ) -> u32 {
        let mut events = self.poll_some(these);
        self.polls += 1;
        if self.polls >= POLLS {
            events += self.check_for_failures();
        }
        for _ in 0..self.engine.actions.len() {
            let Some(action) = self.engine.actions.pop() else { break };
            if left(self, &action) {
                self.engine.actions.push(action);
            } else {
                self.carry_out_one(action, Call::Progress);
                events += 1;
            }
        }
        if events > 0 {
            self.withdraw_all();
            self.reclaim_slots();
        }
        events
    }

    fn carry_out(&mut self, call: Call) {
        for _ in 0..self.engine.actions.len() {
            let Some(action) = self.engine.actions.pop() else {
                return;
            };
            self.carry_out_one(action, call);
        }
    }

    fn carry_out_one(&mut self, action: Action, call: Call) {
        match action {
            // A failure is the peer's state, which the next operation reports.
            Action::Connect(peer) => drop(self.ready(peer)),
            Action::Run(key) => self.run(key),
            Action::Poll(protocol) => self.engine.protocols.life(protocol).poll(self),
            Action::Acknowledge { peer, request } => {
                self.control(peer, wire::ACK, [request, 0], &[]);
            }
            Action::Refuse { peer, request, outcome } => {
                self.control(peer, wire::ACK, [request, outcome], &[]);
            }
            Action::CloseKey { lane, rkey } => {
                self.lanes[lane as usize].iface.rkey_release(rkey);
            }
            Action::PostSendCancel(key) => self.post_send_cancel(key),
            Action::End(key) => self.engine.end_detached(key),
            Action::Credit(peer) => self.give_credit(peer),
            Action::Select { peer, place, eager } => self.report_selection(peer, place, eager),
            Action::Resume(peer) => self.resume(peer),
            Action::FeedStream(peer) => self.engine.feed_stream(peer),
            Action::Unpark(peer) => self.unpark(peer),
            Action::ServeRemotes => self.serve_remotes(),
            Action::PostEmulated(peer) => self.post_emulated(peer),
            Action::ResumeOneSided => self.resume_one_sided(),
            Action::StepClosings => self.step_closings(),
            Action::Lost { peer, how } if call == Call::Progress => self.lose(peer, how),
            Action::Lost { .. } => self.engine.actions.push(action),
            Action::Farewell(peer) => self.farewell(peer),
            Action::Notice(peer) => self.send_notice(peer),
            Action::LetGo(peer) => self.release(peer),
            Action::Overrun(peer) => self.engine.reject_holder(peer),
            Action::EnforceEnvelopeLimit => self.engine.enforce_envelope_limit(),
            Action::Closed(peer) => self.closed(peer),
            Action::Withdraw { lane, memory } => self.withdraw(lane, memory),
        }
    }
}
