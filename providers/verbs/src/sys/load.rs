//! The library, loaded when the first device is asked for: a program built with this provider
//! runs on machines without RDMA, and says there what to install.

use std::ffi::CStr;
use std::sync::OnceLock;

use super::ffi::Functions;

/// The library's functions, or why there are none. Only success is kept: a process that has no descriptor
/// now may have one at the next call.
pub(crate) fn library() -> Result<&'static Functions, String> {
    static LIBRARY: OnceLock<Functions> = OnceLock::new();
    match LIBRARY.get() {
        Some(functions) => Ok(functions),
        // Two threads that load at once get the same functions.
        None => load().map(|functions| LIBRARY.get_or_init(|| functions)),
    }
}

/// The functions, for objects that exist only because the library was loaded.
pub(super) fn loaded() -> &'static Functions {
    library().expect("an object of the library exists, so it was loaded")
}

fn load() -> Result<Functions, String> {
    // SAFETY: the name ends with a zero byte; the library's initialisers are those that every
    // program linked with it runs.
    let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        // SAFETY: the function has no preconditions; what it returns is a text of this thread, which
        // stays until its next call of the loader, or null.
        let why = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
        return Err(format!(
            "{}; the packages libibverbs1 and ibverbs-providers have it",
            why.map_or_else(|| "libibverbs.so.1 cannot be loaded".into(), CStr::to_string_lossy)
        ));
    }
    // SAFETY: `handle` is a loaded library, which is never closed; its functions have the types
    // that its header declares, which are those of `Functions`.
    unsafe {
        Functions::find(|name: &CStr| libc::dlsym(handle, name.as_ptr())).map_err(|missing| {
            format!("libibverbs.so.1 lacks `{missing}`; install rdma-core 32 or later")
        })
    }
}
