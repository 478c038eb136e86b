//! A protocol that watches: receives are its own before there is a message, and sends to a peer are shown to it.
//!
//! ```text
//!   receiver   posted with the bit OWN: its own ──(message)──► ordinary, with the message
//!                                               ──(message, while it WAITS)──► kept ──(poll)──► ordinary
//!   sender     posted while it holds: held ──(space in the lane, and let go)──► as any message
//! ```

use std::collections::VecDeque;

use super::*;
use crate::engine::life::Keeps;
use crate::matching::{ItemId, Want};
use crate::post::Post;
use crate::protocol::Expecting;
use crate::request::{Receive, Requests, SendKind};
use crate::settings::Options;
use crate::status::OpStatus;
use crate::watch::Watching;

static WATCHER: Protocol = Protocol::rendezvous("test/watcher", |_, _| None);

/// Of a tag: its receive is the protocol's own.
const OWN: u64 = 1 << 8;
/// A message that meets it is kept first.
const WAITS: u64 = 1 << 9;

#[derive(Debug)]
struct Known {
    receive: Receive,
    peer: PeerIndex,
    waits: bool,
}

impl Expecting for Known {
    fn protocol(&self) -> &'static Protocol {
        &WATCHER
    }

    fn peer(&self) -> PeerIndex {
        self.peer
    }

    fn buffer(&self) -> &RecvBuf {
        &self.receive.buffer
    }

    fn buffer_mut(&mut self) -> &mut RecvBuf {
        &mut self.receive.buffer
    }

    fn describe(&self, rank: u32) -> String {
        format!("what rank {rank} sends to a watched receive")
    }
}

/// What has happened at a worker.
#[derive(Debug, Default)]
struct Seen {
    receives: usize,
    met: usize,
    probes: usize,
    sends: usize,
    /// Receives with the messages that are kept for them.
    kept: Vec<(Key, Key)>,
}

impl Keeps for Seen {
    fn peers(&self, _: &dyn Fn(PeerIndex) -> bool) -> Vec<PeerIndex> {
        Vec::new()
    }
}

#[derive(Debug, Default)]
struct Held {
    holds: bool,
    sends: VecDeque<Key>,
    posted: Vec<u32>,
    controls: usize,
}

impl Watching for Held {
    fn checks(&self) -> bool {
        self.holds || !self.sends.is_empty()
    }

    fn notes(&self) -> bool {
        self.posted.len() < 6
    }

    fn on_posted(&mut self, first: u32, next: u32, _: Option<&Envelope>) {
        self.posted.extend(first..next);
    }

    fn on_control(&mut self, _: MessageId, _: &[u8]) {
        self.controls += 1;
    }
}

fn known(requests: &mut Requests, key: Key) -> Option<&mut Known> {
    match &mut requests.get_mut(key)?.body {
        Body::Expecting(expecting) => expecting.state_mut(),
        _ => None,
    }
}

/// Makes it an ordinary receive.
fn give_back(requests: &mut Requests, key: Key) -> Option<(u32, ItemId)> {
    let receive = std::mem::replace(&mut known(requests, key)?.receive, Receive::empty());
    let place = (receive.space, receive.item);
    requests.get_mut(key)?.body = Body::Receive(receive);
    Some(place)
}

struct Watcher;

impl Life for Watcher {
    fn protocol(&self) -> &'static Protocol {
        &WATCHER
    }

    fn watches_receives(&self, _: &Options, collective: bool) -> bool {
        !collective
    }

    fn on_receive(&self, inner: &mut Inner, key: Key, _: u32, want: &Want) {
        let engine = &mut inner.engine;
        engine.protocols.kept.of_mut::<Seen>().receives += 1;
        let Some(request) = engine.requests.get_mut(key).filter(|_| want.tag & OWN != 0) else {
            return;
        };
        let Body::Receive(receive) = &mut request.body else { return };
        let receive = std::mem::replace(receive, Receive::empty());
        let waits = want.tag & WAITS != 0;
        request.body = Body::Expecting(Box::new(Known { receive, peer: 0, waits }));
    }

    fn on_met(&self, engine: &mut Engine, key: Key) -> bool {
        engine.protocols.kept.of_mut::<Seen>().met += 1;
        if known(&mut engine.requests, key).is_some_and(|known| known.waits) {
            return false;
        }
        give_back(&mut engine.requests, key);
        true
    }

    fn on_kept(&self, engine: &mut Engine, receive: Key, message: Key) {
        engine.protocols.kept.of_mut::<Seen>().kept.push((receive, message));
        engine.actions.push(Action::Poll(&WATCHER));
    }

    fn on_probe(&self, inner: &mut Inner, _: &MatchSpec) {
        inner.engine.protocols.kept.of_mut::<Seen>().probes += 1;
    }

    fn poll(&self, inner: &mut Inner) {
        for (receive, message) in
            std::mem::take(&mut inner.engine.protocols.kept.of_mut::<Seen>().kept)
        {
            give_back(&mut inner.engine.requests, receive);
            inner.engine.hand_over(receive, message);
        }
    }

    fn cancel(&self, engine: &mut Engine, key: Key) {
        if let Some((space, item)) = give_back(&mut engine.requests, key)
            && engine.spaces.withdraw(space, item, key.to_wire())
        {
            engine.fail(key, OpError::Cancelled);
        }
    }

    fn finish(&self, engine: &mut Engine, key: Key, status: OpStatus) {
        give_back(&mut engine.requests, key);
        engine.finish(key, status);
    }

    fn before_send(&self, inner: &mut Inner, _: PeerIndex, _: &SendKind, _: usize) {
        inner.engine.protocols.kept.of_mut::<Seen>().sends += 1;
    }

    fn before_post(&self, inner: &mut Inner, key: Key) -> Option<Post> {
        let index = crate::request::send_of(&mut inner.engine.requests, key)?.peer;
        let held = inner.engine.peers[index as usize].watches.of_mut::<Held>()?;
        held.sends.push_back(key);
        Some(Post::Awaiting)
    }

    fn on_writable(&self, inner: &mut Inner, peer: PeerIndex) -> bool {
        while let Some(held) = inner.engine.peers[peer as usize].watches.of_mut::<Held>()
            && !held.holds
            && let Some(key) = held.sends.pop_front()
        {
            match inner.post_as(key, false) {
                Post::Complete => inner.sent(key),
                Post::Awaiting => {}
                _ => return false,
            }
        }
        true
    }
}

fn pair() -> (Network, [Worker; 2], Ep) {
    pair_of(&[], |protocols| {
        protocols.add(&WATCHER, Some(&Watcher));
        protocols.kept.add(&WATCHER, Box::<Seen>::default());
    })
}

fn step(network: &Network, workers: &[Worker; 2]) {
    let events = workers[0].progress() + workers[1].progress();
    assert!(events > 0 || network.advance(), "nothing is under way, yet it is not done");
}

fn send_tagged(worker: &Worker, ep: Ep, tag: u64, byte: u8) -> Sent {
    let buffer = SendBuf::owned(vec![byte; 100]);
    let sent = worker.send(ep, Envelope { tag, ..ENVELOPE }, buffer, SendMode::Standard);
    sent.expect("the peer is there")
}

fn post(worker: &Worker, tag: u64) -> RequestId {
    let spec = MatchSpec { space: 0, source: Some(0), tag, tag_mask: u64::MAX };
    worker.recv(spec, RecvBuf::owned(vec![0; 100])).expect("the space is open")
}

fn seen<R>(worker: &Worker, of: impl FnOnce(&mut Seen) -> R) -> R {
    of(worker.inner.borrow_mut().engine.protocols.kept.of_mut())
}

#[test]
fn a_receive_may_be_a_protocols_own_before_there_is_a_message() {
    let (network, workers, ep) = pair();
    let first = post(&workers[1], 1);
    let _ = send_tagged(&workers[0], ep, 1, 1);
    while !workers[1].is_complete(first) {
        step(&network, &workers);
    }
    for tag in [OWN, OWN | WAITS] {
        let received = post(&workers[1], tag);
        let info = workers[1].query(received).expect("it is there");
        assert_eq!((info.rank, info.length, info.waits_for), (Some(0), 100, WaitsFor::Arrival));
        let waits = crate::waits::text(&workers[1]);
        assert!(waits.contains("what rank 0 sends to a watched receive"), "{waits}");
        let _ = send_tagged(&workers[0], ep, tag, tag.count_ones() as u8);
        while !workers[1].is_complete(received) {
            step(&network, &workers);
        }
        let (status, bytes) = workers[1].take_with_buffer(received).expect("it is complete");
        assert_eq!((status.outcome, status.length, status.tag), (Ok(()), 100, tag));
        assert_eq!(bytes, Some(vec![tag.count_ones() as u8; 100]));
    }
    // The one that was kept first counts as a message without a receive.
    let counters = workers[1].counters();
    assert_eq!((counters.matched, counters.unexpected), (2, 1));
    // A plain receive is delivered to without a word.
    seen(&workers[1], |seen| assert_eq!((seen.receives, seen.met, seen.probes), (3, 2, 0)));
    let spec = MatchSpec { space: 0, source: None, tag: 5, tag_mask: u64::MAX };
    assert!(workers[1].probe(&spec).is_none() && workers[1].claim(&spec).is_none());
    seen(&workers[1], |seen| assert_eq!(seen.probes, 2));
}

/// A synchronous message is refused where a member of a collective space has died and no receive waits for it.
#[test]
fn what_is_kept_for_a_receive_is_not_refused_for_a_dead_member() {
    let (network, workers, ep) = pair();
    let received = post(&workers[1], OWN | WAITS);
    {
        let inner = &mut *workers[1].inner.borrow_mut();
        let space = inner.engine.spaces.get_mut(0).expect("it is open");
        space.options.collective = true;
        space.dead.push(crate::space::Lost { rank: 5, how: PeerFailure::Died });
    }
    let buffer = SendBuf::owned(vec![4; 100]);
    let envelope = Envelope { tag: OWN | WAITS, ..ENVELOPE };
    let sent = workers[0].send(ep, envelope, buffer, SendMode::Synchronous);
    let Ok(Sent::Pending(sent)) = sent else { panic!("it is matched later") };
    while !workers[0].is_complete(sent) {
        step(&network, &workers);
    }
    assert_eq!(workers[0].wait(sent).outcome, Ok(()));
    let (status, bytes) = workers[1].take_with_buffer(received).expect("it is complete");
    assert_eq!((status.outcome, bytes), (Ok(()), Some(vec![4; 100])));
}

/// Watches collective spaces alone.
struct OfCollectives;

impl Life for OfCollectives {
    fn protocol(&self) -> &'static Protocol {
        &WATCHER
    }

    fn watches_receives(&self, _: &Options, collective: bool) -> bool {
        collective
    }

    fn on_receive(&self, inner: &mut Inner, _: Key, space: u32, _: &Want) {
        assert_eq!(space, 1, "nobody watches another space");
        inner.engine.protocols.kept.of_mut::<Seen>().receives += 1;
    }

    fn on_probe(&self, inner: &mut Inner, spec: &MatchSpec) {
        assert_eq!(spec.space, 1, "nobody watches another space");
        inner.engine.protocols.kept.of_mut::<Seen>().probes += 1;
    }
}

#[test]
fn a_protocol_hears_of_the_spaces_that_it_watches_alone() {
    let (_network, workers, _) = pair_of(&[], |protocols| {
        protocols.add(&WATCHER, Some(&OfCollectives));
        protocols.kept.add(&WATCHER, Box::<Seen>::default());
    });
    let options = SpaceOptions { collective: true, ..SpaceOptions::default() };
    workers[1].open_space(1, options).expect("it is new");
    let spec = MatchSpec { space: 1, source: Some(0), tag: 1, tag_mask: u64::MAX };
    workers[1].recv(spec, RecvBuf::owned(vec![0; 8])).expect("the space is open");
    let found = [0, 1].map(|space| workers[1].probe(&MatchSpec { space, ..spec }));
    assert_eq!(found, [None, None]);
    seen(&workers[1], |seen| assert_eq!((seen.receives, seen.probes), (1, 1)));
    {
        let inner = &mut *workers[1].inner.borrow_mut();
        let space = inner.engine.spaces.get_mut(0).expect("it is open");
        // As where a member that is no source of these receives has died.
        space.checks_receives = true;
    }
    post(&workers[1], 1);
    seen(&workers[1], |seen| assert_eq!(seen.receives, 1));
}

#[test]
fn such_a_receive_is_cancelled_and_fails_by_its_protocol() {
    let (network, workers, ep) = pair();
    let first = post(&workers[1], 1);
    let _ = send_tagged(&workers[0], ep, 1, 1);
    while !workers[1].is_complete(first) {
        step(&network, &workers);
    }
    let received = post(&workers[1], OWN);
    workers[1].cancel(received);
    let status = workers[1].take(received).expect("it is complete");
    assert_eq!(status.outcome, Err(OpError::Cancelled));
    // What would have met it waits for the next one.
    let _ = send_tagged(&workers[0], ep, OWN, 3);
    let spec = MatchSpec { space: 0, source: Some(0), tag: OWN, tag_mask: u64::MAX };
    while workers[1].probe(&spec).is_none() {
        step(&network, &workers);
    }
    let received = post(&workers[1], OWN);
    assert_eq!(workers[1].take(received).map(|status| status.outcome), Some(Ok(())));
    let received = post(&workers[1], OWN);
    workers[1].inner.borrow_mut().engine.fail(received.0, OpError::BadRemote);
    let status = workers[1].take(received).expect("it is complete");
    assert_eq!(status.outcome, Err(OpError::BadRemote));
}

#[test]
fn what_is_sent_to_a_watched_peer_is_shown_to_the_protocol() {
    let (network, workers, ep) = pair();
    let received: Vec<RequestId> = (1..=6).map(|tag| post(&workers[1], tag)).collect();
    assert!(matches!(send_tagged(&workers[0], ep, 1, 1), Sent::Done));
    let of = |what: &mut dyn FnMut(&mut Held)| {
        let inner = &mut *workers[0].inner.borrow_mut();
        let peer = &mut inner.engine.peers[ep.index() as usize];
        what(peer.watches.make(Held::default));
        peer.recompute_short_limit();
        peer.short_limit()
    };
    assert_eq!(of(&mut |held| held.holds = true), -1, "the short path is closed");
    let sends: Vec<Sent> =
        (2..=5).map(|tag| send_tagged(&workers[0], ep, tag, tag as u8)).collect();
    while !workers[1].is_complete(received[0]) {
        step(&network, &workers);
    }
    for _ in 0..100 {
        let _ = workers[0].progress() + workers[1].progress();
        network.advance();
    }
    assert!(received[1..].iter().all(|&id| !workers[1].is_complete(id)), "they are held");
    assert_eq!(seen(&workers[0], |seen| seen.sends), 4);
    of(&mut |held| held.holds = false);
    workers[0].inner.borrow_mut().resume(ep.index());
    while !received[..5].iter().all(|&id| workers[1].is_complete(id)) {
        step(&network, &workers);
    }
    for send in sends {
        let Sent::Pending(id) = send else { panic!("it was held") };
        assert_eq!(workers[0].wait(id).outcome, Ok(()));
    }
    // The fourth was number 5, behind the HELLO and the first.
    of(&mut |held| assert_eq!(held.posted, [2, 3, 4, 5]));
    workers[0].inner.borrow_mut().control(ep.index(), crate::wire::PROBE, [0, 0], &[]);
    let limit = of(&mut |held| assert_eq!((held.posted.len(), held.controls), (5, 1)));
    assert_eq!(limit, -1, "the protocol notes one more");
    let _ = send_tagged(&workers[0], ep, 6, 6);
    assert!(of(&mut |held| assert_eq!(held.posted.len(), 6)) >= 0, "it notes no more");
    while !workers[1].is_complete(received[5]) {
        step(&network, &workers);
    }
}
