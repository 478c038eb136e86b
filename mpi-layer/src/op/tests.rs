//! Operations against what their names say.

use num_complex::Complex;

use super::untyped::Predefined;
use super::*;
use crate::types::{Type, VALUES};

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

/// What the types of the ABI are in the standard's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Integer,
    FortranInteger,
    MultiLanguage,
    Floating,
    Complex,
    Logical,
    Byte,
    Pair,
    /// Characters, packed bytes, and formats without a type here.
    None,
}

/// The table of types, by their values in the ABI.
fn group(value: u16) -> Group {
    match value {
        0x201..=0x203 => Group::MultiLanguage,
        0x208..=0x20f => Group::Integer,
        0x240 | 0x241 | 0x244 | 0x245 | 0x248..=0x24f | 0x250..=0x25f => Group::Integer,
        0x219 | 0x2c1 | 0x2c9 | 0x2d1 | 0x2d9 | 0x2e1 => Group::FortranInteger,
        0x210 | 0x214 | 0x21a | 0x21c | 0x220 | 0x2ca | 0x2d2 | 0x2da | 0x2e2 => Group::Floating,
        0x212 | 0x213 | 0x216 | 0x217 | 0x21b | 0x21d | 0x224 | 0x225 => Group::Complex,
        0x2d3 | 0x2db | 0x2e3 | 0x2eb => Group::Complex,
        0x218 | 0x238 | 0x239 | 0x2c0 | 0x2c8 | 0x2d0 | 0x2d8 | 0x2e0 => Group::Logical,
        0x247 => Group::Byte,
        0x228..=0x22d | 0x230..=0x232 => Group::Pair,
        _ => Group::None,
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_table_is_the_standards() {
    use Group::*;
    use Predefined as P;
    for &value in VALUES {
        let of = Type::predefined(value).unwrap();
        let group = group(value);
        let number = matches!(group, Integer | FortranInteger | MultiLanguage);
        for op in P::ALL {
            let expected = match op {
                P::Max | P::Min => number || group == Floating,
                P::Sum | P::Prod => number || matches!(group, Floating | Complex),
                P::LogicalAnd | P::LogicalOr | P::LogicalXor => matches!(group, Integer | Logical),
                P::BitAnd | P::BitOr | P::BitXor => number || group == Byte,
                P::MinLoc | P::MaxLoc => group == Pair,
                P::Replace | P::Nothing => true,
            };
            assert_eq!(op.kernel(&of).is_some(), expected, "{op:?} on {value:#x}");
        }
    }
}

/// Runs a kernel on vectors that are aligned for nothing.
fn run(op: Predefined, value: u16, left: &[u8], right: &[u8]) -> Vec<u8> {
    let of = Type::predefined(value).unwrap();
    let shifted = |bytes: &[u8]| {
        let mut line = bowline_base::sync::CacheLine([0xee; 200]);
        line[1..=bytes.len()].copy_from_slice(bytes);
        line
    };
    let (a, mut b) = (shifted(left), shifted(right));
    let kernel = op.kernel(&of).unwrap();
    let count = left.len() / of.size();
    // SAFETY: both lines have the vectors from their second byte on.
    unsafe { kernel(a[1..].as_ptr(), b[1..].as_mut_ptr(), count) };
    assert_eq!((b[0], b[1 + right.len()]), (0xee, 0xee), "{op:?} on {value:#x} writes beyond");
    b[1..=right.len()].to_vec()
}

macro_rules! checks_integers {
    ($($value:literal: $type:ty),*) => {$({
        use Predefined::*;
        let (a, b): ([$type; 5], [$type; 5]) =
            ([1, 0, <$type>::MAX, <$type>::MIN, 100], [0, 0, 2, 3, 7]);
        let bytes = |items: &[$type]| items.iter().flat_map(|i| i.to_ne_bytes()).collect::<Vec<u8>>();
        let each = |f: fn($type, $type) -> $type| {
            bytes(&[0, 1, 2, 3, 4].map(|i: usize| f(a[i], b[i])))
        };
        let check = |op: Predefined, f: fn($type, $type) -> $type| {
            if op.kernel(&Type::predefined($value).unwrap()).is_some() {
                assert_eq!(run(op, $value, &bytes(&a), &bytes(&b)), each(f), "{op:?}");
            }
        };
        check(Sum, |a, b| a.wrapping_add(b));
        check(Prod, |a, b| a.wrapping_mul(b));
        check(Min, |a, b| if a < b { a } else { b });
        check(Max, |a, b| if a < b { b } else { a });
        check(BitAnd, |a, b| a & b);
        check(BitOr, |a, b| a | b);
        check(BitXor, |a, b| a ^ b);
        check(LogicalAnd, |a, b| (a != 0 && b != 0).into());
        check(LogicalOr, |a, b| (a != 0 || b != 0).into());
        check(LogicalXor, |a, b| ((a != 0) != (b != 0)).into());
        check(Replace, |a, _| a);
        check(Nothing, |_, b| b);
    })*};
}

#[test]
fn kernels_of_integers_do_what_their_names_say() {
    checks_integers! {
        0x240: i8, 0x248: i16, 0x250: i32, 0x258: i64, 0x241: u8, 0x249: u16, 0x251: u32, 0x259: u64,
        0x2c1: i8, 0x2c9: i16, 0x2d1: i32, 0x2d9: i64, 0x2e1: i128, 0x202: i64, 0x247: u8,
        0x2c0: u8, 0x2c8: u16, 0x2d0: u32, 0x2d8: u64, 0x2e0: u128, 0x238: u8
    }
}

const DOUBLE: u16 = 0x214;
const DOUBLE_COMPLEX: u16 = 0x216;
const DOUBLE_INT: u16 = 0x229;
const SHORT_INT: u16 = 0x22c;

#[test]
fn kernels_of_other_numbers_do_what_their_names_say() {
    let floats = |items: &[f64]| items.iter().flat_map(|i| i.to_ne_bytes()).collect::<Vec<u8>>();
    let (a, b) = (floats(&[1.5, f64::NAN, -2.0]), floats(&[2.0, 3.0, -7.0]));
    assert_eq!(run(Predefined::Min, DOUBLE, &a, &b), floats(&[1.5, 3.0, -7.0]));
    assert_eq!(run(Predefined::Max, DOUBLE, &a, &b), floats(&[2.0, 3.0, -2.0]));
    let (a, b) = (floats(&[1.0, 2.0]), floats(&[3.0, -4.0]));
    assert_eq!(run(Predefined::Prod, DOUBLE_COMPLEX, &a, &b), floats(&[11.0, 2.0]));
    assert_eq!(run(Predefined::Sum, DOUBLE_COMPLEX, &a, &b), floats(&[4.0, -2.0]));
    assert_eq!(run(Predefined::Prod, DOUBLE, &a, &b), floats(&[3.0, -8.0]));
}

#[test]
fn kernels_of_pairs_have_no_gaps() {
    let pair = |value: f64, at: i32| [&value.to_ne_bytes()[..], &at.to_ne_bytes()].concat();
    let a = [pair(1.0, 5), pair(2.0, 7), pair(3.0, 9)].concat();
    let b = [pair(1.0, 4), pair(2.0, 8), pair(4.0, 1)].concat();
    let least = [pair(1.0, 4), pair(2.0, 7), pair(3.0, 9)].concat();
    assert_eq!(run(Predefined::MinLoc, DOUBLE_INT, &a, &b), least);
    let greatest = [pair(1.0, 4), pair(2.0, 7), pair(4.0, 1)].concat();
    assert_eq!(run(Predefined::MaxLoc, DOUBLE_INT, &a, &b), greatest);
    let pair = |value: i16, at: i32| [&value.to_ne_bytes()[..], &at.to_ne_bytes()].concat();
    let (a, b) = (pair(-3, 2), pair(4, 1));
    assert_eq!(run(Predefined::MinLoc, SHORT_INT, &a, &b), a);
    assert_eq!(run(Predefined::MaxLoc, SHORT_INT, &a, &b), b);
}
