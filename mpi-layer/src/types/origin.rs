//! The calls that make types, as programs want them back.

use super::Type;

/// Which call made a type. (MPI: Datatypes, "Decoding a Datatype".)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combiner {
    /// `MPI_Type_dup`
    Dup,
    /// `MPI_Type_contiguous`
    Contiguous,
    /// `MPI_Type_vector`
    Vector,
    /// `MPI_Type_create_hvector`
    Hvector,
    /// `MPI_Type_indexed`
    Indexed,
    /// `MPI_Type_create_hindexed`
    Hindexed,
    /// `MPI_Type_create_indexed_block`
    IndexedBlock,
    /// `MPI_Type_create_hindexed_block`
    HindexedBlock,
    /// `MPI_Type_create_struct`
    Struct,
    /// `MPI_Type_create_subarray`
    Subarray,
    /// `MPI_Type_create_darray`
    Darray,
    /// `MPI_Type_create_resized`
    Resized,
    /// `MPI_Type_create_f90_real`
    F90Real,
    /// `MPI_Type_create_f90_complex`
    F90Complex,
    /// `MPI_Type_create_f90_integer`
    F90Integer,
}

/// The call that made a type: its arguments in the arrays in which the standard gives them back.
#[derive(Debug)]
pub struct TypeContents {
    /// Which call.
    pub combiner: Combiner,
    /// Whether it was the call with large counts.
    pub is_large: bool,
    /// Counts and such of ordinary size.
    pub integers: Vec<i32>,
    /// Distances in bytes of the call with ordinary counts.
    pub addresses: Vec<i64>,
    /// Counts and distances of the call with large ones.
    pub counts: Vec<i64>,
    /// Types.
    pub types: Vec<Type>,
}

impl Drop for TypeContents {
    /// A chain of types that have no other reference is dropped one by one, not one inside of the other:
    /// it may be of any length.
    fn drop(&mut self) {
        let mut waiting = std::mem::take(&mut self.types);
        while let Some(next) = waiting.pop() {
            waiting.extend(next.into_types());
        }
    }
}
