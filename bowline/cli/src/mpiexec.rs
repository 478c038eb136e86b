//! `mpiexec` and `mpirun`: the launcher under the names and with the options that people who have
//! MPI programs type. It is this command, called by one of these names.
//!
//! ```text
//!   mpiexec [options] program [arguments] [: [options] program [arguments]]...
//! ```
//!
//! [`table`] has the options of MPICH, Open MPI and Intel MPI that are known, [`parse`] reads a command line.
//! An option that is known and changes nothing here is reported on the standard error stream; one that
//! is unknown is an error, so that none is lost in silence.

mod parse;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use bowline_base::config::Config;
use bowline_launch::run::{Host, JobPart, OnFailure, RunOptions};

use parse::{Asked, Job, Program, parse, seconds};

/// Exit code for a command line that is wrong.
const USAGE: u8 = 2;

/// Whether this process was called as `mpiexec` or `mpirun`, and the rest of its command line.
pub(crate) fn called() -> Option<(String, Vec<OsString>)> {
    let mut words = std::env::args_os();
    let name = words.next()?;
    let name = Path::new(&name).file_name()?.to_str()?;
    let name = name.strip_suffix(".bowline").unwrap_or(name);
    ["mpiexec", "mpirun"].contains(&name).then(|| (name.to_owned(), words.collect()))
}

/// Runs the job of a command line.
///
/// # Errors
/// When a setting is bad. What is wrong with the command line is reported here.
pub(crate) fn main(name: &str, words: Vec<OsString>) -> Result<ExitCode> {
    let job = match parse(words) {
        Ok(Asked::Help) => {
            crate::output::print(&help(name))?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(Asked::Version) => {
            crate::output::print(&format!("{name} (Bowline) {}", env!("CARGO_PKG_VERSION")))?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(Asked::Job(job)) => job,
        Err(error) => return Ok(wrong(name, &error)),
    };
    for word in &job.words {
        crate::say(name, word);
    }
    let config = bowline::config_from_env()?;
    match options(*job, &config) {
        Ok(options) => {
            bowline::stack::check_job(&config, options.hosts.is_empty())?;
            Ok(crate::run::launch(name, &options))
        }
        Err(error) => Ok(wrong(name, &error)),
    }
}

fn wrong(name: &str, error: &anyhow::Error) -> ExitCode {
    crate::say(name, crate::Chain(&**error));
    ExitCode::from(USAGE)
}

fn help(name: &str) -> String {
    format!(
        "Start an MPI program, or several as one job, and stay until all ranks have ended.\n\n\
         Usage: {name} [options] program [arguments] [: [options] program [arguments]]...\n\n\
         Options, with one dash or two:\n{}\n\
         The environment goes along. Other options of MPICH, Open MPI and Intel MPI are known and\n\
         named on the standard error stream when they are not followed. `bowline run --help` has the\n\
         launcher's own command line, `bowline info --config` the settings.\n",
        table::help()
    )
}

/// The job for the launcher.
fn options(job: Job, config: &Config) -> Result<RunOptions> {
    let hosts = hosts(&job)?;
    let mut parts = Vec::with_capacity(job.programs.len());
    for program in job.programs {
        let Program { ranks, words, env, directory, .. } = program;
        let mut words = words.into_iter();
        let mut part =
            JobPart::new(ranks.unwrap_or(1), words.next().context("a program is missing")?);
        part.args = words.collect();
        // The later of two wins, and that of one program over that of all.
        part.env = library_path().into_iter().chain(job.env.iter().cloned()).chain(env).collect();
        part.directory = directory.or_else(|| job.directory.clone());
        parts.push(part);
    }
    let mut options = RunOptions::of_parts(parts);
    options.area_bytes = bowline::stack::area_bytes(config);
    options.label = job.label;
    if job.recover {
        options.on_failure = OnFailure::Continue;
    }
    options.bind = job.bind;
    options.timeout = match (job.timeout, std::env::var("MPIEXEC_TIMEOUT")) {
        (Some(limit), _) => Some(limit),
        (None, Ok(text)) => Some(seconds("MPIEXEC_TIMEOUT", &text)?),
        (None, Err(_)) => None,
    };
    options.hosts = hosts;
    if let Some(command) = job.agent_command {
        options.agent_command = command;
    }
    options.agent_program = job.agent_program;
    Ok(options)
}

/// Has programs find the C library that is installed with this command, behind what `LD_LIBRARY_PATH` names
/// already: those that were linked without a run path, or against another library of the same ABI.
fn library_path() -> Option<(OsString, OsString)> {
    const NAME: &str = "LD_LIBRARY_PATH";
    // The links of the other names are followed.
    let command = std::env::current_exe().ok()?.canonicalize().ok()?;
    let own = command.parent()?.parent()?.join("lib");
    if !own.join("libmpi_abi.so.1").exists() {
        return None;
    }
    // An empty list is a list with the working directory.
    let before = std::env::var_os(NAME).filter(|paths| !paths.is_empty());
    let paths = before.iter().flat_map(std::env::split_paths).chain([own]);
    Some((NAME.into(), std::env::join_paths(paths).ok()?))
}

/// Where the ranks go; empty where that is this machine.
fn hosts(job: &Job) -> Result<Vec<Host>> {
    let ranks: u64 = job.programs.iter().map(|program| u64::from(program.ranks.unwrap_or(1))).sum();
    let named: Vec<&Program> = job.programs.iter().filter(|p| p.hosts.is_some()).collect();
    let mut hosts: Vec<Host> = match named[..] {
        [] => return Ok(Vec::new()),
        // One list is for all programs.
        [program] => program.hosts.clone().unwrap_or_default(),
        _ => {
            ensure!(
                named.len() == job.programs.len(),
                "give hosts once, for all programs, or to each program"
            );
            in_order(&named)?
        }
    };
    if let Some(per_host) = job.per_host {
        hosts.iter_mut().for_each(|host| host.slots = Some(per_host));
    }
    if let [host] = &hosts[..]
        && is_here(&host.name)
        && job.agent_command.is_none()
    {
        return Ok(Vec::new());
    }
    let slots: u64 = hosts.iter().map(|host| u64::from(host.slots.unwrap_or(1))).sum();
    if job.oversubscribe && slots < ranks && hosts.iter().any(|host| host.slots.is_some()) {
        // The launcher refuses more ranks than it can count.
        let times = u32::try_from(ranks.div_ceil(slots)).unwrap_or(u32::MAX);
        for host in &mut hosts {
            host.slots = Some(host.slots.unwrap_or(1).saturating_mul(times));
        }
    }
    Ok(hosts)
}

/// The hosts of programs that have some each: every program's ranks go to its own, in blocks.
fn in_order(programs: &[&Program]) -> Result<Vec<Host>> {
    let mut all: Vec<Host> = Vec::new();
    for program in programs {
        let mut left = program.ranks.unwrap_or(1);
        let own = program.hosts.as_deref().unwrap_or_default();
        for (host, more) in own.iter().zip((0..own.len() as u32).rev()) {
            let even = left.div_ceil(more + 1);
            let here = host.slots.unwrap_or(even).min(left);
            left -= here;
            match all.last_mut() {
                Some(last) if last.name == host.name => {
                    last.slots = Some(last.slots.unwrap_or(0).saturating_add(here));
                }
                _ if here == 0 => {}
                _ => {
                    let mut host = host.clone();
                    host.slots = Some(here);
                    all.push(host);
                }
            }
        }
        ensure!(left == 0, "a program has more ranks than its hosts have slots");
    }
    Ok(all)
}

/// Whether a host is this machine by a name that everybody knows, or by its own.
fn is_here(name: &str) -> bool {
    let own = rustix::system::uname();
    ["localhost", "127.0.0.1", "::1"].contains(&name) || own.nodename().to_str() == Ok(name)
}
