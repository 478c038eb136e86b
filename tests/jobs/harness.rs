//! What the multi-process tests share: starting the probe with a watchdog, and finding processes
//! by a mark in their environment.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Far beyond what any of the tests takes: it distinguishes a hang from a slow machine.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

const MARK: &str = "BOWLINE_TEST_MARK";

/// The probe's path.
pub(crate) fn probe() -> &'static str {
    env!("CARGO_BIN_EXE_bowline-launch-probe")
}

/// A program with captured output, and everything that it leaves behind.
pub(crate) struct Job {
    command: Command,
    mark: String,
    stdout: File,
    stderr: File,
}

/// How a program ended and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The launcher's sentences.
    pub(crate) fn sentences(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.starts_with("bowline: ")).collect()
    }

    pub(crate) fn sorted_lines(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }
}

impl Job {
    /// `program` with files as output, so that nobody waits for the end of a pipe.
    pub(crate) fn of(program: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let mut command = Command::new(program);
        command
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().unwrap())
            .stderr(stderr.try_clone().unwrap());
        for name in
            ["PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "BOWLINE_JOB_FD", "PMIX_NAMESPACE"]
        {
            command.env_remove(name);
        }
        Self { command, mark, stdout, stderr }
    }

    /// The launcher with these words. Signals do what they do by default, also where the tests
    /// themselves were started in the background, with interrupts ignored.
    pub(crate) fn launch(words: &[&str]) -> Self {
        let mut job = Self::of("env");
        job.command.args(["--default-signal", probe(), "launch"]).args(words);
        job
    }

    /// The launcher with agents for these hosts, all of them on this machine.
    pub(crate) fn on_hosts(hosts: &str, words: &[&str]) -> Self {
        let command = "env BOWLINE_TEST_HOST={host}";
        let mut job = Self::launch(&["--hosts", hosts, "--agent-command", command]);
        job.command.args(words);
        job
    }

    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    pub(crate) fn start(mut self) -> Running {
        let child = self.command.spawn().unwrap();
        Running { child, mark: self.mark, stdout: self.stdout, stderr: self.stderr }
    }

    /// Runs to the end.
    pub(crate) fn run(self) -> Ended {
        self.start().end()
    }
}

/// A program that runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    mark: String,
    stdout: File,
    stderr: File,
}

impl Running {
    /// Waits for the end. What the program has left behind lives until this value is dropped.
    pub(crate) fn end(&mut self) -> Ended {
        let child = &mut self.child;
        let mut status = None;
        let ended = wait_until(|| {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        let (stdout, stderr) = (text(&mut self.stdout), text(&mut self.stderr));
        assert!(ended, "hangs; it has said:\n{stdout}\n{stderr}");
        Ended { status: status.unwrap(), stdout, stderr }
    }

    /// What it has written so far.
    pub(crate) fn said(&mut self) -> String {
        text(&mut self.stdout)
    }

    /// What it has written to the standard error stream so far.
    pub(crate) fn complained(&mut self) -> String {
        text(&mut self.stderr)
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The processes, ended ones left out, that this program has started, itself included.
    pub(crate) fn processes(&self) -> Vec<u32> {
        marked(&self.mark)
    }

    pub(crate) fn mark(&self) -> String {
        self.mark.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        kill_marked(&self.mark);
    }
}

fn text(file: &mut File) -> String {
    // The offset is shared with the writers, who must go on where they were.
    let mut copy = Vec::new();
    let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file)));
    let mut again = File::open(path).unwrap();
    again.rewind().unwrap();
    again.read_to_end(&mut copy).unwrap();
    String::from_utf8_lossy(&copy).into_owned()
}

/// Waits for a condition; false when the watchdog bites.
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > WATCHDOG {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Living processes with this mark in their environment.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let is_marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&b| b == 0).any(|variable| variable == wanted.as_bytes())
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(is_marked)
        .collect()
}

/// Ends what carries this mark.
pub(crate) fn kill_marked(mark: &str) {
    for pid in marked(mark) {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
