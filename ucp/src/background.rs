//! Background work: what a layer above has moved on while its rank computes. It posts and takes operations as their ends allow.
//!
//! A progress thread ([`async_progress`](crate::async_progress)) moves messages. A sequence of messages, of which each is sent after others
//! have come, would stop at every one until the rank calls. So the thread also calls [`BackgroundWork::advance`], outside of
//! the worker, after each of its polls, and does not sleep before that has found nothing to do.
//!
//! ```text
//!   thread   poll the lanes    ──► BackgroundWork::advance ──► RemoteWorker::{take, send, recv} ... ──► nothing moved: sleep
//!   rank     any call that posts ──► its wait is for space, or actions were carried out ──► wakes the thread
//! ```
//! Rules. (1) An operation is posted and taken through the worker's lock, one at a time, so that rank and thread may
//! both do it. (2) Which of the two moves a piece of work is for its owner to decide; it must not be both at once, and
//! none may be left that one of them saw. (3) What the rank's calls leave undone or complete unseen wakes the
//! thread. (4) What the thread moved wakes the rank, if it sleeps.

use std::sync::Arc;

use bowline_base::buffer::{RecvBuf, SendBuf};

use crate::engine::{BackgroundWork, Inner, RemoteWorker};
use crate::error::OpError;
use crate::matching::{Envelope, MatchSpec};
use crate::peer::Ep;
use crate::request::{RequestId, Sent};
use crate::status::OpStatus;
use crate::tagged::SendMode;
use crate::worker::Worker;

impl Worker {
    /// Has `work` moved on by the worker's progress thread, in place of what was before. `false`: it has none. The
    /// thread does nothing while another has the worker by [`SharedWorker::with`](crate::SharedWorker::with).
    pub fn set_background_work(&self, work: Arc<dyn BackgroundWork>) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.engine.async_state.has_thread() {
            return false;
        }
        inner.background = Some(work);
        true
    }

    /// Wakes the progress thread, if there is one, for what it moves on beside: there is something to do.
    pub fn call_progress_thread(&self) {
        self.inner.borrow_mut().call_progress_thread();
    }
}

impl RemoteWorker {
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
        // No signals beside a progress thread: no driver has to be notified of the receive.
        let (key, _) = self.enter().recv(spec, buffer)?;
        Ok(RequestId(key))
    }

    /// [`Worker::watch_send`]: nobody has to be notified, as for receives.
    pub const fn watch_send(&self, _: RequestId) {}

    /// [`Worker::take`].
    pub fn take(&self, id: RequestId) -> Option<OpStatus> {
        self.enter().engine.take(id.0)
    }

    /// [`Worker::detach`].
    pub fn detach(&self, id: RequestId) {
        self.enter().engine.detach(id);
    }

    /// [`Worker::cancel`].
    pub fn cancel(&self, id: RequestId) {
        self.enter().cancel(id);
    }
}

impl Inner {
    /// Wakes a progress thread that sleeps: something is left to do, or has ended, for which no lane wakes it (rule 3).
    /// A thread that is about to sleep finds the mark: the holder of the lock sets marks and arms doorbells.
    #[inline]
    pub(crate) fn call_progress_thread(&mut self) {
        if self.engine.async_state.has_thread() {
            // Also where nothing is left: an action may have completed what a piece of work waits for.
            self.engine.async_state.called = true;
            self.ring_progress_thread();
        }
    }

    #[cold]
    fn ring_progress_thread(&self) {
        // Without a doorbell the thread's sleeps are short.
        if let Some(bell) = self.doorbell() {
            bell.ring();
        }
    }
}
