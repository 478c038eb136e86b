//! The end of peers: what is in flight to them is answered, then their failure is reported; and what
//! must be given up because nothing comes.
//!
//! Events wait in one queue until they may be reported to the sink, so that the answers of a peer's operations
//! come before its failure.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bowline_uct::runtime::{CompletionOf, Event};
use bowline_uct::{EpId, PeerFailure, Sink, Source};
use rustix::event::epoll;
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use crate::iface::{TICK, TcpIface};
use crate::peer::{Request, State};
use crate::socket;

impl TcpIface {
    /// Ends a peer: answers what is in flight to it, then says that it failed.
    #[cold]
    pub(crate) fn fail(&mut self, index: u32, how: PeerFailure) {
        let Some(peer) = self.peer_mut(index) else { return };
        let was = peer.state;
        if matches!(was, State::Failed(_)) {
            return;
        }
        peer.state = State::Failed(how);
        peer.tail = Vec::new();
        peer.direct = None;
        let blocked = std::mem::take(&mut peer.blocked);
        let uid = peer.uid;
        let socket = peer.socket.take();
        let connecting = peer.connecting.take();
        let requests = std::mem::take(&mut peer.requests);
        let mut lost = Vec::new();
        peer.queue.abandon(&mut lost);
        if let Some(socket) = socket {
            // A forked child may hold the socket, so closing alone would not do it.
            let _ = epoll::delete(&self.epoll, &socket);
        }
        if was == State::Open {
            self.open -= 1;
            self.counters.peers_lost += 1;
        }
        if blocked {
            self.restless -= 1;
        }
        self.waiters.cancel(EpId(index));
        self.broken.retain(|&broken| broken != index);
        self.ready.retain(|&ready| ready != index);
        if self.by_uid.get(&uid) == Some(&index) {
            self.by_uid.remove(&uid);
        }
        self.receiver.forget(index);
        if let Some(handshake) = connecting.and_then(|connecting| connecting.handshake) {
            self.drop_handshake(handshake);
        }
        self.connecting.retain(|&other| other != index);
        for token in lost {
            self.events.complete(token, Err(how));
        }
        for (_, request) in requests {
            self.answered(request, Err(how));
        }
        self.events.fail(Some(Source(index)), Some(EpId(index)), how);
    }

    pub(crate) fn answered(&mut self, request: Request, outcome: Result<u64, PeerFailure>) {
        let waiter = match request {
            Request::Get { token, .. } | Request::Old { token } => CompletionOf::Token(token),
            Request::Flush { waiter } => waiter,
        };
        self.events.answer(waiter, outcome);
    }

    /// Reports to the sink what happened, in order.
    pub(crate) fn report(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        while given < budget
            && let Some(event) = self.events.pop()
        {
            match event {
                Event::Completed(token, result) => {
                    sink.completed(token, result);
                    given += 1;
                }
                Event::Failed(source, _, how) => {
                    let index = source.expect("peers fail by number").0;
                    given += self.report_failure(sink, index, how);
                }
            }
        }
        given
    }

    fn report_failure(&mut self, sink: &mut dyn Sink, index: u32, how: PeerFailure) -> u32 {
        let Some(peer) = self.peer_mut(index) else { return 0 };
        peer.reported = true;
        let ep = peer.has_ep.then_some(EpId(index));
        // Who never talked to us and has no endpoint is known to nobody above.
        let known = !peer.by_request || ep.is_some();
        if known {
            sink.failed(Some(Source(index)), ep, how);
        }
        self.forget_if_over(index);
        u32::from(known)
    }

    /// Frees a peer that has failed, when everybody above knows and no endpoint is left.
    pub(crate) fn forget_if_over(&mut self, index: u32) {
        if let Some(peer) = self.peer(index)
            && matches!(peer.state, State::Failed(_))
            && peer.reported
            && !peer.has_ep
        {
            self.peers[index as usize] = None;
            self.free_peers.push(index);
        }
    }

    /// Sets the timer to what may have to be given up: handshakes soon, silent hosts later.
    pub(crate) fn set_timer(&mut self) {
        let soon = !self.connecting.is_empty()
            || self.handshakes.iter().any(Option::is_some)
            || self.listeners.values().any(|listening| listening.paused);
        let period = match (soon, self.open > 0) {
            (true, _) => TICK,
            (false, true) => self.options.timeout / 8,
            (false, false) => Duration::ZERO,
        };
        if period == self.timer_period {
            return;
        }
        self.timer_period = period;
        let time = Timespec {
            tv_sec: i64::try_from(period.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(period.subsec_nanos()),
        };
        let setting = Itimerspec { it_interval: time, it_value: time };
        if let Err(error) = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting) {
            tracing::warn!(%error, "cannot set a timer; time-outs come late");
        }
    }

    /// The timer has run out: empties it and gives up what is overdue.
    pub(crate) fn tick(&mut self) {
        let mut count = [0; 8];
        // Nothing to read when it was read before.
        let _ = rustix::io::read(&self.timer, &mut count);
        let now = Instant::now();
        self.overdue_handshakes(now);
        self.overdue_connections(now);
        self.try_paused_listeners();
        if now.saturating_duration_since(self.last_patrol) >= self.options.timeout / 8 {
            self.last_patrol = now;
            self.patrol(now);
        }
        self.set_timer();
    }

    /// Gives up peers whose kernel has not answered ours for the time-out. The kernel knows: it
    /// asks again what is not acknowledged, and asks a full receiver whether it has space.
    fn patrol(&mut self, now: Instant) {
        let (timeout, patience) = (self.options.timeout, self.options.handshake_timeout);
        for index in 0..self.peers.len() as u32 {
            let Some(peer) = self.peer_mut(index) else { continue };
            let Some(socket) = &peer.socket else { continue };
            // All is said, and the client does not end its side.
            if peer.closing.is_some_and(|since| now - since >= patience) {
                self.fail(index, PeerFailure::Closed);
                continue;
            }
            let Some(heard) = socket::unanswered(socket.as_fd()) else {
                peer.in_vain = None;
                continue;
            };
            // What was heard since then was an answer. Before it nothing was asked.
            let since = peer.in_vain.unwrap_or(now).max(now.checked_sub(heard).unwrap_or(now));
            peer.in_vain = Some(since);
            if now.saturating_duration_since(since) >= timeout {
                self.mark_broken(index, PeerFailure::Unreachable);
            }
        }
    }
}
