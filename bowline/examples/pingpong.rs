//! Two ranks throw a message back and forth: `bowline run -n 2 pingpong [BYTES]`.
//!
//! Prints the time of one way, the median over samples of 1000 round trips each, and checks what
//! arrives.

use std::time::Instant;

const TRIPS: u32 = 1000;
const SAMPLES: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes: usize = std::env::args().nth(1).map_or(Ok(8), |text| text.parse())?;
    let world = bowline::init()?;
    if world.size() != 2 {
        return Err("this program needs two ranks: bowline run -n 2 pingpong".into());
    }
    let other = 1 - world.rank();
    let (out, mut back) = (vec![world.rank() as u8; bytes], vec![0u8; bytes]);
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let start = Instant::now();
        for _ in 0..TRIPS {
            if world.rank() == 0 {
                world.send(&out, other, 0)?;
                world.recv(&mut back, other, 0)?;
            } else {
                world.recv(&mut back, other, 0)?;
                world.send(&out, other, 0)?;
            }
        }
        samples.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(2 * TRIPS));
        assert!(back.iter().all(|&byte| i32::from(byte) == other), "the message was damaged");
    }
    samples.sort_by(f64::total_cmp);
    if world.rank() == 0 {
        println!("{bytes} bytes: {:.0} ns one way", samples[SAMPLES / 2]);
    }
    Ok(())
}
