//! Topologies on real ranks, and the collectives between neighbours: blocking, nonblocking and persistent ones, each
//! beside what the grid or the list of edges says must come.

use bowline_mpi::{
    Communicator, Graph, MpiError, PROC_NULL, Partition, PersistentCollective, Topology, World,
    dims_create,
};
use proptest::prelude::*;

use super::start::{Lines, both_ways, ranks};

/// What a rank sends: who it is, which block, and a number that grows in it.
fn block(rank: i32, index: usize, len: usize) -> Vec<u64> {
    (0..len as u64).map(|at| (rank as u64) << 40 | (index as u64) << 32 | at).collect()
}

/// Stands where nothing is written.
const UNTOUCHED: u64 = u64::MAX;

/// Runs one that is made twice, with its input changed between.
fn twice(mut made: PersistentCollective<u64>, input: &[u64]) -> Vec<u64> {
    made.input_mut().unwrap().fill(0);
    for round in 0..2 {
        made.start().unwrap();
        if round == 0 {
            made.wait().unwrap();
            made.input_mut().unwrap().copy_from_slice(input);
            made.output_mut().unwrap().fill(UNTOUCHED);
        } else {
            while !made.test().unwrap() {}
        }
    }
    made.into_buffers().unwrap().1
}

/// The forms of an exchange give what is expected of each pair: the neighbour of a block and the number that the block
/// has there, or nobody.
fn exchanges(comm: &Communicator, expected: &[Option<(i32, usize)>], len: usize) {
    let (indegree, outdegree) = comm.neighbor_degrees().unwrap();
    assert_eq!(indegree, expected.len());
    let untouched = || vec![UNTOUCHED; indegree * len];
    let all = |of: &dyn Fn((i32, usize)) -> Vec<u64>| -> Vec<u64> {
        let blocks = expected.iter().map(|from| from.map_or(vec![UNTOUCHED; len], of));
        blocks.flatten().collect()
    };
    let input: Vec<u64> = (0..outdegree).flat_map(|index| block(comm.rank(), index, len)).collect();
    let right = all(&|(from, index)| block(from, index, len));
    let mut output = untouched();
    comm.neighbor_alltoall(&input, &mut output).unwrap();
    assert_eq!(output, right);

    let own = block(comm.rank(), 9, len);
    let gathered = all(&|(from, _)| block(from, 9, len));
    let (mut first, mut second, mut third) = (untouched(), untouched(), untouched());
    comm.neighbor_allgather(&own, &mut first).unwrap();
    assert_eq!(first, gathered);
    first = untouched();
    comm.scope(|scope| {
        let one = scope.ineighbor_allgather(comm, &own, &mut first)?;
        let other = scope.ineighbor_alltoall(comm, &input, &mut second)?;
        comm.neighbor_allgather(&own, &mut third)?;
        other.wait()?;
        one.wait()
    })
    .unwrap();
    assert_eq!((&first, &second, &third), (&gathered, &right, &gathered));
    let made = comm.neighbor_alltoall_init(input.clone(), untouched()).unwrap();
    assert_eq!(twice(made, &input), right);
    let made = comm.neighbor_allgather_init(own.clone(), untouched()).unwrap();
    assert_eq!(twice(made, &own), gathered);
}

#[test]
fn neighbours_in_grids_of_any_shape() {
    for size in [1, 2, 3, 4, 6, 8] {
        both_ways(size, |world| {
            for shape in 0..8_usize {
                let mut dims = vec![0; shape % 4];
                if dims_create(world.size(), &mut dims).is_err() {
                    // The grid of no dimensions has one rank.
                    assert!(dims.is_empty() && world.size() > 1);
                }
                let periods: Vec<bool> = (0..dims.len()).map(|at| shape >> at & 3 != 1).collect();
                let Some(comm) = world.cart_create(&dims, &periods, shape % 2 == 0).unwrap() else {
                    assert!(dims.is_empty() && world.rank() > 0);
                    continue;
                };
                let cart = comm.cart().unwrap();
                assert_eq!((cart.dims(), cart.periods()), (&dims[..], &periods[..]));
                let coords = comm.cart_coords(comm.rank()).unwrap();
                assert_eq!(comm.cart_rank(&coords).unwrap(), comm.rank());
                let mut expected = Vec::new();
                for direction in 0..dims.len() {
                    let (below, above) = comm.cart_shift(direction, 1).unwrap();
                    // What goes down arrives from above.
                    for (rank, index) in [(below, 2 * direction + 1), (above, 2 * direction)] {
                        expected.push((rank != PROC_NULL).then_some((rank, index)));
                    }
                }
                [0, 3, 2000].into_iter().for_each(|len| exchanges(&comm, &expected, len));
            }
        });
    }
}

/// A rank of a line of three, whose first has nobody before it.
#[test]
fn exchanges_are_recorded_as_messages() {
    let all: [Lines; 3] = Default::default();
    ranks(3, |world| {
        world.record(Box::new(all[world.rank() as usize].clone()));
        let line = world.cart_create(&[3], &[false], false).unwrap().unwrap();
        line.neighbor_alltoall(&[1_u64, 2], &mut [0; 2]).unwrap();
    });
    for (rank, neighbours) in [(0, vec![1]), (1, vec![0, 2]), (2, vec![1])] {
        let text = all[rank as usize].text();
        let of = |word: &str| {
            let lines = text.lines().filter(|line| line.contains("\"of\":\"neighbor_alltoall\""));
            let number = |line: &str| {
                let rest = line.split_once(&format!("\"{word}\":"))?.1;
                let (peer, rest) = rest.split_once(',')?;
                assert!(rest.contains("\"tag\":4294967295,\"bytes\":8,"), "{line}");
                peer.parse::<i32>().ok()
            };
            let mut peers: Vec<i32> = lines.filter_map(number).collect();
            peers.sort_unstable();
            peers
        };
        assert_eq!((of("send"), of("recv")), (neighbours.clone(), neighbours), "{text}");
    }
}

#[test]
fn parts_duplicates_and_others_of_a_grid() {
    ranks(6, |world| {
        assert!(world.topology().is_none());
        let comm = world.cart_create(&[2, 3], &[true, false], false).unwrap().unwrap();
        let copy = comm.dup().unwrap();
        assert_eq!(copy.topology(), comm.topology());
        exchanges(
            &copy,
            &[1, 0, 3, 2].map(|index| {
                let (below, above) = copy.cart_shift(index / 2, 1).unwrap();
                let rank = if [1, 3].contains(&index) { below } else { above };
                (rank != PROC_NULL).then_some((rank, index))
            }),
            4,
        );
        assert!(comm.split(0, 0).unwrap().unwrap().topology().is_none());
        assert!(comm.create(&comm.group()).unwrap().unwrap().topology().is_none());
        for kept in [[true, true], [true, false], [false, true], [false, false]] {
            let part = comm.cart_sub(&kept).unwrap();
            let coords = comm.cart_coords(comm.rank()).unwrap();
            let pick = |all: &[i32]| -> Vec<i32> {
                all.iter().zip(kept).filter(|(_, kept)| *kept).map(|(&one, _)| one).collect()
            };
            let cart = part.cart().unwrap();
            assert_eq!(cart.dims(), pick(&[2, 3]));
            assert_eq!(cart.coords(part.rank()).unwrap(), pick(&coords));
            assert_eq!(part.size(), cart.size());
            part.neighbor_allgather(&[1], &mut vec![0; 2 * cart.dims().len()]).unwrap();
        }
        let small = world.cart_create(&[2, 2], &[true, true], true).unwrap();
        assert_eq!(small.is_some(), world.rank() < 4);
        assert_eq!(world.cart_map(&[2, 2], &[true; 2]).unwrap().is_some(), world.rank() < 4);
        // A ring in which every second rank has no neighbour.
        let graph = world.graph_create(&[1, 1, 2, 2], &[2, 0], false).unwrap();
        assert_eq!(graph.is_some(), world.rank() < 4);
        if let Some(graph) = graph {
            let expected = [Some((2, 0)), None, Some((0, 0)), None][graph.rank() as usize];
            let expected: Vec<_> = expected.into_iter().map(Some).collect();
            exchanges(&graph, &expected, 5);
        }
    });
}

fn wrong<T>(made: Result<T, MpiError>) -> MpiError {
    made.map(drop).unwrap_err()
}

#[test]
fn what_is_no_topology_is_an_error() {
    ranks(2, |world| {
        assert!(matches!(world.cart_coords(0), Err(MpiError::NoTopology { .. })));
        assert!(matches!(world.graph(), Err(MpiError::NoTopology { .. })));
        let none = world.neighbor_allgather(&[1], &mut [0]);
        assert!(matches!(none, Err(MpiError::NoTopology { .. })));
        let invalid = |error| matches!(error, MpiError::InvalidDims { .. });
        assert!(invalid(wrong(world.cart_create(&[3], &[true], false))));
        assert!(invalid(wrong(world.cart_create(&[-1], &[true], false))));
        assert!(matches!(world.cart_create(&[0], &[true], false), Ok(None)), "it has no ranks");
        let error = wrong(world.cart_create(&[2], &[], false));
        assert!(matches!(error, MpiError::InvalidLength { .. }));
        let error = wrong(world.graph_create(&[0, 0, 0], &[], false));
        assert!(matches!(error, MpiError::InvalidGraph { .. }));
        let error = wrong(world.dist_graph_create_adjacent((&[2], None), (&[], None), false));
        assert_eq!(error, MpiError::InvalidRank { rank: 2, size: 2 });
        for (ins, outs) in [
            ((&[1][..], Some(&[-1][..])), (&[][..], Some(&[][..]))),
            ((&[1], Some(&[1])), (&[1], None)),
        ] {
            let error = wrong(world.dist_graph_create_adjacent(ins, outs, false));
            assert!(matches!(error, MpiError::InvalidGraph { .. }));
        }
        let loops = ((&[world.rank()][..], None), (&[][..], None));
        let loops = world.dist_graph_create_adjacent(loops.0, loops.1, false).unwrap();
        let error = wrong(loops.neighbor_allgather(&[1], &mut [0]));
        assert!(matches!(error, MpiError::InvalidGraph { .. }));
        // A graph may be asked for its edges whether or not their other ends have declared them.
        let other = [1 - world.rank()];
        let half = world.dist_graph_create_adjacent((&other, None), (&[], None), false).unwrap();
        assert_eq!(half.neighbor_degrees().unwrap(), (1, 0));
        let ring = world.cart_create(&[2], &[true], false).unwrap().unwrap();
        assert!(matches!(ring.cart_shift(1, 1), Err(MpiError::InvalidDims { .. })));
        let long = ring.neighbor_alltoall(&[1, 2, 3], &mut [0; 4]);
        assert!(matches!(long, Err(MpiError::InvalidLength { .. })));
        let long = ring.neighbor_allgather(&[1], &mut [0; 3]);
        assert!(matches!(long, Err(MpiError::InvalidLength { .. })));
        // One gives more than the other one takes.
        let mut output = [0; 4];
        let count = 1 + world.rank() as usize;
        let outcome = ring.neighbor_allgather(&vec![1; count], &mut output[..2 * count]);
        assert!(matches!(outcome, Err(MpiError::CountMismatch { .. })), "{outcome:?}");
    });
}

/// An edge: who declares it, its ends, its weight.
type Edge = (usize, i32, i32, i32);

/// The edges of a rank, in the order that declaring them gives: those that it declares itself stand in the order of
/// sources in its call.
fn in_order(edges: &[Edge], size: usize) -> Vec<Edge> {
    let of = |rank: usize| {
        let mut own: Vec<Edge> = edges.iter().copied().filter(|edge| edge.0 == rank).collect();
        own.sort_by_key(|edge| edge.1);
        own
    };
    (0..size).flat_map(of).collect()
}

/// A communicator of a graph that its ranks declare in parts.
fn declared(world: &World, edges: &[Edge], weighted: bool) -> Communicator {
    let own: Vec<&Edge> = edges.iter().filter(|edge| edge.0 == world.rank() as usize).collect();
    let mut sources: Vec<i32> = own.iter().map(|edge| edge.1).collect();
    sources.dedup();
    let degree = |from: &i32| own.iter().filter(|edge| edge.1 == *from).count() as i32;
    let degrees: Vec<i32> = sources.iter().map(degree).collect();
    let destinations: Vec<i32> = own.iter().map(|edge| edge.2).collect();
    let weights: Vec<i32> = own.iter().map(|edge| edge.3).collect();
    let weights = weighted.then_some(&weights[..]);
    world.dist_graph_create(&sources, &degrees, (&destinations, weights), true).unwrap()
}

fn check_graph(world: &World, edges: &[Edge], weighted: bool) {
    let me = world.rank();
    let comm = declared(world, edges, weighted);
    let ins: Vec<&Edge> = edges.iter().filter(|edge| edge.2 == me).collect();
    let outs: Vec<&Edge> = edges.iter().filter(|edge| edge.1 == me).collect();
    let list = |edges: &[&Edge], field: fn(&Edge) -> i32| -> Vec<i32> {
        edges.iter().map(|edge| field(edge)).collect()
    };
    let graph = comm.dist_graph().unwrap();
    assert_eq!(graph.sources(), list(&ins, |edge| edge.1));
    assert_eq!(graph.destinations(), list(&outs, |edge| edge.2));
    let weights = (list(&ins, |edge| edge.3), list(&outs, |edge| edge.3));
    let expected = weighted.then_some((&weights.0[..], &weights.1[..]));
    assert_eq!(graph.source_weights().zip(graph.destination_weights()), expected);
    let same = world
        .dist_graph_create_adjacent(
            (graph.sources(), graph.source_weights()),
            (graph.destinations(), graph.destination_weights()),
            false,
        )
        .unwrap();
    assert_eq!(same.topology(), Some(&Topology::DistGraph(graph.clone())));

    // A block has the length of its edge's weight; the number of an edge among those of its source is the block's.
    let number = |edge: &Edge| {
        let mut of_source = edges.iter().filter(|other| other.1 == edge.1);
        of_source.position(|other| std::ptr::eq(other, edge)).unwrap()
    };
    let lengths =
        |edges: &[&Edge]| -> Vec<usize> { edges.iter().map(|edge| edge.3 as usize).collect() };
    let places = |counts: &[usize], gap: usize| -> Vec<usize> {
        let start = |at: &mut usize, count: &usize| Some(std::mem::replace(at, *at + count + gap));
        counts.iter().scan(gap, start).collect()
    };
    let (sent, received) = (lengths(&outs), lengths(&ins));
    let (from, into) = (places(&sent, 0), places(&received, 1));
    let (send, receive) = (Partition::new(&sent, &from), Partition::new(&received, &into));
    let input: Vec<u64> =
        outs.iter().enumerate().flat_map(|(at, edge)| block(me, at, edge.3 as usize)).collect();
    let mut expected = vec![UNTOUCHED];
    for edge in &ins {
        expected.extend(block(edge.1, number(edge), edge.3 as usize));
        expected.push(UNTOUCHED);
    }
    let untouched = || vec![UNTOUCHED; expected.len()];
    let mut output = untouched();
    comm.neighbor_alltoallv(&input, send, &mut output, receive).unwrap();
    assert_eq!(output, expected);
    output = untouched();
    same.scope(|scope| {
        scope.ineighbor_alltoallv(&same, &input, send, &mut output, receive)?.wait()
    })
    .unwrap();
    assert_eq!(output, expected);
    let made = comm.neighbor_alltoallv_init(input.clone(), send, untouched(), receive).unwrap();
    assert_eq!(twice(made, &input), expected);

    // All neighbours of a rank get as much as it gives.
    let given = |rank: i32| [0, 1, 900][rank as usize % 3];
    let counts: Vec<usize> = ins.iter().map(|edge| given(edge.1)).collect();
    let into = places(&counts, 1);
    let receive = Partition::new(&counts, &into);
    let own = block(me, 5, given(me));
    let mut expected = vec![UNTOUCHED];
    for edge in &ins {
        expected.extend(block(edge.1, 5, given(edge.1)));
        expected.push(UNTOUCHED);
    }
    let untouched = || vec![UNTOUCHED; expected.len()];
    let mut output = untouched();
    comm.neighbor_allgatherv(&own, &mut output, receive).unwrap();
    assert_eq!(output, expected);
    output = untouched();
    comm.scope(|scope| scope.ineighbor_allgatherv(&comm, &own, &mut output, receive)?.wait())
        .unwrap();
    assert_eq!(output, expected);
    let made = comm.neighbor_allgatherv_init(own.clone(), untouched(), receive).unwrap();
    assert_eq!(twice(made, &own), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Edges between any two ranks, any number of times, declared by anybody.
    #[test]
    fn graphs_with_edges_of_any_kind(
        size in 1..6_usize,
        edges in prop::collection::vec((0..6_usize, 0..6_i32, 0..6_i32, 0..4_usize), 0..24),
        weighted: bool,
    ) {
        let n = size as i32;
        let edge = |&(by, from, to, len): &(usize, i32, i32, usize)| {
            (by % size, from % n, to % n, [0, 1, 7, 3000][len])
        };
        let edges: Vec<Edge> = edges.iter().map(edge).collect();
        let edges = in_order(&edges, size);
        ranks(size, |world| check_graph(world, &edges, weighted));
    }
}

#[test]
fn a_graph_is_known_as_a_whole() {
    ranks(4, |world| {
        let (index, edges) = ([2, 3, 4, 6], [1, 3, 0, 3, 0, 2]);
        let comm = world.graph_create(&index, &edges, true).unwrap().unwrap();
        let graph: &Graph = comm.graph().unwrap();
        assert_eq!((graph.index(), graph.edges()), (&index[..], &edges[..]));
        assert_eq!(graph.neighbors(3).unwrap(), [0, 2]);
        assert_eq!(world.graph_map(&index[..1], &[0, 0]).unwrap().is_some(), world.rank() == 0);
        assert!(world.graph_create(&[], &[], false).unwrap().is_none());
        let right: [&[Option<(i32, usize)>]; 4] = [
            &[Some((1, 0)), Some((3, 0))],
            &[Some((0, 0))],
            &[Some((3, 1))],
            &[Some((0, 1)), Some((2, 0))],
        ];
        exchanges(&comm, right[world.rank() as usize], 3);
    });
}
