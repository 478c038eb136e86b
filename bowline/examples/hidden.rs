//! How many long messages come while their ranks compute: `bowline run -n 2 hidden [MILLISECONDS]`.
//!
//! Ranks in pairs send each other 4 MiB by nonblocking calls, compute without any call of the library (100 ms if nothing else
//! is asked for), and then ask once whether both messages have moved. Without anybody beside the ranks none has: a message
//! is offered in one call, asked for in another, and moves after that. `BOWLINE_PROGRESS=pef` and `thread` move it meanwhile.

use std::time::{Duration, Instant};

use bowline::mpi::{MpiError, Request};

const BYTES: usize = 4 << 20;
const ROUNDS: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let time = std::env::args().nth(1).map_or(Ok(100), |word| word.parse())?;
    let time = Duration::from_millis(time);
    let world = bowline::init()?;
    let (rank, other) = (world.rank(), world.rank() ^ 1);
    let mut came = 0;
    if other < world.size() {
        let (out, mut into) = (vec![rank as u8; BYTES], vec![0; BYTES]);
        for round in 0..ROUNDS {
            into.fill(!(other as u8));
            // Both are there, so that what is measured is not how late the other one came.
            world.sendrecv(&[round], other, 1, &mut [0_u32], other, 1)?;
            let hidden = world.scope(|s| -> Result<bool, MpiError> {
                let mut receive = s.irecv(&world, &mut into, other, 2)?;
                let mut send = s.isend(&world, &out, other, 2)?;
                compute(time);
                let hidden = receive.test()?.is_some() && send.test()?.is_some();
                receive.wait()?;
                send.wait()?;
                Ok(hidden)
            })?;
            assert!(into.iter().all(|byte| *byte == other as u8), "a message is not whole");
            came += u32::from(hidden);
        }
        println!("rank {rank}: {came} of {ROUNDS} messages came while both ranks computed");
    }
    world.barrier()?;
    Ok(())
}

/// Takes the processor for so long.
fn compute(time: Duration) {
    let start = Instant::now();
    let mut value = 1_u64;
    while start.elapsed() < time {
        for _ in 0..1000 {
            value = std::hint::black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value >> 29));
        }
    }
}
