//! Two workers on a simulated network, driven by one thread.

use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{Ep, OpStatus, RequestId, SpaceOptions, Worker};

use crate::doubles::{config, joined, opened, parts, step, until};

pub(crate) struct Pair {
    pub(crate) network: Network,
    pub(crate) workers: [Worker; 2],
    pub(crate) eps: [Ep; 2],
}

impl Pair {
    pub(crate) fn new(options: NetworkOptions, settings: &[(&str, &str)]) -> Self {
        let network = Network::new(options);
        let config = config(settings);
        let workers = [0, 1].map(|rank| {
            opened(parts(rank, Box::new(network.open()), &config), 0, SpaceOptions::default())
        });
        let eps = joined(&workers);
        Self { network, workers, eps }
    }

    /// One round: both progress, and time moves on when neither had anything to do. Whether
    /// anything happened.
    pub(crate) fn step(&self) -> bool {
        step(&self.network, &self.workers)
    }

    /// Rounds until `done`.
    #[track_caller]
    pub(crate) fn until(&self, done: impl Fn() -> bool) {
        until(&self.network, &self.workers, done);
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
