//! Peers that die, close, cannot be reached or write nonsense.
//!
//! **How a death is noticed.** On the same host by the peer's process (`liveness`), whatever the
//! provider. On another host, or in another network of this one, by what libfabric reports: an
//! operation under way that fails, as connected transports (tcp, verbs) do when the connection
//! breaks. A peer that is merely waited for has no operation under way, so a connected transport
//! is given one now and then: an empty message (`Taken`) to each of them, the next one twice as
//! late as the last. It needs no progress of the peer. Some providers (`ofi_rxm`) then connect
//! anew, again and again, and only say that it is to be tried later; that counts as the peer's end
//! when it lasts for BOWLINE_OFI_LOST_AFTER while nothing else is under way to the peer, since then
//! nothing but a broken connection can be in the way. A connection that is not broken but silent,
//! as after a pulled cable, is not reported by libfabric for a quarter of an hour; so the kernel is
//! asked (`link_check`), and a host that has acknowledged nothing for BOWLINE_OFI_LOST_AFTER is lost. A
//! datagram provider (`udp;ofi_rxd`) takes the message and reports nothing, and neither does this
//! transport then.
//!
//! **When memory is given back.** What waited for libfabric is answered at once. For what libfabric has,
//! which may still touch the user's memory, there are these rules.
//!
//! 1. An operation that libfabric has answered is over.
//! 2. A peer that is *gone* (its process ended, or its interface in this process was closed) reads
//!    and writes nothing any more. libfabric does not always answer operations to the dead: they become
//!    *orphans* once the queue has been empty for a while, and a late answer to an orphan is ignored.
//! 3. Any other peer may live, whatever it said (Close) and whatever is known of the network, which may
//!    heal. Its connections are ended (`disconnect`), and the operations that name the user's memory
//!    are awaited. Operations on buffers of our own become orphans, whose buffers stay taken. A
//!    connection that may belong to another peer is ended only when all peers of that host have
//!    failed, or when operations are still unanswered after BOWLINE_OFI_LOST_AFTER. With a Close the
//!    peer ends the connection itself, and ours is ended only if operations stay unanswered.
//! 4. What is still unanswered after twice that time was lost in libfabric. Then the endpoint is
//!    closed, after which libfabric touches no memory: every peer has failed, and the user's
//!    operations end with an error. Where a provider works through shared memory that would not help,
//!    since the peer's processor writes; there the end of the peer's process is awaited.
//!
//! **What a peer sent before its end** is handed over before the failure is reported, as far as libfabric has
//! it. So a peer that is gone is polled for until the queue has been empty for a while since its last
//! message. Time alone says nothing: this process may not have polled meanwhile. What libfabric has not read of a
//! socket (tcp, net) it drops where a send by that connection fails; who sends to a peer that has closed may lose
//! messages of it (seen with 1.17).
//!
//! A failure is reported behind all that, and so is a peer's write to exposed memory: its connection
//! has ended by then.

mod release;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bowline_uct::{EpId, PeerFailure, PostError, Source, Token};
use libfabric_sys as sys;

use crate::iface::OfiIface;
use crate::liveness::{Liveness, State as LivenessState};
use crate::net::Failure;
use crate::peer::{Health, Peer, Silence, Work};

/// Empty polls, since its last message, after which a peer that is gone has nothing more to say.
const QUIET: u32 = 8;
/// As many polls of any kind say the same, after SILENT_FOR: where others keep the queue full it is never
/// empty. Each of them takes at least one entry, and the queue holds far fewer.
const BUSY: u32 = 4096;
/// Empty polls, and time, after which libfabric has answered what it will of the dead.
const SILENT: u32 = 64;
const SILENT_FOR: Duration = Duration::from_millis(20);
/// Last distance of messages to a silent peer of another host; the first is [`ASK_FIRST`].
const ASK_LAST: Duration = Duration::from_secs(64);
/// Time between the tries of a sleeper to do what there was no descriptor for.
const TRY_EVERY: Duration = Duration::from_millis(100);
/// Least time between polls of connections.
const CABLES_EVERY: Duration = Duration::from_millis(250);

impl OfiIface {
    /// libfabric refused an operation to `peer`, not for want of resources.
    #[cold]
    pub(crate) fn post_failed(&mut self, peer: u32, error: i32) -> PostError {
        tracing::debug!("libfabric refused to send: {}", sys::error_text(error));
        let how = self.how(peer);
        self.fail_peer(peer, how);
        PostError::PeerFailed
    }

    /// How a peer failed to which an operation failed.
    fn how(&self, peer: u32) -> PeerFailure {
        match self.peers[peer as usize].liveness.state() {
            LivenessState::Dead => PeerFailure::Died,
            LivenessState::Closed => PeerFailure::Closed,
            LivenessState::Lives => PeerFailure::Unreachable,
        }
    }

    /// An operation has ended with an error.
    #[cold]
    pub(crate) fn ended_badly(&mut self, failure: Failure) {
        let Failure { context, error } = failure;
        if context & 1 == 1 {
            // A message longer than any that a peer of ours sends, or the end of the endpoint.
            tracing::debug!("libfabric: a receive failed: {}", sys::error_text(error));
            self.counters.unknown_senders += 1;
            self.posted -= 1;
            self.idle_rx.push((context >> 1) as u32);
            return;
        }
        if context == 0 {
            tracing::debug!("libfabric: an error of no operation: {}", sys::error_text(error));
            return;
        }
        let (work, peer) = self.ops.remove((context >> 1) as u32 - 1);
        let buffer = match work {
            Work::Send { buffer } | Work::SendLent { buffer, .. } | Work::Atomic { buffer, .. } => {
                Some(buffer)
            }
            Work::Put { buffer, .. } | Work::Orphan { buffer } => buffer,
            _ => None,
        };
        if let Some(buffer) = buffer {
            self.tx.give(buffer);
        }
        if matches!(work, Work::Orphan { .. } | Work::Free) {
            return;
        }
        self.peers[peer as usize].under_way -= 1;
        // An access that the target refused is the operation's failure alone.
        let one_sided = matches!(work, Work::Put { .. } | Work::Get { .. } | Work::Atomic { .. });
        let refused =
            [sys::FI_EACCES, sys::FI_EKEYREJECTED, libc::EPERM, libc::EINVAL].contains(&error);
        let how = if one_sided && refused {
            PeerFailure::Refused
        } else {
            tracing::debug!("libfabric: an operation failed: {}", sys::error_text(error));
            let how = match self.peers[peer as usize].health {
                Health::Failing { how, .. } | Health::Failed(how) => how,
                Health::Well => self.how(peer),
            };
            self.fail_peer(peer, how);
            how
        };
        match work {
            Work::SendLent { token, .. } => self.complete(token, Err(how)),
            Work::Put { token, epoch, .. }
            | Work::Get { token, epoch }
            | Work::Atomic { token, epoch, .. } => {
                self.one_sided_ended(peer, epoch, token, Err(how));
            }
            _ => {}
        }
    }

    /// The endpoint or its queue is broken: nobody can be reached any more.
    #[cold]
    pub(crate) fn break_down(&mut self, error: i32) {
        tracing::warn!("libfabric: the endpoint is broken: {}", sys::error_text(error));
        for peer in 0..self.peers.len() as u32 {
            self.fail_peer(peer, PeerFailure::Unreachable);
        }
    }

    /// Begins the failure of a peer. Later calls for the same peer do nothing.
    #[cold]
    pub(crate) fn fail_peer(&mut self, index: u32, how: PeerFailure) {
        let peer = &mut self.peers[index as usize];
        if !peer.is_well() {
            return;
        }
        let now = Instant::now();
        let silence = Silence::begin();
        peer.health = Health::Failing { how, since: now, quiet: 0, silence, next: now };
        peer.results.clear();
        self.failing.push(index);
        self.drop_pending(index, how);
    }

    /// A Close of the peer has come.
    #[cold]
    pub(crate) fn closed_in_order(&mut self, index: u32) {
        self.fail_peer(index, PeerFailure::Closed);
        // The end of its process or of its connection may have been noticed first.
        if let Health::Failing { how, .. } = &mut self.peers[index as usize].health
            && matches!(how, PeerFailure::Died | PeerFailure::Unreachable)
        {
            *how = PeerFailure::Closed;
        }
    }

    /// Answers what libfabric has not been given.
    fn drop_pending(&mut self, index: u32, how: PeerFailure) {
        for pending in std::mem::take(&mut self.peers[index as usize].pending) {
            self.tx.give(pending.buffer);
            if let Some((_, token)) = pending.lent {
                self.complete(token, Err(how));
            }
        }
    }

    /// Goes on with failures that have begun: whether the queue was polled, and found empty.
    #[cold]
    pub(crate) fn settle_failures(&mut self, polled: bool, empty: bool) {
        let mut place = 0;
        while let Some(&index) = self.failing.get(place) {
            let peer = &mut self.peers[index as usize];
            let Health::Failing { how, since, quiet, silence, next } = &mut peer.health else {
                self.failing.swap_remove(place);
                continue;
            };
            *quiet = quiet.saturating_add(u32::from(empty));
            silence.note(polled, empty);
            let (how, quiet, since, silence, next) = (*how, *quiet, *since, *silence, *next);
            let gone = peer.liveness.state() != LivenessState::Lives;
            let (now, waited) = (Instant::now(), since.elapsed());
            let silent = quiet >= SILENT && waited >= SILENT_FOR;
            let over = if gone && peer.under_way == 0 {
                let passed = silence.since.elapsed() >= SILENT_FOR;
                silence.empty >= QUIET || silence.polls >= BUSY && passed
            } else if gone {
                silence.empty >= SILENT && silence.since.elapsed() >= SILENT_FOR
            } else if now < next {
                false
            } else {
                self.let_go(index, how, waited, silent)
            };
            if over {
                self.failing.swap_remove(place);
                self.finish_failure(index, how);
            } else {
                place += 1;
            }
        }
        let mut place = 0;
        while let Some(&ep) = self.invalid.get(place) {
            let peer = self.endpoints.get(ep).map(|&peer| &self.peers[peer as usize]);
            let well = peer.is_some_and(Peer::is_well);
            if well && peer.is_some_and(|peer| peer.under_way > 0) {
                place += 1;
                continue;
            }
            self.invalid.swap_remove(place);
            // The failure of the peer itself is reported as such.
            if well {
                self.events.fail(None, Some(ep), PeerFailure::Died);
            }
        }
    }

    fn finish_failure(&mut self, index: u32, how: PeerFailure) {
        for work in self.ops.orphan(index) {
            match work {
                Work::SendLent { token, .. }
                | Work::Put { token, .. }
                | Work::Get { token, .. }
                | Work::Atomic { token, .. }
                | Work::Asked { token, .. } => self.complete(token, Err(how)),
                Work::Free | Work::Send { .. } | Work::Orphan { .. } => {}
            }
        }
        let peer = &mut self.peers[index as usize];
        peer.under_way = 0;
        peer.health = Health::Failed(how);
        let waiters = peer.flushes.abandon();
        let ep = peer.ep;
        self.watch.remove(&peer.liveness);
        self.here.retain(|&here| here != index);
        for waiter in waiters {
            self.events.answer(waiter, Err(how));
        }
        if let Some(ep) = ep {
            self.waiters.cancel(ep);
            self.endpoints.fail(ep);
        }
        self.counters.failures += 1;
        self.events.fail(Some(Source(index)), ep, how);
    }

    /// Makes an endpoint fail though its peer is well.
    pub(crate) fn invalidate(&mut self, ep: EpId) {
        let Ok(index) = self.open_peer(ep) else {
            return;
        };
        self.waiters.cancel(ep);
        self.endpoints.fail(ep);
        self.invalid.push(ep);
        self.drop_pending(index, PeerFailure::Died);
    }

    pub(crate) fn disconnect(&mut self, ep: EpId) {
        let Some(index) = self.endpoints.remove(ep) else { return };
        self.waiters.cancel(ep);
        // The user who closed an endpoint does not want to hear of it any more.
        self.events.forget(ep);
        self.invalid.retain(|&invalid| invalid != ep);
        // The peer may have got another one since this one failed.
        let peer = &mut self.peers[index as usize];
        if peer.ep == Some(ep) {
            peer.ep = None;
        }
    }

    /// Whether the peer of `ep` lives, asked now.
    pub(crate) fn check(&mut self, ep: EpId) -> Result<(), PostError> {
        let index = self.open_peer(ep)?;
        match self.how(index) {
            PeerFailure::Unreachable => Ok(()),
            how => {
                self.fail_peer(index, how);
                Err(PostError::PeerFailed)
            }
        }
    }

    /// Checks the peers of this process.
    pub(crate) fn check_local_peers(&mut self) {
        let mut place = 0;
        while let Some(&index) = self.here.get(place) {
            place += 1;
            match self.peers[index as usize].liveness.state() {
                LivenessState::Lives => {}
                // Its last messages are still waited for.
                LivenessState::Closed => self.fail_peer(index, PeerFailure::Closed),
                LivenessState::Dead => self.fail_peer(index, PeerFailure::Died),
            }
        }
    }

    /// Checks the peers of other processes, and of other hosts.
    pub(crate) fn check_remote_peers(&mut self) {
        while let Some(index) = self.watch.ended() {
            let Some(peer) = self.peers.get(index as usize) else { return };
            self.watch.remove(&peer.liveness);
            self.fail_peer(index, PeerFailure::Died);
        }
        if !self.unwatched.is_empty() {
            self.watch_the_unwatched();
        }
        if !self.greetings.is_empty() {
            self.read_kept_greetings();
        }
        if self.asked_peers > 0 {
            self.ask_the_silent();
        }
    }

    /// Watches the processes for which there was no descriptor, as far as there is one now.
    #[cold]
    fn watch_the_unwatched(&mut self) {
        while let Some(&index) = self.unwatched.last() {
            let peer = &mut self.peers[index as usize];
            if let Liveness::Unwatched(there) = peer.liveness
                && peer.is_well()
            {
                let liveness =
                    Liveness::watch(&self.home, &there, peer.instance).unwrap_or(Liveness::Ended);
                if matches!(liveness, Liveness::Unwatched(_))
                    || self.watch.add(index, &liveness).is_err()
                {
                    return;
                }
                let (ended, far) =
                    (matches!(liveness, Liveness::Ended), matches!(liveness, Liveness::Far));
                peer.liveness = liveness;
                if far && !peer.asked {
                    peer.asked = true;
                    self.asked_peers += 1;
                }
                if ended {
                    self.fail_peer(index, PeerFailure::Died);
                }
            }
            self.unwatched.pop();
        }
    }

    /// Sends an empty message to the peers of other hosts, if it is time, and gives up those for
    /// whom libfabric has taken none for too long.
    fn ask_the_silent(&mut self) {
        let now = Instant::now();
        let due = now >= self.ask_next;
        if due {
            self.ask_every = (self.ask_every * 2).min(ASK_LAST);
            self.ask_next = now + self.ask_every;
        }
        if now >= self.link_check_next {
            self.link_check_next = now + (self.lost_after / 4).max(CABLES_EVERY);
            self.check_links();
        }
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            if !peer.asked || !peer.is_well() || !peer.is_open() || !peer.greeted {
                continue;
            }
            let blocked = peer.blocked_since.map_or(Duration::ZERO, |since| now - since);
            if blocked >= self.lost_after {
                self.fail_peer(index as u32, PeerFailure::Unreachable);
            } else if due {
                peer.taken_due = true;
                self.make_busy(index as u32);
            }
        }
    }

    /// Gives up the peers on hosts that do not answer.
    fn check_links(&mut self) {
        let asked = self.peers.iter().filter(|peer| peer.asked && peer.is_well());
        let mut hosts: Vec<IpAddr> = asked.filter_map(|peer| peer.at).map(|at| at.ip()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        if hosts.is_empty() {
            return;
        }
        let silent = self.link_checks.silent(&hosts, self.lost_after);
        for index in 0..self.peers.len() {
            let peer = &self.peers[index];
            if peer.asked && peer.at.is_some_and(|at| silent.contains(&at.ip())) {
                self.fail_peer(index as u32, PeerFailure::Unreachable);
            }
        }
    }

    /// When a sleeper has to wake for the sake of peers on other hosts, and of those for whom there was
    /// no descriptor.
    pub(crate) fn next_check(&self) -> Option<Duration> {
        let far = (self.asked_peers > 0).then(|| {
            let next = self.ask_next.min(self.link_check_next);
            next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
        });
        let short = !self.unwatched.is_empty() || !self.greetings.is_empty();
        far.into_iter().chain(short.then_some(TRY_EVERY)).min()
    }

    /// Has a Close sent to every peer that knows this interface, behind what waits for it.
    pub(crate) fn announce_close(&mut self) {
        for index in 0..self.peers.len() as u32 {
            let peer = &mut self.peers[index as usize];
            if peer.is_well() && peer.number != crate::wire::UNNUMBERED && peer.greeted {
                peer.close_due = true;
                self.make_busy(index);
            }
        }
        self.hand_over_all();
    }

    /// Gives what is under way a moment to leave: messages were complete for their senders.
    pub(crate) fn drain(&mut self) {
        struct Nobody;
        impl bowline_uct::Sink for Nobody {
            fn am(&mut self, _: bowline_uct::Arrival<'_>) -> bowline_uct::Verdict {
                bowline_uct::Verdict::Consumed
            }
            fn completed(&mut self, _: Token, _: Result<u64, PeerFailure>) {}
            fn writable(&mut self, _: EpId) {}
            fn failed(&mut self, _: Option<Source>, _: Option<EpId>, _: PeerFailure) {}
        }
        let end = Instant::now() + DRAIN;
        while self.has_unfinished() && Instant::now() < end {
            self.progress(&mut Nobody, 64);
        }
    }

    /// Whether something for a living peer has not left.
    pub(crate) fn has_unfinished(&self) -> bool {
        let unfinished =
            |peer: &Peer| !peer.pending.is_empty() || peer.under_way > 0 || peer.close_due;
        self.peers.iter().any(|peer| peer.is_well() && unfinished(peer))
    }
}

/// How long the drop of an interface waits for messages to leave.
const DRAIN: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
