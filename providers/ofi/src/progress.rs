//! One call of progress.
//!
//! **Order within a call.** What was noted before (completions, failures), then what libfabric
//! says, then what waits to be handed over, then endpoints that may post again. With endpoints
//! waiting, one unit of the budget is theirs in every other call, so that neither side starves.

use std::mem::MaybeUninit;

use bowline_uct::{EpId, PeerFailure, Sink, Token};

use crate::iface::OfiIface;
use crate::net::{Entry, Read};
use crate::peer::Work;

/// Completions taken from libfabric at once.
pub(crate) const ENTRIES: usize = 32;
/// Calls without an event between checks of peers of this process, and between checks of others.
const NEAR_POLLS: u32 = 64;
const FAR_POLLS: u32 = 1024;

impl OfiIface {
    #[inline]
    pub(crate) fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if budget == 0 {
            return 0;
        }
        let mut events = 0;
        if !self.events.is_empty() {
            events += self.events.report(sink, budget);
        }
        let kept = u32::from(!self.waiters.is_empty() && self.polls & 1 == 0 && budget > events);
        self.polls = self.polls.wrapping_add(1);
        let (polled, mut quiet) = (events + kept < budget, false);
        while events + kept < budget && !quiet {
            let (reported, empty) = self.poll(sink, budget - events - kept);
            events += reported;
            quiet = empty;
            // An arrival is handled without another poll: an empty one costs as much as a message. With
            // endpoints waiting, all news of space are read first, so that they are reported in order.
            if events > 0 && self.waiters.is_empty() {
                break;
            }
        }
        if !self.busy.is_empty() {
            self.hand_over_all();
        }
        if self.refusals.wait() {
            self.send_refusals();
        }
        if !self.late_puts.is_empty() {
            self.post_late_puts();
        }
        if !self.failing.is_empty() || !self.invalid.is_empty() {
            self.settle_failures(polled, quiet);
        }
        if !self.waiters.is_empty() && events < budget {
            events += self.report_writable(sink, budget - events);
        }
        if !self.events.is_empty() && events < budget {
            events += self.events.report(sink, budget - events);
        }
        if events == 0 {
            self.repost(true);
            self.idle_poll();
        } else {
            self.repost(false);
            if self.polls.is_multiple_of(FAR_POLLS) {
                self.check_remote_peers();
            }
        }
        events
    }

    /// Polls the queue once. Returns the events and whether it was empty.
    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: u32) -> (u32, bool) {
        let mut events = 0;
        while let Some((context, len)) = self.stash.pop_front() {
            events += self.ended(context, len, sink);
            if events == budget {
                return (events, false);
            }
        }
        let mut space = [const { MaybeUninit::<Entry>::uninit() }; ENTRIES];
        let wanted = (budget - events).min(ENTRIES as u32) as usize;
        let (read, entries) = self.net.read(&mut space[..wanted]);
        match read {
            Read::Entries(0) => return (events, true),
            Read::Entries(_) => {
                for entry in entries {
                    // SAFETY: `read` returns the entries that libfabric has written.
                    let entry = unsafe { entry.assume_init_ref() };
                    events += self.ended(entry.op_context as usize, entry.len, sink);
                }
            }
            Read::Failed(failure) => self.ended_badly(failure),
            Read::Broken(error) => {
                self.break_down(error);
                return (events, true);
            }
        }
        (events, false)
    }

    /// An operation has ended well. Returns the events reported, 0 or 1; others are noted.
    #[inline]
    fn ended(&mut self, context: usize, len: usize, sink: &mut dyn Sink) -> u32 {
        if context & 1 == 1 {
            self.posted -= 1;
            return self.arrive((context >> 1) as u32, len, sink);
        }
        if context != 0 {
            self.operation_ended((context >> 1) as u32 - 1);
        }
        0
    }

    fn operation_ended(&mut self, index: u32) {
        let (work, peer) = self.ops.remove(index);
        if let Work::Orphan { buffer } = work {
            if let Some(buffer) = buffer {
                self.tx.give(buffer);
            }
            return;
        }
        self.peers[peer as usize].under_way -= 1;
        match work {
            Work::Send { buffer } => self.tx.give(buffer),
            Work::SendLent { buffer, token } => {
                self.tx.give(buffer);
                self.complete(token, Ok(0));
            }
            Work::Put { buffer, token, epoch } => {
                if let Some(buffer) = buffer {
                    self.tx.give(buffer);
                }
                self.one_sided_ended(peer, epoch, token, Ok(0));
            }
            Work::Get { token, epoch } => self.one_sided_ended(peer, epoch, token, Ok(0)),
            Work::Atomic { buffer, token, wide, epoch } => {
                let old = self.atomic_result(buffer, wide);
                self.tx.give(buffer);
                self.one_sided_ended(peer, epoch, token, Ok(old));
            }
            Work::Free | Work::Asked { .. } | Work::Orphan { .. } => {
                debug_assert!(false, "libfabric answered an operation that it was not given");
            }
        }
    }

    /// Notes that an operation of the user is complete.
    #[inline]
    pub(crate) fn complete(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.events.complete(token, result);
    }

    /// A one-sided operation has ended: its token, and the flushes that waited for it.
    pub(crate) fn one_sided_ended(
        &mut self,
        peer: u32,
        epoch: u32,
        token: Token,
        result: Result<u64, PeerFailure>,
    ) {
        self.complete(token, result);
        self.peers[peer as usize].flushes.end(epoch);
        while let Some(waiter) = self.peers[peer as usize].flushes.complete() {
            self.events.answer(waiter, Ok(0));
        }
    }

    /// Reports endpoints as writable, in the order of asking, as far as there are buffers.
    fn report_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let (mut waiters, mut space) = (std::mem::take(&mut self.waiters), self.tx.left());
        let events = waiters.report(sink, budget, |ep| {
            let ready = space > 0 && self.may_post(ep);
            space -= usize::from(ready);
            ready
        });
        self.waiters = waiters;
        self.counters.writable += u64::from(events);
        events
    }

    pub(crate) fn may_post(&mut self, ep: EpId) -> bool {
        let Ok(&peer) = self.endpoints.open(ep) else { return false };
        self.ops.len() < self.most_operations
            && self.peers[peer as usize].credit() > 0
            && !self.fenced(peer)
    }

    /// Nothing happened: time to check the living.
    fn idle_poll(&mut self) {
        if self.polls.is_multiple_of(NEAR_POLLS) {
            self.check_local_peers();
        }
        if self.polls.is_multiple_of(FAR_POLLS) {
            self.check_remote_peers();
        }
    }
}
