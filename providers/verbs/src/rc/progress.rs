//! Completions, arrivals, and what is due from time to time.
//!
//! **Order of events.** Answers of operations, then failures, then arrivals, then endpoints that
//! may post again. A failure's answers are all noted before the failure is, so none comes after.
//! What came on the connection that failed is handed out before the failure is reported, and what comes
//! on a new one of the same peer after it.

use std::time::Instant;

use bowline_uct::{Arrival, PeerFailure, Sink, Source, Token, Verdict};

use super::disconnect::failure_from;
use super::peer::{Holds, Op};
use super::{Arrived, BATCH, RcIface};
use crate::control::POLLS;
use crate::sys::{Wc, ffi, status_text};
use crate::wire::{self, HEADER_BYTES, Parsed};

/// The peer of an arrival, while that is not known: no place of the table, which has
/// [fewer](super::MAX_ENDPOINTS).
const UNKNOWN_PEER: u32 = u32::MAX;

/// Rounds without an event between reads of the clock.
const IDLE_ROUNDS: u32 = 64;

/// Whether it is that of a receive buffer: these are numbered below 2^17; requests have a generation, never 0, far above.
pub(super) const fn is_arrival(completion: &Wc) -> bool {
    completion.wr_id >> 48 == 0
}

impl RcIface {
    pub(super) fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.control.pending() {
            self.take_events();
        }
        if budget == 0 {
            return 0;
        }
        let mut events = self.report_events(sink, budget);
        if !self.state.arrived.is_empty() {
            events += self.deliver(sink, budget - events);
        }
        if events < budget && self.state.arrived.is_empty() {
            self.poll(BATCH.min((budget - events) as usize));
            if !self.state.unclaimed.is_empty() {
                self.claim_arrivals();
            }
            events += self.deliver(sink, budget - events);
        }
        self.break_marked_links();
        events += self.report_events(sink, budget - events);
        if !self.waiters.is_empty() {
            events += self.report_writable(sink, budget - events);
        }
        if events == 0 {
            self.idle();
        }
        if let Err(error) = self.post_receives(false) {
            tracing::error!(%error, "receive buffers cannot be posted again");
        }
        events
    }

    /// Answers and failures, of which there are mostly none.
    #[inline(always)]
    fn report_events(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.events.is_empty() && self.failed.is_empty() {
            return 0;
        }
        self.report_some(sink, budget)
    }

    #[inline(never)]
    fn report_some(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = self.events.report(sink, budget);
        while events < budget
            && let Some(number) = self.failure_due()
        {
            self.report_failure(number, sink);
            events += 1;
        }
        events
    }

    /// The place of a failure that may be reported: of everything that came on the failed connection
    /// nothing waits any more.
    #[cold]
    fn next_failure(&self) -> Option<usize> {
        self.failed.iter().enumerate().position(|(place, &(number, pair))| {
            let is_first = !self.failed.iter().take(place).any(|(other, _)| *other == number);
            let waits = |arrived: &Arrived| arrived.peer == number && Some(arrived.pair) == pair;
            is_first && !self.state.arrived.iter().any(waits)
        })
    }

    /// A peer whose failure is to be reported.
    #[inline]
    fn failure_due(&mut self) -> Option<u32> {
        if self.failed.is_empty() {
            return None;
        }
        let place = self.next_failure()?;
        self.failed.remove(place).map(|(number, _)| number)
    }

    /// Puts the first arrival that may be handed out in front. Those of a new connection wait until
    /// the failure of the old one is reported. `None`: there is none.
    #[cold]
    fn choose_arrival(&mut self) -> Option<Arrived> {
        if self.next_failure().is_some() {
            return None;
        }
        let may_be_shown = |arrived: &Arrived| {
            let failure = self.failed.iter().find(|(number, _)| *number == arrived.peer);
            failure.is_none_or(|(_, pair)| *pair == Some(arrived.pair))
        };
        let place = self.state.arrived.iter().position(may_be_shown)?;
        let chosen = self.state.arrived.remove(place)?;
        self.state.arrived.push_front(chosen);
        Some(chosen)
    }

    /// The next arrival to be handed out, which stands in front then.
    #[inline]
    fn next_arrival(&mut self) -> Option<Arrived> {
        if self.failed.is_empty() {
            self.state.arrived.front().copied()
        } else {
            self.choose_arrival()
        }
    }

    /// Takes at most `most` completions in. No event of the control thread is handled meanwhile:
    /// one that ends a connection would forget its pair before the rest of the batch was taken in.
    fn poll(&mut self, most: usize) -> usize {
        if !self.state.left.is_empty() {
            self.take_left();
        }
        // Not on the stack, where they would have to be cleared each time.
        let mut completions = std::mem::take(&mut self.state.completions);
        let count = self.cq.poll(&mut completions[..most]);
        self.counters.polls += 1;
        self.counters.completions += count as u64;
        for completion in &completions[..count] {
            self.completed(completion);
        }
        self.state.completions = completions;
        count
    }

    /// Takes every completion in that there is.
    pub(super) fn read_completions(&mut self) {
        while self.poll(BATCH) == BATCH {}
    }

    #[inline]
    pub(super) fn completed(&mut self, completion: &Wc) {
        if is_arrival(completion) {
            self.received(completion);
        } else if completion.status == ffi::WC_SUCCESS {
            self.retire(completion.wr_id);
        } else {
            self.request_failed(completion);
        }
    }

    pub(super) fn received(&mut self, completion: &Wc) {
        let buffer = completion.wr_id as u32;
        let len = completion.byte_len as usize;
        let arrived = Arrived { buffer, len, peer: UNKNOWN_PEER, pair: completion.qp_num };
        match self.peer_of_pair(completion.qp_num) {
            _ if completion.status != ffi::WC_SUCCESS => self.receive.again(buffer),
            Some(peer) => self.state.arrived.push_back(Arrived { peer, ..arrived }),
            None => self.state.unclaimed.push(arrived),
        }
    }

    /// The peer was quicker than the news of its connection: takes the news, which
    /// [shows](Self::meet) whose the arrivals are. Nobody's are those of a connection that is over.
    #[cold]
    fn claim_arrivals(&mut self) {
        self.take_events();
        while let Some(Arrived { buffer, .. }) = self.state.unclaimed.pop() {
            self.receive.again(buffer);
        }
    }

    /// What has arrived on a pair before it was known whose that is.
    pub(super) fn meet(&mut self, number: u32, peer: u32) {
        let arrived = self.state.unclaimed.extract_if(.., |arrived| arrived.pair == number);
        self.state.arrived.extend(arrived.map(|arrived| Arrived { peer, ..arrived }));
    }

    /// Whose queue pair of ours it is; mostly that of the arrival before.
    #[inline]
    fn peer_of_pair(&mut self, pair: u32) -> Option<u32> {
        match self.state.last_pair {
            Some((known, peer)) if known == pair => Some(peer),
            _ => {
                let peer = self.state.by_pair.get(&pair).copied()?;
                self.state.last_pair = Some((pair, peer));
                Some(peer)
            }
        }
    }

    /// The request `id` is complete, and with it all before it.
    #[inline]
    pub(super) fn retire(&mut self, id: u64) {
        let last = id as u32;
        loop {
            let Some((number, link)) = self.link_of(id) else { return };
            let oldest = link.oldest();
            // How many stand up to the one that is named.
            let mut count = last.wrapping_sub(oldest).wrapping_add(1);
            if count > link.ops.len() as u32 {
                count = 0;
            }
            // Most of them hold nothing and answer nobody.
            let mut plain = 0;
            let op = loop {
                if plain == count {
                    break None;
                }
                let op = link.ops.pop_front();
                match op {
                    Some(Op { holds: Holds::Nothing, token: Token::NONE, reads: false }) => {
                        plain += 1;
                    }
                    op => break op,
                }
            };
            if let Some(op) = &op {
                link.reads -= u32::from(op.reads);
            }
            self.state.under_way -= plain as usize;
            match op {
                Some(op) => self.finish(op, Ok(0)),
                None => break self.answer_flushes(number, last),
            }
        }
    }

    fn answer_flushes(&mut self, number: u32, last: u32) {
        loop {
            let Some(link) = &mut self.peers[number as usize].link else { return };
            match link.flushes.front() {
                // Numbers go round; what is under way is far less than half of them.
                Some(&(at, waiter)) if last.wrapping_sub(at) < u32::MAX / 2 => {
                    link.flushes.pop_front();
                    self.events.answer(waiter, Ok(0));
                }
                _ => return,
            }
        }
    }

    /// An emulated atomic goes on in a new request: flushes that waited for its last round wait
    /// for this one.
    pub(super) fn flushes_follow(&mut self, number: u32) {
        if let Some(link) = &mut self.peers[number as usize].link {
            let last = link.next.wrapping_sub(1);
            for (at, _) in &mut link.flushes {
                *at = last;
            }
        }
    }

    #[cold]
    fn request_failed(&mut self, completion: &Wc) {
        let Some((number, _)) = self.link_of(completion.wr_id) else { return };
        let status = completion.status;
        tracing::debug!(peer = number, status, text = status_text(status), "a request failed");
        // What was complete before the one that failed has been, or is in the same batch.
        self.state.broken.push((number, failure_from(status)));
    }

    /// Hands arrivals to the sink.
    fn deliver(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        while events < budget
            && let Some(Arrived { buffer, len, peer, pair }) = self.next_arrival()
        {
            let message = self.receive.view(buffer, len);
            match wire::parse(message) {
                Some(Parsed::Message { id, header, payload }) => {
                    let view =
                        message.slice(HEADER_BYTES, payload).expect("the length was compared");
                    let (Verdict::Consumed | Verdict::Enough) =
                        sink.am(Arrival { source: Source(peer), id, header, payload: view });
                    self.receive.again(buffer);
                    self.counters.received += 1;
                    events += 1;
                }
                Some(Parsed::Close) => {
                    self.receive.again(buffer);
                    self.closed_in_order(peer, pair);
                }
                None => {
                    self.receive.again(buffer);
                    self.state.broken.push((peer, PeerFailure::Damaged));
                }
            }
            self.state.arrived.pop_front();
        }
        events
    }

    /// From time to time, asks the devices of silent peers whether they are there. Requests under
    /// way ask by themselves.
    #[inline]
    fn idle(&mut self) {
        self.state.idle_rounds += 1;
        if self.state.idle_rounds >= IDLE_ROUNDS {
            self.state.idle_rounds = 0;
            self.check_clock();
        }
    }

    /// A peer that has answered a request since the last poll is there and is not asked; an idle
    /// connection, whose last answer is that to the question, is asked at every second poll. So
    /// nothing is posted for the sake of liveness while a connection is in use, and no more than
    /// half of the time-out passes between an answer and the next question.
    #[cold]
    pub(super) fn check_clock(&mut self) {
        let now = Instant::now();
        if now < self.state.next_check {
            return;
        }
        self.state.next_check = now + self.timeout / POLLS;
        for number in 0..self.peers.len() as u32 {
            if !self.has_answered(number) {
                self.probe(number);
            }
        }
        if let Err(error) = self.post_receives(true) {
            tracing::error!(%error, "receive buffers cannot be posted again");
        }
    }

    /// Whether requests to a peer were completed since this was asked last.
    fn has_answered(&mut self, number: u32) -> bool {
        let Some(link) = &mut self.peers[number as usize].link else { return false };
        let oldest = link.oldest();
        std::mem::replace(&mut link.oldest_seen, oldest) != oldest
    }

    /// Asks a peer's device whether it is there; silence fails the connection.
    pub(super) fn probe(&mut self, number: u32) {
        let link = self.peers[number as usize].link.as_ref();
        if link.is_some_and(|link| link.ops.is_empty() || link.unsignalled > 0)
            && self.mark(number).is_ok()
        {
            self.counters.probes += 1;
        }
    }

    /// Progress without a layer above, while the interface closes: arrivals are dropped.
    pub(super) fn drain_quietly(&mut self) {
        if self.control.pending() {
            self.take_events();
        }
        if self.poll(BATCH) == 0 {
            std::thread::yield_now();
        }
        self.claim_arrivals();
        while let Some(arrived) = self.state.arrived.pop_front() {
            self.receive.again(arrived.buffer);
        }
        self.break_marked_links();
        self.events.clear();
        // A peer that waits for buffers here must be able to get rid of its own last messages.
        if let Err(error) = self.post_receives(false) {
            tracing::debug!(%error, "receive buffers cannot be posted again");
        }
    }

    /// Whether `progress` would report something.
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
            || self.next_failure().is_some()
            || !self.state.broken.is_empty()
            || !self.state.left.is_empty()
            || !self.state.unclaimed.is_empty()
            || !self.state.arrived.is_empty()
            || self.control.pending()
            || self.is_writable()
    }
}
