//! SCMP with counters of finalised and failed reservations, as in the thesis.
//!
//! For memory into which messages arrive by puts that carry no order among themselves. Where all
//! sides map the memory, [`super::seq`] is three times as fast, since its finalise travels with
//! the message; this form is its baseline there.
//!
//! # The words
//!
//! ```text
//!   line 0      magic, slots per half L                                written by `init` only
//!   line 1      R   63 half | 62 .. 32 generation | 31 .. 0 next free offset
//!   line 2, 3   S of half 0 and 1: slots finalised since the half was exposed
//!   line 4, 5   F of half 0 and 1: slots whose reservation failed
//!   line 8      L slots of half 0, then L slots of half 1
//! ```
//!
//! The thesis leaves the bits between half and offset spare. Here they count the flips, so that
//! a refused sender knows whether to try again, and damage shows.
//!
//! 1. *Reserve*: fetch-and-add of the slots to R. The old value is the ticket. If they do not
//!    fit, their number is added to F of the ticket's half, and the sender is refused. It must
//!    not reserve again before it has read another generation: that bounds the offset.
//! 2. *Put* the slots; [`Words::order`]; then *finalise*: add their number to S of the ticket's
//!    half. The put must be complete before: a put with a flag is no substitute, since S is
//!    shared.
//! 3. The consumer reads R; when something is reserved, it swaps R for (other half, next
//!    generation, offset 0) and keeps the offset r. The thesis does that with a fetch-AND-XOR;
//!    since nobody but the consumer flips, a swap does the same.
//! 4. Each reservation adds its slots to exactly one of S and F of its half. So S + F = r says
//!    that none is under way. The consumer asks and goes away again; it does not wait inside.
//! 5. Successful reservations are a prefix: after a failure the offset is beyond L, and all later
//!    ones fail. So the S first slots are messages, without a hole.
//! 6. The consumer hands them out and zeroes their headers, sets S and F to 0, and may flip
//!    again. Nobody names the half before that flip.
//! 7. *The dead*: the intent is announced before 1 and cleared after 2; a producer over a network
//!    keeps its intent where the consumer reads it after the peer's keys are revoked, which ends
//!    its puts. When S + F stays below r, the consumer takes the snapshot of the unfinished
//!    intents, waits for the living, and what is missing was left by the dead, as [`super::seq`]
//!    says in its rules 11 to 13. Then it goes through all slots below min(r, L) and skips what
//!    is not a message. Unlike there, a header does not say that its message is complete. So the
//!    last message of a dead producer that is as long as its intent says is dropped: whatever
//!    was not finalised is of that kind. What is dropped may have been finalised; a dead
//!    producer's last words may be lost, but not come in pieces. Each half in which one of the dead left
//!    something may lose one message of every dead producer.
//!
//! **Several threads** of the consumer: see [`shared`].
//!
//! **Posted homes.** The free functions give every step as data: [`R_BYTE`], [`ticket`],
//! [`settled_byte`], [`failed_byte`] and [`slot_byte`] say where the operations go, [`image`]
//! what is put. A transport posts fetch-and-add, put and add with them, and [`Consumer::flip_word`]
//! and [`Consumer::flipped`] let it swap R through its own device, where processor and device
//! atomics do not mix.

mod consumer;
mod producer;
pub mod remote_ring;
pub mod shared;

pub use consumer::Consumer;
pub use producer::{Failed, Producer, Ticket};

use super::slot::{self, bytes_in};
use super::{AttachError, Message, announce, announced, check_slots};
use crate::sync::LINE;
use crate::sync::atomic::Ordering;
use crate::words::{LINE_WORDS, LineWords, Words};

const POISON: u32 = super::seq::POISON;

/// "BWLSCMPC" and the version of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"BWLSCMPC") ^ VERSION;
const VERSION: u64 = 1;

const R_LINE: usize = 1;
const S_LINE: usize = 2;
const F_LINE: usize = 4;
const FIRST_SLOT: usize = 8;

/// The tag of every written slot; zero is an empty one.
const WRITTEN: u32 = 1;

/// Bytes of memory that a queue with halves of `slots` needs.
pub const fn bytes_for(slots: u32) -> usize {
    (FIRST_SLOT + 2 * slots as usize) * LINE
}

/// Where R is, in bytes from the start of the queue.
pub const R_BYTE: usize = R_LINE * LINE;

/// Where S of `half` (0 or 1) is, in bytes from the start of the queue.
pub const fn settled_byte(half: u32) -> usize {
    (S_LINE + (half & 1) as usize) * LINE
}

/// Where F of `half` (0 or 1) is, in bytes from the start of the queue.
pub const fn failed_byte(half: u32) -> usize {
    (F_LINE + (half & 1) as usize) * LINE
}

/// Where the first slot of `ticket` is, in bytes from the start of a queue with halves of
/// `slots`; the ticket's other slots follow.
pub const fn slot_byte(ticket: &Ticket, slots: u32) -> usize {
    slot_line(ticket.half(), ticket.offset(), slots) * LINE
}

/// What the old value of R says to one who added `count` to it, in a queue with halves of
/// `slots`.
///
/// # Errors
/// When the slots do not fit: they are to be counted as failed.
pub const fn ticket(old: u64, count: u32, slots: u32) -> Result<Ticket, Failed> {
    let (tag, offset) = ((old >> 32) as u32, old as u32);
    if offset as u64 + count as u64 > slots as u64 {
        return Err(Failed::new(tag, count));
    }
    Ok(Ticket::new(tag, offset, count))
}

/// Slot `index` of `message` from `source` as it stands in memory: words in the order of memory.
/// Slots beyond the message are empty.
pub fn image(message: &Message<'_>, source: u16, index: usize) -> [u64; LINE_WORDS] {
    let mut words = [0; LINE_WORDS];
    let source = u64::from(source) << 48;
    let bytes = |words: &mut [u64], from: &[u8]| {
        for (word, chunk) in words.iter_mut().zip(from.chunks(8)) {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(value);
        }
    };
    let (from, to) = (bytes_in(index), bytes_in(index + 1));
    let payload = message.payload;
    if index == 0 {
        words[0] = slot::start_word(WRITTEN, payload.len(), source);
        words[1] = u64::from(message.id) | (u64::from(message.flags) << 8);
        words[2..5].copy_from_slice(message.header);
        bytes(&mut words[5..], &payload[..payload.len().min(to)]);
    } else if from < payload.len() {
        words[0] = slot::cont_word(WRITTEN, index, source);
        bytes(&mut words[1..], &payload[from..payload.len().min(to)]);
    }
    words
}

/// Makes an empty queue with halves of `slots` in zeroed memory and returns its consumer.
/// `queue` is the number by which producers name this queue in their intents.
///
/// # Errors
/// When `slots` is not a power of two within [`MIN_SLOTS`](super::MIN_SLOTS)`..=`[`MAX_SLOTS`](super::MAX_SLOTS), or the memory is
/// too small.
pub fn init<W: Words>(words: W, slots: u32, queue: u16) -> Result<Consumer<W>, AttachError> {
    check_slots(&words, slots, bytes_for)?;
    // Relaxed: all of it is ordered by the magic.
    words.line(R_LINE).store(0, 1 << 32, Ordering::Relaxed);
    for line in [S_LINE, S_LINE + 1, F_LINE, F_LINE + 1] {
        words.line(line).store(0, 0, Ordering::Relaxed);
    }
    announce(&words, MAGIC, slots);
    Ok(Consumer::new(words, slots, queue))
}

/// Attaches a producer with number `source` to the queue in `words`, which `init` has made.
/// `queue` is the number that was given to `init`.
///
/// # Errors
/// When the memory holds no queue, or one that cannot be.
pub fn attach<W: Words>(words: W, queue: u16, source: u16) -> Result<Producer<W>, AttachError> {
    let slots = announced(&words, MAGIC, FIRST_SLOT, bytes_for)?;
    Ok(Producer::new(words, slots, queue, source))
}

pub(super) const fn slot_line(half: u32, offset: u32, slots: u32) -> usize {
    // Masked, so that it is a line of the queue whatever the offset.
    FIRST_SLOT + ((half & 1) * slots + (offset & (slots - 1))) as usize
}
