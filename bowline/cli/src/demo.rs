//! `bowline demo`: ordinary programs on the public interface, to be read as examples and run as
//! proof. Each starts its own ranks.

mod graph;
mod heat;
mod lines;
mod pagerank;
mod parts;
mod picture;
pub(crate) mod progress;
mod sample;
mod sort;

use std::process::ExitCode;

use clap::Subcommand;

use super::start;

/// Run a demonstration program on several ranks.
///
/// The programs use the public interface only; their sources are meant to be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline demo sort examples/data/words.txt -n 4 --output sorted.txt
  bowline demo pagerank examples/data/links.txt -n 4 --check
  bowline demo heat -n 4 --png heat.png")]
pub(crate) struct Args {
    #[command(subcommand)]
    demo: Demo,
}

#[derive(Debug, Subcommand)]
enum Demo {
    Sort(sort::Args),
    Pagerank(pagerank::Args),
    Heat(heat::Args),
}

/// How a demonstration gets its ranks.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Ranks {
    /// Number of ranks.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Run the ranks as threads of one process.
    #[arg(long)]
    threads: bool,
}

/// Runs a demonstration: checks what can be checked before ranks start, then starts them or, in
/// one of them, does its work.
///
/// # Errors
/// What the demonstration reports.
pub(crate) fn main(args: &Args, as_rank: bool) -> anyhow::Result<ExitCode> {
    match &args.demo {
        Demo::Sort(args) => {
            go(args.ranks, as_rank, || args.check(), |world| sort::sort(world, args))
        }
        Demo::Pagerank(args) => {
            go(args.ranks, as_rank, || args.check(), |world| pagerank::pagerank(world, args))
        }
        Demo::Heat(args) => {
            go(args.ranks, as_rank, || args.check(), |world| heat::heat(world, args))
        }
    }
}

fn go(
    ranks: Ranks,
    as_rank: bool,
    check: impl FnOnce() -> anyhow::Result<()>,
    rank_main: impl Fn(&bowline::mpi::World) -> start::RankResult + Sync,
) -> anyhow::Result<ExitCode> {
    let config = bowline::config_from_env()?;
    if as_rank {
        return start::as_rank(&config, rank_main);
    }
    check()?;
    if ranks.threads {
        start::threads(ranks.ranks, &config, rank_main)
    } else {
        start::processes(ranks.ranks, &config)
    }
}
