//! `dataflow`: programs of timely dataflow, a published runtime, with Bowline as its communication.
//!
//! See the README beside this file.

mod frame;
mod pagerank;
mod ranks;
mod wordcount;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;
use timely::WorkerConfig;
use timely::communication::Config;
use timely::communication::allocator::{Allocate, AllocateBuilder};
use timely::execute::execute_from;
use timely::worker::Worker;

use pagerank::Graph;
use ranks::Join;

/// Dataflow programs; start them by `bowline run -n 4 dataflow wordcount FILE`
#[derive(Parser, Debug)]
struct Options {
    #[command(subcommand)]
    program: Program,
    /// What carries the messages
    #[arg(long, value_enum, default_value_t = Backend::Bowline, global = true)]
    backend: Backend,
    /// Workers of the backend `threads`
    #[arg(long, default_value_t = 2, global = true)]
    threads: usize,
    /// First port of the backend `tcp`; process k listens on the k-th from it on
    #[arg(long, default_value_t = 21_010, global = true)]
    port: u16,
    /// Where to write the result as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
enum Program {
    /// How often each word is in a text
    Wordcount {
        /// The text
        file: PathBuf,
        /// How often it is read, one round after the other
        #[arg(long, default_value_t = 100)]
        rounds: u64,
    },
    /// PageRank of a random graph
    Pagerank {
        /// Vertices
        #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
        vertices: u32,
        /// Edges
        #[arg(long, default_value_t = 200_000)]
        edges: u64,
        /// Rounds
        #[arg(long, default_value_t = 20)]
        rounds: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Backend {
    /// Ranks that `bowline run` started, over Bowline
    Bowline,
    /// Threads of one process, over timely's own queues
    Threads,
    /// Processes that `bowline run` started, over timely's own TCP
    Tcp,
}

/// What worker 0 reports.
#[derive(Clone, Debug, Serialize)]
struct Report {
    program: &'static str,
    backend: Backend,
    workers: usize,
    /// From when all workers could talk to the result.
    seconds: f64,
    /// Words or vertices.
    results: usize,
    /// The first of them by size.
    top: Vec<(String, u64)>,
    /// The same for the same results.
    digest: String,
}

/// A text, read before the workers start so that a missing file is reported once.
#[derive(Clone, Debug)]
enum Job {
    Wordcount(Arc<str>, u64),
    Pagerank(Graph, u64),
}

impl Job {
    fn of(program: &Program) -> Result<Self> {
        Ok(match program {
            Program::Wordcount { file, rounds } => Self::Wordcount(read(file)?.into(), *rounds),
            &Program::Pagerank { vertices, edges, rounds } => {
                Self::Pagerank(Graph { vertices, edges }, rounds)
            }
        })
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Wordcount(..) => "wordcount",
            Self::Pagerank(..) => "pagerank",
        }
    }

    /// The results, by name.
    fn run<A: Allocate>(&self, worker: &mut Worker<A>) -> BTreeMap<String, u64> {
        match self {
            Self::Wordcount(text, rounds) => wordcount::run(worker, text, *rounds),
            Self::Pagerank(graph, rounds) => named(pagerank::run(worker, *graph, *rounds)),
        }
    }

    /// The same by one loop, without a dataflow.
    fn alone(&self) -> BTreeMap<String, u64> {
        match self {
            Self::Wordcount(text, rounds) => wordcount::alone(text, *rounds),
            Self::Pagerank(graph, rounds) => named(pagerank::alone(*graph, *rounds)),
        }
    }
}

fn named(ranks: pagerank::RankOf) -> BTreeMap<String, u64> {
    ranks.into_iter().map(|(vertex, rank)| (format!("{vertex:08}"), rank)).collect()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the text {}; give the path of one", path.display()))
}

/// A number that depends on every result (FNV-1a).
fn digest(results: &BTreeMap<String, u64>) -> String {
    let bytes = results.iter().flat_map(|(name, value)| {
        name.bytes().chain([0]).chain(value.to_le_bytes()).collect::<Vec<_>>()
    });
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Runs a job on workers with these allocators. Worker 0's report, in the process that has it.
fn execute<B: AllocateBuilder + 'static>(
    builders: Vec<B>,
    others: Box<dyn std::any::Any + Send>,
    backend: Backend,
    job: Job,
) -> Result<Option<Report>> {
    let guards = execute_from(builders, others, WorkerConfig::default(), move |worker| {
        let start = Instant::now();
        let results = job.run(worker);
        let seconds = start.elapsed().as_secs_f64();
        (worker.index() == 0).then(|| {
            let expected = job.alone();
            let mut top: Vec<_> = results.iter().map(|(name, &v)| (name.clone(), v)).collect();
            top.sort_by_key(|(name, value)| (std::cmp::Reverse(*value), name.clone()));
            top.truncate(5);
            let report = Report {
                program: job.name(),
                backend,
                workers: worker.peers(),
                seconds,
                results: results.len(),
                top,
                digest: digest(&results),
            };
            (report, results == expected)
        })
    });
    let guards = guards.map_err(|why| anyhow!("the workers do not start: {why}"))?;
    let mut report = None;
    for outcome in guards.join() {
        if let Some((found, right)) =
            outcome.map_err(|why| anyhow!("a worker has failed: {why}"))?
        {
            ensure!(right, "the results are not those of one loop over the same data");
            report = Some(found);
        }
    }
    Ok(report)
}

/// A number that the launcher gives its processes.
fn variable(name: &str) -> Result<usize> {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).with_context(|| {
        format!("{name} is not set: start processes of the backend tcp by `bowline run -n N` too")
    })
}

fn main() -> Result<()> {
    let options = Options::parse();
    let job = Job::of(&options.program)?;
    let own = |config: Config| {
        config.try_build().map_err(|why| anyhow!("timely cannot set up its communication: {why}"))
    };
    let report = match options.backend {
        Backend::Bowline => execute(vec![Join], Box::new(()), options.backend, job)?,
        Backend::Threads => {
            let (builders, others) = own(Config::Process(options.threads))?;
            execute(builders, others, options.backend, job)?
        }
        Backend::Tcp => {
            let (process, processes) = (variable("PMI_RANK")?, variable("PMI_SIZE")?);
            let addresses =
                (0..processes).map(|k| format!("localhost:{}", options.port as usize + k));
            let (builders, others) = own(Config::Cluster {
                threads: 1,
                process,
                addresses: addresses.collect(),
                report: false,
                zerocopy: false,
                log_fn: Arc::new(|_| None),
            })?;
            execute(builders, others, options.backend, job)?
        }
    };
    let Some(report) = report else { return Ok(()) };
    match &options.json {
        None => print(&report),
        Some(path) if path.as_os_str() == "-" => println!("{}", serde_json::to_string(&report)?),
        Some(path) => std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(())
}

fn print(report: &Report) {
    let Report { program, workers, seconds, results, top, digest, .. } = report;
    println!("{program}: {workers} workers, {:.1} ms, {results} results, {digest}", seconds * 1e3);
    for (name, value) in top {
        println!("  {name:<20} {value}");
    }
    println!("the same as one loop over the same data");
}
