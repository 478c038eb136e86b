//! Numbers as operations see them: what can be added, ordered, and combined bit by bit.

#[cfg(feature = "complex")]
use num_complex::Complex;

use crate::datatype::Datatype;

/// Types that can be added and multiplied.
pub trait Arithmetic: Datatype {
    /// Of the library's own types: their operations may run in any thread, and do not unwind.
    #[doc(hidden)]
    const OF_LIBRARY: bool = false;
    /// The sum; integers wrap around.
    fn sum(self, right: Self) -> Self;
    /// The product; integers wrap around.
    fn product(self, right: Self) -> Self;
}

/// Types with a least and a greatest value. A floating point NaN loses against every number.
pub trait Ordered: Datatype {
    /// Of the library's own types: their operations may run in any thread, and do not unwind.
    #[doc(hidden)]
    const OF_LIBRARY: bool = false;
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
    /// Of the library's own types: their operations may run in any thread, and do not unwind.
    #[doc(hidden)]
    const OF_LIBRARY: bool = false;
    /// Whether any bit is set, as in C.
    fn truth(self) -> bool;
    /// 1 or 0.
    fn from_truth(truth: bool) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Arithmetic for $type {
            const OF_LIBRARY: bool = true;

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
            const OF_LIBRARY: bool = true;

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
            const OF_LIBRARY: bool = true;

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
            const OF_LIBRARY: bool = true;

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
            const OF_LIBRARY: bool = true;

            #[inline]
            fn least(self, right: Self) -> Self {
                self.min(right)
            }
            #[inline]
            fn greatest(self, right: Self) -> Self {
                self.max(right)
            }
        }
        impl Real for $type {
            #[inline]
            fn difference(self, right: Self) -> Self {
                self - right
            }
        }
        #[cfg(feature = "complex")]
        impl Arithmetic for Complex<$type> {
            const OF_LIBRARY: bool = true;

            #[inline]
            fn sum(self, right: Self) -> Self {
                Parts::from(self).sum(right.into()).into()
            }
            #[inline]
            fn product(self, right: Self) -> Self {
                Parts::from(self).product(right.into()).into()
            }
        }
    )*};
}

floats!(f32 f64);

/// What complex numbers are made of.
pub(crate) trait Real: Arithmetic {
    fn difference(self, right: Self) -> Self;
}

/// A complex number.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Parts<T> {
    pub(crate) real: T,
    pub(crate) imaginary: T,
}

// SAFETY: `repr(C)` of two of one datatype: no padding, every pattern valid.
unsafe impl<T: Real> Datatype for Parts<T> {}

impl<T: Real> Arithmetic for Parts<T> {
    const OF_LIBRARY: bool = true;

    #[inline]
    fn sum(self, right: Self) -> Self {
        let real = self.real.sum(right.real);
        Self { real, imaginary: self.imaginary.sum(right.imaginary) }
    }

    #[inline]
    fn product(self, right: Self) -> Self {
        let (a, b, c, d) = (self.real, self.imaginary, right.real, right.imaginary);
        let real = a.product(c).difference(b.product(d));
        Self { real, imaginary: a.product(d).sum(b.product(c)) }
    }
}

#[cfg(feature = "complex")]
impl<T> From<Complex<T>> for Parts<T> {
    #[inline]
    fn from(number: Complex<T>) -> Self {
        Self { real: number.re, imaginary: number.im }
    }
}

#[cfg(feature = "complex")]
impl<T> From<Parts<T>> for Complex<T> {
    #[inline]
    fn from(parts: Parts<T>) -> Self {
        Self { re: parts.real, im: parts.imaginary }
    }
}
