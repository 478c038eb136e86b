//! Connections that break: what was under way is answered, and the failure is reported.

use bowline_uct::{PeerFailure, PostError};

use super::RcIface;
use super::peer::{Holds, Link, Op, Waiting};
use crate::control::Command;
use crate::sys::ffi;

impl RcIface {
    /// Breaks a connection after everything that has arrived on it was taken in.
    pub(super) fn drain_then_break(&mut self, number: u32, how: PeerFailure) {
        self.read_completions();
        self.break_link(number, how);
        self.break_marked_links();
    }

    /// Breaks the connections that were found broken while completions were read.
    pub(super) fn break_marked_links(&mut self) {
        while !self.state.broken.is_empty() {
            if let Some((peer, error)) = self.state.refused.take() {
                let error = std::io::Error::from_raw_os_error(error);
                tracing::warn!(peer, %error, "a request was refused");
            }
            // The first one says what happened; those behind it were only swept along.
            let (number, how) = self.state.broken.remove(0);
            // What has arrived on it is taken in first: its pair's number is about to be nobody's.
            self.read_completions();
            self.break_link(number, how);
        }
    }

    /// Ends a connection, answers what was under way, and has the failure reported.
    pub(super) fn break_link(&mut self, number: u32, how: PeerFailure) {
        let peer = &mut self.peers[number as usize];
        let (link, uid) = (peer.link.take(), peer.uid());
        let is_own = uid == self.own.uid;
        peer.asked = false;
        peer.beside.fence = false;
        if link.is_none() && peer.waiting.is_empty() && (peer.failed.is_some() || !peer.open) {
            return;
        }
        let pair = link.as_ref().map(Link::arrives_on);
        if let Some(link) = link {
            self.counters.failures += u64::from(how != PeerFailure::Closed);
            let pair_number = link.pair.number();
            self.forget_pair(number, pair);
            let Link { pair, far, mut ops, mut flushes, .. } = link;
            if let Err(error) = pair.stop() {
                tracing::debug!(%error, "a pair was stopped already");
            }
            // When the pair is destroyed the device has let go of all memory.
            drop((pair, far));
            let in_order = how == PeerFailure::Closed;
            if !is_own {
                self.control.command(Command::End { uid, number: pair_number, in_order });
            }
            for op in ops.drain(..) {
                self.finish(op, Err(how));
            }
            for (_, waiter) in flushes.drain(..) {
                self.events.answer(waiter, Err(how));
            }
        }
        while let Some(waiting) = self.peers[number as usize].waiting.pop_front() {
            match waiting {
                Waiting::Message { buffer, .. } => self.send.give(buffer),
                Waiting::Transfer { pieces, token, .. } => {
                    self.state.domain.give_back(&pieces.lent);
                    self.events.complete(token, Err(how));
                }
                Waiting::Flush(waiter) => self.events.answer(waiter, Err(how)),
            }
        }
        self.note_failure(number, pair, how);
    }

    /// A peer has said goodbye on the connection of this pair of ours. A request to it may have failed before that was
    /// read. The peer has closed, and that is what is reported.
    #[cold]
    pub(super) fn closed_in_order(&mut self, number: u32, pair: u32) {
        let noted = if self.failed.contains(&(number, Some(pair))) {
            self.peers[number as usize].failed.as_mut()
        } else {
            let broken = self.state.broken.iter_mut().find(|(broken, _)| *broken == number);
            broken.map(|(_, how)| how)
        };
        match noted {
            Some(how @ (PeerFailure::Died | PeerFailure::Unreachable)) => {
                *how = PeerFailure::Closed
            }
            Some(_) => {}
            None => self.state.broken.push((number, PeerFailure::Closed)),
        }
    }

    /// Answers a request that is complete, or will never be.
    pub(super) fn finish(&mut self, op: Op, result: Result<u64, PeerFailure>) {
        self.state.under_way -= 1;
        let mut result = result;
        match op.holds {
            Holds::Nothing => {}
            Holds::Buffer(buffer) => self.send.give(buffer),
            Holds::Lent(lent, buffer) => {
                self.state.domain.give_back(&lent);
                if let Some(buffer) = buffer {
                    self.send.give(buffer);
                }
            }
            Holds::Result(word) => {
                result = result.map(|_| self.state.results.read(word));
                self.state.results.give(word);
            }
            Holds::Emulated(key) => return self.emulated_done(key, result),
        }
        self.events.complete(op.token, result);
    }

    /// The device refused a request: its queue is full, or it has broken the connection.
    #[cold]
    pub(super) fn post_failed(&mut self, number: u32, error: &std::io::Error) -> PostError {
        if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EAGAIN)) {
            return PostError::NoResource;
        }
        // In a signal handler, too, so that the line is for `break_marked_links`, and there is space for one entry for each peer.
        self.state.refused.get_or_insert((number, error.raw_os_error().unwrap_or(0)));
        if !self.state.broken.iter().any(|(broken, _)| *broken == number) {
            self.state.broken.push((number, PeerFailure::Unreachable));
        }
        PostError::PeerFailed
    }
}

/// What a failed completion says of the peer.
pub(super) fn failure_from(status: u32) -> PeerFailure {
    match status {
        ffi::WC_REM_ACCESS_ERR => PeerFailure::Refused,
        _ => PeerFailure::Unreachable,
    }
}
