//! Nonblocking collective operations.

use std::ffi::{c_int, c_void};

use super::Started;
use super::{allgather, alltoall, gather, reduce, scatter};
use crate::arg::{In, Out};
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Aint, Comm, Count, Datatype, Op, Request};
use crate::p2p::check_address;

impl Started {
    /// A start whose request goes to an address, which is there.
    pub(super) fn at(request: Out<Request>) -> Result<Self, Fault> {
        check_address(request)?;
        Ok(Self(request))
    }
}

mpi! {
    fn MPI_Ibarrier(comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        super::barrier(mpi, when, comm)
    }

    fn MPI_Ibcast(buffer: *mut c_void, count: c_int, datatype: Datatype, root: c_int, comm: Comm,
                  request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        super::bcast(mpi, when, buffer, count.into(), datatype, root, comm)
    }

    fn MPI_Ibcast_c(buffer: *mut c_void, count: Count, datatype: Datatype, root: c_int, comm: Comm,
                    request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        super::bcast(mpi, when, buffer, count, datatype, root, comm)
    }

    fn MPI_Igather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                   recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int,
                   comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        gather::gather(
            mpi, when, (sendbuf, sendcount.into(), sendtype),
            (recvbuf, recvcount.into(), recvtype), root, comm,
        )
    }

    fn MPI_Igather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                     recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int,
                     comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        gather::gather(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm,
        )
    }

    fn MPI_Igatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                    recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                    recvtype: Datatype, root: c_int, comm: Comm,
                    request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        gather::gatherv(
            mpi, when, (sendbuf, sendcount.into(), sendtype), (recvbuf, (recvcounts, displs), recvtype), root, comm,
        )
    }

    fn MPI_Igatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                      recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                      recvtype: Datatype, root: c_int, comm: Comm,
                      request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        gather::gatherv(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, (recvcounts, displs), recvtype),
            root, comm,
        )
    }

    fn MPI_Iscatter(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                    recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, root: c_int,
                    comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        scatter::scatter(
            mpi, when, (sendbuf, sendcount.into(), sendtype),
            (recvbuf, recvcount.into(), recvtype), root, comm,
        )
    }

    fn MPI_Iscatter_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                      recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, root: c_int,
                      comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        scatter::scatter(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm,
        )
    }

    fn MPI_Iscatterv(sendbuf: *const c_void, sendcounts: In<c_int>, displs: In<c_int>,
                     sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                     root: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        scatter::scatterv(
            mpi, when, (sendbuf, (sendcounts, displs), sendtype),
            (recvbuf, recvcount.into(), recvtype), root, comm,
        )
    }

    fn MPI_Iscatterv_c(sendbuf: *const c_void, sendcounts: In<Count>, displs: In<Aint>,
                       sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count,
                       recvtype: Datatype, root: c_int, comm: Comm,
                       request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        scatter::scatterv(
            mpi, when, (sendbuf, (sendcounts, displs), sendtype), (recvbuf, recvcount, recvtype),
            root, comm,
        )
    }

    fn MPI_Iallgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                      recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm,
                      request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        allgather::allgather(
            mpi, when, (sendbuf, sendcount.into(), sendtype),
            (recvbuf, recvcount.into(), recvtype), comm,
        )
    }

    fn MPI_Iallgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                        recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm,
                        request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        allgather::allgather(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm,
        )
    }

    fn MPI_Iallgatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                       recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                       recvtype: Datatype, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        allgather::allgatherv(
            mpi, when, (sendbuf, sendcount.into(), sendtype), recvbuf, (recvcounts, displs),
            recvtype, comm,
        )
    }

    fn MPI_Iallgatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                         recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                         recvtype: Datatype, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        allgather::allgatherv(
            mpi, when, (sendbuf, sendcount, sendtype), recvbuf, (recvcounts, displs), recvtype,
            comm,
        )
    }

    fn MPI_Ialltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                     recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm,
                     request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        alltoall::alltoall(
            mpi, when, (sendbuf, sendcount.into(), sendtype),
            (recvbuf, recvcount.into(), recvtype), comm,
        )
    }

    fn MPI_Ialltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                       recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm,
                       request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        alltoall::alltoall(
            mpi, when, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), comm,
        )
    }

    fn MPI_Ialltoallv(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<c_int>,
                      sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<c_int>,
                      rdispls: In<c_int>, recvtype: Datatype, comm: Comm,
                      request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        alltoall::alltoallv(
            mpi, when, (sendbuf, (sendcounts, sdispls), sendtype),
            (recvbuf, (recvcounts, rdispls), recvtype), comm,
        )
    }

    fn MPI_Ialltoallv_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                        sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<Count>,
                        rdispls: In<Aint>, recvtype: Datatype, comm: Comm,
                        request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        alltoall::alltoallv(
            mpi, when, (sendbuf, (sendcounts, sdispls), sendtype),
            (recvbuf, (recvcounts, rdispls), recvtype), comm,
        )
    }

    fn MPI_Ialltoallw(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<c_int>,
                      sendtypes: In<Datatype>, recvbuf: *mut c_void, recvcounts: In<c_int>,
                      rdispls: In<c_int>, recvtypes: In<Datatype>, comm: Comm,
                      request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        alltoall::alltoallw(
            mpi, when, (sendbuf, (sendcounts, sdispls), sendtypes),
            (recvbuf, (recvcounts, rdispls), recvtypes), comm,
        )
    }

    fn MPI_Ialltoallw_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                        sendtypes: In<Datatype>, recvbuf: *mut c_void, recvcounts: In<Count>,
                        rdispls: In<Aint>, recvtypes: In<Datatype>, comm: Comm,
                        request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        alltoall::alltoallw(
            mpi, when, (sendbuf, (sendcounts, sdispls), sendtypes),
            (recvbuf, (recvcounts, rdispls), recvtypes), comm,
        )
    }

    fn MPI_Ireduce(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype,
                   op: Op, root: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::reduce(mpi, when, sendbuf, recvbuf, (count.into(), datatype), (op, root), comm)
    }

    fn MPI_Ireduce_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype,
                     op: Op, root: c_int, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::reduce(mpi, when, sendbuf, recvbuf, (count, datatype), (op, root), comm)
    }

    fn MPI_Iallreduce(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int,
                      datatype: Datatype, op: Op, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::allreduce(mpi, when, sendbuf, recvbuf, (count.into(), datatype), op, comm)
    }

    fn MPI_Iallreduce_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count,
                        datatype: Datatype, op: Op, comm: Comm,
                        request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::allreduce(mpi, when, sendbuf, recvbuf, (count, datatype), op, comm)
    }

    fn MPI_Ireduce_scatter(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: In<c_int>,
                           datatype: Datatype, op: Op, comm: Comm,
                           request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::reduce_scatter(mpi, when, sendbuf, recvbuf, (recvcounts, datatype), op, comm)
    }

    fn MPI_Ireduce_scatter_c(sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: In<Count>,
                             datatype: Datatype, op: Op, comm: Comm,
                             request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::reduce_scatter(mpi, when, sendbuf, recvbuf, (recvcounts, datatype), op, comm)
    }

    fn MPI_Ireduce_scatter_block(sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: c_int,
                                 datatype: Datatype, op: Op, comm: Comm,
                                 request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::reduce_scatter_block(
            mpi, when, sendbuf, recvbuf, (recvcount.into(), datatype), op, comm,
        )
    }

    fn MPI_Ireduce_scatter_block_c(sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: Count,
                                   datatype: Datatype, op: Op, comm: Comm,
                                   request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::reduce_scatter_block(mpi, when, sendbuf, recvbuf, (recvcount, datatype), op, comm)
    }

    fn MPI_Iscan(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype,
                 op: Op, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::scan(mpi, when, sendbuf, recvbuf, (count.into(), datatype), op, comm)
    }

    fn MPI_Iscan_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype,
                   op: Op, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::scan(mpi, when, sendbuf, recvbuf, (count, datatype), op, comm)
    }

    fn MPI_Iexscan(sendbuf: *const c_void, recvbuf: *mut c_void, count: c_int, datatype: Datatype,
                   op: Op, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::exscan(mpi, when, sendbuf, recvbuf, (count.into(), datatype), op, comm)
    }

    fn MPI_Iexscan_c(sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: Datatype,
                     op: Op, comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        reduce::exscan(mpi, when, sendbuf, recvbuf, (count, datatype), op, comm)
    }
}
