//! Collectives by the algorithms that a user asks for, by name or by what messages cost.

use bowline_mpi::{CollOptions, Max, Partition, Sum, World, commutative, ordered};

use super::start::{both_ways_with, ranks_with};

/// Maps x -> ax + b, as a and b: their composition is associative and not commutative.
fn compose(left: [u32; 2], right: [u32; 2]) -> [u32; 2] {
    let [[a, b], [c, d]] = [left, right];
    [a.wrapping_mul(c), c.wrapping_mul(b).wrapping_add(d)]
}

fn map(rank: i32, index: usize) -> [u32; 2] {
    [2 * rank as u32 + 3, index as u32 + 7 * rank as u32]
}

/// Sums and compositions, blocking, in place and in the background.
fn reduce_everything(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    for len in [0, 1, 5, 3000] {
        let input: Vec<u64> = (0..len as u64).map(|index| index + rank as u64).collect();
        let wanted: Vec<u64> = (0..len as u64)
            .map(|index| index * size as u64 + (size * (size - 1) / 2) as u64)
            .collect();
        let mut output = vec![0; len];
        world.allreduce(&input, &mut output, Sum).unwrap();
        assert_eq!(output, wanted);
        let mut items = input.clone();
        world.allreduce_in_place(&mut items, Sum).unwrap();
        assert_eq!(items, wanted);
        let mut later = vec![0; len];
        world
            .scope(|scope| {
                let request = scope.iallreduce(world, &input, &mut later, Sum)?;
                world.barrier()?;
                request.wait()
            })
            .unwrap();
        assert_eq!(later, wanted);

        let maps: Vec<[u32; 2]> = (0..len).map(|index| map(rank, index)).collect();
        let mut composed = vec![[0; 2]; len];
        let op = ordered(compose);
        world.allreduce(&maps, &mut composed, op).unwrap();
        for (index, result) in composed.into_iter().enumerate() {
            let all = (1..size).fold(map(0, index), |all, rank| compose(all, map(rank, index)));
            assert_eq!(result, all, "{size} ranks, map {index}");
        }
    }
}

fn asked(algorithm: &str) -> [(&str, &str); 1] {
    [("BOWLINE_ALLREDUCE", algorithm)]
}

#[test]
fn every_form_and_ratio_gives_the_results() {
    let all = [
        "staged",
        "doubling",
        "halving",
        "flat",
        "reduce-bcast",
        "multiplying",
        "multiplying:0.1",
        "multiplying:9",
    ];
    for algorithm in all {
        for size in 1..=9 {
            ranks_with(size, &asked(algorithm), reduce_everything);
        }
    }
}

#[test]
fn schedules_are_for_communicators_of_their_size() {
    let all = [
        (4, "a4"),
        (6, "a3,a2"),
        (7, "m1g2a3,n1g3a2"),
        (7, "m3g2a2,n3g2a2"),
        (7, "o3g2a2,n3g2a2"),
        (7, "c6m2,a4,e6m2"),
        (6, "s6r,g6r"),
        (8, "s2,s2,s2,g2,g2,g2"),
        (8, "c8m2,s4,g4r,e8m2"),
        (9, "s3,a3,g3"),
        (10, "a2,c4m2,a3,e4m2"),
    ];
    for (size, schedule) in all {
        ranks_with(size, &asked(schedule), reduce_everything);
        // Others do without.
        ranks_with(size - 1, &asked(schedule), reduce_everything);
    }
}

/// Sums of four numbers whose order of additions shows in the result.
#[test]
fn the_algorithm_that_is_asked_for_is_the_one_that_runs() {
    let sum = |algorithm: &str| {
        let of = |world: &World| {
            let number = [1.0, 1e16, -1e16, 1.0][world.rank() as usize];
            let mut sum = [0.0_f64];
            world.allreduce(&[number], &mut sum, Sum).unwrap();
            sum[0].to_bits()
        };
        // Slots need memory that the ranks share, whatever the environment says of transports.
        let settings = [("BOWLINE_ALLREDUCE", algorithm), ("BOWLINE_TRANSPORTS", "self,shm")];
        let sums = ranks_with(4, &settings, of);
        assert!(sums.iter().all(|sum| *sum == sums[0]), "all ranks have the same bits");
        f64::from_bits(sums[0])
    };
    // Pairs first; or from the right, as shared memory does too.
    assert_eq!((sum("doubling"), sum("a2,a2")), (0.0, 0.0));
    assert_eq!((sum("a4"), sum("multiplying:9"), sum("staged")), (1.0, 1.0, 1.0));
}

#[test]
fn an_algorithm_that_does_not_exist_is_refused() {
    let mut config = bowline::stack::config_from_env().unwrap();
    config.set_text("BOWLINE_ALLREDUCE", "fastest").unwrap();
    let error = CollOptions::from_config(&config).unwrap_err().to_string();
    assert!(error.starts_with("BOWLINE_ALLREDUCE: \"fastest\""), "{error}");
    let error = bowline::stack::check(&config).unwrap_err().to_string();
    assert!(error.contains("a4,a2"), "{error}");
}

/// Numbers that make no algorithm are refused where the job begins, with the setting, the value and what there is.
#[test]
fn numbers_that_make_no_algorithm_are_refused() {
    let stages = "multiplying:STAGES (1 to 32)";
    let wrong = [
        ("BOWLINE_BARRIER", "multiplying:0", stages),
        ("BOWLINE_BCAST", "multiplying:0", stages),
        ("BOWLINE_BCAST", "two-trees:0", "two-trees:KILOBYTES (1 to 1048576)"),
        ("BOWLINE_BCAST", "split:3:0", "split:STAGES:SPLITTING (1 to 32"),
        ("BOWLINE_REDUCE", "split:0", "split:STAGES:SPLITTING (1 to 32"),
        ("BOWLINE_ALLREDUCE", "multiplying:0", "multiplying:RATIO (a finite number above 0)"),
        ("BOWLINE_ALLREDUCE", "a1", "the numbers of a1 do not fit together"),
        ("BOWLINE_ALLREDUCE", "s2,a2", "s2 has no counterpart"),
        ("BOWLINE_GATHER", "binomial:1", "linear, binomial"),
        ("BOWLINE_SCATTER", "linear:0", "linear, binomial"),
        ("BOWLINE_ALLGATHER", "multiplying:33", stages),
        ("BOWLINE_ALLTOALL", "partners:0", "partners:NUMBER (1 to 65536)"),
        ("BOWLINE_REDUCE_SCATTER", "ordered:1", "ordered:STAGES (2 to 32)"),
        ("BOWLINE_SCAN", "doubling:1", "doubling, chain"),
    ];
    for (setting, value, known) in wrong {
        let mut config = bowline::stack::config_from_env().unwrap();
        config.set_text(setting, value).unwrap();
        let error = bowline::stack::check(&config).unwrap_err().to_string();
        for part in [setting, &format!("{value:?}"), known] {
            assert!(error.contains(part), "{part} in: {error}");
        }
    }
}

/// All collectives that have algorithms to choose from, with short and long vectors.
pub(crate) fn all_collectives(world: &World) {
    reduce_everything(world);
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    for len in [1, 40, 5000] {
        for root in [0, size - 1] {
            let number = |index: usize| (root * 100_000 + index) as u64;
            let mut data: Vec<u64> =
                (0..len).map(|i| if rank == root { number(i) } else { 0 }).collect();
            world.bcast(&mut data, root as i32).unwrap();
            assert!(data.iter().enumerate().all(|(index, &item)| item == number(index)));

            let input: Vec<u64> = (0..len).map(|index| (index * (rank + 1)) as u64).collect();
            let mut greatest = vec![0; len];
            world.reduce(&input, &mut greatest, Max, root as i32).unwrap();
            assert!(
                rank != root
                    || greatest.iter().enumerate().all(|(i, &item)| item == (i * size) as u64)
            );
        }
        let block = |from: usize, to: usize| vec![(from * 1000 + to) as u64; len];
        let mut gathered = vec![0; len * size];
        world.allgather(&block(rank, 0), &mut gathered).unwrap();
        assert_eq!(gathered, (0..size).flat_map(|from| block(from, 0)).collect::<Vec<_>>());

        let input: Vec<_> = (0..size).flat_map(|to| block(rank, to)).collect();
        let mut output = vec![0; len * size];
        world.alltoall(&input, &mut output).unwrap();
        assert_eq!(output, (0..size).flat_map(|from| block(from, rank)).collect::<Vec<_>>());

        let mut own = vec![0; len];
        world.reduce_scatter_block(&input, &mut own, Sum).unwrap();
        let sum: u64 = (0..size).map(|from| (from * 1000 + rank) as u64).sum();
        assert_eq!(own, vec![sum; len]);
    }
    world.barrier().unwrap();
}

/// All names of algorithms, of the collectives that [`all_collectives`] does and of the others.
#[test]
fn every_algorithm_that_is_asked_for_gives_the_results() {
    let all: [(&str, &[&str]); 9] = [
        ("BOWLINE_BARRIER", &["staged", "dissemination", "flat"]),
        (
            "BOWLINE_BCAST",
            &[
                "staged",
                "flat",
                "binomial",
                "scatter-allgather",
                "chain",
                "two-trees:4",
                "multiplying:2",
                "split:2",
            ],
        ),
        (
            "BOWLINE_REDUCE",
            &[
                "staged",
                "flat",
                "binomial",
                "ordered",
                "halving",
                "chain",
                "two-trees:4",
                "multiplying:2",
                "split:2",
            ],
        ),
        ("BOWLINE_GATHER", &["staged", "linear", "binomial"]),
        ("BOWLINE_SCATTER", &["linear", "binomial"]),
        ("BOWLINE_ALLGATHER", &["staged", "doubling", "bruck", "ring", "direct", "gather-bcast"]),
        ("BOWLINE_ALLTOALL", &["staged", "bruck", "direct", "pairwise"]),
        (
            "BOWLINE_REDUCE_SCATTER",
            &["staged", "via-root", "halving", "pairwise", "direct", "ordered:3"],
        ),
        ("BOWLINE_SCAN", &["doubling", "chain"]),
    ];
    for (setting, names) in all {
        for name in names {
            for size in [3, 8] {
                both_ways_with(size, &[(setting, name)], |world| {
                    all_collectives(world);
                    ordered_collectives(world);
                });
            }
        }
    }
}

/// Reductions of several pieces, by two tracks: in the call, in the background and beside a helper.
#[test]
fn long_reductions_go_along_a_chain_in_pieces() {
    const LEN: usize = 90_000;
    for progress in ["none", "thread"] {
        for size in [1, 2, 5] {
            let settings = [("BOWLINE_REDUCE", "chain"), ("BOWLINE_PROGRESS", progress)];
            both_ways_with(size, &settings, |world| {
                let me = world.rank() as u64;
                let input: Vec<u64> = (0..LEN as u64).map(|at| at * at + me).collect();
                let all = size as u64;
                let wanted: Vec<u64> =
                    (0..LEN as u64).map(|at| at * at * all + all * (all - 1) / 2).collect();
                for root in 0..size as i32 {
                    let (mut now, mut later, mut other) =
                        (vec![0; LEN], vec![0; LEN], vec![0; LEN]);
                    world.reduce(&input, &mut now, Sum, root).unwrap();
                    let own = commutative(|left: u64, right: u64| left + right);
                    world
                        .scope(|scope| {
                            let one = scope.ireduce(world, &input, &mut later, Sum, root)?;
                            let two = scope.ireduce(world, &input, &mut other, own, root)?;
                            two.wait()?;
                            one.wait()
                        })
                        .unwrap();
                    if world.rank() == root {
                        assert!(now == wanted && later == wanted && other == wanted);
                    }
                }
            });
        }
    }
}

/// Gathers, scatters and scans, blocks of different lengths, and an operation that is not commutative.
pub(crate) fn ordered_collectives(world: &World) {
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let root = size as i32 - 1;
    let at_root = |items: Vec<u32>| if world.rank() == root { items } else { Vec::new() };
    let all: Vec<u32> = (0..size as u32).flat_map(|rank| [rank, rank * rank]).collect();
    let mut gathered = at_root(vec![0; 2 * size]);
    world.gather(&all[2 * rank..2 * rank + 2], &mut gathered, root).unwrap();
    assert_eq!(gathered, at_root(all.clone()));
    let mut own = [0; 2];
    world.scatter(&gathered, &mut own, root).unwrap();
    assert_eq!(own, all[2 * rank..2 * rank + 2]);

    let counts: Vec<usize> = (0..size).map(|rank| rank % 3).collect();
    let starts: Vec<usize> = (0..size).map(|rank| counts[..rank].iter().sum()).collect();
    let block = vec![rank as u32; counts[rank]];
    let mut blocks = vec![0; counts.iter().sum()];
    let partition = Partition { counts: &counts, displacements: &starts };
    world.allgatherv(&block, &mut blocks, partition).unwrap();
    let wanted = (0..size as u32).flat_map(|rank| vec![rank; counts[rank as usize]]);
    assert_eq!(blocks, wanted.collect::<Vec<_>>());

    let op = ordered(compose);
    let composed =
        |upto: usize| (1..upto).fold(map(0, 5), |all, rank| compose(all, map(rank as i32, 5)));
    let mut prefix = [[0; 2]];
    world.scan(&[map(rank as i32, 5)], &mut prefix, op).unwrap();
    assert_eq!(prefix[0], composed(rank + 1));
    let mut reduced = [[0; 2]];
    world.reduce(&[map(rank as i32, 5)], &mut reduced, op, root).unwrap();
    assert!(world.rank() != root || reduced[0] == composed(size));
    let mut block = [[0; 2]];
    world.reduce_scatter_block(&vec![map(rank as i32, 5); size], &mut block, op).unwrap();
    assert_eq!(block[0], composed(size));
}

#[test]
fn ranks_that_are_asked_for_different_algorithms_do_not_start() {
    let options = |algorithm: &str| {
        let mut config = bowline::stack::config_from_env().unwrap();
        config.set_text("BOWLINE_BCAST", algorithm).unwrap();
        config.set_text("BOWLINE_COLL_COSTS", "tcp,byte=2").unwrap();
        CollOptions::from_config(&config).unwrap()
    };
    let of_rank_0 = options("flat").of_job();
    options("flat").agree(&of_rank_0, 1.0).unwrap();
    for other in ["chain", "auto"] {
        let error = options(other).agree(&of_rank_0, 1.0).unwrap_err().to_string();
        assert!(error.contains("bcast=flat") && error.contains("BOWLINE_BCAST"), "{error}");
    }
}

/// Costs at which each algorithm is the cheapest for some length or number of ranks.
const COSTS: [&str; 6] = [
    "shm",
    "tcp",
    "tcp,pipelining=1000000",
    "tcp,pipelining=0,required=1,receive=1",
    "shm,pipelining=1000000,required=0,receive=0,byte=0",
    "shm,byte=100,copy=0,reduce=0",
];

#[test]
fn every_choice_by_costs_gives_the_results() {
    for costs in COSTS {
        for size in [1, 2, 3, 4, 7, 8] {
            ranks_with(size, &[("BOWLINE_COLL_COSTS", costs)], all_collectives);
        }
    }
    both_ways_with(5, &[("BOWLINE_COLL_COSTS", "tcp")], all_collectives);
}

/// As `the_algorithm_that_is_asked_for_is_the_one_that_runs`.
#[test]
fn what_messages_cost_decides_the_algorithm() {
    let sum = |costs: &str| {
        let of = |world: &World| {
            let number = [1.0, 1e16, -1e16, 1.0][world.rank() as usize];
            let mut sum = [0.0_f64];
            world.allreduce(&[number], &mut sum, Sum).unwrap();
            sum[0]
        };
        ranks_with(4, &[("BOWLINE_COLL_COSTS", costs)], of)[0]
    };
    // Without latency in pairs, and with much of it all at once.
    assert_eq!(sum("tcp,pipelining=0"), 0.0);
    assert_eq!(sum("tcp,pipelining=1000000"), 1.0);
}

#[test]
fn costs_that_do_not_exist_are_refused() {
    let mut config = bowline::stack::config_from_env().unwrap();
    config.set_text("BOWLINE_COLL_COSTS", "tcp,speed=3").unwrap();
    let error = bowline::stack::check(&config).unwrap_err().to_string();
    assert!(error.contains("BOWLINE_COLL_COSTS") && error.contains("pipelining"), "{error}");
}
