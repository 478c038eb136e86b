//! Requests: what is common to all nonblocking operations, and waiting for several of them.
//! (MPI: Point-to-Point Communication, "Communication Completion".)
//!
//! ```text
//! Active ──(complete)──► Reported
//! Ready  ──(reported)──►
//! ```
//! A request is *active* until its outcome has been reported once, by any function; operations
//! that complete in their call start as `Ready`. After that it is inactive: the functions over
//! several requests pass over it, and [`Request::outcome`] repeats the outcome.

use std::convert::Infallible;

use crate::coll::run::Run;
use crate::error::MpiError;
use crate::process::Process;
use crate::raw::{PostedMessage, RequestSearch, Standing, search};
use crate::status::Status;

/// How an operation ended.
pub type Outcome = Result<Status, MpiError>;

/// Where a request stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// A message that is under way.
    Active(PostedMessage),
    /// A collective that is under way.
    Running,
    Ready(Outcome),
    Reported(Outcome),
}

impl State {
    /// Of an operation that was posted; without one it has ended so.
    #[inline]
    pub(crate) const fn of(posted: Option<PostedMessage>, ended: Status) -> Self {
        match posted {
            Some(posted) => Self::Active(posted),
            None => Self::Ready(Ok(ended)),
        }
    }

    /// The completion of a run, or of an inactive request, which has been returned to the caller.
    pub(crate) fn of_run(run: &Run, reported: Self) -> Self {
        match run.outcome() {
            Some(outcome) => Self::Ready(outcome.map(|()| Status::EMPTY)),
            None if run.is_under_way() => Self::Running,
            None => reported,
        }
    }
}

pub(crate) mod sealed {
    use super::{Process, State};

    /// What the functions of this module need of a request.
    pub trait Core {
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
        fn process(&self) -> &Process;
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
        fn state(&mut self) -> &mut State;
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
        fn state_now(&self) -> State;
        /// Its outcome is known: a message's number is gone, a collective may start anew.
        #[doc(hidden)]
        fn released(&mut self);
    }
}

use sealed::Core;

/// A nonblocking operation under way, a message or a collective. Implemented by the requests of this crate only.
///
/// Requests of different types stand in one list by reference:
/// ```no_run
/// # use bowline_mpi::{Communicator, MpiError, Request, Sum, wait_any};
/// # fn mix(world: &Communicator) -> Result<(), MpiError> {
/// let (mut into, input, mut sum) = ([0_u8; 4], [1.0_f64], [0.0]);
/// world.scope(|s| {
///     let mut message = s.irecv(world, &mut into, 1, 0)?;
///     let mut total = s.iallreduce(world, &input, &mut sum, Sum)?;
///     let mut both: [&mut dyn Request; 2] = [&mut message, &mut total];
///     while let Some((which, outcome)) = wait_any(&mut both) {
///         println!("{which}: {:?}", outcome?);
///     }
///     Ok(())
/// })
/// # }
/// ```
pub trait Request: Core {
    /// Whether the outcome is still to be reported.
    fn is_active(&self) -> bool {
        !matches!(self.state_now(), State::Reported(_))
    }

    /// How the operation ended, once that has been reported.
    fn outcome(&self) -> Option<Outcome> {
        match self.state_now() {
            State::Reported(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether the operation is complete; reports its outcome if so. Makes progress.
    /// (`MPI_Test`)
    ///
    /// # Errors
    /// The operation's.
    fn test(&mut self) -> Result<Option<Status>, MpiError> {
        self.process().progress_or_yield();
        report(self).transpose()
    }

    /// Waits for the operation and reports its outcome; an inactive request repeats it.
    /// (`MPI_Wait`)
    ///
    /// # Errors
    /// The operation's.
    fn complete(&mut self) -> Outcome {
        match self.state_now() {
            State::Active(posted) => {
                let status = self.process().wait(posted.id());
                settle(self, posted, &status)
            }
            State::Running => {
                self.process().wait_until(|| !matches!(self.state_now(), State::Running));
                self.complete()
            }
            State::Ready(outcome) => end(self, outcome),
            State::Reported(outcome) => outcome,
        }
    }
}

macro_rules! by_reference {
    ($($type:ty),*) => {$(
        #[expect(private_interfaces, reason = "sealed: nobody outside can name or call it")]
        impl<R: Core + ?Sized> Core for $type {
            fn process(&self) -> &Process {
                (**self).process()
            }
            fn state(&mut self) -> &mut State {
                (**self).state()
            }
            fn state_now(&self) -> State {
                (**self).state_now()
            }
            fn released(&mut self) {
                (**self).released();
            }
        }

        impl<R: Request + ?Sized> Request for $type {}
    )*};
}

// So that different requests can stand in one list, as `&mut dyn Request`.
by_reference!(&mut R, Box<R>);

/// Notes the outcome of a completed operation and reports it.
fn end<R: Core + ?Sized>(request: &mut R, outcome: Outcome) -> Outcome {
    request.released();
    *request.state() = State::Reported(outcome);
    outcome
}

/// The same of a message.
fn settle<R: Core + ?Sized>(
    request: &mut R,
    posted: PostedMessage,
    status: &bowline_ucp::OpStatus,
) -> Outcome {
    end(request, posted.outcome(status))
}

/// Where a request stands. Moves nothing on.
fn standing<R: Core + ?Sized>(request: &R) -> Standing {
    match request.state_now() {
        State::Active(posted) if request.process().worker.is_complete(posted.id()) => {
            Standing::Done
        }
        State::Active(_) | State::Running => Standing::Busy,
        State::Ready(_) => Standing::Done,
        State::Reported(_) => Standing::Idle,
    }
}

/// The first complete request after the one that was reported last.
fn find<R: Request>(requests: &[R]) -> RequestSearch {
    let count = requests.len();
    let start = requests.first().map_or(0, |first| first.process().rotor.get()) % count.max(1);
    let order = (start..count).chain(0..start);
    search(order, |index| Ok::<_, Infallible>(standing(&requests[index])))
        .unwrap_or_else(|e| match e {})
}

/// Reports the outcome if it is there; an inactive request repeats it.
fn report<R: Core + ?Sized>(request: &mut R) -> Option<Outcome> {
    match request.state_now() {
        State::Active(posted) => {
            let status = request.process().take(posted.id())?;
            Some(settle(request, posted, &status))
        }
        State::Running => None,
        State::Ready(outcome) => Some(end(request, outcome)),
        State::Reported(outcome) => Some(outcome),
    }
}

/// Waits until one of the active requests is complete; reports which and how it ended. `None`
/// when none is active. Over repeated calls no request is favoured. (`MPI_Waitany`)
///
/// All requests must belong to the same rank's world.
pub fn wait_any<R: Request>(requests: &mut [R]) -> Option<(usize, Outcome)> {
    wait_for_one(requests);
    report_first(requests)
}

/// Reports one of the active requests that is complete, if there is one. Makes progress.
/// (`MPI_Testany`)
pub fn test_any<R: Request>(requests: &mut [R]) -> Option<(usize, Outcome)> {
    requests.first()?.process().progress_or_yield();
    report_first(requests)
}

/// Waits until at least one of the active requests is complete; reports all that are. Empty when
/// none is active. (`MPI_Waitsome`)
pub fn wait_some<R: Request>(requests: &mut [R]) -> Vec<(usize, Outcome)> {
    wait_for_one(requests);
    report_all(requests)
}

/// Reports all active requests that are complete. Makes progress. (`MPI_Testsome`)
pub fn test_some<R: Request>(requests: &mut [R]) -> Vec<(usize, Outcome)> {
    if let Some(first) = requests.first() {
        first.process().progress_or_yield();
    }
    report_all(requests)
}

/// Waits for all requests. (`MPI_Waitall`)
///
/// # Errors
/// The first error in order of the requests, when all are complete; [`Request::outcome`] has
/// that of each.
pub fn wait_all<R: Request>(requests: &mut [R]) -> Result<Vec<Status>, MpiError> {
    let mut first_error = None;
    let mut statuses = Vec::with_capacity(requests.len());
    for request in requests {
        match request.complete() {
            Ok(status) => statuses.push(status),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(statuses), Err)
}

/// Whether all requests are complete; reports all outcomes if so and none if not. Makes progress.
/// (`MPI_Testall`)
///
/// # Errors
/// As for [`wait_all`].
pub fn test_all<R: Request>(requests: &mut [R]) -> Result<Option<Vec<Status>>, MpiError> {
    if let Some(first) = requests.first() {
        first.process().progress_or_yield();
    }
    if requests.iter().any(|request| standing(request) == Standing::Busy) {
        return Ok(None);
    }
    wait_all(requests).map(Some)
}

/// Waits until one of the active requests is complete, if any is active.
fn wait_for_one<R: Request>(requests: &[R]) {
    if let Some(first) = requests.first() {
        first.process().wait_until(|| find(requests) != RequestSearch::Busy);
    }
}

/// Reports the first complete request after the one reported last.
fn report_first<R: Request>(requests: &mut [R]) -> Option<(usize, Outcome)> {
    let RequestSearch::Found(index) = find(requests) else { return None };
    requests[index].process().rotor.set(index + 1);
    report(&mut requests[index]).map(|outcome| (index, outcome))
}

fn report_all<R: Request>(requests: &mut [R]) -> Vec<(usize, Outcome)> {
    let ready = requests.iter_mut().enumerate();
    let ready = ready.filter(|(_, request)| standing(*request) == Standing::Done);
    ready.filter_map(|(index, request)| Some((index, report(request)?))).collect()
}
