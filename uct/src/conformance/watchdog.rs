//! Ends the process when a test hangs. It asserts no time: its limit is far beyond what any
//! machine needs, and may be raised with `BOWLINE_TEST_SECONDS` for one under a debugger.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Seconds that a test may take; the slowest takes a few.
const SECONDS: u64 = 180;

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
        let thread = std::thread::spawn(move || {
            if wait.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
                let what =
                    format!("conformance of {provider}: {name} hangs: no end after {seconds} s");
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
