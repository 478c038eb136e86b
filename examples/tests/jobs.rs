//! The example programs as jobs of real processes.

mod common;

use common::{Job, data};
use serde_json::Value;

const KV: &str = env!("CARGO_BIN_EXE_kv");
const STEAL: &str = env!("CARGO_BIN_EXE_steal");
const DATAFLOW: &str = env!("CARGO_BIN_EXE_dataflow");

/// Over shared memory and over sockets.
const BOTH: [&str; 2] = ["self,shm", "self,tcp"];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a count"))
}

#[test]
fn clients_of_the_store_get_what_they_have_put() {
    for transports in BOTH {
        let args = ["--requests", "1500", "--long-percent", "20", "--long", "300000"];
        let report = Job::new(4, KV, &args).over(transports).run().success();
        assert_eq!(report["clients"].as_array().map(Vec::len), Some(3), "{report}");
        let done = ["puts", "gets", "deletes"].map(|kind| number(&report[kind]));
        assert_eq!(done.iter().sum::<u64>(), 3 * 1500, "{report}");
        assert!(done.iter().all(|&requests| requests > 0), "{report}");
        assert_eq!([number(&report["refused"]), number(&report["lost"])], [0, 0], "{report}");
        let client = &report["clients"][0][1];
        assert!(number(&client["long_put"]["requests"]) > 0, "{client}");
        assert!(number(&client["long_get"]["requests"]) > 0, "{client}");
    }
}

#[test]
fn a_client_that_dies_does_no_harm_to_the_others() {
    for transports in BOTH {
        let args =
            ["--requests", "1000", "--long", "8000000", "--long-percent", "1", "--kill", "2"];
        let ended = Job::new(4, KV, &args).over(transports).going_on().run();
        assert_eq!(ended.code, 137, "the job reports the death: {ended:?}");
        let report = ended.json.expect("the server goes on");
        assert_eq!(report["dead"], serde_json::json!([2]), "{report}");
        let left = report["clients"].as_array().expect("those that left");
        assert_eq!(left.len(), 2, "{report}");
        assert!(left.iter().all(|client| client[1]["requests"] == 1000), "{report}");
    }
}

#[test]
fn a_victim_that_does_not_exist_is_an_error() {
    for (program, victim) in [(KV, "9"), (KV, "0"), (STEAL, "4")] {
        let ended = Job::new(4, program, &["--kill", victim]).going_on().run();
        assert_eq!((ended.code, ended.json), (1, None), "{program} --kill {victim}");
    }
}

#[test]
fn a_server_without_clients_says_how_to_start_it() {
    let ended = Job::new(1, KV, &[]).run();
    assert_eq!((ended.code, ended.json), (1, None));
}

#[test]
fn what_is_stolen_is_counted_once() {
    for transports in BOTH {
        let args = ["--roots", "800", "--work", "3000", "--seed", "3"];
        let report = Job::new(4, STEAL, &args).over(transports).run().success();
        let expected = &report["expected"];
        assert!(number(&expected["nodes"]) > 5000, "{report}");
        for way in ["split", "stealing"] {
            assert_eq!(&report[way]["count"], expected, "{way} over {transports}");
        }
        let ranks = report["stealing"]["ranks"].as_array().expect("a part of each rank");
        assert_eq!(ranks.len(), 4);
        assert!(ranks.iter().map(|part| number(&part["thefts"])).sum::<u64>() > 0, "{report}");
    }
}

#[test]
fn one_rank_has_nobody_to_steal_from() {
    let report = Job::new(1, STEAL, &["--roots", "50", "--work", "1"]).run().success();
    assert_eq!(report["stealing"]["count"], report["expected"]);
}

#[test]
fn a_death_ends_the_count_with_an_error() {
    let args = ["--roots", "2000", "--work", "2000", "--kill", "1", "--no-check"];
    let ended = Job::new(3, STEAL, &args).going_on().run();
    assert_ne!(ended.code, 0);
    assert_eq!(ended.json, None, "half a count is none");
}

/// The digest and the number of workers of a run.
fn digest(report: &Value) -> (String, u64) {
    let digest = report["digest"].as_str().expect("a digest").to_owned();
    (digest, number(&report["workers"]))
}

#[test]
fn dataflow_programs_compute_the_same_over_bowline_and_over_their_own() {
    let words = data("words.txt");
    let wordcount = ["wordcount", &words, "--rounds", "20"];
    let pagerank = ["pagerank", "--vertices", "3000", "--edges", "20000", "--rounds", "8"];
    for program in [&wordcount[..], &pagerank[..]] {
        let with = |more: &[&'static str]| [program, more].concat();
        let threads = Job::new(1, DATAFLOW, &with(&["--backend", "threads"])).run().success();
        let (expected, workers) = digest(&threads);
        assert_eq!(workers, 2);
        // Below those that the kernel gives to connections.
        let port = 20_000 + std::process::id() % 12_000;
        let port: &'static str = port.to_string().leak();
        let own = Job::new(3, DATAFLOW, &with(&["--backend", "tcp", "--port", port]));
        assert_eq!(digest(&own.run().success()), (expected.clone(), 3));
        for transports in BOTH {
            for ranks in [1, 4] {
                let job = Job::new(ranks, DATAFLOW, program).over(transports);
                assert_eq!(digest(&job.run().success()), (expected.clone(), ranks.into()));
            }
        }
    }
}

#[test]
fn a_text_that_is_not_there_is_named() {
    let ended = Job::new(2, DATAFLOW, &["wordcount", "no-such-text"]).run();
    assert_eq!((ended.code, ended.json), (1, None));
}
