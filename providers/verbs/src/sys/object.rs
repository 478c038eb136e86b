//! Objects of the library, each of which is destroyed once.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::ptr::NonNull;

/// An object of the library, and the function that destroys it.
pub(super) struct LibraryObject<T> {
    raw: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T) -> c_int,
}

// SAFETY: the library's objects may be used from any thread; it locks where it must.
unsafe impl<T> Send for LibraryObject<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for LibraryObject<T> {}

impl<T> LibraryObject<T> {
    /// What a function of the library has made, or the error of the system where that is nothing.
    ///
    /// # Safety
    /// - `raw` must be null, or an object that `destroy` destroys and that nobody else does.
    /// - When the value is dropped nothing that was made from the object may be left, and nothing may use it.
    pub(super) unsafe fn new(
        raw: *mut T,
        destroy: unsafe extern "C" fn(*mut T) -> c_int,
    ) -> io::Result<Self> {
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { raw, destroy }),
            None => Err(io::Error::last_os_error()),
        }
    }

    #[inline]
    pub(super) const fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> fmt::Debug for LibraryObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<T> Drop for LibraryObject<T> {
    fn drop(&mut self) {
        // SAFETY: by the promises to `new` the object is alive, and nothing is left that needs it.
        unsafe { (self.destroy)(self.raw.as_ptr()) };
    }
}
