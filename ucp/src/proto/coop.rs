//! Cooperative copy: receiver and sender copy one message together.
//!
//! Where a transport moves data by the processor of whoever asks, a rendezvous leaves one of the two
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
//!    copied only by whoever claimed it. Nobody waits for the other to claim.
//! 2. The sender writes into the receiver's buffer between a claim and its count of pieces done, or
//!    its COOP_FIN. So the receiver completes when all is claimed and the sender has done what it
//!    claimed; and a buffer into which the sender may be writing is not given back, whatever else
//!    has failed, before that, COOP_FIN or the sender's death. A sender that sees, after a piece,
//!    that all is claimed sends COOP_FIN at once: if it goes away to compute, nobody waits for it.
//! 3. The sender need not come: the receiver goes on alone. Whoever is refused by the transport
//!    leaves; the sender says in COOP_FIN how far it came, and the receiver does the rest.
//! 4. A cursor is used for the next message only after COOP_FIN, or the sender's death.
//! 5. With several messages under way the receiver works at the oldest and the sender at the
//!    newest, so that each has messages of its own until one is left.
//!
//! Each turn copies one piece, so that other traffic is looked at in between.

mod help;
mod turn;

use bowline_base::buffer::{RecvBuf, Shape};
use bowline_base::cursor::{Cursor, Side};
use bowline_base::slab::Key;
use bowline_model::cheapest::Line;
use bowline_uct::{
    AmHeader, Caps, Iface, MemHandle, PeerFailure, PostError, Posted, RemoteSlice, Token,
};

use super::table::{Op, SelectionContext};
use super::{Life, Protocol};
use crate::action::Action;
use crate::address::COOPERATES;
use crate::engine::Engine;
use crate::error::OpError;
use crate::lanes::Lane;
use crate::loan;
use crate::peer::PeerIndex;
use crate::request::{Body, Fetch, Request, Requests};
use crate::wire::{self, CoopRequest};
use crate::worker::Inner;

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
pub(super) const SHARING: Caps = Caps::GET_ZCOPY
    .union(Caps::PUT_ZCOPY)
    .union(Caps::RMA_REGISTERED)
    .union(Caps::ATOMIC_CPU)
    .union(Caps::RKEY_PTR);

/// Whether messages over a lane with these capabilities can be copied by both sides.
pub(crate) fn can_share(caps: Caps) -> bool {
    caps.contains(SHARING) && !caps.intersects(Caps::EXPOSE | Caps::LOOPBACK)
}

/// The shortest message worth sharing: two pieces.
const SMALLEST_SHARED: u64 = 128 << 10;

/// Part of a shared message's bytes that the slower side copies.
const SHARE: f64 = 0.55;

/// Nanoseconds of the engine's own work when two sides share a message: claims, and a look at other
/// traffic between pieces.
const TURNS: f64 = 900.0;

/// A key as it travels, and how long it is.
type PackedKey = ([u8; wire::MAX_RKEY], u8);

/// The receiver reads the message from the front and the sender writes it from the back.
pub(crate) static COOP: Protocol = Protocol { name: "rndv/shared", rendezvous: true, life: &Coop };

struct Coop;

impl Life for Coop {
    fn probe(&self, op: Op, context: &SelectionContext<'_>) -> Option<(Line, u64, u64)> {
        let get = context.get();
        let halves = Line { per_byte: get.per_byte * SHARE, ..get };
        let start = context.conditions.cooperate.unwrap_or(SMALLEST_SHARED);
        let line = context.envelope(op).plus(context.message()).plus(halves).plus_constant(TURNS);
        let able = context.reads(op) && can_share(context.caps);
        able.then(|| (line, context.rndv_start(op).max(start), u64::MAX))
    }

    fn copiers(&self) -> f64 {
        2.0
    }
}

/// The cursors of one lane.
#[derive(Debug)]
pub(crate) struct Cursors {
    memory: MemHandle,
    key: PackedKey,
    /// Who uses each: the receive and its sender.
    used: [Option<(Key, PeerIndex)>; CURSORS],
}

impl Cursors {
    fn new(lane: &mut dyn Iface) -> Option<Self> {
        let memory = lane.mem_alloc(CURSORS * CURSOR_BYTES).ok()?;
        let packed = lane.rkey_pack(memory).ok()?;
        let mut key = ([0; wire::MAX_RKEY], packed.len() as u8);
        key.0.get_mut(..packed.len())?.copy_from_slice(&packed);
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
    cursor: usize,
    piece: u64,
    pieces: u32,
    /// Pieces that the receiver reads without claiming them: those that the sender left.
    rest: std::ops::Range<u32>,
    stage: Stage,
    /// Why the message has failed; it ends when the sender has left.
    failed: Option<OpError>,
    /// Pieces that the sender had claimed at the last turn, and whether that left it to the sender.
    seen_back: u32,
    left_to_sender: bool,
}

impl Share {
    /// The message is to end with `error`, once its sender has left.
    pub(crate) fn fail(&mut self, error: OpError) {
        self.failed.get_or_insert(error);
    }
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
    /// Whether a message that is about to be read is shared with its sender; then it is under way.
    pub(crate) fn share(&mut self, key: Key) -> bool {
        let Some((receive, fetch)) = receive_of(&mut self.engine.requests, key) else {
            return false;
        };
        if receive.shape() != Shape::Whole || !fetch.rts.is_readable() {
            return false;
        }
        let (index, wanted, address) = (fetch.peer, fetch.wanted, receive.address());
        let fresh = fetch.done == 0 && (fetch.rkey.is_some() || fetch.rts.rkey_len == 0);
        let known = &self.engine.peers[index as usize];
        if !fresh || !known.reach_proven || known.address.features & COOPERATES == 0 {
            return false;
        }
        let Some((cursor, word, packed)) = self.cursor_for(key, index) else { return false };
        let lane = &mut self.lanes[self.engine.peers[index as usize].lane as usize];
        let mut lent = None;
        if lane.iface.attr().caps.contains(Caps::LENT_ONLY) {
            let Some((buffer, _)) = receive_of(&mut self.engine.requests, key) else {
                return false;
            };
            let all = loan::of_recv(buffer, 0, wanted as usize);
            lent = all.and_then(|all| lane.iface.mem_lend(all).ok());
            if lent.is_none() {
                if let Some(cursors) = &mut lane.cursors {
                    cursors.used[cursor] = None;
                }
                return false;
            }
        }
        let piece = (wanted / PIECES).clamp(*PIECE.start(), *PIECE.end()).next_multiple_of(4096);
        let mut coop_request =
            CoopRequest { address, wanted, piece, cursor: word, ..CoopRequest::EMPTY };
        (coop_request.rkey, coop_request.rkey_len) = packed;
        let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) else { return false };
        let (stage, pieces) = (Stage::Claiming, coop_request.pieces());
        let (rest, failed, seen_back) = (0..0, None, turn::NO_TURN);
        let left_to_sender = false;
        fetch.lent = lent;
        fetch.share =
            Some(Share { cursor, piece, pieces, rest, stage, failed, seen_back, left_to_sender });
        let request = fetch.rts.request;
        let mut payload = [0; CoopRequest::FIXED + wire::MAX_RKEY];
        let n = coop_request.pack(&mut payload);
        self.control(index, wire::COOP_REQ, [request, key.to_wire()], &payload[..n]);
        self.engine.counters.shared += 1;
        self.queue_share(key, false);
        true
    }

    /// A free cursor at zero for the receive `key` of a message from `index`: its number, its
    /// address and its lane's key.
    fn cursor_for(&mut self, key: Key, index: PeerIndex) -> Option<(usize, u64, PackedKey)> {
        let peers = &self.engine.peers;
        let lane = &mut self.lanes[peers[index as usize].lane as usize];
        lane.prepare_cursors();
        let cursors = lane.cursors.as_mut()?;
        // Rule 4.
        let dead = |peer: PeerIndex| peers[peer as usize].failure().is_some_and(writes_no_more);
        let free = |user: &Option<(Key, PeerIndex)>| user.is_none_or(|(_, peer)| dead(peer));
        let cursor = cursors.used.iter().position(free)?;
        let view = lane.iface.mem_view(cursors.memory)?;
        Cursor::in_view(view, cursor * CURSOR_BYTES)?.reset();
        cursors.used[cursor] = Some((key, index));
        let address = view.as_ptr().addr() + cursor * CURSOR_BYTES;
        Some((cursor, address as u64, cursors.key))
    }

    /// Has a shared message copied, as the first or the last of all.
    fn queue_share(&mut self, key: Key, first: bool) {
        let shares = &mut self.engine.shares;
        if shares.is_empty() {
            self.engine.actions.push(Action::Copy);
        }
        if first { shares.push_front(key) } else { shares.push_back(key) }
    }

    /// The receiver's turn: one piece of its oldest shared message.
    pub(crate) fn copy_piece(&mut self) {
        while let Some(&key) = self.engine.shares.front() {
            if let Some(piece) = self.next_piece(key) {
                self.read_piece(key, piece);
                break;
            }
            self.engine.shares.pop_front();
        }
        if !self.engine.shares.is_empty() {
            self.engine.actions.push(Action::Copy);
        }
    }

    /// The piece of a shared message that the receiver is to read next. None: it is complete, or
    /// waits for its sender.
    fn next_piece(&mut self, key: Key) -> Option<u32> {
        let (_, Fetch { peer, share, .. }) = receive_of(&mut self.engine.requests, key)?;
        let (index, share) = (*peer as usize, share.as_mut()?);
        if share.stage == Stage::Claiming {
            let lane = &self.lanes[self.engine.peers[index].lane as usize];
            let cursor = cursor_at(lane, share.cursor)?;
            let claimed = if share.failed.is_some() {
                Err(cursor.claim_all(share.pieces))
            } else {
                cursor.claim(share.pieces, Side::Front)
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
        let failed = share.failed;
        if let Some((_, fetch)) = receive_of(&mut self.engine.requests, key) {
            fetch.share = None;
        }
        match failed {
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
        let Some(share) = &fetch.share else { return };
        let offset = u64::from(piece) * share.piece;
        let length = share.piece.min(fetch.wanted - offset);
        let to = loan::of_recv(receive, offset as usize, length as usize);
        let address = fetch.rts.address.checked_add(offset);
        let (index, own) = (fetch.peer as usize, fetch.rkey);
        let peer = &self.engine.peers[index];
        let read = match (address, own.or(peer.reach), to) {
            (Some(address), Some(rkey), Some(to)) => {
                let from = RemoteSlice { address, rkey };
                let lane = &mut self.lanes[peer.lane as usize].iface;
                lane.get_zcopy(peer.ep, &[to], from, Token::NONE)
            }
            _ => Err(PostError::BadRemote),
        };
        let error = match read {
            Ok(Posted::Done) => return,
            Err(PostError::PeerFailed) => PeerFailure::Died.into(),
            _ => OpError::BadRemote,
        };
        if let Some((_, Fetch { share: Some(share), .. })) =
            receive_of(&mut self.engine.requests, key)
        {
            // Rule 2: not before the sender has left.
            share.failed = Some(error);
        }
    }

    /// The sender of a shared message has left after writing `done` pieces.
    pub(crate) fn helper_left(&mut self, index: PeerIndex, key: Key, done: u32) {
        let lane = self.engine.peers[index as usize].lane as usize;
        let lane = &mut self.lanes[lane];
        let used = lane
            .cursors
            .as_mut()
            .and_then(|cursors| cursors.used.iter_mut().find(|user| **user == Some((key, index))));
        let Some(user) = used else {
            let why = "it has helped with nothing that it was asked for";
            return self.engine.reject(index, PeerFailure::Damaged, why);
        };
        *user = None;
        let Some((_, Fetch { share: Some(share), .. })) =
            receive_of(&mut self.engine.requests, key)
        else {
            return;
        };
        let Some(cursor) = cursor_at(lane, share.cursor) else { return };
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
            self.queue_share(key, true);
        }
        if !sound {
            let why = "it says that it has written more of a message than it claimed";
            self.engine.reject(index, PeerFailure::Damaged, why);
        }
    }
}

impl Drop for Inner {
    /// Rule 2: a buffer into which a sender may be writing outlives the worker. It is leaked, unless
    /// it is somebody else's, who has waited then.
    fn drop(&mut self) {
        if let Some(report) = self.at_end.0.take() {
            report(&self.engine.counters);
        }
        self.leak_open_buffers();
        while let Some(key) = self.engine.any_shared() {
            let Some((buffer, fetch)) = receive_of(&mut self.engine.requests, key) else { return };
            let Some(share) = fetch.share.take() else { return };
            let peer = &self.engine.peers[fetch.peer as usize];
            let alive = !peer.failure().is_some_and(writes_no_more);
            let cursor = cursor_at(&self.lanes[peer.lane as usize], share.cursor);
            let settled = cursor.is_none_or(|cursor| {
                let back = cursor.claim_all(share.pieces);
                cursor.is_settled(back)
            });
            if alive && !settled && share.stage != Stage::Alone {
                std::mem::forget(std::mem::replace(buffer, RecvBuf::empty()));
            }
        }
    }
}

/// Whether a peer that has failed in this way is known to write nothing any more.
pub(crate) const fn writes_no_more(how: PeerFailure) -> bool {
    matches!(how, PeerFailure::Died | PeerFailure::Closed)
}

/// A cursor of our own.
fn cursor_at(lane: &Lane, cursor: usize) -> Option<Cursor<'_>> {
    let memory = lane.cursors.as_ref()?.memory;
    Cursor::in_view(lane.iface.mem_view(memory)?, cursor * CURSOR_BYTES)
}

/// A receive that reads from its sender.
pub(crate) fn receive_of(requests: &mut Requests, key: Key) -> Option<(&mut RecvBuf, &mut Fetch)> {
    match &mut requests.get_mut(key)?.body {
        Body::Receive(receive) => {
            let fetch = receive.fetch.as_deref_mut()?;
            Some((&mut receive.buffer, fetch))
        }
        _ => None,
    }
}

impl Engine {
    /// A receive whose sender helps.
    fn any_shared(&self) -> Option<Key> {
        let shared = |request: &Request| match &request.body {
            Body::Receive(receive) => receive.fetch.as_ref().is_some_and(|f| f.share.is_some()),
            _ => false,
        };
        self.requests.iter().find(|(_, request)| shared(request)).map(|(key, _)| key)
    }

    /// A sender that had failed otherwise writes no more: what it may have been writing to is free.
    #[cold]
    pub(crate) fn fail_shares(&mut self, index: PeerIndex, how: PeerFailure) {
        let shared = |request: &Request| match &request.body {
            Body::Receive(receive) if !request.done => {
                let written = |f: &Fetch| f.share.is_some() || f.open_buffer.is_some();
                receive.fetch.as_ref().is_some_and(|f| f.peer == index && written(f))
            }
            _ => false,
        };
        let requests = self.requests.iter();
        let lost: Vec<Key> = requests.filter(|(_, r)| shared(r)).map(|(key, _)| key).collect();
        for key in lost {
            self.fail(key, how.into());
        }
    }

    /// The sender of a shared message says that it has left.
    pub(crate) fn helped(&mut self, peer: PeerIndex, header: &AmHeader) -> Option<()> {
        let done = u32::try_from(header[1]).ok()?;
        self.actions.push(Action::HelperLeft { peer, key: Key::from_wire(header[0]), done });
        Some(())
    }
}
