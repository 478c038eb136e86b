//! `bowline model`: the pipelining latency-bandwidth model of a transport, from multicasts of rank 0 to the others.
//!
//! | what | where |
//! |---|---|
//! | the multicasts, between processes or threads | [`measure`] |
//! | the same on a simulated network, in virtual time | [`simulated`] |
//! | what operations on vectors take | [`operations`] |
//! | the file of raw samples | [`record`] |
//! | what is printed | [`report`] |
//! | what is drawn | [`plot`] |
//! | what was published, beside it | [`published`] |
//! | the table of fits that is kept | [`keep`] |
//! | the search of the quickest algorithms, for jobs that come later | [`tune`] |
//!
//! The fits themselves are those of the crate `bowline-model`, which knows of no transport.

mod keep;
mod measure;
mod operations;
mod plot;
mod published;
mod record;
mod report;
mod show;
mod simulated;
mod tune;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use bowline_base::config::Config;
use bowline_model::fit::operations::Timed;
use bowline_model::fit::table::Entry;
use clap::{Subcommand, ValueEnum};

use super::perf::site::{self, Site};
use super::{numbers, output, start};
use measure::Plan;
use record::Recorded;
use simulated::Network;

/// Fit the model by which algorithms of collectives are chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Fit(Box<Fit>),
    Show(Show),
    Tune(Box<tune::Tune>),
    /// Forget what is kept of this machine.
    Forget,
}

/// Show the parameters that are kept of this machine, and which are assumed.
#[derive(Debug, clap::Args)]
struct Show {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Measure multicasts and fit T(b) = alpha_p + b alpha_r to their times, for each size.
///
/// Rank 0 puts a message to each of b = 1, 2, ... other ranks and flushes once; each such multicast is timed alone, on
/// rank 0's clock. alpha_r is what one more message adds, alpha_p what overlaps. Sizes at which a parameter comes out
/// negative are rejected: the model does not hold there. Beside it rank 0 times what a byte of copies and of reductions takes,
/// on vectors that its caches hold. The models of Hockney, LogGP and LogfP are fitted to the same
/// times, and every payload is checked.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline model fit                               shared memory, 1 to 12 receivers
  bowline model fit --transport tcp --size 8,1k   two sizes over TCP
  bowline model fit --blocking                    a flush behind each put: no overlap, and no model
  bowline model fit --transport sim --network 880,380
                                                  a network whose parameters are known, in virtual time
  bowline model fit --keep                        and keep the parameters by shortest times
  bowline model fit --output out                  raw samples, result and pictures into a directory
  bowline model fit --from out/samples.json       fit the same samples again")]
struct Fit {
    /// The transport; `sim` is a simulated network in virtual time.
    #[arg(long, value_enum, default_value_t = Transport::Shm)]
    transport: Transport,
    /// Payload of a message in bytes: 8, a list such as 8,4k, or doubles such as 8..64k.
    // The path keeps clap from taking the list for an option that is given several times.
    #[arg(long, value_name = "BYTES", value_parser = numbers::sizes,
          default_value = "8,64,128,512,2k,8k,32k,128k,512k")]
    size: std::vec::Vec<usize>,
    /// Number of ranks: one sends, the others receive.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 13,
          value_parser = clap::value_parser!(u32).range(3..=1025))]
    ranks: u32,
    /// Multicasts of each size and width to time; a quarter of them above 8 KB [default: 1000, in virtual
    /// time 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    reps: Option<u32>,
    /// Flush behind each put instead of once at the end.
    #[arg(long)]
    blocking: bool,
    /// Run the ranks as threads of one process.
    #[arg(long)]
    threads: bool,
    /// The simulated network: alpha_p and alpha_r in ns, and perhaps the ns of a byte; or archer, with the parameters by
    /// size that were published of a Cray XC30 [default: 500,100,0.4].
    #[arg(long, value_name = "P,R[,BYTE]")]
    network: Option<Network>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Keep the parameters in the file that BOWLINE_MODEL names, for the choice of algorithms.
    #[arg(long, conflicts_with_all = ["blocking", "network", "from"])]
    keep: bool,
    /// Write raw samples, the result and pictures (SVG and PNG) into this directory.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Fit the samples of a file that `--output` has written, and measure nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["transport", "size", "ranks", "reps", "blocking", "threads", "network"])]
    from: Option<PathBuf>,
}

/// The layer and transport that messages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// Memory shared between ranks.
    Shm,
    /// TCP, over loopback where the ranks are on one host.
    Tcp,
    /// libfabric, in builds that have it.
    Ofi,
    /// RDMA devices, in builds that have them.
    Verbs,
    /// A simulated network with virtual time.
    Sim,
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Ofi => "ofi",
            Self::Verbs => "verbs",
            Self::Sim => "sim",
        }
    }
}

/// Longest message that is multicast.
const LONGEST: usize = 64 << 20;

/// Most bytes of the messages that all ranks have space for.
const MOST_BYTES: usize = 4 << 30;

/// Most multicasts that are timed: two times of 8 bytes are kept of each.
const MOST_TIMES: usize = 50_000_000;

/// Measures and fits.
///
/// # Errors
/// Arguments that do not fit together, a rank that fails, a payload that is damaged, samples that cannot be fitted.
pub(crate) fn main(args: &Args, as_rank: bool) -> Result<ExitCode> {
    match &args.what {
        What::Fit(fit) => fit.run(as_rank),
        What::Tune(tune) => tune.run(as_rank),
        What::Show(show) => {
            let path = place()?;
            show::print(&keep::read(&path)?, &path, show.json)?;
            Ok(ExitCode::SUCCESS)
        }
        What::Forget => {
            keep::forget(&place()?, &bowline::costs::site())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The file in which fits are kept.
fn place() -> Result<PathBuf> {
    let config = bowline::config_from_env()?;
    bowline::model_file::file(&config)
        .context("BOWLINE_MODEL is off, or there is no home; name a file or unset it")
}

impl Fit {
    fn run(&self, as_rank: bool) -> Result<ExitCode> {
        if let Some(path) = &self.from {
            self.finish(&Recorded::read(path)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let config = self.settle()?;
        self.check()?;
        if let Some(directory) = &self.output {
            // Before time is spent on samples that have no place.
            make(directory)?;
        }
        if self.keep && !as_rank {
            keep::writable(&place()?)?;
        }
        if self.transport == Transport::Sim {
            let network = self.network.unwrap_or_default();
            let measured = simulated::measure(&self.plan(), network, &config)?;
            self.finish(&self.record(measured, Vec::new()))?;
            return Ok(ExitCode::SUCCESS);
        }
        match (as_rank, self.threads) {
            (true, _) => self.rank(Site::of_process(&config)?),
            (false, true) => site::threads(self.ranks, &config, |site| self.rank(site)),
            (false, false) => start::processes(self.ranks, &config),
        }
    }

    fn rank(&self, site: Site) -> Result<ExitCode> {
        if let Some(measured) = measure::rank(site, &self.plan())? {
            // No job chooses by blocking puts.
            let operations =
                if self.blocking { Vec::new() } else { operations::measure(self.plan().reps) };
            self.finish(&self.record(measured, operations))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn settle(&self) -> Result<Config> {
        let mut config = bowline::config_from_env()?;
        let only = match self.transport {
            Transport::Sim => "self".to_owned(),
            other => format!("self,{}", other.name()),
        };
        // What is measured is what the label says, whatever the environment has.
        config.set(bowline::stack::TRANSPORTS, only)?;
        // Receivers that share a processor with the root would sleep, and a time would be that of waking them.
        config.set(bowline::wait::YIELDS, 1_000_000_000)?;
        bowline::stack::check(&config)?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        for &size in &self.size {
            ensure!(size > 0, "--size 0: a put of nothing is no message; sizes begin with 1");
            ensure!(size <= LONGEST, "--size {size}: multicasts have up to {LONGEST} bytes");
        }
        let Plan { sizes, ranks, reps, .. } = self.plan();
        let ranks = ranks as usize;
        let longest = sizes.last().copied().unwrap_or(0);
        ensure!(
            longest * ranks <= MOST_BYTES,
            "--size {longest} and {ranks} ranks, each with space for a message, are {} bytes; {MOST_BYTES} are possible",
            longest * ranks
        );
        let times = sizes.len() * (ranks - 1) * reps;
        ensure!(
            times <= MOST_TIMES,
            "--reps {reps}: with {} sizes and {} widths {times} multicasts would be timed; {MOST_TIMES} are possible",
            sizes.len(),
            ranks - 1
        );
        let sim = self.transport == Transport::Sim;
        ensure!(!(sim && self.keep), "no job runs on --transport sim; leave out --keep");
        ensure!(sim || self.network.is_none(), "--network describes --transport sim");
        ensure!(
            !(sim && self.threads),
            "--transport sim has one thread for all ranks; leave out --threads"
        );
        Ok(())
    }

    fn plan(&self) -> Plan {
        let usual = match self.transport {
            Transport::Sim => 10,
            _ => 1000,
        };
        let mut sizes = self.size.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let (ranks, blocking) = (self.ranks, self.blocking);
        Plan { sizes, ranks, reps: self.reps.unwrap_or(usual) as usize, blocking }
    }

    /// Whether ranks share processors. Those of a simulated network do not.
    fn shared(&self) -> bool {
        self.transport != Transport::Sim && self.ranks as usize > bowline::wait::processors()
    }

    fn record(&self, measured: measure::Measured, operations: Vec<Timed>) -> Recorded {
        Recorded::new(
            record::Circumstances {
                site: bowline::costs::site(),
                transport: self.transport.name().to_owned(),
                ranks: self.ranks,
                shared: self.shared(),
                threads: self.threads,
                blocking: self.blocking,
                clock_ns: measured.clock_ns,
                network: (self.transport == Transport::Sim)
                    .then(|| self.network.unwrap_or_default().to_string()),
            },
            measured.samples,
            operations,
        )
    }

    /// Fits, prints, and writes what was asked for.
    fn finish(&self, recorded: &Recorded) -> Result<()> {
        let report = report::Report::new(recorded)?;
        if let Some(directory) = &self.output {
            make(directory)?;
            recorded.write(&directory.join("samples.json"))?;
            write(&directory.join("fit.json"), &serde_json::to_vec_pretty(&report.json())?)?;
            plot::draw(directory, recorded, &report)?;
        }
        if self.keep {
            keep::learn(&place()?, self.entry(&report)?)?;
        }
        if self.json { output::print_json(&report.json()) } else { output::print(&report.table()) }
    }
}

impl Fit {
    /// What is kept: the parameters by shortest times.
    fn entry(&self, report: &report::Report) -> Result<Entry> {
        let entry = Entry {
            site: bowline::costs::site(),
            transport: self.transport.name().to_owned(),
            ranks: self.ranks,
            threads: self.threads,
            shared: self.shared(),
            sizes: Vec::new(),
            rejected: Vec::new(),
            operations: report.operations().map(|(name, time)| (name.to_owned(), time)).collect(),
        };
        let entry = entry.fitted(&report.shortest().sizes);
        ensure!(
            !entry.sizes.is_empty(),
            "the model holds at none of these sizes, so nothing was kept; other programs may run on this machine"
        );
        Ok(entry)
    }
}

fn make(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn fit(line: &str) -> Fit {
        let words = ["model", "fit"].into_iter().chain(line.split_whitespace());
        match Line::parse_from(words).args.what {
            What::Fit(fit) => *fit,
            other => panic!("`{line}` is {other:?}"),
        }
    }

    #[test]
    fn plans_have_each_size_once_in_order() {
        let plan = fit("--size 64,8,64 -n 5 --transport tcp").plan();
        assert_eq!((plan.sizes, plan.ranks, plan.reps), (vec![8, 64], 5, 1000));
        assert_eq!(fit("--reps 7").plan().reps, 7);
        assert_eq!(fit("--transport sim").plan().reps, 10);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for wrong in [
            "--size 0",
            "--size 1g",
            "--size 64m -n 1025",
            "--reps 1000000 -n 1025",
            "--network 2,1",
            "--transport sim --threads",
            "--transport sim --keep",
        ] {
            assert!(fit(wrong).check().is_err(), "{wrong}");
        }
        fit("--transport sim --network 880,380").check().unwrap();
        assert!(Line::try_parse_from(["model", "fit", "-n", "2"]).is_err());
        assert!(Line::try_parse_from(["model", "fit", "--from", "x", "--size", "8"]).is_err());
    }
}
