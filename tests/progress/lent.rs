//! Mode `pef` where ranks are threads of one process: what a handler has its receiver's buffer lent for.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use bowline::base::buffer::{RecvBuf, SendBuf};
use bowline::base::job::{JobMemory, JobSpec};
use bowline::stack::{self, RankPlace};
use bowline::ucp::{Envelope, Ep, MatchSpec, SendMode, Sent, SpaceOptions, Worker};
use bowline::wait::SystemWaiter;
use bowline_base::config::Config;

use super::common::within_two_minutes;
use super::{ALONE, PATIENT, Random, compute, message};

const BYTES: usize = 8 << 20;
const ROUNDS: u32 = 6;

/// The steps of both ranks. Odd: the receive is posted, and its sender may send. Even: both may call.
static STEP: AtomicU32 = AtomicU32::new(0);

fn worker(job: &JobMemory, rank: u32) -> Worker {
    let own = [("BOWLINE_TRANSPORTS", "self,shm"), ("BOWLINE_RNDV_THRESHOLD", "8KiB")];
    // Where ranks share processors handlers copy only so.
    let always = [("BOWLINE_PEF_WORTH", "0")];
    let pairs = PATIENT.iter().copied().chain(own).chain(always);
    let config = Config::from_pairs(pairs, stack::SETTINGS).expect("good settings");
    job.attach(rank).expect("the job has this rank");
    let place = RankPlace::of_thread(job, rank);
    let waiter = SystemWaiter::new(&config);
    let worker = stack::worker(&place, &config, waiter).expect("there is memory");
    worker.open_space(0, SpaceOptions::default()).expect("the worker is new");
    worker
}

/// The receiver is first, and neither calls before a handler has done what it can. It has asked the sender to help, and
/// copied nothing: both copy the message in their waits.
#[test]
fn a_handler_leaves_a_message_between_threads_to_both() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    STEP.store(0, Ordering::SeqCst);
    within_two_minutes("threads of one process", || {
        let area_bytes = stack::area_bytes(&bowline::config_from_env().expect("good settings"));
        let spec = JobSpec { job_id: 9, ranks: 2, first_rank: 0, area_bytes };
        let job = JobMemory::create_private(&spec).expect("there is memory");
        let addresses = [(); 2].map(|()| std::sync::Mutex::new(None));
        let met = Barrier::new(2);
        let rank = |me: usize| {
            let worker = worker(&job, me as u32);
            *addresses[me].lock().expect("nobody panics") = Some(worker.address());
            met.wait();
            let peer = addresses[1 - me].lock().expect("nobody panics").take();
            let ep = worker.connect(&peer.expect("it is there")).expect("they reach each other");
            for round in 0..ROUNDS {
                if me == 0 { receive(&worker, round) } else { send(&worker, ep, round) }
            }
            // Nobody leaves before the other has heard all.
            met.wait();
        };
        std::thread::scope(|s| {
            s.spawn(|| rank(1));
            rank(0);
        });
    });
}

/// A computation until the step is there.
fn compute_until(step: u32) {
    let mut random = Random(3);
    while STEP.load(Ordering::SeqCst) < step {
        compute(&mut random);
    }
}

fn send(worker: &Worker, ep: Ep, round: u32) {
    let data = SendBuf::owned(message(round, BYTES));
    compute_until(2 * round + 1);
    let envelope = Envelope { space: 0, source: 1, tag: 2 };
    let sent = worker.send(ep, envelope, data, SendMode::Standard).expect("the receiver lives");
    let Sent::Pending(sent) = sent else { panic!("it is long") };
    // The first message of a peer is read by a call.
    if round > 0 {
        compute_until(2 * round + 2);
    }
    worker.wait_until(|| worker.is_complete(sent));
    worker.take(sent).expect("it is complete").outcome.expect("it was received");
}

/// A computation, which `within_two_minutes` ends, until a handler has begun to share a message, by the counts of shared and of fetched ones before.
fn compute_until_begun(worker: &Worker, (shared, fetched): (u64, u64)) {
    let mut random = Random(3);
    loop {
        compute(&mut random);
        // No call that makes progress.
        let counters = worker.counters();
        if (counters.shared, counters.fetched) != (shared, fetched) {
            assert_eq!(counters.shared, shared + 1, "the handler has read it alone");
            assert_eq!(counters.fetched, fetched, "what both copy is left to them");
            return;
        }
    }
}

fn receive(worker: &Worker, round: u32) {
    let spec = MatchSpec { space: 0, source: None, tag: 2, tag_mask: u64::MAX };
    let receive = worker.recv(spec, RecvBuf::owned(vec![0; BYTES])).expect("the space is open");
    let before = worker.counters();
    STEP.store(2 * round + 1, Ordering::SeqCst);
    // The first message of a peer is read by a call.
    if round > 0 {
        compute_until_begun(worker, (before.shared, before.fetched));
    }
    STEP.store(2 * round + 2, Ordering::SeqCst);
    worker.wait_until(|| worker.is_complete(receive));
    let (status, data) = worker.take_with_buffer(receive).expect("it is complete");
    status.outcome.expect("it was received");
    assert!(data == Some(message(round, BYTES)), "round {round}: not what was sent");
}
