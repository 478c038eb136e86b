//! The 80-bit numbers of x87, which C calls `long double` on x86-64. Rust has no such type; the
//! instructions are written out here.
//!
//! A number takes 16 bytes, the last 6 of which mean nothing and are kept as they are in the right
//! operand.

use std::arch::asm;
use std::cmp::Ordering;

use super::numbers::{Arithmetic, Ordered, Real};
use crate::datatype::Datatype;

/// A number in its 16 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Extended([u8; 16]);

// SAFETY: bytes have no padding and no invalid pattern.
unsafe impl Datatype for Extended {}

/// `right = left OP right` with an instruction that takes both from the top of the stack.
macro_rules! compute {
    ($instruction:literal, $left:expr, $right:expr) => {{
        let (left, mut right) = ($left, $right);
        // SAFETY: both addresses are of 16 bytes that live here. The stack of x87 is empty between
        // functions, as the calling convention has it, and is so again at the end; all of its
        // registers are named as changed.
        unsafe {
            asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                $instruction,
                "fstp tbyte ptr [{right}]",
                left = in(reg) &raw const left,
                right = in(reg) &raw mut right,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        right
    }};
}

impl Arithmetic for Extended {
    const OF_LIBRARY: bool = true;

    #[inline]
    fn sum(self, right: Self) -> Self {
        compute!("faddp", self, right)
    }

    #[inline]
    fn product(self, right: Self) -> Self {
        compute!("fmulp", self, right)
    }
}

impl Real for Extended {
    #[inline]
    fn difference(self, right: Self) -> Self {
        // st(1) - st(0), which is left - right.
        compute!("fsubp", self, right)
    }
}

impl PartialOrd for Extended {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let (below, equal, unordered): (u8, u8, u8);
        // SAFETY: as in `compute`; both numbers are read only.
        unsafe {
            asm!(
                "fld tbyte ptr [{right}]",
                "fld tbyte ptr [{left}]",
                "fucomip st, st(1)",
                "setb {below}",
                "sete {equal}",
                "setp {unordered}",
                "fstp st(0)",
                left = in(reg) self,
                right = in(reg) other,
                below = out(reg_byte) below,
                equal = out(reg_byte) equal,
                unordered = out(reg_byte) unordered,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        match (unordered, equal, below) {
            (1, ..) => None,
            (_, 1, _) => Some(Ordering::Equal),
            (_, _, 1) => Some(Ordering::Less),
            _ => Some(Ordering::Greater),
        }
    }
}

impl PartialEq for Extended {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl Extended {
    /// Whether it is no number.
    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
}

impl Ordered for Extended {
    const OF_LIBRARY: bool = true;

    #[inline]
    fn least(self, right: Self) -> Self {
        if self < right || right.is_nan() { self } else { right }
    }

    #[inline]
    fn greatest(self, right: Self) -> Self {
        if self > right || right.is_nan() { self } else { right }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A number of the same value.
    fn extended(value: f64) -> Extended {
        let mut out = Extended([0xa5; 16]);
        // SAFETY: as in `compute`.
        unsafe {
            asm!(
                "fld qword ptr [{value}]",
                "fstp tbyte ptr [{out}]",
                value = in(reg) &raw const value,
                out = in(reg) &raw mut out,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        out
    }

    #[test]
    fn numbers_have_their_values() {
        for (a, b) in [(1.5, 2.25), (-3.0, 8.0), (1e300, 1e10), (0.0, -0.0), (7.0, 7.0)] {
            let (x, y) = (extended(a), extended(b));
            assert!(x.sum(y) == extended(a + b) || a == 1e300, "{a} + {b}");
            assert!(x.product(y) == extended(a * b) || a == 1e300, "{a} * {b}");
            assert!(x.difference(y) == extended(a - b) || a == 1e300, "{a} - {b}");
            assert_eq!(x.partial_cmp(&y), a.partial_cmp(&b), "{a}, {b}");
            assert!(x.least(y) == extended(a.min(b)) && x.greatest(y) == extended(a.max(b)));
        }
    }

    #[test]
    fn they_are_more_exact_than_double() {
        let tiny = extended(2f64.powi(-60));
        let one = extended(1.0);
        let sum = one.sum(tiny);
        assert!(sum > one, "a double would have lost it");
        assert!(sum.difference(one) == tiny);
        // Beyond the range of a double.
        let large = extended(1e300).product(extended(1e300));
        assert!(large > extended(f64::MAX) && large < extended(f64::INFINITY));
    }

    #[test]
    fn what_is_no_number_loses() {
        let (nan, one) = (extended(f64::NAN), extended(1.0));
        assert_eq!(nan.partial_cmp(&one), None);
        assert!(nan.least(one) == one && one.least(nan) == one);
        assert!(nan.greatest(one) == one && one.greatest(nan) == one);
    }

    #[test]
    fn the_bytes_behind_a_number_stay() {
        let sum = Extended([1; 16]).sum(extended(1.0));
        assert_eq!(sum.0[10..], [0xa5; 6]);
    }
}
