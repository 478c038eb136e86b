//! Progress: which socket is asked for what, and how often.
//!
//! A single connection is asked by `recv` itself: one system call where `epoll_wait` and `recv` are
//! two, and `epoll_wait` is called for newcomers only now and then. So the latency of two ranks that talk
//! to each other is that of the socket. With several connections `epoll_wait` says which of them have
//! something, and those alone are asked: the one that has just brought something rarely brings the
//! next thing too, and a poll of what is silent is one call.

use std::os::fd::{AsFd, BorrowedFd};

use bowline_uct::{EpId, Sink};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::iface::{TcpIface, tag};
use crate::peer::State;

/// Events of one poll.
const EVENTS_MAX: usize = 32;
/// What epoll says of a connection that is to be read.
const ARRIVALS: EventFlags =
    EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::HUP).union(EventFlags::ERR);
/// With one connection that has nothing, every so many calls poll for newcomers.
const NEWCOMERS: u32 = 16;

impl TcpIface {
    #[inline]
    pub(crate) fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        if !self.events.is_empty() {
            given += self.report(sink, budget);
        }
        self.polls = self.polls.wrapping_add(1);
        // Endpoints that wait to post are not kept waiting by a stream of arrivals, and with a budget of
        // one they are served alternately.
        let reserve = u32::from(
            !self.waiters.is_empty() && (budget - given > 1 || self.polls.is_multiple_of(2)),
        );
        if budget - given > reserve {
            given += self.receive_some(sink, budget - given - reserve);
        } else if budget == 0 {
            self.retry_blocked();
        }
        if !self.events.is_empty() {
            given += self.report(sink, budget - given);
        }
        if !self.waiters.is_empty() {
            given += self.report_writable(sink, budget - given);
        }
        given
    }

    #[inline]
    fn receive_some(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        if self.receiver.waiting {
            if let Some(owner) = self.receiver.owner() {
                given += self.take_frames(owner, sink, budget);
            }
            if given == budget || self.receiver.waiting {
                return given;
            }
        }
        if !self.broken.is_empty() {
            given += self.drain_broken(sink, budget - given);
        }
        // Who was found ready and had to wait is served first.
        let several = self.open > 1 || !self.ready.is_empty();
        if !several && given < budget {
            given += self.poll_last_active(sink, budget - given);
        }
        let quiet = self.open == 1 && self.restless == 0 && self.connecting.is_empty();
        let all = several || given == 0 && !quiet;
        if all || self.polls.is_multiple_of(NEWCOMERS) {
            given += self.poll_sockets(sink, budget - given);
        }
        given
    }

    #[inline]
    fn poll_last_active(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let index = self.last_active;
        match self.peers.get(index as usize) {
            Some(Some(peer)) if peer.socket.is_some() && !self.receiver.waiting => {
                self.pull(index, sink, budget)
            }
            _ => 0,
        }
    }

    /// Reads connections to which sending has failed, until their end.
    #[cold]
    fn drain_broken(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        let mut at = 0;
        while at < self.broken.len() && given < budget && !self.receiver.waiting {
            let index = self.broken[at];
            let empty = self.counters.receives_empty;
            if self.is_open(index) {
                given += self.pull(index, sink, budget - given);
            }
            if self.is_open(index) && self.counters.receives_empty > empty {
                // Its error was returned by the call that sent; nothing more comes.
                let broken = self.peer(index).and_then(|peer| peer.broken);
                self.fail(index, broken.expect("it was marked since sending failed"));
            }
            // One that has failed stands here no more.
            if self.is_open(index) {
                at += 1;
            }
        }
        given
    }

    /// Asks epoll, and deals with what it says.
    #[cold]
    fn poll_sockets(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = self.pull_ready(sink, budget);
        if given == budget || self.receiver.waiting {
            return given;
        }
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS_MAX];
        let count = self.wait_now(&mut events);
        for event in &events[..count] {
            self.dispatch(event);
            let (data, flags) = (event.data.u64(), event.flags);
            match data >> 32 {
                tag::PEER if flags.intersects(ARRIVALS) => self.ready.push_back(data as u32),
                // A ring that was late; the next sleep would end at once otherwise.
                tag::BELL => self.bell.disarm(),
                _ => {}
            }
        }
        given += self.pull_ready(sink, budget - given);
        given
    }

    /// Receives from those that were found ready, in their order, as far as the budget goes.
    fn pull_ready(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        while given < budget
            && !self.receiver.waiting
            && let Some(index) = self.ready.pop_front()
        {
            if self.is_open(index) {
                given += self.pull(index, sink, budget - given);
            }
        }
        given
    }

    /// Without a budget: handshakes and full connections go on, nothing is received.
    #[cold]
    fn retry_blocked(&mut self) {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS_MAX];
        let count = self.wait_now(&mut events);
        events[..count].iter().for_each(|event| self.dispatch(event));
    }

    /// Handshakes, the timer and full connections go on, by what epoll says.
    fn dispatch(&mut self, event: &Event) {
        let (data, flags) = (event.data.u64(), event.flags);
        let index = data as u32;
        match data >> 32 {
            tag::LISTENER => self.welcome_handshakes(index),
            tag::HANDSHAKE => self.step_handshake(index),
            tag::TIMER => self.tick(),
            tag::PEER if flags.contains(EventFlags::OUT) => self.flush_queue(index),
            _ => {}
        }
    }

    fn wait_now(&mut self, events: &mut [Event; EVENTS_MAX]) -> usize {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.counters.epoll_waits += 1;
        match epoll::wait(&self.epoll, &mut events[..], Some(&now)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => {
                tracing::error!(%error, "cannot ask epoll");
                0
            }
        }
    }

    pub(crate) fn want_writable(&mut self, ep: EpId) {
        if self.peer(ep.0).is_some_and(|peer| peer.check().is_ok()) {
            self.waiters.ask(ep);
        }
    }

    /// Reports the endpoints that asked and are writable now, in the order of asking.
    fn report_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut waiters = std::mem::take(&mut self.waiters);
        let space = |ep: EpId| self.peer(ep.0).is_some_and(|peer| peer.has_space());
        let given = waiters.report(sink, budget, space);
        self.waiters = waiters;
        given
    }

    /// Whether the next `progress` has something to do, as far as is known without the kernel.
    pub(crate) fn has_work(&self) -> bool {
        !self.events.is_empty()
            || self.receiver.waiting
            || !self.broken.is_empty()
            || !self.requests.is_empty()
            || !self.outcomes.is_empty()
            || self.waiters.iter().any(|ep| self.peer(ep.0).is_some_and(|peer| peer.has_space()))
    }

    /// Whether the kernel has something. What is only the timer's is dealt with.
    pub(crate) fn kernel_has_work(&mut self) -> bool {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS_MAX];
        let count = self.wait_now(&mut events);
        let mut work = false;
        for event in &events[..count] {
            let data = event.data.u64();
            if data >> 32 == tag::TIMER {
                self.tick();
            } else {
                work = true;
            }
        }
        work || self.has_work()
    }

    pub(crate) fn epoll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Closes an endpoint; see the rules in [`crate::peer`].
    pub(crate) fn disconnect(&mut self, ep: EpId) {
        let Some(peer) = self.peer_mut(ep.0) else { return };
        if !std::mem::take(&mut peer.has_ep) {
            return;
        }
        let (state, by_request) = (peer.state, peer.by_request);
        self.waiters.cancel(ep);
        if by_request && state == State::Open {
            self.close_request_peer(ep.0);
        }
        self.forget_if_over(ep.0);
    }
}
