//! Two workers on a simulated network, driven by one thread.

use bowline_base::config::Config;
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{
    Ep, Idle, OpStatus, RequestId, SpaceOptions, Stages, Waiter, Worker, WorkerParts,
};

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

pub(crate) struct Pair {
    pub(crate) network: Network,
    pub(crate) workers: [Worker; 2],
    pub(crate) eps: [Ep; 2],
}

impl Pair {
    pub(crate) fn new(options: NetworkOptions, settings: &[(&str, &str)]) -> Self {
        let network = Network::new(options);
        let config = Config::from_pairs(settings.iter().copied(), &[bowline_ucp::SETTINGS]);
        let config = config.expect("the settings are good");
        let workers = [0, 1].map(|rank| {
            let parts = WorkerParts {
                job: 1,
                rank,
                incarnation: 0,
                uid: u64::from(rank) + 1,
                lanes: vec![Box::new(network.open())],
                waiter: Box::new(Never),
                failures: None,
                config: config.clone(),
            };
            let worker = Worker::new(parts).expect("one lane is enough");
            worker.open_space(0, SpaceOptions::default()).expect("space 0 is new");
            worker
        });
        let eps = [0, 1].map(|rank: usize| {
            workers[rank].connect(&workers[1 - rank].address()).expect("they reach each other")
        });
        Self { network, workers, eps }
    }

    /// One round: both progress, and time moves on when neither had anything to do. Whether
    /// anything happened.
    pub(crate) fn step(&self) -> bool {
        let events = self.workers[0].progress() + self.workers[1].progress();
        events > 0 || self.network.advance()
    }

    /// Rounds until `done`.
    #[track_caller]
    pub(crate) fn until(&self, done: impl Fn() -> bool) {
        while !done() {
            let moved = self.step();
            assert!(moved || done(), "nothing is under way, yet it is not done");
        }
    }

    /// Rounds until nothing is under way.
    pub(crate) fn settle(&self) {
        while self.step() {}
    }

    /// Rounds until the request is complete; its status.
    #[track_caller]
    pub(crate) fn finish(&self, rank: usize, id: RequestId) -> OpStatus {
        self.until(|| self.workers[rank].is_complete(id));
        self.workers[rank].wait(id)
    }
}

/// Bytes that differ by place and by `seed`.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}
