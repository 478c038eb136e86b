//! `cargo xtask`: what people and CI do with this workspace, as one program.
//!
//! It is no part of what is shipped. Every task runs the ordinary tools (cargo, valgrind) and
//! says what it ran; none installs anything.

mod abi;
mod bench;
mod guest;
mod install;
mod ladder;
mod needs;
mod netns;
mod programs;
mod published;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use workspace::Workspace;

/// Tasks of the Bowline workspace.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// Check the rules of the repository that no compiler knows
    Tidy,
    /// Run every test: formatting, lints, tidy, tests, loom models, docs, fuzz corpora
    Test(ladder::Options),
    /// Start what a user starts first and check that it works
    Smoke(ladder::Options),
    /// What CI runs: test, then smoke
    Ci(ladder::Options),
    /// Run tests in a virtual machine with RDMA devices
    Guest(guest::Options),
    /// Run jobs on several hosts, which are network namespaces
    Netns(netns::Options),
    /// Build and test programs that others have published against the C library
    Published(published::Options),
    /// Build launcher, C library and compiler wrappers and install them
    Install(install::Options),
    /// Write what the C library has from its tables
    Abi(abi::Options),
    /// Take figures
    #[command(subcommand)]
    Bench(Box<bench::Task>),
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    if let Task::Netns(options) = &arguments.task
        && let Some(played) = netns::play(options)
    {
        return played;
    }
    let workspace = Workspace::find()?;
    match arguments.task {
        Task::Tidy => tidy::run(&workspace),
        Task::Test(options) => ladder::test(&workspace, &options),
        Task::Smoke(options) => ladder::smoke(&workspace, &options),
        Task::Ci(options) => {
            ladder::test(&workspace, &options)?;
            ladder::smoke(&workspace, &options)
        }
        Task::Guest(options) => guest::run(&workspace, &options),
        Task::Netns(options) => netns::run(&workspace, &options),
        Task::Published(options) => published::run(&workspace, &options),
        Task::Install(options) => install::run(&workspace, &options),
        Task::Abi(options) => abi::run(&workspace, &options),
        Task::Bench(task) => bench::run(&workspace, *task),
    }
}
