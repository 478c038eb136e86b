/* Blocking sends of all modes, exchanges, and buffers of every kind. */
#include "check.h"

static int rank, size, next, last;
static MPI_Comm world = MPI_COMM_WORLD;

typedef int Send(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int SendC(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm);
typedef int Start(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
typedef int StartC(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void modes(void)
{
    Send *sends[] = {MPI_Send, MPI_Ssend, MPI_Rsend, MPI_Bsend};
    SendC *wide[] = {MPI_Send_c, MPI_Ssend_c, MPI_Rsend_c, MPI_Bsend_c};
    Start *starts[] = {MPI_Isend, MPI_Issend, MPI_Irsend, MPI_Ibsend};
    StartC *wide_starts[] = {MPI_Isend_c, MPI_Issend_c, MPI_Irsend_c, MPI_Ibsend_c};
    enum { MANY = 40000 };
    static int out[MANY], in[MANY];
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    int counts[] = {0, 1, 100, MANY};
    for (int c = 0; c < 4; c++)
        for (int way = 0; way < 16; way++) {
            int count = counts[c], mode = way % 4, got = -1;
            MPI_Request receive, send = MPI_REQUEST_NULL;
            MPI_Status status;
            for (int i = 0; i < count; i++)
                out[i] = rank + i * 3 + way;
            memset(in, 0xff, sizeof in);
            if (way % 8 < 4)
                OK(MPI_Irecv(in, MANY, MPI_INT, last, way, world, &receive));
            else
                OK(MPI_Irecv_c(in, MANY, MPI_INT, last, way, world, &receive));
            OK(MPI_Barrier(world));
            switch (way / 4) {
            case 0:
                OK(sends[mode](out, count, MPI_INT, next, way, world));
                break;
            case 1:
                OK(wide[mode](out, count, MPI_INT, next, way, world));
                break;
            case 2:
                OK(starts[mode](out, count, MPI_INT, next, way, world, &send));
                break;
            default:
                OK(wide_starts[mode](out, count, MPI_INT, next, way, world, &send));
            }
            CHECK((send == MPI_REQUEST_NULL) == (way < 8));
            if (mode == 3)
                /* The message was copied. */
                memset(out, 0xee, sizeof out);
            OK(MPI_Wait(&receive, &status));
            OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            OK(MPI_Get_count(&status, MPI_INT, &got));
            CHECK(got == count && status.MPI_SOURCE == last && status.MPI_TAG == way);
            for (int i = 0; i < MANY; i++)
                CHECK(in[i] == (i < count ? last + i * 3 + way : -1));
        }
    void *address;
    int bytes = -1;
    OK(MPI_Buffer_detach(&address, &bytes));
    CHECK(address == MPI_BUFFER_AUTOMATIC && bytes == 0);
    /* A synchronous send is not complete before its receive. */
    MPI_Request request;
    int flag = 1, value = 5;
    OK(MPI_Issend(&value, 1, MPI_INT, rank, 50, world, &request));
    for (int i = 0; i < 100; i++) {
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    OK(MPI_Recv(&value, 1, MPI_INT, rank, 50, world, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void exchanges(void)
{
    enum { MANY = 70000 };
    static long out[MANY], in[MANY];
    for (int way = 0; way < 8; way++) {
        int count = way % 2 ? MANY : 3, got;
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;
        for (int i = 0; i < count; i++)
            out[i] = rank * 1000L + i, in[i] = -1;
        switch (way / 2) {
        case 0:
            OK(MPI_Sendrecv(out, count, MPI_LONG, next, 1, in, MANY, MPI_LONG, last, 1, world,
                            &status));
            break;
        case 1:
            OK(MPI_Isendrecv_c(out, count, MPI_LONG, next, 1, in, MANY, MPI_LONG, last, 1, world,
                               &request));
            OK(MPI_Wait(&request, &status));
            break;
        case 2:
            memcpy(in, out, sizeof out);
            OK(MPI_Sendrecv_replace_c(in, count, MPI_LONG, next, 1, MPI_ANY_SOURCE, MPI_ANY_TAG,
                                      world, &status));
            break;
        default:
            memcpy(in, out, sizeof out);
            OK(MPI_Isendrecv_replace(in, count, MPI_LONG, next, 1, last, 1, world, &request));
            OK(MPI_Wait(&request, &status));
        }
        OK(MPI_Get_count(&status, MPI_LONG, &got));
        CHECK(got == count && status.MPI_SOURCE == last && status.MPI_TAG == 1);
        for (int i = 0; i < count; i++)
            CHECK(in[i] == last * 1000L + i);
        OK(MPI_Barrier(world));
    }
    /* With nobody on either side. */
    MPI_Status status;
    int value = rank, got = -1;
    OK(MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &got, 1, MPI_INT, MPI_PROC_NULL, 0, world,
                    &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && got == -1);
    OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, world, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && value == rank);
    OK(MPI_Sendrecv(&value, 1, MPI_INT, rank, 2, &got, 1, MPI_INT, rank, 2, world, &status));
    CHECK(got == rank);
    int four[4] = {1, 2, 3, 4}, two[2] = {0, 0};
    FAILS(MPI_ERR_TRUNCATE, MPI_Sendrecv(four, 4, MPI_INT, rank, 3, two, 2, MPI_INT, rank, 3, world,
                                         &status));
    CHECK(two[0] == 1 && two[1] == 2);
}

/* Types that do not lie in one piece, also at absolute addresses. */
static void types(void)
{
    enum { MANY = 9000 };
    static int out[3 * MANY], in[3 * MANY];
    MPI_Datatype column, absolute;
    OK(MPI_Type_vector(MANY, 1, 3, MPI_INT, &column));
    int wrong = 0;
    FAILS(MPI_ERR_TYPE, MPI_Send(out, 1, column, next, 0, world));
    FAILS(MPI_ERR_TYPE, MPI_Irecv(out, 1, column, next, 0, world, &(MPI_Request){0}));
    OK(MPI_Type_commit(&column));
    MPI_Aint address;
    int one = 1;
    OK(MPI_Get_address(out, &address));
    OK(MPI_Type_create_hindexed(1, &one, &address, column, &absolute));
    OK(MPI_Type_commit(&absolute));
    for (int way = 0; way < 5; way++) {
        MPI_Request request;
        MPI_Status status;
        for (int i = 0; i < 3 * MANY; i++)
            out[i] = rank * 7 + i, in[i] = -1;
        if (way < 3) {
            OK(MPI_Irecv(in, 1, column, last, 0, world, &request));
            if (way == 0)
                OK(MPI_Send(MPI_BOTTOM, 1, absolute, next, 0, world));
            else if (way == 1)
                OK(MPI_Ssend(out, 1, column, next, 0, world));
            else {
                MPI_Request send;
                OK(MPI_Isend(out, 1, column, next, 0, world, &send));
                OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            }
            OK(MPI_Wait(&request, &status));
        } else {
            memcpy(in, out, sizeof in);
            for (int i = 0; i < 3 * MANY; i++)
                if (i % 3)
                    in[i] = -1;
            if (way == 3)
                OK(MPI_Sendrecv_replace(in, 1, column, next, 0, last, 0, world, &status));
            else {
                OK(MPI_Isendrecv_replace_c(in, 1, column, next, 0, last, 0, world, &request));
                OK(MPI_Wait(&request, &status));
            }
        }
        int got = -1;
        OK(MPI_Get_count(&status, column, &got));
        CHECK(got == 1);
        for (int i = 0; i < 3 * MANY; i++)
            wrong += in[i] != (i % 3 == 0 ? last * 7 + i : -1);
        CHECK(wrong == 0);
    }
    /* The handle may go while a message needs the type. */
    MPI_Request request;
    memset(in, 0xff, sizeof in);
    OK(MPI_Irecv(in, 1, column, last, 0, world, &request));
    OK(MPI_Type_free(&column));
    OK(MPI_Send(MPI_BOTTOM, 1, absolute, next, 0, world));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(in[0] == last * 7 && in[1] == -1 && in[3 * MANY - 3] == last * 7 + 3 * MANY - 3);
    OK(MPI_Type_free(&absolute));
}

/* Counts beyond an int, of a type without bytes and of bytes that are not there. */
static void large(void)
{
    MPI_Datatype nothing;
    MPI_Status status;
    OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    OK(MPI_Type_commit(&nothing));
    OK(MPI_Send_c(NULL, (MPI_Count)1 << 40, nothing, rank, 0, world));
    OK(MPI_Recv_c(NULL, (MPI_Count)1 << 41, nothing, rank, 0, world, &status));
    OK(MPI_Type_free(&nothing));
    FAILS(MPI_ERR_COUNT, MPI_Send_c(&rank, (MPI_Count)1 << 61, MPI_DOUBLE, rank, 0, world));
    FAILS(MPI_ERR_COUNT, MPI_Recv_c(&rank, INT64_MAX, MPI_INT, rank, 0, world, &status));
    FAILS(MPI_ERR_COUNT, MPI_Send_c(&rank, -1, MPI_INT, rank, 0, world));
    /* Space for more than an int can count. The memory is only touched where something comes. */
    size_t capacity = ((size_t)1 << 31) + 4096;
    char *memory = malloc(capacity);
    if (memory == NULL)
        return;
    MPI_Request request;
    OK(MPI_Irecv_c(memory, (MPI_Count)capacity, MPI_BYTE, rank, 1, world, &request));
    OK(MPI_Send("abc", 4, MPI_BYTE, rank, 1, world));
    OK(MPI_Wait(&request, &status));
    CHECK(strcmp(memory, "abc") == 0);
    free(memory);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    errors_return();
    rank = rank_of(world);
    OK(MPI_Comm_size(world, &size));
    next = (rank + 1) % size, last = (rank + size - 1) % size;
    modes();
    exchanges();
    types();
    large();
    OK(MPI_Barrier(world));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
