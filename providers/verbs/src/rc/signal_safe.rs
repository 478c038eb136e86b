//! Progress in a signal handler, and what it posts there.
//!
//! **What it calls.** The device's `poll_cq`, `post_send` and `post_srq_recv`: they copy from and to queues that are
//! mapped, under a spin lock of the queue or the pair, and soft-RoCE's ring the device by a system call. All these queues
//! are used by this interface alone, outside of whose methods the handler has interrupted its thread, and by the thread
//! that makes connections when it destroys a pair that never came up: the handler may wait for that, and never for
//! the code that it has interrupted. Nothing is registered, and no registration ends. That the library of a device does no
//! more than that was seen of soft-RoCE's, whose calls to the allocator the tests in the guest do not allow.
//!
//! **What it takes in.** (1) Arrivals, into space for as many as there are receive buffers. (2) Completions of requests
//! that hold nothing but buffers of the pools. (3) Of others, whose end gives back registrations or posts anew, it takes
//! note ([`Left`]), and the next ordinary poll ends them, before it polls the device. (4) An error, and what follows it
//! on the same connection, is left whole. So is a completion for which space is short.
//!
//! **Order.** What is left of a connection is taken before what comes later on it. While a failure is to be reported, or
//! arrivals wait for news of their connection, nothing is offered: the order of these is `progress`'s to keep.

use bowline_uct::runtime::check_len;
use bowline_uct::{
    Arrival, EpId, LocalSlice, PostError, Posted, PreparedId, RemoteSlice, SignalSink, Source,
    Token,
};

use super::peer::{Holds, Op};
use super::progress::is_arrival;
use super::{BATCH, RcIface};
use crate::sys::{Bytes, Wc, Work, ffi};
use crate::wire::{self, HEADER_BYTES, Parsed};

/// Ends of requests, and completions, that an ordinary call is to deal with, at most.
const SPACE: usize = 2 * BATCH;

/// Arrivals that are examined in one call, offered or not.
const EXAMINED: usize = 64;

/// What signal handlers have left to the next ordinary poll.
#[derive(Debug)]
pub(super) struct Left {
    /// Requests that are complete and hold something, which came before all of `completions`.
    ended: Vec<Op>,
    completions: Vec<Wc>,
}

impl Left {
    pub(super) fn new() -> Self {
        Self { ended: Vec::with_capacity(SPACE), completions: Vec::with_capacity(SPACE) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.completions.is_empty()
    }

    /// Whether a completion of this peer's requests is left.
    fn names(&self, peer: u32) -> bool {
        self.completions.iter().any(|left| peer_of(left) == peer)
    }
}

const fn peer_of(completion: &Wc) -> u32 {
    (completion.wr_id >> 32) as u32 & 0xffff
}

impl RcIface {
    /// An ordinary call takes what signal handlers have left.
    #[cold]
    pub(super) fn take_left(&mut self) {
        let mut ended = std::mem::take(&mut self.state.left.ended);
        for op in ended.drain(..) {
            self.finish(op, Ok(0));
        }
        let mut completions = std::mem::take(&mut self.state.left.completions);
        for completion in &completions {
            self.completed(completion);
        }
        completions.clear();
        self.state.left = Left { ended, completions };
    }

    pub(super) fn progress_signal_safe(&mut self, sink: &mut dyn SignalSink, budget: u32) -> u32 {
        let mut events = self.events.offer(sink, budget);
        if !self.failed.is_empty()
            || !self.state.broken.is_empty()
            || !self.state.unclaimed.is_empty()
        {
            return events;
        }
        self.poll_signal_safe();
        events += self.events.offer(sink, budget - events);
        if self.state.unclaimed.is_empty() {
            events += self.offer_arrivals(sink, budget - events);
        }
        // What is refused stays due, and an ordinary call says why.
        let _ = self.post_receives(false);
        events
    }

    /// Takes completions in, as far as there is space for all that may have to be left.
    fn poll_signal_safe(&mut self) {
        let most = BATCH.min(SPACE - self.state.left.completions.len());
        // An empty box takes no memory.
        let mut completions = std::mem::take(&mut self.state.completions);
        let count = if most == 0 { 0 } else { self.cq.poll(&mut completions[..most]) };
        self.counters.polls += 1;
        self.counters.completions += count as u64;
        for completion in &completions[..count] {
            if is_arrival(completion) {
                self.received(completion);
            } else if !self.retire_signal_safe(completion) {
                self.state.left.completions.push(*completion);
            }
        }
        self.state.completions = completions;
    }

    /// Takes in the completion of a request and of all before it. Whether that could be done here.
    fn retire_signal_safe(&mut self, completion: &Wc) -> bool {
        if completion.status != ffi::WC_SUCCESS || self.state.left.names(peer_of(completion)) {
            return false;
        }
        let (id, last) = (completion.wr_id, completion.wr_id as u32);
        let space = SPACE - self.state.left.ended.len();
        let spare = self.events.spare();
        let Some((_, link)) = self.link_of(id) else { return true };
        let count = last.wrapping_sub(link.oldest()).wrapping_add(1) as usize;
        if count > link.ops.len() {
            // What is there now is newer: nothing of it is complete.
            return true;
        }
        let mut held = 0;
        for op in link.ops.iter().take(count) {
            match op.holds {
                Holds::Nothing | Holds::Buffer(_) | Holds::Result(_) => {}
                Holds::Lent(..) => held += 1,
                // It goes on in a new request, for which the flushes behind it wait.
                Holds::Emulated(_) => return false,
            }
        }
        // The end of what is held is reported before a flush behind it is answered.
        let flushes = link.flushes.len();
        if held > space || held > 0 && flushes > 0 || count + flushes > spare {
            return false;
        }
        if held > 0 {
            self.put_aside(id, count);
        } else {
            self.retire(id);
        }
        true
    }

    /// The same where some of the requests hold what only an ordinary call gives back, and no flush waits.
    fn put_aside(&mut self, id: u64, count: usize) {
        for _ in 0..count {
            let Some((_, link)) = self.link_of(id) else { return };
            let Some(op) = link.ops.pop_front() else { return };
            link.reads -= u32::from(op.reads);
            match op.holds {
                Holds::Lent(..) => self.state.left.ended.push(op),
                _ => self.finish(op, Ok(0)),
            }
        }
    }

    /// Offers arrivals. One that is not taken keeps back those of its sender behind it.
    fn offer_arrivals(&mut self, sink: &mut dyn SignalSink, budget: u32) -> u32 {
        let (mut events, mut at, mut examined) = (0, 0, 0);
        while events < budget
            && examined < EXAMINED
            && let Some(&arrived) = self.state.arrived.get(at)
        {
            examined += 1;
            // All in front of it were refused, or stand behind one that was.
            let waits = self.state.arrived.iter().take(at).any(|other| other.peer == arrived.peer);
            if !waits && self.offer(sink, arrived.buffer, arrived.len, arrived.peer) {
                self.receive.again(arrived.buffer);
                self.counters.received += 1;
                self.state.arrived.remove(at);
                events += 1;
            } else {
                at += 1;
            }
        }
        events
    }

    /// Whether the sink has taken a message. The end of a connection, and damage, are for `progress`.
    fn offer(&self, sink: &mut dyn SignalSink, buffer: u32, len: usize, peer: u32) -> bool {
        let message = self.receive.view(buffer, len);
        let Some(Parsed::Message { id, header, payload }) = wire::parse(message) else {
            return false;
        };
        let payload = message.slice(HEADER_BYTES, payload).expect("the length was compared");
        sink.offer(&Arrival { source: Source(peer), id, header, payload })
    }

    /// Without a connection a post waits for one, which takes memory.
    pub(super) fn can_post_signal_safe(&self, ep: EpId) -> bool {
        self.open_peer(ep).is_ok_and(|number| self.peers[number as usize].link.is_some())
    }

    pub(super) fn get_prepared(
        &mut self,
        ep: EpId,
        prepared: PreparedId,
        to: LocalSlice,
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        let number = self.open_peer(ep)?;
        check_len(to.len(), self.attr.limits.get.max_zcopy)?;
        let key = self.state.domain.opened.open(number, from, to.len())?.key;
        if to.is_empty() {
            return Ok(Posted::Done);
        }
        let piece = self.state.domain.prepared_piece(prepared, &to);
        let piece = [piece.ok_or(PostError::BadArgument)?];
        if !self.has_space(number, 1) {
            self.counters.refused += 1;
            return Err(PostError::NoResource);
        }
        let work = Work::Read { address: from.address, key };
        let op = Op { token, holds: Holds::Nothing, reads: true };
        self.push(number, work, Bytes::Registered(&piece), op, true)?;
        Ok(Posted::InFlight)
    }
}
