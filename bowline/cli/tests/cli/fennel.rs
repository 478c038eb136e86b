//! `bowline fennel`: published values, every program, what is drawn and written, and what is refused.

use std::fs;

use crate::common::{bowline, command, finish};
use bowline_model::fit::table::{Entry, FitTable};
use serde_json::Value;

fn run(line: &str) -> Value {
    let args = ["fennel"].into_iter().chain(line.split_whitespace()).chain(["--json"]);
    serde_json::from_str(&bowline(args).success()).unwrap()
}

fn time(line: &str) -> f64 {
    run(line)["time_ns"]["max"].as_f64().unwrap()
}

fn refused(line: &str, code: i32) -> String {
    bowline(["fennel"].into_iter().chain(line.split_whitespace())).failure(code)
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.05
}

#[test]
fn published_runs_come_out() {
    for (line, wanted) in [
        ("ping-pong --rounds 10", 20.0 * 603.2),
        ("multicast -n 8 --size 0", 500.0 + 7.0 * 100.0),
        ("allreduce -n 8 --schedule a2,a2,a2", 1839.6),
        ("allreduce -n 8 --schedule a8", 1232.4),
        ("allreduce -n 7 --schedule c6m2,a2,a2,e6m2", 2452.8),
        ("allreduce --schedule m1g2a3,n1g3a2 --ranks 7 --size 8", 1432.8),
        ("allreduce -n 7 --schedule m3g2a2,n3g2a2", 1432.8),
        ("allreduce -n 7 --schedule m1g2a3,n1g3a2 --each-value", 1442.8),
        ("allreduce -n 7 --schedule m3g2a2,n3g2a2 --each-value", 1452.8),
        ("allreduce -n 7 --schedule m1g2a3,n1g3a2 --network pipelined:500,100", 1420.0),
        ("elimination -n 7", 2452.8),
        // The engine reduces seven values one after the other.
        ("allreduce -n 8 --schedule a8 --steps", 1232.4 + 6.0 * 10.0),
        ("allreduce -n 8 --algorithm doubling", 1839.6),
        ("multicast -n 5 --size 100 --network hockney:1000,0.5", 4.0 * 1050.0),
        ("multicast -n 3 --network logp:1000,50,200", 200.0 + 50.0 + 1000.0 + 50.0),
        ("multicast -n 3 --size 1 --network archer", 880.0 + 2.0 * 380.0),
        ("multicast -n 3 --size 0 --blocking", 2.0 * 600.0),
        ("ping-pong --size 0 --topology torus:4 --hop 70", 2.0 * 670.0),
        ("ping-pong --size 0 --per-node 2 --inside 90", 2.0 * 190.0),
        ("ping-pong --size 0 --latency constant:30", 2.0 * 630.0),
        // Receivers are busy too.
        (
            "allreduce -n 2 --algorithm doubling --size 8 \
             --network tcp,pipelining=1000,required=100,receive=70,byte=0,copy=0,reduce=1",
            1100.0 + 70.0 + 8.0,
        ),
    ] {
        let found = time(line);
        assert!(near(found, wanted), "{line}: {found}, and not {wanted}");
    }
}

#[test]
fn every_program_runs_with_every_number_of_ranks() {
    for program in [
        "barrier",
        "bcast",
        "reduce",
        "allreduce",
        "gather",
        "allgather",
        "alltoall",
        "reduce-scatter",
        "elimination",
    ] {
        for ranks in [1, 2, 7, 100] {
            let report = run(&format!("{program} -n {ranks}"));
            assert_eq!(report["ranks"], ranks, "{report}");
            assert_eq!(report["messages"] == 0, ranks == 1, "{report}");
        }
    }
    let shown = refused("bcast --network tcp,skew=1000", 2);
    assert!(shown.contains("`skew` is no cost of a simulated network"), "{shown}");
    // Long messages wait for an answer in simulations too.
    let long = |network| time(&format!("ping-pong --size 2m --network {network}"));
    let handshake = long("tcp,rendezvous=40000") - long("tcp,rendezvous=0");
    assert!(near(handshake, 2.0 * 40_000.0), "{handshake}");
    let shown = refused("bcast --algorithm gossip", 1);
    assert!(shown.contains("binomial") && shown.contains("scatter-allgather"), "{shown}");
    for algorithm in ["flat", "binomial", "scatter-allgather", "chain"] {
        run(&format!("bcast -n 100 --size 1m --root 7 --algorithm {algorithm}"));
    }
    for algorithm in ["doubling", "halving", "flat", "reduce-bcast", "multiplying", "multiplying:3"]
    {
        run(&format!("allreduce -n 12 --size 100 --algorithm {algorithm}"));
    }
    // So many waits that its steps are written down.
    let ring = run("allgather -n 300 --algorithm ring");
    assert_eq!(ring["messages"], 300 * 299);
}

#[test]
fn collectives_go_in_layers_where_there_are_nodes() {
    let nodes = "--per-node 8 --inside 10 --network pipelined:100000,100";
    // A reduction is one message from each rank to the root here: receiving is free.
    for collective in ["barrier", "bcast", "allreduce", "allgather", "reduce-scatter"] {
        let chosen = run(&format!("{collective} -n 64 {nodes}"));
        let name = chosen["program"].as_str().unwrap();
        assert!(name.contains(" by nodes:"), "{name}");
        // Each rank on a node of its own.
        let flat = run(&format!("{collective} -n 64 --network pipelined:100000,100"));
        assert!(!flat["program"].as_str().unwrap().contains("nodes:"), "{flat}");
    }
    // Three messages to others within the node each way, and one exchange between the nodes.
    let line = "-n 8 --per-node 4 --inside 10 --compute 0 --network pipelined:500,100";
    let all = time(&format!("allreduce {line} --algorithm nodes:linear:a2"));
    assert!(near(all, 110.0 + 600.0 + 310.0), "{all}");
    for (collective, among) in [
        ("bcast", "chain"),
        ("reduce", "chain"),
        ("allreduce", "m1g2a3,n1g3a2"),
        ("barrier", "flat"),
    ] {
        run(&format!("{collective} -n 56 --per-node 8 --algorithm nodes:binomial:{among}"));
    }
    for (line, wanted) in [
        ("allreduce -n 8 --algorithm nodes:linear:a2", "--per-node"),
        ("bcast -n 8 --algorithm nodes:linear:flat", "binomial"),
        ("allreduce -n 8 --per-node 4 --algorithm nodes:linear:a3", "for 3 ranks"),
        ("bcast -n 8 --per-node 4 --algorithm nodes:linear:gossip", "nodes:"),
    ] {
        let said = refused(line, 1);
        assert!(said.contains(wanted), "{line}: {said}");
    }
}

#[test]
fn blocks_may_have_different_lengths() {
    for ranks in [1, 2, 7, 100] {
        for collective in ["allgatherv", "alltoallv", "gatherv", "scatterv"] {
            let report = run(&format!("{collective} -n {ranks} --sizes 0,8,1k"));
            assert_eq!(report["messages"] == 0, ranks == 1, "{report}");
        }
    }
    let network = "--network pipelined:500,100,1 --compute 0";
    // The root takes as long for its sends as they are long, and the last one is there 500 later.
    let scattered = time(&format!("scatterv -n 4 --sizes 5,10,20,30 {network}"));
    assert!(near(scattered, 3.0 * 100.0 + 60.0 + 500.0), "{scattered}");
    let even = time(&format!("allgatherv -n 6 --sizes 64 --algorithm ring {network}"));
    assert!(near(even, time(&format!("allgather -n 6 --size 64 --algorithm ring {network}"))));
    // Of even blocks both are the same messages, in layers too.
    let layered = "-n 12 --per-node 4 --algorithm nodes:binomial:ring";
    let uneven = time(&format!("allgatherv {layered} --sizes 64 {network}"));
    assert!(near(uneven, time(&format!("allgather {layered} --size 64 {network}"))), "{uneven}");
    // Between nodes there is one message of each to the next one in each of two rounds, within them three up and three down.
    let report = run(&format!("allgatherv {layered} --sizes 0,8,1k"));
    assert_eq!(report["messages"], 3 * 2 + 3 * 6, "{report}");
    // Rank 0 has 0 bytes for itself and 7 for rank 1, which has 7 for it and 0 for itself.
    let report = run(&format!("alltoallv -n 2 --sizes 0,7 {network}"));
    assert_eq!(report["bytes"], 14, "{report}");
    for (line, wanted) in [
        ("alltoallv --algorithm bruck", "pairwise"),
        ("gatherv --algorithm binomial", "linear"),
        ("allgatherv --root 1", "no root"),
        ("gatherv --root 8", "0 to 7"),
    ] {
        let said = refused(line, 1);
        assert!(said.contains(wanted), "{line}: {said}");
    }
}

#[test]
fn chance_comes_from_the_seed() {
    let line =
        "allreduce -n 16 --noise 0.2 --latency uniform:0,300 --skew exponential:500 --runs 30";
    let report = run(line);
    assert_eq!(report, run(line));
    assert_ne!(report, run(&format!("{line} --seed 2")));
    let figure = |name: &str, part: &str| report[name][part].as_f64().unwrap();
    assert!(figure("time_ns", "min") < figure("time_ns", "median"));
    assert!(figure("time_ns", "median") < figure("time_ns", "max"));
    assert!(figure("after_last_ns", "max") < figure("time_ns", "max"));
    assert!(figure("utilisation", "max") < 1.0 && figure("spread_ns", "min") > 0.0);
    let text = bowline(["fennel"].into_iter().chain(line.split_whitespace())).success();
    for word in ["30 runs from seed 1", "exponential:500", "spread of ends", "busy ranks", "99 %"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn programs_of_files_run_and_what_was_run_is_drawn_and_written() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (program, svg, tasks) = (place("program.json"), place("t.svg"), place("tasks"));
    let text = r#"{"format": "bowline program", "version": 1, "processes": 2, "tasks": [
        {"process": 0, "do": "start"},
        {"process": 0, "do": "put", "to": 1, "bytes": 0, "after": [0]},
        {"process": 1, "do": "sleep", "ns": 9000, "concurrent": true},
        {"process": 1, "do": "compute", "bytes": 8, "after": [1, 2], "any": 1}]}"#;
    fs::write(&program, text).unwrap();
    let report = run(&format!("graph {program} --timeline {svg} --tasks {tasks}"));
    assert!(near(report["time_ns"]["max"].as_f64().unwrap(), 9000.0), "{report}");
    assert!(near(report["ends_ns"]["min"].as_f64().unwrap(), 100.0), "{report}");
    let bars = fs::read_to_string(&svg).unwrap().matches("<rect").count();
    assert_eq!(bars, 3 + 4, "of tasks, and in the legend");
    let lines = fs::read_to_string(&tasks).unwrap();
    let computed: Value = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|task: &Value| task["do"] == "compute")
        .unwrap();
    assert_eq!(computed["start_ns"], 600.0, "any of the two");
    fs::write(&program, text.replace("\"to\": 1", "\"to\": 2")).unwrap();
    assert!(refused(&format!("graph {program}"), 1).contains("no process 2"));
    fs::write(&program, text.replace("\"bytes\": 0", "\"bytes\": 18446744073709551615")).unwrap();
    assert!(refused(&format!("graph {program}"), 1).contains("more than a terabyte"));
    fs::write(&program, text.replace("\"after\": [0]", "\"after\": [1]")).unwrap();
    assert!(refused(&format!("graph {program}"), 1).contains("never came to their end"));
}

#[test]
fn kept_fits_are_networks() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("model.json");
    let with = |line: &str| {
        let mut command = command(["fennel"].into_iter().chain(line.split_whitespace()));
        command.env("BOWLINE_MODEL", &file);
        finish(command)
    };
    let none = with("multicast -n 4 --network fit:shm").failure(1);
    assert!(none.contains("bowline model fit --transport shm --keep"), "{none}");
    // What a measurement of this machine finds depends on what else runs; these are known.
    let mut table = FitTable::default();
    table.learn(Entry::published(&bowline::costs::site(), "shm"));
    fs::write(&file, table.text().unwrap()).unwrap();
    let shown = with("multicast -n 4 --size 8 --network fit:shm --json").success();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let time = shown["time_ns"]["max"].as_f64().unwrap();
    assert!(near(time, 880.0 + 3.0 * 380.0), "{shown}");
    let other = with("multicast -n 4 --network fit:tcp").failure(1);
    assert!(other.contains("no fit of tcp"), "{other}");
}

#[test]
fn wrong_arguments_are_refused_with_the_reason() {
    for (line, code, wanted) in [
        ("allreduce --network fast", 2, "chapter-5"),
        ("allreduce --network pipelined:1", 2, "pipelined:500,100,0.4"),
        ("allreduce --network pipelined:1,-2", 2, "-2"),
        ("allreduce --topology ring:3", 2, "dragonfly:4,8,9"),
        ("allreduce -n 9 --topology torus:8", 1, "9 nodes"),
        ("allreduce --latency gauss:1", 2, "normal:100,20"),
        ("allreduce --noise=-1", 2, "no time"),
        ("allreduce --runs 5", 1, "--noise"),
        ("allreduce -n 7 --schedule a2,a2", 1, "for 7"),
        ("allreduce --schedule a8 --algorithm flat", 2, "cannot be used"),
        ("allreduce --algorithm gossip", 1, "reduce-bcast"),
        ("allreduce -n 7 --schedule m3g2a2,n3g2a2 --ordered", 1, "order of ranks"),
        ("allreduce --root 1", 1, "no root"),
        ("bcast --root 8", 1, "0 to 7"),
        ("bcast --ordered", 1, "no operation"),
        ("alltoall -n 100000 --algorithm pairwise", 1, "more than can be kept"),
        ("allreduce --size 512k --network archer -n 4 --algorithm doubling", 1, "does not hold"),
        ("allreduce --blocking --latency constant:1", 1, "--blocking"),
        ("allreduce --timeline x.gif", 1, ".png"),
        ("allreduce -n 5000 --timeline x.svg", 1, "1024"),
        ("bcast --size 1025g", 2, "terabyte"),
        ("bcast --size 1024g --algorithm chain", 1, "more than can be kept"),
        ("multicast --network pipelined:1e308,1e308", 1, "shorter ones"),
        ("alltoall -n 16777216", 1, "would take days"),
        ("allreduce --timeline no/such/t.png", 1, "there is no directory no/such"),
        ("allreduce --tasks no/such/tasks", 1, "there is no directory no/such"),
        ("graph no/such/file", 1, "no/such/file"),
        ("dance", 2, "subcommand"),
    ] {
        let error = refused(line, code);
        assert!(error.contains(wanted), "{line}: {error}");
    }
}

#[test]
fn jobs_that_no_memory_holds_are_refused_before_they_run() {
    let err = refused("allreduce -n 131072 --algorithm a131072", 1);
    assert!(err.contains("of memory available; take fewer ranks"), "{err}");
}

/// As behind `ulimit -v`.
#[test]
fn a_limit_of_addresses_is_one_of_memory() {
    let own = env!("CARGO_BIN_EXE_bowline");
    let script = "ulimit -v 2000000 && exec \"$0\" fennel alltoall -n 8000 --algorithm direct";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, own]);
    let err = crate::common::finish(command).failure(1);
    assert!(err.contains("ulimit -v") && err.contains("take fewer ranks"), "{err}");
}
