//! Instructions of functions of the C library: a C program as a job of two ranks, each under callgrind.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::instructions::{callgrind_options, total_of};
use crate::workspace::Workspace;

/// The program, ready to run.
pub(super) struct Job {
    directory: PathBuf,
    launcher: PathBuf,
}

impl Job {
    /// Builds library, launcher and program.
    pub(super) fn build(workspace: &Workspace) -> Result<Self> {
        super::build_release(workspace, &["-p", "bowline-mpi-abi", "-p", "bowline-cli"])?;
        let release = workspace.metadata.target_directory.as_std_path().join("release");
        let directory = workspace.metadata.target_directory.as_std_path().join("xtask/c");
        let _ = std::fs::remove_dir_all(&directory);
        let cannot = || format!("cannot make {}", directory.display());
        std::fs::create_dir_all(&directory).with_context(cannot)?;
        for name in ["libmpi_abi.so", "libmpi_abi.so.1"] {
            symlink(release.join("libmpi_abi.so"), directory.join(name)).with_context(cannot)?;
        }
        let output = Command::new("cc")
            .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(workspace.root.join("mpi-layer/abi/include"))
            .arg(workspace.root.join("xtask/src/bench/instructions.c"))
            .arg("-o")
            .arg(directory.join("instructions"))
            .arg("-L")
            .arg(&directory)
            .arg("-lmpi_abi")
            .arg(format!("-Wl,-rpath,{}", directory.display()))
            .output()
            .context("cannot start cc")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cc fails:\n{said}");
        Ok(Self { directory, launcher: release.join("bowline") })
    }

    /// Instructions inside `measured_NAME`, of both ranks.
    pub(super) fn collected(&self, name: &str, calls: u64) -> Result<u64> {
        let outputs = |directory: &Path| -> Result<Vec<PathBuf>> {
            let entries = std::fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
            let paths = entries.into_iter().map(|entry| entry.path());
            Ok(paths.filter(|path| is_output(path)).collect())
        };
        for old in outputs(&self.directory)? {
            std::fs::remove_file(old)?;
        }
        // Where the ranks meet.
        let meeting = self.directory.join("meeting");
        std::fs::write(&meeting, [0; 4096])?;
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(self.directory.join(format!("{OUTPUT}%p")));
        let output = Command::new(&self.launcher)
            .args(["run", "-n", "2", "valgrind"])
            .args(callgrind_options(name))
            .arg(out)
            .arg(self.directory.join("instructions"))
            .args([name, &calls.to_string()])
            .arg(&meeting)
            .output()
            .context("cannot start the launcher")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("the job fails in mode {name}: {}\n{said}", output.status);
        }
        let outputs = outputs(&self.directory)?;
        ensure!(outputs.len() == 2, "callgrind left {} files for two ranks", outputs.len());
        outputs.iter().map(|path| total_of(path)).sum()
    }
}

/// What callgrind's files begin with.
const OUTPUT: &str = "callgrind.out.";

fn is_output(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OUTPUT))
}
