/* Information. */
#include "check.h"

static void expect(MPI_Info info, const char *key, const char *expected)
{
    char value[MPI_MAX_INFO_VAL];
    int flag = -1, buflen = sizeof value, length = -1;
    OK(MPI_Info_get_string(info, key, &buflen, value, &flag));
    CHECK(flag == (expected != NULL));
    if (expected) {
        CHECK(strcmp(value, expected) == 0 && buflen == (int)strlen(expected) + 1);
        OK(MPI_Info_get_valuelen(info, key, &length, &flag));
        CHECK(flag && length == (int)strlen(expected));
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    errors_return();
    int rank = rank_of(MPI_COMM_WORLD), count, flag, buflen;
    MPI_Info info, copy, none = MPI_INFO_NULL;
    char key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL];
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "first", "1"));
    OK(MPI_Info_set(info, "second", "a longer value"));
    OK(MPI_Info_set(info, "First", "another"));
    OK(MPI_Info_set(info, "empty", ""));
    OK(MPI_Info_get_nkeys(info, &count));
    CHECK(count == 4);
    expect(info, "first", "1");
    expect(info, "First", "another");
    expect(info, "empty", "");
    expect(info, "none", NULL);
    const char *keys[] = {"first", "second", "First", "empty"};
    for (int i = 0; i < 4; i++) {
        OK(MPI_Info_get_nthkey(info, i, key));
        CHECK(strcmp(key, keys[i]) == 0);
    }

    /* Short buffers. */
    memset(value, 'z', sizeof value);
    OK(MPI_Info_get(info, "second", 3, value, &flag));
    CHECK(flag && strcmp(value, "a l") == 0);
    buflen = 5;
    OK(MPI_Info_get_string(info, "second", &buflen, value, &flag));
    CHECK(flag && strcmp(value, "a lo") == 0 && buflen == 15);
    buflen = 0;
    OK(MPI_Info_get_string(info, "second", &buflen, NULL, &flag));
    CHECK(flag && buflen == 15);

    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_set(info, "first", "2"));
    OK(MPI_Info_delete(info, "second"));
    expect(info, "first", "2");
    expect(info, "second", NULL);
    expect(copy, "first", "1");
    expect(copy, "second", "a longer value");

    /* Limits. */
    char long_key[MPI_MAX_INFO_KEY + 1], long_value[MPI_MAX_INFO_VAL + 1];
    memset(long_key, 'k', sizeof long_key);
    memset(long_value, 'v', sizeof long_value);
    long_key[MPI_MAX_INFO_KEY - 1] = 0;
    long_value[MPI_MAX_INFO_VAL - 1] = 0;
    OK(MPI_Info_set(info, long_key, long_value));
    expect(info, long_key, long_value);
    long_key[MPI_MAX_INFO_KEY - 1] = 'k';
    long_key[MPI_MAX_INFO_KEY] = 0;
    long_value[MPI_MAX_INFO_VAL - 1] = 'v';
    long_value[MPI_MAX_INFO_VAL] = 0;
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(info, long_key, "x"));
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(info, "", "x"));
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_get_valuelen(info, long_key, &count, &flag));
    FAILS(MPI_ERR_INFO_VALUE, MPI_Info_set(info, "x", long_value));
    FAILS(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "not there"));
    FAILS(MPI_ERR_ARG, MPI_Info_get_nthkey(info, 99, key));
    FAILS(MPI_ERR_ARG, MPI_Info_get_nthkey(info, -1, key));
    FAILS(MPI_ERR_ARG, MPI_Info_get(info, "first", -1, value, &flag));

    /* How the process was started. */
    OK(MPI_Info_get_string(MPI_INFO_ENV, "command", &(int){sizeof value}, value, &flag));
    CHECK(flag && strcmp(value, argv[0]) == 0);
    OK(MPI_Info_get_string(MPI_INFO_ENV, "argv", &(int){sizeof value}, value, &flag));
    CHECK(flag && strcmp(value, "first second") == 0);
    OK(MPI_Info_get_string(MPI_INFO_ENV, "maxprocs", &(int){sizeof value}, value, &flag));
    CHECK(flag && strcmp(value, "2") == 0);
    OK(MPI_Info_get_string(MPI_INFO_ENV, "thread_level", &(int){sizeof value}, value, &flag));
    CHECK(!flag); /* nobody asked for a level before the program began */
    MPI_Info environment = MPI_INFO_ENV;
    FAILS(MPI_ERR_INFO, MPI_Info_set(MPI_INFO_ENV, "x", "y"));
    FAILS(MPI_ERR_INFO, MPI_Info_delete(MPI_INFO_ENV, "command"));
    FAILS(MPI_ERR_INFO, MPI_Info_free(&environment));
    char *words[] = {"program", "an argument", NULL};
    OK(MPI_Info_create_env(2, words, &environment));
    expect(environment, "command", "program");
    expect(environment, "argv", "an argument");
    OK(MPI_Info_set(environment, "command", "changed"));
    OK(MPI_Info_free(&environment));

    /* Handles that are none. */
    MPI_Info stale = copy;
    OK(MPI_Info_free(&copy));
    CHECK(copy == MPI_INFO_NULL);
    FAILS(MPI_ERR_INFO, MPI_Info_set(stale, "x", "y"));
    FAILS(MPI_ERR_INFO, MPI_Info_get_nkeys(stale, &count));
    FAILS(MPI_ERR_INFO, MPI_Info_free(&stale));
    FAILS(MPI_ERR_INFO, MPI_Info_dup(none, &copy));
    FAILS(MPI_ERR_INFO, MPI_Info_free(&none));
    OK(MPI_Info_free(&info));

    /* Hints of communicators: those that are understood are kept, and go to no duplicate. */
    MPI_Comm comm;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Info_set(info, "mpi_assert_exact_length", "perhaps"));
    OK(MPI_Info_set(info, "nobody_knows", "true"));
    OK(MPI_Comm_set_info(MPI_COMM_WORLD, info));
    OK(MPI_Comm_dup_with_info(MPI_COMM_SELF, info, &comm));
    OK(MPI_Info_free(&info));
    MPI_Comm both[] = {MPI_COMM_WORLD, comm};
    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_get_info(both[i], &info));
        OK(MPI_Info_get_nkeys(info, &count));
        CHECK(count == 1);
        expect(info, "mpi_assert_no_any_tag", "true");
        OK(MPI_Info_free(&info));
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_get_nkeys(info, &count));
    CHECK(count == 0);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&comm));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
