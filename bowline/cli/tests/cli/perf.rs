//! `bowline perf`: every test on few iterations. What the figures are is not tested; that they
//! are there, for what was asked, with the payload checked by the command itself, is.

use crate::common::bowline;
use serde_json::Value;

fn perf(line: &str) -> Value {
    let args = ["perf"].into_iter().chain(line.split_whitespace());
    let args = args.chain(["--json", "--warmup", "2"]);
    serde_json::from_str(&bowline(args).success()).unwrap()
}

#[track_caller]
fn check(figure: &Value, test: &str, size: u64, ranks: u64) {
    assert_eq!(figure["test"], test, "{figure}");
    assert_eq!(figure["size"], size, "{figure}");
    assert_eq!(figure["ranks"], ranks, "{figure}");
    assert!(figure["transport"].is_string(), "{figure}");
    assert!(figure["iterations"].as_u64().unwrap() > 0, "{figure}");
    for key in ["median_ns", "p99_ns", "min_ns", "messages_per_s"] {
        let value = figure[key].as_f64().unwrap();
        assert!(value.is_finite() && value > 0.0, "{key}: {figure}");
    }
    let rate = figure["mbytes_per_s"].as_f64().unwrap();
    assert_eq!(rate > 0.0, size > 0, "{figure}");
    assert!(figure["min_ns"].as_f64() <= figure["median_ns"].as_f64(), "{figure}");
    assert!(figure["median_ns"].as_f64() <= figure["p99_ns"].as_f64(), "{figure}");
}

/// Sizes in every range in which layers change the protocol: short, packed, fragments, rendezvous.
const SIZES: [u64; 5] = [8, 100, 6000, 100_000, 1_500_000];

fn all_sizes(test: &str, iterations: &str, how: &str) {
    let sizes: Vec<_> = SIZES.iter().map(ToString::to_string).collect();
    let figures = perf(&format!("{test} --size {} {iterations} {how}", sizes.join(",")));
    let figures = figures.as_array().unwrap();
    assert_eq!(figures.len(), SIZES.len());
    for (figure, size) in figures.iter().zip(SIZES) {
        check(figure, test, size, 2);
    }
}

macro_rules! tests_of_all_sizes {
    ($($test:ident $iterations:literal,)*) => {$(
        mod $test {
            #[test]
            fn processes() {
                super::all_sizes(stringify!($test), $iterations, "");
            }

            #[test]
            fn threads() {
                super::all_sizes(stringify!($test), $iterations, "--threads");
            }
        }
    )*};
}

tests_of_all_sizes! {
    raw_bw "--iterations 3 --window 3",
    am_lat "--iterations 40",
    am_bw "--iterations 3 --window 5",
    stream_lat "--iterations 40",
    stream_bw "--iterations 3 --window 5",
    put_lat "--iterations 40",
    put_bw "--iterations 3 --window 5",
    get_lat "--iterations 40",
    get_bw "--iterations 3 --window 5",
    tag_lat "--iterations 40",
    tag_bw "--iterations 3 --window 5",
    tag_rate "--iterations 3",
    tag_posted_lat "--iterations 40",
    tag_posted_bw "--iterations 3 --window 5",
    tag_late_lat "--iterations 40",
    tag_late_bw "--iterations 3 --window 5",
    mpi_lat "--iterations 40",
    mpi_bw "--iterations 3 --window 5",
    mpi_rate "--iterations 3",
    mpi_late_lat "--iterations 40",
    mpi_late_bw "--iterations 3 --window 5",
}

#[test]
fn one_word_tests() {
    for test in ["raw_lat", "fadd_lat", "cswap_lat", "uct_lat"] {
        for how in ["", "--threads", "--yield"] {
            check(&perf(&format!("{test} --iterations 100 {how}")), test, 8, 2);
        }
    }
    let raw = perf("raw_lat --iterations 100");
    assert!(raw["one_line_median_ns"].as_f64().unwrap() > 0.0, "{raw}");
    assert!(perf("raw_bw --iterations 3")["memcpy_mbytes_per_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_bare_transport_has_a_limit() {
    let figures = perf("uct_lat --size 0,1,64,4000 --iterations 50");
    for (figure, size) in figures.as_array().unwrap().iter().zip([0, 1, 64, 4000]) {
        check(figure, "uct_lat", size, 2);
    }
    let err = bowline(["perf", "uct_lat", "--size", "1m"]).failure(1);
    assert!(err.contains("at most"), "{err}");
}

#[test]
fn short_and_empty_messages() {
    for test in ["am_lat", "tag_lat", "mpi_lat", "tag_rate", "mpi_rate"] {
        let figures = perf(&format!("{test} --size 0,1,3,7,9 --iterations 300"));
        for (figure, size) in figures.as_array().unwrap().iter().zip([0, 1, 3, 7, 9]) {
            check(figure, test, size, 2);
        }
    }
}

#[test]
fn a_rank_sends_to_itself() {
    for test in ["uct_lat", "am_lat", "stream_lat", "tag_lat", "mpi_lat"] {
        let figure = perf(&format!("{test} --transport self --iterations 100"));
        check(&figure, test, 8, 1);
        assert_eq!(figure["transport"], "self");
    }
}

#[test]
fn collectives() {
    for ranks in [1, 2, 5] {
        for how in ["", "--threads"] {
            check(
                &perf(&format!("barrier --ranks {ranks} --iterations 20 {how}")),
                "barrier",
                0,
                ranks,
            );
            for test in ["allreduce", "bcast", "reduce", "allgather", "alltoall"] {
                let line = format!("{test} --ranks {ranks} --size 8,80000 --iterations 20 {how}");
                let figures = perf(&line);
                check(&figures[0], test, 8, ranks);
                check(&figures[1], test, 80000, ranks);
            }
        }
    }
}

#[test]
fn start_up() {
    check(&perf("init --ranks 3 --iterations 2"), "init", 0, 3);
    check(&perf("init --ranks 3 --iterations 2 --threads"), "init", 0, 3);
}

#[test]
fn deaths() {
    for test in ["recv", "barrier", "allreduce", "bulk", "asleep"].map(|how| format!("death_{how}"))
    {
        for ranks in [2, 4] {
            let figure = perf(&format!("{test} --ranks {ranks} --iterations 3 --yield"));
            check(&figure, &test, 0, ranks);
            assert_eq!(figure["iterations"], 3, "{figure}");
        }
    }
    // The deaths are the test's own, and not news.
    let ended = bowline(["perf", "death_recv", "--iterations", "2", "--warmup", "0"]);
    assert_eq!(ended.err, "", "{ended:?}");
    assert!(ended.success().starts_with("death_recv: 2 processes"));
}

#[test]
fn a_table_for_people() {
    let out = bowline(["perf", "mpi_lat", "--size", "8,16", "--iterations", "50"]).success();
    assert_eq!(out.lines().count(), 4, "{out}");
    assert!(out.contains("median") && out.contains("mpi_lat: 2 processes"), "{out}");
    let out = bowline(["perf", "raw_lat", "--iterations", "50"]).success();
    assert!(out.contains("one line") && out.contains("memory without a transport"), "{out}");
}

#[test]
fn wrong_arguments_are_named() {
    for (line, code, expected) in [
        ("mpi_lta", 2, "mpi_lat"),
        ("mpi_lat --size huge", 2, "huge"),
        ("mpi_lat --iterations 0", 2, "0"),
        ("mpi_lat --transport pigeon", 2, "pigeon"),
        ("mpi_lat --ranks 3", 1, "two ranks"),
        ("tag_bw --transport self", 1, "two ranks"),
        ("raw_lat --size 64", 1, "one word"),
        ("allreduce --size 12", 1, "multiples of 8"),
        ("death_recv --threads", 1, "leave out --threads"),
        ("death_barrier --ranks 1", 1, "one that survives"),
        ("death_bulk --size 8", 1, "no payload"),
        ("raw_lat --transport tcp", 1, "leave out --transport"),
        ("mpi_lat --window 3", 1, "leave out --window"),
    ] {
        let err = bowline(["perf"].into_iter().chain(line.split_whitespace())).failure(code);
        assert!(err.contains(expected), "{line}: {err}");
    }
}
