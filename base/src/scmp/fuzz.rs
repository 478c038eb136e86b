//! Feeds a consumer arbitrary words, as a damaged or hostile peer would write them. Whatever they
//! are, it returns: an error is fine, a panic, a hang or an access outside the memory is not (the
//! heap home checks every line).

use super::{
    Fault, Intent, MAX_SLOTS, Producers, QueuedMessage, checksummed as checksums, counted,
    max_message_bytes, seq,
};
use crate::buffer::RecvBuf;
use crate::sync::atomic::Ordering;
use crate::words::{HeapWords, LineWords, Words};

/// Producers whose intents and deaths are as arbitrary as the rest.
struct Anybody(u64);

impl Producers for Anybody {
    fn count(&self) -> u32 {
        (self.0 % 5) as u32
    }

    fn intent(&self, producer: u32) -> u64 {
        let word = self.0.rotate_left(producer * 7);
        if word & 2 == 0 { word } else { Intent::new(0, word as u32 >> 7, 1).word() }
    }

    fn is_dead(&self, producer: u32) -> bool {
        self.0 >> (producer % 64) & 4 != 0
    }
}

/// Runs all forms over a script: the first byte chooses the number of slots; then, ten bytes
/// each, where to write, what, and how to disguise it.
pub fn consume(bytes: &[u8]) {
    let Some((&first, script)) = bytes.split_first() else {
        return;
    };
    let slots = 4u32 << (first % 4);
    debug_assert!(slots <= MAX_SLOTS);
    over_seq(slots, script);
    over_published(slots, script);
    over_checksummed(slots, script);
}

/// Runs the form with checksums alone.
pub fn checksummed(bytes: &[u8]) {
    if let Some((&first, script)) = bytes.split_first() {
        over_checksummed(4 << (first % 4), script);
    }
}

/// Knows everybody by a key that arbitrary words may meet: none.
struct Credulous {
    limit: usize,
    holes: u32,
}

impl checksums::Sources for Credulous {
    fn key(&mut self, source: u16) -> Option<u64> {
        (source & 1 == 0).then_some(source.into())
    }

    fn take(&mut self, message: checksums::Checksummed<'_>) {
        assert!(message.payload.len() <= self.limit, "a length beyond the queue was handed out");
    }

    fn void(&mut self, _: u16) {}

    fn hole(&mut self, source: Option<u16>) -> bool {
        self.holes += 1;
        source.is_some_and(|source| source < 9)
    }
}

fn over_checksummed(slots: u32, script: &[u8]) {
    let words = HeapWords::new(counted::bytes_for(slots));
    let Ok(mut consumer) = checksums::init(words.clone(), slots) else {
        return;
    };
    let limit = max_message_bytes(slots);
    let mut staging = RecvBuf::owned(vec![0; limit]);
    let mut everybody = Credulous { limit, holes: 0 };
    for chunk in script.chunks_exact(10) {
        let value = scribble(&words, chunk, consumer.producers_tag());
        if value & 1 == 0 {
            checksum_one(&words, &consumer, slots, value);
        }
        let _ = consumer.poll(8, &mut everybody, &mut staging);
        if value & 7 == 0 {
            consumer.demand_flip();
        }
        if consumer.wants_flip() {
            let new = consumer.flip_word();
            // AcqRel, as its owner does it; one thread.
            let old = words.line(counted::R_BYTE / 64).swap(0, new, Ordering::AcqRel);
            let _ = consumer.flipped(old);
        }
        if value & 24 == 0 {
            consumer.resolve(value >> 60);
        }
        let _ = (consumer.ready(), consumer.stalled(), consumer.is_drained());
        assert!(everybody.holes <= 8 * slots * script.len() as u32, "holes without end");
    }
    finish(|| consumer.poll(u32::MAX, &mut everybody, &mut staging), 4 * slots);
}

/// Gives some slot a checksum that fits, so that what is behind the checksum is met.
fn checksum_one(
    words: &HeapWords,
    consumer: &checksums::Consumer<HeapWords>,
    slots: u32,
    value: u64,
) {
    let (tag, at) = (consumer.producers_tag(), (value >> 8) as u32 & (slots - 1));
    let line = words.line(counted::slot_line(tag >> 31, at, slots));
    let source = (value >> 16) as u16 & 6;
    let start = checksums::under((value >> 20 & 0x3f) << 32, tag, source);
    let mut image = [start, value >> 40 & 0xffff, 0, value, 0, 0, 0, 0];
    if value & 0x100 == 0 {
        image = checksums::void(source.into(), tag, source);
    } else {
        let mut sum = checksums::Checksum::new(source.into());
        sum.start(image);
        image[1] = checksums::with_checksum(image[1], sum.checksum());
    }
    for (word, value) in image.into_iter().enumerate() {
        // Relaxed: one thread.
        line.store(word, value, Ordering::Relaxed);
    }
}

fn over_seq(slots: u32, script: &[u8]) {
    let words = HeapWords::new(seq::bytes_for(slots));
    let Ok(mut consumer) = seq::init(words.clone(), slots, 0) else {
        return;
    };
    for chunk in script.chunks_exact(10) {
        let value = scribble(&words, chunk, consumer.generation());
        for _ in 0..3 {
            let limit = max_message_bytes(slots).max(slots as usize * 64);
            if consumer.poll(8, |a| read_arrival(&a, limit)) == Ok(0) {
                break;
            }
        }
        if value & 7 == 0 {
            let _ = consumer.settle(&Anybody(value));
        }
        let _ = (consumer.ready(), consumer.stalled());
    }
    finish(|| consumer.poll(u32::MAX, |a| read_arrival(&a, usize::MAX)), 4 * slots);
}

fn over_published(slots: u32, script: &[u8]) {
    let words = HeapWords::new(counted::bytes_for(slots));
    let Ok(mut consumer) = counted::init(words.clone(), slots, 0) else {
        return;
    };
    for chunk in script.chunks_exact(10) {
        let value = scribble(&words, chunk, consumer.producers_tag());
        let _ = consumer.poll(8, |a| read_arrival(&a, slots as usize * 64));
        if value & 7 == 0 {
            let _ = consumer.settle(&Anybody(value));
        }
        let _ = consumer.stalled();
    }
    finish(|| consumer.poll(u32::MAX, |a| read_arrival(&a, usize::MAX)), 4 * slots);
}

/// Writes one word of the script and returns its value.
fn scribble(words: &HeapWords, chunk: &[u8], tag: u32) -> u64 {
    let value = u64::from_le_bytes(chunk[2..].try_into().unwrap_or([0; 8]));
    let line = usize::from(chunk[0]) % words.lines();
    let shaped = match chunk[1] >> 4 {
        // A word that carries the current tag, where slots have it.
        0..=5 => value << 32 | u64::from(tag),
        // The same where R has it, with a small offset.
        6..=8 => u64::from(tag) << 32 | value & 0xff,
        // What the other form takes for a written slot.
        9..=11 => value << 32 | 1,
        12 => value & 0x1f,
        _ => value,
    };
    // Relaxed: one thread.
    words.line(line).store(usize::from(chunk[1] & 7) % 3, shaped, Ordering::Relaxed);
    value
}

fn read_arrival(arrival: &QueuedMessage<'_, HeapWords>, limit: usize) {
    assert!(arrival.len <= limit, "a length beyond the queue was handed out");
    let mut bytes = vec![0; arrival.len];
    assert_eq!(arrival.copy_to(&mut bytes), arrival.len);
}

/// Polls until nothing comes any more, which must be soon.
fn finish(mut poll: impl FnMut() -> Result<u32, Fault>, bound: u32) {
    for _ in 0..=bound {
        match poll() {
            Ok(0) | Err(Fault::Poisoned(_)) => return,
            Ok(_) | Err(Fault::Source { .. }) => {}
        }
    }
    panic!("a queue of {bound} slots handed out more than it can hold");
}
