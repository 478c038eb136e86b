//! Which lane leads to a peer, and the polls of all that are in use.

use bowline_uct::{EpId, OpenError};

use super::{Inner, LaneSink};
use crate::address::WorkerAddress;
use crate::error::ConnectError;
use crate::lanes::{BUDGET, Lane};

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

    /// Has `lane` polled by every progress.
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

    /// Polls some of the lanes, however long they were silent.
    pub(crate) fn poll_some(&mut self, these: impl Fn(&Lane) -> bool) -> u32 {
        let mut events = 0;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.polled && these(lane) {
                let mut sink = LaneSink { engine: &mut self.engine, lane: index };
                events += lane.iface.progress(&mut sink, BUDGET);
            }
        }
        events
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
                lane.rest.polled_with(found);
            }
        }
        events
    }
}
