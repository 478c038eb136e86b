/* An error handler that does not come back. */
#include "check.h"

#include <setjmp.h>

static jmp_buf back;

static void leap(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    longjmp(back, 1);
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    MPI_Errhandler handler;
    OK(MPI_Comm_create_errhandler(leap, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    OK(MPI_Errhandler_free(&handler));
    for (volatile int times = 0; times < 1000; times++) {
        if (setjmp(back) == 0) {
            MPI_Send(NULL, 1, MPI_INT, 5, 0, MPI_COMM_WORLD);
            CHECK(!"it came back");
        }
        /* Nothing is locked or borrowed. */
        int size;
        OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
        OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
        OK(MPI_Errhandler_free(&handler));
    }
    done(0);
    OK(MPI_Finalize());
    return 0;
}
