//! Collectives in the background: the steps of a rank, carried out as far as they come whenever the rank calls.
//!
//! ```text
//!           start                 the last step has ended, or one has failed
//!   Idle ──────────► Active ────────────────────────────────────────────────► Ended(outcome)
//!     ▲                                                                           │
//!     └──────────────────────────── finish: the outcome was reported ─────────────┘
//! ```
//! Rules. (1) A run owns what its steps need: the communicator, copies of what does not lie side by side, the
//! operation. The program's memory is the program's, which leaves it alone while the run is active. (2) `advance`
//! carries out steps until one waits for a message; it waits for nothing itself, and may be called inside of any
//! other call. (3) A step that fails cancels what is under way, and the run ends when all of that has ended. What
//! the death of a rank means to others is the business of the communicator's space, as for blocking collectives; after
//! a failure of this rank's own the rest of the steps is carried out without bytes, so that the others fail, too,
//! in place of waiting for it (rule 3 of [`memory`](crate::steps::memory)).
//! (4) A run that is dropped while it is active fails in this way and waits for its end, since the memory is
//! in use so long. (5) Where the rank has a helper thread, that carries out steps as well ([`helped`](crate::steps::helped)): those that
//! need no code of the program's. The end of a run, with what is unpacked then, is the rank's. (6) One that has
//! failed fails at each later start with the same error, and sends no bytes: messages of the start that failed may
//! still come, and none says of which start it is.
//! Why it is so: `docs/decisions/0022-collectives-in-the-background.md`, and for (5)
//! `docs/decisions/0025-collectives-beside-the-rank.md`.

use bowline_base::sync::atomic::AtomicBool;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bowline_base::repeat::Repeat;
use bowline_ucp::OpError;

use super::arena::Buffers;
use super::raw::{ReduceOp, Side};
use super::spans::Recorded;
use crate::comm::Communicator;
use crate::error::MpiError;
use crate::process::Background;
use crate::record::{Call, Series};
use crate::steps::core::{Core, Ended, Names, Shared};
use crate::steps::memory::Spaces;
use crate::tags;
use crate::unwinding::without_unwinding;

/// A collective in the background, which may be one that is started again and again.
pub struct Run {
    comm: Communicator,
    shared: Arc<Shared>,
    /// Bytes of scratch.
    scratch: usize,
    op: Option<ReduceOp>,
    /// How its starts are written down, where its rank is recorded.
    call: Option<(Box<Call>, Series)>,
    /// The number of its last start in the record, until its end is written down.
    written: Cell<Option<u32>>,
    /// Its tag, as long as its number is in use, which that of a persistent one is between its starts, too.
    tag: Cell<Option<u64>>,
    again: bool,
    state: Cell<State>,
    /// How it has failed (rule 6).
    failed: Cell<Option<MpiError>>,
    /// The rank's thread carries out a step, further out on the stack.
    moving: Cell<bool>,
    sides: RefCell<Sides>,
}

/// Bytes that a run reads and writes from which on its first steps are the helper's, too: to send or copy so much takes the
/// rank longer than to wake the helper.
const LEFT_TO_HELPER: usize = 64 << 10;

/// What is read, and what is written.
type Sides = (Box<dyn Side>, Box<dyn Side>);

#[derive(Clone, Copy)]
enum State {
    Idle,
    Active,
    Ended(Result<(), MpiError>),
}

impl Run {
    /// A run that was recorded: of the next collective of the communicator, or of a persistent one.
    ///
    /// # Errors
    /// [`MpiError::BeyondReach`], [`MpiError::NumberInUse`].
    pub(super) fn new(
        comm: &Communicator,
        recorded: Recorded,
        sides: Sides,
        op: Option<ReduceOp>,
        again: bool,
    ) -> Result<Rc<Self>, MpiError> {
        // The number is taken in any case, since other ranks may have succeeded.
        let tag = comm.inner.next_tag(again)?;
        let Some(steps) = recorded.recorder.finish() else {
            comm.inner.free_tag(again, tag);
            return Err(MpiError::BeyondReach);
        };
        let names = Names { own: comm.inner.own(), tag };
        let series = match again {
            true => Series::Persistent(tags::number(tag)),
            false => Series::Nonblocking,
        };
        if let (true, Some(record)) = (again, comm.inner.process.record()) {
            // It was made, and the program goes on; the others are started at once.
            record.leave();
        }
        let core = Core::new(steps, names, op.as_ref().and_then(ReduceOp::predefined));
        Ok(Rc::new(Self {
            comm: comm.clone(),
            shared: Arc::new(Shared { core: Repeat::new(core), listed: AtomicBool::new(false) }),
            scratch: recorded.scratch,
            op,
            call: recorded.call.map(|call| (call, series)),
            written: Cell::new(None),
            tag: Cell::new(Some(tag)),
            again,
            state: Cell::new(State::Idle),
            failed: Cell::new(None),
            moving: Cell::new(false),
            sides: RefCell::new(sides),
        }))
    }

    /// Starts it. Whether it was idle; else nothing has happened.
    ///
    /// # Safety
    /// The memory that it was made with is what the maker promised, until the run has ended or is dropped.
    pub(crate) unsafe fn start(self: &Rc<Self>) -> bool {
        if !matches!(self.state.get(), State::Idle) {
            return false;
        }
        if let Some(error) = self.failed.get().filter(|error| !error.is_own()) {
            self.state.set(State::Ended(Err(error)));
            return true;
        }
        let record = self.call.as_ref().and_then(|_| self.comm.inner.process.record());
        record.inspect(|record| record.enter());
        // SAFETY: promised by the caller.
        unsafe { self.begin() };
        if let Some((call, series)) = &self.call {
            self.written.set(self.comm.inner.started(call, *series));
        }
        true
    }

    /// Starts it, which can be.
    ///
    /// # Safety
    /// As for `start`.
    unsafe fn begin(self: &Rc<Self>) {
        let (input, output) = {
            let (source, target) = &mut *self.sides.borrow_mut();
            source.load();
            target.load();
            (source.memory(), target.memory())
        };
        let process = &self.comm.inner.process;
        let mut workspace = process.take_workspace();
        // SAFETY: promised by the caller for the program's memory. Copies are the sides', which stay where they
        // are and are not used before the run has ended. Both are there so long: see `drop`.
        let buffers = unsafe { Buffers::at((input.0.cast_const(), input.1), output) };
        // SAFETY: as above; the workspace goes with the spaces.
        let spaces = unsafe { Spaces::new(buffers.regions(), &mut workspace, self.scratch) };
        let mut begun = Some((spaces, workspace));
        self.alone(|core| {
            if let Some((spaces, workspace)) = begun.take() {
                core.find_peers(|rank| self.comm.inner.endpoint(rank));
                // SAFETY: as above.
                unsafe { core.start(spaces, workspace) };
                if let Some(error) = self.failed.get() {
                    // Rule 6; others may have started it again.
                    core.give_up(&process.worker, error);
                }
            }
        });
        self.state.set(State::Active);
        if let Some(helped) = process.helped() {
            // Before the first step: what comes behind it is the helper's to see, which nobody wakes for that.
            helped.add(&self.shared);
            if input.1.saturating_add(output.1) >= LEFT_TO_HELPER {
                process.add_run(self.weak());
                process.worker.call_progress_thread();
                return;
            }
        }
        if self.advance() {
            process.add_run(self.weak());
        }
    }

    fn weak(self: &Rc<Self>) -> Weak<dyn Background> {
        // Named, since it is only turned into one of a trait once it is weak.
        let this: Weak<Self> = Rc::downgrade(self);
        this
    }

    /// Works on the core, after the thread that does now. What `act` does may be repeated.
    fn alone(&self, mut act: impl FnMut(&mut Core)) {
        // A helper does a few steps at most.
        while !self.shared.core.work(&mut act) {
            bowline_base::sync::yield_now();
        }
    }

    /// It has ended.
    fn end(&self, ended: Ended) {
        let Ended { outcome, tag, workspace } = ended;
        self.comm.inner.process.give_workspace(workspace);
        let outcome = match outcome {
            Err(MpiError::Protocol(OpError::BadRemote)) => Err(self.comm.inner.refusal(tag)),
            outcome => outcome,
        };
        match outcome {
            Ok(()) => self.sides.borrow_mut().1.store(),
            Err(error) => self.failed.set(Some(error)),
        }
        self.state.set(State::Ended(outcome));
        if !self.again {
            self.free_number();
        }
    }

    /// It sends and receives no more.
    fn free_number(&self) {
        if let Some(tag) = self.tag.take() {
            self.comm.inner.free_tag(self.again, tag);
        }
    }

    /// Whether it is under way, or has an outcome to be reported.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.state.get(), State::Idle)
    }

    /// Whether it uses its memory.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.state.get(), State::Active)
    }

    /// Whether its rank is carrying out a step just now, further out on the stack.
    pub(crate) fn is_moving(&self) -> bool {
        self.moving.get()
    }

    /// The outcome, if it has ended.
    pub(crate) fn outcome(&self) -> Option<Result<(), MpiError>> {
        match self.state.get() {
            State::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The outcome was reported: it can be started again.
    pub(crate) fn finish(&self) {
        self.write_end();
        self.state.set(State::Idle);
    }

    /// Writes its end down, once, where its rank is recorded: the program knows of it now.
    pub(crate) fn write_end(&self) {
        if let State::Ended(Ok(())) = self.state.get()
            && let (Some((call, series)), Some(run)) = (&self.call, self.written.take())
        {
            self.comm.inner.ended(call, *series, run);
        }
    }
}

impl Background for Run {
    fn advance(&self) -> bool {
        if !matches!(self.state.get(), State::Active) {
            return false;
        }
        if self.moving.replace(true) {
            // An operation of the program's has come back here.
            return true;
        }
        let worker = &self.comm.inner.process.worker;
        let mut ended = None;
        self.shared.core.work(|core| {
            core.advance(worker, self.op.as_ref());
            ended = ended.take().or_else(|| core.take_ended());
        });
        self.moving.set(false);
        let Some(ended) = ended else { return true };
        self.end(ended);
        false
    }
}

impl Run {
    /// Rule 4.
    fn give_up(&self) {
        let process = &self.comm.inner.process;
        let worker = &process.worker;
        self.alone(|core| core.give_up(worker, MpiError::Cancelled));
        let mut ended = false;
        let all_ended = || {
            self.shared.core.work(|core| {
                core.advance(worker, None);
                ended = !core.is_active();
            });
            ended
        };
        without_unwinding(|| process.wait_until(all_ended));
        tracing::debug!("a collective was given up");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // What is under way in a parent is the parent's.
        if self.is_under_way() && !self.comm.inner.process.is_forked() {
            self.give_up();
        }
        self.free_number();
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.get() {
            State::Idle => "idle",
            State::Active => "active",
            State::Ended(_) => "ended",
        };
        out.debug_struct("Run")
            .field("comm", &self.comm)
            .field("state", &state)
            .finish_non_exhaustive()
    }
}
