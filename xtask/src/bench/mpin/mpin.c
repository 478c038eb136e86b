/* Two programs of work that was published about receiver-initiated messages, for any MPI.
 *
 *   mpin any BYTES MILLIS             rank 0 receives from any source what all other ranks send
 *   mpin master any|each MILLIS       rank 0 hands out items of 10 to 16 KB and collects results as long
 *
 * Receives are posted before their messages are sent: in `any` the senders wait for an empty message, in `master` a
 * worker posts the receive of its next item before it sends a result, and rank 0 posts its receives, from any source
 * or one for each worker, before it hands out. Every message is checked. Rank 0 prints the median of its samples in
 * nanoseconds: of one message in `any`, of one item in `master`. Ranks pin themselves to the processors of the
 * environment's BENCH_CPUS, one after the other, before MPI_Init. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DATA = 1, GO = 2, STOP = 3, SHORTEST = 10 << 10, LONGEST = 16 << 10, SAMPLES = 100000, BLOCK = 16 };

#define MUST(condition)                                                 \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf(stderr, "%d: not so: %s\n", __LINE__, #condition);  \
            exit(1);                                                    \
        }                                                               \
    } while (0)

static double samples[SAMPLES];
static int taken;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void report(void)
{
    MUST(taken > 0);
    qsort(samples, (size_t)taken, sizeof *samples, ascending);
    printf("%.1f\n", samples[taken / 2]);
    fflush(stdout);
}

/* Places this process, by what the launcher says of its rank. */
static void pin(void)
{
    static const char *const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"};
    const char *list = getenv("BENCH_CPUS"), *rank = NULL;
    int cpus[64], count = 0;
    for (size_t i = 0; rank == NULL && i < sizeof names / sizeof *names; i++)
        rank = getenv(names[i]);
    if (list == NULL || rank == NULL)
        return;
    while (*list != '\0' && count < 64) {
        char *end;
        cpus[count++] = (int)strtol(list, &end, 10);
        MUST(end != list);
        list = *end == ',' ? end + 1 : end;
    }
    MUST(count > 0);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[atoi(rank) % count], &set);
    MUST(sched_setaffinity(0, sizeof set, &set) == 0);
}

/* A message says at both ends who has sent it, and as its how many-th. */
static void stamp(char *message, int bytes, int rank, int number)
{
    int32_t word = rank << 24 | (number & 0xffffff);
    memcpy(message, &word, sizeof word);
    memcpy(message + bytes - sizeof word, &word, sizeof word);
}

static int number_in(const char *message, int bytes, int rank)
{
    int32_t first, last;
    memcpy(&first, message, sizeof first);
    memcpy(&last, message + bytes - sizeof last, sizeof last);
    MUST(first == last && first >> 24 == rank);
    return first & 0xffffff;
}

static char *buffer(int bytes)
{
    char *memory;
    MUST(MPI_Alloc_mem(bytes, MPI_INFO_NULL, &memory) == MPI_SUCCESS);
    memset(memory, 1, (size_t)bytes);
    return memory;
}

static void collect(int senders, int bytes, double until)
{
    char **into = malloc((size_t)senders * sizeof *into);
    MPI_Request *open = malloc((size_t)senders * sizeof *open);
    MPI_Status *statuses = malloc((size_t)senders * sizeof *statuses);
    MUST(into != NULL && open != NULL && statuses != NULL);
    for (int i = 0; i < senders; i++)
        into[i] = buffer(bytes);
    for (int round = 0; taken < SAMPLES; round++) {
        double start = now();
        int last = round >= 3 && start >= until;
        for (int i = 0; i < senders && !last; i++)
            MPI_Irecv(into[i], bytes, MPI_BYTE, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &open[i]);
        for (int rank = 1; rank <= senders; rank++)
            MPI_Send(NULL, 0, MPI_BYTE, rank, last ? STOP : GO, MPI_COMM_WORLD);
        if (last)
            return;
        MPI_Waitall(senders, open, statuses);
        double end = now();
        unsigned seen = 0;
        for (int i = 0; i < senders; i++) {
            int from = statuses[i].MPI_SOURCE;
            MUST(number_in(into[i], bytes, from) == (round & 0xffffff));
            seen |= 1u << from;
        }
        MUST(seen == (1u << (senders + 1)) - 2);
        /* The first rounds connect. */
        if (round >= 2)
            samples[taken++] = (end - start) / senders;
    }
    for (int rank = 1; rank <= senders; rank++)
        MPI_Send(NULL, 0, MPI_BYTE, rank, STOP, MPI_COMM_WORLD);
}

static void supply(int rank, int bytes)
{
    char *out = buffer(bytes);
    for (int round = 0;; round++) {
        MPI_Status status;
        MPI_Recv(NULL, 0, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == STOP)
            return;
        stamp(out, bytes, rank, round);
        MPI_Send(out, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
}

/* How long the item of this number is. */
static int length_of(int number)
{
    uint32_t drawn = (uint32_t)number * 2654435761u;
    return SHORTEST + (int)(drawn >> 8) % (LONGEST - SHORTEST + 1);
}

static void hand_out(int workers, int each, double until)
{
    int receives = each ? workers : 1;
    char **into = malloc((size_t)receives * sizeof *into);
    MPI_Request *open = malloc((size_t)receives * sizeof *open);
    int *sent = calloc((size_t)workers + 1, sizeof *sent);
    char *out = buffer(LONGEST);
    MUST(into != NULL && open != NULL && sent != NULL);
    for (int i = 0; i < receives; i++) {
        into[i] = buffer(LONGEST);
        MPI_Irecv(into[i], LONGEST, MPI_BYTE, each ? i + 1 : MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &open[i]);
    }
    int next = 0;
    for (int rank = 1; rank <= workers; rank++) {
        sent[rank] = next;
        stamp(out, length_of(next), rank, next);
        MPI_Send(out, length_of(next), MPI_BYTE, rank, DATA, MPI_COMM_WORLD);
        next++;
    }
    double start = now();
    int busy = workers, results = 0, warm = 4 * workers + BLOCK;
    while (busy > 0) {
        MPI_Status status;
        int at, bytes;
        MPI_Waitany(receives, open, &at, &status);
        int from = status.MPI_SOURCE, number = sent[from];
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        MUST(bytes == length_of(number) && number_in(into[at], bytes, from) == (number & 0xffffff));
        if (++results == warm)
            start = now();
        if (results > warm && (results - warm) % BLOCK == 0 && taken < SAMPLES) {
            double end = now();
            samples[taken++] = (end - start) / BLOCK;
            start = end;
        }
        int more = results < warm + 3 * BLOCK || now() < until;
        if (more || (!each && busy > 1))
            MPI_Irecv(into[at], LONGEST, MPI_BYTE, each ? from : MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &open[at]);
        if (!more) {
            MPI_Send(NULL, 0, MPI_BYTE, from, STOP, MPI_COMM_WORLD);
            busy--;
            continue;
        }
        sent[from] = next;
        stamp(out, length_of(next), from, next);
        MPI_Send(out, length_of(next), MPI_BYTE, from, DATA, MPI_COMM_WORLD);
        next++;
    }
}

/* Works on items until there are no more: each word of a result is a function of the item's. */
static void work(int rank)
{
    char *item = buffer(LONGEST), *result = buffer(LONGEST);
    MPI_Request next;
    MPI_Irecv(item, LONGEST, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &next);
    for (;;) {
        MPI_Status status;
        int bytes;
        MPI_Wait(&next, &status);
        if (status.MPI_TAG == STOP)
            return;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        int number = number_in(item, bytes, rank);
        for (int at = 0; at + 8 <= bytes; at += 8) {
            uint64_t word;
            memcpy(&word, item + at, 8);
            for (int step = 0; step < 4; step++)
                word = word * 6364136223846793005u + 1442695040888963407u;
            memcpy(result + at, &word, 8);
        }
        stamp(result, bytes, rank, number);
        MPI_Irecv(item, LONGEST, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &next);
        MPI_Send(result, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MUST(argc == 4);
    pin();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MUST(size >= 2 && size <= 32);
    double until = now() + atof(argv[3]) * 1e6;
    if (strcmp(argv[1], "any") == 0) {
        int bytes = atoi(argv[2]);
        MUST(bytes >= 4);
        if (rank == 0)
            collect(size - 1, bytes, until);
        else
            supply(rank, bytes);
    } else {
        int each = strcmp(argv[2], "each") == 0;
        MUST(strcmp(argv[1], "master") == 0 && (each || strcmp(argv[2], "any") == 0));
        if (rank == 0)
            hand_out(size - 1, each, until);
        else
            work(rank);
    }
    if (rank == 0)
        report();
    MPI_Finalize();
    return 0;
}
