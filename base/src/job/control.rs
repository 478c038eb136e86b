//! The control block of a rank: what its peers on the node, the launcher and `bowline ps` may
//! know of it without asking it.
//!
//! Every field is an atomic that any process of the node can write. Readers treat what they find
//! as data of an untrusted peer: a number, checked before it is an index.
//!
//! # Life of a rank
//!
//! The word `identity.state`:
//!
//! ```text
//!   EMPTY ──attach──► ATTACHED ──finalize──► FINALIZED
//! ```
//!
//! 1. `EMPTY` is the zero that memory starts with. Nobody wrote the other fields yet, except
//!    `world_rank`, which the creator of the memory writes.
//! 2. To attach, a rank claims the block by a compare-and-swap of `pid` from 0, fills in
//!    `start_time` and `instance`, and stores `ATTACHED` with Release. A process that loads `ATTACHED`
//!    or `FINALIZED` with Acquire may read the identity; it does not change any more.
//! 3. Only the rank itself stores `FINALIZED`, after its last use of the job's memory. A process
//!    that ends in `ATTACHED` has died, whatever its exit code.
//! 4. Death is not a state of this word, since the dead cannot write it: it is a bit of the
//!    job's death bitmap. See [`JobMemory::mark_dead`](super::JobMemory::mark_dead).

use super::JobMemory;
use crate::doorbell_word::{DoorbellWords, WakeSocket};
use crate::sync::CacheLine;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One rank's control block. Each group has a cache line of its own, since each has other
/// writers and other readers.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ControlBlock {
    /// Who the rank is. Written when it attaches and when it finalises.
    pub identity: CacheLine<Identity>,
    /// How it sleeps. Stored by the rank itself, changed by a thread that wakes it, loaded by every
    /// sender.
    pub doorbell: CacheLine<DoorbellWords>,
    /// What the rank is about to reserve in somebody's queue. It stores the intent before it
    /// takes slots and clears it after they are finalised; a consumer that settles a hole of a
    /// dead producer loads it. The queue's module defines the bits; zero is no intent.
    pub intent: CacheLine<AtomicU64>,
    /// What the rank waits for, for tools that inspect the job.
    pub waiting: CacheLine<Waiting>,
    /// Set by a sender that found this rank's queue full; cleared by the rank when there is space
    /// and the senders are notified.
    pub space_wanted: CacheLine<AtomicU32>,
    /// Local index + 1 of the rank whose queue this one found full; 0 for none.
    pub waiting_on: CacheLine<AtomicU32>,
    /// What the rank does with its processor.
    pub processor: CacheLine<Processor>,
}

/// What a rank does with its processor, for the others that share it or wait for this rank. Hints.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Processor {
    /// The last time that it computed for long before it gave its processor away: see
    /// [`LongRun`](super::LongRun).
    pub long_run: AtomicU64,
    /// 1 from the end of a yield or a sleep of the rank to the next one, else 0.
    pub runs: AtomicU32,
}

/// Who a rank is. The module's text has the rules.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Identity {
    /// [`RankState`] as a number.
    pub state: AtomicU32,
    /// Process that runs the rank, in the namespace of its own `/proc`; 0 before attaching.
    pub pid: AtomicU32,
    /// When that process started, clock ticks since boot (field 22 of `/proc/PID/stat`): distinguishes a
    /// process from a later one with the same number.
    pub start_time: AtomicU64,
    /// Random and never 0 once attached: distinguishes the ranks that are threads of one process.
    pub instance: AtomicU64,
    /// Rank in the whole job.
    pub world_rank: AtomicU32,
    /// Pid namespace in which `pid` is a number; 0 when it is not known.
    pub pid_namespace: AtomicU64,
}

/// What a rank waits for. Hints for people: Relaxed stores of one writer, each field on its own,
/// so a reader may see parts of two waits.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Waiting {
    /// What kind of call waits; 0 for none. The MPI layer defines the numbers.
    pub kind: AtomicU32,
    /// World rank of the peer it waits for; `u32::MAX` for any.
    pub peer: AtomicU32,
    /// Tag, as the engine keeps it.
    pub tag: AtomicU64,
    /// Matching space (communicator context).
    pub context: AtomicU32,
    /// When the wait began, nanoseconds of `CLOCK_MONOTONIC`.
    pub since: AtomicU64,
}

/// Where a rank is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RankState {
    /// Did not attach yet.
    Empty = 0,
    /// Uses the job's memory.
    Attached = 1,
    /// Ended in order.
    Finalized = 2,
}

/// A rank's identity as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankIdentity {
    /// Attached or finalised.
    pub state: RankState,
    /// Process.
    pub pid: u32,
    /// Start of the process, clock ticks since boot.
    pub start_time: u64,
    /// Instance.
    pub instance: u64,
    /// Rank in the whole job.
    pub world_rank: u32,
    /// Pid namespace of `pid`: two processes of one namespace find each other by number.
    pub pid_namespace: Option<u64>,
}

impl ControlBlock {
    /// Where the rank is in its life; `None` for a number that no rank writes.
    pub fn state(&self) -> Option<RankState> {
        // Acquire pairs with the Release stores of `attach` and `finalize`.
        match self.identity.state.load(Ordering::Acquire) {
            0 => Some(RankState::Empty),
            1 => Some(RankState::Attached),
            2 => Some(RankState::Finalized),
            _ => None,
        }
    }

    /// Who the rank is, if it has attached.
    pub fn identity(&self) -> Option<RankIdentity> {
        let state = self.state().filter(|state| *state != RankState::Empty)?;
        let identity = &self.identity;
        // Relaxed: published by the state, which `state` loaded with Acquire.
        Some(RankIdentity {
            state,
            pid: identity.pid.load(Ordering::Relaxed),
            start_time: identity.start_time.load(Ordering::Relaxed),
            instance: identity.instance.load(Ordering::Relaxed),
            world_rank: identity.world_rank.load(Ordering::Relaxed),
            pid_namespace: Some(identity.pid_namespace.load(Ordering::Relaxed))
                .filter(|&namespace| namespace != 0),
        })
    }

    /// Makes the block this process's, or says whose it is.
    pub(super) fn claim(
        &self,
        pid: u32,
        start_time: u64,
        pid_namespace: Option<u64>,
        instance: u64,
    ) -> Result<(), u32> {
        let identity = &self.identity;
        // Relaxed: decides between two claimers only; the identity is published by the state.
        identity.pid.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed)?;
        identity.start_time.store(start_time, Ordering::Relaxed);
        identity.pid_namespace.store(pid_namespace.unwrap_or(0), Ordering::Relaxed);
        identity.instance.store(instance, Ordering::Relaxed);
        // Release pairs with the Acquire of `state`: publishes the identity.
        identity.state.store(RankState::Attached as u32, Ordering::Release);
        Ok(())
    }

    pub(super) fn finish(&self) {
        // Release pairs with the Acquire of `state`: a process that sees it sees all that this rank
        // wrote into the job's memory.
        self.identity.state.store(RankState::Finalized as u32, Ordering::Release);
    }
}

impl JobMemory {
    /// The socket on which a local rank may sleep; `None` before it attached.
    pub(crate) fn wake_socket(&self, local: u32) -> Option<WakeSocket> {
        let instance = self.control(local)?.identity()?.instance;
        WakeSocket::of(self.0.node_id, (local, instance), self.0.wake_token)
    }
}
