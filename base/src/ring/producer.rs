//! The sender's side of a ring. See the rules in [`super`].

use super::promote::END_ID;
use super::{
    CONSUMED, DATA_CONSUMED, EVICT, HEAD_LINE, HEADER_WORD, IN_DATA, INLINE_WORD, MAX_INLINE,
    MAX_LINE, OWNER_LINE, RingError, RingShape, USER_FLAGS, WINDOW, WINDOW_UNREAD, shape_of,
};
use crate::copy::overwrites_lines;
use crate::sync::LINE;
use crate::sync::atomic::Ordering;
use crate::view::View;
use crate::words::{DirectWords, LineWords, Words};

/// No position reaches this in the life of a machine; a head that claims it is damaged.
const NO_POSITION: u64 = 1 << 62;

/// How many messages ahead a slot is asked for.
const PREFETCH: u64 = 8;

/// Most lines of data that are asked for ahead.
const PREFETCH_DATA: usize = 256;

/// The producer of a ring that this sender owns.
#[derive(Debug)]
pub struct Producer<W> {
    words: W,
    shape: RingShape,
    /// Position of the next slot.
    tail: u64,
    /// `tail` stays below: the head as last loaded, plus L. Of a damaged ring: `0`.
    limit: u64,
    /// Position of the next data byte; a multiple of a line.
    data_tail: u64,
    /// `data_tail` does not pass: the data head as last loaded, plus D.
    data_limit: u64,
    /// Bytes of the area that are used: all, or [`WINDOW`] (rule 7).
    used: u64,
    evicted: bool,
    damaged: bool,
}

impl<W: Words> Producer<W> {
    pub(super) fn claim(words: W, source: u32) -> Result<Self, RingError> {
        let shape = shape_of(&words)?;
        // AcqRel: pairs with the Release store in `Consumer::free`; we see the head that the
        // consumer left, and write the slots after its reads.
        if !words.line(OWNER_LINE).replace(0, 0, u64::from(source) + 1) {
            return Err(RingError::Taken);
        }
        let head = words.line(HEAD_LINE);
        // Relaxed: ordered by the claim.
        let tail = head.load(CONSUMED, Ordering::Relaxed);
        let data_tail = head.load(DATA_CONSUMED, Ordering::Relaxed);
        if tail >= NO_POSITION || data_tail >= NO_POSITION || !data_tail.is_multiple_of(LINE as u64)
        {
            return Err(RingError::Damaged);
        }
        Ok(Self {
            words,
            shape,
            tail,
            limit: tail + u64::from(shape.slots),
            data_tail,
            data_limit: data_tail + u64::from(shape.data),
            used: u64::from(shape.data),
            evicted: false,
            damaged: false,
        })
    }

    /// Longest payload that goes through the data area, in bytes.
    #[inline]
    pub const fn max_data(&self) -> usize {
        self.shape.max_data()
    }

    /// Whether the receiver wants the ring back, as far as the producer has read: it reads
    /// that when the ring seems full, and in [`refresh`](Self::refresh).
    #[inline]
    pub const fn evicted(&self) -> bool {
        self.evicted
    }

    /// Whether the receiver's head was found damaged: there is never space again.
    #[inline]
    pub const fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Bytes of the area that are used; for tests.
    #[cfg(all(test, not(bowline_loom)))]
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Messages sent by this ring in its life, and those that its owners left behind; for tests.
    #[cfg(all(test, not(bowline_loom)))]
    pub(super) const fn position(&self) -> u64 {
        self.tail
    }

    /// Whether a slot is free; reads the consumer's head only if none seems to be.
    #[inline]
    pub fn has_space(&mut self) -> bool {
        self.tail < self.limit || self.refresh()
    }

    /// Sends header and payload in one slot. `false`: the ring is full (or
    /// [damaged](Self::is_damaged)), or the payload is longer than [`MAX_INLINE`]; nothing has
    /// happened then. Flags outside [`USER_FLAGS`] are dropped.
    #[inline]
    pub fn try_push_short(&mut self, id: u8, flags: u8, header: &[u64; 3], payload: &[u8]) -> bool {
        if payload.len() <= MAX_LINE {
            return self.try_push_line(id, flags, header, payload);
        }
        self.try_push_lines(id, flags, header, payload)
    }

    /// The same for a payload of more than [`MAX_LINE`] bytes, which takes both lines of a slot; `false`
    /// for a shorter one.
    #[inline(never)]
    pub fn try_push_lines(&mut self, id: u8, flags: u8, header: &[u64; 3], payload: &[u8]) -> bool {
        if !(MAX_LINE + 1..=MAX_INLINE).contains(&payload.len()) || !self.has_space() {
            return false;
        }
        let first = self.shape.slot_line(self.tail);
        let ahead = self.shape.slot_line(self.tail + 1 + PREFETCH);
        // SAFETY: `slot_line` masks the position, `shape_of` saw that all slots are there, and each
        // has two lines.
        let (line, second, next) = unsafe {
            let line = |index| self.words.line_unchecked(index);
            (line(first), line(first + 1), line(ahead + 1))
        };
        let (front, rest) = payload.split_at(MAX_LINE);
        line.put(INLINE_WORD, front);
        second.put(0, rest);
        // As the first line, below; behind a message that has used it.
        next.prefetch_write();
        Self::publish(line, self.tail, id, flags & USER_FLAGS, header, payload.len());
        self.tail += 1;
        self.prefetch();
        true
    }

    /// The same for a payload of at most [`MAX_LINE`] bytes, which the slot's first line holds; `false`
    /// for a longer one.
    #[inline]
    pub fn try_push_line(&mut self, id: u8, flags: u8, header: &[u64; 3], payload: &[u8]) -> bool {
        if payload.len() > MAX_LINE || !self.has_space() {
            return false;
        }
        // SAFETY: `slot_line` masks the position, and `shape_of` saw that all slots are there.
        let line = unsafe { self.words.line_unchecked(self.shape.slot_line(self.tail)) };
        line.put(INLINE_WORD, payload);
        Self::publish(line, self.tail, id, flags & USER_FLAGS, header, payload.len());
        self.tail += 1;
        self.prefetch();
        true
    }

    /// Asks for a slot some messages ahead: its line lies with the consumer, who read it a lap
    /// ago, and a burst would wait for one line after the other.
    #[inline]
    fn prefetch(&self) {
        // SAFETY: as in `try_push_short`.
        let ahead =
            unsafe { self.words.line_unchecked(self.shape.slot_line(self.tail + PREFETCH)) };
        ahead.prefetch_write();
    }

    /// Where the next piece of `len` bytes goes.
    #[inline]
    fn place(&self, len: usize) -> u64 {
        self.shape.place(self.data_tail, len, self.used)
    }

    /// Prefetches the space of a next piece of `len` bytes: its lines lie with the consumer, and the
    /// piece would wait for them line by line. What is sent and answered comes back later than the
    /// lines do. A long piece overwrites its lines and waits for none.
    #[inline]
    fn prefetch_data(&self, len: usize) {
        if overwrites_lines(len) {
            return;
        }
        let first = self.shape.data_line(self.place(len));
        for line in 0..len.div_ceil(LINE).min(PREFETCH_DATA) {
            // SAFETY: `place` finds whole lines in one piece inside the area, all of which
            // `shape_of` saw.
            unsafe { self.words.line_unchecked(first + line) }.prefetch_write();
        }
    }

    /// Space for a payload of at most `max_len` bytes in the data area, and for its slot. `None`:
    /// there is none now (or ever, when `max_len` is beyond [`max_data`](Self::max_data) or the
    /// ring is damaged); nothing has happened then.
    #[inline]
    pub fn reserve_data(&mut self, max_len: usize) -> Option<DataSpace<'_, W>> {
        if max_len > self.max_data() || !self.has_space() {
            return None;
        }
        let position = self.place(max_len);
        let end = position + self.shape.taken(max_len);
        if end > self.data_limit {
            self.refresh();
            if end > self.data_limit || self.damaged {
                return None;
            }
        }
        Some(DataSpace { producer: self, position, max_len })
    }

    /// Sends the last message of this owner, after which the receiver frees the ring. `Err`: the
    /// ring is full; try again later. Rule 4 of [`promote`](super::promote).
    pub fn end(mut self) -> Result<(), Self> {
        if !self.has_space() {
            return Err(self);
        }
        let line = self.words.line(self.shape.slot_line(self.tail));
        Self::publish(line, self.tail, END_ID, 0, &[0; 3], 0);
        Ok(())
    }

    /// Loads the consumer's head again; whether a slot is free now.
    #[cold]
    #[inline(never)]
    pub fn refresh(&mut self) -> bool {
        let head = self.words.line(HEAD_LINE);
        // Acquire, both: pair with the Release stores in `Consumer::publish`; our writes come
        // after its reads.
        let consumed = head.load(CONSUMED, Ordering::Acquire);
        let data_consumed = head.load(DATA_CONSUMED, Ordering::Acquire);
        // Relaxed: a request that publishes nothing.
        self.evicted |= head.load(EVICT, Ordering::Relaxed) != 0;
        let (slots, data) = (u64::from(self.shape.slots), u64::from(self.shape.data));
        // Rule 4: forward from the last head, and not beyond what was sent.
        let sound = consumed <= self.tail
            && consumed + slots >= self.limit
            && data_consumed <= self.data_tail
            && data_consumed + data >= self.data_limit
            && data_consumed.is_multiple_of(LINE as u64);
        if !sound || self.damaged {
            self.damaged = true;
            self.limit = 0;
            return false;
        }
        self.limit = consumed + slots;
        self.data_limit = data_consumed + data;
        let is_window = self.data_tail - data_consumed >= WINDOW_UNREAD;
        self.used = if is_window && data > WINDOW { WINDOW } else { data };
        self.tail < self.limit
    }

    /// Writes the header and then word 0 of the slot at `position`.
    #[inline]
    fn publish(line: W::Line<'_>, position: u64, id: u8, flags: u8, header: &[u64; 3], len: usize) {
        line.write(HEADER_WORD, header[0]);
        line.write(HEADER_WORD + 1, header[1]);
        line.write(HEADER_WORD + 2, header[2]);
        let word = u64::from((position as u32).wrapping_add(1))
            | ((len as u64) << 32)
            | (u64::from(id) << 48)
            | (u64::from(flags) << 56);
        // Release: pairs with the Acquire load in `Consumer::receive`; publishes slot and data.
        line.store(0, word, Ordering::Release);
    }
}

/// Space in the data area for one payload. Dropping it gives the space back.
#[derive(Debug)]
#[must_use = "space that is not committed sends nothing"]
pub struct DataSpace<'a, W: Words> {
    producer: &'a mut Producer<W>,
    position: u64,
    max_len: usize,
}

impl<W: Words> DataSpace<'_, W> {
    /// Where it begins; for tests.
    #[cfg(all(test, not(bowline_loom)))]
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Copies `bytes` to the start of the space, as many as fit; returns how many.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.max_len);
        let first = self.producer.shape.data_line(self.position);
        for (i, piece) in bytes[..n].chunks(LINE).enumerate() {
            // The space is whole lines in one piece, see `RingShape::place`.
            self.producer.words.line(first + i).put(0, piece);
        }
        n
    }

    /// Sends the first `len` bytes of the space, at most all of it, with `header`; returns the
    /// bytes sent.
    #[inline]
    pub fn commit(self, id: u8, flags: u8, header: &[u64; 3], len: usize) -> usize {
        let len = len.min(self.max_len);
        let Self { producer, position, .. } = self;
        // SAFETY: `slot_line` masks the position, and `shape_of` saw that all slots are there.
        let line =
            unsafe { producer.words.line_unchecked(producer.shape.slot_line(producer.tail)) };
        line.write(INLINE_WORD, position);
        line.write(INLINE_WORD + 1, len as u64);
        producer.words.order();
        Producer::<W>::publish(line, producer.tail, id, (flags & USER_FLAGS) | IN_DATA, header, 0);
        producer.tail += 1;
        producer.data_tail = position + producer.shape.taken(len);
        producer.prefetch_data(len);
        len
    }
}

impl DataSpace<'_, DirectWords> {
    /// The space itself, to pack into.
    #[inline]
    pub fn view(&mut self) -> View<'_> {
        let first = self.producer.shape.data_line(self.position);
        self.producer.words.bytes(first, self.max_len).unwrap_or(View::empty())
    }
}
