/* Process topologies: grids, graphs that all know, graphs of which each knows its part. Any number of ranks. */
#include "check.h"

static int rank, size;

static int kind_of(MPI_Comm comm)
{
    int kind = -1;
    OK(MPI_Topo_test(comm, &kind));
    return kind;
}

static MPI_Errhandler handler_of(MPI_Comm comm)
{
    MPI_Errhandler handler;
    OK(MPI_Comm_get_errhandler(comm, &handler));
    return handler;
}

static void dimensions(void)
{
    int six[2] = {0, 0}, three[3] = {0, 3, 0}, full[2] = {2, 2}, negative[1] = {-1};
    OK(MPI_Dims_create(6, 2, six));
    CHECK(six[0] == 3 && six[1] == 2);
    OK(MPI_Dims_create(6, 3, three));
    CHECK(three[0] == 2 && three[1] == 3 && three[2] == 1);
    int many[4] = {0, 0, 0, 0};
    OK(MPI_Dims_create(360, 4, many));
    CHECK(many[0] == 6 && many[1] == 5 && many[2] == 4 && many[3] == 3);
    FAILS(MPI_ERR_DIMS, MPI_Dims_create(7, 3, (int[]){0, 3, 0}));
    FAILS(MPI_ERR_DIMS, MPI_Dims_create(5, 2, full));
    FAILS(MPI_ERR_DIMS, MPI_Dims_create(4, 1, negative));
    FAILS(MPI_ERR_DIMS, MPI_Dims_create(0, 2, six));
    FAILS(MPI_ERR_DIMS, MPI_Dims_create(4, -1, six));
}

/* All ranks in a grid of two dimensions, of which the first is a ring. */
static void grid(void)
{
    MPI_Comm comm, copy, part;
    MPI_Request request;
    int dims[3] = {0, 0}, periods[3] = {1, 0}, coords[3], got, n, source, dest;
    OK(MPI_Dims_create(size, 2, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &comm));
    CHECK(comm != MPI_COMM_NULL && kind_of(comm) == MPI_CART && kind_of(MPI_COMM_WORLD) == MPI_UNDEFINED);
    CHECK(handler_of(comm) == MPI_ERRORS_RETURN);
    OK(MPI_Cartdim_get(comm, &n));
    CHECK(n == 2);
    int got_dims[2], got_periods[2];
    OK(MPI_Cart_get(comm, 2, got_dims, got_periods, coords));
    CHECK(!memcmp(dims, got_dims, sizeof got_dims) && !memcmp(periods, got_periods, sizeof got_periods));
    int mine = rank_of(comm);
    CHECK(coords[0] == mine / dims[1] && coords[1] == mine % dims[1]);
    for (int i = 0; i < size; i++) {
        OK(MPI_Cart_coords(comm, i, 3, coords));
        coords[0] += 5 * dims[0] * (i % 2 ? 1 : -1);
        OK(MPI_Cart_rank(comm, coords, &got));
        CHECK(got == i);
    }
    FAILS(MPI_ERR_ARG, MPI_Cart_rank(comm, (int[]){0, dims[1]}, &got));
    FAILS(MPI_ERR_RANK, MPI_Cart_coords(comm, size, 2, coords));
    FAILS(MPI_ERR_DIMS, MPI_Cart_coords(comm, 0, 1, coords));
    OK(MPI_Cart_coords(comm, mine, 2, coords));
    OK(MPI_Cart_shift(comm, 0, 1, &source, &dest));
    CHECK(source == ((coords[0] + dims[0] - 1) % dims[0]) * dims[1] + coords[1]);
    CHECK(dest == ((coords[0] + 1) % dims[0]) * dims[1] + coords[1]);
    OK(MPI_Cart_shift(comm, 1, -1, &source, &dest));
    CHECK(source == (coords[1] + 1 < dims[1] ? mine + 1 : MPI_PROC_NULL));
    CHECK(dest == (coords[1] > 0 ? mine - 1 : MPI_PROC_NULL));
    OK(MPI_Cart_shift(comm, 1, 0, &source, &dest));
    CHECK(source == mine && dest == mine);
    FAILS(MPI_ERR_DIMS, MPI_Cart_shift(comm, 2, 1, &source, &dest));
    FAILS(MPI_ERR_DIMS, MPI_Cart_shift(comm, -1, 1, &source, &dest));

    /* A duplicate has it too, whichever way it is made; other communicators have not. */
    OK(MPI_Comm_idup(comm, &copy, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(kind_of(copy) == MPI_CART);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Cart_get(copy, 2, got_dims, got_periods, coords));
    CHECK(!memcmp(dims, got_dims, sizeof got_dims));
    OK(MPI_Comm_compare(comm, copy, &got));
    CHECK(got == MPI_CONGRUENT);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_split(comm, 0, 0, &copy));
    CHECK(kind_of(copy) == MPI_UNDEFINED);
    OK(MPI_Comm_free(&copy));

    OK(MPI_Cart_sub(comm, (int[]){0, 1}, &part));
    OK(MPI_Cart_get(part, 1, got_dims, got_periods, coords));
    CHECK(got_dims[0] == dims[1] && !got_periods[0] && coords[0] == mine % dims[1]);
    OK(MPI_Comm_free(&part));
    OK(MPI_Cart_sub(comm, (int[]){0, 0}, &part));
    OK(MPI_Cartdim_get(part, &n));
    CHECK(n == 0);
    OK(MPI_Comm_size(part, &got));
    CHECK(got == 1);
    OK(MPI_Cart_rank(part, NULL, &got));
    CHECK(got == 0);
    OK(MPI_Cart_get(part, 0, NULL, NULL, NULL));
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_free(&comm));

    /* Grids that are smaller, of one rank, and greater than the communicator. */
    OK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &comm));
    CHECK((comm != MPI_COMM_NULL) == (rank == 0));
    if (rank == 0)
        OK(MPI_Comm_free(&comm));
    OK(MPI_Cart_map(MPI_COMM_WORLD, 1, (int[]){1}, periods, &got));
    CHECK(got == (rank == 0 ? 0 : MPI_UNDEFINED));
    /* A grid without ranks has a place for nobody. */
    OK(MPI_Cart_map(MPI_COMM_WORLD, 2, (int[]){2, 0}, periods, &got));
    CHECK(got == MPI_UNDEFINED);
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, 0}, periods, 0, &comm));
    CHECK(comm == MPI_COMM_NULL);
    FAILS(MPI_ERR_DIMS, MPI_Cart_map(MPI_COMM_WORLD, 1, (int[]){-1}, periods, &got));
    FAILS(MPI_ERR_DIMS, MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){size + 1}, periods, 0, &comm));
    FAILS(MPI_ERR_DIMS, MPI_Cart_create(MPI_COMM_WORLD, -1, dims, periods, 0, &comm));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Cart_rank(MPI_COMM_WORLD, coords, &got));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(MPI_COMM_WORLD, &got));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(&n, 1, MPI_INT, coords, 1, MPI_INT, MPI_COMM_WORLD));
}

/* A line of ranks. */
static void graph(void)
{
    MPI_Comm comm;
    int indx[64], edges[128], got_index[64], got_edges[128], n = 0, got, nedges;
    for (int i = 0; i < size; i++) {
        if (i > 0)
            edges[n++] = i - 1;
        if (i + 1 < size)
            edges[n++] = i + 1;
        indx[i] = n;
    }
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, indx, edges, 1, &comm));
    CHECK(kind_of(comm) == MPI_GRAPH && handler_of(comm) == MPI_ERRORS_RETURN);
    OK(MPI_Graphdims_get(comm, &got, &nedges));
    CHECK(got == size && nedges == n);
    OK(MPI_Graph_get(comm, size, n, got_index, got_edges));
    CHECK(!memcmp(indx, got_index, size * sizeof(int)) && !memcmp(edges, got_edges, n * sizeof(int)));
    for (int i = 0; i < size; i++) {
        int from = i ? indx[i - 1] : 0;
        OK(MPI_Graph_neighbors_count(comm, i, &got));
        CHECK(got == indx[i] - from);
        OK(MPI_Graph_neighbors(comm, i, 2, got_edges));
        CHECK(!memcmp(edges + from, got_edges, got * sizeof(int)));
    }
    FAILS(MPI_ERR_RANK, MPI_Graph_neighbors_count(comm, size, &got));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(comm, &got));
    if (n > 0)
        FAILS(MPI_ERR_ARG, MPI_Graph_get(comm, size, n - 1, got_index, got_edges));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &comm));
    CHECK(comm == MPI_COMM_NULL);
    OK(MPI_Graph_map(MPI_COMM_WORLD, 1, (int[]){1}, (int[]){0}, &got));
    CHECK(got == (rank == 0 ? 0 : MPI_UNDEFINED));
    FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, 1, (int[]){1}, (int[]){7}, 0, &comm));
    FAILS(MPI_ERR_ARG, MPI_Graph_create(MPI_COMM_WORLD, -1, indx, edges, 0, &comm));
}

/* A ring with two edges to the right of each rank, declared by both ends, by the left one, and by the first rank. */
static void distributed(void)
{
    MPI_Comm comm, copy;
    int left = (rank + size - 1) % size, right = (rank + 1) % size, ins, outs, weighted;
    int from[2] = {left, left}, to[2] = {right, right};
    int in_weights[2] = {2 * left, 2 * left + 1}, out_weights[2] = {2 * rank, 2 * rank + 1};
    int sources[3], destinations[3], weights[2][3];
    for (int how = 0; how < 3; how++) {
        if (how == 0) {
            OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, in_weights, 2, to, out_weights,
                                              MPI_INFO_NULL, 0, &comm));
        } else if (how == 1) {
            OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, (int[]){2}, to, out_weights,
                                     MPI_INFO_NULL, 1, &comm));
        } else {
            int all[64], degrees[64], ends[128], all_weights[128], n = rank == 0 ? size : 0;
            for (int i = 0; i < size; i++) {
                all[i] = i, degrees[i] = 2;
                ends[2 * i] = ends[2 * i + 1] = (i + 1) % size;
                all_weights[2 * i] = 2 * i, all_weights[2 * i + 1] = 2 * i + 1;
            }
            OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, all, degrees, ends,
                                     n ? all_weights : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &comm));
        }
        CHECK(kind_of(comm) == MPI_DIST_GRAPH && handler_of(comm) == MPI_ERRORS_RETURN);
        OK(MPI_Comm_dup(comm, &copy));
        OK(MPI_Dist_graph_neighbors_count(copy, &ins, &outs, &weighted));
        CHECK(ins == 2 && outs == 2 && weighted);
        OK(MPI_Dist_graph_neighbors(copy, 3, sources, weights[0], 3, destinations, weights[1]));
        for (int i = 0; i < 2; i++) {
            CHECK(sources[i] == left && destinations[i] == right);
            CHECK(weights[0][i] == in_weights[i] && weights[1][i] == out_weights[i]);
        }
        /* As many as there is space for, without weights. */
        sources[1] = destinations[0] = -5;
        OK(MPI_Dist_graph_neighbors(copy, 1, sources, MPI_UNWEIGHTED, 0, destinations, MPI_UNWEIGHTED));
        CHECK(sources[0] == left && sources[1] == -5 && destinations[0] == -5);
        OK(MPI_Comm_free(&copy));
        OK(MPI_Comm_free(&comm));
    }
    /* Without weights, which then are not written; and a graph of no edges. */
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &comm));
    OK(MPI_Dist_graph_neighbors_count(comm, &ins, &outs, &weighted));
    CHECK(!weighted);
    weights[0][0] = weights[1][0] = -5;
    OK(MPI_Dist_graph_neighbors(comm, 2, sources, weights[0], 2, destinations, weights[1]));
    CHECK(weights[0][0] == -5 && weights[1][0] == -5 && sources[1] == left);
    FAILS(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(comm, &ins, &outs));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL,
                                      MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &comm));
    OK(MPI_Dist_graph_neighbors_count(comm, &ins, &outs, &weighted));
    CHECK(ins == 0 && outs == 0 && weighted);
    OK(MPI_Comm_free(&comm));
    FAILS(MPI_ERR_RANK, MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &size, MPI_UNWEIGHTED, 0, NULL,
                                                       MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    FAILS(MPI_ERR_ARG, MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, to,
                                                      out_weights, MPI_INFO_NULL, 0, &comm));
    FAILS(MPI_ERR_ARG, MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, (int[]){-2}, to, MPI_UNWEIGHTED,
                                             MPI_INFO_NULL, 0, &comm));
}

int main(void)
{
    OK(MPI_Init(NULL, NULL));
    errors_return();
    rank = rank_of(MPI_COMM_WORLD);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    dimensions();
    grid();
    graph();
    distributed();
    OK(MPI_Finalize());
    done(rank);
    return 0;
}
