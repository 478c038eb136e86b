//! The allocator of this program, under the names by which C libraries call it: it ends the program when it is called
//! where signal handlers may be. So libibverbs and the library of the device are seen, too, which Rust's own allocator is
//! never asked by.

use std::ffi::c_void;

use bowline_uct::conformance::in_signal_safe_call;

// SAFETY: glibc exports these, with the types of the functions whose names they bear.
unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(at: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(at: *mut c_void);
}

#[inline]
fn check() {
    if in_signal_safe_call() {
        const TEXT: &[u8] = b"a call that must be signal-safe has allocated or freed\n";
        // SAFETY: writes a constant; async-signal-safe.
        unsafe { libc::write(2, TEXT.as_ptr().cast(), TEXT.len()) };
        std::process::abort();
    }
}

// SAFETY: the name is libc's, and so is what it does; the others likewise.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    check();
    // SAFETY: any size is allowed.
    unsafe { __libc_malloc(size) }
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    check();
    // SAFETY: any sizes are allowed.
    unsafe { __libc_calloc(count, size) }
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(at: *mut c_void, size: usize) -> *mut c_void {
    check();
    // SAFETY: as the caller promises.
    unsafe { __libc_realloc(at, size) }
}

// SAFETY: as for `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(at: *mut c_void) {
    if !at.is_null() {
        check();
    }
    // SAFETY: as the caller promises.
    unsafe { __libc_free(at) }
}

/// The libraries call the functions above: one that did not would make the tests blind.
#[test]
fn the_libraries_of_the_system_call_this_allocator() {
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
    assert_eq!(found as usize, malloc as *const () as usize, "libraries find another malloc");
    // SAFETY: as before.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"free".as_ptr()) };
    assert_eq!(found as usize, free as *const () as usize, "libraries find another free");
}
