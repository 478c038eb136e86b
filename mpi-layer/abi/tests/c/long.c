/* Long messages between processes, in all that can become of one: of many ranks to one, of all to all, to oneself, both at
 * once, claimed, of a buffer with gaps, too long for its buffer, taken back, and of a request that was freed. */
#include "check.h"

#define LEN (1 << 20)

static MPI_Comm world = MPI_COMM_WORLD;

static char byte_of(int rank, size_t at)
{
    return (char)(rank + at % 251);
}

static int is_of(const char *bytes, size_t len, int rank)
{
    size_t at = 0;
    while (at < len && bytes[at] == byte_of(rank, at))
        at++;
    return at == len;
}

int main(int argc, char **argv)
{
    int size, flag, came;
    MPI_Status status;
    MPI_Message message;
    OK(MPI_Init(&argc, &argv));
    errors_return();
    int rank = rank_of(world);
    OK(MPI_Comm_size(world, &size));
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    char *mine = malloc(LEN), *got = malloc((size_t)LEN * size);
    MPI_Request *requests = malloc(2 * size * sizeof *requests);
    CHECK(mine && got && requests);
    for (size_t at = 0; at < LEN; at++)
        mine[at] = byte_of(rank, at);

    for (int round = 0; round < 3; round++) {
        if (rank == 0) {
            for (int from = 1; from < size; from++)
                OK(MPI_Irecv(got + (size_t)from * LEN, LEN, MPI_BYTE, from, 1, world, &requests[from]));
            OK(MPI_Waitall(size - 1, requests + 1, MPI_STATUSES_IGNORE));
            for (int from = 1; from < size; from++)
                CHECK(is_of(got + (size_t)from * LEN, LEN, from));
        } else {
            OK(MPI_Ssend(mine, LEN, MPI_BYTE, 0, 1, world));
        }

        memset(got, 0, (size_t)LEN * size);
        for (int other = 0; other < size; other++) {
            char *to = got + (size_t)other * LEN;
            OK(MPI_Irecv(to, LEN, MPI_BYTE, other, 2, world, &requests[other]));
            OK(MPI_Isend(mine, LEN, MPI_BYTE, other, 2, world, &requests[size + other]));
        }
        OK(MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE));
        for (int other = 0; other < size; other++)
            CHECK(is_of(got + (size_t)other * LEN, LEN, other));

        memset(got, 0, LEN);
        OK(MPI_Sendrecv(mine, LEN, MPI_BYTE, next, 3, got, LEN, MPI_BYTE, last, 3, world, &status));
        CHECK(is_of(got, LEN, last));

        memset(got, 0, LEN);
        OK(MPI_Isend(mine, LEN, MPI_BYTE, next, 4, world, &requests[0]));
        OK(MPI_Mprobe(MPI_ANY_SOURCE, 4, world, &message, &status));
        OK(MPI_Mrecv(got, LEN, MPI_BYTE, &message, &status));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK(status.MPI_SOURCE == last && is_of(got, LEN, last));

        /* Half of it, into as many places. */
        MPI_Datatype halves;
        OK(MPI_Type_vector(LEN / 64, 32, 64, MPI_BYTE, &halves));
        OK(MPI_Type_commit(&halves));
        memset(got, 0, LEN);
        OK(MPI_Isend(mine, 1, halves, next, 5, world, &requests[0]));
        OK(MPI_Recv(got, 1, halves, last, 5, world, &status));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        for (size_t at = 0; at < LEN; at++)
            CHECK(got[at] == (at % 64 < 32 ? byte_of(last, at) : 0));
        OK(MPI_Type_free(&halves));

        /* What does not fit stays away, and the sender does not mind. */
        memset(got, 0, LEN);
        OK(MPI_Isend(mine, LEN, MPI_BYTE, next, 6, world, &requests[0]));
        FAILS(MPI_ERR_TRUNCATE, MPI_Recv(got, LEN / 3, MPI_BYTE, last, 6, world, &status));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK(is_of(got, LEN / 3, last) && got[LEN / 3] == 0);

        /* Taken back before a receive, and while one waits: either all of it comes or nothing. */
        OK(MPI_Isend(mine, LEN, MPI_BYTE, next, 7, world, &requests[0]));
        OK(MPI_Cancel(&requests[0]));
        OK(MPI_Wait(&requests[0], &status));
        OK(MPI_Test_cancelled(&status, &flag));
        CHECK(flag);
        memset(got, 0, LEN);
        OK(MPI_Irecv(got, LEN, MPI_BYTE, last, 8, world, &requests[1]));
        OK(MPI_Barrier(world));
        OK(MPI_Isend(mine, LEN, MPI_BYTE, next, 8, world, &requests[0]));
        OK(MPI_Cancel(&requests[0]));
        OK(MPI_Wait(&requests[0], &status));
        OK(MPI_Test_cancelled(&status, &flag));
        OK(MPI_Sendrecv(&flag, 1, MPI_INT, next, 9, &came, 1, MPI_INT, last, 9, world, &status));
        if (came)
            OK(MPI_Cancel(&requests[1]));
        OK(MPI_Wait(&requests[1], &status));
        size_t written = 0;
        for (size_t at = 0; at < LEN; at++)
            written += got[at] != 0;
        CHECK(came ? written == 0 : is_of(got, LEN, last));
    }

    /* Freed by its sender, who then waits for nothing but its end. */
    OK(MPI_Irecv(got, LEN, MPI_BYTE, last, 10, world, &requests[1]));
    OK(MPI_Isend(mine, LEN, MPI_BYTE, next, 10, world, &requests[0]));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    CHECK(is_of(got, LEN, last));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
