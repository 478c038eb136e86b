//! Consumers of queues whose memory a peer scribbles on.

use bowline_base::ring::{self, Consumer, MAX_INLINE, RingShape};
use bowline_base::sync::atomic::Ordering;
use bowline_base::words::{HeapWords, LineWords, Words};

/// Both forms of the shared receive queue.
pub(crate) fn scmp_consumer(bytes: &[u8]) {
    bowline_base::scmp::fuzz::consume(bytes);
}

/// Where a lane of receive queues is reached.
pub(crate) fn queue_address(bytes: &[u8]) {
    bowline_receive_queue::fuzz::address(bytes);
}

/// Which sender has a number of a receive queue.
pub(crate) fn queue_introduction(bytes: &[u8]) {
    bowline_receive_queue::fuzz::introduction(bytes);
}

/// A ring. The first byte chooses its shape; then, ten bytes each, where to write, how to disguise
/// it, and what.
pub(crate) fn ring_consumer(bytes: &[u8]) {
    let Some((&first, script)) = bytes.split_first() else {
        return;
    };
    let shape = RingShape { slots: 4 << (first % 3), data: 256 << (first / 3 % 3) };
    let words = HeapWords::new(shape.bytes());
    let mut consumer = ring::init(words.clone(), shape).expect("the shape is a ring's");
    let mut next = 1;
    for chunk in script.chunks_exact(10) {
        scribble(&words, chunk, next);
        let _ = consumer.peek();
        next += receive(&mut consumer, shape);
        match chunk[1] & 0x70 {
            0x10 => consumer.publish(),
            0x20 => consumer.evict(),
            0x30 => {
                // A new owner continues a lap later.
                consumer.free();
                next += shape.slots;
            }
            _ => {}
        }
        let _ = consumer.owner();
    }
}

fn scribble(words: &HeapWords, chunk: &[u8], next: u32) {
    let value = u64::from_le_bytes(chunk[2..].try_into().expect("eight bytes"));
    let line = usize::from(chunk[0]) % words.lines();
    let word = usize::from(chunk[1] & 7);
    // Half of the time the sequence of a slot that is about to be read, else nothing is found.
    let disguised = chunk[1] & 0x80 != 0;
    let value = if disguised { value << 32 | u64::from(next) } else { value };
    // Relaxed: one thread.
    words.line(line).store(word, value, Ordering::Relaxed);
}

/// Takes what there is; returns how many.
fn receive(consumer: &mut Consumer<HeapWords>, shape: RingShape) -> u32 {
    let most = shape.max_data().max(MAX_INLINE);
    // A slot carries one sequence, so one write can make one message; what more there is, is
    // left of earlier writes.
    for taken in 0..=shape.slots {
        let received = consumer.receive(|arrival| {
            assert!(arrival.len <= most, "a payload beyond the ring was handed out");
            let mut payload = vec![0; arrival.len];
            assert_eq!(arrival.copy_to(&mut payload), arrival.len);
        });
        if !matches!(received, Ok(Some(()))) {
            return taken;
        }
    }
    panic!("a ring of {} slots handed out more than it can hold", shape.slots);
}
