//! Messages in pieces whose receive is posted while they come, and those behind a message that ends the last receive.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_sim::NetworkOptions;
use bowline_ucp::{Envelope, MatchSpec, OpError, SendMode, Sent, StreamReceived, StreamWant};

use crate::pair::{Pair, pattern};

const ANY: MatchSpec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };
const ENVELOPE: Envelope = Envelope { space: 0, source: 0, tag: 9 };
const PIECES: [(&str, &str); 2] =
    [("BOWLINE_RNDV_THRESHOLD", "64m"), ("BOWLINE_EAGER_SHARE_FIRST", "1g")];

/// Pieces of 2 KB, few of which are under way at once.
fn network(seed: u64) -> NetworkOptions {
    NetworkOptions { seed, slots: 4, max_bcopy: 2048, detect_ns: 20_000, ..Default::default() }
}

fn send_of(bytes: &[u8]) -> SendBuf {
    SendBuf::owned(bytes.to_vec())
}

/// How a receive gets a message that has begun to come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Receive,
    Claim,
}

/// A receive posted after any number of steps has the whole message, or the part that it takes.
#[test]
fn a_receive_takes_over_a_message_at_any_step() {
    let data = pattern(20_000, 3);
    for by in [By::Receive, By::Claim] {
        for capacity in [data.len(), 7000] {
            for mode in [SendMode::Standard, SendMode::Synchronous] {
                let (mut begun, mut whole) = (0, 0);
                for steps in 0..60 {
                    let pair = Pair::new(network(steps), &PIECES);
                    let [sender, receiver] = &pair.workers;
                    let sent = sender.send(pair.eps[0], ENVELOPE, send_of(&data), mode);
                    let Ok(Sent::Pending(send)) = sent else {
                        panic!("too long for that: {sent:?}")
                    };
                    (0..steps).for_each(|_| _ = pair.step());
                    let buffer = RecvBuf::owned(vec![0; capacity]);
                    let receive = match by {
                        By::Receive => receiver.recv(ANY, buffer).expect("posted"),
                        By::Claim => {
                            pair.until(|| receiver.probe(&ANY).is_some());
                            let (_, message) = receiver.claim(&ANY).expect("it was there");
                            receiver.recv_claimed(message, buffer).expect("claimed")
                        }
                    };
                    let before = receiver.is_complete(receive);
                    let unexpected = receiver.counters().unexpected > 0;
                    (begun, whole) =
                        (begun + u32::from(unexpected && !before), whole + u32::from(before));
                    let status = pair.finish(0, send);
                    assert_eq!(status.outcome, Ok(()), "{by:?}, step {steps}");
                    pair.until(|| receiver.is_complete(receive));
                    let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
                    let outcome = match capacity < data.len() {
                        true => Err(OpError::Truncated {
                            message: data.len() as u64,
                            capacity: capacity as u64,
                        }),
                        false => Ok(()),
                    };
                    assert_eq!((status.outcome, status.length), (outcome, data.len() as u64));
                    assert!(bytes.as_deref() == Some(&data[..capacity]), "{by:?}, step {steps}");
                }
                assert!(begun > 3 && whole > 3, "{by:?}: {begun} had begun, {whole} were there");
            }
        }
    }
}

/// The same of a sender that dies at any step: the receive has the message, or the error, and nothing waits.
#[test]
fn a_receive_of_a_message_whose_sender_dies_ends() {
    let data = pattern(20_000, 4);
    let mut failed = 0;
    for steps in 0..60 {
        for posted_first in [true, false] {
            let pair = Pair::new(network(steps), &PIECES);
            let [sender, receiver] = &pair.workers;
            let sent = sender.send(pair.eps[0], ENVELOPE, send_of(&data), SendMode::Standard);
            assert!(matches!(sent, Ok(Sent::Pending(_))), "too long for that: {sent:?}");
            (0..steps).for_each(|_| _ = pair.step());
            let spec = MatchSpec { source: Some(0), ..ANY };
            let post = || receiver.recv(spec, RecvBuf::owned(vec![0; data.len()]));
            let early = posted_first.then(|| post().expect("posted"));
            pair.network.kill(0);
            pair.settle();
            if receiver.counters().unexpected == 0 && early.is_none() {
                continue;
            }
            let receive = early.unwrap_or_else(|| post().expect("it has begun to come"));
            if receiver.counters().unexpected == 0 && !receiver.is_complete(receive) {
                // Nothing of it has come: a receive from a rank whose death nobody has reported waits.
                continue;
            }
            assert!(receiver.is_complete(receive), "step {steps}: it waits for the dead");
            let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
            match status.outcome {
                Ok(()) => assert!(bytes == Some(data.clone()), "step {steps}"),
                Err(OpError::PeerFailed(_)) => failed += 1,
                Err(error) => panic!("step {steps}: {error}"),
            }
        }
    }
    assert!(failed > 10, "{failed} receives have seen the death");
}

/// Receives that are posted one by one have their messages straight from the transport, though all of them were there.
#[test]
fn what_comes_behind_a_message_waits_for_its_receive() {
    for len in [2000, 20_000] {
        let options = NetworkOptions { slots: 1000, ..network(1) };
        let pair = Pair::new(options, &PIECES);
        let [sender, receiver] = &pair.workers;
        let sends: Vec<_> = (0..8)
            .map(|seed| {
                let data = send_of(&pattern(len, seed));
                sender.send(pair.eps[0], ENVELOPE, data, SendMode::Standard).expect("sent")
            })
            .collect();
        let mut receive = receiver.recv(ANY, RecvBuf::owned(vec![0; len])).expect("posted");
        while sender.progress() > 0 || pair.network.advance() {}
        for seed in 0..8 {
            pair.until(|| receiver.is_complete(receive));
            let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
            assert_eq!(status.outcome, Ok(()));
            assert!(bytes == Some(pattern(len, seed)), "message {seed} of {len} bytes");
            if seed < 7 {
                receive = receiver.recv(ANY, RecvBuf::owned(vec![0; len])).expect("posted");
            }
        }
        assert_eq!(receiver.counters().unexpected, 0, "messages of {len} bytes were copied twice");
        for sent in sends {
            if let Sent::Pending(send) = sent {
                pair.finish(0, send);
            }
        }
    }
}

/// Where further receives are posted, one call of progress brings messages for them.
#[test]
fn posted_receives_are_served_together() {
    let options = NetworkOptions { slots: 1000, ..network(2) };
    let pair = Pair::new(options, &PIECES);
    let [sender, receiver] = &pair.workers;
    for seed in 0..4 {
        let data = send_of(&pattern(2000, seed));
        let sent = sender.send(pair.eps[0], ENVELOPE, data, SendMode::Standard);
        assert!(matches!(sent, Ok(Sent::Done)), "{sent:?}");
    }
    let receives =
        [0; 4].map(|_| receiver.recv(ANY, RecvBuf::owned(vec![0; 2000])).expect("posted"));
    while sender.progress() > 0 || pair.network.advance() {}
    receiver.progress();
    assert!(receives.iter().all(|&id| receiver.is_complete(id)), "all were there");
}

/// The same of streams.
#[test]
fn what_comes_behind_the_bytes_of_a_receive_waits_for_the_next_one() {
    let options = NetworkOptions { slots: 1000, ..network(3) };
    let pair = Pair::new(options, &PIECES);
    let [sender, receiver] = &pair.workers;
    let data = pattern(64_000, 1);
    let sent = sender.stream_send(pair.eps[0], send_of(&data));
    let post = || {
        let buffer = RecvBuf::owned(vec![0; 8000]);
        receiver.stream_recv(pair.eps[1], buffer, StreamWant::ALL).expect("alive")
    };
    let StreamReceived::Pending(mut receive) = post() else { panic!("nothing has come") };
    while sender.progress() > 0 || pair.network.advance() {}
    for part in 0..8 {
        pair.until(|| receiver.is_complete(receive));
        let (status, bytes) = receiver.take_with_buffer(receive).expect("complete");
        assert_eq!((status.outcome, status.length), (Ok(()), 8000));
        assert!(bytes.as_deref() == Some(&data[8000 * part..][..8000]), "part {part}");
        if part < 7 {
            match post() {
                StreamReceived::Pending(next) => receive = next,
                StreamReceived::Done(..) => panic!("part {part}: all of the next one was taken in"),
            }
        }
    }
    if let Ok(Sent::Pending(send)) = sent {
        pair.finish(0, send);
    }
}
