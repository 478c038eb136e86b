/* Every predefined operation on every predefined datatype by every collective that reduces, blocking, nonblocking
 * and persistent, beside a loop over the ranks; and where the standard does not define a pair, that it is refused. */
#include "check.h"

#include <stdint.h>

/* The groups of types in the standard's table. */
enum { INTEGER = 1, FORTRAN = 2, REAL = 4, LOGICAL = 8, COMPLEX = 16, BYTES = 32, ADDRESS = 64, PAIR = 128 };

/* How a number lies in memory: a letter and its bytes. */
enum { SIGNED = 's', UNSIGNED = 'u', FLOAT = 'f', LONG_DOUBLE = 'l' };

/* `second` is where the other part of a complex number or a pair is, and `other` how an index lies. */
static const struct form {
    MPI_Datatype type;
    int group, letter, bytes, second, other;
} forms[] = {
    {MPI_SHORT, INTEGER, 's', 2, 0, 0}, {MPI_INT, INTEGER, 's', 4, 0, 0},
    {MPI_LONG, INTEGER, 's', sizeof(long), 0, 0}, {MPI_LONG_LONG_INT, INTEGER, 's', 8, 0, 0},
    {MPI_LONG_LONG, INTEGER, 's', 8, 0, 0}, {MPI_UNSIGNED_SHORT, INTEGER, 'u', 2, 0, 0},
    {MPI_UNSIGNED, INTEGER, 'u', 4, 0, 0}, {MPI_UNSIGNED_LONG, INTEGER, 'u', sizeof(long), 0, 0},
    {MPI_UNSIGNED_LONG_LONG, INTEGER, 'u', 8, 0, 0}, {MPI_SIGNED_CHAR, INTEGER, 's', 1, 0, 0},
    {MPI_UNSIGNED_CHAR, INTEGER, 'u', 1, 0, 0}, {MPI_INT8_T, INTEGER, 's', 1, 0, 0},
    {MPI_INT16_T, INTEGER, 's', 2, 0, 0}, {MPI_INT32_T, INTEGER, 's', 4, 0, 0},
    {MPI_INT64_T, INTEGER, 's', 8, 0, 0}, {MPI_UINT8_T, INTEGER, 'u', 1, 0, 0},
    {MPI_UINT16_T, INTEGER, 'u', 2, 0, 0}, {MPI_UINT32_T, INTEGER, 'u', 4, 0, 0},
    {MPI_UINT64_T, INTEGER, 'u', 8, 0, 0}, {MPI_INTEGER, FORTRAN, 's', 4, 0, 0},
    {MPI_INTEGER1, FORTRAN, 's', 1, 0, 0}, {MPI_INTEGER2, FORTRAN, 's', 2, 0, 0},
    {MPI_INTEGER4, FORTRAN, 's', 4, 0, 0}, {MPI_INTEGER8, FORTRAN, 's', 8, 0, 0},
    {MPI_INTEGER16, FORTRAN, 's', 16, 0, 0}, {MPI_FLOAT, REAL, 'f', 4, 0, 0},
    {MPI_DOUBLE, REAL, 'f', 8, 0, 0}, {MPI_REAL, REAL, 'f', 4, 0, 0},
    {MPI_DOUBLE_PRECISION, REAL, 'f', 8, 0, 0}, {MPI_LONG_DOUBLE, REAL, 'l', 16, 0, 0},
    {MPI_REAL2, REAL, 'f', 2, 0, 0}, {MPI_REAL4, REAL, 'f', 4, 0, 0},
    {MPI_REAL8, REAL, 'f', 8, 0, 0}, {MPI_REAL16, REAL, 'f', 16, 0, 0},
    {MPI_LOGICAL, LOGICAL, 'u', 4, 0, 0}, {MPI_LOGICAL1, LOGICAL, 'u', 1, 0, 0},
    {MPI_LOGICAL2, LOGICAL, 'u', 2, 0, 0}, {MPI_LOGICAL4, LOGICAL, 'u', 4, 0, 0},
    {MPI_LOGICAL8, LOGICAL, 'u', 8, 0, 0}, {MPI_LOGICAL16, LOGICAL, 'u', 16, 0, 0},
    {MPI_C_BOOL, LOGICAL, 'u', 1, 0, 0}, {MPI_CXX_BOOL, LOGICAL, 'u', 1, 0, 0},
    {MPI_C_COMPLEX, COMPLEX, 'f', 4, 4, 0}, {MPI_C_FLOAT_COMPLEX, COMPLEX, 'f', 4, 4, 0},
    {MPI_C_DOUBLE_COMPLEX, COMPLEX, 'f', 8, 8, 0}, {MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, 'l', 16, 16, 0},
    {MPI_CXX_FLOAT_COMPLEX, COMPLEX, 'f', 4, 4, 0}, {MPI_CXX_DOUBLE_COMPLEX, COMPLEX, 'f', 8, 8, 0},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX, 'l', 16, 16, 0}, {MPI_COMPLEX, COMPLEX, 'f', 4, 4, 0},
    {MPI_DOUBLE_COMPLEX, COMPLEX, 'f', 8, 8, 0}, {MPI_COMPLEX4, COMPLEX, 'f', 2, 2, 0},
    {MPI_COMPLEX8, COMPLEX, 'f', 4, 4, 0}, {MPI_COMPLEX16, COMPLEX, 'f', 8, 8, 0},
    {MPI_COMPLEX32, COMPLEX, 'f', 16, 16, 0}, {MPI_BYTE, BYTES, 'u', 1, 0, 0},
    {MPI_AINT, ADDRESS, 's', 8, 0, 0}, {MPI_OFFSET, ADDRESS, 's', 8, 0, 0},
    {MPI_COUNT, ADDRESS, 's', 8, 0, 0}, {MPI_FLOAT_INT, PAIR, 'f', 4, 4, 's'},
    {MPI_DOUBLE_INT, PAIR, 'f', 8, 8, 's'}, {MPI_LONG_INT, PAIR, 's', sizeof(long), sizeof(long), 's'},
    {MPI_2INT, PAIR, 's', 4, 4, 's'}, {MPI_SHORT_INT, PAIR, 's', 2, 4, 's'},
    {MPI_LONG_DOUBLE_INT, PAIR, 'l', 16, 16, 's'}, {MPI_2REAL, PAIR, 'f', 4, 4, 'f'},
    {MPI_2DOUBLE_PRECISION, PAIR, 'f', 8, 8, 'f'}, {MPI_2INTEGER, PAIR, 's', 4, 4, 's'},
    {MPI_CHAR, 0, 'u', 1, 0, 0}, {MPI_WCHAR, 0, 'u', 4, 0, 0}, {MPI_CHARACTER, 0, 'u', 1, 0, 0},
    {MPI_PACKED, 0, 'u', 1, 0, 0},
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

enum { FORMS = sizeof forms / sizeof *forms, OPS = sizeof ops / sizeof *ops, MOST = 64, WIDEST = 32 };
enum { ALLREDUCE, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, COLLECTIVES };
enum { BLOCKING, NONBLOCKING, PERSISTENT, WAYS };

static int rank, size, counts[MOST / 2];

/* A number, or two: the imaginary part, or an index. */
typedef struct { long long first, second; } number;

static void put_one(int letter, int bytes, char *at, long long value)
{
    __int128 wide = value;
    _Float16 half = value;
    float single = value;
    double twice = value;
    __float128 quad = value;
    long double extended = value;
    const void *from = &wide;
    if (letter == LONG_DOUBLE) {
        /* Only ten bytes are the number. */
        memset(at, 0, bytes);
        memcpy(at, &extended, 10);
        return;
    }
    if (letter == FLOAT)
        from = bytes == 2 ? (void *) &half : bytes == 4 ? (void *) &single : bytes == 8 ? (void *) &twice : (void *) &quad;
    memcpy(at, from, bytes);
}

static void put(const struct form *form, char *at, number value)
{
    put_one(form->letter, form->bytes, at, value.first);
    if (form->group == COMPLEX)
        put_one(form->letter, form->bytes, at + form->second, value.second);
    if (form->group == PAIR)
        put_one(form->other, form->other == 'f' ? form->bytes : 4, at + form->second, value.second);
}

/* What a rank gives: small, so that floating point numbers are exact, and equal at times. */
static number given(const struct form *form, int from, int index)
{
    number value = {(from * 7 + index * 3) % 5 + 1, (from * 5 + index) % 7};
    if (form->group == LOGICAL)
        value.first %= 2;
    else if (form->group == INTEGER && index % 3 == 0)
        value.first = value.first % 2 * 6;
    if (form->letter != UNSIGNED && form->group != LOGICAL && index % 2 == 1)
        value.first -= 4;
    return value;
}

static number combined(MPI_Op op, int group, number a, number b)
{
    number c = a;
    if (op == MPI_MAX)
        c.first = a.first > b.first ? a.first : b.first;
    else if (op == MPI_MIN)
        c.first = a.first < b.first ? a.first : b.first;
    else if (op == MPI_SUM)
        c.first = a.first + b.first, c.second = a.second + b.second;
    else if (op == MPI_PROD && group == COMPLEX)
        c.first = a.first * b.first - a.second * b.second, c.second = a.first * b.second + a.second * b.first;
    else if (op == MPI_PROD)
        c.first = a.first * b.first;
    else if (op == MPI_LAND)
        c.first = a.first && b.first;
    else if (op == MPI_LOR)
        c.first = a.first || b.first;
    else if (op == MPI_LXOR)
        c.first = !a.first != !b.first;
    else if (op == MPI_BAND)
        c.first = a.first & b.first;
    else if (op == MPI_BOR)
        c.first = a.first | b.first;
    else if (op == MPI_BXOR)
        c.first = a.first ^ b.first;
    else if (a.first == b.first)
        c.second = a.second < b.second ? a.second : b.second;
    else
        c = (op == MPI_MINLOC) == (a.first < b.first) ? a : b;
    return c;
}

static int begin(int way, int what, const void *in, void *out, MPI_Datatype type, MPI_Op op, int root,
                 MPI_Request *request)
{
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Info none = MPI_INFO_NULL;
    int all = 2 * size;
    switch (way * COLLECTIVES + what) {
    case BLOCKING * COLLECTIVES + ALLREDUCE: return MPI_Allreduce(in, out, all, type, op, w);
    case BLOCKING * COLLECTIVES + REDUCE: return MPI_Reduce(in, out, all, type, op, root, w);
    case BLOCKING * COLLECTIVES + REDUCE_SCATTER: return MPI_Reduce_scatter(in, out, counts, type, op, w);
    case BLOCKING * COLLECTIVES + REDUCE_SCATTER_BLOCK: return MPI_Reduce_scatter_block(in, out, 2, type, op, w);
    case BLOCKING * COLLECTIVES + SCAN: return MPI_Scan(in, out, all, type, op, w);
    case BLOCKING * COLLECTIVES + EXSCAN: return MPI_Exscan(in, out, all, type, op, w);
    case NONBLOCKING * COLLECTIVES + ALLREDUCE: return MPI_Iallreduce(in, out, all, type, op, w, request);
    case NONBLOCKING * COLLECTIVES + REDUCE: return MPI_Ireduce(in, out, all, type, op, root, w, request);
    case NONBLOCKING * COLLECTIVES + REDUCE_SCATTER:
        return MPI_Ireduce_scatter(in, out, counts, type, op, w, request);
    case NONBLOCKING * COLLECTIVES + REDUCE_SCATTER_BLOCK:
        return MPI_Ireduce_scatter_block(in, out, 2, type, op, w, request);
    case NONBLOCKING * COLLECTIVES + SCAN: return MPI_Iscan(in, out, all, type, op, w, request);
    case NONBLOCKING * COLLECTIVES + EXSCAN: return MPI_Iexscan(in, out, all, type, op, w, request);
    case PERSISTENT * COLLECTIVES + ALLREDUCE:
        return MPI_Allreduce_init(in, out, all, type, op, w, none, request);
    case PERSISTENT * COLLECTIVES + REDUCE: return MPI_Reduce_init(in, out, all, type, op, root, w, none, request);
    case PERSISTENT * COLLECTIVES + REDUCE_SCATTER:
        return MPI_Reduce_scatter_init(in, out, counts, type, op, w, none, request);
    case PERSISTENT * COLLECTIVES + REDUCE_SCATTER_BLOCK:
        return MPI_Reduce_scatter_block_init(in, out, 2, type, op, w, none, request);
    case PERSISTENT * COLLECTIVES + SCAN: return MPI_Scan_init(in, out, all, type, op, w, none, request);
    default: return MPI_Exscan_init(in, out, all, type, op, w, none, request);
    }
}

/* A product with a negative number may be a zero with a sign, which the loop over integers has not. */
static void without_sign_of_zero(int letter, int bytes, char *at)
{
    static const char zeros[WIDEST];
    int top = letter == LONG_DOUBLE ? 9 : bytes - 1;
    if ((letter == LONG_DOUBLE || letter == FLOAT) && at[top] == (char) 0x80 && memcmp(at, zeros, top) == 0)
        at[top] = 0;
}

/* Compares what came with a loop over the ranks whose contributions are in it. */
static int is_right(const struct form *form, MPI_Op op, int what, int root, const char *out, MPI_Aint extent)
{
    int first = 0, last = 2 * size, ranks = what == SCAN ? rank + 1 : what == EXSCAN ? rank : size;
    char wanted[2 * WIDEST], got[2 * WIDEST];
    if (what == REDUCE_SCATTER) {
        for (int r = 0; r < rank; r++)
            first += counts[r];
        last = first + counts[rank];
    } else if (what == REDUCE_SCATTER_BLOCK) {
        first = 2 * rank, last = first + 2;
    }
    if ((what == REDUCE && rank != root) || ranks == 0)
        last = first;
    for (int index = first; index < last; index++) {
        number value = given(form, 0, index);
        for (int r = 1; r < ranks; r++)
            value = combined(op, form->group, value, given(form, r, index));
        memset(wanted, 0xee, sizeof wanted), memset(got, 0xee, sizeof got);
        put(form, wanted, value);
        memcpy(got, out + (index - first) * extent, extent);
        if (form->letter == LONG_DOUBLE)
            memset(got + 10, 0, 6);
        if (form->letter == LONG_DOUBLE && form->group == COMPLEX)
            memset(got + 26, 0, 6);
        without_sign_of_zero(form->letter, form->bytes, got);
        if (form->group == COMPLEX)
            without_sign_of_zero(form->letter, form->bytes, got + form->second);
        /* Bytes between the parts of a pair and behind it are nobody's. */
        int end = form->second == 0 ? form->bytes : form->group == COMPLEX || form->other == 'f'
                      ? form->second + form->bytes : form->second + 4;
        int same = memcmp(got, wanted, form->bytes) == 0;
        same &= form->second == 0 || memcmp(got + form->second, wanted + form->second, end - form->second) == 0;
        if (!same)
            return 0;
    }
    return 1;
}

static void refused(int code, int f, int o, int way, int what)
{
    int class = -1;
    OK(MPI_Error_class(code, &class));
    if (class != MPI_ERR_OP) {
        fprintf(stderr, "type %d with operation %d, way %d, collective %d gave %d\n", f, o, way, what, class);
        exit(43);
    }
}

static uint64_t word(void)
{
    static uint64_t state = 1;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x2545f4914f6cdd1dU;
}

/* Numbers that compilers compute with in software, of any bits: also tiny ones, and of nearly one size. */
static void soft_numbers(void)
{
    for (int n = 0; n < 20000; n++) {
        unsigned __int128 bits[2];
        __float128 quad[2], sums[2], products[2], least[2];
        _Float16 half[2], half_sums[2], half_products[2];
        for (int i = 0; i < 2; i++) {
            bits[i] = (unsigned __int128) word() << 64 | word();
            int exponent = n % 3 == 0 ? 16383 + (int) (word() % 230) - 115 : n % 3 == 1 ? (int) (word() % 120) : -1;
            if (n % 7 == 0)
                bits[i] = bits[i] >> 70 << 70;
            if (exponent >= 0)
                bits[i] = (bits[i] & ~((unsigned __int128) 0x7fff << 112)) | (unsigned __int128) exponent << 112;
            uint16_t small = (uint16_t) (bits[i] >> 64);
            memcpy(&quad[i], &bits[i], 16), memcpy(&half[i], &small, 2);
        }
        sums[0] = quad[0] + quad[1], products[0] = quad[0] * quad[1];
        half_sums[0] = half[0] + half[1], half_products[0] = half[0] * half[1];
        least[0] = quad[1] != quad[1] || quad[0] < quad[1] ? quad[0] : quad[1];
        sums[1] = products[1] = least[1] = quad[1], half_sums[1] = half_products[1] = half[1];
        OK(MPI_Reduce_local(&quad[0], &sums[1], 1, MPI_REAL16, MPI_SUM));
        OK(MPI_Reduce_local(&quad[0], &products[1], 1, MPI_REAL16, MPI_PROD));
        OK(MPI_Reduce_local(&quad[0], &least[1], 1, MPI_REAL16, MPI_MIN));
        OK(MPI_Reduce_local(&half[0], &half_sums[1], 1, MPI_REAL2, MPI_SUM));
        OK(MPI_Reduce_local(&half[0], &half_products[1], 1, MPI_REAL2, MPI_PROD));
        /* One NaN is as good as another. */
        CHECK(memcmp(&sums[0], &sums[1], 16) == 0 || (sums[0] != sums[0] && sums[1] != sums[1]));
        CHECK(memcmp(&products[0], &products[1], 16) == 0 || (products[0] != products[0] && products[1] != products[1]));
        CHECK(least[0] == least[1] || (least[0] != least[0] && least[1] != least[1]));
        CHECK(half_sums[0] == half_sums[1] || (half_sums[0] != half_sums[0] && half_sums[1] != half_sums[1]));
        CHECK(half_products[0] == half_products[1]
              || (half_products[0] != half_products[0] && half_products[1] != half_products[1]));
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    errors_return();
    CHECK(2 * size <= MOST);
    for (int r = 0; r < size; r++)
        counts[r] = 2 + (size > 1 && r == 0) - (size > 1 && r == size - 1);
    _Alignas(16) static char in[MOST * WIDEST], out[MOST * WIDEST];
    int done_with = 0;
    for (int f = 0; f < FORMS; f++) {
        const struct form *form = &forms[f];
        MPI_Aint low, extent;
        OK(MPI_Type_get_extent(form->type, &low, &extent));
        CHECK(low == 0 && extent <= WIDEST);
        memset(in, 0, sizeof in);
        for (int index = 0; index < 2 * size; index++)
            put(form, in + index * extent, given(form, rank, index));
        for (int o = 0; o < OPS; o++)
            for (int way = 0; way < WAYS; way++)
                for (int what = 0; what < COLLECTIVES; what++) {
                    int root = (f + o) % size;
                    MPI_Request request = MPI_REQUEST_NULL;
                    memset(out, 0, sizeof out);
                    int code = begin(way, what, in, out, form->type, ops[o].op, root, &request);
                    if (!(form->group & ops[o].groups)) {
                        refused(code, f, o, way, what);
                        CHECK(request == MPI_REQUEST_NULL);
                        continue;
                    }
                    if (code != MPI_SUCCESS)
                        fprintf(stderr, "type %d with operation %d, way %d, collective %d\n", f, o, way, what);
                    OK(code);
                    for (int time = 0; time <= (way == PERSISTENT); time++) {
                        if (way == PERSISTENT) {
                            memset(out, 0, sizeof out);
                            OK(MPI_Start(&request));
                        }
                        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                        if (!is_right(form, ops[o].op, what, root, out, extent)) {
                            fprintf(stderr, "type %d with operation %d, way %d, collective %d: a wrong result\n", f,
                                    o, way, what);
                            exit(44);
                        }
                    }
                    if (way == PERSISTENT)
                        OK(MPI_Request_free(&request));
                    done_with++;
                }
    }
    CHECK(done_with > 0 && done_with % (WAYS * COLLECTIVES) == 0);
    soft_numbers();
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
