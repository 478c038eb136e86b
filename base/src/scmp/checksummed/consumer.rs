//! The consumer's side: check, take, flip, and go past what the dead left. See the rules in
//! [`super`].

use super::super::seq::{POISON, next_tag};
use super::super::slot::{
    FIRST_BYTES, MORE_BYTES, cont_word, slots_for, source_of, start_len, tag_of,
};
use super::super::{Damage, Fault};
use super::{Checksum, R_LINE, VOID_ID, clear};
use crate::buffer::RecvBuf;
use crate::scmp::counted;
use crate::sync::LINE;
use crate::sync::atomic::{Ordering, fence};
use crate::view::View;
use crate::words::{LINE_WORDS, LineWords, Words};

/// Polls that find nothing before a used half is flipped, and the part of a half, as a divisor, that
/// must be used: as in [`super::super::seq`].
const IDLE_POLLS: u32 = 64;
const IDLE_SHARE: u32 = 8;

/// A message that was found whole, copied out of the queue.
#[derive(Debug)]
pub struct Checksummed<'a> {
    /// Which handler it is for.
    pub id: u8,
    /// As the producer set them.
    pub flags: u8,
    /// The producer, whose checksum it has.
    pub source: u16,
    /// The fixed header.
    pub header: [u64; 3],
    /// The payload.
    pub payload: View<'a>,
}

/// What the owner of a queue knows of its producers.
pub trait Sources {
    /// The [`key`](super::key) of the next message of `source`; `None` when nothing of it is
    /// believed, yet or any more.
    fn key(&mut self, source: u16) -> Option<u64>;

    /// Takes a message; the next one of its source has another key.
    fn take(&mut self, message: Checksummed<'_>);

    /// `source` gave back what did not fit; its next slot has another key.
    fn void(&mut self, source: u16);

    /// A slot was skipped after [`Consumer::resolve`]; `source` is the one whom it names, if it
    /// was written under this flip. Whether it is known whose it is.
    fn hole(&mut self, source: Option<u16>) -> bool;
}

/// Where the consumer stands; drawn in [`super`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    /// `holes`: how many without a claim may be skipped; `None` before `resolve`.
    Draining {
        reserved: u32,
        holes: Option<u64>,
    },
    Poisoned(Damage),
}

/// The consumer of a queue. Its owner swaps R, see [`Consumer::wants_flip`].
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    slots: u32,
    /// Tag of the half that is read.
    tag: u32,
    /// Next slot to read.
    index: u32,
    state: State,
    /// Polls in a row that found nothing.
    idle: u32,
    /// Whether the last poll found nothing.
    missing: bool,
    /// Whether the owner wants a flip although it is not due.
    demanded: bool,
}

/// A message at the consumer's index.
struct Found {
    source: u16,
    id: u8,
    flags: u8,
    header: [u64; 3],
    len: usize,
    slots: u32,
}

impl<W> Consumer<W> {
    /// The same consumer over another handle of the same memory, as that of
    /// [`counted`](super::super::counted::Consumer::rehome).
    pub fn rehome<V>(self, words: V) -> Consumer<V> {
        Consumer {
            words,
            slots: self.slots,
            tag: self.tag,
            index: self.index,
            state: self.state,
            idle: self.idle,
            missing: self.missing,
            demanded: self.demanded,
        }
    }

    /// The tag under which producers reserve now: another one after each flip.
    pub const fn producers_tag(&self) -> u32 {
        match self.state {
            State::Active | State::Poisoned(_) => self.tag,
            State::Draining { .. } => next_tag(self.tag),
        }
    }

    /// Whether the half that producers fill is the one that is read.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// What R is to be swapped for, if [`wants_flip`](Self::wants_flip).
    pub const fn flip_word(&self) -> u64 {
        (next_tag(self.tag) as u64) << 32
    }

    /// Whether R is to be swapped for [`flip_word`](Self::flip_word); the old value goes to
    /// [`flipped`](Self::flipped).
    pub fn wants_flip(&self) -> bool {
        let used = self.index >= (self.slots / IDLE_SHARE).max(1);
        let due = self.index >= self.slots / 2 || used && self.idle >= IDLE_POLLS;
        self.is_active() && (due || self.demanded)
    }

    /// Whether the last poll found nothing: `stalled`, unless the queue is empty. It loads nothing that
    /// producers write.
    pub const fn is_missing(&self) -> bool {
        self.missing
    }

    /// Wants a flip as soon as there can be one: before a settlement.
    pub fn demand_flip(&mut self) {
        self.demanded = self.is_active();
    }
}

impl<W: Words> Consumer<W> {
    pub(super) fn new(words: W, slots: u32, tag: u32) -> Self {
        Self {
            words,
            slots,
            tag,
            index: 0,
            state: State::Active,
            idle: 0,
            missing: false,
            demanded: false,
        }
    }

    fn line(&self, index: u32) -> W::Line<'_> {
        // Masked by `slot_line`, so that it is a line of the queue whatever the index.
        self.words.line(counted::slot_line(self.tag >> 31, index, self.slots))
    }

    /// Hands out messages in order, at most `budget`, and returns how many. It never waits.
    ///
    /// # Errors
    /// [`Fault::Source`]: a slot was damaged and skipped; go on. [`Fault::Poisoned`]: for ever.
    /// Messages before the fault were handed out by an earlier call.
    pub fn poll(
        &mut self,
        budget: u32,
        sources: &mut impl Sources,
        staging: &mut RecvBuf,
    ) -> Result<u32, Fault> {
        let mut taken = 0;
        self.missing = false;
        while taken < budget {
            let end = match self.state {
                State::Poisoned(_) if taken > 0 => break,
                State::Poisoned(damage) => return Err(Fault::Poisoned(damage)),
                State::Active => self.slots,
                State::Draining { reserved, .. } => reserved.min(self.slots),
            };
            if self.index >= end {
                if self.is_active() {
                    break;
                }
                self.finish();
                continue;
            }
            let Some(found) = self.peek(end, sources, staging) else {
                if let State::Draining { reserved, holes: Some(left) } = self.state {
                    match self.skip(reserved, left, sources) {
                        Ok(()) => continue,
                        Err(_) if taken > 0 => break,
                        Err(fault) => return Err(fault),
                    }
                }
                self.missing = true;
                break;
            };
            let source = found.source;
            if found.id == VOID_ID {
                match self.state {
                    State::Draining { reserved, .. } if reserved > self.slots => {
                        sources.void(source);
                        self.pass(1);
                        self.index = end;
                        continue;
                    }
                    // After the flip, which is due: a void lies behind the middle. One that does not
                    // is forged, and counts as a hole until somebody wants to know.
                    State::Active => {
                        self.missing = true;
                        break;
                    }
                    _ if taken > 0 => break,
                    _ => {
                        self.pass(1);
                        return Err(Fault::Source { source_id: source });
                    }
                }
            }
            let Some(payload) = staging.view().slice(0, found.len) else {
                // `peek` has seen that it fits.
                break;
            };
            let Found { id, flags, header, slots, .. } = found;
            sources.take(Checksummed { id, flags, source, header, payload });
            self.pass(slots);
            taken += 1;
        }
        self.idle = if taken > 0 { 0 } else { self.idle.saturating_add(1) };
        Ok(taken)
    }

    /// The message at the index, if it is there whole (rule 4); its payload is in `staging` then.
    #[inline]
    fn peek(&self, end: u32, sources: &mut impl Sources, staging: &mut RecvBuf) -> Option<Found> {
        let first = self.line(self.index);
        // Acquire: pairs with no store, since a put has none; the checksum alone says what has landed. It
        // keeps the loads below behind this one where a processor would do them before.
        let word = first.load(0, Ordering::Acquire);
        if tag_of(word) != self.tag {
            return None;
        }
        let len = start_len(word)?;
        let slots = slots_for(len) as u32;
        if slots > end - self.index || len > staging.len() {
            return None;
        }
        let source = source_of(word);
        // The last slot first: it is the last one to come where puts keep their order.
        for place in (1..slots).rev() {
            let want = cont_word(self.tag, place as usize, word & (0xffff << 48));
            // Acquire: pairs with no store, as above.
            if self.line(self.index + place).load(0, Ordering::Acquire) != want {
                return None;
            }
        }
        let mut sum = Checksum::new(sources.key(source)?);
        let start = read_slot(first, word);
        sum.start(start);
        let bytes = words_to_bytes(&start);
        staging.write_at(0, &bytes[5 * 8..][..len.min(FIRST_BYTES)]);
        for place in 1..slots {
            let line = self.line(self.index + place);
            let want = cont_word(self.tag, place as usize, word & (0xffff << 48));
            let more = read_slot(line, want);
            sum.more(&more);
            let at = FIRST_BYTES + (place as usize - 1) * MORE_BYTES;
            staging.write_at(at, &words_to_bytes(&more)[8..][..(len - at).min(MORE_BYTES)]);
        }
        if sum.checksum() != start[1] >> 16 {
            return None;
        }
        // Acquire: pairs with the sender's flush of what it had put elsewhere before this message: that
        // is read after it.
        fence(Ordering::Acquire);
        let header = [start[2], start[3], start[4]];
        let (id, flags) = (start[1] as u8, (start[1] >> 8) as u8);
        Some(Found { source, id, flags, header, len, slots })
    }

    /// Goes past one slot that does not fit (rules 9 and 10).
    #[cold]
    fn skip(&mut self, reserved: u32, left: u64, sources: &mut impl Sources) -> Result<(), Fault> {
        // Relaxed: nothing of this flip is under way any more.
        let word = self.line(self.index).load(0, Ordering::Relaxed);
        let claimed = sources.hole((tag_of(word) == self.tag).then_some(source_of(word)));
        let Some(left) = left.checked_sub(u64::from(!claimed)) else {
            return Err(self.poison(Damage::Missing));
        };
        self.pass(1);
        self.state = State::Draining { reserved, holes: Some(left) };
        Ok(())
    }

    /// Clears the next `slots` slots and goes behind them.
    #[inline]
    fn pass(&mut self, slots: u32) {
        for place in 0..slots {
            clear(self.line(self.index + place));
        }
        self.index += slots;
    }

    /// R was swapped for [`flip_word`](Self::flip_word), and was `old` before.
    ///
    /// # Errors
    /// [`Fault::Poisoned`], when `old` cannot be.
    pub fn flipped(&mut self, old: u64) -> Result<(), Fault> {
        if (old >> 32) as u32 != self.tag {
            return Err(self.poison(Damage::Generation));
        }
        let reserved = old as u32;
        if reserved >= POISON || reserved < self.index {
            return Err(self.poison(Damage::Reserved));
        }
        self.idle = 0;
        self.demanded = false;
        self.state = State::Draining { reserved, holes: None };
        Ok(())
    }

    /// Whether a call of `poll` has something to do now, or a flip is due.
    pub fn ready(&self) -> bool {
        let end = match self.state {
            State::Active => self.slots / 2,
            State::Draining { holes: Some(_), .. } => return true,
            State::Draining { reserved, .. } => reserved.min(self.slots),
            State::Poisoned(_) => return false,
        };
        // Acquire: pairs with no store, as in `peek`.
        self.index >= end || tag_of(self.line(self.index).load(0, Ordering::Acquire)) == self.tag
    }

    /// Whether something is reserved at the index that the last poll did not find whole.
    pub fn stalled(&self) -> bool {
        match self.state {
            State::Active => self.missing && self.reserved() > self.index,
            State::Draining { holes, .. } => self.missing && holes.is_none(),
            State::Poisoned(_) => false,
        }
    }

    /// Whether all that was reserved has been handed out.
    pub fn is_drained(&self) -> bool {
        self.is_active() && self.reserved() <= self.index
    }

    /// The offset of R.
    fn reserved(&self) -> u32 {
        // Relaxed: a question; a swap answers it before anything follows from it.
        self.words.line(R_LINE).load(0, Ordering::Relaxed) as u32
    }

    /// Ends the wait for what is missing in the half that was flipped (rule 9). The caller has proof
    /// that every reservation that a living producer made before the flip has landed, and knows
    /// that the dead account for at most `accounted` slots.
    #[cold]
    pub fn resolve(&mut self, accounted: u64) {
        // Acquire: pairs with the Release store of a sender's status word, as far as its transport
        // carries it: what had landed then is seen by the polls that follow.
        fence(Ordering::Acquire);
        if let State::Draining { reserved, holes: None } = self.state {
            self.state = State::Draining { reserved, holes: Some(accounted) };
        }
    }

    /// The old half is read: the new one is next.
    fn finish(&mut self) {
        self.tag = next_tag(self.tag);
        self.index = 0;
        self.idle = 0;
        self.state = State::Active;
    }

    /// Closes the queue, for the producers too.
    #[cold]
    fn poison(&mut self, damage: Damage) -> Fault {
        let word = u64::from(self.producers_tag()) << 32 | u64::from(POISON);
        // AcqRel, as every swap of R. It publishes nothing but itself: who finds it has no space.
        self.words.line(R_LINE).swap(0, word, Ordering::AcqRel);
        self.state = State::Poisoned(damage);
        Fault::Poisoned(damage)
    }
}

/// The words of a slot whose word 0 was `word`, each read once.
#[inline]
fn read_slot<L: LineWords>(line: L, word: u64) -> [u64; LINE_WORDS] {
    let mut bytes = [0; LINE - 8];
    line.get(1, &mut bytes);
    let mut words = [word; LINE_WORDS];
    for (to, from) in words[1..].iter_mut().zip(bytes.as_chunks::<8>().0) {
        *to = u64::from_ne_bytes(*from);
    }
    words
}

#[inline]
fn words_to_bytes(words: &[u64; LINE_WORDS]) -> [u8; LINE] {
    let mut bytes = [0; LINE];
    for (to, from) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = from.to_ne_bytes();
    }
    bytes
}
