//! What is simulated: a graph of tasks, or the steps of a collective.

use anyhow::{Context, Result, anyhow, bail, ensure};
use bowline_model::choice::{FactorOrder, choose};
use bowline_model::coll::blocks::{Blocks, Even};
use bowline_model::coll::forms::{Alltoall, Form};
use bowline_model::coll::layers::{self, AmongNodes, Layered};
use bowline_model::coll::nodes::Nodes;
use bowline_model::coll::plan::{Place, Space, Span, Vectors};
use bowline_model::coll::price::{Algorithm, AllreduceForm, Costs, OpClass, Priced, Prices};
use bowline_model::coll::record::{Step, Steps};
use bowline_model::coll::wanted::WantedAllreduce;
use bowline_model::coll::{
    allgather, allreduce, alltoall, barrier, bcast, gather, multiply, reduce, reduce_scatter, scan,
    scatter,
};
use bowline_model::fennel::eliminate::{Elimination, eliminate};
use bowline_model::fennel::generate::{Computes, allreduce_with};
use bowline_model::fennel::program::Program;
use bowline_model::fennel::source::{Published, Stated, StepSource, Stopped, Walk, write_down};
use bowline_model::schedule::Schedule;

pub(super) use super::super::collective::Collective as Kind;
use super::super::info::machine;
use super::super::numbers;

/// What runs.
pub(super) enum Job {
    /// A graph of tasks.
    Graph(Program),
    /// The steps of ranks.
    Steps(Steppers),
}

/// The steps of ranks, and about how many there are.
pub(super) struct Steppers {
    pub(super) source: Box<dyn StepSource>,
    pub(super) steps: u64,
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
pub(super) fn pick<F: Form>(all: Vec<Priced<F>>, wanted: &str) -> Result<F> {
    let form = F::of_name(wanted);
    let found = all.iter().find(|one| wanted == "auto" || form == Some(one.form));
    found
        .map(|one| one.form)
        .with_context(|| not_among(wanted, all.iter().map(|one| one.form.name())))
}

/// The same where there are algorithms in layers, which may be asked for with either tree within nodes.
pub(super) fn pick_algorithm<F: Form>(
    all: Vec<Priced<Algorithm<F>>>,
    wanted: &str,
) -> Result<Algorithm<F>> {
    let algorithm = Algorithm::of_name(wanted);
    let is = |known: Algorithm<F>| match (known, algorithm) {
        (Algorithm::Layered(known), Some(Algorithm::Layered(algorithm))) => {
            known.among == algorithm.among
        }
        (known, algorithm) => algorithm == Some(known),
    };
    let found = all.iter().find(|one| wanted == "auto" || is(one.form));
    found
        .map(|one| algorithm.unwrap_or(one.form))
        .with_context(|| not_among(wanted, all.iter().map(|one| one.form.name())))
}

fn not_among(wanted: &str, names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    format!("--algorithm {wanted}: for these ranks there are auto, {}", names.join(", "))
}

/// The steps that an algorithm states: written down where a rank waits so often that stating them again and again
/// would take longer.
pub(super) fn stated(
    ranks: u32,
    algorithm: impl Fn(&mut Walk<'_>, Place) -> Result<(), Stopped> + 'static,
) -> Result<Job> {
    let source = Stated::new(ranks, algorithm);
    Ok(Job::Steps(kept(source)?))
}

/// Waits of a rank above which its steps are written down.
const WAITS: usize = 64;
/// Steps that are written down at most.
const STEPS: usize = 1 << 27;
/// What each of them takes, in bytes.
const STEP_BYTES: u64 = 16;
/// Steps of all ranks that are stated again and again, at most: some hours.
const STATED_STEPS: usize = 1 << 36;
/// What a run keeps of a message that is under way and of the receive that waits for it, in bytes.
const UNDER_WAY: u64 = 48;

/// Whether there is memory for a run.
fn affordable(bytes: u64, what: impl FnOnce() -> String) -> Result<()> {
    let way_out = "take fewer ranks, or an algorithm with fewer messages at a time";
    machine::has_memory(bytes, what).map_err(|short| anyhow!("{short}; {way_out}"))
}

/// A source of which as much is written down as makes it fast. Its ranks do about as much as the one in the middle.
///
/// # Errors
/// When there are too many steps, or no memory for the messages that are under way at the same time.
fn kept(source: impl StepSource + 'static) -> Result<Steppers> {
    let ranks = source.ranks();
    let (mut waits, mut steps) = (0_usize, 0_usize);
    let (mut named, mut most) = (0_u64, 0_u64);
    source.steps(ranks / 2, 0, &mut |step| {
        match step {
            Step::Wait | Step::Join => named = 0,
            Step::Recv { .. } => named += 1,
            _ => {}
        }
        most = most.max(named);
        waits += usize::from(step == Step::Wait);
        steps += 1;
        steps <= STEPS
    });
    let of_all = (steps as u64).saturating_mul(u64::from(ranks));
    let under_way = most.saturating_mul(UNDER_WAY).saturating_mul(u64::from(ranks));
    affordable(under_way, || {
        format!("{} with up to {most} messages under way to each take about", numbers::ranks(ranks))
    })?;
    if waits <= WAITS && steps <= STEPS {
        ensure!(
            steps.saturating_mul(ranks as usize) <= STATED_STEPS,
            "this algorithm has about {steps} steps on each of {ranks} ranks, which would take days; take fewer ranks, or \
             another algorithm"
        );
        return Ok(Steppers { source: Box::new(source), steps: of_all });
    }
    ensure!(
        steps.saturating_mul(ranks as usize) <= STEPS,
        "this algorithm has about {steps} steps on each of {ranks} ranks, which is more than can be kept; take fewer \
         ranks, or another algorithm"
    );
    let written = of_all.saturating_mul(STEP_BYTES);
    affordable(written, || format!("the steps of {} take about", numbers::ranks(ranks)))?;
    let steps = write_down(&source).context("messages are a terabyte at most")?;
    Ok(Steppers { source: Box::new(Written(steps)), steps: of_all })
}

/// Steps that were written down, and are owned.
struct Written(Vec<Steps>);

impl StepSource for Written {
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

/// The nodes that an algorithm in layers goes by: none where there are no layers.
pub(super) fn nodes(prices: &Prices) -> Nodes {
    let layers = prices.layers_for(false);
    let ranks = layers.map_or(0, |_| prices.crew.ranks);
    let each = layers.map_or(1, |layers| layers.most);
    Nodes::new((0..ranks).map(|rank| rank / each))
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
    pub(super) fn job(&self, kind: Kind, prices: &Prices) -> Result<(Job, String)> {
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
        let (wanted, commutative) = (self.algorithm.as_str(), !self.ordered);
        let nodes = nodes(prices);
        match kind {
            Kind::Barrier => {
                let how = pick_algorithm(prices.barriers(), wanted)?;
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Form(how) => barrier::run(plan, place, how),
                    Algorithm::Layered(how) => layers::barrier(plan, place, &nodes, how.among),
                });
                Ok((job?, how.name()))
            }
            Kind::Bcast => {
                let how = pick_algorithm(prices.bcasts(size), wanted)?;
                let data = Span::output(size);
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Form(how) => bcast::run(plan, place, how, root, data),
                    Algorithm::Layered(how) => layers::bcast(plan, place, &nodes, how, root, data),
                });
                Ok((job?, how.name()))
            }
            Kind::Reduce => {
                let how = pick_algorithm(prices.reduces(size, commutative), wanted)?;
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Form(how) => reduce::run(plan, place, how, root, vectors(size)),
                    Algorithm::Layered(how) => {
                        layers::reduce(plan, place, &nodes, how, root, vectors(size))
                    }
                });
                Ok((job?, how.name()))
            }
            Kind::Allreduce => self.allreduce(prices, nodes),
            Kind::Gather => {
                total(ranks, size)?;
                let how = pick_algorithm(prices.gathers(size), wanted)?;
                let output = Even { space: Space::Output, len: size };
                let own = Span::input(size);
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Form(how) => gather::even(plan, place, how, root, own, output),
                    Algorithm::Layered(how) => {
                        layers::gather(plan, place, &nodes, how, root, own, output)
                    }
                });
                Ok((job?, how.name()))
            }
            Kind::Scatter => {
                total(ranks, size)?;
                let how = pick_algorithm(prices.scatters(size), wanted)?;
                let input = Even { space: Space::Input, len: size };
                let own = Span::output(size);
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Form(how) => scatter::even(plan, place, how, root, input, own),
                    Algorithm::Layered(how) => {
                        layers::scatter(plan, place, &nodes, how, root, input, own)
                    }
                });
                Ok((job?, how.name()))
            }
            Kind::Scan | Kind::Exscan => {
                let exclusive = kind == Kind::Exscan;
                let how = pick_algorithm(prices.scans(size, exclusive, OpClass::Vector), wanted)?;
                let (input, output) = (Span::input(size), Span::output(size));
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Form(how) => scan::run(plan, place, how, exclusive, input, output),
                    Algorithm::Layered(how) => {
                        layers::scan(plan, place, &nodes, how, exclusive, (input, output))
                    }
                });
                Ok((job?, how.name()))
            }
            Kind::Allgatherv | Kind::Alltoallv | Kind::Gatherv | Kind::Scatterv => {
                bail!("{}: blocks of one length are simulated here", kind.name())
            }
            Kind::Allgather => {
                total(ranks, size)?;
                let how = pick_algorithm(prices.allgathers(size), wanted)?;
                let (own, output) = (Span::input(size), Even { space: Space::Output, len: size });
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Form(how) => allgather::even(plan, place, how, own, output),
                    Algorithm::Layered(how) => {
                        layers::allgather(plan, place, &nodes, how, own, output)
                    }
                });
                Ok((job?, how.name()))
            }
            Kind::Alltoall => {
                total(ranks, size)?;
                let how = pick_algorithm(prices.alltoalls(size), wanted)?;
                let even = |space| Even { space, len: size };
                let (input, output) = (even(Space::Input), even(Space::Output));
                if let Algorithm::Layered(Layered { among: Alltoall::Bruck, .. }) = how {
                    bail!("--algorithm {wanted}: nodes exchange blocks with partners only");
                }
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Layered(Layered { among: Alltoall::Staged(partners), .. }) => {
                        layers::alltoall(plan, place, &nodes, partners, input, output)
                    }
                    Algorithm::Form(how) | Algorithm::Layered(Layered { among: how, .. }) => {
                        alltoall::even(plan, place, how, input, output)
                    }
                });
                Ok((job?, how.name()))
            }
            Kind::ReduceScatter => {
                let all = total(ranks, size)?;
                let how = pick_algorithm(prices.reduce_scatters(all, commutative), wanted)?;
                let (blocks, own) = (Cut(size), Span::output(size));
                let job = stated(ranks, move |plan, place| match how {
                    Algorithm::Form(how) => reduce_scatter::run(plan, place, how, &blocks, own),
                    Algorithm::Layered(how) => {
                        layers::reduce_scatter(plan, place, &nodes, how, &blocks, own)
                    }
                });
                Ok((job?, how.name()))
            }
        }
    }

    /// What is asked for of an allreduce of so many ranks, or nodes, that is not left open.
    fn form(&self, wanted: WantedAllreduce, ranks: u32, costs: &Costs) -> Result<AllreduceForm> {
        Ok(match wanted {
            WantedAllreduce::Form(form) => AllreduceForm::Form(form),
            WantedAllreduce::Multiplying { ratio } => {
                let own = self.algorithm.ends_with("multiplying");
                let ratio = if own { costs.ratio(self.size) } else { ratio };
                AllreduceForm::Multiplying(choose(ranks, ratio, FactorOrder::ByCost))
            }
            WantedAllreduce::Schedule(tokens) => {
                AllreduceForm::Multiplying(Schedule::new(ranks, tokens)?)
            }
            WantedAllreduce::Staged => bail!("--algorithm staged: it has no messages to simulate"),
            WantedAllreduce::Auto | WantedAllreduce::Layered { .. } => {
                bail!("--algorithm {}: an algorithm among the nodes is named", self.algorithm)
            }
        })
    }

    fn allreduce(&self, prices: &Prices, nodes: Nodes) -> Result<(Job, String)> {
        let Self { of: Ranks { ranks }, size, .. } = *self;
        let algorithm = match self.algorithm.parse().context("--algorithm")? {
            WantedAllreduce::Auto => {
                let all = prices.allreduces(size, !self.ordered);
                all.into_iter()
                    .next()
                    .context("there is an algorithm for all numbers of ranks")?
                    .form
            }
            WantedAllreduce::Layered { within, among } => {
                let layers = prices.layers_for(self.ordered).with_context(|| {
                    format!(
                        "--algorithm {}: it needs several nodes with several ranks, as of --per-node",
                        self.algorithm
                    )
                })?;
                let among = self.form(*among, layers.nodes, &prices.costs.far)?;
                Algorithm::Layered(Layered { within, among })
            }
            wanted => Algorithm::Form(self.form(wanted, ranks, prices.anywhere())?),
        };
        let name = algorithm.name_by(AllreduceForm::name);
        let (Algorithm::Form(form) | Algorithm::Layered(Layered { among: form, .. })) = &algorithm;
        if let AllreduceForm::Multiplying(schedule) = form {
            ensure!(
                !self.ordered || schedule.keeps_order(),
                "{schedule} does not keep the order of ranks, as --ordered wants it"
            );
        }
        let job = match algorithm {
            Algorithm::Form(AllreduceForm::Form(how)) => {
                stated(ranks, move |plan, place| allreduce::run(plan, place, how, vectors(size)))
            }
            Algorithm::Form(AllreduceForm::Multiplying(schedule)) => by_steps(schedule, size),
            Algorithm::Layered(Layered { within, among }) => stated(ranks, move |plan, place| {
                let stages;
                let among = match &among {
                    AllreduceForm::Form(form) => AmongNodes::Form(*form),
                    AllreduceForm::Multiplying(schedule) => {
                        stages = schedule.stages(nodes.node(place.rank));
                        AmongNodes::Multiplying(&stages)
                    }
                };
                layers::allreduce(plan, place, &nodes, Layered { within, among }, vectors(size))
            }),
        };
        Ok((job?, name))
    }
}

/// Ranks of an allreduce of which a graph of tasks is made, at most.
const MOST_AS_GRAPH: u32 = 1 << 16;

impl Allreduces {
    /// The allreduce as a job, and what it goes by.
    ///
    /// # Errors
    /// When there is no such algorithm, or the schedule is none of so many ranks.
    pub(super) fn job(&self, prices: &Prices) -> Result<(Job, String)> {
        let Some(text) = &self.schedule else { return self.of.job(Kind::Allreduce, prices) };
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
    Ok(Job::Steps(kept(published)?))
}
