//! Waiting for room, and sleep.
//!
//! A rank that is refused may ask to be told when there is room ([`ShmIface::want`]); while it is
//! awake, its own `progress` looks. When it goes to sleep it says so at the peers whose queues it
//! found full: `waiting_on` in its own control block (or `waiting` in its guest entry), then
//! `space_wanted` in the peer's. A peer that has made room sees that word in its next `progress`
//! and rings everybody who waits for it.
//!
//! Between the two words and the last look at the room lies the heavy fence of
//! [`Doorbell::arm`](bowline_base::doorbell::Doorbell::arm); between the peer's making room and
//! its look at `space_wanted`, a light one.

use bowline_base::doorbell::{Doorbell, Sleep};
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{Armed, EpId, Sink};

use crate::endpoint::Seat;
use crate::iface::ShmIface;
use crate::layout::guest;

/// In `waiting_on`: more than one rank's queue was found full, so any of them may ring.
const SEVERAL: u32 = u32::MAX;

impl ShmIface {
    pub(crate) fn want(&mut self, ep: EpId) {
        let Some(e) = self.eps.get_mut(ep.0 as usize) else { return };
        if !e.wanted {
            e.wanted = true;
            self.wants.push_back(ep);
        }
        self.due();
    }

    /// Tells those who asked and have room now, in the order of asking.
    pub(crate) fn tell_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let mut given = 0;
        for _ in 0..self.wants.len() {
            let Some(ep) = self.wants.pop_front() else { break };
            let e = &mut self.eps[ep.0 as usize];
            if given < budget && e.has_room() {
                e.wanted = false;
                e.refused_at = None;
                e.refused_len = 0;
                sink.writable(ep);
                given += 1;
            } else {
                // Those who stay keep their order: each goes round once.
                self.wants.push_back(ep);
            }
        }
        given
    }

    /// Somebody sleeps until this rank has made room: rings those who wait for it.
    #[cold]
    pub(crate) fn tell_waiters(&mut self) {
        // AcqRel: pairs with the Release in `announce_waiting`; `waiting_on` was written before.
        self.control().space_wanted.swap(0, Ordering::AcqRel);
        self.receiver.publish_heads();
        let job = self.area.job().clone();
        for local in 0..job.ranks() {
            let Some(control) = job.control(local) else { break };
            // Relaxed: ordered by the swap above.
            let on = control.waiting_on.load(Ordering::Relaxed);
            if on == self.me.local + 1 || on == SEVERAL {
                self.counters.space_rings += 1;
                if let Some(bell) = Doorbell::of_job(&job, local) {
                    bell.ring();
                }
            }
        }
        for (index, seated) in self.guests.iter().enumerate() {
            let waits = self
                .area
                .guest(index as u32)
                // Relaxed: ordered by the swap above.
                .is_some_and(|entry| entry.waiting.load(Ordering::Relaxed) != 0);
            if let (true, Some(seated)) = (waits, seated) {
                self.counters.space_rings += 1;
                seated.ring();
            }
        }
    }

    pub(crate) fn prepare_sleep(&mut self, descriptor: bool) -> Armed {
        if self.has_work() || !self.announce_waiting() {
            return Armed::Busy;
        }
        if descriptor && let Err(error) = self.bell.event_fd() {
            // Without a descriptor nobody could wake the caller: it must not sleep.
            tracing::warn!(%error, "cannot make the event descriptor; polling instead");
            return Armed::Busy;
        }
        self.bell.arm(if descriptor { Sleep::Fd } else { Sleep::Futex });
        if self.has_work() {
            self.end_sleep();
            return Armed::Busy;
        }
        Armed::Ready
    }

    pub(crate) fn end_sleep(&mut self) {
        self.bell.disarm();
        if !std::mem::take(&mut self.waits_for_space) {
            return;
        }
        // Relaxed: a ring too many does no harm.
        self.control().waiting_on.store(0, Ordering::Relaxed);
        for e in &self.eps {
            if let Seat::Guest(index) = e.seat
                && let Some(entry) = e.area.guest(index)
            {
                entry.waiting.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Whether the next `progress` has something to do.
    fn has_work(&mut self) -> bool {
        // Acquire pairs with the Release in `Area::bump_attention`.
        if self.area.attention().word.load(Ordering::Acquire) != self.seen_attention
            || self.area.job().death_generation() != self.seen_deaths
            || !self.deferred.is_empty()
            || !self.news.is_empty()
            || !self.graves.is_empty()
            || self.receiver.ready()
        {
            return true;
        }
        let Self { wants, eps, .. } = self;
        wants.iter().any(|ep| eps[ep.0 as usize].has_room())
    }

    /// Says at the peers whose queues are full that this rank waits. `false`: one of them could
    /// not wake it, so it must not sleep.
    fn announce_waiting(&mut self) -> bool {
        let mut on = 0;
        for ep in &self.wants {
            let e = &self.eps[ep.0 as usize];
            match e.seat {
                Seat::Member => {
                    let this = e.area.local() + 1;
                    on = if on == 0 || on == this { this } else { SEVERAL };
                }
                Seat::Guest(index) => {
                    let Some(entry) = e.area.guest(index) else { return false };
                    // Acquire pairs with the Release in the host's `welcome`.
                    if entry.state.load(Ordering::Acquire) != guest::WELCOME {
                        return false;
                    }
                    // Relaxed: published by `space_wanted` below.
                    entry.waiting.store(1, Ordering::Relaxed);
                }
            }
        }
        if self.wants.is_empty() {
            return true;
        }
        self.waits_for_space = true;
        // Relaxed: published by `space_wanted` below.
        self.control().waiting_on.store(on, Ordering::Relaxed);
        for ep in &self.wants {
            let e = &self.eps[ep.0 as usize];
            if let Some(control) = e.area.job().control(e.area.local()) {
                // Release pairs with the swap in `tell_waiters`.
                control.space_wanted.store(1, Ordering::Release);
            }
        }
        true
    }
}
