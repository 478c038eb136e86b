//! Nonblocking exchanges between neighbours.

use std::ffi::{c_int, c_void};

use super::{allgather, allgatherv, alltoall, alltoallv, alltoallw};
use crate::arg::{In, Out};
use crate::collective::Started;
use crate::entry::mpi;
use crate::handle::{Aint, Comm, Count, Datatype, Request};

mpi! {
    fn MPI_Ineighbor_allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                               recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                               comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, sendcount.into(), sendtype);
        allgather(mpi, when, sent, (recvbuf, recvcount.into(), recvtype), comm)
    }

    fn MPI_Ineighbor_allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                                 recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype,
                                 comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, sendcount, sendtype);
        allgather(mpi, when, sent, (recvbuf, recvcount, recvtype), comm)
    }

    fn MPI_Ineighbor_allgatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                                recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                                recvtype: Datatype, comm: Comm,
                                request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, sendcount.into(), sendtype);
        allgatherv(mpi, when, sent, (recvbuf, (recvcounts, displs), recvtype), comm)
    }

    fn MPI_Ineighbor_allgatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                                  recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                                  recvtype: Datatype, comm: Comm,
                                  request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, sendcount, sendtype);
        allgatherv(mpi, when, sent, (recvbuf, (recvcounts, displs), recvtype), comm)
    }

    fn MPI_Ineighbor_alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                              recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                              comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, sendcount.into(), sendtype);
        alltoall(mpi, when, sent, (recvbuf, recvcount.into(), recvtype), comm)
    }

    fn MPI_Ineighbor_alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                                recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype,
                                comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, sendcount, sendtype);
        alltoall(mpi, when, sent, (recvbuf, recvcount, recvtype), comm)
    }

    fn MPI_Ineighbor_alltoallv(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<c_int>,
                               sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<c_int>,
                               rdispls: In<c_int>, recvtype: Datatype, comm: Comm,
                               request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, (sendcounts, sdispls), sendtype);
        alltoallv(mpi, when, sent, (recvbuf, (recvcounts, rdispls), recvtype), comm)
    }

    fn MPI_Ineighbor_alltoallv_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                                 sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<Count>,
                                 rdispls: In<Aint>, recvtype: Datatype, comm: Comm,
                                 request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, (sendcounts, sdispls), sendtype);
        alltoallv(mpi, when, sent, (recvbuf, (recvcounts, rdispls), recvtype), comm)
    }

    fn MPI_Ineighbor_alltoallw(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<Aint>,
                               sendtypes: In<Datatype>, recvbuf: *mut c_void, recvcounts: In<c_int>,
                               rdispls: In<Aint>, recvtypes: In<Datatype>, comm: Comm,
                               request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, (sendcounts, sdispls), sendtypes);
        alltoallw(mpi, when, sent, (recvbuf, (recvcounts, rdispls), recvtypes), comm)
    }

    fn MPI_Ineighbor_alltoallw_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                                 sendtypes: In<Datatype>, recvbuf: *mut c_void,
                                 recvcounts: In<Count>, rdispls: In<Aint>, recvtypes: In<Datatype>,
                                 comm: Comm, request: Out<Request>) on comm |mpi| {
        let when = Started::at(request)?;
        let sent = (sendbuf, (sendcounts, sdispls), sendtypes);
        alltoallw(mpi, when, sent, (recvbuf, (recvcounts, rdispls), recvtypes), comm)
    }
}
