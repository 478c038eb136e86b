//! The ranks' output on its way to the launcher, and the input of rank 0 on its way from there.

use std::os::fd::OwnedFd;
use std::process::ChildStdin;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::protocol::channel::Broken;
use crate::protocol::wire::{FromAgent, PIECE};
use crate::protocol::{INPUT_CREDIT, OUTPUT_CREDIT};
use crate::run::output::Stream;

/// The pipes of the ranks' output.
#[derive(Debug)]
pub(super) struct Outflow {
    streams: Vec<Stream>,
    /// Bytes that may be sent.
    credit: u32,
    /// Every rank has ended: a stream without bytes is over, even if it is held open.
    closing: bool,
}

impl Outflow {
    pub(super) fn new(streams: Vec<Stream>) -> rustix::io::Result<Self> {
        for pipe in streams.iter().filter_map(|stream| stream.pipe.as_ref()) {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { streams, credit: OUTPUT_CREDIT, closing: false })
    }

    pub(super) fn interest<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if self.credit > 0 {
            let pipes = self.streams.iter().filter_map(|stream| stream.pipe.as_ref());
            fds.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        }
    }

    /// The launcher has written so many bytes.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes).min(OUTPUT_CREDIT);
    }

    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(super) fn is_over(&self) -> bool {
        self.streams.iter().all(|stream| stream.pipe.is_none())
    }

    /// Sends what is there and may be sent: one piece of each stream, everything when the ranks
    /// have ended.
    pub(super) fn step(&mut self, mut send: impl FnMut(FromAgent)) {
        let mut space = [0; PIECE];
        for stream in &mut self.streams {
            while self.credit > 0 {
                let Some(pipe) = &stream.pipe else { break };
                let most = space.len().min(self.credit as usize);
                match rustix::io::read(pipe, &mut space[..most]) {
                    Ok(0) => stream.pipe = None,
                    Ok(n) => {
                        self.credit -= n as u32;
                        let bytes = space[..n].to_vec();
                        let (rank, is_error) = (stream.rank, stream.is_error);
                        send(FromAgent::Output { rank, is_error, bytes });
                        if !self.closing {
                            break;
                        }
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) if !self.closing => break,
                    Err(_) => stream.pipe = None,
                }
            }
        }
    }
}

/// The pipe of rank 0's input.
#[derive(Debug)]
pub(super) struct Inflow {
    /// `None` when it has ended or rank 0 does not read any more.
    pipe: Option<OwnedFd>,
    pending: Vec<u8>,
    ended: bool,
    /// Bytes that were not reported to the launcher.
    taken: u32,
}

impl Inflow {
    pub(super) fn new(pipe: Option<ChildStdin>) -> rustix::io::Result<Self> {
        let pipe = pipe.map(OwnedFd::from);
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { pipe, pending: Vec::new(), ended: false, taken: 0 })
    }

    pub(super) fn interest<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if let Some(pipe) = self.pipe.as_ref().filter(|_| !self.pending.is_empty()) {
            fds.push(PollFd::new(pipe, PollFlags::OUT));
        }
    }

    /// Input has come.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        if self.pending.len() + bytes.len() > INPUT_CREDIT as usize {
            return Err(Broken::Unexpected("more input than it may"));
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Passes on what rank 0 takes now.
    pub(super) fn step(&mut self, mut send: impl FnMut(FromAgent)) {
        while !self.pending.is_empty() {
            let written = self.pipe.as_ref().map(|pipe| rustix::io::write(pipe, &self.pending));
            let n = match written {
                Some(Ok(n)) => n,
                Some(Err(Errno::INTR)) => continue,
                Some(Err(Errno::AGAIN)) => break,
                // Nobody will read it.
                Some(Err(_)) | None => {
                    self.pipe = None;
                    self.pending.len()
                }
            };
            self.pending.drain(..n);
            self.taken += n as u32;
        }
        if self.taken > 0 {
            send(FromAgent::InputTaken(std::mem::take(&mut self.taken)));
        }
        if self.ended && self.pending.is_empty() {
            self.pipe = None;
        }
    }
}
