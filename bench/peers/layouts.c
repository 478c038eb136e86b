/*
 * Two-rank figures of types that are not in one piece: half of a round trip of one message, whose
 * SIZE counts the bytes that travel. Both sides use the same type.
 *
 *   vector   every second double
 *   blocks   16 doubles of 32
 *   indexed  a list of pieces of 1 to 3 doubles with gaps of 1 to 4 between: two doubles each on
 *            average, so that 1.6 MB are 100,000 pieces
 *   struct   a char, three doubles and an int, with the gaps that a compiler leaves
 *
 * Checking: before the clock starts a message goes there and back, and every byte of the memory that
 * it comes back to is compared, also those that are no part of the type and must be as they were. While
 * the clock runs, the first and the last element carry a sequence number that the receiver compares.
 */
#define _GNU_SOURCE
#include "mpibench.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_DATA = 1 };

struct record {
    char mark;
    double place[3];
    int number;
};

enum { RECORD_BYTES = 1 + 3 * sizeof(double) + sizeof(int) };

/* A message: elements of a type, and the memory that they lie in. */
struct message {
    MPI_Datatype type;
    int count;
    size_t span;  /* from the first byte to the end of the last element */
    size_t first; /* offsets of bytes that are part of the type: the first and the last double, */
    size_t last;  /* or what else holds a sequence number */
};

static int indexed(size_t doubles, struct message *message)
{
    int pieces = 0;
    int *lengths = malloc(doubles * sizeof *lengths);
    int *places = malloc(doubles * sizeof *places);
    size_t at = 0;
    size_t left = doubles;
    if (lengths == NULL || places == NULL)
        return fail("no memory for a list of %zu pieces", doubles);
    while (left > 0) {
        size_t length = 1 + (size_t)pieces * 7 % 3;
        length = length < left ? length : left;
        lengths[pieces] = (int)length;
        places[pieces] = (int)at;
        message->last = (at + length - 1) * sizeof(double);
        message->span = (at + length) * sizeof(double);
        at += length + 1 + (size_t)pieces * 5 % 4;
        left -= length;
        pieces++;
    }
    MPI_Type_indexed(pieces, lengths, places, MPI_DOUBLE, &message->type);
    free(lengths);
    free(places);
    return 0;
}

static void record(size_t count, struct message *message)
{
    int lengths[3] = {1, 3, 1};
    MPI_Aint places[3] = {offsetof(struct record, mark), offsetof(struct record, place),
                          offsetof(struct record, number)};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Type_create_struct(3, lengths, places, types, &message->type);
    message->count = (int)count;
    message->span = count * sizeof(struct record);
    message->first = offsetof(struct record, place);
    message->last = message->span - sizeof(struct record) + offsetof(struct record, place);
}

/* The type of a figure, committed. Returns 0 or -1. */
static int describe(const struct order *order, struct message *message)
{
    size_t doubles = order->size / sizeof(double);
    int is = (int)doubles;
    size_t unit = sizeof(double);
    *message = (struct message){.count = 1};
    if (strcmp(order->test, "struct") == 0)
        unit = RECORD_BYTES;
    else if (strcmp(order->test, "blocks") == 0)
        unit = 16 * sizeof(double);
    if (order->size < unit || order->size % unit != 0)
        return fail("%s has no message of %zu bytes", order->test, order->size);
    if (strcmp(order->test, "vector") == 0) {
        MPI_Type_vector(is, 1, 2, MPI_DOUBLE, &message->type);
        message->last = (doubles - 1) * 2 * sizeof(double);
        message->span = message->last + sizeof(double);
    } else if (strcmp(order->test, "blocks") == 0) {
        MPI_Type_vector(is / 16, 16, 32, MPI_DOUBLE, &message->type);
        message->last = ((doubles / 16 - 1) * 32 + 15) * sizeof(double);
        message->span = message->last + sizeof(double);
    } else if (strcmp(order->test, "indexed") == 0) {
        if (indexed(doubles, message) != 0)
            return -1;
    } else {
        record(order->size / RECORD_BYTES, message);
    }
    MPI_Type_commit(&message->type);
    return 0;
}

static unsigned char *memory_of(const struct message *message)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, message->span) != 0)
        return NULL;
    memset(memory, 0, message->span);
    return memory;
}

static void send_to_peer(unsigned char *out, const struct message *message)
{
    MPI_Send(out, message->count, message->type, 1 - world_rank, TAG_DATA, MPI_COMM_WORLD);
}

static void receive_from_peer(unsigned char *in, const struct message *message)
{
    MPI_Recv(in, message->count, message->type, 1 - world_rank, TAG_DATA, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

/*
 * A message to the peer and back. The bytes that are part of the type must have made the way, and all
 * others be as they were: in `out` the former are set and the latter are zero.
 */
static int verify(const struct order *order, const struct message *message)
{
    unsigned char *out = memory_of(message);
    unsigned char *in = memory_of(message);
    unsigned char *packed = malloc(order->size);
    int position = 0;
    int status = 0;
    if (out == NULL || in == NULL || packed == NULL)
        return fail("no memory for %zu bytes", message->span);
    if (world_rank == 0) {
        for (size_t i = 0; i < order->size; i++)
            packed[i] = (unsigned char)(i * 31u + i / 251u + 7u) | 1u;
        MPI_Unpack(packed, (int)order->size, &position, out, message->count, message->type,
                   MPI_COMM_SELF);
        send_to_peer(out, message);
        receive_from_peer(in, message);
        for (size_t i = 0; i < message->span && status == 0; i++)
            if (in[i] != out[i])
                status = fail("%s: byte %zu of %zu is wrong", order->test, i, message->span);
    } else {
        receive_from_peer(in, message);
        send_to_peer(in, message);
    }
    free(out);
    free(in);
    free(packed);
    return status;
}

static void stamp(unsigned char *data, const struct message *message, uint64_t sequence)
{
    memcpy(data + message->first, &sequence, sizeof sequence);
    memcpy(data + message->last, &sequence, sizeof sequence);
}

static int check_stamp(const unsigned char *data, const struct message *message, uint64_t sequence)
{
    if (memcmp(data + message->first, &sequence, sizeof sequence) != 0 ||
        memcmp(data + message->last, &sequence, sizeof sequence) != 0)
        return fail("message %llu is wrong", (unsigned long long)sequence);
    return 0;
}

/* `count` round trips, each a sample if there are samples; the sequence numbers start at `first`. */
static int round_trips(unsigned char *data[2], const struct message *message, int count,
                       uint64_t first, struct samples *samples)
{
    for (int i = 0; i < count; i++) {
        uint64_t sequence = first + (uint64_t)i;
        stamp(data[0], message, sequence);
        double start = now_ns();
        if (world_rank == 0) {
            send_to_peer(data[0], message);
            receive_from_peer(data[1], message);
        } else {
            receive_from_peer(data[1], message);
            send_to_peer(data[0], message);
        }
        if (samples != NULL)
            samples->ns[samples->count++] = (now_ns() - start) / 2.0;
        if (check_stamp(data[1], message, sequence) != 0)
            return -1;
    }
    return 0;
}

int run_layout(const struct order *order, struct samples *samples)
{
    int active = world_rank < 2;
    struct message message;
    uint64_t sequence = 1;
    double trip_ns = 0.0;
    int status = describe(order, &message);
    if (status != 0)
        return status;
    unsigned char *data[2] = {memory_of(&message), memory_of(&message)};
    if (data[0] == NULL || data[1] == NULL)
        return fail("no memory for %zu bytes", message.span);
    if (active)
        status = verify(order, &message);
    for (int round = 0; round < 2 && status == 0; round++) {
        int trips = round == 0 ? 4 : agree_on_batches(order->budget_ns / 5.0, trip_ns, 1);
        double start = now_ns();
        if (active)
            status = round_trips(data, &message, trips, sequence, NULL);
        sequence += (uint64_t)trips;
        trip_ns = (now_ns() - start) / trips;
    }
    if (status == 0) {
        int trips = agree_on_batches(order->budget_ns, trip_ns, SAMPLES_MIN);
        status = reserve_samples(samples, trips, 1);
        if (active && status == 0)
            status = round_trips(data, &message, trips, sequence, samples);
    }
    MPI_Type_free(&message.type);
    free(data[0]);
    free(data[1]);
    return status;
}
