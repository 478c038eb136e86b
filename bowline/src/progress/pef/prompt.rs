//! Whether the rank waits for its receives before a poll for them would have come. The timer of such a receive is set and
//! stopped again for nothing, which in a virtual machine takes longer than some messages. So after some of them in a row no
//! timer is set, until one is waited for later.
//!
//! A program may wait at once for most of its receives and compute beside the others. So each receive that would have wanted its
//! poll doubles the number of prompt ones that are asked for, and soon all are polled for.

use bowline_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Prompt receives in a row after which the next is expected to be one; at first, and at most.
const FEW: u32 = 6;
const MANY: u32 = 1 << 16;

/// What waits have shown. Relaxed throughout: a handler and the thread that it interrupts are in order anyway.
#[derive(Debug)]
pub(super) struct Prompt {
    /// Until when a wait for the last receive is prompt; zero where none is watched.
    until: AtomicU64,
    /// Prompt ones in a row, and how many are asked for.
    streak: AtomicU32,
    enough: AtomicU32,
}

impl Default for Prompt {
    fn default() -> Self {
        let (until, streak) = (AtomicU64::new(0), AtomicU32::new(0));
        Self { until, streak, enough: AtomicU32::new(FEW) }
    }
}

impl Prompt {
    /// A receive was posted that is to be polled for at `poll`. Whether it is expected to be waited for before.
    pub(super) fn begin(&self, poll: u64) -> bool {
        // Relaxed, all: see `Prompt`.
        self.until.store(poll, Ordering::Relaxed);
        self.streak.load(Ordering::Relaxed) >= self.enough.load(Ordering::Relaxed)
    }

    /// The rank waits.
    pub(super) fn note_wait(&self, now: u64) {
        // Relaxed, all: see `Prompt`.
        let until = self.until.swap(0, Ordering::Relaxed);
        if until == 0 {
            return;
        }
        let streak = self.streak.load(Ordering::Relaxed);
        if now < until {
            return self.streak.store(streak.saturating_add(1), Ordering::Relaxed);
        }
        let enough = self.enough.load(Ordering::Relaxed);
        if streak >= enough {
            self.enough.store((2 * enough).min(MANY), Ordering::Relaxed);
        }
        self.streak.store(0, Ordering::Relaxed);
    }

    /// A poll has come before the wait.
    pub(super) fn note_poll(&self) {
        // Relaxed, both: see `Prompt`.
        self.until.store(0, Ordering::Relaxed);
        self.streak.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receives_that_are_waited_for_at_once_soon_set_no_timer() {
        let prompt = Prompt::default();
        for nth in 0..20 {
            assert_eq!(prompt.begin(100), nth >= FEW, "receive {nth}");
            prompt.note_wait(50);
        }
        assert!(prompt.begin(100));
        prompt.note_wait(150);
        assert!(!prompt.begin(100), "the last one was late");
        prompt.note_poll();
        prompt.note_wait(300);
        assert!(!prompt.begin(100), "that wait was for nothing that is watched");
    }

    #[test]
    fn one_late_receive_among_some_prompt_ones_is_polled_for() {
        let prompt = Prompt::default();
        let mut missed = 0;
        for _ in 0..100 {
            for _ in 0..20 {
                prompt.begin(100);
                prompt.note_wait(50);
            }
            if prompt.begin(100) {
                missed += 1;
                prompt.note_wait(150);
            } else {
                prompt.note_poll();
            }
        }
        assert!(missed <= 3, "{missed} of 100 were not polled for");
    }
}
