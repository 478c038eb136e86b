//! Peers from other node memories: those that are guests here, and those at whom this rank has
//! one. No launcher watches them for us; [`crate::watch`] calls our attention when one has ended.

use std::os::fd::AsFd;

use bowline_base::doorbell::Doorbell;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{EpId, PeerFailure};

use crate::addr::{Address, NO_FD, Process};
use crate::area::Area;
use crate::endpoint::Membership;
use crate::iface::ShmIface;
use crate::layout::guest;
use crate::source::{Guest, Presence};
use crate::{cma, foreign};

impl ShmIface {
    pub(crate) fn check_guests(&mut self) {
        for index in 0..self.guests.len() {
            let Some(entry) = self.area.guest(index as u32) else { break };
            // Acquire pairs with the Release in `fill_in` and in the guest's closing.
            match entry.state.load(Ordering::Acquire) {
                guest::JOINED if self.guests[index].is_none() => {
                    // Relaxed, each read once: published by the state.
                    let address = Address {
                        process: Process {
                            pid: entry.pid.load(Ordering::Relaxed),
                            start_time: entry.start_time.load(Ordering::Relaxed),
                            uid: entry.uid.load(Ordering::Relaxed),
                            // A guest has compared these with ours before it took the entry.
                            ..self.me.process
                        },
                        instance: entry.instance.load(Ordering::Relaxed),
                        node: entry.node.load(Ordering::Relaxed),
                        fd: entry.fd.load(Ordering::Relaxed),
                        local: entry.local.load(Ordering::Relaxed),
                        probe_at: 0,
                        probe_word: 0,
                    };
                    self.welcome(index, &address);
                }
                guest::LEFT => {
                    self.lose_source(self.ranks() + index as u32, PeerFailure::Closed);
                }
                _ => {}
            }
        }
    }

    /// Opens a new guest's memory, so that it can be woken and its death be seen.
    fn welcome(&mut self, index: usize, address: &Address) {
        self.guests[index] = Some(Guest {
            node: address.node,
            local: address.local,
            instance: address.instance,
            process: address.process,
            pidfd: None,
            short: false,
            bell: None,
            area: None,
        });
        self.watch_guest(index);
        if self.guests[index].as_ref().is_some_and(|guest| guest.pidfd.is_none()) {
            return self.answer_guest(index, false);
        }
        let link = self.open_node(address);
        if let (Err(error), Some(guest)) = (&link, &mut self.guests[index]) {
            tracing::debug!(pid = address.process.pid, %error, "cannot open the memory of a guest");
            guest.short = foreign::is_shortage(error);
            self.unwatched |= guest.short;
        }
        let link = link.ok().and_then(|job| {
            let area = Area::join(&job, address.local).ok()?;
            Some((Doorbell::of_job(&job, address.local)?, area))
        });
        let seen = link.is_some();
        if let (Some(guest), Some((bell, area))) = (&mut self.guests[index], link) {
            (guest.bell, guest.area) = (Some(bell), Some(area));
        }
        self.answer_guest(index, seen);
    }

    /// Has a guest's process watched. One that has ended is lost at once.
    fn watch_guest(&mut self, index: usize) {
        let Some(guest) = &mut self.guests[index] else { return };
        let (watch, bell) = (&mut self.watch, &self.bell);
        let watched = foreign::watch(&guest.process).and_then(|pidfd| {
            watch.begin(&guest.process, pidfd.as_fd(), &self.area, bell).map(|()| pidfd)
        });
        guest.short = false;
        match watched {
            Ok(pidfd) => guest.pidfd = Some(pidfd),
            Err(error) if foreign::has_ended(&error) => {
                let how = self.end_of_guest(index);
                self.lose_source(self.ranks() + index as u32, how);
            }
            Err(error) => {
                guest.short = foreign::is_shortage(&error);
                let pid = guest.process.pid;
                if !guest.short {
                    tracing::warn!(pid, %error, "cannot watch the process of a guest");
                } else if !std::mem::replace(&mut self.unwatched, true) {
                    tracing::warn!(pid, %error, "cannot watch the process of a guest; trying again");
                }
            }
        }
    }

    /// How a guest whose process has ended went.
    fn end_of_guest(&self, index: usize) -> PeerFailure {
        let entry = self.area.guest(index as u32);
        // Acquire: as in `check_guests`.
        let left = entry.is_some_and(|entry| entry.state.load(Ordering::Acquire) == guest::LEFT);
        if left { PeerFailure::Closed } else { PeerFailure::Died }
    }

    /// Tries again to watch the guests for which there was no descriptor. Whether some are left.
    #[cold]
    pub(crate) fn watch_again(&mut self) -> bool {
        if !self.unwatched {
            return false;
        }
        for index in 0..self.guests.len() {
            let Some(guest) = self.guests[index].as_ref().filter(|guest| guest.short) else {
                continue;
            };
            let address = Address {
                process: guest.process,
                instance: guest.instance,
                node: guest.node,
                local: guest.local,
                ..self.me
            };
            let fd = self.area.guest(index as u32).map(|entry| entry.fd.load(Ordering::Relaxed));
            self.welcome(index, &Address { fd: fd.unwrap_or(NO_FD), ..address });
        }
        self.unwatched = self.guests.iter().flatten().any(|guest| guest.short);
        self.unwatched
    }

    /// Lets a guest know whether it can be woken.
    fn answer_guest(&mut self, index: usize, seen: bool) {
        let Some(entry) = self.area.guest(index as u32) else { return };
        let (from, to) = if seen {
            // It may have read otherwise before.
            ([guest::JOINED, guest::UNSEEN], guest::WELCOME)
        } else {
            ([guest::JOINED; 2], guest::UNSEEN)
        };
        for before in from {
            // Release pairs with the Acquire in the guest's `announce_waiting`. A guest that has left
            // meanwhile is not overwritten.
            let _ = entry.state.compare_exchange(before, to, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Checks which of the processes that no launcher watches for us have ended. One that has left in order before that
    /// has not died: that it has left is read after its end was seen, since it may have done both since the last check.
    pub(crate) fn watch_foreign(&mut self) {
        for index in 0..self.guests.len() {
            let ended = self.guests[index].as_ref().is_some_and(|guest| {
                guest.pidfd.as_ref().is_some_and(|pidfd| cma::process_ended(pidfd.as_fd()))
                    || guest.area.as_ref().is_some_and(|area| area.job().is_dead(area.local()))
            });
            if ended {
                let how = self.end_of_guest(index);
                self.lose_source(self.ranks() + index as u32, how);
            }
        }
        for index in 0..self.eps.len() {
            let e = &self.eps[index];
            let ended = e.membership != Membership::Member
                && e.lives()
                && (e.area.job().is_dead(e.area.local())
                    || e.pidfd.as_ref().is_some_and(|pidfd| cma::process_ended(pidfd.as_fd())));
            if ended {
                let how = if e.is_closed() { PeerFailure::Closed } else { PeerFailure::Died };
                self.lose_endpoint(EpId(index as u32), how);
            }
        }
    }

    /// Makes a guest's entry free for the next one.
    pub(crate) fn free_guest(&mut self, source: u32) {
        let Some(index) = source.checked_sub(self.ranks()) else { return };
        if let Some(guest) = self.guests[index as usize].take() {
            self.mappings.forget(&guest.process);
        }
        self.gone[source as usize] = Presence::There;
        self.area.refused().set(source, false);
        self.forget_nodes();
        if let Some(entry) = self.area.guest(index) {
            // Relaxed: published by the state.
            entry.intent.store(0, Ordering::Relaxed);
            entry.waiting.store(0, Ordering::Relaxed);
            // Release pairs with the claim in `join`.
            entry.state.store(guest::FREE, Ordering::Release);
        }
    }
}
