//! Jobs that measure algorithms: one for each number of ranks, with a communicator for each algorithm of a cell. Where cells
//! are for several nodes, this machine is taken for as many: each has an agent and memory of its own.
//!
//! Each repetition runs every algorithm once, so that what else the machine does meets all of them, and each begins with
//! another one. A time is that of the slowest rank, and of several the median. Results are checked outside of it.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bowline::mpi::{Communicator, Max, Sum, World};
use bowline_base::config::Config;
use bowline_launch::run::{Bind, Host, run};
use bowline_model::coll::price::JobCosts;
use rustix::fs::MemfdFlags;
use rustix::process::getpid;

use super::{Call, Collective, Tried, Tune, candidates};
use crate::demo::progress;
use crate::start;

/// The longest that the job of one number of ranks may take.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs the jobs. What each cell tried, in their order; `auto` comes first.
///
/// # Errors
/// When a job fails.
pub(super) fn jobs(calls: &[Call], config: &Config) -> Result<Vec<Vec<Tried>>> {
    let mut all = Vec::new();
    for of_job in calls.chunk_by(|one, other| one.ranks == other.ranks) {
        let ranks = of_job[0].ranks;
        let results = rustix::fs::memfd_create("bowline-tune", MemfdFlags::CLOEXEC);
        let mut results = File::from(results.context("cannot make a memory file")?);
        let pid = getpid().as_raw_nonzero();
        let path = format!("/proc/{pid}/fd/{}", results.as_raw_fd());
        let mut options = start::again(ranks, config)?;
        let nodes = of_job[0].nodes;
        if nodes > 1 {
            // Agents on this machine; ranks of all of them share its processors.
            let each = of_job[0].each();
            let hosts: Vec<_> = (0..nodes).map(|node| format!("node{node}:{each}")).collect();
            options.hosts = Host::list(&hosts.join(",")).context("cannot name nodes")?;
            options.agent_command = "env".to_owned();
            options.bind = Some(Bind::None);
        }
        options.args.extend(["--results".into(), path.into()]);
        options.timeout = Some(LIMIT);
        let report = run(&options)?;
        ensure!(report.code == 0, "the job of {ranks} ranks has failed");
        let mut text = Vec::new();
        results.read_to_end(&mut text).context("cannot read what a job has measured")?;
        let found: Vec<Vec<Tried>> =
            serde_json::from_slice(&text).context("a job has left no measurements")?;
        ensure!(found.len() == of_job.len(), "the job of {ranks} ranks has not measured all cells");
        all.extend(found);
    }
    Ok(all)
}

/// What a rank of a job does. Rank 0 leaves what was found.
///
/// # Errors
/// When a rank fails, or a result is wrong.
pub(super) fn rank(
    world: &World,
    tune: &Tune,
    calls: &[Call],
    costs: &JobCosts,
    path: &Path,
) -> Result<()> {
    let own: Vec<_> = calls.iter().filter(|call| call.ranks == world.size() as u32).collect();
    let bar = progress::bar(world, "measuring", own.len() as u64, false);
    let mut found = Vec::new();
    for call in own {
        found.push(cell(world, tune, call, costs)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if world.rank() == 0 {
        fs::write(path, serde_json::to_vec(&found)?).context("cannot leave what was measured")?;
    }
    Ok(())
}

/// Measures the algorithms of a cell. All ranks find the same candidates.
fn cell(world: &World, tune: &Tune, call: &Call, costs: &JobCosts) -> Result<Vec<Tried>> {
    let priced = candidates::of(call, tune.transport, &tune.prices(call, costs)).into_iter();
    let best = priced.take(tune.best as usize).map(|one| (one.word, Some(one.time)));
    let words: Vec<_> = [(String::from("auto"), None)].into_iter().chain(best).collect();
    let key = call.collective.setting();
    let with = |word: &str| world.dup_with_algorithms(&[(key, word)]);
    let comms: Vec<Communicator> =
        words.iter().map(|(word, _)| with(word)).collect::<Result<_, _>>()?;
    let mut vectors = Vectors::new(world, call);
    // So many calls between two readings of the clock.
    let calls = (1_usize << 16).checked_div(call.bytes).unwrap_or(20).clamp(2, 20) as u32;
    for comm in &comms {
        vectors.run(comm, 2)?;
        vectors.check(comm)?;
    }
    let mut times = vec![Vec::new(); comms.len()];
    for repetition in 0..tune.reps as usize {
        for place in 0..comms.len() {
            let place = (place + repetition) % comms.len();
            let (comm, times) = (&comms[place], &mut times[place]);
            world.barrier()?;
            let begun = Instant::now();
            vectors.run(comm, calls)?;
            let own = begun.elapsed().as_nanos() as i64;
            let mut slowest = [0];
            world.allreduce(&[own], &mut slowest, Max)?;
            times.push(slowest[0]);
        }
    }
    let median = |mut times: Vec<i64>| {
        times.sort_unstable();
        times[times.len() / 2] as f64 / f64::from(calls)
    };
    let of_auto = times[0].clone();
    let tried = words.into_iter().zip(times).map(|((algorithm, predicted_ns), times)| {
        let wins = times.iter().zip(&of_auto).filter(|(own, auto)| own < auto).count();
        let quicker = Some(wins as f64 / times.len() as f64);
        Tried { algorithm, predicted_ns, found_ns: Some(median(times)), quicker }
    });
    Ok(tried.collect())
}

/// What a call moves.
struct Vectors {
    collective: Collective,
    input: Vec<i64>,
    output: Vec<i64>,
    /// Elements of a block, or of a vector.
    count: usize,
    /// Calls so far: each has the next rank as its root.
    calls: i32,
    root: i32,
}

impl Vectors {
    /// Each element is this rank's number and one more.
    fn new(world: &World, call: &Call) -> Self {
        let (count, ranks) = (call.bytes / 8, call.ranks as usize);
        let (input, output) = match call.collective {
            Collective::Barrier => (0, 0),
            Collective::Bcast | Collective::Reduce | Collective::Allreduce => (count, count),
            Collective::Scan | Collective::Exscan => (count, count),
            Collective::Gather | Collective::Gatherv => (count, count * ranks),
            Collective::Allgather | Collective::Allgatherv => (count, count * ranks),
            Collective::Alltoall | Collective::Alltoallv => (count * ranks, count * ranks),
            Collective::Scatter | Collective::Scatterv | Collective::ReduceScatter => {
                (count * ranks, count)
            }
        };
        let own = i64::from(world.rank()) + 1;
        let (input, output) = (vec![own; input], vec![0; output]);
        Self { collective: call.collective, input, output, count, calls: 0, root: 0 }
    }

    fn run(&mut self, comm: &Communicator, calls: u32) -> Result<()> {
        for _ in 0..calls {
            self.root = self.calls % comm.size();
            self.calls += 1;
            let Self { input, output, root, .. } = self;
            match self.collective {
                Collective::Barrier => comm.barrier()?,
                Collective::Bcast => {
                    if comm.rank() == *root {
                        let last = output.len() - 1;
                        (output[0], output[last]) = (input[0], input[last]);
                    }
                    comm.bcast(output, *root)?;
                }
                Collective::Reduce => comm.reduce(input, output, Sum, *root)?,
                Collective::Allreduce => comm.allreduce(input, output, Sum)?,
                Collective::Gather | Collective::Gatherv => comm.gather(input, output, *root)?,
                Collective::Scatter | Collective::Scatterv => comm.scatter(input, output, *root)?,
                Collective::Scan | Collective::Exscan => comm.scan(input, output, Sum)?,
                Collective::Allgather | Collective::Allgatherv => comm.allgather(input, output)?,
                Collective::Alltoall | Collective::Alltoallv => comm.alltoall(input, output)?,
                Collective::ReduceScatter => comm.reduce_scatter_block(input, output, Sum)?,
            }
        }
        Ok(())
    }

    /// Whether the last call did what it should.
    fn check(&self, comm: &Communicator) -> Result<()> {
        let ranks = i64::from(comm.size());
        let sum = ranks * (ranks + 1) / 2;
        let ends = |block: &[i64], value| {
            block.first().is_none_or(|first| *first == value)
                && block.last().is_none_or(|last| *last == value)
        };
        let right = match self.collective {
            Collective::Barrier => true,
            Collective::Bcast => ends(&self.output, i64::from(self.root) + 1),
            Collective::Reduce => comm.rank() != self.root || ends(&self.output, sum),
            Collective::Allreduce | Collective::ReduceScatter => ends(&self.output, sum),
            Collective::Scatter | Collective::Scatterv => {
                ends(&self.output, i64::from(self.root) + 1)
            }
            Collective::Scan | Collective::Exscan => {
                let own = i64::from(comm.rank()) + 1;
                ends(&self.output, own * (own + 1) / 2)
            }
            Collective::Gather | Collective::Gatherv if comm.rank() != self.root => true,
            Collective::Gather
            | Collective::Gatherv
            | Collective::Allgather
            | Collective::Allgatherv
            | Collective::Alltoall
            | Collective::Alltoallv => {
                let blocks = self.output.chunks_exact(self.count.max(1));
                blocks.zip(1..).all(|(block, from)| ends(block, from))
            }
        };
        ensure!(right, "{} is wrong", self.collective.setting());
        Ok(())
    }
}
