//! What one rank has, whatever the communicator: its worker, its connections, the context ids in
//! use, and the buffers that outlived their owners. It makes no decision about messages.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::rc::Weak;
use std::sync::Arc;

use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::slab::Slab;
use bowline_ucp::{
    ConnectError, Envelope, Ep, MatchSpec, MessageInfo, OpError, OpStatus, ReceiveError, RequestId,
    SendMode, Sent, Worker,
};

use crate::coll_options::CollOptions;
use crate::context::ContextIds;
use crate::error::MpiError;
use crate::parts::{Directory, DirectoryError, WorldParts};
use crate::record::Record;
use crate::steps::helped::Helped;
use crate::tags;
use crate::workspace::Workspace;

/// A collective in the background, as its rank moves it on.
pub(crate) trait Background {
    /// Carries out steps as far as they come. Whether it is still under way.
    fn advance(&self) -> bool;
}

/// A buffer whose owner dropped it while its operation was under way.
struct Adopted {
    id: RequestId,
    // Held for its memory only, until `id` is complete.
    _buffer: Box<dyn Any>,
}

/// Workspaces kept for reuse; more are made when collectives nest deeper, and freed after.
const WORKSPACES_MAX: usize = 4;

/// Messages of spaces that are not open that may stay unchecked.
const EARLY_KEPT: usize = 32;

/// A workspace with more scratch than this is not kept, so that one large reduction does not hold
/// its memory for ever.
const SCRATCH_KEPT_MAX: usize = 4 << 20;

pub(crate) struct Process {
    pub(crate) worker: Worker,
    pub(crate) world_rank: u32,
    pub(crate) node_id: u64,
    /// What is asked of collectives.
    pub(crate) collectives: CollOptions,
    /// Whether the ranks of the world have found that they choose algorithms by the same.
    pub(crate) chooses_as_others: Cell<bool>,
    directory: Box<dyn Directory>,
    /// By world rank; filled at the first use of a rank.
    endpoints: Box<[Cell<Option<Ep>>]>,
    pub(crate) contexts: RefCell<ContextIds>,
    workspaces: RefCell<Vec<Workspace>>,
    adopted: RefCell<Vec<Adopted>>,
    /// Space for the operations of a scope, from the last one that ended.
    pub(crate) spare_operations: Cell<Slab<RequestId>>,
    /// Where the next search among several requests starts, so that none is always first.
    pub(crate) rotor: Cell<usize>,
    /// Collectives that are under way in the background.
    runs: RefCell<Vec<Weak<dyn Background>>>,
    /// Their number, while nobody moves them on; else 0.
    idle_runs: Cell<usize>,
    /// Those that a helper moves on beside this rank, where it has one; known from the first run on.
    helped: OnceCell<Option<Arc<Helped>>>,
    /// Messages of spaces that are not open, more than which are checked.
    early_kept: Cell<usize>,
    /// What this rank communicates is written down here, if it is.
    record: OnceCell<Record>,
    /// The process that is this rank; a forked child is another.
    pid: u32,
    // Dropped last, after the worker: fields are dropped in order of declaration.
    _finalizer: Finalizer,
}

struct Finalizer(Option<Box<dyn FnOnce()>>);

impl Drop for Finalizer {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

impl Process {
    pub(crate) fn new(parts: WorldParts) -> Self {
        Self {
            worker: parts.worker,
            world_rank: parts.rank,
            node_id: parts.node_id,
            directory: parts.directory,
            collectives: parts.collectives,
            chooses_as_others: Cell::new(parts.size == 1),
            endpoints: (0..parts.size).map(|_| Cell::new(None)).collect(),
            contexts: RefCell::new(ContextIds::new()),
            workspaces: RefCell::default(),
            adopted: RefCell::default(),
            spare_operations: Cell::default(),
            rotor: Cell::new(0),
            runs: RefCell::default(),
            idle_runs: Cell::new(0),
            helped: OnceCell::new(),
            early_kept: Cell::new(EARLY_KEPT),
            record: OnceCell::new(),
            pid: std::process::id(),
            _finalizer: Finalizer(parts.finalizer),
        }
    }

    /// Whether this is the copy that a forked child has of its parent's.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }

    /// Ranks in the world.
    pub(crate) const fn size(&self) -> u32 {
        self.endpoints.len() as u32
    }

    /// The endpoint of a rank of the world.
    #[inline]
    pub(crate) fn endpoint(&self, world_rank: u32) -> Result<Ep, MpiError> {
        match self.endpoints[world_rank as usize].get() {
            Some(ep) => Ok(ep),
            None => self.connect(world_rank),
        }
    }

    /// The endpoint of a rank of the world, if there was use for it before.
    #[inline(always)]
    pub(crate) fn known_endpoint(&self, world_rank: u32) -> Option<Ep> {
        self.endpoints.get(world_rank as usize)?.get()
    }

    #[cold]
    fn connect(&self, world_rank: u32) -> Result<Ep, MpiError> {
        self.try_connect(world_rank).map_err(|why| {
            if let Some(ConnectError::PeerFailed { how, .. }) = why.downcast_ref() {
                return MpiError::PeerFailed(*how);
            }
            tracing::error!(world_rank, "a rank cannot be reached: {why}");
            MpiError::Unreachable { world_rank }
        })
    }

    /// The endpoint of a rank of the world that may have left. An error is the caller's to report.
    pub(crate) fn try_endpoint(&self, world_rank: u32) -> Result<Ep, DirectoryError> {
        self.endpoints[world_rank as usize].get().map_or_else(|| self.try_connect(world_rank), Ok)
    }

    fn try_connect(&self, world_rank: u32) -> Result<Ep, DirectoryError> {
        if let Some(known) = self.record().and_then(|record| record.endpoint(world_rank)) {
            return Ok(known);
        }
        let ep = self.worker.connect(&self.directory.address(world_rank)?)?;
        match self.record() {
            // Kept out of `endpoints`, so that sends of a recorded rank miss the short path, which writes no record.
            Some(record) => record.connected(world_rank, ep),
            None => self.endpoints[world_rank as usize].set(Some(ep)),
        }
        Ok(ep)
    }

    /// Writes down what this rank communicates from now on. Once, before anything is sent.
    pub(crate) fn begin_record(&self, record: Record) {
        let begun = self.record.set(record);
        debug_assert!(begun.is_ok(), "a rank has one record");
    }

    /// The record of this rank, if it is recorded.
    #[inline(always)]
    pub(crate) fn record(&self) -> Option<&Record> {
        self.record.get()
    }

    /// Sends a message of the program's.
    #[inline(always)]
    pub(crate) fn send(
        &self,
        ep: Ep,
        envelope: Envelope,
        buffer: SendBuf,
        mode: SendMode,
    ) -> Result<Sent, OpError> {
        if self.record().is_some() {
            return self.send_recorded(ep, envelope, buffer, mode);
        }
        self.worker.send(ep, envelope, buffer, mode)
    }

    #[cold]
    #[inline(never)]
    fn send_recorded(
        &self,
        ep: Ep,
        envelope: Envelope,
        buffer: SendBuf,
        mode: SendMode,
    ) -> Result<Sent, OpError> {
        let bytes = buffer.len();
        let record = self.record();
        record.inspect(|record| record.enter());
        let sent = self.worker.send(ep, envelope, buffer, mode)?;
        record.inspect(|record| record.sent(ep, &envelope, bytes));
        Ok(sent)
    }

    /// A receive of the program's was posted.
    #[inline(always)]
    pub(crate) fn posted(&self, id: RequestId, spec: &MatchSpec) {
        if let Some(record) = self.record() {
            record.posted(id, spec);
        }
    }

    /// How an operation of the program's has ended, if it has; then it is forgotten. Moves nothing on.
    #[inline]
    pub(crate) fn take(&self, id: RequestId) -> Option<OpStatus> {
        let status = self.worker.take(id)?;
        if let Some(record) = self.record() {
            record.ended(id, &status);
        }
        Some(status)
    }

    pub(crate) fn take_workspace(&self) -> Workspace {
        self.workspaces.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_workspace(&self, workspace: Workspace) {
        let mut kept = self.workspaces.borrow_mut();
        if kept.len() < WORKSPACES_MAX && size_of_val(&*workspace.scratch) <= SCRATCH_KEPT_MAX {
            kept.push(workspace);
        }
    }

    /// Drops messages of communicators that are closed here, when there may be many. A communicator
    /// that this rank has yet to open is newer than all that it has agreed on.
    pub(crate) fn drop_stale(&self) {
        if self.worker.early_messages() <= self.early_kept.get() {
            return;
        }
        let contexts = self.contexts.borrow();
        self.worker.drop_early(|space, tag| {
            !contexts.is_taken(space / 2) && !contexts.is_to_come(tags::generation(tag))
        });
        // What is checked now is paid by as much that has come since the last check.
        self.early_kept.set(2 * self.worker.early_messages() + EARLY_KEPT);
    }

    /// Has a collective moved on whenever this rank waits or polls for something.
    pub(crate) fn add_run(&self, run: Weak<dyn Background>) {
        let mut runs = self.runs.borrow_mut();
        runs.push(run);
        self.idle_runs.set(runs.len());
    }

    /// The collectives that the rank's helper moves on, where there is one.
    pub(crate) fn helped(&self) -> Option<&Helped> {
        let made = || {
            let helped = Arc::new(Helped::default());
            self.worker.set_background_work(helped.clone()).then_some(helped)
        };
        self.helped.get_or_init(made).as_deref()
    }

    /// Moves all collectives in the background as far as they come. What a run posts may complete at once, so
    /// a run is left only where it waits for something that the worker's progress will count.
    #[inline]
    pub(crate) fn advance(&self) {
        if self.idle_runs.get() > 0 {
            self.advance_runs();
        }
    }

    #[cold]
    #[inline(never)]
    fn advance_runs(&self) {
        let mut next = 0;
        loop {
            let run = self.runs.borrow().get(next).cloned();
            let Some(run) = run else { break };
            // Not borrowed while it moves: operations of the program's run inside of runs, and may start and wait for
            // others, by which they come back here and change the list.
            let goes_on = run.upgrade().is_some_and(|run| run.advance());
            let mut runs = self.runs.borrow_mut();
            let same = |other: &Weak<dyn Background>| Weak::ptr_eq(other, &run);
            if !runs.get(next).is_some_and(same) {
                if let Some(place) = runs.iter().position(same).filter(|_| !goes_on) {
                    runs.remove(place);
                }
                next = 0;
            } else if goes_on {
                next += 1;
            } else {
                runs.remove(next);
            }
        }
        self.idle_runs.set(self.runs.borrow().len());
    }

    /// Whether collectives are under way in the background.
    #[inline(always)]
    fn has_runs(&self) -> bool {
        self.idle_runs.get() > 0
    }

    /// Waits for an operation, which is forgotten. All waits of the layer are here and in the next three: the
    /// rank's collectives in the background go on meanwhile.
    #[inline(always)]
    pub(crate) fn wait(&self, id: RequestId) -> OpStatus {
        if self.has_runs() {
            self.complete_beside_runs(id);
        }
        if self.record().is_some() {
            return self.wait_recorded(id);
        }
        self.worker.wait(id)
    }

    #[cold]
    #[inline(never)]
    fn wait_recorded(&self, id: RequestId) -> OpStatus {
        let record = self.record();
        record.inspect(|record| record.enter());
        let status = self.worker.wait(id);
        record.inspect(|record| {
            record.ended(id, &status);
            record.leave();
        });
        status
    }

    /// Apart, so that the short paths keep nothing for it; so the next.
    #[cold]
    #[inline(never)]
    fn complete_beside_runs(&self, id: RequestId) {
        self.wait_until(|| self.worker.is_complete(id));
    }

    /// Receives a message and waits for it.
    #[inline(always)]
    pub(crate) fn recv_blocking(
        &self,
        spec: MatchSpec,
        buffer: RecvBuf,
    ) -> Result<MessageInfo, ReceiveError> {
        if self.has_runs() {
            return self.recv_beside_runs(spec, buffer);
        }
        if self.record().is_some() {
            return self.recv_recorded(spec, buffer);
        }
        self.worker.recv_blocking(spec, buffer)
    }

    #[cold]
    #[inline(never)]
    fn recv_recorded(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<MessageInfo, ReceiveError> {
        let record = self.record();
        record.inspect(|record| record.enter());
        let message = self.worker.recv_blocking(spec, buffer)?;
        let MessageInfo { source, tag, length } = message;
        record.inspect(|record| {
            record.received(&spec, source, tag, length);
            record.leave();
        });
        Ok(message)
    }

    #[cold]
    #[inline(never)]
    fn recv_beside_runs(
        &self,
        spec: MatchSpec,
        buffer: RecvBuf,
    ) -> Result<MessageInfo, ReceiveError> {
        let id = self.worker.recv_awaited(spec, buffer)?;
        self.posted(id, &spec);
        self.wait(id).message()
    }

    /// Waits until `done`, which is asked after everything that happens.
    pub(crate) fn wait_until(&self, mut done: impl FnMut() -> bool) {
        self.record().inspect(|record| record.enter());
        self.worker.wait_until(|| {
            self.advance();
            done()
        });
        self.record().inspect(|record| record.leave());
    }

    /// Moves operations on for a caller that comes again and again; after some calls in vain each gives the
    /// processor to another thread.
    pub(crate) fn progress_or_yield(&self) {
        self.record().inspect(|record| record.enter());
        self.worker.progress_or_yield();
        self.advance();
    }

    /// Lets an operation end by itself and keeps its buffer until then.
    pub(crate) fn adopt(&self, id: RequestId, buffer: Box<dyn Any>) {
        self.worker.detach(id);
        let mut adopted = self.adopted.borrow_mut();
        // Testing all of them whenever their number has doubled costs a constant per operation.
        if adopted.len() == adopted.capacity() {
            adopted.retain(|old| !self.worker.is_complete(old.id));
        }
        adopted.push(Adopted { id, _buffer: buffer });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What was sent in the background is sent before this rank leaves, and no peer may write
        // into a buffer that is freed.
        // Where the wait unwinds, the buffers of what is under way are leaked: the worker that uses them
        // is dropped only after this.
        let adopted = ManuallyDrop::new(self.adopted.take());
        self.worker.wait_until(|| adopted.iter().all(|old| self.worker.is_complete(old.id)));
        drop(ManuallyDrop::into_inner(adopted));
        if !std::thread::panicking() {
            // Peers wait for what was sent to them, and for answers to what was received here.
            self.worker.drain();
        }
        if let Some(record) = self.record() {
            record.finish();
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Process")
            .field("world_rank", &self.world_rank)
            .field("world_size", &self.endpoints.len())
            .finish_non_exhaustive()
    }
}
