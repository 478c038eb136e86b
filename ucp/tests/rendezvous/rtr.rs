//! Receives that are announced to their senders.

use std::sync::Arc;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::sync::atomic::{AtomicU32, Ordering};
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{
    Envelope, MatchSpec, Members, OpError, RequestId, SendMode, Sent, SpaceOptions, WorkerParts,
};

use super::ranks::{Ranks, SPACE, pattern};
use crate::doubles::{config, of_everybody, opened, parts};

const SETTINGS: [(&str, &str); 2] =
    [("BOWLINE_RNDV_THRESHOLD", "1000"), ("BOWLINE_RNDV_SCHEME", "rtr")];

/// Ranks over networks whose messages come behind puts, and where a flush stands between them, and over shared memory.
fn everywhere() -> [Ranks; 3] {
    let simulated = |put_before_am| {
        let options = NetworkOptions { put_before_am, ..NetworkOptions::default() };
        Ranks::simulated(2, options, &SETTINGS)
    };
    [simulated(true), simulated(false), Ranks::shared(2, &SETTINGS)]
}

/// Both sides poll until nothing happens.
fn settle(ranks: &Ranks) {
    for _ in 0..600 {
        ranks.round();
        ranks.network.as_ref().map(|network| network.advance());
    }
}

/// A window of receives is announced, and every message is written at once.
#[test]
fn a_window_is_announced_and_written() {
    for ranks in everywhere() {
        for round in 0..3_u64 {
            let lens = [5000, 100_000, 2000, 70_000];
            let receives = lens.map(|len| ranks.receive(1, Some(0), Some(1), len));
            settle(&ranks);
            let sends =
                [0, 1, 2, 3].map(|n| ranks.send(0, 1, 1, pattern(lens[n], n as u64 + round)));
            for n in 0..4 {
                ranks.through(0, sends[n], 1, receives[n]);
                let (status, bytes) = ranks.received(1, receives[n]);
                assert_eq!(status.outcome, Ok(()));
                assert!(bytes == pattern(lens[n], n as u64 + round));
            }
        }
        let (sender, receiver) = (ranks.worker(0).counters(), ranks.worker(1).counters());
        assert_eq!((sender.sent_rtr, sender.sent_rndv, sender.rtr_declined), (12, 0, 0));
        assert_eq!(sender.rtr_taken, 0, "a message and its word are all that goes to the receiver");
        assert_eq!((receiver.rtr, receiver.rtr_missed, receiver.landed), (12, 0, 12));
        if let Some(network) = &ranks.network {
            assert_eq!([network.memories(0), network.memories(1)], [0, 0], "memory left open");
        }
    }
}

/// Whom a receive is announced to is searched for among all peers only once.
#[test]
fn the_sender_of_a_receive_is_searched_for_once() {
    const COUNT: u32 = 12;
    const OTHER: u32 = SPACE + 1;
    let ranks = Ranks::simulated(COUNT, NetworkOptions::default(), &SETTINGS);
    let asked = Arc::new(Asked(AtomicU32::new(0)));
    let members = Some(Arc::clone(&asked) as Arc<dyn Members>);
    let options = || SpaceOptions { members: members.clone(), ..SpaceOptions::default() };
    ranks.worker(0).open_space(OTHER, options()).expect("it is new");
    let receive = |source| {
        let spec = MatchSpec { space: OTHER, source: Some(source), tag: 1, tag_mask: u64::MAX };
        ranks.worker(0).recv(spec, RecvBuf::owned(vec![0; 5000])).expect("posted")
    };
    // Questions for a receive of each rank.
    let questions = || {
        // Relaxed: one thread.
        let before = asked.0.load(Ordering::Relaxed);
        for source in 1..COUNT {
            let _: RequestId = receive(source);
        }
        asked.0.load(Ordering::Relaxed) - before
    };
    assert!(questions() > 2 * COUNT, "all peers are asked for those that come later");
    assert_eq!([questions(), questions(), questions()], [COUNT - 1; 3]);
    assert_eq!(ranks.worker(0).counters().rtr, 4 * u64::from(COUNT - 1));
    // What is known of a space goes with it.
    ranks.worker(0).close_space(OTHER);
    settle(&ranks);
    ranks.worker(0).open_space(OTHER, options()).expect("it was closed");
    assert!(questions() > 2 * COUNT, "the space is another one");
}

/// A worker that has the rank of one that was closed is found, though that one was found before.
#[test]
fn receives_are_announced_to_the_worker_that_has_a_rank_now() {
    let network = Network::new(NetworkOptions::default());
    let config = config(&SETTINGS);
    let open = |rank, incarnation| {
        let parts = parts(rank, Box::new(network.open()), &config);
        let uid = u64::from(10 * incarnation + rank + 1);
        opened(WorkerParts { incarnation, uid, ..parts }, SPACE, of_everybody())
    };
    let receiver = open(0, 0);
    for incarnation in 0..3 {
        let sender = open(1, incarnation);
        let [to_sender, to_receiver] =
            [receiver.connect(&sender.address()), sender.connect(&receiver.address())];
        let to_receiver = to_receiver.expect("they reach each other");
        to_sender.expect("they reach each other");
        let workers = [&receiver, &sender];
        let spec = MatchSpec { space: SPACE, source: Some(1), tag: 1, tag_mask: u64::MAX };
        let receive = receiver.recv(spec, RecvBuf::owned(vec![0; 5000])).expect("posted");
        while workers.iter().map(|worker| worker.progress()).sum::<u32>() > 0 || network.advance() {
        }
        assert_eq!(receiver.counters().rtr, u64::from(incarnation) + 1, "it is announced");
        let envelope = Envelope { space: SPACE, source: 1, tag: 1 };
        let data = SendBuf::owned(pattern(5000, incarnation.into()));
        let sent = sender.send(to_receiver, envelope, data, SendMode::Standard).expect("sent");
        while workers.iter().map(|worker| worker.progress()).sum::<u32>() > 0 || network.advance() {
        }
        assert!(!matches!(sent, Sent::Pending(id) if !sender.is_complete(id)));
        let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
        assert_eq!(status.outcome, Ok(()));
        assert!(bytes == Some(pattern(5000, incarnation.into())));
        assert_eq!(sender.counters().sent_rtr, 1);
        drop(sender);
        while receiver.progress() > 0 || network.advance() {}
    }
    assert_eq!(receiver.counters().landed, 3);
}

/// Ranks of the space are those of the job. Counts who asks.
#[derive(Debug)]
struct Asked(AtomicU32);

impl Members for Asked {
    fn rank_of(&self, world_rank: u32) -> Option<u32> {
        // Relaxed: one thread.
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(world_rank)
    }
}

/// Envelopes and announcements that cross: the message comes once, by an ordinary receive.
#[test]
fn what_crosses_is_met_in_the_usual_way() {
    for ranks in everywhere() {
        // The two know each other.
        let (send, receive) =
            (ranks.send(0, 1, 9, vec![1; 100]), ranks.receive(1, Some(0), Some(9), 100));
        ranks.through(0, send, 1, receive);
        settle(&ranks);
        let receive = ranks.receive(1, Some(0), Some(1), 5000);
        let send = ranks.send(0, 1, 1, pattern(5000, 1));
        ranks.through(0, send, 1, receive);
        assert!(ranks.received(1, receive).1 == pattern(5000, 1));
        settle(&ranks);
        assert_eq!(ranks.worker(0).counters().rtr_declined, 1);
        assert_eq!(ranks.worker(1).counters().rtr_missed, 1);
        // Later ones are written again.
        let receive = ranks.receive(1, Some(0), Some(1), 5000);
        settle(&ranks);
        let send = ranks.send(0, 1, 1, pattern(5000, 2));
        ranks.through(0, send, 1, receive);
        assert!(ranks.received(1, receive).1 == pattern(5000, 2));
        assert_eq!(ranks.worker(0).counters().sent_rtr, 1);
    }
}

/// Short, empty and longer messages meet announced receives as they would others.
#[test]
fn a_message_need_not_be_as_announced() {
    for ranks in everywhere() {
        for len in [0, 10, 900, 5000, 20_000] {
            let receive = ranks.receive(1, Some(0), Some(1), 5000);
            settle(&ranks);
            let send = ranks.send(0, 1, 1, pattern(len, 3));
            ranks.through(0, send, 1, receive);
            let (status, bytes) = ranks.received(1, receive);
            assert_eq!((status.length, status.outcome.is_ok()), (len as u64, len <= 5000));
            assert!(bytes[..len.min(5000)] == pattern(len, 3)[..len.min(5000)]);
        }
        assert_eq!(ranks.worker(0).counters().sent_rtr, 2);
        assert_eq!(ranks.worker(0).counters().rtr_declined, 0);
    }
}

/// While a peer announces, nothing passes by the memory of what was sent to it; when it has announced nothing for long,
/// short messages take the short path again.
#[test]
fn the_short_path_is_closed_while_a_peer_announces() {
    const QUIET: u64 = 1 << 12;
    for ranks in everywhere() {
        let short = |tag| {
            let receive = ranks.receive(1, Some(0), Some(tag), 8);
            let send = ranks.send(0, 1, tag, vec![1; 8]);
            ranks.through(0, send, 1, receive);
            let _ = ranks.received(1, receive);
        };
        let by_short_path = || ranks.worker(0).counters().sent_short;
        // The first waits for the connection.
        short(2);
        let before = by_short_path();
        short(2);
        assert_eq!(by_short_path(), before + 1);
        for _ in 0..2 {
            let receive = ranks.receive(1, Some(0), Some(1), 5000);
            settle(&ranks);
            let before = by_short_path();
            short(2);
            assert_eq!(by_short_path(), before, "an offer is there");
            let send = ranks.send(0, 1, 1, pattern(5000, 1));
            ranks.through(0, send, 1, receive);
            (0..10).for_each(|_| short(2));
            assert_eq!(by_short_path(), before, "there may be one soon");
            (0..QUIET).for_each(|_| short(2));
            assert!(by_short_path() > before, "it has announced nothing for long");
        }
        assert_eq!(ranks.worker(0).counters().sent_rtr, 2);
    }
}

/// Moves what is under way into lanes, without a poll of any worker.
fn carry(ranks: &Ranks) {
    while ranks.network.as_ref().is_some_and(|network| network.advance()) {}
}

/// Receives that are posted before their messages are sent, by a sender that makes no progress of its own between:
/// its sends find the announcements that lie in its lane, whatever short messages have crossed these.
#[test]
fn an_announcement_that_was_not_polled_for_is_found_by_the_send() {
    const MESSAGES: u64 = 200;
    for ranks in everywhere() {
        // That a peer announces is known from its first announcement on.
        let receive = ranks.receive(1, Some(0), Some(1), 5000);
        settle(&ranks);
        let send = ranks.send(0, 1, 1, pattern(5000, 0));
        ranks.through(0, send, 1, receive);
        for crossing in [0, 1, 5] {
            let before = ranks.worker(0).counters();
            for n in 0..MESSAGES {
                // As of a barrier by messages: short ones that the receiver has not seen when it announces.
                let tokens: Vec<_> = (0..crossing).map(|_| ranks.send(0, 1, 9, vec![1])).collect();
                let receive = ranks.receive(1, Some(0), Some(1), 5000);
                carry(&ranks);
                let send = ranks.send(0, 1, 1, pattern(5000, n));
                ranks.through(0, send, 1, receive);
                assert!(ranks.received(1, receive).1 == pattern(5000, n));
                for token in tokens {
                    let receive = ranks.receive(1, Some(0), Some(9), 1);
                    ranks.through(0, token, 1, receive);
                    let _ = ranks.received(1, receive);
                }
            }
            let now = ranks.worker(0).counters();
            let written = now.sent_rtr - before.sent_rtr;
            assert_eq!(written, MESSAGES, "{crossing} messages cross each announcement");
            assert_eq!(now.rtr_declined, 0);
        }
    }
}

/// Messages that are sent before their receives are posted are offered, and no announcement hurts them.
#[test]
fn messages_before_their_receives_are_offered() {
    for ranks in everywhere() {
        for n in 0..200 {
            let send = ranks.send(0, 1, 1, pattern(5000, n));
            carry(&ranks);
            if n % 2 == 0 {
                ranks.worker(1).progress();
            }
            let receive = ranks.receive(1, Some(0), Some(1), 5000);
            ranks.through(0, send, 1, receive);
            assert!(ranks.received(1, receive).1 == pattern(5000, n));
        }
        let sender = ranks.worker(0).counters();
        assert_eq!((sender.sent_rtr, sender.sent_rndv), (0, 200));
    }
}

/// A handler in place is called by progress alone: not by a send that polls for an announcement.
#[test]
fn a_send_that_polls_calls_no_handler_in_place() {
    for ranks in everywhere() {
        let called = [0, 1].map(|_| Arc::new(AtomicU32::new(0)));
        // Relaxed: one thread.
        let count = |which: usize| {
            let count = called[which].clone();
            move || {
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let counts = || [0, 1].map(|which: usize| called[which].load(Ordering::Relaxed));
        let (in_place, ordinary) = (count(0), count(1));
        ranks.worker(0).am_handler_in_place(5, Box::new(move |_| in_place()));
        ranks.worker(0).am_handler(5, Box::new(move |_, _| ordinary()));
        let receive = ranks.receive(1, Some(0), Some(1), 5000);
        settle(&ranks);
        let send = ranks.send(0, 1, 1, pattern(5000, 1));
        ranks.through(0, send, 1, receive);
        ranks.am(1, 0, 5, vec![1; 8]);
        settle(&ranks);
        assert_eq!(counts(), [1, 0]);
        ranks.am(1, 0, 5, vec![2; 8]);
        let receive = ranks.receive(1, Some(0), Some(1), 5000);
        carry(&ranks);
        let send = ranks.send(0, 1, 1, pattern(5000, 2));
        assert_eq!(counts(), [1, 0], "a send called it");
        ranks.through(0, send, 1, receive);
        assert_eq!(counts(), [1, 1], "it was not called");
        assert_eq!(ranks.worker(0).counters().sent_rtr, 2);
    }
}

/// A receive behind one that asks for something else is announced when that has left.
#[test]
fn receives_behind_others_wait_to_be_announced() {
    for ranks in everywhere() {
        let first = ranks.receive(1, None, Some(1), 100);
        let second = ranks.receive(1, Some(0), Some(1), 5000);
        let other = ranks.receive(1, Some(0), Some(2), 5000);
        settle(&ranks);
        assert_eq!(ranks.worker(1).counters().rtr, 1, "tag 2 alone");
        let send = ranks.send(0, 1, 1, vec![1; 50]);
        ranks.through(0, send, 1, first);
        settle(&ranks);
        assert_eq!(ranks.worker(1).counters().rtr, 2);
        for (tag, receive) in [(1, second), (2, other)] {
            let send = ranks.send(0, 1, tag, pattern(5000, tag));
            ranks.through(0, send, 1, receive);
            assert!(ranks.received(1, receive).1 == pattern(5000, tag));
        }
        assert_eq!(ranks.worker(0).counters().sent_rtr, 2);
    }
}

/// A cancelled receive waits for its sender's word, and the next one is met in its place.
#[test]
fn a_cancelled_receive_is_taken_back() {
    for ranks in everywhere() {
        let receives = [0, 1].map(|_| ranks.receive(1, Some(0), Some(1), 5000));
        settle(&ranks);
        ranks.worker(1).cancel(receives[0]);
        assert!(!ranks.worker(1).is_complete(receives[0]), "its sender may be writing");
        settle(&ranks);
        assert_eq!(ranks.received(1, receives[0]).0.outcome, Err(OpError::Cancelled));
        let send = ranks.send(0, 1, 1, pattern(5000, 1));
        ranks.through(0, send, 1, receives[1]);
        assert!(ranks.received(1, receives[1]).1 == pattern(5000, 1));
        assert_eq!(ranks.worker(0).counters().sent_rtr, 1);
    }
}

/// A space is closed while receives are announced in it.
#[test]
fn a_closed_space_waits_for_its_senders() {
    for ranks in everywhere() {
        let receives = [1, 2].map(|tag| ranks.receive(1, Some(0), Some(tag), 5000));
        settle(&ranks);
        ranks.worker(1).close_space(super::ranks::SPACE);
        assert!(!ranks.worker(1).is_complete(receives[0]), "its sender may be writing");
        // It writes to one of them before it is notified of that.
        let send = ranks.send(0, 1, 1, pattern(5000, 1));
        settle(&ranks);
        for receive in receives {
            assert_eq!(ranks.received(1, receive).0.outcome, Err(OpError::Cancelled));
        }
        let send = send.map(|send| ranks.worker(0).is_complete(send));
        assert_eq!(send, Some(true));
        if let Some(network) = &ranks.network {
            assert_eq!([network.memories(0), network.memories(1)], [0, 0], "memory left open");
        }
    }
}

/// What may not overtake a message that is being written goes behind its envelope, and everything meets the
/// receive that it would have met otherwise.
#[test]
fn what_may_not_overtake_a_message_makes_it_known() {
    for ranks in everywhere() {
        let slow = ranks.network.is_some();
        let long = ranks.receive(1, Some(0), Some(1), 100_000);
        let short = ranks.receive(1, Some(0), Some(1), 900);
        settle(&ranks);
        let first = ranks.send(0, 1, 1, pattern(100_000, 1));
        assert_eq!(ranks.worker(0).counters().rtr_taken, 0, "nothing is behind it yet");
        let second = ranks.send(0, 1, 1, pattern(20, 2));
        assert_eq!(ranks.worker(0).counters().rtr_taken, u64::from(slow));
        ranks.through(0, second, 1, short);
        ranks.through(0, first, 1, long);
        assert!(ranks.received(1, long).1 == pattern(100_000, 1));
        assert!(ranks.received(1, short).1[..20] == pattern(20, 2));
        // Announced while a message is unreported, and kept: it counts as one that crosses.
        let first = ranks.receive(1, Some(0), Some(1), 100_000);
        settle(&ranks);
        let send = ranks.send(0, 1, 1, pattern(100_000, 3));
        let second = ranks.receive(1, Some(0), Some(1), 5000);
        settle(&ranks);
        ranks.through(0, send, 1, first);
        let send = ranks.send(0, 1, 1, pattern(5000, 4));
        ranks.through(0, send, 1, second);
        assert!(ranks.received(1, first).1 == pattern(100_000, 3));
        assert!(ranks.received(1, second).1 == pattern(5000, 4));
        let sender = ranks.worker(0).counters();
        assert_eq!((sender.sent_rtr, sender.rtr_declined), (3, 0));
        if let Some(network) = &ranks.network {
            assert_eq!([network.memories(0), network.memories(1)], [0, 0], "memory left open");
        }
    }
}

/// A receive is wanted back while its sender writes to it: the message wins, and is known before the answer.
#[test]
fn a_withdrawal_that_crosses_a_message_waits_for_it() {
    let ranks = Ranks::simulated(2, NetworkOptions::default(), &SETTINGS);
    let receive = ranks.receive(1, Some(0), Some(1), 100_000);
    settle(&ranks);
    let send = ranks.send(0, 1, 1, pattern(100_000, 1));
    ranks.worker(1).cancel(receive);
    ranks.through(0, send, 1, receive);
    let (status, bytes) = ranks.received(1, receive);
    assert_eq!(status.outcome, Ok(()));
    assert!(bytes == pattern(100_000, 1));
    settle(&ranks);
    let network = ranks.network.as_ref().expect("simulated");
    assert_eq!([network.memories(0), network.memories(1)], [0, 0], "memory left open");
}

/// With a least length, messages below what is offered are written too, to all or to a part of the buffer;
/// shorter ones, and receives with shorter buffers, are as ever.
#[test]
fn short_messages_are_written_from_the_least_length_on() {
    let settings = [SETTINGS[0], SETTINGS[1], ("BOWLINE_RTR_MIN", "64")];
    let network = Ranks::simulated(2, NetworkOptions::default(), &settings);
    for ranks in [network, Ranks::shared(2, &settings)] {
        let mut written = 0;
        for (capacity, len) in [
            (600, 600),
            (600, 64),
            (600, 65),
            (600, 63),
            (600, 0),
            (600, 700),
            (63, 63),
            (5000, 900),
        ] {
            let receive = ranks.receive(1, Some(0), Some(1), capacity);
            settle(&ranks);
            let send = ranks.send(0, 1, 1, pattern(len, len as u64));
            ranks.through(0, send, 1, receive);
            let (status, bytes) = ranks.received(1, receive);
            let fits = len.min(capacity);
            assert_eq!((status.length, status.outcome.is_ok()), (len as u64, len <= capacity));
            assert!(bytes[..fits] == pattern(len, len as u64)[..fits], "{len} of {capacity}");
            assert!(
                bytes[fits..].iter().all(|byte| *byte == 0),
                "{len} of {capacity}: beyond its end"
            );
            let is_written = capacity >= 64 && len >= 64;
            written += u64::from(is_written);
            let sender = ranks.worker(0).counters();
            assert_eq!(sender.sent_rtr, written, "{len} of {capacity}");
        }
        assert_eq!(ranks.worker(1).counters().landed, written);
        assert_eq!(ranks.worker(0).counters().rtr_taken, 0);
        assert_eq!(ranks.worker(1).counters().rtr, 7, "all but the shortest");
    }
}

/// A synchronous send of a short message that is written is complete when its receive has met it.
#[test]
fn a_short_synchronous_send_is_written() {
    let settings = [SETTINGS[0], SETTINGS[1], ("BOWLINE_RTR_MIN", "1")];
    let network = Ranks::simulated(2, NetworkOptions::default(), &settings);
    for ranks in [network, Ranks::shared(2, &settings)] {
        let receive = ranks.receive(1, Some(0), Some(1), 8);
        settle(&ranks);
        let send = ranks.send_as(0, 1, 1, pattern(8, 1), SendMode::Synchronous);
        ranks.through(0, send, 1, receive);
        assert!(ranks.received(1, receive).1 == pattern(8, 1));
        assert_eq!(ranks.worker(0).counters().sent_rtr, 1);
        // One that finds no receive announced waits for it as ever.
        let send = ranks.send_as(0, 1, 1, pattern(8, 2), SendMode::Synchronous);
        settle(&ranks);
        assert!(!send.is_some_and(|send| ranks.worker(0).is_complete(send)));
        let receive = ranks.receive(1, Some(0), Some(1), 8);
        ranks.through(0, send, 1, receive);
        assert!(ranks.received(1, receive).1 == pattern(8, 2));
    }
}
