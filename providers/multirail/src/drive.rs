//! What is done about links: making their paths, posting what waits, giving paths up, failing.

use bowline_base::slab::Key;
use bowline_base::view::View;
use bowline_uct::{
    AmHeader, AmId, EpId, OpenError, PeerFailure, PostError, Sink, Source, Unreachable,
};

use super::MultiRail;
use super::log::Entry;
use super::relay::{Note, Relay};
use super::wire::{ACK, DATA, Front, HELLO};

/// Events of a transport in one call.
const NOTES: u32 = 64;

/// Rounds without a message of a peer that is gone, after which none is awaited by a path on which nothing of it was
/// heard. Each polls all paths, and messages that are on their way take fewer.
const QUIET: u32 = 1024;

impl MultiRail {
    /// Makes an endpoint on every path that leads to the peer.
    pub(super) fn make_paths(&mut self, index: u32) -> Result<(), OpenError> {
        let Some(address) = self.links[index as usize].address.take() else { return Ok(()) };
        let (mut reasons, mut ended) = (Vec::new(), None);
        let mut taken = 0_u32;
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            let name = path.iface.attr().provider;
            // The one at the same place first: hosts name alike networks alike.
            let others = (0..address.paths.len()).filter(|&theirs| theirs != at);
            let mut reason = "the peer has no such transport".to_owned();
            for theirs in std::iter::once(at).chain(others) {
                let Some((provider, place)) = address.paths.get(theirs) else { continue };
                if provider != name || taken >> theirs & 1 == 1 {
                    continue;
                }
                let made = match path.iface.reachable(place) {
                    Ok(()) => path.iface.connect(place),
                    Err(why) => Err(why.into()),
                };
                let ep = match made {
                    Ok(ep) => ep,
                    Err(why) => {
                        if let OpenError::PeerFailed(
                            how @ (PeerFailure::Died | PeerFailure::Closed),
                        ) = why
                        {
                            ended = Some(how);
                            self.links[index as usize].paths[at].unread = true;
                        }
                        reason = match why {
                            OpenError::Unreachable(why) => why.reason,
                            why => why.to_string(),
                        };
                        continue;
                    }
                };
                if path.by_ep.get(ep.0).is_some_and(|other| other != index) {
                    "two peers give the same address".clone_into(&mut reason);
                    continue;
                }
                path.by_ep.set(ep.0, index);
                taken |= 1 << theirs;
                let path = &mut self.links[index as usize].paths[at];
                (path.ep, path.theirs) = (Some(ep), theirs as u8);
                break;
            }
            if self.links[index as usize].paths[at].endpoint().is_none() {
                reasons.push(format!("{name} {}: {reason}", self.paths[at].iface.attr().device));
            }
        }
        if self.links[index as usize].first_up().is_some() {
            return Ok(());
        }
        Err(match ended {
            Some(how) => OpenError::PeerFailed(how),
            None => Unreachable::because(reasons.join("; ")).into(),
        })
    }

    /// Puts a link among those that have something to post.
    pub(super) fn queue(&mut self, index: u32) {
        if !std::mem::replace(&mut self.links[index as usize].queued, true) {
            self.work.push_back(index);
        }
    }

    /// Posts what a link has to say, as far as its path takes it.
    pub(super) fn drive(&mut self, index: u32) {
        loop {
            self.apply_peer_down(index);
            let link = &mut self.links[index as usize];
            if link.failed.is_some() || !link.used {
                return;
            }
            let Some((at, ep)) = link.first_up() else { return };
            link.active = Some(at);
            let posted = match self.greet(index) {
                Ok(()) => self.post_all(index, at, ep),
                Err(refused) => Err(refused),
            };
            let Err((at, error)) = posted else { return };
            if error == PostError::NoResource {
                let path = &mut self.links[index as usize].paths[at];
                if let Some(ep) = path.endpoint()
                    && !std::mem::replace(&mut path.full, true)
                {
                    self.paths[at].iface.want_writable(ep);
                }
                return;
            }
            if error == PostError::PeerFailed {
                // The path's transport reports it behind the last message of the peer there, which would
                // be lost if the path were given up now.
                self.links[index as usize].paths[at].full = true;
                return;
            }
            self.path_down(index, at, PeerFailure::Died);
        }
    }

    /// Greets the peer on every path that it was not greeted on.
    fn greet(&mut self, index: u32) -> Result<(), (usize, PostError)> {
        for at in 0..self.paths.len() {
            let path = &mut self.links[index as usize].paths[at];
            let Some(ep) = path.endpoint().filter(|_| !path.greeted && !path.full) else {
                continue;
            };
            let address = &self.own_address;
            let mut pack = |out: View<'_>| out.copy_in(address);
            let iface = &mut self.paths[at].iface;
            let header = [self.uid, 0, 0];
            match iface.am_bcopy(ep, HELLO, &header, address.len(), &mut pack) {
                Ok(_) => path.greeted = true,
                // The path in use need not wait for the others.
                Err(PostError::NoResource) if self.links[index as usize].active != Some(at) => {
                    self.links[index as usize].paths[at].full = true;
                    iface.want_writable(ep);
                }
                Err(error) => return Err((at, error)),
            }
        }
        Ok(())
    }

    /// Posts the log's rest and an acknowledgement that is due.
    fn post_all(&mut self, index: u32, at: usize, ep: EpId) -> Result<(), (usize, PostError)> {
        let link = &mut self.links[index as usize];
        if link.paths[at].full {
            return Ok(());
        }
        let iface = &mut *self.paths[at].iface;
        let max_short = iface.attr().limits.am.max_short;
        let down = link.down();
        while let Some((number, entry)) = link.log.next() {
            let Entry { id, header, len } = entry;
            let front = Front { number, id, header, down, ack: link.expected };
            let (header, bytes) = front.pack();
            let total = bytes.len() + len;
            let message = &mut self.scratch[..total];
            message[..bytes.len()].copy_from_slice(&bytes);
            link.log.copy_next(&mut message[bytes.len()..]);
            post(iface, ep, DATA, &header, message, max_short).map_err(|error| (at, error))?;
            self.stats.repeated += u64::from(link.log.advance());
            link.acknowledged();
        }
        if link.due {
            let header = [u64::from(link.expected), u64::from(down), 0];
            post(iface, ep, ACK, &header, &[], max_short).map_err(|error| (at, error))?;
            self.stats.acknowledgements += 1;
            link.acknowledged();
        }
        Ok(())
    }

    /// Gives up the paths that the peer has given up.
    fn apply_peer_down(&mut self, index: u32) {
        for at in 0..self.paths.len() {
            let link = &self.links[index as usize];
            let path = link.paths[at];
            let Some(ep) = path.endpoint().filter(|_| link.peer_down >> path.theirs & 1 == 1)
            else {
                continue;
            };
            self.path_down(index, at, PeerFailure::Unreachable);
            // What it has under way is answered at once instead of when it notices itself.
            self.paths[at].iface.invalidate(ep);
        }
    }

    /// A path is over.
    pub(super) fn path_down(&mut self, index: u32, at: usize, how: PeerFailure) {
        let link = &mut self.links[index as usize];
        link.closed |= how == PeerFailure::Closed;
        if std::mem::replace(&mut link.paths[at].down, true) {
            return;
        }
        self.stats.paths_lost += 1;
        tracing::info!(link = index, path = at, %how, "a path to a peer was given up");
        // Rule 4.
        self.paths[at].sources.forget(index);
        if link.active == Some(at) {
            // Rule 2.
            link.active = None;
            link.log.rewind();
        }
        link.due = true;
        let over = link.first_up().is_none();
        let theirs: Vec<Key> = self.reads_of(index);
        for key in theirs {
            if let Some(read) = self.reads.get_mut(key) {
                read.leave(at);
            }
            self.try_again(key);
        }
        let link = &mut self.links[index as usize];
        link.paths[at].unread = false;
        if over && link.paths.iter().any(|path| path.unread) {
            // Rule 10.
            self.ending.push((index, how));
        } else if over {
            self.end_link(index, how);
        } else {
            self.queue(index);
        }
    }

    /// Nothing is to come from a peer by any path.
    fn end_link(&mut self, index: u32, how: PeerFailure) {
        let closed = self.links[index as usize].closed && ends_silently(how);
        self.fail_link(index, if closed { PeerFailure::Closed } else { how });
    }

    /// A round is over: ends the links of peers that are gone, of which nothing was heard for long.
    #[cold]
    pub(super) fn end_quiet_links(&mut self) {
        for (index, how) in self.ending.clone() {
            let link = &mut self.links[index as usize];
            link.quiet += 1;
            if link.quiet >= QUIET {
                self.end_link(index, how);
            }
        }
    }

    fn reads_of(&self, index: u32) -> Vec<Key> {
        self.reads.iter().filter(|(_, read)| read.link == index).map(|(key, _)| key).collect()
    }

    /// No path is left, or the peer is damaged.
    pub(super) fn fail_link(&mut self, index: u32, how: PeerFailure) {
        let link = &mut self.links[index as usize];
        if link.failed.is_some() {
            return;
        }
        link.failed = Some(how);
        link.log.clear();
        self.ending.retain(|(ending, _)| *ending != index);
        if let Some(ep) = link.ep {
            self.endpoints.fail(ep);
            self.waiters.cancel(ep);
        }
        for at in 0..self.paths.len() {
            let path = &mut self.links[index as usize].paths[at];
            if let Some(ep) = path.endpoint() {
                self.paths[at].iface.invalidate(ep);
            }
            path.down = true;
        }
        for key in self.reads_of(index) {
            self.try_again(key);
        }
        self.report_failure(index);
    }

    /// Rule 6.
    pub(super) fn report_failure(&mut self, index: u32) {
        if self.links[index as usize].failed.is_some() {
            self.answer_flushes();
        }
        let link = &mut self.links[index as usize];
        if let Some(how) = link.failed
            && link.reads == 0
            && !std::mem::replace(&mut link.reported, true)
        {
            if link.ep.is_none() {
                self.over.push(index);
            }
            self.events.fail(Some(Source(index)), link.ep, how);
        }
    }

    /// Drops links that are over, once all events of theirs are reported.
    pub(super) fn drop_links(&mut self) {
        if self.over.is_empty() || !self.events.is_empty() {
            return;
        }
        for index in std::mem::take(&mut self.over) {
            if self.links[index as usize].queued {
                self.over.push(index);
                continue;
            }
            let paths = self.links[index as usize].paths;
            for (path, of_link) in self.paths.iter_mut().zip(paths) {
                path.sources.forget(index);
                path.by_ep.forget(index);
                if let Some(ep) = of_link.ep {
                    path.iface.disconnect(ep);
                }
            }
            self.links.drop_gone(index);
        }
    }

    /// The link of an endpoint that takes operations.
    pub(super) fn open_link(&self, ep: EpId) -> Result<u32, PostError> {
        self.endpoints.open(ep).copied()
    }

    /// Makes progress on one path. Returns the messages that were handed on.
    pub(super) fn poll_path(&mut self, at: usize, sink: &mut dyn Sink, budget: u32) -> u32 {
        let path = &mut self.paths[at];
        let mut relay = Relay {
            path: at,
            own: self.uid,
            sources: &mut path.sources,
            links: &mut self.links,
            notes: &mut self.notes,
            stats: &mut self.stats,
            above: sink,
            events: 0,
        };
        path.iface.progress(&mut relay, budget.min(NOTES));
        let events = relay.events;
        if !self.notes.is_empty() {
            let mut notes = std::mem::take(&mut self.notes);
            for note in notes.drain(..) {
                self.handle(note);
            }
            self.notes = notes;
        }
        events
    }

    fn handle(&mut self, note: Note) {
        match note {
            Note::Completed(token, result) => self.answered(token, result),
            Note::Writable(at, ep) => {
                if let Some(index) = self.paths[at].by_ep.get(ep.0) {
                    self.links[index as usize].paths[at].full = false;
                    self.queue(index);
                }
            }
            Note::Failed(at, by_source, ep, how) => {
                let by_ep = ep.and_then(|ep| self.paths[at].by_ep.get(ep.0));
                for index in [by_source, by_ep].into_iter().flatten() {
                    self.path_down(index, at, how);
                }
            }
            Note::Greeted(index) => {
                match self.make_paths(index) {
                    Ok(()) => {}
                    // What it has sent before its end comes first, and its end is reported behind that.
                    Err(OpenError::PeerFailed(how)) => {
                        tracing::debug!(link = index, %how, "a peer that has greeted is gone");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no path back to a peer");
                        self.fail_link(index, PeerFailure::Unreachable);
                    }
                }
                self.links[index as usize].used = true;
                self.queue(index);
            }
            Note::Work(index) => self.queue(index),
            Note::Damaged(index) => self.fail_link(index, PeerFailure::Damaged),
        }
    }

    /// Posts and asks for what waits, once.
    pub(super) fn advance(&mut self) {
        for _ in 0..self.work.len() {
            let Some(index) = self.work.pop_front() else { break };
            self.links[index as usize].queued = false;
            self.drive(index);
        }
        if !self.flushes.is_empty() {
            self.answer_flushes();
        }
        if !self.refused.is_empty() {
            for key in std::mem::take(&mut self.refused) {
                if let Some(read) = self.reads.get_mut(key) {
                    read.waits = false;
                    self.go_on_reading(key);
                }
            }
        }
    }
}

/// Whether a path that failed so says nothing of why its peer is gone, which another path may know: one that says
/// goodbye has brought out before what it accepted.
const fn ends_silently(how: PeerFailure) -> bool {
    matches!(how, PeerFailure::Died | PeerFailure::Unreachable)
}

/// Posts a message that lies here.
fn post(
    iface: &mut dyn bowline_uct::Iface,
    ep: EpId,
    id: AmId,
    header: &AmHeader,
    message: &[u8],
    max_short: usize,
) -> Result<(), PostError> {
    if message.len() <= max_short {
        return iface.am_short(ep, id, header, message);
    }
    let mut pack = |out: View<'_>| out.copy_in(message);
    iface.am_bcopy(ep, id, header, message.len(), &mut pack).map(drop)
}
