//! Receive queues where the transport's atomics are not coherent with the processor's: the
//! consumer flips by a connection to itself.

#[path = "queues/bare.rs"]
mod bare;

use bare::WithoutMessages;
use bowline_sim::{Drive, Network, NetworkOptions};
use bowline_ucp::queues::{QueueForm, QueueLane, QueueOptions};
use bowline_uct::Iface as _;
use bowline_uct::conformance::Provider;

macro_rules! form {
    ($module:ident, $name:literal, $form:expr) => {
        mod $module {
            use super::*;

            struct Form(Network);

            impl Provider for Form {
                type Iface = QueueLane;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;

                fn open(size: usize) -> (Self, Vec<QueueLane>) {
                    let options = NetworkOptions {
                        seed: 4,
                        jitter_ns: 5000,
                        drive: Drive::OnIdle,
                        ..NetworkOptions::default()
                    };
                    let network = Network::new(options);
                    let queue = QueueOptions { form: $form, slots: 64, peers: 16, rings: 2 };
                    let lanes = (0..size as u64).map(|number| {
                        let bare = WithoutMessages::with_device_atomics(network.open());
                        let lane =
                            QueueLane::open(Box::new(bare), &queue, number).expect("it opens");
                        assert!(lane.attr().caps.contains(bowline_uct::Caps::ATOMIC_DEVICE));
                        lane
                    });
                    let lanes = lanes.collect();
                    (Self(network), lanes)
                }

                fn kill(&mut self, index: usize, iface: QueueLane) {
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

form!(scmp, "queues over sim, flipped by the device", QueueForm::Scmp);
form!(ring, "rings over sim, atomics of the device", QueueForm::Ring);
form!(seq, "sealed queues over sim, flipped by the device", QueueForm::ScmpSeq);
form!(locked, "locked queues over sim, flipped by the device", QueueForm::Locked);
form!(scmp_rings, "queues with rings over sim, flipped by the device", QueueForm::ScmpRings);
