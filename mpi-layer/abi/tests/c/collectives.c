/* Collectives that move data, against what they must give, for every root and several lengths, with
 * MPI_IN_PLACE, large counts, and pairs, whose elements have gaps that nobody may touch. */
#include "check.h"
#include <stdlib.h>

static int rank, size;

/* Elements: plain bytes, numbers, and a pair of 12 bytes in 16. */
typedef struct { double value; int at; int gap; } pair;

enum { LENGTHS = 5 };
static const int lengths[LENGTHS] = {0, 1, 3, 700, 20000};

/* What element `index` of the block from `from` to `to` is. */
static int expected(int from, int to, int index)
{
    return from * 1000003 + to * 5003 + index * 7;
}

static void fill(pair *block, int count, int from, int to)
{
    for (int i = 0; i < count; i++) {
        block[i].value = expected(from, to, i) + 0.5;
        block[i].at = expected(from, to, i);
        block[i].gap = rank;
    }
}

/* The elements have come, and what is between them is as it was. */
static void have(const pair *block, int count, int from, int to, int gap)
{
    for (int i = 0; i < count; i++) {
        CHECK(block[i].value == expected(from, to, i) + 0.5);
        CHECK(block[i].at == expected(from, to, i));
        CHECK(block[i].gap == gap);
    }
}

static pair *buffer(int count)
{
    pair *made = malloc((count > 0 ? count : 1) * sizeof *made);
    CHECK(made != NULL);
    for (int i = 0; i < count; i++)
        made[i] = (pair) {-1, -1, -7};
    return made;
}

static void bcasts(int len)
{
    for (int root = 0; root < size; root++) {
        pair *block = buffer(len);
        if (rank == root)
            fill(block, len, root, 0);
        OK(MPI_Bcast(block, len, MPI_DOUBLE_INT, root, MPI_COMM_WORLD));
        have(block, len, root, 0, rank == root ? rank : -7);
        free(block);
        int *plain = malloc((len + 1) * sizeof *plain);
        for (int i = 0; i <= len; i++)
            plain[i] = rank == root ? expected(root, 1, i) : -1;
        OK(MPI_Bcast_c(plain, len, MPI_INT, root, MPI_COMM_WORLD));
        for (int i = 0; i < len; i++)
            CHECK(plain[i] == expected(root, 1, i));
        CHECK(plain[len] == (rank == root ? expected(root, 1, len) : -1));
        free(plain);
    }
}

static void gathers(int len)
{
    for (int root = 0; root < size; root++) {
        pair *own = buffer(len), *all = buffer(len * size);
        fill(own, len, rank, root);
        /* What counts at the root only is nonsense elsewhere. */
        void *into = rank == root ? all : (void *) 77;
        MPI_Datatype type = rank == root ? MPI_DOUBLE_INT : (MPI_Datatype) 0x999;
        OK(MPI_Gather(own, len, MPI_DOUBLE_INT, into, rank == root ? len : -5, type, root,
                      MPI_COMM_WORLD));
        if (rank == root)
            for (int r = 0; r < size; r++)
                have(all + r * len, len, r, root, -7);
        free(all);
        all = buffer(len * size);
        fill(all + rank * len, len, rank, root);
        if (rank == root)
            OK(MPI_Gather_c(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, all, len, MPI_DOUBLE_INT, root,
                            MPI_COMM_WORLD));
        else
            OK(MPI_Gather_c(own, len, MPI_DOUBLE_INT, NULL, 0, MPI_DATATYPE_NULL, root,
                            MPI_COMM_WORLD));
        if (rank == root)
            for (int r = 0; r < size; r++)
                have(all + r * len, len, r, root, r == root ? rank : -7);
        free(own);
        free(all);
    }
}

static void scatters(int len)
{
    for (int root = 0; root < size; root++) {
        pair *own = buffer(len), *all = buffer(len * size);
        for (int r = 0; r < size; r++)
            fill(all + r * len, len, root, r);
        const void *from = rank == root ? all : (void *) 77;
        MPI_Datatype type = rank == root ? MPI_DOUBLE_INT : (MPI_Datatype) 0x999;
        OK(MPI_Scatter(from, rank == root ? len : -5, type, own, len, MPI_DOUBLE_INT, root,
                       MPI_COMM_WORLD));
        have(own, len, root, rank, -7);
        free(own);
        own = buffer(len);
        if (rank == root)
            OK(MPI_Scatter_c(all, len, MPI_DOUBLE_INT, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, root,
                             MPI_COMM_WORLD));
        else
            OK(MPI_Scatter_c(NULL, 0, MPI_DATATYPE_NULL, own, len, MPI_DOUBLE_INT, root,
                             MPI_COMM_WORLD));
        if (rank != root)
            have(own, len, root, rank, -7);
        have(all + root * len, len, root, root, rank);
        free(own);
        free(all);
    }
}

static void allgathers(int len)
{
    pair *own = buffer(len), *all = buffer(len * size);
    fill(own, len, rank, 3);
    OK(MPI_Allgather(own, len, MPI_DOUBLE_INT, all, len, MPI_DOUBLE_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        have(all + r * len, len, r, 3, -7);
    free(all);
    all = buffer(len * size);
    fill(all + rank * len, len, rank, 3);
    OK(MPI_Allgather_c(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, all, len, MPI_DOUBLE_INT,
                       MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        have(all + r * len, len, r, 3, r == rank ? rank : -7);
    free(own);
    free(all);
}

static void alltoalls(int len)
{
    pair *out = buffer(len * size), *in = buffer(len * size);
    for (int r = 0; r < size; r++)
        fill(out + r * len, len, rank, r);
    OK(MPI_Alltoall(out, len, MPI_DOUBLE_INT, in, len, MPI_DOUBLE_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        have(in + r * len, len, r, rank, -7);
    OK(MPI_Alltoall_c(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, out, len, MPI_DOUBLE_INT,
                      MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        have(out + r * len, len, r, rank, rank);
    /* The two sides name the same bytes by different types. */
    long long *wide = malloc((len * size + 1) * sizeof *wide);
    int *narrow = malloc(2 * (len * size + 1) * sizeof *narrow);
    for (int i = 0; i < 2 * len * size; i++)
        narrow[i] = expected(rank, i / (2 * (len > 0 ? len : 1)), i);
    OK(MPI_Alltoall(narrow, 2 * len, MPI_INT, wide, 8 * len, MPI_BYTE, MPI_COMM_WORLD));
    int *got = (int *) wide;
    for (int i = 0; i < 2 * len * size; i++) {
        int from = i / (2 * len), index = rank * 2 * len + i % (2 * len);
        CHECK(got[i] == expected(from, rank, index));
    }
    free(wide);
    free(narrow);
    free(out);
    free(in);
}

/* Elements that rank `from` has for rank `to` in the irregular forms. */
static int length(int from, int to, int len)
{
    return (from * 3 + to * 5) % 4 * len / 3;
}

/* Blocks of a rank: the last rank's first, one element apart, at displacements below 0 for some. */
static int lay_out(int base, int sending, int one_block, int len, int *counts, int *displs)
{
    int at = base;
    for (int r = size - 1; r >= 0; r--) {
        counts[r] = one_block ? length(r, 0, len) : sending ? length(rank, r, len) : length(r, rank, len);
        displs[r] = counts[r] > 0 ? at : 1 << 30;
        if (counts[r] > 0)
            at += counts[r] + 1;
    }
    return at - base;
}

static void irregular(int len)
{
    int counts[16], displs[16], more[16], places[16];
    MPI_Count large[16];
    MPI_Aint wide[16];
    for (int root = 0; root < size; root++) {
        int mine = length(rank, 0, len);
        pair *own = buffer(mine);
        fill(own, mine, rank, root);
        int total = lay_out(-2, 0, 1, len, counts, displs);
        pair *all = buffer(total + 2), *middle = all + 2;
        OK(MPI_Gatherv(own, mine, MPI_DOUBLE_INT, middle, rank == root ? counts : NULL,
                       rank == root ? displs : NULL, MPI_DOUBLE_INT, root, MPI_COMM_WORLD));
        if (rank == root)
            for (int r = 0; r < size; r++)
                if (counts[r] > 0) {
                    have(middle + displs[r], counts[r], r, root, -7);
                    CHECK(middle[displs[r] + counts[r]].at == -1);
                }
        for (int r = 0; r < size; r++) {
            large[r] = counts[r];
            wide[r] = displs[r];
            if (rank == root && counts[r] > 0)
                fill(middle + displs[r], counts[r], root, r);
        }
        free(own);
        own = buffer(mine);
        OK(MPI_Scatterv_c(middle, rank == root ? large : NULL, rank == root ? wide : NULL,
                          MPI_DOUBLE_INT, rank == root ? MPI_IN_PLACE : own, mine, MPI_DOUBLE_INT,
                          root, MPI_COMM_WORLD));
        if (rank != root)
            have(own, mine, root, rank, -7);
        OK(MPI_Scatterv(middle, counts, displs, MPI_DOUBLE_INT, own, mine, MPI_DOUBLE_INT, root,
                        MPI_COMM_WORLD));
        have(own, mine, root, rank, -7);
        /* In place at the root. */
        if (rank == root && counts[root] > 0)
            fill(middle + displs[root], counts[root], root, 9);
        fill(own, mine, rank, 9);
        OK(MPI_Gatherv_c(rank == root ? MPI_IN_PLACE : own, mine, MPI_DOUBLE_INT, middle, large, wide,
                         MPI_DOUBLE_INT, root, MPI_COMM_WORLD));
        if (rank == root)
            for (int r = 0; r < size; r++)
                if (counts[r] > 0)
                    have(middle + displs[r], counts[r], r, 9, rank);
        free(own);
        free(all);
    }

    int mine = length(rank, 0, len);
    pair *own = buffer(mine);
    fill(own, mine, rank, 2);
    int total = lay_out(0, 0, 1, len, counts, displs);
    pair *all = buffer(total);
    OK(MPI_Allgatherv(own, mine, MPI_DOUBLE_INT, all, counts, displs, MPI_DOUBLE_INT,
                      MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        if (counts[r] > 0)
            have(all + displs[r], counts[r], r, 2, -7);
    free(all);
    all = buffer(total);
    if (mine > 0)
        fill(all + displs[rank], mine, rank, 2);
    for (int r = 0; r < size; r++) {
        large[r] = counts[r];
        wide[r] = displs[r];
    }
    OK(MPI_Allgatherv_c(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, large, wide, MPI_DOUBLE_INT,
                        MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        if (counts[r] > 0)
            have(all + displs[r], counts[r], r, 2, r == rank ? rank : -7);
    free(own);
    free(all);

    int sent = lay_out(0, 1, 0, len, counts, displs);
    int received = lay_out(0, 0, 0, len, more, places);
    pair *out = buffer(sent), *in = buffer(received);
    for (int r = 0; r < size; r++)
        if (counts[r] > 0)
            fill(out + displs[r], counts[r], rank, r);
    OK(MPI_Alltoallv(out, counts, displs, MPI_DOUBLE_INT, in, more, places, MPI_DOUBLE_INT,
                     MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        if (more[r] > 0) {
            have(in + places[r], more[r], r, rank, -7);
            CHECK(in[places[r] + more[r]].at == -1);
        }
    free(in);
    in = buffer(received);
    MPI_Datatype types[16];
    MPI_Count in_large[16];
    MPI_Aint in_wide[16];
    for (int r = 0; r < size; r++) {
        large[r] = counts[r];
        wide[r] = counts[r] > 0 ? displs[r] * (MPI_Aint) sizeof(pair) : 0;
        in_large[r] = more[r];
        in_wide[r] = more[r] > 0 ? places[r] * (MPI_Aint) sizeof(pair) : 0;
        types[r] = MPI_DOUBLE_INT;
    }
    OK(MPI_Alltoallw_c(out, large, wide, types, in, in_large, in_wide, types, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        if (more[r] > 0)
            have(in + places[r], more[r], r, rank, -7);

    /* Displacements that are whole addresses, behind MPI_BOTTOM. */
    free(in);
    in = buffer(received);
    for (int r = 0; r < size; r++) {
        MPI_Aint from, to;
        OK(MPI_Get_address(out, &from));
        OK(MPI_Get_address(in, &to));
        wide[r] = MPI_Aint_add(from, wide[r]);
        in_wide[r] = MPI_Aint_add(to, in_wide[r]);
    }
    OK(MPI_Alltoallw_c(MPI_BOTTOM, large, wide, types, MPI_BOTTOM, in_large, in_wide, types,
                       MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        if (more[r] > 0)
            have(in + places[r], more[r], r, rank, -7);
    free(out);
    free(in);

    /* In place: what goes to a rank is as long as what comes from it. */
    for (int r = 0; r < size; r++) {
        counts[r] = (rank + r) % 3 * len / 2;
        displs[r] = r * len;
        places[r] = displs[r] * (int) sizeof(pair);
    }
    pair *both = buffer(size * len + 1);
    for (int r = 0; r < size; r++)
        fill(both + displs[r], counts[r], rank, r);
    OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, both, counts, displs,
                     MPI_DOUBLE_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        have(both + displs[r], counts[r], r, rank, rank);
    OK(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, both, counts, places, types, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        have(both + displs[r], counts[r], rank, r, rank);
    free(both);
}

/* Plain numbers at odd addresses, so that nothing is aligned. */
static void crooked(void)
{
    char out[16 * 8 + 1], in[16 * 8 + 1];
    int counts[16], displs[16];
    for (int r = 0; r < size; r++) {
        long long value = expected(rank, r, 1);
        memcpy(out + 1 + 8 * r, &value, 8);
        counts[r] = 1;
        displs[r] = size - 1 - r;
    }
    OK(MPI_Alltoallv(out + 1, counts, displs, MPI_LONG_LONG, in + 1, counts, displs, MPI_LONG_LONG,
                     MPI_COMM_WORLD));
    for (int r = 0; r < size; r++) {
        long long value;
        memcpy(&value, in + 1 + 8 * (size - 1 - r), 8);
        CHECK(value == expected(r, size - 1 - rank, 1));
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int i = 0; i < LENGTHS; i++) {
        bcasts(lengths[i]);
        gathers(lengths[i]);
        scatters(lengths[i]);
        allgathers(lengths[i]);
        alltoalls(lengths[i]);
        irregular(lengths[i]);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    crooked();
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
