//! Signals of the launcher while a job runs: read from a descriptor and passed on to the ranks.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use super::LaunchError;

/// Signals that are passed on. SIGTSTP is among them so that a terminal's Ctrl-Z stops the job
/// and not only its launcher.
const PASSED_ON: [libc::c_int; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTERM,
    libc::SIGTSTP,
];

/// Blocks the signals in the calling thread until dropped.
pub(crate) struct Signals {
    fd: OwnedFd,
    /// The mask before, for the ranks and for afterwards.
    before: libc::sigset_t,
    /// Whether SIGCHLD was ignored: the kernel would then throw the ranks' statuses away.
    child_ignored: bool,
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signals").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl Signals {
    pub(crate) fn block() -> Result<Self, LaunchError> {
        let failed = |act| LaunchError::System { act, source: std::io::Error::last_os_error() };
        let mut set = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises the set that the others change and read; `before` is
        // written by `pthread_sigmask` when it succeeds, and only read then. The kernel's action
        // is written over a zeroed structure of plain fields.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in PASSED_ON {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(failed("make a descriptor for signals"));
            }
            let fd = OwnedFd::from_raw_fd(fd);
            if libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) != 0 {
                return Err(failed("block signals"));
            }
            let mut action = std::mem::zeroed::<libc::sigaction>();
            libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action);
            let child_ignored = action.sa_sigaction == libc::SIG_IGN;
            if child_ignored {
                libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            }
            Ok(Self { fd, before: before.assume_init(), child_ignored })
        }
    }

    /// The mask that the ranks are to have.
    pub(crate) fn mask_before(&self) -> libc::sigset_t {
        self.before
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next signal that has come.
    pub(crate) fn next(&self) -> Option<libc::c_int> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let n = rustix::io::read(&self.fd, &mut info).ok()?;
        // The number is the first field.
        (n == info.len()).then(|| i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What came for the job and was not read must not hit the caller afterwards.
        while self.next().is_some() {}
        // SAFETY: the mask is one that the kernel gave; SIG_IGN is a valid disposition.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
            if self.child_ignored {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
        }
    }
}
