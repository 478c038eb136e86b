//! The runs of a rank that its helper thread moves on, with `BOWLINE_PROGRESS=thread`.
//!
//! ```text
//!   rank     Run::start ──► listed ──► computes          Run::advance: has it ended?
//!   helper   a message ──► Helped::advance: the next steps of every run ──► the rank is woken if it sleeps
//! ```
//! Neither waits for the other: who finds a run in work asks for more of it and goes ([`Repeat`](bowline_base::repeat::Repeat)).

use bowline_base::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bowline_ucp::{BackgroundWork, RemoteWorker};

use super::core::Shared;

/// The runs.
#[derive(Debug, Default)]
pub(crate) struct Helped(Mutex<Vec<Weak<Shared>>>);

impl Helped {
    /// Never locked while a run is in work, so that a rank which starts one does not wait for a step of another.
    fn list(&self) -> MutexGuard<'_, Vec<Weak<Shared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a run moved on that has started.
    pub(crate) fn add(&self, run: &Arc<Shared>) {
        let mut list = self.list();
        // Relaxed: ordered by the lock; so below.
        if !run.listed.swap(true, Ordering::Relaxed) {
            list.push(Arc::downgrade(run));
        }
    }

    /// Removes the run with this number from the list, unless it was started again. Whether it was removed, and
    /// whether its rank has asked for work meanwhile.
    fn remove(&self, index: usize) -> (bool, bool) {
        let (mut list, mut works) = (self.list(), 0);
        if let Some(run) = list[index].upgrade() {
            let mut ended = false;
            // Where it is in work, its rank is starting it, or sees its end: asked again later.
            run.core.work(|core| {
                ended = !core.is_active();
                works += 1;
            });
            if !ended {
                return (false, works > 1);
            }
            // Relaxed: as above.
            run.listed.store(false, Ordering::Relaxed);
        }
        list.swap_remove(index);
        (true, works > 1)
    }
}

impl BackgroundWork for Helped {
    fn advance(&self, door: &RemoteWorker) -> bool {
        let (mut moved, mut index) = (false, 0);
        loop {
            let Some(run) = self.list().get(index).map(Weak::upgrade) else { return moved };
            let (mut ended, mut works) = (run.is_none(), 0);
            if let Some(run) = run {
                run.core.work(|core| {
                    moved |= core.advance(door, None);
                    ended = !core.is_active();
                    works += 1;
                });
            }
            let (removed, asked) = if ended { self.remove(index) } else { (false, false) };
            // A rank that was refused may sleep by now, without having seen the end.
            moved |= works > 1 || asked;
            index += usize::from(!removed);
        }
    }
}
