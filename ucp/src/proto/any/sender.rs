//! The sender's side: which sends wait, and how they go.

use bowline_base::slab::Key;
use bowline_uct::{PeerFailure, PostError};

use super::FlagMessage;
use super::held::{ENTRIES, Enabled, Flags, Held};
use crate::engine::Inner;
use crate::matching::Envelope;
use crate::pack;
use crate::peer::{PeerIndex, PeerState};
use crate::post::{self, Post};
use crate::proto::peer_offers::{
    Offers, Unreported, Writing, pop_first_written, set_first_written,
};
use crate::proto::put::{Put, putting};
use crate::request::{SendKind, SendPhase, send_of};
use crate::unexpected::INLINE;
use crate::wire::{self, TargetBuffer};

use super::message::LONGEST;

impl Inner {
    /// What receivers have said since the last time.
    pub(super) fn hear_receivers(&mut self) {
        while let Some((index, envelope, message)) = self.engine.any_table().asked.pop_front() {
            if self.engine.peers[index as usize].state != PeerState::Ready {
                // It hears that the connection ends, or has said so itself.
                continue;
            }
            match message {
                FlagMessage::Enable { entry, mask, least } => {
                    let Envelope { space, tag, .. } = envelope;
                    let raised = None;
                    self.note_enabled(index, Enabled { entry, space, tag, mask, least, raised });
                }
                FlagMessage::Disable { entry } => {
                    if let Some(flags) = self.flags_of(index) {
                        flags.disable(entry);
                        self.engine.peers[index as usize].recompute_short_limit();
                        self.let_go(index);
                    }
                }
                FlagMessage::Ask { entry, receive, target } => {
                    self.answer(index, entry, receive, target)
                }
                FlagMessage::Flag { .. }
                | FlagMessage::Nothing { .. }
                | FlagMessage::Written { .. } => {}
            }
        }
    }

    fn flags_of(&mut self, index: PeerIndex) -> Option<&mut Flags> {
        Some(&mut self.engine.peers[index as usize].watches.of_mut::<Offers>()?.flags)
    }

    fn note_enabled(&mut self, index: PeerIndex, enabled: Enabled) {
        let peer = &mut self.engine.peers[index as usize];
        let next = peer.tx_sequence;
        let least = self.engine.options.rtr_min;
        let offers = peer.watches.make(|| Offers::new(next, least));
        let entries = &mut offers.flags.entries;
        let twice = entries.iter().any(|other| other.entry == enabled.entry);
        if twice || entries.len() >= ENTRIES {
            let why = "it asks for more flags than its table has";
            return self.engine.reject(index, PeerFailure::Damaged, why);
        }
        entries.push(enabled);
        peer.recompute_short_limit();
    }

    /// A send is about to be posted: has it wait, if it fits an entry and may (rules 6 and 8).
    pub(super) fn hold_for_flag(&mut self, key: Key) -> Option<Post> {
        let send = send_of(&mut self.engine.requests, key)?;
        let SendKind::Tagged(envelope) = send.kind else { return None };
        let (index, length) = (send.peer, send.buffer.len() as u64);
        let eager = !send.rendezvous && !send.synchronous;
        let may = eager && length > 0 && pack::is_written(&send.buffer);
        let peer = &mut self.engine.peers[index as usize];
        let (closing, offers) = (peer.end.is_some(), peer.watches.of_mut::<Offers>()?);
        if offers.flags.is_idle() {
            return None;
        }
        // A receive that was announced for it comes first.
        let offered = offers.position(&envelope).is_some();
        let entry = offers.flags.entry_for(&envelope, length).map(|enabled| enabled.entry);
        let alone = |entry: &u64| !offers.flags.has_other(*entry, &envelope);
        let Some(entry) = entry.filter(|entry| may && !closing && !offered && alone(entry)) else {
            offers.flags.going = offers.flags.held.len();
            return match self.let_held_go(index) {
                Ok(()) => None,
                Err(error) => Some(self.refused(index, error)),
            };
        };
        offers.flags.held.push_back(Held { key, envelope, entry });
        self.raise(index, entry);
        Some(Post::Awaiting)
    }

    /// Raises the flag of an entry, if a send waits for it and it is not raised for that (rule 5).
    fn raise(&mut self, index: PeerIndex, entry: u64) {
        let (peers, requests) = (&mut self.engine.peers, &self.engine.requests);
        let Some(offers) = peers[index as usize].watches.of_mut::<Offers>() else { return };
        let Flags { entries, held, going } = &mut offers.flags;
        let waits = |held: &&Held| {
            held.entry == entry && requests.get(held.key).is_some_and(|request| !request.done)
        };
        let Some(&Held { envelope, .. }) = held.iter().skip(*going).find(waits) else { return };
        let Some(enabled) = entries.iter_mut().find(|enabled| enabled.entry == entry) else {
            return;
        };
        if enabled.raised.replace(envelope.tag) != Some(envelope.tag) {
            let [first, second, _] = wire::tagged(&envelope, 0);
            self.control_any(index, [first, second], &FlagMessage::Flag { entry });
        }
    }

    /// A receiver lends a receive to the first send of an entry, and has its answer (rule 4).
    fn answer(&mut self, index: PeerIndex, entry: u64, receive: u64, target: TargetBuffer) {
        if !self.write_held(index, entry, receive, target) {
            self.control_any(index, [0, 0], &FlagMessage::Nothing { receive });
        }
        self.let_go(index);
        self.raise(index, entry);
    }

    /// Begins to write the first send of an entry. `false`: there is none, or it goes as ever.
    fn write_held(
        &mut self,
        index: PeerIndex,
        entry: u64,
        receive: u64,
        target: TargetBuffer,
    ) -> bool {
        let Some(flags) = self.flags_of(index) else { return false };
        let enabled = flags.entries.iter_mut().find(|enabled| enabled.entry == entry);
        let Some(enabled) = enabled else { return false };
        enabled.raised = None;
        let (peers, requests) = (&mut self.engine.peers, &mut self.engine.requests);
        let peer = &mut peers[index as usize];
        let Some(offers) = peer.watches.of_mut::<Offers>() else { return false };
        let flags = &mut offers.flags;
        let lives = |key| requests.get(key).is_some_and(|request| !request.done);
        let Some(at) = flags.first_of(entry, lives) else { return false };
        let key = flags.held[at].key;
        let Some(send) = send_of(requests, key) else { return false };
        let length = send.buffer.len() as u64;
        let in_credit = length <= INLINE as u64 || peer.credit >= length as i64;
        if flags.going > at || length > target.wanted || !in_credit {
            flags.going = flags.going.max(at + 1);
            return false;
        }
        // Rule 6: older ones go first.
        flags.going = at;
        if self.let_held_go(index).is_err() {
            return false;
        }
        let Some(flags) = self.flags_of(index) else { return false };
        let Some(&Held { key, envelope, .. }) = flags.held.front() else { return false };
        flags.pop();
        let Some(send) = send_of(&mut self.engine.requests, key) else { return false };
        let target = TargetBuffer { wanted: length, ..target };
        send.lent = false;
        send.phase = SendPhase::Moving(Box::new(Put::new(receive, target)));
        let peer = &mut self.engine.peers[index as usize];
        if length > INLINE as u64 {
            peer.credit -= length as i64;
        }
        let (state, flagged) = (Writing::UnderWay, true);
        if let Some(offers) = peer.watches.of_mut::<Offers>() {
            let written = Unreported { key, receive, envelope, length, state, flagged };
            offers.unreported.push_back(written);
        }
        self.engine.counters.sent_any += 1;
        self.run(key);
        true
    }

    /// Notifies a peer of the first message that is written to it, which was lent a receive for it.
    ///
    /// # Errors
    /// When the lane refuses, or the message is not written yet (rule 6).
    pub(in crate::proto) fn report_lent(
        &mut self,
        index: PeerIndex,
        one: Unreported,
    ) -> Result<(), PostError> {
        let Unreported { key, receive, envelope, length, state, .. } = one;
        if send_of(&mut self.engine.requests, key).is_none() {
            // It has failed, with its peer.
            pop_first_written(&mut self.engine.peers[index as usize]);
            return Ok(());
        }
        match state {
            Writing::UnderWay => return Err(PostError::NoResource),
            Writing::Whole => {
                let mut bytes = [0; LONGEST];
                let n = FlagMessage::Written { receive, length }.pack(&mut bytes);
                let [first, second, _] = wire::tagged(&envelope, 0);
                let peer = &mut self.engine.peers[index as usize];
                let (lane, number) = (&mut *self.lanes[peer.lane as usize].iface, peer.tx_sequence);
                post::parts(lane, peer, wire::ANY, [first, second], &[&bytes[..n]])?;
                peer.note_posted(number, Some(&envelope));
                pop_first_written(peer);
                self.end_written(key);
            }
            Writing::Refused => {
                // Nothing of it is under way any more: the receive goes back, and the message goes as ever.
                self.take_back_written(index, key, length);
                self.control_any(index, [0, 0], &FlagMessage::Nothing { receive });
                set_first_written(&mut self.engine.peers[index as usize], Writing::GivenUp);
                return self.post_given_up(index, key);
            }
            Writing::GivenUp => return self.post_given_up(index, key),
        }
        Ok(())
    }

    /// A message that could not be written is one that waits for the lane.
    fn take_back_written(&mut self, index: PeerIndex, key: Key, length: u64) {
        let Some((.., put)) = putting(&mut self.engine.requests, key) else { return };
        let rkey = put.take_key();
        let peer = &mut self.engine.peers[index as usize];
        if length > INLINE as u64 {
            peer.credit += length as i64;
        }
        if let Some(rkey) = rkey {
            self.lanes[peer.lane as usize].iface.rkey_release(rkey);
        }
        if let Some(send) = send_of(&mut self.engine.requests, key) {
            send.phase = SendPhase::Queued { offset: 0 };
        }
    }

    fn post_given_up(&mut self, index: PeerIndex, key: Key) -> Result<(), PostError> {
        self.post_waiting(key)?;
        pop_first_written(&mut self.engine.peers[index as usize]);
        Ok(())
    }

    /// Posts a send as if there were no flags.
    ///
    /// # Errors
    /// When the lane is full.
    fn post_waiting(&mut self, key: Key) -> Result<(), PostError> {
        match self.post_as(key, false) {
            Post::Complete => self.sent(key),
            Post::Awaiting | Post::Starved => {}
            Post::Blocked => return Err(PostError::NoResource),
            Post::Failed(error) => self.engine.fail(key, error),
        }
        Ok(())
    }

    /// All that waits goes as ever.
    pub(super) fn let_all_go(&mut self, index: PeerIndex) {
        if let Some(flags) = self.flags_of(index) {
            flags.going = flags.held.len();
            self.let_go(index);
        }
    }

    /// The lane has space: what is written to lent receives is reported, and then what is to go as ever goes. Whether the
    /// lane took all.
    pub(super) fn resume_flags(&mut self, index: PeerIndex) -> bool {
        self.report_whole(index)
            && (self.engine.peers[index as usize].state != PeerState::Ready || self.let_go(index))
    }

    /// Posts those that are to go as ever. Whether the lane took all.
    fn let_go(&mut self, index: PeerIndex) -> bool {
        match self.let_held_go(index) {
            Ok(()) => true,
            Err(error) => {
                if let Post::Blocked = self.refused(index, error) {
                    let peer = &self.engine.peers[index as usize];
                    self.lanes[peer.lane as usize].iface.want_writable(peer.ep);
                    self.call_progress_thread();
                }
                false
            }
        }
    }

    fn let_held_go(&mut self, index: PeerIndex) -> Result<(), PostError> {
        while let Some(flags) = self.flags_of(index)
            && flags.going > 0
        {
            let Some(&Held { key, .. }) = flags.held.front() else {
                flags.going = 0;
                break;
            };
            if send_of(&mut self.engine.requests, key).is_some() {
                self.report_all(index)?;
                self.post_waiting(key)?;
            }
            if let Some(flags) = self.flags_of(index) {
                flags.pop();
            }
        }
        self.engine.peers[index as usize].recompute_short_limit();
        Ok(())
    }
}
