//! What a user starts first, started: the README's first command on its own data, the yardstick
//! programs of the bench, the instruction counts. Whether figures are good is not asked here.
//!
//! The comparison with other libraries (`cargo xtask bench peers`) is not part of it: it installs
//! the peers over the network, and a machine without them would only report that they are missing.

use anyhow::{Context, Result, bail};

use super::command::Run;
use super::{Climb, Outcome, Step, slow, step};
use crate::{bench, needs};

pub(super) const STEPS: &[Step] = &[
    step("release", release),
    step("first-command", first_command),
    step("yardsticks", yardsticks),
    slow("instructions", instructions),
];

fn release(&Climb { workspace, .. }: &Climb<'_>) -> Result<Outcome> {
    let arguments = ["build", "--release"];
    Run::cargo(workspace, "release", &arguments).run()?;
    Ok(Outcome::Passed(String::new()))
}

/// The command that opens the README, and whether its result is the input in order.
fn first_command(&Climb { workspace, .. }: &Climb<'_>) -> Result<Outcome> {
    const INPUT: &str = "examples/data/words.txt";
    let directory = workspace.metadata.target_directory.join("xtask");
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {directory}"))?;
    let output = directory.join("sorted.txt");
    if output.exists() {
        std::fs::remove_file(&output).context("cannot remove the last result")?;
    }
    let arguments =
        ["run", "--release", "--", "demo", "sort", INPUT, "-n", "4", "--output", output.as_str()];
    Run::cargo(workspace, "first-command", &arguments).run()?;
    let input = workspace.root.join(INPUT);
    let given = std::fs::read(&input).with_context(|| format!("cannot read {INPUT}"))?;
    let sorted = std::fs::read(&output).with_context(|| format!("cannot read {output}"))?;
    let mut wanted: Vec<&[u8]> = lines(&given);
    wanted.sort_unstable();
    if lines(&sorted) != wanted {
        bail!("{output} does not hold the lines of {INPUT} in order");
    }
    Ok(Outcome::Passed(format!("{} lines sorted", wanted.len())))
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty()).collect()
}

/// Bowline's own benchmark and the yardsticks beside it; no figure is judged.
fn yardsticks(&Climb { workspace, .. }: &Climb<'_>) -> Result<Outcome> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        return Ok(Outcome::Skipped("it measures between two processors, here is one".into()));
    }
    let target = workspace.metadata.target_directory.as_std_path();
    let options = bowline_bench::PeersOptions {
        quick: true,
        // Nothing with more ranks than processors: on a busy machine that meets a time limit.
        only: ["raw_lat", "tag_lat-8", "mpi_lat-8"].map(String::from).to_vec(),
        peers: ["bowline", "raw-", "bare-"].map(String::from).to_vec(),
        bowline: target.join("release/bowline"),
        no_install: true,
        quiet: true,
        ..Default::default()
    };
    let report = bowline_bench::run(&options).context("the bench did not run")?;
    if let Some(missing) = report.missing.first() {
        bail!("no figures of {}: {}", missing.source, missing.reason);
    }
    Ok(Outcome::Passed(format!("{} figures taken", report.rows.len())))
}

fn instructions(&Climb { workspace, .. }: &Climb<'_>) -> Result<Outcome> {
    let missing = needs::missing(needs::OF_INSTRUCTIONS);
    if !missing.is_empty() {
        return Ok(Outcome::Skipped(needs::explain(&missing)));
    }
    bench::instructions::run(workspace, &bench::instructions::Options::default())?;
    Ok(Outcome::Passed(String::new()))
}
