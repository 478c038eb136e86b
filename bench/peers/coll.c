/*
 * Figures of all ranks: barrier and allreduce. A sample is the mean of 8 operations as rank 0 sees
 * them: with more ranks than cores single operations differ too much to have a meaning. Operations
 * that take longer than a millisecond are sampled one by one.
 *
 * Checking: no rank may leave a barrier before the last one entered it (all ranks read one
 * machine's clock); every sum of every allreduce is compared with the formula.
 */
#include "mpibench.h"

#include <stdlib.h>

enum { BATCH_MAX = 8, ELEMENTS_MAX = 1 << 20 };

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

static int64_t in_values[ELEMENTS_MAX / 8];
static int64_t out_values[ELEMENTS_MAX / 8];

/* Rank r contributes sequence + r at the first and last place: the sum is known. */
static int allreduces(const struct order *order, int count, uint64_t first)
{
    int elements = (int)(order->size / sizeof *in_values);
    int64_t ranks = world_size;
    for (int i = 0; i < count; i++) {
        int64_t sequence = (int64_t)first + i;
        int64_t expected = sequence * ranks + ranks * (ranks - 1) / 2;
        in_values[0] = in_values[elements - 1] = sequence + world_rank;
        MPI_Allreduce(in_values, out_values, elements, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (out_values[0] != expected || out_values[elements - 1] != expected)
            return fail("allreduce %lld gave a wrong sum", (long long)sequence);
    }
    return 0;
}

static int run_batches(const struct order *order, struct samples *samples,
                       int (*operation)(const struct order *, int, uint64_t))
{
    uint64_t sequence = 1;
    int batch = 1;
    double batch_ns = 0.0;
    for (int round = 0; round < 2; round++) {
        int batches = round == 0 ? 2 : agree_on_batches(order->budget_ns / 5.0, batch_ns, 1);
        double start = now_ns();
        if (operation(order, batches * batch, sequence) != 0)
            return -1;
        sequence += (uint64_t)(batches * batch);
        batch_ns = (now_ns() - start) / batches;
        if (round == 0) {
            int wanted = batch_ns < 1e6 ? BATCH_MAX : 1;
            MPI_Bcast(&wanted, 1, MPI_INT, 0, MPI_COMM_WORLD);
            batch_ns *= wanted;
            batch = wanted;
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
    return run_batches(order, samples, barriers);
}

int run_allreduce(const struct order *order, struct samples *samples)
{
    if (order->size < sizeof *in_values || order->size > ELEMENTS_MAX)
        return fail("allreduce of %zu bytes is outside 8..%d", order->size, ELEMENTS_MAX);
    return run_batches(order, samples, allreduces);
}
