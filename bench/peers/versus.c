/*
 * Several algorithms of one collective within one job: each on a communicator of its own, which asks for it by the info
 * key `bowline_COLLECTIVE`. Processes, connections and the load of the machine are the same for all.
 *
 * In each round every algorithm has one sample, in an order that is drawn anew, the same at all ranks, with a barrier
 * before each. Of a test with "last" behind its name a sample is one operation, from the last call (of a broadcast the
 * root's) to the last return; of others it is the mean of a block as rank 0 sees it. An algorithm that took more than
 * SLOW times the best in each of TRIALS trials has no further samples. The trials come after WARM_NS: a communicator's
 * first call prepares what the later ones use, and the scheduler takes some milliseconds to place new processes.
 *
 * Beside the figures over all rounds there are the medians of the even rounds and of the odd ones: an algorithm that is
 * picked as the best by the one and compared by the other has no advantage of its luck.
 */
#include "mpibench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALGORITHMS_MAX = 32, TRIALS = 3, SLOW = 3, ROUNDS_MIN = 6, ROUNDS_MAX = 5000 };

/* Nanoseconds of rounds before the trials; one round at least. */
#define WARM_NS 3e7

struct algorithm {
    char name[64];
    MPI_Comm comm;
    int slow;
    double trial_ns;
    /* Rank 0's, one for each round. */
    double *took;
    double *spread;
};

static struct algorithm algorithms[ALGORITHMS_MAX];
static int count;

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, int number)
{
    qsort(values, (size_t)number, sizeof *values, ascending);
    return number > 0 ? values[number / 2] : 0.0;
}

/* Makes the communicators of names that semicolons part. */
static int make(const char *collective, const char *names)
{
    char key[64];
    const char *name = names;
    snprintf(key, sizeof key, "bowline_%s", collective);
    for (count = 0; *name != '\0'; count++) {
        size_t length = strcspn(name, ";");
        MPI_Info info;
        if (count == ALGORITHMS_MAX || length >= sizeof algorithms->name)
            return fail("'%s' are too many algorithms, or their names are too long", names);
        memcpy(algorithms[count].name, name, length);
        algorithms[count].name[length] = '\0';
        algorithms[count].slow = 0;
        MPI_Info_create(&info);
        MPI_Info_set(info, key, algorithms[count].name);
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &algorithms[count].comm);
        MPI_Info_free(&info);
        name += length + (name[length] == ';');
    }
    return count > 0 ? 0 : fail("no algorithms");
}

/* The order of a round: a permutation that all ranks draw alike. */
static void shuffle(int *order, uint64_t round)
{
    uint64_t state = round * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int other = (int)((state >> 33) % (uint64_t)(i + 1));
        int kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* One sample: this rank's call and return, of which a root's call alone counts, if there is one; or a block's mean as
 * two times. */
static int sample(const struct order *order, MPI_Comm comm, int64_t first, double *called,
                  double *returned)
{
    int last = order->window <= 1 && collective_is_apart(order->test);
    int operations = last || order->window < 1 ? 1 : order->window;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now_ns();
    for (int i = 0; i < operations; i++) {
        if (!collective_once(order->test, comm, first + i))
            return fail("%s %lld gave a wrong result", order->test, (long long)first + i);
    }
    double end = now_ns();
    if (last) {
        int counts = !collective_is_rooted(order->test) || world_rank == first % world_size;
        *called = counts ? start : 0.0;
        *returned = end;
    } else {
        *called = world_rank == 0 ? start : 0.0;
        *returned = world_rank == 0 ? start + (end - start) / operations : 0.0;
    }
    return 0;
}

/* What one round took, into the place `round` of each algorithm that takes part. */
static int take_round(const struct order *order, int round, int trial, int64_t *sequence)
{
    int turns[ALGORITHMS_MAX];
    double mine[3 * ALGORITHMS_MAX];
    double worst[3 * ALGORITHMS_MAX];
    int step = order->window > 1 ? order->window : 1;
    memset(mine, 0, sizeof mine);
    shuffle(turns, (uint64_t)(trial ? round + 1000000 : round));
    for (int i = 0; i < count; i++) {
        int at = turns[i];
        double returned = 0.0;
        if (algorithms[at].slow)
            continue;
        if (sample(order, algorithms[at].comm, *sequence, &mine[3 * at], &returned) != 0)
            return -1;
        mine[3 * at + 1] = returned;
        mine[3 * at + 2] = returned > 0.0 ? -returned : -1e300;
        *sequence += step;
    }
    MPI_Reduce(mine, worst, 3 * count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int at = 0; at < count && world_rank == 0; at++) {
        double took = worst[3 * at + 1] - worst[3 * at];
        if (algorithms[at].slow)
            continue;
        if (trial && (round == 0 || took < algorithms[at].trial_ns))
            algorithms[at].trial_ns = took;
        algorithms[at].took[round] = took;
        algorithms[at].spread[round] = worst[3 * at + 1] + worst[3 * at + 2];
    }
    return 0;
}

/* Rounds that do not count; rank 0 decides how many. */
static int warm_up(const struct order *order, int64_t *sequence)
{
    double start = now_ns();
    int again = 1;
    while (again) {
        if (take_round(order, 0, 1, sequence) != 0)
            return -1;
        again = now_ns() - start < WARM_NS;
        MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return 0;
}

/* Leaves out what is slow by far; rank 0 decides. */
static void leave_out(void)
{
    int slow[ALGORITHMS_MAX] = {0};
    double best = algorithms[0].trial_ns;
    for (int at = 1; at < count; at++)
        best = algorithms[at].trial_ns < best ? algorithms[at].trial_ns : best;
    for (int at = 0; at < count; at++)
        slow[at] = algorithms[at].trial_ns > SLOW * best;
    MPI_Bcast(slow, count, MPI_INT, 0, MPI_COMM_WORLD);
    for (int at = 0; at < count; at++)
        algorithms[at].slow = slow[at];
}

static void print_line(const struct order *order, struct algorithm *algorithm, int rounds)
{
    double *half = malloc((size_t)rounds * sizeof *half);
    double halves[2];
    if (half == NULL)
        return;
    for (int odd = 0; odd < 2; odd++) {
        int number = 0;
        for (int i = odd; i < rounds; i += 2)
            half[number++] = algorithm->took[i];
        halves[odd] = median(half, number);
    }
    free(half);
    double middle = median(algorithm->took, rounds);
    printf("{\"test\":\"%s\",\"size\":%zu,\"ranks\":%d,\"window\":%d,\"algorithm\":\"%s\","
           "\"iterations\":%d,\"median_ns\":%.3f,\"min_ns\":%.3f,\"spread_ns\":%.3f,"
           "\"halves_ns\":[%.3f,%.3f]}\n",
           order->test, order->size, world_size, order->window, algorithm->name, rounds, middle,
           algorithm->took[0], median(algorithm->spread, rounds), halves[0], halves[1]);
    fflush(stdout);
}

/* Warms up, then trials, then as many rounds as the budget of each algorithm allows. */
static int take_all(const struct order *order)
{
    int64_t sequence = 1;
    int left = 0;
    double start = 0.0;
    if (warm_up(order, &sequence) != 0)
        return -1;
    for (int round = 0; round < TRIALS; round++) {
        if (take_round(order, round, 1, &sequence) != 0)
            return -1;
    }
    leave_out();
    for (int at = 0; at < count; at++)
        left += !algorithms[at].slow;
    MPI_Barrier(MPI_COMM_WORLD);
    start = now_ns();
    if (take_round(order, TRIALS, 1, &sequence) != 0)
        return -1;
    double round_ns = now_ns() - start;
    int rounds = agree_on_batches(order->budget_ns * left, round_ns, ROUNDS_MIN);
    rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
    for (int round = 0; round < rounds; round++) {
        if (take_round(order, round, 0, &sequence) != 0)
            return -1;
    }
    for (int at = 0; at < count && world_rank == 0; at++)
        print_line(order, &algorithms[at], algorithms[at].slow ? TRIALS : rounds);
    return 0;
}

int run_versus(const struct order *order, const char *names)
{
    const char *collective = collective_key(order->test);
    int status = collective == NULL ? fail("%s has no algorithms", order->test)
                                    : make(collective, names);
    double *times = calloc((size_t)ROUNDS_MAX * 2 * ALGORITHMS_MAX, sizeof *times);
    if (status == 0 && times == NULL)
        status = fail("no memory for samples");
    for (int at = 0; times != NULL && at < count; at++) {
        algorithms[at].took = times + (size_t)ROUNDS_MAX * 2 * (size_t)at;
        algorithms[at].spread = algorithms[at].took + ROUNDS_MAX;
    }
    if (status == 0)
        status = collective_prepare(order);
    if (status == 0)
        status = take_all(order);
    collective_release();
    for (int at = 0; status == 0 && at < count; at++)
        MPI_Comm_free(&algorithms[at].comm);
    free(times);
    return status;
}
