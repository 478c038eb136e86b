/* Buffered sends: what has space, and buffers that come and go. */
#include "check.h"

static MPI_Comm world = MPI_COMM_WORLD;

int main(int argc, char **argv)
{
    enum { WIDE = 400000, ENTRY = WIDE + MPI_BSEND_OVERHEAD };
    static char buffer[2 * ENTRY], other[2 * ENTRY], out[WIDE], in[WIDE];
    OK(MPI_Init(&argc, &argv));
    errors_return();
    int rank = rank_of(world), size, bytes = -1, flag;
    OK(MPI_Comm_size(world, &size));
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    void *address = NULL;
    MPI_Count large = -1;
    MPI_Request request;

    /* Without a buffer, and with too small a one. */
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 1, MPI_CHAR, next, 0, world));
    FAILS(MPI_ERR_BUFFER, MPI_Ibsend(out, 1, MPI_CHAR, next, 0, world, &request));
    FAILS(MPI_ERR_BUFFER, MPI_Buffer_detach(&address, &bytes));
    OK(MPI_Bsend(out, 1, MPI_CHAR, MPI_PROC_NULL, 0, world));
    OK(MPI_Buffer_flush());
    OK(MPI_Buffer_attach(buffer, MPI_BSEND_OVERHEAD));
    FAILS(MPI_ERR_BUFFER, MPI_Buffer_attach(other, 10));
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 1, MPI_CHAR, next, 0, world));
    OK(MPI_Bsend(out, 0, MPI_CHAR, rank, 0, world));
    OK(MPI_Recv(in, 0, MPI_CHAR, rank, 0, world, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&address, &bytes));
    CHECK(address == buffer && bytes == MPI_BSEND_OVERHEAD);
    FAILS(MPI_ERR_ARG, MPI_Buffer_attach(buffer, -1));
    FAILS(MPI_ERR_BUFFER, MPI_Buffer_attach(NULL, 10));

    /* What waits for its receive takes space, which comes back. */
    for (int way = 0; way < 3; way++) {
        OK(MPI_Buffer_attach_c(buffer, ENTRY));
        memset(out, 'a' + rank, sizeof out), memset(in, 0, sizeof in);
        OK(MPI_Bsend(out, WIDE, MPI_CHAR, next, 1, world));
        memset(out, '-', sizeof out);
        /* The message is too long to have left, since nobody has received it. */
        FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, WIDE, MPI_CHAR, next, 1, world));
        OK(MPI_Barrier(world));
        if (way == 0) {
            OK(MPI_Recv(in, WIDE, MPI_CHAR, last, 1, world, MPI_STATUS_IGNORE));
            OK(MPI_Buffer_flush());
        } else if (way == 1) {
            OK(MPI_Buffer_iflush(&request));
            OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag);
            OK(MPI_Barrier(world));
            OK(MPI_Recv(in, WIDE, MPI_CHAR, last, 1, world, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            MPI_Request receive;
            OK(MPI_Irecv(in, WIDE, MPI_CHAR, last, 1, world, &receive));
            OK(MPI_Buffer_detach_c(&address, &large));
            CHECK(address == buffer && large == ENTRY);
            OK(MPI_Buffer_attach(buffer, ENTRY));
            OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        }
        CHECK(in[0] == 'a' + last && in[WIDE - 1] == 'a' + last);
        OK(MPI_Bsend(out, WIDE, MPI_CHAR, next, 2, world));
        OK(MPI_Recv(in, WIDE, MPI_CHAR, last, 2, world, MPI_STATUS_IGNORE));
        OK(MPI_Buffer_detach_c(&address, &large));
        CHECK(address == buffer && large == ENTRY);
    }

    /* A communicator's own buffer is the only one that its messages use. */
    MPI_Comm comm;
    OK(MPI_Comm_dup(world, &comm));
    OK(MPI_Buffer_attach(buffer, ENTRY));
    OK(MPI_Comm_attach_buffer(comm, other, MPI_BSEND_OVERHEAD + 8));
    FAILS(MPI_ERR_BUFFER, MPI_Comm_attach_buffer_c(comm, other, 8));
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 9, MPI_CHAR, next, 3, comm));
    OK(MPI_Bsend(out, 9, MPI_CHAR, next, 3, world));
    OK(MPI_Bsend(out, 8, MPI_CHAR, next, 4, comm));
    OK(MPI_Recv(in, 9, MPI_CHAR, last, 3, world, MPI_STATUS_IGNORE));
    OK(MPI_Recv(in, 8, MPI_CHAR, last, 4, comm, MPI_STATUS_IGNORE));
    OK(MPI_Comm_flush_buffer(comm));
    OK(MPI_Comm_iflush_buffer(comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_detach_buffer(comm, &address, &bytes));
    CHECK(address == other && bytes == MPI_BSEND_OVERHEAD + 8);
    OK(MPI_Bsend(out, 9, MPI_CHAR, next, 5, comm));
    OK(MPI_Recv(in, 9, MPI_CHAR, last, 5, comm, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&address, &bytes));

    /* A session's buffer is for the communicators that come from it. */
    MPI_Session session;
    MPI_Group group, part;
    MPI_Comm of_session, copy;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Group_incl(group, size, (int[]){0, 1, 2, 3}, &part));
    OK(MPI_Comm_create_from_group(part, "buffers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &of_session));
    OK(MPI_Comm_dup(of_session, &copy));
    OK(MPI_Session_attach_buffer(session, other, MPI_BSEND_OVERHEAD + 4));
    OK(MPI_Bsend(out, 4, MPI_CHAR, next, 8, copy));
    OK(MPI_Recv(in, 4, MPI_CHAR, last, 8, copy, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 5, MPI_CHAR, next, 8, copy));
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 4, MPI_CHAR, next, 8, world));
    OK(MPI_Session_flush_buffer(session));
    OK(MPI_Session_iflush_buffer(session, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Session_detach_buffer_c(session, &address, &large));
    CHECK(address == other && large == MPI_BSEND_OVERHEAD + 4);
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 4, MPI_CHAR, next, 8, copy));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&of_session));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&part));
    OK(MPI_Session_finalize(&session));

    /* Freed and finalised with messages under way. */
    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    memset(out, 'A' + rank, sizeof out);
    for (int i = 0; i < 3; i++)
        OK(MPI_Bsend(out, WIDE, MPI_CHAR, next, 6, comm));
    for (int i = 0; i < 3; i++)
        OK(MPI_Recv(in, WIDE, MPI_CHAR, last, 6, comm, MPI_STATUS_IGNORE));
    CHECK(in[WIDE - 1] == 'A' + last);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    if (rank == 0)
        OK(MPI_Bsend(out, WIDE, MPI_CHAR, next, 7, world));
    else if (rank == 1) {
        OK(MPI_Recv(in, WIDE, MPI_CHAR, last, 7, world, MPI_STATUS_IGNORE));
        CHECK(in[WIDE - 1] == 'A');
    }
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
