//! Puts that land word by word, in any order, with polls in between; deaths, floods, and damage.

use proptest::prelude::*;

use super::super::seq::{LAST_GENERATION, POISON};
use super::super::{Damage, Fault, Message, max_message_bytes, slots_for};
use super::*;
use crate::buffer::RecvBuf;
use crate::words::HeapWords;

const SOURCES: usize = 3;

/// A producer: words that have not landed, and what its status word would say.
#[derive(Default)]
struct Producer {
    /// Line, word and value.
    flying: Vec<(usize, usize, u64)>,
    sent: u32,
    dead: bool,
    /// The tag under which it was refused.
    refused: Option<u32>,
}

/// What the owner of the queue knows, and what it has been handed.
#[derive(Default)]
struct Seen {
    next: [u32; SOURCES],
    messages: [u64; SOURCES],
    holes: Vec<Option<u16>>,
}

fn cookie(source: u16) -> u32 {
    0xc001_0000 | u32::from(source)
}

fn payload(source: u16, number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (usize::from(source) * 71 + number as usize * 13 + i * 7 + 1) as u8).collect()
}

impl Sources for Seen {
    fn key(&mut self, source: u16) -> Option<u64> {
        Some(key(cookie(source), *self.next.get(usize::from(source))?))
    }

    fn take(&mut self, message: Checksummed<'_>) {
        let source = usize::from(message.source);
        assert_eq!(message.header[0], self.messages[source], "out of order");
        assert_eq!(message.header[1], u64::from(message.source));
        let want = payload(message.source, message.header[0], message.header[2] as usize);
        assert!(message.payload.to_vec() == want, "torn");
        assert_eq!((message.id, message.flags), (7, 3));
        self.next[source] += 1;
        self.messages[source] += 1;
    }

    fn void(&mut self, source: u16) {
        self.next[usize::from(source)] += 1;
    }

    fn hole(&mut self, source: Option<u16>) -> bool {
        self.holes.push(source);
        source.is_some()
    }
}

struct Queue {
    words: HeapWords,
    consumer: Consumer<HeapWords>,
    producers: [Producer; SOURCES],
    /// Messages reserved of each.
    reserved: [u64; SOURCES],
    seen: Seen,
    staging: RecvBuf,
    slots: u32,
    resolved: u32,
}

impl Queue {
    fn new(slots: u32, tag: u32) -> Self {
        let words = HeapWords::new(counted::bytes_for(slots));
        let consumer = init_at(words.clone(), slots, tag).expect("the memory fits");
        Self {
            words,
            consumer,
            producers: Default::default(),
            reserved: [0; SOURCES],
            seen: Seen::default(),
            staging: RecvBuf::owned(vec![0; max_message_bytes(slots)]),
            slots,
            resolved: 0,
        }
    }

    fn r(&self) -> u64 {
        self.words.line(R_LINE).load(0, Ordering::Relaxed)
    }

    /// Reserves for messages of these lengths together, and lets their words fly.
    fn send(&mut self, source: usize, lens: &[usize]) {
        let now = (self.r() >> 32) as u32;
        let producer = &mut self.producers[source];
        if producer.dead || producer.refused == Some(now) {
            return;
        }
        producer.refused = None;
        let count: usize = lens.iter().map(|&len| slots_for(len)).sum();
        let old = self.words.line(R_LINE).fetch_add(0, count as u64, Ordering::AcqRel);
        let (tag, offset) = ((old >> 32) as u32, old as u32);
        let at = |index: u32| counted::slot_line(tag >> 31, index, self.slots);
        let own = cookie(source as u16);
        if counted::ticket(old, count as u32, self.slots).is_err() {
            producer.refused = Some(tag);
            if offset < self.slots {
                let words = void(key(own, producer.sent), tag, source as u16);
                producer.sent += 1;
                let line = at(offset);
                producer.flying.extend((0..8).map(|word| (line, word, words[word])));
            }
            return;
        }
        let mut index = offset;
        for &len in lens {
            let number = self.reserved[source];
            self.reserved[source] += 1;
            let payload = payload(source as u16, number, len);
            let header = [number, source as u64, len as u64];
            let message = Message { id: 7, flags: 3, header: &header, payload: &payload };
            let mut images: Vec<[u64; 8]> = (0..slots_for(len))
                .map(|slot| counted::image(&message, source as u16, slot))
                .collect();
            let mut sum = Checksum::new(key(own, producer.sent));
            producer.sent += 1;
            for (place, image) in images.iter_mut().enumerate() {
                image[0] = under(image[0], tag, source as u16);
                if place == 0 { sum.start(*image) } else { sum.more(image) }
            }
            images[0][1] = with_checksum(images[0][1], sum.checksum());
            for image in images {
                let line = at(index);
                index += 1;
                producer.flying.extend((0..8).map(|word| (line, word, image[word])));
            }
        }
    }

    /// One word of a producer lands.
    fn land(&mut self, source: usize, pick: usize) {
        let flying = &mut self.producers[source].flying;
        if !flying.is_empty() {
            let (line, word, value) = flying.swap_remove(pick % flying.len());
            self.words.line(line).store(word, value, Ordering::Relaxed);
        }
    }

    fn poll(&mut self, budget: u32) -> Result<u32, Fault> {
        let got = self.consumer.poll(budget, &mut self.seen, &mut self.staging)?;
        if self.consumer.wants_flip() {
            let new = self.consumer.flip_word();
            let old = self.words.line(R_LINE).swap(0, new, Ordering::AcqRel);
            self.consumer.flipped(old)?;
        }
        Ok(got)
    }

    fn kill(&mut self, source: usize) {
        self.producers[source].dead = true;
        self.producers[source].flying.clear();
    }

    /// As the lane does it: flip, wait for the living, resolve.
    fn settle(&mut self) {
        if !self.consumer.stalled() {
            return;
        }
        if self.consumer.is_active() {
            return self.consumer.demand_flip();
        }
        let dead = self.producers.iter().filter(|one| one.dead).count() as u64;
        if self.producers.iter().all(|one| one.flying.is_empty()) {
            self.resolved += 1;
            self.consumer.resolve(dead * u64::from(self.slots));
        }
    }

    fn come_to_rest(&mut self) {
        for source in 0..SOURCES {
            while !self.producers[source].flying.is_empty() {
                self.land(source, 0);
            }
        }
        for _ in 0..1000 {
            let got = self.poll(u32::MAX).expect("nothing is damaged");
            self.settle();
            if got == 0 && self.consumer.is_drained() {
                return;
            }
        }
        panic!("the queue did not come to rest: {:?}", self.consumer);
    }
}

#[derive(Clone, Debug)]
enum Action {
    Send(usize, Vec<usize>),
    Land(usize, usize),
    LandAll(usize),
    Poll(u32),
    Kill(usize),
    Settle,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let lens = proptest::collection::vec(
        prop_oneof![Just(0), Just(8), Just(24), Just(25), Just(90)],
        1..4,
    );
    let action = prop_oneof![
        6 => (0..SOURCES, lens).prop_map(|(source, lens)| Action::Send(source, lens)),
        30 => (0..SOURCES, any::<usize>()).prop_map(|(source, pick)| Action::Land(source, pick)),
        5 => (0..SOURCES).prop_map(Action::LandAll),
        8 => (1u32..5).prop_map(Action::Poll),
        1 => (0..SOURCES).prop_map(Action::Kill),
        2 => Just(Action::Settle),
    ];
    proptest::collection::vec(action, 1..500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever lands when, messages are whole, in order, and all there: of the dead a beginning.
    #[test]
    fn puts_land_in_any_order(
        slots in prop_oneof![Just(16_u32), Just(32)],
        tag in prop_oneof![Just(1), Just(LAST_GENERATION - 1), Just(1 << 31 | LAST_GENERATION)],
        actions in actions(),
    ) {
        let mut queue = Queue::new(slots, tag);
        for action in actions {
            match action {
                Action::Send(source, lens) => {
                    let sum: usize = lens.iter().map(|&len| slots_for(len)).sum();
                    if sum <= slots as usize / 2 {
                        queue.send(source, &lens);
                    }
                }
                Action::Land(source, pick) => queue.land(source, pick),
                Action::LandAll(source) => {
                    while !queue.producers[source].flying.is_empty() {
                        queue.land(source, 0);
                    }
                }
                Action::Poll(budget) => {
                    queue.poll(budget).expect("nothing is damaged");
                }
                // One stays alive.
                Action::Kill(0) => {}
                Action::Kill(source) => queue.kill(source),
                Action::Settle => queue.settle(),
            }
        }
        queue.come_to_rest();
        for source in 0..SOURCES {
            let (got, sent) = (queue.seen.messages[source], queue.reserved[source]);
            let dead = queue.producers[source].dead;
            prop_assert!(got == sent || dead && got < sent, "{got} of {sent} {:?} {:?} {:x}", queue.consumer, queue.seen.holes, queue.r());
        }
        if queue.producers.iter().all(|one| !one.dead) {
            prop_assert!(queue.seen.holes.is_empty());
        }
    }

    /// Whatever is written over it, it returns.
    #[test]
    fn damage_is_reported_and_never_fatal(bytes in proptest::collection::vec(any::<u8>(), 0..800)) {
        super::super::fuzz::checksummed(&bytes);
    }
}

/// A message is taken when its last word has landed and not before, in each order of two words.
#[test]
fn no_message_before_its_last_word() {
    for len in [8, 90] {
        let words = slots_for(len) * 8;
        for last in 0..words {
            let mut queue = Queue::new(16, 1);
            queue.send(1, &[len]);
            let withheld = queue.producers[1].flying.swap_remove(last);
            while !queue.producers[1].flying.is_empty() {
                queue.land(1, 0);
            }
            let early = queue.poll(9).expect("nothing is damaged");
            assert_eq!(early, 0, "{len} bytes, word {last}");
            queue.producers[1].flying.push(withheld);
            queue.land(1, 0);
            assert_eq!(queue.poll(9), Ok(1));
        }
    }
}

/// A word of a whole message is changed: its source is named, what it sent later is not believed, and
/// the others go on.
#[test]
fn a_changed_slot_is_its_sources() {
    for word in 1..8 {
        let mut queue = Queue::new(16, 1);
        queue.send(1, &[24, 24]);
        queue.send(2, &[8]);
        for source in [1, 2] {
            while !queue.producers[source].flying.is_empty() {
                queue.land(source, 0);
            }
        }
        queue.words.line(counted::slot_line(0, 0, 16)).fetch_add(word, 1 << 20, Ordering::Relaxed);
        queue.come_to_rest();
        assert_eq!(queue.seen.messages, [0, 0, 1], "word {word}");
        assert_eq!(queue.seen.holes, [Some(1), Some(1)], "word {word}");
        assert_eq!(queue.resolved, 1);
    }
}

/// A slot that vanishes while nobody has died closes the queue, for producers too.
#[test]
fn a_hole_of_nobody_closes_the_queue() {
    let mut queue = Queue::new(16, 1);
    queue.send(1, &[8]);
    queue.kill(1);
    queue.producers[1].dead = false;
    let mut fault = None;
    for _ in 0..10 {
        fault = fault.or(queue.poll(9).err());
        queue.settle();
    }
    assert_eq!(fault, Some(Fault::Poisoned(Damage::Missing)));
    assert!(queue.r() as u32 >= POISON);
    assert_eq!(queue.poll(9), Err(Fault::Poisoned(Damage::Missing)));
}

/// A void where nothing was refused is no void.
#[test]
fn a_forged_void_loses_nothing_of_others() {
    let mut queue = Queue::new(16, 1);
    let words = void(key(cookie(1), 0), 1, 1);
    let old = queue.words.line(R_LINE).fetch_add(0, 1, Ordering::AcqRel);
    assert_eq!(old as u32, 0);
    for (word, value) in words.into_iter().enumerate() {
        queue.words.line(counted::slot_line(0, 0, 16)).store(word, value, Ordering::Relaxed);
    }
    queue.send(2, &[8]);
    while !queue.producers[2].flying.is_empty() {
        queue.land(2, 0);
    }
    let mut faults = 0;
    for _ in 0..300 {
        faults += u32::from(queue.poll(9) == Err(Fault::Source { source_id: 1 }));
        queue.settle();
    }
    assert_eq!((faults, queue.seen.messages), (1, [0, 0, 1]));
}

#[test]
fn checksums_differ_by_every_bit_and_by_the_order_of_slots() {
    let mut words = [[1_u64, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15, 16]];
    let checksum = |key, words: &[[u64; 8]; 2]| {
        let mut sum = Checksum::new(key);
        sum.start(words[0]);
        sum.more(&words[1]);
        sum.checksum()
    };
    let plain = checksum(5, &words);
    assert!(plain < 1 << 48);
    for slot in 0..2 {
        for word in 0..8 {
            for bit in 0..64 {
                words[slot][word] ^= 1 << bit;
                // The checksum's own bits are not checksummed.
                let own = slot == 0 && word == 1 && bit >= 16;
                assert_eq!(checksum(5, &words) == plain, own, "{slot} {word} {bit}");
                words[slot][word] ^= 1 << bit;
            }
        }
    }
    for bit in 0..64 {
        assert_ne!(checksum(5 ^ 1 << bit, &words), plain);
    }
    words.swap(0, 1);
    assert_ne!(checksum(5, &words), plain);
}

/// The words that docs/wire-protocol.md shows.
#[test]
fn the_documented_slot() {
    let payload = [1, 2, 3, 4, 5, 6, 7, 8];
    let message = Message { id: 7, flags: 0, header: &[1, 2, 3], payload: &payload };
    let mut words = counted::image(&message, 1, 0);
    words[0] = under(words[0], 1, 1);
    let mut sum = Checksum::new(key(0xc001_0001, 0));
    sum.start(words);
    words[1] = with_checksum(words[1], sum.checksum());
    words[5] = u64::from_ne_bytes(words[5].to_le_bytes());
    let text = words
        .map(|word| format!("{word:016x}"))
        .chunks(4)
        .map(|row| row.join(" "))
        .collect::<Vec<_>>()
        .join("\n");
    let document = include_str!("../../../../docs/wire-protocol.md");
    assert!(document.contains(&text), "the document does not show\n{text}");
}
