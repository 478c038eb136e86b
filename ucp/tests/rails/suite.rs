//! The contract's suite, whole, over one and two simulated networks, over three that misbehave, and over
//! two interfaces of sockets.

use bowline_model::transport::TransportCosts;
use bowline_sim::{Drive, Faults, Network, NetworkOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::rails::{Rail, Rails};
use bowline_uct::Iface;
use bowline_uct::conformance::{Exclusion, Provider};

use super::{options, rails};

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
        Rail { costs: TransportCosts::assumed("tcp", true), iface }
    };
    let member =
        |i| Rails::open((0..2).map(rail).collect(), i as u64 + 1).expect("they carry messages");
    (0..size).map(member).collect()
}

mod sockets {
    use super::Sockets;

    bowline_uct::conformance!(Sockets);
}
