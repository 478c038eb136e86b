//! Handles: what a C program holds for an object.
//!
//! A value below [`PREDEFINED`] is one of the constants of the ABI. Every other one is made here:
//! ```text
//!   bit 63   bits 32..62    bit 31   bits 27..30   bits 0..26
//!     0      generation       0         kind         index
//! ```
//! The low half is what `MPI_X_toint` gives: it fits a C int, is above every predefined value and
//! differs between kinds. The generation differs between objects that had the same place one after the
//! other, so that a handle that was freed is recognised and never mistaken.

/// Handles below it are constants of the ABI.
pub(crate) const PREDEFINED: usize = 0x1000;

/// Where the kind begins.
const KIND_SHIFT: u32 = 27;

/// Places of one kind.
pub(crate) const INDEX_MAX: usize = (1 << KIND_SHIFT) - 1;

/// Where the generation begins.
const GENERATION_SHIFT: u32 = 32;

/// Generations go round at this one; 0 is not used.
pub(crate) const GENERATION_MAX: u32 = (1 << 31) - 1;

/// The value of a handle for a place.
pub(crate) const fn encode(kind: u8, index: usize, generation: u32) -> usize {
    (generation as usize) << GENERATION_SHIFT | (kind as usize) << KIND_SHIFT | index
}

/// The place and the generation of a handle of this kind; `None` when it is none.
pub(crate) const fn decode(kind: u8, value: usize) -> Option<(usize, u32)> {
    let low = value & 0xffff_ffff;
    if value < PREDEFINED || low >> KIND_SHIFT != kind as usize {
        return None;
    }
    Some((low & INDEX_MAX, (value >> GENERATION_SHIFT) as u32))
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[repr(transparent)]
            pub(crate) struct $name(pub(crate) usize);

            impl $name {
                /// The kind in the bits of a handle.
                #[allow(dead_code, reason = "for chapters to come")]
                pub(crate) const KIND: u8 = $kind;
            }
        )*
    };
}

handles! {
    /// `MPI_Comm`
    Comm = 1;
    /// `MPI_Group`
    Group = 2;
    /// `MPI_Datatype`
    Datatype = 3;
    /// `MPI_Op`
    Op = 4;
    /// `MPI_Request`
    Request = 5;
    /// `MPI_Message`
    Message = 6;
    /// `MPI_Info`
    Info = 7;
    /// `MPI_Errhandler`
    Errhandler = 8;
    /// `MPI_Win`
    Win = 9;
    /// `MPI_File`
    File = 10;
    /// `MPI_Session`
    Session = 11;
}

/// `MPI_Aint`
pub(crate) type Aint = isize;

/// `MPI_Count`
pub(crate) type Count = i64;

/// `MPI_Offset`
pub(crate) type Offset = i64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_its_parts() {
        let value = encode(Info::KIND, INDEX_MAX, GENERATION_MAX);
        assert_eq!(decode(Info::KIND, value), Some((INDEX_MAX, GENERATION_MAX)));
        assert_eq!(decode(Comm::KIND, value), None);
        assert!(i32::try_from(value & 0xffff_ffff).is_ok(), "it fits a C int");
        for predefined in 0..PREDEFINED {
            assert_eq!(decode(Comm::KIND, predefined), None);
        }
    }
}
