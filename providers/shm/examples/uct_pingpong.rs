//! Ping-pong of 8 bytes between two pinned processes, by the bare transport and by two raw cache
//! lines, in alternating blocks of one run: their ratio is what the transport adds.
//!
//! ```text
//! cargo run --release -p bowline-shm --example uct_pingpong [round trips per block] [blocks]
//! ```
//!
//! Times of a shared machine wander; the ratio within a run says more than either of them. Raw
//! means one line per direction, written by one side and polled by the other.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::Command;
use std::time::Instant;

use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_uct::{AmId, Arrival, EpId, Iface, PeerFailure, Sink, Source, Token, Verdict};
use rustix::thread::{CpuSet, sched_setaffinity};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Counts arrivals.
#[derive(Default)]
struct Counter(u64);

impl Sink for Counter {
    #[inline]
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        let mut word = [0; 8];
        arrival.payload.copy_out(&mut word);
        self.0 += 1 + (u64::from_ne_bytes(word) >> 63);
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {}
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let first = args.next();
    if first.as_deref() == Some("--echo") {
        let mut number = || args.next().ok_or("--echo needs descriptor, round trips, processor");
        return echo(number()?.parse()?, number()?.parse()?, number()?.parse()?);
    }
    let trips: u64 = first.map_or(Ok(20_000), |text| text.parse())?;
    let blocks: usize = args.next().map_or(Ok(15), |text| text.parse())?;
    let options = ShmOptions::default();
    let area_bytes = options.area_bytes();
    // The area of a third rank holds the raw lines.
    let spec = JobSpec { job_id: 1, ranks: 3, first_rank: 0, area_bytes };
    let job = JobMemory::create_memfd(&spec)?;
    let fd = rustix::io::dup(job.region().fd().ok_or("a memfd has a descriptor")?)?;
    // Before this process binds itself: what it may use, the child may use.
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let mine = cpus.next().ok_or("no processor")?;
    let theirs = cpus.next().ok_or("a ping-pong needs two processors")?;
    let mut side = Side::new(&job, 0, mine)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--echo", &fd.as_raw_fd().to_string(), &trips.to_string(), &theirs.to_string()])
        .spawn()?;
    side.connect(1)?;
    let (mut raw, mut uct, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for block in 0..=blocks {
        let a = side.raw(trips, true);
        let b = side.uct(trips, true);
        // The first block warms up.
        if block > 0 {
            raw.push(a);
            uct.push(b);
            ratios.push(b / a);
        }
    }
    // Release pairs with the Acquire in `echo`. The raw trips that follow carry it there before
    // the child reads it.
    side.word(STOP).store(1, Ordering::Release);
    side.raw(trips, true);
    child.wait()?;
    for (name, values) in [("raw two lines", &mut raw), ("uct am_short", &mut uct)] {
        values.sort_by(f64::total_cmp);
        println!(
            "{name}: one way, best {:.0} ns, median {:.0} ns of {blocks} blocks",
            values[0],
            values[values.len() / 2]
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "ratio uct / raw: best to best {:.2}, median of blocks {:.2}",
        uct[0] / raw[0],
        ratios[ratios.len() / 2]
    );
    println!("{:?}", side.iface.counters());
    Ok(())
}

fn echo(fd: i32, trips: u64, cpu: usize) -> Outcome<()> {
    // SAFETY: the parent left this descriptor open for us; it is copied, not owned twice.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
    let job = JobMemory::open(fd)?;
    let mut side = Side::new(&job, 1, cpu)?;
    side.connect(0)?;
    loop {
        side.raw(trips, false);
        // Acquire pairs with the Release in `main`, which comes before the last raw trips.
        if side.word(STOP).load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        side.uct(trips, false);
    }
}

const PING: usize = 0;
const PONG: usize = 1;
const STOP: usize = 2;
/// Address lengths and addresses of the two sides.
const ADDRESS: usize = 3;

struct Side {
    job: JobMemory,
    me: usize,
    iface: ShmIface,
    ep: EpId,
    sink: Counter,
    /// Round trips so far; the raw lines count on.
    raw_trips: u64,
}

impl Side {
    fn new(job: &JobMemory, me: u32, cpu: usize) -> Outcome<Self> {
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        sched_setaffinity(None, &cpus)?;
        let iface = ShmIface::open(job.clone(), me, ShmOptions::default())?;
        let (job, me) = (job.clone(), me as usize);
        Ok(Self { job, me, iface, ep: EpId(0), sink: Counter::default(), raw_trips: 0 })
    }

    /// A word alone on its line, and out of reach of the neighbour's prefetcher, in the third area.
    fn word(&self, place: usize) -> &AtomicU64 {
        let view = self.job.area(2).and_then(|area| area.slice(place * 512, 64));
        let line = view.expect("an area is larger than a few lines").as_ptr();
        // SAFETY: mapped as long as `job`, aligned to a line, and only used atomically.
        unsafe { AtomicU64::from_ptr(line.cast()) }
    }

    fn connect(&mut self, peer: usize) -> Outcome<()> {
        let mine = self.iface.address();
        let page =
            |who: usize| self.job.area(2).and_then(|area| area.slice(4096 * (who + 1), 4096));
        page(self.me).ok_or("an area has some pages")?.copy_in(&mine);
        // Release pairs with the Acquire of the peer's loop below: publishes the bytes in the page.
        self.word(ADDRESS + self.me).store(mine.len() as u64, Ordering::Release);
        let mut len = 0;
        while len == 0 {
            std::thread::yield_now();
            // Acquire pairs with the peer's Release above.
            len = self.word(ADDRESS + peer).load(Ordering::Acquire) as usize;
        }
        let address =
            page(peer).and_then(|page| page.slice(0, len)).ok_or("an address is short")?;
        self.ep = self.iface.connect(&address.to_vec())?;
        Ok(())
    }

    /// Nanoseconds one way.
    fn raw(&mut self, trips: u64, first: bool) -> f64 {
        let (mine, theirs) = if first { (PING, PONG) } else { (PONG, PING) };
        let (mine, theirs) = (self.word(mine), self.word(theirs));
        let start = Instant::now();
        // Each Release store pairs with the Acquire load of the other side, and publishes the
        // number alone.
        for number in self.raw_trips + 1..=self.raw_trips + trips {
            if first {
                mine.store(number, Ordering::Release);
            }
            wait(1 << 20, || theirs.load(Ordering::Acquire) == number);
            if !first {
                // Pairs with the Acquire above, as it runs in the other process.
                mine.store(number, Ordering::Release);
            }
        }
        let time = start.elapsed().as_nanos() as f64 / (2 * trips) as f64;
        self.raw_trips += trips;
        time
    }

    fn uct(&mut self, trips: u64, first: bool) -> f64 {
        let start = Instant::now();
        for number in 0..trips {
            let seen = self.sink.0;
            if first {
                self.send(number);
            }
            let Self { iface, sink, .. } = self;
            wait(1 << 15, || {
                iface.progress(sink, 16);
                sink.0 != seen
            });
            if !first {
                self.send(number);
            }
        }
        start.elapsed().as_nanos() as f64 / (2 * trips) as f64
    }

    fn send(&mut self, number: u64) {
        let sent = self.iface.am_short(self.ep, AmId::new(1), &[number, 0, 0], &[0; 8]);
        sent.expect("one message at a time finds space");
    }
}

/// Spins, and lets others run after `patience` polls, some milliseconds: a neighbour on the same
/// processor must not turn a measurement into a hang.
#[inline]
fn wait(patience: u32, mut done: impl FnMut() -> bool) {
    let mut spins = 0u32;
    while !done() {
        spins += 1;
        if spins.is_multiple_of(patience) {
            std::thread::yield_now();
        }
    }
}
