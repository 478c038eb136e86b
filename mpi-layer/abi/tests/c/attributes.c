/* Attributes of communicators and datatypes. */
#include "check.h"

static int copies, deletes;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)keyval;
    CHECK(extra == (void *)&copies);
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int copy_not(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static int copy_fails(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_INTERN;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)value;
    CHECK(extra == (void *)&copies);
    /* It is there still, and MPI may be called. */
    void *found;
    int flag = 0;
    OK(MPI_Comm_get_attr(comm, keyval, &found, &flag));
    CHECK(flag && found == value);
    deletes++;
    return MPI_SUCCESS;
}

static int kept = 1;

static int delete_fails(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    return kept ? MPI_ERR_INTERN : MPI_SUCCESS;
}

/* The delete function frees its own key, whose handle is here. */
static int own_key;

static int delete_frees(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    if (own_key != MPI_KEYVAL_INVALID)
        OK(MPI_Comm_free_keyval(&own_key));
    return MPI_SUCCESS;
}

static int type_delete(MPI_Datatype type, int keyval, void *value, void *extra)
{
    (void)keyval, (void)extra;
    CHECK(type == MPI_INT && value == (void *)7);
    deletes++;
    return MPI_SUCCESS;
}

static void *get(MPI_Comm comm, int keyval)
{
    void *value = NULL;
    int flag = -1;
    OK(MPI_Comm_get_attr(comm, keyval, &value, &flag));
    CHECK(flag == 0 || flag == 1);
    return flag ? value : (void *)-1;
}

static void predefined(void)
{
    int size;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(*(int *)get(MPI_COMM_WORLD, MPI_TAG_UB) >= 32767);
    CHECK(*(int *)get(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE) == size);
    CHECK(*(int *)get(MPI_COMM_WORLD, MPI_APPNUM) == 0);
    CHECK(*(int *)get(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL) == 0);
    CHECK(*(int *)get(MPI_COMM_WORLD, MPI_HOST) == MPI_PROC_NULL);
    CHECK(*(int *)get(MPI_COMM_WORLD, MPI_IO) == MPI_ANY_SOURCE);
    CHECK(*(int *)get(MPI_COMM_WORLD, MPI_LASTUSEDCODE) == MPI_ERR_LASTCODE);
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL));
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    int rank = rank_of(MPI_COMM_WORLD), key, dup, null, not, fails;
    MPI_Comm new, other;
    predefined();
    OK(MPI_Comm_create_keyval(copy, delete, &key, &copies));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &null, NULL));
    OK(MPI_Comm_create_keyval(copy_not, delete_fails, &not, NULL));
    OK(MPI_Comm_create_keyval(copy_fails, MPI_COMM_NULL_DELETE_FN, &fails, NULL));
    CHECK(key != dup && dup != null && key != MPI_KEYVAL_INVALID);

    char values[16];
    CHECK(get(MPI_COMM_WORLD, key) == (void *)-1);
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, values));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, dup, values + 3));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, null, values + 4));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, not, values + 5));
    CHECK(get(MPI_COMM_WORLD, key) == values && copies == 0 && deletes == 0);

    /* Set over: the old one is deleted. */
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, values + 1));
    CHECK(deletes == 1 && get(MPI_COMM_WORLD, key) == values + 1);
    FAILS(MPI_ERR_INTERN, MPI_Comm_set_attr(MPI_COMM_WORLD, not, values + 6));
    CHECK(get(MPI_COMM_WORLD, not) == values + 5);

    /* Copied where the program wants it. */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &new));
    CHECK(copies == 1 && get(new, key) == values + 2 && get(new, dup) == values + 3);
    CHECK(get(new, null) == (void *)-1 && get(new, not) == (void *)-1);
    OK(MPI_Comm_delete_attr(new, key));
    CHECK(deletes == 2 && get(new, key) == (void *)-1 && get(MPI_COMM_WORLD, key) == values + 1);
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(new, key));

    /* A copy that fails leaves no communicator and no attribute of it. */
    OK(MPI_Comm_set_attr(new, key, values));
    OK(MPI_Comm_set_attr(new, fails, values));
    other = MPI_COMM_SELF;
    FAILS(MPI_ERR_INTERN, MPI_Comm_dup(new, &other));
    CHECK(other == MPI_COMM_NULL && copies == 2 && deletes == 3);

    /* A deletion that fails keeps the communicator. */
    OK(MPI_Comm_set_attr(new, not, values));
    FAILS(MPI_ERR_INTERN, MPI_Comm_free(&new));
    CHECK(new != MPI_COMM_NULL && rank_of(new) == rank);
    FAILS(MPI_ERR_INTERN, MPI_Comm_delete_attr(new, not));

    /* A key lives on with its values. */
    int old = key;
    OK(MPI_Comm_free_keyval(&key));
    CHECK(key == MPI_KEYVAL_INVALID);
    CHECK(get(MPI_COMM_WORLD, old) == values + 1);
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_SELF, old, values));
    OK(MPI_Comm_free_keyval(&(int){old}));
    OK(MPI_Comm_delete_attr(new, old));
    OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, old));
    CHECK(deletes == 5);
    void *value;
    int flag;
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_get_attr(MPI_COMM_WORLD, old, &value, &flag));
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &value, &flag));

    /* A key that goes while its value is replaced: the new value has it still. */
    int gone;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_frees, &own_key, NULL));
    gone = own_key;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &other));
    OK(MPI_Comm_set_attr(other, gone, values));
    OK(MPI_Comm_set_attr(other, gone, values + 1));
    CHECK(own_key == MPI_KEYVAL_INVALID && get(other, gone) == values + 1);
    OK(MPI_Comm_free(&other));
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_get_attr(MPI_COMM_SELF, gone, &value, &flag));

    /* Names from MPI-1. */
    int ancient;
    OK(MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &ancient, NULL));
    OK(MPI_Attr_put(MPI_COMM_SELF, ancient, values + 9));
    OK(MPI_Attr_get(MPI_COMM_SELF, ancient, &value, &flag));
    CHECK(flag && value == values + 9);
    OK(MPI_Attr_delete(MPI_COMM_SELF, ancient));
    OK(MPI_Keyval_free(&ancient));

    /* Datatypes. */
    int of_type;
    deletes = 0;
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, type_delete, &of_type, NULL));
    OK(MPI_Type_set_attr(MPI_INT, of_type, (void *)7));
    OK(MPI_Type_get_attr(MPI_INT, of_type, &value, &flag));
    CHECK(flag && value == (void *)7);
    OK(MPI_Type_get_attr(MPI_DOUBLE, of_type, &value, &flag));
    CHECK(!flag);
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_WORLD, of_type, NULL));
    FAILS(MPI_ERR_KEYVAL, MPI_Type_set_attr(MPI_INT, dup, NULL));
    OK(MPI_Type_delete_attr(MPI_INT, of_type));
    CHECK(deletes == 1);
    OK(MPI_Type_free_keyval(&of_type));
    /* Where an attribute of the world cannot be deleted the end fails, and MPI goes on. */
    FAILS(MPI_ERR_INTERN, MPI_Finalize());
    CHECK(rank_of(MPI_COMM_WORLD) == rank);
    OK(MPI_Finalized(&flag));
    CHECK(!flag);
    kept = 0;
    OK(MPI_Comm_free(&new));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
