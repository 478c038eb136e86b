//! From the shared queue to a ring and back, without a message out of order.
//!
//! A receiver has a few rings. A sender that has sent it much claims a free one; when the
//! receiver wants the ring for somebody else, it evicts the owner. At any time the next message
//! of a sender takes one route only, and the receiver knows which, because each change of route is
//! itself the last message on the old route.
//!
//! ```text
//!   sender     Queue ──claim──► Claimed ──SWITCH accepted by the queue──► Ring
//!                ▲                                                          │
//!                └───────────────── END accepted by the ring ───────────────┘
//!
//!   receiver   Queue ──SWITCH read──► Ring ──END read, ring freed──► Queue
//! ```
//!
//! 1. A sender claims with one compare-and-swap of the ring's owner word, from 0 to its number
//!    plus 1. Only the receiver writes 0 again.
//! 2. A claim shows nothing to the receiver. The sender goes on by the queue until the queue has
//!    accepted its SWITCH marker, which names the ring; if the marker is refused, it is tried
//!    again before the sender's next message. There is no way back from a claim but through the
//!    ring.
//! 3. After SWITCH the sender uses only the ring. The receiver does not read the ring before it
//!    has read SWITCH, so all that came by the queue is before all that comes by the ring.
//! 4. A sender that sees that it is evicted, or that disconnects, sends END as its last message
//!    by the ring and uses the queue again. If the ring is full, it tries END first when there is
//!    space.
//! 5. A receiver that finds a message of a source in the queue, whatever it is, while that
//!    source's ring is active, first reads the ring up to END. It is there: the sender stored END
//!    before it reserved in the queue (Release, Acquire). A ring that runs out before END is
//!    damage of its source.
//! 6. The receiver frees the ring when it has read END. The sender may claim again at once; its
//!    next SWITCH comes by the queue, so rule 5 holds for it, too.
//! 7. When the owner is dead: with the ring active, the receiver reads what is there and frees
//!    it. Without, the SWITCH may still be in the queue, or was never sent: the receiver reads
//!    (and settles) the queue first and then, if the ring is not active, frees it unread.

use super::producer::Producer;
use super::{Damaged, RingError};
use crate::words::Words;

/// Id of the marker that is the last message by the queue. Ids of active messages are below it.
pub const SWITCH_ID: u8 = 0x80;

/// Id of the marker that is the last message by the ring.
pub const END_ID: u8 = 0x81;

/// In a SWITCH's header, so that a marker is not one by accident.
const SWITCH_WORD: u64 = u64::from_be_bytes(*b"BWSWITCH");

/// The header of a SWITCH to the receiver's ring `number`.
pub const fn switch_header(number: u32) -> [u64; 3] {
    [SWITCH_WORD, number as u64, 0]
}

/// The ring that a SWITCH's header names, if it is one of the `rings` there are.
pub const fn read_switch(header: &[u64; 3], rings: u32) -> Option<u32> {
    if header[0] != SWITCH_WORD || header[1] >= rings as u64 || header[2] != 0 {
        return None;
    }
    Some(header[1] as u32)
}

/// The route of a sender's next message.
#[derive(Debug)]
pub enum Sending<W> {
    /// By the queue.
    Queue,
    /// By the queue; SWITCH to ring `number` is to be sent before anything else.
    Claimed {
        /// The receiver's number of the ring.
        number: u32,
        /// Not used yet.
        producer: Producer<W>,
    },
    /// By the ring.
    Ring(Producer<W>),
}

impl<W: Words> Sending<W> {
    /// Rule 1: claims the receiver's ring `number` in `words` for the sender `source`, if the
    /// route is `Queue`; otherwise nothing happens.
    ///
    /// # Errors
    /// When the ring is taken or damaged; the route stays.
    pub fn claim(&mut self, words: W, number: u32, source: u32) -> Result<(), RingError> {
        if let Self::Queue = self {
            *self = Self::Claimed { number, producer: Producer::claim(words, source)? };
        }
        Ok(())
    }

    /// The header of the SWITCH marker that has to be the next message by the queue.
    pub const fn pending_switch(&self) -> Option<[u64; 3]> {
        match self {
            Self::Claimed { number, .. } => Some(switch_header(*number)),
            Self::Queue | Self::Ring(_) => None,
        }
    }

    /// Rule 2: the queue has accepted the SWITCH.
    pub fn switched(&mut self) {
        *self = match std::mem::replace(self, Self::Queue) {
            Self::Claimed { producer, .. } => Self::Ring(producer),
            other => other,
        };
    }

    /// Rule 4: gives the ring back by sending END, if the route is the ring and it has space. To be
    /// called before a message, when the ring says [`evicted`](Producer::evicted). Whether the
    /// route is the queue now.
    #[cold]
    pub fn end(&mut self) -> bool {
        match std::mem::replace(self, Self::Queue) {
            Self::Queue => true,
            Self::Ring(producer) => match producer.end() {
                Ok(()) => true,
                Err(producer) => {
                    *self = Self::Ring(producer);
                    false
                }
            },
            claimed @ Self::Claimed { .. } => {
                *self = claimed;
                false
            }
        }
    }
}

/// The route of a source's next message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receiving {
    /// By the queue.
    #[default]
    Queue,
    /// By this ring, until its END.
    Ring {
        /// The receiver's number of the ring.
        number: u32,
    },
}

impl Receiving {
    /// Rule 3: a SWITCH of `source` with `header` was read from the queue. `owner_of` says who
    /// owns a ring, and `rings` how many there are. Returns the ring to read from now on.
    ///
    /// # Errors
    /// When the marker names no ring, or one that its source does not own, or one is active: the
    /// caller must have followed rule 5, so the source is damaged.
    pub fn switch(
        &mut self,
        source: u32,
        header: &[u64; 3],
        rings: u32,
        owner_of: impl FnOnce(u32) -> Option<u32>,
    ) -> Result<u32, Damaged> {
        let number = read_switch(header, rings).ok_or(Damaged)?;
        if *self != Self::Queue || owner_of(number) != Some(source) {
            return Err(Damaged);
        }
        *self = Self::Ring { number };
        Ok(number)
    }

    /// Rule 5: the ring that must be read up to END before a message of this source that was
    /// found in the queue.
    #[inline]
    pub const fn drain_first(&self) -> Option<u32> {
        match self {
            Self::Queue => None,
            Self::Ring { number } => Some(*number),
        }
    }

    /// Rule 6: END was read; the ring that the caller frees.
    pub fn ended(&mut self) -> Option<u32> {
        let number = self.drain_first();
        *self = Self::Queue;
        number
    }
}
