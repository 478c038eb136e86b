//! What a worker tells of its choices: which lane leads to a peer and why not another, and which
//! protocol a message of a size takes there and what that is predicted to cost.

use bowline_model::transport::TransportCosts;

use crate::address::WorkerAddress;
use crate::engine::Counters;
use crate::error::ConnectError;
use crate::proto::{Op, Table, coop, eager, fragments, get, one_sided, put, rtr};
use crate::worker::{Inner, Worker};

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

/// What a worker was asked to report at its end.
#[derive(Default)]
pub(crate) struct AtEnd(pub(crate) Option<EndReport>);

impl std::fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AtEnd").field(&self.0.is_some()).finish()
    }
}

/// What is known of a lane's costs, and what follows.
#[derive(Clone, Debug)]
pub struct LaneChoices {
    /// The provider.
    pub provider: &'static str,
    /// The figures.
    pub costs: TransportCosts,
    /// For each operation the protocols by size.
    pub tables: Vec<(Op, Table)>,
}

/// How often a protocol was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Which side counts: `sent` messages, those `received` that had been offered, `one-sided`
    /// operations.
    pub side: &'static str,
    /// The protocol.
    pub protocol: &'static str,
    /// Messages, or operations.
    pub count: u64,
}

impl Counters {
    /// Which protocol carried how many messages and operations; those that carried none are left out.
    /// Offered messages are counted by their receivers, who choose how they come.
    pub fn protocols(&self) -> Vec<Used> {
        let shorts = self.sent_short + self.am_short + self.stream_short;
        // Both kinds are counted as fetched too, when they are complete.
        let read = self.fetched.saturating_sub(self.mapped + self.shared);
        let all = [
            ("sent", eager::SHORT.name, shorts),
            ("sent", eager::BCOPY.name, self.sent_bcopy),
            ("sent", eager::ZCOPY.name, self.sent_zcopy),
            ("sent", eager::MULTI.name, self.sent_multi),
            ("sent", "rndv", self.sent_rndv),
            ("sent", rtr::RTR.name, self.sent_rtr),
            ("received", get::GET.name, read),
            ("received", coop::COOP.name, self.shared),
            ("received", "rndv/mapped", self.mapped),
            ("received", put::PUT.name, self.landed),
            ("received", fragments::FRAGMENTS.name, self.copied),
            ("one-sided", one_sided::PUT_SHORT.name, self.put_short),
            ("one-sided", one_sided::PUT_ZCOPY.name, self.put_zcopy),
            ("one-sided", one_sided::GET_ZCOPY.name, self.get_zcopy),
            ("one-sided", one_sided::ATOMIC.name, self.atomics),
            ("one-sided", "by the owner", self.emulated),
        ];
        let used = all.into_iter().filter(|(.., count)| *count > 0);
        used.map(|(side, protocol, count)| Used { side, protocol, count }).collect()
    }
}

/// What is called when a worker ends.
pub type EndReport = Box<dyn FnOnce(&Counters) + Send>;

impl Worker {
    /// Has `report` called with the worker's counters at its end, in place of the one before.
    pub fn at_end(&self, report: EndReport) {
        self.inner.borrow_mut().at_end = AtEnd(Some(report));
    }

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

    /// Says whether the ranks of this machine share processors; if nobody does, they do not. Where they do,
    /// no message goes in pieces to a receiver that can read it at once: pieces beyond what its memory has room
    /// for would want its processor again and again.
    pub fn share_processors(&self, oversubscribed: bool) {
        let Inner { lanes, engine, .. } = &mut *self.inner.borrow_mut();
        let protocols = &engine.protocols.all;
        lanes.iter_mut().for_each(|lane| lane.choose(protocols, oversubscribed));
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
