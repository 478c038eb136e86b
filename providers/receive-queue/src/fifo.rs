//! Messages that wait at their sender, as slots ready to be put.
//!
//! A ring of slots. A message enters whole or not at all, and leaves when its slots have been put. What depends on
//! the reservation is stamped into the slots right before.
//!
//! The ring doubles while more waits than it holds, up to the number of slots that its users allow, so that a link to
//! each of many peers takes little memory where little waits. It may do so between any two puts of a batch: puts copy
//! their bytes in the call, those who put name slots by their distance from the oldest, and slots keep what was
//! stamped into them.

use std::collections::VecDeque;

use bowline_base::scmp::checksummed::{Checksum, key, under, with_checksum};
use bowline_base::scmp::{Message, counted, slots_for};
use bowline_base::sync::LINE;

/// What a reservation writes into the slots of its messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// The number of the sender, as the source in every slot.
    pub(super) sender: u16,
    /// Cookie and number of the reservation: 48 bits of every START.
    pub(super) mark: u64,
}

/// The mark of a START: whose, and which reservation.
pub(super) const fn mark(cookie: u32, reservation: u16) -> u64 {
    (reservation as u64) << 32 | cookie as u64
}

pub(super) const fn parts(mark: u64) -> (u32, u16) {
    (mark as u32, (mark >> 32) as u16)
}

/// The waiting messages of one link.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    bytes: Vec<u8>,
    /// Slots that there are, a power of two; 0 before the first message.
    capacity: usize,
    /// Counts slots for ever.
    head: u64,
    tail: u64,
    /// Slots of each message, the oldest first.
    messages: VecDeque<u16>,
    /// Count of slots at which a reservation has to end.
    barrier: Option<u64>,
}

impl Fifo {
    /// Slots that the first message makes, if it needs no more.
    const FIRST: usize = 8;

    /// Bytes that a fifo has in which no more than a few short messages have waited.
    pub(super) const FIRST_BYTES: usize = Self::FIRST * (LINE + size_of::<u16>());

    /// Slots that are free, with space for `capacity` in all.
    pub(super) fn space(&self, capacity: usize) -> usize {
        capacity - (self.tail - self.head) as usize
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Slots that have ever entered, and that have ever left.
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.tail, self.head)
    }

    fn place(&self, slot: u64) -> usize {
        (slot as usize & (self.capacity - 1)) * LINE
    }

    /// Makes space for so many more slots.
    fn make_space(&mut self, more: usize) {
        let needed = (self.tail - self.head) as usize + more;
        if needed > self.capacity {
            self.grow(needed);
        }
    }

    /// Moves what waits into a larger ring.
    #[cold]
    fn grow(&mut self, needed: usize) {
        let capacity = needed.next_power_of_two().max(Self::FIRST);
        let mut bytes = vec![0; capacity * LINE];
        for slot in self.head..self.tail {
            let (from, to) = (self.place(slot), (slot as usize & (capacity - 1)) * LINE);
            bytes[to..to + LINE].copy_from_slice(&self.bytes[from..from + LINE]);
        }
        (self.bytes, self.capacity) = (bytes, capacity);
        // No message has less than a slot.
        self.messages.reserve_exact(capacity - self.messages.len());
    }

    /// Takes a message in, for which there is space.
    pub(super) fn push(&mut self, message: &Message<'_>) {
        let slots = slots_for(message.payload.len());
        self.make_space(slots);
        self.write(self.tail, message);
        self.tail += slots as u64;
        self.messages.push_back(slots as u16);
    }

    /// Writes the slots of a message from the one with this count on.
    fn write(&mut self, first: u64, message: &Message<'_>) {
        for index in 0..slots_for(message.payload.len()) {
            let image = counted::image(message, 0, index);
            let at = self.place(first + index as u64);
            for (place, word) in self.bytes[at..at + LINE].chunks_exact_mut(8).zip(image) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
        }
    }

    /// Slots of the oldest messages, as many whole ones as fit into `most`; of the first one
    /// in any case.
    pub(super) fn batch(&self, most: u32) -> u32 {
        let mut sum = 0;
        for slots in &self.messages {
            let with = sum + u32::from(*slots);
            let behind = self.barrier.is_some_and(|end| self.head + u64::from(sum) == end);
            if sum > 0 && (with > most || behind) {
                break;
            }
            sum = with;
        }
        sum
    }

    /// Takes a message of one slot in front of all others, which go into no batch with it. There is
    /// space for it, something has left before, and no batch is under way.
    pub(super) fn push_first(&mut self, message: &Message<'_>) {
        self.make_space(1);
        self.barrier = Some(self.head);
        self.head -= 1;
        self.write(self.head, message);
        self.messages.push_front(1);
    }

    /// Whether [`push_first`](Self::push_first) can be.
    pub(super) const fn has_left(&self) -> bool {
        self.head > 0
    }

    /// Whether there is no barrier any more in front of the next message.
    pub(super) fn is_past_bar(&mut self) -> bool {
        if self.barrier.is_some_and(|end| end <= self.head) {
            self.barrier = None;
        }
        self.barrier.is_none()
    }

    /// Writes `stamp` into the oldest `slots` slots, which are whole messages.
    pub(super) fn stamp(&mut self, slots: u32, stamp: Stamp) {
        let mut at = self.head;
        let end = self.head + u64::from(slots);
        for message in 0..self.messages.len() {
            if at >= end {
                break;
            }
            let count = u64::from(self.messages[message]);
            for slot in at..at + count {
                let place = self.place(slot);
                self.set(place, |word| word & !(0xffff << 48) | u64::from(stamp.sender) << 48);
            }
            let place = self.place(at) + 8;
            self.set(place, |word| word & 0xffff | stamp.mark << 16);
            at += count;
        }
    }

    /// Writes number of the sender and tag into the oldest `slots` slots, which are whole messages, and checksums each by
    /// its number, of which `next` is the first. The number after them.
    pub(super) fn checksum(
        &mut self,
        slots: u32,
        sender: u16,
        tag: u32,
        cookie: u32,
        next: u32,
    ) -> u32 {
        let mut at = self.head;
        let end = self.head + u64::from(slots);
        let mut number = next;
        for message in 0..self.messages.len() {
            if at >= end {
                break;
            }
            let count = u64::from(self.messages[message]);
            let mut sum = Checksum::new(key(cookie, number));
            number = number.wrapping_add(1);
            for slot in at..at + count {
                let place = self.place(slot);
                self.set(place, |word| under(word, tag, sender));
                let words = self.words(place);
                if slot == at { sum.start(words) } else { sum.more(&words) }
            }
            let place = self.place(at) + 8;
            self.set(place, |word| with_checksum(word, sum.checksum()));
            at += count;
        }
        number
    }

    fn words(&self, place: usize) -> [u64; 8] {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(self.bytes[place..].as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        words
    }

    fn set(&mut self, place: usize, change: impl FnOnce(u64) -> u64) {
        let word: &mut [u8; 8] =
            self.bytes[place..].first_chunk_mut().expect("a word lies within its slot");
        *word = change(u64::from_ne_bytes(*word)).to_ne_bytes();
    }

    /// The bytes of at most `most` slots from the one that is `skip` behind the oldest, as far as
    /// they lie in one piece.
    pub(super) fn run(&self, skip: u32, most: u32) -> &[u8] {
        let start = self.place(self.head + u64::from(skip));
        let end = (start + most as usize * LINE).min(self.bytes.len());
        &self.bytes[start..end]
    }

    /// Lets the oldest `slots` slots go, which are whole messages.
    pub(super) fn pop(&mut self, slots: u32) -> u32 {
        let end = self.head + u64::from(slots);
        let mut messages = 0;
        while self.head < end
            && let Some(slots) = self.messages.pop_front()
        {
            self.head += u64::from(slots);
            messages += 1;
        }
        messages
    }

    /// Forgets all that waits.
    pub(super) fn clear(&mut self) {
        self.head = self.tail;
        self.messages.clear();
        self.barrier = None;
    }
}

#[cfg(test)]
mod tests;
