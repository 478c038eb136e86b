//! `bowline fennel`: runs programs on a simulated machine. Nothing communicates; times are those of models.
//!
//! | what | where |
//! |---|---|
//! | the machine, from words | [`network`] |
//! | what is run on it | [`programs`], [`uneven`] |
//! | jobs that were recorded | [`replay`] |
//! | runs, statistics, and how they are shown | [`measure`] |
//! | pictures and lists of what was run | [`timeline`] |
//!
//! The simulator itself is in the crate `bowline-model`, module `fennel`.

mod measure;
mod network;
mod programs;
mod replay;
mod timeline;
mod uneven;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_model::fennel::file;
use bowline_model::fennel::generate::{multicast, ping_pong};
use bowline_model::fennel::instrument::TraceRecorder;
use clap::Subcommand;

use super::{numbers, output};
use programs::{Allreduces, Collective, Job, Kind, Ranks};
use uneven::Uneven;

/// Simulate communication on a modelled network.
///
/// A discrete-event simulator for the comparison of algorithms: it runs a program on a network whose parameters are given
/// and shows when each rank is done, how far the ranks are apart, and how busy they are. It does not predict what a
/// machine does: there is no congestion, and a time is as good as the model that it comes from.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline fennel allreduce -n 1024               the cheapest algorithm on this network
  bowline fennel allreduce --schedule m1g2a3,n1g3a2 -n 7
                                                 a schedule in the notation
  bowline fennel bcast -n 99 --size 1m --algorithm chain --network tcp,byte=0.5
  bowline fennel allreduce -n 64 --per-node 8 --algorithm nodes:binomial:a4,a2
                                                 within nodes and among them
  bowline fennel allgatherv -n 16 --sizes 0,8,64k
                                                 blocks of different lengths
  bowline fennel allreduce -n 64 --topology dragonfly:2,4,9 --noise 0.2 --runs 1000
  bowline fennel allreduce -n 8 --timeline out.svg --timeline out.png
  bowline fennel elimination -n 7 --overlapping  an allreduce by elimination
  bowline fennel graph program.json --json       a program of one's own
  BOWLINE_RECORD=out/job bowline run -n 4 ./simulation
  bowline fennel replay out/job.* --network tcp  a job of one's own
The format of program files is in docs/models.md.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Two ranks send each other a message, there and back.
    PingPong {
        /// Times there and back.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        rounds: u32,
        /// Bytes of a message.
        #[arg(long, value_name = "BYTES", value_parser = numbers::size, default_value = "8")]
        size: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Rank 0 puts a message to each of the others.
    Multicast {
        #[command(flatten)]
        of: Ranks,
        /// Bytes of a message.
        #[arg(long, value_name = "BYTES", value_parser = numbers::size, default_value = "8")]
        size: usize,
        #[command(flatten)]
        common: Common,
    },
    /// No rank leaves before all have come.
    Barrier {
        #[command(flatten)]
        of: Ranks,
        /// The algorithm: auto, the cheapest on this network; or one by name.
        #[arg(long, value_name = "NAME", default_value = "auto")]
        algorithm: String,
        #[command(flatten)]
        common: Common,
    },
    /// A root's data goes to all.
    Bcast(Of<Collective>),
    /// The reduction of all vectors goes to a root.
    Reduce(Of<Collective>),
    /// The reduction of all vectors goes to all.
    Allreduce(Of<Allreduces>),
    /// The block of each rank goes to a root.
    Gather(Of<Collective>),
    /// A root's blocks go to all, one to each.
    Scatter(Of<Collective>),
    /// The block of each rank goes to all.
    Allgather(Of<Collective>),
    /// Each rank has a block for each.
    Alltoall(Of<Collective>),
    /// The block of each rank goes to a root; blocks have different lengths.
    Gatherv(Of<Uneven>),
    /// A root's blocks go to all, one to each; blocks have different lengths.
    Scatterv(Of<Uneven>),
    /// The block of each rank goes to all; blocks have different lengths.
    Allgatherv(Of<Uneven>),
    /// Each rank has a block for each; blocks have different lengths.
    Alltoallv(Of<Uneven>),
    /// Of the reduction of all vectors, each rank gets its block.
    ReduceScatter(Of<Collective>),
    /// Each rank gets the reduction of the vectors of all ranks up to it.
    Scan(Of<Collective>),
    /// Each rank gets the reduction of the vectors of all ranks before it.
    Exscan(Of<Collective>),
    /// An allreduce that eliminates ranks beyond a power of two.
    Elimination {
        #[command(flatten)]
        of: Ranks,
        /// Bytes of a vector.
        #[arg(long, value_name = "BYTES", value_parser = numbers::size, default_value = "8")]
        size: usize,
        /// Eliminate wherever a stage has an odd number of groups, and not all in the first stage.
        #[arg(long)]
        overlapping: bool,
        #[command(flatten)]
        common: Common,
    },
    /// A job that was recorded with BOWLINE_RECORD, on this network. Its collectives go by what is cheapest there, or as
    /// recorded.
    Replay {
        /// The files of all ranks.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Collectives go by the algorithms that they went by in the job. Those that cannot, since they went through shared
        /// memory or in layers, are counted and go by what is cheapest.
        #[arg(long)]
        as_recorded: bool,
        #[command(flatten)]
        common: Common,
    },
    /// A program from a JSON file.
    Graph {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        common: Common,
    },
}

/// A program with all that programs have in common.
#[derive(Debug, clap::Args)]
struct Of<P: clap::Args> {
    #[command(flatten)]
    program: P,
    #[command(flatten)]
    common: Common,
}

/// What all programs have in common.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    network: network::MachineOptions,
    #[command(flatten)]
    measure: measure::RunOptions,
    /// Draw the first run into this file, .svg or .png, with a row for each rank; may be given twice.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    timeline: Vec<PathBuf>,
    /// Write every task of the first run into this file, a line of JSON each.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    tasks: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Simulates.
///
/// # Errors
/// Arguments that do not fit together, a program that does not end, files that cannot be read or written.
pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::PingPong { rounds, size, common } => {
            let name = format!("ping-pong, {rounds} times, {size} bytes");
            common.run(name, Job::Graph(ping_pong(*rounds, *size)))
        }
        What::Multicast { of, size, common } => {
            let name = format!("multicast, {size} bytes");
            common.run(name, Job::Graph(multicast(of.ranks - 1, *size)))
        }
        What::Barrier { of, algorithm, common } => {
            let of = Ranks { ranks: of.ranks };
            let (root, algorithm) = (0, algorithm.clone());
            let barrier = Collective { of, size: 0, algorithm, root, ordered: false };
            common.collective("barrier", &barrier, Kind::Barrier)
        }
        What::Bcast(of) => of.common.collective("bcast", &of.program, Kind::Bcast),
        What::Reduce(of) => of.common.collective("reduce", &of.program, Kind::Reduce),
        What::Allreduce(Of { program, common }) => {
            let Collective { of: Ranks { ranks }, size, .. } = program.of;
            let plan = common.network.plan(ranks)?;
            let (job, how) = program.job(&common.network.prices(&plan, ranks, size))?;
            common.run(format!("allreduce by {how}, {size} bytes"), job)
        }
        What::Gather(of) => of.common.collective("gather", &of.program, Kind::Gather),
        What::Scatter(of) => of.common.collective("scatter", &of.program, Kind::Scatter),
        What::Scan(of) => of.common.collective("scan", &of.program, Kind::Scan),
        What::Exscan(of) => of.common.collective("exscan", &of.program, Kind::Exscan),
        What::Allgather(of) => of.common.collective("allgather", &of.program, Kind::Allgather),
        What::Alltoall(of) => of.common.collective("alltoall", &of.program, Kind::Alltoall),
        What::ReduceScatter(of) => {
            of.common.collective("reduce-scatter", &of.program, Kind::ReduceScatter)
        }
        What::Gatherv(of) => of.common.uneven(&of.program, uneven::Kind::Gatherv),
        What::Scatterv(of) => of.common.uneven(&of.program, uneven::Kind::Scatterv),
        What::Allgatherv(of) => of.common.uneven(&of.program, uneven::Kind::Allgatherv),
        What::Alltoallv(of) => of.common.uneven(&of.program, uneven::Kind::Alltoallv),
        What::Elimination { of, size, overlapping, common } => {
            let how = if *overlapping { "overlapping" } else { "in the first stage" };
            let job = programs::elimination(of.ranks, *size, *overlapping)?;
            common.run(format!("allreduce by elimination {how}, {size} bytes"), job)
        }
        What::Replay { files, as_recorded, common } => {
            let (recorded, mut record) = replay::read(files)?;
            let plan = common.network.plan(recorded.size())?;
            let costs = |bytes| common.network.costs(&plan, bytes);
            let (job, otherwise) = replay::job(&recorded, *as_recorded, costs)?;
            record.otherwise = otherwise;
            common.run_beside("recorded job".to_owned(), job, Some(record))
        }
        What::Graph { file, common } => {
            let name = file.display();
            let text = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
            let program = file::read(&text).with_context(|| name.to_string())?;
            common.run(name.to_string(), Job::Graph(program))
        }
    }
}

impl Common {
    fn collective(&self, name: &str, of: &Collective, kind: Kind) -> Result<ExitCode> {
        let plan = self.network.plan(of.of.ranks)?;
        let (job, how) = of.job(kind, &self.network.prices(&plan, of.of.ranks, of.size))?;
        let size =
            if kind == Kind::Barrier { String::new() } else { format!(", {} bytes", of.size) };
        self.run(format!("{name} by {how}{size}"), job)
    }

    fn uneven(&self, of: &Uneven, kind: uneven::Kind) -> Result<ExitCode> {
        let plan = self.network.plan(of.of.ranks)?;
        let (job, how) = of.job(kind, &self.network.prices(&plan, of.of.ranks, of.mean()))?;
        self.run(format!("{} by {how}, {} bytes", kind.name(), of.sizes()), job)
    }

    fn run(&self, program: String, job: Job) -> Result<ExitCode> {
        self.run_beside(program, job, None)
    }

    /// The same beside what was recorded of it.
    fn run_beside(
        &self,
        program: String,
        job: Job,
        recorded: Option<replay::Record>,
    ) -> Result<ExitCode> {
        let ranks = job.ranks();
        for path in &self.timeline {
            timeline::format(path)?;
            timeline::check(ranks)?;
        }
        self.timeline.iter().chain(&self.tasks).try_for_each(|path| timeline::check_place(path))?;
        let plan = self.network.plan(ranks)?;
        let mut recorder = TraceRecorder::default();
        let wanted = !self.timeline.is_empty() || self.tasks.is_some();
        let kept = wanted.then_some(&mut recorder);
        let title = format!("{program}, {}\n{plan}", numbers::ranks(ranks)).replace("; ", "\n");
        let mut report = measure::measure(program, &job, &plan, &self.measure, kept)?;
        report.recorded = recorded;
        for path in &self.timeline {
            timeline::draw(path, &title, ranks, &recorder.tasks)?;
        }
        if let Some(path) = &self.tasks {
            timeline::tasks(path, &recorder.tasks)?;
        }
        if self.json {
            output::print_json(&report)?
        } else {
            output::print(&report.text()?)?
        }
        Ok(ExitCode::SUCCESS)
    }
}
