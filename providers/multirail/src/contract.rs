//! The contract, put together from the parts.

use std::sync::Arc;

use bowline_base::buffer::RecvBuf;
use bowline_base::doorbell::{WakeSet, WakeSource};
use bowline_base::drain::Drain;
use bowline_base::view::View;
use bowline_uct::runtime::{RegisteredMemory, check_len};
use bowline_uct::{
    AmHeader, AmId, Armed, BorrowedFd, Caps, Discard, EpId, Iface, IfaceAttr, LocalSlice, MemError,
    MemHandle, MemoryDomain, OneSided, OpenError, PeerFailure, PostError, Posted, RemoteSlice,
    SignalSafe, Sink, Source, Token, Unreachable, Wakeup, forward, lacks,
};

use super::MultiRail;
use super::link::Link;
use super::reads::MOST;
use super::wire::Address;

/// Bytes of which the split is explained.
const EXPLAINED: u64 = 4 << 20;

impl MultiRail {
    fn peer(&self, bytes: &[u8]) -> Result<Address, Unreachable> {
        let address = Address::parse(bytes).ok_or_else(|| {
            Unreachable::because("the address of several transports together is damaged")
        })?;
        if address.uid == self.uid {
            return Err(Unreachable::because(
                "several transports together do not lead to their own worker",
            ));
        }
        Ok(address)
    }

    /// The link of a peer that is known and was not given up.
    fn is_known(&self, address: &Address) -> Result<Option<u32>, Unreachable> {
        let index = self.links.find(address.uid);
        let given_up = match index {
            Some(index) => self.links[index as usize].failed.map(|how| format!(": {how}")),
            None => self.links.was_dropped(address.uid).then(String::new),
        };
        match given_up {
            Some(how) => Err(Unreachable::because(format!("the peer was given up{how}"))),
            None => Ok(index),
        }
    }

    /// For each path of ours, how `address` is reached by it, or why not.
    fn routes(&self, address: &Address) -> Vec<Result<(), String>> {
        let route = |path: &super::Path| {
            let name = path.iface.attr().provider;
            let mut reason = "the peer has no such transport".to_owned();
            for (_, place) in address.paths.iter().filter(|(provider, _)| provider == name) {
                match path.iface.reachable(place) {
                    Ok(()) => return Ok(()),
                    Err(why) => reason = why.reason,
                }
            }
            Err(reason)
        };
        self.paths.iter().map(route).collect()
    }

    fn endpoint_to(&mut self, index: u32) -> EpId {
        let link = &mut self.links[index as usize];
        *link.ep.get_or_insert_with(|| self.endpoints.insert(index))
    }

    /// Whether a message of `len` bytes may be put into the log of `ep`'s link.
    fn admit(&self, ep: EpId, len: usize, limit: usize) -> Result<u32, PostError> {
        let index = self.open_link(ep)?;
        check_len(len, limit)?;
        if !self.links[index as usize].log.has_space(len) {
            return Err(PostError::NoResource);
        }
        Ok(index)
    }

    /// Puts a message into the log and posts what the path takes.
    fn accept(&mut self, index: u32, id: AmId, header: &AmHeader, payload: &[u8]) {
        let link = &mut self.links[index as usize];
        link.log.push(id, header, payload);
        link.used = true;
        self.drive(index);
    }

    /// Whether an endpoint that asked may be reported as writable.
    fn can_report(&self, ep: EpId) -> bool {
        let space =
            |index: u32| self.links[index as usize].log.has_space(self.attr.limits.am.max_bcopy);
        self.open_link(ep).is_ok_and(space) && self.reads.len() < MOST
    }

    fn report_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut waiters = std::mem::take(&mut self.waiters);
        let events = waiters.report(sink, budget, |ep| self.can_report(ep));
        self.waiters = waiters;
        events
    }

    /// Posts what the paths take, without an event for anybody.
    fn post_only(&mut self, sink: &mut dyn Sink) {
        for at in 0..self.paths.len() {
            self.poll_path(at, sink, 0);
        }
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.log.waits() {
                link.paths.iter_mut().for_each(|path| path.full = false);
                self.drive(index as u32);
            }
        }
    }

    /// Messages for the living that no path has taken yet.
    fn unposted(&self) -> usize {
        let living = self.links.iter().filter(|link| link.failed.is_none());
        living.map(|link| link.log.unposted()).sum()
    }

    /// Whether the next progress has something to do of itself.
    fn has_work(&self) -> bool {
        !self.events.is_empty()
            || !self.work.is_empty()
            || !self.refused.is_empty()
            || !self.ending.is_empty()
            || self.waiters.iter().any(|ep| self.can_report(ep))
    }

    fn make_wake(&mut self) -> Result<WakeSource, OpenError> {
        let failed =
            |source| OpenError::System { act: "watch the descriptors of all transports", source };
        let mut set = WakeSet::default();
        for path in &mut self.paths {
            set.add(path.iface.event_fd()?).map_err(failed)?;
        }
        let mut wake = WakeSource::new().map_err(failed)?;
        wake.watch(&Arc::new(set)).map_err(failed)?;
        Ok(wake)
    }
}

impl MemoryDomain for MultiRail {
    lacks! { mem_lend rkey_ptr puts_end_last rkey_of }

    // Its own methods of these names.
    forward! { [this => this] md_attr mem_release rkey_pack rkey_unpack rkey_release }

    forward! { [this => this.memory] mem_view }

    fn mem_alloc(&mut self, _: usize) -> Result<MemHandle, MemError> {
        Err(MemError::Unsupported("allocate memory that all paths reach"))
    }

    fn mem_register(&mut self, memory: RecvBuf) -> Result<MemHandle, MemError> {
        self.lend(RegisteredMemory::of_buffer(memory))
    }

    fn mem_expose(&mut self, bytes: LocalSlice) -> Result<MemHandle, MemError> {
        self.lend(RegisteredMemory::exposed(bytes))
    }
}

// SAFETY: a slice goes to the networks below in parts, and its completion is reported when all parts have
// theirs; the networks are dropped with this.
unsafe impl Iface for MultiRail {
    lacks! { am_zcopy }

    fn attr(&self) -> &IfaceAttr {
        &self.attr
    }

    fn address(&self) -> Vec<u8> {
        self.own_address.clone()
    }

    fn reachable(&self, address: &[u8]) -> Result<(), Unreachable> {
        let address = self.peer(address)?;
        if self.is_known(&address)?.is_some() {
            return Ok(());
        }
        let routes = self.routes(&address);
        if routes.iter().any(Result::is_ok) {
            return Ok(());
        }
        let reasons: Vec<String> = routes.into_iter().filter_map(Result::err).collect();
        Err(Unreachable::because(reasons.join("; ")))
    }

    fn explain(&self, address: &[u8]) -> Vec<String> {
        let Ok(address) = self.peer(address) else { return Vec::new() };
        let routes = self.routes(&address);
        let costs: Vec<_> = routes
            .iter()
            .zip(&self.paths)
            .map(|(route, path)| (route.is_ok() && path.reads).then_some(path.cost))
            .collect();
        let split = super::split::split(EXPLAINED, &costs);
        let first = routes.iter().position(Result::is_ok);
        let mut lines = Vec::new();
        for (at, route) in routes.iter().enumerate() {
            let attr = self.paths[at].iface.attr();
            let name = format!("{} {}", attr.provider, attr.device);
            lines.push(match route {
                Err(why) => format!("- {name}: {why}"),
                Ok(()) => {
                    let role = if Some(at) == first { "messages" } else { "in reserve" };
                    let part = split.map_or(0, |split| split.parts[at] * 100 / EXPLAINED);
                    format!("+ {name}: {role}, and {part} % of a read of 4 MiB")
                }
            });
        }
        if let Some(split) = split {
            let us = split.time / 1000.0;
            lines.push(format!("  such a read takes {us:.0} us by all paths together"));
        }
        lines
    }

    fn connect(&mut self, address: &[u8]) -> Result<EpId, OpenError> {
        let address = self.peer(address)?;
        if let Some(index) = self.is_known(&address)? {
            return Ok(self.endpoint_to(index));
        }
        let index = self.links.insert(Link::new(address));
        if let Err(error) = self.make_paths(index) {
            // No peer has heard of it.
            self.links.take_back(index);
            return Err(error);
        }
        Ok(self.endpoint_to(index))
    }

    fn source_of(&self, address: &[u8]) -> Option<Source> {
        let address = Address::parse(address)?;
        self.links.find(address.uid).map(Source)
    }

    fn disconnect(&mut self, ep: EpId) {
        let Some(index) = self.endpoints.remove(ep) else { return };
        // What is in the log still goes, and the link stays for what the peer says.
        self.waiters.cancel(ep);
        self.events.forget(ep);
        let link = &mut self.links[index as usize];
        link.ep = None;
        if link.reported {
            self.over.push(index);
        }
    }

    fn all_sent(&mut self) -> bool {
        self.unposted() == 0 && self.paths.iter_mut().all(|path| path.iface.all_sent())
    }

    fn am_short(
        &mut self,
        ep: EpId,
        id: AmId,
        header: &AmHeader,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let index = self.admit(ep, payload.len(), self.attr.limits.am.max_short)?;
        self.accept(index, id, header, payload);
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
        let index = self.admit(ep, max_len, self.attr.limits.am.max_bcopy)?;
        let mut staging = RecvBuf::owned(std::mem::take(&mut self.staging));
        let view = staging.view().slice(0, max_len).unwrap_or(View::empty());
        let len = pack(view).min(max_len);
        self.staging = staging.into_owned().unwrap_or_default();
        let staging = std::mem::take(&mut self.staging);
        self.accept(index, id, header, &staging[..len]);
        self.staging = staging;
        Ok(len)
    }

    fn flush(&mut self, ep: EpId, token: Token) -> Result<Posted, PostError> {
        let index = self.open_link(ep)?;
        self.begin_flush(std::iter::once(index), token)
    }

    fn flush_all(&mut self, token: Token) -> Result<Posted, PostError> {
        self.begin_flush(0..self.links.len() as u32, token)
    }

    fn fence(&mut self) -> Result<(), PostError> {
        Ok(())
    }

    fn want_writable(&mut self, ep: EpId) {
        if self.open_link(ep).is_ok() {
            self.waiters.ask(ep);
        }
    }

    fn progress(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        if budget == 0 {
            self.post_only(sink);
            return 0;
        }
        let count = self.paths.len();
        self.next = (self.next + 1) % (2 * count);
        let mut events = self.events.report(sink, budget);
        // Endpoints that wait and messages take turns where the budget is for one of them.
        if !self.waiters.is_empty() && (budget > 1 || self.next.is_multiple_of(2)) {
            events += self.report_writable(sink, budget - events);
        }
        for step in 0..count {
            if events < budget {
                let at = (self.next / 2 + step) % count;
                events += self.poll_path(at, sink, budget - events);
            }
        }
        self.advance();
        if !self.ending.is_empty() {
            self.end_quiet_links();
        }
        events += self.events.report(sink, budget - events);
        if !self.waiters.is_empty() && events == 0 {
            events += self.report_writable(sink, budget);
        }
        self.drop_links();
        events
    }

    fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        let index = self.open_link(ep)?;
        if !self.attr.caps.contains(Caps::EP_CHECK) {
            return Err(PostError::Unsupported);
        }
        // A path without a peer is given up behind the last message that came by it, when its transport
        // reports that, as where a post is refused.
        let mut lives = false;
        for at in 0..self.paths.len() {
            let Some(inner) = self.links[index as usize].paths[at].endpoint() else { continue };
            lives |= self.paths[at].iface.check(inner) != Err(PostError::PeerFailed);
        }
        lives.then_some(()).ok_or(PostError::PeerFailed)
    }

    fn invalidate(&mut self, ep: EpId) {
        if let Ok(index) = self.open_link(ep) {
            self.fail_link(index, PeerFailure::Died);
        }
    }
}

impl OneSided for MultiRail {
    lacks! { put_short put_bcopy put_zcopy put_notify get_bcopy atomic }

    fn get_zcopy(
        &mut self,
        ep: EpId,
        to: &[LocalSlice],
        from: RemoteSlice,
        token: Token,
    ) -> Result<Posted, PostError> {
        self.begin_read(ep, to, from, token)
    }
}

impl Wakeup for MultiRail {
    lacks! { doorbell }

    fn arm(&mut self, descriptor: bool) -> Armed {
        if !descriptor || !self.attr.caps.contains(Caps::EVENT_FD) || self.has_work() {
            return Armed::Busy;
        }
        for at in 0..self.paths.len() {
            if self.paths[at].iface.arm(true) == Armed::Busy {
                for path in &mut self.paths[..at] {
                    path.iface.disarm();
                }
                return Armed::Busy;
            }
        }
        Armed::Ready
    }

    fn disarm(&mut self) {
        for path in &mut self.paths {
            path.iface.disarm();
        }
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        if !self.attr.caps.contains(Caps::EVENT_FD) {
            let why = "one of the transports has no event descriptor";
            return Err(OpenError::Limit(why.to_owned()));
        }
        if self.wake.is_none() {
            self.wake = Some(self.make_wake()?);
        }
        Ok(self.wake.as_ref().expect("made in the lines above").event_fd())
    }
}

impl SignalSafe for MultiRail {
    lacks! { SignalSafe }
}

impl Drop for MultiRail {
    fn drop(&mut self) {
        for path in &self.paths {
            let attr = path.iface.attr();
            tracing::debug!(path = %attr.provider, device = %attr.device, bytes = path.read_bytes, "read by a path");
        }
        // What was accepted is brought out, as far as the peers take it.
        let mut drain = Drain::default();
        let mut waiting = self.unposted();
        while waiting > 0 {
            self.progress(&mut Discard, 64);
            let now = self.unposted();
            if !drain.goes_on(now < waiting) {
                return;
            }
            waiting = now;
        }
    }
}
