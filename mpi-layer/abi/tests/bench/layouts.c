/* What messages of types that are not in one piece cost between two ranks: half of the time of a message and
   its answer, the best of several rounds, and whether the bytes are right. Any library of MPI runs it:
     mpicc -O2 layouts.c -o layouts && mpiexec -n 2 ./layouts */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;

/* One case: elements of a type, and the bytes from the first to the last. */
static void measure(const char *name, MPI_Datatype type, int count)
{
    MPI_Aint lb, extent;
    int size;
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_size(type, &size);
    size_t length = (size_t)extent * count + 64;
    char *memory = malloc(length), *before = malloc(length);
    for (size_t i = 0; i < length; i++)
        memory[i] = rank == 0 ? (char)(i * 13 + 5) : 0;
    memcpy(before, memory, length);
    /* What comes back must be what went: all else of the memory is cleared before it comes. */
    if (rank == 0) {
        MPI_Send(memory, count, type, 1, 2, MPI_COMM_WORLD);
        memset(memory, 0, length);
        MPI_Recv(memory, count, type, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        char *sent = malloc((size_t)size * count), *came = malloc((size_t)size * count);
        int end[2] = {0, 0};
        MPI_Pack(before, count, type, sent, size * count, &end[0], MPI_COMM_SELF);
        MPI_Pack(memory, count, type, came, size * count, &end[1], MPI_COMM_SELF);
        if (memcmp(sent, came, (size_t)size * count)) {
            fprintf(stderr, "%s: other bytes came than went\n", name);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        memcpy(memory, before, length);
        free(sent);
        free(came);
    } else {
        MPI_Recv(memory, count, type, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(memory, count, type, 0, 2, MPI_COMM_WORLD);
    }
    double bytes = (double)size * count, best = 1e9;
    int turns = bytes > 500000 ? 60 : bytes > 1000 ? 600 : 6000;
    for (int round = 0; round < 9; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < turns; i++) {
            if (rank == 0) {
                MPI_Send(memory, count, type, 1, 1, MPI_COMM_WORLD);
                MPI_Recv(memory, count, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(memory, count, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(memory, count, type, 0, 1, MPI_COMM_WORLD);
            }
        }
        double time = (MPI_Wtime() - start) / turns / 2;
        if (time < best)
            best = time;
    }
    int same = rank != 0 || !memcmp(memory, before, length);
    if (rank == 0)
        printf("%-28s %8.0f B %9.2f us %8.0f MB/s%s\n", name, bytes, best * 1e6, bytes / best / 1e6,
               same ? "" : "  WRONG");
    MPI_Type_free(&type);
    free(memory);
    free(before);
}

int main(int argc, char **argv)
{
    MPI_Datatype type;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int all = argc < 2;
    for (int bytes = 65536; bytes <= 1048576; bytes *= 16) {
        int n = bytes / 8;
        if (all || strstr(argv[1], "dense")) {
            MPI_Type_contiguous(n, MPI_DOUBLE, &type);
            measure("doubles side by side", type, 1);
        }
        if (all || strstr(argv[1], "one")) {
            MPI_Type_vector(n, 1, 2, MPI_DOUBLE, &type);
            measure("vector 1 of 2 doubles", type, 1);
        }
        if (all || strstr(argv[1], "sixteen")) {
            MPI_Type_vector(n / 16, 16, 32, MPI_DOUBLE, &type);
            measure("vector 16 of 32 doubles", type, 1);
        }
    }
    if (all || strstr(argv[1], "small")) {
        MPI_Type_contiguous(8, MPI_DOUBLE, &type);
        measure("8 doubles side by side", type, 1);
        MPI_Type_vector(8, 1, 2, MPI_DOUBLE, &type);
        measure("8 doubles, 1 of 2", type, 1);
    }
    if (all || strstr(argv[1], "coarse")) {
        MPI_Type_vector(16, 8192, 16384, MPI_DOUBLE, &type);
        measure("vector 8192 of 16384 doubles", type, 1);
        MPI_Type_vector(256, 512, 1024, MPI_DOUBLE, &type);
        measure("vector 512 of 1024 doubles", type, 1);
        MPI_Type_vector(768, 171, 300, MPI_DOUBLE, &type);
        measure("vector 171 of 300 doubles", type, 1);
    }
    if (all || strstr(argv[1], "indexed")) {
        enum { N = 100000 };
        int *lengths = malloc(N * sizeof(int)), *places = malloc(N * sizeof(int));
        for (int i = 0, at = 0; i < N; i++) {
            lengths[i] = 1 + i * 7 % 3;
            places[i] = at;
            at += lengths[i] + 1 + i * 5 % 4;
        }
        MPI_Type_indexed(N, lengths, places, MPI_DOUBLE, &type);
        measure("indexed, 100000 blocks", type, 1);
        free(lengths);
        free(places);
    }
    if (all || strstr(argv[1], "struct")) {
        struct { char tag; double x[3]; int n; } one;
        int lengths[3] = {1, 3, 1};
        MPI_Aint base, places[3];
        MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
        MPI_Get_address(&one, &base);
        MPI_Get_address(&one.tag, &places[0]);
        MPI_Get_address(&one.x, &places[1]);
        MPI_Get_address(&one.n, &places[2]);
        for (int i = 0; i < 3; i++)
            places[i] -= base;
        for (int count = 100; count <= 30000; count *= 300) {
            MPI_Type_create_struct(3, lengths, places, types, &type);
            measure("struct of 3 with gaps", type, count);
        }
    }
    MPI_Finalize();
    return 0;
}
