//! Messages in the representation "external32": the most significant byte first, sizes that do not
//! depend on the machine, nothing between elements. (MPI: I/O, "External Data Representation".)

use bowline_base::layout::{pack, unpack};

use super::basic::{Basic, TypeClass};
use super::{Type, TypeSignature};

/// Bytes that are converted at a time.
const SCRATCH: usize = 4096;

/// A value that the other representation has no space for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value does not fit into the representation that it is converted to")]
pub struct Unrepresentable;

/// Bits of the exponent of `long double` and of its external form.
const EXPONENT: u128 = 0x7fff;

/// The 80 bits of `long double` as the 128 of the external form, which has all their values.
fn extended_to_quad(bits: u128) -> u128 {
    let (sign, exponent) = (bits >> 79 & 1, bits >> 64 & EXPONENT);
    let (leading, fraction) = (bits >> 63 & 1, bits & ((1 << 63) - 1));
    // The smallest numbers may be written with a leading 1; other numbers without one are none.
    let exponent = if exponent == 0 { leading } else { exponent };
    let no_number = exponent != 0 && leading == 0;
    let (exponent, fraction) = if no_number { (EXPONENT, 1 << 62) } else { (exponent, fraction) };
    sign << 127 | exponent << 112 | fraction << 49
}

/// The way back, rounded to the nearest, to even ones of two.
fn quad_to_extended(bits: u128) -> u128 {
    let (sign, exponent) = (bits >> 127, bits >> 112 & EXPONENT);
    let fraction = bits & ((1 << 112) - 1);
    let (kept, lost) = (fraction >> 49, fraction & ((1 << 49) - 1));
    if exponent == EXPONENT {
        // What is no number stays none.
        let kept = if fraction != 0 && kept == 0 { 1 << 62 } else { kept };
        return sign << 79 | EXPONENT << 64 | 1 << 63 | kept;
    }
    let half = 1 << 48;
    let up = lost > half || (lost == half && kept & 1 == 1);
    let leading = u128::from(exponent != 0) << 63;
    let mut significand = leading + kept + u128::from(up);
    let mut exponent = exponent;
    if significand >> 64 != 0 {
        significand >>= 1;
        exponent += 1;
    } else if exponent == 0 && significand >> 63 != 0 {
        exponent = 1;
    }
    if exponent == EXPONENT {
        significand = 1 << 63;
    }
    sign << 79 | exponent << 64 | significand
}

/// Converts one element, or one half of a complex one.
fn one_out(basic: Basic, native: &[u8], out: &mut [u8]) -> Result<(), Unrepresentable> {
    match basic.class {
        TypeClass::LongDouble | TypeClass::LongDoubleComplex => {
            let mut bits = [0; 16];
            bits[..10].copy_from_slice(&native[..10]);
            let quad = extended_to_quad(u128::from_le_bytes(bits));
            out.copy_from_slice(&quad.to_be_bytes());
        }
        _ => {
            let (low, high) = native.split_at(out.len());
            for (to, &from) in out.iter_mut().rev().zip(low) {
                *to = from;
            }
            let is_negative =
                basic.class == TypeClass::Signed && low.last().is_some_and(|&b| b >> 7 != 0);
            let rest = if is_negative { 0xff } else { 0 };
            if high.iter().any(|&byte| byte != rest) {
                return Err(Unrepresentable);
            }
        }
    }
    Ok(())
}

/// The way back.
fn one_in(basic: Basic, external: &[u8], native: &mut [u8]) {
    match basic.class {
        TypeClass::LongDouble | TypeClass::LongDoubleComplex => {
            let mut bits = [0; 16];
            bits.copy_from_slice(external);
            let extended = quad_to_extended(u128::from_be_bytes(bits));
            native.copy_from_slice(&extended.to_le_bytes());
        }
        _ => {
            let (low, high) = native.split_at_mut(external.len());
            for (to, &from) in low.iter_mut().zip(external.iter().rev()) {
                *to = from;
            }
            let is_negative =
                basic.class == TypeClass::Signed && low.last().is_some_and(|&b| b >> 7 != 0);
            high.fill(if is_negative { 0xff } else { 0 });
        }
    }
}

/// The sizes of what is converted as one, natively and externally.
fn unit(basic: Basic) -> (usize, usize) {
    let halves = match basic.class {
        TypeClass::Complex | TypeClass::LongDoubleComplex => 2,
        _ => 1,
    };
    (usize::from(basic.size) / halves, usize::from(basic.external) / halves)
}

/// Hands out the runs of basic elements of a message.
fn each_run<E>(
    elements: &TypeSignature,
    count: usize,
    mut take: impl FnMut(Basic, usize) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(basic) = elements.only() {
        return take(basic, elements.count() * count);
    }
    let mut failed = None;
    for _ in 0..count {
        elements.each_run(|basic, run| {
            if failed.is_none() {
                failed = take(basic, run).err();
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(())
}

impl Type {
    /// Bytes of a message of `count` elements in the representation "external32".
    pub fn external_size(&self, count: usize) -> Option<usize> {
        self.elements().external_size()?.checked_mul(count)
    }

    /// Packs a message of `count` elements at `base` in the representation "external32".
    ///
    /// # Errors
    /// When a value does not fit.
    ///
    /// # Safety
    /// The message must be one that its layout can count, and readable as for
    /// [`pack`]; `out` must be writable for
    /// [`external_size`](Self::external_size) bytes, apart from it.
    pub unsafe fn pack_external(
        &self,
        base: *const u8,
        count: usize,
        out: *mut u8,
    ) -> Result<(), Unrepresentable> {
        let (mut offset, mut out) = (0, out);
        let mut scratch = [0_u8; SCRATCH];
        let mut converted = [0_u8; SCRATCH];
        each_run(self.elements(), count, |basic, run| {
            let (size, external) = unit(basic);
            let mut left = run * (usize::from(basic.size) / size);
            while left > 0 {
                let n = left.min(SCRATCH / size);
                let native = &mut scratch[..n * size];
                // SAFETY: the message is the caller's promise, and the scratch our own.
                let got = unsafe {
                    pack(self.layout(), base, count, offset, native.as_mut_ptr(), native.len())
                };
                debug_assert_eq!(got, native.len(), "elements and layout have the same bytes");
                let made = &mut converted[..n * external];
                for (from, to) in native.chunks_exact(size).zip(made.chunks_exact_mut(external)) {
                    one_out(basic, from, to)?;
                }
                // SAFETY: part of the external size, for which the caller promises space.
                unsafe { out.copy_from_nonoverlapping(made.as_ptr(), made.len()) };
                out = out.wrapping_add(made.len());
                (offset, left) = (offset + n * size, left - n);
            }
            Ok(())
        })
    }

    /// Unpacks a message of `count` elements from the representation "external32" to `base`.
    ///
    /// # Safety
    /// The message must be one that its layout can count, and writable as for
    /// [`unpack`]; `from` must be readable for
    /// [`external_size`](Self::external_size) bytes, apart from it.
    pub unsafe fn unpack_external(&self, from: *const u8, base: *mut u8, count: usize) {
        let (mut offset, mut from) = (0, from);
        let mut scratch = [0_u8; SCRATCH];
        let mut external_bytes = [0_u8; SCRATCH];
        let done: Result<(), std::convert::Infallible> =
            each_run(self.elements(), count, |basic, run| {
                let (size, external) = unit(basic);
                let mut left = run * (usize::from(basic.size) / size);
                while left > 0 {
                    let n = left.min(SCRATCH / size);
                    let came = &mut external_bytes[..n * external];
                    // SAFETY: part of the external size, which the caller promises to be readable.
                    unsafe { came.as_mut_ptr().copy_from_nonoverlapping(from, came.len()) };
                    from = from.wrapping_add(came.len());
                    let native = &mut scratch[..n * size];
                    for (from, to) in came.chunks_exact(external).zip(native.chunks_exact_mut(size))
                    {
                        one_in(basic, from, to);
                    }
                    // SAFETY: the message is the caller's promise, and the scratch our own.
                    unsafe {
                        unpack(self.layout(), base, count, offset, native.as_ptr(), native.len())
                    };
                    (offset, left) = (offset + n * size, left - n);
                }
                Ok(())
            });
        let Ok(()) = done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_doubles_are_quads_outside() {
        // 1.0, -2.5, infinity, the largest, the smallest, a pseudo-denormal.
        let cases = [
            (0x3fff_8000_0000_0000_0000, 0x3fff_u128 << 112),
            (0xc000_a000_0000_0000_0000, 0xc000_4000_u128 << 96),
            (0x7fff_8000_0000_0000_0000, 0x7fff_u128 << 112),
            (0x7ffe_ffff_ffff_ffff_ffff, 0x7ffe_u128 << 112 | ((1 << 63) - 1) << 49),
            (1, 1 << 49),
            (0, 0),
        ];
        for (extended, quad) in cases {
            assert_eq!(extended_to_quad(extended), quad, "{extended:#x}");
            assert_eq!(quad_to_extended(quad), extended, "{quad:#x}");
        }
        assert_eq!(extended_to_quad(1 << 63), 1 << 112);
        let nan = extended_to_quad(0x7fff_c000_0000_0000_0000);
        assert_eq!(quad_to_extended(nan), 0x7fff_c000_0000_0000_0000);
        // A tie goes to the even one; beyond the largest is infinity.
        let one = 0x3fff_u128 << 112;
        assert_eq!(quad_to_extended(one | 1 << 48), 0x3fff_8000_0000_0000_0000);
        assert_eq!(quad_to_extended(one | 3 << 48), 0x3fff_8000_0000_0000_0002);
        let largest = 0x7ffe_u128 << 112 | ((1 << 112) - 1);
        assert_eq!(quad_to_extended(largest), 0x7fff_8000_0000_0000_0000);
        assert_eq!(quad_to_extended((1 << 112) - 1), 0x0001_8000_0000_0000_0000);
    }

    #[test]
    fn elements_lie_the_other_way_round_outside() {
        let long = Type::predefined(0x20a).unwrap();
        assert_eq!(long.external_size(3), Some(12));
        let values = [1_i64, -2, 0x1234_5678];
        let mut out = [0; 12];
        // SAFETY: three elements, and space for them.
        unsafe { long.pack_external(values.as_ptr().cast(), 3, out.as_mut_ptr()) }.unwrap();
        assert_eq!(out, [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0x12, 0x34, 0x56, 0x78]);
        let mut back = [0_i64; 3];
        // SAFETY: as above.
        unsafe { long.unpack_external(out.as_ptr(), back.as_mut_ptr().cast(), 3) };
        assert_eq!(back, values);
        // SAFETY: one element, and space for it.
        let refused =
            unsafe { long.pack_external((&raw const TOO_LARGE).cast(), 1, out.as_mut_ptr()) };
        assert_eq!(refused, Err(Unrepresentable));

        let pair = Type::predefined(0x22c).unwrap();
        let pairs = [(7_i16, -3_i32), (-1, 9)].map(|(value, index)| Pair { value, index });
        let mut out = [0; 12];
        // SAFETY: two elements, and space for them.
        unsafe { pair.pack_external(pairs.as_ptr().cast(), 2, out.as_mut_ptr()) }.unwrap();
        assert_eq!(out, [0, 7, 0xff, 0xff, 0xff, 0xfd, 0xff, 0xff, 0, 0, 0, 9]);
    }

    static TOO_LARGE: i64 = 1 << 31;

    #[repr(C)]
    struct Pair {
        value: i16,
        index: i32,
    }
}
