//! `bowline run`, and the command line as a whole.

use std::process::Stdio;

use crate::common::{bowline, command, finish, wait};

#[test]
fn every_rank_runs_the_program() {
    let out = bowline(["run", "-n", "3", "sh", "-c", "echo rank $PMI_RANK of $PMI_SIZE"]).success();
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"]);
}

#[test]
fn arguments_of_the_program_are_its_own() {
    let out = bowline(["run", "-n", "1", "echo", "-n", "4", "--label", "--json"]).success();
    assert_eq!(out, "4 --label --json");
    let script = ["sh", "-c", "printf '%s.' \"$@\"", "sh", "--help", "-n", "--"];
    let out = bowline(["run", "-n", "1", "--"].iter().chain(&script)).success();
    assert_eq!(out, "--help.-n.--.");
}

#[test]
fn labels_name_the_rank() {
    let out = bowline(["run", "-n", "2", "--label", "echo", "here"]).success();
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].contains('0') && lines[0].ends_with("here"), "{out}");
    assert!(lines[1].contains('1') && lines[1].ends_with("here"), "{out}");
}

#[test]
fn the_exit_code_is_that_of_the_failure() {
    let script = "if [ $PMI_RANK = 1 ]; then exit 7; fi; sleep 100";
    let err = bowline(["run", "-n", "2", "sh", "-c", script]).failure(7);
    assert!(err.contains("rank 1"), "{err}");
    let err = bowline(["run", "-n", "1", "sh", "-c", "kill -9 $$"]).failure(137);
    assert!(err.contains("SIGKILL"), "{err}");
}

#[test]
fn others_go_on_where_that_is_asked_for() {
    let script = "if [ $PMI_RANK = 1 ]; then exit 7; fi; sleep 0.3; echo went on";
    let ended = bowline(["run", "-n", "2", "--on-failure", "continue", "sh", "-c", script]);
    assert!(ended.out.contains("went on"), "{ended:?}");
    ended.failure(7);
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let ended = bowline(["run", "-n", "2", "--timeout", "0.3", "sleep", "100"]);
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
}

#[test]
fn a_program_that_is_not_there_has_the_code_of_shells() {
    for (program, code, remedy) in [
        ("./no-such-program", 127, "as seen from the directory of the ranks"),
        ("no-such-program", 127, "PATH"),
        // The tests run beside it.
        ("./Cargo.toml", 126, "chmod +x"),
    ] {
        let err = bowline(["run", "-n", "1", program]).failure(code);
        assert!(err.contains(program) && err.contains(remedy), "{err}");
    }
}

#[test]
fn wrong_arguments_are_named() {
    for (args, expected) in [
        (&["run", "-n", "0", "true"][..], "0"),
        (&["run", "-n", "x", "true"], "'x'"),
        (&["run", "-n", "2"], "PROGRAM"),
        (&["run", "true"], "--ranks"),
        (&["run", "-n", "1", "--bind", "moon", "true"], "moon"),
        (&["run", "-n", "1", "--timeout", "-3", "true"], "-3"),
        (&["run", "-n", "1", "--no-such-option", "true"], "--no-such-option"),
        (&["rum"], "'run'"),
        (&["demo", "sotr"], "'sort'"),
    ] {
        let err = bowline(args).failure(2);
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

#[test]
fn help_has_examples() {
    for args in
        [&["--help"][..], &["run", "--help"], &["perf", "--help"], &["demo", "sort", "--help"]]
    {
        let out = bowline(args).success();
        assert!(out.contains("Example"), "{args:?}: {out}");
    }
    assert!(bowline(["--version"]).success().starts_with("bowline "));
}

#[test]
fn a_bad_setting_is_an_error_and_an_unknown_one_a_warning() {
    let mut bad = command(["run", "-n", "1", "true"]);
    bad.env("BOWLINE_WAIT_YIELDS", "many");
    let err = finish(bad).failure(1);
    assert!(err.contains("BOWLINE_WAIT_YIELDS") && err.contains("whole number"), "{err}");

    let mut unknown = command(["run", "-n", "1", "true"]);
    unknown.env("BOWLINE_WAIT_YIELD", "5");
    let ended = finish(unknown);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.err.matches("BOWLINE_WAIT_YIELD is not a setting").count(), 1, "{ended:?}");
    assert!(ended.err.contains("BOWLINE_WAIT_YIELDS"), "{ended:?}");

    let mut log = command(["info", "--config"]);
    log.env("BOWLINE_LOG", "loud=very=much");
    let err = finish(log).failure(1);
    assert!(err.contains("BOWLINE_LOG") && err.contains("expected"), "{err}");
}

#[test]
fn an_error_is_reported_once_with_its_reason() {
    for (setting, shown) in [
        ("BOWLINE_BCAST", "is no algorithm of bcast"),
        ("BOWLINE_COLL_COSTS", "is no cost of messages"),
    ] {
        let mut bad = command(["explain", "--collective", "bcast"]);
        bad.env(setting, "nonsense");
        let err = finish(bad).failure(1);
        assert!(err.contains(setting) && err.matches(shown).count() == 1, "{err}");
    }
}

/// As in `bowline run ... 2>&1 | head -1`.
#[test]
fn a_closed_error_stream_does_not_change_the_exit_code() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command(["run", "-n", "1", "sh", "-c", "exit 7"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    assert_eq!(wait(&mut command, &mut []), Some(7));
}

#[test]
fn the_log_filter_is_no_unknown_setting() {
    let mut command = command(["run", "-n", "1", "true"]);
    command.env("BOWLINE_LOG", "warn");
    let ended = finish(command);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}
