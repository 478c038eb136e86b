//! How `perf` and `demo` get their ranks: as processes, by starting this program again under the
//! launcher with `--as-rank` in front of the same arguments, or as threads.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use bowline::mpi::{Min, World};
use bowline_base::config::Config;
use bowline_launch::run::{RunOptions, run};

use super::run::exit_code;

/// Why a rank ends before its work is done.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It failed and reports it.
    Here(anyhow::Error),
    /// Another rank failed and reports it.
    Elsewhere,
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Here(error.into())
    }
}

/// What a rank's work ends with.
pub(crate) type RankResult<T = ()> = Result<T, Stop>;

/// The options of the launcher for `ranks` times this program with its own arguments.
///
/// # Errors
/// When the program's own file cannot be found.
pub(crate) fn again(ranks: u32, config: &Config) -> anyhow::Result<RunOptions> {
    bowline::stack::check(config)?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut options = RunOptions::new(ranks, program);
    let own = std::env::args_os().skip(1);
    options.args = std::iter::once(OsString::from("--as-rank")).chain(own).collect();
    options.area_bytes = bowline::stack::area_bytes(config);
    Ok(options)
}

/// Runs this program again as a job of processes.
///
/// # Errors
/// When the job cannot start; failures of ranks are in the exit code.
pub(crate) fn processes(ranks: u32, config: &Config) -> anyhow::Result<ExitCode> {
    Ok(exit_code(run(&again(ranks, config)?)?.code))
}

/// What a process does that was started by [`processes`].
///
/// # Errors
/// When the rank cannot join the job, or failed.
pub(crate) fn as_rank(
    config: &Config,
    rank_main: impl FnOnce(&World) -> RankResult,
) -> anyhow::Result<ExitCode> {
    let world = bowline::init_with(config)?;
    // The world ends before the process, whatever the result.
    let result = rank_main(&world);
    drop(world);
    report(result)
}

/// Runs ranks as threads of this process.
///
/// # Errors
/// When a rank cannot start, or failed.
pub(crate) fn threads(
    ranks: u32,
    config: &Config,
    rank_main: impl Fn(&World) -> RankResult + Sync,
) -> anyhow::Result<ExitCode> {
    let results = bowline::threads_with(ranks as usize, config, |world| rank_main(&world))?;
    results.into_iter().try_fold(ExitCode::SUCCESS, |code, result| report(result).map(|_| code))
}

fn report(result: RankResult) -> anyhow::Result<ExitCode> {
    match result {
        // The rank that failed has the exit code that counts.
        Ok(()) | Err(Stop::Elsewhere) => Ok(ExitCode::SUCCESS),
        Err(Stop::Here(error)) => Err(error),
    }
}

/// Makes the failure of any rank one of all ranks, so that none waits for one that has given up.
/// Collective. Only the lowest rank that failed reports.
///
/// # Errors
/// When a rank came with one.
pub(crate) fn together<T>(world: &World, mine: anyhow::Result<T>) -> RankResult<T> {
    let own = if mine.is_err() { world.rank() } else { world.size() };
    let mut first = [0];
    world.allreduce(&[own], &mut first, Min)?;
    match mine {
        Ok(value) if first[0] == world.size() => Ok(value),
        Err(error) if first[0] == world.rank() => Err(Stop::Here(error)),
        _ => Err(Stop::Elsewhere),
    }
}
