/* Attributes of MPI_COMM_SELF are deleted first at the end, the last one first, while MPI works. */
#include "check.h"

static void say(const char *what)
{
    int started, ended;
    OK(MPI_Initialized(&started));
    OK(MPI_Finalized(&ended));
    printf("%s %d %d\n", what, started, ended);
}

static int word(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)keyval, (void)extra;
    CHECK(comm == MPI_COMM_SELF);
    say(value);
    /* MPI still works. */
    int in = 0, out = 5;
    OK(MPI_Send(&out, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    OK(MPI_Recv(&in, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(in == 5);
    return MPI_SUCCESS;
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    char *words[] = {"first", "second", "third"};
    for (int i = 0; i < 3; i++) {
        int key;
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, word, &key, NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, words[i]));
        OK(MPI_Comm_free_keyval(&key));
    }
    /* A communicator that is never freed does not keep the rank. */
    MPI_Comm leaked;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &leaked));
    OK(MPI_Finalize());
    say("end");
    return 0;
}
