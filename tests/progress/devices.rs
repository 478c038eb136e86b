//! Mode `pef` over RDMA devices: the receiver's read begins and ends while the receiver computes. Machines without a device
//! print the reason in place of each test; in the guest of `cargo xtask guest`, which has two, that is a failure.

mod deaths;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bowline::base::buffer::{RecvBuf, SendBuf};
use bowline::base::job::{JobMemory, JobSpec};
use bowline::progress;
use bowline::stack::{self, RankPlace};
use bowline::ucp::{Envelope, MatchSpec, SendMode, Sent, SpaceOptions, Worker};
use bowline::wait::SystemWaiter;
use bowline_base::config::Config;
use bowline_uct::conformance::skipped;

use super::common::within_two_minutes;
use super::{
    ALONE, PATIENT, Random, compute, message, moves_while_the_receiver_computes, ranks, traffic,
};

/// Set in the guest, where devices must be there.
const GUEST: &str = "BOWLINE_TEST_GUEST";

const OVER_VERBS: (&str, &str) = ("BOWLINE_TRANSPORTS", "self,verbs");

/// Whether there are devices.
fn has_devices() -> bool {
    let guest = std::env::var_os(GUEST).is_some();
    if !guest {
        skipped("it is for the guest, which has two RDMA devices");
    }
    guest
}

#[test]
fn long_messages_move_by_devices_while_the_receiver_computes() {
    if !has_devices() {
        return;
    }
    let settings = [PATIENT, &[OVER_VERBS]].concat();
    for bytes in [20_000, 1_000_000] {
        moves_while_the_receiver_computes(&settings, bytes);
    }
}

#[test]
fn payloads_are_whole_over_devices_while_signals_come() {
    if !has_devices() {
        return;
    }
    let settings = [super::HAMMER, &[OVER_VERBS]].concat();
    // Beside other work a guest leaves few signals their time.
    let mut polls = 0;
    for _ in 0..20 {
        polls += ranks(2, &settings, |world| traffic(&world, 12));
        if polls > 10 {
            break;
        }
    }
    println!("{polls} polls");
    assert!(polls > 10, "only {polls} polls: the test has tested nothing");
}

/// A rank on a device of its own.
fn worker(job: &JobMemory, rank: u32) -> Worker {
    let device = format!("rxe{rank}");
    let own = [OVER_VERBS, ("BOWLINE_VERBS_DEVICE", &device), ("BOWLINE_RNDV_THRESHOLD", "8KiB")];
    // Only the receiver computes.
    let pef: &[_] = if rank == 0 { PATIENT } else { &[] };
    let pairs = pef.iter().copied().chain(own);
    let config = Config::from_pairs(pairs, stack::SETTINGS).expect("good settings");
    job.attach(rank).expect("the job has this rank");
    let place = RankPlace::of_thread(job, rank);
    let waiter = SystemWaiter::new(&config);
    let worker = stack::worker(&place, &config, waiter).expect("there is a device");
    worker.open_space(0, SpaceOptions::default()).expect("the worker is new");
    worker
}

/// The steps of a message, as the ranks come past them.
static STEP: AtomicU32 = AtomicU32::new(0);

/// Between two hosts, as far as one machine has them: two devices, and nothing else leads from rank to rank. The receiver
/// posts, and computes without a call until its sender has the acknowledgement, which is the last of the message's
/// steps: the envelope was taken, the device has read, and the end of that was noticed.
#[test]
fn a_message_between_devices_is_hidden_behind_a_computation() {
    const BYTES: usize = 500_000;
    const ROUNDS: u32 = 5;
    if !has_devices() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    STEP.store(0, Ordering::SeqCst);
    let polls = progress::poll_count();
    within_two_minutes("between devices", || {
        let area_bytes = stack::area_bytes(&bowline::config_from_env().expect("good settings"));
        let spec = JobSpec { job_id: 7, ranks: 2, first_rank: 0, area_bytes };
        let job = JobMemory::create_private(&spec).expect("there is memory");
        let addresses = [(); 2].map(|()| std::sync::Mutex::new(None));
        let met = std::sync::Barrier::new(2);
        let rank = |me: usize| {
            let worker = worker(&job, me as u32);
            *addresses[me].lock().expect("nobody panics") = Some(worker.address());
            met.wait();
            let peer = addresses[1 - me].lock().expect("nobody panics").take();
            let ep = worker.connect(&peer.expect("it is there")).expect("they reach each other");
            if me == 0 {
                receive(&worker, ep, BYTES, ROUNDS)
            } else {
                send(&worker, ep, BYTES, ROUNDS)
            }
            // Nobody leaves before the other has heard all.
            met.wait();
        };
        std::thread::scope(|s| {
            s.spawn(|| rank(1));
            rank(0);
        });
    });
    assert!(progress::poll_count() > polls, "no signal has come");
}

fn send(worker: &Worker, ep: bowline::ucp::Ep, bytes: usize, rounds: u32) {
    for round in 0..rounds {
        let go = MatchSpec { space: 0, source: None, tag: 1, tag_mask: u64::MAX };
        let go = worker.recv_blocking(go, RecvBuf::owned(vec![0; 8]));
        go.expect("the receiver lives");
        let envelope = Envelope { space: 0, source: 1, tag: 2 };
        let data = SendBuf::owned(message(round, bytes));
        if let Sent::Pending(sent) =
            worker.send(ep, envelope, data, SendMode::Standard).expect("the receiver lives")
        {
            worker.wait_until(|| worker.is_complete(sent));
            worker.take(sent).expect("it is complete").outcome.expect("it was received");
        }
        STEP.store(round + 1, Ordering::SeqCst);
    }
}

fn receive(worker: &Worker, ep: bowline::ucp::Ep, bytes: usize, rounds: u32) {
    let mut random = Random(3);
    for round in 0..rounds {
        let spec = MatchSpec { space: 0, source: None, tag: 2, tag_mask: u64::MAX };
        let receive = worker.recv(spec, RecvBuf::owned(vec![0; bytes])).expect("the space is open");
        let envelope = Envelope { space: 0, source: 0, tag: 1 };
        let go = worker.send(ep, envelope, SendBuf::owned(vec![1; 8]), SendMode::Standard);
        assert!(matches!(go.expect("the sender lives"), Sent::Done | Sent::Pending(_)));
        let begin = Instant::now();
        // The first message is read by a call, which shows that this lane brings such messages.
        while round > 0 && STEP.load(Ordering::SeqCst) <= round {
            compute(&mut random);
            let hangs = begin.elapsed() > Duration::from_secs(60);
            assert!(!hangs, "round {round}: nothing moves while the receiver computes");
        }
        assert!(
            round == 0 || !worker.is_complete(receive),
            "what is to be freed is left to a call"
        );
        worker.wait_until(|| worker.is_complete(receive));
        let (status, data) = worker.take_with_buffer(receive).expect("it is complete");
        status.outcome.expect("it was received");
        assert!(data == Some(message(round, bytes)), "round {round}: not what was sent");
    }
}
