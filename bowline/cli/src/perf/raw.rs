//! What the machine can do: two ranks and bare cache lines, without any transport. Every other
//! figure is compared with these.
//!
//! | figure | memory | who writes |
//! |---|---|---|
//! | two lines | a word in each rank's area | each rank its own; the other one polls it |
//! | one line | one word | both, in turn |
//! | copies | a ring of chunks between two counters | rank 0 copies in, rank 1 copies out |

use std::time::Instant;

use anyhow::{Result, bail};
use bowline_base::job::JobMemory;
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_base::view::View;

use super::Test;
use super::drive::{self, Carried, Stream};
use super::figure::{Beside, Figure};
use super::payload::Buffer;
use super::plan::Plan;
use super::site::Site;
use super::stats::Samples;

/// Words of a rank's area, far enough from each other that no processor fetches one with another.
const OWN_WORD: usize = 0;
const SHARED_WORD: usize = 512;
const HEAD: usize = 1024;
const TAIL: usize = 1536;
const RING: usize = 4096;

/// Bytes of a chunk: half of a usual level-1 cache.
const CHUNK: usize = 16 << 10;

/// Most chunks of the ring: together below a usual level-2 cache.
const CHUNKS_MAX: usize = 16;

/// Polls between two tests whether the peer is alive.
const PATIENCE: u32 = 1 << 16;

/// Measures on the areas of ranks 0 and 1, which no transport uses.
///
/// # Errors
/// When the peer dies or a payload is damaged.
pub(crate) fn measure(site: Site, plans: &[Plan], yielding: bool) -> Result<Vec<Figure>> {
    if site.place().spread {
        bail!("the ranks are on several hosts and share no memory to measure");
    }
    let ground = Ground {
        job: site.job(),
        rank: site.rank(),
        peer: site.peer(),
        yields: yielding || site.shares_processors(),
    };
    plans.iter().map(|plan| ground.measure(plan)).collect()
}

struct Ground<'a> {
    job: &'a JobMemory,
    rank: u32,
    peer: u32,
    /// Whether polling gives the processor away.
    yields: bool,
}

impl Ground<'_> {
    fn measure(&self, plan: &Plan) -> Result<Figure> {
        if plan.test == Test::RawBw {
            let mut ring = Ring::new(self, plan)?;
            let samples = drive::stream(plan, self.rank, &mut ring)?;
            // The other processor rests meanwhile, so that memory serves one.
            let alone = if self.rank == 0 { memcpy(plan) } else { 0.0 };
            return Ok(Figure::new(plan, &samples).beside(Beside::Memcpy(alone)));
        }
        let two = self.two_lines(plan)?;
        let one = self.one_line(plan)?;
        Ok(Figure::new(plan, &two).beside(Beside::OneLine(one.summary().median)))
    }

    fn area(&self, rank: u32) -> View<'_> {
        self.job.area(rank).expect("both ranks have an area")
    }

    fn word(&self, rank: u32, offset: usize) -> &AtomicU64 {
        let view = self.area(rank).slice(offset, 8).expect("an area holds a few pages");
        // SAFETY: eight bytes inside the job's mapping, which `self.job` keeps; areas are
        // page-aligned and the offsets multiples of 8; every bit pattern is a valid value, and
        // both ranks reach the word by atomics only.
        unsafe { &*view.as_ptr().cast::<AtomicU64>() }
    }

    /// Waits until `word` is `value`.
    #[inline]
    fn await_value(&self, word: &AtomicU64, value: u64) -> Result<()> {
        // Acquire pairs with the Release store of the other rank: what it wrote before is there.
        self.poll(|| word.load(Ordering::Acquire) == value)
    }

    #[inline]
    fn poll(&self, mut done: impl FnMut() -> bool) -> Result<()> {
        let mut polls = 0;
        while !done() {
            polls += 1;
            if self.yields {
                std::thread::yield_now();
            }
            if polls == PATIENCE {
                polls = 0;
                if self.job.is_dead(self.peer) {
                    bail!("rank {} has died", self.peer);
                }
            }
        }
        Ok(())
    }

    /// Round trips on two words; each rank writes its own. Samples are one way.
    fn two_lines(&self, plan: &Plan) -> Result<Samples> {
        let mine = self.word(self.rank, OWN_WORD);
        let theirs = self.word(self.peer, OWN_WORD);
        // Both sides start from what an earlier measurement left.
        let mut value = mine.load(Ordering::Relaxed);
        self.round_trips(plan, || {
            value += 1;
            if self.rank == 0 {
                // Release pairs with the Acquire of the peer's `await_value`.
                mine.store(value, Ordering::Release);
                self.await_value(theirs, value)
            } else {
                self.await_value(theirs, value)?;
                // Release as above.
                mine.store(value, Ordering::Release);
                Ok(())
            }
        })
    }

    /// Round trips on one word: rank 0 makes it odd, rank 1 even. Samples are one way.
    fn one_line(&self, plan: &Plan) -> Result<Samples> {
        let word = self.word(0, SHARED_WORD);
        // What earlier measurements left is known from the plan alone: the word counts on.
        let trips = plan.warmup + plan.iterations;
        let before = self.word(self.rank, SHARED_WORD + 64);
        let mut value = before.load(Ordering::Relaxed);
        before.store(value + 2 * trips, Ordering::Relaxed);
        self.round_trips(plan, || {
            value += 2;
            if self.rank == 0 {
                // Release pairs with the Acquire of the peer's `await_value`.
                word.store(value - 1, Ordering::Release);
                self.await_value(word, value)
            } else {
                self.await_value(word, value - 1)?;
                // Release as above.
                word.store(value, Ordering::Release);
                Ok(())
            }
        })
    }

    fn round_trips(&self, plan: &Plan, trip: impl FnMut() -> Result<()>) -> Result<Samples> {
        drive::operations(plan, 2, trip)
    }
}

/// Messages in chunks through a ring in the area of rank 0.
///
/// `head` counts the chunks copied in and is written by rank 0, `tail` those copied out and is
/// written by rank 1; a chunk may be copied in while `head - tail` is below their number.
struct Ring<'a> {
    ground: &'a Ground<'a>,
    head: &'a AtomicU64,
    tail: &'a AtomicU64,
    chunks: Vec<View<'a>>,
    /// The own counter.
    passed: u64,
    out: Buffer,
    into: Buffer,
    window: usize,
}

impl<'a> Ring<'a> {
    fn new(ground: &'a Ground<'a>, plan: &Plan) -> Result<Self> {
        let area = ground.area(0);
        let chunks: Vec<_> =
            (0..CHUNKS_MAX).map_while(|i| area.slice(RING + i * CHUNK, CHUNK)).collect();
        if chunks.len() < 2 {
            bail!("the area of a rank has {} bytes, too few for a ring", area.len());
        }
        let (head, tail) = (ground.word(0, HEAD), ground.word(0, TAIL));
        let own = if ground.rank == 0 { head } else { tail };
        Ok(Self {
            ground,
            head,
            tail,
            chunks,
            passed: own.load(Ordering::Relaxed),
            out: Buffer::new(plan.size),
            into: Buffer::new(plan.size),
            window: plan.window,
        })
    }
}

impl Stream for Ring<'_> {
    fn outgoing(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    fn send_window(&mut self) -> Result<()> {
        let capacity = self.chunks.len() as u64;
        for _ in 0..self.window {
            for piece in self.out.bytes().chunks(CHUNK) {
                // Acquire pairs with the Release of `receive_window`: the chunk was read.
                let free = || self.passed - self.tail.load(Ordering::Acquire) < capacity;
                self.ground.poll(free)?;
                self.chunks[(self.passed % capacity) as usize].copy_in(piece);
                self.passed += 1;
                // Release pairs with the Acquire of `receive_window`: publishes the chunk.
                self.head.store(self.passed, Ordering::Release);
            }
        }
        Ok(())
    }

    fn await_answer(&mut self) -> Result<()> {
        self.ground.await_value(self.tail, self.passed)
    }

    fn receive_window(&mut self, carried: Carried) -> Result<()> {
        let capacity = self.chunks.len() as u64;
        for _ in 0..self.window {
            for piece in self.into.bytes_mut().chunks_mut(CHUNK) {
                // Acquire pairs with the Release of `send_window`.
                self.ground.poll(|| self.head.load(Ordering::Acquire) > self.passed)?;
                self.chunks[(self.passed % capacity) as usize].copy_out(piece);
                self.passed += 1;
                // Release pairs with the Acquire of `send_window`: the chunk is free.
                self.tail.store(self.passed, Ordering::Release);
            }
        }
        carried.check(self.into.bytes())
    }

    fn answer(&mut self) -> Result<()> {
        // The tail is the answer.
        Ok(())
    }
}

/// 10^6 bytes per second of copies between two private buffers.
fn memcpy(plan: &Plan) -> f64 {
    let from = Buffer::new(plan.size);
    let mut to = Buffer::new(plan.size);
    let mut samples = Samples::new();
    for _ in 0..plan.samples().clamp(5, 1000) {
        let start = Instant::now();
        for _ in 0..plan.window {
            to.bytes_mut().copy_from_slice(std::hint::black_box(from.bytes()));
            std::hint::black_box(to.bytes());
        }
        samples.record(start.elapsed().as_nanos() as f64 / plan.window as f64);
    }
    plan.size as f64 * 1e3 / samples.summary().median.max(0.1)
}
