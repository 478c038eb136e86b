//! Jobs that lack descriptors, processes, threads or memory: an error that says so, nobody who is taken
//! for dead, nothing left behind, and life as soon as there are resources again. Limits are lowered in
//! processes of their own.

use std::process::Command;

use crate::harness::{Ended, Job, marked, probe, wait_until};

/// More descriptors than any of the programs needs.
const ENOUGH: u32 = 48;

/// Runs `words` by a shell that first does `limit`.
fn limited(limit: &str, words: &[&str]) -> Ended {
    let mut job = Job::of("env");
    let script = format!("{limit} && exec \"$@\"");
    job.command().args(["--default-signal", "sh", "-c", &script, "sh"]).args(words);
    let mut running = job.start();
    let ended = running.end();
    let mark = running.mark();
    assert!(wait_until(|| marked(&mark).is_empty()), "{limit}: left behind: {:?}", marked(&mark));
    ended
}

/// The job has run, or has said what it lacks, in sentences of ours.
fn runs_or_says(ended: &Ended, limit: &str) -> bool {
    assert!(!ended.stderr.contains("panicked"), "{limit}: {ended:?}");
    let said = ["bowline: cannot", "rank: cannot", "bowline: rank"];
    let has_said =
        ended.stderr.lines().any(|line| said.iter().any(|start| line.starts_with(start)));
    match ended.code() {
        Some(0) => true,
        // The program loader's own words, before anything of ours runs.
        Some(127) if ended.stderr.contains("error while loading shared libraries") => false,
        Some(_) => {
            assert!(has_said, "{limit}: no reason: {ended:?}");
            false
        }
        None => panic!("{limit}: {ended:?}"),
    }
}

#[test]
fn a_launcher_without_descriptors_says_so() {
    let mut outcomes = Vec::new();
    for label in [&[][..], &["--label"][..]] {
        for files in (4..ENOUGH).step_by(2) {
            let words = [&[probe(), "launch", "-n", "3"], label, &[probe(), "join"]].concat();
            let limit = format!("ulimit -n {files}");
            outcomes.push(runs_or_says(&limited(&limit, &words), &limit));
        }
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
}

#[test]
fn ranks_without_descriptors_say_so() {
    let mut outcomes = Vec::new();
    for files in 3..12 {
        let script = format!("ulimit -n {files} && exec {} join", probe());
        let ended = Job::launch(&["-n", "2", "sh", "-c", &script]).run();
        outcomes.push(runs_or_says(&ended, &script));
    }
    // They need no more at a time than the loader of programs does.
    assert!(outcomes.contains(&true), "{outcomes:?}");
}

#[test]
fn a_launcher_without_address_space_says_so() {
    let mut outcomes = Vec::new();
    for kilobytes in [20_000, 40_000, 80_000, 160_000, 640_000] {
        let limit = format!("ulimit -v {kilobytes}");
        let words = [probe(), "launch", "-n", "2", "--area", "30000000", probe(), "cpus"];
        outcomes.push(runs_or_says(&limited(&limit, &words), &limit));
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
}

#[test]
fn a_launcher_without_processes_says_so() {
    // The limit counts the processes of a user and does not bind root, so the job is nobody's.
    let nobody = |processes: u32| {
        let limit = format!("--nproc={processes}");
        let words = ["--reuid=65534", "--clear-groups", "--", "prlimit", &limit, probe()];
        words.map(String::from).to_vec()
    };
    let may = Command::new("setpriv").args(nobody(100)).arg("cpus").output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: another user cannot be had, or may not run {}", probe());
        return;
    }
    let mut outcomes = Vec::new();
    for processes in 1..10 {
        let mut job = Job::of("setpriv");
        job.command().args(nobody(processes)).args(["launch", "-n", "3", "--label"]);
        job.command().args([probe(), "cpus"]);
        outcomes.push(runs_or_says(&job.run(), &format!("{processes} processes")));
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
}

#[test]
fn a_rank_that_cannot_watch_takes_nobody_for_dead() {
    if Command::new("mpiexec.hydra").arg("--version").output().is_err() {
        println!("skipped: mpiexec.hydra is not installed (Debian: mpich)");
        return;
    }
    let hydra = |files: u32, ranks: &str, mode: &str| {
        let script = format!("ulimit -Sn {files} && exec {} {mode}", probe());
        let mut job = Job::of("mpiexec.hydra");
        job.command().args(["-n", ranks, "sh", "-c", &script]);
        job.run()
    };
    // With fewer, programs are not even loaded.
    let least = (4..ENOUGH).find(|&files| hydra(files, "1", "cpus").code() == Some(0)).unwrap();
    let (mut starved, mut watching) = (0, 0);
    for files in least..least + 14 {
        let ended = hydra(files, "4", "stay");
        assert!(!ended.stderr.contains("panicked"), "{files}: {ended:?}");
        if ended.code() != Some(0) {
            // A rank could not join. Its reason may be lost, since the manager kills all others, and its
            // proxy may fail itself, when a rank ends in the middle of a question to it. That ranks
            // say what they lack is shown above, with our own launcher.
            continue;
        }
        let lines = ended.sorted_lines();
        assert_eq!(lines.len(), 4, "{files}: {ended:?}");
        for line in lines {
            assert!(line.contains(": 0 dead, watches 3, at first "), "{files}: {line}");
            match line.ends_with("at first 3") {
                true => watching += 1,
                false => starved += 1,
            }
        }
    }
    assert!(starved > 0 && watching > 0, "{starved} ranks were starved, {watching} were not");
}
