//! A ring of the same slots for one producer that writes by puts and additions.
//!
//! ```text
//!   line 1      tail: slots published    added to by the producer, after its puts are visible
//!   line 2      head: slots consumed     written by the consumer, read by a producer without space
//!   line 8      L slots; slot `p` of all times lies in line 8 + p mod L
//! ```
//!
//! 1. The producer alone knows where the tail is, so that it reserves nothing. It puts its slots,
//!    makes them visible, and adds their number to the tail. What it had not added when it died
//!    does not exist, and nobody else is concerned.
//! 2. A message lies in one piece. One that would cross the end of the ring starts at its
//!    beginning; what was left out reads as empty slots, and counts as published.
//! 3. The consumer zeroes the headers of what it has read before it publishes the head.
//! 4. A producer that leaves the ring for another route adds [`ENDED`] to the tail, after everything else
//!    that it has added is known to be counted; the ring may have another producer when it is
//!    [`reset`].
//! 5. A head of [`CLOSED`] says that the consumer has given the ring up. Any other is
//!    [checked](crate::words::checked_word), of its lower 32 bits: see [`read_head`].
//! 6. Nothing of the producer's is believed: a tail further than the ring is long, or a slot that is
//!    no start where one must be, is [`Damaged`].

use super::super::slot::{QueuedMessage, conts_match, slots_for, start_len, tag_of};
use super::{FIRST_SLOT, R_LINE, S_LINE, WRITTEN};
use crate::ring::Damaged;
use crate::sync::LINE;
use crate::sync::atomic::Ordering;
use crate::words::checked_word;
use crate::words::{LineWords, Words};

/// Bytes of a ring of `slots` slots.
pub const fn bytes_for(slots: u32) -> usize {
    (FIRST_SLOT + slots as usize) * LINE
}

/// Where the tail is, in bytes from the start of the ring.
pub const TAIL_BYTE: usize = R_LINE * LINE;

/// Where the head is, in bytes from the start of the ring.
pub const HEAD_BYTE: usize = S_LINE * LINE;

/// Added to the tail by a producer that will not use the ring any more.
pub const ENDED: u64 = 1 << 63;

/// The head of a ring that is not read any more.
pub const CLOSED: u64 = u64::MAX;

/// What a producer learns from the head of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// The ring is not read any more.
    Closed,
    /// It was written while it was read: to be read again.
    Torn,
    /// This many slots were consumed.
    At(u64),
}

/// Reads the head of a ring in which `published` slots are known to be published and `consumed` of
/// them, so no more, to be consumed.
///
/// # Errors
/// When more were consumed than published.
pub fn read_head(word: u64, consumed: u64, published: u64) -> Result<Head, Damaged> {
    if word == CLOSED {
        return Ok(Head::Closed);
    }
    let Some(low) = checked_word::decode(word) else { return Ok(Head::Torn) };
    let more = u64::from(low.wrapping_sub(consumed as u32));
    if more <= published - consumed { Ok(Head::At(consumed + more)) } else { Err(Damaged) }
}

/// Lets the producer know that the ring is not read any more; its consumer must not write the head again.
pub fn close<W: Words>(words: &W) {
    // Relaxed: it publishes nothing but itself, and who finds it puts no slot.
    words.line(S_LINE).store(0, CLOSED, Ordering::Relaxed);
}

/// Makes the ring of `slots` slots in `words` empty and new, whatever a producer has left that is
/// gone or has ended. Nobody else may use it.
pub fn reset<W: Words>(words: &W, slots: u32) {
    // Relaxed, all of them: what makes the ring known to the next producer orders them.
    for line in FIRST_SLOT..FIRST_SLOT + slots as usize {
        words.line(line).store(0, 0, Ordering::Relaxed);
    }
    words.line(R_LINE).store(0, 0, Ordering::Relaxed);
    words.line(S_LINE).store(0, 0, Ordering::Relaxed);
}

/// How far the consumer of a ring has come; the memory is given with each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumer {
    head: u64,
}

impl Consumer {
    /// Whether everything published has been handed out.
    pub fn is_drained<W: Words>(&self, words: &W) -> bool {
        // Acquire: pairs with the producer's addition; what it publishes is there.
        words.line(R_LINE).load(0, Ordering::Acquire) & !ENDED == self.head
    }

    /// Whether the producer has left, and everything has been handed out.
    pub fn is_ended<W: Words>(&self, words: &W) -> bool {
        // Acquire: as above.
        words.line(R_LINE).load(0, Ordering::Acquire) == self.head | ENDED
    }

    /// Whether anything was ever published since the ring was new.
    pub fn was_used<W: Words>(&self, words: &W) -> bool {
        // Relaxed: whether, not what.
        words.line(R_LINE).load(0, Ordering::Relaxed) & !ENDED != 0
    }

    /// Hands out at most `budget` messages of the ring of `slots` slots (a power of two) in
    /// `words`, which has [`bytes_for`] as many, and returns how many.
    ///
    /// # Errors
    /// When the producer wrote what cannot be; what came before was handed out.
    pub fn poll<W: Words>(
        &mut self,
        words: &W,
        slots: u32,
        budget: u32,
        mut handle: impl FnMut(QueuedMessage<'_, W>),
    ) -> Result<u32, Damaged> {
        // Acquire: pairs with the producer's addition, before which its slots were visible.
        let tail = words.line(R_LINE).load(0, Ordering::Acquire) & !ENDED;
        let before = self.head;
        let mut taken = 0;
        let result = loop {
            let ready = tail.wrapping_sub(self.head);
            if ready == 0 || taken == budget {
                break Ok(taken);
            }
            match self.next(words, slots, ready) {
                Ok(Some((first, word, len))) => {
                    handle(QueuedMessage::read(words, words.line(first), first, word, len));
                    let count = slots_for(len);
                    for line in first..first + count {
                        // Relaxed: the head's release orders it.
                        words.line(line).store(0, 0, Ordering::Relaxed);
                    }
                    self.head = self.head.wrapping_add(count as u64);
                    taken += 1;
                }
                Ok(None) => {}
                Err(Damaged) => break Err(Damaged),
            }
        };
        if self.head != before {
            // Release: pairs with the producer's read of the head; the slots before it are empty.
            words.line(S_LINE).store(0, checked_word::encode(self.head as u32), Ordering::Release);
        }
        result
    }

    /// First line, word 0 and length of the next of `ready` slots; `None` when the rest of the
    /// ring was passed over.
    fn next<W: Words>(
        &mut self,
        words: &W,
        slots: u32,
        ready: u64,
    ) -> Result<Option<(usize, u64, usize)>, Damaged> {
        if ready > u64::from(slots) {
            return Err(Damaged);
        }
        let at = self.head & u64::from(slots - 1);
        let left = u64::from(slots) - at;
        let first = FIRST_SLOT + at as usize;
        // Relaxed: ordered by the tail.
        let word = words.line(first).load(0, Ordering::Relaxed);
        if word == 0 && at != 0 && left < ready {
            self.head = self.head.wrapping_add(left);
            return Ok(None);
        }
        if tag_of(word) != WRITTEN {
            return Err(Damaged);
        }
        let len = start_len(word).ok_or(Damaged)?;
        let count = slots_for(len);
        let fits = count as u64 <= ready.min(left) && conts_match(words, first, count, word);
        if fits { Ok(Some((first, word, len))) } else { Err(Damaged) }
    }
}
