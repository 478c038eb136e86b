//! The machine of a simulation, from words: its network, topology, latency, noise and arithmetic.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use bowline_model::coll::price::{Costs, Crew, JobCosts, Layers, OfSizes, Prices};
use bowline_model::cost::Pipelining;
use bowline_model::fennel::fitted::{Beyond, Fitted};
use bowline_model::fennel::latency::{Delayed, LatencyDistribution, RandomLatency};
use bowline_model::fennel::machine::Machine;
use bowline_model::fennel::network::{
    Blocking, Compute, Hockney, Linear, LogGp, NetworkModel, Noisy, Pipelined,
};
use bowline_model::fennel::priced::PricedNetwork;
use bowline_model::fennel::topology::{NetworkTopology, Placement, Wired};
use bowline_model::fit::sizes::BySize;
use bowline_model::fit::table::{Entry, FitTable};

/// A machine of parts that were chosen at run time.
pub(super) type AnyMachine = Machine<Box<dyn NetworkModel>, Box<dyn Compute>>;

/// What runs may be built on.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Machine")]
pub(super) struct MachineOptions {
    /// The network: chapter-5 (500 ns, 100 ns, 0.4 ns for a byte, as published simulations have it), archer (the published
    /// fits by size), pipelined:P,R[,BYTE], hockney:ALPHA,BETA, logp:L,o,g, loggp:L,o,g,G, fit:TRANSPORT (what `bowline
    /// model fit --keep` has kept) or costs as in BOWLINE_COLL_COSTS, such as tcp,pipelining=100000. All in ns.
    #[arg(long, value_name = "NETWORK", default_value = "chapter-5")]
    network: Words,
    /// Processes wait until a message that they send is there: nothing overlaps.
    #[arg(long)]
    blocking: bool,
    /// Nanoseconds of a computation, of each of its bytes, and of each byte that is copied [default: 10, with costs and
    /// fits what they say].
    #[arg(long, value_name = "EACH[,BYTE[,COPY]]")]
    compute: Option<Arithmetic>,
    /// fat-tree:16,8,4 (nodes on a switch, switches below each of the next level, ...), dragonfly:4,8,9 (nodes on a
    /// router, routers in a group, groups) or torus:8,8,8.
    #[arg(long, value_name = "TOPOLOGY")]
    topology: Option<NetworkTopology>,
    /// Ranks on one node, then on the next. Collectives may go in layers then, within nodes and among them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_node: Option<u32>,
    /// Nanoseconds that each hop of a topology adds to the latency.
    #[arg(long, value_name = "NS", default_value_t = 50.0, value_parser = time, requires = "topology")]
    hop: f64,
    /// Latency of a message between ranks of one node, in ns.
    #[arg(long, value_name = "NS", default_value_t = 100.0, value_parser = time)]
    inside: f64,
    /// Latency that chance adds to each message: constant:70, uniform:100,400, exponential:200, normal:100,20 or
    /// samples:90,110,400.
    #[arg(long, value_name = "DISTRIBUTION")]
    latency: Option<LatencyDistribution>,
    /// Stretches each time by a random factor of 1 or more, with this part as the mean of what is beyond 1.
    #[arg(long, value_name = "PART", value_parser = time)]
    noise: Option<f64>,
}

/// A time or a part that is no less than nothing.
pub(super) fn time(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if number.is_finite() && number >= 0.0 {
        Ok(number)
    } else {
        Err(format!("`{text}` is no time"))
    }
}

/// What a network was called.
#[derive(Clone, Debug)]
struct Words {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Pipelined(Pipelined),
    Hockney(Pipelined),
    LogGp([f64; 4]),
    /// The published fits.
    Archer,
    /// Those that were kept of a transport.
    Kept(String),
    Costs(Box<Costs>),
}

/// Costs that no simulated network has: of ranks that share a processor or memory, and of ranks that come late.
const NOT_OF_NETWORKS: [&str; 7] =
    ["receive_byte", "switch", "interference", "mark", "slot", "spill", "skew"];

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no network: chapter-5, archer, pipelined:500,100,0.4, hockney:1000,0.5, logp:1000,50,200, \
                 loggp:1000,50,200,0.3, fit:tcp and costs such as tcp,pipelining=100000 are"
            )
        };
        let Some((name, numbers)) = text.split_once(':') else {
            let kind = match text {
                "chapter-5" => Kind::Pipelined(Pipelined::CHAPTER_5),
                "archer" => Kind::Archer,
                _ => {
                    let beyond = text.split(',').filter_map(|word| word.trim().split('=').next());
                    if let Some(name) =
                        beyond.into_iter().find(|name| NOT_OF_NETWORKS.contains(name))
                    {
                        return Err(format!(
                            "`{name}` is no cost of a simulated network, whose ranks have a processor each and share no \
                             memory: leave it out"
                        ));
                    }
                    Kind::Costs(Box::new(
                        text.parse().map_err(|error| format!("{}; {error}", wrong()))?,
                    ))
                }
            };
            return Ok(Self { text: text.to_owned(), kind });
        };
        if name == "fit" && !numbers.is_empty() {
            return Ok(Self { text: text.to_owned(), kind: Kind::Kept(numbers.to_owned()) });
        }
        let numbers = numbers.split(',').map(|number| time(number.trim()));
        let numbers: Vec<f64> = numbers.collect::<Result<_, _>>()?;
        let pipelined = |pipelining, required, byte| Pipelined {
            cost: Pipelining { pipelining, required },
            byte,
        };
        let kind = match (name, &numbers[..]) {
            ("pipelined", &[p, r]) => Kind::Pipelined(pipelined(p, r, 0.0)),
            ("pipelined", &[p, r, byte]) => Kind::Pipelined(pipelined(p, r, byte)),
            ("hockney", &[alpha, beta]) => Kind::Hockney(pipelined(alpha, 0.0, beta)),
            ("logp", &[latency, overhead, gap]) => Kind::LogGp([latency, overhead, gap, 0.0]),
            ("loggp", &[latency, overhead, gap, byte]) => {
                Kind::LogGp([latency, overhead, gap, byte])
            }
            _ => return Err(wrong()),
        };
        Ok(Self { text: text.to_owned(), kind })
    }
}

/// What computing takes, as it was written.
#[derive(Clone, Copy, Debug)]
struct Arithmetic(Linear);

impl FromStr for Arithmetic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Vec<f64> =
            text.split(',').map(|n| time(n.trim())).collect::<Result<_, _>>()?;
        match numbers[..] {
            [each] => Ok(Self(Linear { each, ..Linear::default() })),
            [each, byte] => Ok(Self(Linear { each, byte, copied: 0.0 })),
            [each, byte, copied] => Ok(Self(Linear { each, byte, copied })),
            _ => Err(format!("`{text}` is not one to three times: EACH[,BYTE[,COPY]]")),
        }
    }
}

/// A machine that can be built as often as there are runs.
#[derive(Debug)]
pub(super) struct Plan {
    base: Base,
    wired: Option<Wired>,
    options: MachineOptions,
    compute: Linear,
}

/// A network whose parameters are known.
#[derive(Clone, Debug)]
enum Base {
    Pipelined(Pipelined),
    Hockney(Pipelined),
    LogGp([f64; 4]),
    BySize(Fitted),
    /// By costs.
    Costs(Box<Costs>),
}

impl MachineOptions {
    /// The machine for so many ranks.
    ///
    /// # Errors
    /// When ranks have no place in the topology, or nothing is kept of a transport.
    pub(super) fn plan(&self, ranks: u32) -> Result<Plan> {
        let usual = Linear { each: 10.0, ..Linear::default() };
        let (base, compute) = match &self.network.kind {
            Kind::Pipelined(network) => (Base::Pipelined(*network), usual),
            Kind::Hockney(network) => (Base::Hockney(*network), usual),
            Kind::LogGp(numbers) => (Base::LogGp(*numbers), usual),
            Kind::Archer => (Base::BySize(archer()?), usual),
            Kind::Kept(transport) => (Base::BySize(kept(transport)?), usual),
            Kind::Costs(costs) => {
                let Costs { copy, reduce, .. } = **costs;
                (Base::Costs(costs.clone()), Linear { each: 0.0, byte: reduce, copied: copy })
            }
        };
        ensure!(
            !(self.blocking && (self.topology.is_some() || self.latency.is_some())),
            "--blocking has no latency of its own; leave out --topology and --latency"
        );
        let wired = match (&self.topology, self.per_node) {
            (None, None) => None,
            (topology, each) => {
                let placement = Placement::Block(each.unwrap_or(1));
                Some(Wired::new(ranks, topology.clone(), placement, self.hop, self.inside)?)
            }
        };
        let compute = self.compute.map_or(compute, |Arithmetic(compute)| compute);
        Ok(Plan { base, wired, options: self.clone(), compute })
    }

    /// What the cheapest algorithm of these ranks is chosen by: the network's costs, within nodes too, where there are some.
    pub(super) fn prices(&self, plan: &Plan, ranks: u32, bytes: usize) -> Prices {
        let far = self.costs(plan, bytes);
        let inside = Costs { pipelining: self.inside, ..far };
        let near = self.per_node.map_or(far, |_| inside);
        let most = self.per_node.unwrap_or(1).min(ranks);
        let nodes = ranks.div_ceil(most);
        let layers = (nodes > 1).then_some(Layers { nodes, most, consecutive: true });
        Prices { crew: Crew { ranks, share: 1.0 }, costs: JobCosts { near, far }, layers }
    }

    /// What the cheapest algorithm is chosen by: the network's parameters as costs.
    pub(super) fn costs(&self, plan: &Plan, bytes: usize) -> Costs {
        let Linear { byte: reduce, copied: copy, .. } = plan.compute;
        let of = |pipelining, required, byte, receive| Costs {
            pipelining,
            required,
            byte,
            receive,
            copy,
            reduce,
            pairs: reduce,
            scalar: reduce,
            function: reduce,
            switch: 0.0,
            interference: 0.0,
            mark: 0.0,
            slot: 0.0,
            spill: 0.0,
            skew: 0.0,
            rendezvous: 0.0,
            receive_byte: 0.0,
            by_size: OfSizes::NONE,
        };
        match &plan.base {
            Base::Pipelined(Pipelined { cost, byte }) => {
                of(cost.pipelining, cost.required, *byte, 0.0)
            }
            // Nothing overlaps.
            Base::Hockney(Pipelined { cost, byte }) => of(0.0, cost.pipelining, *byte, 0.0),
            Base::LogGp([latency, overhead, gap, byte]) => {
                of(latency + overhead, overhead.max(*gap), *byte, 0.0)
            }
            Base::BySize(fitted) => {
                let by_size = fitted.by_size();
                let byte = by_size.required.as_ref().map_or(0.0, |line| line.slope.max(0.0));
                // What a fit does not hold for is an error of the run, whatever is chosen here.
                let least = || by_size.points().first().map(|point| point.1);
                let cost = by_size.at(bytes as u64).or_else(least);
                cost.map_or(of(0.0, 0.0, byte, 0.0), |Pipelining { pipelining, required }| {
                    of(pipelining, (required - bytes as f64 * byte).max(0.0), byte, 0.0)
                })
            }
            Base::Costs(costs) => {
                let Costs { pipelining, required, byte, receive, rendezvous, by_size, .. } =
                    **costs;
                Costs { rendezvous, by_size, ..of(pipelining, required, byte, receive) }
            }
        }
    }
}

/// The published fits.
fn archer() -> Result<Fitted> {
    let by_size = Entry::published("archer", "dmapp").by_size();
    by_size.map(Fitted::new).context("there is no published fit")
}

/// The fits that are kept of a transport of this machine.
fn kept(transport: &str) -> Result<Fitted> {
    let config = bowline::config_from_env()?;
    let path = bowline::model_file::file(&config)
        .context("BOWLINE_MODEL is off, or there is no home; name a file or unset it")?;
    let name = path.display();
    let text = std::fs::read(&path).with_context(|| {
        format!("cannot read {name}; `bowline model fit --transport {transport} --keep` writes it")
    })?;
    let table = FitTable::parse(&text).with_context(|| format!("cannot use {name}"))?;
    let entry = table.find(&bowline::costs::site(), transport).with_context(|| {
        format!("{name} has no fit of {transport} on this machine; `bowline model fit --transport {transport} --keep`")
    })?;
    let by_size: Option<BySize> = entry.by_size();
    by_size.map(Fitted::new).with_context(|| format!("the fit of {transport} holds at no size"))
}

impl Plan {
    /// A fresh machine, whose chance comes from a seed; and a counter of what a fit was asked for in vain.
    pub(super) fn machine(&self, ranks: u32, seed: u64) -> (AnyMachine, Beyond) {
        let mut beyond = Beyond::default();
        let mut network: Box<dyn NetworkModel> = match &self.base {
            Base::Pipelined(network) => Box::new(*network),
            Base::Hockney(Pipelined { cost, byte }) => {
                Box::new(Hockney::new(cost.pipelining, *byte))
            }
            Base::LogGp([latency, overhead, gap, byte]) => {
                Box::new(LogGp::new(ranks, *latency, *overhead, *gap, *byte))
            }
            Base::BySize(fitted) => {
                let fresh = Fitted::new(fitted.by_size().clone());
                beyond = fresh.beyond();
                Box::new(fresh)
            }
            Base::Costs(costs) => Box::new(PricedNetwork(**costs)),
        };
        if self.options.blocking {
            network = Box::new(Blocking(network));
        }
        if let Some(latency) = self.wired.clone() {
            network = Box::new(Delayed { network, latency });
        }
        if let Some(distribution) = self.options.latency.clone() {
            network =
                Box::new(Delayed { network, latency: RandomLatency::new(distribution, seed ^ 1) });
        }
        let mut compute: Box<dyn Compute> = Box::new(self.compute);
        if let Some(mean) = self.options.noise {
            network = Box::new(Noisy::new(network, mean, seed ^ 2));
            compute = Box::new(Noisy::new(compute, mean, seed ^ 3));
        }
        (Machine { network, compute }, beyond)
    }

    /// Whether chance has a part in it.
    pub(super) const fn by_chance(&self) -> bool {
        self.options.latency.is_some() || self.options.noise.is_some()
    }
}

/// The machine in one line.
impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        write!(out, "{}", options.network.text)?;
        match &self.base {
            Base::Pipelined(Pipelined { cost: Pipelining { pipelining, required }, byte }) => {
                write!(
                    out,
                    " (alpha_p {pipelining} ns, alpha_r {required} ns, {byte} ns for a byte)"
                )?;
            }
            Base::Costs(costs) => {
                let Costs { pipelining, required, byte, rendezvous, .. } = **costs;
                write!(
                    out,
                    " (alpha_p {pipelining} ns, alpha_r {required} ns, {byte} ns for a byte"
                )?;
                if rendezvous > 0.0 {
                    write!(out, ", handshake of long messages {rendezvous} ns")?;
                }
                write!(out, ")")?;
            }
            Base::BySize(fitted) => {
                write!(out, " (fits of {} sizes)", fitted.by_size().points().len())?;
            }
            Base::Hockney(_) | Base::LogGp(_) => {}
        }
        if options.blocking {
            write!(out, ", blocking")?;
        }
        if let Some(topology) = &options.topology {
            write!(out, ", {topology} with {} ns for a hop", options.hop)?;
        }
        if let Some(each) = options.per_node {
            write!(out, ", {each} ranks on a node with {} ns between them", options.inside)?;
        }
        if let Some(latency) = &options.latency {
            write!(out, ", latency {latency}")?;
        }
        if let Some(noise) = options.noise {
            write!(out, ", noise {noise}")?;
        }
        let Linear { each, byte, copied } = self.compute;
        write!(out, "; computing {each} ns, {byte} ns for a byte, {copied} ns for a copied one")
    }
}
