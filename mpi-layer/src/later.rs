//! Communicators that are made in the background.
//!
//! A call must not wait for the other members, who may wait for something else of this rank before they
//! come to theirs. So it starts a nonblocking collective on the communicator that is duplicated, which finds the
//! greatest of what each member gives. When that has ended, the new communicator is opened as soon as the request is tested.
//!
//! Several may be under way at once, on different communicators in different orders at different ranks, and with other
//! communicators made meanwhile. So the id is not searched among what is free everywhere: the first member gives one
//! that only it gives, and that it has not in use. Generations are agreed as ever.

use std::rc::Rc;

use crate::coll::raw::Greatest;
use crate::comm::{CommInner, Communicator};
use crate::context::Agreed;
use crate::error::MpiError;
use crate::group::Group;
use crate::process::Process;
use crate::topology::Placed;
use bowline_model::coll::wanted::Wanted;

/// What members give: whether ranks share processors, the generation, the id that the first one gives, the hash of what
/// algorithms are chosen by, and the complements of this and of the first: where all have one number, the greatest is the
/// least as well.
const NUMBERS: usize = 6;

/// A duplicate that is under way.
#[derive(Debug)]
pub(crate) struct Duplication {
    pub(crate) process: Rc<Process>,
    group: Group,
    agreed: Greatest<NUMBERS>,
    /// The generation that this rank has given.
    generation: u32,
    /// The algorithms that it asks for.
    wanted: Result<Option<Wanted>, MpiError>,
    topology: Option<Rc<Placed>>,
}

impl Communicator {
    /// Begins to make a duplicate that asks for algorithms. Collective, and does not wait.
    pub(crate) fn begin_dup(&self, asked: &[(&str, &str)]) -> Result<Duplication, MpiError> {
        let inner = &*self.inner;
        let process = &inner.process;
        let first = inner.rank == 0;
        let own =
            first.then(|| process.contexts.borrow_mut().name(process.world_rank, process.size()));
        // 0 is no such id: where the first member has none left, all members find 0 and fail.
        let id = own.flatten().unwrap_or(0);
        let (wanted, choice) = self.asked_with(asked);
        let generation = process.contexts.borrow_mut().begin();
        let shared = u64::from(inner.oversubscribed);
        let numbers = [shared, u64::from(generation), u64::from(id), choice, !choice, !shared];
        let agreed = self.find_greatest(numbers).inspect_err(|_| {
            process.contexts.borrow_mut().end(generation);
        })?;
        Ok(Duplication {
            process: Rc::clone(process),
            group: inner.group.clone(),
            agreed,
            generation,
            wanted,
            topology: self.inherited_topology(),
        })
    }
}

impl Duplication {
    /// The new communicator, when the members have agreed. Moves nothing on. Not asked again after that.
    pub(crate) fn poll(&self) -> Option<Result<Communicator, MpiError>> {
        let agreed = self.agreed.poll()?;
        Some(agreed.and_then(|numbers| self.open(numbers)))
    }

    fn open(&self, numbers: [u64; NUMBERS]) -> Result<Communicator, MpiError> {
        let [shared, generation, id, choice, not_choice, not_shared] = numbers;
        let wanted = self.wanted.clone()?;
        if choice != !not_choice || shared != !not_shared {
            return Err(MpiError::ChoicesDiffer);
        }
        let context = u32::try_from(id).ok();
        let mut contexts = self.process.contexts.borrow_mut();
        let context = context.filter(|&id| contexts.may_be_named(id));
        let context = context.ok_or(MpiError::TooManyCommunicators)?;
        let generation = contexts.next_after(generation as u32);
        drop(contexts);
        let agreed = Agreed { context, generation, oversubscribed: shared != 0 };
        let made = CommInner::open(&self.process, self.group.clone(), agreed)?;
        made.take_algorithms(wanted);
        made.inherit_topology(self.topology.as_ref());
        Ok(made)
    }
}

impl Drop for Duplication {
    fn drop(&mut self) {
        self.process.contexts.borrow_mut().end(self.generation);
    }
}
