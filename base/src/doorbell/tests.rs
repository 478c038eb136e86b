//! Sleeping and waking on the real kernel: threads and a forked process, words and descriptors,
//! with membarrier and without, and the death of a waker. What the orderings allow is modelled
//! in `loom_tests`, not tried here.

use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::doorbell_word::{AWAKE, FD, FENCED, FUTEX, arm_word, ring_word};
use crate::job::{JobMemory, JobSpec};
use crate::sync::atomic::{AtomicU32, Ordering};

const WATCHDOG: Duration = Duration::from_secs(60);

fn job() -> JobMemory {
    JobMemory::create_memfd(&JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes: 0 }).unwrap()
}

/// Runs `body` on a thread and gives up when it hangs.
fn watched(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match ended.recv_timeout(WATCHDOG) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs: a wake was lost"),
        _ => thread.join().unwrap(),
    }
}

/// Exchanges `rounds` messages, each side sleeping for each.
fn ping_pong(bells: [Doorbell; 2], rounds: u32, kind: Sleep) {
    watched(move || {
        let mail = [AtomicU32::new(0), AtomicU32::new(0)];
        std::thread::scope(|scope| {
            for me in 0..2 {
                let (bells, mail) = (&bells, &mail);
                scope.spawn(move || {
                    for round in 1..=rounds {
                        if me == 0 {
                            mail[1].store(round, Ordering::Release);
                            bells[1].ring();
                        }
                        while mail[me].load(Ordering::Acquire) < round {
                            bells[me].arm(kind);
                            if mail[me].load(Ordering::Acquire) < round {
                                match kind {
                                    Sleep::Futex => {
                                        let _ = bells[me].wait(None);
                                    }
                                    Sleep::Fd => {
                                        let fd = bells[me].event_fd().unwrap();
                                        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                                        poll(&mut fds, None).unwrap();
                                    }
                                }
                            }
                            bells[me].disarm();
                        }
                        if me == 1 {
                            mail[0].store(round, Ordering::Release);
                            bells[0].ring();
                        }
                    }
                });
            }
        });
    });
}

fn of_job(job: &JobMemory) -> [Doorbell; 2] {
    [0, 1].map(|local| {
        job.attach(local).unwrap();
        Doorbell::of_job(job, local).unwrap()
    })
}

#[test]
fn futex_sleepers_of_a_job_wake_each_other() {
    ping_pong(of_job(&job()), 5000, Sleep::Futex);
}

#[test]
fn private_sleepers_wake_each_other() {
    ping_pong([Doorbell::private(), Doorbell::private()], 5000, Sleep::Futex);
}

#[test]
fn descriptor_sleepers_wake_each_other() {
    let private = [Doorbell::private(), Doorbell::private()];
    for bells in [of_job(&job()), private] {
        for bell in &bells {
            bell.event_fd().unwrap();
        }
        ping_pong(bells, 2000, Sleep::Fd);
    }
}

#[test]
fn owners_without_membarrier_are_woken_too() {
    let job = job();
    let bells = of_job(&job);
    for local in 0..2 {
        job.control(local).unwrap().doorbell.word.fetch_or(FENCED, Ordering::Relaxed);
    }
    ping_pong(bells, 5000, Sleep::Futex);
    let word = job.control(0).unwrap().doorbell.word.load(Ordering::Relaxed);
    assert_eq!(word & FENCED, FENCED, "the bit stays");
}

#[test]
fn an_owner_that_loses_membarrier_says_so_in_its_word() {
    let word = AtomicU32::new(AWAKE);
    let mut settled = false;
    arm_word(&word, Sleep::Fd, || false, || settled = true);
    assert!(settled);
    assert_eq!(word.load(Ordering::Relaxed), FD | FENCED);
    arm_word(&word, Sleep::Futex, || panic!("known to be missing"), || panic!("settled before"));
    assert_eq!(word.load(Ordering::Relaxed), FUTEX | FENCED);
    let mut woken = None;
    ring_word(&word, |sleep| {
        woken = Some(sleep);
        true
    });
    assert_eq!((woken, word.load(Ordering::Relaxed)), (Some(Sleep::Futex), FENCED));
    ring_word(&word, |_| panic!("awake"));
}

#[test]
fn a_ring_that_is_refused_leaves_the_sleeper_to_the_next() {
    for fenced in [0, FENCED] {
        let word = AtomicU32::new(FD | fenced);
        let mut tries = 0;
        for granted in [false, false, true] {
            ring_word(&word, |sleep| {
                assert_eq!((sleep, word.load(Ordering::Relaxed)), (Sleep::Fd, fenced));
                tries += 1;
                granted
            });
            let left = if granted { AWAKE } else { FD };
            assert_eq!(word.load(Ordering::Relaxed), left | fenced);
        }
        ring_word(&word, |_| panic!("awake"));
        assert_eq!(tries, 3);
        // The owner went to sleep on its word meanwhile: that is not undone.
        word.store(FD | fenced, Ordering::Relaxed);
        ring_word(&word, |_| {
            word.store(FUTEX | fenced, Ordering::Relaxed);
            false
        });
        assert_eq!(word.load(Ordering::Relaxed), FUTEX | fenced);
    }
}

#[test]
fn another_process_wakes_a_sleeper() {
    let job = job();
    let bell = of_job(&job)[0].clone();
    // The child opens the memory by its descriptor, as a rank that inherited it does.
    let fd = job.region().fd().unwrap().try_clone_to_owned().unwrap();
    bell.arm(Sleep::Futex);
    // SAFETY: the child uses nothing of the test harness and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = match JobMemory::open(fd) {
            Ok(job) => Doorbell::of_job(&job, 0).map_or(2, |bell| {
                bell.ring();
                0
            }),
            Err(_) => 1,
        };
        // SAFETY: `_exit` has no preconditions and runs no destructor of the parent's state.
        unsafe { libc::_exit(code) };
    }
    watched(move || while bell.wait(Some(WATCHDOG)) != Woken::Rung {});
    let pid = rustix::process::Pid::from_raw(pid);
    let (_, status) =
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.exit_status(), Some(0));
}

#[test]
fn a_death_wakes_even_who_was_robbed_of_its_state() {
    for kind in [Sleep::Futex, Sleep::Fd] {
        let job = job();
        let bell = of_job(&job)[0].clone();
        bell.event_fd().unwrap();
        let (armed, is_armed) = mpsc::channel();
        let sleeper = bell.clone();
        let memory = job.clone();
        let thread = std::thread::spawn(move || {
            sleeper.arm(kind);
            armed.send(()).unwrap();
            // The futex call that an owner makes which armed, checked, and was robbed only then.
            if kind == Sleep::Futex {
                let word = &memory.control(0).unwrap().doorbell.word;
                while !memory.is_dead(1) {
                    let now = word.load(Ordering::Relaxed);
                    let _ = rustix::thread::futex::wait(
                        word,
                        rustix::thread::futex::Flags::empty(),
                        now,
                        None,
                    );
                }
            } else {
                let fd = sleeper.event_fd().unwrap();
                poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None).unwrap();
            }
        });
        is_armed.recv().unwrap();
        // A sender takes the state and dies before it wakes.
        job.control(0).unwrap().doorbell.word.store(AWAKE, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        job.mark_dead(1);
        watched(move || thread.join().unwrap());
    }
}

#[test]
fn waits_end_in_time_and_unarmed_waits_at_once() {
    let bell = Doorbell::private();
    assert_eq!(bell.wait(None), Woken::Rung);
    bell.arm(Sleep::Futex);
    assert!(!bell.is_rung());
    loop {
        match bell.wait(Some(Duration::from_millis(1))) {
            Woken::TimedOut => break,
            woken => assert_eq!(woken, Woken::Spurious),
        }
    }
    bell.ring();
    assert!(bell.is_rung());
    assert_eq!(bell.wait(None), Woken::Rung);
}

#[test]
fn an_event_descriptor_needs_an_attached_rank() {
    let job = job();
    let bell = Doorbell::of_job(&job, 1).unwrap();
    assert_eq!(bell.event_fd().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    job.attach(1).unwrap();
    bell.event_fd().unwrap();
    assert!(Doorbell::of_job(&job, 2).is_none());
    assert!(network_namespace().unwrap() > 0);
}
