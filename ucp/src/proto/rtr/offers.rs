//! The sender's side: the offers of a peer, and what was sent to it since they began.

use bowline_base::slab::Key;

use super::{Message, RTR};
use crate::action::Action;
use crate::engine::{Engine, Inner};
use crate::matching::Envelope;
use crate::offers::{OFFERS, Offers, PeerOffer, Want};
use crate::peer::{Peer, PeerIndex};
use crate::proto::put::Put;
use crate::request::{Send, SendPhase, Sender, send_of};

/// TAKEN for a send that is about to go as a rendezvous, and what it then does; none if there is no
/// offer for it.
pub(super) fn take(
    peer: &Peer,
    send: &Send,
    envelope: &Envelope,
    key: Key,
) -> Option<(Vec<u8>, Sender)> {
    let length = send.buffer.len() as u64;
    let (receive, target) = peer.offer_for(envelope, length)?;
    let taken = Message::Taken { receive, request: key.to_wire(), length };
    Some((taken.pack(), Box::new(Put::new(receive, target))))
}

impl Inner {
    /// Begins to write a send whose TAKEN is posted.
    pub(crate) fn begin_taken(&mut self, key: Key, sender: Sender) {
        if let Some(send) = send_of(&mut self.engine.requests, key) {
            send.phase = SendPhase::Moving(sender);
            self.engine.counters.sent_rtr += 1;
            self.run(key);
        }
    }
}

impl Engine {
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
            offers.open.push(PeerOffer { receive, want, target });
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
        self.announcer().forgets(index, receive);
        self.actions.push(Action::Poll(&RTR));
    }
}
