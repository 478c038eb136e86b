/* A rank that tests or probes in a loop gives its processor away. The library's calls of the system go
 * through this program's functions, which count them. */
#include <sys/syscall.h>
#include <unistd.h>
#include "check.h"

static long yields;

int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

#define GIVES_AWAY(call)                                                                    \
    do {                                                                                    \
        long before_ = yields;                                                              \
        for (int i_ = 0; i_ < 200; i_++)                                                    \
            OK(call);                                                                       \
        CHECK(yields - before_ > 100);                                                      \
    } while (0)

int main(int argc, char **argv)
{
    int value, flag, index, count, indices[1];
    MPI_Request request;
    MPI_Message message;
    OK(MPI_Init(&argc, &argv));
    MPI_Comm world = MPI_COMM_WORLD;
    int rank = rank_of(world);
    OK(MPI_Irecv(&value, 1, MPI_INT, rank, 1, world, &request));
    GIVES_AWAY(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    GIVES_AWAY(MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE));
    GIVES_AWAY(MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE));
    GIVES_AWAY(MPI_Testsome(1, &request, &count, indices, MPI_STATUSES_IGNORE));
    GIVES_AWAY(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    GIVES_AWAY(MPI_Iprobe(rank, 2, world, &flag, MPI_STATUS_IGNORE));
    GIVES_AWAY(MPI_Improbe(rank, 2, world, &flag, &message, MPI_STATUS_IGNORE));
    OK(MPI_Send(&rank, 1, MPI_INT, rank, 1, world));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
