//! The ring under the model checker, alone and with the changes to it and back.

use loom::thread;

use super::promote::{END_ID, Receiving, SWITCH_ID, Sending};
use super::*;
use crate::scmp::{Message, seq};
use crate::sync::atomic::AtomicU64;
use crate::sync::check_orders;
use crate::words::LoomWords;

const SHAPE: RingShape = RingShape { slots: 4, data: 256 };

/// Receives one message, checks that it is `number`, and says whether there was one.
fn receive(consumer: &mut Consumer<LoomWords>, number: u64) -> bool {
    let got = consumer.receive(|a| {
        let mut bytes = [0; 64];
        let n = a.copy_to(&mut bytes);
        assert_eq!(bytes[..n], [a.header[1] as u8; 64][..n], "torn");
        a.header[1]
    });
    match got.expect("sound") {
        Some(found) => {
            assert_eq!(found, number, "out of order");
            true
        }
        None => false,
    }
}

/// Pushes message `number`, an even one short, an odd one through the data area.
fn push(producer: &mut Producer<LoomWords>, number: u64) -> bool {
    let header = [0, number, 0];
    if number % 2 == 0 {
        return producer.try_push_short(1, 0, &header, &[number as u8; 8]);
    }
    let Some(mut space) = producer.reserve_data(64) else {
        return false;
    };
    space.put(&[number as u8; 64]);
    space.commit(1, 0, &header, 64);
    true
}

/// More messages than slots and than data, so that slots and data are used again.
#[test]
fn loom_ring_is_a_queue() {
    check_orders(3, || {
        let words = LoomWords::new(SHAPE.bytes());
        let mut consumer = init(words.clone(), SHAPE).expect("large enough");
        let sender = thread::spawn(move || {
            let mut producer = Producer::claim(words, 0).expect("free");
            // What is refused is not tried again: the rest comes when the ring has space.
            (0..6).take_while(|&number| push(&mut producer, number)).count() as u64
        });
        let mut received = 0;
        for _ in 0..3 {
            received += u64::from(receive(&mut consumer, received));
        }
        let sent = sender.join().expect("no panic");
        assert!(sent >= 4, "an empty ring takes its slots");
        while receive(&mut consumer, received) {
            received += 1;
        }
        assert_eq!(received, sent);
    });
}

/// Data runs out before slots do, so that only the data head says what may be written again.
#[test]
fn loom_ring_uses_data_again() {
    check_orders(3, || {
        let shape = RingShape { slots: 8, data: 256 };
        let words = LoomWords::new(shape.bytes());
        let mut consumer = init(words.clone(), shape).expect("large enough");
        let sender = thread::spawn(move || {
            let mut producer = Producer::claim(words, 0).expect("free");
            (0..6).take_while(|&n| push(&mut producer, 2 * n + 1)).count() as u64
        });
        let mut received = 0;
        for _ in 0..2 {
            received += u64::from(receive(&mut consumer, 2 * received + 1));
        }
        let sent = sender.join().expect("no panic");
        assert!(sent >= 4, "an empty ring takes its data");
        while receive(&mut consumer, 2 * received + 1) {
            received += 1;
        }
        assert_eq!(received, sent);
    });
}

/// The ring goes to the next owner while the last one's slots are still in it.
#[test]
fn loom_ring_changes_owners() {
    check_orders(3, || {
        let words = LoomWords::new(SHAPE.bytes());
        let mut consumer = init(words.clone(), SHAPE).expect("large enough");
        let mut first = Producer::claim(words.clone(), 0).expect("free");
        assert!(push(&mut first, 8) && push(&mut first, 9));
        let second = thread::spawn(move || {
            let Ok(mut producer) = Producer::claim(words, 1) else {
                return 0;
            };
            (0..3).take_while(|&number| push(&mut producer, number)).count() as u64
        });
        assert!(receive(&mut consumer, 8));
        drop(first);
        consumer.free();
        let mut received = u64::from(receive(&mut consumer, 0));
        let sent = second.join().expect("no panic");
        while receive(&mut consumer, received) {
            received += 1;
        }
        assert_eq!(received, sent);
    });
}

/// The receiver of the promotion model: a queue, one ring, one source.
struct Receiver {
    queue: seq::Consumer<LoomWords>,
    ring: Consumer<LoomWords>,
    route: Receiving,
    next: u64,
}

impl Receiver {
    /// Reads the ring while it is active; whether it has read END.
    fn read_ring(&mut self) {
        while self.route.drain_first().is_some() {
            let next = self.next;
            let got = self.ring.receive(|a| {
                if a.id != END_ID {
                    assert_eq!(a.header[1], next, "out of order by the ring");
                }
                a.id
            });
            match got.expect("sound") {
                None => return,
                Some(END_ID) => {
                    self.route.ended();
                    self.ring.free();
                }
                Some(_) => self.next += 1,
            }
        }
    }

    /// Reads one message of the queue; rule 5 first.
    fn read_queue(&mut self) -> bool {
        let mut found = None;
        self.queue.poll(1, |a| found = Some((a.id, a.header))).expect("no fault");
        let Some((id, header)) = found else {
            return false;
        };
        self.read_ring();
        assert_eq!(self.route, Receiving::Queue, "a message by the queue before END");
        if id == SWITCH_ID {
            let owner = self.ring.owner();
            self.route.switch(5, &header, 1, |_| owner).expect("a sound marker");
        } else {
            assert_eq!(header[1], self.next, "out of order by the queue");
            self.next += 1;
        }
        true
    }
}

fn send(queue: &mut seq::Producer<LoomWords>, intent: &AtomicU64, id: u8, header: &[u64; 3]) {
    let message = Message { id, flags: 0, header, payload: &[] };
    queue.push(intent, &message).expect("the queue has space for all of the model");
}

/// Queue, SWITCH, ring, END, queue: one stream in order, `misordered` sends by the ring too soon.
fn promotion(misordered: bool) {
    let words = LoomWords::new(seq::bytes_for(8));
    let ring_words = LoomWords::new(SHAPE.bytes());
    let mut receiver = Receiver {
        queue: seq::init(words.clone(), 8, 0).expect("large enough"),
        ring: init(ring_words.clone(), SHAPE).expect("large enough"),
        route: Receiving::default(),
        next: 0,
    };
    let sender = thread::spawn(move || {
        let intent = AtomicU64::new(0);
        let mut queue = seq::attach(words, 0, 5).expect("made");
        let mut route = Sending::Queue;
        send(&mut queue, &intent, 1, &[0, 0, 0]);
        route.claim(ring_words, 0, 5).expect("free");
        let switch = route.pending_switch().expect("claimed");
        if !misordered {
            send(&mut queue, &intent, SWITCH_ID, &switch);
        }
        route.switched();
        let Sending::Ring(producer) = &mut route else { panic!("switched") };
        assert!(producer.try_push_short(1, 0, &[0, 1, 0], &[]));
        assert!(producer.try_push_short(1, 0, &[0, 2, 0], &[]));
        if !misordered {
            assert!(route.end());
        }
        send(&mut queue, &intent, 1, &[0, 3, 0]);
    });
    for _ in 0..2 {
        receiver.read_queue();
        receiver.read_ring();
    }
    sender.join().expect("no panic");
    loop {
        let before = receiver.next;
        let found = receiver.read_queue();
        receiver.read_ring();
        if !found && before == receiver.next {
            break;
        }
    }
    assert_eq!(receiver.next, 4, "something is lost");
    assert_eq!(receiver.ring.owner(), None, "the ring is free again");
}

#[test]
fn loom_promotion_keeps_the_order() {
    check_orders(2, || promotion(false));
}

#[test]
#[should_panic(expected = "out of order by the queue")]
fn loom_promotion_without_markers_is_seen() {
    check_orders(2, || promotion(true));
}
