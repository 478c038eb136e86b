//! Model of sleep and wake. A sleeper that decided to sleep while its word still says so, with
//! a message published and every sender gone, would sleep for good: that is what must not be.
//! The futex itself is not modelled: the kernel compares the word under its own lock.

use loom::sync::Arc;
use loom::thread;

use super::*;

#[derive(Default)]
struct Shared {
    word: AtomicU32,
    messages: [AtomicU32; 2],
    wakes: AtomicU32,
}

impl Shared {
    fn publish(&self, sender: usize) {
        self.messages[sender].store(1, Ordering::Release);
    }

    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
    }

    fn messages(&self) -> u32 {
        self.messages.iter().map(|m| m.load(Ordering::Acquire)).sum()
    }

    /// Arms and looks; true when the owner would call the kernel to sleep.
    fn sleeps_after(&self, expected: u32, membarrier: bool) -> bool {
        let fence_or_not = || {
            if membarrier {
                heavy_fence();
            }
            membarrier
        };
        arm_word(&self.word, Sleep::Futex, fence_or_not, || ());
        if self.messages() >= expected {
            disarm_word(&self.word);
            return false;
        }
        true
    }
}

fn no_message_is_slept_through(senders: usize, start: u32, membarrier: bool) {
    loom::model(move || {
        let shared = Arc::new(Shared::default());
        shared.word.store(start, Ordering::Relaxed);
        let threads: Vec<_> = (0..senders)
            .map(|sender| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.publish(sender);
                    ring_word(&shared.word, |_| shared.wake());
                })
            })
            .collect();
        let slept = shared.sleeps_after(1, membarrier);
        for thread in threads {
            thread.join().unwrap();
        }
        if slept {
            assert!(rung(&shared.word), "asleep with a message in the queue");
            assert!(shared.wakes.load(Ordering::Relaxed) == 1, "woken once, by whoever took it");
        } else {
            assert!(shared.wakes.load(Ordering::Relaxed) <= 1);
        }
    });
}

#[test]
fn loom_doorbell_one_sender() {
    no_message_is_slept_through(1, AWAKE, true);
}

#[test]
fn loom_doorbell_two_senders_wake_once() {
    no_message_is_slept_through(2, AWAKE, true);
}

#[test]
fn loom_doorbell_owner_without_membarrier() {
    no_message_is_slept_through(1, FENCED, false);
}

#[test]
fn loom_doorbell_sleeps_again_after_the_first_message() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for message in 0..2 {
                    shared.publish(message);
                    ring_word(&shared.word, |_| shared.wake());
                }
            })
        };
        let mut slept = shared.sleeps_after(1, true);
        if !slept || rung(&shared.word) {
            disarm_word(&shared.word);
            slept = shared.sleeps_after(2, true);
        }
        sender.join().unwrap();
        assert!(!slept || rung(&shared.word), "asleep with a message in the queue");
    });
}

/// The model must be able to fail: the same protocol without the fences loses a wake.
#[test]
#[should_panic(expected = "asleep with a message in the queue")]
fn loom_doorbell_needs_its_fences() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.publish(0);
                if shared.word.load(Ordering::Relaxed) != AWAKE {
                    shared.word.swap(AWAKE, Ordering::AcqRel);
                }
            })
        };
        shared.word.store(FUTEX, Ordering::Relaxed);
        let slept = shared.messages() == 0;
        sender.join().unwrap();
        assert!(!slept || rung(&shared.word), "asleep with a message in the queue");
    });
}
