/* Blocking messages of eight bytes from rank 0 to rank 1 through the C library, one at a time, so that it
 * is there before it is received. The ranks meet in a file that they both map: nothing of MPI moves
 * while they do. Arguments: the mode, how many messages, the file. */
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MUST(condition)                                                 \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf(stderr, "%d: not so: %s\n", __LINE__, #condition);  \
            exit(1);                                                    \
        }                                                               \
    } while (0)

__attribute__((noinline)) static void measured_c_send(const long *word)
{
    MPI_Send(word, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD);
}

__attribute__((noinline)) static void measured_c_recv(long *word)
{
    MPI_Recv(word, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static atomic_long *meetings;

static void meet(int rank, long number)
{
    atomic_store(&meetings[rank], number);
    while (atomic_load(&meetings[1 - rank]) < number)
        sched_yield();
}

int main(int argc, char **argv)
{
    MUST(argc == 4);
    long calls = atol(argv[2]), met = 0;
    int file = open(argv[3], O_RDWR), rank, size;
    MUST(file >= 0);
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(memory != MAP_FAILED);
    meetings = memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MUST(size == 2);
    for (long round = 0; round < calls; round++) {
        long word = rank == 0 ? round : -1;
        if (rank == 0)
            measured_c_send(&word);
        meet(rank, ++met);
        if (rank == 1)
            measured_c_recv(&word);
        MUST(word == round);
        meet(rank, ++met);
    }
    MPI_Finalize();
    return 0;
}
