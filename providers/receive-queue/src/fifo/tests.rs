//! Tests of the messages that wait: order, edges of the ring, and growth. Nothing is put anywhere.

use super::*;

#[test]
fn what_comes_first_goes_alone() {
    let mut fifo = Fifo::default();
    let message = |id| Message { id, flags: 0, header: &[0; 3], payload: &[] };
    for id in 0..4 {
        fifo.push(&message(id));
    }
    assert!(!fifo.has_left() && fifo.is_past_bar());
    fifo.pop(1);
    fifo.push_first(&message(9));
    assert!(!fifo.is_past_bar());
    assert_eq!((fifo.batch(8), fifo.run(0, 1)[8], fifo.space(8)), (1, 9, 4));
    fifo.pop(1);
    assert!(fifo.is_past_bar());
    assert_eq!((fifo.batch(8), fifo.run(0, 1)[8]), (3, 1));
}

#[test]
fn messages_leave_as_they_came_and_runs_end_at_the_edge() {
    const CAPACITY: usize = 8;
    let mut fifo = Fifo::default();
    let header = [1, 2, 3];
    for round in 0..20_u32 {
        assert_eq!(fifo.space(CAPACITY), CAPACITY);
        for len in [0, 24, 25, 80] {
            let payload = vec![round as u8; len];
            let message = Message { id: 7, flags: 0, header: &header, payload: &payload };
            fifo.push(&message);
        }
        assert_eq!(fifo.space(CAPACITY), CAPACITY - 6);
        assert_eq!((fifo.batch(1), fifo.batch(3), fifo.batch(4), fifo.batch(9)), (1, 2, 4, 6));
        let stamp = Stamp { sender: 0xabcd, mark: mark(0x1234_5678, round as u16) };
        fifo.stamp(6, stamp);
        let mut seen = 0;
        let mut starts = 0;
        while seen < 6 {
            let run = fifo.run(seen, 6 - seen).to_vec();
            assert!(!run.is_empty() && run.len() <= 6 * LINE);
            for slot in run.chunks_exact(LINE) {
                let word = |i: usize| {
                    u64::from_ne_bytes(slot[8 * i..8 * i + 8].try_into().expect("8 bytes"))
                };
                assert_eq!(word(0) >> 48, 0xabcd);
                if word(0) >> 47 & 1 == 0 {
                    starts += 1;
                    assert_eq!(word(1) & 0xff, 7);
                    assert_eq!(parts(word(1) >> 16), (0x1234_5678, round as u16));
                    assert_eq!([word(2), word(3), word(4)], header);
                }
            }
            seen += (run.len() / LINE) as u32;
        }
        assert_eq!(starts, 4);
        assert_eq!((fifo.pop(2), fifo.pop(4)), (2, 2));
        assert!(fifo.is_empty());
    }
}

fn push(fifo: &mut Fifo, id: u8) {
    let payload = [id; 20];
    fifo.push(&Message { id, flags: 0, header: &[5; 3], payload: &payload });
}

#[test]
fn a_fifo_takes_the_memory_that_waiting_messages_need() {
    let mut fifo = Fifo::default();
    push(&mut fifo, 0);
    assert_eq!(fifo.bytes.len() + fifo.messages.capacity() * 2, Fifo::FIRST_BYTES);
    fifo.pop(1);
    let (mut next, mut oldest) = (1, 1);
    for (most, capacity) in [(3, 8), (8, 8), (9, 16), (40, 64), (16, 64), (128, 128)] {
        while usize::from(next - oldest) < most {
            push(&mut fifo, next);
            next += 1;
        }
        assert_eq!((fifo.capacity, fifo.bytes.len()), (capacity, capacity * LINE));
        for (at, id) in (oldest..next).enumerate() {
            let slot = fifo.run(at as u32, 1);
            assert_eq!((slot.len(), slot[8], slot[40]), (LINE, id, id));
        }
        while next - oldest > 2 {
            fifo.pop(1);
            oldest += 1;
        }
    }
    while fifo.space(fifo.capacity) > 0 {
        push(&mut fifo, next);
    }
    fifo.push_first(&Message { id: 255, flags: 0, header: &[5; 3], payload: &[] });
    assert_eq!((fifo.run(0, 1)[8], fifo.run(1, 1)[8], fifo.capacity), (255, oldest, 256));
}

/// Wherever the batch lies in the ring, and however many of its slots were put before.
#[test]
fn a_batch_goes_on_after_the_fifo_has_grown() {
    for first in 0..8 {
        for done in 0..=6 {
            let mut fifo = Fifo::default();
            for _ in 0..first {
                push(&mut fifo, 0);
                fifo.pop(1);
            }
            for id in 1..=6 {
                push(&mut fifo, id);
            }
            let slots = fifo.batch(6);
            assert_eq!(slots, 6);
            fifo.stamp(slots, Stamp { sender: 0xabcd, mark: mark(0x1234_5678, 9) });
            let (mut put, mut seen) = (0, Vec::new());
            while put < slots {
                // What is put before the fifo grows ends where it does.
                let most = if put < done { done - put } else { slots - put };
                if put == done {
                    while fifo.capacity == 8 {
                        push(&mut fifo, 7);
                    }
                }
                let run = fifo.run(put, most);
                for slot in run.chunks_exact(LINE) {
                    let word = |at: usize| {
                        u64::from_ne_bytes(slot[8 * at..8 * at + 8].try_into().expect("8 bytes"))
                    };
                    assert_eq!((word(0) >> 48, parts(word(1) >> 16)), (0xabcd, (0x1234_5678, 9)));
                    seen.push(slot[8]);
                }
                put += (run.len() / LINE) as u32;
            }
            assert_eq!(seen, [1, 2, 3, 4, 5, 6], "{first} {done}");
            assert_eq!((fifo.pop(slots), fifo.is_empty()), (6, done == 6));
            assert!(done == 6 || fifo.run(0, 1)[8] == 7);
        }
    }
}
