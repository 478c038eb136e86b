/* Rules of the standard that no chapter's program has: arguments that are not read, ends that come while
 * something is under way, order across kinds of messages. */
#include <limits.h>

#include "check.h"

static int rank, size, next, last;
static MPI_Comm world = MPI_COMM_WORLD;

/* What only the root needs is anything elsewhere. (MPI 4.1, 6.5 to 6.9: "significant only at root") */
static void elsewhere_than_at_the_root(void)
{
    void *volatile nowhere = (void *)0x10; /* so that the compiler does not read it either */
    MPI_Datatype none = (MPI_Datatype)(size_t)0x7777777;
    int mine = rank + 3, all[64], root = size - 1, sum = 0;
    int counts[64], displs[64];
    for (int r = 0; r < size; r++)
        counts[r] = 1, displs[r] = r;
    if (rank == root) {
        OK(MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, root, world));
        OK(MPI_Gatherv(&mine, 1, MPI_INT, all, counts, displs, MPI_INT, root, world));
        for (int r = 0; r < size; r++)
            CHECK(all[r] == r + 3);
        OK(MPI_Scatter(all, 1, MPI_INT, &mine, 1, MPI_INT, root, world));
        OK(MPI_Scatterv(all, counts, displs, MPI_INT, &mine, 1, MPI_INT, root, world));
        OK(MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, root, world));
        CHECK(sum == size * (size - 1) / 2 + 3 * size);
    } else {
        OK(MPI_Gather(&mine, 1, MPI_INT, nowhere, -5, none, root, world));
        OK(MPI_Gatherv(&mine, 1, MPI_INT, nowhere, nowhere, nowhere, none, root, world));
        OK(MPI_Scatter(nowhere, -1, none, &mine, 1, MPI_INT, root, world));
        OK(MPI_Scatterv(nowhere, nowhere, nowhere, none, &mine, 1, MPI_INT, root, world));
        OK(MPI_Reduce(&mine, nowhere, 1, MPI_INT, MPI_SUM, root, world));
    }
    CHECK(mine == rank + 3);
    /* In place, number and type of what would be sent are nothing. */
    all[rank] = rank;
    OK(MPI_Allgather(MPI_IN_PLACE, -7, none, all, 1, MPI_INT, world));
    OK(MPI_Alltoall(MPI_IN_PLACE, INT_MIN, none, all, 1, MPI_INT, world));
    OK(MPI_Gather(rank == 0 ? MPI_IN_PLACE : &all[rank], rank == 0 ? -7 : 1, rank == 0 ? none : MPI_INT,
                  all, 1, MPI_INT, 0, world));
}

/* Ranks may describe the same elements by types that were made otherwise, of any length. (MPI 4.1, 6.4) */
static void other_types_on_each_rank(void)
{
    static const int lengths[] = {1, 40, 5000, 300000};
    for (int l = 0; l < 4; l++) {
        int n = lengths[l];
        double *data = calloc(3 * (size_t)n, sizeof *data);
        MPI_Datatype type = MPI_DOUBLE;
        int count = n, step = 1;
        if (rank % 3 == 1) {
            OK(MPI_Type_vector(n, 1, 3, MPI_DOUBLE, &type));
            count = 1, step = 3;
        } else if (rank % 3 == 2) {
            OK(MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &type));
            step = 2;
        }
        if (type != MPI_DOUBLE)
            OK(MPI_Type_commit(&type));
        for (int root = 0; root < size; root++) {
            for (int i = 0; i < n; i++)
                data[(size_t)i * step] = rank == root ? i + root : -1;
            OK(MPI_Bcast(data, count, type, root, world));
            for (int i = 0; i < n; i++)
                CHECK(data[(size_t)i * step] == i + root);
        }
        if (type != MPI_DOUBLE)
            OK(MPI_Type_free(&type));
        free(data);
    }
}

/* Types without bytes, blocks of no elements anywhere, elements that lie backwards. (MPI 4.1, 5.1) */
static void nothing_and_backwards(void)
{
    MPI_Datatype empty, blocks, reverse;
    MPI_Status status;
    int count = -1, in[5] = {0}, out[5] = {0, 1, 2, 3, 4};
    OK(MPI_Type_contiguous(0, MPI_DOUBLE, &empty));
    OK(MPI_Type_commit(&empty));
    OK(MPI_Sendrecv(NULL, 1000, empty, next, 0, NULL, 1000, empty, last, 0, world, &status));
    OK(MPI_Get_count(&status, empty, &count));
    CHECK(count == 0);
    OK(MPI_Get_elements(&status, empty, &count));
    CHECK(count == 0);
    OK(MPI_Bcast(NULL, 3, empty, 0, world));

    int lengths[] = {0, 2, 0, 1}, places[] = {INT_MAX / 8, 1, -INT_MAX / 8, 4};
    OK(MPI_Type_indexed(4, lengths, places, MPI_INT, &blocks));
    OK(MPI_Type_commit(&blocks));
    OK(MPI_Sendrecv(out, 1, blocks, next, 1, in, 3, MPI_INT, last, 1, world, MPI_STATUS_IGNORE));
    CHECK(in[0] == 1 && in[1] == 2 && in[2] == 4 && in[3] == 0);

    OK(MPI_Type_vector(5, 1, -1, MPI_INT, &reverse));
    OK(MPI_Type_commit(&reverse));
    OK(MPI_Sendrecv(out + 4, 1, reverse, next, 2, in, 5, MPI_INT, last, 2, world, MPI_STATUS_IGNORE));
    for (int i = 0; i < 5; i++)
        CHECK(in[i] == 4 - i);
    OK(MPI_Type_free(&empty));
    OK(MPI_Type_free(&blocks));
    OK(MPI_Type_free(&reverse));
}

/* Freeing a communicator marks it: what is under way on it ends as if nothing had been. (MPI 4.1, 7.4.3) */
static void communicators_end_later(void)
{
    enum { LARGE = 1 << 18 };
    static int out[LARGE], in[LARGE];
    for (int i = 0; i < 20; i++) {
        MPI_Comm comm, other;
        MPI_Request requests[4];
        int small = rank, got = -1;
        OK(MPI_Comm_dup(world, &comm));
        OK(MPI_Irecv(in, LARGE, MPI_INT, last, 0, comm, &requests[0]));
        OK(MPI_Irecv(&got, 1, MPI_INT, last, 1, comm, &requests[1]));
        out[LARGE - 1] = rank + i;
        OK(MPI_Isend(out, LARGE, MPI_INT, next, 0, comm, &requests[2]));
        OK(MPI_Issend(&small, 1, MPI_INT, next, 1, comm, &requests[3]));
        OK(MPI_Comm_free(&comm));
        /* The new one may get the old one's place, and must not get its messages. */
        OK(MPI_Comm_dup(world, &other));
        int flag = 1;
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
        CHECK(in[LARGE - 1] == last + i && got == last);
        OK(MPI_Comm_free(&other));
    }
    /* A message that nobody receives harms nobody. */
    MPI_Comm comm;
    OK(MPI_Comm_dup(world, &comm));
    OK(MPI_Send(&rank, 1, MPI_INT, next, 0, comm));
    OK(MPI_Comm_free(&comm));
}

/* Messages to oneself, long ones too: a nonblocking side is enough. (MPI 4.1, 3.5) */
static void oneself(void)
{
    enum { N = 1 << 20 };
    int *out = malloc(N * sizeof *out), *in = calloc(N, sizeof *in), shifted = 0;
    MPI_Request request;
    MPI_Datatype every_second;
    for (int i = 0; i < N; i++)
        out[i] = i ^ rank;
    OK(MPI_Isend(out, N, MPI_INT, rank, 0, world, &request));
    OK(MPI_Recv(in, N, MPI_INT, rank, 0, world, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(memcmp(out, in, N * sizeof *out) == 0);
    OK(MPI_Irecv(in, N, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &request));
    OK(MPI_Ssend(out, N, MPI_INT, 0, 5, MPI_COMM_SELF));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Type_vector(N / 2, 1, 2, MPI_INT, &every_second));
    OK(MPI_Type_commit(&every_second));
    memset(in, 0, N * sizeof *in);
    OK(MPI_Sendrecv(out, 1, every_second, rank, 1, in, N / 2, MPI_INT, rank, 1, world, MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(out, N / 2, MPI_INT, rank, 2, in + 1, 1, every_second, rank, 2, world,
                    MPI_STATUS_IGNORE));
    for (int i = 0; i < N / 2; i++)
        shifted += in[2 * i + 1] == out[i];
    CHECK(shifted == N / 2);
    OK(MPI_Sendrecv_replace(out, 1, every_second, rank, 3, rank, 3, world, MPI_STATUS_IGNORE));
    CHECK(out[2] == (2 ^ rank) && out[3] == (3 ^ rank));
    OK(MPI_Type_free(&every_second));
    free(out), free(in);
}

/* No message overtakes another of its sender, whatever carries it. (MPI 4.1, 3.5) */
static void order(void)
{
    enum { MESSAGES = 200 };
    static const int lengths[] = {1, 3000, 2, 100000, 17, 500};
    MPI_Request requests[MESSAGES];
    MPI_Datatype gaps;
    int *out[MESSAGES], most = 100000;
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gaps));
    OK(MPI_Type_commit(&gaps));
    for (int i = 0; i < MESSAGES; i++) {
        int n = lengths[i % 6], step = i % 4 == 3 ? 2 : 1;
        out[i] = calloc((size_t)n * step, sizeof(int));
        out[i][0] = i, out[i][(size_t)(n - 1) * step] = i;
        MPI_Datatype type = step == 2 ? gaps : MPI_INT;
        if (i % 5 == 4)
            OK(MPI_Issend(out[i], n, type, next, i % 7, world, &requests[i]));
        else
            OK(MPI_Isend(out[i], n, type, next, i % 7, world, &requests[i]));
    }
    int *in = malloc(most * sizeof *in);
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Status status;
        int count = 0, source = i % 2 ? MPI_ANY_SOURCE : last;
        OK(MPI_Recv(in, most, MPI_INT, source, MPI_ANY_TAG, world, &status));
        OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK(count == lengths[i % 6] && in[0] == i && in[count - 1] == i && status.MPI_TAG == i % 7);
    }
    OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES; i++)
        free(out[i]);
    free(in);
    OK(MPI_Type_free(&gaps));
}

/* The status of a receive. Of the error field, only calls that complete several requests write it. */
static MPI_Status untouched(void)
{
    MPI_Status status;
    memset(&status, 0x11, sizeof status);
    return status;
}

static int is_cut(const MPI_Status *status, int tag)
{
    int count = -1;
    OK(MPI_Get_count(status, MPI_INT, &count));
    return count == 4 && status->MPI_SOURCE == last && status->MPI_TAG == tag;
}

/* A message that is too long is received as far as the buffer reaches, and the status is its own. (MPI 4.1, 3.2.4) */
static void cut_messages(void)
{
    static const int lengths[] = {5, 3000, 200000};
    for (int l = 0; l < 3; l++) {
        int n = lengths[l], *out = malloc(n * sizeof *out), in[5], *whole = malloc(n * sizeof *whole);
        MPI_Request sends[8], requests[2];
        MPI_Status status, all[2];
        MPI_Message message;
        for (int i = 0; i < n; i++)
            out[i] = i;
        for (int tag = 0; tag < 8; tag++)
            OK(MPI_Isend(out, n, MPI_INT, next, tag, world, &sends[tag]));
        in[4] = -1;
        status = untouched();
        FAILS(MPI_ERR_TRUNCATE, MPI_Recv(in, 4, MPI_INT, last, MPI_ANY_TAG, world, &status));
        CHECK(is_cut(&status, 0) && status.MPI_ERROR == 0x11111111);
        status = untouched();
        FAILS(MPI_ERR_TRUNCATE, MPI_Recv(in, 4, MPI_INT, MPI_ANY_SOURCE, 1, world, &status));
        CHECK(is_cut(&status, 1));
        status = untouched();
        FAILS(MPI_ERR_TRUNCATE, MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, in, 4, MPI_INT, last, 2, world,
                                             &status));
        CHECK(is_cut(&status, 2));
        OK(MPI_Mprobe(last, 3, world, &message, MPI_STATUS_IGNORE));
        status = untouched();
        FAILS(MPI_ERR_TRUNCATE, MPI_Mrecv(in, 4, MPI_INT, &message, &status));
        CHECK(is_cut(&status, 3) && message == MPI_MESSAGE_NULL && status.MPI_ERROR == 0x11111111);
        OK(MPI_Irecv(in, 4, MPI_INT, last, 4, world, &requests[0]));
        status = untouched();
        FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&requests[0], &status));
        CHECK(is_cut(&status, 4) && requests[0] == MPI_REQUEST_NULL && status.MPI_ERROR == 0x11111111);
        OK(MPI_Irecv(in, 4, MPI_INT, last, 5, world, &requests[0]));
        int flag = 0, code = MPI_SUCCESS, class = 0;
        status = untouched();
        while (!flag)
            code = MPI_Test(&requests[0], &flag, &status);
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPI_ERR_TRUNCATE && is_cut(&status, 5));
        OK(MPI_Irecv(in, 4, MPI_INT, last, 6, world, &requests[0]));
        OK(MPI_Irecv(whole, n, MPI_INT, last, 7, world, &requests[1]));
        all[0] = all[1] = untouched();
        FAILS(MPI_ERR_IN_STATUS, MPI_Waitall(2, requests, all));
        OK(MPI_Error_class(all[0].MPI_ERROR, &class));
        CHECK(class == MPI_ERR_TRUNCATE && is_cut(&all[0], 6) && all[1].MPI_ERROR == MPI_SUCCESS);
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL && whole[n - 1] == n - 1);
        CHECK(in[0] == 0 && in[3] == 3 && in[4] == -1);
        OK(MPI_Waitall(8, sends, MPI_STATUSES_IGNORE));
        free(out), free(whole);
    }
}

/* Groups of nobody are all equal, and a communicator of one is none. (MPI 4.1, 7.3.2 and 7.4.2) */
static void nobody(void)
{
    MPI_Group all, none, less;
    MPI_Comm comm = MPI_COMM_SELF;
    int result = -1, *members = NULL;
    OK(MPI_Comm_group(world, &all));
    OK(MPI_Group_incl(all, 0, members, &none));
    OK(MPI_Group_difference(all, all, &less));
    OK(MPI_Group_compare(none, less, &result));
    CHECK(result == MPI_IDENT);
    OK(MPI_Group_compare(none, MPI_GROUP_EMPTY, &result));
    CHECK(result == MPI_IDENT);
    OK(MPI_Comm_create(world, none, &comm));
    CHECK(comm == MPI_COMM_NULL);
    if (none != MPI_GROUP_EMPTY)
        OK(MPI_Group_free(&none));
    if (less != MPI_GROUP_EMPTY)
        OK(MPI_Group_free(&less));
    OK(MPI_Group_free(&all));
}

/* A send whose request was freed arrives, though its rank goes to the end at once. (MPI 4.1, 3.7.3 and 11.2) */
static void the_last_message(void)
{
    enum { N = 50000 };
    static int out[N], in[N];
    MPI_Request request;
    OK(MPI_Barrier(world));
    if (rank == 0) {
        for (int i = 0; i < N; i++)
            out[i] = i;
        for (int to = 1; to < size; to++) {
            OK(MPI_Isend(out, N, MPI_INT, to, 99, world, &request));
            OK(MPI_Request_free(&request));
        }
        return;
    }
    double end = MPI_Wtime() + 0.05 * rank;
    while (MPI_Wtime() < end)
        ;
    OK(MPI_Recv(in, N, MPI_INT, 0, 99, world, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        CHECK(in[i] == i);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    errors_return();
    rank = rank_of(world);
    OK(MPI_Comm_size(world, &size));
    next = (rank + 1) % size, last = (rank + size - 1) % size;
    elsewhere_than_at_the_root();
    other_types_on_each_rank();
    nothing_and_backwards();
    communicators_end_later();
    oneself();
    order();
    cut_messages();
    nobody();
    the_last_message();
    OK(MPI_Finalize());
    done(rank);
    return 0;
}
