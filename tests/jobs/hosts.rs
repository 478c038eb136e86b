//! Jobs on several hosts. The hosts are names: the agents run on this machine, each a node of its
//! own, started by `env` instead of `ssh`.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use crate::harness::{Job, Running, marked, probe, wait_until};
use bowline_uct::conformance::skipped;
use rustix::process::{Pid, Signal, kill_process};

fn nothing_left(mark: &str) {
    assert!(wait_until(|| marked(mark).is_empty()), "left behind: {:?}", marked(mark));
}

/// The agent of a host, by what its command has put into its environment.
fn agent(running: &Running, host: &str) -> Option<Pid> {
    let wanted = format!("BOWLINE_TEST_HOST={host}");
    running.processes().into_iter().find_map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let here = environment.split(|&b| b == 0).any(|v| v == wanted.as_bytes());
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let is_agent = line.ends_with(b"\0agent\0") && !name.starts_with("bowline-guard");
        (here && is_agent).then(|| Pid::from_raw(pid as i32)).flatten()
    })
}

#[test]
fn ranks_join_across_hosts() {
    let ended = Job::on_hosts("a:2,b:3", &["-n", "5", probe(), "join"]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let expected: Vec<String> = (0..5u32)
        .map(|rank| {
            let (local, of) = if rank < 2 { (rank, 2) } else { (rank - 2, 3) };
            format!("rank {rank} of 5 local {local} of {of} watches 0 by Bowline")
        })
        .collect();
    assert_eq!(ended.sorted_lines(), expected);
    assert_eq!(ended.stderr, "");
}

#[test]
fn ranks_have_the_environment_and_directory_of_the_launcher() {
    let script = "echo $PMI_RANK $PMI_SIZE $BOWLINE_LOCAL_RANK $BOWLINE_LOCAL_SIZE $OWN $PWD \
                  $BOWLINE_TEST_HOST";
    let mut job = Job::on_hosts("a,b", &["-n", "3", "sh", "-c", script]);
    job.command().current_dir("/usr").env("OWN", "kept");
    let ended = job.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(
        ended.sorted_lines(),
        ["0 3 0 2 kept /usr a", "1 3 1 2 kept /usr a", "2 3 0 1 kept /usr b"]
    );
}

/// The processors that this process may use.
fn own_cpus() -> Vec<String> {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    all.filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu.to_string()).collect()
}

#[test]
fn hosts_that_are_one_machine_do_not_share_processors() {
    let cpus = own_cpus();
    let [first, second, ..] = &cpus[..] else {
        skipped("there is one processor only");
        return;
    };
    let bound = |hosts: &str, words: &[&str]| {
        let ended = Job::on_hosts(hosts, &[words, &[probe(), "which-cpus"]].concat()).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        ended.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let sorted = |mut lines: Vec<String>| {
        lines.sort_unstable();
        lines
    };
    let two = sorted(vec![first.clone(), second.clone()]);
    assert_eq!(sorted(bound("a,b", &["-n", "2"])), two);
    assert_eq!(sorted(bound("a,b", &["-n", "2", "--bind", "core"])), two);
    assert_eq!(bound("a,b", &["-n", "2", "--bind", "none"]), [cpus.join(","), cpus.join(",")]);
    // Enough processors for each host, and not for both.
    let all = cpus.len().to_string();
    let hosts = format!("a:{all},b:1");
    let more = (cpus.len() + 1).to_string();
    assert!(bound(&hosts, &["-n", &more]).iter().all(|line| *line == cpus.join(",")));
    let mut expected = [&cpus[..], &cpus[..1]].concat();
    expected.sort_unstable();
    assert_eq!(sorted(bound(&hosts, &["-n", &more, "--bind", "core"])), expected);
    // Hosts that may use one processor each.
    if Command::new("taskset").arg("--version").output().is_err() {
        skipped("taskset is not installed (Debian: util-linux)");
        return;
    }
    let hosts = format!("{first},{second}");
    let command = ["--hosts", &hosts, "--agent-command", "taskset -c {host}"];
    let words = ["-n", "4", "--bind", "core", probe(), "which-cpus"];
    let ended = Job::launch(&[&command[..], &words[..]].concat()).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.sorted_lines(), sorted([two.clone(), two].concat()), "{ended:?}");
}

#[test]
fn a_host_that_is_lost_before_the_start_does_not_hold_up_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("reach");
    let text = "#!/bin/sh\nif [ $1 = b ]; then sleep 0.3; exit 3; fi\nshift\nexec \"$@\"\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let command = format!("{} {{host}}", script.display());
    let launch = |more: &[&str]| {
        let words = ["--hosts", "a,b", "--agent-command", &command, "-n", "2"];
        let mut running = Job::launch(&[&words, more].concat()).start();
        let mark = running.mark();
        let ended = running.end();
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        assert_eq!(ended.sentences().len(), 1, "{ended:?}");
        assert!(ended.sentences()[0].contains("host b"), "{ended:?}");
        nothing_left(&mark);
        ended
    };
    launch(&["sleep", "1000"]);
    let ended = launch(&["--continue", "echo", "here"]);
    assert_eq!(ended.stdout, "here\n", "{ended:?}");
}

/// Where no shell reads the agent's path, nothing of it is quoted.
#[test]
fn an_agent_may_have_any_path() {
    let directory = tempfile::tempdir().unwrap();
    let agent = directory.path().join("it's \"here\" $HOME");
    symlink(probe(), &agent).unwrap();
    let agent = agent.to_str().unwrap();
    let ended = Job::on_hosts("a", &["--agent-program", agent, "-n", "1", "echo", "ran"]).run();
    assert_eq!((ended.code(), &*ended.stdout), (Some(0), "ran\n"), "{ended:?}");
}

#[test]
fn the_first_failure_names_rank_and_host() {
    let script = "if [ $PMI_RANK = 1 ]; then exit 7; fi; sleep 1000";
    let mut running = Job::on_hosts("a,b", &["-n", "2", "sh", "-c", script]).start();
    let mark = running.mark();
    let ended = running.end();
    assert_eq!(ended.code(), Some(7), "{ended:?}");
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{ended:?}");
    assert!(sentences[0].starts_with("bowline: rank 1 (pid "), "{ended:?}");
    assert!(sentences[0].ends_with(" on host b) exited with code 7"), "{ended:?}");
    nothing_left(&mark);
}

#[test]
fn deaths_are_reported_to_ranks_on_other_hosts() {
    let words = ["-n", "4", "--continue", probe(), "die", "3"];
    let ended = Job::on_hosts("a,b", &words).run();
    assert_eq!(ended.code(), Some(137), "{ended:?}");
    let knows = |rank| format!("rank {rank} knows that rank 3 is dead");
    assert_eq!(ended.sorted_lines(), [knows(0), knows(1), knows(2)]);
    assert_eq!(ended.sentences().len(), 1, "{ended:?}");
}

#[test]
fn a_rank_that_never_comes_does_not_hang_other_hosts() {
    let ended = Job::on_hosts("a,b,c", &["-n", "3", probe(), "late"]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.sentences()[0].contains("rank 1 (pid "), "{ended:?}");
    assert!(ended.sentences()[0].contains("waits for it in a barrier"), "{ended:?}");
}

#[test]
fn an_agent_that_is_killed_takes_its_ranks_along() {
    // Rank 1 is on host b, whose agent dies; rank 0 learns of it, and nothing is left of rank 1.
    let words = ["-n", "2", "--continue", probe(), "outlive", "1"];
    let mut running = Job::on_hosts("a,b", &words).start();
    let mark = running.mark();
    assert!(wait_until(|| running.said().matches("ready").count() == 2), "{}", running.said());
    kill_process(agent(&running, "b").expect("an agent"), Signal::KILL).unwrap();
    let ended = running.end();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stdout.contains("rank 0 knows that rank 1 is dead"), "{ended:?}");
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{ended:?}");
    assert!(sentences[0].contains("rank 1 on host b is lost"), "{ended:?}");
    assert!(sentences[0].contains("has ended (signal: 9 (SIGKILL))"), "{ended:?}");
    nothing_left(&mark);
}

#[test]
fn a_silent_host_is_lost() {
    let words = ["-n", "2", "--host-timeout", "500", "--continue", probe(), "outlive", "1"];
    let mut running = Job::on_hosts("a,b", &words).start();
    let mark = running.mark();
    assert!(wait_until(|| running.said().matches("ready").count() == 2), "{}", running.said());
    kill_process(agent(&running, "b").expect("an agent"), Signal::STOP).unwrap();
    let ended = running.end();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stdout.contains("rank 0 knows that rank 1 is dead"), "{ended:?}");
    assert!(ended.sentences()[0].contains("nothing was heard for 500ms"), "{ended:?}");
    nothing_left(&mark);
}

#[test]
fn agents_that_lose_their_launcher_end_their_ranks() {
    for signal in [Signal::KILL, Signal::STOP] {
        let script = "echo ready; sleep 1000";
        let words = ["-n", "4", "--host-timeout", "500", "sh", "-c", script];
        let mut running = Job::on_hosts("a,b", &words).start();
        let mark = running.mark();
        assert!(wait_until(|| running.said().matches("ready").count() == 4), "{}", running.said());
        let launcher = running.child.id();
        running.signal(signal);
        let others = || marked(&mark).into_iter().filter(|pid| *pid != launcher).count();
        assert!(wait_until(|| others() == 0), "left behind: {:?}", marked(&mark));
    }
}

#[test]
fn a_job_that_is_stopped_and_continued_goes_on() {
    let script = "trap 'echo heard; exit 0' USR1; echo ready; while :; do sleep 0.05; done";
    let words = ["-n", "2", "--host-timeout", "500", "sh", "-c", script];
    let mut running = Job::on_hosts("a,b", &words).start();
    assert!(wait_until(|| running.said().matches("ready").count() == 2), "{}", running.said());
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next())
    };
    let launcher = running.child.id();
    running.signal(Signal::TSTP);
    assert!(wait_until(|| state(launcher) == Some('T')));
    // Longer than the silence that means a loss, were it not announced.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    running.signal(Signal::CONT);
    assert!(wait_until(|| state(launcher) != Some('T')));
    running.signal(Signal::USR1);
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.stdout.matches("heard").count(), 2, "{ended:?}");
}

#[test]
fn input_and_much_output_pass() {
    let script = "if [ $PMI_RANK = 0 ]; then cat; else seq 1 200000; fi; echo end $PMI_RANK >&2";
    let mut job = Job::on_hosts("a,b", &["-n", "2", "--label", "sh", "-c", script]);
    job.command().stdin(Stdio::piped());
    let mut running = job.start();
    let mut stdin = running.child.stdin.take().unwrap();
    let lines: String = (0..50_000).map(|i| format!("line {i}\n")).collect();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let own = |rank: u32| {
        let label = format!("[{rank}] ");
        let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix(&label));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(own(0), lines);
    let numbers: String = (1..=200_000).map(|i| format!("{i}\n")).collect();
    assert_eq!(own(1), numbers);
    assert!(ended.stderr.contains("[0] end 0") && ended.stderr.contains("[1] end 1"));
}

#[test]
fn signals_and_time_limits_reach_every_host() {
    let script = "trap 'echo heard; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let words = ["-n", "2", "--continue", "sh", "-c", script];
    let mut running = Job::on_hosts("a,b", &words).start();
    assert!(wait_until(|| running.said().matches("ready").count() == 2), "{}", running.said());
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(ended.code(), Some(5), "{ended:?}");
    assert_eq!(ended.stdout.matches("heard").count(), 2, "{ended:?}");
    let words = ["-n", "2", "--timeout", "200", "--grace", "200", "sleep", "1000"];
    let ended = Job::on_hosts("a,b", &words).run();
    assert_eq!(ended.code(), Some(124), "{ended:?}");
}

#[test]
fn what_cannot_be_started_is_named() {
    let ended = Job::on_hosts("a,b", &["-n", "2", "no-such-program-anywhere"]).run();
    assert_eq!(ended.code(), Some(127), "{ended:?}");
    assert!(ended.sentences()[0].contains("host "), "{ended:?}");
    assert!(ended.sentences()[0].contains("no-such-program-anywhere"), "{ended:?}");
    let launch = |command: &str| {
        let words = ["--hosts", "a,b", "--agent-command", command, "-n", "2", "true"];
        Job::launch(&words).run()
    };
    let ended = launch("no-such-command {host}");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("no-such-command"), "{ended:?}");
    let ended = launch("false");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.sentences()[0].contains("has ended"), "{ended:?}");
    let ended = launch("echo Welcome to {host}");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.sentences()[0].contains("Welcome to"), "{ended:?}");
    let ended = Job::on_hosts("-oProxyCommand=true", &["-n", "1", "true"]).run();
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    let ended = Job::on_hosts("a:1,b:1", &["-n", "3", "true"]).run();
    assert!(ended.stderr.contains("2 slots for 3 ranks"), "{ended:?}");
}

#[test]
fn an_mpich_program_runs_across_agents() {
    let compiler = "mpicc.mpich";
    if Command::new(compiler).arg("--version").output().is_err() {
        skipped(format_args!("{compiler} is not installed"));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = r#"
        #include <mpi.h>
        #include <stdio.h>
        int main(int argc, char **argv) {
            int rank, sum;
            MPI_Init(&argc, &argv);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            printf("rank %d sum %d\n", rank, sum);
            MPI_Finalize();
            return 0;
        }"#;
    let (c, program) = (dir.path().join("program.c"), dir.path().join("program"));
    std::fs::write(&c, source).unwrap();
    let status = Command::new(compiler).arg(&c).arg("-o").arg(&program).status().unwrap();
    assert!(status.success(), "mpicc.mpich does not compile");
    let ended = Job::on_hosts("a,b", &["-n", "4", program.to_str().unwrap()]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let line = |rank| format!("rank {rank} sum 6");
    assert_eq!(ended.sorted_lines(), [line(0), line(1), line(2), line(3)]);
}
