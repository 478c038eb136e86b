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
    // Incomplete, empty, damaged, and of a rank that did not write all of it.
    let refused = |files: &[String]| {
        let all = ["fennel", "replay"].into_iter().chain(files.iter().map(String::as_str));
        bowline(all).failure(1)
    };
    assert!(refused(&files[..3]).contains("3 of 4"));
    let text = fs::read_to_string(&files[2]).unwrap();
    fs::write(&files[2], text.replace("\"send\":1", "\"send\":9")).unwrap();
    let shown = refused(&files);
    assert!(
        shown.contains("rank 9 is not in communicator 0") && shown.contains(&files[2]),
        "{shown}"
    );
    fs::write(&files[2], "").unwrap();
    let shown = refused(&files);
    assert!(shown.contains("is empty: its rank ended") && shown.contains(&files[2]), "{shown}");
    fs::write(&files[2], [0xff, 0xfe]).unwrap();
    assert!(refused(&files).contains("this is no record"));
    let half: Vec<&str> = text.lines().take(20).collect();
    fs::write(&files[2], format!("{}\n{{\"at\":9999", half.join("\n"))).unwrap();
    let part = replay(&files, "");
    let recorded = &part["recorded"];
    assert_eq!(recorded["unended"], serde_json::json!([2]), "{part}");
    assert!(recorded["left_out"].as_u64() > Some(0), "{part}");
    let messages = recorded["messages"].as_u64().unwrap();
    assert!(messages > 0 && messages < (STEPS * 6) as u64, "{part}");
}

#[test]
fn a_job_that_was_killed_runs_again_as_far_as_it_came() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("job").to_str().unwrap().to_owned();
    let mut job = command("perf mpi_lat --size 8 --iterations 1000000000".split(' '));
    job.env("BOWLINE_RECORD", &name);
    let mut job = job.spawn().unwrap();
    let files: Vec<String> = (0..2).map(|rank| format!("{name}.{rank}")).collect();
    let lines = |file: &String| fs::read_to_string(file).map_or(0, |text| text.lines().count());
    while files.iter().any(|file| lines(file) < 1000) {
        assert_eq!(job.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    job.kill().unwrap();
    job.wait().unwrap();
    let again = replay(&files, "");
    let recorded = &again["recorded"];
    assert_eq!(recorded["unended"], serde_json::json!([0, 1]), "{again}");
    assert!(recorded["messages"].as_u64() >= Some(400), "{again}");
    let text = bowline(["fennel", "replay"].into_iter().chain(files.iter().map(String::as_str)));
    assert!(text.success().contains("the record of rank 0 and 1 others breaks off"));
}

/// Starts of the persistent exchanges, each.
const STARTS: usize = 3;

/// Exchanges in a ring of three ranks, blocking, nonblocking and persistent, and a persistent broadcast.
fn exchanges(world: &bowline::mpi::World) {
    let graph = world.cart_create(&[3], &[true], false).unwrap().unwrap();
    let (own, mut two) = ([0_u64; 2], [0_u64; 4]);
    graph.neighbor_allgather(&own, &mut two).unwrap();
    let blocks = [0_u64; 6];
    let mut received = [0_u64; 6];
    graph.scope(|scope| scope.ineighbor_alltoall(&graph, &blocks, &mut received)?.wait()).unwrap();
    let mut first = graph.neighbor_allgather_init(vec![0_u8; 5], vec![0; 10]).unwrap();
    let mut second = graph.neighbor_alltoall_init(vec![0_u8; 14], vec![0; 14]).unwrap();
    let mut third = graph.bcast_init(vec![0_u8; 9], 1).unwrap();
    for _ in 0..STARTS {
        first.start().unwrap();
        second.start().unwrap();
        third.start().unwrap();
        first.wait().unwrap();
        second.wait().unwrap();
        third.wait().unwrap();
    }
    // Made, and never started.
    let unused = graph.neighbor_allgather_init(vec![0_u8; 100], vec![0; 200]).unwrap();
    drop(unused);
}

#[test]
fn each_start_of_an_exchange_between_neighbours_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("ring").to_str().unwrap().to_owned();
    let mut config = bowline::config_from_env().unwrap();
    config.set_text("BOWLINE_RECORD", &name).unwrap();
    bowline::threads_with(3, &config, |world| exchanges(&world)).unwrap();
    let files: Vec<String> = (0..3).map(|rank| format!("{name}.{rank}")).collect();
    let again = replay(&files, "");
    let recorded = &again["recorded"];
    // Each rank has two neighbours.
    assert_eq!(recorded["messages"], 3 * 2 * (1 + 1 + 2 * STARTS), "{again}");
    assert_eq!(recorded["bytes"], 3 * 2 * (16 + 24 + (5 + 7) * STARTS), "{again}");
    assert_eq!(recorded["unended"], serde_json::json!([]), "{again}");
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        assert_eq!(
            (count("\"send\":"), count("\"recv\":")),
            (2 * (2 + 2 * STARTS), 2 * (2 + 2 * STARTS)),
            "{text}"
        );
        assert_eq!(count("\"later\":true,\"persistent\":2}"), STARTS, "{text}");
        assert_eq!(count("\"coll\":\"bcast\""), STARTS, "{text}");
    }
    assert_eq!(recorded["started"], 3 * STARTS, "{again}");
}

/// Rank 0 starts an allreduce before it sends what rank 1 waits for before it starts it; a persistent one runs beside
/// messages the other way around; and two that end in the reverse order.
fn started(world: &bowline::mpi::World) {
    let (own, other) = ([world.rank()], 1 - world.rank());
    let (mut sum, mut word) = ([0], [0_i32]);
    let first = |me: bool| (world.rank() == 0) == me;
    let exchange = |word: &mut [i32], me| match first(me) {
        true => world.send(&own, other, 0),
        false => world.recv(word, other, 0).map(drop),
    };
    world
        .scope(|scope| {
            if first(false) {
                exchange(&mut word, true)?;
            }
            let run = scope.iallreduce(world, &own, &mut sum, bowline::mpi::Sum)?;
            if first(true) {
                exchange(&mut word, true)?;
            }
            run.wait()
        })
        .unwrap();
    assert_eq!(sum, [1]);
    let mut again = world.bcast_init(vec![0_u8; 9], 0).unwrap();
    if first(true) {
        exchange(&mut word, false).unwrap();
    }
    again.start().unwrap();
    if first(false) {
        exchange(&mut word, false).unwrap();
    }
    again.wait().unwrap();
    let (mut one, mut two) = ([0], [0]);
    world
        .scope(|scope| {
            let one = scope.iallreduce(world, &own, &mut one, bowline::mpi::Sum)?;
            let two = scope.iallreduce(world, &own, &mut two, bowline::mpi::Sum)?;
            two.wait()?;
            one.wait()
        })
        .unwrap();
    // The end of the scope waits for this one.
    world.scope(|scope| scope.ibarrier(world).map(drop)).unwrap();
}

#[test]
fn what_was_started_runs_beside_the_rank_in_the_simulation_too() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("started").to_str().unwrap().to_owned();
    let mut config = bowline::config_from_env().unwrap();
    config.set_text("BOWLINE_RECORD", &name).unwrap();
    bowline::threads_with(2, &config, |world| started(&world)).unwrap();
    let files: Vec<String> = (0..2).map(|rank| format!("{name}.{rank}")).collect();
    let again = replay(&files, "");
    let recorded = &again["recorded"];
    assert_eq!((&recorded["started"], &recorded["ended_in_call"]), (&10.into(), &0.into()));
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(text.matches("\"done\":").count(), 5, "{text}");
    }
    // A record that does not say when they ended, as of version 1, has them end in their calls: each rank waits for
    // the other.
    for file in &files {
        let text = fs::read_to_string(file).unwrap().replace("\"version\":3", "\"version\":1");
        let kept = text.lines().filter(|line| !line.contains("\"done\":"));
        let cut = kept.map(|line| match line.split_once("\"run\":") {
            Some((before, rest)) => format!("{before}{}", rest.split_once(',').unwrap().1),
            None => line.to_owned(),
        });
        fs::write(file, cut.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    }
    let all = ["fennel", "replay"].into_iter().chain(files.iter().map(String::as_str));
    let said = bowline(all).failure(1);
    assert!(said.contains("wait for each other"), "{said}");
}

/// Bytes of the block of each rank, where blocks differ.
const BLOCKS: [usize; 4] = [10, 20, 0, 1000];

/// Records a program of four ranks with settings, and runs it again.
fn recorded(
    settings: &[(&str, &str)],
    program: impl Fn(&bowline::mpi::World) + Send + Sync,
) -> (Vec<String>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("job").to_str().unwrap().to_owned();
    let mut config = bowline::config_from_env().unwrap();
    for (setting, value) in [("BOWLINE_RECORD", &*name)].iter().chain(settings) {
        config.set_text(setting, value).unwrap();
    }
    bowline::threads_with(4, &config, |world| program(&world)).unwrap();
    ((0..4).map(|rank| format!("{name}.{rank}")).collect(), directory)
}

/// Collectives of blocks of different lengths.
fn uneven(world: &bowline::mpi::World) {
    use bowline::mpi::Partition;
    let rank = world.rank() as usize;
    let places = [0, 1, 2, 3].map(|rank| BLOCKS[..rank].iter().sum());
    let parts = Partition::new(&BLOCKS, &places);
    let (mut own, all) = (vec![0_u8; BLOCKS[rank]], vec![0; BLOCKS.iter().sum()]);
    world.gatherv(&own, &mut all.clone(), parts, 1).unwrap();
    world.scatterv(&all, parts, &mut own, 1).unwrap();
    world.allgatherv(&own, &mut all.clone(), parts).unwrap();
    world.reduce_scatter(&all, &mut own, &BLOCKS, bowline::mpi::Max).unwrap();
    // Of 100 I + J bytes from rank I to rank J.
    let (sent, received) =
        ([0, 1, 2, 3].map(|to| 100 * rank + to), [0, 1, 2, 3].map(|from| 100 * from + rank));
    let places = [0, 1000, 2000, 3000];
    let (from, into) = (Partition::new(&sent, &places), Partition::new(&received, &places));
    world.alltoallv(&[0_u8; 4000], from, &mut [0; 4000], into).unwrap();
    world.barrier().unwrap();
}

#[test]
fn blocks_of_different_lengths_and_recorded_algorithms_run_again_as_they_were() {
    let direct = [
        ("BOWLINE_ALLGATHER", "direct"),
        ("BOWLINE_REDUCE_SCATTER", "direct"),
        ("BOWLINE_BARRIER", "staged"),
    ];
    let (files, _directory) = recorded(&direct, uneven);
    let again = replay(&files, "--as-recorded");
    // To the root, from it, from each to three others, and all-to-all but for what ranks have for themselves.
    let (all, root) = (BLOCKS.iter().sum::<usize>(), BLOCKS[1]);
    assert_eq!(again["bytes"], 2 * (all - root) + 2 * 3 * all + 3 * (100 * 6 + 6), "{again}");
    let otherwise = &again["recorded"]["otherwise"];
    assert_eq!(*otherwise, serde_json::json!({"barrier by staged": 1}), "{again}");
    // Records of version 2 have neither names nor those lengths.
    for file in &files {
        let text = fs::read_to_string(file).unwrap().replace("\"version\":3", "\"version\":2");
        fs::write(file, text).unwrap();
    }
    let otherwise = &replay(&files, "--as-recorded")["recorded"]["otherwise"];
    assert_eq!(otherwise.as_object().unwrap().len(), 6, "{otherwise}");
    assert_eq!(otherwise["allgatherv by what this version does not name"], 1, "{otherwise}");
    let text = ["fennel", "replay", "--as-recorded"].into_iter();
    let text = bowline(text.chain(files.iter().map(String::as_str))).success();
    assert!(text.contains("go by what is cheapest: 1 allgatherv by"), "{text}");

    let sum = |world: &bowline::mpi::World| {
        world.allreduce(&[1_u64], &mut [0], bowline::mpi::Sum).unwrap();
    };
    for (how, messages) in [("a4", 12), ("reduce-bcast", 6), ("doubling", 8)] {
        let (files, _directory) = recorded(&[("BOWLINE_ALLREDUCE", how)], sum);
        let again = replay(&files, "--as-recorded");
        assert_eq!(again["messages"], messages, "{how}: {again}");
        assert_eq!(again["recorded"]["otherwise"], serde_json::json!({}), "{how}: {again}");
    }
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
