/* Blocking messages of predefined types, and a barrier. */
#include "check.h"

static void pass(int rank, int size)
{
    enum { MANY = 100000 };
    static double out[MANY], in[MANY];
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < MANY; i++)
        out[i] = rank * 1e6 + i;
    MPI_Status status;
    memset(&status, 0x55, sizeof status);
    int before = status.MPI_ERROR;
    if (rank == 0) {
        OK(MPI_Send(out, MANY, MPI_DOUBLE, next, 3, MPI_COMM_WORLD));
        OK(MPI_Recv(in, MANY, MPI_DOUBLE, last, 3, MPI_COMM_WORLD, &status));
    } else {
        OK(MPI_Recv(in, MANY, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        OK(MPI_Send(out, MANY, MPI_DOUBLE, next, 3, MPI_COMM_WORLD));
    }
    int count = -1;
    OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK(status.MPI_SOURCE == last && status.MPI_TAG == 3 && count == MANY);
    CHECK(status.MPI_ERROR == before);
    for (int i = 0; i < MANY; i++)
        CHECK(in[i] == last * 1e6 + i);
}

int main(int argc, char **argv)
{
    int rank, size;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size == 4 && rank >= 0 && rank < size);
    pass(rank, size);
    OK(MPI_Barrier(MPI_COMM_WORLD));

    /* Nothing, to anybody and to nobody. */
    MPI_Status status;
    OK(MPI_Send(NULL, 0, MPI_INT, rank, 0, MPI_COMM_WORLD));
    OK(MPI_Recv(NULL, 0, MPI_INT, rank, 0, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_SOURCE == rank);
    OK(MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Recv(&size, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && size == 4);
    OK(MPI_Recv(&size, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));

    /* A message to oneself in MPI_COMM_SELF. */
    char c = 'x';
    OK(MPI_Send("y", 1, MPI_CHAR, 0, 1, MPI_COMM_SELF));
    OK(MPI_Recv(&c, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK(c == 'y');
    OK(MPI_Barrier(MPI_COMM_SELF));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
