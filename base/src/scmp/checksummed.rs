//! SCMP with the sequence in the slot, for memory into which messages arrive by puts.
//!
//! [`super::seq`] stores a message's tag last. A put cannot: its bytes land in any order, and so do
//! two puts. Here each message carries a *checksum*, 48 bits that follow from all its other bytes, from
//! the flip under which it was reserved, and from its number among those of its sender. A message
//! whose checksum fits is there, whole, and the next one of its sender. So its sender takes two
//! operations, a fetch-and-add and a put, and waits for neither to be ordered before the other.
//!
//! # The words
//!
//! Those of [`super::counted`], with `R_BYTE`, `ticket` and `slot_byte`; S and F are not used.
//! Word 0 of every slot has the tag of its flip (the upper half of R), and the mark of a START is the
//! checksum of its message ([`Checksum`]).
//!
//! # The producer
//!
//! 1. *Reserve*: fetch-and-add of the slots to R; the old value is the ticket, with the tag.
//! 2. *Put* the slots, checksummed under that tag. That is all.
//! 3. If they do not fit and begin behind the end of the half, nothing is left to do. If they begin
//!    before it, it puts a [`void`] where they begin: one slot that says that the rest of the half is
//!    nobody's. At most one reservation of an exposure is of that kind, since all later ones begin
//!    behind it. It must not reserve again before it has read another tag.
//!
//! # The consumer
//!
//! ```text
//!            flip: r                     index = min(r, L), or a void there
//!   Active ───────────► Draining{r} ─────────────────────────────► Active (other half)
//!                          │ resolve: what is missing was left by the dead   ▲
//!                          └──────────► the same, holes are skipped ─────────┘
//!   any ── impossible control word, or more holes than the dead can have left ──► Poisoned
//! ```
//!
//! 4. It reads one slot, the next one. Nothing is there while its tag is another one, its length
//!    reaches beyond the end, one of its CONT slots is not there, or the checksum does not fit: all of
//!    that is the state of a message that has not landed whole, and it polls again. So it loads no
//!    counter to find the queue empty.
//! 5. It copies a message out before it believes the checksum, and hands out the copy.
//! 6. It flips when it has come to the middle of the half, or has found nothing for a while in a half
//!    that it has used, or is asked to. Then it goes on in the old half to its end, before it reads
//!    anything in the new one: so the messages of a producer keep their order.
//! 7. The number in the checksum is that of the *next* message of its source. What lies behind a hole of
//!    the same sender does not fit, and is never handed out, although it may have landed first.
//! 8. It *clears* each slot that it passes: no tag in word 0, and in the others words that no message
//!    has but by a chance of one in 2^64. So each word of the next message changes what was there, and
//!    where a checksum fits, no word is still on its way. Without that, a sender that is stopped in the
//!    midst of a put, whose last words happen to be there already, would write them later over
//!    the message of another.
//!
//! # The dead, and damage
//!
//! 9. A half that does not drain has a hole. Its owner finds out by other means whether every
//!    reservation of the living that was made before the flip has landed, and says so by
//!    [`Consumer::resolve`]. Then whatever does not fit is skipped slot by slot. A message that was
//!    whole is never lost, and one in pieces never handed out.
//! 10. A hole with the tag of this flip may claim a source: if that one lives, its slot was damaged,
//!     and it is notified ([`Sources::hole`]). More holes without a claim than the dead can have left
//!     poison the queue.
//! 11. The checksum keeps out what is torn, stale, or written at random: a slot of another state fits by
//!     chance once in 2^48 reads of different states. It does not keep out a peer that knows the cookie.
//!
//! There is no loom model of it: its consumer reads words while they land, which loom calls a race, and
//! trusts none of them before the checksum fits. The tests let words land one by one in any order instead.

mod consumer;

pub use consumer::{Checksummed, Consumer, Sources};

use super::counted::{self, R_BYTE};
use super::slot;
use super::{AttachError, announce, check_slots};
use crate::sync::LINE;
use crate::sync::atomic::Ordering;
use crate::words::{LINE_WORDS, LineWords, Words};

/// "BWLSCMPP" and the version of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"BWLSCMPP") ^ 1;

const R_LINE: usize = R_BYTE / LINE;

/// The handler that no message can be for: see rule 3.
const VOID_ID: u8 = 0x81;

/// What the checksum covers of a START's second word: all but the checksum.
const BELOW_CHECKSUM: u64 = 0xffff;

/// Numbers that were not chosen for anything: the first 64-bit words of the fraction of pi.
const PI: [u64; 11] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
    0x9216_d5d9_8979_fb1b,
    0xd131_0ba6_98df_b5ac,
    0x2ffd_72db_d01a_dfb7,
];

/// The bytes of a cleared slot behind its first word, which is 0.
const CLEARED: [u8; LINE - 8] = {
    let mut bytes = [0; LINE - 8];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (!PI[at / 8] >> (at % 8 * 8)) as u8;
        at += 1;
    }
    bytes
};

/// Clears a slot (rule 8).
#[inline]
fn clear<L: LineWords>(line: L) {
    // Relaxed: the next flip's release orders it before what producers do there.
    line.store(0, 0, Ordering::Relaxed);
    line.put(1, &CLEARED);
}

/// Both halves of the product, added without carry.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// What a message's checksum starts from: the cookie of its sender and the message's number there.
#[inline]
pub const fn key(cookie: u32, number: u32) -> u64 {
    (cookie as u64) << 32 | number as u64
}

/// Computes the checksum of a message, slot by slot.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(u64);

impl Checksum {
    /// For the message with this [`key`].
    #[inline]
    pub const fn new(key: u64) -> Self {
        Self(fold(key ^ PI[8], PI[9]))
    }

    /// The START.
    #[inline]
    pub const fn start(&mut self, mut words: [u64; LINE_WORDS]) {
        words[1] &= BELOW_CHECKSUM;
        self.more(&words);
    }

    /// The next CONT.
    #[inline]
    pub const fn more(&mut self, words: &[u64; LINE_WORDS]) {
        let a = fold(words[0] ^ PI[0], words[1] ^ PI[1]);
        let b = fold(words[2] ^ PI[2], words[3] ^ PI[3]).rotate_left(17);
        let c = fold(words[4] ^ PI[4], words[5] ^ PI[5]).rotate_left(31);
        let d = fold(words[6] ^ PI[6], words[7] ^ PI[7]).rotate_left(47);
        self.0 = fold(self.0 ^ a ^ b ^ c ^ d, PI[10]);
    }

    /// The checksum, to be the mark of the START.
    #[inline]
    pub const fn checksum(self) -> u64 {
        self.0 >> 16
    }
}

/// Word 0 of a slot's image under `tag`, from `source`.
#[inline]
pub const fn under(word: u64, tag: u32, source: u16) -> u64 {
    word & 0xffff_0000_0000 | tag as u64 | (source as u64) << 48
}

/// The image of a START with `checksum`, from one without.
#[inline]
pub const fn with_checksum(word: u64, checksum: u64) -> u64 {
    word & BELOW_CHECKSUM | checksum << 16
}

/// The slot that says that the rest of the half is nobody's (rule 3).
pub const fn void(key: u64, tag: u32, source: u16) -> [u64; LINE_WORDS] {
    let mut words = [0; LINE_WORDS];
    words[0] = slot::start_word(tag, 0, (source as u64) << 48);
    words[1] = VOID_ID as u64;
    let mut sum = Checksum::new(key);
    sum.start(words);
    words[1] = with_checksum(words[1], sum.checksum());
    words
}

/// Makes an empty queue with halves of `slots` in zeroed memory and returns its consumer.
///
/// # Errors
/// When `slots` is not a power of two within [`MIN_SLOTS`](super::MIN_SLOTS)`..=`[`MAX_SLOTS`](super::MAX_SLOTS), or the memory is
/// too small.
pub fn init<W: Words>(words: W, slots: u32) -> Result<Consumer<W>, AttachError> {
    init_at(words, slots, 1)
}

/// As [`init`], starting under `tag`.
pub(crate) fn init_at<W: Words>(
    words: W,
    slots: u32,
    tag: u32,
) -> Result<Consumer<W>, AttachError> {
    check_slots(&words, slots, counted::bytes_for)?;
    for offset in 0..slots {
        for half in 0..2 {
            clear(words.line(counted::slot_line(half, offset, slots)));
        }
    }
    // Relaxed: the magic orders it, and what makes the queue known to producers.
    words.line(R_LINE).store(0, u64::from(tag) << 32, Ordering::Relaxed);
    announce(&words, MAGIC, slots);
    Ok(Consumer::new(words, slots, tag))
}

#[cfg(test)]
mod tests;
