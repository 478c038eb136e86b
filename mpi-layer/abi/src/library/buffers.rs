//! The buffers that a program attaches for buffered sends.
//!
//! A message takes its space in the buffer of its communicator if that has one, else in that of the
//! communicator's session, else in that of the process. How much of it a message takes is what the standard
//! says; where the copy lies is the library's affair, so that a buffer that was detached is the program's at
//! once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bowline_mpi::raw::Pool;

use super::CommObject;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Comm, Session};

/// Whose a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Process,
    Comm(Comm),
    Session(Session),
}

/// A buffer that is attached.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) address: usize,
    pub(crate) size: i64,
    pool: Rc<Pool>,
}

/// All buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) attached: RefCell<HashMap<Owner, Attached>>,
    /// Of owners that are gone.
    orphans: RefCell<Vec<Rc<Pool>>>,
}

impl Buffers {
    /// Where a communicator's messages go.
    pub(crate) fn pool_of(&self, comm: Option<&CommObject>) -> Result<Rc<Pool>, Fault> {
        let attached = self.attached.borrow();
        let own = comm.map(|comm| Owner::Comm(comm.handle));
        let session = comm.and_then(|comm| comm.session.get()).map(Owner::Session);
        let mut owners = [own, session, Some(Owner::Process)].into_iter().flatten();
        let found = owners.find_map(|owner| attached.get(&owner));
        let none = || fault(MPI_ERR_BUFFER, "no buffer is attached for buffered sends");
        found.map(|attached| Rc::clone(&attached.pool)).ok_or_else(none)
    }

    pub(crate) fn attach(&self, owner: Owner, address: usize, size: i64) -> Result<(), Fault> {
        let space = usize::try_from(size)
            .map_err(|_| fault(MPI_ERR_ARG, format!("the buffer has {size} bytes")))?;
        if address == 0 && space > 0 {
            return Err(fault(MPI_ERR_BUFFER, "the buffer has no address"));
        }
        let mut attached = self.attached.borrow_mut();
        if attached.contains_key(&owner) {
            return Err(fault(MPI_ERR_BUFFER, "a buffer is attached already"));
        }
        let space = (address != MPI_BUFFER_AUTOMATIC).then_some(space);
        attached.insert(owner, Attached { address, size, pool: Rc::new(Pool::new(space)) });
        Ok(())
    }

    pub(crate) fn pool(&self, owner: Owner) -> Option<Rc<Pool>> {
        self.attached.borrow().get(&owner).map(|attached| Rc::clone(&attached.pool))
    }

    /// The owner is gone; its messages go on.
    pub(crate) fn forget(&self, owner: Owner) {
        let mut orphans = self.orphans.borrow_mut();
        orphans.retain(|pool| !pool.is_empty());
        orphans.extend(self.attached.borrow_mut().remove(&owner).map(|attached| attached.pool));
    }

    /// Whether no message of any buffer is under way.
    pub(crate) fn are_empty(&self) -> bool {
        self.orphans.borrow().iter().all(|pool| pool.is_empty())
            && self.attached.borrow().values().all(|attached| attached.pool.is_empty())
    }
}
