//! The consumer's side: drain, flip, settle. See the rules in [`super`].

use super::super::settle::Settlement;
use super::super::slot::{QueuedMessage, conts_match, slots_for, source_of, start_len, tag_of};
use super::super::{Damage, FIRST_BYTES, Fault, Producers};
use super::{F_LINE, FIRST_SLOT, LAST_GENERATION, POISON, R_LINE, slot_line};
use crate::sync::atomic::Ordering;
use crate::words::{LineWords, Words};

/// Calls of `poll` that find nothing before a used half is flipped, so that senders find a whole
/// half again, and short traffic stays in few lines of the cache. A flip costs the line of R;
/// once per [`IDLE_SHARE`] of a half it is not seen in a ping-pong.
const IDLE_POLLS: u32 = 64;

/// The part of a half, as a divisor, that must be used before an idle flip.
const IDLE_SHARE: u32 = 8;

/// Where the consumer stands; see rules 6 to 10 and 14 in [`super`].
///
/// ```text
///            flip                      slots read + F = r
///   Active ───────► Draining{r} ──────────────────────────► Active (other half)
///                     │  settle: the dead account for the rest   ▲
///                     └───────────► Resolved{r} ─────────────────┘
///   any ── impossible control word ──► Poisoned
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Draining { reserved: u32 },
    Resolved { reserved: u32 },
    Poisoned(Damage),
}

/// Where a settlement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Settled {
    /// Nothing is missing, or what was missing has come: poll.
    Nothing,
    /// Reservations of the living are under way: poll, and settle again later.
    Waiting,
    /// What is missing was left by the dead and will be skipped: poll.
    Resolved,
}

/// The consumer of a queue.
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    slots: u32,
    /// Tag of the half that is read: bit 31 names it.
    tag: u32,
    /// Next slot to read in that half.
    index: u32,
    /// From this index on, `poll` asks `at_limit` before it reads: the middle of an active half, the
    /// end of a draining one, `0` of a poisoned queue.
    limit: u32,
    /// No message of the half reaches beyond this slot.
    end: u32,
    /// Calls of `poll` in a row that found nothing.
    idle: u32,
    state: State,
    queue: u16,
    /// The generations have started again: halves still to be wiped before they are exposed.
    to_wipe: u8,
    settlement: Settlement,
}

impl<W: Words> Consumer<W> {
    pub(super) fn new(words: W, slots: u32, queue: u16, tag: u32) -> Self {
        Self {
            words,
            slots,
            tag,
            index: 0,
            limit: slots / 2,
            end: slots,
            idle: 0,
            state: State::Active,
            queue,
            to_wipe: 0,
            settlement: Settlement::default(),
        }
    }

    /// Hands out messages in order, at most `budget`, and returns how many. A message's slots
    /// belong to the producers again some time after `handle` has returned.
    ///
    /// # Errors
    /// [`Fault::Source`]: one damaged slot was skipped; go on. [`Fault::Poisoned`]: for ever.
    /// Messages before the fault were handed out by an earlier call.
    #[inline]
    pub fn poll(
        &mut self,
        budget: u32,
        mut handle: impl FnMut(QueuedMessage<'_, W>),
    ) -> Result<u32, Fault> {
        let mut taken = 0;
        while taken < budget {
            if self.index >= self.limit {
                if self.at_limit(taken)? {
                    continue;
                }
                break;
            }
            let first = slot_line(self.tag, self.index, self.slots);
            // SAFETY: `slot_line` masks the index, and `check_slots` saw that the memory has all
            // slots of both halves.
            let line = unsafe { self.words.line_unchecked(first) };
            // Acquire: pairs with the Release store in `Producer::publish`.
            let word = line.load(0, Ordering::Acquire);
            if tag_of(word) != self.tag {
                if self.starved(taken)? {
                    continue;
                }
                break;
            }
            let Some((len, slots)) = self.checked(first, word) else {
                if self.damaged(word, taken)? {
                    continue;
                }
                break;
            };
            handle(QueuedMessage::read(&self.words, line, first, word, len));
            self.index += slots;
            taken += 1;
        }
        if taken > 0 {
            self.idle = 0;
        }
        Ok(taken)
    }

    /// Offers the next message, if there is one that needs no flip of the halves, to `handle`, and takes
    /// it out if that says that it took it. Whether it did.
    pub fn offer(&mut self, handle: impl FnOnce(QueuedMessage<'_, W>) -> bool) -> bool {
        if self.index >= self.limit {
            return false;
        }
        let first = slot_line(self.tag, self.index, self.slots);
        let line = self.words.line(first);
        // Acquire: pairs with the Release store in `Producer::publish`.
        let word = line.load(0, Ordering::Acquire);
        if tag_of(word) != self.tag {
            return false;
        }
        let Some((len, slots)) = self.checked(first, word) else { return false };
        if !handle(QueuedMessage::read(&self.words, line, first, word, len)) {
            return false;
        }
        self.index += slots;
        self.idle = 0;
        true
    }

    /// Whether a call of `poll` has something to do now. What comes after `false` rings.
    #[inline(always)]
    pub fn ready(&self) -> bool {
        if self.index >= self.limit {
            return self.ready_without_message(true);
        }
        let line = self.words.line(slot_line(self.tag, self.index, self.slots));
        // Acquire: pairs with `Producer::publish`, as in `poll`.
        if tag_of(line.load(0, Ordering::Acquire)) == self.tag {
            return true;
        }
        !matches!(self.state, State::Active) && self.ready_without_message(false)
    }

    /// The same where the next slot holds nothing, or, `at_end`, there is none.
    #[inline(never)]
    fn ready_without_message(&self, at_end: bool) -> bool {
        match self.state {
            State::Draining { reserved } => self.failed(reserved) == reserved - self.index,
            State::Resolved { .. } => true,
            State::Active | State::Poisoned(_) => at_end,
        }
    }

    /// The tag under which producers reserve now. When it has changed after a call of `poll` or
    /// `settle`, senders that were refused have space again.
    #[inline]
    pub const fn generation(&self) -> u32 {
        match self.state {
            State::Active | State::Poisoned(_) => self.tag,
            State::Draining { .. } | State::Resolved { .. } => next_tag(self.tag),
        }
    }

    /// Whether reserved slots are not written, or failed reservations not counted, although
    /// `poll` found nothing, or R is none that producers leave. If that stays so, or somebody died,
    /// call [`settle`](Self::settle).
    #[cold]
    pub fn stalled(&self) -> bool {
        match self.state {
            State::Active => {
                // All that was reserved has been read.
                let sound = (u64::from(self.tag) << 32) | u64::from(self.index);
                // Relaxed: a question; `settle` swaps R before it believes anything.
                self.words.line(R_LINE).load(0, Ordering::Relaxed) != sound && !self.ready()
            }
            State::Draining { .. } => !self.ready(),
            State::Resolved { .. } | State::Poisoned(_) => false,
        }
    }

    /// Settles what the dead left; rules 11 to 14. To be called again while it waits, from time
    /// to time, with `poll` between. Cold: it reads every producer's intent. With nobody dead, nothing may
    /// be missing once all have finished what they had announced: that is damage of R or of slots,
    /// which poisons the queue.
    ///
    /// # Errors
    /// [`Fault::Poisoned`].
    #[cold]
    pub fn settle<P: Producers>(&mut self, producers: &P) -> Result<Settled, Fault> {
        match self.state {
            State::Poisoned(damage) => return Err(Fault::Poisoned(damage)),
            State::Resolved { .. } => return Ok(Settled::Resolved),
            State::Active | State::Draining { .. } if !self.stalled() => {
                return Ok(Settled::Nothing);
            }
            State::Active => self.flip()?,
            State::Draining { .. } => {}
        }
        let State::Draining { reserved } = self.state else {
            return Ok(Settled::Nothing);
        };
        let Some(dead) = self.settlement.advance(producers, self.queue) else {
            return Ok(Settled::Waiting);
        };
        let accounted = Settlement::accounted(dead);
        // All that the living did is visible now (rule 12); count what is there.
        let found =
            u64::from(self.failed(reserved)) + u64::from(self.index) + u64::from(self.written());
        let Some(missing) = u64::from(reserved).checked_sub(found) else {
            return Err(self.poison(Damage::Failed));
        };
        if missing > u64::from(accounted) {
            return Err(self.poison(Damage::Missing));
        }
        if missing == 0 {
            // The living have finished; the slots are there.
            self.settlement.clear();
            return Ok(Settled::Nothing);
        }
        self.state = State::Resolved { reserved };
        Ok(Settled::Resolved)
    }

    /// Length and slots of the message whose START holds `word`, if they can be.
    #[inline]
    fn checked(&self, first: usize, word: u64) -> Option<(usize, u32)> {
        let len = start_len(word)?;
        if len > FIRST_BYTES {
            return self.checked_long(first, word, len);
        }
        Some((len, 1))
    }

    /// The rest of `checked` for more than one slot; apart, so that the code for a short message
    /// stays short.
    #[inline(never)]
    fn checked_long(&self, first: usize, word: u64, len: usize) -> Option<(usize, u32)> {
        let slots = slots_for(len);
        let sound = slots <= (self.end - self.index) as usize
            && conts_match(&self.words, first, slots, word);
        sound.then_some((len, slots as u32))
    }

    /// A slot that carries the tag but is no START, or one that cannot be. Whether to go on.
    #[cold]
    fn damaged(&mut self, word: u64, taken: u32) -> Result<bool, Fault> {
        let orphan = start_len(word).is_none();
        if orphan && matches!(self.state, State::Resolved { .. }) {
            // Rule 14: left by a producer that died before it stored the START.
            self.index += 1;
            return Ok(true);
        }
        if taken > 0 {
            return Ok(false);
        }
        self.index += 1;
        Err(Fault::Source { source_id: source_of(word) })
    }

    /// The slot at `index` is not written. Whether to go on.
    #[cold]
    #[inline(never)]
    fn starved(&mut self, taken: u32) -> Result<bool, Fault> {
        match self.state {
            State::Active => {
                if taken == 0 {
                    self.idle = self.idle.saturating_add(1);
                    if self.idle >= IDLE_POLLS && self.index >= (self.slots / IDLE_SHARE).max(1) {
                        self.idle = 0;
                        return self.flip().map(|()| true);
                    }
                }
                Ok(false)
            }
            State::Draining { reserved } => self.drained(reserved, taken),
            State::Resolved { .. } => {
                self.index += 1;
                Ok(true)
            }
            State::Poisoned(damage) => Err(Fault::Poisoned(damage)),
        }
    }

    /// `index` has come to `limit`. Whether to go on.
    #[cold]
    fn at_limit(&mut self, taken: u32) -> Result<bool, Fault> {
        match self.state {
            State::Active => match self.flip() {
                Ok(()) => Ok(true),
                Err(_) if taken > 0 => Ok(false),
                Err(fault) => Err(fault),
            },
            State::Draining { reserved } => self.drained(reserved, taken),
            State::Resolved { .. } => {
                self.finish();
                Ok(true)
            }
            State::Poisoned(_) if taken > 0 => Ok(false),
            State::Poisoned(damage) => Err(Fault::Poisoned(damage)),
        }
    }

    /// Checks whether the old half is drained (rule 9). Whether to go on.
    fn drained(&mut self, reserved: u32, taken: u32) -> Result<bool, Fault> {
        let left = reserved - self.index;
        let failed = self.failed(reserved);
        if failed == left {
            self.finish();
            return Ok(true);
        }
        if failed > left {
            let fault = self.poison(Damage::Failed);
            return if taken > 0 { Ok(false) } else { Err(fault) };
        }
        Ok(false)
    }

    /// Slots of failed reservations of the old half, of which `reserved` were reserved.
    fn failed(&self, reserved: u32) -> u32 {
        if reserved <= self.slots {
            return 0;
        }
        let line = self.words.line(F_LINE + (self.tag >> 31) as usize);
        // Acquire: pairs with the Release add in `Producer::give_back`.
        u32::try_from(line.load(0, Ordering::Acquire)).unwrap_or(u32::MAX)
    }

    /// Takes the active half away from the producers (rule 7).
    fn flip(&mut self) -> Result<(), Fault> {
        let next = next_tag(self.tag);
        if next & LAST_GENERATION == 1 {
            self.to_wipe = 2;
        }
        if self.to_wipe > 0 {
            self.to_wipe -= 1;
            self.wipe(next);
        }
        // AcqRel. Acquire: pairs with the release of the producers' adds, whose announcements we
        // may read. Release: our reads and resets of the half that is exposed here come
        // before what producers do there; pairs with the acquire of their adds.
        let old = self.words.line(R_LINE).swap(0, u64::from(next) << 32, Ordering::AcqRel);
        if tag_of(old >> 32) != self.tag {
            return Err(self.poison(Damage::Generation));
        }
        let reserved = old as u32;
        if reserved >= POISON || reserved < self.index {
            return Err(self.poison(Damage::Reserved));
        }
        self.end = reserved.min(self.slots);
        self.limit = self.end;
        self.state = State::Draining { reserved };
        Ok(())
    }

    /// Leaves the drained half (rule 10).
    fn finish(&mut self) {
        // Relaxed: the next flip's release orders it before any failure that may follow.
        self.words.line(F_LINE + (self.tag >> 31) as usize).store(0, 0, Ordering::Relaxed);
        self.settlement.clear();
        self.tag = next_tag(self.tag);
        self.index = 0;
        self.limit = self.slots / 2;
        self.end = self.slots;
        self.state = State::Active;
        self.idle = 0;
    }

    /// The mistake of a consumer that leaves a half before it is drained; the tests must see it.
    #[cfg(all(test, not(bowline_loom)))]
    pub(in super::super) fn finish_without_waiting(&mut self) {
        self.finish();
    }

    /// Makes every slot of the half of `tag` an unwritten one. Nobody else uses that half.
    fn wipe(&self, tag: u32) {
        for offset in 0..self.slots {
            // Relaxed: the swap of R that follows orders it.
            self.words.line(slot_line(tag, offset, self.slots)).store(0, 0, Ordering::Relaxed);
        }
    }

    /// Written slots from `index` to the end of the old half; orphans are not counted.
    fn written(&self) -> u32 {
        let mut at = self.index;
        let mut written = 0;
        while at < self.end {
            let first = slot_line(self.tag, at, self.slots);
            // Acquire: pairs with `Producer::publish`.
            let word = self.words.line(first).load(0, Ordering::Acquire);
            let mut slots = 1;
            if tag_of(word) == self.tag
                && let Some(len) = start_len(word)
            {
                let wanted = slots_for(len);
                let fits = wanted <= (self.end - at) as usize
                    && conts_match(&self.words, first, wanted, word);
                slots = if fits { wanted as u32 } else { 1 };
                written += slots;
            }
            at += slots;
        }
        written
    }

    /// Closes the queue, for the producers too.
    #[cold]
    fn poison(&mut self, damage: Damage) -> Fault {
        let tag = self.generation();
        // AcqRel: as in `flip`; producers that see it reserve nothing.
        self.words.line(R_LINE).swap(
            0,
            (u64::from(tag) << 32) | u64::from(POISON),
            Ordering::AcqRel,
        );
        self.state = State::Poisoned(damage);
        self.limit = 0;
        Fault::Poisoned(damage)
    }

    /// Closes the queue: producers are refused from now on, and every call reports `damage`.
    /// For a user that has found damage of its own.
    pub fn close(&mut self, damage: Damage) {
        if !matches!(self.state, State::Poisoned(_)) {
            self.poison(damage);
        }
    }
}

/// The tag after `tag`: the other half, the next generation.
#[inline]
pub(in super::super) const fn next_tag(tag: u32) -> u32 {
    let generation = tag & LAST_GENERATION;
    let next = if generation == LAST_GENERATION { 1 } else { generation + 1 };
    ((tag ^ (1 << 31)) & (1 << 31)) | next
}

const _: () = assert!(FIRST_SLOT > F_LINE + 1, "both F lines lie in front of the slots");
