//! The agent: starts and watches the ranks of one host for a launcher on another.
//!
//! ```text
//!   launcher                          agent (`bowline agent`, by ssh or another command)
//!      │ ◄──────────── Hello ────────── │
//!      │ ── Spec, Part, Program, ... ─► │
//!      │ ── Go, when all have greeted ► │  reserves the node's memory, starts the ranks
//!      │ ◄─── Started, for each rank ── │
//!      │ ◄── Output, Put, AllIn, Ended  │  Running: what happens is reported, orders are carried out
//!      │ ── Put, Release, Dead, End ──► │
//!      │ ◄──────────── Done ─────────── │  every rank has ended, all output was sent
//!      │ ───────────── Bye ───────────► │  reaps them and leaves
//! ```
//!
//! 1. The connection is the agent's standard input and output; nothing listens anywhere.
//! 2. Both sides speak at least four times in the time of silence that the launcher has chosen. An
//!    agent that hears nothing for so long, or finds the connection closed, kills its ranks and
//!    leaves. A launcher that is stopped says so before (`Stop`).
//! 3. Keys and values that ranks put stay on their node until the next barrier. Then every agent
//!    sends what is new, and the launcher sends all of it to all.
//! 4. Output is sent as far as the launcher has granted credit: a reader that is slow stops the
//!    ranks that write, not the agent.
//! 5. The agent decides nothing about the job. It marks its own dead at once and the dead of other
//!    nodes when it gets the order.
//!
//! [`wire`] has the messages. If the agent itself is killed, its guardian kills the ranks.

mod flow;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use bowline_base::job::{JobMemory, JobSpec};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::bootstrap::{env::kvsname, secret};
use crate::pmi::{NodeMapping, Server};
use crate::protocol::PATIENCE_AT_START;
use crate::protocol::channel::{Broken, Channel};
use crate::protocol::wire::{self, FromAgent, Spec, ToAgent};
use crate::run::guardian::Guardian;
use crate::run::node::{Node, Report};
use crate::run::processors::{self, Machine};
use crate::run::signals::Signals;
use crate::run::spawn::{self, Input, Share};
use crate::run::supervise::patience;
use crate::run::{JobPart, LaunchError, RunOptions};
use flow::{Inflow, Outflow};

/// Serves one job on the standard streams; returns the exit code for the process.
///
/// The thread that calls it must live as long as the job, as for [`run`](crate::run::run).
pub fn serve() -> i32 {
    if rustix::termios::isatty(rustix::stdio::stdout()) {
        eprintln!("bowline: an agent is started by `bowline run --hosts`, not by hand");
        return 2;
    }
    match converse() {
        Ok(()) => 0,
        Err(Failed::Launcher(broken)) => {
            eprintln!("bowline: agent: the launcher is lost, its ranks here are ended: {broken}");
            1
        }
        Err(Failed::Asked(number)) => {
            eprintln!("bowline: agent: ended by signal {number}, and the ranks here with it");
            128 + number
        }
        Err(Failed::Here(error)) => {
            eprintln!("bowline: agent: {error}");
            error.code()
        }
    }
}

/// Why an agent leaves before its job is over.
enum Failed {
    Launcher(Broken),
    /// By a signal.
    Asked(i32),
    Here(LaunchError),
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        Self::Launcher(broken)
    }
}

impl From<LaunchError> for Failed {
    fn from(error: LaunchError) -> Self {
        Self::Here(error)
    }
}

fn converse() -> Result<(), Failed> {
    let signals = Signals::block()?;
    let (input, output) = take_streams()?;
    let mut channel = Channel::new(input, output, PATIENCE_AT_START).map_err(Broken::from)?;
    let Machine { boot, cpus } = Machine::own()?;
    let hello = FromAgent::Hello { boot, cpus: processors::to_bits(&cpus) };
    channel.send(|out| hello.encode(out));
    let (spec, options, cpus) = hear_spec(&mut channel, &signals)?;
    channel.set_silence(Duration::from_millis(spec.silence_ms).max(Duration::from_millis(100)));
    match start(&spec, &options, &cpus, &signals) {
        Ok((node, outflow, inflow)) => {
            let mut agent = Agent { channel, signals, node, outflow, inflow, is_done: false };
            agent.introduce(spec.first);
            let outcome = agent.run();
            agent.node.finish();
            outcome
        }
        Err(error) => {
            let refused = FromAgent::Refused { code: error.code(), why: error.to_string() };
            channel.send(|out| refused.encode(out));
            // The launcher closes the connection when it has read that.
            loop {
                let message = hear(&mut channel, &signals)?;
                if matches!(message, ToAgent::Bye) {
                    return Ok(());
                }
            }
        }
    }
}

/// The connection, taken from the standard streams; what else prints to the standard output goes
/// to the standard error stream from now on.
fn take_streams() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    let failed = |act| crate::run::system(act);
    let duplicate = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    let input = duplicate(rustix::stdio::stdin()).map_err(failed("take the standard input"))?;
    let output = duplicate(rustix::stdio::stdout()).map_err(failed("take the standard output"))?;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let null = rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty())
        .map_err(failed("open /dev/null"))?;
    rustix::stdio::dup2_stdin(&null).map_err(failed("replace the standard input"))?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())
        .map_err(failed("replace the standard output"))?;
    Ok((input, output))
}

/// The next message, before the ranks run.
fn hear(channel: &mut Channel, signals: &Signals) -> Result<ToAgent, Failed> {
    loop {
        if let Some(message) = channel.next(ToAgent::decode)? {
            return Ok(message);
        }
        channel.flush()?;
        let mut fds = vec![PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
        channel.interest(&mut fds);
        wait(&mut fds, channel.next_poll())?;
        asked_to_leave(signals)?;
        channel.fill()?;
        speak(channel)?;
    }
}

fn wait(fds: &mut [PollFd<'_>], until: Instant) -> Result<(), Failed> {
    match poll(fds, patience(Some(until), None).as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(crate::run::system("wait for the launcher")(error).into()),
    }
}

/// A signal that asks to end; others mean nothing to an agent.
fn asked_to_leave(signals: &Signals) -> Result<(), Failed> {
    while let Some(number) = signals.next() {
        if matches!(number, libc::SIGTERM | libc::SIGINT | libc::SIGHUP | libc::SIGQUIT) {
            return Err(Failed::Asked(number));
        }
    }
    Ok(())
}

/// Shows that this side lives and checks whether the other does.
fn speak(channel: &mut Channel) -> Result<(), Broken> {
    let now = Instant::now();
    channel.check_silence(now)?;
    if channel.should_speak(now) {
        channel.send(|out| FromAgent::Alive.encode(out));
    }
    channel.flush()
}

/// Hears what to do, up to `Go`, which has the processors.
fn hear_spec(
    channel: &mut Channel,
    signals: &Signals,
) -> Result<(Spec, RunOptions, Vec<u32>), Failed> {
    let ToAgent::Spec(spec) = hear(channel, signals)? else {
        return Err(Broken::Unexpected("something in front of what is to be done").into());
    };
    let consistent =
        spec.local > 0 && spec.first.checked_add(spec.local).is_some_and(|end| end <= spec.size);
    if !consistent {
        return Err(Broken::Unexpected("ranks that the job does not have").into());
    }
    let mut options = RunOptions::new(0, "");
    options.area_bytes = usize::try_from(spec.area_bytes).unwrap_or(usize::MAX);
    let mut for_all = Vec::new();
    let mut parts: Vec<JobPart> = Vec::new();
    loop {
        match (hear(channel, signals)?, parts.last_mut()) {
            (ToAgent::Part { ranks }, _) => {
                let mut part = JobPart::new(ranks, "");
                part.env.clone_from(&for_all);
                parts.push(part);
            }
            (ToAgent::Directory(path), Some(part)) => {
                part.directory = Some(OsString::from_vec(path).into());
            }
            (ToAgent::Program(path), Some(part)) => part.program = OsString::from_vec(path),
            (ToAgent::Arg(arg), Some(part)) => part.args.push(OsString::from_vec(arg)),
            (ToAgent::Env { name, value }, part) => {
                let env = part.map_or(&mut for_all, |part| &mut part.env);
                env.push((OsString::from_vec(name), OsString::from_vec(value)));
            }
            (ToAgent::Alive, _) => {}
            (ToAgent::Go { cpus }, Some(_)) => {
                let fits = cpus.is_empty() || cpus.len() == spec.local as usize;
                if !fits || cpus.iter().any(|cpu| *cpu as usize >= wire::SET_MAX * 8) {
                    return Err(Broken::Unexpected("processors that there are not").into());
                }
                options.take_parts(parts);
                if options.size().ok() != Some(spec.size) {
                    return Err(Broken::Unexpected("programs for another number of ranks").into());
                }
                return Ok((spec, options, cpus));
            }
            _ => return Err(Broken::Unexpected("an order before the ranks run").into()),
        }
    }
}

fn start(
    spec: &Spec,
    options: &RunOptions,
    cpus: &[u32],
    signals: &Signals,
) -> Result<(Node, Outflow, Inflow), LaunchError> {
    let mapping = NodeMapping::parse(&spec.mapping)
        .map_err(|error| LaunchError::Mapping(error.to_string()))?;
    let job_spec = JobSpec {
        job_id: spec.job_id,
        ranks: spec.local,
        first_rank: spec.first,
        area_bytes: options.area_bytes,
    };
    let job = JobMemory::create_memfd_of_node(&job_spec, spec.size)?;
    let guardian = Guardian::start(spec.local, job.node_id())?;
    let share = Share {
        first: spec.first,
        local: spec.local,
        size: spec.size,
        piped: true,
        input: if spec.input { Input::Piped } else { Input::Nothing },
    };
    let started = spawn::start_all(options, share, cpus, &job, signals, guardian)?;
    let mut server = Server::of_node(spec.local, spec.size, &mapping, kvsname(spec.job_id));
    server.programs(options.numbers(spec.first..spec.first + spec.local));
    server.preset(secret::KEY, &spec.secret.0);
    let node = Node::new(share, job, server, started.ranks, started.guardian)?;
    let flows =
        Outflow::new(started.streams).and_then(|out| Ok((out, Inflow::new(started.input)?)));
    match flows {
        Ok((outflow, inflow)) => Ok((node, outflow, inflow)),
        Err(error) => {
            node.finish();
            Err(crate::run::system("make a pipe not block")(error))
        }
    }
}

struct Agent {
    channel: Channel,
    signals: Signals,
    node: Node,
    outflow: Outflow,
    inflow: Inflow,
    /// `Done` was said.
    is_done: bool,
}

impl Agent {
    fn introduce(&mut self, first: u32) {
        for (rank, pid) in (first..).zip(self.node.pids()) {
            self.channel.send(|out| FromAgent::Started { rank, pid }.encode(out));
        }
    }

    /// Until the launcher says goodbye.
    fn run(&mut self) -> Result<(), Failed> {
        let mut reports = Vec::new();
        loop {
            self.channel.flush()?;
            let ready = self.wait()?;
            asked_to_leave(&self.signals)?;
            self.channel.fill()?;
            while let Some(message) = self.channel.next(ToAgent::decode)? {
                self.channel.be_patient(false);
                if matches!(message, ToAgent::Bye) {
                    return Ok(());
                }
                self.obey(message, &mut reports)?;
            }
            if ready {
                self.node.act(&mut reports);
            }
            self.node.check_timers(Instant::now());
            self.report(&mut reports);
            let channel = &mut self.channel;
            self.outflow.step(|message| channel.send(|out| message.encode(out)));
            self.inflow.step(|message| channel.send(|out| message.encode(out)));
            self.check_whether_done();
            speak(&mut self.channel)?;
        }
    }

    /// Whether something has happened on the node.
    fn wait(&self) -> Result<bool, Failed> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
        self.channel.interest(&mut fds);
        self.outflow.interest(&mut fds);
        self.inflow.interest(&mut fds);
        fds.push(PollFd::from_borrowed_fd(self.node.interest(), PollFlags::IN));
        let poll = self.channel.next_poll();
        wait(&mut fds, self.node.next_poll().map_or(poll, |at| at.min(poll)))?;
        Ok(!fds.last().expect("the node is the last").revents().is_empty())
    }

    fn obey(&mut self, message: ToAgent, reports: &mut Vec<Report>) -> Result<(), Broken> {
        match message {
            ToAgent::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.node.signal_all(signal);
                }
            }
            ToAgent::Stop => {
                self.channel.be_patient(true);
                self.node.signal_all(Signal::STOP);
            }
            ToAgent::End { grace_ms } => self.node.end(Duration::from_millis(grace_ms)),
            ToAgent::Kill => self.node.kill(),
            ToAgent::Dead { rank } => self.node.dead_elsewhere(rank),
            ToAgent::Put { key, value } => self.node.merge(key, value),
            ToAgent::BarrierOut => self.node.release(reports),
            ToAgent::Input(bytes) => self.inflow.take(&bytes)?,
            ToAgent::InputEnd => self.inflow.end(),
            ToAgent::Taken(bytes) => self.outflow.grant(bytes),
            ToAgent::Alive | ToAgent::Bye => {}
            ToAgent::Spec(_)
            | ToAgent::Directory(_)
            | ToAgent::Program(_)
            | ToAgent::Arg(_)
            | ToAgent::Env { .. }
            | ToAgent::Part { .. }
            | ToAgent::Go { .. } => return Err(Broken::Unexpected("another job")),
        }
        Ok(())
    }

    fn report(&mut self, reports: &mut Vec<Report>) {
        for report in reports.drain(..) {
            let message = match report {
                Report::Ended { rank, end } => {
                    let (how, code) = end.to_wire();
                    // What the rank has written comes before its end.
                    let channel = &mut self.channel;
                    self.outflow.step(|message| channel.send(|out| message.encode(out)));
                    FromAgent::Ended { rank, how, code }
                }
                Report::Aborted { rank, code, message } => {
                    FromAgent::Aborted { rank, code, message: short(message) }
                }
                Report::Misbehaved { rank, what } => {
                    FromAgent::Misbehaved { rank, what: short(what) }
                }
                Report::Stuck { gone, waiting } => FromAgent::Stuck { gone, waiting },
                Report::Left { rank } => FromAgent::Left { rank },
                Report::AllIn => {
                    for (key, value) in self.node.take_fresh() {
                        self.channel.send(|out| FromAgent::Put { key, value }.encode(out));
                    }
                    FromAgent::AllIn
                }
            };
            self.channel.send(|out| message.encode(out));
        }
    }

    fn check_whether_done(&mut self) {
        if self.is_done || !self.node.is_over() {
            return;
        }
        if !self.outflow.is_closing() {
            // What they have left behind would hold their output open.
            self.node.sweep();
            self.outflow.close();
            let channel = &mut self.channel;
            self.outflow.step(|message| channel.send(|out| message.encode(out)));
        }
        if self.outflow.is_over() {
            self.is_done = true;
            self.channel.send(|out| FromAgent::Done.encode(out));
        }
    }
}

/// A text that fits into a frame.
fn short(text: String) -> String {
    match text.len() <= wire::PIECE {
        true => text,
        false => text.chars().take(wire::PIECE / 4).collect(),
    }
}
