//! Jobs that end badly: deaths, signals, time-outs, daemons, a killed launcher.

use crate::harness::{Job, Running, marked, probe, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Waits until every rank has said that it runs.
fn ready(running: &mut Running, ranks: usize) {
    assert!(wait_until(|| running.said().matches("ready").count() == ranks), "{}", running.said());
}

fn nothing_left(mark: &str) {
    assert!(wait_until(|| marked(mark).is_empty()), "left behind: {:?}", marked(mark));
}

#[test]
fn survivors_are_notified_and_go_on() {
    let ended = Job::launch(&["-n", "3", "--continue", probe(), "die", "1"]).run();
    assert_eq!(ended.code(), Some(137), "{ended:?}");
    let knows = |rank| format!("rank {rank} knows that rank 1 is dead");
    assert_eq!(ended.sorted_lines(), [knows(0), knows(2)]);
    assert_eq!(ended.sentences().len(), 1, "{ended:?}");
}

#[test]
fn by_default_a_death_ends_the_job() {
    let ended = Job::launch(&["-n", "3", probe(), "die", "1"]).run();
    assert_eq!(ended.code(), Some(137), "{ended:?}");
    assert_eq!(ended.sentences().len(), 1, "{ended:?}");
}

#[test]
fn ending_without_finalising_is_a_death() {
    let ended = Job::launch(&["-n", "1", probe(), "leave-quietly"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.sentences()[0].contains("ended without finalising"), "{ended:?}");
}

#[test]
fn a_rank_that_never_comes_does_not_hang_the_others() {
    let ended = Job::launch(&["-n", "3", probe(), "late"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let sentences = ended.sentences();
    assert!(sentences[0].contains("rank 1 (pid "), "{ended:?}");
    assert!(sentences[0].contains("waits for it in a barrier"), "{ended:?}");
}

#[test]
fn what_is_no_pmi_request_ends_that_rank() {
    let ended = Job::launch(&["-n", "1", probe(), "babble"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(ended.sentences().len(), 1, "{ended:?}");
    assert!(ended.sentences()[0].contains("instead of a PMI-1 request"), "{ended:?}");
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let ended = Job::launch(&["-n", "2", "--timeout", "200", "sleep", "1000"]).run();
    assert_eq!(ended.code(), Some(124), "{ended:?}");
    assert!(ended.sentences()[0].contains("time limit"), "{ended:?}");
}

#[test]
fn a_rank_that_does_not_want_to_end_is_killed() {
    let script = "trap '' TERM; while :; do sleep 0.05; done";
    let words = ["-n", "2", "--timeout", "200", "--grace", "200", "sh", "-c", script];
    let mut running = Job::launch(&words).start();
    let mark = running.mark();
    let ended = running.end();
    assert_eq!(ended.code(), Some(124), "{ended:?}");
    assert_eq!(ended.sentences().len(), 1, "{ended:?}");
    nothing_left(&mark);
}

#[test]
fn signals_are_passed_on() {
    let script = "trap 'echo heard; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = Job::launch(&["-n", "2", "--continue", "sh", "-c", script]).start();
    ready(&mut running, 2);
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(ended.code(), Some(5), "{ended:?}");
    assert_eq!(ended.stdout.matches("heard").count(), 2, "{ended:?}");
}

#[test]
fn a_second_interrupt_kills() {
    let script = "trap 'echo heard' INT; echo ready; while :; do sleep 0.05; done";
    let mut running = Job::launch(&["-n", "2", "sh", "-c", script]).start();
    ready(&mut running, 2);
    running.signal(Signal::INT);
    assert!(wait_until(|| running.said().matches("heard").count() == 2), "{}", running.said());
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!(ended.code(), Some(130), "{ended:?}");
    assert!(ended.sentences()[0].contains("second SIGINT"), "{ended:?}");
}

#[test]
fn a_stop_from_the_terminal_stops_and_continues_everybody() {
    let script = "echo ready; while :; do sleep 0.05; done";
    let mut running = Job::launch(&["-n", "2", "sh", "-c", script]).start();
    ready(&mut running, 2);
    let own = running.child.id();
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next())
    };
    let shells: Vec<u32> = running
        .processes()
        .into_iter()
        .filter(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "sh")
        })
        .collect();
    assert!(shells.len() >= 2, "{shells:?}");
    running.signal(Signal::TSTP);
    assert!(wait_until(|| state(own) == Some('T')));
    assert!(wait_until(|| shells.iter().all(|pid| !matches!(state(*pid), Some('R' | 'S')))));
    running.signal(Signal::CONT);
    assert!(wait_until(|| state(own) != Some('T')));
    assert!(wait_until(|| shells.iter().all(|pid| state(*pid) != Some('T'))));
    running.signal(Signal::TERM);
    assert_eq!(running.end().code(), Some(143));
}

#[test]
fn a_killed_launcher_leaves_nothing_behind() {
    // Each rank with a child in its group and one in a group of its own.
    let script = "sleep 1000 & bash -m -c 'sleep 1000 & echo ready; wait' & wait";
    for label in [&[][..], &["--label"]] {
        let words = [&["-n", "3"], label, &["bash", "-c", script]].concat();
        let mut running = Job::launch(&words).start();
        ready(&mut running, 3);
        assert!(running.processes().len() > 9, "{:?}", running.processes());
        let mark = running.mark();
        running.signal(Signal::KILL);
        let _ = running.child.wait();
        nothing_left(&mark);
    }
}

#[test]
fn children_that_ranks_leave_running_are_ended_with_the_job() {
    let script = "sleep 1000 & bash -m -c 'sleep 1000 & exit 0'; exit 0";
    let mut running = Job::launch(&["-n", "2", "bash", "-c", script]).start();
    let mark = running.mark();
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    nothing_left(&mark);
}

#[test]
fn a_daemon_that_holds_the_output_does_not_hold_the_launcher() {
    // The daemon has left the session; whether the launcher waits for its pipe's end is the
    // question, not what becomes of it.
    let script = "setsid sleep 300 & until [ $(cat /proc/$!/comm) = sleep ]; do sleep 0.01; done; \
                  echo started; printf rest";
    for label in [&[][..], &["--label"]] {
        let words = [&["-n", "2"], label, &["sh", "-c", script]].concat();
        let mut running = Job::launch(&words).start();
        let mark = running.mark();
        let ended = running.end();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.stdout.matches("started").count(), 2, "{ended:?}");
        assert_eq!(ended.stdout.matches("rest").count(), 2, "{ended:?}");
        assert_eq!(marked(&mark).len(), 2, "the daemons were to outlive the job");
    }
}

#[test]
fn a_program_that_a_rank_starts_is_not_a_rank() {
    let ended = Job::launch(&["-n", "1", probe(), "child"]).run();
    assert_eq!(ended.code(), Some(3), "{ended:?}");
    assert!(ended.stderr.contains("PMI_FD names descriptor"), "{ended:?}");
}

/// The guardian of a job that runs.
fn guardian(running: &Running) -> Pid {
    let is_guardian = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "bowline-guard")
    };
    let pid = running.processes().into_iter().find(is_guardian).expect("a job has a guardian");
    Pid::from_raw(pid as i32).unwrap()
}

#[test]
fn a_stopped_guardian_does_not_hold_the_end() {
    let mut running = Job::launch(&["-n", "2", "--continue", probe(), "outlive", "1"]).start();
    ready(&mut running, 2);
    kill_process(guardian(&running), Signal::STOP).unwrap();
    running.signal(Signal::TERM);
    let mark = running.mark();
    assert_ne!(running.end().code(), Some(0));
    nothing_left(&mark);
}

#[test]
fn a_killed_guardian_is_reported_once_and_at_once() {
    let mut running = Job::launch(&["-n", "3", probe(), "outlive", "0"]).start();
    ready(&mut running, 3);
    kill_process(guardian(&running), Signal::KILL).unwrap();
    let reported = |running: &mut Running| running.complained().matches("guardian (pid ").count();
    assert!(wait_until(|| reported(&mut running) > 0), "nothing is said while the job runs");
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(ended.stderr.matches("guardian").count(), 1, "{ended:?}");
    nothing_left(&running.mark());
}
