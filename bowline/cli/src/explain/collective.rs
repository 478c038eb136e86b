//! The part of `bowline explain` about collectives: the algorithms of one, with what each is expected to take, and
//! which one a job takes. Nothing is started.

use std::fmt::Write;

use anyhow::{Context, Result};
use bowline::model_file::CostSource;
use bowline_base::config::{Config, show_bytes};
use bowline_model::coll::choice::ChoiceInput;
use bowline_model::coll::forms::{Alltoall, Form, Tree};
use bowline_model::coll::price::{
    Algorithm, AllreduceForm, Combining, Costs, Crew, JobCosts, Layers, Priced, Prices,
    ReductionOperands,
};
use bowline_model::coll::wanted::STAGED;
use serde::Serialize;

use super::unlisted::{self, Call};
use crate::collective::Collective;
use crate::numbers;

/// Everything that is reported.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    collective: String,
    /// What a reduction combines.
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<Operation>,
    ranks: u32,
    /// Ranks for each processor.
    share: f64,
    nodes: u32,
    /// What messages cost, as `BOWLINE_COLL_COSTS` has it.
    costs: String,
    /// Where the costs are from: given, fitted or assumed.
    source: &'static str,
    /// The parameters of them that are neither given nor fitted.
    assumed: Vec<Assumed>,
    /// By what a job chooses: a setting that names the algorithm, costs, or the table of limits; nothing where there is one
    /// algorithm. A table that was tuned goes before costs and limits.
    chosen_by: &'static str,
    sizes: Vec<OfSize>,
    /// What else is to be known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// Why gathers and scatters with a length for each rank have one algorithm.
const ONE_ALGORITHM: &str = "there is one algorithm: blocks go straight between the root and each rank. In a tree a rank would pass on \
                             blocks whose lengths the root alone knows, and the steps of a collective state the lengths of all \
                             messages when it begins";

/// Why calls with a length for each rank have no choice.
const ROOT_ALONE: &str = "blocks of different lengths always go straight between the root and each rank: their lengths are \
                          known to the root alone, so the others could choose nothing by them without a message more";

/// Why all-to-alls with a length for each pair of ranks have so little choice.
const PAIRS_ALONE: &str = "a rank knows the lengths of its own blocks only, so no length decides, and no algorithm is in layers: for \
                           that ranks would have to exchange lengths first";

/// An operation, as choices know it.
#[derive(Debug, Serialize)]
struct Operation {
    class: &'static str,
    commutative: bool,
    /// Bytes of an element.
    width: usize,
    /// As how many they are priced, where that is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    priced_width: Option<usize>,
}

/// Parameters of costs that are assumed, whatever the others are from.
#[derive(Debug, Serialize)]
struct Assumed {
    /// Of which messages.
    messages: &'static str,
    parameters: Vec<&'static str>,
}

/// The assumed ones of what a job has found, for messages within nodes and, where there are several, between them.
fn assumed(text: &str, costs: &JobCosts, spread: bool) -> Vec<Assumed> {
    let (near, far) = JobCosts::halves(text);
    let of = |messages, text: &str, costs: &Costs| {
        let by_size = !costs.by_size.is_empty();
        let known = |name: &str| {
            by_size && ["pipelining", "required"].contains(&name)
                || text.split(',').any(|word| word.trim().split('=').next() == Some(name))
        };
        let parameters = Costs::NAMES.into_iter().filter(|name| !known(name)).collect();
        Assumed { messages, parameters }
    };
    match spread {
        false => vec![of("all", near, &costs.near)],
        true => vec![
            of("within nodes", near, &costs.near),
            of("between nodes", far.unwrap_or(near), &costs.far),
        ],
    }
}

/// The algorithms for one size, the cheapest first.
#[derive(Debug, Serialize)]
struct OfSize {
    /// Bytes of a vector, or of a block where each rank has one.
    bytes: usize,
    /// The algorithm that the table of `BOWLINE_COLL_TABLE` names, where no setting names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tuned: Option<String>,
    algorithms: Vec<Shown>,
}

#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    /// How a reduction goes through shared memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<&'static str>,
    /// Predicted nanoseconds; none of an algorithm in layers that costs do not choose from.
    time_ns: Option<f64>,
    /// Whether a job with the settings of this one takes it.
    taken: bool,
}

/// Algorithms with their names, as settings take them.
fn named<F>(all: Vec<Priced<Algorithm<F>>>, name: impl Fn(&F) -> String) -> Vec<Priced<String>> {
    all.into_iter().map(|one| one.map(|form| form.name_by(&name))).collect()
}

fn forms<F: Form>(all: Vec<Priced<F>>) -> Vec<Priced<String>> {
    all.into_iter().map(|one| one.map(|form| form.name())).collect()
}

fn of_form<F: Form>(form: &F) -> String {
    form.name()
}

/// Puts an algorithm before the first one that is dearer. Of equals those of messages come first, as a job takes them.
fn insert(all: &mut Vec<Priced<String>>, one: Priced<String>) {
    let place = all.iter().position(|other| one.time < other.time).unwrap_or(all.len());
    all.insert(place, one);
}

/// The algorithms of one size, that of shared memory among them if the ranks share some, and what the table of limits
/// says of messages.
fn algorithms(
    prices: &Prices,
    (shape, memory): (ChoiceInput, bool),
    (collective, operands): (Collective, ReductionOperands),
    bytes: usize,
) -> (Vec<Priced<String>>, String) {
    let (commutative, width, class) = (operands.commutative(), operands.width(), operands.class());
    let total = bytes.saturating_mul(shape.ranks as usize);
    let length = collective.length(shape.ranks, bytes);
    let (mut all, table) = match collective {
        Collective::Barrier => (named(prices.barriers(), of_form), shape.barrier().name()),
        Collective::Bcast => (named(prices.bcasts(bytes), of_form), shape.bcast(bytes).name()),
        Collective::Reduce => {
            let table = shape.reduce(bytes, width, commutative).name();
            (named(prices.reduces(bytes, operands), of_form), table)
        }
        Collective::Allreduce => {
            let table = shape.allreduce(bytes, width).name();
            (named(prices.allreduces(bytes, operands), AllreduceForm::name), table)
        }
        Collective::Allgather => {
            (named(prices.allgathers(bytes), of_form), shape.allgather(bytes).name())
        }
        Collective::Alltoall => {
            (named(prices.alltoalls(bytes), of_form), shape.alltoall(bytes).name())
        }
        Collective::Gather => (named(prices.gathers(bytes), of_form), shape.tree(bytes).name()),
        Collective::Scatter => (named(prices.scatters(bytes), of_form), shape.tree(bytes).name()),
        Collective::Gatherv => (forms(vec![prices.gathervs(bytes)]), Tree::Linear.name()),
        Collective::Scatterv => (forms(vec![prices.scattervs(bytes)]), Tree::Linear.name()),
        Collective::Allgatherv => {
            let all = prices.allgathervs((total as f64, bytes as f64));
            (named(all, of_form), shape.allgatherv(total).name())
        }
        Collective::Alltoallv => {
            (forms(prices.alltoallvs()), Alltoall::Staged(shape.alltoallv()).name())
        }
        Collective::Scan => {
            (named(prices.scans(bytes, false, class), of_form), shape.scan().name())
        }
        Collective::Exscan => {
            (named(prices.scans(bytes, true, class), of_form), shape.scan().name())
        }
        Collective::ReduceScatter => {
            let table = shape.reduce_scatter(total, commutative).name();
            (named(prices.reduce_scatters(total, operands), of_form), table)
        }
    };
    let staged = collective.staged().filter(|_| memory);
    let staged = staged.and_then(|what| prices.staged(what, length, operands));
    if let Some(time) = staged {
        insert(&mut all, Priced { form: STAGED.to_owned(), time, waits: 0.0 });
    }
    (all, table)
}

/// What is known of a collective of ranks on some nodes, `share` on each processor, with these settings. Of an element
/// `width` is what the user says, and the operands have it as prices do.
///
/// # Errors
/// When the setting is no cost.
pub(super) fn report(
    config: &Config,
    (collective, operands): (Collective, ReductionOperands),
    width: usize,
    (ranks, nodes): (u32, u32),
    share: f64,
    sizes: &[usize],
) -> Result<Report> {
    // As a job of so many nodes would find them.
    let known = bowline::model_file::coll_costs(nodes > 1, config)?;
    let (text, source) = known
        .as_ref()
        .map_or(("shm/tcp", CostSource::Assumed), |(text, source)| (text.as_str(), *source));
    let costs: JobCosts = text.parse().context(bowline::mpi::COLL_COSTS.name())?;
    let assumed = assumed(text, &costs, nodes > 1);
    let key = collective.setting();
    let options = bowline::mpi::CollOptions::from_config(config)?;
    let asked = options.algorithms().into_iter().find(|(collective, _)| *collective == key);
    let asked = asked.map_or_else(|| "auto".to_owned(), |(_, algorithm)| algorithm);
    let by_costs = known.is_some();
    let chosen_by = match (asked == "auto", by_costs) {
        _ if collective.has_no_choice() => "nothing",
        (false, _) => "setting",
        (true, true) => "costs",
        (true, false) => "table",
    };
    let layers = (nodes > 1).then(|| Layers {
        nodes: nodes.min(ranks),
        most: ranks.div_ceil(nodes),
        consecutive: true,
    });
    let prices = Prices { crew: Crew { ranks, share }, costs, layers };
    let memory = nodes == 1 && bowline::stack::shares_memory(config);
    let shape = ChoiceInput { ranks, oversubscribed: share > 1.0 };
    let table_of_job = bowline::coll_table::read(config, ranks)?.of(ranks, nodes.min(ranks));
    let of_size = |&bytes: &usize| {
        let (mut all, table) = algorithms(&prices, (shape, memory), (collective, operands), bytes);
        let length = collective.length(ranks, bytes);
        let cell = match collective {
            Collective::Alltoallv => table_of_job.uneven_alltoall().map(|(cell, _)| cell),
            _ => table_of_job.cell(key, length),
        };
        // The name in the list of what is asked for, if the call allows it. It need not be one that costs choose from.
        let mut unpriced = None;
        let mut allowed = |asked: &str| {
            let listed =
                |all: &[Priced<String>], form: &str| all.iter().any(|one| one.form == form);
            if listed(&all, asked) {
                return Some(asked.to_owned());
            }
            let call = Call { collective, operands, bytes, prices: &prices, by_costs };
            let (form, load) = unlisted::find(asked, call)?;
            match load {
                _ if listed(&all, &form) => {}
                Some(load) => {
                    let costs = prices.anywhere().combining(operands.class());
                    insert(&mut all, Priced::new(form.clone(), &load, prices.crew, &costs));
                }
                None => unpriced = Some(form.clone()),
            }
            Some(form)
        };
        let by_setting = allowed(&asked);
        let tuned = cell.filter(|_| by_setting.is_none()).map(|cell| cell.algorithm());
        let named = by_setting.or_else(|| allowed(tuned.as_ref()?));
        let table_shares =
            (shape.shares_memory() || shape.stages()) && all.iter().any(|one| one.form == STAGED);
        let taken = |index: usize, form: &str| match (&named, by_costs) {
            (Some(named), _) => form == named,
            (None, true) => index == 0,
            (None, false) if table_shares => form == STAGED,
            (None, false) => form == table,
        };
        let vector = (length, operands.width());
        let combining =
            collective.staged().and_then(|it| it.combining(ranks, vector, share <= 1.0));
        let algorithm = |(index, Priced { form, time, .. }): (usize, Priced<String>)| {
            let taken = taken(index, &form);
            let memory = combining.filter(|_| form == STAGED).map(Combining::name);
            Shown { name: form, memory, time_ns: Some(time), taken }
        };
        let unpriced = unpriced.map(|name| {
            let taken = named.as_ref() == Some(&name);
            Shown { name, memory: None, time_ns: None, taken }
        });
        let algorithms = all.into_iter().enumerate().map(algorithm).chain(unpriced).collect();
        OfSize { bytes, tuned, algorithms }
    };
    let sizes = if collective == Collective::Barrier { &[0][..] } else { sizes };
    Ok(Report {
        collective: collective.name(),
        operation: collective.reduces().then(|| Operation {
            class: operands.class().name(),
            commutative: operands.commutative(),
            width,
            priced_width: Some(operands.width()).filter(|priced| *priced != width),
        }),
        ranks,
        share,
        nodes,
        costs: prices.costs.to_string(),
        source: source.name(),
        assumed,
        chosen_by,
        sizes: sizes.iter().map(of_size).collect(),
        note: match collective {
            Collective::Gather | Collective::Scatter => Some(ROOT_ALONE),
            Collective::Gatherv | Collective::Scatterv => Some(ONE_ALGORITHM),
            Collective::Alltoallv => Some(PAIRS_ALONE),
            _ => None,
        },
    })
}

impl Report {
    /// A table for each size.
    pub(super) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        let Self {
            collective, ranks, share, nodes, costs, source, assumed, chosen_by, sizes, ..
        } = self;
        let ranks = numbers::ranks(*ranks);
        write!(out, "{collective} of {ranks}, {share} on a processor")?;
        writeln!(
            out,
            "{}",
            if *nodes > 1 { format!(", on {nodes} nodes") } else { String::new() }
        )?;
        if let Some(Operation { class, commutative, width, priced_width }) = &self.operation {
            let order = if *commutative { "commutative" } else { "not commutative" };
            let bytes = if *width == 1 { "byte" } else { "bytes" };
            write!(out, "operation of class {class}, {order}, on elements of {width} {bytes}")?;
            match priced_width {
                Some(priced) => writeln!(out, ", priced as of {priced}")?,
                None => writeln!(out)?,
            }
        }
        writeln!(out, "times by costs that are {source}: {costs}")?;
        for Assumed { messages, parameters } in assumed.iter().filter(|_| *source != "assumed") {
            let parameters = match &parameters[..] {
                [] => "nothing".to_owned(),
                names => names.join(", "),
            };
            writeln!(out, "assumed of {messages} messages: {parameters}")?;
        }
        writeln!(
            out,
            "{}",
            match *chosen_by {
                "nothing" => "jobs have nothing to choose",
                "setting" => "a setting names the algorithm",
                "costs" => "jobs choose by these costs",
                _ =>
                    "jobs with these transports choose by a table of limits, unless BOWLINE_COLL_COSTS says what messages cost",
            }
        )?;
        for OfSize { bytes, tuned, algorithms } in sizes {
            write!(out, "{}", show_bytes(*bytes as u64))?;
            match tuned {
                Some(word) => writeln!(out, ": the table of BOWLINE_COLL_TABLE names {word}")?,
                None => writeln!(out)?,
            }
            for Shown { name, memory, time_ns, taken } in algorithms {
                let mark = if *taken { '+' } else { '-' };
                let memory = memory.map_or_else(String::new, |form| format!(" ({form})"));
                let time =
                    time_ns.map_or_else(|| "-".to_owned(), |time| format!("{:.2}", time / 1e3));
                writeln!(out, "  {mark} {time:>12} us  {name}{memory}")?;
            }
        }
        if let Some(note) = self.note {
            writeln!(out, "{note}")?;
        }
        writeln!(
            out,
            "+ is what a job takes; calls that return before the end never go by staged"
        )?;
        Ok(out)
    }
}
