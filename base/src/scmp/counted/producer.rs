//! The producer's side, over a home whose operations complete in the call. See [`super`].

use super::super::slot::{bytes_in, start_word, write_more, write_start};
use super::super::{Intent, Message, Refused, max_message_bytes, max_message_slots, slots_for};
use super::{F_LINE, POISON, R_LINE, S_LINE, WRITTEN, slot_line, ticket};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::words::{LineWords, Words};

/// A successful reservation. It must be put and finalised; dropping it leaves the queue waiting,
/// which is what a producer leaves that dies.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is not finalised stops the queue"]
pub struct Ticket {
    tag: u32,
    offset: u32,
    slots: u32,
}

impl Ticket {
    pub(super) const fn new(tag: u32, offset: u32, slots: u32) -> Self {
        Self { tag, offset, slots }
    }

    /// Half and generation that it was made in.
    pub const fn tag(&self) -> u32 {
        self.tag
    }

    /// The half that it is in, 0 or 1.
    pub const fn half(&self) -> u32 {
        self.tag >> 31
    }

    /// Its first slot.
    pub const fn offset(&self) -> u32 {
        self.offset
    }

    /// Its slots, to be added to S of its half.
    pub const fn slots(&self) -> u32 {
        self.slots
    }
}

/// A reservation that did not fit. It must be counted.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a failed reservation that is not counted stops the queue"]
pub struct Failed {
    tag: u32,
    slots: u32,
}

impl Failed {
    pub(super) const fn new(tag: u32, slots: u32) -> Self {
        Self { tag, slots }
    }

    /// The half that it was made in, 0 or 1.
    pub const fn half(&self) -> u32 {
        self.tag >> 31
    }

    /// Its slots, to be added to F of its half.
    pub const fn slots(&self) -> u32 {
        self.slots
    }
}

/// One producer of one queue. It sends one message at a time, and so do all producers that share
/// one intent word.
#[derive(Debug)]
pub struct Producer<W> {
    words: W,
    slots: u32,
    /// Our number, shifted to its place in a slot's word 0.
    source: u64,
    /// The intent of no slots; its announcement goes up with every message.
    intent: Intent,
}

impl<W: Words> Producer<W> {
    pub(super) fn new(words: W, slots: u32, queue: u16, source: u16) -> Self {
        Self { words, slots, source: u64::from(source) << 48, intent: Intent::new(queue, 0, 0) }
    }

    /// Longest payload that [`push`](Self::push) takes, in bytes.
    pub const fn max_bytes(&self) -> usize {
        max_message_bytes(self.slots)
    }

    /// Half and generation of the queue now: changes with every flip. A sender refused at
    /// another generation may try again.
    pub fn generation(&self) -> u32 {
        // Relaxed: a hint when to try again; the reservation itself acquires.
        (self.words.line(R_LINE).load(0, Ordering::Relaxed) >> 32) as u32
    }

    /// Sends a message. `intent` is the intent word in this rank's control block.
    ///
    /// # Errors
    /// When there is no space, ever or now, or the queue is closed. No message was sent then.
    pub fn push(&mut self, intent: &AtomicU64, message: &Message<'_>) -> Result<(), Refused> {
        if message.payload.len() > self.max_bytes() {
            return Err(Refused::TooLong);
        }
        let slots = slots_for(message.payload.len()) as u32;
        self.announce(intent, slots)?;
        match self.reserve(slots) {
            Ok(ticket) => {
                self.put(&ticket, message);
                self.finalise(ticket);
                Intent::clear(intent);
                Ok(())
            }
            Err(failed) => {
                let generation = failed.tag;
                self.give_back(failed);
                Intent::clear(intent);
                Err(Refused::Full { generation })
            }
        }
    }

    /// Checks whether `slots` slots fit, and announces them.
    ///
    /// # Errors
    /// When they do not fit, ever or now. Nothing has happened then.
    pub fn announce(&mut self, intent: &AtomicU64, slots: u32) -> Result<(), Refused> {
        // Relaxed: it only decides whether to try; the add in `reserve` acquires.
        let seen = self.words.line(R_LINE).load(0, Ordering::Relaxed);
        if seen as u32 >= POISON {
            return Err(Refused::Poisoned);
        }
        if slots > max_message_slots(self.slots) {
            return Err(Refused::TooLong);
        }
        if seen as u32 + slots > self.slots {
            return Err(Refused::Full { generation: (seen >> 32) as u32 });
        }
        self.intent = self.intent.next();
        self.intent.of(slots).announce(intent);
        Ok(())
    }

    /// Reserves the announced `slots`.
    ///
    /// # Errors
    /// When others took the space meanwhile.
    pub fn reserve(&mut self, slots: u32) -> Result<Ticket, Failed> {
        // AcqRel. Release: publishes the announcement to the consumer's swap. Acquire: pairs
        // with that swap, so that our put comes after its reads of the same slots.
        let old = self.words.line(R_LINE).fetch_add(0, u64::from(slots), Ordering::AcqRel);
        ticket(old, slots, self.slots)
    }

    /// Counts a failed reservation.
    pub fn give_back(&mut self, failed: Failed) {
        // Release: pairs with the consumer's Acquire load of F.
        self.words.line(F_LINE + failed.half() as usize).add(
            0,
            u64::from(failed.slots),
            Ordering::Release,
        );
    }

    /// Puts all slots of the message; what does not fit in the ticket's slots is left out.
    pub fn put(&mut self, ticket: &Ticket, message: &Message<'_>) {
        let first = slot_line(ticket.half(), ticket.offset, self.slots);
        let line = self.words.line(first);
        write_start(line, message);
        let payload =
            &message.payload[..message.payload.len().min(bytes_in(ticket.slots as usize))];
        // The ticket's slots end within the half, so the lines exist.
        write_more(&self.words, first, WRITTEN, self.source, payload);
        // Relaxed: S publishes the message.
        line.store(0, start_word(WRITTEN, payload.len(), self.source), Ordering::Relaxed);
        self.words.order();
    }

    /// Finalises a message that was put.
    pub fn finalise(&mut self, ticket: Ticket) {
        // Release: pairs with the consumer's Acquire load of S; publishes the message.
        self.words.line(S_LINE + ticket.half() as usize).add(
            0,
            u64::from(ticket.slots),
            Ordering::Release,
        );
    }

    /// Last step: says that nothing is under way any more.
    pub fn finish(&self, intent: &AtomicU64) {
        Intent::clear(intent);
    }
}
