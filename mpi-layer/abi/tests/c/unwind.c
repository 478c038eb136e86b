/* A function of the program that unwinds the stack under the library. */
#include "check.h"

#include <pthread.h>

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    pthread_exit(NULL);
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    int key;
    MPI_Comm copied;
    OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL));
    MPI_Comm_dup(MPI_COMM_WORLD, &copied);
    return 0;
}
