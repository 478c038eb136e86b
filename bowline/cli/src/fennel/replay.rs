//! Jobs that were recorded, run again on a modelled network.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bowline_model::coll::blocks::Packed;
use bowline_model::coll::plan::{Space, Span};
use bowline_model::coll::price::{Algorithm, Costs, Crew, JobCosts, Prices};
use bowline_model::coll::reduce_scatter;
use bowline_model::fennel::job::{
    BlockRow, Collective as Call, Counts, Job as Recorded, JobRecordError, Lengths, RankRecord,
};
use bowline_model::fennel::source::StepSource;
use serde::Serialize;

use super::programs::{Collective, Job, Kind, Ranks, pick_algorithm, stated};
use super::uneven;

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
    /// Collectives that go by what is cheapest although they were to go as recorded: which, and how many.
    pub(super) otherwise: BTreeMap<String, u64>,
}

/// Reads the records of a job.
///
/// # Errors
/// When a file cannot be read, is no record, or they are not those of one job.
pub(super) fn read(files: &[PathBuf]) -> Result<(Recorded, Record)> {
    let one = |path: &PathBuf| {
        let name = || path.display().to_string();
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", name()))?;
        let text =
            String::from_utf8(text).map_err(|_| JobRecordError::Foreign).with_context(name)?;
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
        otherwise: BTreeMap::new(),
    };
    Ok((job, record))
}

/// The job as a program, whose collectives go by the cheapest algorithm under these costs, or as they were recorded where
/// that can be simulated. Which could not, and how many.
///
/// # Errors
/// When its members disagree on a collective, or it is one that is not simulated.
pub(super) fn job(
    recorded: &Recorded,
    as_recorded: bool,
    costs: impl Fn(usize) -> Costs,
) -> Result<(Job, BTreeMap<String, u64>)> {
    let (mut otherwise, mut all) = (BTreeMap::new(), 0);
    let mut of_call = |call: &Call| {
        let source = source(call, &costs(call.bytes), as_recorded, &mut otherwise)?;
        all += steps_of_all(&*source);
        if all > STEPS {
            return Err(format!(
                "{} of {} bytes: up to it the job has more steps than the {STEPS} that can be kept; without --as-recorded, or \
                 with another --network, its collectives may have fewer",
                call.name, call.bytes
            ));
        }
        Ok(source)
    };
    let job = Job::Graph(recorded.program(&mut of_call)?);
    Ok((job, otherwise))
}

/// Steps of a job's collectives that are kept, at most; each takes some 80 bytes.
const STEPS: usize = 1 << 25;

/// About how many steps all ranks of a collective have, counted as far as they can be kept.
fn steps_of_all(source: &dyn StepSource) -> usize {
    let (ranks, mut steps) = (source.ranks(), 0_usize);
    source.steps(ranks / 2, 0, &mut |_| {
        steps += 1;
        steps <= STEPS
    });
    steps.saturating_mul(ranks as usize)
}

/// The steps of a call; what it cannot go by although it did is counted.
fn source(
    call: &Call,
    costs: &Costs,
    as_recorded: bool,
    otherwise: &mut BTreeMap<String, u64>,
) -> Result<Box<dyn StepSource>, String> {
    if as_recorded {
        let how = call.how.as_deref();
        // A record does not say whether the order of operands counted.
        let mut as_it_was = how
            .into_iter()
            .flat_map(|how| [false, true].map(|ordered| steps(call, costs, (how, ordered))));
        if let Some(steps) = as_it_was.find_map(Result::ok) {
            return Ok(steps);
        }
        let how = how.unwrap_or("what this version does not name");
        *otherwise.entry(format!("{} by {how}", call.name)).or_default() += 1;
    }
    steps(call, costs, ("auto", false)).map_err(|error| format!("{}: {error:#}", call.name))
}

/// Where blocks of recorded lengths lie.
struct Places {
    /// The bytes before each block, and all.
    blocks: Vec<usize>,
    /// The same of what each rank sends, and of what it receives.
    sent: Vec<Offsets>,
    received: Vec<Offsets>,
}

/// Where the blocks of a rank lie that it sends to others, or receives from them.
enum Offsets {
    /// All have this length.
    Same(usize),
    /// The bytes before each block, and all.
    Each(Vec<usize>),
    /// Those of rank 0, since all ranks receive alike.
    AsFirst,
}

/// The bytes before each block, and all.
fn offsets(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut sum = 0;
    let after = lengths.map(|len| {
        sum += len;
        sum
    });
    std::iter::once(0).chain(after).collect()
}

fn between(offsets: &[usize], index: u32, space: Space) -> Span {
    let index = index as usize;
    Span::new(space, offsets[index], offsets[index + 1] - offsets[index])
}

impl Places {
    fn of_members(lengths: &[usize]) -> Self {
        let blocks = offsets(lengths.iter().copied());
        Self { blocks, sent: Vec::new(), received: Vec::new() }
    }

    fn of_pairs(rows: &[BlockRow]) -> Self {
        let of_row = |row: &BlockRow| match row {
            BlockRow::Same(len) => Offsets::Same(*len),
            BlockRow::Each(all) => Offsets::Each(offsets(all.iter().copied())),
        };
        let alike = rows.iter().all(|row| matches!(row, BlockRow::Same(_)));
        let column = |to: usize| match to {
            1.. if alike => Offsets::AsFirst,
            _ => Offsets::Each(offsets(rows.iter().map(|row| row.to(to)))),
        };
        let sent = rows.iter().map(of_row).collect();
        Self { blocks: Vec::new(), sent, received: (0..rows.len()).map(column).collect() }
    }

    /// The block of a rank among those that lie at `offsets`.
    fn of(&self, offsets: &Offsets, rank: u32, space: Space) -> Span {
        match offsets {
            Offsets::Same(len) => Span::new(space, rank as usize * len, *len),
            Offsets::Each(all) => between(all, rank, space),
            Offsets::AsFirst => self.of(&self.received[0], rank, space),
        }
    }
}

impl uneven::Lengths for Places {
    fn block(&self, rank: u32, space: Space) -> Span {
        between(&self.blocks, rank, space)
    }

    fn sent(&self, from: u32, to: u32) -> Span {
        self.of(&self.sent[from as usize], to, Space::Input)
    }

    fn received(&self, by: u32, from: u32) -> Span {
        self.of(&self.received[by as usize], from, Space::Output)
    }
}

/// The steps of a call by the algorithm that is wanted, for an operation that may be one that keeps the order of ranks.
fn steps(call: &Call, costs: &Costs, wanted: (&str, bool)) -> Result<Box<dyn StepSource>> {
    // On all ranks: where they are is not asked for.
    let costs = JobCosts { near: *costs, far: *costs };
    let prices = Prices { crew: Crew { ranks: call.ranks, share: 1.0 }, costs, layers: None };
    let job = match (call.name.as_str(), &call.lengths) {
        ("reduce_scatter", Lengths::Members(lengths)) => scattered(lengths, wanted, &prices)?,
        (name, Lengths::Members(lengths)) => {
            let kind = match name {
                "allgatherv" => uneven::Kind::Allgatherv,
                "gatherv" => uneven::Kind::Gatherv,
                "scatterv" => uneven::Kind::Scatterv,
                _ => bail!("blocks of it have one length"),
            };
            let of = (call.ranks, call.root);
            uneven::job(kind, Places::of_members(lengths), of, wanted.0, &prices)?.0
        }
        (_, Lengths::Pairs(rows)) => {
            let (kind, of) = (uneven::Kind::Alltoallv, (call.ranks, 0));
            uneven::job(kind, Places::of_pairs(rows), of, wanted.0, &prices)?.0
        }
        _ => even(call, wanted, &prices)?,
    };
    match job {
        Job::Steps(of) => Ok(of.source),
        Job::Graph(_) => bail!("collectives are steps"),
    }
}

/// A reduction that is scattered in blocks of these lengths.
fn scattered(lengths: &[usize], (how, ordered): (&str, bool), prices: &Prices) -> Result<Job> {
    let offsets = offsets(lengths.iter().copied());
    let total = offsets.last().copied().unwrap_or(0);
    let Algorithm::Form(how) = pick_algorithm(prices.reduce_scatters(total, !ordered), how)? else {
        bail!("nodes are not recorded");
    };
    stated(prices.crew.ranks, move |plan, place| {
        let own = between(&offsets, place.rank, Space::Output).len;
        let blocks = Packed { space: Space::Input, offsets: &offsets };
        reduce_scatter::run(plan, place, how, &blocks, Span::output(own))
    })
}

/// A collective whose blocks, if it has some, have one length, or are taken to have that.
fn even(call: &Call, (algorithm, ordered): (&str, bool), prices: &Prices) -> Result<Job> {
    let &Call { ranks, bytes, root, .. } = call;
    let kind = match call.name.as_str() {
        "barrier" => Kind::Barrier,
        "bcast" => Kind::Bcast,
        "reduce" => Kind::Reduce,
        "allreduce" => Kind::Allreduce,
        "allgather" => Kind::Allgather,
        "alltoall" | "alltoallv" => Kind::Alltoall,
        "reduce_scatter" => Kind::ReduceScatter,
        "gather" => Kind::Gather,
        "scatter" => Kind::Scatter,
        "scan" => Kind::Scan,
        "exscan" => Kind::Exscan,
        "allgatherv" | "gatherv" | "scatterv" => bail!(
            "the lengths of its blocks are not known, since the record of a member lacks this call; record a job in which all members made it"
        ),
        _ => bail!("this collective is not simulated"),
    };
    let size = match call.name.as_str() {
        // What a rank gives to all others together.
        "alltoallv" | "reduce_scatter" => bytes.div_ceil(ranks as usize),
        _ => bytes,
    };
    let (algorithm, of) = (algorithm.to_owned(), Ranks { ranks });
    Ok(Collective { of, size, algorithm, root, ordered }.job(kind, prices)?.0)
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
        if !self.otherwise.is_empty() {
            let of = |(what, count): (&String, &u64)| format!("{count} {what}");
            let all: Vec<String> = self.otherwise.iter().map(of).collect();
            text += &format!(
                "collectives that cannot go as they did here, and go by what is cheapest: {}\n",
                all.join(", ")
            );
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_model::coll::barrier;
    use bowline_model::coll::forms::Barrier;

    #[test]
    fn steps_are_counted_as_far_as_they_can_be_kept() {
        let job = |rounds: usize| {
            let job = stated(4, move |plan, place| {
                (0..rounds).try_for_each(|_| barrier::run(plan, place, Barrier::Dissemination))
            });
            match job.unwrap() {
                Job::Steps(of) => steps_of_all(&*of.source),
                Job::Graph(_) => unreachable!("it is stated"),
            }
        };
        // Two stages, in each of which a rank sends, receives and waits.
        assert_eq!((job(1), job(10)), (4 * 6, 4 * 60));
    }
}
