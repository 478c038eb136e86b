//! Processes of one host whose messages go by several networks together: messages of many sizes,
//! collective operations, a rank that dies in the middle, a connection that ends while another stays,
//! and sleep.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use bowline::mpi::{Max, MpiError, Sum, World};
use rustix::fs::MemfdFlags;

use crate::Case;
use crate::kill::launch_with_deaths;

/// A case: its name, its ranks, the rank that dies if one does, and what each rank does.
struct Job {
    name: &'static str,
    ranks: u32,
    victim: Option<i32>,
    program: fn(&World),
}

const CASES: &[Job] = &[
    Job { name: "many_sizes", ranks: 3, victim: None, program: many_sizes },
    Job { name: "collectives", ranks: 4, victim: None, program: collectives },
    Job { name: "a_connection_ends", ranks: 2, victim: None, program: a_connection_ends },
    Job { name: "killed_among_long_messages", ranks: 3, victim: Some(2), program: killed },
    Job { name: "asleep_until_it_comes", ranks: 2, victim: None, program: asleep },
];

/// What carries messages together.
const RAILS: &[&str] = &[
    "tcp,tcp",
    #[cfg(feature = "ofi")]
    "tcp,ofi",
];

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |i: usize| (i as u64 ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..len).map(|i| word(i) as u8).collect()
}

/// Everybody sends `len` bytes to the next and receives from the one before.
fn shift(world: &World, to: i32, from: i32, len: usize, seed: u64) -> Result<(), MpiError> {
    let send = world.isend_owned(pattern(len, seed << 8 | world.rank() as u64), to, 1)?;
    let mut buffer = vec![0_u8; len];
    let got = world.recv(&mut buffer, from, 1);
    send.wait()?;
    got?;
    assert!(buffer == pattern(len, seed << 8 | from as u64), "{len} bytes from {from}");
    Ok(())
}

fn many_sizes(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut sizes: Vec<usize> = (0..24).map(|bit| 1 << bit).collect();
    sizes.extend([0, 17, 8175, 8176, 8177, 130_817, 600_001, 3 << 20 | 5]);
    for seed in 0..3 {
        for &len in &sizes {
            shift(world, to, from, len, seed).expect("everybody lives");
        }
    }
}

fn collectives(world: &World) {
    for len in [1, 100, 10_000, 300_000] {
        let mine: Vec<u64> = (0..len).map(|i| i as u64 * (world.rank() as u64 + 1)).collect();
        let mut sums = vec![0; len];
        world.allreduce(&mine, &mut sums, Sum).expect("everybody lives");
        assert!((0..len).all(|i| sums[i] == i as u64 * 10));
        let mut all = if world.rank() == 2 { pattern(len, 9) } else { vec![0; len] };
        world.bcast(&mut all, 2).expect("everybody lives");
        assert!(all == pattern(len, 9));
        world.barrier().expect("everybody lives");
    }
}

/// The connections of this process by sockets, each once, the oldest descriptor first.
fn connections() -> Vec<OwnedFd> {
    use rustix::net::{AddressFamily, getpeername, getsockname, sockopt::socket_domain};
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("a descriptor of ourselves");
    let all = std::fs::read_dir("/proc/self/fd").expect("there is one");
    let mut numbers: Vec<i32> =
        all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let mut seen = HashSet::new();
    let copies = numbers.into_iter().filter_map(|number| -> Option<OwnedFd> {
        pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok()
    });
    let of_network = |fd: &OwnedFd| {
        let inet = socket_domain(fd)
            .is_ok_and(|domain| domain == AddressFamily::INET || domain == AddressFamily::INET6);
        let ends = getsockname(fd).ok().zip(getpeername(fd).ok().flatten());
        inet && ends.is_some_and(|(own, peer)| seen.insert(format!("{own:?} {peer:?}")))
    };
    copies.filter(of_network).collect()
}

/// What the library says when a path is over.
const GIVEN_UP: &str = "a path to a peer was given up";

/// What this process writes to its standard error stream, as long as the value is there. Then it goes where it
/// would have gone.
struct Written {
    file: File,
    stream: OwnedFd,
}

impl Written {
    fn begin() -> Self {
        let stream = rustix::io::dup(rustix::stdio::stderr()).expect("there is one");
        let file = rustix::fs::memfd_create("stderr", MemfdFlags::CLOEXEC).expect("memory is left");
        rustix::stdio::dup2_stderr(&file).expect("both are there");
        Self { file: file.into(), stream }
    }

    /// How many lines have `what` in them.
    fn lines_with(&self, what: &str) -> usize {
        let mut all = Vec::new();
        let mut at = 0;
        loop {
            let mut piece = [0; 4096];
            match self.file.read_at(&mut piece, at).expect("it is memory") {
                0 => break,
                n => {
                    all.extend_from_slice(&piece[..n]);
                    at += n as u64;
                }
            }
        }
        String::from_utf8_lossy(&all).lines().filter(|line| line.contains(what)).count()
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = rustix::stdio::dup2_stderr(&self.stream);
        let _ = self.file.seek(SeekFrom::Start(0));
        let _ = std::io::copy(&mut self.file, &mut std::io::stderr());
    }
}

/// Connections of rank 0 are shut down, one after the other, until a path is lost. (libfabric opens a new
/// connection where the old one carried nothing at that moment; such a path goes on.)
fn a_connection_ends(world: &World) {
    let other = 1 - world.rank();
    let written = Written::begin();
    for seed in 0..10 {
        shift(world, other, other, 4 << 20, seed).expect("everybody lives");
    }
    let mut left = connections().into_iter();
    loop {
        // In the middle of messages of the other rank.
        if world.rank() == 0 {
            let next = left.next().expect("no connection that was shut down was a path");
            rustix::net::shutdown(&next, rustix::net::Shutdown::Both).expect("it is connected");
        }
        for seed in 10..40 {
            let len = if seed % 3 == 0 { 100 } else { 4 << 20 };
            shift(world, other, other, len, seed).expect("the other path carries what there is");
        }
        let mut most = [0];
        let own = [written.lines_with(GIVEN_UP) as u64];
        world.allreduce(&own, &mut most, Max).expect("everybody lives");
        if most[0] > 0 {
            break;
        }
    }
    // It is counted before the last exchange, as the end of the other rank takes the other path, too.
    let lost = written.lines_with(GIVEN_UP);
    world.barrier().expect("everybody lives");
    assert_eq!(lost, 1, "paths that were given up");
}

fn killed(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    for seed in 0..6 {
        shift(world, to, from, 4 << 20, seed).expect("everybody lives");
    }
    if rank == 2 {
        let send = world.isend_owned(pattern(4 << 20, 0), 0, 1).expect("it is posted");
        let _ = send;
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL)
            .expect("one may kill oneself");
        loop {
            std::thread::park();
        }
    }
    // Each of them waits for the dead one, by a send or a receive of a long message.
    let mut buffer = vec![0_u8; 4 << 20];
    loop {
        let outcome = match rank {
            0 => world.recv(&mut buffer, 2, 7).map(drop),
            _ => world.send(&buffer, 2, 7),
        };
        if let Err(error) = outcome {
            let about_it = matches!(
                error,
                MpiError::PeerFailed(_)
                    | MpiError::MemberFailed { .. }
                    | MpiError::Unreachable { .. }
            );
            assert!(about_it, "an error about the dead rank was due, yet: {error:?}");
            break;
        }
    }
    world.acknowledge_failures();
    // And the two go on.
    for seed in 20..24 {
        shift(world, 1 - rank, 1 - rank, 4 << 20, seed).expect("the other lives");
    }
}

/// How often this thread has gone to sleep.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("the kernel counts them")
}

/// Who waits for long goes to sleep, and is not woken all the time for nothing. A rank that polled and
/// gave its processor away instead would not sleep at all. (libfabric is asked to wake its waiters, or
/// else they would poll it once in a millisecond.)
fn asleep(world: &World) {
    const MOST: u64 = 500;
    let other = 1 - world.rank();
    shift(world, other, other, 1 << 20, 0).expect("everybody lives");
    for len in [8_usize, 1 << 20] {
        if world.rank() == 0 {
            std::thread::sleep(Duration::from_millis(1500));
            world.send(&pattern(len, 4), 1, 3).expect("rank 1 lives");
        } else {
            let before = sleeps();
            let mut buffer = vec![0_u8; len];
            world.recv(&mut buffer, 0, 3).expect("rank 0 lives");
            assert!(buffer == pattern(len, 4));
            let slept = sleeps() - before;
            assert!((1..MOST).contains(&slept), "it went to sleep {slept} times");
        }
    }
}

/// Runs the rank program of this name, if there is one.
pub(crate) fn rank(name: &str) -> bool {
    let Some(job) = CASES.iter().find(|job| program_name(job) == name) else { return false };
    let world = bowline::init().expect("the launcher started this rank");
    (job.program)(&world);
    true
}

fn program_name(job: &Job) -> String {
    format!("rails::{}", job.name)
}

pub(crate) fn cases() -> Vec<Case> {
    let all = CASES.iter().flat_map(|job| RAILS.iter().map(move |rails| (job, *rails)));
    let case = |(job, rails): (&'static Job, &'static str)| {
        Case::new(format!("{}, {rails}", program_name(job)), || launch(job, rails))
    };
    all.map(case).collect()
}

fn launch(case: &Job, rails: &str) -> Result<(), String> {
    let settings = [
        ("BOWLINE_TRANSPORTS", "self,tcp"),
        ("BOWLINE_RAILS", rails),
        ("BOWLINE_OFI_WAKEUP", "on"),
        // One of the cases searches for what is said of paths.
        ("BOWLINE_LOG", "warn,bowline_multirail=info"),
    ];
    let dies = |rank| Some(rank) == case.victim;
    launch_with_deaths(case.ranks, program_name(case), &settings, dies)
}
