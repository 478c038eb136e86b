//! Receives from any source, and a master with its workers: `mpin.c` over Bowline's C library in each manner
//! and as it comes, and over MPICH where that is installed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use super::report::{Sent, check_eager};
use super::{Findings, Manner, median};
use crate::install;
use crate::workspace::Workspace;

/// Milliseconds of one job, beside its start.
const MILLIS: &str = "150";

/// Seconds after which a job is ended.
const LIMIT: &str = "60";

/// Most senders to a receive from any source, as published (figure 4.4).
const SENDERS: u32 = 4;

/// An MPI and its settings.
#[derive(Debug)]
struct Contestant {
    name: &'static str,
    launcher: PathBuf,
    program: PathBuf,
    settings: &'static [(&'static str, &'static str)],
    /// By which its messages are asked to travel; none: as they come.
    manner: Option<Manner>,
}

/// What a job has said.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    /// Of a message or item.
    ns: f64,
    /// Of its messages, those that were written to announced or lent receives; none where nobody was asked.
    announced_share: Option<f64>,
}

/// The program, compiled for each.
pub(super) struct Programs {
    contestants: Vec<Contestant>,
    /// The processors of the ranks.
    processors: String,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    program: &'static str,
    /// How its receives are posted.
    receives: &'static str,
    ranks: u32,
    /// Bytes of a message; none: 10 to 16 KB.
    bytes: Option<u32>,
    mpi: &'static str,
    /// A message or item, median over the rounds.
    median_ns: f64,
    /// How much less than Bowline's eager messages in the same round, percent.
    less_than_eager_percent: f64,
    /// The least share of the rounds of messages that were written to announced or lent receives.
    announced_share: Option<f64>,
}

/// A job: the program's arguments, and what they are.
struct Job {
    program: &'static str,
    receives: &'static str,
    ranks: u32,
    bytes: Option<u32>,
}

impl Job {
    fn arguments(&self) -> [String; 3] {
        let second = self.bytes.map_or(self.receives.to_owned(), |bytes| bytes.to_string());
        [self.program.to_owned(), second, MILLIS.to_owned()]
    }
}

impl Programs {
    /// Installs Bowline below the target directory and compiles.
    pub(super) fn build(workspace: &Workspace, missing: &mut Vec<String>) -> Result<Self> {
        let target = workspace.metadata.target_directory.as_std_path();
        let prefix = target.join("xtask/installed");
        install::install_fast(workspace, &prefix)?;
        let directory = target.join("xtask/mpin");
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let source = workspace.root.join("xtask/src/bench/mpin/mpin.c");
        let ours = directory.join("mpin-bowline");
        compile(&prefix.join("bin/mpicc"), &source, &ours)?;
        let launcher = prefix.join("bin/mpiexec");
        let bowline = |name, manner: Option<Manner>| Contestant {
            name,
            launcher: launcher.clone(),
            program: ours.clone(),
            settings: manner.map_or(&[], Manner::settings),
            manner,
        };
        let mut contestants = vec![
            bowline("bowline eager", Some(Manner::Eager)),
            bowline("bowline rtr", Some(Manner::ReceiverInitiated)),
            bowline("bowline flags", Some(Manner::Flags)),
            bowline("bowline", None),
        ];
        let theirs = directory.join("mpin-mpich");
        match compile(Path::new("mpicc.mpich"), &source, &theirs) {
            Ok(()) => contestants.push(Contestant {
                name: "mpich",
                launcher: "mpiexec.mpich".into(),
                program: theirs,
                settings: &[],
                manner: None,
            }),
            Err(error) => missing.push(format!("mpich: {error:#}")),
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(2);
        let processors: Vec<String> = (0..processors).map(|cpu| cpu.to_string()).collect();
        Ok(Self { contestants, processors: processors.join(",") })
    }

    /// Receives from any source.
    pub(super) fn any(&self, quick: bool, rounds: usize, findings: &mut Findings) {
        let sizes: &[u32] = if quick { &[4, 8192] } else { &[4, 1024, 8192] };
        println!(
            "receives from any source: ns for a message; published (figure 4.4): as LAM over TCP"
        );
        println!(
            "published: a host for each rank, over Myrinet; here all are processes on {}, through shared memory",
            self.places()
        );
        for senders in 1..=SENDERS {
            for &bytes in sizes {
                let (ranks, bytes) = (senders + 1, Some(bytes));
                let job = Job { program: "any", receives: "any", ranks, bytes };
                self.show(&job, rounds, findings);
            }
        }
    }

    /// A master and its workers.
    pub(super) fn master(&self, quick: bool, rounds: usize, findings: &mut Findings) {
        let ranks: &[u32] = if quick { &[2, 3] } else { &[2, 3, 5] };
        println!(
            "master and workers: ns for an item; published (figure 4.5): 54 % less than LAM over TCP"
        );
        println!(
            "published: a program that simplifies meshes, a host for each rank; here a worker takes a few steps for each word, and all are \
             processes on {}; compared with eager messages of Bowline's and with MPICH, since no MPI over TCP is on this path",
            self.places()
        );
        for &ranks in ranks {
            for receives in ["any", "each"] {
                let job = Job { program: "master", receives, ranks, bytes: None };
                self.show(&job, rounds, findings);
            }
        }
    }

    fn places(&self) -> String {
        format!("processors {} of one host", self.processors)
    }

    fn show(&self, job: &Job, rounds: usize, findings: &mut Findings) {
        let rows = self.measure(job, rounds, &mut findings.missing);
        for row in &rows {
            let bytes = row.bytes.map_or(String::from("10-16 KB"), |bytes| format!("{bytes} B"));
            let announced = row.announced_share.map_or(String::new(), |share| {
                format!("  announced {:.0} %", (share * 100.0).floor())
            });
            println!(
                "{:<7} {:>2} ranks {bytes:>9} {:<5} {:<14} {:>12.0} {:>+8.1} %{announced}",
                row.program,
                row.ranks,
                row.receives,
                row.mpi,
                row.median_ns,
                -row.less_than_eager_percent
            );
        }
        findings.programs.extend(rows);
    }

    /// A job of each in every round. One that fails is left out from there on.
    fn measure(&self, job: &Job, rounds: usize, missing: &mut Vec<String>) -> Vec<Row> {
        let mut found: Vec<Option<Vec<Said>>> = vec![Some(Vec::new()); self.contestants.len()];
        for round in 0..rounds {
            for offset in 0..self.contestants.len() {
                let at = (round + offset) % self.contestants.len();
                let Some(said) = &mut found[at] else { continue };
                match self.run(&self.contestants[at], job) {
                    Ok(one) => said.push(one),
                    Err(error) => {
                        let (name, ranks) = (self.contestants[at].name, job.ranks);
                        missing
                            .push(format!("{name}, {} of {ranks} ranks: {error:#}", job.program));
                        found[at] = None;
                    }
                }
            }
        }
        let names = self.contestants.iter().map(|contestant| contestant.name);
        rows(job, names, &found)
    }

    /// What a job prints, ns, and reports of its messages.
    fn run(&self, contestant: &Contestant, job: &Job) -> Result<Said> {
        let report = tempfile::NamedTempFile::new().context("cannot make a file for a report")?;
        let output = Command::new("timeout")
            .args(["--kill-after=5", LIMIT])
            .arg(&contestant.launcher)
            .args(["-n", &job.ranks.to_string()])
            .arg(&contestant.program)
            .args(job.arguments())
            .env("BENCH_CPUS", &self.processors)
            .env("BOWLINE_REPORT", report.path())
            .envs(contestant.settings.iter().copied())
            .output()
            .context("cannot start timeout (Debian: coreutils)")?;
        let (said, error) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let last = error.trim().lines().last().unwrap_or_default();
        ensure!(output.status.success(), "{}: {last}", output.status);
        let ns = said.trim().parse().with_context(|| format!("it printed {:?}", said.trim()))?;
        let Some(manner) = contestant.manner else { return Ok(Said { ns, announced_share: None }) };
        let report = std::fs::read_to_string(report.path()).context("cannot read a report")?;
        let sent = Sent::of_job(&report, job.ranks)?;
        if manner == Manner::Eager {
            check_eager(sent)?;
        }
        Ok(Said { ns, announced_share: Some(sent.announced_share()) })
    }
}

/// The rows of a job by what each contestant took, the first of which is what the others are compared with.
fn rows(
    job: &Job,
    names: impl Iterator<Item = &'static str>,
    found: &[Option<Vec<Said>>],
) -> Vec<Row> {
    let first = found.first().and_then(Option::as_ref);
    let row = |(mpi, said): (&'static str, &Option<Vec<Said>>)| {
        let said = said.as_ref().filter(|said| !said.is_empty())?;
        let pairs = first.into_iter().flatten().zip(said);
        let less = pairs.map(|(eager, ours)| (1.0 - ours.ns / eager.ns) * 100.0).collect();
        let shares: Option<Vec<f64>> = said.iter().map(|said| said.announced_share).collect();
        Some(Row {
            program: job.program,
            receives: job.receives,
            ranks: job.ranks,
            bytes: job.bytes,
            mpi,
            median_ns: median(said.iter().map(|said| said.ns).collect()),
            less_than_eager_percent: median(less),
            announced_share: shares.and_then(|shares| shares.into_iter().reduce(f64::min)),
        })
    };
    names.zip(found).filter_map(row).collect()
}

fn compile(mpicc: &Path, source: &Path, program: &Path) -> Result<()> {
    let output = Command::new(mpicc)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra"])
        .arg(source)
        .arg("-o")
        .arg(program)
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{} is not installed (Debian: libmpich-dev)", mpicc.display())
        }
        other => other.with_context(|| format!("cannot start {}", mpicc.display()))?,
    };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} fails:\n{said}", mpicc.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_has_no_row_and_the_rest_is_compared_with_the_first() {
        let job = Job { program: "master", receives: "any", ranks: 3, bytes: None };
        assert_eq!(job.arguments()[..2], ["master".to_owned(), "any".to_owned()]);
        let said = |all: [(f64, Option<f64>); 3]| {
            Some(all.map(|(ns, announced_share)| Said { ns, announced_share }).to_vec())
        };
        let found = [
            said([(100.0, Some(0.0)), (200.0, Some(0.0)), (100.0, Some(0.0))]),
            None,
            said([(50.0, Some(0.9)), (100.0, Some(0.7)), (50.0, Some(0.8))]),
            said([(50.0, None), (100.0, None), (50.0, None)]),
        ];
        let rows = rows(&job, ["a", "b", "c", "d"].into_iter(), &found);
        let brief =
            |row: &Row| (row.mpi, row.median_ns, row.less_than_eager_percent, row.announced_share);
        assert_eq!(
            rows.iter().map(brief).collect::<Vec<_>>(),
            [("a", 100.0, 0.0, Some(0.0)), ("c", 50.0, 50.0, Some(0.7)), ("d", 50.0, 50.0, None)]
        );
    }
}
