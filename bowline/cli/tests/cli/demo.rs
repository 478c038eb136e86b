//! The demonstration programs, each against something that knows the answer: `sort`, the same
//! computation on one processor, the same program with another number of ranks.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{bowline, finish, repository};

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Sorts `text` with several numbers of ranks and compares with the system's `sort`.
#[track_caller]
fn sorts(text: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("input"), directory.path().join("output"));
    fs::write(&input, text).unwrap();
    let mut reference = Command::new("sort");
    let expected = reference.env("LC_ALL", "C").arg(&input).output().unwrap();
    assert!(expected.status.success());
    for how in [&["-n", "1"][..], &["-n", "2"], &["-n", "4"], &["-n", "7", "--threads"]] {
        let args = ["demo", "sort", path(&input), "--output", path(&output)];
        bowline(args.iter().chain(how)).success();
        let sorted = fs::read(&output).unwrap();
        assert!(sorted == expected.stdout, "{how:?}: {} bytes sorted otherwise", text.len());
        // Nothing but the two files.
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}

/// Lines that seem random and are the same in every run.
fn lines(count: usize, words: u64) -> Vec<u8> {
    let mut state = 42u64;
    let mut text = Vec::new();
    for _ in 0..count {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend(format!("{:x}\n", (state >> 33) % words).into_bytes());
    }
    text
}

#[test]
fn sort_of_ordinary_files() {
    sorts(&fs::read(repository("examples/data/words.txt")).unwrap());
    sorts(&lines(30_000, u64::MAX));
}

#[test]
fn sort_of_nothing_and_next_to_nothing() {
    sorts(b"");
    sorts(b"\n");
    sorts(b"a");
    sorts(b"\n\n\nb\n\na\n\n");
    sorts(b"b\na");
}

#[test]
fn sort_of_any_bytes() {
    sorts(b"b\r\na\r\n\r\na\nb\r\nc");
    sorts(b"\xff\n\x00\n\x80x\nx\x00y\nx\n\x09\n\x0b\nx\t\n");
    let all: Vec<u8> =
        (0..60_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    sorts(&all);
}

#[test]
fn sort_of_duplicates() {
    sorts(&b"the same line\n".repeat(20_000));
    sorts(&lines(30_000, 3));
    let mixed = [b"m\n".repeat(10_000), b"a\n".repeat(3), b"z\n".repeat(5000)].concat();
    sorts(&mixed);
}

#[test]
fn sort_of_huge_lines() {
    sorts(&vec![b'x'; 3_000_000]);
    let around =
        [b"z\n".to_vec(), vec![b'y'; 2_000_000], b"\na\n".to_vec(), lines(100, 9)].concat();
    sorts(&around);
    // Equal in all that a sample keeps, different behind.
    let prefix = vec![b'p'; 1000];
    let twins: Vec<u8> =
        (0..300).rev().flat_map(|i| [&prefix[..], format!("{i}\n").as_bytes()].concat()).collect();
    sorts(&twins);
}

#[test]
fn sort_into_its_own_input_and_through_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    fs::write(&file, "b\nc\na").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    bowline(["demo", "sort", path(&link), "-o", path(&link), "-n", "3"]).success();
    assert_eq!(fs::read(&file).unwrap(), b"a\nb\nc\n");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn sort_says_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    fs::write(&input, "a\n").unwrap();
    let here = path(directory.path());
    let err = bowline(["demo", "sort", "/no/such/file", "-o", "out"]).failure(1);
    assert!(err.contains("cannot read /no/such/file") && err.contains("No such file"), "{err}");
    assert_eq!(err.lines().count(), 1, "reported once: {err}");
    let err = bowline(["demo", "sort", here, "-o", "out"]).failure(1);
    assert!(err.contains("not a regular file"), "{err}");
    let err = bowline(["demo", "sort", path(&input), "-o", "/no/such/directory/out"]).failure(1);
    assert!(err.contains("cannot write /no/such/directory/out"), "{err}");
    assert_eq!(err.matches("cannot write").count(), 1, "reported once: {err}");
    let err = bowline(["demo", "sort", path(&input), "-o", here]).failure(1);
    assert!(err.contains("not a regular file"), "{err}");
    let err = bowline(["demo", "sort", path(&input)]).failure(2);
    assert!(err.contains("--output"), "{err}");
}

#[test]
fn pagerank_is_that_of_one_processor() {
    let links = repository("examples/data/links.txt");
    let mut printed = Vec::new();
    for how in [&["-n", "1"][..], &["-n", "3"], &["-n", "4"], &["-n", "5", "--threads"]] {
        let args = ["demo", "pagerank", &links, "--check", "--iterations", "30", "--top", "7"];
        let out = bowline(args.iter().chain(how)).success();
        assert!(out.contains("sequential program: 0e0"), "{how:?}: {out}");
        assert!(out.contains("300 vertices"), "{out}");
        printed.push(out);
    }
    assert!(printed.windows(2).all(|pair| pair[0] == pair[1]), "{printed:#?}");
    assert_eq!(printed[0].lines().count(), 3 + 7);
}

#[test]
fn pagerank_of_odd_graphs() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("edges");
    let graphs = [
        "1 1\n",
        "1 2",
        "-9223372036854775808 9223372036854775807\n# comment\n\n5 5 # again\n",
        "1 2\n1 2\n1 2\n2 1\n1 3\n",
    ];
    for graph in graphs {
        fs::write(&file, graph).unwrap();
        for damping in ["0", "0.85", "1"] {
            let args = ["demo", "pagerank", path(&file), "-n", "4", "--check"];
            bowline(args.iter().chain(&["--damping", damping])).success();
        }
    }
}

#[test]
fn pagerank_names_the_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("edges");
    let mut text = "1 2\n".repeat(500);
    text.push_str("3 four\n");
    text.push_str(&"5 six\n".repeat(300));
    fs::write(&file, text).unwrap();
    let err = bowline(["demo", "pagerank", path(&file), "-n", "4"]).failure(1);
    assert!(err.contains("line 501") && err.contains("\"four\""), "{err}");
    assert!(!err.contains("six"), "only the first one: {err}");
    fs::write(&file, "# nothing\n").unwrap();
    let err = bowline(["demo", "pagerank", path(&file)]).failure(1);
    assert!(err.contains("holds no edges"), "{err}");
    let err = bowline(["demo", "pagerank", path(&file), "--damping", "1.5"]).failure(2);
    assert!(err.contains("probability"), "{err}");
}

#[test]
fn heat_is_the_same_for_every_number_of_ranks() {
    let directory = tempfile::tempdir().unwrap();
    let mut results = Vec::new();
    for how in [&["-n", "1"][..], &["-n", "2"], &["-n", "5"], &["-n", "70", "--threads"]] {
        let png = directory.path().join(format!("heat{}.png", results.len()));
        let args = ["demo", "heat", "--size", "80x60", "--steps", "150", "--png", path(&png)];
        let out = bowline(args.iter().chain(how)).success();
        let line = out.lines().find(|line| line.contains("checksum")).unwrap().to_owned();
        results.push((line, fs::read(&png).unwrap()));
    }
    assert_eq!(results[0].1[1..4], *b"PNG");
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    // Another number of steps is another field.
    let other = bowline(["demo", "heat", "--size", "80x60", "--steps", "151"]).success();
    assert!(!other.contains(&results[0].0), "{other}");
}

#[test]
fn heat_says_what_is_wrong() {
    let err = bowline(["demo", "heat", "--png", "heat.jpg"]).failure(1);
    assert!(err.contains(".png"), "{err}");
    let err = bowline(["demo", "heat", "--png", "/no/such/heat.png"]).failure(1);
    assert!(err.contains("no such directory"), "{err}");
    let err = bowline(["demo", "heat", "--size", "huge"]).failure(2);
    assert!(err.contains("`huge`"), "{err}");
    let err = bowline(["demo", "heat", "-n", "0"]).failure(2);
    assert!(err.contains('0'), "{err}");
}

#[test]
fn demos_run_under_the_launcher_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["run", "-n", "2", env!("CARGO_BIN_EXE_bowline"), "--as-rank"]);
    command.args(["demo", "heat", "--size", "20x20", "--steps", "5"]);
    assert!(finish(command).success().contains("checksum"));
}
