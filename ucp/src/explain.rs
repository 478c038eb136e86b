//! What a worker says of its choices: which lane leads to a peer and why not another, and which
//! protocol a message of a size takes there and what that is predicted to cost.

use bowline_model::transport::TransportCosts;

use crate::address::WorkerAddress;
use crate::engine::Inner;
use crate::error::{ConnectError, OpError};
use crate::measured;
use crate::peer::Ep;
use crate::proto::{any, coop, fragments, get, put, rtr};
use crate::protocol::{Conditions, Op, Table, eager, one_sided};
use crate::select::{FirstGuess, MeansEstimate};
use crate::state::counters::{AtEnd, Counters, EndReport};
use crate::worker::Worker;

/// Which lane carries messages to a peer, and why not the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneReport {
    /// The provider.
    pub provider: &'static str,
    /// `Ok(true)`: chosen. `Ok(false)`: it could, another is preferred. `Err`: why it cannot.
    pub verdict: Result<bool, String>,
    /// What the provider had to choose from, in words; empty where there is nothing to choose.
    pub choices: Vec<String>,
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
    /// How long messages begin that are measured there; empty where none are.
    pub first_guesses: Vec<FirstGuess>,
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
            ("sent", any::ANY.name, self.sent_any),
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
            let choices = lane.theirs(&parsed).map(|address| lane.iface.explain(address));
            LaneReport { provider, verdict, choices: choices.unwrap_or_default() }
        });
        Ok(reports.collect())
    }

    /// Says whether the ranks of this machine share processors; if nobody does, they do not. Where they do,
    /// no message goes in pieces to a receiver that can read it at once: pieces beyond what its memory has space
    /// for would want its processor again and again.
    pub fn share_processors(&self, oversubscribed: bool) {
        self.choose(|conditions| Conditions { oversubscribed, ..conditions });
    }

    /// Chooses among protocols anew, under other conditions.
    pub(crate) fn choose(&self, change: impl Fn(Conditions) -> Conditions) {
        {
            let Inner { lanes, engine, .. } = &mut *self.inner.borrow_mut();
            let protocols = &engine.protocols.all;
            lanes.iter_mut().for_each(|lane| lane.choose(protocols, &change));
            measured::prepare(&mut engine.meter, lanes, &engine.protocols);
        }
        self.choose_watched();
    }

    /// What was measured of long messages that came from a peer, where processors copy them; see `BOWLINE_SELECT`.
    ///
    /// # Errors
    /// When there is no such endpoint.
    pub fn estimates(&self, ep: Ep) -> Result<Vec<MeansEstimate>, OpError> {
        let inner = self.inner.borrow();
        let index = inner.engine.index_of(ep)?;
        Ok(inner.engine.estimates(index))
    }

    /// The lanes' costs, and the protocols by size that are the cheapest for them.
    pub fn choices(&self) -> Vec<LaneChoices> {
        let inner = self.inner.borrow();
        let of = |(at, lane): (usize, &crate::lanes::Lane)| LaneChoices {
            provider: lane.iface.attr().provider,
            costs: lane.choices.costs,
            tables: Op::ALL.iter().map(|&op| (op, lane.choices.of(op).clone())).collect(),
            first_guesses: inner.engine.first_guesses(at as u32, &lane.choices),
        };
        inner.lanes.iter().enumerate().map(of).collect()
    }
}
