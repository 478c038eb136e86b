//! The number pi as an integral that the ranks share: each sums every n-th of the slices, one
//! reduction puts the sums together.
//!
//! ```text
//!   bowline run -n 4 target/release/examples/pi 100000000
//! ```

use bowline::mpi::Sum;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let slices: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no number of slices"))?,
        None => 10_000_000,
    };
    let world = bowline::init()?;
    let width = 1.0 / slices as f64;
    let own = (world.rank() as u64..slices).step_by(world.size() as usize);
    // The area under 4 / (1 + x^2) between 0 and 1, by the midpoint rule.
    let area: f64 =
        own.map(|slice| (slice as f64 + 0.5) * width).map(|x| 4.0 / (1.0 + x * x)).sum();
    let mut pi = [0.0];
    world.allreduce(&[area * width], &mut pi, Sum)?;
    if world.rank() == 0 {
        println!("{:.12}, {:.1e} from pi", pi[0], (pi[0] - std::f64::consts::PI).abs());
    }
    Ok(())
}
