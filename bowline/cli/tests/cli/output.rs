//! Output that cannot be written, and readers that want no more of it.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::common::{command, errors};

/// The exit code and the errors of a command whose output goes to a full disk.
fn full(args: &[&str]) -> (Option<i32>, String) {
    let mut command = command(args);
    command.stdout(OpenOptions::new().write(true).open("/dev/full").unwrap());
    errors(command)
}

#[test]
fn output_that_is_lost_is_a_failure_that_is_reported_once() {
    for args in [
        &["--version"][..],
        &["help", "run"],
        &["info", "--config"],
        &["run", "-n", "2", "--label", "--", "echo", "hi"],
        &["run", "-n", "2", "--hosts", "a,b", "--agent-command", "env", "--", "echo", "hi"],
    ] {
        let (code, err) = full(args);
        assert!(code.is_some_and(|code| code != 0), "{args:?}: {code:?} {err}");
        assert_eq!(err.matches("No space left").count(), 1, "{args:?}: {err}");
    }
}

/// As in `bowline explain | head -1`.
#[test]
fn a_reader_that_has_gone_is_no_failure() {
    for args in [
        &["--version"][..],
        &["explain", "-n", "3"],
        &["perf", "mpi_lat", "--iterations", "10"],
        &["run", "-n", "2", "--label", "--", "echo", "hi"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(args);
        command.stdout(Stdio::from(writer));
        assert_eq!(errors(command), (Some(0), String::new()), "{args:?}");
    }
}
