/* A program whose messages are counted: ten from each rank to the next, received in every manner, and four collectives. */
#include "check.h"

static MPI_Comm world = MPI_COMM_WORLD;

int main(int argc, char **argv)
{
    int size, value = 7, sum = 0, in[5], there = 0;
    MPI_Status status;
    MPI_Message message;
    MPI_Request requests[10], run;
    OK(MPI_Init(&argc, &argv));
    int rank = rank_of(world);
    OK(MPI_Comm_size(world, &size));
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Comm half;
    OK(MPI_Comm_split(world, rank % 2, rank, &half));

    /* 1: together. */
    OK(MPI_Sendrecv(&value, 1, MPI_INT, next, 1, in, 1, MPI_INT, last, 1, world, &status));
    /* 2 to 6: in the background, from anybody with any tag. */
    for (int i = 0; i < 5; i++)
        OK(MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &requests[i]));
    for (int i = 0; i < 5; i++)
        OK(MPI_Isend(&value, 1, MPI_INT, next, 2, world, &requests[5 + i]));
    OK(MPI_Waitall(10, requests, MPI_STATUSES_IGNORE));
    /* 7: claimed. */
    OK(MPI_Isend(&value, 1, MPI_INT, next, 3, world, &requests[0]));
    OK(MPI_Mprobe(last, 3, world, &message, &status));
    OK(MPI_Mrecv(in, 1, MPI_INT, &message, &status));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    /* 8: tested again and again. */
    OK(MPI_Irecv(in, 1, MPI_INT, last, 4, world, &requests[0]));
    OK(MPI_Send(&value, 1, MPI_INT, next, 4, world));
    while (!there)
        OK(MPI_Test(&requests[0], &there, &status));
    /* 9 and 10: again and again. */
    OK(MPI_Send_init(&value, 1, MPI_INT, next, 5, world, &requests[0]));
    OK(MPI_Recv_init(in, 1, MPI_INT, last, 5, world, &requests[1]));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));

    OK(MPI_Barrier(world));
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, world));
    CHECK(sum == 7 * size);
    OK(MPI_Bcast(&sum, 1, MPI_INT, 0, half));
    OK(MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, world, &run));
    OK(MPI_Wait(&run, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&half));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
