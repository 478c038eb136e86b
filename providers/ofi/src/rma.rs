//! Puts, gets, flushes and fences.
//!
//! A put is posted with FI_DELIVERY_COMPLETE, so its completion says that it is visible; a flush
//! waits for the completions of what was posted before it. A fence does not wait: an endpoint
//! with operations under way refuses later ones until those have ended.

use bowline_base::view::View;
use bowline_uct::runtime::{CompletionOf, bytes_of, check_len};
use bowline_uct::{
    AtomicOp, AtomicWidth, EpId, LocalSlice, OneSided, PostError, Posted, RemoteSlice, Token, lacks,
};

use crate::iface::OfiIface;
use crate::md::Opened;
use crate::net::{MAX_PIECES, Piece, Refused, Remote};
use crate::peer::Work;
use crate::post::context_of;

impl OfiIface {
    /// Where `len` bytes at `at` are, for a peer that may take an operation now.
    pub(crate) fn remote(
        &mut self,
        index: u32,
        at: RemoteSlice,
        len: usize,
    ) -> Result<Remote, PostError> {
        let Opened { key, origin } = self.rkeys.open(index, at, len)?.key;
        Ok(Remote { place: self.peers[index as usize].place, address: at.address - origin, key })
    }

    /// Whether a one-sided operation has to wait: for a fence, or for a place.
    #[inline]
    pub(crate) fn must_wait(&mut self, index: u32) -> bool {
        self.fenced(index) || self.ops.len() >= self.most_operations
    }

    pub(crate) fn refusal(&mut self, index: u32, refused: Refused) -> PostError {
        match refused {
            Refused::Again => self.refuse(),
            Refused::Failed(error) => self.post_failed(index, error),
        }
    }

    /// Whether packed puts to this peer already wait for libfabric.
    fn puts_refused(&self, index: u32) -> bool {
        self.late_puts.iter().any(|late| late.index == index)
    }

    /// Posts packed puts that libfabric refused before.
    pub(crate) fn post_late_puts(&mut self) {
        for _ in 0..self.late_puts.len() {
            let Some(late) = self.late_puts.pop_front() else { return };
            let index = late.index;
            self.peers[index as usize].under_way -= 1;
            let work =
                Work::Put { buffer: Some(late.buffer), token: Token::NONE, epoch: late.epoch };
            let failed = !self.peers[index as usize].is_well();
            let posted = if failed {
                Err(Refused::Failed(0))
            } else {
                let op = self.ops.insert(index, work, None);
                let piece = self.tx.piece(late.buffer, 0, late.len);
                // SAFETY: as in `put_packed`.
                let posted =
                    unsafe { self.net.access(true, late.remote, &[piece], context_of(op)) };
                self.posted(op, posted)
            };
            match posted {
                Ok(()) => self.counters.puts += 1,
                Err(Refused::Again) => {
                    self.peers[index as usize].under_way += 1;
                    self.late_puts.push_back(late);
                }
                Err(Refused::Failed(error)) => {
                    self.tx.give(late.buffer);
                    if !failed {
                        self.post_failed(index, error);
                    }
                    if !matches!(self.peers[index as usize].health, crate::peer::Health::Failed(_))
                    {
                        let how = bowline_uct::PeerFailure::Unreachable;
                        self.one_sided_ended(index, late.epoch, Token::NONE, Err(how));
                    }
                }
            }
        }
    }

    /// Writes from, or reads to, the user's memory.
    pub(crate) fn access_pieces(
        &mut self,
        write: bool,
        ep: EpId,
        pieces: &[LocalSlice],
        there: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        let index = self.open_peer(ep)?;
        let limits = if write { self.attr.limits.put } else { self.attr.limits.get };
        let len = bytes_of(pieces, &limits)?;
        let remote = self.remote(index, there, len)?;
        if len == 0 {
            return Ok(Posted::Done);
        }
        if self.must_wait(index) {
            return Err(self.refuse());
        }
        let mut filled = [LocalSlice::EMPTY; MAX_PIECES];
        let mut count = 0;
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            filled[count] = *piece;
            count += 1;
        }
        let none = Piece { start: std::ptr::null_mut(), len: 0, desc: std::ptr::null_mut() };
        let mut list = [none; MAX_PIECES];
        let local = match self.localize(&filled[..count], &mut list) {
            Ok(local) => local,
            Err(refused) => return Err(self.refusal(index, refused)),
        };
        let epoch = self.peers[index as usize].flushes.begin();
        let work = if write {
            Work::Put { buffer: None, token, epoch }
        } else {
            Work::Get { token, epoch }
        };
        let op = self.ops.insert(index, work, local);
        // SAFETY: the user's pieces stay valid until the token has been reported, before which
        // libfabric is done with them (see `failure`).
        let posted = unsafe { self.net.access(write, remote, &list[..count], context_of(op)) };
        match self.posted(op, posted) {
            Ok(()) => {
                let counter = if write { &mut self.counters.puts } else { &mut self.counters.gets };
                *counter += 1;
                Ok(Posted::InFlight)
            }
            Err(refused) => {
                self.peers[index as usize].flushes.end(epoch);
                Err(self.refusal(index, refused))
            }
        }
    }

    pub(crate) fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let index = self.open_peer(ep)?;
        let flushes = &mut self.peers[index as usize].flushes;
        if flushes.is_quiet() {
            return Ok(Posted::Done);
        }
        flushes.wait(CompletionOf::Token(token));
        Ok(Posted::InFlight)
    }

    pub(crate) fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        let group = self.events.open_group(token);
        for peer in self.peers.iter_mut().filter(|peer| !peer.flushes.is_quiet()) {
            peer.flushes.wait(self.events.add_part(group));
        }
        Ok(self.events.close_group(group))
    }
}

impl OneSided for OfiIface {
    lacks! { put_notify get_bcopy }

    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        let mut pack = |space: View<'_>| space.copy_in(bytes);
        self.put_bcopy(ep, bytes.len(), &mut pack, to).map(|_| ())
    }

    /// Writes at most `max_len` bytes that `pack` provides, from a send buffer.
    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        let index = self.open_peer(ep)?;
        check_len(max_len, self.attr.limits.put.max_bcopy)?;
        let mut remote = self.remote(index, to, max_len)?;
        if self.must_wait(index) || self.puts_refused(index) {
            return Err(self.refuse());
        }
        let Some(buffer) = self.tx.take() else {
            return Err(self.refuse());
        };
        let space = self.tx.view(buffer).slice(0, max_len).expect("the limit was checked");
        let len = pack(space);
        assert!(len <= max_len, "pack returns how much of the space it was given it has filled");
        if len == 0 {
            self.tx.give(buffer);
            return Ok(0);
        }
        let piece = self.tx.piece(buffer, 0, len);
        remote.place = self.peers[index as usize].place;
        let epoch = self.peers[index as usize].flushes.begin();
        let work = Work::Put { buffer: Some(buffer), token: Token::NONE, epoch };
        let op = self.ops.insert(index, work, None);
        // SAFETY: the buffer belongs to the operation until its completion gives it back; the pool
        // outlives the endpoint.
        let posted = unsafe { self.net.access(true, remote, &[piece], context_of(op)) };
        match self.posted(op, posted) {
            Ok(()) => {
                self.counters.puts += 1;
                Ok(len)
            }
            // It was packed, and must not be packed again: it goes out when there is space.
            Err(Refused::Again) => {
                self.counters.delayed += 1;
                self.late_puts.push_back(crate::iface::LatePut {
                    index,
                    buffer,
                    len,
                    remote,
                    epoch,
                });
                self.peers[index as usize].under_way += 1;
                Ok(len)
            }
            Err(Refused::Failed(error)) => {
                self.tx.give(buffer);
                self.peers[index as usize].flushes.end(epoch);
                Err(self.post_failed(index, error))
            }
        }
    }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.access_pieces(true, ep, from, to, token)
    }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.access_pieces(false, ep, to, from, token)
    }

    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        self.post_atomic(ep, op, width, at, token).map(|()| None)
    }
}
