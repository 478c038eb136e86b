//! The comparison itself: prepares the sources, then lets them take turns over the rounds.
//!
//! Within a round the sources of one stage follow each other closely, and every round starts with
//! another source, so that a change of the machine's mood meets all of them alike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::choices;
use crate::context::{Context, Progress};
use crate::delayed::{DelayedNetwork, RelayOptions};
use crate::hosts;
use crate::load::{RoundLoad, Snapshot, listen, load_average};
use crate::metric::{Metric, Wire};
use crate::plan::{Comparison, Plan, Stage};
use crate::report::{Collector, PeersReport};
use crate::selection;
use crate::source::{self, Source, two_lines_ns};
use crate::veth;
use crate::{BenchError, PeersOptions};

/// Starts of one source in one stage that may fail before it is not tried any more.
const FAILURES_MAX: usize = 2;

/// Runs a comparison. Fails only if nothing can be measured; the failures of single peers are part
/// of the report.
pub fn run(options: &PeersOptions) -> Result<PeersReport, BenchError> {
    compare(options, Comparison::Peers)
}

/// Runs a comparison over TCP: through the loopback device, and with root also between two network
/// namespaces that it makes and that end with it. Fails only if nothing can be measured.
pub fn run_networks(options: &PeersOptions) -> Result<PeersReport, BenchError> {
    compare(options, Comparison::Networks)
}

/// Runs every operation of ucp at every size beside UCX. Fails only if nothing can be measured.
pub fn run_grid(options: &PeersOptions) -> Result<PeersReport, BenchError> {
    compare(options, Comparison::Grid)
}

/// Runs collectives of 2 to 16 ranks beside the MPI peers: over shared memory, and with root over TCP between hosts
/// that it makes, with delay. Fails only if nothing can be measured.
pub fn run_collectives(options: &PeersOptions) -> Result<PeersReport, BenchError> {
    compare(options, Comparison::Collectives)
}

/// Runs long messages by every means that a setting can force, Bowline's own choice and the peers', over shared memory.
/// Fails only if nothing can be measured.
pub fn run_selection(options: &PeersOptions) -> Result<PeersReport, BenchError> {
    compare(options, Comparison::Selection)
}

fn compare(options: &PeersOptions, what: Comparison) -> Result<PeersReport, BenchError> {
    let plan = Plan::new(options, what)?;
    let cpus = options.checked_cpus()?;
    let needs = |wire| plan.metrics.iter().any(|metric| metric.wire == wire);
    let idle = || hosts::missing("no figure of this comparison needs them".to_owned());
    let veth = if needs(Wire::Veth) { veth::make(cpus) } else { Err(idle()) };
    let delayed = if needs(Wire::Delayed) {
        let over = plan.metrics.iter().filter(|metric| metric.wire == Wire::Delayed);
        let ranks = over.map(|metric| metric.ranks).max().unwrap_or(0);
        DelayedNetwork::make(ranks as usize, &cpus, &RelayOptions::default())
    } else {
        Err(idle())
    };
    let context = Context {
        cache: options.cache_dir()?,
        install: !options.no_install,
        cpus,
        veth: Arc::new(veth),
        delayed: Arc::new(delayed),
        budget: plan.budget,
        time_limit: plan.time_limit,
        quick: plan.quick,
        progress: Progress::new(options.quiet),
    };
    let mut sources = source::all(options, what)?;
    // A source without any wanted metric takes no part, and is not missing either.
    sources.retain(|source| plan.metrics.iter().any(|&metric| source.offers(metric)));
    let mut collector = Collector::new(&plan, context.cpus);
    if let Some(network) = context.delayed() {
        collector.delay(network.ping(2000)?);
    }
    let sources = prepare(sources, &context, &mut collector);
    measure(&sources, &plan, &context, &mut collector);
    context.progress.bar.finish_and_clear();
    if let Some(network) = context.delayed() {
        collector.forwarded(network.forwarded());
    }
    let mut report = collector.finish();
    if what == Comparison::Selection {
        report.selection = choices::cells(&report.rows);
    }
    Ok(report)
}

/// Prepares every source; those that fail go to the collector and out of the list.
fn prepare(
    sources: Vec<Box<dyn Source>>,
    context: &Context,
    collector: &mut Collector,
) -> Vec<Box<dyn Source>> {
    // Installing and first starts may take longer than a measured start.
    let patient = Context {
        cache: context.cache.clone(),
        veth: Arc::clone(&context.veth),
        delayed: Arc::clone(&context.delayed),
        time_limit: Duration::from_secs(30),
        progress: context.progress.again(),
        ..*context
    };
    let mut ready = Vec::new();
    for mut source in sources {
        context.progress.bar.set_message(format!("preparing {}", source.id()));
        match source.prepare(&patient) {
            Ok(note) => {
                collector.source(source.id(), source.role(), note);
                ready.push(source);
            }
            Err(error) => {
                context.progress.note(&format!("{} is missing: {error}", source.id()));
                collector.source_missing(source.id(), &error);
            }
        }
    }
    ready
}

/// One start of one source.
struct Job {
    source: usize,
    stage: Stage,
    metrics: Vec<Metric>,
    failures: usize,
}

fn measure(sources: &[Box<dyn Source>], plan: &Plan, context: &Context, collector: &mut Collector) {
    let start = Instant::now();
    let mut jobs = jobs(sources, plan);
    let starts: usize = (0..plan.rounds)
        .flat_map(|round| plan.stages(round))
        .map(|stage| jobs.iter().filter(|job| job.stage == stage).count())
        .sum();
    context.progress.bar.set_length(starts as u64);
    for round in 0..plan.rounds {
        let before_percent = listen();
        let snapshot = Snapshot::now();
        for stage in plan.stages(round) {
            let count = jobs.iter().filter(|job| job.stage == stage).count();
            let first = jobs.iter().position(|job| job.stage == stage).unwrap_or(0);
            for nth in 0..count {
                let job = &mut jobs[first + (nth + round) % count];
                let source = &sources[job.source];
                context.progress.bar.set_message(format!("{} {stage}", source.id()));
                let late = plan.deadline.is_some_and(|deadline| start.elapsed() > deadline);
                if late {
                    collector.out_of_time(source.id(), &job.metrics);
                } else if job.failures < FAILURES_MAX {
                    run_job(job, source.as_ref(), context, round, plan.steady, collector);
                }
                context.progress.bar.inc(1);
                context.progress.line(round, &stage.to_string());
            }
        }
        collector.load(RoundLoad {
            round,
            before_percent,
            during_percent: snapshot.background_percent(Snapshot::now()),
            load_average: load_average(),
        });
    }
}

fn run_job(
    job: &mut Job,
    source: &dyn Source,
    context: &Context,
    round: usize,
    steady: bool,
    collector: &mut Collector,
) {
    let before_ns = match job.stage {
        Stage::Pair(_) | Stage::One(_) => two_lines_ns(context.cpus),
        _ => None,
    };
    let results = source.measure(context, job.stage, &job.metrics);
    let line_ns =
        if steady { selection::steady(before_ns, two_lines_ns(context.cpus)) } else { before_ns };
    let failed = !results.is_empty() && results.iter().all(|(_, result)| result.is_err());
    job.failures += usize::from(failed);
    for (metric, result) in results {
        collector.result(source.id(), metric, round, line_ns, result);
    }
}

/// All jobs of a round, those of one stage side by side, in the order of the sources.
fn jobs(sources: &[Box<dyn Source>], plan: &Plan) -> Vec<Job> {
    let mut jobs = Vec::new();
    for stage in plan.stages(0) {
        for (index, source) in sources.iter().enumerate() {
            let metrics: Vec<Metric> = plan
                .metrics
                .iter()
                .copied()
                .filter(|&metric| plan.stage_of(metric) == stage && source.offers(metric))
                .collect();
            if !metrics.is_empty() {
                jobs.push(Job { source: index, stage, metrics, failures: 0 });
            }
        }
    }
    jobs
}
