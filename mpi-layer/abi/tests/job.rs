//! C programs made and run.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bowline_launch::run::{OnFailure, RunOptions, run};

/// The word that makes this program a launcher.
pub(crate) const LAUNCH: &str = "launch-a-job";

/// The same for a job that goes on when a rank has failed.
pub(crate) const LAUNCH_ON: &str = "launch-a-job-that-goes-on";

/// Far beyond what any of the programs takes, under valgrind on a busy machine, too: it distinguishes a hang from a slow machine.
const WATCHDOG: Duration = Duration::from_secs(600);

/// Runs a job: so many ranks of a program with arguments.
pub(crate) fn launch(words: &[String], on_failure: OnFailure) -> ExitCode {
    let [ranks, program, arguments @ ..] = words else { return ExitCode::from(99) };
    let mut options = RunOptions::new(ranks.parse().expect("a number of ranks"), program);
    let config = bowline::config_from_env().expect("settings without errors");
    options.area_bytes = bowline::stack::area_bytes(&config);
    options.on_failure = on_failure;
    options.args = arguments.iter().map(Into::into).collect();
    match run(&options) {
        Ok(report) => ExitCode::from(report.code as u8),
        Err(error) => {
            eprintln!("bowline: {error}");
            ExitCode::from(98)
        }
    }
}

/// How a program ended and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The directory of the crate.
fn own() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where programs go, with the library under the names for which compiler and loader search.
fn workshop() -> &'static Path {
    static WORKSHOP: OnceLock<tempfile::TempDir> = OnceLock::new();
    let workshop = WORKSHOP.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["libmpi_abi.so", "libmpi_abi.so.1"] {
            let link = directory.path().join(name);
            std::os::unix::fs::symlink(library(), link).expect("a link");
        }
        directory
    });
    workshop.path()
}

/// The library, which cargo has put beside this program.
pub(crate) fn library() -> PathBuf {
    let program = std::env::current_exe().expect("an own file");
    let library = program.with_file_name("libmpi_abi.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// Compiles a file below `c`; more words may follow.
pub(crate) fn compiled(file: &str, words: &[&str]) -> PathBuf {
    made("cc", &["-std=c11", "-D_GNU_SOURCE"], &own().join("tests/c").join(file), words)
}

/// Whether there is a compiler of C++.
pub(crate) fn has_cxx() -> bool {
    Command::new("c++").arg("--version").stdout(Stdio::null()).status().is_ok()
}

/// Runs a file below `cxx` as a job.
pub(crate) fn cxx_job(ranks: u32, file: &str) -> Ended {
    launched(ranks, &made("c++", &["-std=c++17"], &own().join("tests/cxx").join(file), &[]))
}

fn made(compiler: &str, language: &[&str], source: &Path, words: &[&str]) -> PathBuf {
    let program = workshop().join(source.file_stem().expect("a file's name"));
    let output = Command::new(compiler)
        .args(language)
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(words)
        .arg("-I")
        .arg(own().join("include"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(workshop())
        .args(["-lmpi_abi", "-lm"])
        .arg(format!("-Wl,-rpath,{}", workshop().display()))
        .output()
        .unwrap_or_else(|error| panic!("{compiler} cannot be started: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{said}", source.display());
    program
}

/// Runs a file below `c` as a job.
pub(crate) fn job(ranks: u32, file: &str, arguments: &[&str]) -> Ended {
    job_with(ranks, file, arguments, &[])
}

/// [`job`] with variables in the environment.
pub(crate) fn job_with(
    ranks: u32,
    file: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Ended {
    let mut command = launcher(ranks, &compiled(file, &[]));
    command.args(arguments).envs(variables.iter().copied());
    ended(command)
}

fn launched(ranks: u32, program: &Path) -> Ended {
    ended(launcher(ranks, program))
}

/// [`job`] that goes on when a rank has failed.
pub(crate) fn surviving_job(ranks: u32, file: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(std::env::current_exe().expect("an own file"));
    command.args([LAUNCH_ON, &ranks.to_string()]).arg(compiled(file, &[])).args(arguments);
    ended(command)
}

fn launcher(ranks: u32, program: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("an own file"));
    command.arg(LAUNCH).arg(ranks.to_string()).arg(program);
    command
}

/// The code with which [`checked_job`] ends where memory is lost or wrongly used.
pub(crate) const LOST: i32 = 77;

/// [`job`] with each rank under valgrind; `None` where that is not installed.
pub(crate) fn checked_job(ranks: u32, file: &str) -> Option<Ended> {
    Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().ok()?;
    let program = compiled(file, &["-g"]);
    let mut command = Command::new(std::env::current_exe().expect("an own file"));
    command.args([LAUNCH, &ranks.to_string(), "valgrind", "-q", "--leak-check=full"]);
    command.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
    command.arg(format!("--error-exitcode={LOST}")).arg(program);
    Some(ended(command))
}

/// Runs a program that nobody launches.
pub(crate) fn alone(file: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(compiled(file, &[]));
    command.args(arguments);
    ended(command)
}

/// Runs a program that was made before, as nobody's job.
pub(crate) fn started(program: &Path) -> Ended {
    ended(Command::new(program))
}

fn ended(mut command: Command) -> Ended {
    // Files, so that nobody waits for the end of a pipe.
    let file = || tempfile::tempfile().expect("a file");
    let (mut stdout, mut stderr) = (file(), file());
    let copy = |file: &std::fs::File| Stdio::from(file.try_clone().expect("a descriptor"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        // The tests' own settings are none of the library's, which would warn of them.
        if text.starts_with("PMI") || text.starts_with("BOWLINE_TEST_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .env_remove("BOWLINE_JOB_FD")
        .stdin(Stdio::null())
        .stdout(copy(&stdout))
        .stderr(copy(&stderr))
        .spawn()
        .expect("it can be started");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            break Some(status);
        }
        if began.elapsed() > WATCHDOG {
            child.kill().expect("it is a child");
            child.wait().expect("it is a child");
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |file: &mut std::fs::File| {
        let mut bytes = Vec::new();
        file.rewind().expect("a file");
        file.read_to_end(&mut bytes).expect("a file");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (stdout, stderr) = (text(&mut stdout), text(&mut stderr));
    let status = status.unwrap_or_else(|| panic!("hangs; it has said:\n{stdout}\n{stderr}"));
    Ended { code: status.code(), stdout, stderr }
}
