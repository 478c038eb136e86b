/* Sessions: without a world, around one, and beside one. */
#include "check.h"

#include <pthread.h>

static int errors;

static void count(MPI_Session *session, int *code, ...)
{
    CHECK(*session != MPI_SESSION_NULL || *code != MPI_SUCCESS);
    errors++;
}

/* A session from beginning to end; gives the size of the world. */
static int use(void)
{
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Errhandler handler, got;
    MPI_Info info;
    int count_of_sets = 0, size = 0, flag = 0;
    char name[MPI_MAX_PSET_NAME_LEN], value[64];
    OK(MPI_Session_create_errhandler(count, &handler));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"));
    OK(MPI_Session_init(info, handler, &session));
    OK(MPI_Info_free(&info));
    CHECK(session != MPI_SESSION_NULL);
    CHECK(MPI_Session_fromint(MPI_Session_toint(session)) == session);
    OK(MPI_Session_get_info(session, &info));
    OK(MPI_Info_get_string(info, "thread_level", &(int){sizeof value}, value, &flag));
    CHECK(flag && strcmp(value, "MPI_THREAD_SERIALIZED") == 0);
    OK(MPI_Info_free(&info));

    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count_of_sets));
    CHECK(count_of_sets == 2);
    for (int i = 0; i < count_of_sets; i++) {
        int length = 0;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL));
        CHECK(length > 1 && length <= MPI_MAX_PSET_NAME_LEN);
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        CHECK((int)strlen(name) == length - 1);
        OK(MPI_Session_get_pset_info(session, name, &info));
        OK(MPI_Info_get_string(info, "mpi_size", &(int){sizeof value}, value, &flag));
        CHECK(flag);
        if (strcmp(name, "mpi://WORLD") == 0)
            size = atoi(value);
        else
            CHECK(strcmp(name, "mpi://SELF") == 0 && strcmp(value, "1") == 0);
        OK(MPI_Info_free(&info));
    }
    CHECK(size > 0);

    /* A communicator of its own. */
    MPI_Group group;
    MPI_Comm comm;
    int rank = -1, received = -1;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "sessions.c", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_size(comm, &received));
    CHECK(received == size);
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 0, comm));
    OK(MPI_Recv(&received, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_STATUS_IGNORE));
    CHECK(received == (rank + size - 1) % size);
    OK(MPI_Comm_free(&comm));

    /* Its errors are its handler's. */
    errors = 0;
    FAILS(MPI_ERR_ARG, MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 2, &flag, name));
    FAILS(MPI_ERR_ARG, MPI_Session_get_pset_info(session, "none", &info));
    CHECK(errors == 2);
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK(errors == 3);
    OK(MPI_Session_get_errhandler(session, &got));
    CHECK(got == handler);
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_ARG, MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL));
    CHECK(errors == 3);
    OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL);
    FAILS(MPI_ERR_INFO, MPI_Session_init((MPI_Info)MPI_COMM_WORLD, MPI_ERRORS_RETURN, &session));
    FAILS(MPI_ERR_ARG, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL));
    return size;
}

static void *begin(void *session)
{
    int flag = 0;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session));
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Session session;
    int size, world, flag, length = 0;
    if (strcmp(how, "forgotten") == 0) {
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
        return 0;
    }
    if (strcmp(how, "fatal") == 0) {
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 99, &length, NULL);
        CHECK(!"it came back");
    }
    if (strcmp(how, "beside") != 0 && strcmp(how, "elsewhere") != 0) {
        for (int i = 0; i < 3; i++)
            size = use();
        OK(MPI_Initialized(&flag));
        CHECK(!flag);
    }
    if (strcmp(how, "alone") == 0) {
        /* The size is that of the job; which rank this is, the launcher says. */
        const char *rank = getenv("PMI_RANK");
        done(rank ? atoi(rank) : 0);
        return 0;
    }
    if (strcmp(how, "around") == 0)
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    pthread_t thread;
    if (strcmp(how, "elsewhere") == 0) {
        CHECK(pthread_create(&thread, NULL, begin, &session) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    OK(MPI_Init(NULL, NULL));
    /* The thread that has called it, whoever began a session before. */
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    size = use();
    OK(MPI_Comm_size(MPI_COMM_WORLD, &world));
    CHECK(size == world);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int rank = rank_of(MPI_COMM_WORLD);
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK(flag);
    if (strcmp(how, "around") == 0 || strcmp(how, "elsewhere") == 0) {
        CHECK(use() == world);
        OK(MPI_Session_finalize(&session));
    }
    done(rank);
    return 0;
}
