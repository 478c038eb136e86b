/* A program by the standard alone, for any library with the ABI and any number of ranks from 2 on.
 *
 *     exchange NAME
 *
 * NAME is how the version of the library has to begin that it runs with. The program ends with 0 and the line
 * "ok" of each rank if all is as the standard has it, else with 1 and the first line that is not. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(what)                                                                         \
    do {                                                                                    \
        if (!(what)) {                                                                      \
            fprintf(stderr, "rank %d, line %d: not so: %s\n", rank, __LINE__, #what);       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                   \
        }                                                                                   \
    } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static void statuses(void)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size, count, flag;
    double out[3] = {rank, 2.5, -1}, in[5] = {0};
    MPI_Request requests[2];
    MPI_Status all[2];
    memset(all, 0x5a, sizeof all);
    OK(MPI_Irecv(in, 5, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Issend(out, 3, MPI_DOUBLE, next, 77, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, all));
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    CHECK(all[0].MPI_SOURCE == last && all[0].MPI_TAG == 77 && in[0] == last && in[2] == -1);
    OK(MPI_Get_count(&all[0], MPI_DOUBLE, &count));
    CHECK(count == 3);
    OK(MPI_Get_elements(&all[0], MPI_DOUBLE_INT, &count));
    OK(MPI_Test_cancelled(&all[0], &flag));
    CHECK(!flag);

    char text[100];
    OK(MPI_Irecv(text, 100, MPI_CHAR, last, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Cancel(&requests[0]));
    OK(MPI_Wait(&requests[0], &all[0]));
    OK(MPI_Test_cancelled(&all[0], &flag));
    CHECK(flag);

    MPI_Message message;
    OK(MPI_Send(&rank, 1, MPI_INT, next, 5, MPI_COMM_WORLD));
    OK(MPI_Mprobe(last, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &all[0]));
    CHECK(all[0].MPI_TAG == 5);
    OK(MPI_Mrecv(&count, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    CHECK(count == last && message == MPI_MESSAGE_NULL);

    OK(MPI_Sendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, &count, 1, MPI_INT, MPI_PROC_NULL, 0,
                    MPI_COMM_WORLD, &all[0]));
    CHECK(all[0].MPI_SOURCE == MPI_PROC_NULL && all[0].MPI_TAG == MPI_ANY_TAG && count == last);

    OK(MPI_Send_init(out, 3, MPI_DOUBLE, next, 9, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_init(in, 3, MPI_DOUBLE, last, 9, MPI_COMM_WORLD, &requests[1]));
    for (int i = 0; i < 3; i++) {
        out[1] = i;
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(in[1] == i);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

struct item {
    char kind;
    double value[2];
    short mark;
};

static void types(void)
{
    int lengths[] = {1, 2, 1}, next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Aint places[] = {offsetof(struct item, kind), offsetof(struct item, value),
                         offsetof(struct item, mark)};
    MPI_Datatype parts[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, packed, item, column;
    OK(MPI_Type_create_struct(3, lengths, places, parts, &packed));
    OK(MPI_Type_create_resized(packed, 0, sizeof(struct item), &item));
    OK(MPI_Type_commit(&item));
    struct item out[4], in[4];
    memset(in, 0, sizeof in);
    for (int i = 0; i < 4; i++)
        out[i] = (struct item){(char)('a' + i), {rank, i}, (short)-i};
    OK(MPI_Sendrecv(out, 4, item, next, 0, in, 4, item, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++)
        CHECK(in[i].kind == 'a' + i && in[i].value[0] == last && in[i].value[1] == i && in[i].mark == -i);

    enum { N = 300 };
    static int matrix[N][N], turned[N];
    for (int i = 0; i < N; i++)
        matrix[i][7] = 1000 * rank + i;
    OK(MPI_Type_vector(N, 1, N, MPI_INT, &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Sendrecv(&matrix[0][7], 1, column, next, 1, turned, N, MPI_INT, last, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        CHECK(turned[i] == 1000 * last + i);

    int integers, addresses, datatypes, combiner, bytes, size_of = 0, position = 0;
    MPI_Aint low, extent;
    OK(MPI_Type_get_envelope(item, &integers, &addresses, &datatypes, &combiner));
    CHECK(combiner == MPI_COMBINER_RESIZED && addresses == 2 && datatypes == 1);
    OK(MPI_Type_get_extent(item, &low, &extent));
    CHECK(low == 0 && extent == sizeof(struct item));
    OK(MPI_Type_size(item, &size_of));
    CHECK(size_of == 1 + 2 * 8 + 2);
    OK(MPI_Pack_size(4, item, MPI_COMM_WORLD, &bytes));
    char *buffer = malloc(bytes);
    OK(MPI_Pack(out, 4, item, buffer, bytes, &position, MPI_COMM_WORLD));
    memset(in, 0, sizeof in), bytes = position, position = 0;
    OK(MPI_Unpack(buffer, bytes, &position, in, 4, item, MPI_COMM_WORLD));
    CHECK(in[3].value[1] == 3 && in[2].kind == 'c');
    free(buffer);
    OK(MPI_Type_free(&packed));
    OK(MPI_Type_free(&item));
    OK(MPI_Type_free(&column));
    CHECK(column == MPI_DATATYPE_NULL);
}

/* Of two maps x -> a x + b the one that does both: it matters which comes first. */
static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    CHECK(*type != MPI_DATATYPE_NULL);
    double (*first)[2] = in, (*second)[2] = inout;
    for (int i = 0; i < *count; i++) {
        double a = first[i][0] * second[i][0], b = second[i][0] * first[i][1] + second[i][1];
        second[i][0] = a, second[i][1] = b;
    }
}

static void collectives(void)
{
    long sum = 0, mine = rank + 1;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == (long)size * (size + 1) / 2);
    struct {
        double value;
        int at;
    } own = {(rank * 7) % size, rank}, best;
    OK(MPI_Allreduce(&own, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
    CHECK((best.at * 7) % size == best.value);

    MPI_Op op;
    MPI_Datatype map;
    OK(MPI_Type_contiguous(2, MPI_DOUBLE, &map));
    OK(MPI_Type_commit(&map));
    OK(MPI_Op_create(compose, 0, &op));
    double step[2] = {2, rank}, all[2], expected = 0;
    OK(MPI_Allreduce(step, all, 1, map, op, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        expected = 2 * expected + r;
    CHECK(all[1] == expected);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&map));

    int *counts = malloc(size * sizeof *counts), *displs = malloc(size * sizeof *displs);
    int total = 0;
    for (int r = 0; r < size; r++)
        counts[r] = r + 1, displs[r] = total, total += r + 1;
    int *gathered = malloc(total * sizeof *gathered);
    for (int i = 0; i <= rank; i++)
        gathered[displs[rank] + i] = 100 * rank + i;
    OK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered, counts, displs, MPI_INT,
                      MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i <= r; i++)
            CHECK(gathered[displs[r] + i] == 100 * r + i);
    for (int r = 0; r < size; r++)
        counts[r] = 10 * rank + r;
    OK(MPI_Alltoall(counts, 1, MPI_INT, displs, 1, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        CHECK(displs[r] == 10 * r + rank);
    free(counts), free(displs), free(gathered);
}

static int copies, deletes, errors;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    CHECK(comm != MPI_COMM_NULL && key != MPI_KEYVAL_INVALID && extra == &copies);
    copies++, *(void **)out = in, *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    CHECK(comm != MPI_COMM_NULL && key != MPI_KEYVAL_INVALID && value == &rank && extra == &copies);
    deletes++;
    return MPI_SUCCESS;
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    int class;
    CHECK(*comm != MPI_COMM_NULL);
    OK(MPI_Error_class(*code, &class));
    errors += class == MPI_ERR_RANK;
}

static void communicators(void)
{
    int key, flag, result, number, *most;
    MPI_Comm other, half;
    void *value;
    OK(MPI_Comm_create_keyval(copy, delete, &key, &copies));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    OK(MPI_Comm_set_attr(other, key, &rank));
    OK(MPI_Comm_dup(other, &half));
    OK(MPI_Comm_get_attr(half, key, &value, &flag));
    CHECK(flag && value == &rank && copies == 1);
    OK(MPI_Comm_free(&half));
    CHECK(deletes == 1 && half == MPI_COMM_NULL);
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_compare(other, MPI_COMM_WORLD, &result));
    CHECK(result == MPI_CONGRUENT);

    OK(MPI_Comm_split(other, rank % 2 ? MPI_UNDEFINED : 0, -rank, &half));
    CHECK((half == MPI_COMM_NULL) == (rank % 2));
    if (half != MPI_COMM_NULL) {
        OK(MPI_Comm_rank(half, &number));
        CHECK(number == (size + 1) / 2 - 1 - rank / 2);
        OK(MPI_Comm_free(&half));
    }
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &flag));
    CHECK(flag && *most >= 32767);

    MPI_Group group, pair;
    int members[2] = {size - 1, 0}, ranks[2], wanted[2] = {0, 1};
    OK(MPI_Comm_group(other, &group));
    OK(MPI_Group_incl(group, 2, members, &pair));
    OK(MPI_Group_translate_ranks(pair, 2, wanted, group, ranks));
    CHECK(ranks[0] == size - 1 && ranks[1] == 0);
    OK(MPI_Group_free(&pair));
    OK(MPI_Group_free(&group));

    MPI_Errhandler own;
    OK(MPI_Comm_create_errhandler(handler, &own));
    OK(MPI_Comm_set_errhandler(other, own));
    OK(MPI_Errhandler_free(&own));
    OK(MPI_Comm_call_errhandler(other, MPI_ERR_RANK));
    CHECK(errors == 1 && own == MPI_ERRHANDLER_NULL);
    OK(MPI_Comm_free(&other));
    CHECK(deletes == 2);
}

static void texts(const char *wanted)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING], value[20];
    int length, flag, class, bytes = sizeof value, version, subversion;
    OK(MPI_Get_library_version(text, &length));
    CHECK(strncmp(text, wanted, strlen(wanted)) == 0 && (int)strlen(text) == length);
    OK(MPI_Get_version(&version, &subversion));
    CHECK(version == MPI_VERSION);
    OK(MPI_Error_string(MPI_ERR_TAG, text, &length));
    CHECK(length > 0 && length < MPI_MAX_ERROR_STRING);
    OK(MPI_Error_class(MPI_ERR_TRUNCATE, &class));
    CHECK(class == MPI_ERR_TRUNCATE);
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "key", "value"));
    OK(MPI_Info_get_string(info, "key", &bytes, value, &flag));
    CHECK(flag && strcmp(value, "value") == 0 && bytes == 6);
    OK(MPI_Info_free(&info));
    OK(MPI_Type_get_name(MPI_DOUBLE, text, &length));
    CHECK(strcmp(text, "MPI_DOUBLE") == 0);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(argc == 2 && size > 1);
    texts(argv[1]);
    statuses();
    types();
    collectives();
    communicators();
    OK(MPI_Finalize());
    puts("ok");
    return 0;
}
