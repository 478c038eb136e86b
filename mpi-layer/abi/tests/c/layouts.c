/* Messages of types that are not in one piece: the two sides may describe the same elements in different
   ways, and what lies between is neither read nor written. Each length takes another protocol. */
#include "check.h"
#include <stddef.h>

#define GAP 0x5a5a5a5a

static int rank;

/* What element n of a message is. */
static int value(int n, int seed)
{
    return n * 7 + seed;
}

/* From side to side: a message of n ints by one type, received by another one. */
static void exchange(int n, MPI_Datatype from, int from_count, MPI_Datatype to, int to_count,
                     const int *from_at, const int *to_at, int capacity, int seed, int mode)
{
    int *memory = malloc(capacity * sizeof(int));
    for (int i = 0; i < capacity; i++)
        memory[i] = GAP;
    MPI_Status status;
    int count, elements;
    if (rank == 0) {
        for (int i = 0; i < n; i++)
            memory[from_at[i]] = value(i, seed);
        if (mode == 0)
            OK(MPI_Send(memory, from_count, from, 1, seed, MPI_COMM_WORLD));
        else {
            MPI_Request request;
            OK(MPI_Issend(memory, from_count, from, 1, seed, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        /* And back as plain elements, so that the other side's view is seen here. */
        int *plain = malloc((n + 1) * sizeof(int));
        OK(MPI_Recv(plain, n + 1, MPI_INT, 1, seed, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK(count == n);
        for (int i = 0; i < n; i++)
            CHECK(plain[i] == value(i, seed));
        free(plain);
    } else {
        OK(MPI_Recv(memory, to_count, to, 0, seed, MPI_COMM_WORLD, &status));
        OK(MPI_Get_elements(&status, to, &elements));
        CHECK(elements == n);
        for (int i = 0; i < n; i++)
            CHECK(memory[to_at[i]] == value(i, seed));
        int written = 0;
        for (int i = 0; i < capacity; i++)
            written += memory[i] != GAP;
        CHECK(written == n);
        OK(MPI_Send(memory, to_count, to, 0, seed, MPI_COMM_WORLD));
    }
    free(memory);
}

enum { KINDS = 5 };

/* A type of n ints in all, how many elements of it they are, and where they lie; n is a multiple of 12. */
static MPI_Datatype kind_of(int kind, int n, int *count, int *at, int *capacity)
{
    MPI_Datatype type = MPI_DATATYPE_NULL, inner;
    *count = 1;
    switch (kind) {
    case 0: /* side by side */
        OK(MPI_Type_contiguous(n / 12, MPI_INT, &type));
        *count = 12;
        for (int i = 0; i < n; i++)
            at[i] = i;
        *capacity = n;
        break;
    case 1: /* every second */
        OK(MPI_Type_vector(n, 1, 2, MPI_INT, &type));
        for (int i = 0; i < n; i++)
            at[i] = 2 * i;
        *capacity = 2 * n;
        break;
    case 2: /* blocks of 3, from the end to the begin; several elements */
        OK(MPI_Type_vector(4, 3, -5, MPI_INT, &inner));
        OK(MPI_Type_create_resized(inner, 0, -20 * 4, &type));
        OK(MPI_Type_free(&inner));
        *count = n / 12;
        /* The address is that of the lowest byte of all: a distance goes in front. */
        {
            int far = 20 * (n / 12);
            MPI_Datatype moved;
            int one = 1;
            MPI_Aint place = far * 4;
            MPI_Aint lb, extent;
            OK(MPI_Type_get_extent(type, &lb, &extent));
            OK(MPI_Type_create_hindexed(1, &one, &place, type, &moved));
            OK(MPI_Type_free(&type));
            OK(MPI_Type_create_resized(moved, 0, -20 * 4, &type));
            OK(MPI_Type_free(&moved));
            for (int i = 0; i < n; i++)
                at[i] = far - 20 * (i / 12) - 5 * (i % 12 / 3) + i % 3;
            *capacity = far + 3;
        }
        break;
    case 3: /* blocks of growing length at irregular places */
        {
            int *lengths = malloc(n * sizeof(int)), *places = malloc(n * sizeof(int));
            int blocks = 0, next = 0;
            for (int i = 0; i < n; blocks++) {
                int length = 1 + blocks % 17;
                if (length > n - i)
                    length = n - i;
                next += 1 + blocks % 3;
                lengths[blocks] = length, places[blocks] = next;
                for (int k = 0; k < length; k++)
                    at[i++] = next++;
            }
            OK(MPI_Type_indexed(blocks, lengths, places, MPI_INT, &type));
            free(lengths), free(places);
            *capacity = next;
        }
        break;
    default: /* a struct of a vector of pairs and of long rows */
        {
            MPI_Datatype types[2];
            int lengths[2] = {1, 1}, half = n / 2;
            MPI_Aint places[2] = {4, 12 * half};
            OK(MPI_Type_vector(half / 2, 2, 3, MPI_INT, &types[0]));
            OK(MPI_Type_contiguous(half, MPI_INT, &types[1]));
            OK(MPI_Type_create_struct(2, lengths, places, types, &type));
            OK(MPI_Type_free(&types[0]));
            OK(MPI_Type_free(&types[1]));
            for (int i = 0; i < half; i++) {
                at[i] = 1 + i / 2 * 3 + i % 2;
                at[half + i] = 3 * half + i;
            }
            *capacity = 4 * half;
        }
    }
    OK(MPI_Type_commit(&type));
    return type;
}

/* A message that is longer than its buffer, or ends within an element. */
static void truncation(int n)
{
    MPI_Datatype type;
    MPI_Status status;
    int *memory = malloc(4 * n * sizeof(int)), count;
    for (int i = 0; i < 4 * n; i++)
        memory[i] = rank == 0 ? i : GAP;
    /* Three ints in elements of four, every second place. */
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    int elements = n / 4;
    if (rank == 0) {
        OK(MPI_Send(memory, n - 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
        OK(MPI_Send(memory, n, MPI_INT, 1, 2, MPI_COMM_WORLD));
        OK(MPI_Send(memory, n - 1, MPI_INT, 1, 3, MPI_COMM_WORLD));
    } else {
        MPI_Aint lb, extent;
        OK(MPI_Type_get_extent(type, &lb, &extent));
        CHECK(extent == 7 * 4);
        OK(MPI_Recv(memory, elements, type, 0, 1, MPI_COMM_WORLD, &status));
        OK(MPI_Get_elements(&status, type, &count));
        CHECK(count == n - 1);
        OK(MPI_Get_count(&status, type, &count));
        CHECK(count == MPI_UNDEFINED);
        for (int i = 0, next = 0; i < 7 * elements; i++) {
            int wanted = i % 7 % 2 == 0 && next < n - 1 ? next++ : GAP;
            CHECK(memory[i] == wanted);
            memory[i] = GAP;
        }
        /* One element less than came: it is not written, and nothing behind it. */
        FAILS(MPI_ERR_TRUNCATE, MPI_Recv(memory, elements - 1, type, 0, 2, MPI_COMM_WORLD, &status));
        for (int i = 0, next = 0; i < 4 * n; i++) {
            int wanted = i < 7 * (elements - 1) && i % 7 % 2 == 0 ? next++ : GAP;
            CHECK(memory[i] == wanted);
        }
        FAILS(MPI_ERR_TRUNCATE, MPI_Recv(memory, 0, type, 0, 3, MPI_COMM_WORLD, &status));
    }
    free(memory);
    OK(MPI_Type_free(&type));
}

/* Padding does not travel, and is not written. */
static void pairs(void)
{
    struct pair { double d; int i; } many[100];
    memset(many, rank == 0 ? 1 : 0x77, sizeof many);
    MPI_Status status;
    int count;
    if (rank == 0) {
        for (int i = 0; i < 100; i++)
            many[i].d = i, many[i].i = -i;
        OK(MPI_Send(many, 100, MPI_DOUBLE_INT, 1, 1, MPI_COMM_WORLD));
    } else {
        OK(MPI_Recv(many, 100, MPI_DOUBLE_INT, 0, 1, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_DOUBLE_INT, &count));
        CHECK(count == 100);
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK(count == 1200);
        for (int i = 0; i < 100; i++) {
            CHECK(many[i].d == i && many[i].i == -i);
            for (int k = 12; k < 16; k++)
                CHECK(((char *)&many[i])[k] == 0x77);
        }
    }
}

/* Absolute addresses; a type that is freed while it is used; one that was not committed. */
static void lives(void)
{
    static double d[2000];
    static int n;
    int lengths[2] = {2000, 1};
    MPI_Aint places[2];
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, type;
    MPI_Request request;
    OK(MPI_Get_address(d, &places[0]));
    OK(MPI_Get_address(&n, &places[1]));
    OK(MPI_Type_create_struct(2, lengths, places, types, &type));
    FAILS(MPI_ERR_TYPE, MPI_Send(MPI_BOTTOM, 1, type, 1 - rank, 1, MPI_COMM_WORLD));
    OK(MPI_Type_commit(&type));
    if (rank == 0) {
        for (int i = 0; i < 2000; i++)
            d[i] = i;
        n = 17;
        OK(MPI_Isend(MPI_BOTTOM, 1, type, 1, 1, MPI_COMM_WORLD, &request));
    } else
        OK(MPI_Irecv(MPI_BOTTOM, 1, type, 0, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Type_free(&type));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(d[1999] == 1999 && n == 17);
    FAILS(MPI_ERR_BUFFER, MPI_Send(MPI_BOTTOM, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_BUFFER, MPI_Send(MPI_IN_PLACE, 1, MPI_DOUBLE_INT, 1 - rank, 1, MPI_COMM_WORLD));
}

/* A million blocks are described by a few words, on both sides. */
static void million(void)
{
    enum { N = 1000000 };
    MPI_Datatype type;
    double *memory = calloc(2 * N, sizeof(double));
    OK(MPI_Type_vector(N, 1, 2, MPI_DOUBLE, &type));
    OK(MPI_Type_commit(&type));
    if (rank == 0) {
        for (int i = 0; i < N; i++)
            memory[2 * i] = i + 0.5;
        OK(MPI_Send(memory, 1, type, 1, 1, MPI_COMM_WORLD));
    } else {
        MPI_Status status;
        OK(MPI_Recv(memory, 1, type, 0, 1, MPI_COMM_WORLD, &status));
        int count;
        OK(MPI_Get_count(&status, type, &count));
        CHECK(count == 1);
        for (int i = 0; i < N; i++)
            CHECK(memory[2 * i] == i + 0.5 && memory[2 * i + 1] == 0);
    }
    OK(MPI_Type_free(&type));
    free(memory);
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    rank = rank_of(MPI_COMM_WORLD);
    int sizes[] = {12, 120, 1200, 12000, 48000, 300000};
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int n = sizes[k], seed = 0;
        int *at[2] = {malloc(n * sizeof(int)), malloc(n * sizeof(int))};
        for (int from = 0; from < KINDS; from++)
            for (int to = 0; to < KINDS; to++, seed++) {
                int counts[2], capacities[2];
                MPI_Datatype types[2] = {kind_of(from, n, &counts[0], at[0], &capacities[0]),
                                         kind_of(to, n, &counts[1], at[1], &capacities[1])};
                exchange(n, types[0], counts[0], types[1], counts[1], at[0], at[1],
                         capacities[0] > capacities[1] ? capacities[0] : capacities[1], seed, seed % 2);
                OK(MPI_Type_free(&types[0]));
                OK(MPI_Type_free(&types[1]));
            }
        free(at[0]), free(at[1]);
        truncation(n);
    }
    pairs();
    lives();
    million();
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
