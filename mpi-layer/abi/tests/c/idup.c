/* Duplicates that are made in the background, on three ranks. */
#include "check.h"

static int rank;

/* A number from each to the next one. */
static void round_of(MPI_Comm comm)
{
    int mine = rank_of(comm), size = 0, got = -1;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Send(&mine, 1, MPI_INT, (mine + 1) % size, 0, comm));
    OK(MPI_Recv(&got, 1, MPI_INT, (mine + size - 1) % size, 0, comm, MPI_STATUS_IGNORE));
    CHECK(got == (mine + size - 1) % size);
    OK(MPI_Barrier(comm));
}

static void end(MPI_Comm *comm)
{
    int result = -1;
    OK(MPI_Comm_compare(*comm, MPI_COMM_WORLD, &result));
    CHECK(result == MPI_CONGRUENT);
    round_of(*comm);
    OK(MPI_Comm_free(comm));
}

/* Nobody waits in the call, and nothing is there before all have called. */
static void local(void)
{
    MPI_Comm comm;
    MPI_Request request;
    int size, flag = 1, token = 0;
    if (rank == 0) {
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        FAILS(MPI_ERR_COMM, MPI_Comm_size(comm, &size));
        FAILS(MPI_ERR_REQUEST, MPI_Cancel(&request));
        FAILS(MPI_ERR_REQUEST, MPI_Request_free(&request));
        /* What hangs on it is there. */
        OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_ABORT));
        OK(MPI_Comm_set_name(comm, "to come"));
        CHECK(MPI_Comm_fromint(MPI_Comm_toint(comm)) == comm);
        OK(MPI_Send(&token, 1, MPI_INT, 1, 5, MPI_COMM_WORLD));
        /* Rank 1 is done while this rank waits for something else. */
        OK(MPI_Recv(&token, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (rank == 1) {
        OK(MPI_Recv(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Send(&token, 1, MPI_INT, 0, 6, MPI_COMM_WORLD));
        CHECK(request == MPI_REQUEST_NULL);
    } else {
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (rank == 0) {
        MPI_Errhandler handler;
        char name[MPI_MAX_OBJECT_NAME];
        OK(MPI_Comm_get_errhandler(comm, &handler));
        OK(MPI_Comm_get_name(comm, name, &size));
        CHECK(handler == MPI_ERRORS_ABORT && strcmp(name, "to come") == 0);
    }
    end(&comm);
}

/* Several at once, with others made meanwhile, and in another order on each rank. */
static void several(void)
{
    enum { COUNT = 20 };
    MPI_Comm parents[2], comms[2 * COUNT], between;
    MPI_Request requests[2 * COUNT];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parents[0]));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parents[1]));
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < 2; j++) {
            int which = rank == 1 ? 1 - j : j, at = 2 * i + which;
            OK(MPI_Comm_idup(parents[which], &comms[at], &requests[at]));
        }
        if (i % 5 == 0) {
            OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &between));
            end(&between);
        }
    }
    OK(MPI_Comm_free(&parents[0]));
    OK(MPI_Comm_free(&parents[1]));
    if (rank == 2)
        for (int i = 2 * COUNT - 1; i >= 0; i--)
            OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    else
        OK(MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE));
    /* Messages in all of them, before any is received. */
    for (int i = 0; i < 2 * COUNT; i++)
        OK(MPI_Send(&i, 1, MPI_INT, (rank + 1) % 3, 0, comms[i]));
    for (int i = 2 * COUNT - 1; i >= 0; i--) {
        int got = -1;
        OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], MPI_STATUS_IGNORE));
        CHECK(got == i);
    }
    for (int i = 0; i < 2 * COUNT; i++)
        end(&comms[i]);
}

static int copies, refuse;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    copies++;
    if (refuse)
        return MPI_ERR_OTHER;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

/* What belongs to a duplicate. */
static void belongings(void)
{
    MPI_Comm parent, comm;
    MPI_Request request;
    MPI_Info info, got;
    MPI_Errhandler handler;
    int keyval, flag, count, value;
    void *address;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    OK(MPI_Comm_set_attr(parent, keyval, &value));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Comm_idup_with_info(parent, info, &comm, &request));
    CHECK(copies == 1);
    OK(MPI_Info_free(&info));
    /* What the parent becomes meanwhile does not matter. */
    OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_ABORT));
    OK(MPI_Comm_delete_attr(parent, keyval));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_get_attr(comm, keyval, &address, &flag));
    CHECK(flag && address == &value);
    OK(MPI_Comm_get_errhandler(comm, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_info(comm, &got));
    OK(MPI_Info_get_nkeys(got, &count));
    CHECK(count == 1);
    OK(MPI_Info_free(&got));
    end(&comm);
    OK(MPI_Comm_free(&parent));

    /* One whose copies fail is an error at all, which of them refuses does not matter. */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    OK(MPI_Comm_set_attr(parent, keyval, &value));
    refuse = 1;
    FAILS(MPI_ERR_OTHER, MPI_Comm_idup(parent, &comm, &request));
    refuse = rank == 1;
    if (refuse) {
        FAILS(MPI_ERR_OTHER, MPI_Comm_idup(parent, &comm, &request));
    } else {
        OK(MPI_Comm_idup(parent, &comm, &request));
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    }
    refuse = 0;
    OK(MPI_Comm_idup(parent, &comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    end(&comm);
    OK(MPI_Comm_free_keyval(&keyval));
    OK(MPI_Comm_free(&parent));
    FAILS(MPI_ERR_ARG, MPI_Comm_idup(MPI_COMM_WORLD, NULL, &request));
    FAILS(MPI_ERR_ARG, MPI_Comm_idup(MPI_COMM_WORLD, &comm, NULL));
}

/* Algorithms of collectives that information asks for: alike at all, or an error at all. */
static void algorithms(void)
{
    MPI_Comm comm;
    MPI_Request request;
    MPI_Info alike, different, wrong, got;
    char value[20];
    int flag = 0, len = sizeof value, count = -1;
    OK(MPI_Info_create(&alike));
    OK(MPI_Info_set(alike, "bowline_allreduce", "a3"));
    OK(MPI_Info_set(alike, "bowline_nothing", "a3"));
    OK(MPI_Info_create(&different));
    OK(MPI_Info_set(different, "bowline_bcast", rank == 1 ? "chain" : "flat"));
    OK(MPI_Info_create(&wrong));
    OK(MPI_Info_set(wrong, "bowline_bcast", "fastest"));

    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, alike, &comm));
    OK(MPI_Comm_get_info(comm, &got));
    OK(MPI_Info_get_nkeys(got, &count));
    OK(MPI_Info_get_string(got, "bowline_allreduce", &len, value, &flag));
    CHECK(count == 1 && flag && strcmp(value, "a3") == 0);
    OK(MPI_Info_free(&got));
    int one = 1, all = 0;
    OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm));
    CHECK(all == 3);
    FAILS(MPI_ERR_OTHER, MPI_Comm_set_info(comm, different));
    FAILS(MPI_ERR_OTHER, MPI_Comm_set_info(comm, rank == 2 ? MPI_INFO_ENV : different));
    FAILS(MPI_ERR_ARG, MPI_Comm_set_info(comm, wrong));
    end(&comm);
    FAILS(MPI_ERR_OTHER, MPI_Comm_dup_with_info(MPI_COMM_WORLD, different, &comm));
    OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, different, &comm, &request));
    FAILS(MPI_ERR_OTHER, MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, wrong, &comm, &request));
    FAILS(MPI_ERR_ARG, MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, alike, &comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    end(&comm);
    OK(MPI_Info_free(&alike));
    OK(MPI_Info_free(&different));
    OK(MPI_Info_free(&wrong));
}

/* Of one process, and again and again. */
static void alone(void)
{
    MPI_Comm comm;
    MPI_Request request;
    for (int i = 0; i < 1000; i++) {
        int flag = 0;
        OK(MPI_Comm_idup(MPI_COMM_SELF, &comm, &request));
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(flag);
        OK(MPI_Comm_free(&comm));
    }
    for (int i = 0; i < 300; i++) {
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&comm));
    }
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    rank = rank_of(MPI_COMM_WORLD);
    local();
    several();
    belongings();
    algorithms();
    alone();
    /* Operations outlive the handle of their communicator. */
    MPI_Comm comm;
    MPI_Request request;
    int out = rank, in = -1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Irecv(&in, 1, MPI_INT, (rank + 2) % 3, 0, comm, &request));
    MPI_Comm again = comm;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&out, 1, MPI_INT, (rank + 1) % 3, 0, comm));
    OK(MPI_Comm_free(&comm));
    FAILS(MPI_ERR_COMM, MPI_Barrier(again));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(in == (rank + 2) % 3);
    OK(MPI_Comm_free(&comm));
    /* One that nobody waits for is made nevertheless. */
    OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
