//! The sending side towards one peer.
//!
//! An endpoint holds two routes to the peer's receive memory: its shared queue, always, and one of
//! its rings once this sender is hot; [`bowline_base::ring::promote`] has the rules by which it
//! goes from one to the other. It is numbered by its [`EpId`](bowline_uct::EpId).
//!
//! ```text
//!            disconnect               the peer fails
//!   Open ◄──────────────► Dormant ───────────────────┐
//!     │       connect                                ▼
//!     └─ the peer fails ─► Failed ── disconnect ──► Over ──► Vacant ── connect to anybody ──► Open
//! ```
//!
//! 1. A disconnected endpoint stays in its place, dormant, as long as its peer is there: a ring that
//!    it owns is not lost, and the next `connect` to that peer opens it again.
//! 2. An endpoint that has failed stays until its user disconnects it, who may name it until then.
//! 3. When both have happened and the failure was reported, nothing leads to the endpoint any more:
//!    it gives its mapping and its descriptors back, and its number goes to the next peer.
//! 4. Keys and events of an endpoint name its `serial`, which no other one ever has.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use bowline_base::doorbell::Doorbell;
use bowline_base::ring::promote::Sending;
use bowline_base::scmp::seq;
use bowline_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use bowline_base::words::DirectWords;
use bowline_uct::{PeerFailure, PostError};
use rustix::process::Pid;

use crate::addr::Process;
use crate::area::Area;
use crate::layout::guest;
use crate::lent::Lent;

/// Whether an endpoint may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It may.
    Open,
    /// Its user has disconnected it; it is opened again by the next `connect`.
    Dormant,
    /// Its peer has failed, or it was invalidated.
    Failed(PeerFailure),
    /// Both: it goes when its failure was reported.
    Over(PeerFailure),
    /// Nobody's: the next `connect` takes the place. It leads to this rank itself, which has its own
    /// memory anyway.
    Vacant,
}

/// What the kernel says of the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cma {
    /// The peer is a thread of this process and its memory nobody else's: plain copies of what it
    /// has lent.
    Here,
    /// Permitted when it was probed.
    Allowed(Pid),
    /// Switched off, or refused by the kernel.
    Refused,
}

/// Where the peer sees us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// As a rank of the same node memory.
    Member,
    /// As a guest, with this entry of its table.
    Guest(u32),
}

impl Membership {
    /// Gives the entry in the table of `area` back, which is not used any more.
    pub(crate) fn leave(self, area: &Area) {
        if let Self::Guest(index) = self
            && let Some(entry) = area.guest(index)
        {
            // Release pairs with the Acquire in `check_guests`.
            entry.state.store(guest::LEFT, Ordering::Release);
            area.bump_attention();
        }
    }
}

/// A word in shared memory, found once and kept by its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedWord<T>(NonNull<T>);

/// The word in which a sender announces what it is about to reserve.
pub(crate) type Intent = SharedWord<AtomicU64>;

// SAFETY: it leads to an atomic in a mapping that outlives it, see `SharedWord::new`.
unsafe impl<T: Sync> Send for SharedWord<T> {}

impl<T> SharedWord<T> {
    /// # Safety
    /// - The holder of the value must keep the mapping of `word` alive as long.
    pub(crate) unsafe fn new(word: &T) -> Self {
        Self(NonNull::from(word))
    }

    #[inline]
    pub(crate) fn word(&self) -> &T {
        // SAFETY: the mapping lives, by the promise to `new`; an atomic may be shared.
        unsafe { self.0.as_ref() }
    }
}

/// The sending side towards one peer. Fields that are made of shared memory come before `area`,
/// which keeps the mapping.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Which route the next message takes; `Queue` while the condition is not `Open`, so that a
    /// post reads the condition only where it has time.
    pub(crate) sending: Sending<DirectWords>,
    /// The route of an endpoint that is not open, kept because a ring that we own must be given
    /// back in order.
    pub(crate) stash: Sending<DirectWords>,
    /// Where to ring after a message.
    pub(crate) bell: Doorbell,
    pub(crate) condition: Condition,
    /// Of this endpoint alone, whatever its number.
    pub(crate) serial: u64,
    /// Messages by the shared queue since the last ring was asked for.
    pub(crate) by_queue: u32,
    /// The longest message that was refused since there was space, and the generation of the queue
    /// that refused it.
    pub(crate) refused_len: usize,
    pub(crate) refused_at: Option<u32>,
    pub(crate) queue: seq::Producer<DirectWords>,
    pub(crate) intent: Intent,
    /// Our number at the peer.
    pub(crate) source: u32,
    pub(crate) membership: Membership,
    pub(crate) cma: Cma,
    /// What a thread rank has lent.
    pub(crate) lent: Option<Arc<Lent>>,
    /// Transfers after which a test wants the kernel to refuse.
    pub(crate) refuse_after: Option<u32>,
    /// Held for a peer that no launcher holds for us.
    pub(crate) pidfd: Option<OwnedFd>,
    /// A one-sided operation without a token that failed after it had begun; the next flush
    /// reports it.
    pub(crate) lost: Option<PeerFailure>,
    pub(crate) process: Process,
    pub(crate) instance: u64,
    pub(crate) node: u64,
    pub(crate) area: Area,
}

impl Endpoint {
    /// The error of a post on an endpoint that is not open.
    #[inline(always)]
    pub(crate) fn refusal(&self) -> Option<PostError> {
        // One comparison where it is open.
        if matches!(self.condition, Condition::Open) { None } else { Some(self.not_open()) }
    }

    #[cold]
    #[inline(never)]
    fn not_open(&self) -> PostError {
        match self.condition {
            Condition::Failed(_) => PostError::PeerFailed,
            Condition::Open | Condition::Dormant | Condition::Over(_) | Condition::Vacant => {
                PostError::BadEndpoint
            }
        }
    }

    /// Whether this endpoint leads to the interface at that place.
    pub(crate) fn leads_to(&self, node: u64, local: u32, instance: u64) -> bool {
        self.condition != Condition::Vacant
            && (self.node, self.area.local(), self.instance) == (node, local, instance)
    }

    /// Whether its peer may still be there.
    pub(crate) fn lives(&self) -> bool {
        matches!(self.condition, Condition::Open | Condition::Dormant)
    }

    /// The peer's local rank in this node memory, if it is a member of it.
    pub(crate) fn member(&self) -> Option<u32> {
        let leads = self.membership == Membership::Member && self.condition != Condition::Vacant;
        leads.then(|| self.area.local())
    }

    /// The word in which a sender asks the peer to be rung when there is space.
    pub(crate) fn space_wanted(&self) -> Option<&AtomicU32> {
        Some(&self.area.job().control(self.area.local())?.space_wanted)
    }

    /// Stops all sending; returns whether the peer had not failed before.
    pub(crate) fn fail(&mut self, how: PeerFailure) -> bool {
        if self.condition == Condition::Open {
            self.stash = std::mem::replace(&mut self.sending, Sending::Queue);
        }
        self.condition = match self.condition {
            Condition::Open => Condition::Failed(how),
            Condition::Dormant => Condition::Over(how),
            Condition::Failed(_) | Condition::Over(_) | Condition::Vacant => return false,
        };
        true
    }

    /// Takes the endpoint out of use until it is connected again, or for ever if its peer has failed.
    pub(crate) fn rest(&mut self) {
        if self.condition == Condition::Open {
            self.stash = std::mem::replace(&mut self.sending, Sending::Queue);
        }
        self.condition = match self.condition {
            Condition::Open | Condition::Dormant => Condition::Dormant,
            Condition::Failed(how) | Condition::Over(how) => Condition::Over(how),
            Condition::Vacant => Condition::Vacant,
        };
    }

    /// Opens a dormant endpoint again.
    pub(crate) fn wake(&mut self) {
        if self.condition == Condition::Dormant {
            self.sending = std::mem::replace(&mut self.stash, Sending::Queue);
            self.condition = Condition::Open;
        }
    }

    /// Whether one of the peer's rings is ours.
    pub(crate) fn owns_ring(&self) -> bool {
        matches!(self.sending, Sending::Ring(_)) || matches!(self.stash, Sending::Ring(_))
    }

    /// Gives a ring back whose receiver wants it for somebody else. Whether that is done; else
    /// the ring is full and it must be tried again.
    pub(crate) fn give_ring_back(&mut self) -> bool {
        let route = match self.condition {
            Condition::Open => &mut self.sending,
            _ => &mut self.stash,
        };
        let Sending::Ring(ring) = route else { return true };
        ring.refresh();
        if !ring.evicted() || ring.is_damaged() {
            return true;
        }
        let done = route.end();
        if done {
            self.by_queue = 0;
        }
        done
    }

    /// Whether an operation that was refused may succeed now.
    pub(crate) fn has_space(&mut self) -> bool {
        if self.condition != Condition::Open {
            return true;
        }
        match &mut self.sending {
            Sending::Ring(ring) if ring.is_damaged() => true,
            Sending::Ring(ring) => {
                ring.has_space()
                    && (self.refused_len <= bowline_base::ring::MAX_INLINE
                        || ring.reserve_data(self.refused_len).is_some())
            }
            Sending::Queue | Sending::Claimed { .. } => {
                self.refused_at.is_none_or(|at| at != self.queue.generation())
                    || self.queue.is_closed()
            }
        }
    }
}
