//! Several transports as one: the contract's suite over them, what a split read takes, what a flush
//! promises, what is left of peers that have gone, and, in the guest, reads by RDMA devices. Messages that are under way when a path dies are in ucp's tests, whose protocols they need.

mod devices;
mod flush;
mod returns;
mod striping;
mod suite;

use bowline_model::transport::{CostOrigin, Figure, TransportCosts};
use bowline_multirail::{MultiRail, Rail};
use bowline_sim::{Network, NetworkOptions};
use bowline_uct::Iface;

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
fn costs(iface: &dyn Iface, options: &NetworkOptions) -> TransportCosts {
    let mut costs = TransportCosts::assumed(iface.attr().provider, true);
    let figure = |value| Figure { value, origin: CostOrigin::Calibrated };
    costs.get.pipelining = figure(2.0 * options.latency_ns as f64);
    costs.get.required = figure(2.0 * options.gap_ns as f64);
    costs.get.per_byte = figure(options.byte_ps as f64 / 1000.0);
    costs
}

/// An interface of each network, together.
fn rails(networks: &[(Network, NetworkOptions)], uid: u64) -> MultiRail {
    let open = |(network, options): &(Network, NetworkOptions)| {
        let iface: Box<dyn Iface> = Box::new(network.open());
        Rail { costs: costs(&*iface, options), iface }
    };
    MultiRail::open(networks.iter().map(open).collect(), uid).expect("they carry messages")
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
