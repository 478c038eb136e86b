/* Messages that are probed before they are received, and claimed. */
#include "check.h"

static MPI_Comm world = MPI_COMM_WORLD;

int main(int argc, char **argv)
{
    int size, flag = 1, count = -1, value = -1;
    MPI_Status status;
    MPI_Message message, other;
    MPI_Request request;
    OK(MPI_Init(&argc, &argv));
    errors_return();
    int rank = rank_of(world);
    OK(MPI_Comm_size(world, &size));
    int next = (rank + 1) % size, last = (rank + size - 1) % size;

    /* Nobody. */
    OK(MPI_Probe(MPI_PROC_NULL, 0, world, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    flag = 0;
    OK(MPI_Iprobe(MPI_PROC_NULL, 0, world, &flag, &status));
    CHECK(flag == 1 && status.MPI_SOURCE == MPI_PROC_NULL);
    OK(MPI_Mprobe(MPI_PROC_NULL, 0, world, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL && value == -1);
    flag = 0;
    OK(MPI_Improbe(MPI_PROC_NULL, 0, world, &flag, &message, &status));
    CHECK(flag == 1 && message == MPI_MESSAGE_NO_PROC);
    OK(MPI_Imrecv_c(&value, 1, MPI_INT, &message, &request));
    CHECK(message == MPI_MESSAGE_NULL && request != MPI_REQUEST_NULL);
    OK(MPI_Wait(&request, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);

    /* Nothing. */
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, &status));
    CHECK(flag == 0);
    message = MPI_MESSAGE_NULL, flag = 1;
    OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, &message, &status));
    CHECK(flag == 0 && message == MPI_MESSAGE_NULL);
    OK(MPI_Barrier(world));

    /* Something, of all sizes. */
    enum { MANY = 50000 };
    static double out[MANY], in[MANY];
    for (int c = 0; c < 3; c++) {
        int many = c == 0 ? 0 : c == 1 ? 10 : MANY;
        for (int way = 0; way < 4; way++) {
            for (int i = 0; i < many; i++)
                out[i] = rank + i + way, in[i] = -1;
            MPI_Request send;
            OK(MPI_Isend(out, many, MPI_DOUBLE, next, 10 + way, world, &send));
            memset(&status, 0x55, sizeof status);
            int before = status.MPI_ERROR;
            message = MPI_MESSAGE_NULL;
            if (way == 0) {
                OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status));
            } else if (way == 1) {
                do
                    OK(MPI_Iprobe(last, 10 + way, world, &flag, &status));
                while (!flag);
            } else if (way == 2) {
                OK(MPI_Mprobe(last, MPI_ANY_TAG, world, &message, &status));
            } else {
                do
                    OK(MPI_Improbe(MPI_ANY_SOURCE, 10 + way, world, &flag, &message, &status));
                while (!flag);
            }
            OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
            CHECK(count == many && status.MPI_SOURCE == last && status.MPI_TAG == 10 + way);
            CHECK(status.MPI_ERROR == before);
            if (way < 2) {
                OK(MPI_Recv(in, count, MPI_DOUBLE, status.MPI_SOURCE, status.MPI_TAG, world, &status));
            } else {
                /* No other receive finds it. */
                OK(MPI_Iprobe(last, 10 + way, world, &flag, MPI_STATUS_IGNORE));
                CHECK(flag == 0);
                CHECK(MPI_Message_fromint(MPI_Message_toint(message)) == message);
                other = message;
                FAILS(MPI_ERR_COUNT, MPI_Mrecv(in, -1, MPI_DOUBLE, &message, &status));
                FAILS(MPI_ERR_TYPE, MPI_Mrecv(in, 1, MPI_DATATYPE_NULL, &message, &status));
                CHECK(message == other);
                if (way == 2) {
                    OK(MPI_Mrecv(in, MANY, MPI_DOUBLE, &message, &status));
                } else {
                    OK(MPI_Imrecv(in, MANY, MPI_DOUBLE, &message, &request));
                    OK(MPI_Wait(&request, &status));
                }
                CHECK(message == MPI_MESSAGE_NULL);
                FAILS(MPI_ERR_REQUEST, MPI_Mrecv(in, 1, MPI_DOUBLE, &other, &status));
                FAILS(MPI_ERR_REQUEST, MPI_Imrecv(in, 1, MPI_DOUBLE, &message, &request));
            }
            OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
            CHECK(count == many && status.MPI_SOURCE == last && status.MPI_TAG == 10 + way);
            for (int i = 0; i < many; i++)
                CHECK(in[i] == last + i + way);
            OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            OK(MPI_Barrier(world));
        }
    }

    /* Messages of one sender are claimed in their order. */
    for (int i = 0; i < 3; i++)
        OK(MPI_Send(&i, 1, MPI_INT, next, 5, world));
    MPI_Message three[3];
    for (int i = 0; i < 3; i++)
        OK(MPI_Mprobe(last, 5, world, &three[i], MPI_STATUS_IGNORE));
    for (int i = 2; i >= 0; i--) {
        OK(MPI_Mrecv_c(&value, 1, MPI_INT, &three[i], MPI_STATUS_IGNORE));
        CHECK(value == i);
    }
    /* A message that is too long is cut. */
    int two[2] = {6, 7}, guard[2] = {-1, -1};
    OK(MPI_Send(two, 2, MPI_INT, rank, 6, world));
    OK(MPI_Mprobe(rank, 6, world, &message, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_TRUNCATE, MPI_Mrecv(guard, 1, MPI_INT, &message, &status));
    CHECK(guard[0] == 6 && guard[1] == -1 && message == MPI_MESSAGE_NULL);
    FAILS(MPI_ERR_RANK, MPI_Probe(size, 0, world, &status));
    FAILS(MPI_ERR_TAG, MPI_Iprobe(0, -1, world, &flag, &status));
    /* The communicator of a claimed message may go. */
    MPI_Comm comm;
    OK(MPI_Comm_dup(world, &comm));
    OK(MPI_Send(&rank, 1, MPI_INT, next, 7, comm));
    OK(MPI_Mprobe(last, 7, comm, &message, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    CHECK(value == last);
    OK(MPI_Barrier(world));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
