/* The start, the end, and what surrounds a process. */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

static void *other_thread(void *flag)
{
    OK(MPI_Is_thread_main(flag));
    return NULL;
}

int main(void)
{
    int flag = -1, provided = -1;
    OK(MPI_Initialized(&flag));
    CHECK(flag == 0);
    OK(MPI_Finalized(&flag));
    CHECK(flag == 0);
    double start = MPI_Wtime();
    OK(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_SERIALIZED);
    OK(MPI_Query_thread(&flag));
    CHECK(flag == provided);
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag == 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other_thread, &flag) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(flag == 0);
    OK(MPI_Initialized(&flag));
    CHECK(flag == 1);
    OK(MPI_Finalized(&flag));
    CHECK(flag == 0);

    char name[MPI_MAX_PROCESSOR_NAME], host[MPI_MAX_PROCESSOR_NAME];
    int length = -1;
    OK(MPI_Get_processor_name(name, &length));
    CHECK(gethostname(host, sizeof host) == 0);
    CHECK(strcmp(name, host) == 0 && length == (int)strlen(host));

    double tick = MPI_Wtick();
    CHECK(tick > 0 && tick < 1);
    CHECK(MPI_Wtime() >= start);

    void *memory = NULL;
    OK(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &memory));
    CHECK(memory != NULL);
    memset(memory, 7, 1 << 20);
    OK(MPI_Free_mem(memory));
    OK(MPI_Alloc_mem(0, MPI_INFO_NULL, &memory));
    OK(MPI_Free_mem(memory));

    int array[10];
    MPI_Aint first, last;
    OK(MPI_Get_address(&array[2], &first));
    OK(MPI_Get_address(&array[9], &last));
    CHECK(MPI_Aint_diff(last, first) == 7 * (MPI_Aint)sizeof(int));
    CHECK(MPI_Aint_add(first, 7 * (MPI_Aint)sizeof(int)) == last);
    OK(MPI_Pcontrol(1));
    OK(MPI_Pcontrol(2, "more", 3.0));

    int rank = rank_of(MPI_COMM_WORLD);
    OK(MPI_Finalize());
    OK(MPI_Initialized(&flag));
    CHECK(flag == 1);
    OK(MPI_Finalized(&flag));
    CHECK(flag == 1);
    done(rank);
    return 0;
}
