/* The names for Fortran's handles from before the ABI, which a program asks for. */
#include "check.h"

int main(void)
{
    MPI_Fint number = MPI_Comm_c2f(MPI_COMM_WORLD);
    CHECK(MPI_Comm_f2c(number) == MPI_COMM_WORLD);
    CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_INT)) == MPI_INT);
    CHECK(MPI_Op_f2c(MPI_Op_c2f(MPI_MAX)) == MPI_MAX);
    CHECK(PMPI_Group_f2c(PMPI_Group_c2f(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    CHECK(MPI_Info_f2c(MPI_Info_c2f(MPI_INFO_NULL)) == MPI_INFO_NULL);
    done(0);
    return 0;
}
