/* Random programs of blocking collectives on six communicators at once, beside messages, and nonblocking and persistent
   collectives in the background, against what each rank computes by itself. Lengths lie around the limits at which a collective changes its
   way through shared memory: a line, a cell, a slot. Arguments: the seed, and how many operations.

   All ranks draw the same numbers, so that they agree on the program. */
#include "check.h"

#include <stdint.h>

enum { MOST = 16, COMMS = 6, BLOCK = 4100, LONGEST = 33000, PENDING = 8, SHORT = 1024, BURST = 30, KEPT = 5 };

static uint64_t state;
static int world_rank, step;
static MPI_Comm comms[COMMS];
/* Of each communicator: its members' ranks in the world, how many they are, and which one this rank is. */
static int members[COMMS][MOST], sizes[COMMS], ranks[COMMS];
static uint32_t mine[2 * LONGEST + MOST * BLOCK], got[LONGEST + MOST * BLOCK];

static unsigned dice(unsigned sides)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % sides;
}

/* Element `i` of what a rank of the world brings to an operation. */
static uint32_t value(unsigned seed, int rank, size_t i)
{
    uint32_t x = seed * 2654435761u ^ (uint32_t)rank * 40503u ^ (uint32_t)i * 2246822519u;
    x ^= x >> 15;
    x *= 2246822519u;
    return (x ^ x >> 13) | 1;
}

static void expect(int holds, const char *what, int comm, size_t length)
{
    if (!holds) {
        fprintf(stderr, "rank %d, operation %d: %s of %zu on communicator %d\n", world_rank, step, what,
                length, comm);
        exit(41);
    }
}

/* What one operation is about. */
struct call {
    int comm, size, rank, root, in_place;
    unsigned seed;
    size_t length;
};

static int member(const struct call *call, int rank)
{
    return members[call->comm][rank];
}

static void fill(const struct call *call, size_t length)
{
    for (size_t i = 0; i < length; i++)
        mine[i] = value(call->seed, world_rank, i);
    memset(got, 0x55, 4 * length);
}

/* The sum of element `i` over the members. */
static uint32_t sum(const struct call *call, size_t i)
{
    uint32_t all = 0;
    for (int rank = 0; rank < call->size; rank++)
        all += value(call->seed, member(call, rank), i);
    return all;
}

static void bcast(struct call *call, MPI_Datatype spaced, int with_gaps)
{
    size_t extent = with_gaps ? 2 : 1;
    int from = member(call, call->root);
    for (size_t i = 0; i < call->length * extent; i++)
        mine[i] = 77;
    for (size_t i = 0; i < call->length && call->rank == call->root; i++)
        mine[i * extent] = value(call->seed, from, i);
    OK(MPI_Bcast(mine, (int)call->length, with_gaps ? spaced : MPI_UINT32_T, call->root, comms[call->comm]));
    for (size_t i = 0; i < call->length; i++) {
        expect(mine[i * extent] == value(call->seed, from, i), "bcast", call->comm, call->length);
        expect(!with_gaps || mine[2 * i + 1] == 77, "a gap of bcast", call->comm, call->length);
    }
}

/* An allgather, or a gather to the root. */
static void gather(struct call *call, int to_all)
{
    size_t length = call->length < BLOCK ? call->length : BLOCK;
    int receives = to_all || call->rank == call->root, in_place = call->in_place && receives;
    fill(call, length);
    memset(got, 0x55, 4 * length * (size_t)call->size);
    if (in_place)
        memcpy(got + length * (size_t)call->rank, mine, 4 * length);
    const void *from = in_place ? MPI_IN_PLACE : mine;
    if (to_all)
        OK(MPI_Allgather(from, (int)length, MPI_UINT32_T, got, (int)length, MPI_UINT32_T, comms[call->comm]));
    else
        OK(MPI_Gather(from, (int)length, MPI_UINT32_T, got, (int)length, MPI_UINT32_T, call->root,
                      comms[call->comm]));
    for (int rank = 0; rank < call->size && receives; rank++)
        for (size_t i = 0; i < length; i++)
            expect(got[length * (size_t)rank + i] == value(call->seed, member(call, rank), i),
                   to_all ? "allgather" : "gather", call->comm, length);
}

static void alltoall(struct call *call)
{
    size_t length = call->length < BLOCK ? call->length : BLOCK, size = (size_t)call->size;
    for (size_t to = 0; to < size; to++)
        for (size_t i = 0; i < length; i++)
            mine[length * to + i] = value(call->seed + (unsigned)member(call, (int)to), world_rank, i);
    memset(got, 0x55, 4 * length * size);
    if (call->in_place)
        memcpy(got, mine, 4 * length * size);
    OK(MPI_Alltoall(call->in_place ? MPI_IN_PLACE : mine, (int)length, MPI_UINT32_T, got, (int)length,
                    MPI_UINT32_T, comms[call->comm]));
    for (size_t from = 0; from < size; from++)
        for (size_t i = 0; i < length; i++)
            expect(got[length * from + i] ==
                       value(call->seed + (unsigned)world_rank, member(call, (int)from), i),
                   "alltoall", call->comm, length);
}

/* Composes maps x -> ax + b, which do not commute. */
static void compose(void *first, void *second, int *length, MPI_Datatype *type)
{
    uint32_t *left = first, *right = second;
    (void)type;
    for (int i = 0; i < 2 * *length; i += 2) {
        uint32_t a = left[i], b = left[i + 1];
        b = right[i] * b + right[i + 1];
        right[i] *= a;
        right[i + 1] = b;
    }
}

/* An allreduce or a reduce, of sums or of maps in the order of ranks. */
static void reduce(struct call *call, int to_all, MPI_Datatype map, MPI_Op op)
{
    int maps = op != MPI_SUM, receives = to_all || call->rank == call->root;
    int in_place = call->in_place && receives;
    size_t length = maps ? call->length & ~(size_t)1 : call->length;
    int count = (int)(maps ? length / 2 : length);
    const void *from = in_place ? MPI_IN_PLACE : mine;
    fill(call, length);
    if (in_place)
        memcpy(got, mine, 4 * length);
    if (to_all)
        OK(MPI_Allreduce(from, got, count, maps ? map : MPI_UINT32_T, op, comms[call->comm]));
    else
        OK(MPI_Reduce(from, got, count, maps ? map : MPI_UINT32_T, op, call->root, comms[call->comm]));
    for (size_t i = 0; i < length && receives && !maps; i++)
        expect(got[i] == sum(call, i), to_all ? "allreduce" : "reduce", call->comm, length);
    for (size_t i = 0; i < length && receives && maps; i += 2) {
        uint32_t a = 1, b = 0;
        for (int rank = 0; rank < call->size; rank++) {
            uint32_t factor = value(call->seed, member(call, rank), i);
            a *= factor;
            b = factor * b + value(call->seed, member(call, rank), i + 1);
        }
        expect(got[i] == a && got[i + 1] == b, "a reduction of maps", call->comm, length);
    }
}

static void reduce_scatter(struct call *call)
{
    size_t length = call->length < BLOCK ? call->length : BLOCK;
    fill(call, length * (size_t)call->size);
    OK(MPI_Reduce_scatter_block(mine, got, (int)length, MPI_UINT32_T, MPI_SUM, comms[call->comm]));
    for (size_t i = 0; i < length; i++)
        expect(got[i] == sum(call, length * (size_t)call->rank + i), "reduce_scatter", call->comm, length);
}

static void messages(struct call *call)
{
    int next = (call->rank + 1) % call->size, before = (call->rank + call->size - 1) % call->size;
    fill(call, call->length);
    OK(MPI_Sendrecv(mine, (int)call->length, MPI_UINT32_T, next, 3, got, (int)call->length, MPI_UINT32_T,
                    before, 3, comms[call->comm], MPI_STATUS_IGNORE));
    for (size_t i = 0; i < call->length; i++)
        expect(got[i] == value(call->seed, member(call, before), i), "messages", call->comm, call->length);
}

/* Allreduces that are under way. */
static MPI_Request requests[PENDING];
static struct call started[PENDING];
static uint32_t given[PENDING][SHORT], sums[PENDING][SHORT];
static int under_way;

static void finish(void)
{
    OK(MPI_Waitall(under_way, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < under_way; k++)
        for (size_t i = 0; i < started[k].length; i++)
            expect(sums[k][i] == sum(&started[k], i), "iallreduce", started[k].comm, started[k].length);
    under_way = 0;
}

static void start(struct call *call)
{
    if (under_way == PENDING)
        finish();
    int k = under_way++;
    if (call->length > SHORT)
        call->length = SHORT;
    started[k] = *call;
    for (size_t i = 0; i < call->length; i++)
        given[k][i] = value(call->seed, world_rank, i);
    OK(MPI_Iallreduce(given[k], sums[k], (int)call->length, MPI_UINT32_T, MPI_SUM, comms[call->comm],
                      &requests[k]));
}

/* Persistent collectives: what each was made for, and whether it is under way. */
enum kind { ALLREDUCE, BCAST, ALLTOALL, GATHER, KINDS };

static struct {
    MPI_Request request;
    enum kind kind;
    struct call call;
    int active;
    uint32_t given[SHORT], taken[SHORT];
} kept[KEPT];

static void make(int k)
{
    struct call *call = &kept[k].call;
    MPI_Comm comm = comms[call->comm];
    int length = (int)call->length;
    uint32_t *given = kept[k].given, *taken = kept[k].taken;
    MPI_Request *request = &kept[k].request;
    switch (kept[k].kind) {
    case ALLREDUCE:
        OK(MPI_Allreduce_init(given, taken, length, MPI_UINT32_T, MPI_SUM, comm, MPI_INFO_NULL, request));
        break;
    case BCAST:
        OK(MPI_Bcast_init(taken, length, MPI_UINT32_T, call->root, comm, MPI_INFO_NULL, request));
        break;
    case ALLTOALL:
        OK(MPI_Alltoall_init(given, length, MPI_UINT32_T, taken, length, MPI_UINT32_T, comm, MPI_INFO_NULL,
                             request));
        break;
    default:
        OK(MPI_Gather_init(given, length, MPI_UINT32_T, taken, length, MPI_UINT32_T, call->root, comm,
                           MPI_INFO_NULL, request));
    }
}

/* What a persistent one brings to the member `to`, which is another one for each in an all-to-all only. */
static uint32_t brings(int k, int from, int to, size_t i)
{
    const struct call *call = &kept[k].call;
    unsigned seed = call->seed + (kept[k].kind == ALLTOALL ? (unsigned)to : 0);
    return value(seed, member(call, from), i);
}

static void end_kept(int k)
{
    const struct call *call = &kept[k].call;
    OK(MPI_Wait(&kept[k].request, MPI_STATUS_IGNORE));
    kept[k].active = 0;
    size_t blocks = kept[k].kind == ALLTOALL || kept[k].kind == GATHER ? (size_t)call->size : 1;
    if (kept[k].kind == GATHER && call->rank != call->root)
        blocks = 0;
    for (size_t block = 0; block < blocks; block++)
        for (size_t i = 0; i < call->length; i++) {
            int from = kept[k].kind == BCAST ? call->root : (int)block;
            uint32_t due = kept[k].kind == ALLREDUCE ? sum(call, i) : brings(k, from, call->rank, i);
            expect(kept[k].taken[call->length * block + i] == due, "a persistent collective", call->comm,
                   call->length);
        }
}

/* Ends a persistent collective that is under way, or starts one, which may be made anew before. */
static void persistent(struct call *call)
{
    int k = (int)dice(KEPT), kind = (int)dice(KINDS), anew = dice(4) == 0;
    if (kept[k].active) {
        end_kept(k);
        return;
    }
    if (kept[k].request != MPI_REQUEST_NULL && anew)
        OK(MPI_Request_free(&kept[k].request));
    if (kept[k].request == MPI_REQUEST_NULL) {
        size_t most = kind == ALLTOALL || kind == GATHER ? SHORT / MOST : SHORT;
        kept[k].kind = (enum kind)kind;
        kept[k].call = *call;
        if (call->length > most)
            kept[k].call.length = most;
        make(k);
    }
    const struct call *made = &kept[k].call;
    kept[k].call.seed = call->seed;
    memset(kept[k].taken, 0x55, sizeof kept[k].taken);
    size_t blocks = kept[k].kind == ALLTOALL ? (size_t)made->size : 1;
    for (size_t block = 0; block < blocks; block++)
        for (size_t i = 0; i < made->length; i++)
            kept[k].given[made->length * block + i] = brings(k, made->rank, (int)block, i);
    if (kept[k].kind == BCAST && made->rank == made->root)
        memcpy(kept[k].taken, kept[k].given, 4 * made->length);
    OK(MPI_Start(&kept[k].request));
    kept[k].active = 1;
}

static void end_persistent(void)
{
    for (int k = 0; k < KEPT; k++) {
        if (kept[k].active)
            end_kept(k);
        if (kept[k].request != MPI_REQUEST_NULL)
            OK(MPI_Request_free(&kept[k].request));
    }
}

/* Short ones with changing roots in a row, in which ranks run ahead of each other. */
static void burst(struct call *call)
{
    for (unsigned left = 1 + dice(BURST); left > 0; left--) {
        call->root = (int)dice((unsigned)call->size);
        call->length = 1 + dice(2);
        call->seed++;
        switch (dice(4)) {
        case 0:
            gather(call, 0);
            break;
        case 1:
            reduce(call, 0, MPI_DATATYPE_NULL, MPI_SUM);
            break;
        default:
            bcast(call, MPI_DATATYPE_NULL, 0);
        }
    }
}

static void make_communicators(int size)
{
    MPI_Group world, group;
    int all[MOST];
    comms[0] = MPI_COMM_WORLD;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comms[2]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &comms[3]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, world_rank / 2, -world_rank, &comms[4]));
    OK(MPI_Comm_dup(comms[3], &comms[5]));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int i = 0; i < size; i++)
        all[i] = i;
    for (int comm = 0; comm < COMMS; comm++) {
        OK(MPI_Comm_size(comms[comm], &sizes[comm]));
        OK(MPI_Comm_rank(comms[comm], &ranks[comm]));
        OK(MPI_Comm_group(comms[comm], &group));
        OK(MPI_Group_translate_ranks(group, sizes[comm], all, world, members[comm]));
        OK(MPI_Group_free(&group));
    }
    OK(MPI_Group_free(&world));
}

int main(int argc, char **argv)
{
    static const unsigned lengths[] = {
        0,   1,   2,   6,   7,   14,   15,   30,   63,   64,   127,  128,   255,    256,
        257, 511, 512, 513, 1000, 1022, 1023, 1024, 1025, 1026, 2000, BLOCK, LONGEST,
    };
    int size;
    CHECK(argc == 3);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size <= MOST);
    world_rank = rank_of(MPI_COMM_WORLD);
    state = strtoull(argv[1], NULL, 10) * 7919 + 17;
    make_communicators(size);
    MPI_Op maps;
    MPI_Datatype map, spaced;
    OK(MPI_Op_create(compose, 0, &maps));
    OK(MPI_Type_contiguous(2, MPI_UINT32_T, &map));
    OK(MPI_Type_commit(&map));
    OK(MPI_Type_create_resized(MPI_UINT32_T, 0, 8, &spaced));
    OK(MPI_Type_commit(&spaced));
    int steps = atoi(argv[2]);
    for (int k = 0; k < KEPT; k++)
        kept[k].request = MPI_REQUEST_NULL;
    for (step = 0; step < steps; step++) {
        int comm = (int)dice(COMMS);
        unsigned root = dice(MOST), kind = dice(14);
        struct call call = {.comm = comm, .size = sizes[comm], .rank = ranks[comm], .in_place = dice(4) == 0};
        call.root = (int)root % call.size;
        call.seed = dice(1u << 30);
        call.length = lengths[dice(sizeof lengths / sizeof *lengths)];
        /* Most are short. */
        if (dice(3) > 0 && call.length > 2000)
            call.length = 3;
        int with_gaps = dice(5) == 0;
        switch (kind) {
        case 0: OK(MPI_Barrier(comms[comm])); break;
        case 1: bcast(&call, spaced, with_gaps); break;
        case 2: gather(&call, 1); break;
        case 3: gather(&call, 0); break;
        case 4: alltoall(&call); break;
        case 5: reduce(&call, 1, map, MPI_SUM); break;
        case 6: reduce(&call, 0, map, MPI_SUM); break;
        case 7: reduce(&call, 1, map, maps); break;
        case 8: reduce(&call, 0, map, maps); break;
        case 9: reduce_scatter(&call); break;
        case 10: messages(&call); break;
        case 11: start(&call); break;
        case 12: persistent(&call); break;
        default: burst(&call);
        }
    }
    finish();
    end_persistent();
    OK(MPI_Type_free(&spaced));
    OK(MPI_Type_free(&map));
    OK(MPI_Op_free(&maps));
    for (int comm = 1; comm < COMMS; comm++)
        OK(MPI_Comm_free(&comms[comm]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    done(world_rank);
    return 0;
}
