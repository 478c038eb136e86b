//! Several threads of a consumer: against a plain list in random interleavings of calls, with kills and damage,
//! and with real threads.

use std::collections::BTreeMap;
use std::sync::Mutex;

use proptest::prelude::*;

use super::super::{Consumer, bytes_for, init, slot_line};
use super::{Share, SharedConsumer, SharedMember, Sharing};
use crate::scmp::harness::{Counted, Did, QUEUE, Ranks, Stepper, read};
use crate::scmp::{Damage, Fault};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::words::{HeapWords, LineWords as _, Words as _};

const PRODUCERS: usize = 3;

/// Numbers that came of each source, by the thread that got them.
type Got = BTreeMap<(u16, usize), Vec<u64>>;

fn made(slots: u32) -> (HeapWords, Consumer<HeapWords>) {
    let words = HeapWords::new(bytes_for(slots));
    let consumer = init(words.clone(), slots, QUEUE).expect("the memory fits");
    (words, consumer)
}

fn poll(
    shared: &SharedConsumer<HeapWords>,
    members: &mut [SharedMember],
    at: usize,
    budget: u32,
    got: &mut Got,
) -> Share {
    shared.poll(&mut members[at], budget, |a| {
        let (source, number) = read(&a).expect("whole");
        got.entry((source, at)).or_default().push(number);
    })
}

/// All numbers of a source, sorted.
fn all_of(got: &Got, source: u16) -> Vec<u64> {
    let of = got.iter().filter(|((from, _), _)| *from == source);
    let mut all: Vec<u64> = of.flat_map(|(_, numbers)| numbers.iter().copied()).collect();
    all.sort_unstable();
    all
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Step(usize, u16),
    Poll(usize, u32),
    Settle,
    Kill(usize),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        30 => (0..PRODUCERS, any::<u16>()).prop_map(|(p, len)| Action::Step(p, len)),
        6 => (0..3_usize, 1..6_u32).prop_map(|(thread, budget)| Action::Poll(thread, budget)),
        1 => Just(Action::Settle),
        1 => (0..PRODUCERS).prop_map(Action::Kill),
    ];
    proptest::collection::vec(action, 1..500)
}

proptest! {
    /// Whatever is sent comes once, to a thread that it may come to, in order where that is promised; of the dead
    /// perhaps not the last.
    #[test]
    fn what_is_sent_comes_once(
        actions in actions(),
        slots in prop_oneof![Just(8_u32), Just(16)],
        sharing in prop_oneof![
            (1..5_u16).prop_map(Sharing::Batches),
            Just(Sharing::Sources)
        ],
    ) {
        let (words, consumer) = made(slots);
        let ranks = Ranks::new(PRODUCERS);
        let mut steppers: Vec<_> =
            (0..PRODUCERS).map(|p| Stepper::<Counted, _>::new(words.clone(), p as u16)).collect();
        let mut finalised = [0_u64; PRODUCERS];
        let mut dead = [false; PRODUCERS];
        let (shared, mut members) = SharedConsumer::new(consumer, 3, sharing).expect("three");
        let mut got = Got::new();
        for action in actions {
            match action {
                Action::Step(p, len) if !dead[p] => {
                    let len = usize::from(len) % (crate::scmp::max_message_bytes(slots) + 1);
                    if steppers[p].step(&ranks, len) == Did::Finalised {
                        finalised[p] += 1;
                    }
                }
                Action::Step(..) => {}
                Action::Poll(at, budget) => {
                    let share = poll(&shared, &mut members, at, budget, &mut got);
                    prop_assert!(share.taken <= budget && share.fault.is_none(), "{share:?}");
                }
                Action::Settle => {
                    let _ = shared.settle(&ranks).expect("no fault");
                }
                Action::Kill(p) => {
                    dead[p] = true;
                    ranks.kill(p);
                }
            }
        }
        // The living end what they have begun.
        for (p, stepper) in steppers.iter_mut().enumerate().filter(|(p, _)| !dead[*p]) {
            while !stepper.is_idle() {
                if stepper.step(&ranks, 8) == Did::Finalised {
                    finalised[p] += 1;
                }
            }
        }
        let mut quiet = 0;
        while quiet < 3 {
            let mut taken = 0;
            for at in 0..3 {
                taken += poll(&shared, &mut members, at, 64, &mut got).taken;
            }
            let _ = shared.settle(&ranks).expect("no fault");
            quiet = if taken == 0 { quiet + 1 } else { 0 };
        }
        for p in 0..PRODUCERS {
            let all = all_of(&got, p as u16);
            // Of a dead one the last of some length may be missing, once for each half in which one of the dead left
            // something (rule 7 of the queue).
            let halves = dead.iter().filter(|&&dead| dead).count() as u64;
            let (count, lost) = (all.len() as u64, if dead[p] { halves } else { 0 });
            let whole = all.iter().copied().eq(0..count);
            let once = all.is_sorted_by(|a, b| a < b) && all.iter().all(|&one| one < finalised[p]);
            prop_assert!(if dead[p] { once } else { whole }, "{p}: {got:?}");
            prop_assert!(count + lost >= finalised[p] && count <= finalised[p], "{p}: {count}");
        }
        if sharing == Sharing::Sources {
            for ((source, thread), numbers) in &got {
                prop_assert_eq!(usize::from(*source) % 3, *thread);
                prop_assert!(numbers.is_sorted());
            }
        }
    }
}

/// Threads of both sides, truly beside each other.
#[test]
fn threads_lose_nothing() {
    const MESSAGES: u64 = 3000;
    for sharing in [Sharing::Batches(1), Sharing::Batches(16), Sharing::Sources] {
        let (words, consumer) = made(64);
        let ranks = Ranks::new(PRODUCERS);
        let (shared, members) = SharedConsumer::new(consumer, 3, sharing).expect("three");
        let (got, taken) = (Mutex::new(Got::new()), AtomicU64::new(0));
        let all = MESSAGES * PRODUCERS as u64;
        std::thread::scope(|scope| {
            for p in 0..PRODUCERS {
                let (words, ranks) = (words.clone(), &ranks);
                scope.spawn(move || {
                    let mut stepper = Stepper::<Counted, _>::new(words, p as u16);
                    while stepper.number < MESSAGES {
                        let len = [8, 40, 100][stepper.number as usize % 3];
                        if matches!(stepper.step(ranks, len), Did::Refused | Did::Dropped) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            for (at, mut member) in members.into_iter().enumerate() {
                let (shared, got, taken) = (&shared, &got, &taken);
                scope.spawn(move || {
                    let mut own = Got::new();
                    // Relaxed: it only ends the loop.
                    while taken.load(Ordering::Relaxed) < all {
                        let share = shared.poll(&mut member, 20, |a| {
                            let (source, number) = read(&a).expect("whole");
                            own.entry((source, at)).or_default().push(number);
                        });
                        assert_eq!(share.fault, None);
                        // Relaxed: as above.
                        taken.fetch_add(u64::from(share.taken), Ordering::Relaxed);
                        if share.taken == 0 {
                            std::thread::yield_now();
                        }
                    }
                    got.lock().expect("no panic").append(&mut own);
                });
            }
        });
        let got = got.into_inner().expect("no panic");
        for p in 0..PRODUCERS as u16 {
            assert!(all_of(&got, p).into_iter().eq(0..MESSAGES), "{sharing:?}: {p}");
        }
        if sharing == Sharing::Sources {
            assert!(
                got.iter()
                    .all(|(at, numbers)| usize::from(at.0) % 3 == at.1 && numbers.is_sorted())
            );
        }
    }
}

fn filled(slots: u32, messages: u64, len: usize) -> (HeapWords, Consumer<HeapWords>) {
    let (words, consumer) = made(slots);
    let ranks = Ranks::new(1);
    let mut stepper = Stepper::<Counted, _>::new(words.clone(), 0);
    while stepper.number < messages {
        assert_ne!(stepper.step(&ranks, len), Did::Refused);
    }
    (words, consumer)
}

/// A slot whose words contradict each other costs itself and what belonged to it; the queue goes on.
#[test]
fn a_damaged_slot_is_named_and_passed_over() {
    for sharing in [Sharing::Batches(2), Sharing::Sources] {
        let (words, consumer) = filled(16, 4, 40);
        // The second slot of the second message says that it is the third.
        let line = words.line(slot_line(0, 3, 16));
        line.store(0, line.load(0, Ordering::Relaxed) ^ 3 << 32, Ordering::Relaxed);
        let (shared, mut members) = SharedConsumer::new(consumer, 2, sharing).expect("two");
        let (mut got, mut faults) = (Got::new(), Vec::new());
        for round in 0..20 {
            faults.extend(poll(&shared, &mut members, round % 2, 1, &mut got).fault);
        }
        assert!(faults.contains(&Fault::Source { source_id: 0 }), "{sharing:?}: {faults:?}");
        assert_eq!(all_of(&got, 0), [0, 2, 3], "{sharing:?}");
        assert!((0..16).all(|at| {
            let word = words.line(slot_line(0, at, 16)).load(0, Ordering::Relaxed);
            word == 0
        }));
        // In the next halves, too.
        let ranks = Ranks::new(2);
        let mut other = Stepper::<Counted, _>::new(words, 1);
        for number in 0..4 {
            while other.step(&ranks, 40) != Did::Sent {}
            for at in 0..2 {
                assert_eq!(poll(&shared, &mut members, at, 9, &mut got).fault, None);
            }
            poll(&shared, &mut members, 1, 9, &mut got);
            assert_eq!(all_of(&got, 1), (0..=number).collect::<Vec<_>>(), "{sharing:?}");
        }
    }
}

/// A slot that was finalised and is empty: the queue is closed, whichever thread walked over it.
#[test]
fn a_slot_that_vanished_closes_the_queue() {
    for (sharing, gone) in [
        (Sharing::Batches(1), 0),
        (Sharing::Batches(1), 2),
        (Sharing::Batches(8), 1),
        (Sharing::Sources, 0),
        (Sharing::Sources, 3),
    ] {
        let (words, consumer) = filled(16, 4, 8);
        words.line(slot_line(0, gone, 16)).store(0, 0, Ordering::Relaxed);
        let (shared, mut members) = SharedConsumer::new(consumer, 2, sharing).expect("two");
        let (mut got, mut last) = (Got::new(), [None; 2]);
        for round in 0..20 {
            last[round % 2] = poll(&shared, &mut members, round % 2, 8, &mut got).fault;
        }
        let closed = Some(Fault::Poisoned(Damage::Missing));
        assert_eq!(last, [closed; 2], "{sharing:?}, slot {gone}");
        assert_eq!(all_of(&got, 0).len(), 3, "{sharing:?}, slot {gone}");
    }
}

#[test]
fn no_thread_and_no_batch_is_refused() {
    for (threads, sharing) in [(0, Sharing::Sources), (1, Sharing::Batches(0))] {
        assert!(SharedConsumer::new(made(8).1, threads, sharing).is_err());
    }
}

/// A thread that makes no call holds nobody up in batches.
#[test]
fn batches_need_no_thread_but_one() {
    let (_, consumer) = filled(16, 6, 8);
    let (shared, mut members) =
        SharedConsumer::new(consumer, 5, Sharing::Batches(4)).expect("five");
    let mut got = Got::new();
    for _ in 0..4 {
        poll(&shared, &mut members, 3, 64, &mut got);
    }
    assert_eq!(all_of(&got, 0), [0, 1, 2, 3, 4, 5]);
}
