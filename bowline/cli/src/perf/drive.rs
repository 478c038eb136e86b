//! The loops that are timed. A layer says how it sends and receives; when the clock is read, how
//! often, and what is checked is the same for all.

use std::time::Instant;

use anyhow::Result;

use super::payload::wrong_stamp;
use super::plan::Plan;
use super::stats::Samples;

/// Seeds of the patterns that are exchanged before and after the timed part. The sender's rank is
/// added, so that a side which receives its own message is found out.
const SEEDS: [u64; 2] = [100, 200];

/// One side of a ping-pong.
pub(crate) trait PingPong {
    /// The payload that the next `send` sends.
    fn outgoing(&mut self) -> &mut [u8];
    /// Sends it; returns when it may be written again.
    fn send(&mut self) -> Result<()>;
    /// Waits for one message.
    fn receive(&mut self) -> Result<()>;
    /// Whether the message received last carries this sequence number.
    fn is_stamped(&mut self, sequence: u64) -> bool;
    /// Says that the next message will be checked whole. Both sides do.
    fn expect_pattern(&mut self, _seed: u64) -> Result<()> {
        Ok(())
    }
    /// Compares the message received last with the pattern of `seed`.
    fn check_pattern(&mut self, seed: u64) -> Result<()>;
}

/// Times round trips between two ranks; alone, the way from this rank to itself. Samples are one
/// way, at rank 0.
pub(crate) fn ping_pong(plan: &Plan, rank: u32, side: &mut impl PingPong) -> Result<Samples> {
    let trip = Trip { rank, alone: plan.ranks == 1, size: plan.size };
    trip.patterns(side, SEEDS[0])?;
    let mut sequence = 0;
    trip.run(side, &mut sequence, plan.warmup)?;
    let mut samples = Samples::new();
    let ways = if trip.alone { plan.batch } else { plan.batch * 2 } as f64;
    for _ in 0..plan.samples() {
        let start = Instant::now();
        trip.run(side, &mut sequence, plan.batch)?;
        samples.record(start.elapsed().as_nanos() as f64 / ways);
    }
    trip.patterns(side, SEEDS[1])?;
    Ok(samples)
}

struct Trip {
    rank: u32,
    alone: bool,
    size: usize,
}

impl Trip {
    /// `count` round trips with sequence numbers.
    #[inline]
    fn run(&self, side: &mut impl PingPong, sequence: &mut u64, count: u64) -> Result<()> {
        for _ in 0..count {
            *sequence += 1;
            super::payload::stamp(side.outgoing(), *sequence);
            self.once(side)?;
            if !side.is_stamped(*sequence) {
                return Err(wrong_stamp(self.size, *sequence));
            }
        }
        Ok(())
    }

    #[inline]
    fn once(&self, side: &mut impl PingPong) -> Result<()> {
        if self.rank == 0 {
            side.send()?;
            side.receive()
        } else {
            side.receive()?;
            side.send()
        }
    }

    /// A round trip whose every byte is checked.
    fn patterns(&self, side: &mut impl PingPong, seed: u64) -> Result<()> {
        let peer = if self.alone { 0 } else { 1 - self.rank };
        super::payload::fill(side.outgoing(), seed + u64::from(self.rank));
        side.expect_pattern(seed + u64::from(peer))?;
        if self.rank == 0 {
            side.send()?;
        }
        side.receive()?;
        side.check_pattern(seed + u64::from(peer))?;
        if self.rank == 0 { Ok(()) } else { side.send() }
    }
}

/// What the messages of a window carry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried {
    /// This sequence number.
    Stamp(u64),
    /// The pattern of this seed.
    Pattern(u64),
}

impl Carried {
    /// Checks a message of a window.
    ///
    /// # Errors
    /// When it carries anything else.
    #[inline]
    pub(crate) fn check(self, message: &[u8]) -> Result<()> {
        match self {
            Self::Stamp(sequence) if super::payload::is_stamped(message, sequence) => Ok(()),
            Self::Stamp(sequence) => Err(wrong_stamp(message.len(), sequence)),
            Self::Pattern(seed) => super::payload::check(message, seed),
        }
    }
}

/// One side of a stream of messages from rank 0 to rank 1.
pub(crate) trait Stream {
    /// The payload that every message of the next window carries.
    fn outgoing(&mut self) -> &mut [u8];
    /// Rank 0: sends a window of messages; returns when the payload may be written again.
    fn send_window(&mut self) -> Result<()>;
    /// Rank 0: waits until rank 1 has answered the oldest window that was not answered before.
    fn await_answer(&mut self) -> Result<()>;
    /// Rank 1: receives a window and checks its messages.
    fn receive_window(&mut self, carried: Carried) -> Result<()>;
    /// Rank 1: answers a window.
    fn answer(&mut self) -> Result<()>;
    /// Says that the next window will carry a pattern. Both sides do, when nothing is under way.
    fn expect_pattern(&mut self, _seed: u64) -> Result<()> {
        Ok(())
    }
}

/// Times windows of messages. Samples are per message, at rank 0, which is ahead of the answers by
/// what the plan says.
pub(crate) fn stream(plan: &Plan, rank: u32, side: &mut impl Stream) -> Result<Samples> {
    let mut samples = Samples::new();
    patterns(rank, side, SEEDS[0])?;
    let mut unanswered = 0;
    let mut start = Instant::now();
    for sequence in 1..=plan.warmup + plan.iterations {
        if rank == 0 {
            super::payload::stamp(side.outgoing(), sequence);
            side.send_window()?;
            unanswered += 1;
            if unanswered > plan.ahead {
                side.await_answer()?;
                unanswered -= 1;
            }
            let end = Instant::now();
            if sequence > plan.warmup {
                samples.record((end - start).as_nanos() as f64 / plan.window as f64);
            }
            start = end;
        } else {
            side.receive_window(Carried::Stamp(sequence))?;
            side.answer()?;
        }
    }
    for _ in 0..unanswered {
        side.await_answer()?;
    }
    patterns(rank, side, SEEDS[1])?;
    Ok(samples)
}

fn patterns(rank: u32, side: &mut impl Stream, seed: u64) -> Result<()> {
    side.expect_pattern(seed)?;
    if rank == 0 {
        super::payload::fill(side.outgoing(), seed);
        side.send_window()?;
        side.await_answer()
    } else {
        side.receive_window(Carried::Pattern(seed))?;
        side.answer()
    }
}

/// Times an operation that only one side takes part in, or all do alike. Samples are whole
/// operations, or parts of them where one call of `operation` does `parts`.
pub(crate) fn operations(
    plan: &Plan,
    parts: usize,
    mut operation: impl FnMut() -> Result<()>,
) -> Result<Samples> {
    for _ in 0..plan.warmup {
        operation()?;
    }
    let mut samples = Samples::new();
    for _ in 0..plan.samples() {
        let start = Instant::now();
        for _ in 0..plan.batch {
            operation()?;
        }
        let parts = plan.batch as f64 * parts as f64;
        samples.record(start.elapsed().as_nanos() as f64 / parts);
    }
    Ok(samples)
}
