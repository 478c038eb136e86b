//! The elements that all types are made of.

/// What a basic element is: which operations it takes part in, and how it is converted.
/// (MPI: Collective Communication, "Predefined Reduction Operations".)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeClass {
    /// A number of C without a fraction, with a sign.
    Signed,
    /// The same without a sign.
    Unsigned,
    /// `INTEGER` of Fortran.
    FortranInteger,
    /// `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`: signed.
    MultiLanguage,
    /// A number with a fraction, as IEEE 754 has it: 2, 4 or 8 bytes, and 16 for Fortran's.
    Float,
    /// `long double`: 80 bits in 16 bytes.
    LongDouble,
    /// Two of [`Float`](Self::Float).
    Complex,
    /// Two of [`LongDouble`](Self::LongDouble).
    LongDoubleComplex,
    /// `bool` of C or C++.
    Bool,
    /// `LOGICAL` of Fortran.
    Logical,
    /// Text: `char`, `CHARACTER`.
    Char,
    /// Text: `wchar_t`.
    WideChar,
    /// `MPI_BYTE`: bits.
    Byte,
    /// `MPI_PACKED`: bytes that were packed.
    Packed,
}

/// A basic element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basic {
    /// What it is.
    pub class: TypeClass,
    /// Its bytes.
    pub size: u8,
    /// Its bytes in the representation "external32". (MPI: I/O, "External Data Representation".)
    pub external: u8,
}

impl Basic {
    pub(super) const fn new(class: TypeClass, size: u8) -> Self {
        let external = match class {
            TypeClass::WideChar => 2,
            _ => size,
        };
        Self { class, size, external }
    }

    /// `long`, of C: 4 bytes where it is external.
    pub(super) const fn long(class: TypeClass) -> Self {
        Self { class, size: 8, external: 4 }
    }

    /// What its address is a multiple of.
    pub const fn align(self) -> u8 {
        match self.class {
            TypeClass::Complex | TypeClass::LongDoubleComplex => self.size / 2,
            _ => self.size,
        }
    }
}

/// A value and an index, as `MPI_MINLOC` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What is compared, at the element's address.
    pub value: Basic,
    /// Where it was found.
    pub index: Basic,
    /// Where the index lies.
    pub offset: usize,
}

impl Pair {
    pub(super) const fn new(value: Basic, index: Basic) -> Self {
        // The index is the less aligned of the two, or as much.
        let offset = (value.size as usize).next_multiple_of(index.align() as usize);
        Self { value, index, offset }
    }
}
