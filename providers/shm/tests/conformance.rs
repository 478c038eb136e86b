//! The contract's suite, over every form that this transport takes in one process: thread ranks,
//! memory that processes could map, no rings at all, and queues so small that every limit is met.

use bowline_base::job::{JobMemory, JobSpec};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_uct::conformance::Provider;

struct Node {
    job: JobMemory,
}

fn open(
    size: usize,
    options: &ShmOptions,
    make: impl FnOnce(&JobSpec) -> JobMemory,
) -> (Node, Vec<ShmIface>) {
    let spec =
        JobSpec { job_id: 1, ranks: size as u32, first_rank: 0, area_bytes: options.area_bytes() };
    let job = make(&spec);
    let ifaces = (0..size as u32)
        .map(|local| ShmIface::open(job.clone(), local, options.clone()).expect("a fresh rank"))
        .collect();
    (Node { job }, ifaces)
}

fn kill(node: &Node, index: usize, iface: ShmIface) {
    // What a kill leaves: queues and words as they are. The launcher notifies the others.
    std::mem::forget(iface);
    node.job.mark_dead(index as u32);
}

macro_rules! form {
    ($module:ident, $name:literal, $make:expr, $options:expr) => {
        mod $module {
            use super::*;

            struct Form(Node);

            impl Provider for Form {
                type Iface = ShmIface;
                const NAME: &'static str = $name;
                const CAN_KILL: bool = true;

                fn open(size: usize) -> (Self, Vec<ShmIface>) {
                    #[allow(unused_mut)]
                    let mut options = ShmOptions::default();
                    let change: fn(&mut ShmOptions) = $options;
                    change(&mut options);
                    let (node, ifaces) = super::open(size, &options, $make);
                    (Self(node), ifaces)
                }

                fn kill(&mut self, index: usize, iface: ShmIface) {
                    super::kill(&self.0, index, iface);
                }
            }

            bowline_uct::conformance!(Form);
        }
    };
}

fn private(spec: &JobSpec) -> JobMemory {
    JobMemory::create_private(spec).expect("memory for a test")
}

fn memfd(spec: &JobSpec) -> JobMemory {
    JobMemory::create_memfd(spec).expect("memory for a test")
}

form!(threads, "shm, thread ranks", private, |_| ());
form!(processes, "shm, memfd", memfd, |_| ());
form!(queue_only, "shm, no rings", private, |options| options.rings = 0);
form!(tiny, "shm, small queues", private, |options| {
    options.rings = 1;
    options.ring_slots = 8;
    options.scmp_slots = 16;
    options.max_bcopy = 256;
    options.ring_data = 4096;
    options.first_ring_data = 4096;
    options.promote_after = 1;
});
form!(copies, "shm, no cross memory attach", memfd, |options| options.cma = Some(false));
