//! Sends one 8-byte message and receives it, again and again, between two interfaces of one
//! thread: nothing waits, so an instruction counter shows what a message costs.
//!
//! ```text
//! cargo build --release -p bowline-shm --example instruction_count
//! valgrind --tool=callgrind --callgrind-out-file=out target/release/examples/instruction_count 100000
//! callgrind_annotate --inclusive=yes out | grep instruction_count::
//! ```
//!
//! Divide the counts of `post`, `receive` and `idle` by the number of messages.

use bowline_base::job::{JobMemory, JobSpec};
use bowline_shm::{ShmIface, ShmOptions};
use bowline_uct::{
    AmId, Arrival, EpId, Iface, PeerFailure, PostError, Sink, Source, Token, Verdict,
};

/// Takes the payload as a protocol would.
struct Taker {
    sum: u64,
}

impl Sink for Taker {
    #[inline]
    fn am(&mut self, arrival: Arrival<'_>) -> Verdict {
        let mut word = [0; 8];
        arrival.payload.copy_out(&mut word);
        self.sum = self.sum.wrapping_add(u64::from_ne_bytes(word) ^ arrival.header[0]);
        Verdict::Consumed
    }
    fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
    fn writable(&mut self, _: EpId) {}
    fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {}
}

#[inline(never)]
fn post(iface: &mut dyn Iface, ep: EpId, number: u64) -> Result<(), PostError> {
    iface.am_short(ep, AmId::new(1), &[number, 0, 0], &number.to_ne_bytes())
}

#[inline(never)]
fn receive(iface: &mut dyn Iface, sink: &mut Taker) -> u32 {
    iface.progress(sink, 16)
}

#[inline(never)]
fn idle(iface: &mut dyn Iface, sink: &mut Taker) -> u32 {
    iface.progress(sink, 16)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let options = ShmOptions::default();
    let area_bytes = options.area_bytes();
    let spec = JobSpec { job_id: 1, ranks: 2, first_rank: 0, area_bytes };
    let job = JobMemory::create_private(&spec)?;
    let mut a = ShmIface::open(job.clone(), 0, options.clone())?;
    let mut b = ShmIface::open(job, 1, options)?;
    let ep = a.connect(&b.address())?;
    let mut taker = Taker { sum: 0 };
    for number in 0..64 {
        // Long enough to come to own a ring.
        a.am_short(ep, AmId::new(1), &[number, 0, 0], &[0; 8])?;
        b.progress(&mut taker, 16);
    }
    let mut received = 0;
    for number in 0..count {
        post(&mut a, ep, number)?;
        received += u64::from(receive(&mut b, &mut taker));
        idle(&mut b, &mut taker);
    }
    assert_eq!(received, count, "one message per call");
    println!("{received} messages, check {:x}; {:?}", taker.sum, a.counters());
    Ok(())
}
