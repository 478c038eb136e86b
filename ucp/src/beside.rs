//! What a layer above has moved on beside its rank: work that posts and takes operations as their ends allow.
//!
//! A helper thread ([`turn`](crate::turn)) moves messages. A sequence of messages, of which each is sent after others
//! have come, would stop at every one until the rank calls. So the helper also calls [`Beside::advance`], outside of
//! the worker, after each of its looks, and does not sleep before that has found nothing to do.
//!
//! ```text
//!   helper   look at the lanes ──► Beside::advance ──► SideDoor::{take, send, recv} ... ──► nothing moved: sleep
//!   rank     any call that posts ──► its wait is for room, or actions were carried out ──► wakes the helper
//! ```
//! Rules. (1) An operation is posted and taken through the worker's lock, one at a time, so that rank and helper may
//! both do it. (2) Who of the two moves a piece of work is for its owner to decide; it must not be two at once, and
//! none may be left that one of them saw. (3) What the rank's calls leave undone or complete unseen wakes the
//! helper. (4) What the helper moved wakes the rank, if it sleeps.

use std::sync::Arc;

use bowline_base::buffer::{RecvBuf, SendBuf};

use crate::error::OpError;
use crate::matching::{Envelope, MatchSpec};
use crate::peer::Ep;
use crate::request::{RequestId, Status};
use crate::tagged::{SendMode, Sent};
use crate::turn::SideDoor;
use crate::worker::{Inner, Worker};

/// Work of a layer above, which a helper thread moves on while the rank computes.
pub trait Beside: Send + Sync {
    /// Does what can be done, by the helper's thread; must not wait. Whether anything was.
    fn advance(&self, door: &SideDoor) -> bool;
}

impl Worker {
    /// Has `work` moved on by the worker's helper, in place of what was before. `false`: it has no helper.
    pub fn move_beside(&self, work: Arc<dyn Beside>) -> bool {
        let attendance = &mut self.inner.borrow_mut().engine.attendance;
        if !attendance.has_helper() {
            return false;
        }
        attendance.beside = Some(work);
        true
    }

    /// Has the helper, if there is one, look at what it moves on beside: there is something to do.
    pub fn call_helper(&self) {
        self.inner.borrow_mut().call_helper();
    }
}

impl SideDoor {
    /// [`Worker::send`].
    ///
    /// # Errors
    /// Those of that.
    pub fn send(
        &self,
        ep: Ep,
        envelope: Envelope,
        buffer: SendBuf,
        mode: SendMode,
    ) -> Result<Sent, OpError> {
        self.enter().send(ep, envelope, buffer, mode)
    }

    /// [`Worker::recv`].
    ///
    /// # Errors
    /// Those of that.
    pub fn recv(&self, spec: MatchSpec, buffer: RecvBuf) -> Result<RequestId, OpError> {
        // No turns beside a helper: nobody is told of the receive.
        let (key, _) = self.enter().recv(spec, buffer)?;
        Ok(RequestId(key))
    }

    /// [`Worker::take`].
    pub fn take(&self, id: RequestId) -> Option<Status> {
        self.enter().engine.take(id.0)
    }

    /// [`Worker::cancel`].
    pub fn cancel(&self, id: RequestId) {
        self.enter().cancel(id);
    }
}

impl Inner {
    /// Wakes a helper that sleeps: something is left to do, or has ended, of which no lane tells it (rule 3).
    /// A helper that is about to sleep finds the mark: the holder of the lock sets marks and arms doorbells.
    #[inline]
    pub(crate) fn call_helper(&mut self) {
        if self.engine.attendance.has_helper() {
            // Also where nothing is left: an action may have completed what a piece of work waits for.
            self.engine.attendance.called = true;
            self.ring_helper();
        }
    }

    #[cold]
    fn ring_helper(&self) {
        // Without a doorbell the helper's sleeps are short.
        if let Some(bell) = self.doorbell() {
            bell.ring();
        }
    }
}
