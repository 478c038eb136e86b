//! `steal`: a work-stealing queue on one-sided atomics and gets, beside a static split of the same
//! work.
//!
//! See the README beside this file.

mod shared;
mod tree;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use bowline::Member;
use clap::Parser;
use serde::{Deserialize, Serialize};

use shared::Stacks;
use tree::{Count, Tree};

/// Counts an unbalanced tree by work stealing; start it by `bowline run -n 4 steal`
#[derive(Parser, Debug)]
struct Options {
    /// Children of the root
    #[arg(long, default_value_t = 2000)]
    roots: u64,
    /// How probable children of another node are, in millionths
    #[arg(long, default_value_t = 124_000, value_parser = clap::value_parser!(u64).range(..=124_900))]
    branching: u64,
    /// Work for each node, in rounds of a hash (about a nanosecond each)
    #[arg(long, default_value_t = 500)]
    work: u32,
    /// Which tree
    #[arg(long, default_value_t = 19)]
    seed: u64,
    /// Do not count the tree on one rank as well to compare the result
    #[arg(long)]
    no_check: bool,
    /// The rank with this number kills itself while it works
    #[arg(long)]
    kill: Option<u32>,
    /// Where to write the result as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one rank did in one way of doing it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Part {
    count: Count,
    /// From the common start until this rank had nothing left to do.
    seconds: f64,
    /// Thefts, and tries at others that had nothing.
    thefts: u64,
    misses: u64,
}

/// One way of doing it, over all ranks.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    count: Count,
    /// Until the last rank was done.
    seconds: f64,
    /// Nodes of the rank with most, as a multiple of an equal share.
    imbalance: f64,
    ranks: Vec<Part>,
}

impl Measured {
    fn of(ranks: Vec<Part>) -> Self {
        let mut count = Count::default();
        ranks.iter().for_each(|part| count.add(part.count));
        let most = ranks.iter().map(|part| part.count.nodes).max().unwrap_or(0);
        let share = count.nodes as f64 / ranks.len() as f64;
        let seconds = ranks.iter().map(|part| part.seconds).fold(0.0, f64::max);
        Self { count, seconds, imbalance: most as f64 / share, ranks }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    /// Counted by one rank alone, unless that was not wanted.
    expected: Option<Count>,
    split: Measured,
    stealing: Measured,
}

/// Nodes that a rank works on before it serves the others again.
const BETWEEN: u32 = 32;

/// This rank's share of the root's children.
fn share(member: &Member, tree: &Tree) -> impl Iterator<Item = u64> + use<> {
    let (rank, size) = (u64::from(member.rank()), u64::from(member.size()));
    let first = tree.roots * rank / size;
    tree.roots(first, tree.roots * (rank + 1) / size - first)
}

/// Each rank walks its share and no more.
fn split(member: &Member, tree: &Tree, stacks: &mut Stacks<'_>) -> Result<Part> {
    stacks.meet()?;
    let start = Instant::now();
    let count = tree.walk(share(member, tree));
    let seconds = start.elapsed().as_secs_f64();
    stacks.meet()?;
    Ok(Part { count, seconds, ..Part::default() })
}

/// Each rank starts with its share, offers what it cannot do soon, and steals when it has none.
fn steal(member: &Member, tree: &Tree, stacks: &mut Stacks<'_>, kill: bool) -> Result<Part> {
    let (mut part, mut nodes) = (Part::default(), share(member, tree).collect::<Vec<_>>());
    // Everybody is active before anybody can come to rest.
    stacks.work()?;
    stacks.meet()?;
    let start = Instant::now();
    let (rank, size) = (member.rank(), member.size());
    let mut victim = rank;
    'work: loop {
        let mut since = 0;
        while let Some(node) = nodes.pop() {
            tree.visit(node, &mut part.count, &mut nodes);
            since += 1;
            if since % BETWEEN == 0 {
                stacks.attend()?;
                if nodes.len() > 2 * BETWEEN as usize && stacks.is_low()? {
                    let half = nodes.len() / 2;
                    stacks.share(&mut nodes, half)?;
                }
                if kill && part.count.nodes > tree.roots / 4 {
                    let own = rustix::process::getpid();
                    rustix::process::kill_process(own, rustix::process::Signal::KILL)?;
                }
            }
        }
        if stacks.take_back(&mut nodes)? {
            continue;
        }
        stacks.rest()?;
        part.seconds = start.elapsed().as_secs_f64();
        loop {
            for _ in 1..size {
                victim = (victim + 1) % size;
                victim = if victim == rank { (victim + 1) % size } else { victim };
                if stacks.steal(victim, &mut nodes)? {
                    part.thefts += 1;
                    continue 'work;
                }
                part.misses += 1;
            }
            if stacks.all_rest()? {
                break 'work;
            }
            stacks.attend()?;
            std::thread::yield_now();
        }
    }
    stacks.meet()?;
    Ok(part)
}

/// Every rank's part, by rank.
fn gather(member: &Member, part: &Part) -> Result<Vec<Part>> {
    let parts = member.exchange(&serde_json::to_vec(part)?)?;
    parts.iter().map(|part| Ok(serde_json::from_slice(part)?)).collect()
}

fn main() -> Result<()> {
    let options = Options::parse();
    let Options { roots, branching, work, seed, .. } = options;
    let tree = Tree { roots, branching, work, seed };
    let member = bowline::join().context("cannot join the job")?;
    if let Some(victim) = options.kill {
        ensure!(victim < member.size(), "--kill {victim}: there are {} ranks", member.size());
    }
    let mut stacks = Stacks::open(&member)?;
    let split = split(&member, &tree, &mut stacks).context("the static split")?;
    let kill = options.kill == Some(member.rank());
    let stealing = steal(&member, &tree, &mut stacks, kill).context("work stealing")?;
    let (split, stealing) = (gather(&member, &split)?, gather(&member, &stealing)?);
    if member.rank() != 0 {
        return Ok(());
    }
    let expected = (!options.no_check).then(|| tree.walk(tree.roots(0, tree.roots)));
    let report = Report { expected, split: Measured::of(split), stealing: Measured::of(stealing) };
    match &options.json {
        None => print(&report),
        Some(path) => {
            let text = serde_json::to_string_pretty(&report)? + "\n";
            if path.as_os_str() == "-" {
                print!("{text}");
            } else {
                std::fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
    }
    let expected = report.expected.unwrap_or(report.split.count);
    for (way, count) in [("split", report.split.count), ("stealing", report.stealing.count)] {
        ensure!(count == expected, "{way} counted {count:?}, there are {expected:?}");
    }
    Ok(())
}

fn print(report: &Report) {
    for (name, way) in [("static split", &report.split), ("stealing", &report.stealing)] {
        let Measured { count, seconds, imbalance, ranks } = way;
        println!(
            "{name:<13} {} nodes in {:.1} ms, the busiest rank with {imbalance:.2} of its share",
            count.nodes,
            seconds * 1e3
        );
        for (rank, part) in ranks.iter().enumerate() {
            println!(
                "  rank {rank}: {:>8} nodes, done after {:.1} ms, {} thefts, {} misses",
                part.count.nodes,
                part.seconds * 1e3,
                part.thefts,
                part.misses
            );
        }
    }
    match report.expected {
        Some(_) => println!("as many as one rank counts alone, and the same sum"),
        None => println!("not compared with what one rank counts alone"),
    }
}
