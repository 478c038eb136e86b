//! The terminal's input for rank 0.
//!
//! The ranks are in the background of the terminal, which does not let them read; the launcher reads
//! for them. Input that is not a terminal is inherited by rank 0 and does not come through here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ChildStdin;

use rustix::event::PollFlags;
use rustix::io::Errno;

/// Copies the terminal to a pipe, a few bytes at a time.
#[derive(Debug)]
pub(super) struct TerminalInput {
    /// `None` when the input has ended or rank 0 does not read any more.
    pipe: Option<OwnedFd>,
    /// Bytes read and not yet written.
    pending: Vec<u8>,
}

impl TerminalInput {
    pub(super) fn new(pipe: ChildStdin) -> Self {
        let pipe = OwnedFd::from(pipe);
        // Without it a full pipe would stop the launcher; then there is no input at all.
        let usable = rustix::io::ioctl_fionbio(&pipe, true).is_ok();
        Self { pipe: usable.then_some(pipe), pending: Vec::new() }
    }

    /// What to wait for. Nothing while the launcher is in the background, where reading would
    /// stop it.
    pub(super) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let pipe = self.pipe.as_ref()?;
        if !self.pending.is_empty() {
            return Some((pipe.as_fd(), PollFlags::OUT));
        }
        let stdin = rustix::stdio::stdin();
        let foreground = rustix::termios::tcgetpgrp(stdin).ok()? == rustix::process::getpgrp();
        foreground.then_some((stdin, PollFlags::IN))
    }

    /// Reads or writes, whichever was waited for.
    pub(super) fn step(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        if self.pending.is_empty() {
            let mut bytes = [0; 4096];
            match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
                Ok(0) => self.pipe = None,
                Ok(n) => self.pending.extend_from_slice(&bytes[..n]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => self.pipe = None,
            }
            return;
        }
        match rustix::io::write(pipe, &self.pending) {
            Ok(n) => drop(self.pending.drain(..n)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.pipe = None,
        }
    }
}
