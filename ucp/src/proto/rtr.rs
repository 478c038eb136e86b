//! The rendezvous that the receiver begins (RTR): a long receive is announced to its sender, with the
//! address of its buffer, so that the message can be written the moment it is sent.
//!
//! ```text
//!   receiver                                            sender
//!   receive posted ── RTR (want, buffer, seen)  ──────► declined, or kept as an offer
//!                                                       a send that fits takes the first offer:
//!                                                       writes the message
//!   complete ◄─────────────── WRITTEN (length) ───────  complete
//!
//!   the receiver has to be notified of something else before the message is whole
//!   matched  ◄─────────────── TAKEN (length) ─────────
//!   complete ◄─────────────── PUT_DONE ───────────────  complete
//!
//!   receive cancelled, or failed for another reason
//!            ── WITHDRAW ─────────────────────────────► the offer, if it is there, goes
//!   ended    ◄─────────────── WITHDRAWN ──────────────
//! ```
//! WRITTEN and TAKEN stand in the order of the sender's messages and take part in matching as an
//! envelope would: each must meet the very receive that it names. That it does, whatever crosses it,
//! follows from these rules.
//!
//! 1. *A receive is announced only if each receive in front of it that some message could also match
//!    asks for the same* (source, tag and mask) *and was announced to the same peer.* The announced
//!    receives that ask for the same are a *sub-list*. A receive behind another one waits for
//!    that to leave: behind a receive from any source, which joins no sub-list, as behind any other.
//! 2. *RTR says how many receives of its sub-list are in front of it, and which of the sender's
//!    messages were seen.* The sender counts those of its messages behind that which fit, with those
//!    that are unreported. They will take as many from the sub-list. If that leaves exactly the offers that
//!    it holds, in front of the new one, it keeps it; else it declines, without a word: the receive
//!    stays posted, and what is sent meets it as any message does.
//! 3. *Every message that fits an offer ends it*, whether it used it or not: it will meet that receive.
//!    So offers and announced receives leave in step, and a receive that an ordinary message has met
//!    needs no answer: its offer is gone, or will be declined when it comes.
//! 4. A receive that was announced ends otherwise only by WITHDRAWN, which comes behind all that the
//!    sender may have written, or as [`crate::proto::put`], rule 2, says. Until WITHDRAWN is posted the receive is
//!    posted there, and its offer stays: the next message that fits is for it, is not written, and ends it by rule 3.
//! 5. *A message that takes an offer is unreported until its WRITTEN is posted, which is TAKEN and PUT_DONE in
//!    one.* So two control messages carry it, RTR and WRITTEN. Its TAKEN is needed, and goes before, only
//!    when the peer has to be notified of something that may not overtake the message:
//!    - another send that is for no offer, tagged or not: a tagged message would meet its receive, and of
//!      the others a user may expect that they come in order;
//!    - a later message that is written, and whole before it: its WRITTEN says that it comes next;
//!    - a WITHDRAWN: the receiver would take its buffer back while it is written to;
//!    - the refusal of the write: the receiver has to know for what it asks instead.
//!
//!    Everything else passes it: announcements, acknowledgements, credit, and what other requests of
//!    either side have under way. Several messages may be unreported; they are reported in their order. A send is
//!    complete when it is reported. Where the lane is full, what is to be reported stays and goes first when
//!    there is space (`resume`). To a peer that does not know WRITTEN the two messages go one behind the
//!    other.
//! 6. *How long messages are that are written, and receives that are announced,* is what the costs offer,
//!    or from `BOWLINE_RTR_MIN` on. A message may be shorter than the buffer, of which its part is
//!    written, or longer: what fits is. One that is too short to be written meets its receive by rule 3.
//!
//! 7. *A sender polls before a long message* to a peer that announces, while that brings something and no offer fits
//!    the message: the RTR may lie in its lane already, as it does behind a barrier that the sender did not poll for.
//!
//! The sender's memory of what it has sent begins with the first RTR of a peer, which keeps the short path closed from
//! then on: a message that passes by it is not remembered. When a peer has announced nothing for
//! [`QUIET`](crate::proto::peer_offers::QUIET) messages the path opens again. An RTR whose `seen` is before the first message that is
//! remembered, or in a gap, is declined.
//!
//! A receive from any source is not announced: whom to? Published schemes (Gu 2000) ask all ranks to
//! raise a flag and announce to the one that does. Here every long message without an offer raises one
//! anyway, in the order of messages: its envelope (RTS). The receiver answers with PUT, which is what
//! that scheme calls RTR_ANY, and a message that was taken back meanwhile was never offered. [`crate::proto::any`] has the
//! published protocol, for messages that would go eagerly.
//!
//! All of it is off unless `BOWLINE_RNDV_SCHEME=rtr`: no receive is watched then
//! ([`crate::space::Space::checks_receives`]), and no sender is notified of announcements.

mod announce;
mod arrive;
mod message;
mod offers;

use bowline_base::slab::Key;
use bowline_uct::{Arrival, PeerFailure, PostError, Verdict};

use crate::engine::life::Life;
use crate::engine::{Engine, Inner};
use crate::matching::Want;
use crate::peer::PeerIndex;
use crate::post::Post;
use crate::protocol::Protocol;
use crate::request::SendKind;
use crate::settings::{Options, RndvScheme};
use crate::status::OpStatus;
use crate::wire::{self, MessageId};

pub(crate) use announce::Announcer;
pub(crate) use message::RtrMessage;

/// The sender writes the message to a receive that was announced to it before it sent.
pub(crate) static RTR: Protocol = Protocol::rendezvous("rndv/rtr", |_, _| None);

pub(super) struct Announces;

impl Life for Announces {
    fn protocol(&self) -> &'static Protocol {
        &RTR
    }

    fn ids(&self) -> &'static [MessageId] {
        const { &[MessageId::own(wire::RTR)] }
    }

    fn on_message(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> Option<Verdict> {
        engine.rtr(peer, &am.header, am.payload).map(|()| Verdict::Consumed)
    }

    fn receive(&self, inner: &mut Inner, key: Key) {
        // Its user wants it back.
        inner.withdraw_announced(key);
    }

    fn poll(&self, inner: &mut Inner) {
        inner.confirm_forgotten();
        inner.announce_later();
    }

    fn before_send(&self, inner: &mut Inner, peer: PeerIndex, kind: &SendKind, length: usize) {
        inner.find_offer(peer, kind, length);
    }

    fn before_post(&self, inner: &mut Inner, key: Key) -> Option<Post> {
        inner.meet_offer(key)
    }

    fn before_control(&self, inner: &mut Inner, peer: PeerIndex) -> Result<(), PostError> {
        // Behind what is written to the receives that it is about.
        inner.report_all(peer)
    }

    fn on_writable(&self, inner: &mut Inner, peer: PeerIndex) -> bool {
        inner.report_whole(peer)
    }

    fn cancel(&self, engine: &mut Engine, key: Key) {
        engine.cancel_announced(key);
    }

    fn finish(&self, engine: &mut Engine, key: Key, status: OpStatus) {
        engine.finish_announced(key, status);
    }

    fn watches_receives(&self, options: &Options, _: bool) -> bool {
        options.rndv_scheme == RndvScheme::Rtr
    }

    fn on_receive(&self, inner: &mut Inner, key: Key, space: u32, want: &Want) {
        inner.note_receive(key, space, want);
    }

    fn on_met(&self, engine: &mut Engine, key: Key) -> bool {
        engine.note_met(key);
        true
    }

    fn on_peer_failure(&self, engine: &mut Engine, peer: PeerIndex, how: PeerFailure) {
        engine.settle_announced(peer, how);
    }

    fn on_space_closed(&self, inner: &mut Inner, space: u32) {
        inner.engine.announcer().forget_space(space);
    }
}
