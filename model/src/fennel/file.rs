//! Programs as JSON, for people and programs to write.
//!
//! ```json
//! {"format": "bowline program", "version": 1, "processes": 2, "tasks": [
//!   {"process": 0, "do": "start"},
//!   {"process": 0, "do": "put", "to": 1, "bytes": 8, "after": [0]},
//!   {"process": 1, "do": "compute", "bytes": 8, "after": [1]},
//!   {"process": 1, "do": "sleep", "ns": 100, "after": [1], "concurrent": true},
//!   {"process": 1, "do": "proxy", "after": [2, 3], "any": 1}]}
//! ```
//! Tasks are numbered from 0 in their order. One begins when all that it is `after` have ended, or `any` of them; one
//! that is `concurrent` does not occupy its process. There are `start` and `proxy` (no time), `sleep` (`ns`), `compute`
//! and `copy` (`bytes`), `put` and `send` (`to`, `bytes`; a send has a `tag` too), `get` (`from`, `bytes`) and `recv`
//! (`from`, `tag`). A file is read as a whole or refused with the reason.

use serde::{Deserialize, Serialize};

use super::program::{Act, Program, Task, TaskId};

/// What is written first, by which such files are known.
pub const FORMAT: &str = "bowline program";

/// The version that is written and read. It grows when the meaning of the file changes.
pub const VERSION: u32 = 1;

/// The most processes that a file may have: each takes memory, named or not.
pub const PROCESSES: u32 = 1 << 24;

/// The most bytes of a task, a terabyte.
const BYTES: usize = 1 << 40;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u32,
    processes: u32,
    tasks: Vec<Line>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    process: u32,
    #[serde(flatten)]
    act: Doing,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    after: Vec<u32>,
    #[serde(default, skip_serializing_if = "is_zero")]
    any: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    concurrent: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Doing {
    Start,
    Proxy,
    Sleep {
        ns: f64,
    },
    Compute {
        bytes: usize,
    },
    Copy {
        bytes: usize,
    },
    Put {
        to: u32,
        bytes: usize,
    },
    Send {
        to: u32,
        bytes: usize,
        #[serde(default)]
        tag: u32,
    },
    Recv {
        from: u32,
        #[serde(default)]
        tag: u32,
    },
    Get {
        from: u32,
        bytes: usize,
    },
}

/// Why a text is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// It is not JSON, or lacks a field, or has a word that is none.
    Damaged {
        /// What and where.
        why: String,
    },
    /// It is something else.
    Foreign,
    /// It is a program of another version.
    Version {
        /// Which.
        found: u32,
    },
    /// It has more processes than a file may have.
    Processes {
        /// How many.
        found: u32,
    },
    /// A task cannot be.
    Task {
        /// Its number.
        task: usize,
        /// What is wrong with it.
        why: String,
    },
}

impl std::fmt::Display for FileError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged { why } => write!(out, "this program cannot be read: {why}"),
            Self::Foreign => write!(out, "this is no program: its `format` is not `{FORMAT}`"),
            Self::Version { found } => {
                write!(
                    out,
                    "this program has version {found}, and version {VERSION} is known: write it anew, or use the \
                     program that knows it"
                )
            }
            Self::Processes { found } => {
                write!(out, "this program has {found} processes; {PROCESSES} are possible")
            }
            Self::Task { task, why } => write!(out, "task {task} of the program: {why}"),
        }
    }
}

impl std::error::Error for FileError {}

/// Reads a program.
///
/// # Errors
/// [`FileError`].
pub fn read(text: &[u8]) -> Result<Program, FileError> {
    let file: File = serde_json::from_slice(text)
        .map_err(|error| FileError::Damaged { why: error.to_string() })?;
    if file.format != FORMAT {
        return Err(FileError::Foreign);
    }
    if file.version != VERSION {
        return Err(FileError::Version { found: file.version });
    }
    if file.processes > PROCESSES {
        return Err(FileError::Processes { found: file.processes });
    }
    let count = file.tasks.len();
    let mut program = Program::new(file.processes);
    for (task, line) in file.tasks.iter().enumerate() {
        let wrong = |why: String| FileError::Task { task, why };
        let act = line.act.act();
        let (process, any, concurrent) = (line.process, line.any, line.concurrent);
        let new = Task { process, act, any, concurrent };
        for named in [Some(process), act.peer()].into_iter().flatten() {
            if named >= file.processes {
                return Err(wrong(format!("there is no process {named}")));
            }
        }
        if let Some(bytes) = bytes(act).filter(|bytes| *bytes > BYTES) {
            return Err(wrong(format!("{bytes} bytes are more than a terabyte")));
        }
        if let Act::Sleep(time) = act
            && !(time.is_finite() && time >= 0.0)
        {
            return Err(wrong("a time is finite and at least 0".to_owned()));
        }
        if let Some(after) = line.after.iter().find(|after| **after as usize >= count) {
            return Err(wrong(format!("there is no task {after} for it to be after")));
        }
        if any as usize > line.after.len() {
            return Err(wrong(format!("it is after {} tasks, and any {any}", line.after.len())));
        }
        program.push(new, &[]);
    }
    for (task, line) in file.tasks.iter().enumerate() {
        for &before in &line.after {
            program.order(TaskId(before), TaskId(task as u32));
        }
    }
    Ok(program)
}

/// The bytes of a task.
const fn bytes(act: Act) -> Option<usize> {
    match act {
        Act::Compute(bytes)
        | Act::Copy(bytes)
        | Act::Put { bytes, .. }
        | Act::Send { bytes, .. }
        | Act::Get { bytes, .. } => Some(bytes),
        Act::Start | Act::Proxy | Act::Sleep(_) | Act::Recv { .. } => None,
    }
}

/// The program as text, which [`read`] reads.
///
/// # Errors
/// When a time in it is infinite.
pub fn write(program: &Program) -> Result<String, FileError> {
    let tasks = program.tasks().iter();
    let mut lines: Vec<Line> = tasks
        .map(|task| Line {
            process: task.process,
            act: Doing::of(task.act),
            after: Vec::new(),
            any: task.any,
            concurrent: task.concurrent,
        })
        .collect();
    for &(before, after) in program.edges() {
        lines[after.index()].after.push(before.0);
    }
    let file = File {
        format: FORMAT.to_owned(),
        version: VERSION,
        processes: program.processes(),
        tasks: lines,
    };
    serde_json::to_string(&file).map_err(|error| FileError::Damaged { why: error.to_string() })
}

impl Doing {
    const fn act(self) -> Act {
        match self {
            Self::Start => Act::Start,
            Self::Proxy => Act::Proxy,
            Self::Sleep { ns } => Act::Sleep(ns),
            Self::Compute { bytes } => Act::Compute(bytes),
            Self::Copy { bytes } => Act::Copy(bytes),
            Self::Put { to, bytes } => Act::Put { to, bytes },
            Self::Send { to, bytes, tag } => Act::Send { to, bytes, tag },
            Self::Recv { from, tag } => Act::Recv { from, tag },
            Self::Get { from, bytes } => Act::Get { from, bytes },
        }
    }

    const fn of(act: Act) -> Self {
        match act {
            Act::Start => Self::Start,
            Act::Proxy => Self::Proxy,
            Act::Sleep(ns) => Self::Sleep { ns },
            Act::Compute(bytes) => Self::Compute { bytes },
            Act::Copy(bytes) => Self::Copy { bytes },
            Act::Put { to, bytes } => Self::Put { to, bytes },
            Act::Send { to, bytes, tag } => Self::Send { to, bytes, tag },
            Act::Recv { from, tag } => Self::Recv { from, tag },
            Act::Get { from, bytes } => Self::Get { from, bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::*;
    use crate::schedule::Schedule;

    fn text(processes: u32, tasks: &str) -> Vec<u8> {
        let head = format!("\"format\": \"{FORMAT}\", \"version\": 1, \"processes\": {processes}");
        format!("{{{head}, \"tasks\": [{tasks}]}}").into_bytes()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let schedule = Schedule::parse(7, "m1g2a3,n1g3a2").unwrap();
        let mut program = generate::allreduce(&schedule, 8);
        let last = program.add_any(2, Act::Sleep(3.25), 1, &[TaskId(3), TaskId(0)]);
        program.add_concurrent(1, Act::Get { from: 0, bytes: 9 }, &[last]);
        program.add(1, Act::Send { to: 0, bytes: 9, tag: 4 }, &[]);
        program.add(0, Act::Recv { from: 1, tag: 4 }, &[]);
        program.add(0, Act::Copy(4), &[]);
        let again = read(write(&program).unwrap().as_bytes()).unwrap();
        assert_eq!((again.processes(), again.tasks()), (program.processes(), program.tasks()));
        let sorted = |program: &Program| {
            let mut edges = program.edges().to_vec();
            edges.sort_by_key(|edge| (edge.1, edge.0));
            edges
        };
        assert_eq!(sorted(&again), sorted(&program));
    }

    #[test]
    fn the_example_of_the_documentation_is_a_program() {
        let program = read(&text(
            2,
            "{\"process\": 0, \"do\": \"start\"},
             {\"process\": 0, \"do\": \"put\", \"to\": 1, \"bytes\": 8, \"after\": [0]},
             {\"process\": 1, \"do\": \"compute\", \"bytes\": 8, \"after\": [1]},
             {\"process\": 1, \"do\": \"sleep\", \"ns\": 100, \"after\": [1], \"concurrent\": true},
             {\"process\": 1, \"do\": \"proxy\", \"after\": [2, 3], \"any\": 1}",
        ));
        let program = program.unwrap();
        assert_eq!(program.tasks()[4].any, 1);
        assert_eq!(program.tasks()[3].act, Act::Sleep(100.0));
        assert!(program.tasks()[3].concurrent);
    }

    #[test]
    fn what_is_no_program_says_why() {
        for (processes, tasks, wanted) in [
            (1, "{\"process\": 1, \"do\": \"start\"}", "no process 1"),
            (1, "{\"process\": 0, \"do\": \"put\", \"to\": 7, \"bytes\": 1}", "no process 7"),
            (1, "{\"process\": 0, \"do\": \"get\", \"bytes\": 1}", "from"),
            (1, "{\"process\": 0, \"do\": \"sleep\", \"ns\": -1}", "at least 0"),
            (1, "{\"process\": 0, \"do\": \"dance\"}", "dance"),
            (1, "{\"process\": 0, \"do\": \"start\", \"after\": [1]}", "no task 1"),
            (1, "{\"process\": 0, \"do\": \"proxy\", \"after\": [0], \"any\": 2}", "any 2"),
            (u32::MAX, "", "16777216"),
            (1, "7", "expected"),
        ] {
            let error = read(&text(processes, tasks)).unwrap_err().to_string();
            assert!(error.contains(wanted), "{tasks}: {error}");
        }
        let other = String::from_utf8(text(1, "")).unwrap();
        assert_eq!(read(other.replace(FORMAT, "x").as_bytes()).unwrap_err(), FileError::Foreign);
        let newer = other.replace("\"version\": 1", "\"version\": 2");
        assert_eq!(read(newer.as_bytes()).unwrap_err(), FileError::Version { found: 2 });
        assert!(read(b"").is_err());
    }
}
