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
//! a rank's failure means to others is the business of the communicator's space, as for blocking collectives.
//! (4) A run that is dropped while it is active cancels what is under way and waits for that, since the memory is
//! in use so long. Why it is so: `docs/decisions/0022-collectives-in-the-background.md`.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use bowline_ucp::OpError;

use super::arena::{Arena, Buffers};
use super::engine::Operands;
use super::raw::{ReduceOp, Side};
use super::spans::Recorded;
use crate::comm::Communicator;
use crate::error::MpiError;
use crate::handles;
use crate::process::Process;
use bowline_model::coll::plan::Span;
use bowline_model::coll::record::{Step, Steps};

/// A collective in the background, which may be one that is started again and again.
pub struct Run {
    comm: Communicator,
    steps: Steps,
    /// Bytes of scratch.
    scratch: usize,
    /// The tag of phase 0.
    tag: u64,
    op: Option<ReduceOp>,
    state: RefCell<State>,
    sides: RefCell<Sides>,
}

/// What is read, and what is written.
type Sides = (Box<dyn Side>, Box<dyn Side>);

#[expect(clippy::large_enum_variant, reason = "a run has one, and is mostly active")]
enum State {
    Idle,
    Active {
        arena: Arena<'static, Rc<Process>>,
        /// The step that is next.
        next: usize,
        /// The tag of the stage.
        tag: u64,
    },
    Ended(Result<(), MpiError>),
}

impl Run {
    /// A run that was recorded: of the next collective of the communicator, or of a persistent one.
    ///
    /// # Errors
    /// [`MpiError::BeyondReach`].
    pub(super) fn new(
        comm: &Communicator,
        recorded: Recorded,
        sides: Sides,
        op: Option<ReduceOp>,
        again: bool,
    ) -> Result<Rc<Self>, MpiError> {
        // The number is taken in any case, since other ranks may have succeeded.
        let tag = comm.inner.next_tag(again);
        Ok(Rc::new(Self {
            comm: comm.clone(),
            steps: recorded.recorder.finish().ok_or(MpiError::BeyondReach)?,
            scratch: recorded.scratch,
            tag,
            op,
            state: RefCell::new(State::Idle),
            sides: RefCell::new(sides),
        }))
    }

    /// Starts it. Whether it was idle; else nothing has happened.
    ///
    /// # Safety
    /// The memory that it was made with is what the maker promised, until the run has ended or is dropped.
    pub(crate) unsafe fn start(self: &Rc<Self>) -> bool {
        if !matches!(*self.state.borrow(), State::Idle) {
            return false;
        }
        let (input, output) = {
            let (source, target) = &mut *self.sides.borrow_mut();
            source.load();
            target.load();
            (source.memory(), target.memory())
        };
        // SAFETY: promised by the caller for the program's memory. Copies are the sides', which stay where they
        // are and are not used while the arena is there. Both outlive the arena: it ends with `advance`, or
        // before the sides when the run is dropped (rule 4 of the arena, order of the fields).
        let buffers = unsafe { Buffers::at((input.0.cast_const(), input.1), output) };
        let process = &self.comm.inner.process;
        let arena = Arena::new(Rc::clone(process), buffers, self.scratch);
        *self.state.borrow_mut() = State::Active { arena, next: 0, tag: self.tag };
        if self.advance() {
            process.add_run(Rc::downgrade(self));
        }
        true
    }

    /// Carries out steps as far as they come. Whether it is still under way.
    pub(crate) fn advance(&self) -> bool {
        // Where it is borrowed, it moves on further out: an operation of the program's has come back here.
        let Ok(mut state) = self.state.try_borrow_mut() else { return true };
        let State::Active { arena, next, tag } = &mut *state else { return false };
        let Some(outcome) = self.carry_out(arena, next, tag) else { return true };
        let outcome = match outcome {
            Err(MpiError::Protocol(OpError::BadRemote)) => Err(self.comm.inner.refusal(*tag)),
            outcome => outcome,
        };
        *state = State::Ended(outcome);
        if outcome.is_ok() {
            self.sides.borrow_mut().1.store();
        }
        false
    }

    /// The outcome, if the run has ended.
    fn carry_out(
        &self,
        arena: &mut Arena<'static, Rc<Process>>,
        next: &mut usize,
        tag: &mut u64,
    ) -> Option<Result<(), MpiError>> {
        while let Some(step) = self.steps.get(*next) {
            let begun = match step {
                Step::Wait => match arena.poll()? {
                    Ok(()) => Ok(()),
                    failed => return Some(failed),
                },
                Step::Send { to, from, phase } => {
                    *tag = self.tag + u64::from(phase);
                    self.send(arena, to, from, *tag)
                }
                Step::Recv { from, into, phase } => {
                    *tag = self.tag + u64::from(phase);
                    let spec = self.comm.inner.stage_spec(Some(from), *tag);
                    arena.post_recv(spec, into).map_err(MpiError::from)
                }
                Step::Copy { from, into } => {
                    arena.copy(from, into);
                    Ok(())
                }
                Step::Reduce { left, right } => {
                    let op = self.op.as_ref().expect("plans with reductions have an operation");
                    let combine = |operands: Operands<'_>| op.call(&operands);
                    // The memory is in use by who has called.
                    handles::without_unwinding(|| arena.reduce(left, right, &combine));
                    Ok(())
                }
            };
            match begun {
                Ok(()) => *next += 1,
                Err(error) => {
                    arena.abandon(error);
                    *next = self.steps.len();
                }
            }
        }
        arena.poll()
    }

    fn send(
        &self,
        arena: &mut Arena<'static, Rc<Process>>,
        to: u32,
        from: Span,
        tag: u64,
    ) -> Result<(), MpiError> {
        let comm = &*self.comm.inner;
        Ok(arena.send(comm.endpoint(to)?, comm.stage_envelope(tag), from)?)
    }

    /// Whether it is under way, or has an outcome to be reported.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.state.try_borrow().as_deref(), Ok(State::Idle))
    }

    /// Whether it uses its memory.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.state.try_borrow().as_deref(), Ok(State::Active { .. }) | Err(_))
    }

    /// Whether it is carrying out a step just now, further out on the stack.
    pub(crate) fn is_moving(&self) -> bool {
        self.state.try_borrow().is_err()
    }

    /// The outcome, if it has ended.
    pub(crate) fn outcome(&self) -> Option<Result<(), MpiError>> {
        match self.state.try_borrow().as_deref() {
            Ok(State::Ended(outcome)) => Some(*outcome),
            _ => None,
        }
    }

    /// The outcome was reported: it can be started again.
    pub(crate) fn finish(&self) {
        *self.state.borrow_mut() = State::Idle;
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.try_borrow().as_deref() {
            Ok(State::Idle) => "idle",
            Ok(State::Active { .. }) | Err(_) => "active",
            Ok(State::Ended(_)) => "ended",
        };
        out.debug_struct("Run")
            .field("comm", &self.comm)
            .field("steps", &self.steps.len())
            .field("state", &state)
            .finish_non_exhaustive()
    }
}
