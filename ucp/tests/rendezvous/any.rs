//! Receives from any source for which senders raise flags (`BOWLINE_ANY_SOURCE=flags`), step by step.

use bowline_sim::NetworkOptions;
use bowline_ucp::{CloseMode, MatchSpec, OpError, RequestId, SendMode};

use super::ranks::{Ranks, SPACE, pattern};

/// Messages below 64 bytes are sent as ever.
const SETTINGS: [(&str, &str); 3] = [
    ("BOWLINE_RNDV_THRESHOLD", "20000"),
    ("BOWLINE_RTR_MIN", "64"),
    ("BOWLINE_ANY_SOURCE", "flags"),
];

/// Ranks of which each is connected to each other one, over a network and over shared memory.
fn both(count: u32) -> [Ranks; 2] {
    let network = Ranks::simulated(count, NetworkOptions::default(), &SETTINGS);
    [network, Ranks::shared(count, &SETTINGS)].map(|ranks| {
        for from in 0..count as usize {
            for to in (0..count as usize).filter(|&to| to != from) {
                let send = ranks.send(from, to, 99, vec![1; 8]);
                let receive = ranks.receive(to, Some(from as u32), Some(99), 8);
                ranks.through(from, send, to, receive);
                assert!(ranks.received(to, receive).0.outcome.is_ok());
            }
        }
        settle(&ranks);
        ranks
    })
}

/// Everybody makes progress until nothing happens.
fn settle(ranks: &Ranks) {
    for _ in 0..600 {
        ranks.round();
        ranks.network.as_ref().map(|network| network.advance());
    }
}

/// What rank 0 has counted as a receiver: asked, asked without a message, copied, written here.
fn counted(ranks: &Ranks) -> [u64; 4] {
    let counters = ranks.worker(0).counters();
    [counters.any_asked, counters.any_missed, counters.any_copied, counters.landed]
}

fn is_complete(ranks: &Ranks, rank: usize, send: Option<RequestId>) -> bool {
    send.is_none_or(|send| ranks.worker(rank).is_complete(send))
}

#[track_caller]
fn receives(ranks: &Ranks, receive: RequestId, data: &[u8]) -> u32 {
    ranks.until(|| ranks.worker(0).is_complete(receive));
    let (status, bytes) = ranks.received(0, receive);
    assert_eq!((status.outcome, status.length), (Ok(()), data.len() as u64));
    assert!(bytes[..data.len()] == *data, "other bytes than were sent");
    status.source
}

#[track_caller]
fn nothing_is_open(ranks: &Ranks) {
    if let Some(network) = &ranks.network {
        let open: Vec<_> =
            (0..ranks.workers.len()).map(|rank| network.memories(rank as u32)).collect();
        assert_eq!(open, vec![0; open.len()], "memory left open");
    }
}

/// The entry outlives its receive: one message of each sender after the other, each asked for and written.
#[test]
fn each_message_is_asked_for_and_written() {
    for ranks in both(4) {
        for round in 0..5_u64 {
            let posted = [0; 3].map(|_| ranks.receive(0, None, Some(1), 5000));
            settle(&ranks);
            let data = |from: u64| pattern(1000 * from as usize, from + round);
            let sends = [1, 2, 3].map(|from| ranks.send(from, 0, 1, data(from as u64)));
            let mut sources = posted.map(|receive| {
                ranks.until(|| ranks.worker(0).is_complete(receive));
                let (status, bytes) = ranks.received(0, receive);
                assert_eq!(status.outcome, Ok(()));
                let expected = data(u64::from(status.source));
                assert!(bytes[..expected.len()] == expected);
                status.source
            });
            sources.sort_unstable();
            assert_eq!(sources, [1, 2, 3]);
            ranks.until(|| (1..4).all(|from| is_complete(&ranks, from, sends[from - 1])));
        }
        assert_eq!(counted(&ranks), [15, 0, 0, 15]);
        let sent = [1, 2, 3].map(|from| ranks.worker(from).counters().sent_any);
        assert_eq!(sent, [5; 3]);
        assert_eq!(ranks.worker(0).counters().unexpected, 0);
        nothing_is_open(&ranks);
    }
}

/// A send waits at its sender until there is a receive: one from any source, or from this one.
#[test]
fn a_send_waits_for_a_receive_of_any_kind() {
    for ranks in both(2) {
        let first = ranks.receive(0, None, Some(1), 100);
        settle(&ranks);
        let send = ranks.send(1, 0, 1, pattern(100, 1));
        ranks.through(1, send, 0, first);
        assert_eq!(receives(&ranks, first, &pattern(100, 1)), 1);
        for (source, tag) in [(None, Some(1)), (Some(1), Some(1)), (None, None), (Some(1), None)] {
            let sends = [2, 3].map(|seed| ranks.send(1, 0, 1, pattern(100, seed)));
            settle(&ranks);
            assert!(!is_complete(&ranks, 1, sends[0]), "nobody has asked for it");
            assert_eq!(ranks.worker(0).counters().unexpected, 0);
            for seed in [2, 3] {
                let receive = ranks.receive(0, source, tag, 100);
                assert_eq!(receives(&ranks, receive, &pattern(100, seed)), 1);
            }
            ranks.until(|| sends.iter().all(|&send| is_complete(&ranks, 1, send)));
        }
        assert_eq!(counted(&ranks), [9, 0, 0, 9]);
    }
}

/// A cancelled send leaves a stale flag, which is found out when its receive is lent.
#[test]
fn a_stale_flag_is_answered_in_vain() {
    for ranks in both(3) {
        let first = ranks.receive(0, None, Some(1), 100);
        settle(&ranks);
        let send = ranks.send(1, 0, 1, pattern(100, 1));
        ranks.through(1, send, 0, first);
        let stale = ranks.send(1, 0, 1, pattern(100, 2)).expect("it waits");
        settle(&ranks);
        ranks.worker(1).cancel(stale);
        assert_eq!(ranks.received(1, stale).0.outcome, Err(OpError::Cancelled));
        let receive = ranks.receive(0, None, Some(1), 100);
        settle(&ranks);
        assert_eq!(counted(&ranks), [2, 1, 0, 1]);
        assert!(!ranks.worker(0).is_complete(receive));
        let send = ranks.send(2, 0, 1, pattern(100, 3));
        assert_eq!(receives(&ranks, receive, &pattern(100, 3)), 2);
        ranks.until(|| is_complete(&ranks, 2, send));
        // The flag can be raised again.
        let send = ranks.send(1, 0, 1, pattern(100, 4));
        let receive = ranks.receive(0, None, Some(1), 100);
        assert_eq!(receives(&ranks, receive, &pattern(100, 4)), 1);
        ranks.until(|| is_complete(&ranks, 1, send));
        nothing_is_open(&ranks);
    }
}

/// A message without a flag meets a lent receive: it waits for the answer, and has the receive then. What was written is
/// copied out and goes to the next one.
#[test]
fn a_lent_receive_that_another_message_meets_has_met_it() {
    // Short, in pieces, and offered.
    for (length, mode) in [
        (20, SendMode::Standard),
        (20, SendMode::Synchronous),
        (4000, SendMode::Synchronous),
        (30_000, SendMode::Standard),
    ] {
        let options = NetworkOptions { max_bcopy: 1024, ..NetworkOptions::default() };
        let ranks = Ranks::simulated(3, options, &SETTINGS);
        for from in [1, 2] {
            let send = ranks.send(from, 0, 99, vec![1; 8]);
            let receive = ranks.receive(0, Some(from as u32), Some(99), 8);
            ranks.through(from, send, 0, receive);
            let send = ranks.send(0, from, 99, vec![1; 8]);
            let receive = ranks.receive(from, Some(0), Some(99), 8);
            ranks.through(0, send, from, receive);
        }
        let posted = [0; 2].map(|_| ranks.receive(0, None, Some(1), 40_000));
        settle(&ranks);
        let flagged = ranks.send(1, 0, 1, pattern(8000, 1));
        let network = ranks.network.as_ref().expect("simulated");
        while counted(&ranks)[0] == 0 {
            ranks.worker(1).progress();
            ranks.worker(0).progress();
            network.advance();
        }
        // Rank 1 was not notified of that yet.
        let other = ranks.send_as(2, 0, 1, pattern(length, 2), mode);
        for _ in 0..60 {
            ranks.worker(2).progress();
            ranks.worker(0).progress();
            network.advance();
        }
        assert!(!ranks.worker(0).is_complete(posted[0]), "its buffer is lent");
        assert_eq!(receives(&ranks, posted[0], &pattern(length, 2)), 2, "{length}");
        assert_eq!(receives(&ranks, posted[1], &pattern(8000, 1)), 1, "{length}");
        ranks.until(|| is_complete(&ranks, 1, flagged) && is_complete(&ranks, 2, other));
        assert_eq!(counted(&ranks)[..3], [1, 0, 1], "{length}");
        nothing_is_open(&ranks);
    }
}

/// A cancelled receive that is lent waits for the answer: the message wins, or there is none.
#[test]
fn a_lent_receive_is_cancelled() {
    for stale in [false, true] {
        let ranks = Ranks::simulated(2, NetworkOptions::default(), &SETTINGS);
        for (from, to) in [(0, 1), (1, 0)] {
            let send = ranks.send(from, to, 99, vec![1; 8]);
            let receive = ranks.receive(to, Some(from as u32), Some(99), 8);
            ranks.through(from, send, to, receive);
        }
        let receive = ranks.receive(0, None, Some(1), 5000);
        settle(&ranks);
        let send = ranks.send(1, 0, 1, pattern(5000, 1)).expect("it waits");
        let network = ranks.network.as_ref().expect("simulated");
        while counted(&ranks)[0] == 0 {
            ranks.round();
            network.advance();
        }
        if stale {
            ranks.worker(1).cancel(send);
        }
        ranks.worker(0).cancel(receive);
        assert!(!ranks.worker(0).is_complete(receive), "its sender may be writing");
        ranks.until(|| ranks.worker(0).is_complete(receive));
        let (status, bytes) = ranks.received(0, receive);
        if stale {
            assert_eq!(status.outcome, Err(OpError::Cancelled));
            assert_eq!(counted(&ranks), [1, 1, 0, 0]);
        } else {
            assert_eq!(status.outcome, Ok(()));
            assert!(bytes == pattern(5000, 1));
        }
        nothing_is_open(&ranks);
    }
}

/// Messages that only a flag stands for are found by probes, and can be claimed.
#[test]
fn a_probe_has_flagged_messages_come() {
    for ranks in both(2) {
        let first = ranks.receive(0, None, Some(1), 100);
        settle(&ranks);
        let send = ranks.send(1, 0, 1, pattern(100, 1));
        ranks.through(1, send, 0, first);
        for source in [None, Some(1)] {
            let sends = [2, 3].map(|seed| ranks.send(1, 0, 1, pattern(100, seed)));
            let spec = MatchSpec { space: SPACE, source, tag: 1, tag_mask: u64::MAX };
            ranks.until(|| ranks.worker(0).probe(&spec).is_some());
            let found = ranks.worker(0).probe(&spec).expect("it is here");
            assert_eq!((found.source, found.length), (1, 100));
            let (_, message) = ranks.worker(0).claim(&spec).expect("it is here");
            let buffer = bowline_base::buffer::RecvBuf::owned(vec![0; 100]);
            let receive = ranks.worker(0).recv_claimed(message, buffer).expect("claimed");
            assert_eq!(receives(&ranks, receive, &pattern(100, 2)), 1);
            // The next receive enables the entry again.
            let receive = ranks.receive(0, None, Some(1), 100);
            assert_eq!(receives(&ranks, receive, &pattern(100, 3)), 1);
            ranks.until(|| sends.iter().all(|&send| is_complete(&ranks, 1, send)));
            let receive = ranks.receive(0, None, Some(1), 100);
            settle(&ranks);
            let send = ranks.send(1, 0, 1, pattern(100, 4));
            assert!(send.is_some(), "it waits for the word of its receiver");
            assert_eq!(receives(&ranks, receive, &pattern(100, 4)), 1);
        }
    }
}

/// More tags than the table has entries: the oldest is given up, and what waited for it comes as ever.
#[test]
fn a_full_table_gives_its_oldest_entry_up() {
    for ranks in both(2) {
        let receive = ranks.receive(0, None, Some(0), 100);
        settle(&ranks);
        let send = ranks.send(1, 0, 0, pattern(100, 1));
        ranks.through(1, send, 0, receive);
        let waits = ranks.send(1, 0, 0, pattern(100, 2));
        settle(&ranks);
        assert!(!is_complete(&ranks, 1, waits));
        let posted: Vec<_> =
            (1..40).map(|tag| (tag, ranks.receive(0, None, Some(tag), 100))).collect();
        settle(&ranks);
        assert!(is_complete(&ranks, 1, waits), "it came as ever");
        assert_eq!(ranks.worker(0).counters().unexpected, 1);
        for (tag, receive) in posted {
            let send = ranks.send(1, 0, tag, pattern(100, tag));
            assert_eq!(receives(&ranks, receive, &pattern(100, tag)), 1);
            ranks.until(|| is_complete(&ranks, 1, send));
        }
        let receive = ranks.receive(0, None, Some(0), 100);
        assert_eq!(receives(&ranks, receive, &pattern(100, 2)), 1);
    }
}

/// What does not wait goes behind what does: messages of a sender keep their order.
#[test]
fn what_does_not_wait_has_all_in_front_of_it_go() {
    for ranks in both(2) {
        let first = ranks.receive(0, None, Some(1), 100);
        settle(&ranks);
        let send = ranks.send(1, 0, 1, pattern(100, 1));
        ranks.through(1, send, 0, first);
        // Of another tag, short, empty, synchronous, and offered.
        for (tag, length, mode) in [
            (2, 500, SendMode::Standard),
            (1, 10, SendMode::Standard),
            (1, 0, SendMode::Standard),
            (1, 500, SendMode::Synchronous),
            (1, 30_000, SendMode::Standard),
        ] {
            let waits = ranks.send(1, 0, 1, pattern(100, 2));
            settle(&ranks);
            assert!(!is_complete(&ranks, 1, waits));
            let behind = ranks.send_as(1, 0, tag, pattern(length, 3), mode);
            settle(&ranks);
            assert!(is_complete(&ranks, 1, waits), "tag {tag}, {length} bytes");
            // Of any tag: the older one first.
            for data in [pattern(100, 2), pattern(length, 3)] {
                let receive = ranks.receive(0, Some(1), None, 30_000);
                assert_eq!(receives(&ranks, receive, &data), 1);
            }
            ranks.until(|| is_complete(&ranks, 1, behind));
        }
    }
}

/// A message that is longer than the buffer comes as ever, and is cut there.
#[test]
fn a_message_longer_than_the_buffer_comes_as_ever() {
    for ranks in both(2) {
        let receive = ranks.receive(0, None, Some(1), 100);
        settle(&ranks);
        let send = ranks.send(1, 0, 1, pattern(5000, 1));
        ranks.through(1, send, 0, receive);
        let (status, bytes) = ranks.received(0, receive);
        let cut = Err(OpError::Truncated { message: 5000, capacity: 100 });
        assert_eq!((status.outcome, status.length), (cut, 5000));
        assert!(bytes == pattern(5000, 1)[..100]);
        assert_eq!(counted(&ranks), [1, 1, 0, 0]);
        nothing_is_open(&ranks);
    }
}

/// Memory that takes no writes: the receive is given back, and messages come as ever.
#[test]
fn a_refused_write_sends_the_message_as_ever() {
    for allowed in 0..4 {
        let options = NetworkOptions { refuse_after: allowed, ..NetworkOptions::default() };
        let ranks = Ranks::simulated(2, options, &SETTINGS);
        for (from, to) in [(0, 1), (1, 0)] {
            let send = ranks.send(from, to, 99, vec![1; 8]);
            let receive = ranks.receive(to, Some(from as u32), Some(99), 8);
            ranks.through(from, send, to, receive);
        }
        for seed in 0..4 {
            let posted = [0; 2].map(|_| ranks.receive(0, None, Some(1), 5000));
            settle(&ranks);
            let sends = [0, 1].map(|n| ranks.send(1, 0, 1, pattern(5000, 2 * seed + n)));
            for n in [0, 1] {
                let data = pattern(5000, 2 * seed + n as u64);
                assert_eq!(receives(&ranks, posted[n], &data), 1);
            }
            ranks.until(|| sends.iter().all(|&send| is_complete(&ranks, 1, send)));
        }
        nothing_is_open(&ranks);
    }
}

/// The end of a space, of an endpoint and of a worker, while a send waits and while a receive is lent.
#[test]
fn what_waits_ends_with_its_space_endpoint_or_worker() {
    for end in 0..6 {
        for rounds in 0..30 {
            let mut ranks = Ranks::simulated(2, NetworkOptions::default(), &SETTINGS);
            for (from, to) in [(0, 1), (1, 0)] {
                let send = ranks.send(from, to, 99, vec![1; 8]);
                let receive = ranks.receive(to, Some(from as u32), Some(99), 8);
                ranks.through(from, send, to, receive);
            }
            let receive = ranks.receive(0, None, Some(1), 5000);
            settle(&ranks);
            let sends = [1, 2].map(|seed| ranks.send(1, 0, 1, pattern(5000, seed)));
            for _ in 0..rounds {
                ranks.round();
                ranks.network.as_ref().map(|network| network.advance());
            }
            let what = format!("end {end}, {rounds} rounds");
            match end {
                0 => ranks.worker(0).close_space(SPACE),
                1 | 2 => {
                    let mode = [CloseMode::Flush, CloseMode::Force][end - 1];
                    let close = ranks.close(1, 0, mode);
                    ranks.until(|| is_complete(&ranks, 1, close));
                }
                3 => {
                    let close = ranks.close(0, 1, CloseMode::Force);
                    ranks.until(|| is_complete(&ranks, 0, close));
                }
                4 => drop(ranks.workers[0].take()),
                _ => drop(ranks.workers[1].take()),
            }
            if end != 5 {
                ranks.until(|| (0..2).all(|n| is_complete(&ranks, 1, sends[n])));
            }
            if end == 4 {
                continue;
            }
            settle(&ranks);
            ranks.worker(0).cancel(receive);
            ranks.until(|| ranks.worker(0).is_complete(receive));
            let (status, bytes) = ranks.received(0, receive);
            assert!(status.outcome.is_err() || bytes == pattern(5000, 1), "{what}");
            let network = ranks.network.as_ref().expect("simulated");
            assert_eq!(network.memories(0), 0, "{what}: memory left open");
        }
    }
}
