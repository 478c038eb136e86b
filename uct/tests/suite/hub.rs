//! A transport through a lock, for the suite's own tests: as plain as the contract allows, and
//! with faults to order. It is no provider for anybody: every post takes the lock of all members.
//!
//! A member's inbox holds [`SLOTS`] messages. Zcopy completes when the receiver has seen the message. There are no one-sided operations.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::{Doorbell, Sleep};
use bowline_base::view::View;
use bowline_uct::conformance::Provider;
use bowline_uct::{
    AmHeader, AmId, Armed, Arrival, AtomicOps, Caps, EpId, Iface, IfaceAttr, Limits, LocalSlice,
    MdAttr, MemError, MemHandle, MemoryDomain, OneSided, OpLimits, OpenError, PeerFailure,
    PostError, Posted, RkeyId, SignalSafe, Sink, Source, Token, Unreachable, Verdict, Wakeup,
    forward, lacks,
};

const SLOTS: usize = 32;
const SHORT: usize = 48;
const LONG: usize = 4096;

/// What is wrong with a hub.
pub(crate) type Fault = u8;
/// Nothing.
pub(crate) const NONE: Fault = 0;
/// Every hundredth message overtakes its predecessor.
pub(crate) const REORDER: Fault = 1;
/// Every hundredth message is lost.
pub(crate) const LOSE: Fault = 2;
/// A refused message arrives nevertheless.
pub(crate) const LEAK: Fault = 3;
/// A receiver is rung before its message is there.
pub(crate) const RING_EARLY: Fault = 4;
/// The last byte of long payloads is changed.
pub(crate) const DAMAGE: Fault = 6;
/// A death is reported to each survivor twice.
pub(crate) const TELL_TWICE: Fault = 7;
/// Endpoints are reported as writable in reverse.
pub(crate) const REVERSE: Fault = 8;
/// The budget is overdrawn by one.
pub(crate) const OVERDRAW: Fault = 10;
/// Operations in flight to a peer that fails are not answered.
pub(crate) const FORGET_TOKENS: Fault = 11;
/// The header of messages with id 31 loses a bit.
pub(crate) const HEADER: Fault = 12;
/// What lies in an inbox is dropped when its sender is seen to have closed.
pub(crate) const DROP_UNREAD: Fault = 13;
/// Who has closed is reported as dead.
pub(crate) const CALL_DEAD: Fault = 14;

struct Letter {
    from: usize,
    id: AmId,
    header: AmHeader,
    payload: Vec<u8>,
    token: Option<Token>,
}

#[derive(Clone, Copy, PartialEq)]
enum Life {
    Alive,
    Closed,
    Died,
}

struct Member {
    inbox: VecDeque<Letter>,
    /// Tokens of this member's messages that have been received.
    done: VecDeque<Token>,
    life: Life,
    doorbell: Doorbell,
}

struct Shared {
    members: Vec<Member>,
    posts: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Free,
    Open,
    Failed,
}

struct Endpoint {
    to: usize,
    state: State,
    in_flight: Vec<Token>,
}

/// An interface of a hub.
pub(crate) struct HubIface<const FAULT: Fault> {
    shared: Arc<Mutex<Shared>>,
    me: usize,
    attr: IfaceAttr,
    endpoints: Vec<Endpoint>,
    waiters: VecDeque<EpId>,
    events: VecDeque<Event>,
    /// Members of which messages have come, without those whose end was noted.
    heard: Vec<usize>,
    doorbell: Doorbell,
}

/// What is to be reported.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    Done(Token),
    Lost(Token, PeerFailure),
    Failed(usize, Option<EpId>, PeerFailure),
}

/// A group of members of a hub.
pub(crate) struct Hub<const FAULT: Fault>(Arc<Mutex<Shared>>);

impl<const FAULT: Fault> Provider for Hub<FAULT> {
    type Iface = HubIface<FAULT>;
    const NAME: &'static str = "hub";
    const CAN_KILL: bool = true;

    fn open(size: usize) -> (Self, Vec<Self::Iface>) {
        let member = |_| Member {
            inbox: VecDeque::new(),
            done: VecDeque::new(),
            life: Life::Alive,
            doorbell: Doorbell::private(),
        };
        let members = (0..size).map(member).collect();
        let shared = Arc::new(Mutex::new(Shared { members, posts: 0 }));
        let open = |me| HubIface::open(shared.clone(), me);
        let ifaces = (0..size).map(open).collect();
        (Self(shared), ifaces)
    }

    fn kill(&mut self, index: usize, iface: Self::Iface) {
        end(&self.0, index, Life::Died);
        drop(iface);
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn end(shared: &Mutex<Shared>, index: usize, how: Life) {
    let mut shared = lock(shared);
    if shared.members[index].life == Life::Alive {
        shared.members[index].life = how;
        shared.members.iter().for_each(|member| member.doorbell.ring());
    }
}

impl<const FAULT: Fault> Drop for HubIface<FAULT> {
    fn drop(&mut self) {
        end(&self.shared, self.me, Life::Closed);
    }
}

impl<const FAULT: Fault> HubIface<FAULT> {
    fn open(shared: Arc<Mutex<Shared>>, me: usize) -> Self {
        let doorbell = lock(&shared).members[me].doorbell.clone();
        let am = OpLimits {
            max_short: SHORT,
            max_bcopy: LONG,
            min_zcopy: 1,
            max_zcopy: LONG * 2,
            max_iov: 3,
            opt_align: 1,
        };
        let attr = IfaceAttr {
            provider: "hub",
            device: "memory".to_owned(),
            caps: Caps::AM_SHORT
                | Caps::AM_BCOPY
                | Caps::AM_ZCOPY
                | Caps::AM_ORDERED
                | Caps::PEER_FAILURE
                | Caps::EP_CHECK
                | Caps::WAKEUP
                | Caps::EVENT_FD,
            limits: Limits { am, ..Limits::default() },
            atomics: AtomicOps::empty(),
            max_endpoints: 1000,
            receive_bytes: SLOTS * LONG,
        };
        Self {
            shared,
            me,
            attr,
            endpoints: Vec::new(),
            waiters: VecDeque::new(),
            events: VecDeque::new(),
            heard: Vec::new(),
            doorbell,
        }
    }

    fn peer_of(&self, address: &[u8]) -> Result<usize, Unreachable> {
        let Ok([b'h', b'u', b'b', index, check]) = <[u8; 5]>::try_from(address) else {
            return Err(Unreachable::because("these bytes are no address of a hub"));
        };
        let members = lock(&self.shared).members.len();
        if check != !index || usize::from(index) >= members {
            return Err(Unreachable::because("the address is damaged: no such member"));
        }
        Ok(usize::from(index))
    }

    fn endpoint(&self, ep: EpId) -> Result<usize, PostError> {
        match self.endpoints.get(ep.0 as usize) {
            Some(endpoint) if endpoint.state == State::Open => {
                if lock(&self.shared).members[endpoint.to].life == Life::Alive {
                    Ok(endpoint.to)
                } else {
                    Err(PostError::PeerFailed)
                }
            }
            Some(endpoint) if endpoint.state == State::Failed => Err(PostError::PeerFailed),
            _ => Err(PostError::BadEndpoint),
        }
    }

    fn post(&mut self, to: usize, letter: impl FnOnce() -> Letter) -> Result<(), PostError> {
        let mut shared = lock(&self.shared);
        let full = shared.members[to].inbox.len() >= SLOTS;
        if full && FAULT != LEAK {
            return Err(PostError::NoResource);
        }
        shared.posts += 1;
        let hundredth = shared.posts.is_multiple_of(100);
        if FAULT == RING_EARLY {
            shared.members[to].doorbell.ring();
            drop(shared);
            std::thread::yield_now();
            lock(&self.shared).members[to].inbox.push_back(letter());
            return Ok(());
        }
        let mut letter = letter();
        if FAULT == DAMAGE && letter.payload.len() > 1000 {
            *letter.payload.last_mut().expect("longer than 1000") ^= 1;
        }
        if FAULT == HEADER && letter.id.get() == 31 {
            letter.header[0] &= !1;
        }
        let member = &mut shared.members[to];
        if FAULT == REORDER && hundredth && !member.inbox.is_empty() {
            let before = member.inbox.len() - 1;
            member.inbox.insert(before, letter);
        } else if FAULT != LOSE || !hundredth {
            member.inbox.push_back(letter);
        }
        member.doorbell.ring();
        if full { Err(PostError::NoResource) } else { Ok(()) }
    }

    /// How a member has ended; of one that lives, that it was given up.
    fn how(&self, member: usize) -> PeerFailure {
        match lock(&self.shared).members[member].life {
            Life::Closed if FAULT != CALL_DEAD => PeerFailure::Closed,
            _ => PeerFailure::Died,
        }
    }

    fn fail(&mut self, index: usize) {
        let ep = EpId(index as u32);
        let to = self.endpoints[index].to;
        let how = self.how(to);
        self.endpoints[index].state = State::Failed;
        for token in std::mem::take(&mut self.endpoints[index].in_flight) {
            if FAULT != FORGET_TOKENS {
                self.events.push_back(Event::Lost(token, how));
            }
        }
        self.events.push_back(Event::Failed(to, Some(ep), how));
        if FAULT == TELL_TWICE {
            self.events.push_back(Event::Failed(to, Some(ep), how));
        }
        self.waiters.retain(|&waiting| waiting != ep);
    }

    /// What is known of deaths and completions, turned into events.
    fn poll(&mut self) {
        let mut shared = lock(&self.shared);
        let done: Vec<Token> = shared.members[self.me].done.drain(..).collect();
        let gone: Vec<usize> = (0..self.endpoints.len())
            .filter(|&index| {
                let endpoint = &self.endpoints[index];
                endpoint.state == State::Open && shared.members[endpoint.to].life != Life::Alive
            })
            .collect();
        let inbox = &shared.members[self.me].inbox;
        let ended = |member: &usize| {
            let unread = inbox.iter().any(|letter| letter.from == *member);
            shared.members[*member].life != Life::Alive && !unread
        };
        let (ended, living) = std::mem::take(&mut self.heard).into_iter().partition(ended);
        let ended: Vec<usize> = ended;
        self.heard = living;
        if FAULT == DROP_UNREAD {
            let closed: Vec<bool> =
                shared.members.iter().map(|member| member.life == Life::Closed).collect();
            shared.members[self.me].inbox.retain(|letter| !closed[letter.from]);
        }
        drop(shared);
        for token in done {
            // Whose endpoint failed meanwhile was answered then.
            let found = self.endpoints.iter_mut().find_map(|endpoint| {
                let place = endpoint.in_flight.iter().position(|&other| other == token)?;
                Some(endpoint.in_flight.swap_remove(place))
            });
            if found.is_some() {
                self.events.push_back(Event::Done(token));
            }
        }
        // One without an endpoint to it is known by what it has sent.
        for member in ended {
            if !self.endpoints.iter().any(|e| e.to == member && e.state != State::Free) {
                self.events.push_back(Event::Failed(member, None, self.how(member)));
            }
        }
        gone.into_iter().for_each(|index| self.fail(index));
    }

    fn report_writable(&mut self, sink: &mut dyn Sink) -> u32 {
        let writable = |ep: &EpId| {
            let to = self.endpoints[ep.0 as usize].to;
            lock(&self.shared).members[to].inbox.len() < SLOTS
        };
        let place = if FAULT == REVERSE {
            self.waiters.iter().rposition(writable)
        } else {
            self.waiters.iter().position(writable)
        };
        let Some(ep) = place.and_then(|place| self.waiters.remove(place)) else {
            return 0;
        };
        sink.writable(ep);
        1
    }

    /// Hands one message to the sink, if there is one. What that says of it.
    fn deliver(&mut self, sink: &mut dyn Sink) -> Option<Verdict> {
        let mut shared = lock(&self.shared);
        let mut letter = shared.members[self.me].inbox.pop_front()?;
        if let Some(token) = letter.token {
            shared.members[letter.from].done.push_back(token);
            shared.members[letter.from].doorbell.ring();
        }
        drop(shared);
        if !self.heard.contains(&letter.from) {
            self.heard.push(letter.from);
        }
        let len = letter.payload.len();
        // SAFETY: the vector lives until the end of the call and is not touched meanwhile.
        let payload = unsafe { View::from_raw(letter.payload.as_mut_ptr(), len) };
        let source = Source(letter.from as u32);
        let (id, header) = (letter.id, letter.header);
        Some(sink.am(Arrival { source, id, header, payload }))
    }
}

impl<const FAULT: Fault> MemoryDomain for HubIface<FAULT> {
    lacks! { mem_expose mem_lend puts_end_last }

    fn md_attr(&self) -> MdAttr {
        MdAttr::default()
    }

    fn mem_alloc(&mut self, _: usize) -> Result<MemHandle, MemError> {
        Err(MemError::Unsupported("allocate"))
    }

    fn mem_register(&mut self, _: RecvBuf) -> Result<MemHandle, MemError> {
        Err(MemError::Unsupported("register"))
    }

    fn mem_view(&self, _: MemHandle) -> Option<View<'_>> {
        None
    }

    fn mem_release(&mut self, _: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        Err(MemError::NoSuch)
    }

    fn rkey_pack(&self, _: MemHandle) -> Result<Vec<u8>, MemError> {
        Err(MemError::NoSuch)
    }

    fn rkey_unpack(&mut self, _: EpId, _: &[u8]) -> Result<RkeyId, MemError> {
        Err(MemError::Unsupported("open keys"))
    }

    fn rkey_ptr(&self, _: RkeyId, _: u64, _: usize) -> Option<View<'_>> {
        None
    }

    fn rkey_release(&mut self, _: RkeyId) {}

    fn rkey_of(&self, _: u64, _: usize, _: &mut [u8]) -> Option<usize> {
        None
    }
}

// SAFETY: slices are copied in the call that posts, or in that which delivers them and reports it.
unsafe impl<const FAULT: Fault> Iface for HubIface<FAULT> {
    lacks! { explain }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        vec![b'h', b'u', b'b', self.me as u8, !(self.me as u8)]
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        self.peer_of(address).map(|_| ())
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let to = self.peer_of(address)?;
        if lock(&self.shared).members[to].life != Life::Alive {
            return Err(OpenError::PeerFailed(self.how(to)));
        }
        let endpoint = Endpoint { to, state: State::Open, in_flight: Vec::new() };
        let free = self.endpoints.iter().position(|endpoint| endpoint.state == State::Free);
        let index = free.unwrap_or(self.endpoints.len());
        match free {
            Some(index) => self.endpoints[index] = endpoint,
            None => self.endpoints.push(endpoint),
        }
        Ok(EpId(index as u32))
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        self.peer_of(address).ok().map(|index| Source(index as u32))
    }

    fn disconnect(&mut self, ep: EpId) {
        if let Some(endpoint) = self.endpoints.get_mut(ep.0 as usize) {
            endpoint.state = State::Free;
        }
        self.waiters.retain(|&waiting| waiting != ep);
        self.events
            .retain(|event| !matches!(event, Event::Failed(_, Some(other), _) if *other == ep));
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let to = self.endpoint(ep)?;
        if payload.len() > SHORT {
            return Err(PostError::TooLong);
        }
        let (from, header, payload) = (self.me, *header, payload.to_vec());
        self.post(to, || Letter { from, id, header, payload, token: None })
    }

    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        let to = self.endpoint(ep)?;
        if max_len > LONG {
            return Err(PostError::TooLong);
        }
        let (from, header, mut packed) = (self.me, *header, 0);
        self.post(to, || {
            let mut payload = vec![0; max_len];
            // SAFETY: the vector is used through the view only until it is truncated.
            packed = pack(unsafe { View::from_raw(payload.as_mut_ptr(), max_len) });
            payload.truncate(packed);
            Letter { from, id, header, payload, token: None }
        })?;
        Ok(packed)
    }

    fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        pieces: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let to = self.endpoint(ep)?;
        if pieces.len() > 3 {
            return Err(PostError::BadArgument);
        }
        let mut payload = Vec::new();
        for piece in pieces {
            // SAFETY: the contract of zcopy: the piece is readable until the completion.
            payload.extend(unsafe { View::from_raw(piece.as_ptr(), piece.len()) }.to_vec());
        }
        if payload.len() > LONG * 2 {
            return Err(PostError::TooLong);
        }
        let (from, header, token) = (self.me, *header, Some(token).filter(|&t| t != Token::NONE));
        self.post(to, || Letter { from, id, header, payload, token })?;
        self.endpoints[ep.0 as usize].in_flight.extend(token);
        Ok(Posted::InFlight)
    }

    fn flush(&mut self, ep: EpId, _: Token) -> Result<Posted, PostError> {
        self.endpoint(ep).map(|_| Posted::Done)
    }

    fn flush_all(&mut self, _: Token) -> Result<Posted, PostError> {
        Ok(Posted::Done)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        Ok(())
    }

    fn want_writable(&mut self, ep: EpId) {
        if self.endpoint(ep).is_ok() && !self.waiters.contains(&ep) {
            self.waiters.push_back(ep);
        }
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut events = 0;
        let budget = budget + u32::from(FAULT == OVERDRAW);
        self.poll();
        // Messages first: the end of a peer comes after them.
        while events < budget
            && let Some(verdict) = self.deliver(sink)
        {
            events += 1;
            if verdict == Verdict::Enough {
                break;
            }
        }
        while events < budget
            && let Some(event) = self.events.pop_front()
        {
            match event {
                Event::Done(token) => sink.completed(token, Ok(0)),
                Event::Lost(token, how) => sink.completed(token, Err(how)),
                Event::Failed(member, ep, how) => {
                    sink.failed(Some(Source(member as u32)), ep, how);
                }
            }
            events += 1;
        }
        if events < budget {
            events += self.report_writable(sink);
        }
        events
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        self.endpoint(ep).map(|_| ())
    }

    fn invalidate(&mut self, ep: EpId) {
        if self.endpoint(ep).is_ok() {
            self.fail(ep.0 as usize);
        }
    }

    fn all_sent(&mut self) -> bool {
        true
    }
}

impl<const FAULT: Fault> OneSided for HubIface<FAULT> {
    lacks! { OneSided }
}

impl<const FAULT: Fault> Wakeup for HubIface<FAULT> {
    forward! { [this => this.doorbell] disarm }

    fn doorbell(&self) -> Option<&Doorbell> {
        Some(&self.doorbell)
    }

    fn arm(&mut self, descriptor: bool) -> Armed {
        self.doorbell.arm(if descriptor { Sleep::Fd } else { Sleep::Futex });
        self.poll();
        let waiting = !lock(&self.shared).members[self.me].inbox.is_empty();
        // Space at a peer is not rung for, so who waits for it does not sleep.
        if waiting || !self.events.is_empty() || !self.waiters.is_empty() {
            self.doorbell.disarm();
            return Armed::Busy;
        }
        Armed::Ready
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        let system = |source: io::Error| OpenError::System { act: "make a descriptor", source };
        self.doorbell.event_fd().map_err(system)
    }
}

impl<const FAULT: Fault> SignalSafe for HubIface<FAULT> {
    lacks! { SignalSafe }
}
