//! Latency and rate of two processes over each form, in shared memory.
//!
//! The other process is this program again, which gets the memory as its standard input. A word of
//! it says what to do next, so that forms and sizes take turns within a round. The mailbox of a node stands beside the forms.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use bowline_base::region::Region;
use bowline_base::sync::LINE;
use bowline_base::sync::atomic::Ordering;
use bowline_base::sync::spin_loop;
use bowline_base::words::{DirectWords, LineWords, Words};
use rustix::thread::CpuSet;

use super::forms::Receiver;
use super::many::{Queue, Sending};
use crate::clock::median;
use crate::table::{Cell, Chart, Table, Unit};
use crate::{Context, Named};

/// Lines in front of the queues: the command, and what the other side has done.
const HEAD: usize = 2 * LINE;

/// Round trips of a sample, as published (chapter 6, its latencies).
const BLOCK: u32 = 10;

/// Messages of a sample of the rate.
const BURST: u32 = 2000;

/// When a side gives up on the other one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shared memory, cut into queues.
#[derive(Debug)]
pub(crate) struct Memory(Region);

impl Memory {
    /// Zeroed memory.
    pub(crate) fn make(bytes: usize) -> Result<Self> {
        Ok(Self(Region::create_memfd("bench-queues", bytes)?))
    }

    /// Memory that somebody else has made.
    pub(crate) fn open(fd: OwnedFd) -> Result<Self> {
        Ok(Self(Region::open(fd)?))
    }

    /// The memory itself.
    pub(crate) fn region(&self) -> &Region {
        &self.0
    }

    /// `len` bytes from `offset` on, both in whole lines.
    pub(crate) fn words(&self, offset: usize, len: usize) -> DirectWords {
        let view = self.0.view().slice(offset, len).expect("the memory is that long");
        // SAFETY: everyone who uses the words keeps this value alive as long: the functions below
        // and in `many` and `processes` drop their queues first. The other process that maps the memory is this program and
        // uses it as words of the same queue.
        unsafe { DirectWords::from_view(view) }.expect("queues start on a line")
    }
}

/// Everything that both sides have, by form: queues there and back.
fn bytes() -> usize {
    HEAD + 2 * Queue::ALL.iter().map(|queue| queue.form().bytes()).sum::<usize>()
}

/// The queues of a contestant: to the other process, and back.
fn queues(memory: &Memory, which: Queue) -> [DirectWords; 2] {
    let mut offset = HEAD;
    for queue in Queue::ALL {
        if queue == which {
            break;
        }
        offset += 2 * queue.form().bytes();
    }
    let len = which.form().bytes();
    [memory.words(offset, len), memory.words(offset + len, len)]
}

/// The only sender of a queue.
fn sender(queue: Queue, words: DirectWords) -> Sending {
    queue.senders(1, |_| words).pop().expect("one was asked for")
}

/// What the other process is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Send back so many messages.
    Echo(u32),
    /// Receive so many messages and answer the last one.
    Sink(u32),
    /// End.
    End,
}

impl Task {
    fn word(self, number: u64, form: usize) -> u64 {
        let (kind, count) = match self {
            Self::Echo(count) => (1, count),
            Self::Sink(count) => (2, count),
            Self::End => (3, 0),
        };
        number << 40 | (form as u64) << 36 | kind << 32 | u64::from(count)
    }

    fn read(word: u64) -> (u64, usize, Self) {
        let count = word as u32;
        let task = match word >> 32 & 15 {
            1 => Self::Echo(count),
            2 => Self::Sink(count),
            _ => Self::End,
        };
        (word >> 40, (word >> 36 & 15) as usize, task)
    }
}

/// Spins until `done`, or until patience ends.
fn wait(mut done: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    let mut polls = 0u32;
    while !done() {
        spin_loop();
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(1 << 16) && start.elapsed() > PATIENCE {
            bail!("the other process does not answer");
        }
    }
    Ok(())
}

/// Binds this thread to a processor, if there is that one.
pub(crate) fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // A container may forbid it; figures are worse then, and not wrong.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// The other process.
pub(crate) fn peer() -> Result<()> {
    pin(1);
    let fd: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned()?;
    let memory = Memory(Region::open(fd)?);
    // The queues of the other side were made before this process was started.
    let mut sides: Vec<(Receiver, Sending)> = Queue::ALL
        .iter()
        .map(|&queue| {
            let [there, back] = queues(&memory, queue);
            (queue.form().receiver(there), sender(queue, back))
        })
        .collect();
    let head = memory.words(0, HEAD);
    // Release: pairs with the Acquire load in `Pair::start`: our queues are made.
    head.line(1).store(0, 1, Ordering::Release);
    let mut last = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let mut word = 0;
        wait(|| {
            // Acquire: pairs with the Release store in `Pair::command`.
            word = head.line(0).load(0, Ordering::Acquire);
            word >> 40 > last
        })?;
        let (number, form, task) = Task::read(word);
        last = number;
        let (receiver, sender) = &mut sides[form];
        match task {
            Task::End => return Ok(()),
            Task::Echo(count) => {
                let mut answered = 0;
                wait(|| {
                    receiver.receive(&mut buffer, |len, bytes| {
                        while !sender.send(&bytes[..len]) {
                            spin_loop();
                        }
                        answered += 1;
                    });
                    answered == count
                })?;
            }
            Task::Sink(count) => {
                let mut received = 0;
                wait(|| {
                    received += receiver.receive(&mut buffer, |_, _| ());
                    received == count
                })?;
                wait(|| sender.send(&[0; 8]))?;
            }
        }
    }
}

/// This side of a pair of processes. The other one is ended when it is dropped.
struct Pair {
    child: Child,
    sides: Vec<(Sending, Receiver)>,
    number: u64,
    buffer: Vec<u8>,
    memory: Memory,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.command(0, Task::End);
        // It ends by itself now, unless it hangs.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nothing can be done where even that is refused.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pair {
    fn start() -> Result<Self> {
        pin(0);
        let memory = Memory::make(bytes())?;
        let receivers = Queue::ALL.map(|queue| queue.form().receiver(queues(&memory, queue)[1]));
        let fd = memory.0.fd().ok_or_else(|| anyhow!("the memory has no descriptor"))?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let child = Command::new(program)
            .arg("--peer")
            .stdin(Stdio::from(fd.try_clone_to_owned()?))
            .spawn()
            .context("cannot start the other process")?;
        let mut pair =
            Self { child, sides: Vec::new(), number: 0, buffer: vec![0; 1 << 16], memory };
        let head = pair.memory.words(0, HEAD);
        // Acquire: pairs with the Release store in `peer`: its queues are made.
        wait(|| head.line(1).load(0, Ordering::Acquire) == 1)?;
        for (receiver, queue) in receivers.into_iter().zip(Queue::ALL) {
            let there = queues(&pair.memory, queue)[0];
            pair.sides.push((sender(queue, there), receiver));
        }
        Ok(pair)
    }

    fn command(&mut self, form: usize, task: Task) {
        self.number += 1;
        let word = task.word(self.number, form);
        // Release: pairs with the Acquire load in `peer`.
        self.memory.words(0, HEAD).line(0).store(0, word, Ordering::Release);
    }

    /// Nanoseconds of a message there or back: half of a round trip, the mean of a block of them.
    fn latency(&mut self, form: usize, payload: &[u8], blocks: u32) -> Result<Vec<f64>> {
        self.command(form, Task::Echo(BLOCK * (blocks + 1)));
        let (sender, receiver) = &mut self.sides[form];
        let mut samples = Vec::new();
        for block in 0..=blocks {
            let start = Instant::now();
            for _ in 0..BLOCK {
                let mut answered = 0;
                if !sender.send(payload) {
                    bail!("no space for one message");
                }
                wait(|| {
                    receiver.receive(&mut self.buffer, |len, bytes| {
                        answered += u32::from(bytes[..len] == *payload);
                    }) > 0
                })?;
                if answered != 1 {
                    bail!("the answer is another one");
                }
            }
            let ns = start.elapsed().as_nanos() as f64 / f64::from(2 * BLOCK);
            // The first block starts before the other side has read its command.
            if block > 0 {
                samples.push(ns);
            }
        }
        Ok(samples)
    }

    /// Nanoseconds for each message of a burst.
    fn rate(&mut self, form: usize, payload: &[u8]) -> Result<f64> {
        self.command(form, Task::Sink(BURST));
        let (sender, receiver) = &mut self.sides[form];
        let start = Instant::now();
        for _ in 0..BURST {
            wait(|| sender.send(payload))?;
        }
        wait(|| receiver.receive(&mut self.buffer, |_, _| ()) == 1)?;
        Ok(start.elapsed().as_nanos() as f64 / f64::from(BURST))
    }
}

/// Latency by size, and rate.
fn latency(context: &Context) -> Result<Table> {
    let mut table = Table::new(
        "queue-latency",
        "one message between two pinned processes over shared memory",
        &[
            "what",
            "bytes",
            "ring",
            "+-",
            "nodes",
            "scmp-seq",
            "scmp-counted",
            "locked",
            "scmp/smsg publ.",
        ],
    );
    if context.cpus < 2 {
        table.note("left out: it takes two processors");
        return Ok(table);
    }
    let sizes: &[usize] = if context.quick {
        &[8, 32, 128, 512, 2048, 8192]
    } else {
        &[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384]
    };
    let (rounds, blocks) = if context.quick { (7, 60) } else { (21, 300) };
    let mut pair = Pair::start()?;
    let mut chart =
        Chart::new("length of the message", Unit::Bytes, "time one way", Unit::Nanoseconds);
    let rows: Vec<_> = sizes.iter().map(|&s| (false, s)).chain([(true, 8), (true, 512)]).collect();
    let mut short = None;
    for (rate, size) in context.progress("queue-latency", rows) {
        let payload: Vec<u8> = (0..size).map(|k| k as u8).collect();
        let mut samples = vec![Vec::new(); Queue::ALL.len()];
        for round in 0..rounds {
            for nth in 0..Queue::ALL.len() {
                let at = (round + nth) % Queue::ALL.len();
                let sample = if rate {
                    pair.rate(at, &payload)?
                } else {
                    median(&pair.latency(at, &payload, blocks)?)
                };
                samples[at].push(sample);
            }
        }
        let ratio = |at: usize| {
            let pairs = samples[at].iter().zip(&samples[0]);
            median(&pairs.map(|(ours, ring)| ours / ring).collect::<Vec<_>>())
        };
        if !rate {
            for (queue, samples) in Queue::ALL.iter().zip(&samples) {
                chart.point(queue.name(), size as f64, median(samples));
            }
        }
        if size == 8 && !rate {
            short = Some([ratio(2), ratio(3)]);
        }
        let mut sorted = samples[0].clone();
        sorted.sort_by(f64::total_cmp);
        let spread = (sorted[sorted.len() * 3 / 4] - sorted[sorted.len() / 4]) / 2.0;
        table.row(vec![
            if rate { "rate" } else { "latency" }.into(),
            Cell::count(size as u64),
            Cell::time(median(&samples[0])),
            Cell::number(spread * 100.0 / median(&samples[0]), 0, "%"),
            Cell::times(ratio(1)),
            Cell::times(ratio(2)),
            Cell::times(ratio(3)),
            Cell::times(ratio(4)),
            if size == 8 && !rate { Cell::times(3.5) } else { Cell::none() },
        ]);
    }
    table.chart = Some(chart);
    table.note(
        "ring: ns one way (half of a round trip; of a burst: for each message); others: their time \
         as a multiple of it. Halves of 1024 slots, as in the experiments of chapter 6.",
    );
    table.note(
        "Published over a network (chapter 6, in the text of its latencies), where SCMP's reservation is a round trip of its own and its \
         finalise a third operation: 3.5 times the per-peer mailbox at 8 bytes. In shared memory \
         they are locked instructions, and with the sequence in the slot one of them is left.",
    );
    table.note(
        "locked and nodes are uncontended here, with one sender; see queue-many and queue-network for more. nodes: the mailbox of a node \
         (the thesis's msgq), which is the ring behind a lock in the memory of the senders' node.",
    );
    if let Some([seq, counted]) = short {
        table.goal(
            "8 bytes: scmp-seq at most 1.3 x the latency of the ring",
            format!("{seq:.2} x (scmp-counted {counted:.2} x)"),
            seq <= 1.3,
        );
    }
    Ok(table)
}

/// The tables of this module.
pub(crate) const TABLES: &[Named] =
    &[("queue-latency", "latency and rate of receive queues in shared memory", latency)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_they_were_written() {
        for task in [Task::Echo(7), Task::Sink(u32::MAX), Task::End] {
            assert_eq!(Task::read(task.word(9, 3)), (9, 3, task));
        }
    }
}
