//! What J. A. Zounmevo's thesis gives as formulas (section 4.4), with the sizes of its structures.

use bowline_ucp::matching::CubeIndex;

/// The record of a communicator.
const LEAD: u64 = 56;

/// Bytes of the array of heads, formula (4.19).
pub(crate) const fn array_bytes(ranks: u64) -> u64 {
    LEAD + 32 * ranks
}

/// Bytes of the four-dimensional structure that holds one entry of each of the first `filled` of
/// `ranks` ranks, formula (4.20).
pub(crate) const fn cube_bytes(ranks: u32, filled: u64) -> u64 {
    let span = 1u64 << CubeIndex::bits_for(ranks);
    LEAD + filled.div_ceil(span.pow(3)) * (16 + 8 * span) + 48 * filled.div_ceil(span)
}

/// Bytes of the red-black tree with `filled` ranks, formula (4.21).
pub(crate) const fn tree_bytes(filled: u64) -> u64 {
    LEAD + 56 * filled
}

/// The threshold between list and four dimensions for a communicator of `ranks` ranks, formula
/// (4.5) with the default adjustment of 2.
pub(crate) const fn threshold(ranks: u32) -> u32 {
    let span = 1u32 << CubeIndex::bits_for(ranks);
    2 * (3 * span + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells of tables 4.5 and 4.7.
    #[test]
    fn printed_cells() {
        assert_eq!(array_bytes(4096), 131_128);
        for (ranks, filled, bytes) in [
            (4096, 1, 184),
            (4096, 100, 760),
            (65_536, 1, 248),
            (65_536, 100, 536),
            (1 << 20, 100, 520),
        ] {
            assert_eq!(cube_bytes(ranks, filled), bytes, "{filled} of {ranks}");
        }
        assert_eq!(tree_bytes(256) as f64 / 1024.0, 14.054_687_5);
        assert_eq!(threshold(200), 26);
        assert_eq!(threshold(512), 50);
    }
}
