//! Buffers of collectives, as a C program names them: an address, a number, a datatype.

use std::ffi::{c_int, c_void};

use bowline_mpi::raw::Data;
use bowline_mpi::types::Type;

use crate::arg::In;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Datatype;
use crate::library::{CommObject, Library};

/// Numbers of C in arrays of counts and displacements.
pub(crate) trait Number: Copy {
    /// The same, with 64 bits.
    fn wide(self) -> i64;
}

impl Number for c_int {
    fn wide(self) -> i64 {
        self.into()
    }
}

impl Number for i64 {
    fn wide(self) -> i64 {
        self
    }
}

impl Number for isize {
    fn wide(self) -> i64 {
        self as i64
    }
}

/// Whether a buffer is `MPI_IN_PLACE`.
#[inline]
pub(crate) fn is_in_place(buf: *const c_void) -> bool {
    buf.addr() == MPI_IN_PLACE
}

/// The elements of a buffer.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: *mut u8,
    count: usize,
    pub(crate) of: Type,
}

impl Buffer {
    /// As the core takes them.
    #[inline]
    pub(crate) fn data(&self) -> Data<'_> {
        Data { start: self.start, count: self.count, layout: self.of.layout() }
    }

    /// None of them.
    pub(crate) fn nothing(&self) -> Data<'_> {
        Data { count: 0, ..self.data() }
    }

    /// The address.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Refuses two buffers whose elements lie at one address.
    #[inline]
    pub(crate) fn apart_from(&self, other: &Self) -> Result<(), Fault> {
        let one = self.start == other.start && self.count > 0 && other.count > 0;
        // Types of the program's may have their bytes anywhere.
        if one && self.of.abi().is_some() && other.of.abi().is_some() {
            return Err(aliased());
        }
        Ok(())
    }
}

/// Buffers that have one element each for every rank, which need not lie in order.
#[derive(Debug)]
pub(crate) struct Blocks(Vec<Buffer>);

impl Blocks {
    /// As the core takes them.
    pub(crate) fn data(&self) -> Vec<Data<'_>> {
        self.0.iter().map(Buffer::data).collect()
    }
}

impl Library {
    /// The elements that a function is called with.
    #[inline]
    pub(crate) fn buffer(
        &self,
        buf: *const c_void,
        count: i64,
        datatype: Datatype,
    ) -> Result<Buffer, Fault> {
        let count = counted(count)?;
        let of = self.committed(datatype)?;
        check_address(buf, count, &of)?;
        Ok(Buffer { start: buf.cast_mut().cast(), count, of })
    }

    /// The same unless it is `MPI_IN_PLACE`, where that is allowed.
    #[inline]
    pub(crate) fn buffer_or_in_place(
        &self,
        buf: *const c_void,
        count: i64,
        datatype: Datatype,
        allowed: bool,
    ) -> Result<Option<Buffer>, Fault> {
        if allowed && is_in_place(buf) {
            return Ok(None);
        }
        self.buffer(buf, count, datatype).map(Some)
    }

    /// Blocks of one type, each at a displacement in extents of it.
    pub(crate) fn blocks<C: Number, D: Number>(
        &self,
        comm: &CommObject,
        buf: *const c_void,
        (counts, displacements): (In<C>, In<D>),
        datatype: Datatype,
    ) -> Result<Blocks, Fault> {
        let of = self.committed(datatype)?;
        let block = |rank: usize| {
            let count = counted(counts.at(rank).get()?.wide())?;
            check_address(buf, count, &of)?;
            let at = displacements.at(rank).get()?.wide().wrapping_mul(of.extent());
            Ok(Buffer { start: displaced(buf, at), count, of: of.clone() })
        };
        (0..comm.comm.size() as usize).map(block).collect::<Result<_, _>>().map(Blocks)
    }

    /// Blocks of a type each, each at a displacement in bytes.
    pub(crate) fn typed_blocks<C: Number, D: Number>(
        &self,
        comm: &CommObject,
        buf: *const c_void,
        (counts, displacements): (In<C>, In<D>),
        datatypes: In<Datatype>,
    ) -> Result<Blocks, Fault> {
        let block = |rank: usize| {
            let count = counted(counts.at(rank).get()?.wide())?;
            let of = self.committed(datatypes.at(rank).get()?)?;
            check_address(buf, count, &of)?;
            let at = displacements.at(rank).get()?.wide();
            Ok(Buffer { start: displaced(buf, at), count, of })
        };
        (0..comm.comm.size() as usize).map(block).collect::<Result<_, _>>().map(Blocks)
    }
}

/// The address at a displacement.
fn displaced(buf: *const c_void, at: i64) -> *mut u8 {
    buf.cast_mut().cast::<u8>().wrapping_offset(at as isize)
}

/// A number of elements.
#[inline]
pub(crate) fn counted(count: i64) -> Result<usize, Fault> {
    usize::try_from(count).map_err(|_| fault(MPI_ERR_COUNT, format!("the count is {count}")))
}

/// Refuses a buffer at none of the program's addresses.
#[inline]
fn check_address(buf: *const c_void, count: usize, of: &Type) -> Result<(), Fault> {
    if buf.addr() <= LAST_CONSTANT && count > 0 {
        return check_constant(buf, of);
    }
    Ok(())
}

/// Addresses up to here are constants: `MPI_BOTTOM`, `MPI_IN_PLACE`, `MPI_BUFFER_AUTOMATIC`.
const LAST_CONSTANT: usize = 2;

#[cold]
fn check_constant(buf: *const c_void, of: &Type) -> Result<(), Fault> {
    match buf.addr() {
        MPI_IN_PLACE => Err(fault(MPI_ERR_BUFFER, "MPI_IN_PLACE is not allowed here")),
        // Other types have the addresses of their elements, or none.
        MPI_BOTTOM if of.abi().is_none() => Ok(()),
        _ => Err(fault(MPI_ERR_BUFFER, "the buffer has no address, and the count is not 0")),
    }
}

#[cold]
fn aliased() -> Fault {
    fault(MPI_ERR_BUFFER, "the send buffer and the receive buffer are the same memory")
}
