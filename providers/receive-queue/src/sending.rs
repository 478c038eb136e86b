//! Where the sending side of a link stands: the states of each form. What is done in them is in `reserve` (the counting
//! queue), `rings`, `route` (promotion) and `checksum`.

use bowline_base::ring::Damaged;
use bowline_base::scmp::counted::{Failed, Ticket, remote_ring};
use bowline_uct::PeerFailure;

use super::options::QueueForm;

/// The sending side of a link, by the form of its peer's queue. Each is a state machine, whose steps
/// have a file: `reserve`, `rings`, `route`, `checksum`.
///
/// Where puts are visible before later atomics anyway, states that order the two are passed through. A reread
/// that is answered in the call goes on at the next progress: it cannot succeed before the consumer has
/// flipped.
#[derive(Debug)]
pub(super) enum Sending {
    Counted(Counted),
    /// With the link's ring.
    Ring(Ring),
    Promoting(Promoting),
    Checksummed(Checksums),
}

impl Default for Sending {
    fn default() -> Self {
        Self::Counted(Counted::default())
    }
}

impl Sending {
    pub(super) fn to(form: QueueForm) -> Self {
        match form {
            QueueForm::Scmp => Self::default(),
            QueueForm::Ring => Self::Ring(Ring::default()),
            QueueForm::ScmpRings => Self::Promoting(Promoting::default()),
            QueueForm::ScmpSeq => Self::Checksummed(Checksums::default()),
        }
    }

    /// What it does now, for those who ask whether something of a reservation is left.
    pub(super) fn stage(&self) -> Stage {
        match self {
            Self::Counted(counted) => counted.stage(),
            Self::Ring(ring) => ring.stage(),
            Self::Promoting(promoting) => promoting.stage(),
            Self::Checksummed(checksums) => checksums.stage(),
        }
    }
}

/// What all forms have in common of where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing is under way for a message.
    Ready,
    /// There was no space, and nothing is reserved.
    Polls,
    /// A reservation is held, or may be.
    Holds,
    /// The route is changed.
    Leaves,
}

/// Where the sending into a queue with counters stands.
///
/// ```text
///    something waits
///   Ready ──► Reserving ──ticket──► Put ─► Order ─► Ordering ─► Finalise ──► Ready
///     ▲           │ does not fit
///     │           └──► GiveBack ─► Poll ◄──the same── Polling
///     └────────────────────────────────another generation──┘
/// ```
#[derive(Debug, Default)]
pub(super) enum Counted {
    /// Reserve, as soon as there is something to send.
    #[default]
    Ready,
    Reserving {
        slots: u32,
    },
    Put(Put),
    Order(Ticket),
    Ordering(Ticket),
    /// Add the slots to S, once the add before is known to have happened.
    Finalise(Ticket),
    /// Add the slots to F.
    GiveBack {
        failed: Failed,
        tag: u32,
    },
    /// Read R, whose half was full under `tag`.
    Poll {
        tag: u32,
    },
    Polling {
        tag: u32,
    },
}

/// Slots of a reservation that are being put, behind the first `done`.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) ticket: Ticket,
    pub(super) done: u32,
}

impl Put {
    pub(super) const fn new(ticket: Ticket) -> Self {
        Self { ticket, done: 0 }
    }
}

impl Counted {
    pub(super) const fn stage(&self) -> Stage {
        match self {
            Self::Ready => Stage::Ready,
            Self::Poll { .. } | Self::Polling { .. } => Stage::Polls,
            _ => Stage::Holds,
        }
    }
}

/// A sender's side of its ring.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The receiver's number of the ring; where all have one, that of the sender.
    pub(super) number: u32,
    /// Slots published.
    pub(super) tail: u64,
    /// Slots consumed, when the head was last read.
    pub(super) head: u64,
    pub(super) state: RingState,
}

/// Where the sending by a ring stands.
///
/// ```text
///    something waits
///   Ready ─────────► Put ─► Order ─► Ordering ─► Publish ──► Ready
///     ▲ │ does not fit
///     │ └──► Poll ◄──the same── Polling
///     └──────────────another head──┘
/// ```
#[derive(Debug, Default)]
pub(super) enum RingState {
    #[default]
    Ready,
    Put(Put),
    Order(Ticket),
    Ordering(Ticket),
    /// Add the slots to the tail, once the add before is known to have happened.
    Publish(Ticket),
    /// Read the head.
    Poll,
    Polling,
}

impl Ring {
    /// The ring with this number, which is empty.
    pub(super) fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) const fn stage(&self) -> Stage {
        match self.state {
            RingState::Ready => Stage::Ready,
            RingState::Poll | RingState::Polling => Stage::Polls,
            _ => Stage::Holds,
        }
    }

    pub(super) fn after(&self, ticket: &Ticket, slots: u32) -> u64 {
        let at = self.tail & u64::from(slots - 1);
        let passed = if u64::from(ticket.offset()) == at { 0 } else { u64::from(slots) - at };
        self.tail + passed + u64::from(ticket.slots())
    }

    /// Takes the word of a head that was read; whether it is another one.
    ///
    /// # Errors
    /// When it cannot be.
    pub(super) fn refresh(&mut self, word: u64) -> Result<bool, PeerFailure> {
        match remote_ring::read_head(word, self.head, self.tail) {
            Ok(remote_ring::Head::At(head)) => Ok(std::mem::replace(&mut self.head, head) != head),
            Ok(remote_ring::Head::Torn) => Ok(false),
            Ok(remote_ring::Head::Closed) => Err(PeerFailure::Unreachable),
            Err(Damaged) => Err(PeerFailure::Damaged),
        }
    }
}

/// Sending to a peer that promotes, with the route of the link's messages.
#[derive(Debug, Default)]
pub(super) struct Promoting {
    pub(super) by: By,
    /// The ring to which it changes.
    pub(super) switching: Option<u32>,
    /// The last offer that it has taken; 0 before the first.
    pub(super) offer: u16,
    /// The last route word that it has followed.
    pub(super) seen: u64,
}

/// What messages go by. Each is the state machine of that form.
#[derive(Debug)]
pub(super) enum By {
    Queue(Counted),
    Ring(Ring),
    /// Add to the ring's tail that we leave it.
    Leave(Ring),
    Leaving,
}

impl Default for By {
    fn default() -> Self {
        Self::Queue(Counted::Ready)
    }
}

impl Promoting {
    pub(super) const fn stage(&self) -> Stage {
        match &self.by {
            By::Queue(counted) => counted.stage(),
            By::Ring(ring) => ring.stage(),
            By::Leave(_) | By::Leaving => Stage::Leaves,
        }
    }
}

/// Sending of checksummed messages.
#[derive(Debug, Default)]
pub(super) struct Checksums {
    pub(super) next: u32,
    /// Reservations before the flush that is under way.
    pub(super) confirming: u32,
    pub(super) state: ChecksumState,
}

/// Where the sending stands. What was put needs no more; whether it has landed is learnt beside.
///
/// ```text
///    something waits
///   Ready ──► Reserving ──ticket──► Put ──► Ready
///     ▲           │ does not fit
///     │           ├──the first──► Void ─┐
///     │           └─────────────────────► Poll ◄──the same── Polling
///     └──────────────────────────────────────another generation──┘
/// ```
#[derive(Debug, Default)]
pub(super) enum ChecksumState {
    /// Reserve, as soon as there is something to send.
    #[default]
    Ready,
    Reserving {
        slots: u32,
    },
    Put(Put),
    /// Put a slot that says that the rest of the half is nobody's; see `checksummed`.
    Void {
        ticket: Ticket,
        words: [u64; 8],
    },
    /// Read R, whose half was full under `tag`.
    Poll {
        tag: u32,
    },
    Polling {
        tag: u32,
    },
}

impl Checksums {
    pub(super) const fn stage(&self) -> Stage {
        match self.state {
            ChecksumState::Ready => Stage::Ready,
            ChecksumState::Poll { .. } | ChecksumState::Polling { .. } => Stage::Polls,
            _ => Stage::Holds,
        }
    }
}
