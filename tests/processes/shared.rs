//! Ranks are killed in the midst of blocking collectives through memory that ranks share: through cells, through slots
//! and by reading each other's memory. Every survivor's call fails with the class for failed processes, none hangs, and what
//! ended well before had the right result.
//!
//! One job has a round for each kind of collective. Each round has a communicator of all that are alive by then, whose last rank
//! dies in it, at a time of the seed's.

use std::time::Duration;

use bowline::mpi::{Communicator, ErrorClass, MpiError, Sum, World};
use bowline_launch::run::{OnFailure, RunOptions, run};

use crate::Case;

/// A collective, and whether its root is the rank that dies.
const ROUNDS: [(Kind, bool); 10] = [
    (Kind::Bcast, false),
    (Kind::Gather, false),
    (Kind::Allgather, false),
    (Kind::Reduce, false),
    (Kind::Alltoall, false),
    (Kind::Bcast, true),
    (Kind::Allreduce, false),
    (Kind::Gather, true),
    (Kind::ReduceScatter, false),
    (Kind::Reduce, true),
];

/// The last round has two survivors.
const RANKS: usize = ROUNDS.len() + 2;

/// Words of a block. The longest ones of all-to-alls are read from where they lie.
const LENGTHS: [(&str, usize); 3] = [("cells", 8), ("slots", 3500), ("many_slots", 40_000)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bcast,
    Gather,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
}

/// One rank's part of a kind of collective, with its buffers.
struct One<'a> {
    comm: &'a Communicator,
    kind: Kind,
    root: usize,
    len: usize,
    input: Vec<u64>,
    output: Vec<u64>,
}

impl<'a> One<'a> {
    fn new(comm: &'a Communicator, kind: Kind, root: usize, len: usize) -> Self {
        let n = comm.size() as usize;
        let (reads, writes) = match kind {
            Kind::Bcast => (0, len),
            Kind::Gather | Kind::Allgather => (len, n * len),
            Kind::Alltoall => (n * len, n * len),
            Kind::Reduce | Kind::Allreduce => (len, len),
            Kind::ReduceScatter => (n * len, len),
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
            Kind::Bcast => {
                output.fill(if at_root { number } else { 0 });
                comm.bcast(output, root)?;
            }
            Kind::Gather => comm.gather(input, output, root)?,
            Kind::Allgather => comm.allgather(input, output)?,
            Kind::Alltoall => comm.alltoall(input, output)?,
            Kind::Reduce => comm.reduce(input, output, Sum, root)?,
            Kind::Allreduce => comm.allreduce(input, output, Sum)?,
            Kind::ReduceScatter => comm.reduce_scatter_block(input, output, Sum)?,
        }
        let right = match kind {
            Kind::Gather | Kind::Reduce if !at_root => true,
            Kind::Bcast => output.iter().all(|&word| word == number),
            Kind::Gather | Kind::Allgather | Kind::Alltoall => {
                let blocks = (0..).zip(output.chunks_exact(len));
                blocks
                    .into_iter()
                    .all(|(rank, block)| block.iter().all(|&word| word == number + rank))
            }
            Kind::Reduce | Kind::Allreduce | Kind::ReduceScatter => {
                output.iter().all(|&word| word == n * number + n * (n - 1) / 2)
            }
        };
        assert!(right, "{kind:?} of {len} words, call {number}: a wrong result");
        Ok(())
    }
}

/// All rounds, each until it fails.
fn rounds(world: &World, len: usize, seed: u64) {
    let me = world.rank() as usize;
    // Made while all live: without the victims of the rounds before.
    let alive: Vec<usize> = (0..ROUNDS.len()).map(|round| RANKS - round).collect();
    let comms: Vec<_> = alive
        .iter()
        .map(|&members| world.split(i32::from(me >= members), 0).expect("all live"))
        .collect();
    let mut state = seed;
    for ((&(kind, of_the_dead), comm), members) in ROUNDS.iter().zip(&comms).zip(alive) {
        let (comm, victim) = (comm.as_ref().expect("everybody has a colour"), members - 1);
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let delay = Duration::from_micros((state >> 33) % 3000);
        let mut one = One::new(comm, kind, if of_the_dead { victim } else { 0 }, len);
        if me == victim {
            // Wherever the call is by then.
            std::thread::spawn(move || {
                std::thread::sleep(delay);
                crate::kill::die();
            });
        }
        let error = (1..).find_map(|number| one.run(number).err()).expect("it ends by an error");
        if me == victim {
            panic!("{kind:?}: the others live, yet: {error}");
        }
        assert_eq!(error.class(), ErrorClass::ProcFailed, "{kind:?} of {len} words: {error}");
    }
    let dead: Vec<i32> = (2..RANKS as i32).collect();
    // The last call may have failed by what another survivor found.
    while world.failed().len() < dead.len() {
        world.progress();
    }
    let mut failed = world.failed();
    failed.sort_unstable();
    assert_eq!(failed, dead);
}

/// Runs the rank program of this name, if there is one: `shared::WORDS::SEED`.
pub(crate) fn rank(name: &str) -> bool {
    let mut parts = name.split("::");
    if parts.next() != Some("shared") {
        return false;
    }
    let mut number = || parts.next().and_then(|part| part.parse().ok()).expect("a number");
    let (len, seed) = (number(), number());
    let world = bowline::init().expect("the launcher started this rank");
    rounds(&world, len as usize, seed);
    true
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |(name, len)| {
        Case::new(format!("shared::killed_in_the_midst_of_{name}"), move || launch(len, len as u64))
    };
    LENGTHS.map(case).into()
}

fn launch(len: usize, seed: u64) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let config = bowline::config_from_env().map_err(|error| error.to_string())?;
    let mut options = RunOptions::new(RANKS as u32, program);
    options.args = vec![format!("shared::{len}::{seed}").into()];
    options.area_bytes = bowline::stack::area_bytes(&config);
    options.env.push(("BOWLINE_TRANSPORTS".into(), "self,shm".into()));
    for collective in
        ["BCAST", "GATHER", "ALLGATHER", "ALLTOALL", "REDUCE", "ALLREDUCE", "REDUCE_SCATTER"]
    {
        options.env.push((format!("BOWLINE_{collective}").into(), "staged".into()));
    }
    options.on_failure = OnFailure::Continue;
    options.timeout = Some(Duration::from_secs(60));
    let report = run(&options).map_err(|error| error.to_string())?;
    for (rank, end) in report.ends.iter().enumerate() {
        if end.is_failure() != (rank >= 2) {
            return Err(format!(
                "seed {seed}: rank {rank} ended otherwise than it should: it {end}"
            ));
        }
    }
    match report.code {
        137 => Ok(()),
        code => Err(format!("seed {seed}: the job's code is {code}, that of a killed rank is 137")),
    }
}
