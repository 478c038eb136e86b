//! Model of a sender that sleeps until there is space, with the consumer that comes by before and
//! after it has made some. A sender that sleeps with space in the queue, and nobody left to ring,
//! would sleep for ever.

use loom::sync::Arc;
use loom::thread;

use super::super::Sleep;
use super::*;
use crate::doorbell_word::loom_tests::arm_model;
use crate::doorbell_word::{disarm_word, ring_word, rung};
use crate::sync::check_orders;

#[derive(Default)]
struct Shared {
    /// Whether the queue has space.
    space: AtomicU32,
    wanted: AtomicU32,
    senders: [Sender; 2],
}

#[derive(Default)]
struct Sender {
    waiting: AtomicU32,
    bell: AtomicU32,
}

impl Shared {
    /// One progress of the consumer, in which it makes space or not.
    fn progress(&self, makes_space: bool) {
        if makes_space {
            self.space.store(1, Ordering::Release);
        }
        if is_asked(&self.wanted) {
            answer(&self.wanted);
            for sender in &self.senders {
                if sender.waiting.load(Ordering::Relaxed) != 0 {
                    ring_word(&sender.bell, |_| true);
                }
            }
        }
    }
}

/// A sender of the model; `trusting` leaves out the last check of its question.
struct Going<'a> {
    shared: &'a Shared,
    number: usize,
    trusting: bool,
}

impl Sleeper for Going<'_> {
    fn has_work(&mut self) -> bool {
        self.shared.space.load(Ordering::Acquire) != 0
    }
    fn ask(&mut self) -> bool {
        self.shared.senders[self.number].waiting.store(1, Ordering::Relaxed);
        ask(&self.shared.wanted);
        true
    }
    fn arm(&mut self) -> bool {
        arm_model(&self.shared.senders[self.number].bell, Sleep::Futex, true);
        true
    }
    fn stands(&mut self) -> bool {
        self.trusting || stands(&self.shared.wanted)
    }
    fn disarm(&mut self) {
        disarm_word(&self.shared.senders[self.number].bell, || ());
        self.shared.senders[self.number].waiting.store(0, Ordering::Relaxed);
    }
}

fn nobody_sleeps_on(senders: usize, trusting: bool) {
    // With two senders, all orders take an hour. Three switches where nobody waits are enough to find
    // a question that is asked by a plain store.
    check_orders((senders > 1).then_some(3), move || {
        let shared = Arc::new(Shared::default());
        let others: Vec<_> = (1..senders)
            .map(|number| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || prepare(&mut Going { shared: &shared, number, trusting }))
            })
            .collect();
        let consumer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.progress(false);
                shared.progress(true);
            })
        };
        let mut slept = vec![prepare(&mut Going { shared: &shared, number: 0, trusting })];
        slept.extend(others.into_iter().map(|other| other.join().unwrap()));
        consumer.join().unwrap();
        for (sender, slept) in shared.senders.iter().zip(slept) {
            assert!(!slept || rung(&sender.bell), "asleep with space in the queue");
        }
    });
}

#[test]
fn loom_space_a_sleeper_is_rung() {
    nobody_sleeps_on(1, false);
}

#[test]
fn loom_space_two_sleepers_are_rung() {
    nobody_sleeps_on(2, false);
}

/// The model must be able to fail: a sender that does not read its question again sleeps on.
#[test]
#[should_panic(expected = "asleep with space in the queue")]
fn loom_space_needs_the_last_poll() {
    nobody_sleeps_on(1, true);
}
