//! `cargo xtask bench`: figures, each in its own program.
//!
//! Only the instruction counts are judged against committed figures; times depend on the machine
//! and on its neighbours, so they are printed and never fail a run.

mod collectives;
pub(crate) mod instructions;
mod instructions_c;
mod memory;
mod modes;
mod mpin;
mod neighbours;
mod output;
mod progress;
mod queues;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;

use crate::workspace::Workspace;

/// Which figures.
#[derive(Subcommand, Debug)]
pub(crate) enum Task {
    /// Bowline beside UCX, MPICH, Open MPI and Intel MPI on two cores
    Peers(Against),
    /// Bowline beside UCX, MPICH and Open MPI over TCP: the loopback device, and with root a veth
    /// pair between two network namespaces
    Networks(Against),
    /// Every operation of ucp at every size, beside UCX over shared memory
    Grid(Against),
    /// What Bowline chooses for long messages beside every means that a setting forces, and beside UCX, MPICH, Open MPI
    /// and Intel MPI, 16 KB to 4 MB; receives posted before their messages and behind them
    Selection(Against),
    /// Collectives of 2 to 16 ranks beside MPICH, Open MPI and Intel MPI: over shared memory, and with root over
    /// TCP between network namespaces whose packets take 100 microseconds
    CollectivesPeers(Against),
    /// Instructions for each operation of the short path, by callgrind
    Instructions(instructions::Options),
    /// Calls, requests and doorbells of the verbs transport beside perftest, in a guest that has
    /// devices; its instructions
    Verbs(crate::guest::measure::MeasureOptions),
    /// Jobs of ranks that share processors, with and without busy loops of others beside them
    Neighbours(neighbours::Options),
    /// Receive memory of a rank, by the number of ranks
    ReceiveMemory(memory::Options),
    /// Matching queues and receive queues beside the figures published about them
    Queues(queues::Options),
    /// Receiver-initiated messages beside the figures published about them
    Mpin(mpin::Options),
    /// Recursive multiplying beside the figures published about it: modelled, simulated, and with real ranks
    Collectives(collectives::Options),
    /// Who moves messages on while a rank computes, beside the figures published about it
    Progress(progress::Options),
}

/// What to compare with, and where to put it.
#[derive(clap::Args, Debug)]
pub(crate) struct Against {
    #[command(flatten)]
    options: bowline_bench::PeersOptions,
    /// Where to write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where to draw the figures, a PNG
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// Takes the figures.
pub(crate) fn run(workspace: &Workspace, task: Task) -> Result<()> {
    match task {
        Task::Peers(against) => compare(workspace, against, bowline_bench::run),
        Task::Networks(against) => compare(workspace, against, bowline_bench::run_networks),
        Task::Grid(against) => compare(workspace, against, bowline_bench::run_grid),
        Task::Selection(against) => {
            ensure!(against.plot.is_none(), "selection has no picture; leave out --plot");
            compare(workspace, against, bowline_bench::run_selection)
        }
        Task::CollectivesPeers(against) => {
            compare(workspace, against, bowline_bench::run_collectives)
        }
        Task::Instructions(options) => instructions::run(workspace, &options),
        Task::Verbs(options) => crate::guest::measure::run(workspace, &options),
        Task::Neighbours(options) => neighbours::run(workspace, &options),
        Task::ReceiveMemory(options) => memory::run(workspace, &options),
        Task::Queues(options) => queues::run(workspace, &options),
        Task::Mpin(options) => mpin::run(workspace, &options),
        Task::Collectives(options) => collectives::run(workspace, &options),
        Task::Progress(options) => progress::run(workspace, &options),
    }
}

/// One of the comparisons.
type Comparison = fn(
    &bowline_bench::PeersOptions,
) -> Result<bowline_bench::PeersReport, bowline_bench::BenchError>;

fn compare(workspace: &Workspace, against: Against, comparison: Comparison) -> Result<()> {
    let Against { mut options, json, plot } = against;
    let default = bowline_bench::PeersOptions::default();
    if options.bowline == default.bowline {
        // What is named is measured as it is; what is not, as the source is now.
        build_release(workspace, &["-p", "bowline-cli"])?;
        options.bowline = workspace.metadata.target_directory.join("release/bowline").into();
    }
    if options.prefix.is_none() {
        let prefix = workspace.metadata.target_directory.as_std_path().join("xtask/installed");
        crate::install::install_fast(workspace, &prefix)?;
        options.prefix = Some(prefix);
    }
    let report = comparison(&options).context("cannot compare with the peers")?;
    println!("{}", report.table());
    if let Some(path) = json {
        report.write_json(&path).context("cannot write the report")?;
        println!("written: {}", path.display());
    }
    if let Some(path) = plot {
        report.plot(&path).with_context(|| format!("cannot draw {}", path.display()))?;
        println!("drawn: {}", path.display());
    }
    Ok(())
}

/// Builds in release, showing what cargo shows.
fn build_release(workspace: &Workspace, what: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release"])
        .args(what)
        .current_dir(&workspace.root)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo build --release {}` failed", what.join(" "));
    }
    Ok(())
}
