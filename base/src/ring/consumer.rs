//! The receiver's side of a ring. See the rules in [`super`].

use super::{
    CONSUMED, DATA_CONSUMED, Damaged, EVICT, HEAD_LINE, HEADER_WORD, IN_DATA, INLINE_WORD,
    MAX_INLINE, MAX_LINE, OWNER_LINE, RingShape, USER_FLAGS,
};
use crate::copy::overwrites_lines;
use crate::sync::LINE;
use crate::sync::atomic::Ordering;
use crate::view::View;
use crate::words::{DirectWords, LineWords, Words};

/// How many messages ahead [`Consumer::prefetch`] asks.
const PREFETCH: u64 = 8;

/// What one can know of the next message before it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Which handler it is for.
    pub id: u8,
    /// As the producer set them.
    pub flags: u8,
    /// Whether its payload is in the data area: more than [`MAX_INLINE`] bytes, as a rule.
    pub in_data: bool,
}

/// The consumer of a ring, in any process.
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    shape: RingShape,
    /// Position of the next slot.
    head: u64,
    /// Position behind the last data consumed; a multiple of a line.
    data_head: u64,
    /// The head is published when `head` or `data_head` has come here.
    publish_at: u64,
    data_publish_at: u64,
}

impl<W: Words> Consumer<W> {
    pub(super) fn new(words: W, shape: RingShape) -> Self {
        Self {
            words,
            shape,
            head: 0,
            data_head: 0,
            publish_at: u64::from(shape.slots / 4),
            data_publish_at: shape.data_published(),
        }
    }

    /// The next message, if there is one; it stays.
    #[inline]
    pub fn peek(&self) -> Option<Peek> {
        // SAFETY: as in `receive`.
        let line = unsafe { self.words.line_unchecked(self.shape.slot_line(self.head)) };
        // Acquire: pairs with `Producer::publish`; nothing is read here that needs it, but who
        // saw the message may rely on what its sender did before.
        let word = line.load(0, Ordering::Acquire);
        if word as u32 != (self.head as u32).wrapping_add(1) {
            return None;
        }
        let flags = (word >> 56) as u8;
        Some(Peek {
            id: (word >> 48) as u8,
            flags: flags & USER_FLAGS,
            in_data: flags & IN_DATA != 0,
        })
    }

    /// Whether there is a next message; all that a poll needs that finds none.
    #[inline(always)]
    pub fn waits(&self) -> bool {
        // SAFETY: as in `receive`.
        let line = unsafe { self.words.line_unchecked(self.shape.slot_line(self.head)) };
        // Relaxed: a question. Who takes the message loads the word again.
        line.load(0, Ordering::Relaxed) as u32 == (self.head as u32).wrapping_add(1)
    }

    /// Hands the next message to `handle`, if there is one, and takes it out of the ring when
    /// `handle` returns; if it panics, the message stays.
    ///
    /// # Errors
    /// When the message cannot be. It stays, and so does the error: the caller gives the pair's
    /// ring up and [frees](Self::free) it.
    #[inline]
    pub fn receive<T>(
        &mut self,
        handle: impl FnOnce(RingMessage<'_, W>) -> T,
    ) -> Result<Option<T>, Damaged> {
        let head = self.head;
        // SAFETY: `slot_line` masks the position, and `init` saw that all slots are there.
        let line = unsafe { self.words.line_unchecked(self.shape.slot_line(head)) };
        // Acquire: pairs with the Release store in `Producer::publish`.
        let word = line.load(0, Ordering::Acquire);
        if word as u32 != (head as u32).wrapping_add(1) {
            return Ok(None);
        }
        if (word >> 56) as u8 & IN_DATA != 0 {
            return self.receive_data(word, handle);
        }
        let len = (word >> 32) as u16 as usize;
        if len > MAX_INLINE {
            return Err(Damaged);
        }
        let result = handle(RingMessage::read(line, word, len, self.slot_place(line, len)));
        self.head = head + 1;
        if self.head >= self.publish_at {
            self.publish();
        }
        Ok(Some(result))
    }

    /// Offers the next message, if there is one, to `handle`, and takes it out of the ring if that says
    /// that it took it. Whether it did.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn offer(
        &mut self,
        handle: impl FnOnce(RingMessage<'_, W>) -> bool,
    ) -> Result<bool, Damaged> {
        // SAFETY: as in `receive`.
        let line = unsafe { self.words.line_unchecked(self.shape.slot_line(self.head)) };
        // Acquire: pairs with the Release store in `Producer::publish`.
        let word = line.load(0, Ordering::Acquire);
        if word as u32 != (self.head as u32).wrapping_add(1) {
            return Ok(false);
        }
        let (place, len, end) = if (word >> 56) as u8 & IN_DATA != 0 {
            let (first, len, end) = self.data_piece(line)?;
            (Place::Data(&self.words, first), len, end)
        } else {
            let len = (word >> 32) as u16 as usize;
            if len > MAX_INLINE {
                return Err(Damaged);
            }
            (self.slot_place(line, len), len, self.data_head)
        };
        if !handle(RingMessage::read(line, word, len, place)) {
            return Ok(false);
        }
        self.head += 1;
        self.data_head = end;
        if self.head >= self.publish_at || end >= self.data_publish_at {
            self.publish();
        }
        Ok(true)
    }

    /// Where `len` bytes lie that the slot at the head, which starts with `line`, holds itself.
    #[inline]
    fn slot_place<'a>(&'a self, line: W::Line<'a>, len: usize) -> Place<'a, W> {
        if len <= MAX_LINE {
            return Place::Slot(line);
        }
        Place::Wide(&self.words, self.shape.slot_line(self.head))
    }

    /// Checks whether the ring can go on, when nothing has come by it for a while, and shows the
    /// producer the head again, in case somebody else has written there. Rule 6.
    ///
    /// # Errors
    /// When the next message can never come. The caller gives the pair's ring up.
    #[cold]
    pub fn check(&mut self) -> Result<(), Damaged> {
        // Acquire: pairs with `Producer::publish`: with the word of the slot behind, that of the next
        // one is seen too.
        let sequence = |position: u64| {
            self.words.line(self.shape.slot_line(position)).load(0, Ordering::Acquire) as u32
        };
        let expected = (self.head as u32).wrapping_add(1);
        let behind = sequence(self.head + 1) == expected.wrapping_add(1);
        let ahead = sequence(self.head).wrapping_sub(expected);
        if ahead == 0 {
            return Ok(());
        }
        if behind || ahead <= 2 * self.shape.slots {
            return Err(Damaged);
        }
        self.publish();
        Ok(())
    }

    /// Lets the owner know that this side does not read any more: the owner finds the head damaged when
    /// it next polls, and gives up.
    #[cold]
    pub fn refuse(&mut self) {
        // Release: as in `publish`; nothing follows.
        self.words.line(HEAD_LINE).store(CONSUMED, u64::MAX, Ordering::Release);
    }

    /// Asks for a slot some messages ahead. Worth it only where more than that many messages are
    /// likely to lie there: else the line is taken from its writer before it has been written.
    #[inline]
    pub fn prefetch(&self) {
        // SAFETY: as in `receive`.
        let ahead =
            unsafe { self.words.line_unchecked(self.shape.slot_line(self.head + PREFETCH)) };
        ahead.prefetch_read();
    }

    /// The rest of `receive` for a message whose slot holds `word` and names a piece of data.
    /// Apart, so that the code for a short message stays short.
    #[inline(never)]
    fn receive_data<T>(
        &mut self,
        word: u64,
        handle: impl FnOnce(RingMessage<'_, W>) -> T,
    ) -> Result<Option<T>, Damaged> {
        // SAFETY: as in `receive`.
        let line = unsafe { self.words.line_unchecked(self.shape.slot_line(self.head)) };
        let (first, len, end) = self.data_piece(line)?;
        let place = Place::Data(&self.words, first);
        if overwrites_lines(len) {
            // Its writer has most likely written the next slot when this piece has been copied.
            // SAFETY: as in `receive`.
            let next = unsafe { self.words.line_unchecked(self.shape.slot_line(self.head + 1)) };
            next.prefetch_read();
        }
        let result = handle(RingMessage::read(line, word, len, place));
        self.head += 1;
        self.data_head = end;
        if self.head >= self.publish_at || end >= self.data_publish_at {
            self.publish();
        }
        Ok(Some(result))
    }

    /// First line, length and end of the piece that the slot in `line` names, if it can be the
    /// next one (rule 4).
    #[inline]
    fn data_piece(&self, line: W::Line<'_>) -> Result<(usize, usize, u64), Damaged> {
        let (position, len) = (line.read(INLINE_WORD), line.read(INLINE_WORD + 1));
        if len > self.shape.max_data() as u64 {
            return Err(Damaged);
        }
        let len = len as usize;
        // A producer that reserved more than it committed may have gone to the beginning of the
        // area although the piece would have fitted before its end.
        let data = u64::from(self.shape.data);
        let offset = self.data_head & (data - 1);
        let next_lap = self.data_head + (data - offset);
        let taken = self.shape.taken(len);
        let end = position.wrapping_add(taken);
        let here = position == self.data_head && offset + taken <= data;
        let lap = position == next_lap && end - self.data_head <= data;
        if !here && !lap {
            return Err(Damaged);
        }
        Ok((self.shape.data_line(position), len, end))
    }

    /// Shows the producer how far the ring has been consumed. Called by `receive` every quarter of the slots, for instance;
    /// a receiver that goes to sleep or evicts may call it, too.
    #[cold]
    #[inline(never)]
    pub fn publish(&mut self) {
        let head = self.words.line(HEAD_LINE);
        // Release, both: pair with the Acquire loads in `Producer::refresh`; our reads of slots
        // and data come before the producer's next writes there.
        head.store(DATA_CONSUMED, self.data_head, Ordering::Release);
        head.store(CONSUMED, self.head, Ordering::Release);
        self.publish_at = self.head + u64::from(self.shape.slots / 4);
        self.data_publish_at = self.data_head + self.shape.data_published();
    }

    /// The sender that owns the ring.
    #[inline]
    pub fn owner(&self) -> Option<u32> {
        // Acquire: pairs with the claim, and with nothing that is read here; a question.
        let word = self.words.line(OWNER_LINE).load(0, Ordering::Acquire);
        word.checked_sub(1).and_then(|source| u32::try_from(source).ok())
    }

    /// Asks the owner to end its use. It sees that when it next loads the head.
    pub fn evict(&mut self) {
        self.publish();
        // Relaxed: a request that publishes nothing.
        self.words.line(HEAD_LINE).store(EVICT, 1, Ordering::Relaxed);
    }

    /// Makes the ring free for the next sender. Only after the owner's end marker has been
    /// received, or when it is dead or damaged; what it left unread is dropped (rule 5).
    pub fn free(&mut self) {
        self.head += u64::from(self.shape.slots);
        self.publish();
        // Relaxed: ordered by the store below.
        self.words.line(HEAD_LINE).store(EVICT, 0, Ordering::Relaxed);
        // Release: pairs with the claim's compare-and-swap; the next owner sees the head.
        self.words.line(OWNER_LINE).store(0, 0, Ordering::Release);
    }
}

/// Where an arrival's payload lies.
#[derive(Debug)]
enum Place<'a, W: Words + 'a> {
    /// In the first line of its slot.
    Slot(W::Line<'a>),
    /// In both lines of the slot that starts here.
    Wide(&'a W, usize),
    /// In the data area from this line on.
    Data(&'a W, usize),
}

/// A message handed out by [`Consumer::receive`]. Its length is checked; its bytes are whatever
/// the peer wrote, and may still change.
#[derive(Debug)]
pub struct RingMessage<'a, W: Words> {
    /// Which handler it is for.
    pub id: u8,
    /// As the producer set them.
    pub flags: u8,
    /// Bytes of payload.
    pub len: usize,
    /// The fixed header, read once.
    pub header: [u64; 3],
    place: Place<'a, W>,
}

impl<'a, W: Words> RingMessage<'a, W> {
    /// Reads the slot in `line`, whose checked words and length are given.
    #[inline]
    fn read(line: W::Line<'a>, word: u64, len: usize, place: Place<'a, W>) -> Self {
        Self {
            id: (word >> 48) as u8,
            flags: (word >> 56) as u8 & USER_FLAGS,
            len,
            header: [
                line.read(HEADER_WORD),
                line.read(HEADER_WORD + 1),
                line.read(HEADER_WORD + 2),
            ],
            place,
        }
    }

    /// Whether the payload is in the data area.
    #[inline]
    pub const fn in_data(&self) -> bool {
        matches!(self.place, Place::Data(..))
    }

    /// Copies the payload to `out`, as much as both hold; returns the bytes copied.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        let n = self.len.min(out.len());
        match &self.place {
            Place::Slot(line) => line.get(INLINE_WORD, &mut out[..n]),
            Place::Wide(words, first) => {
                let (front, rest) = out[..n].split_at_mut(n.min(MAX_LINE));
                words.line(*first).get(INLINE_WORD, front);
                words.line(first + 1).get(0, rest);
            }
            Place::Data(words, first) => {
                for (i, piece) in out[..n].chunks_mut(LINE).enumerate() {
                    words.line(first + i).get(0, piece);
                }
            }
        }
        n
    }
}

impl<'a> RingMessage<'a, DirectWords> {
    /// The payload where it lies, always in one piece.
    #[inline]
    pub fn payload(&self) -> View<'a> {
        match self.place {
            Place::Slot(line) => line.bytes(INLINE_WORD, self.len),
            // `receive` has checked that the payload ends with the slot.
            Place::Wide(words, first) => {
                let slot = words.bytes(first, LINE - MAX_LINE + self.len);
                let payload = slot.and_then(|slot| slot.slice(LINE - MAX_LINE, self.len));
                payload.unwrap_or(View::empty())
            }
            // `receive` has checked that the piece lies in the data area.
            Place::Data(words, first) => words.bytes(first, self.len).unwrap_or(View::empty()),
        }
    }
}
