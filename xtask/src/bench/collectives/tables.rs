//! What the fixed choices of MPICH and Open MPI cost on great machines, beside what this project would choose: in the
//! simulator, under one model of the network.
//!
//! Only numbers of ranks, lengths and that model enter. What a library does beside messages does not.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bowline_model::coll::layers::Layered;
use bowline_model::coll::price::{
    Algorithm, AllreduceForm, Costs, Crew, JobCosts, Layers, Priced, Prices,
};
use bowline_model::fennel::machine::RunError;
use bowline_model::fixed::composed::Composed;
use bowline_model::fixed::simulate::{Simulator, Time};
use bowline_model::fixed::{FixedCall, mpich, open_mpi};
use plotters::prelude::*;
use serde::Serialize;

use super::super::output;

/// What to simulate.
#[derive(clap::Args, Debug)]
pub(crate) struct TableOptions {
    /// Instead of the rest: what the fixed choices of MPICH and Open MPI cost in the simulator
    #[arg(long, conflicts_with_all = ["real", "plots"])]
    tables: bool,
    /// Networks to simulate: of chapter-5, archer, tcp, tcp-far
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "chapter-5",
        requires = "tables"
    )]
    modelled: Vec<String>,
    /// Numbers of ranks, as powers of two
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        default_value = "10,12,14,16,18,20",
        requires = "tables"
    )]
    bits: Vec<u32>,
    /// Ranks on each node, a power of two: where there are several, what is composed of layers, inside of nodes by
    /// the assumed costs of shared memory
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "tables")]
    each: u32,
    /// Only these collectives
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "tables")]
    only: Vec<String>,
    /// Where to draw the ratios by the number of ranks, a PNG
    #[arg(long, requires = "tables")]
    pub(super) plot: Option<PathBuf>,
}

impl TableOptions {
    pub(super) const fn wanted(&self) -> bool {
        self.tables
    }

    /// The cases that are simulated.
    fn cases(&self) -> &'static [Case] {
        if self.each > 1 { &ON_NODES } else { &CASES }
    }

    /// Finds out whether all of it can be simulated, before any of it is.
    pub(super) fn check(&self) -> Result<()> {
        self.modelled.iter().try_for_each(|name| network(name).map(drop))?;
        for &bits in &self.bits {
            ensure!((1..=24).contains(&bits), "--bits {bits}: 1 to 24 are");
            ensure!(
                self.each.is_power_of_two() && self.each < 1 << bits,
                "--each {}: powers of two below the number of ranks are",
                self.each
            );
        }
        let known: Vec<&str> = self.cases().iter().map(|case| case.collective).collect();
        for name in &self.only {
            ensure!(
                known.contains(&name.as_str()),
                "--only {name}: {} are simulated {}",
                known.join(", "),
                if self.each > 1 {
                    "on nodes of several ranks"
                } else {
                    "with a rank on each node"
                }
            );
        }
        Ok(())
    }

    fn takes(&self, collective: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == collective)
    }
}

/// Lengths that are simulated.
const LENGTHS: [usize; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
/// Longest blocks of collectives whose result is all of them.
const BLOCK_MAX: usize = 1 << 10;

/// A time of one choice.
#[derive(Debug, Serialize)]
struct Choice {
    algorithm: String,
    microseconds: f64,
    /// Whether it comes from the simulator, and not from a closed form.
    simulated: bool,
    /// What finding it took here.
    seconds: f64,
}

/// One call, with the choice of each.
#[derive(Debug, Serialize)]
struct Row {
    network: String,
    collective: &'static str,
    ranks: u32,
    /// Ranks on each node.
    each: u32,
    bytes: usize,
    mpich: Choice,
    open_mpi: Choice,
    ours: Choice,
    /// Ours, in the better one of the others.
    ratio: f64,
}

/// The costs of a network.
fn network(name: &str) -> Result<Costs> {
    // Simulated messages of any length are sent without an offer.
    let tcp = Costs { rendezvous: 0.0, ..Costs::TCP };
    let plain = Costs { receive: 0.0, ..tcp };
    Ok(match name {
        "chapter-5" => Costs { pipelining: 500.0, required: 100.0, byte: 0.4, ..plain },
        // Its two parameters were fitted to short messages; what a byte takes is that of chapter 5.
        "archer" => Costs { pipelining: 880.0, required: 380.0, byte: 0.4, ..plain },
        "tcp" => tcp,
        "tcp-far" => Costs { pipelining: 100_000.0, ..tcp },
        _ => bail!("{name:?} is no network: chapter-5, archer, tcp and tcp-far are"),
    })
}

fn choice(how: impl Debug, run: impl FnOnce() -> Result<Time, RunError>) -> Result<Choice> {
    chosen(format!("{how:?}"), run)
}

fn chosen(algorithm: String, run: impl FnOnce() -> Result<Time, RunError>) -> Result<Choice> {
    let begun = Instant::now();
    let time = run().map_err(|error| anyhow!("{algorithm}: {error}"))?;
    let seconds = begun.elapsed().as_secs_f64();
    let Time { nanoseconds, simulated, .. } = time;
    Ok(Choice { algorithm, microseconds: nanoseconds / 1e3, simulated, seconds })
}

/// A form by its name, a schedule in its notation.
fn named(how: &AllreduceForm) -> String {
    match how {
        AllreduceForm::Form(how) => format!("{how:?}"),
        AllreduceForm::Multiplying(schedule) => schedule.to_string(),
    }
}

fn first<F>(mut sorted: Vec<Priced<F>>) -> F {
    sorted.swap_remove(0).form
}

/// The choices of the two libraries and ours.
type Three = (Choice, Choice, Choice);

struct Case {
    collective: &'static str,
    of: fn(&Simulator, FixedCall) -> Result<Three>,
    /// Whether it is simulated at these numbers.
    fits: fn(FixedCall) -> bool,
}

const CASES: [Case; 7] = [
    Case { collective: "allreduce", of: allreduce, fits: |_| true },
    Case { collective: "bcast", of: bcast, fits: |_| true },
    Case { collective: "reduce", of: reduce, fits: |_| true },
    Case { collective: "allgather", of: allgather, fits: |call| call.bytes <= BLOCK_MAX },
    Case { collective: "alltoall", of: alltoall, fits: |call| call.bytes <= BLOCK_MAX },
    Case {
        collective: "reduce_scatter_block",
        of: reduce_scatter,
        fits: |call| call.bytes / call.width >= call.ranks as usize,
    },
    Case { collective: "barrier", of: barrier, fits: |call| call.bytes == LENGTHS[0] },
];

/// What is composed of layers where nodes have several ranks.
const ON_NODES: [Case; 4] = [
    Case { collective: "allreduce", of: allreduce_on_nodes, fits: |_| true },
    Case { collective: "bcast", of: bcast_on_nodes, fits: |_| true },
    Case { collective: "reduce", of: reduce_on_nodes, fits: |_| true },
    Case { collective: "barrier", of: barrier_on_nodes, fits: |call| call.bytes == LENGTHS[0] },
];

const fn crew(call: FixedCall) -> Crew {
    Crew { ranks: call.ranks, share: 1.0 }
}

fn allreduce(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = (mpich::allreduce(call), open_mpi::allreduce(call));
    let ours = first(crew(call).allreduces(on.costs(), call.bytes, true));
    Ok((
        choice(one, || on.allreduce(call, one))?,
        choice(other, || on.allreduce(call, other))?,
        chosen(named(&ours), || on.our_allreduce(call, &ours))?,
    ))
}

fn bcast(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = (mpich::bcast(call), open_mpi::bcast(call));
    let ours = first(crew(call).bcasts(on.costs(), call.bytes));
    Ok((
        choice(one, || on.bcast(call, one))?,
        choice(other, || on.bcast(call, other))?,
        choice(ours, || on.our_bcast(call, ours))?,
    ))
}

fn reduce(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = (mpich::reduce(call), open_mpi::reduce(call));
    let ours = first(crew(call).reduces(on.costs(), call.bytes, true));
    Ok((
        choice(one, || on.reduce(call, one))?,
        choice(other, || on.reduce(call, other))?,
        choice(ours, || on.our_reduce(call, ours))?,
    ))
}

fn allgather(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = (mpich::allgather(call), open_mpi::allgather(call));
    let ours = first(crew(call).allgathers(on.costs(), call.bytes));
    Ok((
        choice(one, || on.allgather(call, one))?,
        choice(other, || on.allgather(call, other))?,
        choice(ours, || on.our_allgather(call, ours))?,
    ))
}

fn alltoall(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = (mpich::alltoall(call), open_mpi::alltoall(call));
    let ours = first(crew(call).alltoalls(on.costs(), call.bytes));
    Ok((
        choice(one, || on.alltoall(call, one))?,
        choice(other, || on.alltoall(call, other))?,
        choice(ours, || on.our_alltoall(call, ours))?,
    ))
}

fn reduce_scatter(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = (mpich::reduce_scatter(call, true), open_mpi::reduce_scatter_block(call));
    let ours = first(crew(call).reduce_scatters(on.costs(), call.bytes, true));
    Ok((
        choice(one, || on.reduce_scatter(call, one))?,
        choice(other, || on.reduce_scatter(call, other))?,
        choice(ours, || on.our_reduce_scatter(call, ours))?,
    ))
}

fn barrier(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = (mpich::barrier(), open_mpi::barrier(call.ranks));
    let ours = first(crew(call).barriers(on.costs()));
    Ok((
        choice(one, || on.barrier(call.ranks, one))?,
        choice(other, || on.barrier(call.ranks, other))?,
        choice(ours, || on.our_barrier(call.ranks, ours))?,
    ))
}

/// What the two libraries compose.
fn both_composed(on: &Simulator, what: Composed, call: FixedCall) -> Result<(Choice, Choice)> {
    Ok((
        chosen("MPICH's composition".to_owned(), || on.mpich(what, call))?,
        chosen("HAN".to_owned(), || on.han(what, call))?,
    ))
}

/// What choices on these nodes are made of.
fn prices(on: &Simulator, call: FixedCall) -> Prices {
    let each = on.each();
    let layers = Layers { nodes: call.ranks / each, most: each, consecutive: true };
    let costs = JobCosts { near: Costs::SHARED_MEMORY, far: *on.costs() };
    Prices { crew: crew(call), costs, layers: Some(layers) }
}

/// What this project would choose there: one algorithm on all ranks, or layers.
fn ours_on_nodes<F>(
    mut algorithms: Vec<Priced<Algorithm<F>>>,
    name: impl Fn(&F) -> String,
    flat: impl Fn(&F) -> Result<Time, RunError>,
    layered: impl Fn(&Layered<F>) -> Result<Time, RunError>,
) -> Result<Choice> {
    match algorithms.swap_remove(0).form {
        Algorithm::Form(form) => chosen(name(&form), || flat(&form)),
        Algorithm::Layered(how) => {
            let algorithm = format!("{:?} inside, {}", how.within, name(&how.among));
            chosen(algorithm, || layered(&how))
        }
    }
}

fn allreduce_on_nodes(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = both_composed(on, Composed::Allreduce, call)?;
    let ours = ours_on_nodes(
        prices(on, call).allreduces(call.bytes, true),
        named,
        |form| on.our_allreduce(call, form),
        |how| on.our_layered_allreduce(call, how),
    )?;
    Ok((one, other, ours))
}

fn bcast_on_nodes(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = both_composed(on, Composed::Bcast, call)?;
    let ours = ours_on_nodes(
        prices(on, call).bcasts(call.bytes),
        |form| format!("{form:?}"),
        |form| on.our_bcast(call, *form),
        |how| on.our_layered_bcast(call, *how),
    )?;
    Ok((one, other, ours))
}

fn reduce_on_nodes(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = both_composed(on, Composed::Reduce, call)?;
    let ours = ours_on_nodes(
        prices(on, call).reduces(call.bytes, true),
        |form| format!("{form:?}"),
        |form| on.our_reduce(call, *form),
        |how| on.our_layered_reduce(call, *how),
    )?;
    Ok((one, other, ours))
}

fn barrier_on_nodes(on: &Simulator, call: FixedCall) -> Result<Three> {
    let (one, other) = both_composed(on, Composed::Barrier, call)?;
    let ours = ours_on_nodes(
        prices(on, call).barriers(),
        |form| format!("{form:?}"),
        |form| on.our_barrier(call.ranks, *form),
        |how| on.our_layered_barrier(call.ranks, how.among),
    )?;
    Ok((one, other, ours))
}

/// The most memory that this process has used, in megabytes.
fn peak() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    let kilobytes: f64 = kilobytes.context("no VmHWM in /proc/self/status")?;
    Ok(kilobytes / 1024.0)
}

/// Simulates and shows.
pub(super) fn run(options: &TableOptions, json: Option<&Path>) -> Result<()> {
    options.check()?;
    let mut rows = Vec::new();
    println!(
        "microseconds of MPICH's choice, of Open MPI's and of ours (* computed, not simulated), ours in the better one of \
         the others (seconds that ours took to simulate, peak memory)"
    );
    for name in &options.modelled {
        let mut simulator = Simulator::new(network(name)?);
        if options.each > 1 {
            simulator = simulator.with_nodes(options.each, Costs::SHARED_MEMORY);
        }
        for &bits in &options.bits {
            for case in options.cases().iter().filter(|case| options.takes(case.collective)) {
                for call in LENGTHS.map(|bytes| FixedCall::doubles(1 << bits, bytes)) {
                    if (case.fits)(call) {
                        rows.push(one((name, options.each), case, &simulator, call)?);
                    }
                }
            }
        }
    }
    if let Some(path) = &options.plot {
        draw(&rows, path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    }
    match json {
        Some(path) => output::write_json(path, &rows),
        None => Ok(()),
    }
}

fn one(
    (name, each): (&str, u32),
    case: &Case,
    simulator: &Simulator,
    call: FixedCall,
) -> Result<Row> {
    let (mpich, open_mpi, ours) = (case.of)(simulator, call)?;
    let row = Row {
        network: name.to_owned(),
        collective: case.collective,
        ranks: call.ranks,
        each,
        bytes: call.bytes,
        ratio: ours.microseconds / mpich.microseconds.min(open_mpi.microseconds),
        mpich,
        open_mpi,
        ours,
    };
    let show = |choice: &Choice| {
        let mark = if choice.simulated { ' ' } else { '*' };
        format!("{:>12.1}{mark} {:<34}", choice.microseconds, choice.algorithm)
    };
    println!(
        "{name:<10} {:<20} 2^{:<2} {:>7} {}{}{} {:>6.3}   ({:.1} s, {:.0} MB)",
        row.collective,
        row.ranks.ilog2(),
        row.bytes,
        show(&row.mpich),
        show(&row.open_mpi),
        show(&row.ours),
        row.ratio,
        row.ours.seconds,
        peak()?
    );
    Ok(row)
}

const WIDTH: u32 = 480;
const HEIGHT: u32 = 360;

/// A panel for each network and collective: ours in the better one of the others, a line for each length.
fn draw(rows: &[Row], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    bowline_bench::register_font()?;
    let mut panels: Vec<((&str, &str), Vec<&Row>)> = Vec::new();
    for row in rows {
        let of = (row.network.as_str(), row.collective);
        match panels.iter_mut().find(|(known, _)| *known == of) {
            Some((_, panel)) => panel.push(row),
            None => panels.push((of, vec![row])),
        }
    }
    let columns = panels.len().clamp(1, 4);
    let lines = panels.len().div_ceil(columns).max(1);
    let size = (WIDTH * columns as u32, HEIGHT * lines as u32);
    let root = BitMapBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, ((network, collective), rows)) in
        root.split_evenly((lines, columns)).iter().zip(&panels)
    {
        let font = |size: u32| ("sans-serif", size).into_font();
        let bits = |row: &Row| f64::from(row.ranks.ilog2());
        let first = rows.iter().map(|row| bits(row)).fold(f64::INFINITY, f64::min);
        let last = rows.iter().map(|row| bits(row)).fold(first + 1.0, f64::max);
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .caption(format!("{collective}, {network}"), font(18))
            .x_label_area_size(35)
            .y_label_area_size(50)
            .build_cartesian_2d(first..last, 0.0..1.25)?;
        chart
            .configure_mesh()
            .x_desc("ranks, as a power of two")
            .y_desc("ours / better of theirs")
            .x_label_formatter(&|bits| format!("{}", (bits * 10.0).round() / 10.0))
            .label_style(font(12))
            .draw()?;
        for (length, color) in LENGTHS.into_iter().zip([BLUE, RED, GREEN, MAGENTA]) {
            let of = rows.iter().filter(|row| row.bytes == length);
            let points: Vec<_> = of.map(|row| (bits(row), row.ratio.min(1.25))).collect();
            if !points.is_empty() {
                chart
                    .draw_series(LineSeries::new(points, color.stroke_width(2)))?
                    .label(format!("{length} bytes"))
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], color));
            }
        }
        // Above 1.25 there is nothing, and ours are seldom near 0.
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerLeft)
            .background_style(WHITE.mix(0.8))
            .label_font(font(12))
            .border_style(BLACK)
            .draw()?;
    }
    root.present()?;
    Ok(())
}
