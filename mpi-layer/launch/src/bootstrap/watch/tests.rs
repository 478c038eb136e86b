//! What is concluded about a neighbour from what the kernel says. Ranks are this process and children
//! of it; starved ones and other namespaces are tested with whole jobs.

use std::process::{Child, Command};

use bowline_base::job::{JobSpec, pid_namespace};
use bowline_base::sync::atomic::Ordering;

use super::*;

/// A process that is ended with the test.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A job of two, of whom local rank 1 is said to be this process.
fn job_with(pid: u32, start_time: u64, namespace: u64) -> JobMemory {
    let spec = JobSpec { job_id: 3, ranks: 2, first_rank: 0, area_bytes: 100 };
    let job = JobMemory::create_memfd(&spec).unwrap();
    job.attach(0).unwrap();
    let identity = &job.control(1).unwrap().identity;
    identity.pid.store(pid, Ordering::Relaxed);
    identity.start_time.store(start_time, Ordering::Relaxed);
    identity.pid_namespace.store(namespace, Ordering::Relaxed);
    identity.state.store(RankState::Attached as u32, Ordering::Release);
    job
}

fn watch(job: &JobMemory) -> DeathWatch {
    DeathWatch::new(job, 0, Vec::new())
}

#[test]
fn a_death_is_noticed() {
    let mut peer = Sleeper::start();
    let start = start_time_of(peer.0.id()).unwrap();
    let job = job_with(peer.0.id(), start, pid_namespace().unwrap());
    let mut watch = watch(&job);
    assert_eq!((watch.watched(), watch.poll(), job.is_dead(1)), (1, 0, false));
    peer.end();
    assert_eq!((watch.poll(), watch.watched(), job.is_dead(1)), (1, 0, true));
    assert_eq!(watch.poll(), 0);
}

#[test]
fn who_has_ended_before_is_found_dead_at_once() {
    let mut peer = Sleeper::start();
    let (pid, start) = (peer.0.id(), start_time_of(peer.0.id()).unwrap());
    peer.end();
    let job = job_with(pid, start, pid_namespace().unwrap());
    assert_eq!(watch(&job).watched(), 0);
    assert!(job.is_dead(1));
    // The number is another process's by now.
    let other = Sleeper::start();
    let job = job_with(other.0.id(), start.wrapping_sub(1), pid_namespace().unwrap());
    assert_eq!(watch(&job).watched(), 0);
    assert!(job.is_dead(1));
}

#[test]
fn numbers_of_another_namespace_say_nothing() {
    // A pid that is nobody's here, and one that is somebody else's.
    for pid in [i32::MAX as u32 - 1, std::process::id()] {
        for namespace in [0, pid_namespace().unwrap() + 1] {
            let job = job_with(pid, 1, namespace);
            let mut watch = watch(&job);
            watch.again = Instant::now();
            assert_eq!((watch.poll(), watch.watched()), (0, 0));
            assert!(!job.is_dead(1), "a rank that nobody could ask for is not dead");
        }
    }
}

#[test]
fn a_pidfd_that_was_given_is_watched_whatever_the_number() {
    let mut peer = Sleeper::start();
    let job = job_with(1, 1, 1);
    let pidfd = rustix::process::pidfd_open(Pid::from_child(&peer.0), PidfdFlags::empty()).unwrap();
    let mut watch = DeathWatch::new(&job, 0, vec![(1, pidfd)]);
    assert_eq!((watch.watched(), watch.poll()), (1, 0));
    peer.end();
    assert_eq!((watch.poll(), job.is_dead(1)), (1, true));
}

#[test]
fn who_could_not_be_asked_is_asked_again() {
    let peer = Sleeper::start();
    let start = start_time_of(peer.0.id()).unwrap();
    // As where there was no descriptor left: it is not known, and nothing is concluded from that.
    let job = job_with(peer.0.id(), start, 1);
    let mut watch = watch(&job);
    assert_eq!((watch.watched(), watch.unknown.len()), (0, 1));
    let identity = &job.control(1).unwrap().identity;
    identity.pid_namespace.store(pid_namespace().unwrap(), Ordering::Relaxed);
    assert_eq!((watch.poll(), watch.watched()), (0, 0), "not before the time has come");
    watch.again = Instant::now();
    assert_eq!((watch.poll(), watch.watched(), job.is_dead(1)), (0, 1, false));
}
