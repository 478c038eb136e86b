//! Two threads of a consumer under the model checker, beside a producer that lives or dies at every step.

use loom::sync::Arc;
use loom::thread;

use super::super::{bytes_for, init};
use super::{SharedConsumer, SharedMember, Sharing};
use crate::scmp::harness::{Counted, Did, QUEUE, Ranks, Stepper, read};
use crate::scmp::seq::Settled;
use crate::sync::check_orders;
use crate::words::LoomWords;

const SLOTS: u32 = 4;
/// Payloads of one and of two slots.
const ONE: usize = 8;
const TWO: usize = 40;

type Shared = SharedConsumer<LoomWords>;

/// Messages in the order in which one thread got them: source and number.
type Got = Vec<(u16, u64)>;

fn poll(shared: &Shared, member: &mut SharedMember, got: &mut Got) -> u32 {
    let share = shared.poll(member, 8, |a| got.push(read(&a).expect("whole")));
    assert_eq!(share.fault, None);
    share.taken
}

fn is_in_order(got: &Got, source: u16) -> bool {
    got.iter().filter(|one| one.0 == source).map(|one| one.1).is_sorted()
}

/// Messages of `filled` lengths of producer 0 are there; producer 1 sends one of `len` bytes, and dies after so
/// many steps. Two threads poll meanwhile, and then whatever is left is taken.
fn share(sharing: Sharing, filled: &'static [usize], len: usize, dies_after: Option<usize>) {
    let words = LoomWords::new(bytes_for(SLOTS));
    let consumer = init(words.clone(), SLOTS, QUEUE).expect("the memory fits");
    let ranks = Arc::new(Ranks::new(2));
    let mut first = Stepper::<Counted, _>::new(words.clone(), 0);
    for &len in filled {
        while first.step(&ranks, len) != Did::Sent {}
    }
    let (shared, members) = SharedConsumer::new(consumer, 2, sharing).expect("two threads");
    let shared = Arc::new(shared);
    let [mut one, mut two]: [SharedMember; 2] = members.try_into().expect("two members");

    let producer = {
        let (words, ranks) = (words.clone(), ranks.clone());
        thread::spawn(move || {
            let mut stepper = Stepper::<Counted, _>::new(words, 1);
            for step in 0.. {
                if dies_after == Some(step) {
                    ranks.kill(1);
                    break;
                }
                match stepper.step(&ranks, len) {
                    Did::Refused | Did::Dropped | Did::Sent => break,
                    _ => {}
                }
            }
            if dies_after.is_some() {
                ranks.kill(1);
            }
            stepper.number
        })
    };
    let beside = {
        let shared = shared.clone();
        thread::spawn(move || {
            let mut got = Got::new();
            poll(&shared, &mut two, &mut got);
            (two, got)
        })
    };
    let mut got_one = Got::new();
    poll(&shared, &mut one, &mut got_one);
    let sent = producer.join().expect("no panic");
    let (mut two, mut got_two) = beside.join().expect("no panic");

    let take_all =
        |one: &mut SharedMember, two: &mut SharedMember, got_one: &mut Got, got_two: &mut Got| {
            let mut quiet = 0;
            while quiet < 2 {
                let taken = poll(&shared, one, got_one) + poll(&shared, two, got_two);
                let settled = shared.settle(&*ranks).expect("no fault");
                assert_ne!(settled, Settled::Waiting, "nobody is at work any more");
                quiet = if taken == 0 { quiet + 1 } else { 0 };
            }
        };
    take_all(&mut one, &mut two, &mut got_one, &mut got_two);
    let check = |got_one: &Got, got_two: &Got, of_first: u64| {
        let mut all: Got = got_one.iter().chain(got_two).copied().collect();
        all.sort_unstable();
        let of = |source| all.iter().filter(move |one| one.0 == source).map(|one| one.1);
        assert!(of(0).eq(0..of_first), "{all:?}");
        // A dead producer's last words may be lost, though they were finalised.
        let came = of(1).count() as u64;
        assert!(of(1).eq(0..came) && came <= sent.max(1), "{all:?} of {sent}");
        assert!(came == sent || dies_after.is_some(), "{all:?} of {sent}");
        if sharing == Sharing::Sources {
            assert!(got_one.iter().all(|one| one.0 == 0) && is_in_order(got_one, 0));
            assert!(got_two.iter().all(|one| one.0 == 1));
        }
    };
    check(&got_one, &got_two, filled.len() as u64);
    // The queue is whole: it takes what it takes when new, in both halves.
    for _ in 0..2 {
        for _ in 0..2 {
            while first.step(&ranks, ONE) != Did::Sent {}
        }
        take_all(&mut one, &mut two, &mut got_one, &mut got_two);
    }
    check(&got_one, &got_two, filled.len() as u64 + 4);
}

#[test]
fn loom_shared_batches() {
    check_orders(2, || share(Sharing::Batches(1), &[ONE, ONE], ONE, None));
}

/// A message of two slots ends in the batch of the other thread.
#[test]
fn loom_shared_batches_with_messages_across() {
    check_orders(2, || share(Sharing::Batches(1), &[TWO, ONE], ONE, None));
}

#[test]
fn loom_shared_sources() {
    check_orders(2, || share(Sharing::Sources, &[ONE, ONE], ONE, None));
}

#[test]
fn loom_shared_deaths() {
    for sharing in [Sharing::Batches(1), Sharing::Sources] {
        for steps in 0..=4 {
            check_orders(1, move || share(sharing, &[ONE], TWO, Some(steps)));
        }
    }
}

/// The mistake of a thread that gives its batch back before it has read it: the half is reset, flipped twice and
/// written again, and loom must see the race.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_shared_sees_a_batch_that_was_given_back_early() {
    check_orders(3, || {
        let words = LoomWords::new(bytes_for(SLOTS));
        let consumer = init(words.clone(), SLOTS, QUEUE).expect("the memory fits");
        let ranks = Ranks::new(1);
        let mut producer = Stepper::<Counted, _>::new(words, 0);
        let send = |producer: &mut Stepper<Counted, LoomWords>| {
            while producer.step(&ranks, ONE) != Did::Sent {}
        };
        send(&mut producer);
        let made = SharedConsumer::new(consumer, 2, Sharing::Batches(1)).expect("two threads");
        let (shared, mut members) = (Arc::new(made.0), made.1);
        // Published, and not claimed.
        assert_eq!(shared.lead(), Ok(true));
        let beside = {
            let shared = shared.clone();
            thread::spawn(move || shared.batch_given_back_early(|a| drop(read(&a))))
        };
        for _ in 0..2 {
            send(&mut producer);
            let _ = shared.poll(&mut members[0], 8, |a| drop(read(&a)));
        }
        send(&mut producer);
        beside.join().expect("no panic");
    });
}
