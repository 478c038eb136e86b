//! Instruments: every task that a machine runs is reported to them.

use super::program::{Act, Task, TaskId};

/// A task that was run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ran {
    /// Its number, if it is one of a program.
    pub id: Option<TaskId>,
    /// The task.
    pub task: Task,
    /// When it began.
    pub start: f64,
    /// When its process could go on.
    pub local: f64,
    /// When its bytes were where they go; as `local` where nothing travels.
    pub arrived: f64,
}

impl Ran {
    /// The bytes that it brought to another place, if it did that.
    pub fn travelled(&self) -> Option<usize> {
        match self.task.act {
            Act::Put { bytes, .. } | Act::Send { bytes, .. } | Act::Get { bytes, .. } => {
                Some(bytes)
            }
            _ => None,
        }
    }
}

/// Takes reports of tasks.
pub trait Instrument {
    /// A task was run. Reported in the order in which tasks are begun, which is that of their readiness.
    fn ran(&mut self, ran: &Ran);
}

/// Keeps all of it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TraceRecorder {
    /// What was run.
    pub tasks: Vec<Ran>,
}

impl Instrument for TraceRecorder {
    fn ran(&mut self, ran: &Ran) {
        self.tasks.push(*ran);
    }
}

/// When each process has done its last task, and how far these times lie apart.
#[derive(Clone, Debug)]
pub struct Skew {
    ends: Vec<f64>,
}

impl Skew {
    /// For so many processes.
    pub fn new(processes: u32) -> Self {
        Self { ends: vec![0.0; processes as usize] }
    }

    /// The end of each process.
    pub fn ends(&self) -> &[f64] {
        &self.ends
    }

    /// From the first end to the last.
    pub fn spread(&self) -> f64 {
        let first = self.ends.iter().copied().fold(f64::INFINITY, f64::min);
        let last = self.ends.iter().copied().fold(0.0, f64::max);
        if self.ends.is_empty() { 0.0 } else { last - first }
    }
}

impl Instrument for Skew {
    fn ran(&mut self, ran: &Ran) {
        let end = &mut self.ends[ran.task.process as usize];
        *end = end.max(ran.local);
    }
}

/// What travels: messages, bytes, and the time in which they did.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Bandwidth {
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
    /// When the last of them was there.
    pub end: f64,
}

impl Bandwidth {
    /// Bytes in a nanosecond, which are gigabytes in a second.
    pub fn mean(&self) -> f64 {
        if self.end > 0.0 { self.bytes as f64 / self.end } else { 0.0 }
    }
}

impl Instrument for Bandwidth {
    fn ran(&mut self, ran: &Ran) {
        if let Some(bytes) = ran.travelled() {
            self.messages += 1;
            self.bytes += bytes as u64;
            self.end = self.end.max(ran.arrived);
        }
    }
}

/// How long each process was busy.
#[derive(Clone, Debug)]
pub struct Utilisation {
    busy: Vec<f64>,
}

impl Utilisation {
    /// For so many processes.
    pub fn new(processes: u32) -> Self {
        Self { busy: vec![0.0; processes as usize] }
    }

    /// Nanoseconds in which each process was busy: with messages or computing, and not asleep.
    pub fn busy(&self) -> &[f64] {
        &self.busy
    }
}

impl Instrument for Utilisation {
    fn ran(&mut self, ran: &Ran) {
        if !matches!(ran.task.act, Act::Sleep(_)) {
            self.busy[ran.task.process as usize] += ran.local - ran.start;
        }
    }
}
