//! The launcher's end of one agent: the command that started it, the connection, what is known.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use crate::protocol::channel::{Broken, Channel};
use crate::protocol::wire::{AgentSecret, FRAME_MAX, FromAgent, Spec, ToAgent};
use crate::protocol::{OUTPUT_CREDIT, PATIENCE_AT_START};
use crate::run::processors::Machine;
use crate::run::signals::Signals;
use crate::run::{HostError, LaunchError, RunOptions};

/// Variables that belong to a host, a session or another job and are not passed on.
const OWN: [&str; 17] = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "MAIL",
    "HOSTNAME",
    "HOST",
    "TMPDIR",
    "DISPLAY",
    "SSH_AUTH_SOCK",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "SSH_TTY",
];

/// The same by their beginnings.
const OWN_STARTS: [&str; 9] = [
    "XDG_",
    "DBUS_",
    "PMI_",
    "PMIX_",
    "HYDI_",
    "MPI_LOCAL",
    "BOWLINE_JOB_",
    "BOWLINE_NODE_",
    "BOWLINE_LOCAL_",
];

/// The time that a command has to end after it has closed its connection.
const END_OF_COMMAND: Duration = Duration::from_millis(500);

/// Where the conversation is; the module above draws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Greeting,
    /// It waits for the word to start.
    Greeted,
    /// So many ranks are still to be started.
    Starting {
        left: u32,
    },
    Running,
    Done,
}

/// One agent.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) host: String,
    pub(super) ranks: Range<u32>,
    pub(super) stage: Stage,
    /// What it has said of its machine.
    machine: Machine,
    /// The word to start was said.
    gone: bool,
    /// Its living ranks wait in the barrier.
    pub(super) all_in: bool,
    /// Its ranks that have left the job in order.
    pub(super) left: BTreeSet<u32>,
    command: Child,
    /// `None` when the host is lost.
    channel: Option<Channel>,
    /// Bytes of output that it may still send.
    credit: u32,
    silence: Duration,
}

impl Remote {
    pub(super) fn start(
        options: &RunOptions,
        host: &str,
        ranks: Range<u32>,
        signals: &Signals,
    ) -> Result<Self, LaunchError> {
        let words: Vec<String> =
            options.agent_command.split_whitespace().map(|w| w.replace("{host}", host)).collect();
        let (program, args) = words.split_first().ok_or(HostError::Command)?;
        let agent: OsString = match &options.agent_program {
            Some(path) => path.clone(),
            None => std::env::current_exe()
                .map_err(|source| LaunchError::System {
                    act: "find the launcher's own file",
                    source,
                })?
                .into(),
        };
        let agent = if is_read_by_a_shell(&options.agent_command) { quoted(&agent) } else { agent };
        let mut command = Command::new(program);
        command.args(args).arg(agent).arg("agent");
        // A terminal's signals are for the launcher, which passes them on.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mask = signals.mask_before();
        // SAFETY: the closure runs between fork and exec and makes one system call, with a mask
        // that the kernel gave.
        unsafe {
            command.pre_exec(move || {
                libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
                Ok(())
            });
        }
        let mut command = command.spawn().map_err(|source| LaunchError::Agent {
            program: program.clone(),
            host: host.into(),
            source,
        })?;
        let input = OwnedFd::from(command.stdout.take().expect("it was asked for"));
        let output = OwnedFd::from(command.stdin.take().expect("it was asked for"));
        match Channel::new(input, output, PATIENCE_AT_START.max(options.host_timeout)) {
            Ok(channel) => Ok(Self {
                host: host.into(),
                ranks,
                stage: Stage::Greeting,
                machine: Machine::default(),
                gone: false,
                all_in: false,
                left: BTreeSet::new(),
                command,
                channel: Some(channel),
                credit: OUTPUT_CREDIT,
                silence: options.host_timeout.max(Duration::from_millis(100)),
            }),
            Err(source) => {
                let _ = command.kill();
                let _ = command.wait();
                Err(LaunchError::System { act: "make a pipe not block", source })
            }
        }
    }

    /// Says what is to be done; [`go`](Self::go) follows. The agent reads it after its greeting.
    pub(super) fn describe(
        &mut self,
        options: &RunOptions,
        size: u32,
        job_id: u64,
        secret: &[u8; 32],
        mapping: &str,
    ) {
        let spec = Spec {
            job_id,
            secret: AgentSecret(*secret),
            first: self.ranks.start,
            local: self.ranks.end - self.ranks.start,
            size,
            area_bytes: options.area_bytes as u64,
            silence_ms: self.silence.as_millis().try_into().unwrap_or(u64::MAX),
            input: self.ranks.start == 0,
            mapping: mapping.into(),
        };
        self.send(&ToAgent::Spec(spec));
        for (name, value) in std::env::vars_os().filter(|(name, _)| passes(name)) {
            self.send_variable(&name, &value);
        }
        let here = std::env::current_dir().ok();
        for part in options.parts() {
            self.send(&ToAgent::Part { ranks: part.ranks });
            if let Some(directory) = part.directory.or(here.as_deref()) {
                self.send(&ToAgent::Directory(directory.as_os_str().as_bytes().to_vec()));
            }
            self.send(&ToAgent::Program(part.program.as_bytes().to_vec()));
            for arg in part.args {
                self.send(&ToAgent::Arg(arg.as_bytes().to_vec()));
            }
            for (name, value) in part.env {
                self.send_variable(name, value);
            }
        }
    }

    fn send_variable(&mut self, name: &OsStr, value: &OsStr) {
        let (name, value) = (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        if name.len() + value.len() + 8 > FRAME_MAX {
            tracing::warn!("a variable of the environment is too long to be passed on");
            return;
        }
        self.send(&ToAgent::Env { name, value });
    }

    /// What it has said of its machine, and its number of ranks.
    pub(super) fn machine(&self) -> (Machine, u32) {
        (self.machine.clone(), self.ranks.end - self.ranks.start)
    }

    /// Has it start the ranks, each on its processor, or anywhere if `cpus` is empty.
    pub(super) fn go(&mut self, cpus: Vec<u32>) {
        self.gone = true;
        self.send(&ToAgent::Go { cpus });
        if self.stage == Stage::Greeted {
            self.stage = self.starting();
        }
    }

    fn starting(&self) -> Stage {
        Stage::Starting { left: self.ranks.end - self.ranks.start }
    }

    /// Whether something is expected of it.
    pub(super) fn is_open(&self) -> bool {
        self.channel.is_some() && self.stage != Stage::Done
    }

    /// Adds what to wait for; returns when to read the clock.
    pub(super) fn interest<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) -> Option<Instant> {
        let channel = self.channel.as_ref()?;
        channel.interest(fds);
        Some(channel.next_poll())
    }

    /// Reads what is there.
    pub(super) fn receive(&mut self) -> Result<(), Broken> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        match channel.fill() {
            // It was to say nothing more.
            Err(Broken::Closed) if self.stage == Stage::Done => {
                self.channel = None;
                Ok(())
            }
            other => other,
        }
    }

    /// The next message.
    pub(super) fn next(&mut self) -> Result<Option<FromAgent>, Broken> {
        self.channel.as_mut().map_or(Ok(None), |channel| channel.next(FromAgent::decode))
    }

    /// Shows that the launcher lives and checks whether the agent does.
    pub(super) fn speak(&mut self) -> Result<(), Broken> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        let now = Instant::now();
        channel.check_silence(now)?;
        if channel.should_speak(now) {
            channel.send(|out| ToAgent::Alive.encode(out));
        }
        channel.flush()
    }

    /// Queues a message, if the host is not lost.
    pub(super) fn send(&mut self, message: &ToAgent) {
        if let Some(channel) = &mut self.channel {
            channel.send(|out| message.encode(out));
        }
    }

    /// Queues frames that all agents get, if the host is not lost.
    pub(super) fn send_all(&mut self, frames: &Arc<[u8]>) {
        if let Some(channel) = &mut self.channel {
            channel.send_shared(frames);
        }
    }

    /// Sends what the agent takes now. An error is found again when it is listened to.
    pub(super) fn flush(&mut self) {
        if let Some(channel) = &mut self.channel {
            let _ = channel.flush();
        }
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.channel.as_ref().is_none_or(Channel::is_flushed)
    }

    pub(super) fn forgive(&mut self) {
        if let Some(channel) = &mut self.channel {
            channel.forgive();
        }
    }

    pub(super) fn greeted(&mut self, machine: Machine) {
        self.machine = machine;
        self.stage = if self.gone { self.starting() } else { Stage::Greeted };
    }

    /// One more rank was started.
    pub(super) fn started(&mut self) -> Result<(), Broken> {
        if let Stage::Starting { left } = &mut self.stage {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.stage = Stage::Running;
                if let Some(channel) = &mut self.channel {
                    channel.set_silence(self.silence);
                }
            }
        }
        Ok(())
    }

    /// Output has come.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Broken> {
        let left = u32::try_from(bytes).ok().and_then(|bytes| self.credit.checked_sub(bytes));
        self.credit = left.ok_or(Broken::Unexpected("more output than it may"))?;
        Ok(())
    }

    /// Output was written.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.credit += bytes;
        self.send(&ToAgent::Taken(bytes));
    }

    /// Why the host is lost, for a sentence.
    pub(super) fn reason(&mut self, broken: &Broken) -> String {
        let early = self.stage == Stage::Greeting;
        match broken {
            Broken::Closed => match (self.end_of_command(), early) {
                (Some(status), true) => {
                    format!("the command that was to start the agent there has ended ({status})")
                }
                (Some(status), false) => {
                    format!(
                        "the connection was closed, and its agent's command has ended ({status})"
                    )
                }
                (None, _) => format!("{broken}, while its agent's command goes on"),
            },
            Broken::Wire(_) if early => {
                let said = self.channel.as_ref().map(Channel::excerpt).unwrap_or_default();
                format!("instead of an agent's greeting came {said:?}; is the shell there quiet?")
            }
            other => other.to_string(),
        }
    }

    /// How the command ended, which has closed the connection: that comes a moment before its end.
    fn end_of_command(&mut self) -> Option<ExitStatus> {
        let until = Instant::now() + END_OF_COMMAND;
        loop {
            match self.command.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Whether the command has ended.
    pub(super) fn has_left(&mut self) -> bool {
        !matches!(self.command.try_wait(), Ok(None))
    }

    /// Closes the connection and ends the command, if it has not ended.
    pub(super) fn kill(&mut self) {
        self.channel = None;
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

/// Whether a shell on the host reads the agent's command line: ssh joins the words with blanks and
/// gives them to the user's, as rsh did. Other commands (`env`, `ip netns exec`, `podman exec`)
/// pass words as they are.
fn is_read_by_a_shell(agent_command: &str) -> bool {
    let is_one = |word: &str| matches!(word.rsplit('/').next(), Some("ssh" | "rsh"));
    agent_command.split_whitespace().any(is_one)
}

/// A path as one word for a shell. `~/` in front stays what it means there.
fn quoted(path: &OsStr) -> OsString {
    let path = path.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./+:,@%".contains(byte);
    let (home, rest) = match path.strip_prefix(b"~/") {
        Some(rest) => (&b"~/"[..], rest),
        None => (&b""[..], path),
    };
    let mut word = home.to_vec();
    if !rest.is_empty() && rest.iter().all(is_plain) {
        word.extend_from_slice(rest);
    } else {
        word.push(b'\'');
        for byte in rest {
            match byte {
                b'\'' => word.extend_from_slice(b"'\\''"),
                byte => word.push(*byte),
            }
        }
        word.push(b'\'');
    }
    OsString::from_vec(word)
}

fn passes(name: &OsStr) -> bool {
    let name = name.as_bytes();
    !OWN.iter().any(|own| name == own.as_bytes())
        && !OWN_STARTS.iter().any(|start| name.starts_with(start.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_path_as_it_was() {
        for path in ["/usr/bin/bowline", "/a b/it's", "", "$HOME/`id`/\"x\"", "/a;b&c|d*?[e]#\\\n"]
        {
            let command = format!("printf %s {}", quoted(OsStr::new(path)).to_str().unwrap());
            let printed = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8(printed.stdout).unwrap(), path, "{command}");
        }
        assert_eq!(quoted(OsStr::new("/usr/bin/bowline")), "/usr/bin/bowline");
        assert_eq!(quoted(OsStr::new("~/bin/bowline")), "~/bin/bowline");
        assert_eq!(quoted(OsStr::new("~/my bin/bowline")), "~/'my bin/bowline'");
    }

    #[test]
    fn only_ssh_gives_words_to_a_shell() {
        for command in ["ssh -x {host}", "/usr/bin/ssh {host}", "sshpass -e ssh {host}"] {
            assert!(is_read_by_a_shell(command), "{command}");
        }
        for command in ["env", "ip netns exec {host}", "podman exec -i {host}", "lssh {host}"] {
            assert!(!is_read_by_a_shell(command), "{command}");
        }
    }

    #[test]
    fn the_environment_goes_along_without_what_is_a_hosts_own() {
        for name in ["PATH", "LD_LIBRARY_PATH", "BOWLINE_LOG", "OMP_NUM_THREADS"] {
            assert!(passes(OsStr::new(name)), "{name}");
        }
        for name in ["HOME", "PMI_FD", "BOWLINE_JOB_FD", "XDG_RUNTIME_DIR", "HOSTNAME"] {
            assert!(!passes(OsStr::new(name)), "{name}");
        }
    }
}
