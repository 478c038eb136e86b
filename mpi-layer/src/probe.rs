//! Probes: the envelopes of messages before they are received, and claims to them. (MPI: Point-to-Point
//! Communication, "Probe and Cancel".)

use bowline_base::buffer::RecvBuf;
use bowline_ucp::MatchSpec;

use crate::comm::Communicator;
use crate::datatype::{Datatype, bytes_of_mut};
use crate::error::MpiError;
use crate::handles;
use crate::status::Status;

/// A message that a matched probe has claimed: no other receive can get it. Dropped without
/// being received, the message is received and thrown away, so that its sender is not held up.
#[derive(Debug)]
#[must_use = "a claimed message waits to be received; dropping it throws the message away"]
pub struct ClaimedMessage {
    pub(crate) comm: Communicator,
    status: Status,
    // `None` for a message from nobody, and when it has been received.
    pub(crate) message: Option<bowline_ucp::MatchedMessage>,
}

impl Communicator {
    /// Waits for a message that a receive with these arguments would get, and describes it without
    /// receiving it. (`MPI_Probe`)
    ///
    /// A sender may cancel the message between this call and the receive, which then waits for
    /// another one. Where senders cancel, [`mprobe`](Self::mprobe) claims the message.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv), except truncation.
    pub fn probe(&self, source: i32, tag: i32) -> Result<Status, MpiError> {
        let Some(spec) = self.wanted(source, tag)? else { return Ok(Status::NULL) };
        self.until_found(&spec, || {
            self.inner.process.worker.probe(&spec).map(|info| Status::of_message(&info))
        })
    }

    /// Describes a message that a receive with these arguments would get now, if there is one.
    /// (`MPI_Iprobe`)
    ///
    /// # Errors
    /// [`MpiError::InvalidRank`] and [`MpiError::InvalidTag`]; the sender's death, when there is no
    /// message of it left.
    pub fn iprobe(&self, source: i32, tag: i32) -> Result<Option<Status>, MpiError> {
        let Some(spec) = self.wanted(source, tag)? else { return Ok(Some(Status::NULL)) };
        self.inner.process.progress_or_yield();
        let found = self.inner.process.worker.probe(&spec).map(|info| Status::of_message(&info));
        self.or_death(&spec, found)
    }

    /// Waits for a message that a receive with these arguments would get, and claims it.
    /// (`MPI_Mprobe`)
    ///
    /// # Errors
    /// As for [`probe`](Self::probe).
    pub fn mprobe(&self, source: i32, tag: i32) -> Result<ClaimedMessage, MpiError> {
        let Some(spec) = self.wanted(source, tag)? else { return Ok(self.claimed_null()) };
        self.until_found(&spec, || self.claim(&spec))
    }

    /// Claims a message that a receive with these arguments would get now, if there is one.
    /// (`MPI_Improbe`)
    ///
    /// # Errors
    /// As for [`iprobe`](Self::iprobe).
    pub fn improbe(&self, source: i32, tag: i32) -> Result<Option<ClaimedMessage>, MpiError> {
        let Some(spec) = self.wanted(source, tag)? else { return Ok(Some(self.claimed_null())) };
        self.inner.process.progress_or_yield();
        self.or_death(&spec, self.claim(&spec))
    }

    /// What was found, or why nothing will be: a caller that probes again and again must learn of it.
    fn or_death<R>(&self, spec: &MatchSpec, found: Option<R>) -> Result<Option<R>, MpiError> {
        if found.is_none() {
            self.inner.process.worker.check(spec)?;
        }
        Ok(found)
    }

    fn claim(&self, spec: &MatchSpec) -> Option<ClaimedMessage> {
        let (info, message) = self.inner.process.worker.claim(spec)?;
        let status = Status::of_message(&info);
        Some(ClaimedMessage { comm: self.clone(), status, message: Some(message) })
    }

    fn claimed_null(&self) -> ClaimedMessage {
        ClaimedMessage { comm: self.clone(), status: Status::NULL, message: None }
    }

    /// Waits until `found` finds something, or cannot any more since the sender is dead.
    fn until_found<R>(
        &self,
        spec: &MatchSpec,
        mut found: impl FnMut() -> Option<R>,
    ) -> Result<R, MpiError> {
        let worker = &self.inner.process.worker;
        let mut result = None;
        self.inner.process.wait_until(|| {
            // What has arrived from a sender that died since is still found.
            result = found().map(Ok).or_else(|| worker.check(spec).err().map(Err));
            result.is_some()
        });
        result.expect("the wait ends with one or the other").map_err(MpiError::from)
    }
}

impl ClaimedMessage {
    /// Source, tag and length of the message.
    pub const fn status(&self) -> &Status {
        &self.status
    }

    /// Receives the message. (`MPI_Mrecv`)
    ///
    /// # Errors
    /// [`MpiError::Truncated`] when the message is longer than `items`, the sender's failure.
    pub fn recv<T: Datatype>(mut self, items: &mut [T]) -> Result<Status, MpiError> {
        let Some(message) = self.message.take() else { return Ok(Status::NULL) };
        let info = handles::receive_claimed(
            &self.comm.inner.process,
            message,
            bytes_of_mut(items),
            |id| self.comm.inner.claimed(id),
        )?;
        Ok(Status::of_message(&info))
    }
}

impl Drop for ClaimedMessage {
    fn drop(&mut self) {
        let Some(message) = self.message.take() else { return };
        let worker = &self.comm.inner.process.worker;
        match worker.recv_claimed(message, RecvBuf::empty()) {
            Ok(id) => worker.detach(id),
            Err(error) => tracing::debug!("a claimed message was dropped with its sender: {error}"),
        }
    }
}
