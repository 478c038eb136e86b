//! Several transports as one: the contract's suite over them, what a split read takes, messages that
//! are under way when a path dies, and what a flush promises.

mod deaths;
mod flush;
mod memory;
mod striping;
mod suite;

use bowline_base::job::{JobMemory, JobSpec};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_sim::{Network, NetworkOptions};
use bowline_ucp::cost::{Figure, LaneCosts, Origin};
use bowline_ucp::rails::{Rail, Rails};
use bowline_uct::{Face, Iface, twofold};

/// A network that lends memory to reads, as sockets and network cards do.
fn options() -> NetworkOptions {
    NetworkOptions {
        exposes: true,
        answers_queue: true,
        whole_process: false,
        ..NetworkOptions::default()
    }
}

/// What reading by a network like this costs.
fn costs(iface: &dyn Iface, options: &NetworkOptions) -> LaneCosts {
    let mut costs = LaneCosts::assumed(iface.attr());
    let figure = |value| Figure { value, origin: Origin::Calibrated };
    costs.get.pipelining = figure(2.0 * options.latency_ns as f64);
    costs.get.required = figure(2.0 * options.gap_ns as f64);
    costs.get.per_byte = figure(options.byte_ps as f64 / 1000.0);
    costs
}

/// An interface of each network, together.
fn rails(networks: &[(Network, NetworkOptions)], uid: u64) -> Rails {
    Rails::open(rail_each(networks), uid).expect("they carry messages")
}

fn rail_each(networks: &[(Network, NetworkOptions)]) -> Vec<Rail> {
    let open = |(network, options): &(Network, NetworkOptions)| {
        let iface: Box<dyn Iface> = Box::new(network.open());
        Rail { costs: costs(&*iface, options), iface }
    };
    networks.iter().map(open).collect()
}

/// A node for `ranks` thread ranks.
fn node(ranks: usize, options: &ShmOptions) -> JobMemory {
    let area_bytes = options.area_bytes();
    let spec = JobSpec { job_id: 1, ranks: ranks as u32, first_rank: 0, area_bytes };
    JobMemory::create_private(&spec).expect("memory for a test")
}

/// Shared memory as a path, and the lane that it is beside that.
fn memory(job: &JobMemory, local: u32, options: &ShmOptions) -> (Rail, Face) {
    let mut options = options.clone();
    options.exposes = true;
    let shm = ShmIface::open(job.clone(), local, options).expect("a fresh rank");
    let (path, lane) = twofold(Box::new(shm), Rails::is_theirs);
    (Rail { costs: LaneCosts::assumed(path.attr()), iface: Box::new(path) }, lane)
}

/// Shared memory and an interface of each network, together, with memory at `place` among them.
fn with_memory(
    (path, lane): (Rail, Face),
    networks: &[(Network, NetworkOptions)],
    place: usize,
    uid: u64,
) -> (Rails, Face) {
    let mut all = rail_each(networks);
    all.insert(place, path);
    (Rails::open(all, uid).expect("they carry messages"), lane)
}

/// Time passes for all networks together. `false` when nothing is under way on any.
fn advance(networks: &[(Network, NetworkOptions)]) -> bool {
    let next = networks.iter().filter_map(|(network, _)| network.next_event()).min();
    if let Some(next) = next {
        networks.iter().for_each(|(network, _)| network.pass_until(next));
    }
    next.is_some()
}

/// Bytes that differ by place and by `seed`.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |i: usize| (i as u64 ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..len).map(|i| word(i) as u8).collect()
}
