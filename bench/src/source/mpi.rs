//! One MPI library with one set of settings, measured by our benchmark program.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::bowline::Figure;
use super::{Measured, Role, Source, all_failed};
use crate::BenchError;
use crate::build::mpibench;
use crate::command::{Launch, shorten};
use crate::context::Context;
use crate::hosts::{DEVICE, Hosts};
use crate::metric::{Metric, Sample, Test, Wire};
use crate::plan::Stage;
use crate::traffic::Meter;
use crate::venv::Package;

/// Environment variables, names and values.
pub(super) type Variables = &'static [(&'static str, &'static str)];

/// Where a library's files come from.
#[derive(Debug)]
pub(super) enum Home {
    /// Programs of the system, found in `PATH`.
    System {
        /// The compiler wrapper.
        mpicc: &'static str,
        /// The launcher.
        mpiexec: &'static str,
    },
    /// A wheel that brings compiler wrapper and launcher.
    Wheel(Package),
    /// A wheel without headers: the program is compiled against the standard ABI with another
    /// wheel's `mpicc_abi` and finds this one's library at run time.
    AbiWheel {
        /// The library and the launcher.
        package: Package,
        /// The wheel that has `mpicc_abi`.
        compiler: Package,
    },
    /// A directory that Bowline's C library, compiler wrapper and launcher are installed in.
    Bowline(PathBuf),
}

/// One MPI library with one set of settings.
#[derive(Debug)]
pub(crate) struct Mpi {
    /// The name in tables and filters.
    pub(crate) id: &'static str,
    /// Where its files come from.
    pub(super) home: Home,
    /// Launcher arguments of every start.
    pub(super) args: &'static [&'static str],
    /// Environment of every start.
    pub(super) env: Variables,
    /// Launcher arguments when there are more ranks than CPUs.
    pub(super) crowded_args: &'static [&'static str],
    /// Environment when there are more ranks than CPUs.
    pub(super) crowded_env: Variables,
    /// Whether start-up is measured in the quick run too.
    pub(super) quick_init: bool,
    /// What the report says beyond the settings.
    pub(super) remark: &'static str,
    /// How it is made to use a network; without this it is measured over shared memory.
    pub(super) network: Option<Network>,
    /// The shortest message that it is asked for, bytes.
    pub(super) from: u64,
    /// Set by `prepare`.
    pub(super) ready: Option<Ready>,
}

/// How a library is made to use one device.
#[derive(Debug)]
pub(super) struct Network {
    /// The variable that names the device, if it takes one.
    pub(super) device: Option<&'static str>,
    /// How its launcher starts ranks on several hosts.
    pub(super) launcher: Launcher,
}

/// How a launcher starts ranks on several hosts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Launcher {
    /// MPICH's launcher: a list, and a program instead of ssh.
    Hydra,
    /// Open MPI's, which runs on the first host.
    Prte,
    /// Bowline's, which need not be on any of them.
    Bowline,
}

impl Launcher {
    /// Its arguments for one rank on each of the first `ranks` hosts, with their script instead of ssh.
    fn arguments(self, hosts: &Hosts, ranks: u32) -> Vec<String> {
        let first = |all: &[String]| all[..all.len().min(ranks as usize)].join(",");
        self.words(&hosts.script(), &first(&hosts.names), &first(&hosts.addresses))
    }

    fn words(self, script: &Path, names: &str, addresses: &str) -> Vec<String> {
        let script = script.display().to_string();
        let agent = format!("{script} {{host}}");
        let words: &[&str] = match self {
            Self::Hydra => &[
                "-launcher",
                "ssh",
                "-launcher-exec",
                &script,
                "-hosts",
                addresses,
                "-iface",
                DEVICE,
            ],
            Self::Prte => &[
                "--prtemca",
                "plm_ssh_agent",
                &script,
                "--prtemca",
                "prte_if_include",
                DEVICE,
                "--host",
                addresses,
            ],
            Self::Bowline => &["--hosts", names, "--agent-command", &agent],
        };
        words.iter().map(ToString::to_string).collect()
    }
}

/// What `prepare` found.
#[derive(Debug)]
pub(super) struct Ready {
    launcher: PathBuf,
    program: PathBuf,
    /// Where the program finds its MPI library, if not by its run path.
    libraries: Option<String>,
}

impl Mpi {
    fn find(&self, context: &Context) -> Result<Ready, BenchError> {
        let (mpicc, launcher, libraries) = match &self.home {
            Home::System { mpicc, mpiexec } => (PathBuf::from(mpicc), PathBuf::from(mpiexec), None),
            Home::Wheel(package) => {
                let bin = package.environment(context)?.join("bin");
                (bin.join("mpicc"), bin.join("mpiexec"), None)
            }
            Home::AbiWheel { package, compiler } => {
                let home = package.environment(context)?;
                let mpicc = compiler.environment(context)?.join("bin/mpicc_abi");
                // The other wheel brings the libfabric that this one needs for networks.
                let more = match self.network {
                    Some(_) => {
                        format!(":{}", compiler.environment(context)?.join("lib/mpich").display())
                    }
                    None => String::new(),
                };
                let libraries = format!("{}{more}", home.join("lib").display());
                (mpicc, home.join("bin/mpiexec"), Some(libraries))
            }
            Home::Bowline(prefix) => {
                let bin = prefix.join("bin");
                (bin.join("mpicc"), bin.join("mpiexec"), None)
            }
        };
        let program = mpibench(context, self.id, Path::new(&mpicc))?;
        Ok(Ready { launcher, program, libraries })
    }

    /// The launcher, with the program and its `words`.
    fn launch(
        &self,
        context: &Context,
        ready: &Ready,
        ranks: u32,
        wire: Wire,
        words: &[String],
    ) -> Result<Launch, BenchError> {
        let [first, second] = context.cpus;
        let ours = self.role() == Role::Ours;
        let mut launch = Launch::new(&ready.launcher, context.time_limit)
            .cpus(&context.cpus)
            .env("BENCH_CPUS", format!("{first},{second}"))
            .remedy("install the peer's launcher (Debian: mpich)");
        let mut variables = self.env.to_vec();
        if ranks as usize > context.cpus.len() {
            launch = launch.args(self.crowded_args.iter().copied());
            variables.extend(self.crowded_env);
        }
        let hosts = context.hosts(wire)?;
        let launcher = self.network.as_ref().map(|network| network.launcher);
        // Hydra's usual arguments make it fork.
        if !matches!((hosts, launcher), (Some(_), Some(Launcher::Hydra))) {
            launch = launch.args(self.args.iter().copied());
        }
        if let (Some(hosts), Some(launcher)) = (hosts, launcher) {
            launch = launch.args(launcher.arguments(hosts, ranks));
        }
        let name = self.network.as_ref().and_then(|network| network.device);
        if let (Some(name), Some(device)) = (name, wire.device()) {
            launch = launch.env(name, device);
        }
        for (name, value) in variables {
            launch = launch.env(name, value);
        }
        if let Some(libraries) = &ready.libraries {
            launch = launch.env("LD_LIBRARY_PATH", libraries.as_str());
        }
        let launch = launch
            .args(["-n".to_owned(), ranks.to_string()])
            .args([ready.program.to_string_lossy()])
            .args(words.iter().cloned());
        Ok(match hosts {
            Some(hosts) if !ours => hosts.on(0, launch),
            _ => launch,
        })
    }

    /// Where it is tried first.
    fn first_wire(&self, context: &Context) -> Wire {
        match self.network {
            None => Wire::Memory,
            Some(_) if context.hosts(Wire::Delayed).is_ok() => Wire::Delayed,
            Some(_) => Wire::Loopback,
        }
    }

    /// The output of one job of the benchmark program with these words, and more variables of the environment.
    pub(crate) fn job(
        &mut self,
        context: &Context,
        ranks: u32,
        wire: Wire,
        variables: &[(String, String)],
        words: &[String],
    ) -> Result<String, BenchError> {
        let ready = match self.ready.take() {
            Some(ready) => ready,
            None => self.find(context)?,
        };
        let launch = self.launch(context, &ready, ranks, wire, words);
        self.ready = Some(ready);
        let add = |launch: Launch, (name, value): &(String, String)| launch.env(name, value);
        Ok(variables.iter().fold(launch?, add).run()?.stdout)
    }

    /// The settings, for the report.
    fn settings(&self) -> String {
        let words = |args: &[&str], env: Variables| {
            env.iter()
                .map(|(name, value)| format!("{name}={value}"))
                .chain(args.iter().map(ToString::to_string))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let crowded = words(self.crowded_args, self.crowded_env);
        let crowded = match crowded.as_str() {
            "" => String::new(),
            settings => format!("with more ranks than CPUs {settings}"),
        };
        let device = self.network.as_ref().and_then(|network| network.device);
        let device = device.map_or_else(String::new, |name| format!("{name} names the device"));
        let parts = [words(self.args, self.env), device, crowded, self.remark.to_owned()];
        parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("; ")
    }

    /// All figures of one number of ranks by one start of the benchmark program.
    fn figures(
        &self,
        context: &Context,
        ready: &Ready,
        ranks: u32,
        wire: Wire,
        metrics: &[Metric],
    ) -> Result<Measured, BenchError> {
        let millis = context.budget.as_secs_f64() * 1e3;
        let orders: Vec<String> =
            metrics.iter().filter_map(|&metric| order(metric, millis)).collect();
        let meter = Meter::start(context, wire)?;
        let output = self.launch(context, ready, ranks, wire, &orders)?.run()?;
        let figures: HashMap<(String, u64, u32), Figure> = Figure::parse_lines(&output.stdout)
            .into_iter()
            .map(|figure| ((figure.test.clone(), figure.size, figure.ranks), figure))
            .collect();
        let figure = |metric: Metric| {
            let key = (program_test(metric.test)?.to_owned(), metric.size, metric.ranks);
            figures.get(&key)
        };
        if let Some(meter) = meter {
            let messages = |&metric: &Metric| {
                let ways = if metric.window() > 1 || metric.test.is_collective() { 1 } else { 2 };
                Some((metric, ways * figure(metric)?.iterations))
            };
            meter.check("mpibench", metrics.iter().filter_map(messages))?;
        }
        let find = |metric: Metric| figure(metric)?.sample();
        let missing = |metric: Metric| BenchError::NoFigure {
            program: "mpibench".to_owned(),
            metric: metric.to_string(),
            output: shorten(output.stdout.trim(), 200),
        };
        Ok(metrics
            .iter()
            .map(|&metric| (metric, find(metric).ok_or_else(|| missing(metric))))
            .collect())
    }

    /// Start-up, timed from outside the launcher.
    fn start_up(
        &self,
        context: &Context,
        ready: &Ready,
        ranks: u32,
        metrics: &[Metric],
    ) -> Measured {
        if context.quick && !self.quick_init {
            return metrics.iter().map(|&metric| (metric, Err(BenchError::LeftOut))).collect();
        }
        let launch = self.launch(context, ready, ranks, Wire::Memory, &["init".to_owned()]);
        match launch.and_then(|launch| launch.run()) {
            Ok(output) => {
                let sample = Sample::single(output.wall.as_secs_f64() * 1e9);
                metrics.iter().map(|&metric| (metric, Ok(sample))).collect()
            }
            Err(error) => all_failed(metrics, &error),
        }
    }
}

impl Source for Mpi {
    fn id(&self) -> &'static str {
        self.id
    }

    fn role(&self) -> Role {
        if matches!(self.home, Home::Bowline(_)) { Role::Ours } else { Role::Peer }
    }

    fn prepare(&mut self, context: &Context) -> Result<String, BenchError> {
        let ready = self.find(context)?;
        // One start proves launcher, library and pinning before they take part in the rounds.
        self.launch(context, &ready, 2, self.first_wire(context), &["init".to_owned()])?.run()?;
        self.ready = Some(ready);
        let version = match &self.home {
            Home::System { .. } | Home::Bowline(_) => String::new(),
            Home::Wheel(package) | Home::AbiWheel { package, .. } => {
                format!("{} {}; ", package.name, package.version)
            }
        };
        Ok(format!("{version}{}", self.settings()))
    }

    fn offers(&self, metric: Metric) -> bool {
        let here = self.network.is_some() == (metric.wire != Wire::Memory);
        here && metric.size >= self.from
            && (program_test(metric.test).is_some() || metric.test == Test::Init)
    }

    fn measure(&self, context: &Context, stage: Stage, metrics: &[Metric]) -> Measured {
        let Some(ready) = &self.ready else {
            return Vec::new();
        };
        let figures = |ranks, wire| {
            self.figures(context, ready, ranks, wire, metrics)
                .unwrap_or_else(|error| all_failed(metrics, &error))
        };
        match stage {
            Stage::Pair(wire) => figures(2, wire),
            Stage::One(metric) => figures(2, metric.wire),
            Stage::Group(ranks, wire) => figures(ranks, wire),
            Stage::Init(ranks) => self.start_up(context, ready, ranks, metrics),
            // None of its metrics is offered.
            Stage::Death(_) => Vec::new(),
        }
    }
}

/// The benchmark program's name of a test, if it has it.
fn program_test(test: Test) -> Option<&'static str> {
    match test {
        Test::MpiLat => Some("lat"),
        Test::MpiRate => Some("rate"),
        Test::MpiBw => Some("bw"),
        Test::MpiLateLat => Some("latelat"),
        Test::MpiLateBw => Some("latebw"),
        Test::Barrier => Some("barrier"),
        Test::Allreduce => Some("allreduce"),
        Test::Bcast => Some("bcast"),
        Test::Reduce => Some("reduce"),
        Test::Allgather => Some("allgather"),
        Test::Alltoall => Some("alltoall"),
        Test::TypeVector => Some("vector"),
        Test::TypeBlocks => Some("blocks"),
        Test::TypeIndexed => Some("indexed"),
        Test::TypeStruct => Some("struct"),
        _ => None,
    }
}

/// The benchmark program's argument for a metric: TEST:SIZE:WINDOW:MILLIS.
fn order(metric: Metric, millis: f64) -> Option<String> {
    let name = program_test(metric.test)?;
    Some(format!("{name}:{}:{}:{millis}", metric.size, metric.window()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_name_window_and_time() {
        assert_eq!(order(Metric::pair(Test::MpiBw, 1 << 20), 40.0).unwrap(), "bw:1048576:16:40");
        assert_eq!(order(Metric::group(Test::Barrier, 0, 8), 2.5).unwrap(), "barrier:0:0:2.5");
        let vector = Metric::pair(Test::TypeVector, 64 << 10);
        assert_eq!(order(vector, 1.0).unwrap(), "vector:65536:1:1");
        assert_eq!(order(Metric::pair(Test::TagLat, 8), 1.0), None);
    }

    #[test]
    fn lines_of_the_program_parse_among_others() {
        let text = "warning\n\
                    {\"test\":\"lat\",\"size\":8,\"ranks\":2,\"window\":1,\"median_ns\":231.5,\
                    \"p99_ns\":400.0,\"min_ns\":200.0}\n{broken\n";
        let figures = Figure::parse_lines(text);
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].sample().unwrap().median_ns, 231.5);
    }

    #[test]
    fn launchers_are_given_hosts_and_the_way_to_them() {
        let words = |launcher: Launcher| {
            let (names, addresses) = ("bench1,bench2", "10.78.0.1,10.78.0.2");
            launcher.words(Path::new("/s/on-host"), names, addresses).join(" ")
        };
        assert_eq!(
            words(Launcher::Hydra),
            "-launcher ssh -launcher-exec /s/on-host -hosts 10.78.0.1,10.78.0.2 -iface eth0"
        );
        assert!(words(Launcher::Prte).starts_with("--prtemca plm_ssh_agent /s/on-host "));
        assert!(words(Launcher::Bowline).ends_with("--agent-command /s/on-host {host}"));
    }
}
