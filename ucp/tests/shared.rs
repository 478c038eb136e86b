//! A worker that many threads use at once: over shared memory, between two ranks of one process.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicU32, Ordering};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_ucp::{
    Arm, Envelope, Ep, Idle, MatchSpec, RequestId, SendMode, Sent, SharedWorker, SpaceOptions,
    Stages, Waiter, Worker, WorkerParts,
};

/// Sleeps at once, and counts it.
struct Sleeper(Arc<AtomicU32>);

impl Waiter for Sleeper {
    fn stages(&self) -> Stages {
        Stages { spins: 4, yields: 4 }
    }
    fn yield_now(&mut self) {
        std::thread::yield_now();
    }
    fn sleep(&mut self, idle: Idle<'_>) {
        // Relaxed: only counted.
        self.0.fetch_add(1, Ordering::Relaxed);
        let doorbell = idle.doorbell.expect("shared memory has one");
        // A wake-up that is lost shows as a test that does not end.
        let _ = doorbell.wait(idle.deadline);
    }
}

fn pair() -> ([SharedWorker; 2], Arc<AtomicU32>) {
    let naps = Arc::new(AtomicU32::new(0));
    (pair_of(|| Box::new(Sleeper(Arc::clone(&naps)))), naps)
}

fn pair_of(waiter: impl Fn() -> Box<dyn Waiter>) -> [SharedWorker; 2] {
    let config = Config::defaults(&[bowline_shm::SETTINGS, bowline_ucp::SETTINGS]);
    let options = ShmOptions::from_config(&config);
    let area_bytes = options.area_bytes();
    let spec = JobSpec { job_id: 5, ranks: 2, first_rank: 0, area_bytes };
    let job = JobMemory::create_private(&spec).expect("memory is to be had");
    [0, 1].map(|rank| {
        job.attach(rank).expect("the place is free");
        let lane = ShmIface::open(job.clone(), rank, options.clone()).expect("it opens");
        let parts = WorkerParts {
            job: 5,
            rank,
            incarnation: 0,
            uid: u64::from(rank) + 1,
            lanes: vec![Box::new(lane)],
            waiter: waiter(),
            failures: None,
            config: config.clone(),
        };
        let worker = SharedWorker::new(parts).expect("one lane is enough");
        worker.with(|w| w.open_space(0, SpaceOptions::default())).expect("new");
        worker
    })
}

/// Says that it sleeps, and sleeps until it is released, whatever rings.
#[derive(Clone, Default)]
struct Deaf {
    asleep: Arc<AtomicU32>,
    released: Arc<AtomicU32>,
}

impl Waiter for Deaf {
    fn stages(&self) -> Stages {
        Stages { spins: 0, yields: 0 }
    }
    fn yield_now(&mut self) {
        std::thread::yield_now();
    }
    fn sleep(&mut self, _: Idle<'_>) {
        // Release pairs with the Acquire of the test, Acquire with its Release.
        self.asleep.store(1, Ordering::Release);
        while self.released.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }
}

fn post(worker: &SharedWorker, tag: u64) -> RequestId {
    let spec = MatchSpec { space: 0, source: None, tag, tag_mask: u64::MAX };
    worker.with(|w| w.recv(spec, RecvBuf::owned(vec![0; 8]))).expect("open")
}

/// Has a thread sleep for the message with tag 1, and another take it meanwhile by `takes`: the sleeper
/// must have been woken, or nothing would notify it where transports ring only for what nobody has taken.
fn takes_what_another_sleeps_for(takes: impl Fn(&SharedWorker, RequestId)) {
    let waiter = Deaf::default();
    let [a, b] = pair_of(|| Box::new(waiter.clone()));
    let to_a = connect(&b, &a);
    let (first, second) = (post(&a, 1), post(&a, 2));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| a.wait(first));
        // Acquire and Release: see the waiter.
        while waiter.asleep.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        assert!(!a.signal().take(), "nothing has happened yet");
        send(&b, to_a, 1, vec![7; 8]);
        send(&b, to_a, 2, vec![7; 8]);
        takes(&a, second);
        let woken = a.signal().take();
        waiter.released.store(1, Ordering::Release);
        assert_eq!(sleeper.join().expect("it does not panic").outcome, Ok(()));
        assert!(woken, "the sleeper was left asleep with its message taken");
    });
}

#[test]
fn progress_of_another_thread_wakes_the_sleeper() {
    takes_what_another_sleeps_for(|a, _| while a.progress() == 0 {});
}

#[test]
fn a_wait_that_ends_at_once_wakes_the_sleeper() {
    takes_what_another_sleeps_for(|a, second| {
        assert_eq!(a.wait(second).outcome, Ok(()));
    });
}

/// A thread that sleeps on the worker's descriptor is a sleeper like one that waits in a call.
#[test]
fn another_thread_wakes_a_sleeper_on_the_descriptor() {
    let ([a, b], _) = pair();
    let to_a = connect(&b, &a);
    let arm = || {
        while a.with(Worker::arm).expect("it has descriptors") == Arm::Busy {
            a.progress();
        }
    };
    arm();
    assert!(!a.signal().take(), "to arm is no reason to wake");
    arm();
    assert!(!a.signal().take(), "nor is it to arm anew");
    post(&a, 1);
    assert!(a.signal().take(), "a post of another thread is left undone");
    arm();
    assert_eq!(a.progress(), 0);
    assert!(!a.signal().take(), "nothing has happened");
    send(&b, to_a, 1, vec![7; 8]);
    while a.progress() == 0 {}
    assert!(a.signal().take(), "what makes the descriptor readable was taken");
    // One wake-up for each sleep.
    send(&b, to_a, 1, vec![7; 8]);
    while a.progress() == 0 {}
    assert!(!a.signal().take());
}

fn send(worker: &SharedWorker, ep: Ep, tag: u64, bytes: Vec<u8>) {
    let envelope = Envelope { space: 0, source: 0, tag };
    let sent = worker.with(|w| w.send(ep, envelope, SendBuf::owned(bytes), SendMode::Standard));
    if let Sent::Pending(id) = sent.expect("the peer is there") {
        worker.wait(id).outcome.expect("the peer is there");
    }
}

fn recv(worker: &SharedWorker, tag: u64, len: usize) -> Vec<u8> {
    let spec = MatchSpec { space: 0, source: None, tag, tag_mask: u64::MAX };
    let id = worker.with(|w| w.recv(spec, RecvBuf::owned(vec![0; len]))).expect("open");
    let (status, bytes) = worker.wait_with_buffer(id);
    status.outcome.expect("it fits");
    bytes.expect("it was owned")
}

fn connect(from: &SharedWorker, to: &SharedWorker) -> Ep {
    let address = to.with(Worker::address);
    from.with(|w| w.connect(&address)).expect("reachable")
}

/// Many threads on either side exchange messages of all protocols; each gets its own, whichever makes
/// the progress.
#[test]
fn many_threads_share_two_workers() {
    const THREADS: u64 = 6;
    const ROUNDS: u64 = 200;
    let ([a, b], naps) = pair();
    let (to_b, to_a) = (connect(&a, &b), connect(&b, &a));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (a, b) = (&a, &b);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let len = [3, 900, 20_000, 200_000][(round % 4) as usize];
                    send(a, to_b, thread << 32 | round, vec![(thread + round) as u8; len]);
                    let echo = recv(a, thread << 32 | round, len);
                    assert!(echo.iter().all(|&byte| byte == (thread + round) as u8));
                }
            });
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let len = [3, 900, 20_000, 200_000][(round % 4) as usize];
                    let bytes = recv(b, thread << 32 | round, len);
                    send(b, to_a, thread << 32 | round, bytes);
                }
            });
        }
    });
    // Relaxed: all threads have ended.
    println!("{} naps", naps.load(Ordering::Relaxed));
}

/// A thread sleeps for a message that another thread of the same worker provokes, and one for a
/// message that a third completes: nobody holds the lock while it sleeps.
#[test]
fn nobody_sleeps_with_the_lock() {
    let ([a, b], naps) = pair();
    let (to_b, to_a) = (connect(&a, &b), connect(&b, &a));
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|tag| {
                scope.spawn({
                    let a = &a;
                    move || recv(a, tag, 8)
                })
            })
            .collect();
        // Relaxed: a moment is awaited, nothing is read.
        while naps.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // The leader sleeps. This thread goes in and out nevertheless.
        for round in 0..50 {
            send(&a, to_b, 100 + round, vec![1; 8]);
            assert_eq!(recv(&b, 100 + round, 8), [1; 8]);
        }
        // In an order in which the leader changes.
        for tag in [0, 2, 1] {
            send(&b, to_a, tag, vec![tag as u8; 8]);
        }
        for (tag, thread) in waiting.into_iter().enumerate() {
            assert_eq!(thread.join().expect("it does not panic"), [tag as u8; 8]);
        }
    });
}

/// Any thread cancels what another waits for.
#[test]
fn any_thread_ends_any_wait() {
    let ([a, _b], naps) = pair();
    let spec = MatchSpec { space: 0, source: None, tag: 9, tag_mask: u64::MAX };
    let post = || a.with(|w| w.recv(spec, RecvBuf::owned(vec![0; 8]))).expect("open");
    let (first, second) = (post(), post());
    std::thread::scope(|scope| {
        let at_the_turn = scope.spawn({
            let a = &a;
            move || a.wait(first)
        });
        // Relaxed: a moment is awaited.
        while naps.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let parked = scope.spawn({
            let a = &a;
            move || a.wait(second)
        });
        for id in [second, first] {
            a.with(|w| w.cancel(id));
        }
        for thread in [at_the_turn, parked] {
            let outcome = thread.join().expect("it does not panic").outcome;
            assert_eq!(outcome, Err(bowline_ucp::OpError::Cancelled));
        }
    });
}

/// A handler that uses the shared worker it is called by gets an error, and nothing hangs.
#[test]
fn a_handler_must_use_the_worker_that_it_is_given() {
    let ([a, b], _) = pair();
    let a = Arc::new(a);
    let to_a = connect(&b, &a);
    let (report, reported) = mpsc::channel();
    let inner = Arc::clone(&a);
    a.with(|w| {
        w.am_handler(
            1,
            Box::new(move |worker, message| {
                let _ = worker.progress();
                let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    inner.progress();
                }));
                let _ = report.send((
                    answer.is_err(),
                    message.data().map(<[u8]>::to_vec).unwrap_or_default(),
                ));
            }),
        );
    });
    let sent = b.with(|w| w.am_send(to_a, 1, &[], SendBuf::owned(vec![4])));
    let _ = sent.expect("sent");
    let answer = loop {
        a.progress();
        b.progress();
        if let Ok(answer) = reported.recv_timeout(Duration::from_millis(1)) {
            break answer;
        }
    };
    assert_eq!(answer, (true, vec![4]));
    // What it refers to itself has to go first.
    a.with(|w| w.am_handler_remove(1));
    let a = Arc::into_inner(a).expect("the handler is gone");
    let alone = a.into_inner();
    assert_eq!(alone.progress(), 0);
}

/// A signal ends a sleep, or the next one.
#[test]
fn a_signal_wakes_a_sleeper() {
    let ([a, _b], naps) = pair();
    let worker = a.into_inner();
    let signal = worker.signal();
    signal.raise();
    // Returns at once: it was raised before.
    worker.wait_event();
    // Relaxed: counted by this thread.
    assert_eq!(naps.load(Ordering::Relaxed), 0);
    std::thread::scope(|scope| {
        let (signal, slept) = (signal.clone(), &naps);
        scope.spawn(move || {
            // Relaxed: a moment is awaited; one that sleeps a little later finds the signal.
            while slept.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            signal.raise();
        });
        // It may return for nothing; once it sleeps, only the signal ends that.
        while naps.load(Ordering::Relaxed) == 0 {
            worker.progress();
            worker.wait_event();
        }
    });
    // Relaxed: the other thread has ended.
    assert_eq!(naps.load(Ordering::Relaxed), 1);
}

/// What the types promise of threads.
#[test]
fn types_say_which_threads_may() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Worker>();
    send::<SharedWorker>();
    sync::<SharedWorker>();
}
