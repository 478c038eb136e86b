//! Threads wait for messages that a network brings, and what one of them sleeps on reports only what
//! nobody has taken yet: as a socket does.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::check_orders;

const UNREAD: u32 = 1;
const READ: u32 = 2;

/// What is outside of the lock: messages, and the signal.
#[derive(Default)]
struct Outside {
    messages: [AtomicU32; 2],
    raised: AtomicU32,
}

impl Outside {
    fn is_readable(&self) -> bool {
        // Acquire pairs with the Release of `send`.
        self.messages.iter().any(|message| message.load(Ordering::Acquire) == UNREAD)
    }

    fn send(&self, key: usize) {
        // Release pairs with the Acquires of those that poll.
        self.messages[key].store(UNREAD, Ordering::Release);
    }

    fn raise(&self) {
        // Release pairs with the Acquire of the sleeper.
        self.raised.store(1, Ordering::Release);
    }
}

struct Inside {
    outside: Arc<Outside>,
    here: [bool; 2],
    /// What a post has left for progress to do.
    posted: Option<usize>,
    /// Touched in each call: the model notices two that are inside at once.
    lock: WorkerLock<loom::cell::UnsafeCell<u32>>,
}

impl Driven for Inside {
    type Value = loom::cell::UnsafeCell<u32>;
    type Key = usize;
    type ArmedSleep = Arc<Outside>;

    fn lock(&self) -> &WorkerLock<Self::Value> {
        &self.lock
    }

    fn progress(&mut self) -> u32 {
        // SAFETY: under the lock; the model fails if that is not enough.
        self.lock.borrow_mut().with_mut(|calls| unsafe { *calls += 1 });
        let mut events = 0;
        for (here, message) in self.here.iter_mut().zip(&self.outside.messages) {
            // Acquire pairs with the Release of `send`; only the holder of the lock reads.
            if message.load(Ordering::Acquire) == UNREAD {
                message.store(READ, Ordering::Release);
                *here = true;
                events += 1;
            }
        }
        if let Some(key) = self.posted.take() {
            self.outside.send(key);
            events += 1;
        }
        events
    }

    fn is_there(&mut self, key: &usize, _: bool) -> bool {
        self.here[*key]
    }

    fn arm_sleep(&mut self) -> Option<Arc<Outside>> {
        // AcqRel: pairs with `raise`, and takes it.
        let raised = self.outside.raised.swap(0, Ordering::AcqRel) == 1;
        (!raised && !self.outside.is_readable()).then(|| Arc::clone(&self.outside))
    }

    fn end_sleep(&mut self) {}
}

struct Asleep;

impl Parker<Arc<Outside>> for Asleep {
    fn should_sleep(&self, _: u32) -> bool {
        true
    }
    fn rest(&mut self, _: u32) {}
    fn sleep(&mut self, outside: Arc<Outside>, _: u32) {
        // Acquire pairs with the Release of `raise`.
        while outside.raised.load(Ordering::Acquire) == 0 && !outside.is_readable() {
            yield_now();
        }
    }
}

type Model = SharedLock<Inside, Box<dyn Fn() + Send + Sync>>;

fn model(wakes: bool) -> (Arc<Model>, Arc<Outside>) {
    let outside = Arc::new(Outside::default());
    let signal = Arc::clone(&outside);
    let wake: Box<dyn Fn() + Send + Sync> =
        if wakes { Box::new(move || signal.raise()) } else { Box::new(|| {}) };
    let lock = WorkerLock::new(loom::cell::UnsafeCell::new(0));
    let inside = Inside { outside: Arc::clone(&outside), here: [false; 2], posted: None, lock };
    (Arc::new(SharedLock::new(inside, wake)), outside)
}

fn wait(shared: &Model, key: usize) {
    shared.until(key, &mut |inside| inside.here[key], || Asleep);
}

/// A thread that polls takes the message of the one that sleeps.
fn another_takes_the_event(wakes: bool) {
    check_orders(3, move || {
        let (shared, outside) = model(wakes);
        let waiter = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || wait(&shared, 0))
        };
        let poller = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.progress();
            })
        };
        outside.send(0);
        waiter.join().expect("it has its message");
        poller.join().expect("it polled once");
    });
}

#[test]
fn loom_the_sleeper_hears_of_what_another_thread_took() {
    another_takes_the_event(true);
}

/// The control: without the wake-up the model must not end.
#[test]
#[should_panic]
fn loom_without_a_wake_up_the_sleeper_is_lost() {
    another_takes_the_event(false);
}

/// What another thread posts is left undone until there is progress.
fn another_posts(wakes: bool) {
    check_orders(3, move || {
        let (shared, outside) = model(wakes);
        let waiter = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || wait(&shared, 0))
        };
        shared.with(|inside| inside.posted = Some(0));
        waiter.join().expect("its message was sent");
        drop(outside);
    });
}

#[test]
fn loom_a_post_of_another_thread_wakes_the_sleeper() {
    another_posts(true);
}

/// The control of it.
#[test]
#[should_panic]
fn loom_without_a_wake_up_the_post_is_lost() {
    another_posts(false);
}

/// Two waiters, each of which may be the one that sleeps and take what the other waits for.
#[test]
fn loom_two_waiters_each_get_their_own() {
    check_orders(3, || {
        let (shared, outside) = model(true);
        let waiter = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || wait(&shared, 1))
        };
        outside.send(1);
        outside.send(0);
        wait(&shared, 0);
        waiter.join().expect("it has its message");
        // Acquire pairs with the Release of the reader.
        assert_eq!(outside.messages[0].load(Ordering::Acquire), READ);
    });
}
