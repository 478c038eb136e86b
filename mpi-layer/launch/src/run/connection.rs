//! The manager's end of one rank's PMI connection: bytes to lines and back, without waiting.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::pmi::{LINE_MAX, ParseError, take_line};

/// Bytes of replies that a rank may leave unread before it is a violation.
const UNREAD_MAX: usize = 1 << 20;

/// A socket that does not block, with what was read and not served, and what was not sent yet.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// Space to send is waited for.
    waits_to_write: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, received: Vec::new(), unsent: Vec::new(), waits_to_write: false }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What to wait for, if that is something else than before: at first, what comes.
    pub(super) fn changed_interest(&mut self) -> Option<EventFlags> {
        let wants_to_write = !self.unsent.is_empty();
        let out = if wants_to_write { EventFlags::OUT } else { EventFlags::empty() };
        let before = std::mem::replace(&mut self.waits_to_write, wants_to_write);
        (before != wants_to_write).then_some(EventFlags::IN | out)
    }

    /// Sends a line, now or when the rank reads; false when it has left too many unread.
    pub(super) fn send(&mut self, line: &[u8]) -> bool {
        self.unsent.extend_from_slice(line);
        // An error here is the end of the connection, which the next read notices.
        let _ = self.flush();
        self.unsent.len() <= UNREAD_MAX
    }

    /// Reads what is there; true when the other end is closed. What a rank sends faster than it
    /// is served stays in the socket.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        while self.received.len() < LINE_MAX {
            match rustix::io::read(&self.socket, &mut bytes) {
                Ok(0) => return Ok(true),
                Ok(n) => self.received.extend_from_slice(&bytes[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Writes what the rank takes now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let flags = rustix::net::SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &self.unsent, flags) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next whole line that was read.
    pub(super) fn line(&mut self) -> Result<Option<Vec<u8>>, ParseError> {
        take_line(&mut self.received)
    }
}
