//! The datatypes behind handles, and what hangs on them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bowline_mpi::types::{Type, VALUES};

use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Datatype, PREDEFINED};
use crate::library::{self, Library};
use crate::object::Common;
use crate::table::Table;

/// All datatypes of the library.
#[derive(Debug)]
pub(crate) struct Types {
    /// By the value of the ABI, from that of none on.
    predefined: Box<[Option<Type>]>,
    user: RefCell<Table<Type>>,
    /// Attributes and names, made when they are first asked for, by handle.
    common: RefCell<HashMap<usize, Rc<Common>>>,
}

impl Types {
    pub(crate) fn new() -> Self {
        let mut predefined = vec![None; 256].into_boxed_slice();
        for &value in VALUES {
            predefined[usize::from(value) - MPI_DATATYPE_NULL.0] = Type::predefined(value);
        }
        let user = RefCell::new(Table::new(Datatype::KIND));
        Self { predefined, user, common: RefCell::default() }
    }

    /// The handle whose number in C is this one.
    pub(crate) fn complete(&self, low: usize) -> Datatype {
        Datatype(self.user.borrow().complete(low))
    }
}

impl Library {
    /// The datatype of a handle, committed or not.
    #[inline]
    pub(crate) fn datatype(&self, datatype: Datatype) -> Result<Type, Fault> {
        let at = datatype.0.wrapping_sub(MPI_DATATYPE_NULL.0);
        if let Some(Some(predefined)) = self.types.predefined.get(at) {
            return Ok(predefined.clone());
        }
        self.user_type(datatype)
    }

    #[inline(never)]
    fn user_type(&self, datatype: Datatype) -> Result<Type, Fault> {
        self.types.user.borrow().get(datatype.0).cloned().ok_or_else(|| not_a_type(datatype))
    }

    /// The datatype of a handle, for messages.
    #[allow(dead_code, reason = "for chapters to come")]
    #[inline]
    pub(crate) fn committed(&self, datatype: Datatype) -> Result<Type, Fault> {
        let found = self.datatype(datatype)?;
        if !found.is_committed() {
            return Err(fault(MPI_ERR_TYPE, "the datatype was not committed"));
        }
        Ok(found)
    }

    /// Gives a new datatype its handle.
    #[allow(dead_code, reason = "for chapters to come")]
    pub(crate) fn add_type(&self, new: Type) -> Result<Datatype, Fault> {
        let made = self.types.user.borrow_mut().insert(new);
        made.map(Datatype).ok_or_else(|| fault(MPI_ERR_OTHER, "there are too many datatypes"))
    }

    /// What hangs on a datatype.
    pub(crate) fn type_common(&self, datatype: Datatype) -> Result<Rc<Common>, Fault> {
        let name = self.type_name(datatype)?;
        let mut common = self.types.common.borrow_mut();
        let made = || Rc::new(Common::new(MPI_ERRHANDLER_NULL, name.as_bytes()));
        Ok(Rc::clone(common.entry(datatype.0).or_insert_with(made)))
    }

    /// The name of a datatype that the program has given none.
    fn type_name(&self, datatype: Datatype) -> Result<&'static str, Fault> {
        self.datatype(datatype)?;
        let name = DATATYPES.iter().find(|&&(known, _)| known == datatype);
        Ok(name.map_or("", |&(_, name)| name))
    }

    /// Takes the handle of a datatype away, after its attributes were deleted; the type lives until its
    /// last use ends.
    #[allow(dead_code, reason = "for chapters to come")]
    pub(crate) fn remove_type(&self, datatype: Datatype) -> Result<(), Fault> {
        let removed = self.types.user.borrow_mut().remove(datatype.0);
        let common = self.types.common.borrow_mut().remove(&datatype.0);
        drop(common);
        removed.map(drop).ok_or_else(|| not_a_type(datatype))
    }
}

/// The datatype of a handle, for functions that may be called before MPI runs.
pub(crate) fn at_any_time(datatype: Datatype) -> Result<Type, Fault> {
    if let Some(mpi) = library::running() {
        return mpi.datatype(datatype);
    }
    let predefined = u16::try_from(datatype.0).ok().and_then(Type::predefined);
    predefined.ok_or_else(|| not_a_type(datatype))
}

#[cold]
fn not_a_type(datatype: Datatype) -> Fault {
    let text = match datatype {
        MPI_DATATYPE_NULL => "the datatype is MPI_DATATYPE_NULL".into(),
        Datatype(value) if value < PREDEFINED => format!("{value:#x} is no datatype"),
        Datatype(value) => format!("{value:#x} is no datatype, or one that was freed"),
    };
    fault(MPI_ERR_TYPE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_abi_is_there() {
        let types = Types::new();
        for &(datatype, name) in DATATYPES {
            let known = types.predefined[datatype.0 - MPI_DATATYPE_NULL.0].is_some();
            assert_eq!(known, datatype != MPI_DATATYPE_NULL, "{name}");
        }
        let named = |value| DATATYPES.iter().any(|&(known, _)| known.0 == value);
        assert!(VALUES.iter().all(|&value| named(value.into())));
    }
}
