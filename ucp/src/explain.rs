//! What a worker tells of its choices: which lane leads to a peer and why not another, and which
//! protocol a message of a size takes there and what that is predicted to cost.

use crate::address::WorkerAddress;
use crate::cost::LaneCosts;
use crate::error::ConnectError;
use crate::proto::{Op, Table};
use crate::worker::Worker;

/// Which lane carries messages to a peer, and why not the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneReport {
    /// The provider.
    pub provider: &'static str,
    /// `Ok(true)`: chosen. `Ok(false)`: it could, another is preferred. `Err`: why it cannot.
    pub verdict: Result<bool, String>,
    /// What the provider had to choose from, in words; empty where there is nothing to choose.
    pub ways: Vec<String>,
}

/// What is known of a lane's costs, and what follows.
#[derive(Clone, Debug)]
pub struct LaneChoices {
    /// The provider.
    pub provider: &'static str,
    /// The figures.
    pub costs: LaneCosts,
    /// For each operation the protocols by size.
    pub tables: Vec<(Op, Table)>,
}

impl Worker {
    /// The lanes to a peer with this address: the chosen one, and why not the others.
    ///
    /// # Errors
    /// When the address is damaged.
    pub fn explain(&self, address: &[u8]) -> Result<Vec<LaneReport>, ConnectError> {
        let parsed = WorkerAddress::parse(address)?;
        let inner = self.inner.borrow();
        let mut chosen = false;
        let reports = inner.lanes.iter().map(|lane| {
            let provider = lane.iface.attr().provider;
            let verdict = lane.reaches(&parsed).map(|_| !std::mem::replace(&mut chosen, true));
            let ways = lane.theirs(&parsed).map(|address| lane.iface.explain(address));
            LaneReport { provider, verdict, ways: ways.unwrap_or_default() }
        });
        Ok(reports.collect())
    }

    /// The lanes' costs, and the protocols by size that are the cheapest for them.
    pub fn choices(&self) -> Vec<LaneChoices> {
        let inner = self.inner.borrow();
        let of = |lane: &crate::lanes::Lane| LaneChoices {
            provider: lane.iface.attr().provider,
            costs: lane.choices.costs,
            tables: Op::ALL.iter().map(|&op| (op, lane.choices.of(op).clone())).collect(),
        };
        inner.lanes.iter().map(of).collect()
    }
}
