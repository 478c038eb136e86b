//! What the tests are written with: a world of connected members, a sink that records, payloads
//! that prove themselves.
//!
//! A *member* of a world is an interface with its recorder, or for a loopback provider one of
//! several endpoints of the only interface; [`World::ep`] hides the difference.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use bowline_base::buffer::SendBuf;
use bowline_base::view::View;

use super::effort::Idle;
use super::{Group, Member, Opened, Subject, watchdog};
use crate::{
    AmHeader, AmId, Arrival, Caps, EpId, IfaceAttr, LocalSlice, PeerFailure, PostError, Posted,
    Sink, Source, Token, Verdict,
};

/// Longest payload that a test makes where the limit is larger.
pub const LONGEST: usize = 1 << 20;

/// Posts after which a queue that still takes messages counts as one without a bound.
pub const ENDLESS: usize = 1 << 20;

/// Rounds in which failures are still reported after a post failed.
const ROUNDS_AFTER_FAILURE: usize = 200;

/// A sequence of words that seem random, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next word (splitmix64; Steele, Lea and Flood 2014).
    pub const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub const fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }
}

/// The payload of `len` bytes that `seed` stands for.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        out.extend_from_slice(&random.word().to_le_bytes());
    }
    out.truncate(len);
    out
}

/// A header that says what the payload must be: sequence number, seed, and a check over both and
/// the length.
pub const fn header_of(sequence: u64, seed: u64, len: usize) -> AmHeader {
    [sequence, seed, sequence ^ seed.rotate_left(17) ^ (len as u64).rotate_left(40)]
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `am_short`.
    Short,
    /// `am_bcopy`.
    Bcopy,
    /// `am_zcopy`.
    Zcopy,
}

impl Flavour {
    /// The flavours that `attr` offers.
    pub fn offered(attr: &IfaceAttr) -> Vec<Self> {
        [Self::Short, Self::Bcopy, Self::Zcopy]
            .into_iter()
            .filter(|flavour| attr.caps.contains(flavour.bit()))
            .collect()
    }

    /// The capability bit.
    pub const fn bit(self) -> Caps {
        match self {
            Self::Short => Caps::AM_SHORT,
            Self::Bcopy => Caps::AM_BCOPY,
            Self::Zcopy => Caps::AM_ZCOPY,
        }
    }

    /// Shortest and longest payload.
    pub const fn limits(self, attr: &IfaceAttr) -> (usize, usize) {
        let am = &attr.limits.am;
        match self {
            Self::Short => (0, am.max_short),
            Self::Bcopy => (0, am.max_bcopy),
            Self::Zcopy => (am.min_zcopy, am.max_zcopy),
        }
    }

    /// A length that this flavour takes, near `wanted`.
    pub fn fit(self, attr: &IfaceAttr, wanted: usize) -> usize {
        let (min, max) = self.limits(attr);
        wanted.clamp(min, max.min(LONGEST).max(min))
    }
}

/// Lengths worth trying between `min` and `max`: the ends, and the sizes at which copies change
/// their method.
pub fn lengths(min: usize, max: usize) -> Vec<usize> {
    let max = max.min(LONGEST);
    let mut all: Vec<usize> = vec![0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65];
    all.extend([100, 127, 128, 129, 255, 1000, 4095, 4096, 4097, 65535]);
    all.extend([min, min + 1, max.saturating_sub(1), max]);
    all.retain(|len| (min..=max).contains(len));
    all.sort_unstable();
    all.dedup();
    all
}

/// An active message as it arrived.
#[derive(Clone, Debug)]
pub struct ReceivedAm {
    /// Who sent it.
    pub source: Source,
    /// Its handler.
    pub id: AmId,
    /// Its header.
    pub header: AmHeader,
    /// A copy of its payload.
    pub payload: Vec<u8>,
}

impl ReceivedAm {
    /// Fails unless header and payload are what [`header_of`] and [`pattern`] say.
    #[track_caller]
    pub fn verify(&self) {
        let [sequence, seed, _] = self.header;
        let len = self.payload.len();
        assert_eq!(self.header, header_of(sequence, seed, len), "header or length changed");
        assert!(self.payload == pattern(seed, len), "payload of message {sequence} changed");
    }
}

/// A sink that writes down what is reported to it.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Arrivals, in order.
    pub messages: Vec<ReceivedAm>,
    /// Completions, in order.
    pub completed: Vec<(Token, Result<u64, PeerFailure>)>,
    /// Endpoints that may post again, in order.
    pub writable: Vec<EpId>,
    /// Failures, in order.
    pub failed: Vec<(Option<Source>, Option<EpId>, PeerFailure)>,
    /// For each of them, the messages that had arrived from that source.
    pub before: Vec<usize>,
    /// Number of events.
    pub events: u64,
    /// Whether to say `Enough` of each message.
    pub enough: bool,
}

impl Recorder {
    /// Takes the messages out.
    pub fn take(&mut self) -> Vec<ReceivedAm> {
        std::mem::take(&mut self.messages)
    }

    /// How often `ep`, or the peer that sends as `source`, was said to have failed.
    pub fn failures_of(&self, ep: EpId, source: Option<Source>) -> usize {
        let concerns = |failed: &&(Option<Source>, Option<EpId>, PeerFailure)| {
            failed.1 == Some(ep) || (source.is_some() && failed.0 == source)
        };
        self.failed.iter().filter(concerns).count()
    }
}

impl Sink for Recorder {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.events += 1;
        self.messages.push(ReceivedAm {
            source: arrival.source,
            id: arrival.id,
            header: arrival.header,
            payload: arrival.payload.to_vec(),
        });
        if self.enough { Verdict::Enough } else { Verdict::Consumed }
    }

    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.events += 1;
        self.completed.push((token, result));
    }

    fn writable(&mut self, ep: EpId) {
        self.events += 1;
        self.writable.push(ep);
    }

    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.events += 1;
        watchdog::note_failure(format!("{how:?} of {source:?}, {ep:?}"));
        self.failed.push((source, ep, how));
        let of = |message: &&ReceivedAm| source.is_some_and(|source| message.source == source);
        self.before.push(self.messages.iter().filter(of).count());
    }
}

/// An interface with its recorder and the buffers of its operations in flight.
pub struct Peer {
    /// The interface. Stands first, so that it is dropped before the buffers that it may read.
    pub iface: Box<dyn Member>,
    /// What was reported to it.
    pub seen: Recorder,
    /// Buffers that zcopy operations in flight read, by token.
    pub lent: HashMap<Token, SendBuf>,
    next_token: u64,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Peer {
    fn new(iface: Box<dyn Member>) -> Self {
        Self { iface, seen: Recorder::default(), lent: HashMap::new(), next_token: 1 }
    }

    /// A token that no operation of this peer has had.
    pub const fn token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    /// Makes progress and frees the buffers of what has completed. Returns the events.
    #[track_caller]
    pub fn progress(&mut self, budget: u32) -> u32 {
        let (before, done) = (self.seen.events, self.seen.completed.len());
        let said = self.iface.progress(&mut self.seen, budget);
        let seen = self.seen.events - before;
        assert_eq!(u64::from(said), seen, "progress returns how many events it reported");
        assert!(said <= budget, "{said} events with a budget of {budget}");
        for (token, _) in &self.seen.completed[done..] {
            self.lent.remove(token);
        }
        said
    }

    /// Posts an active message once.
    pub fn post(
        &mut self,
        ep: EpId,
        flavour: Flavour,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        match flavour {
            Flavour::Short => self.iface.am_short(ep, id, header, payload),
            Flavour::Bcopy => {
                let mut packed = 0;
                let mut pack = |space: View<'_>| {
                    packed += 1;
                    // A packer may fill what it is given, and counts on all of that being sent.
                    assert_eq!(space.len(), payload.len(), "space for what was asked for");
                    space.copy_in(payload)
                };
                let result = self.iface.am_bcopy(ep, id, header, payload.len(), &mut pack);
                assert_eq!(packed, usize::from(result.is_ok()), "packed once, and only then");
                result.map(|len| assert_eq!(len, payload.len(), "the packed length"))
            }
            Flavour::Zcopy => {
                let buffer = SendBuf::owned(payload.to_vec());
                // SAFETY: the buffer is kept, and left alone, until the operation has ended.
                let slice =
                    unsafe { LocalSlice::of_send(&buffer, 0, buffer.len()) }.expect("all of it");
                let token = self.token();
                let posted = self.iface.am_zcopy(ep, id, header, &[slice], token)?;
                if posted == Posted::InFlight {
                    self.lent.insert(token, buffer);
                }
                Ok(())
            }
        }
    }
}

/// Members that are connected to each other.
pub struct World {
    /// The interfaces; `None` where one was closed or killed.
    pub peers: Vec<Option<Peer>>,
    eps: Vec<Vec<EpId>>,
    of: Subject,
    group: Box<dyn Group>,
    idle: Idle,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peers, eps, of, group: _, idle: _ } = self;
        let mut shown = f.debug_struct("World");
        shown.field("of", of).field("eps", eps).field("peers", peers).finish_non_exhaustive()
    }
}

impl World {
    /// A world of `size` members, each connected to each, itself included for a loopback
    /// provider only.
    pub fn new(of: Subject, size: usize) -> Self {
        Self::connected(of, size, |_, _| true)
    }

    /// The same for a test that kills members.
    pub fn to_kill(of: Subject, size: usize) -> Self {
        Self::of_group(of, of.open_to_kill(if of.loopback { 1 } else { size }), size, |_, _| true)
    }

    /// The same, where `connects` says who connects to whom. Of a loopback provider all are.
    pub fn connected(of: Subject, size: usize, connects: impl Fn(usize, usize) -> bool) -> Self {
        Self::of_group(of, of.open(if of.loopback { 1 } else { size }), size, connects)
    }

    fn of_group(
        of: Subject,
        (group, ifaces): Opened,
        size: usize,
        connects: impl Fn(usize, usize) -> bool,
    ) -> Self {
        assert_eq!(ifaces.len(), if of.loopback { 1 } else { size }, "as many as asked for");
        let mut peers: Vec<Peer> = ifaces.into_iter().map(Peer::new).collect();
        let addresses: Vec<Vec<u8>> = peers.iter().map(|peer| peer.iface.address()).collect();
        let eps = if of.loopback {
            let connect = |_| peers[0].iface.connect(&addresses[0]).expect("reaches itself");
            vec![(0..size).map(connect).collect()]
        } else {
            let none = EpId(u32::MAX);
            let mut eps = vec![vec![none; size]; size];
            for (from, row) in eps.iter_mut().enumerate() {
                for (to, ep) in row.iter_mut().enumerate() {
                    if to == from || !connects(from, to) {
                        continue;
                    }
                    *ep = peers[from].iface.connect(&addresses[to]).expect("peers are reachable");
                }
            }
            eps
        };
        let peers = peers.into_iter().map(Some).collect();
        let mut world = Self { peers, eps, of, group, idle: Idle::default() };
        // A transport that shakes hands does so now, not in the midst of a test.
        world.rounds(4);
        world.until(|w| w.peers.iter().flatten().all(|peer| w.group.settled(&*peer.iface)));
        world
    }

    /// Whose interfaces these are.
    pub const fn of(&self) -> Subject {
        self.of
    }

    /// A member's interface and recorder.
    #[track_caller]
    pub fn peer(&mut self, member: usize) -> &mut Peer {
        self.peers[self.of.place(member)].as_mut().expect("the member is alive")
    }

    /// The endpoint of `from` to `to`.
    pub fn ep(&self, from: usize, to: usize) -> EpId {
        if self.of.loopback {
            self.eps[0][(from + to) % self.eps[0].len()]
        } else {
            self.eps[from][to]
        }
    }

    /// Replaces the endpoint of `from` to `to`.
    pub fn set_ep(&mut self, from: usize, to: usize, ep: EpId) {
        if self.of.loopback {
            let places = self.eps[0].len();
            self.eps[0][(from + to) % places] = ep;
        } else {
            self.eps[from][to] = ep;
        }
    }

    /// What all members' interfaces say of themselves.
    pub fn attr(&self) -> IfaceAttr {
        let peer = self.peers.iter().flatten().next().expect("somebody is alive");
        peer.iface.attr().clone()
    }

    /// The number under which messages of `from` arrive at `at`, if that is known beforehand.
    pub fn source(&mut self, at: usize, from: usize) -> Option<Source> {
        let address = self.peer(from).iface.address();
        self.peer(at).iface.source_of(&address)
    }

    /// One round of progress of every member. Returns the events.
    #[track_caller]
    pub fn round(&mut self) -> u32 {
        let mut events = 0;
        for peer in self.peers.iter_mut().flatten() {
            events += peer.progress(64);
        }
        self.group.step();
        self.idle.after(events);
        events
    }

    /// Some rounds, whatever happens.
    #[track_caller]
    pub fn rounds(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.round();
        }
    }

    /// Some rounds in which nobody but `member` makes progress.
    #[track_caller]
    pub fn rounds_of(&mut self, member: usize, rounds: usize) {
        for _ in 0..rounds {
            let events = self.peer(member).progress(64);
            self.group.step();
            self.idle.after(events);
        }
    }

    /// A round in which nobody but `member` makes progress, for one event at most.
    #[track_caller]
    pub fn one_event(&mut self, member: usize) {
        let events = self.peer(member).progress(1);
        self.group.step();
        self.idle.after(events);
    }

    /// Such rounds until `done` says so.
    #[track_caller]
    pub fn until_one_event(&mut self, member: usize, mut done: impl FnMut(&mut Self) -> bool) {
        while !done(self) {
            self.one_event(member);
        }
    }

    /// Rounds until `done` says so; the watchdog ends what never does.
    #[track_caller]
    pub fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        while !done(self) {
            self.round();
        }
    }

    /// Posts once.
    pub fn post(
        &mut self,
        from: usize,
        to: usize,
        flavour: Flavour,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let ep = self.ep(from, to);
        self.peer(from).post(ep, flavour, id, header, payload)
    }

    /// Posts a message that proves itself, making progress as long as there is no space.
    #[track_caller]
    pub fn send(&mut self, from: usize, to: usize, flavour: Flavour, sequence: u64, len: usize) {
        let seed = sequence ^ ((from as u64) << 48) ^ ((to as u64) << 56);
        let (payload, header) = (pattern(seed, len), header_of(sequence, seed, len));
        let id = AmId::new((sequence % 32) as u8);
        self.until(|world| match world.post(from, to, flavour, id, &header, &payload) {
            Ok(()) => true,
            Err(PostError::NoResource) => false,
            Err(error) => world.must_not_fail(from, to, error),
        });
    }

    /// Ends the test because a post failed and always will, with what was reported of failed peers.
    #[track_caller]
    pub fn must_not_fail(&mut self, from: usize, to: usize, error: PostError) -> ! {
        // A post may fail before the failure is reported, and the other side may know why.
        self.rounds(ROUNDS_AFTER_FAILURE);
        let ep = self.ep(from, to);
        panic!("a post of {from} to {to}, {ep:?}: {error}; failures reported:{}", self.failures());
    }

    /// Ends the test if a peer was reported as failed, which those that wait for it never hear of.
    #[track_caller]
    pub fn nobody_failed(&self) {
        let failures = self.failures();
        assert!(
            failures.is_empty(),
            "nobody closed or died, and yet there were reported:{failures}"
        );
    }

    /// The failures that were reported to each member, in lines.
    fn failures(&self) -> String {
        let mut reported = String::new();
        for (place, peer) in self.peers.iter().enumerate() {
            let Some(Peer { seen: Recorder { failed, .. }, .. }) = peer else { continue };
            for (source, ep, how) in failed {
                let _ = write!(reported, "\n  to {place}: {how:?} of {source:?}, {ep:?}");
            }
        }
        reported
    }

    /// Rounds until `member` has received `count` messages that nobody took yet; takes them.
    #[track_caller]
    pub fn receive(&mut self, member: usize, count: usize) -> Vec<ReceivedAm> {
        self.until(|world| world.peer(member).seen.messages.len() >= count);
        let messages = self.peer(member).seen.take();
        assert_eq!(messages.len(), count, "more messages than were sent");
        messages
    }

    /// Posts to `to` until the queue is full, and returns how many messages were taken. Only the
    /// sender makes progress, so nothing leaves the queue. Sequence numbers begin at `first`.
    #[track_caller]
    pub fn fill(
        &mut self,
        from: usize,
        to: usize,
        flavour: Flavour,
        first: u64,
        len: usize,
    ) -> usize {
        let posted = self.fill_most(from, to, flavour, first, len, ENDLESS);
        assert!(
            posted < ENDLESS,
            "{ENDLESS} messages of {len} bytes found space: every queue needs a bound"
        );
        posted
    }

    /// The same, of `most` messages at most.
    #[track_caller]
    pub fn fill_most(
        &mut self,
        from: usize,
        to: usize,
        flavour: Flavour,
        first: u64,
        len: usize,
        most: usize,
    ) -> usize {
        for posted in 0..most {
            let sequence = first + posted as u64;
            let (payload, header) = (pattern(sequence, len), header_of(sequence, sequence, len));
            match self.post(from, to, flavour, AmId::new(1), &header, &payload) {
                Ok(()) => {}
                Err(PostError::NoResource) => return posted,
                Err(error) => self.must_not_fail(from, to, error),
            }
        }
        most
    }

    /// Rounds until `token` of `member` has completed; returns the result and forgets it.
    #[track_caller]
    pub fn wait(&mut self, member: usize, token: Token) -> Result<u64, PeerFailure> {
        let find = |world: &mut Self| {
            world.peer(member).seen.completed.iter().position(|(done, _)| *done == token)
        };
        self.until(|world| find(world).is_some());
        let place = find(self).expect("found above");
        self.peer(member).seen.completed.remove(place).1
    }

    /// Waits if the operation is under way.
    #[track_caller]
    pub fn finish(&mut self, member: usize, token: Token, posted: Result<Posted, PostError>) {
        if posted.expect("the operation is accepted") == Posted::InFlight {
            self.wait(member, token).expect("the operation succeeds");
        }
    }

    /// The bytes of the key that opens `window`, a window of member 1.
    #[track_caller]
    pub fn packed_key(&mut self, window: &super::rma::Window) -> Vec<u8> {
        self.peer(1).iface.rkey_pack(window.handle()).expect("a handle has a key")
    }

    /// Drops a member's interface in order.
    pub fn close(&mut self, member: usize) {
        self.peers[self.of.place(member)] = None;
    }

    /// Ends a member as a crash would.
    pub fn kill(&mut self, member: usize) {
        let peer = self.peers[self.of.place(member)].take().expect("the member is alive");
        // The buffers that it lent live on in a crashed process's memory, too.
        std::mem::forget(peer.lent);
        self.group.kill(member, peer.iface);
    }
}
