//! What one rank holds in a job of so many ranks, for `cargo xtask bench receive-memory`: bytes in
//! which it receives, heap of its worker, and heap that its peers add. Prints one line of JSON.
//!
//! Usage: `receive_memory RANKS`. All ranks live in this process; only what rank 0 allocates is
//! counted. Nothing here takes a time.

use std::alloc::{GlobalAlloc, Layout, System};

use bowline::stack::{self, RankPlace};
use bowline::ucp::{Envelope, SendMode, SpaceOptions, Worker};
use bowline::wait::SystemWaiter;
use bowline_base::buffer::SendBuf;
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicU64, Ordering};

/// Heap bytes in use. Relaxed everywhere: one thread, and a sum publishes nothing.
static IN_USE: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted.
struct Counting;

// SAFETY: every method passes its arguments on to the system's allocator, whose promises are those
// of the trait, and returns what it returns; the counting touches no memory of theirs.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as for `alloc`; the block came from `System`.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ranks: u32 = std::env::args().nth(1).ok_or("usage: receive_memory RANKS")?.parse()?;
    let config = bowline::config_from_env()?;
    let area_bytes = stack::area_bytes(&config);
    let job = JobMemory::create_private(&JobSpec { job_id: 1, ranks, first_rank: 0, area_bytes })?;
    let open = |rank: u32| -> Result<Worker, Box<dyn std::error::Error>> {
        job.attach(rank)?;
        let place = RankPlace::of_thread(&job, rank);
        let worker = stack::worker(&place, &config, SystemWaiter::new(&config))?;
        worker.open_space(0, SpaceOptions::default())?;
        Ok(worker)
    };
    let others = (1..ranks).map(open).collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<Vec<u8>> = others.iter().map(Worker::address).collect();

    let begin = IN_USE.load(Ordering::Relaxed);
    let worker = open(0)?;
    let alone = IN_USE.load(Ordering::Relaxed);
    let receive_bytes: usize = worker.lane_attrs().iter().map(|attr| attr.receive_bytes).sum();
    let before = IN_USE.load(Ordering::Relaxed);
    for address in &addresses {
        let ep = worker.connect(address)?;
        let envelope = Envelope { space: 0, source: 0, tag: 7 };
        let _ = worker.send(ep, envelope, SendBuf::owned(vec![0; 8]), SendMode::Standard)?;
    }
    let met = IN_USE.load(Ordering::Relaxed);
    println!(
        r#"{{"ranks":{ranks},"receive_bytes":{receive_bytes},"worker_bytes":{},"peers_bytes":{}}}"#,
        alone - begin,
        met - before
    );
    Ok(())
}
