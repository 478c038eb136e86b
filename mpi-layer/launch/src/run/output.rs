//! Output with labels: a thread that copies the ranks' pipes line by line.
//!
//! A thread of its own, since the reader of the launcher's output may be slow, and the launcher
//! must hear of deaths meanwhile. It ends when every pipe has ended, or when the job has: a
//! process that left the job may hold a pipe open for ever, so after the job's end only what is
//! there already is copied.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::{LaunchError, system};

/// Bytes after which a line is written though it has no end.
const LINE_MAX: usize = 64 * 1024;

/// One stream of one rank.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) rank: u32,
    pub(crate) is_error: bool,
    pub(crate) pipe: Option<OwnedFd>,
    labels: Labels,
}

/// Cuts what a rank writes into lines, with its rank in front or as they are.
#[derive(Debug)]
pub(super) struct Labels {
    rank: Option<u32>,
    /// The beginning of a line.
    partial: Vec<u8>,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Output {
    /// Ends with what went wrong first.
    thread: JoinHandle<Option<io::Error>>,
    ended: OwnedFd,
}

impl Stream {
    pub(super) fn new(rank: u32, is_error: bool, pipe: OwnedFd) -> Self {
        Self { rank, is_error, pipe: Some(pipe), labels: Labels::of(Some(rank)) }
    }

    /// Copies one piece; false when there is nothing now. The first write that fails otherwise than for want of a
    /// reader goes to `failed`.
    fn copy(&mut self, space: &mut [u8], failed: &mut Option<io::Error>) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut out = Vec::new();
        match rustix::io::read(pipe, &mut *space) {
            Ok(0) => return self.end(failed),
            Ok(n) => self.labels.lines(&space[..n], &mut out),
            Err(Errno::INTR) => return true,
            Err(Errno::AGAIN) => return false,
            Err(_) => return self.end(failed),
        }
        self.write(&out, failed);
        true
    }

    /// The stream has ended: what is left of its last line goes out.
    fn end(&mut self, failed: &mut Option<io::Error>) -> bool {
        self.pipe = None;
        let mut out = Vec::new();
        self.labels.rest(&mut out);
        self.write(&out, failed);
        false
    }

    fn write(&mut self, bytes: &[u8], failed: &mut Option<io::Error>) {
        if let Err(error) = write(self.is_error, bytes) {
            // The rank learns by a broken pipe, much as if it wrote to the launcher's output itself.
            self.pipe = None;
            // That a reader wants no more is no failure.
            if error.kind() != io::ErrorKind::BrokenPipe {
                failed.get_or_insert(error);
            }
        }
    }
}

/// Writes to one of the launcher's standard streams.
pub(super) fn write(is_error: bool, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let written = |to: &mut dyn Write| to.write_all(bytes).and_then(|()| to.flush());
    match is_error {
        true => written(&mut io::stderr().lock()),
        false => written(&mut io::stdout().lock()),
    }
}

impl Labels {
    /// With the rank in front of each line, if there is one.
    pub(super) fn of(rank: Option<u32>) -> Self {
        Self { rank, partial: Vec::new() }
    }

    /// Takes whole lines out of the stream.
    pub(super) fn lines(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.partial.extend_from_slice(bytes);
        let whole = self.partial.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let cut = if self.partial.len() - whole >= LINE_MAX { self.partial.len() } else { whole };
        let rest = self.partial.split_off(cut);
        for line in self.partial.split_inclusive(|&b| b == b'\n') {
            label(self.rank, line, out);
        }
        self.partial = rest;
    }

    /// Whether there is the beginning of a line.
    pub(super) fn is_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// What is left of a last line without an end.
    pub(super) fn rest(&mut self, out: &mut Vec<u8>) {
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            label(self.rank, &rest, out);
        }
    }
}

/// A line with its rank in front and an end; the bytes as they are without a rank.
fn label(rank: Option<u32>, line: &[u8], out: &mut Vec<u8>) {
    let Some(rank) = rank else { return out.extend_from_slice(line) };
    out.extend_from_slice(format!("[{rank}] ").as_bytes());
    out.extend_from_slice(line);
    if line.last() != Some(&b'\n') {
        out.push(b'\n');
    }
}

impl Output {
    pub(super) fn start(streams: Vec<Stream>) -> Result<Self, LaunchError> {
        for stream in &streams {
            if let Some(pipe) = &stream.pipe {
                rustix::io::ioctl_fionbio(pipe, true).map_err(system("make a pipe not block"))?;
            }
        }
        let ended = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(system("make an event counter"))?;
        let ended_too = rustix::io::dup(&ended).map_err(system("duplicate a descriptor"))?;
        let thread = std::thread::Builder::new()
            .name("bowline-output".into())
            .spawn(move || pump(streams, &ended_too))
            .map_err(|source| LaunchError::System { act: "start the output thread", source })?;
        Ok(Self { thread, ended })
    }

    /// The job has ended: copies what is there and waits until it is written. Returns why some of the output is lost,
    /// unless nobody wanted it.
    pub(super) fn finish(self) -> Option<io::Error> {
        let _ = rustix::io::write(&self.ended, &1u64.to_ne_bytes());
        let panicked = |_| Some(io::Error::other("the output thread has panicked"));
        self.thread.join().unwrap_or_else(panicked)
    }
}

/// Copies until every pipe has ended, or the job has; returns the first write that failed.
fn pump(mut streams: Vec<Stream>, ended: &OwnedFd) -> Option<io::Error> {
    let mut space = vec![0; 16 * 1024];
    let mut failed = None;
    loop {
        let mut fds = vec![PollFd::new(ended, PollFlags::IN)];
        let open = streams.iter().filter_map(|stream| stream.pipe.as_ref());
        fds.extend(open.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        if fds.len() == 1 {
            return failed;
        }
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let over = !fds[0].revents().is_empty();
        for stream in &mut streams {
            // One piece per stream and round, so that a loud rank does not silence the others;
            // everything, when it is the last chance.
            while stream.copy(&mut space, &mut failed) && over {}
        }
        if over {
            for stream in &mut streams {
                stream.end(&mut failed);
            }
            return failed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_go_out() {
        let mut stream = Labels::of(Some(3));
        let mut out = Vec::new();
        stream.lines(b"one\ntw", &mut out);
        assert_eq!(out, b"[3] one\n");
        stream.lines(b"o\n\nthree", &mut out);
        assert_eq!(out, b"[3] one\n[3] two\n[3] \n");
        assert_eq!(stream.partial, b"three");
    }

    #[test]
    fn without_a_rank_lines_are_as_they_were() {
        let mut stream = Labels::of(None);
        let mut out = Vec::new();
        stream.lines(b"one\ntw", &mut out);
        assert!(stream.is_partial());
        stream.lines(b"o\nthr", &mut out);
        assert_eq!(out, b"one\ntwo\n");
        stream.rest(&mut out);
        assert!(out == b"one\ntwo\nthr" && !stream.is_partial());
    }

    #[test]
    fn endless_lines_are_cut() {
        let mut stream = Labels::of(Some(3));
        let mut out = Vec::new();
        stream.lines(&vec![b'x'; LINE_MAX - 1], &mut out);
        assert!(out.is_empty());
        stream.lines(b"y", &mut out);
        assert_eq!(out.len(), LINE_MAX + 5);
        assert!(stream.partial.is_empty());
    }
}
