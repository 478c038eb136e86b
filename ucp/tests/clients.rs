//! A server that lives long over real transports: one client after the other comes, talks and goes, and
//! the server's process keeps neither memory nor descriptors of them. The transports' own tests of the
//! same are `providers/shm/src/tests/server.rs` and `providers/tcp/src/tests/busy.rs`; here is what
//! stands on them.
//!
//! Each server is a process of its own, whose descriptors and memory are nobody else's, and its clients
//! are workers in it that come and go. `UCP_TEST_CLIENTS=100000` has so many.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::config::Config;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_tcp::{TcpIface, TcpOptions};
use bowline_ucp::{
    CloseMode, Envelope, Ep, MatchSpec, OpError, PeerFailure, SendMode, Sent, SpaceOptions, Worker,
    WorkerParts,
};
use bowline_uct::Iface;
use bowline_uct::conformance::Watchdog;

use crate::doubles::{opened, parts};

/// How many clients a server has; more by this variable.
const CLIENTS: &str = "UCP_TEST_CLIENTS";
const SOME: u64 = 3000;

/// Clients after which the server has all that it will ever have.
const SETTLED: u64 = 500;

/// Places for one client at a time.
const PLACES: usize = 100;

const EVERY: MatchSpec = MatchSpec { space: 0, source: None, tag: 0, tag_mask: 0 };

fn worker(lane: Box<dyn Iface>, job: u64) -> Worker {
    let config = Config::defaults(&[bowline_ucp::SETTINGS]);
    opened(WorkerParts { job, uid: job, ..parts(0, lane, &config) }, 0, SpaceOptions::default())
}

fn shm(job: u64) -> Worker {
    // Small ones, so that a client is quickly made.
    let mut options = ShmOptions::default();
    (options.scmp_slots, options.rings, options.ring_slots) = (64, 1, 64);
    (options.guests, options.registrations) = (4, 16);
    let spec = JobSpec { job_id: job, ranks: 1, first_rank: 0, area_bytes: options.area_bytes() };
    let memory = JobMemory::create_memfd(&spec).expect("memory is to be had");
    memory.attach(0).expect("the place is free");
    worker(Box::new(ShmIface::open(memory, 0, options).expect("it opens")), job)
}

fn tcp(job: u64) -> Worker {
    let lane = TcpIface::open(TcpOptions::with_secret([0x33; 32])).expect("loopback is there");
    worker(Box::new(lane), job)
}

/// What a process has: descriptors, and memory that is there, in KB.
#[derive(Clone, Copy, Debug)]
struct Has {
    descriptors: usize,
    resident: usize,
}

impl Has {
    fn now() -> Self {
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there").count();
        let text = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
        let resident = line.trim().trim_end_matches(" kB").parse().expect("a number");
        Self { descriptors, resident }
    }
}

fn until(workers: &[&Worker], done: impl Fn() -> bool) {
    while !done() {
        let events: u32 = workers.iter().map(|worker| worker.progress()).sum();
        if events == 0 {
            std::thread::yield_now();
        }
    }
}

fn end(worker: &Worker, sent: Result<Sent, OpError>, both: &[&Worker]) {
    if let Sent::Pending(id) = sent.expect("it begins") {
        until(both, || worker.is_complete(id));
        worker.take(id).expect("complete").outcome.expect("the other side is there");
    }
}

/// Sends `bytes` and receives them on the other side.
fn send(from: &Worker, to: Ep, at: &Worker, tag: u64, bytes: &[u8]) {
    let got = at.recv(EVERY, RecvBuf::owned(vec![0; bytes.len()])).expect("the space is open");
    let envelope = Envelope { space: 0, source: 3, tag };
    let sent = from.send(to, envelope, SendBuf::owned(bytes.to_vec()), SendMode::Standard);
    end(from, sent, &[from, at]);
    until(&[from, at], || at.is_complete(got));
    let (status, there) = at.take_with_buffer(got).expect("complete");
    assert_eq!((status.tag, status.outcome), (tag, Ok(())));
    assert!(there.as_deref() == Some(bytes), "the bytes changed");
}

/// The endpoints of clients that said something, and those that have ended.
#[derive(Clone, Default)]
struct Reported(Arc<Mutex<(Vec<Ep>, Vec<Ep>)>>);

impl Reported {
    fn said(&self) -> Option<Ep> {
        self.0.lock().expect("no test panics with it").0.last().copied()
    }

    fn ended(&self) -> usize {
        self.0.lock().expect("no test panics with it").1.len()
    }
}

/// The server's side of one client after the other.
fn serve(open: fn(u64) -> Worker, name: &'static str) {
    let clients = std::env::var(CLIENTS).map_or(SOME, |text| text.parse().expect("a number"));
    let _dog = (clients <= SOME).then(|| Watchdog::start(name, "one client after the other"));
    let server = open(1);
    let reported = Reported::default();
    let hears = reported.clone();
    server.am_handler(
        5,
        Box::new(move |worker, message| {
            let ep = message.from;
            hears.0.lock().expect("no test panics with it").0.push(ep);
            let ends = hears.clone();
            let on_error = Box::new(move |_: &Worker, ended: Ep, _: PeerFailure| {
                assert_eq!(ended, ep, "the handler of another");
                ends.0.lock().expect("no test panics with it").1.push(ended);
            });
            worker.on_error(ep, on_error).expect("it has just said something");
        }),
    );
    let (began, long) = (Instant::now(), vec![7_u8; 70_000]);
    let (mut settled, mut first, mut before): (Option<Has>, _, usize) = (None, None, 0);
    for number in 0..clients {
        let client = open(number + 2);
        let both = [&server, &client];
        let to = client.connect(&server.address()).expect("the server is there");
        let said = client.am_send(to, 5, &[], SendBuf::owned(number.to_le_bytes().to_vec()));
        end(&client, said, &both);
        until(&both, || reported.said().is_some());
        let ep = reported.said().expect("it was waited for");
        send(&client, to, &server, number, &number.to_le_bytes());
        let answer = if number % 8 == 0 { &long[..] } else { &long[..100] };
        send(&server, ep, &client, number, answer);
        match number % 4 {
            0 => end(&client, client.close(to, CloseMode::Flush), &both),
            1 => end(&server, server.close(ep, CloseMode::Flush), &both),
            2 => {
                let first = client.close(to, CloseMode::Flush);
                end(&server, server.close(ep, CloseMode::Flush), &both);
                end(&client, first, &both);
            }
            // Without a word.
            _ => {}
        }
        drop(client);
        if number % 4 == 0 || number % 4 == 3 {
            until(&[&server], || reported.ended() > before);
        }
        *reported.0.lock().expect("no test panics with it") = Default::default();
        before = 0;
        let count = server.peer_count();
        assert!(count.slots <= PLACES, "{count:?} after {number} clients");
        first.get_or_insert(ep);
        if number + 1 == SETTLED.min(clients / 2) {
            settled = Some(Has::now());
        }
    }
    let (settled, now) = (settled.expect("a half of them has come"), Has::now());
    println!(
        "{name}: {clients} clients in {:.1} s; {:?}; after the first {} {settled:?}, now {now:?}",
        began.elapsed().as_secs_f64(),
        server.peer_count(),
        SETTLED.min(clients / 2),
    );
    // Of clients that went without a word, some of the last have not been noticed yet.
    assert!(now.descriptors <= settled.descriptors + 64, "{now:?} after {settled:?}");
    // A sanitizer keeps what was freed.
    if !cfg!(bowline_sanitize) {
        assert!(now.resident <= settled.resident + 4096, "{now:?} after {settled:?}");
    }
    let first = first.expect("there was one");
    let envelope = Envelope { space: 0, source: 0, tag: 0 };
    let stale = server.send(first, envelope, SendBuf::owned(vec![1]), SendMode::Standard);
    assert_eq!(stale.expect_err("it is over"), OpError::PeerFailed(PeerFailure::Closed));
}

fn in_a_process_of_its_own(role: &str) {
    let program = std::env::current_exe().expect("this program has a name");
    let arguments = [role, "--exact", "--ignored", "--nocapture", "--test-threads=1"];
    let ended = Command::new(program).args(arguments).status().expect("it starts");
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_server_keeps_nothing_of_clients_that_have_gone_over_shared_memory() {
    in_a_process_of_its_own("clients::role_shm");
}

#[test]
fn a_server_keeps_nothing_of_clients_that_have_gone_over_sockets() {
    in_a_process_of_its_own("clients::role_tcp");
}

#[test]
#[ignore = "a role"]
fn role_shm() {
    serve(shm, "shm");
}

#[test]
#[ignore = "a role"]
fn role_tcp() {
    serve(tcp, "tcp");
}
