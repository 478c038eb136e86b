//! The forms of receive queue behind one face, over mapped memory.

use bowline_base::ring::promote::Sending;
use bowline_base::ring::{self, RingShape};
use bowline_base::scmp::{Message, QueuedMessage, counted, seq};
use bowline_base::sync::atomic::AtomicU64;
use bowline_base::words::DirectWords;

use super::locked;

/// Slots of a half, as in all experiments of the thesis's chapter 6.
pub(crate) const SLOTS: u32 = 1024;

/// The ring of a pair.
const SHAPE: RingShape = RingShape { slots: 1024, data: 1 << 18 };

/// A header that nobody reads.
const HEADER: [u64; 3] = [1, 2, 3];

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One ring for each pair.
    Ring,
    /// SCMP with the sequence in the slot.
    Seq,
    /// SCMP with counters, as in the thesis.
    Counted,
    /// A queue behind a lock.
    Locked,
}

impl Form {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [Self::Ring, Self::Seq, Self::Counted, Self::Locked];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Seq => "scmp-seq",
            Self::Counted => "scmp-counted",
            Self::Locked => "locked",
        }
    }

    /// Bytes of memory that a receiver needs: for each of its peers, where a ring is for a pair.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Ring => SHAPE.bytes(),
            Self::Seq => seq::bytes_for(SLOTS),
            Self::Counted => counted::bytes_for(SLOTS),
            Self::Locked => locked::bytes_for(SLOTS),
        }
    }

    /// Makes an empty queue in zeroed memory.
    pub(crate) fn receiver(self, words: DirectWords) -> Receiver {
        match self {
            Self::Ring => Receiver::Ring(ring::init(words, SHAPE).expect("the memory fits")),
            Self::Seq => Receiver::Seq(seq::init(words, SLOTS, 0).expect("the memory fits")),
            Self::Counted => {
                Receiver::Counted(counted::init(words, SLOTS, 0).expect("the memory fits"))
            }
            Self::Locked => Receiver::Locked(locked::Queue::new(words, SLOTS)),
        }
    }

    /// Attaches the sender `source` to a queue that was made.
    pub(crate) fn sender(self, words: DirectWords, source: u16) -> Sender {
        let intent = AtomicU64::new(0);
        match self {
            Self::Ring => {
                let mut sending = Sending::Queue;
                sending.claim(words, 0, source.into()).expect("nobody else has claimed it");
                sending.switched();
                Sender::Ring(sending)
            }
            Self::Seq => {
                let producer = seq::attach(words, 0, source).expect("the queue was made");
                Sender::Seq(producer, intent)
            }
            Self::Counted => {
                let producer = counted::attach(words, 0, source).expect("the queue was made");
                Sender::Counted(producer, intent)
            }
            Self::Locked => Sender::Locked(locked::Queue::new(words, SLOTS)),
        }
    }
}

/// A sender. The intent word, which is in the sender's control block in production, is its own
/// here: nobody dies.
#[derive(Debug)]
pub(crate) enum Sender {
    Ring(Sending<DirectWords>),
    Seq(seq::Producer<DirectWords>, AtomicU64),
    Counted(counted::Producer<DirectWords>, AtomicU64),
    Locked(locked::Queue),
}

impl Sender {
    /// Sends `payload`; `false` when there is no space now.
    #[inline]
    pub(crate) fn send(&mut self, payload: &[u8]) -> bool {
        let message = Message { id: 0, flags: 0, header: &HEADER, payload };
        match self {
            Self::Ring(Sending::Ring(producer)) => {
                if payload.len() <= ring::MAX_INLINE {
                    return producer.try_push_short(0, 0, &HEADER, payload);
                }
                match producer.reserve_data(payload.len()) {
                    Some(mut slot) => {
                        slot.put(payload);
                        slot.commit(0, 0, &HEADER, payload.len());
                        true
                    }
                    None => false,
                }
            }
            Self::Ring(_) => false,
            Self::Seq(producer, intent) => producer.push(intent, &message).is_ok(),
            Self::Counted(producer, intent) => producer.push(intent, &message).is_ok(),
            Self::Locked(queue) => queue.push(&HEADER, payload),
        }
    }
}

/// A receiver.
#[derive(Debug)]
pub(crate) enum Receiver {
    Ring(ring::Consumer<DirectWords>),
    Seq(seq::Consumer<DirectWords>),
    Counted(counted::Consumer<DirectWords>),
    Locked(locked::Queue),
}

/// Messages of one call.
const BUDGET: u32 = 64;

impl Receiver {
    /// Copies what has come into `out`, message by message, and calls `each` with every length.
    #[inline]
    pub(crate) fn receive(&mut self, out: &mut [u8], mut each: impl FnMut(usize, &[u8])) -> u32 {
        let mut scmp = |arrival: QueuedMessage<'_, DirectWords>| {
            let len = arrival.copy_to(out);
            each(len, out);
        };
        match self {
            Self::Seq(consumer) => consumer.poll(BUDGET, scmp).expect("nobody damages the queue"),
            Self::Counted(consumer) => {
                consumer.poll(BUDGET, &mut scmp).expect("nobody damages the queue")
            }
            Self::Ring(consumer) => {
                let mut taken = 0;
                while taken < BUDGET {
                    let one = consumer.receive(|arrival| {
                        let len = arrival.copy_to(out);
                        each(len, out);
                    });
                    if one.expect("nobody damages the ring").is_none() {
                        break;
                    }
                    taken += 1;
                }
                taken
            }
            Self::Locked(queue) => queue.poll(BUDGET, out, each),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::latency::Memory;

    #[test]
    fn every_form_hands_out_what_was_sent() {
        for form in Form::ALL {
            let memory = Memory::make(form.bytes()).unwrap();
            let words = memory.words(0, form.bytes());
            let mut receiver = form.receiver(words);
            let mut sender = form.sender(words, 0);
            let mut out = vec![0; 1 << 14];
            let mut sent = 0u32;
            for round in 0..300usize {
                for len in [0, 1, 8, 24, 32, 33, 64, 100, 1000, 8192] {
                    let payload: Vec<u8> = (0..len).map(|k| (k * 7 + round) as u8).collect();
                    assert!(sender.send(&payload), "{}: {len} bytes", form.name());
                    sent += 1;
                    let mut seen = None;
                    while receiver.receive(&mut out, |len, out| seen = Some(out[..len].to_vec()))
                        == 0
                    {}
                    assert_eq!(seen, Some(payload), "{}", form.name());
                }
            }
            assert_eq!(sent, 3000);
            assert_eq!(receiver.receive(&mut out, |_, _| ()), 0);
        }
    }

    #[test]
    fn full_queues_say_so_and_lose_nothing() {
        for form in Form::ALL {
            let memory = Memory::make(form.bytes()).unwrap();
            let words = memory.words(0, form.bytes());
            let mut receiver = form.receiver(words);
            let mut sender = form.sender(words, 0);
            let mut out = [0; 64];
            let (mut sent, mut received) = (0u64, 0u64);
            for _ in 0..5 {
                while sender.send(&sent.to_ne_bytes()) {
                    sent += 1;
                    assert!(sent < 100_000, "{}: it never fills", form.name());
                }
                while received < sent {
                    receiver.receive(&mut out, |len, out| {
                        assert_eq!(out[..len], received.to_ne_bytes(), "{}", form.name());
                        received += 1;
                    });
                }
            }
        }
    }
}
