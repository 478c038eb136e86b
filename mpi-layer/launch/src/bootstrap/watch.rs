//! Knowledge of deaths where no launcher marks them: each rank holds a pidfd of every other rank
//! of its node and looks now and then.
//!
//! A pidfd names one process for good and becomes readable when it ends, whoever reaps it. The
//! end of a rank that did not finalise is its death; the bit in the job's memory then tells
//! everybody else, also those who do not look.

use std::os::fd::OwnedFd;

use bowline_base::job::{JobMemory, RankState, start_time_of};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags};
use rustix::time::Timespec;

/// The pidfds of this rank's neighbours.
#[derive(Debug)]
pub struct DeathWatch {
    job: JobMemory,
    /// Local rank and pidfd of those not known to have ended.
    peers: Vec<(u32, OwnedFd)>,
}

impl DeathWatch {
    /// Watches the local ranks of `job` that have attached, but `own`. A rank that has ended
    /// already is marked dead here, unless it had finalised.
    pub fn new(job: &JobMemory, own: u32) -> Self {
        let mut watch = Self { job: job.clone(), peers: Vec::new() };
        for local in (0..job.ranks()).filter(|&local| local != own) {
            let identity = job.control(local).and_then(|control| control.identity());
            let Some(identity) = identity else { continue };
            let pid = i32::try_from(identity.pid).ok().and_then(Pid::from_raw);
            let pidfd = pid.map(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()));
            // Asked after the pidfd was opened: it is of the process that has this start time.
            let same = start_time_of(identity.pid).is_ok_and(|start| start == identity.start_time);
            match pidfd {
                Some(Ok(pidfd)) if same => watch.peers.push((local, pidfd)),
                Some(Ok(_) | Err(rustix::io::Errno::SRCH)) => {
                    watch.ended(local);
                }
                Some(Err(error)) => {
                    tracing::warn!(local, %error, "cannot watch a peer: its death goes unnoticed");
                }
                None => tracing::warn!(local, "a peer has an impossible pid"),
            }
        }
        watch
    }

    /// Marks the peers dead that have ended since the last call without finalising; returns how
    /// many. One system call that does not wait, none when nobody is left.
    pub fn poll(&mut self) -> u32 {
        if self.peers.is_empty() {
            return 0;
        }
        let mut fds: Vec<_> =
            self.peers.iter().map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) | Err(_) => return 0,
            Ok(_) => {}
        }
        let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut dead = 0;
        for index in (0..ended.len()).rev().filter(|&index| ended[index]) {
            let (local, _) = self.peers.swap_remove(index);
            dead += u32::from(self.ended(local));
        }
        dead
    }

    /// Peers that are still watched.
    pub fn watched(&self) -> usize {
        self.peers.len()
    }

    /// Whether the end of this rank was its death.
    fn ended(&self, local: u32) -> bool {
        let state = self.job.control(local).and_then(|control| control.state());
        let died = state != Some(RankState::Finalized) && !self.job.is_dead(local);
        if died {
            self.job.mark_dead(local);
        }
        died
    }
}
