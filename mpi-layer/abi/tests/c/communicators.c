/* Communicators made of others, of groups and of parts, on four ranks. */
#include "check.h"

static int rank;

static int size_of(MPI_Comm comm)
{
    int size = -1;
    OK(MPI_Comm_size(comm, &size));
    return size;
}

static int compare(MPI_Comm one, MPI_Comm other)
{
    int result = -1;
    OK(MPI_Comm_compare(one, other, &result));
    return result;
}

static MPI_Errhandler handler_of(MPI_Comm comm)
{
    MPI_Errhandler handler;
    OK(MPI_Comm_get_errhandler(comm, &handler));
    return handler;
}

/* A communicator has these ranks of the world in this order, messages of its own, and ends. */
static void has(MPI_Comm comm, int n, const int *expected)
{
    MPI_Group world, group;
    int ranks[8], own[8], mine = rank_of(comm), got = -1;
    CHECK(comm != MPI_COMM_NULL && size_of(comm) == n);
    CHECK(expected[mine] == rank);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_group(comm, &group));
    for (int i = 0; i < n; i++)
        own[i] = i;
    OK(MPI_Group_translate_ranks(group, n, own, world, ranks));
    for (int i = 0; i < n; i++)
        CHECK(ranks[i] == expected[i]);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    /* Round: the message that is sent last in the world is received first here. */
    int right = (mine + 1) % n, left = (mine + n - 1) % n, mark = -7;
    OK(MPI_Send(&mark, 1, MPI_INT, rank, 3, MPI_COMM_WORLD));
    OK(MPI_Send(&rank, 1, MPI_INT, right, 3, comm));
    OK(MPI_Recv(&got, 1, MPI_INT, left, 3, comm, MPI_STATUS_IGNORE));
    CHECK(got == expected[left]);
    OK(MPI_Recv(&got, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got == -7);
    OK(MPI_Barrier(comm));
    MPI_Comm freed = comm;
    OK(MPI_Comm_free(&comm));
    CHECK(comm == MPI_COMM_NULL);
    FAILS(MPI_ERR_COMM, MPI_Comm_size(freed, &got));
}

#define HAS(comm, ...)                                                                      \
    do {                                                                                    \
        int expected_[] = {__VA_ARGS__};                                                    \
        has(comm, sizeof expected_ / sizeof *expected_, expected_);                         \
    } while (0)

static void duplicates(void)
{
    MPI_Comm comm, again, self;
    int flag = -1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK(compare(comm, comm) == MPI_IDENT && compare(comm, MPI_COMM_WORLD) == MPI_CONGRUENT);
    CHECK(compare(MPI_COMM_WORLD, MPI_COMM_SELF) == MPI_UNEQUAL);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(comm)) == comm);
    OK(MPI_Comm_test_inter(comm, &flag));
    CHECK(flag == 0);
    FAILS(MPI_ERR_COMM, MPI_Comm_remote_size(comm, &flag));
    OK(MPI_Comm_dup(comm, &again));
    OK(MPI_Comm_free(&comm));
    HAS(again, 0, 1, 2, 3);
    OK(MPI_Comm_dup(MPI_COMM_SELF, &self));
    HAS(self, rank);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_disconnect(&comm));
    CHECK(comm == MPI_COMM_NULL);
    FAILS(MPI_ERR_COMM, MPI_Comm_disconnect(&comm));
    comm = MPI_COMM_SELF;
    FAILS(MPI_ERR_COMM, MPI_Comm_disconnect(&comm));
}

static void parts(void)
{
    MPI_Comm comm;
    MPI_Info info;
    int flag, buflen = 64;
    char value[64];
    OK(MPI_Comm_split(MPI_COMM_WORLD, 5, -rank, &comm));
    CHECK(compare(comm, MPI_COMM_WORLD) == MPI_SIMILAR);
    HAS(comm, 3, 2, 1, 0);
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comm));
    CHECK(compare(comm, MPI_COMM_WORLD) == MPI_UNEQUAL);
    if (rank % 2)
        HAS(comm, 1, 3);
    else
        HAS(comm, 0, 2);
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 2 ? MPI_UNDEFINED : 0, 1, &comm));
    if (rank == 2)
        CHECK(comm == MPI_COMM_NULL);
    else
        HAS(comm, 0, 1, 3);
    FAILS(MPI_ERR_ARG, MPI_Comm_split(MPI_COMM_WORLD, -1, 0, &comm));

    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank == 0, MPI_INFO_NULL, &comm));
    HAS(comm, 1, 2, 3, 0);
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, rank ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0,
                           MPI_INFO_NULL, &comm));
    if (rank)
        CHECK(comm == MPI_COMM_NULL);
    else
        HAS(comm, 0);
    /* All share memory, so that there is no lesser part. */
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &comm));
    CHECK(comm == MPI_COMM_NULL);
    int guided[] = {MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED};
    OK(MPI_Info_create(&info));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, guided[i], 0, MPI_INFO_NULL, &comm));
        CHECK(comm == MPI_COMM_NULL);
        OK(MPI_Info_set(info, "mpi_hw_resource_type", "nothing known"));
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, guided[i], 0, info, &comm));
        CHECK(comm == MPI_COMM_NULL);
        OK(MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory"));
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, guided[i], -rank, info, &comm));
        HAS(comm, 3, 2, 1, 0);
    }
    OK(MPI_Info_set(info, "mpi_pset_name", "mpi://WORLD"));
    FAILS(MPI_ERR_INFO, MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm));
    OK(MPI_Info_delete(info, "mpi_hw_resource_type"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm));
    HAS(comm, 0, 1, 2, 3);
    OK(MPI_Info_set(info, "mpi_pset_name", "mpi://SELF"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm));
    HAS(comm, rank);
    OK(MPI_Info_get_string(info, "mpi_hw_resource_type", &buflen, value, &flag));
    CHECK(!flag);
    OK(MPI_Info_free(&info));
    FAILS(MPI_ERR_ARG, MPI_Comm_split_type(MPI_COMM_WORLD, 77, 0, MPI_INFO_NULL, &comm));
    FAILS(MPI_ERR_INFO, MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                                            (MPI_Info)MPI_COMM_WORLD, &comm));
}

static void of_groups(void)
{
    MPI_Group world, group, other;
    MPI_Comm comm, half;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 3, (int[]){3, 0, 1}, &group));
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    if (rank == 2)
        CHECK(comm == MPI_COMM_NULL);
    else
        HAS(comm, 3, 0, 1);
    OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm));
    CHECK(comm == MPI_COMM_NULL);
    /* Two groups with nobody in common, in one call. */
    OK(MPI_Group_incl(world, 2, rank < 2 ? (int[]){1, 0} : (int[]){2, 3}, &other));
    OK(MPI_Comm_create(MPI_COMM_WORLD, other, &half));
    FAILS(MPI_ERR_GROUP, MPI_Comm_create(half, world, &comm));
    FAILS(MPI_ERR_GROUP, MPI_Comm_create_group(half, world, 0, &comm));
    if (rank < 2)
        HAS(half, 1, 0);
    else
        HAS(half, 2, 3);
    OK(MPI_Group_free(&other));

    /* Only the group calls, and the others meanwhile do without it. */
    if (rank != 2) {
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 9, &comm));
        HAS(comm, 3, 0, 1);
    }
    /* Rank 2 gets nothing without anybody's help. */
    if (rank == 2) {
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm));
        CHECK(comm == MPI_COMM_NULL);
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, MPI_GROUP_EMPTY, 0, &comm));
        CHECK(comm == MPI_COMM_NULL);
    }
    /* Two with ranks in common; some ranks come to the second one before others to the first. */
    OK(MPI_Group_incl(world, 2, (int[]){1, 2}, &other));
    if (rank != 2) {
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 1, &half));
        HAS(half, 3, 0, 1);
    }
    if (rank == 1 || rank == 2) {
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, other, 1, &half));
        HAS(half, 1, 2);
    }
    FAILS(MPI_ERR_TAG, MPI_Comm_create_group(MPI_COMM_WORLD, world, -1, &comm));
    FAILS(MPI_ERR_GROUP, MPI_Comm_create_group(MPI_COMM_WORLD, MPI_GROUP_NULL, 0, &comm));
    FAILS(MPI_ERR_GROUP, MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &comm));

    /* Without a communicator in common. */
    if (rank != 2) {
        OK(MPI_Comm_create_from_group(group, "a text", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
        CHECK(handler_of(comm) == MPI_ERRORS_RETURN);
        HAS(comm, 3, 0, 1);
    } else {
        FAILS(MPI_ERR_GROUP, MPI_Comm_create_from_group(group, "a text", MPI_INFO_NULL,
                                                        MPI_ERRORS_RETURN, &comm));
    }
    OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK(comm == MPI_COMM_NULL);
    FAILS(MPI_ERR_ARG, MPI_Comm_create_from_group(world, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    FAILS(MPI_ERR_ARG, MPI_Comm_create_from_group(world, "", MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL));
    FAILS(MPI_ERR_GROUP, MPI_Comm_create_from_group(MPI_GROUP_NULL, "", MPI_INFO_NULL,
                                                    MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&other));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
}

static void ignore(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
}

/* What a new communicator has of its parent: the handler that is set then, and neither hints nor name. */
static void inheritance(void)
{
    MPI_Errhandler handler;
    MPI_Group group;
    MPI_Comm parent, made[5];
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    OK(MPI_Comm_set_name(parent, "parent"));
    OK(MPI_Comm_create_errhandler(ignore, &handler));
    OK(MPI_Comm_set_errhandler(parent, handler));
    OK(MPI_Comm_group(parent, &group));
    OK(MPI_Comm_dup(parent, &made[0]));
    OK(MPI_Comm_split(parent, 0, 0, &made[1]));
    OK(MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made[2]));
    OK(MPI_Comm_create(parent, group, &made[3]));
    OK(MPI_Comm_create_group(parent, group, 0, &made[4]));
    OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_ABORT));
    OK(MPI_Comm_free(&parent));
    for (int i = 0; i < 5; i++) {
        MPI_Errhandler got = handler_of(made[i]);
        CHECK(got == handler);
        OK(MPI_Errhandler_free(&got));
        OK(MPI_Comm_get_name(made[i], name, &length));
        CHECK(length == 0);
        /* The handle of the handler is not needed any more. */
        if (i == 3)
            OK(MPI_Errhandler_free(&handler));
        FAILS(MPI_ERR_RANK, MPI_Send(NULL, 0, MPI_INT, 99, 0, made[i]));
        OK(MPI_Comm_free(&made[i]));
        if (i == 3)
            handler = handler_of(made[4]);
    }
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Group_free(&group));
}

/* Many at once, and again and again. */
static void many(void)
{
    enum { COUNT = 3000 };
    static MPI_Comm comms[COUNT];
    int got = -1;
    for (int i = 0; i < COUNT; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < COUNT; i++)
        OK(MPI_Send(&i, 1, MPI_INT, rank ^ 1, 0, comms[i]));
    for (int i = COUNT - 1; i >= 0; i--) {
        OK(MPI_Recv(&got, 1, MPI_INT, rank ^ 1, 0, comms[i], MPI_STATUS_IGNORE));
        CHECK(got == i);
    }
    for (int i = 0; i < COUNT; i++)
        OK(MPI_Comm_free(&comms[i]));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    rank = rank_of(MPI_COMM_WORLD);
    CHECK(size_of(MPI_COMM_WORLD) == 4);
    duplicates();
    parts();
    of_groups();
    inheritance();
    many();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
