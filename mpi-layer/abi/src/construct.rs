//! Chapter: datatypes that are made of others.
//!
//! Each function brings its arguments into a form that the core takes, and keeps them as the standard
//! gives them back: those of ordinary functions are integers and addresses, those of functions with large
//! counts are counts.

use std::ffi::c_int;

use bowline_mpi::types::{
    Combiner, Dealt, DimensionPart, Distribution, Order, Type, TypeBlock, TypeClass, TypeContents,
    TypeError,
};

use crate::arg::{In, Out};
use crate::datatype::of_class;
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Aint, Count, Datatype};
use crate::library::Library;

impl From<TypeError> for Fault {
    #[cold]
    #[inline(never)]
    fn from(error: TypeError) -> Self {
        fault(MPI_ERR_ARG, error.to_string())
    }
}

/// A number of the program that is a count.
fn count(count: impl Into<Count>) -> Result<usize, Fault> {
    let count = count.into();
    usize::try_from(count).map_err(|_| fault(MPI_ERR_COUNT, format!("the count is {count}")))
}

/// The same for another argument.
fn natural(what: &str, number: impl Into<Count>) -> Result<usize, Fault> {
    let number = number.into();
    usize::try_from(number).map_err(|_| fault(MPI_ERR_ARG, format!("{what} is {number}")))
}

/// A list of the program.
fn list<T: Copy + Into<Count>>(list: In<T>, count: usize) -> Result<Vec<Count>, Fault> {
    Ok(list.array(count)?.into_iter().map(Into::into).collect())
}

/// The same of addresses.
fn addresses(list: In<Aint>, count: usize) -> Result<Vec<Count>, Fault> {
    Ok(list.array(count)?.into_iter().map(|place| place as Count).collect())
}

/// A distance in elements, in bytes.
fn in_bytes(distance: Count, of: &Type) -> Result<Count, Fault> {
    distance.checked_mul(of.extent()).ok_or_else(|| TypeError::Overflow.into())
}

/// Arguments as the standard gives them back.
#[derive(Debug, Default)]
struct Kept {
    integers: Vec<Count>,
    addresses: Vec<Count>,
    counts: Vec<Count>,
}

impl Kept {
    /// Those of a function, which are all counts if it has large ones.
    fn of(large: bool, integers: Vec<Count>, addresses: Vec<Count>) -> Self {
        if large {
            let counts = [integers, addresses].concat();
            return Self { counts, ..Self::default() };
        }
        Self { integers, addresses, ..Self::default() }
    }
}

impl Library {
    /// Gives a new type its handle.
    fn give_made(
        &self,
        new: Type,
        (combiner, large): (Combiner, bool),
        kept: Kept,
        types: Vec<Type>,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let origin = TypeContents {
            combiner,
            is_large: large,
            // They came as integers of C.
            integers: kept.integers.into_iter().map(|number| number as c_int).collect(),
            addresses: kept.addresses,
            counts: kept.counts,
            types,
        };
        self.give_type(new.with_origin(origin), newtype)?;
        Ok(())
    }

    fn contiguous(
        &self,
        large: bool,
        number: Count,
        oldtype: Datatype,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let old = self.datatype(oldtype)?;
        let new = Type::contiguous(count(number)?, &old)?;
        let kept = Kept::of(large, vec![number], Vec::new());
        self.give_made(new, (Combiner::Contiguous, large), kept, vec![old], newtype)
    }

    fn vector(
        &self,
        large: bool,
        [number, blocklength, stride]: [Count; 3],
        oldtype: Datatype,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let old = self.datatype(oldtype)?;
        let (rows, row) = (count(number)?, natural("the length of the blocks", blocklength)?);
        let new = Type::strided(rows, in_bytes(stride, &old)?, row, &old)?;
        let kept = Kept::of(large, vec![number, blocklength, stride], Vec::new());
        self.give_made(new, (Combiner::Vector, large), kept, vec![old], newtype)
    }

    fn hvector(
        &self,
        large: bool,
        [number, blocklength, stride]: [Count; 3],
        oldtype: Datatype,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let old = self.datatype(oldtype)?;
        let (rows, row) = (count(number)?, natural("the length of the blocks", blocklength)?);
        let new = Type::strided(rows, stride, row, &old)?;
        let kept = Kept::of(large, vec![number, blocklength], vec![stride]);
        self.give_made(new, (Combiner::Hvector, large), kept, vec![old], newtype)
    }

    fn indexed(
        &self,
        how: (Combiner, bool),
        lengths: Vec<Count>,
        places: Vec<Count>,
        oldtype: Datatype,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let old = self.datatype(oldtype)?;
        let in_elements = how.0 == Combiner::Indexed;
        let new = blocks_of(&old, lengths.iter().copied(), &places, in_elements)?;
        let mut integers = vec![lengths.len() as Count];
        integers.extend(lengths);
        let kept = if in_elements {
            integers.extend(places);
            Kept::of(how.1, integers, Vec::new())
        } else {
            Kept::of(how.1, integers, places)
        };
        self.give_made(new, how, kept, vec![old], newtype)
    }

    fn indexed_block(
        &self,
        how: (Combiner, bool),
        blocklength: Count,
        places: Vec<Count>,
        oldtype: Datatype,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let old = self.datatype(oldtype)?;
        let in_elements = how.0 == Combiner::IndexedBlock;
        natural("the length of the blocks", blocklength)?;
        let lengths = std::iter::repeat_n(blocklength, places.len());
        let new = blocks_of(&old, lengths, &places, in_elements)?;
        let mut integers = vec![places.len() as Count, blocklength];
        let kept = if in_elements {
            integers.extend(places);
            Kept::of(how.1, integers, Vec::new())
        } else {
            Kept::of(how.1, integers, places)
        };
        self.give_made(new, how, kept, vec![old], newtype)
    }

    fn structure(
        &self,
        large: bool,
        lengths: Vec<Count>,
        places: Vec<Count>,
        types: In<Datatype>,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let types = types.array(lengths.len())?;
        let types: Result<Vec<_>, _> = types.into_iter().map(|one| self.datatype(one)).collect();
        let types = types?;
        if lengths.iter().any(|&length| length < 0) {
            return Err(fault(MPI_ERR_ARG, "the length of a block is negative"));
        }
        let blocks = lengths.iter().zip(&places).zip(&types);
        let block = |((&length, &at), of)| TypeBlock { at, count: length as usize, of };
        let new = Type::blocks(blocks.map(block))?;
        let mut integers = vec![lengths.len() as Count];
        integers.extend(lengths);
        let kept = Kept::of(large, integers, places);
        self.give_made(new, (Combiner::Struct, large), kept, types, newtype)
    }

    fn resized(
        &self,
        large: bool,
        [lb, extent]: [Count; 2],
        oldtype: Datatype,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let old = self.datatype(oldtype)?;
        let new = old.resized(lb, extent)?;
        let kept = Kept::of(large, Vec::new(), vec![lb, extent]);
        self.give_made(new, (Combiner::Resized, large), kept, vec![old], newtype)
    }

    fn subarray(
        &self,
        large: bool,
        [sizes, subsizes, starts]: [Vec<Count>; 3],
        order: c_int,
        oldtype: Datatype,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let old = self.datatype(oldtype)?;
        let parts = sizes.iter().zip(&subsizes).zip(&starts).map(|((&size, &subsize), &start)| {
            Ok(DimensionPart {
                size: natural("a size", size)?,
                subsize: natural("a size of a part", subsize)?,
                start: natural("a start", start)?,
            })
        });
        let parts: Result<Vec<_>, Fault> = parts.collect();
        let new = Type::subarray(&parts?, order_of(order)?, &old)?;
        let dimensions = sizes.len() as Count;
        let arrays = [sizes, subsizes, starts].concat();
        let kept = if large {
            let integers = vec![dimensions, order.into()];
            Kept { integers, counts: arrays, ..Kept::default() }
        } else {
            let integers = [vec![dimensions], arrays, vec![order.into()]].concat();
            Kept { integers, ..Kept::default() }
        };
        self.give_made(new, (Combiner::Subarray, large), kept, vec![old], newtype)
    }

    fn darray(
        &self,
        large: bool,
        [size, rank, order]: [c_int; 3],
        sizes: Vec<Count>,
        [distributions, arguments, processes]: [Vec<Count>; 3],
        oldtype: Datatype,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let old = self.datatype(oldtype)?;
        let mut dimensions = Vec::with_capacity(sizes.len());
        for (at, &size) in sizes.iter().enumerate() {
            dimensions.push(Dealt {
                size: natural("a size", size)?,
                how: distribution(distributions[at], arguments[at])?,
                processes: natural("a number of processes", processes[at])?,
            });
        }
        let all = natural("the number of processes", size)?;
        let own = natural("the rank", rank)?;
        let new = Type::darray(all, own, &dimensions, order_of(order)?, &old)?;
        let mut integers = vec![size.into(), rank.into(), sizes.len() as Count];
        let mut counts = Vec::new();
        if large {
            counts = sizes
        } else {
            integers.extend(sizes)
        }
        integers.extend([distributions, arguments, processes].concat());
        integers.push(order.into());
        let kept = Kept { integers, counts, ..Kept::default() };
        self.give_made(new, (Combiner::Darray, large), kept, vec![old], newtype)
    }

    /// A type of Fortran by what it can hold: always the same handle for the same wish.
    fn f90(
        &self,
        combiner: Combiner,
        wish: &[c_int],
        named: Option<Datatype>,
        newtype: Out<Datatype>,
    ) -> Result<(), Fault> {
        let Some(named) = named else {
            return Err(fault(MPI_ERR_ARG, "there is no type of Fortran with so many digits"));
        };
        if let Some(known) = self.types.f90(combiner, wish) {
            return newtype.set(known);
        }
        let origin = TypeContents {
            combiner,
            is_large: false,
            integers: wish.to_vec(),
            addresses: Vec::new(),
            counts: Vec::new(),
            types: Vec::new(),
        };
        let new = self.datatype(named)?.kept_with_origin(origin);
        let new = self.give_type(new, newtype)?;
        self.types.keep_f90(combiner, wish, new);
        Ok(())
    }
}

/// A type of blocks of one type.
fn blocks_of(
    of: &Type,
    lengths: impl Iterator<Item = Count> + Clone,
    places: &[Count],
    in_elements: bool,
) -> Result<Type, Fault> {
    if lengths.clone().any(|length| length < 0) {
        return Err(fault(MPI_ERR_ARG, "the length of a block is negative"));
    }
    let unit = if in_elements { of.extent() } else { 1 };
    let far = |&place: &Count| place.checked_mul(unit).is_none();
    if places.iter().any(far) {
        return Err(TypeError::Overflow.into());
    }
    let blocks = lengths.zip(places);
    let block = |(length, place): (Count, &Count)| {
        // Both were checked above.
        TypeBlock { at: place * unit, count: length as usize, of }
    };
    Ok(Type::blocks(blocks.map(block))?)
}

fn order_of(order: c_int) -> Result<Order, Fault> {
    match order {
        MPI_ORDER_C => Ok(Order::C),
        MPI_ORDER_FORTRAN => Ok(Order::Fortran),
        _ => Err(fault(MPI_ERR_ARG, format!("{order} is no order of an array"))),
    }
}

fn distribution(how: Count, argument: Count) -> Result<Distribution, Fault> {
    let is_default = argument == i64::from(MPI_DISTRIBUTE_DFLT_DARG);
    let block = || natural("an argument of a distribution", argument);
    match c_int::try_from(how) {
        Ok(MPI_DISTRIBUTE_NONE) => Ok(Distribution::None),
        Ok(MPI_DISTRIBUTE_BLOCK) if is_default => Ok(Distribution::Block(None)),
        Ok(MPI_DISTRIBUTE_BLOCK) => Ok(Distribution::Block(Some(block()?))),
        Ok(MPI_DISTRIBUTE_CYCLIC) if is_default => Ok(Distribution::Cyclic(1)),
        Ok(MPI_DISTRIBUTE_CYCLIC) => Ok(Distribution::Cyclic(block()?)),
        _ => Err(fault(MPI_ERR_ARG, format!("{how} is no distribution"))),
    }
}

/// The bytes of the number of Fortran with a fraction, of `p` decimal digits and exponents to 10^`r`.
fn real_of(p: c_int, r: c_int) -> Option<c_int> {
    let wish = |number: c_int| if number == MPI_UNDEFINED { 0 } else { number };
    if p == MPI_UNDEFINED && r == MPI_UNDEFINED {
        return None;
    }
    let fits = |digits, exponent| wish(p) <= digits && wish(r) <= exponent;
    match () {
        () if fits(6, 37) => Some(4),
        () if fits(15, 307) => Some(8),
        () if fits(33, 4931) => Some(16),
        () => None,
    }
}

/// The same without a fraction, up to 10^`r`.
fn integer_of(r: c_int) -> Option<c_int> {
    match r {
        ..=2 => Some(1),
        3..=4 => Some(2),
        5..=9 => Some(4),
        10..=18 => Some(8),
        19..=38 => Some(16),
        _ => None,
    }
}

/// Dimensions of an array, of which there is at least one.
fn dimensions(number: c_int) -> Result<usize, Fault> {
    let found = natural("the number of dimensions", number)?;
    if found == 0 {
        return Err(fault(MPI_ERR_ARG, "the number of dimensions is 0"));
    }
    Ok(found)
}

mpi! {
    fn MPI_Type_contiguous(count: c_int, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        mpi.contiguous(false, count.into(), oldtype, newtype)
    }

    fn MPI_Type_vector(count: c_int, blocklength: c_int, stride: c_int, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let numbers = [count.into(), blocklength.into(), stride.into()];
        mpi.vector(false, numbers, oldtype, newtype)
    }

    fn MPI_Type_create_hvector(count: c_int, blocklength: c_int, stride: Aint, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let numbers = [count.into(), blocklength.into(), stride as Count];
        mpi.hvector(false, numbers, oldtype, newtype)
    }

    fn MPI_Type_indexed(count: c_int, array_of_blocklengths: In<c_int>, array_of_displacements: In<c_int>, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let count = self::count(count)?;
        let lengths = list(array_of_blocklengths, count)?;
        let places = list(array_of_displacements, count)?;
        mpi.indexed((Combiner::Indexed, false), lengths, places, oldtype, newtype)
    }

    fn MPI_Type_create_hindexed(count: c_int, array_of_blocklengths: In<c_int>, array_of_displacements: In<Aint>, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let count = self::count(count)?;
        let lengths = list(array_of_blocklengths, count)?;
        let places = addresses(array_of_displacements, count)?;
        mpi.indexed((Combiner::Hindexed, false), lengths, places, oldtype, newtype)
    }

    fn MPI_Type_create_indexed_block(count: c_int, blocklength: c_int, array_of_displacements: In<c_int>, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let places = list(array_of_displacements, self::count(count)?)?;
        let how = (Combiner::IndexedBlock, false);
        mpi.indexed_block(how, blocklength.into(), places, oldtype, newtype)
    }

    fn MPI_Type_create_hindexed_block(count: c_int, blocklength: c_int, array_of_displacements: In<Aint>, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let places = addresses(array_of_displacements, self::count(count)?)?;
        let how = (Combiner::HindexedBlock, false);
        mpi.indexed_block(how, blocklength.into(), places, oldtype, newtype)
    }

    fn MPI_Type_create_struct(count: c_int, array_of_blocklengths: In<c_int>, array_of_displacements: In<Aint>, array_of_types: In<Datatype>, newtype: Out<Datatype>) |mpi| {
        let count = self::count(count)?;
        let lengths = list(array_of_blocklengths, count)?;
        let places = addresses(array_of_displacements, count)?;
        mpi.structure(false, lengths, places, array_of_types, newtype)
    }

    fn MPI_Type_create_resized(oldtype: Datatype, lb: Aint, extent: Aint, newtype: Out<Datatype>) |mpi| {
        mpi.resized(false, [lb as Count, extent as Count], oldtype, newtype)
    }

    fn MPI_Type_create_subarray(ndims: c_int, array_of_sizes: In<c_int>, array_of_subsizes: In<c_int>, array_of_starts: In<c_int>, order: c_int, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let n = dimensions(ndims)?;
        let (sizes, subsizes) = (list(array_of_sizes, n)?, list(array_of_subsizes, n)?);
        let arrays = [sizes, subsizes, list(array_of_starts, n)?];
        mpi.subarray(false, arrays, order, oldtype, newtype)
    }

    fn MPI_Type_create_darray(size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: In<c_int>, array_of_distribs: In<c_int>, array_of_dargs: In<c_int>, array_of_psizes: In<c_int>, order: c_int, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let n = dimensions(ndims)?;
        let sizes = list(array_of_gsizes, n)?;
        let (distribs, dargs) = (list(array_of_distribs, n)?, list(array_of_dargs, n)?);
        let arrays = [distribs, dargs, list(array_of_psizes, n)?];
        mpi.darray(false, [size, rank, order], sizes, arrays, oldtype, newtype)
    }

    fn MPI_Type_contiguous_c(count: Count, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        mpi.contiguous(true, count, oldtype, newtype)
    }

    fn MPI_Type_vector_c(count: Count, blocklength: Count, stride: Count, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let numbers = [count, blocklength, stride];
        mpi.vector(true, numbers, oldtype, newtype)
    }

    fn MPI_Type_create_hvector_c(count: Count, blocklength: Count, stride: Count, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let numbers = [count, blocklength, stride];
        mpi.hvector(true, numbers, oldtype, newtype)
    }

    fn MPI_Type_indexed_c(count: Count, array_of_blocklengths: In<Count>, array_of_displacements: In<Count>, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let count = self::count(count)?;
        let lengths = list(array_of_blocklengths, count)?;
        let places = list(array_of_displacements, count)?;
        mpi.indexed((Combiner::Indexed, true), lengths, places, oldtype, newtype)
    }

    fn MPI_Type_create_hindexed_c(count: Count, array_of_blocklengths: In<Count>, array_of_displacements: In<Count>, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let count = self::count(count)?;
        let lengths = list(array_of_blocklengths, count)?;
        let places = list(array_of_displacements, count)?;
        mpi.indexed((Combiner::Hindexed, true), lengths, places, oldtype, newtype)
    }

    fn MPI_Type_create_indexed_block_c(count: Count, blocklength: Count, array_of_displacements: In<Count>, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let places = list(array_of_displacements, self::count(count)?)?;
        let how = (Combiner::IndexedBlock, true);
        mpi.indexed_block(how, blocklength, places, oldtype, newtype)
    }

    fn MPI_Type_create_hindexed_block_c(count: Count, blocklength: Count, array_of_displacements: In<Count>, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let places = list(array_of_displacements, self::count(count)?)?;
        let how = (Combiner::HindexedBlock, true);
        mpi.indexed_block(how, blocklength, places, oldtype, newtype)
    }

    fn MPI_Type_create_struct_c(count: Count, array_of_blocklengths: In<Count>, array_of_displacements: In<Count>, array_of_types: In<Datatype>, newtype: Out<Datatype>) |mpi| {
        let count = self::count(count)?;
        let lengths = list(array_of_blocklengths, count)?;
        let places = list(array_of_displacements, count)?;
        mpi.structure(true, lengths, places, array_of_types, newtype)
    }

    fn MPI_Type_create_resized_c(oldtype: Datatype, lb: Count, extent: Count, newtype: Out<Datatype>) |mpi| {
        mpi.resized(true, [lb, extent], oldtype, newtype)
    }

    fn MPI_Type_create_subarray_c(ndims: c_int, array_of_sizes: In<Count>, array_of_subsizes: In<Count>, array_of_starts: In<Count>, order: c_int, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let n = dimensions(ndims)?;
        let (sizes, subsizes) = (list(array_of_sizes, n)?, list(array_of_subsizes, n)?);
        let arrays = [sizes, subsizes, list(array_of_starts, n)?];
        mpi.subarray(true, arrays, order, oldtype, newtype)
    }

    fn MPI_Type_create_darray_c(size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: In<Count>, array_of_distribs: In<c_int>, array_of_dargs: In<c_int>, array_of_psizes: In<c_int>, order: c_int, oldtype: Datatype, newtype: Out<Datatype>) |mpi| {
        let n = dimensions(ndims)?;
        let sizes = list(array_of_gsizes, n)?;
        let (distribs, dargs) = (list(array_of_distribs, n)?, list(array_of_dargs, n)?);
        let arrays = [distribs, dargs, list(array_of_psizes, n)?];
        mpi.darray(true, [size, rank, order], sizes, arrays, oldtype, newtype)
    }

    fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: Out<Datatype>) |mpi| {
        let named = real_of(p, r).and_then(|size| of_class(TypeClass::Float, size));
        mpi.f90(Combiner::F90Real, &[p, r], named, newtype)
    }

    fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: Out<Datatype>) |mpi| {
        let named = real_of(p, r).and_then(|size| of_class(TypeClass::Complex, 2 * size));
        mpi.f90(Combiner::F90Complex, &[p, r], named, newtype)
    }

    fn MPI_Type_create_f90_integer(r: c_int, newtype: Out<Datatype>) |mpi| {
        let named = integer_of(r).and_then(|size| of_class(TypeClass::FortranInteger, size));
        mpi.f90(Combiner::F90Integer, &[r], named, newtype)
    }
}
