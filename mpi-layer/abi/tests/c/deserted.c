/* A rank dies while others have collectives under way that need it: all of those end, with an error. */
#include "check.h"

#include <unistd.h>

enum { KINDS = 5 };

int main(int argc, char **argv)
{
    static double in[100000], out[KINDS][100000];
    MPI_Request r[KINDS];
    MPI_Status s[KINDS];
    int size, class, failed = 0;
    OK(MPI_Init(&argc, &argv));
    errors_return();
    int rank = rank_of(MPI_COMM_WORLD);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Allreduce_init(in, out[0], 100000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]));
    OK(MPI_Start(&r[0]));
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    if (rank == size - 1)
        _exit(3);
    OK(MPI_Start(&r[0]));
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &r[1]));
    OK(MPI_Iallreduce(in, out[2], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r[2]));
    OK(MPI_Ialltoall(in, 1000, MPI_DOUBLE, out[3], 1000, MPI_DOUBLE, MPI_COMM_WORLD, &r[3]));
    OK(MPI_Ibcast(out[4], 100000, MPI_DOUBLE, size - 1, MPI_COMM_WORLD, &r[4]));
    for (int k = 0; k < KINDS; k++) {
        int code = MPI_Wait(&r[k], &s[k]);
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPI_ERR_PROC_ABORTED);
        CHECK((r[k] == MPI_REQUEST_NULL) == (k != 0));
        failed++;
    }
    CHECK(failed == KINDS);
    /* What is persistent is inactive again, and can be freed. */
    OK(MPI_Request_free(&r[0]));
    FAILS(MPI_ERR_PROC_ABORTED, MPI_Finalize());
    done(rank);
    return 0;
}
