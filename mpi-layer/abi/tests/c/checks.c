/* An error that is told, unless checks are left out: a datatype that was not committed. */
#include "check.h"

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    errors_return();
    CHECK(argc == 2);
    int checked = strcmp(argv[1], "checked") == 0, out[2] = {4, 5}, in[2] = {0, 0}, code;
    MPI_Datatype pair;
    MPI_Request request;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Irecv(in, 2, MPI_INT, 0, 0, MPI_COMM_SELF, &request));
    code = MPI_Send(out, 1, pair, 0, 0, MPI_COMM_SELF);
    if (checked) {
        FAILS(MPI_ERR_TYPE, code);
        OK(MPI_Send(out, 2, MPI_INT, 0, 0, MPI_COMM_SELF));
    } else {
        OK(code);
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(in[0] == 4 && in[1] == 5);
    /* What keeps the library itself whole is checked always. */
    FAILS(MPI_ERR_RANK, MPI_Send(out, 1, MPI_INT, 7, 0, MPI_COMM_SELF));
    FAILS(MPI_ERR_COUNT, MPI_Send(out, -1, MPI_INT, 0, 0, MPI_COMM_SELF));
    FAILS(MPI_ERR_TAG, MPI_Send(out, 1, MPI_INT, 0, -1, MPI_COMM_SELF));
    FAILS(MPI_ERR_COMM, MPI_Send(out, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
    FAILS(MPI_ERR_TYPE, MPI_Send(out, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_SELF));
    OK(MPI_Type_free(&pair));
    done(0);
    OK(MPI_Finalize());
    return 0;
}
