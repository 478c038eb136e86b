//! The ranks of one node while they run: their processes, their PMI connections, their memory.
//!
//! It does what it is ordered and reports what happens as [`Report`]; what a failure means for the job
//! is decided elsewhere ([`Policy`](super::policy::Policy)), on this machine or on that of the
//! launcher. It never waits by itself: its owner waits for the descriptor of [`Node::interest`], behind
//! which are all those of the ranks, so that an event costs the same with a thousand ranks as with one.
//!
//! A rank that ends without having left the job is marked dead in the node's memory before its
//! end is reported, and it is reaped by [`Node::finish`] only.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use bowline_base::job::{JobMemory, RankState};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::connection::Connection;
use super::end::RankEnd;
use super::guardian::Guardian;
use super::sessions;
use super::spawn::{Share, Started, reap};
use super::{LaunchError, system};
use crate::pmi::{Server, ServerEvent};

/// Waits for requests and ends of ranks and for the end of the guardian.
fn wait_for(ranks: &[Started], guardian: &Guardian) -> rustix::io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&set, guardian.pidfd(), Ready::Guardian.data(), EventFlags::IN)?;
    for (index, rank) in ranks.iter().enumerate() {
        epoll::add(&set, &rank.pmi, Ready::Pmi(index).data(), EventFlags::IN)?;
        epoll::add(&set, &rank.pidfd, Ready::Ended(index).data(), EventFlags::IN)?;
    }
    Ok(set)
}

#[derive(Debug)]
struct Rank {
    pid: Pid,
    pidfd: OwnedFd,
    pmi: Option<Connection>,
    end: Option<RankEnd>,
}

/// What has happened. Ranks are those of the whole job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// A rank has ended.
    Ended { rank: u32, end: RankEnd },
    /// A rank asks for the end of the job.
    Aborted { rank: u32, code: i32, message: String },
    /// A rank was killed, since it does not speak PMI-1.
    Misbehaved { rank: u32, what: String },
    /// A rank waits in a barrier for one that has left.
    Stuck { gone: u32, waiting: u32 },
    /// A rank has left the job in order. Only where there are other nodes, as the next.
    Left { rank: u32 },
    /// Every living rank of the node waits in a barrier of the job.
    AllIn,
}

/// What can be waited for of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// A request.
    Pmi(usize),
    /// The end of a process.
    Ended(usize),
    /// The end of the guardian.
    Guardian,
}

impl Ready {
    /// As it stands beside a descriptor that is waited for.
    fn data(self) -> EventData {
        EventData::new_u64(match self {
            Self::Guardian => 0,
            Self::Pmi(index) => index as u64 * 2 + 1,
            Self::Ended(index) => index as u64 * 2 + 2,
        })
    }

    fn of(data: EventData) -> Self {
        match data.u64() {
            0 => Self::Guardian,
            odd if odd % 2 == 1 => Self::Pmi((odd / 2) as usize),
            even => Self::Ended((even / 2 - 1) as usize),
        }
    }
}

/// Events that are taken at once. More are found at the next wait, which then does not wait.
const EVENTS: usize = 256;

/// The ranks of one node.
#[derive(Debug)]
pub(crate) struct Node {
    share: Share,
    job: JobMemory,
    server: Server,
    ranks: Vec<Rank>,
    guardian: Option<Guardian>,
    /// All that is waited for.
    epoll: OwnedFd,
    /// When the living are killed.
    kill_at: Option<Instant>,
}

impl Node {
    /// # Errors
    /// When the system has no space to wait for all of them; what was started is ended then.
    pub(crate) fn new(
        share: Share,
        job: JobMemory,
        server: Server,
        ranks: Vec<Started>,
        guardian: Guardian,
    ) -> Result<Self, LaunchError> {
        let pids: Vec<Pid> = ranks.iter().map(|rank| rank.pid).collect();
        let mark = sessions::Mark::of(job.node_id());
        match wait_for(&ranks, &guardian) {
            Ok(epoll) => {
                let ranks = ranks.into_iter().map(|rank| {
                    let pmi = Connection::new(rank.pmi);
                    Rank { pid: rank.pid, pidfd: rank.pidfd, pmi: Some(pmi), end: None }
                });
                let (ranks, guardian) = (ranks.collect(), Some(guardian));
                Ok(Self { share, job, server, ranks, guardian, epoll, kill_at: None })
            }
            Err(error) => {
                sessions::kill_all(&pids, &mark);
                drop(guardian);
                reap(&pids);
                Err(system("wait for the ranks")(error))
            }
        }
    }

    /// What to wait for: becomes readable when [`act`](Self::act) has something to do.
    pub(crate) fn interest(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Does what there is to do. Requests come before ends: a rank's last words are heard before
    /// its death.
    pub(crate) fn act(&mut self, reports: &mut Vec<Report>) {
        let mut events = Vec::with_capacity(EVENTS);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let found = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.epoll, found, Some(&now)).is_err() {
            // Interrupted: the owner waits again and finds the same.
            return;
        }
        let ready: Vec<Ready> = events.into_iter().map(|event| Ready::of(event.data)).collect();
        for what in &ready {
            if let Ready::Pmi(index) = *what {
                self.serve(index, reports);
            }
        }
        for what in ready {
            match what {
                Ready::Ended(index) => self.ended(index, reports),
                Ready::Guardian => {
                    if let Some(guardian) = &mut self.guardian {
                        // One word, then nothing more is heard of it.
                        let _ = epoll::delete(&self.epoll, guardian.pidfd());
                        guardian.has_ended();
                    }
                }
                Ready::Pmi(_) => {}
            }
        }
    }

    /// Waits for space in the connection of a rank, or does not any more.
    fn update(&mut self, index: usize) {
        if let Some(pmi) = &mut self.ranks[index].pmi
            && let Some(flags) = pmi.changed_interest()
        {
            let data = Ready::Pmi(index).data();
            if let Err(error) = epoll::modify(&self.epoll, pmi.socket(), data, flags) {
                tracing::warn!(%error, index, "cannot wait for a rank's connection");
            }
        }
    }

    /// When [`check_timers`](Self::check_timers) has something to do.
    pub(crate) fn next_poll(&self) -> Option<Instant> {
        self.kill_at
    }

    pub(crate) fn check_timers(&mut self, now: Instant) {
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill();
        }
    }

    /// Whether every rank has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.ranks.iter().all(|rank| rank.end.is_some())
    }

    /// Ranks of the whole job.
    pub(crate) fn size(&self) -> u32 {
        self.share.size
    }

    /// The processes, by local rank.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks.iter().map(|rank| rank.pid.as_raw_pid().unsigned_abs())
    }

    /// Asks the living to end, and kills them after `grace`.
    pub(crate) fn end(&mut self, grace: Duration) {
        let now = Instant::now();
        self.kill_at = Some(now.checked_add(grace).unwrap_or(now));
        self.signal_all(Signal::TERM);
        // A stopped process would not hear it.
        self.signal_all(Signal::CONT);
    }

    /// Kills the living and what they have started.
    pub(crate) fn kill(&mut self) {
        self.kill_at = None;
        let living = self.ranks.iter().filter(|rank| rank.end.is_none());
        sessions::kill_all(&living.map(|rank| rank.pid).collect::<Vec<_>>(), &self.mark());
    }

    pub(crate) fn signal_all(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| rank.end.is_none()) {
            // A group without members has ended; its end will be heard.
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    /// A rank of another node is dead.
    pub(crate) fn dead_elsewhere(&self, rank: u32) {
        self.job.mark_dead_elsewhere(rank);
    }

    /// What ranks have put for the other nodes since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.server.take_fresh()
    }

    /// What a rank of another node has put.
    pub(crate) fn merge(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.server.merge(key, value);
    }

    /// The barrier of the job is over.
    pub(crate) fn release(&mut self, reports: &mut Vec<Report>) {
        let mut events = Vec::new();
        self.server.release(&mut events);
        self.handle(&mut events, reports);
    }

    /// Every rank has ended: kills what they have left.
    pub(crate) fn sweep(&self) {
        sessions::kill_all(
            &self.ranks.iter().map(|rank| rank.pid).collect::<Vec<_>>(),
            &self.mark(),
        );
    }

    /// Leaves nothing: kills what is left, and reaps the ranks.
    pub(crate) fn finish(mut self) {
        let pids: Vec<Pid> = self.ranks.iter().map(|rank| rank.pid).collect();
        sessions::kill_all(&pids, &self.mark());
        drop(self.guardian.take());
        reap(&pids);
    }

    fn mark(&self) -> sessions::Mark {
        sessions::Mark::of(self.job.node_id())
    }

    fn world(&self, local: u32) -> u32 {
        self.share.first + local
    }

    /// Reads a rank's requests and answers them.
    fn serve(&mut self, index: usize, reports: &mut Vec<Report>) {
        let Some(pmi) = &mut self.ranks[index].pmi else {
            return;
        };
        let closed = pmi.flush().and_then(|()| pmi.fill()).unwrap_or(true);
        let mut events = Vec::new();
        loop {
            match self.ranks[index].pmi.as_mut().map(Connection::line) {
                Some(Ok(Some(line))) => self.server.line(index as u32, &line, &mut events),
                Some(Err(error)) => {
                    let what = error.to_string();
                    events.push(ServerEvent::Violation { rank: index as u32, what });
                }
                _ => break,
            }
            self.handle(&mut events, reports);
        }
        if closed {
            // Closing the descriptor ends the wait for it.
            self.ranks[index].pmi = None;
        }
        self.update(index);
        self.check_for_a_stuck_barrier(reports);
    }

    fn handle(&mut self, events: &mut Vec<ServerEvent>, reports: &mut Vec<Report>) {
        for event in events.drain(..) {
            match event {
                ServerEvent::Reply { rank, line } => {
                    let Some(pmi) = &mut self.ranks[rank as usize].pmi else {
                        continue;
                    };
                    let space = pmi.send(&line);
                    self.update(rank as usize);
                    if !space {
                        let what = "it reads none of the PMI-1 replies that it asks for";
                        self.misbehaved(rank, what.into(), reports);
                    }
                }
                ServerEvent::Abort { rank, code, message } => {
                    reports.push(Report::Aborted { rank: self.world(rank), code, message });
                }
                ServerEvent::Violation { rank, what } => {
                    let what = format!("instead of a PMI-1 request it sent {what}");
                    self.misbehaved(rank, what, reports);
                }
                ServerEvent::Left { rank } => reports.push(Report::Left { rank: self.world(rank) }),
                ServerEvent::AllIn => reports.push(Report::AllIn),
            }
        }
    }

    /// A rank that does not speak PMI-1 loses its connection, on which it would wait, and its
    /// life.
    fn misbehaved(&mut self, local: u32, what: String, reports: &mut Vec<Report>) {
        let rank = &mut self.ranks[local as usize];
        rank.pmi = None;
        let _ = kill_process_group(rank.pid, Signal::KILL);
        reports.push(Report::Misbehaved { rank: self.world(local), what });
    }

    fn check_for_a_stuck_barrier(&mut self, reports: &mut Vec<Report>) {
        if let Some((waiting, gone)) = self.server.stuck() {
            let (gone, waiting) = (self.world(gone), self.world(waiting));
            reports.push(Report::Stuck { gone, waiting });
        }
    }

    /// The process of a rank has ended.
    fn ended(&mut self, index: usize, reports: &mut Vec<Report>) {
        // What it said last may still be in the socket.
        self.serve(index, reports);
        let local = index as u32;
        let state = self.job.control(local).and_then(|control| control.state());
        let joined = self.server.is_open(local) || state == Some(RankState::Attached);
        let pidfd = self.ranks[index].pidfd.as_fd();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let end = match waitid(WaitId::PidFd(pidfd), options) {
            Ok(Some(status)) => RankEnd::of(&status, joined),
            Ok(None) | Err(Errno::INTR) => return,
            Err(_) => RankEnd::Unknown,
        };
        let rank = &mut self.ranks[index];
        rank.end = Some(end);
        rank.pmi = None;
        // Its pidfd stays open, and readable, until it is reaped.
        let _ = epoll::delete(&self.epoll, &rank.pidfd);
        if end.is_failure() {
            // Before anything else, and long before it is reaped.
            self.job.mark_dead(local);
        }
        let mut events = Vec::new();
        self.server.gone(local, end.is_failure(), &mut events);
        reports.push(Report::Ended { rank: self.world(local), end });
        self.handle(&mut events, reports);
        self.check_for_a_stuck_barrier(reports);
    }
}
