//! Random programs on random simulated networks, checked against an oracle that knows which
//! outcomes are legal.
//!
//! Faults of links, delays and full queues must be invisible: every call succeeds with the right
//! result. Deaths and lasting partitions must reach everybody who depends on them as errors, and
//! nobody hangs. Everything about a case comes from its seed, so a failing one is repeated by the
//! command that it prints.
//!
//! ```sh
//! BOWLINE_CHAOS_SECONDS=3600 cargo test --release -p bowline-tests --test chaos     # longer
//! BOWLINE_CHAOS_FROM=1000000 cargo test -p bowline-tests --test chaos               # other seeds
//! BOWLINE_CHAOS_KEEP_GOING=1 cargo test -p bowline-tests --test chaos               # not just the first
//! BOWLINE_CHAOS_SEED=123 cargo test -p bowline-tests --test chaos -- --ignored replay --nocapture
//! ```

mod background;
mod batch;
mod calls;
mod case;
mod collective;
mod content;
mod layers;
mod neighbors;
mod plan;
mod program;
mod verdict;

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use case::Case;
use verdict::{Verdict, run};

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// How long a case may take before it counts as a hang of the machinery itself. In virtual time a
/// hang is an error long before.
const HANG: Duration = Duration::from_secs(120);

/// The command that repeats a case.
fn command(seed: u64) -> String {
    format!(
        "BOWLINE_CHAOS_SEED={seed} cargo test -p bowline-tests --test chaos -- --ignored replay --nocapture"
    )
}

fn report(seed: u64, why: &str) -> String {
    format!("seed {seed}: {why}\nreplay it with:\n  {}", command(seed))
}

/// Runs one case on a thread of its own; a hang ends the process with the seed.
fn watched(seed: u64) -> Verdict {
    let (done, finished) = mpsc::channel();
    let thread = std::thread::Builder::new().name(format!("seed {seed}"));
    let thread = thread.spawn(move || {
        let verdict = run(&Case::of(seed), 0);
        let _ = done.send(());
        verdict
    });
    let thread = thread.expect("the system has resources for another thread");
    if finished.recv_timeout(HANG).is_err() && !thread.is_finished() {
        // Not by a macro, whose output the harness keeps and an abort would lose.
        let _ = writeln!(std::io::stderr(), "{}", report(seed, "it hangs in real time"));
        std::process::abort();
    }
    thread.join().unwrap_or_else(|_| panic!("{}", report(seed, "the driver panicked")))
}

/// Runs seeds from `from`, as many as `count` says or as time allows, on two threads. Every
/// `again`th is run twice, and both runs must be the same.
fn campaign(from: u64, time: Duration, count: Option<u64>, again: u64) -> (u64, Vec<String>) {
    let keep_going = std::env::var_os("BOWLINE_CHAOS_KEEP_GOING").is_some();
    let (next, failures) = (Mutex::new(from), Mutex::new(Vec::new()));
    let start = Instant::now();
    let work = || loop {
        let seed = {
            let mut next = next.lock().expect("nobody panics with it");
            let enough = count.map_or_else(|| start.elapsed() >= time, |n| *next >= from + n);
            let failed = !failures.lock().expect("nobody panics with it").is_empty();
            if enough || failed && !keep_going {
                return;
            }
            *next += 1;
            *next - 1
        };
        let verdict = watched(seed);
        let mut why = verdict.outcome.err();
        if why.is_none() && seed % again == 0 {
            let second = watched(seed);
            if second.trace_hash != verdict.trace_hash {
                why = Some("two runs of it differ".to_owned());
            }
        }
        if let Some(why) = why {
            failures.lock().expect("nobody panics with it").push(report(seed, &why));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let ran = *next.lock().expect("nobody panics with it") - from;
    (ran, failures.into_inner().expect("nobody panics with it"))
}

#[test]
fn random_programs_on_random_networks() {
    let from = number("BOWLINE_CHAOS_FROM").unwrap_or(0);
    let seconds = number("BOWLINE_CHAOS_SECONDS").unwrap_or(60);
    let count = number("BOWLINE_CHAOS_COUNT");
    let (ran, failures) = campaign(from, Duration::from_secs(seconds), count, 16);
    println!("{ran} cases, seeds {from} to {}", from + ran);
    assert!(ran > 0, "no case was run");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
#[ignore = "repeats the case of BOWLINE_CHAOS_SEED"]
fn replay() {
    let seed = number("BOWLINE_CHAOS_SEED").expect("BOWLINE_CHAOS_SEED says which case to repeat");
    let case = Case::of(seed);
    println!("{case}");
    let verdict = run(&case, 400);
    println!("{}", verdict.story);
    println!("trace {:#018x}", verdict.trace_hash);
    if let Err(why) = verdict.outcome {
        panic!("{}", report(seed, &why));
    }
    println!("seed {seed} passes");
}

#[test]
fn a_seed_is_a_whole_run() {
    for seed in [0, 1, 2, 3, 4, 5, 6, 7] {
        let (first, second) = (watched(seed), watched(seed));
        assert_eq!(first.trace_hash, second.trace_hash, "{}", report(seed, "two runs differ"));
        assert_eq!(first.story, second.story, "{}", report(seed, "two runs differ"));
        assert_eq!(Case::of(seed).to_string(), Case::of(seed).to_string());
    }
    assert_ne!(watched(8).trace_hash, watched(9).trace_hash);
}

#[test]
fn a_violation_is_found_and_reported_with_its_command() {
    // A sender that corrupts one byte of one message: the oracle must see it in some case.
    let found = (0..60).map(Case::of).filter(|case| case.is_calm()).find_map(|mut case| {
        case.corrupt = true;
        run(&case, 0).outcome.err().map(|why| report(case.seed, &why))
    });
    let text = found.expect("a wrong byte is noticed");
    assert!(text.contains("BOWLINE_CHAOS_SEED="), "{text}");
    assert!(text.contains("oracle"), "{text}");
}

#[test]
fn a_wrong_word_in_a_collective_under_way_is_found() {
    for way in ["a nonblocking", "a persistent"] {
        let found = (0..200).map(Case::of).filter(Case::is_calm).find_map(|mut case| {
            case.corrupt_collectives = true;
            run(&case, 0).outcome.err().filter(|why| why.contains(way))
        });
        assert!(found.is_some_and(|why| why.contains("oracle")), "{way}");
    }
}

#[test]
fn a_program_that_hangs_is_a_violation() {
    let mut case = (0..60).map(Case::of).find(Case::is_calm).expect("one of them is calm");
    case.forget_a_receiver();
    let why = run(&case, 0).outcome.expect_err("somebody waits for ever");
    assert!(why.contains("all ranks wait"), "{why}");
}
