/*
 * What the files of the peer benchmark share: one figure's order and result, the clock, and the
 * payload pattern. The program uses nothing beyond MPI-3.1 and POSIX, so that one source compiles
 * against every peer and against the MPI standard ABI.
 */
#ifndef MPIBENCH_H
#define MPIBENCH_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* One figure that was asked for on the command line. */
struct order {
    const char *test;  /* lat, bw, rate, barrier, a collective of coll.c, or a layout of layouts.c */
    size_t size;       /* payload of one message, bytes */
    int window;        /* messages in flight at once; of collectives: operations of a sample */
    double budget_ns;  /* how long the timed part may take, ns */
};

/* The samples of one figure. Only rank 0 fills it. */
struct samples {
    double *ns;   /* one sample: the mean time of one operation in one batch, ns */
    size_t count; /* samples taken */
    int batch;    /* operations per sample */
    double spread_ns; /* median time between the first and the last return; 0 where nobody measured it */
};

/* Runs one figure. Returns 0, or -1 after printing what went wrong to stderr. */
typedef int (*runner)(const struct order *, struct samples *);

int run_latency(const struct order *, struct samples *);
int run_bandwidth(const struct order *, struct samples *);
int run_barrier(const struct order *, struct samples *);
int run_collective(const struct order *, struct samples *);
int run_layout(const struct order *, struct samples *);

/* Runs a collective by several algorithms in turns, and prints a line for each. */
int run_versus(const struct order *, const char *algorithms);

/* The name of a test's collective in info keys; NULL if it has none. The test is one of the table in mpibench.c. */
const char *collective_key(const char *test);
/* Whether operations are measured one at a time; whether they have a root. */
int collective_is_apart(const char *test);
int collective_is_rooted(const char *test);
/* Memory for the operations of an order, which is given back even where there was none. */
int collective_prepare(const struct order *);
void collective_release(void);
/* One operation; 0 if its result is wrong. */
int collective_once(const char *test, MPI_Comm where, int64_t sequence);

/* Prints to stderr which rank failed at what, and returns -1. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Rank and number of ranks of MPI_COMM_WORLD. */
extern int world_rank;
extern int world_size;

/* The monotonic clock, ns. All ranks are on one machine, so their readings compare. */
static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Fewest samples of which a median means something. */
enum { SAMPLES_MIN = 5 };

/*
 * How many batches fit into the budget, when one batch took `batch_ns` before; rank 0 decides and
 * tells the others. At least `batches_min`, at most 200000.
 */
static inline int agree_on_batches(double budget_ns, double batch_ns, int batches_min)
{
    double wanted = budget_ns / (batch_ns > 1.0 ? batch_ns : 1.0);
    int batches = wanted < batches_min ? batches_min : wanted > 200000.0 ? 200000 : (int)wanted;
    MPI_Bcast(&batches, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return batches;
}

/* Space for `batches` samples; rank 0 alone needs it. Returns 0 or -1. */
int reserve_samples(struct samples *, int batches, int batch);

#endif
