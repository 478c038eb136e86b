/* Requests: how they complete, alone and together, and what their statuses say. */
#include "check.h"

static int rank, size;
static MPI_Comm world;

static int is_empty(const MPI_Status *status)
{
    int count = -1, cancelled = -1;
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    OK(MPI_Test_cancelled(status, &cancelled));
    return status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG &&
           status->MPI_ERROR == MPI_SUCCESS && count == 0 && cancelled == 0;
}

/* A status that no call has written. */
static MPI_Status fresh(void)
{
    MPI_Status status;
    memset(&status, 0x55, sizeof status);
    return status;
}

/* Nothing to wait for: none, and persistent ones that were not started. */
static void idle(void)
{
    int value, flag = 0, index = 5, count = 5, indices[2];
    MPI_Status status = fresh(), statuses[2] = {fresh(), fresh()};
    MPI_Request none = MPI_REQUEST_NULL, two[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    OK(MPI_Wait(&none, &status));
    CHECK(is_empty(&status));
    status = fresh();
    OK(MPI_Test(&none, &flag, &status));
    CHECK(flag && is_empty(&status));
    status = fresh(), flag = 0;
    OK(MPI_Request_get_status(none, &flag, &status));
    CHECK(flag && is_empty(&status));
    OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, world, &two[1]));
    for (int n = 0; n <= 2; n += 2) {
        status = fresh(), index = 5, flag = 0;
        OK(MPI_Waitany(n, two, &index, &status));
        CHECK(index == MPI_UNDEFINED && is_empty(&status));
        status = fresh(), index = 5, flag = 0;
        OK(MPI_Testany(n, two, &index, &flag, &status));
        CHECK(flag && index == MPI_UNDEFINED && is_empty(&status));
        count = 5;
        OK(MPI_Waitsome(n, two, &count, indices, statuses));
        CHECK(count == MPI_UNDEFINED);
        count = 5;
        OK(MPI_Testsome(n, two, &count, indices, MPI_STATUSES_IGNORE));
        CHECK(count == MPI_UNDEFINED);
        flag = 0;
        OK(MPI_Testall(n, two, &flag, statuses));
        CHECK(flag);
        OK(MPI_Waitall(n, two, statuses));
        CHECK(n == 0 || (is_empty(&statuses[0]) && is_empty(&statuses[1])));
        flag = 0, index = 5, count = 5;
        OK(MPI_Request_get_status_all(n, two, &flag, statuses));
        CHECK(flag);
        OK(MPI_Request_get_status_any(n, two, &index, &flag, &status));
        CHECK(flag && index == MPI_UNDEFINED);
        OK(MPI_Request_get_status_some(n, two, &count, indices, statuses));
        CHECK(count == MPI_UNDEFINED);
    }
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    CHECK(two[1] != MPI_REQUEST_NULL);
    FAILS(MPI_ERR_REQUEST, MPI_Cancel(&two[1]));
    OK(MPI_Request_free(&two[1]));
    CHECK(two[1] == MPI_REQUEST_NULL);
    FAILS(MPI_ERR_REQUEST, MPI_Request_free(&none));
    FAILS(MPI_ERR_REQUEST, MPI_Cancel(&none));
    FAILS(MPI_ERR_REQUEST, MPI_Start(&none));
}

/* Operations with nobody, and such that end in their call. */
static void at_once(void)
{
    int value = 7, flag = 0;
    MPI_Request send, receive;
    MPI_Status status = fresh();
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, world, &receive));
    CHECK(receive != MPI_REQUEST_NULL);
    CHECK(MPI_Request_fromint(MPI_Request_toint(receive)) == receive);
    int before = status.MPI_ERROR;
    OK(MPI_Request_get_status(receive, &flag, &status));
    CHECK(flag && status.MPI_SOURCE == MPI_PROC_NULL && receive != MPI_REQUEST_NULL);
    status = fresh();
    OK(MPI_Wait(&receive, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && value == 7);
    CHECK(status.MPI_ERROR == before && receive == MPI_REQUEST_NULL);
    OK(MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 3, world, &send));
    CHECK(send != MPI_REQUEST_NULL);
    OK(MPI_Cancel(&send));
    OK(MPI_Request_free(&send));
    CHECK(send == MPI_REQUEST_NULL);
    OK(MPI_Isend(&value, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &send));
    CHECK(send != MPI_REQUEST_NULL);
    int in = 0;
    OK(MPI_Recv(&in, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK(in == 7 && send == MPI_REQUEST_NULL);
}

/* Rank 0 sends to the others in turn, which they and it complete in every way. */
static void together(void)
{
    enum { MANY = 8, WIDE = 50000 };
    static int in[MANY][WIDE], out[MANY][WIDE];
    MPI_Request requests[2 * MANY];
    MPI_Status statuses[2 * MANY], status;
    for (int way = 0; way < 6; way++) {
        int next = (rank + 1) % size, last = (rank + size - 1) % size;
        /* Some go at once, some wait for their receive. */
        for (int i = 0; i < MANY; i++) {
            int count = i % 2 ? WIDE : i;
            for (int k = 0; k < count; k++)
                out[i][k] = rank * 1000 + i + k;
            memset(in[i], 0xff, sizeof in[i]);
            OK(MPI_Irecv(in[i], WIDE, MPI_INT, last, i, world, &requests[i]));
            OK(MPI_Issend(out[i], count, MPI_INT, next, i, world, &requests[MANY + i]));
        }
        MPI_Request copy[2 * MANY];
        memcpy(copy, requests, sizeof copy);
        int left = 2 * MANY, index, flag, count, indices[2 * MANY];
        memset(statuses, 0x55, sizeof statuses);
        switch (way) {
        case 0:
            OK(MPI_Waitall(left, requests, statuses));
            break;
        case 1:
            do
                OK(MPI_Testall(left, requests, &flag, statuses));
            while (!flag);
            break;
        case 2:
            for (; left > 0; left--) {
                OK(MPI_Waitany(2 * MANY, requests, &index, &status));
                CHECK(index >= 0 && index < 2 * MANY && requests[index] == MPI_REQUEST_NULL);
                statuses[index] = status;
            }
            break;
        case 3:
            while (left > 0) {
                OK(MPI_Testany(2 * MANY, requests, &index, &flag, &status));
                CHECK(flag == (index != MPI_UNDEFINED));
                if (flag)
                    statuses[index] = status, left--;
            }
            break;
        default:
            while (left > 0) {
                MPI_Status some[2 * MANY];
                if (way == 4)
                    OK(MPI_Waitsome(2 * MANY, requests, &count, indices, some));
                else
                    OK(MPI_Testsome(2 * MANY, requests, &count, indices, some));
                CHECK(way == 5 || count > 0);
                for (int i = 0; i < count; i++)
                    statuses[indices[i]] = some[i];
                left -= count;
            }
        }
        for (int i = 0; i < MANY; i++) {
            int expected = i % 2 ? WIDE : i;
            OK(MPI_Get_count(&statuses[i], MPI_INT, &count));
            CHECK(statuses[i].MPI_SOURCE == last && statuses[i].MPI_TAG == i);
            CHECK(count == expected);
            for (int k = 0; k < WIDE; k++)
                CHECK(in[i][k] == (k < expected ? last * 1000 + i + k : -1));
            CHECK(requests[i] == MPI_REQUEST_NULL && requests[MANY + i] == MPI_REQUEST_NULL);
            FAILS(MPI_ERR_REQUEST, MPI_Wait(&copy[i], &status));
        }
    }
}

/* Errors of some among several. */
static void failures(void)
{
    int four[4] = {1, 2, 3, 4}, small[2] = {0, 0}, big[4] = {0, 0, 0, 0}, guard[2] = {9, 9};
    MPI_Request requests[3];
    MPI_Status statuses[3];
    for (int way = 0; way < 3; way++) {
        memset(statuses, 0x55, sizeof statuses);
        small[0] = small[1] = 0, memset(big, 0, sizeof big);
        OK(MPI_Irecv(small, 2, MPI_INT, rank, 1, world,
                     &requests[0]));
        requests[1] = MPI_REQUEST_NULL;
        OK(MPI_Irecv(big, 4, MPI_INT, rank, 2, world, &requests[2]));
        OK(MPI_Send(four, 4, MPI_INT, rank, 1, world));
        OK(MPI_Send(four, 4, MPI_INT, rank, 2, world));
        int flag = 0, count = 0, indices[3] = {7, 7, 7};
        if (way == 0)
            FAILS(MPI_ERR_IN_STATUS, MPI_Waitall(3, requests, statuses));
        else if (way == 1)
            FAILS(MPI_ERR_IN_STATUS, MPI_Testall(3, requests, &flag, statuses));
        else
            FAILS(MPI_ERR_IN_STATUS, MPI_Waitsome(3, requests, &count, indices, statuses));
        CHECK(way != 1 || flag);
        int last = way == 2 ? 1 : 2;
        CHECK(way != 2 || (count == 2 && indices[0] == 0 && indices[1] == 2 && indices[2] == 7));
        CHECK(statuses[0].MPI_ERROR == MPI_ERR_TRUNCATE && statuses[last].MPI_ERROR == MPI_SUCCESS);
        CHECK(way == 2 || is_empty(&statuses[1]));
        OK(MPI_Get_count(&statuses[0], MPI_INT, &count));
        /* What was received, and no more than that. */
        CHECK(count == 2 && statuses[0].MPI_SOURCE == rank && statuses[0].MPI_TAG == 1);
        CHECK(small[0] == 1 && small[1] == 2 && big[3] == 4 && guard[0] == 9 && guard[1] == 9);
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[2] == MPI_REQUEST_NULL);
    }
    /* Alone, an error is the function's own, and the error field stays. */
    MPI_Status status = fresh();
    int before = status.MPI_ERROR, index;
    OK(MPI_Irecv(small, 2, MPI_INT, rank, 1, world, &requests[0]));
    OK(MPI_Send(four, 4, MPI_INT, rank, 1, world));
    FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&requests[0], &status));
    CHECK(status.MPI_ERROR == before && requests[0] == MPI_REQUEST_NULL);
    OK(MPI_Irecv(small, 2, MPI_INT, rank, 1, world, &requests[0]));
    OK(MPI_Send(four, 4, MPI_INT, rank, 1, world));
    FAILS(MPI_ERR_TRUNCATE, MPI_Waitany(1, requests, &index, &status));
    CHECK(status.MPI_ERROR == before && index == 0);
    OK(MPI_Irecv(small, 2, MPI_INT, rank, 1, world, &requests[0]));
    OK(MPI_Send(four, 4, MPI_INT, rank, 1, world));
    FAILS(MPI_ERR_IN_STATUS, MPI_Waitall(1, requests, MPI_STATUSES_IGNORE));
}

/* A request's status is read without freeing it. */
static void reading_status(void)
{
    int value = 0, out = 5, flag = 1, index, count, indices[2];
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[2];
    OK(MPI_Irecv(&value, 1, MPI_INT, rank, 4, world, &requests[1]));
    OK(MPI_Request_get_status(requests[1], &flag, &status));
    CHECK(!flag);
    flag = 1;
    OK(MPI_Request_get_status_all(2, requests, &flag, statuses));
    CHECK(!flag);
    flag = 1;
    OK(MPI_Request_get_status_any(2, requests, &index, &flag, &status));
    CHECK(!flag);
    OK(MPI_Request_get_status_some(2, requests, &count, indices, statuses));
    CHECK(count == 0);
    OK(MPI_Send(&out, 1, MPI_INT, rank, 4, world));
    do
        OK(MPI_Request_get_status(requests[1], &flag, &status));
    while (!flag);
    CHECK(status.MPI_TAG == 4 && value == 5);
    OK(MPI_Request_get_status_all(2, requests, &flag, statuses));
    CHECK(flag && is_empty(&statuses[0]) && statuses[1].MPI_TAG == 4);
    OK(MPI_Request_get_status_any(2, requests, &index, &flag, &status));
    CHECK(flag && index == 1 && status.MPI_TAG == 4);
    OK(MPI_Request_get_status_some(2, requests, &count, indices, statuses));
    CHECK(count == 1 && indices[0] == 1 && statuses[0].MPI_TAG == 4);
    CHECK(requests[1] != MPI_REQUEST_NULL);
    OK(MPI_Test(&requests[1], &flag, &status));
    CHECK(flag && requests[1] == MPI_REQUEST_NULL && status.MPI_TAG == 4);
}

/* Receives and sends that are taken back. */
static void cancelling(void)
{
    int value = 3, flag = -1;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 99, world, &request));
    OK(MPI_Cancel(&request));
    CHECK(request != MPI_REQUEST_NULL);
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag == 1 && value == 3 && request == MPI_REQUEST_NULL);
    /* What has come already is not lost. */
    OK(MPI_Irecv(&value, 1, MPI_INT, rank, 98, world, &request));
    OK(MPI_Send(&rank, 1, MPI_INT, rank, 98, world));
    do
        OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    while (!flag);
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag == 0 && value == rank && status.MPI_TAG == 98);
    /* A synchronous send to another rank, which does not receive it. */
    int next = (rank + 1) % size;
    OK(MPI_Issend(&value, 1, MPI_INT, next, 97, world, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag == 1);
    OK(MPI_Barrier(world));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 97, world, &flag, MPI_STATUS_IGNORE));
    CHECK(flag == 0);
    OK(MPI_Isendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &value, 1, MPI_INT, rank, 96, world,
                     &request));
    FAILS(MPI_ERR_REQUEST, MPI_Cancel(&request));
    OK(MPI_Send(&rank, 1, MPI_INT, rank, 96, world));
    OK(MPI_Wait(&request, &status));
    CHECK(status.MPI_SOURCE == rank && status.MPI_TAG == 96);
}

/* Requests that are freed under way end by themselves, also when their communicator is freed. */
static void freeing(void)
{
    enum { WIDE = 300000 };
    static char out[WIDE], in[WIDE];
    MPI_Comm comm;
    MPI_Request request;
    int next = (rank + 1) % size, last = (rank + size - 1) % size, got = -1;
    OK(MPI_Comm_dup(world, &comm));
    memset(out, 'a' + rank, sizeof out), memset(in, 0, sizeof in);
    OK(MPI_Isend(out, WIDE, MPI_CHAR, next, 5, comm, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    MPI_Comm copy = comm;
    OK(MPI_Irecv(&got, 1, MPI_INT, last, 6, copy, &request));
    OK(MPI_Send(&rank, 1, MPI_INT, next, 6, copy));
    OK(MPI_Recv(in, WIDE, MPI_CHAR, last, 5, comm, MPI_STATUS_IGNORE));
    CHECK(in[0] == 'a' + last && in[WIDE - 1] == 'a' + last);
    OK(MPI_Comm_free(&comm));
    CHECK(comm == MPI_COMM_NULL);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got == last);
    /* Nobody ever receives into this again; finalising takes it back. */
    static int left;
    OK(MPI_Irecv(&left, 1, MPI_INT, MPI_ANY_SOURCE, 1234, world, &request));
    OK(MPI_Request_free(&request));
    /* This one is received by the next rank as the last thing it does. */
    OK(MPI_Isend(out, WIDE, MPI_CHAR, next, 7, MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
}

static void handles(void)
{
    int flag, index, count, indices[2];
    MPI_Status status;
    MPI_Request wrong[] = {
        NULL, (MPI_Request)(size_t)0x181, (MPI_Request)(size_t)0xfff, (MPI_Request)(size_t)-1,
        (MPI_Request)MPI_COMM_WORLD, (MPI_Request)(size_t)0x7ffffffffff0,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        MPI_Request two[2] = {MPI_REQUEST_NULL, wrong[i]}, one = wrong[i];
        FAILS(MPI_ERR_REQUEST, MPI_Wait(&one, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Test(&one, &flag, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
        FAILS(MPI_ERR_REQUEST, MPI_Waitany(2, two, &index, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Testsome(2, two, &count, indices, MPI_STATUSES_IGNORE));
        FAILS(MPI_ERR_REQUEST, MPI_Request_free(&one));
        FAILS(MPI_ERR_REQUEST, MPI_Cancel(&one));
        FAILS(MPI_ERR_REQUEST, MPI_Start(&one));
        FAILS(MPI_ERR_REQUEST, MPI_Request_get_status(one, &flag, &status));
        FAILS(MPI_ERR_REQUEST, MPI_Grequest_complete(one));
        CHECK(one == wrong[i]);
    }
    FAILS(MPI_ERR_COUNT, MPI_Waitall(-1, NULL, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    errors_return();
    rank = rank_of(MPI_COMM_WORLD);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    idle();
    at_once();
    together();
    failures();
    reading_status();
    cancelling();
    handles();
    freeing();
    static char last[300000];
    OK(MPI_Recv(last, sizeof last, MPI_CHAR, (rank + size - 1) % size, 7, MPI_COMM_WORLD,
                MPI_STATUS_IGNORE));
    CHECK(last[sizeof last - 1] == 'a' + (rank + size - 1) % size);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
