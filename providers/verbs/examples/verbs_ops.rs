//! Messages and puts between two processes, a given number of times: what `cargo xtask bench verbs`
//! counts and times beside the latency tests of perftest, in a guest with RDMA devices.
//!
//! ```text
//!   verbs_ops send|put COUNT DEVICE PEER_DEVICE          a ping-pong, as fast as it goes
//!   verbs_ops send|put COUNT DEVICE PEER_DEVICE paced    what comes back is there when it is
//!                                                        polled for, so that no poll is in vain
//! ```
//!
//! The program starts itself as the peer. `send` is an active message of 8 bytes each way, `put` a
//! put of 8 bytes each way, which the other side sees in its memory. Of the first it prints the
//! median of half a round trip in nanoseconds; times in an emulated machine are no figures.
//!
//! Functions called `measured_*` are what an instruction counter collects.

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_uct::{
    AmId, Arrival, EpId, Iface, MemHandle, MemoryDomain, OneSided, PeerFailure, PostError,
    RemoteSlice, Sink, Source, Token, Verdict,
};
use bowline_verbs::{ConnectWhen, VerbsIface, VerbsOptions};

const USAGE: &str = "usage: verbs_ops send|put COUNT DEVICE PEER_DEVICE [paced]";

/// The first argument of the peer.
const PEER: &str = "peer";

/// Round trips before the first that counts.
const WARMUP: u64 = 64;

/// Polls of the memory between two of the completions.
const POLLS: u32 = 256;

/// With pace, what comes back is waited for so long before it is polled for.
const PACE: Duration = Duration::from_millis(2);

const ID: AmId = AmId::new(1);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Send,
    Put,
}

/// Counts messages.
#[derive(Default)]
struct Count {
    messages: u64,
    failed: Option<PeerFailure>,
}

impl Sink for Count {
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        let mut word = [0; 8];
        arrival.payload.copy_out(&mut word);
        black_box(word);
        self.messages += 1;
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: std::result::Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, how: PeerFailure) {
        self.failed = Some(how);
    }
}

/// One of the two.
struct Side {
    iface: VerbsIface,
    window: MemHandle,
    ep: EpId,
    to: RemoteSlice,
    count: Count,
    /// Whether polls count: not while the two get going, nor where they may be in vain.
    counted: bool,
}

#[inline(never)]
fn measured_send(iface: &mut VerbsIface, ep: EpId, word: &[u8; 8]) -> Posted {
    iface.am_short(ep, ID, &[1, 2, 3], word)
}

#[inline(never)]
fn measured_put(iface: &mut VerbsIface, ep: EpId, word: &[u8; 8], to: RemoteSlice) -> Posted {
    iface.put_short(ep, word, to)
}

#[inline(never)]
fn measured_progress(iface: &mut VerbsIface, count: &mut Count) -> u32 {
    // A function of its own for the counter, not one folded with the call below.
    black_box(iface.progress(black_box(count), 16))
}

type Posted = std::result::Result<(), PostError>;

impl Side {
    fn post(&mut self, operation: Operation, number: u64) -> Result<()> {
        let word = number.to_le_bytes();
        loop {
            let posted = match operation {
                Operation::Send => measured_send(&mut self.iface, self.ep, &word),
                Operation::Put => measured_put(&mut self.iface, self.ep, &word, self.to),
            };
            match posted {
                Ok(()) => return Ok(()),
                Err(PostError::NoResource) => drop(self.poll()?),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn poll(&mut self) -> Result<u32> {
        let Self { iface, count, .. } = self;
        let events =
            if self.counted { measured_progress(iface, count) } else { iface.progress(count, 16) };
        match self.count.failed {
            Some(how) => Err(format!("the other side is gone: {how}").into()),
            None => Ok(events),
        }
    }

    /// The word that the other side puts.
    fn word(&self) -> Option<&AtomicU64> {
        self.iface.mem_view(self.window)?.word(0)
    }

    /// Waits for what the other side sends or puts as number `number`.
    fn wait(&mut self, operation: Operation, number: u64) -> Result<()> {
        match operation {
            Operation::Send => {
                while self.count.messages <= number {
                    self.poll()?;
                }
            }
            Operation::Put => {
                let mut polls = 0;
                // Acquire: pairs with the device's write, which no memory model has; on the
                // machines that there are, what it wrote before is seen then.
                while self.word().ok_or("there is no window")?.load(Ordering::Acquire) != number {
                    polls += 1;
                    if polls == POLLS {
                        polls = 0;
                        self.poll()?;
                    }
                    std::hint::spin_loop();
                }
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [PEER, operation, count, device] => peer(operation, count, device),
        [operation, count, device, other] => measure(operation, count, [device, other], false),
        [operation, count, device, other, "paced"] => {
            measure(operation, count, [device, other], true)
        }
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verbs_ops: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(operation: &str, count: &str) -> Result<(Operation, u64)> {
    let operation = match operation {
        "send" => Operation::Send,
        "put" => Operation::Put,
        _ => return Err(USAGE.into()),
    };
    Ok((operation, count.parse::<u64>()? + WARMUP))
}

/// Opens the interface, exchanges addresses with the other side, and connects.
fn meet(device: &str, out: &mut impl Write, hear: &mut impl BufRead) -> Result<Side> {
    let mut options = VerbsOptions::default();
    options.device = device.to_owned();
    options.connect = ConnectWhen::AtOnce;
    let mut iface = VerbsIface::open(&options)?;
    let window = iface.mem_alloc(4096)?;
    let start = iface.mem_view(window).ok_or("there is no window")?.as_ptr().addr() as u64;
    writeln!(out, "{} {} {start}", hex(&iface.address()), hex(&iface.rkey_pack(window)?))?;
    out.flush()?;
    let mut line = String::new();
    hear.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let mut word = || words.next().ok_or("the other side ended before it said where it is");
    let (address, key, theirs) = (unhex(word()?)?, unhex(word()?)?, word()?.parse()?);
    let ep = iface.connect(&address)?;
    let rkey = iface.rkey_unpack(ep, &key)?;
    let to = RemoteSlice { address: theirs, rkey };
    Ok(Side { iface, window, ep, to, count: Count::default(), counted: false })
}

/// Answers, and stays until its input ends.
fn peer(operation: &str, count: &str, device: &str) -> Result<()> {
    let (operation, count) = read(operation, count)?;
    let mut stdin = std::io::stdin().lock();
    let mut side = meet(device, &mut std::io::stdout(), &mut stdin)?;
    for number in 0..count {
        side.wait(operation, number + u64::from(operation == Operation::Put))?;
        side.post(operation, number + 1)?;
    }
    stdin.read_line(&mut String::new())?;
    Ok(())
}

/// The peer's process, which ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Errors: it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(operation: &str, count: &str, device: &str) -> Result<(Process, BufReader<ChildStdout>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([PEER, operation, count, device])
        // What counts here counts this side only.
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().ok_or("it was asked for")?;
    Ok((Process(child), BufReader::new(out)))
}

fn measure(operation: &str, count: &str, [device, other]: [&str; 2], paced: bool) -> Result<()> {
    let (mut process, mut hear) = start(operation, count, other)?;
    let mut out = process.0.stdin.take().ok_or("it was asked for")?;
    let (operation, count) = read(operation, count)?;
    let mut side = meet(device, &mut out, &mut hear)?;
    let mut times = Vec::with_capacity(count as usize);
    for number in 0..count {
        let begin = Instant::now();
        side.post(operation, number + 1)?;
        if paced && number >= WARMUP {
            std::thread::sleep(PACE);
            // Completions of what was posted are found as a program would find them: now and then.
            if operation == Operation::Send || number % 32 == 31 {
                side.counted = true;
                side.poll()?;
                side.counted = false;
            }
        }
        side.wait(operation, number + u64::from(operation == Operation::Put))?;
        times.push(begin.elapsed() / 2);
    }
    let times = &mut times[WARMUP as usize..];
    times.sort_unstable();
    if let Some(median) = times.get(times.len() / 2) {
        println!("median_ns {}", median.as_nanos());
    }
    // The peer ends when its input does; it has sent all that it will.
    drop(out);
    let ended = process.0.wait()?;
    if ended.success() { Ok(()) } else { Err(format!("the peer failed: {ended}").into()) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}
