//! `bench-progress`: who moves messages on while a rank computes, in the modes of `BOWLINE_PROGRESS`,
//! beside the figures of chapter 3 of J. A. Zounmevo's thesis (Queen's University, 2014).
//!
//! `cargo xtask bench progress` builds it for release and runs it. The ranks are threads of this
//! program, bound to a processor each; times never fail a run.

mod applications;
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

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
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

/// A table's name and the function that makes it.
type Named = (&'static str, fn(bool) -> Result<Vec<Table>>);

const TABLES: [Named; 8] = [
    ("overhead", overhead::tables),
    ("overlap", overlap::tables),
    ("waiting", overlap::waiting),
    ("schemes", schemes::tables),
    ("collectives", collectives::tables),
    ("applications", applications::tables),
    ("memory", memory::tables),
    ("locks", locks::tables),
];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.resident {
        return memory::print_resident();
    }
    if let Some(unknown) =
        arguments.only.iter().find(|name| !TABLES.iter().any(|(known, _)| known == name))
    {
        let known: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
        bail!("no table {unknown:?}; there are {}", known.join(", "));
    }
    let mut made = Vec::new();
    for (name, make) in TABLES {
        if arguments.only.is_empty() || arguments.only.iter().any(|wanted| wanted == name) {
            for table in make(arguments.quick).with_context(|| format!("no table {name}"))? {
                print!("{table}");
                made.push(table);
            }
        }
    }
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
