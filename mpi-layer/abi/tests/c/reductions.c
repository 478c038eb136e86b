/* Reductions of all families against loops: predefined operations, the program's own in both widths of
 * counts, commutative or not, on pairs with gaps, in place and not. */
#include "check.h"
#include <limits.h>

static int rank, size;

enum { LENGTHS = 5, MOST = 20000 };
static const int lengths[LENGTHS] = {0, 1, 3, 700, MOST};

static long long number(int r, int index)
{
    return (long long) (r + 1) * 1009 + index * 31;
}

static long long summed(int ranks, int index)
{
    long long sum = 0;
    for (int r = 0; r < ranks; r++)
        sum += number(r, index);
    return sum;
}

static long long *numbers(int count)
{
    long long *made = malloc((count + 1) * sizeof *made);
    CHECK(made != NULL);
    for (int i = 0; i <= count; i++)
        made[i] = i < count ? number(rank, i) : -1;
    return made;
}

static long long *buffer(int count)
{
    long long *made = malloc((count + 1) * sizeof *made);
    CHECK(made != NULL);
    for (int i = 0; i <= count; i++)
        made[i] = -1;
    return made;
}

/* Integers and sums in every family. */
static void sums(int len)
{
    for (int root = 0; root < size; root++) {
        long long *own = numbers(len), *sum = buffer(len);
        OK(MPI_Reduce(own, rank == root ? sum : (void *) 77, len, MPI_LONG_LONG, MPI_SUM, root,
                      MPI_COMM_WORLD));
        for (int i = 0; rank == root && i < len; i++)
            CHECK(sum[i] == summed(size, i));
        CHECK(sum[len] == -1 && own[len] == -1);
        OK(MPI_Reduce_c(rank == root ? MPI_IN_PLACE : own, rank == root ? own : NULL, len,
                        MPI_LONG_LONG, MPI_SUM, root, MPI_COMM_WORLD));
        for (int i = 0; i < len; i++)
            CHECK(own[i] == (rank == root ? summed(size, i) : number(rank, i)));
        free(own);
        free(sum);
    }
    long long *own = numbers(len), *sum = buffer(len);
    OK(MPI_Allreduce(own, sum, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Allreduce_c(MPI_IN_PLACE, own, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(sum[i] == summed(size, i) && own[i] == sum[i]);
    free(own);
    own = numbers(len);
    OK(MPI_Scan(own, sum, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(sum[i] == summed(rank + 1, i));
    OK(MPI_Scan_c(MPI_IN_PLACE, own, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    CHECK(memcmp(own, sum, len * sizeof *own) == 0);
    free(own);
    free(sum);
    own = numbers(len), sum = buffer(len);
    OK(MPI_Exscan(own, rank == 0 ? (void *) 77 : sum, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(sum[i] == (rank == 0 ? -1 : summed(rank, i)));
    OK(MPI_Exscan_c(MPI_IN_PLACE, own, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(own[i] == (rank == 0 ? number(0, i) : summed(rank, i)));
    CHECK(own[len] == -1 && sum[len] == -1);
    free(own);
    free(sum);
}

static void scattered_sums(int len)
{
    int counts[16], at = 0, total = 0;
    MPI_Count large[16];
    for (int r = 0; r < size; r++) {
        counts[r] = (r * 5 + 2) % 4 * len / 3;
        large[r] = counts[r];
        at += r < rank ? counts[r] : 0;
        total += counts[r];
    }
    long long *own = numbers(total), *sum = buffer(counts[rank]);
    OK(MPI_Reduce_scatter(own, sum, counts, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Reduce_scatter_c(MPI_IN_PLACE, own, large, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < counts[rank]; i++)
        CHECK(sum[i] == summed(size, at + i) && own[i] == sum[i]);
    CHECK(sum[counts[rank]] == -1);
    free(own);
    free(sum);
    own = numbers(len * size), sum = buffer(len);
    OK(MPI_Reduce_scatter_block(own, sum, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Reduce_scatter_block_c(MPI_IN_PLACE, own, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(sum[i] == summed(size, rank * len + i) && own[i] == sum[i]);
    CHECK(sum[len] == -1);
    free(own);
    free(sum);
}

/* Elements with a gap: x -> ax + b, which compose and do not commute. The gap is nobody's business. */
typedef struct { double b; int a; int gap; } map;

enum { PRIME = 65521 };
static int calls, longest;
static MPI_Datatype seen;

static map composed(map first, map second)
{
    long long a = (long long) first.a * second.a % PRIME;
    long long b = (second.a * (long long) first.b + (long long) second.b) % PRIME;
    return (map) {(double) b, (int) a, second.gap};
}

static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    map *left = in, *right = inout;
    CHECK((unsigned long) in % sizeof(double) == 0 && (unsigned long) inout % sizeof(double) == 0);
    for (int i = 0; i < *len; i++)
        right[i] = composed(left[i], right[i]);
    calls++;
    longest = *len > longest ? *len : longest;
    seen = *type;
    /* It may ask the library. */
    CHECK(rank_of(MPI_COMM_WORLD) == rank);
}

static void compose_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *type)
{
    int small = (int) *len;
    compose(in, inout, &small, type);
}

static map map_of(int r, int index)
{
    return (map) {(r * 977 + index * 13) % PRIME, (r * 31 + index * 7 + 2) % PRIME, 1000 + r};
}

/* What ranks 0 to `ranks` - 1 make together. */
static int is_composed(map found, int ranks, int index, int gap)
{
    map all = {0, 1, 0};
    for (int r = 0; r < ranks; r++)
        all = composed(all, map_of(r, index));
    return found.a == all.a && found.b == all.b && found.gap == gap;
}

static map *maps(int count, int filled)
{
    map *made = malloc((count + 1) * sizeof *made);
    CHECK(made != NULL);
    for (int i = 0; i <= count; i++)
        made[i] = filled ? map_of(rank, i) : (map) {-1, -1, -7};
    return made;
}

static void composition(MPI_Op op, int len)
{
    map *own = maps(len * size, 1), *all = maps(len, 0);
    for (int root = 0; root < size; root++) {
        OK(MPI_Reduce(own, all, len, MPI_DOUBLE_INT, op, root, MPI_COMM_WORLD));
        for (int i = 0; rank == root && i < len; i++)
            CHECK(is_composed(all[i], size, i, -7));
    }
    memset(all, 0xff, len * sizeof *all);
    OK(MPI_Allreduce(own, all, len, MPI_DOUBLE_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(is_composed(all[i], size, i, -1));
    OK(MPI_Scan(own, all, len, MPI_DOUBLE_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(is_composed(all[i], rank + 1, i, -1));
    OK(MPI_Exscan(own, all, len, MPI_DOUBLE_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(is_composed(all[i], rank == 0 ? 1 : rank, i, -1));
    OK(MPI_Reduce_scatter_block(own, all, len, MPI_DOUBLE_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(is_composed(all[i], size, rank * len + i, -1));
    OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, own, len, MPI_DOUBLE_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < len; i++)
        CHECK(is_composed(own[i], size, rank * len + i, 1000 + rank));
    CHECK(all[len].gap == -7 && all[len].a == -1);
    free(own);
    free(all);
}

static void own_operations(int len)
{
    MPI_Op op, op_c;
    OK(MPI_Op_create(compose, 0, &op));
    OK(MPI_Op_create_c(compose_c, 0, &op_c));
    int commute = -1;
    OK(MPI_Op_commutative(op, &commute));
    CHECK(commute == 0 && op != op_c);
    CHECK(MPI_Op_fromint(MPI_Op_toint(op)) == op);
    calls = 0, seen = MPI_DATATYPE_NULL;
    composition(op, len);
    CHECK(len == 0 || size == 1 || (calls > 0 && seen == MPI_DOUBLE_INT && longest <= len * size));
    composition(op_c, len);
    /* On two vectors of this rank. */
    map *left = maps(len, 1), *right = maps(len, 1);
    for (int i = 0; i < len; i++)
        right[i] = map_of(rank + 1, i);
    OK(MPI_Reduce_local(left, right, len, MPI_DOUBLE_INT, op));
    for (int i = 0; i < len; i++) {
        map both = composed(map_of(rank, i), map_of(rank + 1, i));
        CHECK(right[i].a == both.a && right[i].b == both.b && right[i].gap == 1001 + rank);
    }
    free(left);
    free(right);
    OK(MPI_Op_free(&op));
    OK(MPI_Op_free(&op_c));
    CHECK(op == MPI_OP_NULL);
}

/* Least and greatest with their places; the gaps stay. */
static void places(void)
{
    struct { double value; int at; int gap; } d = {rank % 2, rank, 5}, least = {0, 0, 6}, most = least;
    OK(MPI_Allreduce(&d, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
    OK(MPI_Allreduce(&d, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
    CHECK(least.value == 0 && least.at == 0 && least.gap == 6);
    CHECK(most.value == (size > 1) && most.at == (size > 1) && most.gap == 6);
    struct { short value; int at; } s = {(short) -rank, rank}, low = {0, 0};
    OK(MPI_Allreduce(&s, &low, 1, MPI_SHORT_INT, MPI_MINLOC, MPI_COMM_WORLD));
    CHECK(low.value == 1 - size && low.at == size - 1);
    struct { long double value; int at; } l = {rank * 0.1L, rank}, high = {0, 0};
    OK(MPI_Allreduce(&l, &high, 1, MPI_LONG_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
    CHECK(high.value == (size - 1) * 0.1L && high.at == size - 1);
    int two[2] = {7, size - rank}, found[2];
    OK(MPI_Allreduce(two, found, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD));
    CHECK(found[0] == 7 && found[1] == 1);
}

/* Numbers that C has and Rust has not. */
static void formats(void)
{
    long double own = 1.0L + rank * 0x1p-60L, sum = 0, expected = 0;
    for (int r = 0; r < size; r++)
        expected += 1.0L + r * 0x1p-60L;
    OK(MPI_Allreduce(&own, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == expected);
    OK(MPI_Allreduce(&own, &sum, 1, MPI_LONG_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    CHECK(sum == 1.0L + (size - 1) * 0x1p-60L);
    long double z[2] = {0, 1}, product[2];
    OK(MPI_Allreduce(z, product, 1, MPI_C_LONG_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD));
    const int real[4] = {1, 0, -1, 0}, imaginary[4] = {0, 1, 0, -1};
    CHECK(product[0] == real[size % 4] && product[1] == imaginary[size % 4]);
    _Bool yes = rank == 0, any, all;
    OK(MPI_Allreduce(&yes, &any, 1, MPI_C_BOOL, MPI_LOR, MPI_COMM_WORLD));
    OK(MPI_Allreduce(&yes, &all, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD));
    CHECK(any && all == (size == 1));
    unsigned char bits = 1 << rank % 8, or;
    OK(MPI_Allreduce(&bits, &or, 1, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD));
    CHECK(or == (1 << size) - 1);
    signed char minus = (signed char) -rank, least;
    OK(MPI_Allreduce(&minus, &least, 1, MPI_SIGNED_CHAR, MPI_MIN, MPI_COMM_WORLD));
    CHECK(least == 1 - size);
    unsigned top = UINT_MAX - rank, greatest;
    OK(MPI_Allreduce(&top, &greatest, 1, MPI_UNSIGNED, MPI_MAX, MPI_COMM_WORLD));
    CHECK(greatest == UINT_MAX);
    MPI_Aint address = 1, addresses;
    OK(MPI_Allreduce(&address, &addresses, 1, MPI_AINT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(addresses == size);
    /* At an odd address. */
    char out[9], in[9];
    double d = rank;
    memcpy(out + 1, &d, 8);
    OK(MPI_Allreduce(out + 1, in + 1, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    memcpy(&d, in + 1, 8);
    CHECK(d == size * (size - 1) / 2);
}

/* All ranks get the same bits, and the same in every run, though sums are rounded. */
static void the_same_everywhere(void)
{
    static double own[MOST], sum[MOST], again[MOST], first[MOST];
    for (int i = 0; i < MOST; i++)
        own[i] = 1.0 / (rank * 3 + i % 97 + 1) * (i % 2 ? 1e8 : 1e-8);
    for (int len = 1; len <= MOST; len *= 20) {
        OK(MPI_Allreduce(own, sum, len, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        OK(MPI_Allreduce(own, again, len, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        memcpy(first, sum, len * sizeof *sum);
        OK(MPI_Bcast(first, len, MPI_DOUBLE, 0, MPI_COMM_WORLD));
        CHECK(memcmp(sum, again, len * sizeof *sum) == 0);
        CHECK(memcmp(sum, first, len * sizeof *sum) == 0);
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int i = 0; i < LENGTHS; i++) {
        sums(lengths[i]);
        scattered_sums(lengths[i]);
        own_operations(lengths[i]);
    }
    places();
    formats();
    the_same_everywhere();
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
