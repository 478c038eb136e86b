//! What may happen to the process of a rank: it forks a child that returns from `main`, or the system has
//! no resources for its threads, its descriptors or its memory, until it has again. Each case has processes
//! of its own, since limits belong to a process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitCode, exit};
use std::time::{Duration, Instant};

use bowline::ThreadsError;
use bowline::mpi::{Sum, World};
use bowline_base::config::Config;
use bowline_launch::run::{RunOptions, run};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Case;

/// Ranks of a job, or a process by itself.
enum What {
    Ranks(u32, &'static str, fn()),
    Alone(fn()),
}

use What::{Alone, Ranks};

const CASES: &[(&str, What)] = &[
    ("conditions::a_forked_child_returns", Ranks(2, "self,shm", fork_with_a_world)),
    ("conditions::a_forked_child_returns_over_tcp", Ranks(2, "self,tcp", fork_with_a_world)),
    ("conditions::a_forked_child_of_a_member", Ranks(2, "self,shm", fork_with_a_member)),
    ("conditions::a_forked_child_of_a_member_over_tcp", Ranks(2, "self,tcp", fork_with_a_member)),
    ("conditions::threads_without_resources_for_threads", Alone(no_threads)),
    ("conditions::threads_without_resources_for_descriptors", Alone(no_descriptors)),
    ("conditions::threads_without_resources_for_memory", Alone(no_memory)),
];

/// Names the case of a process by itself.
const ROLE: &str = "CONDITIONS_TEST_ROLE";

/// Exit code of a case that cannot be tried here; it has said why.
const SKIPPED: i32 = 77;

const WATCHDOG: Duration = Duration::from_secs(60);

/// Runs a rank of the case with this name, if there is one.
pub(crate) fn rank(name: &str) -> bool {
    let Some((_, Ranks(.., program))) = CASES.iter().find(|(known, _)| *known == name) else {
        return false;
    };
    program();
    true
}

/// Runs the case that this process was started for, if it was.
pub(crate) fn play() -> Option<ExitCode> {
    let name = std::env::var(ROLE).ok()?;
    let case = CASES.iter().find(|(known, _)| *known == name);
    let Some((_, Alone(program))) = case else { panic!("there is no case {name}") };
    program();
    Some(ExitCode::SUCCESS)
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |(name, what): &'static (&str, What)| {
        Case::new((*name).to_owned(), move || attempt(name, what))
    };
    CASES.iter().map(case).collect()
}

fn attempt(name: &str, what: &What) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    match what {
        Ranks(ranks, transports, _) => {
            let config = bowline::config_from_env().map_err(|error| error.to_string())?;
            let mut options = RunOptions::new(*ranks, program);
            options.args = vec![name.into()];
            options.env = vec![("BOWLINE_TRANSPORTS".into(), (*transports).into())];
            options.area_bytes = bowline::stack::area_bytes(&config);
            options.timeout = Some(WATCHDOG);
            let report = run(&options).map_err(|error| error.to_string())?;
            report.failure.map_or(Ok(()), |failure| Err(failure.sentence))
        }
        Alone(_) => {
            let mut command = Command::new(program);
            let child = command.env(ROLE, name).env_remove("BOWLINE_TRANSPORTS");
            ends(child.spawn().map_err(|error| error.to_string())?)
        }
    }
}

fn ends(mut child: Child) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() || status.code() == Some(SKIPPED) => return Ok(()),
            Some(status) => return Err(format!("it ended otherwise than it should: {status}")),
            None if start.elapsed() > WATCHDOG => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it has not ended within {WATCHDOG:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Forks; what to wait for in the parent, and nothing in the child.
fn fork() -> Option<libc::pid_t> {
    // SAFETY: this process has one thread, so that the child may go on as usual.
    match unsafe { libc::fork() } {
        -1 => panic!("cannot fork: {}", std::io::Error::last_os_error()),
        0 => None,
        child => Some(child),
    }
}

fn returns_with_success(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `status` is a number that lives through the call; the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child was killed by {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "the child's exit code");
}

/// Messages to and fro, more than a connection holds at once.
fn ping_pong(world: &World) {
    let other = 1 - world.rank();
    for round in 0..2000_u64 {
        let mut got = [0_u64];
        if world.rank() == 0 {
            world.send(&[round], other, 0).expect("the other rank lives");
            world.recv(&mut got, other, 0).expect("the other rank lives");
        } else {
            world.recv(&mut got, other, 0).expect("the other rank lives");
            world.send(&got, other, 0).expect("the other rank lives");
        }
        assert_eq!(got, [round]);
    }
}

fn fork_with_a_world() {
    let world = bowline::init().expect("the launcher started this rank");
    ping_pong(&world);
    // Clones, duplicates and requests under way go with the child's copy, too.
    let copy = world.dup().expect("a communicator");
    let mut late = vec![0_u64; 100_000];
    let mut child = None;
    if world.rank() == 0 {
        let sent = world.isend_owned(vec![7_u64; 100_000], 1, 5).expect("rank 1 lives");
        child = fork();
        drop(sent);
        if child.is_none() {
            return;
        }
    } else {
        world.recv(&mut late, 0, 5).expect("rank 0 lives");
        assert_eq!(late, vec![7; 100_000]);
    }
    ping_pong(&world);
    copy.barrier().expect("both live");
    if let Some(child) = child {
        returns_with_success(child);
    }
}

fn fork_with_a_member() {
    let member = bowline::join().expect("the launcher started this rank");
    let ep = member.connect(1 - member.rank()).expect("the other rank lives");
    member.barrier().expect("both live");
    let child = (member.rank() == 0).then(fork);
    if child == Some(None) {
        return;
    }
    let _ = member.worker().flush_ep(ep).expect("the other rank lives");
    assert_eq!(member.exchange(&[7]).expect("both live"), [[7], [7]]);
    if let Some(Some(child)) = child {
        returns_with_success(child);
    }
}

/// `count` ranks as threads add their numbers.
fn sums(count: usize, config: &Config) -> Result<(), ThreadsError> {
    let sums = bowline::threads_with(count, config, |world| {
        let mut sum = [0];
        world.allreduce(&[world.rank() + 1], &mut sum, Sum).expect("all live");
        sum[0]
    })?;
    let expected = (1..=count as i32).sum::<i32>();
    assert_eq!(sums, vec![expected; count]);
    Ok(())
}

fn config(settings: &[(&str, &str)]) -> Config {
    let mut config = bowline::config_from_env().expect("good settings");
    for (name, value) in settings {
        config.set_text(name, value).expect("a good setting");
    }
    config
}

/// `act` with the soft limit at `most`.
fn limited<R>(resource: Resource, most: u64, act: impl FnOnce() -> R) -> R {
    let before = getrlimit(resource);
    let lowered = Rlimit { current: Some(most), maximum: before.maximum };
    setrlimit(resource, lowered).expect("a limit may be lowered");
    let done = act();
    setrlimit(resource, before).expect("a soft limit may be raised again");
    done
}

/// Threads of all processes of this user.
fn tasks_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::getuid().as_raw();
    let processes = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let ours = processes.filter(|entry| entry.metadata().is_ok_and(|data| data.uid() == own));
    let tasks = ours.filter_map(|entry| std::fs::read_dir(entry.path().join("task")).ok());
    tasks.map(|tasks| tasks.count() as u64).sum()
}

fn no_threads() {
    // The limit does not bind root.
    if rustix::process::getuid().is_root() {
        // SAFETY: changes who this process is, in all its threads, of which there is one.
        if unsafe { libc::setresuid(65534, 65534, 65534) } != 0 {
            println!("skipped: root may not become another user here");
            exit(SKIPPED);
        }
    }
    let usual = config(&[]);
    sums(8, &usual).expect("there are resources");
    let starved = |settings, ranks| {
        limited(Resource::Nproc, tasks_of_user() + 5, || sums(ranks, &config(settings)))
    };
    let error = starved(&[], 64).expect_err("there are resources for five threads");
    assert!(matches!(error, ThreadsError::Thread { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("cannot start a thread for rank") && text.contains("ulimit -u"),
        "{text}"
    );
    // The ranks' threads have what they need, their progress threads have not.
    let error = starved(&[("BOWLINE_PROGRESS", "thread")], 4).expect_err("there are none");
    assert!(error.to_string().contains("cannot start"), "{error}");
    sums(8, &usual).expect("there are resources again");
}

fn no_descriptors() {
    // Ranks that have no descriptor left for connections that others have begun make them wait so long.
    let tcp = config(&[("BOWLINE_TRANSPORTS", "self,tcp"), ("BOWLINE_TCP_CONNECT_TIMEOUT", "1s")]);
    sums(4, &tcp).expect("there are resources");
    let mut refused = 0;
    for most in 3..40 {
        // Ranks connect when they first send, so it may also be a call of a rank that fails; the rank
        // panics then, and the others learn of it.
        let outcome =
            limited(Resource::Nofile, most, || catch_unwind(AssertUnwindSafe(|| sums(4, &tcp))));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                assert!(error.to_string().contains("cannot"), "{error}");
                refused += 1;
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().expect("the words of `expect`");
                let known = ["has failed", "no path to rank", "cannot be reached"];
                assert!(known.iter().any(|error| text.contains(error)), "{text}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "{refused} jobs lacked descriptors");
    sums(4, &tcp).expect("there are resources again");
}

fn no_memory() {
    let usual = config(&[]);
    sums(4, &usual).expect("there are resources");
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size = size.and_then(|text| text.split_whitespace().next()).expect("a size");
    let now = size.parse::<u64>().expect("a number") << 10;
    for more in [0, 1 << 20, 4 << 20] {
        let error = limited(Resource::As, now + more, || sums(64, &usual));
        let text = error.expect_err("there are none").to_string();
        assert!(text.contains("cannot"), "{text}");
    }
    sums(4, &usual).expect("there are resources again");
}
