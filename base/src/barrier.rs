//! A barrier with a small reduction in memory that all members write: one counter, one result, and a
//! state word for each member, so that no single word decides.
//!
//! ```text
//!   line 0        word 0: arrivals since the memory was made; word 1: members asleep, or about to be
//!   line 1        word 0: the result's word; words 1 to 7: the result
//!   then          a state word for each member
//!   then          contributions in order of rank, in whole words, without gaps
//!
//!   result's word, state word     round (22 bits), stage (4), bytes (6), check of round and bytes (32)
//!
//!   a member      ENTERED ──count──► WAITS ◄──► ASLEEP        the next round begins with ENTERED
//!                    └─────count───► LAST                     FAILED is final
//! ```
//! Rules. (1) A member writes its contribution, then its state ENTERED (release), then adds one to the
//! count (release); the one whose addition completes the round is the last, and reads all states and
//! contributions after it (acquire). (2) The last member writes the result, then the result's word
//! (release); a rank that finds that word changed (acquire) reads the result. (3) Nobody enters the next
//! round before it has read the result of this one, so nothing is overwritten while it is read.
//! (4) A member that wants to sleep stores ASLEEP, counts itself as a sleeper, and reads the
//! result's word again before it sleeps. The rank that takes ASLEEP back wakes the sleeper or is the
//! sleeper. The last member reads the states a second time only if sleepers are counted.
//!
//! A stray write must not make a member wait for ever, or take a wrong result for a right one:
//!
//! (5) The count must lie within the round, and the result's word must be what this member saw last
//! when it enters. (6) The last member believes the count only if every state says that its member
//! is in the round, and a contribution only with its check. (7) A result counts only with the next
//! round and its check. (8) A member that waits for long checks everything ([`BarrierMember::poll`]): its
//! own state must be the one that it stored, and some member must be under way. States WAITS and ASLEEP
//! mean that the member counted itself *and was not the last*, so when all say that, the count is
//! wrong, however slow members are. (9) Who finds damage says so in the result's word and in its own
//! state, which it never changes again, so that every other member finds it at its next poll.
//!
//! It does not wait, wake or know of deaths: that is the caller's part. It protects against stray
//! writes, not against a member that computes matching checks: that one may contribute what it likes.

use thiserror::Error;

use crate::sync::LINE;
use crate::sync::atomic::{Ordering, fence};
use crate::words::{LINE_WORDS, LineWords, Words};

const WORD: usize = 8;
const CONTROL: usize = 0;
const ARRIVED: usize = 0;
const SLEEPERS: usize = 1;
const RESULT: usize = 1;
const STATES: usize = 2;

/// State words in a line; fewer in models, whose lines have fewer shared words.
const STATES_IN_LINE: usize = if cfg!(bowline_loom) { 2 } else { LINE_WORDS };

/// Longest contribution, in bytes.
pub const MAX_BYTES: usize = LINE - WORD;

const ENTERED: u64 = 1;
const WAITS: u64 = 2;
const ASLEEP: u64 = 3;
const LAST: u64 = 4;
const COMBINED: u64 = 5;
const UNEQUAL: u64 = 6;
const FAILED: u64 = 15;

const ROUND_SHIFT: u32 = 42;
const STAGE_SHIFT: u32 = 38;
const LEN_SHIFT: u32 = 32;
const STAGE_MASK: u64 = 15 << STAGE_SHIFT;

/// What the result's word is after a failure: no round has it, since its check is wrong.
const POISON: u64 = u64::MAX;

/// Bytes of memory for `ranks` members; to be zero, and to start on a line.
pub const fn bytes(ranks: u32) -> usize {
    inputs_line(ranks) * LINE + (ranks as usize * MAX_BYTES).next_multiple_of(LINE)
}

const fn inputs_line(ranks: u32) -> usize {
    STATES + (ranks as usize).div_ceil(STATES_IN_LINE)
}

/// The memory holds what no correct member has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} was overwritten")]
pub struct StrayWrite(pub(crate) &'static str);

impl StrayWrite {
    /// What another member has said of its call, which is another collective if the word is whole.
    pub const fn call() -> Self {
        Self("another member is in another collective, or its call")
    }

    /// Where another member has said that its data is, which cannot be read.
    pub const fn data() -> Self {
        Self("what another member has said of its data")
    }
}

/// A member's part in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum BarrierPart {
    /// All others are in: it combines the contributions and publishes the result.
    Last,
    /// It waits for the result.
    Waits,
}

/// How a round has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierOutcome {
    /// With a result of so many bytes.
    Result(usize),
    /// Without one: the contributions have different lengths, from the first to the second.
    Unequal(u8, u8),
}

/// What one member knows of the rounds, outside of the memory.
#[derive(Clone, Copy, Debug)]
pub struct BarrierMember {
    rank: u32,
    ranks: u32,
    /// Rounds that have ended.
    rounds: u64,
    /// The result's word of the last of them.
    seen: u64,
    /// The own state word as it was stored last.
    own: u64,
}

impl BarrierMember {
    /// The member `rank` of `ranks`, before the first round.
    pub const fn new(rank: u32, ranks: u32) -> Self {
        Self { rank, ranks, rounds: 0, seen: 0, own: 0 }
    }

    /// Contributes `input`, at most [`MAX_BYTES`], and counts this member in.
    ///
    /// # Errors
    /// When the count or the result was overwritten; to be followed by [`fail`](Self::fail), as every
    /// error here.
    pub fn enter<W: Words>(&mut self, memory: &W, input: &[u8]) -> Result<BarrierPart, StrayWrite> {
        // Acquire: pairs with nothing that is read; the value alone counts (rule 5).
        if memory.line(RESULT).load(0, Ordering::Acquire) != self.seen {
            return Err(StrayWrite("the result"));
        }
        let place = self.rank as usize * stride(input.len());
        memory.put_across(inputs_line(self.ranks) * LINE + place, input);
        let round = self.round();
        self.own = word(round, ENTERED, input.len(), check(round, Some(self.rank), input));
        // Rule 1: Release publishes the contribution to the last member's Acquire of this state.
        self.store_own(memory, Ordering::Release);
        // Rule 1: pairs with the same addition of the other members.
        let before = memory.line(CONTROL).fetch_add(ARRIVED, 1, Ordering::AcqRel);
        let others = before.wrapping_sub(self.rounds.wrapping_mul(self.ranks.into()));
        if others >= self.ranks.into() {
            return Err(StrayWrite("the count of arrivals"));
        }
        let is_last = others + 1 == self.ranks.into();
        self.own = with_stage(self.own, if is_last { LAST } else { WAITS });
        // Release: pairs with the Acquire of `poll`, which concludes from it that the count was taken.
        self.store_own(memory, Ordering::Release);
        Ok(if is_last { BarrierPart::Last } else { BarrierPart::Waits })
    }

    /// For the last member: whether all are in the round, and the shortest and the longest
    /// contribution.
    ///
    /// # Errors
    /// When a member's state says that it is not (rule 6).
    pub fn lengths<W: Words>(&self, memory: &W) -> Result<(u8, u8), StrayWrite> {
        let own = length(self.own);
        let (mut least, mut most) = (own, own);
        for rank in (0..self.ranks).filter(|&rank| rank != self.rank) {
            let (line, at) = state_at(rank);
            // Acquire pairs with the Release of `enter`: the contribution.
            let state = memory.line(line).load(at, Ordering::Acquire);
            let is_in = matches!(stage(state), ENTERED | WAITS | ASLEEP);
            if !is_in || round_of(state) != self.round() {
                return Err(StrayWrite("the state of a member"));
            }
            let len = length(state);
            if len == 0 && state as u32 != check(self.round(), Some(rank), &[]) {
                return Err(StrayWrite("the state of a member"));
            }
            (least, most) = (least.min(len), most.max(len));
        }
        Ok((least, most))
    }

    /// For the last member, after [`lengths`](Self::lengths): copies contributions of `len` bytes out,
    /// from that of `first` on, each in whole words.
    ///
    /// # Errors
    /// When one is not what its member wrote (rule 6).
    pub fn inputs<W: Words>(
        &self,
        memory: &W,
        first: u32,
        len: usize,
        rows: &mut [u8],
    ) -> Result<(), StrayWrite> {
        let place = first as usize * stride(len);
        memory.get_across(inputs_line(self.ranks) * LINE + place, rows);
        for (rank, row) in (first..).zip(rows.chunks_exact(stride(len))) {
            let (line, at) = state_at(rank);
            // Relaxed: `lengths` has acquired the state; its check has not changed since.
            let state = memory.line(line).load(at, Ordering::Relaxed);
            if state as u32 != check(self.round(), Some(rank), &row[..len]) {
                return Err(StrayWrite("a contribution"));
            }
        }
        Ok(())
    }

    /// For the last member: ends the round with a result. Whether to check who sleeps
    /// ([`wakes`](Self::wakes)).
    #[must_use]
    pub fn publish<W: Words>(&mut self, memory: &W, result: &[u8]) -> bool {
        self.publish_as(memory, COMBINED, result)
    }

    /// The same, without a result: the contributions have different lengths.
    #[must_use]
    pub fn publish_unequal<W: Words>(&mut self, memory: &W, least: u8, most: u8) -> bool {
        self.publish_as(memory, UNEQUAL, &[least, most])
    }

    fn publish_as<W: Words>(&mut self, memory: &W, stage: u64, result: &[u8]) -> bool {
        let line = memory.line(RESULT);
        line.put(1, result);
        let round = self.round();
        self.seen = word(round, stage, result.len(), check(round, None, result) ^ stage as u32);
        // Rule 2: pairs with the Acquire of `take`.
        line.store(0, self.seen, Ordering::Release);
        self.rounds += 1;
        // Rule 4: pairs with the fence of a member that is about to sleep.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        memory.line(CONTROL).load(SLEEPERS, Ordering::Relaxed) != 0
    }

    /// Whether the round may have ended. One load.
    #[inline]
    pub fn has_ended<W: Words>(&self, memory: &W) -> bool {
        // Relaxed: `take` acquires what it says.
        memory.line(RESULT).load(0, Ordering::Relaxed) != self.seen
    }

    /// Takes the result of a round that has ended, to the front of `out`.
    ///
    /// # Errors
    /// When it is none (rule 7), or another member has found damage.
    pub fn take<W: Words>(
        &mut self,
        memory: &W,
        out: &mut [u8; MAX_BYTES],
    ) -> Result<BarrierOutcome, StrayWrite> {
        let line = memory.line(RESULT);
        // Rule 2: pairs with the Release of `publish`.
        let found = line.load(0, Ordering::Acquire);
        if found == POISON {
            return Err(StrayWrite("something, as another member has found,"));
        }
        let (round, len) = (self.round(), usize::from(length(found)));
        let kind = stage(found);
        if round_of(found) != round || len > MAX_BYTES || !matches!(kind, COMBINED | UNEQUAL) {
            return Err(StrayWrite("the result's word"));
        }
        line.get(1, &mut out[..len]);
        if found as u32 != check(round, None, &out[..len]) ^ kind as u32 {
            return Err(StrayWrite("the result"));
        }
        let verdict = match (kind, &out[..len]) {
            (UNEQUAL, &[least, most]) => BarrierOutcome::Unequal(least, most),
            (UNEQUAL, _) => return Err(StrayWrite("the result's word")),
            _ => BarrierOutcome::Result(len),
        };
        self.seen = found;
        self.rounds += 1;
        Ok(verdict)
    }

    /// States that this member is about to sleep; it has to ask [`has_ended`](Self::has_ended) once
    /// more before it does (rule 4).
    pub fn announce_sleep<W: Words>(&mut self, memory: &W) {
        self.own = with_stage(self.own, ASLEEP);
        // Relaxed, both: ordered by the fence.
        self.store_own(memory, Ordering::Relaxed);
        memory.line(CONTROL).add(SLEEPERS, 1, Ordering::Relaxed);
        // Rule 4: pairs with the fence of the last member.
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement back. `false` when another member has, which then wakes this one.
    pub fn withdraw_sleep<W: Words>(&mut self, memory: &W) -> bool {
        let taken = take_sleep(memory, self.rank);
        self.own = with_stage(self.own, WAITS);
        taken
    }

    /// Whether `rank` sleeps and the caller is the one to wake it.
    #[must_use]
    pub fn wakes<W: Words>(&self, memory: &W, rank: u32) -> bool {
        rank != self.rank && take_sleep(memory, rank)
    }

    /// What a member that waits for long does now and then: `true` when the round has ended.
    ///
    /// # Errors
    /// When the round can never end (rules 8 and 9).
    pub fn poll<W: Words>(&self, memory: &W) -> Result<bool, StrayWrite> {
        let mut waiting = 0;
        for rank in 0..self.ranks {
            let (line, at) = state_at(rank);
            // Acquire pairs with the Release of `enter` of a member that is a round further: who
            // sees that state sees the result's word, too.
            let state = memory.line(line).load(at, Ordering::Acquire);
            let is_own = rank == self.rank;
            // Who took the own announcement back has published before.
            let taken = is_own && state == with_stage(self.own, WAITS);
            if is_own && state != self.own && !taken {
                return Err(StrayWrite("the own state"));
            }
            if stage(state) == FAILED {
                return Err(StrayWrite("something, as another member has found,"));
            }
            let waits = matches!(stage(state), WAITS | ASLEEP) && round_of(state) == self.round();
            waiting += u32::from(waits);
        }
        if self.has_ended(memory) {
            return Ok(true);
        }
        // Rule 8.
        if waiting == self.ranks {
            return Err(StrayWrite("the count of arrivals"));
        }
        Ok(false)
    }

    /// Lets every member know that the memory is damaged (rule 9). Those that sleep are to be woken
    /// ([`wakes`](Self::wakes)).
    pub fn fail<W: Words>(&mut self, memory: &W) {
        self.own = word(self.round(), FAILED, 0, 0);
        // Release: pairs with the Acquire of `poll`.
        self.store_own(memory, Ordering::Release);
        // Release: as the word of a result.
        memory.line(RESULT).store(0, POISON, Ordering::Release);
        // Rule 4, as in `publish`.
        fence(Ordering::SeqCst);
    }

    /// The round that is under way, as the words have it.
    const fn round(&self) -> u64 {
        (self.rounds + 1) & ((1 << (64 - ROUND_SHIFT)) - 1)
    }

    fn store_own<W: Words>(&self, memory: &W, order: Ordering) {
        let (line, at) = state_at(self.rank);
        memory.line(line).store(at, self.own, order);
    }
}

/// Rule 4: takes back that `rank` sleeps; whether it did, and nobody else was faster.
fn take_sleep<W: Words>(memory: &W, rank: u32) -> bool {
    let (line, at) = state_at(rank);
    let line = memory.line(line);
    // Relaxed: the fences order what must be; the replacement alone decides.
    let state = line.load(at, Ordering::Relaxed);
    let taken = stage(state) == ASLEEP && line.replace(at, state, with_stage(state, WAITS));
    if taken {
        // Relaxed: a count that publishes nothing, and of which nothing but a second check depends.
        memory.line(CONTROL).add(SLEEPERS, u64::MAX, Ordering::Relaxed);
    }
    taken
}

const fn state_at(rank: u32) -> (usize, usize) {
    (STATES + rank as usize / STATES_IN_LINE, rank as usize % STATES_IN_LINE)
}

const fn stride(len: usize) -> usize {
    len.next_multiple_of(WORD)
}

const fn word(round: u64, stage: u64, len: usize, check: u32) -> u64 {
    round << ROUND_SHIFT | stage << STAGE_SHIFT | (len as u64) << LEN_SHIFT | check as u64
}

const fn with_stage(word: u64, stage: u64) -> u64 {
    word & !STAGE_MASK | stage << STAGE_SHIFT
}

const fn stage(word: u64) -> u64 {
    (word & STAGE_MASK) >> STAGE_SHIFT
}

const fn round_of(word: u64) -> u64 {
    word >> ROUND_SHIFT
}

const fn length(word: u64) -> u8 {
    (word >> LEN_SHIFT) as u8 & 63
}

/// Changes with every word of `bytes`, with the round, and with the rank that wrote them.
fn check(round: u64, rank: Option<u32>, bytes: &[u8]) -> u32 {
    let mix = |hash: u64, word: u64| {
        // The odd factor of the golden ratio: each step is a bijection of either argument.
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 32
    };
    let rank = rank.map_or(0, |rank| u64::from(rank) + 1);
    let seed = mix(mix(bytes.len() as u64, round), rank);
    let words = bytes.chunks(WORD).map(|chunk| {
        let mut word = [0; WORD];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(seed, mix) as u32
}

#[cfg(test)]
mod harness;
#[cfg(all(test, bowline_loom))]
mod loom_tests;
#[cfg(all(test, not(bowline_loom)))]
mod tests;
