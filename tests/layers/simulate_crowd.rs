//! Thousands of workers in one thread, over one simulated network: neighbours exchange messages,
//! and everybody floods one.

use crate::common::within_two_minutes;
use bowline::simulate::{Faults, Network, NetworkOptions, workers};
use bowline::stack::SETTINGS;
use bowline::ucp::{Envelope, MatchSpec, RequestId, SendMode, Sent, SpaceOptions, Worker};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;

const WORKERS: usize = 2500;

struct Crowd {
    network: Network,
    workers: Vec<Worker>,
    addresses: Vec<Vec<u8>>,
}

impl Crowd {
    fn new(options: NetworkOptions) -> Self {
        let network = Network::new(options);
        let config = Config::defaults(SETTINGS);
        let workers = workers(&network, WORKERS as u32, &config).expect("one lane is enough");
        for worker in &workers {
            worker.open_space(0, SpaceOptions::default()).expect("space 0 is new");
        }
        let addresses = workers.iter().map(Worker::address).collect();
        Self { network, workers, addresses }
    }

    /// Sends a word; `Some` while it is under way.
    fn send(&self, from: usize, to: usize, tag: u64, word: u64) -> Option<RequestId> {
        let ep = self.workers[from].connect(&self.addresses[to]).expect("they reach each other");
        let envelope = Envelope { space: 0, source: from as u32, tag };
        let buffer = SendBuf::owned(word.to_le_bytes().to_vec());
        match self.workers[from].send(ep, envelope, buffer, SendMode::Standard) {
            Ok(Sent::Done) => None,
            Ok(Sent::Pending(id)) => Some(id),
            Err(error) => panic!("{from} to {to}: {error}"),
        }
    }

    fn receive(&self, at: usize, source: Option<usize>, tag: u64) -> RequestId {
        let source = source.map(|source| source as u32);
        let spec = MatchSpec { space: 0, source, tag, tag_mask: u64::MAX };
        self.workers[at].recv(spec, RecvBuf::owned(vec![0; 8])).expect("posted")
    }

    fn take(&self, at: usize, id: RequestId) -> (u32, u64) {
        let (status, bytes) = self.workers[at].take_with_buffer(id).expect("it is complete");
        assert_eq!((status.outcome, status.length), (Ok(()), 8));
        let word = bytes.expect("it was owned").try_into().expect("eight bytes");
        (status.source, u64::from_le_bytes(word))
    }

    /// Progress of the woken, and time, until nothing is left to do.
    fn run(&self) {
        let mut woken: Vec<u32> = (0..WORKERS as u32).collect();
        loop {
            for &worker in &woken {
                while self.workers[worker as usize].progress() > 0 {}
            }
            woken.clear();
            self.network.take_woken(&mut woken);
            while woken.is_empty() {
                if !self.network.advance() {
                    return;
                }
                self.network.take_woken(&mut woken);
            }
        }
    }
}

fn storm(seed: u64) -> NetworkOptions {
    let faults = Faults {
        loss: 20_000,
        retransmit_ns: 50_000,
        duplicate: 20_000,
        reorder: 50_000,
        reorder_ns: 20_000,
    };
    NetworkOptions { seed, jitter_ns: 3000, faults, ..NetworkOptions::default() }
}

fn neighbours(seed: u64) -> u64 {
    const ROUNDS: u64 = 3;
    let crowd = Crowd::new(storm(seed));
    for round in 0..ROUNDS {
        let mut receives = Vec::new();
        let mut sends = Vec::new();
        for me in 0..WORKERS {
            for other in [(me + 1) % WORKERS, (me + WORKERS - 1) % WORKERS] {
                receives.push((me, other, crowd.receive(me, Some(other), round)));
                sends.extend(
                    crowd.send(me, other, round, (me as u64) << 32 | round).map(|id| (me, id)),
                );
            }
        }
        crowd.run();
        for (me, id) in sends {
            assert!(crowd.workers[me].take(id).is_some_and(|status| status.outcome.is_ok()));
        }
        for (me, other, id) in receives {
            assert_eq!(crowd.take(me, id), (other as u32, (other as u64) << 32 | round));
        }
    }
    crowd.network.trace_hash()
}

#[test]
fn neighbours_exchange_and_it_repeats() {
    within_two_minutes("neighbours", || {
        assert_eq!(neighbours(3), neighbours(3));
    });
}

#[test]
fn everybody_floods_one() {
    within_two_minutes("a flood", || {
        const EACH: u64 = 5;
        let crowd = Crowd::new(storm(4));
        let mut sends = Vec::new();
        for word in 0..EACH {
            for from in 1..WORKERS {
                sends.extend(crowd.send(from, 0, 7, word).map(|id| (from, id)));
            }
        }
        assert!(sends.len() > WORKERS, "most of it finds no space at first");
        let total = (WORKERS as u64 - 1) * EACH;
        // Half of the receives are posted before anything can have arrived, half afterwards.
        let mut receives: Vec<_> = (0..total / 2).map(|_| crowd.receive(0, None, 7)).collect();
        crowd.run();
        receives.extend((total / 2..total).map(|_| crowd.receive(0, None, 7)));
        crowd.run();
        for (from, id) in sends {
            assert!(crowd.workers[from].take(id).is_some_and(|status| status.outcome.is_ok()));
        }
        let mut next = vec![0; WORKERS];
        for id in receives {
            let (from, word) = crowd.take(0, id);
            assert_eq!(word, next[from as usize], "messages of one sender keep their order");
            next[from as usize] += 1;
        }
        assert!(next[1..].iter().all(|&count| count == EACH), "everybody's messages came");
    });
}
