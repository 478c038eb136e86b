//! A message goes once around all ranks, and each adds its number.
//!
//! ```text
//!   bowline run -n 4 target/release/examples/ring
//! ```
//! Alone, without a launcher, it is a world of one rank that sends to itself.

use bowline::mpi::MpiError;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = bowline::init()?;
    let sum = around(&world)?;
    if world.rank() == 0 {
        println!("{} ranks, sum of their numbers {sum}", world.size());
    }
    Ok(())
}

/// Sends the sum so far to the right; rank 0 starts and receives the whole.
fn around(world: &bowline::mpi::World) -> Result<i64, MpiError> {
    let right = (world.rank() + 1) % world.size();
    let left = (world.rank() + world.size() - 1) % world.size();
    let mut sum = [0i64];
    if world.rank() == 0 {
        world.send(&sum, right, 0)?;
        world.recv(&mut sum, left, 0)?;
    } else {
        world.recv(&mut sum, left, 0)?;
        sum[0] += i64::from(world.rank());
        world.send(&sum, right, 0)?;
    }
    Ok(sum[0])
}
