//! What a peer costs that is never talked to: a worker with a million addresses of whom it talks to 64.
//! Prints bytes per silent peer in the worker, per address in the table that a process shares, and per
//! endpoint in use.
//!
//! ```sh
//! cargo run --release --example silent_peers
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::sync::Arc;

use bowline::stack::{self, RankPlace};
use bowline::ucp::{
    AddressTable, Envelope, MatchSpec, SendMode, Sent, SpaceOptions, Worker, WorkerAddress,
};
use bowline::wait::SystemWaiter;
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::job::{JobMemory, JobSpec};
use bowline_base::sync::atomic::{AtomicUsize, Ordering};

/// Addresses.
const ALL: u32 = 1_000_000;
/// Peers that are talked to.
const TALKED_TO: u32 = 64;

/// Counts the bytes of the heap.
struct Counting;

static HEAP: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: only a sum.
        HEAP.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // Relaxed: only a sum.
        HEAP.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn heap() -> usize {
    // Relaxed: only a sum.
    HEAP.load(Ordering::Relaxed)
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = bowline::config_from_env()?;
    let area_bytes = stack::area_bytes(&config);
    let ranks = TALKED_TO + 1;
    let job = JobMemory::create_private(&JobSpec { job_id: 1, ranks, first_rank: 0, area_bytes })?;
    let worker = |rank| -> Result<Worker, Box<dyn Error>> {
        job.attach(rank)?;
        let place = RankPlace::of_thread(&job, rank);
        let worker = stack::worker(&place, &config, SystemWaiter::new(&config))?;
        worker.open_space(0, SpaceOptions::default())?;
        Ok(worker)
    };
    let me = worker(0)?;
    let others: Vec<Worker> = (1..=TALKED_TO).map(worker).collect::<Result<_, _>>()?;

    // The addresses of those who are there, among those of others in the same form: as random in what
    // is random, and counted up in what is counted up.
    let mut random = 1_u64;
    let mut next = || {
        // SplitMix64 (Steele, Lea, Flood).
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let sample = WorkerAddress::parse(&others[0].address())?;
    let step = ALL / TALKED_TO;
    let before = heap();
    let mut table = AddressTable::default();
    for index in 0..ALL {
        if index % step == 0 && index / step < TALKED_TO {
            table.push(&others[(index / step) as usize].address());
            continue;
        }
        let mut other = sample.clone();
        (other.rank, other.uid) = (index, next());
        for lane in &mut other.lanes {
            // The last quarter of a transport's address stands for what differs between ranks.
            let len = lane.address.len();
            for byte in lane.address.iter_mut().skip(len - len / 4) {
                *byte = next() as u8;
            }
        }
        table.push(&other.pack());
    }
    let table = Arc::new(table.finish());
    let in_table = heap() - before;

    let before = heap();
    let shared: Arc<AddressTable> = Arc::clone(&table);
    me.use_book(shared);
    let silent = heap() - before;
    let before = heap();
    for peer in 0..TALKED_TO {
        let ep = me.endpoint(peer * step)?;
        let envelope = Envelope { space: 0, source: 0, tag: u64::from(peer) };
        let sent = me.send(ep, envelope, SendBuf::owned(vec![1; 8]), SendMode::Standard)?;
        if let Sent::Pending(id) = sent {
            me.wait(id).outcome?;
        }
        let other = &others[peer as usize];
        let spec = MatchSpec { space: 0, source: None, tag: u64::from(peer), tag_mask: u64::MAX };
        let id = other.recv(spec, RecvBuf::owned(vec![0; 8]))?;
        other.wait_until(|| other.is_complete(id));
        other.take(id).ok_or("it is complete")?.outcome?;
    }
    let used = heap() - before;
    let silent_peers = f64::from(ALL - TALKED_TO);
    println!("{ALL} addresses of {} bytes, {TALKED_TO} talked to", sample.pack().len());
    println!("in the worker, per silent peer: {:.6} bytes", silent as f64 / silent_peers);
    println!("in the process's table, per address: {:.2} bytes", in_table as f64 / f64::from(ALL));
    println!("per peer talked to, both sides: {:.0} bytes", used as f64 / f64::from(TALKED_TO));
    if silent as f64 / silent_peers > 16.0 {
        return Err("a silent peer costs the worker more than 16 bytes".into());
    }
    Ok(())
}
