/* Several requests, of which one fails since its partner has died: each status says what became of its own, and what
 * could still end is not given up. (MPI 4.1, 3.7.5: MPI_ERR_IN_STATUS, MPI_ERR_PENDING) */
#include "check.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    OK(MPI_Init(&argc, &argv));
    errors_return();
    int rank = rank_of(world), word[4] = {0}, class, go = 0;
    if (rank == 2)
        _exit(3);
    if (rank == 1) {
        OK(MPI_Send(&rank, 1, MPI_INT, 0, 1, world));
        /* The other word comes when rank 0 has seen that it was missing. */
        OK(MPI_Recv(&go, 1, MPI_INT, 0, 9, world, MPI_STATUS_IGNORE));
        OK(MPI_Send(&rank, 1, MPI_INT, 0, 3, world));
    } else {
        MPI_Request r[4];
        MPI_Status s[4];
        OK(MPI_Irecv(&word[0], 1, MPI_INT, 1, 1, world, &r[0]));
        OK(MPI_Irecv(&word[1], 1, MPI_INT, 2, 2, world, &r[1]));
        OK(MPI_Irecv(&word[2], 1, MPI_INT, 1, 3, world, &r[2]));
        r[3] = MPI_REQUEST_NULL;
        for (int k = 0; k < 4; k++)
            s[k].MPI_ERROR = -77;
        FAILS(MPI_ERR_IN_STATUS, MPI_Waitall(4, r, s));
        CHECK(s[0].MPI_ERROR == MPI_SUCCESS && s[0].MPI_SOURCE == 1 && word[0] == 1);
        OK(MPI_Error_class(s[1].MPI_ERROR, &class));
        CHECK(class == MPI_ERR_PROC_ABORTED);
        CHECK(s[2].MPI_ERROR == MPI_ERR_PENDING && s[3].MPI_ERROR == MPI_SUCCESS);
        CHECK(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL && r[2] != MPI_REQUEST_NULL);
        OK(MPI_Send(&go, 1, MPI_INT, 1, 9, world));
        s[2].MPI_ERROR = -77;
        OK(MPI_Wait(&r[2], &s[2]));
        CHECK(word[2] == 1 && s[2].MPI_TAG == 3 && s[2].MPI_ERROR == -77);
    }
    FAILS(MPI_ERR_PROC_ABORTED, MPI_Finalize());
    done(rank);
    return 0;
}
