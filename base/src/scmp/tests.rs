//! Both forms against a plain deque, in random interleavings of single steps, with kills; and
//! proof that the checker sees the two classical mistakes.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::harness::{Counted, Did, Form, QUEUE, Ranks, Seq, Stepper, payload, read};
use super::seq::{LAST_GENERATION, Settled};
use super::{
    AttachError, Damage, FIRST_BYTES, Fault, MAX_SLOTS, Message, Refused, counted,
    max_message_bytes, max_message_slots, seq, slots_for,
};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::words::{HeapWords, LineWords, Words};

#[derive(Clone, Copy, Debug)]
enum Action {
    Step(usize, u16),
    Poll(u32),
    Settle,
    Kill(usize),
}

const PRODUCERS: usize = 3;

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let step = (0..PRODUCERS, any::<u16>()).prop_map(|(p, len)| Action::Step(p, len));
    let action = prop_oneof![
        30 => step,
        4 => (1u32..5).prop_map(Action::Poll),
        1 => Just(Action::Settle),
        1 => (0..PRODUCERS).prop_map(Action::Kill),
    ];
    proptest::collection::vec(action, 1..600)
}

/// The queue as it should be: messages in the order of their reservations.
struct Checked<F: Form<HeapWords>> {
    consumer: F::Consumer,
    steppers: Vec<Stepper<F, HeapWords>>,
    ranks: Ranks,
    /// Source, number and whether it is finalised.
    model: VecDeque<(u16, u64, bool)>,
    dead: [bool; PRODUCERS],
    received: usize,
    slots: u32,
}

impl<F: Form<HeapWords>> Checked<F> {
    fn new(slots: u32) -> Self {
        let words = HeapWords::new(F::bytes(slots));
        let consumer = F::init(words.clone(), slots);
        Self {
            consumer,
            steppers: (0..PRODUCERS).map(|p| Stepper::new(words.clone(), p as u16)).collect(),
            ranks: Ranks::new(PRODUCERS),
            model: VecDeque::new(),
            dead: [false; PRODUCERS],
            received: 0,
            slots,
        }
    }

    fn step(&mut self, p: usize, len: u16) -> Option<Did> {
        if self.dead[p] {
            return None;
        }
        let len = usize::from(len) % (max_message_bytes(self.slots) + 1);
        let number = self.steppers[p].number;
        let did = self.steppers[p].step(&self.ranks, len);
        match did {
            Did::Reserved => self.model.push_back((p as u16, number, false)),
            Did::Finalised => {
                let entry = self.model.iter_mut().find(|e| (e.0, e.1) == (p as u16, number));
                entry.expect("reserved before").2 = true;
            }
            _ => {}
        }
        Some(did)
    }

    fn poll(&mut self, budget: u32) -> Result<u32, String> {
        let mut arrivals = Vec::new();
        let taken = F::poll(&mut self.consumer, budget, |a| arrivals.push(read(&a)));
        let taken = taken.map_err(|fault| format!("fault: {fault}"))?;
        for arrival in arrivals {
            let (source, number) = arrival?;
            loop {
                let Some((s, n, finalised)) = self.model.pop_front() else {
                    return Err(format!("({source}, {number}) was never reserved"));
                };
                if (s, n) == (source, number) {
                    if !finalised && !self.dead[source as usize] {
                        return Err(format!("({source}, {number}) was not finalised"));
                    }
                    break;
                }
                // Passed over: only what a dead producer did not finish.
                let lost = self.dead[s as usize] && (!finalised || F::DROPS_LAST_WORDS);
                if !lost {
                    return Err(format!("({source}, {number}) came before ({s}, {n})"));
                }
            }
            self.received += 1;
        }
        Ok(taken)
    }

    fn settle(&mut self) -> Result<Settled, String> {
        F::settle(&mut self.consumer, &self.ranks).map_err(|fault| format!("settle: {fault}"))
    }

    fn kill(&mut self, p: usize) {
        self.dead[p] = true;
        self.ranks.kill(p);
    }

    fn run(&mut self, actions: &[Action]) -> Result<(), String> {
        for action in actions {
            match *action {
                Action::Step(p, len) => {
                    self.step(p, len);
                }
                Action::Poll(budget) => {
                    self.poll(budget)?;
                }
                Action::Settle => {
                    let _ = self.settle()?;
                }
                Action::Kill(p) => self.kill(p),
            }
        }
        self.come_to_rest()
    }

    /// Lets the living finish what they do and the consumer empty the queue.
    fn come_to_rest(&mut self) -> Result<(), String> {
        for _ in 0..2000 {
            let mut busy = false;
            for p in 0..PRODUCERS {
                if !self.dead[p] && !self.steppers[p].is_idle() {
                    self.step(p, 0);
                    busy = true;
                }
            }
            busy |= self.poll(7)? > 0;
            if F::stalled(&self.consumer) {
                let _ = self.settle()?;
                busy = true;
            }
            let waiting = self.model.iter().any(|&(p, _, finalised)| {
                finalised && !(F::DROPS_LAST_WORDS && self.dead[p as usize])
            });
            if !busy && !waiting {
                return self.still_works();
            }
        }
        Err(format!("does not come to rest; left {:?}", self.model))
    }

    /// Every living producer can send three queues full of messages.
    fn still_works(&mut self) -> Result<(), String> {
        for p in (0..PRODUCERS).filter(|&p| !self.dead[p]).collect::<Vec<_>>() {
            let (from, mut steps) = (self.received, 0);
            while self.received < from + 6 * self.slots as usize {
                steps += 1;
                if steps > 100 * self.slots {
                    return Err(format!("producer {p} is stuck"));
                }
                if self.step(p, steps as u16) == Some(Did::Refused) {
                    self.poll(u32::MAX)?;
                }
                if self.steppers[p].is_idle() && steps % 5 == 0 {
                    self.poll(2)?;
                }
            }
            while !self.steppers[p].is_idle() {
                self.step(p, 0);
            }
            while self.poll(u32::MAX)? > 0 {}
        }
        Ok(())
    }
}

fn check<F: Form<HeapWords>>(slots: u32, actions: &[Action]) -> Result<(), TestCaseError> {
    Checked::<F>::new(slots).run(actions).map_err(TestCaseError::fail)
}

fn slots() -> impl Strategy<Value = u32> {
    prop_oneof![Just(4u32), Just(8), Just(16)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn seq_is_a_deque(slots in slots(), actions in actions()) {
        check::<Seq>(slots, &actions)?;
    }

    #[test]
    fn published_is_a_deque(slots in slots(), actions in actions()) {
        check::<Counted>(slots, &actions)?;
    }

    #[test]
    fn damage_is_reported_and_never_fatal(bytes in proptest::collection::vec(any::<u8>(), 0..800)) {
        super::fuzz::consume(&bytes);
    }

    #[test]
    fn images_are_what_a_producer_puts(len in 0usize..300, number in 0u64..99) {
        let words = HeapWords::new(counted::bytes_for(32));
        let _consumer = counted::init(words.clone(), 32, QUEUE).expect("large enough");
        let mut producer = counted::attach(words.clone(), QUEUE, 5).expect("made");
        let bytes = payload(5, number, len);
        let message = Message { id: 7, flags: 9, header: &[1, 2, number], payload: &bytes };
        let intent = AtomicU64::new(0);
        producer.push(&intent, &message).expect("empty");
        let ticket = counted::ticket(1 << 32, slots_for(len) as u32, 32).expect("fits");
        let first = counted::slot_byte(&ticket, 32) / 64;
        for index in 0..slots_for(len) {
            let image = counted::image(&message, 5, index);
            let line = words.line(first + index);
            prop_assert_eq!(line.load(0, Ordering::Relaxed), image[0]);
            for (word, want) in image.iter().enumerate().skip(1) {
                prop_assert_eq!(line.read(word), *want, "slot {} word {}", index, word);
            }
        }
    }
}

/// Runs two producers against a consumer in a fixed interleaving in which one stops after `stop`
/// steps while the other fills the half, then both go on.
fn interleave<F: Form<HeapWords>>(
    stop: usize,
    mut between: impl FnMut(&mut Checked<F>) -> Result<(), String>,
) -> Result<(), String> {
    let mut queue = Checked::<F>::new(4);
    for _ in 0..stop {
        queue.step(0, 8);
    }
    for _ in 0..15 {
        queue.step(1, 8);
    }
    between(&mut queue)?;
    queue.come_to_rest()
}

#[test]
fn every_stop_is_survived() {
    fn killed<F: Form<HeapWords>>(queue: &mut Checked<F>) -> Result<(), String> {
        queue.kill(0);
        Ok(())
    }
    for stop in 0..6 {
        interleave::<Seq>(stop, |q| q.poll(9).map(drop)).expect("seq, living");
        interleave::<Counted>(stop, |q| q.poll(9).map(drop)).expect("counted, living");
        interleave::<Seq>(stop, killed).expect("seq, killed");
        interleave::<Counted>(stop, killed).expect("counted, killed");
    }
}

#[test]
fn the_checker_sees_a_finalise_before_its_put() {
    let words = HeapWords::new(seq::bytes_for(4));
    let mut consumer = Seq::init(words.clone(), 4);
    let mut producer = <Seq as Form<HeapWords>>::attach(words, 0);
    let intent = AtomicU64::new(0);
    producer.announce(&intent, 1).expect("empty");
    let ticket = producer.reserve(1).expect("empty");
    producer.publish(ticket, 8);
    let mut seen = Vec::new();
    consumer.poll(1, |a| seen.push(read(&a))).expect("no fault");
    assert!(matches!(seen.as_slice(), [Err(_)]), "the empty body passed for a message");

    let words = HeapWords::new(counted::bytes_for(4));
    let mut consumer = Counted::init(words.clone(), 4);
    let mut producer = <Counted as Form<HeapWords>>::attach(words, 0);
    producer.announce(&intent, 1).expect("empty");
    let ticket = producer.reserve(1).expect("empty");
    producer.finalise(ticket);
    assert_eq!(consumer.poll(1, |_| ()), Err(Fault::Poisoned(Damage::Missing)));
}

#[test]
fn the_checker_sees_a_consumer_that_does_not_wait() {
    // Stop 2: reserved, not put. The consumer leaves the old half nevertheless.
    let seq = interleave::<Seq>(2, |q| {
        let _ = q.settle()?;
        q.consumer.finish_without_waiting();
        Ok(())
    });
    assert!(seq.is_err(), "the messages behind the hole were lost, and nobody saw it");
    let counted = interleave::<Counted>(2, |q| {
        q.poll(1)?;
        q.consumer.empty_without_waiting();
        q.poll(9).map(drop)
    });
    assert!(counted.is_err(), "a hole was handed out, and nobody saw it");
}

#[test]
fn generations_start_again() {
    let words = HeapWords::new(seq::bytes_for(4));
    let start = LAST_GENERATION - 2;
    let mut consumer = seq::init_at(words.clone(), 4, QUEUE, start).expect("large enough");
    let mut producer = seq::attach(words.clone(), QUEUE, 1).expect("made");
    // What slept through all generations: slots of the half that is not in use, with the tag
    // under which it will be exposed next.
    let sleep = |half: u64, generation: u64| {
        for slot in 0..4 {
            let stale = (half << 31) | generation | (8 << 32);
            words.line(4 + (half * 4 + slot) as usize).store(0, stale, Ordering::Relaxed);
        }
    };
    let intent = AtomicU64::new(0);
    let mut received = 0u64;
    for number in 0..60u64 {
        match (producer.generation() >> 31, producer.generation() & LAST_GENERATION) {
            (0, LAST_GENERATION) => sleep(1, 1),
            (1, LAST_GENERATION) => sleep(0, 1),
            (0, 1) => sleep(1, 2),
            (1, 1) => sleep(0, 2),
            _ => {}
        }
        let bytes = payload(1, number, 8);
        let header = [1, number, 8];
        let id = number as u8 & 31;
        let message = Message { id, flags: 1, header: &header, payload: &bytes };
        producer.push(&intent, &message).expect("the consumer follows");
        consumer
            .poll(9, |a| {
                assert_eq!(read(&a), Ok((1, received)));
                received += 1;
            })
            .expect("no fault");
    }
    assert_eq!(received, 60);
    assert!(producer.generation() & LAST_GENERATION < start, "it has started again");
}

#[test]
fn idle_halves_are_flipped_and_wake_the_refused() {
    let words = HeapWords::new(seq::bytes_for(16));
    let mut consumer = Seq::init(words.clone(), 16);
    let mut producer = <Seq as Form<HeapWords>>::attach(words, 1);
    let intent = AtomicU64::new(0);
    let message = Message { id: 0, flags: 0, header: &[0; 3], payload: &[1; 8] };
    for _ in 0..16 {
        producer.push(&intent, &message).expect("fits");
    }
    let Err(Refused::Full { generation }) = producer.push(&intent, &message) else {
        panic!("a seventeenth message fits into sixteen slots");
    };
    assert_eq!(generation, producer.generation());
    assert_eq!(intent.load(Ordering::Relaxed), 0, "a refusal leaves nothing");
    assert_eq!(consumer.poll(100, |_| ()), Ok(16));
    assert_ne!(generation, producer.generation());
    assert_eq!(consumer.generation(), producer.generation());
    for _ in 0..3 {
        producer.push(&intent, &message).expect("fits");
    }
    assert_eq!(consumer.poll(100, |_| ()), Ok(3));
    let before = producer.generation();
    for _ in 0..200 {
        assert_eq!(consumer.poll(100, |_| ()), Ok(0));
    }
    assert_ne!(before, producer.generation(), "a used half is flipped when idle");
    let rest = producer.generation();
    for _ in 0..200 {
        assert_eq!(consumer.poll(100, |_| ()), Ok(0));
    }
    assert_eq!(rest, producer.generation(), "an unused half is not");
    assert!(!consumer.ready());
    producer.push(&intent, &message).expect("fits");
    assert!(consumer.ready());
}

#[test]
fn a_closed_queue_refuses() {
    let words = HeapWords::new(seq::bytes_for(4));
    let mut consumer = Seq::init(words.clone(), 4);
    let mut producer = <Seq as Form<HeapWords>>::attach(words, 1);
    let intent = AtomicU64::new(0);
    let message = Message { id: 0, flags: 0, header: &[0; 3], payload: &[] };
    consumer.close(Damage::Missing);
    assert_eq!(producer.push(&intent, &message), Err(Refused::Poisoned));
    assert_eq!(consumer.poll(1, |_| ()), Err(Fault::Poisoned(Damage::Missing)));
    assert!(consumer.ready(), "who sleeps on a closed queue would not see the error");
}

#[test]
fn sizes_fit() {
    for slots in (2..=15).map(|e| 1u32 << e) {
        let bytes = max_message_bytes(slots);
        assert!(slots_for(bytes) as u32 <= max_message_slots(slots), "{slots}");
        assert!(max_message_slots(slots) <= slots / 2);
    }
    assert_eq!(slots_for(FIRST_BYTES), 1);
    assert_eq!(slots_for(FIRST_BYTES + 1), 2);
    let words = HeapWords::new(seq::bytes_for(8));
    for slots in [0, 2, 3, 12, MAX_SLOTS * 2] {
        assert_eq!(seq::init(words.clone(), slots, 0).err(), Some(AttachError::Slots));
    }
    assert_eq!(seq::init(words.clone(), 16, 0).err(), Some(AttachError::TooSmall));
    assert_eq!(seq::attach(words.clone(), 0, 0).err(), Some(AttachError::NotAQueue));
    let mut producer = {
        seq::init(words.clone(), 8, 0).expect("large enough");
        seq::attach(words, 0, 0).expect("made")
    };
    let long = vec![0; producer.max_bytes() + 1];
    let message = Message { id: 0, flags: 0, header: &[0; 3], payload: &long };
    assert_eq!(producer.push(&AtomicU64::new(0), &message), Err(Refused::TooLong));
}

/// Threads, for real, over the heap: what loom checks in the small.
#[test]
fn threads_keep_their_order() {
    const MESSAGES: u64 = if cfg!(miri) { 40 } else { 20_000 };
    let words = HeapWords::new(seq::bytes_for(16));
    let mut consumer = Seq::init(words.clone(), 16);
    let ranks = Ranks::new(2);
    std::thread::scope(|scope| {
        for source in 0..2u16 {
            let (words, ranks) = (words.clone(), &ranks);
            scope.spawn(move || {
                let mut producer = <Seq as Form<HeapWords>>::attach(words, source);
                for number in 0..MESSAGES {
                    let len = (number * 31 % 200) as usize;
                    let bytes = payload(source, number, len);
                    let header = [u64::from(source), number, len as u64];
                    let (id, flags) = (number as u8 & 31, source as u8);
                    let message = Message { id, flags, header: &header, payload: &bytes };
                    while producer.push(&ranks.intents[source as usize], &message).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut next = [0; 2];
        while next != [MESSAGES; 2] {
            let taken = consumer
                .poll(16, |a| {
                    let (source, number) = read(&a).expect("whole");
                    assert_eq!(next[source as usize], number);
                    next[source as usize] += 1;
                })
                .expect("no fault");
            if taken == 0 {
                std::thread::yield_now();
            }
        }
    });
}

/// What a home without intents proves to have been left by the dead is dropped from the last
/// message on, as far as it says; what is missing beyond that closes the queue.
#[test]
fn what_the_dead_left_is_resolved_by_proof() {
    for accounted in [8, 1] {
        let words = HeapWords::new(counted::bytes_for(16));
        let mut consumer = counted::init(words.clone(), 16, 0).expect("a queue");
        let intent = AtomicU64::new(0);
        let header = [0; 3];
        let message = |id| Message { id, flags: 0, header: &header, payload: &[7; 30] };
        let mut living = counted::attach(words.clone(), 0, 0).expect("a queue");
        let mut dead = counted::attach(words, 0, 1).expect("a queue");
        living.push(&intent, &message(1)).expect("space");
        dead.push(&intent, &message(2)).expect("space");
        let ticket = dead.reserve(2).expect("space");
        dead.put(&ticket, &message(3));
        living.push(&intent, &message(4)).expect("space");
        let mut seen = Vec::new();
        assert_eq!(consumer.poll(9, |arrival| seen.push(arrival.id)), Ok(0));
        assert!(consumer.stalled() && seen.is_empty());
        let mut asked = Vec::new();
        let resolved = consumer.resolve(accounted, |source, _| {
            asked.push(source);
            // Its last one, which is there and was not finalised.
            source == 1 && asked.iter().filter(|&&source| source == 1).count() == 1
        });
        if accounted < 2 {
            assert_eq!(resolved, Err(Fault::Poisoned(Damage::Missing)));
            continue;
        }
        assert_eq!(resolved, Ok(seq::Settled::Resolved));
        assert_eq!(asked, [0, 1, 1, 0], "the last first");
        assert_eq!(consumer.poll(9, |arrival| seen.push(arrival.id)), Ok(3));
        assert_eq!(seen, [1, 2, 4]);
        assert_eq!(consumer.resolve(8, |_, _| true), Ok(seq::Settled::Nothing), "nothing stalls");
    }
}

/// A ring hands out what its producer published, over its end and again, and what cannot be is
/// damage.
#[test]
fn a_ring_for_one_producer() {
    const SLOTS: u32 = 8;
    let words = HeapWords::new(counted::remote_ring::bytes_for(SLOTS));
    let line = |byte: usize| words.line(byte / crate::sync::LINE);
    let mut consumer = counted::remote_ring::Consumer::default();
    let mut tail = 0_u64;
    for round in 0..40_u64 {
        let payload = vec![round as u8; [0, 30, 100][round as usize % 3]];
        let header = [round; 3];
        let message = Message { id: 5, flags: 0, header: &header, payload: &payload };
        let count = slots_for(payload.len()) as u64;
        let left = u64::from(SLOTS) - tail % u64::from(SLOTS);
        tail += if count > left { left } else { 0 };
        let first = counted::slot_byte(
            &counted::ticket(tail % u64::from(SLOTS), count as u32, SLOTS).expect("it fits"),
            SLOTS,
        );
        for index in 0..count as usize {
            let place = line(first + index * crate::sync::LINE);
            for (word, value) in counted::image(&message, 3, index).into_iter().enumerate() {
                place.store(word, value, Ordering::Relaxed);
            }
        }
        let mut seen = Vec::new();
        assert_eq!(consumer.poll(&words, SLOTS, 9, |_| seen.push(0)), Ok(0), "not published");
        tail += count;
        line(counted::remote_ring::TAIL_BYTE).store(0, tail, Ordering::Relaxed);
        assert!(!consumer.is_drained(&words));
        let polled = consumer.poll(&words, SLOTS, 9, |arrival| {
            assert_eq!((arrival.source, arrival.len), (3, payload.len()));
            seen.push(arrival.header[0]);
        });
        assert_eq!((polled, &seen[..]), (Ok(1), &[round][..]));
        assert!(consumer.is_drained(&words));
        let head = line(counted::remote_ring::HEAD_BYTE).load(0, Ordering::Relaxed);
        let read = |consumed, published| counted::remote_ring::read_head(head, consumed, published);
        assert_eq!(read(tail - count, tail), Ok(counted::remote_ring::Head::At(tail)));
        assert_eq!(read(tail - count, tail - 1), Err(crate::ring::Damaged));
        assert_eq!(read(tail + 1, tail + 9), Err(crate::ring::Damaged));
    }
    // Too many, fewer than before, and slots that were never written.
    for wrong in [tail + u64::from(SLOTS) + 1, tail - 1, tail + u64::from(SLOTS)] {
        line(counted::remote_ring::TAIL_BYTE).store(0, wrong, Ordering::Relaxed);
        let polled = consumer.poll(&words, SLOTS, 9, |_| panic!("nothing was sent"));
        assert_eq!(polled, Err(crate::ring::Damaged), "{wrong}");
    }
}
