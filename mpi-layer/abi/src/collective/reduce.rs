//! Reductions.

use std::ffi::{c_int, c_void};

use super::{Now, When, apart, apart_each, dense, is_root, ranks};
use crate::arg::In;
use crate::elements::{Buffer, Number, counted, is_in_place};
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Comm, Count, Datatype, Op};
use crate::library::Library;

mpi! {
    fn MPI_Reduce(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype,
                  op: Op, root: c_int, comm: Comm) on comm |mpi| {
        match dense::reduce(mpi, sendbuf, recvbuf, (count.into(), datatype), (op, root), comm)? {
            true => Ok(()),
            false => reduce(mpi, Now, sendbuf, recvbuf, (count.into(), datatype), (op, root), comm),
        }
    }

    fn MPI_Reduce_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype,
                    op: Op, root: c_int, comm: Comm) on comm |mpi| {
        match dense::reduce(mpi, sendbuf, recvbuf, (count, datatype), (op, root), comm)? {
            true => Ok(()),
            false => reduce(mpi, Now, sendbuf, recvbuf, (count, datatype), (op, root), comm),
        }
    }

    fn MPI_Allreduce(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int,
                     datatype: Datatype, op: Op, comm: Comm) on comm |mpi| {
        match dense::allreduce(mpi, sendbuf, recvbuf, (count.into(), datatype), op, comm)? {
            true => Ok(()),
            false => allreduce(mpi, Now, sendbuf, recvbuf, (count.into(), datatype), op, comm),
        }
    }

    fn MPI_Allreduce_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count,
                       datatype: Datatype, op: Op, comm: Comm) on comm |mpi| {
        match dense::allreduce(mpi, sendbuf, recvbuf, (count, datatype), op, comm)? {
            true => Ok(()),
            false => allreduce(mpi, Now, sendbuf, recvbuf, (count, datatype), op, comm),
        }
    }

    fn MPI_Reduce_scatter(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: In<c_int>,
                          datatype: Datatype, op: Op, comm: Comm) on comm |mpi| {
        reduce_scatter(mpi, Now, sendbuf, recvbuf, (recvcounts, datatype), op, comm)
    }

    fn MPI_Reduce_scatter_c(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: In<Count>,
                            datatype: Datatype, op: Op, comm: Comm) on comm |mpi| {
        reduce_scatter(mpi, Now, sendbuf, recvbuf, (recvcounts, datatype), op, comm)
    }

    fn MPI_Reduce_scatter_block(sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: c_int,
                                datatype: Datatype, op: Op, comm: Comm) on comm |mpi| {
        reduce_scatter_block(mpi, Now, sendbuf, recvbuf, (recvcount.into(), datatype), op, comm)
    }

    fn MPI_Reduce_scatter_block_c(sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: Count,
                                  datatype: Datatype, op: Op, comm: Comm) on comm |mpi| {
        reduce_scatter_block(mpi, Now, sendbuf, recvbuf, (recvcount, datatype), op, comm)
    }

    fn MPI_Scan(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype,
                op: Op, comm: Comm) on comm |mpi| {
        scan(mpi, Now, sendbuf, recvbuf, (count.into(), datatype), op, comm)
    }

    fn MPI_Scan_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype,
                  op: Op, comm: Comm) on comm |mpi| {
        scan(mpi, Now, sendbuf, recvbuf, (count, datatype), op, comm)
    }

    fn MPI_Exscan(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype,
                  op: Op, comm: Comm) on comm |mpi| {
        exscan(mpi, Now, sendbuf, recvbuf, (count.into(), datatype), op, comm)
    }

    fn MPI_Exscan_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype,
                    op: Op, comm: Comm) on comm |mpi| {
        exscan(mpi, Now, sendbuf, recvbuf, (count, datatype), op, comm)
    }
}

#[inline(never)]
pub(super) fn reduce<W: When>(
    mpi: &Library,
    when: W,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (count, datatype): (i64, Datatype),
    (op, root): (Op, c_int),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let here = is_root(&comm, root)?;
    let sent = mpi.buffer_or_in_place(sendbuf, count, datatype, here)?;
    let received = if here { Some(mpi.buffer(recvbuf, count, datatype)?) } else { None };
    apart(sent.as_ref(), received.as_ref())?;
    // In place is for the root, so that there is one of them.
    let Some(known) = received.as_ref().or(sent.as_ref()) else { return Ok(()) };
    let into = if here { known.data() } else { known.nothing() };
    let own = sent.as_ref().map(Buffer::data);
    let op = mpi.reduction(op, datatype, known)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.reduce_data(W::CALL, own, into, op, root) }?;
    when.end(mpi, comm, made)
}

#[inline(never)]
pub(super) fn allreduce<W: When>(
    mpi: &Library,
    when: W,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (count, datatype): (i64, Datatype),
    op: Op,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let (sent, received) = both(mpi, sendbuf, recvbuf, (count, datatype))?;
    let own = sent.as_ref().map(Buffer::data);
    let op = mpi.reduction(op, datatype, &received)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.allreduce_data(W::CALL, own, received.data(), op) }?;
    when.end(mpi, comm, made)
}

/// The two buffers of a reduction in which all ranks have both.
#[inline]
fn both(
    mpi: &Library,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (count, datatype): (i64, Datatype),
) -> Result<(Option<Buffer>, Buffer), Fault> {
    let sent = mpi.buffer_or_in_place(sendbuf, count, datatype, true)?;
    let received = mpi.buffer(recvbuf, count, datatype)?;
    apart(sent.as_ref(), Some(&received))?;
    Ok((sent, received))
}

pub(super) fn reduce_scatter<W: When, C: Number>(
    mpi: &Library,
    when: W,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (recvcounts, datatype): (In<C>, Datatype),
    op: Op,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let count = |rank: usize| counted(recvcounts.at(rank).get()?.wide());
    let counts: Vec<usize> = (0..ranks(&comm) as usize).map(count).collect::<Result<_, _>>()?;
    let sum = counts.iter().fold(0_i64, |sum, &count| sum.saturating_add(count as i64));
    let sent = mpi.buffer_or_in_place(sendbuf, sum, datatype, true)?;
    // In place, the elements of all ranks stand in the receive buffer.
    let own = if sent.is_some() { counts[comm.comm.rank() as usize] as i64 } else { sum };
    let received = mpi.buffer(recvbuf, own, datatype)?;
    apart(sent.as_ref(), Some(&received))?;
    let from = sent.as_ref().map(Buffer::start);
    let op = mpi.reduction(op, datatype, &received)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made =
        unsafe { comm.comm.reduce_scatter_data(W::CALL, from, received.data(), &counts, op) }?;
    when.end(mpi, comm, made)
}

pub(super) fn reduce_scatter_block<W: When>(
    mpi: &Library,
    when: W,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (count, datatype): (i64, Datatype),
    op: Op,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let sent = mpi.buffer_or_in_place(sendbuf, count, datatype, true)?;
    let received = mpi.buffer(recvbuf, count, datatype)?;
    // What is sent are the elements of all ranks.
    apart_each(sent.as_ref().zip(Some(ranks(&comm))), Some((&received, 1)))?;
    let from = sent.as_ref().map(Buffer::start);
    let op = mpi.reduction(op, datatype, &received)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.reduce_scatter_block_data(W::CALL, from, received.data(), op) }?;
    when.end(mpi, comm, made)
}

pub(super) fn scan<W: When>(
    mpi: &Library,
    when: W,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (count, datatype): (i64, Datatype),
    op: Op,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let (sent, received) = both(mpi, sendbuf, recvbuf, (count, datatype))?;
    let own = sent.as_ref().map(Buffer::data);
    let op = mpi.reduction(op, datatype, &received)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.scan_data(W::CALL, false, own, received.data(), op) }?;
    when.end(mpi, comm, made)
}

pub(super) fn exscan<W: When>(
    mpi: &Library,
    when: W,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (count, datatype): (i64, Datatype),
    op: Op,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    // Nothing is received at rank 0, whose buffer must not be checked either.
    if comm.comm.rank() == 0 && !is_in_place(sendbuf) {
        let sent = mpi.buffer(sendbuf, count, datatype)?;
        let op = mpi.reduction(op, datatype, &sent)?;
        let (own, into) = (Some(sent.data()), sent.nothing());
        // SAFETY: the program answers for the memory, until a request has ended.
        let made = unsafe { comm.comm.scan_data(W::CALL, true, own, into, op) }?;
        return when.end(mpi, comm, made);
    }
    let (sent, received) = both(mpi, sendbuf, recvbuf, (count, datatype))?;
    let own = sent.as_ref().map(Buffer::data);
    let op = mpi.reduction(op, datatype, &received)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.scan_data(W::CALL, true, own, received.data(), op) }?;
    when.end(mpi, comm, made)
}
