//! Streams over a simulated network: what was sent comes, in order, whatever the sizes on either
//! side; a receiver that does not read bounds its sender; and what a death leaves.

use crate::pair::{Pair, pattern};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_sim::{Faults, NetworkOptions};
use bowline_ucp::{OpError, RequestId, Sent, StreamReceived, StreamWant};
use proptest::prelude::*;

/// A step of a program. Lengths are in bytes.
#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Receive { units: usize, unit: usize, all: bool },
    TakeData,
    Cancel,
    Rounds(usize),
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![0..20usize, 20..2000usize, 2000..60_000usize]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => length().prop_map(Step::Send),
        3 => (length(), prop_oneof![Just(1), Just(3), Just(8)], any::<bool>())
            .prop_map(|(len, unit, all)| Step::Receive { units: len / unit, unit, all }),
        1 => Just(Step::TakeData),
        1 => Just(Step::Cancel),
        2 => (0..40usize).prop_map(Step::Rounds),
    ]
}

/// What came out of rank 1's end of the stream.
struct Reader<'a> {
    pair: &'a Pair,
    out: Vec<u8>,
    /// Receives in order, with their units and whether they wait for all.
    open: std::collections::VecDeque<(RequestId, StreamWant, usize)>,
}

impl Reader<'_> {
    fn collect(&mut self) {
        let worker = &self.pair.workers[1];
        while let Some(&(id, want, capacity)) = self.open.front() {
            let Some((status, bytes)) = worker.take_with_buffer(id) else { return };
            self.open.pop_front();
            if status.outcome == Err(OpError::Cancelled) {
                assert_eq!(status.length, 0);
                continue;
            }
            assert_eq!(status.outcome, Ok(()));
            self.took(status.length as usize, want, capacity, &bytes.expect("owned"));
        }
    }

    fn took(&mut self, n: usize, want: StreamWant, capacity: usize, bytes: &[u8]) {
        assert!(
            n <= capacity && n.is_multiple_of(want.unit),
            "{n} of {capacity} in units of {}",
            want.unit
        );
        assert!(
            if want.all { n == capacity } else { n > 0 || capacity == 0 },
            "{n} of {capacity}: {want:?}"
        );
        self.out.extend(&bytes[..n]);
    }

    fn receive(&mut self, capacity: usize, want: StreamWant) {
        let buffer = RecvBuf::owned(vec![0; capacity]);
        match self.pair.workers[1].stream_recv(self.pair.eps[1], buffer, want).expect("alive") {
            StreamReceived::Done(n, buffer) => {
                assert!(self.open.is_empty(), "it has overtaken an older one");
                self.took(n as usize, want, capacity, &buffer.into_owned().expect("owned"));
            }
            StreamReceived::Pending(id) => self.open.push_back((id, want, capacity)),
        }
        self.collect();
    }

    fn take_data(&mut self) -> bool {
        let data = self.pair.workers[1].stream_recv_data(self.pair.eps[1]).expect("alive");
        let Some(data) = data else { return false };
        assert!(self.open.is_empty(), "receives come first");
        self.out.extend(data);
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn bytes_come_in_order(
        steps in proptest::collection::vec(step(), 1..40),
        seed: u64,
        slots in 2..20u32,
        threshold in prop_oneof![Just("auto"), Just("0"), Just("1000"), Just("64m")],
        share in prop_oneof![Just("1k"), Just("64k")],
        whole_process: bool,
        one_sided: bool,
        loss in prop_oneof![Just(0u32), Just(100_000)],
    ) {
        let faults = Faults { loss, retransmit_ns: 5000, ..Faults::default() };
        let options = NetworkOptions { seed, slots, whole_process, one_sided, faults, ..Default::default() };
        let settings = [
            ("BOWLINE_RNDV_THRESHOLD", threshold),
            ("BOWLINE_EAGER_SHARE_FIRST", share),
            ("BOWLINE_EAGER_SHARE", share),
        ];
        let pair = Pair::new(options, &settings);
        let mut reader = Reader { pair: &pair, out: Vec::new(), open: Default::default() };
        let (mut sent, mut sends) = (Vec::<u8>::new(), Vec::new());
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send(len) => {
                    let data = pattern(len, n as u8);
                    sent.extend(&data);
                    match pair.workers[0].stream_send(pair.eps[0], SendBuf::owned(data)).expect("alive") {
                        Sent::Done => {}
                        Sent::Pending(id) => sends.push(id),
                    }
                }
                Step::Receive { units, unit, all } => {
                    reader.receive(units * unit, StreamWant { unit, all });
                }
                Step::TakeData => drop(reader.take_data()),
                Step::Cancel => {
                    if let Some(&(id, ..)) = reader.open.back() {
                        pair.workers[1].cancel(id);
                    }
                }
                Step::Rounds(rounds) => {
                    for _ in 0..rounds {
                        pair.step();
                    }
                }
            }
            reader.collect();
        }
        // A wait for all may be for more than was sent.
        let mut idle = 0;
        while reader.out.len() < sent.len() || !reader.open.is_empty() {
            let moved = pair.step();
            reader.collect();
            let took = reader.open.is_empty() && reader.take_data();
            idle = if moved || took { 0 } else { idle + 1 };
            if idle > 3 {
                let Some((id, want, capacity)) = reader.open.front().copied() else {
                    panic!("{} of {} bytes came", reader.out.len(), sent.len());
                };
                // What a receive lacks that can never be full is sent now.
                prop_assert!(capacity > 0, "{want:?} of nothing is complete at once: {id:?}");
                let extra = pattern(capacity + want.unit, 99);
                sent.extend(&extra);
                if let Sent::Pending(id) = pair.workers[0].stream_send(pair.eps[0], SendBuf::owned(extra)).expect("alive") {
                    sends.push(id);
                }
                idle = 0;
            }
        }
        let differs = reader.out.iter().zip(&sent).position(|(a, b)| a != b);
        prop_assert!(reader.out == sent, "{} of {} bytes, other ones from {differs:?} on", reader.out.len(), sent.len());
        for id in sends {
            prop_assert_eq!(pair.finish(0, id).outcome, Ok(()));
        }
    }
}

/// Short sends are many bytes as well: nobody reads, and the sender waits. What is not of the
/// stream goes past it.
#[test]
fn a_receiver_that_does_not_read_bounds_its_sender() {
    let settings = [("BOWLINE_EAGER_SHARE_FIRST", "4k"), ("BOWLINE_EAGER_SHARE", "4k")];
    let pair = Pair::new(NetworkOptions::default(), &settings);
    let [sender, receiver] = &pair.workers;
    let mut waiting = Vec::new();
    for n in 0..4000u64 {
        let data = SendBuf::owned(n.to_le_bytes().to_vec());
        if let Sent::Pending(id) = sender.stream_send(pair.eps[0], data).expect("alive") {
            waiting.push(id);
        }
    }
    pair.settle();
    let done = waiting.iter().filter(|id| sender.is_complete(**id)).count();
    let gone = 4000 - waiting.len() + done;
    assert!(gone * 8 <= 4096 + 8, "{gone} of 4000 were sent");
    let seen = std::sync::Arc::new(std::sync::Mutex::new(0));
    let count = std::sync::Arc::clone(&seen);
    receiver.am_handler(1, Box::new(move |_, _| *count.lock().expect("not poisoned") += 1));
    for _ in 0..10 {
        let _ = sender.am_send(pair.eps[0], 1, b"h", SendBuf::owned(vec![0; 7])).expect("alive");
    }
    pair.until(|| *seen.lock().expect("not poisoned") == 10);
    let mut ready = Vec::new();
    receiver.stream_poll(&mut ready);
    assert_eq!(ready, [pair.eps[1]]);
    let want = StreamWant { unit: 8, all: true };
    for n in 0..4000u64 {
        let buffer = RecvBuf::owned(vec![0; 8]);
        let bytes = match receiver.stream_recv(pair.eps[1], buffer, want).expect("alive") {
            StreamReceived::Done(8, buffer) => buffer.into_owned(),
            StreamReceived::Done(n, _) => panic!("{n} bytes of 8"),
            StreamReceived::Pending(id) => {
                pair.until(|| receiver.is_complete(id));
                receiver.take_with_buffer(id).and_then(|(_, bytes)| bytes)
            }
        };
        assert_eq!(bytes.expect("owned"), n.to_le_bytes());
    }
    for id in waiting {
        assert_eq!(pair.finish(0, id).outcome, Ok(()));
    }
    ready.clear();
    receiver.stream_poll(&mut ready);
    assert!(ready.is_empty(), "all was read");
}

#[test]
fn a_capacity_that_is_no_multiple_of_its_unit_is_refused() {
    let pair = Pair::new(NetworkOptions::default(), &[]);
    let want = StreamWant { unit: 8, all: false };
    let refused = pair.workers[0].stream_recv(pair.eps[0], RecvBuf::owned(vec![0; 12]), want);
    assert_eq!(refused.err(), Some(OpError::BadUnit { unit: 8, capacity: 12 }));
}

/// The peer dies at any step: what had come can be received, then receives fail; sends end.
#[test]
fn what_came_before_a_death_is_received_then_the_error() {
    for (threshold, len) in [("64m", 3000), ("0", 3000), ("1000", 100)] {
        for victim in [0, 1] {
            for step in 0..300 {
                let settings = [("BOWLINE_RNDV_THRESHOLD", threshold)];
                let pair =
                    Pair::new(NetworkOptions { seed: step, ..Default::default() }, &settings);
                let [sender, receiver] = &pair.workers;
                let data = pattern(4 * len, 1);
                let early = receiver.stream_recv(
                    pair.eps[1],
                    RecvBuf::owned(vec![0; len / 2]),
                    StreamWant::ALL,
                );
                let Ok(StreamReceived::Pending(early)) = early else { panic!("{early:?}") };
                let mut open = Vec::new();
                for part in data.chunks(len) {
                    let sent = sender.stream_send(pair.eps[0], SendBuf::owned(part.to_vec()));
                    if let Sent::Pending(id) = sent.expect("alive") {
                        open.push(id);
                    }
                }
                for _ in 0..step {
                    pair.step();
                }
                pair.network.kill(victim);
                pair.settle();
                if victim == 1 {
                    for id in open {
                        assert!(sender.is_complete(id), "step {step}: a send waits for the dead");
                    }
                    continue;
                }
                assert!(receiver.is_complete(early), "step {step}: a receive waits for the dead");
                let (status, bytes) = receiver.take_with_buffer(early).expect("complete");
                let mut got = bytes.expect("owned");
                got.truncate(status.length as usize);
                let failed = status.outcome.is_err();
                let error = loop {
                    match receiver.stream_recv_data(pair.eps[1]) {
                        Ok(Some(more)) => got.extend(more),
                        Ok(None) => assert!(pair.step(), "step {step}: neither data nor an error"),
                        Err(error) => break error,
                    }
                };
                assert!(matches!(error, OpError::PeerFailed(_)), "{error}");
                assert!(data.starts_with(&got), "step {step}: other bytes than were sent");
                assert!(!failed || got.len() < len / 2, "step {step}");
                let late =
                    receiver.stream_recv(pair.eps[1], RecvBuf::owned(vec![0; 8]), StreamWant::SOME);
                assert!(late.is_err(), "{late:?}");
            }
        }
    }
}

/// A receive of nothing among receives of a stream waits for those before it, and no longer.
#[test]
fn receives_of_nothing_complete_in_their_order() {
    let pair = Pair::new(NetworkOptions { seed: 7, ..NetworkOptions::default() }, &[]);
    let [sender, receiver] = &pair.workers;
    let receive = |len: usize| {
        let buffer = RecvBuf::owned(vec![0; len]);
        match receiver.stream_recv(pair.eps[1], buffer, StreamWant::ALL).expect("it is open") {
            StreamReceived::Pending(id) => id,
            StreamReceived::Done(..) => panic!("nothing has come"),
        }
    };
    let ids = [receive(4), receive(0), receive(0), receive(4), receive(0)];
    let _ = sender.stream_send(pair.eps[0], SendBuf::owned(vec![7; 4])).expect("sent");
    pair.settle();
    assert_eq!(ids.map(|id| receiver.is_complete(id)), [true, true, true, false, false]);
    let _ = sender.stream_send(pair.eps[0], SendBuf::owned(vec![8; 4])).expect("sent");
    pair.settle();
    for (id, expected) in ids.into_iter().zip([vec![7; 4], vec![], vec![], vec![8; 4], vec![]]) {
        let (status, bytes) = receiver.take_with_buffer(id).expect("complete");
        assert_eq!((status.outcome, status.length), (Ok(()), expected.len() as u64));
        assert_eq!(bytes, Some(expected));
    }
}
