//! The datatypes behind handles, and what hangs on them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use bowline_mpi::types::{Combiner, Type, VALUES};

use super::object::Common;
use super::{Library, running};
use crate::arg::Out;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::{Count, Datatype, PREDEFINED};
use crate::table::Table;

/// All datatypes of the library.
#[derive(Debug)]
pub(crate) struct Types {
    /// By the value of the ABI, from that of none on.
    predefined: Box<[Option<Type>]>,
    user: RefCell<Table<Type>>,
    /// Attributes and names, made when they are first asked for, by handle.
    common: RefCell<HashMap<usize, Rc<Common>>>,
    /// Types of Fortran by the wish that they fulfil.
    f90: RefCell<Vec<(Combiner, Vec<c_int>, Datatype)>>,
}

impl Types {
    pub(crate) fn new() -> Self {
        let mut predefined = vec![None; 256].into_boxed_slice();
        for &value in VALUES {
            predefined[usize::from(value) - MPI_DATATYPE_NULL.0] = Type::predefined(value);
        }
        let user = RefCell::new(Table::new(Datatype::KIND));
        Self { predefined, user, common: RefCell::default(), f90: RefCell::default() }
    }

    /// What hangs on a datatype, if anybody has asked for it.
    pub(crate) fn known_common(&self, datatype: Datatype) -> Option<Rc<Common>> {
        self.common.borrow().get(&datatype.0).cloned()
    }

    /// The type of Fortran that was made for a wish.
    pub(crate) fn f90(&self, combiner: Combiner, wish: &[c_int]) -> Option<Datatype> {
        let known = self.f90.borrow();
        known.iter().find(|known| known.0 == combiner && known.1 == wish).map(|known| known.2)
    }

    /// Keeps the type of Fortran that was made for a wish.
    pub(crate) fn keep_f90(&self, combiner: Combiner, wish: &[c_int], datatype: Datatype) {
        self.f90.borrow_mut().push((combiner, wish.to_vec(), datatype));
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
    #[inline]
    pub(crate) fn committed(&self, datatype: Datatype) -> Result<Type, Fault> {
        let found = self.datatype(datatype)?;
        if self.checks && !found.is_committed() {
            return Err(fault(MPI_ERR_TYPE, "the datatype was not committed"));
        }
        Ok(found)
    }

    /// Gives the program a handle of a new datatype.
    pub(crate) fn give_type(&self, new: Type, newtype: Out<Datatype>) -> Result<Datatype, Fault> {
        if newtype.is_null() {
            return Err(fault(MPI_ERR_ARG, "there is no address for the datatype"));
        }
        let handle = self.add_type(new)?;
        newtype.set(handle)?;
        Ok(handle)
    }

    /// Gives a datatype a handle.
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
    pub(crate) fn remove_type(&self, datatype: Datatype) -> Result<(), Fault> {
        let removed = self.types.user.borrow_mut().remove(datatype.0);
        let common = self.types.common.borrow_mut().remove(&datatype.0);
        drop(common);
        removed.map(drop).ok_or_else(|| not_a_type(datatype))
    }
}

/// The elements of a message at an address of the program, and its bytes. They can be counted, and lie at
/// addresses that memory may have.
pub(crate) fn message(
    buf: *const c_void,
    count: Count,
    of: &Type,
) -> Result<(usize, usize), Fault> {
    let number = usize::try_from(count);
    let number = number.map_err(|_| fault(MPI_ERR_COUNT, format!("the count is {count}")))?;
    let Ok((len, low, _)) = of.layout().message(number) else {
        let text = format!("{count} elements of the datatype are more than memory can hold");
        return Err(fault(MPI_ERR_COUNT, text));
    };
    // Below are no addresses of memory, but constants of the ABI.
    let lowest = (buf.addr() as i64).wrapping_add(low);
    if len > 0 && (0..PREDEFINED as i64).contains(&lowest) {
        return Err(fault(MPI_ERR_BUFFER, "the buffer has no address, and the count is not 0"));
    }
    Ok((number, len))
}

/// The datatype of a handle, for functions that may be called before MPI runs.
pub(crate) fn at_any_time(datatype: Datatype) -> Result<Type, Fault> {
    if let Some(mpi) = running() {
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
        let named = |value: usize| DATATYPES.iter().any(|&(known, _)| known.0 == value);
        assert!(VALUES.iter().all(|&value| named(value.into())));
    }
}
