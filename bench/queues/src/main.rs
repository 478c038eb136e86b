//! `bench-queues`: matching queues and receive queues beside the figures published about them.
//!
//! `cargo xtask bench queues` builds it for release and runs it. Each table has a name; counts
//! and bytes that contradict what is published fail the run, times never do.

mod clock;
mod count;
mod heap;
mod matching;
mod plot;
mod receive;
mod table;
mod within;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use clock::Effort;
use table::Table;

/// A table: its name, what it shows, and the function that makes it.
pub(crate) type Named = (&'static str, &'static str, fn(&Context) -> Result<Table>);

/// Matching queues and receive queues beside published figures
#[derive(Parser, Debug)]
#[command(name = "bench-queues", after_help = names())]
struct Arguments {
    /// Fewer rounds and smaller jobs: some two minutes in all
    #[arg(long)]
    quick: bool,
    /// Only these tables
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
    /// Rounds of every measurement
    #[arg(long)]
    rounds: Option<usize>,
    /// Where to write the tables as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Directory for pictures of the tables that have one
    #[arg(long, value_name = "DIRECTORY")]
    plot: Option<PathBuf>,
    /// Be the other process of a pair, over the memory at the standard input
    #[arg(long, hide = true)]
    peer: bool,
    /// Be a sender of many to one: its form, rank, number of senders and processor
    #[arg(long, hide = true)]
    sender: Option<String>,
    /// Be a process of all to all: its form, rank and number of processes
    #[arg(long, hide = true)]
    member: Option<String>,
    /// Only do --matches matches with this engine, to be counted from outside
    #[arg(long, hide = true)]
    count: Option<String>,
    /// See --count
    #[arg(long, hide = true, default_value_t = 1000)]
    matches: u64,
    /// See --count
    #[arg(long, hide = true, default_value_t = 0)]
    queued: u32,
    /// See --count
    #[arg(long, hide = true, default_value_t = 0)]
    comms: u16,
    /// See --count
    #[arg(long, hide = true, default_value_t = 256)]
    ranks: u32,
}

fn tables() -> Vec<Named> {
    [
        matching::counts::TABLES,
        matching::memory::TABLES,
        matching::trees::TABLES,
        matching::single::TABLES,
        matching::applications::TABLES,
        matching::threshold::TABLES,
        receive::latency::TABLES,
        receive::memory::TABLES,
        receive::all_to_all::TABLES,
        receive::many::TABLES,
        receive::threads::TABLES,
        receive::processes::TABLES,
        receive::network::TABLES,
        receive::lanes::TABLES,
        within::TABLES,
    ]
    .concat()
}

fn names() -> String {
    let mut text = String::from("Tables:\n");
    for (name, what, _) in tables() {
        text += &format!("  {name:<18} {what}\n");
    }
    text
}

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// Fewer rounds and smaller jobs.
    pub(crate) quick: bool,
    /// Processors that this program may use, before it bound itself to one.
    pub(crate) cpus: usize,
    /// How long to measure.
    pub(crate) effort: Effort,
}

impl Context {
    /// The rows of a table, with a bar that shows how many are done.
    pub(crate) fn progress<T>(&self, name: &'static str, rows: Vec<T>) -> impl Iterator<Item = T> {
        let bar = ProgressBar::new(rows.len() as u64).with_prefix(name);
        let style = ProgressStyle::with_template("{prefix:<14} {bar:30} {pos}/{len}");
        bar.set_style(style.expect("the template is well-formed"));
        let done = bar.clone();
        rows.into_iter().inspect(move |_| bar.inc(1)).chain(std::iter::from_fn(move || {
            done.finish_and_clear();
            None
        }))
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.peer {
        return receive::latency::peer();
    }
    if let Some(what) = &arguments.sender {
        return receive::processes::sender(what);
    }
    if let Some(what) = &arguments.member {
        return receive::all_to_all::member(what);
    }
    if let Some(engine) = &arguments.count {
        return match arguments.comms {
            0 => count::run(engine, arguments.matches, arguments.queued),
            comms => count::caches(engine, comms, arguments.ranks),
        };
    }
    let all = tables();
    let unknown = arguments.only.iter().find(|name| !all.iter().any(|table| table.0 == **name));
    if let Some(unknown) = unknown {
        let known: Vec<&str> = all.iter().map(|table| table.0).collect();
        bail!("no table {unknown:?}; there are {}", known.join(", "));
    }
    let wanted: BTreeSet<&str> = arguments.only.iter().map(String::as_str).collect();
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 15 } else { 41 }).max(1);
    let effort = if arguments.quick {
        Effort { rounds, slice: Duration::from_millis(1), patience: Duration::from_millis(250) }
    } else {
        Effort { rounds, slice: Duration::from_millis(3), patience: Duration::from_secs(2) }
    };
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let context = Context { quick: arguments.quick, cpus, effort };
    receive::latency::pin(0);
    let mut made = Vec::new();
    for (name, _, make) in all {
        if wanted.is_empty() || wanted.contains(name) {
            let table = make(&context).with_context(|| format!("cannot make the table {name}"))?;
            print!("{table}");
            made.push(table);
        }
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&made).context("cannot write the tables")?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("written: {}", path.display());
    }
    if let Some(directory) = &arguments.plot {
        plot::draw(directory, &made)
            .with_context(|| format!("cannot draw into {}", directory.display()))?;
    }
    let missed: Vec<&str> = made
        .iter()
        .flat_map(|table| &table.goals)
        .filter(|goal| goal.exact && !goal.met)
        .map(|goal| goal.what.as_str())
        .collect();
    if !missed.is_empty() {
        bail!("what does not depend on the machine is not as it must be: {}", missed.join("; "));
    }
    Ok(())
}
