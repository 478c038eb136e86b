//! `bowline explain`: by which transport the ranks of a job reach each other, and why not by
//! another.
//!
//! Each rank puts its worker together as every program does and asks it; nothing is sent but
//! addresses, through the launcher.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use bowline::ucp::LaneReport;
use serde::Serialize;

use super::perf::site::Site;
use super::start;

/// Tell which transport leads from a rank to its peers, and why not the others.
///
/// Alone it starts ranks on this machine. Under a launcher it is one of the ranks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline explain                                     two ranks of this machine
  bowline explain -n 4 --peer 3 --json                the way from rank 0 to rank 3
  bowline run -n 4 --hosts a,b bowline explain        ranks on two hosts
  BOWLINE_TRANSPORTS=self,tcp bowline explain         without shared memory")]
pub(crate) struct Args {
    /// Number of ranks; under a launcher that says.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,
    /// The rank that is asked.
    #[arg(long, value_name = "R", default_value_t = 0)]
    rank: u32,
    /// Only the way to this rank [default: to every rank].
    #[arg(long, value_name = "R")]
    peer: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The lanes from one rank to another.
#[derive(Debug, Serialize)]
struct Way {
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
    ways: Vec<String>,
}

impl From<LaneReport> for Lane {
    fn from(report: LaneReport) -> Self {
        let (chosen, reaches, reason) = match report.verdict {
            Ok(true) => (true, true, "the first that reaches the peer".to_owned()),
            Ok(false) => (false, true, "it reaches the peer, but another comes first".to_owned()),
            Err(reason) => (false, false, reason),
        };
        Self { transport: report.provider, chosen, reaches, reason, ways: report.ways }
    }
}

/// Tells.
///
/// # Errors
/// When the ranks cannot start, or there is no such rank.
pub(crate) fn main(args: &Args, as_rank: bool) -> anyhow::Result<ExitCode> {
    let config = bowline::config_from_env()?;
    if !as_rank && !bowline_launch::bootstrap::is_started() {
        for (option, rank) in [("--rank", Some(args.rank)), ("--peer", args.peer)] {
            let rank = rank.unwrap_or(0);
            ensure!(rank < args.ranks, "{option} {rank}: there are {} ranks", args.ranks);
        }
        return start::processes(args.ranks, &config);
    }
    let mut site = Site::of_process(&config)?;
    let worker = site.worker()?;
    let addresses = site.swap(&worker.address())?;
    let peers = addresses.len() as u32;
    ensure!(args.rank < peers, "--rank {}: there are {peers} ranks", args.rank);
    if site.rank() == args.rank {
        let wanted = match args.peer {
            Some(peer) => peer..peer + 1,
            None => 0..peers,
        };
        let mut ways = Vec::new();
        for peer in wanted {
            let address = addresses
                .get(peer as usize)
                .with_context(|| format!("--peer {peer}: there are {peers} ranks"))?;
            let lanes = worker.explain(address)?.into_iter().map(Lane::from).collect();
            ways.push(Way { rank: args.rank, peer, lanes });
        }
        if args.json {
            println!("{}", serde_json::to_string_pretty(&ways)?);
        } else {
            print!("{}", text(&ways)?);
        }
    }
    // Nobody leaves while others still look at its addresses.
    site.swap(&[])?;
    Ok(ExitCode::SUCCESS)
}

fn text(ways: &[Way]) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    for way in ways {
        writeln!(out, "rank {} to rank {}", way.rank, way.peer)?;
        for lane in &way.lanes {
            let mark = if lane.chosen { '+' } else { '-' };
            writeln!(out, "  {mark} {:<6} {}", lane.transport, lane.reason)?;
            for line in &lane.ways {
                writeln!(out, "             {line}")?;
            }
        }
    }
    Ok(out)
}
