//! The producer's side: reserve, put, finalise. See the rules in [`super`].

use super::super::slot::{bytes_in, start_word, write_more, write_start};
use super::super::{
    FIRST_BYTES, Intent, Message, Refused, max_message_bytes, max_message_slots, slots_for,
};
use super::{F_LINE, POISON, R_LINE, slot_line};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::words::{LineWords, Words};

/// Slots ahead of its ticket whose line a producer asks for. Measured with two processes on a
/// 2-core machine: 13-21 million messages per second without, 28-41 with 8.
const AHEAD: u32 = 8;

/// A successful reservation. It must be put and published; dropping it leaves a hole, which is
/// what a producer leaves that dies.
#[derive(Debug)]
#[must_use = "a reservation that is not published leaves a hole that stops the queue"]
pub struct Ticket {
    tag: u32,
    offset: u32,
    slots: u32,
}

/// A reservation that came too late. It must be given back.
#[derive(Debug)]
#[must_use = "a failed reservation that is not given back stops the queue"]
pub struct Failed {
    tag: u32,
    slots: u32,
}

/// One producer of one queue.
///
/// A producer sends one message at a time, and so do all producers that share one intent word:
/// the word belongs to one rank, whose calls into its queues do not overlap.
#[derive(Debug)]
pub struct Producer<W> {
    words: W,
    slots: u32,
    /// Our number, shifted to its place in a slot's word 0.
    source: u64,
    /// The intent of no slots; its announcement goes up with every message.
    intent: Intent,
    max_slots: u32,
    max_bytes: usize,
}

impl<W: Words> Producer<W> {
    pub(super) fn new(words: W, slots: u32, queue: u16, source: u16) -> Self {
        Self {
            words,
            slots,
            source: u64::from(source) << 48,
            intent: Intent::new(queue, 0, 0),
            max_slots: max_message_slots(slots),
            max_bytes: max_message_bytes(slots),
        }
    }

    /// Longest payload that [`push`](Self::push) takes, in bytes.
    #[inline]
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Half and generation of the queue now: changes with every flip. A sender refused at
    /// another generation may try again.
    #[inline]
    pub fn generation(&self) -> u32 {
        // Relaxed: a hint when to try again; the reservation itself acquires.
        (self.words.line(R_LINE).load(0, Ordering::Relaxed) >> 32) as u32
    }

    /// Whether the queue is closed: there is never space again.
    pub fn is_closed(&self) -> bool {
        // Relaxed: a hint to try, whose answer is the refusal.
        self.words.line(R_LINE).load(0, Ordering::Relaxed) as u32 >= POISON
    }

    /// Sends a message. `intent` is the intent word in this rank's control block.
    ///
    /// After [`Refused::Full`] the caller rings the consumer's doorbell before it waits: the
    /// consumer may sleep before a half that only needed the failed reservation to be counted.
    ///
    /// # Errors
    /// When there is no space, ever or now, or the queue is closed. Nothing has happened then.
    #[inline]
    pub fn push(&mut self, intent: &AtomicU64, message: &Message<'_>) -> Result<(), Refused> {
        if message.payload.len() > FIRST_BYTES {
            let Message { id, flags, header, payload } = *message;
            return self.push_long(intent, id, flags, header, payload);
        }
        self.push_slots(intent, message, 1)
    }

    /// As `push`, apart and with the message in registers, so that the code for a short message
    /// stays short.
    #[inline(never)]
    fn push_long(
        &mut self,
        intent: &AtomicU64,
        id: u8,
        flags: u8,
        header: &[u64; 3],
        payload: &[u8],
    ) -> Result<(), Refused> {
        if payload.len() > self.max_bytes {
            return Err(Refused::TooLong);
        }
        let message = Message { id, flags, header, payload };
        self.push_slots(intent, &message, slots_for(payload.len()) as u32)
    }

    #[inline(always)]
    fn push_slots(
        &mut self,
        intent: &AtomicU64,
        message: &Message<'_>,
        slots: u32,
    ) -> Result<(), Refused> {
        self.announce(intent, slots)?;
        match self.reserve(slots) {
            Ok(ticket) => {
                self.put(&ticket, message);
                self.publish(ticket, message.payload.len());
                Intent::clear(intent);
                Ok(())
            }
            Err(failed) => Err(self.refused(intent, failed)),
        }
    }

    #[cold]
    fn refused(&self, intent: &AtomicU64, failed: Failed) -> Refused {
        let generation = failed.tag;
        self.give_back(failed);
        Intent::clear(intent);
        // Relaxed: only to name the reason.
        let now = self.words.line(R_LINE).load(0, Ordering::Relaxed);
        if now as u32 >= POISON { Refused::Poisoned } else { Refused::Full { generation } }
    }

    /// Step 1 and 2: checks whether `slots` slots fit, and announces them.
    ///
    /// # Errors
    /// When they do not fit, ever or now. Nothing has happened then.
    #[inline]
    pub fn announce(&mut self, intent: &AtomicU64, slots: u32) -> Result<(), Refused> {
        // SAFETY: `check_slots` saw that the memory has all lines of the header.
        let r = unsafe { self.words.line_unchecked(R_LINE) };
        // The add will want the line for writing: one transfer instead of two.
        r.prefetch_write();
        // Relaxed: it only decides whether to try; the add in `reserve` acquires.
        let seen = r.load(0, Ordering::Relaxed);
        let end = u64::from(seen as u32) + u64::from(slots);
        if end > u64::from(self.slots) || slots > self.max_slots {
            return Err(self.no_space(seen, slots));
        }
        self.intent = self.intent.next();
        self.intent.of(slots).announce(intent);
        Ok(())
    }

    #[cold]
    fn no_space(&self, seen: u64, slots: u32) -> Refused {
        if seen as u32 >= POISON {
            Refused::Poisoned
        } else if slots > self.max_slots {
            Refused::TooLong
        } else {
            Refused::Full { generation: (seen >> 32) as u32 }
        }
    }

    /// Step 3: takes the ticket for the announced `slots`.
    ///
    /// # Errors
    /// When others took the space meanwhile; the failed reservation must be given back.
    #[inline]
    pub fn reserve(&mut self, slots: u32) -> Result<Ticket, Failed> {
        // SAFETY: `check_slots` saw that the memory has all lines of the header.
        let r = unsafe { self.words.line_unchecked(R_LINE) };
        // AcqRel. Release: publishes the announcement to the consumer's swap in `flip`. Acquire:
        // pairs with that swap, so that our writes come after its reads of the same slots.
        let old = r.fetch_add(0, u64::from(slots), Ordering::AcqRel);
        let (tag, offset) = ((old >> 32) as u32, old as u32);
        if u64::from(offset) + u64::from(slots) > u64::from(self.slots) {
            return Err(Failed { tag, slots });
        }
        // SAFETY: `slot_line` masks the offset, and `check_slots` saw that the memory has all
        // slots of both halves.
        unsafe { self.words.line_unchecked(slot_line(tag, offset + AHEAD, self.slots)) }
            .prefetch_write();
        Ok(Ticket { tag, offset, slots })
    }

    /// Step 4: counts a failed reservation.
    pub fn give_back(&self, failed: Failed) {
        // Release: pairs with the consumer's Acquire load of F; the half is not reset while a
        // reservation is uncounted, and not exposed again before it is reset.
        self.words.line(F_LINE + (failed.tag >> 31) as usize).add(
            0,
            u64::from(failed.slots),
            Ordering::Release,
        );
    }

    /// Step 5, first half: writes everything of the message but the START's word 0. What does
    /// not fit in the ticket's slots is left out.
    #[inline(always)]
    pub fn put(&mut self, ticket: &Ticket, message: &Message<'_>) {
        let first = slot_line(ticket.tag, ticket.offset, self.slots);
        // SAFETY: as in `reserve`.
        write_start(unsafe { self.words.line_unchecked(first) }, message);
        if ticket.slots > 1 {
            // The ticket's slots end within the half, so the lines exist.
            let space = bytes_in(ticket.slots as usize);
            let payload = &message.payload[..message.payload.len().min(space)];
            write_more(&self.words, first, ticket.tag, self.source, payload);
        }
        self.words.order();
    }

    /// Step 5, second half: makes a message with `len` bytes of payload visible. `len` must be
    /// what was put; the consumer takes a length that needs other slots than the ticket's for
    /// damage.
    #[inline]
    pub fn publish(&mut self, ticket: Ticket, len: usize) {
        let first = slot_line(ticket.tag, ticket.offset, self.slots);
        // SAFETY: as in `reserve`.
        let line = unsafe { self.words.line_unchecked(first) };
        // Release: pairs with the consumer's Acquire load of word 0; publishes the whole message.
        line.store(0, start_word(ticket.tag, len, self.source), Ordering::Release);
    }

    /// The mistake of a producer that finalises before its put; the model must see it.
    #[cfg(all(test, bowline_loom))]
    pub(in super::super) fn publish_and_then_put(&mut self, ticket: Ticket, message: &Message<'_>) {
        let again = Ticket { ..ticket };
        self.publish(ticket, message.payload.len());
        self.put(&again, message);
    }

    /// Last step: says that nothing is under way any more.
    #[inline]
    pub fn finish(&self, intent: &AtomicU64) {
        Intent::clear(intent);
    }
}
