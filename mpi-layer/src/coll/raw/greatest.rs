//! The greatest of some numbers of all members, found in the background.
//!
//! It is for what the library itself has members agree on while the program goes on. Not here: what the numbers mean.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use bowline_model::coll::forms::Allreduce;
use bowline_model::coll::plan::Span;

use super::call::Later;
use super::call::sealed::{Open, Opens};
use super::edges::{Side, Source};
use crate::coll::items;
use crate::coll::run::Run;
use crate::comm::Communicator;
use crate::error::MpiError;
use crate::op::Max;
use crate::op::operands::Operands;

/// Numbers of which the greatest ones are searched for, or have been found.
pub(crate) struct Greatest<const N: usize> {
    run: Rc<Run>,
    /// The run writes them while it is under way, maybe on another thread: nobody reads them before its end.
    numbers: Rc<[Cell<u64>; N]>,
}

/// The memory of a run that works on numbers of the library's.
struct Numbers<const N: usize>(Rc<[Cell<u64>; N]>);

impl<const N: usize> Side for Numbers<N> {
    fn load(&mut self) {}

    fn store(&mut self) {}

    fn memory(&self) -> (*mut u8, usize) {
        // What is in cells may be written through a shared reference.
        (self.0.as_ptr().cast_mut().cast(), size_of::<[u64; N]>())
    }
}

impl Communicator {
    /// Begins to find the greatest of each of some numbers among those that all members give. It is a nonblocking
    /// collective. Its algorithm depends on nothing that members could have different.
    ///
    /// # Errors
    /// [`MpiError::BeyondReach`].
    pub(crate) fn find_greatest<const N: usize>(
        &self,
        own: [u64; N],
    ) -> Result<Greatest<N>, MpiError> {
        let numbers = Rc::new(own.map(Cell::new));
        let op = items::combine::<u64>(Max);
        let mut open = Later.open(Source::NOTHING, Numbers(Rc::clone(&numbers)));
        let combine = |operands: Operands<'_>| op.call(&operands);
        let (own, reduction) = (Span::output(size_of::<[u64; N]>()), op.reduction(&combine));
        // SAFETY: the numbers are there as long as `open` and the run that it ends in, which have a part in them. Nobody
        // else uses them before the end of the run.
        let recorded = unsafe { open.on() };
        self.allreduce_by(recorded, Allreduce::Doubling, own, reduction)?;
        let run = open.close(self, Some(op))?;
        // SAFETY: as above.
        unsafe { run.start() };
        Ok(Greatest { run, numbers })
    }
}

impl<const N: usize> Greatest<N> {
    /// The greatest numbers, when they are there, or how it has failed. Moves nothing on.
    pub(crate) fn poll(&self) -> Option<Result<[u64; N], MpiError>> {
        let outcome = self.run.outcome()?;
        Some(outcome.map(|()| std::array::from_fn(|index| self.numbers[index].get())))
    }
}

impl<const N: usize> fmt::Debug for Greatest<N> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Greatest").field("run", &self.run).finish_non_exhaustive()
    }
}
