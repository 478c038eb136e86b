//! The experiments with real ranks: over shared memory, and over TCP between network namespaces whose packets take
//! 100 microseconds, or `--delay`.
//!
//! The published ones had a node for each rank, puts into a bare network interface and no MPI above; here ranks
//! share the machine's processors and call `MPI_Allreduce` of the C library. What contestants take is compared
//! within one run, in turns.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bowline_bench::{
    Amount, Contestant, Figures, Jobs, Order, PeersOptions, RelayOptions, Rounds, wheels,
};
use serde::Serialize;

use super::pictures::{self, Curve, Values};
use super::{MEASURED, choices, correlation, fits, loaded, published, queues, sizes};

/// What to take of real ranks.
#[derive(clap::Args, Debug)]
pub(crate) struct RealOptions {
    /// Instead of the rest: experiments with real ranks: fit, e6, e7, e8, e9, e10, e11, e17, choice
    #[arg(long, value_enum, value_name = "EXPERIMENTS", value_delimiter = ',')]
    real: Vec<Experiment>,
    /// Over shared memory, over TCP with delay, or both
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',', requires = "real",
          default_values_t = [Network::Shm, Network::Tcp])]
    networks: Vec<Network>,
    /// Numbers of ranks; by default those of each experiment
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', requires = "real")]
    ranks: Vec<u32>,
    /// How many jobs each figure is taken from, at most
    #[arg(long, value_name = "N", default_value_t = 3, requires = "real")]
    rounds: usize,
    /// How long each figure is measured within a job, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150, requires = "real")]
    millis: u64,
    /// How long the jobs of one number of ranks may take, seconds: further rounds are left out, and that is printed
    #[arg(long, value_name = "S", default_value_t = 60, requires = "real")]
    seconds: u64,
    /// How long a packet takes over TCP, microseconds
    #[arg(long, value_name = "US", default_value_t = 100, requires = "real")]
    delay: u64,
    /// Where to draw pictures
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) plots: Option<PathBuf>,
    /// Behind choice: where to write the quickest algorithms as a table, which jobs take by BOWLINE_COLL_TABLE
    #[arg(long, value_name = "FILE", requires = "real")]
    pub(super) learn: Option<PathBuf>,
    /// Where the peers are installed and the benchmark program is compiled
    #[arg(long, value_name = "DIRECTORY", requires = "real")]
    cache: Option<PathBuf>,
}

/// An experiment with real ranks.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Experiment {
    /// E1 to E3: the parameters of the model, by which algorithms are chosen in the experiments behind it
    Fit,
    /// The published schedules beside recursive doubling, blocks of 10
    E6,
    /// The same on a quiet machine and with loops of others on its processors, beside the model
    E7,
    /// Message sizes to 4 KB, 8 and 64 ranks
    E8,
    /// Blocks of 1 to 10 operations
    E9,
    /// All factored schedules of a number of ranks, measured and modelled
    E10,
    /// Beside the peers' MPI_Allreduce
    E11,
    /// Merged schedules and the heuristic's, and receive queues in place of a transport's messages
    E17,
    /// What is chosen beside every algorithm that could have been
    Choice,
}

/// What joins the ranks.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Shared memory
    Shm,
    /// TCP with delay
    Tcp,
}

impl Network {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }

    /// What `bowline model fit` calls the transport between its ranks.
    pub(super) const fn transport(self) -> &'static str {
        self.name()
    }
}

/// A figure of an experiment.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    experiment: &'static str,
    network: &'static str,
    ranks: u32,
    what: String,
    size: u64,
    /// Operations of a sample.
    block: u32,
    /// Shortest sample of all rounds, ns.
    min_ns: f64,
    /// Median over the rounds of the medians within each, ns.
    median_ns: f64,
    /// The same within each round, ns.
    rounds_ns: Vec<f64>,
    /// How much less than recursive doubling took, by minima and by medians, percent.
    gains: Option<[f64; 2]>,
    /// The same as it was published.
    published: Option<[f64; 2]>,
}

/// What all experiments write to.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Findings {
    rows: Vec<Row>,
    cells: Vec<choices::Cell>,
    /// As `bowline model fit` writes them.
    fits: Vec<serde_json::Value>,
    /// Rank correlations of what was measured with what the model says.
    correlations: Vec<String>,
    /// How far the model is from what was measured.
    pub(super) errors: Vec<loaded::ModelError>,
}

/// A network with its jobs.
pub(super) struct Site<'a> {
    pub(super) options: &'a RealOptions,
    pub(super) network: Network,
    pub(super) jobs: Jobs,
}

impl Site<'_> {
    pub(super) fn ranks(&self, usual: &[u32]) -> Vec<u32> {
        if self.options.ranks.is_empty() { usual.to_vec() } else { self.options.ranks.clone() }
    }

    fn amount(&self) -> Amount {
        Amount {
            budget: Duration::from_millis(self.options.millis),
            rounds: self.options.rounds,
            limit: Duration::from_secs(self.options.seconds),
        }
    }

    /// A job for each contestant, in turns. A contestant whose job fails has no figures; the first one must not fail.
    pub(super) fn alternately(
        &mut self,
        ranks: u32,
        contestants: &[Contestant],
        orders: &[Order],
    ) -> Result<Figures> {
        let amount = self.amount();
        let figures = self.jobs.alternately(ranks, contestants, orders, &amount, true);
        figures.with_context(|| format!("{ranks} ranks over {}", self.network.name()))
    }

    /// Jobs in which algorithms of one collective take turns.
    pub(super) fn within_jobs(
        &mut self,
        ranks: u32,
        algorithms: &[String],
        orders: &[Order],
    ) -> Result<Figures> {
        let amount = self.amount();
        let figures = self.jobs.within_jobs(ranks, algorithms, orders, &amount);
        figures.with_context(|| format!("{ranks} ranks over {}", self.network.name()))
    }

    pub(super) fn picture(
        &self,
        name: &str,
        title: &str,
        axes: [&str; 2],
        curves: &[Curve],
    ) -> Result<()> {
        self.picture_with(name, title, axes, curves, Values::Linear)
    }

    /// The same where values go up so.
    pub(super) fn picture_with(
        &self,
        name: &str,
        title: &str,
        axes: [&str; 2],
        curves: &[Curve],
        values: Values,
    ) -> Result<()> {
        let Some(directory) = &self.options.plots else { return Ok(()) };
        let name = format!("{name}-{}.png", self.network.name());
        pictures::draw_with(&directory.join(name), title, axes, curves, values)
    }
}

/// Runs the experiments that are asked for, with the library that is installed below `prefix`.
pub(super) fn run(prefix: &Path, options: &RealOptions) -> Result<Findings> {
    let mut findings = Findings::default();
    let peers = PeersOptions {
        prefix: Some(prefix.to_owned()),
        cache: options.cache.clone(),
        ..PeersOptions::default()
    };
    for &network in &options.networks {
        let relay =
            RelayOptions { delay: Duration::from_micros(options.delay), ..RelayOptions::default() };
        let hosts = options.ranks.iter().copied().max().unwrap_or(32).max(2);
        let delayed = (network == Network::Tcp).then_some((hosts, &relay));
        let jobs = Jobs::new(&peers, delayed).context("cannot make what joins the ranks")?;
        if let Some(ping) = jobs.ping()? {
            println!(
                "network with delay: a datagram there and back {:.0} us at least, {:.0} us in the median",
                ping.min_ns / 1e3,
                ping.median_ns / 1e3
            );
        }
        let mut site = Site { options, network, jobs };
        for &experiment in &options.real {
            take(experiment, &mut site, &mut findings)?;
        }
        if let Some(forwarded) = site.jobs.forwarded() {
            println!("relay: {forwarded:?}");
        }
    }
    if let Some(path) = &options.learn {
        let table = choices::table(&findings.cells)?.to_string();
        std::fs::write(path, table).with_context(|| format!("cannot write {}", path.display()))?;
        println!("written: {}", path.display());
    }
    Ok(findings)
}

fn take(experiment: Experiment, site: &mut Site<'_>, findings: &mut Findings) -> Result<()> {
    match experiment {
        Experiment::Fit => fits::measure(site, &mut findings.fits),
        Experiment::E6 => gains(site, findings, "E6", &[4, 6, 8, 12, 16, 24, 32], &[]),
        Experiment::E7 => loaded::measure(site, findings),
        Experiment::E8 => sizes::measure(site, findings),
        Experiment::E9 => blocks(site, findings),
        Experiment::E10 => correlation::measure(site, &mut findings.correlations),
        Experiment::E11 => {
            let peers = wheels(site.network == Network::Tcp);
            let peers: Vec<_> = peers.into_iter().map(Contestant::peer).collect();
            gains(site, findings, "E11", &[4, 8, 16], &peers)
        }
        Experiment::E17 => queues::measure(site, findings),
        Experiment::Choice => {
            let cells = choices::measure(site)?;
            choices::show(&cells);
            findings.cells.extend(cells);
            Ok(())
        }
    }
}

/// Bowline with an algorithm of allreduces.
pub(super) fn by(algorithm: &str) -> Contestant {
    Contestant::bowline(algorithm, &[("BOWLINE_ALLREDUCE", algorithm)])
}

pub(super) fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// An allreduce of so many bytes, in blocks.
pub(super) fn allreduce(size: u64, block: u32) -> Order {
    Order { test: "allreduce".to_owned(), size, block }
}

/// Notes what contestants took; the first one is recursive doubling.
pub(super) fn note(
    site: &Site<'_>,
    findings: &mut Findings,
    experiment: &'static str,
    ranks: u32,
    names: &[String],
    figures: &Figures,
    published: Option<(usize, [f64; 2])>,
) -> Result<()> {
    for ((place, order), rounds) in figures {
        let base = figures.get(&(0, order.clone())).context("a figure of recursive doubling")?;
        let figure = |of: &Rounds| of.min_ns().zip(of.median_ns()).context("a round");
        let ((min_ns, median_ns), (base_min, base_median)) = (figure(rounds)?, figure(base)?);
        let less = |ours: f64, base: f64| 100.0 * (1.0 - ours / base);
        let row = Row {
            experiment,
            network: site.network.name(),
            ranks,
            what: names[*place].clone(),
            size: order.size,
            block: order.block,
            min_ns,
            median_ns,
            rounds_ns: rounds.medians_ns.clone(),
            gains: (*place > 0).then(|| [less(min_ns, base_min), less(median_ns, base_median)]),
            published: published.filter(|(of, _)| of == place).map(|(_, gains)| gains),
        };
        show(&row);
        findings.rows.push(row);
    }
    Ok(())
}

fn show(row: &Row) {
    let pair = |gains: Option<[f64; 2]>| {
        gains.map_or_else(String::new, |[min, median]| format!("{min:6.1} {median:6.1} %"))
    };
    println!(
        "{:<4} {:<4} {:>3} ranks {:<22} {:>5} B block {:>2}: {:>9.1} us min {:>9.1} us median; less than doubling \
         {:<16} published {}",
        row.experiment,
        row.network,
        row.ranks,
        row.what,
        row.size,
        row.block,
        row.min_ns / 1e3,
        row.median_ns / 1e3,
        pair(row.gains),
        pair(row.published)
    );
}

/// E6, and with peers E11: 8 bytes in blocks of 10, by recursive doubling, by the published schedule, as is chosen, and
/// by the schedule with the fewest messages, which collapses all ranks to one.
fn gains(
    site: &mut Site<'_>,
    findings: &mut Findings,
    experiment: &'static str,
    usual: &[u32],
    peers: &[Contestant],
) -> Result<()> {
    let mut curves: [Curve; 4] =
        ["recursive doubling", "published schedule", "chosen", "collapsed to one rank"]
            .map(|name| Curve { name: name.to_owned(), points: Vec::new() });
    let mut skews = curves.clone();
    let mut beside =
        ["here, by minima", "here, by medians", "published, minima", "published, medians"]
            .map(|name| Curve { name: name.to_owned(), points: Vec::new() });
    for ranks in site.ranks(usual) {
        let (schedule, min, median) = published(ranks)
            .with_context(|| format!("--ranks {ranks}: nothing was published for it"))?;
        let fewest = format!("c{ranks}m{ranks},e{ranks}m{ranks}");
        let mut names = owned(&["doubling", schedule, "auto", &fewest]);
        let last = Order { test: "allreducelast".to_owned(), size: 8, block: 1 };
        let orders = [allreduce(8, 10), last.clone()];
        let mut figures = if peers.is_empty() {
            site.within_jobs(ranks, &names, &orders)?
        } else {
            let own = names.iter().map(|name| by(name));
            let contestants: Vec<_> = own.chain(peers.iter().cloned()).collect();
            names.extend(peers.iter().map(|peer| peer.name.clone()));
            site.alternately(ranks, &contestants, &orders)?
        };
        for (place, (curve, skew)) in curves.iter_mut().zip(&mut skews).enumerate() {
            let x = f64::from(ranks);
            if let Some(ns) = figures.get(&(place, allreduce(8, 10))).and_then(Rounds::median_ns) {
                curve.points.push((x, ns / 1e3));
            }
            if let Some(ns) = figures.get(&(place, last.clone())).and_then(Rounds::spread_ns) {
                println!(
                    "     {ranks} ranks, {}: the last rank returns {:.1} us after the first, in the median",
                    names[place],
                    ns / 1e3
                );
                skew.points.push((x, ns / 1e3));
            }
        }
        figures.retain(|(_, order), _| *order != last);
        let shown = Some((1, [min, median]));
        note(site, findings, experiment, ranks, &names, &figures, shown)?;
        let ours = findings
            .rows
            .iter()
            .rev()
            .take(names.len())
            .find_map(|row| row.published.and(row.gains));
        let all = ours.into_iter().flatten().chain([min, median]);
        for (curve, gain) in beside.iter_mut().zip(all) {
            curve.points.push((f64::from(ranks), gain));
        }
    }
    let name = experiment.to_lowercase();
    let title = "Less time than recursive doubling, published schedules";
    site.picture(&format!("{name}-gains"), title, ["ranks", "%"], &beside)?;
    site.picture(&name, "Allreduce of 8 bytes, median", ["ranks", "us"], &curves)?;
    let title = "Allreduce of 8 bytes, the last return after the first";
    site.picture(&format!("{name}-skew"), title, ["ranks", "us"], &skews)
}

/// The medians of a contestant, us, over what an order has.
pub(super) fn points(
    figures: &Figures,
    place: usize,
    x: impl Fn(&Order) -> f64,
) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = figures
        .iter()
        .filter(|((of, _), _)| *of == place)
        .filter_map(|((_, order), rounds)| Some((x(order), rounds.median_ns()? / 1e3)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// E9: blocks of 1 to 10 operations.
fn blocks(site: &mut Site<'_>, findings: &mut Findings) -> Result<()> {
    // The published number of ranks where one host has all of them: a network with delay has no 64 hosts unless they
    // are asked for.
    let usual: &[u32] = if site.network == Network::Shm { &[64] } else { &[16] };
    for ranks in site.ranks(usual) {
        let (schedule, ..) = published(ranks)
            .with_context(|| format!("--ranks {ranks}: nothing was published for it"))?;
        let names = owned(&["doubling", schedule]);
        let orders: Vec<Order> = (1..=10).map(|block| allreduce(8, block)).collect();
        let figures = site.within_jobs(ranks, &names, &orders)?;
        note(site, findings, "E9", ranks, &names, &figures, None)?;
        let curve = |(place, name): (usize, &String)| Curve {
            name: name.clone(),
            points: points(&figures, place, |order| f64::from(order.block)),
        };
        let curves: Vec<Curve> = names.iter().enumerate().map(curve).collect();
        for (place, name) in names.iter().enumerate() {
            let times = |block| figures.get(&(place, allreduce(8, block)));
            let (Some(one), Some(ten)) = (times(1), times(10)) else { continue };
            let grown = |of: fn(&Rounds) -> Option<f64>| {
                (of(ten).unwrap_or_default() - of(one).unwrap_or_default()) / 1e3
            };
            println!(
                "E9   {ranks} ranks, {name}: from blocks of 1 to blocks of 10 the minimum grows by {:.1} us (published: 0), the \
                 median by {:.1} us (published: about 10, at 64 ranks)",
                grown(Rounds::min_ns),
                grown(Rounds::median_ns)
            );
        }
        let title = format!("Allreduce of 8 bytes, {ranks} ranks, median");
        let axes = ["operations of a block", "us"];
        site.picture(&format!("e9-{ranks}"), &title, axes, &curves)?;
    }
    Ok(())
}

/// Every way to write a number as a product of factors above 1, in every order.
pub(super) fn factored(ranks: u32) -> Vec<String> {
    fn extend(left: u32, stages: &mut Vec<String>, all: &mut Vec<String>) {
        if left == 1 {
            all.push(stages.join(","));
            return;
        }
        for factor in (2..=left).filter(|factor| left.is_multiple_of(*factor)) {
            stages.push(format!("a{factor}"));
            extend(left / factor, stages, all);
            stages.pop();
        }
    }
    let mut all = Vec::new();
    extend(ranks, &mut Vec::new(), &mut all);
    all
}

/// Most ranks of a job: a network with delay has a host for each, and shared memory some for each processor.
const RANKS_MAX: [(Network, u32); 2] =
    [(Network::Shm, 1024), (Network::Tcp, bowline_bench::HOSTS_MAX as u32)];

/// The longest delay: what a datagram takes there and back is measured, and lost when it takes a second.
const DELAY_MAX: u64 = 250_000;

/// What was asked for, checked before anything is built.
pub(super) fn wanted(options: &RealOptions) -> Result<bool> {
    let RealOptions { real, networks, ranks, rounds, millis, seconds, delay, learn, .. } = options;
    ensure!(*rounds > 0 && *millis > 0, "--rounds and --millis are at least 1");
    ensure!(*seconds > 0, "--seconds 0: nothing can be measured in no time");
    ensure!(*delay <= DELAY_MAX, "--delay {delay}: up to {DELAY_MAX} microseconds are possible");
    for &ranks in ranks {
        for (network, most) in RANKS_MAX.into_iter().filter(|(of, _)| networks.contains(of)) {
            ensure!(
                (2..=most).contains(&ranks),
                "--ranks {ranks}: 2 to {most} are possible over {}",
                network.name()
            );
        }
        let by_published = [Experiment::E6, Experiment::E7, Experiment::E9, Experiment::E11];
        if let Some(of) = real.iter().find(|of| by_published.contains(of)) {
            let known = || MEASURED.iter().map(|of| of.ranks.to_string()).collect::<Vec<_>>();
            ensure!(
                published(ranks).is_some(),
                "--ranks {ranks}: {of:?} runs published schedules, which are there for {}",
                known().join(", ")
            );
        }
    }
    ensure!(
        learn.is_none() || real.contains(&Experiment::Choice) && networks.len() == 1,
        "--learn wants choice among the experiments, and one network: --real choice --networks shm"
    );
    Ok(!real.is_empty())
}

#[cfg(test)]
mod tests {
    use bowline_model::schedule::Schedule;

    use super::*;

    #[test]
    fn numbers_have_all_their_factored_schedules() {
        assert_eq!(factored(7), ["a7"]);
        assert_eq!(factored(8), ["a2,a2,a2", "a2,a4", "a4,a2", "a8"]);
        assert_eq!(factored(12).len(), 8);
        for text in factored(12) {
            assert!(Schedule::parse(12, &text).is_ok(), "{text}");
        }
    }
}
