//! Keeps libfabric from rewriting the code of the C library while threads run in it. It says nothing of our
//! own registrations.
//!
//! Some providers (`verbs`, `efa`) keep a cache of registrations, for which libfabric has to know when memory is
//! unmapped. Unless the environment says otherwise it has its *memhooks* do that, which overwrite the first
//! instructions of `munmap`, `madvise` and others in the C library when the first domain with a cache is opened,
//! and restore them when the last one is closed. A thread that is in such a system call meanwhile returns into
//! the midst of an overwritten instruction and crashes: any thread of the program that frees memory while
//! another one opens or closes an interface (libfabric's issues 7569 and 10943; seen with 1.17).
//!
//! So before the first domain is opened, libfabric is given a monitor of ours that refuses to start. No domain
//! has a cache then, as with `FI_MR_CACHE_MONITOR=disabled`, and the C library stays as it is. An environment
//! variable would be set too late, or beside threads that read it. Who sets `FI_MR_CACHE_MONITOR` gets what it
//! says.
//!
//! ```text
//! absent ── install, once ──▶ imported ── exit of the process ──▶ closed
//! ```
//!
//! A monitor may be imported once in a process. Where another user of libfabric has done so, or has a cache
//! under way, libfabric refuses ours, and theirs stays.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Once;

use libfabric_sys as sys;

use crate::info::VERSION;

/// The variable by which users choose a monitor.
const CHOICE: &str = "FI_MR_CACHE_MONITOR";

/// What libfabric alone writes to.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: this module makes pointers to the contents and reads or writes nothing through them; libfabric
// orders its own accesses. The raw pointers inside lead to statics and to libfabric's tables.
unsafe impl<T> Sync for Shared<T> {}

static TABLE: Shared<sys::fi_ops_mem_monitor> = Shared(UnsafeCell::new(sys::fi_ops_mem_monitor {
    size: size_of::<sys::fi_ops_mem_monitor>(),
    start: Some(start),
    stop: Some(stop),
    subscribe: Some(subscribe),
    unsubscribe: Some(unsubscribe),
    valid: Some(valid),
}));

static MONITOR: Shared<sys::fid_mem_monitor> = Shared(UnsafeCell::new(sys::fid_mem_monitor {
    fid: sys::fid {
        fclass: sys::FI_CLASS_MEM_MONITOR as usize,
        context: ptr::null_mut(),
        ops: ptr::null_mut(),
    },
    export_ops: TABLE.0.get(),
    import_ops: ptr::null_mut(),
}));

/// Refuses: the cache that asks for it does without, and its domain without a cache.
extern "C" fn start(_: *mut sys::fid_mem_monitor) -> c_int {
    -sys::FI_ENOSYS
}

extern "C" fn stop(_: *mut sys::fid_mem_monitor) {}

/// Nothing is watched; not called, since nothing starts.
extern "C" fn subscribe(_: *mut sys::fid_mem_monitor, _: *const c_void, _: usize) -> c_int {
    -sys::FI_ENOSYS
}

extern "C" fn unsubscribe(_: *mut sys::fid_mem_monitor, _: *const c_void, _: usize) {}

/// What is not watched may have been unmapped.
extern "C" fn valid(_: *mut sys::fid_mem_monitor, _: *const c_void, _: usize) -> bool {
    false
}

/// Before the first domain is opened, and after libfabric was asked for its providers, when it has read
/// its environment.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        if let Some(choice) = std::env::var_os(CHOICE) {
            tracing::debug!("libfabric's cache of registrations: {CHOICE} is {}", choice.display());
            return;
        }
        match import() {
            0 => {
                // SAFETY: the function may be called at any time after the import.
                let error = unsafe { libc::atexit(close) };
                if error != 0 {
                    tracing::debug!("libfabric's monitor of memory stays until the end");
                }
            }
            error if error.wrapping_abs() == sys::FI_EBUSY => {
                tracing::debug!("libfabric's monitor of memory is another user's in this process");
            }
            error => tracing::warn!(
                "libfabric takes no monitor of memory ({}): threads that free memory while an interface is \
                 opened may crash; set {CHOICE}=disabled",
                sys::error_text(error)
            ),
        }
    });
}

fn import() -> c_int {
    let mut cache: *mut sys::fid = ptr::null_mut();
    let (null, name) = (ptr::null_mut(), c"mr_cache".as_ptr());
    // SAFETY: the name is a string, there are no attributes, and `cache` is writable.
    let error = unsafe { sys::fi_open(VERSION, name, null, 0, 0, &raw mut cache, null) };
    if error != 0 {
        return error;
    }
    // SAFETY: `cache` is open and is closed once. The monitor and its table are whole and live as long as
    // this code does, of which `close` is part.
    unsafe {
        let error = sys::fi_import_fid(cache, MONITOR.0.get().cast(), 0);
        sys::fi_close(cache);
        error
    }
}

/// At the exit of the process, before libfabric cleans up, or when this library is unloaded.
extern "C" fn close() {
    // SAFETY: the monitor was imported, since this was registered after that, in the same thread; so
    // libfabric has given it a table with `close`. It is called once.
    unsafe { sys::fi_close(MONITOR.0.get().cast()) };
}
