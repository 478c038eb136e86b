//! The way out of active messages.
//!
//! A message goes to libfabric in the call where that is possible: the peer has greeted, nothing
//! waits in front of it, and libfabric takes it. Else it waits in a send buffer, in order, until
//! `hand_over` brings it there during `progress`. It is refused (`NoResource`) only for want of
//! credit or of a buffer, so what a sender sees does not depend on the provider below.

use bowline_base::view::View;
use bowline_uct::runtime::{bytes_of, check_len};
use bowline_uct::{AmHeader, AmId, EpId, LocalSlice, OpenError, PostError, Posted, Token};

use crate::iface::OfiIface;
use crate::liveness::Liveness;
use crate::net::{MAX_PIECES, Piece, Refused};
use crate::peer::{Health, Peer, Pending, Stamps, Work};
use crate::wire::{ACTIVE, HEADER, Header, Kind, RESULT, UNNUMBERED, greeting, pack_words, stamp};

/// Payloads up to here are put behind their header on the stack.
const ON_STACK: usize = 256;

impl OfiIface {
    /// The peer of an endpoint that may take operations.
    #[inline]
    pub(crate) fn open_peer(&self, ep: EpId) -> Result<u32, PostError> {
        let peer = *self.endpoints.open(ep)?;
        if self.peers[peer as usize].is_well() { Ok(peer) } else { Err(PostError::PeerFailed) }
    }

    /// Whether a fence still holds operations to `peer` back.
    #[inline]
    pub(crate) fn fenced(&mut self, peer: u32) -> bool {
        let peer = &mut self.peers[peer as usize];
        if peer.fenced == self.fences {
            return false;
        }
        if peer.flushes.is_quiet() {
            peer.fenced = self.fences;
            return false;
        }
        true
    }

    #[cold]
    pub(crate) fn refuse(&mut self) -> PostError {
        self.counters.refused += 1;
        PostError::NoResource
    }

    /// The header of a message to `peer`, which says how much of the peer's has come.
    #[inline]
    fn head(&mut self, peer: u32, kind: Kind, id: u8) -> [u8; HEADER] {
        let peer = &mut self.peers[peer as usize];
        let stamp = peer.stamps.ours;
        peer.reported = peer.taken;
        peer.taken_due = false;
        Header { kind, id, source: peer.number, stamp, taken: peer.taken }.pack()
    }

    /// Something has to be handed over to `peer`.
    #[inline]
    pub(crate) fn make_busy(&mut self, index: u32) {
        let peer = &mut self.peers[index as usize];
        if !peer.busy {
            peer.busy = true;
            self.busy.push_back(index);
        }
    }

    #[inline]
    pub(crate) fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        words: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let index = self.open_peer(ep)?;
        check_len(payload.len(), self.attr.limits.am.max_short)?;
        if self.fenced(index) {
            return Err(self.refuse());
        }
        let peer = &self.peers[index as usize];
        if payload.len() <= ON_STACK && peer.is_open() && peer.credit() > 0 {
            let place = peer.place;
            let mut message = [std::mem::MaybeUninit::<u8>::uninit(); ACTIVE + ON_STACK];
            let start = message.as_mut_ptr().cast::<u8>();
            let head = self.head(index, Kind::Active, id.get());
            // SAFETY: `message` has space for the header, the words and ON_STACK bytes; the three
            // sources are distinct from it.
            unsafe {
                start.cast::<[u8; HEADER]>().write_unaligned(head);
                start.add(HEADER).cast::<[u8; 24]>().write_unaligned(pack_words(words));
                let to = start.add(ACTIVE);
                bowline_base::copy::copy_bytes(payload.as_ptr(), to, payload.len());
            }
            // SAFETY: so many bytes were just written, and the message is ours alone.
            match unsafe { self.net.inject(place, start, ACTIVE + payload.len()) } {
                Ok(()) => {
                    self.peers[index as usize].sent =
                        self.peers[index as usize].sent.wrapping_add(1);
                    self.counters.am_short += 1;
                    return Ok(());
                }
                Err(Refused::Again) => {}
                Err(Refused::Failed(error)) => return Err(self.post_failed(index, error)),
            }
        }
        let mut pack = |space: View<'_>| space.copy_in(payload);
        self.send_packed(index, id, words, payload.len(), &mut pack)?;
        self.counters.am_short += 1;
        Ok(())
    }

    /// Sends what `pack` writes, from a send buffer. Limits were checked.
    pub(crate) fn send_packed(
        &mut self,
        index: u32,
        id: AmId,
        words: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        if self.fenced(index) || self.peers[index as usize].credit() == 0 {
            return Err(self.refuse());
        }
        let Some(buffer) = self.tx.take() else {
            return Err(self.refuse());
        };
        let space = self.tx.view(buffer);
        self.begin_message(buffer, id, words);
        let len = pack(space.slice(ACTIVE, max_len).expect("the limit was checked"));
        assert!(len <= max_len, "pack returns how much of the space it was given it has filled");
        let pending = Pending { buffer, len: ACTIVE + len, lent: None };
        self.post(index, pending)?;
        Ok(len)
    }

    /// Writes what does not change any more in front of a payload; the rest is written when
    /// libfabric gets it.
    fn begin_message(&self, buffer: u32, id: AmId, words: &AmHeader) {
        let space = self.tx.view(buffer);
        // The id waits where the header will have it.
        space.copy_in(&[0, Kind::Active as u8, id.get(), 0]);
        space.slice(HEADER, 24).expect("a buffer has space").copy_in(&pack_words(words));
    }

    /// Sends a payload that stays where it is.
    pub(crate) fn am_zcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        words: &AmHeader,
        payload: &[LocalSlice],
        token: Token,
    ) -> Result<Posted, PostError> {
        let index = self.open_peer(ep)?;
        let limits = self.attr.limits.am;
        if limits.max_iov == 0 {
            return Err(PostError::Unsupported);
        }
        bytes_of(payload, &limits)?;
        if self.fenced(index) || self.peers[index as usize].credit() == 0 {
            return Err(self.refuse());
        }
        let Some(buffer) = self.tx.take() else {
            return Err(self.refuse());
        };
        self.begin_message(buffer, id, words);
        let pieces: Vec<LocalSlice> =
            payload.iter().copied().filter(|piece| !piece.is_empty()).collect();
        let lent = (!pieces.is_empty()).then_some((pieces, token));
        let posted = if lent.is_some() { Posted::InFlight } else { Posted::Done };
        self.post(index, Pending { buffer, len: ACTIVE, lent })?;
        self.counters.am_zcopy += 1;
        Ok(posted)
    }

    /// Gives a message to libfabric, or keeps it in order.
    fn post(&mut self, index: u32, pending: Pending) -> Result<(), PostError> {
        if !self.peers[index as usize].is_open() {
            self.peers[index as usize].pending.push_back(pending);
            return Ok(());
        }
        match self.give(index, &pending) {
            Ok(()) => Ok(()),
            Err(Refused::Again) => {
                self.counters.delayed += 1;
                self.peers[index as usize].pending.push_back(pending);
                self.make_busy(index);
                Ok(())
            }
            Err(Refused::Failed(error)) => {
                self.tx.give(pending.buffer);
                Err(self.post_failed(index, error))
            }
        }
    }

    /// Gives an active message to libfabric.
    fn give(&mut self, index: u32, pending: &Pending) -> Result<(), Refused> {
        let Pending { buffer, len, lent } = pending;
        let (buffer, len) = (*buffer, *len);
        let mut first = [0; 4];
        self.tx.view(buffer).copy_out(&mut first);
        let head = self.head(index, Kind::Active, first[2]);
        self.tx.view(buffer).copy_in(&head);
        let place = self.peers[index as usize].place;
        let result = match lent {
            None if len <= self.net.traits.inject => {
                let start = self.tx.view(buffer).as_ptr();
                // SAFETY: `len` bytes of the buffer, which is ours, were written when it was posted.
                let result = unsafe { self.net.inject(place, start, len) };
                if result.is_ok() {
                    self.tx.give(buffer);
                }
                result
            }
            None => {
                let op = self.ops.insert(index, Work::Send { buffer }, None);
                let piece = self.tx.piece(buffer, 0, len);
                // SAFETY: the buffer belongs to the operation until its completion gives it back;
                // the pool outlives the endpoint.
                let posted = unsafe { self.net.send(place, piece, context_of(op)) };
                self.posted(op, posted)
            }
            Some((pieces, token)) => {
                let mut all = [self.tx.piece(buffer, 0, len); MAX_PIECES];
                let local = self.localize(pieces, &mut all[1..])?;
                let work = Work::SendLent { buffer, token: *token };
                let op = self.ops.insert(index, work, local);
                let all = &all[..=pieces.len()];
                // SAFETY: as above for the buffer; the user's pieces stay valid until the token
                // has been reported, before which libfabric is done with them (see `failure`).
                let posted = unsafe { self.net.send_pieces(place, all, context_of(op)) };
                self.posted(op, posted)
            }
        };
        if result.is_ok() {
            let peer = &mut self.peers[index as usize];
            peer.sent = peer.sent.wrapping_add(1);
        } else {
            // The header's number and count are written again when it goes; its kind and id stay.
            self.tx.view(buffer).copy_in(&first);
        }
        result
    }

    /// Counts an operation that libfabric took, or forgets one that it refused.
    #[inline]
    pub(crate) fn posted(&mut self, op: u32, result: Result<(), Refused>) -> Result<(), Refused> {
        match result {
            Ok(()) => {
                let (_, peer) = self.ops.get(op).expect("just inserted");
                self.peers[peer as usize].under_way += 1;
            }
            Err(_) => {
                self.ops.remove(op);
            }
        }
        result
    }

    /// The user's pieces as libfabric takes them, registered for the time of the operation where
    /// that is wanted.
    pub(crate) fn localize(
        &mut self,
        pieces: &[LocalSlice],
        out: &mut [Piece],
    ) -> Result<Option<Box<[crate::net::Mr]>>, Refused> {
        let mut registered = Vec::new();
        for (space, piece) in out.iter_mut().zip(pieces) {
            let (start, len) = (piece.as_ptr(), piece.len());
            let mut desc = std::ptr::null_mut();
            if self.net.traits.register_local {
                desc = match self.memories.local(start, len) {
                    Some(desc) => desc,
                    None => {
                        let access = libfabric_sys::FI_SEND
                            | libfabric_sys::FI_RECV
                            | libfabric_sys::FI_READ
                            | libfabric_sys::FI_WRITE;
                        // SAFETY: the piece stays valid until the operation's completion was
                        // reported; the registration is dropped before that.
                        let mr = unsafe { self.net.register(start, len, access) }
                            .map_err(Refused::Failed)?;
                        let desc = mr.desc();
                        registered.push(mr);
                        desc
                    }
                };
            }
            *space = Piece { start, len, desc };
        }
        Ok((!registered.is_empty()).then(|| registered.into_boxed_slice()))
    }

    /// Gives libfabric what waits for `index`. Returns whether that is all, as far as it can be.
    fn hand_over(&mut self, index: u32) -> bool {
        if matches!(self.peers[index as usize].health, Health::Failed(_)) {
            return true;
        }
        if self.peers[index as usize].greeting_due && !self.greet(index) {
            return false;
        }
        if self.peers[index as usize].number == UNNUMBERED {
            return true;
        }
        while let Some(&outcome) = self.peers[index as usize].results.front() {
            let mut message = [0; RESULT];
            let head = self.head(index, Kind::Result, 0);
            message[..HEADER].copy_from_slice(&head);
            message[HEADER..].copy_from_slice(&outcome.pack());
            if !self.control(index, &message) {
                return false;
            }
            self.peers[index as usize].results.pop_front();
        }
        while let Some(pending) = self.peers[index as usize].pending.pop_front() {
            match self.give(index, &pending) {
                Ok(()) => {}
                Err(Refused::Again) => {
                    self.peers[index as usize].pending.push_front(pending);
                    return false;
                }
                Err(Refused::Failed(error)) => {
                    // Answered with the others.
                    self.peers[index as usize].pending.push_front(pending);
                    self.post_failed(index, error);
                    return true;
                }
            }
        }
        if self.peers[index as usize].taken_due {
            let head = self.head(index, Kind::Taken, 0);
            let went = self.control(index, &head);
            let peer = &mut self.peers[index as usize];
            if !went {
                peer.taken_due = true;
                if peer.is_quiet() && peer.blocked_since.is_none() {
                    peer.blocked_since = Some(std::time::Instant::now());
                }
                return false;
            }
            peer.blocked_since = None;
            self.counters.credits += 1;
        }
        !self.peers[index as usize].close_due || self.post_close(index)
    }

    /// Sends a short message that is not under credit; false if it has to be tried again.
    pub(crate) fn control(&mut self, index: u32, message: &[u8]) -> bool {
        let place = self.peers[index as usize].place;
        // SAFETY: a slice is initialised and unwritten while it is borrowed.
        match unsafe { self.net.inject(place, message.as_ptr(), message.len()) } {
            Ok(()) => true,
            Err(Refused::Again) => false,
            Err(Refused::Failed(error)) => {
                self.post_failed(index, error);
                true
            }
        }
    }

    /// Sends our address and the peer's number; false if it has to be tried again.
    fn greet(&mut self, index: u32) -> bool {
        let own = (self.address.instance, &self.packed[..]);
        let to = self.peers[index as usize].instance;
        let message = greeting(&self.secret, own, to, index);
        let went = self.tracked(index, &message);
        if went == Some(true) {
            let peer = &mut self.peers[index as usize];
            (peer.greeting_due, peer.greeted) = (false, true);
        }
        went.is_some()
    }

    /// Sends a Close; false if it has to be tried again. It is a message whose completion is
    /// awaited: messages are in order, so those before it have left, too. What was injected has
    /// no completion of its own.
    fn post_close(&mut self, index: u32) -> bool {
        let header = self.head(index, Kind::Close, 0);
        let went = self.tracked(index, &header);
        if went.is_some() {
            self.peers[index as usize].close_due = false;
        }
        went.is_some()
    }

    /// Sends a message that is not under credit and that has a completion: whether libfabric took
    /// it, `None` if it has to be tried again.
    fn tracked(&mut self, index: u32, message: &[u8]) -> Option<bool> {
        let buffer = self.tx.take()?;
        let len = self.tx.view(buffer).copy_in(message);
        debug_assert_eq!(len, message.len(), "opening has compared the sizes");
        let op = self.ops.insert(index, Work::Send { buffer }, None);
        let (place, piece) = (self.peers[index as usize].place, self.tx.piece(buffer, 0, len));
        // SAFETY: the buffer belongs to the operation until its completion gives it back; the pool
        // outlives the endpoint.
        let result = unsafe { self.net.send(place, piece, context_of(op)) };
        let result = self.posted(op, result);
        if result.is_err() {
            self.tx.give(buffer);
        }
        match result {
            Ok(()) => Some(true),
            Err(Refused::Again) => None,
            Err(Refused::Failed(error)) => {
                self.post_failed(index, error);
                Some(false)
            }
        }
    }

    /// Hands over what waits, each peer once.
    pub(crate) fn hand_over_all(&mut self) {
        for _ in 0..self.busy.len() {
            let Some(index) = self.busy.pop_front() else { return };
            self.peers[index as usize].busy = false;
            if !self.hand_over(index) {
                self.make_busy(index);
            }
        }
    }

    /// Makes a peer known, or finds it.
    pub(crate) fn acquaint(&mut self, address: &crate::addr::Address) -> Result<u32, OpenError> {
        if let Some(&index) = self.by_instance.get(&address.instance) {
            return Ok(index);
        }
        if self.net.is_closed() {
            return Err(OpenError::Limit(
                "the libfabric endpoint was closed after a failure; open another interface".into(),
            ));
        }
        let index = self.peers.len() as u32;
        if index >= self.attr.max_endpoints {
            return Err(OpenError::Limit(format!(
                "all {} peers of a libfabric interface are in use",
                self.attr.max_endpoints
            )));
        }
        let (liveness, asked) = self.watch_liveness(address)?;
        let place = self.net.insert(&address.name)?;
        if let Err(source) = self.watch.add(index, &liveness) {
            self.net.remove(place);
            return Err(OpenError::System { act: "watch the peer's process", source });
        }
        match liveness {
            Liveness::Here(_) => self.here.push(index),
            Liveness::Unwatched(_) => self.unwatched.push(index),
            _ => {}
        }
        let (own, other) = (self.address.instance, address.instance);
        let stamps = Stamps {
            theirs: stamp(&self.secret, other, own),
            ours: stamp(&self.secret, own, other),
        };
        let mut peer = Peer::new(place, other, stamps, address.window, liveness, self.fences);
        peer.asked = asked;
        peer.at = crate::addr::socket_of(address.format, &address.name);
        self.asked_peers += u32::from(asked);
        self.peers.push(peer);
        self.by_instance.insert(address.instance, index);
        Ok(index)
    }
}

/// The context of operation `op`: even, not zero.
#[inline]
pub(crate) const fn context_of(op: u32) -> usize {
    (op as usize + 1) << 1
}
