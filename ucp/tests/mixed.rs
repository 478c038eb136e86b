//! Tagged messages, active messages and a stream on one endpoint in both directions, in random programs
//! over a simulated network, against what must come out: tagged messages of a tag in order, handlers in
//! the order of the sends, the stream without a hole.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::pair::{Pair, pattern};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_sim::NetworkOptions;
use bowline_ucp::{
    AmKept, AmMessage, Envelope, MatchSpec, OpError, RequestId, SendMode, Sent, StreamReceived,
    StreamWant, Worker,
};
use proptest::prelude::*;

const TAGS: u64 = 3;

/// A step of a program. The first number is the side that does it.
#[derive(Clone, Debug)]
enum Do {
    Send(usize, u64, usize, bool),
    Recv(usize, u64),
    Am(usize, usize),
    /// Receives (or drops) an active message that is kept.
    TakeAm(usize, bool),
    /// Cancels one of the active messages under way.
    CancelAm(usize, usize),
    Stream(usize, usize),
    StreamRecv(usize, usize),
    Steps(u8),
}

fn programs() -> impl Strategy<Value = Vec<Do>> {
    let len = || prop_oneof![3 => 1..40_usize, 2 => 100..9000_usize, 1 => 20_000..200_000_usize];
    let one = prop_oneof![
        3 => (0..2_usize, 0..TAGS, len(), any::<bool>()).prop_map(|(s, t, n, y)| Do::Send(s, t, n, y)),
        3 => (0..2_usize, 0..TAGS).prop_map(|(s, t)| Do::Recv(s, t)),
        3 => (0..2_usize, len()).prop_map(|(s, n)| Do::Am(s, n)),
        2 => (0..2_usize, any::<bool>()).prop_map(|(s, y)| Do::TakeAm(s, y)),
        1 => (0..2_usize, 0..100_usize).prop_map(|(s, n)| Do::CancelAm(s, n)),
        3 => (0..2_usize, len()).prop_map(|(s, n)| Do::Stream(s, n)),
        3 => (0..2_usize, len()).prop_map(|(s, n)| Do::StreamRecv(s, n)),
        2 => (1..30_u8).prop_map(Do::Steps),
    ];
    proptest::collection::vec(one, 1..120)
}

/// An active message that was sent.
struct SentAm {
    len: usize,
    request: Option<RequestId>,
    /// Its receiver has its data, or has dropped it.
    received: bool,
}

/// Active messages by number.
type Kept = Arc<Mutex<VecDeque<(usize, AmKept)>>>;

/// One side of a program, and what it expects.
#[derive(Default)]
struct Side {
    /// By tag: lengths and seeds of messages that the other side has sent and that no receive was
    /// posted for, and the other way round.
    sent: [VecDeque<(usize, u8)>; TAGS as usize],
    posted: [VecDeque<RequestId>; TAGS as usize],
    sends: Vec<RequestId>,
    ams: Vec<SentAm>,
    /// Active messages of the other side that wait here, by number.
    kept: Kept,
    taking: Vec<(usize, RequestId)>,
    dropped: Vec<usize>,
    handled: Vec<usize>,
    stream_sent: usize,
    stream_asked: usize,
    stream_got: Vec<u8>,
    stream_open: VecDeque<RequestId>,
}

struct Program {
    pair: Pair,
    sides: [Side; 2],
    seed: u8,
}

fn stream_bytes(from: usize, side: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| ((i as u64 * 2_654_435_761) >> 13) as u8 ^ side as u8).collect()
}

impl Program {
    fn new(options: NetworkOptions, settings: &[(&str, &str)]) -> Self {
        let pair = Pair::new(options, settings);
        let sides = [Side::default(), Side::default()];
        for (side, worker) in sides.iter().zip(&pair.workers) {
            let kept = Arc::clone(&side.kept);
            let handler = move |_: &Worker, message: AmMessage<'_>| {
                let number = u32::from_le_bytes(message.header().try_into().expect("four bytes"));
                kept.lock().expect("fine").push_back((number as usize, message.keep()));
            };
            worker.am_handler(3, Box::new(handler));
        }
        Self { pair, sides, seed: 0 }
    }

    fn note(&mut self, side: usize, sent: Sent) {
        if let Sent::Pending(id) = sent {
            self.sides[side].sends.push(id);
        }
    }

    fn act(&mut self, step: &Do) {
        let workers = &self.pair.workers;
        match *step {
            Do::Send(side, tag, len, synchronous) => {
                self.seed = self.seed.wrapping_add(1);
                let mode = if synchronous { SendMode::Synchronous } else { SendMode::Standard };
                let envelope = Envelope { space: 0, source: side as u32, tag };
                let buffer = SendBuf::owned(pattern(len, self.seed));
                let sent = workers[side].send(self.pair.eps[side], envelope, buffer, mode);
                self.sides[1 - side].sent[tag as usize].push_back((len, self.seed));
                self.note(side, sent.expect("sent"));
            }
            Do::Recv(side, tag) => {
                let source = Some(1 - side as u32);
                let spec = MatchSpec { space: 0, source, tag, tag_mask: u64::MAX };
                let id = workers[side].recv(spec, RecvBuf::owned(vec![0; 200_000]));
                self.sides[side].posted[tag as usize].push_back(id.expect("posted"));
            }
            Do::Am(side, len) => {
                let number = self.sides[side].ams.len();
                let buffer = SendBuf::owned(pattern(len, number as u8));
                let head = (number as u32).to_le_bytes();
                let sent = workers[side].am_send(self.pair.eps[side], 3, &head, buffer);
                let request = match sent.expect("sent") {
                    Sent::Done => None,
                    Sent::Pending(id) => Some(id),
                };
                self.sides[side].ams.push(SentAm { len, request, received: false });
            }
            Do::TakeAm(side, receive) => self.take_am(side, receive),
            Do::CancelAm(side, which) => {
                let open: Vec<_> =
                    self.sides[side].ams.iter().filter_map(|am| am.request).collect();
                if let Some(&id) = open.get(which % open.len().max(1)) {
                    workers[side].cancel(id);
                }
            }
            Do::Stream(side, len) => {
                let bytes = stream_bytes(self.sides[side].stream_sent, side, len);
                self.sides[side].stream_sent += len;
                let sent = workers[side].stream_send(self.pair.eps[side], SendBuf::owned(bytes));
                self.note(side, sent.expect("sent"));
            }
            Do::StreamRecv(side, len) => {
                self.sides[side].stream_asked += len;
                let buffer = RecvBuf::owned(vec![0; len]);
                let got = workers[side].stream_recv(self.pair.eps[side], buffer, StreamWant::ALL);
                match got.expect("the peer lives") {
                    StreamReceived::Done(n, buffer) => {
                        assert_eq!(n, len as u64);
                        // Nothing older is open: it would have come first.
                        self.drain_stream(side);
                        assert!(self.sides[side].stream_open.is_empty());
                        let bytes = buffer.into_owned().expect("owned");
                        self.sides[side].stream_got.extend(bytes);
                    }
                    StreamReceived::Pending(id) => self.sides[side].stream_open.push_back(id),
                }
            }
            Do::Steps(count) => (0..count).for_each(|_| _ = self.pair.step()),
        }
    }

    fn take_am(&mut self, side: usize, receive: bool) {
        let next = self.sides[side].kept.lock().expect("fine").pop_front();
        let Some((number, message)) = next else { return };
        assert!(self.sides[side].handled.last().is_none_or(|&last| last < number), "out of order");
        self.sides[side].handled.push(number);
        let len = self.sides[1 - side].ams[number].len;
        assert_eq!(message.len(), len as u64);
        if !receive {
            self.pair.workers[side].am_drop(message);
            return self.sides[side].dropped.push(number);
        }
        match self.pair.workers[side].am_recv(message, RecvBuf::owned(vec![0; len])) {
            Ok(id) => {
                self.sides[1 - side].ams[number].received = true;
                self.sides[side].taking.push((number, id));
            }
            Err(error) => assert_eq!(error, OpError::TakenBack),
        }
    }

    /// Takes receives of the stream that are complete, oldest first.
    fn drain_stream(&mut self, side: usize) {
        let worker = &self.pair.workers[side];
        while let Some(&id) = self.sides[side].stream_open.front()
            && worker.is_complete(id)
        {
            self.sides[side].stream_open.pop_front();
            let (status, bytes) = worker.take_with_buffer(id).expect("complete");
            assert_eq!(status.outcome, Ok(()));
            self.sides[side].stream_got.extend(bytes.expect("owned"));
        }
    }

    /// Posts what is missing on either side, and checks everything.
    fn finish(mut self) {
        for side in 0..2 {
            for tag in 0..TAGS {
                loop {
                    let here = &self.sides[side];
                    let (sent, posted) = (&here.sent[tag as usize], &here.posted[tag as usize]);
                    match sent.len().cmp(&posted.len()) {
                        std::cmp::Ordering::Less => self.act(&Do::Send(1 - side, tag, 9, false)),
                        std::cmp::Ordering::Greater => self.act(&Do::Recv(side, tag)),
                        std::cmp::Ordering::Equal => break,
                    }
                }
            }
            let (sent, asked) = (self.sides[1 - side].stream_sent, self.sides[side].stream_asked);
            if sent < asked {
                self.act(&Do::Stream(1 - side, asked - sent));
            } else if asked < sent {
                self.act(&Do::StreamRecv(side, sent - asked));
            }
        }
        self.pair.settle();
        for side in 0..2 {
            while !self.sides[side].kept.lock().expect("fine").is_empty() {
                self.take_am(side, true);
            }
        }
        self.pair.settle();
        for side in 0..2 {
            self.drain_stream(side);
            let worker = &self.pair.workers[side];
            let (here, there) = (&self.sides[side], &self.sides[1 - side]);
            for (sent, posted) in here.sent.iter().zip(&here.posted) {
                for (&(len, seed), &id) in sent.iter().zip(posted) {
                    let (status, bytes) = worker.take_with_buffer(id).expect("complete");
                    assert_eq!((status.outcome, status.length), (Ok(()), len as u64));
                    assert!(bytes.expect("owned")[..len] == pattern(len, seed), "other bytes");
                }
            }
            for &id in &here.sends {
                assert_eq!(worker.take(id).expect("complete").outcome, Ok(()));
            }
            assert_eq!(here.stream_open.len(), 0);
            assert!(here.stream_got == stream_bytes(0, 1 - side, there.stream_sent), "the stream");
            for &(number, id) in &here.taking {
                let (status, bytes) = worker.take_with_buffer(id).expect("complete");
                assert_eq!(status.outcome, Ok(()));
                assert!(bytes == Some(pattern(there.ams[number].len, number as u8)), "other bytes");
            }
            for (number, am) in here.ams.iter().enumerate() {
                let handled = there.handled.contains(&number);
                let outcome = am.request.map(|id| worker.take(id).expect("complete").outcome);
                match outcome {
                    None | Some(Ok(())) => assert!(handled, "message {number} is lost"),
                    Some(Err(OpError::Cancelled)) => {
                        assert!(!am.received, "message {number} was received and taken back");
                    }
                    Some(Err(error)) => panic!("message {number}: {error}"),
                }
            }
        }
    }
}

/// Protocols are forced, credit is short.
const SETTINGS: [&[(&str, &str)]; 5] = [
    &[],
    &[("BOWLINE_RNDV_THRESHOLD", "0")],
    &[
        ("BOWLINE_RNDV_THRESHOLD", "64m"),
        ("BOWLINE_EAGER_SHARE_FIRST", "1k"),
        ("BOWLINE_EAGER_SHARE", "1k"),
    ],
    &[("BOWLINE_RNDV_THRESHOLD", "1000"), ("BOWLINE_RNDV_SCHEME", "put")],
    &[("BOWLINE_ZCOPY_THRESHOLD", "1"), ("BOWLINE_RNDV_SCHEME", "copy")],
];

fn run(slots: u32, settings: &[(&str, &str)], program: &[Do]) {
    let options = NetworkOptions { slots, one_sided: false, ..NetworkOptions::default() };
    let mut state = Program::new(options, settings);
    program.iter().for_each(|step| state.act(step));
    state.finish();
}

/// A send of the stream is parked for want of credit while a later one still waits for space: it was once
/// overtaken by that.
#[test]
fn a_parked_send_is_not_overtaken() {
    let short = || Do::Send(0, 0, 1, false);
    let found = [short(), Do::Stream(0, 65_537), Do::Am(0, 1), short(), Do::Stream(0, 1)];
    run(4, SETTINGS[4], &found);
    for slots in [2, 4, 8] {
        for between in 0..6 {
            let mut program = vec![short(), Do::Stream(0, 1025)];
            program.extend((0..between).map(|_| short()));
            program.extend([Do::Stream(0, 1), Do::Stream(0, 2000), Do::Stream(0, 1)]);
            run(slots, SETTINGS[2], &program);
        }
    }
}

/// Bytes of a stream that nobody has read hold all credit, and an active message waits for it: what the
/// stream's reader needs to go on once waited behind that.
#[test]
fn a_message_without_credit_keeps_nothing_else_back() {
    run(4, SETTINGS[0], &[Do::Stream(1, 131_073), Do::Stream(1, 65_536), Do::Am(1, 100)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn random_programs_end_as_they_must(
        seed: u64,
        settings in 0..SETTINGS.len(),
        whole_process: bool,
        one_sided: bool,
        jitter_ns in prop_oneof![Just(0_u64), Just(5000)],
        slots in prop_oneof![Just(4_u32), Just(256)],
        program in programs(),
    ) {
        let options = NetworkOptions {
            seed, whole_process, one_sided, jitter_ns, slots, ..NetworkOptions::default()
        };
        let mut state = Program::new(options, SETTINGS[settings]);
        program.iter().for_each(|step| state.act(step));
        state.finish();
    }
}
