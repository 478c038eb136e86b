//! The sender's side: the offers of a peer, and what was sent to it since they began.

use bowline_base::slab::Key;
use bowline_uct::{Iface, PostError};

use super::message::LONGEST;
use super::{RTR, RtrMessage};
use crate::action::Action;
use crate::address::WRITTEN;
use crate::engine::{Engine, Inner};
use crate::matching::Envelope;
use crate::pack;
use crate::peer::{Peer, PeerIndex};
use crate::post::{self, Post};
use crate::proto::peer_offers::{
    AnnouncedWant, OFFERS, Offers, PeerOffer, Unreported, Writing, pop_first_written,
};
use crate::proto::put::{Put, Step};
use crate::request::{Send, SendKind, SendPhase, send_of};
use crate::wire;

/// Most polls of a send for an announcement: a poll may bring one message alone, of whichever peer.
const POLLS: u32 = 16;

/// Empty polls that end them: the first may have gone to another queue of the lane, or moved on from one to the other.
const EMPTY_POLLS: u32 = 2;

impl Inner {
    /// Whether a message that is about to be sent may be for a receive of which no announcement was seen: its peer
    /// announces, in this space and receives as long, and no offer is there.
    fn may_be_announced(&mut self, index: PeerIndex, kind: &SendKind, length: usize) -> bool {
        let peer = &self.engine.peers[index as usize];
        let Some(offers) = peer.watches.of::<Offers>().filter(|offers| offers.is_announcer())
        else {
            return false;
        };
        let (SendKind::Tagged(envelope), length) = (kind, length as u64) else { return false };
        let chosen = self.lanes[peer.lane as usize].choices.tag_send.pick(length);
        let offered = chosen.is_some_and(|protocol| protocol.rendezvous);
        let long = self.engine.options.rtr_min.map_or(offered, |least| length >= least);
        let space = self.engine.spaces.get_mut(envelope.space);
        long && offers.writable(envelope).is_none() && space.is_some_and(|it| it.checks_receives)
    }

    /// Takes in what lies in the lanes in front of the announcement of a receive for a message (rule 7).
    #[cold]
    pub(super) fn find_offer(&mut self, index: PeerIndex, kind: &SendKind, length: usize) {
        if !self.may_be_announced(index, kind, length) {
            return;
        }
        let SendKind::Tagged(envelope) = kind else { return };
        let mut empty = 0;
        for _ in 0..POLLS {
            let offers = self.engine.peers[index as usize].watches.of::<Offers>();
            let found = offers.is_none_or(|offers| offers.writable(envelope).is_some());
            if found || empty == EMPTY_POLLS {
                return;
            }
            empty = if self.poll_beside() == 0 { empty + 1 } else { 0 };
        }
    }

    /// Begins to write a send, if it is for an offer of its peer. None: it is for none, and its peer has heard
    /// of all that is in front of it (rule 5). Where the lane writes in the call, it is written and reported at once.
    pub(super) fn meet_offer(&mut self, key: Key) -> Option<Post> {
        let least = self.engine.options.rtr_min;
        let send = send_of(&mut self.engine.requests, key)?;
        let index = send.peer;
        let peer = &mut self.engine.peers[index as usize];
        let lane = &mut *self.lanes[peer.lane as usize].iface;
        let offers = peer.watches.of_mut::<Offers>()?;
        let first = offers.unreported.is_empty();
        let Some((offer, unreported)) = take(offers, send, key, least) else {
            return match self.report_all(index) {
                Ok(()) => None,
                Err(error) => Some(self.refused(index, error)),
            };
        };
        self.engine.counters.sent_rtr += 1;
        let mut target = offer.target;
        target.wanted = target.wanted.min(unreported.length);
        let mut put = Put::new(offer.receive, target);
        let step = put.step(lane, peer, &send.buffer, key);
        let ended = step == Step::End && put.is_whole();
        let at_once = first && ended && peer.address.features & WRITTEN != 0;
        if at_once && post_written(lane, peer, &unreported).is_ok() {
            put.take_key().into_iter().for_each(|rkey| lane.rkey_release(rkey));
            peer.recompute_short_limit();
            return Some(Post::Complete);
        }
        // A write that is refused makes it a message that lies here.
        (send.rendezvous, send.lent) = (true, false);
        send.phase = SendPhase::Moving(Box::new(put));
        if let Some(offers) = peer.watches.of_mut::<Offers>() {
            offers.unreported.push_back(unreported);
        }
        self.after_put_step(key, step);
        Some(Post::Awaiting)
    }

    /// Notifies a peer of the first message that is written to it, for a receive that it has announced.
    ///
    /// # Errors
    /// When the lane refuses.
    pub(in crate::proto) fn report_announced(
        &mut self,
        index: PeerIndex,
        one: Unreported,
    ) -> Result<(), PostError> {
        let Unreported { key, receive, length, state, .. } = one;
        let peer = &mut self.engine.peers[index as usize];
        // Of one that has failed the peer is not notified: it has failed itself.
        let lives = send_of(&mut self.engine.requests, key).is_some();
        let at_once = state == Writing::Whole && peer.address.features & WRITTEN != 0;
        if lives {
            let lane = &mut *self.lanes[peer.lane as usize].iface;
            if at_once {
                post_written(lane, peer, &one)?;
            } else {
                let taken = RtrMessage::Taken { receive, request: key.to_wire(), length };
                post_report(lane, peer, &one.envelope, &taken)?;
            }
        }
        pop_first_written(peer);
        if lives && !at_once {
            self.engine.counters.rtr_taken += 1;
        }
        if lives && at_once {
            self.end_written(key);
        } else if lives && state != Writing::UnderWay {
            self.end_put(key);
        }
        Ok(())
    }
}

/// Posts that a message was written whole to an announced receive.
///
/// # Errors
/// When the lane refuses.
fn post_written(lane: &mut dyn Iface, peer: &mut Peer, one: &Unreported) -> Result<(), PostError> {
    let written = RtrMessage::Written { receive: one.receive, length: one.length };
    post_report(lane, peer, &one.envelope, &written)
}

/// Posts a report of a message whose offer is taken.
///
/// # Errors
/// When the lane refuses.
fn post_report(
    lane: &mut dyn Iface,
    peer: &mut Peer,
    envelope: &Envelope,
    report: &RtrMessage,
) -> Result<(), PostError> {
    let ([first, second, _], number) = (wire::tagged(envelope, 0), peer.tx_sequence);
    let mut bytes = [0; LONGEST];
    let n = report.pack(&mut bytes);
    post::parts(lane, peer, wire::RTR, [first, second], &[&bytes[..n]])?;
    if let Some(offers) = peer.watches.of_mut::<Offers>() {
        offers.reports = true;
    }
    peer.note_posted(number, Some(envelope));
    Ok(())
}

/// Takes the offer for a send out of those that are open, if there is one and it may be written to it. What is to be
/// reported of it.
fn take(
    offers: &mut Offers,
    send: &Send,
    key: Key,
    least: Option<u64>,
) -> Option<(PeerOffer, Unreported)> {
    let SendKind::Tagged(envelope) = send.kind else { return None };
    let length = send.buffer.len() as u64;
    let long = send.rendezvous || least.is_some_and(|least| length >= least);
    if !long || length == 0 || !pack::is_written(&send.buffer) {
        return None;
    }
    let at = offers.writable(&envelope)?;
    let offer = offers.open.remove(at);
    let state = Writing::UnderWay;
    let receive = offer.receive;
    Some((offer, Unreported { key, receive, envelope, length, state, flagged: false }))
}

impl Engine {
    pub(super) fn announced(
        &mut self,
        index: PeerIndex,
        envelope: &Envelope,
        message: RtrMessage,
    ) -> Option<()> {
        let RtrMessage::Rtr { receive, seen, ahead, mask, target } = message else { return None };
        let Envelope { space, source, tag } = *envelope;
        let want = AnnouncedWant { space, source, tag, mask };
        let peer = &mut self.peers[index as usize];
        let next = peer.tx_sequence;
        if next.wrapping_sub(seen) > u32::MAX / 2 {
            // It has seen what was not sent.
            return None;
        }
        let least = self.options.rtr_min;
        let offers = peer.watches.make(|| Offers::new(next, least));
        offers.quiet = 0;
        if offers.open.iter().any(|offer| offer.receive == receive) || offers.open.len() >= OFFERS {
            return None;
        }
        let same = offers.open.iter().filter(|offer| offer.want == want).count();
        let kept = offers
            .crossing(&want, seen, next)
            .and_then(|crossed| (ahead as usize).checked_sub(crossed))
            .is_some_and(|left| left == same);
        if kept {
            offers.open.push(PeerOffer { receive, want, target, withdrawn: false });
        } else {
            self.counters.rtr_declined += 1;
        }
        peer.recompute_short_limit();
        Some(())
    }

    /// A peer wants a receive back that it has announced.
    pub(super) fn withdraw(&mut self, index: PeerIndex, receive: u64) {
        let peer = &mut self.peers[index as usize];
        if let Some(offers) = peer.watches.of_mut::<Offers>()
            && let Some(offer) = offers.open.iter_mut().find(|offer| offer.receive == receive)
        {
            offer.withdrawn = true;
        }
        self.announcer().forgets(index, receive);
        self.actions.push(Action::Poll(&RTR));
    }
}
