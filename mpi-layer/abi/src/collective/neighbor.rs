//! Exchanges between the neighbours of a topology, blocking, nonblocking and persistent. In place is for none of them.

mod again;
mod later;

use std::ffi::{c_int, c_void};

use super::{Now, When, apart_each, apart_from_blocks};
use crate::arg::In;
use crate::elements::{Number, is_in_place};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::MPI_ERR_BUFFER;
use crate::handle::{Aint, Comm, Count, Datatype};
use crate::library::{CommObject, Library};

mpi! {
    fn MPI_Neighbor_allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                              recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                              comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        allgather(mpi, Now, sent, (recvbuf, recvcount.into(), recvtype), comm)
    }

    fn MPI_Neighbor_allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                                recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype,
                                comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount, sendtype);
        allgather(mpi, Now, sent, (recvbuf, recvcount, recvtype), comm)
    }

    fn MPI_Neighbor_allgatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                               recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                               recvtype: Datatype, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        allgatherv(mpi, Now, sent, (recvbuf, (recvcounts, displs), recvtype), comm)
    }

    fn MPI_Neighbor_allgatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                                 recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                                 recvtype: Datatype, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount, sendtype);
        allgatherv(mpi, Now, sent, (recvbuf, (recvcounts, displs), recvtype), comm)
    }

    fn MPI_Neighbor_alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                             recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                             comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        alltoall(mpi, Now, sent, (recvbuf, recvcount.into(), recvtype), comm)
    }

    fn MPI_Neighbor_alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                               recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype,
                               comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount, sendtype);
        alltoall(mpi, Now, sent, (recvbuf, recvcount, recvtype), comm)
    }

    fn MPI_Neighbor_alltoallv(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<c_int>,
                              sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<c_int>,
                              rdispls: In<c_int>, recvtype: Datatype, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, (sendcounts, sdispls), sendtype);
        alltoallv(mpi, Now, sent, (recvbuf, (recvcounts, rdispls), recvtype), comm)
    }

    fn MPI_Neighbor_alltoallv_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                                sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<Count>,
                                rdispls: In<Aint>, recvtype: Datatype, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, (sendcounts, sdispls), sendtype);
        alltoallv(mpi, Now, sent, (recvbuf, (recvcounts, rdispls), recvtype), comm)
    }

    fn MPI_Neighbor_alltoallw(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<Aint>,
                              sendtypes: In<Datatype>, recvbuf: *mut c_void, recvcounts: In<c_int>,
                              rdispls: In<Aint>, recvtypes: In<Datatype>,
                              comm: Comm) on comm |mpi| {
        let sent = (sendbuf, (sendcounts, sdispls), sendtypes);
        alltoallw(mpi, Now, sent, (recvbuf, (recvcounts, rdispls), recvtypes), comm)
    }

    fn MPI_Neighbor_alltoallw_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                                sendtypes: In<Datatype>, recvbuf: *mut c_void,
                                recvcounts: In<Count>, rdispls: In<Aint>, recvtypes: In<Datatype>,
                                comm: Comm) on comm |mpi| {
        let sent = (sendbuf, (sendcounts, sdispls), sendtypes);
        alltoallw(mpi, Now, sent, (recvbuf, (recvcounts, rdispls), recvtypes), comm)
    }
}

/// How many neighbours there are to receive from, and to send to, of a call with these buffers.
fn degrees(
    comm: &CommObject,
    sendbuf: *const c_void,
    recvbuf: *const c_void,
) -> Result<(usize, usize), Fault> {
    if is_in_place(sendbuf) || is_in_place(recvbuf) {
        let text = "MPI_IN_PLACE is not allowed between neighbours";
        return Err(fault(MPI_ERR_BUFFER, text));
    }
    Ok(comm.comm.neighbor_degrees()?)
}

/// How often a buffer is there, one behind the other.
fn times(degree: usize) -> Option<u32> {
    Some(degree as u32)
}

fn allgather<W: When>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, Datatype),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let (indegree, _) = degrees(&comm, sendbuf, recvbuf)?;
    let sent = mpi.buffer(sendbuf, sendcount, sendtype)?;
    let received = mpi.buffer(recvbuf, recvcount, recvtype)?;
    apart_each(Some((&sent, 1)), Some(&received).zip(times(indegree)))?;
    let (own, blocks) = (sent.data(), received.data());
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.neighbor_allgather_data(W::CALL, own, &blocks) }?;
    when.end(mpi, comm, made)
}

fn allgatherv<W: When, C: Number, D: Number>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, places, recvtype): (*mut c_void, (In<C>, In<D>), Datatype),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let (indegree, _) = degrees(&comm, sendbuf, recvbuf)?;
    let sent = mpi.buffer(sendbuf, sendcount, sendtype)?;
    let received = mpi.blocks(indegree, recvbuf, places, recvtype)?;
    apart_from_blocks(Some(&sent), Some(&received))?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made =
        unsafe { comm.comm.neighbor_allgatherv_data(W::CALL, sent.data(), received.data()) }?;
    when.end(mpi, comm, made)
}

fn alltoall<W: When>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, Datatype),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let (indegree, outdegree) = degrees(&comm, sendbuf, recvbuf)?;
    let sent = mpi.buffer(sendbuf, sendcount, sendtype)?;
    let received = mpi.buffer(recvbuf, recvcount, recvtype)?;
    apart_each(Some(&sent).zip(times(outdegree)), Some(&received).zip(times(indegree)))?;
    let (from, into) = (sent.data(), received.data());
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.neighbor_alltoall_data(W::CALL, &from, &into) }?;
    when.end(mpi, comm, made)
}

fn alltoallv<W: When, C: Number, D: Number>(
    mpi: &Library,
    when: W,
    (sendbuf, sent, sendtype): (*const c_void, (In<C>, In<D>), Datatype),
    (recvbuf, received, recvtype): (*mut c_void, (In<C>, In<D>), Datatype),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let (indegree, outdegree) = degrees(&comm, sendbuf, recvbuf)?;
    let sent = mpi.blocks(outdegree, sendbuf, sent, sendtype)?;
    let received = mpi.blocks(indegree, recvbuf, received, recvtype)?;
    sent.apart_from_all(&received)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.neighbor_alltoallv_data(W::CALL, sent.data(), received.data()) }?;
    when.end(mpi, comm, made)
}

fn alltoallw<W: When, C: Number, D: Number>(
    mpi: &Library,
    when: W,
    (sendbuf, sent, sendtypes): (*const c_void, (In<C>, In<D>), In<Datatype>),
    (recvbuf, received, recvtypes): (*mut c_void, (In<C>, In<D>), In<Datatype>),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let (indegree, outdegree) = degrees(&comm, sendbuf, recvbuf)?;
    let sent = mpi.typed_blocks(outdegree, sendbuf, sent, sendtypes)?;
    let received = mpi.typed_blocks(indegree, recvbuf, received, recvtypes)?;
    sent.apart_from_all(&received)?;
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.neighbor_alltoallv_data(W::CALL, sent.data(), received.data()) }?;
    when.end(mpi, comm, made)
}
