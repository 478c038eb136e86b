//! `bowline model tune`: searches the quickest algorithm of each collective, number of ranks and size, and writes what it
//! finds into the table that `BOWLINE_COLL_TABLE` names.
//!
//! | what | where |
//! |---|---|
//! | the algorithms of a cell, with their prices and simulated times | [`candidates`] |
//! | jobs that measure the best of them | [`measure`] |
//!
//! A cell whose algorithm is `auto` has none that is quicker than what a job chooses by itself.

mod candidates;
mod measure;

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use bowline_base::config::{Config, show_bytes};
use bowline_model::coll::price::{Crew, JobCosts, Layers, Prices};
use bowline_model::coll::tuned::{Cell, Tuned};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::{Deserialize, Serialize};

use super::super::collective::Collective;
use super::super::{numbers, output, start};

/// Search the quickest algorithms of collectives, and write them into a table.
///
/// All algorithms are candidates, and of allreduces all schedules of one level in the notation of
/// recursive multiplying, up to some thousands, beside those of the heuristic. They are priced by what messages cost;
/// with --simulate the cheapest run in the simulator, and with --measure in jobs of this machine, beside what a job
/// chooses by itself. An algorithm that saves less than 2 %, or is quicker in less than three
/// repetitions of four, is not taken: the cell then says auto. Jobs take the table
/// with BOWLINE_COLL_TABLE.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline model tune --collective allreduce --ranks 7,48 --size 8,1k
                                             by costs alone; nothing is started
  bowline model tune --simulate --transport tcp --output table
                                             the six cheapest of each cell in the simulator
  bowline model tune --measure --ranks 4,8 --transport tcp --output table
                                             real jobs of 4 and of 8 ranks over tcp
  bowline model tune --simulate --ranks 16,32 --nodes 4 --transport tcp --output table
                                             4 and 8 ranks on each of 4 nodes
  BOWLINE_COLL_TABLE=table bowline run -n 8 ./simulation")]
pub(super) struct Tune {
    /// The collectives.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "allreduce,bcast,allgather,reduce-scatter"
    )]
    collective: Vec<Collective>,
    /// Numbers of ranks.
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "4,8,16",
          value_parser = clap::value_parser!(u32).range(2..=1 << 20))]
    ranks: Vec<u32>,
    /// Bytes of a vector, or of a block where each rank has one: 8, a list such as 8,4k, or doubles such as 8..64k.
    // The path keeps clap from taking the list for an option that is given several times.
    #[arg(long, value_name = "BYTES", value_parser = numbers::sizes, default_value = "8,1k,64k,1m")]
    size: std::vec::Vec<usize>,
    /// Costs are those of this transport, fitted or assumed, unless BOWLINE_COLL_COSTS gives some; jobs use it.
    #[arg(long, value_enum, default_value_t = Transport::Shm)]
    transport: Transport,
    /// The cells are for ranks on so many nodes, whose ranks follow each other, as many on each as on the others but the
    /// last. Messages within nodes go over shared memory, those between nodes over tcp, and algorithms in layers are
    /// candidates, too. Jobs of --measure are on this machine, as if it were so many.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    nodes: u32,
    /// The cells are for ranks of which each is on a node of its own.
    #[arg(long, conflicts_with = "nodes")]
    spread: bool,
    /// Run the cheapest algorithms in the simulator, with --transport tcp.
    #[arg(long, conflicts_with = "measure")]
    simulate: bool,
    /// Run the cheapest algorithms in jobs of this machine.
    #[arg(long)]
    measure: bool,
    /// How many of the cheapest are simulated or measured.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    best: u32,
    /// Times that each of them is measured, one after the other.
    #[arg(long, value_name = "N", default_value_t = 15, requires = "measure",
          value_parser = clap::value_parser!(u32).range(3..=10_000))]
    reps: u32,
    /// Write the cells into this table, in place of those of the same ranks and lengths.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Where the ranks of a job leave what they have measured.
    #[arg(long, hide = true, value_name = "FILE")]
    results: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    Shm,
    Tcp,
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }
}

/// One collective of so many ranks with so many bytes.
#[derive(Clone, Copy, Debug)]
struct Call {
    collective: Collective,
    ranks: u32,
    nodes: u32,
    bytes: usize,
    /// Lengths of the table's cell.
    from: usize,
    upto: usize,
}

impl Call {
    /// Ranks of each node but the last.
    const fn each(&self) -> u32 {
        self.ranks.div_ceil(self.nodes)
    }
}

/// An algorithm that was tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Tried {
    algorithm: String,
    /// By costs; nothing for `auto` in jobs that are measured.
    predicted_ns: Option<f64>,
    /// Simulated or measured.
    found_ns: Option<f64>,
    /// The part of its repetitions in which it was quicker than `auto`, measured.
    quicker: Option<f64>,
}

impl Tried {
    fn time(&self) -> f64 {
        self.found_ns.or(self.predicted_ns).unwrap_or(f64::INFINITY)
    }
}

/// What was found of a cell.
#[derive(Debug, Serialize)]
struct Found {
    collective: &'static str,
    ranks: u32,
    nodes: u32,
    /// The size that was tried.
    bytes: usize,
    /// The least and the greatest length that the cell speaks of.
    lengths: (usize, usize),
    /// What is taken; `auto` where nothing that has a name is quicker.
    algorithm: String,
    /// How it was found.
    by: String,
    /// What it takes, and what a job takes by itself.
    time_ns: f64,
    auto_ns: f64,
    /// How many algorithms were priced.
    candidates: usize,
    tried: Vec<Tried>,
}

/// A quicker algorithm must save this part of what a job takes by itself: less is what measurements differ by.
const WORTH: f64 = 0.02;

/// It must also be quicker in this part of the repetitions. The median of an equal one, which `auto` may be, is 2 to 8 %
/// less now and then where ranks share processors, but of 15 repetitions it wins 12 in one case of fifty.
const OFTEN: f64 = 0.75;

/// Nodes that are simulated at most: of more, those that send messages to each other would take too long.
const MOST_NODES: u32 = 2048;

/// Nodes that this machine is taken for at most.
const MOST_HERE: u32 = 64;

/// Bytes that a job of a measurement may have in all its vectors.
const MOST_BYTES: usize = 1 << 30;

impl Tune {
    /// Searches.
    ///
    /// # Errors
    /// Sizes that a table cannot distinguish, jobs that fail, a table that cannot be written.
    pub(super) fn run(&self, as_rank: bool) -> Result<ExitCode> {
        let config = self.settle()?;
        let calls = self.calls()?;
        if as_rank {
            let path = self.results.as_ref().context("a rank of `model tune` has no --results")?;
            return start::as_rank(&config, |world| {
                Ok(measure::rank(world, self, &calls, &self.costs(&config)?, path)?)
            });
        }
        let mut table = self.output.as_deref().map(read).transpose()?.unwrap_or_default();
        if let Some(path) = &self.output {
            // Before time is spent on a table that has no place.
            write(path, &table)?;
        }
        let costs = self.costs(&config)?;
        let mut all = Vec::new();
        let measured = if self.measure { measure::jobs(&calls, &config)? } else { Vec::new() };
        let mut measured = measured.into_iter();
        let bar = bar(calls.len());
        for call in &calls {
            let priced = candidates::of(call, self.transport, &self.prices(call, &costs));
            let candidates = priced.len();
            let tried = if self.measure {
                measured.next().context("a job has measured fewer cells than it was asked for")?
            } else {
                self.try_out(call, priced, &costs)?
            };
            all.push(self.found(call, candidates, tried)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        if let Some(path) = &self.output {
            table.learn(all.iter().map(Found::cell).collect::<Result<Vec<_>>>()?);
            write(path, &table)?;
        }
        if self.json {
            output::print_json(&all)?
        } else {
            output::print(&text(&all)?)?
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The best of what was tried. The first one is what a job takes by itself.
    fn found(&self, call: &Call, candidates: usize, tried: Vec<Tried>) -> Result<Found> {
        let auto = tried.first().context("nothing was tried")?;
        let often = |one: &&Tried| one.quicker.is_none_or(|quicker| quicker >= OFTEN);
        let best = tried.iter().filter(often);
        let best = best.min_by(|one, other| one.time().total_cmp(&other.time()));
        let best = best.filter(|best| best.time() < (1.0 - WORTH) * auto.time()).unwrap_or(auto);
        let by = match (self.measure, self.simulate) {
            (true, _) if call.nodes > 1 => {
                format!("measured over {}, nodes of one machine", self.transport.name())
            }
            (true, _) => format!("measured over {}", self.transport.name()),
            (false, true) => format!("simulated, {}", self.transport.name()),
            (false, false) => format!("costs, {}", self.transport.name()),
        };
        Ok(Found {
            collective: call.collective.setting(),
            ranks: call.ranks,
            nodes: call.nodes,
            bytes: call.bytes,
            lengths: (call.from, call.upto),
            algorithm: best.algorithm.clone(),
            by,
            time_ns: best.time(),
            auto_ns: auto.time(),
            candidates,
            tried,
        })
    }

    /// `auto` and the best by their prices, or simulated.
    fn try_out(
        &self,
        call: &Call,
        priced: Vec<candidates::Candidate>,
        costs: &JobCosts,
    ) -> Result<Vec<Tried>> {
        let auto = priced.iter().find(|one| one.chosen).context("a job chooses nothing")?.clone();
        let best = priced.into_iter().take(self.best as usize);
        let named = [(String::from("auto"), auto)].into_iter();
        let all = named.chain(best.map(|one| (one.word.clone(), one)));
        all.map(|(algorithm, one)| {
            let found_ns = if self.simulate { Some(one.simulate(call, costs)?) } else { None };
            Ok(Tried { algorithm, predicted_ns: Some(one.time), found_ns, quicker: None })
        })
        .collect()
    }

    fn settle(&self) -> Result<Config> {
        let shm = self.transport == Transport::Shm;
        ensure!(
            !(shm && self.simulate),
            "the simulator knows messages, and not memory that ranks share: --measure, or --transport tcp"
        );
        ensure!(
            !(shm && self.has_nodes()),
            "ranks of different nodes share no memory: --transport tcp"
        );
        ensure!(
            !self.simulate || self.nodes <= MOST_NODES,
            "--simulate: there are {MOST_NODES} nodes at most"
        );
        let mut config = bowline::config_from_env()?;
        let transports = match self.nodes {
            1 => format!("self,{}", self.transport.name()),
            _ => format!("self,shm,{}", self.transport.name()),
        };
        config.set(bowline::stack::TRANSPORTS, transports)?;
        // What a job chooses by itself is what it chooses without a table.
        config.set(bowline::coll_table::COLL_TABLE, String::new())?;
        bowline::stack::check(&config)?;
        Ok(config)
    }

    const fn has_nodes(&self) -> bool {
        self.spread || self.nodes > 1
    }

    /// What messages cost: what the settings say, or what was fitted of the transports, or is assumed of them. Where all
    /// ranks are on one node, messages go by the transport.
    fn costs(&self, config: &Config) -> Result<JobCosts> {
        let known = bowline::model_file::coll_costs(self.has_nodes(), config)?;
        let (text, _) = known.context("no transport of BOWLINE_TRANSPORTS carries messages")?;
        let costs: JobCosts = text.parse().context(bowline::mpi::COLL_COSTS.name())?;
        Ok(match (self.nodes, self.transport) {
            (1, Transport::Shm) => JobCosts { far: costs.near, ..costs },
            (1, Transport::Tcp) => JobCosts { near: costs.far, ..costs },
            _ => costs,
        })
    }

    /// What prices of a call are made of.
    fn prices(&self, call: &Call, costs: &JobCosts) -> Prices {
        let layers = Layers { nodes: call.nodes, most: call.each(), consecutive: true };
        Prices {
            crew: Crew { ranks: call.ranks, share: self.share(call.ranks) },
            costs: *costs,
            layers: (call.nodes > 1).then_some(layers),
        }
    }

    /// Ranks for each processor: of this machine, but for networks that are not measured.
    fn share(&self, ranks: u32) -> f64 {
        let here = self.measure || self.transport == Transport::Shm;
        let processors = bowline::wait::processors().max(1) as f64;
        if here { (f64::from(ranks) / processors).max(1.0) } else { 1.0 }
    }

    fn calls(&self) -> Result<Vec<Call>> {
        let (mut ranks, mut sizes) = (self.ranks.clone(), self.size.clone());
        ranks.sort_unstable();
        ranks.dedup();
        sizes.sort_unstable();
        sizes.dedup();
        let mut calls = Vec::new();
        for &ranks in &ranks {
            let nodes = if self.spread { ranks } else { self.nodes };
            ensure!(nodes <= ranks, "--nodes {nodes}: there are {ranks} ranks");
            let each = ranks.div_ceil(nodes);
            ensure!(
                ranks.div_ceil(each) == nodes,
                "--nodes {nodes}: {ranks} ranks, {each} on a node, are on {} nodes",
                ranks.div_ceil(each)
            );
            ensure!(
                !self.measure || nodes <= MOST_HERE,
                "--measure: this machine is taken for {MOST_HERE} nodes at most"
            );
            for &collective in &self.collective {
                ensure!(
                    !collective.has_no_choice(),
                    "--collective {}: it has one algorithm, so there is nothing to tune",
                    collective.name()
                );
                ensure!(
                    collective.has_cells(),
                    "--collective: uneven blocks and exclusive scans take the algorithms of {}; tune that",
                    collective.setting()
                );
                let sizes = if collective == Collective::Barrier { &[0][..] } else { &sizes };
                let lengths = sizes.iter().map(|&bytes| collective.length(ranks, bytes));
                let limits = limits(&lengths.collect::<Vec<_>>())?;
                for (&bytes, (from, upto)) in sizes.iter().zip(limits) {
                    ensure!(
                        bytes.is_multiple_of(8),
                        "--size {bytes}: reductions are those of numbers of 8 bytes; take multiples of 8"
                    );
                    ensure!(
                        bytes > 0 || collective == Collective::Barrier,
                        "--size 0: nothing is moved; sizes begin with 8"
                    );
                    let all = bytes.saturating_mul(ranks as usize).saturating_mul(ranks as usize);
                    ensure!(
                        !self.measure || all <= MOST_BYTES,
                        "--measure --ranks {ranks} --size {bytes}: vectors of {all} bytes together are too long"
                    );
                    calls.push(Call { collective, ranks, nodes, bytes, from, upto });
                }
            }
        }
        Ok(calls)
    }
}

/// The lengths for which what was found of each of these holds: to the power of two in the middle of it and the next one.
/// The first one holds from behind half of its own power of two, the last one up to that.
fn limits(lengths: &[usize]) -> Result<Vec<(usize, usize)>> {
    let double = |length: usize| length.max(1).next_power_of_two().ilog2();
    let mut all = Vec::new();
    let mut from = match lengths.first().map(|&first| (first, double(first))) {
        None | Some((_, 0)) => 0,
        Some((_, double)) => (1 << (double - 1)) + 1,
    };
    for (index, &length) in lengths.iter().enumerate() {
        let own = double(length);
        let upto = match lengths.get(index + 1).map(|&next| double(next)) {
            Some(next) if next == own => bail!(
                "--size: {length} and {} bytes are in one cell of a table, which ends with a power of two",
                lengths[index + 1]
            ),
            Some(next) => 1 << own.midpoint(next),
            None if length == 0 => 0,
            None => 1 << own,
        };
        all.push((from, upto));
        from = upto + 1;
    }
    Ok(all)
}

impl Found {
    fn cell(&self) -> Result<Cell> {
        let Self { collective, ranks, nodes, lengths, algorithm, by, .. } = self;
        let [time, auto] = [self.time_ns, self.auto_ns].map(|time| time / 1e3);
        let note = format!("{by}: {time:.2} us, auto {auto:.2} us");
        Ok(Cell::new(collective, (*ranks, *nodes), *lengths, algorithm, &note)?)
    }
}

fn read(path: &Path) -> Result<Tuned> {
    let name = path.display();
    match fs::read(path) {
        Ok(text) => Tuned::parse(&text).with_context(|| format!("{name} is left as it is")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Tuned::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {name}")),
    }
}

/// Writes the table, whole or not at all: jobs may read it meanwhile.
fn write(path: &Path, table: &Tuned) -> Result<()> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let written = fs::write(&fresh, table.to_string()).and_then(|()| fs::rename(&fresh, path));
    written
        .inspect_err(|_| drop(fs::remove_file(&fresh)))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn bar(cells: usize) -> ProgressBar {
    ProgressBar::with_draw_target(Some(cells as u64), ProgressDrawTarget::stderr_with_hz(5))
}

/// For people.
fn text(all: &[Found]) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(
        out,
        "{:<15} {:>8} {:>6} {:>10} {:>12} {:>12} {:>7}  {:<24} of",
        "collective", "ranks", "nodes", "bytes", "auto, us", "best, us", "saves", "best"
    )?;
    for found in all {
        let (auto, best) = (found.auto_ns, found.time_ns);
        let saved = if auto > 0.0 { 100.0 * (1.0 - best / auto) } else { 0.0 };
        writeln!(
            out,
            "{:<15} {:>8} {:>6} {:>10} {:>12.2} {:>12.2} {:>6.1}%  {:<24} {}",
            found.collective,
            found.ranks,
            found.nodes,
            show_bytes(found.bytes as u64),
            auto / 1e3,
            best / 1e3,
            saved,
            found.algorithm,
            found.candidates
        )?;
    }
    let by = all.first().map_or("nothing", |found| &found.by);
    writeln!(
        out,
        "times: {by}; auto is what a job takes without a table; the last column counts the algorithms that were priced"
    )?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seldom_quicker_is_not_taken() {
        let tune = Tune {
            collective: Vec::new(),
            ranks: Vec::new(),
            size: Vec::new(),
            transport: Transport::Shm,
            nodes: 1,
            spread: false,
            simulate: false,
            measure: true,
            best: 1,
            reps: 15,
            output: None,
            json: false,
            results: None,
        };
        let (collective, ranks, nodes) = (Collective::Bcast, 4, 1);
        let call = Call { collective, ranks, nodes, bytes: 8, from: 5, upto: 8 };
        let tried = |algorithm: &str, found: f64, quicker| Tried {
            algorithm: algorithm.to_owned(),
            predicted_ns: None,
            found_ns: Some(found),
            quicker: Some(quicker),
        };
        let taken = |quicker, found| {
            let all = vec![tried("auto", 100.0, 0.0), tried("chain", found, quicker)];
            tune.found(&call, 2, all).unwrap().algorithm
        };
        assert_eq!((taken(0.6, 90.0), taken(0.9, 99.0)), ("auto".into(), "auto".into()));
        assert_eq!(taken(0.9, 90.0), "chain");
    }

    #[test]
    fn lengths_are_cut_at_powers_of_two() {
        let of = |lengths: &[usize]| limits(lengths).unwrap();
        assert_eq!(of(&[8]), [(5, 8)]);
        assert_eq!(of(&[0]), [(0, 0)]);
        assert_eq!(of(&[8, 1024, 65_536]), [(5, 64), (65, 8192), (8193, 65_536)]);
        assert_eq!(of(&[8, 12]), [(5, 8), (9, 16)]);
        assert_eq!(of(&[1, 2]), [(0, 1), (2, 2)]);
        assert!(limits(&[9, 12]).unwrap_err().to_string().contains("one cell"));
    }
}
