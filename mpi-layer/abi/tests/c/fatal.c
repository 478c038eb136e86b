/* Errors that end the job. */
#include "check.h"

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    OK(MPI_Init(&argc, &argv));
    int rank = rank_of(MPI_COMM_WORLD);
    if (strcmp(how, "fatal") == 0)
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    if (strcmp(how, "abort") == 0)
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT));
    if (strcmp(how, "null") == 0) {
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
        if (rank == 1)
            MPI_Barrier(MPI_COMM_NULL);
    } else if (rank == 1) {
        MPI_Send(&rank, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
