//! Tagged messages whose receives are posted before the messages are sent, so that a receiver may begin:
//! with `BOWLINE_RNDV_SCHEME=rtr` each is announced, and the message written to it.
//!
//! Receives go into memory that the worker has allocated, as puts do in the tests of [`super::onesided`].
//! In the ping-pong each side has two posted: the next one, and the one behind it, which it posts behind a
//! send, so that no announcement is between a message and its answer. In windows the receiver posts all
//! receives of the next window before it answers one.

use anyhow::{Result, anyhow};
use bowline::ucp::{MemoryHandle, RequestId, Sent};
use bowline_base::buffer::{RecvBuf, SendBuf};
use bowline_base::view::View;

use super::ahead::Ahead;
use super::drive::{Carried, PingPong, Stream};
use super::pair::{ANSWER, DATA, Lent, Pair};
use super::payload;
use super::plan::Plan;

/// Receives of a ping-pong that are posted at the same time.
const POSTED: usize = 2;

/// Where slots begin.
const ALIGN: usize = 4096;

/// One side. A side whose operation failed is not used any more, and its memory is its worker's.
pub(crate) struct Side<'a> {
    pair: &'a Pair,
    out: Lent<'a>,
    /// Slots, one after the other.
    into: MemoryHandle,
    size: usize,
    window: usize,
    open: Ahead<RequestId>,
    /// The slot of the message that was received last.
    last: usize,
    /// Sends that have not completed.
    sending: Vec<RequestId>,
}

impl<'a> Side<'a> {
    /// Posts the first receives of both sides.
    ///
    /// # Errors
    /// When the worker cannot allocate, or the peer fails.
    pub(crate) fn new(pair: &'a Pair, plan: &Plan, receives: bool) -> Result<Self> {
        let slots = if plan.window > 1 { plan.window } else { POSTED };
        let into = pair.worker.mem_alloc((slots * stride(plan.size)).max(ALIGN))?;
        let messages = if receives { plan.messages() } else { 0 };
        let mut side = Self {
            pair,
            out: pair.buffer(plan.size),
            into,
            size: plan.size,
            window: plan.window,
            open: Ahead::of(slots, messages),
            last: 0,
            sending: Vec::with_capacity(plan.window),
        };
        while side.post()? {}
        pair.meet()?;
        Ok(side)
    }

    /// Gives the memory back: every message has been received.
    ///
    /// # Errors
    /// When it is not the worker's.
    pub(crate) fn close(self) -> Result<()> {
        self.pair.meet()?;
        self.pair.worker.mem_release(self.into)?;
        Ok(())
    }

    fn slot<R>(&self, slot: usize, read: impl FnOnce(View<'_>) -> R) -> Result<R> {
        let (at, size) = (slot * stride(self.size), self.size);
        let found = self.pair.worker.mem_view(self.into, |view| view.slice(at, size).map(read))?;
        found.ok_or_else(|| anyhow!("the memory is shorter than it was made"))
    }

    /// Posts the next receive, if a slot is free and a message is to come. Whether it did.
    #[inline]
    fn post(&mut self) -> Result<bool> {
        let Some(slot) = self.open.free() else { return Ok(false) };
        let to = self.slot(slot, |view| view.as_ptr())?;
        // SAFETY: the memory is allocated until `close`, by which every receive has ended, or until the worker
        // ends. The receive before into this slot has ended and was checked, as `Ahead` says; slots do not
        // overlap.
        let buffer = unsafe { RecvBuf::borrowed(to, self.size) };
        let receive = self.pair.worker.recv(self.pair.wanted(DATA), buffer)?;
        self.open.started(receive);
        Ok(true)
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
        self.pair.send(DATA, buffer)
    }

    fn received(&self) -> Result<Vec<u8>> {
        self.slot(self.last, |view| view.to_vec())
    }
}

/// Bytes from one slot to the next.
const fn stride(size: usize) -> usize {
    size.next_multiple_of(ALIGN)
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
        self.post()?;
        self.pair.finish(sent)
    }

    #[inline]
    fn receive(&mut self) -> Result<()> {
        let (oldest, slot) = self.open.oldest();
        self.pair.wait(oldest)?;
        self.last = slot;
        Ok(())
    }

    #[inline]
    fn is_stamped(&mut self, sequence: u64) -> bool {
        let found = self.slot(self.last, payload::stamp_in);
        matches!(found, Ok(Some(stamp)) if stamp == payload::carried(sequence, self.size))
    }

    fn check_pattern(&mut self, seed: u64) -> Result<()> {
        payload::check(&self.received()?, seed)
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
                self.sending.push(id);
            }
        }
        for id in self.sending.drain(..) {
            self.pair.wait(id)?;
        }
        Ok(())
    }

    fn await_answer(&mut self) -> Result<()> {
        let answer = self.pair.worker.recv(self.pair.wanted(ANSWER), RecvBuf::empty())?;
        self.pair.wait(answer).map(drop)
    }

    fn receive_window(&mut self, carried: Carried) -> Result<()> {
        for _ in 0..self.window {
            PingPong::receive(self)?;
            match carried {
                Carried::Stamp(sequence) if self.is_stamped(sequence) => {}
                Carried::Stamp(sequence) => return Err(payload::wrong_stamp(self.size, sequence)),
                Carried::Pattern(seed) => self.check_pattern(seed)?,
            }
            self.post()?;
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<()> {
        let sent = self.pair.send(ANSWER, SendBuf::empty())?;
        self.pair.finish(sent)
    }
}
