//! Words that one side counts in and another reads over the network.
//!
//! A device need not read an aligned word at once: one that copies bytes may give the low half of a
//! count with the high half of the next, which is a third one. So a count that is compared by size
//! has its check beside it, in the same word, and is stored by one store. Not for words that are
//! waited for until they have one value, nor for those that the reader changes by atomics.

/// The word that stands for `count`; the one of 0 is 0.
pub const fn encode(count: u32) -> u64 {
    (check(count) as u64) << 32 | count as u64
}

/// The count that a word stands for; `None` when parts of several words were read.
///
/// A reader that reads the bytes in order, upwards or downwards, while the word changes once, has either
/// the count or the check of one of the two words whole, and no two counts have the same check. If
/// it changes more often meanwhile, one mixture in 2^32 is taken for a count.
pub const fn decode(word: u64) -> Option<u32> {
    let count = word as u32;
    if (word >> 32) as u32 == check(count) { Some(count) } else { None }
}

/// Different for each count, since the factor is odd, and of the next count in nearly all bits.
const fn check(count: u32) -> u32 {
    count.wrapping_mul(0x9e37_79b9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(count: u32) {
            prop_assert_eq!(decode(encode(count)), Some(count));
        }

        /// A reader that copies bytes finds one of the two counts or knows that it has none.
        #[test]
        fn torn_words_make_no_third_count(old: u32, step in prop_oneof![0..600_u32, any::<u32>()], cut in 0..=8_usize) {
            let new = old.wrapping_add(step);
            let (first, last) = (encode(old).to_le_bytes(), encode(new).to_le_bytes());
            for (low, high) in [(first, last), (last, first)] {
                let mut bytes = high;
                bytes[..cut].copy_from_slice(&low[..cut]);
                let read = decode(u64::from_le_bytes(bytes));
                prop_assert!(read.is_none_or(|count| count == old || count == new));
            }
        }
    }

    #[test]
    fn nothing_counted_is_zero_and_no_count_is_all_ones() {
        assert_eq!(encode(0), 0);
        assert_eq!(decode(u64::MAX), None);
    }
}
