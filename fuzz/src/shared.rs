//! The memory that rank 0 of a communicator offers to the others.

use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_mpi::fuzz::{OFFER, make, take};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_ucp::{Ep, Worker, WorkerParts};

use crate::arrivals::NoWaiter;

const RANKS: u32 = 2;

/// Two ranks of a node in one process, the second of which knows the first.
struct Pair {
    root: Worker,
    other: Worker,
    ep: Ep,
    good: [u8; OFFER],
}

fn pair() -> Pair {
    let mut options = ShmOptions::default();
    (options.rings, options.scmp_slots) = (0, 16);
    let area_bytes = options.area_bytes();
    let spec = JobSpec { job_id: 1, ranks: RANKS, first_rank: 0, area_bytes };
    let job = JobMemory::create_memfd(&spec).expect("memory for two ranks");
    let worker = |rank: u32| {
        let iface = ShmIface::open(job.clone(), rank, options.clone()).expect("a fresh rank");
        Worker::new(WorkerParts {
            job: 1,
            rank,
            incarnation: 0,
            uid: u64::from(rank) + 1,
            lanes: vec![Box::new(iface)],
            waiter: Box::new(NoWaiter),
            failures: None,
            config: Config::defaults(&[bowline_ucp::SETTINGS]),
        })
        .expect("a worker of one lane")
    };
    let (root, other) = (worker(0), worker(1));
    let ep = other.connect(&root.address()).expect("they share memory");
    let (_, good) = make(&root, RANKS).expect("memory to offer");
    Pair { root, other, ep, good }
}

/// The first byte says whether the rest is an offer, or changes a good one: pairs of a place and of
/// what is added to the byte there.
pub(crate) fn offer(bytes: &[u8]) {
    thread_local! {
        static PAIR: Pair = pair();
    }
    let Some((&how, rest)) = bytes.split_first() else { return };
    PAIR.with(|pair| {
        let mut offer = [0; OFFER];
        if how == 0 {
            offer = pair.good;
            for change in rest.chunks_exact(2) {
                let byte = &mut offer[usize::from(change[0])];
                *byte = byte.wrapping_add(change[1]);
            }
        } else {
            let len = rest.len().min(OFFER);
            offer[..len].copy_from_slice(&rest[..len]);
        }
        let opened = take(&pair.other, pair.ep, &offer, RANKS);
        assert!(opened || offer != pair.good, "a good offer is refused");
        pair.root.progress();
    });
}
