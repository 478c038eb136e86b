//! One of two ranks is killed amid the read that a signal handler of the receiver has posted: the receiver, or the sender whose memory
//! is read. The one that is killed is a process of its own, and nothing but the device says that it is dead.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bowline::base::buffer::{RecvBuf, SendBuf};
use bowline::progress::poll_count;
use bowline::ucp::{Envelope, Ep, MatchSpec, OpError, RequestId, SendMode, Sent, Worker};
use rustix::process::Signal;

use super::super::alone::alone_with;
use super::super::common::within_two_minutes;
use super::super::{ALONE, PATIENT, Random, compute, message};
use super::{OVER_VERBS, has_devices};

/// Makes this program the victim, which sends or receives.
const ROLE: &str = "BOWLINE_TEST_PEF_VICTIM";

/// So long that a kill comes amid the read.
const BYTES: usize = 16 << 20;

/// In front of the addresses, among what the harness prints.
const MARK: char = '@';

const GO: u64 = 1;
const DATA: u64 = 2;

/// A peer that does not answer for so long is taken for dead.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Pairs of ranks of which one is killed before the read is over, at the latest.
const ATTEMPTS: usize = 5;

fn worker(rank: usize, receives: bool) -> Worker {
    let timeout = format!("{}s", TIMEOUT.as_secs());
    let device = format!("rxe{rank}");
    let mut settings = vec![
        OVER_VERBS,
        ("BOWLINE_VERBS_DEVICE", &*device),
        ("BOWLINE_VERBS_PEER_TIMEOUT", &timeout),
        ("BOWLINE_RNDV_THRESHOLD", "8KiB"),
    ];
    if receives {
        settings.extend(PATIENT);
    }
    alone_with(u64::from(std::process::id()), &settings).expect("there is a device")
}

fn post(worker: &Worker, ep: Ep, tag: u64, data: Vec<u8>) -> Result<(), OpError> {
    let envelope = Envelope { space: 0, source: 0, tag };
    match worker.send(ep, envelope, SendBuf::owned(data), SendMode::Standard)? {
        Sent::Done => Ok(()),
        Sent::Pending(id) => worker.wait(id).outcome,
    }
}

fn receive(worker: &Worker, tag: u64, bytes: usize) -> (RequestId, *const u8) {
    let into = vec![0_u8; bytes];
    let start = into.as_ptr();
    let spec = MatchSpec { space: 0, source: None, tag, tag_mask: u64::MAX };
    (worker.recv(spec, RecvBuf::owned(into)).expect("the space is open"), start)
}

/// Two long messages, the second of which its receiver has read while it computes. What became of that one.
fn send(worker: &Worker, ep: Ep) -> Result<(), OpError> {
    let send = |round| {
        worker.wait(receive(worker, GO, 8).0).outcome.expect("its sender lives");
        post(worker, ep, DATA, message(round, BYTES))
    };
    send(1).expect("the receiver lives");
    send(2)
}

/// The other side. `amid` is called as soon as the first byte of the second message is there, unless the last one is there, too.
fn take(worker: &Worker, ep: Ep, amid: impl FnOnce()) -> Option<Result<(), OpError>> {
    let go = || post(worker, ep, GO, vec![1; 8]).expect("the sender lives");
    // Read by a call, which shows that this lane brings such messages.
    let (first, _) = receive(worker, DATA, BYTES);
    go();
    worker.wait_until(|| worker.is_complete(first));
    let (status, data) = worker.take_with_buffer(first).expect("it is complete");
    status.outcome.expect("the sender lives");
    assert!(data == Some(message(1, BYTES)), "not what was sent");

    let before = poll_count();
    let (second, start) = receive(worker, DATA, BYTES);
    // SAFETY: the bytes belong to the receive, which is taken below. A volatile read of one of them sees it as it was, or as the
    // device has written it.
    let is_there = |at: usize| unsafe { start.add(at).read_volatile() } != 0;
    go();
    let (mut random, begin) = (Random(5), Instant::now());
    while !is_there(0) {
        compute(&mut random);
        let hangs = begin.elapsed() > Duration::from_secs(60);
        assert!(!hangs, "no handler has posted a read");
    }
    if is_there(BYTES - 1) {
        return None;
    }
    amid();
    // Handlers find first that nothing comes, then that the connection has failed.
    let begin = Instant::now();
    while begin.elapsed() < 3 * TIMEOUT {
        compute(&mut random);
    }
    assert!(poll_count() > before, "no signal has come");
    Some(worker.wait(second).outcome)
}

/// Registrations that this thread has made, as the kernel counts them.
fn registrations() -> usize {
    let all = Command::new("rdma").args(["resource", "show", "mr"]).output();
    let all = all.expect("the guest has this command");
    assert!(all.status.success(), "{}", String::from_utf8_lossy(&all.stderr));
    // What it calls a process is a thread.
    let own = format!(" pid {} ", rustix::thread::gettid().as_raw_nonzero());
    String::from_utf8_lossy(&all.stdout).lines().filter(|line| line.contains(&own)).count()
}

fn line(address: &[u8]) -> String {
    let digits: String = address.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{MARK}{digits}\n")
}

/// The address of the other rank, from the first line that has one.
fn address(from: impl std::io::Read) -> Vec<u8> {
    let mut lines = BufReader::new(from).lines().map_while(Result::ok);
    let found = lines.find_map(|line| line.split_once(MARK).map(|(_, rest)| rest.to_owned()));
    let digits = found.expect("the other rank says where it is");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The victim, which this program starts.
#[test]
fn victim() {
    let Ok(role) = std::env::var(ROLE) else { return };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("it is allowed");
    let worker = worker(1, role == "receives");
    let mut out = std::io::stdout();
    out.write_all(line(&worker.address()).as_bytes()).expect("somebody reads");
    out.flush().expect("somebody reads");
    let ep = worker.connect(&address(std::io::stdin())).expect("the other rank is there");
    if role == "receives" {
        let own = rustix::process::getpid();
        let kill =
            || rustix::process::kill_process(own, Signal::KILL).expect("one may kill oneself");
        take(&worker, ep, kill);
    } else {
        // Killed here.
        let _ = send(&worker, ep);
    }
}

/// A pair of ranks, the second of which is the victim.
struct Pair {
    worker: Worker,
    ep: Ep,
    victim: Child,
    /// Registrations of this rank before there were messages.
    before: usize,
}

impl Pair {
    fn start(role: &str) -> Self {
        let program = std::env::current_exe().expect("it runs");
        let mut victim = Command::new(program)
            .args(["--exact", "devices::deaths::victim", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts once more");
        let worker = worker(0, role == "sends");
        let to = address(victim.stdout.take().expect("it was asked for"));
        let mut input = victim.stdin.take().expect("it was asked for");
        input.write_all(line(&worker.address()).as_bytes()).expect("the victim reads");
        let ep = worker.connect(&to).expect("the victim is there");
        Self { before: registrations(), worker, ep, victim }
    }

    /// Whether the victim was killed, and not over before.
    fn was_killed(&mut self) -> bool {
        let status = self.victim.wait().expect("it is ours");
        status.signal() == Some(Signal::KILL.as_raw())
    }

    /// What is due when the victim is dead, and the message has ended in `outcome`.
    fn check(&self, outcome: Result<(), OpError>) {
        assert!(matches!(outcome, Err(OpError::PeerFailed(_))), "{outcome:?} of the dead");
        let after = post(&self.worker, self.ep, GO, vec![1; 8]);
        assert!(matches!(after, Err(OpError::PeerFailed(_))), "{after:?} to the dead");
        assert_eq!(registrations(), self.before, "registrations of messages that are over");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Both refuse where it has ended.
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// Repeats an attempt until its victim is killed before the message is whole.
fn until_amid(what: &'static str, attempt: impl Fn() -> bool + Send + 'static) {
    if !has_devices() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    within_two_minutes(what, move || {
        assert!((0..ATTEMPTS).any(|_| attempt()), "the message was always whole before");
    });
}

#[test]
fn a_sender_that_is_killed_while_a_handlers_read_is_under_way_fails_the_receive() {
    until_amid("killed sender", || {
        let mut pair = Pair::start("sends");
        let pid = rustix::process::Pid::from_child(&pair.victim);
        let before = pair.before;
        let kill = || {
            rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
            // No call has ended it since the receive was posted.
            assert!(registrations() > before, "no buffer is registered for a handler");
        };
        match take(&pair.worker, pair.ep, kill) {
            // Whole, before the kill took effect.
            None | Some(Ok(())) => false,
            Some(outcome) => {
                assert!(pair.was_killed());
                pair.check(outcome);
                true
            }
        }
    });
}

#[test]
fn a_receiver_that_is_killed_while_its_handlers_read_is_under_way_fails_the_send() {
    until_amid("killed receiver", || {
        let mut pair = Pair::start("receives");
        let outcome = send(&pair.worker, pair.ep);
        let amid = pair.was_killed();
        if amid {
            pair.check(outcome);
        }
        amid
    });
}
