//! rsmpi, the crate `mpi`, built against our compiler wrapper, and its examples and tests.
//!
//! Its examples check what they do themselves.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::list::{Ended, Results};
use super::{Job, Places, succeed};

const VERSION: &str = "0.8.2";

/// Most examples want a partner.
const RANKS: [u32; 3] = [2, 3, 4];

/// What its C part and its bindings are compiled with: the names of Fortran's handles are no part of the ABI.
const DEFINES: &str = "-DBOWLINE_MPI_FINT";

/// All that are not needed to build the crate.
const FEATURES: &str = "--features=derive,complex";

/// What cargo says of packages.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

pub(super) fn title() -> String {
    format!("rsmpi {VERSION}")
}

/// Gets the source and builds it. The inner error: it cannot be had here.
pub(super) fn prepare(places: &Places) -> Result<Result<()>> {
    let source = match fetch(places) {
        Ok(source) => source,
        Err(why) => return Ok(Err(why)),
    };
    let own = places.made.join("rsmpi");
    if !own.join("Cargo.toml").exists() {
        succeed(Command::new("cp").arg("-r").arg(source).arg(&own))?;
        // It is no part of the workspace that it lies in.
        let manifest = std::fs::OpenOptions::new().append(true).open(own.join("Cargo.toml"));
        let closed = manifest.and_then(|mut file| file.write_all(b"\n[workspace]\n"));
        closed.context("cannot complete rsmpi's Cargo.toml")?;
    }
    let built = succeed(cargo(places, &own).args(["build", "--examples", "--tests", FEATURES]));
    built.context("cannot build rsmpi with our mpicc")?;
    Ok(Ok(()))
}

fn cargo(places: &Places, directory: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(directory)
        .env("MPICC", places.prefix().join("bin/mpicc"))
        .env("CFLAGS", DEFINES)
        .env("BINDGEN_EXTRA_CLANG_ARGS", DEFINES)
        .env("CARGO_TARGET_DIR", places.made.join("rsmpi-target"));
    command
}

/// Has cargo get the package; where it lies.
fn fetch(places: &Places) -> Result<PathBuf> {
    let asking = places.made.join("rsmpi-wanted");
    std::fs::create_dir_all(asking.join("src"))
        .with_context(|| format!("cannot make {asking:?}"))?;
    let manifest = format!(
        "[package]\nname = \"wanted\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\n\
         mpi = {{ version = \"={VERSION}\", features = [\"derive\", \"complex\"] }}\n[workspace]\n"
    );
    std::fs::write(asking.join("Cargo.toml"), manifest)
        .and_then(|()| std::fs::write(asking.join("src/lib.rs"), ""))
        .with_context(|| format!("cannot write to {asking:?}"))?;
    let output = cargo(places, &asking)
        .args(["metadata", "--format-version", "1", "--quiet"])
        .output()
        .context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "cargo does not get it: {}",
        said.lines().last().unwrap_or("")
    );
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let package = metadata.packages.into_iter().find(|package| package.name == "mpi");
    let manifest = package.context("cargo metadata does not name the package")?.manifest_path;
    Ok(manifest.parent().context("a manifest lies in a directory")?.to_owned())
}

/// Runs examples and tests whose names have `only` in them.
pub(super) fn run(places: &Places, only: &str) -> Result<Results> {
    let mut all = Results::new();
    let debug = places.made.join("rsmpi-target/debug");
    let sources = places.made.join("rsmpi/examples");
    let mut examples = Vec::new();
    for entry in std::fs::read_dir(&sources).with_context(|| format!("cannot read {sources:?}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        examples.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    examples.sort_unstable();
    for example in examples.iter().filter(|name| format!("example.{name}").contains(only)) {
        for ranks in RANKS {
            let job =
                Job::start(places, ranks, &debug.join("examples").join(example), &[], example)?;
            let (status, said) = job.end()?;
            let ended = match status {
                Some(0) => Ended::Passed,
                Some(code) => Ended::Failed(format!("ended with {code}: {}", tail(&said))),
                None => Ended::Failed(format!("does not end: {}", tail(&said))),
            };
            all.insert((ranks, format!("example.{example}")), ended);
        }
    }
    if "test.".contains(only) || only.starts_with("test.") {
        let tested = cargo(places, &places.made.join("rsmpi"))
            .args(["test", "--quiet", "--tests", FEATURES])
            .env("LD_LIBRARY_PATH", places.prefix().join("lib"))
            .output()
            .context("cannot start cargo")?;
        let said = String::from_utf8_lossy(&[tested.stdout, tested.stderr].concat()).into_owned();
        let ended = match tested.status.success() {
            true => Ended::Passed,
            false => Ended::Failed(tail(&said)),
        };
        all.insert((1, "test.all".to_owned()), ended);
    }
    Ok(all)
}

/// The end of what was printed, with what the library said.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(6)..].join(" | ")
}
