/* Groups: what they are made of, how they compare, and what is refused. */
#include "check.h"

static int size_of(MPI_Group group)
{
    int size = -1;
    OK(MPI_Group_size(group, &size));
    return size;
}

static int compare(MPI_Group one, MPI_Group other)
{
    int result = -1;
    OK(MPI_Group_compare(one, other, &result));
    return result;
}

/* The members of a group are these ranks of the world, and all ends with its handle. */
static void holds(MPI_Group group, MPI_Group world, int n, const int *expected)
{
    int ranks[16], own[16];
    CHECK(size_of(group) == n);
    for (int i = 0; i < n; i++)
        own[i] = i;
    OK(MPI_Group_translate_ranks(group, n, own, world, ranks));
    for (int i = 0; i < n; i++)
        CHECK(ranks[i] == expected[i]);
    if (n == 0)
        CHECK(group == MPI_GROUP_EMPTY);
    OK(MPI_Group_free(&group));
    CHECK(group == MPI_GROUP_NULL);
}

#define HOLDS(group, ...)                                                                   \
    do {                                                                                    \
        int expected_[] = {__VA_ARGS__};                                                    \
        holds(group, world, sizeof expected_ / sizeof *expected_, expected_);               \
    } while (0)

static void made_of_others(MPI_Group world)
{
    MPI_Group a, b, new;
    OK(MPI_Group_incl(world, 3, (int[]){3, 1, 0}, &a));
    OK(MPI_Group_incl(world, 2, (int[]){2, 3}, &b));
    OK(MPI_Group_union(a, b, &new));
    HOLDS(new, 3, 1, 0, 2);
    OK(MPI_Group_union(b, a, &new));
    HOLDS(new, 2, 3, 1, 0);
    OK(MPI_Group_intersection(a, b, &new));
    HOLDS(new, 3);
    OK(MPI_Group_difference(a, b, &new));
    HOLDS(new, 1, 0);
    OK(MPI_Group_difference(a, a, &new));
    holds(new, world, 0, NULL);
    OK(MPI_Group_excl(a, 1, (int[]){1}, &new));
    HOLDS(new, 3, 0);
    OK(MPI_Group_excl(a, 0, NULL, &new));
    HOLDS(new, 3, 1, 0);
    OK(MPI_Group_excl(a, 3, (int[]){2, 0, 1}, &new));
    holds(new, world, 0, NULL);
    OK(MPI_Group_incl(a, 0, NULL, &new));
    holds(new, world, 0, NULL);
    OK(MPI_Group_range_incl(world, 2, (int[][3]){{3, 2, -1}, {0, 1, 2}}, &new));
    HOLDS(new, 3, 2, 0);
    OK(MPI_Group_range_incl(world, 1, (int[][3]){{0, 4, 3}}, &new));
    HOLDS(new, 0, 3);
    OK(MPI_Group_range_incl(world, 0, NULL, &new));
    holds(new, world, 0, NULL);
    OK(MPI_Group_range_excl(world, 1, (int[][3]){{0, 3, 2}}, &new));
    HOLDS(new, 1, 3);
    OK(MPI_Group_range_excl(world, 1, (int[][3]){{3, 0, -1}}, &new));
    holds(new, world, 0, NULL);
    OK(MPI_Group_union(MPI_GROUP_EMPTY, b, &new));
    HOLDS(new, 2, 3);
    OK(MPI_Group_union(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY, &new));
    holds(new, world, 0, NULL);
    OK(MPI_Group_free(&a));
    OK(MPI_Group_free(&b));
}

static void looked_at(MPI_Group world, int rank)
{
    MPI_Group turned, same, part, own;
    int all[] = {3, 2, 1, 0}, value = -1;
    OK(MPI_Group_rank(world, &value));
    CHECK(value == rank);
    OK(MPI_Group_rank(MPI_GROUP_EMPTY, &value));
    CHECK(value == MPI_UNDEFINED && size_of(MPI_GROUP_EMPTY) == 0);
    OK(MPI_Group_incl(world, 4, all, &turned));
    OK(MPI_Group_rank(turned, &value));
    CHECK(value == 3 - rank);
    OK(MPI_Group_incl(world, 4, (int[]){0, 1, 2, 3}, &same));
    OK(MPI_Group_incl(world, 2, (int[]){1, 3}, &part));
    OK(MPI_Group_rank(part, &value));
    CHECK(value == (rank == 1 ? 0 : rank == 3 ? 1 : MPI_UNDEFINED));
    CHECK(compare(world, world) == MPI_IDENT && compare(world, same) == MPI_IDENT);
    CHECK(compare(world, turned) == MPI_SIMILAR && compare(world, part) == MPI_UNEQUAL);
    CHECK(compare(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY) == MPI_IDENT);
    CHECK(compare(MPI_GROUP_EMPTY, part) == MPI_UNEQUAL);
    int given[] = {0, MPI_PROC_NULL, 1, 3, 2}, got[5];
    OK(MPI_Group_translate_ranks(world, 5, given, part, got));
    CHECK(got[0] == MPI_UNDEFINED && got[1] == MPI_PROC_NULL && got[2] == 0 && got[3] == 1);
    CHECK(got[4] == MPI_UNDEFINED);
    OK(MPI_Group_translate_ranks(world, 0, NULL, part, NULL));
    OK(MPI_Group_translate_ranks(MPI_GROUP_EMPTY, 1, (int[]){MPI_PROC_NULL}, part, got));
    CHECK(got[0] == MPI_PROC_NULL);
    CHECK(MPI_Group_fromint(MPI_Group_toint(part)) == part);
    CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    OK(MPI_Comm_group(MPI_COMM_SELF, &own));
    CHECK(size_of(own) == 1);
    OK(MPI_Group_translate_ranks(own, 1, (int[]){0}, world, &value));
    CHECK(value == rank);
    OK(MPI_Group_free(&own));
    OK(MPI_Group_free(&turned));
    OK(MPI_Group_free(&same));
    OK(MPI_Group_free(&part));
}

static void refused(MPI_Group world)
{
    MPI_Group new = MPI_GROUP_EMPTY, freed;
    int value;
    OK(MPI_Group_incl(world, 1, (int[]){0}, &new));
    freed = new;
    OK(MPI_Group_free(&new));
    MPI_Group wrong[] = {MPI_GROUP_NULL, freed, NULL, (MPI_Group)MPI_COMM_WORLD,
                         (MPI_Group)(size_t)0x12345678, (MPI_Group)(size_t)-1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        MPI_Group group = wrong[i];
        FAILS(MPI_ERR_GROUP, MPI_Group_size(group, &value));
        FAILS(MPI_ERR_GROUP, MPI_Group_rank(group, &value));
        FAILS(MPI_ERR_GROUP, MPI_Group_compare(group, world, &value));
        FAILS(MPI_ERR_GROUP, MPI_Group_compare(world, group, &value));
        FAILS(MPI_ERR_GROUP, MPI_Group_translate_ranks(group, 0, NULL, world, NULL));
        FAILS(MPI_ERR_GROUP, MPI_Group_translate_ranks(world, 0, NULL, group, NULL));
        FAILS(MPI_ERR_GROUP, MPI_Group_union(group, world, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_union(world, group, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_intersection(group, world, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_intersection(world, group, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_difference(group, world, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_difference(world, group, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_incl(group, 0, NULL, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_excl(group, 0, NULL, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_range_incl(group, 0, NULL, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_range_excl(group, 0, NULL, &new));
        FAILS(MPI_ERR_GROUP, MPI_Group_free(&group));
    }
    FAILS(MPI_ERR_ARG, MPI_Group_incl(world, -1, &value, &new));
    FAILS(MPI_ERR_ARG, MPI_Group_incl(world, 1, NULL, &new));
    FAILS(MPI_ERR_ARG, MPI_Group_incl(world, 1, (int[]){0}, NULL));
    FAILS(MPI_ERR_RANK, MPI_Group_incl(world, 1, (int[]){4}, &new));
    FAILS(MPI_ERR_RANK, MPI_Group_incl(world, 1, (int[]){-1}, &new));
    FAILS(MPI_ERR_RANK, MPI_Group_incl(world, 1, (int[]){MPI_PROC_NULL}, &new));
    FAILS(MPI_ERR_RANK, MPI_Group_incl(world, 2, (int[]){1, 1}, &new));
    FAILS(MPI_ERR_RANK, MPI_Group_excl(world, 2, (int[]){1, 1}, &new));
    FAILS(MPI_ERR_RANK, MPI_Group_excl(world, 1, (int[]){4}, &new));
    FAILS(MPI_ERR_RANK, MPI_Group_range_incl(world, 1, (int[][3]){{0, 4, 1}}, &new));
    FAILS(MPI_ERR_ARG, MPI_Group_range_incl(world, 1, (int[][3]){{0, 3, 0}}, &new));
    FAILS(MPI_ERR_RANK, MPI_Group_range_incl(world, 2, (int[][3]){{0, 2, 1}, {2, 3, 1}}, &new));
    FAILS(MPI_ERR_ARG, MPI_Group_range_excl(world, -5, (int[][3]){{0, 3, 1}}, &new));
    FAILS(MPI_ERR_RANK, MPI_Group_translate_ranks(world, 1, (int[]){4}, world, &value));
    FAILS(MPI_ERR_RANK, MPI_Group_translate_ranks(world, 1, (int[]){-1}, world, &value));
    FAILS(MPI_ERR_ARG, MPI_Group_translate_ranks(world, 1, NULL, world, &value));
    FAILS(MPI_ERR_ARG, MPI_Group_translate_ranks(world, 1, (int[]){0}, world, NULL));
    FAILS(MPI_ERR_ARG, MPI_Group_free(NULL));
    FAILS(MPI_ERR_COMM, MPI_Comm_group(MPI_COMM_NULL, &new));
    FAILS(MPI_ERR_ARG, MPI_Comm_group(MPI_COMM_WORLD, NULL));
}

static void of_a_session(MPI_Group world)
{
    MPI_Session session;
    MPI_Group group;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    CHECK(compare(group, world) == MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    CHECK(size_of(group) == 1);
    OK(MPI_Group_free(&group));
    FAILS(MPI_ERR_ARG, MPI_Group_from_session_pset(session, "mpi://NOBODY", &group));
    FAILS(MPI_ERR_ARG, MPI_Group_from_session_pset(session, NULL, &group));
    FAILS(MPI_ERR_ARG, MPI_Group_from_session_pset(session, "mpi://SELF", NULL));
    OK(MPI_Session_finalize(&session));
    FAILS(MPI_ERR_SESSION, MPI_Group_from_session_pset(session, "mpi://SELF", &group));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    int rank = rank_of(MPI_COMM_WORLD);
    MPI_Group world;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK(size_of(world) == 4);
    made_of_others(world);
    looked_at(world, rank);
    refused(world);
    of_a_session(world);
    OK(MPI_Group_free(&world));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    done(rank);
    OK(MPI_Finalize());
    return 0;
}
