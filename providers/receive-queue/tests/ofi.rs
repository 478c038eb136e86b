//! Receive queues over libfabric, whose own messages were taken away: the contract's suite over them, in
//! every form of queue (SCMP alone is in that with rings) and over the providers that every machine has, with libfabric's atomics and with
//! those that the target serves.
//!
//! The providers do what the queues have to be ready for in other ways than the simulator does:
//! operations are answered late, refused for a while, and done by other threads and processes.

use std::sync::OnceLock;

use super::bare::{Dead, WithoutMessages};
use bowline_ofi::{Atomics, OfiIface, OfiOptions};
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_uct::conformance::{Exclusion, Provider};

fn options(provider: &str, atomics: Atomics, wakeup: bool) -> OfiOptions {
    let mut options = OfiOptions::default();
    options.provider = Some(provider.to_owned());
    options.atomics = atomics;
    options.wakeup = wakeup;
    options
}

macro_rules! form {
    ($module:ident, $provider:literal, $form:ident, $atomics:ident) => {
        form!($module, $provider, $form, $atomics, false, &[]);
    };
    ($module:ident, $provider:literal, $form:ident, $atomics:ident, $wakeup:expr, $excluded:expr) => {
        mod $module {
            use super::*;

            struct Form(Vec<Dead>);

            impl Form {
                fn options() -> OfiOptions {
                    options($provider, Atomics::$atomics, $wakeup)
                }
            }

            impl Provider for Form {
                type Iface = QueueLane;
                const NAME: &'static str = concat!(
                    stringify!($form),
                    " over ofi, ",
                    $provider,
                    ", ",
                    stringify!($atomics)
                );
                const CAN_KILL: bool = true;
                const EXCLUDED: &'static [Exclusion] = $excluded;

                fn unavailable() -> Option<String> {
                    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
                    let open = || OfiIface::open(Self::options()).err().map(|e| e.to_string());
                    KNOWN.get_or_init(open).clone()
                }

                fn open(size: usize) -> (Self, Vec<QueueLane>) {
                    let queue =
                        QueueOptions { form: QueueForm::$form, slots: 64, peers: 16, rings: 2 };
                    let open = |number| {
                        let inner = OfiIface::open(Self::options()).expect("it opened before");
                        let (bare, dead) = WithoutMessages::mortal(inner, OfiIface::crash);
                        let lane = QueueLane::open(Box::new(bare), &queue, number);
                        (dead, lane.expect("the transport has all it needs"))
                    };
                    let (dead, lanes) = (0..size as u64).map(open).unzip();
                    (Self(dead), lanes)
                }

                fn kill(&mut self, index: usize, lane: QueueLane) {
                    *self.0[index].lock().expect("no panic beside") = true;
                    drop(lane);
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

/// With rings nothing that a peer has to answer comes before a put.
const PUTS_TO_THE_DEAD: &[Exclusion] = &[Exclusion {
    test: "failure::closed_peers_are_noticed",
    reason: "libfabric's shm (1.17) takes the answers to puts in the order of the puts, so that none comes any \
             more behind a put to a peer that has closed",
}];

form!(tcp_rings, "tcp", ScmpRings, Auto);
form!(tcp_rings_served, "tcp", ScmpRings, Emulated);

// Through memory the target always serves them.
form!(shm_seq, "shm", ScmpSeq, Auto);

/// The other forms over the other providers, which `cargo xtask test --full` runs.
mod product {
    use super::*;

    form!(tcp_seq, "tcp", ScmpSeq, Auto);
    form!(tcp_ring, "tcp", Ring, Auto);
    form!(shm_rings, "shm", ScmpRings, Auto);
    form!(shm_ring, "shm", Ring, Auto, false, PUTS_TO_THE_DEAD);
}
