//! One transport for two users: an interface that stands on several transports has it as one of its
//! paths, and beside that it is a lane of its own for what such an interface does not carry.
//!
//! A network is opened twice for that. Memory cannot be: a rank has one place in its node's memory, with
//! one doorbell and one receive queue. So two *faces* share the transport, and each is an interface of
//! its own:
//!
//! ```text
//!   several as one ── path ──┐                  ┌── messages by their ids ──────► path, or lane
//!                            ├──► transport ────┼── completions ────────────────► whose token it was
//!            engine ── lane ─┘                  └── failures, room ─────────────► whose endpoint it is
//! ```
//! Whoever looks takes its own at once, within the transport's call, and lays what is the other's on the
//! other's *shelf*. The path looks; the lane looks only where the path has not since its last time, so
//! that the path's messages are not copied. A face whose other has a full shelf does not look: room then
//! runs out at the senders, as for any receiver that does not come.
//!
//! An endpoint of the transport is one of both faces, each with a state of its own. What one face gives
//! up stays open to the other.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Doorbell;
use bowline_base::slab::{Key, Slab};

use crate::{
    AmHeader, AmId, Arrival, AtomicOps, Caps, EpId, IfaceAttr, Immediate, Limits, OpLimits,
    OpenError, PeerFailure, PostError, Sink, Source, Token, Verdict,
};

mod contract;

/// Events on a shelf from which on nobody looks for more.
const FULL: usize = 1024;

/// What a path is asked for.
const OF_PATH: Caps = Caps::AM_SHORT
    .union(Caps::AM_BCOPY)
    .union(Caps::AM_ORDERED)
    .union(Caps::GET_ZCOPY)
    .union(Caps::EXPOSE)
    .union(Caps::RMA_REGISTERED)
    .union(Caps::RMA_WAKES)
    .union(Caps::CARRIES)
    .union(Caps::PEER_FAILURE)
    .union(Caps::EP_CHECK)
    .union(Caps::EVENT_FD)
    .union(Caps::CONNECT_TO_IFACE)
    .union(Caps::INTER_NODE);

/// What the lane has not: memory is lent with keys of its own for the path only, and a turn cannot wait for the lock that the
/// faces share, nor could it set aside what is not its own.
const NOT_OF_LANE: Caps =
    Caps::EXPOSE.union(Caps::LEND).union(Caps::TURN).union(Caps::TAG_OFFLOAD).union(Caps::AM_ZCOPY);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Path = 0,
    Lane = 1,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Path, Self::Lane];

    const fn other(self) -> Self {
        match self {
            Self::Path => Self::Lane,
            Self::Lane => Self::Path,
        }
    }
}

/// What waits for a face.
#[derive(Debug)]
enum Event {
    Message { source: Source, id: AmId, header: AmHeader, payload: Vec<u8> },
    Completed(Token, Result<u64, PeerFailure>),
    Writable(EpId),
    Failed(Option<Source>, Option<EpId>, PeerFailure),
}

/// An endpoint as one face has it.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    open: bool,
    failed: bool,
    /// Asked to be told when there is room.
    asked: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    /// By [`Side`].
    seen: [Seen; 2],
    source: Option<Source>,
}

/// Whose a completion is, and under which name.
type Owner = (Side, Token);

struct Core {
    inner: Box<dyn Immediate>,
    table: Table,
}

/// What is known of the two faces.
struct Table {
    /// Whether a message is the path's.
    of_path: fn(AmId) -> bool,
    shelves: [VecDeque<Event>; 2],
    endpoints: Vec<Shared>,
    tokens: Slab<Owner>,
    armed: [bool; 2],
    gone: [bool; 2],
    /// The path has looked since the lane did.
    looked: bool,
}

impl Table {
    fn put(&mut self, side: Side, event: Event) {
        if !self.gone[side as usize] {
            self.shelves[side as usize].push_back(event);
        }
    }

    fn seen(&mut self, side: Side, ep: EpId) -> Option<&mut Seen> {
        self.endpoints.get_mut(ep.0 as usize).map(|shared| &mut shared.seen[side as usize])
    }

    /// Whether `side` may post to `ep`.
    fn admit(&mut self, side: Side, ep: EpId) -> Result<(), PostError> {
        match self.seen(side, ep) {
            Some(Seen { failed: true, open: true, .. }) => Err(PostError::PeerFailed),
            Some(Seen { open: true, .. }) => Ok(()),
            _ => Err(PostError::BadEndpoint),
        }
    }

    fn own(&mut self, side: Side, token: Token) -> Token {
        if token == Token::NONE {
            return Token::NONE;
        }
        Token(self.tokens.insert((side, token)).to_wire())
    }

    /// The operation will not complete by an event.
    fn disown(&mut self, token: Token) {
        if token != Token::NONE {
            self.tokens.remove(Key::from_wire(token.0));
        }
    }
}

/// The transport's events, to the one who looks or to the other's shelf.
struct Sorter<'a> {
    side: Side,
    sink: &'a mut dyn Sink,
    table: &'a mut Table,
    /// Events that the sink was given.
    given: u32,
}

impl Sorter<'_> {
    fn hand_on(&mut self, side: Side, event: Event) {
        if side != self.side {
            return self.table.put(side, event);
        }
        self.given += 1;
        give(self.sink, event);
    }
}

/// Tells a sink of what was laid aside for it.
fn give(sink: &mut dyn Sink, event: Event) {
    match event {
        Event::Message { source, id, header, payload } => {
            let mut payload = RecvBuf::owned(payload);
            let arrival = Arrival { source, id, header, payload: payload.view(), desc: None };
            // Without a descriptor there is nothing to keep.
            let (Verdict::Consumed | Verdict::Keep) = sink.am(arrival);
        }
        Event::Completed(token, result) => sink.completed(token, result),
        Event::Writable(ep) => sink.writable(ep),
        Event::Failed(source, ep, how) => sink.failed(source, ep, how),
    }
}

impl Sink for Sorter<'_> {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        let side = if (self.table.of_path)(arrival.id) { Side::Path } else { Side::Lane };
        if side == self.side {
            self.given += 1;
            let (Verdict::Consumed | Verdict::Keep) =
                self.sink.am(Arrival { desc: None, ..arrival });
            return Verdict::Consumed;
        }
        let Arrival { source, id, header, payload, .. } = arrival;
        self.table.put(side, Event::Message { source, id, header, payload: payload.to_vec() });
        Verdict::Consumed
    }

    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        if let Some((side, token)) = self.table.tokens.remove(Key::from_wire(token.0)) {
            self.hand_on(side, Event::Completed(token, result));
        }
    }

    fn writable(&mut self, ep: EpId) {
        for side in Side::BOTH {
            let asked =
                self.table.seen(side, ep).is_some_and(|seen| std::mem::take(&mut seen.asked));
            if asked {
                self.hand_on(side, Event::Writable(ep));
            }
        }
    }

    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        for side in Side::BOTH {
            let seen = ep.and_then(|ep| self.table.seen(side, ep)).filter(|seen| seen.open);
            let told = seen.map(|seen| {
                seen.asked = false;
                std::mem::replace(&mut seen.failed, true)
            });
            let ep = ep.filter(|_| told == Some(false));
            // Who gave the endpoint up was told then.
            if told != Some(true) && (ep.is_some() || source.is_some()) {
                self.hand_on(side, Event::Failed(source, ep, how));
            }
        }
    }
}

/// One of the two interfaces that share a transport. See the module's text.
pub struct Face {
    side: Side,
    core: Arc<Mutex<Core>>,
    attr: IfaceAttr,
    bell: Option<Doorbell>,
    event: Option<OwnedFd>,
}

impl std::fmt::Debug for Face {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Face").field("side", &self.side).field("attr", &self.attr).finish()
    }
}

/// The path and the lane that `transport` is from now on; messages whose ids are `of_path` are the
/// path's.
pub fn twofold(transport: Box<dyn Immediate>, of_path: fn(AmId) -> bool) -> (Face, Face) {
    let attr = transport.attr().clone();
    let bell = transport.doorbell().cloned();
    let table = Table {
        of_path,
        shelves: [VecDeque::new(), VecDeque::new()],
        endpoints: Vec::new(),
        tokens: Slab::default(),
        armed: [false; 2],
        gone: [false; 2],
        looked: false,
    };
    let core = Core { inner: transport, table };
    let core = Arc::new(Mutex::new(core));
    let none = AtomicOps::empty();
    let mut limits = Limits { am: attr.limits.am, ..Limits::default() };
    (limits.am.max_zcopy, limits.am.max_iov) = (0, 0);
    let get = attr.limits.get;
    if attr.caps.contains(Caps::GET_ZCOPY) {
        limits.get = OpLimits { max_short: 0, max_bcopy: 0, ..get };
    }
    let of_path = IfaceAttr {
        caps: attr.caps & OF_PATH,
        limits,
        atomic_post: none,
        atomic_fetch: none,
        ..attr.clone()
    };
    let mut of_lane = IfaceAttr { caps: attr.caps - NOT_OF_LANE, ..attr };
    (of_lane.limits.am.max_zcopy, of_lane.limits.am.max_iov) = (0, 0);
    let path =
        Face { side: Side::Path, core: Arc::clone(&core), attr: of_path, bell: None, event: None };
    let lane = Face { side: Side::Lane, core, attr: of_lane, bell, event: None };
    (path, lane)
}

impl Face {
    /// Only this face's worker uses the transport, and no call into it comes back here: the lock is
    /// free, but for the other thread of a worker that moves between two.
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, caps: Caps) -> bool {
        self.attr.caps.contains(caps)
    }

    /// What was laid aside for this face, at most `budget` events.
    fn take_down(&self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        while given < budget {
            let Some(event) = self.core().table.shelves[self.side as usize].pop_front() else {
                break;
            };
            give(sink, event);
            given += 1;
        }
        given
    }

    /// Whether it is this face that looks.
    fn may_look(&self, table: &mut Table) -> bool {
        match self.side {
            Side::Path => table.looked = true,
            Side::Lane if std::mem::take(&mut table.looked) => return false,
            Side::Lane => {}
        }
        table.shelves[self.side.other() as usize].len() < FULL
    }

    fn look(&self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let core = &mut *self.core();
        if !self.may_look(&mut core.table) {
            return 0;
        }
        let mut sorter = Sorter { side: self.side, sink, table: &mut core.table, given: 0 };
        core.inner.progress(&mut sorter, budget);
        sorter.given
    }

    fn event_descriptor(&mut self) -> Result<&OwnedFd, OpenError> {
        if self.event.is_none() {
            let mut core = self.core();
            let fd = core.inner.event_fd()?.as_fd().try_clone_to_owned();
            drop(core);
            let act = "copy the event descriptor";
            let failed = |source| OpenError::System { act, source };
            self.event = Some(fd.map_err(failed)?);
        }
        Ok(self.event.as_ref().expect("made in the lines above"))
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        let core = &mut *self.core();
        core.table.gone[self.side as usize] = true;
        core.table.shelves[self.side as usize].clear();
        for ep in 0..core.table.endpoints.len() as u32 {
            core.close(self.side, EpId(ep));
        }
        core.rest(self.side);
    }
}

impl Core {
    /// `side` has done with an endpoint; so has the transport, when both have.
    fn close(&mut self, side: Side, ep: EpId) {
        let Some(seen) = self.table.seen(side, ep).filter(|seen| seen.open) else { return };
        (seen.open, seen.asked) = (false, false);
        let shared = &mut self.table.endpoints[ep.0 as usize];
        if shared.seen.iter().all(|seen| !seen.open) {
            *shared = Shared::default();
            self.inner.disconnect(ep);
        }
    }

    /// `side` is awake; the transport is, when no face sleeps.
    fn rest(&mut self, side: Side) {
        let slept = self.table.armed.contains(&true);
        self.table.armed[side as usize] = false;
        if slept && !self.table.armed.contains(&true) {
            self.inner.disarm();
        }
    }
}
