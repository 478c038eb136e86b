//! Connections that are not of this job, or do not say so in time.

use std::time::Duration;

use bowline_base::counters::CounterGroup as _;
use bowline_uct::conformance::harness::Random;
use bowline_uct::{Iface, PeerFailure, PostError};

use super::{ID, Raw, SECRET, Side, options, until, watchdog, works};
use crate::TcpOptions;
use crate::hello::{CHALLENGE_BYTES, Purpose};

#[test]
fn another_secret_is_refused_on_both_sides() {
    let _dog = watchdog("another_secret_is_refused_on_both_sides");
    let mut a = Side::open(options());
    let mut b = Side::open(TcpOptions::with_secret([4; 32]));
    let ep = a.iface.connect(&b.iface.address()).unwrap();
    a.iface.am_short(ep, ID, &[0; 3], b"for the job only").unwrap();
    until(&mut [&mut a, &mut b], |sides| !sides[0].seen.failed.is_empty());
    assert_eq!(a.seen.failed.len(), 1);
    assert_eq!(a.seen.failed[0].1, Some(ep));
    assert_eq!(a.seen.failed[0].2, PeerFailure::Refused);
    assert_eq!(a.iface.am_short(ep, ID, &[0; 3], &[]), Err(PostError::PeerFailed));
    assert_eq!(a.iface.counters().tried_again, 0, "a secret does not change");
    // A client that does not mind a wrong challenge.
    let mut raw = Raw::connect(&a);
    let hello = raw.hello(&a);
    raw.introduce(&mut a, &hello, [4; 32], &[]);
    raw.dropped(&mut a);
    assert_eq!(a.iface.counters().snapshot().value("handshakes_dropped"), Some(1));
    assert!(b.seen.messages.is_empty() && a.seen.messages.is_empty());
    let mut c = Side::open(options());
    works(&mut c, &mut a);
}

#[test]
fn the_answer_of_somebody_else_cannot_be_played_back() {
    let _dog = watchdog("the_answer_of_somebody_else_cannot_be_played_back");
    let mut a = Side::open(options());
    // What a correct peer said in one connection is worthless in the next, whose nonce differs.
    let mut first = Raw::connect(&a);
    let hello = first.hello(&a).encode();
    first.say(&hello);
    let challenge = first.hear(&mut a, CHALLENGE_BYTES).unwrap();
    let front = crate::hello::encode_auth(&[]);
    let parts: [&[u8]; 4] = [&hello, &challenge, &front, &[]];
    let mac = crate::auth::Secret::new(SECRET).sign(crate::auth::CLIENT, &parts);
    let mut second = Raw::connect(&a);
    second.say(&hello);
    assert_ne!(second.hear(&mut a, CHALLENGE_BYTES).unwrap(), challenge, "nonces are fresh");
    second.say(&[&front[..], &mac].concat());
    second.dropped(&mut a);
    first.say(&[&front[..], &mac].concat());
    assert_eq!(first.hear(&mut a, 56).unwrap()[8], 1, "where it belongs it is good");
}

#[test]
fn garbage_is_dropped_and_costs_bounded_memory() {
    let _dog = watchdog("garbage_is_dropped_and_costs_bounded_memory");
    let mut a = Side::open(options());
    let mut random = Random::new(5);
    let good = Raw::connect(&a).hello(&a).encode();
    for round in 0..300 {
        let bytes: Vec<u8> = match round % 4 {
            0 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            1 => (0..random.below(4000)).map(|_| random.word() as u8).collect(),
            2 => {
                let mut hello = good;
                hello[random.below(72)] ^= 1 << random.below(8);
                hello.to_vec()
            }
            // A prefix that promises more than any message has.
            _ => [&b"BWTH\x01\x01\xff\xff"[..], &[0; 5000]].concat(),
        };
        let mut raw = Raw::connect(&a);
        raw.say(&bytes);
        raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
        raw.dropped(&mut a);
        assert!(a.handshakes() <= 2, "handshakes that ended stay");
    }
    assert!(a.iface.counters().snapshot().value("handshakes_dropped").unwrap() > 100);
    assert!(a.seen.failed.is_empty() && a.seen.messages.is_empty());
    let mut b = Side::open(options());
    works(&mut a, &mut b);
    works(&mut b, &mut a);
}

#[test]
fn silent_handshakes_are_replaced_and_end() {
    let _dog = watchdog("silent_handshakes_are_replaced_and_end");
    let mut few = options();
    few.handshakes = 4;
    few.handshake_timeout = Duration::from_millis(300);
    let mut a = Side::open(few);
    let mut silent: Vec<Raw> = (0..40).map(|_| Raw::connect(&a)).collect();
    silent.iter_mut().for_each(|raw| raw.say(b"B"));
    let mut b = Side::open(options());
    // A peer comes through although handshakes hold all places and more are queued before it.
    let ep = b.iface.connect(&a.iface.address()).unwrap();
    b.post(ep, 1);
    until(&mut [&mut a, &mut b], |sides| {
        assert!(sides[0].handshakes() <= 4);
        !sides[0].seen.messages.is_empty()
    });
    for raw in &mut silent {
        raw.dropped(&mut a);
    }
    assert_eq!(a.handshakes(), 0);
    assert!(b.seen.failed.is_empty());
}

#[test]
fn handshakes_that_leave_at_any_stage_leave_nothing() {
    let _dog = watchdog("handshakes_that_leave_at_any_stage_leave_nothing");
    let mut a = Side::open(options());
    for stage in 0..4 {
        let mut raw = Raw::connect(&a);
        let hello = raw.hello(&a);
        match stage {
            0 => {}
            1 => raw.say(&hello.encode()[..40]),
            2 => {
                raw.say(&hello.encode());
                raw.hear(&mut a, CHALLENGE_BYTES).unwrap();
            }
            _ => raw.introduce(&mut a, &hello, SECRET, &[]),
        }
        drop(raw);
        let failures = usize::from(stage == 3);
        // One that is gone right after its AUTH was a peer for a moment.
        until(&mut [&mut a], |sides| {
            sides[0].handshakes() == 0 && sides[0].seen.failed.len() >= failures
        });
    }
    assert_eq!(a.seen.failed.len(), 1);
    assert_eq!(a.iface.open, 0);
    let mut b = Side::open(options());
    works(&mut b, &mut a);
}

#[test]
fn a_client_that_wants_another_rank_is_refused() {
    let _dog = watchdog("a_client_that_wants_another_rank_is_refused");
    let mut a = Side::open(options());
    let mut raw = Raw::connect(&a);
    let mut hello = raw.hello(&a);
    hello.wanted ^= 2;
    raw.introduce(&mut a, &hello, SECRET, &[]);
    assert_eq!(raw.hear(&mut a, 56).unwrap()[8], 4, "wrong peer");
    raw.dropped(&mut a);
    // Requests belong to listeners of their own.
    let mut raw = Raw::connect(&a);
    let mut hello = raw.hello(&a);
    (hello.wanted, hello.purpose) = (0, Purpose::Request);
    raw.introduce(&mut a, &hello, SECRET, b"private");
    assert_eq!(raw.hear(&mut a, 56).unwrap()[8], 3, "rejected");
    raw.dropped(&mut a);
    // A port that another interface of the job has by now: the peer is gone.
    let mut old = crate::addr::Address::parse(&a.iface.address()).unwrap();
    old.uid ^= 2;
    let mut b = Side::open(options());
    let ep = b.iface.connect(&old.pack()).unwrap();
    until(&mut [&mut a, &mut b], |sides| !sides[1].seen.failed.is_empty());
    assert_eq!(b.seen.failed[0].1, Some(ep));
    assert_eq!(b.seen.failed[0].2, PeerFailure::Died);
    assert!(a.seen.failed.is_empty());
}

#[test]
fn a_listener_that_hangs_up_ends_in_an_error() {
    let _dog = watchdog("a_listener_that_hangs_up_ends_in_an_error");
    // A server that is not of this library, and ends after a few connections.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut b = Side::open(options());
    let mut address = crate::addr::Address::parse(&b.iface.address()).unwrap();
    address.uid ^= 2;
    address.places.retain(|place| place.loopback);
    address.places.truncate(1);
    address.places[0].at = listener.local_addr().unwrap();
    let ep = b.iface.connect(&address.pack()).unwrap();
    b.post(ep, 1);
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            drop(listener.accept().unwrap());
        }
    });
    until(&mut [&mut b], |sides| !sides[0].seen.failed.is_empty());
    server.join().unwrap();
    assert_eq!(b.seen.failed[0].2, PeerFailure::Died);
    assert_eq!(b.handshakes(), 0);
}
