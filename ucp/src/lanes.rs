//! The lanes of a worker: which are looked at and how often, which one leads to a peer, and how
//! the worker sleeps on all of them.
//!
//! A look at shared memory is some loads; one at a network is a system call. Where a worker has
//! both, the network is left out of most looks once it has been silent for a while, so that
//! messages by memory do not wait for it.

use std::sync::Arc;
use std::time::Duration;

use bowline_base::doorbell::WakeSet;
use bowline_model::transport::TransportCosts;
use bowline_uct::{Caps, EpId, Iface, OpenError};

use crate::address::WorkerAddress;
use crate::engine::LaneSink;
use crate::error::ConnectError;
use crate::proto::coop::Cursors;
use crate::proto::{ALL, Choices, Conditions, Protocol, Range, eager};
use crate::worker::Inner;

/// Most events that one lane reports in one progress call.
pub(crate) const BUDGET: u32 = 64;

/// Looks without finding after which a lane whose looks cost system calls is left out once more in
/// each round. Other lanes must not wait for it, and it does not notice: a look of theirs is a
/// small part of one of its own.
const QUIET: u32 = 64;

/// Longest sleep of a worker on a network while somebody else may know of deaths.
pub(crate) const NEWS: Duration = Duration::from_millis(100);

/// Most looks that are left out in a row.
const MAX_REST: u32 = 32;

/// A lane of a worker.
pub(crate) struct Lane {
    pub(crate) iface: Box<dyn Iface>,
    pub(crate) loopback: bool,
    /// Whether progress looks at it.
    pub(crate) polled: bool,
    /// Whether it reaches other hosts: their messages ring no doorbell in memory, and a look costs a
    /// system call.
    inter_node: bool,
    /// Which protocols messages take.
    pub(crate) choices: Choices,
    /// Longest message that goes in one call of the transport whatever its kind; none with -1.
    pub(crate) at_once: i32,
    /// Cursors of messages that both sides copy; made for the first one.
    pub(crate) cursors: Option<Cursors>,
    pub(crate) rest: Rest,
}

/// How often a transport is looked at that costs a system call each time.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Looks in a row that found nothing.
    quiet: u32,
    /// Looks that are left out before the next.
    left: u32,
}

impl Rest {
    /// Whether this look is left out.
    #[inline]
    fn rests(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }

    /// Takes note of what a look found.
    #[inline]
    fn looked(&mut self, events: u32) {
        if events > 0 {
            return self.awaken();
        }
        self.quiet = self.quiet.saturating_add(1);
        self.left = (self.quiet / QUIET).min(MAX_REST);
    }

    /// The next look is taken.
    #[inline]
    pub(crate) fn awaken(&mut self) {
        (self.quiet, self.left) = (0, 0);
    }
}

impl Lane {
    pub(crate) fn new(
        iface: Box<dyn Iface>,
        costs: TransportCosts,
        conditions: Conditions,
    ) -> Self {
        let choices = Choices::new(ALL, iface.attr(), costs, conditions);
        let caps = iface.attr().caps;
        let loopback = caps.contains(Caps::LOOPBACK);
        let inter_node = caps.contains(Caps::INTER_NODE);
        let (polled, cursors) = (!loopback, None);
        let tables = [&choices.tag_send, &choices.am_send, &choices.stream_send];
        let ends = tables.map(|table| match table.ranges().first() {
            Some(Range { protocol, to, .. }) if **protocol == eager::SHORT => {
                i32::try_from(*to).unwrap_or(i32::MAX)
            }
            _ => -1,
        });
        let at_once = ends.into_iter().min().unwrap_or(-1);
        let rest = Rest::default();
        Self { iface, loopback, polled, choices, at_once, cursors, inter_node, rest }
    }

    /// Chooses among protocols anew, for ranks that share processors or do not.
    pub(crate) fn choose(&mut self, protocols: &[&'static Protocol], oversubscribed: bool) {
        let Choices { costs, conditions, .. } = self.choices;
        let conditions = Conditions { oversubscribed, ..conditions };
        self.choices = Choices::new(protocols, self.iface.attr(), costs, conditions);
    }

    /// Whether the lane reaches the peer; else why not.
    pub(crate) fn reaches<'a>(&self, peer: &'a WorkerAddress) -> Result<&'a [u8], String> {
        let theirs = self.theirs(peer).ok_or("the peer has no such transport")?;
        self.iface.reachable(theirs).map_err(|why| why.reason)?;
        Ok(theirs)
    }

    /// The peer's address on this transport.
    pub(crate) fn theirs<'a>(&self, peer: &'a WorkerAddress) -> Option<&'a [u8]> {
        let name = self.iface.attr().provider;
        let lane = peer.lanes.iter().find(|lane| lane.provider == name)?;
        Some(&lane.address)
    }
}

impl Inner {
    /// Makes an endpoint on the first lane that reaches the peer.
    pub(crate) fn route(&mut self, peer: &WorkerAddress) -> Result<(usize, EpId), ConnectError> {
        let mut reasons = Vec::new();
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            let name = lane.iface.attr().provider;
            let made = match lane.reaches(peer).map(|address| lane.iface.connect(address)) {
                Ok(Ok(ep)) => Ok(ep),
                Ok(Err(OpenError::PeerFailed(how))) => {
                    return Err(ConnectError::PeerFailed { rank: peer.rank, how });
                }
                Ok(Err(error)) => Err(error.to_string()),
                Err(reason) => Err(reason),
            };
            match made {
                Ok(ep) => {
                    self.poll_lane(index);
                    return Ok((index, ep));
                }
                Err(reason) => reasons.push(format!("{name}: {reason}")),
            }
        }
        Err(ConnectError::NoLane { rank: peer.rank, reasons })
    }

    pub(crate) fn disarm(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.polled && !lane.loopback) {
            lane.iface.disarm();
            lane.rest.awaken();
        }
        if let Some(signal) = self.wakeup.signal() {
            signal.disarm();
        }
        self.disarm_introducer();
    }

    /// Whether a lane is looked at whose peers do not ring the memory's doorbell.
    pub(crate) fn has_dear_lane(&self) -> bool {
        self.lanes.iter().any(|lane| lane.polled && lane.inter_node)
    }

    /// Adds what tells of a signal to what is slept on.
    fn add_signal(&self, all: &mut WakeSet) {
        let Some(signal) = self.wakeup.signal() else { return };
        let event = signal.event_fd();
        if let Err(error) = event.and_then(|event| all.add(event)) {
            tracing::warn!(%error, "no event descriptor for signals; sleeps are short");
            all.clear();
        }
    }

    /// What to sleep on beside the doorbell: nothing, where one lane is polled, whose peers ring it;
    /// else the event descriptor of each.
    pub(crate) fn descriptors(&mut self) -> Arc<WakeSet> {
        if let Some(known) = &self.descriptors {
            return Arc::clone(known);
        }
        let polled = |lane: &&mut Lane| lane.polled && !lane.loopback;
        let rings = |lane: &mut Lane| {
            let by_thread = lane.iface.attr().caps.contains(Caps::RUNG_BY_THREAD);
            !by_thread && lane.iface.doorbell().is_some()
        };
        let count = self.lanes.iter_mut().filter(polled).count();
        let alone = !self.wakeup.wants_descriptors()
            && !self.has_introducer()
            && count <= 1
            && self.lanes.iter_mut().filter(polled).all(rings);
        let mut all = WakeSet::default();
        for lane in self.lanes.iter_mut().filter(polled) {
            if alone || !lane.iface.attr().caps.contains(Caps::EVENT_FD) {
                continue;
            }
            let event = lane.iface.event_fd().map_err(|error| error.to_string());
            match event.and_then(|event| all.add(event).map_err(|error| error.to_string())) {
                Ok(()) => {}
                // Without it the worker would sleep through arrivals: it looks now and then.
                Err(error) => {
                    let provider = lane.iface.attr().provider;
                    tracing::warn!(provider, error, "no event descriptor; sleeps are short");
                    all.clear();
                    break;
                }
            }
        }
        if !alone {
            self.add_signal(&mut all);
            if !self.add_introducer(&mut all) {
                all.clear();
            }
        }
        let all = Arc::new(all);
        self.descriptors = Some(Arc::clone(&all));
        all
    }

    /// Has `lane` looked at by every progress.
    pub(crate) fn poll_lane(&mut self, lane: usize) {
        if !std::mem::replace(&mut self.lanes[lane].polled, true) {
            self.descriptors = None;
        }
        self.only = None;
        if self.lanes.iter().filter(|lane| lane.polled).count() == 1 {
            self.only = self.lanes.iter().position(|lane| lane.polled);
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self) -> u32 {
        if let Some(lane) = self.only {
            let mut sink = LaneSink { engine: &mut self.engine, lane };
            return self.lanes[lane].iface.progress(&mut sink, BUDGET);
        }
        self.poll_all()
    }

    fn poll_all(&mut self) -> u32 {
        let mut events = 0;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if !lane.polled || lane.inter_node && lane.rest.rests() {
                continue;
            }
            let mut sink = LaneSink { engine: &mut self.engine, lane: index };
            let found = lane.iface.progress(&mut sink, BUDGET);
            events += found;
            if lane.inter_node {
                lane.rest.looked(found);
            }
        }
        events
    }
}
