//! The contract's suite, whole, over one and two simulated networks, over three that misbehave, over two
//! interfaces of sockets, and in two layers.

use bowline_model::transport::TransportCosts;
use bowline_multirail::{MultiRail, Rail};
use bowline_sim::{Drive, Faults, Network, NetworkOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_uct::Iface;
use bowline_uct::conformance::{Exclusion, Provider};

use super::{options, rails};

/// Left out where space comes otherwise than with the sender's progress alone.
pub(super) const IN_ORDER: Exclusion = Exclusion {
    test: "flow::writable_in_order_of_asking",
    reason: "space comes with the peers' acknowledgements, which arrive when their hosts send them",
};

macro_rules! sim_form {
    ($module:ident, $name:literal, $count:expr, $open:path, $excluded:expr, $options:expr) => {
        mod $module {
            use super::*;

            struct Form(Vec<(Network, NetworkOptions)>);

            impl Provider for Form {
                type Iface = MultiRail;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;
                const EXCLUDED: &'static [Exclusion] = $excluded;

                fn open(size: usize) -> (Self, Vec<MultiRail>) {
                    let network = |seed| {
                        let mut options =
                            NetworkOptions { drive: Drive::OnIdle, seed, ..options() };
                        let change: fn(&mut NetworkOptions) = $options;
                        change(&mut options);
                        (Network::new(options.clone()), options)
                    };
                    let networks: Vec<_> = (0..$count).map(network).collect();
                    let ifaces = (0..size).map(|i| $open(&networks, i as u64 + 1)).collect();
                    (Self(networks), ifaces)
                }

                fn kill(&mut self, index: usize, iface: MultiRail) {
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

/// Two layers: the two transports of each member have a network each.
fn nested(networks: &[(Network, NetworkOptions)], uid: u64) -> MultiRail {
    let inner = |(network, at): (&(Network, NetworkOptions), u64)| Rail {
        costs: TransportCosts::assumed(MultiRail::PROVIDER, true),
        iface: Box::new(rails(std::slice::from_ref(network), uid << 8 | at)),
    };
    let all = networks.iter().zip(1..).map(inner).collect();
    MultiRail::open(all, uid).expect("they carry messages")
}

sim_form!(two, "multirail over two networks", 2, rails, &[], |_| ());
sim_form!(one, "multirail over one network", 1, rails, &[], |_| ());
sim_form!(layered, "multirail over multirail over networks", 2, nested, &[IN_ORDER], |_| ());
sim_form!(stormy, "multirail over three networks with faults", 3, rails, &[], |options| {
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

/// Two interfaces of sockets for each member, over loopback.
struct Sockets;

impl Provider for Sockets {
    type Iface = MultiRail;
    const NAME: &'static str = "multirail over two interfaces of sockets";
    const EXCLUDED: &'static [Exclusion] = &[IN_ORDER];

    fn open(size: usize) -> (Self, Vec<MultiRail>) {
        (Self, over_sockets(size))
    }
}

/// Members with two interfaces of sockets each.
pub(super) fn over_sockets(size: usize) -> Vec<MultiRail> {
    let rail = |_| {
        let options = TcpOptions::with_secret([7; 32]);
        let iface: Box<dyn Iface> = Box::new(TcpIface::open(options).expect("loopback is up"));
        Rail { costs: TransportCosts::assumed("tcp", true), iface }
    };
    let member =
        |i| MultiRail::open((0..2).map(rail).collect(), i as u64 + 1).expect("they carry messages");
    (0..size).map(member).collect()
}

mod sockets {
    use super::Sockets;

    bowline_uct::conformance!(Sockets);
}
