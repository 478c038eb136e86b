/* Error classes, codes and texts of the program's own. */
#include "check.h"

static int last_used(void)
{
    int *value, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK(flag);
    return *value;
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    int class, code, got, length;
    char text[MPI_MAX_ERROR_STRING];
    CHECK(last_used() == MPI_ERR_LASTCODE);
    OK(MPI_Add_error_class(&class));
    CHECK(class > MPI_ERR_LASTCODE && last_used() == class);
    OK(MPI_Error_string(class, text, &length));
    CHECK(length == 0 && text[0] == 0);
    OK(MPI_Add_error_code(class, &code));
    CHECK(code > class && last_used() == code);
    OK(MPI_Error_class(code, &got));
    CHECK(got == class);
    OK(MPI_Add_error_string(code, "a text of our own"));
    OK(MPI_Error_string(code, text, &length));
    CHECK(strcmp(text, "a text of our own") == 0 && length == (int)strlen(text));
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    OK(MPI_Add_error_string(class, long_text));
    OK(MPI_Error_string(class, text, &length));
    CHECK(length == MPI_MAX_ERROR_STRING - 1 && (int)strlen(text) == length);

    /* A code of a class of the standard. */
    int of_standard;
    OK(MPI_Add_error_code(MPI_ERR_IO, &of_standard));
    OK(MPI_Error_class(of_standard, &got));
    CHECK(got == MPI_ERR_IO);

    FAILS(MPI_ERR_ARG, MPI_Add_error_string(MPI_ERR_IO, "not mine"));
    FAILS(MPI_ERR_ARG, MPI_Add_error_code(code, &got));
    FAILS(MPI_ERR_ARG, MPI_Remove_error_class(class));
    FAILS(MPI_ERR_ARG, MPI_Remove_error_class(code));
    FAILS(MPI_ERR_ARG, MPI_Remove_error_code(class));
    FAILS(MPI_ERR_ARG, MPI_Remove_error_code(MPI_ERR_IO));
    OK(MPI_Add_error_string(of_standard, ""));
    FAILS(MPI_ERR_ARG, MPI_Remove_error_code(code));
    OK(MPI_Remove_error_string(code));
    OK(MPI_Error_string(code, text, &length));
    CHECK(length == 0);
    OK(MPI_Remove_error_code(of_standard));
    OK(MPI_Remove_error_code(code));
    FAILS(MPI_ERR_ARG, MPI_Error_class(code, &got));
    FAILS(MPI_ERR_ARG, MPI_Remove_error_class(class));
    OK(MPI_Remove_error_string(class));
    OK(MPI_Remove_error_class(class));
    CHECK(last_used() == MPI_ERR_LASTCODE);

    /* The text of a class names the last error of it. */
    FAILS(MPI_ERR_RANK, MPI_Send(&got, 1, MPI_INT, 12345, 0, MPI_COMM_WORLD));
    OK(MPI_Error_string(MPI_ERR_RANK, text, &length));
    CHECK(strstr(text, "MPI_Send") && strstr(text, "12345"));
    done(0);
    OK(MPI_Finalize());
    return 0;
}
