//! Two workers in one thread over a transport of choice, or one that sends to itself.

use std::time::{Duration, Instant};

use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_self::{SelfConfig, SelfIface};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_sim::{Network, NetworkOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::{Ep, RequestId, Worker};
use bowline_uct::Iface;

use crate::doubles::{of_everybody, opened, parts};

/// The space of the tests.
pub(crate) const SPACE: u32 = 3;

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Itself,
    Shm,
    Tcp,
    /// A simulated network that reads a peer's whole memory, memory that was lent, or none.
    Sim {
        whole_process: bool,
        one_sided: bool,
    },
}

pub(crate) const TRANSPORTS: [Transport; 6] = [
    Transport::Itself,
    Transport::Shm,
    Transport::Tcp,
    Transport::Sim { whole_process: true, one_sided: true },
    Transport::Sim { whole_process: false, one_sided: true },
    Transport::Sim { whole_process: false, one_sided: false },
];

pub(crate) struct World {
    network: Option<Network>,
    _job: Option<JobMemory>,
    workers: Vec<Worker>,
    pub(crate) to: Ep,
    pub(crate) back: Ep,
}

impl World {
    pub(crate) fn new(transport: Transport, settings: &[(&str, &str)]) -> Self {
        let tables = [bowline_ucp::SETTINGS, bowline_self::SETTINGS];
        let config = Config::from_pairs(settings.iter().copied(), &tables);
        let config = config.expect("the settings are good");
        let (mut network, mut job) = (None, None);
        let lanes: Vec<Box<dyn Iface>> = match transport {
            Transport::Itself => {
                vec![Box::new(SelfIface::open(SelfConfig::of(&config)).expect("loopback opens"))]
            }
            Transport::Shm => {
                let options = ShmOptions::default();
                let area_bytes = options.area_bytes();
                let spec = JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes };
                let memory = JobMemory::create_private(&spec).expect("two ranks fit into memory");
                let open = |rank| -> Box<dyn Iface> {
                    memory.attach(rank).expect("the place is free");
                    let lane = ShmIface::open(memory.clone(), rank, options.clone());
                    Box::new(lane.expect("a fresh rank"))
                };
                let lanes = [0, 1].map(open).into_iter().collect();
                job = Some(memory);
                lanes
            }
            Transport::Tcp => [0, 1]
                .map(|_| -> Box<dyn Iface> {
                    let options = TcpOptions::with_secret([0x17; 32]);
                    Box::new(TcpIface::open(options).expect("loopback is there"))
                })
                .into_iter()
                .collect(),
            Transport::Sim { whole_process, one_sided } => {
                let options = NetworkOptions {
                    seed: 5,
                    whole_process,
                    one_sided,
                    ..NetworkOptions::default()
                };
                let net = network.insert(Network::new(options));
                vec![Box::new(net.open()), Box::new(net.open())]
            }
        };
        let workers: Vec<Worker> = (0..)
            .zip(lanes)
            .map(|(rank, lane)| opened(parts(rank, lane, &config), SPACE, of_everybody()))
            .collect();
        let last = workers.len() - 1;
        let to = workers[0].connect(&workers[last].address()).expect("they reach each other");
        let back = workers[last].connect(&workers[0].address()).expect("they reach each other");
        Self { network, _job: job, workers, to, back }
    }

    pub(crate) fn sender(&self) -> &Worker {
        &self.workers[0]
    }

    pub(crate) fn receiver(&self) -> &Worker {
        self.workers.last().expect("there is one")
    }

    /// Kills a rank of a simulated network.
    pub(crate) fn kill(&self, rank: usize) {
        self.network.as_ref().expect("it is simulated").kill(rank as u32);
    }

    pub(crate) fn step(&self) {
        let events: u32 = self.workers.iter().map(Worker::progress).sum();
        if events == 0
            && let Some(network) = &self.network
        {
            network.advance();
        }
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, done: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            self.step();
            assert!(Instant::now() < deadline, "never: {what}");
        }
    }

    #[track_caller]
    pub(crate) fn complete(&self, worker: &Worker, id: RequestId) {
        self.until("a request is complete", || worker.is_complete(id));
    }
}
