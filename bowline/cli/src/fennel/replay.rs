//! Jobs that were recorded, run again on a modelled network.

use std::path::PathBuf;

use anyhow::{Context, Result};
use bowline_model::coll::price::{Costs, Crew, JobCosts, Prices};
use bowline_model::fennel::job::{Collective as Call, Counts, Job as Recorded, RankRecord};
use bowline_model::fennel::source::Source;
use serde::Serialize;

use super::programs::{Collective, Job, Kind, Ranks};

/// What was recorded, to stand beside what is simulated.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Record {
    /// From the beginning to the end of the last call.
    time_ns: f64,
    /// Messages of the program's, and their bytes: those of collectives are not among them.
    messages: u64,
    bytes: u64,
    /// Calls of collectives, of all ranks, and those that only started one; and of these, those whose ends are not recorded.
    collectives: u64,
    started: u64,
    ended_in_call: u64,
    /// Between calls, of all ranks.
    computing_ns: f64,
    /// Ranks whose records break off, and how many calls are left out because of that.
    unended: Vec<u32>,
    left_out: usize,
}

/// Reads the records of a job.
///
/// # Errors
/// When a file cannot be read, is no record, or they are not those of one job.
pub(super) fn read(files: &[PathBuf]) -> Result<(Recorded, Record)> {
    let one = |path: &PathBuf| {
        let name = || path.display().to_string();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", name()))?;
        RankRecord::parse(&text).with_context(name)
    };
    let mut job = Recorded::new(files.iter().map(one).collect::<Result<_>>()?)?;
    let unended = job.unended();
    let left_out = if unended.is_empty() { 0 } else { job.cut() };
    let Counts { messages, bytes, collectives, later, ended_in_call, computing, .. } = job.counts();
    let record = Record {
        time_ns: job.time(),
        messages,
        bytes,
        collectives,
        started: later,
        ended_in_call,
        computing_ns: computing,
        unended,
        left_out,
    };
    Ok((job, record))
}

/// The job as a program, whose collectives go by the cheapest algorithm under these costs.
///
/// # Errors
/// When its members disagree on a collective, or it is one that is not simulated.
pub(super) fn job(recorded: &Recorded, costs: impl Fn(usize) -> Costs) -> Result<Job> {
    let mut steps = |call: &Call| {
        steps(call, &costs(call.bytes)).map_err(|error| format!("{}: {error:#}", call.name))
    };
    Ok(Job::Graph(recorded.program(&mut steps)?))
}

fn steps(call: &Call, costs: &Costs) -> Result<Box<dyn Source>> {
    let &Call { ranks, bytes, root, .. } = call;
    let kind = match call.name.as_str() {
        "barrier" => Kind::Barrier,
        "bcast" => Kind::Bcast,
        "reduce" => Kind::Reduce,
        "allreduce" => Kind::Allreduce,
        "allgather" | "allgatherv" => Kind::Allgather,
        "alltoall" | "alltoallv" => Kind::Alltoall,
        "reduce_scatter" => Kind::ReduceScatter,
        "gather" | "gatherv" => Kind::Gather,
        "scatter" | "scatterv" => Kind::Scatter,
        "scan" => Kind::Scan,
        "exscan" => Kind::Exscan,
        _ => anyhow::bail!("this collective is not simulated"),
    };
    let share = |bytes: usize| bytes.div_ceil(ranks as usize);
    let size = match call.name.as_str() {
        // What a rank gives to all others together.
        "alltoallv" | "reduce_scatter" => share(bytes),
        _ => bytes,
    };
    let (algorithm, of) = ("auto".to_owned(), Ranks { ranks });
    let collective = Collective { of, size, algorithm, root, ordered: false };
    // On all ranks: where they are is not asked for.
    let costs = JobCosts { near: *costs, far: *costs };
    let prices = Prices { crew: Crew { ranks, share: 1.0 }, costs, layers: None };
    match collective.job(kind, &prices)?.0 {
        Job::Steps(source) => Ok(source),
        Job::Graph(_) => anyhow::bail!("collectives are steps"),
    }
}

impl Record {
    /// For people, beside the simulated time.
    pub(super) fn text(&self, simulated: f64) -> String {
        let Self { time_ns, messages, bytes, collectives, computing_ns, .. } = self;
        let part = if *time_ns > 0.0 { simulated / time_ns } else { 0.0 };
        let started = match (self.started, self.ended_in_call) {
            (0, _) => String::new(),
            (n, 0) => format!(" ({n} started, and run beside what came then)"),
            (n, m) => format!(
                " ({n} started; the ends of {m} are not recorded, and they are simulated as if they had ended there)"
            ),
        };
        let mut text = format!(
            "recorded: {time_ns:.1} ns, of which simulated {part:.3}; {messages} messages of {bytes} bytes, \
             {collectives} calls of collectives{started}, {computing_ns:.1} ns of computing\n"
        );
        if let [first, rest @ ..] = &self.unended[..] {
            let others = match rest.len() {
                0 => String::new(),
                n => format!(" and {n} others"),
            };
            let left_out = self.left_out;
            text += &format!(
                "the record of rank {first}{others} breaks off: {left_out} calls are left out, those that waited for \
                 what it does not have and what came after them\n"
            );
        }
        text
    }
}
