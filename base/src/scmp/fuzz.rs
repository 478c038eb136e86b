//! Feeds a consumer arbitrary words, as a damaged or hostile peer would write them. Whatever they
//! are, it returns: an error is fine, a panic, a hang or an access outside the memory is not (the
//! heap home checks every line).

use super::{Arrival, Fault, Intent, MAX_SLOTS, Producers, max_message_bytes, published, seq};
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

/// Runs both forms over a script: the first byte chooses the number of slots; then, ten bytes
/// each, where to write, what, and how to disguise it.
pub fn consume(bytes: &[u8]) {
    let Some((&first, script)) = bytes.split_first() else {
        return;
    };
    let slots = 4u32 << (first % 4);
    debug_assert!(slots <= MAX_SLOTS);
    over_seq(slots, script);
    over_published(slots, script);
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
            if consumer.poll(8, |a| look(&a, limit)) == Ok(0) {
                break;
            }
        }
        if value & 7 == 0 {
            let _ = consumer.settle(&Anybody(value));
        }
        let _ = (consumer.ready(), consumer.stalled());
    }
    finish(|| consumer.poll(u32::MAX, |a| look(&a, usize::MAX)), 4 * slots);
}

fn over_published(slots: u32, script: &[u8]) {
    let words = HeapWords::new(published::bytes_for(slots));
    let Ok(mut consumer) = published::init(words.clone(), slots, 0) else {
        return;
    };
    for chunk in script.chunks_exact(10) {
        let value = scribble(&words, chunk, consumer.generation());
        let _ = consumer.poll(8, |a| look(&a, slots as usize * 64));
        if value & 7 == 0 {
            let _ = consumer.settle(&Anybody(value));
        }
        let _ = consumer.stalled();
    }
    finish(|| consumer.poll(u32::MAX, |a| look(&a, usize::MAX)), 4 * slots);
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

fn look(arrival: &Arrival<'_, HeapWords>, limit: usize) {
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
