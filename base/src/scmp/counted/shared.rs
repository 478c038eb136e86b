//! Several consumer threads of one process on one queue: what the thesis names as future work (section 7.2.3).
//!
//! Producers, local or behind a network, do not notice: they see one consumer that flips. What is new is
//! between the consumer's threads, in memory of their own: who flips, who hands out which slots, and when the
//! half may be reset. The queue and its rules are those of [`super`], and the one who flips is a
//! [`Consumer`].
//!
//! ```text
//!   claim word   63 .. 32 tag of the half | 31 .. 16 its end | 15 .. 0 next slot that nobody has claimed
//!   open         what is claimed or to be claimed, and not walked yet: slots, or threads
//!   covered      slots of the messages that were handed out, and of those that were damaged
//!
//!             a leader flips, waits for S + F = r, publishes          open = 0: a leader resets
//!   Nothing ────────────────────────────────────────────► Walking ─────────────────────► Nothing
//!                                                      every thread, its part
//! ```
//!
//! 1. *The leader* is any thread that finds nothing to walk, and the lock of the consumer free; nobody waits
//!    for it. It alone flips, settles and resets, and only while `open` is 0. So the switch of halves is
//!    between the producers and one thread, as ever.
//! 2. *Publishing*: when all reservations of the half are over, the leader stores `open` and then the claim word.
//!    The S first slots are messages without a hole, so that any part of them can be walked without the others.
//! 3. *Sharing*, by [`Sharing`]. Batches: a thread claims the next slots by a compare-and-swap of the claim
//!    word, which has the tag of the half, so that none of an earlier half succeeds. Messages that start in its batch are
//!    its own, also where they end in the next one. Sources: every thread walks all slots, and its own are
//!    the messages of the sources that fall to it.
//! 4. Slots of a message are read and zeroed by its owner alone. A slot at the beginning of a batch that is
//!    no START is the neighbour's, zeroed or not; so is a slot of another source.
//! 5. *Order*: batches of one half are walked at the same time, so that messages of one producer may be handed
//!    out at the same time, and in any order. By sources those of one producer come to one thread, in
//!    their order.
//! 6. When `open` is 0, all slots have been read. If the messages did not cover them all, and nothing was damaged or
//!    left by the dead, slots are missing that were finalised, and the queue is poisoned.
//! 7. Threads of one process die together; a thread that stops between two calls of [`poll`](SharedConsumer::poll)
//!    has walked what it has claimed in batches, but by sources the others wait for its next call.

use std::sync::TryLockError;

use super::super::seq::Settled;
use super::super::slot::{QueuedMessage, slots_for, source_of, start_len, tag_of};
use super::super::{AttachError, Damage, Fault, Producers};
use super::consumer::{Consumer, Half, clear_slots, message_at};
use super::{WRITTEN, slot_line};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{CacheLine, Mutex};
use crate::words::{LineWords, Words};

/// How threads share the messages of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// So many slots at a time, by the next thread that comes: even work, and no order between threads.
    Batches(u16),
    /// By source: of each producer one thread gets all messages, in their order.
    Sources,
}

/// What one call has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Messages handed out.
    pub taken: u32,
    /// The last fault met, by the thread that met it; [`Fault::Poisoned`] is for ever.
    pub fault: Option<Fault>,
}

/// A queue's consumer, for several threads.
#[derive(Debug)]
pub struct SharedConsumer<W> {
    words: W,
    slots: u32,
    threads: u32,
    sharing: Sharing,
    /// Rule 1.
    head: Mutex<Consumer<W>>,
    claim: CacheLine<AtomicU64>,
    open: CacheLine<AtomicU64>,
    covered: CacheLine<AtomicU64>,
    /// Slots that were damaged, of this half.
    damaged: AtomicU64,
    /// Whether the dead left some of it.
    with_holes: AtomicBool,
}

/// One thread's place at a shared consumer.
#[derive(Debug)]
pub struct SharedMember {
    thread: u32,
    /// By sources: the half that it walks, and the next slot.
    walk: Option<(Half, u32)>,
    /// The tag of the half that it walked last.
    walked: Option<u32>,
}

/// The claim word's parts.
const fn claim_word(half: Half, next: u32) -> u64 {
    (half.tag as u64) << 32 | (half.end as u64) << 16 | next as u64
}

const fn parts(word: u64) -> (Half, u32) {
    let half = Half { tag: (word >> 32) as u32, end: (word >> 16) as u32 & 0xffff };
    (half, word as u32 & 0xffff)
}

impl<W: Words> SharedConsumer<W> {
    /// Makes the consumer of `queue`, which was just made and not polled, one of `threads` threads.
    ///
    /// # Errors
    /// [`AttachError::Slots`], when there is no thread, or batches have no slots.
    pub fn new(
        queue: Consumer<W>,
        threads: u32,
        sharing: Sharing,
    ) -> Result<(Self, Vec<SharedMember>), AttachError> {
        if threads == 0 || sharing == Sharing::Batches(0) {
            return Err(AttachError::Slots);
        }
        let (words, slots) = queue.home();
        let shared = Self {
            words,
            slots,
            threads,
            sharing,
            head: Mutex::new(queue),
            claim: CacheLine(AtomicU64::new(0)),
            open: CacheLine(AtomicU64::new(0)),
            covered: CacheLine(AtomicU64::new(0)),
            damaged: AtomicU64::new(0),
            with_holes: AtomicBool::new(false),
        };
        let member = |thread| SharedMember { thread, walk: None, walked: None };
        Ok((shared, (0..threads).map(member).collect()))
    }

    /// Hands the calling thread, whose `member` it is, at most `budget` messages. It never waits: none can also mean
    /// that others are at work, or that reservations are still under way.
    pub fn poll(
        &self,
        member: &mut SharedMember,
        budget: u32,
        mut handle: impl FnMut(QueuedMessage<'_, W>),
    ) -> Share {
        let mut share = Share::default();
        while share.taken < budget {
            let walked = match self.sharing {
                Sharing::Batches(slots) => {
                    self.batch(budget - share.taken, slots, &mut share, &mut handle)
                }
                Sharing::Sources => self.walk(member, budget, &mut share, &mut handle),
            };
            if walked {
                continue;
            }
            match self.lead() {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => {
                    share.fault = Some(fault);
                    break;
                }
            }
        }
        share
    }

    /// Settles what dead producers left, as [`Consumer::settle`] does.
    ///
    /// # Errors
    /// [`Fault::Poisoned`].
    #[cold]
    pub fn settle<P: Producers>(&self, producers: &P) -> Result<Settled, Fault> {
        match self.head.try_lock() {
            Ok(mut head) => head.settle(producers),
            Err(TryLockError::Poisoned(head)) => head.into_inner().settle(producers),
            // Another thread leads now; what is missing will be missing then.
            Err(TryLockError::WouldBlock) => Ok(Settled::Waiting),
        }
    }

    /// Rules 1, 2 and 6. Whether there is something to walk now.
    fn lead(&self) -> Result<bool, Fault> {
        // Acquire: pairs with the Release subtractions of those who have walked; all slots were read.
        if self.open.load(Ordering::Acquire) != 0 {
            return Ok(false);
        }
        let mut head = match self.head.try_lock() {
            Ok(head) => head,
            Err(TryLockError::WouldBlock) => return Ok(false),
            // A table of producers has panicked in the midst of a settlement, which can be begun again.
            Err(TryLockError::Poisoned(head)) => head.into_inner(),
        };
        // Acquire: pairs with those Release subtractions, too. Another thread may have led between.
        if self.open.load(Ordering::Acquire) != 0 {
            return Ok(false);
        }
        loop {
            if let Some((half, with_holes)) = head.emptying() {
                if half.end == 0 {
                    head.finish();
                    continue;
                }
                // A half that was published, and has been walked; or one that a settlement has just let go on.
                // Relaxed, here and below: only the leader writes the claim word while nothing is open.
                let published = parts(self.claim.load(Ordering::Relaxed)).0 == half;
                if published {
                    self.reset(&mut head, half, with_holes)?;
                    continue;
                }
                self.covered.store(0, Ordering::Relaxed);
                self.damaged.store(0, Ordering::Relaxed);
                self.with_holes.store(with_holes, Ordering::Relaxed);
                let parts = match self.sharing {
                    Sharing::Batches(_) => u64::from(half.end),
                    Sharing::Sources => u64::from(self.threads),
                };
                // Relaxed: the claim word publishes it.
                self.open.store(parts, Ordering::Relaxed);
                // Release: pairs with the Acquire loads of the claim word: who claims slots sees them, and `open`.
                self.claim.store(claim_word(half, 0), Ordering::Release);
                return Ok(true);
            }
            if !head.advance()? {
                return Ok(false);
            }
        }
    }

    /// Rule 6.
    fn reset(&self, head: &mut Consumer<W>, half: Half, with_holes: bool) -> Result<(), Fault> {
        // Relaxed, both: ordered by the Acquire load of `open`.
        let covered = self.covered.load(Ordering::Relaxed);
        let damaged = self.damaged.load(Ordering::Relaxed);
        if covered != u64::from(half.end) {
            if !with_holes && damaged == 0 {
                return Err(head.poison(Damage::Missing));
            }
            // Parts of what was passed over.
            clear_slots(&self.words, half.tag, self.slots, 0, half.end);
        }
        head.finish();
        Ok(())
    }

    /// Claims a batch and walks it (rule 3). Whether there was one.
    fn batch(
        &self,
        most: u32,
        slots: u16,
        share: &mut Share,
        handle: &mut impl FnMut(QueuedMessage<'_, W>),
    ) -> bool {
        // Acquire: pairs with the Release store in `lead`; so does that of the swap below.
        let mut word = self.claim.load(Ordering::Acquire);
        let (half, from, to) = loop {
            let (half, next) = parts(word);
            if next >= half.end {
                return false;
            }
            let to = half.end.min(next + most.min(u32::from(slots)));
            // Acquire, both: as above; the word may be that of a later half than the one loaded first. Nothing is
            // published by a claim.
            let claimed = self.claim.compare_exchange(
                word,
                claim_word(half, to),
                Ordering::Acquire,
                Ordering::Acquire,
            );
            match claimed {
                Ok(_) => break (half, next, to),
                Err(now) => word = now,
            }
        };
        let mut index = from;
        // Rule 4.
        while index < to && !self.starts(half, index) {
            index += 1;
        }
        while index < to {
            index += self.hand_out(half, index, share, handle);
        }
        // Release: pairs with the Acquire loads in `lead`: the slots were read, and zeroed.
        self.open.fetch_sub(u64::from(to - from), Ordering::Release);
        true
    }

    /// The mistake of a thread that gives its batch back before it has read it; the model must see it.
    #[cfg(all(test, bowline_loom))]
    fn batch_given_back_early(&self, mut handle: impl FnMut(QueuedMessage<'_, W>)) {
        // Acquire, both: as in `batch`.
        let word = self.claim.load(Ordering::Acquire);
        let (half, next) = parts(word);
        let claimed = next < half.end
            && self
                .claim
                .compare_exchange(
                    word,
                    claim_word(half, next + 1),
                    Ordering::Acquire,
                    Ordering::Acquire,
                )
                .is_ok();
        if claimed && let Ok((first, word, len)) = message_at(&self.words, half, self.slots, next) {
            clear_slots(&self.words, half.tag, self.slots, next, next + 1);
            // Relaxed, and Release: as in `hand_out` and `batch`.
            self.covered.fetch_add(1, Ordering::Relaxed);
            self.open.fetch_sub(1, Ordering::Release);
            let line = self.words.line(first);
            handle(QueuedMessage::read(&self.words, line, first, word, len));
        }
    }

    /// Walks the slots of a half for the sources of one thread. Whether it has come further.
    fn walk(
        &self,
        member: &mut SharedMember,
        budget: u32,
        share: &mut Share,
        handle: &mut impl FnMut(QueuedMessage<'_, W>),
    ) -> bool {
        let (half, mut index) = match member.walk {
            Some(walk) => walk,
            None => {
                // Acquire: pairs with the leader's Release store.
                let (half, _) = parts(self.claim.load(Ordering::Acquire));
                if half.end == 0 || member.walked == Some(half.tag) {
                    return false;
                }
                (half, 0)
            }
        };
        while index < half.end && share.taken < budget {
            let first = slot_line(half.tag >> 31, index, self.slots);
            // Relaxed: ordered by the claim word.
            let word = self.words.line(first).load(0, Ordering::Relaxed);
            let own = u32::from(source_of(word)) % self.threads == member.thread;
            let starts = tag_of(word) == WRITTEN && start_len(word).is_some();
            index += if own && starts { self.hand_out(half, index, share, handle) } else { 1 };
        }
        if index < half.end {
            member.walk = Some((half, index));
            return true;
        }
        (member.walk, member.walked) = (None, Some(half.tag));
        // Release: as in `batch`.
        self.open.fetch_sub(1, Ordering::Release);
        true
    }

    fn starts(&self, half: Half, index: u32) -> bool {
        let line = self.words.line(slot_line(half.tag >> 31, index, self.slots));
        // Relaxed: ordered by the claim word; a neighbour zeroes what is its own.
        let word = line.load(0, Ordering::Relaxed);
        tag_of(word) == WRITTEN && start_len(word).is_some()
    }

    /// Hands out the message that starts at `index`, and zeroes its slots. How many slots to go on.
    fn hand_out(
        &self,
        half: Half,
        index: u32,
        share: &mut Share,
        handle: &mut impl FnMut(QueuedMessage<'_, W>),
    ) -> u32 {
        let slots = match message_at(&self.words, half, self.slots, index) {
            Ok((first, word, len)) => {
                let line = self.words.line(first);
                handle(QueuedMessage::read(&self.words, line, first, word, len));
                share.taken += 1;
                slots_for(len) as u32
            }
            // Relaxed: ordered by the claim word. What the dead left is passed over.
            Err(_) if self.with_holes.load(Ordering::Relaxed) => return 1,
            Err(Fault::Source { source_id }) => {
                // Relaxed: ordered by `open`.
                self.damaged.fetch_add(1, Ordering::Relaxed);
                share.fault = Some(Fault::Source { source_id });
                1
            }
            // No message, of which the reset takes note.
            Err(Fault::Poisoned(_)) => return 1,
        };
        clear_slots(&self.words, half.tag, self.slots, index, index + slots);
        // Relaxed: ordered by `open`.
        self.covered.fetch_add(u64::from(slots), Ordering::Relaxed);
        slots
    }
}

#[cfg(all(test, bowline_loom))]
mod loom_tests;
#[cfg(all(test, not(bowline_loom)))]
mod tests;
