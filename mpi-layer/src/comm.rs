//! Communicators: a group, this rank's place in it, and two contexts of their own.
//!
//! What a communicator is, is here, and below it how they are made; what is sent through them is in [`p2p`](crate::p2p) and
//! [`coll`](crate::coll).

pub(crate) mod agree;
mod create;
mod numbers;
pub(crate) mod recorded;

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;

use bowline_ucp::{Ep, MatchSpec, SpaceOptions};

use crate::choices::Chosen;
use crate::consts::PROC_NULL;
use crate::context::{self, Agreed};
use crate::error::MpiError;
use crate::group::{Comparison, Group};
use crate::parts::DirectoryError;
use crate::process::Process;
use crate::shared_memory::Shared;
use crate::shared_memory::Staging;
use crate::tags;
use crate::topology::Placed;
use numbers::Numbers;

/// A group of ranks that exchange messages which no other communicator sees. (MPI: Groups,
/// Contexts, Communicators.)
///
/// Cheap to clone: clones are the same communicator. Bound to the thread of its rank. The last
/// clone gives its context back when it is dropped; messages that nobody received are lost then.
#[derive(Clone)]
pub struct Communicator {
    pub(crate) inner: Rc<CommInner>,
}

pub(crate) struct CommInner {
    pub(crate) process: Rc<Process>,
    pub(crate) group: Group,
    pub(crate) size: u32,
    pub(crate) rank: u32,
    pub(crate) generation: u32,
    pub(crate) oversubscribed: bool,
    context: u32,
    /// Collectives begun so far; the same at all members.
    sequence: Cell<u32>,
    /// The numbers of nonblocking collectives and those of persistent ones, from the first of either on.
    numbers: OnceCell<Box<RefCell<[Numbers; 2]>>>,
    /// Whether the space of collectives is open, which it is from the first one on: most of many
    /// communicators have none. What others have sent of the first one by then waits for that.
    collecting: Cell<bool>,
    /// The shared memory of its small collectives; empty before the first of them, `None` inside
    /// where there is none.
    pub(crate) shared: OnceCell<Option<Box<Shared>>>,
    /// The staging memory of its other collectives, likewise.
    pub(crate) staging: OnceCell<Option<Box<Staging>>>,
    /// Its algorithms; chosen from its first collective on.
    pub(crate) chosen: OnceCell<Box<Chosen>>,
    /// Its topology, if it was made with one.
    pub(crate) placed: OnceCell<Rc<Placed>>,
}

/// The space of point-to-point messages of a context.
const fn messages(context: u32) -> u32 {
    context * 2
}

/// The space of collectives of a context.
const fn collectives(context: u32) -> u32 {
    context * 2 + 1
}

impl CommInner {
    /// Opens the spaces of an agreed context for `group`, of which this rank is a member.
    pub(crate) fn open(
        process: &Rc<Process>,
        group: Group,
        agreed: Agreed,
    ) -> Result<Communicator, MpiError> {
        let rank = group
            .position(process.world_rank)
            .expect("a communicator is opened by its members only");
        let worker = &process.worker;
        let refused = |why: &dyn fmt::Display| {
            tracing::error!(context = agreed.context, "cannot open a communicator: {why}");
            MpiError::TooManyCommunicators
        };
        let context = agreed.context;
        let options = Self::options(&group, false);
        worker.open_space(messages(context), options).map_err(|why| refused(&why))?;
        process.contexts.borrow_mut().take(context);
        let inner = Self {
            process: process.clone(),
            size: group.size(),
            group,
            rank,
            generation: agreed.generation,
            oversubscribed: agreed.oversubscribed,
            context,
            sequence: Cell::new(0),
            numbers: OnceCell::new(),
            collecting: Cell::new(false),
            shared: OnceCell::new(),
            staging: OnceCell::new(),
            chosen: OnceCell::new(),
            placed: OnceCell::new(),
        };
        process.drop_stale();
        if let Some(record) = process.record() {
            record.opened(inner.within());
        }
        Ok(Communicator { inner: Rc::new(inner) })
    }

    /// How its spaces are opened.
    fn options(group: &Group, collective: bool) -> SpaceOptions {
        let members = Some(group.members());
        let describe: Option<fn(u64) -> String> = collective.then_some(tags::describe);
        SpaceOptions { members, collective, ranks: group.size(), engine: None, describe }
    }

    /// Opens the space of collectives.
    #[cold]
    fn begin_collecting(&self) {
        let options = Self::options(&self.group, true);
        let opened = self.process.worker.open_space(self.collective_space(), options);
        opened.expect("the space belongs to this communicator's context, which has opened it once");
        self.collecting.set(true);
    }

    /// Whether it is the communicator of all ranks, on which nobody has agreed.
    pub(crate) const fn is_world(&self) -> bool {
        self.context == context::WORLD
    }

    /// The space of point-to-point messages.
    #[inline]
    pub(crate) const fn space(&self) -> u32 {
        messages(self.context)
    }

    /// The space of collectives.
    #[inline]
    pub(crate) const fn collective_space(&self) -> u32 {
        collectives(self.context)
    }

    /// The number of the collective that begins now.
    #[inline]
    pub(crate) fn next_sequence(&self) -> u32 {
        if !self.collecting.get() {
            self.begin_collecting();
        }
        let sequence = self.sequence.get();
        self.sequence.set(sequence.wrapping_add(1));
        sequence
    }

    /// The match of the messages of a collective that has no phases.
    pub(crate) fn collective_spec(&self, sequence: u32) -> MatchSpec {
        let tag = tags::collective(self.generation, sequence);
        MatchSpec { space: self.collective_space(), source: None, tag, tag_mask: u64::MAX }
    }

    /// The endpoint of a rank that is known to be in the communicator.
    #[inline]
    pub(crate) fn endpoint(&self, rank: u32) -> Result<Ep, MpiError> {
        let world = self.group.world_rank(rank).expect("the rank was checked against the size");
        self.process.endpoint(world)
    }

    /// The same, if there was use for it before.
    #[inline(always)]
    pub(crate) fn known_endpoint(&self, rank: u32) -> Option<Ep> {
        self.process.known_endpoint(self.group.world_rank(rank)?)
    }

    /// The same of a rank that may have left. An error is the caller's to report.
    pub(crate) fn try_endpoint(&self, rank: u32) -> Result<Ep, DirectoryError> {
        let world = self.group.world_rank(rank).expect("the rank was checked against the size");
        self.process.try_endpoint(world)
    }
}

impl Drop for CommInner {
    fn drop(&mut self) {
        if self.process.is_forked() {
            // The connections, the memory and the threads behind them are the parent's: neither
            // this end nor that of the process may touch them, so the process never ends here.
            std::mem::forget(Rc::clone(&self.process));
            return;
        }
        if let Some(Some(shared)) = self.shared.get() {
            shared.release(&self.process.worker);
        }
        if let Some(Some(staging)) = self.staging.get() {
            staging.release(&self.process.worker);
        }
        self.process.worker.close_space(self.space());
        self.process.worker.close_space(self.collective_space());
        self.process.contexts.borrow_mut().free(self.context);
        self.process.drop_stale();
    }
}

impl Communicator {
    /// This rank's number in the communicator. (`MPI_Comm_rank`)
    #[inline]
    pub fn rank(&self) -> i32 {
        self.inner.rank as i32
    }

    /// Ranks in the communicator. (`MPI_Comm_size`)
    #[inline]
    pub fn size(&self) -> i32 {
        self.inner.size as i32
    }

    /// The ranks of the communicator. (`MPI_Comm_group`)
    pub fn group(&self) -> Group {
        self.inner.group.clone()
    }

    /// How two communicators relate. (`MPI_Comm_compare`)
    pub fn compare(&self, other: &Self) -> Comparison {
        if Rc::ptr_eq(&self.inner, &other.inner) {
            return Comparison::Identical;
        }
        match self.inner.group.compare(&other.inner.group) {
            Comparison::Identical => Comparison::Congruent,
            different => different,
        }
    }

    /// Ranks of this communicator that are known to have failed. (The proposal "User Level
    /// Failure Mitigation", `MPIX_Comm_get_failed`.)
    pub fn failed(&self) -> Vec<i32> {
        let failed = self.inner.process.worker.failures();
        failed.iter().filter_map(|&w| self.inner.group.position(w)).map(|r| r as i32).collect()
    }

    /// Takes note of all failures known now: receives from [`ANY_SOURCE`](crate::ANY_SOURCE)
    /// work again and wait for the living. (`MPIX_Comm_ack_failed`)
    pub fn acknowledge_failures(&self) {
        let worker = &self.inner.process.worker;
        worker.acknowledge_failures(self.inner.space());
    }

    /// Moves pending operations forward without waiting. Returns how many events were handled.
    pub fn progress(&self) -> u32 {
        let events = self.inner.process.worker.progress();
        self.inner.process.advance();
        events
    }

    /// The checked rank of a root.
    #[inline]
    pub(crate) fn root(&self, root: i32) -> Result<u32, MpiError> {
        if (root as u32) < self.inner.size {
            return Ok(root as u32);
        }
        Err(MpiError::InvalidRoot { root, size: self.inner.size })
    }

    /// Success when a partner is nobody, an error when it is neither that nor a rank.
    #[cold]
    pub(crate) fn null_partner(&self, rank: i32) -> Result<(), MpiError> {
        if rank == PROC_NULL {
            return Ok(());
        }
        Err(MpiError::InvalidRank { rank, size: self.inner.size })
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Communicator")
            .field("rank", &self.inner.rank)
            .field("size", &self.inner.size)
            .field("context", &self.inner.context)
            .finish_non_exhaustive()
    }
}
