//! The ranks' output at the launcher: a thread that writes it line by line, with labels or without, so
//! that lines of several ranks do not mix. The beginning of a line, a prompt for instance, goes out when
//! nothing has come for a moment.
//!
//! A thread of its own, since the reader of the launcher's output may be slow, and the launcher
//! must speak with its agents meanwhile. What waits here is bounded by what agents may send before
//! the thread has written.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use crate::run::output::{Labels, write};
use crate::run::{LaunchError, system};

/// Output that has come from an agent.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) remote: usize,
    pub(super) rank: u32,
    pub(super) is_error: bool,
    pub(super) bytes: Vec<u8>,
}

/// What the thread reports.
#[derive(Debug)]
struct Progress {
    /// Bytes written, by agent.
    written: Mutex<Vec<(usize, u32)>>,
    /// Why the launcher's output could not be written first, until it is taken.
    failed: Mutex<Option<io::Error>>,
    event: OwnedFd,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` when the thread is to end.
    pieces: Option<Sender<Piece>>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(label: bool) -> Result<Self, LaunchError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = eventfd(0, flags).map_err(system("make an event counter"))?;
        let progress =
            Arc::new(Progress { written: Mutex::default(), failed: Mutex::default(), event });
        let (pieces, receiver) = channel();
        let notice = Arc::clone(&progress);
        let thread = std::thread::Builder::new()
            .name("bowline-output".into())
            .spawn(move || write_all(&receiver, &notice, label, MOMENT, write))
            .map_err(|source| LaunchError::System { act: "start the output thread", source })?;
        Ok(Self { pieces: Some(pieces), progress, thread: Some(thread) })
    }

    pub(super) fn write(&self, piece: Piece) {
        if let Some(pieces) = &self.pieces {
            // A thread that has panicked is reported at the end.
            let _ = pieces.send(piece);
        }
    }

    /// Becomes readable when something was written.
    pub(super) fn progress(&self) -> BorrowedFd<'_> {
        self.progress.event.as_fd()
    }

    /// What was written since the last call, by agent.
    pub(super) fn written(&self) -> Vec<(usize, u32)> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.progress.event, &mut count);
        std::mem::take(&mut *self.progress.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why output could not be written; once, whatever fails later. A broken pipe is that nobody reads it any more.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.progress.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Writes what has come and ends the thread.
    pub(super) fn finish(&mut self) {
        self.pieces = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the output thread has panicked");
        }
    }
}

/// How long the end of a line is waited for, where lines have no labels.
const MOMENT: Duration = Duration::from_millis(100);

/// A stream of a rank, and when something came from it.
struct Lines {
    labels: Labels,
    heard: Instant,
}

fn write_all(
    pieces: &Receiver<Piece>,
    progress: &Progress,
    label: bool,
    moment: Duration,
    mut write: impl FnMut(bool, &[u8]) -> io::Result<()>,
) {
    let mut streams: HashMap<(u32, bool), Lines> = HashMap::new();
    let mut has_failed = false;
    let mut write = |is_error, bytes: &[u8]| {
        if let Err(error) = write(is_error, bytes)
            && !std::mem::replace(&mut has_failed, true)
        {
            progress.fail(error);
        }
    };
    loop {
        let open = !label && streams.values().any(|lines| lines.labels.is_partial());
        let received = match open {
            true => pieces.recv_timeout(moment),
            false => pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let is_over = matches!(received, Err(RecvTimeoutError::Disconnected));
        if let Ok(Piece { remote, rank, is_error, bytes }) = received {
            let heard = Instant::now();
            let new = || Lines { labels: Labels::of(label.then_some(rank)), heard };
            let lines = streams.entry((rank, is_error)).or_insert_with(new);
            lines.heard = heard;
            let mut out = Vec::new();
            lines.labels.lines(&bytes, &mut out);
            write(is_error, &out);
            progress.took(remote, bytes.len());
        }
        if open || is_over {
            for ((_, is_error), lines) in &mut streams {
                if is_over || lines.heard.elapsed() >= moment {
                    let mut out = Vec::new();
                    lines.labels.rest(&mut out);
                    write(*is_error, &out);
                }
            }
        }
        if is_over {
            return;
        }
    }
}

impl Progress {
    /// A piece of a remote was taken, and its lines were written if that is possible.
    fn took(&self, remote: usize, bytes: usize) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.push((remote, bytes as u32));
        drop(written);
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    fn fail(&self, error: io::Error) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written of these pieces, of (rank, text), which have all come before.
    fn written(label: bool, moment: Duration, all: &[(u32, &str)]) -> Vec<String> {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let progress = Progress { written: Mutex::default(), failed: Mutex::default(), event };
        let (pieces, receiver) = channel();
        for (rank, text) in all {
            let (rank, bytes) = (*rank, text.as_bytes().to_vec());
            pieces.send(Piece { remote: 0, rank, is_error: false, bytes }).unwrap();
        }
        drop(pieces);
        let mut out = Vec::new();
        write_all(&receiver, &progress, label, moment, |_, bytes| {
            if !bytes.is_empty() {
                out.push(String::from_utf8(bytes.to_vec()).unwrap());
            }
            Ok(())
        });
        let counted: u32 = progress.written.lock().unwrap().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(counted as usize, all.iter().map(|(_, text)| text.len()).sum::<usize>());
        out
    }

    #[test]
    fn lines_of_several_ranks_do_not_mix() {
        let never = Duration::from_secs(1 << 30);
        let pieces = [(0, "half a "), (1, "whole\nand "), (0, "line\n"), (1, "half"), (2, "\n")];
        let lines = written(false, never, &pieces);
        assert_eq!(lines, ["whole\n", "half a line\n", "\n", "and half"]);
        let lines = written(true, never, &pieces);
        assert_eq!(lines, ["[1] whole\n", "[0] half a line\n", "[2] \n", "[1] and half\n"]);
    }

    #[test]
    fn only_the_first_failure_is_kept() {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let progress = Progress { written: Mutex::default(), failed: Mutex::default(), event };
        let (pieces, receiver) = channel();
        for text in ["one\n", "two\n"] {
            let bytes = text.as_bytes().to_vec();
            pieces.send(Piece { remote: 0, rank: 0, is_error: false, bytes }).unwrap();
        }
        drop(pieces);
        let mut kinds = [io::ErrorKind::StorageFull, io::ErrorKind::BrokenPipe].into_iter();
        write_all(&receiver, &progress, false, MOMENT, |_, _| {
            Err(kinds.next().unwrap_or(io::ErrorKind::BrokenPipe).into())
        });
        let failed = progress.failed.lock().unwrap().take();
        assert_eq!(failed.map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn the_beginning_of_a_line_does_not_wait_for_ever() {
        let lines = written(false, Duration::ZERO, &[(0, "name? "), (1, "x\n"), (1, "y\n")]);
        assert_eq!(lines, ["x\n", "name? ", "y\n"]);
    }
}
