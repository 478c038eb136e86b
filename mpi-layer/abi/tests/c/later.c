/* Nonblocking and persistent collectives: each of the standard's, many at once, beside messages, in any order. With
   LARGE, which large.c defines, each in its form for large counts. */
#include "check.h"

#ifdef LARGE
enum { IS_LARGE = 1 };
typedef MPI_Count number;
typedef MPI_Aint distance;
#define FORM(name) name##_c
#else
enum { IS_LARGE = 0 };
typedef int number, distance;
#define FORM(name) name
#endif

static int rank, size;
static MPI_Comm world = MPI_COMM_WORLD;

enum { ELEMENTS = 5000, MANY = 24 };

/* x -> a x + b modulo a prime, composed: associative, not commutative. */
static void compose(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    long long *l = left, *r = right;
    for (int i = 0; i < *count; i++) {
        long long a = l[2 * i] * r[2 * i] % 65521, b = (r[2 * i] * l[2 * i + 1] + r[2 * i + 1]) % 65521;
        r[2 * i] = a, r[2 * i + 1] = b;
    }
}

static long long value(int of, int i) { return 7919LL * of + 31LL * i + 1; }

/* All of them at once, by one wait. Persistent ones are started three times. */
static void all_kinds(int persistent)
{
    enum { KINDS = 17 };
    int n = ELEMENTS, rounds = persistent ? 3 : 1, root = size - 1;
    MPI_Request r[KINDS];
    long long *in[KINDS], *out[KINDS];
    size_t most = sizeof(long long) * 2 * (size_t)n * (size_t)size;
    for (int k = 0; k < KINDS; k++)
        in[k] = malloc(most), out[k] = malloc(most);
    number *counts = malloc(sizeof *counts * (size_t)size);
    distance *places = malloc(sizeof *places * (size_t)size);
    MPI_Datatype *types = malloc(sizeof *types * (size_t)size);
    int total = 0;
    for (int i = 0; i < size; i++) {
        counts[i] = i % 3 == 1 ? 0 : i + 5, places[i] = total, types[i] = MPI_LONG_LONG;
        total += (int)counts[i];
    }
    MPI_Datatype pair;
    OK(MPI_Type_contiguous(2, MPI_LONG_LONG, &pair));
    OK(MPI_Type_commit(&pair));
    MPI_Op op;
    OK(MPI_Op_create(compose, 0, &op));
    int own = (int)counts[rank];
    /* What every rank sends to every other one in the v and w forms. */
    number *same = malloc(sizeof *same * (size_t)size);
    distance *evenly = malloc(sizeof *evenly * (size_t)size), *evenly8 = malloc(sizeof *evenly8 * (size_t)size);
    for (int i = 0; i < size; i++)
        same[i] = 3, evenly[i] = 3 * i, evenly8[i] = 24 * i;
    MPI_Info info;
    OK(MPI_Info_create(&info));
#define MAKE(k, name, init, ...)                                            \
    do {                                                                    \
        if (persistent)                                                     \
            OK(init(__VA_ARGS__, info, &r[k]));                             \
        else                                                                \
            OK(name(__VA_ARGS__, &r[k]));                                   \
    } while (0)
#define FILL(round)                                                         \
    for (int k = 0; k < KINDS; k++)                                         \
        for (int i = 0; i < 2 * n * size; i++)                              \
            in[k][i] = value(rank, i) + round, out[k][i] = -1;              \
    if (rank == root)                                                       \
        for (int i = 0; i < n; i++)                                         \
            out[1][i] = value(root, i) + round
    FILL(0);
    MAKE(0, MPI_Ibarrier, MPI_Barrier_init, world);
    MAKE(1, FORM(MPI_Ibcast), FORM(MPI_Bcast_init), out[1], n, MPI_LONG_LONG, root, world);
    MAKE(2, FORM(MPI_Igather), FORM(MPI_Gather_init), in[2], 3, MPI_LONG_LONG, out[2], 3, MPI_LONG_LONG, root, world);
    MAKE(3, FORM(MPI_Igatherv), FORM(MPI_Gatherv_init), in[3], own, MPI_LONG_LONG, out[3], counts, places, MPI_LONG_LONG, root, world);
    MAKE(4, FORM(MPI_Iscatter), FORM(MPI_Scatter_init), in[4], 3, MPI_LONG_LONG, out[4], 3, MPI_LONG_LONG, root, world);
    MAKE(5, FORM(MPI_Iscatterv), FORM(MPI_Scatterv_init), in[5], counts, places, MPI_LONG_LONG, out[5], own, MPI_LONG_LONG, root, world);
    MAKE(6, FORM(MPI_Iallgather), FORM(MPI_Allgather_init), in[6], 3, MPI_LONG_LONG, out[6], 3, MPI_LONG_LONG, world);
    MAKE(7, FORM(MPI_Iallgatherv), FORM(MPI_Allgatherv_init), in[7], own, MPI_LONG_LONG, out[7], counts, places, MPI_LONG_LONG, world);
    MAKE(8, FORM(MPI_Ialltoall), FORM(MPI_Alltoall_init), in[8], 3, MPI_LONG_LONG, out[8], 3, MPI_LONG_LONG, world);
    MAKE(9, FORM(MPI_Ialltoallv), FORM(MPI_Alltoallv_init), in[9], same, evenly, MPI_LONG_LONG, out[9], same, evenly, MPI_LONG_LONG, world);
    MAKE(10, FORM(MPI_Ialltoallw), FORM(MPI_Alltoallw_init), in[10], same, evenly8, types, out[10], same, evenly8, types, world);
    MAKE(11, FORM(MPI_Ireduce), FORM(MPI_Reduce_init), in[11], out[11], n, MPI_LONG_LONG, MPI_SUM, root, world);
    MAKE(12, FORM(MPI_Iallreduce), FORM(MPI_Allreduce_init), in[12], out[12], n, pair, op, world);
    MAKE(13, FORM(MPI_Ireduce_scatter), FORM(MPI_Reduce_scatter_init), in[13], out[13], counts, MPI_LONG_LONG, MPI_SUM, world);
    MAKE(14, FORM(MPI_Ireduce_scatter_block), FORM(MPI_Reduce_scatter_block_init), in[14], out[14], 3, MPI_LONG_LONG, MPI_SUM, world);
    MAKE(15, FORM(MPI_Iscan), FORM(MPI_Scan_init), in[15], out[15], n, pair, op, world);
    MAKE(16, FORM(MPI_Iexscan), FORM(MPI_Exscan_init), in[16], out[16], n, pair, op, world);
    OK(MPI_Op_free(&op));
    for (int round = 0; round < rounds; round++) {
        if (persistent) {
            FILL(round);
            /* Members start them in different orders. */
            for (int k = 0; k < KINDS; k++)
                OK(MPI_Start(&r[(k * (rank % 2 ? 5 : 1) + rank) % KINDS]));
            FAILS(MPI_ERR_REQUEST, MPI_Start(&r[3]));
        }
        FAILS(MPI_ERR_REQUEST, MPI_Cancel(&r[12]));
        if (round == 1) {
            for (int left = KINDS; left > 0; left--) {
                int index = -1;
                OK(MPI_Waitany(KINDS, r, &index, MPI_STATUS_IGNORE));
                CHECK(index >= 0 && index < KINDS);
            }
        } else
            OK(MPI_Waitall(KINDS, r, MPI_STATUSES_IGNORE));
#define ADD(of, i) (value(of, i) + round)
        for (int i = 0; i < n; i++)
            CHECK(out[1][i] == ADD(root, i));
        for (int s = 0; s < size; s++)
            for (int i = 0; i < 3; i++) {
                CHECK(rank != root || out[2][3 * s + i] == ADD(s, i));
                CHECK(out[6][3 * s + i] == ADD(s, i));
                CHECK(out[8][3 * s + i] == ADD(s, 3 * rank + i));
                CHECK(out[9][3 * s + i] == ADD(s, 3 * rank + i));
                CHECK(out[10][3 * s + i] == ADD(s, 3 * rank + i));
            }
        for (int s = 0; s < size; s++)
            for (int i = 0; i < counts[s]; i++) {
                CHECK(rank != root || out[3][places[s] + i] == ADD(s, i));
                CHECK(out[7][places[s] + i] == ADD(s, i));
            }
        for (int i = 0; i < 3; i++)
            CHECK(out[4][i] == ADD(root, 3 * rank + i));
        for (int i = 0; i < own; i++)
            CHECK(out[5][i] == ADD(root, places[rank] + i));
        for (int i = 0; i < n; i++) {
            long long sum = 0;
            for (int s = 0; s < size; s++)
                sum += ADD(s, i);
            CHECK(rank != root || out[11][i] == sum);
            CHECK(rank == root || out[11][i] == -1);
        }
        for (int i = 0; i < own; i++) {
            long long sum = 0;
            for (int s = 0; s < size; s++)
                sum += ADD(s, places[rank] + i);
            CHECK(out[13][i] == sum);
        }
        for (int i = 0; i < 3; i++) {
            long long sum = 0;
            for (int s = 0; s < size; s++)
                sum += ADD(s, 3 * rank + i);
            CHECK(out[14][i] == sum);
        }
        for (int i = 0; i < n; i += 97) {
            long long a[2], b[2];
            int one = 1;
            for (int s = 0; s < size; s++) {
                b[0] = ADD(s, 2 * i), b[1] = ADD(s, 2 * i + 1);
                if (s > 0)
                    compose(a, b, &one, &pair);
                a[0] = b[0], a[1] = b[1];
                CHECK(s != rank || (out[15][2 * i] == a[0] && out[15][2 * i + 1] == a[1]));
                CHECK(s + 1 != rank || (out[16][2 * i] == a[0] && out[16][2 * i + 1] == a[1]));
            }
            CHECK(out[12][2 * i] == a[0] && out[12][2 * i + 1] == a[1]);
        }
        CHECK(rank != 0 || out[16][0] == -1);
    }
    for (int k = 0; k < KINDS; k++) {
        CHECK((r[k] == MPI_REQUEST_NULL) == !persistent);
        if (persistent)
            OK(MPI_Request_free(&r[k]));
        free(in[k]), free(out[k]);
    }
    OK(MPI_Info_free(&info));
    OK(MPI_Type_free(&pair));
    free(counts), free(places), free(types), free(same), free(evenly), free(evenly8);
}

/* Many on several communicators, ended in an order that differs between ranks, with blocking calls between. */
static void many_at_once(void)
{
    MPI_Comm comms[3];
    for (int c = 0; c < 3; c++)
        OK(MPI_Comm_dup(world, &comms[c]));
    MPI_Request r[MANY];
    int in[MANY], out[MANY];
    for (int k = 0; k < MANY; k++) {
        in[k] = rank + k;
        OK(MPI_Iallreduce(&in[k], &out[k], 1, MPI_INT, MPI_SUM, comms[k % 3], &r[k]));
        if (k % 5 == 0) {
            int all = 0;
            OK(MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_MAX, comms[(k + 1) % 3]));
            CHECK(all == size - 1);
        }
    }
    /* A communicator that is given up serves what is under way on it. */
    for (int c = 0; c < 3; c++)
        OK(MPI_Comm_free(&comms[c]));
    for (int k = 0; k < MANY; k++)
        OK(MPI_Wait(&r[(k * 7 + rank) % MANY], MPI_STATUS_IGNORE));
    for (int k = 0; k < MANY; k++)
        CHECK(out[k] == size * (size - 1) / 2 + size * k);
}

/* A rank that waits in something else takes part meanwhile. */
static void beside_messages(void)
{
    if (size < 2)
        return;
    int last = size - 1, sum = -1, word = rank;
    MPI_Request request;
    static double data[100000];
    for (int kind = 0; kind < 4; kind++) {
        OK(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world, &request));
        if (rank == last) {
            /* The others get the word only when the sum is there, which needs all of them. */
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int r = 0; r < last; r++)
                if (kind == 2)
                    OK(MPI_Ssend(data, 100000, MPI_DOUBLE, r, 5, world));
                else
                    OK(MPI_Send(&word, 1, MPI_INT, r, 5, world));
        } else {
            MPI_Status status;
            MPI_Request other;
            int flag = 0;
            if (kind == 0)
                OK(MPI_Recv(&word, 1, MPI_INT, last, 5, world, &status));
            else if (kind == 1) {
                OK(MPI_Irecv(&word, 1, MPI_INT, last, 5, world, &other));
                while (!flag)
                    OK(MPI_Test(&other, &flag, &status));
            } else if (kind == 2)
                OK(MPI_Recv(data, 100000, MPI_DOUBLE, last, 5, world, &status));
            else {
                OK(MPI_Probe(last, 5, world, &status));
                OK(MPI_Recv(&word, 1, MPI_INT, last, 5, world, &status));
            }
            CHECK(status.MPI_SOURCE == last && status.MPI_TAG == 5);
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        CHECK(sum == size * (size - 1) / 2);
    }
}

/* The status is empty, a request under way cannot be given up, and a wrong argument starts nothing. */
static void requests(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int one = rank, all = 0, flag = 0, count = -1;
    FAILS(MPI_ERR_ARG, MPI_Ibarrier(world, NULL));
    FAILS(MPI_ERR_COMM, MPI_Ibarrier(MPI_COMM_NULL, &request));
    FAILS(MPI_ERR_ROOT, MPI_Ibcast(&one, 1, MPI_INT, size, world, &request));
    FAILS(MPI_ERR_COUNT, MPI_Iallreduce(&one, &all, -1, MPI_INT, MPI_SUM, world, &request));
    FAILS(MPI_ERR_OP, MPI_Allreduce_init(&one, &all, 1, MPI_INT, MPI_OP_NULL, world, MPI_INFO_NULL, &request));
    FAILS(MPI_ERR_TYPE, MPI_Iscan(&one, &all, 1, MPI_DATATYPE_NULL, MPI_SUM, world, &request));
    FAILS(MPI_ERR_INFO, MPI_Barrier_init(world, (MPI_Info)(size_t)0x7777777, &request));
    FAILS(MPI_ERR_BUFFER, MPI_Iallreduce(&one, &one, 1, MPI_INT, MPI_SUM, world, &request));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, world, &request));
    memset(&status, 0x55, sizeof status);
    while (!flag)
        OK(MPI_Request_get_status(request, &flag, &status));
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(count == 0 && !flag);
    OK(MPI_Test(&request, &flag, &status));
    CHECK(flag && request == MPI_REQUEST_NULL && all == size * (size - 1) / 2);
    /* In place, of elements with gaps. */
    MPI_Datatype gaps;
    int block[3 * 400];
    OK(MPI_Type_vector(400, 1, 3, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int i = 0; i < 1200; i++)
        block[i] = i % 3 ? -7 : rank + i;
    OK(MPI_Ibcast(block, 1, gaps, 0, world, &request));
    OK(MPI_Type_free(&gaps));
    OK(MPI_Wait(&request, &status));
    for (int i = 0; i < 1200; i++)
        CHECK(block[i] == (i % 3 ? -7 : i));
    OK(MPI_Iallreduce(MPI_IN_PLACE, block, 1200, MPI_INT, MPI_MAX, world, &request));
    OK(MPI_Wait(&request, &status));
    /* Of nothing. */
    OK(MPI_Iallreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, world, &request));
    OK(MPI_Wait(&request, &status));
    if (rank > 0)
        return;
    /* Alone. */
    OK(MPI_Ialltoall(&one, 1, MPI_INT, &all, 1, MPI_INT, MPI_COMM_SELF, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(all == one);
}

/* A type of four ints that lie at an address. */
static MPI_Datatype four_at(int *start)
{
    MPI_Datatype type;
    MPI_Aint at;
    int four = 4;
    OK(MPI_Get_address(start, &at));
    OK(MPI_Type_create_hindexed(1, &four, &at, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

/* Blocks of one exchange on the stack and on the heap, which are tens of terabytes apart. */
static void far_apart(void)
{
    int on_stack[2][64][4], (*on_heap)[64][4] = malloc(sizeof on_stack);
    int ones[64], zeros[64];
    MPI_Datatype from[64], into[64];
    CHECK(size <= 64);
    for (int i = 0; i < size; i++) {
        ones[i] = 1, zeros[i] = 0;
        from[i] = four_at(i % 2 ? on_stack[0][i] : on_heap[0][i]);
        into[i] = four_at(i % 2 ? on_heap[1][i] : on_stack[1][i]);
    }
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < size; i++)
            for (int k = 0; k < 4; k++) {
                (i % 2 ? on_stack : on_heap)[0][i][k] = 1000 * rank + 10 * i + k + kind;
                (i % 2 ? on_heap : on_stack)[1][i][k] = -1;
            }
        MPI_Request request = MPI_REQUEST_NULL;
        if (kind == 0) {
            OK(MPI_Alltoallw(MPI_BOTTOM, ones, zeros, from, MPI_BOTTOM, ones, zeros, into, world));
        } else if (kind == 1) {
            OK(MPI_Ialltoallw(MPI_BOTTOM, ones, zeros, from, MPI_BOTTOM, ones, zeros, into, world, &request));
        } else {
            OK(MPI_Alltoallw_init(MPI_BOTTOM, ones, zeros, from, MPI_BOTTOM, ones, zeros, into, world,
                                  MPI_INFO_NULL, &request));
            OK(MPI_Start(&request));
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (kind == 2)
            OK(MPI_Request_free(&request));
        for (int i = 0; i < size; i++)
            for (int k = 0; k < 4; k++)
                CHECK((i % 2 ? on_heap : on_stack)[1][i][k] == 1000 * i + 10 * rank + k + kind);
    }
    for (int i = 0; i < size; i++) {
        OK(MPI_Type_free(&from[i]));
        OK(MPI_Type_free(&into[i]));
    }
    free(on_heap);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    errors_return();
    rank = rank_of(world);
    OK(MPI_Comm_size(world, &size));
    all_kinds(0);
    all_kinds(1);
    if (!IS_LARGE) {
        many_at_once();
        beside_messages();
        requests();
        far_apart();
    }
    OK(MPI_Finalize());
    done(rank);
    return 0;
}
