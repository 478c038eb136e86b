//! Shared memory as a path: what a read by it and a network together takes from each, what is read where
//! the kernel refuses, and the lane that memory is beside the rails.

use bowline_base::buffer::RecvBuf;
use bowline_shm::ShmOptions;
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::rails::Rails;
use bowline_uct::{
    AmId, Arrival, AtomicOp, AtomicWidth, Caps, EpId, Face, Iface, LocalSlice, MemoryDomain as _,
    PeerFailure, PostError, Posted, RemoteSlice, Sink, Source, Token, Verdict,
};

use super::{advance, memory, node, options, pattern, with_memory};

/// What a sink was told.
#[derive(Default)]
struct Seen {
    messages: Vec<(Source, u8, Vec<u8>)>,
    completed: Vec<(Token, Result<u64, PeerFailure>)>,
    failed: Vec<(Option<Source>, Option<EpId>)>,
    writable: Vec<EpId>,
}

impl Sink for Seen {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.messages.push((arrival.source, arrival.id.get(), arrival.payload.to_vec()));
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        self.completed.push((token, result));
    }
    fn writable(&mut self, ep: EpId) {
        self.writable.push(ep);
    }
    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, _: PeerFailure) {
        self.failed.push((source, ep));
    }
}

struct Two {
    networks: Vec<(Network, NetworkOptions)>,
    rails: [Rails; 2],
    lanes: [Face; 2],
    seen: [Seen; 2],
    beside: [Seen; 2],
}

impl Two {
    fn new(networks: usize, shm: &ShmOptions) -> Self {
        let job = node(2, shm);
        let network = |_| (Network::new(options()), options());
        let networks: Vec<_> = (0..networks).map(network).collect();
        let [(first, its), (second, others)] =
            [0, 1].map(|i| with_memory(memory(&job, i, shm), &networks, 0, u64::from(i) + 1));
        Self {
            networks,
            rails: [first, second],
            lanes: [its, others],
            seen: Default::default(),
            beside: Default::default(),
        }
    }

    /// A round of all, in the order of a worker's lanes.
    fn round(&mut self) {
        for at in 0..2 {
            self.rails[at].progress(&mut self.seen[at], 64);
            self.lanes[at].progress(&mut self.beside[at], 64);
        }
        advance(&self.networks);
    }

    fn rounds(&mut self) {
        (0..500).for_each(|_| self.round());
    }
}

/// A read of `len` bytes; how it ended, and how many rounds it took.
fn read(two: &mut Two, len: usize) -> Result<u32, PostError> {
    let ep = two.rails[0].connect(&two.rails[1].address()).expect("they reach each other");
    two.rails[0].am_short(ep, AmId::new(0), &[0; 3], &[]).expect("there is room");
    two.rounds();
    let content = pattern(len, 3);
    let home = two.rails[1].mem_register(RecvBuf::owned(content.clone())).expect("registered");
    let address = two.rails[1].mem_view(home).expect("it is there").as_ptr() as u64;
    let packed = two.rails[1].rkey_pack(home).expect("a key");
    let rkey = two.rails[0].rkey_unpack(ep, &packed).expect("opens");
    let mut buffer = RecvBuf::owned(vec![0; len]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let to = unsafe { LocalSlice::of_recv(&mut buffer, 0, len) }.expect("all of it");
    let mut rounds = 0;
    let from = RemoteSlice { address, rkey };
    if two.rails[0].get_zcopy(ep, &[to], from, Token(9))? == Posted::InFlight {
        while two.seen[0].completed.is_empty() {
            two.round();
            rounds += 1;
            assert!(rounds < 100_000, "it ends");
        }
        assert_eq!(two.seen[0].completed, [(Token(9), Ok(0))]);
    }
    assert!(buffer.into_owned().expect("ours") == content, "the bytes that were read");
    // What is not lent any more is not read any more, by none of the paths.
    let back = two.rails[1].mem_release(home).expect("it was held").expect("registered");
    let mut again = RecvBuf::owned(vec![0; len]);
    // SAFETY: the buffer is kept, and left alone, until the operation has ended.
    let to = unsafe { LocalSlice::of_recv(&mut again, 0, len) }.expect("all of it");
    two.seen[0].completed.clear();
    match two.rails[0].get_zcopy(ep, &[to], from, Token(10)) {
        Ok(Posted::InFlight) => {
            two.rounds();
            assert_eq!(two.seen[0].completed, [(Token(10), Err(PeerFailure::Refused))]);
        }
        other => assert!(other.is_err(), "memory that was released was read: {other:?}"),
    }
    drop(back);
    Ok(rounds)
}

#[test]
fn a_read_is_split_among_memory_and_a_network() {
    let mut two = Two::new(1, &ShmOptions::default());
    let rounds = read(&mut two, 16 << 20).expect("both read");
    assert!(rounds > 0, "the network has its part under way");
    let predicted = two.rails[0].predict(16 << 20).expect("they read");
    assert!(predicted.parts[..2].iter().all(|&part| part > 1 << 20), "{predicted:?}");
    assert_eq!(two.rails[0].stats().split_reads, 2);
}

#[test]
fn memory_alone_reads_in_the_call() {
    let mut two = Two::new(0, &ShmOptions::default());
    assert_eq!(read(&mut two, 3 << 20), Ok(0));
    // But not for long: others are looked at in between.
    let mut two = Two::new(0, &ShmOptions::default());
    let rounds = read(&mut two, 33 << 20).expect("it reads");
    assert!((8..30).contains(&rounds), "{rounds} rounds");
}

/// The kernel refuses, before the first byte or in the middle: the network reads the rest, and everything
/// from then on.
#[test]
fn a_network_reads_what_the_kernel_refuses() {
    for after in [0, 1, 2, 5] {
        let mut shm = ShmOptions::default();
        shm.refuse_cma_after = Some(after);
        let mut two = Two::new(1, &shm);
        assert!(read(&mut two, 16 << 20).is_ok_and(|rounds| rounds > 0), "after {after}");
        assert!(two.seen[0].failed.is_empty() && two.rails[0].stats().paths_lost == 0);
    }
}

/// Without a network there is nothing else, and who asked hears that reads do not work.
#[test]
fn where_nothing_reads_the_caller_is_told() {
    let mut shm = ShmOptions::default();
    shm.refuse_cma_after = Some(0);
    let mut two = Two::new(0, &shm);
    assert_eq!(read(&mut two, 1 << 20), Err(PostError::Unsupported));
}

/// One-sided operations go by the lane, messages of both arrive where they belong, and what one face
/// gives up stays with the other.
#[test]
fn the_lane_beside_the_rails() {
    let mut two = Two::new(1, &ShmOptions::default());
    let ep = two.rails[0].connect(&two.rails[1].address()).expect("they reach each other");
    let its = two.lanes[0].connect(&two.lanes[1].address()).expect("they reach each other");
    let caps = two.lanes[0].attr().caps;
    assert!(caps.contains(Caps::PUT_SHORT | Caps::ATOMIC_CPU) && !caps.contains(Caps::EXPOSE));
    for number in 0..50_u8 {
        two.rails[0].am_short(ep, AmId::new(3), &[0; 3], &[number; 9]).expect("there is room");
        two.lanes[0].am_short(its, AmId::new(4), &[0; 3], &[number; 5]).expect("there is room");
        if number % 7 == 0 {
            two.round();
        }
    }
    two.rounds();
    let of = |seen: &Seen, id| {
        let all: Vec<u8> = seen.messages.iter().map(|(_, _, bytes)| bytes[0]).collect();
        assert!(seen.messages.iter().all(|(_, its, _)| *its == id));
        all
    };
    let all: Vec<u8> = (0..50).collect();
    assert_eq!((of(&two.seen[1], 3), of(&two.beside[1], 4)), (all.clone(), all));
    // Memory of the lane, which rails do not allocate.
    let window = two.lanes[1].mem_alloc(4096).expect("memory for a test");
    let view = two.lanes[1].mem_view(window).expect("it is there");
    let (start, packed) = (view.as_ptr() as u64, two.lanes[1].rkey_pack(window).expect("a key"));
    let rkey = two.lanes[0].rkey_unpack(its, &packed).expect("it opens");
    let at = RemoteSlice { address: start, rkey };
    let add = AtomicOp::Add(5);
    for old in [0, 5, 10] {
        let fetched = two.lanes[0].atomic_fetch(its, add, AtomicWidth::W64, at, Token(4));
        assert_eq!(fetched, Ok(Some(old)));
    }
    assert_eq!(two.lanes[0].rkey_ptr(rkey, start, 8).expect("mapped").to_vec()[0], 15);
    assert_eq!(two.lanes[0].flush_all(Token(5)), Ok(Posted::Done));
    // The lane gives the peer up; rails go on by the same memory.
    two.lanes[0].invalidate(its);
    two.rounds();
    assert_eq!(two.beside[0].failed.len(), 1);
    let refused = two.lanes[0].am_short(its, AmId::new(4), &[0; 3], &[]);
    assert_eq!(refused, Err(PostError::PeerFailed));
    two.rails[0].am_short(ep, AmId::new(3), &[0; 3], &[77]).expect("there is room");
    two.rounds();
    assert_eq!(two.seen[1].messages.last().map(|(_, _, bytes)| bytes[0]), Some(77));
    assert_eq!(two.rails[0].stats().paths_lost, 0);
    assert!(two.seen[0].failed.is_empty());
}

/// A face that is dropped leaves the other as it is.
#[test]
fn a_face_alone() {
    let mut two = Two::new(0, &ShmOptions::default());
    let ep = two.rails[0].connect(&two.rails[1].address()).expect("they reach each other");
    let Two { rails: [mut first, mut second], lanes, mut seen, .. } = two;
    drop(lanes);
    for _ in 0..2000 {
        first.am_short(ep, AmId::new(3), &[0; 3], &[1]).expect("there is room");
        first.progress(&mut seen[0], 64);
        second.progress(&mut seen[1], 64);
    }
    assert_eq!(seen[1].messages.len(), 2000);
}
