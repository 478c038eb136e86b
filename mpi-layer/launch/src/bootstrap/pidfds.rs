//! Pidfds of neighbours whose numbers mean nothing here, since they run in another pid namespace:
//! each side opens one of itself and gives it to the other.
//!
//! ```text
//!   attach ─► some ranks listen ─► barrier of the job ─► the others connect: own pidfd ─►
//!                                                                            ◄─ the listener's pidfd
//! ```
//! 1. A rank listens if it is not in the pid namespace of the node's lowest rank: every two ranks
//!    that cannot see each other's numbers have a listener among them. It does so before the
//!    barrier, so that nobody connects in vain.
//! 2. Of two listeners, the lower one connects. So both know, after the barrier, how many they have
//!    to meet, and no further barrier is needed.
//! 3. A rank that does not come in time is not watched. It is not taken for dead.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use bowline_base::job::{JobMemory, RankIdentity};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::PidfdFlags;
use rustix::time::Timespec;

use super::BootError;
use super::passing::{self, Listener, PATIENCE};

/// This rank's part in the exchange.
#[derive(Debug)]
pub(super) struct Exchange {
    job: JobMemory,
    local: u32,
    /// The pid namespace of the node's lowest rank.
    leaders: Option<u64>,
    listener: Option<Listener>,
}

/// Whether the number of a process in one namespace means something in another.
fn sees(one: Option<u64>, other: Option<u64>) -> bool {
    one.is_some() && one == other
}

impl Exchange {
    /// Rule 1: before the barrier, for the local rank, which has attached.
    pub(super) fn start(
        job: &JobMemory,
        local: u32,
        leaders: Option<u64>,
    ) -> Result<Self, BootError> {
        let mut exchange = Self { job: job.clone(), local, leaders, listener: None };
        if exchange.listens(local) {
            let listener =
                Listener::bind(&name(job, local)).map_err(|source| BootError::System {
                    act: "listen for ranks of other pid namespaces",
                    source: source.into(),
                })?;
            exchange.listener = Some(listener);
        }
        Ok(exchange)
    }

    fn identity(&self, local: u32) -> Option<RankIdentity> {
        self.job.control(local).and_then(|control| control.identity())
    }

    fn listens(&self, local: u32) -> bool {
        let own = self.identity(local).and_then(|identity| identity.pid_namespace);
        local != 0 && !sees(own, self.leaders)
    }

    /// The attached ranks that this one cannot find by number.
    fn unseen(&self) -> Vec<u32> {
        let own = self.identity(self.local).and_then(|identity| identity.pid_namespace);
        let is_unseen = |&other: &u32| {
            let other = self.identity(other);
            other.is_some_and(|identity| !sees(own, identity.pid_namespace))
        };
        (0..self.job.ranks()).filter(|&other| other != self.local).filter(is_unseen).collect()
    }

    /// After the barrier: meets those that this rank cannot see, and returns their pidfds by local
    /// rank.
    pub(super) fn finish(self) -> Vec<(u32, OwnedFd)> {
        let unseen = self.unseen();
        if unseen.is_empty() {
            return Vec::new();
        }
        let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
        let own = match own {
            Ok(own) => own,
            Err(error) => {
                tracing::warn!(%error, "cannot open a pidfd of this process for other namespaces");
                return Vec::new();
            }
        };
        // Rule 2.
        let (call, expect): (Vec<u32>, Vec<u32>) = unseen.into_iter().partition(|&other| {
            self.listens(other) && (!self.listens(self.local) || self.local < other)
        });
        let mut met = Vec::new();
        // Those that call each other in a circle do not wait for each other: calls go to higher
        // ranks, whose own calls go to yet higher ones.
        for other in call {
            match self.call(other, &own) {
                Ok(pidfd) => met.push((other, pidfd)),
                Err(reason) => {
                    tracing::warn!(local = other, reason, "cannot have the pidfd of a rank");
                }
            }
        }
        if let Some(listener) = &self.listener {
            self.receive(listener, expect, &own, &mut met);
        }
        met
    }

    fn call(&self, other: u32, own: &OwnedFd) -> Result<OwnedFd, String> {
        let socket = passing::connect(&name(&self.job, other))?;
        passing::send(&socket, self.local.into(), own.as_fd())
            .map_err(|error| error.to_string())?;
        passing::receive(&socket).map(|(_, pidfd)| pidfd)
    }

    /// Answers those that call, until all of `expected` have, or the time is over (rule 3).
    fn receive(
        &self,
        listener: &Listener,
        mut expected: Vec<u32>,
        own: &OwnedFd,
        met: &mut Vec<(u32, OwnedFd)>,
    ) {
        let until = Instant::now() + PATIENCE;
        while !expected.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::warn!(ranks = ?expected, "ranks of other pid namespaces did not come");
                return;
            }
            let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
            let wait = Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            if poll(&mut fds, Some(&wait)).is_err() {
                continue;
            }
            let answered = match listener.accept() {
                Ok(None) => continue,
                Ok(Some(peer)) => passing::receive(&peer).and_then(|(who, pidfd)| {
                    let at = expected.iter().position(|&other| u64::from(other) == who);
                    let at = at.ok_or_else(|| format!("rank {who} is not expected"))?;
                    passing::send(&peer, self.local.into(), own.as_fd())
                        .map_err(|error| error.to_string())?;
                    Ok((expected.swap_remove(at), pidfd))
                }),
                Err(error) => {
                    std::thread::sleep(passing::PAUSE);
                    Err(error.to_string())
                }
            };
            match answered {
                Ok(answered) => met.push(answered),
                Err(reason) => tracing::warn!(reason, "cannot answer a rank that wants a pidfd"),
            }
        }
    }
}

fn name(job: &JobMemory, local: u32) -> String {
    format!("bowline-rank-{:016x}-{local}", job.node_id())
}
