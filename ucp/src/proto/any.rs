//! Receives from any source that their receiver begins, as P. Gu has published them (University of British Columbia,
//! 2000): `BOWLINE_ANY_SOURCE=flags`. Off by default: an envelope says all that a flag says, and more
//! (decision 13). This is the published protocol to compare with, and a program may choose it.
//!
//! ```text
//!   receiver                                              each sender
//!   receive from any source posted
//!   new entry (RFA)  ── ENA_ANY (entry, space, tag) ────►  new entry (SRFA)
//!                                                          a send that fits waits (Held)
//!   flag raised      ◄───────────────── FLAG (entry) ────  its flag is raised
//!   first receive that fits: Lent
//!                    ── RTR_ANY (entry, buffer) ────────►  the first send of the entry is written
//!   complete         ◄───────── SC (envelope) ───────────  complete
//!                      or
//!   Posted again     ◄───────── UNA_ANY ─────────────────  no send waits any more
//!
//!   entry given up   ── DISABLE_ANY (entry) ────────────►  what waits for it is sent as ever
//!
//!   receive   Posted ──RTR_ANY──► Lent ──SC──► complete
//!                ▲                 │ └──UNA_ANY──► Posted
//!                │                 ├──(another message meets it)──► Met ──any answer──► that message is handed over
//!                │                 └──(cancelled, or it fails)──► Withdrawing, Ended ──any answer──► ended
//!   send      Queued ──(fits an entry)──► Held ──RTR_ANY──► Moving (a put), behind which SC (send complete) is posted
//!                                          └──(let go)──► as any message
//! ```
//! An entry outlives its receive, so that the next receive of the same tag costs FLAG, RTR_ANY and SC. The table is
//! full with [`ENTRIES`](held::ENTRIES) of them; the oldest is given up for a new one.
//!
//! Where this engine is not as the published one is: others send without having been asked, namely sends that fit no
//! entry, those to receivers that know no flags, and what was on its way. So a receive that is lent may be met by
//! another message, which rules 3 and 4 are for. FLAG is a message in place of a remote write, since writes have
//! no order with messages and not every transport has them. Tags may be masked.
//!
//! Rules.
//!
//! 1. *A lent receive stays where it is posted.* That it is lent says nothing of which message it will meet: matching
//!    is by messages in their order, as ever, and SC is the message, with its data in the receive's buffer.
//!    If the receive that the message meets is that very one, it is complete. If not, the data is copied out, and the
//!    message goes on as one that came eagerly.
//! 2. *Only the first posted receive that a flag's message fits is lent,* and to one sender at a time: receives behind
//!    it wait for its answer. So messages are copied only where rules 3 and 4 say.
//! 3. *A lent receive that another message meets has met it* (`Met`). The message is kept for it until the answer: its
//!    buffer is being written.
//! 4. *Each RTR_ANY has one answer,* SC or UNA_ANY, unless the sender fails; and it comes without anybody's help, since a
//!    sender answers at once or when its transport has written. So a lent receive that is cancelled, or whose space is
//!    closed, waits for the answer and is not asked back.
//! 5. *A flag is raised for one envelope*, so that its receiver knows which receives fit: a send of another tag, where the
//!    entry's is masked, does not wait beside it. *A flag may be stale*: the send was cancelled, or sent otherwise. Its
//!    RTR_ANY finds nothing, and is answered by UNA_ANY. A sender lowers its flag when RTR_ANY comes, and raises it
//!    again if further sends of the entry wait.
//! 6. *Sends to a peer keep their order.* In front of a tagged message that does not wait, all that wait go as ever; in front of
//!    one that is written, those that are older. A tagged message posted behind one that is being written waits until that is
//!    written: there is no envelope that could go before. Active messages and streams pass those that wait.
//! 7. *What the receiver cannot lend for a flag is sent as ever*: it gives the entry up at that sender (DISABLE_ANY),
//!    until the next receive from any source enables it again. That is so where the first receive that fits does not lie
//!    in one piece or is announced, and where a probe asks for messages that only a flag stands for. A sender
//!    lets go by itself what is longer than the buffer, or has no credit; and all, when its endpoint is closed.
//! 8. *Only messages that would go eagerly wait.* A synchronous one wants to know its match, an empty one has nothing to be
//!    written, and a long one has raised a flag that stands in the order of messages: its envelope. What is written uses eager
//!    credit, since it may have to be kept.
//!
//! A collective space has no flags, nor has one without members: whom to ask?

mod held;
mod lent;
mod message;
mod receiver;
mod sender;
mod table;
#[cfg(test)]
mod tests;

use bowline_base::slab::Key;
use bowline_uct::{Arrival, PeerFailure, Verdict};

use crate::action::Action;
use crate::engine::life::Life;
use crate::engine::{Engine, Inner};
use crate::matching::{MatchSpec, Want};
use crate::peer::PeerIndex;
use crate::post::Post;
use crate::protocol::Protocol;
use crate::settings::{AnySource, Options};
use crate::status::OpStatus;
use crate::wire::{self, MessageId};

pub(super) use held::Flags;
pub(crate) use message::FlagMessage;
pub(crate) use table::FlagTable;

/// A receiver lends a receive to a sender that has raised its flag.
pub(crate) static ANY: Protocol = Protocol::rendezvous("rndv/any", |_, _| None);

pub(super) struct Flagged;

impl Life for Flagged {
    fn protocol(&self) -> &'static Protocol {
        &ANY
    }

    fn ids(&self) -> &'static [MessageId] {
        const { &[MessageId::own(wire::ANY)] }
    }

    fn on_message(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> Option<Verdict> {
        let mut bytes = [0; message::LONGEST];
        if am.payload.len() > bytes.len() {
            return None;
        }
        let n = am.payload.copy_out(&mut bytes);
        let message = FlagMessage::parse(&bytes[..n])?;
        let envelope = wire::envelope(&am.header);
        match message {
            FlagMessage::Flag { entry } => engine.flag_raised(peer, entry, &envelope),
            FlagMessage::Nothing { receive } => {
                engine.lent_unused(peer, Key::from_wire(receive))?;
            }
            FlagMessage::Written { receive, length } => {
                engine.lent_written(peer, &envelope, Key::from_wire(receive), length)?;
            }
            // For the sender, which posts what follows.
            FlagMessage::Enable { .. } | FlagMessage::Disable { .. } | FlagMessage::Ask { .. } => {
                engine.any_table().asked.push_back((peer, envelope, message));
                engine.actions.push(Action::Poll(&ANY));
            }
        }
        Some(Verdict::Consumed)
    }

    fn poll(&self, inner: &mut Inner) {
        inner.hear_receivers();
        inner.serve_flags();
    }

    fn before_post(&self, inner: &mut Inner, key: Key) -> Option<Post> {
        inner.hold_for_flag(key)
    }

    fn on_writable(&self, inner: &mut Inner, peer: PeerIndex) -> bool {
        inner.resume_flags(peer)
    }

    fn cancel(&self, engine: &mut Engine, key: Key) {
        engine.cancel_lent(key);
    }

    fn finish(&self, engine: &mut Engine, key: Key, status: OpStatus) {
        engine.finish_lent(key, status);
    }

    fn watches_receives(&self, options: &Options, collective: bool) -> bool {
        options.any_source == AnySource::Flags && !collective
    }

    fn on_receive(&self, inner: &mut Inner, key: Key, space: u32, want: &Want) {
        inner.note_posted_any(space, *want, key);
    }

    fn on_met(&self, engine: &mut Engine, key: Key) -> bool {
        !engine.is_lent(key)
    }

    fn on_kept(&self, engine: &mut Engine, receive: Key, message: Key) {
        engine.note_kept(receive, message);
    }

    fn on_probe(&self, inner: &mut Inner, spec: &MatchSpec) {
        inner.probe_flags(spec);
    }

    fn on_peer_failure(&self, engine: &mut Engine, peer: PeerIndex, how: PeerFailure) {
        engine.end_loans_to(peer, how);
    }

    fn on_space_closed(&self, inner: &mut Inner, space: u32) {
        inner.close_flags_of(space);
    }

    fn on_close(&self, inner: &mut Inner, peer: PeerIndex) {
        inner.let_all_go(peer);
    }
}
