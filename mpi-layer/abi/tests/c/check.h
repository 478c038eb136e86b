/* What the test programs share: a condition that must hold, and how a program says that all did. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);         \
            exit(41);                                                                       \
        }                                                                                   \
    } while (0)

/* A call that must succeed. */
#define OK(call) CHECK((call) == MPI_SUCCESS)

/* A call that must fail with an error of this class. */
#define FAILS(class, call)                                                                  \
    do {                                                                                    \
        int code_ = (call), class_ = -1;                                                    \
        MPI_Error_class(code_, &class_);                                                    \
        if (class_ != (class)) {                                                            \
            fprintf(stderr, "%s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, code_, \
                    #class);                                                                \
            exit(42);                                                                       \
        }                                                                                   \
    } while (0)

/* Rank 0 says that its part is done; the others, that theirs is, by ending well. */
static inline void done(int rank)
{
    if (rank == 0)
        printf("ok\n");
}

static inline int rank_of(MPI_Comm comm)
{
    int rank = -1;
    OK(MPI_Comm_rank(comm, &rank));
    return rank;
}

/* Errors of calls come back as codes. */
static inline void errors_return(void)
{
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}

#endif
