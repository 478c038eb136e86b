//! A protocol that is in no list: what it takes to have one more. `watcher` has one that watches receives and sends.
//!
//! ```text
//!   receiver                        sender
//!   RTS matched ── ASK ────────────► the whole message, as one of the transport
//!   complete   ◄── PARCEL ─────────  complete
//! ```

mod watcher;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_model::cheapest::Line;
use bowline_sim::{Network, NetworkOptions};
use bowline_uct::{Arrival, Caps, Iface, PeerFailure, PostError, Verdict};

use super::{Op, Protocol, all, coop, fragments, get, put};
use crate::action::Action;
use crate::engine::life::{Life, Offer, Protocols};
use crate::engine::{Engine, Inner};
use crate::error::OpError;
use crate::pack;
use crate::peer::{Ep, Peer, PeerIndex, PeerState};
use crate::post;
use crate::protocol::{Receiving, SendStep, Sending, eager};
use crate::request::{Body, SendPhase, receive_of};
use crate::settings::{RndvScheme, SETTINGS};
use crate::status::WaitsFor;
use crate::wait::{Idle, Stages, Waiter};
use crate::wire::{self, MessageId};
use crate::worker::{Worker, WorkerParts};
use crate::{Envelope, MatchSpec, RequestId, SendMode, Sent, SpaceOptions};

static PARCELS: Protocol = Protocol::rendezvous("test/parcel", |op, _| {
    matches!(op, Op::TagSend | Op::Fetch).then_some((Line::ZERO, 3000, LONGEST))
});

/// Words: the sender's request, the receiver's.
const ASK: MessageId = MessageId::numbered(1);
/// Words: the receiver's request. Payload: the message.
const PARCEL: MessageId = MessageId::numbered(u32::MAX);

/// Longest message that goes by it, which is one of the transport's.
const LONGEST: u64 = 6000;

#[derive(Debug)]
struct Asked;

impl Receiving for Asked {
    fn protocol(&self) -> &'static Protocol {
        &PARCELS
    }
}

#[derive(Debug)]
struct Addressed {
    remote: u64,
}

impl Sending for Addressed {
    fn protocol(&self) -> &'static Protocol {
        &PARCELS
    }

    fn post(
        &mut self,
        lane: &mut dyn Iface,
        peer: &mut Peer,
        _: &[u8],
        buffer: &mut SendBuf,
    ) -> Result<SendStep, PostError> {
        let length = buffer.len();
        let mut pack = |out: View<'_>| pack::message(&[], buffer, 0, length, out);
        post::packed(lane, peer, PARCEL, [self.remote, 0], length, &mut pack)?;
        Ok(SendStep::Complete)
    }

    fn touches_memory(&self) -> bool {
        false
    }

    fn describe(&self) -> (u64, WaitsFor) {
        (0, WaitsFor::Resource)
    }
}

struct Parcels;

impl Life for Parcels {
    fn protocol(&self) -> &'static Protocol {
        &PARCELS
    }

    fn ids(&self) -> &'static [MessageId] {
        &[ASK, PARCEL]
    }

    fn on_message(
        &self,
        engine: &mut Engine,
        peer: PeerIndex,
        am: &Arrival<'_>,
    ) -> Option<Verdict> {
        let [first, second, _] = am.header;
        let key = Key::from_wire(first);
        if MessageId::of(am) == ASK {
            let Some(send) = engine.asked_for(peer, first)? else { return Some(Verdict::Consumed) };
            let sender = Box::new(Addressed { remote: second });
            send.phase = SendPhase::Moving(sender);
            engine.actions.push(Action::Run(key));
            return Some(Verdict::Consumed);
        }
        // A receive that failed meanwhile is gone.
        let Some((buffer, fetch)) = receive_of(&mut engine.requests, key) else {
            return Some(Verdict::Consumed);
        };
        if fetch.peer != peer || fetch.wanted > am.payload.len() as u64 {
            return None;
        }
        buffer.copy_at(0, am.payload);
        engine.complete_receive(key);
        Some(Verdict::Consumed)
    }

    fn can(&self, offer: &mut Offer<'_>) -> bool {
        offer.fetch.rts.length <= LONGEST
    }

    fn start(&self, inner: &mut Inner, key: Key) -> bool {
        if let Some((_, fetch)) = receive_of(&mut inner.engine.requests, key) {
            let (peer, sender) = (fetch.peer, fetch.rts.request);
            fetch.receiver = Some(Box::new(Asked));
            inner.control(peer, ASK, [sender, key.to_wire()], &[]);
        }
        true
    }

    fn send(&self, inner: &mut Inner, key: Key) {
        inner.queue_send(key);
    }
}

struct Never;

impl Waiter for Never {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, idle: Idle<'_>) {
        panic!("nothing blocks here, yet a worker waits for {}", idle.waits);
    }
}

/// Two workers on a simulated network that know of the protocol.
pub(crate) fn pair() -> (Network, [Worker; 2], Ep) {
    pair_with(&[])
}

fn pair_with(settings: &[(&str, &str)]) -> (Network, [Worker; 2], Ep) {
    pair_of(settings, |protocols| protocols.add(&PARCELS, Some(&Parcels)))
}

/// The same, with the protocols that `add` adds in front of the others, so that they are asked first.
pub(crate) fn pair_of(
    settings: &[(&str, &str)],
    add: impl Fn(&mut Protocols),
) -> (Network, [Worker; 2], Ep) {
    let network = Network::new(NetworkOptions::default());
    let config = Config::from_pairs(settings.iter().copied(), &[SETTINGS]);
    let config = config.expect("the settings are good");
    let workers = [0, 1].map(|rank| {
        let parts = WorkerParts {
            job: 1,
            rank,
            incarnation: 0,
            uid: u64::from(rank) + 1,
            lanes: vec![Box::new(network.open())],
            waiter: Box::new(Never),
            failures: None,
            config: config.clone(),
        };
        let worker = Worker::new(parts).expect("one lane is enough");
        register(&mut worker.inner.borrow_mut(), &add);
        worker.open_space(0, SpaceOptions::default()).expect("space 0 is new");
        worker
    });
    let ep = workers[0].connect(&workers[1].address()).expect("they reach each other");
    (network, workers, ep)
}

fn register(inner: &mut Inner, add: impl Fn(&mut Protocols)) {
    let engine = &mut inner.engine;
    let before = std::mem::take(&mut engine.protocols);
    let mut protocols = Protocols::default();
    add(&mut protocols);
    protocols.add_all(before);
    engine.set_protocols(protocols);
    let protocols = &engine.protocols.all;
    inner.lanes.iter_mut().for_each(|lane| lane.choose(protocols, |conditions| conditions));
}

const ENVELOPE: Envelope = Envelope { space: 0, source: 0, tag: 7 };

fn send(worker: &Worker, ep: Ep, length: usize) -> RequestId {
    let bytes = (0..length).map(|at| at as u8).collect();
    match worker.send(ep, ENVELOPE, SendBuf::owned(bytes), SendMode::Standard) {
        Ok(Sent::Pending(id)) => id,
        other => panic!("a message of {length} bytes is offered, not {other:?}"),
    }
}

fn receive(worker: &Worker, length: usize) -> RequestId {
    let spec = MatchSpec { space: 0, source: Some(0), tag: 7, tag_mask: u64::MAX };
    worker.recv(spec, RecvBuf::owned(vec![0; length])).expect("the space is open")
}

#[test]
fn one_more_protocol_carries_a_message() {
    let (network, workers, ep) = pair();
    let sent = send(&workers[0], ep, 5000);
    let received = receive(&workers[1], 5000);
    let mut moved = false;
    while !workers[0].is_complete(sent) || !workers[1].is_complete(received) {
        let events = workers[0].progress() + workers[1].progress();
        assert!(events > 0 || network.advance(), "nothing is under way, yet it is not done");
        let inner = workers[1].inner.borrow();
        let request = inner.engine.requests.get(received.0).expect("it was not taken");
        moved |= request.protocol() == Some(&PARCELS);
    }
    assert!(moved, "it is received by another protocol");
    let (status, bytes) = workers[1].take_with_buffer(received).expect("it is complete");
    assert_eq!((status.outcome, status.length), (Ok(()), 5000));
    let expected: Vec<u8> = (0..5000).map(|at| at as u8).collect();
    assert_eq!(bytes, Some(expected));
    // Longer ones go as ever.
    let sent = send(&workers[0], ep, 1 << 20);
    let received = receive(&workers[1], 1 << 20);
    while !workers[1].is_complete(received) {
        let events = workers[0].progress() + workers[1].progress();
        assert!(events > 0 || network.advance(), "nothing is under way, yet it is not done");
    }
    assert_eq!(workers[1].wait(received).outcome, Ok(()));
    assert!(workers[0].query(sent).is_some());
}

/// A message of [`PARCELS`] whose receiver has asked for its data; the requests of both sides.
fn parcels_under_way(network: &Network, workers: &[Worker; 2], ep: Ep) -> (RequestId, RequestId) {
    let sent = send(&workers[0], ep, 5000);
    let received = receive(&workers[1], 5000);
    let asked = || {
        let inner = workers[1].inner.borrow();
        let request = inner.engine.requests.get(received.0).expect("it was not taken");
        request.protocol() == Some(&PARCELS)
    };
    while !asked() {
        let events = workers[0].progress() + workers[1].progress();
        assert!(events > 0 || network.advance(), "nothing is under way, yet it is not done");
    }
    (sent, received)
}

#[test]
fn what_it_has_under_way_ends_with_the_peer() {
    let (network, workers, ep) = pair();
    let (sent, received) = parcels_under_way(&network, &workers, ep);
    assert_eq!(workers[1].query(received).map(|info| info.waits_for), Some(WaitsFor::Data));
    for (worker, id) in workers.iter().zip([sent, received]) {
        let mut inner = worker.inner.borrow_mut();
        let peer = match inner.engine.requests.get(id.0).map(|request| &request.body) {
            Some(Body::Send(send)) => send.peer,
            Some(Body::Receive(receive)) => receive.fetch.as_ref().expect("it is under way").peer,
            other => panic!("{other:?} is under way"),
        };
        inner.engine.fail_peer(peer, PeerFailure::Died);
        drop(inner);
        assert_eq!(worker.wait(id).outcome, Err(PeerFailure::Died.into()));
    }
}

/// Rule 2: nothing is sent to the peer any more, but it may be writing.
#[test]
fn a_receive_that_its_sender_writes_waits_for_it_though_its_endpoint_is_closed() {
    let (network, workers, ep) = pair_with(&[("BOWLINE_RNDV_SCHEME", "put")]);
    let sent = send(&workers[0], ep, 1 << 20);
    let received = receive(&workers[1], 1 << 20);
    let step = || {
        let events = workers[0].progress() + workers[1].progress();
        assert!(events > 0 || network.advance(), "nothing is under way, yet it is not done");
    };
    let written_by = || {
        let inner = workers[1].inner.borrow();
        let request = inner.engine.requests.get(received.0).expect("it was not taken");
        let Body::Receive(receive) = &request.body else { panic!("it receives") };
        let peer = receive.fetch.as_ref().map(|fetch| fetch.peer);
        peer.filter(|_| request.protocol() == Some(&put::PUT))
    };
    let peer = loop {
        match written_by() {
            Some(peer) => break peer,
            None => step(),
        }
    };
    {
        let inner = &mut *workers[1].inner.borrow_mut();
        inner.engine.peers[peer as usize].state = PeerState::Closing;
        // As the withdrawal of an announced receive asks for it, which was met in the same poll.
        inner.engine.actions.push(Action::Run(received.0));
        inner.act();
    }
    assert!(!workers[1].is_complete(received), "its sender is writing");
    assert_eq!(network.memories(1), 1);
    while !workers[0].is_complete(sent) || !workers[1].is_complete(received) {
        step();
    }
    assert_eq!(workers[1].wait(received).outcome, Err(OpError::EndpointClosed));
    assert_eq!(network.memories(1), 0, "memory left open");
}

#[test]
fn a_setting_is_asked_for_of_one_protocol_at_most() {
    use RndvScheme::{Auto, Copy, Get, Put, Rtr};
    let lives = all().lives;
    let asked = |scheme| lives.iter().filter(|life| life.is_asked_for(scheme)).count();
    assert_eq!([Auto, Get, Put, Copy, Rtr].map(asked), [0, 1, 1, 1, 1]);
}

/// The places of those that are measured are counted; one that has a price and no place would not be measured.
#[test]
fn every_protocol_that_is_priced_is_a_means() {
    let (_network, workers, _) = pair_of(&[], |_| {});
    let inner = workers[0].inner.borrow();
    let lane = &inner.lanes[0];
    let mut attr = lane.iface.attr().clone();
    let sets = Caps::all().iter().flat_map(|one| [one, Caps::all() - one]);
    let mut priced = Vec::new();
    let copied = Caps::all() - Caps::EXPOSE - Caps::CARRIES - Caps::LOOPBACK;
    for caps in sets.chain([attr.caps, copied, Caps::all()]) {
        attr.caps = caps;
        let lives = inner.engine.protocols.lives.iter().enumerate();
        let has_price =
            |life: &dyn Life| lane.choices.priced(life.protocol(), Op::Fetch, &attr).is_some();
        priced.extend(lives.filter(|(_, life)| has_price(**life)).map(|(at, _)| at));
    }
    let place =
        |which| inner.engine.protocols.lives.iter().position(|life| life.protocol() == which);
    for known in [&coop::COOP, &get::GET, &fragments::FRAGMENTS] {
        assert!(place(known).is_some_and(|at| priced.contains(&at)), "{priced:?}");
    }
    assert!(priced.iter().all(|life| *life < crate::select::MEANS), "{priced:?}");
    assert_eq!(place(&eager::MULTI), Some(usize::from(crate::select::EAGER)));
}

#[test]
fn every_message_belongs_to_one_protocol() {
    let lives = all().lives;
    let ids: Vec<MessageId> = lives.iter().flat_map(|life| life.ids()).copied().collect();
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[..at].contains(id), "{id:?}");
        // The one that others share is nobody's by itself.
        assert_eq!(id.am() == wire::NUMBERED, id.number().is_some());
    }
}

/// A number that no protocol has is damage, whatever the others have, and so is one that its protocol refuses.
#[test]
fn numbers_of_no_protocol_end_the_connection() {
    let cases = [(0, [0; 2]), (2, [0; 2]), (u32::MAX - 1, [1, 2]), (1, [u64::MAX, 0])];
    for (number, words) in cases {
        let (network, workers, ep) = pair();
        let received = receive(&workers[1], 5000);
        let message = MessageId::numbered(number);
        workers[0].inner.borrow_mut().control(ep.index(), message, words, &[7; 8]);
        while workers[1].counters().peers_failed == 0 {
            let events = workers[0].progress() + workers[1].progress();
            assert!(events > 0 || network.advance(), "number {number} means something");
        }
        workers[1].cancel(received);
    }
}

/// The payload of a known number is the peer's word as well: one that is shorter than the message is damage.
#[test]
fn a_short_payload_of_a_number_ends_the_connection() {
    let (network, workers, ep) = pair();
    let (sent, received) = parcels_under_way(&network, &workers, ep);
    let words = [received.0.to_wire(), 0];
    workers[0].inner.borrow_mut().control(ep.index(), PARCEL, words, &[7; 8]);
    while workers[1].counters().peers_failed == 0 {
        let _ = workers[1].progress();
        assert!(network.advance() || workers[1].counters().peers_failed > 0, "it was taken");
    }
    assert_eq!(workers[1].wait(received).outcome, Err(PeerFailure::Damaged.into()));
    workers[0].cancel(sent);
}
