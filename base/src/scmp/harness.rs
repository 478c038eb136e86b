//! What the tests of both forms share: one face for both, producers that can be stopped after
//! every step, and messages whose bytes say where they come from.

use super::{Fault, Message, Producers, QueuedMessage, Refused, counted, seq};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::words::Words;

/// Number of the queue in all tests.
pub(super) const QUEUE: u16 = 3;

/// A form of the queue, step by step.
pub(super) trait Form<W: Words> {
    type Producer: Send + 'static;
    type Consumer;
    type Ticket;
    type Failed;
    /// Whether a finalised message of a dead producer may be lost.
    const DROPS_LAST_WORDS: bool;
    fn bytes(slots: u32) -> usize;
    fn init(words: W, slots: u32) -> Self::Consumer;
    fn attach(words: W, source: u16) -> Self::Producer;
    fn announce(p: &mut Self::Producer, intent: &AtomicU64, slots: u32) -> Result<(), Refused>;
    fn reserve(p: &mut Self::Producer, slots: u32) -> Result<Self::Ticket, Self::Failed>;
    fn give_back(p: &mut Self::Producer, failed: Self::Failed);
    fn put(p: &mut Self::Producer, ticket: &Self::Ticket, message: &Message<'_>);
    fn finalise(p: &mut Self::Producer, ticket: Self::Ticket, len: usize);
    fn finish(p: &Self::Producer, intent: &AtomicU64);
    fn poll(
        c: &mut Self::Consumer,
        budget: u32,
        handle: impl FnMut(QueuedMessage<'_, W>),
    ) -> Result<u32, Fault>;
    fn settle(c: &mut Self::Consumer, ranks: &Ranks) -> Result<seq::Settled, Fault>;
    fn stalled(c: &Self::Consumer) -> bool;
}

macro_rules! form {
    ($name:ident, $module:ident, $drops:literal, |$p:ident, $t:ident, $len:ident| $finalise:expr) => {
        pub(super) struct $name;
        impl<W: Words + Send + 'static> Form<W> for $name {
            type Producer = $module::Producer<W>;
            type Consumer = $module::Consumer<W>;
            type Ticket = $module::Ticket;
            type Failed = $module::Failed;
            const DROPS_LAST_WORDS: bool = $drops;
            fn bytes(slots: u32) -> usize {
                $module::bytes_for(slots)
            }
            fn init(words: W, slots: u32) -> Self::Consumer {
                $module::init(words, slots, QUEUE).expect("the memory is large enough")
            }
            fn attach(words: W, source: u16) -> Self::Producer {
                $module::attach(words, QUEUE, source).expect("init was before")
            }
            fn announce(
                p: &mut Self::Producer,
                intent: &AtomicU64,
                slots: u32,
            ) -> Result<(), Refused> {
                p.announce(intent, slots)
            }
            fn reserve(p: &mut Self::Producer, slots: u32) -> Result<Self::Ticket, Self::Failed> {
                p.reserve(slots)
            }
            fn give_back(p: &mut Self::Producer, failed: Self::Failed) {
                p.give_back(failed);
            }
            fn put(p: &mut Self::Producer, ticket: &Self::Ticket, message: &Message<'_>) {
                p.put(ticket, message);
            }
            fn finalise($p: &mut Self::Producer, $t: Self::Ticket, $len: usize) {
                $finalise
            }
            fn finish(p: &Self::Producer, intent: &AtomicU64) {
                p.finish(intent);
            }
            fn poll(
                c: &mut Self::Consumer,
                budget: u32,
                handle: impl FnMut(QueuedMessage<'_, W>),
            ) -> Result<u32, Fault> {
                c.poll(budget, handle)
            }
            fn settle(c: &mut Self::Consumer, ranks: &Ranks) -> Result<seq::Settled, Fault> {
                c.settle(ranks)
            }
            fn stalled(c: &Self::Consumer) -> bool {
                c.stalled()
            }
        }
    };
}

form!(Seq, seq, false, |p, t, len| p.publish(t, len));
form!(Counted, counted, true, |p, t, len| {
    let _ = len;
    p.finalise(t);
});

/// Control blocks of the producers.
#[derive(Debug)]
pub(super) struct Ranks {
    pub(super) intents: Vec<AtomicU64>,
    pub(super) dead: Vec<AtomicBool>,
}

impl Ranks {
    pub(super) fn new(count: usize) -> Self {
        Self {
            intents: (0..count).map(|_| AtomicU64::new(0)).collect(),
            dead: (0..count).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    pub(super) fn kill(&self, producer: usize) {
        // Release: pairs with `is_dead`; the last thing that a killed producer does.
        self.dead[producer].store(true, Ordering::Release);
    }
}

impl Producers for Ranks {
    fn count(&self) -> u32 {
        self.intents.len() as u32
    }

    fn intent(&self, producer: u32) -> u64 {
        self.intents[producer as usize].load(Ordering::Acquire)
    }

    fn is_dead(&self, producer: u32) -> bool {
        self.dead[producer as usize].load(Ordering::Acquire)
    }
}

pub(super) fn payload(source: u16, number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (source as usize * 71 + number as usize * 13 + i * 7 + 1) as u8).collect()
}

/// Reads an arrival and checks every byte of it; returns source and number.
pub(super) fn read<W: Words>(arrival: &QueuedMessage<'_, W>) -> Result<(u16, u64), String> {
    let [source, number, len] = arrival.header;
    let mut bytes = vec![0; arrival.len];
    arrival.copy_to(&mut bytes);
    let claims = (arrival.source, arrival.id, arrival.flags, arrival.len);
    if (u64::from(arrival.source), arrival.len as u64) != (source, len)
        || (arrival.id, arrival.flags) != (number as u8 & 31, source as u8)
    {
        return Err(format!("header {:?} does not fit {claims:?}", arrival.header));
    }
    if bytes != payload(arrival.source, number, arrival.len) {
        return Err(format!("payload of {claims:?} is torn"));
    }
    Ok((arrival.source, number))
}

/// A producer of numbered messages that goes one step at a time.
pub(super) struct Stepper<F: Form<W>, W: Words> {
    pub(super) producer: F::Producer,
    source: u16,
    /// Number of the message that is under way, or next.
    pub(super) number: u64,
    at: At<F::Ticket, F::Failed>,
}

enum At<T, F> {
    Idle,
    Announced(usize),
    Reserved(T, usize),
    TooLate(F),
    Put(T, usize),
    Finalised,
    Counted,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    Announced,
    Refused,
    Reserved,
    TooLate,
    Put,
    Finalised,
    /// The message is sent; the next one is next.
    Sent,
    /// The failed reservation is counted.
    Counted,
    /// The message was refused after it was announced.
    Dropped,
}

impl<F: Form<W>, W: Words> Stepper<F, W> {
    pub(super) fn new(words: W, source: u16) -> Self {
        Self { producer: F::attach(words, source), source, number: 0, at: At::Idle }
    }

    #[cfg(not(bowline_loom))]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.at, At::Idle)
    }

    /// One step; a new message has `len` bytes.
    pub(super) fn step(&mut self, ranks: &Ranks, len: usize) -> Did {
        let intent = &ranks.intents[self.source as usize];
        let (did, at) = match std::mem::replace(&mut self.at, At::Idle) {
            At::Idle => {
                let slots = super::slots_for(len) as u32;
                match F::announce(&mut self.producer, intent, slots) {
                    Ok(()) => (Did::Announced, At::Announced(len)),
                    Err(_) => (Did::Refused, At::Idle),
                }
            }
            At::Announced(len) => {
                match F::reserve(&mut self.producer, super::slots_for(len) as u32) {
                    Ok(ticket) => (Did::Reserved, At::Reserved(ticket, len)),
                    Err(failed) => (Did::TooLate, At::TooLate(failed)),
                }
            }
            At::Reserved(ticket, len) => {
                let payload = payload(self.source, self.number, len);
                let header = [u64::from(self.source), self.number, len as u64];
                let id = self.number as u8 & 31;
                let flags = self.source as u8;
                let message = Message { id, flags, header: &header, payload: &payload };
                F::put(&mut self.producer, &ticket, &message);
                (Did::Put, At::Put(ticket, len))
            }
            At::Put(ticket, len) => {
                F::finalise(&mut self.producer, ticket, len);
                (Did::Finalised, At::Finalised)
            }
            At::Finalised => {
                F::finish(&self.producer, intent);
                self.number += 1;
                (Did::Sent, At::Idle)
            }
            At::TooLate(failed) => {
                F::give_back(&mut self.producer, failed);
                (Did::Counted, At::Counted)
            }
            At::Counted => {
                F::finish(&self.producer, intent);
                (Did::Dropped, At::Idle)
            }
        };
        self.at = at;
        did
    }
}
