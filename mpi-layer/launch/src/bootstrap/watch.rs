//! Knowledge of deaths where no launcher marks them: each rank holds a pidfd of every other rank
//! of its node and polls them now and then.
//!
//! A pidfd names one process as long as it is open, and becomes readable when that ends, in any process, whichever reaps
//! it. The end of a rank that did not finalise is its death; the bit in the job's memory then notifies
//! everybody else, also those who do not poll.
//!
//! 1. A rank is dead only if its pidfd says so, or if the kernel says that there is no process of its
//!    number, or another one, in a pid namespace that both are in.
//! 2. What could not be asked, for want of a descriptor for instance, is not known. It is asked again
//!    once in [`AGAIN`], and logged.
//! 3. Ranks of other pid namespaces have given their pidfds ([`pidfds`](super::pidfds)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use bowline_base::job::{JobMemory, RankIdentity, RankState, pid_namespace, start_time_of};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use rustix::time::Timespec;

/// Between two attempts to watch a rank.
const AGAIN: Duration = Duration::from_secs(1);

/// The pidfds of this rank's neighbours.
#[derive(Debug)]
pub struct DeathWatch {
    job: JobMemory,
    namespace: Option<u64>,
    /// Local rank and pidfd of those not known to have ended.
    peers: Vec<(u32, OwnedFd)>,
    /// Rule 2: local ranks that are to be asked for again.
    unknown: Vec<u32>,
    again: Instant,
}

/// What is known of a neighbour.
enum Found {
    Runs(OwnedFd),
    Ended,
    /// It could not be asked.
    Unknown(io::Error),
}

impl DeathWatch {
    /// Watches the local ranks of `job` that have attached, but `own`; of some, `given` has the pidfd
    /// already. A rank that has ended is marked dead here, unless it had finalised.
    pub(super) fn new(job: &JobMemory, own: u32, given: Vec<(u32, OwnedFd)>) -> Self {
        let others = (0..job.ranks()).filter(|local| *local != own);
        let is_given = |local: &u32| given.iter().any(|(other, _)| other == local);
        let unknown = others.filter(|local| !is_given(local)).collect();
        let namespace = pid_namespace();
        let again = Instant::now();
        let mut watch = Self { job: job.clone(), namespace, peers: given, unknown, again };
        watch.ask(true);
        watch
    }

    /// Marks the peers dead that have ended since the last call without finalising; returns how
    /// many. One system call that does not wait, none when nobody is left.
    pub fn poll(&mut self) -> u32 {
        let mut dead = 0;
        if !self.unknown.is_empty() && Instant::now() >= self.again {
            dead += self.ask(false);
        }
        if self.peers.is_empty() {
            return dead;
        }
        let mut fds: Vec<_> =
            self.peers.iter().map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) | Err(_) => return dead,
            Ok(_) => {}
        }
        let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for index in (0..ended.len()).rev().filter(|&index| ended[index]) {
            let (local, _) = self.peers.swap_remove(index);
            dead += u32::from(self.ended(local));
        }
        dead
    }

    /// Peers that are watched.
    pub fn watched(&self) -> usize {
        self.peers.len()
    }

    /// Asks for those of whom nothing is known; returns how many were marked dead.
    fn ask(&mut self, first: bool) -> u32 {
        self.again = Instant::now() + AGAIN;
        let mut dead = 0;
        for local in std::mem::take(&mut self.unknown) {
            let identity = self.job.control(local).and_then(|control| control.identity());
            // It has not attached, so nobody waits for it but the launcher.
            let Some(identity) = identity else { continue };
            match find(&identity, self.namespace) {
                Found::Runs(pidfd) => {
                    if !first {
                        tracing::info!(local, "a peer is watched now");
                    }
                    self.peers.push((local, pidfd));
                }
                Found::Ended => dead += u32::from(self.ended(local)),
                Found::Unknown(error) => {
                    if first {
                        tracing::warn!(
                            local,
                            %error,
                            "cannot watch a peer: its death goes unnoticed until that succeeds"
                        );
                    }
                    self.unknown.push(local);
                }
            }
        }
        dead
    }

    /// Whether the end of this rank was its death.
    fn ended(&self, local: u32) -> bool {
        let state = self.job.control(local).and_then(|control| control.state());
        let died = state != Some(RankState::Finalized) && !self.job.is_dead(local);
        if died {
            self.job.mark_dead(local);
            let identity = self.job.control(local).and_then(|control| control.identity());
            let rank = identity.map_or(local, |identity| identity.world_rank);
            tracing::warn!("rank {rank} has died");
        }
        died
    }
}

/// Rules 1 and 2, by number.
fn find(identity: &RankIdentity, namespace: Option<u64>) -> Found {
    let unknown = |why: &str| Found::Unknown(io::Error::other(why));
    if namespace.is_none() || namespace != identity.pid_namespace {
        return unknown("it runs in another pid namespace and has given no pidfd");
    }
    let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::from_raw) else {
        return unknown("its pid is impossible");
    };
    let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return Found::Ended,
        Err(error) => return Found::Unknown(error.into()),
    };
    // Asked after the pidfd was opened: it is of the process that has this start time.
    match start_time_of(identity.pid) {
        Ok(start) if start == identity.start_time => Found::Runs(pidfd),
        Ok(_) => Found::Ended,
        Err(_) if has_ended(pidfd.as_fd()) => Found::Ended,
        Err(error) => Found::Unknown(error),
    }
}

fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
}

#[cfg(test)]
mod tests;
