//! The election of who makes progress: of several threads that wait for different ends of one worker, the leader
//! makes progress and the others sleep until theirs is there, or one of them becomes the leader.
//!
//! ```text
//!            there is no leader
//!   waiter ──────────────────────► leader ── its end came ──► leaves: the first that is parked becomes
//!      │                              ▲                         the leader, if there is one
//!      │ there is a leader            │ called ELECTED
//!      └──────────────────► parked ───┤
//!                                     └─ called DONE ──► its end is there
//! ```
//! Rules. (1) [`ProgressElection`] lies under the lock of what is waited for; only a parked waiter's [`Slot`] is
//! touched without it. (2) A thread that finds, under the lock, that ends have come calls
//! [`settle`](ProgressElection::settle) before it releases the lock: so an end that is there has no parked waiter.
//! (3) A leader that leaves calls the next one under the same lock: so where a waiter is parked, there is a
//! leader. (4) A call is stored before the sleeper is woken, and the sleeper reads the word before
//! and after it sleeps: a call between the two is not lost, since the kernel compares the word itself.

use std::sync::Arc;

use crate::sync::atomic::{AtomicU32, Ordering};

#[cfg_attr(bowline_loom, expect(dead_code, reason = "the futex compares it"))]
const PARKED: u32 = 0;
const DONE: u32 = 1;
const ELECTED: u32 = 2;

/// Where one waiter sleeps.
#[derive(Debug, Default)]
pub(super) struct Slot(AtomicU32);

/// Why a parked waiter was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// What it waits for is there.
    Done,
    /// It is the leader.
    Elected,
}

impl Slot {
    /// Sleeps until called.
    pub(super) fn wait(&self) -> Call {
        loop {
            // Acquire pairs with the Release of `call`: what the caller did before is seen.
            match self.0.load(Ordering::Acquire) {
                DONE => return Call::Done,
                ELECTED => return Call::Elected,
                _ => sleep(&self.0),
            }
        }
    }

    fn call(&self, what: u32) {
        // Release pairs with the Acquire of `wait`.
        self.0.store(what, Ordering::Release);
        wake(&self.0);
    }
}

#[cfg(not(bowline_loom))]
fn sleep(word: &AtomicU32) {
    use rustix::thread::futex;
    // Whatever it answers, the caller reads the word again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, PARKED, None);
}

#[cfg(not(bowline_loom))]
fn wake(word: &AtomicU32) {
    use rustix::thread::futex;
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

#[cfg(bowline_loom)]
fn sleep(_: &AtomicU32) {
    crate::sync::yield_now();
}

#[cfg(bowline_loom)]
fn wake(_: &AtomicU32) {}

/// What a waiter is to do.
#[derive(Debug)]
#[must_use]
pub(super) enum Role {
    /// Make progress; [`ProgressElection::leave`] when what it waits for is there.
    Lead,
    /// Release the lock and sleep on this.
    Park(Arc<Slot>),
}

/// Whether there is a leader, and who is parked. `K` names what a waiter waits for.
#[derive(Debug)]
pub(super) struct ProgressElection<K> {
    led: bool,
    parked: Vec<(K, Arc<Slot>)>,
}

impl<K> Default for ProgressElection<K> {
    fn default() -> Self {
        Self { led: false, parked: Vec::new() }
    }
}

impl<K> ProgressElection<K> {
    /// A waiter comes for `key`, which is not there yet.
    pub(super) fn enter(&mut self, key: K) -> Role {
        if !std::mem::replace(&mut self.led, true) {
            return Role::Lead;
        }
        let slot = Arc::new(Slot::default());
        self.parked.push((key, Arc::clone(&slot)));
        Role::Park(slot)
    }

    /// Calls every parked waiter for whose key `is_there` says so.
    pub(super) fn settle(&mut self, mut is_there: impl FnMut(&K) -> bool) {
        if self.parked.is_empty() {
            return;
        }
        self.parked.retain(|(key, slot)| {
            let there = is_there(key);
            if there {
                slot.call(DONE);
            }
            !there
        });
    }

    /// The leader leaves.
    pub(super) fn leave(&mut self) {
        if self.parked.is_empty() {
            self.led = false;
        } else {
            let (_, slot) = self.parked.remove(0);
            slot.call(ELECTED);
        }
    }

    #[cfg(test)]
    pub(super) const fn has_leader(&self) -> bool {
        self.led
    }

    #[cfg(test)]
    pub(super) fn parked(&self) -> usize {
        self.parked.len()
    }
}

#[cfg(all(test, bowline_loom))]
mod loom_tests {
    //! Threads wait for messages that come from outside: whatever the order, each gets its own, and
    //! no waiter stays parked without a leader.

    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    /// The worker: messages that a poll has taken in, and who waits.
    struct State {
        here: [bool; 3],
        election: ProgressElection<usize>,
    }

    struct Shared {
        /// What the network has delivered and nobody has taken in.
        sent: [AtomicU32; 3],
        state: Mutex<State>,
    }

    impl Shared {
        fn new() -> Self {
            let state = State { here: [false; 3], election: ProgressElection::default() };
            Self { sent: Default::default(), state: Mutex::new(state) }
        }

        /// One poll, by the thread with the lock.
        fn poll(&self, state: &mut State) {
            for (here, sent) in state.here.iter_mut().zip(&self.sent) {
                // Acquire pairs with the Release of `send`.
                *here |= sent.load(Ordering::Acquire) == 1;
            }
            let here = state.here;
            state.election.settle(|&key| here[key]);
        }

        fn send(&self, key: usize) {
            // Release pairs with the Acquire of `poll`.
            self.sent[key].store(1, Ordering::Release);
        }

        fn wait(&self, key: usize, leaves: bool) {
            let mut state = self.state.lock().expect("no model panics with it");
            self.poll(&mut state);
            if state.here[key] {
                return;
            }
            match state.election.enter(key) {
                Role::Lead => drop(state),
                Role::Park(slot) => {
                    drop(state);
                    if slot.wait() == Call::Done {
                        assert!(self.state.lock().expect("as above").here[key]);
                        return;
                    }
                }
            }
            loop {
                let mut state = self.state.lock().expect("as above");
                self.poll(&mut state);
                if state.here[key] {
                    if leaves {
                        state.election.leave();
                    }
                    return;
                }
                drop(state);
                crate::sync::yield_now();
            }
        }
    }

    fn everybody_gets_its_own(order: [usize; 2], leaves: bool) {
        loom::model(move || {
            let shared = Arc::new(Shared::new());
            let waiters: Vec<_> = (0..2)
                .map(|key| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || shared.wait(key, leaves))
                })
                .collect();
            order.into_iter().for_each(|key| shared.send(key));
            for waiter in waiters {
                waiter.join().expect("it has its message");
            }
            let state = shared.state.lock().expect("as above");
            assert!(!state.election.has_leader() && state.election.parked() == 0);
        });
    }

    #[test]
    fn loom_the_first_to_wait_gets_its_message_first() {
        everybody_gets_its_own([0, 1], true);
    }

    #[test]
    fn loom_the_last_to_wait_gets_its_message_first() {
        everybody_gets_its_own([1, 0], true);
    }

    /// The control: where the leader leaves without a call (rule 3), the model must not end.
    #[test]
    #[should_panic]
    fn loom_without_a_call_of_the_leader_the_parked_are_lost() {
        everybody_gets_its_own([0, 1], false);
    }

    /// A third thread, which waits for nothing, polls in between and may take in what others wait
    /// for: it must call them.
    #[test]
    fn loom_a_poll_of_another_thread_calls_the_parked() {
        loom::model(|| {
            let shared = Arc::new(Shared::new());
            let waiter = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.wait(0, true))
            };
            let poller = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let mut state = shared.state.lock().expect("as above");
                    shared.poll(&mut state);
                })
            };
            shared.send(0);
            shared.wait(0, true);
            waiter.join().expect("it has its message");
            poller.join().expect("it polled");
        });
    }
}

#[cfg(all(test, not(bowline_loom)))]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Threads wait for numbers that a counter passes; the leader moves it.
    #[test]
    fn the_lead_goes_from_thread_to_thread() {
        let state = Mutex::new((0_u32, ProgressElection::<u32>::default()));
        let lock = || state.lock().expect("no test panics with it");
        let progress = || {
            let (count, election) = &mut *lock();
            *count += 1;
            let now = *count;
            election.settle(|&goal| now >= goal);
            now
        };
        std::thread::scope(|scope| {
            for thread in 1..=8_u32 {
                scope.spawn(move || {
                    for round in 1..=500_u32 {
                        let goal = round * 7 + thread;
                        let role = {
                            let (count, election) = &mut *lock();
                            if *count >= goal {
                                continue;
                            }
                            election.enter(goal)
                        };
                        if let Role::Park(slot) = role
                            && slot.wait() == Call::Done
                        {
                            assert!(lock().0 >= goal, "called too early");
                            continue;
                        }
                        while progress() < goal {}
                        lock().1.leave();
                    }
                });
            }
        });
        assert!(!lock().1.has_leader() && lock().1.parked() == 0);
    }
}
