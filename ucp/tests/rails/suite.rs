//! The contract's suite, whole, over two simulated networks, over three that misbehave, over two
//! interfaces of sockets, and over shared memory beside each.

use bowline_base::job::JobMemory;
use bowline_shm::ShmOptions;
use bowline_sim::{Drive, Faults, Network, NetworkOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::cost::LaneCosts;
use bowline_ucp::rails::{Rail, Rails};
use bowline_uct::Iface;
use bowline_uct::conformance::{Exclusion, Provider};

use super::{memory, node, options, rails, with_memory};

macro_rules! sim_form {
    ($module:ident, $name:literal, $count:expr, $options:expr) => {
        mod $module {
            use super::*;

            struct Form(Vec<(Network, NetworkOptions)>);

            impl Provider for Form {
                type Iface = Rails;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;

                fn open(size: usize) -> (Self, Vec<Rails>) {
                    let network = |seed| {
                        let mut options =
                            NetworkOptions { drive: Drive::OnIdle, seed, ..options() };
                        let change: fn(&mut NetworkOptions) = $options;
                        change(&mut options);
                        (Network::new(options.clone()), options)
                    };
                    let networks: Vec<_> = (0..$count).map(network).collect();
                    let ifaces = (0..size).map(|i| rails(&networks, i as u64 + 1)).collect();
                    (Self(networks), ifaces)
                }

                fn kill(&mut self, index: usize, iface: Rails) {
                    self.0.iter().for_each(|(network, _)| network.kill(index as u32));
                    drop(iface);
                }

                fn step(&mut self) {
                    for (network, _) in &self.0 {
                        network.advance();
                    }
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

sim_form!(two, "rails over two networks", 2, |_| ());
sim_form!(one, "rails over one network", 1, |_| ());
sim_form!(stormy, "rails over three networks with faults", 3, |options| {
    options.jitter_ns = 30_000;
    options.outstanding = 2;
    options.faults = Faults {
        loss: 100_000,
        retransmit_ns: 20_000,
        duplicate: 100_000,
        reorder: 200_000,
        reorder_ns: 50_000,
    };
    options.detect_jitter_ns = 100_000;
});

const ORDER: &str = "room comes with the peers' acknowledgements, which arrive when their hosts send \
                     them";

/// Two interfaces of sockets for each member, over loopback.
struct Sockets;

impl Provider for Sockets {
    type Iface = Rails;
    const NAME: &'static str = "rails over two interfaces of sockets";
    const EXCLUDED: &'static [Exclusion] =
        &[Exclusion { test: "flow::writable_in_order_of_asking", reason: ORDER }];

    fn open(size: usize) -> (Self, Vec<Rails>) {
        (Self, over_sockets(size))
    }
}

/// Members with two interfaces of sockets each.
pub(super) fn over_sockets(size: usize) -> Vec<Rails> {
    let rail = |_| {
        let options = TcpOptions::with_secret([7; 32]);
        let iface: Box<dyn Iface> = Box::new(TcpIface::open(options).expect("loopback is up"));
        Rail { costs: LaneCosts::assumed(iface.attr()), iface }
    };
    let member =
        |i| Rails::open((0..2).map(rail).collect(), i as u64 + 1).expect("they carry messages");
    (0..size).map(member).collect()
}

/// A node whose ranks have shared memory and something else together. The lanes beside are closed, so that
/// a member that is dropped has left its node.
struct Node {
    job: JobMemory,
    networks: Vec<(Network, NetworkOptions)>,
}

/// A kill: queues and words stay as they are, and the launcher tells the others.
fn kill(node: &Node, index: usize, iface: Rails) {
    std::mem::forget(iface);
    node.networks.iter().for_each(|(network, _)| network.kill(index as u32));
    node.job.mark_dead(index as u32);
}

macro_rules! memory_form {
    ($module:ident, $name:literal, $count:expr, $place:expr, $sim:expr, $shm:expr) => {
        mod $module {
            use super::*;

            struct Form(Node);

            impl Provider for Form {
                type Iface = Rails;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;
                const EXCLUDED: &'static [Exclusion] =
                    &[Exclusion { test: "flow::writable_in_order_of_asking", reason: ORDER }];

                fn open(size: usize) -> (Self, Vec<Rails>) {
                    let network = |seed| {
                        let mut options =
                            NetworkOptions { drive: Drive::OnIdle, seed, ..options() };
                        let change: fn(&mut NetworkOptions) = $sim;
                        change(&mut options);
                        (Network::new(options.clone()), options)
                    };
                    let networks: Vec<_> = (0..$count).map(network).collect();
                    let mut shm = ShmOptions::default();
                    let change: fn(&mut ShmOptions) = $shm;
                    change(&mut shm);
                    let job = node(size, &shm);
                    let one = |i| {
                        let memory = memory(&job, i as u32, &shm);
                        with_memory(memory, &networks, $place, i as u64 + 1).0
                    };
                    let ifaces = (0..size).map(one).collect();
                    (Self(Node { job, networks }), ifaces)
                }

                fn kill(&mut self, index: usize, iface: Rails) {
                    kill(&self.0, index, iface);
                }

                fn step(&mut self) {
                    for (network, _) in &self.0.networks {
                        network.advance();
                    }
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

memory_form!(memory_first, "rails over memory and a network", 1, 0, |_| (), |_| ());
memory_form!(memory_last, "rails over a network and memory", 1, 1, |_| (), |_| ());
memory_form!(memory_alone, "rails over memory", 0, 0, |_| (), |_| ());
memory_form!(
    memory_tiny,
    "rails over a network that refuses often and memory with small queues",
    1,
    1,
    |options| {
        options.jitter_ns = 30_000;
        options.outstanding = 2;
    },
    |options| {
        options.rings = 1;
        options.ring_slots = 8;
        options.scmp_slots = 16;
        options.max_bcopy = 512;
        options.ring_data = 4096;
        options.first_ring_data = 4096;
        options.promote_after = 1;
    }
);
memory_form!(
    memory_unread,
    "rails over memory that is not read and a network",
    1,
    0,
    |_| (),
    |options| options.cma = Some(false)
);

/// Memory and sockets, as ranks of one host have them.
struct MemoryAndSockets {
    _node: Node,
}

impl Provider for MemoryAndSockets {
    type Iface = Rails;
    const NAME: &'static str = "rails over memory and sockets";
    const EXCLUDED: &'static [Exclusion] =
        &[Exclusion { test: "flow::writable_in_order_of_asking", reason: ORDER }];

    fn open(size: usize) -> (Self, Vec<Rails>) {
        let shm = ShmOptions::default();
        let job = node(size, &shm);
        let one = |i| {
            let (path, _) = memory(&job, i as u32, &shm);
            let options = TcpOptions::with_secret([7; 32]);
            let tcp: Box<dyn Iface> = Box::new(TcpIface::open(options).expect("loopback is up"));
            let tcp = Rail { costs: LaneCosts::assumed(tcp.attr()), iface: tcp };
            Rails::open(vec![path, tcp], i as u64 + 1).expect("they carry messages")
        };
        let ifaces = (0..size).map(one).collect();
        (Self { _node: Node { job, networks: Vec::new() } }, ifaces)
    }
}

mod memory_and_sockets {
    use super::MemoryAndSockets;

    bowline_uct::conformance!(MemoryAndSockets);
}

mod sockets {
    use super::Sockets;

    bowline_uct::conformance!(Sockets);
}
