/* Sizes, values and distinct types, as the standard ABI fixes them. */
#include "check.h"

#include <stddef.h>

_Static_assert(sizeof(MPI_Status) == 32, "the status");
_Static_assert(offsetof(MPI_Status, MPI_SOURCE) == 0, "its first field");
_Static_assert(offsetof(MPI_Status, MPI_TAG) == 4, "its second field");
_Static_assert(offsetof(MPI_Status, MPI_ERROR) == 8, "its third field");
_Static_assert(sizeof(MPI_Aint) == 8 && sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8, "numbers");
_Static_assert(sizeof(MPI_Comm) == sizeof(void *), "handles are addresses");
_Static_assert(MPI_VERSION == 5 && MPI_SUBVERSION == 0, "the standard");
_Static_assert(MPI_ABI_VERSION == 1 && MPI_ABI_SUBVERSION == 0, "the ABI");
_Static_assert(MPI_ANY_SOURCE == -1 && MPI_ANY_TAG == -2 && MPI_PROC_NULL == -3, "ranks");
_Static_assert(MPI_THREAD_MULTIPLE == 4096 && MPI_ERR_LASTCODE == 0x3fff, "levels and codes");

#define KIND(handle)                                                                        \
    _Generic((handle), MPI_Comm: 1, MPI_Group: 2, MPI_Datatype: 3, MPI_Op: 4, MPI_Request: 5, \
             MPI_Message: 6, MPI_Info: 7, MPI_Errhandler: 8, MPI_Win: 9, MPI_File: 10,        \
             MPI_Session: 11)

int main(void)
{
    CHECK(KIND(MPI_COMM_WORLD) == 1 && KIND(MPI_GROUP_EMPTY) == 2 && KIND(MPI_INT) == 3);
    CHECK(KIND(MPI_SUM) == 4 && KIND(MPI_REQUEST_NULL) == 5 && KIND(MPI_MESSAGE_NO_PROC) == 6);
    CHECK(KIND(MPI_INFO_ENV) == 7 && KIND(MPI_ERRORS_RETURN) == 8 && KIND(MPI_WIN_NULL) == 9);
    CHECK(KIND(MPI_FILE_NULL) == 10 && KIND(MPI_SESSION_NULL) == 11);
    CHECK((size_t)MPI_COMM_WORLD == 0x101 && (size_t)MPI_INT == 0x209 && (size_t)MPI_BYTE == 0x247);
    CHECK((size_t)MPI_IN_PLACE == 1 && MPI_BOTTOM == NULL && MPI_STATUS_IGNORE == NULL);
    CHECK(MPI_COMM_DUP_FN != NULL && MPI_COMM_NULL_COPY_FN == NULL);

    /* What is legal before the start. */
    int major = -1, minor = -1, version = 0, subversion = -1, flag = 0, length = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    OK(MPI_Abi_get_version(&major, &minor));
    CHECK(major == 1 && minor == 0);
    OK(MPI_Get_version(&version, &subversion));
    CHECK(version == 5 && subversion == 0);
    OK(MPI_Get_library_version(text, &length));
    CHECK(strncmp(text, "Bowline ", 8) == 0 && (int)strlen(text) == length);

    MPI_Info info = MPI_INFO_NULL;
    OK(MPI_Abi_get_info(&info));
    char value[16];
    const char *keys[] = {"mpi_aint_size", "mpi_count_size", "mpi_offset_size"};
    for (int i = 0; i < 3; i++) {
        int buflen = sizeof value;
        OK(MPI_Info_get_string(info, keys[i], &buflen, value, &flag));
        CHECK(flag && strcmp(value, "8") == 0);
    }
    OK(MPI_Info_free(&info));

    OK(MPI_Abi_get_fortran_info(&info));
    CHECK(info == MPI_INFO_NULL);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_integer_size", "4"));
    OK(MPI_Abi_set_fortran_info(info));
    OK(MPI_Info_free(&info));
    OK(MPI_Abi_get_fortran_info(&info));
    CHECK(info != MPI_INFO_NULL);
    OK(MPI_Info_free(&info));

    int yes = 1, no = 0, got_yes = 7, got_no = 7;
    OK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &flag));
    CHECK(!flag);
    OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    OK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &flag));
    CHECK(flag && got_yes == 1 && got_no == 0);

    /* The tools interface says that it is not there. */
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &flag) == MPI_T_ERR_CANNOT_INIT);
    CHECK(MPI_T_cvar_get_num(&flag) == MPI_T_ERR_NOT_INITIALIZED);
    done(0);
    return 0;
}
