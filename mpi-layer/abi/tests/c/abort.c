/* MPI_Abort: the job's code, and what is written before it. */
#include "check.h"

static void at_exit(void)
{
    printf("at exit\n");
}

int main(int argc, char **argv)
{
    int code = argc > 1 ? atoi(argv[1]) : 1;
    OK(MPI_Init(&argc, &argv));
    atexit(at_exit);
    if (rank_of(MPI_COMM_WORLD) == 0) {
        printf("written without an end");
        MPI_Abort(MPI_COMM_WORLD, code);
        CHECK(!"it came back");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (;;)
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
