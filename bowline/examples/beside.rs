//! What a computing rank loses to ranks that wait beside it: `bowline run -n 4 beside`.
//!
//! Rank 0 computes a fixed amount, first while the others are asleep in a sleep of their own,
//! then while they wait in a receive, and prints the ratio of the two times.

use std::time::{Duration, Instant};

const ROUNDS: usize = 9;

/// Some work that the compiler cannot shorten; about a tenth of a second.
fn compute() -> u64 {
    let mut x = 88_172_645_463_325_252u64;
    for _ in 0..60_000_000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

fn timed() -> f64 {
    let start = Instant::now();
    std::hint::black_box(compute());
    start.elapsed().as_secs_f64()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = bowline::init()?;
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        world.barrier()?;
        if world.rank() == 0 {
            let alone = timed();
            world.barrier()?;
            let beside = timed();
            for rank in 1..world.size() {
                world.send(&[1u8], rank, 1)?;
            }
            ratios.push(beside / alone);
        } else {
            std::thread::sleep(Duration::from_millis(500));
            world.barrier()?;
            world.recv(&mut [0u8], 0, 1)?;
        }
    }
    if world.rank() == 0 {
        ratios.sort_by(f64::total_cmp);
        println!(
            "{} waiting ranks: the computing one takes {:.3} of its time alone (median of {ROUNDS}, \
             {:.3} to {:.3})",
            world.size() - 1,
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
    Ok(())
}
