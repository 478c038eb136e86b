//! Receiving: one buffer per interface, frames taken out of it, payload that goes straight to its
//! place.
//!
//! The buffer belongs to one connection at a time. What remains of an unfinished frame stays in it
//! while the same connection goes on; when another one takes over, it is copied to the peer and
//! copied back later. So a connection that is silent between frames costs no buffer.
//!
//! ```text
//!   0        start                    end              capacity
//!   │ read   │ frames not taken yet   │ space to receive │
//! ```
//!
//! `waiting` says that the budget ended before the frames did: then nothing else is received until
//! they are taken.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use bowline_base::sync::atomic::{Ordering, fence};
use bowline_base::view::View;
use bowline_uct::{AmId, Arrival, PeerFailure, Sink, Source, Verdict};
use rustix::io::Errno;

use crate::frame::{BadFrame, Frame, HEADER_BYTES, Kind};
use crate::iface::TcpIface;
use crate::md::named;
use crate::peer::{Direct, Request, State};
use crate::socket::{self, Vector};

/// Payload beyond this goes straight to its place; up to this it is waited for, so that it is
/// written in one copy.
pub(crate) const SMALL: usize = 4 << 10;
/// Bytes received when the answer to a get is due: its header, and little of what follows, which
/// then goes straight to its place.
const HEADER_FIRST: usize = 2 << 10;

/// What a call of `recv` said.
enum Pulled {
    Bytes,
    Nothing,
    End(PeerFailure),
}

impl TcpIface {
    /// Receives what a peer's connection has, once, and deals with it. Returns the events.
    pub(crate) fn pull(&mut self, index: u32, sink: &mut dyn Sink, budget: u32) -> u32 {
        if self.receiver.owner != Some(index) {
            self.take_over(index);
        }
        match self.receive(index) {
            Pulled::Nothing => {
                self.counters.receives_empty += 1;
                0
            }
            Pulled::End(how) => {
                self.end_of_stream(index, how);
                0
            }
            Pulled::Bytes => {
                self.last_active = index;
                self.take_frames(index, sink, budget)
            }
        }
    }

    fn end_of_stream(&mut self, index: u32, how: PeerFailure) {
        let broken = self.peer(index).and_then(|peer| peer.broken);
        let closing = self.peer(index).is_some_and(|peer| peer.closing.is_some());
        self.fail(index, if closing { PeerFailure::Closed } else { broken.unwrap_or(how) });
    }

    /// Gives the receive buffer to `index`.
    #[cold]
    fn take_over(&mut self, index: u32) {
        let receiver = &mut self.receiver;
        if let Some(owner) = receiver.owner
            && receiver.len() > 0
        {
            let rest = receiver.bytes(0, receiver.len()).to_vec();
            if let Some(peer) = self.peer_mut(owner) {
                peer.tail = rest;
            }
        }
        self.receiver.clear();
        let Some(peer) = self.peer_mut(index) else { return };
        let tail = std::mem::take(&mut peer.tail);
        let receiver = &mut self.receiver;
        receiver.owner = Some(index);
        receiver.memory.view().copy_in(&tail);
        receiver.end = tail.len();
    }

    #[inline]
    fn receive(&mut self, index: u32) -> Pulled {
        let Some(peer) = self.peers.get_mut(index as usize).and_then(Option::as_mut) else {
            return Pulled::Nothing;
        };
        let Some(socket) = &peer.socket else { return Pulled::Nothing };
        let receiver = &mut self.receiver;
        self.counters.receives += 1;
        let received = if let Some(direct) = peer.direct {
            let mut pieces = [Vector { iov_base: std::ptr::null_mut(), iov_len: 0 }; 18];
            let count = match direct {
                Direct::Put { handle, address, left } => {
                    match self.domain.reach(named(handle), address, left) {
                        Some(view) => {
                            let base = view.as_ptr().cast();
                            pieces[0] = Vector { iov_base: base, iov_len: left };
                            1
                        }
                        None => {
                            // Released meanwhile: what is left of it goes nowhere.
                            peer.direct = Some(Direct::Discard { left });
                            0
                        }
                    }
                }
                Direct::Get { .. } => destinations(peer.requests.front(), &mut pieces),
                Direct::Discard { .. } => 0,
            };
            debug_assert_eq!(receiver.len(), 0, "bytes in front of what is received");
            (receiver.start, receiver.end) = (0, 0);
            pieces[count] = Vector {
                iov_base: receiver.memory.view().as_ptr().cast(),
                iov_len: behind(direct, &peer.requests).min(receiver.capacity),
            };
            // SAFETY: the pieces are: memory that the domain has just found and keeps, which
            // peers may write; or the destinations of a get, which the user keeps until its token
            // was reported; and the receive buffer, of which no view is in use.
            unsafe { socket::receive_pieces(socket.as_fd(), &pieces[..=count]) }
        } else {
            let mut space = receiver.capacity - receiver.end;
            if receiver.len() == 0
                && let Some((_, Request::Get { len, .. })) = peer.requests.front()
                && *len > SMALL
            {
                space = space.min(HEADER_FIRST);
            }
            let at = receiver.memory.view().as_ptr().wrapping_add(receiver.end);
            // SAFETY: `space` bytes from `end` are inside the region; no view of them is in use.
            unsafe { socket::receive(socket.as_fd(), at, space) }
        };
        match received {
            Ok(0) => Pulled::End(PeerFailure::Died),
            Ok(bytes) => {
                self.place(index, bytes);
                Pulled::Bytes
            }
            Err(Errno::AGAIN | Errno::INTR) => Pulled::Nothing,
            Err(error) => Pulled::End(failure_of(error)),
        }
    }

    /// Accounts for `bytes` that were received.
    #[inline]
    fn place(&mut self, index: u32, bytes: usize) {
        let receiver = &mut self.receiver;
        let Some(peer) = self.peers[index as usize].as_mut() else { return };
        let Some(direct) = &mut peer.direct else {
            receiver.end += bytes;
            return;
        };
        if let Direct::Discard { .. } = direct {
            // It went into the buffer, and is taken off its front like what was there before.
            receiver.end += bytes;
            return;
        }
        let straight = bytes.min(direct.left());
        direct.came(straight);
        let over = direct.left() == 0;
        if let Direct::Get { .. } = direct
            && let Some((_, Request::Get { filled, .. })) = peer.requests.front_mut()
        {
            *filled += straight;
        }
        if over {
            peer.direct = None;
        }
        receiver.end += bytes - straight;
    }

    /// Deals with the frames in the buffer, which belong to `index`. Returns the events.
    #[inline]
    pub(crate) fn take_frames(&mut self, index: u32, sink: &mut dyn Sink, budget: u32) -> u32 {
        let max_am = self.options.max_bcopy;
        let mut given = 0;
        self.receiver.waiting = false;
        loop {
            let there = self.receiver.len();
            if self.receiver.owner != Some(index) {
                // The peer has failed over one of its frames.
                break;
            }
            if self.direct_step(index) {
                continue;
            }
            if there < HEADER_BYTES {
                self.compact_for(HEADER_BYTES);
                break;
            }
            let frame = match Frame::decode(&self.receiver.array(0), max_am) {
                Ok(frame) => frame,
                Err(bad) => {
                    self.damaged(index, bad);
                    break;
                }
            };
            let len = frame.len as usize;
            if frame.kind == Kind::Am {
                if there < HEADER_BYTES + len {
                    self.compact_for(HEADER_BYTES + len);
                    break;
                }
                if given == budget {
                    self.receiver.waiting = true;
                    break;
                }
                let payload = self.receiver.bytes(HEADER_BYTES, len);
                deliver(sink, index, frame.id, frame.words, payload);
                self.counters.am_received += 1;
                given += 1;
                self.receiver.start += HEADER_BYTES + len;
                continue;
            }
            let whole = match frame.kind {
                Kind::Put | Kind::Data if len > SMALL => HEADER_BYTES,
                _ => HEADER_BYTES + len,
            };
            if there < whole {
                self.compact_for(whole);
                break;
            }
            if frame.kind == Kind::PutNotify {
                if given == budget {
                    self.receiver.waiting = true;
                    break;
                }
                self.notified_put(index, &frame, sink);
                given += 1;
                self.receiver.start += whole;
                continue;
            }
            // Taken off before it is served: a peer that fails over it clears the buffer.
            let behind = self.receiver.bytes(HEADER_BYTES, whole - HEADER_BYTES);
            self.receiver.start += whole;
            if let Err(bad) = self.serve(index, &frame, behind) {
                self.damaged(index, bad);
                break;
            }
        }
        if self.receiver.len() == 0 {
            let owner = self.receiver.owner;
            self.receiver.clear();
            // Nobody else has to put anything aside.
            self.receiver.owner = owner;
        }
        self.answer_now(index);
        given
    }

    /// Makes sure that a frame of `whole` bytes has space behind `start`.
    #[inline]
    fn compact_for(&mut self, whole: usize) {
        let receiver = &mut self.receiver;
        if receiver.start + whole > receiver.capacity {
            receiver.compact();
        }
    }

    /// Takes bytes in the buffer that belong to a payload under way. Returns whether it took any.
    #[inline]
    fn direct_step(&mut self, index: u32) -> bool {
        let there = self.receiver.len();
        let Some(peer) = self.peers[index as usize].as_mut() else { return false };
        let Some(direct) = peer.direct else { return false };
        let step = there.min(direct.left());
        if step == 0 {
            return false;
        }
        let bytes = self.receiver.bytes(0, step);
        match direct {
            Direct::Put { handle, address, .. } => {
                if let Some(view) = self.domain.reach(named(handle), address, step) {
                    copy(bytes, view);
                }
            }
            Direct::Get { .. } => {
                if let Some((_, Request::Get { pieces, filled, .. })) = peer.requests.front_mut() {
                    scatter(bytes, pieces, *filled);
                    *filled += step;
                }
            }
            Direct::Discard { .. } => {}
        }
        if let Some(direct) = &mut peer.direct {
            direct.came(step);
            if direct.left() == 0 {
                peer.direct = None;
            }
        }
        self.receiver.start += step;
        true
    }

    fn notified_put(&mut self, index: u32, frame: &Frame, sink: &mut dyn Sink) {
        let len = frame.len as usize - 24;
        let header: [u8; 24] = self.receiver.array(HEADER_BYTES);
        let bytes = self.receiver.bytes(HEADER_BYTES + 24, len);
        self.write_memory(index, frame.words[0], frame.words[1], bytes);
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(header.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        deliver(sink, index, frame.id, words, View::empty());
        self.counters.am_received += 1;
    }

    /// A put of bytes that are all there.
    pub(crate) fn write_memory(&mut self, index: u32, key: u64, address: u64, bytes: View<'_>) {
        match self.domain.reach(named(key), address, bytes.len()) {
            Some(view) => {
                // Release: pairs with the acquire of the thread that watches the memory: puts are seen in
                // their order.
                fence(Ordering::Release);
                copy(bytes, view);
                self.counters.served += 1;
            }
            None => self.refuse_access(index),
        }
    }

    /// A peer named memory that is not (or no longer) reachable.
    #[cold]
    pub(crate) fn refuse_access(&mut self, index: u32) {
        self.counters.refused_accesses += 1;
        if !std::mem::replace(&mut self.access_logged, true) {
            tracing::warn!(
                peer = index,
                "a peer's put, get or atomic names memory that is not reachable (any more); \
                 it is refused, and so are others without another line here"
            );
        }
    }

    /// A peer wrote what no correct peer writes.
    #[cold]
    pub(crate) fn damaged(&mut self, index: u32, bad: BadFrame) {
        self.counters.damaged += 1;
        tracing::warn!(peer = index, reason = bad.0, "a peer sent damaged data; it is dropped");
        self.fail(index, PeerFailure::Damaged);
    }

    /// Whether `index` stands.
    pub(crate) fn is_open(&self, index: u32) -> bool {
        self.peer(index).is_some_and(|peer| peer.state == State::Open)
    }
}

/// How a peer failed whose socket says `error`.
pub(crate) const fn failure_of(error: Errno) -> PeerFailure {
    match error {
        Errno::TIMEDOUT
        | Errno::HOSTUNREACH
        | Errno::NETUNREACH
        | Errno::HOSTDOWN
        | Errno::NETDOWN => PeerFailure::Unreachable,
        _ => PeerFailure::Died,
    }
}

#[inline]
fn deliver(sink: &mut dyn Sink, index: u32, id: u8, header: [u64; 3], payload: View<'_>) {
    let id = AmId::from_wire(id).expect("the decoder has checked it");
    let arrival = Arrival { source: Source(index), id, header, payload };
    let (Verdict::Consumed | Verdict::Enough) = sink.am(arrival);
}

/// Copies between two views of one length.
fn copy(from: View<'_>, to: View<'_>) {
    debug_assert!(from.len() <= to.len());
    let len = from.len().min(to.len());
    // SAFETY: `len` bytes are inside either view; the first is in the receive buffer, the second
    // in memory that a key opens, which never is the receive buffer.
    unsafe { bowline_base::copy::copy_bytes(from.as_ptr(), to.as_ptr(), len) };
}

/// Copies to the pieces of a get, `skip` bytes into them.
pub(crate) fn scatter(mut from: View<'_>, pieces: &[bowline_uct::LocalSlice], mut skip: usize) {
    for piece in pieces {
        let gone = skip.min(piece.len());
        skip -= gone;
        let step = from.len().min(piece.len() - gone);
        // SAFETY: `gone + step` is at most the piece's length, and the piece is kept writable for
        // this request; the bytes come from the receive buffer.
        unsafe {
            bowline_base::copy::copy_bytes(from.as_ptr(), piece.as_ptr().wrapping_add(gone), step);
        }
        from = from.slice(step, from.len() - step).expect("at most its length was taken");
    }
}

/// Most bytes to receive behind a payload that goes straight to its place. Where another such
/// payload is likely to follow, only as many as come before it.
fn behind(direct: Direct, requests: &VecDeque<(u32, Request)>) -> usize {
    match direct {
        // END, and the header of the next answer.
        Direct::Get { .. } => match requests.get(1) {
            Some((_, Request::Get { len, .. })) if *len > SMALL => 2 * HEADER_BYTES,
            _ => usize::MAX,
        },
        Direct::Put { .. } => HEADER_FIRST,
        Direct::Discard { .. } => usize::MAX,
    }
}

/// The unfilled rest of a get's pieces. Returns how many pieces that are.
fn destinations(request: Option<&(u32, Request)>, out: &mut [Vector; 18]) -> usize {
    let Some((_, Request::Get { pieces, filled, .. })) = request else { return 0 };
    let (mut skip, mut count) = (*filled, 0);
    for piece in pieces {
        let gone = skip.min(piece.len());
        skip -= gone;
        if gone < piece.len() {
            let base = piece.as_ptr().wrapping_add(gone).cast();
            out[count] = Vector { iov_base: base, iov_len: piece.len() - gone };
            count += 1;
        }
    }
    count
}
