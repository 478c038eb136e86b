/* Error handlers: which one is called, with what, and how long it lives. */
#include "check.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void count(MPI_Comm *comm, int *code, ...)
{
    calls++;
    last_comm = *comm;
    last_code = *code;
    /* It may call MPI, also with an error in it. */
    int size;
    OK(MPI_Comm_size(*comm, &size));
}

static void count_own(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    calls += 100;
    last_comm = *comm;
}

static void of_nothing(MPI_Comm *comm, int *code, ...)
{
    CHECK(*comm == MPI_COMM_NULL && *code == MPI_ERR_TRUNCATE);
    calls += 1000000;
}

static void of_file(MPI_File *file, int *code, ...)
{
    CHECK(*file == MPI_FILE_NULL && *code != MPI_SUCCESS);
    calls += 10000;
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    int rank = rank_of(MPI_COMM_WORLD);
    MPI_Errhandler handler, own, got, mine, of_none;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Errhandler_free(&got));
    CHECK(got == MPI_ERRHANDLER_NULL);

    /* Errors of no communicator go to that of MPI_COMM_WORLD until MPI_COMM_SELF has one of its own. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &calls));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));

    OK(MPI_Comm_create_errhandler(count, &handler));
    OK(MPI_Comm_create_errhandler(count_own, &own));
    OK(MPI_Comm_create_errhandler(of_nothing, &of_none));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, own));
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK(got == handler);
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Errhandler_free(&handler));

    /* The object has it still. */
    FAILS(MPI_ERR_RANK, MPI_Send(&rank, 1, MPI_INT, 1000, 0, MPI_COMM_WORLD));
    CHECK(calls == 1 && last_comm == MPI_COMM_WORLD && last_code == MPI_ERR_RANK);

    /* Without a communicator, and with one that is none: that of MPI_COMM_SELF. */
    FAILS(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
    CHECK(calls == 101 && last_comm == MPI_COMM_SELF);
    FAILS(MPI_ERR_COMM, MPI_Barrier((MPI_Comm)(size_t)0x12345678));
    CHECK(calls == 201);
    FAILS(MPI_ERR_TYPE, MPI_Type_set_name(MPI_DATATYPE_NULL, "x"));
    CHECK(calls == 301);
    FAILS(MPI_ERR_ARG, MPI_Error_class(-5, &calls));
    CHECK(calls == 401);

    /* A new communicator has its parent's. */
    MPI_Comm copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    calls = 0;
    FAILS(MPI_ERR_TAG, MPI_Send(&rank, 1, MPI_INT, 0, -7, copy));
    CHECK(calls == 1 && last_comm == copy);
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_COUNT, MPI_Send(&rank, -1, MPI_INT, 0, 0, copy));
    CHECK(calls == 1);

    /* A call of the program's own succeeds, whatever the code is. */
    OK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER));
    CHECK(calls == 2 && last_code == MPI_ERR_OTHER);
    OK(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER));
    CHECK(calls == 2);
    MPI_Comm stale = copy;
    OK(MPI_Comm_free(&copy));
    CHECK(copy == MPI_COMM_NULL);
    FAILS(MPI_ERR_COMM, MPI_Barrier(stale));
    CHECK(calls == 102);

    /* An operation on a communicator has its handler also when that was freed meanwhile, whose handle is
     * the null handle then. */
    for (int way = 0; way < 2; way++) {
        MPI_Request receive;
        MPI_Message message;
        MPI_Comm freed;
        int words[2] = {1, 2}, word = 0;
        OK(MPI_Comm_dup(MPI_COMM_SELF, &freed));
        OK(MPI_Comm_set_errhandler(freed, way ? MPI_ERRORS_RETURN : of_none));
        OK(MPI_Irecv(&word, 1, MPI_INT, 0, 0, freed, &receive));
        OK(MPI_Send(words, 2, MPI_INT, 0, 0, freed));
        OK(MPI_Sendrecv(words, 2, MPI_INT, 0, 1, NULL, 0, MPI_INT, MPI_PROC_NULL, 1, freed,
                        MPI_STATUS_IGNORE));
        OK(MPI_Mprobe(0, 1, freed, &message, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&freed));
        calls = 0;
        FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&receive, MPI_STATUS_IGNORE));
        CHECK(receive == MPI_REQUEST_NULL && word == 1);
        FAILS(MPI_ERR_TRUNCATE, MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
        CHECK(calls == (way ? 0 : 2000000));
    }
    OK(MPI_Errhandler_free(&of_none));
    calls = 202 - 100;

    /* Functions that are not there go the same way. */
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Comm_connect("", MPI_INFO_NULL, 0, MPI_COMM_SELF, &stale));
    CHECK(calls == 202);
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Comm_join(0, &copy));
    CHECK(calls == 302);

    /* Files return errors unless something else is said. */
    MPI_File file = MPI_FILE_NULL;
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    OK(MPI_Errhandler_free(&got));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION,
          MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CHECK(calls == 302);
    OK(MPI_File_create_errhandler(of_file, &mine));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION,
          MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CHECK(calls == 10302);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));

    /* A handler of another kind of object, and handles that are none. */
    calls = 0;
    FAILS(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine));
    FAILS(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL));
    OK(MPI_Errhandler_free(&mine));
    CHECK(mine == MPI_ERRHANDLER_NULL && calls == 2);
    FAILS(MPI_ERR_ERRHANDLER, MPI_Errhandler_free(&mine));
    CHECK(calls == 102);
    OK(MPI_Errhandler_free(&own));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
