//! What prices know of the operation of a reduction: whether it commutes, its class, and the bytes of an element.
//!
//! All of it is the same at all ranks of a call, since the standard requires one predefined operation, or functions of the
//! program's, and one type signature of them. That such functions commute at all ranks or at none is required here. A
//! rank's own constructor of the type does not show here, nor where its buffers are.

/// Operations whose bytes take about as long as each other. The class of a predefined operation follows from itself and
/// from the basic type that it is used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "each has a cost of its own")]
pub enum OpClass {
    /// Predefined, on numbers that processors have vector instructions for: memory is what takes time.
    Vector,
    /// The least or greatest value with its location.
    Pairs,
    /// Predefined, on floating-point numbers that are combined one by one or in software: `long double`, those of 2 bytes or of
    /// 16, and complex ones of them.
    Scalar,
    /// A function of the program's.
    Function,
}

impl OpClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Vector, Self::Pairs, Self::Scalar, Self::Function];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Pairs => "pairs",
            Self::Scalar => "scalar",
            Self::Function => "function",
        }
    }

    /// What a byte takes that a cache holds, as a part of what it takes from memory. It is what the operation itself takes,
    /// beside which memory hardly shows in the slower classes.
    pub(super) const fn in_cache(self) -> f64 {
        match self {
            Self::Vector => 0.4,
            Self::Pairs | Self::Scalar | Self::Function => 1.0,
        }
    }
}

/// What a reduction combines, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReductionOperands {
    commutative: bool,
    class: OpClass,
    width: usize,
}

/// Elements of so many bytes and fewer count as of so many: pieces of them are little longer than those of bytes would be,
/// and communicators need no table of choices for each.
const NARROW: usize = 8;

/// Wider elements count as of so many.
const WIDE: usize = 1 << 30;

impl ReductionOperands {
    /// Numbers of at most eight bytes with an operation that commutes.
    pub const NUMBERS: Self = Self::new(true, OpClass::Vector, NARROW);

    /// Elements of `width` bytes. Prices count with the next power of two.
    #[inline]
    pub const fn new(commutative: bool, class: OpClass, width: usize) -> Self {
        let width = match width {
            ..=NARROW => NARROW,
            WIDE.. => WIDE,
            _ => width.next_power_of_two(),
        };
        Self { commutative, class, width }
    }

    /// The same of an algorithm that keeps order anyway.
    #[inline]
    #[must_use]
    pub const fn of_any_order(self) -> Self {
        Self { commutative: true, ..self }
    }

    /// Whether the order of operands does not matter.
    #[inline]
    pub const fn commutative(self) -> bool {
        self.commutative
    }

    /// The class of the operation.
    #[inline]
    pub const fn class(self) -> OpClass {
        self.class
    }

    /// Bytes of an element, as prices count.
    #[inline]
    pub const fn width(self) -> usize {
        self.width
    }
}

/// [Numbers](ReductionOperands::NUMBERS) with an operation that commutes or not.
impl From<bool> for ReductionOperands {
    fn from(commutative: bool) -> Self {
        Self { commutative, ..Self::NUMBERS }
    }
}

/// The bytes of the least whole elements that hold so many bytes.
pub(super) fn whole(bytes: f64, width: f64) -> f64 {
    // A part of a vector may be off by rounding.
    (bytes / width - 1e-6).ceil().max(0.0) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_few() {
        let width = |width| ReductionOperands::new(true, OpClass::Function, width).width();
        assert_eq!([0, 1, 8, 9, 12, 33, 64].map(width), [8, 8, 8, 16, 16, 64, 64]);
        assert_eq!([WIDE - 1, WIDE, usize::MAX].map(width), [WIDE; 3]);
        assert_eq!(ReductionOperands::from(true), ReductionOperands::NUMBERS);
    }

    #[test]
    fn parts_are_whole_elements() {
        assert_eq!(
            [0.0, 1.0, 8.0, 8.5, 24.0].map(|bytes| whole(bytes, 8.0)),
            [0.0, 8.0, 8.0, 16.0, 24.0]
        );
        assert_eq!(whole(3.0 * (1.0 / 3.0), 1.0), 1.0);
    }
}
