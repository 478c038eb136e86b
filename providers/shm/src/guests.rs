//! Peers from other node memories: those who have a seat here, and those at whom this rank has
//! one. No launcher watches them for us; [`crate::watch`] calls our attention when one has ended.

use std::os::fd::{AsFd, OwnedFd};

use bowline_base::doorbell::Doorbell;
use bowline_base::sync::atomic::Ordering;
use bowline_uct::{EpId, PeerFailure};

use crate::addr::{Address, Process};
use crate::area::Area;
use crate::endpoint::{Condition, Seat};
use crate::iface::ShmIface;
use crate::layout::guest;
use crate::{cma, foreign};

/// A peer from another node memory that has a seat here.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) node: u64,
    pub(crate) local: u32,
    pub(crate) instance: u64,
    pidfd: Option<OwnedFd>,
    bell: Option<Doorbell>,
    /// Its own area, if it could be opened.
    area: Option<Area>,
}

impl Guest {
    /// Makes the guest look around.
    pub(crate) fn call(&self) {
        if let Some(area) = &self.area {
            area.bump_attention();
        }
        self.ring();
    }

    pub(crate) fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl ShmIface {
    pub(crate) fn look_at_guests(&mut self) {
        for index in 0..self.guests.len() {
            let Some(entry) = self.area.guest(index as u32) else { break };
            // Acquire pairs with the Release in `fill_in` and in the guest's closing.
            match entry.state.load(Ordering::Acquire) {
                guest::SEATED if self.guests[index].is_none() => {
                    // Relaxed, each read once: published by the state.
                    let address = Address {
                        process: Process {
                            pid: entry.pid.load(Ordering::Relaxed),
                            start_time: entry.start_time.load(Ordering::Relaxed),
                            uid: entry.uid.load(Ordering::Relaxed),
                            // A guest has compared these with ours before it took the seat.
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
        let pidfd = foreign::watch(&address.process).ok();
        let process = &address.process;
        let watched = pidfd.as_ref().is_some_and(|pidfd| {
            self.watch.begin(process, pidfd.as_fd(), &self.area, &self.bell).is_ok()
        });
        let link = self.open_node(address).ok().and_then(|job| {
            let area = Area::join(&job, address.local).ok()?;
            Some((Doorbell::of_job(&job, address.local)?, area))
        });
        let seen = link.is_some() && watched;
        if !seen {
            tracing::debug!(pid = address.process.pid, "cannot open the memory of a guest");
        }
        let (bell, area) = link.map_or((None, None), |(bell, area)| (Some(bell), Some(area)));
        self.guests[index] = Some(Guest {
            node: address.node,
            local: address.local,
            instance: address.instance,
            pidfd,
            bell,
            area,
        });
        if let Some(entry) = self.area.guest(index as u32) {
            let answer = if seen { guest::WELCOME } else { guest::UNSEEN };
            // Release pairs with the Acquire in the guest's `prepare_sleep`. A guest that has
            // left meanwhile is not overwritten.
            let _ = entry.state.compare_exchange(
                guest::SEATED,
                answer,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    /// Looks which of the processes that no launcher watches for us have ended.
    pub(crate) fn watch_foreign(&mut self) {
        for index in 0..self.guests.len() {
            let ended = self.guests[index].as_ref().is_some_and(|guest| {
                guest.pidfd.as_ref().is_some_and(|pidfd| cma::process_ended(pidfd.as_fd()))
                    || guest.area.as_ref().is_some_and(|area| area.job().is_dead(area.local()))
            });
            if ended {
                self.lose_source(self.ranks() + index as u32, PeerFailure::Died);
            }
        }
        for index in 0..self.eps.len() {
            let e = &self.eps[index];
            let ended = e.seat != Seat::Member
                && e.condition == Condition::Open
                && (e.area.job().is_dead(e.area.local())
                    || e.pidfd.as_ref().is_some_and(|pidfd| cma::process_ended(pidfd.as_fd())));
            if ended {
                self.lose_endpoint(EpId(index as u32), PeerFailure::Died);
            }
        }
    }

    /// Makes a guest's entry free for the next one.
    pub(crate) fn free_seat(&mut self, source: u32) {
        let Some(index) = source.checked_sub(self.ranks()) else { return };
        self.guests[index as usize] = None;
        self.gone[source as usize] = false;
        if let Some(entry) = self.area.guest(index) {
            // Relaxed: published by the state.
            entry.intent.store(0, Ordering::Relaxed);
            entry.waiting.store(0, Ordering::Relaxed);
            // Release pairs with the claim in `take_seat`.
            entry.state.store(guest::FREE, Ordering::Release);
        }
    }
}
