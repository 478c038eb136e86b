/* Arguments that are wrong: each must give the right class, by the right handler, and nothing else may
 * happen. The table grows with the chapters. */
#include "check.h"

static int world_errors, own_errors;

static void of_world(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    CHECK(*comm == MPI_COMM_WORLD);
    world_errors++;
}

static void of_self(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    CHECK(*comm == MPI_COMM_SELF);
    own_errors++;
}

/* An error that goes to the handler of MPI_COMM_WORLD, and one that goes to that of MPI_COMM_SELF. */
#define WORLD(class, call)                                                                  \
    do {                                                                                    \
        int world_ = world_errors, own_ = own_errors;                                       \
        FAILS(class, call);                                                                 \
        CHECK(world_errors == world_ + 1 && own_errors == own_);                            \
    } while (0)
#define SELF(class, call)                                                                   \
    do {                                                                                    \
        int world_ = world_errors, own_ = own_errors;                                       \
        FAILS(class, call);                                                                 \
        CHECK(world_errors == world_ && own_errors == own_ + 1);                            \
    } while (0)

static void wrong_communicators(MPI_Comm freed)
{
    MPI_Comm wrong[] = {
        MPI_COMM_NULL, freed, NULL, (MPI_Comm)(size_t)1, (MPI_Comm)(size_t)0x103,
        (MPI_Comm)(size_t)0xfff, (MPI_Comm)(size_t)0x7ffffffffff0, (MPI_Comm)(size_t)-1,
        (MPI_Comm)MPI_INT, (MPI_Comm)MPI_INFO_ENV, (MPI_Comm)((size_t)freed + 1),
    };
    int value = 0, flag;
    void *address;
    char text[MPI_MAX_OBJECT_NAME];
    MPI_Comm new;
    MPI_Info info;
    MPI_Errhandler handler;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        MPI_Comm comm = wrong[i];
        SELF(MPI_ERR_COMM, MPI_Comm_rank(comm, &value));
        SELF(MPI_ERR_COMM, MPI_Comm_size(comm, &value));
        SELF(MPI_ERR_COMM, MPI_Comm_dup(comm, &new));
        SELF(MPI_ERR_COMM, MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &new));
        SELF(MPI_ERR_COMM, MPI_Comm_free(&comm));
        SELF(MPI_ERR_COMM, MPI_Comm_set_name(comm, "x"));
        if (comm != MPI_COMM_NULL)
            SELF(MPI_ERR_COMM, MPI_Comm_get_name(comm, text, &value));
        SELF(MPI_ERR_COMM, MPI_Comm_set_info(comm, MPI_INFO_ENV));
        SELF(MPI_ERR_COMM, MPI_Comm_get_info(comm, &info));
        SELF(MPI_ERR_COMM, MPI_Comm_set_attr(comm, MPI_TAG_UB, NULL));
        SELF(MPI_ERR_COMM, MPI_Comm_get_attr(comm, MPI_TAG_UB, &address, &flag));
        SELF(MPI_ERR_COMM, MPI_Comm_delete_attr(comm, MPI_TAG_UB));
        SELF(MPI_ERR_COMM, MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        SELF(MPI_ERR_COMM, MPI_Comm_get_errhandler(comm, &handler));
        SELF(MPI_ERR_COMM, MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
        SELF(MPI_ERR_COMM, MPI_Send(&value, 1, MPI_INT, 0, 0, comm));
        SELF(MPI_ERR_COMM, MPI_Recv(&value, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE));
        SELF(MPI_ERR_COMM, MPI_Barrier(comm));
    }
}

static void wrong_messages(void)
{
    int value = 0;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype wrong[] = {
        MPI_DATATYPE_NULL, NULL, (MPI_Datatype)(size_t)0x204, (MPI_Datatype)(size_t)0x3ff,
        (MPI_Datatype)(size_t)0x123456789, (MPI_Datatype)MPI_COMM_WORLD,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        WORLD(MPI_ERR_TYPE, MPI_Send(&value, 1, wrong[i], 0, 0, world));
        WORLD(MPI_ERR_TYPE, MPI_Recv(&value, 1, wrong[i], 0, 0, world, MPI_STATUS_IGNORE));
    }
    WORLD(MPI_ERR_COUNT, MPI_Send(&value, -1, MPI_INT, 0, 0, world));
    WORLD(MPI_ERR_COUNT, MPI_Recv(&value, -1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE));
    int ranks[] = {-1, -2, -4, 2, 1 << 30, -32766};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        WORLD(MPI_ERR_RANK, MPI_Send(&value, 1, MPI_INT, ranks[i], 0, world));
        if (ranks[i] != MPI_ANY_SOURCE)
            WORLD(MPI_ERR_RANK,
                  MPI_Recv(&value, 1, MPI_INT, ranks[i], 0, world, MPI_STATUS_IGNORE));
    }
    WORLD(MPI_ERR_TAG, MPI_Send(&value, 1, MPI_INT, 0, -1, world));
    WORLD(MPI_ERR_TAG, MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, world));
    WORLD(MPI_ERR_TAG, MPI_Recv(&value, 1, MPI_INT, 0, -1, world, MPI_STATUS_IGNORE));
    WORLD(MPI_ERR_BUFFER, MPI_Send(NULL, 1, MPI_INT, 0, 0, world));
    WORLD(MPI_ERR_BUFFER, MPI_Send(MPI_IN_PLACE, 1, MPI_INT, 0, 0, world));
    WORLD(MPI_ERR_BUFFER, MPI_Recv(NULL, 1, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE));
}

static void null_pointers(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    char text[MPI_MAX_ERROR_STRING];
    int value;
    WORLD(MPI_ERR_ARG, MPI_Comm_rank(world, NULL));
    WORLD(MPI_ERR_ARG, MPI_Comm_size(world, NULL));
    WORLD(MPI_ERR_ARG, MPI_Comm_dup(world, NULL));
    WORLD(MPI_ERR_ARG, MPI_Comm_set_name(world, NULL));
    WORLD(MPI_ERR_ARG, MPI_Comm_get_name(world, NULL, &value));
    WORLD(MPI_ERR_ARG, MPI_Comm_get_name(world, text, NULL));
    WORLD(MPI_ERR_ARG, MPI_Comm_get_info(world, NULL));
    WORLD(MPI_ERR_ARG, MPI_Comm_get_errhandler(world, NULL));
    WORLD(MPI_ERR_ARG, MPI_Comm_get_attr(world, MPI_TAG_UB, NULL, &value));
    SELF(MPI_ERR_ARG, MPI_Comm_free(NULL));
    SELF(MPI_ERR_ARG, MPI_Comm_create_errhandler(NULL, NULL));
    SELF(MPI_ERR_ARG, MPI_Errhandler_free(NULL));
    SELF(MPI_ERR_ARG, MPI_Comm_create_keyval(MPI_COMM_DUP_FN, NULL, NULL, NULL));
    SELF(MPI_ERR_ARG, MPI_Comm_free_keyval(NULL));
    SELF(MPI_ERR_ARG, MPI_Error_class(1, NULL));
    SELF(MPI_ERR_ARG, MPI_Error_string(1, NULL, &value));
    SELF(MPI_ERR_ARG, MPI_Add_error_class(NULL));
    SELF(MPI_ERR_ARG, MPI_Add_error_code(1, NULL));
    SELF(MPI_ERR_ARG, MPI_Add_error_string(MPI_ERR_LASTCODE + 1, NULL));
    SELF(MPI_ERR_ARG, MPI_Get_version(NULL, &value));
    SELF(MPI_ERR_ARG, MPI_Get_library_version(NULL, &value));
    SELF(MPI_ERR_ARG, MPI_Get_processor_name(NULL, &value));
    SELF(MPI_ERR_ARG, MPI_Query_thread(NULL));
    SELF(MPI_ERR_ARG, MPI_Is_thread_main(NULL));
    SELF(MPI_ERR_ARG, MPI_Initialized(NULL));
    SELF(MPI_ERR_ARG, MPI_Alloc_mem(8, MPI_INFO_NULL, NULL));
    SELF(MPI_ERR_ARG, MPI_Get_address(&value, NULL));
    SELF(MPI_ERR_ARG, MPI_Get_count(NULL, MPI_INT, &value));
    SELF(MPI_ERR_ARG, MPI_Info_create(NULL));
    SELF(MPI_ERR_ARG, MPI_Info_set(MPI_INFO_ENV, NULL, "x"));
    SELF(MPI_ERR_ARG, MPI_Info_free(NULL));
    OK(MPI_Free_mem(NULL));
}

static void other_arguments(void)
{
    void *memory;
    int value, flag;
    MPI_Status status;
    MPI_Info info = MPI_INFO_NULL;
    memset(&status, 0, sizeof status);
    SELF(MPI_ERR_ARG, MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory));
    SELF(MPI_ERR_NO_MEM, MPI_Alloc_mem((MPI_Aint)1 << 62, MPI_INFO_NULL, &memory));
    SELF(MPI_ERR_INFO, MPI_Alloc_mem(8, (MPI_Info)MPI_COMM_WORLD, &memory));
    SELF(MPI_ERR_TYPE, MPI_Get_count(&status, MPI_DATATYPE_NULL, &value));
    SELF(MPI_ERR_COUNT, MPI_Status_set_elements(&status, MPI_INT, -1));
    SELF(MPI_ERR_TYPE, MPI_Type_set_attr(MPI_DATATYPE_NULL, 70000, NULL));
    SELF(MPI_ERR_KEYVAL, MPI_Type_set_attr(MPI_INT, 70000, NULL));
    SELF(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&(int){MPI_TAG_UB}));
    WORLD(MPI_ERR_KEYVAL, MPI_Comm_get_attr(MPI_COMM_WORLD, 70000, &memory, &flag));
    WORLD(MPI_ERR_INFO, MPI_Comm_set_info(MPI_COMM_WORLD, info));
    WORLD(MPI_ERR_INFO, MPI_Comm_set_info(MPI_COMM_WORLD, (MPI_Info)(size_t)0x1234567));
    WORLD(MPI_ERR_COMM, MPI_Comm_free(&(MPI_Comm){MPI_COMM_WORLD}));
    SELF(MPI_ERR_ABI, (MPI_Abi_set_fortran_info(MPI_INFO_ENV), MPI_Abi_set_fortran_info(MPI_INFO_ENV)));
    SELF(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(3, &value, &flag));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    int rank = rank_of(MPI_COMM_WORLD);
    MPI_Errhandler world, own;
    OK(MPI_Comm_create_errhandler(of_world, &world));
    OK(MPI_Comm_create_errhandler(of_self, &own));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, world));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, own));
    MPI_Comm comm, freed;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    freed = comm;
    OK(MPI_Comm_free(&comm));
    wrong_communicators(freed);
    wrong_messages();
    null_pointers();
    other_arguments();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
