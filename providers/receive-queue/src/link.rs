//! One peer of a lane: the sending side towards its queue, and what is known of it as a sender.

use std::collections::VecDeque;

use bowline_base::buffer::RecvBuf;
use bowline_base::words::checked_word;
use bowline_uct::{EpId, PeerFailure, RemoteSlice, RkeyId, Token};

use super::fifo::Fifo;
use super::layout::Shape;
use super::options::QueueForm;
use super::sending::{Sending, Stage};

/// Where a link stands with its peer. Each state says what is to be posted next, or whose answer is waited for
/// (*-ing).
///
/// ```text
///   Fresh ──first message──► TakeNumber ─► TakingNumber ──number──► Introduce ─► OrderRecord ─► OrderingRecord ─► Introduced
///                                                   │                  ▲
///                       its record is in an extent └─► FindRecord ─► FindingRecord, until it is there
///   any ──the link breaks──► Broken
/// ```
///
/// What a link does that has introduced itself is a state machine of its peer's form: [`Sending`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Nothing was ever sent.
    Fresh,
    /// Take a number from the peer.
    TakeNumber,
    TakingNumber,
    /// Read where the extent with the record is.
    FindRecord,
    FindingRecord,
    /// Write who we are into the record of the number, behind the first `done` bytes.
    Introduce {
        done: usize,
    },
    OrderRecord,
    OrderingRecord,
    /// Messages go.
    Introduced,
    /// The peer or the link has failed.
    Broken,
}

/// A peer of a lane. It has the number of its endpoint and, as a sender, of its source.
#[derive(Debug)]
pub(super) struct Link {
    /// Distinguishes users of one place in tokens.
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
    /// Whether its failure was reported.
    pub(super) reported: bool,

    pub(super) step: Step,
    pub(super) fifo: Fifo,
    pub(super) sender: u16,
    pub(super) cookie: u32,
    /// Reservations begun, and how many of them have ended: the status word.
    pub(super) begun: u32,
    pub(super) ended: u32,
    pub(super) sending: Sending,
    /// Whether an add to S or F, or the flush behind checksummed messages is unanswered.
    pub(super) settling: bool,
    /// Whether it stands in the list of links that have something to post.
    pub(super) listed: bool,
    /// Whether the queue was full since nothing waited here: then the others are served first.
    pub(super) backs_off: bool,
    /// Slots of the last message that was refused.
    pub(super) refused: usize,
    /// Whether the transport below has refused, and whether it will report that it has resources again.
    pub(super) below_full: bool,
    pub(super) asked_below: bool,
    /// Flushes that wait for messages: token, and slots that must have left before.
    pub(super) flushes: VecDeque<(Token, u64)>,
    /// Where R, the status word and the directory of the peer are read to.
    pub(super) word: Option<RecvBuf>,
    pub(super) status_word: Option<RecvBuf>,
    pub(super) entry: Option<RecvBuf>,
    /// Where our record is at the peer, if that is not in its lane's own memory.
    pub(super) record: Option<RemoteSlice>,
    /// Extents of the peer that have words of its links to us.
    pub(super) extents: Vec<PeerExtent>,

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
            reported: false,
            step: Step::Fresh,
            fifo: Fifo::default(),
            sender: 0,
            cookie: 0,
            begun: 0,
            ended: 0,
            sending: Sending::to(shape.form),
            settling: false,
            listed: false,
            backs_off: false,
            refused: 0,
            below_full: false,
            asked_below: false,
            flushes: VecDeque::new(),
            word: None,
            status_word: None,
            entry: None,
            record: None,
            extents: Vec::new(),
            introduced: false,
        }
    }

    /// Where the sending stands, if the peer is met.
    fn stage(&self) -> Option<Stage> {
        matches!(self.step, Step::Introduced).then(|| self.sending.stage())
    }

    /// Whether it can send something now.
    pub(super) fn is_ready(&self) -> bool {
        self.stage() == Some(Stage::Ready)
    }

    /// Whether it is met, and no message is on its way.
    pub(super) fn rests(&self) -> bool {
        matches!(self.stage(), Some(Stage::Ready | Stage::Polls))
    }

    /// Whether a reservation is held, or may be.
    pub(super) fn holds(&self) -> bool {
        self.stage() == Some(Stage::Holds) || self.is_unsure()
    }

    /// Whether its messages are checksummed, and some are not known to have landed.
    pub(super) const fn is_unsure(&self) -> bool {
        matches!(self.shape.form, QueueForm::ScmpSeq) && self.begun != self.ended
    }

    /// Whether all that was accepted for it is in the peer's queue.
    pub(super) fn is_quiet(&self) -> bool {
        let idle = matches!(self.step, Step::Fresh | Step::Broken) || self.is_ready();
        let done = self.fifo.is_empty() && idle && !self.settling && !self.is_unsure();
        done || self.failed.is_some() && !self.finishing
    }

    /// Free slots for messages, with fifos of `slots`: one is for a marker, which must find space when
    /// there is an offer.
    pub(super) fn space(&self, slots: usize) -> usize {
        self.fifo.space(slots).saturating_sub(1)
    }

    /// Whether it is writable, which is reported to a user that asks, with fifos of `slots`.
    pub(super) fn is_writable(&self, slots: usize) -> bool {
        self.space(slots) >= self.refused.max(1) && !self.below_full
    }

    /// The status word: reservations begun and ended.
    pub(super) fn status(&self) -> u64 {
        Status { begun: self.begun, open: self.begun.wrapping_sub(self.ended) }.word()
    }
}

/// An extent of a peer that has a link's words.
#[derive(Debug)]
pub(super) struct PeerExtent {
    /// Which of them.
    pub(super) number: usize,
    pub(super) base: u64,
    pub(super) key: Vec<u8>,
    /// Opened for the link's endpoint, when it was first used.
    pub(super) rkey: Option<RkeyId>,
}

/// What a status word says to its reader, which compares by size: see [`bowline_base::words::checked_word`].
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
        checked_word::encode(self.begun << (u32::BITS - Self::BITS) | self.open.min(Self::MANY))
    }

    /// `None`: it was written while it was read.
    pub(super) fn read(word: u64) -> Option<Self> {
        let low = checked_word::decode(word)?;
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

/// What a receiver knows of a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderEntry {
    /// Its link, or [`SenderEntry::NO_LINK`].
    pub(super) link: u32,
    pub(super) cookie: u32,
    /// Number of its words.
    pub(super) status: u32,
    /// Where messages are checksummed: the number of its next one.
    pub(super) next: u32,
    pub(super) trust: Trust,
}

/// Whether checksummed messages of a sender are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It has not introduced itself.
    Unread,
    /// Its cookie is known.
    Known,
    /// It has damaged a slot, and may be at it still.
    Lost,
}

impl SenderEntry {
    pub(super) const NO_LINK: u32 = u32::MAX;
    pub(super) const EMPTY: Self =
        Self { link: Self::NO_LINK, cookie: 0, status: 0, next: 0, trust: Trust::Unread };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A status says the same of the past as the counters do, over their ends.
        #[test]
        fn statuses_say_what_has_ended(
            begun: u32, open in 0..1000_u32, more in 0..1000_u32, left in 0..300_u32,
        ) {
            let read = |begun, open| Status::read(Status { begun, open }.word()).expect("whole");
            let (first, later) = (read(begun, open), read(begun.wrapping_add(more), left));
            prop_assert_eq!(later.ended_since(first), left < 255 && more >= left);
            prop_assert_eq!(first.ended_since(first), open == 0);
        }
    }
}
