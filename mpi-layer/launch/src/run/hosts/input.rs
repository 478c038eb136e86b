//! The launcher's standard input on its way to rank 0, which may run on another host.
//!
//! It is read as far as the agent takes it. A terminal is read only while the launcher is
//! in the foreground, where reading does not stop it.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::remote::{Remote, Stage};
use crate::protocol::INPUT_CREDIT;
use crate::protocol::wire::{PIECE, ToAgent};

/// The way of the input.
#[derive(Debug)]
pub(super) struct HostInput {
    terminal: bool,
    ended: bool,
    /// Bytes sent that rank 0 has not taken.
    under_way: u32,
    /// There is something to read.
    ready: bool,
}

impl HostInput {
    pub(super) fn new() -> Self {
        let terminal = rustix::termios::isatty(rustix::stdio::stdin());
        Self { terminal, ended: false, under_way: 0, ready: false }
    }

    /// What to wait for: `None` when there is nothing to read or the agent takes no more, `Some(None)`
    /// when the launcher is in the background of its terminal.
    pub(super) fn interest(&self, remote: &Remote) -> Option<Option<BorrowedFd<'static>>> {
        let fits = self.under_way + PIECE as u32 <= INPUT_CREDIT;
        if self.ended || !fits || remote.stage != Stage::Running || !remote.is_open() {
            return None;
        }
        let stdin = rustix::stdio::stdin();
        if !self.terminal {
            return Some(Some(stdin));
        }
        let group = rustix::termios::tcgetpgrp(stdin).ok()?;
        Some((group == rustix::process::getpgrp()).then_some(stdin))
    }

    pub(super) fn may_read(&mut self, ready: bool) {
        self.ready = ready;
    }

    /// Reads a piece, if there is one, and sends it.
    pub(super) fn step(&mut self, remote: &mut Remote) {
        if !std::mem::take(&mut self.ready) {
            return;
        }
        let mut bytes = vec![0; PIECE];
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => {
                self.ended = true;
                remote.send(&ToAgent::InputEnd);
            }
            Ok(n) => {
                bytes.truncate(n);
                self.under_way += n as u32;
                remote.send(&ToAgent::Input(bytes));
            }
        }
    }

    /// Rank 0 has taken so many bytes; false when there were not so many.
    pub(super) fn taken(&mut self, bytes: u32) -> bool {
        let left = self.under_way.checked_sub(bytes);
        self.under_way = left.unwrap_or(0);
        left.is_some()
    }
}
