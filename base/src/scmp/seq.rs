//! SCMP with the finalise in the slot: the form for memory that all sides map.
//!
//! # The words
//!
//! ```text
//!   line 0   magic, slots per half L                          written by `init` only
//!   line 1   R   63 half | 62 .. 32 generation | 31 .. 0 next free offset
//!   line 2   F of half 0: slots whose reservation failed, since the half was exposed
//!   line 3   F of half 1
//!   line 4   L slots of half 0, then L slots of half 1        (see `slot`)
//! ```
//!
//! The upper half of R, half and generation together, is the *tag*. It is never zero, differs
//! for every flip, and stands in every slot that is written under it: a slot is written if it
//! carries the tag of the current exposure of its half, so that nothing is zeroed and no counter
//! is touched when a message is consumed. The generation has 31 bits; when it starts again at 1,
//! the consumer wipes each half before it exposes it for the first time, since a slot may have
//! slept through all the generations.
//!
//! # The producer
//!
//! 1. It loads R. If its slots do not fit behind the offset, it is refused and nothing has
//!    happened. Half and generation are what a refused sender waits on: nothing fits before the
//!    flip, if it keeps its messages in order.
//! 2. It announces its intent in its own control block.
//! 3. It adds its slots to R (AcqRel). The old value is its ticket: half, tag and offset.
//! 4. If others came between 1 and 3 and the slots do not fit, it adds their number to F of the
//!    ticket's half, clears the intent, and is refused. A producer does that at most once per
//!    exposure, so the offset stays far below 2^31.
//! 5. Otherwise it writes its slots, the START's word 0 last (Release), and clears the intent
//!    (Release).
//!
//! # The consumer
//!
//! 6. *Active*: it reads the slots of the active half in order, as their tags appear.
//! 7. When it has come to the middle of the half, or has found nothing for a while in a half
//!    that it has used, it *flips*: it swaps R for (other half, next generation, offset 0), and
//!    keeps the offset r that it got. No producer can take a ticket of the old half any more.
//! 8. *Draining*: it goes on in the old half, up to its end, before it reads anything in the new
//!    one. So messages of a producer keep their order: its tickets are in order within a half,
//!    and a ticket of the new half was taken after its last ticket of the old one.
//! 9. The old half is drained when slots read + F = r. Successful reservations are a prefix:
//!    after a failed one the offset is beyond L, and all later ones fail too. So r <= L means
//!    that none failed, and F need not be read.
//! 10. Then it sets F to 0 and is active in the new half. The old one is exposed again by the
//!     next flip, whose release orders the reads and the zero before all that producers do there.
//!
//! # What the dead leave
//!
//! A producer can die after any step. The consumer sees the consequence as a half that does not
//! drain: a slot below the end is not written, or F is too small.
//!
//! 11. To settle, the consumer flips, if it has not; *then* it takes the snapshot of the
//!     unfinished intents on this queue. Each missing reservation was made before the flip, so
//!     the swap of R acquired it together with its announcement: the snapshot holds it, or a
//!     later announcement of the same producer, which is proof that the missing one was finished.
//! 12. It waits until each intent of the snapshot has changed, or its producer is dead. A changed
//!     intent is proof (Acquire, Release of 2, 4 and 5) that its slots are written or counted in
//!     F; Release of 2, because a later announcement may be the first change that it sees.
//! 13. What is missing now was left by the dead. One of them accounts for at most the slots that
//!     it announced: it may have died before 3, or after the stores of 5. More missing slots
//!     than that are damage, and poison the queue.
//! 14. The rest of the old half is then drained slot by slot: a START is handed out, what is not
//!     written is skipped, and so is a CONT without its START, which a producer leaves that
//!     dies within 5. The half ends at min(r, L), whatever F says: a producer that died within 4
//!     never comes back to add to it.
//!
//! So a message of a dead producer arrives whole or not at all.
//!
//! # Damage
//!
//! R must carry the tag that the consumer gave it, an offset below [`POISON`], and at least as
//! many reservations as slots were read; F must not exceed what is left. Otherwise the consumer
//! *poisons* the queue: it sets the offset to [`POISON`], which every producer recognises, and
//! reports the fault from every call. A slot of length or order that cannot be is skipped and
//! reported as its source's fault.
//!
//! A reservation that nobody made, or a slot whose tag was overwritten, seems to be that of a producer at
//! work. So a consumer that finds nothing for long although R says that something is there settles
//! (11 to 13) with nobody dead: when everybody alive has finished what it had announced, what is
//! still missing was announced by nobody. A producer that stands still between 2 and 5, stopped by a
//! debugger, holds the queue up for as long; only its death or its going on ends that.

mod consumer;
mod producer;

pub(super) use consumer::next_tag;
pub use consumer::{Consumer, Settled};
pub use producer::{Failed, Producer, Ticket};

use super::{AttachError, announce, announced, check_slots};
use crate::sync::LINE;
use crate::sync::atomic::Ordering;
use crate::words::{LineWords, Words};

/// An offset from here on says that the queue is closed. The largest honest offset is below
/// 2^15 + 2^16 producers * 2^10 slots.
pub const POISON: u32 = 1 << 31;

/// "BWLSCMPS" and the version of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"BWLSCMPS") ^ VERSION;
const VERSION: u64 = 1;

const R_LINE: usize = 1;
const F_LINE: usize = 2;
const FIRST_SLOT: usize = 4;

/// The largest generation; the next one is 1.
pub(super) const LAST_GENERATION: u32 = 0x7fff_ffff;

/// Bytes of memory that a queue with halves of `slots` needs.
pub const fn bytes_for(slots: u32) -> usize {
    (FIRST_SLOT + 2 * slots as usize) * LINE
}

/// Makes an empty queue with halves of `slots` in zeroed memory and returns its consumer.
/// `queue` is the number by which producers name this queue in their intents.
///
/// # Errors
/// When `slots` is not a power of two within [`MIN_SLOTS`](super::MIN_SLOTS)`..=`[`MAX_SLOTS`](super::MAX_SLOTS), or the memory is
/// too small.
pub fn init<W: Words>(words: W, slots: u32, queue: u16) -> Result<Consumer<W>, AttachError> {
    init_at(words, slots, queue, 1)
}

/// As [`init`], starting at `generation`.
pub(crate) fn init_at<W: Words>(
    words: W,
    slots: u32,
    queue: u16,
    generation: u32,
) -> Result<Consumer<W>, AttachError> {
    check_slots(&words, slots, bytes_for)?;
    words.line(R_LINE).store(0, u64::from(generation) << 32, Ordering::Relaxed);
    words.line(F_LINE).store(0, 0, Ordering::Relaxed);
    words.line(F_LINE + 1).store(0, 0, Ordering::Relaxed);
    announce(&words, MAGIC, slots);
    Ok(Consumer::new(words, slots, queue, generation))
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

/// The line of slot `offset` of the half in bit 31 of `tag`.
#[inline]
fn slot_line(tag: u32, offset: u32, slots: u32) -> usize {
    // Masked, so that it is a line of the queue whatever the offset.
    FIRST_SLOT + ((tag >> 31) * slots + (offset & (slots - 1))) as usize
}
