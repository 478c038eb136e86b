//! Collectives of ranks that take themselves to be on several nodes: in layers, where costs say so.

use bowline_mpi::{Sum, World};

use super::multiplying::{all_collectives, ordered_collectives};
use super::start::ranks_on_nodes;

/// Nodes of one size, of several, in turn, and in no order.
const NODES: [&[u32]; 5] =
    [&[0, 0, 1, 1], &[4, 4, 4, 1, 1], &[0, 1, 0, 1, 0, 1], &[5, 2, 2, 2, 5, 9, 2], &[3, 3, 3]];

/// Everything, on all ranks and on two parts of them.
fn all(world: &World) {
    all_collectives(world);
    ordered_collectives(world);
    let odd = world.split(world.rank() % 2, -world.rank()).unwrap().unwrap();
    odd.barrier().unwrap();
    let mut sum = [0_i32; 3];
    odd.allreduce(&[odd.rank(), 1, 2], &mut sum, Sum).unwrap();
    let size = odd.size();
    assert_eq!(sum, [size * (size - 1) / 2, size, 2 * size]);
    let mut all = vec![0; size as usize];
    odd.allgather(&[world.rank()], &mut all).unwrap();
    assert!(all.is_sorted_by(|one, next| one > next));
}

#[test]
fn results_are_those_of_one_node() {
    for nodes in NODES {
        for costs in ["shm/tcp", "shm/tcp,pipelining=10000000", "shm,byte=0/tcp,byte=1000,copy=0"] {
            for shared in [false, true] {
                ranks_on_nodes(shared, nodes, &[("BOWLINE_COLL_COSTS", costs)], all);
            }
        }
    }
}

/// Blocks and prefixes in layers, by name; calls that nodes do not allow go as costs say.
#[test]
fn layers_that_are_asked_for_give_the_results() {
    for nodes in NODES {
        for (tree, other, exchange, prefix) in [
            ("linear", "binomial", "pairwise", "chain"),
            ("binomial", "linear", "direct", "doubling"),
        ] {
            let name = |among| format!("nodes:{tree}:{among}");
            for trees in [name(tree), name(other)] {
                let settings = [
                    ("BOWLINE_COLL_COSTS", "shm/tcp"),
                    ("BOWLINE_GATHER", &trees),
                    ("BOWLINE_SCATTER", &trees),
                    ("BOWLINE_ALLTOALL", &name(exchange)),
                    ("BOWLINE_SCAN", &name(prefix)),
                ];
                ranks_on_nodes(false, nodes, &settings, |world| {
                    all(world);
                    every_root(world);
                });
            }
        }
    }
}

/// Gathers and scatters of every root, at once and in the background, and prefixes without the own contribution.
fn every_root(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    let all: Vec<i32> = (0..2 * size).map(|item| item * item).collect();
    let own = &all[2 * rank as usize..][..2];
    for root in 0..size {
        let at_root = |items: &[i32]| if rank == root { items.to_vec() } else { Vec::new() };
        let (mut now, mut later) = (at_root(&vec![0; all.len()]), at_root(&vec![0; all.len()]));
        let (mut here, mut then) = ([0; 2], [0; 2]);
        world.gather(own, &mut now, root).unwrap();
        world.scatter(&now, &mut here, root).unwrap();
        world
            .scope(|scope| {
                scope.igather(world, own, &mut later, root)?.wait()?;
                scope.iscatter(world, &now, &mut then, root)?.wait()
            })
            .unwrap();
        assert!(now == at_root(&all) && later == now && here == own && then == own);
    }
    let mut sum = [-1, -1];
    world.exscan(&[rank, 1], &mut sum, Sum).unwrap();
    assert_eq!(sum, if rank == 0 { [-1, -1] } else { [rank * (rank - 1) / 2, rank] });
}

/// Contributions are added within nodes first: the order shows in the sum.
#[test]
fn nodes_are_layers_where_messages_between_them_are_dear() {
    let sum = |nodes: &[u32], costs: &str| {
        let of = |world: &World| {
            let number = [1.0, 1e16, 1.0, -1e16, 1.0, 1.0][world.rank() as usize];
            let mut sum = [0.0_f64];
            world.allreduce(&[number], &mut sum, Sum).unwrap();
            sum[0]
        };
        let sums = ranks_on_nodes(false, nodes, &[("BOWLINE_COLL_COSTS", costs)], of);
        assert!(sums.iter().all(|sum| *sum == sums[0]), "all ranks have the same bits");
        sums[0]
    };
    // The great numbers are on one node, which adds them before all others.
    let dear = "shm/tcp,pipelining=1000000";
    assert_eq!(sum(&[0, 1, 0, 1, 0, 0], dear), 4.0);
    // Or on two, where each of them takes in what is beside it.
    assert_eq!(sum(&[0, 0, 0, 1, 1, 1], dear), 0.0);
}
