//! How ranks end, and the sentences about it.

use std::fmt;

use rustix::process::WaitIdStatus;

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankEnd {
    /// By `exit`, with this code, having left the job in order or never joined it.
    Exited(i32),
    /// By `exit`, with this code, in the middle of the job.
    Unfinalized(i32),
    /// By this signal.
    Killed(i32),
    /// Nobody knows: somebody else waited for the process.
    Unknown,
    /// With its host, which cannot be reached.
    Lost,
}

impl RankEnd {
    /// As an agent reports it.
    pub(crate) const fn to_wire(self) -> (u8, i32) {
        match self {
            Self::Exited(code) => (0, code),
            Self::Unfinalized(code) => (1, code),
            Self::Killed(signal) => (2, signal),
            Self::Unknown | Self::Lost => (3, 0),
        }
    }

    /// How a rank has ended, as an agent reports it.
    pub(crate) const fn from_wire(how: u8, code: i32) -> Self {
        match how {
            0 => Self::Exited(code),
            1 => Self::Unfinalized(code),
            2 => Self::Killed(code & 0x7f),
            _ => Self::Unknown,
        }
    }

    /// From what the kernel says, and whether the rank was still part of the job.
    pub(super) fn of(status: &WaitIdStatus, joined: bool) -> Self {
        if let Some(signal) = status.terminating_signal() {
            return Self::Killed(signal);
        }
        match status.exit_status() {
            Some(code) if joined => Self::Unfinalized(code),
            Some(code) => Self::Exited(code),
            None => Self::Unknown,
        }
    }

    /// Whether the rank failed.
    pub fn is_failure(self) -> bool {
        self != Self::Exited(0)
    }

    /// Exit code for the job: the rank's own, 128 and the signal's number, or 1 where the rank
    /// said 0 but did not end in order.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Unfinalized(0) | Self::Unknown | Self::Lost => 1,
            Self::Unfinalized(code) => code,
            Self::Killed(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for RankEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Unfinalized(code) => write!(f, "ended without finalising, with exit code {code}"),
            Self::Killed(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::Lost => f.write_str("was lost with its host"),
            Self::Unknown => f.write_str("ended, and nobody knows how: its status was taken"),
        }
    }
}

/// What ended a job before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rank that failed; `None` when the job ran out of time or was killed as a whole.
    pub rank: Option<u32>,
    /// Exit code for the job, from 1 to 255.
    pub code: i32,
    /// One sentence about it.
    pub sentence: String,
}

impl Failure {
    /// The failure of a rank; of the code, the low byte counts, and 0 is none.
    pub(super) fn of_rank(
        rank: u32,
        pid: u32,
        host: Option<&str>,
        code: i32,
        what: impl fmt::Display,
    ) -> Self {
        let code = match code & 0xff {
            0 => 1,
            code => code,
        };
        let on = host.map_or_else(String::new, |host| format!(" on host {host}"));
        Self { rank: Some(rank), code, sentence: format!("rank {rank} (pid {pid}{on}) {what}") }
    }
}

/// A text of somebody else on one line, without what a terminal would obey: control characters, and
/// those that change the direction of what follows.
pub(super) fn harmless(text: &str) -> String {
    let obeyed =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match obeyed(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        out
    })
}

/// Names of the signals that end programs.
pub(super) fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_sentences() {
        assert_eq!(RankEnd::Killed(9).code(), 137);
        assert_eq!(RankEnd::Killed(9).to_string(), "was killed by signal 9 (SIGKILL)");
        assert_eq!(RankEnd::Killed(40).to_string(), "was killed by signal 40");
        assert_eq!(RankEnd::Unfinalized(0).code(), 1);
        assert_eq!(RankEnd::Unfinalized(3).code(), 3);
        assert!(!RankEnd::Exited(0).is_failure());
        assert!(RankEnd::Unfinalized(0).is_failure() && RankEnd::Exited(1).is_failure());
        let failure = Failure::of_rank(2, 77, None, 0, RankEnd::Unfinalized(0));
        assert_eq!(failure.code, 1);
        assert_eq!(failure.sentence, "rank 2 (pid 77) ended without finalising, with exit code 0");
        assert_eq!(Failure::of_rank(0, 1, None, 256, "x").code, 1);
        assert_eq!(Failure::of_rank(0, 1, None, -3, "x").code, 253);
    }
}
