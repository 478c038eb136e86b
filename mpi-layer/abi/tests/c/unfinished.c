/* Ends without MPI_Finalize: of a rank, and of a child that a rank has forked. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    OK(MPI_Init(&argc, &argv));
    int rank = rank_of(MPI_COMM_WORLD), status = -1;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (strcmp(how, "exit") == 0)
        return 0;
    void *memory;
    OK(MPI_Alloc_mem(100, MPI_INFO_NULL, &memory));
    strcpy(memory, "from the parent");
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* Memory of MPI_Alloc_mem is the child's too. */
        CHECK(strcmp(memory, "from the parent") == 0);
        if (strcmp(how, "child-finalises") == 0)
            OK(MPI_Finalize());
        exit(7);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    OK(MPI_Free_mem(memory));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    done(rank);
    return 0;
}
