//! Programs of ours against what others have published: numpy programs through mpi4py, and programs that
//! are compiled against one library and run with another.
//!
//! ```text
//!   examples/python/*.py           under our launcher, on several numbers of ranks
//!   tests/published/exchange.c,    compiled by our wrapper and by that of the Python wheel `mpich`,
//!   templates.cpp of the C library each run by both launchers, with the library of the launcher
//! ```
//! Each checks what it does itself. None may fail: there is no list.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Job, Places, succeed};

/// What there is in the directory of examples.
const NUMPY: [&str; 3] = ["cg", "fft", "farm"];

/// The other library: a release whose wrapper compiles for the ABI.
const WHEEL: &str = "mpich==5.0.2";

/// Ranks of the programs that are exchanged.
const RANKS: [u32; 2] = [2, 3];

/// Runs the numpy programs; how many jobs.
pub(super) fn numpy(places: &Places, only: &str, ranks: &[u32]) -> Result<usize> {
    let mut jobs = 0;
    for name in NUMPY.iter().filter(|name| format!("numpy.{name}").contains(only)) {
        let script = places.root.join("examples/python").join(format!("{name}.py"));
        for &ranks in ranks {
            let job = Job::start(places, ranks, &places.python(), &[&script], name)?;
            let (code, said) = job.end()?;
            ensure!(code == Some(0), "{name} on {ranks} ranks ended with {code:?}:\n{said}");
            jobs += 1;
        }
    }
    Ok(jobs)
}

/// Gets the wheel. The inner error: it cannot be had here.
pub(super) fn prepare(places: &Places) -> Result<Result<()>> {
    let environment = wheel(places);
    if environment.join("bin/mpicc_abi").exists() {
        return Ok(Ok(()));
    }
    if let Err(why) = succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment)) {
        return Ok(Err(why));
    }
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]);
    Ok(succeed(pip.arg(WHEEL)))
}

fn wheel(places: &Places) -> PathBuf {
    places.made.join("mpich")
}

/// One of the two sides: a wrapper for each language, and a launcher with a library.
struct Side {
    name: &'static str,
    wrappers: [PathBuf; 2],
    launcher: PathBuf,
    library: PathBuf,
    /// How the version of its library begins.
    version: &'static str,
}

/// Compiles on each side and runs on both; how many jobs.
pub(super) fn exchange(places: &Places) -> Result<usize> {
    let (ours, theirs) = (places.prefix(), wheel(places));
    let sides = [
        Side {
            name: "ours",
            wrappers: ["mpicc", "mpicxx"].map(|name| ours.join("bin").join(name)),
            launcher: ours.join("bin/mpiexec"),
            library: ours.join("lib"),
            version: "Bowline",
        },
        Side {
            name: "theirs",
            wrappers: ["mpicc_abi", "mpicxx_abi"].map(|name| theirs.join("bin").join(name)),
            launcher: theirs.join("bin/mpiexec"),
            library: theirs.join("lib"),
            version: "MPICH",
        },
    ];
    let sources = [
        (0, "-std=c11", places.root.join("tests/published/exchange.c")),
        (1, "-std=c++17", places.root.join("mpi-layer/abi/tests/cxx/templates.cpp")),
    ];
    let mut jobs = 0;
    for from in &sides {
        for (language, standard, source) in &sources {
            let stem = source.file_stem().context("a source has a name")?.to_string_lossy();
            let program = places.results().join(format!("{stem}.{}", from.name));
            let wrapper = &from.wrappers[*language];
            succeed(Command::new(wrapper).arg(standard).arg(source).arg("-o").arg(&program))?;
            for to in &sides {
                for ranks in RANKS {
                    run(places, &program, to, ranks)?;
                    jobs += 1;
                }
            }
        }
    }
    Ok(jobs)
}

fn run(places: &Places, program: &Path, to: &Side, ranks: u32) -> Result<()> {
    let mut command = Command::new(&to.launcher);
    command.args(["-n", &ranks.to_string()]).arg(program).arg(to.version);
    // What a program was linked with stands in its run path, which this goes before.
    command.env("LD_LIBRARY_PATH", &to.library);
    let stem = program.file_name().context("a program has a name")?.to_string_lossy();
    let (code, said) =
        Job::launch(places, &mut command, &format!("{stem}.{}.{ranks}", to.name))?.end()?;
    let what = || format!("{} on {ranks} ranks with {}", program.display(), to.name);
    ensure!(code == Some(0), "{} ended with {code:?}:\n{said}", what());
    ensure!(said.matches("ok").count() == ranks as usize, "{}:\n{said}", what());
    Ok(())
}
