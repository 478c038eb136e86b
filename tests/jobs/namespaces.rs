//! Ranks of one node in pid namespaces of their own, under our launcher and under Hydra: they join, share
//! memory, and see each other's deaths. `unshare` makes the namespaces; where that is not allowed, the
//! tests say so and do nothing.

use std::process::Command;

use crate::harness::{Job, probe};

const UNSHARE: [&str; 3] = ["unshare", "-pf", "--mount-proc"];

/// Whether there are `programs` and namespaces; the reason is printed where not.
fn possible(programs: &[&str]) -> bool {
    let [unshare, options @ ..] = UNSHARE;
    let made = Command::new(unshare).args(options).arg("true").output();
    if !made.is_ok_and(|output| output.status.success()) {
        println!("skipped: this user may not make pid namespaces");
        return false;
    }
    for program in programs {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: {program} is not installed (Debian: mpich)");
            return false;
        }
    }
    true
}

/// The words that run the probe in a namespace. Not as its first process, which can send no signal to
/// itself that would end it.
fn inside(words: &str) -> Vec<String> {
    let script = format!("{} {words}; exit $?", probe());
    UNSHARE.into_iter().chain(["sh", "-c", &script]).map(String::from).collect()
}

fn joined(size: u32, watched: u32, by: &str) -> Vec<String> {
    let line =
        |rank| format!("rank {rank} of {size} local {rank} of {size} watches {watched} by {by}");
    (0..size).map(line).collect()
}

#[test]
fn under_our_launcher_they_join_and_see_deaths() {
    if !possible(&[]) {
        return;
    }
    let mut job = Job::launch(&["-n", "3"]);
    job.command().args(inside("join"));
    let ended = job.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.sorted_lines(), joined(3, 0, "Bowline"), "{ended:?}");
    let mut job = Job::launch(&["-n", "3", "--continue"]);
    job.command().args(inside("die 1"));
    let ended = job.run();
    let knows = |rank| format!("rank {rank} knows that rank 1 is dead");
    assert_eq!(ended.sorted_lines(), [knows(0), knows(2)], "{ended:?}");
}

#[test]
fn under_hydra_they_join() {
    if !possible(&["mpiexec.hydra"]) {
        return;
    }
    let mut job = Job::of("mpiexec.hydra");
    job.command().args(["-n", "4"]).args(inside("join"));
    let ended = job.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.sorted_lines(), joined(4, 3, "Foreign"), "{ended:?}");
    // Some in the launcher's own namespace, and the lowest rank among them or not.
    let own = [probe().to_owned(), "join".into()];
    for (first, last) in [(&own[..], &inside("join")[..]), (&inside("join")[..], &own[..])] {
        let mut job = Job::of("mpiexec.hydra");
        job.command().args(["-n", "2"]).args(first).args([":", "-n", "2"]).args(last);
        let ended = job.run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.sorted_lines(), joined(4, 3, "Foreign"), "{ended:?}");
    }
}

#[test]
fn under_hydra_they_see_deaths() {
    if !possible(&["mpiexec.hydra"]) {
        return;
    }
    // Whichever dies, also the lowest, which the others took the memory from. Hydra ends the job when
    // the dead rank's connection closes; shells hold it until everybody has spoken, to files.
    for victim in [0, 2] {
        let dir = tempfile::tempdir().unwrap();
        let survivors: Vec<u32> = (0..3).filter(|rank| *rank != victim).collect();
        let said = |rank: u32| dir.path().join(rank.to_string());
        let has_spoken = |rank: &u32| format!("[ -s {} ]", said(*rank).display());
        let all = survivors.iter().map(has_spoken).collect::<Vec<_>>().join(" && ");
        let script = format!(
            "{} die {victim} > {}/$PMI_RANK; until {all}; do sleep 0.01; done",
            probe(),
            dir.path().display()
        );
        let mut job = Job::of("mpiexec.hydra");
        job.command().args(["-n", "3"]).args(UNSHARE).args(["sh", "-c", &script]);
        job.run();
        for rank in survivors {
            let text = std::fs::read_to_string(said(rank)).unwrap();
            assert_eq!(text, format!("rank {rank} knows that rank {victim} is dead\n"));
        }
    }
}
