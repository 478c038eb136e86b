//! What a peer can make a worker keep: payload, envelopes, spaces, operations and answers are bounded.

use super::*;

/// Runs a flood of a rule breaker until it is rejected; returns how many messages that took.
fn flood(
    settings: &[(&str, &str)],
    most: u64,
    prepare: impl FnOnce(&Worker),
    mut message: impl FnMut(u64) -> (u8, [u64; 2], Vec<u8>),
) -> (Worker, Forger, u64) {
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, settings);
    prepare(&victim);
    let mut forger = Forger::new(&network, &victim);
    let named = receive(&victim, Some(1), 1 << 40);
    let mut sent = 0;
    while victim.counters().peers_failed == 0 {
        assert!(sent < most, "nothing bounds it: {:?}", victim.counters());
        let (id, words, payload) = message(sent);
        forger.posts(&victim, id, words, &payload);
        sent += 1;
    }
    forger.reads = true;
    forger.settle(&victim);
    ends_with(&victim, named, OpError::TooManyUnexpected);
    assert_eq!(forger.notices(), [2]);
    (victim, forger, sent)
}

#[test]
fn payload_without_credit_is_bounded() {
    // 64 KB were granted, and a megabyte is let pass.
    let (victim, ..) = flood(&[], 10_000, |_| {}, |_| (EAGER, tagged(0, 1, 5), vec![1; 4096]));
    let kept = victim.counters().unexpected;
    assert!(kept * 4096 > 64 << 10 && kept <= (1 << 20 | 64 << 10) / 4096 + BATCH, "{kept}");
    // It has its memory back: nothing of the flood is there any more.
    assert_eq!(victim.probe(&wants(Some(1), 5)), None);
}

#[test]
fn payload_of_pieces_without_credit_is_bounded() {
    let first = |number: u64| {
        let mut payload = (number + 1).to_le_bytes().to_vec();
        payload.extend((1u64 << 30).to_le_bytes());
        payload.extend(0u64.to_le_bytes());
        payload.extend(vec![1; 4000]);
        (AM_FIRST, [7, 0], payload)
    };
    // Of each of 60 messages a first piece, then further pieces of the last.
    let (_, _, sent) = flood(
        &[],
        10_000,
        |_| {},
        |number| match number {
            0..60 => first(number),
            _ => (PIECE, [60, 4000 * (number - 59)], vec![1; 4000]),
        },
    );
    assert!(sent <= (1 << 20 | 64 << 10) / 4000 + 2 * BATCH, "{sent}");
}

#[test]
fn a_stream_without_credit_is_bounded() {
    let (victim, forger, sent) = flood(&[], 10_000, |_| {}, |_| (STREAM, [0, 0], vec![1; 4096]));
    assert!(sent <= (1 << 20 | 64 << 10) / 4096 + 2 * BATCH, "{sent}");
    drop((victim, forger));
}

#[test]
fn envelopes_are_bounded_by_their_real_size() {
    let settings = [("BOWLINE_UNEXPECTED_ENVELOPES", "1m")];
    let (victim, ..) = flood(&settings, 100_000, |_| {}, |_| (EAGER, tagged(0, 1, 5), vec![1; 8]));
    assert!(victim.counters().unexpected <= (1 << 20) / 160 + BATCH);
    // What names data of the sender is larger.
    let mut rts = 1u64.to_le_bytes().to_vec();
    rts.extend(5u64.to_le_bytes());
    rts.extend(4u64.to_le_bytes());
    let (victim, ..) = flood(&settings, 100_000, |_| {}, |_| (RTS, tagged(0, 1, 5), rts.clone()));
    assert!(victim.counters().unexpected <= (1 << 20) / 360 + BATCH);
}

#[test]
fn spaces_that_a_peer_invents_are_counted() {
    let settings = [("BOWLINE_UNEXPECTED_ENVELOPES", "1m")];
    let (victim, _, sent) = flood(
        &settings,
        100_000,
        |_| {},
        |number| (EAGER, tagged(9 + number as u32, 1, 5), vec![]),
    );
    assert!(sent <= (1 << 20) / 700 + 2 * BATCH, "{sent}");
    // And one beyond those that are found by an index.
    let (other, _, sent) = flood(
        &settings,
        100_000,
        |_| {},
        |number| (EAGER, tagged(u32::MAX - number as u32, 1, 5), vec![]),
    );
    assert!(sent <= (1 << 20) / 700 + 2 * BATCH, "{sent}");
    for victim in [victim, other] {
        victim.open_space(9, space()).expect("no message is in it");
        victim.open_space(u32::MAX, space()).expect("no message is in it");
    }
}

#[test]
fn active_messages_that_wait_for_a_running_handler_are_bounded() {
    let settings = [("BOWLINE_UNEXPECTED_ENVELOPES", "1m")];
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &settings);
    let forger = Arc::new(Mutex::new(Forger::new(&network, &victim)));
    let other = Arc::clone(&forger);
    victim.am_handler(
        7,
        Box::new(move |victim, _| {
            // The handler waits for something and makes progress; its id has no handler meanwhile.
            let mut forger = other.lock().expect("one thread");
            for sent in 0.. {
                if victim.counters().peers_failed > 0 {
                    return;
                }
                assert!(sent < 100_000, "nothing bounds it");
                forger.posts(victim, AM, [7, 0], &[1; 8]);
            }
        }),
    );
    forger.lock().expect("one thread").posts(&victim, AM, [7, 0], &[1; 8]);
    while victim.counters().peers_failed == 0 {
        if victim.progress() == 0 {
            network.advance();
        }
    }
    let forger = &mut *forger.lock().expect("one thread");
    forger.settle(&victim);
    assert_eq!(forger.notices(), [2]);
    assert_eq!(victim.counters().am_received, 1, "what waited was dropped");
}

#[test]
fn envelopes_of_active_messages_that_are_kept_are_bounded() {
    let settings = [("BOWLINE_UNEXPECTED_ENVELOPES", "1m")];
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&kept);
    let prepare = |victim: &Worker| {
        victim.am_handler(
            7,
            Box::new(move |_, message| keeps.lock().expect("one thread").push(message.keep())),
        );
    };
    let (victim, ..) = flood(&settings, 100_000, prepare, |number| {
        let mut rts = number.to_le_bytes().to_vec();
        rts.extend(5u64.to_le_bytes());
        rts.extend(4u64.to_le_bytes());
        (AM_RTS, [7 | (rts.len() as u64) << 16, 0], rts)
    });
    let kept = std::mem::take(&mut *kept.lock().expect("one thread"));
    assert!(kept.len() as u64 <= (1 << 20) / 300 + BATCH, "{}", kept.len());
    for message in kept {
        victim.am_drop(message);
    }
}

#[test]
fn operations_on_memory_that_are_not_answered_are_bounded() {
    let network = Network::new(NetworkOptions { slots: 64, ..NetworkOptions::default() });
    let victim = worker(&network, 0, &[]);
    let mut forger = Forger::new(&network, &victim);
    forger.reads = false;
    let mut flush = vec![0; 8];
    flush[0] = 0;
    for sent in 0.. {
        if victim.counters().peers_failed > 0 {
            break;
        }
        // Its queue holds 64 answers; 16 operations may be without one.
        assert!(sent < 64 + 16 + 2 * BATCH, "nothing bounds it");
        forger.posts(&victim, REMOTE, [0, 0], &flush);
    }
    forger.reads = true;
    forger.settle(&victim);
    assert_eq!(forger.notices(), [1]);
}

#[test]
fn answers_that_a_peer_does_not_take_are_bounded() {
    let network = Network::new(NetworkOptions { slots: 64, ..NetworkOptions::default() });
    let victim = worker(&network, 0, &[("BOWLINE_UNEXPECTED_ENVELOPES", "1m")]);
    let mut forger = Forger::new(&network, &victim);
    forger.reads = false;
    for sent in 0u64.. {
        if victim.counters().peers_failed > 0 {
            break;
        }
        assert!(sent < 100_000, "nothing bounds it");
        let request = victim.recv(wants(None, 5), RecvBuf::owned(vec![0; 8]));
        victim.detach(request.expect("the space is open"));
        forger.posts(&victim, EAGER_SYNC, tagged(0, 1, 5), &(sent + 1).to_le_bytes());
    }
    forger.reads = true;
    forger.settle(&victim);
    assert_eq!(forger.notices(), [2]);
}

/// A peer that is rejected in the midst of a message that it writes: its user has the buffer back when
/// nobody can write to it any more.
#[test]
fn memory_that_a_flooder_may_write_to_is_closed_before_its_user_has_it() {
    let network =
        Network::new(NetworkOptions { whole_process: false, ..NetworkOptions::default() });
    let victim = worker(&network, 0, &[("BOWLINE_RNDV_SCHEME", "put")]);
    let mut forger = Forger::new(&network, &victim);
    let written = receive(&victim, Some(1), 9);
    // Its request, 64 bytes, and that it can write them.
    let offer: Vec<u8> = [7u64, 64, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    forger.posts(&victim, RTS, tagged(0, 1, 9), &offer);
    forger.settle(&victim);
    assert_eq!(network.memories(0), 1, "the sender may write to it");
    for sent in 0.. {
        assert!(sent < 10_000, "nothing bounds it");
        forger.says(EAGER, tagged(0, 1, 5), &[1; 4096]);
        forger.lane.progress(&mut forger.heard, 64);
        network.advance();
        victim.progress();
        if victim.is_complete(written) {
            break;
        }
    }
    assert_eq!(network.memories(0), 0, "it is open, and its user's");
    ends_with(&victim, written, OpError::TooManyUnexpected);
}
