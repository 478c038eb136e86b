//! Floating point numbers of 2 and of 16 bytes, the binary16 and binary128 of IEEE 754. Rust has no
//! stable types for them, and few processors compute with the wide ones: this is done in integers.
//!
//! Results are rounded to the nearest number, and to the even one of two. A NaN loses against every
//! number where the least or greatest is wanted, as with the other types.

use std::cmp::Ordering;

use super::numbers::{Arithmetic, Ordered, Real};
use crate::datatype::Datatype;

/// A number of 2 bytes, as its bits.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Half(u16);

// SAFETY: a transparent integer.
unsafe impl Datatype for Half {}

impl Half {
    fn wide(self) -> f32 {
        let (exponent, fraction) = (u32::from(self.0 >> 10) & 0x1f, u32::from(self.0) & 0x3ff);
        let magnitude = match exponent {
            0 => fraction as f32 * 2.0_f32.powi(-24),
            0x1f => f32::from_bits(0xff << 23 | fraction << 13),
            _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
        };
        if self.0 >> 15 == 0 { magnitude } else { -magnitude }
    }

    /// The nearest one. A sum or product of two is rounded once only in effect: 24 bits are at least twice
    /// 11 and two more.
    fn nearest(wide: f32) -> Self {
        let sign = (wide.to_bits() >> 16) as u16 & 0x8000;
        let bits = wide.to_bits() & 0x7fff_ffff;
        let magnitude = if bits > 0xff << 23 {
            0x7e00
        } else if bits >= 0x477f_f000 {
            // Half of the last place beyond the greatest.
            0x7c00
        } else if bits < 113 << 23 {
            // Below the least normal one: the sum has the last place of what is wanted.
            (f32::from_bits(bits) + 0.5).to_bits() - 0.5_f32.to_bits()
        } else {
            let rounded = bits + 0xfff + (bits >> 13 & 1);
            (rounded >> 13) - (112 << 10)
        };
        Self(sign | magnitude as u16)
    }
}

impl Arithmetic for Half {
    const OF_LIBRARY: bool = true;

    #[inline]
    fn sum(self, right: Self) -> Self {
        Self::nearest(self.wide() + right.wide())
    }
    #[inline]
    fn product(self, right: Self) -> Self {
        Self::nearest(self.wide() * right.wide())
    }
}

impl Real for Half {
    #[inline]
    fn difference(self, right: Self) -> Self {
        Self::nearest(self.wide() - right.wide())
    }
}

impl Ordered for Half {
    const OF_LIBRARY: bool = true;

    #[inline]
    fn least(self, right: Self) -> Self {
        Self::nearest(self.wide().min(right.wide()))
    }
    #[inline]
    fn greatest(self, right: Self) -> Self {
        Self::nearest(self.wide().max(right.wide()))
    }
}

/// A number of 16 bytes, as its bits: sign, 15 of exponent, 112 of fraction.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Quad(u128);

// SAFETY: a transparent integer.
unsafe impl Datatype for Quad {}

const SIGN: u128 = 1 << 127;
const INFINITE: u128 = 0x7fff << 112;
const QUIET: u128 = 1 << 111;
const FRACTION: u128 = (1 << 112) - 1;

/// A finite number: `mantissa` times 2 to the power of `exponent`. The highest bit of the mantissa is set,
/// unless it is 0; the lowest one also stands for all that is below it.
#[derive(Clone, Copy)]
struct Finite {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

impl Finite {
    fn new(negative: bool, mantissa: u128, exponent: i32) -> Self {
        let zeros = mantissa.leading_zeros();
        if mantissa == 0 {
            return Self { negative, mantissa, exponent: 0 };
        }
        Self { negative, mantissa: mantissa << zeros, exponent: exponent - zeros as i32 }
    }

    fn round(self) -> Quad {
        let sign = u128::from(self.negative) << 127;
        if self.mantissa == 0 {
            return Quad(sign);
        }
        // That of the highest bit, which counts from 1 for normal numbers.
        let biased = self.exponent + 127 + 16383;
        if biased >= 0x7fff {
            return Quad(sign | INFINITE);
        }
        let drop = if biased >= 1 { 15 } else { 16 - biased };
        let (mantissa, drop) = (shifted(self.mantissa, drop - 127), drop.min(127));
        let (kept, rest) = (mantissa >> drop, mantissa & ((1 << drop) - 1));
        let half = 1 << (drop - 1);
        let up = rest > half || rest == half && kept & 1 == 1;
        // What rounding carries over goes to the exponent, and makes the greatest ones infinite.
        let exponent = if biased >= 1 { (biased as u128 - 1) << 112 } else { 0 };
        Quad(sign | (exponent + kept + u128::from(up)))
    }
}

/// Shifts to the right if `by` is more than 0; what is lost is kept in the lowest bit.
fn shifted(mantissa: u128, by: i32) -> u128 {
    match by {
        ..=0 => mantissa,
        1..=127 => mantissa >> by | u128::from(mantissa & ((1 << by) - 1) != 0),
        _ => u128::from(mantissa != 0),
    }
}

/// The upper half of a product, whose lowest bit also stands for the lower half.
fn upper_product(a: u128, b: u128) -> u128 {
    let low = u128::from(u64::MAX);
    let (a1, a0, b1, b0) = (a >> 64, a & low, b >> 64, b & low);
    let (mid, other) = (a1 * b0, a0 * b1);
    let carry = ((a0 * b0) >> 64) + (mid & low) + (other & low);
    let rest = carry & low != 0 || (a0 * b0) & low != 0;
    (a1 * b1 + (mid >> 64) + (other >> 64) + (carry >> 64)) | u128::from(rest)
}

impl Quad {
    const fn is_nan(self) -> bool {
        self.0 & !SIGN > INFINITE
    }

    const fn is_infinite(self) -> bool {
        self.0 & !SIGN == INFINITE
    }

    const fn negated(self) -> Self {
        Self(self.0 ^ SIGN)
    }

    fn finite(self) -> Finite {
        let (exponent, fraction) = ((self.0 >> 112 & 0x7fff) as i32, self.0 & FRACTION);
        let hidden = u128::from(exponent != 0) << 112;
        Finite::new(self.0 & SIGN != 0, hidden | fraction, exponent.max(1) - 16383 - 112)
    }

    /// The NaN that an operand is, if one is.
    fn nan_of(self, right: Self) -> Option<Self> {
        let nan = if self.is_nan() { self } else { right };
        nan.is_nan().then_some(Self(nan.0 | QUIET))
    }

    /// How numbers that are no NaN compare. The two zeros are equal.
    fn order(self, right: Self) -> Ordering {
        let place = |bits: u128| match bits & SIGN {
            0 => bits as i128,
            _ => -((bits & !SIGN) as i128),
        };
        place(self.0).cmp(&place(right.0))
    }

    fn chosen(self, right: Self, wanted: Ordering) -> Self {
        if right.is_nan() || !self.is_nan() && self.order(right) == wanted { self } else { right }
    }
}

impl Arithmetic for Quad {
    const OF_LIBRARY: bool = true;

    fn sum(self, right: Self) -> Self {
        if let Some(nan) = self.nan_of(right) {
            return nan;
        }
        match (self.is_infinite(), right.is_infinite()) {
            (true, true) if self.0 != right.0 => return Self(INFINITE | QUIET),
            (true, _) => return self,
            (_, true) => return right,
            _ => {}
        }
        let (mut a, mut b) = (self.finite(), right.finite());
        if a.mantissa == 0 || b.mantissa == 0 {
            let both = a.mantissa == b.mantissa;
            let zero = Finite::new(a.negative && b.negative, 0, 0);
            return if both {
                zero
            } else if a.mantissa == 0 {
                b
            } else {
                a
            }
            .round();
        }
        if (a.exponent, a.mantissa) < (b.exponent, b.mantissa) {
            (a, b) = (b, a);
        }
        // Half, so that the sum has space; the lowest bits of both are free.
        let less = shifted(b.mantissa >> 1, a.exponent - b.exponent);
        let sum = match a.negative == b.negative {
            true => (a.mantissa >> 1) + less,
            false => (a.mantissa >> 1) - less,
        };
        Finite::new(a.negative && sum != 0, sum, a.exponent + 1).round()
    }

    fn product(self, right: Self) -> Self {
        if let Some(nan) = self.nan_of(right) {
            return nan;
        }
        let sign = (self.0 ^ right.0) & SIGN;
        let (a, b) = (self.finite(), right.finite());
        if self.is_infinite() || right.is_infinite() {
            let none = |number: Self| number.0 & !SIGN == 0;
            let nothing = none(self) || none(right);
            return Self(if nothing { INFINITE | QUIET } else { sign | INFINITE });
        }
        let exponent = a.exponent + b.exponent + 128;
        Finite::new(sign != 0, upper_product(a.mantissa, b.mantissa), exponent).round()
    }
}

impl Real for Quad {
    fn difference(self, right: Self) -> Self {
        self.sum(right.negated())
    }
}

impl Ordered for Quad {
    const OF_LIBRARY: bool = true;

    fn least(self, right: Self) -> Self {
        self.chosen(right, Ordering::Less)
    }
    fn greatest(self, right: Self) -> Self {
        self.chosen(right, Ordering::Greater)
    }
}
