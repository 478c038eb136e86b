//! Operations of reductions: those of the standard, and the user's own.
//!
//! An operation combines a left operand, made of contributions of lower ranks, with a right one;
//! results always stand in rank order, so an operation needs to be associative only. That an
//! operation is commutative allows more algorithms, nothing else. Not here: which algorithm.

use std::marker::PhantomData;

#[cfg(feature = "complex")]
use num_complex::Complex;

use crate::datatype::{Datatype, Located};

/// How two vectors of contributions become one. (MPI: Collective Communication, "Global
/// Reduction Operations".)
///
/// Must be associative, and give the same result on all ranks. It may make any call of this
/// library, except that what it receives from must not wait for the reduction it is part of.
pub trait Operation<T: Datatype> {
    /// Whether the order of operands does not matter.
    fn is_commutative(&self) -> bool;

    /// `right[i] = left[i] OP right[i]` for every `i`; both have the same length.
    fn combine(&self, left: &[T], right: &mut [T]);
}

impl<T: Datatype, O: Operation<T> + ?Sized> Operation<T> for &O {
    fn is_commutative(&self) -> bool {
        (**self).is_commutative()
    }

    fn combine(&self, left: &[T], right: &mut [T]) {
        (**self).combine(left, right);
    }
}

/// Types that can be added and multiplied.
pub trait Arithmetic: Datatype {
    /// The sum; integers wrap around.
    fn sum(self, right: Self) -> Self;
    /// The product; integers wrap around.
    fn product(self, right: Self) -> Self;
}

/// Types with a least and a greatest value. A floating point NaN loses against every number.
pub trait Ordered: Datatype {
    /// The smaller one.
    fn least(self, right: Self) -> Self;
    /// The greater one.
    fn greatest(self, right: Self) -> Self;
}

/// Types of bits: the integers.
pub trait Bits:
    Datatype
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
{
    /// Whether any bit is set, as in C.
    fn truth(self) -> bool;
    /// 1 or 0.
    fn from_truth(truth: bool) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Arithmetic for $type {
            #[inline]
            fn sum(self, right: Self) -> Self {
                self.wrapping_add(right)
            }
            #[inline]
            fn product(self, right: Self) -> Self {
                self.wrapping_mul(right)
            }
        }
        impl Ordered for $type {
            #[inline]
            fn least(self, right: Self) -> Self {
                self.min(right)
            }
            #[inline]
            fn greatest(self, right: Self) -> Self {
                self.max(right)
            }
        }
        impl Bits for $type {
            #[inline]
            fn truth(self) -> bool {
                self != 0
            }
            #[inline]
            fn from_truth(truth: bool) -> Self {
                Self::from(truth)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Arithmetic for $type {
            #[inline]
            fn sum(self, right: Self) -> Self {
                self + right
            }
            #[inline]
            fn product(self, right: Self) -> Self {
                self * right
            }
        }
        impl Ordered for $type {
            #[inline]
            fn least(self, right: Self) -> Self {
                self.min(right)
            }
            #[inline]
            fn greatest(self, right: Self) -> Self {
                self.max(right)
            }
        }
        #[cfg(feature = "complex")]
        impl Arithmetic for Complex<$type> {
            #[inline]
            fn sum(self, right: Self) -> Self {
                self + right
            }
            #[inline]
            fn product(self, right: Self) -> Self {
                self * right
            }
        }
    )*};
}

floats!(f32 f64);

macro_rules! predefined {
    ($($(#[$doc:meta])* $name:ident: $bound:ident, |$left:ident, $right:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl<T: $bound> Operation<T> for $name {
            #[inline]
            fn is_commutative(&self) -> bool {
                true
            }

            #[inline]
            fn combine(&self, left: &[T], right: &mut [T]) {
                for (&$left, place) in left.iter().zip(right) {
                    let $right = *place;
                    *place = $result;
                }
            }
        }
    )*};
}

predefined! {
    /// The sum (`MPI_SUM`); integers wrap around.
    Sum: Arithmetic, |left, right| left.sum(right);
    /// The product (`MPI_PROD`); integers wrap around.
    Prod: Arithmetic, |left, right| left.product(right);
    /// The least value (`MPI_MIN`).
    Min: Ordered, |left, right| left.least(right);
    /// The greatest value (`MPI_MAX`).
    Max: Ordered, |left, right| left.greatest(right);
    /// Bitwise and (`MPI_BAND`).
    BitAnd: Bits, |left, right| left & right;
    /// Bitwise or (`MPI_BOR`).
    BitOr: Bits, |left, right| left | right;
    /// Bitwise exclusive or (`MPI_BXOR`).
    BitXor: Bits, |left, right| left ^ right;
    /// Logical and (`MPI_LAND`): 1 when both are non-zero, else 0.
    LogicalAnd: Bits, |left, right| T::from_truth(left.truth() & right.truth());
    /// Logical or (`MPI_LOR`).
    LogicalOr: Bits, |left, right| T::from_truth(left.truth() | right.truth());
    /// Logical exclusive or (`MPI_LXOR`).
    LogicalXor: Bits, |left, right| T::from_truth(left.truth() ^ right.truth());
}

macro_rules! locating {
    ($($(#[$doc:meta])* $name:ident $better:tt;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl<V: PartialOrd + Copy, L: PartialOrd + Copy> Operation<Located<V, L>> for $name
        where
            Located<V, L>: Datatype,
        {
            #[inline]
            fn is_commutative(&self) -> bool {
                true
            }

            fn combine(&self, left: &[Located<V, L>], right: &mut [Located<V, L>]) {
                for (left, right) in left.iter().zip(right) {
                    let equal = left.value == right.value;
                    if left.value $better right.value || equal && left.location < right.location {
                        *right = *left;
                    }
                }
            }
        }
    )*};
}

locating! {
    /// The greatest value and where it is (`MPI_MAXLOC`); among equals the least location.
    MaxLoc >;
    /// The least value and where it is (`MPI_MINLOC`); among equals the least location.
    MinLoc <;
}

/// An operation made of a closure; see [`commutative`] and [`ordered`]. (MPI: Collective
/// Communication, "User-Defined Reduction Operations".)
#[derive(Clone, Copy)]
pub struct UserOperation<T, F> {
    combine: F,
    commutative: bool,
    of: PhantomData<fn(T)>,
}

impl<T, F> std::fmt::Debug for UserOperation<T, F> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("UserOperation").field("commutative", &self.commutative).finish()
    }
}

/// An associative and commutative operation on pairs of elements.
pub const fn commutative<T: Datatype, F: Fn(T, T) -> T>(combine: F) -> UserOperation<T, F> {
    UserOperation { combine, commutative: true, of: PhantomData }
}

/// An associative operation whose operands must stay in rank order: the first argument comes
/// from the lower ranks.
pub const fn ordered<T: Datatype, F: Fn(T, T) -> T>(combine: F) -> UserOperation<T, F> {
    UserOperation { combine, commutative: false, of: PhantomData }
}

impl<T: Datatype, F: Fn(T, T) -> T> Operation<T> for UserOperation<T, F> {
    fn is_commutative(&self) -> bool {
        self.commutative
    }

    fn combine(&self, left: &[T], right: &mut [T]) {
        for (&left, place) in left.iter().zip(right) {
            *place = (self.combine)(left, *place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply<T: Datatype>(op: impl Operation<T>, left: &[T], right: &[T]) -> Vec<T> {
        let mut out = right.to_vec();
        op.combine(left, &mut out);
        out
    }

    #[test]
    fn predefined_operations_do_what_their_names_say() {
        let (a, b) = ([6u8, 0, 255], [3u8, 5, 2]);
        assert_eq!(apply(Sum, &a, &b), [9, 5, 1]);
        assert_eq!(apply(Prod, &a, &b), [18, 0, 254]);
        assert_eq!(apply(Min, &a, &b), [3, 0, 2]);
        assert_eq!(apply(Max, &a, &b), [6, 5, 255]);
        assert_eq!(apply(BitAnd, &a, &b), [2, 0, 2]);
        assert_eq!(apply(BitOr, &a, &b), [7, 5, 255]);
        assert_eq!(apply(BitXor, &a, &b), [5, 5, 253]);
        assert_eq!(apply(LogicalAnd, &a, &b), [1, 0, 1]);
        assert_eq!(apply(LogicalOr, &a, &b), [1, 1, 1]);
        assert_eq!(apply(LogicalXor, &a, &b), [0, 1, 0]);
        assert_eq!(apply(Max, &[f64::NAN], &[1.0]), [1.0]);
        let i = Complex::new(0f32, 1.0);
        assert_eq!(apply(Prod, &[i], &[i]), [Complex::new(-1.0, 0.0)]);
    }

    #[test]
    fn the_least_location_wins_among_equals() {
        let at = |value: f64, location: i64| Located { value, location };
        assert_eq!(apply(MaxLoc, &[at(2.0, 5)], &[at(2.0, 3)]), [at(2.0, 3)]);
        assert_eq!(apply(MaxLoc, &[at(2.0, 1)], &[at(2.0, 3)]), [at(2.0, 1)]);
        assert_eq!(apply(MaxLoc, &[at(3.0, 9)], &[at(2.0, 3)]), [at(3.0, 9)]);
        assert_eq!(apply(MinLoc, &[at(3.0, 1)], &[at(2.0, 3)]), [at(2.0, 3)]);
        assert_eq!(apply(MinLoc, &[at(1.0, 9)], &[at(2.0, 3)]), [at(1.0, 9)]);
    }

    #[test]
    fn an_ordered_operation_has_the_lower_rank_on_the_left() {
        assert_eq!(apply(ordered(|a: i32, b: i32| a * 10 + b), &[1], &[2]), [12]);
    }
}
