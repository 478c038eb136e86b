//! Workers on a simulated network, all driven by one thread, for tests of the life of connections.

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_receive_queue::with_messages;
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::{
    Envelope, Ep, MatchSpec, OpError, OpStatus, RequestId, SendMode, Sent, SpaceOptions, Waiter,
    Worker, WorkerParts,
};

use crate::doubles::Never;

/// Receives anything.
pub(crate) const ANY: MatchSpec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };

/// Workers of one network.
pub(crate) struct Sides {
    pub(crate) network: Network,
    pub(crate) workers: Vec<Worker>,
}

impl Sides {
    pub(crate) fn new(count: u32, options: NetworkOptions, settings: &[(&str, &str)]) -> Self {
        Self::waiting(count, options, settings, |network| Box::new(Never(Some(network.clone()))))
    }

    pub(crate) fn waiting(
        count: u32,
        options: NetworkOptions,
        settings: &[(&str, &str)],
        waiter: impl Fn(&Network) -> Box<dyn Waiter>,
    ) -> Self {
        let network = Network::new(options);
        let tables = [bowline_ucp::SETTINGS, bowline_receive_queue::SETTINGS];
        let config = Config::from_pairs(settings.iter().copied(), &tables);
        let config = config.expect("the settings are good");
        let worker = |rank: u32| {
            let uid = u64::from(rank) + 1;
            let lane = with_messages(Box::new(network.open()), &config, uid);
            let parts = WorkerParts {
                job: 1,
                rank,
                incarnation: 0,
                uid,
                lanes: vec![lane.expect("a network has messages, or what queues need")],
                waiter: waiter(&network),
                failures: None,
                config: config.clone(),
            };
            let worker = Worker::new(parts).expect("one lane is enough");
            worker.open_space(0, SpaceOptions::default()).expect("space 0 is new");
            worker
        };
        let workers = (0..count).map(worker).collect();
        Self { network, workers }
    }

    pub(crate) fn connect(&self, from: usize, to: usize) -> Ep {
        self.workers[from].connect(&self.workers[to].address()).expect("they reach each other")
    }

    /// One poll of every worker, and a step of time if nobody found anything.
    pub(crate) fn round(&self) -> bool {
        let events: u32 = self.workers.iter().map(Worker::progress).sum();
        events > 0 || self.network.advance()
    }

    pub(crate) fn rounds(&self, count: u32) {
        for _ in 0..count {
            self.round();
        }
    }

    #[track_caller]
    pub(crate) fn until(&self, done: impl Fn() -> bool) {
        let mut idle = 0;
        while !done() {
            // Some things are checked every so many polls only.
            idle = if self.round() { 0 } else { idle + 1 };
            assert!(idle < 200 || done(), "nothing is under way, yet it is not done");
        }
    }

    /// Waits for a request without blocking.
    #[track_caller]
    pub(crate) fn end(&self, worker: usize, sent: Result<Sent, OpError>) -> OpStatus {
        match sent.expect("it begins") {
            Sent::Done => OpStatus { source: 0, tag: 0, length: 0, outcome: Ok(()) },
            Sent::Pending(id) => {
                self.until(|| self.workers[worker].is_complete(id));
                self.workers[worker].take(id).expect("it is complete")
            }
        }
    }

    pub(crate) fn send(
        &self,
        from: usize,
        ep: Ep,
        bytes: Vec<u8>,
        mode: SendMode,
    ) -> Result<Sent, OpError> {
        let envelope = Envelope { space: 0, source: from as u32, tag: 7 };
        self.workers[from].send(ep, envelope, SendBuf::owned(bytes), mode)
    }

    pub(crate) fn recv(&self, at: usize, len: usize) -> RequestId {
        self.workers[at].recv(ANY, RecvBuf::owned(vec![0; len])).expect("space 0 is open")
    }
}
