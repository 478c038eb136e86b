/* Statuses: counts, and fields by functions. */
#include "check.h"

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    int rank = rank_of(MPI_COMM_WORLD), count, flag;
    MPI_Count large;
    MPI_Status status;
    if (rank == 0) {
        OK(MPI_Send("seven b", 7, MPI_CHAR, 1, 9, MPI_COMM_WORLD));
        double six[6] = {0};
        OK(MPI_Send(six, 6, MPI_DOUBLE, 1, 9, MPI_COMM_WORLD));
    } else {
        char text[20];
        OK(MPI_Recv(text, 20, MPI_CHAR, 0, 9, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK(count == 7);
        OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK(count == MPI_UNDEFINED);
        OK(MPI_Get_count_c(&status, MPI_BYTE, &large));
        CHECK(large == 7);
        OK(MPI_Test_cancelled(&status, &flag));
        CHECK(!flag);

        /* Longer than the buffer: what fits is there, and no byte behind it is touched. */
        double three[4] = {1, 1, 1, 4.5};
        FAILS(MPI_ERR_TRUNCATE,
              MPI_Recv(three, 3, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD, &status));
        CHECK(three[0] == 0 && three[2] == 0 && three[3] == 4.5);
    }
    memset(&status, 0, sizeof status);
    OK(MPI_Status_set_elements(&status, MPI_DOUBLE, 5));
    OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK(count == 5);
    OK(MPI_Get_elements(&status, MPI_FLOAT, &count));
    CHECK(count == 10);
    OK(MPI_Status_set_elements_c(&status, MPI_BYTE, (MPI_Count)1 << 40));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == MPI_UNDEFINED);
    OK(MPI_Get_count_c(&status, MPI_BYTE, &large));
    CHECK(large == (MPI_Count)1 << 40);
    OK(MPI_Get_elements_x(&status, MPI_INT64_T, &large));
    CHECK(large == (MPI_Count)1 << 37);
    OK(MPI_Status_set_cancelled(&status, 5));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag == 1);
    OK(MPI_Status_set_source(&status, 11));
    OK(MPI_Status_set_tag(&status, 12));
    OK(MPI_Status_set_error(&status, 13));
    CHECK(status.MPI_SOURCE == 11 && status.MPI_TAG == 12 && status.MPI_ERROR == 13);
    OK(MPI_Status_get_source(&status, &count));
    CHECK(count == 11);
    OK(MPI_Status_get_tag(&status, &count));
    CHECK(count == 12);
    OK(MPI_Status_get_error(&status, &count));
    CHECK(count == 13);
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
