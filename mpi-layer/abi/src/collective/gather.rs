//! Gathers.

use std::ffi::{c_int, c_void};

use super::{Now, When, apart_each, apart_from_blocks, is_root, ranks};
use crate::arg::In;
use crate::elements::Number;
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Aint, Comm, Count, Datatype};
use crate::library::Library;

mpi! {
    fn MPI_Gather(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                  recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype,
                  root: c_int, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        gather(mpi, Now, sent, (recvbuf, recvcount.into(), recvtype), root, comm)
    }

    fn MPI_Gather_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                    recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype,
                    root: c_int, comm: Comm) on comm |mpi| {
        gather(mpi, Now, (sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype), root, comm)
    }

    fn MPI_Gatherv(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                   recvbuf: *mut c_void, recvcounts: In<c_int>, displs: In<c_int>,
                   recvtype: Datatype, root: c_int, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        gatherv(mpi, Now, sent, (recvbuf, (recvcounts, displs), recvtype), root, comm)
    }

    fn MPI_Gatherv_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                     recvbuf: *mut c_void, recvcounts: In<Count>, displs: In<Aint>,
                     recvtype: Datatype, root: c_int, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, sendcount, sendtype);
        gatherv(mpi, Now, sent, (recvbuf, (recvcounts, displs), recvtype), root, comm)
    }
}

pub(super) fn gather<W: When>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, Datatype),
    root: c_int,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let here = is_root(&comm, root)?;
    let sent = mpi.buffer_or_in_place(sendbuf, sendcount, sendtype, here)?;
    let received = if here { Some(mpi.buffer(recvbuf, recvcount, recvtype)?) } else { None };
    apart_each(sent.as_ref().zip(Some(1)), received.as_ref().zip(Some(ranks(&comm))))?;
    let own = sent.as_ref().map(|sent| sent.data());
    let Some(into) = received.as_ref().map(|received| received.data()).or_else(|| {
        // Elsewhere than at the root something is sent.
        sent.as_ref().map(|sent| sent.nothing())
    }) else {
        return Ok(());
    };
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.gather_data(W::CALL, own, into, root) }?;
    when.end(mpi, comm, made)
}

pub(super) fn gatherv<W: When, C: Number, D: Number>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, places, recvtype): (*mut c_void, (In<C>, In<D>), Datatype),
    root: c_int,
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let here = is_root(&comm, root)?;
    let sent = mpi.buffer_or_in_place(sendbuf, sendcount, sendtype, here)?;
    let received = if here {
        Some(mpi.blocks(ranks(&comm) as usize, recvbuf, places, recvtype)?)
    } else {
        None
    };
    apart_from_blocks(sent.as_ref(), received.as_ref())?;
    let into = received.as_ref().map_or_else(Vec::new, |received| received.data());
    let own = sent.as_ref().map(|sent| sent.data());
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.gatherv_data(W::CALL, own, into, root) }?;
    when.end(mpi, comm, made)
}
