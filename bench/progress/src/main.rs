//! `bench-progress`: who moves messages on while a rank computes, in the modes of `BOWLINE_PROGRESS`,
//! beside the figures of chapter 3 of J. A. Zounmevo's thesis (Queen's University, 2014).
//!
//! `cargo xtask bench progress` builds it for release and runs it. The ranks are threads of this
//! program, bound to a processor each, but for those whose memory is measured and those of the programs over shared memory and
//! sockets, which are processes; times never fail a run.

mod applications;
mod carrier;
mod chosen;
mod collectives;
mod locks;
mod memory;
mod overhead;
mod overlap;
#[path = "../../queues/src/plot.rs"]
mod plot;
mod ranks;
mod schemes;
#[path = "../../queues/src/table.rs"]
#[expect(dead_code, reason = "the other program uses more of it")]
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use ranks::{Lane, Scope};
use table::Table;

/// Who moves messages on while a rank computes
#[derive(Parser, Debug)]
#[command(name = "bench-progress")]
struct Arguments {
    /// Fewer rounds and sizes: minutes in all
    #[arg(long)]
    quick: bool,
    /// Only these tables: overhead, overlap, waiting, schemes, collectives, applications, memory, locks
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
    /// Over these lanes: carrier, shm, tcp, hosts (tcp between two network namespaces, with a delay), ofi, verbs, of overhead,
    /// overlap and applications [default: carrier, shm]; of schemes carrier and verbs [default: carrier]; the other tables have
    /// lanes of their own
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    lanes: Vec<String>,
    /// Measure nothing, but show, write and draw the tables of this file, which `--json` has written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "lanes"])]
    from: Option<PathBuf>,
    /// Where to write the tables as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Directory for pictures of the tables that have one
    #[arg(long, value_name = "DIRECTORY")]
    plot: Option<PathBuf>,
    /// Be a rank of a job, and print the memory of all of them
    #[arg(long, hide = true)]
    resident: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.resident {
        return memory::print_resident();
    }
    let made = match &arguments.from {
        Some(path) => read(path)?,
        None => measure(&arguments)?,
    };
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&made).context("cannot write the tables")?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("written: {}", path.display());
    }
    if let Some(directory) = &arguments.plot {
        plot::draw(directory, &made)?;
    }
    Ok(())
}

/// The tables that are asked for, shown as they come.
fn measure(arguments: &Arguments) -> Result<Vec<Table>> {
    let (names, left_out) = chosen::tables(&arguments.only, &arguments.lanes)?;
    for why in left_out {
        eprintln!("left out: {why}");
    }
    let scope = Scope { quick: arguments.quick, lanes: lanes(&arguments.lanes)? };
    let mut made = Vec::new();
    for name in names {
        for table in make(name, &scope).with_context(|| format!("no table {name}"))? {
            print!("{table}");
            made.push(table);
        }
    }
    Ok(made)
}

fn make(name: &str, scope: &Scope) -> Result<Vec<Table>> {
    match name {
        "overhead" => overhead::tables(scope),
        "overlap" => overlap::tables(scope),
        "waiting" => overlap::waiting(scope),
        "schemes" => schemes::tables(scope),
        "collectives" => collectives::tables(scope),
        "applications" => applications::tables(scope),
        "memory" => memory::tables(scope),
        "locks" => locks::tables(scope),
        _ => unreachable!("there is no table {name}"),
    }
}

fn lanes(names: &[String]) -> Result<Vec<Lane>> {
    if names.is_empty() {
        return Ok(Lane::USUAL.to_vec());
    }
    let mut all = Vec::new();
    for name in names {
        match name.as_str() {
            "carrier" => all.push(Lane::Carrier),
            "shm" => all.push(Lane::Shm),
            "tcp" => all.push(Lane::Tcp),
            "hosts" => all.extend([Lane::Hosts, Lane::HostsElsewhere]),
            "ofi" if cfg!(feature = "ofi") => all.push(Lane::Ofi),
            "ofi" => bail!("this build has no libfabric; build with --features ofi"),
            "verbs" => all.extend([Lane::Verbs, Lane::VerbsElsewhere]),
            _ => unreachable!("there is no lane {name}"),
        }
    }
    Ok(all)
}

/// Tables that were measured elsewhere.
fn read(path: &Path) -> Result<Vec<Table>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} has no tables", path.display()))
}
