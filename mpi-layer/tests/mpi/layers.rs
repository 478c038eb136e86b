//! Collectives of ranks that take themselves to be on several nodes: in layers, where costs say so.

use bowline_mpi::{Partition, Sum, World};

use super::multiplying::{all_collectives, ordered_collectives};
use super::raw::blocks_of_any_layout;
use super::start::{Lines, ranks_on_nodes};

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

/// Three ways to collect blocks of different lengths, which lie in reverse order with gaps if they are scattered. What the
/// rank has recorded is complete when its world has ended.
fn collected(world: &World, counts: &[usize], scattered: bool) -> Lines {
    let lines = Lines::default();
    world.record(Box::new(lines.clone()));
    let rank = world.rank() as usize;
    let (mut starts, mut len) = (vec![0; counts.len()], 0);
    let mut order: Vec<_> = (0..counts.len()).collect();
    if scattered {
        order.reverse();
    }
    for rank in order {
        len += usize::from(scattered);
        starts[rank] = len;
        len += counts[rank];
    }
    let partition = Partition { counts, displacements: &starts };
    let own = vec![rank as u16 + 1; counts[rank]];
    let mut wanted = vec![0; len];
    for rank in 0..counts.len() {
        wanted[starts[rank]..][..counts[rank]].fill(rank as u16 + 1);
    }
    let mut now = vec![0; len];
    world.allgatherv(&own, &mut now, partition).unwrap();
    let mut later = vec![0; len];
    world.scope(|scope| scope.iallgatherv(world, &own, &mut later, partition)?.wait()).unwrap();
    let mut again = world.allgatherv_init(own, vec![0; len], partition).unwrap();
    again.start().unwrap();
    again.wait().unwrap();
    assert!(now == wanted && later == wanted && again.output().unwrap() == wanted);
    lines
}

/// The algorithms of the collections that ranks of these nodes have recorded: three each.
fn algorithms(
    nodes: &[u32],
    settings: &[(&str, &str)],
    counts: &[usize],
    scattered: bool,
) -> Vec<String> {
    let lines = ranks_on_nodes(false, nodes, settings, |world| collected(world, counts, scattered));
    let text: String = lines.iter().map(Lines::text).collect();
    let how = |line: &str| Some(line.split_once("\"how\":\"")?.1.split_once('"')?.0.to_owned());
    let all = text.lines().filter(|line| line.contains("\"coll\":\"allgatherv\""));
    let all: Vec<_> = all.filter_map(how).collect();
    assert_eq!(all.len(), 3 * nodes.len(), "{text}");
    all
}

/// By name and by costs, blocking, in the background and persistent, whatever is empty.
#[test]
fn blocks_of_different_lengths_are_collected_in_layers() {
    let dear = "shm/tcp,pipelining=1000000";
    let all: [&[usize]; 3] = [&[3, 0, 5, 400, 1, 0, 7], &[0, 0, 9000, 0, 0, 0, 0], &[0; 7]];
    for (costs, asked) in [
        (dear, "auto"),
        ("shm/tcp", "nodes:linear:ring"),
        ("shm/tcp", "nodes:binomial:bruck"),
        ("shm/tcp", "nodes:binomial:direct"),
        // Nodes have blocks of different lengths, for which that is not.
        (dear, "nodes:linear:doubling"),
    ] {
        let settings = [("BOWLINE_COLL_COSTS", costs), ("BOWLINE_ALLGATHER", asked)];
        for (counts, scattered) in all.into_iter().flat_map(|all| [(all, false), (all, true)]) {
            let names = algorithms(&[0, 0, 0, 3, 3, 1, 1], &settings, counts, scattered);
            let right = |name: &String| match asked {
                "auto" | "nodes:linear:doubling" => {
                    name.starts_with("nodes:") && !name.ends_with("doubling")
                }
                asked => name == asked,
            };
            assert!(names.iter().all(right), "{asked}: {names:?}");
            // Nodes whose ranks do not follow each other have no layers for blocks.
            let names = algorithms(&[0, 1, 0, 1, 0, 1, 0], &settings, counts, scattered);
            assert!(names.iter().all(|name| !name.starts_with("nodes:")), "{names:?}");
        }
    }
}

/// Elements of any layout, in place and each way.
#[test]
fn blocks_of_any_layout_are_collected_in_layers() {
    for (nodes, algorithm) in [
        (&[0, 0, 0, 3, 3, 1, 1][..], "nodes:linear:ring"),
        (&[4, 4, 4, 1, 1], "nodes:binomial:bruck"),
        (&[0, 0, 1, 1], "nodes:binomial:direct"),
    ] {
        let settings = [("BOWLINE_COLL_COSTS", "shm/tcp"), ("BOWLINE_ALLGATHER", algorithm)];
        for seed in 0..8 {
            ranks_on_nodes(false, nodes, &settings, |world| blocks_of_any_layout(world, seed));
        }
    }
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
