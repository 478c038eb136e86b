//! Active messages on the protocol engine: the handler notes what came, the waiting side asks for
//! it.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow, bail};
use bowline::ucp::Sent;
use bowline_base::buffer::SendBuf;
use bowline_base::sync::atomic::{AtomicU64, Ordering};

use super::drive::{PingPong, Stream};
use super::pair::{Lent, Pair};
use super::payload;
use super::plan::Plan;

/// Ids of the handlers.
const DATA: u16 = 1;
const ANSWER: u16 = 2;

/// Messages that do not all carry one sequence number.
const MIXED: u64 = u64::MAX;

/// What the handlers note. They run in the thread that reads it, so Relaxed accesses order
/// nothing and need not.
#[derive(Default)]
struct Notes {
    messages: AtomicU64,
    answers: AtomicU64,
    /// The sequence number that all messages since the last look carried, or [`MIXED`].
    stamp: AtomicU64,
    /// The pattern that messages are compared with, and what came out.
    pattern: Mutex<Option<Comparison>>,
    /// Whether `pattern` is asked for: a lock per message would be timed.
    wanted: AtomicU64,
}

struct Comparison {
    seed: u64,
    compared: u64,
    error: Option<anyhow::Error>,
}

impl Notes {
    #[inline]
    fn message(&self, data: &[u8]) {
        let stamp = payload::stamp_of(data).unwrap_or(MIXED);
        let before = self.stamp.load(Ordering::Relaxed);
        let first = before == 0 || before == stamp;
        self.stamp.store(if first { stamp } else { MIXED }, Ordering::Relaxed);
        if self.wanted.load(Ordering::Relaxed) != 0 {
            self.compare(data);
        }
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    fn compare(&self, data: &[u8]) {
        let mut pattern = self.pattern.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(comparison) = &mut *pattern {
            comparison.compared += 1;
            if let Err(error) = payload::check(data, comparison.seed) {
                comparison.error = Some(error);
            }
        }
    }
}

/// One side. Its sends have completed whenever a method returns `Ok`. A side whose operation failed
/// is not used any more (the loops of `drive` end with the first error), and its buffers outlive
/// its worker.
pub(crate) struct Side<'a> {
    pair: &'a Pair,
    out: Lent<'a>,
    notes: Arc<Notes>,
    /// Messages and answers waited for so far.
    expected: u64,
    answers: u64,
    /// What the messages received last carried.
    stamp: u64,
    size: usize,
    window: usize,
    open: Vec<bowline::ucp::RequestId>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(pair: &'a Pair, plan: &Plan) -> Self {
        let notes = Arc::new(Notes::default());
        let (messages, answers) = (Arc::clone(&notes), Arc::clone(&notes));
        pair.worker.am_handler(DATA, Box::new(move |_, message| messages.message(message.data)));
        pair.worker.am_handler(
            ANSWER,
            Box::new(move |_, _| {
                answers.answers.fetch_add(1, Ordering::Relaxed);
            }),
        );
        Self {
            pair,
            out: pair.buffer(plan.size),
            notes,
            expected: 0,
            answers: 0,
            stamp: 0,
            size: plan.size,
            window: plan.window,
            open: Vec::with_capacity(plan.window),
        }
    }

    /// Starts to send `out`.
    ///
    /// # Safety
    /// Nobody may write `out` before the send is complete.
    #[inline]
    unsafe fn start_send(&self) -> Result<Sent> {
        let bytes = self.out.bytes();
        // SAFETY: a lent buffer outlives the worker's operations, and the caller promises that it
        // is not written meanwhile.
        let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
        Ok(self.pair.worker.am_send(self.pair.ep, DATA, &[], buffer)?)
    }

    /// Waits until `word` has reached `count`.
    #[inline]
    fn await_count(&self, word: &AtomicU64, count: u64) -> Result<()> {
        let worker = &self.pair.worker;
        worker
            .wait_until(|| word.load(Ordering::Relaxed) >= count || !worker.failures().is_empty());
        if word.load(Ordering::Relaxed) < count {
            return Err(anyhow!("rank {} has died", self.pair.peer));
        }
        Ok(())
    }

    /// Waits for `count` more messages.
    #[inline]
    fn take(&mut self, count: usize) -> Result<()> {
        self.expected += count as u64;
        self.await_count(&self.notes.messages, self.expected)?;
        // Taken here, before the next message can come.
        self.stamp = self.notes.stamp.swap(0, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn stamped(&self, sequence: u64) -> bool {
        self.stamp == payload::carried(sequence, self.size)
    }

    fn expect(&self, seed: u64) -> Result<()> {
        let mut pattern = self.notes.pattern.lock().unwrap_or_else(PoisonError::into_inner);
        *pattern = Some(Comparison { seed, compared: 0, error: None });
        drop(pattern);
        self.notes.wanted.store(1, Ordering::Relaxed);
        // The peer's messages must not come before they are expected.
        self.pair.meet()
    }

    fn compared(&self, messages: usize) -> Result<()> {
        self.notes.wanted.store(0, Ordering::Relaxed);
        let mut pattern = self.notes.pattern.lock().unwrap_or_else(PoisonError::into_inner);
        let comparison = pattern.take().expect("a pattern was expected before");
        match comparison.error {
            Some(error) => Err(error),
            None if comparison.compared != messages as u64 => {
                bail!("{} messages came where {messages} were sent", comparison.compared)
            }
            None => Ok(()),
        }
    }
}

impl PingPong for Side<'_> {
    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    #[inline]
    fn send(&mut self) -> Result<()> {
        // SAFETY: waited for before the method returns; after an error the side is not used.
        let sent = unsafe { self.start_send()? };
        self.pair.finish(sent)
    }

    #[inline]
    fn receive(&mut self) -> Result<()> {
        self.take(1)
    }

    #[inline]
    fn is_stamped(&mut self, sequence: u64) -> bool {
        self.stamped(sequence)
    }

    fn expect_pattern(&mut self, seed: u64) -> Result<()> {
        self.expect(seed)
    }

    fn check_pattern(&mut self, _: u64) -> Result<()> {
        self.compared(1)
    }
}

impl Stream for Side<'_> {
    fn outgoing(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    fn send_window(&mut self) -> Result<()> {
        for _ in 0..self.window {
            // SAFETY: waited for below; after an error the side is not used.
            if let Sent::Pending(id) = unsafe { self.start_send()? } {
                self.open.push(id);
            }
        }
        for id in self.open.drain(..) {
            self.pair.wait(id)?;
        }
        self.answers += 1;
        self.await_count(&self.notes.answers, self.answers)
    }

    fn receive_window(&mut self) -> Result<()> {
        self.take(self.window)
    }

    fn answer(&mut self) -> Result<()> {
        let sent = self.pair.worker.am_send(self.pair.ep, ANSWER, &[], SendBuf::empty())?;
        self.pair.finish(sent)
    }

    fn is_stamped(&mut self, sequence: u64) -> bool {
        self.stamped(sequence)
    }

    fn expect_pattern(&mut self, seed: u64) -> Result<()> {
        self.expect(seed)
    }

    fn check_pattern(&mut self, _: u64) -> Result<()> {
        self.compared(self.window)
    }
}
