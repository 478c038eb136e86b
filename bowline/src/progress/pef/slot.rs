//! The signal, and how its handler finds a worker: rules 2 to 4 of [`super`].

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use bowline_base::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::ProgressError;
use super::flow::Flow;

/// Workers of one process.
pub(in super::super) const SLOTS: usize = 1024;

pub(super) struct Slot {
    pub(super) flow: AtomicPtr<Flow>,
    /// A handler is in it.
    pub(super) busy: AtomicU32,
}

pub(super) static TABLE: [Slot; SLOTS] =
    [const { Slot { flow: AtomicPtr::new(std::ptr::null_mut()), busy: AtomicU32::new(0) } }; SLOTS];

/// Numbers of slots that are taken.
pub(super) static TAKEN: Mutex<Vec<bool>> = Mutex::new(Vec::new());

thread_local! {
    /// The thread is in a handler. Constant and without destructor: reading it runs no code.
    static IN_HANDLER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

pub(in super::super) fn in_signal_handler() -> bool {
    IN_HANDLER.get()
}

impl Slot {
    fn handle(&self) {
        // SeqCst, all: pairs with the store and the load in `Pef::drop`: either this handler sees that the slot
        // is empty, or the thread that has emptied it sees the handler, and waits.
        self.busy.fetch_add(1, Ordering::SeqCst);
        let flow = self.flow.load(Ordering::SeqCst);
        // SAFETY: null, or the flow of a `Pef`, which lets go of it only after it has emptied the slot and
        // seen that no handler is in it.
        if let Some(flow) = unsafe { flow.as_ref() } {
            let nested = IN_HANDLER.replace(true);
            flow.poll();
            IN_HANDLER.set(nested);
        }
        // SeqCst: pairs with the load in `Pef::drop`.
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

extern "C" fn on_signal(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the place of `errno` of this thread, which is valid as long as the thread is.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    // SAFETY: installed with `SA_SIGINFO`, so that the system passes a structure that is filled in;
    // of a timer's signal the value is the one that the timer was made with.
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value()) };
    if code == libc::SI_TIMER
        && let Some(slot) = TABLE.get(value.sival_ptr.addr())
    {
        slot.handle();
    }
    *errno = before;
}

/// The signal, whose handler is installed at the first call.
pub(super) fn signal() -> Result<libc::c_int, ProgressError> {
    static SIGNAL: OnceLock<Option<libc::c_int>> = OnceLock::new();
    SIGNAL.get_or_init(install).ok_or(ProgressError::NoSignal)
}

fn install() -> Option<libc::c_int> {
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|&signal| {
        // SAFETY: all zeroes is a value of this structure.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: only asks; `old` outlives the call.
        let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) };
        if asked != 0 || old.sa_sigaction != libc::SIG_DFL {
            return false;
        }
        // SAFETY: as above. The mask is empty: polls of several workers may interrupt each other.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = on_signal as *const () as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler has the form that `SA_SIGINFO` wants, and does only what a handler may.
        unsafe { libc::sigaction(signal, &new, std::ptr::null_mut()) == 0 }
    })
}

/// Lets the signal through to this thread.
pub(super) fn unblock(signal: libc::c_int) -> Result<(), ProgressError> {
    // SAFETY: all zeroes is a value of a set, which the next call makes an empty one.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` outlives the calls, and the number is a signal's.
    let done = unsafe {
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut())
    };
    if done == 0 {
        return Ok(());
    }
    let source = io::Error::from_raw_os_error(done);
    Err(ProgressError::System { act: "let its signal through", source })
}

pub(super) fn take_slot() -> Option<usize> {
    let taken = &mut *TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(free) = taken.iter().position(|taken| !taken) {
        taken[free] = true;
        return Some(free);
    }
    (taken.len() < SLOTS).then(|| {
        taken.push(true);
        taken.len() - 1
    })
}
