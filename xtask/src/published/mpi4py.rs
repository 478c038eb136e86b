//! mpi4py, built from its source for the MPI ABI, and its own tests on several numbers of ranks.
//!
//! Each module of tests is a job of its own, so that one that ends badly takes no other with it. A module
//! that does not end is ended, and the test that was open then has failed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::list::{Ended, JOB_ENDED, List, Results, UNSUPPORTED};
use super::{Job, Places, succeed};

const VERSION: &str = "4.1.2";

/// A line that `record.py` writes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Begin { begin: String },
    End { end: String, how: How, why: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    Passed,
    Skipped,
    Failed,
}

pub(super) fn title() -> String {
    format!("mpi4py {VERSION}")
}

/// Runs the modules of tests whose names have `only` in them.
pub(super) fn run(places: &Places, list: &List, only: &str, ranks: &[u32]) -> Result<Results> {
    let tests = places.made.join("source").join(format!("mpi4py-{VERSION}/test"));
    let modules = modules(&tests)?;
    let chosen: Vec<&String> =
        modules.iter().filter(|name| name.contains(only) && !list.leaves(name)).collect();
    let mut all = Results::new();
    for (number, module) in chosen.iter().enumerate() {
        for &ranks in ranks {
            let begin = Instant::now();
            let these = run_module(places, &tests, module, ranks)?;
            let failed = these.values().filter(|ended| matches!(ended, Ended::Failed(_))).count();
            println!(
                "published: {:>2}/{} {module} on {ranks}: {} tests, {failed} failed, {:.1} s",
                number + 1,
                chosen.len(),
                these.len(),
                begin.elapsed().as_secs_f64()
            );
            all.extend(these);
        }
    }
    Ok(all)
}

/// Makes the environment and gets the source. The inner error: they cannot be had here.
pub(super) fn prepare(places: &Places) -> Result<Result<()>> {
    let source = places.made.join("source");
    let built = places.made.join("built");
    // What it was built from: another header or wrapper wants another build.
    let mut key = VERSION.as_bytes().to_vec();
    for part in ["include/mpi.h", "bin/mpicc"] {
        let path = places.prefix().join(part);
        key.extend(std::fs::read(&path).with_context(|| format!("cannot read {path:?}"))?);
    }
    if std::fs::read(&built).is_ok_and(|before| before == key) {
        return Ok(Ok(()));
    }
    let environment = places.made.join("python");
    if !places.python().exists()
        && let Err(why) = succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))
    {
        return Ok(Err(why));
    }
    let pip = || {
        let mut command = Command::new(places.python());
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
        command
    };
    let package = format!("mpi4py=={VERSION}");
    let fetched = pip()
        .args(["download", "--no-deps", "--no-binary", "mpi4py", &package, "--dest"])
        .arg(&source)
        .env("MPI4PY_BUILD_MPIABI", "1")
        .env("MPICC", places.prefix().join("bin/mpicc"))
        .status();
    let fetched = fetched.context("cannot start pip")?;
    if !fetched.success() {
        return Ok(Err(anyhow::anyhow!("pip does not get it from its registry")));
    }
    if let Err(why) = succeed(pip().args(["install", "numpy"])) {
        return Ok(Err(why));
    }
    let archive = source.join(format!("mpi4py-{VERSION}.tar.gz"));
    succeed(Command::new("tar").arg("-C").arg(&source).arg("-xzf").arg(archive))?;
    // From here on a failure is ours. What is tested is the library, so nothing is optimised.
    let built_now = succeed(
        pip()
            .args(["install", "--no-deps", "--force-reinstall"])
            .arg(source.join(format!("mpi4py-{VERSION}")))
            .env("MPI4PY_BUILD_MPIABI", "1")
            .env("MPICC", places.prefix().join("bin/mpicc"))
            .env("CFLAGS", "-O0"),
    );
    built_now.context("cannot build mpi4py with our mpicc")?;
    std::fs::write(&built, key).with_context(|| format!("cannot write {built:?}"))?;
    Ok(Ok(()))
}

fn modules(tests: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(tests).with_context(|| format!("cannot read {tests:?}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(module) = name.strip_suffix(".py").filter(|name| name.starts_with("test_")) {
            found.insert(module.to_owned());
        }
    }
    Ok(found)
}

fn run_module(places: &Places, tests: &Path, module: &str, ranks: u32) -> Result<Results> {
    let output = places.results().join(format!("{module}.{ranks}"));
    let script = places.root.join("tests/published/record.py");
    let words = [&*script, tests, Path::new(module), &*output];
    let job = Job::start(places, ranks, &places.python(), &words, module)?;
    let (status, said) = job.end()?;
    let mut all = Results::new();
    let mut open = BTreeSet::new();
    for rank in 0..ranks {
        open.extend(read(&output, rank, ranks, &mut all)?);
    }
    for test in open {
        let why = "it was under way when the job ended".to_owned();
        all.insert((ranks, test), Ended::Failed(why));
    }
    let why = match status {
        Some(0) => return Ok(all),
        Some(code) => format!("the job ended with {code}"),
        None => "the job did not end".to_owned(),
    };
    let last = said.lines().last().unwrap_or_default();
    all.insert((ranks, format!("{module}{JOB_ENDED}")), Ended::Failed(format!("{why}: {last}")));
    Ok(all)
}

/// Adds what one rank has written; returns the tests that it has begun and not ended.
fn read(output: &Path, rank: u32, ranks: u32, all: &mut Results) -> Result<BTreeSet<String>> {
    let path = PathBuf::from(format!("{}.{rank}", output.display()));
    let mut open = BTreeSet::new();
    // A rank that ended before its first test has no file; the job has failed then.
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Begin { begin }) => {
                open.insert(begin);
            }
            Ok(Line::End { end, how, why }) => {
                open.remove(&end);
                let ended = match how {
                    How::Passed => Ended::Passed,
                    How::Skipped => Ended::Skipped,
                    How::Failed => Ended::Failed(why),
                };
                let worst = all.entry((ranks, end)).or_insert_with(|| ended.clone());
                // One rank's complaint that a function is not there says more than another's of what
                // followed from it.
                let says_more = matches!(&ended, Ended::Failed(why) if why.contains(UNSUPPORTED));
                if *worst < ended && !matches!(worst, Ended::Failed(_)) || says_more {
                    *worst = ended;
                }
            }
            // The last line of a rank that was killed.
            Err(_) if !text.ends_with('\n') => {}
            Err(error) => bail!("{}: {error}: {line}", path.display()),
        }
    }
    Ok(open)
}
