//! What is simulated: a graph of tasks, or the steps of a collective.

use anyhow::{Context, Result, bail, ensure};
use bowline_model::choice::{Order, choose};
use bowline_model::coll::blocks::{Blocks, Even};
use bowline_model::coll::forms::Form;
use bowline_model::coll::plan::{Place, Space, Span, Vectors};
use bowline_model::coll::price::{AllreduceForm, Costs, Crew, OpClass, Priced};
use bowline_model::coll::record::{Step, Steps};
use bowline_model::coll::wanted::WantedAllreduce;
use bowline_model::coll::{
    allgather, allreduce, alltoall, barrier, bcast, gather, multiply, reduce, reduce_scatter, scan,
    scatter,
};
use bowline_model::fennel::eliminate::{Elimination, eliminate};
use bowline_model::fennel::generate::{Computes, allreduce_with};
use bowline_model::fennel::program::Program;
use bowline_model::fennel::source::{Published, Source, Stated, Stopped, Walk, write_down};
use bowline_model::schedule::Schedule;

pub(super) use super::super::collective::Collective as Kind;
use super::super::numbers;

/// What runs.
pub(super) enum Job {
    /// A graph of tasks.
    Graph(Program),
    /// The steps of ranks.
    Steps(Box<dyn Source>),
}

/// How many ranks take part.
#[derive(Debug, clap::Args)]
pub(super) struct Ranks {
    /// Number of ranks.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(super) ranks: u32,
}

/// A collective that moves data.
#[derive(Debug, clap::Args)]
pub(super) struct Collective {
    #[command(flatten)]
    pub(super) of: Ranks,
    /// Bytes of a vector, or of a block where each rank has one.
    #[arg(long, value_name = "BYTES", value_parser = numbers::size, default_value = "8")]
    pub(super) size: usize,
    /// The algorithm: auto, the cheapest on this network; or one by name. A wrong name lists them.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(super) algorithm: String,
    /// The root of a broadcast, reduction, gather or scatter.
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub(super) root: u32,
    /// The operation of a reduction is not commutative.
    #[arg(long)]
    pub(super) ordered: bool,
}

/// An allreduce, which may go by a schedule.
#[derive(Debug, clap::Args)]
pub(super) struct Allreduces {
    #[command(flatten)]
    pub(super) of: Collective,
    /// A schedule in the notation of recursive multiplying, run as the published simulator does: ranks compute once in a
    /// stage.
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "algorithm")]
    pub(super) schedule: Option<String>,
    /// Run the schedule by the engine's own steps, which reduce value by value.
    #[arg(long, requires = "schedule")]
    pub(super) steps: bool,
    /// Ranks compute once for each value that arrives, in the order of arrival, and not once in a stage.
    #[arg(long, requires = "schedule", conflicts_with = "steps")]
    pub(super) each_value: bool,
}

/// The algorithm with a name; the cheapest for `auto`.
fn pick<F: Form>(all: Vec<Priced<F>>, wanted: &str) -> Result<F> {
    let form = F::of_name(wanted);
    let found = all.iter().find(|one| wanted == "auto" || form == Some(one.form));
    found.map(|one| one.form).with_context(|| {
        let names: Vec<String> = all.iter().map(|one| one.form.name()).collect();
        format!("--algorithm {wanted}: for so many ranks there are auto, {}", names.join(", "))
    })
}

/// The steps that an algorithm states: written down where a rank waits so often that stating them again and again
/// would take longer.
fn stated(
    ranks: u32,
    algorithm: impl Fn(&mut Walk<'_>, Place) -> Result<(), Stopped> + 'static,
) -> Result<Job> {
    let source = Stated::new(ranks, algorithm);
    Ok(Job::Steps(kept(source)?))
}

/// Waits of a rank above which its steps are written down.
const WAITS: usize = 64;
/// Steps, 16 bytes each, that are written down at most.
const STEPS: usize = 1 << 27;

fn kept(source: impl Source + 'static) -> Result<Box<dyn Source>> {
    let ranks = source.ranks();
    let (mut waits, mut steps) = (0_usize, 0_usize);
    source.steps(ranks / 2, 0, &mut |step| {
        waits += usize::from(step == Step::Wait);
        steps += 1;
        true
    });
    if waits <= WAITS {
        return Ok(Box::new(source));
    }
    ensure!(
        steps.saturating_mul(ranks as usize) <= STEPS,
        "this algorithm has about {steps} steps on each of {ranks} ranks, which is more than can be kept; take fewer \
         ranks, or another algorithm"
    );
    let steps = write_down(&source).context("messages are a terabyte at most")?;
    Ok(Box::new(Written(steps)))
}

/// Steps that were written down, and are owned.
struct Written(Vec<Steps>);

impl Source for Written {
    fn ranks(&self) -> u32 {
        self.0.as_slice().ranks()
    }

    fn steps(&self, rank: u32, first: usize, take: &mut dyn FnMut(Step) -> bool) {
        self.0.as_slice().steps(rank, first, take);
    }
}

fn vectors(len: usize) -> Vectors {
    // Elements of 8 bytes where that is possible.
    let width = if len.is_multiple_of(8) { 8 } else { 1 };
    Vectors { input: Span::input(len), output: Span::output(len), width, scratch: 0 }
}

/// Bytes of all blocks, one of `len` for each rank.
fn total(ranks: u32, len: usize) -> Result<usize> {
    len.checked_mul(ranks as usize)
        .context("so many blocks of this size are beyond the address space")
}

/// Blocks of one length, cut from a vector.
struct Cut(usize);

impl Blocks for Cut {
    fn span(&self, rank: u32) -> Span {
        Span::new(Space::Input, rank as usize * self.0, self.0)
    }
}

impl Collective {
    /// The collective as a job, and the name of its algorithm.
    ///
    /// # Errors
    /// When there is no such algorithm or root.
    pub(super) fn job(&self, kind: Kind, costs: &Costs) -> Result<(Job, String)> {
        let Self { of: Ranks { ranks }, size, root, .. } = *self;
        let rooted = matches!(kind, Kind::Bcast | Kind::Reduce | Kind::Gather | Kind::Scatter);
        ensure!(rooted || root == 0, "--root {root}: this collective has no root");
        ensure!(root < ranks, "--root {root}: ranks are 0 to {}", ranks - 1);
        // Prefixes are in the order of ranks anyway.
        let reduces = matches!(
            kind,
            Kind::Reduce | Kind::Allreduce | Kind::ReduceScatter | Kind::Scan | Kind::Exscan
        );
        ensure!(reduces || !self.ordered, "--ordered: this collective has no operation");
        let (crew, wanted) = (Crew { ranks, share: 1.0 }, self.algorithm.as_str());
        let commutative = !self.ordered;
        match kind {
            Kind::Barrier => {
                let how = pick(crew.barriers(costs), wanted)?;
                Ok((stated(ranks, move |plan, place| barrier::run(plan, place, how))?, how.name()))
            }
            Kind::Bcast => {
                let how = pick(crew.bcasts(costs, size), wanted)?;
                let data = Span::output(size);
                let job =
                    stated(ranks, move |plan, place| bcast::run(plan, place, how, root, data));
                Ok((job?, how.name()))
            }
            Kind::Reduce => {
                let how = pick(crew.reduces(costs, size, commutative), wanted)?;
                let job = stated(ranks, move |plan, place| {
                    reduce::run(plan, place, how, root, vectors(size))
                });
                Ok((job?, how.name()))
            }
            Kind::Allreduce => self.allreduce(costs),
            Kind::Gather => {
                total(ranks, size)?;
                let how = pick(crew.gathers(costs, size), wanted)?;
                let output = Even { space: Space::Output, len: size };
                let job = stated(ranks, move |plan, place| {
                    gather::even(plan, place, how, root, Span::input(size), output)
                });
                Ok((job?, how.name()))
            }
            Kind::Scatter => {
                total(ranks, size)?;
                let how = pick(crew.scatters(costs, size), wanted)?;
                let input = Even { space: Space::Input, len: size };
                let job = stated(ranks, move |plan, place| {
                    scatter::even(plan, place, how, root, input, Span::output(size))
                });
                Ok((job?, how.name()))
            }
            Kind::Scan | Kind::Exscan => {
                let exclusive = kind == Kind::Exscan;
                let how = pick(crew.scans(costs, size, exclusive, OpClass::Vector), wanted)?;
                let (input, output) = (Span::input(size), Span::output(size));
                let job = stated(ranks, move |plan, place| {
                    scan::run(plan, place, how, exclusive, input, output)
                });
                Ok((job?, how.name()))
            }
            Kind::Allgatherv | Kind::Alltoallv => {
                bail!("blocks of one length are simulated: {}", kind.setting())
            }
            Kind::Allgather => {
                total(ranks, size)?;
                let how = pick(crew.allgathers(costs, size), wanted)?;
                let output = Even { space: Space::Output, len: size };
                let job = stated(ranks, move |plan, place| {
                    allgather::even(plan, place, how, Span::input(size), output)
                });
                Ok((job?, how.name()))
            }
            Kind::Alltoall => {
                total(ranks, size)?;
                let how = pick(crew.alltoalls(costs, size), wanted)?;
                let even = |space| Even { space, len: size };
                let (input, output) = (even(Space::Input), even(Space::Output));
                let job = stated(ranks, move |plan, place| {
                    alltoall::even(plan, place, how, input, output)
                });
                Ok((job?, how.name()))
            }
            Kind::ReduceScatter => {
                let all = total(ranks, size)?;
                let how = pick(crew.reduce_scatters(costs, all, commutative), wanted)?;
                let job = stated(ranks, move |plan, place| {
                    reduce_scatter::run(plan, place, how, &Cut(size), Span::output(size))
                });
                Ok((job?, how.name()))
            }
        }
    }

    fn allreduce(&self, costs: &Costs) -> Result<(Job, String)> {
        let Self { of: Ranks { ranks }, size, .. } = *self;
        let wanted = self.algorithm.parse().context("--algorithm")?;
        let form = match wanted {
            WantedAllreduce::Auto => {
                let all = Crew { ranks, share: 1.0 }.allreduces(costs, size, !self.ordered);
                all.into_iter()
                    .next()
                    .context("there is an algorithm for all numbers of ranks")?
                    .form
            }
            WantedAllreduce::Staged => bail!("--algorithm staged: it has no messages to simulate"),
            WantedAllreduce::Layered { .. } => {
                bail!("--algorithm {wanted}: collectives of one command are on one kind of node")
            }
            WantedAllreduce::Form(form) => AllreduceForm::Form(form),
            WantedAllreduce::Multiplying { ratio } => {
                let own = self.algorithm == "multiplying";
                let ratio = if own { costs.ratio(size) } else { ratio };
                AllreduceForm::Multiplying(choose(ranks, ratio, Order::ByCost))
            }
            WantedAllreduce::Schedule(tokens) => {
                AllreduceForm::Multiplying(Schedule::new(ranks, tokens)?)
            }
        };
        match form {
            AllreduceForm::Form(how) => {
                let job = stated(ranks, move |plan, place| {
                    allreduce::run(plan, place, how, vectors(size))
                });
                Ok((job?, how.name()))
            }
            AllreduceForm::Multiplying(schedule) => {
                if self.ordered && !schedule.keeps_order() {
                    bail!("{schedule} does not keep the order of ranks, as --ordered wants it");
                }
                let name = schedule.to_string();
                Ok((by_steps(schedule, size)?, name))
            }
        }
    }
}

/// Ranks of an allreduce of which a graph of tasks is made, at most.
const MOST_AS_GRAPH: u32 = 1 << 16;

impl Allreduces {
    /// The allreduce as a job, and what it goes by.
    ///
    /// # Errors
    /// When there is no such algorithm, or the schedule is none of so many ranks.
    pub(super) fn job(&self, costs: &Costs) -> Result<(Job, String)> {
        let Some(text) = &self.schedule else { return self.of.job(Kind::Allreduce, costs) };
        let (ranks, bytes) = (self.of.of.ranks, self.of.size);
        let schedule = Schedule::parse(ranks, text).context("--schedule")?;
        ensure!(
            !self.of.ordered || schedule.keeps_order(),
            "{schedule} does not keep the order of ranks, as --ordered wants it"
        );
        let name = schedule.to_string();
        if self.steps {
            return Ok((by_steps(schedule, bytes)?, name));
        }
        if self.each_value {
            ensure!(
                ranks <= MOST_AS_GRAPH,
                "--each-value: a graph of tasks is made for it, for up to {MOST_AS_GRAPH} ranks"
            );
            let program = allreduce_with(&schedule, bytes, Computes::EachValue);
            return Ok((Job::Graph(program), name));
        }
        let published = Published::new(ranks, bytes, move |rank| schedule.stages(rank));
        Ok((Job::Steps(kept(published)?), name))
    }
}

/// The engine's steps of a schedule.
fn by_steps(schedule: Schedule, bytes: usize) -> Result<Job> {
    stated(schedule.ranks(), move |plan, place| {
        multiply::run(plan, &schedule.stages(place.rank), vectors(bytes))
    })
}

/// An allreduce by elimination.
pub(super) fn elimination(ranks: u32, bytes: usize, overlapping: bool) -> Result<Job> {
    ensure!(ranks <= 1 << 20, "--ranks {ranks}: eliminations are simulated for up to {}", 1 << 20);
    let how = if overlapping { Elimination::Overlapping } else { Elimination::First };
    let stages = eliminate(ranks, how);
    let published = Published::new(ranks, bytes, move |rank| stages[rank as usize].clone());
    Ok(Job::Steps(Box::new(published)))
}
