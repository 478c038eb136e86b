//! What the network promises beside the contract: equal seeds give equal runs, time follows the
//! model, and each fault does what it says.

use bowline_base::sync::atomic::Ordering;
use bowline_sim::{
    Death, Ended, Faults, LinkMode, Moment, Network, NetworkOptions, NetworkPartition, Random,
    SimIface,
};
use bowline_uct::conformance::harness::Recorder;
use bowline_uct::{
    AmId, AtomicOp, AtomicWidth, Caps, EpId, Iface as _, MemoryDomain as _, OneSided as _,
    OpenError, PeerFailure, PostError, Posted, RemoteSlice, Token,
};

const ID: AmId = AmId::new(3);

fn pair(options: NetworkOptions) -> (Network, SimIface, SimIface, EpId) {
    let network = Network::new(options);
    let (mut a, b) = (network.open(), network.open());
    let ep = a.connect(&b.address()).expect("everybody reaches everybody");
    (network, a, b, ep)
}

fn take(iface: &mut SimIface) -> Recorder {
    let mut seen = Recorder::default();
    while iface.progress(&mut seen, 64) > 0 {}
    seen
}

fn all() -> Faults {
    Faults {
        loss: 200_000,
        retransmit_ns: 10_000,
        duplicate: 200_000,
        reorder: 200_000,
        reorder_ns: 30_000,
    }
}

/// A run of random sends between `nodes` interfaces; gives the trace and what each received.
fn random_run(seed: u64, link: LinkMode) -> (u64, Vec<Vec<u64>>) {
    const NODES: usize = 5;
    let options = NetworkOptions {
        seed,
        link,
        jitter_ns: 5000,
        faults: all(),
        slots: 8,
        ..Default::default()
    };
    let network = Network::new(options);
    let mut ifaces: Vec<SimIface> = (0..NODES).map(|_| network.open()).collect();
    let addresses: Vec<Vec<u8>> = ifaces.iter().map(|iface| iface.address()).collect();
    let mut random = Random::new(seed ^ 0xabc);
    let mut got = vec![Vec::new(); NODES];
    for sequence in 0..2000 {
        let (from, to) = (random.below(5) as usize, random.below(5) as usize);
        let ep = ifaces[from].connect(&addresses[to]).expect("everybody reaches everybody");
        match ifaces[from].am_short(ep, ID, &[from as u64, sequence, 0], &[]) {
            Ok(()) | Err(PostError::NoResource) => {}
            Err(error) => panic!("{error}"),
        }
        for _ in 0..random.below(4) {
            network.advance();
        }
        let to = random.below(5) as usize;
        got[to]
            .extend(take(&mut ifaces[to]).messages.iter().map(|m| m.header[0] << 32 | m.header[1]));
    }
    network.run_until_quiet();
    for (iface, got) in ifaces.iter_mut().zip(&mut got) {
        got.extend(take(iface).messages.iter().map(|m| m.header[0] << 32 | m.header[1]));
    }
    (network.trace_hash(), got)
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    for link in [LinkMode::Reliable, LinkMode::Raw] {
        let mut hashes = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let first = random_run(seed, link);
            assert_eq!(first, random_run(seed, link), "seed {seed}, {link:?}");
            hashes.insert(first.0);
        }
        assert_eq!(hashes.len(), 20, "different seeds, different traces");
    }
}

#[test]
fn reliable_links_keep_order_and_raw_ones_do_not() {
    let in_order = |got: &[Vec<u64>]| {
        got.iter().all(|got| {
            (0..5).all(|from| {
                let one: Vec<_> = got.iter().filter(|&&m| m >> 32 == from).collect();
                one.is_sorted_by(|a, b| a < b)
            })
        })
    };
    assert!((0..20).all(|seed| in_order(&random_run(seed, LinkMode::Reliable).1)));
    let disordered = (0..20).filter(|&seed| !in_order(&random_run(seed, LinkMode::Raw).1)).count();
    assert_eq!(disordered, 20);
}

#[test]
fn raw_links_lose_and_double_messages() {
    for (loss, duplicate, expected) in [(1_000_000, 0, 0), (0, 1_000_000, 20), (0, 0, 10)] {
        let faults = Faults { loss, duplicate, ..Faults::default() };
        let options = NetworkOptions { link: LinkMode::Raw, faults, ..Default::default() };
        let (network, mut a, mut b, ep) = pair(options);
        assert!(!a.attr().caps.contains(Caps::AM_ORDERED));
        for i in 0..10 {
            a.am_short(ep, ID, &[i, 0, 0], b"twelve bytes").expect("there is space");
        }
        network.run_until_quiet();
        assert_eq!(take(&mut b).messages.len(), expected);
        // What is lost takes no receive buffer away.
        for i in 0..32 {
            a.am_short(ep, ID, &[i, 0, 0], &[]).expect("there is space again");
        }
    }
}

#[test]
fn time_follows_the_pipelining_model() {
    let options = NetworkOptions {
        latency_ns: 10_000,
        gap_ns: 100,
        byte_ps: 2000,
        ..NetworkOptions::default()
    };
    for (count, bytes) in [(1_u64, 0_u64), (1, 1000), (10, 8), (50, 4000)] {
        let (network, mut a, mut b, ep) = pair(options.clone());
        let payload = vec![1; bytes as usize];
        for _ in 0..count {
            let mut pack = |space: bowline_base::view::View<'_>| space.copy_in(&payload);
            a.am_bcopy(ep, ID, &[0; 3], payload.len(), &mut pack).expect("there is space");
        }
        network.run_until_quiet();
        assert_eq!(take(&mut b).messages.len() as u64, count);
        assert_eq!(network.now(), 10_000 + count * (100 + bytes * 2));
    }
}

/// Puts to some interfaces and one flush: when all of it is known to have happened.
fn flushed(targets: u64, acknowledged: bool) -> u64 {
    let options = NetworkOptions {
        latency_ns: 250,
        gap_ns: 100,
        byte_ps: 0,
        acknowledged,
        ..Default::default()
    };
    let network = Network::new(options);
    let mut root = network.open();
    let mut others: Vec<SimIface> = (0..targets).map(|_| network.open()).collect();
    let mut windows = Vec::new();
    for other in &mut others {
        let memory = other.mem_alloc(8).expect("eight bytes");
        let address = other.mem_view(memory).expect("just made").as_ptr().addr() as u64;
        let ep = root.connect(&other.address()).expect("everybody reaches everybody");
        let key = other.rkey_pack(memory).expect("just made");
        let rkey = root.rkey_unpack(ep, &key).expect("its own key");
        windows.push((ep, RemoteSlice { address, rkey }));
    }
    for &(ep, to) in &windows {
        root.put_short(ep, &[7; 8], to).expect("there is space");
    }
    assert_eq!(root.flush_all(Token(1)), Ok(Posted::InFlight));
    while take(&mut root).completed != [(Token(1), Ok(0))] {
        assert!(network.advance(), "the flush ends");
    }
    network.now()
}

#[test]
fn a_flush_takes_gaps_unless_puts_are_acknowledged() {
    for targets in [1, 2, 12] {
        assert_eq!(flushed(targets, true), 500 + targets * 100);
        assert_eq!(flushed(targets, false), 500 + targets * 200);
    }
}

#[test]
fn a_lent_message_is_read_when_it_departs_and_answered_a_round_trip_later() {
    let (network, mut a, mut b, ep) = pair(NetworkOptions::default());
    let mut buffer = bowline_base::buffer::RecvBuf::owned(vec![1; 1000]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { bowline_uct::LocalSlice::of_recv(&mut buffer, 0, 1000) }.expect("inside");
    let posted = a.am_zcopy(ep, ID, &[0; 3], &[slice], Token(9)).expect("there is space");
    assert_eq!(posted, Posted::InFlight);
    assert!(network.advance(), "the departure");
    buffer.write_at(0, &[2; 1000]);
    assert!(network.advance(), "the arrival");
    assert_eq!(take(&mut b).messages[0].payload, [1; 1000]);
    assert!(take(&mut a).completed.is_empty(), "the answer is on its way");
    assert!(network.advance(), "the answer");
    assert_eq!(take(&mut a).completed, [(Token(9), Ok(0))]);
}

/// Puts a word and adds to another one, many times; whether the addition was ever seen first.
fn overtaken(put_before_atomic: bool, seed: u64) -> bool {
    let options =
        NetworkOptions { seed, jitter_ns: 10_000, put_before_atomic, ..NetworkOptions::default() };
    let (network, mut a, mut b, ep) = pair(options);
    let memory = b.mem_alloc(64).expect("memory for a test");
    let start = b.mem_view(memory).expect("held").as_ptr() as u64;
    let key = b.rkey_pack(memory).expect("held");
    let rkey = a.rkey_unpack(ep, &key).expect("a whole key");
    let mut early = false;
    for round in 1..=50_u64 {
        let at = |offset| RemoteSlice { address: start + offset, rkey };
        a.put_short(ep, &round.to_ne_bytes(), at(0)).expect("inside");
        a.atomic(ep, AtomicOp::Add(1), AtomicWidth::W64, at(8), Token::NONE).expect("inside");
        while network.advance() {
            let view = b.mem_view(memory).expect("held");
            // Relaxed: one thread.
            let word = |o| view.word(o).expect("aligned").load(Ordering::Relaxed);
            early |= word(8) > word(0);
        }
    }
    early
}

#[test]
fn atomics_overtake_puts_where_that_is_allowed() {
    assert!((0..10).all(|seed| !overtaken(true, seed)));
    assert!((0..10).all(|seed| overtaken(false, seed)));
}

/// Puts a word and sends a message behind it, many times; whether a message was ever delivered first.
fn overtaken_by_message(put_before_am: bool, seed: u64) -> bool {
    let options =
        NetworkOptions { seed, jitter_ns: 10_000, put_before_am, ..NetworkOptions::default() };
    let (network, mut a, mut b, ep) = pair(options);
    let memory = b.mem_alloc(8).expect("memory for a test");
    let start = b.mem_view(memory).expect("held").as_ptr() as u64;
    let key = b.rkey_pack(memory).expect("held");
    let rkey = a.rkey_unpack(ep, &key).expect("a whole key");
    let mut early = false;
    for round in 1..=50_u64 {
        a.put_short(ep, &round.to_ne_bytes(), RemoteSlice { address: start, rkey })
            .expect("inside");
        a.am_short(ep, ID, &[round, 0, 0], &[]).expect("there is space");
        while network.advance() {
            let view = b.mem_view(memory).expect("held");
            // Relaxed: one thread.
            let word = view.word(0).expect("aligned").load(Ordering::Relaxed);
            early |= take(&mut b).messages.iter().any(|message| message.header[0] > word);
        }
    }
    early
}

#[test]
fn messages_overtake_puts_where_that_is_allowed() {
    assert!((0..10).all(|seed| !overtaken_by_message(true, seed)));
    assert!((0..10).all(|seed| overtaken_by_message(false, seed)));
}

#[test]
fn a_partition_that_heals_only_delays() {
    let cut = NetworkPartition { from_ns: 0, until_ns: 5_000_000, side: vec![0] };
    let options = NetworkOptions { partitions: vec![cut], ..NetworkOptions::default() };
    let (network, mut a, mut b, ep) = pair(options);
    for i in 0..10 {
        a.am_short(ep, ID, &[i, 0, 0], &[]).expect("there is space");
    }
    network.run_until_quiet();
    let seen = take(&mut b);
    assert!(seen.messages.iter().map(|m| m.header[0]).eq(0..10), "all, in order");
    assert!(seen.failed.is_empty());
    assert_eq!(network.now(), 5_000_000, "when it healed");
    assert!(take(&mut a).failed.is_empty());
}

#[test]
fn a_partition_that_lasts_makes_both_sides_give_up() {
    let cut = NetworkPartition { from_ns: 0, until_ns: u64::MAX, side: vec![0] };
    let options =
        NetworkOptions { partitions: vec![cut], unreachable_ns: 700, ..NetworkOptions::default() };
    let (network, mut a, mut b, ep) = pair(options);
    a.am_short(ep, ID, &[0; 3], &[]).expect("there is space");
    network.run_until_quiet();
    assert_eq!(take(&mut a).failed.len(), 1);
    assert_eq!(a.am_short(ep, ID, &[0; 3], &[]), Err(PostError::PeerFailed));
    assert_eq!((network.failures(0), network.failures(1)), (vec![1], vec![0]));
    let refused = b.connect(&a.address());
    assert!(matches!(refused, Err(OpenError::PeerFailed(PeerFailure::Unreachable))), "{refused:?}");
}

/// A partition that lasts for longer than the sides wait for each other, and then heals: reads and writes
/// that it caught, at any point of their way, touch no memory that was given back at the failure.
#[test]
fn what_a_healed_partition_lets_through_reaches_no_memory_that_was_given_back() {
    const LEN: usize = 2000;
    const HEALS: u64 = 50_000;
    let (mut caught, mut early) = (0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let cut = NetworkPartition { from_ns: random.below(6000), until_ns: HEALS, side: vec![0] };
        let options = NetworkOptions {
            seed,
            jitter_ns: 2000,
            faults: all(),
            partitions: vec![cut],
            unreachable_ns: 1 + random.below(3000),
            ..NetworkOptions::default()
        };
        let (network, mut a, mut b, ep) = pair(options);
        let back = b.connect(&a.address()).expect("everybody reaches everybody");
        let window = b.mem_alloc(LEN).expect("there is memory");
        let start = b.mem_view(window).expect("just made").as_ptr() as u64;
        let packed = b.rkey_pack(window).expect("just made");
        let theirs =
            RemoteSlice { address: start, rkey: a.rkey_unpack(ep, &packed).expect("whole") };
        let lent = bowline_base::buffer::RecvBuf::owned(vec![0; LEN]);
        let address = lent.address();
        let handle = a.mem_register(lent).expect("it can be registered");
        let packed = a.rkey_pack(handle).expect("just made");
        let ours = RemoteSlice { address, rkey: b.rkey_unpack(back, &packed).expect("whole") };
        let mut read = bowline_base::buffer::RecvBuf::owned(vec![0; LEN]);
        // SAFETY: the buffer is kept, and left alone, until the operation has ended.
        let into = unsafe { bowline_uct::LocalSlice::of_recv(&mut read, 0, LEN) }.expect("inside");
        let _ = a.get_zcopy(ep, &[into], theirs, Token(1)).expect("there is space");
        let mut pack = |space: bowline_base::view::View<'_>| space.copy_in(&[7; LEN]);
        b.put_bcopy(back, LEN, &mut pack, ours).expect("there is space");
        let mut seen = Recorder::default();
        while seen.failed.is_empty() && network.advance() {
            a.progress(&mut seen, 64);
        }
        assert_eq!(seen.failed.len(), 1, "seed {seed}: the partition outlasts the patience");
        assert_eq!(seen.completed.len(), 1, "seed {seed}: answered before the failure");
        assert!(network.now() < HEALS, "seed {seed}: it has not healed yet");
        match seen.completed[0].1 {
            Ok(_) => early += 1,
            Err(_) => caught += 1,
        }
        let mut read = read.into_owned().expect("it was owned");
        let lent = a.mem_release(handle).expect("registered").expect("it was ours");
        let mut lent = lent.into_owned().expect("it was owned");
        read.fill(0xaa);
        lent.fill(0xaa);
        network.run_until_quiet();
        take(&mut a);
        take(&mut b);
        let untouched = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0xaa);
        assert!(untouched(&read) && untouched(&lent), "seed {seed}: written after the failure");
    }
    assert!(caught > 50 && early > 50, "{caught} operations were caught, {early} were not");
}

#[test]
fn a_rank_dies_at_its_time_and_what_it_sent_before_arrives() {
    let deaths = vec![Death { node: 0, when: Moment::At(100_000) }];
    let options = NetworkOptions { deaths, detect_ns: 10, ..NetworkOptions::default() };
    let (network, mut a, mut b, ep) = pair(options);
    while network.next_event().is_some_and(|at| at < 100_000) {
        network.advance();
    }
    // Departs before the death and is due long after the time-out.
    a.am_short(ep, ID, &[1, 0, 0], &[]).expect("there is space");
    // Departs after it.
    let bytes = vec![1; 8192];
    while network.now() < 100_000 {
        assert!(network.advance());
    }
    let mut pack = |space: bowline_base::view::View<'_>| space.copy_in(&bytes);
    let late = a.am_bcopy(ep, ID, &[2, 0, 0], 8192, &mut pack);
    assert_eq!(late, Err(PostError::PeerFailed), "the dead post nothing");
    assert_eq!(network.ended(0), Some(Ended::Died));
    network.run_until_quiet();
    let seen = take(&mut b);
    assert_eq!(seen.messages.len(), 1);
    assert_eq!(seen.failed.len(), 1);
    assert_eq!(seen.failed[0].2, PeerFailure::Died);
    assert_eq!(network.failures(1), [0]);
}

#[test]
fn a_rank_dies_at_its_operation() {
    let deaths = vec![Death { node: 0, when: Moment::Operation(3) }];
    let (network, mut a, mut b, ep) = pair(NetworkOptions { deaths, ..Default::default() });
    assert_eq!(a.am_short(ep, ID, &[1, 0, 0], &[]), Ok(()));
    network.run_until_quiet();
    assert_eq!(a.am_short(ep, ID, &[2, 0, 0], &[]), Ok(()));
    assert_eq!(a.am_short(ep, ID, &[3, 0, 0], &[]), Err(PostError::PeerFailed));
    // The second had not departed.
    network.run_until_quiet();
    let seen = take(&mut b);
    assert_eq!(seen.messages.len(), 1);
    // To itself the dead one is the only one alive: whatever it waits for ends.
    assert_eq!(take(&mut a).failed.len(), 1);
    assert_eq!(network.failures(0), [0, 1]);
}

#[test]
fn the_key_of_the_whole_memory_reads_and_does_not_write() {
    let (network, mut a, b, ep) = pair(NetworkOptions::default());
    let source = bowline_base::buffer::SendBuf::owned((0..100).collect());
    let rkey = a.rkey_unpack(ep, &[1]).expect("reading is allowed");
    let mut into = bowline_base::buffer::RecvBuf::owned(vec![0; 100]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { bowline_uct::LocalSlice::of_recv(&mut into, 0, 100) }.expect("inside");
    let from = RemoteSlice { address: source.address(), rkey };
    let posted = a.get_zcopy(ep, &[slice], from, Token(1)).expect("it is posted");
    assert_eq!(posted, Posted::InFlight);
    network.run_until_quiet();
    assert_eq!(take(&mut a).completed, [(Token(1), Ok(0))]);
    assert!(into.view().to_vec().iter().copied().eq(0..100));
    // The question, 100 bytes, and their way, each 380 ns apart from its interface; then with bytes ten times as slow.
    assert_eq!(network.now(), 1380 + 380 + 9 + 1000);
    network.set_byte_times(98, Some(980));
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let again = unsafe { bowline_uct::LocalSlice::of_recv(&mut into, 0, 100) }.expect("inside");
    let _ = a.get_zcopy(ep, &[again], from, Token(3)).expect("it is posted");
    network.run_until_quiet();
    assert_eq!(network.now(), 2769 + 1380 + 380 + 98 + 1000);
    assert_eq!(take(&mut a).completed, [(Token(3), Ok(0))]);
    assert_eq!(a.put_short(ep, &[1], from), Err(PostError::BadArgument));
    // An address that is not there is refused, by the kernel.
    let nowhere = RemoteSlice { address: 8, rkey };
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let slice = unsafe { bowline_uct::LocalSlice::of_recv(&mut into, 0, 100) }.expect("inside");
    a.get_zcopy(ep, &[slice], nowhere, Token(2)).map(drop).expect("it is posted");
    network.run_until_quiet();
    assert_eq!(take(&mut a).completed, [(Token(2), Err(PeerFailure::Refused))]);
    drop(b);
}
