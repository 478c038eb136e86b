//! Running the real command with a watchdog.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest run of one command. Far beyond what any of them takes.
const LIMIT: Duration = Duration::from_secs(120);

/// How a command ended and what it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// The standard output of a command that must have succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.out
    }

    /// The standard error stream of a command that must have failed with `code`.
    #[track_caller]
    pub(crate) fn failure(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self.err
    }
}

/// The command with these arguments, in an environment without settings.
pub(crate) fn command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BOWLINE_") {
            command.env_remove(name);
        }
    }
    command.args(args);
    command
}

/// Runs `bowline` with these arguments.
pub(crate) fn bowline<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ended {
    finish(command(args))
}

/// Runs a command to its end, or kills it after [`LIMIT`] and fails the test. Its output goes to
/// files, so that a full pipe cannot hold it up.
#[track_caller]
pub(crate) fn finish(mut command: Command) -> Ended {
    let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdin(Stdio::null());
    command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let code = wait(&mut command, &mut [&mut out, &mut err]);
    Ended { code, out: read(&mut out), err: read(&mut err) }
}

/// Runs it to its end, or kills it and shows what it wrote to these files.
#[track_caller]
pub(crate) fn wait(command: &mut Command, written: &mut [&mut File]) -> Option<i32> {
    let mut child = command.spawn().expect("the command can be started");
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            let written: Vec<String> = written.iter_mut().map(|file| read(file)).collect();
            panic!("{command:?} hangs\n{}", written.join("\n"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command whose standard output has been chosen; its exit code and errors.
#[track_caller]
pub(crate) fn errors(mut command: Command) -> (Option<i32>, String) {
    let mut err = tempfile::tempfile().unwrap();
    command.stdin(Stdio::null()).stderr(err.try_clone().unwrap());
    let code = wait(&mut command, &mut [&mut err]);
    (code, read(&mut err))
}

fn read(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}
