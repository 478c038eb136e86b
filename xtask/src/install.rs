//! `cargo xtask install --prefix DIR`: what MPI programs need, where people and build systems search
//! for it.
//!
//! ```text
//!   bin/      bowline, mpiexec and mpirun (links to it), mpicc, mpicxx, mpic++ and mpiCC (links)
//!   include/  mpi.h
//!   lib/      libmpi_abi.so.1, libmpi_abi.so (a link), pkgconfig/bowline-mpi.pc
//!   share/    doc/bowline
//! ```
//!
//! Nothing in there names the directory, so it may be moved. A file takes the place of an older one
//! at once and whole: programs that run keep what they have. The compiler wrapper is a script for
//! `/bin/sh`, since people read wrappers and it has nothing to do that is worth a program.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::workspace::Workspace;

/// Build and install launcher, C library and compiler wrappers
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Where bin, lib and include are or will be
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Install what the development profile makes, which is built sooner and runs slower
    #[arg(long)]
    debug: bool,
    /// Transports to build in that want a library of the system: ofi, verbs
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    features: Vec<String>,
}

/// Builds and installs.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let built = build(workspace, options)?;
    lay_out(&workspace.root, &built, &options.prefix)?;
    let prefix = options.prefix.canonicalize().context("cannot find what was installed")?;
    println!("install: Bowline is in {}", prefix.display());
    println!("install: export PATH={}/bin:$PATH", prefix.display());
    Ok(())
}

/// Builds with the development profile and installs into a directory of ours.
pub(crate) fn install(workspace: &Workspace, prefix: &Path) -> Result<()> {
    let options = Options { prefix: prefix.to_owned(), debug: true, features: Vec::new() };
    lay_out(&workspace.root, &build(workspace, &options)?, prefix)
}

/// Builds with the release profile and installs into a directory of ours.
pub(crate) fn install_fast(workspace: &Workspace, prefix: &Path) -> Result<()> {
    let options = Options { prefix: prefix.to_owned(), debug: false, features: Vec::new() };
    lay_out(&workspace.root, &build(workspace, &options)?, prefix)
}

/// Installs what the tests were built with.
pub(crate) fn install_tested(workspace: &Workspace, prefix: &Path) -> Result<()> {
    let directory = workspace.metadata.target_directory.as_std_path().join("debug");
    lay_out(&workspace.root, &Built::tested(&directory), prefix)
}

/// What cargo has made.
#[derive(Debug)]
struct Built {
    launcher: PathBuf,
    library: PathBuf,
}

impl Built {
    /// What a build of all tests leaves in the profile's directory: a library that only tests want stands
    /// beside their programs.
    fn tested(directory: &Path) -> Self {
        Self { launcher: directory.join("bowline"), library: directory.join("deps/libmpi_abi.so") }
    }
}

/// Has cargo make launcher and library, with the same transports.
fn build(workspace: &Workspace, options: &Options) -> Result<Built> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "-p", "bowline-cli", "-p", "bowline-mpi-abi"]);
    if !options.debug {
        command.arg("--release");
    }
    let both = |feature: &String| format!("bowline-cli/{feature},bowline-mpi-abi/{feature}");
    let features: Vec<String> = options.features.iter().map(both).collect();
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    let status = command.current_dir(&workspace.root).status().context("cannot start cargo")?;
    ensure!(status.success(), "cargo could not build what is to be installed");
    let profile = if options.debug { "debug" } else { "release" };
    let directory = workspace.metadata.target_directory.as_std_path().join(profile);
    Ok(Built { launcher: directory.join("bowline"), library: directory.join("libmpi_abi.so") })
}

/// Puts everything in place.
fn lay_out(root: &Path, built: &Built, prefix: &Path) -> Result<()> {
    let filled = |text: &str| text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let (bin, lib) = (prefix.join("bin"), prefix.join("lib"));
    let (include, doc) = (prefix.join("include"), prefix.join("share/doc/bowline"));
    for directory in [&bin, &include, &lib.join("pkgconfig"), &doc] {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    copy(&built.launcher, &bin.join("bowline"), 0o755)?;
    for name in ["mpiexec", "mpirun"] {
        link("bowline", &bin.join(name))?;
    }
    write(filled(include_str!("install/wrapper.sh")).as_bytes(), &bin.join("mpicc"), 0o755)?;
    for name in ["mpicxx", "mpic++", "mpiCC"] {
        link("mpicc", &bin.join(name))?;
    }
    copy(&built.library, &lib.join("libmpi_abi.so.1"), 0o755)?;
    link("libmpi_abi.so.1", &lib.join("libmpi_abi.so"))?;
    copy(&root.join("mpi-layer/abi/include/mpi.h"), &include.join("mpi.h"), 0o644)?;
    let package = filled(include_str!("install/bowline-mpi.pc"));
    write(package.as_bytes(), &lib.join("pkgconfig/bowline-mpi.pc"), 0o644)?;
    for file in ["docs/mpi.md", "docs/mpi-coverage.md", "docs/launching.md"] {
        copy(&root.join(file), &doc.join(Path::new(file).file_name().expect("a name")), 0o644)?;
    }
    for file in ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root.join(file), &doc.join(file), 0o644)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    write(&bytes, to, mode)
}

/// Writes beside the place and moves there.
fn write(bytes: &[u8], to: &Path, mode: u32) -> Result<()> {
    let new = beside(to);
    std::fs::write(&new, bytes)
        .and_then(|()| std::fs::set_permissions(&new, Permissions::from_mode(mode)))
        .and_then(|()| std::fs::rename(&new, to))
        .with_context(|| format!("cannot write {}", to.display()))
}

/// Makes the link `to`, which leads to `target` in the same directory.
fn link(target: &str, to: &Path) -> Result<()> {
    let new = beside(to);
    // One that an earlier run has left.
    let _ = std::fs::remove_file(&new);
    symlink(target, &new)
        .and_then(|()| std::fs::rename(&new, to))
        .with_context(|| format!("cannot make the link {}", to.display()))
}

fn beside(to: &Path) -> PathBuf {
    let mut name = to.file_name().expect("files have names").to_owned();
    name.push(format!(".new-{}", std::process::id()));
    to.with_file_name(name)
}

#[cfg(test)]
mod tests;
