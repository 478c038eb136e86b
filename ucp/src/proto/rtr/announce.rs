//! The receiver's side: which receives are announced, and what becomes of those that are.

use std::collections::{BTreeMap, VecDeque};

use bowline_base::buffer::{MemoryLayout, RecvBuf};
use bowline_base::slab::Key;
use bowline_uct::{Caps, PeerFailure};

use super::message::LONGEST;
use super::{RTR, RtrMessage};
use crate::action::Action;
use crate::address::READY;
use crate::engine::life::Keeps;
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::matching::{Envelope, Want};
use crate::peer::{Peer, PeerIndex, can_land};
use crate::proto::announced::{
    Announced, AnnouncedStage, announced, announced_mut, announced_shut_by, end_announced,
    is_posted,
};
use crate::request::{Body, Receive, Requests};
use crate::settings::RndvScheme;
use crate::status::OpStatus;
use crate::wire;

/// Receives that may be announced at once: each exposes its buffer on the chance that a long message
/// comes.
const ANNOUNCED: u32 = 64;

/// Different wants in a space beyond which none is announced: each is compared with all.
const LISTS: usize = 64;

/// Receives that are remembered to be announced later.
const WAITING: usize = 64;

/// A want as sub-lists are named: source, its mask, tag, its mask.
type Name = (u32, u32, u64, u64);

const fn name(want: &Want) -> Name {
    (want.source, want.source_mask, want.tag, want.tag_mask)
}

/// Whether some message fits both.
const fn overlap(a: &Name, b: &Name) -> bool {
    (a.0 ^ b.0) & a.1 & b.1 == 0 && (a.2 ^ b.2) & a.3 & b.3 == 0
}

/// Posted receives that ask for the same.
#[derive(Debug, Default)]
struct SubList {
    /// In order, each with its number among all.
    receives: VecDeque<(u64, Key)>,
    /// How many of the first were found announced, to which peer, and at which of [`Announcer::changes`]: while nothing
    /// has changed since, they are, so that a window of receives is not searched for each one more.
    checked: (usize, PeerIndex, u64),
    /// How many were left at the last cleaning.
    left: usize,
}

/// A receive that is to be announced when it may.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    space: u32,
    name: Name,
    number: u64,
    key: Key,
}

/// The sub-lists of a space.
#[derive(Debug, Default)]
struct SubLists {
    lists: BTreeMap<Name, SubList>,
    /// How many were left at the last cleaning.
    left: usize,
    /// Which peer was found to have a rank of the space. Only where to look first: what is there is asked each time, and may
    /// be another peer by now.
    senders: BTreeMap<u32, PeerIndex>,
}

impl SubLists {
    /// Drops what has left, and the sub-lists that are empty by that.
    fn clean(&mut self, requests: &Requests) {
        self.lists.retain(|_, list| {
            list.clean(requests);
            list.left > 0
        });
        self.left = self.lists.len();
    }
}

impl SubList {
    /// Drops what has left.
    fn clean(&mut self, requests: &Requests) {
        self.receives.retain(|&(_, key)| is_posted(requests.get(key)));
        (self.checked.0, self.left) = (0, self.receives.len());
    }

    /// Drops what has left at the front.
    fn advance(&mut self, requests: &Requests) {
        while self.receives.front().is_some_and(|&(_, key)| !is_posted(requests.get(key))) {
            self.receives.pop_front();
            self.checked.0 = self.checked.0.saturating_sub(1);
        }
    }
}

/// Posted receives by what they ask for. Those that were met stay until another is posted behind them, or there are twice as
/// many sub-lists.
#[derive(Debug, Default)]
pub(crate) struct Announcer {
    spaces: BTreeMap<u32, SubLists>,
    /// Receives that stand behind others.
    waiting: VecDeque<Candidate>,
    /// Receives that are announced.
    pub(super) out: u32,
    next: u64,
    /// How often a receive stopped to be announced, or was wanted back, but by the message that was written to it, which
    /// is the first of its sub-list.
    changes: u64,
    /// Receives that this side has forgotten, of which their peers are to hear: as those named them.
    forgotten: Vec<(PeerIndex, u64)>,
}

impl Keeps for Announcer {
    fn peers(&self, _: &dyn Fn(PeerIndex) -> bool) -> Vec<PeerIndex> {
        self.forgotten.iter().map(|&(peer, _)| peer).collect()
    }

    /// Whether a receive waits to be announced.
    fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Announcer {
    /// Adds a receive behind those that ask for the same.
    fn add(&mut self, requests: &Requests, space: u32, name: Name, number: u64, key: Key) {
        let of = self.spaces.entry(space).or_default();
        if of.lists.len() > LISTS.max(2 * of.left) {
            of.clean(requests);
        }
        let list = of.lists.entry(name).or_default();
        list.advance(requests);
        if list.receives.len() > LISTS.max(2 * list.left) {
            list.clean(requests);
        }
        list.receives.push_back((number, key));
    }

    /// Drops what is known of a space that is closed: none of its receives is posted any more. Those that wait for
    /// their peers are requests, and need nothing of this.
    pub(super) fn forget_space(&mut self, space: u32) {
        self.spaces.remove(&space);
        self.waiting.retain(|candidate| candidate.space != space);
    }

    /// A peer is to be notified that a receive of its is forgotten.
    pub(super) fn forgets(&mut self, peer: PeerIndex, receive: u64) {
        self.forgotten.push((peer, receive));
    }
}

/// Whether a receive can be announced.
enum Announceable {
    /// Now; so many of its sub-list are announced in front of it.
    Now(u32),
    /// When something that blocks it has left.
    Later,
    Never,
}

impl Inner {
    /// A receive was posted.
    #[cold]
    pub(super) fn note_receive(&mut self, key: Key, space: u32, want: &Want) {
        if self.engine.options.rndv_scheme != RndvScheme::Rtr {
            return;
        }
        self.announce_later();
        let Engine { requests, protocols, .. } = &mut self.engine;
        let announcer = protocols.kept.of_mut::<Announcer>();
        let (name, number) = (name(want), announcer.next);
        announcer.next += 1;
        announcer.add(requests, space, name, number, key);
        self.announce_or_wait(Candidate { space, name, number, key });
    }

    /// Announces those that waited and need not any more.
    pub(crate) fn announce_later(&mut self) {
        for _ in 0..self.engine.announcer().waiting.len() {
            if let Some(candidate) = self.engine.announcer().waiting.pop_front() {
                self.announce_or_wait(candidate);
            }
        }
    }

    fn announce_or_wait(&mut self, candidate: Candidate) {
        let Some(peer) = self.announces_to(&candidate) else { return };
        match self.engine.check_announceable(&candidate, peer) {
            Announceable::Now(ahead) => self.announce(&candidate, peer, ahead),
            Announceable::Later if self.engine.announcer().waiting.len() < WAITING => {
                self.engine.announcer().waiting.push_back(candidate);
            }
            Announceable::Later | Announceable::Never => {}
        }
    }

    /// The peer to which a receive would be announced.
    fn announces_to(&mut self, candidate: &Candidate) -> Option<PeerIndex> {
        let (source, mask, ..) = candidate.name;
        let request = self.engine.requests.get(candidate.key)?;
        let Body::Receive(receive) = &request.body else { return None };
        if mask == 0 || !is_posted(Some(request)) {
            return None;
        }
        if receive.buffer.shape() != MemoryLayout::Whole {
            return None;
        }
        let capacity = receive.buffer.len();
        let least = self.engine.options.rtr_min;
        if capacity == 0 || least.is_some_and(|least| (capacity as u64) < least) {
            return None;
        }
        let index = self.engine.peer_with_rank(candidate.space, source)?;
        self.ready(index).ok()?;
        let peer = &self.engine.peers[index as usize];
        let lane = &self.lanes[peer.lane as usize];
        let caps = lane.iface.attr().caps;
        let offered = || {
            let chosen = lane.choices.tag_send.pick(capacity as u64);
            chosen.is_some_and(|protocol| protocol.rendezvous)
        };
        let long = least.is_some() || offered();
        let able = can_land(caps, peer)
            && peer.address.features & READY != 0
            && !caps.contains(Caps::LOOPBACK);
        (long && able).then_some(index)
    }

    fn announce(&mut self, candidate: &Candidate, index: PeerIndex, ahead: u32) {
        let Some(request) = self.engine.requests.get_mut(candidate.key) else { return };
        let Body::Receive(receive) = &mut request.body else { return };
        let mut buffer = std::mem::replace(&mut receive.buffer, RecvBuf::empty());
        let capacity = buffer.len() as u64;
        let opened = self.open_buffer(index, &mut buffer, capacity);
        let Some(request) = self.engine.requests.get_mut(candidate.key) else { return };
        let Body::Receive(receive) = &mut request.body else { return };
        receive.buffer = buffer;
        let Some((open_buffer, on_wire)) = opened else { return };
        let receive = std::mem::replace(receive, Receive::empty());
        let announced = Announced {
            receive,
            peer: index,
            protocol: &RTR,
            open_buffer,
            stage: AnnouncedStage::Posted,
        };
        request.body = Body::Expecting(Box::new(announced));
        self.engine.announcer().out += 1;
        self.engine.counters.rtr += 1;
        let (source, _, tag, mask) = candidate.name;
        let message = RtrMessage::Rtr {
            receive: candidate.key.to_wire(),
            seen: self.engine.peers[index as usize].rx_sequence,
            ahead,
            mask,
            target: on_wire,
        };
        let envelope = Envelope { space: candidate.space, source, tag };
        let [first, second, _] = wire::tagged(&envelope, 0);
        self.control_rtr(index, [first, second], &message);
    }

    /// Asks the peer of an announced receive to forget it.
    pub(super) fn withdraw_announced(&mut self, key: Key) {
        let Some(announced) = announced_mut(&mut self.engine.requests, key) else { return };
        let (peer, message) = (announced.peer, RtrMessage::Withdraw { receive: key.to_wire() });
        self.control_rtr(peer, [0, 0], &message);
    }

    fn control_rtr(&mut self, index: PeerIndex, words: [u64; 2], message: &RtrMessage) {
        let mut bytes = [0; LONGEST];
        let n = message.pack(&mut bytes);
        self.control(index, wire::RTR, words, &bytes[..n]);
    }

    /// Reports to peers that nothing will be written any more to receives that they wanted back.
    pub(super) fn confirm_forgotten(&mut self) {
        for (peer, receive) in std::mem::take(&mut self.engine.announcer().forgotten) {
            let message = RtrMessage::Withdrawn { receive };
            if self.engine.peers[peer as usize].watches.check() && self.report_all(peer).is_err() {
                // Behind what is still to be reported (rule 4): a lane that is full notifies when it is not.
                let known = &mut self.engine.peers[peer as usize];
                let mut bytes = [0; LONGEST];
                let n = message.pack(&mut bytes);
                known.push_control(wire::RTR, [0, 0], bytes[..n].to_vec());
                self.lanes[known.lane as usize].iface.want_writable(known.ep);
                self.call_progress_thread();
                continue;
            }
            self.control_rtr(peer, [0, 0], &message);
        }
    }
}

impl Engine {
    pub(super) fn announcer(&mut self) -> &mut Announcer {
        self.protocols.kept.of_mut()
    }

    /// The peer that has a rank of a space, if it is known and lives. All are searched for one that was not found before.
    fn peer_with_rank(&mut self, space: u32, rank: u32) -> Option<PeerIndex> {
        let Self { spaces, peers, protocols, job, .. } = self;
        let members = spaces.get_mut(space)?.options.members.as_ref()?;
        let is_it = |peer: &Peer| {
            peer.address.job == *job
                && peer.failure().is_none()
                && members.rank_of(peer.address.rank) == Some(rank)
        };
        let announcer = protocols.kept.of_mut::<Announcer>();
        let senders = &mut announcer.spaces.entry(space).or_default().senders;
        if let Some(&index) = senders.get(&rank)
            && peers.get(index as usize).is_some_and(is_it)
        {
            return Some(index);
        }
        let index = peers.iter().position(is_it)? as PeerIndex;
        senders.insert(rank, index);
        Some(index)
    }

    /// Rule 1.
    fn check_announceable(&mut self, candidate: &Candidate, peer: PeerIndex) -> Announceable {
        let Candidate { space, name, number, key } = *candidate;
        let requests = &self.requests;
        let announcer = self.protocols.kept.of_mut::<Announcer>();
        let (out, changes) = (announcer.out, announcer.changes);
        let Some(of) = announcer.spaces.get_mut(&space) else { return Announceable::Never };
        if of.lists.len() > LISTS {
            of.clean(requests);
            if of.lists.len() > LISTS {
                return Announceable::Never;
            }
        }
        if out >= ANNOUNCED {
            return Announceable::Later;
        }
        for (other, list) in &mut of.lists {
            list.advance(requests);
            let older = list.receives.front().is_some_and(|&(first, _)| first < number);
            if *other != name && older && overlap(other, &name) {
                return Announceable::Later;
            }
        }
        let Some(list) = of.lists.get_mut(&name) else { return Announceable::Never };
        let SubList { receives, checked, .. } = list;
        if (checked.1, checked.2) != (peer, changes) {
            *checked = (0, peer, changes);
        }
        let (mut ahead, mut ended, mut later) = (checked.0, false, false);
        for &(_, other) in receives.range(checked.0..).take_while(|&&(_, other)| other != key) {
            let request = requests.get(other);
            match request.and_then(announced) {
                Some(a) if a.is_with(peer, &RTR) && a.stage == AnnouncedStage::Posted => ahead += 1,
                // It was cancelled, or has failed, before those in front of it.
                _ if !is_posted(request) => ended = true,
                _ => {
                    later = true;
                    break;
                }
            }
        }
        checked.0 = ahead;
        if ended {
            list.clean(requests);
        }
        if later { Announceable::Later } else { Announceable::Now(ahead as u32) }
    }

    /// An ordinary message has met a receive. One that was announced is so no more (rule 3).
    #[cold]
    pub(super) fn note_met(&mut self, key: Key) {
        let announced = self.requests.get(key).and_then(announced);
        if announced.is_some_and(|announced| announced.protocol == &RTR) {
            self.counters.rtr_missed += 1;
            self.unannounce(key);
        }
        if self.announcer().waits() {
            self.actions.push(Action::Poll(&RTR));
        }
    }

    /// Makes an announced receive an ordinary one, whose buffer nobody writes.
    pub(super) fn unannounce(&mut self, key: Key) {
        let Some((_, open_buffer)) = end_announced(&mut self.requests, key) else { return };
        self.announcer().out -= 1;
        self.announcer().changes += 1;
        if let Some((lane, memory)) = open_buffer.lent() {
            self.actions.push(Action::Withdraw { lane, memory });
        }
    }

    /// An announced receive is to end with `status`. `false`: it waits for its peer (rule 4).
    fn may_end(&mut self, key: Key, status: OpStatus) -> bool {
        let Some(announced) = announced_mut(&mut self.requests, key) else { return true };
        let how = self.peers[announced.peer as usize].failure();
        if how.is_some_and(|how| announced.open_buffer.is_shut_by(how)) {
            self.unannounce(key);
            return true;
        }
        let before = std::mem::replace(&mut announced.stage, AnnouncedStage::Ended(status));
        self.announcer().changes += 1;
        if before == AnnouncedStage::Posted {
            self.actions.push(Action::Run(key));
        }
        false
    }

    /// Ends an announced receive, now or later.
    #[cold]
    pub(super) fn finish_announced(&mut self, key: Key, status: OpStatus) {
        if self.may_end(key, status) {
            self.finish(key, status);
        }
    }

    /// The user wants an announced receive back.
    pub(super) fn cancel_announced(&mut self, key: Key) {
        if let Some(announced) = announced_mut(&mut self.requests, key)
            && announced.stage == AnnouncedStage::Posted
        {
            announced.stage = AnnouncedStage::Withdrawing;
            self.announcer().changes += 1;
            self.actions.push(Action::Run(key));
        }
    }

    /// A peer has failed: what was announced to it is announced no more, and what waited for its
    /// answer ends.
    #[cold]
    pub(super) fn settle_announced(&mut self, index: PeerIndex, how: PeerFailure) {
        for key in announced_shut_by(&self.requests, (index, how), &RTR) {
            let Some(announced) = announced_mut(&mut self.requests, key) else { continue };
            let stage = announced.stage;
            match stage {
                AnnouncedStage::Posted => self.unannounce(key),
                AnnouncedStage::Withdrawing => self.finish_withdrawing(key),
                AnnouncedStage::Ended(status) => {
                    self.unannounce(key);
                    self.finish(key, status);
                }
                AnnouncedStage::Met(_) => {}
            }
        }
    }

    pub(super) fn finish_withdrawing(&mut self, key: Key) {
        self.unannounce(key);
        let Some(Body::Receive(receive)) = self.requests.get(key).map(|r| &r.body) else { return };
        let (space, item) = (receive.space, receive.item);
        self.spaces.withdraw(space, item, key.to_wire());
        self.fail(key, OpError::Cancelled);
    }
}
