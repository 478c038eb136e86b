//! Allgathers.

use std::ffi::{c_int, c_void};

use super::{Now, When, apart_each, apart_from_blocks, dense, ranks};
use crate::arg::In;
use crate::elements::Number;
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Aint, Comm, Count, Datatype};
use crate::library::Library;

mpi! {
    fn MPI_Allgather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                     recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm)
        on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        let received = (recvbuf, recvcount.into(), recvtype);
        match dense::allgather(mpi, sent, received, comm)? {
            true => Ok(()),
            false => allgather(mpi, Now, sent, received, comm),
        }
    }

    fn MPI_Allgather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                       recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm)
        on comm |mpi| {
        let (sent, received) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
        match dense::allgather(mpi, sent, received, comm)? {
            true => Ok(()),
            false => allgather(mpi, Now, sent, received, comm),
        }
    }

    fn MPI_Allgatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                      recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                      recvtype: Datatype, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        allgatherv(mpi, Now, sent, recvbuf, (recvcounts, displs), recvtype, comm)
    }

    fn MPI_Allgatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                        recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                        recvtype: Datatype, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount, sendtype);
        allgatherv(mpi, Now, sent, recvbuf, (recvcounts, displs), recvtype, comm)
    }
}

#[inline(never)]
pub(super) fn allgather<W: When>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, Datatype),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let sent = mpi.buffer_or_in_place(sendbuf, sendcount, sendtype, true)?;
    let received = mpi.buffer(recvbuf, recvcount, recvtype)?;
    apart_each(sent.as_ref().zip(Some(1)), Some((&received, ranks(&comm))))?;
    let own = sent.as_ref().map(|sent| sent.data());
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.allgather_data(W::CALL, own, received.data()) }?;
    when.end(mpi, comm, made)
}

pub(super) fn allgatherv<W: When, C: Number, D: Number>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    recvbuf: *mut c_void,
    places: (In<C>, In<D>),
    recvtype: Datatype,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let sent = mpi.buffer_or_in_place(sendbuf, sendcount, sendtype, true)?;
    let received = mpi.blocks(ranks(&comm) as usize, recvbuf, places, recvtype)?;
    apart_from_blocks(sent.as_ref(), Some(&received))?;
    let own = sent.as_ref().map(|sent| sent.data());
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.allgatherv_data(W::CALL, own, received.data()) }?;
    when.end(mpi, comm, made)
}
