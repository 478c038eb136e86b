//! What a call of a worker borrows: its lanes and its engine, and what only some calls need.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_base::doorbell::WakeSet;
use bowline_uct::EpId;

use super::{BackgroundWork, Engine};
use crate::book::Book;
use crate::cm::Introductions;
use crate::lanes::Lane;
use crate::peer::KeyUse;
use crate::state::counters::AtEnd;
use crate::state::keepalive::Rounds;
use crate::state::wakeup::Wakeup;
use crate::wait::FailureSource;

/// What a call borrows.
pub(crate) struct Inner {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) engine: Engine,
    pub(crate) own_address: Vec<u8>,
    pub(crate) failures: Option<Box<dyn FailureSource>>,
    pub(crate) failure_generation: u32,
    pub(crate) polls: u32,
    /// The one lane to poll, where there is just one.
    pub(crate) only: Option<usize>,
    /// Open keys of peers' memory by the transport's endpoint that they were opened for.
    pub(crate) keys_open: HashMap<(usize, EpId), KeyUse>,
    /// Asking after silent peers.
    pub(crate) rounds: Rounds,
    /// What only sleepers need.
    pub(crate) wakeup: Wakeup,
    /// Where addresses of peers are that nobody has talked to yet.
    pub(crate) book: Book,
    /// Requests by socket address.
    pub(crate) introductions: Introductions,
    /// What is reported of it at its end.
    pub(crate) at_end: AtEnd,
    /// What a progress thread moves on beside the lanes.
    pub(crate) background: Option<Arc<dyn BackgroundWork>>,
    /// What to sleep on; made at the first sleep, and anew when another lane is polled.
    pub(crate) descriptors: Option<Arc<WakeSet>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(report) = self.at_end.0.take() {
            let counters = self.engine.counted();
            let peers = 0..self.engine.peers.len() as u32;
            let of = |index: u32| {
                let rank = self.engine.peers[index as usize].address.rank;
                self.engine.estimates(index).into_iter().map(move |estimate| (rank, estimate))
            };
            report(&counters, &peers.flat_map(of).collect::<Vec<_>>());
        }
        self.leak_written_buffers();
    }
}
