//! Random words from a seed, the same on every machine and in every version: what a printed seed
//! replays depends on it.

/// A sequence of random words (splitmix64; Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next word.
    pub const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when the bound is.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is far below what a test of schedules could notice.
        if bound == 0 { 0 } else { self.word() % bound }
    }

    /// `true` in `per_million` of a million cases. Draws nothing when that is never.
    pub const fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < per_million as u64
    }

    /// A sequence of its own for a part of the simulation, so that drawing more in one part does
    /// not change another.
    pub const fn fork(&mut self) -> Self {
        Self::new(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_never_changes() {
        let mut random = Random::new(0);
        // The published first words of splitmix64 for the seed 0.
        assert_eq!(random.word(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.word(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(Random::new(1).below(0), 0);
        assert!(!Random::new(1).chance(0));
        assert!((0..100).all(|seed| Random::new(seed).chance(1_000_000)));
    }
}
