//! Tests that need the inside of the crate: damaged memory, and real processes that are killed at
//! chosen points.
//!
//! A child process is this test binary again, started with the name of a *role* test that is
//! ignored otherwise. It talks to its parent in lines that begin with a mark, since the test
//! runner writes to the same pipe.

mod damage;
mod processes;
mod server;
mod starved;
mod waiting;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use bowline_base::job::{JobMemory, JobSpec};
use bowline_uct::{
    AmHeader, AmId, Arrival, EpId, Iface, PeerFailure, PostError, Sink, Source, Token, Verdict,
};

use crate::{ShmIface, ShmOptions};

const ID: AmId = AmId::new(5);
const MARK: &str = "@@ ";
const FD: &str = "SHM_TEST_FD";
const PEER: &str = "SHM_TEST_PEER";
const NOT_A_CHILD: &str = "a role is only run by its test";

#[derive(Default)]
struct Seen {
    messages: Vec<(u32, AmHeader, Vec<u8>)>,
    failed: Vec<(Option<Source>, Option<EpId>, PeerFailure)>,
    writable: Vec<EpId>,
}

impl Sink for Seen {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        self.messages.push((arrival.source.0, arrival.header, arrival.payload.to_vec()));
        Verdict::Consumed
    }
    fn completed(&mut self, token: Token, result: Result<u64, PeerFailure>) {
        panic!("nothing is in flight, yet {token:?} completed with {result:?}");
    }
    fn writable(&mut self, ep: EpId) {
        self.writable.push(ep);
    }
    fn failed(&mut self, source: Option<Source>, ep: Option<EpId>, how: PeerFailure) {
        self.failed.push((source, ep, how));
    }
}

fn job(ranks: u32, options: &ShmOptions) -> JobMemory {
    let area_bytes = options.area_bytes();
    JobMemory::create_memfd(&JobSpec { job_id: 3, ranks, first_rank: 0, area_bytes }).unwrap()
}

fn post(iface: &mut ShmIface, seen: &mut Seen, ep: EpId, number: u64, payload: &[u8]) {
    loop {
        let mut pack = |space: bowline_base::view::View<'_>| space.copy_in(payload);
        match iface.am_bcopy(ep, ID, &[number, 0, 0], payload.len(), &mut pack) {
            Ok(_) => return,
            Err(PostError::NoResource) => {
                iface.progress(seen, 16);
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Makes progress until `done`; the caller has a watchdog.
fn until(iface: &mut ShmIface, seen: &mut Seen, mut done: impl FnMut(&Seen) -> bool) {
    while !done(seen) {
        if iface.progress(seen, 64) == 0 {
            std::thread::yield_now();
        }
    }
}

fn watchdog() -> bowline_uct::conformance::Watchdog {
    bowline_uct::conformance::Watchdog::start("shm", "a test of processes")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// A child process in a role.
struct Role {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Role {
    fn start(role: &str, job: &JobMemory, peer: &[u8]) -> Self {
        // The copy is inherited: only the original closes itself on exec.
        let fd = rustix::io::dup(job.region().fd().unwrap()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([role, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(FD, fd.as_raw_fd().to_string())
            .env(PEER, hex(peer))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, to, from: BufReader::new(from) }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the child has ended");
            // The runner's own text may stand in front of the mark.
            if let Some(at) = line.find(MARK) {
                return line[at + MARK.len()..].trim().to_owned();
            }
        }
    }

    fn send(&mut self, text: &str) {
        writeln!(self.to, "{text}").unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn wait(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a role begins with: the memory of its parent and the parent's address.
fn in_role() -> (JobMemory, Vec<u8>) {
    let fd: i32 = std::env::var(FD).expect(NOT_A_CHILD).parse().unwrap();
    // SAFETY: the parent passed this descriptor for us; it is copied, not owned twice.
    let fd: OwnedFd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().unwrap();
    (JobMemory::open(fd).unwrap(), unhex(&std::env::var(PEER).unwrap()))
}

fn say(text: &str) {
    println!("{MARK}{text}");
}

fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Waits to be killed.
fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        // The parent is gone: so is the test.
        if rustix::process::getppid().is_none_or(|parent| parent.as_raw_pid() == 1) {
            std::process::exit(1);
        }
    }
}
