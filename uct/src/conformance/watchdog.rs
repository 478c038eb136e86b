//! Ends the process when a test hangs. It asserts no time: its limit is far beyond what any
//! machine needs, and may be raised with `BOWLINE_TEST_SECONDS` for one under a debugger.
//!
//! A test that waits for a peer which was reported as failed waits for ever, so the last words name what
//! was reported.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Seconds that a test may take; the slowest takes a few.
const SECONDS: u64 = 180;

thread_local! {
    /// Failures that were reported to the test that this thread runs. The clock's thread shares it.
    static FAILURES: Arc<Mutex<Vec<String>>> = Arc::default();
}

/// Notes that a failure was reported to an interface of the test that this thread runs.
pub(super) fn note_failure(what: String) {
    FAILURES.with(|failures| failures.lock().unwrap_or_else(PoisonError::into_inner).push(what));
}

/// While it lives, a clock runs; when that runs out, the process is aborted with the name of the
/// test.
#[derive(Debug)]
pub struct Watchdog {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches the test `name` of `provider`.
    pub fn start(provider: &'static str, name: &'static str) -> Self {
        let seconds = std::env::var("BOWLINE_TEST_SECONDS");
        let seconds = seconds.ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
        let (over, wait) = channel::<()>();
        let failures = FAILURES.with(Arc::clone);
        failures.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let thread = std::thread::spawn(move || {
            if wait.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
                let failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                let what = format!(
                    "conformance of {provider}: {name} hangs: no end after {seconds} s; failures \
                     reported: [{}]",
                    failures.join("; ")
                );
                // Not `eprintln`, which the harness hides from a reader who wants to know the reason.
                let _ = writeln!(std::io::stderr(), "{what}");
                std::process::abort();
            }
        });
        Self { over: Some(over), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The thread sees the channel close and ends.
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the watchdog's thread does not panic");
        }
    }
}
