//! When a collective is done: in the call, or later by a run that was recorded in it.
//!
//! The calls of [`raw`](super) describe what they do once, for whatever [`Call`] they are made by.

use std::rc::Rc;

use super::edges::Side;
use crate::coll::arena::Buffers;
use crate::coll::run::Run;
use crate::coll::spans::{Follow, Recorded};
use crate::comm::Communicator;
use crate::error::MpiError;
use crate::op::reduce_op::ReduceOp;

/// When a collective is done. Implemented by [`Now`], [`Later`] and [`Again`].
pub trait Call: Copy + sealed::Opens {}

impl<C: Copy + sealed::Opens> Call for C {}

/// In the call.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to say")]
pub struct Now;

/// After the call, once: it makes a run, to be started.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to say")]
pub struct Later;

/// After the call, as often as one likes: it makes a run, to be started.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to say")]
pub struct Again;

pub(crate) mod sealed {
    use super::{Communicator, Follow, MpiError, ReduceOp, Side};

    /// How a call is opened on its two sides.
    pub trait Opens {
        /// What the call gives.
        type Output;
        #[doc(hidden)]
        type Open<S: Side + 'static, T: Side + 'static>: Open<Output = Self::Output>;

        #[doc(hidden)]
        fn open<S: Side + 'static, T: Side + 'static>(
            self,
            source: S,
            target: T,
        ) -> Self::Open<S, T>;
    }

    /// A call between its arguments and its end.
    pub trait Open {
        type Output;
        #[expect(private_bounds, reason = "sealed: nobody outside can name or call it")]
        type On<'a>: Follow<'a>
        where
            Self: 'a;

        /// Who follows the plan, once.
        ///
        /// # Safety
        /// The memory behind the two sides is what their makers were promised, as long as the follower is there.
        unsafe fn on(&mut self) -> Self::On<'_>;

        /// The plan was followed. `op` is that of the plan.
        ///
        /// # Errors
        /// [`MpiError::BeyondReach`], where it was to be recorded.
        fn close(self, comm: &Communicator, op: Option<ReduceOp>)
        -> Result<Self::Output, MpiError>;
    }
}

use sealed::{Open, Opens};

/// Two sides of a call that is done now.
#[derive(Debug)]
pub struct Doing<S, T>(S, T);

impl Opens for Now {
    type Output = ();
    type Open<S: Side + 'static, T: Side + 'static> = Doing<S, T>;

    #[inline]
    fn open<S: Side + 'static, T: Side + 'static>(
        self,
        mut source: S,
        mut target: T,
    ) -> Doing<S, T> {
        source.load();
        target.load();
        Doing(source, target)
    }
}

impl<S: Side + 'static, T: Side + 'static> Open for Doing<S, T> {
    type Output = ();
    type On<'a> = Buffers<'a>;

    #[inline]
    unsafe fn on(&mut self) -> Buffers<'_> {
        let (input, output) = (self.0.memory(), self.1.memory());
        // SAFETY: the program's memory is what the caller promises, and copies are the sides'.
        unsafe { Buffers::at((input.0.cast_const(), input.1), output) }
    }

    #[inline]
    fn close(mut self, _: &Communicator, _: Option<ReduceOp>) -> Result<(), MpiError> {
        self.1.store();
        Ok(())
    }
}

/// Two sides of a call that is done later, and its steps.
#[derive(Debug)]
pub struct Recording<S, T> {
    source: S,
    target: T,
    recorded: Recorded,
    again: bool,
}

impl<S: Side + 'static, T: Side + 'static> Open for Recording<S, T> {
    type Output = Rc<Run>;
    type On<'a> = &'a mut Recorded;

    unsafe fn on(&mut self) -> &mut Recorded {
        &mut self.recorded
    }

    fn close(self, comm: &Communicator, op: Option<ReduceOp>) -> Result<Rc<Run>, MpiError> {
        let Self { source, target, recorded, again } = self;
        Run::new(comm, recorded, (Box::new(source), Box::new(target)), op, again)
    }
}

macro_rules! recorded {
    ($($call:ident: $again:literal,)*) => {$(
        impl Opens for $call {
            type Output = Rc<Run>;
            type Open<S: Side + 'static, T: Side + 'static> = Recording<S, T>;

            fn open<S: Side + 'static, T: Side + 'static>(
                self,
                source: S,
                target: T,
            ) -> Recording<S, T> {
                Recording { source, target, recorded: Recorded::default(), again: $again }
            }
        }
    )*};
}

recorded! {
    Later: false,
    Again: true,
}
