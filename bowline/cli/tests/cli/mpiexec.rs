//! `mpiexec` and `mpirun`: this command under these names, with jobs that run.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::common::{Ended, command, finish};

/// The command, called by another name.
fn named(name: &str, args: &[&str]) -> Command {
    let mut command = command(args);
    command.arg0(name).env_remove("MPIEXEC_TIMEOUT");
    command
}

fn mpiexec(args: &[&str]) -> Ended {
    finish(named("/usr/local/bin/mpiexec", args))
}

fn sorted(out: &str) -> Vec<&str> {
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    lines
}

/// Prints who it is, what program it is of, what it was given and where it runs.
const SHOW: &str = "echo $PMI_RANK of $PMI_SIZE $A$B \"$@\" in $PWD";

#[test]
fn programs_of_one_job_have_consecutive_ranks_and_their_own_world() {
    let one = ["-genv", "A", "a", "-n", "2", "-wdir", "/usr", "sh", "-c", SHOW, "sh", "x", "y"];
    let two = ["-env", "B", "b", "-wdir", "/", "sh", "-c", SHOW, "sh"];
    let expected = ["0 of 3 a x y in /usr", "1 of 3 a x y in /usr", "2 of 3 ab in /"];
    let line = [&one[..], &[":"], &two].concat();
    assert_eq!(sorted(&mpiexec(&line).success()), expected);
    let hosts = [&["-launcher", "fork", "-hosts", "a,b"], &line[..]].concat();
    assert_eq!(sorted(&mpiexec(&hosts).success()), expected);
}

/// Asks the process manager for the number of its program, by PMI-1 as it is on the wire.
const ASK: &str = "exec 3<&$PMI_FD; ask() { echo \"$1\" >&3; read -r line <&3; }
ask 'cmd=init pmi_version=1 pmi_subversion=1'; ask cmd=get_appnum; echo $PMI_RANK $line
ask cmd=get_universe_size; echo $PMI_RANK $line; ask cmd=finalize";

#[test]
fn a_rank_gets_the_number_of_its_program() {
    // Not every shell duplicates descriptors of two digits.
    let part = ["bash", "-c", ASK];
    let line = [&["-n", "1"], &part[..], &[":", "-n", "2"], &part].concat();
    let expected: Vec<String> = [0, 1, 1]
        .iter()
        .enumerate()
        .flat_map(|(rank, program)| {
            [
                format!("{rank} cmd=appnum rc=0 appnum={program}"),
                format!("{rank} cmd=universe_size rc=0 size=3"),
            ]
        })
        .collect();
    assert_eq!(sorted(&mpiexec(&line).success()), expected);
    let hosts = [&["-launcher", "fork", "-hosts", "a,b"], &line[..]].concat();
    assert_eq!(sorted(&mpiexec(&hosts).success()), expected);
}

#[test]
fn one_programs_failure_ends_the_others() {
    for places in [&[][..], &["-launcher", "fork", "-hosts", "a,b"]] {
        let parts = ["-n", "2", "sleep", "100", ":", "-n", "1", "sh", "-c", "exit 7"];
        let err = mpiexec(&[places, &parts].concat()).failure(7);
        assert!(err.contains("rank 2"), "{err}");
        let parts = ["-n", "1", "sh", "-c", "kill -9 $$", ":", "-n", "2", "sleep", "100"];
        let err = mpiexec(&[places, &parts].concat()).failure(137);
        assert!(err.contains("rank 0") && err.contains("SIGKILL"), "{err}");
    }
    let parts = ["-n", "1", "sleep", "100", ":", "-n", "1", "./no-such-program"];
    let err = mpiexec(&parts).failure(127);
    assert!(err.contains("no-such-program") && err.contains("rank 1"), "{err}");
    let on = ["-disable-auto-cleanup", "sh", "-c", "sleep 0.3; echo on", ":", "sh", "-c", "exit 3"];
    let ended = mpiexec(&on);
    assert_eq!(ended.out.trim(), "on");
    ended.failure(3);
}

#[test]
fn wrong_command_lines_start_nothing() {
    for (args, expected) in [
        (&["-frobnicate", "echo", "started"][..], "-frobnicate"),
        (&["-n", "2", "echo", "started", ":"], "program"),
        (&["-n", "0", "echo", "started"], "from 1 on"),
        (&["-genvnone", "echo", "started"], "env -i"),
        (
            &["-host", "a", "echo", "started", ":", "echo", ":", "-host", "b", "echo"],
            "each program",
        ),
    ] {
        let ended = mpiexec(args);
        assert_eq!(ended.out, "", "{args:?}");
        let err = ended.failure(2);
        assert!(err.contains(expected) && err.starts_with("mpiexec: "), "{args:?}: {err}");
    }
}

#[test]
fn options_that_are_not_followed_are_reported_and_the_others_are() {
    let ended =
        finish(named("mpirun", &["--mca", "btl", "tcp", "--tag-output", "-np", "1", "echo", "x"]));
    assert!(ended.err.starts_with("mpirun: --mca is not followed"), "{ended:?}");
    let out = ended.success();
    assert!(out.trim().ends_with('x') && out.trim() != "x", "{out}");
    let quiet = mpiexec(&["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "true"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
    let mut limited = named("mpiexec", &["sleep", "100"]);
    limited.env("MPIEXEC_TIMEOUT", "0.3");
    assert_ne!(finish(limited).code, Some(0));
    let version = finish(named("mpirun", &["--version"])).success();
    assert!(version.starts_with("mpirun (Bowline) "), "{version}");
    assert!(mpiexec(&["-help"]).success().contains("-configfile"));
}

#[test]
fn the_first_rank_reads_the_input() {
    let mut command = named("mpiexec", &["-n", "1", "cat", ":", "-n", "1", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"words\n").unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    assert_eq!(out.stdout, b"words\n");
}
