//! Which predefined operation knows which class, and the kernel of each pair: the standard's table.
//! (MPI: Collective Communication, "Predefined Reduction Operations" and "MINLOC and MAXLOC"; for
//! [`Predefined::Replace`] and [`Predefined::Nothing`], One-Sided Communications.)

use bowline_model::coll::price::OpClass;

#[cfg(target_arch = "x86_64")]
use super::extended::Extended;
use super::kernels::{Kernel, each, locate, nothing, replace};
use super::numbers::Parts;
use super::soft::{Half, Quad};
use super::{BitAnd, BitOr, BitXor, LogicalAnd, LogicalOr, LogicalXor, Max, Min, Prod, Sum};
use crate::types::{Basic, Pair, Type, TypeClass};

/// An operation of the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Predefined {
    /// `MPI_SUM`
    Sum,
    /// `MPI_MIN`
    Min,
    /// `MPI_MAX`
    Max,
    /// `MPI_PROD`
    Prod,
    /// `MPI_BAND`
    BitAnd,
    /// `MPI_BOR`
    BitOr,
    /// `MPI_BXOR`
    BitXor,
    /// `MPI_LAND`
    LogicalAnd,
    /// `MPI_LOR`
    LogicalOr,
    /// `MPI_LXOR`
    LogicalXor,
    /// `MPI_MINLOC`
    MinLoc,
    /// `MPI_MAXLOC`
    MaxLoc,
    /// `MPI_REPLACE`, for one-sided operations only.
    Replace,
    /// `MPI_NO_OP`, for one-sided operations only.
    Nothing,
}

/// The kernel for the first pair of classes and bytes in a list that fits.
macro_rules! choose {
    ($basic:expr; $($($class:ident)|+, $size:literal => $kernel:expr,)*) => {
        match ($basic.class, $basic.size) {
            $(($(TypeClass::$class)|+, $size) => Some($kernel as Kernel),)*
            _ => None,
        }
    };
}

/// Sums and products.
macro_rules! arithmetic {
    ($basic:expr, $op:ty) => {
        choose! { $basic;
            Signed | FortranInteger | MultiLanguage, 1 => each::<i8, $op>,
            Signed | FortranInteger | MultiLanguage, 2 => each::<i16, $op>,
            Signed | FortranInteger | MultiLanguage, 4 => each::<i32, $op>,
            Signed | FortranInteger | MultiLanguage, 8 => each::<i64, $op>,
            Signed | FortranInteger | MultiLanguage, 16 => each::<i128, $op>,
            Unsigned, 1 => each::<u8, $op>,
            Unsigned, 2 => each::<u16, $op>,
            Unsigned, 4 => each::<u32, $op>,
            Unsigned, 8 => each::<u64, $op>,
            Float, 2 => each::<Half, $op>,
            Float, 4 => each::<f32, $op>,
            Float, 8 => each::<f64, $op>,
            Float, 16 => each::<Quad, $op>,
            Complex, 4 => each::<Parts<Half>, $op>,
            Complex, 32 => each::<Parts<Quad>, $op>,
            Complex, 8 => each::<Parts<f32>, $op>,
            Complex, 16 => each::<Parts<f64>, $op>,
        }
    };
}

/// Least and greatest.
macro_rules! ordered {
    ($basic:expr, $op:ty) => {
        choose! { $basic;
            Signed | FortranInteger | MultiLanguage, 1 => each::<i8, $op>,
            Signed | FortranInteger | MultiLanguage, 2 => each::<i16, $op>,
            Signed | FortranInteger | MultiLanguage, 4 => each::<i32, $op>,
            Signed | FortranInteger | MultiLanguage, 8 => each::<i64, $op>,
            Signed | FortranInteger | MultiLanguage, 16 => each::<i128, $op>,
            Unsigned, 1 => each::<u8, $op>,
            Unsigned, 2 => each::<u16, $op>,
            Unsigned, 4 => each::<u32, $op>,
            Unsigned, 8 => each::<u64, $op>,
            Float, 2 => each::<Half, $op>,
            Float, 4 => each::<f32, $op>,
            Float, 8 => each::<f64, $op>,
            Float, 16 => each::<Quad, $op>,
        }
    };
}

/// Bit by bit.
macro_rules! bitwise {
    ($basic:expr, $op:ty) => {
        choose! { $basic;
            Signed | Unsigned | FortranInteger | MultiLanguage | Byte, 1 => each::<u8, $op>,
            Signed | Unsigned | FortranInteger | MultiLanguage, 2 => each::<u16, $op>,
            Signed | Unsigned | FortranInteger | MultiLanguage, 4 => each::<u32, $op>,
            Signed | Unsigned | FortranInteger | MultiLanguage, 8 => each::<u64, $op>,
            Signed | Unsigned | FortranInteger | MultiLanguage, 16 => each::<u128, $op>,
        }
    };
}

/// Truth values: what is not 0 is true, and results are 1 or 0.
macro_rules! logical {
    ($basic:expr, $op:ty) => {
        choose! { $basic;
            Signed | Unsigned | Bool | Logical, 1 => each::<u8, $op>,
            Signed | Unsigned | Bool | Logical, 2 => each::<u16, $op>,
            Signed | Unsigned | Bool | Logical, 4 => each::<u32, $op>,
            Signed | Unsigned | Bool | Logical, 8 => each::<u64, $op>,
            Signed | Unsigned | Bool | Logical, 16 => each::<u128, $op>,
        }
    };
}

impl Predefined {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Prod,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::LogicalAnd,
        Self::LogicalOr,
        Self::LogicalXor,
        Self::MinLoc,
        Self::MaxLoc,
        Self::Replace,
        Self::Nothing,
    ];

    /// Whether the order of operands does not matter.
    pub const fn is_commutative(self) -> bool {
        !matches!(self, Self::Replace | Self::Nothing)
    }

    /// How long its bytes take on elements of a predefined type, by which algorithms are chosen. It follows from what the
    /// standard requires to be the same at all ranks: the operation, and the basic type.
    pub fn class(self, of: &Type) -> OpClass {
        match of.basic() {
            _ if of.pair().is_some() => OpClass::Pairs,
            // Of 2 bytes or 16.
            Some(Basic { class: TypeClass::Float, size, .. }) if !matches!(size, 4 | 8) => {
                OpClass::Scalar
            }
            Some(Basic { class: TypeClass::Complex, size, .. }) if !matches!(size, 8 | 16) => {
                OpClass::Scalar
            }
            Some(Basic { class: TypeClass::LongDouble | TypeClass::LongDoubleComplex, .. }) => {
                OpClass::Scalar
            }
            _ => OpClass::Vector,
        }
    }

    /// Whether reductions may use it.
    pub const fn reduces(self) -> bool {
        !matches!(self, Self::Replace | Self::Nothing)
    }

    /// The kernel for vectors of a predefined type; `None` where the standard does not have the pair, or
    /// the type is not predefined.
    ///
    /// The elements of a vector lie side by side, whatever the extent of the type: the bytes between the
    /// parts of a pair, and behind it, are left out.
    pub fn kernel(self, of: &Type) -> Option<Kernel> {
        of.abi()?;
        match of.pair() {
            Some(pair) => self.kernel_of_pairs(pair),
            None => self.kernel_of(of.basic()?),
        }
    }

    /// The kernel for basic elements.
    pub fn kernel_of(self, basic: Basic) -> Option<Kernel> {
        let kernel = match self {
            Self::Sum => arithmetic!(basic, Sum),
            Self::Prod => arithmetic!(basic, Prod),
            Self::Min => ordered!(basic, Min),
            Self::Max => ordered!(basic, Max),
            Self::BitAnd => bitwise!(basic, BitAnd),
            Self::BitOr => bitwise!(basic, BitOr),
            Self::BitXor => bitwise!(basic, BitXor),
            Self::LogicalAnd => logical!(basic, LogicalAnd),
            Self::LogicalOr => logical!(basic, LogicalOr),
            Self::LogicalXor => logical!(basic, LogicalXor),
            Self::MinLoc | Self::MaxLoc => None,
            Self::Replace => copying(basic.size.into()),
            Self::Nothing => Some(nothing as Kernel),
        };
        kernel.or_else(|| self.extended(basic))
    }

    /// The kernel for pairs of a value and an index.
    fn kernel_of_pairs(self, pair: Pair) -> Option<Kernel> {
        match self {
            Self::MinLoc => locating::<false>(pair),
            Self::MaxLoc => locating::<true>(pair),
            Self::Replace => copying(usize::from(pair.value.size) + usize::from(pair.index.size)),
            Self::Nothing => Some(nothing),
            _ => None,
        }
    }

    /// The kernel for numbers of x87.
    #[cfg(target_arch = "x86_64")]
    fn extended(self, basic: Basic) -> Option<Kernel> {
        Some(match (self, basic.class) {
            (Self::Sum, TypeClass::LongDouble) => each::<Extended, Sum>,
            (Self::Prod, TypeClass::LongDouble) => each::<Extended, Prod>,
            (Self::Min, TypeClass::LongDouble) => each::<Extended, Min>,
            (Self::Max, TypeClass::LongDouble) => each::<Extended, Max>,
            (Self::Sum, TypeClass::LongDoubleComplex) => each::<Parts<Extended>, Sum>,
            (Self::Prod, TypeClass::LongDoubleComplex) => each::<Parts<Extended>, Prod>,
            _ => return None,
        })
    }

    /// `long double` is another format elsewhere, which has no kernels.
    #[cfg(not(target_arch = "x86_64"))]
    fn extended(self, _basic: Basic) -> Option<Kernel> {
        None
    }
}

/// The kernel of `MPI_MINLOC` or `MPI_MAXLOC`.
fn locating<const GREATEST: bool>(pair: Pair) -> Option<Kernel> {
    let (value, index) = (pair.value, pair.index);
    Some(match (value.class, value.size, index.class, index.size) {
        (TypeClass::Float, 4, TypeClass::Signed, 4) => locate::<f32, i32, GREATEST>,
        (TypeClass::Float, 8, TypeClass::Signed, 4) => locate::<f64, i32, GREATEST>,
        (TypeClass::Signed, 8, TypeClass::Signed, 4) => locate::<i64, i32, GREATEST>,
        (TypeClass::Signed, 2, TypeClass::Signed, 4) => locate::<i16, i32, GREATEST>,
        (TypeClass::Signed | TypeClass::FortranInteger, 4, ..) => locate::<i32, i32, GREATEST>,
        (TypeClass::Float, 4, TypeClass::Float, 4) => locate::<f32, f32, GREATEST>,
        (TypeClass::Float, 8, TypeClass::Float, 8) => locate::<f64, f64, GREATEST>,
        #[cfg(target_arch = "x86_64")]
        (TypeClass::LongDouble, 16, TypeClass::Signed, 4) => locate::<Extended, i32, GREATEST>,
        _ => return None,
    })
}

/// The kernel that copies elements of this size.
fn copying(size: usize) -> Option<Kernel> {
    Some(match size {
        1 => replace::<1>,
        2 => replace::<2>,
        4 => replace::<4>,
        6 => replace::<6>,
        8 => replace::<8>,
        12 => replace::<12>,
        16 => replace::<16>,
        20 => replace::<20>,
        32 => replace::<32>,
        _ => return None,
    })
}
