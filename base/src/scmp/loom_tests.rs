//! Both forms under the model checker: two producers and a consumer, with overflow, with a death
//! after every step, and with the mistakes that the model must find.
//!
//! Bodies are loom cells, so a message that is read before it is published is a reported race,
//! whatever its bytes. Preemptions are bounded, which keeps the whole set to minutes.

use loom::sync::Arc;
use loom::thread;

use super::harness::{Counted, Did, Form, Ranks, Seq, Stepper, payload, read};
use super::seq::Settled;
use super::{Message, counted, seq};
use crate::sync::atomic::AtomicU64;
use crate::sync::check_orders;
use crate::words::LoomWords;

const SLOTS: u32 = 4;
/// Payloads of one and of two slots.
const ONE: usize = 8;
const TWO: usize = 40;

/// What one producer does: messages of these lengths, each tried once; it stops at the first
/// refusal, and dies after `dies_after` steps.
#[derive(Clone, Copy)]
struct Script {
    lens: &'static [usize],
    dies_after: Option<usize>,
}

impl Script {
    const fn living(lens: &'static [usize]) -> Self {
        Self { lens, dies_after: None }
    }
}

/// Returns how many messages were finalised.
fn produce<F: Form<LoomWords>>(
    stepper: &mut Stepper<F, LoomWords>,
    ranks: &Ranks,
    me: usize,
    script: Script,
) -> u64 {
    let mut steps = 0;
    let mut finalised = 0;
    for &len in script.lens {
        loop {
            if script.dies_after == Some(steps) {
                ranks.kill(me);
                return finalised;
            }
            steps += 1;
            match stepper.step(ranks, len) {
                Did::Refused | Did::Dropped => return finalised,
                Did::Finalised => finalised += 1,
                Did::Sent => break,
                _ => {}
            }
        }
    }
    if script.dies_after.is_some() {
        ranks.kill(me);
    }
    finalised
}

/// The next number of each source, checked as messages come.
#[derive(Default)]
struct Received([u64; 3]);

impl Received {
    fn poll<F: Form<LoomWords>>(&mut self, consumer: &mut F::Consumer) -> u32 {
        F::poll(consumer, 8, |a| {
            let (source, number) = read(&a).expect("whole");
            assert_eq!(self.0[source as usize], number, "out of order");
            self.0[source as usize] += 1;
        })
        .expect("no fault")
    }
}

/// Two producers beside a consumer that polls `polls` times and settles once meanwhile, on a
/// queue in which `filled` slots are taken at the start.
fn race<F: Form<LoomWords> + 'static>(filled: usize, polls: usize, scripts: [Script; 2]) {
    let words = LoomWords::new(F::bytes(SLOTS));
    let mut consumer = F::init(words.clone(), SLOTS);
    let ranks = Arc::new(Ranks::new(3));
    let mut third = Stepper::<F, _>::new(words.clone(), 2);
    for _ in 0..filled {
        while third.step(&ranks, ONE) != Did::Sent {}
    }
    let mut threads = Vec::new();
    for (me, script) in scripts.into_iter().enumerate() {
        let (words, ranks) = (words.clone(), ranks.clone());
        threads.push(thread::spawn(move || {
            let mut stepper = Stepper::<F, _>::new(words, me as u16);
            produce(&mut stepper, &ranks, me, script)
        }));
    }
    let mut received = Received::default();
    for nth in 0..polls {
        received.poll::<F>(&mut consumer);
        if nth == 0 {
            let _ = F::settle(&mut consumer, &ranks).expect("no fault");
        }
    }
    let sent: Vec<_> = threads.into_iter().map(|t| t.join().expect("no panic")).collect();
    let mut quiet = 0;
    while quiet < 2 {
        let taken = received.poll::<F>(&mut consumer);
        if F::stalled(&consumer) {
            let settled = F::settle(&mut consumer, &ranks).expect("no fault");
            assert_ne!(settled, Settled::Waiting, "nobody is at work any more");
            quiet = 0;
        } else {
            quiet = if taken == 0 { quiet + 1 } else { 0 };
        }
    }
    for (me, script) in scripts.into_iter().enumerate() {
        let lost = u64::from(F::DROPS_LAST_WORDS && script.dies_after.is_some());
        let (got, sent) = (received.0[me], sent[me]);
        assert!(got + lost >= sent && got <= sent, "{got} of {sent} messages of producer {me}");
    }
    assert_eq!(received.0[2], filled as u64);
    // The queue is whole: it takes what it takes when new, from both halves.
    for _ in 0..2 {
        for _ in 0..2 {
            while third.step(&ranks, ONE) != Did::Sent {}
        }
        while received.poll::<F>(&mut consumer) > 0 {}
    }
    assert_eq!(received.0[2], filled as u64 + 4);
}

fn all_deaths<F: Form<LoomWords> + 'static>(
    preemptions: usize,
    filled: usize,
    len: &'static [usize],
) {
    for steps in 0..=5 {
        check_orders(preemptions, move || {
            let dying = Script { lens: len, dies_after: Some(steps) };
            race::<F>(filled, 1, [Script::living(&[ONE]), dying]);
        });
    }
}

#[test]
fn loom_seq_two_producers() {
    check_orders(2, || {
        race::<Seq>(0, 2, [Script::living(&[ONE, ONE]), Script::living(&[TWO])]);
    });
}

#[test]
fn loom_seq_overflow() {
    check_orders(3, || race::<Seq>(3, 1, [Script::living(&[ONE]), Script::living(&[ONE])]));
    check_orders(2, || race::<Seq>(2, 1, [Script::living(&[ONE]), Script::living(&[TWO])]));
}

#[test]
fn loom_seq_deaths() {
    all_deaths::<Seq>(3, 0, &[TWO]);
}

#[test]
fn loom_seq_deaths_at_overflow() {
    all_deaths::<Seq>(3, 3, &[ONE]);
}

#[test]
fn loom_published_two_producers() {
    check_orders(2, || {
        race::<Counted>(0, 2, [Script::living(&[ONE, ONE]), Script::living(&[TWO])]);
    });
}

#[test]
fn loom_published_overflow() {
    check_orders(3, || race::<Counted>(3, 1, [Script::living(&[ONE]), Script::living(&[ONE])]));
}

#[test]
fn loom_published_deaths() {
    all_deaths::<Counted>(3, 0, &[TWO]);
}

#[test]
fn loom_published_deaths_at_overflow() {
    all_deaths::<Counted>(3, 3, &[ONE]);
}

/// The mistake of a producer that finalises before it has put: loom must see the race.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_seq_sees_a_finalise_before_its_put() {
    check_orders(2, || {
        let words = LoomWords::new(seq::bytes_for(SLOTS));
        let mut consumer = Seq::init(words.clone(), SLOTS);
        let producer = thread::spawn(move || {
            let intent = AtomicU64::new(0);
            let mut producer = <Seq as Form<LoomWords>>::attach(words, 0);
            producer.announce(&intent, 1).expect("empty");
            let ticket = producer.reserve(1).expect("empty");
            let bytes = payload(0, 0, ONE);
            let header = [0, 0, ONE as u64];
            let message = Message { id: 0, flags: 0, header: &header, payload: &bytes };
            producer.publish_and_then_put(ticket, &message);
        });
        let _ = consumer.poll(8, |a| drop(read(&a)));
        producer.join().expect("no panic");
    });
}

/// The mistake of a consumer that takes reserved slots for finalised ones.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_published_sees_a_consumer_that_does_not_wait() {
    check_orders(2, || {
        let words = LoomWords::new(counted::bytes_for(SLOTS));
        let mut consumer = Counted::init(words.clone(), SLOTS);
        let producer = thread::spawn(move || {
            let ranks = Ranks::new(1);
            let mut stepper = Stepper::<Counted, _>::new(words, 0);
            produce(&mut stepper, &ranks, 0, Script::living(&[ONE]));
        });
        thread::yield_now();
        let _ = consumer.poll(1, |a| drop(read(&a)));
        consumer.empty_without_waiting();
        let _ = consumer.poll(8, |a| drop(read(&a)));
        producer.join().expect("no panic");
    });
}
