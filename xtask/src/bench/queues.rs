//! Matching queues and receive queues beside published figures: the program `bench-queues`, and
//! the instructions of a match and the misses of caches, which callgrind counts and simulates.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{instructions, output};
use crate::needs;
use crate::workspace::Workspace;

/// Makes a table that this command counts by itself, from the directory for what it builds, the program that it runs, and the
/// number of ranks of a communicator.
type Counting = fn(&Path, &Path, &str) -> Result<Value>;

/// The names of our own tables.
const TABLE: &str = "instructions";
const MISSES: &str = "cache-misses";

/// The caches of the published machine (an Opteron 6276): what callgrind simulates.
const CACHES: [&str; 4] =
    ["--cache-sim=yes", "--I1=65536,2,64", "--D1=16384,4,64", "--LL=8388608,16,64"];

/// Engines whose misses are counted; all are compared with the first, one list for all communicators.
const CACHED: [&str; 7] = ["list", "lists", "auto", "array", "four_d", "pure-array", "pure-four_d"];

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
    let others: Vec<&str> = options
        .only
        .iter()
        .map(String::as_str)
        .filter(|name| ![TABLE, MISSES].contains(name))
        .collect();
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
    // As published (figures 4.19 to 4.21), where a list of 50 communicators is followed for minutes.
    let ranks = if options.quick { "64" } else { "256" };
    let ours: [(&str, Counting); 2] =
        [(TABLE, |target, program, _| count(target, program)), (MISSES, misses)];
    for (name, make) in ours {
        if options.wants(name) {
            let table = make(target, &program, ranks)?;
            if let Some(path) = &options.json {
                add(path, table)?;
            }
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

/// Simulates and prints the misses of caches of a round of 10 and of 50 communicators.
fn misses(target: &Path, program: &Path, ranks: &str) -> Result<Value> {
    println!(
        "\n{MISSES}: a round of communicators of {ranks} ranks, 5 receives of each posted, last first, by callgrind"
    );
    let missing = needs::missing(needs::OF_INSTRUCTIONS);
    if !missing.is_empty() {
        let why = needs::explain(&missing);
        println!("  not counted: {why}");
        return Ok(json!({ "name": MISSES, "notes": [why] }));
    }
    let heads = ["comms", "engine", "L1d", "less", "L1i", "less", "last level", "less"];
    let line = |cells: &[String; 8]| {
        let [comms, engine, rest @ ..] = cells;
        let rest: Vec<String> = rest.iter().map(|cell| format!("{cell:>11}")).collect();
        println!("  {comms:>5} {engine:<12}{}", rest.join(""));
    };
    line(&heads.map(str::to_owned));
    let mut rows = Vec::new();
    for comms in ["10", "50"] {
        let mut list = None;
        for engine in CACHED {
            let counted = simulated(
                target,
                program,
                &["--count", engine, "--comms", comms, "--ranks", ranks],
            )
            .with_context(|| format!("the misses of {engine} were not seen"))?;
            let list = *list.get_or_insert(counted);
            let mut cells = vec![comms.to_owned(), engine.to_owned()];
            for (ours, list) in counted.into_iter().zip(list) {
                cells.push(ours.to_string());
                let less = (list as f64 - ours as f64) * 100.0 / (list.max(1)) as f64;
                cells.push(format!("{less:.1} %"));
            }
            let cells: [String; 8] = cells.try_into().expect("as many cells as heads");
            line(&cells);
            rows.push(json!(cells));
        }
    }
    let note = format!(
        "list: one for all communicators; lists: one for each; pure: without the list before the index. \
                less: (list - engine) * 100 / list, as in figures 4.19 to 4.21 of the thesis, of which only this is \
                printed in words: L1d and L3 gain more with 50 communicators than with 10, L1i clearly with 50 only. \
                There the whole process was counted, by the processor, and a communicator had 256 ranks, whose \
                job was of as many processes; here it has {ranks}, in one process."
    );
    println!("  - {note}");
    Ok(json!({
        "name": MISSES,
        "title": "misses of caches of a round of communicators",
        "columns": heads,
        "rows": rows,
        "notes": [note],
    }))
}

/// Misses of the data's, the instructions' and the last cache inside `measured_caches`.
fn simulated(target: &Path, program: &Path, arguments: &[&str]) -> Result<[u64; 3]> {
    let directory = target.join("xtask");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let out = directory.join("callgrind.caches");
    let mut file = std::ffi::OsString::from("--callgrind-out-file=");
    file.push(&out);
    let output = Command::new("valgrind")
        .args(instructions::callgrind_options("caches"))
        .args(CACHES)
        .arg(file)
        .arg(program)
        .args(arguments)
        .output()
        .context("cannot start valgrind")?;
    if !output.status.success() {
        bail!("{} failed: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(&out)
        .with_context(|| format!("callgrind left no {}", out.display()))?;
    missed(&text).with_context(|| format!("no misses in {}", out.display()))
}

/// The misses in a file of callgrind.
fn missed(text: &str) -> Option<[u64; 3]> {
    let find = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let totals = find("totals:").or_else(|| find("summary:"))?;
    let totals: Vec<u64> =
        totals.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let events: Vec<&str> = find("events:")?.split_whitespace().collect();
    let sum = |names: &[&str]| {
        let of = |name: &&str| {
            let at = events.iter().position(|event| event == name)?;
            // Zeros at the end are left out.
            Some(totals.get(at).copied().unwrap_or(0))
        };
        names.iter().map(of).sum::<Option<u64>>()
    };
    Some([sum(&["D1mr", "D1mw"])?, sum(&["I1mr"])?, sum(&["ILmr", "DLmr", "DLmw"])?])
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
    tables.retain(|known| known["name"] != table["name"]);
    tables.push(table);
    output::write_json(path, &tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_misses_of_a_callgrind_file() {
        let text = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\ntotals: 9 8 7 1 20 30 4 5\n";
        assert_eq!(missed(text), Some([50, 1, 9]));
        assert_eq!(missed("events: Ir\ntotals: 9\n"), None);
    }
}
