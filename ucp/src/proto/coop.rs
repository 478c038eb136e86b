//! Cooperative copy: receiver and sender copy one message together.
//!
//! Where a transport moves data by the processor of the initiator, a rendezvous leaves one of the two
//! idle: the receiver reads while the sender waits. Here the receiver takes pieces from the front and
//! the sender from the back, until they meet.
//!
//! ```text
//!   receiver                                             sender
//!   RTS matched ── COOP_REQ (buffer, cursor, piece) ───────► helps when it comes by
//!   claims from the front, reads                         claims from the back, writes
//!   nothing left to claim                                nothing left to claim
//!     all that the sender claimed is written: done
//!     else waits for COOP_FIN ◄──────────── COOP_FIN (pieces written), always exactly one
//!   reads what was claimed and not written; ACK ───────► done
//! ```
//! Rules.
//!
//! 1. *The cursor* ([`Cursor`]) is one word in memory of the receiver's that both sides map. A piece is
//!    copied only by the side that claimed it. Neither side waits for the other to claim.
//! 2. The sender writes into the receiver's buffer between a claim and its count of pieces done, or
//!    its COOP_FIN. So the receiver completes when all is claimed and the sender has done what it
//!    claimed; and a buffer into which the sender may be writing is not given back, whatever else
//!    has failed, before that, COOP_FIN or the sender's death. A sender that sees, after a piece,
//!    that all is claimed sends COOP_FIN at once: if it goes away to compute, nobody waits for it.
//! 3. The sender need not come: the receiver goes on alone. A side that is refused by the transport
//!    leaves; the sender says in COOP_FIN how far it came, and the receiver does the rest.
//! 4. A cursor is used for the next message only after COOP_FIN, or the sender's death.
//! 5. With several messages under way the receiver works at the oldest and the sender at the
//!    newest, so that each has messages of its own until one is left.
//!
//! Each round of progress copies one piece, so that other traffic is polled in between.

mod help;
mod signal_safe;

use std::collections::VecDeque;

use bowline_base::cursor::{Cursor, CursorEnd};
use bowline_base::slab::Key;
use bowline_model::cheapest::Line;
use bowline_uct::{
    AmHeader, Arrival, Caps, Iface, MemHandle, PeerFailure, PostError, Posted, RemoteSlice, Token,
    Verdict,
};

use crate::action::Action;
use crate::address::COOPERATES;
use crate::engine::life::{Keeps, Life, Offer};
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::lanes::Lane;
use crate::loan;
use crate::peer::{PeerIndex, writes_no_more};
use crate::protocol::{Op, Protocol, Receiving};
use crate::request::receive_of;
use crate::state::async_state::{READY, RESERVE};
use crate::wire::{self, CoopRequest, MessageId, WireKey};

pub(crate) use help::Help;

/// Messages that may be shared at once; others are read by their receivers alone.
const CURSORS: usize = 64;

/// Distance of two cursors, so that they lie on lines of their own.
const CURSOR_BYTES: usize = 64;

/// The smallest and the largest piece, in bytes, and how many pieces a message should have.
const PIECE: std::ops::RangeInclusive<u64> = 64 << 10..=256 << 10;
const PIECES: u64 = 16;

/// What sharing a message needs of a lane: it reads and writes any memory of the peer by this
/// processor, and allocates memory that both map.
pub(crate) const SHARING: Caps = Caps::GET_ZCOPY
    .union(Caps::PUT_ZCOPY)
    .union(Caps::RMA_REGISTERED)
    .union(Caps::ATOMIC_CPU)
    .union(Caps::RKEY_PTR);

/// Whether messages over a lane with these capabilities can be copied by both sides, each in its call.
pub(crate) fn can_share(caps: Caps) -> bool {
    caps.contains(SHARING) && !caps.intersects(Caps::EXPOSE | Caps::CARRIES | Caps::LOOPBACK)
}

/// The shortest message worth sharing: two pieces.
const SMALLEST_SHARED: u64 = 128 << 10;

/// Part of a shared message's bytes that the slower side copies.
const SHARE: f64 = 0.55;

/// Nanoseconds of the engine's own work when two sides share a message: claims, and a poll of other
/// traffic between pieces.
const CLAIMS: f64 = 900.0;

/// The receiver reads the message from the front and the sender writes it from the back.
pub(crate) static COOP: Protocol = Protocol {
    copiers: 2.0,
    ..Protocol::rendezvous("rndv/shared", |op, context| {
        let get = context.get();
        let halves = Line { per_byte: get.per_byte * SHARE, ..get };
        let start = context.conditions.cooperate.unwrap_or(SMALLEST_SHARED);
        let line = context.envelope(op).plus(context.message()).plus(halves).plus_constant(CLAIMS);
        let able = context.reads(op) && can_share(context.caps);
        able.then(|| (line, context.rndv_start(op).max(start), u64::MAX))
    })
};

/// Whether a message of so many bytes is worth sharing.
fn is_long(lane: &Lane, bytes: u64) -> bool {
    lane.choices.predicted(&COOP, Op::Fetch, lane.iface.attr(), bytes).is_some()
}

pub(super) struct Coop;

impl Life for Coop {
    fn protocol(&self) -> &'static Protocol {
        &COOP
    }

    fn provide(&self, inner: &mut Inner) {
        inner.engine.coop().provide();
        for lane in 0..inner.lanes.len() {
            if inner.lanes[lane].is_signal_safe() {
                inner.prepare_cursors(lane);
            }
        }
    }

    fn ids(&self) -> &'static [MessageId] {
        const { &[MessageId::own(wire::COOP_REQ), MessageId::own(wire::COOP_FIN)] }
    }

    fn on_message(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> Option<Verdict> {
        let taken = match am.id {
            wire::COOP_REQ => engine.help(peer, &am.header, am.payload),
            _ => engine.helper_leaves(peer, &am.header),
        };
        taken.map(|()| Verdict::Consumed)
    }

    fn on_message_signal_safe(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> bool {
        let Queues { helps, left, spare_helps, .. } = engine.coop();
        let has_space = helps.len() < helps.capacity() && left.len() < left.capacity();
        let has_space = has_space && !spare_helps.is_empty();
        has_space && self.on_message(engine, peer, am).is_some()
    }

    fn can(&self, offer: &mut Offer<'_>) -> bool {
        let Offer { lane, peer, fetch, .. } = offer;
        let known = peer.direct_read_verified && peer.address.features & COOPERATES != 0;
        known && is_long(lane, fetch.wanted) && offer.is_whole() && offer.can_read()
    }

    fn start(&self, inner: &mut Inner, key: Key) -> bool {
        inner.share(key)
    }

    fn start_signal_safe(&self, inner: &mut Inner, key: Key) -> bool {
        inner.share_signal_safe(key)
    }

    fn receive_signal_safe(&self, _: &mut Inner, _: Key, _: &mut bool) -> bool {
        // Its pieces are copied by `poll`.
        true
    }

    fn send(&self, inner: &mut Inner, key: Key) {
        // The receiver has answered.
        inner.end_help(key);
    }

    fn stop(&self, inner: &mut Inner, key: Key) {
        inner.end_help(key);
    }

    fn poll(&self, inner: &mut Inner) {
        while let Some((peer, key, done)) = inner.engine.coop().left.pop() {
            inner.on_coop_fin(peer, key, done);
        }
        inner.copy_piece();
        inner.help_piece();
        if !inner.engine.coop().is_idle() {
            inner.engine.actions.push(Action::Poll(&COOP));
        }
    }

    fn poll_signal_safe(&self, inner: &mut Inner, copied: &mut bool) -> bool {
        inner.copy_signal_safe(copied);
        inner.engine.coop().is_idle()
    }
}

/// The messages that are copied by both sides. While there are any, an action waits to poll.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Receives whose senders help, in the order in which they are copied.
    shares: VecDeque<Key>,
    /// Sends that this side helps with, the newest last.
    helps: Vec<Key>,
    /// Senders that have left: the receive, and how many pieces they have written.
    left: Vec<(PeerIndex, Key, u32)>,
    /// The cursors of each lane; made for the first message.
    cursors: Vec<Option<Cursors>>,
    /// States that are kept ready for signal-safe progress.
    #[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
    spare_shares: Vec<Box<Share>>,
    #[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
    spare_helps: Vec<Box<Help>>,
}

impl Queues {
    fn is_idle(&self) -> bool {
        self.shares.is_empty() && self.helps.is_empty() && self.left.is_empty()
    }
}

impl Keeps for Queues {
    fn peers(&self, gone: &dyn Fn(PeerIndex) -> bool) -> Vec<PeerIndex> {
        let using = self.cursors.iter().flatten().flat_map(Cursors::peers);
        let using = using.filter(|&peer| !gone(peer));
        self.left.iter().map(|&(peer, ..)| peer).chain(using).collect()
    }

    fn forget(&mut self, peer: PeerIndex) {
        self.cursors.iter_mut().flatten().for_each(|cursors| cursors.forget(peer));
    }
}

impl Queues {
    /// Reserves space for what signal-safe progress may add.
    fn provide(&mut self) {
        self.shares.reserve(RESERVE);
        self.helps.reserve(RESERVE);
        self.left.reserve(RESERVE);
        while self.spare_shares.len() < READY {
            self.spare_shares.push(Box::new(Share::NONE));
        }
        while self.spare_helps.len() < READY {
            self.spare_helps.push(Box::new(Help::NONE));
        }
    }
}

/// The cursors of one lane.
#[derive(Debug)]
pub(crate) struct Cursors {
    memory: MemHandle,
    key: WireKey,
    /// Who uses each: the receive and its sender.
    used: [Option<(Key, PeerIndex)>; CURSORS],
}

impl Cursors {
    fn new(lane: &mut dyn Iface) -> Option<Self> {
        let memory = lane.mem_alloc(CURSORS * CURSOR_BYTES).ok()?;
        let packed = lane.rkey_pack(memory).ok()?;
        let key = WireKey::of(&packed)?;
        Some(Self { memory, key, used: [None; CURSORS] })
    }
}

impl Cursors {
    /// Senders that may be using one.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PeerIndex> {
        self.used.iter().flatten().map(|&(_, peer)| peer)
    }

    /// A sender that writes nothing any more leaves its cursors.
    pub(crate) fn forget(&mut self, index: PeerIndex) {
        for user in &mut self.used {
            if user.is_some_and(|(_, peer)| peer == index) {
                *user = None;
            }
        }
    }
}

/// A message that its receiver shares.
#[derive(Debug)]
pub(crate) struct Share {
    /// The memory of the lane's cursors, and which it is.
    memory: MemHandle,
    cursor: usize,
    piece: u64,
    pieces: u32,
    /// Pieces that the receiver reads without claiming them: those that the sender left.
    rest: std::ops::Range<u32>,
    /// A piece that is the receiver's to read, for which the transport had no resources.
    postponed: Option<u32>,
    stage: Stage,
    /// Why the message has failed; it ends when the sender has left.
    failed: Option<OpError>,
    /// The buffer as it is lent to the sender, where a transport writes only what is lent.
    lent: Option<(u32, MemHandle)>,
    /// Pieces that the sender had claimed at the last signal-safe progress, and whether that left it to the sender.
    seen_back: u32,
    left_to_sender: bool,
}

impl Share {
    /// One of no message.
    const NONE: Self = Self {
        memory: MemHandle(Key::NONE),
        cursor: 0,
        piece: 0,
        pieces: 0,
        rest: 0..0,
        postponed: None,
        stage: Stage::Claiming,
        failed: None,
        lent: None,
        seen_back: signal_safe::NEVER,
        left_to_sender: false,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Pieces are claimed.
    Claiming,
    /// All are claimed, some by the sender.
    Waiting,
    /// The sender has left.
    Alone,
}

impl Inner {
    /// Begins to share a message, if there is a cursor for it.
    fn share(&mut self, key: Key) -> bool {
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else {
            return true;
        };
        let (index, wanted, address) = (fetch.peer, fetch.wanted, buffer.address());
        let Some((memory, cursor, word, rkey)) = self.cursor_for(key, index) else {
            return false;
        };
        let at = self.engine.peers[index as usize].lane;
        let lane = &mut self.lanes[at as usize];
        let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return true };
        let mut lent = None;
        if lane.iface.attr().caps.contains(Caps::LENT_ONLY) {
            let all = loan::of_recv(buffer, 0, wanted as usize);
            let iface = &mut lane.iface;
            let memory = all.and_then(|all| match self.engine.async_state.in_handler {
                true => iface.lend_signal_safe(all),
                false => iface.mem_lend(all).ok(),
            });
            lent = memory.map(|memory| (at, memory));
            if lent.is_none() {
                if let Some(Some(cursors)) = self.engine.coop().cursors.get_mut(at as usize) {
                    cursors.used[cursor] = None;
                }
                return false;
            }
        }
        let piece = (wanted / PIECES).clamp(*PIECE.start(), *PIECE.end()).next_multiple_of(4096);
        let coop_request = CoopRequest { address, wanted, piece, cursor: word, rkey };
        let share =
            Share { memory, cursor, piece, pieces: coop_request.pieces(), lent, ..Share::NONE };
        let place = self.engine.protocols.kept.of_mut::<Queues>().spare_shares.pop();
        let mut place = place.unwrap_or_else(|| Box::new(Share::NONE));
        *place = share;
        fetch.receiver = Some(place);
        let request = fetch.rts.request;
        let mut payload = [0; CoopRequest::FIXED + wire::MAX_RKEY];
        let n = coop_request.pack(&mut payload);
        self.control(index, wire::COOP_REQ, [request, key.to_wire()], &payload[..n]);
        self.engine.counters.shared += 1;
        self.engine.poll_coop();
        self.engine.coop().shares.push_back(key);
        true
    }

    /// A free cursor at zero for the receive `key` of a message from `index`: its number, its
    /// address and its lane's key.
    fn cursor_for(
        &mut self,
        key: Key,
        index: PeerIndex,
    ) -> Option<(MemHandle, usize, u64, WireKey)> {
        let at = self.engine.peers[index as usize].lane as usize;
        self.prepare_cursors(at);
        let (peers, lane) = (&self.engine.peers, &self.lanes[at]);
        let queues = self.engine.protocols.kept.of_mut::<Queues>();
        let cursors = queues.cursors.get_mut(at)?.as_mut()?;
        // Rule 4.
        let dead = |peer: PeerIndex| peers[peer as usize].failure().is_some_and(writes_no_more);
        let free = |user: &Option<(Key, PeerIndex)>| user.is_none_or(|(_, peer)| dead(peer));
        let cursor = cursors.used.iter().position(free)?;
        let view = lane.iface.mem_view(cursors.memory)?;
        Cursor::in_view(view, cursor * CURSOR_BYTES)?.reset();
        cursors.used[cursor] = Some((key, index));
        let address = view.as_ptr().addr() + cursor * CURSOR_BYTES;
        Some((cursors.memory, cursor, address as u64, cursors.key))
    }

    /// The receiver copies one piece of its oldest shared message.
    fn copy_piece(&mut self) {
        while let Some(&key) = self.engine.coop().shares.front() {
            if let Some(piece) = self.next_piece(key) {
                return self.read_piece(key, piece);
            }
            self.engine.coop().shares.pop_front();
        }
    }

    /// The piece of a shared message that the receiver is to read next. None: it is complete, or
    /// waits for its sender.
    fn next_piece(&mut self, key: Key) -> Option<u32> {
        let (_, fetch) = receive_of(&mut self.engine.requests, key)?;
        let index = fetch.peer as usize;
        let share = fetch.state::<Share>()?;
        if let Some(piece) = share.postponed.take().filter(|_| share.failed.is_none()) {
            return Some(piece);
        }
        if share.stage == Stage::Claiming {
            let lane = &self.lanes[self.engine.peers[index].lane as usize];
            let cursor = cursor_at(&*lane.iface, share)?;
            let claimed = if share.failed.is_some() {
                Err(cursor.claim_all(share.pieces))
            } else {
                cursor.claim(share.pieces, CursorEnd::Front)
            };
            share.stage = match claimed {
                Ok(piece) => return Some(piece),
                Err(back) if cursor.is_settled(back) => Stage::Alone,
                Err(_) => Stage::Waiting,
            };
        }
        if share.stage == Stage::Waiting {
            return None;
        }
        if share.failed.is_none()
            && let Some(piece) = share.rest.next()
        {
            return Some(piece);
        }
        match share.failed {
            None if self.engine.async_state.in_handler => {
                self.end_unasked_signal_safe(key);
            }
            None => self.fetched(key),
            Some(error) => {
                if error == OpError::PeerFailed(PeerFailure::Died) {
                    // The copy may be the first to know, and what is sent to it is refused from now on.
                    self.engine.fail_peer(index as PeerIndex, PeerFailure::Died);
                }
                self.refuse(key, error);
            }
        }
        None
    }

    fn read_piece(&mut self, key: Key, piece: u32) {
        let Some((receive, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
        let Some(share) = fetch.state::<Share>() else { return };
        let offset = u64::from(piece) * share.piece;
        let length = share.piece.min(fetch.wanted - offset);
        let to = loan::of_recv(receive, offset as usize, length as usize);
        let address = fetch.rts.address.checked_add(offset);
        let (index, own) = (fetch.peer as usize, fetch.rkey);
        let peer = &self.engine.peers[index];
        let read = match (address, own.or(peer.whole_rkey), to) {
            (Some(address), Some(rkey), Some(to)) => {
                let from = RemoteSlice { address, rkey };
                let lane = &mut self.lanes[peer.lane as usize].iface;
                lane.get_zcopy(peer.ep, &[to], from, Token::NONE)
            }
            _ => Err(PostError::BadRemote),
        };
        if read == Ok(Posted::Done) {
            return;
        }
        let found = receive_of(&mut self.engine.requests, key);
        if let Some(share) = found.and_then(|(_, fetch)| fetch.state::<Share>()) {
            match read {
                Err(PostError::NoResource) => share.postponed = Some(piece),
                // Rule 2: not before the sender has left.
                Err(PostError::PeerFailed) => share.failed = Some(PeerFailure::Died.into()),
                _ => share.failed = Some(OpError::BadRemote),
            }
        }
    }

    /// The sender of a shared message has left after writing `done` pieces.
    fn on_coop_fin(&mut self, index: PeerIndex, key: Key, done: u32) {
        let at = self.engine.peers[index as usize].lane as usize;
        let lane = &self.lanes[at];
        let cursors = self.engine.coop().cursors.get_mut(at).and_then(Option::as_mut);
        let used = cursors
            .and_then(|cursors| cursors.used.iter_mut().find(|user| **user == Some((key, index))));
        let Some(user) = used else {
            let why = "it has helped with nothing that it was asked for";
            return self.engine.reject(index, PeerFailure::Damaged, why);
        };
        *user = None;
        let found = receive_of(&mut self.engine.requests, key);
        let Some(share) = found.and_then(|(_, fetch)| fetch.state::<Share>()) else { return };
        let Some(cursor) = cursor_at(&*lane.iface, share) else { return };
        let (front, back) = cursor.claimed();
        let waited = share.stage == Stage::Waiting;
        share.stage = Stage::Alone;
        // What is not claimed yet lies in front of what the sender claimed and did not write.
        let sound = done <= back && u64::from(front) + u64::from(done) <= u64::from(share.pieces);
        share.rest = front..share.pieces - done.min(share.pieces);
        if !sound {
            share.failed = Some(PeerFailure::Damaged.into());
        }
        if waited {
            self.engine.coop().shares.push_front(key);
        }
        if !sound {
            let why = "it says that it has written more of a message than it claimed";
            self.engine.reject(index, PeerFailure::Damaged, why);
        }
    }
}

impl Receiving for Share {
    fn protocol(&self) -> &'static Protocol {
        &COOP
    }

    /// Rule 2.
    fn ends_with(&self, how: PeerFailure) -> bool {
        writes_no_more(how)
    }

    /// Rule 2: when its sender has left.
    fn abort(&mut self, error: OpError) -> bool {
        self.failed.get_or_insert(error);
        false
    }

    fn lent(&self) -> Option<(u32, MemHandle)> {
        self.lent
    }

    /// Rule 2.
    fn is_written_after_end(&self, lane: &dyn Iface, how: Option<PeerFailure>) -> bool {
        let settled = cursor_at(lane, self).is_none_or(|cursor| {
            let back = cursor.claim_all(self.pieces);
            cursor.is_settled(back)
        });
        !settled && self.stage != Stage::Alone && !how.is_some_and(writes_no_more)
    }

    fn left_to_copy(&self, wanted: u64) -> Option<u64> {
        Some(wanted.saturating_sub(self.piece))
    }

    fn moved_by_others(&self, lane: &dyn Iface) -> Option<u64> {
        self.left_to_sender(lane)
    }

    fn is_settled(&self, lane: &dyn Iface) -> bool {
        let settled = |cursor: Cursor<'_>| cursor.is_settled(cursor.claimed().1);
        // Nothing is postponed then: what is comes before the last claim.
        let waits = self.stage == Stage::Waiting && self.failed.is_none();
        waits && cursor_at(lane, self).is_some_and(settled)
    }
}

fn cursor_at<'a>(lane: &'a dyn Iface, share: &Share) -> Option<Cursor<'a>> {
    Cursor::in_view(lane.mem_view(share.memory)?, share.cursor * CURSOR_BYTES)
}

impl Engine {
    fn coop(&mut self) -> &mut Queues {
        self.protocols.kept.of_mut()
    }

    /// The first message is about to be queued, or another one.
    fn poll_coop(&mut self) {
        if self.coop().is_idle() {
            self.actions.push(Action::Poll(&COOP));
        }
    }

    /// The sender of a shared message says that it has left.
    fn helper_leaves(&mut self, peer: PeerIndex, header: &AmHeader) -> Option<()> {
        let done = u32::try_from(header[1]).ok()?;
        self.poll_coop();
        self.coop().left.push((peer, Key::from_wire(header[0]), done));
        Some(())
    }
}

#[cfg(test)]
mod tests;
