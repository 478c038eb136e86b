//! Chapter: datatypes, their sizes and their lives.

use std::ffi::c_int;

use bowline_mpi::types::{Combiner, Type, TypeClass, TypeContents};

use crate::arg::Out;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Aint, Count, Datatype};
use crate::library::Library;
use crate::library::attributes::{Bearer, Kind};

/// A size in an `int`, where it fits.
fn small(size: usize) -> c_int {
    c_int::try_from(size).unwrap_or(MPI_UNDEFINED)
}

/// Stores two bounds.
fn set_both<T: Copy + TryFrom<i64>>(
    lb: Out<T>,
    extent: Out<T>,
    bounds: (i64, i64),
) -> Result<(), Fault> {
    let number = |bound: i64| {
        T::try_from(bound)
            .map_err(|_| fault(MPI_ERR_VALUE_TOO_LARGE, format!("a bound is {bound}")))
    };
    lb.set(number(bounds.0)?)?;
    extent.set(number(bounds.1)?)
}

fn bounds(datatype: &Type) -> (i64, i64) {
    (datatype.lb(), datatype.extent())
}

fn true_bounds(datatype: &Type) -> (i64, i64) {
    (datatype.true_lb(), datatype.true_extent())
}

mpi! {
    fn MPI_Type_size(datatype: Datatype, size: Out<c_int>) |mpi| {
        size.set(small(mpi.datatype(datatype)?.size()))
    }

    fn MPI_Type_size_c(datatype: Datatype, size: Out<Count>) |mpi| {
        size.set(mpi.datatype(datatype)?.size() as Count)
    }

    fn MPI_Type_size_x(datatype: Datatype, size: Out<Count>) |mpi| {
        size.set(mpi.datatype(datatype)?.size() as Count)
    }

    fn MPI_Type_get_extent(datatype: Datatype, lb: Out<Aint>, extent: Out<Aint>) |mpi| {
        set_both(lb, extent, bounds(&mpi.datatype(datatype)?))
    }

    fn MPI_Type_get_extent_c(datatype: Datatype, lb: Out<Count>, extent: Out<Count>) |mpi| {
        set_both(lb, extent, bounds(&mpi.datatype(datatype)?))
    }

    fn MPI_Type_get_extent_x(datatype: Datatype, lb: Out<Count>, extent: Out<Count>) |mpi| {
        set_both(lb, extent, bounds(&mpi.datatype(datatype)?))
    }

    fn MPI_Type_get_true_extent(datatype: Datatype, true_lb: Out<Aint>, true_extent: Out<Aint>)
        |mpi| {
        set_both(true_lb, true_extent, true_bounds(&mpi.datatype(datatype)?))
    }

    fn MPI_Type_get_true_extent_c(datatype: Datatype, true_lb: Out<Count>,
                                  true_extent: Out<Count>) |mpi| {
        set_both(true_lb, true_extent, true_bounds(&mpi.datatype(datatype)?))
    }

    fn MPI_Type_get_true_extent_x(datatype: Datatype, true_lb: Out<Count>,
                                  true_extent: Out<Count>) |mpi| {
        set_both(true_lb, true_extent, true_bounds(&mpi.datatype(datatype)?))
    }

    fn MPI_Type_commit(datatype: Out<Datatype>) |mpi| {
        mpi.datatype(datatype.get()?)?.commit();
        Ok(())
    }

    fn MPI_Type_free(datatype: Out<Datatype>) |mpi| {
        let handle = datatype.get()?;
        if mpi.datatype(handle)?.is_kept() {
            return Err(fault(MPI_ERR_TYPE, "a predefined datatype cannot be freed"));
        }
        // The program's functions still have the handle.
        if let Some(common) = mpi.types.known_common(handle) {
            let bearer = Bearer { kind: Kind::Type, handle: handle.0, common: &common };
            bearer.delete_all(&mpi.attributes)?;
        }
        mpi.remove_type(handle)?;
        datatype.set(MPI_DATATYPE_NULL)
    }

    fn MPI_Type_dup(oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        duplicate(mpi, oldtype, newtype)
    }

    fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: Out<Datatype>) |_mpi| {
        datatype.set(matching(typeclass, size)?)
    }

    fn MPI_Type_get_value_index(value_type: Datatype, index_type: Datatype,
                                pair_type: Out<Datatype>) |mpi| {
        mpi.datatype(value_type)?;
        mpi.datatype(index_type)?;
        let known = PAIRS.iter().find(|&&(value, index, _)| (value, index) == (value_type, index_type));
        pair_type.set(known.map_or(MPI_DATATYPE_NULL, |&(_, _, pair)| pair))
    }
}

/// The pairs with names, by value and index.
const PAIRS: &[(Datatype, Datatype, Datatype)] = &[
    (MPI_FLOAT, MPI_INT, MPI_FLOAT_INT),
    (MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT),
    (MPI_LONG, MPI_INT, MPI_LONG_INT),
    (MPI_INT, MPI_INT, MPI_2INT),
    (MPI_SHORT, MPI_INT, MPI_SHORT_INT),
    (MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT),
    (MPI_REAL, MPI_REAL, MPI_2REAL),
    (MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION),
    (MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER),
];

/// A copy, with the attributes that want to be copied.
fn duplicate(mpi: &Library, oldtype: Datatype, newtype: Out<Datatype>) -> Result<(), Fault> {
    let old = mpi.datatype(oldtype)?;
    let origin = TypeContents {
        combiner: Combiner::Dup,
        is_large: false,
        integers: Vec::new(),
        addresses: Vec::new(),
        counts: Vec::new(),
        types: vec![old.clone()],
    };
    let new = mpi.give_type(old.duplicate().with_origin(origin), newtype)?;
    if let Some(common) = mpi.types.known_common(oldtype) {
        let from = Bearer { kind: Kind::Type, handle: oldtype.0, common: &common };
        let common = mpi.type_common(new)?;
        let to = Bearer { kind: Kind::Type, handle: new.0, common: &common };
        if let Err(fault) = from.copy_all(&mpi.attributes, &to) {
            mpi.remove_type(new)?;
            newtype.set(MPI_DATATYPE_NULL)?;
            return Err(fault);
        }
    }
    Ok(())
}

/// The type of Fortran of a class and so many bytes.
fn matching(typeclass: c_int, size: c_int) -> Result<Datatype, Fault> {
    let (class, name) = match typeclass {
        MPI_TYPECLASS_REAL => (TypeClass::Float, "REAL"),
        MPI_TYPECLASS_INTEGER => (TypeClass::FortranInteger, "INTEGER"),
        MPI_TYPECLASS_COMPLEX => (TypeClass::Complex, "COMPLEX"),
        _ => return Err(fault(MPI_ERR_ARG, format!("{typeclass} is no class of datatypes"))),
    };
    of_class(class, size)
        .ok_or_else(|| fault(MPI_ERR_ARG, format!("there is no {name} of {size} bytes")))
}

/// The type of Fortran with its size in its name.
pub(crate) fn of_class(class: TypeClass, size: c_int) -> Option<Datatype> {
    Some(match (class, size) {
        (TypeClass::Float, 2) => MPI_REAL2,
        (TypeClass::Float, 4) => MPI_REAL4,
        (TypeClass::Float, 8) => MPI_REAL8,
        (TypeClass::Float, 16) => MPI_REAL16,
        (TypeClass::FortranInteger, 1) => MPI_INTEGER1,
        (TypeClass::FortranInteger, 2) => MPI_INTEGER2,
        (TypeClass::FortranInteger, 4) => MPI_INTEGER4,
        (TypeClass::FortranInteger, 8) => MPI_INTEGER8,
        (TypeClass::FortranInteger, 16) => MPI_INTEGER16,
        (TypeClass::Complex, 4) => MPI_COMPLEX4,
        (TypeClass::Complex, 8) => MPI_COMPLEX8,
        (TypeClass::Complex, 16) => MPI_COMPLEX16,
        (TypeClass::Complex, 32) => MPI_COMPLEX32,
        _ => return None,
    })
}
