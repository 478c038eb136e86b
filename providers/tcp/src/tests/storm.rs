//! Everybody connects to everybody at once.

use bowline_uct::conformance::harness::Random;
use bowline_uct::{EpId, Iface, PeerFailure, Source};

use super::{ID, Side, options, until, watchdog, works};
use crate::TcpConnectError;
use crate::addr::Address;

/// Members connect in an order, and with pauses, drawn anew for each seed, and post at once; each
/// pair ends up with one connection, and nothing is lost, doubled or out of order.
#[test]
fn one_connection_for_each_pair_and_nothing_lost() {
    let _dog = watchdog("one_connection_for_each_pair_and_nothing_lost");
    const MEMBERS: usize = 10;
    const EACH: u64 = 20;
    let mut duplicates = 0;
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let mut sides: Vec<Side> = (0..MEMBERS).map(|_| Side::open(options())).collect();
        let addresses: Vec<Vec<u8>> = sides.iter().map(|side| side.iface.address()).collect();
        let mut eps = vec![[EpId(0); MEMBERS]; MEMBERS];
        let mut pairs: Vec<(usize, usize)> = (0..MEMBERS)
            .flat_map(|a| (0..MEMBERS).filter(move |b| a != *b).map(move |b| (a, b)))
            .collect();
        for last in (1..pairs.len()).rev() {
            pairs.swap(last, random.below(last + 1));
        }
        for &(from, to) in &pairs {
            eps[from][to] = sides[from].iface.connect(&addresses[to]).unwrap();
            sides[from].post(eps[from][to], 0);
            for _ in 0..random.below(6) * usize::from(seed % 3 != 0) {
                sides[random.below(MEMBERS)].progress();
            }
        }
        for number in 1..EACH {
            for &(from, to) in &pairs {
                sides[from].post(eps[from][to], number);
            }
            sides[random.below(MEMBERS)].progress();
        }
        let all = (MEMBERS - 1) * EACH as usize;
        let mut refs: Vec<&mut Side> = sides.iter_mut().collect();
        until(&mut refs, |sides| sides.iter().all(|side| side.seen.messages.len() >= all));
        for _ in 0..50 {
            refs.iter_mut().for_each(|side| {
                side.progress();
            });
        }
        for side in &sides {
            assert_eq!(side.seen.messages.len(), all, "seed {seed}");
            assert!(side.seen.failed.is_empty(), "seed {seed}: {:?}", side.seen.failed);
            for source in (0..MEMBERS as u32 - 1).map(Source) {
                let stream = side.seen.messages.iter().filter(|message| message.source == source);
                assert!(stream.map(|message| message.header[0]).eq(0..EACH), "seed {seed}");
            }
            assert_eq!(side.iface.open as usize, MEMBERS - 1, "seed {seed}: connections");
            assert_eq!(side.handshakes(), 0, "seed {seed}");
            duplicates += side.iface.counters().duplicates;
        }
    }
    assert!(duplicates > 100, "hardly anybody connected at once: {duplicates}");
}

#[test]
fn ipv6_alone_is_enough() {
    let _dog = watchdog("ipv6_alone_is_enough");
    let (mut a, mut b) = (Side::open(options()), Side::open(options()));
    let mut address = Address::parse(&b.iface.address()).unwrap();
    address.places.retain(|place| place.at.ip().is_ipv6() && place.loopback);
    if address.places.is_empty() {
        bowline_uct::conformance::skipped("this host has no IPv6 loopback address");
        return;
    }
    let ep = a.iface.connect(&address.pack()).unwrap();
    for number in 0..100 {
        a.post(ep, number);
    }
    until(&mut [&mut a, &mut b], |sides| sides[1].seen.messages.len() == 100);
    let (local, remote) = a.iface.connection(ep).unwrap();
    assert!(local.is_ipv6() && remote.is_ipv6());
    // The other direction uses the same connection.
    let back = b.iface.connect(&a.iface.address()).unwrap();
    b.iface.am_short(back, ID, &[1, 2, 3], b"back").unwrap();
    until(&mut [&mut a, &mut b], |sides| !sides[0].seen.messages.is_empty());
    assert_eq!(b.iface.connection(back), Some((remote, local)));
    assert_eq!(a.iface.open, 1);
}

/// A peer that lost its connection makes a new one before the other has noticed.
#[test]
fn a_new_connection_replaces_one_that_the_peer_has_lost() {
    let _dog = watchdog("a_new_connection_replaces_one_that_the_peer_has_lost");
    let (mut a, mut b, ep) = super::pair();
    works(&mut a, &mut b);
    let back = b.iface.connect(&a.iface.address()).unwrap();
    for round in 0..20 {
        let ep = a.iface.connect(&b.iface.address()).unwrap();
        a.iface.invalidate(ep);
        a.progress();
        assert_eq!(a.seen.failed.len(), round + 1);
        a.iface.disconnect(ep);
        works(&mut a, &mut b);
    }
    assert_eq!(a.iface.connect(&b.iface.address()).unwrap(), ep, "a number is used again");
    assert_eq!(a.iface.peers.len(), 1, "and no other one was needed");
    // b had an endpoint to the first incarnation only.
    assert_eq!(b.seen.failed[0].1, Some(back));
    assert_eq!(b.seen.failed.len(), 20);
    assert_eq!((a.iface.open, b.iface.open), (1, 1));
}

/// Places that lead nowhere are passed over.
#[test]
fn the_next_place_is_tried() {
    let _dog = watchdog("the_next_place_is_tried");
    let (mut a, mut b) = (Side::open(options()), Side::open(options()));
    let mut address = Address::parse(&b.iface.address()).unwrap();
    let mut nobody = address.places[0];
    // A port that was just closed again.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    nobody.at = closed;
    nobody.loopback = true;
    address.places.insert(0, nobody);
    let ep = a.iface.connect(&address.pack()).unwrap();
    a.post(ep, 4);
    until(&mut [&mut a, &mut b], |sides| sides[1].seen.messages.len() == 1);
    assert!(a.seen.failed.is_empty());
}

/// A place to which no route leads: the kernel says so at once of every group address.
const NOWHERE: &str = "224.0.0.1:9";

#[test]
fn a_network_that_comes_late_is_waited_for() {
    let _dog = watchdog("a_network_that_comes_late_is_waited_for");
    let (mut a, mut b) = (Side::open(options()), Side::open(options()));
    let (_, at) = b.iface.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let id = a.iface.connect_to(NOWHERE.parse().unwrap(), &[]).unwrap();
    until(&mut [&mut a], |sides| sides[0].iface.counters().tried_again >= 3);
    assert_eq!(a.iface.connect_outcome(id), None, "it is under way");
    // From now on something answers there.
    let peer = a.iface.connecting[0];
    a.iface.peer_mut(peer).unwrap().connecting.as_mut().unwrap().places = vec![at];
    let mut request = None;
    until(&mut [&mut a, &mut b], |sides| {
        request = sides[1].iface.next_request();
        request.is_some()
    });
    b.iface.accept_request(request.unwrap().id, &[]).unwrap();
    let mut outcome = None;
    until(&mut [&mut a, &mut b], |sides| {
        outcome = sides[0].iface.connect_outcome(id);
        outcome.is_some()
    });
    outcome.unwrap().unwrap();
}

#[test]
fn a_network_that_does_not_come_is_given_up() {
    let _dog = watchdog("a_network_that_does_not_come_is_given_up");
    let mut hasty = options();
    hasty.timeout = std::time::Duration::from_millis(200);
    let mut a = Side::open(hasty);
    let id = a.iface.connect_to(NOWHERE.parse().unwrap(), &[]).unwrap();
    let mut outcome = None;
    until(&mut [&mut a], |sides| {
        outcome = sides[0].iface.connect_outcome(id);
        outcome.is_some()
    });
    let failed = Some(Err(TcpConnectError::Failed(PeerFailure::Unreachable)));
    assert_eq!(outcome, failed);
    assert!(a.iface.counters().tried_again >= 1);
    assert!(a.iface.connecting.is_empty());
}

/// Nobody listens where somebody listened: no pause makes that better.
#[test]
fn a_refused_connection_is_not_tried_again() {
    let _dog = watchdog("a_refused_connection_is_not_tried_again");
    let mut a = Side::open(options());
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let id = a.iface.connect_to(closed, &[]).unwrap();
    let mut outcome = None;
    until(&mut [&mut a], |sides| {
        outcome = sides[0].iface.connect_outcome(id);
        outcome.is_some()
    });
    assert_eq!(outcome, Some(Err(TcpConnectError::Failed(PeerFailure::Died))));
    assert_eq!(a.iface.counters().tried_again, 0);
}
