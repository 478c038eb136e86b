//! A slot of 64 bytes: the form of a message in a queue.
//!
//! ```text
//!   word 0   tag u32 | length u16 | source u16      shared; stored last, Release
//!   START    word 1: id u8 | flags u8 | mark u48     words 2-4: header    words 5-7: 24 bytes
//!   CONT     words 1-7: 56 bytes
//! ```
//!
//! Bit fields count from the lowest bit. `tag` says that the slot is written, and when: see the
//! queue forms. A message takes one START and as many CONT slots behind it as its length needs,
//! so their number is not written down and cannot contradict it. In a CONT the length field has
//! its top bit set and holds the slot's place in its message, counted from 1: each slot says
//! what it is, and what a dead producer left can be skipped slot by slot.

use crate::sync::atomic::Ordering;
use crate::view::View;
use crate::words::{DirectWords, LineWords, Words};

/// Payload bytes in a START slot.
pub const FIRST_BYTES: usize = 24;

/// Payload bytes in each further slot.
pub const MORE_BYTES: usize = 56;

/// Longest payload that the length field can say.
pub const MAX_BYTES: usize = 0x7fff;

const CONT: u16 = 0x8000;

/// Where the payload starts in a START and in a CONT slot.
const FIRST_WORD: usize = 5;
const MORE_WORD: usize = 1;

/// Slots that a message with `len` bytes of payload takes.
#[inline]
pub const fn slots_for(len: usize) -> usize {
    if len <= FIRST_BYTES { 1 } else { 1 + (len - FIRST_BYTES).div_ceil(MORE_BYTES) }
}

/// Bytes of payload for which `slots` slots have space; none for no slot.
#[inline]
pub(super) const fn bytes_in(slots: usize) -> usize {
    if slots == 0 { 0 } else { FIRST_BYTES + (slots - 1) * MORE_BYTES }
}

/// A message on its way into a queue.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Which handler it is for; the queue does not read it.
    pub id: u8,
    /// Free for the user.
    pub flags: u8,
    /// The fixed header.
    pub header: &'a [u64; 3],
    /// The payload.
    pub payload: &'a [u8],
}

/// Word 0 of a START slot. `source` is the producer's number shifted to its place.
#[inline]
pub(super) const fn start_word(tag: u32, len: usize, source: u64) -> u64 {
    tag as u64 | ((len as u64) << 32) | source
}

/// Word 0 of the CONT slot at `place` (from 1) of its message.
#[inline]
pub(super) const fn cont_word(tag: u32, place: usize, source: u64) -> u64 {
    tag as u64 | (((CONT as u64) | place as u64) << 32) | source
}

#[inline]
pub(super) const fn tag_of(word: u64) -> u32 {
    word as u32
}

#[inline]
pub(super) const fn source_of(word: u64) -> u16 {
    (word >> 48) as u16
}

/// The length in a START's word, `None` for a CONT.
#[inline]
pub(super) const fn start_len(word: u64) -> Option<usize> {
    let field = (word >> 32) as u16;
    if field & CONT == 0 { Some(field as usize) } else { None }
}

/// Writes everything of a START slot but word 0.
#[inline]
pub(super) fn write_start<L: LineWords>(line: L, message: &Message<'_>) {
    line.write(1, message.id as u64 | ((message.flags as u64) << 8));
    line.write(2, message.header[0]);
    line.write(3, message.header[1]);
    line.write(4, message.header[2]);
    line.put(FIRST_WORD, &message.payload[..message.payload.len().min(FIRST_BYTES)]);
}

/// Writes the CONT slots of `payload`, if it has any; `first` is the START's line. Lines
/// `first .. first + slots_for(payload.len())` must exist.
pub(super) fn write_more<W: Words>(words: &W, first: usize, tag: u32, source: u64, payload: &[u8]) {
    if payload.len() <= FIRST_BYTES {
        return;
    }
    for (i, piece) in payload[FIRST_BYTES..].chunks(MORE_BYTES).enumerate() {
        let line = words.line(first + 1 + i);
        line.put(MORE_WORD, piece);
        // Relaxed: the START's Release store publishes the whole message.
        line.store(0, cont_word(tag, i + 1, source), Ordering::Relaxed);
    }
}

/// Whether the slots behind a START at line `first` are its CONTs.
#[inline]
pub(super) fn conts_match<W: Words>(words: &W, first: usize, slots: usize, start: u64) -> bool {
    (1..slots).all(|place| {
        let want = cont_word(tag_of(start), place, start & (0xffff << 48));
        // Relaxed: ordered by the Acquire load of the START's word, see `write_more`.
        words.line(first + place).load(0, Ordering::Relaxed) == want
    })
}

/// A message handed out by a consumer; it stays in the queue's memory until the handler returns.
/// The lengths are checked, the bytes are whatever the peer wrote and may still change.
#[derive(Debug)]
pub struct QueuedMessage<'a, W: Words> {
    /// Which handler it is for.
    pub id: u8,
    /// As the producer set them.
    pub flags: u8,
    /// The producer that the message claims to come from.
    pub source: u16,
    /// Bytes of payload.
    pub len: usize,
    /// 48 bits that a posted home may set in the image of a START; 0 from the producers here.
    pub mark: u64,
    /// The fixed header, read once.
    pub header: [u64; 3],
    words: &'a W,
    first: usize,
    start: W::Line<'a>,
}

impl<'a, W: Words> QueuedMessage<'a, W> {
    /// Reads the START at line `first`; its length and its CONTs have been checked, so that
    /// all its lines exist.
    #[inline]
    pub(super) fn read(
        words: &'a W,
        line: W::Line<'a>,
        first: usize,
        word: u64,
        len: usize,
    ) -> Self {
        let kind = line.read(1);
        Self {
            id: kind as u8,
            flags: (kind >> 8) as u8,
            source: source_of(word),
            mark: kind >> 16,
            len,
            header: [line.read(2), line.read(3), line.read(4)],
            words,
            first,
            start: line,
        }
    }

    /// Copies the payload to `out`, as much as both hold; returns the bytes copied.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        let n = self.len.min(out.len());
        let (head, rest) = out[..n].split_at_mut(n.min(FIRST_BYTES));
        self.start.get(FIRST_WORD, head);
        for (i, piece) in rest.chunks_mut(MORE_BYTES).enumerate() {
            self.words.line(self.first + 1 + i).get(MORE_WORD, piece);
        }
        n
    }
}

impl<'a> QueuedMessage<'a, DirectWords> {
    /// The whole payload where it lies, when it is in one piece (up to [`FIRST_BYTES`]).
    #[inline]
    pub fn in_place(&self) -> Option<View<'a>> {
        if self.len > FIRST_BYTES {
            return None;
        }
        Some(self.start.bytes(FIRST_WORD, self.len))
    }

    /// The payload in the pieces in which it lies: up to [`FIRST_BYTES`], then up to
    /// [`MORE_BYTES`] each.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = View<'a>> + use<'a> {
        let (words, first, len) = (self.words, self.first, self.len);
        (0..slots_for(len)).map(move |slot| {
            if slot == 0 {
                words.line(first).bytes(FIRST_WORD, len.min(FIRST_BYTES))
            } else {
                let before = FIRST_BYTES + (slot - 1) * MORE_BYTES;
                words.line(first + slot).bytes(MORE_WORD, (len - before).min(MORE_BYTES))
            }
        })
    }
}

#[cfg(not(bowline_loom))]
impl<'a, 'v> QueuedMessage<'a, crate::words::ViewWords<'v>> {
    /// As the method of the same name over mapped memory.
    #[inline]
    pub fn in_place(&self) -> Option<View<'a>> {
        (self.len <= FIRST_BYTES).then(|| self.start.bytes(FIRST_WORD, self.len))
    }

    /// As the method of the same name over mapped memory.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = View<'v>> + use<'v> {
        let (words, first, len) = (*self.words, self.first, self.len);
        (0..slots_for(len)).map(move |slot| {
            let line = words.long_line(first + slot);
            if slot == 0 {
                line.bytes(FIRST_WORD, len.min(FIRST_BYTES))
            } else {
                let before = FIRST_BYTES + (slot - 1) * MORE_BYTES;
                line.bytes(MORE_WORD, (len - before).min(MORE_BYTES))
            }
        })
    }
}
