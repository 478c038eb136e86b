//! What J. A. Zounmevo's thesis gives as formulas (sections 4.4 and 7.2), with the sizes of its structures. That they give what
//! it prints is tested here: no engine is in that, so that it is no goal of a run.

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

/// Pointers that the model of section 7.2 follows in `dimensions` dimensions at most: so many ordered lists.
pub(crate) const fn modelled(ranks: u32, dimensions: u32) -> u64 {
    let size_bits = u32::BITS - (ranks - 1).leading_zeros();
    (dimensions as u64) << size_bits.div_ceil(dimensions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 4.5, whose last quotient is printed as 21.19.
    #[test]
    fn full_queues_of_array_and_four_dimensions() {
        for (ranks, quotient) in [(4096, "5.19"), (65_536, "10.54"), (1 << 20, "21.22")] {
            let full = array_bytes(ranks.into()) as f64 / cube_bytes(ranks, ranks.into()) as f64;
            assert_eq!(format!("{full:.2}"), quotient, "{ranks}");
        }
    }

    /// Table 4.11, percent of a core's memory in six full queues. That of the array on Sequoia is printed as 28.10.
    #[test]
    fn shares_of_the_largest_machines() {
        for (ranks, gigabytes, array, cubes) in
            [(560_640, 1.27, "7.89", "0.37"), (1_572_864, 1.0, "28.13", "0.66")]
        {
            let of = |bytes: u64| {
                let share = 6.0 * bytes as f64 / f64::from(1 << 30) / gigabytes;
                format!("{:.2}", share * 100.0)
            };
            assert_eq!(of(array_bytes(ranks.into())), array, "{ranks}");
            assert_eq!(of(cube_bytes(ranks, ranks.into())), cubes, "{ranks}");
        }
    }

    /// Figure 7.1, from 1000 ranks on: the model has its least where the figure has its optimum.
    #[test]
    fn the_best_number_of_dimensions() {
        for (ranks, optimum) in [(1000, 10), (4000, 6), (16_384, 7)] {
            let least = (2..=10).map(|dimensions| modelled(ranks, dimensions)).min();
            assert_eq!(Some(modelled(ranks, optimum)), least, "{ranks}");
        }
    }

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
