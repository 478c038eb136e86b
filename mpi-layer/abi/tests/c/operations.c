/* Which operation knows which datatype, and what collectives say of arguments that are wrong. */
#include "check.h"

#include <stdint.h>

/* The groups of types in the standard's table. */
enum { INTEGER = 1, FORTRAN = 2, REAL = 4, LOGICAL = 8, COMPLEX = 16, BYTES = 32, ADDRESS = 64, PAIR = 128 };

static const struct { MPI_Datatype type; int group; } types[] = {
    {MPI_INT, INTEGER}, {MPI_LONG, INTEGER}, {MPI_SHORT, INTEGER}, {MPI_UNSIGNED_SHORT, INTEGER},
    {MPI_UNSIGNED, INTEGER}, {MPI_UNSIGNED_LONG, INTEGER}, {MPI_LONG_LONG, INTEGER},
    {MPI_UNSIGNED_LONG_LONG, INTEGER}, {MPI_SIGNED_CHAR, INTEGER}, {MPI_UNSIGNED_CHAR, INTEGER},
    {MPI_INT8_T, INTEGER}, {MPI_INT16_T, INTEGER}, {MPI_INT32_T, INTEGER}, {MPI_INT64_T, INTEGER},
    {MPI_UINT8_T, INTEGER}, {MPI_UINT16_T, INTEGER}, {MPI_UINT32_T, INTEGER},
    {MPI_UINT64_T, INTEGER}, {MPI_INTEGER, FORTRAN}, {MPI_INTEGER8, FORTRAN},
    {MPI_FLOAT, REAL}, {MPI_DOUBLE, REAL}, {MPI_REAL, REAL}, {MPI_DOUBLE_PRECISION, REAL},
    {MPI_LONG_DOUBLE, REAL}, {MPI_REAL8, REAL}, {MPI_LOGICAL, LOGICAL}, {MPI_C_BOOL, LOGICAL},
    {MPI_CXX_BOOL, LOGICAL}, {MPI_LOGICAL8, LOGICAL}, {MPI_COMPLEX, COMPLEX},
    {MPI_C_COMPLEX, COMPLEX}, {MPI_C_DOUBLE_COMPLEX, COMPLEX},
    {MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX}, {MPI_CXX_DOUBLE_COMPLEX, COMPLEX},
    {MPI_DOUBLE_COMPLEX, COMPLEX}, {MPI_BYTE, BYTES}, {MPI_AINT, ADDRESS}, {MPI_OFFSET, ADDRESS},
    {MPI_COUNT, ADDRESS}, {MPI_FLOAT_INT, PAIR}, {MPI_DOUBLE_INT, PAIR}, {MPI_LONG_INT, PAIR},
    {MPI_2INT, PAIR}, {MPI_SHORT_INT, PAIR}, {MPI_LONG_DOUBLE_INT, PAIR}, {MPI_2REAL, PAIR},
    {MPI_2DOUBLE_PRECISION, PAIR}, {MPI_2INTEGER, PAIR}, {MPI_CHAR, 0}, {MPI_WCHAR, 0},
    {MPI_CHARACTER, 0}, {MPI_PACKED, 0},
};

static const struct { MPI_Op op; int groups; } ops[] = {
    {MPI_MAX, INTEGER | FORTRAN | REAL | ADDRESS}, {MPI_MIN, INTEGER | FORTRAN | REAL | ADDRESS},
    {MPI_SUM, INTEGER | FORTRAN | REAL | COMPLEX | ADDRESS},
    {MPI_PROD, INTEGER | FORTRAN | REAL | COMPLEX | ADDRESS},
    {MPI_LAND, INTEGER | LOGICAL}, {MPI_LOR, INTEGER | LOGICAL}, {MPI_LXOR, INTEGER | LOGICAL},
    {MPI_BAND, INTEGER | FORTRAN | BYTES | ADDRESS}, {MPI_BOR, INTEGER | FORTRAN | BYTES | ADDRESS},
    {MPI_BXOR, INTEGER | FORTRAN | BYTES | ADDRESS}, {MPI_MINLOC, PAIR}, {MPI_MAXLOC, PAIR},
    {MPI_REPLACE, 0}, {MPI_NO_OP, 0},
};

enum { TYPES = sizeof types / sizeof *types, OPS = sizeof ops / sizeof *ops };

static void table(void)
{
    for (int t = 0; t < TYPES; t++)
        for (int o = 0; o < OPS; o++) {
            _Alignas(16) char a[64] = {0}, b[64] = {0};
            int code = MPI_Reduce_local(a, b, 1, types[t].type, ops[o].op), class = -1;
            int wanted = types[t].group & ops[o].groups ? MPI_SUCCESS : MPI_ERR_OP;
            OK(MPI_Error_class(code, &class));
            if (class != wanted) {
                fprintf(stderr, "type %d with operation %d gave %d\n", t, o, class);
                exit(43);
            }
        }
}

static void never(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void) in, (void) inout, (void) len, (void) type;
    CHECK(!"it is not called");
}

static void operations(void)
{
    int commute = -1;
    OK(MPI_Op_commutative(MPI_SUM, &commute));
    CHECK(commute == 1);
    OK(MPI_Op_commutative(MPI_MAXLOC, &commute));
    CHECK(commute == 1);
    FAILS(MPI_ERR_OP, MPI_Op_commutative(MPI_OP_NULL, &commute));
    FAILS(MPI_ERR_OP, MPI_Op_commutative((MPI_Op) 0x22222222, &commute));
    MPI_Op op = MPI_SUM;
    FAILS(MPI_ERR_OP, MPI_Op_free(&op));
    CHECK(op == MPI_SUM);
    op = MPI_OP_NULL;
    FAILS(MPI_ERR_OP, MPI_Op_free(&op));
    FAILS(MPI_ERR_ARG, MPI_Op_create(NULL, 1, &op));
    FAILS(MPI_ERR_ARG, MPI_Op_create(never, 1, NULL));
    OK(MPI_Op_create(never, 7, &op));
    OK(MPI_Op_commutative(op, &commute));
    CHECK(commute == 1);
    int a = 0, b = 0;
    OK(MPI_Allreduce(&a, &b, 0, MPI_INT, op, MPI_COMM_WORLD));
    OK(MPI_Reduce_local(&a, &b, 0, MPI_INT, op));
    MPI_Op old = op;
    OK(MPI_Op_free(&op));
    FAILS(MPI_ERR_OP, MPI_Reduce_local(&a, &b, 1, MPI_INT, old));
    OK(MPI_Op_create(never, 0, &op));
    CHECK(op != old);
    FAILS(MPI_ERR_OP, MPI_Op_commutative(old, &commute));
    OK(MPI_Op_free(&op));
    CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_SUM)) == MPI_SUM);
}

/* All are found before anything is sent, so that ranks stay in step. */
static void arguments(int rank, int size)
{
    MPI_Comm w = MPI_COMM_WORLD, none = MPI_COMM_NULL;
    MPI_Datatype bad = MPI_DATATYPE_NULL;
    int a[64] = {0}, b[64] = {0}, counts[16], displs[16];
    MPI_Datatype kinds[16];
    for (int r = 0; r < 16; r++)
        counts[r] = 1, displs[r] = r, kinds[r] = MPI_INT;

    FAILS(MPI_ERR_COMM, MPI_Barrier(none));
    FAILS(MPI_ERR_COMM, MPI_Bcast(a, 1, MPI_INT, 0, none));
    FAILS(MPI_ERR_COMM, MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, none));
    FAILS(MPI_ERR_ROOT, MPI_Bcast(a, 1, MPI_INT, size, w));
    FAILS(MPI_ERR_ROOT, MPI_Bcast(a, 1, MPI_INT, -1, w));
    FAILS(MPI_ERR_ROOT, MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, size, w));
    FAILS(MPI_ERR_ROOT, MPI_Scatterv(a, counts, displs, MPI_INT, b, 1, MPI_INT, -3, w));
    FAILS(MPI_ERR_ROOT, MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, -4, w));
    FAILS(MPI_ERR_COUNT, MPI_Bcast(a, -1, MPI_INT, 0, w));
    FAILS(MPI_ERR_COUNT, MPI_Bcast_c(a, -1, MPI_INT, 0, w));
    FAILS(MPI_ERR_COUNT, MPI_Allgather(a, 1, MPI_INT, b, -1, MPI_INT, w));
    FAILS(MPI_ERR_COUNT, MPI_Alltoall(a, -1, MPI_INT, b, 1, MPI_INT, w));
    FAILS(MPI_ERR_COUNT, MPI_Scan(a, b, -1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_TYPE, MPI_Bcast(a, 1, bad, 0, w));
    FAILS(MPI_ERR_TYPE, MPI_Allgather(a, 1, bad, b, 1, MPI_INT, w));
    FAILS(MPI_ERR_TYPE, MPI_Exscan(a, b, 1, (MPI_Datatype) 0x33333333, MPI_SUM, w));
    FAILS(MPI_ERR_OP, MPI_Allreduce(a, b, 1, MPI_INT, MPI_OP_NULL, w));
    FAILS(MPI_ERR_OP, MPI_Allreduce(a, b, 1, MPI_CHAR, MPI_SUM, w));
    FAILS(MPI_ERR_OP, MPI_Reduce(a, b, 1, MPI_FLOAT, MPI_LAND, 0, w));
    FAILS(MPI_ERR_OP, MPI_Allreduce(a, b, 1, MPI_INT, MPI_REPLACE, w));
    FAILS(MPI_ERR_OP, MPI_Reduce_scatter_block(a, b, 1, MPI_INT, MPI_MINLOC, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(a, a, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allgather(a, 1, MPI_INT, a, 1, MPI_INT, w));
    FAILS(MPI_ERR_BUFFER, MPI_Alltoall(a, 1, MPI_INT, a, 1, MPI_INT, w));
    FAILS(MPI_ERR_BUFFER, MPI_Scan(a, a, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce_local(a, a, 1, MPI_INT, MPI_SUM));
    FAILS(MPI_ERR_BUFFER, MPI_Bcast(NULL, 1, MPI_INT, 0, w));
    FAILS(MPI_ERR_BUFFER, MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(a, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(NULL, b, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce_local(MPI_IN_PLACE, b, 1, MPI_INT, MPI_SUM));
    if (rank != 0) {
        FAILS(MPI_ERR_BUFFER, MPI_Reduce(MPI_IN_PLACE, b, 1, MPI_INT, MPI_SUM, 0, w));
        FAILS(MPI_ERR_BUFFER, MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, b, 1, MPI_INT, 0, w));
    }
    FAILS(MPI_ERR_ARG, MPI_Alltoallv(a, NULL, displs, MPI_INT, b, counts, displs, MPI_INT, w));
    FAILS(MPI_ERR_ARG, MPI_Allgatherv(a, 1, MPI_INT, b, counts, NULL, MPI_INT, w));
    FAILS(MPI_ERR_ARG, MPI_Reduce_scatter(a, b, NULL, MPI_INT, MPI_SUM, w));
    counts[size - 1] = -1;
    FAILS(MPI_ERR_COUNT, MPI_Allgatherv(a, 1, MPI_INT, b, counts, displs, MPI_INT, w));
    FAILS(MPI_ERR_COUNT, MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_COUNT,
          MPI_Alltoallw(a, counts, displs, kinds, b, counts, displs, kinds, w));
    counts[size - 1] = 1, kinds[0] = bad;
    FAILS(MPI_ERR_TYPE, MPI_Alltoallw(a, counts, displs, kinds, b, counts, displs, kinds, w));
    if (size > 1) {
        /* What is received should not overlap; where it does, the higher rank's comes last. */
        int mine = rank + 10;
        displs[1] = 0, b[0] = 0;
        OK(MPI_Allgatherv(&mine, 1, MPI_INT, b, counts, displs, MPI_INT, w));
        CHECK(b[0] == 11);
        displs[1] = 1;
        /* Buffers of a call do not share bytes. */
        FAILS(MPI_ERR_BUFFER, MPI_Allgather(&a[rank], 1, MPI_INT, a, 1, MPI_INT, w));
        FAILS(MPI_ERR_BUFFER, MPI_Alltoall(&a[1], 1, MPI_INT, a, 1, MPI_INT, w));
        FAILS(MPI_ERR_BUFFER, MPI_Reduce_scatter_block(a, &a[1], 1, MPI_INT, MPI_SUM, w));
        FAILS(MPI_ERR_BUFFER,
              MPI_Alltoallv(a, counts, displs, MPI_INT, &a[1], counts, displs, MPI_INT, w));
        FAILS(MPI_ERR_BUFFER, MPI_Allgatherv(&a[rank], 1, MPI_INT, a, counts, displs, MPI_INT, w));
    }
    /* More bytes than there can be. */
    MPI_Count most = (MPI_Count) 1 << 62, each[16];
    for (int r = 0; r < 16; r++)
        each[r] = most;
    FAILS(MPI_ERR_COUNT, MPI_Bcast_c(a, most, MPI_DOUBLE, 0, w));
    FAILS(MPI_ERR_COUNT, MPI_Allreduce_c(a, b, most, MPI_DOUBLE, MPI_SUM, w));
    FAILS(MPI_ERR_COUNT, MPI_Allgather_c(a, most, MPI_DOUBLE, b, most, MPI_DOUBLE, w));
    FAILS(MPI_ERR_COUNT, MPI_Reduce_scatter_c(a, b, each, MPI_DOUBLE, MPI_SUM, w));
    FAILS(MPI_ERR_COUNT, MPI_Reduce_local_c(a, b, most, MPI_DOUBLE, MPI_SUM));
    /* Nor a place so far away, nor one close behind no address. */
    MPI_Aint far[16] = {0}, near[16] = {0};
    for (int r = 0; r < 16; r++)
        each[r] = 1, far[r] = PTRDIFF_MAX / 2, near[r] = 8 * r;
    FAILS(MPI_ERR_ARG, MPI_Allgatherv_c(a, 1, MPI_INT, b, each, far, MPI_INT, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allgatherv_c(a, 1, MPI_INT, NULL, each, near, MPI_INT, w));
    /* An int is no address. */
    for (int r = 0; r < 16; r++)
        displs[r] = 1 << 20;
    FAILS(MPI_ERR_BUFFER, MPI_Allgatherv(a, 1, MPI_INT, NULL, counts, displs, MPI_INT, w));
    /* Nothing at nowhere is nothing wrong. */
    OK(MPI_Bcast(NULL, 0, MPI_INT, 0, w));
    OK(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, w));
    OK(MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, w));
    OK(MPI_Reduce_scatter_block(NULL, NULL, 0, MPI_INT, MPI_SUM, w));
    /* The ranks are in step still. */
    a[0] = 1;
    OK(MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, w));
    CHECK(b[0] == size);
}

int main(int argc, char **argv)
{
    int rank, size;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    errors_return();
    table();
    operations();
    arguments(rank, size);
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
