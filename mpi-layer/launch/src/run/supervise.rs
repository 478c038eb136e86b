//! The launcher's loop: one `poll` over the ranks' pidfds and PMI connections, the signals and
//! the terminal.
//!
//! # Phases
//!
//! ```text
//!   Running ──first failure (Abort), abort request, time-out──► Ending ──grace over──► Killed
//!      └──second SIGINT──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! 1. In `Running` the job goes on, whatever has failed before (`OnFailure::Continue`).
//! 2. In `Ending` every living rank was sent SIGTERM; in `Killed` its session was killed.
//! 3. Only what happens in `Running` can be the job's failure: deaths afterwards are our doing.
//! 4. A rank that ends without having left the job is marked dead in the job's memory before it
//!    is reaped; it is reaped when the whole job has ended.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use bowline_base::job::{JobMemory, RankState};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::connection::Connection;
use super::end::{Failure, RankEnd, signal_name};
use super::signals::Signals;
use super::spawn::{StartedJob, reap};
use super::{ExitReport, LaunchError, OnFailure, RunOptions, sessions, system};
use crate::pmi::{Event, Server};

/// Exit code of a job that ran out of time, as `timeout` has it.
const TIMED_OUT: i32 = 124;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Ending { kill_at: Instant },
    Killed,
}

#[derive(Debug)]
struct Rank {
    pid: Pid,
    pidfd: OwnedFd,
    pmi: Option<Connection>,
    end: Option<RankEnd>,
}

/// What was waited for and has come.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Signal,
    Terminal,
    Pmi(usize),
    Ended(usize),
}

#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    options: &'a RunOptions,
    job: JobMemory,
    signals: Signals,
    started: StartedJob,
    server: Server,
    ranks: Vec<Rank>,
    phase: Phase,
    deadline: Option<Instant>,
    interrupted: bool,
    failure: Option<Failure>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        options: &'a RunOptions,
        job: JobMemory,
        signals: Signals,
        mut started: StartedJob,
        secret: &[u8; 32],
    ) -> Self {
        let ranks = started.ranks.drain(..).map(|rank| {
            let pmi = Connection::new(rank.pmi);
            Rank { pid: rank.pid, pidfd: rank.pidfd, pmi: Some(pmi), end: None }
        });
        let mut server = Server::new(options.ranks, crate::bootstrap::env::kvsname(job.id()));
        server.preset(crate::bootstrap::secret::KEY, secret);
        Self {
            options,
            signals,
            ranks: ranks.collect(),
            started,
            server,
            job,
            phase: Phase::Running,
            // A time beyond what the clock can count is no limit.
            deadline: options.timeout.and_then(|limit| Instant::now().checked_add(limit)),
            interrupted: false,
            failure: None,
        }
    }

    pub(super) fn run(mut self) -> Result<ExitReport, LaunchError> {
        let outcome = self.supervise();
        // Whatever has happened, nothing of the job stays.
        let pids: Vec<Pid> = self.ranks.iter().map(|rank| rank.pid).collect();
        sessions::kill_all(&pids);
        drop(self.started.guardian);
        reap(&pids);
        if let Some(output) = self.started.output {
            output.finish();
        }
        outcome?;
        Ok(ExitReport {
            code: self.failure.as_ref().map_or(0, |failure| failure.code),
            failure: self.failure,
            ends: self.ranks.iter().map(|rank| rank.end.unwrap_or(RankEnd::Unknown)).collect(),
        })
    }

    fn supervise(&mut self) -> Result<(), LaunchError> {
        while self.ranks.iter().any(|rank| rank.end.is_none()) {
            let ready = self.wait()?;
            // Requests come before ends: a rank's last words are heard before its death.
            for what in &ready {
                match *what {
                    Ready::Signal => self.pass_signals_on(),
                    Ready::Terminal => {
                        if let Some(terminal) = &mut self.started.terminal {
                            terminal.step();
                        }
                    }
                    Ready::Pmi(rank) => self.serve(rank),
                    Ready::Ended(_) => {}
                }
            }
            for what in ready {
                if let Ready::Ended(rank) = what {
                    self.ended(rank);
                }
            }
            self.look_at_the_clock();
        }
        Ok(())
    }

    fn wait(&self) -> Result<Vec<Ready>, LaunchError> {
        let mut what = vec![Ready::Signal];
        let mut fds = vec![PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
        let interest = self.started.terminal.as_ref().map(|terminal| terminal.interest());
        if let Some(Some((fd, flags))) = interest {
            what.push(Ready::Terminal);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        for (index, rank) in self.ranks.iter().enumerate() {
            if let Some(pmi) = &rank.pmi {
                what.push(Ready::Pmi(index));
                fds.push(pmi.interest());
            }
            if rank.end.is_none() {
                what.push(Ready::Ended(index));
                fds.push(PollFd::from_borrowed_fd(rank.pidfd.as_fd(), PollFlags::IN));
            }
        }
        let in_background = matches!(interest, Some(None));
        match poll(&mut fds, self.patience(in_background).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(system("wait for the ranks")(error)),
        }
        let ready = what.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(what, _)| what).collect())
    }

    /// How long to wait at most.
    fn patience(&self, in_background: bool) -> Option<rustix::time::Timespec> {
        let kill_at = match self.phase {
            Phase::Ending { kill_at } => Some(kill_at),
            _ => None,
        };
        let deadline = self.deadline.filter(|_| self.phase == Phase::Running);
        let next = [kill_at, deadline].into_iter().flatten().min();
        let left = next.map(|at| at.saturating_duration_since(Instant::now()));
        // Nothing tells when the launcher comes to the terminal's foreground; it looks.
        let look = in_background.then_some(Duration::from_secs(1));
        let wait = [left, look].into_iter().flatten().min()?;
        Some(rustix::time::Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        })
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        match self.phase {
            Phase::Running if self.deadline.is_some_and(|at| at <= now) => {
                let limit = self.options.timeout.unwrap_or_default();
                self.fail(Failure {
                    rank: None,
                    code: TIMED_OUT,
                    sentence: format!("the job has not ended within {limit:?}, its time limit"),
                });
                self.end_job();
            }
            Phase::Ending { kill_at } if kill_at <= now => self.kill_job(),
            _ => {}
        }
    }

    /// Notes and tells the first failure.
    fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() && self.phase == Phase::Running {
            eprintln!("bowline: {}", failure.sentence);
            self.failure = Some(failure);
        }
    }

    fn rank_failed(&mut self, failure: Failure) {
        self.fail(failure);
        if self.options.on_failure == OnFailure::Abort {
            self.end_job();
        }
    }

    /// Asks everybody to end.
    fn end_job(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        let now = Instant::now();
        let kill_at = now.checked_add(self.options.grace).unwrap_or(now);
        self.phase = Phase::Ending { kill_at };
        self.signal_all(Signal::TERM);
        // A stopped process would not hear it.
        self.signal_all(Signal::CONT);
    }

    fn kill_job(&mut self) {
        self.phase = Phase::Killed;
        let living = self.ranks.iter().filter(|rank| rank.end.is_none());
        sessions::kill_all(&living.map(|rank| rank.pid).collect::<Vec<_>>());
    }

    fn signal_all(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| rank.end.is_none()) {
            // A group without members has ended; its end will be heard.
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    fn pass_signals_on(&mut self) {
        while let Some(number) = self.signals.next() {
            match number {
                libc::SIGTSTP => self.stop(),
                libc::SIGINT if self.interrupted => {
                    self.fail(Failure {
                        rank: None,
                        code: 128 + number,
                        sentence: "the job was killed by a second SIGINT".into(),
                    });
                    self.kill_job();
                }
                _ => {
                    self.interrupted |= number == libc::SIGINT;
                    tracing::debug!(signal = signal_name(number), "passing a signal on");
                    if let Some(signal) = Signal::from_named_raw(number) {
                        self.signal_all(signal);
                    }
                }
            }
        }
    }

    /// Stops the job and the launcher; goes on when the launcher is continued.
    fn stop(&self) {
        self.signal_all(Signal::STOP);
        let stopped = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
        if let Err(error) = stopped {
            tracing::warn!(%error, "cannot stop the launcher");
        }
        self.signal_all(Signal::CONT);
    }

    /// Reads a rank's requests and answers them.
    fn serve(&mut self, rank: usize) {
        let Some(pmi) = &mut self.ranks[rank].pmi else {
            return;
        };
        let closed = pmi.flush().and_then(|()| pmi.fill()).unwrap_or(true);
        let mut events = Vec::new();
        loop {
            match self.ranks[rank].pmi.as_mut().map(Connection::line) {
                Some(Ok(Some(line))) => self.server.line(rank as u32, &line, &mut events),
                Some(Err(error)) => {
                    let what = error.to_string();
                    events.push(Event::Violation { rank: rank as u32, what });
                }
                _ => break,
            }
            self.handle(&mut events);
        }
        if closed {
            self.ranks[rank].pmi = None;
        }
        self.look_for_a_stuck_barrier();
    }

    fn handle(&mut self, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            match event {
                Event::Reply { rank, line } => {
                    let Some(pmi) = &mut self.ranks[rank as usize].pmi else {
                        continue;
                    };
                    if !pmi.send(&line) {
                        self.violation(rank, "it reads none of the PMI-1 replies that it asks for");
                    }
                }
                Event::Abort { rank, code, message } => {
                    let pid = self.pid(rank);
                    let what = match message.as_str() {
                        "" => format!("has aborted the job with code {code}"),
                        message => format!("has aborted the job with code {code}: {message}"),
                    };
                    self.fail(Failure::of_rank(rank, pid, code, what));
                    self.end_job();
                }
                Event::Violation { rank, what } => {
                    self.violation(rank, &format!("instead of a PMI-1 request it sent {what}"));
                }
            }
        }
    }

    /// A rank that does not speak PMI-1 loses its connection, on which it would wait, and its
    /// life.
    fn violation(&mut self, rank: u32, what: &str) {
        self.ranks[rank as usize].pmi = None;
        let pid = self.pid(rank);
        self.rank_failed(Failure::of_rank(rank, pid, 1, format!("was ended: {what}")));
        let _ = kill_process_group(self.ranks[rank as usize].pid, Signal::KILL);
    }

    fn look_for_a_stuck_barrier(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        if let Some((waiting, gone)) = self.server.stuck() {
            let what = format!("has left the job while rank {waiting} waits for it in a barrier");
            let failure = Failure::of_rank(gone, self.pid(gone), 1, what);
            self.fail(failure);
            // Those who wait would wait for ever, whatever the user wants of failures.
            self.end_job();
        }
    }

    /// The process of a rank has ended.
    fn ended(&mut self, index: usize) {
        // What it said last may still be in the socket.
        self.serve(index);
        let rank = index as u32;
        let state = self.job.control(rank).and_then(|control| control.state());
        let joined = self.server.is_open(rank) || state == Some(RankState::Attached);
        let pidfd = self.ranks[index].pidfd.as_fd();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let end = match waitid(WaitId::PidFd(pidfd), options) {
            Ok(Some(status)) => RankEnd::of(&status, joined),
            Ok(None) | Err(Errno::INTR) => return,
            Err(_) => RankEnd::Unknown,
        };
        self.ranks[index].end = Some(end);
        self.ranks[index].pmi = None;
        if end.is_failure() {
            // Before anything else, and long before it is reaped.
            self.job.mark_dead(rank);
        }
        let mut events = Vec::new();
        self.server.gone(rank, end.is_failure(), &mut events);
        if end.is_failure() {
            let failure = Failure::of_rank(rank, self.pid(rank), end.code(), end);
            self.rank_failed(failure);
        }
        self.handle(&mut events);
        self.look_for_a_stuck_barrier();
    }

    fn pid(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].pid.as_raw_pid().unsigned_abs()
    }
}
