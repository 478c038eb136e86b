//! Arguments that are addresses, as a C program passes them.
//!
//! A value of these types comes from a C program only, through the entries of [`entry`](crate::entry):
//! nothing in the library makes one of a number. What the standard asks of the program is the proof
//! behind the accesses: the address is null, or of memory of this type that is the program's for the
//! call. It may be misaligned and hold anything; null is reported as an error.

use std::ffi::{CStr, c_char};

use crate::fault::{Fault, Object, fault};
use crate::generated::constants::MPI_ERR_ARG;
use crate::handle::{Comm, File, Session, Win};

/// Where a result goes.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// No place.
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());

    pub(crate) const fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address itself.
    #[allow(dead_code, reason = "for chapters to come")]
    pub(crate) const fn address(self) -> *mut T {
        self.0
    }

    /// Stores a result that the program must have space for.
    #[inline]
    pub(crate) fn set(self, value: T) -> Result<(), Fault> {
        if self.0.is_null() {
            return Err(null());
        }
        // SAFETY: not null, so it is the program's memory for a `T`, as the module says.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Stores a result that the program may do without.
    #[inline]
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What stands there.
    #[inline]
    pub(crate) fn get(self) -> Result<T, Fault> {
        self.input().get()
    }

    /// The element `index` of an array.
    #[inline]
    #[allow(dead_code, reason = "for chapters to come")]
    pub(crate) const fn at(self, index: usize) -> Self {
        // The address is used only where the array has the element.
        Self(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }

    /// The same, to read.
    pub(crate) const fn input(self) -> In<T> {
        In(self.0)
    }
}

/// Where a value or an array of values stands.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub(crate) const fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address itself.
    #[allow(dead_code, reason = "for chapters to come")]
    pub(crate) const fn address(self) -> *const T {
        self.0
    }

    /// The value.
    #[inline]
    pub(crate) fn get(self) -> Result<T, Fault> {
        if self.0.is_null() {
            return Err(null());
        }
        // SAFETY: not null, so it is the program's and holds a `T`, as the module says.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The element `index` of an array.
    #[inline]
    pub(crate) const fn at(self, index: usize) -> Self {
        Self(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }

    /// The elements of an array of `count`, which may be null when there are none.
    pub(crate) fn array(self, count: usize) -> Result<Vec<T>, Fault> {
        (0..count).map(|index| self.at(index).get()).collect()
    }
}

/// A text of the program that ends with a zero byte.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn addr(self) -> usize {
        self.0.addr()
    }

    /// A text that begins at an address that the program has stored.
    pub(crate) const fn of(start: In<c_char>) -> Self {
        Self(start.0)
    }

    /// Its bytes.
    pub(crate) fn bytes(self) -> Result<Vec<u8>, Fault> {
        if self.0.is_null() {
            return Err(null());
        }
        // SAFETY: not null, so it is a text of the program, as the module says; it is copied before
        // anything else happens.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes().to_vec())
    }
}

/// Space of the program for a text.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct TextOut(*mut c_char);

impl TextOut {
    pub(crate) fn addr(self) -> usize {
        self.0.addr()
    }

    /// Stores as much of a text as fits into `space` bytes with a zero byte behind it, and gives the
    /// length without that.
    pub(crate) fn set(self, text: &[u8], space: usize) -> Result<usize, Fault> {
        if self.0.is_null() {
            return Err(null());
        }
        let len = text.len().min(space.saturating_sub(1));
        if space > 0 {
            // SAFETY: not null, so it is the program's memory of at least `space` bytes, as the module
            // and the standard say; `len` is below `space`. The texts of the library are elsewhere.
            unsafe {
                self.0.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), len);
                self.0.add(len).write(0);
            }
        }
        Ok(len)
    }
}

#[cold]
fn null() -> Fault {
    fault(MPI_ERR_ARG, "an argument is a null pointer where an address is needed")
}

macro_rules! objects {
    ($($kind:ident),*) => {
        $(
            impl From<Out<$kind>> for Object {
                #[inline]
                fn from(handle: Out<$kind>) -> Self {
                    handle.get().map_or(Self::Own, Self::$kind)
                }
            }
        )*
    };
}

objects!(Comm, Win, File, Session);
