//! Waiting for space, and sleep.
//!
//! A rank that is refused may ask for a report when there is space ([`ShmIface::want`]); while it is
//! awake, its own `progress` polls. When it goes to sleep it says so at the peers whose queues it
//! found full, by the rules of [`bowline_base::doorbell::space`]: `waiting` there is `waiting_on` in
//! the sender's control block, or `waiting` in its guest entry, and `wanted` is `space_wanted` in
//! the peer's control block.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use bowline_base::doorbell::{Doorbell, Sleep, space};
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{Armed, EpId, OpenError, Sink, Wakeup};

use crate::endpoint::Membership;
use crate::iface::ShmIface;
use crate::layout::guest;

/// In `waiting_on`: more than one rank's queue was found full, so any of them may ring.
const SEVERAL: u32 = u32::MAX;

/// How long a rank that cannot sleep on a descriptor waits before it says so: short for a message that
/// arrives meanwhile, long for a processor.
const NAP: Duration = Duration::from_millis(1);

impl ShmIface {
    pub(crate) fn want_writable(&mut self, ep: EpId) {
        if (ep.0 as usize) < self.eps.len() {
            self.wants.ask(ep);
        }
        self.due();
    }

    /// Reports the endpoints that asked and are writable now, in the order of asking.
    pub(crate) fn report_writable(&mut self, sink: &mut dyn Sink, budget: u32) -> u32 {
        let Self { wants, eps, .. } = self;
        wants.report(sink, budget, |ep| {
            let e = &mut eps[ep.0 as usize];
            let ready = e.has_space();
            if ready {
                e.refused_at = None;
                e.refused_len = 0;
            }
            ready
        })
    }

    /// Somebody sleeps until this rank has made space: rings those who wait for it.
    #[cold]
    pub(crate) fn ring_waiters(&mut self) {
        space::answer(&self.control().space_wanted);
        self.receiver.publish_heads();
        let job = self.area.job().clone();
        for local in 0..job.ranks() {
            let Some(control) = job.control(local) else { break };
            // Relaxed: ordered by the answer above.
            let on = control.waiting_on.load(Ordering::Relaxed);
            if on == self.me.local + 1 || on == SEVERAL {
                self.counters.space_rings += 1;
                if let Some(bell) = Doorbell::of_job(&job, local) {
                    bell.ring();
                }
            }
        }
        for (index, guest) in self.guests.iter().enumerate() {
            let waits = self
                .area
                .guest(index as u32)
                // Relaxed: ordered by the answer above.
                .is_some_and(|entry| entry.waiting.load(Ordering::Relaxed) != 0);
            if let (true, Some(guest)) = (waits, guest) {
                self.counters.space_rings += 1;
                guest.ring();
            }
        }
    }

    /// Whether the event descriptor is there. While the process is out of descriptors, the caller is
    /// asked to go on polling; it asks in a loop then, so the answer takes a moment and is logged once.
    fn has_event_fd(&mut self) -> bool {
        let Err(error) = self.bell.event_fd() else {
            self.polls_for_fd = false;
            return true;
        };
        if !std::mem::replace(&mut self.polls_for_fd, true) {
            tracing::warn!(%error, "cannot make the event descriptor; polling until there is one");
        }
        std::thread::sleep(NAP);
        false
    }

    /// Whether the next `progress` has something to do.
    fn has_work(&mut self) -> bool {
        // Acquire pairs with the Release in `Area::bump_attention`.
        if self.area.attention().word.load(Ordering::Acquire) != self.seen_attention
            || self.area.job().death_generation() != self.seen_deaths
            || !self.deferred.is_empty()
            || !self.failures.is_empty()
            || !self.lost.is_empty()
            || self.receiver.ready()
        {
            return true;
        }
        let Self { wants, eps, .. } = self;
        wants.iter().any(|ep| eps[ep.0 as usize].has_space())
    }

    /// Says at the peers whose queues are full that this rank waits. `false`: one of them could
    /// not wake it, so it must not sleep.
    fn announce_waiting(&mut self) -> bool {
        if self.wants.is_empty() {
            return true;
        }
        self.waits_for_space = true;
        let mut on = 0;
        for ep in self.wants.iter() {
            let e = &self.eps[ep.0 as usize];
            match e.membership {
                Membership::Member => {
                    let this = e.area.local() + 1;
                    on = if on == 0 || on == this { this } else { SEVERAL };
                }
                Membership::Guest(index) => {
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
        // Relaxed: published by `space_wanted` below.
        self.control().waiting_on.store(on, Ordering::Relaxed);
        for ep in self.wants.iter() {
            if let Some(wanted) = self.eps[ep.0 as usize].space_wanted() {
                space::ask(wanted);
            }
        }
        true
    }
}

/// A rank on its way to sleep.
pub(crate) struct Going<'a> {
    pub(crate) iface: &'a mut ShmIface,
    pub(crate) kind: Sleep,
    /// From here on, a peer that makes damage or space rings.
    pub(crate) armed: bool,
}

impl space::Sleeper for Going<'_> {
    fn has_work(&mut self) -> bool {
        self.iface.has_work() || (self.armed && self.iface.check_for_damage())
    }

    fn ask(&mut self) -> bool {
        self.iface.announce_waiting()
    }

    fn arm(&mut self) -> bool {
        if self.kind == Sleep::Fd && !self.iface.has_event_fd() {
            return false;
        }
        self.iface.bell.arm(self.kind);
        self.armed = true;
        true
    }

    fn stands(&mut self) -> bool {
        let ShmIface { wants, eps, .. } = &*self.iface;
        wants.iter().all(|ep| eps[ep.0 as usize].space_wanted().is_none_or(space::stands))
    }

    fn disarm(&mut self) {
        self.iface.disarm();
    }
}

impl Wakeup for ShmIface {
    fn doorbell(&self) -> Option<&Doorbell> {
        Some(&self.bell)
    }

    fn arm(&mut self, descriptor: bool) -> Armed {
        let kind = if descriptor { Sleep::Fd } else { Sleep::Futex };
        if self.watch_again() {
            // Nothing would wake this rank when such a guest ends.
            std::thread::sleep(NAP);
            return Armed::Busy;
        }
        let mut going = Going { iface: self, kind, armed: false };
        if space::prepare(&mut going) { Armed::Ready } else { Armed::Busy }
    }

    fn disarm(&mut self) {
        self.bell.disarm();
        if !std::mem::take(&mut self.waits_for_space) {
            return;
        }
        // Relaxed: a ring too many does no harm.
        self.control().waiting_on.store(0, Ordering::Relaxed);
        for e in &self.eps {
            if let Membership::Guest(index) = e.membership
                && let Some(entry) = e.area.guest(index)
            {
                entry.waiting.store(0, Ordering::Relaxed);
            }
        }
    }

    fn event_fd(&mut self) -> Result<BorrowedFd<'_>, OpenError> {
        self.bell
            .event_fd()
            .map_err(|source| OpenError::System { act: "make the event descriptor", source })
    }
}
