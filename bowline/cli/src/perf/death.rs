//! How soon the survivors learn of a death: from the moment before a rank kills itself until the
//! last call that waited for it has returned its error.
//!
//! ```text
//!   survivors   "ready" ─► a call that waits for the victim ────────────► its error, noted
//!   victim      all are ready ─► they wait ─► the time, noted ─► SIGKILL
//! ```
//! Each iteration is a job of its own, which goes on when a rank has died. Notes are in a memory
//! file of the measuring process, so that the victim's outlives it. Notes of the clock that all
//! processes share are compared; the note itself (a system call) is part of the victim's time.
//!
//! A survivor whose call succeeds, fails for another reason, or has not failed within [`LIMIT`]
//! is an error, not a sample.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bowline::mpi::{MpiError, Sum, World};
use bowline_base::config::Config;
use bowline_launch::run::{OnFailure, RankEnd, RunOptions, run};
use rustix::fs::MemfdFlags;
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};

use super::figure::Figure;
use super::payload::Buffer;
use super::plan::Plan;
use super::stats::Samples;
use super::{Args, Test, name_of};
use crate::start::{self, RankResult};

/// The longest that a survivor may take to learn of the death.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest from a job's start to the death.
const PREPARATION: Duration = Duration::from_secs(20);

/// From "ready" to the death. The survivors are in their calls by then, and a rank with a processor
/// of its own has not stopped spinning.
const PAUSE: Duration = Duration::from_millis(1);

/// From "go" to the death at least, when the survivors fetch a long message, and how often that may be doubled. What it
/// takes to fetch it depends on how near the processors are, and on who else uses them, so that each try waits for another time.
const PAUSE_BULK: Duration = Duration::from_micros(250);
const DOUBLINGS: u32 = 6;

/// Payload of the long message, bytes: some 1 to 10 ms of copying.
const BULK: usize = 64 << 20;

/// A long message is checked in pieces of so many bytes.
const STRIDE: usize = 1 << 20;

/// Every byte of the long message; that of a buffer before is another one.
const FILLING: u8 = 0x3c;

/// Jobs that are tried for one death in the middle of a message.
const TRIES: u32 = 60;

/// A survivor is about to wait; carries its process id.
const READY: i32 = 1;

/// What survivors wait for.
const NEVER_SENT: i32 = 2;

/// The long message.
const LONG: i32 = 3;

/// All may fetch the long message, from now on.
const GO: i32 = 4;

/// Kills rank after rank.
///
/// # Errors
/// When a job does not start, a survivor gets no error or another one than it should, or the victim
/// cannot be brought to die at the right moment.
pub(crate) fn measure(args: &Args, config: &Config) -> Result<Vec<Figure>> {
    let measure_one = |plan: Plan| {
        let notes = Notes::create().context("cannot make a memory file")?;
        let mut options = start::again(plan.ranks, config)?;
        options.args.extend(["--notes".into(), notes.path().into()]);
        options.on_failure = OnFailure::Continue;
        options.prints_failure = false;
        options.timeout = Some(PREPARATION + LIMIT);
        for _ in 0..plan.warmup {
            sample(&plan, &options, &notes)?;
        }
        let mut samples = Samples::new();
        for _ in 0..plan.iterations {
            samples.record(sample(&plan, &options, &notes)?);
        }
        Ok(Figure::new(&plan, &samples))
    };
    args.plans().into_iter().map(measure_one).collect()
}

/// From a death to the last error, ns.
fn sample(plan: &Plan, options: &RunOptions, notes: &Notes) -> Result<f64> {
    for _ in 0..TRIES {
        let (ns, at_work) = one_death(plan, options, notes)?;
        if plan.test != Test::DeathBulk || at_work {
            return Ok(ns);
        }
    }
    bail!(
        "in {TRIES} jobs no rank died while its message of {BULK} bytes was fetched: this machine \
         is too fast or too busy for that"
    )
}

/// One job: how long the last survivor took that waited still, ns, and whether one of them had a
/// part of a long message.
fn one_death(plan: &Plan, options: &RunOptions, notes: &Notes) -> Result<(f64, bool)> {
    notes.clear()?;
    let report = run(options)?;
    let victim = plan.ranks - 1;
    let (mut last, mut at_work) = (0, false);
    let Some(death) = notes.read(victim)? else {
        let end = report.ends[victim as usize];
        bail!("rank {victim} was to kill itself and has not come to it: it {end}");
    };
    for (rank, end) in (0..victim).zip(&report.ends) {
        let Some(error) = notes.read(rank)? else {
            if matches!(end, RankEnd::Killed(_)) {
                bail!("rank {rank} got no error within {LIMIT:?} of the death of rank {victim}");
            }
            bail!("rank {rank} got no error about the death of rank {victim}: it {end}");
        };
        ensure!(!end.is_failure(), "rank {rank} failed after the death of rank {victim}: it {end}");
        if error.came == Came::Whole {
            continue;
        }
        let took = error.at - death.at;
        ensure!(took >= 0, "rank {rank} got its error before the death of rank {victim}");
        last = last.max(took);
        at_work |= error.came == Came::Part;
    }
    let end = report.ends[victim as usize];
    ensure!(end == RankEnd::Killed(9), "rank {victim} was to be killed by a signal: it {end}");
    let limit = LIMIT.as_nanos() as i64;
    ensure!(last <= limit, "a rank got its error {last} ns after the death, more than {LIMIT:?}");
    Ok((last as f64, at_work))
}

/// What a rank of such a job does. The last one dies.
///
/// # Errors
/// When a call does not end as it should.
pub(crate) fn rank(args: &Args, world: &World) -> RankResult {
    let path = args.notes.as_deref().context("a rank of this test is started by the test alone")?;
    let notes = Notes::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // All are connected, and have what collectives share.
    world.barrier()?;
    world.allreduce(&[1i64], &mut [0i64], Sum)?;
    if world.rank() == world.size() - 1 {
        victim(args.test, world, &notes)?;
    } else {
        survivor(args.test, world, &notes)?;
    }
    Ok(())
}

fn victim(test: Test, world: &World, notes: &Notes) -> Result<()> {
    if test != Test::DeathBulk {
        let processes = all_ready(world)?;
        match test {
            Test::DeathAsleep => until_asleep(&processes)?,
            _ => std::thread::sleep(PAUSE),
        }
        return die(world, notes);
    }
    let message = vec![FILLING; BULK];
    let scoped = world.scope(|scope| {
        for rank in 0..world.size() - 1 {
            drop(scope.isend(world, &message, rank, LONG)?);
        }
        Ok(all_ready(world).and_then(|_| {
            for rank in 0..world.size() - 1 {
                world.send::<u8>(&[], rank, GO)?;
            }
            // Where the sender has a part in the transfer, it does it.
            let start = Instant::now();
            let doublings = (now() / 1000).unsigned_abs() as u32 % (DOUBLINGS + 1);
            while start.elapsed() < PAUSE_BULK * (1 << doublings) {
                world.iprobe(0, NEVER_SENT)?;
            }
            die(world, notes)
        }))
    });
    scoped?
}

/// Waits until all survivors are about to wait. Returns their process ids.
fn all_ready(world: &World) -> Result<Vec<u32>> {
    let process_of = |rank| {
        let mut process = [0];
        world.recv(&mut process, rank, READY)?;
        Ok(process[0])
    };
    (0..world.size() - 1).map(process_of).collect()
}

/// Waits until the system has put all of these processes to sleep.
fn until_asleep(processes: &[u32]) -> Result<()> {
    /// Polls that must agree, as a process also sleeps for a moment on its way.
    const POLLS: u32 = 5;
    let start = Instant::now();
    let mut agreed = 0;
    while agreed < POLLS {
        std::thread::sleep(Duration::from_millis(5));
        agreed = if all_asleep(processes)? { agreed + 1 } else { 0 };
        ensure!(
            start.elapsed() < PREPARATION / 2,
            "the survivors do not sleep while they wait; are BOWLINE_WAIT_SPINS or \
             BOWLINE_WAIT_YIELDS set to very much?"
        );
    }
    Ok(())
}

fn all_asleep(processes: &[u32]) -> Result<bool> {
    for process in processes {
        let path = format!("/proc/{process}/stat");
        let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        // The state follows the name, which is in parentheses and may hold any character.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        if !state.is_some_and(|rest| rest.starts_with('S')) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn die(world: &World, notes: &Notes) -> Result<()> {
    notes.write(world.rank() as u32, Note { at: now(), came: Came::Nothing })?;
    kill_process(getpid(), Signal::KILL).context("a rank cannot kill itself")?;
    bail!("a rank has outlived SIGKILL")
}

fn survivor(test: Test, world: &World, notes: &Notes) -> Result<()> {
    let victim = world.size() - 1;
    let mut into = Buffer::new(if test == Test::DeathBulk { BULK } else { 1 });
    world.send(&[std::process::id()], victim, READY)?;
    if test == Test::DeathBulk {
        world.recv::<u8>(&mut [], victim, GO)?;
    }
    let outcome = match test {
        Test::DeathBarrier => world.barrier(),
        Test::DeathAllreduce => world.allreduce(&[1i64], &mut [0i64], Sum),
        Test::DeathBulk => world.recv(into.bytes_mut(), victim, LONG).map(drop),
        _ => world.recv(into.bytes_mut(), victim, NEVER_SENT).map(drop),
    };
    let at = now();
    match outcome {
        Err(
            MpiError::PeerFailed(_) | MpiError::MemberFailed { .. } | MpiError::Unreachable { .. },
        ) => {}
        Err(error) => return Err(error).context("another error than that of a death came"),
        // It came whole before the death, and this rank does not wait any more.
        Ok(()) if test == Test::DeathBulk => {
            return Ok(notes.write(world.rank() as u32, Note { at, came: Came::Whole })?);
        }
        Ok(()) => bail!("{} returned, as if nobody had died", name_of(&test)),
    }
    let ends = || into.bytes().iter().skip(STRIDE - 1).step_by(STRIDE);
    let arrived = ends().filter(|&&byte| byte == FILLING).count();
    let came = if arrived == 0 { Came::Nothing } else { Came::Part };
    Ok(notes.write(world.rank() as u32, Note { at, came })?)
}

/// Nanoseconds on the clock that all processes of the machine share.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// What a rank has to say, once.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Note {
    /// When the rank was about to die, or had its error, ns. Not 0.
    at: i64,
    /// What it had of the long message.
    came: Came,
}

/// How much of the long message a survivor had. Without such a message, nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Came {
    Nothing,
    Part,
    /// All of it, so that its receive has succeeded.
    Whole,
}

/// A note for each rank, in a file that is memory: 8 bytes of time, 8 bytes of the other.
#[derive(Debug)]
struct Notes(File);

impl Notes {
    const LEN: usize = 16;

    fn create() -> Result<Self> {
        Ok(Self(File::from(rustix::fs::memfd_create("bowline-notes", MemfdFlags::CLOEXEC)?)))
    }

    fn open(path: &Path) -> std::io::Result<Self> {
        OpenOptions::new().write(true).open(path).map(Self)
    }

    /// By which children open the file while this process lives.
    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    fn clear(&self) -> std::io::Result<()> {
        self.0.set_len(0)
    }

    fn write(&self, rank: u32, note: Note) -> std::io::Result<()> {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&note.at.to_le_bytes());
        bytes[8] = note.came as u8;
        self.0.write_all_at(&bytes, Self::place(rank))
    }

    /// The note of a rank, if there is one.
    fn read(&self, rank: u32) -> Result<Option<Note>> {
        let mut bytes = [0; Self::LEN];
        if self.0.read_at(&mut bytes, Self::place(rank))? < Self::LEN {
            return Ok(None);
        }
        let at = i64::from_le_bytes(bytes[..8].try_into()?);
        let came = match bytes[8] {
            0 => Came::Nothing,
            1 => Came::Part,
            2 => Came::Whole,
            other => bail!("a rank left a note that says {other}"),
        };
        Ok((at != 0).then_some(Note { at, came }))
    }

    fn place(rank: u32) -> u64 {
        u64::from(rank) * Self::LEN as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let notes = Notes::create().unwrap();
        assert_eq!(notes.read(0).unwrap(), None);
        let last = Note { at: 1 << 40, came: Came::Part };
        Notes::open(&notes.path()).unwrap().write(2, last).unwrap();
        // A hole in front of a note is none.
        let all = [0, 1, 2, 3].map(|rank| notes.read(rank).unwrap());
        assert_eq!(all, [None, None, Some(last), None]);
        notes.clear().unwrap();
        assert_eq!(notes.read(2).unwrap(), None);
    }

    #[test]
    fn who_runs_is_not_asleep() {
        assert!(!all_asleep(&[rustix::thread::gettid().as_raw_nonzero().get() as u32]).unwrap());
        assert!(all_asleep(&[]).unwrap());
    }
}
