//! How workers on a simulated network wait, and how they learn of deaths.

use std::sync::Arc;

use bowline_sim::Network;
use bowline_ucp::{FailureSource, Idle, Stages, Waiter};

use super::scheduler::Scheduler;

/// No spinning and no yielding: another rank runs at once.
const NO_STAGES: Stages = Stages { spins: 0, yields: 0 };

/// Waits by letting the other ranks run.
#[derive(Debug)]
pub(super) struct SimulatedWaiter {
    scheduler: Arc<Scheduler>,
    rank: u32,
}

impl SimulatedWaiter {
    pub(super) const fn new(scheduler: Arc<Scheduler>, rank: u32) -> Self {
        Self { scheduler, rank }
    }
}

impl Waiter for SimulatedWaiter {
    fn stages(&self) -> Stages {
        NO_STAGES
    }

    fn yield_now(&mut self) {
        self.scheduler.poll(self.rank);
    }

    fn sleep(&mut self, idle: Idle<'_>) {
        self.scheduler.sleep(self.rank, || idle.waits.to_string());
    }
}

/// Waits by moving virtual time to the next event: for a worker that has its thread to itself, or
/// shares it with workers that need no progress meanwhile.
#[derive(Debug)]
pub struct NetworkWaiter(Network);

impl NetworkWaiter {
    /// Moves the time of `network`.
    pub const fn new(network: Network) -> Self {
        Self(network)
    }
}

impl Waiter for NetworkWaiter {
    fn stages(&self) -> Stages {
        NO_STAGES
    }

    fn yield_now(&mut self) {}

    /// # Panics
    /// When nothing is under way in the network, so that what is waited for never comes.
    fn sleep(&mut self, idle: Idle<'_>) {
        assert!(
            self.0.advance(),
            "nothing is under way in the simulated network, yet a worker waits for: {}",
            idle.waits
        );
    }
}

/// The deaths that the network has reported to a rank.
#[derive(Debug)]
pub(super) struct Deaths {
    network: Network,
    rank: u32,
}

impl Deaths {
    pub(super) const fn new(network: Network, rank: u32) -> Self {
        Self { network, rank }
    }
}

impl FailureSource for Deaths {
    fn generation(&self) -> u32 {
        self.network.failure_generation(self.rank)
    }

    fn dead(&self, out: &mut Vec<u32>) {
        // Interfaces are opened in order of rank.
        out.extend(self.network.failures(self.rank));
    }
}
