/* Names of objects, and handles as numbers. */
#include "check.h"

static void expect(MPI_Comm comm, const char *expected)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length = -1;
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(strcmp(name, expected) == 0 && length == (int)strlen(expected));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    int rank = rank_of(MPI_COMM_WORLD), length;
    char name[MPI_MAX_OBJECT_NAME], long_name[300];
    expect(MPI_COMM_WORLD, "MPI_COMM_WORLD");
    expect(MPI_COMM_SELF, "MPI_COMM_SELF");
    expect(MPI_COMM_NULL, "MPI_COMM_NULL");
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    expect(comm, "");
    OK(MPI_Comm_set_name(comm, "a name"));
    expect(comm, "a name");
    OK(MPI_Comm_set_name(comm, ""));
    expect(comm, "");
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    OK(MPI_Comm_set_name(comm, long_name));
    long_name[MPI_MAX_OBJECT_NAME - 1] = 0;
    expect(comm, long_name);

    OK(MPI_Type_get_name(MPI_INT, name, &length));
    CHECK(strcmp(name, "MPI_INT") == 0 && length == 7);
    OK(MPI_Type_get_name(MPI_LONG_DOUBLE_INT, name, &length));
    CHECK(strcmp(name, "MPI_LONG_DOUBLE_INT") == 0);
    OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
    CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0);
    OK(MPI_Type_set_name(MPI_INT, "whole"));
    OK(MPI_Type_get_name(MPI_INT, name, &length));
    CHECK(strcmp(name, "whole") == 0);

    /* There and back. */
    int number = MPI_Comm_toint(comm);
    CHECK(number >= 0x1000 && MPI_Comm_fromint(number) == comm);
    CHECK(MPI_Comm_toint(MPI_COMM_WORLD) == 0x101);
    CHECK(MPI_Comm_fromint(0x102) == MPI_COMM_SELF);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_SUM)) == MPI_SUM);
    CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    CHECK(MPI_Request_fromint(MPI_Request_toint(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    CHECK(MPI_Message_fromint(MPI_Message_toint(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
    CHECK(MPI_Session_fromint(MPI_Session_toint(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
    MPI_Comm stale = comm;
    OK(MPI_Comm_free(&comm));
    FAILS(MPI_ERR_COMM, MPI_Barrier(stale));
    FAILS(MPI_ERR_COMM, MPI_Barrier(MPI_Comm_fromint(number)));
    /* The number of a place that is used again leads to what is there now. */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK(comm != stale && MPI_Comm_fromint(MPI_Comm_toint(comm)) == comm);
    FAILS(MPI_ERR_COMM, MPI_Barrier(stale));
    OK(MPI_Comm_free(&comm));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
