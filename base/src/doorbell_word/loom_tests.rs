//! Model of sleep and wake. A sleeper that decided to sleep while its word still says so, with
//! a message published and every sender gone, would sleep for ever: that is what must not be.
//! The futex itself is not modelled: the kernel compares the word under its own lock. Of the socket
//! the model has a count of what was sent and not taken out; one who sleeps on it sleeps while that
//! is zero.

use loom::sync::Arc;
use loom::thread;

use super::*;

/// An owner, with what its senders leave to it.
#[derive(Default)]
struct Owner {
    words: DoorbellWords,
    messages: [AtomicU32; 2],
    dead: AtomicU32,
    /// Sent and not taken out.
    datagrams: AtomicU32,
    futex_wakes: AtomicU32,
}

impl Owner {
    fn publish(&self, message: usize) {
        self.messages[message].store(1, Ordering::Release);
    }

    fn send(&self) -> bool {
        // The kernel's lock of the queue.
        self.datagrams.fetch_add(1, Ordering::AcqRel);
        true
    }

    fn drain(&self) {
        self.datagrams.swap(0, Ordering::AcqRel);
    }

    fn wake(&self, sleep: Sleep) -> bool {
        match sleep {
            Sleep::Fd => self.send(),
            Sleep::Futex => {
                self.futex_wakes.fetch_add(1, Ordering::Relaxed);
                true
            }
        }
    }

    fn ring(&self) {
        ring_word(&self.words.word, |sleep| self.wake(sleep));
    }

    fn arm(&self, kind: Sleep, membarrier: bool) {
        arm_model(&self.words.word, kind, membarrier);
    }

    fn messages(&self) -> u32 {
        self.messages.iter().map(|m| m.load(Ordering::Acquire)).sum()
    }

    fn has_died(&self) -> bool {
        self.dead.load(Ordering::Acquire) != 0
    }

    /// Whether one who sleeps by `kind` is awake in the end, everybody else having gone.
    fn ends(&self, kind: Sleep) -> bool {
        match kind {
            Sleep::Fd => self.datagrams.load(Ordering::Acquire) > 0,
            Sleep::Futex => self.futex_wakes.load(Ordering::Relaxed) > 0,
        }
    }

    /// Arms and polls; true when the owner would call the kernel to sleep on the word.
    fn sleeps_after(&self, expected: u32, membarrier: bool) -> bool {
        self.arm(Sleep::Futex, membarrier);
        if self.messages() >= expected {
            disarm_word(&self.words.word, || ());
            return false;
        }
        true
    }
}

/// The owner's half, with the heavy fence where the system has one.
pub(crate) fn arm_model(word: &AtomicU32, kind: Sleep, membarrier: bool) {
    let fence = || {
        if membarrier {
            heavy_fence();
        }
        membarrier
    };
    arm_word(word, kind, fence, || ());
}

fn no_message_is_slept_through(senders: usize, start: u32, membarrier: bool) {
    loom::model(move || {
        let owner = Arc::new(Owner::default());
        owner.words.word.store(start, Ordering::Relaxed);
        let threads: Vec<_> = (0..senders)
            .map(|sender| {
                let owner = Arc::clone(&owner);
                thread::spawn(move || {
                    owner.publish(sender);
                    owner.ring();
                })
            })
            .collect();
        let slept = owner.sleeps_after(1, membarrier);
        for thread in threads {
            thread.join().unwrap();
        }
        if slept {
            assert!(rung(&owner.words.word), "asleep with a message in the queue");
            assert!(
                owner.futex_wakes.load(Ordering::Relaxed) == 1,
                "woken once, by the one that took it"
            );
        } else {
            assert!(owner.futex_wakes.load(Ordering::Relaxed) <= 1);
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
        let owner = Arc::new(Owner::default());
        let sender = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || {
                for message in 0..2 {
                    owner.publish(message);
                    owner.ring();
                }
            })
        };
        let mut slept = owner.sleeps_after(1, true);
        if !slept || rung(&owner.words.word) {
            disarm_word(&owner.words.word, || ());
            slept = owner.sleeps_after(2, true);
        }
        sender.join().unwrap();
        assert!(!slept || rung(&owner.words.word), "asleep with a message in the queue");
    });
}

/// The model must be able to fail: the same protocol without the fences loses a wake.
#[test]
#[should_panic(expected = "asleep with a message in the queue")]
fn loom_doorbell_needs_its_fences() {
    loom::model(|| {
        let owner = Arc::new(Owner::default());
        let sender = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || {
                owner.publish(0);
                if owner.words.word.load(Ordering::Relaxed) != AWAKE {
                    owner.words.word.swap(AWAKE, Ordering::AcqRel);
                }
            })
        };
        owner.words.word.store(FUTEX, Ordering::Relaxed);
        let slept = owner.messages() == 0;
        sender.join().unwrap();
        assert!(!slept || rung(&owner.words.word), "asleep with a message in the queue");
    });
}

/// What is under the lock of a rank and its progress thread.
struct Inside {
    left: u32,
    called: bool,
}

/// A progress thread polls and arms under the lock, twice. What the owner leaves between them rings a doorbell that is not
/// armed yet; so the owner leaves a mark, too, which the helper checks before it arms.
fn what_is_left_before_a_sleep_is_done(marks: bool) {
    loom::model(move || {
        let owner = crate::worker_lock::WorkerLock::new(Inside { left: 0, called: false });
        let (door, word) = (owner.remote(), Arc::new(AtomicU32::new(AWAKE)));
        let bell = Arc::clone(&word);
        let helper = thread::spawn(move || {
            let mut taken = 0;
            // Called once, it polls twice at most.
            for _ in 0..2 {
                {
                    let mut inside = door.enter();
                    taken += std::mem::take(&mut inside.left);
                    inside.called = false;
                }
                let inside = door.enter();
                if inside.called {
                    continue;
                }
                arm_model(&bell, Sleep::Futex, true);
                break;
            }
            taken
        });
        {
            let mut inside = owner.borrow_mut();
            (inside.left, inside.called) = (1, marks);
            ring_word(&word, |_| true);
        }
        let taken = helper.join().unwrap();
        assert!(taken == 1 || rung(&word), "asleep with work left");
    });
}

#[test]
fn loom_doorbell_no_call_is_lost_before_a_sleep() {
    what_is_left_before_a_sleep_is_done(true);
}

#[test]
#[should_panic(expected = "asleep with work left")]
fn loom_doorbell_a_helper_needs_the_mark() {
    what_is_left_before_a_sleep_is_done(false);
}

const ASLEEP: &str = "asleep for ever";

/// Two messages; the owner sleeps for each, on its socket. `late` empties the socket when nothing
/// must come between any more.
fn descriptor_sleeper(late: bool) {
    loom::model(move || {
        let owner = Arc::new(Owner::default());
        announce_socket(&owner.words);
        let sender = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || {
                for message in 0..2 {
                    owner.publish(message);
                    owner.ring();
                }
            })
        };
        let sleeps = |expected| {
            owner.arm(Sleep::Fd, true);
            let sleeps = owner.messages() < expected;
            if late {
                owner.drain();
            }
            sleeps
        };
        let mut slept = sleeps(1);
        if !slept || owner.ends(Sleep::Fd) {
            disarm_word(&owner.words.word, || owner.drain());
            slept = sleeps(2);
        }
        sender.join().unwrap();
        assert!(!slept || owner.ends(Sleep::Fd), "{ASLEEP}");
    });
}

#[test]
fn loom_doorbell_a_descriptor_sleeper_is_woken() {
    descriptor_sleeper(false);
}

/// The model must be able to fail: a datagram is thrown away behind the last poll.
#[test]
#[should_panic(expected = "asleep for ever")]
fn loom_doorbell_is_not_drained_behind_the_last_poll() {
    descriptor_sleeper(true);
}

/// A sender dies between taking the state and waking, and is marked dead. `in_time` says whether the
/// owner's socket is announced before it arms, `mark` is how the marker wakes.
fn robbed_by_the_dead(kind: Sleep, in_time: bool, mark: fn(&Owner)) {
    loom::model(move || {
        let owner = Arc::new(Owner::default());
        if in_time {
            announce_socket(&owner.words);
        }
        let others = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || {
                // Its message is lost with it, or the owner finds it; it wakes nobody.
                ring_word(&owner.words.word, |_| true);
                owner.dead.store(1, Ordering::Release);
                mark(&owner);
            })
        };
        owner.arm(kind, true);
        if !in_time {
            announce_socket(&owner.words);
        }
        let slept = !owner.has_died();
        others.join().unwrap();
        assert!(!slept || owner.ends(kind), "{ASLEEP}");
    });
}

fn mark_whatever(owner: &Owner) {
    wake_whatever(&owner.words, || _ = owner.wake(Sleep::Futex), || owner.send());
}

#[test]
fn loom_doorbell_a_death_wakes_who_was_robbed_of_its_state() {
    robbed_by_the_dead(Sleep::Fd, true, mark_whatever);
    robbed_by_the_dead(Sleep::Futex, true, mark_whatever);
}

/// The model must be able to fail: a marker that reads the word finds an owner that is awake.
#[test]
#[should_panic(expected = "asleep for ever")]
fn loom_doorbell_a_death_must_not_trust_the_word() {
    robbed_by_the_dead(Sleep::Fd, true, Owner::ring);
}

/// The same: a socket that is announced behind the heavy fence may not be seen.
#[test]
#[should_panic(expected = "asleep for ever")]
fn loom_doorbell_sockets_are_announced_before_the_owner_arms() {
    robbed_by_the_dead(Sleep::Fd, false, mark_whatever);
}

/// The first datagram is refused, the second one is not; `says_so` is whether the sender notices.
fn refused_once(says_so: bool) {
    loom::model(move || {
        let owner = Arc::new(Owner::default());
        announce_socket(&owner.words);
        let sender = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || {
                owner.publish(0);
                ring_word(&owner.words.word, |_| !says_so);
                owner.publish(1);
                owner.ring();
            })
        };
        owner.arm(Sleep::Fd, true);
        let slept = owner.messages() == 0;
        sender.join().unwrap();
        assert!(!slept || owner.ends(Sleep::Fd), "{ASLEEP}");
    });
}

#[test]
fn loom_doorbell_a_refused_datagram_leaves_the_state() {
    refused_once(true);
}

/// The model must be able to fail: nobody puts the state back.
#[test]
#[should_panic(expected = "asleep for ever")]
fn loom_doorbell_a_refusal_that_is_not_noticed_is_a_lost_wake() {
    refused_once(false);
}
