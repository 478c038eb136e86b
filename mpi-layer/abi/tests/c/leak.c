/* A program that loses memory, so that the tool that searches for such programs is seen to find it. */
#include "check.h"

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    int rank = rank_of(MPI_COMM_WORLD);
    char *volatile lost = malloc(100);
    CHECK(lost);
    lost = NULL;
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
