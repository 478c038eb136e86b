/* Exchanges between neighbours, each blocking, nonblocking and persistent, with small and with large counts, on types
 * with gaps, beside the blocks that must come. Any number of ranks. */
#include "check.h"

enum { MOST = 8, LEN = 3, UNTOUCHED = -77 };

static int rank, size;

/* A topology: from whom blocks come, and which of the blocks of that rank; nobody is MPI_PROC_NULL. */
static MPI_Comm comm;
static int ins, from[MOST], of[MOST];

/* Elements of a block with two ints, of which the second is a gap. */
static MPI_Datatype spaced;

static int word(int of_rank, int block, int at)
{
    return of_rank * 1000 + block * 100 + at;
}

static int input[MOST * LEN * 2], output[MOST * LEN * 4];

/* Block i of the output has its ints from i * stride on, every `step` of them. */
static void judge(int stride, int step, int gathered)
{
    int expected[MOST * LEN * 4];
    for (int i = 0; i < MOST * LEN * 4; i++)
        expected[i] = UNTOUCHED;
    for (int i = 0; i < ins; i++)
        for (int at = 0; at < LEN && from[i] != MPI_PROC_NULL; at++)
            expected[i * stride + at * step] = word(from[i], gathered ? 0 : of[i], at);
    CHECK(!memcmp(expected, output, sizeof output));
}

/* Fills the buffers: the input is of one block after the other, an int every `step`. */
static void fill(int step)
{
    for (int i = 0; i < MOST * LEN * 4; i++)
        output[i] = UNTOUCHED;
    for (int i = 0; i < MOST; i++)
        for (int at = 0; at < LEN; at++)
            input[(i * LEN + at) * step] = word(rank, i, at);
}

/* Runs all forms of an exchange, and judges each. */
#define FORMS(NAME, step_in, judgement, ...)                                                \
    do {                                                                                    \
        MPI_Request request;                                                                \
        fill(step_in);                                                                      \
        OK(MPI_Neighbor_##NAME(__VA_ARGS__, comm));                                         \
        judgement;                                                                          \
        fill(step_in);                                                                      \
        OK(MPI_Ineighbor_##NAME(__VA_ARGS__, comm, &request));                              \
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                          \
        judgement;                                                                          \
    } while (0)

#define AGAIN(NAME, step_in, judgement, ...)                                                \
    do {                                                                                    \
        MPI_Request request;                                                                \
        OK(MPI_Neighbor_##NAME(__VA_ARGS__, comm, MPI_INFO_NULL, &request));                \
        for (int round_ = 0; round_ < 2; round_++) {                                        \
            fill(step_in);                                                                  \
            OK(MPI_Start(&request));                                                        \
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                      \
            judgement;                                                                      \
        }                                                                                   \
        OK(MPI_Request_free(&request));                                                     \
    } while (0)

#define ALL(NAME, step_in, judgement, ...)                                                  \
    do {                                                                                    \
        FORMS(NAME, step_in, judgement, __VA_ARGS__);                                       \
        AGAIN(NAME##_init, step_in, judgement, __VA_ARGS__);                                \
    } while (0)
#define ALL_LARGE(NAME, step_in, judgement, ...)                                            \
    do {                                                                                    \
        FORMS(NAME##_c, step_in, judgement, __VA_ARGS__);                                   \
        AGAIN(NAME##_init_c, step_in, judgement, __VA_ARGS__);                              \
    } while (0)

static void exchange(void)
{
    int counts[MOST], places[MOST], spread[MOST];
    MPI_Count wide_counts[MOST];
    MPI_Aint wide_places[MOST], wide_spread[MOST], bytes[MOST], bytes_spread[MOST];
    MPI_Datatype ints[MOST], gaps[MOST];
    for (int i = 0; i < MOST; i++) {
        counts[i] = wide_counts[i] = LEN;
        places[i] = wide_places[i] = i * LEN;
        spread[i] = wide_spread[i] = i * (LEN + 1);
        bytes[i] = i * LEN * (int)sizeof(int);
        bytes_spread[i] = i * (2 * LEN + 1) * (int)sizeof(int);
        ints[i] = MPI_INT, gaps[i] = spaced;
    }
    ALL(allgather, 1, judge(LEN, 1, 1), input, LEN, MPI_INT, output, LEN, MPI_INT);
    ALL(allgather, 1, judge(2 * LEN, 2, 1), input, LEN, MPI_INT, output, LEN, spaced);
    ALL_LARGE(allgather, 2, judge(LEN, 1, 1), input, LEN, spaced, output, LEN, MPI_INT);
    ALL(allgatherv, 1, judge(LEN + 1, 1, 1), input, LEN, MPI_INT, output, counts, spread, MPI_INT);
    ALL_LARGE(allgatherv, 2, judge(2 * LEN + 2, 2, 1), input, LEN, spaced, output, wide_counts,
              wide_spread, spaced);
    ALL(alltoall, 1, judge(LEN, 1, 0), input, LEN, MPI_INT, output, LEN, MPI_INT);
    ALL_LARGE(alltoall, 2, judge(2 * LEN, 2, 0), input, LEN, spaced, output, LEN, spaced);
    ALL(alltoallv, 2, judge(LEN + 1, 1, 0), input, counts, places, spaced, output, counts, spread,
        MPI_INT);
    ALL_LARGE(alltoallv, 1, judge(2 * LEN + 2, 2, 0), input, wide_counts, wide_places, MPI_INT, output,
              wide_counts, wide_spread, spaced);
    ALL(alltoallw, 1, judge(2 * LEN + 1, 2, 0), input, counts, bytes, ints, output, counts,
        bytes_spread, gaps);
    ALL_LARGE(alltoallw, 1, judge(2 * LEN + 1, 1, 0), input, wide_counts, bytes, ints, output,
              wide_counts, bytes_spread, ints);
    FAILS(MPI_ERR_BUFFER, MPI_Neighbor_alltoall(MPI_IN_PLACE, LEN, MPI_INT, output, LEN, MPI_INT, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Neighbor_allgather(input, 0, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, comm));
    if (ins > 0)
        FAILS(MPI_ERR_BUFFER, MPI_Neighbor_allgather(output, LEN, MPI_INT, output, LEN, MPI_INT, comm));
    OK(MPI_Comm_free(&comm));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    rank = rank_of(MPI_COMM_WORLD);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced));
    OK(MPI_Type_commit(&spaced));

    /* Grids: a ring of one rank beside a ring of all, a line, and no dimensions. */
    for (int ring = 0; ring < 2; ring++) {
        int dims[2] = {size, 1}, periods[2] = {ring, ring};
        OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm));
        for (int i = 0; i < 2; i++) {
            OK(MPI_Cart_shift(comm, i, 1, &from[2 * i], &from[2 * i + 1]));
            /* What goes down arrives from above, also where both are one rank. */
            of[2 * i] = 2 * i + 1, of[2 * i + 1] = 2 * i;
        }
        ins = 4;
        exchange();
    }
    OK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &comm));
    ins = 0;
    if (comm != MPI_COMM_NULL)
        exchange();

    /* A star with the first rank in the middle, which is its own neighbour. */
    int indx[64], edges[128], n = 0;
    for (int i = 0; i < size && i < MOST; i++)
        edges[n++] = i;
    indx[0] = n;
    for (int i = 1; i < n; i++)
        edges[indx[i - 1]] = 0, indx[i] = indx[i - 1] + 1;
    OK(MPI_Graph_create(MPI_COMM_WORLD, n, indx, edges, 0, &comm));
    if (comm != MPI_COMM_NULL) {
        ins = rank == 0 ? n : 1;
        for (int i = 0; i < ins; i++)
            from[i] = rank == 0 ? i : 0, of[i] = rank == 0 ? 0 : rank;
        exchange();
    }

    /* Two edges to each of the two next ranks: the order of edges says which is which. */
    int next[4], before[4];
    for (int i = 0; i < 4; i++) {
        int by = i % 2 + 1;
        next[i] = (rank + by) % size, before[i] = (rank + 2 * size - by) % size;
        from[i] = before[i], of[i] = i;
    }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 4, before, MPI_UNWEIGHTED, 4, next, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &comm));
    ins = 4;
    exchange();
    OK(MPI_Type_free(&spaced));
    OK(MPI_Finalize());
    done(rank);
    return 0;
}
