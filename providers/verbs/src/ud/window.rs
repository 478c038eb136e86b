//! What is under way to a peer and what is expected from it, without devices: cumulative
//! acknowledgements, and repetition of all that is not acknowledged ("go back n"). How much may be
//! under way follows Jacobson's rules ("Congestion avoidance and control", 1988): it is halved when
//! something was lost, and grows with what is acknowledged, quickly up to half of where the last
//! loss was and by one per window beyond.
//!
//! Receive buffers are what is congested here: many senders share those of one receiver. Whose
//! datagram finds none is chance, and who has lost one waits, while the others take the buffer that
//! becomes free. So the receiver says in every header how many datagrams of this peer it has buffers
//! for (`super::shares`): as long as all keep to that, nothing is lost, and what is served in order of
//! arrival is served fairly. For the same reason nobody falls below a quarter of what it was granted:
//! to grow by one per window from next to nothing takes longer than most bursts last.
//!
//! The time after which something counts as lost follows the round trips, by the same paper; those
//! of datagrams that were sent twice say nothing (Karn and Partridge, "Improving round-trip time
//! estimates in reliable transport protocols", 1987). A receiver that drains slowly is slow, and
//! repeating to it would only fill its buffers.
//!
//! Numbers are 32 bits and go round; windows are far below half of that.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Shortest time without an acknowledgement after which datagrams are sent again, and the first;
/// it doubles up to the longest, and begins anew with each acknowledgement of what was sent once.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// Datagrams that are not acknowledged yet.
#[derive(Debug)]
pub struct Outgoing<T> {
    /// Number of the next datagram.
    next: u32,
    /// In order; the last one is `next - 1`.
    unacknowledged: VecDeque<T>,
    pause: Duration,
    again: Option<Instant>,
    trips: Trips,
    /// Up to `again_from` it was sent again; the rest follows up to `again_until`.
    again_from: u32,
    again_until: u32,
    /// Whether that was lost is not certain: only the first are sent again, and the answer to them
    /// says.
    probing: bool,
    /// Most that may ever be under way, that may be now, and that the peer has buffers for.
    most: usize,
    allowed: usize,
    share: usize,
    /// Datagrams that are allowed whatever is lost.
    least: usize,
    /// Up to here `allowed` grows with each acknowledged datagram.
    threshold: usize,
    /// Acknowledged since it last grew, beyond the threshold.
    credit: usize,
    /// Losses of datagrams before this one have been answered for.
    answered: u32,
}

/// Datagrams that are always allowed, before the peer has said for how many it has buffers.
const LEAST: usize = 2;

/// Datagrams that are allowed at first.
const FIRST: usize = 32;

impl<T> Outgoing<T> {
    /// Nothing is under way; at most `window` will be.
    pub fn new(window: usize) -> Self {
        let unacknowledged = VecDeque::with_capacity(window);
        Self {
            next: 0,
            unacknowledged,
            pause: FIRST_PAUSE,
            again: None,
            trips: Trips::default(),
            again_from: 0,
            again_until: 0,
            probing: false,
            most: window,
            allowed: window.min(FIRST),
            share: window,
            least: LEAST,
            threshold: window,
            credit: 0,
            answered: 0,
        }
    }

    /// Whether one more may be sent.
    #[inline]
    pub fn has_space(&self) -> bool {
        self.unacknowledged.len() < self.allowed.min(self.share)
    }

    /// The peer has buffers for so many; it is always sent one, so that it can say more.
    #[inline]
    pub fn share(&mut self, share: u16) {
        self.share = usize::from(share).max(1);
        self.least = (self.share.min(self.most) / 4).max(LEAST);
    }

    /// Something was lost: fewer are allowed. Once for all that is under way now.
    pub fn lost(&mut self) {
        if self.first().wrapping_sub(self.answered) < u32::MAX / 2 {
            self.answered = self.next;
            self.threshold = (self.allowed / 2).max(self.least);
            self.allowed = self.threshold;
            self.credit = 0;
        }
    }

    /// Datagrams that are allowed now.
    pub fn allowed(&self) -> usize {
        self.allowed.min(self.share)
    }

    /// All that is under way is to be sent again, from the first on.
    pub fn repeat(&mut self) {
        self.trips.timed = None;
        self.trips.clean = self.next;
        self.again_from = self.first();
        self.again_until = self.next;
        self.probing = false;
    }

    /// The next datagram to be sent again, if any is left and as many are allowed. The rest follows
    /// with the acknowledgements, not one window for each pause.
    #[inline]
    pub fn due_again(&self) -> Option<(u32, &T)> {
        let place = self.again_from.wrapping_sub(self.first()) as usize;
        let most = if self.probing { LEAST } else { self.allowed() };
        if !is_before(self.again_from, self.again_until) || place >= most {
            return None;
        }
        Some((self.again_from, self.unacknowledged.get(place)?))
    }

    /// It was sent.
    #[inline]
    pub fn sent_again(&mut self) {
        self.again_from = self.again_from.wrapping_add(1);
    }

    fn grow(&mut self, count: usize) {
        if self.allowed < self.threshold {
            self.allowed = (self.allowed + count).min(self.threshold).min(self.most);
        } else {
            self.credit += count;
            if self.credit >= self.allowed {
                self.credit = 0;
                self.allowed = (self.allowed + 1).min(self.most);
            }
        }
    }

    /// Datagrams under way.
    #[inline]
    pub fn len(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Whether all is acknowledged.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Number of the next datagram.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Number of the first one that is not acknowledged.
    #[inline]
    pub fn first(&self) -> u32 {
        self.next.wrapping_sub(self.unacknowledged.len() as u32)
    }

    /// `datagram` was sent as number `next`.
    #[inline]
    pub fn sent(&mut self, datagram: T) {
        self.unacknowledged.push_back(datagram);
        self.next = self.next.wrapping_add(1);
    }

    /// Sets the clock if it is not running.
    pub fn watch(&mut self, now: Instant) {
        if self.is_empty() {
            return;
        }
        if self.again.is_none() {
            self.again = Some(now + self.pause);
        }
        let last = self.next.wrapping_sub(1);
        if self.trips.timed.is_none() && !is_before(last, self.trips.clean) {
            self.trips.timed = Some((last, now));
        }
    }

    /// The peer expects number `expected`: hands what it has to `free`. An acknowledgement of
    /// what was never sent, or of long ago, changes nothing. `clock` is asked rarely.
    pub fn acknowledged(
        &mut self,
        expected: u32,
        clock: impl FnOnce() -> Instant,
        mut free: impl FnMut(T),
    ) -> usize {
        let count = expected.wrapping_sub(self.first()) as usize;
        if count == 0 || count > self.unacknowledged.len() {
            return 0;
        }
        self.unacknowledged.drain(..count).for_each(&mut free);
        self.probing = false;
        if is_before(self.again_from, expected) {
            // More has arrived than was sent again: the rest is late and not lost.
            (self.again_from, self.again_until) = (expected, expected);
        }
        // Numbers go round: what lies behind must not seem to lie ahead one day.
        for past in [&mut self.again_until, &mut self.trips.clean, &mut self.answered] {
            if is_before(*past, expected) {
                *past = expected;
            }
        }
        if let Some((number, begin)) = self.trips.timed
            && is_before(number, expected)
        {
            self.trips.timed = None;
            self.trips.took(clock().saturating_duration_since(begin));
            self.pause = self.trips.pause();
        }
        self.again = None;
        self.grow(count);
        count
    }

    /// Whether the time for an acknowledgement is over; it begins anew, longer.
    pub fn overdue(&mut self, now: Instant) -> bool {
        match self.again {
            Some(again) if now >= again && !self.is_empty() => {
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.again = Some(now + self.pause);
                // It may only be late. If so it grows back quickly.
                let before = self.allowed;
                self.lost();
                self.threshold = self.threshold.max(before);
                self.repeat();
                self.probing = true;
                true
            }
            _ => false,
        }
    }

    /// When it is over.
    pub fn again(&self) -> Option<Instant> {
        self.again
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.again = None;
        self.unacknowledged.drain(..)
    }
}

/// Whether number `a` comes before `b`.
fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}

/// How long acknowledgements take.
#[derive(Debug, Default)]
struct Trips {
    /// Average and mean deviation, once there was one.
    known: Option<(Duration, Duration)>,
    /// The datagram that is timed, and since when.
    timed: Option<(u32, Instant)>,
    /// Datagrams from this number on were sent once at most.
    clean: u32,
}

impl Trips {
    fn took(&mut self, time: Duration) {
        let (average, deviation) = self.known.unwrap_or((time, time / 2));
        let off = average.abs_diff(time);
        // Gains of an eighth and a quarter, as in the paper.
        self.known = Some(((average * 7 + time) / 8, (deviation * 3 + off) / 4));
    }

    fn pause(&self) -> Duration {
        let pause = self.known.map_or(FIRST_PAUSE, |(average, deviation)| average + deviation * 4);
        pause.clamp(FIRST_PAUSE, LONGEST_PAUSE)
    }
}

/// What a datagram with a message is to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOrder {
    /// The one that was expected.
    Next,
    /// One that was taken already: its acknowledgement was lost.
    Again,
    /// One from behind a gap.
    Early,
}

/// Datagrams that have arrived.
#[derive(Debug, Default)]
pub struct Incoming {
    expected: u32,
    /// Taken since the last acknowledgement was sent.
    due: u32,
    /// An acknowledgement is to be sent at once: `Some(true)` says that there is a gap.
    at_once: Option<bool>,
    gap_reported: bool,
}

impl Incoming {
    /// Number of the datagram that is expected.
    #[inline]
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// What datagram `sequence` is.
    pub fn order(&self, sequence: u32) -> ReceiveOrder {
        match sequence.wrapping_sub(self.expected) {
            0 => ReceiveOrder::Next,
            ahead if ahead < u32::MAX / 2 => ReceiveOrder::Early,
            _ => ReceiveOrder::Again,
        }
    }

    /// The expected datagram was taken.
    #[inline]
    pub fn taken(&mut self) {
        self.expected = self.expected.wrapping_add(1);
        self.due += 1;
        self.gap_reported = false;
    }

    /// Datagram `sequence` was not.
    pub fn dropped(&mut self, sequence: u32) {
        match self.order(sequence) {
            ReceiveOrder::Again => self.at_once = self.at_once.or(Some(false)),
            ReceiveOrder::Early if !self.gap_reported => {
                self.gap_reported = true;
                self.at_once = Some(true);
            }
            ReceiveOrder::Early | ReceiveOrder::Next => {}
        }
    }

    /// Whether an acknowledgement must go now, and whether it reports a gap; `most` may be owed.
    #[inline]
    pub fn must_acknowledge(&self, most: u32) -> Option<bool> {
        match self.at_once {
            None if self.due >= most.max(1) => Some(false),
            at_once => at_once,
        }
    }

    /// Whether any is owed.
    #[inline]
    pub fn owes(&self) -> bool {
        self.due > 0 || self.at_once.is_some()
    }

    /// One was sent.
    #[inline]
    pub fn acknowledged(&mut self) {
        self.due = 0;
        self.at_once = None;
    }
}

#[cfg(test)]
mod tests;
