//! What the integration tests share.

use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

/// Runs `body` on a thread of its own; ends the whole test program, by a message and an abort,
/// when it takes longer than two minutes. A hang thus fails loudly.
pub(crate) fn within_two_minutes(what: &str, body: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        let _ = done.send(());
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    if finished.recv_timeout(Duration::from_secs(120)).is_err() && !thread.is_finished() {
        // Not `eprintln`, which the harness hides from a reader who wants to know the reason.
        let _ = writeln!(std::io::stderr(), "watchdog: {what} did not end within two minutes");
        std::process::abort();
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
