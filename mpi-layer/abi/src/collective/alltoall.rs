//! Exchanges between all ranks.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use super::{Now, When, apart_each, dense, ranks};
use crate::arg::In;
use crate::elements::{Blocks, Number, is_in_place};
use crate::entry::mpi;
use crate::fault::Fault;
use crate::handle::{Aint, Comm, Count, Datatype};
use crate::library::{CommObject, Library};

mpi! {
    fn MPI_Alltoall(sendbuf: *const c_void, sendcount: c_int, sendtype: Datatype,
                    recvbuf: *mut c_void, recvcount: c_int, recvtype: Datatype, comm: Comm)
        on comm |mpi| {
        let sent = (sendbuf, sendcount.into(), sendtype);
        let received = (recvbuf, recvcount.into(), recvtype);
        match dense::alltoall(mpi, sent, received, comm)? {
            true => Ok(()),
            false => alltoall(mpi, Now, sent, received, comm),
        }
    }

    fn MPI_Alltoall_c(sendbuf: *const c_void, sendcount: Count, sendtype: Datatype,
                      recvbuf: *mut c_void, recvcount: Count, recvtype: Datatype, comm: Comm)
        on comm |mpi| {
        let (sent, received) = ((sendbuf, sendcount, sendtype), (recvbuf, recvcount, recvtype));
        match dense::alltoall(mpi, sent, received, comm)? {
            true => Ok(()),
            false => alltoall(mpi, Now, sent, received, comm),
        }
    }

    fn MPI_Alltoallv(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<c_int>,
                     sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<c_int>,
                     rdispls: In<c_int>, recvtype: Datatype, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, (sendcounts, sdispls), sendtype);
        alltoallv(mpi, Now, sent, (recvbuf, (recvcounts, rdispls), recvtype), comm)
    }

    fn MPI_Alltoallv_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                       sendtype: Datatype, recvbuf: *mut c_void, recvcounts: In<Count>,
                       rdispls: In<Aint>, recvtype: Datatype, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, (sendcounts, sdispls), sendtype);
        alltoallv(mpi, Now, sent, (recvbuf, (recvcounts, rdispls), recvtype), comm)
    }

    fn MPI_Alltoallw(sendbuf: *const c_void, sendcounts: In<c_int>, sdispls: In<c_int>,
                     sendtypes: In<Datatype>, recvbuf: *mut c_void, recvcounts: In<c_int>,
                     rdispls: In<c_int>, recvtypes: In<Datatype>, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, (sendcounts, sdispls), sendtypes);
        alltoallw(mpi, Now, sent, (recvbuf, (recvcounts, rdispls), recvtypes), comm)
    }

    fn MPI_Alltoallw_c(sendbuf: *const c_void, sendcounts: In<Count>, sdispls: In<Aint>,
                       sendtypes: In<Datatype>, recvbuf: *mut c_void, recvcounts: In<Count>,
                       rdispls: In<Aint>, recvtypes: In<Datatype>, comm: Comm) on comm |mpi| {
        let sent = (sendbuf, (sendcounts, sdispls), sendtypes);
        alltoallw(mpi, Now, sent, (recvbuf, (recvcounts, rdispls), recvtypes), comm)
    }
}

#[inline(never)]
pub(super) fn alltoall<W: When>(
    mpi: &Library,
    when: W,
    (sendbuf, sendcount, sendtype): (*const c_void, i64, Datatype),
    (recvbuf, recvcount, recvtype): (*mut c_void, i64, Datatype),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let sent = mpi.buffer_or_in_place(sendbuf, sendcount, sendtype, true)?;
    let received = mpi.buffer(recvbuf, recvcount, recvtype)?;
    apart_each(sent.as_ref().zip(Some(ranks(&comm))), Some((&received, ranks(&comm))))?;
    let own = sent.as_ref().map(|sent| sent.data());
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.alltoall_data(W::CALL, own, received.data()) }?;
    when.end(mpi, comm, made)
}

pub(super) fn alltoallv<W: When, C: Number, D: Number>(
    mpi: &Library,
    when: W,
    (sendbuf, sent, sendtype): (*const c_void, (In<C>, In<D>), Datatype),
    (recvbuf, received, recvtype): (*mut c_void, (In<C>, In<D>), Datatype),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let sent = match is_in_place(sendbuf) {
        true => None,
        false => Some(mpi.blocks(ranks(&comm) as usize, sendbuf, sent, sendtype)?),
    };
    let received = mpi.blocks(ranks(&comm) as usize, recvbuf, received, recvtype)?;
    exchange(mpi, when, comm, sent.as_ref(), &received)
}

pub(super) fn alltoallw<W: When, C: Number, D: Number>(
    mpi: &Library,
    when: W,
    (sendbuf, sent, sendtypes): (*const c_void, (In<C>, In<D>), In<Datatype>),
    (recvbuf, received, recvtypes): (*mut c_void, (In<C>, In<D>), In<Datatype>),
    comm: Comm,
) -> Result<(), Fault> {
    let comm = mpi.comm(comm)?;
    let sent = match is_in_place(sendbuf) {
        true => None,
        false => Some(mpi.typed_blocks(ranks(&comm) as usize, sendbuf, sent, sendtypes)?),
    };
    let received = mpi.typed_blocks(ranks(&comm) as usize, recvbuf, received, recvtypes)?;
    exchange(mpi, when, comm, sent.as_ref(), &received)
}

fn exchange<W: When>(
    mpi: &Library,
    when: W,
    comm: Rc<CommObject>,
    sent: Option<&Blocks>,
    received: &Blocks,
) -> Result<(), Fault> {
    if let Some(sent) = sent {
        sent.apart_from_all(received)?;
    }
    let own = sent.map(Blocks::data);
    // SAFETY: the program answers for the memory, until a request has ended.
    let made = unsafe { comm.comm.alltoallv_data(W::CALL, own, received.data()) }?;
    when.end(mpi, comm, made)
}
