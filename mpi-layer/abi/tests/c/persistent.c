/* Requests that are started again and again. */
#include "check.h"

static int rank, size, next, last;
static MPI_Comm world = MPI_COMM_WORLD;

typedef int Init(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
typedef int InitC(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void rounds(int mode, int wide, int count)
{
    Init *inits[] = {MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init};
    InitC *wide_inits[] = {MPI_Send_init_c, MPI_Ssend_init_c, MPI_Rsend_init_c, MPI_Bsend_init_c};
    int *out = malloc((count + 1) * sizeof *out), *in = malloc((count + 1) * sizeof *in);
    MPI_Request pair[2];
    MPI_Status statuses[2];
    if (wide) {
        OK(MPI_Recv_init_c(in, count, MPI_INT, last, 2, world, &pair[0]));
        OK(wide_inits[mode](out, count, MPI_INT, next, 2, world, &pair[1]));
    } else {
        OK(MPI_Recv_init(in, count, MPI_INT, last, 2, world, &pair[0]));
        OK(inits[mode](out, count, MPI_INT, next, 2, world, &pair[1]));
    }
    MPI_Request copy[2] = {pair[0], pair[1]};
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < count; i++)
            out[i] = rank + i + round, in[i] = -1;
        OK(MPI_Start(&pair[0]));
        FAILS(MPI_ERR_REQUEST, MPI_Start(&pair[0]));
        OK(MPI_Barrier(world));
        OK(MPI_Startall(1, &pair[1]));
        int got, index, flag = 0;
        if (round % 3 == 0) {
            OK(MPI_Waitall(2, pair, statuses));
        } else if (round % 3 == 1) {
            for (int left = 2; left > 0; left--) {
                MPI_Status status;
                OK(MPI_Waitany(2, pair, &index, &status));
                statuses[index] = status;
            }
            OK(MPI_Waitany(2, pair, &index, MPI_STATUS_IGNORE));
            CHECK(index == MPI_UNDEFINED);
        } else {
            while (!flag)
                OK(MPI_Test(&pair[0], &flag, &statuses[0]));
            OK(MPI_Wait(&pair[1], MPI_STATUS_IGNORE));
        }
        CHECK(pair[0] == copy[0] && pair[1] == copy[1]);
        OK(MPI_Get_count(&statuses[0], MPI_INT, &got));
        CHECK(got == count && statuses[0].MPI_SOURCE == last && statuses[0].MPI_TAG == 2);
        for (int i = 0; i < count; i++)
            CHECK(in[i] == last + i + round);
        /* It has been told. */
        OK(MPI_Wait(&pair[0], &statuses[0]));
        CHECK(statuses[0].MPI_SOURCE == MPI_ANY_SOURCE);
    }
    OK(MPI_Request_free(&pair[0]));
    OK(MPI_Request_free(&pair[1]));
    FAILS(MPI_ERR_REQUEST, MPI_Start(&copy[0]));
    free(out), free(in);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    errors_return();
    rank = rank_of(world);
    OK(MPI_Comm_size(world, &size));
    next = (rank + 1) % size, last = (rank + size - 1) % size;
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    for (int mode = 0; mode < 4; mode++)
        for (int wide = 0; wide < 2; wide++) {
            rounds(mode, wide, 10);
            rounds(mode, wide, 60000);
            rounds(mode, wide, 0);
        }

    /* With nobody; what is cancelled; what is freed under way, with its communicator. */
    int value = 4, flag = -1;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, world, &request));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, &status));
        CHECK(status.MPI_SOURCE == MPI_PROC_NULL && request != MPI_REQUEST_NULL && value == 4);
    }
    OK(MPI_Request_free(&request));
    OK(MPI_Recv_init(&value, 1, MPI_INT, rank, 77, world, &request));
    OK(MPI_Start(&request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag == 1 && value == 4);
    OK(MPI_Start(&request));
    OK(MPI_Send(&rank, 1, MPI_INT, rank, 77, world));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag == 0 && value == rank);
    OK(MPI_Request_free(&request));

    MPI_Comm comm;
    OK(MPI_Comm_dup(world, &comm));
    OK(MPI_Ssend_init(&rank, 1, MPI_INT, next, 8, comm, &request));
    OK(MPI_Start(&request));
    OK(MPI_Request_free(&request));
    MPI_Request later;
    OK(MPI_Recv_init(&value, 1, MPI_INT, last, 8, comm, &later));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Start(&later));
    OK(MPI_Wait(&later, MPI_STATUS_IGNORE));
    CHECK(value == last);
    OK(MPI_Request_free(&later));

    OK(MPI_Isend(&rank, 1, MPI_INT, rank, 9, world, &request));
    FAILS(MPI_ERR_REQUEST, MPI_Start(&request));
    OK(MPI_Recv(&value, 1, MPI_INT, rank, 9, world, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(world));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
