//! The consumer's side: flip, wait for the counters, hand out, reset. See [`super`].

use super::super::seq::{Settled, next_tag};
use super::super::settle::{Dead, Settlement};
use super::super::slot::{QueuedMessage, conts_match, slots_for, source_of, start_len, tag_of};
use super::super::{Damage, Fault, Producers};
use super::{F_LINE, POISON, R_LINE, S_LINE, WRITTEN, slot_line};
use crate::sync::atomic::Ordering;
use crate::words::{LineWords, Words};

/// Where the consumer stands; rules in [`super`].
///
/// ```text
///            flip                  S + F = r
///   Active ───────► Settling{r} ────────────► Emptying{end = S} ──► Active (other half)
///                       │ settle: the dead account for the rest         ▲
///                       └──────────────► Emptying{end = min(r, L)} ─────┘
///   any ── impossible control word ──► Poisoned
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Settling { reserved: u32 },
    Emptying { end: u32, with_holes: bool },
    Poisoned(Damage),
}

/// A half that is emptied: its tag, and the end of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Half {
    pub(super) tag: u32,
    pub(super) end: u32,
}

/// First line, word 0 and length of the message at `index` of a half of `slots`.
pub(super) fn message_at<W: Words>(
    words: &W,
    half: Half,
    slots: u32,
    index: u32,
) -> Result<(usize, u64, usize), Fault> {
    let first = slot_line(half.tag >> 31, index, slots);
    // Relaxed: ordered by S; of a dead producer by the proof of its death.
    let word = words.line(first).load(0, Ordering::Relaxed);
    if tag_of(word) != WRITTEN {
        // Finalised, and not there: S is wrong (rule 5).
        return Err(Fault::Poisoned(Damage::Missing));
    }
    let damaged = Fault::Source { source_id: source_of(word) };
    let len = start_len(word).ok_or(damaged)?;
    let count = slots_for(len);
    let fits = count <= (half.end - index) as usize && conts_match(words, first, count, word);
    if fits { Ok((first, word, len)) } else { Err(damaged) }
}

/// Zeroes the headers `from .. to` of a half of `slots`.
pub(super) fn clear_slots<W: Words>(words: &W, tag: u32, slots: u32, from: u32, to: u32) {
    for at in from..to {
        // Relaxed: the next flip's release orders it.
        words.line(slot_line(tag >> 31, at, slots)).store(0, 0, Ordering::Relaxed);
    }
}

/// The consumer of a queue.
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    slots: u32,
    /// Tag of the half that producers fill (`Active`), or that is emptied.
    tag: u32,
    /// Next slot to hand out while emptying.
    index: u32,
    state: State,
    queue: u16,
    /// Whether R is swapped by the owner of this consumer.
    by_hand: bool,
    settlement: Settlement,
}

impl<W> Consumer<W> {
    /// From here on `poll` does not flip: the owner swaps R through its device, when
    /// [`is_drained`](Self::is_drained) says so, and then calls [`flipped`](Self::flipped).
    pub fn flip_by_hand(&mut self) {
        self.by_hand = true;
    }

    /// The same consumer over another handle of the same memory: for a home that can be borrowed
    /// for a call only, while `()` keeps the place between calls.
    pub fn rehome<V>(self, words: V) -> Consumer<V> {
        Consumer {
            words,
            slots: self.slots,
            tag: self.tag,
            index: self.index,
            state: self.state,
            queue: self.queue,
            by_hand: self.by_hand,
            settlement: self.settlement,
        }
    }

    /// What R is to be swapped for, for a home that swaps by itself. Only while nothing of the
    /// last flip is under way ([`is_drained`](Self::is_drained)).
    pub const fn flip_word(&self) -> u64 {
        (next_tag(self.tag) as u64) << 32
    }

    /// The tag under which producers reserve now: another one after each flip.
    pub fn producers_tag(&self) -> u32 {
        match self.state {
            State::Active | State::Poisoned(_) => self.tag,
            State::Settling { .. } | State::Emptying { .. } => next_tag(self.tag),
        }
    }

    /// The half that is to be emptied, and whether some of it is to be passed over.
    pub(super) const fn emptying(&self) -> Option<(Half, bool)> {
        match self.state {
            State::Emptying { end, with_holes } => Some((Half { tag: self.tag, end }, with_holes)),
            _ => None,
        }
    }

    /// Whether the last half has been emptied, so that R may be swapped.
    pub fn is_drained(&self) -> bool {
        self.state == State::Active
    }
}

impl<W: Words> Consumer<W> {
    /// The queue's memory, and the slots of a half.
    pub(super) fn home(&self) -> (W, u32) {
        (self.words.clone(), self.slots)
    }

    pub(super) fn new(words: W, slots: u32, queue: u16) -> Self {
        Self {
            words,
            slots,
            tag: 1,
            index: 0,
            state: State::Active,
            queue,
            by_hand: false,
            settlement: Settlement::default(),
        }
    }

    /// Hands out messages in order, at most `budget`, and returns how many. It never waits: zero
    /// can also mean that reservations are still under way.
    ///
    /// # Errors
    /// [`Fault::Source`]: one damaged slot was skipped; go on. [`Fault::Poisoned`]: for ever.
    /// Messages before the fault were handed out by an earlier call.
    pub fn poll(
        &mut self,
        budget: u32,
        mut handle: impl FnMut(QueuedMessage<'_, W>),
    ) -> Result<u32, Fault> {
        self.poll_while(budget, |arrival| {
            handle(arrival);
            true
        })
    }

    /// The same, until `handle` does not take a message: that one is the next again.
    ///
    /// # Errors
    /// As those of [`poll`](Self::poll).
    pub fn poll_while(
        &mut self,
        budget: u32,
        mut handle: impl FnMut(QueuedMessage<'_, W>) -> bool,
    ) -> Result<u32, Fault> {
        let mut taken = 0;
        while taken < budget {
            match self.state {
                State::Active | State::Settling { .. } | State::Poisoned(_) => {
                    match self.advance() {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(_) if taken > 0 => break,
                        Err(fault) => return Err(fault),
                    }
                }
                State::Emptying { end, with_holes } => {
                    if self.index >= end {
                        self.finish();
                        continue;
                    }
                    match self.next(end) {
                        Ok((first, word, len)) => {
                            let line = self.words.line(first);
                            if !handle(QueuedMessage::read(&self.words, line, first, word, len)) {
                                break;
                            }
                            self.empty(slots_for(len) as u32);
                            taken += 1;
                        }
                        Err(_) if with_holes => self.empty(1),
                        Err(_) if taken > 0 => break,
                        Err(fault) => {
                            match fault {
                                Fault::Source { .. } => self.empty(1),
                                Fault::Poisoned(damage) => {
                                    self.poison(damage);
                                }
                            }
                            return Err(fault);
                        }
                    }
                }
            }
        }
        Ok(taken)
    }

    /// Flips, where something is reserved, and checks whether it is settled: whether a half is to be emptied now.
    pub(super) fn advance(&mut self) -> Result<bool, Fault> {
        loop {
            match self.state {
                State::Poisoned(damage) => return Err(Fault::Poisoned(damage)),
                State::Active if self.by_hand => return Ok(false),
                State::Active => {
                    let line = self.words.line(R_LINE);
                    // Relaxed: only whether to flip; the swap acquires.
                    if line.load(0, Ordering::Relaxed) as u32 == 0 {
                        return Ok(false);
                    }
                    // AcqRel: see `Producer::reserve`.
                    let old = line.swap(0, self.flip_word(), Ordering::AcqRel);
                    self.flipped(old)?;
                }
                State::Settling { reserved } => {
                    if !self.settled(reserved)? {
                        return Ok(false);
                    }
                }
                State::Emptying { .. } => return Ok(true),
            }
        }
    }

    /// R was swapped for [`flip_word`](Self::flip_word) and was `old` before.
    ///
    /// # Errors
    /// [`Fault::Poisoned`], when `old` cannot be.
    pub fn flipped(&mut self, old: u64) -> Result<(), Fault> {
        if (old >> 32) as u32 != self.tag {
            return Err(self.poison(Damage::Generation));
        }
        let reserved = old as u32;
        if reserved >= POISON {
            return Err(self.poison(Damage::Reserved));
        }
        self.index = 0;
        self.state = State::Settling { reserved };
        Ok(())
    }

    /// Whether reservations are under way without which `poll` hands out nothing.
    pub fn stalled(&self) -> bool {
        match self.state {
            State::Settling { reserved } => {
                let (settled, failed) = self.counters();
                settled.saturating_add(failed) != u64::from(reserved)
            }
            State::Active | State::Emptying { .. } | State::Poisoned(_) => false,
        }
    }

    /// Settles what the dead left (rule 7). To be called again while it waits, from time to
    /// time, with `poll` between.
    ///
    /// # Errors
    /// [`Fault::Poisoned`].
    #[cold]
    pub fn settle<P: Producers>(&mut self, producers: &P) -> Result<Settled, Fault> {
        let reserved = match self.state {
            State::Poisoned(damage) => return Err(Fault::Poisoned(damage)),
            State::Active => return Ok(Settled::Nothing),
            State::Emptying { with_holes: true, .. } => return Ok(Settled::Resolved),
            State::Emptying { .. } => return Ok(Settled::Nothing),
            State::Settling { reserved } => reserved,
        };
        if !self.stalled() {
            return Ok(Settled::Nothing);
        }
        let Some(dead) = self.settlement.advance(producers, self.queue) else {
            return Ok(Settled::Waiting);
        };
        let accounted = u64::from(Settlement::accounted(dead));
        let dead = dead.to_vec();
        let (settled, failed) = self.counters();
        let Some(missing) = u64::from(reserved).checked_sub(settled.saturating_add(failed)) else {
            return Err(self.poison(Damage::Finalised));
        };
        if missing > accounted {
            return Err(self.poison(Damage::Missing));
        }
        if missing == 0 {
            self.settlement.clear();
            return Ok(Settled::Nothing);
        }
        let end = reserved.min(self.slots);
        self.drop_last_words(end, &dead);
        self.state = State::Emptying { end, with_holes: true };
        Ok(Settled::Resolved)
    }

    /// Ends the wait for what the dead left, for a home that keeps no intents. The caller has
    /// proof that every reservation that a living producer made before the flip is finalised, and
    /// knows that the dead account for at most `accounted` slots. `unfinished` is asked of every
    /// message that is there, the last one first, with its source and mark, whether it may be one
    /// that a dead producer did not finish; those are dropped.
    ///
    /// # Errors
    /// [`Fault::Poisoned`].
    #[cold]
    pub fn resolve(
        &mut self,
        accounted: u64,
        mut unfinished: impl FnMut(u16, u64) -> bool,
    ) -> Result<Settled, Fault> {
        let reserved = match self.state {
            State::Poisoned(damage) => return Err(Fault::Poisoned(damage)),
            State::Settling { reserved } if self.stalled() => reserved,
            _ => return Ok(Settled::Nothing),
        };
        let (settled, failed) = self.counters();
        let Some(missing) = u64::from(reserved).checked_sub(settled.saturating_add(failed)) else {
            return Err(self.poison(Damage::Finalised));
        };
        if missing > accounted {
            return Err(self.poison(Damage::Missing));
        }
        let end = reserved.min(self.slots);
        for at in (0..end).rev() {
            let line = self.words.line(slot_line(self.tag >> 31, at, self.slots));
            // Acquire: pairs with nothing of the dead, whose writes are over; of the living it
            // sees no less than the counters did.
            let word = line.load(0, Ordering::Acquire);
            let starts = tag_of(word) == WRITTEN && start_len(word).is_some();
            if starts && unfinished(source_of(word), line.read(1) >> 16) {
                // Relaxed: only we use this half.
                line.store(0, 0, Ordering::Relaxed);
            }
        }
        self.state = State::Emptying { end, with_holes: true };
        Ok(Settled::Resolved)
    }

    /// Makes holes of the messages that the dead may not have finalised.
    fn drop_last_words(&self, end: u32, dead: &[Dead]) {
        for one in dead {
            let last =
                (0..end).rev().map(|at| slot_line(self.tag >> 31, at, self.slots)).find(|&line| {
                    // Relaxed: the dead one's stores are over; see `Producers::is_dead`.
                    let word = self.words.line(line).load(0, Ordering::Relaxed);
                    tag_of(word) == WRITTEN
                        && u32::from(source_of(word)) == one.producer
                        && start_len(word).is_some_and(|len| slots_for(len) as u32 == one.slots)
                });
            if let Some(line) = last {
                // Relaxed: only we use this half.
                self.words.line(line).store(0, 0, Ordering::Relaxed);
            }
        }
    }

    /// S and F of the half that is emptied.
    fn counters(&self) -> (u64, u64) {
        let half = (self.tag >> 31) as usize;
        // Acquire, both: pair with the Release adds in `Producer::finalise` and `give_back`.
        let settled = self.words.line(S_LINE + half).load(0, Ordering::Acquire);
        let failed = self.words.line(F_LINE + half).load(0, Ordering::Acquire);
        (settled, failed)
    }

    /// Whether all reservations are over (rule 4).
    fn settled(&mut self, reserved: u32) -> Result<bool, Fault> {
        let (settled, failed) = self.counters();
        let sum = settled.saturating_add(failed);
        if sum > u64::from(reserved) || settled > u64::from(self.slots) {
            return Err(self.poison(Damage::Finalised));
        }
        if sum < u64::from(reserved) {
            return Ok(false);
        }
        self.state = State::Emptying { end: settled as u32, with_holes: false };
        Ok(true)
    }

    /// The mistake of a consumer that does not wait for S + F = r; the tests must see it.
    #[cfg(test)]
    pub(in super::super) fn empty_without_waiting(&mut self) {
        if let State::Settling { reserved } = self.state {
            self.state = State::Emptying { end: reserved.min(self.slots), with_holes: false };
        }
    }

    /// First line, word 0 and length of the message at `index`.
    fn next(&self, end: u32) -> Result<(usize, u64, usize), Fault> {
        message_at(&self.words, Half { tag: self.tag, end }, self.slots, self.index)
    }

    /// Zeroes the next `slots` headers and goes behind them.
    fn empty(&mut self, slots: u32) {
        let to = self.index + slots;
        clear_slots(&self.words, self.tag, self.slots, self.index, to);
        self.index = to;
    }

    /// The half is empty: resets its counters (rule 6).
    pub(super) fn finish(&mut self) {
        let half = (self.tag >> 31) as usize;
        // Relaxed, both: the next flip's release orders them.
        self.words.line(S_LINE + half).store(0, 0, Ordering::Relaxed);
        self.words.line(F_LINE + half).store(0, 0, Ordering::Relaxed);
        self.settlement.clear();
        self.tag = next_tag(self.tag);
        self.index = 0;
        self.state = State::Active;
    }

    /// Closes the queue, for the producers too.
    #[cold]
    pub(super) fn poison(&mut self, damage: Damage) -> Fault {
        let word = (u64::from(self.producers_tag()) << 32) | u64::from(POISON);
        // AcqRel, as every swap of R: pairs with the add in `Producer::reserve`. It publishes
        // nothing but itself: who finds it has no space, and puts no slot.
        self.words.line(R_LINE).swap(0, word, Ordering::AcqRel);
        self.state = State::Poisoned(damage);
        Fault::Poisoned(damage)
    }
}
