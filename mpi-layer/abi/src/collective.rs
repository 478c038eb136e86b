//! Chapter: collective operations.

use crate::entry::mpi;
use crate::handle::Comm;

mpi! {
    fn MPI_Barrier(comm: Comm) on comm |mpi| {
        Ok(mpi.comm(comm)?.comm.barrier()?)
    }
}
