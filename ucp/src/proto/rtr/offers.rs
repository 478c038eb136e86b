//! The sender's side: the offers of a peer, and what was sent to it since they began.

use std::collections::VecDeque;

use bowline_base::slab::Key;

use super::{Message, RTR};
use crate::action::Action;
use crate::engine::Engine;
use crate::matching::Envelope;
use crate::peer::{Peer, PeerIndex};
use crate::proto::Sender;
use crate::proto::put::Put;
use crate::proto::rendezvous::send_of;
use crate::request::{Send, SendPhase};
use crate::wire::TargetBuffer;
use crate::worker::Inner;

/// Most offers of one peer; no correct receiver announces more.
const OFFERS: usize = 256;

/// Tagged messages that are remembered.
const REMEMBERED: usize = 256;

/// Which messages meet an announced receive: those of this rank in this space with such a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Want {
    space: u32,
    source: u32,
    tag: u64,
    mask: u64,
}

impl Want {
    const fn fits(&self, envelope: &Envelope) -> bool {
        self.space == envelope.space
            && self.source == envelope.source
            && (self.tag ^ envelope.tag) & self.mask == 0
    }
}

/// A receive that waits at the peer.
#[derive(Clone, Copy, Debug)]
struct Offer {
    receive: u64,
    want: Want,
    target: TargetBuffer,
}

/// Offers in the order of their receives, and the last messages to the peer.
#[derive(Debug)]
pub(crate) struct Offers {
    open: Vec<Offer>,
    /// Tagged messages by sequence number: all from `from` to before `to`.
    sent: VecDeque<(u32, Envelope)>,
    from: u32,
    to: u32,
}

impl Offers {
    /// For a peer to which the next message has the number `next`. Number 0 is the HELLO.
    const fn new(next: u32) -> Self {
        let from = if next == 1 { 0 } else { next };
        Self { open: Vec::new(), sent: VecDeque::new(), from, to: next }
    }

    /// Messages with the numbers `first .. next` were posted, of which the first is tagged, if any
    /// is.
    fn posted(&mut self, first: u32, next: u32, envelope: Option<&Envelope>) {
        if first == next {
            return;
        }
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
    /// next one.
    fn crossing(&self, want: &Want, seen: u32, next: u32) -> Option<usize> {
        // Numbers go round: what counts is how far they are behind the next.
        let behind = |number: u32| next.wrapping_sub(number);
        if seen == next {
            return Some(0);
        }
        if self.to != next || behind(seen) > behind(self.from) {
            return None;
        }
        let crossed = |&&(number, _): &&(u32, Envelope)| behind(number) <= behind(seen);
        Some(self.sent.iter().filter(crossed).filter(|(_, sent)| want.fits(sent)).count())
    }

    fn position(&self, envelope: &Envelope) -> Option<usize> {
        self.open.iter().position(|offer| offer.want.fits(envelope))
    }
}

impl Peer {
    /// Whether it has announced receives that nothing was sent to yet.
    pub(crate) fn has_offers(&self) -> bool {
        self.offers.as_ref().is_some_and(|offers| !offers.open.is_empty())
    }

    /// Messages from number `first` on were posted, the first of them tagged, if `envelope` is there.
    /// Ends the offer that it fits (rule 3). With the last one the short path opens again.
    pub(crate) fn note_posted(&mut self, first: u32, envelope: Option<&Envelope>) {
        let next = self.tx_sequence;
        let Some(offers) = &mut self.offers else { return };
        if first == next {
            return;
        }
        offers.posted(first, next, envelope);
        if let Some(at) = envelope.and_then(|envelope| offers.position(envelope)) {
            offers.open.remove(at);
            self.recompute_short_limit();
        }
    }

    /// The offer that a message of this envelope and length takes.
    fn offer_for(&self, envelope: &Envelope, length: u64) -> Option<(u64, TargetBuffer)> {
        let offers = self.offers.as_ref()?;
        let offer = &offers.open[offers.position(envelope)?];
        let mut target = offer.target;
        target.wanted = target.wanted.min(length);
        (length > 0).then_some((offer.receive, target))
    }
}

/// TAKEN for a send that is about to go as a rendezvous, and what it then does; none if there is no
/// offer for it.
pub(crate) fn take(
    peer: &Peer,
    send: &Send,
    envelope: &Envelope,
    key: Key,
) -> Option<(Vec<u8>, Put)> {
    let length = send.buffer.len() as u64;
    let (receive, target) = peer.offer_for(envelope, length)?;
    let taken = Message::Taken { receive, request: key.to_wire(), length };
    Some((taken.pack(), Put::new(receive, target)))
}

impl Inner {
    /// Begins to write a send whose TAKEN is posted.
    pub(crate) fn begin_taken(&mut self, key: Key, put: Put) {
        if let Some(send) = send_of(&mut self.engine.requests, key) {
            send.phase = SendPhase::Moving(Sender::Put(put));
            self.engine.counters.sent_rtr += 1;
            self.run(key);
        }
    }
}

impl Engine {
    /// A peer announces a receive.
    pub(super) fn announced(
        &mut self,
        index: PeerIndex,
        envelope: &Envelope,
        message: Message,
    ) -> Option<()> {
        let Message::Rtr { receive, seen, ahead, mask, target } = message else { return None };
        let Envelope { space, source, tag } = *envelope;
        let want = Want { space, source, tag, mask };
        let peer = &mut self.peers[index as usize];
        let next = peer.tx_sequence;
        if next.wrapping_sub(seen) > u32::MAX / 2 {
            // It has seen what was not sent.
            return None;
        }
        let offers = peer.offers.get_or_insert_with(|| Box::new(Offers::new(next)));
        if offers.open.iter().any(|offer| offer.receive == receive) || offers.open.len() >= OFFERS {
            return None;
        }
        let same = offers.open.iter().filter(|offer| offer.want == want).count();
        let kept = offers
            .crossing(&want, seen, next)
            .and_then(|crossed| (ahead as usize).checked_sub(crossed))
            .is_some_and(|left| left == same);
        if kept {
            offers.open.push(Offer { receive, want, target });
            peer.recompute_short_limit();
        } else {
            self.counters.rtr_declined += 1;
        }
        Some(())
    }

    /// A peer wants a receive back that it has announced.
    pub(super) fn withdraw(&mut self, index: PeerIndex, receive: u64) {
        let peer = &mut self.peers[index as usize];
        if let Some(offers) = &mut peer.offers {
            offers.open.retain(|offer| offer.receive != receive);
            peer.recompute_short_limit();
        }
        self.protocols.kept.rtr.forget(index, receive);
        self.actions.push(Action::Poll(&RTR));
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
        let want = Want { space: 1, source: 2, tag: 5, mask: u64::MAX };
        // Numbers go round.
        let start = u32::MAX - 1;
        let at = |n: u32| start.wrapping_add(n);
        let mut offers = Offers::new(at(0));
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
        offers.posted(at(7), at(8), Some(&envelope(5)));
        assert_eq!(offers.crossing(&want, at(6), at(8)), None, "a gap");
        assert_eq!(offers.crossing(&want, at(7), at(8)), Some(1));
    }

    #[test]
    fn only_the_last_messages_are_remembered() {
        let want = Want { space: 1, source: 2, tag: 0, mask: 0 };
        let mut offers = Offers::new(0);
        let many = REMEMBERED as u32 + 10;
        for number in 0..many {
            offers.posted(number, number + 1, Some(&envelope(5)));
        }
        assert_eq!(offers.crossing(&want, 0, many), None);
        assert_eq!(offers.crossing(&want, 10, many), Some(REMEMBERED));
    }
}
