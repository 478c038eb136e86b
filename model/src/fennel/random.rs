//! Random numbers of each process: a stream of its own, so that what a process draws does not depend on the order in
//! which a simulator comes to the processes.

/// Streams that one seed gives.
#[derive(Clone, Debug)]
pub struct Streams {
    seed: u64,
    /// How many numbers each process has drawn.
    drawn: Vec<u64>,
}

impl Streams {
    /// The streams of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed, drawn: Vec::new() }
    }

    /// The next number of a process.
    pub fn next(&mut self, process: u32) -> u64 {
        let index = process as usize;
        if index >= self.drawn.len() {
            self.drawn.resize(index + 1, 0);
        }
        self.drawn[index] += 1;
        // A counter that is mixed twice: once with the process, so that streams do not run side by side.
        mix(mix(self.seed ^ mix(u64::from(process))).wrapping_add(self.drawn[index]))
    }

    /// The next number of a process in (0, 1]: its logarithm is finite.
    pub fn unit(&mut self, process: u32) -> f64 {
        ((self.next(process) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// A step of SplitMix64 (Steele, Lea and Flood 2014), which sends neighbouring numbers far apart.
pub(crate) const fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_draws_the_same_whatever_others_draw() {
        let (mut alone, mut among) = (Streams::new(7), Streams::new(7));
        let drawn: Vec<u64> = (0..10).map(|_| alone.next(3)).collect();
        let same = (0..10).map(|_| {
            among.next(2);
            among.next(4);
            among.next(3)
        });
        assert_eq!(drawn, same.collect::<Vec<_>>());
        assert_ne!(drawn[0], Streams::new(8).next(3));
        assert_ne!(drawn[0], alone.next(2));
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let mut streams = Streams::new(1);
        let mut tenths = [0_u32; 10];
        for process in 0..100 {
            for _ in 0..100 {
                tenths[((streams.unit(process) * 10.0) as usize).min(9)] += 1;
            }
        }
        // A thousand each; five deviations are 150.
        assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
    }
}
