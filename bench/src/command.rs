//! Started programs: pinned, in a process group of their own, with a time limit, and gone at the
//! end together with everything they started.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::thread::CpuSet;

use crate::BenchError;

/// How long a program may take to end after it was asked to.
const GRACE: Duration = Duration::from_millis(1500);

/// A program to be started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The program, a path or a name to be found in `PATH`.
    pub(crate) program: PathBuf,
    /// Its arguments.
    args: Vec<String>,
    /// What its environment has beyond ours.
    env: Vec<(String, String)>,
    /// The CPUs it and its children may use; empty means all.
    cpus: Vec<usize>,
    /// It is ended after this time.
    pub(crate) time_limit: Duration,
    /// How to get the program if it is not there.
    remedy: String,
    /// What errors call it, if not by the program's name.
    title: Option<String>,
}

/// What a program that ended well left behind.
#[derive(Debug)]
pub(crate) struct Output {
    /// Its standard output, invalid UTF-8 replaced.
    pub(crate) stdout: String,
    /// From start to end.
    pub(crate) wall: Duration,
}

impl Launch {
    /// A launch without arguments, environment and pinning.
    pub(crate) fn new(program: impl Into<PathBuf>, time_limit: Duration) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cpus: Vec::new(),
            time_limit,
            remedy: "install it".to_owned(),
            title: None,
        }
    }

    pub(crate) fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    pub(crate) fn remedy(mut self, remedy: &str) -> Self {
        remedy.clone_into(&mut self.remedy);
        self
    }

    /// The same program behind `script HOST`, which hands its words to a shell as ssh does.
    pub(crate) fn behind(mut self, script: &Path, host: &str) -> Self {
        let program = self.program.to_string_lossy().into_owned();
        self.title = self.program.file_name().map(|name| name.to_string_lossy().into_owned());
        let words = std::iter::once(program).chain(self.args).map(|word| quoted(&word));
        // The shell must become the program: the signal at this process's death goes to the child
        // alone, and what the shell had forked would outlive everybody.
        self.args = [host.to_owned(), "exec".to_owned()].into_iter().chain(words).collect();
        self.program = script.to_path_buf();
        self
    }

    /// Starts it, waits for its end, and demands success.
    pub(crate) fn run(&self) -> Result<Output, BenchError> {
        self.start()?.finish()
    }

    /// Starts it.
    pub(crate) fn start(&self) -> Result<Running, BenchError> {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = self.title.clone().unwrap_or(name);
        let failed = |source| BenchError::Start {
            program: name.clone(),
            source,
            remedy: self.remedy.clone(),
        };
        // Output goes to files: a pipe would stay open as long as any lost grandchild lives.
        let stdout = tempfile::tempfile().map_err(failed)?;
        let stderr = tempfile::tempfile().map_err(failed)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().map_err(failed)?)
            .stderr(stderr.try_clone().map_err(failed)?)
            .process_group(0);
        let mut cpus = CpuSet::new();
        for &cpu in &self.cpus {
            cpus.set(cpu);
        }
        let pinned = !self.cpus.is_empty();
        // Should the calling thread end, then so do its programs: launchers pass that on.
        // SAFETY: between fork and exec the closure makes two system calls through rustix, which
        // neither allocate nor lock, and captures only plain data.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
                if pinned {
                    rustix::thread::sched_setaffinity(None, &cpus)?;
                }
                Ok(())
            });
        }
        let started = Instant::now();
        let child = command.spawn().map_err(failed)?;
        Ok(Running { name, child, stdout, stderr, started, time_limit: self.time_limit })
    }
}

/// A started program. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    child: Child,
    stdout: File,
    stderr: File,
    started: Instant,
    time_limit: Duration,
}

impl Running {
    /// The id of its first process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for the end within the time limit and demands success.
    pub(crate) fn finish(mut self) -> Result<Output, BenchError> {
        let status = self.wait()?;
        let wall = self.started.elapsed();
        let stdout = read_all(&mut self.stdout);
        if status.success() {
            return Ok(Output { stdout, wall });
        }
        let stderr = read_all(&mut self.stderr);
        Err(BenchError::Failed {
            program: self.name.clone(),
            status: status.to_string(),
            output: telling_part(&stderr, &stdout),
        })
    }

    fn wait(&mut self) -> Result<ExitStatus, BenchError> {
        let remaining = self.time_limit.saturating_sub(self.started.elapsed());
        if !wait_for_end(self.child.id(), remaining) {
            self.end();
            return Err(BenchError::Timeout {
                program: self.name.clone(),
                seconds: self.time_limit.as_secs_f64(),
            });
        }
        self.child.wait().map_err(|source| BenchError::Start {
            program: self.name.clone(),
            source,
            remedy: "its end could not be awaited".to_owned(),
        })
    }

    /// Ends the program, its process group, and every descendant that left the group.
    fn end(&mut self) {
        if self.has_ended() {
            return;
        }
        let Some(leader) = pid(self.child.id()) else {
            return;
        };
        // Launchers put ranks into groups of their own, so the family is noted before it is asked
        // to end. A start time goes with each id, lest a reused id be hit.
        let family = descendants(self.child.id());
        let _ = rustix::process::kill_process_group(leader, Signal::TERM);
        wait_for_end(self.child.id(), GRACE);
        let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        for (id, born) in family {
            let still = parent_and_birth(id).is_some_and(|(_, now)| now == born);
            if let Some(pid) = pid(id).filter(|_| still) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// Waits until process `id`, a child of ours, has ended; it stays to be reaped. False on timeout.
fn wait_for_end(id: u32, limit: Duration) -> bool {
    let Some(pid) = pid(id) else { return true };
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(0) => return false,
            Err(rustix::io::Errno::INTR) => {}
            _ => return true,
        }
    }
}

/// All descendants of `root`, with the start time of each.
fn descendants(root: u32) -> Vec<(u32, u64)> {
    let all: Vec<(u32, u32, u64)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|id| parent_and_birth(id).map(|(parent, born)| (id, parent, born)))
        .collect();
    let mut found = vec![(root, 0)];
    let mut next = 0;
    while let Some(&(parent, _)) = found.get(next) {
        found.extend(all.iter().filter(|row| row.1 == parent).map(|row| (row.0, row.2)));
        next += 1;
    }
    found.remove(0);
    found
}

fn parent_and_birth(id: u32) -> Option<(u32, u64)> {
    parse_parent_and_birth(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// Fields 4 (parent) and 22 (start time) of `/proc/PID/stat`.
fn parse_parent_and_birth(stat: &str) -> Option<(u32, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let born = fields.nth(17)?.parse().ok()?;
    Some((parent, born))
}

fn read_all(file: &mut File) -> String {
    let mut bytes = Vec::new();
    match file.rewind().and_then(|()| file.read_to_end(&mut bytes)) {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// The part of a failed program's output that says why: lines that speak of an error, else the
/// last ones, shortened to something that fits into a table's footnote.
fn telling_part(stderr: &str, stdout: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .chain(stdout.lines())
        .map(str::trim)
        .filter(|line| line.chars().any(char::is_alphanumeric))
        .collect();
    let speaks = |line: &&&str| {
        let line = line.to_lowercase();
        ["error", "fail", "cannot", "not found", "undefined", "mpibench:"]
            .iter()
            .any(|word| line.contains(word))
    };
    let mut shown: Vec<&str> = lines.iter().filter(speaks).take(3).copied().collect();
    if shown.is_empty() {
        shown = lines[lines.len().saturating_sub(2)..].to_vec();
    }
    shorten(&shown.join(" | "), 300)
}

/// `word` as one word of a shell's command line.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The first `limit` characters of `text`.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Launch {
        Launch::new("sh", limit).args(["-c", script])
    }

    #[test]
    fn output_and_failure_are_reported() {
        let limit = Duration::from_secs(20);
        assert_eq!(shell("echo $A", limit).env("A", "b").run().unwrap().stdout, "b\n");
        let error = shell("echo x; echo 'error: why' >&2; exit 3", limit).run().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("error: why") && text.contains('3'), "{text}");
        let error = Launch::new("no-such-program", limit).remedy("get it").run().unwrap_err();
        assert!(error.to_string().ends_with("get it"));
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        // The grandchild has left the process group, as the ranks of some launchers do.
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = format!(
            "setsid sh -c 'echo $$ > {}; exec sleep 600' & trap '' TERM; sleep 600",
            file.path().display()
        );
        let error = shell(&script, Duration::from_millis(800)).run().unwrap_err();
        assert!(matches!(error, BenchError::Timeout { .. }));
        let id: u32 = fs::read_to_string(file.path()).unwrap().trim().parse().unwrap();
        let gone = || {
            fs::read_to_string(format!("/proc/{id}/stat")).map_or(true, |stat| stat.contains(") Z"))
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !gone() {
            assert!(Instant::now() < deadline, "process {id} survived");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn pinning_reaches_the_program() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
        let output = Launch::new("grep", Duration::from_secs(20))
            .args(["Cpus_allowed_list", "/proc/self/status"])
            .cpus(&[cpu])
            .run()
            .unwrap();
        assert_eq!(output.stdout.split_whitespace().last(), Some(cpu.to_string().as_str()));
    }

    #[test]
    fn stat_lines_parse() {
        let stat = "9 (x) y) S 4 9 9 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 777 1 2";
        assert_eq!(parse_parent_and_birth(stat), Some((4, 777)));
    }

    #[test]
    fn the_telling_part_prefers_errors() {
        assert_eq!(telling_part("====\nA\nError: b\nC", ""), "Error: b");
        assert_eq!(telling_part("", "a\nb\nc"), "b | c");
        assert_eq!(shorten("abc", 2), "ab...");
    }
}
