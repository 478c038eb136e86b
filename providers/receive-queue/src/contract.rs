//! The contract of transports over a lane of queues: messages go into the queue, all else is
//! passed to the transport below, by its own numbers of endpoints.

use bowline_base::doorbell::Doorbell;
use bowline_base::scmp::{Message, max_message_slots, slots_for};
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, AmId, Armed, AtomicOp, AtomicWidth, BorrowedFd, Caps, EpId, Iface, IfaceAttr,
    LocalSlice, OneSided, OpenError, PeerFailure, PostError, Posted, RemoteSlice, SignalSafe, Sink,
    Source, Token, Unreachable, Wakeup, forward, lacks,
};

use super::address::Address;
use super::lane::QueueLane;
use super::lane_core::LaneCore;
use super::link::Step;
use super::options::QueueForm;
use super::pass::is_in_flight;

impl LaneCore {
    /// Refuses an operation that the transport below lacks.
    fn needs(&self, operation: Caps) -> Result<(), PostError> {
        let has = self.attr.caps.contains(operation);
        has.then_some(()).ok_or(PostError::Unsupported)
    }

    /// Whether a link has space for a message of `len` bytes; notes it, if not.
    fn admit_message(&mut self, ep: EpId, len: usize) -> Result<(), PostError> {
        let link = self.open_link(ep)?;
        let slots = slots_for(len);
        if slots as u32 > max_message_slots(link.shape.slots) || slots >= self.fifo_slots {
            return Err(PostError::TooLong);
        }
        if link.space(self.fifo_slots) >= slots {
            return Ok(());
        }
        // What waits may be able to go, where operations are complete in their calls.
        self.drive(ep.0);
        let link = self.open_link(ep)?;
        if link.space(self.fifo_slots) >= slots {
            return Ok(());
        }
        self.links[ep.0 as usize].refused = slots;
        Err(PostError::NoResource)
    }

    /// Takes a message that was admitted.
    fn accept(&mut self, ep: EpId, message: &Message<'_>) {
        let link = &mut self.links[ep.0 as usize];
        link.fifo.push(message);
        match link.step {
            Step::Fresh => link.step = Step::TakeNumber,
            Step::Introduced if link.is_ready() => {}
            _ => return,
        }
        self.drive(ep.0);
    }
}

#[allow(unsafe_code)]
// SAFETY: operations on memory are those of the transport below and their completions its own.
unsafe impl Iface for QueueLane {
    forward! { [this => this.core.inner] fence }

    lacks! { am_zcopy }

    fn attr(&self) -> &IfaceAttr {
        &self.core.attr
    }

    fn address(&self) -> Vec<u8> {
        self.core.own_address.clone()
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        let theirs = Address::parse(address).map_err(Unreachable::because)?;
        self.core.inner.reachable(&theirs.inner)
    }

    fn explain(&self, address: &[u8]) -> Vec<String> {
        let Ok(theirs) = Address::parse(address) else { return Vec::new() };
        let mut routes = self.core.inner.explain(&theirs.inner);
        let (form, slots) = (theirs.shape.form.name(), theirs.shape.slots);
        let halves = if form == QueueForm::Ring.name() { 1 } else { 2 };
        routes.push(format!("+ messages by its receive queue ({form}, {halves} x {slots} slots)"));
        routes
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        if let Some(why) = self.core.closed {
            return Err(OpenError::Limit(format!("this receive queue is closed: {why}")));
        }
        let theirs = Address::parse(address).map_err(OpenError::BadAddress)?;
        let anew = self.core.attr.caps.contains(Caps::LOOPBACK);
        let index = self.core.link_to(address, &theirs, anew)?;
        self.core.links[index as usize].open = true;
        Ok(EpId(index))
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        let place = self.core.links.iter().position(|link| link.address == address)?;
        self.core.links[place].introduced.then_some(Source(place as u32))
    }

    fn disconnect(&mut self, ep: EpId) {
        let Some(link) = self.core.links.get_mut(ep.0 as usize).filter(|link| link.open) else {
            return;
        };
        // The link stays: what it accepted arrives, and its number serves again.
        link.open = false;
        link.refused = 0;
        self.core.waiters.cancel(ep);
        self.core.events.forget(ep);
    }

    fn all_sent(&mut self) -> bool {
        self.core.is_quiet() && self.core.inner.all_sent()
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        if payload.len() > self.core.attr.limits.am.max_short {
            self.core.open_link(ep)?;
            return Err(PostError::TooLong);
        }
        self.core.admit_message(ep, payload.len())?;
        self.core.accept(ep, &Message { id: id.get(), flags: 0, header, payload });
        Ok(())
    }

    fn am_bcopy(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
    ) -> Result<usize, PostError> {
        if max_len > self.core.attr.limits.am.max_bcopy {
            self.core.open_link(ep)?;
            return Err(PostError::TooLong);
        }
        self.core.admit_message(ep, max_len)?;
        let space = self.core.staging.view().slice(0, max_len).unwrap_or(View::empty());
        let len = pack(space).min(max_len);
        space.copy_out(&mut self.core.packing[..len]);
        let packed = std::mem::take(&mut self.core.packing);
        self.core.accept(ep, &Message { id: id.get(), flags: 0, header, payload: &packed[..len] });
        self.core.packing = packed;
        Ok(len)
    }

    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let link = self.core.open_link(ep)?;
        if link.is_quiet() && link.flushes.is_empty() {
            let post = |inner: &mut dyn Iface, below, token| inner.flush(below, token);
            return self.core.pass_with(ep, token, post, is_in_flight);
        }
        let until = link.fifo.counts().0;
        self.core.links[ep.0 as usize].flushes.push_back((token, until));
        self.core.flushing += 1;
        Ok(Posted::InFlight)
    }

    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        if self.core.flush_alls.is_empty()
            && self.core.links.iter().all(super::link::Link::is_quiet)
        {
            let lent = self.core.odd.lend(token);
            let result = self.core.inner.flush_all(lent);
            if result != Ok(Posted::InFlight) {
                self.core.odd.owner(lent);
            }
            return result;
        }
        self.core.flush_alls.push_back(token);
        self.core.flushing += 1;
        Ok(Posted::InFlight)
    }

    fn want_writable(&mut self, ep: EpId) {
        if self.core.open_link(ep).is_err() {
            return;
        }
        let link = &mut self.core.links[ep.0 as usize];
        if link.below_full
            && !std::mem::replace(&mut link.asked_below, true)
            && let Some(below) = link.inner
        {
            self.core.inner.want_writable(below);
        }
        self.core.waiters.ask(ep);
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        self.advance(sink, budget)
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        self.core.needs(Caps::EP_CHECK)?;
        self.core.pass(ep, |inner, below| inner.check(below))
    }

    fn invalidate(&mut self, ep: EpId) {
        if self.core.open_link(ep).is_ok() {
            self.core.end_link(ep.0, PeerFailure::Died);
        }
    }
}

impl OneSided for QueueLane {
    lacks! { put_notify }

    fn put_short(&mut self, ep: EpId, bytes: &[u8], to: RemoteSlice) -> Result<(), PostError> {
        self.core.needs(Caps::PUT_SHORT)?;
        self.core.pass(ep, |inner, below| inner.put_short(below, bytes, to))
    }

    fn put_bcopy(
        &mut self,
        ep: EpId,
        max_len: usize,
        pack: &mut dyn FnMut(View<'_>) -> usize,
        to: RemoteSlice,
    ) -> Result<usize, PostError> {
        self.core.needs(Caps::PUT_BCOPY)?;
        self.core.pass(ep, |inner, below| inner.put_bcopy(below, max_len, pack, to))
    }

    fn put_zcopy(
        &mut self,
        ep: EpId,
        from: &[LocalSlice],
        to: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.core.needs(Caps::PUT_ZCOPY)?;
        let post = |inner: &mut dyn Iface, below, token| inner.put_zcopy(below, from, to, token);
        self.core.pass_with(ep, token, post, is_in_flight)
    }

    fn get_bcopy(
        &mut self,
        ep: EpId,
        from: RemoteSlice,
        len: usize,
        unpack: &mut dyn FnMut(View<'_>),
    ) -> Result<(), PostError> {
        self.core.needs(Caps::GET_BCOPY)?;
        self.core.pass(ep, |inner, below| inner.get_bcopy(below, from, len, unpack))
    }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.core.needs(Caps::GET_ZCOPY)?;
        let post = |inner: &mut dyn Iface, below, token| inner.get_zcopy(below, to, from, token);
        self.core.pass_with(ep, token, post, is_in_flight)
    }

    fn atomic(
        &mut self,
        ep: EpId,
        op: AtomicOp,
        width: AtomicWidth,
        at: RemoteSlice,
        token: Token,
    ) -> Result<Option<u64>, PostError> {
        if !self.core.attr.atomics.contains(op.kind()) {
            return Err(PostError::Unsupported);
        }
        let post = |inner: &mut dyn Iface, below, token| inner.atomic(below, op, width, at, token);
        self.core.pass_with(ep, token, post, Option::is_none)
    }
}

impl Wakeup for QueueLane {
    forward! { [this => this.core.inner] disarm }

    fn doorbell(&self) -> Option<&Doorbell> {
        if self.core.attr.caps.contains(Caps::WAKEUP) { self.core.inner.doorbell() } else { None }
    }

    fn arm(&mut self, descriptor: bool) -> Armed {
        let wakes = if descriptor { Caps::EVENT_FD } else { Caps::WAKEUP };
        if !self.core.attr.caps.contains(wakes) || self.has_work() {
            return Armed::Busy;
        }
        self.core.inner.arm(descriptor)
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        if !self.core.attr.caps.contains(Caps::EVENT_FD) {
            let why = "this receive queue wakes nobody: puts do not notify their target";
            return Err(OpenError::Limit(why.into()));
        }
        self.core.inner.event_fd()
    }
}

impl SignalSafe for QueueLane {
    lacks! { SignalSafe }
}
