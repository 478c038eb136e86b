//! Several transports as one, of which one dies while messages are under way: two workers flood each other
//! with messages of all protocols over two networks, one of which ends at some step. Every message arrives
//! once, in order, with the right content, whatever the step.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_model::transport::TransportCosts;
use bowline_multirail::{MultiRail, Rail};
use bowline_sim::{Death, Faults, Moment, Network, NetworkOptions, NetworkPartition, Random};
use bowline_ucp::{Envelope, Ep, MatchSpec, OpError, RequestId, SendMode, Sent, Worker};
use bowline_uct::{Iface, PeerFailure};

use crate::doubles::{config, joined, of_everybody, opened, parts};

/// A network that lends memory to reads, as sockets and network cards do.
fn options() -> NetworkOptions {
    NetworkOptions {
        exposes: true,
        answers_queue: true,
        whole_process: false,
        ..NetworkOptions::default()
    }
}

/// An interface of each network, together.
fn rails(networks: &[(Network, NetworkOptions)], uid: u64) -> MultiRail {
    let open = |(network, options): &(Network, NetworkOptions)| {
        let iface = Box::new(network.open());
        let mut costs = TransportCosts::assumed(iface.attr().provider, true);
        costs.get.per_byte.value = options.byte_ps as f64 / 1000.0;
        Rail { costs, iface }
    };
    MultiRail::open(networks.iter().map(open).collect(), uid).expect("they carry messages")
}

/// Time passes for all networks together. `false` when nothing is under way on any.
fn advance(networks: &[(Network, NetworkOptions)]) -> bool {
    let next = networks.iter().filter_map(|(network, _)| network.next_event()).min();
    if let Some(next) = next {
        networks.iter().for_each(|(network, _)| network.pass_until(next));
    }
    next.is_some()
}

/// Bytes that differ by place and by `seed`.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |i: usize| (i as u64 ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..len).map(|i| word(i) as u8).collect()
}

struct Pair {
    networks: Vec<(Network, NetworkOptions)>,
    workers: [Worker; 2],
    eps: [Ep; 2],
}

impl Pair {
    fn new(all: Vec<NetworkOptions>) -> Self {
        let networks: Vec<_> =
            all.into_iter().map(|options| (Network::new(options.clone()), options)).collect();
        let config = config(&[]);
        let workers = [0, 1].map(|rank| {
            let uid = u64::from(rank) + 1;
            let lane = Box::new(rails(&networks, uid));
            opened(parts(rank, lane, &config), 0, of_everybody())
        });
        let eps = joined(&workers);
        Self { networks, workers, eps }
    }

    fn send(&self, from: usize, tag: u64, len: usize) -> Result<Option<RequestId>, OpError> {
        let envelope = Envelope { space: 0, source: from as u32, tag };
        let buffer = SendBuf::owned(pattern(len, tag << 1 | from as u64));
        Ok(match self.workers[from].send(self.eps[from], envelope, buffer, SendMode::Standard)? {
            Sent::Done => None,
            Sent::Pending(id) => Some(id),
        })
    }

    fn receive(&self, at: usize, capacity: usize) -> Result<RequestId, OpError> {
        // Of any tag: what it gets says whether the order was kept.
        let spec = MatchSpec { space: 0, source: Some(1 - at as u32), tag: 0, tag_mask: 0 };
        self.workers[at].recv(spec, RecvBuf::owned(vec![0; capacity]))
    }

    /// One round. Whether anything happened.
    fn step(&self) -> bool {
        let events = self.workers[0].progress() + self.workers[1].progress();
        events > 0 || advance(&self.networks)
    }
}

/// Messages of each direction.
const MESSAGES: u64 = 24;

fn length(random: &mut Random) -> usize {
    match random.below(10) {
        0..4 => random.below(100) as usize,
        4..6 => 100 + random.below(8000) as usize,
        6..8 => random.below(60_000) as usize,
        _ => 100_000 + random.below(900_000) as usize,
    }
}

/// Floods. The failure that a worker saw, if one did; else everything arrived, once, in order.
fn flood(pair: &Pair, seed: u64) -> Result<(), OpError> {
    let mut random = Random::new(seed);
    let lengths: [Vec<usize>; 2] =
        [0, 1].map(|_| (0..MESSAGES).map(|_| length(&mut random)).collect());
    let late = random.below(2) == 0;
    let mut sends: Vec<(usize, RequestId)> = Vec::new();
    let mut receives: [Vec<RequestId>; 2] = [Vec::new(), Vec::new()];
    for tag in 0..MESSAGES {
        for from in 0..2 {
            if !late {
                receives[1 - from].push(pair.receive(1 - from, lengths[from][tag as usize])?);
            }
            let sent = pair.send(from, tag, lengths[from][tag as usize])?;
            sends.extend(sent.map(|id| (from, id)));
            for _ in 0..random.below(4) {
                pair.step();
            }
        }
    }
    for at in (0..2).filter(|_| late) {
        for &len in &lengths[1 - at] {
            receives[at].push(pair.receive(at, len)?);
        }
    }
    let mut rest: Vec<(usize, RequestId)> = sends.clone();
    rest.extend([0, 1].iter().flat_map(|&at| receives[at].iter().map(move |&id| (at, id))));
    while !rest.is_empty() {
        rest.retain(|&(at, id)| !pair.workers[at].is_complete(id));
        let moved = pair.step();
        assert!(moved || rest.is_empty(), "seed {seed}: {} requests never end", rest.len());
    }
    for (at, id) in sends {
        pair.workers[at].wait(id).outcome?;
    }
    for at in 0..2 {
        for (tag, &id) in (0..).zip(&receives[at]) {
            let (status, bytes) = pair.workers[at].take_with_buffer(id).expect("complete");
            status.outcome?;
            let len = lengths[1 - at][tag as usize];
            assert_eq!((status.tag, status.length), (tag, len as u64), "seed {seed}");
            let expected = pattern(len, tag << 1 | (1 - at) as u64);
            assert!(bytes.expect("ours") == expected, "seed {seed}: content of {tag} to {at}");
        }
    }
    // Nothing is left over: a message that came twice would be waiting here.
    while pair.step() {}
    for at in 0..2 {
        let spec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };
        assert_eq!(pair.workers[at].probe(&spec), None, "seed {seed}: a message came twice");
    }
    Ok(())
}

/// A network that ends in some way, at some step.
fn mortal(seed: u64, random: &mut Random) -> NetworkOptions {
    let mut options = NetworkOptions { seed, detect_ns: 20_000, ..options() };
    options.detect_jitter_ns = 100_000;
    match random.below(3) {
        0 => {
            let when = Moment::Operation(1 + random.below(150));
            options.deaths = vec![Death { node: random.below(2) as u32, when }];
        }
        1 => {
            let when = Moment::At(random.below(500_000));
            options.deaths = vec![Death { node: random.below(2) as u32, when }];
        }
        _ => {
            let from_ns = random.below(500_000);
            options.partitions =
                vec![NetworkPartition { from_ns, until_ns: u64::MAX, side: vec![0] }];
            options.unreachable_ns = random.below(200_000);
        }
    }
    options
}

fn stormy(options: &mut NetworkOptions) {
    options.jitter_ns = 20_000;
    options.faults = Faults {
        loss: 50_000,
        retransmit_ns: 20_000,
        duplicate: 50_000,
        reorder: 100_000,
        reorder_ns: 50_000,
    };
}

/// The two networks of a case: which of them ends, and whether they misbehave, is drawn from the seed.
fn case(seed: u64) -> (NetworkOptions, NetworkOptions, usize) {
    let mut random = Random::new(seed);
    let mut mortal = mortal(seed, &mut random);
    let mut healthy = NetworkOptions { byte_ps: 50 + random.below(300), seed, ..options() };
    mortal.byte_ps = 50 + random.below(300);
    if random.below(3) == 0 {
        stormy(&mut mortal);
        stormy(&mut healthy);
    }
    (mortal, healthy, random.below(4).min(1) as usize)
}

fn cases(seeds: std::ops::Range<u64>) {
    let mut ended = 0;
    for seed in seeds.clone() {
        let (mortal, healthy, place) = case(seed);
        let both = if place == 1 { vec![mortal, healthy] } else { vec![healthy, mortal] };
        let pair = Pair::new(both);
        let outcome = flood(&pair, seed);
        assert_eq!(outcome, Ok(()), "seed {seed}");
        let network = &pair.networks[1 - place].0;
        let over =
            (0..2).any(|node| network.ended(node).is_some() || !network.failures(node).is_empty());
        ended += u64::from(over);
    }
    let count = seeds.end - seeds.start;
    println!("{ended} of {count} networks ended within their case");
    assert!(ended > count / 2, "only {ended} of {count} networks ended in time to be noticed");
}

macro_rules! share {
    ($($name:ident: $from:literal;)*) => {
        $(#[test]
        fn $name() {
            cases($from..$from + 500);
        })*
    };
}

share! {
    every_message_once_0: 0;
    every_message_once_1: 500;
    every_message_once_2: 1000;
    every_message_once_3: 1500;
}

/// The same cases with nothing in reserve: most of them fail, and end nevertheless.
#[test]
fn without_another_path_they_fail() {
    let mut failed = 0;
    for seed in 0..200 {
        let (mortal, ..) = case(seed);
        let pair = Pair::new(vec![mortal]);
        if let Err(error) = flood(&pair, seed) {
            let of_peer = match error {
                OpError::PeerFailed(how) => how != PeerFailure::Damaged,
                error => matches!(error, OpError::MemberFailed { .. }),
            };
            assert!(of_peer, "seed {seed}: {error:?}");
            failed += 1;
        }
    }
    println!("{failed} of 200 fail with one path");
    assert!(failed > 100, "only {failed} of 200 fail, so the deaths do not hit anything");
}

/// Where both networks end, everything that waits for the peer ends with its failure.
#[test]
fn when_no_path_is_left_everything_ends() {
    for seed in 0..300 {
        let mut random = Random::new(seed ^ 0xdead);
        let both = vec![mortal(seed, &mut random), mortal(seed + 1, &mut random)];
        // That it returns is the point: requests that never end are a panic there.
        let _ = flood(&Pair::new(both), seed);
    }
}
