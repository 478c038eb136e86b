//! Persistent exchanges between neighbours.

use std::ffi::{c_int, c_void};

use super::{allgather, allgatherv, alltoall, alltoallv, alltoallw};
use crate::arg::{In, Out};
use crate::entry::mpi;
use crate::handle::{Aint, Comm, Count, Datatype, Info, Request};

mpi! {
    fn MPI_Neighbor_allgather_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                                   recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                                   comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, sendcount.into(), sendtype);
        allgather(mpi, when, sent, (recvbuf, recvcount.into(), recvtype), comm)
    }

    fn MPI_Neighbor_allgather_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                                     recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype,
                                     comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, sendcount, sendtype);
        allgather(mpi, when, sent, (recvbuf, recvcount, recvtype), comm)
    }

    fn MPI_Neighbor_allgatherv_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                                    recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                                    recvtype: Datatype, comm: Comm, info: Info,
                                    request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, sendcount.into(), sendtype);
        allgatherv(mpi, when, sent, (recvbuf, (recvcounts, displs), recvtype), comm)
    }

    fn MPI_Neighbor_allgatherv_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                                      recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                                      recvtype: Datatype, comm: Comm, info: Info,
                                      request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, sendcount, sendtype);
        allgatherv(mpi, when, sent, (recvbuf, (recvcounts, displs), recvtype), comm)
    }

    fn MPI_Neighbor_alltoall_init(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                                  recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                                  comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, sendcount.into(), sendtype);
        alltoall(mpi, when, sent, (recvbuf, recvcount.into(), recvtype), comm)
    }

    fn MPI_Neighbor_alltoall_init_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                                    recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype,
                                    comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, sendcount, sendtype);
        alltoall(mpi, when, sent, (recvbuf, recvcount, recvtype), comm)
    }

    fn MPI_Neighbor_alltoallv_init(sendbuf: *const c_void, sendcounts: In<c_int>,
                                   sdispls: In<c_int>, sendtype: Datatype, recvbuf: *mut c_void,
                                   recvcounts: In<c_int>, rdispls: In<c_int>, recvtype: Datatype,
                                   comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, (sendcounts, sdispls), sendtype);
        alltoallv(mpi, when, sent, (recvbuf, (recvcounts, rdispls), recvtype), comm)
    }

    fn MPI_Neighbor_alltoallv_init_c(sendbuf: *const c_void, sendcounts: In<Count>,
                                     sdispls: In<Aint>, sendtype: Datatype, recvbuf: *mut c_void,
                                     recvcounts: In<Count>, rdispls: In<Aint>, recvtype: Datatype,
                                     comm: Comm, info: Info, request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, (sendcounts, sdispls), sendtype);
        alltoallv(mpi, when, sent, (recvbuf, (recvcounts, rdispls), recvtype), comm)
    }

    fn MPI_Neighbor_alltoallw_init(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<Aint>,
                                   sendtypes: In<Datatype>, recvbuf: *mut c_void,
                                   recvcounts: In<c_int>, rdispls: In<Aint>,
                                   recvtypes: In<Datatype>, comm: Comm, info: Info,
                                   request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, (sendcounts, sdispls), sendtypes);
        alltoallw(mpi, when, sent, (recvbuf, (recvcounts, rdispls), recvtypes), comm)
    }

    fn MPI_Neighbor_alltoallw_init_c(sendbuf: *const c_void, sendcounts: In<Count>,
                                     sdispls: In<Aint>, sendtypes: In<Datatype>,
                                     recvbuf: *mut c_void, recvcounts: In<Count>, rdispls: In<Aint>,
                                     recvtypes: In<Datatype>, comm: Comm, info: Info,
                                     request: Out<Request>) on comm |mpi| {
        let when = mpi.prepared(info, request)?;
        let sent = (sendbuf, (sendcounts, sdispls), sendtypes);
        alltoallw(mpi, when, sent, (recvbuf, (recvcounts, rdispls), recvtypes), comm)
    }
}
