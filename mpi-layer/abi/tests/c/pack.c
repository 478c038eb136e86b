/* Packed messages: several types one after the other, in the native and in the external form. */
#include "check.h"
#include <complex.h>
#include <stddef.h>
#include <wchar.h>

static void native(void)
{
    char packed[100];
    int position = 0, size, ints[4] = {1, 2, 3, 4}, back[4] = {0};
    double value = 2.5, twice = 0;
    MPI_Datatype t;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Pack_size(1, t, MPI_COMM_SELF, &size));
    CHECK(size >= 8);
    OK(MPI_Pack(ints, 1, t, packed, 100, &position, MPI_COMM_SELF));
    OK(MPI_Pack(&value, 1, MPI_DOUBLE, packed, 100, &position, MPI_COMM_SELF));
    OK(MPI_Pack(NULL, 0, MPI_DOUBLE, packed, 100, &position, MPI_COMM_SELF));
    CHECK(position == 16);
    /* Packed bytes match any type, and are sent as what they are. */
    char came[100];
    MPI_Status status;
    OK(MPI_Send(packed, position, MPI_PACKED, 0, 1, MPI_COMM_SELF));
    OK(MPI_Recv(came, 100, MPI_PACKED, 0, 1, MPI_COMM_SELF, &status));
    OK(MPI_Get_count(&status, MPI_PACKED, &size));
    CHECK(size == 16);
    position = 0;
    OK(MPI_Unpack(came, 16, &position, back, 1, t, MPI_COMM_SELF));
    CHECK(position == 8 && back[0] == 1 && back[1] == 0 && back[2] == 3 && back[3] == 0);
    OK(MPI_Unpack(came, 16, &position, &twice, 1, MPI_DOUBLE, MPI_COMM_SELF));
    CHECK(position == 16 && twice == 2.5);

    MPI_Count where = 8;
    OK(MPI_Unpack_c(came, 16, &where, &twice, 1, MPI_DOUBLE, MPI_COMM_SELF));
    CHECK(where == 16);
    where = 0;
    OK(MPI_Pack_c(ints, 2, MPI_INT, packed, 8, &where, MPI_COMM_SELF));
    CHECK(where == 8);
    MPI_Count large;
    OK(MPI_Pack_size_c((MPI_Count)1 << 33, MPI_INT, MPI_COMM_SELF, &large));
    CHECK(large >= (MPI_Count)1 << 35);

    /* Too little space or too few bytes: nothing is written. */
    position = 0;
    packed[0] = 77;
    FAILS(MPI_ERR_TRUNCATE, MPI_Pack(ints, 4, MPI_INT, packed, 15, &position, MPI_COMM_SELF));
    CHECK(position == 0 && packed[0] == 77);
    position = 10;
    FAILS(MPI_ERR_TRUNCATE, MPI_Unpack(came, 16, &position, back, 2, MPI_INT, MPI_COMM_SELF));
    CHECK(position == 10);
    position = -1;
    FAILS(MPI_ERR_ARG, MPI_Pack(ints, 1, MPI_INT, packed, 15, &position, MPI_COMM_SELF));
    position = 0;
    FAILS(MPI_ERR_COUNT, MPI_Pack(ints, -1, MPI_INT, packed, 15, &position, MPI_COMM_SELF));
    FAILS(MPI_ERR_BUFFER, MPI_Pack(NULL, 1, MPI_INT, packed, 15, &position, MPI_COMM_SELF));
    FAILS(MPI_ERR_BUFFER, MPI_Pack(MPI_IN_PLACE, 1, MPI_INT, packed, 15, &position, MPI_COMM_SELF));
    FAILS(MPI_ERR_COMM, MPI_Pack(ints, 1, MPI_INT, packed, 15, &position, MPI_COMM_NULL));
    OK(MPI_Type_free(&t));

    /* Absolute addresses. */
    MPI_Aint places[2];
    int ones[2] = {1, 1};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT};
    OK(MPI_Get_address(&value, &places[0]));
    OK(MPI_Get_address(&ints[3], &places[1]));
    OK(MPI_Type_create_struct(2, ones, places, types, &t));
    OK(MPI_Type_commit(&t));
    position = 0;
    OK(MPI_Pack(MPI_BOTTOM, 1, t, packed, 100, &position, MPI_COMM_SELF));
    CHECK(position == 12);
    value = 0, ints[3] = 0;
    position = 0;
    OK(MPI_Unpack(packed, 12, &position, MPI_BOTTOM, 1, t, MPI_COMM_SELF));
    CHECK(value == 2.5 && ints[3] == 4);
    OK(MPI_Type_free(&t));
    CHECK(MPI_Aint_diff(MPI_Aint_add(places[0], 24), places[0]) == 24);
}

static void is(const unsigned char *found, const char *expected, int len)
{
    CHECK(!memcmp(found, expected, len));
}

static void external(void)
{
    unsigned char out[200];
    MPI_Aint at = 0, size;
    int ints[2] = {0x01020304, -2};
    OK(MPI_Pack_external("external32", ints, 2, MPI_INT, out, 200, &at));
    CHECK(at == 8);
    is(out, "\1\2\3\4\xff\xff\xff\xfe", 8);
    long longs[2] = {5, -6};
    OK(MPI_Pack_external_size("external32", 2, MPI_LONG, &size));
    CHECK(size == 8);
    OK(MPI_Pack_external("external32", longs, 2, MPI_LONG, out, 200, &at));
    CHECK(at == 16);
    is(out + 8, "\0\0\0\5\xff\xff\xff\xfa", 8);
    double one = 1;
    OK(MPI_Pack_external("external32", &one, 1, MPI_DOUBLE, out, 200, &at));
    is(out + 16, "\x3f\xf0\0\0\0\0\0\0", 8);
    long double third = 1.0L / 3, half = -0.5L;
    OK(MPI_Pack_external("external32", &half, 1, MPI_LONG_DOUBLE, out, 200, &at));
    CHECK(at == 40);
    is(out + 24, "\xbf\xfe\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    OK(MPI_Pack_external("external32", &third, 1, MPI_LONG_DOUBLE, out, 200, &at));
    wchar_t wide = 0x263a;
    OK(MPI_Pack_external("external32", &wide, 1, MPI_WCHAR, out, 200, &at));
    CHECK(at == 58);
    is(out + 56, "\x26\x3a", 2);
    float complex z = 1.5f - 2.0f * I;
    OK(MPI_Pack_external("external32", &z, 1, MPI_C_FLOAT_COMPLEX, out, 200, &at));
    is(out + 58, "\x3f\xc0\0\0\xc0\0\0\0", 8);
    struct { double d; int i; } pairs[2] = {{1, 7}, {1, 8}}, came[2];
    OK(MPI_Pack_external("external32", pairs, 2, MPI_DOUBLE_INT, out, 200, &at));
    CHECK(at == 90);
    is(out + 66, "\x3f\xf0\0\0\0\0\0\0\0\0\0\7\x3f\xf0\0\0\0\0\0\0\0\0\0\10", 24);

    MPI_Aint from = 8;
    long back[2];
    long double thirds = 0;
    OK(MPI_Unpack_external("external32", out, 200, &from, back, 2, MPI_LONG));
    CHECK(from == 16 && back[0] == 5 && back[1] == -6);
    from = 40;
    OK(MPI_Unpack_external("external32", out, 200, &from, &thirds, 1, MPI_LONG_DOUBLE));
    CHECK(thirds == third);
    wide = 0;
    OK(MPI_Unpack_external("external32", out, 200, &from, &wide, 1, MPI_WCHAR));
    CHECK(wide == 0x263a);
    z = 0;
    OK(MPI_Unpack_external("external32", out, 200, &from, &z, 1, MPI_C_FLOAT_COMPLEX));
    CHECK(z == 1.5f - 2.0f * I);
    memset(came, 0x55, sizeof came);
    OK(MPI_Unpack_external("external32", out, 200, &from, came, 2, MPI_DOUBLE_INT));
    CHECK(from == 90 && came[1].d == 1 && came[1].i == 8);
    CHECK(((unsigned char *)came)[12] == 0x55);

    /* Many elements with gaps, there and back. */
    enum { N = 5000 };
    static struct { short a; double b[3]; char c; } many[N], again[N];
    int lengths[3] = {1, 3, 1};
    MPI_Aint places[3] = {0, offsetof(__typeof__(many[0]), b), offsetof(__typeof__(many[0]), c)};
    MPI_Datatype types[3] = {MPI_SHORT, MPI_DOUBLE, MPI_CHAR}, t;
    OK(MPI_Type_create_struct(3, lengths, places, types, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Pack_external_size("external32", N, t, &size));
    CHECK(size == N * 27);
    for (int i = 0; i < N; i++) {
        many[i].a = i, many[i].c = i % 100;
        for (int k = 0; k < 3; k++)
            many[i].b[k] = i * 0.1 + k;
    }
    void *packed = malloc(size);
    MPI_Count where = 0, need;
    OK(MPI_Pack_external_size_c("external32", N, t, &need));
    CHECK(need == size);
    OK(MPI_Pack_external_c("external32", many, N, t, packed, size, &where));
    CHECK(where == size);
    where = 0;
    OK(MPI_Unpack_external_c("external32", packed, size, &where, again, N, t));
    CHECK(where == size && !memcmp(many, again, sizeof many));
    free(packed);
    OK(MPI_Type_free(&t));

    at = 0;
    long huge = 1L << 40;
    FAILS(MPI_ERR_CONVERSION, MPI_Pack_external("external32", &huge, 1, MPI_LONG, out, 200, &at));
    FAILS(MPI_ERR_TRUNCATE, MPI_Pack_external("external32", ints, 2, MPI_INT, out, 7, &at));
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_Pack_external("native", ints, 2, MPI_INT, out, 8, &at));
    CHECK(at == 0);
}

/* Elements of messages that end within an element. */
static void elements(void)
{
    MPI_Status status;
    int n;
    MPI_Count large;
    memset(&status, 0, sizeof status);
    OK(MPI_Status_set_elements(&status, MPI_DOUBLE_INT, 3));
    OK(MPI_Get_elements(&status, MPI_DOUBLE_INT, &n));
    CHECK(n == 3);
    OK(MPI_Get_count(&status, MPI_DOUBLE_INT, &n));
    CHECK(n == MPI_UNDEFINED);
    OK(MPI_Get_count(&status, MPI_BYTE, &n));
    CHECK(n == 20);
    MPI_Datatype t, u;
    int lengths[2] = {2, 3};
    MPI_Aint places[2] = {0, 16};
    MPI_Datatype types[2] = {MPI_SHORT, MPI_DOUBLE};
    OK(MPI_Type_create_struct(2, lengths, places, types, &t));
    OK(MPI_Type_contiguous(10, t, &u));
    for (int k = 0; k <= 55; k++) {
        OK(MPI_Status_set_elements_c(&status, u, k));
        OK(MPI_Get_elements_x(&status, u, &large));
        CHECK(large == k);
        OK(MPI_Get_elements_c(&status, t, &large));
        CHECK(large == k);
        OK(MPI_Get_count(&status, t, &n));
        CHECK(n == (k % 5 == 0 ? k / 5 : MPI_UNDEFINED));
    }
    OK(MPI_Status_set_elements_c(&status, MPI_BYTE, 5));
    OK(MPI_Get_elements(&status, t, &n));
    CHECK(n == MPI_UNDEFINED);
    OK(MPI_Type_free(&u));
    OK(MPI_Type_free(&t));
    OK(MPI_Type_contiguous(0, MPI_INT, &t));
    OK(MPI_Status_set_elements(&status, MPI_BYTE, 0));
    OK(MPI_Get_count(&status, t, &n));
    CHECK(n == 0);
    OK(MPI_Get_elements(&status, t, &n));
    CHECK(n == 0);
    OK(MPI_Status_set_elements(&status, MPI_BYTE, 4));
    OK(MPI_Get_count(&status, t, &n));
    CHECK(n == MPI_UNDEFINED);
    FAILS(MPI_ERR_COUNT, MPI_Status_set_elements(&status, MPI_INT, -1));
    OK(MPI_Type_free(&t));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    native();
    external();
    elements();
    done(rank_of(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    return 0;
}
