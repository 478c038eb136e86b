/* What a rank has under way goes on while it is blocked in a call for something else, on four ranks. In
   each case the call can end only when another rank's wait for that work has ended. */
#include "check.h"

enum { DOUBLES = 200000, DATA = 6, PROMPT = 7, WORD = 8 };

static int rank;
static double sent[2 * DOUBLES], received[2 * DOUBLES];

/* Rank 1 lets rank 0 out of its call. */
static void let_out(void)
{
    OK(MPI_Send(&rank, 1, MPI_INT, 0, WORD, MPI_COMM_WORLD));
}

enum way { RECEIVE, PROBE, WAIT, BARRIER, WAYS };

/* Rank 0 is blocked in one of four ways until `let_out`, or until all are in the barrier. */
static void blocked(enum way way)
{
    int word = -1;
    MPI_Request request;
    if (way == PROBE)
        OK(MPI_Probe(1, WORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (way == WAIT) {
        OK(MPI_Irecv(&word, 1, MPI_INT, 1, WORD, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (way != BARRIER) {
        OK(MPI_Recv(&word, 1, MPI_INT, 1, WORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    if (way == BARRIER)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    else
        CHECK(word == 1);
}

/* The others, when their work is done. */
static void ended(enum way way)
{
    if (way == BARRIER)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    else if (rank == 1)
        let_out();
}

static void duplicate(enum way way)
{
    MPI_Comm comm;
    MPI_Request request;
    OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
    if (rank == 0)
        blocked(way);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (rank != 0)
        ended(way);
    OK(MPI_Comm_free(&comm));
}

/* A long send of a type that is not in one piece, and a synchronous one. */
static void sends(enum way way, MPI_Datatype type)
{
    MPI_Request requests[2];
    int word = -1;
    if (rank == 0) {
        OK(MPI_Isend(sent, 1, type, 1, DATA, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Issend(&rank, 1, MPI_INT, 1, PROMPT, MPI_COMM_WORLD, &requests[1]));
        blocked(way);
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        return;
    }
    if (rank == 1) {
        memset(received, 0, sizeof received);
        OK(MPI_Recv(received, 1, type, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < 2 * DOUBLES; i++)
            CHECK(received[i] == (i % 2 == 0 ? i + 1 : 0));
        OK(MPI_Recv(&word, 1, MPI_INT, 0, PROMPT, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(word == 0);
    }
    ended(way);
}

int main(int argc, char **argv)
{
    MPI_Datatype type;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Type_vector(DOUBLES, 1, 2, MPI_DOUBLE, &type));
    OK(MPI_Type_commit(&type));
    for (int i = 0; i < 2 * DOUBLES; i++)
        sent[i] = i + 1;
    for (enum way way = RECEIVE; way < WAYS; way++) {
        duplicate(way);
        sends(way, type);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Type_free(&type));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
