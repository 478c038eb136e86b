//! The ranks' output at the launcher: a thread that writes it, with labels or as it came.
//!
//! A thread of its own, since whoever reads the launcher's output may be slow, and the launcher
//! must speak with its agents meanwhile. What waits here is bounded by what agents may send before
//! the thread has written.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bowline_base::sync::atomic::{AtomicBool, Ordering};
use rustix::event::{EventfdFlags, eventfd};

use crate::run::output::Labels;
use crate::run::{LaunchError, system};

/// Output that has come from an agent.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) remote: usize,
    pub(super) rank: u32,
    pub(super) is_error: bool,
    pub(super) bytes: Vec<u8>,
}

/// What the thread tells.
#[derive(Debug)]
struct News {
    /// Bytes written, by agent.
    written: Mutex<Vec<(usize, u32)>>,
    /// Nobody reads the launcher's output.
    broken: AtomicBool,
    event: OwnedFd,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` when the thread is to end.
    pieces: Option<Sender<Piece>>,
    news: Arc<News>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(label: bool) -> Result<Self, LaunchError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = eventfd(0, flags).map_err(system("make an event counter"))?;
        let (written, broken) = (Mutex::default(), AtomicBool::new(false));
        let news = Arc::new(News { written, broken, event });
        let (pieces, receiver) = channel();
        let told = Arc::clone(&news);
        let thread = std::thread::Builder::new()
            .name("bowline-output".into())
            .spawn(move || write_all(&receiver, &told, label))
            .map_err(|source| LaunchError::System { act: "start the output thread", source })?;
        Ok(Self { pieces: Some(pieces), news, thread: Some(thread) })
    }

    pub(super) fn write(&self, piece: Piece) {
        if let Some(pieces) = &self.pieces {
            // A thread that has panicked is told of at the end.
            let _ = pieces.send(piece);
        }
    }

    /// Becomes readable when something was written.
    pub(super) fn news(&self) -> BorrowedFd<'_> {
        self.news.event.as_fd()
    }

    /// What was written since the last call, by agent.
    pub(super) fn written(&self) -> Vec<(usize, u32)> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.news.event, &mut count);
        std::mem::take(&mut *self.news.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether nobody reads the launcher's output any more; true once.
    pub(super) fn is_broken(&self) -> bool {
        // Relaxed: a flag that publishes nothing.
        self.news.broken.swap(false, Ordering::Relaxed)
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

fn write_all(pieces: &Receiver<Piece>, news: &News, label: bool) {
    let mut partial: HashMap<(u32, bool), Labels> = HashMap::new();
    while let Ok(Piece { remote, rank, is_error, bytes }) = pieces.recv() {
        let ok = match label {
            true => {
                let labels = partial.entry((rank, is_error)).or_insert_with(|| Labels::of(rank));
                let mut out = Vec::new();
                labels.lines(&bytes, &mut out);
                write(is_error, &out)
            }
            false => write(is_error, &bytes),
        };
        if !ok {
            // Relaxed: as in `is_broken`.
            news.broken.store(true, Ordering::Relaxed);
        }
        let mut written = news.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.push((remote, bytes.len() as u32));
        drop(written);
        let _ = rustix::io::write(&news.event, &1u64.to_ne_bytes());
    }
    for ((_, is_error), mut labels) in partial {
        let mut out = Vec::new();
        labels.rest(&mut out);
        write(is_error, &out);
    }
}

fn write(is_error: bool, bytes: &[u8]) -> bool {
    let written = |mut to: Box<dyn Write>| to.write_all(bytes).and_then(|()| to.flush());
    match is_error {
        true => written(Box::new(io::stderr().lock())).is_ok(),
        false => written(Box::new(io::stdout().lock())).is_ok(),
    }
}
