//! The protocol engine against peers that send anything: every decoder of the wire protocol, in
//! the states that a script of receives, sends, refusals and failures brings the engine into.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_ucp::{
    AmKept, Counters, Envelope, Ep, Idle, LaneAddress, MatchSpec, Members, RequestId, SendMode,
    Sent, SpaceOptions, Stages, StreamReceived, StreamWant, Waiter, Worker, WorkerAddress,
    WorkerParts,
};
use bowline_uct::{AmId, PeerFailure, Source};

use crate::lane::{Event, PROVIDER, ScriptLane, Wire};

/// Peers of the script.
const PEERS: u8 = 4;

/// Nobody waits here.
pub(crate) struct NoWaiter;

impl Waiter for NoWaiter {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, _: Idle<'_>) {
        unreachable!("the script calls nothing that waits");
    }
}

/// Takes bytes off the input; zero when there are none left.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let n = usize::from(self.byte()).min(most).min(self.0.len());
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head.to_vec()
    }
}

/// A packed key of a peer's memory. What opens it is used and released.
pub(crate) fn ucp_rkey(bytes: &[u8]) {
    let play = Play::new(0);
    for &ep in &play.endpoints {
        let Ok(key) = play.worker.rkey_unpack(ep, bytes) else { continue };
        let _ = play.worker.put(key, 0, SendBuf::owned(vec![1; 8]));
        play.worker.progress();
        play.worker.rkey_release(key);
    }
}

struct Play {
    worker: Worker,
    wire: Arc<Mutex<Wire>>,
    endpoints: Vec<Ep>,
    requests: Vec<RequestId>,
    /// Active messages that their handler has kept.
    kept: Arc<Mutex<Vec<AmKept>>>,
    sequences: [u32; PEERS as usize],
}

/// Plays a script. Its last byte chooses the settings as well.
pub(crate) fn ucp_arrivals(bytes: &[u8]) {
    play(bytes);
}

/// The same. What the worker has counted.
fn play(bytes: &[u8]) -> Counters {
    let mut script = Script(bytes);
    let mut play = Play::new(bytes.last().copied().unwrap_or(0));
    while !script.0.is_empty() {
        play.step(&mut script);
    }
    // Whatever happened, the engine comes to rest.
    play.wire().refuse = 0;
    for _ in 0..64 {
        let writable = [Event::Writable, Event::Completes(Err(PeerFailure::Closed))];
        play.wire().events.extend(writable);
        play.worker.progress();
    }
    for request in std::mem::take(&mut play.requests) {
        play.take(request);
    }
    play.worker.counters()
}

/// Every process is a member, by its rank in the job.
#[derive(Debug)]
struct Everybody;

impl Members for Everybody {
    fn rank_of(&self, world_rank: u32) -> Option<u32> {
        Some(world_rank)
    }
}

/// The settings that a byte stands for, the space in which they have an effect, and whether the transport has puts and
/// lends memory, without which no receive is announced or lent.
fn settings(byte: u8) -> (Config, SpaceOptions, bool) {
    let mut pairs = Vec::new();
    if byte & 1 != 0 {
        // Receives are announced to those that they name.
        pairs.extend([("BOWLINE_RNDV_SCHEME", "rtr"), ("BOWLINE_RTR_MIN", "64")]);
    }
    let mut options = SpaceOptions::default();
    if byte & 2 != 0 {
        // Receives from any source are lent to members.
        pairs.push(("BOWLINE_ANY_SOURCE", "flags"));
    }
    if byte & 3 != 0 {
        // Both only where it is known which peer has which rank.
        options.members = Some(Arc::new(Everybody));
    }
    let config = Config::from_pairs(pairs, &[bowline_ucp::SETTINGS]);
    (config.expect("the settings are good"), options, byte & 7 != 0)
}

impl Play {
    fn new(choice: u8) -> Self {
        let (config, options, puts) = settings(choice);
        let wire = Arc::new(Mutex::new(Wire::default()));
        let worker = Worker::new(WorkerParts {
            job: 1,
            rank: 0,
            incarnation: 0,
            uid: 99,
            lanes: vec![Box::new(ScriptLane::new(wire.clone(), puts))],
            waiter: Box::new(NoWaiter),
            failures: None,
            config,
        })
        .expect("a worker of one lane");
        worker.open_space(0, options).expect("space 0 is new");
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&kept);
        worker.am_handler(
            1,
            Box::new(move |worker, message| {
                assert!(message.header().len() <= 1 << 16);
                match message.len() % 3 {
                    0 => keeps.lock().unwrap_or_else(PoisonError::into_inner).push(message.keep()),
                    1 => {
                        let buffer = RecvBuf::owned(vec![0; 300]);
                        if let Ok(request) = message.recv(buffer) {
                            worker.detach(request);
                        }
                    }
                    _ => {}
                }
            }),
        );
        let endpoints = (0..PEERS).map(|n| worker.connect(&address(n)).expect("reachable"));
        let endpoints = endpoints.collect();
        let (requests, sequences) = (Vec::new(), [0; PEERS as usize]);
        Self { worker, wire, endpoints, requests, kept, sequences }
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let what = script.byte();
        let who = script.byte() % PEERS;
        match what % 14 {
            0..=3 => self.arrive(script, who),
            4 => self.deliver(who, 0, [0, 0], address(who)),
            5 => {
                let spec = self.spec(script);
                let capacity = usize::from(script.byte()) * 16;
                let buffer = RecvBuf::owned(vec![0; capacity]);
                self.requests.extend(self.worker.recv(spec, buffer).ok());
            }
            6 => self.send(script, who),
            7 => {
                self.worker.progress();
            }
            8 => {
                let how = script.byte();
                let mut wire = self.wire();
                match how % 4 {
                    0 => wire.refuse = u32::from(how >> 2),
                    1 => wire.events.push_back(Event::Writable),
                    2 => wire.events.push_back(Event::Completes(Ok(0))),
                    _ => wire.events.push_back(Event::Completes(Err(PeerFailure::Refused))),
                }
            }
            9 => {
                let spec = self.spec(script);
                let _ = (self.worker.probe(&spec), self.worker.check(&spec));
                if let Some((_, message)) = self.worker.claim(&spec) {
                    let buffer = RecvBuf::owned(vec![0; usize::from(script.byte())]);
                    self.requests.extend(self.worker.recv_claimed(message, buffer).ok());
                }
            }
            10 => {
                let index = usize::from(script.byte());
                if self.requests.is_empty() {
                    return;
                }
                let request = self.requests.swap_remove(index % self.requests.len());
                match index >> 6 {
                    0 => self.worker.cancel(request),
                    1 => return self.worker.detach(request),
                    _ => {}
                }
                self.take(request);
            }
            11 => {
                let next = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
                match (next, script.byte()) {
                    (Some(message), capacity @ 0..128) => {
                        let buffer = RecvBuf::owned(vec![0; usize::from(capacity) * 16]);
                        self.requests.extend(self.worker.am_recv(message, buffer).ok());
                    }
                    (Some(message), _) => self.worker.am_drop(message),
                    (None, shape) => self.send_active(usize::from(shape), who),
                }
            }
            12 => self.stream(script, who),
            _ => match script.byte() {
                0..=15 => {
                    let failed = Event::Fails(Source(u32::from(who)), PeerFailure::Died);
                    self.wire().events.push_back(failed);
                }
                16..=99 => {
                    let _ = self.worker.open_space(1, SpaceOptions::default());
                }
                _ => self.worker.close_space(1),
            },
        }
    }

    /// A message: an id, two words and a payload, of which words may be ones that were heard.
    fn arrive(&mut self, script: &mut Script<'_>, who: u8) {
        let id = script.byte();
        let words = [self.word(script), self.word(script)];
        let mut payload = Vec::new();
        for _ in 0..script.byte() % 4 {
            payload.extend(self.word(script).to_le_bytes());
        }
        payload.extend(script.bytes(200));
        self.deliver(who, id, words, payload);
    }

    fn deliver(&mut self, who: u8, id: u8, words: [u64; 2], payload: Vec<u8>) {
        let sequence = &mut self.sequences[usize::from(who)];
        // One message in 8 of those with a high id comes out of order.
        let number = if id >> 5 == 7 { sequence.wrapping_add(3) } else { *sequence };
        *sequence = sequence.wrapping_add(1);
        // One in two has something in the high half of the third word, where messages that share an id have
        // their number.
        let high = if id >> 5 & 1 == 1 { words[1] as u32 } else { 0 };
        let header = [words[0], words[1], u64::from(number) | u64::from(high) << 32];
        let id = AmId::from_wire(id % AmId::COUNT).expect("below the count");
        let source = Source(u32::from(who));
        self.wire().events.push_back(Event::Arrives(source, id, header, payload));
    }

    fn word(&mut self, script: &mut Script<'_>) -> u64 {
        let (kind, value) = (script.byte(), script.byte());
        match kind % 8 {
            0..=2 => u64::from(value),
            3 => u64::from(value) << 32 | u64::from(kind >> 7),
            4 => u64::MAX - u64::from(value),
            5 => u64::from(value) << (kind >> 3),
            _ => {
                let wire = self.wire();
                let heard = wire.heard.len().max(1);
                wire.heard.get(usize::from(value) % heard).copied().unwrap_or(0)
            }
        }
    }

    fn spec(&self, script: &mut Script<'_>) -> MatchSpec {
        let byte = script.byte();
        MatchSpec {
            space: u32::from(byte & 1),
            source: (byte & 2 != 0).then_some(u32::from(byte >> 6)),
            tag: u64::from(byte >> 3 & 3),
            tag_mask: if byte & 4 != 0 { u64::MAX } else { 0 },
        }
    }

    fn send(&mut self, script: &mut Script<'_>, who: u8) {
        let (shape, size) = (script.byte(), script.byte());
        let mode = if shape & 1 == 0 { SendMode::Standard } else { SendMode::Synchronous };
        // From nothing to several times what one message of this transport holds.
        let buffer = SendBuf::owned(vec![size; usize::from(size) << (shape >> 5)]);
        let envelope = Envelope { space: 0, source: 0, tag: u64::from(shape >> 1 & 3) };
        let ep = self.endpoints[usize::from(who)];
        if let Ok(Sent::Pending(request)) = self.worker.send(ep, envelope, buffer, mode) {
            self.requests.push(request);
        }
    }

    fn send_active(&mut self, shape: usize, who: u8) {
        let ep = self.endpoints[usize::from(who)];
        let buffer = SendBuf::owned(vec![7; shape << (shape & 7)]);
        if let Ok(Sent::Pending(request)) = self.worker.am_send(ep, 1, &vec![1; shape], buffer) {
            self.requests.push(request);
        }
    }

    fn stream(&mut self, script: &mut Script<'_>, who: u8) {
        let (shape, size) = (script.byte(), usize::from(script.byte()));
        let ep = self.endpoints[usize::from(who)];
        match shape % 4 {
            0 => {
                let buffer = SendBuf::owned(vec![shape; size << (shape >> 5)]);
                if let Ok(Sent::Pending(request)) = self.worker.stream_send(ep, buffer) {
                    self.requests.push(request);
                }
            }
            1 => {
                let _ = self.worker.stream_recv_data(ep);
                self.worker.stream_poll(&mut Vec::new());
            }
            _ => {
                let want = StreamWant { unit: usize::from(shape >> 2 & 3), all: shape & 128 != 0 };
                let buffer = RecvBuf::owned(vec![0; size]);
                if let Ok(StreamReceived::Pending(request)) =
                    self.worker.stream_recv(ep, buffer, want)
                {
                    self.requests.push(request);
                }
            }
        }
    }

    fn take(&self, request: RequestId) {
        let Some((status, buffer)) = self.worker.take_with_buffer(request) else {
            return;
        };
        if let (Ok(()), Some(buffer)) = (status.outcome, buffer) {
            assert!(status.length <= buffer.len() as u64, "a success is longer than its buffer");
        }
    }
}

fn address(who: u8) -> Vec<u8> {
    WorkerAddress {
        job: 1,
        rank: u32::from(who) + 1,
        incarnation: 0,
        uid: u64::from(who),
        features: if who.is_multiple_of(2) { 0 } else { u32::MAX },
        lanes: vec![LaneAddress { provider: PROVIDER.into(), address: vec![who] }],
    }
    .pack()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test of the seeds, too: one that announces nothing says nothing of announcements.
    #[test]
    fn receives_are_announced_lent_and_written() {
        let announced = play(include_bytes!("../seeds/ucp_arrivals/announced"));
        assert_eq!((announced.rtr, announced.landed), (1, 1), "{announced:?}");
        let lent = play(include_bytes!("../seeds/ucp_arrivals/lent"));
        assert_eq!((lent.any_asked, lent.matched), (1, 1), "{lent:?}");
        let written = play(include_bytes!("../seeds/ucp_arrivals/written"));
        assert_eq!((written.sent_rtr, written.rtr_declined), (1, 0), "{written:?}");
    }
}
