//! Chapter: messages that a program packs and unpacks itself.
//!
//! Packed as in a message: the bytes of the elements side by side, with nothing in front.

use std::ffi::{c_int, c_void};

use bowline_base::layout;
use bowline_mpi::types::Type;

use crate::arg::{Out, Text};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Aint, Comm, Count, Datatype};
use crate::library::types::message;

/// Bytes of the program, and how far it has come in them.
#[derive(Clone, Copy, Debug)]
struct Packed<N> {
    start: *mut c_void,
    size: N,
    position: Out<N>,
}

impl<N: Copy + TryFrom<usize> + TryInto<usize> + std::fmt::Display> Packed<N> {
    /// The place of the next `len` bytes, and the position behind them.
    fn next(self, len: usize) -> Result<(*mut u8, N), Fault> {
        let position = self.position.get()?;
        let (Ok(size), Ok(at)) = (self.size.try_into(), position.try_into()) else {
            let text = format!("the size is {}, and the position {position}", self.size);
            return Err(fault(MPI_ERR_ARG, text));
        };
        let end = at.checked_add(len).filter(|&end| end <= size).ok_or_else(|| {
            fault(MPI_ERR_TRUNCATE, format!("{len} bytes at {at} are not inside of {size}"))
        })?;
        if len > 0 && self.start.is_null() {
            return Err(fault(MPI_ERR_BUFFER, "there is no address of the packed bytes"));
        }
        let end = N::try_from(end).map_err(|_| fault(MPI_ERR_ARG, "the position is too large"))?;
        Ok((self.start.cast::<u8>().wrapping_add(at), end))
    }
}

/// Packs a message.
fn pack<N>(from: *const c_void, count: Count, of: &Type, packed: Packed<N>) -> Result<(), Fault>
where
    N: Copy + TryFrom<usize> + TryInto<usize> + std::fmt::Display,
{
    let (count, len) = message(from, count, of)?;
    let (out, end) = packed.next(len)?;
    // SAFETY: the program answers for the message, and for the bytes that it says there are; a program's
    // two buffers may not overlap.
    unsafe { layout::pack(of.layout(), from.cast(), count, 0, out, len) };
    packed.position.set(end)
}

/// Unpacks a message.
fn unpack<N>(packed: Packed<N>, to: *mut c_void, count: Count, of: &Type) -> Result<(), Fault>
where
    N: Copy + TryFrom<usize> + TryInto<usize> + std::fmt::Display,
{
    let (count, len) = message(to, count, of)?;
    let (from, end) = packed.next(len)?;
    // SAFETY: as in `pack`.
    unsafe { layout::unpack(of.layout(), to.cast(), count, 0, from, len) };
    packed.position.set(end)
}

/// Refuses all representations but the standard's.
fn is_external(datarep: Text) -> Result<(), Fault> {
    let name = datarep.bytes()?;
    if name != b"external32" {
        let text =
            format!("{:?} is no representation that is known", String::from_utf8_lossy(&name));
        return Err(fault(MPI_ERR_UNSUPPORTED_DATAREP, text));
    }
    Ok(())
}

/// Bytes of a message in the standard's representation.
fn external_size(count: usize, of: &Type) -> Result<usize, Fault> {
    of.external_size(count).ok_or_else(too_large)
}

#[cold]
fn too_large() -> Fault {
    fault(MPI_ERR_VALUE_TOO_LARGE, "the packed message has more bytes than can be returned")
}

fn pack_external<N>(
    from: *const c_void,
    count: Count,
    of: &Type,
    packed: Packed<N>,
) -> Result<(), Fault>
where
    N: Copy + TryFrom<usize> + TryInto<usize> + std::fmt::Display,
{
    let (count, _) = message(from, count, of)?;
    let (out, end) = packed.next(external_size(count, of)?)?;
    // SAFETY: as in `pack`.
    unsafe { of.pack_external(from.cast(), count, out) }
        .map_err(|error| fault(MPI_ERR_CONVERSION, error.to_string()))?;
    packed.position.set(end)
}

fn unpack_external<N>(
    packed: Packed<N>,
    to: *mut c_void,
    count: Count,
    of: &Type,
) -> Result<(), Fault>
where
    N: Copy + TryFrom<usize> + TryInto<usize> + std::fmt::Display,
{
    let (count, _) = message(to, count, of)?;
    let (from, end) = packed.next(external_size(count, of)?)?;
    // SAFETY: as in `pack`.
    unsafe { of.unpack_external(from, to.cast(), count) };
    packed.position.set(end)
}

/// Bytes of `count` elements.
fn size_of(count: Count, of: &Type) -> Result<usize, Fault> {
    let count = usize::try_from(count)
        .map_err(|_| fault(MPI_ERR_COUNT, format!("the count is {count}")))?;
    count.checked_mul(of.size()).ok_or_else(too_large)
}

/// Stores a size, where it fits.
fn set<N: Copy + TryFrom<usize>>(out: Out<N>, size: usize) -> Result<(), Fault> {
    out.set(N::try_from(size).map_err(|_| too_large())?)
}

mpi! {
    fn MPI_Pack(inbuf: *const c_void, incount: c_int, datatype: Datatype, outbuf: *mut c_void,
                outsize: c_int, position: Out<c_int>, comm: Comm) on comm |mpi| {
        mpi.comm(comm)?;
        let packed = Packed { start: outbuf, size: outsize, position };
        pack(inbuf, incount.into(), &mpi.committed(datatype)?, packed)
    }

    fn MPI_Pack_c(inbuf: *const c_void, incount: Count, datatype: Datatype, outbuf: *mut c_void,
                  outsize: Count, position: Out<Count>, comm: Comm) on comm |mpi| {
        mpi.comm(comm)?;
        let packed = Packed { start: outbuf, size: outsize, position };
        pack(inbuf, incount, &mpi.committed(datatype)?, packed)
    }

    fn MPI_Unpack(inbuf: *const c_void, insize: c_int, position: Out<c_int>, outbuf: *mut c_void,
                  outcount: c_int, datatype: Datatype, comm: Comm) on comm |mpi| {
        mpi.comm(comm)?;
        let packed = Packed { start: inbuf.cast_mut(), size: insize, position };
        unpack(packed, outbuf, outcount.into(), &mpi.committed(datatype)?)
    }

    fn MPI_Unpack_c(inbuf: *const c_void, insize: Count, position: Out<Count>,
                    outbuf: *mut c_void, outcount: Count, datatype: Datatype, comm: Comm)
        on comm |mpi| {
        mpi.comm(comm)?;
        let packed = Packed { start: inbuf.cast_mut(), size: insize, position };
        unpack(packed, outbuf, outcount, &mpi.committed(datatype)?)
    }

    fn MPI_Pack_size(incount: c_int, datatype: Datatype, comm: Comm, size: Out<c_int>)
        on comm |mpi| {
        mpi.comm(comm)?;
        set(size, size_of(incount.into(), &mpi.committed(datatype)?)?)
    }

    fn MPI_Pack_size_c(incount: Count, datatype: Datatype, comm: Comm, size: Out<Count>)
        on comm |mpi| {
        mpi.comm(comm)?;
        set(size, size_of(incount, &mpi.committed(datatype)?)?)
    }

    fn MPI_Pack_external(datarep: Text, inbuf: *const c_void, incount: c_int, datatype: Datatype,
                         outbuf: *mut c_void, outsize: Aint, position: Out<Aint>) |mpi| {
        is_external(datarep)?;
        let packed = Packed { start: outbuf, size: outsize, position };
        pack_external(inbuf, incount.into(), &mpi.committed(datatype)?, packed)
    }

    fn MPI_Pack_external_c(datarep: Text, inbuf: *const c_void, incount: Count,
                           datatype: Datatype, outbuf: *mut c_void, outsize: Count,
                           position: Out<Count>) |mpi| {
        is_external(datarep)?;
        let packed = Packed { start: outbuf, size: outsize, position };
        pack_external(inbuf, incount, &mpi.committed(datatype)?, packed)
    }

    fn MPI_Unpack_external(datarep: Text, inbuf: *const c_void, insize: Aint, position: Out<Aint>,
                           outbuf: *mut c_void, outcount: c_int, datatype: Datatype) |mpi| {
        is_external(datarep)?;
        let packed = Packed { start: inbuf.cast_mut(), size: insize, position };
        unpack_external(packed, outbuf, outcount.into(), &mpi.committed(datatype)?)
    }

    fn MPI_Unpack_external_c(datarep: Text, inbuf: *const c_void, insize: Count,
                             position: Out<Count>, outbuf: *mut c_void, outcount: Count,
                             datatype: Datatype) |mpi| {
        is_external(datarep)?;
        let packed = Packed { start: inbuf.cast_mut(), size: insize, position };
        unpack_external(packed, outbuf, outcount, &mpi.committed(datatype)?)
    }

    fn MPI_Pack_external_size(datarep: Text, incount: c_int, datatype: Datatype, size: Out<Aint>)
        |mpi| {
        is_external(datarep)?;
        let of = mpi.committed(datatype)?;
        size_of(incount.into(), &of)?;
        set(size, external_size(incount as usize, &of)?)
    }

    fn MPI_Pack_external_size_c(datarep: Text, incount: Count, datatype: Datatype,
                                size: Out<Count>) |mpi| {
        is_external(datarep)?;
        let of = mpi.committed(datatype)?;
        size_of(incount, &of)?;
        set(size, external_size(incount as usize, &of)?)
    }
}
