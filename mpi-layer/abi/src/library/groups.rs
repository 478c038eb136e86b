//! The groups behind handles.
//!
//! A handle stands for a group of the core, which is cheap to keep twice. The group of nobody has the
//! handle of the ABI only: whatever results in nobody results in it.

use std::cell::RefCell;

use bowline_mpi::Group as Ranks;

use crate::arg::Out;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Group, Session};
use crate::table::Table;

/// The groups that the program has handles of.
#[derive(Debug)]
pub(crate) struct Groups(RefCell<Table<Object>>);

/// A group, and the session that it is of.
#[derive(Debug)]
struct Object {
    ranks: Ranks,
    session: Option<Session>,
}

impl Groups {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Table::new(Group::KIND)))
    }

    /// The group of a handle.
    pub(crate) fn get(&self, handle: Group) -> Result<Ranks, Fault> {
        if handle == MPI_GROUP_EMPTY {
            return Ok(Ranks::empty());
        }
        let objects = self.0.borrow();
        let found = objects.get(handle.0).map(|object| object.ranks.clone());
        found.ok_or_else(|| not_a_group(handle))
    }

    /// The session of one of these groups.
    pub(crate) fn session_of(&self, handles: &[Group]) -> Option<Session> {
        let objects = self.0.borrow();
        handles.iter().find_map(|handle| objects.get(handle.0)?.session)
    }

    /// Gives the program a handle of a group.
    pub(crate) fn give(
        &self,
        ranks: Ranks,
        session: Option<Session>,
        newgroup: Out<Group>,
    ) -> Result<(), Fault> {
        if newgroup.is_null() {
            return Err(fault(MPI_ERR_ARG, "there is no address for the group"));
        }
        if ranks.size() == 0 {
            return newgroup.set(MPI_GROUP_EMPTY);
        }
        let made = self.0.borrow_mut().insert(Object { ranks, session });
        let full = || fault(MPI_ERR_OTHER, "there are too many groups");
        newgroup.set(Group(made.ok_or_else(full)?))
    }

    /// Takes the handle of a group away. That of the group of nobody may be one that the program got
    /// from a function, so that it is taken, too.
    pub(crate) fn free(&self, handle: Group) -> Result<(), Fault> {
        if handle == MPI_GROUP_EMPTY {
            return Ok(());
        }
        let removed = self.0.borrow_mut().remove(handle.0);
        removed.map(drop).ok_or_else(|| not_a_group(handle))
    }

    /// The handle whose number in C is this one.
    pub(crate) fn complete(&self, low: usize) -> Group {
        Group(self.0.borrow().complete(low))
    }
}

#[cold]
fn not_a_group(handle: Group) -> Fault {
    let text = match handle {
        MPI_GROUP_NULL => "the group is MPI_GROUP_NULL".into(),
        Group(value) => format!("{value:#x} is no group, or one that was freed"),
    };
    fault(MPI_ERR_GROUP, text)
}
