//! Messages between two ranks beside puts, by `bowline perf`: one way, and in windows. Each job reports its protocols, so
//! that figures of announced messages are known to be such.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{Findings, Manner, Options, median, report};
use crate::workspace::Workspace;
use crate::{guest, needs};

/// Payloads; those of table 4.1.
const SIZES: [u64; 6] = [4, 64, 512, 1024, 4096, 8192];

/// Shortest put that a ping-pong of puts has: it is its own signal.
const WORD: u64 = 8;

/// Quotient of the latencies of a message and of a put that is aimed at.
const GOAL: f64 = 1.3;

/// What was published of messages of one length (table 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Published {
    bytes: u64,
    /// One way, in microseconds.
    mpin_us: f64,
    /// The same of LAM over TCP, over the same wire.
    lam_us: f64,
    mpin_mb_per_s: f64,
    lam_mb_per_s: f64,
    /// The bare remote write (in the text).
    put_us: Option<f64>,
}

impl Published {
    const fn new(bytes: u64, times: [f64; 2], rates: [f64; 2], put_us: Option<f64>) -> Self {
        let [mpin_us, lam_us] = times;
        let [mpin_mb_per_s, lam_mb_per_s] = rates;
        Self { bytes, mpin_us, lam_us, mpin_mb_per_s, lam_mb_per_s, put_us }
    }

    fn by_put(self) -> Option<f64> {
        Some(self.mpin_us / self.put_us?)
    }
}

const PUBLISHED: [Published; 6] = [
    Published::new(4, [29.91, 201.66], [0.13, 0.02], Some(13.3)),
    Published::new(64, [32.10, 210.83], [2.00, 0.32], None),
    Published::new(512, [37.36, 233.41], [13.68, 2.31], None),
    Published::new(1024, [43.30, 257.33], [23.71, 4.17], None),
    Published::new(4096, [69.89, 459.50], [58.43, 9.42], Some(53.3)),
    Published::new(8192, [116.58, 649.54], [70.16, 13.96], None),
];

/// Where the workload is not the published one.
const OTHERWISE: &str = "published: two hosts (Pentium Pro, 266 MHz) over Myrinet, in user memory that nobody registers, \
                         one way; here two ranks of one host over each network, in memory that Bowline has allocated, medians, \
                         and a put of at least 8 bytes one way. The published MB/s are of messages of that length one after the \
                         other; here they are of windows, where many are under way.";

/// The same of the guest's devices.
const IN_GUEST: &str =
    " Its devices are the kernel's code on emulated processors, which the ranks share with them.";

/// What joins the ranks.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Shared memory
    Shm,
    /// TCP over the loopback device
    Tcp,
    /// libfabric, by the provider of BOWLINE_OFI_PROVIDER
    Ofi,
    /// RDMA devices of a guest, whose times mean little
    Guest,
}

impl Network {
    const ALL: [Self; 4] = [Self::Shm, Self::Tcp, Self::Ofi, Self::Guest];

    const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Ofi => "ofi",
            Self::Guest => "verbs",
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// None: puts.
    manner: Option<Manner>,
    windows: bool,
}

/// Those of one round.
const RUNS: [Run; 6] = [
    Run { manner: None, windows: false },
    Run { manner: Some(Manner::Eager), windows: false },
    Run { manner: Some(Manner::ReceiverInitiated), windows: false },
    Run { manner: None, windows: true },
    Run { manner: Some(Manner::Eager), windows: true },
    Run { manner: Some(Manner::ReceiverInitiated), windows: true },
];

impl Run {
    const fn test(self) -> &'static str {
        match (self.manner, self.windows) {
            (None, false) => "put_lat",
            (None, true) => "put_bw",
            (Some(_), false) => "tag_posted_lat",
            (Some(_), true) => "tag_posted_bw",
        }
    }

    fn sizes(self) -> [u64; 6] {
        let least = if self.manner.is_none() && !self.windows { WORD } else { 1 };
        SIZES.map(|size| size.max(least))
    }

    fn arguments(self, network: Network, iterations: [u32; 2]) -> Vec<String> {
        let sizes = self.sizes().map(|size| size.to_string()).join(",");
        let iterations = iterations[usize::from(self.windows)].to_string();
        let fixed = ["perf", self.test(), "--transport", network.name(), "--json"];
        let chosen = ["--size", &sizes, "--iterations", &iterations];
        fixed.into_iter().chain(chosen).map(str::to_owned).collect()
    }

    fn settings(self) -> &'static [(&'static str, &'static str)] {
        self.manner.map_or(&[], Manner::settings)
    }
}

/// A figure of `bowline perf`.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Figure {
    size: u64,
    median_ns: f64,
}

/// One size over one network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    network: &'static str,
    /// In windows, where times are those of one message of many; else one way.
    windows: bool,
    bytes: u64,
    /// Of the put, which has at least 8 bytes where it goes one way.
    put_ns: f64,
    eager_ns: f64,
    receiver_initiated_ns: f64,
    /// Quotients of the times, by the put's.
    eager_by_put: f64,
    receiver_initiated_by_put: f64,
    /// MB/s of receiver-initiated messages.
    receiver_initiated_mb_per_s: f64,
    /// Of the messages of the receiver-initiated job, all sizes together, those that were announced: the least of the rounds.
    announced_share: f64,
    published_by_put: Option<f64>,
    /// Times where messages go one way, rates in windows.
    published: Published,
    goal: f64,
}

impl Row {
    /// What is shown of the goal.
    const fn verdict(&self) -> &'static str {
        if !report::is_announced(self.announced_share) {
            "  [not announced]"
        } else if !self.windows && self.receiver_initiated_by_put > self.goal {
            "  [missed]"
        } else {
            ""
        }
    }
}

/// Measures over all networks that are wanted.
pub(super) fn measure(
    workspace: &Workspace,
    options: &Options,
    findings: &mut Findings,
) -> Result<()> {
    let chosen = |network: &Network| match options.networks.is_empty() {
        true => !options.quick || *network != Network::Guest,
        false => options.networks.contains(network),
    };
    let networks: Vec<Network> = Network::ALL.into_iter().filter(chosen).collect();
    let with_ofi = networks.contains(&Network::Ofi) && can_build_ofi();
    let features: &[&str] = if with_ofi { &["--features", "bowline-cli/ofi"] } else { &[] };
    if networks.iter().any(|network| *network != Network::Guest) {
        super::super::build_release(workspace, &[&["-p", "bowline-cli"][..], features].concat())?;
    }
    let command = workspace.metadata.target_directory.as_std_path().join("release/bowline");
    for network in networks {
        let rounds = rounds(network, options.quick);
        let said = match network {
            Network::Guest => in_guest(workspace, rounds),
            _ => here(&command, network, options.quick, rounds),
        };
        let said = match said {
            Ok(said) => said,
            // The ones that every machine has must not fail.
            Err(error) if matches!(network, Network::Ofi | Network::Guest) => {
                let why = format!("{error:#}");
                let last = why.lines().last().unwrap_or_default();
                findings.missing.push(format!("{}: {last}", network.name()));
                continue;
            }
            Err(error) => return Err(error),
        };
        let rows = rows(network, &said).with_context(|| format!("over {}", network.name()))?;
        show(network, &rows);
        println!("{OTHERWISE}{}", if network == Network::Guest { IN_GUEST } else { "" });
        findings.transfers.extend(rows);
    }
    Ok(())
}

/// Whether what libfabric's bindings are made with is installed.
fn can_build_ofi() -> bool {
    let packages = ["libfabric-dev", "pkg-config", "libclang-dev"];
    let needed = needs::OF_TESTS.iter().filter(|need| packages.contains(&need.package));
    needs::missing(&needed.copied().collect::<Vec<_>>()).is_empty()
}

const fn rounds(network: Network, quick: bool) -> usize {
    match (network, quick) {
        (Network::Guest, _) => 3,
        (_, true) => 3,
        (_, false) => 9,
    }
}

/// The runs of one round in its order.
fn ordered(round: usize) -> [Run; 6] {
    let mut runs = RUNS;
    runs.rotate_left(round % RUNS.len());
    runs
}

/// A run, what it has printed, and what its job has reported.
#[derive(Clone, Debug)]
struct Ran {
    run: Run,
    figures: String,
    report: String,
}

/// By round.
type Said = Vec<Vec<Ran>>;

fn here(command: &Path, network: Network, quick: bool, rounds: usize) -> Result<Said> {
    let iterations = if quick { [2000, 60] } else { [8000, 400] };
    let run = |run: Run| -> Result<Ran> {
        let report = tempfile::NamedTempFile::new().context("cannot make a file for a report")?;
        let output = Command::new(command)
            .args(run.arguments(network, iterations))
            .envs(run.settings().iter().copied())
            .env("BOWLINE_REPORT", report.path())
            .output()
            .with_context(|| format!("cannot start {}", command.display()))?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} fails: {}", run.test(), error.trim());
        let figures = String::from_utf8_lossy(&output.stdout).into_owned();
        let report = std::fs::read_to_string(report.path()).context("cannot read a report")?;
        Ok(Ran { run, figures, report })
    };
    (0..rounds).map(|round| ordered(round).into_iter().map(run).collect()).collect()
}

fn in_guest(workspace: &Workspace, rounds: usize) -> Result<Said> {
    let runs: Vec<Run> = (0..rounds).flat_map(ordered).collect();
    let command = |run: &Run| {
        let variables = run.settings().iter().map(|(name, value)| format!("{name}={value}"));
        let variables: Vec<String> = variables.collect();
        (variables.join(" "), run.arguments(Network::Guest, [200, 10]).join(" "))
    };
    let commands: Vec<_> = runs.iter().map(command).collect();
    let said = guest::mpin::figures(workspace, &commands)?;
    let ran = |(run, [figures, report]): (Run, [String; 2])| Ran { run, figures, report };
    let all: Vec<Ran> = runs.into_iter().zip(said).map(ran).collect();
    Ok(all.chunks(RUNS.len()).map(<[_]>::to_vec).collect())
}

/// Times by size of one run.
fn times(run: Run, said: &str) -> Result<Vec<f64>> {
    let figures: Vec<Figure> = serde_json::from_str(said)
        .with_context(|| format!("{} has printed no figures", run.test()))?;
    let sizes = run.sizes();
    if figures.len() != sizes.len() || figures.iter().zip(sizes).any(|(one, size)| one.size != size)
    {
        bail!("{} has printed other sizes than it was asked for", run.test());
    }
    Ok(figures.into_iter().map(|figure| figure.median_ns).collect())
}

/// The least share of announced messages of the rounds, where they are receiver-initiated.
///
/// # Errors
/// When eager messages were announced, or a report is damaged.
fn announced_share(said: &Said, windows: bool) -> Result<f64> {
    let mut least = 1.0;
    for Ran { run, report, .. } in said.iter().flatten().filter(|ran| ran.run.windows == windows) {
        let of = |manner: &str| format!("{} of {manner} messages", run.test());
        match run.manner {
            None => {}
            Some(Manner::Eager) => report::Sent::of(report)
                .and_then(report::check_eager)
                .with_context(|| of("eager"))?,
            Some(Manner::ReceiverInitiated | Manner::Flags) => {
                let sent = report::Sent::of(report).with_context(|| of("receiver-initiated"))?;
                least = f64::min(least, sent.announced_share());
            }
        }
    }
    Ok(least)
}

fn rows(network: Network, said: &Said) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for windows in [false, true] {
        let announced_share = announced_share(said, windows)?;
        // By round: times of puts, eager and receiver-initiated messages, by size.
        let mut rounds = Vec::new();
        for round in said {
            let of = |manner: Option<Manner>| {
                let wanted = Run { manner, windows };
                let found = round.iter().find(|ran| ran.run == wanted);
                let ran = found.context("a round lacks a run")?;
                times(ran.run, &ran.figures)
            };
            let manners = [None, Some(Manner::Eager), Some(Manner::ReceiverInitiated)];
            rounds.push([of(manners[0])?, of(manners[1])?, of(manners[2])?]);
        }
        for (at, bytes) in SIZES.into_iter().enumerate() {
            let time = |which: usize| median(rounds.iter().map(|r| r[which][at]).collect());
            let by_put = |which: usize| {
                median(rounds.iter().map(|round| round[which][at] / round[0][at]).collect())
            };
            let published = PUBLISHED[at];
            rows.push(Row {
                network: network.name(),
                windows,
                bytes,
                put_ns: time(0),
                eager_ns: time(1),
                receiver_initiated_ns: time(2),
                eager_by_put: by_put(1),
                receiver_initiated_by_put: by_put(2),
                receiver_initiated_mb_per_s: bytes as f64 * 1e3 / time(2),
                announced_share,
                published_by_put: published.by_put().filter(|_| !windows),
                published,
                goal: GOAL,
            });
        }
    }
    Ok(rows)
}

fn show(network: Network, rows: &[Row]) {
    for windows in [false, true] {
        let what = if windows { "in windows" } else { "one way" };
        let more = if windows { ", one message of many" } else { "" };
        println!("messages beside puts over {}, {what}{more}", network.name());
        let unit = if windows { "MB/s" } else { "us" };
        println!(
            "{:>6} {:>10} {:>10} {:>10} {:>8} {:>8} {:>11} {:>10} {:>12} {:>12}",
            "bytes",
            "put ns",
            "eager",
            "rtr",
            "eager/p",
            "rtr/p",
            "publ. rtr/p",
            "rtr MB/s",
            format!("MPIN {unit}"),
            format!("LAM {unit}"),
        );
        let rows = || rows.iter().filter(|row| row.windows == windows);
        for row in rows() {
            let by_put = row.published_by_put.map_or(String::from("-"), |by| format!("{by:.2}"));
            let Published { mpin_us, lam_us, mpin_mb_per_s, lam_mb_per_s, .. } = row.published;
            let (mpin, lam) =
                if windows { (mpin_mb_per_s, lam_mb_per_s) } else { (mpin_us, lam_us) };
            println!(
                "{:>6} {:>10.0} {:>10.0} {:>10.0} {:>8.2} {:>8.2} {by_put:>11} {:>10.1} {mpin:>12.2} {lam:>12.2}{}",
                row.bytes,
                row.put_ns,
                row.eager_ns,
                row.receiver_initiated_ns,
                row.eager_by_put,
                row.receiver_initiated_by_put,
                row.receiver_initiated_mb_per_s,
                row.verdict()
            );
        }
        if let Some(row) = rows().next() {
            print!("{}", report::lines(row.announced_share, what));
        }
    }
}
