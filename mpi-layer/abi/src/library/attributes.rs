//! Attributes: values that a program hangs on communicators and datatypes under keys.
//!
//! A key lives until its handle is freed and no object has a value under it. Functions of the program
//! are called with no borrow held: they may set, read and delete attributes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use bowline::Launched;

use super::object::Common;
use super::{CommObject, Library, codes};
use crate::arg::Out;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;

/// A value under a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute {
    keyval: c_int,
    value: usize,
}

/// Of which objects a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Comm,
    Type,
    Win,
}

/// A function of the program: its address, or one of the constants below.
pub(crate) type Callback = *const c_void;

const NULL_FN: usize = 0;
const DUP_FN: usize = 1;

/// The object comes as its handle, whatever its kind.
type Copy = unsafe extern "C-unwind" fn(
    usize,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
) -> c_int;

type Delete = unsafe extern "C-unwind" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyval {
    kind: Kind,
    copy: usize,
    delete: usize,
    extra_state: usize,
    /// Values under it, and its handle.
    references: usize,
    freed: bool,
}

/// The keys, and the attributes that the library sets itself.
#[derive(Debug)]
pub(crate) struct Attributes {
    keyvals: RefCell<BTreeMap<c_int, Keyval>>,
    next: Cell<c_int>,
    predefined: Predefined,
}

/// Where the values are that the program gets the addresses of.
#[derive(Debug)]
struct Predefined {
    tag_ub: c_int,
    io: c_int,
    host: c_int,
    wtime_is_global: c_int,
    app_number: Option<c_int>,
    universe_size: Option<c_int>,
}

/// Keys of the program begin here, above those of the ABI.
const FIRST: c_int = 1 << 16;

impl Attributes {
    pub(crate) fn new(launched: &Launched, size: i32) -> Self {
        let predefined = Predefined {
            tag_ub: bowline_mpi::TAG_UB,
            io: MPI_ANY_SOURCE,
            host: MPI_PROC_NULL,
            wtime_is_global: 0,
            app_number: launched.app_number(),
            // A launcher that does not say it runs no more than it has.
            universe_size: launched.universe_size().or(Some(size)),
        };
        Self { keyvals: RefCell::default(), next: Cell::new(FIRST), predefined }
    }

    pub(crate) fn create(
        &self,
        kind: Kind,
        (copy, delete): (Callback, Callback),
        keyval: Out<c_int>,
        extra_state: *mut c_void,
    ) -> Result<(), Fault> {
        let number = self.next.get();
        let next = number.checked_add(1);
        let next = next.ok_or_else(|| fault(MPI_ERR_OTHER, "there are too many keys"))?;
        keyval.set(number)?;
        self.next.set(next);
        let new = Keyval {
            kind,
            copy: copy.expose_provenance(),
            delete: delete.expose_provenance(),
            extra_state: extra_state.expose_provenance(),
            references: 1,
            freed: false,
        };
        self.keyvals.borrow_mut().insert(number, new);
        Ok(())
    }

    pub(crate) fn free(&self, kind: Kind, keyval: Out<c_int>) -> Result<(), Fault> {
        let number = keyval.get()?;
        let known = self.keyval(kind, number)?;
        // A copy of the handle of a key that still has values: nothing is left to give back.
        if known.freed {
            return keyval.set(MPI_KEYVAL_INVALID);
        }
        if let Some(keyval) = self.keyvals.borrow_mut().get_mut(&number) {
            keyval.freed = true;
        }
        self.release(number);
        keyval.set(MPI_KEYVAL_INVALID)
    }

    pub(crate) fn keyval(&self, kind: Kind, number: c_int) -> Result<Keyval, Fault> {
        let found = self.keyvals.borrow().get(&number).copied();
        found.filter(|keyval| keyval.kind == kind).ok_or_else(|| {
            fault(MPI_ERR_KEYVAL, format!("{number} is no key of objects of kind {kind:?}"))
        })
    }

    pub(crate) fn hold(&self, number: c_int) {
        if let Some(keyval) = self.keyvals.borrow_mut().get_mut(&number) {
            keyval.references += 1;
        }
    }

    pub(crate) fn release(&self, number: c_int) {
        let mut keyvals = self.keyvals.borrow_mut();
        let Some(keyval) = keyvals.get_mut(&number) else { return };
        keyval.references -= 1;
        if keyval.references == 0 {
            keyvals.remove(&number);
        }
    }

    /// The address of what a key of the ABI stands for; `None` when it is none, the inner one when it
    /// is not known.
    pub(crate) fn predefined(&self, keyval: c_int) -> Option<Option<*const c_int>> {
        let Predefined { tag_ub, io, host, wtime_is_global, app_number, universe_size } =
            &self.predefined;
        let place: Option<&c_int> = match keyval {
            MPI_TAG_UB => Some(tag_ub),
            MPI_IO => Some(io),
            MPI_HOST => Some(host),
            MPI_WTIME_IS_GLOBAL => Some(wtime_is_global),
            MPI_APPNUM => app_number.as_ref(),
            MPI_UNIVERSE_SIZE => universe_size.as_ref(),
            MPI_LASTUSEDCODE => return Some(Some(codes::last_used())),
            _ => return None,
        };
        Some(place.map(std::ptr::from_ref))
    }
}

/// An object with attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bearer<'a> {
    pub(crate) kind: Kind,
    /// Its handle's value.
    pub(crate) handle: usize,
    pub(crate) common: &'a Common,
}

impl Bearer<'_> {
    pub(crate) fn find(&self, keyval: c_int) -> Option<usize> {
        let found = |own: &&Attribute| own.keyval == keyval;
        self.common.attributes(|all| all.iter().find(found).map(|own| own.value))
    }

    pub(crate) fn set(&self, all: &Attributes, keyval: c_int, value: usize) -> Result<(), Fault> {
        let known = all.keyval(self.kind, keyval)?;
        if known.freed {
            return Err(fault(MPI_ERR_KEYVAL, "the key was freed"));
        }
        // First, since the program's function may free the key.
        all.hold(keyval);
        if self.find(keyval).is_some()
            && let Err(fault) = self.delete(all, keyval)
        {
            all.release(keyval);
            return Err(fault);
        }
        self.common.change_attributes(|own| own.push(Attribute { keyval, value }));
        Ok(())
    }

    /// Deletes a value; it stays where the program's function fails.
    pub(crate) fn delete(&self, all: &Attributes, keyval: c_int) -> Result<(), Fault> {
        let known = all.keyval(self.kind, keyval)?;
        let Some(value) = self.find(keyval) else {
            return Err(fault(MPI_ERR_KEYVAL, "the object has no attribute under the key"));
        };
        if known.delete != NULL_FN {
            let (value, extra) = (pointer(value), pointer(known.extra_state));
            // SAFETY: not null, so it is what the program gave as a delete function, which has this
            // type but for the handle's, which is a word for every kind.
            let delete: Delete =
                unsafe { std::mem::transmute::<*mut c_void, Delete>(pointer(known.delete)) };
            // SAFETY: as the standard has it.
            let code = unsafe { delete(self.handle, keyval, value, extra) };
            succeeded(code, "delete")?;
        }
        let removed = self.common.change_attributes(|attributes| {
            let before = attributes.len();
            attributes.retain(|own| own.keyval != keyval);
            attributes.len() < before
        });
        // The program's function may have deleted it itself.
        if removed {
            all.release(keyval);
        }
        Ok(())
    }

    /// Deletes all values, the last one first.
    pub(crate) fn delete_all(&self, all: &Attributes) -> Result<(), Fault> {
        loop {
            let last = self.common.attributes(|own| own.last().map(|own| own.keyval));
            let Some(keyval) = last else { return Ok(()) };
            self.delete(all, keyval)?;
        }
    }

    /// Copies to a new object what the keys' functions want copied. Where one fails, the new object
    /// has no attributes, and the caller drops it.
    pub(crate) fn copy_all(&self, all: &Attributes, new: &Bearer<'_>) -> Result<(), Fault> {
        let attributes = self.common.attributes(<[Attribute]>::to_vec);
        for Attribute { keyval, value } in attributes {
            // A function of the program's may have deleted it here, and the key with it.
            let Ok(known) = all.keyval(self.kind, keyval) else { continue };
            let copied = match known.copy {
                NULL_FN => continue,
                DUP_FN => value,
                copy => match self.call_copy(copy, &known, keyval, value) {
                    Ok(Some(copied)) => copied,
                    Ok(None) => continue,
                    Err(fault) => {
                        // The first error is reported; the new object goes anyway.
                        let _ = new.delete_all(all);
                        return Err(fault);
                    }
                },
            };
            all.hold(keyval);
            new.common.change_attributes(|own| own.push(Attribute { keyval, value: copied }));
        }
        Ok(())
    }

    pub(crate) fn call_copy(
        &self,
        copy: usize,
        known: &Keyval,
        keyval: c_int,
        value: usize,
    ) -> Result<Option<usize>, Fault> {
        let (mut copied, mut flag) = (0_usize, 0);
        // SAFETY: it is what the program gave as a copy function, as in `delete`.
        let copy: Copy = unsafe { std::mem::transmute::<*mut c_void, Copy>(pointer(copy)) };
        let out = (&raw mut copied).cast();
        let (value, extra) = (pointer(value), pointer(known.extra_state));
        // SAFETY: as the standard has it; the two addresses are of locals.
        let code = unsafe { copy(self.handle, keyval, extra, value, out, &mut flag) };
        succeeded(code, "copy")?;
        Ok((flag != 0).then_some(copied))
    }
}

/// A word of the program, as it came.
fn pointer(value: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(value)
}

fn succeeded(code: c_int, what: &str) -> Result<(), Fault> {
    if code == MPI_SUCCESS {
        return Ok(());
    }
    Err(fault(code, format!("the program's {what} function of the attribute returned {code}")))
}

impl CommObject {
    /// As something with attributes.
    pub(crate) fn bearer(&self) -> Bearer<'_> {
        Bearer { kind: Kind::Comm, handle: self.handle.0, common: &self.common }
    }

    /// Deletes all attributes, the last one first.
    pub(crate) fn delete_attributes(&self, library: &Library) -> Result<(), Fault> {
        self.bearer().delete_all(&library.attributes)
    }
}
