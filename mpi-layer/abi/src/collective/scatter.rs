//! Scatters.

use std::ffi::{c_int, c_void};

use super::{Now, When, apart_each, apart_from_blocks, is_root, ranks};
use crate::arg::In;
use crate::elements::Number;
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Aint, Comm, Count, Datatype};
use crate::library::Library;

mpi! {
    fn MPI_Scatter(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                   recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                   root: c_int, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        scatter(mpi, Now, sent, (recvbuf, recvcount.into(), recvtype), root, comm)
    }

    fn MPI_Scatter_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                     recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype,
                     root: c_int, comm: Comm) on comm |mpi| {
        scatter(mpi, Now, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm)
    }

    fn MPI_Scatterv(sendbuf: *const c_void, sendcounts: In<c_int>, displs: In<c_int>,
                    sendtype: Datatype, recvbuf: *mut c_void, recvcount: c_int,
                    recvtype: Datatype, root: c_int, comm: Comm) on comm |mpi| {
        let received = (recvbuf, recvcount.into(), recvtype);
        scatterv(mpi, Now, (sendbuf, (sendcounts, displs), sendtype), received, root, comm)
    }

    fn MPI_Scatterv_c(sendbuf: *const c_void, sendcounts: In<Count>, displs: In<Aint>,
                      sendtype: Datatype, recvbuf: *mut c_void, recvcount: Count,
                      recvtype: Datatype, root: c_int, comm: Comm) on comm |mpi| {
        let received = (recvbuf, recvcount, recvtype);
        scatterv(mpi, Now, (sendbuf, (sendcounts, displs), sendtype), received, root, comm)
    }
}

pub(super) fn scatter<W: When>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, Datatype),
    root: c_int,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let here = is_root(&comm, root)?;
    let received = mpi.buffer_or_in_place(recvbuf, recvcount, recvtype, here)?;
    let sent = if here { Some(mpi.buffer(sendbuf, sendcount, sendtype)?) } else { None };
    apart_each(received.as_ref().zip(Some(1)), sent.as_ref().zip(Some(ranks(&comm))))?;
    let own = received.as_ref().map(|received| received.data());
    let Some(from) = sent.as_ref().map(|sent| sent.data()).or_else(|| {
        // Elsewhere than at the root something is received.
        received.as_ref().map(|received| received.nothing())
    }) else {
        return Ok(());
    };
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.scatter_data(W::CALL, from, own, root) }?;
    when.end(mpi, comm, made)
}

pub(super) fn scatterv<W: When, C: Number, D: Number>(
    mpi: &Library,
    when: W,
    (sendbuf, places, sendtype): (*const c_void, (In<C>, In<D>), Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, Datatype),
    root: c_int,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let here = is_root(&comm, root)?;
    let received = mpi.buffer_or_in_place(recvbuf, recvcount, recvtype, here)?;
    let sent = if here {
        Some(mpi.blocks(ranks(&comm) as usize, sendbuf, places, sendtype)?)
    } else {
        None
    };
    apart_from_blocks(received.as_ref(), sent.as_ref())?;
    let from = sent.as_ref().map_or_else(Vec::new, |sent| sent.data());
    let own = received.as_ref().map(|received| received.data());
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.scatterv_data(W::CALL, from, own, root) }?;
    when.end(mpi, comm, made)
}
