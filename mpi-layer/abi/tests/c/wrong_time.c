/* Calls before the start and after the end: those that the standard allows, and others. */
#include "check.h"

#include <pthread.h>

static void anywhere(void)
{
    MPI_Info info, copy;
    MPI_Errhandler handler;
    int flag, length, class;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "key", "value"));
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_get_nkeys(copy, &flag));
    CHECK(flag == 1);
    CHECK(MPI_Info_fromint(MPI_Info_toint(copy)) == copy);
    OK(MPI_Info_free(&copy));
    OK(MPI_Info_free(&info));
    OK(MPI_Info_get_nkeys(MPI_INFO_ENV, &flag));
    CHECK(flag > 0);
    OK(MPI_Session_create_errhandler((MPI_Session_errhandler_function *)(size_t)4096, &handler));
    CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(handler)) == handler);
    OK(MPI_Errhandler_free(&handler));
    CHECK(handler == MPI_ERRHANDLER_NULL);
    OK(MPI_Error_class(MPI_ERR_TRUNCATE, &class));
    CHECK(class == MPI_ERR_TRUNCATE);
    OK(MPI_Error_string(MPI_ERR_TRUNCATE, text, &length));
    CHECK((int)strlen(text) == length && strstr(text, "MPI_ERR_TRUNCATE"));
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
}

static void *thread(void *unused)
{
    for (int i = 0; i < 200; i++)
        anywhere();
    return unused;
}

static void threads(void)
{
    pthread_t others[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&others[i], NULL, thread, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(others[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    const char *when = argc > 1 ? argv[1] : "";
    int rank;
    if (strcmp(when, "allowed") == 0) {
        threads();
        OK(MPI_Init(NULL, NULL));
        anywhere();
        OK(MPI_Finalize());
        threads();
        done(0);
        return 0;
    }
    /* No end of line, no flush: it must not be lost. */
    printf("written before\n");
    if (strcmp(when, "before") == 0)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    OK(MPI_Init(NULL, NULL));
    if (strcmp(when, "twice") == 0)
        MPI_Init(NULL, NULL);
    OK(MPI_Finalize());
    if (strcmp(when, "after") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(when, "again") == 0)
        MPI_Init(NULL, NULL);
    return 0;
}
