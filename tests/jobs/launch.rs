//! Jobs that run to an end of their own: exit codes, environment, streams, processors, limits.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Job, probe};

#[test]
fn ranks_know_who_and_where_they_are() {
    let script = "echo $PMI_RANK $PMI_SIZE $BOWLINE_LOCAL_RANK $BOWLINE_LOCAL_SIZE $OWN $PWD";
    let mut job = Job::launch(&["-n", "3", "sh", "-c", script]);
    job.command().current_dir("/usr").env("OWN", "kept");
    let ended = job.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(
        ended.sorted_lines(),
        ["0 3 0 3 kept /usr", "1 3 1 3 kept /usr", "2 3 2 3 kept /usr"]
    );
    assert_eq!(ended.stderr, "");
}

#[test]
fn the_first_failure_gives_the_exit_code_and_one_sentence() {
    let script = "if [ $PMI_RANK = 1 ]; then exit 7; fi; sleep 1000";
    let ended = Job::launch(&["-n", "3", "sh", "-c", script]).run();
    assert_eq!(ended.code(), Some(7), "{ended:?}");
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].starts_with("bowline: rank 1 (pid "), "{sentences:?}");
    assert!(sentences[0].ends_with(") exited with code 7"), "{sentences:?}");
}

#[test]
fn a_death_by_signal_is_reported() {
    let script = "if [ $PMI_RANK = 2 ]; then kill -9 $$; fi; sleep 1000";
    let ended = Job::launch(&["-n", "3", "sh", "-c", script]).run();
    assert_eq!(ended.code(), Some(137), "{ended:?}");
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].contains("rank 2 (pid "), "{sentences:?}");
    assert!(sentences[0].ends_with(") was killed by signal 9 (SIGKILL)"), "{sentences:?}");
}

#[test]
fn programs_that_cannot_be_started_are_named() {
    let ended = Job::launch(&["-n", "2", "no-such-program-anywhere"]).run();
    assert_eq!(ended.code(), Some(127), "{ended:?}");
    assert!(ended.stderr.contains("no-such-program-anywhere"), "{ended:?}");
    let ended = Job::launch(&["-n", "2", "/etc/passwd"]).run();
    assert_eq!(ended.code(), Some(126), "{ended:?}");
    assert!(ended.stderr.contains("/etc/passwd"), "{ended:?}");
    let ended = Job::launch(&["-n", "0", "true"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
}

#[test]
fn input_goes_to_rank_0_only() {
    let script = "cat; echo end $PMI_RANK";
    let mut job = Job::launch(&["-n", "3", "sh", "-c", script]);
    job.command().stdin(Stdio::piped());
    let mut running = job.start();
    let mut stdin = running.child.stdin.take().unwrap();
    stdin.write_all(b"hello\n").unwrap();
    drop(stdin);
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.sorted_lines(), ["end 0", "end 1", "end 2", "hello"]);
}

#[test]
fn labelled_lines_stay_whole() {
    let script = "i=0; while [ $i -lt 200 ]; do echo line $i of $PMI_RANK; i=$((i+1)); done; \
                  echo complaint >&2; printf unfinished";
    let ended = Job::launch(&["-n", "3", "--label", "sh", "-c", script]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    for rank in 0..3 {
        let label = format!("[{rank}] ");
        let own: Vec<_> =
            ended.stdout.lines().filter_map(|line| line.strip_prefix(&label)).collect();
        let mut expected: Vec<_> = (0..200).map(|i| format!("line {i} of {rank}")).collect();
        expected.push("unfinished".into());
        assert_eq!(own, expected);
        assert!(ended.stderr.contains(&format!("[{rank}] complaint\n")), "{}", ended.stderr);
    }
    assert_eq!(ended.stdout.lines().count(), 3 * 201);
}

#[test]
fn ranks_are_bound_when_there_are_processors_enough() {
    let cpus = rustix::thread::sched_getaffinity(None).unwrap().count().to_string();
    let more = (cpus.parse::<u32>().unwrap() + 1).to_string();
    let counts = |words: &[&str]| {
        let ended = Job::launch(&[words, &[probe(), "cpus"]].concat()).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        ended.stdout.lines().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(counts(&["-n", "1"]), ["1"]);
    assert_eq!(counts(&["-n", "1", "--bind", "none"]), [cpus.as_str()]);
    assert!(counts(&["-n", &more]).iter().all(|count| *count == cpus));
    assert!(counts(&["-n", &more, "--bind", "core"]).iter().all(|count| count == "1"));
}

#[test]
fn memory_that_cannot_be_reserved_is_reported() {
    let mut job = Job::of("sh");
    let command = "ulimit -f 16; exec \"$0\" launch -n 2 --area 1000000 true";
    job.command().args(["-c", command, probe()]);
    let ended = job.run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("file size limit"), "{ended:?}");
}

#[test]
fn a_terminal_feeds_rank_0() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal =
        std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let script = "if [ $PMI_RANK = 0 ]; then read line; echo got $line; else cat; fi";
    // `setsid --ctty` makes the terminal the launcher's own.
    let mut job = Job::of("setsid");
    job.command()
        .args(["--ctty", "--wait", probe(), "launch", "-n", "2", "sh", "-c", script])
        .stdin(terminal);
    let mut running = job.start();
    rustix::io::write(&master, b"hello\n").unwrap();
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "got hello\n");
}
