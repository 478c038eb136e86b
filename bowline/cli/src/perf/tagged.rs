//! Tagged messages on the protocol engine.

use std::collections::VecDeque;

use anyhow::Result;
use bowline::ucp::{RequestId, Sent};
use bowline_base::buffer::{RecvBuf, SendBuf};

use super::ahead::Ahead;
use super::drive::{Carried, PingPong, Stream};
use super::pair::{ANSWER, DATA, Lent, Pair};
use super::payload;
use super::plan::Plan;

/// One side. Its sends have completed whenever a method returns `Ok`; receives of a next window may
/// have been started. A side whose operation failed is not used any more (the loops of `drive` end
/// with the first error), and its buffers outlive its worker.
pub(crate) struct Side<'a> {
    pair: &'a Pair,
    out: Lent<'a>,
    /// Slots, one after the other.
    into: Lent<'a>,
    size: usize,
    window: usize,
    slots: usize,
    /// Whether a receive is started when its message has come, and not before.
    late: bool,
    open: Ahead<RequestId>,
    /// Sends that have not completed.
    sending: Vec<RequestId>,
    /// Receives of answers.
    answers: VecDeque<RequestId>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(pair: &'a Pair, plan: &Plan) -> Self {
        Self {
            pair,
            out: pair.buffer(plan.size),
            into: pair.buffer(plan.size * plan.slots()),
            size: plan.size,
            window: plan.window,
            slots: plan.slots(),
            late: plan.test.receives_late(),
            open: Ahead::new(plan),
            sending: Vec::with_capacity(plan.window),
            answers: VecDeque::with_capacity(2),
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
        self.pair.send(DATA, buffer)
    }

    /// Starts to receive into the slot of the message at `place` of a window.
    ///
    /// # Safety
    /// Nobody may read this slot, nor start another receive into it, before the receive is
    /// complete.
    #[inline]
    unsafe fn start_receive(&mut self, place: usize) -> Result<RequestId> {
        let slot = self.into.slot(place * self.size, self.size);
        // SAFETY: `slot` has `size` bytes; a lent buffer outlives the worker's operations, and the
        // caller promises that the slot is left to the receive. Slots of different places do not
        // overlap.
        let buffer = unsafe { RecvBuf::borrowed(slot, self.size) };
        Ok(self.pair.worker.recv(self.pair.wanted(DATA), buffer)?)
    }

    /// Receives the next message of a window. Others are received ahead, as many as there are slots.
    #[inline]
    fn receive_next(&mut self, carried: Carried) -> Result<()> {
        if self.slots == 1 {
            PingPong::receive(self)?;
            return carried.check(self.into.bytes());
        }
        while let Some(slot) = self.open.free() {
            // SAFETY: the receive before into this slot has ended and was checked, as `Ahead` says.
            // This one is waited for below before anybody reads the slot; after an error the side is not used.
            let receive = unsafe { self.start_receive(slot)? };
            self.open.started(receive);
        }
        let (oldest, slot) = self.open.oldest();
        self.pair.wait(oldest)?;
        let slot = self.into.slot(slot * self.size, self.size);
        // SAFETY: the receive into this slot is complete, and the next one into it is started by a
        // later call; no other receive's slot overlaps it.
        carried.check(unsafe { std::slice::from_raw_parts(slot, self.size) })
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
        if self.late {
            self.pair.await_arrival(DATA)?;
        }
        let slot = self.into.slot(0, self.size);
        // SAFETY: `slot` has `size` bytes of a lent buffer, and nobody else reads them before the
        // method returns, with which the receive has ended; after an error the side is not used.
        let buffer = unsafe { RecvBuf::borrowed(slot, self.size) };
        self.pair.worker.recv_blocking(self.pair.wanted(DATA), buffer)?;
        Ok(())
    }

    #[inline]
    fn is_stamped(&mut self, sequence: u64) -> bool {
        payload::is_stamped(self.into.bytes(), sequence)
    }

    fn check_pattern(&mut self, seed: u64) -> Result<()> {
        payload::check(self.into.bytes(), seed)
    }
}

impl Stream for Side<'_> {
    fn outgoing(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    fn send_window(&mut self) -> Result<()> {
        let answer = self.pair.worker.recv(self.pair.wanted(ANSWER), RecvBuf::empty())?;
        self.answers.push_back(answer);
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
        let answer = self.answers.pop_front().expect("a window was sent before its answer comes");
        self.pair.wait(answer).map(drop)
    }

    fn receive_window(&mut self, carried: Carried) -> Result<()> {
        for _ in 0..self.window {
            self.receive_next(carried)?;
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<()> {
        let sent = self.pair.send(ANSWER, SendBuf::empty())?;
        self.pair.finish(sent)
    }
}
