//! Programs: what processes do, as a graph of tasks.

use std::collections::HashMap;

use super::machine::RunError;

/// A task's number in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u32);

impl TaskId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Act {
    /// A process begins here. Takes no time, and waits for nothing.
    Start,
    /// Joins what came before for what comes after. Takes no time.
    Proxy,
    /// The process does nothing for so many nanoseconds.
    Sleep(f64),
    /// The process computes on so many bytes.
    Compute(usize),
    /// The process copies so many bytes.
    Copy(usize),
    /// Bytes go to a process. What of that process comes after begins when they are there.
    Put {
        /// The process.
        to: u32,
        /// Bytes.
        bytes: usize,
    },
    /// A message goes to a process, which takes it by a `Recv` with the same tag. The sender does not wait for that.
    Send {
        /// The process.
        to: u32,
        /// Bytes.
        bytes: usize,
        /// Which messages of the two it is matched among.
        tag: u32,
    },
    /// A message of a process is taken, which takes what the network says once it is there. Of two processes and one tag, the
    /// first `Recv` takes the message of the first `Send`, in the order in which a program has them.
    Recv {
        /// The process.
        from: u32,
        /// Which messages of the two it is matched among.
        tag: u32,
    },
    /// Bytes are fetched from a process. What comes after begins when they are here.
    Get {
        /// The process.
        from: u32,
        /// Bytes.
        bytes: usize,
    },
}

impl Act {
    /// The process beside its own that it has to do with.
    pub(crate) const fn peer(self) -> Option<u32> {
        match self {
            Self::Put { to, .. } | Self::Send { to, .. } => Some(to),
            Self::Get { from, .. } | Self::Recv { from, .. } => Some(from),
            _ => None,
        }
    }
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Task {
    /// The process that does it.
    pub process: u32,
    /// What it does.
    pub act: Act,
    /// It begins after so many of the tasks before it; 0 stands for all of them.
    pub any: u32,
    /// It does not occupy its process: others may run beside it.
    pub concurrent: bool,
}

/// What processes do.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(crate) processes: u32,
    pub(crate) tasks: Vec<Task>,
    /// Which task comes before which.
    edges: Vec<(TaskId, TaskId)>,
}

/// The edges of a program, by the task that comes before.
#[derive(Debug)]
pub(crate) struct After {
    first: Vec<u32>,
    tasks: Vec<TaskId>,
}

impl After {
    pub(crate) fn of(&self, task: TaskId) -> &[TaskId] {
        let (from, to) = (self.first[task.index()], self.first[task.index() + 1]);
        &self.tasks[from as usize..to as usize]
    }
}

impl Program {
    /// A program of so many processes, in which nothing happens yet.
    pub fn new(processes: u32) -> Self {
        Self { processes, ..Self::default() }
    }

    /// Its processes.
    pub const fn processes(&self) -> u32 {
        self.processes
    }

    /// Its tasks, in the order of their numbers.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Adds a task of a process, which begins after all of `after`.
    ///
    /// # Panics
    /// When there is no such process, or one that it puts to or gets from, or more than 2^32 tasks.
    pub fn add(&mut self, process: u32, act: Act, after: &[TaskId]) -> TaskId {
        self.push(Task { process, act, any: 0, concurrent: false }, after)
    }

    /// The same for a task that begins after `any` of `after`, the ones that end first.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    pub fn add_any(&mut self, process: u32, act: Act, any: u32, after: &[TaskId]) -> TaskId {
        self.push(Task { process, act, any, concurrent: false }, after)
    }

    /// The same for a task beside which its process does others.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    pub fn add_concurrent(&mut self, process: u32, act: Act, after: &[TaskId]) -> TaskId {
        self.push(Task { process, act, any: 0, concurrent: true }, after)
    }

    /// Has a task begin after another one as well, which may be newer.
    pub fn order(&mut self, before: TaskId, after: TaskId) {
        self.edges.push((before, after));
    }

    /// Which task comes before which.
    #[cfg(feature = "json")]
    pub(super) fn edges(&self) -> &[(TaskId, TaskId)] {
        &self.edges
    }

    pub(super) fn push(&mut self, task: Task, after: &[TaskId]) -> TaskId {
        let other = task.act.peer().unwrap_or(task.process);
        let inside = task.process < self.processes && other < self.processes;
        assert!(inside, "{task:?} in a program of {} processes", self.processes);
        let id = TaskId(u32::try_from(self.tasks.len()).expect("programs have at most 2^32 tasks"));
        self.tasks.push(task);
        self.edges.extend(after.iter().map(|&before| (before, id)));
        id
    }

    /// Which `Send` comes before which `Recv`.
    fn matched(&self) -> Result<Vec<(TaskId, TaskId)>, RunError> {
        // The sends of a sender, receiver and tag, and how many of them are taken.
        let mut sent: HashMap<(u32, u32, u32), (Vec<TaskId>, usize)> = HashMap::new();
        for (index, task) in self.tasks.iter().enumerate() {
            if let Act::Send { to, tag, .. } = task.act {
                sent.entry((task.process, to, tag)).or_default().0.push(TaskId(index as u32));
            }
        }
        let mut pairs = Vec::new();
        for (index, task) in self.tasks.iter().enumerate() {
            let Act::Recv { from, tag } = task.act else { continue };
            let missing = RunError::NotSent { from, to: task.process };
            let (sends, taken) = sent.get_mut(&(from, task.process, tag)).ok_or(missing.clone())?;
            pairs.push((*sends.get(*taken).ok_or(missing)?, TaskId(index as u32)));
            *taken += 1;
        }
        let left = sent.iter().filter(|(_, (sends, taken))| *taken < sends.len());
        match left.map(|(key, _)| key).min() {
            Some(&(from, to, _)) => Err(RunError::NotReceived { from, to }),
            None => Ok(pairs),
        }
    }

    /// How many tasks come before each, and which come after.
    pub(crate) fn wired(&self) -> Result<(Vec<u32>, After), RunError> {
        let matched = self.matched()?;
        let edges = || self.edges.iter().chain(&matched);
        let mut before = vec![0; self.tasks.len()];
        let mut first = vec![0; self.tasks.len() + 1];
        for (from, to) in edges() {
            before[to.index()] += 1;
            first[from.index() + 1] += 1;
        }
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        let (mut next, mut tasks) = (first.clone(), vec![TaskId(0); edges().count()]);
        for &(from, to) in edges() {
            let place = &mut next[from.index()];
            tasks[*place as usize] = to;
            *place += 1;
        }
        Ok((before, After { first, tasks }))
    }
}
