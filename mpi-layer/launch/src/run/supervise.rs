//! The launcher's loop on one machine: one `poll` over the ranks, the signals and the terminal.
//! What happens is judged by the [`Policy`], whose orders the [`Node`] carries out.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::end::signal_name;
use super::node::{Node, Report};
use super::output::Output;
use super::policy::{Order, Policy};
use super::signals::Signals;
use super::stdin::TerminalInput;
use super::{ExitReport, LaunchError, RunOptions, system};

#[derive(Debug)]
pub(super) struct Supervisor {
    policy: Policy,
    node: Node,
    signals: Signals,
    output: Option<Output>,
    terminal: Option<TerminalInput>,
    grace: Duration,
}

impl Supervisor {
    pub(super) fn new(
        options: &RunOptions,
        node: Node,
        signals: Signals,
        output: Option<Output>,
        terminal: Option<TerminalInput>,
    ) -> Self {
        let mut policy = Policy::new(options, node.size(), Instant::now());
        for (rank, pid) in (0..).zip(node.pids()) {
            policy.runs_as(rank, pid);
        }
        Self { policy, node, signals, output, terminal, grace: options.grace }
    }

    pub(super) fn run(mut self) -> Result<ExitReport, LaunchError> {
        let outcome = self.supervise();
        // Whatever has happened, nothing of the job stays.
        self.node.finish();
        let unwritten = self.output.and_then(Output::finish);
        outcome?;
        if let Some(error) = unwritten {
            self.policy.unwritten(&error);
        }
        Ok(ExitReport::of(self.policy))
    }

    fn supervise(&mut self) -> Result<(), LaunchError> {
        let mut reports = Vec::new();
        let mut orders = Vec::new();
        while !self.policy.is_over() {
            let ready = self.wait()?;
            while let Some(number) = self.signals.next() {
                self.policy.signal(number, &mut orders);
            }
            self.obey(&mut orders);
            if ready.terminal
                && let Some(terminal) = &mut self.terminal
            {
                terminal.step();
            }
            if ready.node {
                self.node.act(&mut reports);
            }
            self.judge(&mut reports, &mut orders);
            self.obey(&mut orders);
            let now = Instant::now();
            self.policy.check_timers(now, &mut orders);
            self.node.check_timers(now);
            self.obey(&mut orders);
        }
        Ok(())
    }

    fn judge(&mut self, reports: &mut Vec<Report>, orders: &mut Vec<Order>) {
        for report in reports.drain(..) {
            self.policy.on_report(report, orders);
        }
    }

    fn obey(&mut self, orders: &mut Vec<Order>) {
        for order in orders.drain(..) {
            match order {
                Order::Signal(number) => {
                    tracing::debug!(signal = signal_name(number), "passing a signal on");
                    if let Some(signal) = Signal::from_named_raw(number) {
                        self.node.signal_all(signal);
                    }
                }
                Order::Stop => {
                    self.node.signal_all(Signal::STOP);
                    stop_launcher();
                    self.node.signal_all(Signal::CONT);
                }
                Order::End => self.node.end(self.grace),
                Order::Kill => self.node.kill(),
                // The only node has marked it.
                Order::Dead(_) => {}
            }
        }
    }

    fn wait(&self) -> Result<Waited, LaunchError> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
        let interest = self.terminal.as_ref().map(|terminal| terminal.interest());
        let terminal = matches!(interest, Some(Some(_)));
        if let Some(Some((fd, flags))) = interest {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        fds.push(PollFd::from_borrowed_fd(self.node.interest(), PollFlags::IN));
        // Nothing reports when the launcher comes to the terminal's foreground; it polls.
        let recheck = matches!(interest, Some(None)).then_some(Duration::from_secs(1));
        let next = [self.policy.next_poll(), self.node.next_poll()].into_iter().flatten().min();
        match poll(&mut fds, patience(next, recheck).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(system("wait for the ranks")(error)),
        }
        let came = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let node = came(fds.last().expect("the node is the last"));
        Ok(Waited { terminal: terminal && came(&fds[1]), node })
    }
}

/// What has come.
struct Waited {
    terminal: bool,
    node: bool,
}

/// How long to wait at most: until `next`, and not longer than `recheck`.
pub(crate) fn patience(
    next: Option<Instant>,
    recheck: Option<Duration>,
) -> Option<rustix::time::Timespec> {
    let left = next.map(|at| at.saturating_duration_since(Instant::now()));
    let wait = [left, recheck].into_iter().flatten().min()?;
    Some(rustix::time::Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    })
}

/// Stops this process; returns when it is continued.
pub(super) fn stop_launcher() {
    let stopped = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
    if let Err(error) = stopped {
        tracing::warn!(%error, "cannot stop the launcher");
    }
}
