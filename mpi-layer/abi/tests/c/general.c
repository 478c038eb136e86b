/* Generalised requests, whose ends the program tells. */
#include <pthread.h>
#include <unistd.h>
#include "check.h"

struct state {
    int queried, freed, cancelled, complete, answer;
};

static int query(void *extra, MPI_Status *status)
{
    struct state *state = extra;
    int size;
    /* It may call MPI. */
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    state->queried++;
    status->MPI_SOURCE = 17, status->MPI_TAG = 18;
    OK(MPI_Status_set_elements(status, MPI_INT, 5));
    OK(MPI_Status_set_cancelled(status, state->cancelled));
    return state->answer;
}

static int release(void *extra)
{
    ((struct state *)extra)->freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    struct state *state = extra;
    state->cancelled = 1, state->complete = complete;
    return MPI_SUCCESS;
}

static void *later(void *request)
{
    usleep(200000);
    OK(MPI_Grequest_complete(*(MPI_Request *)request));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, flag = 1, count, index;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided));
    errors_return();
    MPI_Request request, none = MPI_REQUEST_NULL;
    MPI_Status status;
    struct state state = {0};

    OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    OK(MPI_Test(&request, &flag, &status));
    CHECK(flag == 0 && state.queried == 0);
    OK(MPI_Grequest_complete(request));
    FAILS(MPI_ERR_REQUEST, MPI_Grequest_complete(request));
    OK(MPI_Request_get_status(request, &flag, &status));
    CHECK(flag && status.MPI_TAG == 18 && state.queried == 1 && state.freed == 0);
    MPI_Request copy = request;
    OK(MPI_Wait(&request, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 5 && status.MPI_SOURCE == 17 && request == MPI_REQUEST_NULL);
    CHECK(state.queried == 2 && state.freed == 1);
    FAILS(MPI_ERR_REQUEST, MPI_Grequest_complete(copy));

    /* The function's error is the call's; among others, it is in the status. */
    state = (struct state){.answer = MPI_ERR_TOPOLOGY};
    OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    OK(MPI_Grequest_complete(request));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(state.queried == 1 && state.freed == 1);
    MPI_Request two[2] = {MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    OK(MPI_Grequest_start(query, release, cancel, &state, &two[1]));
    OK(MPI_Grequest_complete(two[1]));
    FAILS(MPI_ERR_IN_STATUS, MPI_Waitall(2, two, statuses));
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[1].MPI_ERROR == MPI_ERR_TOPOLOGY);

    /* Cancelled before its end. */
    state = (struct state){0};
    OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    OK(MPI_Cancel(&request));
    CHECK(state.cancelled == 1 && state.complete == 0);
    OK(MPI_Grequest_complete(request));
    OK(MPI_Cancel(&request));
    CHECK(state.complete == 1);
    OK(MPI_Waitany(1, &request, &index, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag == 1 && index == 0);

    /* Freed after its end, and before. */
    state = (struct state){0};
    OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    OK(MPI_Grequest_complete(request));
    OK(MPI_Request_free(&request));
    CHECK(state.freed == 1 && state.queried == 0 && request == MPI_REQUEST_NULL);
    OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    copy = request;
    OK(MPI_Request_free(&request));
    CHECK(state.freed == 1);
    OK(MPI_Grequest_complete(copy));
    CHECK(state.freed == 2);

    /* The end is told while the rank sleeps in a wait. */
    state = (struct state){0};
    pthread_t thread;
    OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    copy = request;
    CHECK(pthread_create(&thread, NULL, later, &copy) == 0);
    OK(MPI_Wait(&request, &status));
    CHECK(state.queried == 1 && state.freed == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    FAILS(MPI_ERR_REQUEST, MPI_Grequest_complete(none));
    done(rank_of(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    return 0;
}
