//! Receive queues over transports whose active messages were taken away: the contract's suite
//! over each of them, whole.

mod bare;
mod damage;
mod deaths;
mod device;
mod extents;
mod ofi;
mod promotion;
mod race;
mod worker;

use bare::WithoutMessages;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_receive_queue::{QueueForm, QueueLane, QueueOptions};
use bowline_self::{SelfConfig, SelfIface};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_sim::{Drive, Faults, Network, NetworkOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_uct::conformance::{Exclusion, Provider};
use bowline_uct::{Caps, Discard, Iface};

/// A lane over `inner`, of which nothing but its one-sided operations is left.
fn lane(inner: impl Iface + 'static, options: &QueueOptions, number: usize) -> QueueLane {
    let bare = WithoutMessages::new(inner);
    assert!(!bare.attr().caps.intersects(Caps::AM_SHORT | Caps::AM_BCOPY | Caps::AM_ZCOPY));
    QueueLane::open(Box::new(bare), options, number as u64).expect("the transport has all it needs")
}

/// Lets what was accepted leave before its lanes are dropped: in a drop nobody advances the network, so that
/// it would wait in vain, for seconds.
fn bring_out(network: &Network, lanes: &mut [QueueLane]) {
    for _ in 0..10_000 {
        if lanes.iter_mut().all(Iface::all_sent) {
            return;
        }
        for lane in lanes.iter_mut() {
            lane.progress(&mut Discard, 16);
        }
        network.advance();
    }
}

fn small() -> QueueOptions {
    QueueOptions { slots: 16, peers: 8, ..QueueOptions::default() }
}

fn ring(options: QueueOptions) -> QueueOptions {
    QueueOptions { form: QueueForm::Ring, slots: options.slots, peers: 16, rings: 2 }
}

fn scmp(options: QueueOptions) -> QueueOptions {
    QueueOptions { form: QueueForm::Scmp, ..options }
}

fn seq(options: QueueOptions) -> QueueOptions {
    QueueOptions { form: QueueForm::ScmpSeq, ..options }
}

macro_rules! sim_form {
    ($module:ident, $name:literal, $queue:expr, $options:expr) => {
        sim_form!($module, $name, $queue, $options, &[]);
    };
    ($module:ident, $name:literal, $queue:expr, $options:expr, $excluded:expr) => {
        mod $module {
            use super::*;

            struct Form(Network);

            impl Provider for Form {
                type Iface = QueueLane;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;
                const EXCLUDED: &'static [Exclusion] = $excluded;

                fn open(size: usize) -> (Self, Vec<QueueLane>) {
                    let mut options =
                        NetworkOptions { drive: Drive::OnIdle, ..NetworkOptions::default() };
                    let change: fn(&mut NetworkOptions) = $options;
                    change(&mut options);
                    let network = Network::new(options);
                    let lanes = (0..size).map(|i| lane(network.open(), &$queue, i)).collect();
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

sim_form!(sim, "queues over sim", QueueOptions::default(), |_| ());
sim_form!(sim_stormy, "queues over sim with faults", QueueOptions::default(), |options| {
    options.seed = 1;
    options.jitter_ns = 30_000;
    options.faults = Faults {
        loss: 100_000,
        retransmit_ns: 20_000,
        duplicate: 100_000,
        reorder: 200_000,
        reorder_ns: 50_000,
    };
    options.detect_jitter_ns = 100_000;
});
sim_form!(sim_small, "small queues over sim", small(), |options| {
    options.seed = 2;
    options.jitter_ns = 3000;
    options.outstanding = 2;
});

const OVERTAKEN: &str = "puts to one place overtake each other here unless a fence stands between \
                         them, and the test takes the last one posted for the last one seen";
const BUT_PLACES: &[Exclusion] = &[
    Exclusion { test: "model::memory", reason: OVERTAKEN },
    Exclusion { test: "rma::flushed_puts_are_visible", reason: OVERTAKEN },
];

/// Puts overtake each other, and atomics too.
fn overtaking(options: &mut NetworkOptions, seed: u64) {
    options.seed = seed;
    options.puts_ordered = false;
    options.put_before_atomic = false;
    options.jitter_ns = 30_000;
    options.faults = Faults { reorder: 300_000, reorder_ns: 100_000, ..Faults::default() };
}

sim_form!(
    sim_unordered,
    "queues over sim, puts that overtake each other and atomics",
    QueueOptions::default(),
    |options| overtaking(options, 3),
    BUT_PLACES
);

sim_form!(scmp_sim, "scmp over sim", scmp(QueueOptions::default()), |_| ());
sim_form!(
    scmp_unordered,
    "small scmp queues over sim, puts that overtake each other and atomics",
    scmp(small()),
    |options| overtaking(options, 7),
    BUT_PLACES
);
sim_form!(
    one_ring,
    "small queues over sim with one ring for all, puts that overtake each other and atomics",
    QueueOptions { rings: 1, ..small() },
    |options| overtaking(options, 8),
    BUT_PLACES
);
sim_form!(ring_sim, "rings over sim", ring(QueueOptions::default()), |_| ());
sim_form!(
    ring_unordered,
    "small rings over sim, puts that overtake each other and atomics",
    ring(small()),
    |options| overtaking(options, 6),
    BUT_PLACES
);
sim_form!(seq_sim, "checksummed queues over sim", seq(QueueOptions::default()), |_| ());
sim_form!(seq_small, "small checksummed queues over sim", seq(small()), |options| {
    options.seed = 9;
    options.jitter_ns = 3000;
    options.outstanding = 2;
});
sim_form!(
    seq_unordered,
    "small checksummed queues over sim, puts that overtake each other and atomics",
    seq(small()),
    |options| overtaking(options, 10),
    BUT_PLACES
);

macro_rules! shm_form {
    ($module:ident, $name:literal, $queue:expr, $make:path, $options:expr) => {
        mod $module {
            use super::*;

            struct Form(JobMemory);

            impl Provider for Form {
                type Iface = QueueLane;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;

                fn open(size: usize) -> (Self, Vec<QueueLane>) {
                    let mut options = ShmOptions::default();
                    let change: fn(&mut ShmOptions) = $options;
                    change(&mut options);
                    let spec = JobSpec {
                        job_id: 1,
                        ranks: size as u32,
                        first_rank: 0,
                        area_bytes: options.area_bytes(),
                    };
                    let job = $make(&spec).expect("memory for a test");
                    let open = |local| {
                        ShmIface::open(job.clone(), local, options.clone()).expect("a fresh rank")
                    };
                    let lanes = (0..size).map(|i| lane(open(i as u32), &$queue, i)).collect();
                    (Self(job), lanes)
                }

                fn kill(&mut self, index: usize, iface: QueueLane) {
                    std::mem::forget(iface);
                    self.0.mark_dead(index as u32);
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

shm_form!(
    shm_threads,
    "queues over shm, thread ranks",
    QueueOptions::default(),
    JobMemory::create_private,
    |_| ()
);

shm_form!(
    scmp_shm,
    "scmp over shm, thread ranks",
    scmp(QueueOptions::default()),
    JobMemory::create_private,
    |_| ()
);
shm_form!(
    ring_shm,
    "rings over shm, thread ranks",
    ring(small()),
    JobMemory::create_private,
    |_| ()
);
shm_form!(
    seq_shm_small,
    "small checksummed queues over shm, memfd",
    seq(small()),
    JobMemory::create_memfd,
    |_| ()
);

const STEPS: &str = "a message takes several steps of its sender here, which in this test makes no \
                     progress while its receiver sleeps";

macro_rules! tcp_form {
    ($module:ident, $name:literal, $queue:expr) => {
        mod $module {
            use super::*;

            struct Form;

            impl Provider for Form {
                type Iface = QueueLane;
                const NAME: &'static str = $name;
                const EXCLUDED: &'static [Exclusion] =
                    &[Exclusion { test: "wakeup::armed_or_busy", reason: STEPS }];

                fn open(size: usize) -> (Self, Vec<QueueLane>) {
                    let open = |i| {
                        let options = TcpOptions::with_secret([0x17; 32]);
                        let inner = TcpIface::open(options).expect("loopback is there");
                        lane(inner, &$queue, i)
                    };
                    (Self, (0..size).map(open).collect())
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

tcp_form!(
    tcp_one_ring,
    "small queues over tcp with one ring",
    QueueOptions { rings: 1, ..small() }
);
tcp_form!(seq_tcp, "checksummed queues over tcp", seq(small()));

macro_rules! self_form {
    ($module:ident, $name:literal, $queue:expr) => {
        mod $module {
            use super::*;

            struct Form;

            impl Provider for Form {
                type Iface = QueueLane;
                const NAME: &'static str = $name;
                const LOOPBACK: bool = true;

                fn open(size: usize) -> (Self, Vec<QueueLane>) {
                    let open = |i| {
                        let inner = SelfIface::open(SelfConfig::default()).expect("it opens");
                        lane(inner, &$queue, i)
                    };
                    (Self, (0..size).map(open).collect())
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

self_form!(loopback, "queues over self", QueueOptions::default());
self_form!(loopback_ring, "rings over self", ring(small()));

/// The rest of the product of forms and transports, which `cargo xtask test --full` runs: above, every
/// form is over some transport, and every transport under some form.
mod product {
    use super::*;

    shm_form!(
        shm_small,
        "small queues over shm, memfd",
        small(),
        JobMemory::create_memfd,
        |options| { options.max_bcopy = 256 }
    );
    shm_form!(
        one_ring_shm,
        "small queues over shm with one ring for all, thread ranks",
        QueueOptions { rings: 1, ..small() },
        JobMemory::create_private,
        |_| ()
    );
    shm_form!(
        seq_shm,
        "checksummed queues over shm, thread ranks",
        seq(QueueOptions::default()),
        JobMemory::create_private,
        |_| ()
    );
    tcp_form!(tcp, "queues over tcp", QueueOptions::default());
    tcp_form!(scmp_tcp, "scmp over tcp", scmp(small()));
    tcp_form!(ring_tcp, "rings over tcp", ring(small()));
    self_form!(loopback_scmp, "scmp over self", scmp(small()));
    self_form!(loopback_seq, "checksummed queues over self", seq(small()));
}
