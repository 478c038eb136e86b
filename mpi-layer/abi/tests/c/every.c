/* Every function that is implemented, with one argument wrong at a time: calls.h has the calls, which the
 * test makes of the tables of functions. Each call must fail with the right class by the right handler,
 * and nothing may be lost by it. Alone in its job, so that every argument is significant. */
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>
#include "check.h"

/* Whose handler takes an error. */
enum { OF_WORLD, OF_SELF, OF_SESSION, NOBODYS };

static int called[3], failures, calls;
static const char *now = "nothing";

/* Made of the world's communicator, whose part they take for functions that want a topology. */
static MPI_Comm a_grid, a_graph, a_dist_graph;

static void of_comm(MPI_Comm *comm, int *code, ...)
{
    int world = *comm == MPI_COMM_WORLD || *comm == a_grid || *comm == a_graph || *comm == a_dist_graph;
    (void)code;
    called[world ? OF_WORLD : OF_SELF]++;
}

static void of_session(MPI_Session *session, int *code, ...)
{
    (void)session, (void)code;
    called[OF_SESSION]++;
}

static void operation(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)len, (void)type;
}

static void say(int signal)
{
    const char *what = signal == SIGALRM ? "hangs: " : "crashes: ";
    if (write(2, what, strlen(what)) < 0 || write(2, now, strlen(now)) < 0 || write(2, "\n", 1) < 0)
        _exit(45);
    _exit(46);
}

/* What arguments are made of. Places of results are as wide as any. */
static long memory[20][1024];
static int ones[16], zeros[16], one_range[1][3];
static MPI_Count wide_ones[16];
static MPI_Datatype types[16], bad_types[16];
static MPI_Comm a_comm, freed_comm;
static MPI_Group a_group, freed_group;
static MPI_Info an_info, freed_info;
static MPI_Session a_session, freed_session;
static MPI_Errhandler a_handler, freed_handler;
static MPI_Request a_request, freed_request;
static MPI_Datatype a_type, freed_type;
static MPI_Op an_op, freed_op;
static MPI_Message a_message;
static int a_keyval = MPI_KEYVAL_INVALID, a_type_keyval = MPI_KEYVAL_INVALID;

/* Handles that functions take by address: good ones, in places of their own. */
static MPI_Comm comm_place;
static MPI_Group group_place;
static MPI_Info info_place;
static MPI_Session session_place;
static MPI_Errhandler handler_place;
static MPI_Request request_place[2];
static MPI_Datatype type_place;
static MPI_Op op_place;
static MPI_Message message_place;
static int keyval_place, type_keyval_place;

static void prepare(const char *name)
{
    now = name;
    memset(called, 0, sizeof called);
    memset(memory, 0, sizeof memory);
    comm_place = a_comm, group_place = a_group, info_place = an_info, session_place = a_session;
    handler_place = a_handler, request_place[0] = request_place[1] = a_request;
    type_place = a_type, op_place = an_op, message_place = a_message;
    keyval_place = a_keyval, type_keyval_place = a_type_keyval;
    alarm(20);
}

static void judge(int code, int handler, ...)
{
    int class = -1, right = 0, before[3];
    va_list classes;
    memcpy(before, called, sizeof before);
    MPI_Error_class(code, &class);
    va_start(classes, handler);
    for (int one = va_arg(classes, int); one >= 0; one = va_arg(classes, int))
        right |= one == class;
    va_end(classes);
    calls++;
    if (!right) {
        fprintf(stderr, "%s: gave class %d\n", now, class);
        failures++;
    }
    for (int i = 0; i < 3; i++) {
        if (before[i] != (i == handler)) {
            fprintf(stderr, "%s: %d calls of handler %d\n", now, before[i], i);
            failures++;
        }
    }
    /* What was given by address is what it was. */
    if (comm_place != a_comm && comm_place != freed_comm && comm_place != MPI_COMM_NULL)
        fprintf(stderr, "%s: changed a handle\n", now), failures++;
}

#define TRY(handler, name, call, ...)                                                       \
    do {                                                                                    \
        prepare(name);                                                                      \
        judge(call, handler, __VA_ARGS__, -1);                                              \
    } while (0)

static void try_all(void)
{
#include "calls.h"
}

int main(void)
{
    int got = 0, flag = 0;
    signal(SIGALRM, say);
    signal(SIGSEGV, say);
    signal(SIGABRT, say);
    OK(MPI_Init(NULL, NULL));
    for (int i = 0; i < 16; i++)
        ones[i] = 1, wide_ones[i] = 1, types[i] = MPI_INT, bad_types[i] = MPI_DATATYPE_NULL;
    one_range[0][2] = 1;

    OK(MPI_Comm_dup(MPI_COMM_WORLD, &freed_comm));
    comm_place = freed_comm;
    OK(MPI_Comm_free(&comm_place));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a_comm));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &freed_group));
    group_place = freed_group;
    OK(MPI_Group_free(&group_place));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &a_group));
    OK(MPI_Info_create(&freed_info));
    info_place = freed_info;
    OK(MPI_Info_free(&info_place));
    OK(MPI_Info_create(&an_info));
    OK(MPI_Info_set(an_info, "x", "x"));
    OK(MPI_Comm_create_errhandler(of_comm, &freed_handler));
    handler_place = freed_handler;
    OK(MPI_Errhandler_free(&handler_place));
    OK(MPI_Comm_create_errhandler(of_comm, &a_handler));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &freed_session));
    session_place = freed_session;
    OK(MPI_Session_finalize(&session_place));
    MPI_Errhandler handler;
    OK(MPI_Session_create_errhandler(of_session, &handler));
    OK(MPI_Session_init(MPI_INFO_NULL, handler, &a_session));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Recv_init(&got, 1, MPI_INT, 0, 77, a_comm, &freed_request));
    request_place[0] = freed_request;
    OK(MPI_Request_free(&request_place[0]));
    OK(MPI_Recv_init(&got, 1, MPI_INT, 0, 77, a_comm, &a_request));
    OK(MPI_Type_contiguous(2, MPI_INT, &freed_type));
    type_place = freed_type;
    OK(MPI_Type_free(&type_place));
    OK(MPI_Type_contiguous(2, MPI_INT, &a_type));
    OK(MPI_Type_commit(&a_type));
    OK(MPI_Op_create(operation, 1, &freed_op));
    op_place = freed_op;
    OK(MPI_Op_free(&op_place));
    OK(MPI_Op_create(operation, 1, &an_op));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &a_keyval, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, a_keyval, &got));
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &a_type_keyval, NULL));
    OK(MPI_Type_set_attr(MPI_INT, a_type_keyval, &got));
    static char buffered[4096];
    OK(MPI_Buffer_attach(buffered, sizeof buffered));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, a_handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, a_handler));
    OK(MPI_Comm_set_errhandler(a_comm, a_handler));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, ones, ones, 0, &a_grid));
    OK(MPI_Graph_create(MPI_COMM_WORLD, 1, ones, zeros, 0, &a_graph));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, zeros, ones, 1, zeros, ones, MPI_INFO_NULL, 0,
                                      &a_dist_graph));
    OK(MPI_Send(&(int){6}, 1, MPI_INT, 0, 78, a_comm));
    OK(MPI_Mprobe(0, 78, a_comm, &a_message, MPI_STATUS_IGNORE));

    try_all();
    alarm(20);
    now = "what comes after";

    /* Nothing was lost: no message came, and all objects are there. */
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Start(&a_request));
    OK(MPI_Send(&(int){5}, 1, MPI_INT, 0, 77, a_comm));
    OK(MPI_Wait(&a_request, MPI_STATUS_IGNORE));
    CHECK(got == 5);
    OK(MPI_Mrecv(&got, 1, MPI_INT, &a_message, MPI_STATUS_IGNORE));
    CHECK(got == 6 && a_message == MPI_MESSAGE_NULL);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, a_keyval, &(void *){NULL}, &flag));
    CHECK(flag);
    OK(MPI_Buffer_detach(&(void *){NULL}, &got));
    CHECK(got == sizeof buffered);
    OK(MPI_Request_free(&a_request));
    OK(MPI_Comm_free(&a_comm));
    OK(MPI_Comm_free(&a_grid));
    OK(MPI_Comm_free(&a_graph));
    OK(MPI_Comm_free(&a_dist_graph));
    OK(MPI_Group_free(&a_group));
    OK(MPI_Info_free(&an_info));
    OK(MPI_Errhandler_free(&a_handler));
    OK(MPI_Session_finalize(&a_session));
    OK(MPI_Type_free(&a_type));
    OK(MPI_Op_free(&an_op));
    OK(MPI_Finalize());
    printf("%d calls\n", calls);
    return failures ? 47 : 0;
}
