//! Each scheme, forced by its setting: the bytes, the ends of both sides, and which protocol it was.

use bowline_sim::{Faults, NetworkOptions};
use bowline_ucp::{Counters, OpError, SendMode};

use super::ranks::{Ranks, pattern};

/// How many messages each protocol has brought to a receiver.
fn carried(counters: &Counters) -> [u64; 4] {
    [counters.fetched, counters.landed, counters.copied, counters.shared]
}

const LENGTHS: [(usize, usize); 8] = [
    (40, 40),
    (5000, 5000),
    (5000, 4999),
    (100_000, 100_000),
    (100_000, 1),
    (100_000, 0),
    (9_000_000, 9_000_000),
    (9_000_000, 9_000_001),
];

fn messages(ranks: &Ranks, first: u64) {
    for (nth, &(len, capacity)) in LENGTHS.iter().enumerate() {
        for mode in [SendMode::Standard, SendMode::Synchronous] {
            for receive_first in [true, false] {
                let tag = first + nth as u64;
                let data = pattern(len, tag);
                let early = receive_first.then(|| ranks.receive(1, Some(0), Some(tag), capacity));
                let send = ranks.send_as(0, 1, tag, data.clone(), mode);
                if early.is_none() {
                    for _ in 0..20 {
                        ranks.round();
                    }
                }
                let receive =
                    early.unwrap_or_else(|| ranks.receive(1, Some(0), Some(tag), capacity));
                ranks.through(0, send, 1, receive);
                if let Some(send) = send {
                    let status = ranks.worker(0).take(send).expect("complete");
                    assert_eq!((status.outcome, status.length), (Ok(()), len as u64));
                }
                let (status, bytes) = ranks.received(1, receive);
                let (message, cut) = (len as u64, capacity.min(len));
                let expected = if capacity < len {
                    Err(OpError::Truncated { message, capacity: capacity as u64 })
                } else {
                    Ok(())
                };
                assert_eq!(status.outcome, expected, "{len} bytes into {capacity}");
                assert_eq!((status.source, status.tag, status.length), (0, tag, message));
                assert!(bytes[..cut] == data[..cut], "{len} bytes into {capacity}");
                assert!(bytes[cut..].iter().all(|&byte| byte == 0), "behind {len} bytes");
            }
        }
    }
}

/// Messages of which nothing is wanted are answered without any protocol.
const EMPTY: u64 = 4;
const ALL: u64 = 4 * LENGTHS.len() as u64;

#[test]
fn each_scheme_carries_everything_over_a_network() {
    for seed in 0..4 {
        for (scheme, one_sided, whole_process, expected) in [
            ("auto", true, true, [ALL, 0, 0, 0]),
            ("auto", true, false, [EMPTY, ALL - EMPTY, 0, 0]),
            ("auto", false, false, [EMPTY, 0, ALL - EMPTY, 0]),
            ("get", true, true, [ALL, 0, 0, 0]),
            ("get", true, false, [EMPTY, ALL - EMPTY, 0, 0]),
            ("put", true, true, [EMPTY, ALL - EMPTY, 0, 0]),
            ("put", false, false, [EMPTY, 0, ALL - EMPTY, 0]),
            ("copy", true, true, [EMPTY, 0, ALL - EMPTY, 0]),
        ] {
            let loss = if seed % 2 == 1 { 100_000 } else { 0 };
            let faults = Faults { loss, retransmit_ns: 5000, ..Faults::default() };
            let options = NetworkOptions {
                seed,
                faults,
                jitter_ns: 700 * seed,
                one_sided,
                whole_process,
                slots: 8,
                ..NetworkOptions::default()
            };
            let settings = [("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", scheme)];
            let ranks = Ranks::simulated(2, options, &settings);
            messages(&ranks, 1);
            let counters = ranks.worker(1).counters();
            assert_eq!(carried(&counters), expected, "{scheme}, seed {seed}");
            let network = ranks.network.as_ref().expect("simulated");
            assert_eq!([network.memories(0), network.memories(1)], [0, 0], "memory left open");
        }
    }
}

#[test]
fn each_scheme_carries_everything_over_shared_memory() {
    for (scheme, expected) in [
        ("get", [ALL, 0, 0, 0]),
        ("put", [EMPTY, ALL - EMPTY, 0, 0]),
        ("copy", [EMPTY, 0, ALL - EMPTY, 0]),
    ] {
        let settings = [("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", scheme)];
        let ranks = Ranks::shared(2, &settings);
        messages(&ranks, 1);
        let counters = ranks.worker(1).counters();
        assert_eq!(carried(&counters), expected, "{scheme}");
    }
}

/// Whatever a setting asks for and whatever there is, what is chosen can be had: what is asked for, or else
/// the best of the rest.
#[test]
fn what_is_chosen_can_be_had() {
    const FETCHED: [u64; 4] = [1, 0, 0, 0];
    const SHARED: [u64; 4] = [1, 0, 0, 1];
    const LANDED: [u64; 4] = [0, 1, 0, 0];
    const COPIED: [u64; 4] = [0, 0, 1, 0];
    let network = |whole_process, exposes, one_sided| {
        let none = NetworkOptions::default();
        Some(NetworkOptions { whole_process, exposes, one_sided, ..none })
    };
    // What there is, then whether messages can be read, shared and written.
    let worlds = [
        (None, [true, true, true]),
        (network(true, false, true), [true, false, true]),
        (network(false, true, true), [true, false, true]),
        (network(false, false, true), [false, false, true]),
        (network(false, false, false), [false; 3]),
    ];
    for (options, [get, share, put]) in worlds {
        for scheme in ["auto", "get", "put", "copy", "rtr"] {
            let settings = [
                ("BOWLINE_RNDV_THRESHOLD", "0"),
                ("BOWLINE_RNDV_SCHEME", scheme),
                ("BOWLINE_COOPERATE", "64k"),
            ];
            let ranks = match options.clone() {
                Some(options) => Ranks::simulated(2, options, &settings),
                None => Ranks::shared(2, &settings),
            };
            let message = |tag| {
                let before = carried(&ranks.worker(1).counters());
                let unexpected = ranks.worker(1).counters().unexpected;
                let send = ranks.send(0, 1, tag, pattern(200_000, tag));
                // Nobody announces what is there.
                ranks.until(|| ranks.worker(1).counters().unexpected > unexpected);
                let receive = ranks.receive(1, Some(0), Some(tag), 200_000);
                ranks.through(0, send, 1, receive);
                assert!(ranks.received(1, receive).1 == pattern(200_000, tag));
                let after = carried(&ranks.worker(1).counters());
                [0, 1, 2, 3].map(|nth| after[nth] - before[nth])
            };
            // The first one shows that memory can be read, without which none is shared.
            message(1);
            let expected = match scheme {
                "copy" => COPIED,
                "put" | "rtr" if put => LANDED,
                "get" if get => FETCHED,
                _ if get && share => SHARED,
                _ if get => FETCHED,
                _ if put => LANDED,
                _ => COPIED,
            };
            assert_eq!(
                message(2),
                expected,
                "{scheme}; read, shared, written: {get} {share} {put}"
            );
        }
    }
}

/// A permission is taken back in the middle of a message: it comes by another protocol, and so do all
/// after it.
#[test]
fn what_is_refused_comes_by_another_protocol() {
    for scheme in ["auto", "get", "put"] {
        for refuse_after in 0..6 {
            let options = NetworkOptions {
                refuse_after,
                whole_process: scheme != "put",
                ..NetworkOptions::default()
            };
            let settings = [("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_RNDV_SCHEME", scheme)];
            let ranks = Ranks::simulated(2, options, &settings);
            messages(&ranks, 1);
            let [fetched, landed, copied, _] = carried(&ranks.worker(1).counters());
            assert_eq!(fetched + landed + copied, ALL);
            assert!(copied > 0, "{scheme}: {refuse_after} operations cannot have carried all");
            let network = ranks.network.as_ref().expect("simulated");
            assert_eq!([network.memories(0), network.memories(1)], [0, 0], "memory left open");
        }
    }
}

/// Memory that both sides map is copied without the transport.
#[test]
fn memory_from_bowline_is_copied_in_place() {
    use bowline_base::buffer::{RecvBuf, SendBuf};
    use bowline_ucp::{Envelope, MatchSpec, Sent};
    let settings = [("BOWLINE_RNDV_THRESHOLD", "0"), ("BOWLINE_COOPERATE", "1g")];
    let ranks = Ranks::shared(2, &settings);
    let (sender, receiver) = (ranks.worker(0), ranks.worker(1));
    let len = 5 << 20;
    let memory = sender.mem_alloc(len).expect("memory");
    let data = pattern(len, 7);
    let start = sender.mem_view(memory, |view| {
        view.copy_in(&data);
        view.as_ptr()
    });
    // SAFETY: the memory is released at the end of the test, when the send is complete, and nobody
    // writes it meanwhile.
    let buffer = unsafe { SendBuf::borrowed(start.expect("there"), len) };
    let spec = MatchSpec { space: 3, source: Some(0), tag: 1, tag_mask: u64::MAX };
    let receive = receiver.recv(spec, RecvBuf::owned(vec![0; len])).expect("posted");
    let ep = sender.connect(&receiver.address()).expect("known");
    let envelope = Envelope { space: 3, source: 0, tag: 1 };
    let sent = sender.send(ep, envelope, buffer, SendMode::Standard).expect("sent");
    let Sent::Pending(send) = sent else { panic!("it lies with its sender") };
    ranks.through(0, Some(send), 1, receive);
    assert!(ranks.received(1, receive).1 == data);
    let counters = receiver.counters();
    assert_eq!((counters.mapped, counters.fetched), (1, 1));
    sender.mem_release(memory).expect("held");
}
