/*
 * Two-rank figures: ping-pong latency, and windowed bandwidth and message rate in the manner of
 * osu_bw (one buffer per side, used by every message of a window, hence cache-hot; the receiver
 * answers each window with one small message). The late forms (latelat, latebw) receive a message when
 * a probe has found it, so that no receive is posted before its message has come.
 *
 * Checking: before the clock starts every byte of a round of messages in separate buffers is
 * compared with a pattern. While the clock runs each message carries its sequence number in its
 * first and last eight bytes, and the receiver compares both: two loads per message or window.
 */
#define _GNU_SOURCE
#include "mpibench.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_DATA = 1, TAG_ACK = 2, WINDOW_MAX = 256 };

static unsigned char pattern_byte(size_t position, unsigned seed)
{
    return (unsigned char)(position * 31u + position / 251u + seed * 17u + 7u);
}

static void fill(unsigned char *data, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        data[i] = pattern_byte(i, seed);
}

static int check(const unsigned char *data, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != pattern_byte(i, seed))
            return fail("byte %zu of message %u of %zu bytes is wrong", i, seed, size);
    return 0;
}

/*
 * Writes the sequence number over both ends of the payload. Sizes below 8 carry its low bytes. The
 * usual copies have a constant length, since calls of memcpy would be a part of the latency.
 */
static inline void stamp(unsigned char *data, size_t size, uint64_t sequence)
{
    if (size >= sizeof sequence) {
        memcpy(data, &sequence, sizeof sequence);
        memcpy(data + size - sizeof sequence, &sequence, sizeof sequence);
    } else {
        memcpy(data, &sequence, size);
    }
}

static inline int is_stamped(const unsigned char *data, size_t size, uint64_t sequence)
{
    uint64_t first;
    uint64_t last;
    if (size < sizeof sequence)
        return memcmp(data, &sequence, size) == 0;
    memcpy(&first, data, sizeof first);
    memcpy(&last, data + size - sizeof last, sizeof last);
    return first == sequence && last == sequence;
}

static inline int check_stamp(const unsigned char *data, size_t size, uint64_t sequence)
{
    if (!is_stamped(data, size, sequence))
        return fail("message %llu of %zu bytes is wrong", (unsigned long long)sequence, size);
    return 0;
}

/* Page-aligned and touched, so that no page fault falls into the timed part. */
static unsigned char *buffer(size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, size + 64) != 0)
        return NULL;
    memset(memory, 0, size + 64);
    return memory;
}

/*
 * Separate, fully checked messages in both directions at once: at most 8 and at most 1 MB of them,
 * but always one.
 */
static int verify(size_t size)
{
    size_t fitting = size == 0 ? 8 : ((size_t)1 << 20) / size;
    int window = fitting < 1 ? 1 : fitting > 8 ? 8 : (int)fitting;
    int peer = 1 - world_rank;
    size_t length = size * (size_t)window;
    unsigned char *out = buffer(length);
    unsigned char *in = buffer(length);
    MPI_Request requests[2 * WINDOW_MAX];
    int status = 0;
    if (out == NULL || in == NULL)
        return fail("no memory for %zu bytes", length);
    for (int i = 0; i < window; i++)
        fill(out + size * (size_t)i, size, (unsigned)(2 * i + world_rank));
    for (int i = 0; i < window; i++)
        MPI_Irecv(in + size * (size_t)i, (int)size, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD,
                  &requests[i]);
    for (int i = 0; i < window; i++)
        MPI_Isend(out + size * (size_t)i, (int)size, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD,
                  &requests[window + i]);
    MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < window && status == 0; i++)
        status = check(in + size * (size_t)i, size, (unsigned)(2 * i + peer));
    free(out);
    free(in);
    return status;
}

/* Whether this test's receives are posted late. */
static int is_late(const struct order *order)
{
    return strncmp(order->test, "late", 4) == 0;
}

static inline void receive(unsigned char *in, int bytes, int peer, int late)
{
    if (late)
        MPI_Probe(peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(in, bytes, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* `count` round trips; the sequence numbers start at `first`. */
static int ping_pong(unsigned char *out, unsigned char *in, size_t size, uint64_t first, int count,
                     int late)
{
    int bytes = (int)size;
    for (int i = 0; i < count; i++) {
        uint64_t sequence = first + (uint64_t)i;
        stamp(out, size, sequence);
        if (world_rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
            receive(in, bytes, 1, late);
        } else {
            receive(in, bytes, 0, late);
            MPI_Send(out, bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
        }
        if (check_stamp(in, size, sequence) != 0)
            return -1;
    }
    return 0;
}

/* `count` windows of `window` messages from rank 0 to rank 1, each answered once. */
static int stream(unsigned char *data, size_t size, int window, uint64_t first, int count,
                  double *sample_ns, int late)
{
    MPI_Request requests[WINDOW_MAX];
    int bytes = (int)size;
    char answer = 0;
    for (int i = 0; i < count; i++) {
        uint64_t sequence = first + (uint64_t)i;
        if (world_rank == 0) {
            stamp(data, size, sequence);
            double start = now_ns();
            for (int j = 0; j < window; j++)
                MPI_Isend(data, bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[j]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(&answer, 1, MPI_CHAR, 1, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (sample_ns != NULL)
                sample_ns[i] = (now_ns() - start) / window;
        } else {
            for (int j = 0; j < window; j++)
                if (late)
                    receive(data, bytes, 0, late);
                else
                    MPI_Irecv(data, bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &requests[j]);
            if (!late)
                MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Send(&answer, 1, MPI_CHAR, 0, TAG_ACK, MPI_COMM_WORLD);
            if (check_stamp(data, size, sequence) != 0)
                return -1;
        }
    }
    return 0;
}

static int latency_between(const struct order *order, struct samples *samples,
                           unsigned char *out, unsigned char *in, int batch, int batches,
                           uint64_t *sequence)
{
    for (int i = 0; i < batches; i++) {
        double start = now_ns();
        if (ping_pong(out, in, order->size, *sequence, batch, is_late(order)) != 0)
            return -1;
        *sequence += (uint64_t)batch;
        if (samples != NULL)
            samples->ns[samples->count++] = (now_ns() - start) / (2.0 * batch);
    }
    return 0;
}

/*
 * One-way latency: half of a round trip. Up to 4 KB a sample is the mean of 8 round trips, which
 * keeps the cost of reading the clock out of the figure; above, one round trip.
 */
int run_latency(const struct order *order, struct samples *samples)
{
    int active = world_rank < 2;
    int batch = order->size <= 4096 ? 8 : 1;
    uint64_t sequence = 1;
    double batch_ns = 0.0;
    unsigned char *out = buffer(order->size);
    unsigned char *in = buffer(order->size);
    int status = 0;
    if (out == NULL || in == NULL)
        return fail("no memory for %zu bytes", order->size);
    if (active)
        status = verify(order->size);
    /* Two rounds of warm-up: the first finds how long the second, a fifth of the budget, is. */
    for (int round = 0; round < 2 && status == 0; round++) {
        int batches = round == 0 ? 4 : agree_on_batches(order->budget_ns / 5.0, batch_ns, 1);
        double start = now_ns();
        if (active)
            status = latency_between(order, NULL, out, in, batch, batches, &sequence);
        batch_ns = (now_ns() - start) / batches;
    }
    if (status == 0) {
        int batches = agree_on_batches(order->budget_ns, batch_ns, SAMPLES_MIN);
        status = reserve_samples(samples, batches, batch);
        if (active && status == 0)
            status = latency_between(order, samples, out, in, batch, batches, &sequence);
    }
    free(out);
    free(in);
    return status;
}

/* Bandwidth and message rate: a sample is one window, as time per message. */
int run_bandwidth(const struct order *order, struct samples *samples)
{
    int active = world_rank < 2;
    int window = order->window;
    uint64_t sequence = 1;
    double window_ns = 0.0;
    if (window < 1)
        return fail("%s needs a window of at least one message", order->test);
    int status = 0;
    if (window > WINDOW_MAX)
        return fail("window %d is above %d", window, WINDOW_MAX);
    unsigned char *data = buffer(order->size);
    if (data == NULL)
        return fail("no memory for %zu bytes", order->size);
    if (active)
        status = verify(order->size);
    for (int round = 0; round < 2 && status == 0; round++) {
        int windows = round == 0 ? 2 : agree_on_batches(order->budget_ns / 5.0, window_ns, 1);
        double start = now_ns();
        if (active)
            status = stream(data, order->size, window, sequence, windows, NULL, is_late(order));
        sequence += (uint64_t)windows;
        window_ns = (now_ns() - start) / windows;
    }
    if (status == 0) {
        int windows = agree_on_batches(order->budget_ns, window_ns, SAMPLES_MIN);
        status = reserve_samples(samples, windows, window);
        if (active && status == 0)
            status = stream(data, order->size, window, sequence, windows, samples->ns,
                            is_late(order));
        samples->count = (size_t)windows;
    }
    free(data);
    return status;
}
