//! The launcher of a job on several hosts: an agent on each, one loop over all of them. What
//! happens is judged by the [`Policy`], whose orders go to every agent.
//!
//! The life of a host's connection:
//!
//! ```text
//!   Greeting ──Hello──► Greeted ──Go──► Starting ──Started, for each rank──► Running ──► Done
//!      │                   │              ├──Refused──► Done                    │ (Done)
//!      └───────────────────┴──────────────┴───── closed, silent, nonsense ──────┴──► lost
//! ```
//!
//! 1. Everything that an agent sends is checked: ranks are of its own, end once, and send no more
//!    output than was granted. An agent that does otherwise is lost.
//! 2. The ranks of all hosts are started when all hosts have greeted or are lost: by then it
//!    is known which hosts are one machine and share its processors (see `processors`). An order
//!    that comes before, for instance because a host is lost, does not wait for that: everybody is
//!    ordered to start at once, those that have not greeted without binding, and then to obey.
//! 3. A lost host's ranks are dead. Its command is killed; whether the processes there still run
//!    cannot be known, but their agent ends them when it hears nothing from here.
//! 4. A barrier is over when every host has said that its living ranks wait, or has none.
//! 5. The loop ends when every host is done or lost. Then all get a goodbye.

mod input;
mod output;
mod remote;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::node::Report;
use super::place::place;
use super::policy::{Order, Policy};
use super::processors::{Machine, assign, from_bits};
use super::signals::Signals;
use super::supervise::{patience, stop_launcher};
use super::{Bind, ExitReport, LaunchError, RankEnd, RunOptions, system};
use crate::pmi::NodeMapping;
use crate::protocol::channel::Broken;
use crate::protocol::wire::{FromAgent, ToAgent};
use input::HostInput;
use output::{Piece, Writer};
use remote::{Remote, Stage};

/// Bytes of keys and values that a job may publish in one barrier.
const PUTS_MAX: usize = 256 << 20;

/// Time for the agents to leave after the goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// Runs a job on the hosts of `options`.
pub(super) fn run(
    options: &RunOptions,
    size: u32,
    job_id: u64,
    secret: &[u8; 32],
) -> Result<ExitReport, LaunchError> {
    let placed = place(&options.hosts, size)?;
    let used: Vec<u32> = placed.iter().copied().filter(|ranks| *ranks > 0).collect();
    let mapping = NodeMapping::in_blocks(&used).to_string();
    let signals = Signals::block()?;
    let mut policy = Policy::new(options, size, Instant::now());
    let mut remotes: Vec<Remote> = Vec::new();
    let mut first = 0;
    for (host, ranks) in options.hosts.iter().zip(placed).filter(|(_, ranks)| *ranks > 0) {
        let range = first..first + ranks;
        first = range.end;
        policy.runs_on(range.clone(), &host.name);
        match Remote::start(options, &host.name, range, &signals) {
            Ok(mut remote) => {
                remote.describe(options, size, job_id, secret, &mapping);
                remotes.push(remote);
            }
            Err(error) => {
                remotes.iter_mut().for_each(Remote::kill);
                return Err(error);
            }
        }
    }
    let output = Writer::start(options.label);
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            remotes.iter_mut().for_each(Remote::kill);
            return Err(error);
        }
    };
    let head = Head {
        policy,
        remotes,
        signals,
        output,
        input: HostInput::new(),
        puts: Vec::new(),
        put_bytes: 0,
        grace: options.grace,
        bind: options.bind,
        has_started: false,
    };
    head.run()
}

struct Head {
    policy: Policy,
    remotes: Vec<Remote>,
    signals: Signals,
    output: Writer,
    input: HostInput,
    /// What ranks have put since the last barrier, and how many bytes that is.
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    put_bytes: usize,
    grace: Duration,
    bind: Option<Bind>,
    /// The ranks were ordered to start.
    has_started: bool,
}

impl Head {
    fn run(mut self) -> Result<ExitReport, LaunchError> {
        let outcome = self.supervise();
        self.say_goodbye();
        self.remotes.iter_mut().for_each(Remote::kill);
        self.output.finish();
        outcome?;
        // A reader that left as the job ended has all it wanted.
        if let Some(error) = self.output.failure()
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.policy.unwritten(&error);
        }
        Ok(ExitReport::of(self.policy))
    }

    fn supervise(&mut self) -> Result<(), LaunchError> {
        let mut orders = Vec::new();
        while self.remotes.iter().any(Remote::is_open) {
            self.wait()?;
            while let Some(number) = self.signals.next() {
                self.policy.signal(number, &mut orders);
            }
            for index in 0..self.remotes.len() {
                self.listen(index, &mut orders);
            }
            self.policy.check_timers(Instant::now(), &mut orders);
            for (index, bytes) in self.output.written() {
                self.remotes[index].grant(bytes);
            }
            if let Some(error) = self.output.failure() {
                match error.kind() {
                    io::ErrorKind::BrokenPipe => self.policy.nobody_reads(&mut orders),
                    _ => {
                        self.policy.unwritten(&error);
                        self.policy.end_job(&mut orders);
                    }
                }
            }
            // Ranks are consecutive, so rank 0 runs on the first host.
            self.input.step(&mut self.remotes[0]);
            self.check_start(&orders);
            self.obey(&mut orders);
            self.check_barrier(&mut orders);
            self.obey(&mut orders);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), LaunchError> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.output.progress(), PollFlags::IN),
        ];
        let mut next = self.policy.next_poll();
        for remote in &self.remotes {
            next = remote.interest(&mut fds).into_iter().chain(next).min();
        }
        let input = self.input.interest(&self.remotes[0]);
        let recheck = matches!(input, Some(None)).then_some(Duration::from_secs(1));
        if let Some(Some(fd)) = input {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        match poll(&mut fds, patience(next, recheck).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(system("wait for the agents")(error)),
        }
        let ready = !fds.last().expect("there are two at least").revents().is_empty();
        self.input.may_read(matches!(input, Some(Some(_))) && ready);
        Ok(())
    }

    /// Reads what an agent has sent.
    fn listen(&mut self, index: usize, orders: &mut Vec<Order>) {
        let mut outcome = self.remotes[index].receive();
        while outcome.is_ok() {
            match self.remotes[index].next() {
                Ok(Some(message)) => outcome = self.take(index, message, orders),
                Ok(None) => break,
                Err(broken) => outcome = Err(broken),
            }
        }
        let outcome = outcome.and_then(|()| self.remotes[index].speak());
        if let Err(broken) = outcome {
            self.lose(index, &broken, orders);
        }
    }

    fn take(
        &mut self,
        index: usize,
        message: FromAgent,
        orders: &mut Vec<Order>,
    ) -> Result<(), Broken> {
        let remote = &mut self.remotes[index];
        let own = |rank: u32| match remote.ranks.contains(&rank) {
            true => Ok(rank),
            false => Err(Broken::Unexpected("a rank that is not its own")),
        };
        match (remote.stage, message) {
            (_, FromAgent::Alive) => {}
            (Stage::Greeting, FromAgent::Hello { boot, cpus }) => {
                remote.greeted(Machine { boot, cpus: from_bits(&cpus) });
            }
            (Stage::Greeting, FromAgent::OtherVersion { .. }) => {
                return Err(Broken::Unexpected(
                    "the greeting of another version; install the same Bowline on all hosts",
                ));
            }
            (Stage::Starting { .. }, FromAgent::Refused { code, why }) => {
                let (host, ranks) = (remote.host.clone(), remote.ranks.clone());
                remote.stage = Stage::Done;
                self.policy.refused(&host, ranks, code, &why, orders);
            }
            (Stage::Starting { .. }, FromAgent::Started { rank, pid }) => {
                self.policy.runs_as(own(rank)?, pid);
                remote.started()?;
            }
            (Stage::Running, FromAgent::Ended { rank, how, code }) => {
                if self.policy.has_ended(own(rank)?) {
                    return Err(Broken::Unexpected("a rank's end a second time"));
                }
                let end = RankEnd::from_wire(how, code);
                self.policy.on_report(Report::Ended { rank, end }, orders);
            }
            (Stage::Running, FromAgent::Aborted { rank, code, message }) => {
                let rank = own(rank)?;
                self.policy.on_report(Report::Aborted { rank, code, message }, orders);
            }
            (Stage::Running, FromAgent::Misbehaved { rank, what }) => {
                let rank = own(rank)?;
                self.policy.on_report(Report::Misbehaved { rank, what }, orders);
            }
            (Stage::Running, FromAgent::Stuck { gone, waiting }) => {
                let (gone, waiting) = (own(gone)?, own(waiting)?);
                self.policy.on_report(Report::Stuck { gone, waiting }, orders);
            }
            (Stage::Running, FromAgent::Left { rank }) => {
                let rank = own(rank)?;
                // A rank leaves once, so there are no more of these than ranks.
                if !remote.left.insert(rank) {
                    return Err(Broken::Unexpected("that a rank has left, a second time"));
                }
            }
            (Stage::Running, FromAgent::Put { key, value }) => {
                self.put_bytes += key.len() + value.len();
                if self.put_bytes > PUTS_MAX {
                    return Err(Broken::Unexpected("more keys and values than a barrier may have"));
                }
                self.puts.push((key, value));
            }
            (Stage::Running, FromAgent::AllIn) => remote.all_in = true,
            (Stage::Running, FromAgent::Output { rank, is_error, bytes }) => {
                let rank = own(rank)?;
                remote.spend(bytes.len())?;
                self.output.write(Piece { remote: index, rank, is_error, bytes });
            }
            (Stage::Running, FromAgent::InputTaken(bytes)) => {
                if index != 0 || !self.input.taken(bytes) {
                    return Err(Broken::Unexpected("that it has taken input which it did not get"));
                }
            }
            (Stage::Running, FromAgent::Done) => {
                if remote.ranks.clone().any(|rank| !self.policy.has_ended(rank)) {
                    return Err(Broken::Unexpected("that it is done while a rank runs"));
                }
                remote.stage = Stage::Done;
            }
            _ => return Err(Broken::Unexpected("a message at the wrong time")),
        }
        Ok(())
    }

    /// A host is of no use any more.
    fn lose(&mut self, index: usize, broken: &Broken, orders: &mut Vec<Order>) {
        let remote = &mut self.remotes[index];
        let why = remote.reason(broken);
        let (host, ranks) = (remote.host.clone(), remote.ranks.clone());
        remote.kill();
        self.policy.lost(&host, ranks, &why, orders);
    }

    /// Has the ranks started when all hosts have greeted, or when there are orders, which come
    /// after that.
    fn check_start(&mut self, orders: &[Order]) {
        let greets = |remote: &Remote| remote.is_open() && remote.stage == Stage::Greeting;
        if self.has_started || (orders.is_empty() && self.remotes.iter().any(greets)) {
            return;
        }
        self.has_started = true;
        let hosts: Vec<(Machine, u32)> = self.remotes.iter().map(Remote::machine).collect();
        for (remote, cpus) in self.remotes.iter_mut().zip(assign(self.bind, &hosts)) {
            remote.go(cpus);
        }
    }

    fn obey(&mut self, orders: &mut Vec<Order>) {
        for order in orders.drain(..) {
            let message = match order {
                Order::Signal(number) => ToAgent::Signal(number),
                Order::End => {
                    ToAgent::End { grace_ms: self.grace.as_millis().try_into().unwrap_or(u64::MAX) }
                }
                Order::Kill => ToAgent::Kill,
                Order::Dead(rank) => {
                    for remote in self.remotes.iter_mut().filter(|r| !r.ranks.contains(&rank)) {
                        remote.send(&ToAgent::Dead { rank });
                    }
                    continue;
                }
                Order::Stop => {
                    self.stop();
                    continue;
                }
            };
            self.remotes.iter_mut().for_each(|remote| remote.send(&message));
        }
        // An error here is found again when the agent is listened to.
        self.remotes.iter_mut().for_each(Remote::flush);
    }

    /// Stops ranks and launcher. The agents are notified, since they would take a launcher that says
    /// nothing for a lost one.
    fn stop(&mut self) {
        self.remotes.iter_mut().for_each(|remote| remote.send(&ToAgent::Stop));
        self.flush_all(Instant::now() + Duration::from_secs(1));
        stop_launcher();
        for remote in &mut self.remotes {
            remote.forgive();
            remote.send(&ToAgent::Signal(libc::SIGCONT));
        }
    }

    /// Waits until everything was sent, or until `until`.
    fn flush_all(&mut self, until: Instant) {
        loop {
            self.remotes.iter_mut().for_each(Remote::flush);
            let unsent = self.remotes.iter().any(|remote| !remote.is_flushed());
            if !unsent || Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends a barrier that is complete, or the job when it cannot be.
    fn check_barrier(&mut self, orders: &mut Vec<Order>) {
        let Some(waiting) = self.remotes.iter().find(|r| r.is_open() && r.all_in) else {
            return;
        };
        let waiting = waiting.ranks.clone().find(|rank| !self.policy.has_ended(*rank));
        let has_left = |rank: &u32| {
            self.remotes.iter().any(|remote| remote.left.contains(rank))
                || self.policy.end_of(*rank) == Some(RankEnd::Exited(0))
        };
        let size = self.remotes.last().map_or(0, |remote| remote.ranks.end);
        if let (Some(waiting), Some(gone)) = (waiting, (0..size).find(has_left)) {
            return self.policy.on_report(Report::Stuck { gone, waiting }, orders);
        }
        let is_in = |remote: &Remote| {
            remote.all_in || remote.ranks.clone().all(|rank| self.policy.has_ended(rank))
        };
        if !self.remotes.iter().all(is_in) {
            return;
        }
        // Written once for all hosts.
        let mut frames = Vec::with_capacity(self.put_bytes);
        for (key, value) in std::mem::take(&mut self.puts) {
            ToAgent::Put { key, value }.encode(&mut frames);
        }
        self.put_bytes = 0;
        let frames: Arc<[u8]> = frames.into();
        for remote in &mut self.remotes {
            remote.all_in = false;
            remote.send_all(&frames);
            remote.send(&ToAgent::BarrierOut);
        }
    }

    /// Lets the agents know that the job is over and waits a while for their commands to end.
    fn say_goodbye(&mut self) {
        let until = Instant::now() + GOODBYE;
        self.remotes.iter_mut().for_each(|remote| remote.send(&ToAgent::Bye));
        self.flush_all(until);
        while Instant::now() < until && self.remotes.iter_mut().any(|r| !r.has_left()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
