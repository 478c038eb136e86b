//! Mode `thread`: a thread that sleeps on the lanes of a rank and makes progress when it is woken.
//!
//! It is the brute-force method: each message that comes while the rank computes wakes it, needed or not. It is the
//! only one that also carries out steps of collectives in the background. Rank and helper enter the worker one at a time; a rank that sleeps in a call waits
//! for the helper's news.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bowline_base::doorbell::{Doorbell, WakeSet};
use bowline_base::sync::atomic::{AtomicBool, Ordering};
use bowline_ucp::{LeftToWatch, ProgressDriver, RemoteWorker, WatchedReceive};

use super::ProgressError;
use crate::wait::sleep_on;

/// Polls in vain before sleep: an answer often comes at once.
const POLLS: u32 = 3;

/// The thread; it ends when this is dropped.
pub(super) struct Helper {
    stop: Arc<AtomicBool>,
    bell: Option<Doorbell>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts it. `bell` is what the worker's lanes ring.
    pub(super) fn start(door: RemoteWorker, bell: Option<Doorbell>) -> Result<Self, ProgressError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("bowline progress".to_owned())
            .spawn(move || {
                bowline_base::short_slice::request();
                let guard = EndsProcess;
                run(&door, &stopped);
                std::mem::forget(guard);
            })
            .map_err(|source| ProgressError::System { act: "start the thread", source })?;
        Ok(Self { stop, bell, thread: Some(thread) })
    }
}

/// Ends the process when it is dropped, that is, by a panic: ranks would wait for this thread for ever.
pub(super) struct EndsProcess;

impl Drop for EndsProcess {
    fn drop(&mut self) {
        tracing::error!("the progress thread has panicked");
        std::process::abort();
    }
}

fn run(door: &RemoteWorker, stop: &AtomicBool) {
    // SeqCst: with the fence in `Doorbell::arm`, which comes between this side's arming and its last
    // load of the flag; pairs with the store in `drop`, in front of its ring.
    while !stop.load(Ordering::SeqCst) {
        let mut idle = 0;
        while idle < POLLS {
            idle = if door.serve() == 0 { idle + 1 } else { 0 };
        }
        door.sleep(|bell, descriptors, deadline| {
            // SeqCst: as above.
            if !stop.load(Ordering::SeqCst) {
                wait(bell, descriptors, deadline);
            }
        });
    }
}

fn wait(bell: Option<&Doorbell>, descriptors: &WakeSet, deadline: Option<Duration>) {
    match bell {
        _ if !descriptors.is_empty() => sleep_on(descriptors, deadline),
        Some(bell) => {
            let _ = bell.wait(deadline);
        }
        None => std::thread::sleep(deadline.unwrap_or(Duration::from_millis(1))),
    }
}

impl ProgressDriver for Helper {
    fn watch(&mut self, _: WatchedReceive) {
        // The lanes wake it.
    }
    fn serve(&mut self) {
        // As `watch`.
    }
    fn copies_always(&self) -> bool {
        false
    }
    fn pause(&mut self) {
        // It sleeps, or serves the rank that waits.
    }
    fn resume(&mut self, _: LeftToWatch) {
        // As `watch`.
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // SeqCst: pairs with the loads in `run`.
        self.stop.store(true, Ordering::SeqCst);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
        if let Some(thread) = self.thread.take() {
            // It ends the process if it panics.
            let _ = thread.join();
        }
    }
}
