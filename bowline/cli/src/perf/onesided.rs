//! One-sided operations on the protocol engine. Each rank allocates memory and opens that of the
//! other one.
//!
//! `put_lat` is a ping-pong: rank 0 puts, rank 1 sees it in its own memory and puts back. A put
//! of one word is its own signal, and so is one that ends with its last word, where the transport
//! promises that (the timed part reads no other word of it then); any other is followed, behind a fence, by a put of a word, since nothing says in
//! which order its bytes appear. Everything else is done by rank 0 to a
//! rank 1 that sleeps or does not.

use anyhow::{Result, anyhow, bail, ensure};
use bowline::ucp::{MemoryHandle, RemoteKey, RequestId, Sent};
use bowline::uct::{AtomicOp, AtomicWidth};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::sync::atomic::Ordering;
use bowline_base::view::View;

use super::Test;
use super::drive::{self, PingPong};
use super::pair::{Lent, Pair};
use super::payload;
use super::plan::Plan;
use super::stats::Samples;

/// Where the word is that announces a put, and where data begins.
const WORD: usize = 0;
const DATA: usize = 4096;

/// Polls of the own memory between two progress calls.
const POLLS: u32 = 1 << 10;

/// Memory that the peer reaches, and the peer's.
struct Windows<'a> {
    pair: &'a Pair,
    own: MemoryHandle,
    key: RemoteKey,
    /// Where the peer's memory begins, as its key counts.
    base: u64,
}

impl<'a> Windows<'a> {
    fn open(pair: &'a Pair, len: usize) -> Result<Self> {
        let own = pair.worker.mem_alloc(DATA + len)?;
        let base = pair.worker.mem_view(own, |view| view.as_ptr().addr() as u64)?;
        let mut mine = base.to_le_bytes().to_vec();
        mine.extend(pair.worker.rkey_pack(own)?);
        let theirs = pair.exchange(&mine)?;
        let (base, packed) =
            theirs.split_first_chunk().ok_or_else(|| anyhow!("the peer sent no key"))?;
        let key = pair.worker.rkey_unpack(pair.ep, packed)?;
        Ok(Self { pair, own, key, base: u64::from_le_bytes(*base) })
    }

    /// Closes both windows once the peer needs its own no more.
    fn close(self) -> Result<()> {
        self.pair.meet()?;
        self.pair.worker.rkey_release(self.key);
        self.pair.meet()?;
        self.pair.worker.mem_release(self.own)?;
        Ok(())
    }

    fn read<R>(&self, read: impl FnOnce(View<'_>) -> R) -> Result<R> {
        Ok(self.pair.worker.mem_view(self.own, read)?)
    }

    /// The data that the peer put.
    fn data(&self, len: usize) -> Result<Vec<u8>> {
        let data = self.read(|view| view.slice(DATA, len).map(View::to_vec))?;
        data.ok_or_else(|| anyhow!("the window is shorter than it was made"))
    }

    /// Puts what `from` holds.
    ///
    /// # Safety
    /// Nobody may write `from` before the put is complete.
    #[inline]
    unsafe fn put(&self, at: usize, from: &Lent<'_>) -> Result<Sent> {
        let bytes = from.bytes();
        // SAFETY: a lent buffer outlives the worker's operations, and the caller promises that it
        // is not written meanwhile.
        let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
        Ok(self.pair.worker.put(self.key, self.base + at as u64, buffer)?)
    }

    /// Gets `len` bytes of the peer's data to `place` of `into`.
    ///
    /// # Safety
    /// Nobody may read this place, nor start another get to it, before the get is complete.
    #[inline]
    unsafe fn get(&self, into: &mut Lent<'_>, place: usize, len: usize) -> Result<Sent> {
        let slot = into.slot(place * len, len);
        // SAFETY: `slot` has `len` bytes; a lent buffer outlives the worker's operations, and the
        // caller promises that the place is left to the get. Different places do not overlap.
        let buffer = unsafe { RecvBuf::borrowed(slot, len) };
        Ok(self.pair.worker.get(self.key, self.base + DATA as u64, buffer)?)
    }

    /// The own word at `at`.
    #[inline]
    fn word(&self, at: usize) -> Result<u64> {
        let word = self.read(|view| {
            // Acquire pairs with the fence, or with the last store, of the peer's put: what it put
            // before is there.
            view.word(at).map(|word| word.load(Ordering::Acquire))
        })?;
        word.ok_or_else(|| anyhow!("the window has no word at {at}"))
    }

    /// Waits until the own word at `at` is `value`. Each poll enters the worker: polls in a row without
    /// anything between them made an operation slower, near 78 to 86 ns.
    #[inline]
    fn await_word(&self, at: usize, value: u64) -> Result<()> {
        let mut polls = 0;
        while self.word(at)? != value {
            polls += 1;
            if self.pair.yields {
                std::thread::yield_now();
            }
            if polls == POLLS {
                polls = 0;
                self.pair.worker.progress();
                if !self.pair.worker.failures().is_empty() {
                    bail!("rank {} has died", self.pair.peer);
                }
            }
        }
        Ok(())
    }

    fn atomic(&self, op: AtomicOp) -> Result<u64> {
        let at = self.base + WORD as u64;
        match self.pair.worker.atomic_fetch(self.key, at, op, AtomicWidth::W64)? {
            Ok(old) => Ok(old),
            Err(id) => Ok(self.pair.wait(id)?.length),
        }
    }
}

/// Measures puts or gets.
///
/// # Errors
/// When the transport cannot, the peer fails, or a payload is damaged.
pub(crate) fn transfers(pair: &Pair, plan: &Plan) -> Result<Samples> {
    let windows = Windows::open(pair, plan.size)?;
    let samples = match plan.test {
        Test::PutLat => {
            let (out, word) = (pair.buffer(plan.size), pair.buffer(8));
            let last = pair.worker.puts_end_last(windows.key)
                && plan.size >= 16
                && plan.size.is_multiple_of(8);
            let (put, seen, stamp, numbered) = (0, 0, None, true);
            let mut side =
                Putting { windows: &windows, out, put, word, seen, stamp, last, numbered };
            drive::ping_pong(plan, pair.rank, &mut side)
        }
        Test::PutBw => puts(&windows, plan),
        _ => gets(&windows, plan),
    };
    let samples = samples?;
    windows.close()?;
    Ok(samples)
}

/// One side of the ping-pong of puts.
struct Putting<'a> {
    windows: &'a Windows<'a>,
    out: Lent<'a>,
    /// Puts of this side.
    put: u64,
    /// The word that is put.
    word: Lent<'a>,
    /// Puts of the peer.
    seen: u64,
    /// What the peer's last put carried.
    stamp: Option<u64>,
    /// Whether a put ends with its last word.
    last: bool,
    /// Whether that word is the number of the put: not of one that is checked whole.
    numbered: bool,
}

impl Putting<'_> {
    /// The number that the data in the own window carries.
    #[inline]
    fn poll(&self) -> Result<Option<u64>> {
        let len = self.out.bytes().len();
        self.windows.read(|view| payload::stamp_in(view.slice(DATA, len)?))
    }
}

impl PingPong for Putting<'_> {
    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        self.numbered = true;
        self.out.bytes_mut()
    }

    #[inline]
    fn send(&mut self) -> Result<()> {
        let windows = self.windows;
        self.put += 1;
        if self.last && self.numbered {
            // SAFETY: waited for here; after an error the side is not used.
            let sent = unsafe { windows.put(DATA, &self.out)? };
            return windows.pair.finish(sent);
        }
        if self.out.bytes().len() > 8 {
            // SAFETY: waited for here; after an error the side is not used.
            let sent = unsafe { windows.put(DATA, &self.out)? };
            windows.pair.finish(sent)?;
            windows.pair.worker.fence()?;
        }
        self.word.bytes_mut().copy_from_slice(&self.put.to_ne_bytes());
        // SAFETY: as above.
        let sent = unsafe { windows.put(WORD, &self.word)? };
        windows.pair.finish(sent)
    }

    #[inline]
    fn receive(&mut self) -> Result<()> {
        self.seen += 1;
        let len = self.out.bytes().len();
        if self.last && self.numbered {
            // Both sides' puts carry the same number.
            let number = self.out.bytes().last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
            self.windows.await_word(DATA + len - 8, number)?;
            self.stamp = Some(number);
            return Ok(());
        }
        self.windows.await_word(WORD, self.seen)?;
        if len > 8 {
            // Read now: once this side has put back, the peer may put again.
            self.stamp = self.poll()?;
        }
        Ok(())
    }

    #[inline]
    fn is_stamped(&mut self, sequence: u64) -> bool {
        // A word is its own signal, which `receive` has compared.
        self.out.bytes().len() == 8 || self.stamp == Some(sequence)
    }

    fn expect_pattern(&mut self, _: u64) -> Result<()> {
        self.numbered = false;
        Ok(())
    }

    fn check_pattern(&mut self, seed: u64) -> Result<()> {
        let len = self.out.bytes().len();
        if len == 8 {
            return Ok(());
        }
        payload::check(&self.windows.data(len)?, seed)
    }
}

/// Windows of puts, each flushed. Samples are per put.
fn puts(windows: &Windows<'_>, plan: &Plan) -> Result<Samples> {
    let pair = windows.pair;
    let mut out = pair.buffer(plan.size);
    let mut samples = Samples::new();
    for seed in [1, 2] {
        payload::fill(out.bytes_mut(), seed);
        if pair.rank == 0 {
            let mut open = Vec::with_capacity(plan.window);
            let window = || {
                for _ in 0..plan.window {
                    // SAFETY: waited for below; an error ends the measurement.
                    keep(&mut open, unsafe { windows.put(DATA, &out)? });
                }
                finish_all(pair, &mut open)?;
                Ok(pair.worker.flush()?)
            };
            // Timed in the second round; the first one is only checked.
            let rounds = if seed == 1 { once(plan) } else { *plan };
            samples = drive::operations(&rounds, plan.window, window)?;
        }
        pair.meet()?;
        if pair.rank == 1 {
            payload::check(&windows.data(plan.size)?, seed)?;
        }
        pair.meet()?;
    }
    Ok(samples)
}

/// Gets, one by one or in windows: those under way at the same time to places of their own, and others to
/// one place, as UCX's test has all. Samples are per get.
fn gets(windows: &Windows<'_>, plan: &Plan) -> Result<Samples> {
    let pair = windows.pair;
    let mut into = pair.buffer(plan.size * plan.window);
    let mut samples = Samples::new();
    for seed in [1, 2] {
        if pair.rank == 1 {
            let mut data = vec![0; plan.size];
            payload::fill(&mut data, seed);
            windows.read(|view| view.slice(DATA, plan.size).map(|view| view.copy_in(&data)))?;
        }
        pair.meet()?;
        if pair.rank == 0 {
            let mut open = Vec::with_capacity(plan.window);
            let mut used = 0;
            let window = || {
                let mut place = 0;
                for _ in 0..plan.window {
                    // SAFETY: one get at a time for each place: the next one goes to the same only
                    // if this one is complete. All are waited for below; an error ends the measurement.
                    let got = unsafe { windows.get(&mut into, place, plan.size)? };
                    used = used.max(place + 1);
                    place += usize::from(matches!(got, Sent::Pending(_)));
                    keep(&mut open, got);
                }
                finish_all(pair, &mut open)
            };
            let rounds = if seed == 1 { once(plan) } else { *plan };
            samples = drive::operations(&rounds, plan.window, window)?;
            for data in into.bytes().chunks_exact(plan.size).take(used) {
                payload::check(data, seed)?;
            }
        }
        pair.meet()?;
    }
    Ok(samples)
}

/// Measures fetch-and-add or compare-and-swap on a word of rank 1.
///
/// # Errors
/// When the transport cannot, the peer fails, or an old value is wrong.
pub(crate) fn atomics(pair: &Pair, plan: &Plan) -> Result<Samples> {
    let windows = Windows::open(pair, 0)?;
    pair.meet()?;
    let mut samples = Samples::new();
    let total = plan.warmup + plan.iterations;
    if pair.rank == 0 {
        let mut count = 0;
        samples = drive::operations(plan, 1, || {
            let op = match plan.test {
                Test::FaddLat => AtomicOp::Add(1),
                _ => AtomicOp::Cswap { compare: count, new: count + 1 },
            };
            let old = windows.atomic(op)?;
            ensure!(old == count, "atomic {count} found {old}");
            count += 1;
            Ok(())
        })?;
    }
    pair.meet()?;
    if pair.rank == 1 {
        let word = windows.word(WORD)?;
        ensure!(word == total, "{total} atomics left {word} in the target's memory");
    }
    windows.close()?;
    Ok(samples)
}

/// A plan of one operation that is checked and not timed.
const fn once(plan: &Plan) -> Plan {
    Plan { warmup: 0, iterations: 1, batch: 1, ..*plan }
}

fn keep(open: &mut Vec<RequestId>, sent: Sent) {
    if let Sent::Pending(id) = sent {
        open.push(id);
    }
}

fn finish_all(pair: &Pair, open: &mut Vec<RequestId>) -> Result<()> {
    open.drain(..).try_for_each(|id| pair.wait(id).map(drop))
}
