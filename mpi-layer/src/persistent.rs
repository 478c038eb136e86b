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

mod exchange;
mod in_place;
mod make;
mod neighbor;

use std::mem::ManuallyDrop;
use std::rc::Rc;

use crate::coll::run::Run;
use crate::datatype::Datatype;
use crate::error::MpiError;
use crate::handles::OwnedItems;
use crate::process::Process;
use crate::request::sealed::Core;
use crate::request::{Request, State};
use crate::status::Status;
use crate::unwinding::without_unwinding;

pub use self::exchange::PersistentExchange;

/// A run that can be started again and again, with what it works on.
#[derive(Debug)]
struct Held<B> {
    /// Both are dropped by hand: the run first, since it may use the buffers.
    run: ManuallyDrop<Rc<Run>>,
    buffers: ManuallyDrop<B>,
    process: Rc<Process>,
    /// How it ended when it was last active.
    reported: State,
}

impl<B> Held<B> {
    fn new(run: Rc<Run>, buffers: B, process: Rc<Process>) -> Box<Self> {
        let (run, buffers) = (ManuallyDrop::new(run), ManuallyDrop::new(buffers));
        Box::new(Self { run, buffers, process, reported: State::Reported(Ok(Status::EMPTY)) })
    }

    fn start(&mut self) -> Result<(), MpiError> {
        // SAFETY: the buffers stay where they are until the run has ended or is dropped (`drop`), and nobody gets at
        // them before that (`inactive`).
        match unsafe { self.run.start() } {
            true => Ok(()),
            false => Err(MpiError::CollectiveActive),
        }
    }

    fn wait(&mut self) -> Result<(), MpiError> {
        if self.run.is_active() { self.complete().map(drop) } else { Ok(()) }
    }

    fn has_ended(&mut self) -> Result<bool, MpiError> {
        if self.run.is_active() {
            Request::test(self).map(|ended| ended.is_some())
        } else {
            Ok(true)
        }
    }

    /// The buffers, which are the program's.
    fn inactive(&self) -> Result<&B, MpiError> {
        if self.run.is_active() { Err(MpiError::CollectiveActive) } else { Ok(&self.buffers) }
    }

    fn inactive_mut(&mut self) -> Result<&mut B, MpiError> {
        if self.run.is_active() { Err(MpiError::CollectiveActive) } else { Ok(&mut self.buffers) }
    }
}

impl<B> Drop for Held<B> {
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
            self.run.write_end();
        }
        // SAFETY: neither is used again. The run goes first: what is under way of it is given up in that (rule 4 of
        // runs), as nobody else keeps it; `Process` has weak references only, and is not moving it now.
        unsafe {
            ManuallyDrop::drop(&mut self.run);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}

impl<B> Core for Held<B> {
    fn process(&self) -> &Process {
        &self.process
    }
    fn state(&mut self) -> &mut State {
        &mut self.reported
    }
    fn state_now(&self) -> State {
        State::of_run(&self.run, self.reported)
    }
    fn released(&mut self) {
        self.run.finish();
    }
}

impl<B> Request for Held<B> {}

macro_rules! held {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        #[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
        impl<$($generics)*> Core for $type {
            fn process(&self) -> &Process {
                self.0.process()
            }
            fn state(&mut self) -> &mut State {
                self.0.state()
            }
            fn state_now(&self) -> State {
                self.0.state_now()
            }
            fn released(&mut self) {
                self.0.released();
            }
        }

        impl<$($generics)*> Request for $type {}
    )*};
}

held! {
    [T: Datatype] PersistentCollective<T>;
    [] PersistentExchange;
}

/// A collective that is carried out as often as it is started, on buffers of its own. As a [`Request`] its status is
/// empty, and it is inactive before its start and after its completion has been returned.
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
pub struct PersistentCollective<T: Datatype>(Box<Held<(OwnedItems<T>, OwnedItems<T>)>>);

impl<T: Datatype> PersistentCollective<T> {
    /// Starts it. (`MPI_Start`)
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`] when it is active already.
    pub fn start(&mut self) -> Result<(), MpiError> {
        self.0.start()
    }

    /// Waits for its end; an inactive one has ended. (`MPI_Wait`)
    ///
    /// # Errors
    /// Those of the blocking call of the same name: [`MpiError::CountMismatch`] when ranks give different lengths;
    /// a member's failure. It is inactive then, and the output holds anything.
    pub fn wait(&mut self) -> Result<(), MpiError> {
        self.0.wait()
    }

    /// Whether it has ended; an inactive one has. Makes progress. (`MPI_Test`)
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), when it has ended so.
    pub fn test(&mut self) -> Result<bool, MpiError> {
        self.0.has_ended()
    }

    /// Whether it was started and its end was not reported yet.
    pub fn is_active(&self) -> bool {
        self.0.run.is_active()
    }

    /// What it reads.
    ///
    /// # Errors
    /// [`MpiError::CollectiveActive`], as for all of the buffers.
    pub fn input(&self) -> Result<&[T], MpiError> {
        // SAFETY: the run is not under way, and is started through `&mut self` only.
        Ok(unsafe { self.0.inactive()?.0.items() })
    }

    /// What it reads, to be written.
    ///
    /// # Errors
    /// As for [`input`](Self::input).
    pub fn input_mut(&mut self) -> Result<&mut [T], MpiError> {
        // SAFETY: as in `input`.
        Ok(unsafe { self.0.inactive_mut()?.0.items_mut() })
    }

    /// What it writes; a broadcast reads it at its root, and a collective in place everywhere.
    ///
    /// # Errors
    /// As for [`input`](Self::input).
    pub fn output(&self) -> Result<&[T], MpiError> {
        // SAFETY: as in `input`.
        Ok(unsafe { self.0.inactive()?.1.items() })
    }

    /// What it writes, to be written.
    ///
    /// # Errors
    /// As for [`input`](Self::input).
    pub fn output_mut(&mut self) -> Result<&mut [T], MpiError> {
        // SAFETY: as in `input`.
        Ok(unsafe { self.0.inactive_mut()?.1.items_mut() })
    }

    /// Ends its use and gives input and output back. (`MPI_Request_free`)
    ///
    /// # Errors
    /// The collective, unchanged, while it is active.
    pub fn into_buffers(mut self) -> Result<(Vec<T>, Vec<T>), Self> {
        // The run, which is inactive, is dropped with `self` and touches no memory.
        let none = || OwnedItems::new(Vec::new());
        match self.0.inactive_mut() {
            Ok(buffers) => {
                let (input, output) = std::mem::replace(buffers, (none(), none()));
                Ok((input.into_vec(), output.into_vec()))
            }
            Err(_) => Err(self),
        }
    }
}
