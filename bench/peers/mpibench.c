/*
 * mpibench: the benchmark program that every MPI peer runs.
 *
 *   mpibench init                          MPI_Init and MPI_Finalize, nothing else
 *   mpibench TEST:SIZE:WINDOW:MILLIS ...   one JSON line per figure, printed by rank 0
 *   mpibench by:NAME;NAME... TEST:...      the same for each of these algorithms of a collective, in turns
 *
 * TEST is lat, bw, rate, latelat, latebw or a layout of layouts.c (ranks 0 and 1), barrier or a collective of coll.c (all
 * ranks); SIZE is in bytes; MILLIS bounds the timed part of the figure. Rank r pins itself to the CPU that stands at place
 * r modulo n in the list of n CPUs of the environment variable BENCH_CPUS ("0,1"), before
 * MPI_Init, so that every peer is placed alike and helper threads inherit the placement.
 * Payloads are checked: a wrong byte ends the program with status 1.
 */
#define _GNU_SOURCE
#include "mpibench.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int world_rank;
int world_size;

int fail(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "mpibench: rank %d: ", world_rank);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return -1;
}

int reserve_samples(struct samples *samples, int batches, int batch)
{
    samples->ns = malloc((size_t)batches * sizeof *samples->ns);
    samples->count = 0;
    samples->batch = batch;
    return samples->ns != NULL ? 0 : fail("no memory for %d samples", batches);
}

/* The rank as the launcher tells it before MPI_Init, or -1. */
static int launcher_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL)
            return atoi(value);
    }
    return -1;
}

/* Pins this process by BENCH_CPUS. Unset means: leave the placement to the launcher. */
static int pin(void)
{
    const char *list = getenv("BENCH_CPUS");
    int cpus[64];
    int count = 0;
    if (list == NULL || *list == '\0')
        return 0;
    world_rank = launcher_rank();
    if (world_rank < 0)
        return fail("the launcher sets no rank variable (PMI_RANK, OMPI_COMM_WORLD_RANK)");
    while (*list != '\0' && count < 64) {
        char *end;
        cpus[count++] = (int)strtol(list, &end, 10);
        if (end == list)
            return fail("BENCH_CPUS is not a list of CPU numbers");
        list = *end == ',' ? end + 1 : end;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[world_rank % count], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return fail("cannot pin to CPU %d", cpus[world_rank % count]);
    return 0;
}

static int parse_order(const char *text, struct order *order)
{
    static char names[64][24];
    static int used;
    size_t size;
    double millis;
    if (used == 64)
        return fail("more than 64 figures in one run");
    if (sscanf(text, "%23[a-z]:%zu:%d:%lf", names[used], &size, &order->window, &millis) != 4 ||
        order->window < 0 || millis <= 0.0)
        return fail("'%s' is not TEST:SIZE:WINDOW:MILLIS", text);
    order->test = names[used++];
    order->size = size;
    order->budget_ns = millis * 1e6;
    return 0;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Nearest-rank percentile of sorted samples. */
static double percentile(const struct samples *samples, double fraction)
{
    size_t place = (size_t)(fraction * (double)samples->count);
    return samples->ns[place < samples->count ? place : samples->count - 1];
}

static void print_figure(const struct order *order, struct samples *samples)
{
    double sum = 0.0;
    for (size_t i = 0; i < samples->count; i++)
        sum += samples->ns[i];
    qsort(samples->ns, samples->count, sizeof *samples->ns, ascending);
    double median = percentile(samples, 0.5);
    printf("{\"test\":\"%s\",\"size\":%zu,\"ranks\":%d,\"window\":%d,\"iterations\":%zu,"
           "\"batch\":%d,\"median_ns\":%.3f,\"mean_ns\":%.3f,\"p99_ns\":%.3f,\"min_ns\":%.3f,"
           "\"spread_ns\":%.3f,\"mbytes_per_s\":%.3f,\"messages_per_s\":%.1f}\n",
           order->test, order->size, world_size, order->window,
           samples->count * (size_t)samples->batch, samples->batch, median,
           sum / (double)samples->count, percentile(samples, 0.99), samples->ns[0],
           samples->spread_ns, (double)order->size * 1e3 / median, 1e9 / median);
    fflush(stdout);
}

static int run_order(const struct order *order, const char *algorithms)
{
    static const struct {
        const char *test;
        runner run;
        int ranks_min;
    } table[] = {
        {"lat", run_latency, 2},          {"bw", run_bandwidth, 2},
        {"latelat", run_latency, 2},      {"latebw", run_bandwidth, 2},
        {"rate", run_bandwidth, 2},       {"barrier", run_barrier, 1},
        {"allreduce", run_collective, 1}, {"bcast", run_collective, 1},
        {"reduce", run_collective, 1},    {"allgather", run_collective, 1},
        {"alltoall", run_collective, 1},  {"reducescatter", run_collective, 1},
        {"allreducelast", run_collective, 1}, {"bcastlast", run_collective, 1},
        {"allgatherlast", run_collective, 1}, {"reducescatterlast", run_collective, 1},
        {"vector", run_layout, 2},        {"blocks", run_layout, 2},
        {"indexed", run_layout, 2},       {"struct", run_layout, 2},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(order->test, table[i].test) != 0)
            continue;
        if (world_size < table[i].ranks_min)
            return fail("%s needs %d ranks", order->test, table[i].ranks_min);
        if (algorithms != NULL && table[i].run == run_collective)
            return run_versus(order, algorithms);
        struct samples samples = {0};
        int status = table[i].run(order, &samples);
        if (status == 0 && world_rank == 0)
            print_figure(order, &samples);
        free(samples.ns);
        return status;
    }
    return fail("no test named '%s'", order->test);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: mpibench init | mpibench TEST:SIZE:WINDOW:MILLIS ...\n", stderr);
        return 2;
    }
    if (pin() != 0)
        return 1;
    MPI_Init(&argc, &argv);
    if (strcmp(argv[1], "init") == 0)
        return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    const char *algorithms = NULL;
    for (int i = 1; i < argc; i++) {
        struct order order;
        if (strncmp(argv[i], "by:", 3) == 0) {
            algorithms = argv[i] + 3;
            continue;
        }
        if (parse_order(argv[i], &order) != 0 || run_order(&order, algorithms) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
