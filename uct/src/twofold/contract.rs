//! The contract of a face: each method is the transport's, where the face has the ability and the
//! endpoint is open to it.

use std::os::fd::AsFd as _;

use super::{Core, Event, Face, Shared, Side};
use crate::{
    AmHeader, AmId, Armed, AtomicOp, AtomicWidth, BorrowedFd, Caps, Desc, EpId, Iface, IfaceAttr,
    LocalSlice, MdAttr, MemError, MemHandle, MemoryDomain, OpenError, PeerFailure, PostError,
    Posted, RemoteSlice, RkeyId, Sink, Source, Token, Unreachable,
};
use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::Doorbell;
use bowline_base::view::View;

impl Face {
    /// Runs `post` on the transport, where the face has `caps` and may use `ep`.
    fn post<T>(
        &self,
        caps: Caps,
        ep: EpId,
        post: impl FnOnce(&mut Core) -> Result<T, PostError>,
    ) -> Result<T, PostError> {
        if !self.has(caps) {
            return Err(PostError::Unsupported);
        }
        let core = &mut *self.core();
        core.table.admit(self.side, ep)?;
        post(core)
    }

    /// The same for an operation that may complete later, under a token by which the faces are told
    /// apart.
    fn begin<T>(
        &self,
        caps: Caps,
        ep: EpId,
        token: Token,
        in_flight: impl Fn(&T) -> bool,
        post: impl FnOnce(&mut Core, Token) -> Result<T, PostError>,
    ) -> Result<T, PostError> {
        let side = self.side;
        self.post(caps, ep, |core| {
            let token = core.table.own(side, token);
            let result = post(core, token);
            if !result.as_ref().is_ok_and(in_flight) {
                core.table.disown(token);
            }
            result
        })
    }
}

fn later(posted: &Posted) -> bool {
    *posted == Posted::InFlight
}

impl MemoryDomain for Face {
    fn md_attr(&self) -> MdAttr {
        let md = self.core().inner.md_attr();
        MdAttr { can_alloc: md.can_alloc && self.side == Side::Lane, ..md }
    }
    fn mem_alloc(&mut self, len: usize) -> Result<MemHandle, MemError> {
        if self.side == Side::Path {
            return Err(MemError::Unsupported("allocate memory for all paths"));
        }
        self.core().inner.mem_alloc(len)
    }
    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.core().inner.mem_register(memory)
    }
    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        if !self.has(Caps::EXPOSE) && !self.has(Caps::LENT_ONLY) {
            return Err(MemError::Unsupported("lend memory to the reads of peers"));
        }
        self.core().inner.mem_expose(bytes)
    }
    fn mem_lend(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        if !self.has(Caps::LENT_ONLY) {
            return Err(MemError::Unsupported("lend memory to the writes of peers"));
        }
        self.core().inner.mem_lend(bytes)
    }
    fn mem_view(&self, handle: MemHandle) -> Option<View<'_>> {
        let core = self.core();
        let view = core.inner.mem_view(handle)?;
        // SAFETY: the transport keeps what it shows until the handle is released (`Immediate`). The
        // handle came from this face, whose `mem_release` needs the exclusive borrow that ends the
        // view, and the transport lives as long as this face has it.
        Some(unsafe { View::from_raw(view.as_ptr(), view.len()) })
    }
    fn mem_release(&mut self, handle: MemHandle) -> Result<Option<RecvBuf>, MemError> {
        self.core().inner.mem_release(handle)
    }
    fn rkey_pack(&self, handle: MemHandle) -> Result<Vec<u8>, MemError> {
        self.core().inner.rkey_pack(handle)
    }
    fn rkey_unpack(&mut self, ep: EpId, packed: &[u8]) -> Result<RkeyId, MemError> {
        let core = &mut *self.core();
        match core.table.admit(self.side, ep) {
            Ok(()) => core.inner.rkey_unpack(ep, packed),
            Err(PostError::PeerFailed) => Err(MemError::Peer(PeerFailure::Unreachable)),
            Err(_) => Err(MemError::NoSuch),
        }
    }
    fn rkey_ptr(&self, rkey: RkeyId, remote: u64, len: usize) -> Option<View<'_>> {
        if !self.has(Caps::RKEY_PTR) {
            return None;
        }
        let core = self.core();
        let view = core.inner.rkey_ptr(rkey, remote, len)?;
        // SAFETY: the transport keeps what it shows until the key is released (`Immediate`). The key
        // was opened by this face, whose `rkey_release` needs the exclusive borrow that ends the view,
        // and the transport lives as long as this face has it.
        Some(unsafe { View::from_raw(view.as_ptr(), view.len()) })
    }
    fn rkey_release(&mut self, rkey: RkeyId) {
        self.core().inner.rkey_release(rkey);
    }
    fn rkey_of(&self, start: u64, len: usize, out: &mut [u8]) -> Option<usize> {
        if self.side == Side::Path {
            return None;
        }
        self.core().inner.rkey_of(start, len, out)
    }
}

// SAFETY: all operations are those of the two interfaces, which keep the rules.
unsafe impl Iface for Face {
    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        self.core().inner.address()
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        self.core().inner.reachable(address)
    }

    fn explain(&self, address: &[u8]) -> Vec<String> {
        self.core().inner.explain(address)
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let core = &mut *self.core();
        let ep = core.inner.connect(address)?;
        let at = ep.0 as usize;
        if at >= core.table.endpoints.len() {
            core.table.endpoints.resize(at + 1, Shared::default());
        }
        let source = core.inner.source_of(address);
        let shared = &mut core.table.endpoints[at];
        let seen = &mut shared.seen[self.side as usize];
        if seen.failed {
            return Err(Unreachable::because("an earlier connection was given up").into());
        }
        seen.open = true;
        shared.source = source;
        Ok(ep)
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        self.core().inner.source_of(address)
    }

    fn disconnect(&mut self, ep: EpId) {
        self.core().close(self.side, ep);
    }

    fn all_sent(&mut self) -> bool {
        self.core().inner.all_sent()
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        self.post(Caps::AM_SHORT, ep, |core| core.inner.am_short(ep, id, header, payload))
    }

    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        self.post(Caps::AM_BCOPY, ep, |core| core.inner.am_bcopy(ep, id, header, max_len, pack))
    }

    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        self.post(Caps::PUT_SHORT, ep, |core| core.inner.put_short(ep, bytes, to))
    }

    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        self.post(Caps::PUT_BCOPY, ep, |core| core.inner.put_bcopy(ep, max_len, pack, to))
    }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.begin(Caps::PUT_ZCOPY, ep, token, later, |core, token| {
            core.inner.put_zcopy(ep, from, to, token)
        })
    }

    fn put_notify(
        &mut self,
        ep: EpId,
        bytes: &[u8],
        to: RemoteSlice,
        id: AmId,
        header: &AmHeader,
    ) -> Result<(), PostError> {
        self.post(Caps::PUT_NOTIFY, ep, |core| core.inner.put_notify(ep, bytes, to, id, header))
    }

    fn get_bcopy(
        &mut self,
        ep: EpId,
        from: RemoteSlice,
        len: usize,
        unpack: &mut dyn FnMut(View<'_>),
    ) -> Result<(), PostError> {
        self.post(Caps::GET_BCOPY, ep, |core| core.inner.get_bcopy(ep, from, len, unpack))
    }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.begin(Caps::GET_ZCOPY, ep, token, later, |core, token| {
            core.inner.get_zcopy(ep, to, from, token)
        })
    }

    fn atomic_post(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
    ) -> Result<(), PostError> {
        if !self.attr.atomic_post.contains(op.kind()) {
            return Err(PostError::Unsupported);
        }
        self.post(Caps::empty(), ep, |core| core.inner.atomic_post(ep, op, width, at))
    }

    fn atomic_fetch(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        if !self.attr.atomic_fetch.contains(op.kind()) {
            return Err(PostError::Unsupported);
        }
        self.begin(Caps::empty(), ep, token, Option::is_none, |core, token| {
            core.inner.atomic_fetch(ep, op, width, at, token)
        })
    }

    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        match self.side {
            // Messages were out of our hands when they were posted (`Immediate`), and a read has its
            // own answer. What else is lost is the lane's to be told.
            Side::Path => self.post(Caps::empty(), ep, |_| Ok(Posted::Done)),
            Side::Lane => self
                .begin(Caps::empty(), ep, token, later, |core, token| core.inner.flush(ep, token)),
        }
    }

    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        if self.side == Side::Path {
            return Ok(Posted::Done);
        }
        let core = &mut *self.core();
        let token = core.table.own(self.side, token);
        let result = core.inner.flush_all(token);
        if !result.as_ref().is_ok_and(later) {
            core.table.disown(token);
        }
        result
    }

    fn fence(&mut self) -> Result<(), PostError> {
        self.core().inner.fence()
    }

    fn want_writable(&mut self, ep: EpId) {
        let core = &mut *self.core();
        if core.table.admit(self.side, ep).is_err() {
            return;
        }
        if let Some(seen) = core.table.seen(self.side, ep) {
            seen.asked = true;
            core.inner.want_writable(ep);
        }
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let given = self.take_down(sink, budget);
        given + self.look(sink, budget - given)
    }

    fn release(&mut self, _: Desc) {}

    fn desc_view(&self, _: Desc) -> Option<View<'_>> {
        None
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        self.post(Caps::EP_CHECK, ep, |core| core.inner.check(ep))
    }

    fn doorbell(&self) -> Option<&Doorbell> {
        self.bell.as_ref().filter(|_| self.has(Caps::WAKEUP))
    }

    fn arm(&mut self, descriptor: bool) -> Armed {
        let wakes = if descriptor { Caps::EVENT_FD } else { Caps::WAKEUP };
        if !self.has(wakes) {
            return Armed::Busy;
        }
        let core = &mut *self.core();
        if !core.table.shelves[self.side as usize].is_empty() {
            return Armed::Busy;
        }
        // Where the other sleeps already, whatever comes rings.
        if !core.table.armed.contains(&true) && core.inner.arm(descriptor) == Armed::Busy {
            return Armed::Busy;
        }
        core.table.armed[self.side as usize] = true;
        Armed::Ready
    }

    fn disarm(&mut self) {
        self.core().rest(self.side);
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        if !self.has(Caps::EVENT_FD) {
            return Err(OpenError::Limit("this transport has no event descriptor".to_owned()));
        }
        Ok(self.event_descriptor()?.as_fd())
    }

    fn invalidate(&mut self, ep: EpId) {
        let core = &mut *self.core();
        if core.table.admit(self.side, ep).is_err() {
            return;
        }
        let source = core.table.endpoints[ep.0 as usize].source;
        if let Some(seen) = core.table.seen(self.side, ep) {
            (seen.failed, seen.asked) = (true, false);
            let failed = Event::Failed(source, Some(ep), PeerFailure::Unreachable);
            core.table.put(self.side, failed);
        }
    }
}
