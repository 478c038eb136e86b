//! What is under way to a peer and what is expected from it, without devices: cumulative
//! acknowledgements, and repetition of all that is not acknowledged ("go back n"). How much may be
//! under way follows Jacobson's rules ("Congestion avoidance and control", 1988): it is halved when
//! something was lost, and grows with what is acknowledged, quickly up to half of where the last
//! loss was and by one per window beyond. Receive buffers are what is congested here: many senders
//! share those of one receiver.
//!
//! Numbers are 32 bits and go round; windows are far below half of that.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// First time without an acknowledgement after which datagrams are sent again; it doubles up to
/// the longest, and begins anew with each acknowledgement.
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
    /// Most that may ever be under way, and that may be now.
    most: usize,
    allowed: usize,
    /// Up to here `allowed` grows with each acknowledged datagram.
    threshold: usize,
    /// Acknowledged since it last grew, beyond the threshold.
    credit: usize,
    /// Losses of datagrams before this one have been answered for.
    answered: u32,
}

/// Datagrams that are always allowed.
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
            most: window,
            allowed: window.min(FIRST),
            threshold: window,
            credit: 0,
            answered: 0,
        }
    }

    /// Whether one more may be sent.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.unacknowledged.len() < self.allowed
    }

    /// Something was lost: fewer are allowed. Once for all that is under way now.
    pub fn lost(&mut self) {
        if self.first().wrapping_sub(self.answered) < u32::MAX / 2 {
            self.answered = self.next;
            self.threshold = (self.allowed / 2).max(LEAST);
            self.allowed = self.threshold;
            self.credit = 0;
        }
    }

    /// Datagrams that are allowed now.
    pub fn allowed(&self) -> usize {
        self.allowed
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
        if self.again.is_none() && !self.is_empty() {
            self.again = Some(now + self.pause);
        }
    }

    /// The peer expects number `expected`: hands what it has to `free`. An acknowledgement of
    /// what was never sent, or of long ago, changes nothing.
    pub fn acknowledged(&mut self, expected: u32, mut free: impl FnMut(T)) -> usize {
        let count = expected.wrapping_sub(self.first()) as usize;
        if count == 0 || count > self.unacknowledged.len() {
            return 0;
        }
        self.unacknowledged.drain(..count).for_each(&mut free);
        self.pause = FIRST_PAUSE;
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
                self.lost();
                true
            }
            _ => false,
        }
    }

    /// When it is over.
    pub fn again(&self) -> Option<Instant> {
        self.again
    }

    /// The datagram `place` after the first unacknowledged one, with its number.
    pub fn get(&self, place: usize) -> Option<(u32, &T)> {
        let datagram = self.unacknowledged.get(place)?;
        Some((self.first().wrapping_add(place as u32), datagram))
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.again = None;
        self.unacknowledged.drain(..)
    }
}

/// What a datagram with a message is to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
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
    /// An acknowledgement is to be sent at once: `Some(true)` tells of a gap.
    at_once: Option<bool>,
    /// The present gap was told.
    gap_told: bool,
}

impl Incoming {
    /// Number of the datagram that is expected.
    #[inline]
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// What datagram `sequence` is.
    pub fn order(&self, sequence: u32) -> Order {
        match sequence.wrapping_sub(self.expected) {
            0 => Order::Next,
            ahead if ahead < u32::MAX / 2 => Order::Early,
            _ => Order::Again,
        }
    }

    /// The expected datagram was taken.
    #[inline]
    pub fn taken(&mut self) {
        self.expected = self.expected.wrapping_add(1);
        self.due += 1;
        self.gap_told = false;
    }

    /// Datagram `sequence` was not.
    pub fn dropped(&mut self, sequence: u32) {
        match self.order(sequence) {
            Order::Again => self.at_once = self.at_once.or(Some(false)),
            Order::Early if !self.gap_told => {
                self.gap_told = true;
                self.at_once = Some(true);
            }
            Order::Early | Order::Next => {}
        }
    }

    /// There is room for what had to be dropped for want of it.
    pub fn ask_again(&mut self) {
        self.at_once = Some(true);
    }

    /// Whether an acknowledgement must go now, and whether it tells of a gap; `most` may be owed.
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
mod tests {
    use super::*;

    /// A window of 8 over a network that loses, doubles and delays: everything arrives once, in
    /// order, whatever the seed; the numbers go round in the midst of it.
    #[test]
    fn everything_arrives_once_and_in_order() {
        for seed in 0..200_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut below = |bound: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % bound
            };
            let begin = u32::MAX - 20;
            let mut out = Outgoing { next: begin, answered: begin, ..Outgoing::<u32>::new(8) };
            let mut inc = Incoming { expected: begin, ..Incoming::default() };
            let mut now = Instant::now();
            let mut wire: Vec<(u32, u32)> = Vec::new();
            let mut back: Vec<(u32, bool)> = Vec::new();
            let (mut sent, mut taken, mut freed) = (0, 0, 0);
            let mut steps = 0;
            while freed < 100 {
                steps += 1;
                assert!(steps < 100_000, "no end with seed {seed}");
                if sent < 100 && out.has_room() && below(2) == 0 {
                    assert!(out.len() < 8);
                    wire.push((out.next(), sent));
                    out.sent(sent);
                    sent += 1;
                }
                out.watch(now);
                if below(2) == 0 && !wire.is_empty() {
                    let place = below(wire.len() as u64) as usize;
                    let (sequence, what) = wire.remove(place);
                    if below(4) == 0 {
                        wire.push((sequence, what));
                    }
                    if below(5) > 0 {
                        if inc.order(sequence) == Order::Next {
                            assert_eq!(what, taken, "out of order with seed {seed}");
                            taken += 1;
                            inc.taken();
                        } else {
                            inc.dropped(sequence);
                        }
                    }
                }
                if let Some(gap) = inc.must_acknowledge(1 + below(4) as u32) {
                    back.push((inc.expected(), gap));
                    inc.acknowledged();
                }
                if below(2) == 0 && !back.is_empty() {
                    let place = below(back.len() as u64) as usize;
                    let (expected, gap) = back.remove(place);
                    if below(5) > 0 {
                        out.acknowledged(expected, |what| {
                            assert_eq!(what, freed);
                            freed += 1;
                        });
                        if gap {
                            wire.extend(out.get(0).map(|(sequence, what)| (sequence, *what)));
                        }
                    }
                }
                now += Duration::from_millis(3);
                if out.overdue(now) {
                    for place in 0..out.len() {
                        wire.extend(out.get(place).map(|(sequence, what)| (sequence, *what)));
                    }
                }
            }
            assert_eq!((taken, out.is_empty()), (100, true));
        }
    }

    #[test]
    fn losses_halve_what_is_allowed_and_acknowledgements_let_it_grow() {
        let mut out = Outgoing::new(64);
        let round = |out: &mut Outgoing<()>| {
            while out.has_room() {
                out.sent(());
            }
            let next = out.next();
            out.acknowledged(next, |()| {});
        };
        assert_eq!(out.allowed(), 32);
        round(&mut out);
        assert_eq!(out.allowed(), 64);
        round(&mut out);
        assert_eq!(out.allowed(), 64, "no more than the window");
        out.sent(());
        out.lost();
        out.lost();
        assert_eq!(out.allowed(), 32, "once for all that is under way");
        round(&mut out);
        assert_eq!(out.allowed(), 33, "slowly from there");
        for _ in 0..20 {
            out.sent(());
            out.lost();
            let next = out.next();
            out.acknowledged(next, |()| {});
        }
        assert_eq!(out.allowed(), LEAST);
    }

    #[test]
    fn acknowledgements_of_what_was_never_sent_change_nothing() {
        let mut out = Outgoing::new(4);
        out.sent('a');
        out.sent('b');
        for wrong in [3, 100, u32::MAX, 0] {
            assert_eq!(out.acknowledged(wrong, |_| panic!("freed by {wrong}")), 0);
        }
        assert_eq!(out.acknowledged(2, |_| {}), 2);
        assert_eq!(out.acknowledged(2, |_| panic!("freed twice")), 0);
    }
}
