//! Ranks are killed in the midst of blocking collectives through memory that ranks share: through cells, through slots
//! and by reading each other's memory. Every survivor's call fails with the class for failed processes, none hangs, and what
//! ended well before had the right result.
//!
//! Of ranks that share processors, one job has a round for each kind of collective. Each round has a communicator of all
//! that are alive by then, whose last rank dies in it, at a time of the seed's. Two ranks with a processor each use slots
//! otherwise; they have a job for each round.
//!
//! What two ranks with a processor each reduce by halves is compared with what one rank makes of the same vectors.
//!
//! The same rounds are for blocking collectives in layers, of ranks on two nodes, of which the first has one.

use std::time::Duration;

use bowline::mpi::{Communicator, ErrorClass, MpiError, Sum, World, ordered};
use bowline_model::coll::price::Staged;
use bowline_uct::conformance::skipped;

use crate::Case;
use crate::kill::{die, in_layers, launch_on_hosts, launch_with_deaths};

/// A collective, and whether its root is the rank that dies.
const ROUNDS: [(Staged, bool); 11] = [
    (Staged::Bcast, false),
    (Staged::Gather, false),
    (Staged::Allgather, false),
    (Staged::Reduce, false),
    (Staged::Alltoall, false),
    (Staged::Barrier, false),
    (Staged::Bcast, true),
    (Staged::Allreduce, false),
    (Staged::Gather, true),
    (Staged::ReduceScatter, false),
    (Staged::Reduce, true),
];

/// Survivors of the job that has all rounds.
const SURVIVORS: usize = 2;

/// Words of a block. The longest ones of all-to-alls are read from where they lie.
const LENGTHS: [(&str, usize); 3] = [("cells", 8), ("slots", 3500), ("many_slots", 40_000)];

/// One rank's part of a kind of collective, with its buffers.
struct One<'a> {
    comm: &'a Communicator,
    kind: Staged,
    root: usize,
    len: usize,
    input: Vec<u64>,
    output: Vec<u64>,
}

impl<'a> One<'a> {
    fn new(comm: &'a Communicator, kind: Staged, root: usize, len: usize) -> Self {
        let n = comm.size() as usize;
        let (reads, writes) = match kind {
            Staged::Barrier => (0, 0),
            Staged::Bcast => (0, len),
            Staged::Gather | Staged::Allgather => (len, n * len),
            Staged::Alltoall => (n * len, n * len),
            Staged::Reduce | Staged::Allreduce => (len, len),
            Staged::ReduceScatter => (n * len, len),
        };
        Self { comm, kind, root, len, input: vec![0; reads], output: vec![0; writes] }
    }

    /// Runs it once. `number` differs from call to call.
    fn run(&mut self, number: u64) -> Result<(), MpiError> {
        let Self { comm, kind, root, len, .. } = *self;
        let (me, n, at_root) =
            (comm.rank() as u64, comm.size() as u64, comm.rank() as usize == root);
        let (input, output, root) = (&mut self.input, &mut self.output, root as i32);
        input.fill(number + me);
        match kind {
            Staged::Barrier => comm.barrier()?,
            Staged::Bcast => {
                output.fill(if at_root { number } else { 0 });
                comm.bcast(output, root)?;
            }
            Staged::Gather => comm.gather(input, output, root)?,
            Staged::Allgather => comm.allgather(input, output)?,
            Staged::Alltoall => comm.alltoall(input, output)?,
            Staged::Reduce => comm.reduce(input, output, Sum, root)?,
            Staged::Allreduce => comm.allreduce(input, output, Sum)?,
            Staged::ReduceScatter => comm.reduce_scatter_block(input, output, Sum)?,
        }
        let right = match kind {
            Staged::Barrier => true,
            Staged::Gather | Staged::Reduce if !at_root => true,
            Staged::Bcast => output.iter().all(|&word| word == number),
            Staged::Gather | Staged::Allgather | Staged::Alltoall => {
                let blocks = (0..).zip(output.chunks_exact(len));
                blocks
                    .into_iter()
                    .all(|(rank, block)| block.iter().all(|&word| word == number + rank))
            }
            Staged::Reduce | Staged::Allreduce | Staged::ReduceScatter => {
                output.iter().all(|&word| word == n * number + n * (n - 1) / 2)
            }
        };
        assert!(right, "{kind:?} of {len} words, call {number}: a wrong result");
        Ok(())
    }
}

/// Some rounds, each until it fails.
fn run_rounds(world: &World, rounds: &[(Staged, bool)], len: usize, seed: u64) {
    let (me, ranks) = (world.rank() as usize, world.size() as usize);
    // Made while all live: without the victims of the rounds before.
    let alive: Vec<usize> = (0..rounds.len()).map(|round| ranks - round).collect();
    let comms: Vec<_> = alive
        .iter()
        .map(|&members| world.split(i32::from(me >= members), 0).expect("all live"))
        .collect();
    let mut state = seed;
    for ((&(kind, of_the_dead), comm), members) in rounds.iter().zip(&comms).zip(alive) {
        let (comm, victim) = (comm.as_ref().expect("everybody has a colour"), members - 1);
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let delay = Duration::from_micros((state >> 33) % 3000);
        let mut one = One::new(comm, kind, if of_the_dead { victim } else { 0 }, len);
        if me == victim {
            // Wherever the call is by then.
            std::thread::spawn(move || {
                std::thread::sleep(delay);
                die();
            });
        }
        let error = (1..).find_map(|number| one.run(number).err()).expect("it ends by an error");
        if me == victim {
            panic!("{kind:?}: the others live, yet: {error}");
        }
        assert_eq!(error.class(), ErrorClass::ProcFailed, "{kind:?} of {len} words: {error}");
    }
    let dead: Vec<i32> = (world.size() - rounds.len() as i32..world.size()).collect();
    // The last call may have failed by what another survivor found.
    while world.failed().len() < dead.len() {
        world.progress();
    }
    let mut failed = world.failed();
    failed.sort_unstable();
    assert_eq!(failed, dead);
}

/// A map x -> ax + b modulo 2^32, and a sum: together associative, not commutative, and of no whole words.
type Map = [u32; 3];

fn compose(left: Map, right: Map) -> Map {
    let ([a, b, sum], [c, d, other]) = (left, right);
    [a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b), sum.wrapping_add(other)]
}

fn maps(rank: u32, len: usize) -> Vec<Map> {
    (0..len as u32).map(|index| [2 * index + 3 + rank, index ^ (7 * rank + 1), rank + 1]).collect()
}

/// Elements of reductions: just beyond cells, one piece, and many; none of them a multiple of a block.
const REDUCED: [usize; 6] = [351, 1_367, 5_471, 21_847, 43_691, 100_003];

/// Reduces vectors in all ways that two ranks have.
fn reduce_pairs(world: &World) {
    let (me, comm) = (world.rank() as u32, &**world);
    for len in REDUCED {
        let (mine, words) = (maps(me, len), vec![u64::from(me) + 1; len]);
        let expected: Vec<Map> = maps(0, len)
            .into_iter()
            .zip(maps(1, len))
            .map(|(left, right)| compose(left, right))
            .collect();
        let mut all = vec![[0; 3]; len];
        comm.allreduce(&mine, &mut all, ordered(compose)).expect("both live");
        assert!(all == expected, "an ordered allreduce of {len} elements");
        all.copy_from_slice(&mine);
        comm.allreduce_in_place(&mut all, ordered(compose)).expect("both live");
        assert!(all == expected, "an ordered allreduce in place of {len} elements");
        let mut sums = words.clone();
        comm.allreduce_in_place(&mut sums, Sum).expect("both live");
        assert!(sums.iter().all(|&sum| sum == 3), "a sum in place of {len} elements");
        for root in 0..2 {
            let (mut all, mut sums) = (vec![[9; 3]; len], vec![9_u64; len]);
            comm.reduce(&mine, &mut all, ordered(compose), root).expect("both live");
            comm.reduce(&words, &mut sums, Sum, root).expect("both live");
            if me == root as u32 {
                assert!(all == expected, "an ordered reduce of {len} elements to {root}");
                assert!(sums.iter().all(|&sum| sum == 3), "a sum of {len} elements to {root}");
            } else {
                let same = all.iter().all(|map| *map == [9; 3]) && sums.iter().all(|&sum| sum == 9);
                assert!(same, "{len} elements: who is not the root has its memory as it was");
            }
            assert!(mine == maps(me, len), "what is sent is not written");
        }
    }
}

/// Runs the rank program of this name, if there is one: `shared::WORDS::SEED::FIRST::ROUNDS`, or `shared::pairs`.
pub(crate) fn rank(name: &str) -> bool {
    let mut parts = name.split("::");
    if parts.next() != Some("shared") {
        return false;
    }
    if name == "shared::pairs" {
        reduce_pairs(&bowline::init().expect("the launcher started this rank"));
        return true;
    }
    let mut number = || parts.next().and_then(|part| part.parse().ok()).expect("a number");
    let (len, seed, first, count) = (number(), number() as u64, number(), number());
    let world = bowline::init().expect("the launcher started this rank");
    run_rounds(&world, &ROUNDS[first..][..count], len, seed);
    true
}

pub(crate) fn cases() -> Vec<Case> {
    let sharing = LENGTHS.map(|(name, len)| {
        let job = move || launch(len, len as u64, 0, ROUNDS.len(), SURVIVORS);
        Case::new(format!("shared::killed_in_the_midst_of_{name}"), job)
    });
    let apart = LENGTHS.map(|(name, len)| {
        let jobs = move || {
            if bowline::wait::processors() < 2 {
                skipped("there is one processor only");
                return Ok(());
            }
            (0..ROUNDS.len()).try_for_each(|round| launch(len, (len + round) as u64, round, 1, 1))
        };
        Case::new(format!("shared::killed_in_the_midst_of_{name}_with_a_processor_each"), jobs)
    });
    let name = "shared::reductions_of_two_ranks_with_a_processor_each";
    let pairs = Case::new(name.to_owned(), || {
        if bowline::wait::processors() < 2 {
            skipped("there is one processor only");
            return Ok(());
        }
        launch_with_deaths(2, "shared::pairs".to_owned(), &settings(), |_| false)
    });
    let layers = Case::new("shared::killed_in_the_midst_of_layers".to_owned(), || {
        LENGTHS.into_iter().enumerate().try_for_each(|(which, (_, len))| {
            let ranks = SURVIVORS + ROUNDS.len();
            let name = format!("shared::{len}::{which}::0::{}", ROUNDS.len());
            let hosts = format!("a:1,b:{}", ranks - 1);
            let dies = |rank| rank >= SURVIVORS as i32;
            launch_on_hosts(&hosts, ranks as u32, name, &in_layers(which), dies)
                .map_err(|why| format!("{len} words: {why}"))
        })
    });
    sharing.into_iter().chain(apart).chain([pairs, layers]).collect()
}

/// All collectives go through staging memory.
fn settings() -> Vec<(&'static str, &'static str)> {
    let staged = [
        "BOWLINE_BARRIER",
        "BOWLINE_BCAST",
        "BOWLINE_GATHER",
        "BOWLINE_ALLGATHER",
        "BOWLINE_ALLTOALL",
        "BOWLINE_REDUCE",
        "BOWLINE_ALLREDUCE",
        "BOWLINE_REDUCE_SCATTER",
    ];
    let staged = staged.map(|collective| (collective, "staged"));
    [("BOWLINE_TRANSPORTS", "self,shm")].into_iter().chain(staged).collect()
}

/// Runs a job of some rounds, in each of which one rank dies.
fn launch(
    len: usize,
    seed: u64,
    first: usize,
    rounds: usize,
    survivors: usize,
) -> Result<(), String> {
    let name = format!("shared::{len}::{seed}::{first}::{rounds}");
    let dies = |rank| rank >= survivors as i32;
    launch_with_deaths((survivors + rounds) as u32, name, &settings(), dies)
        .map_err(|why| format!("seed {seed}, round {first}: {why}"))
}
