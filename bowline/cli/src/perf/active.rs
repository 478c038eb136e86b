//! Active messages on the protocol engine: the handler notes what came, the waiting side asks for
//! it. What comes in one piece is checked where it is: both ends of each timed message, as much
//! as shows that it is the right one, and every byte of those that are compared with a pattern. Data
//! that lies with its sender is received into slots; a message that finds none is kept until one is free.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, anyhow, bail};
use bowline::ucp::{AmKept, OpError, Sent, Worker};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::sync::atomic::{AtomicU64, Ordering};
use bowline_base::view::View;

use super::drive::{Carried, PingPong, Stream};
use super::pair::{Lent, Pair};
use super::payload;
use super::plan::Plan;

/// Ids of the handlers.
const DATA: u16 = 1;
const ANSWER: u16 = 2;

/// What the handlers note. They run in the thread that reads it, so Relaxed accesses order
/// nothing and need not.
#[derive(Default)]
struct Notes {
    messages: AtomicU64,
    answers: AtomicU64,
    /// Messages that could not be received.
    lost: AtomicU64,
    /// Whether the peer has failed or left.
    ended: AtomicU64,
    /// Messages of a window, which carry one sequence number; set before the first one comes.
    window: AtomicU64,
    /// The number of the window whose messages come, and how many of it are still to come.
    due: AtomicU64,
    due_still: AtomicU64,
    /// Messages that carried another number.
    wrong: AtomicU64,
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
    /// A message has come: the number that it must carry. They come in the order of their sends.
    #[inline]
    fn arrived(&self) -> u64 {
        // One thread: additions that no other can come between need not be locked ones.
        let mut still = self.due_still.load(Ordering::Relaxed);
        if still == 0 {
            still = self.window.load(Ordering::Relaxed);
            self.due.store(self.due.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        self.due_still.store(still - 1, Ordering::Relaxed);
        self.due.load(Ordering::Relaxed)
    }

    /// The data of the message that must carry `due` is here.
    #[inline]
    fn message(&self, data: &[u8], due: u64) {
        if self.wanted.load(Ordering::Relaxed) != 0 {
            self.compare(data);
        } else {
            self.stamped(payload::stamp_of(data), payload::carried(due, data.len()));
        }
        self.messages.store(self.messages.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The same for a message where its transport has it.
    #[inline]
    fn in_place(&self, data: View<'_>) {
        let due = self.arrived();
        if self.wanted.load(Ordering::Relaxed) != 0 {
            self.compare(&data.to_vec());
        } else {
            self.stamped(payload::stamp_in(data), payload::carried(due, data.len()));
        }
        self.messages.store(self.messages.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline]
    fn stamped(&self, stamp: Option<u64>, due: u64) {
        if stamp != Some(due) {
            self.wrong.store(1, Ordering::Relaxed);
        }
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

/// Where messages are received to that do not come with their data.
struct Slots {
    notes: Arc<Notes>,
    /// Address of the first; a lent buffer, which outlives the worker and all that it calls.
    start: usize,
    size: usize,
    free: Vec<usize>,
    /// Messages that found no slot, with the numbers that they must carry.
    waiting: VecDeque<(AmKept, u64)>,
}

type Shared = Arc<Mutex<Slots>>;

fn lock(slots: &Shared) -> MutexGuard<'_, Slots> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives `message`, or keeps it until a slot is free.
fn receive(slots: &Shared, worker: &Worker, message: AmKept, due: u64) {
    let slot = {
        let mut all = lock(slots);
        match all.free.pop() {
            Some(slot) => slot,
            None => return all.waiting.push_back((message, due)),
        }
    };
    if let Err(error) = receive_into(slots, worker, message, due, slot) {
        tracing::warn!(%error, "a message cannot be received");
        lock(slots).notes.lost.fetch_add(1, Ordering::Relaxed);
    }
}

fn receive_into(
    slots: &Shared,
    worker: &Worker,
    message: AmKept,
    due: u64,
    slot: usize,
) -> Result<(), OpError> {
    let (start, size) = {
        let all = lock(slots);
        (all.start + slot * all.size, all.size)
    };
    // SAFETY: the slot is in a lent buffer, which outlives the worker's operations; it is not
    // free, so that nothing else uses it, until the operation has completed.
    let buffer = unsafe { RecvBuf::borrowed(start as *mut u8, size) };
    let id = worker.am_recv(message, buffer)?;
    let slots = Arc::clone(slots);
    let done = move |worker: &Worker, completion: bowline::ucp::RequestCompletion| {
        let next = {
            let mut all = lock(&slots);
            match completion.status.outcome {
                Ok(()) => {
                    let length = completion.status.length as usize;
                    // SAFETY: the operation is complete and the slot not yet free, so that these
                    // bytes are nobody else's.
                    let data = unsafe { std::slice::from_raw_parts(start as *const u8, length) };
                    all.notes.message(data, due);
                }
                Err(_) => {
                    all.notes.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
            all.free.push(slot);
            all.waiting.pop_front()
        };
        if let Some((next, due)) = next {
            receive(&slots, worker, next, due);
        }
    };
    worker.on_complete(id, Box::new(done))
}

/// One side. Its sends have completed whenever a method returns `Ok`. A side whose operation failed
/// is not used any more (the loops of `drive` end with the first error), and its buffers outlive
/// its worker.
pub(crate) struct Side<'a> {
    pair: &'a Pair,
    out: Lent<'a>,
    /// The slots' memory.
    _into: Lent<'a>,
    notes: Arc<Notes>,
    /// Messages and answers waited for so far.
    expected: u64,
    answers: u64,
    window: usize,
    open: Vec<bowline::ucp::RequestId>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(pair: &'a Pair, plan: &Plan) -> Self {
        let notes = Arc::new(Notes::default());
        notes.window.store(plan.window as u64, Ordering::Relaxed);
        let [messages, in_place, answers, ended] = [(); 4].map(|()| Arc::clone(&notes));
        let mut into = pair.buffer(plan.size * plan.slots());
        let slots = Arc::new(Mutex::new(Slots {
            notes: Arc::clone(&notes),
            start: into.slot(0, 0).addr(),
            size: plan.size,
            free: (0..plan.slots()).rev().collect(),
            waiting: VecDeque::new(),
        }));
        pair.worker.am_handler(
            DATA,
            Box::new(move |worker, message| {
                let due = messages.arrived();
                match message.data() {
                    Some(data) => messages.message(data, due),
                    None => receive(&slots, worker, message.keep(), due),
                }
            }),
        );
        pair.worker
            .am_handler_in_place(DATA, Box::new(move |message| in_place.in_place(message.data)));
        pair.worker.am_handler(
            ANSWER,
            Box::new(move |_, _| {
                answers.answers.fetch_add(1, Ordering::Relaxed);
            }),
        );
        // Asked for at every poll, it must not cost more than a load.
        let ends = ended.clone();
        let watch = Box::new(move |_: &Worker, _, _| ends.ended.store(1, Ordering::Relaxed));
        if pair.worker.on_error(pair.ep, watch).is_err() {
            ended.ended.store(1, Ordering::Relaxed);
        }
        Self {
            pair,
            out: pair.buffer(plan.size),
            _into: into,
            notes,
            expected: 0,
            answers: 0,
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
        let lost = || self.notes.lost.load(Ordering::Relaxed) != 0;
        let ended = || self.notes.ended.load(Ordering::Relaxed) != 0;
        worker.wait_until(|| word.load(Ordering::Relaxed) >= count || lost() || ended());
        if lost() {
            bail!("a message could not be received");
        }
        if word.load(Ordering::Relaxed) < count {
            return Err(anyhow!("rank {} has died", self.pair.peer));
        }
        Ok(())
    }

    /// Waits for `count` more messages.
    #[inline]
    fn take(&mut self, count: usize) -> Result<()> {
        self.expected += count as u64;
        self.await_count(&self.notes.messages, self.expected)
    }

    /// Whether all messages that came carried the numbers of their windows.
    #[inline]
    fn all_right(&self) -> bool {
        self.notes.wrong.load(Ordering::Relaxed) == 0
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
        // The next window is number 1.
        self.notes.due.store(0, Ordering::Relaxed);
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
    fn is_stamped(&mut self, _: u64) -> bool {
        self.all_right()
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
        Ok(())
    }

    fn await_answer(&mut self) -> Result<()> {
        self.answers += 1;
        self.await_count(&self.notes.answers, self.answers)
    }

    fn receive_window(&mut self, carried: Carried) -> Result<()> {
        self.take(self.window)?;
        match carried {
            Carried::Pattern(_) => self.compared(self.window),
            Carried::Stamp(_) if self.all_right() => Ok(()),
            Carried::Stamp(sequence) => Err(payload::wrong_stamp(self.out.bytes().len(), sequence)),
        }
    }

    fn answer(&mut self) -> Result<()> {
        let sent = self.pair.worker.am_send(self.pair.ep, ANSWER, &[], SendBuf::empty())?;
        self.pair.finish(sent)
    }

    fn expect_pattern(&mut self, seed: u64) -> Result<()> {
        self.expect(seed)
    }
}
