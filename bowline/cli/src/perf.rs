//! `bowline perf`: measures every layer with the same loops, so that the cost of each is the
//! difference to the one below.
//!
//! ```text
//!   raw_*            two processes and bare memory: what the machine can do
//!   uct_*            the bare transport
//!   am_* stream_* put_* get_* fadd_* cswap_* tag_*    the protocol engine
//!   mpi_*, collectives, init, death_*        the MPI layer and the launcher
//! ```
//! The command starts its own ranks; rank 0 prints. Loops and checks of the payload are in
//! [`drive`]; the other modules say how each layer sends.

mod active;
mod ahead;
mod bare;
mod coll;
mod death;
mod drive;
mod figure;
mod mpi;
mod onesided;
mod pair;
mod payload;
mod plan;
mod posted;
mod raw;
pub(super) mod site;
mod start_up;
mod stats;
mod streams;
mod tagged;
pub(crate) mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use bowline_base::config::Config;
use clap::ValueEnum as _;

use self::figure::Figure;
use self::plan::Plan;
use self::site::Site;
pub(crate) use self::test::{Kind, Layer, Test, Transport, name_of};
use super::info::machine;
use super::{numbers, output, start};

/// Measure latency, bandwidth and message rate, with every payload checked.
///
/// Latency is one way: half of a round trip, ns. A sample is the mean of 8 round trips up to
/// 4 KB, one above. Bandwidth and rate are those of windows of messages, each window answered
/// once; short ones below MPI are sent one window ahead of the answers. One-sided gets and atomics are timed whole, from the call to the result. Deaths are timed
/// from the moment before the rank kills itself to the error of the last survivor. Active messages
/// are checked at both ends while time is taken, where they lie, and whole before and after.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bowline perf raw_lat                        what two processors can do at best
  bowline perf mpi_lat --size 8..1m           latency of MPI send and receive
  bowline perf mpi_bw --size 64k,1m --json    bandwidth, for programs to read
  bowline perf barrier --ranks 16             more ranks than processors
  bowline perf death_barrier --ranks 8        how soon ranks learn that another one was killed
  bowline perf tag_rate --threads             ranks as threads of one process")]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum)]
    test: Test,
    /// Payload in bytes: 8, a list such as 8,4k,1m, or doubles such as 8..64k
    /// [default: 8; 0 for barrier, init and deaths, 1m for bandwidth].
    // The path keeps clap from taking the list for an option that is given several times.
    #[arg(long, value_name = "BYTES", value_parser = numbers::sizes)]
    size: Option<std::vec::Vec<usize>>,
    /// Number of ranks [default: 2, or as many as there are processors, at least 2, for
    /// collectives and init].
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// The transport; `self` is one rank that sends to itself [default: the one that
    /// BOWLINE_TRANSPORTS names beside self, else shm].
    #[arg(long, value_enum)]
    transport: Option<Transport>,
    /// Round trips, windows or operations to time [default: by test and size].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// The same before timing starts [default: a tenth of the iterations].
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,
    /// Messages in flight at once in bandwidth and rate tests [default: 64, 16 above 64 KB, 4
    /// above 1 MB].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    window: Option<u64>,
    /// Run the ranks as threads of one process.
    #[arg(long)]
    threads: bool,
    /// Yield the processor at once instead of spinning, even where each rank has its own.
    #[arg(long = "yield")]
    yielding: bool,
    /// Print JSON: one object, or an array for several sizes.
    #[arg(long)]
    json: bool,
    /// Where the ranks of a test that kills one of them leave their times.
    #[arg(long, hide = true, value_name = "FILE")]
    notes: Option<PathBuf>,
}

impl Args {
    fn transport(&self) -> Transport {
        self.transport.unwrap_or(Transport::Shm)
    }

    /// The transport that is measured, where the command line does not say: the one that the settings
    /// name beside `self`. Figures of several could not be labelled.
    fn choose_transport(&mut self, config: &Config) -> anyhow::Result<()> {
        let names = config.get(bowline::stack::TRANSPORTS);
        if self.transport.is_some() || self.test.is_bare_memory() || names.trim().is_empty() {
            return Ok(());
        }
        let others: Vec<&str> = names.split(',').map(str::trim).filter(|&n| n != "self").collect();
        let chosen = match others[..] {
            [] => Transport::Itself,
            [name] => Transport::from_str(name, false).map_err(|_| {
                let variable = bowline::stack::TRANSPORTS.name();
                anyhow!("{variable} names `{name}`, which cannot be measured; name a --transport")
            })?,
            _ => bail!(
                "BOWLINE_TRANSPORTS={names} has several transports, of which figures must name one; \
                 say which by --transport"
            ),
        };
        self.transport = Some(chosen);
        Ok(())
    }

    fn ranks(&self) -> u32 {
        let alone = self.transport() == Transport::Itself;
        let many = matches!(self.test.kind(), Kind::Collective | Kind::Jobs);
        let processors = bowline::wait::processors() as u32;
        self.ranks.unwrap_or(match (alone, many) {
            (true, _) => 1,
            (false, true) => processors.max(2),
            (false, false) => 2,
        })
    }

    fn sizes(&self) -> Vec<usize> {
        self.size.clone().unwrap_or_else(|| vec![self.test.default_size()])
    }

    fn plans(&self) -> Vec<Plan> {
        self.sizes().into_iter().map(|size| Plan::new(self, size)).collect()
    }

    fn check(&self) -> anyhow::Result<()> {
        let (name, ranks) = (name_of(&self.test), self.ranks());
        if self.test.kind() == Kind::Deaths {
            if self.threads {
                bail!("{name} kills a rank, which cannot be a thread; leave out --threads");
            }
            if ranks < 2 {
                bail!("{name} needs a rank that dies and one that survives; leave out --ranks 1");
            }
        }
        if self.test.is_bare_memory() && self.transport.is_some() {
            bail!("{name} measures memory, which no transport moves; leave out --transport");
        }
        if self.window.is_some() && self.test.kind() != Kind::Windows {
            bail!("{name} sends no windows of messages; leave out --window");
        }
        for size in self.sizes() {
            if let Some(why) = self.test.refuse_size(size) {
                bail!("{name} cannot measure --size {size}: it {why}");
            }
            // Each rank sends from and receives into a buffer.
            let needed = (size as u64).saturating_mul(2 * u64::from(ranks));
            machine::has_memory(needed, || {
                format!(
                    "{name} cannot measure --size {size}: {ranks} ranks with two buffers each take"
                )
            })?;
        }
        if self.transport() == Transport::Itself {
            if !self.test.works_alone() {
                bail!("{name} needs two ranks; --transport self has one, which sends to itself");
            }
            if ranks != 1 {
                bail!("--transport self has one rank; leave out --ranks {ranks}");
            }
        } else if matches!(self.test.kind(), Kind::Latency | Kind::Windows) && ranks != 2 {
            bail!("{name} is between two ranks; leave out --ranks {ranks}");
        }
        Ok(())
    }

    /// The settings for this transport.
    fn settle(&mut self) -> anyhow::Result<Config> {
        let mut config = bowline::config_from_env()?;
        bowline::stack::check(&config)?;
        self.choose_transport(&config)?;
        self.check()?;
        if self.yielding {
            config.set(bowline::wait::SPINS, 0)?;
            config.set(bowline::wait::SPINS_SHARED, 0)?;
        }
        let only = match self.transport() {
            // What is measured is what the label says, whatever the environment has.
            Transport::Shm => "self,shm",
            Transport::Itself => "self",
            Transport::Tcp => "self,tcp",
            Transport::Ofi => "self,ofi",
            Transport::Verbs => "self,verbs",
        };
        config.set(bowline::stack::TRANSPORTS, only.to_owned())?;
        Ok(config)
    }

    /// What is printed, at rank 0.
    fn print(&self, figures: &[Figure]) -> anyhow::Result<()> {
        output::print(&if self.json { figure::json(figures) } else { figure::table(figures) })
    }
}

/// Measures.
///
/// # Errors
/// Arguments that do not fit together, a rank that fails, a payload that is damaged.
pub(crate) fn main(mut args: Args, as_rank: bool) -> anyhow::Result<ExitCode> {
    let config = args.settle()?;
    let ranks = args.ranks();
    match (args.test.layer(), as_rank, args.threads) {
        (Layer::Launcher, false, _) => {
            args.print(&match args.test.kind() {
                Kind::Deaths => death::measure(&args, &config)?,
                _ => start_up::measure(&args, &config)?,
            })?;
            Ok(ExitCode::SUCCESS)
        }
        (Layer::Launcher, true, _) => start::as_rank(&config, |world| match args.test.kind() {
            Kind::Deaths => death::rank(&args, world),
            _ => Ok(()),
        }),
        (_, false, false) => start::processes(ranks, &config),
        (Layer::Mpi, true, _) => start::as_rank(&config, |world| {
            let figures = args.run_mpi(world)?;
            Ok(args.print_at(world.rank() == 0, &figures)?)
        }),
        (Layer::Mpi, false, true) => start::threads(ranks, &config, |world| {
            site::bind(world.rank() as u32, ranks)?;
            let figures = args.run_mpi(world)?;
            Ok(args.print_at(world.rank() == 0, &figures)?)
        }),
        (Layer::Below, true, _) => args.run_below(Site::of_process(&config)?),
        (Layer::Below, false, true) => site::threads(ranks, &config, |site| args.run_below(site)),
    }
}

impl Args {
    fn print_at(&self, here: bool, figures: &[Figure]) -> anyhow::Result<()> {
        if here { self.print(figures) } else { Ok(()) }
    }

    fn run_mpi(&self, world: &bowline::mpi::World) -> anyhow::Result<Vec<Figure>> {
        let run = |plan: Plan| match plan.kind() {
            Kind::Collective => coll::measure(world, &plan),
            _ => mpi::measure(world, &plan),
        };
        self.plans().into_iter().map(run).collect()
    }

    fn run_below(&self, site: Site) -> anyhow::Result<ExitCode> {
        let first = site.rank() == 0;
        let plans = self.plans();
        let figures = match self.test {
            Test::RawLat | Test::RawBw => raw::measure(site, &plans, self.yielding)?,
            Test::UctLat => bare::measure(site, &plans, self.yielding)?,
            _ => pair::measure(site, &plans, self.yielding)?,
        };
        self.print_at(first && !figures.is_empty(), &figures)?;
        Ok(ExitCode::SUCCESS)
    }
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

    fn args(line: &str) -> Args {
        Line::parse_from(std::iter::once("perf").chain(line.split_whitespace())).args
    }

    #[test]
    fn defaults_depend_on_the_test() {
        assert_eq!(args("mpi_lat").sizes(), [8]);
        assert_eq!(args("mpi_bw").sizes(), [1 << 20]);
        assert_eq!(args("barrier").sizes(), [0]);
        assert_eq!(args("mpi_lat --size 8,4k").sizes(), [8, 4096]);
        assert_eq!(args("tag_lat").ranks(), 2);
        assert_eq!(args("death_barrier").ranks(), 2);
        assert_eq!(args("tag_lat --transport self").ranks(), 1);
        assert!(args("barrier").ranks() >= 2);
    }

    #[test]
    fn the_transport_is_the_one_that_the_label_names() {
        let chosen = |line: &str, names: &str| {
            let settings = [("BOWLINE_TRANSPORTS", names)];
            let config = Config::from_pairs(settings, bowline::stack::SETTINGS).unwrap();
            let mut args = args(line);
            args.choose_transport(&config).map(|()| args.transport())
        };
        assert_eq!(chosen("mpi_lat", "").unwrap(), Transport::Shm);
        assert_eq!(chosen("mpi_lat", "self,tcp").unwrap(), Transport::Tcp);
        assert_eq!(chosen("mpi_lat", " shm ").unwrap(), Transport::Shm);
        assert_eq!(chosen("mpi_lat", "self").unwrap(), Transport::Itself);
        assert_eq!(chosen("mpi_lat --transport shm", "self,tcp").unwrap(), Transport::Shm);
        assert_eq!(chosen("raw_lat", "self,tcp").unwrap(), Transport::Shm);
        let error = chosen("mpi_lat", "self,shm,tcp").unwrap_err().to_string();
        assert!(error.contains("--transport"), "{error}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for wrong in [
            "raw_lat --size 16",
            "barrier --size 8",
            "allreduce --size 4",
            "put_lat --size 4",
            "get_lat --size 0",
            "tag_bw --transport self",
            "mpi_lat --ranks 3",
            "mpi_lat --transport self --ranks 2",
            "death_recv --ranks 1",
            "death_recv --threads",
            "death_bulk --size 8",
            "death_bulk --transport self",
            "mpi_lat --size 1024g",
            "mpi_lat --window 3",
            "raw_lat --transport tcp",
            "raw_bw --transport shm",
        ] {
            assert!(args(wrong).check().is_err(), "{wrong}");
        }
        for right in
            ["mpi_lat --size 0", "allreduce --ranks 5", "am_lat --transport self", "death_bulk"]
        {
            args(right).check().unwrap();
        }
    }
}
