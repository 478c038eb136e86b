//! Peers that keep to none of the rules: an interface of a simulated network that says what it likes,
//! without an engine behind it. What it can make a worker keep is bounded, what waits for it ends, and
//! the others are served.

mod damage;
mod flags;
mod floods;
mod fragments;
mod honest;

use std::sync::{Arc, Mutex};

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_sim::{Network, NetworkOptions, SimIface};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::{
    ConnectError, Envelope, EpState, LaneAddress, MatchSpec, OpError, PeerFailure, RequestId,
    SendMode, Sent, SpaceOptions, Worker, WorkerAddress,
};
use bowline_uct::{AmId, Arrival, EpId, Iface, PostError, Sink, Source, Token, Verdict};

use crate::doubles::{config, of_everybody, opened, parts};

const HELLO: u8 = 0;
const EAGER: u8 = 1;
const EAGER_SYNC: u8 = 2;
const RTS: u8 = 5;
const CTS: u8 = 6;
const FRAGMENT: u8 = 7;
const AM: u8 = 10;
const AM_FIRST: u8 = 11;
const PIECE: u8 = 4;
const AM_RTS: u8 = 14;
const STREAM: u8 = 15;
const NUMBERED: u8 = 18;
const RESERVED: u8 = 19;
const NOTICE: u8 = 20;
const REMOTE: u8 = 22;
const RTR: u8 = 25;
const ANY: u8 = 29;
const SELECT: u8 = 30;

/// What a worker may keep beyond its limits: what one call of a transport brings.
const BATCH: u64 = 64;

fn space() -> SpaceOptions {
    SpaceOptions { ranks: 3, ..of_everybody() }
}

fn worker(network: &Network, rank: u32, settings: &[(&str, &str)]) -> Worker {
    worker_on(Box::new(network.open()), rank, settings)
}

fn worker_on(lane: Box<dyn Iface>, rank: u32, settings: &[(&str, &str)]) -> Worker {
    opened(parts(rank, lane, &config(settings)), 0, space())
}

/// What a forger has heard, the request that the last offer to it named, and the words that were about flags.
#[derive(Default)]
struct Heard(Vec<(u8, [u64; 2])>, u64, Vec<Vec<u64>>);

impl Sink for Heard {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.0.push((arrival.id.get(), [arrival.header[0], arrival.header[1]]));
        if arrival.id.get() == RTS {
            let mut request = [0; 8];
            arrival.payload.copy_out(&mut request);
            self.1 = u64::from_le_bytes(request);
        }
        if arrival.id.get() == ANY {
            let words = arrival.payload.to_vec();
            let words = words.chunks_exact(8).map(|word| word.try_into().expect("eight bytes"));
            self.2.push(words.map(u64::from_le_bytes).collect());
        }
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {}
}

/// A rank of the job, which says what it likes.
struct Forger {
    rank: u32,
    network: Network,
    lane: SimIface,
    ep: EpId,
    sequence: u32,
    /// In the high half of each third word.
    number: u32,
    heard: Heard,
    /// As it has introduced itself.
    address: Vec<u8>,
    /// Whether it takes what is sent to it.
    reads: bool,
}

impl Forger {
    /// Rank 1.
    fn new(network: &Network, victim: &Worker) -> Self {
        Self::of_rank(1, network, victim)
    }

    fn of_rank(rank: u32, network: &Network, victim: &Worker) -> Self {
        let mut lane = network.open();
        let theirs = WorkerAddress::parse(&victim.address()).expect("it is one");
        let ep = lane.connect(&theirs.lanes[0].address).expect("it can be reached");
        let heard = Heard::default();
        let network = network.clone();
        let address = Vec::new();
        let mut forger =
            Self { rank, network, lane, ep, sequence: 0, number: 0, heard, address, reads: true };
        forger.greet(u64::from(rank) + 1);
        forger
    }

    fn greet(&mut self, uid: u64) {
        let address = LaneAddress { provider: "sim".into(), address: self.lane.address() };
        let hello = WorkerAddress {
            job: 1,
            rank: self.rank,
            incarnation: 0,
            uid,
            features: u32::MAX,
            lanes: vec![address],
        };
        self.address = hello.pack();
        assert!(self.says(HELLO, [0, 0], &self.address.clone()));
    }

    /// Posts a message, if there is space for it.
    fn says(&mut self, id: u8, words: [u64; 2], payload: &[u8]) -> bool {
        let third = u64::from(self.sequence) | u64::from(self.number) << 32;
        let header = [words[0], words[1], third];
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

    /// Posts a message, waiting for space while `victim` makes progress.
    fn posts(&mut self, victim: &Worker, id: u8, words: [u64; 2], payload: &[u8]) {
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
