//! Sending: active messages, one-sided operations, flushes.
//!
//! What the kernel takes at once is gone when the call returns: no queue, no second copy. What it
//! does not take waits in the peer's queue, up to `BOWLINE_TCP_QUEUE`; beyond that the post is
//! refused before anything of it was sent or packed.

use std::os::fd::AsFd;

use bowline_base::view::View;
use bowline_uct::runtime::{CompletionOf, bytes_of, check_len};
use bowline_uct::{
    AmHeader, AmId, AtomicOp, AtomicWidth, EpId, LocalSlice, OneSided, PostError, Posted,
    RemoteSlice, Token, lacks,
};
use rustix::io::Errno;

use crate::frame::{Atomic, Frame, HEADER_BYTES, MAX_REQUESTS};
use crate::iface::{MAX_IOV, TcpIface};
use crate::peer::{Peer, Request, State};
use crate::socket::{self, Vector};

/// Bytes that are sent from the stack: header and short payload.
const ON_STACK: usize = 512;
/// Longest message that waits in a queue behind others.
const WAITS: usize = 4 << 10;

impl TcpIface {
    /// The peer of an endpoint that takes operations.
    #[inline]
    fn open_peer(&mut self, ep: EpId) -> Result<&mut Peer, PostError> {
        let peer = self.peers.get_mut(ep.0 as usize).and_then(Option::as_mut);
        let peer = peer.ok_or(PostError::BadEndpoint)?;
        peer.check()?;
        Ok(peer)
    }

    /// Refuses what is longer than `limit`, unless the endpoint is what is wrong.
    #[inline]
    fn check_length(&mut self, ep: EpId, len: usize, limit: usize) -> Result<(), PostError> {
        if len <= limit {
            return Ok(());
        }
        self.open_peer(ep).and(Err(PostError::TooLong))
    }

    /// Whether `len` more bytes may be posted: at once, or to the queue.
    #[inline]
    fn space(&mut self, ep: EpId, len: usize) -> Result<(), PostError> {
        let limit = self.options.queue;
        let peer = self.open_peer(ep)?;
        let waiting = peer.queue.bytes();
        // An empty queue takes a message of any length, so it never holds more than one too long.
        // What is long waits with its owner rather than being copied once more.
        if peer.queue.is_empty() || len <= WAITS && waiting + len <= limit {
            return Ok(());
        }
        self.counters.refused += 1;
        Err(PostError::NoResource)
    }

    /// Sends bytes, in parts; what the kernel does not take is queued. Space was checked before.
    #[inline]
    fn send_bytes(&mut self, index: u32, bytes: &[u8]) -> Result<(), PostError> {
        let Some(peer) = self.peers.get_mut(index as usize).and_then(Option::as_mut) else {
            return Err(PostError::BadEndpoint);
        };
        let Some(fd) = peer.ready_socket() else {
            peer.queue.push(&[bytes]);
            return Ok(());
        };
        match socket::send(fd, bytes) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            other => self.sent_short(index, bytes, other),
        }
    }

    #[cold]
    fn sent_short(
        &mut self,
        index: u32,
        bytes: &[u8],
        sent: Result<usize, Errno>,
    ) -> Result<(), PostError> {
        let sent = match sent {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => {
                self.break_off(index, error);
                return Err(PostError::PeerFailed);
            }
        };
        if let Some(peer) = self.peer_mut(index) {
            peer.queue.push(&[&bytes[sent..]]);
        }
        self.set_blocked(index, true);
        Ok(())
    }

    /// Sends a frame that is answered, answers or ends; it is always taken. Their number is
    /// bounded by [`MAX_REQUESTS`].
    pub(crate) fn send_control(&mut self, index: u32, frame: &[u8]) {
        // A failure to send is noticed when the connection is read.
        let _ = self.send_bytes(index, frame);
    }

    #[inline]
    fn send_copied(&mut self, ep: EpId, frame: &Frame, payload: &[u8]) -> Result<(), PostError> {
        let len = HEADER_BYTES + payload.len();
        self.space(ep, len)?;
        if len <= ON_STACK {
            let mut bytes = [0; ON_STACK];
            bytes[..HEADER_BYTES].copy_from_slice(&frame.encode());
            bytes[HEADER_BYTES..len].copy_from_slice(payload);
            return self.send_bytes(ep.0, &bytes[..len]);
        }
        let mut staging = std::mem::take(&mut self.staging);
        staging[..HEADER_BYTES].copy_from_slice(&frame.encode());
        staging[HEADER_BYTES..len].copy_from_slice(payload);
        let sent = self.send_bytes(ep.0, &staging[..len]);
        self.staging = staging;
        sent
    }

    /// Lets `pack` fill in a payload and sends it behind the header that `frame` makes for its
    /// length.
    fn send_packed(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        frame: impl FnOnce(usize) -> Frame,
    ) -> Result<usize, PostError> {
        check_len(max_len, self.options.max_bcopy)?;
        self.space(ep, HEADER_BYTES + max_len)?;
        let space = &mut self.staging[HEADER_BYTES..HEADER_BYTES + max_len];
        // SAFETY: the bytes are the interface's own, and used through the view alone until `pack`
        // has returned.
        let len = pack(unsafe { View::from_raw(space.as_mut_ptr(), space.len()) });
        assert!(len <= max_len, "pack returns how much of the space it was given it has filled");
        let mut staging = std::mem::take(&mut self.staging);
        staging[..HEADER_BYTES].copy_from_slice(&frame(len).encode());
        // It was packed, so it was accepted: a connection that breaks now is reported by `failed`.
        let _ = self.send_bytes(ep.0, &staging[..HEADER_BYTES + len]);
        self.staging = staging;
        Ok(len)
    }

    /// Sends a frame whose payload stays where it is.
    fn send_lent(
        &mut self,
        ep: EpId,
        frame: &Frame,
        pieces: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let len = HEADER_BYTES + frame.len as usize;
        self.space(ep, len)?;
        let header = frame.encode();
        let peer = self.open_peer(ep)?;
        let mut sent = 0;
        if let Some(fd) = peer.ready_socket() {
            let mut vectors = [Vector { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_IOV + 1];
            let base = header.as_ptr().cast_mut().cast();
            vectors[0] = Vector { iov_base: base, iov_len: HEADER_BYTES };
            for (vector, piece) in vectors[1..].iter_mut().zip(pieces) {
                *vector = Vector { iov_base: piece.as_ptr().cast(), iov_len: piece.len() };
            }
            // SAFETY: the header is on the stack; the pieces are readable by the contract of zcopy.
            match unsafe { socket::send_pieces(fd, &vectors[..=pieces.len()]) } {
                Ok(all) if all == len => return Ok(Posted::Done),
                Ok(some) => sent = some,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => {
                    self.break_off(ep.0, error);
                    return Err(PostError::PeerFailed);
                }
            }
            self.set_blocked(ep.0, true);
        }
        let peer = self.open_peer(ep)?;
        if sent < HEADER_BYTES {
            peer.queue.push(&[&header[sent..]]);
        }
        if frame.len == 0 {
            return Ok(Posted::Done);
        }
        peer.queue.lend(pieces, sent.saturating_sub(HEADER_BYTES), token);
        Ok(Posted::InFlight)
    }

    #[inline]
    pub(crate) fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        self.check_length(ep, payload.len(), self.attr.limits.am.max_short)?;
        self.send_copied(ep, &Frame::am(id, header, payload.len()), payload)?;
        self.counters.am_sent += 1;
        Ok(())
    }

    pub(crate) fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        self.open_peer(ep)?;
        let len = self.send_packed(ep, max_len, pack, |len| Frame::am(id, header, len))?;
        self.counters.am_sent += 1;
        Ok(len)
    }

    pub(crate) fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        self.open_peer(ep)?;
        let len = bytes_of(payload, &self.attr.limits.am)?;
        let posted = self.send_lent(ep, &Frame::am(id, header, len), payload, token)?;
        self.counters.am_sent += 1;
        Ok(posted)
    }

    /// The peer of a one-sided operation, as its keys name it.
    fn owner(&mut self, ep: EpId) -> Result<(u32, u64), PostError> {
        Ok((ep.0, self.open_peer(ep)?.serial))
    }

    /// The handle that `len` bytes at `at` belong to.
    fn operand(&mut self, ep: EpId, at: RemoteSlice, len: usize) -> Result<u64, PostError> {
        let owner = self.owner(ep)?;
        Ok(self.rkeys.open(owner, at, len)?.key)
    }

    fn put_was_posted(&mut self, ep: EpId) {
        if let Some(peer) = self.peer_mut(ep.0) {
            peer.unflushed = true;
        }
    }

    /// Whether one more request may be made.
    fn may_ask(&mut self, ep: EpId) -> Result<(), PostError> {
        let asked = self.open_peer(ep)?.requests.len();
        if asked < MAX_REQUESTS {
            return Ok(());
        }
        self.counters.refused += 1;
        Err(PostError::NoResource)
    }

    pub(crate) fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        if !self.open_peer(ep)?.has_to_flush() {
            return Ok(Posted::Done);
        }
        self.may_ask(ep)?;
        self.ask_flush(ep.0, CompletionOf::Token(token));
        Ok(Posted::InFlight)
    }

    fn ask_flush(&mut self, index: u32, waiter: CompletionOf) {
        let Some(peer) = self.peer_mut(index) else { return };
        peer.unflushed = false;
        let number = peer.ask(Request::Flush { waiter });
        self.send_control(index, &Frame::flush(number).encode());
    }

    pub(crate) fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        // Flushes that are under way are not waited for again: the stream is in order, so a new
        // one, where something was posted since, or one that is under way covers everything.
        let concerned: Vec<u32> = (0..self.peers.len() as u32)
            .filter(|&index| {
                self.peer(index).is_some_and(|peer| {
                    let mut requests = peer.requests.iter();
                    let under_way =
                        requests.any(|(_, request)| matches!(request, Request::Flush { .. }));
                    (peer.has_to_flush() || under_way) && !matches!(peer.state, State::Failed(_))
                })
            })
            .collect();
        if concerned.is_empty() {
            return Ok(Posted::Done);
        }
        let full =
            |&index: &u32| self.peer(index).is_some_and(|peer| peer.requests.len() >= MAX_REQUESTS);
        if concerned.iter().any(full) {
            return Err(PostError::NoResource);
        }
        let group = self.events.open_group(token);
        for index in concerned {
            let part = self.events.add_part(group);
            self.ask_flush(index, part);
        }
        Ok(self.events.close_group(group))
    }

    /// Whether the peer of `ep` is alive, as far as its kernel has reported to ours.
    pub(crate) fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let peer = self.open_peer(ep)?;
        let Some(socket) = &peer.socket else { return Ok(()) };
        let fd = socket.as_fd();
        let mut fds = [PollFd::new(&fd, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let ended = poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(gone);
        if !ended {
            return Ok(());
        }
        // What it said last is read by `progress`, which then reports how it failed.
        self.break_off(ep.0, Errno::PIPE);
        Err(PostError::PeerFailed)
    }
}

impl OneSided for TcpIface {
    lacks! { get_bcopy }

    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        self.check_length(ep, bytes.len(), self.attr.limits.put.max_short)?;
        let handle = self.operand(ep, to, bytes.len())?;
        self.send_copied(ep, &Frame::put(handle, to.address, bytes.len()), bytes)?;
        self.put_was_posted(ep);
        Ok(())
    }

    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        self.check_length(ep, max_len, self.options.max_bcopy)?;
        let handle = self.operand(ep, to, max_len)?;
        let len = self.send_packed(ep, max_len, pack, |len| Frame::put(handle, to.address, len))?;
        self.put_was_posted(ep);
        Ok(len)
    }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.open_peer(ep)?;
        let len = bytes_of(from, &self.attr.limits.put)?;
        let handle = self.operand(ep, to, len)?;
        let posted = self.send_lent(ep, &Frame::put(handle, to.address, len), from, token)?;
        self.put_was_posted(ep);
        Ok(posted)
    }

    fn put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError> {
        self.check_length(ep, bytes.len(), self.attr.limits.put.max_short)?;
        let handle = self.operand(ep, to, bytes.len())?;
        let len = HEADER_BYTES + 24 + bytes.len();
        self.space(ep, len)?;
        let frame = Frame::put_notify(id, handle, to.address, bytes.len());
        let mut staging = std::mem::take(&mut self.staging);
        staging[..HEADER_BYTES].copy_from_slice(&frame.encode());
        for (place, word) in staging[HEADER_BYTES..].chunks_exact_mut(8).zip(header) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        staging[HEADER_BYTES + 24..len].copy_from_slice(bytes);
        let sent = self.send_bytes(ep.0, &staging[..len]);
        self.staging = staging;
        sent?;
        self.put_was_posted(ep);
        Ok(())
    }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.open_peer(ep)?;
        let len = bytes_of(to, &self.attr.limits.get)?;
        let handle = self.operand(ep, from, len)?;
        if len == 0 {
            return Ok(Posted::Done);
        }
        self.may_ask(ep)?;
        let pieces = to.to_vec();
        let request = self.open_peer(ep)?.ask(Request::Get { token, pieces, filled: 0, len });
        self.send_control(ep.0, &Frame::get(handle, from.address, request, len).encode());
        Ok(Posted::InFlight)
    }

    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        let owner = self.owner(ep)?;
        let key = self.rkeys.open_word(owner, at, width)?.key;
        let ask = |request| Atomic { key, address: at.address, op, width, request }.encode();
        if token == Token::NONE {
            let bytes = ask(None);
            self.space(ep, bytes.len())?;
            self.send_bytes(ep.0, &bytes)?;
            self.put_was_posted(ep);
        } else {
            self.may_ask(ep)?;
            let bytes = ask(Some(self.open_peer(ep)?.ask(Request::Old { token })));
            self.send_control(ep.0, &bytes);
        }
        Ok(None)
    }
}
