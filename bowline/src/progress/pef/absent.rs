//! Whether senders wait while their receiver computes. Where the processors copy, a poll helps a sender that waits: it
//! copies all by itself, once it is asked. One that computes as well gains nothing, and the poll costs its
//! receiver a signal. So after some polls that found no sender, messages are polled for late, but for one of
//! some, which shows whether that is still so.

use bowline_base::sync::atomic::{AtomicU32, Ordering};

/// Polls that found no sender, after which none is expected: those of two or three messages.
const ENOUGH: u32 = 6;

/// Of so many messages that would be left alone, one is polled for early.
const TRIED: u32 = 16;

/// What polls have found. Relaxed throughout: a handler and the thread that it interrupts are in order anyway.
#[derive(Debug, Default)]
pub(super) struct Absent {
    /// Polls since a sender came, up to [`ENOUGH`].
    polls: AtomicU32,
    /// Messages that were left alone since one was polled for early.
    left: AtomicU32,
}

impl Absent {
    /// A poll has found that the sender does not copy.
    pub(super) fn note_absent(&self) {
        // Relaxed, both: see `Absent`.
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store((polls + 1).min(ENOUGH), Ordering::Relaxed);
    }

    /// A poll has found a message that its sender copies, or has copied.
    pub(super) fn note_present(&self) {
        // Relaxed: see `Absent`.
        self.polls.store(0, Ordering::Relaxed);
    }

    /// Whether the next message is to be polled for early.
    pub(super) fn polls_early(&self) -> bool {
        // Relaxed, all: see `Absent`.
        if self.polls.load(Ordering::Relaxed) < ENOUGH {
            return true;
        }
        let left = self.left.load(Ordering::Relaxed);
        let early = left >= TRIED;
        self.left.store(if early { 0 } else { left + 1 }, Ordering::Relaxed);
        early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_senders_that_compute_are_left_alone_until_one_waits() {
        let absent = Absent::default();
        for poll in 0..ENOUGH {
            assert!(absent.polls_early(), "after {poll} polls");
            absent.note_absent();
        }
        for _ in 0..3 {
            let early = (0..TRIED + 1).filter(|_| absent.polls_early()).count();
            assert_eq!(early, 1, "one of {}", TRIED + 1);
            absent.note_absent();
        }
        absent.note_present();
        assert!((0..100).all(|_| absent.polls_early()));
        absent.note_absent();
        assert!(absent.polls_early(), "one poll says nothing yet");
    }
}
