//! The comparison as a program of its own: prints the table, and writes JSON and a picture.
//!
//! `cargo xtask bench peers` does the same; this program works without xtask.

use std::path::PathBuf;
use std::process::ExitCode;

use bowline_bench::{BenchError, PeersOptions};
use clap::Parser;

/// Compares Bowline with UCX, MPICH, Open MPI and Intel MPI on two cores.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: PeersOptions,

    /// Over TCP instead of shared memory.
    #[arg(long)]
    networks: bool,

    /// Every operation of ucp at every size, beside UCX.
    #[arg(long, conflicts_with = "networks")]
    grid: bool,

    /// Collectives of all sizes, over shared memory and over TCP with delay.
    #[arg(long, conflicts_with_all = ["networks", "grid"])]
    collectives: bool,

    /// Long messages by every means that a setting forces, beside Bowline's own choice.
    #[arg(long, conflicts_with_all = ["networks", "grid", "collectives"])]
    selection: bool,

    /// Where to write the report as JSON.
    #[arg(long)]
    json: Option<PathBuf>,

    /// Where to write the picture (PNG).
    #[arg(long, conflicts_with = "selection")]
    plot: Option<PathBuf>,
}

fn main() -> ExitCode {
    match compare(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> Result<(), BenchError> {
    let report = if arguments.grid {
        bowline_bench::run_grid(&arguments.options)?
    } else if arguments.collectives {
        bowline_bench::run_collectives(&arguments.options)?
    } else if arguments.selection {
        bowline_bench::run_selection(&arguments.options)?
    } else if arguments.networks {
        bowline_bench::run_networks(&arguments.options)?
    } else {
        bowline_bench::run(&arguments.options)?
    };
    println!("{}", report.table());
    if let Some(path) = &arguments.json {
        report.write_json(path)?;
    }
    if let Some(path) = &arguments.plot {
        report.plot(path)?;
    }
    Ok(())
}
