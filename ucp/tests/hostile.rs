//! Peers that keep to none of the rules: an interface of a simulated network that says what it likes,
//! without an engine behind it. What it can make a worker keep is bounded, what waits for it ends, and
//! the others are served.

use std::sync::{Arc, Mutex};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_sim::{Network, NetworkOptions, SimIface};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::{
    ConnectError, Envelope, EpState, Idle, LaneAddress, MatchSpec, Members, OpError, PeerFailure,
    RequestId, SendMode, Sent, SpaceOptions, Stages, Waiter, Worker, WorkerAddress, WorkerParts,
};
use bowline_uct::{AmId, Arrival, EpId, Iface, PostError, Sink, Source, Token, Verdict};

const HELLO: u8 = 0;
const EAGER: u8 = 1;
const EAGER_SYNC: u8 = 2;
const RTS: u8 = 5;
const AM: u8 = 10;
const AM_FIRST: u8 = 11;
const PIECE: u8 = 4;
const AM_RTS: u8 = 14;
const STREAM: u8 = 15;
const NOTICE: u8 = 20;
const REMOTE: u8 = 22;

/// What a worker may keep beyond its limits: what one call of a transport brings.
const BATCH: u64 = 64;

struct Never;

impl Waiter for Never {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {}
    fn sleep(&mut self, idle: Idle<'_>) {
        panic!("these tests call nothing that blocks, yet a worker waits for {}", idle.waits);
    }
}

/// A space whose ranks are those of the job.
#[derive(Debug)]
struct Everybody;

impl Members for Everybody {
    fn rank_of(&self, world_rank: u32) -> Option<u32> {
        Some(world_rank)
    }
}

fn space() -> SpaceOptions {
    SpaceOptions { members: Some(Arc::new(Everybody)), ranks: 3, ..SpaceOptions::default() }
}

fn worker(network: &Network, rank: u32, settings: &[(&str, &str)]) -> Worker {
    worker_on(Box::new(network.open()), rank, settings)
}

fn worker_on(lane: Box<dyn Iface>, rank: u32, settings: &[(&str, &str)]) -> Worker {
    let config = Config::from_pairs(settings.iter().copied(), &[bowline_ucp::SETTINGS]);
    let parts = WorkerParts {
        job: 1,
        rank,
        incarnation: 0,
        uid: u64::from(rank) + 1,
        lanes: vec![lane],
        waiter: Box::new(Never),
        failures: None,
        config: config.expect("the settings are good"),
    };
    let worker = Worker::new(parts).expect("one lane is enough");
    worker.open_space(0, space()).expect("space 0 is new");
    worker
}

/// What a forger has heard.
#[derive(Default)]
struct Heard(Vec<(u8, [u64; 2])>);

impl Sink for Heard {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.0.push((arrival.id.get(), [arrival.header[0], arrival.header[1]]));
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {}
}

/// Rank 1 of the job, which says what it likes.
struct Forger {
    network: Network,
    lane: SimIface,
    ep: EpId,
    sequence: u32,
    heard: Heard,
    /// Whether it takes what is sent to it.
    reads: bool,
}

impl Forger {
    fn new(network: &Network, victim: &Worker) -> Self {
        let mut lane = network.open();
        let theirs = WorkerAddress::parse(&victim.address()).expect("it is one");
        let ep = lane.connect(&theirs.lanes[0].address).expect("it can be reached");
        let heard = Heard::default();
        let network = network.clone();
        let mut forger = Self { network, lane, ep, sequence: 0, heard, reads: true };
        forger.greet(2);
        forger
    }

    fn greet(&mut self, uid: u64) {
        let address = LaneAddress { provider: "sim".into(), address: self.lane.address() };
        let hello = WorkerAddress {
            job: 1,
            rank: 1,
            incarnation: 0,
            uid,
            features: u32::MAX,
            lanes: vec![address],
        };
        assert!(self.says(HELLO, [0, 0], &hello.pack()));
    }

    /// Posts a message, if there is room for it.
    fn says(&mut self, id: u8, words: [u64; 2], payload: &[u8]) -> bool {
        let header = [words[0], words[1], u64::from(self.sequence)];
        let mut pack = |out: bowline_base::view::View<'_>| out.copy_in(payload);
        let id = AmId::new(id);
        match self.lane.am_bcopy(self.ep, id, &header, payload.len(), &mut pack) {
            Ok(_) => {
                self.sequence += 1;
                true
            }
            Err(PostError::NoResource) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Posts a message, waiting for room while `victim` makes progress.
    fn tells(&mut self, victim: &Worker, id: u8, words: [u64; 2], payload: &[u8]) {
        while !self.says(id, words, payload) {
            self.step(victim);
        }
    }

    fn step(&mut self, victim: &Worker) {
        let mut events = victim.progress();
        if self.reads {
            events += self.lane.progress(&mut self.heard, 64);
        } else {
            // What must be done for its own posts to leave, but nothing is taken in.
            let _ = self.lane.progress(&mut self.heard, 0);
        }
        if events == 0 {
            self.network.advance();
        }
    }

    fn settle(&mut self, victim: &Worker) {
        for _ in 0..2000 {
            self.step(victim);
        }
    }

    fn notices(&self) -> Vec<u64> {
        let notices = self.heard.0.iter().filter(|(id, _)| *id == NOTICE);
        notices.map(|(_, words)| words[0]).collect()
    }
}

const fn tagged(space: u32, source: u32, tag: u64) -> [u64; 2] {
    [space as u64 | (source as u64) << 32, tag]
}

fn wants(source: Option<u32>, tag: u64) -> MatchSpec {
    MatchSpec { space: 0, source, tag, tag_mask: u64::MAX }
}

fn receive(worker: &Worker, source: Option<u32>, tag: u64) -> RequestId {
    worker.recv(wants(source, tag), RecvBuf::owned(vec![0; 64])).expect("space 0 is open")
}

#[track_caller]
fn ends_with(worker: &Worker, request: RequestId, error: OpError) {
    assert!(worker.is_complete(request), "it waits for a peer that was rejected");
    assert_eq!(worker.take(request).expect("it is complete").outcome, Err(error));
}

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
    forger.tells(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
    forger.settle(&victim);
    assert_eq!(victim.counters().unexpected, 1);

    // An id that is reserved, and then what a healthy peer would send.
    forger.tells(&victim, 18, [0, 0], &[]);
    for _ in 0..1000 {
        forger.tells(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
        forger.tells(&victim, AM, [7, 0], &[1; 8]);
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
    assert_eq!(victim.recv_blocking(wants(Some(1), 99), RecvBuf::owned(vec![0; 8])), Err(lost));
    victim.open_space(1, space()).expect("space 1 is new");
    let spec = MatchSpec { space: 1, ..wants(Some(1), 99) };
    assert_eq!(victim.recv(spec, RecvBuf::owned(vec![0; 8])).err(), Some(lost));
}

#[test]
fn a_rejected_peer_does_not_come_back_by_another_greeting() {
    let network = Network::new(NetworkOptions::default());
    let victim = worker(&network, 0, &[]);
    let mut forger = Forger::new(&network, &victim);
    forger.tells(&victim, 18, [0, 0], &[]);
    forger.settle(&victim);
    assert_eq!(victim.counters().peers_failed, 1);
    // The same name again, and others, on the connection that was rejected.
    for uid in [2, 500, 501, 502] {
        forger.sequence = 0;
        forger.greet(uid);
        forger.tells(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
        forger.settle(&victim);
    }
    // And the same name on a new connection.
    let mut again = Forger::new(&network, &victim);
    again.tells(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
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
    forger.tells(&victim, EAGER, tagged(0, 1, 99), &[1; 8]);
    forger.settle(&victim);
    ends_with(&victim, named, OpError::MemberFailed { rank: 1 });
    assert_eq!(forger.notices(), [1]);
}

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
        forger.tells(&victim, id, words, &payload);
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
                forger.tells(victim, AM, [7, 0], &[1; 8]);
            }
        }),
    );
    forger.lock().expect("one thread").tells(&victim, AM, [7, 0], &[1; 8]);
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
        forger.tells(&victim, REMOTE, [0, 0], &flush);
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
        forger.tells(&victim, EAGER_SYNC, tagged(0, 1, 5), &(sent + 1).to_le_bytes());
    }
    forger.reads = true;
    forger.settle(&victim);
    assert_eq!(forger.notices(), [2]);
}

/// Who has most is rejected, not whoever sends the message that is one too many.
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
        forger.tells(&victim, EAGER, tagged(0, 1, 5), &[1; 8]);
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
    assert_eq!(error, Some(OpError::TooManyUnexpected), "the sender is not told");
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

/// Sends that wait for room were all begun while there was credit for one of them.
#[test]
fn sends_that_wait_for_room_keep_to_their_credit() {
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
