/* Many communicators alive at once, and made and freed again and again: what memory they take.
 * many COUNT CYCLES [print] */
#include <malloc.h>
#include "check.h"

/* Bytes of memory that this process has on its own. */
static long memory(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    fclose(file);
    CHECK(kib > 0);
    return kib * 1024;
}

static void swap(MPI_Comm comm, int rank, int mark)
{
    int got = -1, other = rank ^ 1;
    OK(MPI_Send(&mark, 1, MPI_INT, other, 0, comm));
    OK(MPI_Recv(&got, 1, MPI_INT, other, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
    CHECK(got == mark);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = rank_of(MPI_COMM_WORLD);
    int count = argc > 1 ? atoi(argv[1]) : 1000, cycles = argc > 2 ? atoi(argv[2]) : 100;
    MPI_Comm *comms = malloc((size_t)count * sizeof *comms), comm;
    CHECK(comms);
    memset(comms, 1, (size_t)count * sizeof *comms);

    /* Where a cycle leaves something, so many of them show it. */
    for (int i = 0; i < 100; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        swap(comm, rank, i);
        OK(MPI_Comm_free(&comm));
    }
    long before = memory();
    for (int i = 0; i < cycles; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        swap(comm, rank, i);
        OK(MPI_Comm_free(&comm));
    }
    long grown = memory() - before;
    if (grown > 256 * 1024) {
        fprintf(stderr, "%d communicators that were freed left %ld bytes\n", cycles, grown);
        exit(43);
    }

    before = memory();
    for (int i = 0; i < count; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    long each = (memory() - before) / count;
    /* All of them work, in an order in which they were not made. */
    for (int i = 0; i < count; i++) {
        int at = (int)((i * 7919L) % count);
        if (count % 7919 != 0)
            swap(comms[at], rank, at);
    }
    long used = (memory() - before) / count;
    OK(MPI_Barrier(comms[count - 1]));
    for (int i = 0; i < count; i++)
        OK(MPI_Comm_free(&comms[i]));
    if (argc > 3 && rank == 0)
        printf("%d communicators: %ld bytes each, %ld after a message in each\n", count, each, used);
    /* Their ids, handles and memory serve the next ones. What the allocator has given away is counted,
     * since how much of what is free it keeps to itself differs from round to round. */
    long given = 0;
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < count; i++)
            OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        for (int i = 0; i < count; i++)
            OK(MPI_Comm_free(&comms[i]));
        struct mallinfo2 now = mallinfo2();
        grown = (long)(now.uordblks + now.hblkhd) - given;
        if (round == 1)
            given += grown;
    }
    if (grown > count * 4L + 64 * 1024) {
        fprintf(stderr, "%d communicators again and again left %ld bytes\n", count, grown);
        exit(44);
    }
    free(comms);
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
