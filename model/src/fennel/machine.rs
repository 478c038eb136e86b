//! Machines: they run a program, event after event.
//!
//! ```text
//!   waiting ──(the last, or k-th, task before it has ended)──► ready ──(its process is free)──► running ──► ended
//! ```
//! Events are taken in the order of their times, and of those at one time in the order in which they came about.
//! A process does one task at a time, but for those that are concurrent.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::instrument::{Instrument, Ran};
use super::network::{Compute, NetworkModel, Transfer};
use super::program::{Act, Program, Task, TaskId};

/// A network and processors.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the two parts of a machine")]
pub struct Machine<N, C> {
    /// What messages take.
    pub network: N,
    /// What computing takes.
    pub compute: C,
}

/// Why a program did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// Tasks, or ranks, wait for each other, or for more than there are; so many never came to their end.
    Stuck {
        /// Tasks that were not run, or ranks that are not done.
        left: usize,
    },
    /// A message is sent that its receiver does not wait for.
    NotReceived {
        /// Its sender.
        from: u32,
        /// Its receiver.
        to: u32,
    },
    /// A process waits for a message that is not sent.
    NotSent {
        /// Who should send it.
        from: u32,
        /// The process.
        to: u32,
    },
    /// A process names a peer that is no other process.
    NoSuchPeer {
        /// The process.
        process: u32,
        /// Whom it names.
        peer: u32,
    },
    /// A message is not as long as its receiver expects.
    Lengths {
        /// Its sender.
        from: u32,
        /// Its receiver.
        to: u32,
        /// Its bytes.
        sent: usize,
        /// Those that are expected.
        wanted: usize,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stuck { left } => {
                write!(
                    out,
                    "{left} never came to their end: they wait for each other, or for too many others"
                )
            }
            Self::NotReceived { from, to } => {
                write!(out, "process {to} does not wait for a message that process {from} sends it")
            }
            Self::NotSent { from, to } => {
                write!(out, "process {to} waits for a message that process {from} does not send it")
            }
            Self::NoSuchPeer { process, peer } => {
                write!(out, "process {process} names {peer}, which is no other process")
            }
            Self::Lengths { from, to, sent, wanted } => write!(
                out,
                "process {to} expects {wanted} bytes of process {from}, which sends it {sent}"
            ),
        }
    }
}

impl std::error::Error for RunError {}

/// A task that is ready at a time, or one that a task before it has ended for.
#[derive(Debug, PartialEq)]
struct Event {
    time: f64,
    number: u64,
    task: TaskId,
    ready: bool,
}

/// What is to happen.
#[derive(Debug, Default)]
struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    number: u64,
}

impl Events {
    fn push(&mut self, time: f64, task: TaskId, ready: bool) {
        self.heap.push(Reverse(Event { time, number: self.number, task, ready }));
        self.number += 1;
    }
}

impl Eq for Event {}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.time.total_cmp(&other.time).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Reports to the instruments processes that come late: they sleep first.
pub(super) fn report_late(late: &[f64], instruments: &mut [&mut dyn Instrument]) {
    for (process, &time) in late.iter().enumerate().filter(|(_, time)| **time > 0.0) {
        let process = process as u32;
        let task = Task { process, act: Act::Sleep(time), any: 0, concurrent: false };
        let ran = Ran { id: None, task, start: 0.0, local: time, arrived: time };
        instruments.iter_mut().for_each(|instrument| instrument.ran(&ran));
    }
}

/// Whether a task takes messages such as another one sends: to its process, and not merely before it there.
fn takes(send: &Task, recv: &Task) -> bool {
    match (send.act, recv.act) {
        (Act::Send { to, tag, .. }, Act::Recv { from, tag: wanted }) => {
            (to, from, tag) == (recv.process, send.process, wanted)
        }
        _ => false,
    }
}

impl<N: NetworkModel, C: Compute> Machine<N, C> {
    /// Runs a program from time 0 and reports every task to the instruments. When the last task ended.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(
        &mut self,
        program: &Program,
        instruments: &mut [&mut dyn Instrument],
    ) -> Result<f64, RunError> {
        self.run_late(program, &[], instruments)
    }

    /// The same where each process comes so many nanoseconds late, in the order of the processes; those without a
    /// number come in time.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_late(
        &mut self,
        program: &Program,
        late: &[f64],
        instruments: &mut [&mut dyn Instrument],
    ) -> Result<f64, RunError> {
        let (before, after) = program.wired()?;
        let mut missing: Vec<u32> = before
            .iter()
            .zip(program.tasks())
            .map(|(&before, task)| if task.any > 0 { task.any } else { before })
            .collect();
        let mut ready = vec![0.0_f64; missing.len()];
        let mut free = late.to_vec();
        free.resize(program.processes() as usize, 0.0);
        report_late(&free, instruments);
        let mut begun = vec![false; missing.len()];
        let mut events = Events::default();
        for (index, &before) in before.iter().enumerate() {
            if before == 0 {
                missing[index] = 0;
                let process = program.tasks()[index].process;
                events.push(free[process as usize], TaskId(index as u32), true);
            }
        }
        let (mut left, mut end) = (missing.len(), 0.0_f64);
        while let Some(Reverse(event)) = events.heap.pop() {
            let Event { time, task: id, .. } = event;
            let task = program.tasks()[id.index()];
            if !event.ready {
                // Those that come after the one that let it begin change nothing.
                missing[id.index()] = missing[id.index()].saturating_sub(1);
                if missing[id.index()] == 0 && !begun[id.index()] {
                    begun[id.index()] = true;
                    events.push(time, id, true);
                }
                continue;
            }
            let process = &mut free[task.process as usize];
            let start = if task.concurrent { time } else { time.max(*process) };
            let Transfer { local, arrived } = self.carry_out(&task, start);
            if !task.concurrent {
                *process = local;
            }
            left -= 1;
            end = end.max(local);
            let ran = Ran { id: Some(id), task, start, local, arrived };
            instruments.iter_mut().for_each(|instrument| instrument.ran(&ran));
            for &next in after.of(id) {
                let then = &program.tasks()[next.index()];
                let elsewhere = then.process != task.process;
                let fetched = matches!(task.act, Act::Get { .. });
                let taken = takes(&task, then);
                let at = if elsewhere || fetched || taken { arrived } else { local };
                if then.any > 0 {
                    // Which ends come first is known when their times have come.
                    events.push(at, next, false);
                    continue;
                }
                let (missing, ready) = (&mut missing[next.index()], &mut ready[next.index()]);
                *missing -= 1;
                *ready = ready.max(at);
                if *missing == 0 {
                    events.push(*ready, next, true);
                }
            }
        }
        if left > 0 { Err(RunError::Stuck { left }) } else { Ok(end) }
    }

    /// Both ends of what a task does from `start` on.
    fn carry_out(&mut self, task: &Task, start: f64) -> Transfer {
        let at = |time| Transfer { local: time, arrived: time };
        match task.act {
            Act::Start | Act::Proxy => at(start),
            Act::Recv { .. } => at(start + self.network.receive(task.process)),
            Act::Sleep(time) => at(start + time),
            Act::Compute(bytes) => at(start + self.compute.take(task.process, bytes)),
            Act::Copy(bytes) => at(start + self.compute.copy(task.process, bytes)),
            Act::Put { to, bytes } | Act::Send { to, bytes, .. } => {
                self.network.put(task.process, to, bytes, start)
            }
            Act::Get { from, bytes } => self.network.get(task.process, from, bytes, start),
        }
    }
}
