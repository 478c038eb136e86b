//! Settings and options that cannot have an effect are errors, before anything is started or written.

use std::fs;

use crate::common::{bowline, command, finish};

/// The error of a command line with settings, which must fail.
fn refused(args: &[&str], settings: &[(&str, &str)]) -> String {
    let mut command = command(args);
    command.envs(settings.iter().copied());
    let ended = finish(command);
    assert_eq!(ended.code, Some(1), "{args:?} {settings:?}: {ended:?}");
    assert!(!ended.err.contains("panicked"), "{ended:?}");
    ended.err
}

#[test]
fn run_names_a_bad_setting_once_and_starts_nobody() {
    let started = tempfile::tempdir().unwrap();
    let mark = started.path().join("mark");
    let args = ["run", "-n", "3", "touch", mark.to_str().unwrap()];
    for (name, value) in [
        ("BOWLINE_TRANSPORTS", "self,smoke"),
        ("BOWLINE_RAILS", "tcp,smoke"),
        ("BOWLINE_RAILS", "tcp,shm"),
        ("BOWLINE_RAILS", "verbs:mlx5_0,ofi:eth0"),
        ("BOWLINE_REPORT", "/proc/nobody/report"),
        ("BOWLINE_RECORD", "/proc/nobody/record"),
        ("BOWLINE_CALIBRATION", "/proc/nobody/costs"),
        ("BOWLINE_LOG", "loud"),
    ] {
        let err = refused(&args, &[(name, value)]);
        assert_eq!(err.matches(name).count(), 1, "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(!mark.exists(), "{name}={value} started a rank");
    }
    // A program may have transports that this command was built without.
    let mut command = command(args);
    command.env("BOWLINE_TRANSPORTS", "self,shm,ofi,verbs");
    command.env("BOWLINE_RAILS", "verbs:mlx5_0,tcp:eth0,ofi");
    finish(command).success();
    assert!(mark.exists());
}

#[test]
fn a_file_that_has_no_costs_is_never_written() {
    let directory = tempfile::tempdir().unwrap();
    let thesis = directory.path().join("thesis.txt");
    fs::write(&thesis, "Chapter 1\n").unwrap();
    let set = [("BOWLINE_CALIBRATION", thesis.to_str().unwrap())];
    for args in [
        &["calibrate"][..],
        &["calibrate", "--show"],
        &["calibrate", "--forget"],
        &["explain"],
        &["run", "-n", "1", "true"],
    ] {
        let err = refused(args, &set);
        assert!(err.contains("is not a file of costs"), "{args:?}: {err}");
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "Chapter 1\n", "{args:?}");
    }
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn calibrate_says_where_nothing_can_be_kept_before_it_measures() {
    let set = [("BOWLINE_CALIBRATION", "/proc/nobody/costs")];
    let err = refused(&["calibrate", "--transport", "shm"], &set);
    assert!(err.contains("/proc/nobody/costs"), "{err}");
    let mut show = command(["calibrate", "--show"]);
    show.envs(set);
    let out = finish(show).success();
    assert!(out.contains("nothing is kept yet"), "{out}");
}

#[test]
fn perf_measures_the_transport_that_it_names() {
    let label = |args: &[&str], transports: &str| {
        let all = ["perf", "tag_lat", "--iterations", "100", "--json"];
        let mut command = command(all.into_iter().chain(args.iter().copied()));
        command.env("BOWLINE_TRANSPORTS", transports);
        // The report says what carried the messages.
        command.env("BOWLINE_LOG", "off");
        let figures: serde_json::Value = serde_json::from_str(&finish(command).success()).unwrap();
        figures["transport"].as_str().unwrap().to_owned()
    };
    assert_eq!(label(&[], "self,tcp"), "tcp");
    assert_eq!(label(&["--transport", "shm"], "self,tcp"), "shm");
    let several = [("BOWLINE_TRANSPORTS", "self,shm,tcp")];
    assert!(refused(&["perf", "tag_lat"], &several).contains("--transport"));
}

#[test]
fn a_size_that_no_memory_holds_is_an_error() {
    let err = refused(&["perf", "tag_lat", "--size", "1024g"], &[]);
    assert!(err.contains("memory available") && err.lines().count() == 1, "{err}");
}

#[test]
fn a_full_output_is_an_error() {
    for args in [
        &["info"][..],
        &["info", "--config", "--json"],
        &["explain"],
        &["calibrate", "--show"],
        &["perf", "tag_lat", "--iterations", "10"],
        &["demo", "heat", "-n", "2", "--size", "8x8", "--steps", "2"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = command(args);
        command.stdout(full);
        let (code, err) = crate::common::errors(command);
        assert_eq!(code, Some(1), "{args:?}: {err}");
        assert!(err.contains("cannot write to the standard output"), "{args:?}: {err}");
        assert!(!err.contains("panicked"), "{args:?}: {err}");
    }
}

#[test]
fn explain_of_many_ranks_reads_what_was_asked() {
    // The rank that is asked reads the address that it is asked about, and nobody reads all of them.
    let out = bowline(["explain", "-n", "256", "--peer", "255", "--op", "put"]).success();
    assert!(out.contains("rank 0 to rank 255"), "{out}");
    assert_eq!(out.matches(" to rank ").count(), 1, "{out}");
}

#[test]
fn messages_that_cannot_be_sent_are_refused_before_anybody_starts() {
    for (line, expected) in [
        ("explain --send 900g", "of memory available"),
        ("explain -n 1 --send 8", "start two or more"),
        ("explain --send 8 --peer 0", "another --peer"),
        ("perf uct_lat --size 1m", "carries at most"),
        ("run -n 2 --program-- explain --send 8 --peer 0", "another --peer"),
    ] {
        let own = env!("CARGO_BIN_EXE_bowline");
        let words = line.split(' ').flat_map(|word| match word {
            "--program--" => vec!["--", own],
            word => vec![word],
        });
        let ended = bowline(words);
        assert!(ended.code.is_some_and(|code| code != 0 && code < 128), "{line}: {ended:?}");
        assert_eq!(ended.err.matches(expected).count(), 1, "{line}: {ended:?}");
    }
}

#[test]
fn without_a_home_nothing_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    for (home, cache) in [("", ""), ("here", "there")] {
        let mut command = command(["perf", "mpi_lat", "--iterations", "10"]);
        command.current_dir(&directory).env("HOME", home).env("XDG_CACHE_HOME", cache);
        finish(command).success();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "HOME={home:?}");
    }
}
