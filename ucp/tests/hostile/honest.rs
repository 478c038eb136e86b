//! Peers that keep to the rules beside one that does not, and those who flood another by mistake: both
//! ends report the limit.

use super::*;

/// The peer that has most is rejected, not the one that sends the message that is one too many.
#[test]
fn an_honest_peer_is_not_blamed_for_the_flood_of_another() {
    let settings = [("BOWLINE_UNEXPECTED_ENVELOPES", "1m")];
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &settings);
    let mut forger = Forger::new(&network, &victim);
    let honest = worker(&network, 2, &settings);
    let ep = honest.connect(&victim.address()).expect("it can be reached");
    let most = (1 << 20) / 160;
    for _ in 0..most - 100 {
        forger.posts(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
    }
    forger.settle(&victim);
    for number in 0..1000u64 {
        let envelope = Envelope { space: 0, source: 2, tag: number };
        let bytes = SendBuf::owned(number.to_le_bytes().to_vec());
        let sent = honest.send(ep, envelope, bytes, SendMode::Standard).expect("it lives");
        if let Sent::Pending(request) = sent {
            honest.detach(request);
        }
        honest.progress();
        forger.step(&victim);
    }
    for _ in 0..2000 {
        honest.progress();
        forger.step(&victim);
    }
    assert_eq!(victim.failures(), [1]);
    assert_eq!(victim.counters().peers_failed, 1);
    for number in 0..1000u64 {
        let request = receive(&victim, Some(2), number);
        let (status, bytes) = victim.take_with_buffer(request).expect("it was here");
        assert_eq!(status.outcome, Ok(()));
        assert_eq!(bytes.expect("it was owned")[..8], number.to_le_bytes());
    }
}

/// Two honest workers, of which one is flooded: both report what has happened.
fn floods_an_honest_worker([receiver, sender]: &[Worker; 2], pass: impl Fn()) {
    let ep = sender.connect(&receiver.address()).expect("it can be reached");
    let waits = receive(receiver, Some(1), 99);
    let answer = receive(sender, Some(0), 98);
    let mut error = None;
    for _ in 0..100_000 {
        let envelope = Envelope { space: 0, source: 1, tag: 1 };
        match sender.send(ep, envelope, SendBuf::empty(), SendMode::Standard) {
            Ok(Sent::Pending(request)) => sender.detach(request),
            Ok(Sent::Done) => {}
            Err(what) => {
                error = Some(what);
                break;
            }
        }
        if sender.progress() + receiver.progress() == 0 {
            pass();
        }
    }
    assert_eq!(error, Some(OpError::TooManyUnexpected), "the sender is not notified");
    ends_with(sender, answer, OpError::TooManyUnexpected);
    ends_with(receiver, waits, OpError::TooManyUnexpected);
    assert!(receiver.counters().unexpected <= (1 << 20) / 160 + 10 * BATCH);
    let late = receiver.recv(wants(Some(1), 99), RecvBuf::owned(vec![0; 8]));
    assert_eq!(late.err(), Some(OpError::TooManyUnexpected));
    let state = sender.ep_info(ep).expect("it is there").state;
    assert_eq!(state, EpState::Ended(PeerFailure::Overrun));
    let text = OpError::TooManyUnexpected.to_string();
    assert!(text.contains("BOWLINE_UNEXPECTED_ENVELOPES"), "{text}");
}

const SMALL: [(&str, &str); 1] = [("BOWLINE_UNEXPECTED_ENVELOPES", "1m")];

#[test]
fn the_limit_of_envelopes_is_reported_as_such_at_both_ends() {
    let network = Network::new(NetworkOptions::default());
    let workers = [0, 1].map(|rank| worker(&network, rank, &SMALL));
    floods_an_honest_worker(&workers, || _ = network.advance());
}

/// The same over transports whose ways to close an endpoint differ.
#[test]
fn the_limit_of_envelopes_is_reported_over_shared_memory_and_over_sockets() {
    let shm = ShmOptions::from_config(&Config::defaults(&[bowline_shm::SETTINGS]));
    let area_bytes = shm.area_bytes();
    let spec = JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes };
    let job = JobMemory::create_private(&spec).expect("memory is to be had");
    let workers = [0, 1].map(|rank| {
        job.attach(rank).expect("the place is free");
        let lane = ShmIface::open(job.clone(), rank, shm.clone()).expect("it opens");
        worker_on(Box::new(lane), rank, &SMALL)
    });
    floods_an_honest_worker(&workers, || {});
    let workers = [0, 1].map(|rank| {
        let lane = TcpIface::open(TcpOptions::with_secret([7; 32])).expect("it opens");
        worker_on(Box::new(lane), rank, &SMALL)
    });
    floods_an_honest_worker(&workers, || {});
}

/// Sends that wait for space were all begun while there was credit for one of them.
#[test]
fn sends_that_wait_for_space_keep_to_their_credit() {
    const COUNT: u64 = 500;
    let network = Network::new(NetworkOptions { slots: 4, ..NetworkOptions::default() });
    let [receiver, sender] = [0, 1].map(|rank| worker(&network, rank, &[]));
    let ep = sender.connect(&receiver.address()).expect("it can be reached");
    let mut requests = Vec::new();
    for tag in 0..COUNT {
        let envelope = Envelope { space: 0, source: 1, tag };
        let buffer = SendBuf::owned(vec![tag as u8; 4000]);
        let sent = sender.send(ep, envelope, buffer, SendMode::Standard).expect("it lives");
        if let Sent::Pending(request) = sent {
            requests.push(request);
        }
    }
    let step = || {
        if sender.progress() + receiver.progress() == 0 {
            network.advance();
        }
    };
    while receiver.counters().unexpected < COUNT {
        step();
        assert_eq!(receiver.counters().peers_failed, 0, "an honest sender is rejected");
    }
    let eager = sender.counters().sent_bcopy + sender.counters().sent_multi;
    assert!(eager * 4000 <= 64 << 10, "{eager} messages are more than what was granted");
    for tag in 0..COUNT {
        let buffer = RecvBuf::owned(vec![0; 4000]);
        let request = receiver.recv(wants(Some(1), tag), buffer).expect("the space is open");
        while !receiver.is_complete(request) {
            step();
        }
        let (status, bytes) = receiver.take_with_buffer(request).expect("it is complete");
        assert_eq!((status.outcome, bytes), (Ok(()), Some(vec![tag as u8; 4000])));
    }
    for request in requests {
        while !sender.is_complete(request) {
            step();
        }
        assert_eq!(sender.take(request).expect("it is complete").outcome, Ok(()));
    }
}

/// A peer whose messages are all longer than its first share is granted more when one of them is received.
#[test]
fn the_share_grows_with_long_messages_that_are_received() {
    const LONG: usize = 100 << 10;
    for (share, offered) in [("512k", 1), ("64k", 4)] {
        let settings = [("BOWLINE_RNDV_THRESHOLD", "128k"), ("BOWLINE_EAGER_SHARE", share)];
        let network = Network::new(NetworkOptions::default());
        let [receiver, sender] = [0, 1].map(|rank| worker(&network, rank, &settings));
        let ep = sender.connect(&receiver.address()).expect("it can be reached");
        for tag in 0..4 {
            let envelope = Envelope { space: 0, source: 1, tag };
            let buffer = SendBuf::owned(vec![tag as u8; LONG]);
            let sent = sender.send(ep, envelope, buffer, SendMode::Standard).expect("it lives");
            let buffer = RecvBuf::owned(vec![0; LONG]);
            let receive = receiver.recv(wants(Some(1), tag), buffer).expect("the space is open");
            // Credit is back as well when nothing is under way.
            while sender.progress() + receiver.progress() > 0 || network.advance() {}
            let (status, bytes) = receiver.take_with_buffer(receive).expect("it is complete");
            assert_eq!((status.outcome, bytes), (Ok(()), Some(vec![tag as u8; LONG])));
            if let Sent::Pending(request) = sent {
                assert_eq!(sender.take(request).expect("it is complete").outcome, Ok(()));
            }
        }
        assert_eq!(sender.counters().sent_rndv, offered, "share {share}");
    }
}
