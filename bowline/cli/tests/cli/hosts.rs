//! Jobs on several hosts, which are names here: each has a node memory of its own, and what runs
//! there runs on this machine. `cargo xtask netns` has hosts with networks of their own.

use std::process::Command;

use crate::common::{bowline, command, finish, repository};

/// This program as one rank of a sort, and what it is to write.
fn sort(output: &str) -> (Vec<String>, Vec<u8>) {
    let input = repository("examples/data/words.txt");
    let sorted = Command::new("sort").env("LC_ALL", "C").arg(&input).output().unwrap();
    assert!(sorted.status.success());
    let words = ["--as-rank", "demo", "sort", &input, "-n", "4", "--output", output];
    let rank = [env!("CARGO_BIN_EXE_bowline")].into_iter().chain(words);
    (rank.map(String::from).collect(), sorted.stdout)
}

#[test]
fn a_program_of_ours_runs_on_two_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let (rank, sorted) = sort(output.to_str().unwrap());
    let file = directory.path().join("hosts");
    std::fs::write(&file, "# two hosts\na slots=3\nb:2\n").unwrap();
    let file = file.to_str().unwrap();
    for hosts in [["--hosts", "a,b"], ["--hostfile", file]] {
        let words = ["run", "-n", "4", hosts[0], hosts[1], "--agent-command", "env", "--"];
        let rank = rank.iter().map(String::as_str);
        bowline(words.into_iter().chain(rank)).success();
        assert!(std::fs::read(&output).unwrap() == sorted, "{hosts:?}: sorted otherwise");
        std::fs::remove_file(&output).unwrap();
    }
}

#[test]
fn a_program_of_ours_runs_on_two_hosts_of_hydra() {
    if Command::new("mpiexec.hydra").arg("--version").output().is_err() {
        bowline_uct::conformance::skipped("mpiexec.hydra is not installed (Debian: mpich)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let (rank, sorted) = sort(output.to_str().unwrap());
    let mut hydra = Command::new("mpiexec.hydra");
    hydra.args(["-launcher", "fork", "-hosts", "a,b", "-n", "4"]).args(rank);
    finish(hydra).success();
    assert!(std::fs::read(&output).unwrap() == sorted, "sorted otherwise");
}

#[test]
fn hosts_that_cannot_be_used_are_named() {
    let run = |hosts: &str| bowline(["run", "-n", "3", "--hosts", hosts, "true"]);
    assert!(run("a;b").failure(2).contains("a name has letters"));
    assert!(run("a:1,b:1").failure(1).contains("2 slots for 3 ranks"));
    assert!(run("a,a").failure(1).contains("named twice"));
    let err = bowline(["run", "-n", "1", "--hostfile", "/no/such/file", "true"]).failure(1);
    assert!(err.contains("/no/such/file"), "{err}");
}

#[test]
fn an_agent_is_not_for_people() {
    // Its streams are no terminal here, so what it lacks is a launcher.
    let err = finish(command(["agent"])).failure(1);
    assert!(err.contains("the launcher is lost"), "{err}");
}
