//! Operations of reductions: those of the standard, and the user's own.
//!
//! An operation combines a left operand, made of contributions of lower ranks, with a right one;
//! results always stand in rank order, so an operation needs to be associative only. That an
//! operation is commutative allows more algorithms, nothing else. Not here: which algorithm.

#[cfg(target_arch = "x86_64")]
mod extended;
mod kernels;
mod numbers;
pub(crate) mod operands;
pub(crate) mod reduce_op;
mod soft;
mod table;
#[cfg(test)]
mod tests;
mod user;

use std::marker::PhantomData;

use bowline_model::coll::price::OpClass;

use self::kernels::{Kernel, Pairwise, each, locate};
pub use self::numbers::{Arithmetic, Bits, Ordered};
use crate::datatype::{Datatype, Located};

/// Operations and classes of elements that are known at run time only: for skins of the layer.
pub(crate) mod untyped {
    pub use super::kernels::Kernel;
    pub use super::table::Predefined;
    pub use super::user::{LaidOut, UserFunction};
}

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

    /// The same as one of the library's own loops, if it is one: that can be left to another thread.
    #[doc(hidden)]
    fn own_loop(&self) -> Option<OwnLoop<T>> {
        None
    }

    /// How long its bytes take, by which algorithms are chosen. The same at all ranks.
    #[doc(hidden)]
    fn class(&self) -> OpClass {
        OpClass::Function
    }
}

/// A loop of the library's that combines vectors of `T`.
#[doc(hidden)]
pub struct OwnLoop<T> {
    pub(crate) kernel: Kernel,
    of: PhantomData<fn(T)>,
}

impl<T> OwnLoop<T> {
    /// # Safety
    /// The kernel is one for elements of `T`.
    const unsafe fn new(kernel: Kernel) -> Self {
        Self { kernel, of: PhantomData }
    }
}

impl<T> std::fmt::Debug for OwnLoop<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OwnLoop").finish_non_exhaustive()
    }
}

impl<T: Datatype, O: Operation<T> + ?Sized> Operation<T> for &O {
    fn is_commutative(&self) -> bool {
        (**self).is_commutative()
    }

    fn combine(&self, left: &[T], right: &mut [T]) {
        (**self).combine(left, right);
    }

    fn own_loop(&self) -> Option<OwnLoop<T>> {
        (**self).own_loop()
    }

    fn class(&self) -> OpClass {
        (**self).class()
    }
}

macro_rules! predefined {
    ($($(#[$doc:meta])* $name:ident: $bound:ident, |$left:ident, $right:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl<T: $bound> Pairwise<T> for $name {
            #[inline]
            fn of($left: T, $right: T) -> T {
                $result
            }
        }

        impl<T: $bound> Operation<T> for $name {
            #[inline]
            fn is_commutative(&self) -> bool {
                true
            }

            #[inline]
            fn combine(&self, left: &[T], right: &mut [T]) {
                let count = left.len().min(right.len());
                // SAFETY: both slices have so many values; they are borrowed for the call, the right
                // one exclusively, so that they do not overlap.
                unsafe { each::<T, Self>(left.as_ptr().cast(), right.as_mut_ptr().cast(), count) };
            }

            fn own_loop(&self) -> Option<OwnLoop<T>> {
                // What the program says of a type of its own is its code.
                // SAFETY: it is made for `T`.
                <T as $bound>::OF_LIBRARY.then(|| unsafe { OwnLoop::new(each::<T, Self>) })
            }

            #[inline]
            fn class(&self) -> OpClass {
                // As `Predefined::class` has it of the same types.
                if <T as $bound>::OF_LIBRARY { OpClass::Vector } else { OpClass::Function }
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
    ($($(#[$doc:meta])* $name:ident $greatest:literal;)*) => {$(
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
                let count = left.len().min(right.len());
                let (left, right) = (left.as_ptr().cast(), right.as_mut_ptr().cast());
                // SAFETY: as for the other operations; a `Located` that is a datatype has no padding,
                // so that it is its value and its location side by side.
                unsafe { locate::<V, L, $greatest>(left, right, count) };
            }

            fn own_loop(&self) -> Option<OwnLoop<Located<V, L>>> {
                // SAFETY: it is made for a value and a location side by side, which such a `Located` is.
                Some(unsafe { OwnLoop::new(locate::<V, L, $greatest>) })
            }

            fn class(&self) -> OpClass {
                OpClass::Pairs
            }
        }
    )*};
}

locating! {
    /// The greatest value and where it is (`MPI_MAXLOC`); among equals the least location.
    MaxLoc true;
    /// The least value and where it is (`MPI_MINLOC`); among equals the least location.
    MinLoc false;
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
