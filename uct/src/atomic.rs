//! Atomic operations: their kinds, and what each of them does to a word.
//!
//! Transports without hardware for it carry them out by [`AtomicOp::perform`], in one process or on
//! behalf of a peer, so that the same operation means the same over all of them.

use bowline_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use bowline_base::view::View;

use crate::AtomicOps;

/// An atomic operation with its operands, of which narrow words take the lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Wrapping addition.
    Add(u64),
    /// Bitwise and.
    And(u64),
    /// Bitwise or.
    Or(u64),
    /// Bitwise exclusive or.
    Xor(u64),
    /// Replacement.
    Swap(u64),
    /// Replacement by `new` if the value is `compare`.
    Cswap {
        /// Expected value.
        compare: u64,
        /// Value to store.
        new: u64,
    },
}

/// Width of an atomic's operand; addresses must be aligned to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicWidth {
    /// 4 bytes.
    W32,
    /// 8 bytes.
    W64,
}

impl AtomicWidth {
    /// Bytes of the operand.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Self::W32 => 4,
            Self::W64 => 8,
        }
    }

    /// The width of so many bytes.
    pub const fn from_bytes(bytes: u8) -> Option<Self> {
        match bytes {
            4 => Some(Self::W32),
            8 => Some(Self::W64),
            _ => None,
        }
    }
}

macro_rules! on_word {
    ($name:ident, $atomic:ty, $int:ty) => {
        #[inline]
        fn $name(self, word: &$atomic) -> $int {
            // Release: what the requester put before is visible to a thread that acquires the new value,
            // the owner's own atomics or a later operation. Acquire: pairs with their releases.
            let order = Ordering::AcqRel;
            match self {
                Self::Add(by) => word.fetch_add(by as $int, order),
                Self::And(by) => word.fetch_and(by as $int, order),
                Self::Or(by) => word.fetch_or(by as $int, order),
                Self::Xor(by) => word.fetch_xor(by as $int, order),
                Self::Swap(by) => word.swap(by as $int, order),
                Self::Cswap { compare, new } => {
                    let (compare, new) = (compare as $int, new as $int);
                    // Acquire: a refused exchange, too, pairs with the release of the writer of
                    // the value that it found.
                    match word.compare_exchange(compare, new, order, Ordering::Acquire) {
                        Ok(old) | Err(old) => old,
                    }
                }
            }
        }
    };
}

impl AtomicOp {
    /// The bit of this kind.
    pub const fn kind(self) -> AtomicOps {
        match self {
            Self::Add(_) => AtomicOps::ADD,
            Self::And(_) => AtomicOps::AND,
            Self::Or(_) => AtomicOps::OR,
            Self::Xor(_) => AtomicOps::XOR,
            Self::Swap(_) => AtomicOps::SWAP,
            Self::Cswap { .. } => AtomicOps::CSWAP,
        }
    }

    /// The operation as it travels: a number below 6, and two operands, of which a compare and swap alone has
    /// the second.
    pub const fn to_wire(self) -> (u8, [u64; 2]) {
        match self {
            Self::Add(by) => (0, [by, 0]),
            Self::And(by) => (1, [by, 0]),
            Self::Or(by) => (2, [by, 0]),
            Self::Xor(by) => (3, [by, 0]),
            Self::Swap(by) => (4, [by, 0]),
            Self::Cswap { compare, new } => (5, [compare, new]),
        }
    }

    /// An operation that came from a peer. A second operand that it lacks is not read.
    pub const fn from_wire(number: u8, [first, second]: [u64; 2]) -> Option<Self> {
        Some(match number {
            0 => Self::Add(first),
            1 => Self::And(first),
            2 => Self::Or(first),
            3 => Self::Xor(first),
            4 => Self::Swap(first),
            5 => Self::Cswap { compare: first, new: second },
            _ => return None,
        })
    }

    /// Carries the operation out on the word at the front of `place` and gives the value before.
    /// `None`, with nothing done, where `place` is too short or not aligned to the width.
    #[inline]
    pub fn perform(self, place: View<'_>, width: AtomicWidth) -> Option<u64> {
        match width {
            AtomicWidth::W32 => place.half_word(0).map(|word| u64::from(self.on_32(word))),
            AtomicWidth::W64 => place.word(0).map(|word| self.on_64(word)),
        }
    }

    on_word!(on_32, AtomicU32, u32);
    on_word!(on_64, AtomicU64, u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_on_both_widths() {
        let both = u64::from(u32::MAX) << 32 | 12;
        let cases = [
            (AtomicOp::Add(u64::MAX), both - 1),
            (AtomicOp::And(10), 8),
            (AtomicOp::Or(3), both | 3),
            (AtomicOp::Xor(5), both ^ 5),
            (AtomicOp::Swap(7 << 32 | 1), 7 << 32 | 1),
            (AtomicOp::Cswap { compare: both, new: 2 }, 2),
            (AtomicOp::Cswap { compare: both + 1, new: 2 }, both),
        ];
        for (op, after) in cases {
            let mut memory = [both, both];
            // SAFETY: the array is only used through the view until that is gone.
            let view = unsafe { View::from_raw(memory.as_mut_ptr().cast(), 16) };
            assert_eq!(op.perform(view, AtomicWidth::W64), Some(both), "{op:?}");
            let narrow = view.slice(8, 4).unwrap();
            assert_eq!(op.perform(narrow, AtomicWidth::W32), Some(12), "{op:?}");
            assert_eq!(memory[0], after, "{op:?}");
            // The other half stays, and of the operands only the lower half counts.
            assert_eq!((memory[1] as u32, memory[1] >> 32), (after as u32, both >> 32), "{op:?}");
        }
    }

    #[test]
    fn places_that_are_no_word_are_refused() {
        let mut memory = [0_u64; 2];
        // SAFETY: as above.
        let view = unsafe { View::from_raw(memory.as_mut_ptr().cast(), 16) };
        let add = AtomicOp::Add(3);
        let at = |offset, len| view.slice(offset, len).unwrap();
        assert_eq!(add.perform(at(1, 8), AtomicWidth::W64), None);
        assert_eq!(add.perform(at(4, 8), AtomicWidth::W64), None);
        assert_eq!(add.perform(at(8, 7), AtomicWidth::W64), None);
        assert_eq!(add.perform(at(2, 4), AtomicWidth::W32), None);
        assert_eq!(add.perform(at(12, 3), AtomicWidth::W32), None);
        assert_eq!(add.perform(at(12, 4), AtomicWidth::W32), Some(0));
        assert_eq!(memory[0], 0);
    }
}
