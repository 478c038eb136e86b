//! The receiver's side: its table, and which receives are lent.

use bowline_base::buffer::{MemoryLayout, RecvBuf};
use bowline_base::slab::Key;
use bowline_uct::Caps;

use super::message::LONGEST;
use super::table::{Entry, Raised};
use super::{ANY, FlagMessage, FlagTable};
use crate::action::Action;
use crate::address::FLAGS;
use crate::engine::{Engine, Inner};
use crate::matching::{Envelope, MatchSpec, Want};
use crate::peer::{PeerIndex, PeerState, can_land};
use crate::proto::announced::{Announced, AnnouncedStage, announced, is_posted};
use crate::request::{Body, Receive, Request};
use crate::settings::AnySource;
use crate::wire;

/// What the first posted receive that fits a flag allows.
enum First {
    None,
    /// Its answer is awaited.
    Lent,
    Free(Key),
    /// It is announced to its sender.
    Announced,
}

pub(super) fn is_lent(request: &Request) -> bool {
    announced(request).is_some_and(|announced| announced.protocol == &ANY)
}

impl Inner {
    /// A receive was posted in a space that checks its receives.
    pub(super) fn note_posted_any(&mut self, space: u32, want: Want, key: Key) {
        if self.engine.options.any_source != AnySource::Flags {
            return;
        }
        let Some(of) = self.engine.spaces.get_mut(space) else { return };
        if of.options.collective || of.options.members.is_none() {
            return;
        }
        self.engine.any_table().posted.entry(space).or_default().push((want, key));
        if want.source_mask == 0 && self.engine.can_lend(key) {
            self.enable(space, &want);
        }
        self.serve_flags();
    }

    /// Enables the entry for a receive at all who are connected and are not asked yet. The messages of others come as ever.
    fn enable(&mut self, space: u32, want: &Want) {
        let (entry, evicted) = self.engine.any_table().entry(space, want.tag, want.tag_mask);
        let id = entry.id;
        if let Some(evicted) = evicted {
            self.disable_everywhere(&evicted);
        }
        let least = self.engine.options.rtr_min.unwrap_or(1);
        let message = FlagMessage::Enable { entry: id, mask: want.tag_mask, least };
        let words = wire::tagged(&Envelope { space, source: 0, tag: want.tag }, 0);
        for index in 0..self.engine.peers.len() as PeerIndex {
            let asked = |entry: &mut Entry| entry.enabled.contains(&index);
            if self.engine.any_entry(id).is_none_or(asked) || !self.has_flags(space, index) {
                continue;
            }
            if let Some(entry) = self.engine.any_entry(id) {
                entry.enabled.push(index);
                self.control_any(index, [words[0], words[1]], &message);
            }
        }
    }

    /// Whether a peer may raise flags for receives of a space, and write to them.
    fn has_flags(&mut self, space: u32, index: PeerIndex) -> bool {
        let job = self.engine.job;
        let peer = &self.engine.peers[index as usize];
        let ready = peer.state == PeerState::Ready && peer.end.is_none();
        let known = peer.address.job == job && peer.address.features & FLAGS != 0;
        if !ready || !known {
            return false;
        }
        let (rank, caps) = (peer.address.rank, self.lanes[peer.lane as usize].iface.attr().caps);
        let able = can_land(caps, peer) && !caps.contains(Caps::LOOPBACK);
        let space = self.engine.spaces.get_mut(space);
        let members = space.and_then(|space| space.options.members.as_ref());
        able && members.is_some_and(|members| members.rank_of(rank).is_some())
    }

    pub(super) fn control_any(&mut self, index: PeerIndex, words: [u64; 2], message: &FlagMessage) {
        let mut bytes = [0; LONGEST];
        let n = message.pack(&mut bytes);
        self.control(index, wire::ANY, words, &bytes[..n]);
    }

    fn disable_everywhere(&mut self, entry: &Entry) {
        for &peer in &entry.enabled {
            self.control_any(peer, [0, 0], &FlagMessage::Disable { entry: entry.id });
        }
    }

    /// Gives an entry up at one peer (rule 7).
    fn disable_at(&mut self, id: u64, peer: PeerIndex) {
        if let Some(entry) = self.engine.any_entry(id) {
            entry.drop_peer(peer);
            self.control_any(peer, [0, 0], &FlagMessage::Disable { entry: id });
        }
    }

    /// A space was closed.
    pub(super) fn close_flags_of(&mut self, space: u32) {
        for entry in self.engine.any_table().remove_space(space) {
            self.disable_everywhere(&entry);
        }
    }

    /// A probe has found no message. Those that only flags stand for come as ever from now on.
    pub(super) fn probe_flags(&mut self, spec: &MatchSpec) {
        let want = spec.want();
        while let Some((id, raised)) = self.engine.any_table().first_raised(spec.space, &want) {
            self.disable_at(id, raised.peer);
        }
    }

    /// Asks senders whose flags are raised for their messages, as far as there are receives (rule 2).
    pub(super) fn serve_flags(&mut self) {
        let mut at = 0;
        while let Some((id, space, raised)) = self.engine.any_table().nth_raised(at) {
            let served = match self.engine.first_for(space, &raised) {
                First::None | First::Lent => false,
                First::Free(key) => {
                    if !self.lend(key, id, raised.peer) {
                        self.disable_at(id, raised.peer);
                    }
                    true
                }
                First::Announced => {
                    self.disable_at(id, raised.peer);
                    true
                }
            };
            at += usize::from(!served);
        }
    }

    /// Lends a receive to the sender that has raised its flag. `false`: it cannot be.
    fn lend(&mut self, key: Key, entry: u64, index: PeerIndex) -> bool {
        let peer = &self.engine.peers[index as usize];
        let caps = self.lanes[peer.lane as usize].iface.attr().caps;
        if !can_land(caps, peer) || !self.engine.can_lend(key) {
            return false;
        }
        let Some(receive) = self.engine.posted_receive(key) else { return false };
        let mut buffer = std::mem::replace(&mut receive.buffer, RecvBuf::empty());
        let capacity = buffer.len() as u64;
        let opened = self.open_buffer(index, &mut buffer, capacity);
        let Some(receive) = self.engine.posted_receive(key) else { return false };
        receive.buffer = buffer;
        let Some((open_buffer, target)) = opened else {
            self.engine.peers[index as usize].put_refused = true;
            return false;
        };
        let receive = std::mem::replace(receive, Receive::empty());
        let stage = AnnouncedStage::Posted;
        let announced = Announced { receive, peer: index, protocol: &ANY, open_buffer, stage };
        if let Some(request) = self.engine.requests.get_mut(key) {
            request.body = Body::Expecting(Box::new(announced));
        }
        if let Some(entry) = self.engine.any_entry(entry) {
            entry.raised.retain(|raised| raised.peer != index);
        }
        self.engine.counters.any_asked += 1;
        self.control_any(
            index,
            [0, 0],
            &FlagMessage::Ask { entry, receive: key.to_wire(), target },
        );
        true
    }
}

impl Engine {
    pub(super) fn any_table(&mut self) -> &mut FlagTable {
        self.protocols.kept.of_mut()
    }

    fn any_entry(&mut self, id: u64) -> Option<&mut Entry> {
        self.any_table().entries.iter_mut().find(|entry| entry.id == id)
    }

    fn posted_receive(&mut self, key: Key) -> Option<&mut Receive> {
        match &mut self.requests.get_mut(key)?.body {
            Body::Receive(receive) => Some(receive),
            _ => None,
        }
    }

    /// Whether a posted receive can be lent at all.
    fn can_lend(&mut self, key: Key) -> bool {
        let whole = |receive: &mut Receive| receive.buffer.shape() == MemoryLayout::Whole;
        self.posted_receive(key).is_some_and(|receive| whole(receive) && !receive.buffer.is_empty())
    }

    /// A sender has raised its flag.
    pub(super) fn flag_raised(&mut self, peer: PeerIndex, entry: u64, envelope: &Envelope) {
        let raised = Raised { peer, source: envelope.source, tag: envelope.tag };
        if self.any_table().raise(entry, raised) {
            self.actions.push(Action::Poll(&ANY));
        }
    }

    /// The first posted receive that fits the message of a flag.
    fn first_for(&mut self, space: u32, raised: &Raised) -> First {
        let (table, requests) = (self.protocols.kept.of_mut::<FlagTable>(), &self.requests);
        let Some(posted) = table.posted.get_mut(&space) else { return First::None };
        posted.retain(|&(_, key)| is_posted(requests.get(key)));
        let fits = |(want, _): &&(Want, Key)| want.fits(raised.source, raised.tag);
        let Some(&(_, key)) = posted.iter().find(fits) else { return First::None };
        match requests.get(key) {
            Some(request) if is_lent(request) => First::Lent,
            Some(Request { body: Body::Expecting(_), .. }) => First::Announced,
            _ => First::Free(key),
        }
    }
}
