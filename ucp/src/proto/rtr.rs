//! The rendezvous that the receiver begins (RTR): a long receive is announced to its sender, with the
//! address of its buffer, so that the message can be written the moment it is sent.
//!
//! ```text
//!   receiver                                            sender
//!   receive posted ── RTR (want, buffer, seen)  ──────► declined, or kept as an offer
//!                                                       a send that fits takes the first offer:
//!   matched  ◄─────────────── TAKEN (length) ─────────   writes the message
//!   complete ◄─────────────── PUT_DONE ───────────────   complete
//!
//!   receive cancelled, or failed for another reason
//!            ── WITHDRAW ─────────────────────────────► the offer, if it is there, goes
//!   ended    ◄─────────────── WITHDRAWN ──────────────
//! ```
//! TAKEN stands in the order of the sender's messages and takes part in matching as an envelope would:
//! it must meet the very receive that it names. That it does, whatever crosses on the way, follows
//! from these rules.
//!
//! 1. *A receive is announced only if each receive in front of it that some message could also match
//!    asks for the same* (source, tag and mask) *and was announced to the same peer.* The announced
//!    receives that ask for the same are a *sub-list*. A receive behind another one waits for
//!    that to leave: behind a receive from any source, which joins no sub-list, as behind any other.
//! 2. *RTR says how many receives of its sub-list are in front of it, and which of the sender's
//!    messages were seen.* The sender counts those of its messages behind that which fit. They will
//!    take as many from the sub-list. If that leaves exactly the offers that it holds, in front of the
//!    new one, it keeps it; else it declines, without a word: the receive stays posted, and what is
//!    sent meets it as any message does.
//! 3. *Every message that fits an offer ends it*, whether it used it or not: it will meet that receive.
//!    So offers and announced receives leave in step, and a receive that an ordinary message has met
//!    needs no answer: its offer is gone, or will be declined when it comes.
//! 4. A receive that was announced ends otherwise only by WITHDRAWN, which comes behind all that the
//!    sender may have written, or as [`crate::proto::put`], rule 2, says.
//!
//! The sender's memory of what it has sent begins with the first RTR of a peer, and has a gap where
//! the short path was taken meanwhile; an RTR that looks into a gap is declined.
//!
//! A receive from any source is not announced: whom to? Published schemes (Gu 2000) ask all ranks to
//! raise a flag and announce to the one that does. Here every long message without an offer raises one
//! anyway, in the order of messages: its envelope (RTS). The receiver answers with PUT, which is what
//! that scheme calls RTR_ANY, and a message that was taken back meanwhile was never offered.
//!
//! All of it is off unless `BOWLINE_RNDV_SCHEME=rtr`: a space then has a mark that sends its receives
//! to `recv_checked` ([`crate::space::Space::checks_receives`]), and a sender with offers closes its short path.

mod announce;
mod message;
mod offers;

use bowline_base::slab::Key;
use bowline_uct::{AmId, Arrival, PeerFailure};

use crate::engine::life::Life;
use crate::engine::{Engine, Inner};
use crate::matching::Envelope;
use crate::peer::{Peer, PeerIndex};
use crate::protocol::Protocol;
use crate::request::{Send, Sender};
use crate::status::OpStatus;
use crate::wire;

pub(crate) use announce::Announcer;
pub(crate) use message::Message;

/// The sender writes the message to a receive that was announced to it before it sent.
pub(crate) static RTR: Protocol = Protocol::rendezvous("rndv/rtr", |_, _| None);

pub(super) struct Announces;

impl Life for Announces {
    fn protocol(&self) -> &'static Protocol {
        &RTR
    }

    fn ids(&self) -> &'static [AmId] {
        &[wire::RTR]
    }

    fn on_message(&self, engine: &mut Engine, peer: PeerIndex, am: &Arrival<'_>) -> Option<()> {
        engine.rtr(peer, &am.header, am.payload)
    }

    fn receive(&self, inner: &mut Inner, key: Key) {
        // Its user wants it back.
        inner.withdraw_announced(key);
    }

    fn poll(&self, inner: &mut Inner) {
        inner.confirm_forgotten();
        inner.announce_later();
    }

    fn meet(
        &self,
        peer: &Peer,
        send: &Send,
        envelope: &Envelope,
        key: Key,
    ) -> Option<(Vec<u8>, Sender)> {
        offers::take(peer, send, envelope, key)
    }

    fn cancel(&self, engine: &mut Engine, key: Key) {
        engine.cancel_announced(key);
    }

    fn finish(&self, engine: &mut Engine, key: Key, status: OpStatus) {
        engine.finish_announced(key, status);
    }

    fn on_peer_failure(&self, engine: &mut Engine, peer: PeerIndex, how: PeerFailure) {
        engine.settle_announced(peer, how);
    }
}
