//! The part of `bowline explain` about collectives: the algorithms of one, with what each is expected to take, and
//! which one a job takes. Nothing is started.

use std::fmt::Write;

use anyhow::{Context, Result};
use bowline_base::config::{Config, show_bytes};
use bowline_model::coll::choice::Shape;
use bowline_model::coll::price::{AllreduceForm, Costs, Crew, Priced};
use clap::ValueEnum;
use serde::Serialize;

/// Collectives that have algorithms with a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Collective {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Allgather,
    Alltoall,
    ReduceScatter,
}

/// All that is told.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    collective: String,
    ranks: u32,
    /// Ranks for each processor.
    share: f64,
    /// What messages cost, as `BOWLINE_COLL_COSTS` has it.
    costs: String,
    /// Whether the costs are only assumed, and a job chooses by the table of limits instead.
    assumed: bool,
    sizes: Vec<OfSize>,
}

/// The algorithms for one size, the cheapest first.
#[derive(Debug, Serialize)]
struct OfSize {
    /// Bytes of a vector, or of a block where each rank has one.
    bytes: usize,
    algorithms: Vec<Algorithm>,
}

#[derive(Debug, Serialize)]
struct Algorithm {
    name: String,
    /// Predicted nanoseconds.
    time_ns: f64,
    /// Whether a job with the settings of this one takes it.
    taken: bool,
}

/// Names of algorithms with their prices.
fn named<F: std::fmt::Debug + PartialEq>(
    all: Vec<Priced<F>>,
    by_table: Option<&F>,
) -> Vec<Algorithm> {
    let name = |form: &F| format!("{form:?}");
    of_names(all, by_table.map(name), name)
}

/// The one that a table names is taken, or else the first.
fn of_names<F>(
    all: Vec<Priced<F>>,
    by_table: Option<String>,
    name: impl Fn(&F) -> String,
) -> Vec<Algorithm> {
    let algorithm = |(index, Priced { form, time }): (usize, Priced<F>)| {
        let name = name(&form);
        let taken = by_table.as_ref().map_or(index == 0, |table| *table == name);
        Algorithm { name, time_ns: time, taken }
    };
    all.into_iter().enumerate().map(algorithm).collect()
}

fn allreduce_name(form: &AllreduceForm) -> String {
    match form {
        AllreduceForm::Form(form) => format!("{form:?}"),
        AllreduceForm::Multiplying(schedule) => format!("Multiplying {schedule}"),
    }
}

/// What is known of a collective of `ranks`, `share` on each processor, with these settings.
///
/// # Errors
/// When the setting is no cost.
pub(super) fn report(
    config: &Config,
    collective: Collective,
    ranks: u32,
    share: f64,
    sizes: &[usize],
) -> Result<Report> {
    let setting = bowline::mpi::COLL_COSTS;
    let text: String = config.get(setting);
    let assumed = text == "auto";
    let costs: Costs =
        if assumed { Costs::SHARED_MEMORY } else { text.parse().context(setting.name())? };
    let crew = Crew { ranks, share };
    let shape = Shape { ranks, oversubscribed: share > 1.0 };
    // What the table says counts where the job has no costs.
    let width = 8;
    let algorithms = |bytes: usize| match collective {
        Collective::Barrier => {
            named(crew.barriers(&costs), assumed.then(|| shape.barrier()).as_ref())
        }
        Collective::Bcast => {
            named(crew.bcasts(&costs, bytes), assumed.then(|| shape.bcast(bytes)).as_ref())
        }
        Collective::Reduce => {
            let table = assumed.then(|| shape.reduce(bytes, width, true));
            named(crew.reduces(&costs, bytes, true), table.as_ref())
        }
        Collective::Allreduce => {
            let table = assumed.then(|| format!("{:?}", shape.allreduce(bytes, width)));
            of_names(crew.allreduces(&costs, bytes, true), table, allreduce_name)
        }
        Collective::Allgather => {
            named(crew.allgathers(&costs, bytes), assumed.then(|| shape.allgather(bytes)).as_ref())
        }
        Collective::Alltoall => {
            named(crew.alltoalls(&costs, bytes), assumed.then(|| shape.alltoall(bytes)).as_ref())
        }
        Collective::ReduceScatter => {
            let total = bytes.saturating_mul(ranks as usize);
            let table = assumed.then(|| shape.reduce_scatter(total, true));
            named(crew.reduce_scatters(&costs, total, true), table.as_ref())
        }
    };
    let sizes = if collective == Collective::Barrier { &[0][..] } else { sizes };
    let sizes = sizes.iter().map(|&bytes| OfSize { bytes, algorithms: algorithms(bytes) });
    let name = collective.to_possible_value().context("every collective has a name")?;
    Ok(Report {
        collective: name.get_name().to_owned(),
        ranks,
        share,
        costs: if assumed { "shm".to_owned() } else { text },
        assumed,
        sizes: sizes.collect(),
    })
}

impl Report {
    /// A table for each size.
    pub(super) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        let Self { collective, ranks, share, costs, assumed, sizes } = self;
        writeln!(out, "{collective} of {ranks} ranks, {share} on a processor")?;
        match assumed {
            true => writeln!(
                out,
                "times are assumed ({costs}); a job without BOWLINE_COLL_COSTS chooses by a table of limits"
            )?,
            false => writeln!(out, "times by BOWLINE_COLL_COSTS={costs}, which jobs choose by")?,
        }
        for OfSize { bytes, algorithms } in sizes {
            writeln!(out, "{}", show_bytes(*bytes as u64))?;
            for Algorithm { name, time_ns, taken } in algorithms {
                let mark = if *taken { '+' } else { '-' };
                writeln!(out, "  {mark} {:>12.2} us  {name}", time_ns / 1e3)?;
            }
        }
        writeln!(out, "+ is what a job takes where its transports share no memory for it")?;
        Ok(out)
    }
}
