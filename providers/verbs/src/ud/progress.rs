//! Arrivals, acknowledgements, and what is due from time to time.
//!
//! **Order of events.** Answers, failures, arrivals, endpoints that may post again. A connection
//! that its peer has ended is broken when everything that had arrived on it by then was shown, so
//! that what a peer sent before its end comes before the news of it.

use std::time::{Duration, Instant};

use bowline_uct::{Arrival, Discard, PeerFailure, Sink, Source, Verdict};
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use super::post::SENT;
use super::window::ReceiveOrder;
use super::wire::{DatagramHead, DatagramKind, HEAD_BYTES};
use super::{BATCH, BEFORE_MESSAGE, UdIface};
use crate::control::GRH_BYTES;
use crate::sys::{Wc, ffi};
use crate::wire::{self, HEADER_BYTES, Parsed};

/// Rounds between reads of the clock, and the time between polls of all connections.
const ROUNDS: u32 = 16;
const SCAN: Duration = Duration::from_millis(5);

impl UdIface {
    pub(super) fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.control.pending() {
            self.take_events();
        }
        if budget == 0 {
            // Nothing may be reported, but what waits for acknowledgements may leave.
            self.absorb();
            self.check_clock();
            return 0;
        }
        let mut events = self.report_events(sink, budget);
        let mut found = 0;
        if events < budget {
            let mut completions = [Wc::default(); BATCH];
            let most = BATCH.min((budget - events) as usize);
            found = self.poll(&mut completions[..most]);
            for completion in &completions[..found] {
                events += self.completed(completion, sink);
            }
        }
        if !self.state.ended.is_empty() {
            self.break_ended();
        }
        events += self.report_events(sink, budget - events);
        if !self.waiters.is_empty() {
            events += self.report_writable(sink, budget - events);
        }
        self.pay(found == 0);
        self.state.rounds += 1;
        if self.state.rounds >= ROUNDS {
            self.state.rounds = 0;
            self.check_clock();
        }
        if let Err(error) = self.post_receives(false) {
            tracing::error!(%error, "receive buffers cannot be posted again");
        }
        events
    }

    fn report_events(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = self.events.report(sink, budget);
        while events < budget
            && let Some((number, _)) = self.failed.pop_front()
        {
            self.report_failure(number, sink);
            events += 1;
        }
        events
    }

    fn poll(&mut self, out: &mut [Wc]) -> usize {
        if !self.state.stash.is_empty() {
            let count = out.len().min(self.state.stash.len());
            for (place, completion) in out.iter_mut().zip(self.state.stash.drain(..count)) {
                *place = completion;
            }
            return count;
        }
        let count = self.cq.poll(out);
        self.counters.polls += 1;
        self.counters.completions += count as u64;
        count
    }

    /// Takes in what the sink does not see, and keeps the rest for later. Returns what was found.
    pub(super) fn absorb(&mut self) -> usize {
        let mut completions = [Wc::default(); BATCH];
        let found = self.cq.poll(&mut completions);
        self.counters.polls += 1;
        self.counters.completions += found as u64;
        for completion in &completions[..found] {
            if completion.wr_id & SENT != 0 {
                self.left_queue(completion.wr_id & !SENT);
                continue;
            }
            if self.is_message(completion) {
                self.state.stash.push_back(*completion);
            } else {
                self.completed(completion, &mut Discard);
            }
        }
        found
    }

    /// Whether a received datagram has a message; the sink does not see others.
    fn is_message(&self, completion: &Wc) -> bool {
        matches!(self.head_of(completion), Some(DatagramHead { kind: DatagramKind::Data, .. }))
    }

    /// Whether something that was sent to our end `pair` waits to be shown.
    pub(super) fn is_aside(&self, pair: u32) -> bool {
        let theirs = |completion: &Wc| self.head_of(completion).map(|head| head.to);
        self.state.stash.iter().any(|completion| theirs(completion) == Some(pair))
    }

    fn head_of(&self, completion: &Wc) -> Option<DatagramHead> {
        let view = self.receive.view(completion.wr_id as u32, completion.byte_len as usize);
        let mut bytes = [0; HEAD_BYTES];
        view.slice(GRH_BYTES, HEAD_BYTES)?.copy_out(&mut bytes);
        DatagramHead::decode(&bytes)
    }

    /// Takes a completion in. Returns the events, 0 or 1.
    fn completed(&mut self, completion: &Wc, sink: &mut dyn Sink) -> u32 {
        if completion.wr_id & SENT != 0 {
            // A datagram that failed is lost, as any may be.
            self.left_queue(completion.wr_id & !SENT);
            return 0;
        }
        let buffer = completion.wr_id as u32;
        let events = self.received(buffer, completion, sink);
        match events {
            Some(event) => event,
            None => {
                self.receive.again(buffer);
                0
            }
        }
    }

    /// `None`: the buffer is free again.
    fn received(&mut self, buffer: u32, completion: &Wc, sink: &mut dyn Sink) -> Option<u32> {
        if completion.status != ffi::WC_SUCCESS {
            return None;
        }
        let len = completion.byte_len as usize;
        let head = self.head_of(completion)?;
        if !self.state.by_number.contains_key(&head.to) && self.control.pending() {
            self.take_events();
        }
        let number = *self.state.by_number.get(&head.to)?;
        let link = self.peers[number as usize].link.as_mut()?;
        if link.ours.psn != head.session {
            return None;
        }
        link.outgoing.share(head.share);
        let (freed, clock) = (&mut self.state.freed, Instant::now);
        if link.outgoing.acknowledged(head.expected, clock, |sent| freed.push(sent.buffer)) > 0 {
            self.acknowledged(number, head.expected);
        }
        match head.kind {
            DatagramKind::Ack { gap } => {
                if gap {
                    if let Some(link) = &mut self.peers[number as usize].link {
                        link.outgoing.lost();
                    }
                    self.repeat(number);
                }
                None
            }
            DatagramKind::Data => self.message(number, buffer, len, head.sequence, sink),
        }
    }

    /// Frees what was acknowledged, answers flushes, and sends what waited for space.
    fn acknowledged(&mut self, number: u32, expected: u32) {
        while let Some(buffer) = self.state.freed.pop() {
            self.free(buffer);
        }
        while let Some(link) = &mut self.peers[number as usize].link
            && let Some(&(at, waiter)) = link.flushes.front()
            && expected.wrapping_sub(at).wrapping_sub(1) < u32::MAX / 2
        {
            link.flushes.pop_front();
            self.events.answer(waiter, Ok(0));
        }
        self.repeat_due(number);
        if !self.peers[number as usize].waiting.is_empty() {
            self.post_waiting(number);
        }
    }

    fn message(
        &mut self,
        number: u32,
        buffer: u32,
        len: usize,
        sequence: u32,
        sink: &mut dyn Sink,
    ) -> Option<u32> {
        let link = self.peers[number as usize].link.as_mut()?;
        self.state.shares.arrived(&mut link.counted);
        if !std::mem::replace(&mut link.owing, true) {
            self.state.owing.push_back(number);
        }
        if link.incoming.order(sequence) != ReceiveOrder::Next {
            link.incoming.dropped(sequence);
            self.counters.dropped += 1;
            return None;
        }
        let message = self.receive.view(buffer, len).slice(BEFORE_MESSAGE, len - BEFORE_MESSAGE)?;
        let Some(Parsed::Message { id, header, payload }) = wire::parse(message) else {
            self.break_link(number, PeerFailure::Damaged);
            return None;
        };
        link.incoming.taken();
        let view = message.slice(HEADER_BYTES, payload).expect("the length was compared");
        let (Verdict::Consumed | Verdict::Enough) =
            sink.am(Arrival { source: Source(number), id, header, payload: view });
        self.receive.again(buffer);
        self.counters.received += 1;
        Some(1)
    }

    /// Sends acknowledgements: those that must go, or with nothing else to do all that are owed.
    pub(super) fn pay(&mut self, all: bool) {
        // Where a peer may send less than its window, it waits for answers to less.
        let most = (self.state.window / 4).min(usize::from(self.state.shares.each()) / 2) as u32;
        for _ in 0..self.state.owing.len() {
            let Some(number) = self.state.owing.pop_front() else { return };
            let Some(link) = &mut self.peers[number as usize].link else { continue };
            let must = link.incoming.must_acknowledge(most);
            if must.is_some() || all && link.incoming.owes() {
                self.acknowledge(number, must.unwrap_or(false));
            }
            let Some(link) = &mut self.peers[number as usize].link else { continue };
            link.owing = link.incoming.owes();
            if link.owing {
                self.state.owing.push_back(number);
            }
        }
    }

    /// Sends again what is overdue. Returns when to check again, if anything is under way.
    pub(super) fn scan(&mut self, now: Instant) -> Option<Instant> {
        self.state.next_scan = now + SCAN;
        let mut next: Option<Instant> = None;
        for number in 0..self.peers.len() as u32 {
            let Some(link) = &mut self.peers[number as usize].link else { continue };
            link.outgoing.watch(now);
            if link.outgoing.overdue(now) {
                self.repeat(number);
            } else {
                // What found the device's queue full.
                self.repeat_due(number);
            }
            let link = self.peers[number as usize].link.as_ref();
            let again = link.and_then(|link| link.outgoing.again());
            next = match (next, again) {
                (Some(next), Some(again)) => Some(next.min(again)),
                (next, again) => next.or(again),
            };
            if !self.peers[number as usize].waiting.is_empty() {
                self.post_waiting(number);
            }
        }
        next
    }

    fn check_clock(&mut self) {
        let now = Instant::now();
        if now >= self.state.next_scan {
            self.scan(now);
        }
    }

    /// Checks everything that could keep the interface awake, and sets the clock by which a
    /// sleeper sends again. Whether it may sleep.
    pub(super) fn prepare_to_sleep(&mut self) -> bool {
        self.pay(true);
        if let Err(error) = self.post_receives(true) {
            tracing::error!(%error, "receive buffers cannot be posted again");
        }
        let next = self.scan(Instant::now());
        self.cq.request_event();
        // What came before the request rings nobody: poll once more.
        if self.absorb() == BATCH {
            return false;
        }
        self.set_clock(next);
        let busy = !self.state.stash.is_empty()
            || !self.events.is_empty()
            || !self.failed.is_empty()
            || self.state.ended.iter().any(|(_, ours, _)| !self.is_aside(*ours))
            || self.is_writable()
            || self.control.pending_after_sleeping();
        !busy
    }

    /// Has the descriptor become readable at `next`, or not at all.
    pub(super) fn set_clock(&self, next: Option<Instant>) {
        let Some(clock) = &self.state.clock else { return };
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = next.map_or(none, |next| {
            let time = next.saturating_duration_since(Instant::now());
            let time = time.max(Duration::from_millis(1));
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
        });
        let time = Itimerspec { it_interval: none, it_value: value };
        if let Err(error) = timerfd_settime(clock, TimerfdTimerFlags::empty(), &time) {
            tracing::error!(%error, "the clock of a sleeper cannot be set");
        }
    }

    /// Progress without a layer above, while the interface closes: messages are acknowledged and
    /// dropped.
    pub(super) fn drain_quietly(&mut self) {
        if self.progress(&mut Discard, 64) == 0 {
            std::thread::yield_now();
        }
    }
}
