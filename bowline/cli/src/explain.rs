//! `bowline explain`: by which transport the ranks of a job reach each other, why not by another,
//! which protocol a message of a size takes, and how messages are matched with receives.
//!
//! Each rank puts its worker together as every program does and asks it; nothing is sent but
//! addresses, through the launcher, unless `--send` asks for it.

mod collective;
mod estimates;
mod protocols;
mod unlisted;

use std::fmt::Write;
use std::process::ExitCode;

use crate::collective::{Class, Collective};
use anyhow::{Context as _, bail, ensure};
use bowline::ucp::matching::EngineKind;
use bowline::ucp::proto::Op;
use bowline::ucp::{LaneReport, SpaceOptions, Worker};
use bowline_model::coll::price::ReductionOperands;
use estimates::Estimate;
use protocols::{Carried, Messages, Protocols};
use serde::Serialize;

use super::info::machine;
use super::perf::site::{Round, Site};
use super::{numbers, output, start};

/// Show which transport leads from a rank to its peers, why not the others, which protocol messages
/// take and what that costs, and how they are matched.
///
/// Alone it starts ranks on this machine. Under a launcher it is one of the ranks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline explain                                     two ranks of this machine
  bowline explain -n 4 --peer 3 --json                the route from rank 0 to rank 3
  bowline explain --op tag_send --send 8,64k,1m       send, and show what carried each message
  bowline explain --send 64k,1m --repeat 2000         send many, and show what was measured of them
  bowline run -n 4 --hosts a,b bowline explain        ranks on two hosts
  BOWLINE_TRANSPORTS=self,tcp bowline explain         without shared memory
  BOWLINE_MATCHING=nd bowline explain -n 1000         another matching engine
  bowline explain --collective allreduce --ranks 48 --size 8,64k
                                                      its algorithms, and what each is expected to take
  BOWLINE_COLL_COSTS=tcp,pipelining=100000 bowline explain --collective bcast --ranks 1000
                                                      on a network with 100 microseconds of latency
  bowline explain --collective allreduce --ranks 64 --nodes 8
                                                      with algorithms in layers, within nodes and between them
  bowline explain --collective allreduce --ranks 8 --class function --width 64
                                                      of an operation of the program's on elements of 64 bytes")]
pub(crate) struct Args {
    /// Number of ranks; under a launcher that says.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    ranks: u32,
    /// Show a collective instead: its algorithms, with what each is expected to take.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["rank", "peer", "op", "send"])]
    collective: Option<Collective>,
    /// Bytes of a collective's vectors, or of a block where each rank has one.
    // The path keeps clap from taking the list for an option that is given several times.
    #[arg(long, value_name = "SIZES", value_parser = numbers::sizes, requires = "collective",
          default_value = "8,1k,64k,1m")]
    size: std::vec::Vec<usize>,
    /// How many ranks share a processor.
    #[arg(long, value_name = "RANKS", requires = "collective", default_value_t = 1.0)]
    share: f64,
    /// On how many nodes the ranks are, in blocks.
    #[arg(long, value_name = "NODES", requires = "collective", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// The class of a reduction's operation: predefined on numbers with vector instructions, on pairs of a value and a
    /// location, on other floating-point numbers (long double, 2 or 16 bytes), or a function of the program's [default:
    /// vector].
    #[arg(long, value_enum, requires = "collective")]
    class: Option<Class>,
    /// Bytes of an element of a reduction [default: 8].
    #[arg(long, value_name = "BYTES", requires = "collective", value_parser = clap::value_parser!(u32).range(1..))]
    width: Option<u32>,
    /// The operation of a reduction is not commutative.
    #[arg(long, requires = "collective")]
    ordered: bool,
    /// The rank that is asked.
    #[arg(long, value_name = "R", default_value_t = 0)]
    rank: u32,
    /// Only the route to this rank [default: to every rank].
    #[arg(long, value_name = "R")]
    peer: Option<u32>,
    /// Only the protocols of this operation: tag_send, am_send, stream_send, fetch, put, get or atomic
    /// [default: all].
    #[arg(long, value_name = "OP", value_parser = operation)]
    op: Option<Op>,
    /// Send a message of each of these sizes to the peer (or the next rank), and show which
    /// protocol carried it.
    // The path keeps clap from taking the list for an option that is given several times.
    #[arg(long, value_name = "SIZES", value_parser = numbers::sizes)]
    send: Option<std::vec::Vec<usize>>,
    /// Send so many messages of each size, and show what their receiver has measured: what each means took, how long
    /// ago, and how often it was taken.
    #[arg(long, value_name = "N", requires = "send", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// How many of them are sent before the first is answered.
    #[arg(long, value_name = "N", requires = "repeat", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    window: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// What a collective combines.
    ///
    /// # Errors
    /// When it combines nothing, and an option says what.
    fn operands(&self, name: Collective) -> anyhow::Result<ReductionOperands> {
        let (class, width) = (self.class.map(|_| "--class"), self.width.map(|_| "--width"));
        let given = class.or(width).or(self.ordered.then_some("--ordered"));
        if let Some(option) = given.filter(|_| !name.reduces()) {
            bail!("{option}: this collective has no operation; leave it out");
        }
        let class = self.class.unwrap_or(Class::Vector);
        Ok(ReductionOperands::new(!self.ordered, class.into(), self.width()))
    }

    /// Bytes of an element.
    fn width(&self) -> usize {
        self.width.unwrap_or(8) as usize
    }

    /// Whether a job of so many ranks has those that are named.
    fn check_ranks(&self, ranks: u32) -> anyhow::Result<()> {
        for (option, rank) in [("--rank", Some(self.rank)), ("--peer", self.peer)] {
            let rank = rank.unwrap_or(0);
            ensure!(rank < ranks, "{option} {rank}: ranks are 0 to {}", ranks - 1);
        }
        Ok(())
    }

    /// Whether such a job can send what is asked for.
    fn check_send(&self, ranks: u32) -> anyhow::Result<()> {
        if self.send.is_none() {
            return Ok(());
        }
        ensure!(ranks > 1, "--send: the only rank has nobody to send to; start two or more, by -n");
        let peer = self.peer.unwrap_or((self.rank + 1) % ranks);
        ensure!(peer != self.rank, "--send: rank {peer} would send to itself; name another --peer");
        Ok(())
    }

    /// Whether this machine has memory for the sender and the receiver, of which the one has a
    /// buffer and the other one for each message of a window.
    fn check_memory(&self) -> anyhow::Result<()> {
        let Some(&longest) = self.send.iter().flatten().max() else { return Ok(()) };
        let buffers = 1 + u64::from(self.window);
        machine::has_memory((longest as u64).saturating_mul(buffers), || {
            format!("--send {longest}: the buffers of the two ranks take")
        })
    }
}

/// Ranks that are started at most.
const MOST_RANKS: u32 = 4096;

fn operation(name: &str) -> Result<Op, String> {
    let known = Op::ALL.map(Op::name).join(", ");
    let found = Op::ALL.into_iter().find(|op| op.name() == name);
    found.ok_or_else(|| format!("there is no operation `{name}`; there are {known}"))
}

/// Everything that is reported.
#[derive(Debug, Serialize)]
struct Report {
    matching: Matching,
    pairs: Vec<PeerLanes>,
    protocols: Vec<Protocols>,
    /// What carried the messages that were sent, and to whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<Tried>,
}

/// Messages that were really sent.
#[derive(Debug, Serialize)]
struct Tried {
    peer: u32,
    messages: Vec<Carried>,
    /// What the peer measured of them, if they were repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimates: Option<Vec<Estimate>>,
}

/// How messages are matched with receives in a communicator of all ranks.
#[derive(Debug, Serialize)]
struct Matching {
    engine: &'static str,
    /// What that means for so many ranks.
    meaning: String,
}

impl Matching {
    fn of(engine: EngineKind, ranks: u32) -> Self {
        Self { engine: engine.name(), meaning: engine.explain(ranks) }
    }
}

/// The lanes from one rank to another.
#[derive(Debug, Serialize)]
struct PeerLanes {
    rank: u32,
    peer: u32,
    lanes: Vec<Lane>,
}

#[derive(Debug, Serialize)]
struct Lane {
    transport: &'static str,
    chosen: bool,
    /// Whether messages could take it.
    reaches: bool,
    reason: String,
    /// What the transport itself had to choose from.
    choices: Vec<String>,
}

impl From<LaneReport> for Lane {
    fn from(report: LaneReport) -> Self {
        let (chosen, reaches, reason) = match report.verdict {
            Ok(true) => (true, true, "the first that reaches the peer".to_owned()),
            Ok(false) => (false, true, "it reaches the peer, but another comes first".to_owned()),
            Err(reason) => (false, false, reason),
        };
        Self { transport: report.provider, chosen, reaches, reason, choices: report.choices }
    }
}

/// Shows it.
///
/// # Errors
/// When the ranks cannot start, or there is no such rank.
pub(crate) fn main(args: &Args, as_rank: bool) -> anyhow::Result<ExitCode> {
    let config = bowline::config_from_env()?;
    if let Some(name) = args.collective {
        let (ranks, nodes) = (args.ranks, args.nodes);
        ensure!(
            (1.0..=f64::from(ranks)).contains(&args.share),
            "--share {}: between 1 and all {ranks} ranks share a processor",
            args.share
        );
        ensure!(
            nodes <= ranks,
            "--nodes {nodes}: there are {ranks} ranks, at least one on each node"
        );
        let of = (name, args.operands(name)?);
        let width = args.width();
        let report =
            collective::report(&config, of, width, (ranks, nodes), args.share, &args.size)?;
        match args.json {
            true => output::print_json(&report)?,
            false => output::print(&report.text()?)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(args.ranks <= MOST_RANKS, "-n {}: at most {MOST_RANKS} ranks are started", args.ranks);
    if !as_rank && !bowline_launch::bootstrap::is_started() {
        args.check_ranks(args.ranks)?;
        args.check_send(args.ranks)?;
        args.check_memory()?;
        return start::processes(args.ranks, &config);
    }
    let mut site = Site::of_process(&config)?;
    let worker = site.worker()?;
    let addresses = site.publish(&worker.address())?;
    let peers = site.ranks();
    match args.check_ranks(peers).and_then(|()| args.check_send(peers)) {
        // All ranks find the same.
        Err(_) if site.rank() != 0 => return Ok(ExitCode::SUCCESS),
        possible => possible?,
    }
    let sent = sent(&mut site, &worker, addresses, args)?;
    let mut report = None;
    if site.rank() == args.rank {
        let wanted = match args.peer {
            Some(peer) => peer..peer + 1,
            None => 0..peers,
        };
        let mut pairs = Vec::new();
        // Only the rank that is asked reads addresses: all ranks at all would be a square.
        for peer in wanted {
            let address = site.published(addresses, peer)?;
            let lanes = worker.explain(&address)?.into_iter().map(Lane::from).collect();
            pairs.push(PeerLanes { rank: args.rank, peer, lanes });
        }
        let engine = worker.engine_of(0).context("a space that was opened has an engine")?;
        // Lanes that lead nowhere are left out.
        let used = |name: &str| {
            pairs
                .iter()
                .any(|pair: &PeerLanes| pair.lanes.iter().any(|l| l.chosen && l.transport == name))
        };
        let choices = worker.choices();
        let lanes = choices.iter().filter(|lane| used(lane.provider));
        let protocols = lanes.map(|lane| Protocols::of(lane, args.op)).collect();
        report = Some(Report { matching: Matching::of(engine, peers), pairs, protocols, sent });
    }
    // Nobody leaves while others still read its addresses, nor because the output is full.
    site.publish(&[])?;
    match report {
        None => {}
        Some(report) if args.json => output::print_json(&report)?,
        Some(report) => output::print(&text(&report)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the messages sent that the user asks for. Collective.
fn sent(
    site: &mut Site,
    worker: &Worker,
    addresses: Round,
    args: &Args,
) -> anyhow::Result<Option<Tried>> {
    let ranks = site.ranks();
    worker.open_space(0, SpaceOptions { ranks, ..SpaceOptions::default() })?;
    let peer = args.peer.unwrap_or((args.rank + 1) % ranks);
    let sizes: Vec<u64> = args.send.iter().flatten().map(|&size| size as u64).collect();
    if sizes.is_empty() {
        return Ok(None);
    }
    if [args.rank, peer].contains(&site.rank()) {
        args.check_memory()?;
    }
    let wanted = Messages { sizes, repeat: args.repeat.unwrap_or(1), window: args.window };
    let mut estimates = None;
    let messages = match site.rank() {
        rank if rank == args.rank => {
            let ep = worker.connect(&site.published(addresses, peer)?)?;
            let messages = protocols::send(worker, ep, [rank, peer], &wanted)?;
            if args.repeat.is_some() {
                estimates = Some(estimates::receive(worker, peer)?);
            }
            messages
        }
        rank if rank == peer => {
            let ep = worker.connect(&site.published(addresses, args.rank)?)?;
            let messages = protocols::receive(worker, ep, [rank, args.rank], &wanted)?;
            if args.repeat.is_some() {
                estimates::report(worker, ep, rank)?;
            }
            messages
        }
        _ => Vec::new(),
    };
    let counted = site.publish(&serde_json::to_vec(&messages)?)?;
    if site.rank() != args.rank {
        return Ok(None);
    }
    let messages = protocols::join(messages, &site.published(counted, peer)?)?;
    Ok(Some(Tried { peer, messages, estimates }))
}

fn text(report: &Report) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    let Matching { engine, meaning } = &report.matching;
    writeln!(out, "matching: {engine} ({meaning})")?;
    for pair in &report.pairs {
        writeln!(out, "rank {} to rank {}", pair.rank, pair.peer)?;
        for lane in &pair.lanes {
            let mark = if lane.chosen { '+' } else { '-' };
            writeln!(out, "  {mark} {:<6} {}", lane.transport, lane.reason)?;
            for line in &lane.choices {
                writeln!(out, "             {line}")?;
            }
        }
    }
    writeln!(out, "protocols by size, with the predicted time from send to received")?;
    for protocols in &report.protocols {
        protocols.text(&mut out)?;
    }
    if let Some(Tried { peer, messages, estimates }) = &report.sent {
        writeln!(out, "messages to rank {peer}")?;
        for message in messages {
            message.text(&mut out)?;
        }
        if let Some(estimates) = estimates {
            estimates::text(estimates, *peer, &mut out)?;
        }
    }
    Ok(out)
}
