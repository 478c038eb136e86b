//! Buffers of collectives, as a C program names them: an address, a number, a datatype.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use bowline_mpi::raw::Data;
use bowline_mpi::types::Type;

use crate::arg::In;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Datatype, PREDEFINED};
use crate::library::Library;

/// Numbers of C in arrays of counts and displacements.
pub(crate) trait Number: Copy {
    /// Whether it can be a whole address, as a displacement behind `MPI_BOTTOM`.
    const IS_ADDRESS: bool;

    /// The same, with 64 bits.
    fn wide(self) -> i64;
}

impl Number for c_int {
    const IS_ADDRESS: bool = false;

    fn wide(self) -> i64 {
        self.into()
    }
}

impl Number for i64 {
    const IS_ADDRESS: bool = true;

    fn wide(self) -> i64 {
        self
    }
}

impl Number for isize {
    const IS_ADDRESS: bool = true;

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
    pub(crate) fn data(&self) -> Data {
        Data { start: self.start, count: self.count, layout: Arc::clone(self.of.layout()) }
    }

    /// None of them.
    pub(crate) fn nothing(&self) -> Data {
        Data { count: 0, ..self.data() }
    }

    /// The address.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// The bytes of `times` such buffers one behind the other, where they lie side by side. Elements of
    /// other layouts may lie between those of another buffer, and copies are made of them.
    #[inline]
    fn bytes(&self, times: usize) -> Option<Range<usize>> {
        let count = self.count.checked_mul(times)?;
        // What cannot be counted is refused by the core.
        self.of.size().checked_mul(count)?;
        let (at, len) = self.of.layout().one_block(count)?;
        let start = self.start.addr().wrapping_add_signed(at as isize);
        Some(start..start.saturating_add(len))
    }

    /// Refuses two buffers that share bytes; there are so many of each, one behind the other.
    #[inline]
    pub(crate) fn apart(
        (one, ones): (&Self, usize),
        (other, others): (&Self, usize),
    ) -> Result<(), Fault> {
        match (one.bytes(ones), other.bytes(others)) {
            (Some(one), Some(other)) if overlap(&one, &other) => Err(aliased()),
            _ => Ok(()),
        }
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Buffers of one partner of a collective each, which need not lie in order.
#[derive(Debug)]
pub(crate) struct Blocks(Vec<Buffer>);

impl Blocks {
    /// As the core takes them.
    pub(crate) fn data(&self) -> Vec<Data> {
        self.0.iter().map(Buffer::data).collect()
    }

    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().filter_map(|buffer| buffer.bytes(1))
    }

    /// Refuses these blocks beside a buffer, if they share bytes.
    pub(crate) fn apart_from(&self, other: &Buffer) -> Result<(), Fault> {
        let shared =
            other.bytes(1).is_some_and(|other| self.ranges().any(|own| overlap(&own, &other)));
        if shared { Err(aliased()) } else { Ok(()) }
    }

    /// Refuses these blocks beside others, if they share bytes.
    pub(crate) fn apart_from_all(&self, others: &Self) -> Result<(), Fault> {
        let hull = |blocks: &Self| {
            let join = |one: Range<usize>, other: Range<usize>| {
                one.start.min(other.start)..one.end.max(other.end)
            };
            blocks.ranges().reduce(join)
        };
        // Mostly the two are arrays that lie apart as a whole.
        match (hull(self), hull(others)) {
            (Some(one), Some(other)) if overlap(&one, &other) => {}
            _ => return Ok(()),
        }
        let sorted = |blocks: &Self| {
            let mut ranges: Vec<_> = blocks.ranges().collect();
            ranges.sort_by_key(|range| range.start);
            ranges
        };
        let (own, others) = (sorted(self), sorted(others));
        // Blocks of one side may overlap each other: what ends last of those that began is kept.
        let (mut at, mut end) = (0, 0);
        for range in &others {
            while at < own.len() && own[at].start < range.end {
                end = end.max(own[at].end);
                at += 1;
            }
            // All of these begin before the end of this one.
            if end > range.start {
                return Err(aliased());
            }
        }
        Ok(())
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

    /// So many blocks of one type, each at a displacement in extents of it.
    pub(crate) fn blocks<C: Number, D: Number>(
        &self,
        blocks: usize,
        buf: *const c_void,
        (counts, displacements): (In<C>, In<D>),
        datatype: Datatype,
    ) -> Result<Blocks, Fault> {
        let of = self.committed(datatype)?;
        let block = |index: usize| {
            let count = counted(counts.at(index).get()?.wide())?;
            let at = displacements.at(index).get()?.wide().checked_mul(of.extent());
            let at = at.ok_or_else(|| fault(MPI_ERR_ARG, "a displacement leaves all memory"))?;
            Ok(Buffer { start: displaced::<D>(buf, at, count, &of)?, count, of: of.clone() })
        };
        (0..blocks).map(block).collect::<Result<_, _>>().map(Blocks)
    }

    /// So many blocks of a type each, each at a displacement in bytes.
    pub(crate) fn typed_blocks<C: Number, D: Number>(
        &self,
        blocks: usize,
        buf: *const c_void,
        (counts, displacements): (In<C>, In<D>),
        datatypes: In<Datatype>,
    ) -> Result<Blocks, Fault> {
        let block = |index: usize| {
            let count = counted(counts.at(index).get()?.wide())?;
            let of = self.committed(datatypes.at(index).get()?)?;
            let at = displacements.at(index).get()?.wide();
            Ok(Buffer { start: displaced::<D>(buf, at, count, &of)?, count, of })
        };
        (0..blocks).map(block).collect::<Result<_, _>>().map(Blocks)
    }
}

/// The address of so many elements at a displacement, which may be the whole address behind `MPI_BOTTOM`.
fn displaced<D: Number>(
    buf: *const c_void,
    at: i64,
    count: usize,
    of: &Type,
) -> Result<*mut u8, Fault> {
    let start = buf.cast_mut().cast::<u8>().wrapping_offset(at as isize);
    if !D::IS_ADDRESS || buf.addr() != MPI_BOTTOM || start.addr() < PREDEFINED {
        check_address(buf, count, of)?;
        return Ok(start);
    }
    // The program has got the address by `MPI_Get_address`.
    Ok(std::ptr::with_exposed_provenance_mut(start.addr()))
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
