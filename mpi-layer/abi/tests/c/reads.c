/* Long blocks, which ranks read from each other's memory where they can: right bytes, other lengths, and a death. */
#include "check.h"

#include <sys/time.h>

static int rank, size;

/* What rank `from` sends to `to` at byte `i` in round `round`. */
static unsigned char byte_of(int from, int to, int i, int round)
{
    return (unsigned char)(from * 31 + to * 17 + i * 7 + (i >> 8) + round * 3);
}

static unsigned char *buffer(int len)
{
    unsigned char *bytes = malloc((size_t)len * size + 1);
    CHECK(bytes != NULL);
    return bytes;
}

static void fill(unsigned char *out, int from, int to, int len, int round)
{
    for (int i = 0; i < len; i++)
        out[i] = byte_of(from, to, i, round);
}

static void same(const unsigned char *found, int from, int to, int len, int round)
{
    for (int i = 0; i < len; i++)
        CHECK(found[i] == byte_of(from, to, i, round));
}

static void exchanges(int len, MPI_Datatype halves)
{
    unsigned char *in = buffer(len), *out = buffer(len);
    for (int round = 0; round < 4; round++) {
        for (int to = 0; to < size; to++)
            fill(in + (size_t)to * len, rank, to, len, round);
        memset(out, 0, (size_t)len * size);
        switch (round) {
        case 0:
        case 1:
            OK(MPI_Alltoall(in, len, MPI_BYTE, out, len, MPI_BYTE, MPI_COMM_WORLD));
            /* What is sent is the sender's again. */
            memset(in, 255, (size_t)len * size);
            break;
        case 2:
            memcpy(out, in, (size_t)len * size);
            OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, out, len, MPI_BYTE, MPI_COMM_WORLD));
            break;
        default:
            if (len % 8 != 0)
                goto gathers;
            OK(MPI_Alltoall(in, len / 8, halves, out, len / 8, halves, MPI_COMM_WORLD));
        }
        for (int from = 0; from < size; from++)
            same(out + (size_t)from * len, from, rank, len, round);
    }
gathers:
    for (int round = 0; round < 3; round++) {
        memset(out, 0, (size_t)len * size);
        fill(in, rank, 0, len, round);
        if (round == 1) {
            memcpy(out + (size_t)rank * len, in, len);
            OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, out, len, MPI_BYTE, MPI_COMM_WORLD));
        } else {
            OK(MPI_Allgather(in, len, MPI_BYTE, out, len, MPI_BYTE, MPI_COMM_WORLD));
        }
        memset(in, 255, len);
        for (int from = 0; from < size; from++)
            same(out + (size_t)from * len, from, 0, len, round);
    }
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    /* Whatever this machine's processors are. */
    CHECK(setenv("BOWLINE_ALLTOALL", "staged", 1) == 0 && setenv("BOWLINE_ALLGATHER", "staged", 1) == 0);
    OK(MPI_Init(&argc, &argv));
    errors_return();
    rank = rank_of(MPI_COMM_WORLD);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    /* Two halves of eight bytes, which are not packed in the order of memory. */
    MPI_Datatype halves;
    OK(MPI_Type_indexed(2, (int[]){4, 4}, (int[]){4, 0}, MPI_BYTE, &halves));
    OK(MPI_Type_commit(&halves));
    int lengths[] = {40000, 100000, 8, 33333, 400000, 32768};
    for (int k = 0; k < 6; k++)
        exchanges(lengths[k], halves);
    if (argc > 1 && strcmp(argv[1], "other-lengths") == 0) {
        enum { MOST = 200000 };
        unsigned char *in = buffer(MOST), *out = buffer(MOST);
        int pairs[][2] = {{MOST, 50000}, {40000, 8}, {8, 40000}, {20000, 40000}};
        for (int k = 0; k < 4; k++) {
            int len = pairs[k][rank == size / 2];
            FAILS(MPI_ERR_COUNT, MPI_Alltoall(in, len, MPI_BYTE, out, len, MPI_BYTE, MPI_COMM_WORLD));
            FAILS(MPI_ERR_COUNT, MPI_Allgather(in, len, MPI_BYTE, out, len, MPI_BYTE, MPI_COMM_WORLD));
            exchanges(40000, halves);
        }
        free(in);
        free(out);
    }
    OK(MPI_Type_free(&halves));
    if (argc > 1 && strcmp(argv[1], "death") == 0) {
        enum { LONG = 1 << 20 };
        unsigned char *in = buffer(LONG), *out = buffer(LONG);
        int code = MPI_SUCCESS, class;
        memset(in, 1, (size_t)LONG * size);
        OK(MPI_Alltoall(in, LONG, MPI_BYTE, out, LONG, MPI_BYTE, MPI_COMM_WORLD));
        /* It kills in the midst of a call, as a rule. */
        struct itimerval soon = {.it_value = {.tv_usec = 50000}};
        if (rank == size - 1)
            CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        while (code == MPI_SUCCESS)
            code = MPI_Alltoall(in, LONG, MPI_BYTE, out, LONG, MPI_BYTE, MPI_COMM_WORLD);
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPI_ERR_PROC_ABORTED);
        FAILS(MPI_ERR_PROC_ABORTED, MPI_Alltoall(in, LONG, MPI_BYTE, out, LONG, MPI_BYTE, MPI_COMM_WORLD));
        FAILS(MPI_ERR_PROC_ABORTED, MPI_Finalize());
    } else {
        OK(MPI_Finalize());
    }
    done(rank);
    return 0;
}
