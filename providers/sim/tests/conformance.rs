//! The contract's suite over several forms of network: without faults, with every fault that a
//! reliable link hides, with queues so small that every limit is met, and without order.

use bowline_sim::{Drive, Faults, LinkMode, Network, NetworkOptions, SimIface};
use bowline_uct::conformance::{Exclusion, Provider};

fn faults() -> Faults {
    Faults {
        loss: 100_000,
        retransmit_ns: 20_000,
        duplicate: 100_000,
        reorder: 200_000,
        reorder_ns: 50_000,
    }
}

macro_rules! form {
    ($module:ident, $name:literal, $options:expr) => {
        form!($module, $name, $options, &[]);
    };
    ($module:ident, $name:literal, $options:expr, $excluded:expr) => {
        mod $module {
            use super::*;

            struct Form(Network);

            impl Provider for Form {
                type Iface = SimIface;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;
                const EXCLUDED: &'static [Exclusion] = $excluded;

                fn open(size: usize) -> (Self, Vec<SimIface>) {
                    let mut options =
                        NetworkOptions { drive: Drive::OnIdle, ..NetworkOptions::default() };
                    let change: fn(&mut NetworkOptions) = $options;
                    change(&mut options);
                    let network = Network::new(options);
                    let ifaces = (0..size).map(|_| network.open()).collect();
                    (Self(network), ifaces)
                }

                fn kill(&mut self, index: usize, iface: SimIface) {
                    self.0.kill(index as u32);
                    drop(iface);
                }

                fn step(&mut self) {
                    self.0.advance();
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

form!(calm, "sim", |_| ());
form!(stormy, "sim with faults", |options| {
    options.seed = 1;
    options.jitter_ns = 30_000;
    options.faults = faults();
    options.detect_jitter_ns = 100_000;
});
form!(tiny, "sim, small queues", |options| {
    options.seed = 2;
    options.jitter_ns = 3000;
    options.slots = 2;
    options.outstanding = 2;
    options.max_short = 16;
    options.max_bcopy = 256;
});
const OVERTAKEN: &str = "puts to one place overtake each other here unless a fence stands between \
                         them, and the test takes the last one posted for the last one seen";

form!(
    unordered,
    "sim, raw links that reorder",
    |options| {
        options.seed = 3;
        options.puts_ordered = false;
        options.link = LinkMode::Raw;
        options.jitter_ns = 30_000;
        options.faults = Faults { reorder: 300_000, reorder_ns: 100_000, ..Faults::default() };
        options.put_before_atomic = false;
        options.put_before_am = false;
    },
    &[
        Exclusion { test: "model::memory", reason: OVERTAKEN },
        Exclusion { test: "rma::flushed_puts_are_visible", reason: OVERTAKEN },
    ]
);
form!(two_sided, "sim without one-sided operations", |options| {
    options.one_sided = false;
});
