/* A tool in front of the library: it has functions of its own under the MPI_ names and calls the PMPI_
 * ones. The library must not come back to them. */
#include "check.h"

static int sends, barriers, sizes;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
    barriers++;
    return PMPI_Barrier(comm);
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    sizes++;
    return PMPI_Comm_size(comm, size);
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    int rank = rank_of(MPI_COMM_WORLD), size, value = 3;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    if (rank == 0)
        OK(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    else
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Comm copy;
    OK(PMPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(PMPI_Comm_free(&copy));
    OK(PMPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    CHECK(sends == (rank == 0) && barriers == 1 && sizes == 1);
    done(rank);
    return 0;
}
