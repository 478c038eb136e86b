//! Jobs that are recorded and run again on a modelled network.

use std::fs;

use crate::common::{bowline, command, finish};
use serde_json::Value;

/// Steps of the recorded program, in each of which neighbours among four ranks send each other a row.
const STEPS: usize = 20;

fn replay(files: &[String], rest: &str) -> Value {
    let rest = rest.split_whitespace().map(str::to_owned);
    let args = ["fennel".to_owned(), "replay".to_owned(), "--json".to_owned()];
    let all = args.into_iter().chain(files.iter().cloned()).chain(rest);
    serde_json::from_str(&bowline(all).success()).unwrap()
}

#[test]
fn a_real_job_runs_again_on_another_network() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("job").to_str().unwrap().to_owned();
    let line = format!("demo heat --steps {STEPS} --size 32x32 -n 4");
    let mut job = command(line.split(' '));
    job.env("BOWLINE_RECORD", &name);
    finish(job).success();
    let files: Vec<String> = (0..4).map(|rank| format!("{name}.{rank}")).collect();
    let near = replay(&files, "");
    let recorded = &near["recorded"];
    assert_eq!(recorded["messages"], STEPS * 6, "{near}");
    assert_eq!(recorded["bytes"], STEPS * 6 * 32 * 8, "{near}");
    // Each rank calls allgather, gatherv and allreduce once.
    assert_eq!(recorded["collectives"], 4 * 3, "{near}");
    assert!(recorded["time_ns"].as_f64() >= Some(1.0), "{near}");
    // Those of collectives are added.
    assert!(near["messages"].as_u64().unwrap() > (STEPS * 6) as u64, "{near}");
    let far = replay(&files, "--network tcp,pipelining=1000000");
    let time = |report: &Value| report["time_ns"]["max"].as_f64().unwrap();
    // The ends of a line of ranks wait for each other in every step.
    assert!(time(&far) > time(&near) + STEPS as f64 * 900_000.0, "{far}");
    let text = bowline(["fennel", "replay"].into_iter().chain(files.iter().map(String::as_str)));
    assert!(text.success().contains("recorded: "));
    // Damaged, incomplete, and of a rank that did not write all of it.
    let refused = |files: &[String]| {
        let all = ["fennel", "replay"].into_iter().chain(files.iter().map(String::as_str));
        bowline(all).failure(1)
    };
    assert!(refused(&files[..3]).contains("3 of 4"));
    let text = fs::read_to_string(&files[2]).unwrap();
    let half: Vec<&str> = text.lines().take(20).collect();
    fs::write(&files[2], half.join("\n")).unwrap();
    assert!(refused(&files).contains("process 2"));
    fs::write(&files[2], text.replace("\"send\":1", "\"send\":9")).unwrap();
    let told = refused(&files);
    assert!(told.contains("rank 9 is not in communicator 0") && told.contains(&files[2]), "{told}");
}

#[test]
fn ranks_that_are_threads_are_recorded_too_and_a_bad_place_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("rank-%r.json");
    let mut job =
        command("perf mpi_lat --threads --size 8 --iterations 100 --warmup 10".split(' '));
    job.env("BOWLINE_RECORD", &name);
    let ended = finish(job);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for rank in 0..2 {
        let file = directory.path().join(format!("rank-{rank}.json"));
        let text = fs::read_to_string(file).unwrap();
        assert!(text.lines().last().unwrap().starts_with("{\"end\":"), "{text:.300}");
        assert!(text.matches("\"send\":").count() >= 100);
    }
    let mut job = command("demo heat --steps 1 --size 32x32 -n 2".split(' '));
    job.env("BOWLINE_RECORD", directory.path().join("missing/job"));
    let ended = finish(job);
    assert!(ended.code != Some(0) && ended.err.contains("BOWLINE_RECORD"), "{ended:?}");
}
