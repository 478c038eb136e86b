//! The ring against a plain deque, over changing owners, in random interleavings; damage; and the
//! mapped home.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::promote::{END_ID, Receiving, SWITCH_ID, Sending, read_switch, switch_header};
use super::*;
use crate::sync::CacheLine;
use crate::sync::atomic::Ordering;
use crate::view::View;
use crate::words::{DirectWords, HeapWords, LINE_WORDS, LineWords, Words};

#[derive(Clone, Copy, Debug)]
enum Action {
    Short(usize),
    Data { space: usize, len: usize },
    Receive(usize),
    Publish,
    Evict,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        6 => (0usize..40).prop_map(Action::Short),
        4 => (0usize..300, 0usize..300).prop_map(|(space, len)| Action::Data { space, len }),
        6 => (1usize..8).prop_map(Action::Receive),
        1 => Just(Action::Publish),
        1 => Just(Action::Evict),
    ];
    proptest::collection::vec(action, 1..500)
}

fn payload(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (number as usize * 37 + i * 11 + 5) as u8).collect()
}

/// A ring, its sender, and the messages that are in it: id, number, payload.
struct Checked {
    words: HeapWords,
    sending: Sending<HeapWords>,
    consumer: Consumer<HeapWords>,
    model: VecDeque<(u8, u64, Vec<u8>)>,
    number: u64,
    shape: RingShape,
    owner: u32,
}

impl Checked {
    fn new(shape: RingShape) -> Self {
        let words = HeapWords::new(shape.bytes());
        let consumer = init(words.clone(), shape).expect("large enough");
        let mut checked = Self {
            words,
            sending: Sending::Queue,
            consumer,
            model: VecDeque::new(),
            number: 0,
            shape,
            owner: 0,
        };
        checked.claim();
        checked
    }

    fn claim(&mut self) {
        self.owner += 1;
        self.sending.claim(self.words.clone(), 7, self.owner).expect("it is free");
        assert_eq!(self.sending.pending_switch(), Some(switch_header(7)));
        assert_eq!(self.consumer.owner(), Some(self.owner));
        let mut other = Sending::Queue;
        assert_eq!(other.claim(self.words.clone(), 7, 99), Err(RingError::Taken));
        self.sending.switched();
    }

    fn ring(&mut self) -> &mut Producer<HeapWords> {
        match &mut self.sending {
            Sending::Ring(producer) => producer,
            other => panic!("the route is not the ring but {other:?}"),
        }
    }

    fn step(&mut self, action: Action) -> Result<(), TestCaseError> {
        let (number, id) = (self.number, (self.number % 32) as u8);
        match action {
            Action::Short(len) => {
                let bytes = payload(number, len);
                let sent = self.ring().try_push_short(id, 0xff, &[number, 1, 2], &bytes);
                prop_assert!(!sent || len <= MAX_INLINE);
                if sent {
                    self.model.push_back((id, number, bytes));
                    self.number += 1;
                }
                prop_assert!(self.model.len() <= self.shape.slots as usize);
            }
            Action::Data { space, len } => {
                let bytes = payload(number, len);
                let max = self.shape.max_data();
                let Some(mut data) = self.ring().reserve_data(space) else {
                    return Ok(());
                };
                prop_assert!(space <= max);
                let put = data.put(&bytes);
                prop_assert_eq!(put, len.min(space));
                prop_assert_eq!(data.commit(id, 3, &[number, 1, 2], put), put);
                self.model.push_back((id, number, bytes[..put].to_vec()));
                self.number += 1;
            }
            Action::Receive(count) => {
                for _ in 0..count {
                    self.receive()?;
                }
            }
            Action::Publish => self.consumer.publish(),
            Action::Evict => {
                self.consumer.evict();
                self.ring().refresh();
                prop_assert!(self.ring().evicted());
                let by_queue = self.sending.end();
                prop_assert_eq!(by_queue, self.model.len() < self.shape.slots as usize);
                if by_queue {
                    self.model.push_back((END_ID, 0, Vec::new()));
                    while self.receive()? != Some(END_ID) {}
                    self.consumer.free();
                    prop_assert_eq!(self.consumer.owner(), None);
                    self.claim();
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<u8>, TestCaseError> {
        let peek = self.consumer.peek();
        let got = self
            .consumer
            .receive(|a| {
                let mut bytes = vec![0; a.len];
                assert_eq!(a.copy_to(&mut bytes), a.len);
                (a.id, a.header, bytes)
            })
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        let want = self.model.pop_front();
        prop_assert_eq!(peek.map(|p| p.id), want.as_ref().map(|w| w.0));
        let Some((id, number, bytes)) = want else {
            prop_assert!(got.is_none());
            return Ok(None);
        };
        let header = if id == END_ID { [0; 3] } else { [number, 1, 2] };
        prop_assert_eq!(got, Some((id, header, bytes)));
        Ok(Some(id))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_of_windows_is_a_deque(bursts in proptest::collection::vec((1u8..80, 1usize..60_000, 0u8..80), 1..30)) {
        let mut ring = Checked::new(RingShape { slots: 64, data: 1 << 20 });
        for (sent, len, received) in bursts {
            for _ in 0..sent {
                ring.step(Action::Data { space: len, len })?;
            }
            ring.step(Action::Receive(received.into()))?;
        }
        while ring.receive()?.is_some() {}
        for max in [1, 1 << 14, 1 << 16, ring.shape.max_data()] {
            prop_assert!(ring.ring().reserve_data(max).is_some());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_is_a_deque(slots in 2u32..6, data in 8u32..12, actions in actions()) {
        let mut ring = Checked::new(RingShape { slots: 1 << slots, data: 1 << data });
        for action in actions {
            ring.step(action)?;
        }
        // Whatever happened, everything comes out, and the largest message has space then.
        while ring.receive()?.is_some() {}
        let max = ring.shape.max_data();
        prop_assert!(ring.ring().reserve_data(max).is_some());
        prop_assert!(ring.ring().has_space());
    }

    #[test]
    fn damage_is_an_error(script in proptest::collection::vec(any::<(u8, u8, u64)>(), 0..200)) {
        let shape = RingShape { slots: 4, data: 256 };
        let words = HeapWords::new(shape.bytes());
        let mut consumer = init(words.clone(), shape).expect("large enough");
        let mut producer = Producer::claim(words.clone(), 1).expect("free");
        for (line, how, value) in script {
            let line = words.line(usize::from(line) % words.lines());
            let shaped = match how >> 5 {
                // A slot that is next, or nearly.
                0..=3 => value << 32 | (producer.position() + u64::from(how & 3)),
                // A position near the others.
                4 => producer.position() + value % 9,
                5 => value % 1024,
                _ => value,
            };
            // Relaxed: one thread.
            line.store(usize::from(how & 7), shaped, Ordering::Relaxed);
            let seen = consumer.receive(|a| {
                // A slot itself may hold more than this small ring's data area takes in one piece.
                assert!(a.len <= shape.max_data().max(MAX_INLINE));
                assert_eq!(a.copy_to(&mut [0; 256]), a.len);
            });
            if seen.is_err() {
                consumer.free();
            }
            producer.try_push_short(1, 0, &[0; 3], &[1; 32]);
            if let Some(mut space) = producer.reserve_data(64) {
                space.put(&[2; 64]);
                space.commit(1, 0, &[0; 3], 64);
            }
            producer.refresh();
        }
        prop_assert!(producer.position() < 1 << 62);
    }
}

#[test]
fn windows_use_the_beginning_of_the_area() {
    const PIECE: usize = 16 << 10;
    let mut ring = Checked::new(RingShape { slots: 64, data: 1 << 20 });
    let whole = u64::from(ring.shape.data);
    let position = |ring: &mut Checked, answered: bool| {
        let before = ring.model.len();
        let at = ring.ring().reserve_data(PIECE).map(|space| space.position());
        ring.step(Action::Data { space: PIECE, len: PIECE }).unwrap();
        assert_eq!(ring.model.len() - before, at.iter().len());
        if answered || at.is_none() {
            ring.receive().unwrap();
        }
        at.map(|at| at % whole)
    };
    // Nobody reads until the area is full.
    while position(&mut ring, false).is_some() {}
    assert_eq!(ring.ring().used(), WINDOW);
    let settled: Vec<_> = (0..400).filter_map(|_| position(&mut ring, false)).skip(50).collect();
    assert!(
        settled.len() > 40 && settled.iter().all(|at| at + PIECE as u64 <= WINDOW),
        "{settled:?}"
    );
    // Each is read before the next one comes.
    while ring.receive().unwrap().is_some() {}
    let answered: Vec<_> = (0..100).filter_map(|_| position(&mut ring, true)).collect();
    assert_eq!(answered.len(), 100, "there is always space");
    assert_eq!(ring.ring().used(), whole);
    assert!(answered.iter().any(|at| *at > WINDOW), "{answered:?}");
}

#[test]
fn a_head_from_nowhere_is_damage() {
    let shape = RingShape { slots: 4, data: 256 };
    for (word, value) in [(0, 2), (0, u64::MAX), (1, 64), (1, 3), (1, u64::MAX - 63)] {
        let words = HeapWords::new(shape.bytes());
        let _consumer = init(words.clone(), shape).expect("large enough");
        let mut producer = Producer::claim(words.clone(), 1).expect("free");
        assert!(producer.try_push_short(1, 0, &[0; 3], &[]));
        words.line(HEAD_LINE).store(word, value, Ordering::Relaxed);
        assert!(!producer.refresh(), "{word} {value}");
        assert!(producer.is_damaged() && !producer.try_push_short(1, 0, &[0; 3], &[]));
        assert!(producer.reserve_data(1).is_none());
    }
}

#[test]
fn a_dead_owners_messages_do_not_pass_for_the_next_ones() {
    let shape = RingShape { slots: 4, data: 256 };
    let words = HeapWords::new(shape.bytes());
    let mut consumer = init(words.clone(), shape).expect("large enough");
    let mut dead = Producer::claim(words.clone(), 1).expect("free");
    for _ in 0..3 {
        assert!(dead.try_push_short(1, 0, &[1; 3], &[]));
    }
    drop(dead);
    assert_eq!(consumer.receive(|a| a.header[0]), Ok(Some(1)));
    consumer.free();
    assert_eq!(consumer.peek(), None);
    let mut next = Producer::claim(words, 2).expect("free");
    assert!(next.try_push_short(1, 0, &[2; 3], &[]));
    assert_eq!(consumer.receive(|a| a.header[0]), Ok(Some(2)));
    assert_eq!(consumer.receive(|a| a.header[0]), Ok(None));
}

#[test]
fn the_mapped_home_shows_payloads_in_place() {
    let shape = RingShape { slots: 4, data: 256 };
    let mut lines: Box<[CacheLine<[u64; LINE_WORDS]>]> =
        (0..shape.bytes() / LINE).map(|_| CacheLine::default()).collect();
    // SAFETY: the box is used only through the view until the end of the test.
    let view = unsafe { View::from_raw(lines.as_mut_ptr().cast(), shape.bytes()) };
    // SAFETY: the box outlives the words.
    let words = unsafe { DirectWords::from_view(view) }.expect("lines are aligned");
    let mut consumer = init(words, shape).expect("large enough");
    let mut producer = Producer::claim(words, 1).expect("free");
    for lap in 0..9u8 {
        assert!(producer.try_push_short(1, 5, &[1, 2, 3], &[lap; 32]));
        let mut space = producer.reserve_data(64).expect("the consumer follows");
        assert_eq!(space.view().len(), 64);
        assert_eq!(space.view().copy_in(&[lap; 50]), 50);
        assert_eq!(space.commit(2, 0x80, &[4, 5, 6], 50), 50);
        assert_eq!(consumer.peek(), Some(Peek { id: 1, flags: 5, in_data: false }));
        let short = consumer.receive(|a| (a.header, a.payload().to_vec()));
        assert_eq!(short, Ok(Some(([1, 2, 3], vec![lap; 32]))));
        let long = consumer.receive(|a| (a.flags, a.header, a.payload().to_vec()));
        assert_eq!(long, Ok(Some((0, [4, 5, 6], vec![lap; 50]))));
    }
}

#[test]
fn wrong_shapes_and_words_of_no_ring_are_refused() {
    let words = HeapWords::new(RingShape { slots: 8, data: 512 }.bytes());
    for shape in [(0, 512), (6, 512), (2, 512), (8, 100), (8, 128), (8, 3 << 8)] {
        let (slots, data) = shape;
        let refused = init(words.clone(), RingShape { slots, data }).err();
        assert_eq!(refused, Some(RingError::Shape), "{shape:?}");
    }
    assert_eq!(
        init(words.clone(), RingShape { slots: 16, data: 512 }).err(),
        Some(RingError::TooSmall)
    );
    assert_eq!(Producer::claim(words.clone(), 1).err(), Some(RingError::NotARing));
    init(words.clone(), RingShape { slots: 8, data: 512 }).expect("large enough");
    words.line(0).store(1, 1 << 20, Ordering::Relaxed);
    assert_eq!(Producer::claim(words, 1).err(), Some(RingError::Shape));
}

#[test]
fn markers_are_checked() {
    assert_eq!(read_switch(&switch_header(3), 4), Some(3));
    assert_eq!(read_switch(&switch_header(4), 4), None);
    assert_eq!(read_switch(&[0, 1, 0], 4), None);
    let mut receiving = Receiving::default();
    assert_eq!(receiving.drain_first(), None);
    assert_eq!(receiving.switch(5, &switch_header(1), 4, |_| Some(6)), Err(Damaged));
    assert_eq!(receiving.switch(5, &switch_header(1), 4, |_| Some(5)), Ok(1));
    assert_eq!(receiving.switch(5, &switch_header(1), 4, |_| Some(5)), Err(Damaged));
    assert_eq!(receiving.drain_first(), Some(1));
    assert_eq!(receiving.ended(), Some(1));
    assert_eq!(receiving.ended(), None);
    const { assert!(SWITCH_ID >= 32 && END_ID >= 32) };
}
