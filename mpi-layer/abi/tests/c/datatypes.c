/* Datatypes: sizes and bounds of what is made of others, and the calls that made them. */
#include "check.h"
#include <stddef.h>
#include <wchar.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Size, bounds and true bounds, by all forms of the functions. */
static void is(int line, MPI_Datatype type, MPI_Count size, MPI_Count lb, MPI_Count extent,
               MPI_Count true_lb, MPI_Count true_extent)
{
    MPI_Count n[5], x[5];
    MPI_Aint a[4];
    int small;
    OK(MPI_Type_size(type, &small));
    OK(MPI_Type_size_c(type, &n[0]));
    OK(MPI_Type_size_x(type, &x[0]));
    OK(MPI_Type_get_extent_c(type, &n[1], &n[2]));
    OK(MPI_Type_get_extent_x(type, &x[1], &x[2]));
    OK(MPI_Type_get_extent(type, &a[0], &a[1]));
    OK(MPI_Type_get_true_extent_c(type, &n[3], &n[4]));
    OK(MPI_Type_get_true_extent_x(type, &x[3], &x[4]));
    OK(MPI_Type_get_true_extent(type, &a[2], &a[3]));
    CHECK(!memcmp(n, x, sizeof n));
    CHECK(a[0] == n[1] && a[1] == n[2] && a[2] == n[3] && a[3] == n[4]);
    CHECK(small == (size > 0x7fffffff ? MPI_UNDEFINED : (int)size));
    if (n[0] != size || n[1] != lb || n[2] != extent || n[3] != true_lb || n[4] != true_extent) {
        fprintf(stderr, "line %d: size %lld lb %lld extent %lld true lb %lld extent %lld\n", line,
                (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3],
                (long long)n[4]);
        exit(43);
    }
}
#define IS(...) is(__LINE__, __VA_ARGS__)

/* The call that made a type, by the ordinary functions. */
static void made_by(int line, MPI_Datatype type, int combiner, int ni, const int *integers, int na,
                    const MPI_Aint *addresses, int nd)
{
    int n[4], ints[40];
    MPI_Aint places[40];
    MPI_Datatype types[40];
    OK(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &n[3]));
    if (n[0] != ni || n[1] != na || n[2] != nd || n[3] != combiner) {
        fprintf(stderr, "line %d: %d integers, %d addresses, %d types, combiner %d\n", line, n[0],
                n[1], n[2], n[3]);
        exit(44);
    }
    MPI_Count c[4];
    OK(MPI_Type_get_envelope_c(type, &c[0], &c[1], &c[2], &c[3], &n[3]));
    CHECK(c[0] == ni && c[1] == na && c[2] == 0 && c[3] == nd && n[3] == combiner);
    OK(MPI_Type_get_contents(type, ni, na, nd, ints, places, types));
    for (int i = 0; i < ni; i++)
        if (ints[i] != integers[i]) {
            fprintf(stderr, "line %d: integer %d is %d\n", line, i, ints[i]);
            exit(45);
        }
    for (int i = 0; i < na; i++)
        CHECK(places[i] == addresses[i]);
    for (int i = 0; i < nd; i++) {
        MPI_Datatype one = types[i];
        int kind;
        OK(MPI_Type_get_envelope(one, &n[0], &n[1], &n[2], &kind));
        if (kind != MPI_COMBINER_NAMED)
            OK(MPI_Type_free(&types[i]));
    }
    if (ni > 0)
        FAILS(MPI_ERR_ARG, MPI_Type_get_contents(type, ni - 1, na, nd, ints, places, types));
}
#define MADE_BY(type, combiner, nd, addresses, na, ...)                                      \
    do {                                                                                     \
        const int integers_[] = {__VA_ARGS__};                                               \
        made_by(__LINE__, type, combiner, COUNT(integers_), integers_, na, addresses, nd);   \
    } while (0)

static void constructors(void)
{
    MPI_Datatype t, u, v;
    OK(MPI_Type_contiguous(3, MPI_INT, &t));
    IS(t, 12, 0, 12, 0, 12);
    MADE_BY(t, MPI_COMBINER_CONTIGUOUS, 1, NULL, 0, 3);
    OK(MPI_Type_vector(4, 2, 3, t, &u));
    IS(u, 96, 0, 132, 0, 132);
    MADE_BY(u, MPI_COMBINER_VECTOR, 1, NULL, 0, 4, 2, 3);
    OK(MPI_Type_free(&t));
    CHECK(t == MPI_DATATYPE_NULL);
    /* What it was made of is still there. */
    IS(u, 96, 0, 132, 0, 132);
    OK(MPI_Type_free(&u));

    OK(MPI_Type_vector(3, 1, -2, MPI_INT, &t));
    IS(t, 12, -16, 20, -16, 20);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_vector(3, 1, 0, MPI_INT, &t));
    IS(t, 12, 0, 4, 0, 4);
    OK(MPI_Type_free(&t));

    OK(MPI_Type_create_hvector(3, 2, 9, MPI_SHORT, &t));
    IS(t, 12, 0, 22, 0, 22);
    MPI_Aint stride = 9;
    MADE_BY(t, MPI_COMBINER_HVECTOR, 1, &stride, 1, 3, 2);
    OK(MPI_Type_free(&t));

    int lengths[3] = {2, 0, 1}, places[3] = {4, -1000, 1};
    OK(MPI_Type_indexed(3, lengths, places, MPI_DOUBLE, &t));
    IS(t, 24, 8, 40, 8, 40);
    MADE_BY(t, MPI_COMBINER_INDEXED, 1, NULL, 0, 3, 2, 0, 1, 4, -1000, 1);
    OK(MPI_Type_free(&t));

    /* The end is moved up to where the next element is aligned. */
    MPI_Aint bytes[3] = {0, 6, 32};
    int ones[3] = {1, 1, 1};
    OK(MPI_Type_create_hindexed(2, ones, bytes, MPI_INT, &t));
    IS(t, 8, 0, 12, 0, 10);
    MADE_BY(t, MPI_COMBINER_HINDEXED, 1, bytes, 2, 2, 1, 1);
    OK(MPI_Type_free(&t));

    OK(MPI_Type_create_indexed_block(3, 2, places, MPI_INT, &t));
    IS(t, 24, -4000, 4024, -4000, 4024);
    MADE_BY(t, MPI_COMBINER_INDEXED_BLOCK, 1, NULL, 0, 3, 2, 4, -1000, 1);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_create_hindexed_block(3, 2, bytes, MPI_CHAR, &t));
    IS(t, 6, 0, 34, 0, 34);
    MADE_BY(t, MPI_COMBINER_HINDEXED_BLOCK, 1, bytes, 3, 3, 2);
    OK(MPI_Type_free(&t));

    struct { char c; double d[2]; short s; } x;
    MPI_Aint offsets[3] = {0, (char *)&x.d - (char *)&x, (char *)&x.s - (char *)&x};
    int counts[3] = {1, 2, 1};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    OK(MPI_Type_create_struct(3, counts, offsets, types, &t));
    IS(t, 19, 0, sizeof x, 0, 26);
    MADE_BY(t, MPI_COMBINER_STRUCT, 3, offsets, 3, 3, 1, 2, 1);

    OK(MPI_Type_create_resized(t, -4, 100, &u));
    IS(u, 19, -4, 100, 0, 26);
    MPI_Aint bounds[2] = {-4, 100};
    made_by(__LINE__, u, MPI_COMBINER_RESIZED, 0, NULL, 2, bounds, 1);
    /* Bounds that were given stay, whatever lies outside of them; a second pair takes the place. */
    OK(MPI_Type_contiguous(2, u, &v));
    IS(v, 38, -4, 200, 0, 126);
    OK(MPI_Type_free(&v));
    OK(MPI_Type_create_resized(u, 0, 8, &v));
    IS(v, 19, 0, 8, 0, 26);
    OK(MPI_Type_free(&v));
    types[0] = u, types[1] = MPI_DOUBLE;
    bytes[0] = 0, bytes[1] = 1000;
    OK(MPI_Type_create_struct(2, ones, bytes, types, &v));
    IS(v, 27, -4, 100, 0, 1008);
    OK(MPI_Type_free(&v));
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&t));

    /* Given bounds have no alignment; a negative extent goes backwards. */
    OK(MPI_Type_create_resized(MPI_INT, 0, 6, &t));
    OK(MPI_Type_contiguous(3, t, &u));
    IS(u, 12, 0, 18, 0, 16);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&t));
    OK(MPI_Type_create_resized(MPI_INT, 4, -8, &t));
    IS(t, 4, 4, -8, 0, 4);
    OK(MPI_Type_contiguous(3, t, &u));
    IS(u, 12, -12, 8, -16, 20);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&t));

    /* Nothing: no bytes and no bounds; but a type without bytes may have bounds. */
    OK(MPI_Type_contiguous(0, MPI_INT, &t));
    IS(t, 0, 0, 0, 0, 0);
    OK(MPI_Type_create_resized(t, -8, 24, &u));
    OK(MPI_Type_contiguous(2, u, &v));
    IS(v, 0, -8, 48, 0, 0);
    OK(MPI_Type_free(&v));
    types[0] = u, types[1] = MPI_CHAR;
    OK(MPI_Type_create_struct(2, ones, bytes, types, &v));
    IS(v, 1, -8, 24, 1000, 1);
    OK(MPI_Type_free(&v));
    counts[0] = 0;
    OK(MPI_Type_create_struct(2, counts, bytes, types, &v));
    IS(v, 2, 1000, 2, 1000, 2);
    OK(MPI_Type_free(&v));
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&t));
    OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &t));
    IS(t, 0, 0, 0, 0, 0);
    OK(MPI_Type_free(&t));

    /* A copy is committed if the first is, and has no name of its own. */
    int n[4];
    OK(MPI_Type_dup(MPI_DOUBLE_INT, &t));
    IS(t, 12, 0, 16, 0, 12);
    made_by(__LINE__, t, MPI_COMBINER_DUP, 0, NULL, 0, NULL, 1);
    MPI_Datatype of;
    OK(MPI_Type_get_contents(t, 0, 0, 1, NULL, NULL, &of));
    CHECK(of == MPI_DOUBLE_INT);
    struct { double value; int index; } pair = {1, 2};
    char packed[40];
    int position = 0;
    OK(MPI_Pack(&pair, 1, t, packed, 40, &position, MPI_COMM_SELF));
    CHECK(position == 12);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &t));
    OK(MPI_Type_dup(t, &u));
    FAILS(MPI_ERR_TYPE, MPI_Pack(packed, 1, u, packed, 40, &position, MPI_COMM_SELF));
    OK(MPI_Type_commit(&u));
    OK(MPI_Type_commit(&u));
    FAILS(MPI_ERR_TYPE, MPI_Pack(packed, 1, t, packed, 40, &position, MPI_COMM_SELF));
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&t));

    OK(MPI_Type_get_envelope(MPI_FLOAT_INT, &n[0], &n[1], &n[2], &n[3]));
    CHECK(n[0] == 0 && n[1] == 0 && n[2] == 0 && n[3] == MPI_COMBINER_NAMED);
    FAILS(MPI_ERR_TYPE, MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, NULL));
}

/* Large counts: kept in an array of their own, and not told by ordinary functions. */
static void large(void)
{
    MPI_Datatype t, u;
    MPI_Count n[4], c[8], huge = (MPI_Count)1 << 33;
    int i[8], combiner;
    MPI_Aint a[8];
    MPI_Datatype types[4];
    OK(MPI_Type_contiguous_c(huge, MPI_INT, &t));
    IS(t, huge * 4, 0, huge * 4, 0, huge * 4);
    OK(MPI_Type_get_envelope_c(t, &n[0], &n[1], &n[2], &n[3], &combiner));
    CHECK(n[0] == 0 && n[1] == 0 && n[2] == 1 && n[3] == 1 && combiner == MPI_COMBINER_CONTIGUOUS);
    OK(MPI_Type_get_contents_c(t, 8, 8, 8, 4, i, a, c, types));
    CHECK(c[0] == huge && types[0] == MPI_INT);
    FAILS(MPI_ERR_TYPE, MPI_Type_get_envelope(t, i, i, i, i));
    FAILS(MPI_ERR_TYPE, MPI_Type_get_contents(t, 8, 8, 4, i, a, types));
    OK(MPI_Type_vector_c(3, 1, huge, MPI_CHAR, &u));
    IS(u, 3, 0, 2 * huge + 1, 0, 2 * huge + 1);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_hvector_c(2, 1, -huge, MPI_CHAR, &u));
    IS(u, 2, -huge, huge + 1, -huge, huge + 1);
    OK(MPI_Type_get_contents_c(u, 8, 8, 8, 4, i, a, c, types));
    CHECK(c[0] == 2 && c[1] == 1 && c[2] == -huge);
    OK(MPI_Type_free(&u));
    MPI_Count lengths[2] = {1, huge}, places[2] = {huge, 0};
    OK(MPI_Type_indexed_c(2, lengths, places, MPI_SHORT, &u));
    IS(u, 2 * huge + 2, 0, 2 * huge + 2, 0, 2 * huge + 2);
    OK(MPI_Type_get_envelope_c(u, &n[0], &n[1], &n[2], &n[3], &combiner));
    CHECK(n[0] == 0 && n[1] == 0 && n[2] == 5 && n[3] == 1);
    OK(MPI_Type_get_contents_c(u, 8, 8, 8, 4, i, a, c, types));
    CHECK(c[0] == 2 && c[1] == 1 && c[2] == huge && c[3] == huge && c[4] == 0);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_hindexed_block_c(2, 3, places, MPI_SHORT, &u));
    OK(MPI_Type_get_envelope_c(u, &n[0], &n[1], &n[2], &n[3], &combiner));
    CHECK(n[2] == 4 && combiner == MPI_COMBINER_HINDEXED_BLOCK);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_create_resized_c(MPI_INT, -huge, 3 * huge, &u));
    IS(u, 4, -huge, 3 * huge, 0, 4);
    OK(MPI_Type_get_envelope_c(u, &n[0], &n[1], &n[2], &n[3], &combiner));
    CHECK(n[1] == 0 && n[2] == 2);
    OK(MPI_Type_free(&u));
    MPI_Count sizes[2] = {huge, 4}, parts[2] = {2, 2}, starts[2] = {huge - 2, 1};
    OK(MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, MPI_CHAR, &u));
    IS(u, 4, 0, 4 * huge, 4 * (huge - 2) + 1, 6);
    OK(MPI_Type_get_envelope_c(u, &n[0], &n[1], &n[2], &n[3], &combiner));
    CHECK(n[0] == 2 && n[1] == 0 && n[2] == 6 && n[3] == 1);
    OK(MPI_Type_get_contents_c(u, 8, 8, 8, 4, i, a, c, types));
    CHECK(i[0] == 2 && i[1] == MPI_ORDER_C && c[0] == huge && c[3] == 2 && c[5] == 1);
    OK(MPI_Type_free(&u));
    /* More than can be counted is an error, and no crash. */
    FAILS(MPI_ERR_ARG, MPI_Type_contiguous_c(huge, t, &u));
    FAILS(MPI_ERR_ARG, MPI_Type_contiguous_c(INT64_MAX, MPI_INT, &u));
    FAILS(MPI_ERR_ARG, MPI_Type_vector_c(2, 1, INT64_MAX / 2, MPI_INT, &u));
    FAILS(MPI_ERR_ARG, MPI_Type_create_resized_c(MPI_INT, INT64_MAX, 2, &u));
    OK(MPI_Type_free(&t));
}

static void arrays(void)
{
    MPI_Datatype t;
    int sizes[2] = {4, 6}, parts[2] = {2, 3}, starts[2] = {1, 2}, all[24], got[8];
    for (int i = 0; i < 24; i++)
        all[i] = i;
    OK(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &t));
    IS(t, 24, 0, 96, 32, 36);
    MADE_BY(t, MPI_COMBINER_SUBARRAY, 1, NULL, 0, 2, 4, 6, 2, 3, 1, 2, MPI_ORDER_C);
    OK(MPI_Type_commit(&t));
    int position = 0;
    OK(MPI_Pack(all, 1, t, got, sizeof got, &position, MPI_COMM_SELF));
    int rows[6] = {8, 9, 10, 14, 15, 16};
    CHECK(position == 24 && !memcmp(got, rows, 24));
    OK(MPI_Type_free(&t));
    OK(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    position = 0;
    OK(MPI_Pack(all, 1, t, got, sizeof got, &position, MPI_COMM_SELF));
    int columns[6] = {9, 10, 13, 14, 17, 18};
    CHECK(position == 24 && !memcmp(got, columns, 24));
    OK(MPI_Type_free(&t));
    starts[0] = 3;
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &t));
    starts[0] = -1;
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &t));
    starts[0] = 0, parts[0] = 0;
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(2, sizes, sizes, parts, 3, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(0, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &t));

    /* Every element of an array belongs to one process, and to the right one. */
    for (int grid = 0; grid < 4; grid++)
        for (int how = 0; how < 6; how++)
            for (int order = 0; order < 2; order++) {
                int g[2] = {7, 10}, processes[4][2] = {{1, 1}, {3, 3}, {4, 3}, {1, 9}};
                int *p = processes[grid], n = p[0] * p[1], seen[70] = {0};
                int distributions[6][2] = {
                    {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK},
                    {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
                    {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
                    {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC},
                    {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
                    {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}};
                int dflt = MPI_DISTRIBUTE_DFLT_DARG;
                int arguments[6][2] = {{dflt, dflt}, {dflt, 10}, {7, dflt},
                                       {2, 3},       {7, 4},     {20, 1}};
                int *d = distributions[how], *k = arguments[how], total = 0;
                int block[2];
                for (int i = 0; i < 2; i++)
                    block[i] = k[i] != dflt ? k[i]
                               : d[i] == MPI_DISTRIBUTE_CYCLIC ? 1 : (g[i] + p[i] - 1) / p[i];
                for (int rank = 0; rank < n; rank++) {
                    int words[12] = {n, rank, 2, 7, 10, d[0], d[1], k[0], k[1], p[0], p[1],
                                     order ? MPI_ORDER_C : MPI_ORDER_FORTRAN};
                    OK(MPI_Type_create_darray(n, rank, 2, g, d, k, p, words[11], MPI_INT, &t));
                    made_by(__LINE__, t, MPI_COMBINER_DARRAY, 12, words, 0, NULL, 1);
                    MPI_Aint lb, extent;
                    OK(MPI_Type_get_extent(t, &lb, &extent));
                    CHECK(lb == 0 && extent == 70 * 4);
                    OK(MPI_Type_commit(&t));
                    int array[70], mine[70], size, before = -1;
                    for (int i = 0; i < 70; i++)
                        array[i] = i;
                    OK(MPI_Type_size(t, &size));
                    position = 0;
                    OK(MPI_Pack(array, 1, t, mine, sizeof mine, &position, MPI_COMM_SELF));
                    CHECK(position == size);
                    for (int i = 0; i < size / 4; i++) {
                        int at = mine[i];
                        int x = order ? at / 10 : at % 7, y = order ? at % 10 : at / 7;
                        CHECK((x / block[0]) % p[0] == rank / p[1]);
                        CHECK((y / block[1]) % p[1] == rank % p[1]);
                        CHECK(at > before);
                        before = at;
                        seen[at]++;
                        total++;
                    }
                    OK(MPI_Type_free(&t));
                }
                CHECK(total == 70);
                for (int i = 0; i < 70; i++)
                    CHECK(seen[i] == 1);
            }
    int g = 10, d = MPI_DISTRIBUTE_BLOCK, k = 2, p = 4;
    FAILS(MPI_ERR_ARG, MPI_Type_create_darray(4, 0, 1, &g, &d, &k, &p, MPI_ORDER_C, MPI_INT, &t));
    k = 3;
    FAILS(MPI_ERR_ARG, MPI_Type_create_darray(5, 0, 1, &g, &d, &k, &p, MPI_ORDER_C, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_darray(4, 4, 1, &g, &d, &k, &p, MPI_ORDER_C, MPI_INT, &t));
    d = MPI_DISTRIBUTE_NONE;
    FAILS(MPI_ERR_ARG, MPI_Type_create_darray(4, 0, 1, &g, &d, &k, &p, MPI_ORDER_C, MPI_INT, &t));
    p = 1;
    OK(MPI_Type_create_darray(1, 0, 1, &g, &d, &k, &p, MPI_ORDER_C, MPI_INT, &t));
    IS(t, 40, 0, 40, 0, 40);
    OK(MPI_Type_free(&t));
}

static void fortran(void)
{
    MPI_Datatype t, u;
    int n[4], wish[2];
    OK(MPI_Type_create_f90_real(6, 30, &t));
    OK(MPI_Type_create_f90_real(6, 30, &u));
    CHECK(t == u);
    IS(t, 4, 0, 4, 0, 4);
    OK(MPI_Type_get_envelope(t, &n[0], &n[1], &n[2], &n[3]));
    CHECK(n[0] == 2 && n[1] == 0 && n[2] == 0 && n[3] == MPI_COMBINER_F90_REAL);
    OK(MPI_Type_get_contents(t, 2, 0, 0, wish, NULL, NULL));
    CHECK(wish[0] == 6 && wish[1] == 30);
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&t));
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &t));
    IS(t, 8, 0, 8, 0, 8);
    OK(MPI_Type_create_f90_complex(MPI_UNDEFINED, 300, &t));
    IS(t, 16, 0, 16, 0, 16);
    OK(MPI_Type_create_f90_integer(9, &t));
    IS(t, 4, 0, 4, 0, 4);
    OK(MPI_Type_create_f90_integer(10, &t));
    IS(t, 8, 0, 8, 0, 8);
    /* Committed, and itself where it comes back. */
    OK(MPI_Type_contiguous(2, t, &u));
    MPI_Datatype inner;
    OK(MPI_Type_get_contents(u, 1, 0, 1, wish, NULL, &inner));
    CHECK(inner == t);
    OK(MPI_Type_free(&u));
    FAILS(MPI_ERR_ARG, MPI_Type_create_f90_integer(39, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_f90_real(34, 10, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &t));

    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &t));
    CHECK(t == MPI_REAL8);
    OK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 2, &t));
    CHECK(t == MPI_INTEGER2);
    OK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &t));
    CHECK(t == MPI_COMPLEX16);
    FAILS(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_match_size(17, 4, &t));
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &t));
    CHECK(t == MPI_DOUBLE_INT);
    OK(MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &t));
    CHECK(t == MPI_DATATYPE_NULL);
}

static void predefined(void)
{
    struct { long double v; int i; } pair;
    struct { short v; int i; } shorter;
    IS(MPI_LONG_DOUBLE_INT, 20, 0, sizeof pair, 0, 20);
    IS(MPI_SHORT_INT, 6, 0, sizeof shorter, 0, 8);
    IS(MPI_DOUBLE_INT, 12, 0, 16, 0, 12);
    IS(MPI_LONG_INT, 12, 0, 16, 0, 12);
    IS(MPI_LONG_DOUBLE, sizeof(long double), 0, sizeof(long double), 0, sizeof(long double));
    IS(MPI_WCHAR, sizeof(wchar_t), 0, sizeof(wchar_t), 0, sizeof(wchar_t));
    IS(MPI_C_BOOL, sizeof(_Bool), 0, sizeof(_Bool), 0, sizeof(_Bool));
    IS(MPI_AINT, sizeof(MPI_Aint), 0, sizeof(MPI_Aint), 0, sizeof(MPI_Aint));
    IS(MPI_C_LONG_DOUBLE_COMPLEX, 2 * sizeof(long double), 0, 2 * sizeof(long double), 0,
       2 * sizeof(long double));
    MPI_Datatype t = MPI_INT;
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&t));
    CHECK(t == MPI_INT);
    OK(MPI_Type_commit(&t));
    t = MPI_DATATYPE_NULL;
    FAILS(MPI_ERR_TYPE, MPI_Type_commit(&t));
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&t));
}

static void damage(void)
{
    MPI_Datatype t, old;
    int n, one = 1, minus = -1;
    MPI_Aint place = 0;
    OK(MPI_Type_contiguous(2, MPI_INT, &t));
    old = t;
    OK(MPI_Type_free(&t));
    FAILS(MPI_ERR_TYPE, MPI_Type_size(old, &n));
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&old));
    FAILS(MPI_ERR_TYPE, MPI_Type_contiguous(1, old, &t));
    FAILS(MPI_ERR_TYPE, MPI_Type_size(MPI_DATATYPE_NULL, &n));
    FAILS(MPI_ERR_TYPE, MPI_Type_size((MPI_Datatype)0x2ff, &n));
    FAILS(MPI_ERR_TYPE, MPI_Type_size((MPI_Datatype)MPI_COMM_WORLD, &n));
    FAILS(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &t));
    FAILS(MPI_ERR_COUNT, MPI_Type_vector(-1, 1, 1, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_vector(1, -1, 1, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_indexed(1, &minus, &one, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_indexed(1, NULL, &one, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_hindexed_block(1, -1, &place, MPI_INT, &t));
    FAILS(MPI_ERR_TYPE, MPI_Type_create_struct(1, &one, &place, &old, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_struct(1, &minus, &place, &(MPI_Datatype){MPI_INT}, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_contiguous(1, MPI_INT, NULL));
    FAILS(MPI_ERR_ARG, MPI_Type_size(MPI_INT, NULL));

    /* Handles as numbers. */
    OK(MPI_Type_contiguous(2, MPI_INT, &t));
    CHECK(MPI_Type_fromint(MPI_Type_toint(t)) == t);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Type_get_name(t, name, &n));
    CHECK(n == 0);
    OK(MPI_Type_set_name(t, "two"));
    OK(MPI_Type_get_name(t, name, &n));
    CHECK(n == 3 && !strcmp(name, "two"));
    OK(MPI_Type_free(&t));
}

/* A chain of types that nothing else refers to. */
static void chains(void)
{
    MPI_Datatype t = MPI_INT;
    for (int i = 0; i < 100000; i++) {
        MPI_Datatype next;
        OK(i % 2 ? MPI_Type_dup(t, &next) : MPI_Type_contiguous(1, t, &next));
        if (t != MPI_INT)
            OK(MPI_Type_free(&t));
        t = next;
    }
    IS(t, 4, 0, 4, 0, 4);
    OK(MPI_Type_free(&t));
    /* One that is a level deeper with each step has an end that is told. */
    struct { int a; float b; } x;
    int ones[2] = {1, 1}, code = MPI_SUCCESS, steps = 0;
    MPI_Aint places[2] = {0, offsetof(__typeof__(x), b)};
    MPI_Datatype types[2] = {MPI_INT, MPI_FLOAT};
    OK(MPI_Type_create_struct(2, ones, places, types, &t));
    while (steps < 5000 && code == MPI_SUCCESS) {
        MPI_Count lb, extent;
        MPI_Datatype next;
        OK(MPI_Type_get_extent_c(t, &lb, &extent));
        types[0] = t, types[1] = MPI_INT;
        places[1] = extent + 4;
        code = MPI_Type_create_struct(2, ones, places, types, &next);
        if (code == MPI_SUCCESS) {
            OK(MPI_Type_free(&t));
            t = next;
            steps++;
        }
    }
    CHECK(steps >= 100);
    OK(MPI_Type_free(&t));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    predefined();
    constructors();
    large();
    arrays();
    fortran();
    damage();
    chains();
    done(rank_of(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    return 0;
}
