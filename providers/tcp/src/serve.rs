//! What peers ask of us, and their answers to what we asked: puts, gets, atomics, flushes, BYE.
//!
//! Nothing here is trusted: keys and addresses are checked at each access, answers must be those
//! that are due, and a peer that asks for more at once than it may is dropped.

use std::os::fd::AsFd;

use bowline_base::view::View;
use bowline_uct::PeerFailure;
use rustix::io::Errno;

use crate::frame::{ATOMIC_BYTES, Atomic, BadFrame, COMPLETE, Frame, Kind, MAX_REQUESTS, Status};
use crate::iface::TcpIface;
use crate::md::named;
use crate::peer::{Direct, Request, State};
use crate::queue::SendQueue;
use crate::receive::{SMALL, failure_of};

/// An answer that nobody waits for.
const UNASKED: BadFrame = BadFrame("an answer to what was not asked");

impl TcpIface {
    /// Serves a frame of `index` that is neither a message nor a put with notification. `behind`
    /// is all that follows its header, or nothing where the payload goes straight to its place.
    pub(crate) fn serve(
        &mut self,
        index: u32,
        frame: &Frame,
        behind: View<'_>,
    ) -> Result<(), BadFrame> {
        let [first, second, third] = frame.words;
        match frame.kind {
            Kind::Am | Kind::PutNotify => unreachable!("dealt with by the caller"),
            Kind::Put => self.serve_put(index, frame, behind),
            Kind::Get => self.serve_get(index, first, second, third)?,
            Kind::Atomic => {
                let mut bytes = [0; ATOMIC_BYTES];
                behind.copy_out(&mut bytes);
                self.serve_atomic(index, &Atomic::decode(frame, &bytes)?)?;
            }
            Kind::Flush => {
                let answer = Frame::flushed(first as u32).encode();
                self.owe(index, &[&answer])?;
            }
            Kind::Data => self.take_data(index, frame, behind)?,
            Kind::End => self.take_end(index, frame)?,
            Kind::Old => {
                let status = Status::from_wire(frame.id).ok_or(UNASKED)?;
                let request = self.due(index, first as u32)?;
                if !matches!(request, Request::Old { .. }) {
                    return Err(UNASKED);
                }
                let outcome = match status {
                    Status::Done => Ok(second),
                    Status::Refused => Err(PeerFailure::Refused),
                };
                self.answered(request, outcome);
            }
            Kind::Flushed => {
                let request = self.due(index, first as u32)?;
                if !matches!(request, Request::Flush { .. }) {
                    return Err(UNASKED);
                }
                self.answered(request, Ok(0));
            }
            Kind::Bye => self.fail(index, PeerFailure::Closed),
        }
        Ok(())
    }

    fn serve_put(&mut self, index: u32, frame: &Frame, behind: View<'_>) {
        let [handle, address, _] = frame.words;
        let len = frame.len as usize;
        if len <= SMALL {
            return self.write_memory(index, handle, address, behind);
        }
        let direct = if self.domain.reach(named(handle), address, len).is_some() {
            self.counters.served += 1;
            Direct::Put { handle, address, left: len }
        } else {
            self.refuse_access(index);
            Direct::Discard { left: len }
        };
        if let Some(peer) = self.peer_mut(index) {
            peer.direct = Some(direct);
        }
    }

    /// Where an answer is queued. A peer asks for so much at once and no more.
    fn debt(&mut self, index: u32) -> Result<&mut SendQueue, BadFrame> {
        let peer = self.peer_mut(index).ok_or(UNASKED)?;
        if peer.queue.answers() >= MAX_REQUESTS {
            return Err(BadFrame("more requests at once than a correct peer makes"));
        }
        Ok(&mut peer.queue)
    }

    fn owe(&mut self, index: u32, parts: &[&[u8]]) -> Result<(), BadFrame> {
        self.debt(index)?.answer(parts);
        Ok(())
    }

    fn serve_get(
        &mut self,
        index: u32,
        handle: u64,
        address: u64,
        last: u64,
    ) -> Result<(), BadFrame> {
        let (request, len) = (last as u32, (last >> 32) as usize);
        // SAFETY: the bytes are sent, which only reads them.
        let reached = unsafe { self.domain.reach_to_read(named(handle), address, len) };
        let Some(view) = reached else {
            self.refuse_access(index);
            return self.owe(index, &[&Frame::data(request, Status::Refused, true, 0).encode()]);
        };
        if len <= SMALL {
            let mut copied = [0; SMALL];
            view.copy_out(&mut copied[..len]);
            let header = Frame::data(request, Status::Done, true, len).encode();
            self.counters.served += 1;
            return self.owe(index, &[&header, &copied[..len]]);
        }
        self.counters.served += 1;
        let header = Frame::data(request, Status::Done, false, len).encode();
        let queue = self.debt(index)?;
        queue.push(&[&header]);
        queue.read_memory(named(handle), address, len, request);
        Ok(())
    }

    fn serve_atomic(&mut self, index: u32, atomic: &Atomic) -> Result<(), BadFrame> {
        let Atomic { key, address, op, width, .. } = *atomic;
        let reached = self.domain.reach(named(key), address, width.bytes());
        let (status, old) = match reached.and_then(|view| op.perform(view, width)) {
            Some(old) => (Status::Done, old),
            None => (Status::Refused, 0),
        };
        match status {
            Status::Done => self.counters.served += 1,
            Status::Refused => self.refuse_access(index),
        }
        match atomic.request {
            Some(request) => self.owe(index, &[&Frame::old(request, status, old).encode()]),
            None => Ok(()),
        }
    }

    /// The request whose answer is due, if it has this number.
    fn due(&mut self, index: u32, number: u32) -> Result<Request, BadFrame> {
        let peer = self.peer_mut(index).ok_or(UNASKED)?;
        match peer.requests.front() {
            Some((due, _)) if *due == number => {}
            _ => return Err(UNASKED),
        }
        peer.requests.pop_front().map(|(_, request)| request).ok_or(UNASKED)
    }

    fn take_data(&mut self, index: u32, frame: &Frame, behind: View<'_>) -> Result<(), BadFrame> {
        let number = frame.words[0] as u32;
        let came = frame.len as usize;
        let peer = self.peer_mut(index).ok_or(UNASKED)?;
        let Some((due, Request::Get { len, filled, .. })) = peer.requests.front() else {
            return Err(UNASKED);
        };
        if *due != number || *filled != 0 {
            return Err(UNASKED);
        }
        if Status::from_wire(frame.id) == Some(Status::Refused) {
            let request = self.due(index, number)?;
            self.answered(request, Err(PeerFailure::Refused));
            return Ok(());
        }
        if came != *len {
            return Err(BadFrame("an answer of another length than was asked for"));
        }
        let complete = frame.flags == COMPLETE;
        if came > SMALL {
            if complete {
                return Err(BadFrame("a long answer without an end"));
            }
            peer.direct = Some(Direct::Get { left: came });
            return Ok(());
        }
        if !complete {
            return Err(BadFrame("a short answer that is not complete"));
        }
        let request = self.due(index, number)?;
        if let Request::Get { pieces, .. } = &request {
            crate::receive::scatter(behind, pieces, 0);
        }
        self.answered(request, Ok(0));
        Ok(())
    }

    fn take_end(&mut self, index: u32, frame: &Frame) -> Result<(), BadFrame> {
        let request = self.due(index, frame.words[0] as u32)?;
        match &request {
            Request::Get { filled, len, .. } if filled == len => {}
            _ => return Err(UNASKED),
        }
        let outcome = match Status::from_wire(frame.id) {
            Some(Status::Done) => Ok(0),
            _ => Err(PeerFailure::Refused),
        };
        self.answered(request, outcome);
        Ok(())
    }

    /// Sends the answers that were queued, as far as the kernel takes them.
    #[inline]
    pub(crate) fn answer_now(&mut self, index: u32) {
        if self.peer(index).is_some_and(|peer| !peer.queue.is_empty() && !peer.blocked) {
            self.flush_queue(index);
        }
    }

    /// Sends what is queued, as far as the kernel takes it.
    pub(crate) fn flush_queue(&mut self, index: u32) {
        let Some(peer) = self.peers.get_mut(index as usize).and_then(Option::as_mut) else {
            return;
        };
        if peer.state != State::Open || peer.broken.is_some() {
            return;
        }
        let Some(socket) = &peer.socket else { return };
        let flushed = peer.queue.flush(socket.as_fd(), &self.domain, &mut self.sent);
        for token in self.sent.drain(..) {
            self.events.complete(token, Ok(0));
        }
        match flushed {
            Ok(all) => self.set_blocked(index, !all),
            Err(error) => self.break_off(index, error),
        }
        if self.peer(index).is_some_and(|peer| peer.closing.is_some() && peer.queue.is_empty()) {
            self.hang_up(index);
        }
    }

    /// Sending has failed.
    #[cold]
    pub(crate) fn break_off(&mut self, index: u32, error: Errno) {
        self.mark_broken(index, failure_of(error));
    }

    /// Nothing more is posted. What the peer said before is still read.
    #[cold]
    pub(crate) fn mark_broken(&mut self, index: u32, how: PeerFailure) {
        let Some(peer) = self.peer_mut(index) else { return };
        if peer.broken.is_none() && peer.state == State::Open {
            peer.broken = Some(how);
            self.broken.push(index);
        }
    }
}
