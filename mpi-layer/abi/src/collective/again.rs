//! Persistent collective operations.

use std::ffi::{c_int, c_void};

use super::Prepared;
use super::{allgather, alltoall, gather, reduce, scatter};
use crate::arg::{In, Out};
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Aint, Comm, Count, Datatype, Info, Op, Request};
use crate::library::Library;
use crate::library::infos;
use crate::p2p::check_address;

impl Library {
    /// A request that goes to an address, which is there. Its info is checked and has no keys that we know.
    pub(super) fn prepared(&self, info: Info, request: Out<Request>) -> Result<Prepared, Fault> {
        infos::pairs_or_none(info)?;
        check_address(request)?;
        Ok(Prepared(request))
    }
}

mpi! {
    fn MPI_Barrier_init(comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        super::barrier(mpi, when, comm)
    }

    fn MPI_Bcast_init(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int,
                      comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        super::bcast(mpi, when, buffer, count.into(), datatype, root, comm)
    }

    fn MPI_Bcast_init_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int,
                        comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        super::bcast(mpi, when, buffer, count, datatype, root, comm)
    }

    fn MPI_Gather_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                       recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int,
                       comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        gather::gather(
            mpi, when, (sendbuf, sendcount.into(), sendtype),
            (recvbuf, recvcount.into(), recvtype), root, comm,
        )
    }

    fn MPI_Gather_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                         recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int,
                         comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        gather::gather(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm,
        )
    }

    fn MPI_Gatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                        recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                        recvtype: Datatype, root: c_int, comm: Comm, info: Info,
                        request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        gather::gatherv(
            mpi, when, (sendbuf, sendcount.into(), sendtype), (recvbuf, (recvcounts, displs), recvtype), root, comm,
        )
    }

    fn MPI_Gatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                          recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                          recvtype: Datatype, root: c_int, comm: Comm, info: Info,
                          request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        gather::gatherv(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, (recvcounts, displs), recvtype),
            root, comm,
        )
    }

    fn MPI_Scatter_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                        recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int,
                        comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        scatter::scatter(
            mpi, when, (sendbuf, sendcount.into(), sendtype),
            (recvbuf, recvcount.into(), recvtype), root, comm,
        )
    }

    fn MPI_Scatter_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                          recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int,
                          comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        scatter::scatter(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm,
        )
    }

    fn MPI_Scatterv_init(sendbuf: *const c_void, sendcounts: In<c_int>, displs: In<c_int>,
                         sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int,
                         recvtype: Datatype, root: c_int, comm: Comm, info: Info,
                         request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        scatter::scatterv(
            mpi, when, (sendbuf, (sendcounts, displs), sendtype),
            (recvbuf, recvcount.into(), recvtype), root, comm,
        )
    }

    fn MPI_Scatterv_init_c(sendbuf: *const c_void, sendcounts: In<Count>, displs: In<Aint>,
                           sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count,
                           recvtype: Datatype, root: c_int, comm: Comm, info: Info,
                           request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        scatter::scatterv(
            mpi, when, (sendbuf, (sendcounts, displs), sendtype), (recvbuf, recvcount, recvtype),
            root, comm,
        )
    }

    fn MPI_Allgather_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                          recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm,
                          info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        allgather::allgather(
            mpi, when, (sendbuf, sendcount.into(), sendtype),
            (recvbuf, recvcount.into(), recvtype), comm,
        )
    }

    fn MPI_Allgather_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                            recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm,
                            info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        allgather::allgather(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm,
        )
    }

    fn MPI_Allgatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                           recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                           recvtype: Datatype, comm: Comm, info: Info,
                           request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        allgather::allgatherv(
            mpi, when, (sendbuf, sendcount.into(), sendtype), recvbuf, (recvcounts, displs),
            recvtype, comm,
        )
    }

    fn MPI_Allgatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                             recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                             recvtype: Datatype, comm: Comm, info: Info,
                             request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        allgather::allgatherv(
            mpi, when, (sendbuf, sendcount, sendtype), recvbuf, (recvcounts, displs), recvtype,
            comm,
        )
    }

    fn MPI_Alltoall_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                         recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm,
                         info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        alltoall::alltoall(
            mpi, when, (sendbuf, sendcount.into(), sendtype),
            (recvbuf, recvcount.into(), recvtype), comm,
        )
    }

    fn MPI_Alltoall_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                           recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm,
                           info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        alltoall::alltoall(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm,
        )
    }

    fn MPI_Alltoallv_init(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<c_int>,
                          sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<c_int>,
                          rdispls: In<c_int>, recvtype: Datatype, comm: Comm, info: Info,
                          request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        alltoall::alltoallv(
            mpi, when, (sendbuf, (sendcounts, sdispls), sendtype),
            (recvbuf, (recvcounts, rdispls), recvtype), comm,
        )
    }

    fn MPI_Alltoallv_init_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                            sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<Count>,
                            rdispls: In<Aint>, recvtype: Datatype, comm: Comm, info: Info,
                            request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        alltoall::alltoallv(
            mpi, when, (sendbuf, (sendcounts, sdispls), sendtype),
            (recvbuf, (recvcounts, rdispls), recvtype), comm,
        )
    }

    fn MPI_Alltoallw_init(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<c_int>,
                          sendtypes: In<Datatype>, recvbuf: *mut c_void, recvcounts: In<c_int>,
                          rdispls: In<c_int>, recvtypes: In<Datatype>, comm: Comm, info: Info,
                          request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        alltoall::alltoallw(
            mpi, when, (sendbuf, (sendcounts, sdispls), sendtypes),
            (recvbuf, (recvcounts, rdispls), recvtypes), comm,
        )
    }

    fn MPI_Alltoallw_init_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                            sendtypes: In<Datatype>, recvbuf: *mut c_void, recvcounts: In<Count>,
                            rdispls: In<Aint>, recvtypes: In<Datatype>, comm: Comm, info: Info,
                            request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        alltoall::alltoallw(
            mpi, when, (sendbuf, (sendcounts, sdispls), sendtypes),
            (recvbuf, (recvcounts, rdispls), recvtypes), comm,
        )
    }

    fn MPI_Reduce_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int,
                       datatype: Datatype, op: Op, root: c_int, comm: Comm, info: Info,
                       request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::reduce(mpi, when, sendbuf, recvbuf, (count.into(), datatype), (op, root), comm)
    }

    fn MPI_Reduce_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count,
                         datatype: Datatype, op: Op, root: c_int, comm: Comm, info: Info,
                         request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::reduce(mpi, when, sendbuf, recvbuf, (count, datatype), (op, root), comm)
    }

    fn MPI_Allreduce_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int,
                          datatype: Datatype, op: Op, comm: Comm, info: Info,
                          request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::allreduce(mpi, when, sendbuf, recvbuf, (count.into(), datatype), op, comm)
    }

    fn MPI_Allreduce_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count,
                            datatype: Datatype, op: Op, comm: Comm, info: Info,
                            request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::allreduce(mpi, when, sendbuf, recvbuf, (count, datatype), op, comm)
    }

    fn MPI_Reduce_scatter_init(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: In<c_int>,
                               datatype: Datatype, op: Op, comm: Comm, info: Info,
                               request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::reduce_scatter(mpi, when, sendbuf, recvbuf, (recvcounts, datatype), op, comm)
    }

    fn MPI_Reduce_scatter_init_c(sendbuf: *const c_void, recvbuf: *mut c_void,
                                 recvcounts: In<Count>, datatype: Datatype, op: Op, comm: Comm,
                                 info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::reduce_scatter(mpi, when, sendbuf, recvbuf, (recvcounts, datatype), op, comm)
    }

    fn MPI_Reduce_scatter_block_init(sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: c_int,
                                     datatype: Datatype, op: Op, comm: Comm, info: Info,
                                     request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::reduce_scatter_block(
            mpi, when, sendbuf, recvbuf, (recvcount.into(), datatype), op, comm,
        )
    }

    fn MPI_Reduce_scatter_block_init_c(sendbuf: *const c_void, recvbuf: *mut c_void,
                                       recvcount: Count, datatype: Datatype, op: Op, comm: Comm,
                                       info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::reduce_scatter_block(mpi, when, sendbuf, recvbuf, (recvcount, datatype), op, comm)
    }

    fn MPI_Scan_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype,
                     op: Op, comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::scan(mpi, when, sendbuf, recvbuf, (count.into(), datatype), op, comm)
    }

    fn MPI_Scan_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count,
                       datatype: Datatype, op: Op, comm: Comm, info: Info,
                       request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::scan(mpi, when, sendbuf, recvbuf, (count, datatype), op, comm)
    }

    fn MPI_Exscan_init(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int,
                       datatype: Datatype, op: Op, comm: Comm, info: Info,
                       request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::exscan(mpi, when, sendbuf, recvbuf, (count.into(), datatype), op, comm)
    }

    fn MPI_Exscan_init_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count,
                         datatype: Datatype, op: Op, comm: Comm, info: Info,
                         request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        reduce::exscan(mpi, when, sendbuf, recvbuf, (count, datatype), op, comm)
    }
}
