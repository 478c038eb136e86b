//! Matching queues and receive queues beside published figures: the program `bench-queues`, and
//! the instructions of a match, which callgrind counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{instructions, output};
use crate::needs;
use crate::workspace::Workspace;

/// The name of our own table.
const TABLE: &str = "instructions";

/// Engines whose matches are counted; the first two are compared with. A pure one has no list
/// before its index, as the published ones have none.
const ENGINES: [&str; 11] = [
    "list",
    "bare-list",
    "auto",
    "array",
    "four_d",
    "hashed",
    "nd",
    "pure-array",
    "pure-four_d",
    "pure-hashed",
    "pure-nd",
];

/// More instructions than the list's that a match with an empty queue may take.
const MORE: u64 = 40;

/// Matches of the shorter run.
const MATCHES: u64 = 2000;

/// Posted receives of a long queue, as many as the communicator has ranks, and how often it is filled
/// and emptied in the shorter run.
const QUEUED: u64 = 512;
const ROUNDS: u64 = 4;

/// What to measure and where to put it.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Fewer rounds and smaller jobs: some two minutes in all
    #[arg(long)]
    quick: bool,
    /// Only these tables; `--only help` lists them
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
}

impl Options {
    fn wants(&self, table: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == table)
    }
}

/// Runs the program and counts.
///
/// # Errors
/// When the program fails, which it also does when counts or bytes are not as published.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    super::build_release(workspace, &["-p", "bowline-bench-queues"])?;
    let target = workspace.metadata.target_directory.as_std_path();
    let program = target.join("release/bench-queues");
    let mut command = Command::new(&program);
    if options.wants("help") && !options.only.is_empty() {
        command.arg("--help");
        return wait(command, &program);
    }
    if options.quick {
        command.arg("--quick");
    }
    let others: Vec<&str> =
        options.only.iter().map(String::as_str).filter(|name| *name != TABLE).collect();
    if !others.is_empty() {
        command.arg("--only").arg(others.join(","));
    }
    if let Some(rounds) = options.rounds {
        command.args(["--rounds", &rounds.to_string()]);
    }
    for (name, path) in [("--json", &options.json), ("--plot", &options.plot)] {
        if let Some(path) = path {
            command.arg(name).arg(path);
        }
    }
    if options.only.is_empty() || !others.is_empty() {
        wait(command, &program)?;
    }
    if options.wants(TABLE) {
        let table = count(target, &program)?;
        if let Some(path) = &options.json {
            add(path, table)?;
        }
    }
    Ok(())
}

fn wait(mut command: Command, program: &Path) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("{} failed: {status}", program.display());
    }
    Ok(())
}

/// Counts and prints the instructions of a match with an empty queue, and with a long one.
fn count(target: &Path, program: &Path) -> Result<Value> {
    println!("\n{TABLE}: one match (post and arrive), by callgrind");
    let missing = needs::missing(needs::OF_INSTRUCTIONS);
    if !missing.is_empty() {
        let why = needs::explain(&missing);
        println!("  not counted: {why}");
        return Ok(json!({ "name": TABLE, "notes": [why] }));
    }
    let heads = ["engine", "empty queue", "more than list", "512 posted, last first"];
    println!("  {:<11} {:>12} {:>14} {:>23}", heads[0], heads[1], heads[2], heads[3]);
    let mut rows: Vec<(&str, u64, u64)> = Vec::new();
    for engine in ENGINES {
        let counted = |matches: u64, queued: u64| {
            let collected = |matches: u64| {
                let (matches, queued) = (matches.to_string(), queued.to_string());
                let arguments = ["--count", engine, "--matches", &matches, "--queued", &queued];
                instructions::callgrind(target, "match", program, &arguments)
            };
            instructions::difference(collected(matches)?, collected(2 * matches)?, matches)
                .with_context(|| format!("the matches of {engine} were not seen"))
        };
        let (empty, long) = (counted(MATCHES, 0)?, counted(ROUNDS * QUEUED, QUEUED)?);
        rows.push((engine, empty, long));
        let more = empty as i64 - rows[0].1 as i64;
        println!("  {engine:<11} {empty:>12} {more:>+14} {long:>23}");
    }
    println!(
        "  - list: as a communicator has it that asks for lists; bare-list: without what can grow \
         around it. All engines of a communicator are lists while searches are short; pure: their \
         indexes from the first entry on, as published."
    );
    let least = rows[0].1;
    let goals: Vec<Value> = rows
        .iter()
        .filter(|(engine, ..)| !engine.starts_with("pure-") && !engine.ends_with("list"))
        .map(|(engine, counted, _)| {
            let met = *counted <= least + MORE;
            let mark = if met { "[met]   " } else { "[missed]" };
            let more = *counted as i64 - least as i64;
            let what = format!("{engine} at most {MORE} instructions more than list");
            println!("  {mark} {what}: {more:+}");
            json!({ "what": what, "measured": more.to_string(), "met": met, "exact": false })
        })
        .collect();
    let rows: Vec<Value> = rows
        .iter()
        .map(|(engine, empty, long)| json!([engine, empty, *empty as i64 - least as i64, long]))
        .collect();
    Ok(json!({
        "name": TABLE,
        "title": "instructions of one match (post and arrive)",
        "columns": heads,
        "rows": rows,
        "goals": goals,
    }))
}

/// Adds a table to those that the program wrote, if it ran.
fn add(path: &Path, table: Value) -> Result<()> {
    let mut tables: Vec<Value> = match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} holds other things than tables", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    tables.retain(|known| known["name"] != TABLE);
    tables.push(table);
    output::write_json(path, &tables)
}
