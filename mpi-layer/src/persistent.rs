//! Persistent collectives, which own their buffers. (MPI: Collective Communication, "Persistent Collective
//! Operations".)
//!
//! ```text
//!             start                     wait or test: it has ended
//!   inactive ──────────────► active ──────────────────────────────► inactive
//! ```
//! Rules. (1) All ranks make the same ones in the same order; that sends nothing. They may start several in different
//! orders. (2) The buffers are the program's while it is inactive, and nobody's while it is active: asking for them is
//! an error then. (3) One that is dropped while it is active is waited for, since other members count on this rank; in
//! a panic what is under way is given up instead, and other members may fail then. (4) A forgotten one leaks its
//! buffers and nothing else. (5) One that has failed fails at each later start with the same error.
//!
//! Operations are code that runs inside of other calls: one that panics ends the process.

mod make;

use std::mem::ManuallyDrop;
use std::rc::Rc;

use crate::coll::run::Run;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::handles::{OwnedItems, without_unwinding};
use crate::process::Process;

/// A collective that is carried out as often as it is started, on buffers of its own.
///
/// ```no_run
/// use bowline::mpi::Sum;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let world = bowline::init()?;
///     let mut residual = world.allreduce_init(vec![0.0_f64], vec![0.0], Sum)?;
///     for step in 0..100 {
///         residual.input_mut()?[0] = f64::from(step) / f64::from(world.rank() + 1);
///         residual.start()?;
///         // Something else is computed here.
///         residual.wait()?;
///         println!("{}", residual.output()?[0]);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct PersistentCollective<T: Datatype> {
    /// Both are dropped by hand: the run first, since it may use the buffers.
    run: ManuallyDrop<Rc<Run>>,
    buffers: ManuallyDrop<(OwnedItems<T>, OwnedItems<T>)>,
    process: Rc<Process>,
}

impl<T: Datatype> PersistentCollective<T> {
    /// Starts it. (`MPI_Start`)
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`] when it is active already.
    pub fn start(&mut self) -> Result<(), MpiError> {
        // SAFETY: the buffers stay where they are until the run has ended or is dropped (`drop`, `into_buffers`), and
        // nobody gets at them before that (`inactive`).
        match unsafe { self.run.start() } {
            true => Ok(()),
            false => Err(MpiError::CollectiveActive),
        }
    }

    /// Waits for its end; an inactive one has ended. (`MPI_Wait`)
    ///
    /// # Errors
    /// Those of the blocking call of the same name: [`MpiError::CountMismatch`] when ranks give different lengths;
    /// a member's failure. It is inactive then, and the output holds anything.
    pub fn wait(&mut self) -> Result<(), MpiError> {
        self.process.wait_until(|| !self.run.is_under_way());
        self.report().map_or(Ok(()), |outcome| outcome)
    }

    /// Whether it has ended; an inactive one has. Makes progress. (`MPI_Test`)
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), when it has ended so.
    pub fn test(&mut self) -> Result<bool, MpiError> {
        self.process.look();
        match self.report() {
            Some(outcome) => outcome.map(|()| true),
            None => Ok(!self.run.is_active()),
        }
    }

    /// The outcome, if it has just ended.
    fn report(&mut self) -> Option<Result<(), MpiError>> {
        let outcome = self.run.outcome()?;
        self.run.finish();
        Some(outcome)
    }

    /// Whether it was started and its end was not reported yet.
    pub fn is_active(&self) -> bool {
        self.run.is_active()
    }

    /// Success when the buffers are the program's.
    fn inactive(&self) -> Result<(), MpiError> {
        if self.run.is_active() { Err(MpiError::CollectiveActive) } else { Ok(()) }
    }

    /// What it reads.
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`], as for all of the buffers.
    pub fn input(&self) -> Result<&[T], MpiError> {
        self.inactive()?;
        // SAFETY: the run is not under way, and is started through `&mut self` only.
        Ok(unsafe { self.buffers.0.items() })
    }

    /// What it reads, to be written.
    ///
    /// # Errors
    /// As for [`input`](Self::input).
    pub fn input_mut(&mut self) -> Result<&mut [T], MpiError> {
        self.inactive()?;
        // SAFETY: as in `input`.
        Ok(unsafe { self.buffers.0.items_mut() })
    }

    /// What it writes; a broadcast reads it at its root.
    ///
    /// # Errors
    /// As for [`input`](Self::input).
    pub fn output(&self) -> Result<&[T], MpiError> {
        self.inactive()?;
        // SAFETY: as in `input`.
        Ok(unsafe { self.buffers.1.items() })
    }

    /// What it writes, to be written.
    ///
    /// # Errors
    /// As for [`input`](Self::input).
    pub fn output_mut(&mut self) -> Result<&mut [T], MpiError> {
        self.inactive()?;
        // SAFETY: as in `input`.
        Ok(unsafe { self.buffers.1.items_mut() })
    }

    /// Ends its use and gives input and output back. (`MPI_Request_free`)
    ///
    /// # Errors
    /// The collective, unchanged, while it is active.
    pub fn into_buffers(mut self) -> Result<(Vec<T>, Vec<T>), Self> {
        if self.run.is_active() {
            return Err(self);
        }
        let none = || OwnedItems::new(Vec::new());
        let (input, output) = std::mem::replace(&mut *self.buffers, (none(), none()));
        // The run, which is inactive, is dropped with `self` and touches no memory.
        Ok((input.into_vec(), output.into_vec()))
    }
}

impl<T: Datatype> Drop for PersistentCollective<T> {
    fn drop(&mut self) {
        if self.process.is_forked() {
            // The operations under way, and what they use, are the parent's.
            return;
        }
        if self.run.is_moving() {
            // An operation of the program's drops the collective that it is called by. Neither the memory nor the run
            // can go now.
            tracing::error!(
                "a persistent collective is dropped by its own operation; its buffers are leaked"
            );
            return;
        }
        // Rule 3.
        if !std::thread::panicking() {
            without_unwinding(|| self.process.wait_until(|| !self.run.is_under_way()));
        }
        // SAFETY: neither is used again. The run goes first: what is under way of it is given up in that (rule 4 of
        // runs), as nobody else keeps it; `Process` has weak references only, and is not moving it now.
        unsafe {
            ManuallyDrop::drop(&mut self.run);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}
