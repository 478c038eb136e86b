//! Shared memory and forked ranks for the yardsticks.
//!
//! Between fork and exit a rank only loads, stores and makes system calls: the harness may have
//! other threads, and a forked child must not allocate or take locks that they held.

use std::fs::File;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use memmap2::MmapMut;
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::CpuSet;

use crate::BenchError;

/// Words between two lines: 128 bytes, because processors fetch lines in pairs.
const LINE_WORDS: usize = 32;
const LINES: usize = 8;
/// Word that counts the samples, in a line of its own, followed by the samples.
const SAMPLE_COUNT: usize = LINES * LINE_WORDS;
const SAMPLES: usize = SAMPLE_COUNT + LINE_WORDS;
const SAMPLES_MAX: usize = 1 << 16;

/// A shared mapping of words: lines for the ranks, and space for rank 0's samples.
#[derive(Debug)]
pub(super) struct Arena {
    mapping: MmapMut,
}

/// What a rank sees.
#[derive(Debug)]
pub(super) struct Rank<'a> {
    words: &'a [AtomicU32],
    /// From 0.
    pub(super) number: u32,
    /// How many there are.
    pub(super) ranks: u32,
    /// How long rank 0 shall measure.
    pub(super) budget: Duration,
}

impl Rank<'_> {
    /// The word at the beginning of a line.
    pub(super) fn line(&self, line: usize) -> &AtomicU32 {
        &self.words[line * LINE_WORDS]
    }

    /// Notes how long a batch took; false when there is no space for another one. Relaxed: only
    /// rank 0 notes, and the harness reads after it has waited for rank 0's end.
    pub(super) fn note(&self, batch: Duration) -> bool {
        let count = self.words[SAMPLE_COUNT].load(Relaxed) as usize;
        if count < SAMPLES_MAX {
            let ns = u32::try_from(batch.as_nanos()).unwrap_or(u32::MAX);
            self.words[SAMPLES + count].store(ns, Relaxed);
            self.words[SAMPLE_COUNT].store(count as u32 + 1, Relaxed);
        }
        !self.is_full()
    }

    /// Whether there is no space for another sample.
    pub(super) fn is_full(&self) -> bool {
        self.words[SAMPLE_COUNT].load(Relaxed) as usize >= SAMPLES_MAX
    }
}

impl Arena {
    pub(super) fn new() -> Result<Self, BenchError> {
        let failed = |act| move |source| BenchError::Yardstick { act, source };
        let size = ((SAMPLES + SAMPLES_MAX) * size_of::<AtomicU32>()) as u64;
        let fd = rustix::fs::memfd_create("bowline-yardstick", MemfdFlags::CLOEXEC)
            .map_err(|errno| failed("create shared memory")(errno.into()))?;
        let file = File::from(fd);
        file.set_len(size).map_err(failed("size shared memory"))?;
        // SAFETY: the file has no name and its descriptor is closed below, so that only this
        // process and the ranks it forks reach the memory, and all of them as atomics.
        let mapping = unsafe { MmapMut::map_mut(&file) }.map_err(failed("map shared memory"))?;
        let arena = Self { mapping };
        // Touched before the fork, so that no page fault falls into the timed part.
        for word in arena.words().iter().step_by(LINE_WORDS) {
            word.store(0, Relaxed);
        }
        Ok(arena)
    }

    fn words(&self) -> &[AtomicU32] {
        let count = self.mapping.len() / size_of::<AtomicU32>();
        // SAFETY: the mapping is page-aligned, `count` words long, lives as long as `self`, is
        // initialised with zeros by the kernel, and is accessed through these atomics only.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().cast::<AtomicU32>(), count) }
    }

    /// What rank 0 noted, ns per batch.
    pub(super) fn samples_ns(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.words();
        let count = (words[SAMPLE_COUNT].load(Relaxed) as usize).min(SAMPLES_MAX);
        words[SAMPLES..SAMPLES + count].iter().map(|word| word.load(Relaxed))
    }

    /// Runs `body` in `ranks` forked processes, rank r on CPU r modulo 2, and waits for them.
    pub(super) fn run(
        &self,
        cpus: [usize; 2],
        ranks: u32,
        budget: Duration,
        time_limit: Duration,
        body: fn(&Rank<'_>),
    ) -> Result<(), BenchError> {
        let mut family = Family { pids: Vec::with_capacity(ranks as usize) };
        for number in 0..ranks {
            let mut cpu = CpuSet::new();
            cpu.set(cpus[number as usize % cpus.len()]);
            let rank = Rank { words: self.words(), number, ranks, budget };
            family.pids.push(fork_rank(&rank, &cpu, body)?);
        }
        family.wait(budget, time_limit)
    }
}

/// Forks a process that pins itself, runs `body`, and exits.
fn fork_rank(rank: &Rank<'_>, cpu: &CpuSet, body: fn(&Rank<'_>)) -> Result<Pid, BenchError> {
    // SAFETY: the child makes only system calls and atomic accesses, and `run_rank` never returns,
    // so that it neither allocates nor runs the parent's destructors.
    let id = unsafe { libc::fork() };
    if id == 0 {
        run_rank(rank, cpu, body);
    }
    Pid::from_raw(id).filter(|_| id > 0).ok_or_else(|| BenchError::Yardstick {
        act: "fork a process",
        source: std::io::Error::last_os_error(),
    })
}

/// The life of a forked rank.
fn run_rank(rank: &Rank<'_>, cpu: &CpuSet, body: fn(&Rank<'_>)) -> ! {
    let _exit_on_panic = ExitOnDrop;
    let tied = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let pinned = rustix::thread::sched_setaffinity(None, cpu);
    if tied.is_ok() && pinned.is_ok() {
        body(rank);
        leave(0);
    }
    leave(1);
}

fn leave(status: i32) -> ! {
    // SAFETY: `_exit` has no preconditions; nothing of this process is needed any more.
    unsafe { libc::_exit(status) }
}

/// Ends a child even when its body panics: it must never unwind into the parent's code.
struct ExitOnDrop;

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        leave(1);
    }
}

/// The forked ranks. Those that are left when it is dropped are ended.
struct Family {
    pids: Vec<Pid>,
}

impl Family {
    fn wait(&mut self, budget: Duration, time_limit: Duration) -> Result<(), BenchError> {
        let deadline = Instant::now() + time_limit;
        // Nobody ends before the budget is over: do not disturb them by polls.
        std::thread::sleep(budget);
        while let Some(&pid) = self.pids.last() {
            let ended = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)
                .map_err(|errno| BenchError::Yardstick { act: "wait", source: errno.into() })?;
            match ended {
                Some((_, status)) => {
                    self.pids.pop();
                    if status.exit_status() != Some(0) {
                        return Err(BenchError::Failed {
                            program: "yardstick".to_owned(),
                            status: format!("{status:?}"),
                            output: "a rank could not pin itself, or died".to_owned(),
                        });
                    }
                }
                None if Instant::now() > deadline => {
                    return Err(BenchError::Timeout {
                        program: "yardstick".to_owned(),
                        seconds: time_limit.as_secs_f64(),
                    });
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        Ok(())
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for &pid in &self.pids {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
    }
}
