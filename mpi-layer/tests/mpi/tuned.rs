//! Tables of algorithms: every collective by algorithms that a table names, what goes before it, and ranks whose tables
//! differ.

use bowline_model::coll::tuned::{Cell, Tuned};
use bowline_mpi::{MpiError, Partition, Sum, World};

use super::multiplying::{all_collectives, ordered_collectives};
use super::start::{Lines, ranks_with_tables};

fn table<'a>(cells: impl IntoIterator<Item = (&'a str, u32, (usize, usize), &'a str)>) -> Tuned {
    let cell = |(collective, ranks, lengths, word)| {
        Cell::new(collective, (ranks, 1), lengths, word, "").unwrap()
    };
    let mut table = Tuned::default();
    table.learn(cells.into_iter().map(cell));
    table
}

/// These algorithms for all lengths.
fn for_all(ranks: u32, words: &[(&str, &str)]) -> Tuned {
    table(words.iter().map(|&(collective, word)| (collective, ranks, (0, 1 << 36), word)))
}

const TABLES: [&[(&str, &str)]; 3] = [
    &[
        ("barrier", "flat"),
        ("bcast", "chain"),
        ("reduce", "chain"),
        ("allreduce", "reduce-bcast"),
        ("gather", "staged"),
        ("scatter", "binomial"),
        ("allgather", "ring"),
        ("alltoall", "bruck"),
        ("reduce_scatter", "via-root"),
    ],
    &[
        ("barrier", "multiplying:2"),
        ("bcast", "staged"),
        ("reduce", "halving"),
        ("allreduce", "multiplying"),
        ("gather", "linear"),
        ("scatter", "linear"),
        ("allgather", "multiplying:2"),
        ("alltoall", "pairwise"),
        ("reduce_scatter", "multiplying:2"),
    ],
    // Not for all calls: not for operations that are not commutative, and not for all numbers of ranks.
    &[("allgather", "doubling"), ("reduce_scatter", "halving"), ("reduce", "binomial")],
];

#[test]
fn every_algorithm_of_a_table_gives_the_results() {
    for words in TABLES {
        for size in [3, 4] {
            for shared in [false, true] {
                let table = |_| for_all(size as u32, words);
                ranks_with_tables(size, shared, table, |world| {
                    all_collectives(world);
                    ordered_collectives(world);
                });
            }
        }
    }
}

#[test]
fn jobs_go_by_the_table_for_its_lengths_only_and_by_settings_before_it() {
    let of_job = |_| {
        let cell = |lengths, word| ("allreduce", 4, lengths, word);
        table([cell((5, 8), "a4"), cell((9, 64), "reduce-bcast")])
    };
    let kept: [Lines; 4] = Default::default();
    let all = &kept;
    ranks_with_tables(4, false, of_job, |world: &World| {
        world.record(Box::new(all[world.rank() as usize].clone()));
        let allreduce = |len| {
            let mut sum = vec![0_u64; len];
            world.allreduce(&vec![1; len], &mut sum, Sum).unwrap();
            assert!(sum.iter().all(|sum| *sum == 4));
        };
        allreduce(1);
        allreduce(8);
        allreduce(9);
        world.set_algorithms(&[("allreduce", "halving")]).unwrap();
        allreduce(1);
        world.set_algorithms(&[("allreduce", "auto")]).unwrap();
        allreduce(1);
        // Of two ranks the table says nothing.
        let pair = world.split(world.rank() / 2, 0).unwrap().unwrap();
        pair.allreduce(&[1_u64], &mut [0], Sum).unwrap();
    });
    for lines in &kept {
        let text = lines.text();
        let how = |line: &str| Some(line.split_once("\"how\":\"")?.1.split_once('"')?.0.to_owned());
        let sums = text.lines().filter(|line| line.contains("\"coll\":\"allreduce\""));
        let found: Vec<_> = sums.filter_map(how).collect();
        let is = |index: usize, word: &str| found[index] == word;
        assert!(is(0, "a4") && is(1, "reduce-bcast") && !is(2, "reduce-bcast"), "{text}");
        assert!(is(3, "halving") && is(4, "a4") && !found[5].starts_with('a'), "{text}");
    }
}

/// Where blocks are about alike, an allgather goes by the line of the mean one; an all-to-all goes by the first line that can
/// be meant.
#[test]
fn blocks_of_different_lengths_go_by_the_table() {
    let of_job = |_| {
        let cell = |collective, lengths, word| (collective, 4, lengths, word);
        table([
            cell("allgather", (5, 8), "ring"),
            cell("allgather", (9, 64), "direct"),
            cell("alltoall", (0, 8), "bruck"),
            cell("alltoall", (9, 64), "partners:2"),
            cell("alltoall", (65, 128), "pairwise"),
        ])
    };
    let kept: [Lines; 4] = Default::default();
    let all = &kept;
    ranks_with_tables(4, false, of_job, |world: &World| {
        let rank = world.rank() as usize;
        world.record(Box::new(all[rank].clone()));
        let allgatherv = |counts: [usize; 4]| {
            let starts = [0, 1, 2, 3].map(|rank| counts[..rank].iter().sum::<usize>());
            let mut blocks = vec![0; counts.iter().sum()];
            let partition = Partition { counts: &counts, displacements: &starts };
            world.allgatherv(&vec![rank as u8; counts[rank]], &mut blocks, partition).unwrap();
            let wanted = (0..4).flat_map(|rank| vec![rank as u8; counts[rank]]);
            assert_eq!(blocks, wanted.collect::<Vec<_>>());
        };
        // Of 8 bytes in the mean, of just above, and one long block, of which the table says nothing.
        allgatherv([8, 7, 9, 8]);
        allgatherv([8, 8, 9, 8]);
        allgatherv([33, 0, 0, 0]);
        let (counts, starts) = ([1; 4], [0, 1, 2, 3]);
        let partition = Partition { counts: &counts, displacements: &starts };
        let mut received = [0_u8; 4];
        world.alltoallv(&[rank as u8; 4], partition, &mut received, partition).unwrap();
        assert_eq!(received, [0, 1, 2, 3]);
    });
    for lines in &kept {
        let text = lines.text();
        let how = |line: &str| Some(line.split_once("\"how\":\"")?.1.split_once('"')?.0.to_owned());
        let found: Vec<_> = text.lines().filter_map(how).collect();
        let tuned = (&*found[0], &*found[1], &*found[3]);
        assert_eq!(tuned, ("ring", "direct", "partners:2"), "{text}");
        assert_ne!(found[2], "direct", "{text}");
    }
}

#[test]
fn tables_that_differ_are_an_error_at_every_rank_when_a_communicator_is_made() {
    let of = |rank| for_all(3, &[("bcast", if rank == 1 { "flat" } else { "chain" })]);
    ranks_with_tables(3, false, of, |world| {
        assert_eq!(world.dup().unwrap_err(), MpiError::ChoicesDiffer);
    });
}

#[test]
fn a_table_goes_from_rank_0_to_the_others() {
    let config = bowline::stack::config_from_env().unwrap();
    let options = || bowline_mpi::CollOptions::from_config(&config).unwrap();
    let (mut first, mut other) = (options(), options());
    first.set_table(for_all(4, &[("allreduce", "a4"), ("bcast", "chain")]));
    other.set_table(for_all(4, &[("allreduce", "a2,a2")]));
    other.agree(&first.of_job(), 1.0).unwrap();
    assert_eq!(other.of_job(), first.of_job());
    for damaged in ["auto; auto", "auto; auto; ", &first.of_job().replace("chain", "gossip")] {
        let error = options().agree(damaged, 1.0).unwrap_err().to_string();
        assert!(error.contains("the table of rank 0"), "{error}");
    }
}
