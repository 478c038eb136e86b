//! Signals that a library has taken from the program.
//!
//! Some builds of libfabric are linked with the libraries of older networks (PSM, PSM2). Loading
//! those is enough for them to handle SIGSEGV, SIGABRT, SIGTERM and others, before `main`: a
//! process that is hit then ends with exit code 1, as if it had chosen to, and the program that
//! started it does not see the signal. Here the system's own handling is put back.
//!
//! Only handlers that lie in those libraries are touched, so the program's own stay. They are of
//! use to nobody else: what they do is to print addresses and to exit.

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::sync::Once;

/// Signals that the libraries are known to take.
const TAKEN: &[c_int] = &[
    libc::SIGINT,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGTERM,
];

/// How the names of their files begin.
const TAKERS: &[&str] = &["libpsm", "libinfinipath"];

/// Puts the system's handling of signals back that libfabric's libraries replaced when they
/// were loaded. It does so once; later calls do nothing. [`OfiIface::open`](crate::OfiIface::open)
/// and [`list`](crate::list) call it; a program that is linked with this crate and may end before
/// it opens an interface calls it first.
pub fn restore_signals() {
    static RESTORED: Once = Once::new();
    RESTORED.call_once(|| {
        for &signal in TAKEN {
            restore(signal);
        }
    });
}

fn restore(signal: c_int) {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null pointer changes nothing; the present action is written to `action`.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    if asked != 0 {
        return;
    }
    // SAFETY: the call above succeeded, so it wrote the whole struct.
    let handler = unsafe { action.assume_init_ref() }.sa_sigaction;
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN || !is_of_a_taker(handler) {
        return;
    }
    // SAFETY: all zeros is a value of the plain struct: the system's handling, no flags, an empty
    // mask (`SIG_DFL` is 0).
    let usual: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the struct is whole, and the system's handling is good for any signal. Nobody else
    // has put a handler there in the meantime, or this takes it away; the libraries did so before
    // `main`, and this is called before the program's work begins.
    unsafe { libc::sigaction(signal, &raw const usual, std::ptr::null_mut()) };
}

/// Whether the code at `address` belongs to one of the libraries.
fn is_of_a_taker(address: usize) -> bool {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; `info` is writable.
    let found = unsafe { libc::dladdr(address as *const _, info.as_mut_ptr()) };
    // SAFETY: all zeros is a value of the struct, which the call may have overwritten.
    let file = unsafe { info.assume_init_ref() }.dli_fname;
    if found == 0 || file.is_null() {
        return false;
    }
    // SAFETY: not null, so the name of a loaded file, which ends with a zero and stays while that
    // is loaded; libraries that are linked stay loaded.
    let file = unsafe { CStr::from_ptr(file) }.to_string_lossy();
    let name = file.rsplit('/').next().unwrap_or_default();
    TAKERS.iter().any(|taker| name.starts_with(taker))
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn own(_: c_int) {}

    fn handler(signal: c_int) -> usize {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a null pointer changes nothing; zeroed memory is a value of the struct.
        unsafe {
            assert_eq!(libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()), 0);
            action.assume_init_ref().sa_sigaction
        }
    }

    /// Handlers of those libraries are gone; others stay, and are those of this program.
    #[test]
    fn only_foreign_handlers_go() {
        // SAFETY: `own` does nothing, which is good for any signal; nobody sends this one.
        unsafe { libc::signal(libc::SIGFPE, own as extern "C" fn(c_int) as usize) };
        restore_signals();
        for &signal in TAKEN {
            let handler = handler(signal);
            assert!(!is_of_a_taker(handler), "signal {signal} is still handled elsewhere");
        }
        assert_eq!(handler(libc::SIGFPE), own as extern "C" fn(c_int) as usize);
    }

    /// A process that ends itself by a signal is seen to have done so.
    #[test]
    fn a_signal_ends_a_process_as_a_signal() {
        use std::os::unix::process::ExitStatusExt as _;
        const CHILD: &str = "BOWLINE_TEST_OFI_SIGNAL";
        if std::env::var_os(CHILD).is_some() {
            restore_signals();
            // SAFETY: ends this process, which was started for that.
            unsafe { libc::raise(libc::SIGTERM) };
            unreachable!("the signal ends the process");
        }
        let name = "signals::tests::a_signal_ends_a_process_as_a_signal";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGTERM), "{child:?}");
    }
}
