//! Duplicates of communicators that are made in the background, as requests for programs in Rust. How they are made is
//! `later`'s.

use std::cell::OnceCell;

use crate::comm::Communicator;
use crate::error::MpiError;
use crate::later::Duplication;
use crate::process::Process;
use crate::request::sealed::Core;
use crate::request::{Request, State};
use crate::status::Status;

impl Communicator {
    /// Begins to make a communicator of the same ranks with contexts of its own, and with the topology if there is one.
    /// Collective, and does not wait. (`MPI_Comm_idup`)
    ///
    /// ```no_run
    /// # fn made(world: &bowline_mpi::World) -> Result<(), bowline_mpi::MpiError> {
    /// let request = world.idup()?;
    /// world.barrier()?;
    /// let other = request.wait()?;
    /// assert_eq!(other.size(), world.size());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MpiError::TooManyCommunicators`], or a member's failure.
    pub fn idup(&self) -> Result<CommRequest, MpiError> {
        self.idup_with_algorithms(&[])
    }

    /// [`idup`](Self::idup) that asks for algorithms of its collectives, as [`set_algorithms`](Self::set_algorithms)
    /// does. (`MPI_Comm_idup_with_info`)
    ///
    /// # Errors
    /// As for [`idup`](Self::idup). Names that are no algorithms are an error of the end.
    pub fn idup_with_algorithms(&self, asked: &[(&str, &str)]) -> Result<CommRequest, MpiError> {
        Ok(CommRequest {
            work: self.begin_dup(asked)?,
            made: OnceCell::new(),
            state: State::Running,
        })
    }
}

/// A communicator that is made in the background; see [`Communicator::idup`]. It stands beside other requests in the
/// functions over several. One that is dropped before its end takes back this rank's part: the other members get an error.
#[derive(Debug)]
#[must_use = "the other members get an error where this is dropped before its end"]
pub struct CommRequest {
    work: Duplication,
    /// What it came to, once the members have agreed.
    made: OnceCell<Result<Communicator, MpiError>>,
    /// Running until it is reported.
    state: State,
}

impl CommRequest {
    /// Waits for the communicator. (`MPI_Wait`)
    ///
    /// # Errors
    /// As for [`Communicator::idup_with_algorithms`], and [`MpiError::ChoicesDiffer`].
    pub fn wait(mut self) -> Result<Communicator, MpiError> {
        self.complete()?;
        self.made.take().unwrap_or(Err(MpiError::Cancelled))
    }

    /// What it came to, if it has.
    fn made(&self) -> Option<Result<Status, MpiError>> {
        if self.made.get().is_none() {
            let _ = self.made.set(self.work.poll()?);
        }
        Some(self.made.get()?.as_ref().map(|_| Status::EMPTY).map_err(|&error| error))
    }
}

#[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
impl Core for CommRequest {
    fn process(&self) -> &Process {
        &self.work.process
    }
    fn state(&mut self) -> &mut State {
        &mut self.state
    }
    fn state_now(&self) -> State {
        match self.state {
            State::Running => self.made().map_or(State::Running, State::Ready),
            other => other,
        }
    }
    fn released(&mut self) {}
}

impl Request for CommRequest {}
