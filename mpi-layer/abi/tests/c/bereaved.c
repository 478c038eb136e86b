/* The end of a rank whose partner has died: the error goes to the handler that the program has chosen. */
#include "check.h"

#include <unistd.h>

static int calls;

static void count(MPI_Comm *comm, int *code, ...)
{
    int class;
    OK(MPI_Error_class(*code, &class));
    CHECK(*comm == MPI_COMM_NULL && class == MPI_ERR_PROC_ABORTED);
    calls++;
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = rank_of(MPI_COMM_WORLD), ended = 0;
    int returns = argc > 1 && strcmp(argv[1], "returns") == 0;
    if (returns) {
        errors_return();
    } else {
        MPI_Errhandler handler;
        OK(MPI_Comm_create_errhandler(count, &handler));
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
        OK(MPI_Errhandler_free(&handler));
    }
    if (rank == 1)
        _exit(3);
    FAILS(MPI_ERR_PROC_ABORTED, MPI_Finalize());
    CHECK(calls == !returns);
    OK(MPI_Finalized(&ended));
    CHECK(ended);
    done(rank);
    return 0;
}
