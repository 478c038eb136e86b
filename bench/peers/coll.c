/*
 * Figures of all ranks. A sample is the mean of a batch of operations, one right after the other, as
 * rank 0 sees them: with more ranks than cores single operations differ too much to have a meaning.
 * A window above 0 is the batch. With window 0 it is 8, and 1 for operations that take longer than a
 * millisecond. Each rank is the root after the one before it, as in the Intel MPI Benchmarks: with one root,
 * which waits for nobody, the others would only show how far it is ahead. For the same reason a batch with roots has
 * each rank as the root equally often: rank 0 waits for nothing where it is the root, nor for what came while it waited
 * for the operation before, so the median of shorter batches can be below the latency of one message.
 *
 * With "last" behind its name a collective is measured one operation at a time, with a barrier between:
 * from the last rank's call (of a broadcast the root's) to the last rank's return, by the one clock of
 * the machine; the spread is the time between the first and the last return.
 *
 * Checking: no rank may leave a barrier before the last one entered it (all ranks read one
 * machine's clock); the first and the last 8 bytes of every block of every result are compared with
 * the formula.
 */
#include "mpibench.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 8, SIZE_MAX_BYTES = 1 << 20 };

/* Two barriers, entered late by a different rank each time. */
static int verify_barrier(void)
{
    for (int i = 0; i < 2; i++) {
        double mine[2];
        double worst[2];
        if (world_rank == i % world_size)
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        mine[0] = now_ns();
        MPI_Barrier(MPI_COMM_WORLD);
        mine[1] = -now_ns();
        MPI_Allreduce(mine, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (worst[0] > -worst[1])
            return fail("a rank left barrier %d %.0f ns too early", i, worst[0] + worst[1]);
    }
    return 0;
}

static int barriers(const struct order *order, int count, uint64_t first)
{
    (void)order;
    (void)first;
    for (int i = 0; i < count; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

/* Where operations take place. */
static MPI_Comm comm;
/* Memory for `world_size` blocks each; only as many are used as the operation has. */
static int64_t *in_values;
static int64_t *out_values;
static int elements; /* of one block */

static void mark(int64_t *block, int64_t value)
{
    block[0] = block[elements - 1] = value;
}

static int is_marked(const int64_t *block, int64_t value)
{
    return block[0] == value && block[elements - 1] == value;
}

/* What rank `from` contributes to operation `sequence` for rank `to`. */
static int64_t contribution(int64_t sequence, int from, int to)
{
    return (sequence << 24) + (from << 12) + to;
}

/* The sum of what all ranks contribute for rank 0. */
static int64_t sum_of_all(int64_t sequence)
{
    int64_t sum = 0;
    for (int from = 0; from < world_size; from++)
        sum += contribution(sequence, from, 0);
    return sum;
}

static int allreduce(int64_t sequence)
{
    mark(in_values, contribution(sequence, world_rank, 0));
    MPI_Allreduce(in_values, out_values, elements, MPI_INT64_T, MPI_SUM, comm);
    return is_marked(out_values, sum_of_all(sequence));
}

static int bcast(int64_t sequence)
{
    int root = (int)(sequence % world_size);
    mark(in_values, world_rank == root ? contribution(sequence, root, 0) : -1);
    MPI_Bcast(in_values, elements, MPI_INT64_T, root, comm);
    return is_marked(in_values, contribution(sequence, root, 0));
}

static int reduce(int64_t sequence)
{
    int root = (int)(sequence % world_size);
    mark(in_values, contribution(sequence, world_rank, 0));
    MPI_Reduce(in_values, out_values, elements, MPI_INT64_T, MPI_SUM, root, comm);
    return world_rank != root || is_marked(out_values, sum_of_all(sequence));
}

static int allgather(int64_t sequence)
{
    int right = 1;
    mark(in_values, contribution(sequence, world_rank, 0));
    MPI_Allgather(in_values, elements, MPI_INT64_T, out_values, elements, MPI_INT64_T,
                  comm);
    for (int from = 0; from < world_size; from++)
        right &= is_marked(out_values + (size_t)from * elements, contribution(sequence, from, 0));
    return right;
}

static int alltoall(int64_t sequence)
{
    int right = 1;
    for (int to = 0; to < world_size; to++)
        mark(in_values + (size_t)to * elements, contribution(sequence, world_rank, to));
    MPI_Alltoall(in_values, elements, MPI_INT64_T, out_values, elements, MPI_INT64_T,
                 comm);
    for (int from = 0; from < world_size; from++)
        right &= is_marked(out_values + (size_t)from * elements,
                           contribution(sequence, from, world_rank));
    return right;
}

/* The size is that of a rank's part of the result. */
static int reduce_scatter(int64_t sequence)
{
    for (int to = 0; to < world_size; to++)
        mark(in_values + (size_t)to * elements, contribution(sequence, world_rank, 0));
    MPI_Reduce_scatter_block(in_values, out_values, elements, MPI_INT64_T, MPI_SUM,
                             comm);
    return is_marked(out_values, sum_of_all(sequence));
}

static const struct collective {
    const char *test;
    const char *key;              /* its name in info keys */
    int (*run)(int64_t sequence); /* one operation; 0 if its result is wrong */
} collectives[] = {
    {"allreduce", "allreduce", allreduce}, {"bcast", "bcast", bcast},
    {"reduce", "reduce", reduce},          {"allgather", "allgather", allgather},
    {"alltoall", "alltoall", alltoall},    {"reducescatter", "reduce_scatter", reduce_scatter},
};

/* The collective of a test; tests come from the table of mpibench.c, so that there is one. */
static const struct collective *collective_of(const char *test)
{
    size_t length = strlen(test);
    const struct collective *collective = collectives;
    if (length > 4 && strcmp(test + length - 4, "last") == 0)
        length -= 4;
    while (strncmp(collective->test, test, length) != 0 || collective->test[length] != '\0')
        collective++;
    return collective;
}

static int operations(const struct order *order, int count, uint64_t first)
{
    const struct collective *collective = collective_of(order->test);
    for (int i = 0; i < count; i++) {
        if (!collective->run((int64_t)first + i))
            return fail("%s %lld gave a wrong result", order->test, (long long)first + i);
    }
    return 0;
}

/* A batch holds a multiple of `cycle` operations, unless there is a window. */
static int run_batches(const struct order *order, struct samples *samples, int cycle,
                       int (*operation)(const struct order *, int, uint64_t))
{
    uint64_t sequence = 1;
    int batch = order->window > 0 ? order->window : cycle;
    double batch_ns = 0.0;
    for (int round = 0; round < 2; round++) {
        int batches = round == 0 ? 2 : agree_on_batches(order->budget_ns / 5.0, batch_ns, 1);
        double start = now_ns();
        if (operation(order, batches * batch, sequence) != 0)
            return -1;
        sequence += (uint64_t)(batches * batch);
        batch_ns = (now_ns() - start) / batches;
        if (round == 0 && order->window == 0) {
            int cycles = batch_ns / batch < 1e6 ? (BATCH_MAX + cycle - 1) / cycle : 1;
            MPI_Bcast(&cycles, 1, MPI_INT, 0, MPI_COMM_WORLD);
            batch_ns *= cycles;
            batch *= cycles;
        }
    }
    int batches = agree_on_batches(order->budget_ns, batch_ns, SAMPLES_MIN);
    if (reserve_samples(samples, batches, batch) != 0)
        return -1;
    for (int i = 0; i < batches; i++) {
        double start = now_ns();
        if (operation(order, batch, sequence) != 0)
            return -1;
        samples->ns[samples->count++] = (now_ns() - start) / batch;
        sequence += (uint64_t)batch;
    }
    return 0;
}

int run_barrier(const struct order *order, struct samples *samples)
{
    if (verify_barrier() != 0)
        return -1;
    return run_batches(order, samples, 1, barriers);
}

/* Operations one at a time; how long each took goes into `took`, and the spread into `spread`. */
static int apart(const struct order *order, int count, uint64_t first, double *took, double *spread)
{
    const struct collective *collective = collective_of(order->test);
    int rooted = collective->run == bcast;
    double *mine = calloc((size_t)count * 3, sizeof *mine);
    double *worst = calloc((size_t)count * 3, sizeof *worst);
    int status = mine != NULL && worst != NULL ? 0 : fail("no memory for %d times", count);
    for (int i = 0; status == 0 && i < count; i++) {
        int64_t sequence = (int64_t)first + i;
        MPI_Barrier(MPI_COMM_WORLD);
        double called = now_ns();
        int right = collective->run(sequence);
        double returned = now_ns();
        mine[3 * i] = rooted && world_rank != sequence % world_size ? 0.0 : called;
        mine[3 * i + 1] = returned;
        mine[3 * i + 2] = -returned;
        if (!right)
            status = fail("%s %lld gave a wrong result", order->test, (long long)sequence);
    }
    if (status == 0) {
        MPI_Reduce(mine, worst, 3 * count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) {
            took[i] = worst[3 * i + 1] - worst[3 * i];
            spread[i] = worst[3 * i + 1] + worst[3 * i + 2];
        }
    }
    free(mine);
    free(worst);
    return status;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static int run_apart(const struct order *order, struct samples *samples)
{
    enum { TRIALS = 3, COUNT_MAX = 20000 };
    double trial[TRIALS];
    double start = now_ns();
    if (apart(order, TRIALS, 1, trial, trial) != 0)
        return -1;
    int count = agree_on_batches(order->budget_ns, (now_ns() - start) / TRIALS, SAMPLES_MIN);
    if (count > COUNT_MAX)
        count = COUNT_MAX;
    double *spread = malloc((size_t)count * sizeof *spread);
    int status = spread != NULL ? reserve_samples(samples, count, 1) : fail("no memory");
    if (status == 0)
        status = apart(order, count, TRIALS + 1, samples->ns, spread);
    if (status == 0) {
        samples->count = (size_t)count;
        qsort(spread, (size_t)count, sizeof *spread, ascending);
        samples->spread_ns = spread[count / 2];
    }
    free(spread);
    return status;
}

const char *collective_key(const char *test)
{
    return strcmp(test, "barrier") == 0 ? NULL : collective_of(test)->key;
}

int collective_is_apart(const char *test)
{
    return strcmp(collective_of(test)->test, test) != 0;
}

int collective_is_rooted(const char *test)
{
    return collective_of(test)->run == bcast;
}

int collective_once(const char *test, MPI_Comm where, int64_t sequence)
{
    comm = where;
    return collective_of(test)->run(sequence);
}

int collective_prepare(const struct order *order)
{
    size_t bytes = order->size * (size_t)world_size;
    if (order->size < sizeof *in_values || order->size > SIZE_MAX_BYTES || order->size % 8 != 0)
        return fail("%s of %zu bytes is no multiple of 8 in 8..%d", order->test, order->size,
                    SIZE_MAX_BYTES);
    comm = MPI_COMM_WORLD;
    elements = (int)(order->size / sizeof *in_values);
    in_values = malloc(bytes);
    out_values = malloc(bytes);
    if (in_values == NULL || out_values == NULL)
        return fail("no memory for %zu bytes", bytes);
    /* Every page is there before the first sample. */
    memset(in_values, 1, bytes);
    memset(out_values, 1, bytes);
    return 0;
}

void collective_release(void)
{
    free(in_values);
    free(out_values);
    in_values = out_values = NULL;
}

/* How many ranks are the root, one after the other. */
static int roots(const struct order *order)
{
    int (*run)(int64_t) = collective_of(order->test)->run;
    return run == bcast || run == reduce ? world_size : 1;
}

int run_collective(const struct order *order, struct samples *samples)
{
    int status = collective_prepare(order);
    if (status == 0 && collective_is_apart(order->test))
        status = run_apart(order, samples);
    else if (status == 0)
        status = run_batches(order, samples, roots(order), operations);
    collective_release();
    return status;
}
