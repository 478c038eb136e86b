//! One peer of a lane: the sending side towards its queue, and what is known of it as a sender.

use std::collections::VecDeque;

use bowline_base::buffer::RecvBuf;
use bowline_base::scmp::published::{Failed, Ticket};
use bowline_base::words::told::{tell, told};
use bowline_uct::{EpId, PeerFailure, RkeyId, Token};

use super::fifo::Fifo;
use super::layout::Shape;
use super::options::QueueForm;
use super::rings::Tail;
use super::route::Route;
use super::seal::Seals;

/// Where the sending of a link stands. Each state says what is to be posted next, or whose answer
/// is waited for (*-ing).
///
/// ```text
///   Fresh ──first message──► TakeSeat ─► TakingSeat ──seat──► Introduce ─► OrderRecord ─► OrderingRecord
///                                                                                             │
///      ┌──────────────────────────────────────────────────────────────────────────────────────┘
///      ▼    something waits
///   Ready ─────────────────► Reserving ──ticket──► Put ─► Order ─► Ordering ─► Finalise ──► Ready
///                              ▲    │ does not fit
///                              │    └──► GiveBack ─► Look ◄──the same── Looking
///                              └──────────────────────────another generation─┘
///   any ──the link breaks──► Broken
/// ```
///
/// With a ring there is no reservation: Ready goes to Put or to Look (see `rings`). A link that has to
/// leave its ring goes from Ready to Leave and, answered, back (see `route`).
///
/// Where puts are visible before later atomics anyway, the two orders are passed through. A look
/// that is answered in the call goes on at the next progress: it cannot succeed before the
/// consumer has flipped. Where messages are sealed, Put goes to Ready, and what does not fit goes to
/// Look, by way of Void if it is the first (see `sealed`).
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing was ever sent.
    Fresh,
    /// Take a seat with the peer.
    TakeSeat,
    TakingSeat,
    /// Write who we are into the seat's record, behind the first `done` bytes.
    Introduce {
        done: usize,
    },
    OrderRecord,
    OrderingRecord,
    /// Reserve, as soon as there is something to send.
    Ready,
    Reserving {
        slots: u32,
    },
    /// Put the slots behind the first `done`.
    Put {
        ticket: Ticket,
        done: u32,
    },
    Order {
        ticket: Ticket,
    },
    Ordering {
        ticket: Ticket,
    },
    /// Add the slots to S, once the add before is known to have happened.
    Finalise {
        ticket: Ticket,
    },
    /// Add the slots to F.
    GiveBack {
        failed: Failed,
        tag: u32,
    },
    /// Put a slot that says that the rest of the half is nobody's; see `sealed`.
    Void {
        ticket: Ticket,
        words: [u64; 8],
    },
    /// Read R, whose half was full under `tag`.
    Look {
        tag: u32,
    },
    Looking {
        tag: u32,
    },
    /// Add to the ring's tail that we leave it; see `route`.
    Leave,
    Leaving,
    /// The peer or the link has failed.
    Broken,
}

impl Step {
    /// Whether nothing is under way for a message.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self, Self::Fresh | Self::Ready | Self::Broken)
    }
}

/// What the sending side of a link knows of its peer's queue, by the form of that.
#[derive(Debug)]
pub(super) enum Sending {
    Counted,
    /// With the link's ring.
    Ring(Tail),
    Promoting(Route),
    Sealed(Seals),
}

impl Sending {
    fn to(form: QueueForm) -> Self {
        match form {
            QueueForm::Scmp => Self::Counted,
            QueueForm::Ring => Self::Ring(Tail::default()),
            QueueForm::ScmpRings => Self::Promoting(Route::default()),
            QueueForm::ScmpSeq => Self::Sealed(Seals::default()),
        }
    }

    /// The link's ring, if messages go by one.
    pub(super) const fn ring(&self) -> Option<Tail> {
        match self {
            Self::Ring(tail) => Some(*tail),
            Self::Promoting(route) => route.ring,
            Self::Counted | Self::Sealed(_) => None,
        }
    }

    /// The same, to change it.
    pub(super) const fn ring_mut(&mut self) -> Option<&mut Tail> {
        match self {
            Self::Ring(tail) => Some(tail),
            Self::Promoting(route) => route.ring.as_mut(),
            Self::Counted | Self::Sealed(_) => None,
        }
    }
}

/// A peer of a lane. It has the number of its endpoint and, as a sender, of its source.
#[derive(Debug)]
pub(super) struct Link {
    /// Tells users of one place apart in tokens.
    pub(super) generation: u32,
    /// The lane's address of the peer.
    pub(super) address: Vec<u8>,
    /// The endpoint below; `None` where none could be made to a peer that has introduced itself.
    pub(super) inner: Option<EpId>,
    pub(super) rkey: Option<RkeyId>,
    /// The peer's memory.
    pub(super) base: u64,
    pub(super) shape: Shape,

    /// Whether the user has it open.
    pub(super) open: bool,
    /// Why every post is refused.
    pub(super) failed: Option<PeerFailure>,
    /// Whether the user made it fail, and the peer may be well.
    pub(super) invalidated: bool,
    /// Whether it has failed, and ends what it has reserved before the peer is left.
    pub(super) finishing: bool,
    /// Whether it is proven that nothing of the peer is under way any more.
    pub(super) gone: bool,
    /// Whether its failure was told.
    pub(super) told: bool,

    pub(super) step: Step,
    pub(super) fifo: Fifo,
    pub(super) seat: u16,
    pub(super) cookie: u32,
    /// Reservations begun, and how many of them have ended: the status word.
    pub(super) begun: u32,
    pub(super) ended: u32,
    pub(super) sending: Sending,
    /// Whether an add to S or F, or the flush behind sealed messages is unanswered.
    pub(super) settling: bool,
    /// Whether it stands in the list of links that have something to post.
    pub(super) listed: bool,
    /// Whether the queue was full since nothing waited here: then the others get their turn.
    pub(super) polite: bool,
    /// Slots of the last message that was refused.
    pub(super) refused: usize,
    /// Whether the transport below has refused, and whether it will say that it has room again.
    pub(super) below_full: bool,
    pub(super) asked_below: bool,
    /// Flushes that wait for messages: token, and slots that must have left before.
    pub(super) flushes: VecDeque<(Token, u64)>,
    /// Where R and the status word of the peer are read to.
    pub(super) word: Option<RecvBuf>,
    pub(super) status_word: Option<RecvBuf>,

    /// Whether the peer has introduced itself.
    pub(super) introduced: bool,
}

impl Link {
    pub(super) fn new(generation: u32, address: Vec<u8>, base: u64, shape: Shape) -> Self {
        Self {
            generation,
            address,
            inner: None,
            rkey: None,
            base,
            shape,
            open: false,
            failed: None,
            invalidated: false,
            finishing: false,
            gone: false,
            told: false,
            step: Step::Fresh,
            fifo: Fifo::default(),
            seat: 0,
            cookie: 0,
            begun: 0,
            ended: 0,
            sending: Sending::to(shape.form),
            settling: false,
            listed: false,
            polite: false,
            refused: 0,
            below_full: false,
            asked_below: false,
            flushes: VecDeque::new(),
            word: None,
            status_word: None,
            introduced: false,
        }
    }

    /// Whether a reservation is held, or may be.
    pub(super) const fn holds(&self) -> bool {
        matches!(
            self.step,
            Step::Reserving { .. }
                | Step::Put { .. }
                | Step::Order { .. }
                | Step::Ordering { .. }
                | Step::Finalise { .. }
                | Step::GiveBack { .. }
                | Step::Void { .. }
        ) || self.is_unsure()
    }

    /// Whether its messages are sealed, and some are not known to have landed.
    pub(super) const fn is_unsure(&self) -> bool {
        matches!(self.sending, Sending::Sealed(_)) && self.begun != self.ended
    }

    /// Whether all that was accepted for it is in the peer's queue.
    pub(super) fn is_quiet(&self) -> bool {
        let done =
            self.fifo.is_empty() && self.step.is_idle() && !self.settling && !self.is_unsure();
        done || self.failed.is_some() && !self.finishing
    }

    /// Free slots for messages, with fifos of `slots`: one is for a marker, which must find room when
    /// there is an offer.
    pub(super) fn room(&self, slots: usize) -> usize {
        self.fifo.room(slots).saturating_sub(1)
    }

    /// Whether its user may be told that there is room, if it asks, with fifos of `slots`.
    pub(super) fn may_be_told(&self, slots: usize) -> bool {
        self.room(slots) >= self.refused.max(1) && !self.below_full
    }

    /// The status word: reservations begun and ended.
    pub(super) fn status(&self) -> u64 {
        Status { begun: self.begun, open: self.begun.wrapping_sub(self.ended) }.word()
    }
}

/// What a status word tells its reader, who compares by size: see [`bowline_base::words::told`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// Reservations begun, of which the word has the lower [`Self::BITS`].
    pub(super) begun: u32,
    /// Those of them that have not ended; [`Self::MANY`] stands for more, too.
    pub(super) open: u32,
}

impl Status {
    const BITS: u32 = 24;
    const MANY: u32 = 255;

    fn word(self) -> u64 {
        tell(self.begun << (u32::BITS - Self::BITS) | self.open.min(Self::MANY))
    }

    /// `None`: it was written while it was read.
    pub(super) fn read(word: u64) -> Option<Self> {
        let low = told(word)?;
        Some(Self { begun: low >> (u32::BITS - Self::BITS), open: low & Self::MANY })
    }

    /// Whether the reservations that had been begun `earlier` are known to have ended. The counters
    /// wrap: fewer than half of all their numbers lie between the two. Who has many open says later
    /// that there are fewer, since none is begun in a queue that stands still.
    pub(super) fn ended_since(self, earlier: Self) -> bool {
        let more = self.begun.wrapping_sub(self.open).wrapping_sub(earlier.begun);
        self.open < Self::MANY && (more << (u32::BITS - Self::BITS)) as i32 >= 0
    }
}

/// Who sits on a seat of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    /// Its link, or [`Seat::NOBODY`].
    pub(super) link: u32,
    pub(super) cookie: u32,
    /// Number of its status word.
    pub(super) status: u32,
    /// Where messages are sealed: the number of its next one.
    pub(super) next: u32,
    pub(super) trust: Trust,
}

/// Whether sealed messages of a seat are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It has not introduced itself.
    Unread,
    /// Its cookie is known.
    Known,
    /// It has damaged a slot, and may be at it still.
    Lost,
}

impl Seat {
    pub(super) const NOBODY: u32 = u32::MAX;
    pub(super) const EMPTY: Self =
        Self { link: Self::NOBODY, cookie: 0, status: 0, next: 0, trust: Trust::Unread };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A status says the same of the past as the counters do, over their ends.
        #[test]
        fn statuses_tell_what_has_ended(
            begun: u32, open in 0..1000_u32, more in 0..1000_u32, left in 0..300_u32,
        ) {
            let read = |begun, open| Status::read(Status { begun, open }.word()).expect("whole");
            let (first, later) = (read(begun, open), read(begun.wrapping_add(more), left));
            prop_assert_eq!(later.ended_since(first), left < 255 && more >= left);
            prop_assert_eq!(first.ended_since(first), open == 0);
        }
    }
}
