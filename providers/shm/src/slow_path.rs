//! What happens rarely: peers that die, close or write nonsense, guests that come and go, rings
//! that are asked back, and everything that is reported to the sink other than messages.
//!
//! # What becomes of a peer that is gone
//!
//! ```text
//!   death generation, CLOSED, pidfd ─► lost: no more posts to it ─► its ring is read to the end,
//!   the queue is settled ─► its rings are freed ─► Sink::failed, once
//! ```
//!
//! What the peer published before it went is delivered before its failure is. A *damaged* source
//! is not listened to any more, and reported at once; it is notified by its bit in `refused` (see
//! [`crate::layout::Senders`]), and gives its rings back without another report when it goes.

use bowline_base::doorbell::Doorbell;
use bowline_base::job::ControlBlock;
use bowline_base::ring::promote::Sending;
use bowline_base::scmp::seq::{self, Settled};
use bowline_base::scmp::{AttachError, Producers};
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{EpId, PeerFailure, Sink, Source};

use crate::area::Area;
use crate::endpoint::{Cma, Condition, Endpoint, Intent, Membership};
use crate::iface::ShmIface;
use crate::source::{FailureReport, LostSource, Presence};

/// Everybody who may have an intent on our queue.
struct Everyone<'a> {
    area: &'a Area,
    gone: &'a [Presence],
}

impl Producers for Everyone<'_> {
    fn count(&self) -> u32 {
        self.gone.len() as u32
    }

    fn intent(&self, producer: u32) -> u64 {
        // Acquire pairs with the Release with which a producer clears its intent.
        if let Some(control) = self.area.job().control(producer) {
            return control.intent.load(Ordering::Acquire);
        }
        let guest = self.area.guest(producer - self.area.job().ranks());
        guest.map_or(0, |entry| entry.intent.load(Ordering::Acquire))
    }

    fn is_dead(&self, producer: u32) -> bool {
        // A damaged source is taken for dead: what it has reserved is not waited for.
        self.area.job().is_dead(producer) || self.gone[producer as usize] != Presence::There
    }
}

impl ShmIface {
    pub(crate) fn control(&self) -> &ControlBlock {
        self.area.job().control(self.me.local).expect("our own rank is a rank of the job")
    }

    /// Before messages are read: learns who is gone, and reports what was noted earlier.
    #[cold]
    pub(crate) fn before_polling(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        // Acquire pairs with the Release in `Area::bump_attention`.
        let attention = self.area.attention().word.load(Ordering::Acquire);
        if attention != self.seen_attention {
            self.seen_attention = attention;
            self.check_attention();
        }
        let deaths = self.area.job().death_generation();
        if deaths != self.seen_deaths {
            self.seen_deaths = deaths;
            // Who has left is read after who is dead, and counts first: one that left in order and ended at
            // once may have done both since then.
            let dead: Vec<u32> = self.area.job().dead().collect();
            let left: Vec<u32> = self.area.job().left().collect();
            let left = left.into_iter().map(|local| (local, PeerFailure::Closed));
            let dead = dead.into_iter().map(|local| (local, PeerFailure::Died));
            for (local, how) in left.chain(dead) {
                if local != self.me.local {
                    self.lose_source(local, how);
                }
            }
        }
        let mut given = 0;
        while given < budget
            && let Some((token, result)) = self.deferred.pop_front()
        {
            sink.completed(token, result);
            given += 1;
        }
        if std::mem::take(&mut self.queue_first) {
            given += self.poll_queue(sink, budget - given);
        }
        given
    }

    /// After messages were read: releases what lost peers had, reports who failed and who may write again.
    #[cold]
    pub(crate) fn after_polling(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        if !self.lost.is_empty() {
            self.release_lost();
        }
        while given < budget
            && let Some(FailureReport { source, ep, how }) = self.failures.pop_front()
        {
            self.counters.peers_lost += 1;
            sink.failed(source.map(Source), ep, how);
            given += 1;
        }
        given += self.report_writable(sink, budget - given);
        if self.rings_asked {
            self.rings_asked = self.return_rings();
        }
        if self.over {
            self.vacate();
        }
        self.todo = self.rings_asked
            || self.queue_first
            || self.over
            || self.area.job().death_generation() != self.seen_deaths
            || !self.lost.is_empty()
            || !self.failures.is_empty()
            || !self.deferred.is_empty()
            || !self.wants.is_empty();
        given
    }

    /// Somebody bumped our attention word.
    fn check_attention(&mut self) {
        self.todo = true;
        self.rings_asked = true;
        self.check_guests();
        self.watch_again();
        self.watch_foreign();
        for index in 0..self.eps.len() {
            let e = &self.eps[index];
            if !e.lives() {
                continue;
            }
            if e.membership != Membership::Member && e.is_closed() {
                self.lose_endpoint(EpId(index as u32), PeerFailure::Closed);
            } else if e.area.refused().has(e.source) {
                self.lose_endpoint(EpId(index as u32), PeerFailure::Damaged);
            }
        }
    }

    /// Gives back the rings that their receivers want. Whether one is full and must be tried
    /// again.
    fn return_rings(&mut self) -> bool {
        let mut full = false;
        for e in &mut self.eps {
            let owned = e.owns_ring();
            full |= !e.give_ring_back();
            if owned && !e.owns_ring() {
                self.counters.rings_left += 1;
                e.bell.ring();
            }
        }
        full
    }

    pub(crate) fn peer_closed(&mut self, ep: EpId) {
        self.lose_endpoint(ep, PeerFailure::Closed);
    }

    pub(crate) fn peer_died(&mut self, ep: EpId) {
        self.lose_endpoint(ep, PeerFailure::Died);
    }

    /// The peer of an endpoint is gone.
    pub(crate) fn lose_endpoint(&mut self, ep: EpId, how: PeerFailure) {
        let e = &self.eps[ep.0 as usize];
        let (node, local, instance) = (e.node, e.area.local(), e.instance);
        let as_guest = self.guests.iter().position(|guest| {
            guest.as_ref().is_some_and(|g| (g.node, g.local, g.instance) == (node, local, instance))
        });
        match (e.member(), as_guest) {
            (Some(member), _) => self.lose_source(member, how),
            (None, Some(index)) => self.lose_source(self.ranks() + index as u32, how),
            (None, None) => self.fail_endpoint(ep, how),
        }
    }

    /// A sender is gone: nothing more is sent to it, and what it sent is read to the end.
    pub(crate) fn lose_source(&mut self, source: u32, how: PeerFailure) {
        let Some(gone) = self.gone.get_mut(source as usize) else { return };
        let before = std::mem::replace(gone, Presence::Gone);
        if before == Presence::Gone {
            return;
        }
        self.due();
        if let Some(ep) = self.endpoint_of(source) {
            self.eps[ep.0 as usize].fail(how);
        }
        let generation = self.receiver.queue.generation();
        let reported = before == Presence::Damaged;
        self.lost.push(LostSource { source, how, reported, generation, flips: 0 });
    }

    /// The endpoint that leads to the interface with this source number.
    fn endpoint_of(&self, source: u32) -> Option<EpId> {
        let index = match source.checked_sub(self.ranks()) {
            None => self.eps.iter().position(|e| e.member() == Some(source)),
            Some(index) => {
                let guest = self.guests.get(index as usize)?.as_ref()?;
                self.eps.iter().position(|e| e.leads_to(guest.node, guest.local, guest.instance))
            }
        };
        index.map(|index| EpId(index as u32))
    }

    /// Frees what the gone have left, once it is read.
    fn release_lost(&mut self) {
        let everyone = Everyone { area: &self.area, gone: &self.gone };
        let queue = &mut self.receiver.queue;
        let mut dry = true;
        if !self.receiver.poisoned && (queue.stalled() || queue.ready()) {
            dry = false;
            if queue.stalled() && matches!(queue.settle(&everyone), Ok(Settled::Resolved)) {
                tracing::debug!("skipping the messages that a dead rank had not finished");
            }
        }
        let generation = queue.generation();
        let mut at = 0;
        while at < self.lost.len() {
            let lost = &mut self.lost[at];
            if lost.generation != generation {
                lost.generation = generation;
                lost.flips += 1;
            }
            // Two flips after its end, every slot that it could reserve has been read or settled.
            let read = (dry || lost.flips >= 2) && !self.receiver.has_unread(lost.source);
            if !read {
                at += 1;
                continue;
            }
            let LostSource { source, how, reported, .. } = self.lost.swap_remove(at);
            self.receiver.free_rings_of(source);
            self.receiver.unignore(source);
            if !reported {
                let ep = self.endpoint_of(source);
                self.failures.push_back(FailureReport { source: Some(source), ep, how });
            }
            self.over = true;
            self.free_guest(source);
        }
    }

    /// Gives back what belongs to endpoints that are over, see [`crate::endpoint`].
    fn vacate(&mut self) {
        self.over = false;
        for index in 0..self.eps.len() {
            let e = &self.eps[index];
            if !matches!(e.condition, Condition::Over(_)) {
                continue;
            }
            let ep = Some(EpId(index as u32));
            if self.lost.iter().any(|lost| self.endpoint_of(lost.source) == ep)
                || self.failures.iter().any(|failure| failure.ep == ep)
            {
                self.over = true;
                continue;
            }
            let Ok(vacant) = self.vacant() else { continue };
            let left = std::mem::replace(&mut self.eps[index], vacant);
            if left.membership != Membership::Member {
                left.membership.leave(&left.area);
                left.bell.ring();
            }
            if let Some(key) = self.process_rkeys[index].take() {
                self.rkeys.remove(key);
            }
            self.mappings.forget(&left.process);
        }
        self.forget_nodes();
    }

    /// An endpoint for a place that nobody has.
    fn vacant(&self) -> Result<Endpoint, AttachError> {
        let (area, local) = (self.area.clone(), self.me.local);
        let queue = seq::attach(area.scmp_words(), local as u16, local as u16)?;
        // SAFETY: the word lies in the control blocks of our own node memory, which the endpoint's
        // area keeps mapped.
        let intent = unsafe { Intent::new(&self.control().intent) };
        Ok(Endpoint {
            sending: Sending::Queue,
            stash: Sending::Queue,
            bell: self.bell.clone(),
            condition: Condition::Vacant,
            serial: 0,
            by_queue: 0,
            refused_len: 0,
            refused_at: None,
            queue,
            intent,
            source: local,
            membership: Membership::Member,
            cma: Cma::Refused,
            lent: None,
            refuse_after: None,
            pidfd: None,
            lost: None,
            process: self.me.process,
            instance: self.me.instance,
            node: self.me.node,
            area,
        })
    }

    /// Closes node memories of others that no endpoint leads to and no guest comes from.
    pub(crate) fn forget_nodes(&mut self) {
        let Self { nodes, eps, guests, .. } = self;
        nodes.retain(|node| {
            let id = node.job.node_id();
            eps.iter().any(|e| e.condition != Condition::Vacant && e.node == id)
                || guests.iter().flatten().any(|guest| guest.node == id)
        });
    }

    /// A source wrote what no correct peer writes.
    pub(crate) fn source_damaged(&mut self, source: u32) {
        self.receiver.ignore(source);
        match self.gone.get_mut(source as usize) {
            Some(presence @ Presence::There) => *presence = Presence::Damaged,
            _ => return,
        }
        let ep = self.endpoint_of(source);
        if let Some(ep) = ep {
            self.eps[ep.0 as usize].fail(PeerFailure::Damaged);
        }
        self.failures.push_back(FailureReport {
            source: Some(source),
            ep,
            how: PeerFailure::Damaged,
        });
        self.due();
        // It may wait for space here, or for an answer, for as long as it takes us for sound.
        self.area.refused().set(source, true);
        self.call(source);
    }

    /// Makes a source check what is rare.
    fn call(&self, source: u32) {
        if let Some(index) = source.checked_sub(self.ranks()) {
            if let Some(Some(guest)) = self.guests.get(index as usize) {
                guest.call();
            }
        } else if let Ok(area) = Area::join(self.area.job(), source) {
            area.bump_attention();
            if let Some(bell) = Doorbell::of_job(self.area.job(), source) {
                bell.ring();
            }
        }
    }

    /// The control words of our queue cannot be true: nobody can be trusted to have sent what we
    /// read, or to be notified of what we did not.
    pub(crate) fn queue_poisoned(&mut self) {
        if std::mem::replace(&mut self.receiver.poisoned, true) {
            return;
        }
        tracing::warn!("the shared receive queue was damaged by a peer and is closed");
        self.due();
        let knows: Vec<u32> = self.area.known().below(self.ranks()).collect();
        for source in 0..self.ranks() {
            let (other, led_to) = (source != self.me.local, self.endpoint_of(source).is_some());
            // A rank that never connected has sent nothing, and is only noted.
            if other && !led_to && !knows.contains(&source) {
                self.receiver.ignore(source);
                self.area.refused().set(source, true);
            } else if other || led_to {
                self.source_damaged(source);
            }
        }
        for index in 0..self.guests.len() {
            if self.guests[index].is_some() {
                self.source_damaged(self.ranks() + index as u32);
            }
        }
        // Those who sleep until there is space are refused for another reason now.
        self.ring_waiters();
    }

    /// Nothing has come for a while, or this rank is about to sleep: checks whether something can
    /// never come, since a word that somebody wrote cannot be. Whether there is something to do.
    #[cold]
    pub(crate) fn check_for_damage(&mut self) -> bool {
        let mut found = false;
        if !self.receiver.poisoned && self.receiver.queue.stalled() {
            let everyone = Everyone { area: &self.area, gone: &self.gone };
            match self.receiver.queue.settle(&everyone) {
                Ok(Settled::Nothing | Settled::Waiting) => {}
                Ok(Settled::Resolved) => found = true,
                Err(_) => {
                    self.queue_poisoned();
                    found = true;
                }
            }
        }
        while let Some(source) = self.receiver.broken_ring() {
            self.source_damaged(source);
            found = true;
        }
        found
    }

    /// Compares the sources of the queue with the owners of the rings.
    #[cold]
    pub(crate) fn compare_loads(&mut self) {
        let Some(owner) = self.receiver.evict_for_busier() else { return };
        self.counters.rings_evicted += 1;
        // The owner may be silent: it checks its rings when its attention is called.
        self.call(owner);
    }
}

impl Endpoint {
    /// Whether the peer has closed its interface.
    pub(crate) fn is_closed(&self) -> bool {
        self.area.is_closed()
    }
}
