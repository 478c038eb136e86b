//! A ring for one hot pair: single producer, single consumer, one line per short message.
//!
//! # The words
//!
//! ```text
//!   line 0   magic, slots L, data bytes D                         written by `init` only
//!   line 1   owner: 0, or the number of the sender + 1            claimed by the sender,
//!                                                                 freed by the receiver
//!   line 2   head: slots consumed | data bytes consumed | evict   written by the consumer
//!   line 3   unused
//!   line 4   L slots of two lines, then D bytes of data
//!
//!   slot     word 0      sequence u32 | length u16 | id u8 | flags u8     stored last, Release
//!            words 1-3   header
//!            words 4-7   payload of up to 32 bytes, or: data position, length
//!            words 8-15  the rest of a payload of up to 96 bytes
//! ```
//!
//! Positions count from the ring's making and never start again; slot `p` of all times is the one
//! with number `p mod L` and carries the sequence `p + 1` (32 bits). The slot was written at `p - L`
//! before, with another sequence, so that it reads as *not written* until it is.
//!
//! 1. The producer writes the slot and stores word 0 last (Release). The consumer loads word 0
//!    (Acquire) and compares. There is no other traffic per message: no fence, no locked
//!    instruction, no counter. The second line of a slot is touched only where the payload reaches
//!    into it; it lies behind the first, so that the processor fetches the two together.
//! 2. The producer knows how far the consumer has come from a copy of the head, which it loads
//!    again (Acquire) only when the ring seems full. The consumer publishes the head (Release)
//!    when a quarter of the slots or of the data, at most 64 KB, has been consumed since, and when it is asked
//!    to. A full ring whose consumer has caught up shows three quarters of space, so neither waits
//!    for the other.
//! 3. A payload of more than [`MAX_INLINE`] bytes lies in the data area, in one piece that starts
//!    on a line: a piece that does not fit before the end of the area starts at its beginning,
//!    and what was skipped is freed with it. The slot says where. Data is freed in the order of
//!    the slots, so one position in the head says it all. The area holds no sequence words, and
//!    slots are never data, so stale bytes cannot pass for a slot. A piece is at most a quarter
//!    of the area, which with rule 2 always finds space in the end. Behind it up to 2 KB
//!    stay unused: the processor of the consumer reads on behind what it was asked for, and would
//!    take the lines of the next piece from the producer who is writing them.
//! 4. Nothing that the other side wrote is believed. The producer takes a head only if it lies
//!    between the last one and its own position. The consumer takes a data position only if the
//!    piece is the next one, or starts the area after it, and lies in what can be unread. What
//!    cannot be is [`Damaged`].
//! 5. Positions outlive an owner: the next one continues at the head, which the consumer
//!    publishes before it frees the ring, moved on by L, so that nothing that the last owner left
//!    carries the sequence of a slot that the next one writes. Nothing has to be wiped.
//! 6. A next slot whose word was overwritten seems not to be written yet. A consumer that
//!    finds nothing for long searches for what an honest producer does not leave: the slot behind the
//!    next one written, since slots are written in order, or a later lap in the next one. Of a
//!    message that was overwritten before it was read, with none behind it, nobody can know.
//!
//! 7. While much data is unread when the producer loads the head, it goes to the beginning of the area after the
//!    first 256 KB: the lines of a window come round while caches hold them. Messages that are answered one by one use the
//!    whole area, since a line that both processors hold costs more to write than one that neither has. The
//!    consumer cannot see a difference: to start the area early is allowed by rule 4.
//!
//! How a sender comes to own a ring, and how order is kept when it changes to the ring and back, is said in
//! [`promote`].

mod consumer;
mod producer;
pub mod promote;

pub use consumer::{Consumer, Peek, RingMessage};
pub use producer::{DataSpace, Producer};

use thiserror::Error;

use crate::sync::LINE;
use crate::sync::atomic::Ordering;
use crate::words::{LineWords, Words};

/// Payload bytes that a slot holds itself.
pub const MAX_INLINE: usize = MAX_LINE + LINE;
/// Fewest slots of a ring.
pub const MIN_SLOTS: u32 = 4;
/// Most slots of a ring.
pub const MAX_SLOTS: u32 = 1 << 16;
/// Fewest data bytes of a ring.
pub const MIN_DATA: u32 = 256;
/// Most data bytes of a ring.
pub const MAX_DATA: u32 = 1 << 30;

/// Bytes of the area that pieces of windows use, and how much is unread in one (rule 7).
const WINDOW: u64 = 256 << 10;
const WINDOW_UNREAD: u64 = 128 << 10;
/// Most bytes of data that the consumer takes before it publishes its head (rule 2).
const PUBLISHED: u64 = 64 << 10;
/// Most bytes between two pieces of data.
const GAP: u64 = 2048;

/// Flags that a user may set; the ring has the others.
pub const USER_FLAGS: u8 = 0x7f;

/// Set in `flags` by the ring: the payload is in the data area.
const IN_DATA: u8 = 0x80;

/// "BWLRING" and the version of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"BWLRING\0") | VERSION;
const VERSION: u64 = 3;

const OWNER_LINE: usize = 1;
const HEAD_LINE: usize = 2;
const FIRST_SLOT: usize = 4;

/// Words of the head line.
const CONSUMED: usize = 0;
const DATA_CONSUMED: usize = 1;
const EVICT: usize = 2;

/// Where header and payload stand in a slot.
const HEADER_WORD: usize = 1;
const INLINE_WORD: usize = 4;
/// Payload bytes that a slot's first line holds.
pub const MAX_LINE: usize = LINE - 8 * INLINE_WORD;
const SLOT_LINES: usize = 2;

/// The other side wrote what no correct side writes. The ring is of no use to this pair any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the ring's other side wrote damaged words")]
pub struct Damaged;

/// Why a ring was not made or claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RingError {
    /// The memory holds no ring of this version.
    #[error("cannot claim the ring: the memory holds no ring of this version")]
    NotARing,
    /// Slots or data bytes are no powers of two within the limits.
    #[error(
        "cannot use the ring: its slots must be a power of two in 4..=65536, its data bytes one \
         in 256..=2^30"
    )]
    Shape,
    /// The memory is smaller than the shape needs.
    #[error("cannot use the ring: its memory is smaller than its shape needs")]
    TooSmall,
    /// Another sender owns the ring.
    #[error("cannot claim the ring: another sender owns it")]
    Taken,
    /// The head is none that a ring can have.
    #[error("cannot claim the ring: its head is damaged")]
    Damaged,
}

/// Slots and data bytes of a ring, both powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Slots, [`MIN_SLOTS`] to [`MAX_SLOTS`].
    pub slots: u32,
    /// Bytes of the data area, [`MIN_DATA`] to [`MAX_DATA`].
    pub data: u32,
}

impl RingShape {
    /// Bytes of memory that a ring of this shape needs.
    pub const fn bytes(self) -> usize {
        (FIRST_SLOT + SLOT_LINES * self.slots as usize) * LINE + self.data as usize
    }

    /// Longest payload, in bytes, that goes through the data area: a quarter of it.
    #[inline]
    pub const fn max_data(self) -> usize {
        self.data as usize / 4
    }

    fn check<W: Words>(self, words: &W) -> Result<(), RingError> {
        let slots = self.slots.is_power_of_two() && (MIN_SLOTS..=MAX_SLOTS).contains(&self.slots);
        let data = self.data.is_power_of_two() && (MIN_DATA..=MAX_DATA).contains(&self.data);
        if !slots || !data {
            return Err(RingError::Shape);
        }
        if words.lines() * LINE < self.bytes() {
            return Err(RingError::TooSmall);
        }
        Ok(())
    }

    /// The first line of the slot for `position`; the second one is behind it.
    #[inline]
    fn slot_line(self, position: u64) -> usize {
        // Masked, so that it is a slot whatever the position.
        FIRST_SLOT + SLOT_LINES * (position as usize & (self.slots as usize - 1))
    }

    #[inline]
    fn data_line(self, position: u64) -> usize {
        let slots = SLOT_LINES * self.slots as usize;
        FIRST_SLOT + slots + (position as usize & (self.data as usize - 1)) / LINE
    }

    /// Bytes between two pieces of data: 2 KB, less in a small area. How far processors read ahead was
    /// measured: 1 KB is enough for pieces of up to 1 KB, 2 KB for longer ones. With the longest piece it
    /// is 5/16 of the area, so that two, of which one was skipped, find space as rule 3 promises.
    #[inline]
    const fn gap(self) -> u64 {
        let part = self.data as u64 / 16;
        if part < GAP { part / LINE as u64 * LINE as u64 } else { GAP }
    }

    /// Bytes of data that a piece of `len` bytes takes, with the gap behind it.
    #[inline]
    const fn taken(self, len: usize) -> u64 {
        (len as u64).next_multiple_of(LINE as u64) + self.gap()
    }

    /// Where a piece of `len` bytes goes when the data up to `tail` is taken: at `tail`, or at
    /// the beginning of the area when it would reach beyond its end, or beyond its first `used` bytes
    /// and takes at most a quarter of these (rules 3 and 7): with what the consumer has not published yet that is less than
    /// what was used before, so that an empty ring has space for it.
    #[inline]
    fn place(self, tail: u64, len: usize, used: u64) -> u64 {
        let data = u64::from(self.data);
        let (offset, taken) = (tail & (data - 1), self.taken(len));
        let end = if 4 * taken <= used { used } else { data };
        if offset + taken > end { tail + (data - offset) } else { tail }
    }

    /// Bytes of data after which the consumer publishes its head (rule 2).
    const fn data_published(self) -> u64 {
        let quarter = self.data as u64 / 4;
        if quarter < PUBLISHED { quarter } else { PUBLISHED }
    }
}

/// Makes a free ring in zeroed memory and returns its consumer.
///
/// # Errors
/// When the shape cannot be, or the memory is too small.
pub fn init<W: Words>(words: W, shape: RingShape) -> Result<Consumer<W>, RingError> {
    shape.check(&words)?;
    // Relaxed: all of it is ordered by the magic.
    words.line(OWNER_LINE).store(0, 0, Ordering::Relaxed);
    for word in [CONSUMED, DATA_CONSUMED, EVICT] {
        words.line(HEAD_LINE).store(word, 0, Ordering::Relaxed);
    }
    words.line(0).store(1, u64::from(shape.slots), Ordering::Relaxed);
    words.line(0).store(2, u64::from(shape.data), Ordering::Relaxed);
    // Release: pairs with the Acquire load in `shape_of`.
    words.line(0).store(0, MAGIC, Ordering::Release);
    Ok(Consumer::new(words, shape))
}

fn shape_of<W: Words>(words: &W) -> Result<RingShape, RingError> {
    if words.lines() < FIRST_SLOT {
        return Err(RingError::TooSmall);
    }
    let line = words.line(0);
    // Acquire: pairs with the Release store in `init`.
    if line.load(0, Ordering::Acquire) != MAGIC {
        return Err(RingError::NotARing);
    }
    // Relaxed: ordered by the magic; read once.
    let slots = u32::try_from(line.load(1, Ordering::Relaxed)).map_err(|_| RingError::Shape)?;
    let data = u32::try_from(line.load(2, Ordering::Relaxed)).map_err(|_| RingError::Shape)?;
    let shape = RingShape { slots, data };
    shape.check(words)?;
    Ok(shape)
}

#[cfg(all(test, bowline_loom))]
mod loom_tests;
#[cfg(all(test, not(bowline_loom)))]
mod tests;
