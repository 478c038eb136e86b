//! What messages and contributions consist of: bytes and words that their numbers determine.

use bowline::simulate::Random;

/// A word that depends on all of its arguments.
pub(crate) fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x1234_5678, |hash, &word| Random::new(hash ^ word).word())
}

/// The payload of a message.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        out.extend_from_slice(&random.word().to_le_bytes());
    }
    out.truncate(len);
    out
}

/// A rank's contribution to a collective.
pub(crate) fn words(seed: u64, rank: usize, len: usize) -> Vec<u64> {
    let mut random = Random::new(mix(&[seed, rank as u64]));
    (0..len).map(|_| random.word()).collect()
}
