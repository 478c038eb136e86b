//! Tagged messages on the protocol engine.

use anyhow::Result;
use bowline::ucp::{RequestId, Sent};
use bowline_base::buffer::{RecvBuf, SendBuf};

use super::drive::{PingPong, Stream};
use super::pair::{ANSWER, DATA, Pair};
use super::payload::{self, Buffer};
use super::plan::Plan;

/// One side. All its operations have completed whenever a method returns `Ok`; a side whose
/// operation failed is not used any more, and its worker goes before its buffers do.
pub(crate) struct Side<'a> {
    pair: &'a Pair,
    out: Buffer,
    /// Room for a window, one message after the other.
    into: Buffer,
    size: usize,
    window: usize,
    open: Vec<RequestId>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(pair: &'a Pair, plan: &Plan) -> Self {
        Self {
            pair,
            out: Buffer::new(plan.size),
            into: Buffer::new(plan.size * plan.window),
            size: plan.size,
            window: plan.window,
            open: Vec::with_capacity(plan.window),
        }
    }

    fn start_send(&self) -> Result<Sent> {
        let bytes = self.out.bytes();
        // SAFETY: `out` is written by nobody before the send is complete: callers wait for what
        // is pending before they return.
        let buffer = unsafe { SendBuf::borrowed(bytes.as_ptr(), bytes.len()) };
        self.pair.send(DATA, buffer)
    }

    fn start_receive(&mut self, place: usize) -> Result<RequestId> {
        let room = &mut self.into.bytes_mut()[place * self.size..][..self.size];
        // SAFETY: the pieces of `into` do not overlap, each is used by one receive at a time, and
        // callers wait for the receive before they return or look at the bytes.
        let buffer = unsafe { RecvBuf::borrowed(room.as_mut_ptr(), room.len()) };
        Ok(self.pair.worker.recv(self.pair.wanted(DATA), buffer)?)
    }
}

impl PingPong for Side<'_> {
    #[inline]
    fn outgoing(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    #[inline]
    fn send(&mut self) -> Result<()> {
        let sent = self.start_send()?;
        self.pair.finish(sent)
    }

    #[inline]
    fn receive(&mut self) -> Result<()> {
        let id = self.start_receive(0)?;
        self.pair.wait(id).map(drop)
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
        for _ in 0..self.window {
            if let Sent::Pending(id) = self.start_send()? {
                self.open.push(id);
            }
        }
        for id in self.open.drain(..) {
            self.pair.wait(id)?;
        }
        let answer = self.pair.worker.recv(self.pair.wanted(ANSWER), RecvBuf::empty())?;
        self.pair.wait(answer).map(drop)
    }

    fn receive_window(&mut self) -> Result<()> {
        for place in 0..self.window {
            let id = self.start_receive(place)?;
            self.open.push(id);
        }
        for id in self.open.drain(..) {
            self.pair.wait(id)?;
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<()> {
        let sent = self.pair.send(ANSWER, SendBuf::empty())?;
        self.pair.finish(sent)
    }

    fn is_stamped(&mut self, sequence: u64) -> bool {
        let mut all = self.into.bytes().chunks_exact(self.size.max(1));
        all.all(|message| payload::is_stamped(message, sequence))
    }

    fn check_pattern(&mut self, seed: u64) -> Result<()> {
        let mut all = self.into.bytes().chunks_exact(self.size.max(1));
        all.try_for_each(|message| payload::check(message, seed))
    }
}
