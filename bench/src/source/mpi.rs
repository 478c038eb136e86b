//! One MPI library with one set of settings, measured by our benchmark program.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::bowline::Figure;
use super::{Measured, Role, Source, all_failed};
use crate::BenchError;
use crate::build::mpibench;
use crate::command::{Launch, shorten};
use crate::metric::{Metric, Sample, Test};
use crate::plan::Stage;
use crate::run::Context;
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
    /// Bowline's C library and launcher; compiled like `AbiWheel`.
    Bowline {
        /// The command with the subcommand `run`.
        command: PathBuf,
        /// The directory of `libmpi_abi.so.1`.
        library: PathBuf,
        /// The wheel that has `mpicc_abi`.
        compiler: Package,
    },
}

/// One MPI library with one set of settings.
#[derive(Debug)]
pub(super) struct Mpi {
    /// The name in tables and filters.
    pub(super) id: &'static str,
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
    /// Set by `prepare`.
    pub(super) ready: Option<Ready>,
}

/// What `prepare` found.
#[derive(Debug)]
pub(super) struct Ready {
    launcher: PathBuf,
    program: PathBuf,
    /// Where the program finds its MPI library, if not by its run path.
    libraries: Option<PathBuf>,
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
                let mpicc = abi_compiler(*compiler, context)?;
                (mpicc, home.join("bin/mpiexec"), Some(home.join("lib")))
            }
            Home::Bowline { command, library, compiler } => {
                (abi_compiler(*compiler, context)?, command.clone(), Some(library.clone()))
            }
        };
        let program = mpibench(context, self.id, Path::new(&mpicc))?;
        Ok(Ready { launcher, program, libraries })
    }

    fn launch(&self, context: &Context, ready: &Ready, ranks: u32) -> Launch {
        let [first, second] = context.cpus;
        let ours = self.role() == Role::Ours;
        let mut launch = Launch::new(&ready.launcher, context.time_limit)
            .args(ours.then_some("run"))
            .args(self.args.iter().copied())
            .cpus(&context.cpus)
            .env("BENCH_CPUS", format!("{first},{second}"))
            .way_out("install the peer's launcher (Debian: mpich)");
        let mut variables = self.env.to_vec();
        if ranks as usize > context.cpus.len() {
            launch = launch.args(self.crowded_args.iter().copied());
            variables.extend(self.crowded_env);
        }
        for (name, value) in variables {
            launch = launch.env(name, value);
        }
        if let Some(libraries) = &ready.libraries {
            launch = launch.env("LD_LIBRARY_PATH", libraries.to_string_lossy());
        }
        launch
            .args(["-n".to_owned(), ranks.to_string()])
            .args(ours.then_some("--"))
            .args([ready.program.to_string_lossy()])
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
        let parts = [words(self.args, self.env), crowded, self.remark.to_owned()];
        parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("; ")
    }

    /// All figures of one number of ranks by one start of the benchmark program.
    fn figures(
        &self,
        context: &Context,
        ready: &Ready,
        ranks: u32,
        metrics: &[Metric],
    ) -> Measured {
        let millis = context.budget.as_secs_f64() * 1e3;
        let orders = metrics.iter().filter_map(|&metric| order(metric, millis));
        let output = match self.launch(context, ready, ranks).args(orders).run() {
            Ok(output) => output,
            Err(error) => return all_failed(metrics, &error),
        };
        let figures: HashMap<(String, u64, u32), Figure> = Figure::parse_lines(&output.stdout)
            .into_iter()
            .map(|figure| ((figure.test.clone(), figure.size, figure.ranks), figure))
            .collect();
        let find = |metric: Metric| {
            let key = (program_test(metric.test)?.to_owned(), metric.size, metric.ranks);
            figures.get(&key)?.sample()
        };
        let missing = |metric: Metric| BenchError::NoFigure {
            program: "mpibench".to_owned(),
            metric: metric.to_string(),
            output: shorten(output.stdout.trim(), 200),
        };
        metrics
            .iter()
            .map(|&metric| (metric, find(metric).ok_or_else(|| missing(metric))))
            .collect()
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
        match self.launch(context, ready, ranks).args(["init"]).run() {
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
        if matches!(self.home, Home::Bowline { .. }) { Role::Ours } else { Role::Peer }
    }

    fn prepare(&mut self, context: &Context) -> Result<String, BenchError> {
        let ready = self.find(context)?;
        // One start proves launcher, library and pinning before they take part in the rounds.
        self.launch(context, &ready, 2).args(["init"]).run()?;
        self.ready = Some(ready);
        let version = match &self.home {
            Home::System { .. } | Home::Bowline { .. } => String::new(),
            Home::Wheel(package) | Home::AbiWheel { package, .. } => {
                format!("{} {}; ", package.name, package.version)
            }
        };
        Ok(format!("{version}{}", self.settings()))
    }

    fn offers(&self, metric: Metric) -> bool {
        program_test(metric.test).is_some() || metric.test == Test::Init
    }

    fn measure(&self, context: &Context, stage: Stage, metrics: &[Metric]) -> Measured {
        let Some(ready) = &self.ready else {
            return Vec::new();
        };
        match stage {
            Stage::Pair => self.figures(context, ready, 2, metrics),
            Stage::Group(ranks) => self.figures(context, ready, ranks, metrics),
            Stage::Init(ranks) => self.start_up(context, ready, ranks, metrics),
            // None of its metrics is offered.
            Stage::Death(_) => Vec::new(),
        }
    }
}

fn abi_compiler(package: Package, context: &Context) -> Result<PathBuf, BenchError> {
    Ok(package.environment(context)?.join("bin/mpicc_abi"))
}

/// The benchmark program's name of a test, if it has it.
fn program_test(test: Test) -> Option<&'static str> {
    match test {
        Test::MpiLat => Some("lat"),
        Test::MpiRate => Some("rate"),
        Test::MpiBw => Some("bw"),
        Test::Barrier => Some("barrier"),
        Test::Allreduce => Some("allreduce"),
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
        assert_eq!(order(Metric::group(Test::Barrier, 0, 8), 2.5).unwrap(), "barrier:0:1:2.5");
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
}
