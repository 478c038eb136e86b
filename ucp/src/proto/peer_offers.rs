//! The receives that a peer has announced, what waits for its receives from any source, and what was sent to it since they
//! began: what [`super::rtr`] and [`super::any`], which have the rules, keep at a peer to which they send.

use std::collections::VecDeque;

use bowline_base::slab::Key;

use super::any::Flags;
use super::rtr;
use crate::matching::Envelope;
use crate::peer::Peer;
use crate::watch::Watching;
use crate::wire::{self, MessageId, TargetBuffer};

/// Most offers of one peer; no correct receiver announces more.
pub(crate) const OFFERS: usize = 256;

/// Tagged messages that are remembered.
const REMEMBERED: usize = 256;

/// Messages without an announcement after which a peer is taken for one that announces no more: they go by the short
/// path again, which remembers none. The next announcement is declined then if one of them crosses it.
pub(crate) const QUIET: u32 = 1 << 12;

/// Which messages meet an announced receive: those of this rank in this space with such a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnnouncedWant {
    pub(crate) space: u32,
    pub(crate) source: u32,
    pub(crate) tag: u64,
    pub(crate) mask: u64,
}

impl AnnouncedWant {
    pub(crate) const fn fits(&self, envelope: &Envelope) -> bool {
        self.space == envelope.space
            && self.source == envelope.source
            && (self.tag ^ envelope.tag) & self.mask == 0
    }
}

/// A receive that waits at the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerOffer {
    pub(crate) receive: u64,
    pub(crate) want: AnnouncedWant,
    pub(crate) target: TargetBuffer,
    /// Its peer wants it back and has not been answered: nothing is written to it any more, but it is posted there yet.
    pub(crate) withdrawn: bool,
}

/// How far a send came that is written to an announced receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    UnderWay,
    /// Every byte is visible.
    Whole,
    Refused,
    /// It was refused, and goes as any message does.
    GivenUp,
}

/// A send that is written to an announced receive, of which the peer has heard nothing yet (rule 5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreported {
    pub(crate) key: Key,
    pub(crate) receive: u64,
    pub(crate) envelope: Envelope,
    pub(crate) length: u64,
    pub(crate) state: Writing,
    /// Its receive was lent since a flag was raised; see [`crate::proto::any`].
    pub(crate) flagged: bool,
}

/// Offers in the order of their receives, and the last messages to the peer.
#[derive(Debug)]
pub(crate) struct Offers {
    pub(crate) open: Vec<PeerOffer>,
    /// In the order of the sends. Their offers are not open any more.
    pub(crate) unreported: VecDeque<Unreported>,
    /// What waits for a receive from any source.
    pub(crate) flags: Flags,
    /// Tagged messages by sequence number: all from `from` to before `to`.
    pub(crate) sent: VecDeque<(u32, Envelope)>,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Messages that were posted since the peer last announced a receive, as far as [`QUIET`].
    pub(crate) quiet: u32,
    /// Shorter messages are written to no receive: `BOWLINE_RTR_MIN`, if that is set.
    least: Option<u64>,
    /// The next message that is posted reports of one whose offer is taken, and ends none.
    pub(crate) reports: bool,
}

impl Offers {
    /// For a peer to which the next message has the number `next`. Number 0 is the HELLO.
    pub(crate) const fn new(next: u32, least: Option<u64>) -> Self {
        let from = if next == 1 { 0 } else { next };
        Self {
            open: Vec::new(),
            unreported: VecDeque::new(),
            flags: Flags::new(),
            sent: VecDeque::new(),
            from,
            to: next,
            quiet: QUIET,
            least,
            reports: false,
        }
    }

    /// Whether the peer has announced a receive of late: what is sent to it is remembered, so that its next
    /// announcement can be kept whatever crosses it.
    pub(crate) const fn is_announcer(&self) -> bool {
        self.quiet < QUIET
    }

    /// Remembers the messages with the numbers `first .. next`, of which the first is tagged, if any is.
    fn posted(&mut self, first: u32, next: u32, envelope: Option<&Envelope>) {
        if first == next {
            return;
        }
        self.quiet = self.quiet.saturating_add(next.wrapping_sub(first)).min(QUIET);
        if first != self.to {
            self.sent.clear();
            self.from = first;
        }
        self.to = next;
        if let Some(envelope) = envelope {
            if self.sent.len() == REMEMBERED
                && let Some((oldest, _)) = self.sent.pop_front()
            {
                self.from = oldest.wrapping_add(1);
            }
            self.sent.push_back((first, *envelope));
        }
    }

    /// How many messages from number `seen` on fit, if that is known; `next` is the number of the
    /// next one. Those of which the peer was not notified are among them.
    pub(crate) fn crossing(&self, want: &AnnouncedWant, seen: u32, next: u32) -> Option<usize> {
        // Numbers go round: what counts is how far they are behind the next.
        let behind = |number: u32| next.wrapping_sub(number);
        let unreported =
            self.unreported.iter().filter(|unreported| want.fits(&unreported.envelope)).count();
        let unreported = unreported + self.flags.waiting(|envelope| want.fits(envelope));
        if seen == next {
            return Some(unreported);
        }
        if self.to != next || behind(seen) > behind(self.from) {
            return None;
        }
        let crossed = |&&(number, _): &&(u32, Envelope)| behind(number) <= behind(seen);
        let sent = self.sent.iter().filter(crossed).filter(|(_, sent)| want.fits(sent)).count();
        Some(sent + unreported)
    }

    /// Notes how the writing of a send ended of which the peer was not notified. Whether it is such a one.
    pub(crate) fn note_written(&mut self, key: Key, refused: bool) -> bool {
        let Some(unreported) = self.unreported.iter_mut().find(|unreported| unreported.key == key)
        else {
            return false;
        };
        unreported.state = if refused { Writing::Refused } else { Writing::Whole };
        true
    }

    /// The offer that a message ends, if it may be written to it.
    pub(crate) fn writable(&self, envelope: &Envelope) -> Option<usize> {
        self.position(envelope).filter(|&at| !self.open[at].withdrawn)
    }

    /// The offer that a message ends, written to it or not.
    pub(super) fn position(&self, envelope: &Envelope) -> Option<usize> {
        self.open.iter().position(|offer| offer.want.fits(envelope))
    }
}

impl Watching for Offers {
    /// The peer has announced receives that nothing was sent to yet, or was not notified of all that is written to them, or
    /// has enabled flags.
    fn checks(&self) -> bool {
        !self.open.is_empty() || !self.unreported.is_empty() || !self.flags.is_idle()
    }

    fn notes(&self) -> bool {
        self.is_announcer()
    }

    /// The peer was notified of all that is in front of the message, and it is for no offer and no flag.
    fn lets_pass(&self, envelope: Option<&Envelope>, length: u64) -> bool {
        let long = self.least.is_some_and(|least| length >= least);
        let written = long && envelope.is_some_and(|envelope| self.writable(envelope).is_some());
        let waits = envelope.is_some_and(|envelope| !self.flags.lets_pass(envelope, length));
        self.unreported.is_empty() && !written && !waits
    }

    /// Ends the offer that the message fits: rule 3 of [`rtr`].
    fn on_posted(&mut self, first: u32, next: u32, envelope: Option<&Envelope>) {
        self.posted(first, next, envelope);
        let reports = std::mem::take(&mut self.reports);
        if let Some(at) = envelope.filter(|_| !reports).and_then(|envelope| self.position(envelope))
        {
            self.open.remove(at);
        }
    }

    /// WITHDRAWN ends an offer: rule 4 of [`rtr`].
    fn on_control(&mut self, id: MessageId, payload: &[u8]) {
        if id.am() == wire::RTR
            && let Some(rtr::RtrMessage::Withdrawn { receive }) = rtr::RtrMessage::parse(payload)
        {
            self.open.retain(|offer| offer.receive != receive);
        }
    }
}

/// A peer was notified of the first message that is written to it.
pub(super) fn pop_first_written(peer: &mut Peer) {
    if let Some(offers) = peer.watches.of_mut::<Offers>() {
        offers.unreported.pop_front();
    }
    peer.recompute_short_limit();
}

/// How far that message came.
pub(super) fn set_first_written(peer: &mut Peer, state: Writing) {
    let offers = peer.watches.of_mut::<Offers>();
    if let Some(first) = offers.and_then(|offers| offers.unreported.front_mut()) {
        first.state = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn envelope(tag: u64) -> Envelope {
        Envelope { space: 1, source: 2, tag }
    }

    #[test]
    fn what_crossed_is_counted_and_gaps_are_noticed() {
        let want = AnnouncedWant { space: 1, source: 2, tag: 5, mask: u64::MAX };
        // Numbers go round.
        let start = u32::MAX - 1;
        let at = |n: u32| start.wrapping_add(n);
        let mut offers = Offers::new(at(0), None);
        offers.posted(at(0), at(1), Some(&envelope(5)));
        offers.posted(at(1), at(3), Some(&envelope(6)));
        offers.posted(at(3), at(4), None);
        offers.posted(at(4), at(5), Some(&envelope(5)));
        for (seen, crossed) in [(0, 2), (1, 1), (4, 1), (5, 0)] {
            assert_eq!(offers.crossing(&want, at(seen), at(5)), Some(crossed), "seen {seen}");
        }
        assert_eq!(offers.crossing(&want, at(0).wrapping_sub(1), at(5)), None, "before the begin");
        assert_eq!(offers.crossing(&want, at(5), at(6)), None, "one that was not noted");
        assert_eq!(offers.crossing(&want, at(6), at(6)), Some(0), "nothing crossed");
        let (key, state) = (Key::from_wire(1), Writing::UnderWay);
        for tag in [5, 6] {
            let envelope = envelope(tag);
            let unreported =
                Unreported { key, receive: 1, envelope, length: 1, state, flagged: false };
            offers.unreported.push_back(unreported);
        }
        assert_eq!(offers.crossing(&want, at(6), at(6)), Some(1), "the peer has heard nothing");
        offers.unreported.clear();
        offers.posted(at(7), at(8), Some(&envelope(5)));
        assert_eq!(offers.crossing(&want, at(6), at(8)), None, "a gap");
        assert_eq!(offers.crossing(&want, at(7), at(8)), Some(1));
    }

    #[test]
    fn only_the_last_messages_are_remembered() {
        let want = AnnouncedWant { space: 1, source: 2, tag: 0, mask: 0 };
        let mut offers = Offers::new(0, None);
        let many = REMEMBERED as u32 + 10;
        for number in 0..many {
            offers.posted(number, number + 1, Some(&envelope(5)));
        }
        assert_eq!(offers.crossing(&want, 0, many), None);
        assert_eq!(offers.crossing(&want, 10, many), Some(REMEMBERED));
    }
}
