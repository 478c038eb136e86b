//! Chapter: how datatypes were made.

use std::ffi::c_int;

use bowline_mpi::types::{Combiner, Type, TypeContents};

use crate::arg::Out;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Aint, Count, Datatype};
use crate::library::Library;

/// The number of the ABI of a call that makes types.
fn number_of(combiner: Combiner) -> c_int {
    match combiner {
        Combiner::Dup => MPI_COMBINER_DUP,
        Combiner::Contiguous => MPI_COMBINER_CONTIGUOUS,
        Combiner::Vector => MPI_COMBINER_VECTOR,
        Combiner::Hvector => MPI_COMBINER_HVECTOR,
        Combiner::Indexed => MPI_COMBINER_INDEXED,
        Combiner::Hindexed => MPI_COMBINER_HINDEXED,
        Combiner::IndexedBlock => MPI_COMBINER_INDEXED_BLOCK,
        Combiner::HindexedBlock => MPI_COMBINER_HINDEXED_BLOCK,
        Combiner::Struct => MPI_COMBINER_STRUCT,
        Combiner::Subarray => MPI_COMBINER_SUBARRAY,
        Combiner::Darray => MPI_COMBINER_DARRAY,
        Combiner::Resized => MPI_COMBINER_RESIZED,
        Combiner::F90Real => MPI_COMBINER_F90_REAL,
        Combiner::F90Complex => MPI_COMBINER_F90_COMPLEX,
        Combiner::F90Integer => MPI_COMBINER_F90_INTEGER,
    }
}

/// How many arguments there are of each kind.
struct Envelope {
    integers: Count,
    addresses: Count,
    counts: Count,
    types: Count,
    combiner: c_int,
}

impl Envelope {
    fn of(datatype: &Type) -> Self {
        let Some(origin) = datatype.origin() else {
            let combiner = MPI_COMBINER_NAMED;
            return Self { integers: 0, addresses: 0, counts: 0, types: 0, combiner };
        };
        Self {
            integers: origin.integers.len() as Count,
            addresses: origin.addresses.len() as Count,
            counts: origin.counts.len() as Count,
            types: origin.types.len() as Count,
            combiner: number_of(origin.combiner),
        }
    }
}

/// Refuses a type of a call with large counts, which functions without them cannot return.
fn is_ordinary(datatype: &Type) -> Result<(), Fault> {
    if datatype.origin().is_some_and(|origin| origin.is_large) {
        let text = "the datatype was made with large counts, which this function cannot return";
        return Err(fault(MPI_ERR_TYPE, text));
    }
    Ok(())
}

/// A number of the standard's that is small enough.
fn small(number: Count) -> Result<c_int, Fault> {
    let large = |_| fault(MPI_ERR_VALUE_TOO_LARGE, format!("there are {number} arguments"));
    c_int::try_from(number).map_err(large)
}

/// An array of the program, and how many values it holds.
#[derive(Clone, Copy)]
struct OutArray<T> {
    most: Count,
    array: Out<T>,
}

impl<T: Copy> OutArray<T> {
    /// Refuses space for less than there is.
    fn check(&self, what: &str, number: usize) -> Result<(), Fault> {
        if self.most < number as Count {
            let text = format!("there is space for {} {what} of {number}", self.most);
            return Err(fault(MPI_ERR_ARG, text));
        }
        if number > 0 && self.array.is_null() {
            return Err(fault(MPI_ERR_ARG, format!("there is no address for the {what}")));
        }
        Ok(())
    }

    fn fill(&self, values: impl Iterator<Item = T>) -> Result<(), Fault> {
        for (at, value) in values.enumerate() {
            self.array.at(at).set(value)?;
        }
        Ok(())
    }
}

/// The call that made a type that was made by one.
fn origin_of(datatype: &Type) -> Result<&TypeContents, Fault> {
    datatype.origin().ok_or_else(|| {
        fault(MPI_ERR_TYPE, "the datatype is a predefined one, which no call has made")
    })
}

/// Gives the arguments of the call that made a type. The types among them are new references.
fn contents(
    mpi: &Library,
    origin: &TypeContents,
    integers: OutArray<c_int>,
    addresses: OutArray<Aint>,
    counts: OutArray<Count>,
    types: OutArray<Datatype>,
) -> Result<(), Fault> {
    integers.check("integers", origin.integers.len())?;
    addresses.check("addresses", origin.addresses.len())?;
    counts.check("large counts", origin.counts.len())?;
    types.check("datatypes", origin.types.len())?;
    integers.fill(origin.integers.iter().copied())?;
    // They came as addresses.
    addresses.fill(origin.addresses.iter().map(|&place| place as Aint))?;
    counts.fill(origin.counts.iter().copied())?;
    for (at, one) in origin.types.iter().enumerate() {
        let handle = match one.abi() {
            Some(value) => Datatype(value.into()),
            None => match f90(mpi, one) {
                Some(known) => known,
                None => mpi.add_type(one.clone())?,
            },
        };
        types.array.at(at).set(handle)?;
    }
    Ok(())
}

/// The handle of a type of Fortran that was made for a wish: it has one only.
fn f90(mpi: &Library, datatype: &Type) -> Option<Datatype> {
    let origin = datatype.origin().filter(|_| datatype.is_kept())?;
    mpi.types.f90(origin.combiner, &origin.integers)
}

mpi! {
    fn MPI_Type_get_envelope(datatype: Datatype, num_integers: Out<c_int>,
                             num_addresses: Out<c_int>, num_datatypes: Out<c_int>,
                             combiner: Out<c_int>) |mpi| {
        let datatype = mpi.datatype(datatype)?;
        is_ordinary(&datatype)?;
        let envelope = Envelope::of(&datatype);
        num_integers.set(small(envelope.integers)?)?;
        num_addresses.set(small(envelope.addresses)?)?;
        num_datatypes.set(small(envelope.types)?)?;
        combiner.set(envelope.combiner)
    }

    fn MPI_Type_get_envelope_c(datatype: Datatype, num_integers: Out<Count>,
                               num_addresses: Out<Count>, num_large_counts: Out<Count>,
                               num_datatypes: Out<Count>, combiner: Out<c_int>) |mpi| {
        let envelope = Envelope::of(&mpi.datatype(datatype)?);
        num_integers.set(envelope.integers)?;
        num_addresses.set(envelope.addresses)?;
        num_large_counts.set(envelope.counts)?;
        num_datatypes.set(envelope.types)?;
        combiner.set(envelope.combiner)
    }

    fn MPI_Type_get_contents(datatype: Datatype, max_integers: c_int, max_addresses: c_int,
                             max_datatypes: c_int, array_of_integers: Out<c_int>,
                             array_of_addresses: Out<Aint>,
                             array_of_datatypes: Out<Datatype>) |mpi| {
        let datatype = mpi.datatype(datatype)?;
        is_ordinary(&datatype)?;
        let integers = OutArray { most: max_integers.into(), array: array_of_integers };
        let addresses = OutArray { most: max_addresses.into(), array: array_of_addresses };
        // There are none.
        let counts = OutArray { most: 0, array: Out::NULL };
        let types = OutArray { most: max_datatypes.into(), array: array_of_datatypes };
        contents(mpi, origin_of(&datatype)?, integers, addresses, counts, types)
    }

    fn MPI_Type_get_contents_c(datatype: Datatype, max_integers: Count, max_addresses: Count,
                               max_large_counts: Count, max_datatypes: Count,
                               array_of_integers: Out<c_int>, array_of_addresses: Out<Aint>,
                               array_of_large_counts: Out<Count>,
                               array_of_datatypes: Out<Datatype>) |mpi| {
        let datatype = mpi.datatype(datatype)?;
        let integers = OutArray { most: max_integers, array: array_of_integers };
        let addresses = OutArray { most: max_addresses, array: array_of_addresses };
        let counts = OutArray { most: max_large_counts, array: array_of_large_counts };
        let types = OutArray { most: max_datatypes, array: array_of_datatypes };
        contents(mpi, origin_of(&datatype)?, integers, addresses, counts, types)
    }
}
