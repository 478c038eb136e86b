//! A peer that breaks the protocol is rejected: what waits for it ends, nothing of it is served, and it
//! does not come back.

use super::*;

#[test]
fn what_waits_for_a_damaged_peer_ends_and_nothing_of_it_is_served() {
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &[]);
    let mut forger = Forger::new(&network, &victim);
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    // Relaxed, here and below: one thread.
    victim.am_handler(7, Box::new(move |_, _| _ = counted.fetch_add(1, Ordering::Relaxed)));
    let named = receive(&victim, Some(1), 99);
    let anyone = receive(&victim, None, 98);
    let other = receive(&victim, Some(2), 97);
    forger.posts(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
    forger.settle(&victim);
    assert_eq!(victim.counters().unexpected, 1);

    // An id that is reserved, and then what a healthy peer would send.
    forger.posts(&victim, RESERVED, [0, 0], &[]);
    for _ in 0..1000 {
        forger.posts(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
        forger.posts(&victim, AM, [7, 0], &[1; 8]);
    }
    forger.settle(&victim);
    let lost = OpError::MemberFailed { rank: 1 };
    ends_with(&victim, named, lost);
    ends_with(&victim, anyone, lost);
    assert!(!victim.is_complete(other), "rank 2 has done nothing");
    let counters = victim.counters();
    assert_eq!((counters.unexpected, counters.peers_failed), (1, 1));
    assert_eq!(calls.load(Ordering::Relaxed), 0, "no handler runs for a rejected peer");
    assert!(counters.stray >= 2000, "what came later was dropped");
    assert_eq!(victim.failures(), [1]);
    // It hears the reason, once.
    assert_eq!(forger.notices(), [1]);

    // What it had sent before is still there; what it would have to send is refused at once.
    let before = receive(&victim, Some(1), 5);
    assert_eq!(victim.take(before).expect("it was here").outcome, Ok(()));
    let late = victim.recv(wants(Some(1), 99), RecvBuf::owned(vec![0; 8]));
    assert_eq!(late.err(), Some(lost));
    assert_eq!(
        victim.recv_blocking(wants(Some(1), 99), RecvBuf::owned(vec![0; 8])),
        Err(lost.into())
    );
    victim.open_space(1, space()).expect("space 1 is new");
    let spec = MatchSpec { space: 1, ..wants(Some(1), 99) };
    assert_eq!(victim.recv(spec, RecvBuf::owned(vec![0; 8])).err(), Some(lost));
}

#[test]
fn a_rejected_peer_does_not_come_back_by_another_greeting() {
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &[]);
    let mut forger = Forger::new(&network, &victim);
    forger.posts(&victim, RESERVED, [0, 0], &[]);
    forger.settle(&victim);
    assert_eq!(victim.counters().peers_failed, 1);
    // The same name again, and others, on the connection that was rejected.
    for uid in [2, 500, 501, 502] {
        forger.sequence = 0;
        forger.greet(uid);
        forger.posts(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
        forger.settle(&victim);
    }
    // And the same name on a new connection.
    let mut again = Forger::new(&network, &victim);
    again.posts(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
    again.settle(&victim);
    let counters = victim.counters();
    assert_eq!((counters.unexpected, counters.peers_failed), (0, 1));
    let address = WorkerAddress {
        job: 1,
        rank: 1,
        incarnation: 0,
        uid: 2,
        features: 0,
        lanes: vec![LaneAddress { provider: "sim".into(), address: again.lane.address() }],
    };
    let refused = victim.connect(&address.pack());
    let damaged = PeerFailure::Damaged;
    assert!(
        matches!(refused, Err(ConnectError::PeerFailed { rank: 1, how }) if how == damaged),
        "{refused:?}"
    );
}

#[test]
fn messages_out_of_sequence_end_what_waits() {
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &[]);
    let mut forger = Forger::new(&network, &victim);
    let named = receive(&victim, Some(1), 99);
    forger.settle(&victim);
    forger.sequence += 1;
    forger.posts(&victim, EAGER, tagged(0, 1, 99), &[1; 8]);
    forger.settle(&victim);
    ends_with(&victim, named, OpError::MemberFailed { rank: 1 });
    assert_eq!(forger.notices(), [1]);
}

/// A peer says that it writes, or has written, to receives that were not announced to it.
#[test]
fn words_about_a_receive_that_was_not_announced_are_damage() {
    let taken = |receive: u64| vec![2, receive, 7, 8];
    let written = |receive: u64| vec![5, receive, 8];
    for words in [taken(0), taken(1), written(0), written(1), written(1 << 32), vec![5, 1, 0]] {
        let network = Network::new(NetworkOptions::default());
        let victim = worker(&network, 0, &[("BOWLINE_RNDV_SCHEME", "rtr")]);
        let mut forger = Forger::new(&network, &victim);
        let named = receive(&victim, Some(1), 99);
        forger.settle(&victim);
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        forger.posts(&victim, RTR, tagged(0, 1, 99), &payload);
        forger.settle(&victim);
        ends_with(&victim, named, OpError::MemberFailed { rank: 1 });
        assert_eq!(forger.notices(), [1], "{words:?}");
    }
}

/// The high half of the third word numbers messages that share an id. It means nothing for others.
#[test]
fn numbers_that_no_protocol_has_are_damage() {
    for number in [0, 1, 7, u32::MAX] {
        let network = Network::new(NetworkOptions::default());
        let victim = worker(&network, 0, &[]);
        let mut forger = Forger::new(&network, &victim);
        let named = receive(&victim, Some(1), 99);
        forger.number = number;
        forger.posts(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
        forger.settle(&victim);
        assert_eq!((victim.counters().unexpected, forger.notices()), (1, vec![]));
        assert!(!victim.is_complete(named));
        forger.posts(&victim, NUMBERED, tagged(0, 1, 99), &[1; 8]);
        forger.settle(&victim);
        ends_with(&victim, named, OpError::MemberFailed { rank: 1 });
        assert_eq!(forger.notices(), [1], "{number}");
    }
}

/// A peer says how messages of a class are to come to it that there is not, or as they cannot.
#[test]
fn choices_that_there_are_not_are_damage() {
    // Kinds, single ones and windows, used and fresh memory; classes.
    const PLACES: u64 = 3 * 2 * 2 * 9;
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &[]);
    let mut forger = Forger::new(&network, &victim);
    let named = receive(&victim, Some(1), 99);
    for place in 0..PLACES {
        for eager in [0, 1, 1, 0] {
            forger.posts(&victim, SELECT, [place, eager], &[]);
        }
    }
    forger.settle(&victim);
    assert!(!victim.is_complete(named) && forger.notices().is_empty(), "choices that there are");
    for words in [[PLACES, 0], [PLACES, 1], [u64::MAX, 1], [1 << 32, 0], [0, 2], [5, u64::MAX]] {
        let network = Network::new(NetworkOptions::default());
        let victim = worker(&network, 0, &[]);
        let mut forger = Forger::new(&network, &victim);
        let named = receive(&victim, Some(1), 99);
        forger.settle(&victim);
        forger.posts(&victim, SELECT, words, &[]);
        forger.settle(&victim);
        ends_with(&victim, named, OpError::MemberFailed { rank: 1 });
        assert_eq!(forger.notices(), [1], "{words:?}");
    }
}
