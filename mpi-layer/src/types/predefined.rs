//! The types that the standard's ABI names, by their values in it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bowline_base::layout::Layout;

use super::basic::{Basic, Pair, TypeClass};
use super::bounds::Gathered;
use super::elements::TypeSignature;
use super::{Inner, Type};

/// What a predefined type is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Basic(Basic),
    Pair(Pair),
}

const fn one(class: TypeClass, size: u8) -> Kind {
    Kind::Basic(Basic::new(class, size))
}

const fn long(class: TypeClass) -> Kind {
    Kind::Basic(Basic::long(class))
}

const fn pair(value: Basic, index: Basic) -> Kind {
    Kind::Pair(Pair::new(value, index))
}

const fn basic(class: TypeClass, size: u8) -> Basic {
    Basic::new(class, size)
}

use TypeClass::*;

const INT: Basic = basic(Signed, 4);

/// All of them, in the order of their values. `INTEGER`, `REAL` and `LOGICAL` of Fortran have 4 bytes, as
/// compilers have them unless an option says otherwise.
const TABLE: &[(u16, Kind)] = &[
    // AINT, COUNT, OFFSET, PACKED
    (0x201, one(MultiLanguage, 8)),
    (0x202, one(MultiLanguage, 8)),
    (0x203, one(MultiLanguage, 8)),
    (0x207, one(Packed, 1)),
    // SHORT, INT, LONG, LONG_LONG, and without a sign
    (0x208, one(Signed, 2)),
    (0x209, one(Signed, 4)),
    (0x20a, long(Signed)),
    (0x20b, one(Signed, 8)),
    (0x20c, one(Unsigned, 2)),
    (0x20d, one(Unsigned, 4)),
    (0x20e, long(Unsigned)),
    (0x20f, one(Unsigned, 8)),
    // FLOAT, DOUBLE, and the complex ones of C and C++
    (0x210, one(Float, 4)),
    (0x212, one(Complex, 8)),
    (0x213, one(Complex, 8)),
    (0x214, one(Float, 8)),
    (0x216, one(Complex, 16)),
    (0x217, one(Complex, 16)),
    // LOGICAL, INTEGER, REAL, COMPLEX, DOUBLE_PRECISION, DOUBLE_COMPLEX, CHARACTER
    (0x218, one(Logical, 4)),
    (0x219, one(FortranInteger, 4)),
    (0x21a, one(Float, 4)),
    (0x21b, one(Complex, 8)),
    (0x21c, one(Float, 8)),
    (0x21d, one(Complex, 16)),
    (0x21e, one(Char, 1)),
    // LONG_DOUBLE, and the complex ones of C and C++
    (0x220, one(LongDouble, 16)),
    (0x224, one(LongDoubleComplex, 32)),
    (0x225, one(LongDoubleComplex, 32)),
    // FLOAT_INT, DOUBLE_INT, LONG_INT, 2INT, SHORT_INT, LONG_DOUBLE_INT
    (0x228, pair(basic(Float, 4), INT)),
    (0x229, pair(basic(Float, 8), INT)),
    (0x22a, pair(Basic::long(Signed), INT)),
    (0x22b, pair(INT, INT)),
    (0x22c, pair(basic(Signed, 2), INT)),
    (0x22d, pair(basic(LongDouble, 16), INT)),
    // 2REAL, 2DOUBLE_PRECISION, 2INTEGER
    (0x230, pair(basic(Float, 4), basic(Float, 4))),
    (0x231, pair(basic(Float, 8), basic(Float, 8))),
    (0x232, pair(basic(FortranInteger, 4), basic(FortranInteger, 4))),
    // C_BOOL, CXX_BOOL, WCHAR
    (0x238, one(Bool, 1)),
    (0x239, one(Bool, 1)),
    (0x23c, one(WideChar, 4)),
    // 1 byte: INT8_T, UINT8_T, CHAR, SIGNED_CHAR, UNSIGNED_CHAR, BYTE
    (0x240, one(Signed, 1)),
    (0x241, one(Unsigned, 1)),
    (0x243, one(Char, 1)),
    (0x244, one(Signed, 1)),
    (0x245, one(Unsigned, 1)),
    (0x247, one(Byte, 1)),
    // INT16_T, UINT16_T; INT32_T, UINT32_T; INT64_T, UINT64_T
    (0x248, one(Signed, 2)),
    (0x249, one(Unsigned, 2)),
    (0x250, one(Signed, 4)),
    (0x251, one(Unsigned, 4)),
    (0x258, one(Signed, 8)),
    (0x259, one(Unsigned, 8)),
    // LOGICALn, INTEGERn, REALn, COMPLEXn of 1, 2, 4, 8, 16 and 32 bytes
    (0x2c0, one(Logical, 1)),
    (0x2c1, one(FortranInteger, 1)),
    (0x2c8, one(Logical, 2)),
    (0x2c9, one(FortranInteger, 2)),
    (0x2ca, one(Float, 2)),
    (0x2d0, one(Logical, 4)),
    (0x2d1, one(FortranInteger, 4)),
    (0x2d2, one(Float, 4)),
    (0x2d3, one(Complex, 4)),
    (0x2d8, one(Logical, 8)),
    (0x2d9, one(FortranInteger, 8)),
    (0x2da, one(Float, 8)),
    (0x2db, one(Complex, 8)),
    (0x2e0, one(Logical, 16)),
    (0x2e1, one(FortranInteger, 16)),
    (0x2e2, one(Float, 16)),
    (0x2e3, one(Complex, 16)),
    (0x2eb, one(Complex, 32)),
];

/// The values of all predefined types.
pub const VALUES: &[u16] = &{
    let mut values = [0; TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        values[at] = TABLE[at].0;
        at += 1;
    }
    values
};

/// The values begin here.
const FIRST: usize = 0x200;

/// Bytes by value, where elements lie side by side; 0 elsewhere.
static DENSE: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut at = 0;
    while at < TABLE.len() {
        let (value, kind) = TABLE[at];
        sizes[value as usize - FIRST] = match kind {
            Kind::Basic(basic) => basic.size,
            Kind::Pair(Pair { value, index, .. }) if value.size == index.size => 2 * value.size,
            Kind::Pair(_) => 0,
        };
        at += 1;
    }
    sizes
};

/// Bytes of an element of a predefined type, if its elements lie side by side; 0 for all other values.
#[inline]
pub fn dense_size(value: usize) -> usize {
    DENSE.get(value.wrapping_sub(FIRST)).map_or(0, |&size| size.into())
}

impl Type {
    /// The type with this value in the ABI.
    pub fn predefined(value: u16) -> Option<Self> {
        let at = TABLE.binary_search_by_key(&value, |&(value, _)| value).ok()?;
        let kind = TABLE[at].1;
        let bytes = |basic: Basic| Layout::bytes(basic.size.into());
        let (layout, elements, align) = match kind {
            Kind::Basic(basic) => {
                (bytes(basic).ok()?, TypeSignature::same(basic, 1), basic.align())
            }
            Kind::Pair(Pair { value, index, offset }) => {
                let (first, second) = (bytes(value).ok()?, bytes(index).ok()?);
                let parts = [(0, 1, &first), (offset as i64, 1, &second)];
                let elements = [TypeSignature::same(value, 1), TypeSignature::same(index, 1)];
                let layout = Layout::listed(parts).ok()?;
                (layout, TypeSignature::list(elements).ok()?, value.align().max(index.align()))
            }
        };
        let bounds = Gathered::new(align).bounds(&layout).ok()?;
        let layout = Arc::new(layout.with_extent(bounds.ub - bounds.lb));
        let pair = match kind {
            Kind::Pair(pair) => Some(pair),
            Kind::Basic(_) => None,
        };
        let committed = Cell::new(true);
        let (predefined, origin, kept) = (Some(value), None, true);
        let inner = Inner { layout, elements, bounds, committed, predefined, pair, origin, kept };
        Some(Self(Rc::new(inner)))
    }
}
